'use strict';
/* The sections of the page. Which tables are in which section comes with the data (`sections` of the
 * summary, from tables.def); tables of no section are shown under "Other tables". `open` is how many
 * tables of a section are unfolded at first. */
const SECTIONS = [
  { id: 'findings', title: 'Findings' },
  { id: 'overview', title: 'Overview' },
  { id: 'timeline', title: 'Timeline' },
  { id: 'operators', title: 'Operators', open: 1 },
  { id: 'kernels', title: 'Kernels', open: 1 },
  { id: 'cpu', title: 'Threads and CPU time', open: 2 },
  { id: 'memory', title: 'Memory', open: 1 },
  { id: 'modules', title: 'Modules' },
  { id: 'collectives', title: 'Collectives', open: 2 },
  { id: 'critical', title: 'Critical path', open: 1 },
  { id: 'diff', title: 'Diff' },
  { id: 'tables', title: 'Other tables' },
];

class Page {
  constructor(summary) {
    this.summary = summary;
    this.tables = (summary.facts && summary.facts.tables) || {};
    this.shown = [];
    this.bodies = new Map();
    report.isHostOnly = this.hasNoDevices();
    for (const section of this.order()) this.addSection(section);
    this.watch();
  }

  /* Of a program that used no device, sections without rows are left out: they are about devices. */
  hasNoDevices() {
    const devices = (this.summary.traces || []).some((t) => t.devices && t.devices.length);
    return !devices && !this.hasRows('gpu_summary') && !this.hasRows('kernels');
  }

  hasRows(name) {
    return Boolean(this.tables[name] && this.tables[name].rows.length);
  }

  namesOf(id) {
    return this.summary.sections[id] || [];
  }

  isLeftOut(id) {
    const hasTables = report.isHostOnly && this.summary.sections[id] && id !== 'overview';
    return hasTables && !this.namesOf(id).some((name) => this.hasRows(name));
  }

  /* Such a program's threads and functions come before the timeline. */
  order() {
    if (!report.isHostOnly) return SECTIONS;
    const [first, last] = [SECTIONS.slice(0, 2), SECTIONS.slice(2)];
    return [...first, ...last.filter((s) => s.id === 'cpu'), ...last.filter((s) => s.id !== 'cpu')];
  }

  /* Why tables are empty, of sections that are left out. */
  addLeftOut() {
    const names = SECTIONS.filter((s) => this.isLeftOut(s.id) || (report.isHostOnly && s.id === 'overview'))
      .flatMap((s) => this.namesOf(s.id))
      .filter((name) => this.tables[name] && !this.hasRows(name) && this.tables[name].note);
    if (!names.length) return;
    const summary = make('summary', {}, `${formatNumber(names.length, 0)} tables without rows`);
    byId('main').append(make('details', { class: 'left-out' }, summary, this.notes(names)));
  }

  addSection({ id, title }) {
    if (this.isLeftOut(id)) return;
    if (id === 'diff' && !this.summary.diff) return;
    if (id === 'timeline' && !report.hasTimeline) return;
    if (id === 'tables' && !this.otherTables().length) return;
    const body = make('div', { class: 'body' });
    const section = make(
      'section',
      { id, 'aria-labelledby': `${id}-title`, tabindex: -1 },
      make('h2', { id: `${id}-title` }, title),
      body,
    );
    byId('main').append(section);
    byId('sections').append(make('li', {}, make('a', { href: `#${id}` }, title)));
    this.bodies.set(id, body);
  }

  otherTables() {
    const known = new Set(Object.values(this.summary.sections).flat());
    return Object.keys(this.tables).filter((name) => !known.has(name));
  }

  /* Findings and overview at once, the rest when there is time. */
  showFirst() {
    this.fill('findings', (root) => showFindings(root, this.summary.findings || {}));
    this.fill('overview', (root) => showOverview(root, this.tables));
    this.addTables('overview', 0);
  }

  async showRest() {
    for (const { id } of SECTIONS) {
      if (['findings', 'overview', 'timeline'].includes(id)) continue;
      if (this.bodies.has(id)) this.showSection(id);
      await pause();
    }
    document.querySelectorAll('.left-out').forEach((n) => n.remove());
    this.addLeftOut();
  }

  showSection(id) {
    const section = SECTIONS.find((s) => s.id === id);
    this.fill(id, (root) => {
      if (id === 'critical') criticalBar(root, this.tables);
      if (id === 'diff') showDiff(root, this);
    });
    if (id === 'modules') this.showModules();
    else if (id === 'tables') this.addTables(id, 0, this.otherTables());
    else if (id !== 'diff') this.addTables(id, section.open || 0);
    if (id === 'memory' && report.timeline) this.showMemory();
  }

  showMemory() {
    const body = this.bodies.get('memory');
    if (!body) return;
    const old = body.querySelectorAll(':scope > .panel');
    old.forEach((n) => n.remove());
    memoryCurves(body, this.tables, report.timeline);
  }

  fill(id, draw) {
    const body = this.bodies.get(id);
    body.replaceChildren();
    draw(body);
  }

  showModules() {
    const table = this.tables.modules;
    const root = this.bodies.get('modules');
    if (!table || !table.rows.length) return this.addTables('modules', 1);
    return root.append(new ModuleTree(table).root);
  }

  /* The first `open` tables are shown, the others folded; those without rows only with the reason. */
  addTables(id, open, names = this.namesOf(id)) {
    const root = this.bodies.get(id);
    const given = names.filter((name) => this.tables[name]);
    const full = given.filter((name) => this.tables[name].rows.length);
    full.forEach((name, i) => root.append(this.folded(name, this.tables[name], i < open)));
    const empty = given.filter((name) => !this.tables[name].rows.length && this.tables[name].note);
    if (empty.length && !(report.isHostOnly && id === 'overview')) root.append(this.notes(empty));
    if (!given.length && !root.childElementCount)
      root.append(make('p', { class: 'muted' }, 'Not in this report.'));
  }

  notes(names) {
    const same = new Map();
    for (const name of names) {
      const { note } = this.tables[name];
      same.set(note, [...(same.get(note) || []), this.titleOf(name, this.tables[name])]);
    }
    return make(
      'ul',
      { class: 'plain small muted' },
      ...[...same].map(([note, titles]) => make('li', {}, `${titles.join(', ')}: ${note}`)),
    );
  }

  titleOf(name, table) {
    return table.title || name.replace(/_/g, ' ');
  }

  folded(name, table, isOpen) {
    const title = this.titleOf(name, table);
    const count = table.rows.length + (table.more || 0);
    const box = make(
      'details',
      { class: 'fold', 'data-name': name },
      make(
        'summary',
        {},
        make('span', {}, title),
        make('span', { class: 'muted' }, ` ${formatNumber(count, 0)}`),
      ),
    );
    const build = () => {
      if (box.built) return;
      box.built = true;
      if (table.note) box.append(make('p', { class: 'muted small' }, table.note));
      const shown = new Table(name, table, { label: title });
      this.shown.push(shown);
      box.append(shown.root);
      if (name === 'operators' || name === 'kernels') shown.sortBy(this.heaviest(shown));
    };
    box.addEventListener('toggle', () => box.open && build());
    if (isOpen) {
      build();
      box.open = true;
    }
    return box;
  }

  heaviest(table) {
    const wanted = ['sum_us', 'device_total_us', 'host_total_us'];
    const heavy = (c) => table.columns[c] && table.rows.some((r) => r[table.columns[c].at] > 0);
    const found = wanted
      .map((n) => table.columns.findIndex((c) => c.name === n))
      .find((c) => c >= 0 && heavy(c));
    return found === undefined ? 0 : found;
  }

  /* After the rank was changed. */
  refresh() {
    this.showFirst();
    this.shown = this.shown.filter((t) => t.root.isConnected);
    return this.showRest();
  }

  /* Marks the visible section in the list on the side. */
  watch() {
    const links = new Map([...byId('sections').querySelectorAll('a')].map((a) => [a.hash.slice(1), a]));
    const seen = new Set();
    const observer = new IntersectionObserver(
      (entries) => {
        for (const e of entries)
          if (e.isIntersecting) seen.add(e.target.id);
          else seen.delete(e.target.id);
        const current = SECTIONS.find((s) => seen.has(s.id));
        for (const [id, link] of links) {
          if (current && current.id === id) link.setAttribute('aria-current', 'true');
          else link.removeAttribute('aria-current');
        }
      },
      { rootMargin: '-80px 0px -60% 0px' },
    );
    for (const id of links.keys()) observer.observe(byId(id));
  }

  print(on) {
    for (const table of this.shown) table.print(on);
  }
}

const CHANGES_SHOWN = 8;

/* The largest changes as bars, split into slower and faster. */
function showChanges(root, tables) {
  const rows = recordsOf(tables, 'diff_summary')
    .filter((r) => r.delta_us)
    .slice(0, CHANGES_SHOWN);
  if (!rows.length) return;
  const items = rows.map((r) => ({
    title: `${r.kind} ${r.name}`,
    value: Math.abs(r.delta_us),
    share: r.delta_pct ?? undefined,
    color: r.delta_us > 0 ? 'waiting' : 'operator',
    isMore: r.delta_us > 0,
  }));
  const more = items.filter((i) => i.isMore);
  const less = items.filter((i) => !i.isMore);
  root.append(
    make(
      'div',
      { class: 'panels' },
      more.length ? panel('Takes longer', barList(more, showUs)) : null,
      less.length ? panel('Takes less', barList(less, showUs)) : null,
    ),
  );
}

/* Tables of a comparison, in their order, below the largest changes. */
function showDiff(root, page) {
  showChanges(root, page.summary.diff.tables || {});
  const tables = page.summary.diff.tables || {};
  const names = Object.keys(tables);
  names.forEach((name, i) => {
    const table = tables[name];
    if (table.rows.length) root.append(page.folded(name, table, i < 3));
    else if (table.note)
      root.append(make('p', { class: 'muted small' }, `${page.titleOf(name, table)}: ${table.note}`));
  });
}
