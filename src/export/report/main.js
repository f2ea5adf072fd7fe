'use strict';
/* Starts the page: head, steps and findings are drawn first, then the timeline is decoded, then tables are
 * made. */

const report = {
  rank: null /* the chosen one; null: all */,
  ranks: [],
  hasTimeline: false,
  timeline: null,
  cameFrom: [] /* scroll positions of followed links to the timeline */,
  times: {} /* ms since the page was opened, for tests */,

  fromStart(us) {
    return (us - report.beginUs) * 1e3;
  },

  /* isForPlace: for a link; then only if a single rank is shown and the link needs another one. */
  setRank(rank, isForPlace = false) {
    if (isForPlace && (report.rank === null || !report.ranks.includes(rank))) return undefined;
    if (report.rank === rank) return undefined;
    report.rank = rank;
    byId('rank').value = rank === null ? 'all' : String(rank);
    if (report.timeline) report.timeline.setRank(rank);
    if (report.search) report.search.count();
    return report.page.refresh();
  },

  showTip(text, x, y) {
    const tip = byId('tip');
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(x + 14, innerWidth - tip.offsetWidth - 8);
    const top = y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  },

  hideTip() {
    byId('tip').hidden = true;
  },
};

async function start() {
  report.timelineReady = new Promise((done) => {
    report.timelineDone = done;
  });
  setUpTheme();
  setUpKeys();
  addEventListener('click', onPlaceClick);
  try {
    await showAll();
    document.documentElement.dataset.state = 'ready';
  } catch (error) {
    showFailure(error);
    document.documentElement.dataset.state = 'failed';
  }
}

async function showAll() {
  const summary = await readJson('summary');
  if (!summary) throw new Error('the page has no data');
  report.hasTimeline = summary.timeline > 0;
  const reading = report.hasTimeline ? readBlock('timeline') : Promise.resolve(null);
  reading.catch(() => {}); /* reported where it is awaited */
  describe(summary);
  report.page = new Page(summary);
  showHead(summary);
  report.page.showFirst();
  setUpPrinting();
  await nextFrame();
  report.times.findings = performance.now();
  await showTimeline(reading).catch(showNoTimeline);
  report.stacks = await readJson('stacks');
  await report.page.showRest();
  report.times.all = performance.now();
  if (location.hash.length > 1 && byId(location.hash.slice(1))) byId(location.hash.slice(1)).scrollIntoView();
}

function describe(summary) {
  byId('title').textContent = summary.title || document.title;
  const traces = summary.traces || [];
  report.ranks = ranksOf((summary.facts && summary.facts.tables) || {});
  const begins = traces.map((t) => t.start_us).filter((t) => Number.isFinite(t));
  report.beginUs = begins.length ? Math.min(...begins) : 0;
  if (report.ranks.length < 2) return;
  const select = byId('rank');
  select.append(
    make('option', { value: 'all' }, 'all'),
    ...report.ranks.map((r) => make('option', { value: String(r) }, String(r))),
  );
  select.addEventListener('change', () =>
    report.setRank(select.value === 'all' ? null : Number(select.value)),
  );
  byId('rank-label').hidden = false;
}

function ranksOf(tables) {
  const ranks = new Set();
  for (const [name, table] of Object.entries(tables)) {
    if (name === 'rank_damage') continue; /* names ranks that are missing */
    const at = table.columns.indexOf('rank');
    if (at >= 0) for (const row of table.rows) if (row[at] !== null) ranks.add(row[at]);
  }
  return [...ranks].sort((a, b) => a - b);
}

/* The rest of the page works without the timeline. */
function showNoTimeline(error) {
  report.timelineDone(null);
  report.page.bodies
    .get('timeline')
    .replaceChildren(
      make('p', { class: 'failure', role: 'alert' }, `The timeline cannot be shown: ${error.message}`),
    );
}

async function showTimeline(reading) {
  const bytes = await reading;
  if (!bytes) return report.timelineDone(null);
  const body = report.page.bodies.get('timeline');
  const activities = new Activities(bytes);
  await activities.decode();
  const lanes = new Lanes(activities);
  await lanes.build();
  report.beginUs = activities.originUs + activities.originPart;
  const bar = make('div', { class: 'tools' });
  const below = make('div', { class: 'details', 'aria-label': 'Selection', role: 'region' });
  report.details = new Details(below);
  body.append(bar);
  report.timeline = new Timeline(body, activities, lanes);
  report.timeline.legend = new Legend(report.timeline);
  body.append(report.timeline.legend.root, below, make('canvas', { class: 'paper', 'aria-hidden': 'true' }));
  report.search = new Search(bar);
  document.querySelectorAll('.stack').forEach(linkFrames);
  addButtons(bar, report.timeline);
  await nextFrame();
  report.times.timeline = performance.now();
  report.timelineDone(report.timeline);
  return undefined;
}

function addButtons(bar, timeline) {
  const button = (text, label, action) =>
    make('button', { type: 'button', title: label, 'aria-label': label, onclick: action }, text);
  bar.append(
    make(
      'span',
      { class: 'buttons' },
      button('+', 'Zoom in (w)', () => timeline.zoom(0.5)),
      button('−', 'Zoom out (s)', () => timeline.zoom(2)),
      button('All', 'Show all of the time (0)', () => timeline.fitAll()),
      button('Fold', 'Open or fold all tracks (Shift+C)', () => timeline.toggleAll()),
    ),
  );
}

function showFailure(error) {
  const text = error instanceof Error ? error.message : String(error);
  const old = typeof DecompressionStream === 'undefined' || typeof BigInt === 'undefined';
  byId('main').prepend(
    make(
      'p',
      { class: 'failure', role: 'alert' },
      old ? 'This browser is too old for this report.' : `The report cannot be shown: ${text}`,
    ),
  );
  report.timelineDone(null);
}

function onPlaceClick(event) {
  const link = event.target.closest && event.target.closest('.place');
  if (!link || !link.place) return;
  report.cameFrom.push(scrollY);
  goToPlace(link.place);
}

function goBack() {
  if (report.cameFrom.length) scrollTo(0, report.cameFrom.pop());
}

/* ---- light and dark ---- */

function setUpTheme() {
  try {
    const kept = localStorage.getItem('ckineto.theme');
    if (kept === 'dark' || kept === 'light') document.documentElement.dataset.theme = kept;
  } catch {
    /* pages from local files may have no storage */
  }
  byId('theme').addEventListener('click', switchTheme);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', onTheme);
}

function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
  try {
    localStorage.setItem('ckineto.theme', document.documentElement.dataset.theme);
  } catch {
    /* as above */
  }
  onTheme();
}

function onTheme() {
  const { rankMap, rankPath } = report.page || {};
  if (rankMap && rankMap.root) rankMap.draw();
  if (rankPath) rankPath.draw();
  if (!report.timeline) return;
  report.timeline.painter.setPalette(isDark());
  report.timeline.redraw();
}

/* ---- paper ---- */

function setUpPrinting() {
  const onPrint = (on) => {
    if (report.isPrinting === on) return;
    report.isPrinting = on;
    report.page.print(on);
    if (on && report.timeline) document.querySelector('.paper').replaceWith(report.timeline.asImage());
  };
  addEventListener('beforeprint', () => onPrint(true));
  addEventListener('afterprint', () => onPrint(false));
  matchMedia('print').addEventListener('change', (e) => onPrint(e.matches));
}

/* ---- keys ---- */

const KEYS = [
  [
    'anywhere',
    [
      ['?', 'these keys'],
      ['/', 'search the timeline'],
      ['n, Shift+N', 'next and previous match'],
      ['t', 'light or dark'],
      ['g and a digit', 'go to a section, in their order'],
      ['Backspace', 'back to where you jumped from'],
    ],
  ],
  [
    'on the timeline',
    [
      ['w, s or +, −', 'zoom'],
      ['a, d or ←, →', 'move'],
      ['↑, ↓, Page keys', 'scroll lines'],
      ['Ctrl+wheel', 'zoom where the pointer is'],
      ['Shift+wheel, drag', 'move'],
      ['0', 'all of the time'],
      ['Shift+←, →', 'select the activity before, after'],
      ['Shift+↑, ↓', 'select the enclosing activity, the first nested one'],
      ['f, Enter, double click', 'zoom to the selection'],
      ['m', 'sum up the time of the selection'],
      ['Shift+drag, drag over the times', 'select a range and sum it up'],
      ['c, Shift+C', 'fold the track, all tracks'],
      ['Escape', 'select nothing'],
    ],
  ],
  [
    'on call stacks',
    [
      ['←, →, ↑, ↓', 'select a box'],
      ['Enter, click', 'zoom to the box'],
      ['Escape', 'show everything'],
    ],
  ],
  [
    'in tables',
    [
      ['Enter on a head', 'sort'],
      ['click', 'all values of a line'],
      ['↑, ↓', 'the next line, when one is open'],
    ],
  ],
];

function setUpKeys() {
  const dialog = byId('help');
  dialog.append(
    make('h2', { id: 'help-title' }, 'Keys'),
    ...KEYS.flatMap(([where, keys]) => [
      make('h3', {}, where),
      make(
        'dl',
        { class: 'keys' },
        ...keys.flatMap(([key, text]) => [make('dt', {}, make('kbd', {}, key)), make('dd', {}, text)]),
      ),
    ]),
    make('form', { method: 'dialog' }, make('button', {}, 'Close')),
  );
  byId('keys').addEventListener('click', () => dialog.showModal());
  addEventListener('keydown', onPageKey);
}

function isTyping(event) {
  return event.target.closest && event.target.closest('input, select, textarea, dialog');
}

function onPageKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
  const action = pageKey(event.key);
  report.isGoing = event.key === 'g';
  if (!action) return;
  event.preventDefault();
  action();
}

function pageKey(key) {
  if (report.isGoing && /^[0-9]$/.test(key)) return () => goToSection(Number(key) || 10);
  switch (key) {
    case '?':
      return () => byId('help').showModal();
    case 't':
      return switchTheme;
    case '/':
      return report.search && (() => report.search.input.focus());
    case 'n':
      return report.search && (() => report.search.step(1));
    case 'N':
      return report.search && (() => report.search.step(-1));
    case 'Backspace':
      return goBack;
    default:
      return null;
  }
}

function goToSection(number) {
  const link = byId('sections').querySelectorAll('li:not([hidden]) a')[number - 1];
  if (!link) return;
  link.click();
  byId(link.hash.slice(1)).focus({ preventScroll: true });
}

/* For tests and measurements. */
globalThis.ckineto = report;
start();
