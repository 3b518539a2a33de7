// Paging and context by place: many records with one time are all shown, once and in one order.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { closeAll, daemon, launch, messages, open, send, service, until } from './harness.mjs';

const COUNT = 500;

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const get = async (path) => (await fetch(new URL(path, daemon))).json();
const query = (params) => new URLSearchParams(params).toString();

/** Sends records with one time; answers their ids in the order of `(timestamp, id)`. */
async function sendAtOnce(name) {
  const timestamp = String(BigInt(Date.now()) * 1_000_000n);
  await send(Array.from({ length: COUNT }, (_, i) => ({ timestamp, level: 'info', service: name, environment: 'test', message: `${name} ${i}` })));
  let records = [];
  await until('all are stored', async () => {
    ({ records } = await get(`/api/logs?${query({ q: `service:${name}`, limit: 1000, order: 'oldest' })}`));
    return records.length === COUNT;
  }, 30_000);
  assert.ok(records.every((record) => record.timestamp === timestamp));
  return records;
}

/** All pages of 100 in one direction. */
async function pages(name, order) {
  const found = [];
  let place = {};
  for (;;) {
    const { records, next } = await get(`/api/logs?${query({ q: `service:${name}`, order, limit: 100, ...place })}`);
    assert.ok(records.length <= 100);
    found.push(...records.map((record) => record.id));
    if (!next) return found;
    place = { [order === 'newest' ? 'before' : 'after']: next };
  }
}

test('check 13: pages of 100 through 500 records with one time give all once, both ways in one order', async () => {
  const name = service();
  const ids = (await sendAtOnce(name)).map((record) => record.id);
  assert.equal(new Set(ids).size, COUNT);
  assert.deepEqual(await pages(name, 'oldest'), ids);
  assert.deepEqual(await pages(name, 'newest'), ids.toReversed());
});

test('check 13: scrolling up reaches all of them, in the same order', async () => {
  const name = service();
  const expected = (await sendAtOnce(name)).map((record) => record.message);
  const { page, offences } = await open(browser, { query: `?q=service:${name}` });
  await until('rows', async () => (await messages(page)).length > 10);
  const height = () => page.locator('#sizer').evaluate((sizer) => sizer.offsetHeight);
  await until('the oldest is loaded', async () => {
    await page.keyboard.press('Home');
    return await height() >= COUNT * 20;
  });
  const seen = [];
  for (let top = 0; top < COUNT * 20 + 800; top += 300) {
    await page.locator('#list').evaluate((list, y) => { list.scrollTop = y; }, top);
    await page.waitForTimeout(60);
    for (const message of await messages(page)) if (!seen.includes(message)) seen.push(message);
  }
  assert.equal(await height() < (COUNT + 10) * 20, true, 'none is there twice');
  assert.deepEqual(seen, expected);
  assert.deepEqual(offences, []);
});

test('check 13: context goes on through all of them, both ways', async () => {
  const name = service();
  const records = await sendAtOnce(name);
  const middle = records[COUNT / 2];
  const { page } = await open(browser, { query: `?q=service:${name}&at=${middle.timestamp}.${middle.id}` });
  await page.waitForSelector('.detail');
  await page.keyboard.press('c');
  await page.waitForSelector('.near.anchor');
  assert.equal(await page.locator('.near').count(), 101);
  for (const label of ['100 older', '100 newer']) {
    const more = page.locator('dialog button', { hasText: label });
    await until(`${label} has an end`, async () => {
      if (await more.isDisabled()) return true;
      const before = await page.locator('.near').count();
      await more.click();
      await until('more lines', async () => (await page.locator('.near').count()) > before || more.isDisabled());
      return false;
    }, 30_000);
  }
  const shown = await page.locator('.near').evaluateAll((lines) => lines.map((line) => line.dataset.id));
  assert.deepEqual(shown, records.map((record) => record.id));
  assert.equal(await page.locator('.near.anchor').getAttribute('data-id'), middle.id);
  const before = await page.locator('#list').evaluate((list) => list.scrollTop);
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('dialog[open]').count(), 0);
  assert.equal(await page.locator('#list').evaluate((list) => list.scrollTop), before, 'the list stands where it stood');
});
