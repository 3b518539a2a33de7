// What a reader sets: rows, colours, where an open line stands, JSON, and what is read aloud.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { problems } from './axe.mjs';
import { fake } from './fake.mjs';
import { closeAll, launch, messages, open, rows, until } from './harness.mjs';

let browser;
let daemon;
before(async () => { browser = await launch(); });
beforeEach(async () => { daemon = await fake({ meta: { links: { trace: 'http://jaeger.lan/trace/{trace_id}', script: 'javascript:alert(1)//{trace_id}', pod: 'http://pods.lan/{nothing}' } } }); });
afterEach(async () => { await closeAll(); daemon.stop(); });
after(() => browser.close());

const WIDE = { viewport: { width: 1400, height: 800 } };
const line = (text) => `.row:not([hidden]):has(.message:text("${text}"))`;

async function choose(page, ...labels) {
  await page.locator('#menu').click();
  await page.locator('dialog.sheet button', { hasText: 'Settings' }).click();
  for (const label of labels) await page.locator('dialog.sheet .setting label', { hasText: label }).click();
}

const closeSheet = async (page) => {
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
};

test('rows are as high and as coloured as was chosen, still after a reload, and are read well in each', async () => {
  daemon.emit(['trace', 'debug', 'info', 'warn', 'error', 'fatal'].map((level) => daemon.record({ level, message: `is ${level}` })));
  for (const colorScheme of ['light', 'dark']) {
    const { page, offences } = await open(browser, { port: daemon.port, options: { ...WIDE, colorScheme } });
    await until('rows', async () => (await messages(page)).length === 6);
    const height = async () => { const [a, b] = await rows(page); return b.top - a.top; };
    assert.equal(await height(), 20);
    await choose(page, 'Comfortable', 'Strong');
    assert.deepEqual(await problems(page), []);
    await closeSheet(page);
    await until('higher rows', async () => (await height()) === 28);
    assert.deepEqual(await problems(page), []);
    await page.reload();
    await until('still', async () => (await messages(page)).length === 6 && (await height()) === 28);
    const background = (level) => page.locator(line(`is ${level}`)).evaluate((row) => getComputedStyle(row).backgroundColor);
    assert.notEqual(await background('error'), await background('info'));
    await choose(page, 'Compact', 'None');
    await closeSheet(page);
    await until('as before', async () => (await height()) === 20 && (await background('error')) === (await background('info')));
    assert.deepEqual(offences, []);
  }
});

test('an open line can stand beside the list, follows the row in focus, and goes back under it', async () => {
  daemon.many(200);
  const { page, offences } = await open(browser, { port: daemon.port, options: WIDE });
  await until('rows', async () => (await messages(page)).at(-1)?.startsWith('line 200 '));
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await page.locator('#sizer .detail').waitFor();
  const link = new URL(page.url()).search;
  assert.match(link, /at=/);
  await page.locator('.detail button', { hasText: 'Beside' }).click();
  const shown = async () => (await page.locator('#side .detail .whole').textContent()).split(' ')[1];
  await until('it is beside', async () => (await shown()) === '200');
  assert.equal(new URL(page.url()).search, link, 'the same line is open');
  const [list, side] = await Promise.all(['#list', '#side'].map((name) => page.locator(name).boundingBox()));
  assert.ok(list.x + list.width <= side.x + 1, 'it covers no line');
  await page.locator('#list').focus();
  await page.keyboard.press('k');
  await until('the row in focus', async () => (await shown()) === '199');
  assert.deepEqual(await problems(page), []);
  const before = (await rows(page)).find((row) => row.message.startsWith('line 199 ')).top;
  daemon.many(20);
  await until('they are counted', async () => (await page.locator('#paused-words').textContent()) === 'Paused · 20 new');
  assert.equal((await rows(page)).find((row) => row.message.startsWith('line 199 ')).top, before);
  // A narrow window has no room for it.
  await page.setViewportSize({ width: 1100, height: 800 });
  await until('it is closed', async () => (await page.locator('#side').isHidden()));
  await page.keyboard.press('Enter');
  await page.locator('#sizer .detail').waitFor();
  assert.equal(await page.locator('.detail button', { hasText: 'Beside' }).count(), 0);
  await page.keyboard.press('Escape');
  await page.setViewportSize(WIDE.viewport);
  await page.keyboard.press('Enter');
  await page.locator('#side .detail button', { hasText: 'Beside' }).click();
  await page.locator('#sizer .detail').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(new URL(page.url()).search, '');
  assert.deepEqual(offences, []);
});

test('JSON is a tree that folds where a line is open, and one line in the list unless it is set otherwise', async () => {
  const json = '{"user":{"name":"ann","big":12345678901234567890},"tags":["a","b"],"none":{}}';
  daemon.emit([daemon.record({ message: json })]);
  const { page, offences } = await open(browser, { port: daemon.port, options: WIDE });
  await until('a row', async () => (await messages(page)).join() === json);
  await page.locator('.row .message').first().click();
  const tree = async () => (await page.locator('.detail .json').allTextContents()).map((text) => text.trim());
  assert.deepEqual(await tree(), ['{', '"user": {', '"name": "ann",', '"big": 12345678901234567890', '},', '"tags": [', '"a",', '"b"', '],', '"none": {}', '}']);
  const fold = page.locator('.detail .json', { hasText: '"user"' }).locator('.fold');
  await fold.focus();
  await page.keyboard.press('Enter');
  assert.deepEqual(await tree(), ['{', '"user": { … },', '"tags": [', '"a",', '"b"', '],', '"none": {}', '}']);
  assert.equal(await fold.getAttribute('aria-expanded'), 'false');
  assert.ok(await fold.evaluate((button) => button === document.activeElement), 'the focus stays');
  assert.deepEqual(await problems(page), []);
  await fold.click();
  assert.equal((await tree()).length, 11);
  await page.locator('.detail button', { hasText: 'As sent' }).click();
  assert.equal(await page.locator('.detail .whole').textContent(), json);
  await page.keyboard.press('Escape');

  // In the list the one does not change the other.
  assert.equal(await page.locator('.row .more').count(), 0);
  await choose(page, 'On many lines');
  await closeSheet(page);
  await page.locator('.row .more', { hasText: '+10 lines' }).click();
  await until('on many lines', async () => (await messages(page))[0].split('\n').length === 11);
  assert.deepEqual(offences, []);
});

test('attributes that begin alike fold together', async () => {
  const attributes = { alone: '1', 'http.method': 'GET', 'http.request.size': '12', 'http.route': '/', 'two.a': '1', 'two.b': '2', zebra: '3' };
  daemon.emit([daemon.record({ message: 'with attributes', attributes })]);
  const { page, offences } = await open(browser, { port: daemon.port, options: WIDE });
  await page.locator('.row:not([hidden]) .message').first().click();
  const table = page.locator('.detail details').first();
  const shown = async () => (await table.locator('tr:visible > th').allTextContents()).map((text) => text.trim());
  const all = Object.keys(attributes);
  assert.deepEqual(await shown(), [all[0], 'http · 3', ...all.slice(1)]);
  await table.locator('.fold-group').click();
  assert.deepEqual(await shown(), [all[0], 'http · 3', ...all.slice(4)]);
  assert.deepEqual(await problems(page), []);
  await table.locator('.fold-group').focus();
  await page.keyboard.press('Enter');
  assert.deepEqual(await shown(), [all[0], 'http · 3', ...all.slice(1)]);
  assert.deepEqual(offences, []);
});

test('errors are read aloud only to those who ask for it, one sentence in five seconds', async () => {
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector('[data-state="live"]');
  await page.evaluate(() => {
    globalThis.said = [];
    const box = document.getElementById('announce');
    new MutationObserver(() => { if (box.textContent.startsWith('Error')) said.push([performance.now(), box.textContent]); }).observe(box, { childList: true, characterData: true, subtree: true });
  });
  const said = () => page.evaluate(() => said);
  const fail = () => daemon.emit([daemon.record({}), daemon.record({ level: 'error', service: 'api', message: 'disk full' })]);
  fail();
  await until('it is shown', async () => (await messages(page)).at(-1) === 'disk full');
  assert.deepEqual(await said(), []);
  await choose(page, 'Yes, one sentence');
  await closeSheet(page);
  fail();
  await until('it is said', async () => (await said()).length === 1);
  for (let i = 0; i < 3; i += 1) fail();
  await until('the others are', async () => (await said()).length === 2, 20_000);
  const [[first, one], [second, others]] = await said();
  assert.equal(one, 'Error of api: disk full');
  assert.equal(others, 'Error of api: disk full, and 2 more');
  assert.ok(second - first >= 4_900, `${second - first}`);
  assert.deepEqual(offences, []);
});

test('a line links to where the configuration says, if it has what the link needs', async () => {
  daemon.emit([daemon.record({ message: 'traced', trace_id: 'ab'.repeat(16) }), daemon.record({ message: 'not traced' })]);
  const { page, offences } = await open(browser, { port: daemon.port });
  await page.waitForSelector(line('not traced'));
  // The templates come with the daemon's own word about itself.
  const row = (text) => page.locator('.row:not([hidden])', { has: page.locator(`.message:text-is("${text}")`) });
  const shown = async (text) => {
    await row(text).click();
    await page.locator('.detail').waitFor();
    const found = await page.locator('.detail .out-link').evaluateAll((all) => all.map(({ textContent, href, rel, target }) => [textContent, href, rel, target]));
    await page.keyboard.press('Escape');
    await page.locator('.detail').waitFor({ state: 'detached' });
    return found;
  };
  await until('the link is there', async () => (await shown('traced')).length > 0);
  assert.deepEqual(await shown('traced'), [['Open trace ↗', `http://jaeger.lan/trace/${'ab'.repeat(16)}`, 'noopener noreferrer', '_blank']]);
  assert.deepEqual(await shown('not traced'), []);
  assert.deepEqual(offences, []);
});
