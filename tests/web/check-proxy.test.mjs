// Behind nginx as it comes, buffering and all, below /watchtower/, with a read token.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, test } from 'node:test';

import { Daemon, freePort } from './daemon.mjs';
import { NAME, closeAll, launch, messages, until } from './harness.mjs';

const TOKEN = 'read-token-of-this-test-0123456789';
const MOST_BYTES = 150_000;

const authorization = { authorization: `Bearer ${TOKEN}` };

let browser;
let daemon;
let nginx;
let base;

/** nginx's own defaults, but for what a file in another folder needs, and the Host that the daemon asks for. */
const config = (port, dir) => `
daemon off; worker_processes 1; pid ${dir}/nginx.pid; error_log ${dir}/error.log info;
events { worker_connections 256; }
http {
  access_log ${dir}/access.log combined;
  client_body_temp_path ${dir}/body; proxy_temp_path ${dir}/proxy; fastcgi_temp_path ${dir}/fastcgi; uwsgi_temp_path ${dir}/uwsgi; scgi_temp_path ${dir}/scgi;
  server {
    listen 127.0.0.1:${port};
    location /watchtower/ { proxy_pass http://127.0.0.1:${daemon.port}/; proxy_set_header Host $http_host; }
  }
}`;

before(async () => {
  browser = await launch();
  daemon = (await new Daemon().prepare(`auth:\n  read_tokens: ["${TOKEN}"]`)).spawn();
  const port = await freePort();
  const dir = path.join(daemon.dir, 'nginx');
  fs.mkdirSync(dir);
  fs.writeFileSync(path.join(dir, 'nginx.conf'), config(port, dir));
  const binary = ['/usr/sbin/nginx', '/usr/local/sbin/nginx'].find((name) => fs.existsSync(name)) ?? 'nginx';
  nginx = spawn(binary, ['-p', dir, '-c', path.join(dir, 'nginx.conf')], { stdio: 'ignore' });
  nginx.on('error', () => {});
  base = `http://${NAME}:${port}/watchtower/`;
  nginx.dir = dir;
  const isReady = (path) => fetch(`http://127.0.0.1:${port}/watchtower/${path}`, { headers: authorization }).then((answer) => answer.json()).catch(() => null);
  await until('all is up', async () => (await isReady('api/status'))?.pipeline?.store.ok, 60_000);
});
afterEach(closeAll);
after(async () => {
  await browser?.close();
  if (nginx?.exitCode === null && nginx.kill()) await new Promise((resolve) => { nginx.on('exit', resolve); });
  await daemon?.remove();
});


test('check 25: below a path behind a buffering proxy, sign-in, live, search and export work', async (t) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, acceptDownloads: true });
  t.after(() => context.close());
  const page = await context.newPage();
  const [requests, offences] = [[], []];
  page.on('request', (request) => requests.push(request.url()));
  page.on('pageerror', (error) => offences.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error' && !/401|Failed to load/.test(message.text())) offences.push(message.text()); });
  await page.goto(base);

  await page.waitForSelector('.signin');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=This token is not known.');
  await page.fill('.signin input', TOKEN);
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=No logs yet');

  await daemon.send([{ service: 'proxied', level: 'warn', message: 'first' }]);
  await until('live works', async () => (await messages(page)).join() === 'first');
  await daemon.send(Array.from({ length: 1200 }, (_, i) => ({ service: 'proxied', message: `line ${i}` })));
  const sent = performance.now();
  await until('live goes on', async () => (await messages(page)).includes('line 1199'));
  t.diagnostic(`1,200 lines on the page after ${Math.round(performance.now() - sent)} ms`);
  assert.notEqual(await page.locator('#state').getAttribute('data-state'), 'buffered', 'nginx holds nothing back');

  await until('all is stored', async () => {
    const answer = await fetch(new URL('/api/logs/export?q=service:proxied', daemon.url), { headers: authorization });
    return (await answer.text()).trim().split('\n').length === 1201;
  }, 30_000);

  await until('the search works', async () => {
    await page.fill('#text', 'service:proxied level:warn');
    await page.press('#text', 'Enter');
    return (await messages(page)).join() === 'first';
  });
  await page.press('#text', 'Escape');
  await page.keyboard.press('r');
  await page.locator('dialog.sheet button', { hasText: '24 hours' }).click();
  await until('the histogram counts', async () => (await page.locator('#histogram').getAttribute('data-total')) === '1');
  await page.keyboard.press('f');
  await page.waitForSelector('.facets button.value[data-value="service=proxied"]');

  await page.fill('#text', 'service:proxied');
  await page.press('#text', 'Enter');
  for (const format of ['NDJSON', 'CSV']) {
    await page.locator('#menu').click();
    await page.locator('dialog.sheet button', { hasText: 'Export' }).click();
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator('dialog.sheet a', { hasText: format }).click()]);
    const text = fs.readFileSync(await download.path(), 'utf8').trim();
    assert.equal(text.split(/\r?\n/).length, format === 'CSV' ? 1202 : 1201);
    assert.match(download.suggestedFilename(), new RegExp(`\\.${format.toLowerCase()}$`));
    await page.keyboard.press('Escape');
  }

  assert.ok(requests.length > 10);
  for (const url of requests) {
    assert.ok(url.startsWith(base), `a request leaves the path: ${url}`);
    assert.ok(!url.includes(TOKEN), 'no token in an address');
  }
  const cookies = await context.cookies();
  assert.ok(cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === 'Strict', JSON.stringify(cookies));
  const logs = fs.readdirSync(nginx.dir).filter((name) => name.endsWith('.log')).map((name) => fs.readFileSync(path.join(nginx.dir, name), 'utf8'));
  for (const log of [...logs, daemon.log]) assert.ok(!log.includes(TOKEN), 'no token in a log');
  await page.keyboard.press('Escape');
  await page.locator('#menu').click();
  await page.locator('dialog.sheet button', { hasText: 'Sign out' }).click();
  await page.waitForSelector('.signin input');
  assert.deepEqual(await context.cookies(), []);
  assert.deepEqual(offences, []);
});

test('check 25: the page is small, complete in itself, and says what it may do', async (t) => {
  const seen = new Set();
  const sizes = { page: 0, sent: 0 };
  const queue = [''];
  while (queue.length > 0) {
    const name = queue.pop();
    if (seen.has(name)) continue;
    seen.add(name);
    const answer = await fetch(`${base.replace(NAME, '127.0.0.1')}${name}`);
    assert.equal(answer.status, 200, name);
    const policy = answer.headers.get('content-security-policy') ?? '';
    for (const rule of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", 'trusted-types watchtower']) {
      assert.ok(policy.includes(rule), `${name || 'the page'}: ${rule}`);
    }
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
    assert.equal(answer.headers.get('referrer-policy'), 'no-referrer');
    const text = await answer.text();
    sizes.page += Buffer.byteLength(text);
    sizes.sent += Number(answer.headers.get('content-length') ?? Buffer.byteLength(text));
    assert.doesNotMatch(text.replaceAll('http://www.w3.org/', ''), /(?:src|href|from|import\(|url\()\s*=?\s*["'(]?\s*(?:https?:)?\/\//, `${name} asks another host`);
    for (const [, file] of text.matchAll(/(?:from\s+|import\s+|src=|href=|createScriptURL\(|script\(|Worker\()["'](?:\.\/)?([\w-]+\.(?:js|css|svg))["']/g)) queue.push(file);
  }
  t.diagnostic(`${seen.size} files, ${sizes.page} bytes, ${sizes.sent} over the wire`);
  assert.ok(sizes.sent <= MOST_BYTES, `${sizes.sent} bytes`);
});
