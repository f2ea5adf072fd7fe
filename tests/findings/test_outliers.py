"""What slow steps and slow calls of ranges are explained with: states and blocking calls of their thread, CPU samples,
kernels and ranges, and what is advised to programs of each language.

    CKINETO=build/bin/ckineto python3 test_outliers.py"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
COMMAND = os.environ.get("CKINETO", "")

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

from builder import PID, Trace  # noqa: E402

MS = 1000
USUAL, SLOW = 2 * MS, 40 * MS


def service(fill, count=40, slow=(7, 19, 31), vendor=None):
    """Calls of handle_request one after the other; `fill` says what happens in each: fill(trace, start, length)."""
    made, at = Trace(vendor), 0
    for n in range(count):
        length = SLOW if n in slow else USUAL
        made.annotation("handle_request", at, length)
        fill(made, at, length)
        at += length + USUAL  # pauses: ranges that cover all of the time would be steps
    return made


def blocked(made, at, length, function=None, **more):
    made.state(PID, "running", at, 500)
    made.state(PID, "blocked", at + 500, length - 500, function=function, **more)


def sleeping(made, at, length):
    blocked(made, at, length)
    made.slice("blocking_call", "usleep", at + 500, length - 500, error=0)


def waiting(made, at, length):
    made.state(PID, "running", at, 500)
    made.state(PID, "waiting for a CPU", at + 500, length - 500)


def running(made, at, length):
    made.state(PID, "running", at, length)


def sampled(made, at, length):
    running(made, at, length)
    if length == SLOW:
        made.samples(PID, "rebuild_index", at, length, 4)


def kernels(made, at, length):
    made.kernel("gemm", at + 100, length - 200, at=at + 50)
    made.kernel("relu", at + length - 90, 20, at=at + 60)


CAUSES = {
    "blocked": (blocked, "the thread was blocked for 39.500 ms", "--waits"),
    "blocked in a function": (lambda m, a, n: blocked(m, a, n, function="fsync"),
                              "the thread was blocked in fsync for 39.500 ms", "fsync"),
    "asleep": (sleeping, "the thread was blocked in usleep for 39.500 ms", "usleep"),
    "without a CPU": (waiting, "the thread was waiting for a CPU for 39.500 ms", "CPUs"),
    "busy": (running, "the thread was running for 40.000 ms", "CPU samples"),
    "busy in a function": (sampled, "rebuild_index took longer by 40.000 ms", "rebuild_index"),
    "unknown": (lambda m, a, n: None, "no recorded activity explains most of it", "--waits"),
}


class Outliers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def findings(self, made, rule, *options):
        path = os.path.join(self.folder.name, "t.json")
        made.save(path)
        done = subprocess.run([COMMAND, "analyze", "--findings", "--json", "-", *options, path], capture_output=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [f for f in json.loads(done.stdout)["findings"] if f["id"] == rule]

    def test_each_cause_of_a_slow_step_is_named(self):
        for name, (fill, cause, advice) in CAUSES.items():
            with self.subTest(name):
                found, = self.findings(service(fill), "step.outliers", "--step-pattern", "handle_request")
                self.assertEqual(found["count"], 3)
                self.assertTrue(found["sentence"].endswith(cause), found["sentence"])
                self.assertIn(advice, found["advice"])
                for word in ("with_stack", "gc.", "operator"):
                    self.assertNotIn(word, found["advice"])

    def test_the_kernel_is_named(self):
        found, = self.findings(service(kernels, vendor="cuda"), "step.outliers", "--step-pattern", "handle_request")
        self.assertIn("gemm took longer", found["sentence"])

    def test_a_function_has_no_more_of_a_step_than_the_step_lasts(self):
        def sampled_beyond(made, at, length):
            running(made, at, length)
            if length == SLOW:
                made.samples(PID, "run_main", at + 30 * MS, 500 * MS, 50)
                made.samples(PID, "page_fault", at + 30 * MS, 9 * MS, 5)  # stands for 50 ms
        path = os.path.join(self.folder.name, "t.json")
        service(sampled_beyond, slow=(39,)).save(path)
        done = subprocess.run([COMMAND, "analyze", "--json", "-", "--only", "step_outliers", "--step-pattern",
                               "handle_request", path], capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        table = json.loads(done.stdout)["tables"]["step_outliers"]
        rows = [dict(zip(table["columns"], row)) for row in table["rows"]]
        self.assertTrue(rows)
        for row in rows:
            self.assertLessEqual(row["took_us"], row["dur_us"], row)
            self.assertNotEqual(row["kind"], "cpu_sample", row)

    def test_programs_of_pytorch_get_advice_for_it(self):
        found, = self.findings(service(lambda m, a, n: m.op("aten::mm", a + 10, 100)), "step.outliers",
                               "--step-pattern", "handle_request")
        self.assertIn("with_stack=True", found["advice"])

    def test_slow_calls_of_a_range_are_found_with_their_cause(self):
        for name, (fill, cause, _) in CAUSES.items():
            with self.subTest(name):
                found, = self.findings(service(fill), "range.outliers")
                self.assertEqual((found["count"], found["subject"]), (3, "handle_request"))
                self.assertRegex(found["sentence"], r"^3 of 40 calls of handle_request take 40\.00 ms or longer "
                                                    r"\(median 2\.000 ms\): they are 62 % of its time")
                state = re.search(r"the thread was (blocked.*|waiting.*) for \d", cause)
                self.assertEqual(found["sentence"].endswith(f"in them the thread is {state[1]}") if state
                                 else "in them" not in found["sentence"], True, found["sentence"])
                self.assertEqual({round(e["dur_us"]) for e in found["evidence"]}, {SLOW})

    def test_the_range_inside_is_named(self):
        def with_checkpoint(made, at, length):
            made.annotation("parse", at + 10, 1000)
            if length == SLOW:
                made.annotation("write_checkpoint", at + 1500, 38 * MS)
        found, = self.findings(service(with_checkpoint), "range.outliers")
        self.assertTrue(found["sentence"].endswith("in them write_checkpoint takes longer"), found["sentence"])

    def test_first_calls_and_second_kinds_of_calls_are_not_slow_ones(self):
        self.assertEqual(self.findings(service(running, slow=(0,)), "range.outliers"), [])
        self.assertEqual(self.findings(service(running, slow=range(1, 40, 4)), "range.outliers"), [])

    def test_savings_never_exceed_one_thread(self):
        made = Trace(None)
        for thread in range(4):
            for n in range(40):
                made.annotation("handle", n * 50 * MS, SLOW if n in (9, 29) else USUAL, tid=200 + thread)
        found, = self.findings(made, "range.outliers")
        self.assertEqual(found["worth_us"], 2 * (SLOW - USUAL))


if __name__ == "__main__":
    unittest.main()
