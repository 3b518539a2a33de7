// The page under load: how smooth it is, how it answers, what memory it takes.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { fake } from './fake.mjs';
import { closeAll, figure, launch, messages, open, pause, quantile, until, within } from './harness.mjs';

let browser;
let daemon;
before(async () => { browser = await launch(); });
afterEach(async () => { await closeAll(); daemon.stop(); });
after(() => browser.close());

/** Watches the main thread: long tasks, and the time between frames. */
const watch = (page) => page.evaluate(() => {
  globalThis.seen = { tasks: [], frames: [], ages: [] };
  new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask' });
  let last = performance.now();
  requestAnimationFrame(function frame(now) {
    seen.frames.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  });
  setInterval(() => {
    const rows = [...document.querySelectorAll('.row:not([hidden])')].sort((a, b) => b.top - a.top);
    const sent = /at=(\d+)/.exec(rows[0]?.textContent)?.[1];
    if (sent) seen.ages.push(Date.now() - Number(sent));
  }, 100);
});

const stamped = () => ({ message: `line GET /api/v1/items/7 answered 200 in 12 ms for client 10.0.0.7, request 5f2c at=${Date.now()}` });

test('check 1: 10,000 lines/s for 30 s, following', async (t) => {
  daemon = await fake({ keep: false });
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  const stop = daemon.flow(10_000, stamped);
  await pause(1_000);
  await watch(page);
  await pause(30_000);
  const sent = stop();
  daemon.many(1, { message: 'the last line' });
  await until('the newest line is in view', async () => (await messages(page)).at(-1) === 'the last line', 20_000);
  const { tasks, frames, ages } = await page.evaluate(() => seen);
  figure(t, 'lines sent', sent, '');
  within(t, 'longest task of the main thread', Math.max(0, ...tasks), 200);
  within(t, 'p99 frame gap', quantile(frames, 0.99), 50);
  figure(t, 'age of the newest line, p50', quantile(ages, 0.5));
  within(t, 'age of the newest line, p99', quantile(ages, 0.99), 500);
  assert.ok(await page.locator('.row').count() <= 200);
  assert.deepEqual(offences, []);
});

test('check 2: typing answers at 10,000 lines/s', async (t) => {
  daemon = await fake({ keep: false });
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  const stop = daemon.flow(10_000, stamped);
  await page.evaluate(() => {
    globalThis.events = [];
    new PerformanceObserver((list) => events.push(...list.getEntries().filter(({ name }) => /^(key|input)/.test(name)).map((entry) => entry.duration))).observe({ type: 'event', durationThreshold: 16 });
  });
  const box = page.locator('#text');
  await box.focus();
  const text = 'timeout -healthz';
  for (let i = 0; i < 3; i += 1) {
    await page.keyboard.type(text, { delay: 60 });
    assert.equal(await box.evaluate((element) => element.value ?? element.textContent), text);
    await page.keyboard.press('Control+A');
    await page.keyboard.press('Delete');
  }
  stop();
  const durations = await page.evaluate(() => events);
  // Events shorter than 16 ms are not reported: so quantiles are over all that were typed.
  const all = [...durations, ...Array(Math.max(0, 3 * 3 * text.length - durations.length)).fill(8)];
  within(t, 'event to next paint, p95', quantile(all, 0.95), 100);
  within(t, 'event to next paint, worst', Math.max(...all), 200);
  assert.deepEqual(offences, []);
});

/** Heap in use after a collection, of the page and its worker. */
async function heap(page) {
  const session = await page.context().newCDPSession(page);
  const worker = await attachWorker(session);
  const used = async (send) => {
    await send('HeapProfiler.collectGarbage');
    return (await send('Runtime.getHeapUsage')).usedSize;
  };
  const total = await used((method) => session.send(method)) + await used(worker);
  await session.detach();
  return total / 1e6;
}

async function attachWorker(session) {
  const waiting = new Map();
  let attached;
  const isAttached = new Promise((resolve) => { attached = resolve; });
  session.on('Target.attachedToTarget', ({ sessionId, targetInfo }) => { if (targetInfo.type === 'worker') attached(sessionId); });
  session.on('Target.receivedMessageFromTarget', ({ message }) => {
    const { id, result } = JSON.parse(message);
    waiting.get(id)?.(result);
  });
  await session.send('Target.setAutoAttach', { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  const sessionId = await isAttached;
  let calls = 0;
  return (method) => new Promise((resolve) => {
    calls += 1;
    waiting.set(calls, resolve);
    session.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify({ id: calls, method }) });
  });
}

// a busy page keeps a bounded number of lines and rows.
test('check 3: a million lines leave no more in memory than a hundred thousand', async (t) => {
  daemon = await fake({ keep: false });
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  const sendUpTo = async (total) => {
    while (daemon.made < total || !daemon.made) {
      daemon.many(1_000);
      await pause(daemon.made % 5_000 ? 0 : 30);
    }
    await until(`line ${total}`, async () => (await messages(page)).at(-1)?.startsWith(`line ${total} `), 60_000);
  };
  await sendUpTo(100_000);
  const early = await heap(page);
  await sendUpTo(1_000_000);
  const late = await heap(page);
  figure(t, 'heap after 100,000 lines', early, 'MB');
  figure(t, 'heap after 1,000,000 lines', late, 'MB');
  assert.ok(late <= early * 1.1 + 5, `${early} MB, then ${late} MB`);
  assert.ok(late <= 150, `${late} MB`);
  const nodes = await page.evaluate(() => document.getElementsByTagName('*').length);
  assert.ok(nodes <= 6_000, `${nodes} elements`);
  assert.ok(await page.locator('.row').count() <= 200);
  assert.deepEqual(offences, []);
});
