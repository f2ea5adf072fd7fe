'use strict';
/* The comparison with another trace: a waterfall from before to after, the largest changes, and its tables. */

const CHANGES_SHOWN = 8;

/* Bars that add up: the time before, what each part adds or takes, what is left unexplained, the time after. */
function waterfall(tables) {
  const rows = recordsOf(tables, 'diff_waterfall');
  const whole = rows.length > 1 ? rows[rows.length - 1] : null;
  if (!whole || !Number.isFinite(whole.before_us) || !Number.isFinite(whole.after_us)) return null;
  const parts = rows.slice(0, -1).filter((r) => r.delta_us);
  let at = whole.before_us;
  const bars = [{ title: 'before', from: 0, to: at, text: showUs(at), kind: 'whole' }];
  for (const r of parts) {
    const sign = r.delta_us > 0 ? '+' : '−';
    const kind = r.part === 'unexplained' ? 'unexplained' : r.delta_us > 0 ? 'worse' : 'better';
    const isNoise = r.sure === 'no' && kind !== 'unexplained';
    bars.push({
      title: STEP_TITLES[r.part] || r.part,
      from: at,
      to: (at += r.delta_us),
      text: `${sign}${showUs(Math.abs(r.delta_us))}`,
      kind: isNoise ? `${kind} noise` : kind,
    });
  }
  bars.push({ title: 'after', from: 0, to: whole.after_us, text: showUs(whole.after_us), kind: 'whole' });
  return panel(
    `From before to after: ${whole.part}`,
    waterfallBars(bars),
    bars.some((b) => b.kind.endsWith('noise'))
      ? make('p', { class: 'muted small' }, 'Pale: within the noise of the steps.')
      : null,
  );
}

function waterfallBars(bars) {
  const most = Math.max(...bars.flatMap((b) => [b.from, b.to])) || 1;
  const list = make('ul', { class: 'waterfall' });
  for (const bar of bars) {
    const low = Math.max(0, Math.min(bar.from, bar.to));
    const fill = make('span', { class: `fill ${bar.kind}` });
    fill.style.marginLeft = `${(100 * low) / most}%`;
    fill.style.width = `${(100 * Math.abs(bar.to - bar.from)) / most}%`;
    fill.dataset.from = String(bar.from);
    fill.dataset.to = String(bar.to);
    list.append(
      make(
        'li',
        {},
        make('span', { class: 'label' }, bar.title),
        make('span', { class: 'track', 'aria-hidden': 'true' }, fill),
        make('span', { class: 'value' }, bar.text),
      ),
    );
  }
  return list;
}

/* The largest changes as bars, split into slower and faster. */
function changePanels(tables) {
  const rows = recordsOf(tables, 'diff_summary')
    .filter((r) => r.delta_us)
    .slice(0, CHANGES_SHOWN);
  const items = rows.map((r) => ({
    title: `${r.kind} ${r.name}`,
    value: Math.abs(r.delta_us),
    share: r.delta_pct ?? undefined,
    color: r.delta_us > 0 ? 'waiting' : 'operator',
    isMore: r.delta_us > 0,
  }));
  const more = items.filter((i) => i.isMore);
  const less = items.filter((i) => !i.isMore);
  return [
    more.length ? panel('Takes longer', barList(more, showUs)) : null,
    less.length ? panel('Takes less', barList(less, showUs)) : null,
  ];
}

/* Tables of a comparison, in their order, below the pictures. */
function showDiff(root, page) {
  const { tables } = page.summary.diff || {};
  if (!tables) return;
  const picture = waterfall(tables);
  if (picture) root.append(picture);
  const panels = changePanels(tables).filter((p) => p);
  if (panels.length) root.append(make('div', { class: 'panels' }, ...panels));
  const full = Object.keys(tables).filter((name) => tables[name].rows.length);
  full.forEach((name, i) => root.append(page.folded(name, tables[name], i < 2)));
}
