// The worker: owns the connection, reads the stream, keeps the ring, and posts the page at most 20
// snapshots a second, each with no more rows than the page can show.

import { Connection } from './connection.js';
import { Ring } from './ring.js';

const SNAPSHOT_MS = 50;
/** Longest part of a message that a row shows. */
const ROW_CHARACTERS = 2_000;
const MAX_NAMES = 200;

let ring = new Ring(20_000, 32 << 20);
let generation = 0;
let want = { follow: true, from: 0, count: 100 };
let frozen = false;
let fresh = { count: 0, errors: 0 };
let names = { service: new Set(), environment: new Set(), changed: false };
let timer = null;
let dirty = false;
let filter = '';
let hasRecords = false;

const connection = new Connection({
  logs(text, records) {
    const bytes = Math.ceil(text.length / Math.max(1, records.length)) + 100;
    for (const record of records) {
      if (!ring.add(record, bytes, frozen)) continue;
      hasRecords = true;
      remember('service', record.service);
      remember('environment', record.environment);
      if (frozen) {
        fresh.count += 1;
        if (record.level === 'error' || record.level === 'fatal') fresh.errors += 1;
      }
    }
    if (!frozen) ring.trim();
    touch();
  },
  note(note) {
    if (frozen && ring.isFull) {
      ring.missed ??= { kind: 'gap', reason: 'paused', count: 0, from: note.from };
      ring.missed.count += note.count ?? 0;
    } else {
      ring.note(note);
    }
    if (frozen) {
      fresh.count += note.count ?? 0;
      fresh.errors += (note.by_level?.error ?? 0) + (note.by_level?.fatal ?? 0);
    }
    touch();
  },
  status: touch,
});

function remember(kind, name) {
  const known = names[kind];
  if (name && !known.has(name) && known.size < MAX_NAMES) {
    known.add(name);
    names.changed = true;
  }
}

function touch() {
  dirty = true;
  timer ??= setTimeout(flush, SNAPSHOT_MS);
}

function flush() {
  timer = null;
  if (!dirty) return;
  dirty = false;
  const start = want.follow ? Math.max(ring.first, ring.end - want.count) : Math.min(Math.max(ring.first, want.from), ring.end);
  const rows = ring.items.slice(start - ring.first, start - ring.first + want.count).map(light);
  const message = { type: 'snapshot', generation, first: ring.first, end: ring.end, start, rows, fresh, missed: ring.missed?.count ?? 0, status: connection.status, hasRecords };
  if (names.changed) {
    message.services = [...names.service].sort();
    message.environments = [...names.environment].sort();
    names.changed = false;
  }
  postMessage(message);
}

/** What a row needs of an item. */
function light(item) {
  if (item.kind !== 'record') return item;
  const { id, timestamp, level, severity_text, service, environment, message = '', event_name, received_at } = item.record;
  return {
    kind: 'record', key: item.key, version: item.version, id, timestamp, level, severity_text, service, environment,
    message: (message || event_name || '').slice(0, ROW_CHARACTERS),
    more: lineBreaks(message),
    late: received_at ? Math.round(received_at / 1000 - Number(timestamp.slice(0, -9) || '0')) : 0,
  };
}

function lineBreaks(text) {
  let breaks = 0;
  for (let at = text.indexOf('\n'); at >= 0 && at < text.length - 1; at = text.indexOf('\n', at + 1)) breaks += 1;
  return breaks;
}

/** Fetches lines that were not shown, and puts them into their place. */
async function load(key) {
  const note = ring.items.find((item) => item.key === key);
  if (!note || note.loading) return;
  note.loading = true;
  note.version += 1;
  touch();
  const range = new URLSearchParams(filter);
  if (note.from) range.set('from', note.from);
  if (note.to) range.set('to', String(BigInt(note.to) + 1n));
  if (note.next) range.set('after', note.next);
  range.set('order', 'oldest');
  range.set('limit', '1000');
  try {
    const answer = await fetch(`api/logs?${range}`, { signal: AbortSignal.timeout(10_000) });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.text);
    ring.fill(key, body.records, body.next);
    note.loading = false;
    delete note.error;
  } catch (error) {
    note.loading = false;
    note.version += 1;
    note.error = error.message;
  }
  touch();
}

const commands = {
  open({ data }) {
    generation = data.generation;
    filter = data.filter;
    if (data.small) { ring.maxItems = 5_000; ring.maxBytes = 8 << 20; }
    ring.clear();
    hasRecords = false;
    frozen = false;
    fresh = { count: 0, errors: 0 };
    connection.open(filter);
    touch();
  },
  want({ data }) {
    want = data.want;
    dirty = true;
    clearTimeout(timer);
    flush();
  },
  freeze() {
    frozen = true;
    fresh = { count: 0, errors: 0 };
    touch();
  },
  thaw() {
    frozen = false;
    ring.thaw();
    fresh = { count: 0, errors: 0 };
    touch();
  },
  record({ data }) {
    const item = ring.items.find((candidate) => candidate.key === data.key);
    postMessage({ type: 'record', key: data.key, record: item?.record ?? null });
  },
  nextError({ data }) {
    const place = ring.nextError(data.place, data.direction);
    if (place !== null) postMessage({ type: 'place', place, key: ring.items[place - ring.first].key });
  },
  load({ data }) { load(data.key); },
  retry() { connection.retryNow(); },
  rest() { connection.rest(); },
  wake() { connection.wake(); },
};

onmessage = (event) => commands[event.data.type]?.(event);
