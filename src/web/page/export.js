// Export: all that the query finds, not what is loaded. The daemon makes the file; here stand its size and links.

import { ask, element, openSheet } from './dom.js';
import { bytes } from './figures.js';
import { count } from './words.js';
import { getZone } from './zone.js';

const LIMITS = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const SAMPLE = 200;

/** `search` is `{q, from, to}`, with times as the API takes them. */
export function openExport({ q, from, to }) {
  const limit = element('select');
  limit.setAttribute('aria-label', 'Most lines');
  limit.append(...LIMITS.map((n) => Object.assign(element('option', '', `up to ${count(n)} lines`), { value: String(n), selected: n === 100_000 })));
  const about = element('p', 'hint', 'Counting…');
  about.setAttribute('role', 'status');
  const links = ['ndjson', 'csv'].map((format) => Object.assign(element('a', 'primary', format === 'csv' ? 'CSV' : 'NDJSON'), { download: '' }));
  const params = (more) => {
    const all = new URLSearchParams({ ...(q && { q }), ...(from && { from }), ...(to && { to }), ...more });
    return all;
  };
  const show = () => links.forEach((link, i) => {
    link.href = `api/logs/export?${params({ format: i ? 'csv' : 'ndjson', limit: limit.value })}`;
  });
  limit.addEventListener('change', show);
  show();
  const abort = new AbortController();
  openSheet('Export', { closed: () => abort.abort() }, about, limit, element('div', 'choices', ...links),
    element('p', 'hint', `NDJSON can be sent again with POST /api/logs. Times in both are UTC; the page shows ${getZone()}.`));
  measure(params, abort.signal).then((text) => { about.textContent = text; });
  links[0].focus();
}

async function measure(params, signal) {
  try {
    const [counts, page] = await Promise.all([
      ask('api/logs/histogram', { params: params({ buckets: '60' }), signal }),
      ask('api/logs', { params: params({ limit: SAMPLE }), signal }),
    ]);
    if (!counts.complete) return 'Too many lines to count within the time of a search.';
    const n = counts.buckets.reduce((sum, { levels }) => sum + Object.values(levels).reduce((a, b) => a + b, 0), 0);
    const each = JSON.stringify(page.records).length / Math.max(1, page.records.length);
    return `${count(n)} lines, about ${bytes(n * each)} as NDJSON.`;
  } catch (error) {
    return signal.aborted ? '' : `Not counted: ${error.message}`;
  }
}
