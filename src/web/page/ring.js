// What the worker keeps of the stream: records and notes about lines that are missing, oldest first,
// bounded in number and bytes.

const DAY_MS = 86_400_000;

export class Ring {
  constructor(maxItems, maxBytes) {
    this.maxItems = maxItems;
    this.maxBytes = maxBytes;
    this.clear();
  }

  clear() {
    this.items = [];
    this.ids = new Set();
    this.bytes = 0;
    /** Items that were let go; the absolute place of items[0]. */
    this.first = 0;
    this.nextKey = (this.nextKey ?? 0) + 1;
    this.lastDay = null;
    this.missed = null;
  }

  get end() { return this.first + this.items.length; }
  get isFull() { return this.items.length >= this.maxItems || this.bytes >= this.maxBytes; }

  /** Adds a record, unless it is there; `frozen` keeps what there is and counts the record instead. */
  add(record, bytes, frozen) {
    if (this.ids.has(record.id)) return false;
    if (frozen && this.isFull) {
      this.missed ??= { kind: 'gap', reason: 'paused', count: 0, from: record.timestamp };
      this.missed.count += 1;
      this.missed.to = record.timestamp;
      return true;
    }
    this.ids.add(record.id);
    const ms = Number(record.timestamp.slice(0, -6) || '0');
    const today = Math.floor((ms - new Date(ms).getTimezoneOffset() * 60_000) / DAY_MS);
    if (this.lastDay !== null && today > this.lastDay) this.push({ kind: 'day', ms }, 50);
    this.lastDay = Math.max(today, this.lastDay ?? today);
    this.push({ kind: 'record', record }, bytes);
    return true;
  }

  /** Adds a note: `skipped` or `gap`. */
  note(note) {
    const last = this.items.at(-1);
    if (note.kind === 'skipped' && last?.kind === 'skipped' && last.reason === note.reason) {
      last.count += note.count;
      last.to = note.to;
      for (const [level, count] of Object.entries(note.by_level ?? {})) {
        last.by_level[level] = (last.by_level[level] ?? 0) + count;
      }
      last.version += 1;
      return;
    }
    this.push(note, 200);
  }

  push(item, bytes) {
    item.key = this.nextKey;
    item.version = 0;
    item.bytes = bytes;
    this.nextKey += 1;
    this.items.push(item);
    this.bytes += bytes;
  }

  /** Lets the oldest go. Not while somebody reads them. */
  trim() {
    let excess = Math.max(0, this.items.length - this.maxItems);
    let bytes = this.bytes;
    for (let i = 0; i < this.items.length - 1 && (i < excess || bytes > this.maxBytes); i += 1) {
      bytes -= this.items[i].bytes;
      excess = Math.max(excess, i + 1);
    }
    if (excess === 0) return;
    for (const item of this.items.splice(0, excess)) {
      if (item.record) this.ids.delete(item.record.id);
    }
    this.bytes = bytes;
    this.first += excess;
  }

  /** Ends a pause: what was not kept becomes a note in its place. */
  thaw() {
    if (this.missed) this.note(this.missed);
    this.missed = null;
    this.trim();
  }

  /** Puts records before the note that stands for them; the note goes, or stays for the `next` ones. */
  fill(key, records, next) {
    const at = this.items.findIndex((item) => item.key === key);
    if (at < 0) return;
    const note = this.items[at];
    const items = records.filter((record) => !this.ids.has(record.id)).map((record) => {
      this.ids.add(record.id);
      this.nextKey += 1;
      return { kind: 'record', record, key: this.nextKey, version: 0, bytes: 500 };
    });
    this.bytes += 500 * items.length;
    const count = note.count === null ? null : note.count - items.length;
    if (next) {
      Object.assign(note, { next, count, by_level: {}, version: note.version + 1 });
      items.push(note);
    } else {
      this.bytes -= note.bytes;
    }
    this.items.splice(at, 1, ...items);
  }

  /** Place of the next item from `place` on, in a direction, that is as bad as an error. */
  nextError(place, direction) {
    for (let i = place - this.first + direction; i >= 0 && i < this.items.length; i += direction) {
      const level = this.items[i].record?.level;
      if (level === 'error' || level === 'fatal') return this.first + i;
    }
    return null;
  }
}
