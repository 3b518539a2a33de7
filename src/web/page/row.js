// One row of the list. Elements are used again for other items, so a row is filled, never made anew.

import { firstLine, show, withoutEscapes } from './text.js';
import { clock, day } from './time.js';
import * as words from './words.js';

/** Lateness in seconds from which a row says so. */
const LATE_S = 60;

function part(className) {
  const element = document.createElement('span');
  element.className = className;
  return element;
}

/** Makes an empty row; its parts hang on the element. */
export function makeRow() {
  const row = document.createElement('div');
  row.className = 'row';
  row.setAttribute('role', 'listitem');
  row.setAttribute('aria-setsize', '-1');
  row.parts = { code: part('code'), time: part('time'), service: part('service'), environment: part('environment'), message: part('message'), more: part('more'), load: document.createElement('button') };
  row.parts.load.type = 'button';
  return row;
}

/** A colour of its own for each name; FNV-1a, so that names which differ in one letter differ. */
function hue(name) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i += 1) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return ((hash ^ (hash >>> 15)) >>> 0) % 360;
}

/** Fills a row with an item. */
export function fillRow(row, item, showEnvironment) {
  row.dataset.kind = item.kind;
  if (item.kind === 'record') fillRecord(row, item, showEnvironment);
  else fillNote(row, item);
}

function fillRecord(row, item, showEnvironment) {
  const { code, time, service, environment, message, more } = row.parts;
  row.dataset.level = item.level;
  code.textContent = words.CODES[item.level] ?? item.level;
  code.title = item.severity_text || item.level;
  time.textContent = clock(item.timestamp);
  show(service, item.service ?? '');
  service.style.setProperty('--hue', hue(item.service ?? ''));
  const { line, more: extra } = firstLine(withoutEscapes(item.message));
  show(message, line);
  const notes = [];
  const hidden = Math.max(extra, item.more);
  if (hidden > 0) notes.push(`+${words.count(hidden)} ${hidden === 1 ? 'line' : 'lines'}`);
  if (Math.abs(item.late) >= LATE_S) notes.push(words.late(item.late));
  more.textContent = notes.join(' · ');
  const shown = [code, time, service];
  if (showEnvironment && item.environment) {
    show(environment, item.environment);
    shown.push(environment);
  }
  shown.push(message);
  if (notes.length) shown.push(more);
  row.replaceChildren(...shown);
  row.setAttribute('aria-label', `${item.level}, ${time.textContent}, ${item.service ?? ''}, ${message.textContent}`);
}

function fillNote(row, item) {
  const { message, load } = row.parts;
  delete row.dataset.level;
  const text = { day: () => day(item.ms), skipped: () => words.skippedWords(item), gap: () => words.gapWords(item) }[item.kind]();
  message.textContent = item.error ? `${text} — ${item.error}` : text;
  load.textContent = item.loading ? 'Loading…' : 'Load';
  load.disabled = Boolean(item.loading);
  const canLoad = item.kind !== 'day' && item.from;
  row.replaceChildren(...(canLoad ? [message, load] : [message]));
  row.setAttribute('aria-label', text);
}
