// No line matches: which single filter stands in the way, when there was one last, and a wider range.

import { ask, button, element } from './dom.js';
import { withoutOne } from './query-text.js';
import { show } from './text.js';
import { stamp } from './time.js';
import { count } from './words.js';

const MOST = 6;
/** While nothing stands in the way yet, lines may come that make it so. */
const AGAIN_MS = 2_000;
const SELDOM_MS = 60_000;

async function counted(q, { from, to }) {
  const params = new URLSearchParams({ q, buckets: '10', ...(from && { from }), ...(to && { to }) });
  const { buckets, complete } = await ask('api/logs/histogram', { params });
  return { complete, n: buckets.reduce((sum, { levels }) => sum + Object.values(levels).reduce((a, b) => a + b, 0), 0) };
}

/** `search` is `{q, from, to}`; `go(values)` changes the place. */
export function noMatch(search, { isPast, go }) {
  const last = element('p', 'hint');
  const list = element('ul', 'drops');
  const actions = element('div', 'choices');
  if (search.from || search.to) actions.append(button('Search all time', () => go({ from: '', to: '' })));
  if (search.q) actions.append(button('Clear the filter', () => go({ q: '' })));
  const box = element('div', 'steps', element('h2', '', 'No line matches'),
    element('p', 'hint', isPast ? 'Nothing in this range.' : 'New lines that match appear here as they come.'), last, list, actions);
  const quietly = (promise) => promise.catch(() => {});
  if (search.q) {
    quietly(ask('api/logs', { params: new URLSearchParams({ q: search.q, limit: '1' }) }).then(({ records: [record], complete }) => {
      last.textContent = record ? `The last line that matches is of ${stamp(record.timestamp)}.` : complete ? 'No line that is kept matches.' : '';
    }));
  }
  const parts = withoutOne(search.q).slice(0, MOST);
  const look = async (wait) => {
    await Promise.all(parts.map(({ dropped, rest }) => quietly(counted(rest, search).then(({ n, complete }) => {
      if (n === 0 && complete) return;
      const code = element('code');
      show(code, dropped);
      const item = element('li', '', `${complete ? count(n) : 'Some'} without `, code, ' ', button('Drop it', () => go({ q: rest })));
      list.append(item);
    }))));
    if (isPast || list.children.length > 0) return;
    setTimeout(() => { if (box.isConnected) look(Math.min(2 * wait, SELDOM_MS)); }, wait);
  };
  if (parts.length > 0) look(AGAIN_MS);
  return box;
}
