// Text of a log, made safe to look at: terminal escapes taken out, what is invisible made visible.
// Nothing here makes markup; callers put the pieces into text nodes.

// CSI, OSC and DCS with their ends, and two-byte escapes. One without its end stays, and its ESC shows.
const ESCAPES = /\x1b(?:\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-Z\\`-~])/g;
const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const INVISIBLE_RUNS = /([\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+)/;

/** Takes terminal escapes out. */
export const withoutEscapes = (text) => (text.includes('\x1b') ? text.replace(ESCAPES, '') : text);

function visible(character) {
  const code = character.codePointAt(0);
  // As terminals write them: pictures of control characters are missing from many fonts.
  if (code < 0x20 || code === 0x7f) return `^${String.fromCharCode(code ^ 0x40)}`;
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
}

// A joiner between parts of one emoji is not hidden text.
const isJoiner = (run, before, after) => run === '\u200d' && /\p{Extended_Pictographic}\ufe0f?[\u{1f3fb}-\u{1f3ff}]?$/u.test(before) && /^\p{Extended_Pictographic}/u.test(after);

/** Puts text into an element, with a mark for each character that cannot be seen. */
export function show(element, text) {
  if (!INVISIBLE.test(text)) {
    element.textContent = text;
    return;
  }
  element.textContent = '';
  const parts = text.split(INVISIBLE_RUNS);
  parts.forEach((part, i) => {
    if (i % 2 === 0 || isJoiner(part, parts[i - 1], parts[i + 1])) {
      element.append(part);
      return;
    }
    for (const character of part) {
      const mark = document.createElement('span');
      mark.className = 'mark';
      mark.textContent = visible(character);
      element.append(mark);
    }
  });
}

/** The first line that is not empty, and how many lines there are beside it. */
export function firstLine(text) {
  if (!text.includes('\n')) return { line: text, more: 0 };
  const all = text.replace(/\n+$/, '').split('\n');
  const at = Math.max(0, all.findIndex((line) => line.trim() !== ''));
  const line = all[at].endsWith('\r') ? all[at].slice(0, -1) : all[at];
  return { line, more: all.length - 1 };
}
