// The time range: presets, typed times, and what is shown of it in the bar.

import { button, element, openSheet } from './dom.js';
import { day, stamp } from './time.js';
import { ageMs, isAge, resolve, understand } from './typed-time.js';
import { getZone } from './zone.js';

const PRESETS = [['5m', '5 min'], ['15m', '15 min'], ['1h', '1 hour'], ['6h', '6 hours'], ['24h', '24 hours'], ['7d', '7 days'], ['', 'All']];

/** The range in words. */
export function rangeWords(from, to) {
  if (!from && !to) return 'All time';
  const name = (value) => (isAge(value) ? `${value} ago` : value === 'now' ? 'now' : stamp(resolve(value)));
  if (!to || to === 'now') {
    const preset = PRESETS.find(([age]) => age && age === from);
    return preset ? `Last ${preset[1]}` : isAge(from) ? `Last ${from}` : `Since ${name(from)}`;
  }
  return from ? `${name(from)} – ${name(to)}` : `Until ${name(to)}`;
}

/** The range as nanoseconds, as text; an end that is now stays open. */
export function bounds(from, to, now = Date.now()) {
  return { from: resolve(from, now), to: to === 'now' ? '' : resolve(to, now) };
}

/** The range before (-1) or after (1) this one. */
export function shifted(from, to, direction, now = Date.now()) {
  const end = BigInt(resolve(to || 'now', now));
  const start = from ? BigInt(resolve(from, now)) : end - 3_600_000_000_000n;
  const length = end - start;
  const by = BigInt(direction) * length;
  if (end + by >= BigInt(resolve('now', now))) return { from: `${Number(length / 1_000_000_000n)}s`, to: '' };
  return { from: String(start + by), to: String(end + by) };
}

/** A range twice as long about the same middle, but not into the future. */
export function zoomedOut(from, to, now = Date.now()) {
  if (isAge(from) && (!to || to === 'now')) {
    return { from: `${Math.round(ageMs(from) / 500)}s`.replace(/^(\d+)s$/, (_, n) => (n % 3600 === 0 ? `${n / 3600}h` : n % 60 === 0 ? `${n / 60}m` : `${n}s`)), to: '' };
  }
  if (!from) return { from: '', to: '' };
  const present = BigInt(resolve('now', now));
  const end = BigInt(resolve(to || 'now', now));
  const half = (end - BigInt(resolve(from, now))) / 2n;
  return { from: String(end - 3n * half), to: end + half >= present ? '' : String(end + half) };
}

function field(label, value, about) {
  const input = element('input');
  Object.assign(input, { type: 'text', value, autocomplete: 'off', spellcheck: false });
  const reading = element('output', 'reading');
  const read = () => {
    const text = input.value.trim();
    const found = text ? understand(text) : '';
    const now = Date.now();
    reading.textContent = !text ? about : found === null ? 'Not a time' : `${stamp(resolve(found, now))}, ${day(Number(resolve(found, now).slice(0, -6)))}`;
    input.setAttribute('aria-invalid', String(found === null));
    return found;
  };
  input.addEventListener('input', read);
  read();
  return { box: element('label', 'field', element('span', '', label), input, reading), input, read };
}

/** The sheet in which a range is chosen. */
export function chooseRange({ from, to }, choose) {
  const done = (values) => { sheet.close(); choose(values); };
  const shown = (value) => (!value || isAge(value) || value === 'now' ? value : stamp(resolve(value), true));
  const presets = PRESETS.map(([age, label]) => {
    const made = button(label, () => done({ from: age, to: '' }));
    made.setAttribute('aria-pressed', String(age === from && !to));
    return made;
  });
  const start = field('From', shown(from), 'the oldest line');
  const end = field('To', shown(to), 'now, and on');
  const trouble = element('p', 'trouble');
  trouble.setAttribute('role', 'alert');
  const submit = element('button', 'primary', 'Show');
  const form = element('form', 'range', start.box, end.box, trouble, submit);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const values = { from: start.read(), to: end.read() };
    if (values.from === null || values.to === null) { trouble.textContent = 'This is not a time.'; return; }
    const now = Date.now();
    if (values.from && values.to && BigInt(resolve(values.from, now)) >= BigInt(resolve(values.to, now))) {
      trouble.textContent = 'The range is empty: it ends before it begins.';
      return;
    }
    done({ from: values.from, to: values.to === 'now' ? '' : values.to });
  });
  const more = element('div', 'choices',
    button('Zoom out', () => done(zoomedOut(from, to))),
    button('Older [', () => done(shifted(from, to, -1))),
    button('Newer ]', () => done(shifted(from, to, 1))));
  const sheet = openSheet('Time range', {}, element('div', 'choices', ...presets), form, more,
    element('p', 'hint', `15m, 2h ago, yesterday 17:30, 2026-01-31 12:00, an epoch. Times are in ${getZone()}.`));
  return sheet;
}
