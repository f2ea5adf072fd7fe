'use strict';
/* Light and dark, contrast, keys of the page, narrow windows, paper; with pictures to look at. */

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { withReport, shared, picture, FOLDER } = require('./browser.js');
const traces = require('./traces.js');

/* Texts whose color is too near to their background: WCAG AA wants 4.5, of large texts 3. */
function weakTexts() {
  const rgb = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) =>
    [r, g, b]
      .map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const background = (node) => {
    for (let n = node; n; n = n.parentElement) {
      const color = rgb(getComputedStyle(n).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const weak = new Set();
  for (const node of document.querySelectorAll('body *')) {
    const hasText = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!hasText || node.closest('svg, script, style, noscript') || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(rgb(style.color)), light(background(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) {
      weak.add(`${node.tagName}.${node.className}: ${ratio.toFixed(2)} "${node.textContent.slice(0, 30)}"`);
    }
  }
  return [...weak];
}

for (const colorScheme of ['light', 'dark']) {
  test(`text stands out from what is behind it: ${colorScheme}`, async () => {
    const files = shared('resnet50_num_workers_0.json.gz') || [traces.plain()];
    return withReport(
      files,
      async (page) => {
        assert.deepStrictEqual(await page.evaluate(weakTexts), []);
        await page.screenshot({ path: picture(`findings-${colorScheme}`) });
        await page.locator('#overview').scrollIntoViewIfNeeded();
        await page.screenshot({ path: picture(`whole-${colorScheme}`), fullPage: true });
        await page.evaluate(() => document.querySelector('#timeline').scrollIntoView());
        await page.locator('#search').fill('conv');
        await page.locator('#search').press('Enter');
        await page.waitForTimeout(300);
        await page.screenshot({ path: picture(`timeline-${colorScheme}`) });
        assert.deepStrictEqual(await page.evaluate(weakTexts), []);
      },
      { colorScheme },
    );
  });
}

test('the button and the key switch between light and dark', () =>
  withReport([traces.plain()], async (page) => {
    const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await back();
    await page.locator('#theme').click();
    const dark = await back();
    assert.notStrictEqual(dark, light);
    await page.locator('main').click({ position: { x: 2, y: 2 } });
    await page.keyboard.press('t');
    assert.strictEqual(await back(), light);
  }));

test('the keys are listed, and the list closes', () =>
  withReport([traces.plain()], async (page) => {
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    assert.ok((await page.locator('#help kbd').count()) > 12);
    await page.screenshot({ path: picture('keys') });
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  }));

test('everything is reached with the tab key, in the order of the page', () =>
  withReport([traces.plain()], async (page) => {
    const seen = [];
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      seen.push(
        await page.evaluate(() => {
          const n = document.activeElement;
          return n.id || n.className || n.tagName;
        }),
      );
    }
    const order = ['skip', 'theme', 'keys', 'search', 'picture'].map((name) => seen.indexOf(name));
    assert.ok(
      order.every((at, i) => at >= 0 && (i === 0 || at > order[i - 1])),
      JSON.stringify(seen),
    );
    const unnamed = await page
      .locator('button, input, select, canvas:not([aria-hidden])')
      .evaluateAll(
        (all) =>
          all.filter(
            (n) => !(n.textContent.trim() || n.getAttribute('aria-label') || (n.labels && n.labels.length)),
          ).length,
      );
    assert.strictEqual(unnamed, 0);
  }));

for (const width of [390, 800, 1440, 2560]) {
  test(`a window of ${width} pixels does not scroll sideways`, async () => {
    const files = shared('dlrm_8rank') || traces.ranks();
    return withReport(
      files,
      async (page) => {
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
        await page.screenshot({ path: picture(`width-${width}`) });
      },
      { viewport: { width, height: 900 } },
    );
  });
}

/* axe-core is fetched as the driver of the browser is. */
const LOOKED_AT = {
  'a small trace': () => [traces.plain()],
  'two ranks': () => traces.ranks(),
  'an empty trace': () => [traces.empty()],
  stacks: () => [path.join(__dirname, '../data/torch-2.15.0/stacks.json.gz')],
};

for (const colorScheme of ['light', 'dark']) {
  for (const [name, files] of Object.entries(LOOKED_AT)) {
    test(`no rule of accessibility is violated: ${name}, ${colorScheme}`, () =>
      withReport(
        files(),
        async (page) => {
          /* of tables the open ones are enough: all are made alike */
          await page.evaluate(() =>
            document.querySelectorAll('details:not(.fold)').forEach((d) => {
              d.open = true;
            }),
          );
          await page.evaluate(require('axe-core').source);
          const found = await page.evaluate(async () => (await axe.run()).violations);
          assert.deepStrictEqual(
            found.map(
              (v) =>
                `${v.id}: ${v.nodes
                  .slice(0, 3)
                  .map((n) => n.html.slice(0, 160))
                  .join(' ')}`,
            ),
            [],
          );
        },
        { colorScheme },
      ));
  }
}

test('on paper there are findings, first rows, and the timeline as a picture', async () => {
  const files = shared('resnet50_num_workers_0.json.gz') || [traces.plain()];
  return withReport(files, async (page) => {
    const pdf = await page.pdf({ path: path.join(FOLDER, 'paper.pdf'), format: 'A4' });
    assert.ok(pdf.length > 20000);
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
    await page.locator('canvas.paper[role="img"]').waitFor();
    const colors = await page.locator('canvas.paper').evaluate((paper) => {
      const { data } = paper.getContext('2d').getImageData(0, 0, paper.width, paper.height);
      return new Set(new Uint32Array(data.buffer)).size;
    });
    assert.ok(colors > 20, 'the picture shows something');
    assert.strictEqual(await page.locator('.finding').first().isVisible(), true);
    assert.strictEqual(await page.locator('.frame').isVisible(), false);
    assert.strictEqual(
      await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
      'rgb(255, 255, 255)',
    );
    await page.screenshot({ path: picture('paper'), fullPage: true });
    await page.emulateMedia({ media: 'screen' });
    assert.strictEqual(await page.locator('.frame').isVisible(), true);
    assert.ok(fs.statSync(picture('paper')).size > 10000);
  });
});
