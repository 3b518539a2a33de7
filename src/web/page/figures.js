// Figures in words: how far back the search has come, sizes.

import { stamp } from './time.js';
import { count } from './words.js';

export function progressWords({ phase, found = 0, searchedTo, error }) {
  const back = searchedTo ? `searched back to ${stamp(searchedTo)} · ${count(found)} found` : `${count(found)} found`;
  return {
    loading: 'Searching older lines…',
    partial: back,
    stopped: `Stopped · ${back}`,
    error: `Older lines cannot be fetched: ${error}`,
    end: 'Nothing older',
  }[phase] ?? '';
}

/** A size, in the largest unit of which it has one. */
export function bytes(n) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  let size = n;
  while (size >= 1000 && unit < units.length - 1) { size /= 1000; unit += 1; }
  return `${count(Number(size.toFixed(size < 10 && unit > 0 ? 1 : 0)))} ${units[unit]}`;
}
