// What there is to say about a query, beside its box: why it was taken as text, or what may have been meant, which
// a click puts in its place.

import { button } from './dom.js';
import { show } from './text.js';
import { faultWords } from './words.js';

/** A query with another text in the place, in bytes, where a hint says that something else was meant. */
export function corrected(query, { position, instead }) {
  const before = new TextDecoder().decode(new TextEncoder().encode(query).subarray(0, position));
  const rest = query.slice(before.length).replace(/^(?:"[^"]*"|[^\s()])+/, '');
  return `${before}${instead}${rest}`;
}

/** Shows it; `place` has the query, and takes another. */
export function showUnderstood(box, q, place) {
  const fault = faultWords(q);
  const hints = fault ? [] : q?.hints ?? [];
  const key = JSON.stringify([fault, hints]);
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.hidden = !fault && hints.length === 0;
  box.replaceChildren(fault || 'did you mean ', ...hints.flatMap((hint, i) => {
    const made = button('', () => place.set({ q: corrected(place.get('q'), hint) }), 'instead');
    show(made, hint.instead);
    return i > 0 ? [' or ', made] : [made];
  }));
}
