// The page in a real browser against a running daemon: `node --test tests/web/`; see harness.mjs.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { NAME, closeAll, daemon, launch, messages, open, proxy, rows, send, service, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const line = (name, message, more = {}) => ({ level: 'info', service: name, environment: 'test', message, ...more });
const many = (name, count, from = 0) => Array.from({ length: count }, (_, i) => line(name, `${name} ${from + i}`));
const ask = async (page, query) => {
  await page.fill('#text', query);
  await page.press('#text', 'Enter');
};

test('check 24: an empty daemon shows first steps, and the first log turns them into the list', async () => {
  const { page, offences } = await open(browser);
  await page.waitForSelector('text=No logs yet');
  const steps = await page.locator('.copyable').allTextContents();
  assert.ok(steps[0].startsWith(`curl http://${NAME}:${daemon.port}/api/logs`), steps[0]);
  assert.match(steps[1], new RegExp(`^OTEL_EXPORTER_OTLP_ENDPOINT=http://${NAME}:\\d+$`, 'm'));
  assert.match(steps[2], /^watchtower send /);
  await send([line(service(), 'the first log')]);
  await until('the first log is in the list', async () => (await messages(page)).includes('the first log'));
  assert.equal(await page.locator('#panel').isVisible(), false);
  assert.deepEqual(offences, []);
});

test('lines stand oldest above, newest below, with their level in words', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?service=${name}` });
  await page.waitForSelector('text=No line matches');
  const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];
  await send(levels.map((level) => line(name, `is ${level}`, { level })));
  await until('six rows', async () => (await rows(page)).length === 6);
  const shown = await rows(page);
  assert.deepEqual(shown.map((row) => row.message), levels.map((level) => `is ${level}`));
  assert.deepEqual(shown.map((row) => row.level), ['TRC', 'DBG', 'INF', 'WRN', 'ERR', 'FTL']);
});

test('check 16: hostile text is shown as text, and what is invisible is shown', async () => {
  const name = service();
  const hostile = [
    '<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>',
    'javascript:alert(1) {{7*7}} ${7*7} "><b>x</b>',
    '__proto__ constructor </textarea></style>',
  ];
  const controls = '\u001b[1;33mwarn\u001b[0m \u001b[?1h\u001b= \u001b]8;;http://x\u0007link\u001b]8;;\u0007 50%\r100% safe\bevil nul\u0000after \u202ertl \u001b[2Jend \u001b]0;open';
  const { page, offences } = await open(browser, { query: `?service=${name}` });
  await send([...hostile, controls].map((message) => line(name, message, { environment: hostile[0], '__proto__': 'p', [hostile[0]]: hostile[0] })));
  await until('four rows', async () => (await rows(page)).length === 4);
  const shown = await messages(page);
  assert.deepEqual(shown.slice(0, 3), hostile);
  assert.equal(shown[3], 'warn  link 50%^M100% safe^Hevil nul^@after U+202Ertl end ^[]0;open');
  await page.locator('.row:not([hidden])').first().click();
  await page.waitForSelector('.detail');
  assert.equal(await page.locator('.detail .whole').textContent(), hostile[0]);
  assert.ok((await page.locator('.detail td .value').allTextContents()).includes(hostile[0]));
  assert.equal(await page.locator('#stage img, #stage svg, #stage script, #stage b').count(), 0);
  assert.deepEqual(offences, []);
});

test('check 17: large numbers, long emoji lines and stack traces open whole', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?service=${name}` });
  const family = '👩‍👩‍👧‍👦'.repeat(300);
  await send([
    line(name, 'numbers', { big: '9223372036854775807', small: '-9007199254740993' }),
    line(name, family),
    line(name, 'Error: x\n  at a\n  at b'),
  ]);
  await until('three rows', async () => (await rows(page)).length === 3);
  const value = (key) => page.locator('.detail tr', { has: page.locator('th', { hasText: new RegExp(`^${key}$`) }) }).locator('.value').textContent();
  await page.locator('.row:not([hidden])', { hasText: 'numbers' }).click();
  assert.equal(await value('big'), '9223372036854775807');
  assert.equal(await value('small'), '-9007199254740993');
  assert.match(await value('time'), /\.\d{9}(Z|[+-]\d\d:\d\d) · /);
  await page.locator('.row:not([hidden])', { hasText: '👩‍👩' }).click();
  await until('the emoji line is open', async () => (await page.locator('.detail .whole').textContent()) === family);
  const trace = page.locator('.row:not([hidden])', { hasText: 'Error: x' });
  assert.equal(await trace.locator('.more').textContent(), '+2 lines');
  await trace.click();
  await until('the trace is open', async () => (await page.locator('.detail .whole').textContent()) === 'Error: x\n  at a\n  at b');
});

test('check 4: scrolling up pauses, nothing moves what is read, and the bar counts', async () => {
  const name = service();
  const { page, offences } = await open(browser, { query: `?service=${name}` });
  await send(many(name, 200));
  await until('the newest line is in view', async () => (await messages(page)).at(-1) === `${name} 199`);
  await page.mouse.move(600, 400);
  await page.mouse.wheel(0, -1000);
  await page.waitForSelector('#paused:not([hidden])');
  await page.waitForTimeout(200);
  const read = (await rows(page)).find((row) => row.top > 300);
  const top = async () => (await rows(page)).find((row) => row.message === read.message).top;
  await send([...many(name, 300, 200), line(name, 'bad', { level: 'error' }), line(name, 'worse', { level: 'fatal' })]);
  await until('the bar counts', async () => (await page.locator('#paused-words').textContent()) === 'Paused · 302 new (2 errors)');
  assert.equal(await page.title(), '(2) Watchtower');
  assert.equal(await top(), read.top);
  await page.keyboard.press('l');
  await until('the list follows again', async () => (await messages(page)).at(-1) === 'worse');
  assert.equal(await page.title(), 'Watchtower');

  await page.mouse.wheel(0, -200);
  await page.waitForSelector('#paused:not([hidden])');
  await page.waitForTimeout(500);
  await page.mouse.wheel(0, 5000);
  await page.waitForSelector('#paused', { state: 'hidden' });
  await page.keyboard.press('Space');
  await page.waitForSelector('#paused:not([hidden])');
  await page.setViewportSize({ width: 1000, height: 500 });
  await page.keyboard.press('Space');
  await page.waitForSelector('#paused', { state: 'hidden' });
  await page.setViewportSize({ width: 1280, height: 720 });
  await page.keyboard.press('w');
  await page.waitForTimeout(300);
  assert.equal(await page.locator('#paused').isVisible(), false, 'neither resizing nor wrapping pauses');
  assert.deepEqual(offences, []);
});

test('check 6: whatever comes, there are at most 200 row elements, and what was missed while paused is told', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?service=${name}` });
  await page.waitForSelector('[data-state="live"]');
  for (let i = 0; i < 5; i += 1) {
    await send(many(name, 2000, i * 2000));
    // All at once they would be as many as are shown in a second, and some might be skipped.
    await page.waitForTimeout(300);
  }
  await until('the newest line is in view', async () => (await messages(page)).at(-1) === `${name} 9999`);
  await page.keyboard.press('Space');
  for (let i = 5; i < 13; i += 1) {
    await send(many(name, 2000, i * 2000));
    await page.waitForTimeout(300);
  }
  await until('all are counted', async () => (await page.locator('#paused-words').textContent()) === 'Paused · 16,000 new');
  await page.keyboard.press('l');
  const gap = () => page.locator('.row[data-kind="gap"]:not([hidden])').textContent();
  await until('a gap says how many are missing', async () => /^6,000 lines not shown here — they came while the list was paused/.test(await gap()));
  assert.ok(await page.locator('.row').count() <= 200);
});

test('check 7: lines that come faster than the page asks for are counted in their place', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?service=${name}` });
  await page.waitForSelector('[data-state="live"]');
  const burst = (from) => Array.from({ length: 10_000 }, (_, i) => line(name, `${name} ${from + i}`, { level: i % 1000 ? 'info' : 'error' }));
  await Promise.all([send(burst(0)), send(burst(10_000)), send(burst(20_000))]);
  const skipped = page.locator('.row[data-kind="skipped"]:not([hidden])').last();
  await skipped.waitFor();
  const words = await skipped.textContent();
  const [, count, infos] = /^([\d,]+) lines not shown — ([\d,]+) INF — they came faster/.exec(words) ?? assert.fail(words);
  assert.equal(count, infos, 'every error is shown');
  assert.ok(Number(count.replaceAll(',', '')) > 1000, count);
});

test('check 15: the filter is in the URL, and Back undoes it', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?service=${name}` });
  await send([line(name, 'Alpha one', { level: 'warn' }), line(name, 'alpha two'), line(name, 'beta', { level: 'error' })]);
  await until('three rows', async () => (await rows(page)).length === 3);
  await page.keyboard.press('/');
  await page.keyboard.press('End');
  await page.keyboard.type(' ALPHA');
  await page.keyboard.press('Enter');
  await until('two rows', async () => (await messages(page)).join() === 'Alpha one,alpha two');
  await page.keyboard.type(' level>=warn');
  await page.keyboard.press('Enter');
  await until('one row', async () => (await messages(page)).join() === 'Alpha one');
  assert.equal(new URL(page.url()).searchParams.get('q'), `service:${name} ALPHA level>=warn`);
  await page.reload();
  await until('one row after a reload', async () => (await messages(page)).join() === 'Alpha one');
  assert.equal(await page.locator('#text').inputValue(), `service:${name} ALPHA level>=warn`);
  await page.goBack();
  await until('two rows again', async () => (await messages(page)).join() === 'Alpha one,alpha two');
  await page.goBack();
  await until('three rows again', async () => (await rows(page)).length === 3);
});

test('check 14: the box speaks the query language, and says what it could not read', async () => {
  const name = service();
  const { page, offences } = await open(browser, { query: `?q=service:${name}` });
  await send([line(name, 'one', { status: 500 }), line(name, 'two (half', { status: 404 }), line(name, 'three', { level: 'error' })]);
  await until('three rows', async () => (await rows(page)).length === 3);
  await ask(page, `service:${name} (status>=500 OR level:error)`);
  await until('two rows', async () => (await messages(page)).join() === 'one,three');
  await ask(page, 'two (half');
  await until('one row', async () => (await messages(page)).join() === 'two (half');
  await until('it says why', async () => /^searched as text · a bracket is not closed/.test(await page.locator('#understood').textContent()));
  await ask(page, `service:${name} level=error`);
  await until('a hint', async () => (await page.locator('#understood').textContent()) === 'did you mean level:error');
  await ask(page, `service:${name} -größe (level=error)`);
  await until('the hint again', async () => (await page.locator('#understood').textContent()) === 'did you mean level:error');
  await page.locator('#understood button').click();
  await until('it is put in its place', async () => (await page.inputValue('#text')) === `service:${name} -größe (level:error)`);
  await until('and runs', async () => (await messages(page)).join() === 'three');
  assert.equal(await page.locator('#understood').isVisible(), false);
  assert.deepEqual(offences, []);
});

test('check 20: keys move through the lines and open them', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?service=${name}` });
  await send([line(name, 'a'), line(name, 'b', { level: 'error' }), line(name, 'c'), line(name, 'd')]);
  await until('four rows', async () => (await rows(page)).length === 4);
  const focused = (message) => page.waitForSelector(`.row.focused:not([hidden]) .message:text-is("${message}")`);
  await page.keyboard.press('k');
  await focused('d');
  await page.keyboard.press('k');
  await focused('c');
  await page.keyboard.press('E');
  await focused('b');
  await page.keyboard.press('Enter');
  await until('it is open', async () => (await page.locator('.detail .whole').count()) === 1);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.detail').count(), 0);
  await page.keyboard.press('End');
  await page.waitForSelector('#paused', { state: 'hidden' });
});

test('check 9: a daemon that is away is said to be, and the page comes back by itself', async () => {
  const name = service();
  const between = await proxy();
  const { page } = await open(browser, { port: between.port, query: `?service=${name}` });
  await page.waitForSelector('[data-state="live"]');
  between.leave();
  await page.waitForSelector('[data-state="reconnecting"], [data-state="offline"]');
  await send([line(name, 'while away')]);
  await between.comeBack();
  await page.waitForSelector('[data-state="live"]', { timeout: 40_000 });
  await until('what was missed is there', async () => (await messages(page)).join() === 'while away');
  between.leave();
});
