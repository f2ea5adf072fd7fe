'use strict';
/* What the page says is what the command says, and text of traces stays text. */

const assert = require('node:assert');
const { test } = require('node:test');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { analyze, changed, reportOf, withReport, picture, CKINETO, shared, linesOf } = require('./browser.js');
const traces = require('./traces.js');

const UNITS = { s: 1e6, ms: 1e3, µs: 1, ns: 1e-3 };

/* "47.28 ms" in us. */
function timeOf(text) {
  const [number, unit] = text
    .replace(/\u202f/g, '')
    .replace('−', '-')
    .split(' ');
  return Number(number) * (UNITS[unit] || 0);
}

/* Every line in view has the numbers of a row of the facts, and there are as many rows. */
async function tablesAgree(page, facts) {
  let compared = 0;
  for (const [name, table] of Object.entries(facts.tables)) {
    const shown = await linesOf(page, name);
    if (!shown || !shown.columns.length) continue;
    assert.strictEqual(shown.count, Math.min(table.rows.length, shown.count), name);
    if (table.rows.length <= 5000) assert.strictEqual(shown.count, table.rows.length, name);
    const at = shown.columns.map((c) => table.columns.indexOf(c));
    assert.ok(!at.includes(-1), `${name}: ${shown.columns}`);
    const key = (values) => JSON.stringify(values.map((v) => (typeof v === 'number' ? v : null)));
    const known = new Set(table.rows.map((row) => key(at.map((c) => row[c]))));
    for (const line of shown.lines) {
      assert.ok(known.has(key(line.map((cell) => cell.value))), `${name}: ${JSON.stringify(line)}`);
      compared++;
    }
  }
  return compared;
}

async function findingsAgree(page, findings) {
  const cards = await page.locator('#findings .finding').evaluateAll((all) =>
    all.map((card) => ({
      id: card.dataset.id,
      worth: card.querySelector('.savings strong') && card.querySelector('.savings strong').textContent,
      of: card.querySelector('.savings span').textContent,
      sentence: card.querySelector('.text p').textContent,
      advice: card.querySelector('.advice').textContent,
      evidence: card.querySelectorAll('.evidence > li').length,
      confidence: (card.textContent.match(/(low|medium|high) confidence/) || [])[1],
      meter: card.querySelector('.meter .fill') && parseFloat(card.querySelector('.meter .fill').style.width),
    })),
  );
  assert.deepStrictEqual(
    cards.map((c) => c.id),
    findings.findings.map((f) => f.id),
  );
  findings.findings.forEach((finding, i) => {
    assert.strictEqual(cards[i].sentence, finding.sentence);
    assert.strictEqual(cards[i].advice, finding.advice);
    assert.strictEqual(cards[i].evidence, finding.evidence.length);
    if (!cards[i].worth) return;
    const { confidence } = finding;
    assert.strictEqual(
      cards[i].confidence,
      confidence >= 0.75 ? 'high' : confidence >= 0.45 ? 'medium' : 'low',
    );
    assert.ok(Math.abs(cards[i].meter - finding.worth_pct) < 0.1, 'the meter is of 100 %');
    assert.ok(Math.abs(timeOf(cards[i].worth) - finding.worth_us) <= finding.worth_us * 0.001);
    const isOfAll = finding.of_us === (findings.step_us ?? findings.whole_us);
    assert.strictEqual(/ of (a step|the time)$/.test(cards[i].of), isOfAll, cards[i].of);
  });
}

for (const name of ['resnet50_num_workers_0.json.gz', 'nccl_data.json.gz', 'trace_diff_control.json.gz']) {
  test(`values of ${name} are those of analyze`, async (t) => {
    const files = shared(name);
    if (!files) return t.skip('no public traces: CKINETO_SHARED');
    return withReport(files, async (page) => {
      const compared = await tablesAgree(page, analyze(files));
      assert.ok(compared > 100, `${compared} lines`);
      await findingsAgree(page, analyze(files, '--findings'));
    });
  });
}

test('values of a small trace are those of analyze', () => {
  const files = [traces.plain()];
  return withReport(files, async (page) => {
    assert.ok((await tablesAgree(page, analyze(files))) > 10);
    await findingsAgree(page, analyze(files, '--findings'));
  });
});

test('names that are markup are shown and not run', () =>
  withReport([traces.evil()], async (page) => {
    const shown = await linesOf(page, 'kernels');
    const texts = shown.lines.flat().map((cell) => cell.text);
    for (const name of traces.EVIL.slice(0, 5)) assert.ok(texts.includes(name), name);
    assert.strictEqual(await page.locator('img[src="x"], #main script').count(), 0);
    assert.strictEqual(await page.locator('script:not([type])').count(), 1);
    await page.locator('#search').fill('<img src=x');
    await page.locator('#search').press('Enter');
    await page.locator('.selected-name').waitFor();
    assert.strictEqual(await page.locator('.selected-name').textContent(), traces.EVIL[1]);
  }));

test('an empty trace has a page that says so', () =>
  withReport([traces.empty()], async (page) => {
    await page.getByText('the trace is empty', { exact: true }).waitFor();
    assert.match(await page.locator('.facts').textContent(), /0 activities/);
  }));

test('a trace without a device has operators and a timeline', () => {
  const files = [traces.hostOnly()];
  return withReport(files, async (page) => {
    assert.ok((await tablesAgree(page, analyze(files))) > 0);
    assert.strictEqual(await page.evaluate(() => ckineto.timeline.activities.count), 2);
  });
});

test('names of any length are cut where there is one line, and whole in the selection', () =>
  withReport([traces.huge()], async (page) => {
    const shown = await linesOf(page, 'kernels');
    for (const cell of shown.lines.flat()) assert.ok(cell.text.length < 500);
    const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(width <= 0, 'the page does not scroll sideways');
    await page.locator('#search').fill('xxxx');
    await page.locator('#search').press('Enter');
    await page.locator('.selected-name').waitFor();
    assert.ok((await page.locator('.selected-name').textContent()).length >= 20000);
  }));

test('of two ranks all or one is shown', () => {
  const files = traces.ranks();
  return withReport(files, async (page) => {
    const names = async () =>
      (await linesOf(page, 'kernels')).lines.map((line) => line.map((c) => c.text).join(' '));
    const both = (await names()).join('\n');
    assert.match(both, /only_on_rank_0/);
    assert.match(both, /only_on_rank_1/);
    await page.locator('#rank').selectOption('1');
    await page.locator('details[data-name="kernels"]').waitFor();
    const one = (await names()).join('\n');
    assert.doesNotMatch(one, /only_on_rank_0/);
    assert.match(one, /only_on_rank_1/);
    await page.locator('#search').fill('only_on');
    await page.getByText(/^3 found$/).waitFor();
  });
});

test('a comparison is shown as the command makes it', async (t) => {
  const files = shared('resnet50_num_workers_0.json.gz', 'resnet50_num_workers_4.json.gz');
  if (!files) return t.skip('no public traces: CKINETO_SHARED');
  const diff = JSON.parse(execFileSync(CKINETO, ['diff', ...files, '--json', '-'], { maxBuffer: 2 ** 30 }));
  const file = changed(files.slice(0, 1), 'diff.html', (summary) => {
    summary.diff = diff.facts;
  });
  return withReport(
    null,
    async (page) => {
      const compared = await tablesAgree(page, {
        tables: Object.fromEntries(Object.entries(diff.facts.tables).filter(([n]) => /^diff_/.test(n))),
      });
      assert.ok(compared > 10, `${compared} lines`);
      await page.evaluate(() => document.querySelector('#diff').scrollIntoView());
      await page.screenshot({ path: picture('diff') });
    },
    { file },
  );
});

test('lost records come first', () => {
  const file = changed([traces.plain()], 'lost.html', (summary) => {
    summary.traces[0].lost = 12345;
    summary.ledger = [
      { source: 'cuda', reason: 'buffers dropped', count: 12345, loss: true, detail: '<b>full</b>' },
    ];
  });
  return withReport(
    null,
    async (page) => {
      assert.match(
        await page.locator('#health .loss.first').textContent(),
        /^12\u202f345 buffers dropped \(cuda\)/,
      );
      assert.match(
        await page.locator('#health li').first().textContent(),
        /^error 12\u202f345 buffers dropped \(cuda\): <b>full<\/b>$/,
      );
      assert.match(await page.locator('.facts').textContent(), /12\u202f345 records lost/);
    },
    { file },
  );
});

test('a page without a timeline has no links to it', async () => {
  const without = changed([traces.plain()], 'without.html', (summary) => {
    summary.timeline = 0;
  });
  await withReport(
    null,
    async (page) => {
      assert.strictEqual(await page.locator('section#timeline, a.place').count(), 0);
    },
    { file: without },
  );
});

test('a damaged timeline is said to be so, and the tables are there', () => {
  const file = changed(
    [traces.plain()],
    'damaged.html',
    () => {},
    (page) => page.replace(/(id="timeline">.{60})..../, '$1AAAA'),
  );
  return withReport(
    null,
    async (page) => {
      assert.match(
        await page.locator('#timeline [role="alert"]').textContent(),
        /^The timeline cannot be shown: /,
      );
      assert.ok((await linesOf(page, 'kernels')).count > 0);
    },
    { file },
  );
});

test('rows that were left out are counted', () => {
  const file = reportOf([traces.plain()], '--row-limit', '2');
  return withReport(
    null,
    async (page) => {
      const shown = await linesOf(page, 'kernels');
      assert.strictEqual(shown.lines.length, 2);
      await page.locator('[data-table="kernels"] .foot').getByText('2 more rows').waitFor();
    },
    { file },
  );
});

test('modules are the tree they were called in', () => {
  const file = path.join(__dirname, '../data/torch-2.15.0/stacks.json.gz');
  return withReport([file], async (page) => {
    const tree = page.locator('[data-table="modules"]');
    await page.evaluate(() => {
      for (let i = 0; i < 4; i++)
        for (const tr of document.querySelectorAll('.tree tr[aria-expanded="false"]')) tr.toggle();
    });
    const lines = await tree
      .locator('tbody tr')
      .evaluateAll((all) =>
        all.map((tr) => [
          Number(tr.getAttribute('aria-level')),
          tr.cells[0].textContent,
          Number(tr.cells[1].dataset.value),
        ]),
      );
    const { columns, rows } = analyze([file], '--only', 'modules').tables.modules;
    assert.strictEqual(lines.length, rows.length, 'each stands there once');
    const calls = new Map(rows.map((r) => [r[columns.indexOf('module')], r[columns.indexOf('calls')]]));
    for (const [, name, count] of lines) assert.strictEqual(count, calls.get(name));
    assert.deepStrictEqual(lines[0].slice(0, 2), [1, 'nn.Module: Network_0']);
  });
});

test('a table of 120 000 rows is sorted and filtered without hanging', async (t) => {
  const many = traces.manyNames(2000);
  return withReport([many], async (page) => {
    const times = await page.evaluate(async () => {
      const host = document.querySelector('#tables .body') || document.querySelector('#operators .body');
      const table = ckineto.page.shown[0];
      const rows = Array.from({ length: 120000 }, (_, i) => table.rows[i % table.rows.length].map((v) => v));
      const big = new table.constructor('big', { columns: table.columns.map((c) => c.name), rows });
      host.append(big.root);
      const time = (action) => {
        const t0 = performance.now();
        action();
        return performance.now() - t0;
      };
      const result = { sort: time(() => big.sortBy(big.columns.length - 1)) };
      result.filter = time(() => {
        big.filter = 'op_77';
        big.select();
      });
      result.left = big.list.length;
      result.elements = big.root.querySelectorAll('tr').length;
      return result;
    });
    t.diagnostic(
      `120 000 rows: sorted in ${times.sort.toFixed(0)} ms, filtered in ${times.filter.toFixed(0)} ms`,
    );
    assert.ok(times.left > 0 && times.left < 120000);
    assert.ok(times.elements < 60, 'only lines in view are elements');
  });
});
