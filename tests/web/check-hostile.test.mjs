// Logs are written by anybody: text that would be markup, and records that are much too large.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { fake } from './fake.mjs';
import { closeAll, launch, messages, open, pause, rows, until, within } from './harness.mjs';

let browser;
let daemon;
before(async () => { browser = await launch(); });
beforeEach(async () => { daemon = await fake(); });
afterEach(async () => { await closeAll(); daemon.stop(); });
after(() => browser.close());

const RUN = 'globalThis.ran=1';
/** What is to be read exactly as it was sent. */
const VERBATIM = [
  `<script>${RUN}</script>`,
  `<img src=x onerror="${RUN}"><svg onload="${RUN}"><a href="javascript:${RUN}">x</a>`,
  `"><iframe srcdoc="<script>parent.ran=1</script>"></iframe><object data="javascript:${RUN}">`,
  `</textarea></style></title><body onload=${RUN}><details open ontoggle=${RUN}>`,
  `<svg><animate onbegin=${RUN} attributeName=x></svg><math><mtext></mtext></math>`,
  `javascript:${RUN} data:text/html,<script>${RUN}</script> vbscript:x`,
  '{{constructor.constructor("globalThis.ran=1")()}} ${globalThis.ran=1} #{7*7} <%= 7*7 %>',
  '<!--<script>--><b>bold</b><base href=http://evil.invalid/><link rel=stylesheet href=//evil.invalid/x.css>',
  '__proto__ constructor prototype toString hasOwnProperty',
  '<img src="http://evil.invalid/leak.png"> <form action=//evil.invalid><button>go</button></form>',
  'شبكة עברית mixed with latin and 日本語',
];
/** What is shown otherwise, since it cannot be seen. */
const SHOWN = [
  [`\u001b[31m<img src=x onerror=${RUN}>\u001b[0m after`, `<img src=x onerror=${RUN}> after`],
  [`\u001b]8;;javascript:${RUN}\u0007click\u001b]8;;\u0007 end`, 'click end'],
  ['\u001b]0;title\u0007\u001b[2J\u001b[?1049h\u001bPq\u001b\\clean', 'clean'],
  ['\u202efdp.exe\u202c rtl', 'U+202Efdp.exeU+202C rtl'],
  ['a\u0000b\u0007c\u007fd\u200be\ufefff', 'a^@b^Gc^?dU+200BeU+FEFFf'],
  ['\u001b[38;5;999m\u001b[48;2mbroken colours', 'broken colours'],
];
const CORPUS = [...VERBATIM, ...SHOWN.map(([sent]) => sent)];

/** A record with one hostile text in every field. */
const hostile = (text) => {
  const maps = JSON.parse(JSON.stringify({ [text]: text, plain: text }).replace('{', '{"__proto__":"own","constructor":"own",'));
  return {
    message: text, service: text, environment: text, severity_text: text, trace_id: text, span_id: text, event_name: text,
    scope_name: text, scope_version: text, receiver: text, attributes: maps, resource: maps,
  };
};

async function guarded(query = '') {
  const opened = await open(browser, { port: daemon.port, query });
  await opened.page.evaluate(() => {
    globalThis.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  const assertUnharmed = async () => {
    assert.equal(await opened.page.evaluate(() => globalThis.ran), undefined, 'a script ran');
    assert.deepEqual(await opened.page.evaluate(() => violations), []);
    assert.equal(await opened.page.locator('#stage :is(img, svg, script, iframe, object, form, style, base, link, math, b, textarea, body, animate)').count(), 0, 'an element was made from data');
    const links = await opened.page.locator('#stage a').evaluateAll((all) => all.map((a) => a.protocol));
    assert.ok(links.every((protocol) => /^https?:$/.test(protocol)), links.join());
    assert.deepEqual(opened.offences, []);
  };
  return { ...opened, assertUnharmed };
}

// R-064, the page's part: what terminals obey is shown, not obeyed.
test('check 16: hostile text is shown as it is, in every field, and nothing of it runs', async () => {
  const evil = CORPUS[1];
  daemon.hello = { q: { understood: evil, searched_as_text: { text: evil, hint: evil, position: 0 }, hints: [{ instead: evil }] } };
  daemon.answers['/api/fields'] = [200, { fields: CORPUS.map((name) => ({ name, kind: 'attribute', count: 1 })), values: CORPUS.map((value) => ({ value, count: 1 })), complete: true }];
  const { page, assertUnharmed } = await guarded(`?q=${encodeURIComponent(evil)}&at=${encodeURIComponent(evil)}&columns=${encodeURIComponent('<b>x</b>')}`);
  daemon.emit(CORPUS.map((text) => daemon.record(hostile(text))));
  await until('all are there', async () => (await messages(page)).length === CORPUS.length);
  assert.deepEqual(await messages(page), [...VERBATIM, ...SHOWN.map(([, shown]) => shown)]);
  await assertUnharmed();

  for (const [i, text] of CORPUS.entries()) {
    const expected = VERBATIM[i] ?? SHOWN[i - VERBATIM.length][1];
    await page.keyboard.press('g');
    for (let step = 0; step <= i; step += 1) await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await until(`line ${i} is open`, async () => (await page.locator('.detail .whole').textContent().catch(() => '')) === expected);
    const values = await page.locator('.detail td .value').allTextContents();
    assert.ok(values.filter((value) => value === expected).length >= 10, `${values.length} values of ${JSON.stringify(text)}`);
    assert.ok((await page.locator('.detail th').allTextContents()).includes('__proto__'), 'a name that scripts have a meaning for is a name');
    await page.locator('.detail details').evaluateAll((all) => { for (const one of all) one.open = true; });
    await page.locator('.detail .tool', { hasText: 'column' }).first().click();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
  }
  await assertUnharmed();
  assert.equal(await page.title(), 'Watchtower');
});

test('check 16: notes, reasons and answers of the daemon are text too', async () => {
  const evil = CORPUS[1];
  const { page, assertUnharmed } = await guarded();
  await page.waitForSelector('[data-state="live"]');
  daemon.many(2);
  daemon.write(`event: skipped\ndata: ${JSON.stringify({ count: 3, by_level: { [evil]: 3, error: 1 }, from: '1', to: '2', reason: evil })}\nid: 0:2\n\n`);
  daemon.write(`event: gap\ndata: ${JSON.stringify({ count: null, from: '1', to: '2', reason: evil })}\n\n`);
  daemon.answers['/api/logs'] = [500, { code: evil, text: evil }];
  await until('both notes', async () => (await rows(page)).filter(({ message }) => message.includes(evil)).length === 2);
  await page.locator('.row[data-kind="gap"] .load').click();
  await until('the answer', async () => (await rows(page)).some(({ message }) => message.split(evil).length === 3));
  daemon.refusal = 429;
  daemon.cut();
  await page.waitForSelector('#state[data-state="limited"]');
  await assertUnharmed();
});

/** Watches for tasks of the main thread that anybody would notice. */
const watch = (page) => page.evaluate(() => {
  globalThis.tasks = [];
  new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: 'longtask' });
});

test('check 17: huge records open at once and whole', { timeout: 90_000 }, async (t) => {
  const long = Array.from({ length: 60_000 }, (_, i) => `${i} ${'0123456789abcdef'.repeat(5)}`).join(' ').slice(0, 5_000_000);
  const lines = Array.from({ length: 10_000 }, (_, i) => `  at frame ${i} (file${i}.js:${i})`).join('\n');
  const deep = `${'{"a":['.repeat(250)}12345678901234567890${']}'.repeat(250)}`;
  const attributes = Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`group${i % 40}.name${i}`, `value ${i}`]));
  const huge = [
    ['long', { message: long }], ['lines', { message: lines }],
    ['deep', { message: deep, attributes: { deep } }], ['many', { message: 'many attributes', attributes }],
  ].map(([, more]) => daemon.record(more));
  for (const record of huge) daemon.whole.set(record.id, record);
  const { page, offences } = await open(browser, { port: daemon.port });
  daemon.emit(huge.map((record) => (record.message.length > 16_384 ? { ...record, message: record.message.slice(0, 16_384), truncated: true, length: record.message.length } : record)));
  await until('four lines', async () => (await rows(page)).length === 4);
  await watch(page);
  const width = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const opens = async (i) => {
    await page.keyboard.press('g');
    for (let step = 0; step <= i; step += 1) await page.keyboard.press('j');
    await page.evaluate(() => { globalThis.took = new Promise((resolve) => {
      addEventListener('keydown', () => {
        const pressed = performance.now();
        new MutationObserver((_, observer) => {
          if (!document.querySelector('.detail')) return;
          observer.disconnect();
          requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - pressed)));
        }).observe(document.getElementById('sizer'), { childList: true });
      }, { once: true, capture: true });
    }); });
    await page.keyboard.press('Enter');
    within(t, `detail ${i} opens`, await page.evaluate(() => globalThis.took), 300);
    assert.ok(await width() <= 0, 'the page does not scroll sideways');
  };
  const whole = () => page.locator('.detail .whole').evaluate((box) => box.textContent.length);

  await opens(0);
  await page.locator('.detail button', { hasText: 'Show all 5 MB' }).click();
  await until('all 5 MB', async () => (await whole().catch(() => 0)) === long.length, 60_000);
  assert.ok(await width() <= 0);
  await page.keyboard.press('Escape');

  await opens(1);
  await page.locator('.detail button', { hasText: /^Show all/ }).click();
  // Line breaks between pieces are the ends of blocks.
  await until('all 10,000 lines', async () => (await page.locator('.detail .whole').textContent()).includes('at frame 9999 '), 60_000);
  await page.keyboard.press('Escape');

  await opens(2);
  const tree = await page.locator('.detail .whole').textContent();
  assert.ok(tree.includes('12345678901234567890'), 'numbers keep their digits');
  assert.equal(tree.replace(/\s/g, ''), deep);
  await page.keyboard.press('Escape');

  await opens(3);
  assert.equal(await page.locator('.detail details').first().locator('tr:not(.group)').count(), 100);
  await page.locator('.detail .narrow-map').first().fill('name1999');
  await until('narrowed', async () => (await page.locator('.detail details').first().locator('tr:not(.group)').count()) === 1);
  await page.keyboard.press('Escape');
  await pause(200);
  const tasks = await page.evaluate(() => globalThis.tasks);
  within(t, 'longest task of the main thread', Math.max(0, ...tasks), 200);
  assert.deepEqual(offences, []);
});
