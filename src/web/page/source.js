// Where a connection's events come from: an `EventSource` of the tab's own, or the same from the worker
// that all tabs share.

const HERE_MS = 10_000;
/** A shared worker that does not answer by then does not work here. */
const ANSWER_MS = 6_000;

let port = null;
let current = null;
let number = 0;

/** From now on streams come from the shared worker, through this port; without one, from the tab's own. */
export function share(from) {
  port = from;
  if (!port) return;
  port.onmessage = ({ data }) => { if (data.number === number) current?.hear(data); };
  setInterval(() => port?.postMessage({ type: 'here' }), HERE_MS);
}

export const isShared = () => port !== null;
export const touched = () => port?.postMessage({ type: 'touched' });

/** Looks like an `EventSource`, as far as the connection needs one. */
class Shared {
  constructor(filter, after) {
    this.listeners = new Map();
    this.readyState = EventSource.CONNECTING;
    number += 1;
    current = this;
    this.timer = setTimeout(() => {
      port.postMessage({ type: 'close' });
      port = null;
      this.onlost();
    }, ANSWER_MS);
    port.postMessage({ type: 'open', number, filter, after });
  }

  addEventListener(name, listener) { this.listeners.set(name, listener); }

  hear({ name, data, lastEventId, isClosed }) {
    clearTimeout(this.timer);
    if (name === 'rest') {
      this.onrest();
    } else if (name === 'open') {
      this.readyState = EventSource.OPEN;
      this.onopen();
    } else if (name === 'error') {
      this.readyState = isClosed ? EventSource.CLOSED : EventSource.CONNECTING;
      this.onerror();
    } else {
      this.listeners.get(name)?.({ currentTarget: this, data, lastEventId });
    }
  }

  close() {
    this.readyState = EventSource.CLOSED;
    clearTimeout(this.timer);
    if (current !== this) return;
    current = null;
    port?.postMessage({ type: 'close' });
  }
}

/** Opens the stream of a filter, after a cursor. */
export function openSource(filter, after) {
  if (port) return new Shared(filter, after);
  const query = new URLSearchParams(filter);
  if (after) query.set('after', after);
  return new EventSource(`api/logs/stream?${query}`);
}
