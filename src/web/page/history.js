// The worker's way back in time: pages of stored records, put before or into what the stream brought.
//
// Pages are asked for by place, `(timestamp, id)`, strictly before or after, so that no number of
// records with one time can hide another. The ring leaves out what it has already.

const PAGE = 500;
const AROUND = 100;
const PATIENCE_MS = 30_000;
/** Difference of clocks in seconds beyond which a record's time says little of when it came. */
const SKEW_S = 5;
/** So many of the ring's oldest records say where it begins. */
const LOOK = 200;

const placeOf = (record) => `${record.timestamp}.${record.id}`;

export function comparePlaces(a, b) {
  const [at, bt] = [BigInt(a.timestamp), BigInt(b.timestamp)];
  if (at !== bt) return at < bt ? -1 : 1;
  const [ai, bi] = [BigInt(a.id), BigInt(b.id)];
  return ai < bi ? -1 : Number(ai > bi);
}

/** Gaps that the reader's way through time has left; the stream's own are the ring's. */
export const isOwn = (note) => ['between', 'far'].includes(note.reason);

const isSkewed = (record) => record.received_at && Math.abs(record.received_at / 1000 - Number(record.timestamp.slice(0, -9) || '0')) > SKEW_S;

async function ask(path, params, signal) {
  const answer = await fetch(`${path}?${params}`, { cache: 'no-store', signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]) });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(body.text ?? `answer ${answer.status}`), { status: answer.status });
  return body;
}

export class History {
  /** `changed` is called whenever there is something new to show. */
  constructor(changed) {
    this.changed = changed;
    this.state = { phase: 'idle' };
  }

  /** Begins anew. The range is nanoseconds as text, or nothing where it is open. */
  reset(ring, { filter = '', from = '', to = '' } = {}) {
    this.abort?.abort();
    this.abort = new AbortController();
    Object.assign(this, { ring, filter, from, to, before: '', upTo: to, first: 0 });
    this.set({ phase: 'idle', found: 0 });
  }

  set(state) {
    this.state = { ...this.state, ...state };
    this.changed();
  }

  params(more) {
    const params = new URLSearchParams(this.filter);
    if (this.from) params.set('from', this.from);
    for (const [name, value] of Object.entries(more)) if (value) params.set(name, String(value));
    return params;
  }

  /** Whether a record that the stream found in the store is outside of the range. */
  isOutside(record, openedAt) {
    return Boolean(this.from) && BigInt(record.timestamp) < BigInt(this.from) && !(record.received_at >= openedAt);
  }

  /** Place before which the ring has nothing. */
  begin() {
    const records = this.ring.items.slice(0, LOOK).map((item) => item.record).filter(Boolean);
    const straight = records.filter((record) => !isSkewed(record));
    const from = straight.length ? straight : records;
    return from.length ? placeOf(from.reduce((a, b) => (comparePlaces(a, b) > 0 ? a : b))) : '';
  }

  /** Puts the next older page before the ring. */
  async older() {
    if (this.ring.first > this.first) {
      // The ring let go what was read before.
      Object.assign(this, { before: '', upTo: this.to });
      if (this.state.phase === 'end') this.state.phase = 'idle';
    }
    this.first = this.ring.first;
    if (['loading', 'end'].includes(this.state.phase)) return;
    const { signal } = this.abort;
    this.set({ phase: 'loading', error: '' });
    try {
      const before = this.before || this.begin();
      const page = await ask('api/logs', this.params({ before, to: this.upTo, order: 'newest', limit: PAGE }), signal);
      const last = page.records.at(-1);
      if (last) this.before = placeOf(last);
      else this.before = before;
      const added = prepend(this.ring, page.records.toReversed());
      this.state.q = page.q;
      this.first = this.ring.first;
      const found = this.state.found + added;
      if (!page.complete) {
        // What was searched needs no second search.
        if (page.searched_to) this.upTo = page.searched_to;
        this.set({ phase: 'partial', searchedTo: page.searched_to ?? last?.timestamp ?? '', found });
      } else {
        this.set({ phase: page.next ? 'idle' : 'end', found });
        // A page of what is there already brings the reader nothing.
        if (page.next && added === 0) await this.older();
      }
    } catch (error) {
      if (!signal.aborted) this.set({ phase: 'error', error: error.message });
    }
  }

  /** Ends a search under way; the daemon ends it too. */
  stop() {
    if (this.state.phase !== 'loading') return;
    this.abort.abort();
    this.abort = new AbortController();
    this.set({ phase: 'stopped' });
  }

  /** Puts the next lines of a gap before it, until it is closed. */
  async into(note) {
    const ring = this.ring;
    const to = note.to ? String(BigInt(note.to) + 1n) : endOfGap(ring, note) || this.to;
    const more = note.next ? { after: note.next } : { from: note.from };
    const page = await ask('api/logs', this.params({ ...more, to, order: 'oldest', limit: PAGE }), this.abort.signal);
    const index = ring.items.indexOf(note);
    if (index < 0) return;
    const { items } = run(ring, page.records, ring.items[index - 1], ring.items[index + 1]);
    ring.items = [...ring.items.slice(0, index), ...items, ...ring.items.slice(index)];
    for (const item of items) ring.bytes += item.bytes;
    if (items.length) ring.moved.shifts.push([[ring.first + index, items.length]]);
    if (page.next) Object.assign(note, { next: page.next, count: null, loading: false, error: null, version: note.version + 1 });
    else ring.remove(note);
  }

  /** Puts a record and its neighbours before the ring, and a gap up to it; says whether there is such a record. */
  async around(at) {
    const { signal } = this.abort;
    const [timestamp, id] = at.split('.');
    this.set({ phase: 'loading', error: '' });
    const record = await ask(`api/logs/${encodeURIComponent(id)}`, new URLSearchParams({ timestamp }), signal);
    const page = (more) => ask('api/logs', this.params({ to: this.to, limit: AROUND, ...more }), signal);
    const [older, newer] = await Promise.all([page({ before: at, order: 'newest' }), page({ after: at, order: 'oldest' })]);
    const records = [...older.records.toReversed(), record, ...newer.records];
    const ring = this.ring;
    const meets = newer.records.some((one) => ring.ids.has(one.id)) || ring.ids.has(record.id);
    if (newer.next && !meets) {
      const gap = { kind: 'gap', reason: 'between', count: null, from: records.at(-1).timestamp, next: newer.next };
      if (this.to) gap.to = String(BigInt(this.to) - 1n);
      putFirst(ring, [ring.make({ ...gap, by_level: {} }, Number(gap.from) / 1e6, 200)]);
    }
    prepend(ring, records);
    this.first = ring.first;
    this.before = placeOf(records[0]);
    this.set({ phase: older.next || !older.complete ? 'idle' : 'end' });
    return ring.items.find((item) => item.record?.id === record.id) ?? null;
  }
}

const day = (ring, at) => ring.make({ kind: 'day', ms: at }, at, 50);
const ms = (record) => Number(record.timestamp) / 1e6;

/**
 * Items for records that stand together in the order of their times, between two others. Stored records
 * stand by their own time: where a clock was far off, that is where a search finds them.
 */
function run(ring, records, before, after) {
  const fresh = records.filter((record) => !ring.ids.has(record.id) && ring.ids.add(record.id));
  const items = [];
  let last = before;
  for (const record of fresh) {
    const at = Math.min(Math.max(ms(record), last?.at ?? -Infinity), after?.at ?? Infinity);
    if (last && ring.dayOf(at) > ring.dayOf(last.at)) items.push(day(ring, at));
    last = ring.make({ kind: 'record', record }, at, 300 + 2 * (record.message?.length ?? 0));
    items.push(last);
  }
  return { items, count: fresh.length };
}

/** Puts records, oldest first, before all others. Answers how many were new. */
export function prepend(ring, records) {
  ring.discount(records.filter((record) => !ring.ids.has(record.id)), 5 * LOOK);
  const first = ring.items[0];
  // The stream does not bring lines in the order of time, so some belong between what is there.
  const isBetween = (record) => first !== undefined && ms(record) >= first.at;
  const between = ring.insert(records.filter(isBetween));
  const { items, count: before } = run(ring, records.filter((record) => !isBetween(record)), null, first);
  const count = before + between.length;
  if (items.length && first?.kind === 'record' && ring.dayOf(first.at) > ring.dayOf(items.at(-1).at)) items.push(day(ring, first.at));
  putFirst(ring, items);
  letNewestGo(ring);
  return count;
}

function putFirst(ring, items) {
  if (items.length === 0) return;
  if (ring.items.length > 0) ring.moved.shifts.push([[ring.first, items.length]]);
  // A long page would be too many arguments for one call.
  ring.items = [...items, ...ring.items];
  for (const item of items) ring.bytes += item.bytes;
}

/** A reader far back in time needs the newest lines least: a gap stands for them. */
function letNewestGo(ring) {
  const isOver = () => ring.items.length > ring.maxItems || ring.bytes > ring.maxBytes;
  if (!isOver()) return;
  const gap = { kind: 'gap', reason: 'far', count: 0, from: null, to: null };
  while (ring.items.length > 1 && isOver()) {
    const item = ring.items.pop();
    ring.bytes -= item.bytes;
    if (item.record) {
      ring.ids.delete(item.record.id);
      gap.count += 1;
      ring.widen(gap, item.record.timestamp, item.record.timestamp);
    } else if (item.from) {
      gap.count += item.count ?? 0;
      ring.widen(gap, item.from, item.to ?? item.from);
    }
  }
  if (gap.from) ring.note(gap);
}

/** A time that all lines of a gap are older than, by the records that follow it. */
function endOfGap(ring, note) {
  const at = ring.items.indexOf(note);
  const records = ring.items.slice(at + 1, at + 1 + LOOK).map((item) => item.record).filter((record) => record && !isSkewed(record));
  return records.length ? String(BigInt(records.reduce((a, b) => (comparePlaces(a, b) > 0 ? a : b)).timestamp) + 1n) : '';
}

/** Puts the rows that separate days anew, after the zone has changed. */
export function separateDays(ring) {
  const items = [];
  for (const item of ring.items) {
    if (item.kind === 'day') { ring.moved.shifts.push([[ring.first + items.length + 1, -1]]); continue; }
    const last = items.at(-1);
    if (last && item.record && ring.dayOf(item.at) > ring.dayOf(last.at)) {
      ring.moved.shifts.push([[ring.first + items.length, 1]]);
      items.push(day(ring, item.at));
    }
    items.push(item);
  }
  ring.items = items;
}
