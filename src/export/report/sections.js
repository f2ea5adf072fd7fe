'use strict';
/* The sections of the page. Which tables are in which section comes with the data (`sections` of the
 * summary, from tables.def); tables of no section are shown under "Other tables". `open` is how many
 * tables of a section are unfolded at first. Sections without content are hidden. */
const SECTIONS = [
  { id: 'steps', title: 'Step time by activity', short: 'Steps' },
  { id: 'timeline', title: 'Timeline' },
  { id: 'findings', title: 'Findings' },
  { id: 'diff', title: 'Before and after', short: 'Diff' },
  { id: 'ranks', title: 'Ranks' },
  { id: 'overview', title: 'Overview' },
  { id: 'cpu', title: 'Threads and CPU time', short: 'CPU time', open: 2 },
  { id: 'stacks', title: 'Call stacks', short: 'Stacks' },
  { id: 'operators', title: 'Operators', open: 1 },
  { id: 'kernels', title: 'Kernels', open: 1 },
  { id: 'memory', title: 'Memory', open: 1 },
  { id: 'modules', title: 'Modules' },
  { id: 'collectives', title: 'Collectives', open: 2 },
  { id: 'critical', title: 'Critical path', open: 1 },
  { id: 'tables', title: 'Other tables' },
];
const FIRST = ['steps', 'findings', 'overview'];

class Page {
  constructor(summary) {
    this.summary = summary;
    this.tables = (summary.facts && summary.facts.tables) || {};
    this.shown = [];
    this.bodies = new Map();
    for (const section of SECTIONS)
      if (section.id !== 'timeline' || report.hasTimeline) this.addSection(section);
    this.watch();
  }

  /* Rows with nothing but a rank say nothing. */
  hasRows(name) {
    const table = this.tables[name];
    if (!table) return false;
    const hasContent = (value, c) => value !== null && value !== '' && table.columns[c] !== 'rank';
    return table.rows.some((row) => row.some(hasContent));
  }

  namesOf(id) {
    return (id === 'tables' ? this.otherTables() : this.summary.sections[id]) || [];
  }

  addSection({ id, title, short }) {
    const body = make('div', { class: 'body' });
    const section = make(
      'section',
      { id, 'aria-labelledby': `${id}-title`, tabindex: -1, hidden: true },
      make('h2', { id: `${id}-title` }, title),
      body,
    );
    byId('main').append(section);
    byId('sections').append(make('li', { hidden: true }, make('a', { href: `#${id}` }, short || title)));
    this.bodies.set(id, body);
  }

  otherTables() {
    const known = new Set(Object.values(this.summary.sections).flat());
    return Object.keys(this.tables).filter((name) => !known.has(name));
  }

  /* What is drawn before the timeline is decoded; the rest when there is time. */
  showFirst() {
    for (const id of FIRST) this.showSection(id);
    if (report.hasTimeline) this.reveal('timeline');
  }

  async showRest() {
    for (const { id } of SECTIONS) {
      if (FIRST.includes(id) || id === 'timeline') continue;
      this.showSection(id);
      await pause();
    }
    document.querySelectorAll('.left-out').forEach((n) => n.remove());
    this.addLeftOut();
  }

  /* Draws the body of a section again. */
  showSection(id) {
    const root = this.bodies.get(id);
    root.replaceChildren();
    if (id === 'steps') showSteps(root, this.tables);
    else if (id === 'findings') showFindings(root, this.summary.findings || {});
    else if (id === 'diff') showDiff(root, this);
    else if (id === 'stacks') showCallStacks(root);
    else if (id === 'ranks') showRanks(root, this);
    else this.showTables(id, root);
    this.reveal(id);
  }

  showTables(id, root) {
    if (id === 'overview') showOverview(root, this.tables);
    if (id === 'critical') criticalBar(root, this.tables);
    if (id === 'memory') memoryCurves(root, this.tables, report.timeline);
    if (id === 'modules' && this.hasRows('modules')) root.append(new ModuleTree(this.tables.modules).root);
    const { open = 0 } = SECTIONS.find((s) => s.id === id);
    const names = this.namesOf(id).filter((name) => this.hasRows(name) && name !== 'modules');
    names.forEach((name, i) => root.append(this.folded(name, this.tables[name], i < open)));
  }

  /* Sections with content are shown, and are in the list on the side. */
  reveal(id) {
    const isEmpty = !this.bodies.get(id).childElementCount && id !== 'timeline';
    byId(id).hidden = isEmpty;
    byId('sections').querySelector(`a[href="#${id}"]`).parentNode.hidden = isEmpty;
  }

  /* Why tables are empty, at the end of the page. */
  addLeftOut() {
    const { tables = {} } = this.summary.diff || {};
    const empty = [this.tables, tables].flatMap((all) =>
      Object.entries(all).filter(([, table]) => !table.rows.length && table.note),
    );
    if (!empty.length) return;
    const same = new Map();
    for (const [name, table] of empty)
      same.set(table.note, [...(same.get(table.note) || []), this.titleOf(name, table)]);
    const items = [...same].map(([note, titles]) => make('li', {}, `${titles.join(', ')}: ${note}`));
    const title = `${formatNumber(empty.length, 0)} ${empty.length > 1 ? 'tables' : 'table'} without rows`;
    byId('main').append(
      make(
        'details',
        { class: 'left-out' },
        make('summary', {}, title),
        make('ul', { class: 'plain small muted' }, ...items),
      ),
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
