// JSON as lines that fold. It is flat, however deep the JSON is: a line knows where what it opens ends.

import { element } from './dom.js';
import { show } from './text.js';
import { count } from './words.js';

/** So many lines at first, and with each click. */
const AT_ONCE = 2_000;

/** Where each line that opens an object or an array has its end. */
function endsOf(lines) {
  const ends = new Map();
  const open = [];
  for (const [i, line] of lines.entries()) {
    if (/^ *[}\]]/.test(line)) ends.set(open.pop(), i);
    if (/[{[]$/.test(line)) open.push(i);
  }
  return ends;
}

/** Fills a box with JSON that is set in by levels. */
export function showTree(box, text) {
  const lines = text.split('\n');
  const ends = endsOf(lines);
  const folded = new Set();
  let most = AT_ONCE;
  const fill = (focused) => {
    const made = [];
    let at = 0;
    while (at < lines.length && made.length < most) {
      const isFolded = folded.has(at);
      made.push(lineOf(at, isFolded));
      at = isFolded ? ends.get(at) + 1 : at + 1;
    }
    if (at < lines.length) {
      const more = element('button', 'json-more', `Show ${count(Math.min(AT_ONCE, lines.length - at))} of ${count(lines.length - at)} more lines`);
      more.type = 'button';
      more.addEventListener('click', () => { most += AT_ONCE; fill(); box.focus({ preventScroll: true }); });
      made.push(more);
    }
    box.replaceChildren(...made);
    if (focused !== undefined) box.querySelector(`[data-line="${focused}"]`)?.focus({ preventScroll: true });
  };
  const lineOf = (at, isFolded) => {
    const body = element('span');
    const end = ends.get(at);
    const line = lines[at];
    show(body, isFolded ? `${line} … ${lines[end].trim()}` : line, { found: true, links: true });
    const row = element('div', 'json', body);
    if (end === undefined) return row;
    const fold = element('button', 'fold');
    Object.assign(fold, { type: 'button', title: isFolded ? 'Unfold' : 'Fold' });
    fold.dataset.line = at;
    fold.setAttribute('aria-expanded', String(!isFolded));
    fold.setAttribute('aria-label', `Lines ${at + 1} to ${end + 1}`);
    fold.addEventListener('click', () => {
      if (!folded.delete(at)) folded.add(at);
      fill(at);
    });
    row.prepend(fold);
    return row;
  };
  fill();
}
