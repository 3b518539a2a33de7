// The strip above the list: lines by time and level. Errors stand at the base, so that they line up.
//
// While live it counts the stream's ticks and asks nobody; of a range it asks once. Dragging over it, or
// moving its two handles, chooses a range.

import { ask, button, element } from './dom.js';
import { stamp } from './time.js';
import { CODES, count } from './words.js';

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'unspecified'];
const MOST = 120;
const LIVE_STEP = 5_000;
const LIVE_MS = 300_000;

const nanoseconds = (ms) => String(BigInt(Math.round(ms)) * 1_000_000n);
const total = (levels) => LEVELS.reduce((sum, level) => sum + (levels?.[level] ?? 0), 0);

export class Histogram {
  /** `choose({from, to})` is called with nanoseconds as text. */
  constructor(root, choose) {
    Object.assign(this, { root, choose, hidden: new Set(), buckets: [], start: 0, step: LIVE_STEP, end: LIVE_MS, selection: null });
    this.canvas = element('canvas');
    this.canvas.setAttribute('role', 'img');
    this.area = element('div', 'area', this.canvas);
    this.shade = element('div', 'shade');
    this.handles = ['Start', 'End'].map((name, side) => this.handle(`${name} of a range`, side));
    this.area.append(this.shade, ...this.handles);
    this.first = element('span', 'first');
    this.last = element('span', 'last');
    this.note = element('span', 'note');
    this.legend = element('span', 'legend', ...LEVELS.map((level) => this.toggle(level)));
    this.all = button('All time', () => this.open(this.search, this.all.getAttribute('aria-pressed') === 'false'));
    this.all.title = 'Count all that is kept, not the last 5 minutes';
    this.all.setAttribute('aria-pressed', 'false');
    root.replaceChildren(this.area, element('div', 'axis', this.first, this.legend, this.note, this.all, this.last));
    this.area.addEventListener('pointerdown', (event) => this.drag(event));
    new ResizeObserver(() => this.draw()).observe(root);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributeFilter: ['data-theme'] });
  }

  toggle(level) {
    const made = button(CODES[level], () => {
      const off = !this.hidden.delete(level);
      if (off) this.hidden.add(level);
      made.setAttribute('aria-pressed', String(!off));
      this.draw();
    });
    made.dataset.level = level;
    made.prepend(element('i', '', '■'));
    made.title = `Show ${level} here`;
    made.setAttribute('aria-pressed', 'true');
    return made;
  }

  /**
   * Shows another search; `isLive` when its end is the present and it has no beginning. Then it shows the last
   * minutes, unless all time is wanted, as it stays until a range is chosen.
   */
  async open({ filter, from, to }, isAll = this.all.getAttribute('aria-pressed') === 'true' && !from && !to) {
    this.search = { filter, from, to };
    this.all.hidden = Boolean(from || to);
    this.all.setAttribute('aria-pressed', String(isAll));
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const now = Date.now();
    this.isLive = !from && !to && !isAll;
    this.follows = !to;
    this.clear();
    if (this.isLive) {
      this.step = LIVE_STEP;
      this.end = Math.ceil(now / LIVE_STEP) * LIVE_STEP;
      this.start = this.end - LIVE_MS;
    } else {
      this.start = from ? Number(from) / 1e6 : Number(to) / 1e6 - 86_400_000;
      this.end = to ? Number(to) / 1e6 : now;
      this.step = (this.end - this.start) / MOST;
    }
    this.buckets = [];
    this.draw();
    const params = new URLSearchParams(filter);
    if (this.isLive || from) params.set('from', nanoseconds(this.start));
    if (to) params.set('to', to);
    params.set('buckets', String(this.isLive ? 62 : MOST));
    try {
      const answer = await ask('api/logs/histogram', { params, signal });
      if (signal.aborted) return;
      const step = Number(answer.step) / 1e6;
      if (!this.isLive) {
        this.step = step;
        this.start = Number(answer.start) / 1e6;
      }
      for (const bucket of answer.buckets) this.add(Number(bucket.start) / 1e6, bucket.levels);
      this.say(answer.complete ? '' : 'too much to count');
    } catch (error) {
      if (!signal.aborted) this.say(error.name === 'TimeoutError' ? 'too slow to count' : error.message);
    }
  }

  say(text) {
    this.note.textContent = text;
    this.draw();
  }

  /** Adds a tick's counts, which are of the seconds before `now`. */
  tick(now, levels) {
    if (!this.follows || this.root.hidden) return;
    const end = this.start + (this.isLive ? LIVE_MS : Infinity);
    if (now >= end) {
      const by = Math.ceil((now + 1 - end) / this.step);
      this.buckets.splice(0, by);
      this.start += by * this.step;
    }
    this.end = Math.max(this.end, now);
    this.add(now - 1, levels);
    this.draw();
  }

  add(ms, levels) {
    const index = Math.floor((ms - this.start) / this.step);
    if (index < 0 || index > 4 * MOST) return;
    const bucket = this.buckets[index] ??= {};
    for (const [level, n] of Object.entries(levels ?? {})) bucket[level] = (bucket[level] ?? 0) + n;
  }

  get span() { return this.isLive ? LIVE_MS : Math.max(this.end - this.start, this.buckets.length * this.step, this.step); }

  draw() {
    const { canvas } = this;
    const [width, height] = [this.area.clientWidth, this.area.clientHeight];
    if (!width || !height || this.root.hidden) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext('2d');
    context.scale(scale, scale);
    const colours = Object.fromEntries([...this.legend.children].map((made) => [made.dataset.level, getComputedStyle(made.firstChild).color]));
    const shown = LEVELS.filter((level) => !this.hidden.has(level));
    const sum = (bucket) => shown.reduce((all, level) => all + (bucket?.[level] ?? 0), 0);
    const highest = Math.max(1, ...Array.from(this.buckets, sum));
    const bar = (width * this.step) / this.span;
    const now = Date.now();
    Array.from(this.buckets).forEach((bucket, i) => {
      let y = height;
      const isPart = this.follows && this.start + (i + 1) * this.step > now && !this.isLive;
      for (const level of shown) {
        const n = bucket?.[level] ?? 0;
        if (!n) continue;
        const size = Math.max(1, (n / highest) * (height - 2));
        context.fillStyle = colours[level];
        y -= size;
        // A bucket that is not full yet is drawn in stripes.
        if (isPart) for (let x = 0; x < bar - 1; x += 3) context.fillRect(i * bar + x, y, 1, size);
        else context.fillRect(i * bar, y, Math.max(1, bar - 1), size);
      }
    });
    const all = this.buckets.reduce((n, bucket) => n + total(bucket), 0);
    const errors = this.buckets.reduce((n, bucket) => n + (bucket?.error ?? 0) + (bucket?.fatal ?? 0), 0);
    const name = (ms) => stamp(nanoseconds(ms));
    this.first.textContent = name(this.start);
    this.last.textContent = this.follows ? 'now' : name(this.end);
    canvas.setAttribute('aria-label', `${count(all)} lines from ${name(this.start)} to ${name(this.start + this.span)}, ${count(errors)} errors`);
    this.root.dataset.total = all;
    this.showSelection();
  }

  // ---- choosing a range ----

  clear() {
    this.selection = null;
    this.showSelection();
  }

  showSelection() {
    const [a, b] = this.selection ?? [0, 1];
    this.shade.hidden = !this.selection;
    this.shade.style.left = `${a * 100}%`;
    this.shade.style.width = `${(b - a) * 100}%`;
    [a, b].forEach((part, side) => {
      this.handles[side].style.left = `${part * 100}%`;
      this.handles[side].setAttribute('aria-valuenow', String(Math.round(part * 100)));
      this.handles[side].setAttribute('aria-valuetext', stamp(nanoseconds(this.start + part * this.span)));
    });
  }

  apply() {
    if (!this.selection) return;
    const [a, b] = this.selection;
    const at = (part) => Math.round((this.start + part * this.span) / 1000) * 1000;
    this.clear();
    if (at(b) > at(a)) this.choose({ from: nanoseconds(at(a)), to: nanoseconds(at(b)) });
  }

  drag(event) {
    if (event.button !== 0) return;
    const box = this.area.getBoundingClientRect();
    const part = (x) => Math.min(1, Math.max(0, (x - box.left) / box.width));
    const side = this.handles.indexOf(event.target);
    const fixed = side >= 0 ? (this.selection ?? [0, 1])[1 - side] : part(event.clientX);
    let moved = false;
    const move = ({ clientX }) => {
      if (Math.abs(clientX - event.clientX) > 3) moved = true;
      if (!moved) return;
      this.selection = [fixed, part(clientX)].toSorted((a, b) => a - b);
      this.showSelection();
    };
    const stop = (last) => {
      this.area.removeEventListener('pointermove', move);
      this.area.removeEventListener('pointerup', stop);
      this.area.removeEventListener('pointercancel', stop);
      if (moved && last.type === 'pointerup') this.apply();
      else this.clear();
    };
    this.area.setPointerCapture(event.pointerId);
    this.area.addEventListener('pointermove', move);
    this.area.addEventListener('pointerup', stop);
    this.area.addEventListener('pointercancel', stop);
  }

  handle(label, side) {
    const made = element('div', `handle ${side ? 'right' : 'left'}`);
    made.tabIndex = 0;
    made.setAttribute('role', 'slider');
    made.setAttribute('aria-label', label);
    made.setAttribute('aria-valuemin', '0');
    made.setAttribute('aria-valuemax', '100');
    made.addEventListener('keydown', (event) => {
      const step = (this.step / this.span) * (event.shiftKey ? 10 : 1);
      const by = { ArrowLeft: -step, ArrowRight: step }[event.key];
      if (by) {
        const next = [...this.selection ?? [0, 1]];
        next[side] = Math.min(1, Math.max(0, next[side] + by));
        if (next[0] < next[1]) this.selection = next;
        this.showSelection();
      } else if (event.key === 'Enter') this.apply();
      else if (event.key === 'Escape') this.clear();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    return made;
  }
}
