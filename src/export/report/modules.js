'use strict';
/* Modules as a tree: each one opens to show its children. */

const BACKWARD = '.backward';

class ModuleTree {
  constructor(table) {
    const at = (name) => table.columns.indexOf(name);
    this.columns = describeColumns(table);
    this.find = report.hasTimeline ? placeFinder(this.columns) : null;
    this.shown = [
      'calls',
      'operators',
      'host_total_us',
      'host_self_us',
      'device_total_us',
      'device_self_us',
    ].filter((n) => at(n) >= 0);
    this.at = at;
    this.rows = table.rows.filter((r) => report.rank === null || r[at('rank')] === report.rank);
    this.arrange();
    this.root = this.build();
  }

  nameOf(row) {
    return row[this.at('module')] || '';
  }

  /* Finds the parent of each row. Rows that are only reachable through a cycle become roots. */
  arrange() {
    this.byId = new Map();
    for (const row of this.rows) {
      const key = `${row[this.at('rank')]} ${row[this.at('id')]}`;
      this.byId.set(key, [...(this.byId.get(key) || []), row]);
    }
    this.around = report.timeline
      ? modulesAround(
          report.timeline.activities,
          this.rows.map((r) => this.nameOf(r)),
        )
      : new Map();
    this.children = new Map([['top', []]]);
    for (const row of this.rows) {
      const parent = this.parentOf(row) || 'top';
      if (!this.children.has(parent)) this.children.set(parent, []);
      this.children.get(parent).push(row);
    }
    for (const list of this.children.values()) list.sort((a, b) => this.weight(b) - this.weight(a));
    const reached = new Set();
    this.reach(this.children.get('top'), reached);
    for (const row of this.rows) {
      if (reached.has(row)) continue;
      this.children.get('top').push(row);
      this.reach([row], reached);
    }
  }

  reach(list, reached) {
    for (const next = [...list]; next.length; ) {
      const row = next.pop();
      if (reached.has(row)) continue;
      reached.add(row);
      next.push(...(this.children.get(row) || []));
    }
  }

  /* Ids of modules are unique only within their class, so several may have the parent's id: then the
   * enclosing module on the timeline decides. */
  parentOf(row) {
    const same = this.byId.get(`${row[this.at('rank')]} ${row[this.at('parent')]}`) || [];
    const candidates = same.filter((c) => c !== row);
    if (candidates.length < 2) return candidates[0];
    const isBack = this.nameOf(row).endsWith(BACKWARD);
    const around = this.around.get(isBack ? this.nameOf(row).slice(0, -BACKWARD.length) : this.nameOf(row));
    const named = (name) => candidates.find((c) => this.nameOf(c) === name);
    return (isBack && named(around + BACKWARD)) || named(around);
  }

  weight(row) {
    return row[this.at('device_total_us')] || row[this.at('host_total_us')] || 0;
  }

  build() {
    const heads = this.shown.map((name) =>
      make('th', { scope: 'col', class: 'number' }, columnTitle(this.columns[this.at(name)])),
    );
    this.body = make('tbody');
    const table = make(
      'table',
      { class: 'tree', role: 'treegrid', 'aria-label': 'Modules' },
      make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'module'), ...heads)),
      this.body,
    );
    this.addAll('top', 1, null);
    const only = this.body.rows.length === 1 ? this.body.rows[0] : null;
    if (only && only.toggle) only.toggle();
    return make(
      'div',
      { 'data-table': 'modules' },
      make(
        'div',
        { class: 'table-tools' },
        tableButtons('Modules', () => this.asRows()),
      ),
      make(
        'div',
        { class: 'rows tree-rows', tabindex: 0, role: 'region', 'aria-label': 'Rows of Modules' },
        table,
      ),
    );
  }

  asRows() {
    return { name: 'modules', columns: this.columns.map((c) => c.name), rows: this.rows };
  }

  addAll(parent, level, after) {
    for (const row of this.children.get(parent) || []) {
      const line = this.line(row, level);
      if (after) after.after(line);
      else this.body.append(line);
      if (after) after = line;
    }
  }

  line(row, level) {
    const hasMore = this.children.has(row);
    const name = oneLine(row[this.at('module')] || `module ${row[this.at('id')]}`, 160);
    const line = make('tr', { 'aria-level': level, 'aria-expanded': hasMore ? 'false' : null });
    const head = hasMore
      ? make('button', { type: 'button', class: 'fold', onclick: () => line.toggle() }, name)
      : make('span', { class: 'leaf' }, name);
    head.style.marginLeft = `${(level - 1) * 16}px`;
    const place = this.find && this.find(row);
    const cells = this.shown.map((n) => {
      const value = row[this.at(n)];
      const text = formatCell(value, this.columns[this.at(n)]);
      return make(
        'td',
        { class: 'number', 'data-value': String(value) },
        place ? placeLink(place, text) : text,
      );
    });
    line.append(make('th', { scope: 'row' }, head), ...cells);
    if (hasMore) line.toggle = () => this.toggle(line, row, level);
    return line;
  }

  toggle(line, row, level) {
    const isOpen = line.getAttribute('aria-expanded') === 'true';
    line.setAttribute('aria-expanded', String(!isOpen));
    if (!isOpen) return this.addAll(row, level + 1, line);
    while (line.nextSibling && Number(line.nextSibling.getAttribute('aria-level')) > level)
      line.nextSibling.remove();
    return undefined;
  }
}

/* For each of these names the other one that encloses its longest call. */
function modulesAround(activities, names) {
  const wanted = new Set(names);
  const isModule = Uint8Array.from(activities.strings, (s) => (wanted.has(s) ? 1 : 0));
  const longest = new Map();
  for (const track of activities.tracks) {
    const open = [];
    for (let i = track.first; i < track.end; i++) {
      if (!isModule[activities.name[i]]) continue;
      while (open.length && activities.endOf(open[open.length - 1]) < activities.endOf(i)) open.pop();
      const name = activities.nameOf(i);
      const known = longest.get(name);
      if (!known || activities.dur[i] > known.dur) {
        longest.set(name, {
          dur: activities.dur[i],
          around: open.length ? activities.nameOf(open[open.length - 1]) : '',
        });
      }
      open.push(i);
    }
  }
  return new Map([...longest].map(([name, found]) => [name, found.around]));
}
