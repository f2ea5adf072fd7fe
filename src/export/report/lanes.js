'use strict';
/* Lanes: the activities of one depth of one track, in the order of time, as ranges of one long list.
 * Precomputed for each activity of a lane, so that drawing costs time by pixels and not by activities:
 * the latest end so far, the time covered so far, and the longest activity of every block of 8. */

const BLOCK = 3; /* 2^3 activities */

class Lanes {
  constructor(activities) {
    this.activities = activities;
    this.count = activities.count;
  }

  async build() {
    this.countLanes();
    this.sortIn();
    await pause();
    this.measure();
    await pause();
    this.findLongest();
  }

  /* Lane `base[track] + depth`. Depths beyond the track's number of lines are drawn in the last line. */
  countLanes() {
    const { tracks, depth } = this.activities;
    this.base = new Uint32Array(tracks.length + 1);
    tracks.forEach((track, i) => {
      this.base[i + 1] = this.base[i] + Math.max(1, track.depths || 1);
    });
    this.first = new Uint32Array(this.base[tracks.length] + 1);
    tracks.forEach((track, i) => {
      const last = this.base[i + 1] - this.base[i] - 1;
      for (let a = track.first; a < track.end; a++) {
        this.first[this.base[i] + Math.min(depth[a], last) + 1]++;
      }
    });
    for (let i = 1; i < this.first.length; i++) this.first[i] += this.first[i - 1];
  }

  sortIn() {
    const { tracks, depth } = this.activities;
    const next = this.first.slice();
    this.list = new Uint32Array(this.count);
    tracks.forEach((track, i) => {
      const last = this.base[i + 1] - this.base[i] - 1;
      for (let a = track.first; a < track.end; a++) {
        this.list[next[this.base[i] + Math.min(depth[a], last)]++] = a;
      }
    });
  }

  /* Activities of a lane may overlap (two kernels of a stream), so the latest end so far is needed to
   * find those that are still open. */
  measure() {
    const { activities, first, list, count } = this;
    const starts = activities.start;
    const { dur } = activities;
    const start = (this.start = new Float64Array(count));
    const ended = (this.ended = new Float64Array(count));
    const covered = (this.covered = new Float64Array(count + 1));
    const size = (this.size = new Float32Array(count));
    let sum = 0;
    for (let lane = 0; lane + 1 < first.length; lane++) {
      let latest = -Infinity;
      for (let i = first[lane]; i < first[lane + 1]; i++) {
        const from = starts[list[i]];
        const end = from + dur[list[i]];
        size[i] = end - from;
        if (end > latest) {
          sum += end - Math.max(from, latest);
          latest = end;
        }
        start[i] = from;
        ended[i] = latest;
        covered[i + 1] = sum;
      }
    }
  }

  findLongest() {
    const size = this.size;
    this.longest = new Uint32Array((this.count >> BLOCK) + 1);
    for (let block = 0; block < this.longest.length; block++) {
      const end = Math.min(this.count, (block + 1) << BLOCK);
      let best = block << BLOCK;
      for (let i = best + 1; i < end; i++) if (size[i] > size[best]) best = i;
      this.longest[block] = best;
    }
  }

  /* The first of the lane that ends after a moment. */
  firstAfter(lane, moment) {
    let low = this.first[lane];
    let high = this.first[lane + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ended[middle] > moment) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /* The first from `i` on that begins at a moment or later; near ones are found sooner. */
  firstFrom(i, end, moment) {
    let step = 1;
    while (i < end && this.start[i] < moment) {
      i += step;
      step *= 2;
    }
    let low = Math.max(i - (step >> 1), 0);
    let high = Math.min(i, end);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] < moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /* The longest of [i, end), using whole blocks where possible. */
  longestOf(i, end) {
    const { size, longest } = this;
    let best = i;
    while (i < end) {
      const isBlock = (i & ((1 << BLOCK) - 1)) === 0 && i + (1 << BLOCK) <= end;
      const k = isBlock ? longest[i >> BLOCK] : i;
      if (size[k] > size[best]) best = k;
      i += isBlock ? 1 << BLOCK : 1;
    }
    return best;
  }

  /* The activity under a moment, or the nearest one within `near`; -1. */
  at(lane, moment, near) {
    const end = this.first[lane + 1];
    let best = -1;
    let nearest = near;
    for (let i = this.firstAfter(lane, moment - near); i < end && this.start[i] <= moment + near; i++) {
      const a = this.list[i];
      const away = Math.max(this.start[i] - moment, moment - this.activities.endOf(a), 0);
      if (away <= nearest) {
        nearest = away;
        best = a;
      }
      if (this.start[i] > moment + nearest) break;
    }
    return best;
  }

  laneOf(place) {
    const track = this.activities.trackOf(place);
    const last = this.base[track + 1] - this.base[track] - 1;
    return this.base[track] + Math.min(this.activities.depth[place], last);
  }

  /* The previous or next activity of its lane, or -1. */
  neighbour(place, step) {
    const lane = this.laneOf(place);
    let i = this.firstFrom(this.first[lane], this.first[lane + 1], this.activities.start[place]);
    while (i < this.first[lane + 1] && this.list[i] !== place) i++;
    i += step;
    return i >= this.first[lane] && i < this.first[lane + 1] ? this.list[i] : -1;
  }

  /* The first nested activity, or -1. An activity that begins inside may also end after it; it is then in
   * another line. */
  within(place) {
    const a = this.activities;
    const { end } = a.tracks[a.trackOf(place)];
    const until = a.endOf(place);
    for (let i = place + 1; i < end && a.start[i] < until; i++) {
      if (a.depth[i] === a.depth[place] + 1 && a.endOf(i) <= until) return i;
    }
    return -1;
  }

  /* Prefix sums over the list: how many activities have one of these names (search.js). */
  countMatches(isMatch) {
    const sums = new Uint32Array(this.count + 1);
    const name = this.activities.name;
    for (let i = 0; i < this.count; i++) sums[i + 1] = sums[i] + isMatch[name[this.list[i]]];
    return sums;
  }
}
