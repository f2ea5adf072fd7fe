'use strict';
/* The health of the trace, and the findings. */

const EVIDENCE_SHOWN = 5;
const HEALTH_SHOWN = 4;
const HEALTH_ORDER = ['error', 'warning', 'note'];

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

function showHealth(summary) {
  const lines = healthLines(summary);
  const box = make(
    'div',
    { class: `health ${lines.length ? lines[0].severity : 'fine'}` },
    traceFacts(summary),
  );
  if (!lines.length) box.append(make('p', { class: 'verdict' }, 'No problems were found in this trace.'));
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
  if (items.length) box.append(make('ul', { class: 'plain' }, ...items.slice(0, HEALTH_SHOWN)));
  if (items.length > HEALTH_SHOWN) {
    box.append(
      make(
        'details',
        {},
        make('summary', {}, `${items.length - HEALTH_SHOWN} more`),
        make('ul', { class: 'plain' }, ...items.slice(HEALTH_SHOWN)),
      ),
    );
  }
  byId('health').replaceChildren(box);
}

function traceFacts(summary) {
  const traces = summary.traces || [];
  const sum = (key) => traces.reduce((total, t) => total + (t[key] || 0), 0);
  const lost = sum('lost');
  const repaired = sum('repaired');
  const facts = [
    `${formatNumber(sum('activities'), 0)} activities`,
    traces.length ? formatTime(Math.max(...traces.map((t) => t.dur_us || 0)) * 1e3) : null,
    report.ranks.length > 1 ? `${report.ranks.length} ranks` : null,
    devicesOf(summary.facts),
    lost ? make('strong', { class: 'loss' }, `${formatNumber(lost, 0)} records lost`) : 'nothing lost',
    repaired ? `${formatNumber(repaired, 0)} repaired` : null,
  ];
  return make('p', { class: 'facts' }, ...facts.filter((f) => f).map((f) => make('span', {}, f)));
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

function showFindings(root, findings) {
  const list = (findings.findings || []).filter((f) => isOfRank(f));
  const titles = new Map((findings.rules || []).map((r) => [r.id, r.title]));
  if (!list.length)
    root.append(make('p', { class: 'muted' }, 'No rule has a finding for this trace.'));
  const most = Math.max(...list.map((f) => f.worth_pct || 0), 1);
  for (const finding of list)
    root.append(findingCard(finding, titles.get(finding.id) || finding.id, findings, most));
  root.append(...ruleResults(findings));
}

function isOfRank(finding) {
  return report.rank === null || finding.ranks > 1 || finding.rank === report.rank;
}

/* The base of the savings' percentage. Ranks may have different step times: savings are a share of the
 * step of the rank that has the finding. */
function baseOf(finding, findings) {
  const isOfAll =
    finding.of_us === undefined || finding.of_us === (findings.steps ? findings.step_us : findings.whole_us);
  if (isOfAll) return findings.steps ? 'of a step' : 'of the time';
  return `of rank ${finding.rank}'s ${findings.steps ? 'step' : 'time'}`;
}

function findingCard(finding, title, findings, most) {
  const hasSavings = finding.worth_us !== null && finding.worth_us !== undefined;
  const savings = hasSavings
    ? [
        make('strong', { 'data-value': String(finding.worth_us) }, formatTime(finding.worth_us * 1e3)),
        make('span', {}, `${formatPercent(finding.worth_pct)} ${baseOf(finding, findings)}`),
        meter((finding.worth_pct || 0) / most, `savings ${formatPercent(finding.worth_pct)}`, finding.severity),
        make('span', { class: 'muted' }, `confidence ${formatPercent((finding.confidence || 0) * 100, 0)}`),
      ]
    : [make('span', { class: 'muted' }, 'savings unknown')];
  return make(
    'article',
    { class: `finding ${finding.severity}`, 'data-id': finding.id },
    make('div', { class: 'savings' }, ...savings),
    make(
      'div',
      { class: 'text' },
      make('h3', {}, make('span', { class: `badge ${finding.severity}` }, finding.severity), ' ', title),
      make('p', {}, finding.sentence),
      make('p', { class: 'advice' }, finding.advice),
      evidenceOf(finding),
      make('p', { class: 'muted small' }, make('code', {}, finding.id), countOf(finding)),
    ),
  );
}

function countOf(finding) {
  const parts = [];
  if (finding.count) parts.push(`${formatNumber(finding.count, 0)} ×`);
  if (report.ranks.length > 1)
    parts.push(
      finding.ranks > 1
        ? `on ${finding.ranks} ranks, most on rank ${finding.rank}`
        : `on rank ${finding.rank}`,
    );
  return parts.length ? ' · ' + parts.join(' · ') : '';
}

function evidenceOf(finding) {
  const evidence = finding.evidence || [];
  if (!evidence.length) return null;
  const several = evidence.some((e) => e.rank !== finding.rank);
  const items = evidence.map((e) => evidenceItem(e, several));
  const list = make('ol', { class: 'evidence' }, ...items.slice(0, EVIDENCE_SHOWN));
  const rest = items.slice(EVIDENCE_SHOWN);
  if (!rest.length) return list;
  return make(
    'div',
    {},
    list,
    make(
      'details',
      {},
      make('summary', {}, `${rest.length} more`),
      make('ol', { class: 'evidence' }, ...rest),
    ),
  );
}

/* With evidence from several ranks each item states its rank. */
function evidenceItem(evidence, several) {
  const place = placeOfEvidence(evidence);
  const time = evidence.dur_us ? formatTime(evidence.dur_us * 1e3) : '';
  const isLink = place && report.hasTimeline;
  const name = oneLine(evidence.name || time || evidence.where || (isLink ? 'there' : ''), 160);
  const head = isLink ? placeLink(place, name) : name;
  const of = several ? `rank ${evidence.rank}` : '';
  const rest = [of, evidence.name ? time : '', evidence.where, evidence.text].filter((t) => t && t !== name);
  return make(
    'li',
    { title: oneLine(evidence.name || '', 4000) },
    head,
    rest.length ? ` ${rest.map((t) => oneLine(t)).join(' · ')}` : '',
  );
}

/* The rules without findings, and those that were skipped, with the reason. */
function ruleResults(findings) {
  const rules = findings.rules || [];
  const quiet = rules.filter((r) => r.judgement === 'quiet');
  const skipped = rules.filter((r) => r.judgement === 'not judged');
  const group = (title, items) =>
    items.length &&
    make(
      'details',
      { class: 'quiet' },
      make('summary', {}, title),
      make('ul', { class: 'plain small' }, ...items),
    );
  return [
    group(
      `${quiet.length} rules without findings`,
      quiet.map((r) => make('li', {}, r.title, ' ', make('code', {}, r.id))),
    ),
    group(
      `${skipped.length} rules skipped`,
      skipped.map((r) =>
        make('li', {}, r.title, ' ', make('code', {}, r.id), r.because ? `: ${r.because}` : ''),
      ),
    ),
  ].filter((g) => g);
}
