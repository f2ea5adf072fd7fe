'use strict';
/* The overview: time of threads and devices. Each panel is shown if its table has rows. */

const RANKS_SHOWN = 32;
const REASONS_SHOWN = 10;
const THREADS_SHOWN = 16;
const FUNCTIONS_SHOWN = 12;

/* Rows of a table as objects, of the chosen rank. */
function recordsOf(tables, name) {
  const table = tables[name];
  if (!table) return [];
  return table.rows
    .map((row) => Object.fromEntries(table.columns.map((c, i) => [c, row[i]])))
    .filter((r) => report.rank === null || r.rank === undefined || r.rank === null || r.rank === report.rank);
}

const showUs = (us) => formatTime(us * 1e3);

function rankText(record) {
  return report.ranks.length > 1 ? `rank ${record.rank}` : '';
}

function panel(title, ...children) {
  return make('div', { class: 'panel' }, make('h3', {}, title), ...children);
}

function showOverview(root, tables) {
  const parts = [
    statesPanel(tables),
    functionsPanel(tables),
    temporalPanel(tables),
    devicesPanel(tables),
    idlePanel(tables),
    kernelTypesPanel(tables),
  ].filter((p) => p);
  if (parts.length) root.append(make('div', { class: 'panels' }, ...parts));
}

/* Threads with the most time on a CPU, each with the time in its states. */
function statesPanel(tables) {
  const rows = recordsOf(tables, 'thread_states').sort((a, b) => b.running_us - a.running_us);
  if (!rows.length) return null;
  const states = ['running', 'waiting', 'blocked'];
  const titles = ['running', 'waiting for a CPU', 'blocked'];
  const bars = rows.slice(0, THREADS_SHOWN).map((r) =>
    splitBar(
      [rankText(r), r.thread].filter((t) => t).join(' · '),
      states.map((s, i) => ({ title: titles[i], value: r[`${s}_us`], color: partColor(s, i) })),
      r.lifetime_us,
      showUs,
    ),
  );
  const more = rows.length - bars.length;
  const legendParts = states.map((s, i) => ({ title: titles[i], color: partColor(s, i) }));
  return panel(
    'Threads',
    ...bars,
    more > 0 ? make('p', { class: 'muted small' }, `and ${formatNumber(more, 0)} more`) : null,
    legend(legendParts),
  );
}

function functionsPanel(tables) {
  const rows = recordsOf(tables, 'cpu_functions')
    .filter((r) => r.self_us > 0)
    .sort((a, b) => b.self_us - a.self_us);
  if (!rows.length) return null;
  const items = rows.slice(0, FUNCTIONS_SHOWN).map((r) => ({
    title: r.function,
    value: r.self_us,
    share: r.self_pct,
    color: 'function',
  }));
  return panel('Functions by their own CPU time', barList(items, showUs));
}

function temporalPanel(tables) {
  const rows = recordsOf(tables, 'temporal_breakdown');
  if (!rows.length) return null;
  const bars = rows.slice(0, RANKS_SHOWN).map((r) =>
    splitBar(
      rankText(r) || 'device',
      [
        { title: 'compute', value: r.compute_us, color: 'kernel' },
        { title: 'copies and communication only', value: r.non_compute_us, color: 'communication' },
        { title: 'idle', value: r.idle_us, color: 'idle' },
      ],
      r.kernel_us,
      showUs,
    ),
  );
  return panel(
    'Time of devices',
    ...bars,
    legend([
      { title: 'compute', color: 'kernel' },
      { title: 'copies and communication only', color: 'communication' },
      { title: 'idle', color: 'idle' },
    ]),
  );
}

function devicesPanel(tables) {
  const rows = recordsOf(tables, 'gpu_summary');
  if (!rows.length) return null;
  if (rows.length > 2) return panel('GPU utilization', busyBars(rows));
  const lines = rows.map((r) =>
    make(
      'div',
      { class: 'device' },
      make('h4', {}, [rankText(r), `device ${r.gpu}`, r.name].filter((t) => t).join(' · ')),
      make(
        'dl',
        { class: 'meters' },
        ...[
          ['busy', r.utilization_pct],
          ['multiprocessors busy', r.sm_efficiency_pct],
          ['occupancy reached', r.achieved_occupancy_pct],
          ['tensor cores', r.tc_pct],
        ].flatMap(([name, value]) => [
          make('dt', {}, name),
          make(
            'dd',
            { 'data-value': String(value) },
            meter((value || 0) / 100, `${name} ${formatPercent(value)}`),
            formatPercent(value),
          ),
        ]),
      ),
    ),
  );
  return panel('GPU utilization', ...lines);
}

/* One bar per device if there are many; the table has the other numbers. */
function busyBars(rows) {
  const items = rows.slice(0, RANKS_SHOWN).map((r) => ({
    title: [rankText(r), `device ${r.gpu}`].filter((t) => t).join(' · '),
    value: r.utilization_pct || 0,
    color: 'kernel',
  }));
  return barList(items, (value) => formatPercent(value), 100);
}

function idlePanel(tables) {
  const rows = recordsOf(tables, 'idle_named').filter((r) => r.stream === -1);
  if (!rows.length) return null;
  const sums = new Map();
  for (const r of rows) {
    const sum = sums.get(r.reason) || { title: r.reason.replace(/_/g, ' '), value: 0, count: 0 };
    sum.value += r.idle_us;
    sum.count += r.count;
    sums.set(r.reason, sum);
  }
  const all = [...sums].map(([reason, s], i) => ({
    ...s,
    color: partColor(reason, i),
    place: longestGap(tables, reason),
  }));
  const total = all.reduce((s, r) => s + r.value, 0) || 1;
  all.sort((a, b) => b.value - a.value);
  for (const r of all) r.share = (r.value / total) * 100;
  return panel('Why devices were idle', barList(all.slice(0, REASONS_SHOWN), showUs));
}

function longestGap(tables, reason) {
  const gaps = recordsOf(tables, 'idle_gaps').filter((g) => g.reason === reason && g.stream === -1);
  const longest = gaps.reduce((best, g) => (best && best.dur_us >= g.dur_us ? best : g), null);
  return longest && timePlace(longest.rank, longest.start_us, longest.dur_us);
}

function kernelTypesPanel(tables) {
  const rows = recordsOf(tables, 'kernel_types');
  if (!rows.length) return null;
  const items = rows.map((r, i) => ({
    title: r.kernel_type.toLowerCase().replaceAll(' overlapping ', ' + '), // at once; it has to fit
    value: r.sum_us,
    share: r.percentage,
    color: partColor(r.kernel_type.toLowerCase(), i),
  }));
  return panel('Kinds of device work', barList(items, showUs));
}

/* ---- memory: curves from counters of the timeline, or from a memory timeline ---- */

function memoryCurves(root, tables, timeline) {
  const drawn = memoryTable(tables) || (timeline ? memoryCounters(timeline) : []);
  for (const group of drawn) {
    root.prepend(panel(group.title, curves(group.title, group.lines, group.length, formatBytes)));
  }
}

function memoryCounters(timeline) {
  const { activities } = timeline;
  const groups = new Map();
  activities.counters.forEach((counter) => {
    const process = activities.processes[counter.process];
    if (!isBytes(counter.name) || !counter.count || !activities.isOfRank(counter.process, report.rank))
      return;
    if (!groups.has(process)) groups.set(process, []);
    groups.get(process).push(counter);
  });
  return [...groups].slice(0, 8).map(([process, counters]) => ({
    title: `Memory: ${process.name}`,
    length: activities.length,
    lines: counters
      .slice(0, 8)
      .map((c, i) => ({ ...c, title: c.name, color: SPARE_COLORS[i % SPARE_COLORS.length] })),
  }));
}

function memoryTable(tables) {
  const rows = recordsOf(tables, 'memory_timeline');
  if (!rows.length) return null;
  const lines = new Map();
  const first = rows[0].ts_us;
  for (const r of rows) {
    if (!lines.has(r.category)) lines.set(r.category, { times: [], values: [] });
    lines.get(r.category).times.push((r.ts_us - first) * 1e3);
    lines.get(r.category).values.push(r.bytes);
  }
  const length = Math.max(1, (rows[rows.length - 1].ts_us - first) * 1e3);
  return [
    {
      title: 'Memory by category',
      length,
      lines: [...lines].map(([title, l], i) => ({
        title,
        color: SPARE_COLORS[i % SPARE_COLORS.length],
        times: l.times,
        values: l.values,
      })),
    },
  ];
}

/* ---- the critical path as one bar ---- */

function criticalBar(root, tables) {
  const rows = recordsOf(tables, 'critical_path_summary').filter((r) => r.us > 0);
  if (!rows.length) return;
  const parts = rows.map((r, i) => ({
    title: r.class.replace(/_/g, ' '),
    value: r.us,
    color: partColor(r.class, i),
  }));
  const items = parts.map((p, i) => ({ ...p, share: rows[i].pct }));
  root.append(make('div', { class: 'panel' }, splitBar('', parts, 0, showUs), barList(items, showUs)));
}
