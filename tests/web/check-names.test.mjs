// The page as a home network meets it: plain HTTP, a bare name, and more tabs than a browser has
// connections for.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { fake } from './fake.mjs';
import { NAME, closeAll, launch, messages, numbers, open, range, state, until, walk, within } from './harness.mjs';

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

/** Opens tabs of one browser, each with a query of its own if there are any. */
async function openTabs(context, count, query = () => '') {
  const pages = [];
  for (let i = 0; i < count; i += 1) {
    const page = await context.newPage();
    await page.goto(`http://${NAME}:${daemon.port}/${query(i)}`);
    await page.waitForSelector('[data-state="live"]');
    pages.push(page);
  }
  return pages;
}

/** Every tab answers a search at once, whatever the others do. */
async function searchInEach(t, pages) {
  for (const page of pages) {
    const took = await page.evaluate(async () => {
      const from = performance.now();
      await (await fetch('api/logs?limit=10', { cache: 'no-store' })).json();
      return performance.now() - from;
    });
    within(t, 'search', took, 1_000);
  }
}

const newestIs = (page, text) => until(text, async () => (await messages(page)).at(-1)?.startsWith(text));
const statesOf = (pages) => Promise.all(pages.map(state));
const lineNumbers = async (page) => (await messages(page)).map((message) => Number(message.split(' ')[1]));

test('check 22: eight tabs share one stream, and all are live and usable', async (t) => {
  daemon.many(10);
  const { page: first, context, offences } = await open(browser, { port: daemon.port });
  await newestIs(first, 'line 10 ');
  daemon.many(10);
  const pages = [first, ...await openTabs(context, 7)];
  assert.equal(daemon.streams.size, 1);
  assert.deepEqual(await statesOf(pages), Array(8).fill('live'));
  for (const page of pages) await newestIs(page, 'line 20 ');
  await searchInEach(t, pages);
  daemon.many(10);
  for (const page of pages) {
    await newestIs(page, 'line 30 ');
    assert.deepEqual(await lineNumbers(page), range(1, 31), 'each line once, the backlog too');
  }

  // A stream that is cut comes back for all; one tab that goes takes nothing from the others.
  daemon.cut();
  daemon.many(10);
  for (const page of pages) await newestIs(page, 'line 40 ');
  await first.close();
  daemon.many(10);
  for (const page of pages.slice(1)) {
    await newestIs(page, 'line 50 ');
    const lines = await lineNumbers(page);
    assert.deepEqual(lines, range(lines[0], 51), 'each line once');
  }
  await until('streams have come together again', async () => { daemon.tick(); return daemon.streams.size === 1; }, 20_000);
  daemon.many(10);
  for (const page of pages.slice(1)) await newestIs(page, 'line 60 ');
  assert.deepEqual(offences, []);
});

test('check 22: a tab that comes back long after has what it missed, and shares a stream again', async () => {
  daemon.many(10);
  const { page, context, offences } = await open(browser, { port: daemon.port });
  await newestIs(page, 'line 10 ');
  const see = (isHidden) => page.evaluate((hidden) => dispatchEvent(new Event(hidden ? 'pagehide' : 'pageshow')), isHidden);
  await see(true);
  await page.waitForSelector('[data-state="hidden"]');
  daemon.many(500);
  const [other] = await openTabs(context, 1);
  await newestIs(other, 'line 510 ');
  await see(false);
  await newestIs(page, 'line 510 ');
  await until('they share one stream', async () => { daemon.tick(); return daemon.streams.size === 1; });
  daemon.many(10);
  for (const each of [page, other]) await newestIs(each, 'line 520 ');
  await page.bringToFront();
  await page.keyboard.press('Space');
  assert.deepEqual(numbers(await walk(page)), range(1, 521));
  assert.deepEqual(offences, []);
});

test('check 22: where the shared worker does not answer, a tab has a stream of its own', async () => {
  daemon.many(3);
  const { page: none, context, offences } = await open(browser, { port: daemon.port });
  await none.close();
  await context.addInitScript(() => { globalThis.SharedWorker = class { constructor() { this.port = new MessageChannel().port1; } }; });
  const [page] = await openTabs(context, 1);
  await newestIs(page, 'line 3 ');
  assert.deepEqual(offences, []);
});

for (const [how, query, prepare] of [
  ['with a search each', (i) => `?q=search${i}`, () => {}],
  ['in a browser that cannot share', () => '', () => { delete globalThis.SharedWorker; }],
]) {
  test(`check 22: eight tabs ${how} are usable, those used last are live`, async (t) => {
    daemon.many(10);
    const { page: none, context, offences } = await open(browser, { port: daemon.port });
    await none.close();
    await context.addInitScript(prepare);
    const pages = await openTabs(context, 8, query);
    const [first] = pages;
    const live = async () => (await statesOf(pages)).filter((name) => name === 'live').length;
    await until('the tabs agree', async () => (await live()) === 4);
    assert.deepEqual(await statesOf(pages), ['tabs', 'tabs', 'tabs', 'tabs', 'live', 'live', 'live', 'live']);
    assert.match(await first.locator('#state-word').textContent(), /too many tabs/);
    await searchInEach(t, pages);
    // Whoever uses a tab has its live view, from where it stopped.
    daemon.many(5);
    await first.bringToFront();
    await first.mouse.click(640, 300);
    await until('the tab in use is live', async () => (await state(first)) === 'live');
    await until('what came meanwhile is there', async () => (await messages(first)).some((message) => message.startsWith('line 15 ')));
    await until('another one rests', async () => (await live()) === 4);
    assert.deepEqual(offences, []);
  });
}

test('check 22: what is selected over several rows is copied as lines, in the order of the list', async () => {
  daemon.many(300);
  const { page, offences } = await open(browser, { port: daemon.port });
  await newestIs(page, 'line 300 ');
  // Scrolled, so that the rows of the document stand in another order than those of the list.
  await page.keyboard.press('PageUp');
  daemon.many(10);
  await until('rows of the place', async () => (await lineNumbers(page)).includes(275));
  await page.evaluate(() => {
    const text = (n) => [...document.querySelectorAll('.row:not([hidden]) .message')].find((message) => message.textContent.startsWith(`line ${n} `)).firstChild;
    getSelection().setBaseAndExtent(text(278), 3, text(272), 2);
    document.getElementById('list').focus();
  });
  await page.keyboard.press('Control+c');
  await page.keyboard.press('/');
  await page.keyboard.press('Control+v');
  const lines = (await page.inputValue('#text')).split('\n');
  assert.deepEqual(lines.map((line) => Number(/ [A-Z]{3} service-\d+ line (\d+) /.exec(line)?.[1])), range(272, 279));
  assert.deepEqual(offences, []);
});

test('check 22: a tab that nobody sees for 30 s lets its stream go and has it back when seen', async () => {
  daemon.many(3);
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  assert.equal(daemon.streams.size, 1);
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
