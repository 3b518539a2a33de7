// Whether everybody can read the page: accessibility rules, colours for all eyes, forced colours.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';

import { problems } from './axe.mjs';
import { fake } from './fake.mjs';
import { closeAll, figure, launch, messages, open, pause, until } from './harness.mjs';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'unspecified'];
const CODES = { trace: 'TRC', debug: 'DBG', info: 'INF', warn: 'WRN', error: 'ERR', fatal: 'FTL', unspecified: '---' };

let browser;
let daemon;
before(async () => { browser = await launch(); });
beforeEach(async () => { daemon = await fake(); });
afterEach(async () => { await closeAll(); daemon.stop(); });
after(() => browser.close());

const mixed = () => daemon.emit(LEVELS.flatMap((level, i) => Array.from({ length: 4 }, (_, n) => daemon.record({
  level, severity_number: level === 'unspecified' ? undefined : 4 * i + 1, service: `service-${4 * i + n}`, environment: n % 2 ? 'prod' : 'stage',
  message: n === 3 ? `line with \u001b[31mred\u001b[0m \u001b[44mon blue\u001b[0m, \u001b[93myellow\u001b[0m and \u0000\nand more` : `line timeout of ${level} https://shelf.lan/x`,
}))));

const VIEWS = {
  desktop: { viewport: { width: 1280, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};

for (const [device, options] of Object.entries(VIEWS)) {
  for (const colorScheme of ['light', 'dark']) {
    test(`check 19: axe finds nothing on a ${device}, ${colorScheme}`, async () => {
      const { page, offences } = await open(browser, { port: daemon.port, query: '?q=timeout', options: { ...options, colorScheme } });
      const found = {};
      const look = async (what) => { const all = await problems(page); if (all.length) found[what] = all; };
      await page.waitForSelector('text=No line matches');
      await look('no match');
      mixed();
      await until('lines', async () => (await messages(page)).length > 5);
      await look('list');
      await page.locator('.row:not([hidden])', { hasText: 'red' }).last().click();
      await page.waitForSelector('.detail');
      await page.locator('.detail details').evaluateAll((all) => { for (const one of all) one.open = true; });
      await look('detail');
      await page.locator('.detail button, dialog.sheet > .head button').filter({ hasText: 'Close' }).first().click();
      await page.locator('.row:not([hidden]) .more').first().click();
      await page.waitForSelector('.row.expanded');
      await look('expanded');
      await page.keyboard.press('?');
      await page.waitForSelector('dialog[open]');
      await look('keys');
      await page.keyboard.press('Escape');
      await page.keyboard.press('m');
      await page.waitForSelector('dialog[open]');
      await look('marking');
      await page.keyboard.press('Escape');
      daemon.refusal = 503;
      daemon.cut();
      await page.waitForSelector('#state[data-state="restarting"]');
      await look('restarting');
      daemon.refusal = 401;
      await page.waitForSelector('#panel input[type="password"]');
      await look('signed out');
      const empty = await open(browser, { port: await emptyPort(), options: { ...options, colorScheme } });
      await empty.page.waitForSelector('text=No logs yet');
      const all = await problems(empty.page);
      if (all.length) found.empty = all;
      assert.deepEqual(found, {});
      assert.deepEqual([...offences, ...empty.offences], []);
    });
  }
}

const others = [];
async function emptyPort() {
  const other = await fake();
  others.push(other);
  return other.port;
}
after(() => { for (const other of others) other.stop(); });

// ---- colours, by the numbers ----

const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const rgb = (text) => text.match(/[\d.]+/g).slice(0, 3).map((part) => linear(Number(part) / 255));
const luminance = ([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
const contrast = (a, b) => {
  const [low, high] = [luminance(rgb(a)), luminance(rgb(b))].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};

/** How colours look without one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1). */
const BLIND = {
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const seenBy = (matrix, color) => matrix.map((row) => Math.min(1, Math.max(0, row.reduce((sum, part, i) => sum + part * color[i], 0))));

function lab([r, g, b]) {
  const f = (t) => (t > 216 / 24389 ? Math.cbrt(t) : (t * 24389 / 27 + 16) / 116);
  const [x, y, z] = [
    f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047), f(0.2126 * r + 0.7152 * g + 0.0722 * b), f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883),
  ];
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
const distance = (a, b) => Math.hypot(...lab(a).map((part, i) => part - lab(b)[i]));

/** Colours as they come out, in sRGB, whatever notation the style has. */
const colours = (page) => page.evaluate(() => {
  const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const srgb = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return `rgb(${[...context.getImageData(0, 0, 1, 1).data].slice(0, 3).join()})`;
  };
  const root = getComputedStyle(document.body);
  const backgrounds = [srgb(root.backgroundColor), srgb(getComputedStyle(document.querySelector('.bar')).backgroundColor)];
  const texts = {};
  for (const row of document.querySelectorAll('.row:not([hidden])')) {
    for (const part of row.querySelectorAll('.code, .time, .service, .message, .message span, .more, .late')) {
      const style = getComputedStyle(part);
      const on = style.backgroundColor === 'rgba(0, 0, 0, 0)' ? null : srgb(style.backgroundColor);
      texts[`${part.className} ${row.dataset.level} ${part.textContent.slice(0, 12)}`] = { color: srgb(style.color), on };
    }
  }
  return { backgrounds, texts };
});

for (const colorScheme of ['light', 'dark']) {
  test(`check 21: levels are told apart by all eyes and contrasts are enough, ${colorScheme}`, async (t) => {
    const { page, offences } = await open(browser, { port: daemon.port, options: { colorScheme, viewport: { width: 1280, height: 1400 } } });
    mixed();
    // Sixty rows of random levels: each is to be told by its text alone.
    const sent = Array.from({ length: 60 }, (_, i) => daemon.record({ level: LEVELS[Math.floor(Math.random() * LEVELS.length)], severity_number: 0, message: `random ${i}` }));
    daemon.emit(sent);
    await until('all are there', async () => (await messages(page)).at(-1) === 'random 59');
    const told = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll('.row:not([hidden])')].map((row) => [row.querySelector('.message').textContent, row.querySelector('.code').innerText])));
    const inView = sent.filter(({ message }) => told[message] !== undefined);
    assert.equal(inView.length, 60);
    for (const { message, level } of inView) assert.equal(told[message], CODES[level]);

    const { backgrounds, texts } = await colours(page);
    let least = Infinity;
    for (const [what, { color, on }] of Object.entries(texts)) {
      for (const background of on ? [on] : backgrounds) {
        const ratio = contrast(color, background);
        least = Math.min(least, ratio);
        assert.ok(ratio >= 4.5, `${what}: ${color} on ${background} has ${ratio.toFixed(2)}`);
      }
    }
    figure(t, 'least contrast (4.5)', least, '');
    const level = (name) => rgb(Object.entries(texts).find(([what]) => what.startsWith(`code ${name}`))[1].color);
    let nearest = Infinity;
    for (const [a, b] of [['warn', 'error'], ['warn', 'info'], ['error', 'info']]) {
      for (const [kind, matrix] of Object.entries(BLIND)) {
        const apart = distance(seenBy(matrix, level(a)), seenBy(matrix, level(b)));
        nearest = Math.min(nearest, apart);
        assert.ok(apart >= 15, `${a} and ${b} with ${kind}: ${apart.toFixed(1)} apart`);
      }
    }
    figure(t, 'least distance of levels (15)', nearest, 'ΔE76');
    assert.deepEqual(offences, []);
  });
}

test('check 21: with forced colours the codes carry the levels', async () => {
  const { page, offences } = await open(browser, { port: daemon.port, options: { forcedColors: 'active' } });
  mixed();
  await until('lines', async () => (await messages(page)).length >= 7);
  await pause(200);
  const rows = await page.evaluate(() => [...document.querySelectorAll('.row:not([hidden])')].map((row) => {
    const code = getComputedStyle(row.querySelector('.code'));
    return { level: row.dataset.level, code: row.querySelector('.code').innerText, color: code.color, background: code.backgroundColor, border: getComputedStyle(row).borderLeftColor };
  }));
  for (const { level, code } of rows) assert.equal(code, CODES[level]);
  const system = await page.evaluate(() => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.color = 'CanvasText';
    return getComputedStyle(probe).color;
  });
  for (const { level, color, border } of rows) {
    assert.equal(color, system, level);
    if (['error', 'fatal'].includes(level)) assert.equal(border, system, 'the worst have a border');
  }
  assert.deepEqual(offences, []);
});
