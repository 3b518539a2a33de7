// How records are shown: what the reader chose. Whoever changes it, all rows are filled anew; others
// hear of it by the event `wt-view`.

import { pieces } from './query-text.js';

export const TIME_STYLES = ['clock', 'age', 'above', 'pinned'];

export const view = {
  version: 0,
  showEnvironment: false,
  /** Attributes that have a column of their own. */
  columns: [],
  /** What the query searches for in messages, as one pattern. */
  pattern: null,
  /** Text that the reader marked. */
  marked: null,
  timeStyle: 'clock',
  /** The record that times are measured from: its key and timestamp. */
  pinned: null,
  /** Terminal escapes as characters instead of colours. */
  asSent: false,
  /** JSON of an expanded row on many lines, or as it was sent. */
  listJson: 'sent',
};

export function change(more) {
  Object.assign(view, more);
  view.version += 1;
  dispatchEvent(new CustomEvent('wt-view', { detail: Object.keys(more) }));
}

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const patternOf = (texts) => (texts.length ? new RegExp(texts.map(escape).join('|'), 'gi') : null);

export const marker = (text) => patternOf(text ? [text] : []);

/** The texts that a query searches for in messages: not what it excludes, nor values of other fields. */
export function termsOf(query) {
  const all = pieces(query);
  return all.filter((piece, i) => !piece.not && all[i - 1]?.name !== 'NOT').flatMap((piece) => {
    if (piece.kind === 'field') return ['message', '*'].includes(piece.key) && piece.op === ':' ? piece.values.map((value) => value.replaceAll('*', '')) : [];
    return piece.kind === 'phrase' || (piece.kind === 'word' && !/^\/.*\/$/.test(piece.text)) ? [piece.text] : [];
  }).filter(Boolean);
}

export const patternFor = (query) => patternOf(termsOf(query));
