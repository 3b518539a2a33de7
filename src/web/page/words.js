// Every sentence of the page that is made by scripts.

const number = new Intl.NumberFormat();

export const count = (n) => number.format(n);
export const many = (n, what) => `${count(n)} ${what}${n === 1 ? '' : 's'}`;
export const lines = (n) => many(n, 'line');

export const CODES = {
  trace: 'TRC', debug: 'DBG', info: 'INF', warn: 'WRN', error: 'ERR', fatal: 'FTL', unspecified: '---',
};

/** "9 ERR, 40 WRN", most severe first. */
export function byLevel(levels) {
  return ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'unspecified']
    .filter((level) => levels[level])
    .map((level) => `${count(levels[level])} ${CODES[level]}`)
    .join(', ');
}

/** "42 new (3 errors)" */
export function freshWords(fresh) {
  const errors = fresh.errors ? ` (${count(fresh.errors)} ${fresh.errors === 1 ? 'error' : 'errors'})` : '';
  return `${count(fresh.count)} new${errors}`;
}

/** "Error of api: disk full, and 3 more" */
export function errorWords({ count: n, service, message }) {
  return `Error${service ? ` of ${service}` : ''}: ${message}${n > 1 ? `, and ${count(n - 1)} more` : ''}`;
}

export const pausedWords = (fresh) => `Paused · ${freshWords(fresh)}`;

export function skippedWords(item) {
  const why = { rate: item.limit ? `they came faster than ${count(item.limit)}/s` : 'they came faster than the page asked for', slow: 'this browser was too slow' };
  if (item.isDone) return `${lines(item.count)} of this time are not in the store, or not yet`;
  const levels = byLevel(item.by_level ?? {});
  return `${lines(item.count)} not shown${levels ? ` — ${levels}` : ''} — ${why[item.reason] ?? item.reason}`;
}

export function gapWords(item) {
  const many = item.count === null || item.count === undefined ? 'Some lines' : lines(item.count);
  const why = {
    expired: 'they came while the page was away and are no longer in memory',
    restart: 'the daemon was restarted meanwhile',
    store: 'the store does not answer',
    limit: 'too many came while the page was away',
    between: 'they are newer than the line above',
    far: 'they are far below what was read',
    paused: 'they came while the list was paused and full',
  };
  return `${many} not shown here — ${why[item.reason] ?? item.reason}`;
}

const STATES = {
  connecting: 'Connecting',
  live: 'Live',
  quiet: 'Quiet',
  reconnecting: 'Reconnecting',
  offline: 'Offline',
  signedout: 'Signed out',
  limited: 'Limited',
  restarting: 'Server restarting',
  store: 'Live, store away',
  buffered: 'Buffered by a proxy',
  hidden: 'Resting',
  tabs: 'Resting: too many tabs of Watchtower are live; click to go on here',
  catching: 'Catching up',
  refused: 'Refused',
  past: 'Past',
};

/** The state in words; `now` in milliseconds. */
export function stateWords(status, now) {
  const word = STATES[status.state] ?? status.state;
  if (status.state === 'quiet') {
    const since = Math.round((now - status.quietSince) / 1000);
    return `${word}: no match for ${since} s; ${rate(status.inRate)} arriving${status.matchRate ? '' : ', none match'}`;
  }
  if (status.state === 'catching') return status.left ? `${word}: ${lines(status.left)} left` : word;
  if (status.retryAt) {
    const left = Math.max(0, Math.ceil((status.retryAt - now) / 1000));
    return `${word}${status.reason ? `: ${status.reason}` : ''}; again in ${left} s`;
  }
  return status.reason ? `${word}: ${status.reason}` : word;
}

/** What a row shows of a message that is longer. */
export const restWords = (characters) => `+${count(Math.ceil(characters / 1024))} KB`;
export const wholeWords = (bytes) => (bytes < 2048 ? `${count(bytes)} bytes` : bytes < 2 << 20 ? `${count(Math.round(bytes / 1024))} KB` : `${count(Math.round(bytes / (1 << 20)))} MB`);

const rate = (n) => `${number.format(n >= 10 ? Math.round(n) : n)}/s`;

/** What stands beside the state. */
export function figures(status) {
  if (!status.ticked) return '';
  const parts = [`${rate(status.inRate)} in`, `${rate(status.matchRate)} matching`];
  if (status.lagMs > 1000) parts.push(`${(status.lagMs / 1000).toFixed(1)} s behind`);
  if (status.skipped) parts.push(`${count(status.skipped)} skipped`);
  if (status.queue > 0) parts.push(`${count(status.queue)} queued`);
  return parts.join(' · ');
}

export function late(seconds) {
  const size = Math.abs(seconds);
  // Just short of an hour is an hour, in round numbers.
  const [n, unit] = size >= 86_000 ? [size / 86_400, 'd'] : size >= 3570 ? [size / 3600, 'h'] : size >= 59.5 ? [size / 60, 'min'] : [size, 's'];
  return `${count(Math.round(n))} ${unit} ${seconds > 0 ? 'late' : 'ahead'}`;
}

export const BUFFERED = 'A proxy between you and Watchtower holds back the stream. nginx: proxy_buffering off; '
  + 'Traefik: no compress middleware on this route; Caddy: flush_interval -1.';
export const OUTDATED = 'Watchtower was updated.';

export const KEYS = [
  ['/', 'the query'], ['Esc', 'close, or leave the field'], ['Space', 'pause or follow'], ['L, End', 'jump to live'],
  ['g, Home', 'oldest line loaded'], ['j k ↓ ↑', 'move by a line'], ['Enter →', 'open the line'], ['←', 'close it'],
  ['e E', 'next, previous error'], ['v V', 'next, previous warning'], ['c', 'lines around the line'], ['x', 'lines of the same trace'],
  ['y', 'copy a link to the line'], ['Y', 'copy the line as JSON'], ['w', 'wrap long lines'], ['m', 'mark a text'],
  ['t', 'time as clock, age, or difference'], ['p', 'measure times from the line'], ['z', 'time zone'], ['r', 'time range'],
  ['[ ]', 'older, newer range'], ['h', 'histogram'], ['f', 'facets'], ['s', 'save view'], ['i', 'status'], ['n N', 'next, previous found text'],
  ['Ctrl+F', 'find in what is loaded'], ['?', 'these keys'],
];

/** Why a query was taken as text; nothing if it was not. */
export function faultWords(q) {
  const fault = q?.searched_as_text;
  return fault ? `searched as text · ${fault.text}${fault.hint ? ` · ${fault.hint}` : ''}` : '';
}

const REFUSED = {
  bad_data: 'could not be read',
  framing: 'broke the rules of gRPC',
  unauthenticated: 'had no token or a wrong one',
  origin: 'came from a web page that may not send',
  too_large: 'exceeded the limit of bytes',
  media_type: 'had an unknown content type',
  coding: 'had an unknown compression',
  method: 'had the wrong HTTP method',
  path: 'went to an unknown path',
  other_signal: 'had traces, metrics or profiles instead of logs',
  body_timeout: 'came too slowly',
  unavailable: 'found the queue full or the daemon busy, and may come again',
  headers: 'had too many bytes of headers',
  deadline: 'ran out of the time their client gave them, and may come again',
  rate: 'were more than one address may send, and may come again',
  forbidden: 'had a token that may only read',
  bug: 'met a fault of Watchtower',
};

/** "2 could not be read (json) · 1 exceeded the limit of bytes (otlp_http)", the most first. */
export function refusedWords(reasons) {
  const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
  return Object.entries(reasons)
    .sort(([, a], [, b]) => sum(b) - sum(a))
    .map(([reason, counts]) => `${count(sum(counts))} ${REFUSED[reason] ?? reason} (${Object.keys(counts).join(', ')})`)
    .join(' · ');
}
