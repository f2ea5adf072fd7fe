"""Real programs of several processes without a device: the rank that is slow is named.

test_gloo.py, with CKINETO in the environment. A rank sleeps so long that a busy machine does not matter.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("TORCH_PYTHON", sys.executable)
PLANTS = ["none", "sleep=50", "loader=50", "step=1500"]

if not os.environ.get("CKINETO"):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
probe = subprocess.run([PYTHON, "-B", os.path.join(HERE, "train_gloo.py")], capture_output=True, text=True, check=False)
if probe.returncode == 77:
    print(probe.stdout.strip() + ": skipped")
    sys.exit(77)


def causes_of(folder):
    done = subprocess.run([os.environ["CKINETO"], "analyze", "--only", "rank_causes", "--json", folder],
                          capture_output=True, text=True, check=True)
    table = json.loads(done.stdout)["tables"]["rank_causes"]
    return [dict(zip(table["columns"], row)) for row in table["rows"]], table["note"]


class Gloo(unittest.TestCase):
    def check_program(self, program):
        with tempfile.TemporaryDirectory(prefix="ckineto-gloo-") as folder:
            done = subprocess.run([PYTHON, "-B", os.path.join(HERE, "train_gloo.py"), folder, "--program", program, *PLANTS],
                                  capture_output=True, text=True, timeout=600, check=False,
                                  env={**os.environ, "OMP_NUM_THREADS": "1"})
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            for path in sorted(glob.glob(os.path.join(folder, "*.truth.json"))):
                with open(path, encoding="utf-8") as file:
                    truth = json.load(file)
                self.check_run(path[:-len(".truth.json")], truth)

    def check_run(self, folder, truth):
        rows, note = causes_of(folder)
        self.assertNotRegex(note, "does not explain", truth)
        if truth["rank"] is None:
            return  # what a busy machine does to it is real
        self.assertTrue(rows, f"{truth}: {note}")
        self.assertEqual(rows[0]["rank"], truth["rank"], f"{truth}: {rows}")
        self.assertEqual(rows[0]["kind"], "step" if truth["plant"] == "step" else "host", f"{truth}: {rows}")
        if truth["plant"] == "step":
            self.assertEqual(rows[0]["step"], truth["step"], f"{truth}: {rows}")

    def test_data_parallel(self):
        self.check_program("ddp")

    def test_groups_within_the_group_of_all(self):
        self.check_program("tp")


if __name__ == "__main__":
    unittest.main()
