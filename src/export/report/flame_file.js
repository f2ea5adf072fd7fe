'use strict';
/* Starts the flame graph of a file (src/export/flame.c), which fills the window. Without a script the file shows
 * all boxes as they were written. */

const FILE_TOP = 30;
const TOOLS_WIDTH = 560;
const svg = document.documentElement;
const graph = new FlameGraph(svg, FILE_TOP);
const place = document.createElementNS('http://www.w3.org/2000/svg', 'foreignObject');
place.append(graph.bar);
place.setAttribute('y', 2);
place.setAttribute('height', 26);
svg.append(place);

function fitToWindow() {
  const width = Math.max(320, svg.clientWidth || graph.whole);
  const room = Math.min(TOOLS_WIDTH, width);
  place.setAttribute('width', room);
  place.setAttribute('x', width - room);
  document.querySelector('.back').setAttribute('width', width);
  graph.fit(width);
}

addEventListener('resize', fitToWindow);
fitToWindow();
