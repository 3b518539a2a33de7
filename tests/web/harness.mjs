// What the page's tests share: a browser, a daemon's address, and a proxy that breaks connections.
//
//   WATCHTOWER_URL         the web port of a running daemon that holds no logs and asks for no token
//   WATCHTOWER_PLAYWRIGHT  a folder with node_modules/playwright-core, if it is not beside this file
//   WATCHTOWER_CHROMIUM    the browser, /usr/bin/chromium by default
//   WATCHTOWER_LIMITS      exact: times have to keep the limits, also on a machine that is busy

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';

const from = process.env.WATCHTOWER_PLAYWRIGHT ? path.join(path.resolve(process.env.WATCHTOWER_PLAYWRIGHT), 'from.js') : import.meta.url;
const { chromium } = createRequire(from)('playwright-core');

export const daemon = new URL(process.env.WATCHTOWER_URL ?? 'http://127.0.0.1:4319');

/** A name that only this browser knows, so that the page is met over plain HTTP as on a home network. */
export const NAME = 'logs.lan';

export const launch = () => chromium.launch({
  executablePath: process.env.WATCHTOWER_CHROMIUM ?? '/usr/bin/chromium',
  // Nothing but the page may use the network; the profile is new and empty, and is deleted afterwards.
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', `--host-resolver-rules=MAP ${NAME} 127.0.0.1`,
  ],
});

const contexts = [];
const proxies = [];
/** Closes what a test opened: a daemon lets one address have only so many live views. */
export async function closeAll() {
  for (const between of proxies.splice(0)) between.leave();
  await Promise.all(contexts.splice(0).map((context) => context.close()));
}

/** Opens the page, and gathers whatever a page must never do. */
export async function open(browser, { port = daemon.port, query = '', options = {} } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, ...options });
  contexts.push(context);
  const page = await context.newPage();
  const offences = [];
  page.on('pageerror', (error) => offences.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => { offences.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => {
    if (message.type() === 'error' && !/Failed to load resource|net::ERR_/.test(message.text())) offences.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).host !== `${NAME}:${port}`) offences.push(`request: ${request.url()}`);
  });
  await page.goto(`http://${NAME}:${port}/${query}`);
  return { page, context, offences };
}

/** Sends logs to the daemon. */
export async function send(records) {
  const answer = await fetch(new URL('/api/logs', daemon), { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(records) });
  if (answer.status !== 202) throw new Error(`the daemon answers ${answer.status}: ${await answer.text()}`);
}

/** What the store has of a query. */
export async function search(q) {
  const answer = await fetch(new URL(`/api/logs?${new URLSearchParams({ q, limit: 1000 })}`, daemon));
  const body = await answer.json();
  if (answer.status !== 200) throw new Error(`${q}: ${body.text}`);
  return body.records;
}

let runs = 0;
/** A service name of its own for each test, so that tests share a daemon. */
export const service = () => `test-${process.pid}-${runs += 1}`;

/** The records in view, in the order of the screen. */
export const rows = (page) => page.evaluate(() => [...document.querySelectorAll('.row:not([hidden])')]
  .map((row) => ({ top: row.getBoundingClientRect().top, kind: row.dataset.kind, level: row.querySelector('.code')?.textContent, message: row.querySelector('.message').textContent }))
  .sort((a, b) => a.top - b.top));

export const messages = async (page) => (await rows(page)).filter((row) => row.kind === 'record').map((row) => row.message);

/** Waits until a condition holds. */
export async function until(what, condition, ms = 30_000) {
  const end = Date.now() + ms;
  for (;;) {
    if (await condition()) return;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A TCP proxy in front of the daemon, whose connections can be cut and which can be away. */
export async function proxy() {
  const sockets = new Set();
  const server = net.createServer((client) => {
    const upstream = net.connect(daemon.port, daemon.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => { sockets.delete(socket); client.destroy(); upstream.destroy(); });
    }
    client.pipe(upstream).pipe(client);
  });
  const listen = (port) => new Promise((resolve) => { server.listen(port, '127.0.0.1', resolve); });
  await listen(0);
  const { port } = server.address();
  const cut = () => { for (const socket of sockets) socket.resetAndDestroy(); };
  const made = {
    port,
    cut,
    leave() { server.close(); cut(); },
    comeBack: () => listen(port),
  };
  proxies.push(made);
  return made;
}

/**
 * The list from its top, or so many pixels below it, to its end, short of following again: each line
 * once, by its place. At the top older lines are loaded first; these are waited for.
 */
export const walk = (page, from = 0) => page.evaluate(async (begin) => {
  const list = document.getElementById('list');
  const seen = new Map();
  const begun = performance.now();
  const inTime = (what) => {
    const says = () => `${list.scrollTop} of ${list.scrollHeight} with ${list.clientHeight}, ${shown().length} rows, ${document.getElementById('state-word').textContent}, ${document.getElementById('older-words').textContent}, ${document.visibilityState}`;
    if (performance.now() - begun > 90_000) throw new Error(`${what} takes too long: ${says()}`);
  };
  // A browser that has much to do draws seldom.
  const frame = () => new Promise((resolve) => { requestAnimationFrame(resolve); setTimeout(resolve, 1_000); });
  const shown = () => [...list.querySelectorAll('.row:not([hidden])')];
  const gather = () => {
    // Lines that are loaded above move all places by as many.
    const known = shown().find(({ item }) => seen.has(item.key));
    const moved = known ? known.place - seen.get(known.item.key).place : 0;
    for (const row of shown()) {
      seen.set(row.item.key, { place: row.place - moved, kind: row.dataset.kind, level: row.dataset.level, message: row.querySelector('.message').textContent });
    }
  };
  for (let height = 0; begin === 0 && height !== list.scrollHeight;) {
    inTime('coming to the top');
    height = list.scrollHeight;
    list.scrollTop = 0;
    await new Promise((resolve) => { setTimeout(resolve, 500); });
  }
  list.scrollTop = begin;
  const last = () => list.scrollHeight - list.clientHeight - 20;
  for (;;) {
    inTime('coming to the end');
    const [top, bottom] = [list.scrollTop, list.scrollTop + list.clientHeight];
    // Until the worker has sent what is in view.
    for (let wait = 0; wait < 600; wait += 1) {
      inTime('drawing rows');
      await frame();
      const tops = shown().map((row) => row.top);
      // Below the last row is room for the bar that says "paused".
      const lastRow = list.scrollHeight - 64 - Number.parseFloat(getComputedStyle(list).getPropertyValue('--row'));
      if (Math.min(...tops) <= top && Math.max(...tops) >= Math.min(bottom - 60, lastRow - 1)) break;
    }
    gather();
    if (list.scrollTop >= last() - 1) break;
    list.scrollTop = Math.min(list.scrollTop + list.clientHeight - 40, last());
  }
  return [...seen.values()].sort((a, b) => a.place - b.place);
}, from);

/** The numbers of lines `line 123 …`. */
export const numbers = (lines) => lines.map(({ message }) => Number(/^line (\d+)/.exec(message)?.[1])).filter((number) => !Number.isNaN(number));

export const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);

export const state = (page) => page.locator('#state').getAttribute('data-state');

/** Waits for a state, and gives its words. */
export async function inState(page, name, ms = 30_000) {
  await page.waitForSelector(`#state[data-state="${name}"]`, { timeout: ms });
  return page.locator('#state-word').textContent();
}

export const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** The value below which so many of the values lie. */
export const quantile = (values, part) => [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))];

/** A figure for the report. */
export const figure = (t, name, value, unit = 'ms') => t.diagnostic(`${name}: ${Math.round(value * 10) / 10} ${unit}`);

/**
 * A figure with the limit of the specification. A machine that does other things too may take a few times as
 * long; with WATCHTOWER_LIMITS=exact nothing may.
 */
export function within(t, name, value, limit, unit = 'ms') {
  figure(t, `${name} (limit ${limit})`, value, unit);
  const patience = process.env.WATCHTOWER_LIMITS === 'exact' ? 1 : 5;
  assert.ok(value <= limit * patience, `${name}: ${value} ${unit}, of ${limit}`);
}
