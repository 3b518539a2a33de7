// Where the page is: all that a link must bring back lives in the page's URL, and nowhere else.

import { include, quoteValue } from './query-text.js';
import { resolve } from './typed-time.js';

const NAMES = ['q', 'from', 'to', 'columns', 'order', 'zone', 'wrap', 'at'];
/** What decides which lines there are; the rest decides how they look. */
const SEARCH = ['q', 'from', 'to'];

/** Plain parameters of the API, in links made by hand, become part of the query. */
function folded(params) {
  let q = params.get('q') ?? '';
  const level = params.get('min_level');
  if (level) q = `${q} level>=${quoteValue(level)}`.trim();
  for (const name of ['level', 'service', 'environment']) {
    for (const value of params.getAll(name)) q = include(q, name, value);
  }
  return q;
}

function read() {
  const params = new URLSearchParams(location.search);
  const values = Object.fromEntries(NAMES.map((name) => [name, params.get(name) ?? '']));
  values.q = folded(params);
  return values;
}

function text(values) {
  const params = new URLSearchParams();
  for (const name of NAMES) if (values[name]) params.set(name, values[name]);
  // What needs no escape in a query reads better without.
  return params.size === 0 ? '' : `?${params.toString().replaceAll('%3A', ':').replaceAll('%2C', ',')}`;
}

export class Place {
  /** `changed(names, isBack)` is told which parts are new. */
  constructor(changed) {
    this.values = read();
    this.changed = changed;
    history.replaceState(null, '', text(this.values) || location.pathname);
    addEventListener('popstate', () => {
      const before = this.values;
      this.values = read();
      this.tell(before, true);
    });
  }

  get(name) { return this.values[name]; }
  get columns() { return this.values.columns ? this.values.columns.split(',').map(decodeURIComponent) : []; }

  /** Goes to another place; with `quiet`, over the present one in the history. */
  set(values, { quiet = false } = {}) {
    const before = this.values;
    const next = { ...before, ...values };
    // Another search has other lines: none of them is open.
    if (SEARCH.some((name) => next[name] !== before[name]) && !('at' in values)) next.at = '';
    if (NAMES.every((name) => next[name] === before[name])) return;
    this.values = next;
    history[quiet ? 'replaceState' : 'pushState'](null, '', text(next) || location.pathname);
    this.tell(before, false);
  }

  tell(before, isBack) {
    const names = NAMES.filter((name) => before[name] !== this.values[name]);
    if (names.length) this.changed(names, isBack);
  }
}

/** The page's address with a record open, and with a range that means the same tomorrow. */
export function frozenLink(record) {
  const url = new URL(location.href);
  const now = Date.now();
  const { from, to, ...rest } = read();
  const values = { ...rest, from: resolve(from, now), to: resolve(to || (from && 'now'), now) };
  if (record) values.at = `${record.timestamp}.${record.id}`;
  url.search = text(values);
  return url.href;
}

export const isSearch = (names) => names.some((name) => SEARCH.includes(name));
export const joinColumns = (names) => names.map(encodeURIComponent).join(',');
