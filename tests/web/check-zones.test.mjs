// One zone for rows, days, histogram, typed times and what is exported, over both changes of the clocks.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { startDaemon } from './daemon.mjs';
import { closeAll, launch, open, until } from './harness.mjs';

/** Around both changes of 2026 in Berlin: an hour that is not there, and one that is there twice. */
const MOMENTS = [
  '2026-03-29T00:59:59.123456789Z', '2026-03-29T01:00:00.000000001Z', '2026-03-29T01:30:00.5Z', '2026-03-29T22:00:00Z',
  '2026-10-25T00:30:00.999999999Z', '2026-10-25T01:00:00Z', '2026-10-25T01:30:00.000001Z', '2026-10-25T02:30:00Z', '2026-10-25T23:15:00Z',
];
const ZONES = ['Europe/Berlin', 'UTC', 'Asia/Kathmandu'];
const LOCALES = ['en-US', 'de-DE', 'ar-EG', 'hi-IN'];

let browser;
let daemon;
before(async () => {
  [browser, daemon] = await Promise.all([launch(), startDaemon('retention: 3650d\n')]);
  await daemon.send(MOMENTS.map((timestamp) => ({ timestamp, service: 'zones', level: 'info', message: timestamp })));
  const stored = async () => (await fetch(new URL('/api/logs?q=service:zones&order=oldest', daemon.url))).json();
  await until('all are stored', async () => (await stored()).records?.length === MOMENTS.length, 30_000);
});
afterEach(closeAll);
after(async () => {
  await browser?.close();
  await daemon?.remove();
});

/** Nanoseconds since the epoch of a moment. */
const nanoseconds = (iso) => String(BigInt(Date.parse(`${iso.slice(0, 19)}Z`)) * 1_000_000n + BigInt((iso.slice(20, -1) || '0').padEnd(9, '0')));

/** What a clock on the wall of a zone shows, by this test's own reckoning. */
function wall(iso, zone) {
  const parts = Object.fromEntries(new Intl.DateTimeFormat('en-GB', {
    timeZone: zone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit',
  }).formatToParts(Date.parse(`${iso.slice(0, 19)}Z`)).map(({ type, value }) => [type, value]));
  return { date: `${parts.year}-${parts.month}-${parts.day}`, time: `${parts.hour}:${parts.minute}:${parts.second}`, milliseconds: (iso.slice(20, -1) || '0').padEnd(3, '0').slice(0, 3) };
}

const RANGE = `from=${nanoseconds('2026-03-28T00:00:00Z')}&to=${nanoseconds('2026-10-27T00:00:00Z')}`;
const view = (zone, more = '') => `?q=service:zones&${RANGE}&zone=${zone}${more}`;

const shown = (page) => page.evaluate(() => [...document.querySelectorAll('.row:not([hidden])')]
  .map((row) => ({ top: row.getBoundingClientRect().top, kind: row.dataset.kind, time: row.querySelector('.time')?.textContent, title: row.querySelector('.time')?.title, message: row.querySelector('.message').textContent }))
  .sort((a, b) => a.top - b.top));

for (const zone of ZONES) {
  test(`check 23: ${zone}: rows, days, histogram, typed times and export agree, and keep nine digits`, async () => {
    // The browser's own zone is another one, so that nothing agrees by chance.
    const { page, offences } = await open(browser, { port: daemon.port, query: view(zone), options: { timezoneId: 'America/St_Johns', locale: 'en-US' } });
    await until('all rows', async () => (await shown(page)).filter((row) => row.kind === 'record').length === MOMENTS.length);
    const rows = await shown(page);
    const lines = rows.filter((row) => row.kind === 'record');
    assert.deepEqual(lines.map((row) => row.message), MOMENTS);
    for (const [i, iso] of MOMENTS.entries()) {
      const { date, time, milliseconds } = wall(iso, zone);
      assert.equal(lines[i].time, `${time}.${milliseconds}`, iso);
      const digits = iso.slice(20, -1).padEnd(9, '0');
      assert.ok(lines[i].title.startsWith(`${date}T${time}.${digits}`), `${lines[i].title} for ${iso}`);
    }
    // A day begins where the zone's date changes, and nowhere else.
    const dates = MOMENTS.map((iso) => wall(iso, zone).date);
    const changes = MOMENTS.filter((_, i) => i > 0 && dates[i] !== dates[i - 1]);
    const days = rows.filter((row, i) => rows[i - 1]?.kind === 'day').map((row) => row.message);
    assert.deepEqual(days, changes);

    const start = wall('2026-03-28T00:00:00Z', zone);
    await until('the histogram counts all', async () => (await page.locator('#histogram').getAttribute('data-total')) === String(MOMENTS.length));
    const label = await page.locator('#histogram .first').textContent();
    assert.match(label, /^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$/);
    assert.ok(label <= `${start.date} ${start.time}`, `${label} against ${start.date} ${start.time}`);

    // What a row shows can be typed, and means that row.
    for (const iso of ['2026-03-29T01:00:00.000000001Z', '2026-10-25T02:30:00Z', '2026-10-25T23:15:00Z']) {
      const { date, time } = wall(iso, zone);
      const understood = await page.evaluate(async (text) => (await import('./typed-time.js')).understand(text), `${date} ${time}.${iso.slice(20, -1).padEnd(9, '0')}`);
      assert.equal(understood, nanoseconds(iso), `${date} ${time} in ${zone}`);
    }
    await page.keyboard.press('r');
    const reading = await page.locator('dialog.sheet .reading').first().textContent();
    assert.ok(reading.startsWith(`${start.date} ${start.time}`), reading);
    await page.keyboard.press('Escape');

    await page.locator('#menu').click();
    await page.locator('dialog.sheet button', { hasText: 'Export' }).click();
    const href = await page.locator('dialog.sheet a', { hasText: 'NDJSON' }).getAttribute('href');
    const lines_ = (await (await fetch(new URL(href, daemon.url))).text()).trim().split('\n').map((line) => JSON.parse(line));
    assert.deepEqual(lines_.map((line) => line.message), MOMENTS);
    assert.deepEqual(lines_.map((line) => nanosecondsOf(line.timestamp)), MOMENTS.map(nanoseconds));
    assert.deepEqual(offences, []);
  });
}

/** An exported time: nanoseconds, or ISO 8601 in UTC. */
const nanosecondsOf = (value) => (/^\d+$/.test(value) ? String(value) : nanoseconds(value));

test('check 23: an hour that is there twice is read as the first, one that is skipped as the hour after', async () => {
  const { page } = await open(browser, { port: daemon.port, query: view('Europe/Berlin') });
  const read = (text) => page.evaluate(async (typed) => (await import('./typed-time.js')).understand(typed), text);
  await until('the zone is set', async () => (await page.locator('#zone').textContent()) === 'Europe/Berlin');
  assert.equal(await read('2026-10-25 02:30'), nanoseconds('2026-10-25T00:30:00Z'));
  assert.equal(await read('2026-03-29 02:30'), nanoseconds('2026-03-29T01:30:00Z'));
  assert.equal(await read('2026-03-29T02:30:00+01:00'), nanoseconds('2026-03-29T01:30:00Z'));
  assert.equal(await read('2h ago'), '2h');
  assert.equal(await read('1761800000123456789'), '1761800000123456789');
  assert.equal(await read('1761800000'), '1761800000000000000');
  assert.equal(await read('soon'), null);
  const noon = await read('yesterday 12:00');
  const { time, date } = wall(new Date(Number(BigInt(noon) / 1_000_000n)).toISOString(), 'Europe/Berlin');
  assert.equal(time, '12:00:00');
  const today = wall(new Date().toISOString(), 'Europe/Berlin').date;
  assert.equal((Date.parse(today) - Date.parse(date)) / 86_400_000, 1);
});

for (const locale of LOCALES) {
  test(`check 23: ${locale}: the layout holds`, async () => {
    const { page, offences } = await open(browser, { port: daemon.port, query: view('Asia/Kathmandu'), options: { locale, viewport: { width: 390, height: 844 } } });
    await until('all rows', async () => (await shown(page)).filter((row) => row.kind === 'record').length === MOMENTS.length);
    for (const size of [{ width: 390, height: 844 }, { width: 1280, height: 720 }]) {
      await page.setViewportSize(size);
      await page.waitForTimeout(100);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${locale} at ${size.width}`);
      // No time is cut off, however many bytes its digits have.
      const cut = await page.evaluate(() => [...document.querySelectorAll('.row:not([hidden]) .time')].filter((time) => time.scrollWidth > time.clientWidth + 1).length);
      assert.equal(cut, 0);
    }
    await page.locator('.row:not([hidden])', { hasText: MOMENTS[0] }).locator('.message').click();
    await page.waitForSelector('.detail');
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    assert.ok((await page.locator('.detail').textContent()).includes('.123456789'));
    assert.deepEqual(offences, []);
  });
}
