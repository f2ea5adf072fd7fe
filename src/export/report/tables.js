'use strict';
/* Tables of any length: only the visible lines exist as elements. Tables can be sorted, filtered and
 * navigated with arrow keys; a line opens to show all of its values. */

const LINE = 24;
const LINES_SHOWN = 14;
const LINES_SPARE = 6;
const LINES_PRINTED = 25;
const SAMPLE = 400; /* lines that are measured for the width of a column */

class Table {
  /* table: {columns: [names], rows, more, note}; options: {label, lines} */
  constructor(name, table, options = {}) {
    this.name = name;
    this.rows = table.rows;
    this.more = table.more || 0;
    this.label = options.label || table.title || name;
    this.lines = options.lines || LINES_SHOWN;
    const columns = describeColumns(table);
    this.findPlace = report.hasTimeline ? placeFinder(columns) : null;
    this.columns = columns.filter((c) => !c.isEmpty && (c.name !== 'rank' || report.ranks.length > 1));
    if (!this.columns.length) this.columns = columns;
    fitWidths(this.columns);
    this.rankAt = table.columns.indexOf('rank');
    this.sort = null;
    this.filter = '';
    this.opened = -1;
    this.build();
    this.select();
  }

  build() {
    this.head = make('tr', { 'aria-rowindex': 1 }, ...this.columns.map((c, i) => this.headCell(c, i)));
    this.above = make(
      'tr',
      { class: 'space', 'aria-hidden': 'true' },
      make('td', { colspan: this.columns.length }),
    );
    this.below = this.above.cloneNode(true);
    this.body = make('tbody', {}, this.above, this.below);
    this.grid = make(
      'table',
      { class: 'grid', 'aria-label': this.label },
      this.makeWidths(),
      make('thead', {}, this.head),
      this.body,
    );
    this.scroller = make(
      'div',
      { class: 'rows', tabindex: 0, role: 'region', 'aria-label': `Rows of ${this.label}` },
      this.grid,
    );
    this.scroller.addEventListener('scroll', () => this.draw(), { passive: true });
    this.scroller.addEventListener('keydown', (e) => this.onKey(e));
    this.body.addEventListener('click', (e) => this.onClick(e));
    this.opens = make('dl', { class: 'opened', hidden: true });
    this.foot = make('p', { class: 'foot', role: 'status' });
    this.root = make(
      'div',
      { class: 'table', 'data-table': this.name },
      make(
        'div',
        { class: 'table-tools' },
        this.makeFilter(),
        tableButtons(this.label, () => this.asRows()),
      ),
      this.scroller,
      this.opens,
      this.foot,
    );
  }

  makeFilter() {
    if (this.rows.length < 6) return null;
    const input = make('input', {
      type: 'search',
      class: 'filter',
      placeholder: 'filter',
      'aria-label': `Filter ${this.label}`,
    });
    input.addEventListener(
      'input',
      waitForQuiet(120, () => {
        this.filter = input.value.trim().toLowerCase();
        this.select();
      }),
    );
    return input;
  }

  /* All selected lines in their order, with the names and exact values of the analysis. */
  asRows() {
    return {
      name: this.name,
      columns: this.columns.map((c) => c.name),
      rows: this.list.map((i) => this.columns.map((c) => this.rows[i][c.at])),
    };
  }

  makeWidths() {
    const widths = this.columns.map((c) => c.width);
    const group = make(
      'colgroup',
      {},
      ...widths.map((w) => {
        const col = make('col');
        col.style.width = `${w}px`;
        return col;
      }),
    );
    return group;
  }

  headCell(column, i) {
    const button = make(
      'button',
      { type: 'button', title: column.name, onclick: () => this.sortBy(i) },
      columnTitle(column),
    );
    return make(
      'th',
      { scope: 'col', class: column.isText ? 'text' : 'number', 'data-column': column.name },
      button,
    );
  }

  sortBy(i) {
    const isSame = this.sort && this.sort.column === i;
    const down = isSame ? !this.sort.down : !this.columns[i].isText;
    this.sort = { column: i, down };
    [...this.head.children].forEach((th, k) => {
      if (k === i) th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    this.select();
  }

  /* Applies rank, filter and order. */
  select() {
    const rank = report.rank;
    const list = [];
    this.rows.forEach((row, i) => {
      if (this.rankAt >= 0 && rank !== null && row[this.rankAt] !== rank && row[this.rankAt] !== null) return;
      if (!this.filter || this.hasText(row)) list.push(i);
    });
    if (this.sort) list.sort(this.order());
    this.list = list;
    this.close();
    this.scroller.scrollTop = 0;
    this.fitHeight();
    this.writeFoot();
    this.draw(true);
  }

  hasText(row) {
    return row.some((v) => typeof v === 'string' && v.toLowerCase().includes(this.filter));
  }

  /* Missing values come last in both directions. */
  order() {
    const { down } = this.sort;
    const column = this.columns[this.sort.column].at;
    const rows = this.rows;
    const sign = down ? -1 : 1;
    return (i, k) => {
      const a = rows[i][column];
      const b = rows[k][column];
      if (a === b) return i - k;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      return a < b ? -sign : sign;
    };
  }

  fitHeight() {
    const lines = Math.min(Math.max(this.list.length, 1), this.lines);
    const width = this.columns.reduce((sum, c) => sum + c.width, 0);
    this.grid.style.minWidth = `${width}px`;
    this.scroller.style.maxHeight = `${(lines + 1) * LINE + 18}px`;
  }

  writeFoot() {
    const parts = [];
    const shown = this.list.length;
    if (shown !== this.rows.length)
      parts.push(`${formatNumber(shown, 0)} of ${formatNumber(this.rows.length, 0)} rows`);
    else if (shown > this.lines) parts.push(`${formatNumber(shown, 0)} rows`);
    if (this.more) parts.push(`${formatNumber(this.more, 0)} more rows: ckineto analyze --json has them`);
    this.foot.textContent = parts.join('; ');
    this.foot.hidden = !parts.length;
  }

  draw(all = false) {
    const top = Math.floor(this.scroller.scrollTop / LINE);
    const first = this.isPrinted ? 0 : Math.max(0, top - LINES_SPARE);
    const most = this.isPrinted ? LINES_PRINTED : this.lines + 2 * LINES_SPARE;
    const end = Math.min(this.list.length, first + most);
    if (!all && first === this.first && end === this.end) return;
    this.first = first;
    this.end = end;
    const focus = this.body.contains(document.activeElement);
    this.above.firstChild.style.height = `${first * LINE}px`;
    this.below.firstChild.style.height = `${this.isPrinted ? 0 : (this.list.length - end) * LINE}px`;
    const lines = [];
    for (let i = first; i < end; i++) lines.push(this.line(i));
    this.body.replaceChildren(this.above, ...lines, this.below);
    this.grid.setAttribute('aria-rowcount', String(this.list.length + 1));
    if (focus) this.scroller.focus({ preventScroll: true });
  }

  line(i) {
    const row = this.rows[this.list[i]];
    const place = this.findPlace ? this.findPlace(row) : null;
    const line = make('tr', {
      'aria-rowindex': i + 2,
      class: i % 2 ? 'odd' : null,
      'aria-selected': i === this.opened ? 'true' : null,
    });
    line.number = i;
    let isFirst = true;
    this.columns.forEach((column) => {
      const cell = this.cell(row[column.at], column, place, isFirst);
      if (cell.firstChild instanceof Element) isFirst = false;
      line.append(cell);
    });
    return line;
  }

  /* data-value keeps the exact value of the analysis. */
  cell(value, column, place, isFirst) {
    const text = formatCell(value, column);
    const isLink = place && typeof value === 'number' && !NO_PLACE_COLUMNS.has(column.name);
    const content = isLink ? placeLink(place, text, { tabindex: isFirst ? 0 : -1 }) : text;
    return make(
      'td',
      {
        class: column.isText ? 'text' : `number${changeClass(column, value)}`,
        title: typeof value === 'string' && value.length > 20 ? value.slice(0, 4000) : null,
        'data-value': typeof value === 'number' ? String(value) : null,
      },
      content,
    );
  }

  onClick(event) {
    const line = event.target.closest('tr');
    if (!line || line.number === undefined || event.target.closest('a')) return;
    if (this.opened === line.number) this.close();
    else this.open(line.number);
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Escape') this.close();
    if (event.target !== this.scroller || !step || this.opened < 0) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(this.list.length - 1, this.opened + step));
    this.open(next);
    const top = this.scroller.scrollTop;
    if (next * LINE < top || (next + 3) * LINE > top + this.scroller.clientHeight)
      this.scroller.scrollTop = (next - 2) * LINE;
  }

  /* All values of a line, in full. */
  open(i) {
    this.opened = i;
    const row = this.rows[this.list[i]];
    const parts = this.columns.flatMap((column) => {
      const value = row[column.at];
      if (value === null || value === '') return [];
      const unit = column.type === 'moment' ? '' : column.unit[0];
      const text = typeof value === 'string' ? value : `${formatCell(value, column)} ${unit}`.trim();
      const { frames } = isStackColumn(column.name) ? splitStack(text) : { frames: [] };
      const shown = frames.length ? stackList(frames) : text;
      return [make('dt', {}, columnTitle({ name: column.name, unit: ['', 1] })), make('dd', {}, shown)];
    });
    this.opens.replaceChildren(...parts);
    this.opens.hidden = false;
    this.draw(true);
  }

  close() {
    if (this.opened < 0) return;
    this.opened = -1;
    this.opens.hidden = true;
    this.draw(true);
  }

  /* Printed tables cannot scroll: they show their first lines. */
  print(on) {
    this.isPrinted = on;
    this.draw(true);
    const left = this.list.length - LINES_PRINTED;
    if (on && left > 0) {
      this.foot.textContent = `${formatNumber(left + this.more, 0)} more rows`;
      this.foot.hidden = false;
    } else {
      this.writeFoot();
    }
  }
}

/* In comparisons an increase is worse: all columns are time or memory. */
function changeClass(column, value) {
  if (!/^delta_(us|pct|bytes)$/.test(column.name) || !value) return '';
  return value > 0 ? ' worse' : ' better';
}

/* Type, unit and width of each column, by its name and values. */
function describeColumns(table) {
  const rows = table.rows;
  const stride = Math.max(1, Math.floor(rows.length / SAMPLE));
  return table.columns.map((name, c) => {
    let most = 0;
    let longest = 0;
    let isText = false;
    let isEmpty = true;
    for (let i = 0; i < rows.length; i += 1) {
      const value = rows[i][c];
      if (value !== null && value !== '') isEmpty = false;
      if (typeof value === 'number') most = Math.max(most, Math.abs(value));
      else if (typeof value === 'string') {
        isText = true;
        if (i % stride === 0) longest = Math.max(longest, value.length);
      }
    }
    const type = isText ? '' : columnType(name);
    const column = { name, at: c, isText, isEmpty, type, unit: columnUnit(type, most) };
    column.longest = longest;
    return column;
  });
}

/* The first column of long texts is the name; the others get less. */
function fitWidths(columns) {
  let isNamed = false;
  for (const column of columns) {
    const title = columnTitle(column).length * 7 + 26;
    const isLong = column.isText && column.longest > 24;
    const text = Math.min(column.longest * 7 + 22, isLong && isNamed ? 170 : 400);
    column.width = Math.max(title, column.isText ? text : column.type ? 90 : 68);
    isNamed = isNamed || isLong;
  }
}
