// What comes while the connection or the daemon is away comes later, once.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { startDaemon } from './daemon.mjs';
import { closeAll, figure, inState, launch, messages, numbers, open, pause, proxy, range, rows, send, service, until, walk } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const tall = { viewport: { width: 1280, height: 2600 } };
const newestIs = (page, text) => until(`${text} is in view`, async () => (await messages(page)).some((message) => message.startsWith(text)), 40_000);

test('check 8: a stream that is cut 20 times under load loses nothing and repeats nothing, with a filter or without', async (t) => {
  const name = service();
  const between = await proxy();
  const [all, some] = [
    await open(browser, { port: between.port, options: tall }),
    await open(browser, { port: between.port, query: `?q=${encodeURIComponent(`service:${name} level:warn`)}`, options: tall }),
  ];
  await Promise.all([inState(all.page, 'live'), inState(some.page, 'live')]);
  let sent = 0;
  let isOver = false;
  t.after(() => { isOver = true; });
  const load = (async () => {
    while (!isOver) {
      await send(range(sent, sent + 10).map((n) => ({ service: name, level: n % 3 ? 'info' : 'warn', message: `line ${n} of ${name}` })));
      sent += 10;
      await pause(60);
    }
  })();
  for (let cut = 0; cut < 20; cut += 1) {
    await pause(200 + Math.random() * 1_200);
    between.cut();
  }
  await pause(1_000);
  isOver = true;
  await load;
  figure(t, 'lines sent', sent, '');
  for (const [{ page }, expected] of [[all, range(0, sent)], [some, range(0, sent).filter((n) => n % 3 === 0)]]) {
    await newestIs(page, `line ${expected.at(-1)} `);
    await page.keyboard.press('Space');
    const lines = await walk(page);
    assert.deepEqual(numbers(lines.filter(({ message }) => message.endsWith(name))).sort((a, b) => a - b), expected);
    assert.equal(lines.filter(({ kind }) => kind === 'gap').length, 0);
  }
  assert.deepEqual([...all.offences, ...some.offences], []);
});

test('check 9: a daemon that is killed and started again under load has every line it took, once', async (t) => {
  const daemon = await startDaemon();
  t.after(() => daemon.remove());
  const { page, offences } = await open(browser, { port: daemon.port, options: tall });
  await inState(page, 'live');
  await page.evaluate(() => {
    globalThis.isSame = true;
    globalThis.states = [document.getElementById('state').dataset.state];
    new MutationObserver(() => {
      const now = document.getElementById('state').dataset.state;
      if (now !== states.at(-1)) states.push(now);
    }).observe(document.getElementById('state'), { attributes: true });
  });
  const taken = [];
  let tried = 0;
  let isOver = false;
  t.after(() => { isOver = true; });
  const load = (async () => {
    while (!isOver) {
      const lines = range(tried, tried + 10);
      tried += 10;
      if (await daemon.send(lines.map((n) => ({ service: 'killed', level: 'info', message: `line ${n} of it` })))) taken.push(...lines);
      await pause(50);
    }
  })();
  await pause(1_500);
  await daemon.kill();
  const away = Date.now();
  await page.waitForSelector('#state:not([data-state="live"])');
  await pause(1_500);
  await daemon.spawn().ready();
  const back = Date.now();
  await pause(1_500);
  isOver = true;
  await load;
  await inState(page, 'live', 60_000);
  figure(t, 'away', back - away);
  figure(t, 'ready until live', Date.now() - back);
  await newestIs(page, `line ${taken.at(-1)} `);
  await page.keyboard.press('Space');
  const lines = await walk(page);
  const shown = numbers(lines);
  assert.deepEqual(taken.filter((n) => !shown.includes(n)), [], 'no line that was taken is missing');
  assert.equal(new Set(shown).size, shown.length, 'none stands there twice');
  assert.equal(lines.filter(({ kind }) => kind === 'gap').length, 0);
  const states = await page.evaluate(() => globalThis.states);
  t.diagnostic(`states: ${states.join(', ')}`);
  assert.ok(states[0] === 'live' && states.length >= 3 && states.at(-1) === 'live');
  const between = states.slice(1, states.indexOf('live', 1));
  assert.ok(between[0] === 'reconnecting' && between.every((name) => ['reconnecting', 'offline', 'restarting', 'connecting', 'catching'].includes(name)), between.join());
  assert.equal(await page.evaluate(() => globalThis.isSame), true, 'the page was not loaded anew');
  assert.deepEqual(offences, []);
});

test('check 12: lines whose clock is off appear marked, and nothing else is delayed or lost', async () => {
  const name = service();
  const { page, offences } = await open(browser, { query: `?service=${name}` });
  await page.waitForSelector('[data-state="live"]');
  const line = (n, ms) => ({ service: name, level: 'info', message: `line ${n} of ${name}`, timestamp: new Date(Date.now() + ms).toISOString() });
  await send([line(1, 0)]);
  await pause(300);
  await send([line(2, -10_000), line(3, 3_600_000), line(4, 0)]);
  await pause(300);
  await send([line(5, 0)]);
  await pause(200);
  // Two seconds late is late enough to have another place, and no reason for a mark.
  await send([line(0, -2_000), line(6, 0)]);
  await until('all are there', async () => (await rows(page)).filter(({ kind }) => kind === 'record').length === 7);
  const inOrder = numbers(await rows(page));
  assert.deepEqual(inOrder, [0, 1, 2, 3, 4, 5, 6].sort((a, b) => inOrder.indexOf(a) - inOrder.indexOf(b)));
  assert.equal(inOrder[0], 0, 'a little late: at its time');
  assert.deepEqual([...inOrder.slice(1)].filter((n) => ![2, 3].includes(n)), [1, 4, 5, 6]);
  assert.ok(inOrder.indexOf(2) > inOrder.indexOf(1) && inOrder.indexOf(3) < inOrder.indexOf(5), 'much too late or early: where it came');
  const mark = (n) => page.locator('.row:not([hidden])', { hasText: `line ${n} of` }).locator('.late');
  assert.equal(await mark(2).textContent(), '10 s late');
  assert.equal(await mark(3).textContent(), '1 h ahead');
  assert.equal(await page.locator('.row:not([hidden]) .late').count(), 2);
  assert.deepEqual(offences, []);
});
