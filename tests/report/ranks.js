'use strict';
/* The map of ranks: marks, order, and the choice of a rank. */

const assert = require('node:assert');
const fs = require('node:fs');
const { test } = require('node:test');
const { withReport, picture } = require('./browser.js');
const traces = require('./traces.js');

const mapOf = (page) =>
  page.evaluate(() => {
    const { order, measures, ranks } = ckineto.page.rankMap;
    return {
      order: order.map((r) => r.rank),
      marks: Object.fromEntries(ranks.filter((r) => r.mark).map((r) => [r.rank, r.mark])),
      titles: measures.map((m) => m.title),
      columns: measures[0].columns.length,
    };
  });

test('missing, cut off and slow ranks are marked, and are first if the worst are', () => {
  const files = traces.manyRanks(70, { missing: 41, cut: 50, slow: 7 });
  return withReport(files, async (page) => {
    const map = await mapOf(page);
    assert.deepStrictEqual(map.marks, { 7: 'slow', 41: 'missing', 50: 'cut off' });
    assert.deepStrictEqual(map.order, [...Array(70).keys()]);
    assert.strictEqual(map.columns, 4);
    assert.strictEqual(map.titles[0], 'Step time');
    await page.locator('#ranks select').nth(1).selectOption('1');
    assert.deepStrictEqual((await mapOf(page)).order.slice(0, 3), [41, 50, 7]);
    assert.match(await page.locator('.rank-map').getAttribute('aria-label'), /rank 41 missing/);
    await page.evaluate(() => document.querySelector('#ranks').scrollIntoView());
    await page.screenshot({ path: picture('ranks') });
  });
});

test('a click selects the rank, a second one all', () =>
  withReport(traces.manyRanks(6, {}), async (page) => {
    await page.locator('.rank-map').scrollIntoViewIfNeeded();
    const y = await page.evaluate(() => (ckineto.page.rankMap.tops[3] + ckineto.page.rankMap.tops[4]) / 2);
    const click = () => page.locator('.rank-map').click({ position: { x: 200, y } });
    await click();
    assert.strictEqual(await page.locator('#rank').inputValue(), '3');
    assert.strictEqual(await page.evaluate(() => ckineto.rank), 3);
    await page.waitForTimeout(200);
    await click();
    assert.strictEqual(await page.locator('#rank').inputValue(), 'all');
  }));

test('values of the map are those of the steps', () =>
  withReport(traces.manyRanks(5, { slow: 2 }), async (page) => {
    const { cells, steps } = await page.evaluate(() => ({
      cells: [...ckineto.page.rankMap.measures[0].of],
      steps: ckineto.page.tables.steps,
    }));
    const at = (name) => steps.columns.indexOf(name);
    for (const [rank, values] of cells) {
      const own = steps.rows.filter((row) => row[at('rank')] === rank).map((row) => row[at('dur_us')]);
      assert.deepStrictEqual(values, own);
    }
  }));

test('traces without steps have slices of time', () => {
  const files = traces.manyRanks(3, {}, 0);
  return withReport(files, async (page) => {
    const map = await mapOf(page);
    assert.deepStrictEqual(map.titles, ['Busiest stream']);
    const values = await page.evaluate(() => [...ckineto.page.rankMap.measures[0].of.values()].flat());
    assert.ok(values.every((v) => v >= 0 && v <= 100));
    assert.ok(values.some((v) => v > 50));
    for (const file of files) fs.unlinkSync(file);
  });
});

test('of several ranks each step has a bar for each', () =>
  withReport(traces.ranks(), async (page) => {
    assert.strictEqual(await page.locator('#steps .bar').count(), 6);
    assert.strictEqual(await page.locator('#steps .axis.middle').filter({ hasText: 'rank 1' }).count(), 3);
    await page.locator('#rank').selectOption('1');
    await page.locator('#steps .bar').nth(2).waitFor();
    assert.strictEqual(await page.locator('#steps .bar').count(), 3);
    const names = await page.locator('.name.process').allTextContents();
    assert.ok(
      names.every((name) => name.startsWith('rank 1')),
      names.join(),
    );
  }));
