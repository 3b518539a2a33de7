// Saved views: a name and an address, kept in this browser. A pinned one stands as a chip in the bar.

import { copyButton } from './copy.js';
import { button, element, openSheet } from './dom.js';
import { load, save } from './store.js';

const MOST = 100;
const MAX_NAME = 100;
const MAX_URL = 8_000;

const isView = (view) => typeof view?.name === 'string' && typeof view.url === 'string' && /^\?|^$/.test(view.url) && view.url.length <= MAX_URL;

export class Views {
  /** `go(url)` goes to a saved address, `here()` answers the present one. */
  constructor(pins, { go, here }) {
    Object.assign(this, { pins, go, here });
    this.all = load('views', []).filter(isView);
    this.show();
  }

  offers() { return this.all.map((view) => ({ name: view.name, open: () => this.go(view.url) })); }

  keep() {
    this.all = this.all.slice(0, MOST);
    const kept = save('views', this.all);
    this.show();
    return kept;
  }

  show() {
    const pinned = this.all.filter((view) => view.pinned);
    this.pins.hidden = pinned.length === 0;
    this.pins.replaceChildren(...pinned.map((view) => button(view.name, () => this.go(view.url))));
  }

  put(view) {
    this.all = [view, ...this.all.filter((other) => other.name !== view.name)];
    return this.keep();
  }

  open() {
    const name = element('input');
    Object.assign(name, { type: 'text', required: true, maxLength: MAX_NAME, placeholder: 'Name of this view', autocomplete: 'off' });
    name.setAttribute('aria-label', 'Name of this view');
    const trouble = element('p', 'trouble');
    trouble.setAttribute('role', 'status');
    const form = element('form', 'inline', name, element('button', 'primary', 'Save'));
    const list = element('ul', 'views');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const isNew = !this.all.some((view) => view.name === name.value.trim());
      if (isNew && this.all.length >= MOST) trouble.textContent = `There are ${MOST} views already.`;
      else trouble.textContent = this.put({ name: name.value.trim(), url: this.here(), pinned: false }) ? 'Saved.' : 'This browser keeps nothing for this page.';
      this.list(list, () => sheet.close());
    });
    const text = element('textarea');
    text.rows = 4;
    text.setAttribute('aria-label', 'Views as JSON');
    const out = copyButton('Copy all', () => JSON.stringify({ watchtower_views: 1, views: this.all }, null, 1));
    const bring = button('Import', () => { trouble.textContent = this.bring(text.value); this.list(list, () => sheet.close()); });
    const exchange = element('details', '', element('summary', '', 'Import and export'), text, element('div', 'choices', bring, out));
    exchange.addEventListener('toggle', () => { text.value = JSON.stringify({ watchtower_views: 1, views: this.all }, null, 1); });
    const sheet = openSheet('Views', {}, form, trouble, list, exchange);
    this.list(list, () => sheet.close());
    name.focus();
  }

  list(root, close) {
    root.replaceChildren(...this.all.map((view) => {
      const pin = button('Pin', () => { view.pinned = !view.pinned; this.keep(); this.list(root, close); });
      pin.setAttribute('aria-pressed', String(Boolean(view.pinned)));
      const go = button(view.name, () => { close(); this.go(view.url); }, 'name');
      go.title = view.url;
      return element('li', '', go, pin, button('Delete', () => { this.all = this.all.filter((other) => other !== view); this.keep(); this.list(root, close); }));
    }));
  }

  bring(text) {
    try {
      const views = JSON.parse(text).views.filter(isView).map(({ name, url, pinned }) => ({ name: name.slice(0, MAX_NAME), url, pinned: Boolean(pinned) }));
      for (const view of views.toReversed()) this.put(view);
      return `${views.length} views imported.`;
    } catch {
      return 'This is not a list of views.';
    }
  }
}
