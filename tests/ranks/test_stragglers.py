"""The table `stragglers` is a view of `rank_causes`: the same ranks with the same numbers, in traces, facts files and for any
program; never a rank that only had to wait. Under the definitions of HTA it stays what HTA computes.

test_stragglers.py, with CKINETO in the environment
"""
import glob
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.environ.get("CKINETO")
PROGRAMS = (("tpd", "tp=2", "pp=2", "dp=4"), ("hsdp", "ranks=16", "ranks_per_host=4"), ("ddp", "ranks=12"))

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing (python3-numpy): skipped")
    sys.exit(77)


class Stragglers(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="ckineto-stragglers-")
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def generate(self, name, seed, program, *more):
        sets = [word for pair in program[1:] for word in ("--set", pair)]
        path = os.path.join(self.folder, name)
        subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), path, "--program", program[0], *sets, "--seed",
                        str(seed), *more], check=True, stdout=subprocess.DEVNULL)
        return path

    def tables(self, path, *more):
        done = subprocess.run([COMMAND, "analyze", "--only", "stragglers,rank_causes", "--json=-", *more, path], capture_output=True,
                              text=True, timeout=300, check=False)
        self.assertIn(done.returncode, (0, 3), done.stderr)
        found = json.loads(done.stdout)["tables"]
        return {name: ([dict(zip(t["columns"], row)) for row in t["rows"]], t.get("note", "")) for name, t in found.items()}

    def check_view(self, tables):
        rows, causes = tables["stragglers"][0], [c for c in tables["rank_causes"][0] if c["rank"] is not None]
        self.assertEqual(len(rows), len(causes))
        for row, cause in zip(rows, causes):
            for column in ("rank", "kind", "host", "saved_us", "saved_of_step_us"):
                self.assertEqual(row[column], cause[column], column)
            self.assertEqual(row["score"], cause["saved_pct"])
            self.assertTrue(0 < row["confidence"] <= 1)
            self.assertTrue(row["last_pct"] is None or 0 <= row["last_pct"] <= 100)
        return rows

    def test_the_planted_rank_and_no_victim(self):
        rng = random.Random(20)
        for n in range(6):
            program = PROGRAMS[n % len(PROGRAMS)]
            rank = rng.randrange(12)
            path = self.generate(f"run{n}", rng.randrange(10**6), program, "--plant", f"device:rank={rank},factor=1.3")
            rows = self.check_view(self.tables(path))
            self.assertEqual(({r["rank"] for r in rows}, rows[0]["kind"]), ({rank}, "device"), (program, rank))

    def test_nothing_planted(self):
        for n, program in enumerate(PROGRAMS):
            tables = self.tables(self.generate(f"run{n}", 400 + n, program))
            self.assertEqual(tables["stragglers"], ([], "no rank makes the run longer by more than noise"))

    def test_a_slow_link_is_no_rank(self):
        tables = self.tables(self.generate("run", 3, PROGRAMS[0], "--plant", "link:group=dp:1,factor=4"))
        self.assertEqual([c["kind"] for c in tables["rank_causes"][0]], ["link"])
        self.assertEqual(self.check_view(tables), [])
        self.assertIn("a link does (rank_causes)", tables["stragglers"][1])

    def test_durations_are_compared_where_clocks_are_refused(self):
        """The note names the planted rank, no rank where nothing is planted, and no row is made of it."""
        for n in range(4):
            damage = ["--damage", "clock_step:host=1,ns=1000000"]
            program = (PROGRAMS[n % 2][0], *PROGRAMS[n % 2][1:], "steps=4", "ranks_per_host=4")
            tables = self.tables(self.generate(f"none{n}", 50 + n, program, *damage))
            self.assertIn("clocks of hosts cannot be aligned", tables["stragglers"][1])
            self.assertNotIn("by durations", tables["stragglers"][1] + tables["rank_causes"][1])
            tables = self.tables(self.generate(f"slow{n}", 60 + n, program, *damage, "--plant", f"device:rank={n},factor=1.3"))
            self.assertEqual(tables["stragglers"][0], [])
            self.assertIn(f"by durations alone rank {n} computes", tables["stragglers"][1])
            self.assertIn(f"by durations alone rank {n} computes", tables["rank_causes"][1])

    def test_facts_files_say_the_same(self):
        path = self.generate("run", 5, PROGRAMS[1], "--plant", "host:rank=6,ns=400000")
        facts = os.path.join(self.folder, "facts")
        subprocess.run([COMMAND, "facts", path, "-o", facts], check=True, capture_output=True)
        self.assertEqual(self.tables(facts)["stragglers"], self.tables(path)["stragglers"])
        self.assertEqual([r["rank"] for r in self.check_view(self.tables(facts))], [6])

    def test_definitions_of_hta(self):
        path = self.generate("run", 7, PROGRAMS[2], "--plant", "device:rank=3,factor=1.3")
        rows, note = self.tables(path, "--definitions", "hta")["stragglers"]
        self.assertEqual(rows, [])
        self.assertIn("ncclKernel*", note)
        self.assertNotIn("no collectives", note)
        for name in glob.glob(os.path.join(path, "*")):
            packed = name.endswith(".gz")
            with (gzip.open if packed else open)(name, "rt", encoding="utf-8") as file:
                text = file.read().replace("ncclDevKernel", "ncclKernel")
            with (gzip.open if packed else open)(name, "wt", encoding="utf-8") as file:
                file.write(text)
        rows, note = self.tables(path, "--definitions", "hta")["stragglers"]
        self.assertTrue(0 < len(rows) <= 2, rows)
        self.assertEqual({r["kind"] for r in rows}, {""})
        self.assertEqual(note, "")


if __name__ == "__main__":
    unittest.main()
