"""What ckineto says of generated jobs of many ranks: who is blamed, what it would save, what is damaged.

test_answers.py, with CKINETO in the environment
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

if not os.environ.get("CKINETO"):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing (python3-numpy): skipped")
    sys.exit(77)


class Answers(unittest.TestCase):
    def ask(self, kind, count, ranks, seed):
        """The summary of the suite. Everything is seeded: the same every time."""
        with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
            done = subprocess.run([sys.executable, "-B", os.path.join(HERE, "suite.py"), folder, "--kind", kind, "--count",
                                   str(count), "--ranks", str(ranks), "--seed", str(seed), "--command",
                                   f"{sys.executable} -B {os.path.join(HERE, 'answer.py')} {{traces}} {{answer}}"],
                                  capture_output=True, text=True, timeout=900, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_who_is_slow(self):
        said = self.ask("plants", 8, 16, 5000)
        plants, right, wrong = map(int, re.search(r"(\d+) plants: (\d+) right, \d+ as another kind, (\d+) wrong", said).groups())
        self.assertGreaterEqual(right, plants - 1, said)
        self.assertEqual(wrong, 0, said)
        self.assertRegex(said, "false alarms 0;", said)

    def test_nobody_is_blamed_where_nothing_is_wrong(self):
        self.assertRegex(self.ask("healthy", 8, 16, 6000), "false alarms 0; on healthy sets 0 of 8")

    def test_what_is_damaged(self):
        said = self.ask("damage", 8, 16, 3)
        named, all_ = map(int, re.search(r"damage named (\d+) of (\d+)", said).groups())
        self.assertGreaterEqual(named, 0.9 * all_, said)

    def causes_of(self, path):
        done = subprocess.run([os.environ["CKINETO"], "analyze", "--only", "rank_causes", "--json", path], check=True,
                              capture_output=True, text=True)
        table = json.loads(done.stdout)["tables"]["rank_causes"]
        return [dict(zip(table["columns"], row)) for row in table["rows"]], table["note"]

    def test_a_job_without_a_device(self):
        """As PyTorch writes it with gloo: no groups and no numbers."""
        for rest, rank in (["--plant", "host:rank=3,ns=3000000"], 3), (["--plant", "device:rank=3,factor=1.3"], 3), ([], None):
            for program in "ddp", "tpd":
                sizes = ["--set", "ranks=8"] if program == "ddp" else ["--set", "tp=2", "--set", "pp=1", "--set", "dp=4"]
                with tempfile.TemporaryDirectory(prefix="ckineto-ranks-") as folder:
                    subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), folder + "/run", "--gloo", "--program",
                                    program, *sizes, "--set", "ranks_per_host=8", *rest], check=True, capture_output=True)
                    rows, note = self.causes_of(folder + "/run")
                    subprocess.run([os.environ["CKINETO"], "facts", folder + "/run", "-o", folder + "/facts"], check=True,
                                   capture_output=True)
                    self.assertEqual(self.causes_of(folder + "/facts"), (rows, note), (program, rest))
                self.assertNotIn("does not explain", note, (program, rest))
                found = [(row["kind"], row["rank"]) for row in rows]
                self.assertEqual(found, [] if rank is None else [("host", rank)], (program, rest, note))


if __name__ == "__main__":
    unittest.main()
