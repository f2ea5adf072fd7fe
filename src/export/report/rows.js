'use strict';
/* The vertical layout of the timeline: processes, their tracks with a line for each depth, counters. The
 * column on the left has a button for each of them, which opens and closes it. */

const PROCESS_ROW = 22;
const COUNTER_ROW = 46;
const TRACK_GAP = 5;
const STATE_LANE = 11; /* lines with states of threads need no room for text */
const MAX_INITIAL_LINES = 12; /* lines of a track that are shown at first; of N ranks 12 / N, */
const MIN_INITIAL_LINES = 2; /* but as many as these */

/* With several ranks it begins with the rank, which merging may have put at the end. */
function processTitle({ name, rank }) {
  if (report.ranks.length < 2 || /^rank \d/.test(name)) return name;
  return `rank ${rank} · ${name.replace(/, rank \d+$/, '')}`;
}

class Rows {
  constructor(activities, lanes) {
    this.activities = activities;
    this.lanes = lanes;
    this.rank = null;
    this.closedProcesses = new Set();
    /* how many lines of each track are shown: 1, some or all */
    const most = Math.max(
      MIN_INITIAL_LINES,
      Math.floor(MAX_INITIAL_LINES / Math.max(1, report.ranks.length)),
    );
    this.lines = activities.tracks.map((_, i) => Math.min(this.depthOf(i), most));
    this.tracksOf = activities.processes.map(() => []);
    this.countersOf = activities.processes.map(() => []);
    activities.tracks.forEach((track, t) => track.count && this.tracksOf[track.process].push(t));
    for (const list of this.tracksOf) this.groupByThread(list);
    activities.counters.forEach((counter) => counter.count && this.countersOf[counter.process].push(counter));
    this.arrange();
  }

  /* A thread's states, ranges and samples are one below the other, where its first track is. */
  groupByThread(list) {
    const { tracks } = this.activities;
    const order = { state: 0, samples: 2 };
    const first = new Map();
    list.forEach((t, i) => {
      const { thread } = tracks[t];
      if (thread !== undefined && !first.has(thread)) first.set(thread, i);
    });
    const key = (t, i) => (tracks[t].thread === undefined ? i : first.get(tracks[t].thread));
    const keys = new Map(list.map((t, i) => [t, key(t, i)]));
    const part = (t) => order[tracks[t].shows] ?? 1;
    list.sort((a, b) => keys.get(a) - keys.get(b) || part(a) - part(b) || a - b);
  }

  laneHeight(track) {
    return this.activities.tracks[track].shows === 'state' ? STATE_LANE : LANE;
  }

  depthOf(track) {
    return this.lanes.base[track + 1] - this.lanes.base[track];
  }

  /* Lays everything out; `list` is from top to bottom. */
  arrange() {
    const { processes } = this.activities;
    this.list = [];
    this.y = 0;
    this.trackRows = new Map();
    processes.forEach((process, i) => {
      if (!this.activities.isOfRank(i, this.rank)) return;
      this.arrangeProcess(process, i);
    });
    this.height = this.y;
  }

  arrangeProcess(process, i) {
    if (!this.tracksOf[i].length && !this.countersOf[i].length) return;
    this.push({ type: 'process', process: i, name: processTitle(process), height: PROCESS_ROW, band: true });
    if (this.closedProcesses.has(i)) return;
    for (const t of this.tracksOf[i]) this.arrangeTrack(t);
    for (const counter of this.countersOf[i]) {
      this.push({ type: 'counter', counter, name: counter.name, height: COUNTER_ROW });
    }
  }

  arrangeTrack(t) {
    const height = this.lines[t] * this.laneHeight(t) + TRACK_GAP;
    const { name, shows } = this.activities.tracks[t];
    const row = { type: 'track', track: t, name, height, shows };
    row.depth = this.depthOf(t);
    this.trackRows.set(t, row);
    this.push(row);
  }

  push(row) {
    row.y = this.y;
    this.y += row.height;
    this.list.push(row);
  }

  /* The rows that [top, top + height) shows. */
  between(top, height) {
    let low = 0;
    let high = this.list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.list[middle].y + this.list[middle].height > top) high = middle;
      else low = middle + 1;
    }
    const found = [];
    for (; low < this.list.length && this.list[low].y < top + height; low++) found.push(this.list[low]);
    return found;
  }

  /* The same as lines to draw, counted from the top of the image. */
  drawnLines(top, height) {
    const drawn = [];
    for (const row of this.between(top, height)) {
      const y = row.y - top;
      if (row.type !== 'track') drawn.push({ ...row, y });
      for (let k = 0; row.type === 'track' && k < this.lines[row.track]; k++) {
        const size = this.laneHeight(row.track);
        const at = y + 2 + k * size;
        if (at + size < 0 || at > height) continue;
        drawn.push({ y: at, height: size, lane: this.lanes.base[row.track] + k });
      }
    }
    return drawn;
  }

  laneAt(y) {
    const [row] = this.between(y, 1);
    if (!row || row.type !== 'track') return null;
    const k = Math.floor((y - row.y - 2) / this.laneHeight(row.track));
    return k >= 0 && k < this.lines[row.track] ? this.lanes.base[row.track] + k : null;
  }

  counterAt(y) {
    const [row] = this.between(y, 1);
    return row && row.type === 'counter' ? row.counter : null;
  }

  /* The y of an activity, or of its track if its line is folded; null: neither is shown. */
  yOf(place) {
    const track = this.activities.trackOf(place);
    const row = this.trackRows.get(track);
    if (!row) return null;
    const k = this.lanes.laneOf(place) - this.lanes.base[track];
    return row.y + 2 + Math.min(k, this.lines[track] - 1) * this.laneHeight(track);
  }

  /* Opens the process and the lines that are needed to show an activity. */
  show(place) {
    const track = this.activities.trackOf(place);
    const process = this.activities.tracks[track].process;
    const k = this.lanes.laneOf(place) - this.lanes.base[track];
    const isOpen = !this.closedProcesses.has(process) && this.lines[track] > k;
    if (isOpen) return false;
    this.closedProcesses.delete(process);
    if (this.lines[track] <= k) this.lines[track] = this.depthOf(track);
    this.arrange();
    return true;
  }

  toggle(row) {
    if (row.type === 'process') {
      if (!this.closedProcesses.delete(row.process)) this.closedProcesses.add(row.process);
    } else if (row.type === 'track') {
      this.lines[row.track] = this.isOpen(row) ? 1 : row.depth;
    }
    this.arrange();
  }

  isOpen(row) {
    if (row.type === 'process') return !this.closedProcesses.has(row.process);
    return row.type === 'track' && (row.depth === 1 || this.lines[row.track] > 1);
  }

  setAll(open) {
    this.activities.tracks.forEach((_, t) => {
      this.lines[t] = open ? this.depthOf(t) : 1;
    });
    if (open) this.closedProcesses.clear();
    this.arrange();
  }
}
