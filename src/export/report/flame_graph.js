/* The script of the flame graph (src/export/flame.c), without which the file shows all boxes as they were
 * written: the full width of the window, zoom, search, and the root at the top or at the bottom. */
'use strict';
const LINE = 18;
const TOP = 30;
const LETTER = 7;
const LEAST = 0.3; /* narrower boxes are not shown */
const svg = document.documentElement;
/* data-x and data-w are parts of the written width */
const [, , WRITTEN_WIDTH, HEIGHT] = svg.getAttribute('viewBox').split(' ').map(Number);
const boxes = [...document.querySelectorAll('g[data-x]')].map((node) => {
  const [rect, title, label] = node.children;
  const text = title.textContent;
  const name = text.slice(0, text.lastIndexOf('\n'));
  const depth = (rect.getAttribute('y') - TOP) / LINE;
  const x = Number(node.dataset.x);
  return { node, rect, label, name, depth, x, end: x + Number(node.dataset.w), isMatch: false };
});
let zoomed = { x: 0, end: WRITTEN_WIDTH, depth: -1 };
let isFlipped = false;
let width = WRITTEN_WIDTH;

function shorten(name, room) {
  const letters = Math.floor((room - 4) / LETTER);
  if (letters < 3) return '';
  return name.length <= letters ? name : name.slice(0, letters - 1) + '\u2026';
}

/* Boxes around the zoomed one fill the width and are pale. */
function draw() {
  const scale = width / (zoomed.end - zoomed.x);
  for (const b of boxes) {
    const left = Math.max(0, (b.x - zoomed.x) * scale);
    const right = Math.min(width, (b.end - zoomed.x) * scale);
    const isShown = right - left >= LEAST;
    b.node.style.display = isShown ? '' : 'none';
    if (!isShown) continue;
    const y = isFlipped ? HEIGHT - 10 - (b.depth + 1) * LINE : TOP + b.depth * LINE;
    b.rect.setAttribute('x', left);
    b.rect.setAttribute('y', y);
    b.rect.setAttribute('width', right - left);
    b.label.setAttribute('x', left + 3);
    b.label.setAttribute('y', y + 13);
    b.label.textContent = shorten(b.name, right - left);
    b.node.setAttribute(
      'class',
      `${b.depth < zoomed.depth ? 'outer' : ''} ${b.isMatch ? 'match' : ''}`.trim(),
    );
  }
}

function fit() {
  width = Math.max(320, svg.clientWidth || WRITTEN_WIDTH);
  svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute('height', HEIGHT);
  document.querySelector('.back').setAttribute('width', width);
  tools.setAttribute('x', Math.max(0, width - 430));
  draw();
}

function zoomTo(box) {
  zoomed = box || { x: 0, end: WRITTEN_WIDTH, depth: -1 };
  draw();
}

/* A text, or an expression between slashes. */
function testOf(text) {
  const expression = /^\/(.+)\/$/.exec(text);
  if (!expression) return (name) => name.toLowerCase().includes(text.toLowerCase());
  const pattern = new RegExp(expression[1], 'i');
  return (name) => pattern.test(name.slice(0, 4096));
}

/* Time within matching boxes; those inside of others count once. */
function matchedShare() {
  const ranges = boxes.filter((b) => b.isMatch).sort((a, b) => a.x - b.x);
  let sum = 0;
  let end = 0;
  for (const r of ranges) {
    sum += Math.max(0, r.end - Math.max(r.x, end));
    end = Math.max(end, r.end);
  }
  return sum / WRITTEN_WIDTH;
}

function search(text) {
  let test = () => false;
  result.textContent = '';
  try {
    if (text) test = testOf(text);
  } catch {
    result.textContent = 'invalid expression';
  }
  for (const b of boxes) b.isMatch = test(b.name);
  if (text && !result.textContent) result.textContent = `${(100 * matchedShare()).toFixed(2)} % matched`;
  draw();
}

function makeTag(tag, attributes, text = '') {
  const node = document.createElementNS('http://www.w3.org/1999/xhtml', tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

const tools = document.createElementNS('http://www.w3.org/2000/svg', 'foreignObject');
const result = makeTag('output', {});
const input = makeTag('input', {
  type: 'search',
  placeholder: 'Search or /expression/',
  'aria-label': 'Search',
});
const reset = makeTag('button', { type: 'button', title: 'Show everything (Escape)' }, 'Reset');
const flip = makeTag('button', { type: 'button', title: 'Root at the top or at the bottom' }, 'Invert');
const bar = makeTag('div', { class: 'bar' });
bar.append(result, input, reset, flip);
tools.append(bar);
for (const [key, value] of Object.entries({ y: 2, width: 430, height: 26 })) tools.setAttribute(key, value);
svg.append(tools);

function showAll() {
  input.value = '';
  search('');
  zoomTo(null);
}

input.addEventListener('input', () => search(input.value.trim()));
reset.addEventListener('click', showAll);
flip.addEventListener('click', () => {
  isFlipped = !isFlipped;
  draw();
});
svg.addEventListener('click', (e) => {
  if (e.target.closest('foreignObject')) return;
  const node = e.target.closest('g[data-x]');
  zoomTo(node && boxes.find((b) => b.node === node));
});
svg.addEventListener('keydown', (e) => {
  if (e.key === 'Escape') showAll();
  const isFind = e.key === '/' || (e.key === 'f' && (e.ctrlKey || e.metaKey));
  if (!isFind || e.target === input) return;
  e.preventDefault();
  input.focus();
});
addEventListener('resize', fit);
fit();
