// The page as a home network meets it: plain HTTP, a bare name, and more tabs than a browser has
// connections for.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { fake } from './fake.mjs';
import { NAME, closeAll, figure, launch, messages, open, pause, state, until } from './harness.mjs';

let browser;
let daemon;
before(async () => { browser = await launch(); });
beforeEach(async () => { daemon = await fake(); });
afterEach(async () => { await closeAll(); daemon.stop(); });
after(() => browser.close());

test('check 22: over plain HTTP copying works, and says so only when it has', async () => {
  daemon.emit([daemon.record({ message: 'to be\ncopied', id: '42', timestamp: '1796098645612345678' })]);
  const { page, offences } = await open(browser, { port: daemon.port });
  assert.equal(await page.evaluate(() => isSecureContext || 'clipboard' in navigator), false);
  await page.locator('.row:not([hidden])', { hasText: 'to be' }).click();
  const pasted = async () => {
    await page.evaluate(() => {
      const area = document.body.appendChild(document.createElement('textarea'));
      area.id = 'paste';
      area.focus();
    });
    await page.keyboard.press('Control+V');
    return page.evaluate(() => { const area = document.getElementById('paste'); const { value } = area; area.remove(); return value; });
  };
  await page.locator('.detail button', { hasText: 'Copy message' }).click();
  await page.waitForSelector('.detail button:text-is("Copied")');
  assert.equal(await pasted(), 'to be\ncopied');
  await page.locator('.detail button', { hasText: 'Copy JSON' }).click();
  const sent = JSON.parse(await pasted());
  assert.equal(sent.timestamp, '1796098645612345678');
  assert.ok(!('id' in sent) && !('received_at' in sent), 'only what a sender may say');
  await page.locator('.detail button', { hasText: 'Copy link' }).click();
  assert.equal(await pasted(), `http://${NAME}:${daemon.port}/?at=1796098645612345678.42`);
  await page.locator('#list').focus();
  await page.keyboard.press('y');
  await until('the key copies too', async () => /copied/i.test(await page.locator('#announce').textContent()));

  // A browser that refuses: nothing is said to be copied, and the text stands selected.
  await page.evaluate(() => { document.execCommand = () => false; });
  const refused = page.locator('.detail button', { hasText: 'Copy message' });
  await refused.click();
  await page.waitForSelector('.detail button:text-is("Press Ctrl+C")');
  assert.equal(await page.evaluate(() => String(getSelection())), 'to be\ncopied');
  assert.deepEqual(offences, []);
});

test('check 22: eight tabs are all usable', async (t) => {
  daemon.many(10);
  const { page: first, context, offences } = await open(browser, { port: daemon.port });
  const pages = [first];
  for (let i = 1; i < 8; i += 1) {
    const page = await context.newPage();
    page.setDefaultTimeout(10_000);
    await page.goto(`http://${NAME}:${daemon.port}/`, { timeout: 10_000 });
    await page.waitForSelector('[data-state="live"]');
    pages.push(page);
  }
  await pause(500);
  const states = () => Promise.all(pages.map(state));
  await until('the tabs agree', async () => (await states()).filter((name) => name === 'live').length === 4);
  assert.deepEqual(await states(), ['tabs', 'tabs', 'tabs', 'tabs', 'live', 'live', 'live', 'live']);
  assert.match(await first.locator('#state-word').textContent(), /too many tabs/);
  for (const page of pages) {
    const took = await page.evaluate(async () => {
      const from = performance.now();
      await (await fetch('api/logs?limit=10', { cache: 'no-store' })).json();
      return performance.now() - from;
    });
    figure(t, 'search (limit 1,000)', took);
    assert.ok(took < 10_000, 'no request waits for another tab');
  }
  // Whoever uses a tab has its live view, from where it stopped.
  daemon.many(5);
  await first.bringToFront();
  await first.mouse.click(640, 300);
  await until('the tab in use is live', async () => (await state(first)) === 'live');
  await until('what came meanwhile is there', async () => (await messages(first)).some((message) => message.startsWith('line 15 ')));
  await until('another one rests', async () => (await states()).filter((name) => name === 'live').length === 4);
  assert.deepEqual(offences, []);
});

test('check 22: a tab that nobody sees for 30 s lets its stream go and has it back when seen', async () => {
  daemon.many(3);
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  await page.clock.install();
  const see = (isHidden) => page.evaluate((hidden) => {
    Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
    document.dispatchEvent(new Event('visibilitychange'));
  }, isHidden);
  await see(true);
  await page.clock.fastForward(29_000);
  assert.equal(daemon.streams.size, 1);
  await page.clock.fastForward(2_000);
  await until('the stream is let go', () => daemon.streams.size === 0);
  daemon.many(2);
  await see(false);
  await until('it is back', () => daemon.streams.size === 1);
  await page.clock.runFor(200);
  await until('with what was missed', async () => { await page.clock.runFor(50); return (await messages(page)).at(-1)?.startsWith('line 5 '); });
  assert.equal(daemon.opened.at(-1).after, '0:3');
  assert.deepEqual(offences, []);
});
