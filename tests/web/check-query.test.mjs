// One query language for live and search, and clicks that edit its text.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { closeAll, daemon, launch, messages, open, search, send, service, until } from './harness.mjs';

const QUERIES = 200;
/** As many streams as the daemon lets one address have. */
const AT_ONCE = 8;
const RECORDS = 30;
const PATIENCE_MS = 30_000;

let browser;
before(async () => { browser = await launch(); });
afterEach(closeAll);
after(() => browser.close());

/** Random numbers that are the same in every run. */
function generator(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const random = generator(20);
const pick = (list) => list[Math.floor(random() * list.length)];
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];
const SERVICES = ['api', 'api-v2', 'web', 'cron job'];
const ENVIRONMENTS = ['prod', 'stage', ''];
const WORDS = ['timeout', 'Timeout', 'disk full', 'a=b', '[GET]', 'https://x/y', '100%', 'ünï', 'x_y'];

function record(batch) {
  return {
    level: pick(LEVELS), service: pick(SERVICES), environment: pick(ENVIRONMENTS), batch,
    message: `${pick(WORDS)} ${pick(WORDS)} ${Math.floor(random() * 9)}`,
    'http.status_code': pick([200, 404, 500]), ...(random() < 0.5 && { user: pick(['ann', 'bob', '']) }),
  };
}

const quoted = (value) => `"${value}"`;
const ATOMS = [
  () => pick(WORDS), () => quoted(pick(WORDS)), () => `level:${pick(LEVELS)}`, () => `level>=${pick(LEVELS)}`, () => `level<${pick(LEVELS)}`,
  () => `service:${quoted(pick(SERVICES))}`, () => 'service:api*', () => `service:(api OR ${quoted(pick(SERVICES))})`, () => `env:${quoted(pick(ENVIRONMENTS))}`,
  () => `http.status_code>=${pick([100, 404, 499.5])}`, () => `http.status_code:${pick([200, 500])}`, () => 'user:*', () => 'user:ann', () => `*:${pick(['ann', '404', 'full'])}`,
  () => `/${pick(['time.*', '[0-4]$', 'x.y'])}/`,
];

function query(depth = 2) {
  const count = 1 + Math.floor(random() * 3);
  return Array.from({ length: count }, () => {
    const atom = depth > 0 && random() < 0.3 ? `(${query(depth - 1)})` : pick(ATOMS)();
    return `${random() < 0.25 ? pick(['-', 'NOT ']) : ''}${atom}`;
  }).join(pick([' ', ' OR ', ' AND ']));
}

/** Ids that a live stream brings, up to a record with the message `end`. */
async function live(q, abort) {
  let answer;
  // The daemon may not have noticed yet that the streams before are gone.
  await until(`a stream for ${q}`, async () => {
    answer = await fetch(new URL(`/api/logs/stream?${new URLSearchParams({ q, backlog: 0 })}`, daemon), { signal: abort.signal });
    return answer.status !== 429;
  }, PATIENCE_MS);
  assert.equal(answer.status, 200, q);
  const ids = [];
  let rest = '';
  let opened;
  const ready = new Promise((resolve) => { opened = resolve; });
  const ended = (async () => {
    for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
      rest += bytes;
      const events = rest.split('\n\n');
      rest = events.pop();
      for (const event of events) {
        if (/^event: hello$/m.test(event)) opened();
        if (!/^event: logs$/m.test(event)) continue;
        for (const { id, message } of JSON.parse(/^data: (.*)$/m.exec(event)[1])) {
          if (message === 'end') return ids;
          ids.push(id);
        }
      }
    }
    throw new Error(`the stream ended: ${q}`);
  })();
  await ready;
  return { ended };
}

test('check 14: 200 random queries find the same records live and in the search', async () => {
  let found = 0;
  for (let done = 0; done < QUERIES; done += AT_ONCE) {
    const batch = `b${process.pid}-${done}`;
    const queries = Array.from({ length: AT_ONCE }, () => query());
    const within = (q) => `batch:${batch} ((${q}) OR last:yes)`;
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), PATIENCE_MS);
    let ids;
    try {
      const streams = await Promise.all(queries.map((q) => live(within(q), abort)));
      await send(Array.from({ length: RECORDS }, () => record(batch)));
      await send([{ message: 'end', batch, last: 'yes' }]);
      ids = await Promise.all(streams.map((stream) => stream.ended));
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
    await until('all are stored', async () => (await search(`batch:${batch}`)).length === RECORDS + 1, PATIENCE_MS);
    for (const [i, q] of queries.entries()) {
      const stored = (await search(within(q))).filter((one) => one.message !== 'end').map((one) => one.id);
      assert.deepEqual(ids[i].toSorted(), stored.toSorted(), q);
      found += stored.length;
    }
  }
  assert.ok(found > QUERIES, `the queries found only ${found} records`);
});

test('check 14: edits by a click go into the text and out of it again, and mean what was clicked', async () => {
  const name = service();
  const { page } = await open(browser, { query: `?q=service:${name}` });
  const values = ['plain', 'two words', 'a"quote', 'back\\slash', 'star*', '(brackets)', 'OR', '-minus', 'a:b', '/re/', 'ünï', 'http://x/y', '10', ' space '];
  await send(values.map((value) => ({ service: name, message: `is ${value}`, odd: value, 'odd key': value })));
  await until('all are stored', async () => (await search(`service:${name}`)).length === values.length, PATIENCE_MS);
  const edit = (kind, text, field, value) => page.evaluate(async ([how, ...rest]) => (await import('./query-text.js'))[how](...rest), [kind, text, field, value]);
  for (const field of ['odd', 'odd key']) {
    for (const value of values) {
      const plain = `service:${name}`;
      const included = await edit('include', plain, field, value);
      assert.deepEqual((await search(included)).map((one) => one.attributes[field]), [value], included);
      assert.equal(await edit('include', included, field, value), plain);
      const excluded = await edit('exclude', plain, field, value);
      assert.equal((await search(excluded)).length, values.length - 1, excluded);
      assert.equal(await edit('exclude', excluded, field, value), plain);
      const both = await edit('include', included, field, 'plain');
      assert.equal((await search(both)).length, value === 'plain' ? values.length : 2, both);
      assert.equal(await edit('include', await edit('exclude', included, field, value), field, value), included);
    }
  }
});

test('check 14: facets edit the visible text, and a second click takes the edit back', async () => {
  const name = service();
  const { page, offences } = await open(browser, { query: `?q="${name}"` });
  await send(LEVELS.map((level) => ({ level, service: `${name}-a`, environment: 'prod', message: `${name} ${level}` })));
  await until('all are stored', async () => (await search(`"${name}"`)).length === LEVELS.length, PATIENCE_MS);
  const text = () => page.inputValue('#text');
  await page.keyboard.press('f');
  const value = (field, which) => page.locator(`.facets button.value[data-value="${field}=${which}"]`);
  await value('level', 'warn').click();
  await until('one row', async () => (await messages(page)).join() === `${name} warn`);
  assert.equal(await text(), `"${name}" level:warn`);
  await value('level', 'error').click();
  await until('two rows', async () => (await messages(page)).join() === `${name} warn,${name} error`);
  assert.equal(await text(), `"${name}" level:(warn OR error)`);
  assert.equal(await value('level', 'info').count(), 1, 'a field does not narrow its own values');
  await value('level', 'warn').click();
  await until('the other row', async () => (await messages(page)).join() === `${name} error`);
  await value('level', 'error').click({ modifiers: ['Alt'] });
  await until('all but one', async () => (await messages(page)).length === LEVELS.length - 1);
  assert.equal(await text(), `"${name}" -level:error`);
  await page.locator('button[aria-label="Exclude error"]').click();
  await until('all', async () => (await messages(page)).length === LEVELS.length);
  assert.equal(await text(), `"${name}"`);
  // An open record's values edit the same text.
  await page.locator('.row:not([hidden])', { hasText: `${name} info` }).click();
  await page.waitForSelector('.detail');
  await page.locator('.detail button[aria-label="Not this service"]').click();
  await until('none is left', async () => (await text()) === `"${name}" -service:${name}-a`);
  assert.deepEqual(offences, []);
});

test('check 14: chips are drawn over the very text that is edited', async () => {
  const { page } = await open(browser);
  const typed = Array.from({ length: 100 }, () => query());
  for (const text of [...typed, '((', '"open', 'a:"x', '\\', 'two\nlines ', '-', ')', '  spaces   between  ', 'a:( b']) {
    await page.fill('#text', text);
    assert.equal((await page.locator('#mirror').textContent()).replace(/\u200b$/, ''), text);
  }
  await page.fill('#text', 'service:a (b OR -level:warn) "x y"');
  assert.deepEqual(await page.locator('#mirror .is-field').allTextContents(), ['service:a', '-level:warn']);
  await page.keyboard.press('Escape');
  assert.equal(await page.inputValue('#text'), '', 'Esc takes back what was not run');
});
