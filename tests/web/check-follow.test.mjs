// Following and pausing at speed, against a fake daemon.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { fake } from './fake.mjs';
import { closeAll, launch, messages, numbers, open, pause, range, rows, until, walk, within } from './harness.mjs';

let browser;
let daemon;
before(async () => { browser = await launch(); });
beforeEach(async () => { daemon = await fake(); });
afterEach(async () => { await closeAll(); daemon.stop(); });
after(() => browser.close());

const tall = { options: { viewport: { width: 1280, height: 2600 } } };
const pausedWords = (page) => page.locator('#paused-words').textContent();
const newest = async (page) => (await messages(page)).at(-1) ?? '';
const atEdge = (page, n) => until(`line ${n} is in view`, async () => (await newest(page)).startsWith(`line ${n} `), 20_000);
const isPaused = (page) => page.locator('#paused').isVisible();

test('check 4: a turn of the wheel pauses at 10,000 lines/s, what is read stands still, and the bar counts', async (t) => {
  daemon.many(300);
  const { page, offences } = await open(browser, { port: daemon.port });
  await atEdge(page, 300);
  const stop = daemon.flow(10_000);
  await pause(1_000);
  await page.mouse.move(600, 400);
  await page.evaluate(() => {
    addEventListener('wheel', () => { globalThis.wheeledAt = performance.now(); }, { once: true, capture: true });
    new MutationObserver(() => { globalThis.pausedAt ??= performance.now(); }).observe(document.getElementById('paused'), { attributes: true });
  });
  await page.mouse.wheel(0, -200);
  await page.waitForSelector('#paused:not([hidden])');
  within(t, 'wheel to paused', await page.evaluate(() => pausedAt - wheeledAt), 100);
  await pause(400);
  const read = (await rows(page)).find((row) => row.top > 300);
  for (let i = 0; i < 10; i += 1) {
    await pause(500);
    assert.equal((await rows(page)).find((row) => row.message === read.message)?.top, read.top, 'the line that is read has moved');
  }
  stop();

  // Exactly what was sent since, errors apart, once more with a known edge.
  await page.keyboard.press('l');
  await page.waitForSelector('#paused', { state: 'hidden' });
  await atEdge(page, daemon.many(300).length && daemon.made);
  await page.keyboard.press('Space');
  await page.waitForSelector('#paused:not([hidden])');
  await pause(200);
  const errors = 37;
  for (let i = 0; i < 10; i += 1) {
    daemon.many(1_800, (n) => (i === 0 && n < errors ? { level: n % 2 ? 'error' : 'fatal' } : {}));
    await pause(100);
  }
  await until('the bar counts all', async () => (await pausedWords(page)) === `Paused · 18,000 new (${errors} errors)`);
  daemon.many(9_000);
  await until('beyond the ring too', async () => (await pausedWords(page)) === `Paused · 27,000 new (${errors} errors)`);
  assert.equal(await page.title(), `(${errors}) Watchtower`);
  assert.deepEqual(offences, []);
});

test('check 5: the reader pauses and follows, nothing else does', async () => {
  daemon.many(300, (i) => (i % 3 ? {} : { message: `line ${i + 1} ${'long '.repeat(60)}` }));
  const { page, offences } = await open(browser, { port: daemon.port });
  const stop = daemon.flow(50);
  await until('rows', async () => (await rows(page)).length > 20);
  const follows = async (how) => { await page.waitForSelector('#paused', { state: 'hidden' }); await pause(150); assert.equal(await isPaused(page), false, how); };

  await page.mouse.move(600, 400);
  await page.mouse.wheel(0, -400);
  await page.waitForSelector('#paused:not([hidden])');
  await pause(300);
  for (let i = 0; i < 20 && await isPaused(page); i += 1) { await page.mouse.wheel(0, 3_000); await pause(50); }
  await follows('scrolled to the end by hand');

  await page.keyboard.press('Space');
  await page.waitForSelector('#paused:not([hidden])');
  await page.keyboard.press('Space');
  await follows('Space again');

  await page.locator('.row:not([hidden]) .message').nth(20).evaluate((message) => getSelection().selectAllChildren(message));
  await page.waitForSelector('#paused:not([hidden])');
  await page.evaluate(() => getSelection().removeAllRanges());
  await page.keyboard.press('End');
  await follows('End');

  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.detail');
  assert.equal(await isPaused(page), true, 'an open row pauses');
  await page.mouse.move(600, 300);
  for (let i = 0; i < 10; i += 1) await page.mouse.wheel(0, 3_000);
  await pause(300);
  assert.equal(await isPaused(page), true, 'no following while a row is open');
  await page.keyboard.press('l');
  await follows('L');

  for (const key of ['w', 'w', 'w']) { await page.keyboard.press(key); await follows('wrap'); }
  await page.setViewportSize({ width: 900, height: 500 });
  await follows('resize');
  await page.setViewportSize({ width: 1280, height: 720 });
  await follows('resize');
  await page.keyboard.press('t');
  await follows('time style');
  stop();
  await pause(200);
  const last = await rows(page);
  const bottom = await page.locator('#list').evaluate((list) => list.getBoundingClientRect().bottom);
  assert.ok(last.at(-1).message.startsWith(`line ${daemon.made} `) && last.at(-1).top < bottom, 'the newest line stands at the end');
  assert.deepEqual(offences, []);
});

test('check 5: wrapped and expanded rows move nothing that is read', async () => {
  daemon.many(2_000, (i) => (i % 2 ? { message: `line ${i + 1} ${'words that wrap '.repeat(i % 40)}` } : { message: `line ${i + 1} failed:\n  at a\n  at b\n  at c` }));
  daemon.backlog = 2_000;
  const { page, offences } = await open(browser, { port: daemon.port });
  await atEdge(page, 2_000);
  await page.keyboard.press('w');
  await page.mouse.move(600, 400);
  const inView = async () => (await rows(page)).filter((row) => row.top > 60 && row.top < 600);
  for (let i = 0; i < 25; i += 1) {
    const before = await inView();
    await page.evaluate(() => { document.getElementById('list').scrollTop -= 150; });
    await pause(60);
    // Rows above had another height than was thought: those in view moved by the reader's 150 pixels all the same.
    for (const row of await inView()) {
      const was = before.find((other) => other.message === row.message);
      if (was) assert.ok(Math.abs(row.top - was.top - 150) <= 1, `${row.message.slice(0, 20)} moved by ${row.top - was.top}`);
    }
  }
  const tops = (await rows(page)).map((row) => row.top);
  assert.ok(tops.every((top, i) => i === 0 || top > tops[i - 1]), 'no row covers another');
  const trace = page.locator('.row:not([hidden])', { hasText: 'failed:' }).filter({ hasText: '+3 lines' }).nth(3);
  const name = (await trace.locator('.message').textContent()).split(' ')[1];
  await trace.locator('.more').click();
  const whole = page.locator('.row.expanded .message');
  await whole.waitFor();
  assert.equal(await whole.textContent(), `line ${name} failed:\n  at a\n  at b\n  at c`);
  assert.deepEqual(offences, []);
});

test('check 5: a window that changes just before a pause, or during one, moves nothing that is read', async () => {
  daemon.many(500);
  const narrow = { width: 500, height: 700 };
  const { page, offences } = await open(browser, { port: daemon.port, options: { viewport: narrow } });
  for (let i = 0; i < 4; i += 1) {
    await page.setViewportSize(narrow);
    await atEdge(page, daemon.made);
    // Rows are of another height in a wide window; the pause comes before it has drawn them once.
    await page.setViewportSize(tall.options.viewport);
    await page.keyboard.press('Space');
    await page.waitForSelector('#paused:not([hidden])');
    await until('rows of the wide window', async () => (await rows(page)).length > 100);
    const read = (await rows(page)).find((row) => row.top > 300);
    assert.ok(Number(/^line (\d+)/.exec(read.message)[1]) > daemon.made - 200, 'near the live edge');
    const top = async () => (await rows(page)).find((row) => row.message === read.message)?.top;
    daemon.many(500);
    await until('they are counted', async () => (await pausedWords(page)) === 'Paused · 500 new');
    assert.equal(await top(), read.top, 'the line that is read has moved');
    await page.keyboard.press('l');
  }
  assert.deepEqual(offences, []);
});

test('check 6: reading on after a long pause brings every line once, and so does the gap of a jump', async () => {
  daemon.many(500);
  // A narrow window has the smaller ring, of 5,000 lines, and keeps it.
  const { page, offences } = await open(browser, { port: daemon.port, options: { viewport: { width: 500, height: 700 } } });
  await page.waitForSelector('[data-state="live"]');
  await page.setViewportSize(tall.options.viewport);
  await atEdge(page, 500);
  await page.keyboard.press('Space');
  await page.waitForSelector('#paused:not([hidden])');
  await pause(200);
  for (let i = 0; i < 12; i += 1) { daemon.many(1_000); await pause(20); }
  await until('all are counted', async () => (await pausedWords(page)) === 'Paused · 12,000 new', 20_000);
  const seen = await page.evaluate(async () => {
    const list = document.getElementById('list');
    const lines = [];
    const end = performance.now() + 60_000;
    const frame = () => new Promise((resolve) => { requestAnimationFrame(resolve); });
    const inView = () => [...list.querySelectorAll('.row:not([hidden])')].filter(({ top }) => top > list.scrollTop - 20 && top < list.scrollTop + list.clientHeight).length;
    while (!document.getElementById('paused').hidden && performance.now() < end) {
      list.scrollTop += list.clientHeight - 100;
      await frame();
      // Until the worker has sent what is in view.
      for (let i = 0; i < 600 && inView() < (list.clientHeight - 100) / 20; i += 1) await frame();
      const now = [...list.querySelectorAll('.row:not([hidden])')].map((row) => [row.top, row.dataset.kind === 'record' ? Number(/^line (\d+)/.exec(row.querySelector('.message').textContent)[1]) : row.textContent]);
      lines.push(now.sort(([a], [b]) => a - b).map(([, line]) => line));
    }
    return lines;
  });
  assert.equal(await isPaused(page), false, 'reading on ends at the live edge');
  for (const lines of seen) {
    assert.ok(lines.every((line) => Number.isInteger(line)), `no line is left out: ${lines.find((line) => !Number.isInteger(line))}`);
    assert.ok(lines.every((line, i) => i === 0 || line > lines[i - 1]), 'each once and in order');
  }
  const all = new Set(seen.flat());
  assert.deepEqual(range(501, 12_501).filter((line) => !all.has(line)), []);

  await atEdge(page, 12_500);
  await page.keyboard.press('Space');
  await page.waitForSelector('#paused:not([hidden])');
  await pause(200);
  for (let i = 0; i < 9; i += 1) { daemon.many(1_000); await pause(20); }
  await until('all are counted', async () => (await pausedWords(page)) === 'Paused · 9,000 new', 20_000);
  await page.keyboard.press('l');
  const gap = page.locator('.row[data-kind="gap"]:not([hidden])');
  await gap.waitFor();
  const missing = Number(/^([\d,]+) lines not shown here/.exec(await gap.textContent())[1].replaceAll(',', ''));
  assert.ok(missing > 3_000, `${missing}`);
  for (let i = 0; await gap.count() && i < 60; i += 1) {
    await gap.locator('.load:not([disabled])').click();
    await page.evaluate(() => { const list = document.getElementById('list'); list.scrollTop = list.scrollHeight; });
    await pause(150);
  }
  await page.keyboard.press('Space');
  const lines = numbers(await walk(page, 2_000));
  assert.deepEqual(lines, range(lines[0], 21_501), 'from the first kept line to the last');
  assert.ok(lines.length > 4_000, `${lines.length}`);
  assert.deepEqual(offences, []);
});

test('check 7: at 30,000 lines/s shown and skipped make what was sent, and what was skipped loads in its place', async () => {
  const { page, offences } = await open(browser, { port: daemon.port, ...tall });
  await page.waitForSelector('[data-state="live"]');
  const made = (i) => daemon.record(i % 100 === 50 ? { level: 'error' } : {});
  for (let i = 0; i < 25; i += 1) {
    const lines = Array.from({ length: 600 }, (_, n) => made(n));
    const isShown = (line, n) => line.level === 'error' || n % 3 === 0;
    daemon.emit(lines.filter(isShown));
    daemon.skip(lines.filter((line, n) => !isShown(line, n)));
    await pause(20);
  }
  await atEdge(page, 14_998);
  await page.keyboard.press('Space');
  await pause(200);
  const all = await walk(page);
  const counts = {};
  for (const { level } of all) if (level) counts[level] = (counts[level] ?? 0) + 1;
  assert.equal(counts.error, daemon.byLevel.error, 'every error is shown');
  const levels = { FTL: 'fatal', ERR: 'error', WRN: 'warn', INF: 'info', DBG: 'debug', TRC: 'trace' };
  const skipped = all.filter(({ kind }) => kind === 'skipped');
  for (const { message } of skipped) {
    for (const [, count, code] of message.matchAll(/([\d,]+) ([A-Z]{3})\b/g)) counts[levels[code]] += Number(count.replaceAll(',', ''));
  }
  assert.equal(skipped.length, 25);
  assert.deepEqual(counts, daemon.byLevel);

  const row = page.locator('.row[data-kind="skipped"]:not([hidden])').first();
  const [, count] = /^([\d,]+) lines not shown/.exec(await row.locator('.message').textContent());
  await row.locator('.narrow-query').click();
  assert.equal(await page.evaluate(() => document.activeElement.id), 'text');
  await row.locator('.load').click();
  await until('the row is gone', async () => (await walk(page)).filter(({ kind }) => kind === 'skipped').length === 24);
  const after = await walk(page);
  assert.equal(numbers(after).length, numbers(all).length + Number(count));
  const order = numbers(after);
  assert.ok(order.every((n, i) => i === 0 || n > order[i - 1]), 'in order');
  assert.deepEqual(offences, []);
});
