'use strict';
/* The run across ranks: a row for each rank (or some of them), darker where it waits for others or is late, and over
 * it the critical path: which rank was waited for, when, and where the wait goes over to another rank. */

const LEVELS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const MAP_HEIGHT = 460;
const ROW_HEIGHT = [1.5, 18]; /* pixels: least and most */
const PATH_NAMES = 76;
const AXIS_HEIGHT = 22;
const PATH_KINDS = {
  device: { color: '--c-function', words: 'computes' },
  host: { color: '--c-ready', words: 'launches late' },
  transfer: { color: '--c-communication', words: 'transfer' },
  queue: { color: '--c-range', words: 'waits for its stream' },
  unknown: { color: '--c-other', words: 'not recorded' },
};
const MEASURES = [
  ['waiting', 'Waiting for the last rank'],
  ['late', 'Waiting for launches'],
];

/* [{rank (an index), kind, start, end, group, step, isAmbiguous}] */
function readPath(map) {
  let start = 0;
  return map.path.map(([rank, kind, end, group, step, isAmbiguous]) => {
    const part = { rank, kind, start, end, group, step, isAmbiguous: Boolean(isAmbiguous) };
    start = end;
    return part;
  });
}

class RankPath {
  constructor(map) {
    this.map = map;
    this.parts = readPath(map);
    this.slow = new Set(map.slow_groups.map((g) => g.group));
    this.slowRanks = new Set(map.slow_groups.flatMap((g) => g.ranks));
    this.rows = map.waiting.length;
    this.measure = 0;
    this.showWhole();
    this.root = make('div', { class: 'panel rank-path' }, make('h3', {}, 'Waiting, and the critical path across ranks'));
    if (this.rows) this.build();
    this.root.append(...this.sentences().map((text) => make('p', { class: 'muted small' }, text)));
  }

  build() {
    this.canvas = make('canvas', { role: 'img', 'aria-label': this.describe() });
    this.canvas.addEventListener('pointermove', (e) => this.onMove(e));
    this.canvas.addEventListener('pointerleave', () => report.hideTip());
    this.canvas.addEventListener('click', (e) => this.onClick(e));
    this.scale = make('span', { class: 'scale muted small' });
    this.root.append(make('div', { class: 'tools' }, this.makeChoices(), this.scale), this.canvas, this.makeLegend());
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  makeChoices() {
    const pick = (label, options, action) => {
      const list = make('select', {}, ...options.map((text, i) => make('option', { value: String(i) }, text)));
      list.addEventListener('change', () => {
        action(Number(list.value));
        this.draw();
      });
      return make('label', {}, `${label} `, list);
    };
    const steps = this.stepSpans();
    const titles = ['whole run', ...steps.map((s) => `step ${s.step}`)];
    return make(
      'span',
      { class: 'choices' },
      pick(
        'Show',
        MEASURES.map(([, title]) => title),
        (i) => {
          this.measure = i;
        },
      ),
      steps.length > 1
        ? pick('Time', titles, (i) => {
            if (i) [this.from, this.to] = [steps[i - 1].start, steps[i - 1].end];
            else this.showWhole();
          })
        : null,
    );
  }

  showWhole() {
    [this.from, this.to] = [0, this.map.length_ns];
  }

  /* Where the path is in each step. */
  stepSpans() {
    const spans = new Map();
    for (const p of this.parts) {
      if (p.step < 0) continue;
      const span = spans.get(p.step) || { step: p.step, start: p.start, end: p.end };
      span.end = p.end;
      spans.set(p.step, span);
    }
    return [...spans.values()];
  }

  makeLegend() {
    const used = Object.keys(PATH_KINDS).filter((kind) => this.parts.some((p) => p.kind === kind));
    const mark = (color, text) => {
      const box = make('span', { class: 'path-mark', 'aria-hidden': 'true' });
      box.style.background = `var(${color})`;
      return make('span', { class: 'small muted' }, box, text);
    };
    return make(
      'p',
      { class: 'path-legend' },
      make('span', { class: 'small muted' }, 'Critical path:'),
      ...used.map((kind) => mark(PATH_KINDS[kind].color, kind)),
      this.slow.size ? mark('--high', 'transfer over a slow link') : null,
      mark('--text', 'on to another rank'),
    );
  }

  /* Shares of the path by what is on it, the largest first. */
  shares() {
    const sums = new Map();
    for (const p of this.parts) {
      const what = p.kind === 'transfer' && p.group >= 0 ? this.groupName(p.group) : `rank ${this.map.ranks[p.rank]}`;
      sums.set(what, (sums.get(what) || 0) + p.end - p.start);
    }
    return [...sums].sort((a, b) => b[1] - a[1]).map(([what, ns]) => ({ what, share: (100 * ns) / this.map.length_ns }));
  }

  groupName(group) {
    const [name, description] = this.map.groups[group] || [String(group), ''];
    return `transfers of group ${name}${description ? ` (${description})` : ''}`;
  }

  describe() {
    const most = this.shares().slice(0, 4);
    return `Critical path: ${most.map((s) => `${s.what} ${formatPercent(s.share)}`).join(', ')}`;
  }

  sentences() {
    const { map } = this;
    const said = [];
    if (map.refused)
      said.push(`Clocks are not aligned: ${map.refused}; times of different hosts cannot be compared.`);
    if (this.parts.length) said.push(`${this.describe()}.`);
    if (map.absent) said.push(`${map.absent[0].toUpperCase()}${map.absent.slice(1)}.`);
    for (const g of map.slow_groups)
      said.push(`Slow link: transfers of group ${g.name} as in groups of its kind: -${formatTime(g.saved_ns)}.`);
    if (!map.refused && map.hosts > 1) {
      const far = map.clocks.reduce((most, c) => (Math.abs(c.offset_ns) > Math.abs(most.offset_ns) ? c : most));
      const sign = far.offset_ns < 0 ? '-' : '+';
      said.push(
        `Clocks of ${map.hosts} hosts are aligned by the ends of collectives, ± ${formatTime(map.bar_ns)} at most; ` +
          `the largest correction is ${sign}${formatTime(Math.abs(far.offset_ns))} (${far.host}).`,
      );
    }
    if (map.ranks_per_row > 1) said.push(`Each row is the mean of ${map.ranks_per_row} ranks.`);
    return said;
  }

  get rowHeight() {
    return Math.max(ROW_HEIGHT[0], Math.min(ROW_HEIGHT[1], MAP_HEIGHT / this.rows));
  }

  x(ns) {
    return PATH_NAMES + ((ns - this.from) / (this.to - this.from)) * this.width;
  }

  y(rank) {
    return (Math.floor(rank / this.map.ranks_per_row) + 0.5) * this.rowHeight;
  }

  draw() {
    if (!this.canvas) return;
    const full = this.canvas.parentNode ? this.canvas.clientWidth : 0;
    if (!full) return;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const height = Math.round(this.rows * this.rowHeight + AXIS_HEIGHT);
    this.width = full - PATH_NAMES - 8;
    this.canvas.width = Math.round(full * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    context.textBaseline = 'middle';
    const style = getComputedStyle(document.documentElement);
    this.css = (name) => style.getPropertyValue(name).trim();
    this.drawCells(context);
    this.drawPath(context);
    this.drawNames(context);
    this.drawAxis(context);
    this.writeScale();
  }

  /* From nothing to strong. */
  colorOf(share) {
    return isDark()
      ? `hsl(212 ${20 + 40 * share}% ${14 + 42 * share}%)`
      : `hsl(212 ${40 + 20 * share}% ${97 - 42 * share}%)`;
  }

  drawCells(context) {
    const cells = this.map[MEASURES[this.measure][0]];
    const slice = this.map.length_ns / this.map.columns;
    const gap = this.rowHeight > 8 ? 1 : 0;
    context.save();
    context.beginPath();
    context.rect(PATH_NAMES, 0, this.width, this.rows * this.rowHeight);
    context.clip();
    context.fillStyle = this.colorOf(0);
    context.fillRect(PATH_NAMES, 0, this.width, this.rows * this.rowHeight - gap);
    cells.forEach((text, row) => {
      for (let i = 0; i < text.length; i++) {
        const level = LEVELS.indexOf(text[i]);
        if (!level) continue;
        const left = Math.round(this.x(i * slice));
        const top = Math.round(row * this.rowHeight);
        const bottom = Math.round((row + 1) * this.rowHeight) - gap;
        context.fillStyle = this.colorOf(level / 63);
        context.fillRect(left, top, Math.round(this.x((i + 1) * slice)) - left, bottom - top);
      }
    });
    context.restore();
  }

  colorOfPart(p) {
    return this.css(p.kind === 'transfer' && this.slow.has(p.group) ? '--high' : PATH_KINDS[p.kind].color);
  }

  drawPath(context) {
    const thick = Math.max(3, Math.min(7, this.rowHeight * 0.5));
    context.save();
    context.beginPath();
    context.rect(PATH_NAMES, 0, this.width, this.rows * this.rowHeight);
    context.clip();
    const shown = this.parts.filter((p) => p.end > this.from && p.start < this.to);
    context.strokeStyle = this.css('--text');
    context.globalAlpha = shown.length > 400 ? 0.35 : 0.8;
    context.lineWidth = 1;
    context.beginPath();
    shown.forEach((p, i) => {
      if (!i || shown[i - 1].rank === p.rank) return;
      context.moveTo(this.x(p.start), this.y(shown[i - 1].rank));
      context.lineTo(this.x(p.start), this.y(p.rank));
    });
    context.stroke();
    context.globalAlpha = 1;
    for (const p of shown) {
      context.fillStyle = this.colorOfPart(p);
      context.fillRect(this.x(p.start), this.y(p.rank) - thick / 2, Math.max(1, this.x(p.end) - this.x(p.start)), thick);
    }
    context.restore();
  }

  /* Ranks of slow links have a mark; the others names where there is room. */
  drawNames(context) {
    let used = -NAME_HEIGHT;
    const perRow = this.map.ranks_per_row;
    const slowRows = new Set([...this.slowRanks].map((r) => Math.floor(r / perRow)));
    for (let row = 0; row < this.rows; row++) {
      if (slowRows.has(row)) {
        context.fillStyle = this.css('--high');
        context.fillRect(PATH_NAMES - 5, row * this.rowHeight, 3, Math.max(1, this.rowHeight - 1));
      }
      const y = Math.max(6, (row + 0.5) * this.rowHeight);
      if (y - used < NAME_HEIGHT) continue;
      used = y;
      context.fillStyle = this.css('--weak');
      context.fillText(`rank ${this.map.ranks[row * perRow]}`, 4, y);
    }
  }

  drawAxis(context) {
    const y = this.rows * this.rowHeight + 11;
    const wanted = Math.max(2, Math.floor(this.width / 110));
    context.fillStyle = this.css('--weak');
    const last = `+${formatTime(this.to)}`;
    const end = PATH_NAMES + this.width - context.measureText(last).width;
    context.fillText(last, end, y);
    for (let i = 0; i < wanted; i++) {
      const ns = this.from + ((this.to - this.from) * i) / wanted;
      const text = `+${formatTime(ns)}`;
      if (this.x(ns) + context.measureText(text).width + 10 < end) context.fillText(text, this.x(ns), y);
    }
  }

  writeScale() {
    const bar = make('span', { class: 'gradient', 'aria-hidden': 'true' });
    bar.style.background = `linear-gradient(to right, ${this.colorOf(0)}, ${this.colorOf(1)})`;
    this.scale.replaceChildren('0 %', bar, '100 % of the time');
  }

  /* Row, column and part of the path under the pointer. */
  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / this.rowHeight);
    const ns = this.from + ((event.clientX - box.left - PATH_NAMES) / this.width) * (this.to - this.from);
    if (row < 0 || row >= this.rows || ns < this.from || ns > this.to) return null;
    return { row, ns, part: this.parts.find((p) => ns < p.end) };
  }

  onMove(event) {
    const at = this.hit(event);
    if (!at) return report.hideTip();
    const [key, title] = MEASURES[this.measure];
    const column = Math.min(this.map.columns - 1, Math.floor((at.ns / this.map.length_ns) * this.map.columns));
    const share = (100 * LEVELS.indexOf(this.map[key][at.row][column])) / 63;
    const first = this.map.ranks[at.row * this.map.ranks_per_row];
    const who = `rank ${first}${this.map.ranks_per_row > 1 ? ' and next' : ''}`;
    const lines = [`${who}, +${formatTime(at.ns)}: ${title.toLowerCase()} ${formatPercent(share)}`];
    if (at.part) lines.push(this.tellPart(at.part));
    report.showTip(lines.join('\n'), event.clientX, event.clientY);
    return undefined;
  }

  tellPart(p) {
    const rank = `rank ${this.map.ranks[p.rank]} ${PATH_KINDS[p.kind].words}`;
    const who = p.kind === 'transfer' && p.group >= 0 ? this.groupName(p.group) : rank;
    const unsure = p.isAmbiguous ? ' (which rank came last is within the error of the clocks)' : '';
    return `critical path: ${who}, ${formatTime(p.end - p.start)}${p.step >= 0 ? `, step ${p.step}` : ''}${unsure}`;
  }

  onClick(event) {
    const at = this.hit(event);
    if (!at || this.map.ranks_per_row > 1) return;
    const rank = this.map.ranks[at.row];
    report.setRank(rank === report.rank ? null : rank);
  }
}
