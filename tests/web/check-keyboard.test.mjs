// Everything by the keyboard alone: the focus is always somewhere that can be seen.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { fake } from './fake.mjs';
import { closeAll, launch, messages, open, send, service, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

/** Where the focus is, and whether it shows. */
const focus = (page) => page.evaluate(() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return { tag: element.localName, id: element.id, text: element.textContent.trim().slice(0, 30), shows: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 };
});

async function hasFocus(page, what) {
  const now = await focus(page);
  assert.notEqual(now.tag, 'body', `${what}: the focus is lost`);
  assert.ok(now.shows, `${what}: the focus on ${JSON.stringify(now)} does not show`);
  return now;
}

test('check 20: the whole flow by keyboard, with the focus in sight at every step', async () => {
  const name = service();
  const { page, offences } = await open(browser, { query: `?q=service:${name}` });
  await send(Array.from({ length: 40 }, (_, i) => ({ service: name, level: i % 10 === 5 ? 'error' : i % 10 === 7 ? 'warn' : 'info', environment: 'prod', message: `line ${i}`, trace_id: '12'.repeat(16) })));
  await until('rows', async () => (await messages(page)).includes('line 39'));
  const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
  const focused = (message) => page.waitForSelector(`.row.focused:not([hidden]) .message:text-is("${message}")`);

  // Tab goes round through all that can be used, and shows where it is.
  const stops = new Set();
  for (let i = 0; i < 40; i += 1) {
    await press('Tab');
    const now = await focus(page);
    if (now.tag === 'body') continue;
    assert.ok(now.shows, JSON.stringify(now));
    stops.add(now.id || now.text);
  }
  for (const id of ['text', 'range', 'filter-toggle', 'follow', 'menu', 'list', 'zone']) assert.ok(stops.has(id), `Tab does not come to ${id}: ${[...stops].join()}`);

  // A query: written, completed, run, taken back.
  await press('/');
  assert.equal((await hasFocus(page, 'query')).id, 'text');
  await press('End');
  await page.keyboard.type(' lev');
  await page.waitForSelector('#offers li');
  await press('Tab');
  assert.equal(await page.inputValue('#text'), `service:${name} level:`);
  await page.waitForSelector('#offers li:has-text("error")');
  assert.equal(await page.inputValue('#text'), `service:${name} level:`, 'nothing is put in by itself');
  await page.keyboard.type('error');
  await press('Enter');
  await until('the query has run', async () => (await messages(page)).join() === 'line 5,line 15,line 25,line 35');
  await press('ArrowUp', 'ArrowUp');
  await page.keyboard.type(' gone');
  await press('Escape');
  if (await page.inputValue('#text') !== `service:${name} level:error`) await press('Escape');
  assert.equal(await page.inputValue('#text'), `service:${name} level:error`);
  await hasFocus(page, 'after Esc');
  await page.goBack();
  await until('all again', async () => (await messages(page)).includes('line 39'));
  await page.locator('#list').focus();

  // Rows: by line, by error, by warning; open, close, context, back to the same place.
  await press('k', 'k');
  await focused('line 38');
  await press('E');
  await focused('line 35');
  await press('V');
  await focused('line 27');
  await press('Enter');
  await page.waitForSelector('.detail');
  await hasFocus(page, 'an open row');
  await press('c');
  await page.waitForSelector('.near.anchor');
  await hasFocus(page, 'context');
  await press('Escape');
  await hasFocus(page, 'after context');
  assert.equal(await page.locator('.detail').count(), 1);
  await press('ArrowLeft');
  assert.equal(await page.locator('.detail').count(), 0);
  await focused('line 27');
  await press('x');
  await until('the trace', async () => (await page.inputValue('#text')) === `trace_id:${'12'.repeat(16)}`);
  await page.goBack();

  // Sheets and strips: each opens by its key, holds the focus, and gives it back.
  for (const key of ['r', 'z', 's', 'i', '?']) {
    await press(key);
    await page.waitForSelector('dialog[open]');
    assert.equal(await page.evaluate(() => Boolean(document.activeElement.closest('dialog'))), true, `${key}: the focus is in the sheet`);
    await press('Escape');
    await page.waitForSelector('dialog[open]', { state: 'hidden' });
    await hasFocus(page, `after ${key}`);
  }
  await press('f');
  await page.waitForSelector('.facets .value');
  await hasFocus(page, 'facets');
  await page.locator('#list').focus();
  await press('f');
  await page.waitForSelector('.facets', { state: 'hidden' });
  await hasFocus(page, 'after facets');
  await press('h');
  assert.equal(await page.locator('#histogram').isVisible(), false);
  await press('h');
  assert.equal(await page.locator('#histogram').isVisible(), true);
  await press('Control+f');
  await page.keyboard.type('line 1');
  await until('it counts', async () => /^\d+ of 11$/.test(await page.locator('#find .says').textContent()));
  await press('Enter', 'Escape');
  await hasFocus(page, 'after find');
  await press(' ');
  await press('End');
  await until('live again', async () => (await page.locator('#follow').getAttribute('aria-pressed')) === 'true');
  assert.deepEqual(offences, []);
});

test('check 20: at 10,000 lines/s the focus stays, and a listener hears at most one sentence in 10 s', async (t) => {
  const daemon = await fake({ keep: false });
  t.after(() => daemon.stop());
  const { page } = await open(browser, { port: daemon.port, options: { viewport: { width: 390, height: 844 } } });
  await page.waitForSelector('[data-state="live"]');
  daemon.many(200);
  await until('rows', async () => (await messages(page)).length > 5);
  await page.locator('#list').focus();
  await page.keyboard.press('k');
  await page.waitForSelector('.row.focused');
  await page.evaluate(() => {
    globalThis.said = [];
    new MutationObserver(() => globalThis.said.push({ at: performance.now(), text: document.getElementById('announce').textContent }))
      .observe(document.getElementById('announce'), { childList: true, characterData: true, subtree: true });
  });
  const stop = daemon.flow(10_000, (i) => (i % 50 ? {} : { level: 'error' }));
  const said = async () => (await page.evaluate(() => globalThis.said)).filter(({ text }) => /new/.test(text));
  await until('it is told three times that lines came', async () => (await said()).length >= 3, 60_000);
  assert.equal((await hasFocus(page, 'while paused')).id, 'list');
  const all = await said();
  for (let i = 1; i < all.length; i += 1) assert.ok(all[i].at - all[i - 1].at >= 9_900, JSON.stringify(all));
  // Following again, the ring of 5,000 lines that a phone has soon lets the row go.
  await page.keyboard.press('End');
  await until('the focused row was let go', async () => page.evaluate(() => ![...document.querySelectorAll('.row.focused')].length));
  assert.equal((await hasFocus(page, 'after the row was let go')).id, 'list');
  stop();
});
