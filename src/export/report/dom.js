'use strict';
/* Creates elements. All text of traces enters the page here, always as text and never as markup. */

const SVG = 'http://www.w3.org/2000/svg';

/* Maximum length of a text that is shown in one line. */
const MAX_LINE_LENGTH = 400;

function setAll(node, attributes) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'text') node.textContent = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
}

/* make('p', {class: 'note'}, 'text', otherNode, null) */
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  setAll(node, attributes);
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

function makeSvg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  setAll(node, attributes);
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

/* A text of any length, cut to one line. */
function oneLine(text, most = MAX_LINE_LENGTH) {
  return text.length > most ? text.slice(0, most) + '…' : text;
}

/* Announces a change to screen readers. */
function announce(text) {
  byId('announcement').textContent = oneLine(text);
}

/* A link to a place on the timeline; the page listens once for all of them (places.js). */
function placeLink(place, text, attributes) {
  const link = make('a', { href: '#timeline', class: 'place', ...attributes }, text);
  link.place = place;
  return link;
}

/* A bar that is filled by `share` (0 … 1). */
function meter(share, label, shade = '') {
  const fill = make('span', { class: 'fill ' + shade });
  fill.style.width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  return make('span', { class: 'meter', role: 'img', 'aria-label': label }, fill);
}

/* Lets the browser draw and handle input. */
function pause() {
  if (globalThis.scheduler && scheduler.yield) return scheduler.yield();
  return new Promise((done) => setTimeout(done, 0));
}

function nextFrame() {
  return new Promise((done) => requestAnimationFrame(() => done()));
}

function waitForQuiet(ms, action) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(action, ms, ...args);
  };
}
