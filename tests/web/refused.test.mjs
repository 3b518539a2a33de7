// The status panel says what was refused, and why.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { closeAll, daemon, launch, open, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const post = (body, path = '/api/logs', type = 'application/json') => fetch(new URL(path, daemon), { method: 'POST', headers: { 'content-type': type }, body })
  .then(({ status }) => status);

test('the status panel says in words how many requests and records were refused, and why', async () => {
  const { page, offences } = await open(browser);
  const shown = () => page.locator('.figures tr', { has: page.locator('th', { hasText: /^Refused$/ }) });
  await page.locator('#menu').click();
  await page.locator('dialog.sheet .choices button', { hasText: 'Status' }).first().click();
  await until('nothing was refused', async () => (await shown().locator('td').textContent()) === 'none');
  assert.notEqual(await shown().getAttribute('class'), 'bad');

  assert.equal(await post('{"message": "cut'), 400);
  assert.equal(await post('{"message": "cut again'), 400);
  assert.equal(await post('x', '/v1/logs', 'text/html'), 415);
  assert.equal(await post('[{"message": "taken"}, 5]'), 202);
  const words = '⚠ 3 requests: 2 could not be read (json) · 1 had an unknown content type (otlp_http) · 1 record of other requests (json)';
  await until('it says why', async () => (await shown().locator('td').textContent()) === words).catch(async (error) => {
    assert.equal(await shown().locator('td').textContent(), words, error.message);
  });
  assert.equal(await shown().getAttribute('class'), 'bad');
  assert.deepEqual(offences, []);
});
