// The page: puts its parts together. The worker brings snapshots, the list shows them.

import { showColumns } from './columns.js';
import { copy } from './copy.js';
import { asSendable, makeDetail } from './detail.js';
import { element, openSheet } from './dom.js';
import { listen } from './keys.js';
import { List } from './list.js';
import { firstSteps, signIn } from './panels.js';
import { Search } from './search.js';
import { showUnderstood } from './understood.js';
import { openSettings, set, settings } from './settings.js';
import { iso, setHours } from './time.js';
import { TIME_STYLES, change, marker, patternFor, view } from './view.js';
import * as words from './words.js';
import { getZone } from './zone.js';

const HIDDEN_MS = 30_000;
/** How long a new stream may have no line before the page says that there is none. */
const EMPTY_MS = 400;
/** One sentence about new lines in so long. */
const TELL_MS = 10_000;
/** One sentence about errors in so long, where it is asked for. */
const ALOUD_MS = 5_000;
const TITLE = 'Watchtower';
const BAD = ['error', 'fatal'];
const wide = matchMedia('(min-width: 1280px)');

const $ = (id) => document.getElementById(id);
const scripts = globalThis.trustedTypes?.createPolicy('watchtower', {
  createScriptURL: (url) => { if (!['worker.js', 'shared.js'].includes(url)) throw new TypeError('no other script'); return url; },
});
const script = (url) => (scripts ? scripts.createScriptURL(url) : url);
const worker = new Worker(script('worker.js'), { type: 'module' });
const tell = (type, more = {}, transfer = []) => worker.postMessage({ type, ...more }, transfer);
if (globalThis.SharedWorker) {
  // Tabs of one version of the page share their streams; a browser that cannot, has one for each tab.
  const shared = new SharedWorker(script('shared.js'), { type: 'module', name: 'watchtower-1' });
  shared.onerror = () => tell('share', { port: null });
  tell('share', { port: shared.port }, [shared.port]);
}

let generation = 0;
let status = { state: 'connecting' };
let fresh = { count: 0, errors: 0 };
let helloSince = null;
let meta = null;
let panel = '';
let announced = '';
let toldAt = -Infinity;
let errors = { count: 0 };
let erredAt = -Infinity;
let wantsDetail = null;
let isResetting = false;

const list = new List($('list'), $('sizer'), {
  want: (want) => tell('want', { want }),
  paused: () => { tell('freeze'); fresh = { count: 0, errors: 0 }; showFollow(); },
  followed: () => { tell('thaw'); fresh = { count: 0, errors: 0 }; showFollow(); },
  open: (key, place) => { wantsDetail = { key, place, use: openDetail }; tell('record', { key }); },
  load: (key) => tell('load', { key }),
  narrow: () => { $('text').focus(); },
  lineOf: (record) => lineOf(record),
  expand: (key) => tell('expand', { key }),
  readOn: () => tell('readOn'),
  closed: () => { if (!isResetting) search.closed(); },
  copyRange: (...ends) => { const [from, to] = ends.map((place) => list.flip(place)).sort((a, b) => a - b); tell('records', { from, to }); },
});
const search = new Search({
  list, tell, notice, openDetail,
  open: openStream,
  say: (text) => { $('announce').textContent = text; },
  record: withFocused,
  meta: () => meta,
  wrap: (on) => { if (document.documentElement.classList.contains('wrap') !== on) setWrap(on); },
  look: (columns) => { tell('zone', { zone: getZone() }); change({ columns }); },
  actions: () => [
    ['Space', list.following ? 'Pause' : 'Follow', toggleFollow], ['w', 'Wrap lines', toggleWrap], ['t', 'Time style', nextTimeStyle],
    ['m', 'Mark a text', markText], ['e', 'Next error', () => next(1, BAD)], ['E', 'Previous error', () => next(-1, BAD)],
    ['v', 'Next warning', () => next(1, ['warn'])], ['V', 'Previous warning', () => next(-1, ['warn'])],
    ['g', 'Oldest line loaded', () => list.page(-Infinity)], ['p', 'Measure times from the line', pin],
    ...(meta?.meta.read_token_needed ? [['', 'Sign out', signOut]] : []),
    ['?', 'Keys', showKeys], ['', 'Theme', nextTheme],
    ['', 'Settings', openSettings],
  ],
});

function openStream() {
  generation += 1;
  helloSince = null;
  isResetting = true;
  list.reset();
  isResetting = false;
  showFollow();
  $('list').classList.add('stale');
  change({ pattern: patternFor(search.place.get('q')) });
  const asked = search.begin();
  tell('open', { generation, ...asked, small: matchMedia('(max-width: 600px)').matches });
  // A linked line is read where it stands.
  if (asked.at) list.pause();
  showFollow();
}

worker.onmessage = ({ data }) => messages[data.type](data);
worker.onerror = () => notice('The page could not start its worker. Reload it.');

const messages = {
  snapshot(snapshot) {
    if (snapshot.generation !== generation) return;
    if (snapshot.environments) change({ showEnvironment: snapshot.environments.length > 1 });
    fresh = snapshot.fresh;
    tellFresh();
    tellErrors(snapshot.bad);
    status = snapshot.status;
    helloSince = status.hello ? helloSince ?? performance.now() : null;
    if (status.hello || status.state === 'past') $('list').classList.remove('stale');
    list.update(snapshot);
    showFollow();
    showStatus();
    search.onSnapshot(snapshot);
    showPanel(snapshot);
  },
  around: (message) => search.onAround(message),
  found: (message) => search.onFound(message),
  record({ key, record }) {
    if (record && wantsDetail?.key === key) wantsDetail.use(record, wantsDetail);
    wantsDetail = null;
  },
  place({ key, place }) { list.goTo(key, list.flip(place)); },
  records({ records }) { copyText(records.map(lineOf).join('\n'), words.lines(records.length)); },
};

const lineOf = (record) => `${iso(record.timestamp)} ${words.CODES[record.level] ?? record.level} ${record.service ?? '-'} ${record.message ?? ''}`;

function openDetail(record, { key, place }) {
  search.opened(record);
  const links = meta?.meta.links ?? meta?.links;
  if (!list.isPhone) {
    const isBeside = wide.matches && settings.detail === 'beside';
    const pin = wide.matches && (() => {
      list.close({ isReplaced: !isBeside });
      set('detail', isBeside ? 'under' : 'beside');
      openDetail(record, { key, place });
    });
    return list.openAt(key, place, makeDetail(record, { close: () => list.close(), pin, links }), isBeside ? $('side') : null);
  }
  // On a phone it has the screen for itself.
  list.pause();
  return openSheet('Line', { closed: () => search.closed() }, makeDetail(record, { links }));
}

/** Puts the settings into force. */
function applySettings() {
  const { density, tint, listJson, hours, aloud } = settings;
  Object.assign(document.documentElement.dataset, { density, tint });
  setHours(hours);
  if (view.listJson !== listJson || view.hours !== hours) change({ listJson, hours });
  tell('aloud', { on: aloud === 'on' });
  list.relayout();
}

/** Says what errors came, for those who asked for it. */
function tellErrors(bad) {
  if (bad) errors = { ...bad, count: errors.count + bad.count };
  const now = performance.now();
  if (errors.count === 0 || now - erredAt < ALOUD_MS) return;
  erredAt = now;
  $('announce').textContent = words.errorWords(errors);
  errors = { count: 0 };
}

/** Says how much is new, for those who do not see the bar: not more often than somebody can listen to. */
function tellFresh() {
  const now = performance.now();
  if (list.following || fresh.count === 0 || now - toldAt < TELL_MS) return;
  toldAt = now;
  const text = words.freshWords(fresh);
  if ($('announce').textContent !== text) $('announce').textContent = text;
}

function showFollow() {
  const { following } = list;
  $('follow').setAttribute('aria-pressed', String(following && !search.isPast));
  $('follow-word').textContent = search.isPast ? 'Go live' : following ? 'Following' : 'Paused';
  $('paused').hidden = following || search.isPast;
  $('paused-words').textContent = words.pausedWords(fresh);
  document.title = !following && fresh.errors ? `(${fresh.errors}) ${TITLE}` : TITLE;
}

function showStatus() {
  const state = $('state');
  state.dataset.state = status.state;
  showUnderstood($('understood'), status.hello?.q ?? search.state.q, search.place);
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
  else if (end - first === 0 && !hasRecords && (search.isPast ? search.state.phase === 'end' : helloSince !== null)) {
    const wait = EMPTY_MS - (performance.now() - helloSince);
    if (wait > 0) setTimeout(() => showPanel({ hasRecords, first, end: list.snapshot.end }), wait);
    else wanted = search.isActive ? 'nomatch' : meta ? 'steps' : '';
  }
  if (wanted === panel) return;
  panel = wanted;
  const make = {
    signin: () => signIn(() => { tell('retry'); }),
    nomatch: () => search.noMatch(),
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

const follow = () => (search.isPast ? search.goLive() : list.follow());
const toggleFollow = () => (search.isPast ? search.goLive() : list.following ? list.pause() : list.follow());
function setWrap(on) {
  document.documentElement.classList.toggle('wrap', on);
  $('wrap').setAttribute('aria-pressed', String(on));
  localStorage.setItem('watchtower.wrap', on ? '1' : '');
  list.relayout();
}

function toggleWrap() {
  const on = !document.documentElement.classList.contains('wrap');
  setWrap(on);
  search.place.set({ wrap: on ? '1' : '0' }, { quiet: true });
}
const next = (direction, levels) => tell('next', { place: list.flip(list.focused?.place ?? list.edge), direction: list.isReversed ? -direction : direction, levels });

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = { system: 'Theme', light: 'Light', dark: 'Dark' }[theme];
  localStorage.setItem('watchtower.theme', theme);
}

function nextTheme() { setTheme({ system: 'dark', dark: 'light', light: 'system' }[document.documentElement.dataset.theme]); }

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

async function signOut() {
  try {
    await fetch('api/session', { method: 'DELETE', signal: AbortSignal.timeout(10_000) });
    location.reload();
  } catch {
    notice('The daemon does not answer: you are still signed in.');
  }
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

addEventListener('wt-view', ({ detail }) => { if (detail.includes('columns')) tell('columns', { columns: view.columns }); });

listen({
  '/': () => { $('text').focus(); $('text').select(); },
  ' ': toggleFollow, l: follow, L: follow, End: follow,
  g: () => list.page(-Infinity), Home: () => list.page(-Infinity),
  j: () => list.move(1), ArrowDown: () => list.move(1), k: () => list.move(-1), ArrowUp: () => list.move(-1),
  PageUp: () => list.page(-0.9), PageDown: () => list.page(0.9),
  Enter: () => list.toggle(), ArrowRight: () => { if (!list.open) list.toggle(); }, ArrowLeft: () => list.close(),
  e: () => next(1, BAD), E: () => next(-1, BAD), v: () => next(1, ['warn']), V: () => next(-1, ['warn']),
  Y: () => withFocused((record) => copyText(asSendable(record), 'JSON')),
  w: toggleWrap, m: markText, p: pin, t: nextTimeStyle, '?': showKeys,
  ...search.keys,
  Escape: () => { if (!list.close()) { list.focused = null; list.schedule(); } },
}, (field) => { field.blur(); $('list').focus(); });

$('follow').addEventListener('click', toggleFollow);
$('jump').addEventListener('click', follow);
$('wrap').addEventListener('click', toggleWrap);
$('help').addEventListener('click', showKeys);
$('retry').addEventListener('click', () => tell('retry'));
$('theme').addEventListener('click', nextTheme);

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
  tellErrors(null);
}, 1000);
addEventListener('wt-settings', applySettings);
wide.addEventListener('change', () => { if (list.open?.side) list.close(); });

showColumns($('columns'));
applySettings();
setTheme(localStorage.getItem('watchtower.theme') ?? 'system');
if (localStorage.getItem('watchtower.wrap') && !search.place.get('wrap')) setWrap(true);
openStream();
