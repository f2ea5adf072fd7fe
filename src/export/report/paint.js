'use strict';
/* Draws the timeline. Boxes are written as pixels into one image; activities within one pixel become one
 * mark whose density is that of the covered time. So the cost of a frame depends on its pixels, not on
 * the number of activities. Texts and lines are drawn on top. */

const LANE = 17; /* pixels high, with the gap */
const NARROW_TEXT = 26; /* boxes narrower than this get no text */
const FONT = '11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const ONE_BOX = 1.5; /* narrower boxes are merged into marks */
const COUNTER_BLOCK = 64;

class Painter {
  constructor(canvas, activities, lanes) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d', { alpha: false, willReadFrequently: true });
    this.activities = activities;
    this.lanes = lanes;
    this.classes = colorClasses(activities);
    this.hasStates = activities.tracks.some((t) => t.shows === 'state');
    this.setByName(colorsByName(activities));
    this.widths = new Float32Array(activities.strings.length);
    this.chars = new Map();
    /* pixels of each class or name in the last image, and which of them are not 0 */
    this.seen = new Float32Array(Math.max(activities.strings.length, CLASSES.length));
    this.seenKeys = [];
    this.texts = { count: 0, x: [], y: [], width: [], place: [] };
    this.setPalette(isDark());
  }

  setByName(byName) {
    if (byName && !this.nameColors) this.nameColors = colorsOfNames(this.activities);
    this.byName = byName;
  }

  setPalette(dark) {
    this.palette = makePalette(dark);
  }

  /* Sizes are in CSS pixels; the image has device pixels. */
  resize(width, height, ratio) {
    this.width = Math.max(1, Math.floor(width));
    this.height = Math.max(1, Math.floor(height));
    this.ratio = ratio;
    const w = Math.round(this.width * ratio);
    const h = Math.round(this.height * ratio);
    if (this.image && this.image.width === w && this.image.height === h) return;
    this.canvas.width = w;
    this.canvas.height = h;
    this.image = this.context.createImageData(w, h);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.line = new Uint32Array(w);
  }

  classOf(place) {
    const a = this.activities;
    const { kinds, talks, states } = this.classes;
    const group = kinds[a.kind[place]];
    if (group === BLOCKED) return states[a.name[place]];
    return group === KERNEL && talks[a.name[place]] ? COMMUNICATION : group;
  }

  /* States of threads have their colours in both modes. */
  colorOf(place) {
    const name = this.activities.name[place];
    const group = this.classOf(place);
    if (this.byName && group < RUNNING) return this.palette.names[this.nameColors[name]];
    return this.palette.boxes[group * SHADES + this.classes.shades[name]];
  }

  /* Counts pixels for the legend. */
  see(place, pixels) {
    const key = this.byName ? this.activities.name[place] : this.classOf(place);
    if (!this.seen[key]) this.seenKeys.push(key);
    this.seen[key] += pixels;
  }

  /* What the last image has: [{title, color}], names by their pixels. */
  legend() {
    const keys = [...this.seenKeys];
    if (!this.isSeenByName) {
      const color = (key) => this.palette.boxes[key * SHADES + (SHADES >> 1)];
      return keys.sort((a, b) => a - b).map((key) => ({ title: CLASSES[key][0], color: cssOf(color(key)) }));
    }
    const { strings } = this.activities;
    const { states } = this.classes;
    const isState = (key) => this.hasStates && (STATES[strings[key]] || strings[key] === 'blocked');
    const color = (key) =>
      isState(key) ? this.palette.boxes[states[key] * SHADES] : this.palette.names[this.nameColors[key]];
    return keys
      .sort((a, b) => this.seen[b] - this.seen[a])
      .map((key) => ({ title: strings[key], color: cssOf(color(key)) }));
  }

  /* view: {from, to, rows: [{y, height, lane | counter | …}], steps, matches, isMatch} */
  paint(view) {
    const perNs = this.image.width / (view.to - view.from);
    this.view = view;
    this.perNs = perNs;
    /* pixels begin at multiples of their length: nothing flickers when it is moved */
    this.from = Math.round(view.from * perNs) / perNs;
    this.texts.count = 0;
    for (const key of this.seenKeys) this.seen[key] = 0;
    this.isSeenByName = this.byName; /* the mode may change before the next image */
    this.seenKeys.length = 0;
    this.pixels.fill(this.palette.back);
    for (const row of view.rows) this.paintRow(row);
    this.paintSteps(view.steps);
    this.context.putImageData(this.image, 0, 0);
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    for (const row of view.rows) if (row.counter) this.writeCounter(row);
    this.writeTexts();
  }

  paintRow(row) {
    const top = Math.round(row.y * this.ratio);
    const bottom = Math.round((row.y + row.height) * this.ratio);
    if (row.band) this.fill(0, this.image.width, top, bottom, this.palette.band);
    if (row.counter) this.paintCounter(row, top, bottom);
    else if (row.lane !== undefined) this.paintLane(row, top, bottom - Math.round(this.ratio));
  }

  /* Pixels [x0, x1) of lines [y0, y1). */
  fill(x0, x1, y0, y1, color) {
    const { width, height } = this.image;
    const left = Math.max(0, x0);
    const right = Math.min(width, x1);
    if (left >= right) return;
    const last = Math.min(height, y1);
    for (let y = Math.max(0, y0); y < last; y++) {
      const line = y * width;
      this.pixels.fill(color, line + left, line + right);
    }
  }

  /* One line of pixels, which is then repeated. */
  paintLane(row, top, bottom) {
    const lanes = this.lanes;
    const end = lanes.first[row.lane + 1];
    const { width, height } = this.image;
    const until = this.from + width / this.perNs;
    this.line.fill(this.palette.back);
    let i = lanes.firstAfter(row.lane, this.from);
    while (i < end && lanes.start[i] < until) {
      i = lanes.size[i] * this.perNs >= ONE_BOX ? this.paintBox(row, i) : this.paintMark(i, end);
    }
    const last = Math.min(height, bottom);
    for (let y = Math.max(0, top); y < last; y++) this.pixels.set(this.line, y * width);
  }

  paintBox(row, i) {
    const place = this.lanes.list[i];
    const width = this.activities.dur[place] * this.perNs;
    const x = (this.lanes.start[i] - this.from) * this.perNs;
    const x0 = Math.floor(Math.max(x, 0));
    const x1 = Math.ceil(Math.min(x + width, this.image.width));
    const gap = x1 - x0 > 3 ? 1 : 0;
    this.see(place, x1 - x0);
    this.line.fill(this.shown(this.colorOf(place), this.isFound(i, i + 1), 1), x0, x1 - gap);
    const seen = (x1 - x0) / this.ratio;
    if (seen >= NARROW_TEXT && row.height >= LANE) this.addText(place, x0 / this.ratio, row.y, seen);
    return i + 1;
  }

  /* Merges the activities that begin within one pixel, up to one that is wide enough for a box. */
  paintMark(i, end) {
    const lanes = this.lanes;
    const x = Math.max(0, Math.floor((lanes.start[i] - this.from) * this.perNs));
    const next = this.from + (x + 1) / this.perNs;
    let last = Math.max(i + 1, lanes.firstFrom(i + 1, end, next));
    let best = lanes.longestOf(i, last);
    if (best > i && lanes.size[best] * this.perNs >= ONE_BOX) {
      last = best;
      best = i;
    }
    const share = Math.min(1, (lanes.covered[last] - lanes.covered[i]) * this.perNs);
    const color = this.colorOf(lanes.list[best]);
    this.see(lanes.list[best], 1);
    this.line[x] = this.shown(color, this.isFound(i, last), 0.45 + 0.55 * share);
    return last;
  }

  isFound(i, last) {
    const sums = this.view.matches;
    return !sums || sums[last] > sums[i];
  }

  /* During a search activities that do not match are dimmed. */
  shown(color, found, share) {
    if (!found) return mix(color, this.palette.back, share * this.palette.dim);
    return share < 1 ? mix(color, this.palette.back, share) : color;
  }

  paintSteps(steps) {
    let last = -1;
    for (const step of steps) {
      const x = Math.round((step.start - this.from) * this.perNs);
      if (x < 0 || x >= this.image.width || x === last) continue;
      last = x;
      for (let y = 0; y < this.image.height; y += 2)
        this.pixels[y * this.image.width + x] = this.palette.line;
    }
  }

  addText(place, x, y, width) {
    const t = this.texts;
    t.x[t.count] = x;
    t.y[t.count] = y;
    t.width[t.count] = width;
    t.place[t.count++] = place;
  }

  writeTexts() {
    const { context, texts, activities } = this;
    context.font = FONT;
    context.textBaseline = 'middle';
    context.fillStyle = this.palette.text;
    for (let i = 0; i < texts.count; i++) {
      const id = activities.name[texts.place[i]];
      const text = this.fit(id, texts.width[i] - 7);
      if (text) context.fillText(text, texts.x[i] + 3, texts.y[i] + LANE / 2);
    }
  }

  /* The part of a name that fits into `width`, by the widths of its characters. */
  fit(id, width) {
    const name = labelOf(this.activities.strings[id]);
    if (!this.widths[id]) this.widths[id] = this.context.measureText(name).width || 1;
    if (this.widths[id] <= width) return name;
    let left = width - this.charWidth('…');
    let i = 0;
    while (i < name.length && (left -= this.charWidth(name[i])) >= 0) i++;
    return i < 2 ? '' : name.slice(0, i) + '…';
  }

  charWidth(char) {
    let width = this.chars.get(char);
    if (width === undefined) {
      width = this.context.measureText(char).width;
      this.chars.set(char, width);
    }
    return width;
  }

  /* A step function: the maximum of each pixel. */
  paintCounter(row, top, bottom) {
    const { times, values } = row.counter;
    const color = mix(this.palette.boxes[PYTHON * SHADES + 3], this.palette.back, 0.85);
    const height = bottom - top - Math.round(4 * this.ratio);
    const [least, most] = counterRange(row.counter);
    let i = lastUntil(times, this.from);
    for (let x = 0; x < this.image.width && times.length; x++) {
      const until = this.from + (x + 1) / this.perNs;
      let value = i >= 0 ? values[i] : NaN;
      const next = lastUntil(times, until, Math.max(i, 0));
      if (next > i) value = Math.max(i >= 0 ? value : -Infinity, maxOf(row.counter, i + 1, next + 1));
      i = next;
      if (!(value > least)) continue;
      const size = Math.max(1, Math.round((height * (value - least)) / (most - least || 1)));
      this.fill(x, x + 1, bottom - size - 1, bottom - 1, color);
    }
  }

  writeCounter(row) {
    const [least, most] = counterRange(row.counter);
    this.context.font = FONT;
    this.context.textBaseline = 'top';
    this.context.fillStyle = this.palette.weak;
    const show = isBytes(row.counter.name) ? formatBytes : formatShort;
    this.context.fillText(`${show(least)} … ${show(most)}`, 4, row.y + 3);
  }

  /* A frame around the selection, and lines to its launch. */
  paintMarks(marks) {
    const { context } = this;
    context.lineWidth = 2;
    context.strokeStyle = this.palette.accent;
    for (const box of marks.boxes) context.strokeRect(box.x, box.y, Math.max(2, box.width), LANE - 1);
    context.lineWidth = 1.5;
    for (const line of marks.lines) {
      const middle = (line.x0 + line.x1) / 2;
      context.beginPath();
      context.moveTo(line.x0, line.y0);
      context.bezierCurveTo(middle, line.y0, middle, line.y1, line.x1, line.y1);
      context.stroke();
    }
    if (!marks.range) return;
    const { x0, x1 } = marks.range;
    context.globalAlpha = 0.14;
    context.fillStyle = this.palette.accent;
    context.fillRect(x0, 0, Math.max(1, x1 - x0), this.height);
    context.globalAlpha = 1;
    for (const x of [x0, x1]) context.fillRect(x, 0, 1, this.height);
  }
}

/* Kinds say little where there is one thread or no device; names show what repeats. */
function colorsByName({ tracks, processes }) {
  const threads = tracks.filter((t) => t.count && t.type === 'thread').length;
  const hasDevice = tracks.some((t) => t.count && (t.type === 'stream' || processes[t.process].device));
  return threads === 1 || !hasDevice;
}

/* Drops the result type of kernels' names, which rarely distinguishes them. */
function labelOf(name) {
  return (name.startsWith('void ') ? name.slice(5) : name).slice(0, MAX_LINE_LENGTH);
}

function isBytes(name) {
  return /bytes|memory|allocated|reserved/i.test(name);
}

/* The last sample until a moment, or -1. */
function lastUntil(times, moment, from = 0) {
  let low = from;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function counterBlocks(counter) {
  if (!counter.blocks) {
    counter.blocks = new Float64Array(Math.ceil(counter.values.length / COUNTER_BLOCK)).fill(-Infinity);
    counter.values.forEach((value, i) => {
      const block = Math.floor(i / COUNTER_BLOCK);
      if (value > counter.blocks[block]) counter.blocks[block] = value;
    });
  }
  return counter.blocks;
}

function maxOf(counter, from, end) {
  const blocks = counterBlocks(counter);
  let most = -Infinity;
  for (let i = from; i < end; ) {
    const whole = i % COUNTER_BLOCK === 0 && i + COUNTER_BLOCK <= end;
    most = Math.max(most, whole ? blocks[i / COUNTER_BLOCK] : counter.values[i]);
    i += whole ? COUNTER_BLOCK : 1;
  }
  return most;
}

function counterRange(counter) {
  if (!counter.range) {
    let least = 0;
    for (const value of counter.values) if (value < least) least = value;
    const most = counter.values.length ? maxOf(counter, 0, counter.values.length) : 0;
    counter.range = [least, Math.max(most, least)];
  }
  return counter.range;
}
