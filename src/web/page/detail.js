// An open record: everything that was sent, as text.

import { copyButton } from './copy.js';
import { show, withoutEscapes } from './text.js';
import { iso } from './time.js';
import { count, late } from './words.js';

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function entry(table, name, value, only) {
  if (value === undefined || value === '') return;
  const key = element('th');
  key.scope = 'row';
  show(key, name);
  const text = element('td');
  const shown = element('span', 'value');
  show(shown, String(value));
  text.append(shown);
  if (only) {
    const button = element('button', 'only', 'only');
    button.type = 'button';
    button.title = `Show only this ${name}`;
    button.addEventListener('click', () => only(String(value)));
    text.append(button);
  }
  table.append(element('tr', '', key, text));
}

function map(title, values, folded) {
  const names = Object.keys(values ?? {});
  if (names.length === 0) return [];
  const table = element('table');
  for (const name of names.sort()) entry(table, name, values[name]);
  const box = element('details', '', element('summary', '', `${title} · ${count(names.length)}`), table);
  box.open = !folded;
  return [box];
}

/** Makes the element that shows a record. `only` narrows the filter to a value. */
export function makeDetail(record, { only, close }) {
  const message = element('pre', 'whole');
  show(message, withoutEscapes(record.message ?? '').replaceAll('\r\n', '\n'));
  const table = element('table');
  entry(table, 'time', iso(record.timestamp));
  if (record.received_at) {
    const difference = record.received_at / 1000 - Number(record.timestamp.slice(0, -9) || '0');
    const note = Math.abs(difference) > 1 ? ` (${late(difference)})` : '';
    entry(table, 'received', `${new Date(record.received_at).toISOString()}${note}`);
  }
  entry(table, 'level', record.level, only.min_level);
  const severity = [record.severity_number, record.severity_text].filter(Boolean).join(' ');
  entry(table, 'severity', severity);
  entry(table, 'service', record.service, only.service);
  entry(table, 'environment', record.environment, only.environment);
  entry(table, 'trace id', record.trace_id);
  entry(table, 'span id', record.span_id);
  entry(table, 'event', record.event_name);
  entry(table, 'scope', [record.scope_name, record.scope_version].filter(Boolean).join(' '));
  entry(table, 'receiver', record.receiver);
  entry(table, 'id', record.id);
  const closeButton = element('button', '', 'Close');
  closeButton.type = 'button';
  closeButton.addEventListener('click', close);
  const actions = element('div', 'actions', copyButton('Copy message', () => record.message ?? '', message), copyButton('Copy JSON', () => JSON.stringify(record, null, 2), message), closeButton);
  const notes = record.truncated ? [element('p', 'note', record.length ? `Shown up to 16 KiB of ${count(record.length)} bytes.` : 'Long attributes are shown in part.')] : [];
  return element('div', 'detail', actions, message, ...notes, table, ...map('Attributes', record.attributes), ...map('Resource', record.resource, true));
}
