// The worker: owns the connection, reads the stream, keeps the ring, and posts the page at most 20
// snapshots a second, each with no more rows than the page can show.

import { withoutEscapes } from './ansi.js';
import { Connection } from './connection.js';
import { look } from './look.js';
import { History, isOwn, separateDays } from './history.js';
import { Ring, isBad } from './ring.js';
import { Seats } from './seats.js';
import { isShared, share, touched } from './source.js';
import { setZone } from './zone.js';

const SNAPSHOT_MS = 50;
/** Longest part of a message that a row shows. */
const ROW_CHARACTERS = 2_000;
const MAX_NAMES = 200;
/** Lines above the reader that stay when the ring makes room. */
const KEEP_ABOVE = 500;
const CLOCKS_APART_NS = 5_000_000_000n;

const ring = new Ring(20_000, 32 << 20);
let generation = 0;
let want = { follow: true, from: 0, count: 100 };
let frozen = false;
/** What came during a pause and was kept; what was not is counted by the ring. */
let kept = { count: 0, errors: 0 };
let names = { service: new Set(), environment: new Set(), changed: false };
let columns = [];
let timer = null;
let dirty = false;
let filter = '';
let hasRecords = false;
/** The errors since the last snapshot, where they are read aloud. */
let bad = null;
let isAloud = false;
let openedAt = 0;
const past = new History(touch);

const connection = new Connection({
  logs(text, records, edge) {
    const isCounted = frozen && ring.isFull;
    const added = ring.add(records.filter((record) => !past.isOutside(record, openedAt)), Math.ceil(text.length / Math.max(1, records.length)) + 100, frozen, edge);
    for (const record of added) {
      hasRecords = true;
      remember('service', record.service);
      remember('environment', record.environment);
      if (isAloud && isBad(record.level) && !(record.received_at < openedAt)) {
        bad = { count: (bad?.count ?? 0) + 1, service: record.service, message: withoutEscapes(record.message ?? '').slice(0, 200) };
      }
      // What was there before the page is not new, also where a linked line is read.
      if (frozen && !isCounted && !(record.received_at < openedAt)) count(1, isBad(record.level) ? 1 : 0);
    }
    if (!frozen) ring.trim();
    touch();
  },
  note(note, edge) {
    if (frozen && ring.isFull) {
      ring.missNote(note);
    } else {
      ring.note({ ...note, limit: connection.status.rateLimit }, edge);
      if (frozen) count(note.count ?? 0, (note.by_level?.error ?? 0) + (note.by_level?.fatal ?? 0));
    }
    touch();
  },
  status() {
    touch();
    // What could not be read from the store while it was away can be now.
    if (!['live', 'quiet'].includes(connection.status.state) || !connection.status.ticked) return;
    for (const note of ring.items) if (note.kind === 'gap' && note.reason === 'store' && !note.error) load(note.key);
  },
  live: () => { if (!isShared()) seats.claim(); },
});
const seats = new Seats(connection);

function count(lines, errors) {
  kept.count += lines;
  kept.errors += errors;
}

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
  const missed = ring.missed?.count ?? 0;
  const fresh = { count: kept.count + missed, errors: kept.errors + (ring.missed?.errors ?? 0) };
  const message = { type: 'snapshot', generation, first: ring.first, end: ring.end, start, rows, fresh, missed, moved: ring.takeMoved(), status: connection.status, hasRecords, history: past.state };
  if (names.changed) {
    message.services = [...names.service].sort();
    message.environments = [...names.environment].sort();
    names.changed = false;
  }
  if (bad) message.bad = bad;
  bad = null;
  postMessage(message);
}

/** What a row needs of an item. */
function light(item) {
  if (item.kind !== 'record') return item;
  const { id, timestamp, level, severity_text, service, environment, message = '', event_name, received_at, truncated, length, attributes, resource } = item.record;
  const body = message || event_name || '';
  return {
    kind: 'record', key: item.key, version: item.version, id, timestamp, level, severity_text, service, environment,
    message: item.expanded ? body : body.slice(0, ROW_CHARACTERS),
    expanded: item.expanded,
    lines: item.lines ??= lineBreaks(body),
    rest: body.length - ROW_CHARACTERS,
    whole: truncated ? length : undefined,
    columns: columns.map((name) => attributes?.[name] ?? resource?.[name] ?? item.record[name] ?? ''),
    late: received_at ? (received_at - Number(timestamp) / 1e6) / 1000 : 0,
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
  const asked = generation;
  note.loading = true;
  note.version += 1;
  touch();
  const range = new URLSearchParams(filter);
  // A gap of the stream is told by when lines came, and they have times of their own.
  const apart = note.kind === 'gap' && note.reason !== 'paused' ? CLOCKS_APART_NS : 0n;
  if (note.from) range.set('from', String(BigInt(note.from) - apart));
  if (note.to) range.set('to', String(BigInt(note.to) + 1n + apart));
  if (note.next) range.set('after', note.next);
  range.set('order', 'oldest');
  range.set('limit', '1000');
  try {
    if (isOwn(note)) {
      await past.into(note);
      if (ring.items.length > 1.5 * ring.maxItems) ring.trim(want.from - KEEP_ABOVE);
      touch();
      return;
    }
    const answer = await fetch(`api/logs?${range}`, { signal: AbortSignal.timeout(10_000) });
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.text);
    if (asked !== generation) return;
    ring.fill(key, body.records, body.next);
    if (ring.items.length > 1.5 * ring.maxItems) ring.trim(want.from - KEEP_ABOVE);
  } catch (error) {
    Object.assign(note, { loading: false, error: error.message, version: note.version + 1 });
  }
  touch();
}

/** A line that is this new may be on its way into the store. */
const NEW_MS = 60_000;
const PATIENCE_MS = 5_000;
const ASK_AGAIN_MS = 300;

/** Puts a record and its neighbours before the ring; waits a while for one that may not be stored yet. */
async function fetchAround(at) {
  const end = Date.now() + PATIENCE_MS;
  const isNew = end - Number(at.split('.')[0]) / 1e6 < NEW_MS;
  const asked = generation;
  for (;;) {
    try {
      return await past.around(at);
    } catch (error) {
      if (error.status !== 404 || !isNew || Date.now() > end || asked !== generation) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, ASK_AGAIN_MS); });
  }
}

/** Shows a record with its neighbours, whether or not the query finds it. */
async function showAround(at) {
  const asked = generation;
  const id = at.split('.')[1];
  const found = () => ring.items.findIndex((item) => item.record?.id === id);
  try {
    if (found() < 0) await fetchAround(at);
    if (asked !== generation) return;
    touch();
    flush();
    const index = found();
    postMessage({ type: 'around', at, key: ring.items[index].key, place: ring.first + index, record: ring.items[index].record });
  } catch (error) {
    if (asked === generation) postMessage({ type: 'around', at, error: error.message, status: error.status });
  }
}

const itemOf = (key) => ring.items.find((candidate) => candidate.key === key);

const commands = {
  open({ data }) {
    generation = data.generation;
    filter = data.filter;
    if (data.small) { ring.maxItems = 5_000; ring.maxBytes = 8 << 20; }
    ring.clear();
    hasRecords = false;
    frozen = false;
    kept = { count: 0, errors: 0 };
    openedAt = Date.now();
    setZone(data.zone);
    past.reset(ring, data);
    // A range that has ended has nothing live.
    if (data.to) connection.leave();
    else connection.open(filter);
    if (data.at) showAround(data.at);
    else if (data.to) past.older();
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
    kept = { count: 0, errors: 0 };
    touch();
  },
  thaw() {
    frozen = false;
    ring.thaw();
    kept = { count: 0, errors: 0 };
    touch();
  },
  /** The reader has come to the end of what was kept: the stream comes again from there. */
  readOn() {
    const { edge } = ring;
    if (!ring.missed || !edge) return;
    const left = ring.missed.count;
    ring.makeRoom(want.from - KEEP_ABOVE);
    connection.again(edge, left);
    touch();
  },
  expand({ data }) {
    const item = itemOf(data.key);
    if (!item) return;
    item.expanded = !item.expanded;
    item.version += 1;
    touch();
  },
  record({ data }) { postMessage({ type: 'record', key: data.key, record: itemOf(data.key)?.record ?? null }); },
  records({ data }) {
    const [from, to] = [data.from - ring.first, data.to - ring.first + 1];
    postMessage({ type: 'records', records: ring.items.slice(Math.max(0, from), to).map((item) => item.record).filter(Boolean) });
  },
  next({ data }) {
    const place = ring.nextOf(data.place, data.direction, data.levels);
    if (place !== null) postMessage({ type: 'place', place, key: ring.items[place - ring.first].key });
  },
  load({ data }) { load(data.key); },
  older() { past.older(); },
  stop() { past.stop(); },
  around({ data }) { showAround(data.at); },
  find({ data }) { postMessage({ type: 'found', ...look(ring, data) }); },
  columns({ data }) {
    columns = data.columns;
    touch();
  },
  zone({ data }) {
    setZone(data.zone);
    separateDays(ring);
    touch();
  },
  aloud({ data }) { isAloud = data.on; },
  retry() { connection.retryNow(); },
  rest() { connection.rest(); },
  wake() { connection.wake(); },
  touched() {
    touched();
    seats.touched();
  },
  share({ data }) {
    const isOpen = connection.isOpen;
    share(data.port);
    if (isOpen) connection.retryNow();
  },
};

onmessage = (event) => commands[event.data.type]?.(event);
