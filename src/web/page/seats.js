// Browsers keep six connections for one host over plain HTTP, for all tabs together. So the tabs of a
// browser agree: only the few that were used last hold a live stream, and the others rest. This is for
// browsers that cannot share one stream among tabs.

import { isShared } from './source.js';

const MOST_LIVE = 4;
const REPEAT_MS = 4_000;
const EXPIRED_MS = 10_000;

export class Seats {
  constructor(connection) {
    this.connection = connection;
    this.id = Math.random();
    this.used = Date.now();
    this.others = new Map();
    this.channel = globalThis.BroadcastChannel ? new BroadcastChannel('watchtower') : null;
    if (!this.channel) return;
    this.channel.onmessage = ({ data }) => this.heard(data);
    setInterval(() => { if (connection.isOpen && !isShared()) this.say(); }, REPEAT_MS);
  }

  say() { this.channel?.postMessage({ id: this.id, used: this.used, live: this.connection.isOpen }); }

  /** This tab has opened its stream. */
  claim() {
    this.say();
    this.yield();
  }

  /** Somebody uses this tab. */
  touched() {
    this.used = Date.now();
    if (this.connection.status.state === 'tabs') this.connection.retryNow();
  }

  heard({ id, used, live }) {
    const isNew = !this.others.has(id);
    if (live) this.others.set(id, { used, heard: Date.now() }); else this.others.delete(id);
    if (live && isNew && this.connection.isOpen) this.say();
    this.yield();
  }

  /** Rests when enough others were used later. */
  yield() {
    if (!this.connection.isOpen || isShared()) return;
    const now = Date.now();
    for (const [id, other] of this.others) if (now - other.heard > EXPIRED_MS) this.others.delete(id);
    const later = [...this.others].filter(([id, { used }]) => used > this.used || (used === this.used && id > this.id));
    if (later.length < MOST_LIVE) return;
    this.connection.rest('tabs');
    this.say();
  }
}
