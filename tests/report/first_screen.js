'use strict';
/* What is in view first, which sections there are, and what the legend says. */

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');
const { changed, withReport, shared, CKINETO } = require('./browser.js');
const traces = require('./traces.js');

const DATA = path.join(__dirname, '../data/torch-2.15.0');
const SCREEN = { viewport: { width: 1440, height: 900 } };

function several() {
  const corpus = ['resnet50_num_workers_0.json.gz', 'dlrm_8rank', 'cpu_only.json.gz', 'amd_mi250.json.gz'];
  const found = corpus.map((name) => shared(name)).filter((files) => files);
  return [
    [traces.plain()],
    traces.ranks(),
    [traces.hostOnly()],
    [path.join(DATA, 'stacks.json.gz')],
    ...found,
  ];
}

const topsOf = (page) =>
  page.evaluate(() => {
    const top = (selector) => {
      const node = document.querySelector(selector);
      return node && !node.closest('[hidden]') ? node.getBoundingClientRect().top : null;
    };
    return ['#headline', '#health', '#tiles', '#steps', '#timeline .frame', '#findings'].map(top);
  });

test('headline, tiles, steps and the begin of the timeline are on the first screen, in this order', async () => {
  for (const files of several()) {
    await withReport(
      files,
      async (page) => {
        const tops = (await topsOf(page)).filter((top) => top !== null);
        assert.deepStrictEqual(
          tops,
          [...tops].sort((a, b) => a - b),
        );
        const frame = await page.locator('#timeline .frame').boundingBox();
        assert.ok(frame.y <= 700, `${files}: the timeline begins at ${frame.y}`);
      },
      SCREEN,
    );
  }
});

test('headline and tiles are those of analyze', async () => {
  for (const files of several()) {
    const overview = JSON.parse(execFileSync(CKINETO, ['analyze', '--brief', ...files]));
    await withReport(files, async (page) => {
      assert.strictEqual(await page.locator('#headline').textContent(), overview.headline);
      const tiles = await page
        .locator('.tile')
        .evaluateAll((all) => all.map((tile) => [...tile.children].map((n) => n.textContent)));
      assert.deepStrictEqual(
        tiles,
        overview.tiles.map((t) => [t.label, t.value, t.detail]),
      );
    });
  }
});

test('sections without content are not there, and their tables are counted at the end', async () => {
  for (const files of [[traces.plain()], [traces.empty()], [traces.hostOnly()], traces.ranks()]) {
    await withReport(files, async (page) => {
      const { sections, links, empty } = await page.evaluate(() => {
        const shown = [...document.querySelectorAll('main > section:not([hidden])')];
        const tables = Object.values(ckineto.page.tables).filter((t) => !t.rows.length && t.note);
        return {
          sections: shown.map((s) => [s.id, s.querySelector('.body').childElementCount]),
          links: [...document.querySelectorAll('#sections li:not([hidden]) a')].map((a) => a.hash.slice(1)),
          empty: tables.length,
        };
      });
      assert.deepStrictEqual(
        links,
        sections.map(([id]) => id),
      );
      for (const [id, count] of sections) assert.ok(count > 0, id);
      const text = await page.locator('.left-out summary').textContent();
      assert.strictEqual(parseInt(text, 10), empty);
    });
  }
});

test('steps have names, and bars fill the width', () =>
  withReport([traces.plain()], async (page) => {
    const texts = await page.locator('#steps .axis.middle').allTextContents();
    assert.deepStrictEqual(texts, ['step 1', 'step 2', 'step 3']);
    const [left, right, width] = await page.evaluate(() => {
      const bars = [...document.querySelectorAll('#steps .bar')].map((bar) => bar.getBoundingClientRect());
      return [bars[0].left, bars[2].right, document.querySelector('#steps svg').clientWidth];
    });
    assert.ok(right - left > 0.85 * width, 'all of the width is used');
  }));

/* As the page should do it, without its tables. */
const CLASS_OF = {
  kernel: 'kernels',
  gpu_memcpy: 'copies',
  gpu_memset: 'copies',
  cpu_op: 'operators',
  runtime: 'runtime calls',
  user_annotation: 'ranges',
  gpu_user_annotation: 'ranges',
  python_function: 'Python',
  memory: 'memory',
  overhead: 'profiler',
  cpu_instant_event: 'other',
};

test('the legend has the classes that are visible, and no others', async () => {
  const files = ['training', 'stacks', 'steps-1'].map((name) => path.join(DATA, `${name}.json.gz`));
  for (const file of [...files, traces.plain()]) {
    await withReport([file], async (page) => {
      const { kinds, legend } = await page.evaluate(async () => {
        const { timeline } = ckineto;
        const { activities: a } = timeline;
        timeline.painter.setByName(false);
        timeline.rows.setAll(true);
        timeline.scroller.style.height = `${timeline.rows.height + 20}px`;
        timeline.painter.resize(timeline.width, timeline.rows.height + 20, 1);
        timeline.fitAll();
        timeline.draw();
        return {
          kinds: [...new Set(a.kind)].map((k) => a.kinds[k]),
          legend: timeline.painter.legend().map((l) => l.title),
        };
      });
      assert.deepStrictEqual(new Set(legend), new Set(kinds.map((k) => CLASS_OF[k])), file);
    });
  }
});

test('colours are by name where there is one thread or no device, and the button changes them', async () => {
  for (const [trace, first] of [
    [traces.hostOnly(), 'name'],
    [traces.large(2000), 'kind'],
  ]) {
    await withReport([trace], async (page) => {
      const button = page.locator('.legend-line button');
      assert.strictEqual(await button.textContent(), `Colours by ${first}`);
      await button.click();
      assert.strictEqual(await button.textContent(), `Colours by ${first === 'name' ? 'kind' : 'name'}`);
      await page.waitForTimeout(200);
      const shown = await page.locator('.legend-line li').evaluateAll((all) => all.map((li) => li.title));
      const strings = await page.evaluate(() => ckineto.timeline.activities.strings);
      for (const title of shown.filter((t) => t))
        assert.strictEqual(strings.includes(title), first === 'kind');
    });
  }
});

test('names with the most time have colours of their own', () =>
  withReport([traces.plain()], async (page) => {
    const colors = await page.evaluate(async () => {
      ckineto.timeline.painter.setByName(true);
      ckineto.timeline.draw();
      return ckineto.timeline.painter.legend().map((l) => l.color);
    });
    assert.strictEqual(new Set(colors).size, colors.length);
    assert.ok(colors.length >= 8);
  }));

test('a page without an overview has everything else', () => {
  const file = changed([traces.plain()], 'no-overview.html', (summary) => {
    summary.overview = null;
  });
  return withReport(
    null,
    async (page) => {
      assert.strictEqual(await page.locator('#tiles').isVisible(), false);
      assert.ok((await page.locator('#steps .bar').count()) === 3);
    },
    { file },
  );
});
