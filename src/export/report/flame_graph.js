'use strict';
/* A flame graph: zoom, search, selection by keys, and the root at the top or at the bottom. It works on boxes that
 * are there already, for the SVG of src/export/flame.c (flame_file.js) and the report (call_stacks.js). */

const BOX_LINE = 18;
const BOX_LETTER = 7;
const MIN_BOX_WIDTH = 0.3; /* narrower boxes are not shown */

class FlameGraph {
  /* Boxes are <g data-x data-w> in units of the viewBox, each with a rectangle, a title of name and numbers in two
   * lines, and a label. The lines of boxes begin at `top`. */
  constructor(svg, top) {
    this.svg = svg;
    this.top = top;
    [, , this.whole, this.height] = svg.getAttribute('viewBox').split(' ').map(Number);
    this.all = this.zoomed = { x: 0, end: this.whole, depth: -1 };
    this.boxes = [...svg.querySelectorAll('g[data-x]')].map((node) => this.readBox(node));
    this.boxes.sort((a, b) => a.depth - b.depth || a.x - b.x);
    this.bar = this.makeTools();
    svg.addEventListener('click', (e) => this.onClick(e));
    svg.addEventListener('keydown', (e) => this.onKey(e));
  }

  readBox(node) {
    const [rect, title, label] = node.children;
    const [, name, said] = /^(.*)\n(.*)$/s.exec(title.textContent);
    const depth = (rect.getAttribute('y') - this.top) / BOX_LINE;
    const x = Number(node.dataset.x);
    return { node, rect, label, name, said, depth, x, end: x + Number(node.dataset.w) };
  }

  makeTag(tag, attributes, text = '') {
    const node = document.createElementNS('http://www.w3.org/1999/xhtml', tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    return node;
  }

  makeTools() {
    const bar = this.makeTag('div', { class: 'flame-tools' });
    const button = (text, title, action) => {
      const node = this.makeTag('button', { type: 'button', title }, text);
      node.addEventListener('click', action);
      return node;
    };
    this.result = this.makeTag('output', {});
    this.input = this.makeTag('input', {
      type: 'search',
      placeholder: 'Search or /expression/',
      'aria-label': 'Search call stacks',
    });
    this.input.addEventListener('input', () => this.search(this.input.value.trim()));
    bar.append(
      this.result,
      this.input,
      button('Reset', 'Show everything (Escape)', () => this.showAll()),
      button('Invert', 'Root at the top or at the bottom', () => this.flip()),
    );
    return bar;
  }

  /* To the width of the window or of the page. */
  fit(width) {
    this.width = width;
    this.svg.setAttribute('viewBox', `0 0 ${width} ${this.height}`);
    this.svg.setAttribute('height', this.height);
    this.draw();
  }

  shorten(name, room) {
    const letters = Math.floor((room - 4) / BOX_LETTER);
    if (letters < 3) return '';
    return name.length <= letters ? name : name.slice(0, letters - 1) + '\u2026';
  }

  /* Boxes around the zoomed one fill the width and are pale. */
  draw() {
    const { zoomed, width } = this;
    const scale = width / (zoomed.end - zoomed.x);
    for (const b of this.boxes) {
      const left = Math.max(0, (b.x - zoomed.x) * scale);
      const right = Math.min(width, (b.end - zoomed.x) * scale);
      b.isShown = right - left >= MIN_BOX_WIDTH;
      b.node.style.display = b.isShown ? '' : 'none';
      if (!b.isShown) continue;
      const down = b.depth * BOX_LINE;
      const y = this.isFlipped ? this.height - 10 - BOX_LINE - down : this.top + down;
      b.rect.setAttribute('x', left);
      b.rect.setAttribute('y', y);
      b.rect.setAttribute('width', right - left);
      b.label.setAttribute('x', left + 3);
      b.label.setAttribute('y', y + 13);
      b.label.textContent = this.shorten(b.name, right - left);
      const marks = { outer: b.depth < zoomed.depth, match: b.isMatch, current: b === this.current };
      b.node.setAttribute('class', Object.keys(marks).filter((key) => marks[key]).join(' '));
    }
  }

  zoomTo(box) {
    this.zoomed = box || this.all;
    this.select(box);
  }

  select(box) {
    this.current = box;
    if (box) this.result.textContent = `${box.name.slice(0, 200)}: ${box.said}`;
    this.draw();
  }

  /* A text, or an expression between slashes. */
  testOf(text) {
    const expression = /^\/(.+)\/$/.exec(text);
    if (!expression) return (name) => name.toLowerCase().includes(text.toLowerCase());
    const pattern = new RegExp(expression[1], 'i');
    return (name) => pattern.test(name.slice(0, 4096));
  }

  /* Time within matching boxes; those inside of others count once. */
  matchedShare() {
    let sum = 0;
    let end = 0;
    for (const r of this.boxes.filter((b) => b.isMatch).sort((a, b) => a.x - b.x)) {
      sum += Math.max(0, r.end - Math.max(r.x, end));
      end = Math.max(end, r.end);
    }
    return sum / this.whole;
  }

  search(text) {
    let test = () => false;
    let isValid = true;
    try {
      if (text) test = this.testOf(text);
    } catch {
      isValid = false;
    }
    for (const b of this.boxes) b.isMatch = test(b.name);
    const share = `${(100 * this.matchedShare()).toFixed(2)} % matched`;
    this.result.textContent = isValid ? text && share : 'invalid expression';
    this.draw();
  }

  showAll() {
    this.input.value = '';
    this.search('');
    this.zoomTo(null);
  }

  flip() {
    this.isFlipped = !this.isFlipped;
    this.draw();
    this.svg.parentNode.scrollTop = this.isFlipped ? this.height : 0;
  }

  onClick(event) {
    if (event.target.closest('foreignObject')) return;
    const node = event.target.closest('g[data-x]');
    this.zoomTo(node && this.boxes.find((b) => b.node === node));
  }

  onKey(event) {
    const { key } = event;
    const isFind = key === '/' || (key === 'f' && (event.ctrlKey || event.metaKey));
    if (key === 'Escape') this.showAll();
    else if (event.target === this.input) return;
    else if (isFind) this.input.focus();
    else if (key === 'Enter' && this.current) this.zoomTo(this.current);
    else if (key.startsWith('Arrow')) this.walk(key);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /* Selects the caller, the first callee, or the neighbour in the same line. */
  walk(key) {
    const { current: b } = this;
    const shown = this.boxes.filter((o) => o.isShown);
    const isIn = (inner, outer) => inner.x > outer.x - 0.01 && inner.end < outer.end + 0.01;
    const by = ({ ArrowDown: 1, ArrowUp: -1 }[key] || 0) * (this.isFlipped ? -1 : 1);
    let next = shown[0];
    if (b && by) next = shown.find((o) => o.depth === b.depth + by && (by > 0 ? isIn(o, b) : isIn(b, o)));
    else if (b) {
      const line = shown.filter((o) => o.depth === b.depth);
      next = line[line.indexOf(b) + (key === 'ArrowLeft' ? -1 : 1)];
    }
    if (!next) return;
    this.select(next);
    next.rect.scrollIntoView({ block: 'nearest' });
  }
}
