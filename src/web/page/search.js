// The search side of the page, put together: the query's box, range, histogram, facets and what lies over the
// list. The page's own part knows the stream and the list; it calls this where the two meet.

import { openContext } from './context.js';
import { copy } from './copy.js';
import { button, element, openSheet } from './dom.js';
import { noMatch } from './empty.js';
import { openExport } from './export.js';
import { Facets } from './facets.js';
import { Find } from './find.js';
import { Histogram } from './histogram.js';
import { Place, frozenLink, isSearch, joinColumns } from './place.js';
import { progressWords } from './figures.js';
import { QueryBox } from './query-box.js';
import { exclude, include, quote } from './query-text.js';
import { bounds, chooseRange, rangeWords, shifted } from './range.js';
import { openStatus, watch } from './status.js';
import { view } from './view.js';
import { Views } from './views.js';
import { getZone, isZone, setZone, zones } from './zone.js';

const HOUR_NS = 3_600_000_000_000n;
/** How near the top of the list the reader comes before older lines are fetched. */
const NEAR_PX = 600;
const $ = (id) => document.getElementById(id);

export class Search {
  /**
   * `page` has what the search needs of the page: `list`, `tell(type, data)` for the worker, `open()` for
   * a stream anew, `openDetail(record, where)`, `say(text)`, `notice(text)`, `look(columns)` and `wrap(on)` for how
   * lines look, `meta()`, `record(use)` for the line that has the focus, `actions()` for the menu.
   */
  constructor(page) {
    this.page = page;
    this.state = { phase: 'idle' };
    this.place = new Place((names, isBack) => this.moved(names, isBack));
    this.views = new Views($('pins'), { go: (url) => this.go(url), here: () => location.search });
    this.box = new QueryBox({ form: $('filters'), text: $('text'), mirror: $('mirror'), clear: $('clear'), list: $('offers') }, {
      run: (q) => this.place.set({ q }),
      scope: () => this.params({ withQuery: false }),
      views: () => this.views.offers(),
    });
    this.histogram = new Histogram($('histogram'), (range) => this.place.set(range));
    this.facets = new Facets($('facets'), { search: () => this.asked, edit: (q) => this.place.set({ q }) });
    this.find = new Find($('find'), $('list'), {
      look: (text, step) => this.lookFor(text, step),
      everywhere: (text) => this.place.set({ q: `${this.place.get('q')} ${quote(text)}`.trim() }),
    });
    this.listen();
    this.look();
    this.alarm = watch($('alarm'));
  }

  // ---- what is searched ----

  /** The search as the API takes it. */
  get asked() {
    const { from, to } = bounds(this.place.get('from'), this.place.get('to'), this.openedAt);
    return { q: this.place.get('q'), from, to };
  }

  params({ withQuery = true } = {}) {
    const { q, from, to } = this.asked;
    return new URLSearchParams({ ...(withQuery && q && { q }), ...(from && { from }), ...(to && { to }) });
  }

  get isActive() { return ['q', 'from', 'to'].some((name) => this.place.get(name)); }
  /** A range that has ended: nothing of it can still come. */
  get isPast() { return this.asked.to !== ''; }

  /** What the worker is to open. */
  begin() {
    this.openedAt = Date.now();
    const { q, from, to } = this.asked;
    const filter = new URLSearchParams(q ? { q } : {}).toString();
    this.state = { phase: 'idle' };
    this.histogram.open({ filter, from, to });
    this.facets.refresh();
    this.box.show(q);
    $('range').firstElementChild.textContent = rangeWords(this.place.get('from'), this.place.get('to'));
    const at = this.place.get('at');
    return { filter, from, to, at, zone: getZone() };
  }

  /** The place has changed, by hand or by Back. */
  moved(names, isBack) {
    if (names.includes('order')) this.page.list.isReversed = this.place.get('order') === 'newest';
    if (isSearch(names) || names.includes('order')) {
      this.page.open();
    } else if (names.includes('at') && isBack) {
      const at = this.place.get('at');
      if (at) this.page.tell('around', { at });
      else this.page.list.close();
    }
    if (names.some((name) => ['columns', 'order', 'zone', 'wrap'].includes(name))) this.look();
  }

  /** Puts the parts of the place that are looks into force. */
  look() {
    const { page, place } = this;
    if (!setZone(place.get('zone'))) page.notice(`This browser knows no zone ${place.get('zone')}.`);
    $('zone').textContent = getZone();
    page.list.isReversed = place.get('order') === 'newest';
    page.list.root.setAttribute('aria-label', `Log records, ${page.list.isReversed ? 'newest' : 'oldest'} first`);
    page.look(place.columns);
    if (place.get('wrap')) page.wrap(place.get('wrap') === '1');
    $('range').firstElementChild.textContent = rangeWords(place.get('from'), place.get('to'));
    this.histogram.draw();
  }

  go(url) {
    const params = new URLSearchParams(url);
    const names = ['q', 'from', 'to', 'columns', 'order', 'zone', 'wrap', 'at'];
    this.place.set(Object.fromEntries(names.map((name) => [name, params.get(name) ?? ''])));
  }

  // ---- what the worker says ----

  onSnapshot({ history, status, end, missed }) {
    this.state = history ?? this.state;
    const { phase } = this.state;
    const words = progressWords(this.state);
    const isNear = !this.page.list.following || this.isPast;
    $('older').hidden = !words || !(isNear || phase === 'partial' || phase === 'error') || (phase === 'end' && this.page.list.root.scrollTop > NEAR_PX);
    if ($('older-words').textContent !== words) $('older-words').textContent = words;
    $('older-stop').hidden = phase !== 'loading';
    $('older-more').hidden = !['partial', 'stopped', 'error'].includes(phase);
    if (status.tick && status.tick.now !== this.tickedAt) {
      this.tickedAt = status.tick.now;
      this.histogram.tick(status.tick.now, status.tick.by_level);
    }
    if (status.storeOk === false !== this.storeAway) {
      this.storeAway = status.storeOk === false;
      this.alarm();
    }
    this.facets.came(end + missed);
    this.find.later();
    this.fetchMore();
  }

  /** Older lines are fetched before the reader comes to the top; newer ones where a gap comes into view. */
  fetchMore() {
    const { list, tell } = this.page;
    const { end, first } = list.snapshot;
    const isShort = end > first && list.root.scrollHeight <= list.root.clientHeight + 40;
    const isNear = list.distanceToOldest < NEAR_PX;
    if (this.state.phase === 'idle' && this.openedAt && end > first && (isShort || (!list.following && isNear))) {
      this.state = { ...this.state, phase: 'asked' };
      tell('older');
    }
    if (list.following) return;
    for (const row of list.rows.values()) {
      if (row.item.kind === 'gap' && ['between', 'far'].includes(row.item.reason) && !row.item.loading && !row.item.error) list.handlers.load(row.item.key);
    }
  }

  onAround({ at, key, place, record, error, status }) {
    if (at !== this.place.get('at')) return;
    if (error) {
      this.page.notice(status === 404 ? 'The linked line is not kept any more, or not stored yet.' : `The linked line cannot be shown: ${error}`);
      return;
    }
    const shown = this.page.list.flip(place);
    this.page.list.goTo(key, shown);
    this.page.openDetail(record, { key, place: shown });
  }

  lookFor(text, step) {
    const { list } = this.page;
    this.page.tell('find', { text, step: list.isReversed ? -step : step, place: list.flip(list.focused?.place ?? list.edge) });
  }

  onFound({ n, of, key, place }) {
    this.find.found({ n, of });
    if (key !== undefined) this.page.list.goTo(key, this.page.list.flip(place));
  }

  /** A record was opened or closed by hand. */
  opened(record) { this.place.set({ at: `${record.timestamp}.${record.id}` }, { quiet: Boolean(this.place.get('at')) }); }
  closed() { if (this.place.get('at')) this.place.set({ at: '' }, { quiet: true }); }

  noMatch() { return noMatch(this.asked, { isPast: this.isPast, go: (values) => this.place.set(values) }); }

  // ---- what the reader does ----

  listen() {
    const { place } = this;
    const on = (name, action) => addEventListener(name, ({ detail }) => action(detail));
    on('wt-query-edit', ({ field, value, exclude: isOut }) => place.set({ q: (isOut ? exclude : include)(place.get('q'), field, value) }));
    on('wt-context', ({ record }) => openContext(record));
    on('wt-trace', ({ record }) => this.trace(record));
    on('wt-view', (names) => { if (names.includes('columns')) place.set({ columns: joinColumns(view.columns) }); });
    $('list').addEventListener('scroll', () => { this.fetchMore(); this.find.later(); }, { passive: true });
    $('range').addEventListener('click', () => this.chooseRange());
    $('zone').addEventListener('click', () => this.chooseZone());
    $('menu').addEventListener('click', () => this.menu());
    $('older-more').addEventListener('click', () => this.page.tell('older'));
    $('older-stop').addEventListener('click', () => this.page.tell('stop'));
    $('filter-toggle').addEventListener('click', () => this.facets.toggle());
  }

  chooseRange() { chooseRange({ from: this.place.get('from'), to: this.place.get('to') }, (range) => this.place.set(range)); }

  chooseZone() {
    const [local, ...others] = zones();
    const input = element('input');
    Object.assign(input, { type: 'text', value: getZone(), autocomplete: 'off', spellcheck: false });
    input.setAttribute('list', 'zones');
    const names = element('datalist', '', ...others.map((name) => Object.assign(element('option'), { value: name })));
    names.id = 'zones';
    const trouble = element('p', 'trouble');
    trouble.setAttribute('role', 'alert');
    const use = (name) => {
      if (!isZone(name)) { trouble.textContent = 'This browser knows no such zone.'; return; }
      sheet.close();
      this.place.set({ zone: name === local ? '' : name });
    };
    const form = element('form', '', element('label', 'field', element('span', '', 'Any zone'), input), names, element('button', 'primary', 'Use it'));
    form.addEventListener('submit', (event) => { event.preventDefault(); use(input.value.trim()); });
    const sheet = openSheet('Time zone', {}, element('div', 'choices', button(`Local · ${local}`, () => use(local)), button('UTC', () => use('UTC'))), form, trouble);
  }

  /** All lines of one trace, an hour around this one. */
  trace(record) {
    if (!record?.trace_id) { this.page.say('This line has no trace id.'); return; }
    const at = BigInt(record.timestamp);
    this.place.set({ q: `trace_id:${record.trace_id}`, from: String(at - HOUR_NS), to: String(at + HOUR_NS), at: `${record.timestamp}.${record.id}` });
  }

  shift(direction) { this.place.set(shifted(this.place.get('from'), this.place.get('to'), direction)); }

  async copyLink(record) {
    const link = frozenLink(record);
    const copied = await copy(link);
    this.page.say(copied ? 'Link copied' : 'Could not copy');
    if (!copied) this.page.notice(link);
  }

  toggleHistogram() {
    $('histogram').hidden = !$('histogram').hidden;
    this.histogram.draw();
  }

  goLive() { this.place.set({ from: '', to: '', at: '' }); }

  get actions() {
    const { page, place } = this;
    const withRecord = (use) => () => page.record(use);
    return [
      ['r', 'Time range', () => this.chooseRange()],
      ['h', 'Histogram', () => this.toggleHistogram()],
      ['f', 'Facets', () => this.facets.toggle()],
      ['s', 'Save view', () => this.views.open()],
      ['', 'Export', () => openExport(this.asked)],
      ['i', 'Status', () => openStatus(page.meta())],
      ['z', 'Time zone', () => this.chooseZone()],
      ['', 'Newest first', () => place.set({ order: place.get('order') ? '' : 'newest' })],
      ['Ctrl+F', 'Find in what is loaded', () => this.find.open()],
      ['c', 'Context of the line', withRecord((record) => openContext(record))],
      ['x', 'Same trace', withRecord((record) => this.trace(record))],
      ['y', 'Copy link', () => (page.list.focused ? page.record((record) => this.copyLink(record)) : this.copyLink())],
      ['[', 'Older range', () => this.shift(-1)],
      [']', 'Newer range', () => this.shift(1)],
    ];
  }

  /** Keys that are the search's. */
  get keys() {
    const own = this.actions.filter(([key]) => key.length === 1).map(([key, , action]) => [key, action]);
    const next = (step) => () => { if (this.find.text) this.lookFor(this.find.text, step); };
    return { ...Object.fromEntries(own), n: next(1), N: next(-1) };
  }

  menu() {
    const sheet = openSheet('Menu', { className: 'menu' }, element('div', 'choices', ...[...this.page.actions(), ...this.actions].map(([key, label, action]) => {
      const made = button('', () => { sheet.close(); action(); });
      made.append(label, ...(key ? [element('kbd', '', key)] : []));
      return made;
    })));
  }
}
