// The query and its shorthands: four controls, kept in the page's URL under the names that the API has for them.

const NAMES = ['q', 'min_level', 'service', 'environment'];
const TYPING_MS = 300;

export class Filters {
  constructor(form, clear, changed) {
    this.form = form;
    this.clearButton = clear;
    this.changed = changed;
    this.typing = null;
    form.addEventListener('submit', (event) => { event.preventDefault(); this.apply(); });
    form.addEventListener('input', () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.apply(), TYPING_MS);
    });
    clear.addEventListener('click', () => this.set({ q: '', min_level: '', service: '', environment: '' }));
    addEventListener('popstate', () => { this.read(); this.changed(); });
    this.read();
  }

  field(name) { return this.form.elements[name]; }

  /** The controls show what the URL says. */
  read() {
    const url = new URLSearchParams(location.search);
    for (const name of NAMES) this.field(name).value = url.get(name) ?? '';
    this.mark();
  }

  /** The parameters that are set. */
  get params() {
    const params = new URLSearchParams();
    for (const name of NAMES) {
      const value = name === 'q' ? this.field(name).value : this.field(name).value.trim();
      if (value) params.set(name, value);
    }
    return params;
  }

  get isActive() { return this.params.size > 0 || this.params.toString() !== ''; }

  set(values) {
    for (const [name, value] of Object.entries(values)) this.field(name).value = value;
    this.apply();
  }

  apply() {
    clearTimeout(this.typing);
    this.mark();
    const params = this.params.toString();
    if (params === new URLSearchParams(location.search).toString()) return;
    history.pushState(null, '', params ? `?${params}` : location.pathname);
    this.changed();
  }

  mark() {
    this.clearButton.hidden = !this.isActive;
    for (const name of NAMES) this.field(name).classList.toggle('set', this.field(name).value !== '');
  }

  /** Offers the names that were seen. */
  offer(list, names) {
    list.replaceChildren(...names.map((name) => {
      const option = document.createElement('option');
      option.value = name;
      return option;
    }));
  }
}
