#!/usr/bin/python3
"""Every state of the report's page: what the reader does, and what holds then. In each of them the console is silent,
nothing is loaded, the page does not scroll sideways, and, where axe-core is there, no rule of accessibility is violated.

Without arguments each state is tested once, in windows and colours that take turns; --all tests each state in each of
them. Needs CKINETO and a Chromium; AXE is the path of axe-core's script, FOLDER is where pictures are left."""

import collections
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import headless
from state_traces import FIXTURES

CKINETO = os.environ["CKINETO"]
WINDOWS = [(1440, "light"), (390, "dark"), (2560, "light"), (768, "dark"), (390, "light"), (1440, "dark"),
           (768, "light"), (2560, "dark")]
HEIGHT = 900

# Names for what the states do.
TOOLS = """
const $ = (selector) => document.querySelector(selector), $$ = (selector) => [...document.querySelectorAll(selector)];
const timeline = () => ckineto.timeline;
const until = async (isTrue) => {
  for (let i = 0; i < 400 && !isTrue(); i++) await new Promise((done) => setTimeout(done, 10));
  if (!isTrue()) throw new Error(`never true: ${isTrue}`);
};
const click = (node) => node.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
const type = (node, text) => { node.value = text; node.dispatchEvent(new Event('input')); };
const key = (node, name, more) => node.dispatchEvent(new KeyboardEvent('keydown',
  { key: name, bubbles: true, cancelable: true, ...more }));
const open = (name) => { $(`details[data-name="${name}"]`).open = true; return until(() => $(`[data-table="${name}"]`)); };
const texts = (selector) => $$(selector).map((n) => n.textContent);
const boxes = () => $$('.flame g').filter((g) => g.style.display !== 'none');
const boxOf = (name) => boxes().find((g) => g.querySelector('title').textContent.startsWith(name + '\\n'));
const widthOf = (g) => Number(g.querySelector('rect').getAttribute('width'));
const tops = () => boxes().map((g) => Number(g.querySelector('rect').getAttribute('y')));
"""

# name, trace, what is done, what must hold, and what is brought into view. Both are of the page's language; what
# holds may be a list, all of which has to be true.
State = collections.namedtuple("State", "name trace act holds view", defaults=["true", "true", "main"])
STATES = [
    State("first screen", "training", holds="$('#headline').textContent.length > 20 && $$('.tile').length > 1"),
    State("findings expanded", "stacks", "$$('.finding .more').forEach((d) => { d.open = true; })",
          "[$$('.finding').length > 0, $$('.finding .evidence .stack li').length > 2]", "#findings"),
    State("health opened", "ranks", "$('#health details').open = true", "texts('#health li').some((t) => /ends early/.test(t))"),
    State("table sorted", "training", "click($('[data-table=\"operators\"] th button'))",
          "$('[data-table=\"operators\"] th').getAttribute('aria-sort') === 'ascending'", "#operators"),
    State("table filtered", "training", """type($('[data-table="operators"] .filter'), 'aten::add');
          await until(() => / of /.test($('[data-table="operators"] .foot').textContent))""",
          "texts('[data-table=\"operators\"] tbody tr:not(.space) td:first-child').every((t) => t.includes('aten::add'))",
          "#operators"),
    State("table filtered to nothing", "training", """type($('[data-table="operators"] .filter'), 'no such name');
          await until(() => /^0 of /.test($('[data-table="operators"] .foot').textContent))""", "true", "#operators"),
    State("line of a table opened", "stacks", "click($('[data-table=\"operators\"] tbody tr:not(.space) td:last-child'))",
          "$$('[data-table=\"operators\"] .stack li').length > 2", "#operators"),
    State("table copied", "training", """Object.defineProperty(navigator, 'clipboard', { configurable: true,
          value: { writeText: async (text) => { globalThis.copied = text; } } });
          click($('#operators .buttons button')); await until(() => globalThis.copied)""",
          "copied.split('\\n').length > 5 && copied.split('\\n')[0].split('\\t').includes('name')", "#operators"),
    State("table saved", "training", """URL.createObjectURL = (blob) => { globalThis.saved = blob; return '#saved'; };
          HTMLAnchorElement.prototype.click = function () { globalThis.file = this.download; };
          click($$('#operators .buttons button')[1]); globalThis.csv = await saved.text()""",
          "file === 'operators.csv' && csv.split('\\n').length > 5", "#operators"),
    State("all tables open", "training", """$$('details[data-name]').forEach((d) => { d.open = true; });
          await until(() => $$('details[data-name]').every((d) => d.querySelector('.buttons, .tree')))""",
          "$$('[data-table]').every((t) => t.querySelectorAll('.table-tools .buttons button').length === 2)", "#overview"),
    State("timeline zoomed", "training", "key($('.picture'), 'w'); key($('.picture'), 'w'); key($('.picture'), 'd')",
          "timeline().to - timeline().from < 0.6 * timeline().activities.length", "#timeline"),
    State("timeline searched", "training", """type($('#search'), 'aten::'); key($('#search'), 'Enter')""",
          "/^1 of \\d+$/.test($('.result').textContent)", "#timeline"),
    State("invalid expression", "training", "type($('#search'), '/(/'); key($('#search'), 'Enter')",
          "$('.result').textContent === 'invalid expression'", "#timeline"),
    State("range summed up", "training", "timeline().setRange([0, timeline().activities.length / 2])",
          "$('[data-table=\"range\"] tbody tr:not(.space)')", "#timeline"),
    State("activity selected", "training", """type($('#search'), 'cudaLaunchKernel'); key($('#search'), 'Enter');
          if (timeline().selected < 0) key($('.picture'), 'ArrowRight', { shiftKey: true });
          await until(() => $('.args').childElementCount)""", "$('.selected-name').textContent.length > 0", "#timeline"),
    State("arrows of a launch", "ranks", """type($('#search'), '/^gemm$/'); key($('#search'), 'Enter');
          await until(() => $('.args').childElementCount)""", "timeline().links.length === 1", "#timeline"),
    State("colours by name", "ranks", "if (!timeline().painter.byName) click($('.legend-line button'))", """[
          (await until(() => texts('.legend-line li').includes('gemm')), true),
          texts('.legend-line li').every((t) => timeline().activities.strings.includes(t) || /more names/.test(t))]""",
          "#timeline"),
    State("colours by kind", "threads", "if (timeline().painter.byName) click($('.legend-line button'))",
          "(await until(() => texts('.legend-line li').join() === 'operators'), true)", "#timeline"),
    State("tracks folded", "training", "globalThis.before = timeline().rows.height; click($('button.name.process'))",
          "[timeline().rows.height < before, timeline().scroller.clientHeight <= timeline().rows.height + 8, $('button.name.process').getAttribute('aria-expanded') === 'false']",
          "#timeline"),
    State("all tracks open", "stacks", "timeline().toggleAll()", "timeline().allOpen", "#timeline"),
    State("step selected", "ranks", "click($('#steps .bar'))",
          "(await until(() => timeline().range), $('[data-table=\"range\"]') !== null)", "#timeline"),
    State("ranks", "ranks", "true", """JSON.stringify(ckineto.page.rankMap.ranks.filter((r) => r.mark).map((r) => r.mark))
          === JSON.stringify(['slow', 'missing', 'cut off'])""", "#ranks"),
    State("worst ranks first", "ranks", """const s = $$('#ranks select')[1]; s.selectedIndex = 1;
          s.dispatchEvent(new Event('change'))""", "ckineto.page.rankMap.order[0].isMissing", "#ranks"),
    State("cell of the rank map clicked", "ranks", """const map = ckineto.page.rankMap, box = map.canvas.getBoundingClientRect();
          map.canvas.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: box.left + box.width / 2,
          clientY: box.top + (map.tops[2] + map.tops[3]) / 2 })); await until(() => ckineto.rank === 2)""",
          "[$('#rank').value === '2', $$('#steps .bar').length === 5, (await until(() => boxes().length > 2), true)]", "#ranks"),
    State("call stacks", "stacks", "true", """[widthOf(boxes()[0]) > 0.99 * $('.flame').clientWidth,
          boxes().every((g) => /, [\\d.]+\\s%/.test(g.querySelector('title').textContent)), $('#stacks .foot')]""", "#stacks"),
    State("call stacks zoomed", "stacks", "click(boxOf('forward pass'))",
          "[Math.abs(widthOf(boxOf('forward pass')) - $('.flame').clientWidth) < 1, $$('.flame .outer').length > 3]", "#stacks"),
    State("call stacks searched", "stacks", "type($('.flame-tools input'), '/^aten::/')",
          "[/^\\d+\\.\\d\\d % matched$/.test($('.flame-tools output').textContent), $$('.flame .match').length > 3]", "#stacks"),
    State("call stacks inverted", "stacks", "globalThis.before = tops(); click($$('.flame-tools button')[1])",
          "new Set(tops().map((y, i) => y + before[i])).size === 1", "#stacks"),
    State("call stacks reset", "stacks", """globalThis.before = tops().join(); type($('.flame-tools input'), 'aten');
          click(boxOf('forward pass')); click($$('.flame-tools button')[0])""",
          "[tops().join() === before, !$('.flame .match'), $('.flame-tools output').textContent === '']", "#stacks"),
    State("call stacks by keys", "stacks", """const flame = $('.flame'); key(flame, 'ArrowDown');
          for (let i = 0; i < 8; i++) key(flame, 'ArrowDown'); key(flame, 'Enter')""",
          "[$('.flame .current'), /, [\\d.]+\\s%/.test($('.flame-tools output').textContent)]", "#stacks"),
    State("call stacks of samples", "C program", "true", "texts('.flame title').some((t) => /\\d samples$/.test(t))", "#stacks"),
    State("comparison", "comparison", "true",
          "[$$('.waterfall li').length > 2, texts('.waterfall .label').at(-1) === 'after']", "#diff"),
    State("light and dark by the button", "training", "globalThis.before = ckineto.timeline.painter.palette.back; click($('#theme'))",
          "ckineto.timeline.painter.palette.back !== before", "#timeline"),
    State("keys listed", "training", "click($('#keys'))", "$('#help').open"),
    State("empty trace", "empty", "true", "[!$('.flame'), $$('main > section:not([hidden])').length <= 3]"),
    State("C program", "C program", "true", """[$('#kernels').hidden, !$('#cpu').hidden,
          texts('.legend-line li').includes('running')]""", "#timeline"),
    State("many threads", "threads", "true", "$$('.name.track').length > 5", "#timeline"),
]

OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
UNNAMED = """[...document.querySelectorAll('button, input, select, canvas:not([aria-hidden])')].filter((n) =>
!n.textContent.trim() && !n.getAttribute('aria-label') && !(n.labels && n.labels.length)).map((n) => n.outerHTML)"""
# Boxes of flame graphs are hundreds of equal elements.
AXE = """axe.run({ exclude: [['.flame g']] }, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) =>
`${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' ')}`))"""


def read_axe():
    path = os.environ.get("AXE")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


class States(unittest.TestCase):
    windows = None  # all, or None: they take turns

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.browser = cls.enterClassContext(headless.Browser(headless.find()))
        cls.axe, cls.pages = read_axe(), {}

    def page_of(self, trace):
        """The file of a page, made once."""
        if trace not in self.pages:
            out = os.path.join(self.folder, f"{trace}.html")
            # Of a damaged trace the page is made, too, and the exit status says so.
            subprocess.run([CKINETO, "report", *FIXTURES[trace](self.folder), "-o", out], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
            self.pages[trace] = out
        return self.pages[trace]

    def open_page(self, trace, width, scheme):
        page = self.browser.open("about:blank")
        page.resize(width, HEIGHT)
        page.set_media(scheme)
        page.go_to("file://" + self.page_of(trace))
        page.wait_for("document.documentElement?.dataset.state")
        self.assertEqual(page.value("document.documentElement.dataset.state"), "ready")
        page.value(TOOLS)
        page.wait_for("$$('.flame').every((svg) => svg.clientWidth && svg.getAttribute('viewBox').includes(svg.clientWidth))")
        return page

    def check_page(self, page, name):
        self.assertEqual(page.said(), [], f"{name}: the console is silent")
        loaded = [url for url in page.asked_for() if not url.startswith(("file:", "data:", "blob:", "about:"))]
        self.assertEqual(loaded, [], f"{name}: nothing is loaded")
        self.assertLessEqual(page.value(OVERFLOW), 0, f"{name}: the page scrolls sideways")
        self.assertEqual(page.value(UNNAMED), [], f"{name}: elements have names")
        if self.axe:
            page.value(self.axe + ";0")
            self.assertEqual(page.value(AXE), [], name)

    def save_picture(self, page, name):
        if os.environ.get("FOLDER"):
            page.save_picture(os.path.join(os.environ["FOLDER"], re.sub(r"\W+", "-", f"state-{name}") + ".png"))

    def check_state(self, state, width, scheme):
        name = f"{state.name}, {width}, {scheme}"
        page = self.open_page(state.trace, width, scheme)
        page.value(f"(async () => {{ {state.act} }})()")
        page.value(f"document.querySelector('{state.view}').scrollIntoView()")
        page.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
        holds = page.value(f"(async () => [{state.holds}].flat().map(Boolean))()")
        self.assertNotIn(False, holds, name)
        self.save_picture(page, name)
        self.check_page(page, name)
        page.close()

    def test_states(self):
        for i, state in enumerate(STATES):
            for width, scheme in self.windows or [WINDOWS[i % len(WINDOWS)]]:
                with self.subTest(state=state.name, width=width, scheme=scheme):
                    self.check_state(state, width, scheme)

    def test_paper(self):
        """Whatever the colours of the screen, it is white, with the timeline as a picture and what is open."""
        for trace in ("stacks", "ranks", "C program", "empty", "comparison"):
            with self.subTest(trace=trace):
                page = self.open_page(trace, 768, "dark")
                page.set_media("dark", "print")
                page.value("dispatchEvent(new Event('beforeprint'))")
                self.assertEqual(page.value("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
                if trace != "empty":
                    page.wait_for("$('canvas.paper[role=\"img\"]') !== null")
                hidden = ".frame, .tools, .table-tools, .flame-tools, .legend-line, .details, .side"
                self.assertEqual(page.value(f"$$('{hidden}').filter((n) => n.checkVisibility()).length"), 0)
                self.save_picture(page, f"paper {trace}")
                self.check_page(page, trace)
                page.set_media("dark")
                page.value("dispatchEvent(new Event('afterprint'))")
                self.assertEqual(page.value("$$('.frame').every((n) => n.checkVisibility())"), True)
                page.close()

    def test_keyboard_only(self):
        """Everything that can be clicked is reached by Tab, and used without a mouse."""
        page = self.open_page("stacks", 1440, "light")
        reached = set()
        for _ in range(80):
            page.press("Tab")
            reached.add(page.value("""(() => { const n = document.activeElement;
                return n.id || n.getAttribute('class') || n.tagName; })()"""))
            if page.value("document.activeElement.matches('.picture')"):
                page.press("ArrowRight", shift=True)
                page.wait_for("$('.selected-name') !== null")
        self.assertLessEqual({"skip", "theme", "keys", "search", "picture", "flame", "rows", "filter"}, reached)
        page.value("$('#stacks .flame').focus()")
        for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
            page.press(key)
        self.assertEqual(page.value("$$('.flame .current').length"), 1)
        page.press("Escape")
        page.press("?")
        self.assertEqual(page.value("$('#help').open"), True)
        page.press("Escape")
        self.assertEqual(page.value("$('#help').open"), False)
        self.check_page(page, "keyboard only")
        page.close()


if __name__ == "__main__":
    if not headless.find():
        print("the report in a browser: skipped: there is no Chromium (apt-get install chromium-headless-shell)")
        sys.exit(77)
    if "--all" in sys.argv:
        sys.argv.remove("--all")
        States.windows = WINDOWS
    unittest.main()
