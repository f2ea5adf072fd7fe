'use strict';
/* The flame graph in a browser: full width, zoom, search, reset, inverted. */

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');
const { withPage, picture, FOLDER, CKINETO } = require('./browser.js');
const traces = require('./traces.js');

function flameOf(trace) {
  const out = path.join(FOLDER, 'flame.svg');
  execFileSync(CKINETO, ['report', trace, '--flame', out], { stdio: 'ignore' });
  return out;
}

/* Boxes in view: name, place, and what the title says. */
const boxesOf = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('g[data-x]')]
      .filter((g) => g.style.display !== 'none')
      .map((g) => {
        const [rect, title] = g.children;
        const cut = title.textContent.lastIndexOf('\n');
        return {
          name: title.textContent.slice(0, cut),
          said: title.textContent.slice(cut + 1),
          x: Number(rect.getAttribute('x')),
          y: Number(rect.getAttribute('y')),
          width: Number(rect.getAttribute('width')),
          isMatch: g.classList.contains('match'),
        };
      }),
  );

const widthOf = (page) => page.evaluate(() => document.documentElement.clientWidth);

test('the flame graph fills the window, and each box says its share', () =>
  withPage(flameOf(traces.plain()), async (page) => {
    for (const size of [1360, 700]) {
      await page.setViewportSize({ width: size, height: 900 });
      await page.waitForTimeout(50);
      const boxes = await boxesOf(page);
      const width = await widthOf(page);
      const top = boxes.filter((b) => b.y === Math.min(...boxes.map((o) => o.y)));
      assert.ok(
        Math.abs(top.reduce((s, b) => s + b.width, 0) - width) < 1,
        'the roots are as wide as the window',
      );
      for (const box of boxes) {
        const [, share] = /, ([\d.]+) %, /.exec(box.said);
        assert.ok(Math.abs((box.width / width) * 100 - Number(share)) < 0.2, box.name);
      }
    }
    await page.screenshot({ path: picture('flame') });
  }));

test('a click zooms, Escape and the button show everything again', () =>
  withPage(flameOf(traces.plain()), async (page) => {
    const whole = await boxesOf(page);
    const wanted = whole.find((b) => b.name === 'aten::op1');
    await page.mouse.click(wanted.x + wanted.width / 2, wanted.y + 8);
    const zoomed = (await boxesOf(page)).find((b) => b.name === 'aten::op1');
    assert.ok(Math.abs(zoomed.width - (await widthOf(page))) < 1);
    await page.keyboard.press('Escape');
    assert.deepStrictEqual(await boxesOf(page), whole);
    await page.mouse.click(wanted.x + wanted.width / 2, wanted.y + 8);
    await page.locator('button').filter({ hasText: 'Reset' }).click();
    assert.deepStrictEqual(await boxesOf(page), whole);
  }));

test('a search marks boxes and says their share', () =>
  withPage(flameOf(traces.plain()), async (page) => {
    await page.keyboard.press('/');
    await page.keyboard.type('ATEN::OP1');
    const marked = (await boxesOf(page)).filter((b) => b.isMatch);
    assert.deepStrictEqual([...new Set(marked.map((b) => b.name))], ['aten::op1']);
    const share = marked.reduce((s, b) => s + b.width, 0) / (await widthOf(page));
    const said = parseFloat(await page.locator('output').textContent());
    assert.ok(Math.abs(share * 100 - said) < 0.5, `${said} %`);
    await page.locator('input').fill('/^aten::op[01]$/');
    assert.strictEqual(new Set((await boxesOf(page)).filter((b) => b.isMatch).map((b) => b.name)).size, 2);
    await page.locator('input').fill('/(/');
    assert.strictEqual(await page.locator('output').textContent(), 'invalid expression');
    assert.strictEqual((await boxesOf(page)).filter((b) => b.isMatch).length, 0);
  }));

test('inverted it has the root at the other end', () =>
  withPage(flameOf(traces.plain()), async (page) => {
    const before = await boxesOf(page);
    await page.locator('button').filter({ hasText: 'Invert' }).click();
    const after = await boxesOf(page);
    const middle = before[0].y + after[0].y;
    before.forEach((box, i) => {
      assert.strictEqual(box.y + after[i].y, middle);
      assert.strictEqual(box.x, after[i].x);
    });
    await page.locator('button').filter({ hasText: 'Invert' }).click();
    assert.deepStrictEqual(await boxesOf(page), before);
  }));
