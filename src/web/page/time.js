// Times of records. A timestamp is a string of nanoseconds since the epoch, too long for a number.

const clocks = new Map();
let zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export const zoneName = () => zone;
export const milliseconds = (timestamp) => Number(timestamp.slice(0, -6) || '0');

function formatter(name, options) {
  const key = `${name} ${zone}`;
  if (!clocks.has(key)) clocks.set(key, new Intl.DateTimeFormat(undefined, { timeZone: zone, ...options }));
  return clocks.get(key);
}

const CLOCK = { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3, hourCycle: 'h23' };
const DAY = { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' };

/** `HH:mm:ss.SSS` */
export const clock = (timestamp) => formatter('clock', CLOCK).format(milliseconds(timestamp));
/** The day in words. */
export const day = (ms) => formatter('day', DAY).format(ms);

/** ISO 8601 with all nine digits, in UTC. */
export function iso(timestamp) {
  const date = new Date(milliseconds(timestamp));
  return `${date.toISOString().slice(0, 19)}.${timestamp.padStart(9, '0').slice(-9)}Z`;
}
