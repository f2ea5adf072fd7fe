'use strict';
/* The head of the page: the headline, key numbers, and one line about the health of the trace. */

const HEALTH_ORDER = ['error', 'warning', 'note'];

function showHead(summary) {
  const overview = summary.overview || { headline: '', tiles: [] };
  byId('headline').textContent = overview.headline;
  byId('tiles').append(
    ...overview.tiles.map((t) =>
      make(
        'div',
        { class: 'tile' },
        make('dt', {}, t.label),
        make('dd', { class: 'tile-value' }, t.value),
        make('dd', { class: 'muted small' }, t.detail),
      ),
    ),
  );
  byId('tiles').hidden = !overview.tiles.length;
  showHealth(summary);
}

/* Lost records come first: with them no other number is reliable. */
function healthLines(summary) {
  const ledger = (summary.ledger || []).map((l) => ({
    severity: l.loss ? 'error' : 'note',
    sentence: `${formatNumber(l.count, 0)} ${l.reason} (${l.source})${l.detail ? `: ${l.detail}` : ''}`,
  }));
  const found = (summary.health || []).map((h) => ({
    severity: h.severity,
    sentence: h.sentence,
    remedy: h.severity === 'note' ? '' : h.remedy,
  }));
  const order = (h) => HEALTH_ORDER.indexOf(h.severity);
  return [
    ...ledger.filter((l) => l.severity === 'error'),
    ...[...found, ...ledger.filter((l) => l.severity !== 'error')].sort((a, b) => order(a) - order(b)),
  ];
}

/* One line; the first error is in it, all else opens. */
function showHealth(summary) {
  const lines = healthLines(summary);
  const worst = lines.length ? lines[0].severity : 'fine';
  const counts = HEALTH_ORDER.map((severity) => {
    const n = lines.filter((h) => h.severity === severity).length;
    return n ? make('span', { class: `badge ${severity}` }, `${n} ${severity}${n > 1 ? 's' : ''}`) : null;
  });
  const error = worst === 'error' ? make('span', { class: 'loss first' }, oneLine(lines[0].sentence)) : null;
  const line = [...traceFacts(summary), ...counts, error].filter((f) => f);
  if (!lines.length) {
    byId('health').replaceChildren(make('p', { class: 'health facts' }, ...line));
    return;
  }
  const items = lines.map((h) =>
    make(
      'li',
      {},
      make('span', { class: `badge ${h.severity}` }, h.severity),
      ' ',
      h.sentence,
      h.remedy ? make('span', { class: 'muted' }, ` ${h.remedy}`) : '',
    ),
  );
  byId('health').replaceChildren(
    make(
      'details',
      { class: `health ${worst}` },
      make('summary', {}, make('span', { class: 'facts' }, ...line)),
      make('ul', { class: 'plain' }, ...items),
    ),
  );
}

function traceFacts(summary) {
  const traces = summary.traces || [];
  const sum = (key) => traces.reduce((total, t) => total + (t[key] || 0), 0);
  const lost = sum('lost');
  const repaired = sum('repaired');
  const longest = Math.max(0, ...traces.map((t) => t.dur_us || 0));
  const facts = [
    `${formatNumber(sum('activities'), 0)} activities`,
    longest ? formatTime(longest * 1e3) : null,
    report.ranks.length > 1 ? `${report.ranks.length} ranks` : null,
    devicesOf(summary.facts),
    lost ? make('strong', { class: 'loss' }, `${formatNumber(lost, 0)} records lost`) : 'nothing lost',
    repaired ? `${formatNumber(repaired, 0)} repaired` : null,
  ];
  return facts.filter((f) => f).map((f) => make('span', {}, f));
}

function devicesOf(facts) {
  const names = new Map();
  for (const { name } of recordsOf((facts && facts.tables) || {}, 'gpu_summary')) {
    if (name) names.set(name, (names.get(name) || 0) + 1);
  }
  return [...names]
    .map(([name, n]) => (n > 1 ? `${n} × ${name}` : name))
    .slice(0, 4)
    .join(', ');
}
