// A daemon that the tests hold in their hands: the page's own files with the daemon's own headers, and
// the contract of the stream, at any speed and with any fault. It shares no core with a real store.

import { readFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../src/web');
const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml' };
const BLOCK = 500;
const LEVELS = ['info', 'info', 'info', 'debug', 'info', 'warn', 'trace', 'info', 'info', 'info'];

/** The policy as the daemon has it: read from its source, so that it cannot differ. */
const POLICY = /CONTENT_SECURITY_POLICY: &str = "([^"]+)"/.exec(readFileSync(path.join(ROOT, 'mod.rs'), 'utf8'))[1].replace(/\\\s+/g, '');

const newest = (a, b) => (a > b ? a : b);

export class Fake {
  constructor({ keep = true, tickMs = 5_000, meta = {} } = {}) {
    Object.assign(this, { keep, tickMs, meta, hello: {}, helloDelay: 0, isSilent: false, backlog: 200 });
    /** Records in the order of the hub; a cursor is `0:` and how many there were. */
    this.hub = [];
    this.whole = new Map();
    this.position = 0;
    this.byLevel = {};
    this.streams = new Set();
    this.opened = [];
    this.requests = [];
    this.answers = {};
    this.refusal = null;
    this.timers = new Set();
    this.server = http.createServer((request, response) => this.handle(request, response));
    this.server.keepAliveTimeout = 60_000;
  }

  async start(port = 0) {
    await new Promise((resolve, reject) => { this.server.on('error', reject).listen(port, '127.0.0.1', resolve); });
    this.port = this.server.address().port;
    this.every(this.tickMs, () => this.tick());
    return this;
  }

  stop() {
    for (const timer of this.timers) clearInterval(timer);
    this.server.close();
    this.server.closeAllConnections();
  }

  every(ms, action) {
    const timer = setInterval(action, ms);
    this.timers.add(timer);
    return () => { clearInterval(timer); this.timers.delete(timer); };
  }

  // ---- what is sent ----

  /** Makes a record as they are in a homelab; `more` overrides. */
  record(more = {}) {
    const n = (this.made = (this.made ?? 0) + 1);
    const now = Date.now();
    // One microsecond apart at least, so that the order of time is the order of sending.
    this.micros = Math.max((this.micros ?? 0) + 1, now * 1_000);
    return {
      id: String(7_000_000_000_000_000_000n + BigInt(n)),
      timestamp: `${this.micros}000`,
      level: LEVELS[n % LEVELS.length], severity_number: 9, service: `service-${n % 17}`, environment: 'prod',
      message: `line ${n} GET /api/v1/items/${n % 997} answered 200 in ${n % 89} ms for client 10.0.${n % 250}.${n % 199}, request 5f2c${n}`,
      receiver: 'json', received_at: now,
      attributes: { 'http.method': 'GET', 'http.route': '/api/v1/items/{id}', 'http.status_code': '200', 'client.address': `10.0.${n % 250}.1`, 'request.id': `5f2c${n}` },
      resource: { 'host.name': 'shelf', 'process.pid': '4242', 'service.version': '1.4.2' },
      ...more,
    };
  }

  /** Sends records to all streams, as the hub does. */
  emit(records) {
    for (let at = 0; at < records.length; at += BLOCK) {
      const block = records.slice(at, at + BLOCK);
      this.position += block.length;
      for (const { level } of block) this.byLevel[level] = (this.byLevel[level] ?? 0) + 1;
      if (this.keep) this.hub.push(...block);
      this.write(event('logs', block, this.position));
    }
    return records;
  }

  many(count, more) { return this.emit(Array.from({ length: count }, (_, i) => this.record(typeof more === 'function' ? more(i) : more))); }

  /** Sends so many lines a second until the answer is called. */
  flow(rate, more) {
    const begun = Date.now();
    let sent = 0;
    const stop = this.every(20, () => {
      const due = Math.floor((Date.now() - begun) * rate / 1000) - sent;
      if (due > 0) this.many(due, more);
      sent += Math.max(0, due);
    });
    return () => { stop(); return sent; };
  }

  /** Counts records that are stored and not shown, as over the rate. */
  skip(records, reason = 'rate') {
    const by_level = {};
    for (const { level } of records) {
      by_level[level] = (by_level[level] ?? 0) + 1;
      this.byLevel[level] = (this.byLevel[level] ?? 0) + 1;
    }
    this.position += records.length;
    this.hub.push(...records);
    const times = records.map((record) => BigInt(record.timestamp));
    const data = { count: records.length, by_level, from: String(times.reduce((a, b) => (a < b ? a : b))), to: String(times.reduce(newest)), reason };
    this.write(event('skipped', data, this.position));
  }

  tick(more = {}) {
    if (this.isSilent) return;
    const data = { cursor: `0:${this.position}`, now: Date.now(), in_rate: 0, match_rate: 0, by_level: {}, lag_ms: 0, queue: 0, store_ok: true, ...this.ticks, ...more };
    this.write(event('tick', data, this.position));
  }

  bye(reason, retry_ms = 1_000) {
    for (const stream of this.streams) stream.end(event('bye', { reason, retry_ms }));
  }

  write(text) { for (const stream of this.streams) stream.write(text); }

  /** Ends all streams in the middle. */
  cut() { for (const stream of this.streams) stream.destroy(); }

  // ---- requests ----

  handle(request, response) {
    const url = new URL(request.url, 'http://fake');
    this.requests.push({ at: Date.now(), method: request.method, url: request.url });
    const name = url.pathname === '/' ? 'index.html' : url.pathname.slice(1);
    if (/^[a-z-]+\.(html|js|css|svg)$/.test(name)) return this.file(name, response);
    if (url.pathname === '/api/logs/stream') return this.stream(url, request, response);
    const answer = this.answers[url.pathname] ?? this.answer(url);
    return json(response, ...(typeof answer === 'function' ? answer(url) : answer));
  }

  file(name, response) {
    let bytes;
    try {
      bytes = readFileSync(path.join(ROOT, 'page', name));
    } catch {
      return json(response, 404, {});
    }
    response.writeHead(200, {
      'content-type': TYPES[name.split('.').at(-1)], 'cache-control': 'no-cache', 'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer',
    });
    return response.end(bytes);
  }

  stream(url, request, response) {
    const after = request.headers['last-event-id'] || url.searchParams.get('after') || '';
    const isProbe = url.searchParams.get('probe') === '1';
    this.opened.push({ at: Date.now(), after, isProbe, query: url.search });
    if (this.refusal) return json(response, this.refusal, { code: 'refused', text: `refused with ${this.refusal}` });
    if (isProbe) return json(response, 200, {});
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' });
    response.flushHeaders();
    response.on('close', () => this.streams.delete(response));
    if (this.isSilent) return undefined;
    return setTimeout(() => this.begin(response, after), this.helloDelay);
  }

  begin(response, after) {
    const data = { v: 1, cursor: `0:${this.position}`, q: { understood: '' }, backlog: this.backlog, resumed: after !== '', now: Date.now(), tick_ms: this.tickMs, limits: { rate: 10_000, buffer_bytes: 4 << 20 }, version: 'fake', ...this.hello };
    response.write(`retry: 1000\n\n${event('hello', data)}`);
    const from = after ? Number(after.split(':')[1]) : Math.max(0, this.hub.length - this.backlog);
    const missed = this.keep ? this.hub.slice(from) : [];
    for (let at = 0; at < missed.length; at += BLOCK) {
      const block = missed.slice(at, at + BLOCK);
      response.write(event('logs', block, from + at + block.length));
    }
    response.write(`id: 0:${this.position}\n\n`);
    this.streams.add(response);
  }

  answer({ pathname, searchParams }) {
    if (pathname === '/api/meta') return [200, { assets: 'fake', version: 'fake', meta: { ingest_token_needed: false, loopback_only: true, ports: { otlp_grpc: 4317, otlp_http: 4318, web: this.port }, read_token_needed: false, retention_days: 30, tls: false, ...this.meta } }];
    if (pathname === '/api/logs') return [200, this.search(searchParams)];
    const id = /^\/api\/logs\/(\d+)$/.exec(pathname)?.[1];
    const record = id && (this.whole.get(id) ?? this.hub.find((candidate) => candidate.id === id));
    if (record) return [200, record];
    if (pathname === '/api/logs/histogram') return [200, { q: {}, start: '0', end: '1', step: '1', buckets: [], complete: true }];
    if (pathname === '/api/fields') return [200, { fields: [], complete: true }];
    if (pathname === '/api/status') return [200, {}];
    return [404, { code: 'not_found', text: 'there is no such path' }];
  }

  search(params) {
    const [from, to] = ['from', 'to'].map((name) => (/^\d+$/.test(params.get(name) ?? '') ? BigInt(params.get(name)) : null));
    const key = (record) => [BigInt(record.timestamp), BigInt(record.id)];
    const compare = (a, b) => (a[0] !== b[0] ? (a[0] < b[0] ? -1 : 1) : a[1] < b[1] ? -1 : Number(a[1] > b[1]));
    const place = (name) => params.get(name)?.split('.').map(BigInt);
    const [after, before] = [place('after'), place('before')];
    const found = this.hub.map((record) => [key(record), record]).filter(([at]) => (from === null || at[0] >= from) && (to === null || at[0] < to)
      && (!after || compare(at, after) > 0) && (!before || compare(at, before) < 0));
    found.sort((a, b) => compare(a[0], b[0]));
    if (params.get('order') !== 'oldest') found.reverse();
    const limit = Number(params.get('limit') ?? 200);
    const records = found.slice(0, limit).map(([, record]) => record);
    const last = records.at(-1);
    return { q: {}, records, next: found.length > limit ? `${last.timestamp}.${last.id}` : null, complete: true, took_ms: 1 };
  }
}

function event(name, data, position) {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n${position === undefined ? '' : `id: 0:${position}\n`}\n`;
}

function json(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(status === 204 ? undefined : JSON.stringify(body));
}

export const fake = (options) => new Fake(options).start();
