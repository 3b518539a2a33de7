// The list has new lines a little before the store: what asks the store waits for it, or asks again.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { fake } from './fake.mjs';
import { closeAll, launch, messages, numbers, open, range, rows, until } from './harness.mjs';

let browser;
let daemon;
before(async () => { browser = await launch(); });
beforeEach(async () => { daemon = await fake(); });
afterEach(async () => { await closeAll(); daemon.stop(); });
after(() => browser.close());

const PATH = '/api/fields/service/values';

/** What the store is to know of services, by their names. */
function store(counts) {
  for (const field of ['level', 'environment', 'host.name']) daemon.answers[`/api/fields/${field}/values`] = [200, { values: [], approximate: false }];
  daemon.answers[PATH] = [200, { values: Object.entries(counts).map(([value, count]) => ({ value, count })), approximate: false }];
}

const values = (page) => page.locator('.facets .value').allTextContents();
const asked = () => daemon.requests.filter(({ url }) => url.startsWith(PATH)).length;
const show = async (page) => { await page.locator('#filter-toggle').click(); await until('it is asked', () => asked() > 0); };

test('facets that were opened before the store had the lines have them a little later, and newer ones too', async () => {
  store({});
  const { page, offences } = await open(browser, { port: daemon.port });
  daemon.many(20);
  await until('rows', async () => (await messages(page)).length === 20);
  await show(page);
  await until('they say that there is nothing', async () => (await page.locator('.facets .about').count()) === 4);
  store({ api: 12, web: 8 });
  await until('the store has them', async () => (await values(page)).join() === 'api12,web8');

  // From now on nothing may go while something else is fetched, nor lose the focus.
  const button = page.locator('.facets .value', { hasText: 'web' });
  await button.focus();
  await page.evaluate(() => {
    globalThis.web = document.activeElement;
    globalThis.fewest = Infinity;
    globalThis.blurs = 0;
    web.addEventListener('blur', () => { globalThis.blurs += 1; });
    new MutationObserver(() => { globalThis.fewest = Math.min(globalThis.fewest, document.querySelectorAll('.facets .value').length); })
      .observe(document.getElementById('facets'), { childList: true, subtree: true });
  });
  store({ db: 900, web: 30, api: 12 });
  daemon.many(20);
  await until('the newer lines count', async () => (await values(page)).join() === 'api12,web30,db900', 30_000);
  const [fewest, ...focus] = await page.evaluate(() => [globalThis.fewest, globalThis.blurs, document.activeElement === globalThis.web]);
  assert.ok(fewest >= 2, `${fewest} values`);
  assert.deepEqual(focus, [0, true]);
  await button.click();
  await until('the value is asked for', async () => (await page.inputValue('#text')) === 'service:web');
  assert.deepEqual(offences, []);
});

test('facets of a range that has ended, or with no new line, are fetched once', async () => {
  store({ api: 12 });
  daemon.many(20);
  const { page } = await open(browser, { port: daemon.port, query: '?from=1700000000000000000&to=1700000001000000000' });
  await show(page);
  await until('its values', async () => (await values(page)).join() === 'api12');
  daemon.many(20);
  await page.waitForTimeout(4_000);
  assert.equal(asked(), 1);
});

test('a gap that the store could not fill is filled when it can, with lines whose clocks are a little off', async () => {
  daemon.tickMs = 60_000;
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  daemon.many(5);
  await until('five lines', async () => (await messages(page)).length === 5);
  const missed = Array.from({ length: 5 }, () => daemon.record());
  daemon.hub.push(...missed);
  daemon.position += 5;
  // The daemon knows when they came, which is a little after the times that they have.
  const came = (record) => String(BigInt(record.timestamp) + 20_000_000n);
  daemon.answers['/api/logs'] = [503, { code: 'store', text: 'the store is away' }];
  daemon.tick({ store_ok: false });
  daemon.write(`event: gap\ndata: ${JSON.stringify({ from: came(missed[0]), to: came(missed[4]), count: null, reason: 'store' })}\nid: 0:${daemon.position}\n\n`);
  daemon.many(5);
  await page.waitForSelector('.row[data-kind="gap"]:not([hidden])');
  delete daemon.answers['/api/logs'];
  daemon.tick();
  await until('all are there, and no gap', async () => (await messages(page)).length === 15 && (await page.locator('.row[data-kind="gap"]:not([hidden])').count()) === 0);
  assert.deepEqual(numbers(await rows(page)), range(1, 16));
  assert.deepEqual(offences, []);
});

/** A line that the stream has and the store does not, until the answer is called. */
function notStored(more) {
  const record = daemon.record(more);
  const [one, around] = [`/api/logs/${record.id}`, `/api/logs/${record.id}/context`];
  for (const path of [one, around]) daemon.answers[path] = [404, { code: 'not_found', text: 'there is no such record' }];
  return { record, one, store() { daemon.answers[one] = [200, record]; daemon.answers[around] = [200, { records: [record], anchor: 0 }]; } };
}

test('context of a line that is not stored yet comes when it is', async () => {
  const { record, store } = notStored({ message: 'fresh' });
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  daemon.emit([record]);
  await until('the row', async () => (await messages(page)).join() === 'fresh');
  await page.keyboard.press('k');
  await page.keyboard.press('c');
  await until('it is asked for', () => daemon.requests.some(({ url }) => url.includes('/context')));
  store();
  await page.waitForSelector('.near.anchor');
  assert.deepEqual(offences, []);
});

test('a link to a line that is not stored yet shows it when it is', async () => {
  const { record, one, store } = notStored({ message: 'fresh' });
  const { page, offences } = await open(browser, { port: daemon.port, query: `?at=${record.timestamp}.${record.id}` });
  await until('it is asked for', () => daemon.requests.some(({ url }) => url.startsWith(one)));
  store();
  await until('it is open', async () => (await page.locator('.detail .whole').count()) && (await page.locator('.detail .whole').textContent()) === 'fresh');
  assert.equal(await page.locator('#notice').isVisible(), false);
  assert.deepEqual(offences, []);
});

test('what stands in the way of a search is said when it comes later, too', async () => {
  let n = 0;
  daemon.answers['/api/logs/histogram'] = (url) => [200, { q: {}, start: '0', end: '1', step: '1', buckets: url.searchParams.get('q') === 'service:api' ? [{ start: '0', levels: { info: n } }] : [], complete: true }];
  const { page, offences } = await open(browser, { port: daemon.port, query: '?q=service:api nowhere' });
  await page.waitForSelector('text=No line matches');
  await until('it has counted', () => daemon.requests.some(({ url }) => url.includes('/histogram') && url.endsWith('buckets=10')));
  assert.equal(await page.locator('.drops li').count(), 0);
  n = 3;
  await until('it says so', async () => (await page.locator('.drops li').allTextContents()).join() === '3 without nowhere Drop it', 20_000);
  assert.deepEqual(offences, []);
});
