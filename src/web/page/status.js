// The daemon about itself: a sheet with its figures, and a line above the list for what is wrong.

import { ask, element, openSheet } from './dom.js';
import { bytes } from './figures.js';
import { count, many, refusedWords } from './words.js';

const EVERY_MS = 2_000;
const WATCH_MS = 15_000;
const OLD_MS = 60_000;

/** What is wrong, in words; nothing when all is well. */
export function troubles({ pipeline }) {
  const { store, spill, damaged } = pipeline;
  const found = [];
  if (!store.ok) found.push(`ClickHouse does not answer${store.error ? `: ${store.error}` : ''}. Logs wait in the queue, live goes on, search is off.`);
  if (spill?.reason) found.push(`Redis does not take logs (${spill.reason}); they wait on the disk.`);
  if (damaged.stretches) found.push(`Damage in the queue's files: ${count(damaged.records)} records lost.`);
  if (pipeline.dead) found.push(`${count(pipeline.dead)} records set aside as dead letters.`);
  if (store.ok && pipeline.queue_age_ms > OLD_MS) found.push(`The oldest record waits ${Math.round(pipeline.queue_age_ms / 1000)} s in the queue.`);
  return found;
}

const answers = (server) => (server?.latency_ms == null ? '' : `answers in ${count(Number(server.latency_ms.toFixed(1)))} ms`);
const joined = (...parts) => parts.filter(Boolean).join(' · ');

function storeWords(store) {
  const behind = store.lag_ms == null ? '' : `writes ${count(store.lag_ms)} ms behind`;
  return joined(store.ok ? 'up' : 'away', store.version, store.embedded && 'embedded', answers(store), behind, store.error);
}

function redisWords({ spill, redis }) {
  if (spill.reason) return joined('away', spill.reason, `${count(spill.records)} records, ${bytes(spill.bytes)} on the disk`);
  return joined(redis?.error ?? 'up', answers(redis));
}

const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

function figures(now, before, meta) {
  const { pipeline, live } = now.body;
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  const rate = (of) => (seconds ? ` (${count(Math.round((of(now.body.pipeline) - of(before.body.pipeline)) / seconds))}/s)` : '');
  const rows = [
    ['Accepted', Object.keys(pipeline.accepted).map((name) => `${name} ${count(pipeline.accepted[name])}${rate(({ accepted }) => accepted[name] ?? 0)}`).join(' · ')],
    ['Refused', joined(sum(pipeline.refused) ? `${many(sum(pipeline.refused), 'request')}: ${refusedWords(pipeline.refused_reasons)}` : 'none',
      sum(pipeline.rejected) > 0 && `${many(sum(pipeline.rejected), 'record')} of other requests (${Object.keys(pipeline.rejected).filter((name) => pipeline.rejected[name]).join(', ')})`), sum(pipeline.refused) + sum(pipeline.rejected) > 0],
    ['Queue', `${count(pipeline.queued)} records · ${bytes(pipeline.queue_bytes)} · oldest ${(pipeline.queue_age_ms / 1000).toFixed(1)} s`, pipeline.queue_age_ms > OLD_MS],
    ['Stored', joined(`${count(pipeline.stored)}${rate(({ stored }) => stored)}`, pipeline.store.bytes != null && `${bytes(pipeline.store.bytes)} on disk`, pipeline.store.dropped_records > 0 && `${count(pipeline.store.dropped_records)} old ones dropped`), pipeline.store.dropped_records > 0],
    ['Dead letters', count(pipeline.dead), pipeline.dead > 0],
    ['ClickHouse', storeWords(pipeline.store), !pipeline.store.ok],
  ];
  if (pipeline.spill) rows.push(['Redis', redisWords(pipeline), Boolean(pipeline.spill.reason ?? pipeline.redis?.error)]);
  if (pipeline.disk?.free_bytes != null) rows.push(['Disk free', bytes(pipeline.disk.free_bytes)]);
  rows.push(
    ['Damage', pipeline.damaged.stretches ? `${count(pipeline.damaged.stretches)} stretches, ${count(pipeline.damaged.records)} records` : 'none', pipeline.damaged.stretches > 0],
    ['Live', `${count(live.viewers)} viewers · ${count(live.filters)} filters · ${count(live.skipped)} skipped for viewers`],
    ['Up since', `${count(Math.round(pipeline.uptime_seconds / 60))} min`],
    ['Retention', meta ? `${count(meta.meta.retention_days)} days` : ''],
    ['Version', now.body.version],
  );
  return rows;
}

export function openStatus(meta) {
  const table = element('table', 'figures');
  const body = element('tbody');
  table.append(body);
  const trouble = element('p', 'trouble');
  let before = null;
  const read = async () => {
    try {
      const now = { at: Date.now(), body: await ask('api/status') };
      body.replaceChildren(...figures(now, before, meta).map(([name, text, isBad]) => {
        const head = element('th', '', name);
        head.scope = 'row';
        return element('tr', isBad ? 'bad' : '', head, element('td', '', isBad ? `⚠ ${text}` : text));
      }));
      before = now;
      trouble.textContent = '';
    } catch (error) {
      trouble.textContent = `No figures: ${error.message}`;
    }
  };
  const timer = setInterval(read, EVERY_MS);
  openSheet('Status', { closed: () => clearInterval(timer) }, trouble, table);
  read();
}

/** Keeps a line above the list that says what is wrong. */
export function watch(line) {
  const read = async () => {
    if (document.hidden) return;
    try {
      const found = troubles(await ask('api/status'));
      line.hidden = found.length === 0;
      const text = found.join(' ');
      if (line.textContent !== text) line.textContent = text;
    } catch {
      // The stream's state says that the daemon is away.
    }
  };
  setInterval(read, WATCH_MS);
  read();
  return read;
}
