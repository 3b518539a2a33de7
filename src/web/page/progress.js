// How far back the search has come, in words.

import { stamp } from './typed-time.js';
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
