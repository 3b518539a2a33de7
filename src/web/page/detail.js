// An open record: everything that was sent, as text.

import { copyButton } from './copy.js';
import { askOfLine, button, element } from './dom.js';
import { frozenLink } from './place.js';
import { pretty } from './pretty.js';
import { set, settings } from './settings.js';
import { show, withoutEscapes } from './text.js';
import { age, iso } from './time.js';
import { showTree } from './tree.js';
import { entry, map } from './values.js';
import { change, view } from './view.js';
import { count, late, wholeWords } from './words.js';

/** A text longer than this is put in piece by piece, one with each frame. */
const PIECE = 32 << 10;

const tell = (name, record) => dispatchEvent(new CustomEvent(name, { detail: { record } }));
export const around = (record) => tell('wt-context', record);
export const sameTrace = (record) => { if (record.trace_id) tell('wt-trace', record); };

/** What `POST /api/logs` takes to make the same record again. */
export function asSendable(record) {
  const { id, received_at, receiver, length, truncated, level, severity_number, ...sent } = record;
  return JSON.stringify(severity_number ? { severity_number, ...sent } : { level, ...sent }, null, 2);
}

/** Long texts take time to lay out: no more than a piece with a frame, and only what is in view. */
function showLong(box, text) {
  const options = { colours: true, found: true, links: true, most: 1_000 };
  if (text.length <= PIECE) return show(box, text, options);
  box.textContent = '';
  let at = 0;
  const add = () => {
    const line = text.lastIndexOf('\n', at + PIECE);
    const end = line > at ? line + 1 : at + PIECE;
    const part = element('div', 'piece');
    show(part, text.slice(at, end).replace(/\n$/, ''), options);
    box.append(part);
    at = end;
    if (at < text.length) requestAnimationFrame(add);
  };
  return add();
}

function message(record, actions) {
  const box = element('pre', 'whole');
  box.tabIndex = 0;
  const text = (record.message ?? '').replaceAll('\r\n', '\n');
  const tree = pretty(withoutEscapes(text));
  const isTree = () => tree !== null && settings.detailJson === 'pretty';
  const fill = () => (isTree() ? showTree(box, tree) : showLong(box, text));
  if (tree !== null) {
    const toggle = button('', () => {
      set('detailJson', isTree() ? 'sent' : 'pretty');
      name();
      fill();
    });
    const name = () => { toggle.textContent = isTree() ? 'As sent' : 'As a tree'; };
    name();
    actions.append(toggle);
  }
  if (text.includes('\x1b')) {
    const toggle = button('Escapes', () => {
      change({ asSent: !view.asSent });
      toggle.setAttribute('aria-pressed', String(view.asSent));
      fill();
    });
    toggle.title = 'Show terminal escapes as sent';
    toggle.setAttribute('aria-pressed', String(view.asSent));
    actions.append(toggle);
  }
  fill();
  return box;
}

function fields(record) {
  const table = element('table');
  const add = (name, value, field) => { if (value !== undefined && value !== '') table.append(entry(name, value, field)); };
  add('time', `${iso(record.timestamp)} · ${age(record.timestamp)}`);
  if (record.received_at) {
    const difference = (record.received_at - Number(record.timestamp) / 1e6) / 1000;
    add('received', `${iso(`${record.received_at}000000`)}${Math.abs(difference) > 1 ? ` (${late(difference)})` : ''}`);
  }
  add('level', record.level, 'level');
  add('severity', [record.severity_number, record.severity_text].filter(Boolean).join(' '));
  add('service', record.service, 'service');
  add('environment', record.environment, 'environment');
  add('trace id', record.trace_id, 'trace_id');
  add('span id', record.span_id, 'span_id');
  add('event', record.event_name, 'event');
  add('scope', record.scope_name, 'scope');
  add('scope version', record.scope_version);
  add('receiver', record.receiver, 'receiver');
  add('id', record.id, 'id');
  return table;
}

/** What the daemon noted about a record, such as that it was cut. */
function notes(record) {
  return Object.entries(record.attributes ?? {}).filter(([name]) => name.startsWith('watchtower.'))
    .map(([name, value]) => element('p', 'note', `${name.slice('watchtower.'.length).replaceAll('_', ' ')}: ${value}`));
}

/** Links to other programs, by templates of the configuration, for what a record has all fields of. */
function linksOf(record, templates) {
  return Object.entries(templates ?? {}).flatMap(([name, template]) => {
    const known = [...template.matchAll(/\{(\w+)\}/g)].every(([, field]) => record[field]);
    const target = template.replace(/\{(\w+)\}/g, (_, field) => encodeURIComponent(record[field]));
    if (!known || !URL.canParse(target) || !/^https?:$/.test(new URL(target).protocol)) return [];
    const link = element('a', 'out-link');
    show(link, `Open ${name} ↗`);
    return [Object.assign(link, { href: target, target: '_blank', rel: 'noopener noreferrer', title: target })];
  });
}

/**
 * Makes the element that shows a record; `close` is called to close it, where nothing around it does, and `pin`, where there is room
 * for it, to have it beside the list or under its row.
 */
export function makeDetail(record, { close, pin, links }) {
  const box = element('div', 'detail');
  const actions = element('div', 'actions');
  const whole = message(record, actions);
  actions.prepend(
    copyButton('Copy message', () => record.message ?? '', whole),
    copyButton('Copy JSON', () => asSendable(record), whole),
    copyButton('Copy link', () => frozenLink(record), whole),
    button('Context', () => around(record)),
    ...(record.trace_id ? [button('Same trace', () => sameTrace(record))] : []));
  actions.append(...linksOf(record, links));
  if (pin) {
    const made = button('Beside', pin);
    made.title = 'Show open lines beside the list';
    made.setAttribute('aria-pressed', String(settings.detail === 'beside'));
    actions.append(made);
  }
  if (close) actions.append(button('Close', close));
  const rest = [];
  if (record.truncated) {
    const trouble = element('span', 'trouble');
    trouble.setAttribute('role', 'alert');
    const all = button(record.length ? `Show all ${wholeWords(record.length)}` : 'Show all of it', async () => {
      all.disabled = true;
      try {
        const full = await askOfLine(`api/logs/${record.id}`, { params: new URLSearchParams({ timestamp: record.timestamp }) });
        box.replaceChildren(...makeDetail(full, { close, pin, links }).childNodes);
        // The button that had the focus is gone.
        box.querySelector('.whole').focus({ preventScroll: true });
      } catch (error) {
        all.disabled = false;
        trouble.textContent = error.message;
      }
    });
    const words = record.length ? `Shown up to 16 KiB of ${count(record.length)} bytes. ` : 'Long attributes are shown in part. ';
    rest.push(element('p', 'note', words, all, ' ', trouble));
  }
  box.append(actions, whole, ...rest, ...notes(record), fields(record), ...map('Attributes', record.attributes, 'attributes'), ...map('Resource', record.resource, 'resource', true));
  return box;
}
