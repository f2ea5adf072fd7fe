"""What findings about waits of threads say, and what they advise, in traces of each kind of recording.

    CKINETO=build/bin/ckineto python3 test_waits.py"""

import json
import os
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

import cases_3  # noqa: E402
from builder import Trace  # noqa: E402

MS = 1000
LOCK, OTHER = 4096, 8192


class Waits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def findings(self, made, rule):
        path = os.path.join(self.folder.name, "t.json")
        made.save(path)
        done = subprocess.run([COMMAND, "analyze", "--findings", "--json", "-", path], capture_output=True, timeout=120,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [f for f in json.loads(done.stdout)["findings"] if f["id"] == rule]

    def advice(self, made):
        found, = self.findings(made, "lock.contention")
        return found["advice"]


def lock_wait(made, tid, start, length, holder, address=LOCK):
    made.slice("blocking_call", "pthread_mutex_lock", start, length, tid=tid, address=address, holder=holder, error=0)


def taken_in_turns(threads=3, holds=60, hold=10 * MS, function="update_table", pause=0):
    """Threads of which each holds the lock in its turn, pauses after it, and waits for it again."""
    made = Trace(None)
    for n in range(holds):
        tid, start = 101 + n % threads, n * hold
        made.samples(tid, function, start, hold, 1)
        if pause:
            made.slice("blocking_call", "usleep", start + hold, pause, tid=tid, error=0)
        if n + threads < holds:
            begin = start + hold + pause + 10
            holder = 101 + (begin // hold) % threads
            lock_wait(made, tid, begin, (n + threads) * hold - begin, holder)
    return made


class Holders(Waits):
    def test_a_holder_that_waits_for_the_same_lock_has_released_it(self):
        for threads in (2, 3, 5):
            advice = self.advice(taken_in_turns(threads))
            self.assertNotIn("another one", advice)
            self.assertIn("update_table", advice)

    def test_what_a_thread_does_after_the_lock_passed_on_is_not_done_with_it(self):
        for pause in (1 * MS, 9 * MS, 15 * MS):
            advice = self.advice(taken_in_turns(4, pause=pause))
            self.assertNotIn("usleep", advice)
            self.assertIn("update_table", advice)

    def test_a_holder_that_waits_for_another_lock_is_named(self):
        made = Trace(None)
        for n in range(10):
            lock_wait(made, 101, 100 * n * MS, 50 * MS, 102)
            lock_wait(made, 102, 100 * n * MS, 45 * MS, 103, OTHER)
        first = self.findings(made, "lock.contention")
        self.assertTrue(any("waiting for another one" in f["advice"] for f in first), first)

    def test_the_innermost_sampled_function_is_named(self):
        made = taken_in_turns(2, function="work")
        for n in range(60):
            made.samples(101 + n % 2, "inner", n * 10 * MS + 1 * MS, 8 * MS, 1)
        self.assertIn("inner", self.advice(made))

    def test_a_deadlock_is_not_repeated_as_contention(self):
        for holders in ((102, 101), (102, 103, 101)):
            made = cases_3.waiting(*holders)
            self.assertEqual(len(self.findings(made, "lock.deadlock")), 1)
            self.assertEqual(self.findings(made, "lock.contention"), [])
        made = cases_3.waiting(102, 101, 200)  # thread 103 is not in the circle
        self.assertEqual(len(self.findings(made, "lock.contention")), 1)


class Units(Waits):
    def test_long_times_are_in_seconds(self):
        made = Trace(None)
        for n in range(20):
            made.slice("blocking_call", "fsync", 2000 * n * MS, 1000 * MS, tid=101, file="/data/log", fd=3, error=0)
        self.assertIn("20.000 s", self.findings(made, "io.loop")[0]["sentence"])


if __name__ == "__main__":
    unittest.main()
