// The worker's part of finding in what is loaded.

import { withoutEscapes } from './ansi.js';

/**
 * Finds a text in the ring's messages, whatever the case: how many lines have it (`of`), and the next one from
 * a place on in a direction, the `n`th. A `step` of 0 stays at the place where that has the text.
 */
export function look(ring, { text, step, place }) {
  const wanted = text.toLowerCase();
  const places = [];
  ring.items.forEach((item, i) => {
    if (item.record && withoutEscapes(item.record.message ?? '').toLowerCase().includes(wanted)) places.push(ring.first + i);
  });
  if (places.length === 0) return { n: 0, of: 0 };
  const later = places.findIndex((at) => (step > 0 ? at > place : at >= place));
  // Beyond either end it goes on at the other.
  let at = later < 0 ? places.length : later;
  if (step < 0) at -= 1;
  at = step === 0 ? Math.min(at, places.length - 1) : (at + places.length) % places.length;
  return { n: at + 1, of: places.length, place: places[at], key: ring.items[places[at] - ring.first].key };
}
