"""Real programs of several processes without a device: the rank that is slow is named.

test_gloo.py, with CKINETO in the environment: four ranks. A rank sleeps, or computes, so long that a busy machine does not matter.
test_gloo.py measure SEED…: small plants on four and eight ranks are counted instead; takes minutes for each seed.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHONS = [os.environ.get("TORCH_PYTHON"), sys.executable, os.path.join(HERE, "../../build/peers/torch/bin/python")]
PLANTS = ["none", "sleep=50", "loader=50", "step=1500", "compute=15"]
SMALL_PLANTS = ["none", "compute=2", "compute=3", "sleep=15", "loader=15", "step=800", "none"]
COMMAND = os.environ.get("CKINETO")


def find_python():
    """One whose PyTorch has gloo and its profiler; None."""
    for python in filter(None, PYTHONS):
        if os.path.exists(python) and subprocess.run([python, "-B", os.path.join(HERE, "train_gloo.py")], check=False,
                                                     capture_output=True).returncode != 77:
            return python
    return None


def analyze(folder, *words):
    done = subprocess.run([COMMAND, "analyze", *words, "--json", folder], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def causes_of(folder):
    table = analyze(folder, "--only", "rank_causes")["tables"]["rank_causes"]
    return [dict(zip(table["columns"], row)) for row in table["rows"]], table["note"]


def late_ranks(folder):
    return [f["rank"] for f in analyze(folder, "--findings")["findings"] if f["id"] == "communication.imbalance"]


def train(python, folder, plants, program="ddp", ranks=4, seed=1):
    """Yields the folder of each run, and what is planted."""
    done = subprocess.run([python, "-B", os.path.join(HERE, "train_gloo.py"), folder, "--program", program, "--ranks", str(ranks),
                           "--seed", str(seed), *plants], capture_output=True, text=True, timeout=800, check=False,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise AssertionError(done.stderr[-2000:])
    for path in sorted(glob.glob(os.path.join(folder, "*.truth.json"))):
        with open(path, encoding="utf-8") as file:
            yield path[:-len(".truth.json")], json.load(file)


class Gloo(unittest.TestCase):
    python = None

    def check_program(self, program):
        with tempfile.TemporaryDirectory(prefix="ckineto-gloo-") as folder:
            for run, truth in train(self.python, folder, PLANTS, program):
                self.check_run(run, truth)

    def check_run(self, folder, truth):
        rows, note = causes_of(folder)
        self.assertNotRegex(note, "does not explain", truth)
        if truth["rank"] is None:
            return  # what a busy machine does to it is real
        self.assertTrue(rows, f"{truth}: {note}")
        self.assertEqual(rows[0]["rank"], truth["rank"], f"{truth}: {rows}")
        self.assertEqual(late_ranks(folder)[0], truth["rank"], truth)
        self.assertEqual(rows[0]["kind"], "step" if truth["plant"] == "step" else "host", f"{truth}: {rows}")
        if truth["plant"] == "step":
            self.assertEqual(rows[0]["step"], truth["step"], f"{truth}: {rows}")

    def test_data_parallel(self):
        self.check_program("ddp")

    def test_groups_within_the_group_of_all(self):
        self.check_program("tp")


def judge_run(folder, truth):
    named = late_ranks(folder)
    if truth["rank"] is None:
        return "false alarm" if named else "silent"
    return "silent" if not named else "right" if named[0] == truth["rank"] else "wrong"


def measure(python, seeds):
    for seed in seeds:
        for ranks, program in (4, "ddp"), (4, "tp"), (8, "ddp"), (8, "tp"):
            with tempfile.TemporaryDirectory(prefix="ckineto-gloo-") as folder:
                for run, truth in train(python, folder, SMALL_PLANTS, program, ranks, seed):
                    print(f"{judge_run(run, truth):11} {program} x {ranks} {truth['plant']}={truth['value']:g} rank {truth['rank']}: "
                          f"{late_ranks(run)}, load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    if not COMMAND:
        print("run by ctest, which says where the command is: skipped")
        sys.exit(77)
    Gloo.python = find_python()
    if not Gloo.python:
        print("no Python here has PyTorch with gloo and its profiler: skipped")
        sys.exit(77)
    if sys.argv[1:2] == ["measure"]:
        measure(Gloo.python, [int(word) for word in sys.argv[2:]])
    else:
        unittest.main()
