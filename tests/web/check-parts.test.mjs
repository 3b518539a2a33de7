// The search's parts under the rules that hold for the whole page: hostile text, accessibility.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { problems } from './axe.mjs';
import { closeAll, launch, messages, open, send, service, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const VIEWS = {
  desktop: { viewport: { width: 1280, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

/** Opens each part after the other, and calls `look(name)` while it is open. */
async function eachPart(page, look) {
  const menu = async (label) => {
    await page.locator('#menu').click();
    await page.locator('dialog.sheet .choices button', { hasText: label }).first().click();
  };
  const close = async () => {
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog[open]', { state: 'hidden' });
  };
  await page.locator('#filter-toggle').click();
  await page.waitForSelector('.facets .value');
  await until('facets are filled', async () => (await page.locator('.facets [aria-busy="true"]').count()) === 0);
  await look('facets');
  await page.locator('.facets .head button').click();
  for (const [label, shown] of [
    ['Time range', '.range'], ['Save view', '.inline'], ['Export', 'a[download]'], ['Status', '.figures td'], ['Time zone', 'input[list]'],
  ]) {
    await menu(label);
    await page.waitForSelector(`dialog.sheet ${shown}`);
    await look(label);
    await close();
  }
  await page.locator('#menu').click();
  await look('menu');
  await close();
  await menu('Find in what is loaded');
  await page.keyboard.type('line');
  await until('it counts', async () => /of/.test(await page.locator('#find .says').textContent()));
  await look('find');
  await page.keyboard.press('Escape');
  await page.locator('#list').focus();
  await page.keyboard.press('k');
  await page.keyboard.press('c');
  await page.waitForSelector('.near.anchor');
  await look('context');
  await close();
  await page.fill('#text', 'serv');
  await page.waitForSelector('#offers li');
  await page.keyboard.press('ArrowDown');
  await look('completion');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.locator('.handle.left').focus();
  await page.keyboard.press('ArrowRight');
  await look('choosing a range');
  await page.keyboard.press('Escape');
}

for (const [device, options] of Object.entries(VIEWS)) {
  for (const colorScheme of ['light', 'dark']) {
    test(`check 19: axe finds nothing in the search's parts on a ${device}, ${colorScheme}`, async () => {
      const name = service();
      await send(['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map((level) => ({ service: name, environment: 'prod', level, message: `line of ${level}`, colour: 'red' })));
      const { page } = await open(browser, { query: `?q=service:${name}&columns=colour`, options: { ...options, colorScheme } });
      await until('rows', async () => (await messages(page)).length === 6);
      const found = {};
      await eachPart(page, async (what) => { const all = await problems(page); if (all.length) found[what] = all; });
      await page.fill('#text', `service:${name} level:error -"line" (a OR b)`);
      await page.press('#text', 'Enter');
      await page.waitForSelector('text=No line matches');
      const all = await problems(page);
      assert.deepEqual({ ...found, ...(all.length && { empty: all }) }, {});
    });
  }
}

test('check 16: hostile text is only text in facets, completion, context, find, columns, views and what matches nothing', async () => {
  const name = service();
  const hostile = [
    '<img src=x onerror=alert(1)>', '<script>alert(2)</script>', '<svg onload=alert(3)>', 'javascript:alert(4)', '{{7*7}}${7*7}', '"><b onmouseover=alert(5)>x</b>',
    '__proto__', 'constructor', '\u202ertl', '\u001b[31mred\u001b[0m\u001b]8;;http://evil.example\u0007link\u001b]8;;\u0007',
  ];
  await send(hostile.map((text, i) => ({
    service: text, environment: hostile[(i + 1) % hostile.length], level: 'error', message: `${name} line ${text}`, [text]: text, shared: text,
    resource: { 'host.name': text }, trace_id: 'fe'.repeat(16),
  })));
  const columns = encodeURIComponent(encodeURIComponent(hostile[0]));
  const { page, offences } = await open(browser, { query: `?q="${name}"&columns=${columns}` });
  await until('rows', async () => (await messages(page)).length === hostile.length);
  await page.evaluate(() => {
    globalThis.violations = [];
    addEventListener('securitypolicyviolation', (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  await eachPart(page, async (what) => {
    assert.equal(await page.locator('b, img:not([src="icon.svg"]), #stage svg, dialog svg, body script').count(), 0, what);
  });
  // Its own pinned field, whose values are the hostile ones.
  await page.locator('#filter-toggle').click();
  await page.fill('.facets .pin input', 'shared');
  await page.keyboard.press('Enter');
  await until('its values', async () => (await page.locator('.facets button.value[data-value^="shared="]').count()) > 5);
  const shown = await page.locator('.facets button.value[data-value^="shared="] .label').allTextContents();
  assert.ok(shown.includes(hostile[0]), shown.join());
  await page.locator(`.facets button.value[data-value='shared=${hostile[0]}']`).click();
  await until('one row', async () => (await messages(page)).join() === `${name} line ${hostile[0]}`);
  await page.locator('.facets .head button').click();
  for (const text of hostile.slice(0, 7)) {
    await page.fill('#text', `"${name}" service:"${text.replaceAll('"', '\\"')}" nowhere`);
    await page.press('#text', 'Enter');
    await page.waitForSelector('text=No line matches');
    await until('it counts', async () => (await page.locator('.drops li').count()) > 0);
  }
  await page.locator('#text').fill('shared:');
  await page.waitForSelector('#offers li');
  assert.equal(await page.locator('#offers b, #offers img, #offers script').count(), 0);
  assert.deepEqual(await page.evaluate(() => globalThis.violations), []);
  assert.equal(await page.evaluate(() => ({}).polluted), undefined);
  assert.deepEqual(offences, []);
});
