// Names and values of an open record. Each value can go into the query, become a column or be copied.

import { copyButton } from './copy.js';
import { button, element } from './dom.js';
import { show } from './text.js';
import { change, view } from './view.js';
import { count } from './words.js';

/** So many at first, and with each click: a record may have thousands. */
const AT_ONCE = 100;
/** So many names that begin alike fold together. */
const GROUP = 3;

/** Asks whoever keeps the query to include a value, or exclude it. */
function edit(field, value, exclude) {
  dispatchEvent(new CustomEvent('wt-query-edit', { detail: { field, value, exclude } }));
}

export function toggleColumn(name) {
  const has = view.columns.includes(name);
  change({ columns: has ? view.columns.filter((other) => other !== name) : [...view.columns, name] });
}

function tool(sign, label, action) {
  const made = button(sign, action, 'tool');
  made.title = label;
  made.setAttribute('aria-label', label);
  return made;
}

function tools(name, field, value, shown) {
  const copyTool = copyButton('copy', () => value, shown);
  copyTool.className = 'tool';
  copyTool.setAttribute('aria-label', `Copy ${name}`);
  if (!field) return element('span', 'tools', copyTool);
  return element('span', 'tools',
    tool('only', `Only this ${name}`, () => edit(field, value, false)),
    tool('not', `Not this ${name}`, () => edit(field, value, true)),
    tool('column', `${name} as a column`, () => toggleColumn(field.replace(/^(attributes|resource)\./, ''))),
    copyTool);
}

/** One row: a name and its value; with a `field` of the query it can go there. */
export function entry(name, value, field, before) {
  const key = element('th');
  key.scope = 'row';
  // What a name shares with the one above stands back.
  const dots = name.lastIndexOf('.') + 1;
  const isShared = dots > 0 && before?.startsWith(name.slice(0, dots));
  const [head, tail] = [element('span', 'shared'), element('span')];
  show(head, isShared ? name.slice(0, dots) : '');
  show(tail, isShared ? name.slice(dots) : name);
  key.append(head, tail);
  const shown = element('span', 'value');
  const text = String(value);
  show(shown, text, { found: true, links: true });
  return element('tr', '', key, element('td', '', shown, ' ', tools(name, field, text, shown)));
}

const groupOf = (name) => name.slice(0, Math.max(0, name.indexOf('.')));

/** Names that begin alike, under a row that folds them. */
function group(name, size) {
  const body = element('tbody');
  const fold = button('', () => {
    const isOpen = fold.getAttribute('aria-expanded') === 'true';
    fold.setAttribute('aria-expanded', String(!isOpen));
    body.classList.toggle('folded', isOpen);
  }, 'fold-group');
  fold.setAttribute('aria-expanded', 'true');
  show(fold, `${name} · ${count(size)}`);
  const head = element('th', '', fold);
  head.colSpan = 2;
  body.append(element('tr', 'group', head));
  return body;
}

/** A folding table of a map, sorted, with a field that narrows it. */
export function map(title, values, prefix, isFolded) {
  const names = Object.keys(values ?? {}).sort();
  if (names.length === 0) return [];
  const table = element('table');
  const more = button('', () => fill(AT_ONCE));
  let left;
  let last;
  let body;
  let sizes;
  const begin = (all) => {
    left = all;
    last = '';
    body = null;
    sizes = new Map();
    for (const name of all) sizes.set(groupOf(name), (sizes.get(groupOf(name)) ?? 0) + 1);
    table.replaceChildren();
  };
  const isGroup = (name) => name !== '' && sizes.get(name) >= GROUP;
  function fill(most) {
    for (const name of left.slice(0, most)) {
      const mine = groupOf(name);
      if (!body || (mine !== groupOf(last) && (isGroup(mine) || isGroup(groupOf(last))))) {
        body = isGroup(mine) ? group(mine, sizes.get(mine)) : element('tbody');
        table.append(body);
      }
      body.append(entry(name, values[name], `${prefix}.${name}`, isGroup(mine) ? `${mine}.` : last));
      last = name;
    }
    left = left.slice(most);
    more.hidden = left.length === 0;
    more.textContent = `Show ${count(Math.min(AT_ONCE, left.length))} of ${count(left.length)} more`;
  }
  const filter = element('input', 'narrow-map');
  Object.assign(filter, { type: 'search', placeholder: 'Narrow', hidden: names.length < 10 });
  filter.setAttribute('aria-label', `Narrow ${title}`);
  filter.addEventListener('input', () => {
    const text = filter.value.toLowerCase();
    begin(names.filter((name) => name.toLowerCase().includes(text) || String(values[name]).toLowerCase().includes(text)));
    fill(AT_ONCE);
  });
  begin(names);
  fill(AT_ONCE);
  const box = element('details', '', element('summary', '', `${title} · ${count(names.length)}`), filter, table, more);
  box.open = !isFolded;
  return [box];
}
