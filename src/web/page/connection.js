// The stream's connection: opening, watching over it, and coming back by cursor.
//
// A browser closes an EventSource for good on any answer but 200 and does not say why. So a closed
// stream is asked again with `probe=1`, which answers the reason, and opened again after a while.

import { openSource } from './source.js';

const TICK_TIMEOUT_MS = 15_000;
const HELLO_TIMEOUT_MS = 3_000;
const MAX_BACKOFF_MS = 30_000;
const QUIET_MS = 30_000;
/** Ticks that come so much closer together than they were sent were held back on the way. */
const BUNCHED_MS = 3_000;
const EVENTS = ['hello', 'logs', 'skipped', 'gap', 'tick', 'bye'];

export class Connection {
  constructor(handlers) {
    this.handlers = handlers;
    this.source = null;
    this.cursor = '';
    this.filter = '';
    this.failures = 0;
    this.timers = {};
    this.status = { state: 'connecting', inRate: 0, matchRate: 0, lagMs: 0, queue: 0, skipped: 0, storeOk: true, ticked: false, hello: null };
  }

  /** Opens a new stream for a filter, from the newest lines. */
  open(filter) {
    this.filter = filter;
    this.cursor = '';
    this.failures = 0;
    this.left = 0;
    Object.assign(this.status, { hello: null, skipped: 0, matchRate: 0, quietSince: Date.now() });
    this.set('connecting');
    this.connect();
  }

  /** Has no stream: what is looked at has ended. */
  leave() {
    this.close();
    Object.assign(this.status, { hello: null, ticked: false, tick: null });
    this.set('past');
  }

  /** Opens the stream anew from an earlier cursor, after which about `left` records are to come. */
  again(cursor, left) {
    this.cursor = cursor;
    this.left = left;
    this.set('catching');
    this.connect();
  }

  get isOpen() { return this.source !== null; }

  connect() {
    this.close();
    this.lastTick = null;
    this.errors = 0;
    this.source = openSource(this.filter, this.cursor);
    for (const name of EVENTS) this.source.addEventListener(name, (event) => this.on(name, event));
    this.source.onopen = () => this.after('hello', HELLO_TIMEOUT_MS, () => this.set('buffered'));
    this.source.onerror = () => this.failed();
    this.source.onrest = () => this.rest('tabs');
    this.source.onlost = () => this.connect();
    this.watch();
  }

  query() {
    const query = new URLSearchParams(this.filter);
    if (this.cursor) query.set('after', this.cursor);
    return query;
  }

  on(name, event) {
    if (event.currentTarget !== this.source) return;
    // A new stream has no cursor before its first lines.
    this.edge = this.cursor || event.lastEventId;
    if (event.lastEventId) this.cursor = event.lastEventId;
    this.watch();
    this[name](JSON.parse(event.data), event.data);
  }

  hello(data) {
    clearTimeout(this.timers.hello);
    this.failures = 0;
    this.errors = 0;
    this.status.hello = { cursor: data.cursor, version: data.version, q: data.q };
    this.status.rateLimit = data.limits?.rate;
    this.status.quietSince = Date.now();
    this.handlers.live();
    if (this.isOpen) this.set(this.status.state === 'buffered' ? 'buffered' : this.left > 0 ? 'catching' : 'live');
  }

  logs(records, text) {
    this.status.quietSince = Date.now();
    this.left = Math.max(0, this.left - records.length);
    if (this.status.state === 'catching') this.set(this.left > 0 ? 'catching' : 'live');
    if (this.status.state === 'quiet') this.set('live');
    this.handlers.logs(text, records, this.edge);
  }

  skipped(data) {
    this.status.skipped += data.count;
    this.handlers.note({ kind: 'skipped', ...data }, this.edge);
  }

  gap(data) { this.handlers.note({ kind: 'gap', ...data }, this.edge); }

  tick(data) {
    Object.assign(this.status, { ticked: true, tick: { now: data.now, by_level: data.by_level }, inRate: data.in_rate, matchRate: data.match_rate, lagMs: data.lag_ms, queue: data.queue, storeOk: data.store_ok, now: data.now });
    // Ticks are sent only when a stream has caught up.
    this.left = 0;
    if (this.isHeldBack(data)) return this.set('buffered');
    const isQuiet = Date.now() - this.status.quietSince > QUIET_MS;
    return this.set(data.store_ok ? (isQuiet ? 'quiet' : 'live') : 'store');
  }

  /** Whether ticks show that something on the way holds the stream back. */
  isHeldBack({ now }) {
    const last = this.lastTick;
    this.lastTick = { now, arrived: Date.now() };
    // One tick alone does not show that what held back the `hello` is over.
    if (!last) return this.status.state === 'buffered';
    return now - last.now - (Date.now() - last.arrived) > BUNCHED_MS;
  }

  bye(data) {
    this.close();
    const state = { shutdown: 'restarting', auth: 'signedout', limit: 'limited', idle: 'reconnecting' }[data.reason] ?? 'reconnecting';
    if (state === 'signedout') return this.set(state);
    return this.comeBack(state, '', data.retry_ms);
  }

  failed() {
    if (this.source?.readyState === EventSource.CLOSED) {
      this.close();
      this.probe();
    } else {
      // The browser tries again by itself. Where that fails too, this counts the time and asks why.
      this.errors += 1;
      clearTimeout(this.timers.hello);
      this.set('reconnecting');
      if (this.errors < 2) return;
      this.close();
      this.probe();
    }
  }

  /** Asks why the stream was refused. */
  async probe() {
    const query = this.query();
    query.set('probe', '1');
    try {
      const answer = await fetch(`api/logs/stream?${query}`, { cache: 'no-store', signal: AbortSignal.timeout(10_000) });
      if (this.source) return;
      if (answer.ok) {
        const isOurs = answer.headers.get('content-type')?.includes('json');
        return this.comeBack('reconnecting', answer.status !== 200 ? `answer ${answer.status}` : isOurs ? '' : 'something else answers in its place');
      }
      const error = await answer.json().catch(() => ({}));
      if (answer.status === 401) return this.set('signedout');
      const state = { 429: 'limited', 400: 'refused', 403: 'refused' }[answer.status] ?? 'restarting';
      return this.comeBack(state, error.text ?? `answer ${answer.status}`);
    } catch {
      if (!this.source) this.comeBack('offline', '');
    }
  }

  comeBack(state, reason, atLeast = 0) {
    const pause = Math.max(atLeast, Math.min(MAX_BACKOFF_MS, 1000 * 2 ** this.failures)) * (0.8 + 0.4 * Math.random());
    this.failures += 1;
    this.set(state, { reason, retryAt: Date.now() + pause });
    this.after('retry', pause, () => this.connect());
  }

  retryNow() {
    this.set('connecting');
    this.connect();
  }

  /** Lets the connection go while nobody looks: browsers have few for one host. */
  rest(state = 'hidden') {
    if (!this.source && !this.timers.retry) return;
    this.close();
    this.set(state);
  }

  wake() {
    if (this.status.state === 'hidden') this.retryNow();
  }

  watch() {
    this.after('watch', TICK_TIMEOUT_MS, () => {
      this.close();
      this.comeBack('reconnecting', 'nothing came for 15 s');
    });
  }

  close() {
    this.source?.close();
    this.source = null;
    for (const timer of Object.values(this.timers)) clearTimeout(timer);
    this.timers = {};
  }

  after(name, ms, action) {
    clearTimeout(this.timers[name]);
    this.timers[name] = setTimeout(action, ms);
  }

  set(state, { reason = '', retryAt = null } = {}) {
    Object.assign(this.status, { state, reason, retryAt, left: this.left });
    this.handlers.status();
  }
}
