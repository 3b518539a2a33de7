// Facets keep up with the list, which has new lines before the store.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { fake } from './fake.mjs';
import { closeAll, launch, messages, open, until } from './harness.mjs';

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
