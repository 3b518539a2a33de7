// Find in what is loaded, also in lines that have no element: the worker looks, the list goes there.

import { button, element } from './dom.js';

const MARK_MS = 100;
const MAX_RANGES = 2_000;

function named(sign, label, action) {
  const made = button(sign, action);
  made.setAttribute('aria-label', label);
  made.title = label;
  return made;
}

export class Find {
  /** `look(text, step)` asks the worker, `everywhere(text)` makes it the query. */
  constructor(bar, root, { look, everywhere }) {
    Object.assign(this, { bar, root, look, everywhere, text: '' });
    this.input = element('input');
    Object.assign(this.input, { type: 'text', autocomplete: 'off', spellcheck: false });
    this.input.setAttribute('aria-label', 'Find in what is loaded');
    this.says = element('span', 'says');
    this.says.setAttribute('role', 'status');
    bar.replaceChildren(this.input, this.says, named('↑', 'Previous', () => this.go(-1)), named('↓', 'Next', () => this.go(1)),
      button('Search all', () => { const text = this.input.value; this.close(); everywhere(text); }), button('Close', () => this.close()));
    this.input.addEventListener('input', () => this.go(0));
    this.input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.go(event.shiftKey ? -1 : 1);
      else if (event.key === 'Escape') this.close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    // Over a page that finds by itself, the browser's own find comes with the second press.
    addEventListener('keydown', (event) => {
      const isFind = (event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 'f';
      if (!isFind || document.activeElement === this.input || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      this.open();
    });
  }

  open() {
    this.bar.hidden = false;
    const selected = String(getSelection());
    if (selected && !selected.includes('\n')) this.input.value = selected;
    this.input.focus();
    this.input.select();
    if (this.input.value) this.go(0);
  }

  close() {
    this.bar.hidden = true;
    this.set('');
    document.getElementById('list').focus();
  }

  go(step) {
    const text = this.input.value;
    this.set(text);
    if (text) this.look(text, step);
    else this.says.textContent = '';
  }

  found({ n, of }) { this.says.textContent = of ? `${n} of ${of}` : 'none loaded'; }

  set(text) {
    this.text = text;
    this.later();
  }

  /** Rows have changed: marks are due, though not for every frame. */
  later() {
    if (!CSS.highlights || this.text === '' && !CSS.highlights.has('found')) return;
    this.timer ??= setTimeout(() => { this.timer = null; this.mark(); }, MARK_MS);
  }

  mark() {
    const ranges = [];
    if (this.text) for (const message of this.root.querySelectorAll('.row:not([hidden]) .message')) rangesIn(message, this.text, ranges);
    if (ranges.length) CSS.highlights.set('found', new Highlight(...ranges));
    else CSS.highlights.delete('found');
  }
}

function rangesIn(element, text, ranges) {
  const wanted = text.toLowerCase();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const low = node.data.toLowerCase();
    for (let at = low.indexOf(wanted); at >= 0 && ranges.length < MAX_RANGES; at = low.indexOf(wanted, at + wanted.length)) {
      // Lower case may be longer than the text itself.
      if (at + wanted.length > node.data.length) break;
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
}
