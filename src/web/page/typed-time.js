// Times as people write them: `15m`, `2h ago`, `yesterday 17:30`, `17:30`, ISO 8601, an epoch.
//
// An age stays one ("15m"), so that a link made today means the last 15 minutes tomorrow too. All else
// becomes nanoseconds since the epoch, as text, because they do not fit into a number.

import { getZone } from './zone.js';

const AGE = /^(\d+)\s*(s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?|d|days?|w|weeks?)(?:\s+ago)?$/i;
const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const CLOCK = /^(?:(today|yesterday)(?:\s+(?:at\s+)?|$))?(?:(\d{1,2}):(\d{2})(?::(\d{2}))?)?$/i;
const ISO = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i;

const nanoseconds = (ms, rest = 0n) => String(BigInt(ms) * 1_000_000n + rest);

/** Minutes that a zone is ahead of UTC at a moment. */
function offset(ms, zone) {
  const parts = new Intl.DateTimeFormat('en', { timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' }).formatToParts(ms);
  const of = (type) => Number(parts.find((part) => part.type === type).value);
  return Math.round((Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second')) - ms) / 60_000);
}

/** The moment at which a zone's clocks show this: the first of two, and where they skip it, as much later. */
export function moment(zone, year, month, day, hour = 0, minute = 0, second = 0) {
  const wall = Date.UTC(year, month - 1, day, hour, minute, second);
  const before = offset(wall - UNITS.d, zone);
  const after = offset(wall + UNITS.d, zone);
  const at = [before, after].find((minutes) => offset(wall - minutes * 60_000, zone) === minutes);
  return wall - (at ?? before) * 60_000;
}

function today(now, zone, back) {
  const parts = new Intl.DateTimeFormat('en', { timeZone: zone, year: 'numeric', month: 'numeric', day: 'numeric' }).formatToParts(now);
  const of = (type) => Number(parts.find((part) => part.type === type).value);
  const date = new Date(Date.UTC(of('year'), of('month') - 1, of('day') - back));
  return [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()];
}

function iso(text, zone) {
  const match = ISO.exec(text);
  if (!match) return null;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', shift] = match;
  const numbers = [year, month, day, hour, minute, second].map(Number);
  if (numbers[1] < 1 || numbers[1] > 12 || numbers[2] < 1 || numbers[2] > 31 || numbers[3] > 24 || numbers[4] > 59 || numbers[5] > 59) return null;
  let ms = moment(zone, ...numbers);
  if (shift) {
    const minutes = /z/i.test(shift) ? 0 : Number(`${shift[0]}1`) * (Number(shift.slice(1, 3)) * 60 + Number(shift.slice(-2)));
    ms = Date.UTC(numbers[0], numbers[1] - 1, ...numbers.slice(2)) - minutes * 60_000;
  }
  return nanoseconds(ms, BigInt(fraction.padEnd(9, '0')));
}

/** What a text says: an age such as `15m`, `now`, nanoseconds as text, or null. */
export function understand(text, now = Date.now(), zone = getZone()) {
  const plain = text.trim();
  if (/^now$/i.test(plain)) return 'now';
  const age = AGE.exec(plain);
  if (age) return `${Number(age[1])}${age[2][0].toLowerCase()}`;
  if (/^\d{9,19}$/.test(plain)) {
    const digits = plain.length;
    const power = digits <= 11 ? 9 : digits <= 14 ? 6 : digits <= 17 ? 3 : 0;
    return String(BigInt(plain) * 10n ** BigInt(power));
  }
  const clock = plain && CLOCK.exec(plain);
  if (clock) {
    const [, day, hour = '0', minute = '0', second = '0'] = clock;
    if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return null;
    return nanoseconds(moment(zone, ...today(now, zone, /^y/i.test(day ?? '') ? 1 : 0), Number(hour), Number(minute), Number(second)));
  }
  return iso(plain, zone);
}

export const isAge = (value) => /^\d+[smhdw]$/.test(value);

/** Milliseconds of an age. */
export const ageMs = (value) => Number(value.slice(0, -1)) * UNITS[value.at(-1)];

/** Nanoseconds, as text, of what a link holds: an age is taken from `now`. */
export function resolve(value, now = Date.now()) {
  if (!value) return '';
  if (value === 'now') return nanoseconds(now);
  if (isAge(value)) return nanoseconds(now - ageMs(value));
  return understand(value, now) ?? '';
}
