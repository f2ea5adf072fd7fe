'use strict';
/* The timeline by mouse and keys, and the links that lead to it. */

const assert = require('node:assert');
const { test } = require('node:test');
const { withReport, shared, analyze } = require('./browser.js');
const traces = require('./traces.js');

const spanOf = (page) => page.evaluate(() => [ckineto.timeline.from, ckineto.timeline.to]);
const lengthOf = async (page) => {
  const [from, to] = await spanOf(page);
  return to - from;
};
const selectedName = (page) => page.locator('.selected-name').textContent();

async function search(page, text) {
  await page.locator('#search').fill(text);
  await page.locator('#search').press('Enter');
  await page.locator('.result').filter({ hasText: ' of ' }).waitFor();
}

test('search counts matches and goes from one to the next and around', () =>
  withReport([traces.plain()], async (page) => {
    await search(page, 'GEMM');
    const result = page.locator('.result');
    assert.strictEqual(await result.textContent(), '1 of 3');
    const seen = [];
    for (let i = 0; i < 3; i++) {
      seen.push(await page.evaluate(() => ckineto.timeline.selected));
      await page.locator('#search').press('Enter');
    }
    assert.strictEqual(new Set(seen).size, 3);
    assert.strictEqual(await result.textContent(), '1 of 3');
    await page.locator('#search').press('Shift+Enter');
    assert.strictEqual(await result.textContent(), '3 of 3');
    await page.locator('#search').fill('/^(gemm|relu)$/');
    await page.getByText(/^6 found$/).waitFor();
    await page.locator('#search').fill('/(/');
    await page.getByText('invalid expression').waitFor();
  }));

test('the selection has all arguments and the call that launched it', () =>
  withReport([traces.plain()], async (page) => {
    await search(page, 'softmax');
    const args = page.locator('.args');
    await args.getByText('grid').waitFor();
    const pairs = await args.evaluate((dl) => {
      const all = [...dl.children].map((n) => n.textContent);
      return Object.fromEntries(all.flatMap((text, i) => (i % 2 ? [] : [[text, all[i + 1]]])));
    });
    assert.strictEqual(pairs.stream, '7');
    assert.strictEqual(pairs.grid.replace(/\s/g, ''), '[3,1,1]');
    await page.getByRole('button', { name: /cudaLaunchKernel/ }).click();
    assert.strictEqual(await selectedName(page), 'cudaLaunchKernel');
    await page.getByRole('button', { name: /softmax/ }).waitFor();
    await page.getByRole('button', { name: /aten::op2/ }).click();
    assert.match(await page.locator('.pairs').first().textContent(), /Duration60\.00 µs.*Self40\.00 µs/);
  }));

test('arguments of a later block are those of the activity', () =>
  withReport([traces.manyNames(20000)], async (page) => {
    await search(page, 'op_17000');
    await page.locator('.details[data-ready="17000"]').waitFor();
    assert.strictEqual(await selectedName(page), 'op_17000');
    assert.strictEqual(await page.locator('.args').textContent(), 'number17000');
  }));

test('keys zoom, move, select and clear', () =>
  withReport([traces.plain()], async (page) => {
    await page.locator('canvas.picture').focus();
    const whole = await lengthOf(page);
    await page.keyboard.press('w');
    const near = await spanOf(page);
    assert.ok(near[1] - near[0] < whole * 0.75);
    await page.keyboard.press('d');
    assert.ok((await spanOf(page))[0] > near[0]);
    await page.keyboard.press('ArrowLeft');
    assert.ok(Math.abs((await spanOf(page))[0] - near[0]) < whole * 0.01);
    await page.keyboard.press('0');
    assert.ok(Math.abs((await lengthOf(page)) - whole) < 1);
    await page.keyboard.press('Shift+ArrowRight');
    assert.strictEqual(await selectedName(page), 'ProfilerStep#1');
    await page.keyboard.press('Shift+ArrowRight');
    assert.strictEqual(await selectedName(page), 'ProfilerStep#2');
    await page.keyboard.press('Shift+ArrowDown');
    assert.strictEqual(await selectedName(page), 'aten::op0');
    await page.keyboard.press('Shift+ArrowUp');
    assert.strictEqual(await selectedName(page), 'ProfilerStep#2');
    await page.keyboard.press('f');
    assert.ok((await lengthOf(page)) < whole);
    await page.keyboard.press('Escape');
    await page.getByText('Nothing is selected.').waitFor();
  }));

test('the wheel with Ctrl zooms where the pointer is, and a drag moves', () =>
  withReport([traces.plain()], async (page) => {
    const canvas = page.locator('canvas.picture');
    await canvas.scrollIntoViewIfNeeded();
    const box = await canvas.boundingBox();
    const x = box.x + box.width / 4;
    const y = box.y + 60;
    const under = () => page.evaluate((at) => ckineto.timeline.timeAt(at), box.width / 4);
    await page.mouse.move(x, y);
    const before = await under();
    const whole = await lengthOf(page);
    await page.keyboard.down('Control');
    await page.mouse.wheel(0, -300);
    await page.keyboard.up('Control');
    await page.waitForTimeout(100);
    assert.ok((await lengthOf(page)) < whole * 0.5);
    assert.ok(Math.abs((await under()) - before) < whole * 0.01);
    const [from] = await spanOf(page);
    await page.mouse.down();
    await page.mouse.move(x - 120, y, { steps: 4 });
    await page.mouse.up();
    assert.ok((await spanOf(page))[0] > from);
  }));

test('a range of time is summed up by name', () =>
  withReport([traces.plain()], async (page) => {
    await page.evaluate(() => ckineto.timeline.setRange([0, 1e6]));
    const table = page.locator('[data-table="range"]');
    await table.waitFor();
    const sums = await table.evaluate((root) =>
      [...root.querySelectorAll('tbody tr:not(.space)')].map((tr) => [
        tr.cells[1].textContent,
        Number(tr.cells[2].dataset.value),
        Number(tr.cells[3].dataset.value),
      ]),
    );
    const of = (name) => sums.find((s) => s[0] === name);
    assert.deepStrictEqual(of('gemm').slice(1), [1, 50]);
    assert.deepStrictEqual(of('cudaLaunchKernel').slice(1), [4, 80]);
    const canvas = page.locator('canvas.ruler');
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + 100, box.y + 10);
    await page.mouse.down();
    await page.mouse.move(box.x + 300, box.y + 10, { steps: 3 });
    await page.mouse.up();
    const range = await page.evaluate(() => ckineto.timeline.range);
    assert.ok(range && range[1] > range[0]);
  }));

test('numbers of tables and evidence lead to their place', async (t) => {
  const files = shared('resnet50_num_workers_0.json.gz');
  if (!files) return t.skip('no public traces: CKINETO_SHARED');
  return withReport(files, async (page) => {
    const [first] = analyze(files, '--findings').findings;
    await page.locator('.finding .evidence a').first().scrollIntoViewIfNeeded();
    const before = await page.evaluate(() => scrollY);
    await page.locator('.finding .evidence a').first().click();
    await page.locator('.selected-name').waitFor();
    assert.strictEqual(await selectedName(page), first.evidence[0].name);
    const dur = await page.evaluate(() => ckineto.timeline.activities.dur[ckineto.timeline.selected]);
    assert.ok(Math.abs(dur / 1e3 - first.evidence[0].dur_us) < 0.01);
    assert.match(page.url(), /#timeline$/);
    assert.ok((await page.evaluate(() => scrollY)) > 0);
    await page.keyboard.press('Backspace');
    await page.locator('.finding').first().waitFor();
    assert.strictEqual(await page.evaluate(() => scrollY), before);
    await page.locator('details[data-name="steps"]').evaluate((d) => {
      d.open = true;
    });
    await page.locator('[data-table="steps"] a.place').first().click();
    const range = await page.evaluate(() => ckineto.timeline.range);
    const { columns, rows } = analyze(files, '--only', 'steps').tables.steps;
    const span = rows[0][columns.indexOf('dur_us')];
    assert.ok(Math.abs((range[1] - range[0]) / 1e3 - span) < 1);
    await page.locator('[data-table="kernels"] a.place').first().click();
    await page.locator('.selected-name').waitFor();
    const name = await page
      .locator('[data-table="kernels"] tbody tr:not(.space)')
      .first()
      .evaluate((tr) => tr.cells[2].title);
    assert.strictEqual(await selectedName(page), name.length > 20 ? name : await selectedName(page));
  });
});

test('tracks fold and open, and the row of a folded one is still found', () =>
  withReport([traces.plain()], async (page) => {
    const height = () => page.evaluate(() => ckineto.timeline.rows.height);
    const open = await height();
    const fold = page.locator('button.name.track').first();
    await fold.click();
    await page.locator('button.name.track[aria-expanded="false"]').first().waitFor();
    assert.ok((await height()) < open);
    await search(page, 'cudaLaunchKernel');
    assert.strictEqual(await height(), open);
  }));

test('names of tracks and steps are those of the trace', () =>
  withReport([traces.plain()], async (page) => {
    const { tracks, steps, counters } = await page.evaluate(() => ({
      tracks: ckineto.timeline.activities.tracks.map((t) => t.type),
      steps: ckineto.timeline.activities.steps.map((s) => [s.name, s.start, s.dur]),
      counters: ckineto.timeline.activities.counters.map((c) => [
        c.count,
        c.values[3],
        c.times[1] - c.times[0],
      ]),
    }));
    assert.ok(tracks.includes('thread') && tracks.includes('stream'));
    assert.deepStrictEqual(
      steps,
      [0, 1, 2].map((i) => [`ProfilerStep#${i + 1}`, i * 1e6, 900000]),
    );
    assert.deepStrictEqual(counters, [[20, 3e6, 1e5]]);
  }));
