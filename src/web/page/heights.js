// Where rows stand. All rows have one height, but for those that were measured: they are kept by place,
// sorted, with the sum of what they have more or less than the others before them.

export class Heights {
  constructor() {
    this.base = 20;
    this.clear();
  }

  clear() {
    this.places = [];
    this.extras = [];
    this.sums = [0];
    this.isStale = false;
  }

  /** Index of the first measured place that is not before `place`. */
  index(place) {
    let low = 0;
    let high = this.places.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.places[middle] < place) low = middle + 1; else high = middle;
    }
    return low;
  }

  get(place) {
    const i = this.index(place);
    return this.base + (this.places[i] === place ? this.extras[i] : 0);
  }

  /** Says whether that changes anything. */
  set(place, height) {
    const extra = height - this.base;
    const i = this.index(place);
    const isKnown = this.places[i] === place;
    if (isKnown ? this.extras[i] === extra : extra === 0) return false;
    if (isKnown) {
      this.extras[i] = extra;
    } else {
      this.places.splice(i, 0, place);
      this.extras.splice(i, 0, extra);
    }
    this.isStale = true;
    return true;
  }

  /** Keeps only places from `first` on and before `end`. */
  keep(first, end) {
    const [from, to] = [this.index(first), this.index(end)];
    if (from === 0 && to === this.places.length) return;
    this.places = this.places.slice(from, to);
    this.extras = this.extras.slice(from, to);
    this.isStale = true;
  }

  move(moved) {
    this.places = this.places.map(moved);
  }

  /** What the rows before `place` have more than one height each. */
  before(place) {
    if (this.isStale) {
      this.sums = [0];
      for (const [i, extra] of this.extras.entries()) this.sums.push(this.sums[i] + extra);
      this.isStale = false;
    }
    return this.sums[this.index(place)];
  }

  top(place, first) { return (place - first) * this.base + this.before(place); }

  /** The place at height `y`. */
  placeAt(y, first, end) {
    let [low, high] = [first, Math.max(first, end - 1)];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.top(middle, first) <= y) low = middle; else high = middle - 1;
    }
    return low;
  }
}
