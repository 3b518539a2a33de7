// A search that takes long says how far it came, goes on, and can be stopped; views are kept.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { closeAll, launch, messages, open, search, send, service, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

const NS = 1_000_000n;

test('a search that stops early says how far it came, and goes on from there', async () => {
  const name = service();
  const now = BigInt(Date.now()) * NS;
  const back = (minutes) => String(now - BigInt(minutes * 60_000) * NS);
  const { page, context } = await open(browser);
  const asked = [];
  const record = (id, minutes) => ({ id: String(id), timestamp: back(minutes), level: 'info', service: name, message: `line ${id}` });
  const answers = [
    { records: [record(2, 6)], next: null, searched_to: back(10), complete: false },
    { records: [], next: null, searched_to: back(20), complete: false },
    { records: [record(1, 25)], next: null, searched_to: null, complete: true },
  ];
  // The page that is left asks too: of all time.
  await context.route(/\/api\/logs\?.*from=/, (route) => {
    asked.push(new URL(route.request().url()).searchParams);
    return route.fulfill({ json: { q: {}, took_ms: 1, ...answers[asked.length - 1] } });
  });
  await page.goto(`${new URL(page.url()).origin}/?q=service:${name}&from=1h&to=${back(5)}`);
  const words = page.locator('#older-words');
  await until('it says how far it came', async () => /^searched back to [\d-]+ [\d:]+ · 1 found$/.test(await words.textContent()));
  // Words are said at once, rows come with the next frame.
  const shows = (text) => until(`it shows ${text}`, async () => (await messages(page)).join() === text);
  await shows('line 2');
  await page.locator('#older-more').click();
  await until('it went on', () => asked.length === 2);
  await until('it says so again', async () => (await page.locator('#older-more').isVisible()));
  await page.locator('#older-more').click();
  await until('it came to the end', async () => (await words.textContent()) === 'Nothing older');
  await shows('line 1,line 2');
  assert.equal(asked[0].get('to'), back(5));
  assert.deepEqual(asked.slice(1).map((params) => params.get('to')), [back(10), back(20)], 'no stretch is searched twice');
  assert.equal(asked[1].get('before'), `${back(6)}.2`);
});

test('Stop breaks a search off, which the daemon then ends', async () => {
  const { page, context } = await open(browser);
  let failed = '';
  context.on('requestfailed', (request) => { if (/\/api\/logs\?.*from=/.test(request.url())) failed = request.failure().errorText; });
  await context.route(/\/api\/logs\?.*from=/, () => {});
  await page.goto(`${new URL(page.url()).origin}/?from=1h&to=${BigInt(Date.now()) * NS}`);
  await page.locator('#older-stop').click();
  await until('the request is broken off', () => failed === 'net::ERR_ABORTED');
  await until('it says so', async () => /^Stopped/.test(await page.locator('#older-words').textContent()));
  await context.unrouteAll();
  await page.locator('#older-more').click();
  await until('it goes on', async () => (await page.locator('#older-words').textContent()) === 'Nothing older' || (await messages(page)).length > 0);
});

test('a view is saved under a name, pinned, exported and imported', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?q=service:${name}&from=1h` });
  await send([{ service: name, message: 'seen' }, { service: `${name}-other`, message: 'other' }]);
  await until('a row', async () => (await messages(page)).join() === 'seen');
  await page.keyboard.press('s');
  await page.keyboard.type('My <b>view</b>');
  await page.keyboard.press('Enter');
  await page.locator('.views button', { hasText: 'Pin' }).click();
  await page.locator('summary', { hasText: 'Import and export' }).click();
  let json = '';
  await until('they are there as JSON', async () => { json = await page.locator('dialog.sheet textarea').inputValue(); return json !== ''; });
  await page.locator('.views button', { hasText: 'Delete' }).click();
  assert.equal(await page.locator('.views li').count(), 0);
  await page.fill('dialog.sheet textarea', '{"views": [{"name": "x", "url": "javascript:alert(1)"}]}');
  await page.locator('dialog.sheet button', { hasText: 'Import' }).click();
  assert.equal(await page.locator('.views li').count(), 0, 'only addresses of this page are views');
  await page.fill('dialog.sheet textarea', json);
  await page.locator('dialog.sheet button', { hasText: 'Import' }).click();
  assert.equal(await page.locator('.views .name').textContent(), 'My <b>view</b>');
  await page.keyboard.press('Escape');
  await page.goto(`${new URL(page.url()).origin}/?q=service:${name}-other`);
  await until('another search', async () => (await messages(page)).join() === 'other');
  await page.locator('#pins button').click();
  await until('the pinned view', async () => (await messages(page)).join() === 'seen');
  assert.equal(new URL(page.url()).searchParams.get('from'), '1h');
});

test('where nothing matches, the page says which filter stands in the way', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?q=service:${name} level:error nothing` });
  await send([{ service: name, level: 'error', message: 'something' }, { service: name, level: 'info', message: 'nothing' }]);
  await page.waitForSelector('text=No line matches');
  await until('both are stored', async () => (await search(`service:${name}`)).length === 2, 30_000);
  await page.reload();
  await page.waitForSelector('text=No line matches');
  await until('both filters are named', async () => (await page.locator('.drops li').count()) === 2);
  const drops = (await page.locator('.drops li').allTextContents()).toSorted();
  assert.deepEqual(drops, ['1 without level:error Drop it', '1 without nothing Drop it']);
  await page.locator('.drops li', { hasText: 'nothing' }).locator('button').click();
  await until('the line', async () => (await messages(page)).join() === 'something');
});

test('drawing over the histogram chooses a range, and Back takes it back', async () => {
  const name = service();
  const now = Date.now();
  await send(Array.from({ length: 60 }, (_, i) => ({ timestamp: String(BigInt(now - i * 60_000) * NS), service: name, message: `${i} min ago` })));
  await until('all are stored', async () => (await search(`service:${name}`)).length === 60, 30_000);
  const { page } = await open(browser, { query: `?q=service:${name}&from=1h` });
  await until('it counts', async () => Number(await page.locator('#histogram').getAttribute('data-total')) >= 59);
  const box = await page.locator('#histogram .area').boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 10);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 12, { steps: 5 });
  await page.mouse.up();
  await until('a quarter of an hour', async () => { const n = (await messages(page)).length; return n >= 13 && n <= 17; });
  const { searchParams } = new URL(page.url());
  assert.match(searchParams.get('from'), /^\d{19}$/);
  await page.goBack();
  await until('the hour', async () => new URL(page.url()).searchParams.get('from') === '1h' && (await messages(page)).length > 20);
});
