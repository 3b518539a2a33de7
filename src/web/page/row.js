// One row of the list. Elements are used again for other items, so a row is filled, never made anew.

import { pretty } from './pretty.js';
import { firstLine, show } from './text.js';
import { age, clock, day, delta, iso } from './time.js';
import { view } from './view.js';
import * as words from './words.js';

/** Lateness in seconds from which a row says so. */
const LATE_S = 5;

function part(className, name = 'span') {
  const element = document.createElement(name);
  element.className = className;
  if (name === 'button') element.type = 'button';
  return element;
}

/** Makes an empty row; its parts hang on the element. */
export function makeRow() {
  const row = document.createElement('div');
  row.className = 'row';
  row.setAttribute('role', 'listitem');
  row.setAttribute('aria-setsize', '-1');
  row.parts = { code: part('code'), time: part('time'), service: part('service'), environment: part('environment'), message: part('message'), more: part('more', 'button'), late: part('late'), load: part('load', 'button'), narrow: part('narrow-query', 'button') };
  row.parts.narrow.textContent = 'Narrow';
  row.parts.narrow.title = 'Ask for less, so that all of it is shown';
  return row;
}

/** A colour of its own for each name; FNV-1a, so that names which differ in one letter differ. */
function hue(name) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i += 1) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return ((hash ^ (hash >>> 15)) >>> 0) % 360;
}

/** A record's time as the reader wants it; `above` is the record in the row above. */
export function timeOf({ timestamp }, above) {
  if (view.timeStyle === 'age') return age(timestamp);
  const from = view.timeStyle === 'above' ? above?.timestamp : view.timeStyle === 'pinned' ? view.pinned?.timestamp : null;
  return from ? delta(from, timestamp) : clock(timestamp);
}

/** Fills a row with an item; `above` is the item in the row above. */
export function fillRow(row, item, above) {
  row.dataset.kind = item.kind;
  row.classList.toggle('expanded', Boolean(item.expanded));
  row.classList.toggle('pinned', item.kind === 'record' && view.pinned?.key === item.key);
  if (item.kind === 'record') fillRecord(row, item, above);
  else fillNote(row, item);
}

function fillRecord(row, item, above) {
  const { code, time, service, environment, message, more, late } = row.parts;
  row.dataset.level = item.level;
  code.textContent = words.CODES[item.level] ?? '---';
  code.title = item.severity_text || item.level;
  time.textContent = timeOf(item, above);
  time.title = `${iso(item.timestamp)} · ${age(item.timestamp)}`;
  show(service, item.service ?? '');
  service.style.setProperty('--hue', hue(item.service ?? ''));
  const tree = view.listJson === 'pretty' ? pretty(item.message) : null;
  const { line, more: others } = item.expanded ? { line: tree ?? item.message, more: 0 } : firstLine(item.message);
  show(message, line, { colours: true, found: true, links: item.expanded });
  const shown = [code, time, service];
  if (view.showEnvironment && item.environment) {
    show(environment, item.environment);
    shown.push(environment);
  }
  for (const value of item.columns ?? []) {
    const column = part('column');
    show(column, String(value), { found: true });
    shown.push(column);
  }
  shown.push(message);
  const label = moreLabel(item, tree === null ? others : tree.split('\n').length - 1);
  more.textContent = label;
  if (label) shown.push(more);
  if (Math.abs(item.late ?? 0) > LATE_S) {
    late.textContent = words.late(item.late);
    shown.push(late);
  }
  row.replaceChildren(...shown);
  row.setAttribute('aria-label', `${item.level}, ${time.textContent}, ${item.service ?? ''}, ${message.textContent.slice(0, 500)}`);
}

/** What is to be had by a click: more lines, or a longer line. */
function moreLabel({ expanded, lines, rest, whole }, others) {
  if (expanded) return whole ? `Show all ${words.wholeWords(whole)}` : 'Less';
  const hidden = Math.max(others, lines ?? 0);
  if (hidden > 0) return `+${words.lines(hidden)}`;
  return rest > 0 ? words.restWords(whole ? whole - 2_000 : rest) : '';
}

function fillNote(row, item) {
  const { message, load, narrow } = row.parts;
  delete row.dataset.level;
  const text = { day: () => day(item.ms), skipped: () => words.skippedWords(item), gap: () => words.gapWords(item) }[item.kind]();
  message.textContent = item.error ? `${text} — ${item.error}` : text;
  load.textContent = item.loading ? 'Loading…' : 'Load';
  load.disabled = Boolean(item.loading);
  const canLoad = item.kind !== 'day' && item.from && !item.gone;
  row.replaceChildren(message, ...(canLoad ? [load] : []), ...(item.kind === 'skipped' ? [narrow] : []));
  row.setAttribute('aria-label', text);
}
