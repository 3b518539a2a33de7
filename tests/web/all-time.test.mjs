// The histogram of all that is kept.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { closeAll, launch, messages, open, send, service, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

test('the histogram shows all time when asked to, goes on counting, and gives way to a range', async () => {
  const name = service();
  const ago = (days) => new Date(Date.now() - days * 86_400_000).toISOString();
  await send([30, 12, 12, 1].map((days) => ({ service: name, message: `line of ${days}`, timestamp: ago(days - 0.5), level: days === 30 ? 'error' : 'info' })));
  const { page, offences } = await open(browser, { query: `?q=service:${name}` });
  await until('rows', async () => (await messages(page)).length === 4);
  const total = () => page.locator('#histogram').getAttribute('data-total');
  const button = page.locator('#histogram .axis > button');
  assert.equal(await total(), '0', 'the last minutes have none');
  const asked = page.waitForRequest(/api\/logs\/histogram/);
  await button.click();
  assert.equal(new URL((await asked).url()).searchParams.get('from'), null);
  await until('all are counted', async () => (await total()) === '4');
  assert.equal(await button.getAttribute('aria-pressed'), 'true');
  const label = await page.locator('#histogram canvas').getAttribute('aria-label');
  assert.match(label, /^4 lines from .*, 1 errors?$/);
  await send([{ service: name, message: 'new' }]);
  await until('what comes is added', async () => (await total()) === '5');
  // Another search keeps to all time; a range has its own, and no choice.
  await page.fill('#text', `service:${name} level:error`);
  await page.press('#text', 'Enter');
  await until('one is left', async () => (await total()) === '1');
  await page.goto(`${new URL(page.url()).origin}/?q=service:${name}&from=2d`);
  await until('those of two days', async () => (await total()) === '2');
  assert.equal(await button.isVisible(), false);
  assert.deepEqual(offences, []);
});
