'use strict';
/* How long it takes: printed, not evaluated, as machines differ. ROWS=N says how large the trace is. */

const assert = require('node:assert');
const { test } = require('node:test');
const { withReport } = require('./browser.js');
const traces = require('./traces.js');

const ROWS = Number(process.env.ROWS || 1e6);

/* Frames of some movements, in ms. */
async function frames() {
  const { timeline } = ckineto;
  const move = async (action) => {
    const times = [];
    for (let i = 0; i < 40; i++) {
      timeline.frames.length = 0;
      action(i);
      while (!timeline.frames.length) await new Promise((done) => requestAnimationFrame(done));
      times.push(timeline.frames[0]);
    }
    times.sort((a, b) => a - b);
    return { median: times[20], worst: times[37] };
  };
  const result = {};
  timeline.rows.setAll(true);
  timeline.layOut();
  timeline.fitAll();
  result.whole = await move((i) => {
    timeline.fitAll();
    timeline.zoom(0.98 - 0.001 * (i % 2));
  });
  result.zooming = await move(() => timeline.zoom(0.8));
  result.moving = await move((i) => timeline.pan(i % 2 ? 40 : -25));
  return result;
}

test(`opening and redrawing ${ROWS} activities`, (t) =>
  withReport([traces.large(ROWS)], async (page) => {
    const times = await page.evaluate(() => ({ ...ckineto.times, count: ckineto.timeline.activities.count }));
    assert.ok(times.count >= ROWS);
    t.diagnostic(
      `${times.count} activities: findings after ${times.findings.toFixed(0)} ms, timeline after ` +
        `${times.timeline.toFixed(0)} ms, everything after ${times.all.toFixed(0)} ms`,
    );
    await page.evaluate(() => document.querySelector('#timeline').scrollIntoView());
    for (const [what, time] of Object.entries(await page.evaluate(frames))) {
      t.diagnostic(
        `redraw, ${what}: median ${time.median.toFixed(1)} ms, 95 of 100 within ${time.worst.toFixed(1)} ms`,
      );
    }
  }));
