// Text of a log, made safe to look at: what is invisible is made visible, terminal colours are taken
// over, found text is marked. Nothing here makes markup; all pieces go into text nodes.

import { look, parseAnsi, withoutEscapes } from './ansi.js';
import { view } from './view.js';

export { withoutEscapes };

const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const INVISIBLE_RUNS = /[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+/g;
const LINKS = /https?:\/\/[^\s"'<>`{}|\\^\x00-\x20\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+/gi;
/** Most elements that one text is made of; the rest of it is plain. */
const MAX_PIECES = 300;

function visible(character) {
  const code = character.codePointAt(0);
  // As terminals write them: pictures of control characters are missing from many fonts.
  if (code < 0x20 || code === 0x7f) return `^${String.fromCharCode(code ^ 0x40)}`;
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

// A joiner between parts of one emoji is not hidden text.
const isJoiner = (run, before, after) => run === '\u200d' && /\p{Extended_Pictographic}\ufe0f?[\u{1f3fb}-\u{1f3ff}]?$/u.test(before) && /^\p{Extended_Pictographic}/u.test(after);

/** Ranges of a text that look different, each with what they are. */
function* ranges(text, runs, { links, found }) {
  for (const [i, { from, style }] of runs.entries()) {
    const to = runs[i + 1]?.from ?? text.length;
    if (to > from && (style.names.length || style.fg !== null || style.bg !== null)) yield { from, to, style };
  }
  if (found) {
    for (const [kind, pattern] of [['hit', view.pattern], ['marked', view.marked]]) {
      if (!pattern) continue;
      for (const match of text.matchAll(pattern)) yield { from: match.index, to: match.index + match[0].length, kind };
    }
  }
  if (links) {
    for (const match of text.matchAll(LINKS)) {
      const target = match[0].replace(/[.,;:!?)\]]+$/, '');
      if (URL.canParse(target)) yield { from: match.index, to: match.index + target.length, link: target };
    }
  }
  for (const match of text.matchAll(INVISIBLE_RUNS)) {
    const to = match.index + match[0].length;
    // Only as much of the text as a character may have: the whole would be copied for each.
    if (isJoiner(match[0], text.slice(Math.max(0, match.index - 8), match.index), text.slice(to, to + 8))) continue;
    yield { from: match.index, to, mark: [...match[0]].map(visible).join('') };
  }
}

function piece(text, over) {
  const link = over.find((range) => range.link)?.link;
  const element = document.createElement(link ? 'a' : 'span');
  if (link) Object.assign(element, { href: link, target: '_blank', rel: 'noopener noreferrer', title: link });
  const mark = over.find((range) => range.mark !== undefined);
  element.textContent = mark ? mark.mark : text;
  for (const range of over) {
    if (range.style) look(element, range.style);
    if (range.kind) element.classList.add(range.kind);
  }
  if (mark) element.classList.add('mark');
  return element;
}

/**
 * Puts text into an element. `colours` takes over those meant for terminals, otherwise their escapes
 * are taken out; `found` marks what was searched for; `links` makes web addresses links.
 */
export function show(element, raw, { colours = false, found = false, links = false, most = MAX_PIECES } = {}) {
  const isPlain = !raw.includes('\x1b') || (colours && view.asSent);
  const { text, runs } = isPlain ? { text: raw, runs: [] } : colours ? parseAnsi(raw) : { text: withoutEscapes(raw), runs: [] };
  const all = [];
  const isEasy = runs.length === 0 && !(found && (view.pattern || view.marked)) && !(links && text.includes('://')) && !INVISIBLE.test(text);
  if (!isEasy) for (const range of ranges(text, runs, { links, found })) if (all.push(range) >= 4 * most) break;
  if (all.length === 0) {
    element.textContent = text;
    return;
  }
  // A mark stands for its characters as a whole, so nothing cuts it.
  const cuts = [...new Set(all.flatMap(({ from, to }) => [from, to]))].sort((a, b) => a - b);
  all.sort((a, b) => a.from - b.from);
  const parts = [text.slice(0, cuts[0])];
  let open = [];
  let next = 0;
  let last = cuts[0];
  for (let i = 0; i < cuts.length - 1 && parts.length < 2 * most; i += 1) {
    while (next < all.length && all[next].from <= cuts[i]) open.push(all[next++]);
    open = open.filter((range) => range.to > cuts[i]);
    const slice = text.slice(cuts[i], cuts[i + 1]);
    const mark = open.find((range) => range.mark !== undefined);
    last = cuts[i + 1];
    if (mark && mark.from < cuts[i]) continue;
    parts.push(open.length ? piece(slice, open) : slice);
  }
  parts.push(text.slice(last).replace(INVISIBLE_RUNS, (run) => [...run].map(visible).join('')));
  element.replaceChildren(...parts.filter((part) => part !== ''));
}

/** The first line that is not empty, and how many lines there are beside it. */
export function firstLine(text) {
  if (!text.includes('\n')) return { line: text, more: 0 };
  const all = text.replace(/\n+$/, '').split('\n');
  const at = Math.max(0, all.findIndex((line) => line.trim() !== ''));
  const line = all[at].endsWith('\r') ? all[at].slice(0, -1) : all[at];
  return { line, more: all.length - 1 };
}
