'use strict';
/* Ranks by time: a row for each rank, a column for each step or slice of time. Darker cells are longer steps,
 * or busier devices. Marks say which ranks are missing, cut off, slow, or waited for. */

const SLICES = 60;
const FEW_STEPS = 3; /* with fewer, slices of time say more */
const COLUMNS_SHOWN = 240;
const MAX_NAMED_RANKS = 4096; /* a world size beyond that is not shown rank by rank */
const SLOW = 1.1; /* times the median of all ranks' step time without communication, in which ranks wait */
const RANK_NAMES = 64; /* pixels of the columns on the left and on the right */
const RANK_MARKS = 84;
const MAP_TOP = 4;
const NAME_HEIGHT = 12;

function median(values) {
  const sorted = values.filter((v) => Number.isFinite(v)).sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
}

const meanOfKnown = (values) => {
  const known = values.filter((v) => Number.isFinite(v));
  return known.length ? known.reduce((s, v) => s + v, 0) / known.length : NaN;
};

/* [{rank, isMissing, isCut}] of all ranks that there should be. */
function listRanks(overview) {
  const traces = (overview && overview.ranks) || [];
  const known = new Map(traces.filter((t) => t.rank >= 0).map((t) => [t.rank, t]));
  for (const rank of report.ranks) if (!known.has(rank)) known.set(rank, { rank });
  const size = (overview && overview.world_size) || 0;
  const isWhole = size <= MAX_NAMED_RANKS && [...known.keys()].every((rank) => rank < size);
  const ranks = isWhole && known.size > 1 ? [...Array(size).keys()] : [...known.keys()].sort((a, b) => a - b);
  return ranks.map((rank) => ({
    rank,
    isMissing: !known.has(rank),
    isCut: Boolean(known.get(rank) && known.get(rank).is_cut),
  }));
}

function rowsOf(tables, name) {
  const table = tables[name];
  return table ? table.rows.map((row) => Object.fromEntries(table.columns.map((c, i) => [c, row[i]]))) : [];
}

/* Measures: [{title, columns: [titles], show, isLongBad, most, of: Map of rank to values}]. These are of steps. */
function measureSteps(tables) {
  const steps = rowsOf(tables, 'steps').filter((s) => s.step !== WHOLE);
  if (!steps.length) return [];
  const names = [...new Set(steps.map((s) => s.step))];
  const size = Math.max(1, Math.ceil(names.length / COLUMNS_SHOWN));
  const columnOf = new Map(names.map((name, i) => [name, Math.floor(i / size)]));
  const count = Math.ceil(names.length / size);
  const read = (valueOf) => {
    const sums = new Map();
    for (const s of steps) {
      if (!sums.has(s.rank))
        sums.set(
          s.rank,
          Array.from({ length: count }, () => []),
        );
      sums.get(s.rank)[columnOf.get(s.step)].push(valueOf(s));
    }
    return new Map([...sums].map(([rank, cells]) => [rank, cells.map(meanOfKnown)]));
  };
  const work = (s) => s.kernel_us + s.memcpy_us + s.memset_us + s.communication_us;
  const columns = Array.from({ length: count }, (_, i) => stepTitle(names[i * size]));
  const measures = [
    { title: 'Step time', columns, show: showUs, isLongBad: true, of: read((s) => s.dur_us) },
  ];
  if (!steps.some((s) => work(s) > 0)) return measures;
  const busy = read((s) => (s.dur_us ? (100 * work(s)) / s.dur_us : NaN));
  return [...measures, { title: 'Device work, part of the step', columns, show: formatPercent, most: 100, of: busy }];
}

/* How much of each slice of time the busiest stream of a rank works, or its busiest thread. */
function measureSlices(timeline) {
  const { activities: a } = timeline;
  const streams = a.tracks.filter((t) => t.count && t.type === 'stream');
  const tracks = streams.length ? streams : a.tracks.filter((t) => t.count && t.type === 'thread');
  const slice = a.length / SLICES;
  const of = new Map();
  for (const track of tracks) {
    const { rank } = a.processes[track.process];
    const busiest = of.get(rank) || new Array(SLICES).fill(0);
    sliceTimes(a, track, slice).forEach((ns, i) => {
      busiest[i] = Math.max(busiest[i], Math.min(100, (100 * ns) / slice));
    });
    of.set(rank, busiest);
  }
  if (of.size < report.ranks.length) return []; /* the timeline may be that of the first rank only */
  const title = streams.length ? 'Busiest stream' : 'Busiest thread';
  const columns = Array.from({ length: SLICES }, (_, i) => `+${formatTime(i * slice)}`);
  return [{ title, columns, show: formatPercent, most: 100, of }];
}

/* Time of the outermost activities of a track in each slice. */
function sliceTimes(a, track, slice) {
  const times = new Float64Array(SLICES);
  for (let i = track.first; i < track.end; i++) {
    if (a.depth[i]) continue;
    const end = a.endOf(i);
    for (let at = a.start[i]; at < end; ) {
      const k = Math.min(SLICES - 1, Math.floor(at / slice));
      const until = k === SLICES - 1 ? end : Math.min(end, (k + 1) * slice);
      if (until <= at) break;
      times[k] += until - at;
      at = until;
    }
  }
  return times;
}

/* A word for what is wrong with each rank. */
function markRanks(ranks, tables) {
  const times = new Map();
  for (const s of rowsOf(tables, 'steps')) times.set(s.rank, [...(times.get(s.rank) || []), s]);
  const meanBy = (read) => new Map([...times].map(([rank, list]) => [rank, meanOfKnown(list.map(read))]));
  const means = meanBy((s) => s.dur_us);
  const own = meanBy((s) => s.dur_us - s.communication_us);
  const usual = median([...own.values()]);
  const awaited = rowsOf(tables, 'rank_causes').map((r) => r.rank);
  for (const r of ranks) {
    r.mean = means.get(r.rank) ?? NaN;
    r.mark = '';
    if (own.size > 1 && own.get(r.rank) > SLOW * usual) r.mark = 'slow';
    if (awaited.includes(r.rank)) r.mark = 'waited for';
    if (r.isCut) r.mark = 'cut off';
    if (r.isMissing) r.mark = 'missing';
  }
}

const MARK_WORDS = {
  missing: 'missing: the world size counts this rank, but there is no trace of it',
  'cut off': 'cut off: the end of the file is missing',
  'waited for': 'waited for: the others wait for this rank',
  slow: 'slow: without communication its steps take 10 % longer than those of the median rank',
};

class RankMap {
  constructor(summary, tables, timeline) {
    this.ranks = listRanks(summary.overview);
    markRanks(this.ranks, tables);
    const steps = measureSteps(tables);
    const slices = timeline ? measureSlices(timeline) : [];
    this.measures =
      steps.length && steps[0].columns.length >= FEW_STEPS ? [...steps, ...slices] : [...slices, ...steps];
    this.measure = 0;
    this.isByWorst = false;
    if (this.measures.length) this.build();
  }

  build() {
    this.canvas = make('canvas', { class: 'rank-map', role: 'img' });
    this.canvas.addEventListener('click', (e) => this.onClick(e));
    this.canvas.addEventListener('pointermove', (e) => this.onMove(e));
    this.canvas.addEventListener('pointerleave', () => report.hideTip());
    this.scroller = make(
      'div',
      { class: 'rank-rows', tabindex: 0, role: 'region', 'aria-label': 'Map of ranks' },
      this.canvas,
    );
    this.scale = make('span', { class: 'scale muted small' });
    const words = [...new Set(this.ranks.map((r) => r.mark))].filter((m) => m).map((m) => MARK_WORDS[m]);
    this.root = make(
      'div',
      { class: 'panel' },
      make('div', { class: 'tools' }, this.makeChoices(), this.scale),
      this.scroller,
      make(
        'p',
        { class: 'muted small' },
        ['A click on a row shows only that rank', ...words].join('; ') + '.',
      ),
    );
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.arrange();
  }

  makeChoices() {
    const pick = (label, options, action) => {
      const list = make(
        'select',
        {},
        ...options.map((text, i) => make('option', { value: String(i) }, text)),
      );
      list.addEventListener('change', () => action(Number(list.value)));
      return make('label', {}, `${label} `, list);
    };
    return make(
      'span',
      { class: 'choices' },
      pick(
        'Show',
        this.measures.map((m) => m.title),
        (i) => {
          this.measure = i;
          this.arrange();
        },
      ),
      pick('Order', ['by rank', 'worst first'], (i) => {
        this.isByWorst = i === 1;
        this.arrange();
      }),
    );
  }

  get shown() {
    return this.measures[this.measure];
  }

  /* Worst: marked ones first, then long steps or idle devices. */
  badness(r) {
    const mean = meanOfKnown(this.shown.of.get(r.rank) || []);
    const marked = ['missing', 'cut off', 'waited for', 'slow'].indexOf(r.mark);
    const value = Number.isFinite(mean) ? mean : 0;
    return [marked < 0 ? 9 : marked, this.shown.isLongBad ? -value : value];
  }

  arrange() {
    const keys = new Map(this.ranks.map((r) => [r, this.badness(r)]));
    this.order = [...this.ranks];
    if (this.isByWorst) {
      this.order.sort((a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        return x[0] - y[0] || x[1] - y[1] || a.rank - b.rank;
      });
    }
    const known = [...this.shown.of.values()].flat().filter((v) => Number.isFinite(v));
    const middle = median(known);
    this.low = this.shown.most ? 0 : known.reduce((m, v) => Math.min(m, v), Infinity);
    this.high = this.shown.most || known.reduce((m, v) => Math.max(m, v), 0);
    /* one very long step must not make all others equal */
    if (!this.shown.most) this.high = Math.max(this.low + 1e-9, Math.min(this.high, middle * 3));
    const marked = this.ranks.filter((r) => r.mark).map((r) => `rank ${r.rank} ${r.mark}`);
    const about = [`${this.shown.title} of ${this.ranks.length} ranks`, ...marked].join(', ');
    this.canvas.setAttribute('aria-label', oneLine(about, 1000));
    this.draw();
  }

  /* Rows with a mark have room for its word. */
  layOut() {
    const high = Math.max(7, Math.min(22, Math.floor(440 / this.order.length)));
    let y = MAP_TOP;
    this.tops = this.order.map((r) => {
      const top = y;
      y += r.mark ? Math.max(NAME_HEIGHT, high) : high;
      return top;
    });
    this.tops.push(y);
    return y;
  }

  /* From pale to strong; in the dark from dim to bright. */
  colorOf(value) {
    const share = Math.max(0, Math.min(1, (value - this.low) / (this.high - this.low || 1)));
    return isDark()
      ? `hsl(212 ${30 + 50 * share}% ${20 + 52 * share}%)`
      : `hsl(212 ${45 + 30 * share}% ${93 - 60 * share}%)`;
  }

  draw() {
    const width = this.scroller.clientWidth;
    if (!width) return;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const end = this.layOut();
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round((end + 18) * ratio);
    this.canvas.style.height = `${end + 18}px`;
    const context = this.canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = this.order.length > 30 ? FONT.replace('11px', '10px') : FONT;
    context.textBaseline = 'middle';
    this.cell = Math.max(1, (width - RANK_NAMES - RANK_MARKS) / this.shown.columns.length);
    const style = getComputedStyle(document.documentElement);
    this.css = (name) => style.getPropertyValue(name).trim();
    this.order.forEach((r, i) => this.drawRow(context, r, this.tops[i], this.tops[i + 1] - this.tops[i]));
    this.drawNames(context);
    this.drawColumns(context, end);
    this.writeScale();
  }

  drawRow(context, r, y, high) {
    const values = this.shown.of.get(r.rank) || [];
    const gap = high > 9 ? 1 : 0;
    context.fillStyle = this.css('--odd');
    context.fillRect(RANK_NAMES, y, this.cell * this.shown.columns.length, high - gap);
    values.forEach((value, c) => {
      if (!Number.isFinite(value)) return;
      context.fillStyle = this.colorOf(value);
      const x = RANK_NAMES + c * this.cell;
      context.fillRect(x, y, Math.max(1, this.cell - (this.cell > 5 ? 1 : 0)), high - gap);
    });
    if (r.isMissing) this.hatch(context, RANK_NAMES, y, this.cell * this.shown.columns.length, high - gap);
    if (r.rank !== report.rank) return;
    context.strokeStyle = this.css('--accent');
    context.lineWidth = 2;
    context.strokeRect(RANK_NAMES - 1, y, this.cell * this.shown.columns.length + 2, high - gap);
  }

  /* Names of marked and chosen ranks first; the others where there is room. */
  drawNames(context) {
    const isImportant = (r) => r.mark || r.rank === report.rank;
    const rows = this.order.map((r, i) => ({ r, y: (this.tops[i] + this.tops[i + 1]) / 2 }));
    const used = [];
    for (const { r, y } of [
      ...rows.filter(({ r }) => isImportant(r)),
      ...rows.filter(({ r }) => !isImportant(r)),
    ]) {
      if (used.some((other) => Math.abs(other - y) < NAME_HEIGHT)) continue;
      used.push(y);
      context.fillStyle = this.css(r.rank === report.rank ? '--accent' : r.mark ? '--high' : '--weak');
      context.fillText(`rank ${r.rank}`, 4, y);
      if (r.mark) context.fillText(r.mark, RANK_NAMES + this.cell * this.shown.columns.length + 6, y);
    }
  }

  hatch(context, x, y, width, height) {
    context.strokeStyle = this.css('--high');
    context.lineWidth = 1;
    context.beginPath();
    for (let at = x; at < x + width; at += 8) {
      context.moveTo(at, y + height);
      context.lineTo(Math.min(at + height, x + width), y);
    }
    context.stroke();
  }

  drawColumns(context, y) {
    const { columns } = this.shown;
    const every = Math.max(1, Math.ceil(70 / this.cell));
    context.fillStyle = this.css('--weak');
    for (let c = 0; c < columns.length; c += every)
      context.fillText(oneLine(columns[c], 16), RANK_NAMES + c * this.cell + 1, y + 9);
  }

  writeScale() {
    const bar = make('span', { class: 'gradient', 'aria-hidden': 'true' });
    bar.style.background = `linear-gradient(to right, ${this.colorOf(this.low)}, ${this.colorOf(this.high)})`;
    this.scale.replaceChildren(this.shown.show(this.low), bar, this.shown.show(this.high));
  }

  /* The rank and the column under the pointer. */
  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const r = this.order[this.tops.findIndex((top) => top > event.clientY - box.top) - 1];
    const column = Math.floor((event.clientX - box.left - RANK_NAMES) / this.cell);
    return { r, column };
  }

  onMove(event) {
    const { r, column } = this.hit(event);
    if (!r) return report.hideTip();
    const value = (this.shown.of.get(r.rank) || [])[column];
    const text = Number.isFinite(value) ? `, ${this.shown.columns[column]}: ${this.shown.show(value)}` : '';
    report.showTip(
      `rank ${r.rank}${text}${r.mark ? `\n${MARK_WORDS[r.mark]}` : ''}`,
      event.clientX,
      event.clientY,
    );
    return undefined;
  }

  /* What is above may become shorter: the map stays where it is in the window. */
  async onClick(event) {
    const { r } = this.hit(event);
    if (!r || r.isMissing) return;
    const { top } = this.root.getBoundingClientRect();
    await report.setRank(r.rank === report.rank ? null : r.rank);
    await nextFrame();
    scrollBy(0, this.root.getBoundingClientRect().top - top);
  }
}

/* The same numbers as a table. */
function rankTable(map, tables) {
  const busy = new Map();
  for (const g of rowsOf(tables, 'gpu_summary'))
    busy.set(g.rank, [...(busy.get(g.rank) || []), g.utilization_pct ?? NaN]);
  const idle = new Map(rowsOf(tables, 'temporal_breakdown').map((t) => [t.rank, t.idle_pct]));
  const counts = new Map();
  for (const s of rowsOf(tables, 'steps')) counts.set(s.rank, (counts.get(s.rank) || 0) + 1);
  const known = (value) => (Number.isFinite(value) ? value : null);
  return {
    title: 'Ranks in numbers',
    columns: ['rank', 'mark', 'steps', 'mean_step_us', 'kernels_of_steps_pct', 'idle_of_first_to_last_work_pct'],
    rows: map.ranks.map((r) => [
      r.rank,
      r.mark,
      counts.get(r.rank) ?? null,
      known(r.mean),
      known(meanOfKnown(busy.get(r.rank) || [])),
      idle.get(r.rank) ?? null,
    ]),
  };
}

function showRanks(root, page) {
  if (report.ranks.length < 2) return;
  if (!page.rankMap || page.rankMap.timeline !== report.timeline) {
    page.rankMap = new RankMap(page.summary, page.tables, report.timeline);
    page.rankMap.timeline = report.timeline;
  }
  if (page.summary.rank_map && !page.rankPath) page.rankPath = new RankPath(page.summary.rank_map);
  if (page.rankPath) root.append(page.rankPath.root);
  if (page.rankMap.root) root.append(page.rankMap.root);
  root.append(page.folded('ranks', rankTable(page.rankMap, page.tables), false));
  if (page.rankMap.root) page.rankMap.draw();
  if (page.rankPath) page.rankPath.draw();
}
