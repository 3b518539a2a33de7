// Which attributes have columns of their own, as buttons that take them away.

import { button } from './dom.js';
import { show } from './text.js';
import { toggleColumn } from './values.js';
import { view } from './view.js';

/** Keeps the buttons in an element up to date. */
export function showColumns(box) {
  const fill = () => box.replaceChildren(...view.columns.map((name) => {
    const made = button('', () => toggleColumn(name), 'chip');
    show(made, `${name} ×`);
    made.title = 'Take this column away';
    return made;
  }));
  addEventListener('wt-view', ({ detail }) => { if (detail.includes('columns')) fill(); });
  fill();
}
