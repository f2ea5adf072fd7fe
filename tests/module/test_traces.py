"""Traces: reading, what is in them, questions, parts, files."""
import gzip
import json
import os

import support
import ckineto


class Reading(support.TestCase):
    def test_everything_is_as_the_file_says(self):
        path = self.generate(1500)
        with open(path, encoding="utf-8") as file:
            slices = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
        trace = ckineto.open(path)
        read = [a for a in trace if a.form == "slice"]
        self.assertEqual(len(read), len(slices))
        self.assertEqual(sorted(a.name for a in read), sorted(e["name"] for e in slices))
        wanted = next(e for e in slices if "Input Dims" in e.get("args", {}))
        found = next(a for a in read if a.args.get("Ev Idx") == wanted["args"]["Ev Idx"])
        for key, value in wanted["args"].items():
            if key not in ("External id", "correlation"):
                self.assertEqual(found.args[key], value, key)
        self.assertEqual(found.category, wanted["cat"])
        self.assertAlmostEqual(found.duration_ns / 1e3, float(wanted["dur"]), places=3)

    def test_sequences_behave_as_sequences(self):
        trace = ckineto.open(self.generate(500))
        events, count = trace.events, len(trace)
        self.assertEqual((count > 200, len(events), bool(trace)), (True, count, True))
        self.assertEqual(events[-1].row, count - 1)
        self.assertEqual([a.row for a in events[10:16:2]], [10, 12, 14])
        for wrong in (count, -count - 1):
            with self.assertRaises(IndexError):
                events[wrong]
        self.assertEqual(sum(1 for _ in trace), count)

    def test_options_change_nothing_but_the_cost(self):
        path = self.generate(3000)
        plain = ckineto.open(path)
        for options in ({"threads": 1}, {"memory_limit": "1M"}, {"memory_limit": 1 << 30},
                        {"strict": True}):
            with ckineto.open(path, **options) as other:
                self.assertEqual(support.names(other), support.names(plain))
                self.assertEqual(other.window, plain.window)

    def test_several_files_and_directories_become_one(self):
        first = self.generate(400, seed=1, name="rank0.json")
        second = self.generate(600, seed=2, name="rank1.json")
        counts = [len(ckineto.open(path)) for path in (first, second)]
        for paths in ([first, second], self.folder):
            self.assertEqual(len(ckineto.open(paths)), sum(counts))
        with self.assertRaises(ckineto.NotFoundError):
            ckineto.open(self.folder, rank=7)

    def test_broken_files(self):
        path = self.path("broken.json")
        with open(path, "w") as file:
            file.write('{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1},{"ph":"X",')
        trace = ckineto.open(path)
        self.assertEqual(support.names(trace), ["a"])
        self.assertTrue(trace.repairs)
        with self.assertRaises(ckineto.FormatError) as caught:
            ckineto.open(path, strict=True)
        self.assertGreater(caught.exception.offset, 50)
        with self.assertRaises(FileNotFoundError):
            ckineto.open(self.path("none.json"))
        with self.assertRaises(ckineto.ArgumentError):
            ckineto.open("nul\0.json")
        with self.assertRaises(ckineto.Error):
            ckineto.open([])

    def test_what_is_closed_says_so(self):
        trace = ckineto.open(self.generate(300))
        activity, facts = trace[0], trace.analyze("operators")
        events = trace.function_events()
        average = events.key_averages()[0]
        for owner in (trace, events, average._owner):
            owner.close()
        for use in (lambda: activity.name, lambda: trace[1], lambda: trace.ledger, lambda: average.key,
                    lambda: events[0], lambda: trace.query("SELECT 1"), lambda: trace.to_arrow()):
            with self.assertRaises((ckineto.StateError, ckineto.MissingPackageError)):
                use()
        self.assertIn("closed", repr(trace))
        self.assertIn("closed", trace._repr_html_())
        self.assertTrue(len(facts))  # facts need no trace


class Questions(support.TestCase):
    def setUp(self):
        super().setUp()
        self.trace = ckineto.open(self.generate(2000))

    def test_sql(self):
        rows = self.trace.query("SELECT kind, count(*) AS n FROM activities GROUP BY kind ORDER BY n DESC")
        self.assertEqual(rows.columns, ["kind", "n"])
        self.assertEqual(sum(rows["n"]), len(self.trace))
        self.assertEqual(rows[0], dict(zip(rows.columns, rows.row(0))))
        self.assertEqual(len(rows.to_dicts()), len(rows))
        empty = self.trace.query('SELECT 1 AS "a b", 2 WHERE 0')
        self.assertEqual((len(empty), empty.columns), (0, ["a b", "2"]))
        self.assertIn("(0 rows)", repr(empty))
        with self.assertRaisesRegex(ckineto.ArgumentError, "syntax error"):
            self.trace.query("SELEC 1")
        with self.assertRaises(KeyError):
            rows["nothing"]

    def test_sql_of_a_trace_that_is_not_a_file(self):
        part = self.trace.select(kinds="kernel")
        rows = part.query("SELECT DISTINCT kind FROM activities")
        self.assertEqual(rows["kind"], ["kernel"])
        folder = os.path.dirname(part._queryable_path())
        self.assertTrue(os.path.isdir(folder))
        part.close()
        self.assertFalse(os.path.isdir(folder))

    def test_sql_of_a_file_that_has_changed_is_about_what_was_read(self):
        path = self.generate(300, name="changing.json")
        trace = ckineto.open(path)
        self.generate(900, name="changing.json")
        self.assertEqual(trace.query("SELECT count(*) AS n FROM activities")["n"], [len(trace)])

    def test_analyses(self):
        facts = self.trace.analyze("kernels", "operators")
        self.assertEqual(set(facts), {"kernels", "operators"})
        work = [a for a in self.trace if a.kind in ("kernel", "gpu_memcpy", "gpu_memset")]
        self.assertEqual(sum(facts["kernels"]["count"]), len(work))
        self.assertAlmostEqual(sum(facts["kernels"]["sum_us"]), sum(a.duration_ns for a in work) / 1e3)
        self.assertGreater(len(self.trace.analyze()), 10)
        self.assertIn("<table>", facts._repr_html_())
        for wrong in ({"definitions": "mine"}, {"steps": "some"}, {"steps": (1, 2, 3)}):
            with self.assertRaises(ckineto.ArgumentError):
                self.trace.analyze(**wrong)
        with self.assertRaises(ckineto.NotFoundError):
            self.trace.analyze(steps=99)
        with self.assertRaisesRegex(KeyError, "kernels"):
            facts["nothing"]

    def test_findings_and_differences(self):
        findings = self.trace.findings()
        for finding in findings:
            self.assertIn(finding.severity, ("low", "medium", "high"))
            self.assertTrue(finding.sentence and finding.title)
        self.assertIsInstance(findings.gate("all=100%")[0], bool)
        with self.assertRaises(ckineto.ArgumentError):
            findings.gate("no.such.rule")
        other = ckineto.open(self.generate(2000, seed=5, name="other.json"))
        changed = self.trace.diff(other)
        self.assertIn("diff_kernels", changed)
        verdict = changed.gate("step>1000%", without_noise=True)
        self.assertEqual((verdict.passed, verdict.outcome), (True, "passed"))
        runs = ckineto.diff([self.trace] * 3, [other] * 4)
        self.assertEqual(list(runs["diff_runs"]["side"]), ["before"] * 3 + ["after"] * 4)
        with self.assertRaises(ckineto.ArgumentError):
            ckineto.diff([], [other])

    def test_reports(self):
        path = self.path("report.html")
        self.trace.report(path, title="<b>mine</b>")
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertIn("&lt;b&gt;mine&lt;/b&gt;", page)
        report = self.trace.report(title="t")
        self.assertIn("srcdoc=", report._repr_html_())
        self.assertNotIn("<script", report._repr_html_())
        report.save(self.path("again.html"))

    def test_notebooks_show_names_as_text(self):
        with ckineto.record() as recording:
            with ckineto.range("<script>alert(1)</script>\"'&"):
                pass
            ckineto.set_thread_name("</svg><img src=x>")
        shown = recording.trace._repr_html_() + recording.trace.key_averages()._repr_html_() + \
            recording.trace.query("SELECT name FROM activities")._repr_html_()
        self.assertIn("&lt;script&gt;", shown)
        self.assertNotIn("<script", shown)
        self.assertNotIn("<img", shown)
        self.assertLess(len(self.trace._repr_html_()), 400000)

    def test_averages_of_any_trace(self):
        averages = self.trace.key_averages()
        self.assertIn("Self CPU", averages.table(sort_by="count", row_limit=5))
        self.assertEqual(len(averages.to_dicts()), len(averages))


class Parts(support.TestCase):
    def test_selections(self):
        trace = ckineto.open(self.generate(2000))
        kernels = [a.row for a in trace if a.kind == "kernel"]
        self.assertEqual(len(trace.select(kinds="kernel")), len(kernels))
        start, end = trace.window
        middle = (start + end) // 2
        self.assertEqual(len(trace.select(time=(None, None))), len(trace))
        self.assertLess(len(trace.select(time=(start, middle))), len(trace))
        self.assertEqual(len(trace.select(top=7)), 7)
        self.assertTrue(all("aten" in n for n in support.names(trace.select(name="^aten"))))
        with self.assertRaisesRegex(TypeError, "nonsense"):
            trace.select(nonsense=1)
        with self.assertRaisesRegex(ckineto.ArgumentError, "regular expression"):
            trace.select(name="(")
        with self.assertRaises(ckineto.ArgumentError):
            trace.select(top=1, top_per="planet")

    def test_files(self):
        trace = ckineto.open(self.generate(500))
        for name in ("a.json", "a.json.gz", "a.pftrace", "a.csv", "a.sqlite"):
            self.assertEqual(trace.save(self.path(name)), self.path(name))
            self.assertGreater(os.path.getsize(self.path(name)), 100)
        with gzip.open(self.path("a.json.gz")) as file:
            self.assertEqual(len(ckineto.open(self.path("a.json"))), len(trace))
            self.assertIn("traceEvents", json.load(file))
        trace.save(self.path("named.txt"), format="jsonl")
        with self.assertRaises(ckineto.UnsupportedError):
            trace.save(self.path("a.nothing"))


if __name__ == "__main__":
    support.main()
