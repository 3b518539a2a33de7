// The list: at most 200 row elements, whatever the number of records. Rows have one height; only an
// open record takes more. The list scrolls by the reader's hand, or stands at the live edge.
//
// Places are absolute: they count items since the stream was opened, also those let go since.

import { fillRow, makeRow } from './row.js';

const MAX_ROWS = 200;
const OVERSCAN = 12;
const PAUSED_BAR = 64;

export class List {
  constructor(root, sizer, handlers) {
    Object.assign(this, { root, sizer, handlers });
    this.rows = new Map();
    this.free = [];
    this.snapshot = { first: 0, end: 0, start: 0, rows: [] };
    this.following = true;
    this.lastTop = 0;
    this.open = null;
    this.focused = null;
    this.showEnvironment = false;
    this.scheduled = false;
    this.want = {};
    this.measure();
    root.addEventListener('scroll', () => this.scrolled(), { passive: true });
    root.addEventListener('wheel', (event) => { if (event.deltaY < 0) this.movedUp(); }, { passive: true });
    root.addEventListener('click', (event) => this.clicked(event));
    document.addEventListener('selectionchange', () => this.selected());
    new ResizeObserver(() => { this.measure(); this.schedule(); }).observe(root);
  }

  measure() {
    this.rowHeight = Number.parseFloat(getComputedStyle(this.root).getPropertyValue('--row')) || 20;
    this.viewHeight = this.root.clientHeight;
  }

  // ---- what is shown ----

  update(snapshot) {
    this.snapshot = snapshot;
    this.schedule();
  }

  schedule() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.render();
    });
  }

  get openHeight() { return this.open ? this.open.height : 0; }

  top(place) {
    const below = this.open && place > this.open.place ? this.openHeight : 0;
    return (place - this.snapshot.first) * this.rowHeight + below;
  }

  placeAt(y) {
    if (this.open) {
      const openTop = this.top(this.open.place) + this.rowHeight;
      if (y > openTop) return this.snapshot.first + Math.floor(Math.max(openTop, y - this.openHeight) / this.rowHeight);
    }
    return this.snapshot.first + Math.floor(y / this.rowHeight);
  }

  render() {
    const { first, end } = this.snapshot;
    // Room for the bar that says "paused", so that it covers no line for good.
    const height = (end - first) * this.rowHeight + this.openHeight + (this.following ? 0 : PAUSED_BAR);
    this.sizer.style.height = `${height}px`;
    if (this.following) this.root.scrollTop = height;
    const top = this.root.scrollTop;
    this.lastTop = top;
    let from = Math.max(first, this.placeAt(top) - OVERSCAN);
    let to = Math.min(end, this.placeAt(top + this.viewHeight) + 1 + OVERSCAN);
    if (to - from > MAX_ROWS) { from = Math.max(first, to - MAX_ROWS); to = from + MAX_ROWS; }
    this.ask(from, to);
    this.place(from, to);
  }

  place(from, to) {
    const { start, rows } = this.snapshot;
    const used = new Set();
    for (let place = Math.max(from, start); place < Math.min(to, start + rows.length); place += 1) {
      const item = rows[place - start];
      used.add(item.key);
      let row = this.rows.get(item.key);
      if (!row) {
        row = this.free.pop() ?? this.makeRow();
        row.hidden = false;
        this.rows.set(item.key, row);
        row.version = null;
      }
      const version = `${item.version}${this.showEnvironment}`;
      if (row.version !== version) {
        fillRow(row, item, this.showEnvironment);
        row.version = version;
      }
      // Lines that are loaded into a gap move those below.
      if (this.open?.key === item.key) this.open.place = place;
      if (this.focused?.key === item.key) this.focused.place = place;
      row.item = item;
      row.place = place;
      // Elements stand in no order in the document; this is theirs.
      row.setAttribute('aria-posinset', place - this.snapshot.first + 1);
      row.style.transform = `translateY(${this.top(place)}px)`;
      row.classList.toggle('focused', this.focused?.key === item.key);
      row.classList.toggle('open', this.open?.key === item.key);
    }
    for (const [key, row] of this.rows) {
      if (used.has(key)) continue;
      row.hidden = true;
      this.rows.delete(key);
      this.free.push(row);
    }
    if (this.open) this.open.element.style.transform = `translateY(${this.top(this.open.place) + this.rowHeight}px)`;
  }

  makeRow() {
    const row = makeRow();
    this.sizer.append(row);
    return row;
  }

  /** Asks the worker for the rows in view, where it does not send them already. */
  ask(from, to) {
    const count = Math.min(MAX_ROWS, Math.max(60, Math.ceil(this.viewHeight / this.rowHeight) + 3 * OVERSCAN));
    const { start, rows } = this.snapshot;
    const has = from >= start && to <= start + rows.length;
    if (this.following) {
      if (this.want.follow && this.want.count === count) return;
      this.want = { follow: true, from: 0, count };
    } else {
      const wanted = { follow: false, from: Math.max(0, from - OVERSCAN), count };
      if (!this.want.follow && (has || this.want.from === wanted.from)) return;
      this.want = wanted;
    }
    this.handlers.want(this.want);
  }

  // ---- following and pausing ----

  get distance() { return this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight; }

  scrolled() {
    const top = this.root.scrollTop;
    const up = top < this.lastTop - 1;
    this.lastTop = top;
    if (this.following) {
      // A window that shrinks, or rows that go, also move the list, but not away from its end.
      if (up && this.distance > 2) this.pause();
    } else if (!up && this.distance <= 2 && !this.open) {
      this.follow();
    }
    this.schedule();
  }

  movedUp() {
    if (this.following && this.root.scrollHeight > this.root.clientHeight) this.pause();
  }

  selected() {
    const selection = getSelection();
    if (this.following && !selection.isCollapsed && this.root.contains(selection.anchorNode)) this.pause();
  }

  pause() {
    if (!this.following) return;
    this.following = false;
    this.handlers.paused();
    // At once: the room for the bar also takes the list away from its end, where it would follow.
    this.render();
  }

  follow() {
    if (this.following) return;
    this.close();
    this.following = true;
    this.focused = null;
    this.handlers.followed();
    this.schedule();
  }

  // ---- rows by hand ----

  clicked(event) {
    const row = event.target.closest('.row');
    if (!row) return;
    if (event.target.closest('button')) {
      this.pause();
      this.handlers.load(row.item.key);
      return;
    }
    if (row.item.kind !== 'record' || !getSelection().isCollapsed) return;
    this.focus(row.item, row.place);
    this.toggle();
  }

  focus(item, place) {
    this.pause();
    this.focused = { key: item.key, place, item };
    this.reveal(place);
    this.schedule();
  }

  move(step) {
    const last = this.snapshot.end - 1;
    if (last < this.snapshot.first) return;
    let place = this.focused ? this.focused.place + step : step < 0 ? last : this.placeAt(this.root.scrollTop);
    place = Math.min(last, Math.max(this.snapshot.first, place));
    const item = this.snapshot.rows[place - this.snapshot.start];
    if (item) this.focus(item, place);
  }

  reveal(place) {
    const top = this.top(place);
    if (top < this.root.scrollTop) this.root.scrollTop = top - this.rowHeight;
    else if (top + this.rowHeight > this.root.scrollTop + this.viewHeight) this.root.scrollTop = top + 2 * this.rowHeight - this.viewHeight;
  }

  /** Goes to a place that may not be loaded into the page yet. */
  goTo(key, place) {
    this.pause();
    this.focused = { key, place };
    this.root.scrollTop = this.top(place) - this.viewHeight / 2;
    this.schedule();
  }

  toggle() {
    if (!this.focused) return;
    if (this.open?.key === this.focused.key) this.close();
    else this.handlers.open(this.focused.key, this.focused.place);
  }

  /** Shows an element under a row. */
  openAt(key, place, element) {
    this.close();
    this.pause();
    this.open = { key, place, element, height: 0 };
    this.sizer.append(element);
    this.open.height = element.offsetHeight;
    this.open.observer = new ResizeObserver(() => {
      if (!this.open) return;
      this.open.height = element.offsetHeight;
      this.schedule();
    });
    this.open.observer.observe(element);
    this.render();
    const bottom = this.top(place) + this.rowHeight + Math.min(this.open.height, this.viewHeight - 2 * this.rowHeight);
    if (bottom > this.root.scrollTop + this.viewHeight) this.root.scrollTop = bottom - this.viewHeight;
  }

  close() {
    if (!this.open) return false;
    this.open.observer.disconnect();
    this.open.element.remove();
    this.open = null;
    this.schedule();
    return true;
  }

  reset() {
    this.close();
    this.following = true;
    this.focused = null;
    this.want = {};
    this.schedule();
  }
}
