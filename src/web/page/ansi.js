// Colours and styles that programs write for terminals (SGR), as classes; all other escapes are taken out.

// CSI, OSC and DCS with their ends, and two-byte escapes. One without its end stays, and its ESC shows.
const ESCAPES = /\x1b(?:\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-Z\\`-~])/g;
const SGR = /^\x1b\[([0-9;:]*)m$/;
/** Hues of red, green, yellow, blue, magenta, cyan; black and white are the page's own text colour. */
const HUES = [null, 29, 142, 100, 264, 328, 200, null];

/** Takes terminal escapes out. */
export const withoutEscapes = (text) => (text.includes('\x1b') ? text.replace(ESCAPES, '') : text);

/** A hue for a colour by its parts; null for greys. What is too dark or light to read is made readable. */
function hueOf(red, green, blue) {
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  const size = most - least;
  if (!(size >= 40)) return null;
  const at = most === red ? ((green - blue) / size + 6) % 6 : most === green ? (blue - red) / size + 2 : (red - green) / size + 4;
  // From the colour wheel of screens to that of OKLCH, roughly.
  return Math.round((at * 60 + 29) % 360);
}

function hueOf256(n) {
  if (n < 16) return HUES[n % 8];
  if (n > 231) return null;
  const part = (step) => Math.floor((n - 16) / step) % 6 * 51;
  return hueOf(part(36), part(6), part(1));
}

/** Reads `38;5;n` or `38;2;r;g;b` at `i`; gives the hue and where to go on. */
function extended(codes, i) {
  if (codes[i + 1] === 5) return [hueOf256(codes[i + 2]), i + 2];
  if (codes[i + 1] === 2) return [hueOf(codes[i + 2], codes[i + 3], codes[i + 4]), i + 4];
  return [null, i];
}

const ON = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'under', 7: 'inverse', 8: 'dim', 9: 'struck', 21: 'under' };
const OFF = { 22: ['bold', 'dim'], 23: ['italic'], 24: ['under'], 27: ['inverse'], 28: ['dim'], 29: ['struck'] };

function apply(style, text) {
  let { names, fg, bg } = style;
  names = new Set(names);
  // Colons join the parts of one colour, some with an empty part for the colour space.
  const codes = text.replace(/(38|48):2:[0-9]*:([0-9]+:[0-9]+:[0-9]+)/g, '$1;2;$2').split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; i += 1) {
    const code = codes[i];
    if (code === 0) { names.clear(); fg = bg = null; }
    else if (ON[code]) names.add(ON[code]);
    else if (OFF[code]) for (const name of OFF[code]) names.delete(name);
    else if (code === 38) [fg, i] = extended(codes, i);
    else if (code === 48) [bg, i] = extended(codes, i);
    else if (code === 39) fg = null;
    else if (code === 49) bg = null;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) fg = HUES[code % 10];
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) bg = HUES[code % 10];
  }
  return names.size || fg !== null || bg !== null ? { names: [...names], fg, bg } : PLAIN;
}

const PLAIN = { names: [], fg: null, bg: null };

/** The text without escapes, and its styles as `{ from, style }` in order. */
export function parseAnsi(raw) {
  const runs = [];
  let text = '';
  let style = PLAIN;
  let last = 0;
  for (const match of raw.matchAll(ESCAPES)) {
    text += raw.slice(last, match.index);
    last = match.index + match[0].length;
    const sgr = SGR.exec(match[0]);
    if (!sgr) continue;
    style = apply(style, sgr[1]);
    runs.push({ from: text.length, style });
  }
  return { text: text + raw.slice(last), runs };
}

/** Gives an element the look of a style. */
export function look(element, { names, fg, bg }) {
  for (const name of names) element.classList.add(`t-${name}`);
  if (fg !== null) { element.classList.add('t-fg'); element.style.setProperty('--fg', fg); }
  if (bg !== null) { element.classList.add('t-bg'); element.style.setProperty('--bgh', bg); }
}
