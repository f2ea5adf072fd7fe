#!/usr/bin/python3
"""The report opens in a browser, and says there what `analyze` says: the pass that `make test` has.

`make test-report` has the rest: keys, looks, speed. Needs CKINETO and a Chromium (or CHROMIUM, its path)."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "findings"))
sys.path.insert(2, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
sys.path.insert(3, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ranks"))
import cases_1
import cpu_traces
import hand_made
import headless

CKINETO = os.environ["CKINETO"]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
EVIL = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(2)</script>", "%%DATA%%"]

# Opens all tables; each is drawn when it is.
OPEN = "document.querySelectorAll('details[data-name]').forEach((box) => { box.open = true; })"
DRAWN = """[...document.querySelectorAll('details[data-name]')].every((box) => box.querySelector('tbody tr')) &&
document.querySelector('[data-table]') !== null"""
# Of each table: its columns, how many lines it has, and the numbers and texts of those in view.
TABLES = """[...document.querySelectorAll('[data-table]')].map((root) => ({
  name: root.dataset.table,
  columns: [...root.querySelectorAll('th[data-column]')].map((th) => th.dataset.column),
  count: root.querySelector('table') ? Number(root.querySelector('table').getAttribute('aria-rowcount')) - 1 : 0,
  texts: [...root.querySelectorAll('tbody td')].map((td) => td.textContent),
  lines: [...root.querySelectorAll('tbody tr:not(.space)')].map((tr) => [...tr.cells].map((td) =>
    td.dataset.value === undefined ? null : Number(td.dataset.value))) }))"""


def launch(name, ts, correlation):
    """An operator, its launch, and the kernel NAME that it launches."""
    def event(cat, text, tid, at, dur, **args):
        return {"ph": "X", "cat": cat, "name": text, "pid": 1, "tid": tid, "ts": at, "dur": dur, "args": args}
    return [event("cpu_op", "aten::op", 1, ts, 60, **{"External id": correlation}),
            event("cuda_runtime", "cudaLaunchKernel", 1, ts + 10, 20, correlation=correlation),
            event("kernel", name, 7, ts + 40, 50, device=0, stream=7, correlation=correlation)]


class Opened(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.browser = cls.enterClassContext(headless.Browser(headless.find()))

    def report(self, *trace, tables=True):
        """The page of TRACE, drawn, its tables too, and the answers of `analyze` about it."""
        out = os.path.join(self.folder, self.id() + ".html")
        subprocess.run([CKINETO, "report", *trace, "-o", out], check=True, stderr=subprocess.DEVNULL)
        facts = subprocess.run([CKINETO, "analyze", *trace, "--series", "--json"], check=True, capture_output=True).stdout
        page = self.browser.open("file://" + out)
        page.wait_for("document.documentElement?.dataset.state")
        self.assertEqual(page.value("document.documentElement.dataset.state"), "ready")
        if tables:
            page.value(OPEN)
            page.wait_for(DRAWN)
        return page, json.loads(facts)

    def check_manners(self, page):
        self.assertEqual(page.said(), [], "the console is silent")
        loaded = [url for url in page.asked_for() if not url.startswith(("file:", "data:", "blob:"))]
        self.assertEqual(loaded, [], "nothing is loaded")

    def test_tables_have_the_numbers_of_analyze(self):
        page, facts = self.report(os.path.join(DATA, "torch-2.15.0", "training.json.gz"))
        compared = 0
        for shown in page.value(TABLES):
            table = facts["tables"].get(shown["name"])
            if not table or not shown["columns"]:
                continue
            self.assertEqual(shown["count"], len(table["rows"]), shown["name"])
            at = [table["columns"].index(c) for c in shown["columns"]]
            known = {tuple(row[c] if type(row[c]) in (int, float) else None for c in at) for row in table["rows"]}
            for line in shown["lines"]:
                self.assertIn(tuple(line), known, shown["name"])
                compared += 1
        self.assertGreater(compared, 20)
        self.check_manners(page)

    def test_path_across_ranks(self):
        """A collective in which rank 1 is waited for: it is on the path, and the row of rank 0 shows that it waits."""
        folder = os.path.join(self.folder, "path")
        os.mkdir(folder)
        for rank, work in enumerate((100, 380)):
            r = hand_made.Rank(rank, 2)
            r.collect(0, 10, 20, 0)
            r.compute(5, 20, 20 + work)
            r.collect(8, 20 + work, 450, 1)
            r.write(folder)
        page, _ = self.report(folder)
        page.value("document.querySelector('.rank-path').scrollIntoView()")
        self.assertIn("rank 1 86.4 %", page.value("document.querySelector('.rank-path canvas').getAttribute('aria-label')"))
        drawn = """(() => { const p = ckineto.page.rankPath, c = p.canvas.getContext('2d');
          const at = (rank, us) => [...c.getImageData(Math.round(p.x(us * 1000)), Math.round((rank + 0.2) * p.rowHeight), 1, 1).data];
          return { waits: at(0, 200), works: at(1, 200) }; })()"""
        page.wait_for("document.querySelector('.rank-path canvas').width > 300")
        self.check_manners(page)
        colors = page.value(drawn)
        self.assertNotEqual(colors["waits"], colors["works"])

    def page_of(self, events, base=0, tables=True):
        trace = os.path.join(self.folder, self.id() + ".json")
        with open(trace, "w", encoding="utf-8") as file:
            json.dump({"baseTimeNanoseconds": base, "traceEvents": events}, file)
        return self.report(trace, tables=tables)[0]

    def test_what_overlaps_does_not_lie_in_it(self):
        def kernel(name, tid, ts, dur):
            return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur}
        page = self.page_of([kernel("early", 1, 10, 10), kernel("late", 1, 15, 10), kernel("outer", 2, 10, 10),
                             kernel("beside", 2, 12, 10), kernel("inner", 2, 14, 1)])
        relatives = page.value("""(() => {
            const { activities: a, lanes } = ckineto.timeline, name = (p) => p < 0 ? null : a.nameOf(p);
            return [...a.name.keys()].map((p) => [name(p), name(a.parentOf(p)), name(lanes.within(p))]);
            })()""")
        self.assertEqual({name: rest for name, *rest in relatives},
                         {"early": [None, None], "late": [None, None], "outer": [None, "inner"],
                          "beside": [None, None], "inner": ["outer", None]})
        self.check_manners(page)

    def test_states_are_low_rows_above_the_samples_of_their_thread(self):
        program = cpu_traces.Program(4, threads=3)
        page = self.page_of(list(program.events()), tables=False)
        page.wait_for("ckineto.timeline !== null")
        rows = page.value("ckineto.timeline.rows.list.map((r) => [r.type, r.shows || '', r.name, r.height])")
        tids = [t.tid for t in program.threads if t.states]
        self.assertEqual([r[:3] for r in rows if r[0] == "track"],
                         [row for tid in tids for row in (["track", "state", f"thread {tid} (t{tid})"],
                                                          ["track", "samples", f"samples {tid}"])])
        states, samples = ([r[3] for r in rows if r[1] == shows] for shows in ("state", "samples"))
        self.assertLess(max(states), min(samples))
        colors = page.value("""(() => {
            const { painter, activities: a } = ckineto.timeline, found = {};
            for (const dark of [false, true]) {
              painter.setPalette(dark);
              for (const p of a.name.keys()) {
                if (a.kinds[a.kind[p]] !== 'thread_state') continue;
                (found[`${dark} ${a.nameOf(p)}`] ??= new Set()).add(painter.colorOf(p));
              }
            }
            return Object.entries(found).map(([name, set]) => [name, [...set]]); })()""")
        self.assertEqual(len(colors), 6)
        self.assertTrue(all(len(found) == 1 for _, found in colors), colors)
        self.assertEqual(len({found[0] for _, found in colors}), 6)
        self.assertTrue(page.value("document.querySelector('#kernels').hidden"), "no device: no section about kernels")
        self.assertEqual(page.value("document.querySelectorAll('.left-out').length"), 1)
        # Where the pointer is, what is known of the state.
        page.value("""(() => {
            const { timeline } = ckineto, a = timeline.activities;
            const place = [...a.name.keys()].find((p) => a.nameOf(p) === 'running');
            timeline.hovered = place;
            ckineto.showTip('running', 5, 5);
            return timeline.addToTip(place, 'running', 5, 5); })()""")
        self.assertRegex(page.value("document.querySelector('#tip').textContent"), r"^running\nCPU [01]$")
        self.check_manners(page)

    def test_counters_of_two_tracks_keep_their_times(self):
        page = self.page_of([{"ph": "C", "name": "power", "pid": 1, "tid": tid, "ts": ts, "args": {"W": tid * 100 + ts}}
                             for ts in (1, 2, 3) for tid in (1, 2)] +
                            [{"ph": "X", "name": "work", "pid": 1, "tid": 1, "ts": 0, "dur": 9}])
        self.assertEqual(page.value("ckineto.timeline.activities.counters.map((c) => [[...c.times], [...c.values]])"),
                         [[[1000, 2000, 3000], [100 * tid + ts for ts in (1, 2, 3)]] for tid in (1, 2)])
        self.check_manners(page)

    def test_arguments_have_all_their_digits(self):
        args = {"hash": 2**64 - 1, "least": -2**63, "list": [2**53 + 1, 7], "text": "is \"9007199254740993\" \\",
                "part": 0.1234567890123456789, "large": 1e300, "small": -5,
                "stamp": 1712345678901234.5, "none": 0.0}
        page = self.page_of([{"ph": "X", "name": "work", "pid": 1, "tid": 1, "ts": 456.789, "dur": 9.001,
                              "args": args}], base=1700000000123000000)
        copied = json.loads(page.value("ckineto.details.asText(0)"))
        self.assertEqual((copied["name"], copied["start_ns"], copied["dur_ns"]), ("work", "1700000000123456789", 9001))
        self.assertEqual(page.value("ckineto.timeline.activities.args(0)"),
                         {**args, "hash": str(2**64 - 1), "least": str(-2**63), "list": [str(2**53 + 1), 7]})
        self.check_manners(page)

    def test_fractions_have_all_their_digits(self):
        trace = os.path.join(self.folder, "digits.json")
        with open(trace, "w", encoding="utf-8") as file:
            file.write('{"traceEvents":[{"ph":"X","name":"work","pid":1,"tid":1,"ts":1,"dur":1,'
                       '"args":{"t":1712345678901234.567}}]}')
        page, _ = self.report(trace)
        self.assertEqual(page.value("ckineto.timeline.activities.args(0)"), {"t": "1712345678901234.567"})
        self.check_manners(page)

    def test_ids_have_all_their_bits(self):
        self.check_ids([5, 2**60 + 1, 6, 2**64 - 1, 7, 2**53 - 1, 2**53 + 1])
        self.check_ids([5, 2**64 - 1, 6])

    def check_ids(self, ids):
        page = self.page_of([{"ph": "X", "name": "work", "pid": 1, "tid": 1, "ts": ts, "dur": 1,
                              "args": {"External id": one, "correlation": ts + 1}} for ts, one in enumerate(ids)])
        self.assertEqual(page.value("Promise.all([...ckineto.timeline.activities.name.keys()]"
                                    ".map((place) => ckineto.timeline.activities.args(place)))"),
                         [{"External id": one if one < 2**53 else str(one), "correlation": i + 1}
                          for i, one in enumerate(ids)])
        self.check_manners(page)

    def test_names_that_are_markup_are_shown_and_not_run(self):
        trace = os.path.join(self.folder, "evil.json")
        with open(trace, "w", encoding="utf-8") as file:
            events = [e for i, name in enumerate(EVIL) for e in launch(name, 1000 + 100 * i, i + 1)]
            json.dump({"traceEvents": events}, file)
        page, _ = self.report(trace)
        texts = [text for table in page.value(TABLES) if table["name"] == "kernels" for text in table["texts"]]
        for name in EVIL:
            self.assertIn(name, texts)
        self.assertEqual(page.value("document.querySelectorAll('img[src=\"x\"], #main script').length"), 0)
        self.assertEqual(page.value("ckineto.timeline.activities.count"), 3 * len(EVIL))
        self.check_manners(page)

    def test_evidence_of_several_ranks(self):
        paths = []
        for rank, trace in enumerate(cases_1.CASES["communication.imbalance"][0]()):
            paths.append(os.path.join(self.folder, f"rank{rank}.json"))
            trace.save(paths[-1])
        page, _ = self.report(*paths)
        seen = page.value("""[...document.querySelectorAll('[data-id="communication.imbalance"] .evidence li')]
            .map((li) => li.textContent)""")
        self.assertGreater(len(seen), 0)
        for text in seen:
            self.assertRegex(text, "3.200 ms beyond the median of its role")


if __name__ == "__main__":
    if not headless.find():
        print("the report in a browser: skipped: there is no Chromium (apt-get install chromium-headless-shell)")
        sys.exit(77)
    unittest.main()
