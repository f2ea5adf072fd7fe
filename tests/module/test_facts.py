"""Facts files in place of traces: the same tables and findings, and a clear error for what needs activities."""
import json
import os
import subprocess

import support
import ckineto

FROZEN = os.path.join(support.SOURCE, "tests", "ranks", "frozen", "version-1.ckrun")
COMMAND = os.path.join(support.LIBDIR, "..", "bin", "ckineto")


def rows(table):
    return [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in table]


def what(findings):
    """All of a finding but rows of the trace, which facts and merged traces number differently."""
    return [(f.id, f.severity, f.savings_ns, f.rank, f.rank_count, f.subject, f.sentence, f.advice) for f in findings]


class Facts(support.TestCase):
    def make(self, *options):
        os.makedirs(self.path("run"), exist_ok=True)
        for rank in range(2):
            path = self.generate(800, seed=rank, name="run/rank%d.json" % rank)
            with open(path, encoding="utf-8") as file:
                text = json.load(file)
            text["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
            with open(path, "w", encoding="utf-8") as file:
                json.dump(text, file)
        run, facts = self.path("run"), self.path("facts" + "".join(options))
        subprocess.run([COMMAND, "facts", *options, run, "-o", facts], check=True, stdout=subprocess.DEVNULL)
        return run, facts

    def test_tables_are_those_of_the_traces(self):
        run, folder = self.make("--all")
        trace, facts = ckineto.open(run), ckineto.open(folder)
        self.assertIsInstance(facts, ckineto.Facts)
        self.assertIsInstance(facts, ckineto.Trace)
        names = ("rank_causes", "rank_damage", "steps", "kernels", "operators")
        expected, got = trace.analyze(*names), facts.analyze(*names)
        for name in names:
            self.assertEqual(sorted(map(str, rows(expected[name]))), sorted(map(str, rows(got[name]))), name)
        self.assertIn("rank_causes", facts.analyze())

    def test_findings_are_those_of_the_traces(self):
        run, folder = self.make("--findings")
        trace, facts = ckineto.open(run), ckineto.open(folder)
        self.assertEqual(what(trace.findings()), what(facts.findings()))
        for gate in ("communication.imbalance", "copy", "copy.pageable=5%"):
            self.assertEqual(trace.findings().gate(gate)[0], facts.findings().gate(gate)[0], gate)
        self.assertEqual(what(trace.findings(rules=["communication", "copy"])), what(facts.findings(["communication", "copy"])))

    def test_what_was_not_kept_is_named(self):
        _, folder = self.make()
        facts = ckineto.open(folder)
        passed, why = facts.findings().gate("copy")
        self.assertFalse(passed)
        self.assertIn("ckineto facts --findings", why)
        with self.assertRaisesRegex(ckineto.NotFoundError, "ckineto facts --all"):
            facts.analyze("kernels")

    def test_what_needs_activities_is_an_error(self):
        with ckineto.open(FROZEN) as facts:
            for use in (lambda: facts.events, lambda: len(facts), lambda: facts[0], lambda: list(facts),
                        lambda: facts.to_pandas(), lambda: facts.query("SELECT 1"), lambda: facts.save("x.json"),
                        lambda: facts.report("x.html"), lambda: facts.select(steps=1)):
                with self.assertRaisesRegex(ckineto.UnsupportedError, "needs the traces"):
                    use()
            for use in (lambda: facts.analyze(steps=1), lambda: facts.findings(evidence=2), lambda: facts.diff(facts, seed=1),
                        lambda: ckineto.open(FROZEN, rank=0)):
                with self.assertRaisesRegex(ckineto.ArgumentError, "needs the traces"):
                    use()
        with self.assertRaises(ckineto.StateError):
            facts.analyze()

    def test_diff(self):
        facts, trace = ckineto.open(FROZEN), ckineto.open(self.generate(300))
        for diff in (facts.diff(facts), ckineto.diff(facts, facts)):
            self.assertEqual(list(diff), ["diff_ranks"])
            self.assertEqual(len(diff["diff_ranks"]), 0)
        for use in (lambda: facts.diff(trace), lambda: trace.diff(facts), lambda: ckineto.diff(trace, facts),
                    lambda: ckineto.diff([trace], [facts])):
            with self.assertRaisesRegex(ckineto.ArgumentError, "only be compared with facts"):
                use()
        with open(self.path("trace.json"), "w", encoding="utf-8") as file:
            file.write('{"traceEvents": []}')
        with self.assertRaises(FileNotFoundError):
            ckineto.open([FROZEN, self.path("gone.json")])
        with self.assertRaisesRegex(ckineto.ArgumentError, "traces and facts"):
            ckineto.open([FROZEN, self.path("trace.json")])


if __name__ == "__main__":
    support.main()
