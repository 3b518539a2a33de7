// From nothing to the first log, by what the page itself prints; and the store away for a while.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, test } from 'node:test';

import { BINARY, ROOT, startDaemon } from './daemon.mjs';
import { closeAll, launch, messages, until } from './harness.mjs';

const COMMAND_MS = 30_000;

let browser;
let daemon;
before(async () => { browser = await launch(); });
afterEach(async () => {
  await closeAll();
  await daemon?.remove();
  daemon = null;
});
after(() => browser.close());

/** Opens the page under the daemon's own address, which is what its examples name. */
async function openOwn(t) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  t.after(() => context.close());
  const page = await context.newPage();
  const offences = [];
  page.on('pageerror', (error) => offences.push(error.message));
  await page.goto(daemon.url.href);
  return { page, offences };
}

/** Runs a text in a shell; answers what it printed. */
function shell(text, cwd = ROOT) {
  return new Promise((resolve, reject) => {
    const child = spawn('bash', ['-euc', text], { cwd, timeout: COMMAND_MS, env: { ...process.env, PATH: `${path.dirname(BINARY)}:${process.env.PATH}` } });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => { said += bytes; });
    child.on('error', reject);
    child.on('exit', (code) => (code === 0 ? resolve(said) : reject(new Error(`${text}\nended with ${code}: ${said}`))));
  });
}

/** Processes that a process has started, and theirs. */
function descendants(pid) {
  const children = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).filter((name) => {
    try {
      return fs.readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ')[1] === String(pid);
    } catch {
      return false;
    }
  }).map(Number);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

// Each block on an empty daemon, since the page shows them only there.
const BLOCKS = {
  curl: { at: 0, run: (text) => shell(text), shows: 'Hello from curl' },
  // Settings of an SDK are run as the environment of a program that has one.
  OTLP: { at: 1, run: (text) => shell(`set -a\n${text}\nset +a\nnode example.js`, path.join(ROOT, 'otel-examples/node')), shows: 'order 1001 placed' },
};

for (const [name, { at, run, shows }] of Object.entries(BLOCKS)) {
  test(`check 24: the first log comes by the ${name} example as it is printed, without a reload`, async (t) => {
    daemon = await startDaemon();
    const { page, offences } = await openOwn(t);
    await page.waitForSelector('text=No logs yet');
    await page.evaluate(() => { globalThis.isSamePage = true; });
    const text = await page.locator('.copyable').nth(at).textContent();
    await run(text);
    const accepted = performance.now();
    await until('the log is on the page', async () => (await messages(page)).some((message) => message.includes(shows)));
    t.diagnostic(`${name}: on the page ${Math.round(performance.now() - accepted)} ms after the command ended`);
    assert.equal(await page.locator('#panel').isVisible(), false);
    assert.equal(await page.evaluate(() => globalThis.isSamePage), true);
    assert.deepEqual(offences, []);
  });
}

test('check 24: with ClickHouse stopped live goes on, a banner says so, and the search comes back by itself', async (t) => {
  daemon = await startDaemon();
  const { page, offences } = await openOwn(t);
  await page.waitForSelector('text=No logs yet');
  await daemon.send([{ service: 'first', message: 'before' }]);
  await until('a row', async () => (await messages(page)).includes('before'));
  // The engine ends, and so does whatever takes its place.
  const endAll = () => descendants(daemon.process.pid).filter((pid) => {
    try { return process.kill(pid, 'SIGKILL'); } catch { return false; }
  });
  assert.ok(endAll().length > 0, 'the daemon has an engine');
  const timer = setInterval(endAll, 100);
  try {
    let sent = 0;
    await until('the banner says so', async () => {
      sent += 1;
      await daemon.send([{ service: 'first', message: `while away ${sent}` }]);
      await page.waitForTimeout(500);
      return /ClickHouse does not answer/.test(await page.locator('#alarm:visible').textContent({ timeout: 100 }).catch(() => ''));
    }, 120_000);
    await until('live goes on', async () => (await messages(page)).includes(`while away ${sent}`));
    await until('the state says so', async () => /store away/i.test(await page.locator('#state-word').textContent()), 30_000);
  } finally {
    clearInterval(timer);
  }
  await page.fill('#text', 'service:first before');
  await page.press('#text', 'Enter');
  const since = performance.now();
  await until('the banner goes', async () => !(await page.locator('#alarm').isVisible()), 120_000);
  t.diagnostic(`the search is back ${Math.round((performance.now() - since) / 1000)} s after the engine may start again`);
  await page.keyboard.press('Escape');
  await page.keyboard.press('r');
  await page.locator('dialog.sheet button', { hasText: '1 hour' }).click();
  await until('it finds what is stored', async () => (await messages(page)).join() === 'before', 30_000);
  const stored = async () => (await (await fetch(new URL('/api/logs?q=service:first&limit=1000', daemon.url))).json()).records ?? [];
  await until('what came meanwhile is stored', async () => (await stored()).length > 1, 60_000);
  assert.deepEqual(offences, []);
});
