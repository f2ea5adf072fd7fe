'use strict';
/* The section of call stacks: a flame graph of the boxes of the element `stacks` (report_stacks.c). */

const STACKS_WIDTH = 1200;

/* Boxes of the chosen rank with their places, {depth, name, colour, ns, count, x}. A box begins where its caller
 * does, or after the box before it. */
function placeBoxes({ names, colours, ranks, boxes }) {
  const placed = [];
  const next = [0];
  let root = -1;
  for (let i = 0; i < boxes.length; i += 4) {
    const [depth, name, ns, count] = boxes.slice(i, i + 4);
    if (!depth) root++;
    if (report.rank !== null && ranks[root] !== report.rank) continue;
    const x = next[depth];
    next[depth] = x + ns;
    next[depth + 1] = x;
    placed.push({ depth, name: names[name], colour: colours[name], ns, count, x });
  }
  return placed;
}

function stackBox(box, whole, noun) {
  const { depth, name, colour, ns, count } = box;
  const said = [formatTime(ns), formatPercent((100 * ns) / whole, 2)];
  if (count) said.push(`${formatNumber(count, 0)} ${noun}${count > 1 ? 's' : ''}`);
  const saturation = colour < 100 ? 0 : 65;
  return makeSvg(
    'g',
    { 'data-x': (box.x / whole) * STACKS_WIDTH, 'data-w': (ns / whole) * STACKS_WIDTH },
    makeSvg('rect', {
      y: depth * BOX_LINE,
      height: BOX_LINE - 1,
      fill: `hsl(${Math.floor(colour / 100)},${saturation}%,${colour % 100}%)`,
    }),
    makeSvg('title', { text: `${oneLine(name)}\n${said.join(', ')}` }),
    makeSvg('text'),
  );
}

/* The boxes are made when the browser has nothing else to do; their room is there before. */
function showCallStacks(root) {
  const stacks = report.stacks || {};
  const boxes = stacks.boxes ? placeBoxes(stacks) : [];
  if (!boxes.length) return;
  const height = (Math.max(...boxes.map((b) => b.depth)) + 1) * BOX_LINE + 10;
  const svg = makeSvg('svg', {
    class: 'flame',
    viewBox: `0 0 ${STACKS_WIDTH} ${height}`,
    height,
    tabindex: 0,
    role: 'application',
    'aria-roledescription': 'flame graph',
    'aria-label': 'Call stacks. Arrow keys select a box, Enter zooms to it, Escape shows everything.',
  });
  const head = make('div', { class: 'flame-head' });
  const what = stacks.sampled ? 'CPU time of samples' : 'Time of ranges, by thread and stream';
  const folded = `; ${formatNumber(stacks.folded, 0)} narrower boxes: ckineto convert -o NAME.folded has them`;
  const foot = make('p', { class: 'foot' }, what, stacks.folded ? folded : '');
  root.append(make('div', { class: 'panel' }, head, make('div', { class: 'flame-rows' }, svg), foot));
  (globalThis.requestIdleCallback || setTimeout)(() => drawCallStacks(svg, head, stacks, boxes));
}

function drawCallStacks(svg, head, stacks, boxes) {
  const shown = boxes.reduce((sum, b) => sum + (b.depth ? 0 : b.ns), 0);
  const whole = (report.rank === null ? stacks.whole : shown) || 1;
  svg.append(...boxes.map((b) => stackBox(b, whole, stacks.sampled ? 'sample' : 'time')));
  const graph = new FlameGraph(svg, 0);
  head.append(graph.bar);
  new ResizeObserver(() => svg.clientWidth && graph.fit(svg.clientWidth)).observe(svg);
}
