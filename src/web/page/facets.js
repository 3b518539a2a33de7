// Facets: the most common values of a few fields, each a click away from being a filter.
//
// A field's own filter does not count for its values, or there would be nothing left to add. They are
// fetched when they are shown, and a field that takes too long says so and keeps nobody waiting.

import { ask, button, element } from './dom.js';
import { chosen, exclude, include, only, without } from './query-text.js';
import { load, save } from './store.js';
import { show } from './text.js';
import { count } from './words.js';

const FIELDS = ['level', 'service', 'environment', 'host.name'];
const BUDGET_MS = 2_000;
const MOST = 10;

export class Facets {
  /** `search()` answers `{q, from, to}`; `edit(text)` runs another query. */
  constructor(root, { search, edit }) {
    Object.assign(this, { root, search, edit, pinned: load('pins', []) });
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

  /** Fetches all fields anew, if they are in view. */
  refresh() {
    if (!this.isOpen) return;
    this.abort?.abort();
    this.abort = new AbortController();
    const focused = this.root.contains(document.activeElement) && document.activeElement.dataset.value;
    const head = element('div', 'head', element('h2', '', 'Facets'), button('Close', () => this.toggle(false)));
    const sections = [...FIELDS, ...this.pinned].map((field) => this.section(field, focused));
    this.root.replaceChildren(head, ...sections, this.pinForm());
    if (focused) head.querySelector('button').focus();
  }

  section(field, focused) {
    const list = element('ul');
    const head = element('h3');
    show(head, field === 'host.name' ? 'host' : field);
    const box = element('section', 'facet', head, list);
    box.setAttribute('aria-busy', 'true');
    if (this.pinned.includes(field)) head.append(button('×', () => this.pin(field), 'unpin'));
    this.fill(field, list, focused).finally(() => box.setAttribute('aria-busy', 'false'));
    return box;
  }

  async fill(field, list, focused) {
    const { signal } = this.abort;
    const { q, from, to } = this.search();
    const params = new URLSearchParams({ q: without(q, field), limit: String(MOST) });
    if (from) params.set('from', from);
    if (to) params.set('to', to);
    const { included, excluded } = chosen(q, field);
    let values = [];
    let about = '';
    let isApproximate = false;
    try {
      const answer = await ask(`api/fields/${encodeURIComponent(field)}/values`, { params, signal, ms: BUDGET_MS });
      isApproximate = answer.approximate;
      values = answer.values.filter(({ value }) => value !== '');
      if (values.length === 0) about = 'none';
    } catch (error) {
      if (signal.aborted) return;
      about = error.name === 'TimeoutError' ? 'took too long' : error.message;
    }
    // What was chosen stays, so that it can be taken back.
    for (const value of [...included, ...excluded]) {
      if (!values.some((one) => one.value === value)) values.push({ value, count: 0 });
    }
    const rows = values.map((one) => this.row(field, one, { isApproximate, isIn: included.includes(one.value), isOut: excluded.includes(one.value) }));
    list.replaceChildren(...rows, ...(about ? [element('li', 'about', about)] : []));
    if (focused) [...list.querySelectorAll('button')].find((made) => made.dataset.value === focused)?.focus();
  }

  row(field, { value, count: n }, { isApproximate, isIn, isOut }) {
    const { q } = this.search();
    const label = element('span', 'label');
    show(label, value);
    const main = button('', (event) => this.edit((event.altKey ? exclude : include)(q, field, value)), 'value');
    main.append(label, element('span', 'count', `${isApproximate ? '≈' : ''}${count(n)}`));
    main.dataset.value = `${field}=${value}`;
    main.title = 'Click to ask for it, Alt+click to exclude it';
    main.setAttribute('aria-pressed', String(isIn));
    main.classList.toggle('out', isOut);
    const not = button('−', () => this.edit(exclude(q, field, value)), 'not');
    not.setAttribute('aria-label', `Exclude ${value}`);
    not.setAttribute('aria-pressed', String(isOut));
    const one = button('only', () => this.edit(only(q, field, value)), 'one');
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
