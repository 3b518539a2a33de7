// Times of records. A timestamp is a string of nanoseconds since the epoch, too long for a number.

import { getZone } from './zone.js';

const formatters = new Map();
let hours = '24';
/** A clock of 24 hours, or of 12. */
export const setHours = (n) => { hours = n; };

export { getZone as zoneName };
export const milliseconds = (timestamp) => Number(timestamp.slice(0, -6) || '0');

function formatter(name, options, locale) {
  const zone = getZone();
  const key = `${name} ${zone}`;
  if (!formatters.has(key)) formatters.set(key, new Intl.DateTimeFormat(locale, { timeZone: zone, ...options }));
  return formatters.get(key);
}

const CLOCK = { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' };
const DAY = { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' };
const PARTS = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23', timeZoneName: 'longOffset' };

/** `HH:mm:ss.SSS` */
export const clock = (timestamp) => formatter(`clock${hours}`, hours === '12' ? { ...CLOCK, hourCycle: 'h12' } : CLOCK).format(milliseconds(timestamp));
/** The day in words. */
export const day = (ms) => formatter('day', DAY).format(ms);

function parts(ms) {
  const all = {};
  for (const { type, value } of formatter('parts', PARTS, 'en').formatToParts(ms)) all[type] = value;
  return all;
}

/** `2026-01-31 12:00:00` in the zone; whole, with as many digits below the second as it has. */
export function stamp(timestamp, isWhole = false) {
  const { year, month, day: date, hour, minute, second } = parts(milliseconds(timestamp));
  const rest = isWhole ? timestamp.padStart(9, '0').slice(-9).replace(/0+$/, '') : '';
  return `${year.padStart(4, '0')}-${month}-${date} ${hour}:${minute}:${second}${rest ? `.${rest}` : ''}`;
}

/** ISO 8601 with all nine digits, in the zone and with its offset. */
export function iso(timestamp) {
  const ms = milliseconds(timestamp);
  const { year, month, day: date, hour, minute, second, timeZoneName } = parts(ms);
  const offset = ['GMT', 'GMT+00:00'].includes(timeZoneName) ? 'Z' : timeZoneName.slice(3);
  return `${year.padStart(4, '0')}-${month}-${date}T${hour}:${minute}:${second}.${timestamp.padStart(9, '0').slice(-9)}${offset}`;
}

const AGES = [[86_400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']];
const relative = new Intl.RelativeTimeFormat(undefined, { style: 'narrow', numeric: 'always' });

/** "3 min ago" */
export function age(timestamp, now = Date.now()) {
  const seconds = (milliseconds(timestamp) - now) / 1000;
  const [size, unit] = AGES.find(([least]) => Math.abs(seconds) >= least) ?? AGES[3];
  return relative.format(Math.trunc(seconds / size), unit);
}

/** From one timestamp to another: "+12.345 ms". */
export function delta(from, to) {
  const nanoseconds = Number(BigInt(to) - BigInt(from));
  const size = Math.abs(nanoseconds);
  const [per, unit] = size >= 3.6e12 ? [3.6e12, 'h'] : size >= 6e10 ? [6e10, 'min'] : size >= 1e9 ? [1e9, 's'] : size >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
  return `${nanoseconds < 0 ? '−' : '+'}${(size / per).toFixed(3)} ${unit}`;
}
