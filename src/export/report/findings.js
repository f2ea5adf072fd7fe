'use strict';
/* The findings: in view are title, savings, sentence, advice and one piece of evidence of each. */

function showFindings(root, findings) {
  const list = (findings.findings || []).filter((f) => isOfRank(f));
  const titles = new Map((findings.rules || []).map((r) => [r.id, r.title]));
  if (!list.length) root.append(make('p', { class: 'muted' }, 'No rule has a finding for this trace.'));
  for (const finding of list)
    root.append(findingCard(finding, titles.get(finding.id) || finding.id, findings));
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
  if (report.ranks.length < 2) return `of ${formatTime(finding.of_us * 1e3)}`;
  return `of rank ${finding.rank}'s ${findings.steps ? 'step' : 'time'}`;
}

/* As `ckineto analyze --findings` has it: print_findings.c. */
function confidenceWord(confidence) {
  return confidence >= 0.75 ? 'high' : confidence >= 0.45 ? 'medium' : 'low';
}

function savingsOf(finding, findings) {
  if (finding.worth_us === null || finding.worth_us === undefined)
    return [make('span', { class: 'muted' }, 'savings unknown')];
  const share = `${formatPercent(finding.worth_pct)} ${baseOf(finding, findings)}`;
  return [
    make('strong', { 'data-value': String(finding.worth_us) }, formatTime(finding.worth_us * 1e3)),
    make('span', {}, share),
    meter((finding.worth_pct || 0) / 100, `savings ${share}`, finding.severity),
    make('span', { class: 'muted' }, `${confidenceWord(finding.confidence)} confidence`),
  ];
}

function findingCard(finding, title, findings) {
  const subject = finding.subject ? `: ${oneLine(finding.subject, 60)}` : '';
  const [first, ...rest] = evidenceOf(finding);
  const toggle = make(
    'summary',
    {},
    rest.length ? `More, with ${rest.length + 1} pieces of evidence` : 'More',
  );
  const more = make(
    'details',
    { class: 'more' },
    toggle,
    rest.length ? make('ol', { class: 'evidence', start: 2 }, ...rest) : null,
    make('p', { class: 'muted small' }, make('code', {}, finding.id), countOf(finding), overlapOf(finding)),
  );
  return make(
    'article',
    { class: `finding ${finding.severity}`, 'data-id': finding.id },
    make('div', { class: 'savings' }, ...savingsOf(finding, findings)),
    make(
      'div',
      { class: 'text' },
      make(
        'h3',
        {},
        make('span', { class: `badge ${finding.severity}` }, finding.severity),
        ` ${title}${subject}`,
      ),
      make('p', { class: 'one' }, finding.sentence),
      make('p', { class: 'one advice' }, finding.advice),
      first ? make('ol', { class: 'evidence' }, first) : null,
      more,
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

function overlapOf(finding) {
  return finding.additive === false ? ' · overlaps with another finding: the savings do not add up' : '';
}

function evidenceOf(finding) {
  const evidence = finding.evidence || [];
  const several = evidence.some((e) => e.rank !== finding.rank);
  return evidence.map((e) => evidenceItem(e, several));
}

/* With evidence from several ranks each item states its rank. Times are those of the timeline. */
function evidenceItem(evidence, several) {
  const place = placeOfEvidence(evidence);
  const time = evidence.dur_us ? formatTime(evidence.dur_us * 1e3) : '';
  const at = evidence.start_us ? `at +${formatTime(Math.max(0, report.fromStart(evidence.start_us)))}` : '';
  const isLink = place && report.hasTimeline;
  const name = oneLine(evidence.name || time || evidence.where || (isLink ? 'show' : ''), 160);
  const head = isLink ? placeLink(place, name) : name;
  const of = several ? `rank ${evidence.rank}` : '';
  const { text, frames } = splitStack(evidence.text || '');
  const rest = [of, evidence.name ? time : '', at, evidence.where, text].filter((t) => t && t !== name);
  return make(
    'li',
    {},
    make(
      'span',
      { class: 'one', title: oneLine(evidence.name || '', 4000) },
      head,
      rest.length ? ` ${rest.map((t) => oneLine(t)).join(' · ')}` : '',
    ),
    frames.length ? stackList(frames) : null,
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
