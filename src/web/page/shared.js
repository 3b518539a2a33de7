// The streams of all tabs of a browser: one for each search, whichever number of tabs look at it. Over
// plain HTTP a browser keeps six connections for one host, for all tabs together.
//
// A tab that joins gets from what is kept of a stream what its cursor has not passed. Where too little
// is kept it has a stream of its own first, until that has caught up.

const EVENTS = ['hello', 'logs', 'skipped', 'gap', 'tick', 'bye'];
const MOST_STREAMS = 4;
/** What is kept of each stream, in characters; and how much of it is enough for a tab that begins. */
const KEPT = 2 << 20;
const ENOUGH = 256 << 10;
/** Tabs say every 10 s that they are there; what is sent to one that does not listen piles up. */
const GONE_MS = 40_000;

const streams = new Set();
const tabs = new Set();

const read = (cursor) => new Map(cursor.split(',').map((part) => part.split(':')).map(([node, id]) => [node, BigInt(id)]));

/** Whether all that one cursor has passed was passed by another too. */
function covers(cursor, other) {
  if (cursor === other) return true;
  if (!cursor || !other) return false;
  const ids = read(cursor);
  return [...read(other)].every(([node, id]) => ids.get(node) >= id);
}

class Stream {
  constructor(filter, after) {
    Object.assign(this, { filter, after, tabs: new Set(), kept: [], size: 0, floor: after, cursor: after, isWhole: true, hasTicked: false, isOver: false, hello: null });
    const query = new URLSearchParams(filter);
    if (after) query.set('after', after);
    this.source = new EventSource(`api/logs/stream?${query}`);
    for (const name of EVENTS) this.source.addEventListener(name, ({ data, lastEventId }) => this.on({ name, data, lastEventId }));
    this.source.onopen = () => this.tell({ name: 'open' });
    this.source.onerror = () => {
      this.isOver ||= !this.isTrying;
      this.tell({ name: 'error', isClosed: !this.isTrying });
    };
    streams.add(this);
  }

  get isTrying() { return this.source.readyState !== EventSource.CLOSED; }
  get isOpen() { return this.source.readyState === EventSource.OPEN; }
  get used() { return Math.max(0, ...[...this.tabs].map((tab) => tab.used)); }

  tell(event) { for (const tab of this.tabs) tab.hear(event); }

  on(event) {
    const { name, data, lastEventId } = event;
    this.cursor = lastEventId || this.cursor;
    if (name === 'hello') {
      this.hello = event;
      this.floor ||= JSON.parse(data).cursor;
    } else if (['logs', 'skipped', 'gap'].includes(name)) {
      this.keep(event);
    }
    this.isOver ||= name === 'bye';
    this.tell(event);
    if (name !== 'tick') return;
    this.hasTicked = true;
    this.merge();
  }

  keep(event) {
    this.kept.push(event);
    this.size += event.data.length;
    while (this.size > KEPT) {
      const { data, lastEventId } = this.kept.shift();
      this.size -= data.length;
      this.isWhole = false;
      if (!covers(this.floor, lastEventId)) this.floor = lastEventId;
    }
  }

  /** Whether a tab that begins, or comes back with a cursor, can have all it needs from here. */
  serves(filter, after) {
    if (filter !== this.filter || this.isOver) return false;
    if (!after) return (this.isWhole && !this.after) || this.size >= ENOUGH;
    return (this.hasTicked || !this.after || this.after === after) && covers(after, this.floor);
  }

  join(tab, after) {
    this.tabs.add(tab);
    tab.stream = this;
    if (this.isOpen) tab.hear({ name: 'open' });
    if (this.isOpen && this.hello) tab.hear(this.hello);
    this.replay(tab, after);
  }

  replay(tab, after) {
    for (const event of this.kept) if (!covers(after, event.lastEventId)) tab.hear(event);
  }

  leave(tab) {
    this.tabs.delete(tab);
    tab.stream = null;
    if (this.tabs.size === 0) this.close();
  }

  close() {
    this.source.close();
    streams.delete(this);
  }

  /** A stream that has caught up ends where an older one brings the same. */
  merge() {
    const other = [...streams].find((one) => one !== this && one.hasTicked && one.isOpen && one.serves(this.filter, this.cursor));
    if (!other) return;
    for (const tab of [...this.tabs]) {
      this.leave(tab);
      other.tabs.add(tab);
      tab.stream = other;
      other.replay(tab, this.cursor);
    }
  }
}

class Tab {
  constructor(port) {
    Object.assign(this, { port, stream: null, number: 0, used: Date.now(), heard: Date.now() });
    port.onmessage = ({ data }) => {
      this.heard = Date.now();
      tabs.add(this);
      this[data.type]?.(data);
    };
    port.onclose = () => this.gone();
    port.start();
  }

  hear(event) { this.port.postMessage({ ...event, number: this.number }); }

  open({ number, filter, after }) {
    this.close();
    this.number = number;
    // Without this word the tab has a stream of its own.
    if (!globalThis.EventSource) return;
    this.hear({ name: 'here' });
    const stream = [...streams].find((one) => one.serves(filter, after));
    (stream ?? new Stream(filter, after)).join(this, after);
    if (!stream) makeRoom(this.stream);
  }

  close() { this.stream?.leave(this); }
  touched() { this.used = Date.now(); }
  here() {}

  gone() {
    this.close();
    tabs.delete(this);
  }
}

/** The stream that was looked at least lately ends, where there are too many. */
function makeRoom(kept) {
  if (streams.size <= MOST_STREAMS) return;
  const [oldest] = [...streams].filter((one) => one !== kept).sort((a, b) => a.used - b.used);
  for (const tab of [...oldest.tabs]) {
    tab.hear({ name: 'rest' });
    oldest.leave(tab);
  }
}

setInterval(() => {
  for (const tab of [...tabs]) if (Date.now() - tab.heard > GONE_MS) tab.gone();
}, GONE_MS / 3);

onconnect = ({ ports: [port] }) => new Tab(port);
