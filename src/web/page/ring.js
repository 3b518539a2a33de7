// What the worker keeps of the stream: records and notes about lines that are missing, bounded in
// number and bytes. Places are absolute: they count items since the stream was opened, also those let
// go since. Items stand in the order of `at`.

import { dayNumber } from './zone.js';

/** A clock further off than this is not believed: such a record stands where it arrived. */
const SKEW_MS = 5_000;
const BAD = new Set(['error', 'fatal']);

export const isBad = (level) => BAD.has(level);

/** Where in time a record stands, in milliseconds. */
export function standsAt({ timestamp, received_at: received }) {
  const ms = Number(timestamp) / 1e6;
  return received && Math.abs(ms - received) > SKEW_MS ? received : ms;
}

/** Whether an item stands before another; records of one time stand by their ids. */
function isBefore({ at, record: a }, { at: other, record: b }) {
  if (at !== other || a?.timestamp !== b?.timestamp || !a) return at < other;
  return a.id.length === b.id.length ? a.id < b.id : a.id.length < b.id.length;
}

export class Ring {
  constructor(maxItems, maxBytes) {
    this.maxItems = maxItems;
    this.maxBytes = maxBytes;
    this.nextKey = 0;
    this.clear();
  }

  clear() {
    this.items = [];
    this.ids = new Set();
    this.bytes = 0;
    /** Items that were let go; the absolute place of items[0]. */
    this.first = 0;
    /** What was counted and not kept during a pause. */
    this.missed = null;
    this.moved = { shifts: [], forget: null };
  }

  get end() { return this.first + this.items.length; }
  get isFull() { return this.items.length >= this.maxItems || this.bytes >= this.maxBytes; }
  get lastAt() { return this.items.at(-1)?.at ?? -Infinity; }

  dayOf(ms) { return dayNumber(ms); }

  /** Makes an item of what is to stand at a time. */
  make(item, at, bytes) {
    this.nextKey += 1;
    return Object.assign(item, { key: this.nextKey, at, version: 0, bytes });
  }

  /** The cursor from which the stream brings again all that is newer than the ring. */
  get edge() { return this.items.findLast((item) => item.edge)?.edge ?? ''; }

  /**
   * Adds records, those that are there already left out, and gives the added ones. During a pause
   * (`frozen`) nothing goes between lines that may be looked at, and a full ring only counts.
   * `edge` is a cursor of the stream before them.
   */
  add(records, bytes, frozen, edge) {
    const fresh = records.filter((record) => !this.ids.has(record.id) && this.ids.add(record.id));
    if (fresh.length === 0) return fresh;
    if (frozen && this.isFull) {
      this.miss(fresh);
      return fresh;
    }
    const items = fresh.map((record) => this.make({ kind: 'record', record, edge }, standsAt(record), bytes));
    if (items.some((item, i) => i > 0 && item.at < items[i - 1].at)) items.sort((a, b) => a.at - b.at);
    if (items[0].at >= this.lastAt) this.append(items);
    else if (frozen) this.append(items.map((item) => Object.assign(item, { at: Math.max(item.at, this.lastAt) })));
    else this.moved.forget = Math.min(this.moved.forget ?? Infinity, this.merge(items)[0][0]);
    return fresh;
  }

  append(items) {
    for (const item of items) {
      if (this.items.length > 0) this.separate(item.at);
      this.push(item);
    }
  }

  push(item) {
    this.items.push(item);
    this.bytes += item.bytes;
  }

  /** A line with the date between two days. */
  separate(at) {
    if (this.dayOf(at) > this.dayOf(this.lastAt)) this.push(this.make({ kind: 'day', ms: at }, at, 50));
  }

  /** Puts sorted items in between by time; gives the places where, and how many at each. */
  merge(items) {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(items[0], this.items[middle])) high = middle; else low = middle + 1;
    }
    const tail = this.items.splice(low);
    const shifts = [];
    let at = 0;
    for (const [i, old] of tail.entries()) {
      const from = at;
      while (at < items.length && isBefore(items[at], old)) this.push(items[at++]);
      if (at > from) shifts.push([this.first + low + i, at - from]);
      this.items.push(old);
    }
    if (at < items.length) shifts.push([this.first + low + tail.length, items.length - at]);
    while (at < items.length) this.push(items[at++]);
    return shifts;
  }

  /** Counts records that a full ring does not take during a pause. */
  miss(records) {
    const missed = this.missed ??= { count: 0, errors: 0, from: null, to: null };
    for (const record of records) {
      this.ids.delete(record.id);
      missed.count += 1;
      if (isBad(record.level)) missed.errors = (missed.errors ?? 0) + 1;
      // A clock that is far off would stretch the range to all of history.
      if (standsAt(record) === Number(record.timestamp) / 1e6) this.widen(missed, record.timestamp, record.timestamp);
    }
  }

  missNote(note) {
    const missed = this.missed ??= { count: 0, errors: 0, from: null, to: null };
    missed.count += note.count ?? 0;
    missed.errors = (missed.errors ?? 0) + (note.by_level?.error ?? 0) + (note.by_level?.fatal ?? 0);
    if (note.from) this.widen(missed, note.from, note.to ?? note.from);
  }

  widen(missed, from, to) {
    if (missed.from === null || BigInt(from) < BigInt(missed.from)) missed.from = from;
    if (missed.to === null || BigInt(to) > BigInt(missed.to)) missed.to = to;
  }

  /** Adds a note: `skipped` or `gap`. */
  note(note, edge) {
    const last = this.items.at(-1);
    if (note.kind === 'skipped' && last?.kind === 'skipped' && last.reason === note.reason && !last.next) {
      last.count += note.count;
      this.widen(last, note.from, note.to);
      for (const [level, count] of Object.entries(note.by_level ?? {})) last.by_level[level] = (last.by_level[level] ?? 0) + count;
      last.version += 1;
      return;
    }
    const until = note.to ? Number(note.to) / 1e6 : -Infinity;
    this.push(this.make({ ...note, by_level: { ...note.by_level }, edge }, Math.max(this.lastAt, until), 200));
  }

  /** Lets the oldest go, but nothing from place `keep` on. */
  trim(keep = Infinity) {
    let excess = 0;
    let { bytes } = this;
    const most = Math.min(this.items.length - 1, keep - this.first);
    while (excess < most && (this.items.length - excess > this.maxItems || bytes > this.maxBytes)) {
      bytes -= this.items[excess].bytes;
      excess += 1;
    }
    if (excess <= 0) return;
    for (const item of this.items.splice(0, excess)) {
      if (item.record) this.ids.delete(item.record.id);
    }
    this.bytes = bytes;
    this.first += excess;
  }

  /** Room to read on: lets all before `keep` go and forgets what was counted, which is to come again. */
  makeRoom(keep) {
    const [items, bytes] = [this.maxItems, this.maxBytes];
    [this.maxItems, this.maxBytes] = [0, 0];
    this.trim(keep);
    [this.maxItems, this.maxBytes] = [items, bytes];
    this.missed = null;
  }

  /** Ends a pause: what was not kept becomes a note in its place. */
  thaw() {
    if (this.missed) this.note({ kind: 'gap', reason: 'paused', ...this.missed });
    this.missed = null;
    this.trim();
  }

  /** Records come by another way than the notes, among the oldest items, that count them as not shown. */
  discount(records, most) {
    const notes = this.items.slice(0, most).filter((item) => item.kind === 'skipped');
    if (notes.length === 0) return;
    for (const { timestamp, level } of records) {
      const note = notes.find(({ from, to, by_level }) => BigInt(from) <= BigInt(timestamp) && BigInt(timestamp) <= BigInt(to) && by_level[level] > 0);
      if (!note) continue;
      note.by_level[level] -= 1;
      note.count -= 1;
      note.version += 1;
    }
    for (const note of notes) if (note.count <= 0) this.remove(note);
  }

  /** Puts records where they stand in time, those that are there already left out, and gives the items. */
  insert(records) {
    const fresh = records.filter((record) => !this.ids.has(record.id) && this.ids.add(record.id));
    const items = fresh.map((record) => this.make({ kind: 'record', record }, standsAt(record), 300 + 2 * (record.message?.length ?? 0)));
    items.sort((a, b) => a.at - b.at);
    if (items.length > 0) this.moved.shifts.push(this.merge(items));
    return items;
  }

  /** Puts records that a note stands for into their places; the note goes, or stays for the others. */
  fill(key, records, next) {
    const note = this.items.find((item) => item.key === key);
    if (!note) return;
    const items = this.insert(records);
    for (const { record } of items) if (note.by_level?.[record.level]) note.by_level[record.level] -= 1;
    if (note.count !== null && note.count !== undefined) note.count -= items.length;
    Object.assign(note, { next, loading: false, error: null, version: note.version + 1 });
    // Nothing more in the store, though more was counted: it may be on its way there.
    note.isDone = !next && items.length === 0;
    if (!next && !(note.count > 0)) this.remove(note);
  }

  remove(note) {
    const at = this.items.indexOf(note);
    this.items.splice(at, 1);
    this.bytes -= note.bytes;
    this.moved.shifts.push([[this.first + at + 1, -1]]);
  }

  /** What has moved since this was asked last. */
  takeMoved() {
    const { moved } = this;
    this.moved = { shifts: [], forget: null };
    return moved;
  }

  /** Place of the next item from `place` on, in a direction, whose level is one of these. */
  nextOf(place, direction, levels) {
    for (let i = place - this.first + direction; i >= 0 && i < this.items.length; i += direction) {
      if (levels.includes(this.items[i].record?.level)) return this.first + i;
    }
    return null;
  }
}
