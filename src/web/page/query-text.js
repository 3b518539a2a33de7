// A query's text as pieces, for chips and for edits by a click. The daemon alone decides what a query
// means; here is only what is needed to find a field's filter in the text and to put another there.

const KEY = /^(?:"(?:[^"\\]|\\.)+"|[A-Za-z_*][\w.\-/]*)(?=(?::|>=?|<=?)[^\s)])/;
const BARE_KEY = /^[A-Za-z_](?:[\w.\-/]*\w)?$/;
const BARE_VALUE = /^\w[\w.@+-]*$/;

export const quote = (text) => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
export const quoteValue = (value) => (BARE_VALUE.test(value) && !/^(?:OR|AND|NOT)$/.test(value) ? value : quote(value));
const quoteKey = (key) => (BARE_KEY.test(key) ? key : quote(key));
const unquote = (text) => (text.startsWith('"') ? text.slice(1, -1).replace(/\\(["\\])/g, '$1') : text.replace(/\\([\s*\\"()])/g, '$1'));

function phraseEnd(text, at) {
  for (let i = at + 1; i < text.length; i += 1) {
    if (text[i] === '\\') i += 1;
    else if (text[i] === '"') return i + 1;
  }
  return text.length;
}

/** End of a bare word or value: the next space, or the bracket that closes a group outside of it. */
function wordEnd(text, at, inGroup) {
  let open = 0;
  for (let i = at; i < text.length; i += 1) {
    const c = text[i];
    if (/\s/.test(c)) return i;
    if (c === '\\') i += 1;
    else if (c === '(') open += 1;
    else if (c === ')') {
      if (open === 0 && inGroup) return i;
      open = Math.max(0, open - 1);
    }
  }
  return text.length;
}

const valueEnd = (text, at, inGroup) => (text[at] === '"' ? phraseEnd(text, at) : wordEnd(text, at, inGroup));

function group(text, at) {
  const values = [];
  let i = at + 1;
  while (i < text.length) {
    if (text[i] === ')') return { values, end: i + 1 };
    if (/\s/.test(text[i])) { i += 1; continue; }
    const end = Math.max(i + 1, valueEnd(text, i, true));
    const value = text.slice(i, end);
    if (value !== 'OR') values.push(unquote(value));
    i = end;
  }
  return { values, end: text.length };
}

/** The pieces of a query: `field`, `phrase`, `word`, `operator`, `bracket`, with where they stand. */
export function pieces(text) {
  const found = [];
  let depth = 0;
  let i = 0;
  while (i < text.length) {
    if (/\s/.test(text[i])) { i += 1; continue; }
    const start = i;
    const operator = /^(?:OR|AND|NOT)(?=[\s()"]|$)/.exec(text.slice(i));
    if (operator) {
      i += operator[0].length;
      found.push({ kind: 'operator', start, end: i, depth, name: operator[0] });
      continue;
    }
    const not = text[i] === '-' && i + 1 < text.length && !/\s/.test(text[i + 1]);
    if (not) i += 1;
    if (text[i] === '(') {
      depth += 1;
      i += 1;
      found.push({ kind: 'bracket', start, end: i, depth: depth - 1 });
      continue;
    }
    if (text[i] === ')' && depth > 0) {
      depth -= 1;
      i += 1;
      found.push({ kind: 'bracket', start, end: i, depth });
      continue;
    }
    const key = KEY.exec(text.slice(i))?.[0];
    const op = key && /^(?::|>=?|<=?)/.exec(text.slice(i + key.length))[0];
    const at = i + (key?.length ?? 0) + (op?.length ?? 0);
    const isText = op === ':' && key[0] !== '"' && (text.startsWith('//', at) || text[at] === ':');
    if (key && !isText) {
      const isGroup = text[at] === '(' && op === ':';
      const end = isGroup ? group(text, at).end : valueEnd(text, at, depth > 0);
      const values = isGroup ? group(text, at).values : [unquote(text.slice(at, end))];
      found.push({ kind: 'field', start, end, depth, not, key: alias(unquote(key)), op, values });
      i = end;
      continue;
    }
    const end = text[i] === '"' ? phraseEnd(text, i) : Math.max(i + 1, wordEnd(text, i, depth > 0));
    const isPhrase = text[i] === '"';
    found.push({ kind: isPhrase ? 'phrase' : 'word', start, end, depth, not, text: isPhrase ? unquote(text.slice(i, end)) : text.slice(i, end) });
    i = end;
  }
  return found;
}

const alias = (key) => (key === 'env' ? 'environment' : key);

/** Filters of a field that hold for the whole query. */
export function filtersOf(text, field) {
  const all = pieces(text);
  if (all.some((piece) => piece.kind === 'operator' && piece.name === 'OR' && piece.depth === 0)) return [];
  return all.filter((piece, i) => piece.kind === 'field' && piece.depth === 0 && piece.key === alias(field) && all[i - 1]?.name !== 'NOT');
}

/** Values of a field that are asked for, and those that are excluded. */
export function chosen(text, field) {
  const filters = filtersOf(text, field).filter((piece) => piece.op === ':');
  const values = (not) => filters.filter((piece) => piece.not === not).flatMap((piece) => piece.values);
  return { included: values(false), excluded: values(true) };
}

const replaced = (text, piece, by) => {
  if (by) return text.slice(0, piece.start) + by + text.slice(piece.end);
  // With the filter goes the space before it.
  const before = text.slice(0, piece.start).replace(/\s+$/, '');
  const after = text.slice(piece.end).replace(/^\s+/, '');
  return before && after ? `${before} ${after}` : before + after;
};

function write(field, values, not) {
  const list = values.map(quoteValue);
  return `${not ? '-' : ''}${quoteKey(field)}:${list.length === 1 ? list[0] : `(${list.join(' OR ')})`}`;
}

function add(text, filter) {
  const trimmed = text.trim();
  if (!trimmed) return filter;
  const hasOr = pieces(trimmed).some((piece) => piece.name === 'OR' && piece.depth === 0);
  return `${hasOr ? `(${trimmed})` : trimmed} ${filter}`;
}

function toggle(text, field, value, not) {
  const same = filtersOf(text, field).filter((piece) => piece.op === ':' && piece.not === not);
  const has = same.find((piece) => piece.values.includes(value));
  if (has) {
    const rest = has.values.filter((other) => other !== value);
    return replaced(text, has, rest.length ? write(field, rest, not) : '');
  }
  if (same.length && !not) return replaced(text, same[0], write(field, [...same[0].values, value], not));
  return add(text, write(field, [value], not));
}

/** Asks for a value of a field beside those asked for already; a second time, no more. */
export function include(text, field, value) {
  const isExcluded = chosen(text, field).excluded.includes(value);
  return toggle(isExcluded ? toggle(text, field, value, true) : text, field, value, false);
}

/** Excludes a value of a field; a second time, no more. */
export function exclude(text, field, value) {
  const isIncluded = chosen(text, field).included.includes(value);
  return toggle(isIncluded ? toggle(text, field, value, false) : text, field, value, true);
}

/** Asks for one value of a field and for no other. */
export const only = (text, field, value) => add(without(text, field), write(field, [value], false));

/** Drops the filters of a field. */
export function without(text, field) {
  return filtersOf(text, field).toReversed().reduce((left, piece) => replaced(left, piece, ''), text);
}

/** The query without one piece, for each piece that can be left out. */
export function withoutOne(text) {
  const all = pieces(text);
  const hasOperators = all.some((piece) => piece.kind === 'operator');
  if (hasOperators) return [];
  return all.filter((piece) => piece.depth === 0 && piece.kind !== 'bracket')
    .map((piece) => ({ dropped: text.slice(piece.start, piece.end), rest: replaced(text, piece, '') }));
}
