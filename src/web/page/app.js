// The page: puts its parts together. The worker brings snapshots, the list shows them.

import { showColumns } from './columns.js';
import { copy } from './copy.js';
import { around, asSendable, linkTo, makeDetail, sameTrace } from './detail.js';
import { element, openSheet } from './dom.js';
import { Filters } from './filters.js';
import { listen } from './keys.js';
import { List } from './list.js';
import { firstSteps, noMatch, signIn } from './panels.js';
import { iso } from './time.js';
import { TIME_STYLES, change, marker, patternFor, view } from './view.js';
import * as words from './words.js';
import { getZone, setZone } from './zone.js';

const HIDDEN_MS = 30_000;
/** How long a new stream may have no line before the page says that there is none. */
const EMPTY_MS = 400;
const TITLE = 'Watchtower';

const $ = (id) => document.getElementById(id);
const scripts = globalThis.trustedTypes?.createPolicy('watchtower', {
  createScriptURL: (url) => { if (url !== 'worker.js') throw new TypeError('no other script'); return url; },
});
const worker = new Worker(scripts ? scripts.createScriptURL('worker.js') : 'worker.js', { type: 'module' });
const tell = (type, more = {}) => worker.postMessage({ type, ...more });

let generation = 0;
let status = { state: 'connecting' };
let fresh = { count: 0, errors: 0 };
let helloSince = null;
let meta = null;
let panel = '';
let announced = '';
let wantsDetail = null;

const list = new List($('list'), $('sizer'), {
  want: (want) => tell('want', { want }),
  paused: () => { tell('freeze'); fresh = { count: 0, errors: 0 }; showFollow(); },
  followed: () => { tell('thaw'); fresh = { count: 0, errors: 0 }; showFollow(); },
  open: (key, place) => { wantsDetail = { key, place, use: openDetail }; tell('record', { key }); },
  load: (key) => tell('load', { key }),
  expand: (key) => tell('expand', { key }),
  readOn: () => tell('readOn'),
  copyRange: (from, to) => tell('records', { from, to }),
});
const filters = new Filters($('filters'), $('clear'), openStream);

function openStream() {
  generation += 1;
  helloSince = null;
  list.reset();
  showFollow();
  $('list').classList.add('stale');
  change({ pattern: patternFor(filters.params.get('q') ?? '') });
  tell('open', { generation, filter: filters.params.toString(), small: matchMedia('(max-width: 600px)').matches });
}

worker.onmessage = ({ data }) => messages[data.type](data);
worker.onerror = () => notice('The page could not start its worker. Reload it.');

const messages = {
  snapshot(snapshot) {
    if (snapshot.generation !== generation) return;
    if (snapshot.services) filters.offer($('services'), snapshot.services);
    if (snapshot.environments) {
      filters.offer($('environments'), snapshot.environments);
      change({ showEnvironment: snapshot.environments.length > 1 });
    }
    fresh = snapshot.fresh;
    status = snapshot.status;
    helloSince = status.hello ? helloSince ?? performance.now() : null;
    if (status.hello) $('list').classList.remove('stale');
    list.update(snapshot);
    showFollow();
    showStatus();
    showPanel(snapshot);
  },
  record({ key, record }) {
    if (record && wantsDetail?.key === key) wantsDetail.use(record, wantsDetail);
    wantsDetail = null;
  },
  place({ key, place }) { list.goTo(key, place); },
  records({ records }) { copyText(records.map(lineOf).join('\n'), words.lines(records.length)); },
};

const lineOf = (record) => `${iso(record.timestamp)} ${words.CODES[record.level] ?? record.level} ${record.service ?? '-'} ${record.message ?? ''}`;

function openDetail(record, { key, place }) {
  if (!list.isPhone) return list.openAt(key, place, makeDetail(record, { close: () => list.close() }));
  list.pause();
  const sheet = openSheet('Line', {}, makeDetail(record, { close: () => sheet.close() }));
  return sheet;
}

function showFollow() {
  const { following } = list;
  $('follow').setAttribute('aria-pressed', String(following));
  $('follow-word').textContent = following ? 'Following' : 'Paused';
  $('paused').hidden = following;
  $('paused-words').textContent = words.pausedWords(fresh);
  document.title = !following && fresh.errors ? `(${fresh.errors}) ${TITLE}` : TITLE;
}

function showStatus() {
  const state = $('state');
  state.dataset.state = status.state;
  const about = words.queryWords(status.hello?.q);
  $('understood').hidden = !about;
  if ($('understood').textContent !== about) $('understood').textContent = about;
  const isPaused = !list.following && ['live', 'quiet'].includes(status.state);
  const text = isPaused ? 'Paused' : words.stateWords(status, Date.now());
  if ($('state-word').textContent !== text) $('state-word').textContent = text;
  $('figures').textContent = words.figures(status);
  $('retry').hidden = !status.retryAt;
  if (status.state !== announced) {
    announced = status.state;
    if (status.state !== 'buffered' && $('notice').textContent.startsWith(words.BUFFERED)) $('notice').hidden = true;
    $('announce').textContent = text;
    if (status.state === 'buffered') notice(words.BUFFERED);
    if (status.state === 'live') loadMeta();
  }
}

function showPanel({ hasRecords, first, end }) {
  let wanted = '';
  if (status.state === 'signedout') wanted = 'signin';
  else if (end - first === 0 && !hasRecords && helloSince !== null) {
    const wait = EMPTY_MS - (performance.now() - helloSince);
    if (wait > 0) setTimeout(() => showPanel({ hasRecords, first, end: list.snapshot.end }), wait);
    else wanted = filters.isActive ? 'nomatch' : meta ? 'steps' : '';
  }
  if (wanted === panel) return;
  panel = wanted;
  const make = {
    signin: () => signIn(() => { tell('retry'); }),
    nomatch: () => noMatch(() => $('clear').click()),
    steps: () => firstSteps(meta),
  }[wanted];
  $('panel').hidden = !make;
  $('panel').replaceChildren(...(make ? [make()] : []));
  if (wanted === 'signin') $('panel').querySelector('input').focus();
}

async function loadMeta() {
  try {
    const answer = await fetch('api/meta', { cache: 'no-store', signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) return;
    const fresh = await answer.json();
    if (meta && meta.assets !== fresh.assets) notice(words.OUTDATED, 'Reload', () => location.reload());
    meta = fresh;
    if (!panel) showPanel({ hasRecords: list.snapshot.hasRecords, first: list.snapshot.first, end: list.snapshot.end });
  } catch {
    // The stream's own state says that the daemon is away.
  }
}

function notice(text, label = 'Close', action = () => { $('notice').hidden = true; }) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = label;
  button.addEventListener('click', action);
  $('notice').replaceChildren(text, ' ', button);
  $('notice').hidden = false;
}

// ---- buttons, keys, the window ----

const follow = () => list.follow();
const toggleFollow = () => (list.following ? list.pause() : list.follow());
const toggleWrap = () => {
  const on = document.documentElement.classList.toggle('wrap');
  $('wrap').setAttribute('aria-pressed', String(on));
  localStorage.setItem('watchtower.wrap', on ? '1' : '');
  list.measure();
  list.schedule();
};
const next = (direction, levels) => tell('next', { place: list.focused?.place ?? list.snapshot.end, direction, levels });

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = { system: 'Theme', light: 'Light', dark: 'Dark' }[theme];
  localStorage.setItem('watchtower.theme', theme);
}

function showKeys() {
  const table = document.createElement('table');
  for (const [key, meaning] of words.KEYS) {
    const row = table.insertRow();
    const cell = document.createElement('kbd');
    cell.textContent = key;
    row.insertCell().append(cell);
    row.insertCell().textContent = meaning;
  }
  const close = document.createElement('button');
  close.textContent = 'Close';
  close.addEventListener('click', () => $('keys').close());
  $('keys').replaceChildren(table, close);
  $('keys').showModal();
}

async function copyText(text, what) {
  const copied = await copy(text);
  $('announce').textContent = copied ? `Copied: ${what}` : 'Could not copy';
  notice(copied ? `Copied: ${what}` : 'This browser does not let the page copy.');
}

/** Does something with the whole record that has the focus. */
function withFocused(use) {
  if (!list.focused?.key) return;
  const { key } = list.focused;
  wantsDetail = { key, use };
  tell('record', { key });
}

function markText() {
  const selected = String(getSelection()).trim();
  if (selected) return change({ marked: marker(selected) });
  const input = element('input');
  input.setAttribute('aria-label', 'Text to mark');
  const form = element('form', 'ask', input, element('button', 'primary', 'Mark'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    change({ marked: marker(input.value) });
    sheet.close();
  });
  const sheet = openSheet('Mark a text', {}, form);
  return input.focus();
}

function pin() {
  withFocused((record, { key }) => {
    const isPinned = view.pinned?.key === key;
    change(isPinned ? { pinned: null, timeStyle: 'clock' } : { pinned: { key, timestamp: record.timestamp }, timeStyle: 'pinned' });
  });
}

function nextTimeStyle() {
  const known = TIME_STYLES.filter((style) => style !== 'pinned' || view.pinned);
  change({ timeStyle: known[(known.indexOf(view.timeStyle) + 1) % known.length] });
}

function showZone(zone) {
  setZone(zone);
  $('zone').textContent = getZone();
  tell('zone', { zone });
  change({});
}

addEventListener('wt-view', ({ detail }) => { if (detail.includes('columns')) tell('columns', { columns: view.columns }); });

listen({
  '/': () => { showFilters(true); $('text').focus(); $('text').select(); },
  ' ': toggleFollow, l: follow, L: follow, End: follow,
  g: () => list.page(-Infinity), Home: () => list.page(-Infinity),
  j: () => list.move(1), ArrowDown: () => list.move(1), k: () => list.move(-1), ArrowUp: () => list.move(-1),
  PageUp: () => list.page(-0.9), PageDown: () => list.page(0.9),
  Enter: () => list.toggle(), ArrowRight: () => { if (!list.open) list.toggle(); }, ArrowLeft: () => list.close(),
  e: () => next(1, ['error', 'fatal']), E: () => next(-1, ['error', 'fatal']), v: () => next(1, ['warn']), V: () => next(-1, ['warn']),
  c: () => withFocused(around), x: () => withFocused(sameTrace), y: () => withFocused((record) => copyText(linkTo(record), 'link')),
  Y: () => withFocused((record) => copyText(asSendable(record), 'JSON')),
  w: toggleWrap, m: markText, p: pin, t: nextTimeStyle, z: () => showZone(getZone() === 'UTC' ? '' : 'UTC'), '?': showKeys,
  Escape: () => { if (!list.close()) { list.focused = null; list.schedule(); } },
}, (field) => { filters.read(); field.blur(); $('list').focus(); });

function showFilters(on) {
  $('filters').classList.toggle('shown', on);
  $('filter-toggle').setAttribute('aria-expanded', String(on));
}

$('follow').addEventListener('click', toggleFollow);
$('jump').addEventListener('click', follow);
$('wrap').addEventListener('click', toggleWrap);
$('help').addEventListener('click', showKeys);
$('retry').addEventListener('click', () => tell('retry'));
$('filter-toggle').addEventListener('click', () => showFilters(!$('filters').classList.contains('shown')));
$('theme').addEventListener('click', () => setTheme({ system: 'dark', dark: 'light', light: 'system' }[document.documentElement.dataset.theme]));

let resting = null;
document.addEventListener('visibilitychange', () => {
  clearTimeout(resting);
  if (document.hidden) resting = setTimeout(() => tell('rest'), HIDDEN_MS);
  else tell('wake');
});
document.addEventListener('freeze', () => tell('rest'));
for (const name of ['pointerdown', 'keydown', 'focus']) addEventListener(name, () => tell('touched'), true);
addEventListener('pagehide', () => tell('rest'));
addEventListener('pageshow', () => tell('wake'));
setInterval(() => {
  if (status.retryAt || status.state === 'quiet') showStatus();
  if (view.timeStyle === 'age' && !document.hidden) change({});
}, 1000);

showColumns($('columns'));
$('zone').textContent = getZone();
setTheme(localStorage.getItem('watchtower.theme') ?? 'system');
if (localStorage.getItem('watchtower.wrap')) toggleWrap();
openStream();
