// What the page says and does when its stream is refused, held back or silent.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Fake } from './fake.mjs';
import { figure, inState, launch, messages, open, pause, state, until } from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** A daemon for one test: the tests of this file mostly wait, so they run at the same time. */
async function start(t, options, port) {
  const daemon = await new Fake(options).start(port);
  t.after(() => daemon.stop());
  return daemon;
}

async function view(t, daemon) {
  const opened = await open(browser, { port: daemon.port });
  t.after(() => opened.context.close());
  return opened;
}

const STATES = { 204: 'reconnecting', 401: 'signedout', 429: 'limited', 502: 'restarting', 503: 'restarting' };
const attempts = (daemon) => daemon.opened.filter(({ isProbe }) => !isProbe);

/** Times between attempts that the page makes by itself: 1, 2, 4 … s, each a fifth more or less. */
function assertBackoff(tries, first = 0) {
  for (let i = first; i + 1 < tries.length; i += 1) {
    const [waited, due] = [tries[i + 1].at - tries[i].at, Math.min(30_000, 1_000 * 2 ** (i - first))];
    assert.ok(waited >= due * 0.79 && waited < due * 12 + 10_000, `attempt ${i + 2} after ${waited} ms, due after ${due}`);
  }
}

async function comesBack(page, daemon, status) {
  daemon.refusal = null;
  if (status === 401) {
    daemon.answers['/api/session'] = [200, {}];
    await page.fill('#panel input[type="password"]', 'secret');
    await page.click('#panel button:text-is("Sign in")');
  }
  await inState(page, 'live', 30_000);
  const line = daemon.many(1)[0].message;
  await until('lines come', async () => (await messages(page)).at(-1) === line);
  assert.equal(await page.evaluate(() => globalThis.isSame), true, 'the page was not loaded anew');
}

describe('the connection', { concurrency: true }, () => {
  for (const status of Object.keys(STATES).map(Number)) {
    test(`check 10: ${status} on opening and on coming back is told with its reason, and the page comes back`, async (t) => {
      const daemon = await start(t);
      daemon.many(5);
      daemon.refusal = status;
      const { page, offences } = await view(t, daemon);
      await page.evaluate(() => { globalThis.isSame = true; });
      const words = await inState(page, STATES[status]);
      if (status !== 401) {
        assert.match(words, status === 204 ? /^Reconnecting: .*204/ : new RegExp(`refused with ${status}`));
        assert.match(words, /again in \d+ s$/);
        await until('two more attempts', () => attempts(daemon).length >= 3, 30_000);
        assertBackoff(attempts(daemon));
      } else {
        assert.equal(words, 'Signed out');
        await pause(1_500);
        assert.equal(attempts(daemon).length, 1, 'nothing is tried without a token');
      }
      await comesBack(page, daemon, status);

      const before = attempts(daemon).length;
      daemon.refusal = status;
      daemon.cut();
      await inState(page, STATES[status], 20_000);
      await pause(1_200);
      if (status !== 401) {
        assertBackoff(attempts(daemon), before);
        await page.click('#retry');
      }
      const cursor = attempts(daemon).at(-1).after;
      assert.equal(cursor, `0:${daemon.position}`, 'it asks for what came after the last line');
      await comesBack(page, daemon, status);
      assert.deepEqual(offences, []);
    });
  }

  test('check 10: bye says why, and a daemon that is gone is waited for', async (t) => {
    const daemon = await start(t);
    const { page } = await view(t, daemon);
    await inState(page, 'live');
    daemon.bye('shutdown');
    assert.match(await inState(page, 'restarting'), /^Server restarting.*again in/);
    await inState(page, 'live');
    daemon.bye('limit', 100);
    await inState(page, 'limited');
    await inState(page, 'live');
    daemon.bye('idle', 100);
    await inState(page, 'reconnecting');
    await inState(page, 'live');
    const { port } = daemon;
    daemon.stop();
    await inState(page, 'offline', 20_000);
    await start(t, {}, port);
    await page.click('#retry');
    await inState(page, 'live', 30_000);
  });

  test('check 11: a silent stream is opened anew, and one that is held back is said to be', async (t) => {
    const [silent, late, bunched] = await Promise.all([start(t), start(t, { tickMs: 1_000 }), start(t, { tickMs: 60_000 })]);
    silent.many(3);
    late.helloDelay = 5_000;
    const [first, second, third] = await Promise.all([silent, late, bunched].map((daemon) => view(t, daemon)));
    await inState(first.page, 'live');
    silent.isSilent = true;
    const from = Date.now();

    // A `hello` that comes late, then ticks as they should be.
    await inState(second.page, 'buffered');
    assert.match(await second.page.locator('#notice').textContent(), /proxy.*holds back.*nginx.*Traefik.*Caddy/);
    late.many(1);
    await until('it is over', async () => (await state(second.page)) === 'live', 20_000);
    assert.equal(await second.page.locator('#notice').isVisible(), false);

    // Ticks that were sent one after the other and come at once.
    await inState(third.page, 'live');
    const now = Date.now();
    for (let i = 0; i < 4; i += 1) bunched.tick({ now: now + 5_000 * i });
    await inState(third.page, 'buffered');

    await until('the silent stream is opened anew', () => attempts(silent).length === 2, 40_000);
    figure(t, 'silence until the stream is opened anew (15 s)', (Date.now() - from) / 1000, 's');
    assert.ok(Date.now() - from >= 14_000);
    assert.equal(attempts(silent)[1].after, '0:3');
    assert.deepEqual([...first.offences, ...second.offences, ...third.offences], []);
  });

  test('check 11: quiet is not broken, and a store that is away is told', async (t) => {
    const daemon = await start(t, { tickMs: 500 });
    const { page } = await view(t, daemon);
    await inState(page, 'live');
    daemon.ticks = { store_ok: false, in_rate: 312 };
    assert.match(await inState(page, 'store'), /store away/i);
    daemon.ticks = { in_rate: 312 };
    await inState(page, 'live');
    assert.match(await inState(page, 'quiet', 45_000), /^Quiet: no match for \d+ s; 312\/s arriving, none match$/);
    daemon.many(1);
    await inState(page, 'live');
  });
});
