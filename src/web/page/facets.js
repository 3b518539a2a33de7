// Facets: the most common values of a few fields, each a click away from being a filter.
//
// A field's own filter does not count for its values, or there would be nothing left to add. They are
// fetched when they are shown, and a field that takes too long says so and keeps nobody waiting.
//
// Lines are in the list a little before the store has them. So while new lines can come, the values are
// fetched anew: soon where there are none yet, now and then where there are. Values change in place, and
// keep their order under a pointer or the focus, so that nobody hits another than was meant.

import { ask, button, element } from './dom.js';
import { chosen, exclude, include, only, without } from './query-text.js';
import { load, save } from './store.js';
import { show } from './text.js';
import { count } from './words.js';

const FIELDS = ['level', 'service', 'environment', 'host.name'];
const BUDGET_MS = 2_000;
const MOST = 10;
const LOOK_MS = 250;
/** The first values may lack the newest lines, or all. */
const SOON_MS = 1_500;
const ANEW_MS = 10_000;
/** The store has a line at the latest so long after the list. */
const SETTLED_MS = 3_000;

export class Facets {
  /** `search()` answers `{q, from, to}`; `edit(text)` runs another query. */
  constructor(root, { search, edit }) {
    Object.assign(this, { root, search, edit, pinned: load('pins', []), sections: [], lines: 0, cameAt: 0 });
    setInterval(() => { if (this.isDue()) this.update(); }, LOOK_MS);
  }

  get isOpen() { return !this.root.hidden; }

  toggle(on = !this.isOpen) {
    this.root.hidden = !on;
    document.getElementById('stage').classList.toggle('with-facets', on);
    if (on) {
      this.refresh();
      this.root.querySelector('button').focus();
    } else {
      document.getElementById('list').focus();
    }
  }

  /** Another search, or another choice of fields: begins anew, if they are in view. */
  refresh() {
    if (!this.isOpen) return;
    this.abort?.abort();
    this.abort = new AbortController();
    const focused = this.root.contains(document.activeElement) && document.activeElement.dataset.value;
    const head = element('div', 'head', element('h2', '', 'Facets'), button('Close', () => this.toggle(false)));
    this.sections = [...FIELDS, ...this.pinned].map((field) => this.section(field));
    this.root.replaceChildren(head, ...this.sections.map(({ box }) => box), this.pinForm());
    if (focused) head.querySelector('button').focus();
    this.wait = SOON_MS;
    this.update({ focused, isFirst: true });
  }

  /** The list has so many lines now, of which some may be new. */
  came(lines) {
    if (lines === this.lines) return;
    this.lines = lines;
    this.cameAt = performance.now();
  }

  isDue() {
    if (!this.isOpen || document.hidden || this.isBusy || this.search().to) return false;
    const isBehind = this.cameAt > this.askedAt - SETTLED_MS || (this.lines > 0 && this.isEmpty);
    return isBehind && performance.now() - this.askedAt >= this.wait;
  }

  get isEmpty() { return this.sections.every(({ list }) => !list.querySelector('.value')); }

  /** Fetches all values; those that are shown stay until then. */
  async update({ focused, isFirst = false } = {}) {
    const { abort } = this;
    this.askedAt = performance.now();
    this.isBusy = true;
    await Promise.all(this.sections.map((section) => this.fill(section, focused)));
    if (abort !== this.abort) return;
    this.isBusy = false;
    if (isFirst) return;
    this.wait = this.isEmpty ? Math.min(2 * this.wait, ANEW_MS) : ANEW_MS;
  }

  section(field) {
    const list = element('ul');
    const head = element('h3');
    show(head, field === 'host.name' ? 'host' : field);
    const box = element('section', 'facet', head, list);
    box.setAttribute('aria-busy', 'true');
    if (this.pinned.includes(field)) head.append(button('×', () => this.pin(field), 'unpin'));
    return { field, box, list, rows: new Map() };
  }

  async fill(section, focused) {
    const { field, box, list } = section;
    const { signal } = this.abort;
    const { q, from, to } = this.search();
    const params = new URLSearchParams({ q: without(q, field), limit: String(MOST) });
    if (from) params.set('from', from);
    if (to) params.set('to', to);
    let answer;
    let about = '';
    try {
      answer = await ask(`api/fields/${encodeURIComponent(field)}/values`, { params, signal, ms: BUDGET_MS });
      if (!answer.values.some(({ value }) => value !== '')) about = 'none';
    } catch (error) {
      if (signal.aborted) return;
      about = error.name === 'TimeoutError' ? 'took too long' : error.message;
    }
    box.setAttribute('aria-busy', 'false');
    // What is shown is better than nothing.
    if (!answer && section.rows.size > 0) return;
    this.put(section, answer?.values ?? [], answer?.approximate);
    list.querySelector('.about')?.remove();
    if (about) list.append(element('li', 'about', about));
    if (focused) [...list.querySelectorAll('button')].find((made) => made.dataset.value === focused)?.focus();
  }

  /** Shows these values, in the elements that are there already for them. */
  put({ field, list, rows }, answered, isApproximate) {
    const { included, excluded } = chosen(this.search().q, field);
    const values = answered.filter(({ value }) => value !== '');
    const hasFocus = list.contains(document.activeElement);
    const focused = hasFocus && [...rows].find(([, row]) => row.contains(document.activeElement))?.[0];
    // What was chosen stays, so that it can be taken back.
    for (const value of [...included, ...excluded, ...(focused ? [focused] : [])]) {
      if (!values.some((one) => one.value === value)) values.push({ value, count: 0 });
    }
    if (hasFocus || list.matches(':hover')) {
      const order = [...rows.keys()];
      const at = ({ value }) => (rows.has(value) ? order.indexOf(value) : order.length);
      values.sort((a, b) => at(a) - at(b));
    }
    for (const [value, row] of rows) {
      if (values.some((one) => one.value === value)) continue;
      row.remove();
      rows.delete(value);
    }
    for (const [i, { value, count: n }] of values.entries()) {
      const row = rows.get(value) ?? this.row(field, value);
      rows.delete(value);
      rows.set(value, row);
      const [main, not] = row.children;
      const text = `${isApproximate ? '≈' : ''}${count(n)}`;
      if (main.lastChild.textContent !== text) main.lastChild.textContent = text;
      main.setAttribute('aria-pressed', String(included.includes(value)));
      main.classList.toggle('out', excluded.includes(value));
      not.setAttribute('aria-pressed', String(excluded.includes(value)));
      if (list.children[i] !== row) list.insertBefore(row, list.children[i] ?? null);
    }
  }

  row(field, value) {
    const edit = (how) => this.edit(how(this.search().q, field, value));
    const label = element('span', 'label');
    show(label, value);
    const main = button('', (event) => edit(event.altKey ? exclude : include), 'value');
    main.append(label, element('span', 'count'));
    main.dataset.value = `${field}=${value}`;
    main.title = 'Click to ask for it, Alt+click to exclude it';
    const not = button('−', () => edit(exclude), 'not');
    not.setAttribute('aria-label', `Exclude ${value}`);
    const one = button('only', () => edit(only), 'one');
    one.setAttribute('aria-label', `Only ${value}`);
    return element('li', '', main, not, one);
  }

  pinForm() {
    const input = element('input');
    Object.assign(input, { type: 'text', placeholder: 'Another field', autocomplete: 'off', spellcheck: false });
    input.setAttribute('aria-label', 'Another field');
    const form = element('form', 'pin', input, element('button', '', 'Pin'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const field = input.value.trim();
      if (field && !FIELDS.includes(field) && !this.pinned.includes(field)) this.pin(field);
    });
    return form;
  }

  pin(field) {
    this.pinned = this.pinned.includes(field) ? this.pinned.filter((one) => one !== field) : [...this.pinned, field].slice(-20);
    save('pins', this.pinned);
    this.refresh();
  }
}
