// The time zone in which everything is shown and typed: the browser's, UTC or any other of IANA's.

const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
let zone = local;
let quarter = null;
let day = 0;

export const getZone = () => zone;

/** Takes a zone; says whether the browser knows it. Nothing stands for the browser's own. */
export function setZone(name) {
  quarter = null;
  try {
    zone = new Intl.DateTimeFormat('en', { timeZone: name || local }).resolvedOptions().timeZone;
    return true;
  } catch {
    zone = local;
    return false;
  }
}

/** Whether the browser knows a zone. */
export function isZone(name) {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: name }));
  } catch {
    return false;
  }
}

/** All zones by name, the usual ones first. */
export function zones() {
  const all = Intl.supportedValuesOf?.('timeZone') ?? [];
  return [...new Set([local, 'UTC', ...all])];
}

/** Number of the day in this zone. Days begin at a quarter of an hour, so one within it has the same day. */
export function dayNumber(ms) {
  const now = Math.floor(ms / 900_000);
  if (now === quarter) return day;
  const [year, month, date] = new Intl.DateTimeFormat('sv', { timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(ms).split('-').map(Number);
  quarter = now;
  day = Date.UTC(year, month - 1, date) / 86_400_000;
  return day;
}
