'use strict';
/* What the tests share: reports made by the command, opened in a headless browser. A page that says
 * anything on its console fails its test. */

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after } = require('node:test');
const zlib = require('node:zlib');
const { chromium } = require('playwright-core');

const { CKINETO, CHROMIUM, FOLDER } = process.env;
const SHARED = path.join(process.env.CKINETO_SHARED || path.join(__dirname, '../../../shared'), 'traces');

let browser;
const reports = new Map();

after(() => browser && browser.close());

/* All rows of tables. */
function analyze(traces, ...options) {
  const rows = options.includes('--findings') ? [] : ['--top', '0'];
  const text = execFileSync(CKINETO, ['analyze', ...traces, ...options, ...rows, '--json', '-'], {
    maxBuffer: 2 ** 30,
  });
  return JSON.parse(text);
}

/* The file of a report, made once. */
function reportOf(traces, ...options) {
  const key = JSON.stringify([traces, options]);
  if (!reports.has(key)) {
    const out = path.join(FOLDER, `report-${reports.size}.html`);
    execFileSync(CKINETO, ['report', ...traces, '-o', out, ...options], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    reports.set(key, out);
  }
  return reports.get(key);
}

/* A report with something else in its summary. */
function changed(traces, name, change, replace = (page) => page) {
  const page = replace(fs.readFileSync(reportOf(traces), 'utf8'));
  const out = path.join(FOLDER, name);
  fs.writeFileSync(
    out,
    page.replace(/(id="summary">)([^<]*)/, (_, head, data) => {
      const summary = JSON.parse(zlib.gunzipSync(Buffer.from(data, 'base64')));
      change(summary);
      return head + zlib.gzipSync(JSON.stringify(summary)).toString('base64');
    }),
  );
  return out;
}

/* Opens a report and waits until everything is drawn; `use` gets the page. */
function withReport(traces, use, { file = reportOf(traces), ...options } = {}) {
  const isReady = (page) =>
    page.locator('html[data-state="ready"]').waitFor({ state: 'attached', timeout: 120000 });
  return withPage(file, use, isReady, options);
}

/* Opens a file; what it says on its console or loads fails the test. */
async function withPage(file, use, isReady = () => {}, options = {}) {
  browser = browser || (await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] }));
  const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, ...options });
  const page = await context.newPage();
  const said = [];
  const asked = [];
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(error.stack));
  page.on('dialog', (dialog) => {
    said.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => asked.push(request.url()));
  try {
    await page.goto(`file://${file}`);
    await isReady(page);
    await use(page);
    assert.deepStrictEqual(said, [], 'the console is silent');
    const loaded = asked.filter((url) => !/^(file|data|blob):/.test(url));
    assert.deepStrictEqual(loaded, [], 'nothing is loaded');
  } finally {
    await context.close();
  }
}

function shared(...names) {
  const files = names.flatMap((name) => {
    const file = path.join(SHARED, name);
    if (!fs.existsSync(file)) return [];
    return fs.statSync(file).isDirectory()
      ? fs
          .readdirSync(file)
          .sort()
          .map((f) => path.join(file, f))
      : [file];
  });
  return files.length >= names.length ? files : null;
}

/* Opens a table, wherever it stands, and gives what its lines in view have. */
async function linesOf(page, name) {
  const box = page.locator(`details[data-name="${name}"]`);
  if (!(await box.count())) return null;
  await box.evaluate((d) => {
    d.open = true;
  });
  const table = page.locator(`[data-table="${name}"]`);
  await table.first().waitFor({ state: 'attached' });
  return table.first().evaluate((root) => ({
    columns: [...root.querySelectorAll('th[data-column]')].map((th) => th.dataset.column),
    count: Number(root.querySelector('table').getAttribute('aria-rowcount')) - 1,
    lines: [...root.querySelectorAll('tbody tr:not(.space)')].map((tr) =>
      [...tr.cells].map((td) => ({
        text: td.textContent,
        value: td.dataset.value === undefined ? null : Number(td.dataset.value),
      })),
    ),
  }));
}

const picture = (name) => path.join(FOLDER, `${name}.png`);

module.exports = {
  analyze,
  changed,
  reportOf,
  withReport,
  withPage,
  shared,
  linesOf,
  picture,
  FOLDER,
  CKINETO,
};
