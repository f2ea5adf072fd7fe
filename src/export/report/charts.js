'use strict';
/* Charts, as SVG and as bars made of elements. Each one has a text with its numbers for screen readers. */

/* Colours are variables of style.css. */
const colorOfPart = (color) => `var(--c-${color})`;

function colorBox(color) {
  const swatch = make('span', { class: 'swatch', 'aria-hidden': 'true' });
  swatch.style.background = colorOfPart(color);
  return swatch;
}

function legend(parts) {
  return make('ul', { class: 'legend' }, ...parts.map((p) => make('li', {}, colorBox(p.color), p.title)));
}

/* One bar divided into parts, [{title, value, color}], with the total at its end. */
function splitBar(label, parts, total, show) {
  const sum = total || parts.reduce((s, p) => s + p.value, 0) || 1;
  const words = parts.map((p) => `${p.title} ${show(p.value)}`).join(', ');
  const bar = make('div', { class: 'split', role: 'img', 'aria-label': `${label}: ${words}` });
  for (const part of parts) {
    if (!(part.value > 0)) continue;
    const share = (part.value / sum) * 100;
    const piece = make(
      'span',
      { title: `${part.title}: ${show(part.value)} (${formatPercent(share)})` },
      share > 10 ? formatPercent(share, 0) : '',
    );
    piece.style.background = colorOfPart(part.color);
    piece.style.width = `${share}%`;
    bar.append(piece);
  }
  return make(
    'div',
    { class: 'labelled' },
    make('span', { class: 'label' }, label),
    bar,
    make('span', { class: 'whole' }, show(sum)),
  );
}

/* One line with a bar for each of [{title, value, share, color, place}]; `most`, else the largest value, fills
 * the width. */
function barList(items, show, most = Math.max(...items.map((i) => i.value), 0) || 1) {
  const list = make('ul', { class: 'bars' });
  for (const item of items) {
    const fill = make('span', { class: 'fill' });
    fill.style.background = colorOfPart(item.color);
    fill.style.width = `${(item.value / most) * 100}%`;
    const number =
      item.place && report.hasTimeline ? placeLink(item.place, show(item.value)) : show(item.value);
    list.append(
      make(
        'li',
        {},
        make('span', { class: 'label', title: oneLine(item.title) }, oneLine(item.title, 80)),
        make('span', { class: 'track', 'aria-hidden': 'true' }, fill),
        make('span', { class: 'value' }, number),
        make('span', { class: 'share' }, item.share === undefined ? '' : formatPercent(item.share)),
      ),
    );
  }
  return list;
}

/* A chart that draw(width) makes for the width of its place, and again when that changes. */
function fittedChart(draw, ...below) {
  const place = make('div');
  const fit = () => {
    const width = Math.max(240, Math.floor(place.clientWidth));
    if (!place.clientWidth || report.isPrinting || place.drawn === width) return;
    place.drawn = width;
    place.replaceChildren(draw(width));
  };
  new ResizeObserver(fit).observe(place);
  return make('figure', { class: 'chart' }, place, ...below);
}

function drawScale(svg, most, height, width, show) {
  const step = roundStep(most / 5);
  for (let value = 0; value <= most * 1.001; value += step) {
    const y = height - (value / most) * (height - 12);
    svg.append(makeSvg('line', { x1: 54, x2: width, y1: y, y2: y, class: 'rule' }));
    svg.append(makeSvg('text', { x: 50, y: y + 3.5, class: 'axis end', text: show(value) }));
  }
}

/* Step curves over time, [{title, color, times, values}]: the maximum of each pixel. */
function curves(label, lines, length, show) {
  return fittedChart((width) => drawCurves({ label, lines, length, show, width }), legend(lines));
}

function drawCurves({ label, lines, length, show, width }) {
  const height = 180;
  const most = Math.max(...lines.map((l) => counterRange(l)[1]), 1e-9);
  const svg = makeSvg('svg', {
    viewBox: `0 0 ${width} ${height + 22}`,
    class: 'curves',
    role: 'img',
    'aria-label': label,
  });
  drawScale(svg, most, height, width, show);
  for (const line of lines) {
    svg.append(
      makeSvg('path', { d: curvePath(line, length, most, width, height), stroke: colorOfPart(line.color) }),
    );
  }
  for (let i = 0; i <= 4; i++) {
    const x = 58 + ((width - 62) * i) / 4;
    const end = i === 4 ? 'axis end' : i ? 'axis middle' : 'axis';
    svg.append(makeSvg('text', { x, y: height + 15, class: end, text: formatTime((length * i) / 4) }));
  }
  return svg;
}

function curvePath(line, length, most, width, height) {
  const parts = [];
  const pixels = width - 62;
  let i = -1;
  for (let x = 0; x < pixels; x++) {
    const next = lastUntil(line.times, ((x + 1) / pixels) * length, Math.max(i, 0));
    let value = i >= 0 ? line.values[i] : -Infinity;
    if (next > i) value = Math.max(value, maxOf(line, i + 1, next + 1));
    i = next;
    if (value === -Infinity) continue;
    const y = height - (Math.max(0, value) / most) * (height - 12);
    parts.push(`${parts.length ? 'L' : 'M'}${58 + x} ${y.toFixed(1)}`);
  }
  return parts.join('');
}
