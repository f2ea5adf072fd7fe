'use strict';
/* The chart of step times: a stacked bar for each step, or one for each rank of each step. */

const STEP_PARTS = ['kernel', 'communication', 'memcpy', 'memset', 'runtime', 'dataloader', 'cpu', 'other'];
const STEP_TITLES = {
  kernel: 'kernels',
  memcpy: 'copies',
  memset: 'memsets',
  runtime: 'runtime calls',
  dataloader: 'data loader',
  cpu: 'host',
};
const MAX_BARS = 120;
const STEPS_HEIGHT = 176;
const SCALE_WIDTH = 58;

const WHOLE = 'all'; /* the name of the one row of a trace without steps */

function stepTitle(step) {
  if (step === WHOLE) return 'whole recording';
  return /^\d+$/.test(step) ? `step ${step}` : oneLine(step, 40);
}

function showSteps(root, tables) {
  const steps = recordsOf(tables, 'steps');
  if (!steps.length) return;
  const used = STEP_PARTS.filter((p) => steps.some((s) => s[`${p}_us`] > 0));
  const parts = used.map((p, i) => ({ title: STEP_TITLES[p] || p, color: partColor(p, i) }));
  const groups = new Map();
  for (const s of steps) {
    if (!groups.has(s.step)) groups.set(s.step, { title: stepTitle(s.step), name: s.step, bars: [] });
    groups.get(s.step).bars.push({
      title: report.ranks.length > 1 ? `rank ${s.rank}` : '',
      place: timePlace(s.rank, s.start_us, s.dur_us),
      values: used.map((p) => s[`${p}_us`] || 0),
    });
  }
  if (parts.every((p) => p.title === 'other')) return;
  const list = mergeSteps(mergeRanks([...groups.values()]));
  const under = make('div', { class: 'under' }, legend(parts), stepNumbers(tables));
  const chart = steps.length > 1 ? stacks(list, parts, under) : singleStep(list[0], parts);
  root.append(make('div', { class: 'panel' }, chart, steps.length > 1 ? null : under));
}

function stacks(groups, parts, under) {
  const means = groups.map((g) => `${g.title} ${showUs(meanOf(g))}`).join(', ');
  const label = oneLine(`Time of each step by activity: ${means}`, 2000);
  return fittedChart((width) => drawStacks({ label, groups, parts, width }), under);
}

/* One bar needs no axes. */
function singleStep(group, parts) {
  const [bar] = group.bars;
  const pieces = parts.map((p, i) => ({ ...p, value: bar.values[i] }));
  return splitBar(group.title, pieces, sumOf(bar.values), showUs);
}

const sumOf = (values) => values.reduce((s, v) => s + v, 0);
const meanOf = (group) => sumOf(group.bars.map((b) => sumOf(b.values))) / group.bars.length;

/* One bar with the mean values of several, and the range of their sums. */
function meanBar(bars, title) {
  const values = bars[0].values.map((_, v) => sumOf(bars.map((b) => b.values[v])) / bars.length);
  const low = Math.min(...bars.map((b) => b.low ?? sumOf(b.values)));
  const high = Math.max(...bars.map((b) => b.high ?? sumOf(b.values)));
  return { title, values, low, high, place: bars[0].place };
}

/* More bars than fit: the mean of all ranks of a step. */
function mergeRanks(groups) {
  if (sumOf(groups.map((g) => g.bars.length)) <= MAX_BARS) return groups;
  return groups.map((g) =>
    g.bars.length < 2 ? g : { ...g, bars: [meanBar(g.bars, `mean of ${g.bars.length} ranks`)] },
  );
}

/* Still more: the means of neighbouring steps. */
function mergeSteps(groups) {
  const size = Math.ceil(groups.length / MAX_BARS);
  if (size <= 1) return groups;
  const merged = [];
  for (let i = 0; i < groups.length; i += size) {
    const part = groups.slice(i, i + size);
    const title = part.length > 1 ? `${part[0].title} to ${part[part.length - 1].name}` : part[0].title;
    merged.push({
      title,
      name: part[0].name,
      bars: [
        meanBar(
          part.flatMap((g) => g.bars),
          '',
        ),
      ],
    });
  }
  return merged;
}

/* All of the width is used, however few the bars are. */
function drawStacks({ label, groups, parts, width }) {
  const height = STEPS_HEIGHT;
  const most = Math.max(...groups.flatMap((g) => g.bars.map((b) => b.high ?? sumOf(b.values))), 1e-9);
  const slot = (width - SCALE_WIDTH - 4) / groups.length;
  const gap = Math.min(16, slot * 0.16);
  const hasRanks = groups.some((g) => isLabelled(g, (slot - gap) / g.bars.length));
  const svg = makeSvg('svg', {
    viewBox: `0 0 ${width} ${height + (hasRanks ? 36 : 22)}`,
    class: 'stacked',
    role: report.hasTimeline ? 'group' : 'img',
    'aria-label': label,
  });
  drawScale(svg, most, height, width, showUs);
  const every = Math.ceil((Math.max(...groups.map((g) => g.title.length)) * 6.4 + 8) / slot);
  groups.forEach((group, i) => {
    const left = SCALE_WIDTH + i * slot;
    const each = (slot - gap) / group.bars.length;
    group.bars.forEach((bar, k) => {
      const x = left + gap / 2 + k * each;
      const inner = group.bars.length > 1 ? Math.min(2, each * 0.15) : 0;
      svg.append(stackedBar(group, bar, parts, { x, width: Math.max(1, each - inner), height, most }));
      if (isLabelled(group, each)) svg.append(axisText(x + each / 2, height + 14, bar.title));
    });
    if (i % every === 0) {
      const text =
        every > 1 && groups.length > 1 ? group.title : oneLine(group.title, Math.max(8, slot / 6.4));
      svg.append(axisText(Math.max(left + slot / 2, 40), height + (hasRanks ? 29 : 15), text));
    }
  });
  return svg;
}

/* Bars of ranks have their names below them if there is room. */
function isLabelled(group, each) {
  return Boolean(group.bars[0].title) && group.bars[0].high === undefined && each > 46;
}

function axisText(x, y, text) {
  return makeSvg('text', { x, y, class: 'axis middle', text });
}

function stackedBar(group, bar, parts, { x, width, height, most }) {
  const node = makeSvg('g', { class: 'bar' });
  const yOf = (value) => height - (value / most) * (height - 12);
  const words = [];
  let below = 0;
  bar.values.forEach((value, p) => {
    if (!(value > 0)) return;
    const y = yOf(below + value);
    words.push(`${parts[p].title}: ${showUs(value)}`);
    node.append(makeSvg('rect', { x, y, width, height: yOf(below) - y, fill: colorOfPart(parts[p].color) }));
    below += value;
  });
  if (bar.high > bar.low) {
    const middle = x + width / 2;
    node.append(
      makeSvg('line', { x1: middle, x2: middle, y1: yOf(bar.low), y2: yOf(bar.high), class: 'range' }),
    );
    words.push(`from ${showUs(bar.low)} to ${showUs(bar.high)}`);
  }
  const head = [group.title, bar.title].filter((t) => t).join(', ');
  node.append(makeSvg('title', { text: `${head}: ${showUs(below)}\n${words.join('\n')}` }));
  if (!bar.place || !report.hasTimeline) return node;
  const link = makeSvg(
    'a',
    { href: '#timeline', class: 'place', 'aria-label': `${head}, ${showUs(below)}` },
    node,
  );
  link.place = bar.place;
  return link;
}

/* Median, spread and outliers; of several ranks only when one of them is chosen. */
function stepNumbers(tables) {
  const rows = recordsOf(tables, 'step_statistics');
  if (rows.length !== 1) return null;
  const [r] = rows;
  const own = recordsOf(tables, 'mfu').filter((m) => m.mfu_pct !== null && m.rank === r.rank);
  const mean = own.length ? sumOf(own.map((m) => m.mfu_pct)) / own.length : null;
  return make(
    'p',
    { class: 'numbers muted small' },
    `median ${showUs(r.median_us)} of ${r.count}, ± ${showUs(r.mad_us)}, ${showUs(r.min_us)} … ${showUs(r.max_us)}`,
    r.outliers ? `, ${r.outliers} took much longer` : '',
    mean === null ? '' : `; ${formatPercent(mean)} of the device's arithmetic used`,
  );
}
