// What happened around a record: its neighbours with all filters off, over the list. Closing it leaves
// the list as it was.

import { ask, askOfLine, button, element, openSheet } from './dom.js';
import { quote } from './query-text.js';
import { show, withoutEscapes } from './text.js';
import { clock } from './time.js';
import { CODES } from './words.js';

const AROUND = 50;

const placeOf = (record) => `${record.timestamp}.${record.id}`;

/** The query of what records have in common with one. */
function common(record, same) {
  const is = (field, value) => `${field}:${quote(value ?? '')}`;
  return {
    service: () => `${is('service', record.service)} ${is('environment', record.environment)}`,
    host: () => is('resource.host.name', record.resource?.['host.name']),
    trace: () => is('trace_id', record.trace_id),
    all: () => '',
  }[same]();
}

function line(record, isAnchor) {
  const code = element('span', 'code', CODES[record.level] ?? record.level);
  const service = element('span', 'service');
  const message = element('span', 'message');
  show(service, record.service ?? '');
  show(message, withoutEscapes(record.message ?? ''));
  const made = element('li', `near${isAnchor ? ' anchor' : ''}`, code, element('span', 'time', clock(record.timestamp)), service, message);
  made.dataset.level = record.level;
  made.dataset.id = record.id;
  if (isAnchor) made.setAttribute('aria-current', 'true');
  return made;
}

export function openContext(record) {
  const list = element('ol', 'nearby');
  list.tabIndex = 0;
  list.setAttribute('aria-label', 'Lines around this one, oldest first');
  const trouble = element('p', 'trouble');
  trouble.setAttribute('role', 'status');
  let same = 'service';
  let ends = {};
  let abort = new AbortController();

  const run = async (work) => {
    const { signal } = abort;
    trouble.textContent = '';
    try {
      await work(signal);
    } catch (error) {
      if (!signal.aborted) trouble.textContent = error.message;
    }
  };
  const begin = () => run(async (signal) => {
    const params = new URLSearchParams({ timestamp: record.timestamp, before: AROUND, after: AROUND, same });
    const { records, anchor } = await askOfLine(`api/logs/${encodeURIComponent(record.id)}/context`, { params, signal });
    list.replaceChildren(...records.map((one, i) => line(one, i === anchor)));
    ends = { before: records[0], after: records.at(-1) };
    older.disabled = false;
    newer.disabled = false;
    list.children[anchor].scrollIntoView({ block: 'center' });
  });
  const extend = (side, made) => run(async (signal) => {
    const params = new URLSearchParams({ q: common(record, same), [side]: placeOf(ends[side]), order: side === 'before' ? 'newest' : 'oldest', limit: 2 * AROUND });
    const { records, next, complete } = await ask('api/logs', { params, signal, ms: 30_000 });
    if (records.length) ends[side] = records.at(-1);
    const lines = (side === 'before' ? records.toReversed() : records).map((one) => line(one, false));
    const bottom = list.scrollHeight - list.scrollTop;
    if (side === 'before') {
      list.prepend(...lines);
      list.scrollTop = list.scrollHeight - bottom;
    } else {
      list.append(...lines);
    }
    made.disabled = !next && complete;
    if (!complete) trouble.textContent = 'The search stopped early; ask again for more.';
  });
  const older = button('100 older', () => extend('before', older));
  const newer = button('100 newer', () => extend('after', newer));
  const kinds = element('div', 'choices');
  const names = { service: 'Same service', host: 'Same host', trace: 'Same trace', all: 'All' };
  const usable = { service: true, host: record.resource?.['host.name'], trace: record.trace_id, all: true };
  const show_ = () => kinds.replaceChildren(...Object.entries(names).map(([kind, label]) => {
    const made = button(label, () => {
      abort.abort();
      abort = new AbortController();
      same = kind;
      show_();
      begin();
    });
    made.disabled = !usable[kind];
    made.setAttribute('aria-pressed', String(kind === same));
    return made;
  }));
  show_();
  older.disabled = true;
  newer.disabled = true;
  list.addEventListener('click', (event) => event.target.closest('.near')?.classList.toggle('whole'));
  const sheet = openSheet('Context', { className: 'wide', closed: () => abort.abort() }, kinds, element('div', 'choices', older, newer), trouble, list);
  list.focus();
  begin();
  return sheet;
}
