// The list: at most 200 row elements, whatever the number of records. It stands at the live edge, or
// holds the line that is read: its anchor is the first row in view, by place and pixels.
//
// With the newest first, places are the worker's seen in a mirror: what was at `p` is at `-1 - p`.

import { Heights } from './heights.js';
import { fillRow, makeRow } from './row.js';
import { view } from './view.js';

const MAX_ROWS = 200;
const OVERSCAN = 12;
/** Room below the last line for the bar that says "paused", so that it covers no line for good. */
const PAUSED_BAR = 64;
/** Heights are measured and the list is put right again at most so often for one frame. */
const MAX_PASSES = 4;

export class List {
  constructor(root, sizer, handlers) {
    Object.assign(this, { root, sizer, handlers });
    this.heights = new Heights();
    this.rows = new Map();
    this.free = [];
    this.snapshot = { first: 0, end: 0, start: 0, rows: [], missed: 0 };
    this.pending = null;
    this.following = true;
    this.isReversed = false;
    this.anchor = null;
    this.lastTop = 0;
    this.open = null;
    this.focused = null;
    this.scheduled = false;
    this.want = {};
    this.measure();
    root.addEventListener('scroll', () => this.scrolled(), { passive: true });
    root.addEventListener('wheel', (event) => { if (this.isReversed ? event.deltaY > 0 : event.deltaY < 0) this.movedUp(); }, { passive: true });
    root.addEventListener('click', (event) => this.clicked(event));
    document.addEventListener('selectionchange', () => this.selected());
    root.addEventListener('copy', (event) => this.copied(event));
    addEventListener('wt-view', () => this.schedule());
    new ResizeObserver(() => this.relayout()).observe(root);
  }

  /** What a row is high, and whether rows differ. */
  measure() {
    this.heights.base = Number.parseFloat(getComputedStyle(this.root).getPropertyValue('--row')) || 20;
    this.isWrapped = document.documentElement.classList.contains('wrap');
    this.viewHeight = this.root.clientHeight;
    if (this.root.clientWidth !== this.width || this.isWrapped !== this.wasWrapped) {
      this.width = this.root.clientWidth;
      this.wasWrapped = this.isWrapped;
      this.heights.clear();
      for (const row of this.rows.values()) row.isMeasured = false;
    }
  }

  /**
   * The window or the wrapping has changed. What is read is put right before anything else can happen:
   * the scroll position of one layout says nothing about the heights of another.
   */
  relayout() {
    this.measure();
    this.hold();
    this.render();
  }

  get rowHeight() { return this.heights.base; }
  get isPhone() { return this.rowHeight > 50; }

  // ---- what is shown ----

  /** Takes a snapshot; it is shown with the next frame, since the reader may scroll until then. */
  update(snapshot) {
    if (this.pending) {
      const { shifts, forget } = this.pending.moved;
      snapshot.moved.shifts.unshift(...shifts);
      if (forget !== null) snapshot.moved.forget = Math.min(forget, snapshot.moved.forget ?? Infinity);
    }
    this.pending = this.isReversed ? this.mirrored(snapshot) : snapshot;
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

  /** A place of the worker as one of the list, and back. */
  flip(place) { return this.isReversed ? -1 - place : place; }
  /** The place where a new line will be. */
  get edge() { return this.isReversed ? this.snapshot.first - 1 : this.snapshot.end; }

  mirrored({ first, end, start, rows, ...rest }) {
    return { ...rest, first: -end, end: -first, start: -start - rows.length, rows: rows.toReversed() };
  }

  top(place) { return this.heights.top(place, this.snapshot.first); }
  placeAt(y) { return this.heights.placeAt(y, this.snapshot.first, this.snapshot.end); }

  /** Items have moved to other places: so has all that is remembered by place. */
  take(snapshot) {
    for (const shifts of snapshot.moved.shifts) {
      const moved = (place) => this.flip(shifts.reduce((sum, [at, count]) => (at <= this.flip(place) ? sum + count : sum), this.flip(place)));
      this.heights.move(moved);
      for (const held of [this.anchor, this.open, this.focused, ...this.rows.values()]) if (held) held.place = moved(held.place);
    }
    this.snapshot = snapshot;
    const forget = snapshot.moved.forget ?? Infinity;
    if (this.isReversed) this.heights.keep(Math.max(snapshot.first, -forget), snapshot.end);
    else this.heights.keep(snapshot.first, Math.min(snapshot.end, forget));
    for (const row of this.rows.values()) if (this.flip(row.place) >= forget) row.isMeasured = false;
    this.pending = null;
  }

  render() {
    // The reader may have moved the list since, of which the event is still to come.
    if (!this.following && Math.abs(this.root.scrollTop - this.lastTop) >= 1) this.scrolled();
    if (this.pending) this.take(this.pending);
    let range;
    for (let pass = 0; pass < MAX_PASSES; pass += 1) {
      this.hold();
      range = this.range();
      if (!this.mount(...range)) break;
    }
    this.hold();
    this.stay();
    this.ask(...range);
    this.position();
  }

  /** Puts the list to the live edge, or the anchor to where it was. */
  hold() {
    const { end } = this.snapshot;
    const height = this.top(end) + (this.following ? 0 : PAUSED_BAR);
    if (height !== this.height) {
      this.height = height;
      this.sizer.style.height = `${height}px`;
    }
    if (this.following) this.root.scrollTop = this.isReversed ? 0 : height;
    else if (this.anchor) {
      const top = this.top(this.anchor.place) + this.anchor.offset;
      if (Math.abs(this.root.scrollTop - top) >= 1) this.root.scrollTop = top;
    }
    this.lastTop = this.root.scrollTop;
  }

  /** An anchor that the list's end keeps lower would move what is read as soon as there is more below. */
  stay() {
    if (!this.following && this.anchor && this.top(this.anchor.place) + this.anchor.offset - this.lastTop > 1) this.anchorHere();
  }

  /** The reader has moved the list, or it is to stay as it stands. */
  anchorHere() {
    const top = this.root.scrollTop;
    const place = this.placeAt(top);
    this.anchor = { place, offset: top - this.top(place) };
  }

  range() {
    const { first, end } = this.snapshot;
    let from = Math.max(first, this.placeAt(this.lastTop) - OVERSCAN);
    let to = Math.min(end, this.placeAt(this.lastTop + this.viewHeight) + 1 + OVERSCAN);
    if (to - from > MAX_ROWS) { from = this.following && !this.isReversed ? to - MAX_ROWS : from; to = from + MAX_ROWS; }
    return [from, to];
  }

  /** Gives the items in range their elements, and says whether a height is not what it was taken for. */
  mount(from, to) {
    const { start, rows } = this.snapshot;
    const known = new Map();
    for (const row of this.rows.values()) known.set(row.place, row.item);
    const items = [];
    for (let place = from; place < to; place += 1) {
      // What the worker has not sent yet stays as it is.
      const item = rows[place - start] ?? (this.following ? null : known.get(place));
      if (item) items.push([place, item]);
    }
    const used = new Set(items.map(([, item]) => item.key));
    for (const [key, row] of this.rows) {
      if (used.has(key)) continue;
      row.hidden = true;
      this.rows.delete(key);
      this.free.push(row);
    }
    let above = null;
    for (const [place, item] of items) {
      this.fill(item, place, above);
      above = item;
    }
    return this.measureRows();
  }

  fill(item, place, above) {
    let row = this.rows.get(item.key);
    if (!row) {
      row = this.free.pop() ?? this.sizer.appendChild(makeRow());
      row.hidden = false;
      row.version = null;
      this.rows.set(item.key, row);
    }
    const version = `${item.version} ${view.version} ${view.timeStyle === 'above' ? above?.key : ''}`;
    if (row.version !== version) {
      fillRow(row, item, above);
      row.version = version;
      row.isMeasured = false;
    }
    row.item = item;
    row.place = place;
  }

  measureRows() {
    let isChanged = false;
    for (const row of this.rows.values()) {
      const under = this.open?.key === row.item.key ? this.open.height : 0;
      if (row.isMeasured && row.under === under) continue;
      const differs = row.item.expanded || (this.isWrapped && !this.isPhone && row.item.kind === 'record');
      const height = differs ? row.offsetHeight : this.rowHeight;
      Object.assign(row, { isMeasured: true, under, height });
      if (this.heights.set(row.place, height + under)) isChanged = true;
    }
    return isChanged;
  }

  position() {
    const { first } = this.snapshot;
    for (const row of this.rows.values()) {
      const { key } = row.item;
      if (this.focused?.key === key) this.focused.place = row.place;
      const top = this.top(row.place);
      if (row.top !== top) {
        row.top = top;
        row.style.transform = `translateY(${top}px)`;
      }
      // Elements stand in no order in the document; this is theirs.
      row.setAttribute('aria-posinset', row.place - first + 1);
      row.classList.toggle('focused', this.focused?.key === key);
      row.classList.toggle('open', this.open?.key === key);
    }
    if (this.open && !this.open.side) {
      const height = this.rows.get(this.open.key)?.height ?? this.heights.get(this.open.place) - this.open.height;
      this.open.element.style.transform = `translateY(${this.top(this.open.place) + height}px)`;
    }
  }

  /** Asks the worker for the rows in view, where it does not send them already. */
  ask(from, to) {
    const count = Math.min(MAX_ROWS + 2 * OVERSCAN, Math.max(60, Math.ceil(this.viewHeight / this.rowHeight) + 4 * OVERSCAN));
    const { start, rows } = this.snapshot;
    const has = from >= start && to <= start + rows.length;
    if (this.following) {
      if (this.want.follow && this.want.count === count) return;
      this.want = { follow: true, from: 0, count };
    } else {
      const wanted = { follow: false, from: Math.max(this.snapshot.first, from - OVERSCAN), count };
      if (!this.want.follow && (has || this.want.from === wanted.from)) return;
      this.want = wanted;
    }
    this.handlers.want(this.isReversed ? { ...this.want, from: -this.want.from - count } : this.want);
  }

  // ---- following and pausing ----

  /** Pixels to the live edge, and to the oldest line. */
  get distance() { return this.isReversed ? this.root.scrollTop : this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight; }
  get distanceToOldest() { return this.isReversed ? this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight : this.root.scrollTop; }

  scrolled() {
    const top = this.root.scrollTop;
    // Away from the live edge.
    const up = this.isReversed ? top > this.lastTop + 1 : top < this.lastTop - 1;
    const isMoved = Math.abs(top - this.lastTop) >= 1;
    this.lastTop = top;
    if (this.following) {
      // A window that shrinks, or rows that go, also move the list, but not away from its end.
      if (up && this.distance > 2) this.pause();
    } else {
      if (isMoved) this.anchorHere();
      if (isMoved && !up && this.distance <= 2 && !this.open) this.reachEnd();
    }
    this.schedule();
  }

  /** The end of what is loaded: that is the live edge, unless lines were left out since. */
  reachEnd() {
    const { missed, status, end } = this.pending ?? this.snapshot;
    // More is there than is laid out yet, or on its way.
    if (missed > 0 && end > this.snapshot.end) return;
    if (missed > 0) this.handlers.readOn();
    else if (!status?.left) this.follow();
  }

  movedUp() {
    if (this.following && this.root.scrollHeight > this.root.clientHeight) this.pause();
  }

  selected() {
    const selection = getSelection();
    if (this.following && !selection.isCollapsed && this.root.contains(selection.anchorNode)) this.pause();
  }

  /** Rows stand in no order in the document: what is copied of several are lines in the order of the list. */
  copied(event) {
    const { anchorNode, focusNode } = getSelection();
    const all = [...this.rows.values()];
    const [from, to] = [anchorNode, focusNode].map((node) => all.find((row) => row.contains(node))?.place).sort((a, b) => a - b);
    if (from === undefined || to === undefined || from === to) return;
    event.preventDefault();
    const rows = all.filter(({ place, item }) => place >= from && place <= to && item.kind === 'record').sort((a, b) => a.place - b.place);
    event.clipboardData.setData('text/plain', rows.map(({ item }) => this.handlers.lineOf(item)).join('\n'));
  }

  pause() {
    if (!this.following) return;
    this.following = false;
    this.anchorHere();
    this.handlers.paused();
    // At once: the room for the bar also takes the list away from its end, where it would follow.
    this.render();
  }

  follow() {
    if (this.following) return;
    this.close();
    this.following = true;
    this.focused = null;
    this.anchor = null;
    this.handlers.followed();
    this.schedule();
  }

  // ---- rows by hand ----

  clicked(event) {
    const row = event.target.closest('.row');
    if (!row || event.target.closest('a')) return;
    const { item, place } = row;
    const button = event.target.closest('button');
    if (button) {
      this.pause();
      if (button.classList.contains('narrow-query')) this.handlers.narrow();
      else if (item.kind !== 'record') this.handlers.load(item.key);
      else if (item.expanded && item.whole) this.handlers.open(item.key, place);
      else this.handlers.expand(item.key);
      return;
    }
    if (item.kind !== 'record') return;
    if (event.shiftKey && this.focused) {
      this.handlers.copyRange(...[this.focused.place, place].sort((a, b) => a - b));
      return;
    }
    if (!getSelection().isCollapsed) return;
    this.focus(item, place);
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
    else this.goTo(null, place);
    if (item && this.open?.side) this.handlers.open(item.key, place);
    const isAtEdge = this.isReversed ? step < 0 && place === this.snapshot.first : step > 0 && place === last;
    if (isAtEdge && this.snapshot.missed > 0) this.handlers.readOn();
  }

  scrollTo(top) {
    this.root.scrollTop = top;
    this.lastTop = this.root.scrollTop;
    this.anchorHere();
    this.schedule();
  }

  reveal(place) {
    const top = this.top(place);
    const height = Math.min(this.heights.get(place), this.viewHeight / 2);
    if (top < this.root.scrollTop) this.scrollTo(top - this.rowHeight);
    else if (top + height > this.root.scrollTop + this.viewHeight) this.scrollTo(top + height + this.rowHeight - this.viewHeight);
  }

  /** Goes to a place that may not be loaded into the page yet. */
  goTo(key, place) {
    this.pause();
    // The snapshot that brought the place may wait for the next frame.
    if (this.pending) this.render();
    this.focused = { key, place };
    this.scrollTo(this.top(place) - this.viewHeight / 2);
  }

  /** Scrolls by a part of what is in view, or to the oldest line. */
  page(part) {
    this.pause();
    if (part === -Infinity) this.focused = null;
    this.scrollTo(part === -Infinity ? (this.isReversed ? this.root.scrollHeight : 0) : this.root.scrollTop + this.viewHeight * part);
    if ((this.isReversed ? part < 0 : part > 0) && this.distance <= 2 && !this.open) this.reachEnd();
  }

  toggle() {
    if (!this.focused) return;
    if (this.open?.key === this.focused.key) this.close();
    else this.handlers.open(this.focused.key, this.focused.place);
  }

  /** Shows an element under a row, or in a pane beside the list. */
  openAt(key, place, element, side = null) {
    this.close({ isReplaced: true });
    this.pause();
    this.open = { key, place, element, height: 0, side };
    if (side) {
      side.replaceChildren(element);
      side.hidden = false;
      side.parentElement.classList.add('with-side');
      this.relayout();
      this.reveal(place);
      return;
    }
    element.setAttribute('role', 'listitem');
    element.setAttribute('aria-label', 'The line opened');
    this.sizer.append(element);
    this.open.height = element.offsetHeight;
    this.open.observer = new ResizeObserver(() => {
      if (!this.open) return;
      this.open.height = element.offsetHeight;
      const row = this.rows.get(this.open.key);
      if (!row) this.heights.set(this.open.place, this.rowHeight + this.open.height);
      this.schedule();
    });
    this.open.observer.observe(element);
    this.render();
    const bottom = this.top(place) + this.rowHeight + Math.min(this.open.height, this.viewHeight - 2 * this.rowHeight);
    if (bottom > this.root.scrollTop + this.viewHeight) this.scrollTo(bottom - this.viewHeight);
  }

  close({ isReplaced = false } = {}) {
    if (!this.open) return false;
    const { key, place, element, observer, height, side } = this.open;
    observer?.disconnect();
    const hadFocus = element.contains(document.activeElement);
    element.remove();
    if (hadFocus) this.root.focus({ preventScroll: true });
    this.open = null;
    if (side && !isReplaced) {
      side.hidden = true;
      side.parentElement.classList.remove('with-side');
      this.relayout();
    }
    if (!isReplaced) this.handlers.closed();
    if (!this.rows.has(key)) this.heights.set(place, Math.max(this.rowHeight, this.heights.get(place) - height));
    this.schedule();
    return true;
  }

  reset() {
    this.close();
    this.following = true;
    this.focused = null;
    this.anchor = null;
    this.pending = null;
    this.heights.clear();
    this.want = {};
    this.schedule();
  }
}
