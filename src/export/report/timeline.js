'use strict';
/* The timeline: the visible range of time, and navigation by mouse, wheel, touch and keys. The browser
 * scrolls lines; the image keeps its position and is redrawn. */

const CLOSEST = 100; /* ns: the shortest visible range */
const CLICK = 4; /* pixels: a press that moved further is a drag */
const FRAMES_KEPT = 400;

/* Arguments in the tip: key, title, and how a number is shown. */
const TIP_ARGS = {
  thread_state: [
    ['cpu', 'CPU'],
    ['in', 'in'],
  ],
  cpu_sample: [
    ['cpu_ns', 'CPU time', formatTime],
    ['samples', 'samples'],
    ['module', 'in'],
  ],
};

class Timeline {
  constructor(root, activities, lanes) {
    this.activities = activities;
    this.lanes = lanes;
    this.rows = new Rows(activities, lanes);
    this.from = 0;
    this.to = activities.length;
    this.selected = -1;
    this.range = null;
    this.matches = null;
    this.links = [];
    this.frames = [];
    this.build(root);
    this.painter = new Painter(this.canvas, activities, lanes);
    this.ruler = new Ruler(this.rulerCanvas, this);
    this.listen();
    this.writeRulerNote();
    this.resize();
    this.fitAll();
  }

  build(root) {
    this.canvas = make('canvas', {
      class: 'picture',
      tabindex: 0,
      role: 'application',
      'aria-roledescription': 'timeline',
      'aria-label':
        'Timeline. Keys W A S D move and zoom, Shift with arrows selects, question mark lists all.',
    });
    this.rulerCanvas = make('canvas', { class: 'ruler', 'aria-hidden': 'true' });
    this.names = make('div', { class: 'names' });
    this.spacer = make('div', { class: 'spacer' }, this.names, make('div', { class: 'pin' }, this.canvas));
    this.scroller = make('div', { class: 'scroller', tabindex: -1 }, this.spacer);
    this.rulerNote = make('span', { class: 'ruler-note' });
    this.frame = make('div', { class: 'frame' }, this.rulerNote, this.rulerCanvas, this.scroller);
    root.append(this.frame);
  }

  get width() {
    return this.painter.width;
  }

  get perNs() {
    return this.width / (this.to - this.from);
  }

  /* Does nothing while the timeline is hidden, as in print. */
  resize() {
    if (!this.scroller.clientWidth && this.nameWidth) return;
    this.nameWidth = this.names.offsetWidth;
    const width = this.scroller.clientWidth - this.nameWidth;
    this.scroller.style.height = `${Math.min(this.rows.height + 8, Math.max(240, innerHeight * 0.62))}px`;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.painter.resize(width, this.scroller.clientHeight, ratio);
    this.canvas.style.width = `${this.painter.width}px`;
    this.canvas.style.height = `${this.painter.height}px`;
    this.ruler.resize(this.painter.width, ratio, this.nameWidth);
    this.layOut();
  }

  /* After lines were opened or closed. */
  layOut() {
    this.spacer.style.height = `${Math.max(this.rows.height, this.painter.height)}px`;
    this.redraw();
  }

  redraw() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  draw() {
    const began = performance.now();
    const top = this.scroller.scrollTop;
    const rows = this.rows.drawnLines(top, this.painter.height);
    const steps = this.shownSteps();
    this.painter.paint({ from: this.from, to: this.to, rows, steps, matches: this.matches });
    this.painter.paintMarks(this.marks(top));
    this.ruler.draw();
    this.writeNames(top);
    if (this.legend) this.legend.update();
    this.frames.push(performance.now() - began);
    if (this.frames.length > FRAMES_KEPT) this.frames.shift();
  }

  /* Steps of several ranks would hide each other: those of the first one are shown. */
  rankOfSteps() {
    const { steps } = this.activities;
    if (this.rows.rank !== null || report.ranks.length < 2 || !steps.length) return this.rows.rank;
    return Math.min(...steps.map((s) => s.rank));
  }

  shownSteps() {
    const rank = this.rankOfSteps();
    return this.activities.steps.filter((s) => rank === null || s.rank === rank);
  }

  xOf(moment) {
    return (moment - this.from) * this.perNs;
  }

  timeAt(x) {
    return this.from + x / this.perNs;
  }

  boxOf(place, top) {
    const y = this.rows.yOf(place);
    if (y === null) return null;
    const start = this.activities.start[place];
    const x = Math.max(-10, this.xOf(start));
    const end = Math.min(this.width + 10, this.xOf(start + this.activities.dur[place]));
    return { x, y: y - top, width: end - x };
  }

  marks(top) {
    const boxes = [];
    const lines = [];
    const own = this.selected >= 0 ? this.boxOf(this.selected, top) : null;
    if (own) boxes.push(own);
    for (const [from, to] of this.links) {
      const a = this.boxOf(from, top);
      const b = this.boxOf(to, top);
      if (a && b) lines.push({ x0: a.x, y0: a.y + LANE / 2, x1: b.x, y1: b.y + LANE / 2 });
      const other = from === this.selected ? b : a;
      if (other && boxes.length < 64) boxes.push(other);
    }
    const range = this.range && { x0: this.xOf(this.range[0]), x1: this.xOf(this.range[1]) };
    return { boxes, lines, range };
  }

  /* Only the names that are in view, and only when they changed. */
  writeNames(top) {
    const rows = this.rows.between(top - 200, this.painter.height + 400);
    const key = rows.map((r) => `${r.y}:${r.name}:${this.rows.isOpen(r)}`).join('|');
    if (key === this.namesKey) return;
    this.namesKey = key;
    const focused = document.activeElement && document.activeElement.rowKey;
    this.names.replaceChildren(...rows.map((row) => this.nameOf(row)));
    const again = [...this.names.children].find((n) => focused && n.rowKey === focused);
    if (again) again.focus({ preventScroll: true });
  }

  nameOf(row) {
    const isFixed = row.type === 'counter' || row.depth === 1;
    const node = make(
      isFixed ? 'div' : 'button',
      {
        class: row.shows ? `name ${row.type} ${row.shows}` : `name ${row.type}`,
        type: isFixed ? null : 'button',
        title: oneLine(row.name),
        'aria-expanded': isFixed ? null : String(this.rows.isOpen(row)),
        onclick: isFixed ? null : () => this.toggle(row),
      },
      make('span', {}, oneLine(row.name, 120)),
    );
    node.rowKey = `${row.type} ${row.process ?? row.track ?? row.name}`;
    node.style.top = `${row.y}px`;
    node.style.height = `${row.height}px`;
    return node;
  }

  toggle(row) {
    this.rows.toggle(row);
    this.resize();
  }

  /* ---- the visible range ---- */

  show(from, to) {
    const length = Math.max(CLOSEST, Math.min(to - from, this.activities.length * 1.04));
    const middle = (from + to) / 2;
    const most = this.activities.length * 1.02 - length;
    this.from = Math.max(-0.02 * this.activities.length, Math.min(middle - length / 2, most));
    this.to = this.from + length;
    this.redraw();
  }

  fitAll() {
    this.show(-0.01 * this.activities.length, 1.01 * this.activities.length);
  }

  zoom(factor, x = this.width / 2) {
    const at = this.timeAt(x);
    const length = Math.max(CLOSEST, (this.to - this.from) * factor);
    const from = at - (x / this.width) * length;
    this.show(from, from + length);
  }

  pan(pixels) {
    const by = pixels / this.perNs;
    this.show(this.from + by, this.to + by);
  }

  scrollBy(pixels) {
    this.scroller.scrollTop += pixels;
  }

  /* An activity, with something around it. */
  goTo(place) {
    const rank = this.activities.rankOf(place);
    if (this.rows.rank !== null && this.rows.rank !== rank) report.setRank(rank);
    if (this.rows.show(place)) this.layOut();
    const dur = Math.max(this.activities.dur[place], 200);
    const middle = this.activities.start[place] + dur / 2;
    const length = Math.min(this.activities.length, Math.max(dur * 3, CLOSEST));
    this.show(middle - length / 2, middle + length / 2);
    this.select(place);
    this.scrollTo(place);
  }

  scrollTo(place) {
    const y = this.rows.yOf(place);
    const top = this.scroller.scrollTop;
    if (y === null || (y >= top && y + LANE <= top + this.painter.height)) return;
    this.scroller.scrollTop = y - this.painter.height / 2;
  }

  goToRange(start, end) {
    const around = Math.max((end - start) * 0.15, CLOSEST / 2);
    this.show(start - around, end + around);
    this.setRange(end > start ? [start, end] : null);
  }

  select(place) {
    this.selected = place;
    this.links = [];
    if (place >= 0) {
      const from = this.activities.link[place];
      if (from >= 0) this.links.push([from, place]);
      for (const to of this.activities.launchedBy(place, 64)) this.links.push([place, to]);
    }
    this.redraw();
    report.details.showActivity(place);
  }

  setRange(range) {
    this.range = range;
    this.redraw();
    report.details.showRange(range);
  }

  writeRulerNote() {
    const rank = this.rankOfSteps();
    const isShown = report.ranks.length > 1 && rank !== null;
    this.rulerNote.textContent = isShown ? `steps of rank ${rank}` : '';
  }

  setRank(rank) {
    this.rows.rank = rank;
    this.rows.arrange();
    this.writeRulerNote();
    this.resize();
  }

  /* ---- input ---- */

  listen() {
    this.scroller.addEventListener('scroll', () => this.redraw(), { passive: true });
    this.frame.addEventListener('wheel', (e) => this.onWheel(e), { passive: false });
    this.canvas.addEventListener('keydown', (e) => this.onKey(e));
    this.canvas.addEventListener('dblclick', (e) => this.onDoubleClick(e));
    this.canvas.addEventListener('pointerleave', () => report.hideTip());
    this.fingers = new Map();
    for (const node of [this.canvas, this.rulerCanvas]) {
      node.addEventListener('pointerdown', (e) => this.onDown(e, node));
      node.addEventListener('pointermove', (e) => this.onMove(e, node));
      node.addEventListener('pointerup', (e) => this.onUp(e, node));
      node.addEventListener('pointercancel', (e) => this.onUp(e, node, true));
    }
    new ResizeObserver(() => this.resize()).observe(this.frame);
    addEventListener('resize', () => this.resize());
  }

  xIn(event) {
    return event.clientX - this.canvas.getBoundingClientRect().left;
  }

  yIn(event) {
    return event.clientY - this.canvas.getBoundingClientRect().top + this.scroller.scrollTop;
  }

  /* With Ctrl (also two fingers on a touch pad) it zooms, sideways or with Shift it moves; else the
   * browser scrolls lines, and the page where there are no more. */
  onWheel(event) {
    const unit = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) {
      this.zoom(Math.exp((event.deltaY * unit) / 300), this.xIn(event));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan((event.deltaX || event.deltaY) * unit);
    } else {
      return;
    }
    event.preventDefault();
  }

  onDown(event, node) {
    if (event.button) return;
    if (node === this.canvas) node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    this.fingers.set(event.pointerId, { x: this.xIn(event), y: event.clientY });
    this.press = {
      x: this.xIn(event),
      y: event.clientY,
      moved: 0,
      at: this.timeAt(this.xIn(event)),
      marks: event.shiftKey || node === this.rulerCanvas,
    };
    report.hideTip();
  }

  onMove(event, node) {
    const finger = this.fingers.get(event.pointerId);
    if (!finger) return this.onHover(event, node);
    const x = this.xIn(event);
    if (this.fingers.size === 2) return this.pinch(event, finger, x);
    const before = finger.x;
    this.press.moved = Math.max(
      this.press.moved,
      Math.abs(x - this.press.x),
      Math.abs(event.clientY - this.press.y),
    );
    if (this.press.marks) this.dragRange(x);
    else if (this.press.moved > CLICK) {
      this.pan(before - x);
      if (event.pointerType === 'mouse') this.scrollBy(finger.y - event.clientY);
    }
    finger.x = x;
    finger.y = event.clientY;
    return undefined;
  }

  pinch(event, finger, x) {
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)[1];
    const before = Math.abs(finger.x - other.x);
    const after = Math.abs(x - other.x);
    if (before > 5 && after > 5) this.zoom(before / after, other.x);
    finger.x = x;
    this.press.moved = Infinity;
  }

  dragRange(x) {
    const now = this.timeAt(x);
    this.range = this.press.at < now ? [this.press.at, now] : [now, this.press.at];
    this.redraw();
  }

  onUp(event, node, isLost = false) {
    if (!this.fingers.delete(event.pointerId) || isLost) return;
    if (this.press.moved > CLICK) {
      if (this.press.marks) this.setRange(this.range);
      return;
    }
    if (node === this.canvas) this.select(this.hit(event));
    if (this.range) this.setRange(null);
  }

  hit(event) {
    const lane = this.rows.laneAt(this.yIn(event));
    return lane === null ? -1 : this.lanes.at(lane, this.timeAt(this.xIn(event)), 3 / this.perNs);
  }

  onHover(event, node) {
    const y = this.yIn(event);
    const place = node === this.canvas ? this.hit(event) : -1;
    const counter = node === this.canvas ? this.rows.counterAt(y) : null;
    const time = this.timeAt(this.xIn(event));
    this.hovered = place;
    if (place >= 0) {
      const text = `${oneLine(this.activities.nameOf(place), 300)}\n${formatTime(this.activities.dur[place])}`;
      report.showTip(text, event.clientX, event.clientY);
      this.addToTip(place, text, event.clientX, event.clientY);
    } else if (counter) {
      const i = lastUntil(counter.times, time);
      const show = isBytes(counter.name) ? formatBytes : formatShort;
      report.showTip(
        `${counter.name}\n${i < 0 ? '–' : show(counter.values[i])}`,
        event.clientX,
        event.clientY,
      );
    } else {
      report.hideTip();
    }
  }

  /* What a state or a sampled function has in its arguments, which may have to be decoded first. */
  async addToTip(place, text, x, y) {
    const keys = TIP_ARGS[this.activities.kinds[this.activities.kind[place]]];
    const values = keys && (await this.activities.args(place).catch(() => null));
    if (!values || this.hovered !== place || byId('tip').hidden) return;
    const more = keys
      .filter(([key]) => values[key] !== undefined)
      .map(
        ([key, title, show]) =>
          `${title} ${show ? show(Number(values[key])) : oneLine(String(values[key]), 200)}`,
      );
    report.showTip([text, ...more].join('\n'), x, y);
  }

  onDoubleClick(event) {
    const place = this.hit(event);
    if (place >= 0) this.goTo(place);
    else this.zoom(0.4, this.xIn(event));
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = event.shiftKey ? this.selectionKey(event.key) : this.moveKey(event.key);
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  }

  moveKey(key) {
    const step = this.width / 8;
    switch (key) {
      case 'w':
      case '+':
      case '=':
        return () => this.zoom(0.7);
      case 's':
      case '-':
        return () => this.zoom(1 / 0.7);
      case 'a':
      case 'ArrowLeft':
        return () => this.pan(-step);
      case 'd':
      case 'ArrowRight':
        return () => this.pan(step);
      case 'ArrowUp':
        return () => this.scrollBy(-3 * LANE);
      case 'ArrowDown':
        return () => this.scrollBy(3 * LANE);
      case 'PageUp':
        return () => this.scrollBy(-this.painter.height * 0.9);
      case 'PageDown':
        return () => this.scrollBy(this.painter.height * 0.9);
      case '0':
      case 'Home':
        return () => this.fitAll();
      case 'f':
      case 'Enter':
        return () => this.zoomToSelection();
      case 'm':
        return () => this.markSelection();
      case 'c':
        return () => this.toggleSelected();
      case 'Escape':
        return () => this.clear();
      default:
        return null;
    }
  }

  /* Shift and arrow keys select neighbouring activities. */
  selectionKey(key) {
    const walk = {
      ArrowLeft: (p) => this.lanes.neighbour(p, -1),
      ArrowRight: (p) => this.lanes.neighbour(p, 1),
      ArrowUp: (p) => this.activities.parentOf(p),
      ArrowDown: (p) => this.lanes.within(p),
    }[key];
    if (key === 'C') return () => this.toggleAll();
    if (key === '+') return () => this.zoom(0.7);
    return walk ? () => this.walk(walk) : null;
  }

  walk(step) {
    const next = this.selected < 0 ? this.firstInView() : step(this.selected);
    if (next < 0) return announce('no further activity in this direction');
    if (this.rows.show(next)) this.layOut();
    this.select(next);
    this.scrollTo(next);
    const { start } = this.activities;
    if (this.activities.endOf(next) < this.from || start[next] > this.to) {
      const half = (this.to - this.from) / 2;
      this.show(start[next] - half, start[next] + half);
    }
    return undefined;
  }

  firstInView() {
    for (const row of this.rows.drawnLines(this.scroller.scrollTop, this.painter.height)) {
      if (row.lane === undefined) continue;
      const i = this.lanes.firstAfter(row.lane, this.from);
      if (i < this.lanes.first[row.lane + 1] && this.lanes.start[i] < this.to) return this.lanes.list[i];
    }
    return -1;
  }

  zoomToSelection() {
    if (this.range) this.goToRange(...this.range);
    else if (this.selected >= 0) this.goTo(this.selected);
  }

  markSelection() {
    if (this.selected < 0) return;
    this.setRange([this.activities.start[this.selected], this.activities.endOf(this.selected)]);
  }

  toggleSelected() {
    if (this.selected < 0) return;
    const row = this.rows.trackRows.get(this.activities.trackOf(this.selected));
    if (row) this.toggle(row);
  }

  toggleAll() {
    this.allOpen = !this.allOpen;
    this.rows.setAll(this.allOpen);
    this.resize();
  }

  clear() {
    if (this.range) this.setRange(null);
    else this.select(-1);
  }

  /* An image for print: light colours, with times and names. */
  asImage() {
    this.painter.setPalette(false);
    this.draw();
    const { ratio } = this.painter;
    const left = Math.round(this.nameWidth * ratio);
    const top = this.rulerCanvas.height;
    const paper = make('canvas', { class: 'paper', 'aria-label': 'The timeline', role: 'img' });
    paper.width = left + this.canvas.width;
    paper.height = top + this.canvas.height;
    const context = paper.getContext('2d');
    context.fillStyle = this.painter.palette.backText;
    context.fillRect(0, 0, paper.width, paper.height);
    context.drawImage(this.rulerCanvas, left, 0);
    context.drawImage(this.canvas, left, top);
    context.setTransform(ratio, 0, 0, ratio, 0, top);
    this.writeNamesOn(context);
    this.painter.setPalette(isDark());
    this.draw();
    return paper;
  }

  writeNamesOn(context) {
    const scrolled = this.scroller.scrollTop;
    context.font = FONT;
    context.textBaseline = 'top';
    context.fillStyle = this.painter.palette.text;
    context.beginPath();
    context.rect(0, 0, this.nameWidth - 6, this.painter.height);
    context.clip();
    for (const row of this.rows.between(scrolled, this.painter.height)) {
      context.fillText(oneLine(row.name, 60), row.type === 'process' ? 4 : 14, row.y - scrolled + 4);
    }
  }
}
