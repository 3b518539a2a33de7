// A link brings back what was looked at, and Back undoes each step.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { NAME, closeAll, daemon, launch, messages, open, rows, send, service, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const search = async (q) => (await (await fetch(new URL(`/api/logs?${new URLSearchParams({ q, limit: 1000, order: 'oldest' })}`, daemon))).json()).records;

/** Sends numbered lines, so far apart, up to the present; answers the stored records, oldest first. */
async function lines(name, count, apart = 5) {
  const start = Date.now() - count * apart;
  await send(Array.from({ length: count }, (_, i) => ({
    timestamp: String(BigInt(start + i * apart) * 1_000_000n + 123n), level: i % 2 ? 'warn' : 'info', service: name, environment: 'test', message: `${name} ${i}`, colour: `c${i % 3}`,
  })));
  let records = [];
  await until('all are stored', async () => (records = await search(`service:${name}`)).length === count, 30_000);
  return records;
}

const params = (page) => new URL(page.url()).searchParams;
const zone = (page) => page.locator('#zone').textContent();
const openLine = async (page) => (await page.locator('.detail').count()) && page.locator('.row.open .message').textContent();
const columns = (page) => page.evaluate(async () => (await import('./view.js')).view.columns.join());

async function chooseRange(page, from) {
  await page.keyboard.press('r');
  await page.locator('dialog.sheet input').first().fill(from);
  await page.keyboard.press('Enter');
  await page.waitForSelector('dialog.sheet', { state: 'detached' });
}

test('check 15: every step is in the URL; a copied one shows the same; Back undoes each', async () => {
  const name = service();
  await lines(name, 60);
  const { page, offences } = await open(browser, { query: `?q=service:${name}` });
  await until('all rows', async () => (await messages(page)).includes(`${name} 59`));
  const steps = [
    ['query', async () => { await page.fill('#text', `service:${name} level>=warn`); await page.press('#text', 'Enter'); await page.press('#text', 'Escape'); },
      async () => params(page).get('q') === `service:${name} level>=warn` && (await messages(page)).length > 0 && (await rows(page)).every((row) => row.kind !== 'record' || row.level === 'WRN')],
    ['range', () => chooseRange(page, '2h ago'), async () => params(page).get('from') === '2h' && (await page.locator('#range').textContent()) === 'Last 2h'],
    ['zone', async () => { await page.keyboard.press('z'); await page.fill('dialog.sheet input', 'Asia/Kathmandu'); await page.locator('dialog button', { hasText: 'Use it' }).click(); },
      async () => params(page).get('zone') === 'Asia/Kathmandu' && (await zone(page)).startsWith('Asia/Kat')],
    ['order', async () => { await page.locator('#menu').click(); await page.locator('dialog button', { hasText: 'Newest first' }).click(); },
      async () => params(page).get('order') === 'newest' && (await messages(page))[0] === `${name} 59`],
    ['columns', async () => { await page.evaluate(async () => (await import('./values.js')).toggleColumn('colour')); },
      async () => params(page).get('columns') === 'colour' && (await columns(page)) === 'colour'],
    ['open record', async () => { await page.locator('.row:not([hidden])', { hasText: `${name} 41` }).locator('.message').click(); },
      async () => params(page).get('at') !== null && (await openLine(page)) === `${name} 41`],
  ];
  for (const [what, act, holds] of steps) {
    await act();
    await until(what, holds);
  }
  await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: { writeText: (text) => { globalThis.copied = text; return Promise.resolve(); } } }));
  await page.keyboard.press('y');
  await until('the link is copied', () => page.evaluate(() => globalThis.copied));
  const link = await page.evaluate(() => globalThis.copied);
  const copied = new URL(link);
  assert.match(copied.searchParams.get('from'), /^\d{19}$/, 'a copied range means the same tomorrow');

  for (const query of [new URL(page.url()).search, copied.search]) {
    const fresh = await open(browser, { query });
    assert.equal(new URL(fresh.page.url()).host, `${NAME}:${daemon.port}`);
    await until(`the same record is open: ${query}`, async () => (await openLine(fresh.page)) === `${name} 41`);
    assert.ok(await fresh.page.locator('.row.open').evaluate((row) => {
      const [box, list] = [row.getBoundingClientRect(), document.getElementById('list').getBoundingClientRect()];
      return box.top >= list.top && box.bottom <= list.bottom;
    }), 'it is in view');
    assert.equal(await columns(fresh.page), 'colour');
    assert.ok((await zone(fresh.page)).startsWith('Asia/Kat'));
    assert.equal(await fresh.page.inputValue('#text'), `service:${name} level>=warn`);
    const near = (all) => all.filter((message) => [37, 39, 41, 43, 45].some((n) => message === `${name} ${n}`));
    await until('the same lines around it, in the same order', async () => near(await messages(fresh.page)).join() === near(await messages(page)).join());
    assert.deepEqual(fresh.offences, []);
    await fresh.page.close();
  }

  for (const [undone] of steps.toReversed()) {
    const i = steps.findIndex(([what]) => what === undone);
    await page.goBack();
    await until(`Back has undone: ${undone}`, async () => !(await steps[i][2]()));
    for (const [what, , holds] of steps.slice(0, i)) await until(`${what} still holds after ${undone} is undone`, holds);
  }
  assert.deepEqual(offences, []);
});

test('check 15: a link to a record shows it with its neighbours even if the query finds neither', async () => {
  const name = service();
  const records = await lines(name, 700);
  const { timestamp, id } = records[100];
  const { page } = await open(browser, { query: `?q=service:${name} level:warn&at=${timestamp}.${id}` });
  await until('it is open', async () => (await openLine(page)) === `${name} 100`);
  const near = (await messages(page)).filter((message) => message !== `${name} 100`);
  assert.ok(near.length > 5 && near.every((message) => Number(message.split(' ').at(-1)) % 2 === 1), near.join());
  // From there the reader gets to the live edge without a hole.
  await page.keyboard.press('Escape');
  const seen = new Set();
  await until('the newest line', async () => {
    for (const message of await messages(page)) seen.add(message);
    // A gap in view loads by itself; whoever reads waits for it.
    if (!(await rows(page)).some((row) => row.kind === 'gap')) await page.keyboard.press('PageDown');
    await page.waitForTimeout(50);
    return seen.has(`${name} 699`);
  }, 60_000);
  for (let i = 101; i < 700; i += 2) assert.ok(seen.has(`${name} ${i}`), `line ${i} was not passed`);
});

test('check 15: a link to a record that is gone says so', async () => {
  const { page } = await open(browser, { query: '?at=1700000000000000000.12345' });
  await until('it says so', async () => /not kept any more/.test(await page.locator('#notice').textContent()));
});

test('check 15: a range in the past has its lines, its own histogram, and a way back to live', async () => {
  const name = service();
  const records = await lines(name, 30, 1000);
  const at = (i) => String(BigInt(records[i].timestamp) - 1n);
  const { page } = await open(browser, { query: `?q=service:${name}&from=${at(5)}&to=${at(15)}` });
  await until('ten rows', async () => (await messages(page)).length === 10);
  assert.deepEqual(await messages(page), records.slice(5, 15).map((record) => record.message));
  await until('the histogram counts them', async () => (await page.locator('#histogram').getAttribute('data-total')) === '10');
  await page.keyboard.press(']');
  await until('the next ten', async () => (await messages(page)).join() === records.slice(15, 25).map((record) => record.message).join());
  // Two handles and the arrow keys choose a part of it.
  await page.locator('.handle.left').focus();
  for (let i = 0; i < 5; i += 1) await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await until('a part', async () => { const { length } = await messages(page); return length > 0 && length < 10; });
  await page.keyboard.press('L');
  await until('live again', async () => (await page.locator('#state').getAttribute('data-state')) === 'live' && (await messages(page)).length === 30);
  assert.equal(params(page).get('to'), null);
});
