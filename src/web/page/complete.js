// Completion in the query's box: fields, values of the field at the caret, recent queries and saved views.
// It only offers; a choice is made by Tab, by Enter on a marked one, or by a click.

import { ask, element } from './dom.js';
import { quote, quoteValue } from './query-text.js';

const PAUSE_MS = 120;
const MOST = 12;
const OPERATORS = ['AND', 'OR', 'NOT'];

/** The word at the caret: `{start, key, prefix}`, where a key says that a value is being written. */
export function wordAt(text, caret) {
  const before = text.slice(0, caret);
  const start = /[^\s(]*$/.exec(before).index;
  const word = before.slice(start);
  const value = /^-?([A-Za-z_][\w.\-/]*):(.*)$/.exec(word);
  if (value) return { start: caret - value[2].length, key: value[1], prefix: value[2].replace(/^"/, '') };
  const group = /(?:^|\s)-?([A-Za-z_][\w.\-/]*):\([^)]*$/.exec(before);
  if (group) return { start, key: group[1], prefix: word.replace(/^"/, '') };
  const not = word.startsWith('-') ? 1 : 0;
  return { start: start + not, key: '', prefix: word.slice(not) };
}

export class Completion {
  constructor(text, list, { scope, recent, views, changed }) {
    Object.assign(this, { text, list, scope, recent, views, changed });
    this.offers = [];
    this.marked = -1;
    this.timer = null;
    text.addEventListener('input', () => this.later());
    text.addEventListener('focus', () => this.later());
    text.addEventListener('blur', () => this.close());
    // A click on an offer must not take the focus from the box before it counts.
    list.addEventListener('mousedown', (event) => event.preventDefault());
    list.addEventListener('click', (event) => {
      const index = [...list.children].indexOf(event.target.closest('[role=option]'));
      if (index >= 0) this.choose(index);
    });
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.find(), PAUSE_MS);
  }

  async find() {
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const { value, selectionStart: caret } = this.text;
    if (document.activeElement !== this.text) return;
    if (value.trim() === '') {
      const views = this.views().map((view) => ({ label: view.name, about: 'view', apply: () => view.open() }));
      const recent = this.recent().map((query) => ({ label: query, about: 'recent', whole: query }));
      this.offer([...views, ...recent].slice(0, MOST));
      return;
    }
    const at = wordAt(value, caret);
    if (!at.key && !at.prefix) { this.offer([]); return; }
    try {
      const offers = await (at.key ? this.values(at, signal) : this.fields(at, signal));
      if (!signal.aborted && this.text.value === value) this.offer(offers.slice(0, MOST));
    } catch {
      // A box that cannot complete is still a box.
      if (!signal.aborted) this.offer([]);
    }
  }

  async fields(at, signal) {
    const params = new URLSearchParams({ prefix: at.prefix, limit: MOST });
    const { fields } = await ask('api/fields', { params, signal, ms: 2_000 });
    const operators = OPERATORS.filter((name) => name.startsWith(at.prefix) && name !== at.prefix)
      .map((name) => ({ label: name, about: 'operator', start: at.start, insert: `${name} ` }));
    return [...operators, ...fields.map(({ name, kind }) => ({ label: name, about: kind, start: at.start, insert: `${/^[A-Za-z_][\w.\-/]*$/.test(name) ? name : quote(name)}:` }))];
  }

  async values(at, signal) {
    if (['message', 'id', 'trace_id', 'span_id'].includes(at.key)) return [];
    const params = this.scope();
    params.set('prefix', at.prefix);
    params.set('limit', MOST);
    const { values } = await ask(`api/fields/${encodeURIComponent(at.key)}/values`, { params, signal, ms: 2_000 });
    return values.filter(({ value }) => value !== at.prefix)
      .map(({ value, count }) => ({ label: value, about: String(count), start: at.start, insert: `${quoteValue(value)} ` }));
  }

  offer(offers) {
    this.offers = offers;
    this.marked = -1;
    this.list.hidden = offers.length === 0;
    this.text.setAttribute('aria-expanded', String(offers.length > 0));
    this.text.removeAttribute('aria-activedescendant');
    this.list.replaceChildren(...offers.map((offer, index) => {
      const option = element('li', '', element('span', 'label', offer.label), element('span', 'about', offer.about));
      option.setAttribute('role', 'option');
      option.setAttribute('aria-selected', 'false');
      option.id = `offer-${index}`;
      return option;
    }));
  }

  close() {
    clearTimeout(this.timer);
    this.abort?.abort();
    if (this.offers.length) this.offer([]);
  }

  mark(index) {
    this.marked = (index + this.offers.length) % this.offers.length;
    [...this.list.children].forEach((option, i) => option.setAttribute('aria-selected', String(i === this.marked)));
    this.list.children[this.marked].scrollIntoView({ block: 'nearest' });
    this.text.setAttribute('aria-activedescendant', `offer-${this.marked}`);
  }

  choose(index) {
    const offer = this.offers[index];
    this.close();
    if (offer.apply) { offer.apply(); return; }
    if (offer.whole !== undefined) {
      this.text.value = offer.whole;
    } else {
      const caret = this.text.selectionStart;
      this.text.setRangeText(offer.insert, offer.start, caret, 'end');
      if (!offer.insert.endsWith(' ')) this.later();
    }
    this.changed();
  }

  /** Whether a key was meant for the offers. */
  key(event) {
    if (this.offers.length === 0) return false;
    const actions = {
      // With nothing written, ↑ goes to the recent queries, which are what is offered.
      ArrowDown: () => { this.mark(this.marked + 1); return true; },
      ArrowUp: () => { if (this.marked < 0) return false; this.mark(this.marked - 1); return true; },
      Tab: () => { if (event.shiftKey || (this.marked < 0 && !this.text.value.trim())) return false; this.choose(Math.max(0, this.marked)); return true; },
      Enter: () => { if (this.marked < 0 || event.shiftKey) return false; this.choose(this.marked); return true; },
      Escape: () => { this.close(); return true; },
    };
    if (!actions[event.key]?.()) return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }
}
