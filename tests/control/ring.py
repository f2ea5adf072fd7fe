"""CKINETO_RING: a program that knows nothing of it is asked, is slow, hangs, and crashes."""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from paced import Paced

COMMAND = os.environ.get("CKINETO", "")
PROGRAM = os.environ.get("CKINETO_TARGET", "")

if not (COMMAND and PROGRAM):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

HANGS_S = 60  # only against hanging: a machine may be slow


class Ring(Paced):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.processes = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def start(self, ring, *options):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("CKINETO_", "KINETO_")) or k == "CKINETO_CPU"}
        environment.update(CKINETO_RING=ring, KINETO_ONDEMAND_TRACE_DIR=self.directory.name,
                           XDG_RUNTIME_DIR=self.directory.name)
        for sanitizer in ("ASAN_OPTIONS", "TSAN_OPTIONS"):  # which would end the program in their own way
            environment[sanitizer] = environment.get(sanitizer, "") + ":handle_segv=0:handle_abort=0"
        process = subprocess.Popen([PROGRAM, *options], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def files(self, ending):
        return sorted(glob.glob(f"{self.directory.name}/*{ending}"))

    def wait_for(self, ending):
        end = time.monotonic() + HANGS_S
        while time.monotonic() < end and not self.files(ending):
            time.sleep(0.002)
        self.assertEqual(len(self.files(ending)), 1)
        return self.files(ending)[0]

    def load(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    @staticmethod
    def names(trace):
        return [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"]

    def test_a_slow_step_leaves_its_trace(self):
        process = self.start("seconds=20,mb=4,slow-step=30x", "--step-ms", str(self.ms(10)), "--steps", "30",
                             "--slow", "20", str(self.ms(600)))
        trace = self.load(self.wait_for(".json"))
        process.communicate(timeout=HANGS_S)
        self.assertEqual(process.returncode, 0)
        self.assertIn("slow step 20: ", trace["ckineto_dump_reason"])
        step = [e for e in trace["traceEvents"] if e["name"] == "ProfilerStep#20"]
        self.assertEqual(len(step), 1)
        self.assertGreater(step[0]["dur"], self.ms(590000))
        self.assertEqual(step[0]["cat"], "user_annotation")
        self.assertEqual(len(self.files(".json")), 1)

    def test_a_hang_leaves_what_was_before(self):
        self.start(f"seconds=20,mb=4,hang={self.s(0.8)}", "--step-ms", str(self.ms(20)), "--hang", "15")
        trace = self.load(self.wait_for(".json"))
        self.assertIn("since step 15 began", trace["ckineto_dump_reason"])
        self.assertIn("ProfilerStep#14", self.names(trace))

    def crash(self, option, status):
        process = self.start(f"seconds=20,mb=4,crash,path={self.directory.name}/own.json",
                             "--step-ms", str(self.ms(5)), option, "20")
        _, said = process.communicate(timeout=HANGS_S)
        self.assertEqual(process.returncode, -status, said)
        pool, = self.files(".ckpool")
        self.assertIn(pool, said)
        self.assertIn(f"/own_{process.pid}.json", pool)
        out = f"{self.directory.name}/recovered.json"
        done = subprocess.run([COMMAND, "recover", "-o", out, "--remove", pool], text=True,
                              capture_output=True, timeout=HANGS_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(pool))
        trace = self.load(out)
        name = signal.Signals(status).name
        self.assertIn(name, trace["ckineto_dump_reason"])
        self.assertIn("ProfilerStep#19", self.names(trace))
        events = [e for e in trace["traceEvents"] if e["ph"] in "Xi" and "Window" not in e["name"]]
        self.assertEqual(max(events, key=lambda e: float(e["ts"]))["name"], name)

    def test_a_crash_leaves_its_trace(self):
        self.crash("--crash", signal.SIGSEGV)
        self.crash("--abort", signal.SIGABRT)

    def test_an_invalid_setting_stops_no_program(self):
        process = self.start("seconds=20,what=3", "--steps", "3", "--step-ms", str(self.ms(1)))
        _, said = process.communicate(timeout=HANGS_S)
        self.assertEqual(process.returncode, 0)
        self.assertIn("what=3", said)


if __name__ == "__main__":
    unittest.main()
