"""What `ckineto diff` says of two runs of many ranks: a straggler that moved, a link that became slow, a rank that is
missing, clocks that cannot be aligned, and nothing where only noise differs.

test_diff.py, with CKINETO in the environment
"""
import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import slow_tests  # noqa: E402
COMMAND = os.environ.get("CKINETO")
SIZE = ["--program", "tpd", "--set", "tp=2", "--set", "pp=2", "--set", "dp=6", "--set", "steps=4", "--set", "layers=3"]
HYBRID = ["--program", "hsdp", "--set", "ranks=16", "--set", "ranks_per_host=4"]

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing (python3-numpy): skipped")
    sys.exit(77)


class Diff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="ckineto-diff-")
        sets = {"nothing": [], "again": ["--seed", "7"], "slow5": ["--plant", "device:rank=5,phase=forward,factor=1.3"],
                "slow10": ["--seed", "7", "--plant", "device:rank=10,phase=forward,factor=1.3"],
                "link": ["--plant", "link:group=dp:1,factor=4"], "missing": ["--damage", "missing:rank=11"],
                "stars": HYBRID, "star_link": [*HYBRID, "--plant", "link:hosts=1+2,factor=3"], "star_seed": [*HYBRID, "--seed", "5"],
                "stepped": ["--damage", "clock_step:host=1,ns=1000000"],
                "all": ["--seed", "7", "--plant", "device:rank=5,phase=forward,factor=1.3", "--damage", "missing:rank=9"]}
        for name, more in sets.items():
            subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), os.path.join(cls.root, name), *([] if "hsdp" in more else SIZE), *more],
                           check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root, ignore_errors=True)

    def diff(self, *words):
        done = subprocess.run([COMMAND, "diff", "--no-findings", *words], cwd=self.root, capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def rows(self, before, after):
        table = json.loads(self.diff("--json", before, after))["facts"]["tables"]["diff_ranks"]
        return [dict(zip(table["columns"], row)) for row in table["rows"]]

    def test_a_straggler_that_moved_is_the_first_row(self):
        rows = self.rows("slow5", "slow10")
        self.assertEqual((rows[0]["what"], rows[0]["kind"], rows[0]["rank_before"], rows[0]["rank_after"]),
                         ("moved", "device", 5, 10), rows)
        self.assertTrue(self.diff("slow5", "slow10").startswith("Origin: the slow rank moved from 5 to 10"))
        self.diff("--markdown", "comment.md", "slow5", "slow10")
        with open(os.path.join(self.root, "comment.md"), encoding="utf-8") as file:
            self.assertTrue(file.read().startswith("**Origin:** the slow rank moved from 5 to 10"))

    def test_the_origin_comes_before_its_consequence(self):
        """In traces, facts files and comments; in each direction of the change."""
        for name in ("nothing", "slow5", "link"):
            subprocess.run([COMMAND, "facts", name, "-o", name + ".facts"], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        for slow, named in (("slow5", r"rank 5 \(host node000, GPU 5\) computes longer"), ("link", "group ")):
            for before, after, word in (("nothing", slow, "slower"), (slow, "nothing", "faster")):
                lines = " ".join(self.diff(before, after).split())
                then = "No difference beyond noise" if slow == "link" else f"As a consequence {word}: the mean step"
                self.assertRegex(lines, rf"^Origin: only (after|before): {named}.* {then}")
                with open(os.path.join(self.root, slow + ".truth.json"), encoding="utf-8") as file:
                    group = str(json.load(file)["plants"][0].get("group", ""))
                self.assertRegex(lines, f"group {group}" if slow == "link" else named)
                self.assertRegex(self.facts_diff(before, after), rf"^Origin: only (after|before): {named}.*\n"
                                 r"Median step of all ranks, as a consequence: ")
                self.diff("--markdown", "comment.md", before, after)
                with open(os.path.join(self.root, "comment.md"), encoding="utf-8") as file:
                    comment = file.read().splitlines()
                self.assertRegex(html.unescape(comment[0]), rf"^\*\*Origin:\*\* only (after|before): {named}")
                self.assertRegex(comment[2], "^Largest change, as a consequence: ")

    def facts_diff(self, before, after):
        return subprocess.run([COMMAND, "diff", before + ".facts", after + ".facts"], cwd=self.root, capture_output=True, text=True,
                              timeout=120, check=True).stdout

    def test_links_without_a_like_are_an_origin(self):
        """All groups that replicate have the slow link: only a good run shows it. Then it is the origin, and no sentence denies it."""
        for name in ("stars", "star_link", "star_seed"):
            subprocess.run([COMMAND, "facts", name, "-o", name + ".facts"], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
            subprocess.run([COMMAND, "reduce", name + ".facts", "-o", name + ".ckrun"], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        origin = r"^Origin: transfers in groups mesh_dp_replicate of 4 ranks take [0-9.]+ [um]s before, [0-9.]+ [um]s after"
        for before, after, word in (("stars", "star_link", "slower"), ("star_link", "stars", "faster")):
            self.assertRegex(" ".join(self.diff(before, after).split()), rf"{origin} \(median\)\. As a consequence {word}: ")
            for sides in ([before + ".ckrun", after + ".ckrun"], ["--ranks", before, after], [before + ".facts", after + ".facts"]):
                said = " ".join(subprocess.run([COMMAND, "diff", *sides], cwd=self.root, capture_output=True, text=True, timeout=120,
                                               check=True).stdout.split())
                self.assertRegex(said, rf"{origin} \(median\)\. Median step of all ranks, as a consequence: ")
                self.assertIn("No rank makes either run longer", said)
                self.assertNotIn("no link", said)
        said = self.facts_diff("stars", "star_seed")
        self.assertFalse(said.startswith("Origin"), said)
        self.assertIn("No rank and no link makes either run longer", said)

    def test_several_origins_are_in_the_order_of_what_they_explain(self):
        rows = [r for r in self.rows("link", "slow5") if r["confidence"] is not None]
        self.assertEqual({r["what"] for r in rows}, {"new", "gone"}, rows)
        changes = [abs(r["delta_us"]) for r in rows]
        self.assertEqual(changes, sorted(changes, reverse=True))

    def test_without_an_origin_the_verdict_is_first(self):
        for before, after in (("nothing", "again"), ("nothing", "stepped")):
            self.assertRegex(self.diff(before, after), "^(No difference|Slower|Faster|Undecided)")

    @slow_tests.slow
    def test_noise_is_no_row(self):
        for before, after in (("nothing", "again"), ("nothing", "nothing"), ("slow5", "slow5")):
            self.assertEqual(self.rows(before, after), [], (before, after))

    def test_a_straggler_that_came_or_went(self):
        rows = self.rows("nothing", "slow5")
        self.assertEqual([(r["what"], r["rank_after"]) for r in rows if r["kind"] == "device"][:1], [("new", 5)], rows)
        rows = self.rows("slow5", "nothing")
        self.assertEqual([(r["what"], r["rank_before"]) for r in rows if r["kind"] == "device"][:1], [("gone", 5)], rows)

    def test_a_link_that_became_slow(self):
        rows = self.rows("nothing", "link")
        self.assertEqual((rows[0]["what"], rows[0]["kind"]), ("new", "link"), rows)
        with open(os.path.join(self.root, "link.truth.json"), encoding="utf-8") as file:
            truth = json.load(file)
        self.assertEqual(str(truth["plants"][0]["group"]), rows[0]["group"], rows)

    def test_a_missing_rank(self):
        rows = self.rows("nothing", "missing")
        self.assertIn(("missing", None, 11), [(r["what"], r["rank_before"], r["rank_after"]) for r in rows])
        rows = self.rows("slow5", "all")
        self.assertEqual([r["what"] for r in rows if r["kind"] == "device"], [], rows)
        self.assertIn(("missing", 9), [(r["what"], r["rank_after"]) for r in rows])

    def test_clocks_that_are_refused(self):
        rows = self.rows("nothing", "stepped")
        self.assertEqual([r["what"] for r in rows], ["refused"], rows)
        self.assertIn("after only", rows[0]["sentence"])

    def test_merged_traces_say_the_same(self):
        for name in ("slow5", "slow10"):
            subprocess.run([COMMAND, "convert", "-q", name, "-o", f"{name}.json"], cwd=self.root, check=True)
        self.assertEqual(self.rows("slow5.json", "slow10.json"), self.rows("slow5", "slow10"))


if __name__ == "__main__":
    unittest.main()
