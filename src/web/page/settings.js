// What a reader sets once for this browser: how dense and how coloured the list is, how JSON is shown, where
// an open line stands, and what is read aloud.

import { element, openSheet } from './dom.js';
import { load, save } from './store.js';

/** Name, words, and the choices, the first of which is meant unless another was chosen. */
const ALL = [
  ['density', 'Rows', [['compact', 'Compact'], ['comfortable', 'Comfortable']]],
  ['tint', 'Colour behind warnings and errors', [['none', 'None'], ['light', 'Light'], ['strong', 'Strong']]],
  ['detail', 'An open line stands', [['under', 'Under its row'], ['beside', 'Beside the list, from 1280 px']]],
  ['listJson', 'JSON in the list, expanded', [['sent', 'As sent'], ['pretty', 'On many lines']]],
  ['detailJson', 'JSON in an open line', [['pretty', 'As a tree'], ['sent', 'As sent']]],
  ['hours', 'Clock', [['24', '24 hours'], ['12', '12 hours']]],
  ['aloud', 'Read errors aloud, in a screen reader', [['off', 'No'], ['on', 'Yes, one sentence in 5 s']]],
];

const kept = load('settings', {});
export const settings = Object.fromEntries(ALL.map(([name, , choices]) => [name, choices.some(([value]) => value === kept[name]) ? kept[name] : choices[0][0]]));

/** Changes a setting; whoever shows it hears of it by the event `wt-settings`. */
export function set(name, value) {
  settings[name] = value;
  save('settings', settings);
  dispatchEvent(new CustomEvent('wt-settings'));
}

export function openSettings() {
  const groups = ALL.map(([name, words, choices]) => element('fieldset', 'setting', element('legend', '', words), ...choices.map(([value, label]) => {
    const input = element('input');
    Object.assign(input, { type: 'radio', name, value, checked: settings[name] === value });
    input.addEventListener('change', () => set(name, value));
    return element('label', '', input, label);
  })));
  return openSheet('Settings', {}, element('div', 'settings', ...groups), element('p', 'hint', 'These hold for this browser.'));
}
