// On a phone, on a narrow one, and where the page is enlarged four times.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { closeAll, launch, messages, open, send, service, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const SIZES = { 'phone 390 × 844': [390, 844], 'narrow 320 × 640': [320, 640], '1280 × 1024 at 400 %': [320, 256] };
const TARGET = 44;

/** No part of the page is wider than the window, and the page itself does not scroll. */
async function fits(page, what) {
  const { width, height, inner, tall } = await page.evaluate(() => ({
    width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight, inner: innerWidth, tall: innerHeight,
  }));
  assert.ok(width <= inner && height <= tall, `${what}: ${width} × ${height} in ${inner} × ${tall}`);
}

const heights = (page, selector) => page.locator(selector).evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));

for (const [name, [width, height]] of Object.entries(SIZES)) {
  test(`check 18: ${name}: nothing overflows, everything is in reach of a finger`, async () => {
    const tag = service();
    const options = { viewport: { width, height }, hasTouch: true, isMobile: true };
    const { page, offences } = await open(browser, { query: `?q=service:${tag}`, options });
    await send([
      { service: tag, level: 'error', message: 'x'.repeat(500), environment: 'prod' },
      ...Array.from({ length: 20 }, (_, i) => ({ service: tag, level: 'info', message: `line ${i}`, trace_id: 'ab'.repeat(16), [`key.${i}`]: 'v'.repeat(300) })),
    ]);
    await until('rows', async () => (await messages(page)).length > 5);
    await fits(page, 'list');
    const buttons = await heights(page, '.bar button:visible, .bar textarea:visible');
    assert.ok(buttons.length >= 5 && buttons.every((size) => size >= TARGET), buttons.join());
    const bar = await page.locator('.bar .actions button:visible').allTextContents();
    assert.deepEqual(bar.map((text) => text.trim()), ['Filter', 'Following', 'Menu']);

    await page.locator('#filter-toggle').tap();
    await page.waitForSelector('.facets .value');
    await fits(page, 'facets');
    assert.ok((await heights(page, '.facets button:visible')).every((size) => size >= TARGET));
    await page.locator('.facets .head button').tap();

    for (const [label, shown] of [
      ['Time range', 'dialog.sheet .range'], ['Save view', 'dialog.sheet .views'], ['Export', 'dialog.sheet a[download]'], ['Status', 'dialog.sheet .figures'],
      ['Time zone', 'dialog.sheet input[list]'], ['Find in what is loaded', '#find input'], ['Keys', '#keys[open]'],
    ]) {
      await page.locator('#menu').tap();
      await fits(page, 'menu');
      await page.locator('dialog.sheet .choices button', { hasText: label }).first().tap();
      await page.waitForSelector(shown, { state: label === 'Save view' ? 'attached' : 'visible' });
      await fits(page, label);
      await page.locator('dialog[open] button, #find:not([hidden]) button', { hasText: 'Close' }).first().tap();
    }

    await page.locator('#follow').tap();
    await until('paused', async () => (await page.locator('#follow').getAttribute('aria-pressed')) === 'false');
    await page.locator('#follow').tap();
    await page.locator('.row:not([hidden])', { hasText: 'line 19' }).first().tap();
    await page.waitForSelector('.detail');
    await fits(page, 'detail');
    await page.locator('.detail button', { hasText: 'Context' }).first().tap();
    await page.waitForSelector('.near.anchor');
    await fits(page, 'context');
    assert.equal(await page.locator('.nearby').evaluate((list) => list.scrollWidth <= list.clientWidth), true, 'context needs no sideways scroll');
    // The detail is a sheet of its own below it.
    await page.locator('dialog.sheet .head button').last().tap();
    await page.locator('.detail button:visible, dialog.sheet .head button:visible').filter({ hasText: 'Close' }).first().tap();
    await page.waitForSelector('.detail', { state: 'detached' });
    await page.fill('#text', `service:${tag} level:error`);
    await page.press('#text', 'Enter');
    await until('the query runs', async () => (await messages(page)).join() === 'x'.repeat(500));
    await fits(page, 'a long line');
    assert.deepEqual(offences, []);
  });
}
