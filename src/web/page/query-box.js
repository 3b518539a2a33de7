// The query's box: plain text, with chips drawn behind it by an element that has the same text.

import { Completion } from './complete.js';
import { element } from './dom.js';
import { pieces } from './query-text.js';
import { load, save } from './store.js';

const MAX_RECENT = 50;

export class QueryBox {
  /** `run(text)` is called with a query to run; `scope()` answers parameters of the present range. */
  constructor({ form, text, mirror, clear, list }, { run, scope, views }) {
    Object.assign(this, { text, mirror, clear, run });
    this.applied = '';
    if (matchMedia('(max-width: 600px)').matches) text.placeholder = 'Search';
    this.recent = load('queries', []);
    /** Place in the recent queries; 0 is what is being written. */
    this.back = 0;
    this.draft = '';
    this.completion = new Completion(text, list, { scope, recent: () => this.recent, views, changed: () => this.draw() });
    form.addEventListener('submit', (event) => { event.preventDefault(); this.apply(); });
    text.addEventListener('input', () => { this.back = 0; this.draw(); });
    text.addEventListener('scroll', () => { mirror.scrollTop = text.scrollTop; mirror.scrollLeft = text.scrollLeft; });
    text.addEventListener('keydown', (event) => this.key(event));
    clear.addEventListener('click', () => { text.value = ''; this.apply(); text.focus(); });
    new ResizeObserver(() => this.draw()).observe(text.parentElement);
  }

  /** Shows a query that is run already. */
  show(query) {
    this.applied = query;
    this.text.value = query;
    this.draw();
  }

  apply() {
    const query = this.text.value.trim();
    this.completion.close();
    if (query) {
      this.recent = [query, ...this.recent.filter((other) => other !== query)].slice(0, MAX_RECENT);
      save('queries', this.recent);
    }
    this.back = 0;
    this.run(query);
    this.show(query);
  }

  key(event) {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.completion.key(event)) return;
    const isFirstLine = !this.text.value.slice(0, this.text.selectionStart).includes('\n');
    const actions = {
      Enter: () => { if (event.shiftKey) return false; this.apply(); return true; },
      Escape: () => { this.show(this.applied); document.getElementById('list').focus(); return true; },
      ArrowUp: () => isFirstLine && this.recall(1),
      ArrowDown: () => this.back > 0 && this.recall(-1),
    };
    if (actions[event.key]?.()) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  recall(step) {
    const next = this.back + step;
    if (next < 0 || next > this.recent.length) return false;
    if (this.back === 0) this.draft = this.text.value;
    this.back = next;
    this.text.value = next === 0 ? this.draft : this.recent[next - 1];
    this.completion.close();
    this.draw();
    return true;
  }

  draw() {
    const { value } = this.text;
    const parts = [];
    let at = 0;
    for (const piece of pieces(value)) {
      parts.push(value.slice(at, piece.start), element('span', `piece is-${piece.kind}${piece.not ? ' is-not' : ''}`, value.slice(piece.start, piece.end)));
      at = piece.end;
    }
    // A last line break has no height without something behind it.
    this.mirror.replaceChildren(...parts, `${value.slice(at)}\u200b`);
    this.clear.hidden = value === '';
    this.text.classList.toggle('edited', value.trim() !== this.applied);
    // Empty, it has the height of one line, whatever the placeholder would take.
    this.text.style.height = '';
    if (value) this.text.style.height = `${Math.min(this.text.scrollHeight + 2, 160)}px`;
  }
}
