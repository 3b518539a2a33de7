// Makes docs/screenshots/*.png from the real page on a real daemon, with the usual ports, which have to be free:
// `node tests/web/screenshots.mjs`.

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { Daemon, ROOT } from './daemon.mjs';
import { closeAll, launch, messages, open, pause, until } from './harness.mjs';
import { smaller } from './png.mjs';

const FOLDER = path.join(ROOT, 'docs/screenshots');
const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 1.5 };
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

let seed = 7;
const random = () => { seed = (seed * 48_271) % 2_147_483_647; return seed / 2_147_483_647; };
const pick = (all) => all[Math.floor(random() * all.length)];
const some = (low, high) => Math.floor(low + random() * (high - low));

const KINDS = [
  [30, () => ['api', 'info', `GET /api/v1/albums/${some(1, 900)} 200 in ${some(2, 90)} ms`, { 'http.method': 'GET', 'http.route': '/api/v1/albums/{id}', 'http.status_code': 200 }]],
  [12, () => ['api', 'info', `POST /api/v1/upload 201 in ${some(80, 900)} ms, ${some(1, 24)} MB`, { 'http.method': 'POST', 'http.route': '/api/v1/upload', 'http.status_code': 201 }]],
  [14, () => ['proxy', 'info', `192.168.1.${some(2, 60)} "GET /photos/${some(1000, 9999)}.jpg HTTP/2.0" 200 ${some(20, 900)}kB`, { 'http.status_code': 200 }]],
  [10, () => ['home-assistant', 'debug', `sensor.living_room_temperature is ${(19 + random() * 4).toFixed(1)} °C`, { 'entity.id': 'sensor.living_room_temperature' }]],
  [8, () => ['backup', 'info', `snapshot ${some(100, 999)}: ${some(3, 400)} files, ${some(1, 900)} MB added`, { repository: 'nas' }]],
  [6, () => ['postgres', 'warn', `duration: ${some(1200, 5200)}.${some(100, 999)} ms  statement: SELECT * FROM assets WHERE owner_id = $1`, { 'db.name': 'photos' }]],
  [5, () => ['dns', 'debug', `query[A] ${pick(['pool.ntp.org', 'github.com', 'example.org'])} from 192.168.1.${some(2, 60)}`, {}]],
  [3, () => ['api', 'warn', `slow thumbnail: ${some(2, 9)}.${some(1, 9)} s for IMG_${some(1000, 9999)}.HEIC`, { 'file.size': some(1e6, 9e6) }]],
  [2, () => ['api', 'error', 'Upload failed: no space left on device\n    at write (/app/storage.js:214:11)\n    at store (/app/upload.js:88:5)\n    at handle (/app/server.js:41:3)', { 'http.status_code': 507, 'error.type': 'ENOSPC' }]],
  [1, () => ['mail', 'error', 'relay=smtp.example.org: connection timed out, will retry in 300 s', { 'queue.id': '4F1A2C' }]],
];

function kind() {
  let at = random() * KINDS.reduce((sum, [weight]) => sum + weight, 0);
  return KINDS.find(([weight]) => (at -= weight) < 0)[1]();
}

function record(ms) {
  const [service, level, message, attributes] = kind();
  return {
    timestamp: String(BigInt(Math.round(ms)) * 1_000_000n + BigInt(some(0, 999_999))), service, level, message, environment: 'prod',
    ...(service === 'api' && { trace_id: level === 'error' ? TRACE : undefined }),
    attributes, resource: { 'host.name': pick(['nas', 'nas', 'shelf']), 'service.version': '1.4.2' },
  };
}

mkdirSync(FOLDER, { recursive: true });
const browser = await launch();
const daemon = await new Daemon().prepare();
Object.assign(daemon, { port: 4319, url: new URL('http://127.0.0.1:4319') });
writeFileSync(path.join(daemon.dir, 'watchtower.yaml'), `state_dir: ${daemon.dir}/state\n`);
await daemon.spawn().ready();
async function shoot(page, name) {
  writeFileSync(path.join(FOLDER, `${name}.png`), smaller(await page.screenshot()));
}
const openPage = (query, options) => open(browser, { port: daemon.port, query, options });
const filled = (page) => until('rows', async () => (await messages(page)).length > 5);
try {
  const { page: empty } = await openPage('', { ...DESKTOP, colorScheme: 'light' });
  await empty.waitForSelector('text=No logs yet');
  await shoot(empty, 'empty');

  const now = Date.now();
  const times = Array.from({ length: 4_000 }, () => now - 7_200_000 * random() ** 1.4).sort((a, b) => a - b);
  for (let at = 0; at < times.length; at += 500) await daemon.send(times.slice(at, at + 500).map(record));
  const stored = async () => (await (await fetch(new URL('/api/logs?q=*:nas&limit=1', daemon.url))).json()).records?.length;
  await until('lines are stored', stored, 30_000);
  await pause(2_000);

  const flow = setInterval(() => daemon.send([record(Date.now()), record(Date.now())]), 150);
  const { page: list } = await openPage('', { ...DESKTOP, colorScheme: 'light' });
  await filled(list);
  await pause(11_000);
  await shoot(list, 'list');
  const { page: dark } = await openPage('?q=level>=warn', { ...DESKTOP, colorScheme: 'dark' });
  await filled(dark);
  await pause(6_000);
  await shoot(dark, 'dark');
  clearInterval(flow);

  const { page: detail } = await openPage('?q=service:api&from=2h', { ...DESKTOP, colorScheme: 'light' });
  await filled(detail);
  await detail.keyboard.press('E');
  await detail.waitForSelector('.row.focused');
  await detail.keyboard.press('Enter');
  await detail.waitForSelector('.detail');
  await pause(500);
  await shoot(detail, 'detail');
  await detail.keyboard.press('c');
  await detail.waitForSelector('.near.anchor');
  await pause(300);
  await shoot(detail, 'context');

  const { page: facets } = await openPage('?q=level>=info&from=2h', { ...DESKTOP, colorScheme: 'light' });
  await filled(facets);
  await facets.keyboard.press('f');
  await facets.waitForSelector('.facets .value');
  await pause(2_500);
  await shoot(facets, 'facets');
  await facets.locator('#list').focus();
  await facets.keyboard.press('f');
  await facets.keyboard.press('i');
  await facets.waitForSelector('dialog.sheet .figures td');
  await pause(300);
  await shoot(facets, 'status');

  const { page: phone } = await openPage('', { ...PHONE, colorScheme: 'dark' });
  await filled(phone);
  await pause(500);
  await shoot(phone, 'phone');
} finally {
  await closeAll();
  await browser.close();
  await daemon.remove();
}
