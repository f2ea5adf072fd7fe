'use strict';
/* Tables leave the page as text, call stacks are lists, and a comparison adds up. */

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { analyze, changed, withReport, shared, CKINETO } = require('./browser.js');
const traces = require('./traces.js');

const STACKS = path.join(__dirname, '../data/torch-2.15.0/stacks.json.gz');

/* RFC 4180. */
function parseCsv(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)/g)) {
    rows[rows.length - 1].push(quoted === undefined ? plain : quoted.replace(/""/g, '"'));
    if (end === '\n') rows.push([]);
    if (end === '') break;
  }
  return rows.slice(0, -1);
}

test('a table is saved as the values of analyze', () =>
  withReport([traces.evil()], async (page) => {
    const { columns, rows } = analyze([traces.evil()], '--only', 'kernels').tables.kernels;
    const saving = page.waitForEvent('download');
    await page.locator('[data-table="kernels"] .buttons button').filter({ hasText: 'CSV' }).click();
    const download = await saving;
    assert.strictEqual(download.suggestedFilename(), 'kernels.csv');
    const [head, ...lines] = parseCsv(fs.readFileSync(await download.path(), 'utf8'));
    const at = head.map((name) => columns.indexOf(name));
    assert.ok(!at.includes(-1));
    const key = (values) => JSON.stringify(values.map(String));
    const wanted = new Set(rows.map((row) => key(at.map((c) => row[c] ?? ''))));
    assert.strictEqual(lines.length, rows.length);
    for (const line of lines) assert.ok(wanted.has(key(line)), key(line));
  }));

test('a table is copied with tabs, as it is sorted and filtered', () =>
  withReport([traces.plain()], async (page) => {
    await page.evaluate(() => {
      const table = ckineto.page.shown.find((t) => t.name === 'kernels');
      table.filter = 're';
      table.sortBy(table.columns.findIndex((c) => c.name === 'name'));
      table.select();
      Object.defineProperty(navigator, 'clipboard', {
        value: { writeText: async (text) => (globalThis.copied = text) },
      });
    });
    await page.locator('[data-table="kernels"] .buttons button').filter({ hasText: 'Copy' }).click();
    const lines = (await page.evaluate(() => globalThis.copied)).trimEnd().split('\n');
    const at = lines[0].split('\t').indexOf('name');
    assert.deepStrictEqual(
      lines.slice(1).map((line) => line.split('\t')[at]),
      ['reduce', 'relu'],
    );
  }));

test('every table has the buttons', () =>
  withReport([STACKS], async (page) => {
    await page.evaluate(() =>
      document.querySelectorAll('details[data-name]').forEach((d) => (d.open = true)),
    );
    await page.waitForTimeout(100);
    const counts = await page
      .locator('[data-table]')
      .evaluateAll((all) =>
        all.map((t) => [t.dataset.table, t.querySelectorAll('.table-tools .buttons button').length]),
      );
    assert.ok(counts.length > 5);
    for (const [name, count] of counts) assert.strictEqual(count, 2, name);
  }));

test('a call stack is a list, innermost first, and leads to its functions', () =>
  withReport([STACKS], async (page) => {
    const line = page.locator('[data-table="operators"] tbody tr:not(.space)').first();
    await line.evaluate((tr) => tr.click());
    const frames = page.locator('[data-table="operators"] .stack li');
    const shown = await frames.allTextContents();
    const { columns, rows } = analyze([STACKS], '--only', 'operators').tables.operators;
    const stacks = rows.map((row) => row[columns.indexOf('stack')]);
    assert.ok(shown.length > 2);
    assert.ok(stacks.includes(shown.join(';')), shown.join(';'));
    await frames.locator('a').last().click();
    await page.locator('.selected-name').waitFor();
    assert.ok(shown.includes(await page.locator('.selected-name').textContent()));
    assert.ok(
      (await page.locator('.finding .evidence .stack li a').count()) > 2,
      'evidence has its stack as a list',
    );
    assert.strictEqual(
      await page
        .locator('.evidence')
        .filter({ hasText: /\): \w+;/ })
        .count(),
      0,
    );
  }));

test('the waterfall goes from before to after, with what is unexplained last', (t) => {
  const files = shared('resnet50_num_workers_0.json.gz', 'resnet50_num_workers_4.json.gz');
  if (!files) return t.skip('no public traces: CKINETO_SHARED');
  const { facts } = JSON.parse(
    execFileSync(CKINETO, ['diff', ...files, '--json', '-'], { maxBuffer: 2 ** 30 }),
  );
  const file = changed(files.slice(1), 'waterfall.html', (summary) => {
    summary.diff = facts;
  });
  return withReport(
    null,
    async (page) => {
      const bars = await page.locator('.waterfall li').evaluateAll((all) =>
        all.map((li) => {
          const { from, to } = li.querySelector('.fill').dataset;
          return { title: li.querySelector('.label').textContent, from: Number(from), to: Number(to) };
        }),
      );
      const titles = bars.map((b) => b.title);
      assert.deepStrictEqual([titles[0], ...titles.slice(-2)], ['before', 'unexplained', 'after']);
      for (let i = 1; i + 1 < bars.length; i++) assert.strictEqual(bars[i].from, bars[i - 1].to);
      const [last, whole] = bars.slice(-2);
      assert.ok(Math.abs(last.to - whole.to) < 1e-6 * whole.to, 'the parts add up');
    },
    { file },
  );
});
