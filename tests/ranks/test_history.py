"""`ckineto history` of jobs of many ranks: the rank that made steps longer is named before the waiting that it caused.

test_history.py, with CKINETO in the environment
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.environ.get("CKINETO")

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing (python3-numpy): skipped")
    sys.exit(77)


class History(unittest.TestCase):
    def set_time(self, path, time_ns):
        """Generated runs all begin at the same time."""
        with open(path, encoding="utf-8") as file:
            facts = json.load(file)
        facts["time_ns"] = time_ns
        with open(path, "w", encoding="utf-8") as file:
            json.dump(facts, file)

    def regress(self, program, plant):
        """Ten runs, the plant from the seventh on."""
        with tempfile.TemporaryDirectory(prefix="ckineto-history-") as folder:
            for i in range(10):
                run = os.path.join(folder, f"run{i}")
                subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), run, *program, "--seed", str(700 + i),
                                *(["--plant", plant] if i >= 6 else [])], check=True, stdout=subprocess.DEVNULL)
                subprocess.run([COMMAND, "history", "add", "-q", run, "-d", os.path.join(folder, "set")], check=True)
                self.set_time(os.path.join(folder, "set", "history", f"run=run{i}", "facts.json"), 10 ** 18 + i * 10 ** 12)
            words = [COMMAND, "history", "regress", "-d", os.path.join(folder, "set")]
            text = subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
            changes = json.loads(subprocess.run([*words, "--json"], check=True, capture_output=True).stdout)["changes"]
        self.assertEqual([(c["run"], c["shift_pct"] > 0) for c in changes], [("run6", True)], changes)
        parts = changes[0]["parts"]
        self.assertEqual(parts[0]["role"], "origin", parts)
        self.assertIn(("communication", "consequence"), [(p["kind"], p["role"]) for p in parts])
        self.assertIn(parts[0]["name"], text[2])
        return parts[0]

    def test_runs_of_one_begin(self):
        with tempfile.TemporaryDirectory(prefix="ckineto-history-") as folder:
            data_set = os.path.join(folder, "set")
            run = os.path.join(folder, "run")
            subprocess.run([sys.executable, "-B", os.path.join(HERE, "generate.py"), run, "--program", "ddp", "--set", "ranks=2"],
                           check=True, stdout=subprocess.DEVNULL)
            for name in ("b", "c", "a"):
                subprocess.run([COMMAND, "history", "add", "-q", run, "-d", data_set, "--run", name], check=True)
            for verb in ("list", "regress"):
                done = subprocess.run([COMMAND, "history", verb, "-d", data_set], check=True, capture_output=True, text=True)
                self.assertIn("runs a and b, and others, begin at the same time: ordered by name", done.stderr)
            listed = subprocess.run([COMMAND, "history", "list", "-d", data_set, "--json"], check=True, capture_output=True)
            self.assertEqual([r["run"] for r in json.loads(listed.stdout)["runs"]], ["a", "b", "c"])

    def test_a_slow_rank(self):
        origin = self.regress(["--program", "ddp", "--set", "ranks=8"], "device:rank=5,factor=1.3")
        self.assertEqual((origin["kind"], origin["name"]), ("straggler", "rank 5 computes longer than the ranks of its role"))

    def test_a_slow_link(self):
        origin = self.regress(["--program", "tpd", "--set", "tp=2", "--set", "pp=2", "--set", "dp=4", "--set", "steps=4"],
                              "link:group=dp:1,factor=4")
        self.assertEqual(origin["kind"], "slow link")
        self.assertRegex(origin["name"], r"^group \w+ \(mesh_dp\)$")


if __name__ == "__main__":
    unittest.main()
