"""What ckineto says of generated jobs of many ranks: who is blamed, what it would save, what is damaged.

test_answers.py, with CKINETO in the environment
"""
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


if __name__ == "__main__":
    unittest.main()
