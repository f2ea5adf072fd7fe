"""Dumps of PyTorch's flight recorder with planted faults: the same rank is named from pickles, from JSON, and by torchfrtrace
if torch is installed (its files are enough: torch itself is not loaded).

test_flight_dumps.py, with CKINETO in the environment; CKINETO_TORCH_SITE: a site-packages folder with torch
"""
import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

import flight_dumps

COMMAND = os.environ.get("CKINETO")
if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

FAULTS = {"op": ("wrong_op", 17), "size": ("wrong_size", 17), "absent": ("truncated", None), "no_dump": ("missing", None),
          "shift": ("seq_shift", None), "ring": ("ring_cut", None)}


def load_torchfrtrace():
    """Its main function; None: there is no torch."""
    site = os.environ.get("CKINETO_TORCH_SITE")
    spec = importlib.util.find_spec("torch") if not site else None
    where = os.path.join(site, "torch") if site else spec and os.path.dirname(spec.origin)
    if not where or not os.path.isdir(os.path.join(where, "distributed", "flight_recorder")):
        return None
    for name, folder in (("torch", where), ("torch.distributed", os.path.join(where, "distributed"))):
        module = types.ModuleType(name)
        module.__path__ = [folder]
        sys.modules[name] = module
    from torch.distributed.flight_recorder.fr_trace import main
    return main


class FlightDumps(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="ckineto-dumps-")

    def tearDown(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.root, name)

    def run_command(self, *words):
        return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=60, check=False)

    def damage(self, *words):
        done = self.run_command("analyze", "--json", "--only", "rank_damage", *words)
        self.assertIn(done.returncode, (0, 3), done.stderr)
        table = json.loads(done.stdout)["tables"]["rank_damage"]
        return [dict(zip(table["columns"], row)) for row in table["rows"]]

    def files(self, folder):
        return [os.path.join(self.path(folder), name) for name in sorted(os.listdir(self.path(folder)))]

    def test_each_fault_names_its_rank(self):
        for fault, (kind, sequence) in FAULTS.items():
            flight_dumps.write(self.path("p" + fault), fault)
            flight_dumps.write(self.path("4" + fault), fault, protocol=4)
            flight_dumps.write(self.path("j" + fault), fault, as_json=True)
            rows = self.damage(*self.files("p" + fault))
            self.assertEqual({row["rank"] for row in rows}, {flight_dumps.CULPRIT}, rows)
            self.assertIn((kind, sequence, "dump"), [(r["kind"], r["seq"] if sequence else None, r["source"]) for r in rows])
            self.assertEqual(self.damage(*self.files("4" + fault)), rows)
            self.assertEqual(self.damage(self.path("j" + fault)), rows)

    def test_verify_takes_dumps(self):
        flight_dumps.write(self.path("good"), as_json=True)
        self.assertEqual(self.run_command("verify", self.path("good")).returncode, 0)
        flight_dumps.write(self.path("bad"), "op", as_json=True)
        done = self.run_command("verify", self.path("bad"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"wrong_op +2 +0 +17")
        dumps = json.loads(self.run_command("verify", "--json", self.path("bad")).stdout)["dumps"]
        self.assertEqual(len(dumps["tables"]["rank_damage"]["rows"]), 1)

    def test_traces_and_dumps_of_the_same_ranks(self):
        flight_dumps.write(self.path("both"), "op", as_json=True)
        for rank in range(flight_dumps.WORLD):
            dump = os.path.join(self.path("both"), f"nccl_trace_rank_{rank}.json")
            trace = os.path.join(self.path("both"), f"rank{rank}.json")
            self.run_command("convert", "-q", dump, "-o", trace)
            with open(trace, encoding="utf-8") as file:
                text = file.read()
            with open(trace, "w", encoding="utf-8") as file: # now it is a trace like any other
                file.write(text.replace("PyTorch flight recorder", "another"))
        rows = self.damage(self.path("both"))
        self.assertEqual([(r["kind"], r["rank"], r["source"]) for r in rows], [("wrong_op", 2, "both")])
        flight_dumps.write(self.path("both"), "size", as_json=True)
        rows = self.damage(self.path("both"))
        self.assertEqual({(r["kind"], r["rank"], r["source"]) for r in rows}, {("wrong_op", 2, "trace"), ("wrong_size", 2, "dump")})
        self.assertIn("differ", self.run_command("analyze", "--only", "rank_damage", self.path("both")).stdout)

    def test_damaged_dumps_are_refused(self):
        good = pickle.dumps(flight_dumps.dump_of(0), protocol=2)
        class Call:
            def __reduce__(self):
                return (os.system, ("touch " + os.path.join(tempfile.gettempdir(), "ckineto-was-called"),))
        bad = {"call": pickle.dumps({"entries": [Call()]}, protocol=2), "empty": b"\x80\x02.", "marks": b"\x80\x02(((.",
               "memo": b"\x80\x02h\x07.", "bomb": b"\x80\x02]q\x00" + b"(h\x00h\x00h\x00h\x00tq\x00" * 60 + b"."}
        bad.update({f"cut{n}": good[:n] for n in range(3, len(good), 997)})
        for name, data in bad.items():
            path = self.path(name)
            with open(path, "wb") as file:
                file.write(data)
            done = self.run_command("info", path)
            self.assertEqual(done.returncode, 2, name + done.stdout)
            self.assertIn(name, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(tempfile.gettempdir(), "ckineto-was-called")))

    def test_torchfrtrace_names_the_same_rank(self):
        main = load_torchfrtrace()
        if not main:
            self.skipTest("torch is not installed")
        for fault, (_, sequence) in FAULTS.items():
            folder = self.path("t" + fault)
            flight_dumps.write(folder, fault)
            if fault == "no_dump":
                with self.assertRaisesRegex(AssertionError, r"Missing dump files from ranks \{2\}"):
                    main([folder])
                continue
            main([folder, "-o", folder + ".db"])
            with open(folder + ".db", "rb") as file:
                _, found = pickle.load(file)
            wrong = [c for c in found.collectives if c.missing_ranks or c.mismatch_collectives]
            # The first one counts: what follows it is no longer matched.
            ranks = {r for c in wrong[:1] for r in (c.missing_ranks or set()) | set(c.mismatch_collectives or {})}
            self.assertEqual(ranks, set() if fault == "ring" else {flight_dumps.CULPRIT}, fault)
            rows = self.damage(*self.files("t" + fault))
            if sequence:
                self.assertEqual(wrong[0].collective_seq_id, min(r["seq"] for r in rows if r["seq"] is not None), fault)


if __name__ == "__main__":
    unittest.main()
