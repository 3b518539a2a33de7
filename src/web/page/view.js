// How records are shown: what the reader chose. Whoever changes it, all rows are filled anew; others
// hear of it by the event `wt-view`.

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
};

export function change(more) {
  Object.assign(view, more);
  view.version += 1;
  dispatchEvent(new CustomEvent('wt-view', { detail: Object.keys(more) }));
}

const escape = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
const patternOf = (texts) => (texts.length ? new RegExp(texts.map(escape).join('|'), 'gi') : null);

export const marker = (text) => patternOf(text ? [text] : []);

const TOKEN = /(-|NOT\s+)?(?:([A-Za-z_*][\w./-]*)(:|[<>]=?)(?=[^\s/]|\/[^/]))?(?:"((?:[^"\\]|\\.)*)"|([^\s()"]+))/g;

/** The texts that a query searches for in messages: not what it excludes, nor values of other fields. */
export function termsOf(query) {
  const terms = [];
  for (const [, not, field, , phrase, word] of query.matchAll(TOKEN)) {
    const isText = !field || ['message', '*'].includes(field);
    const text = phrase === undefined ? word.replaceAll('*', '') : phrase.replace(/\\(.)/g, '$1');
    if (not || !isText || !text || (phrase === undefined && /^(AND|OR|NOT|\/.*)$/.test(text))) continue;
    terms.push(text);
  }
  return terms;
}

export const patternFor = (query) => patternOf(termsOf(query));
