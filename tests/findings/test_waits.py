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
import cases_4  # noqa: E402
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


def flushed(workers=3, rounds=20, held=15 * MS, pause=5 * MS):
    """A thread that sleeps with the lock in hand, and then without it; workers wait for the lock until it is free and
    end before that thread does. The first thread joins all."""
    made, end = Trace(None), 0
    for n in range(rounds):
        start = n * (held + pause)
        for name, at, length in (("usleep", start, held), ("usleep", start + held, pause)):
            made.state(200, "blocked", at, length)
            made.slice("blocking_call", name, at, length, tid=200, error=0)
        for tid in range(101, 101 + workers) if n < rounds // 2 else ():
            lock_wait(made, tid, start + 10, held - 10, 200)
            made.state(tid, "running", start, 10)
            made.state(tid, "blocked", start + 10, held - 10)
            made.state(tid, "running", start + held, pause)
        end = start + held + pause
    made.state(100, "blocked", 0, end, function="__pthread_clockjoin_ex")
    made.state(100, "running", end, 100)
    return made


class CriticalChain(Waits):
    def test_waits_that_the_run_does_not_wait_for_save_nothing(self):
        found, = self.findings(flushed(), "lock.contention")
        self.assertLess(found["worth_us"], 1 * MS)
        self.assertRegex(found["sentence"], "of the threads' time, not of the run, in which thread 200.* sleeps for 400")

    def test_waits_on_the_critical_path_do(self):
        made = flushed()
        for event in made.events:  # the first worker goes on after the thread that holds the lock
            if event["ph"] == "X" and event["tid"] == "state 101":
                last = event
        last["dur"] += 400 * MS
        for event in made.events:
            if event["ph"] == "X" and event["tid"] == "state 100":
                if event["name"] == "blocked":
                    event["dur"] = last["ts"] + last["dur"] - event["ts"]
                else:
                    event["ts"] = last["ts"] + last["dur"]
        found, = self.findings(made, "lock.contention")
        self.assertGreater(found["worth_us"], 9 * 15 * MS)

    def test_no_state_no_path(self):
        made = flushed()
        made.events = [e for e in made.events if e.get("cat") != "thread_state"]
        found, = self.findings(made, "lock.contention")
        self.assertGreater(found["worth_us"], 9 * 15 * MS)
        self.assertNotIn("not of the run", found["sentence"])


class Sleep(Waits):
    def test_the_function_of_a_call_is_named_with_its_time(self):
        for name in ("usleep", "nanosleep", "sleep"):
            found, = self.findings(cases_4.with_calls(name), "thread.blocked")
            self.assertRegex(found["sentence"], rf": {name} \([0-9.]+ ms\)$")

    def test_sleep_without_states_is_named_with_count_time_and_thread(self):
        found, = self.findings(cases_4.sleeps(50, threads=3), "thread.sleep")
        self.assertRegex(found["sentence"], r"usleep sleeps for 1.500 s in all \(300 calls of 3 threads\), thread 100\d "
                                            r"for 500.000 ms of it")
        self.assertEqual(found["count"], 300)


class Recorder(Waits):
    """What recording to advise."""

    def ledger(self, made, reason):
        made.top["ckineto"] = {"version": "0.1.0", "ledger": [
            {"source": "processes not recorded", "reason": reason, "count": 1, "loss": False, "detail": "p (100)"}]}
        return made

    def test_waits_is_not_advised_where_nothing_can_be_loaded(self):
        for make in (lambda: cases_4.blocked(30), lambda: cases_4.blocked(30, "__GI___lll_lock_wait"), standstill):
            found, = self.findings(make(), "thread.blocked")
            self.assertRegex(found["advice"], "[Rr]ecord (once )?(with )?--waits")
            found, = self.findings(self.ledger(make(), "statically linked: nothing can be loaded into it"),
                                   "thread.blocked")
            self.assertNotRegex(found["advice"], "ecord (once )?(with )?--waits")
            found, = self.findings(self.ledger(make(), "used no recorded interface"), "thread.blocked")
            self.assertRegex(found["advice"], "[Rr]ecord (once )?(with )?--waits")

    def test_a_program_that_stands_still_may_be_in_a_deadlock(self):
        found, = self.findings(standstill(), "thread.blocked")
        self.assertIn("deadlock", found["sentence"])
        self.assertIn("--waits", found["advice"])
        for made in (standstill(runs=2), standstill(still=80), standstill(killed=False)):
            self.assertFalse([f for f in self.findings(made, "thread.blocked") if "deadlock" in f["sentence"]])


def standstill(threads=3, still=95, runs=0, killed=True):
    """Threads that are blocked from some time on until the end, but for some that run all the time."""
    made = Trace(None)
    if killed:
        made.top["ckineto_dump_reason"] = "the program was killed by signal 9 (Killed)"
    for n in range(threads):
        begin = 2_000_000 * (100 - still) // 100 if n >= runs else 1_000
        made.state(1000 + n, "running", 0, begin if n >= runs else 2_000_000)
        if n >= runs:
            made.state(1000 + n, "blocked", begin, 2_000_000 - begin)
    return made


class Python(Waits):
    def self_time(self, waits):
        made = Trace(None)
        made.python("work", 0, 1000 * MS)
        made.python("<built-in function sleep>", 100 * MS, 800 * MS)
        if waits:
            made.slice("blocking_call", "clock_nanosleep", 101 * MS, 798 * MS, error=0)
        path = os.path.join(self.folder.name, "t.json")
        made.save(path)
        done = subprocess.run([COMMAND, "info", path], capture_output=True, text=True, timeout=120, check=True)
        return [line.split() for line in done.stdout.splitlines() if "built-in" in line]

    def test_calls_that_wait_take_no_time_from_functions_of_python(self):
        self.assertTrue(self.self_time(False))
        self.assertEqual(self.self_time(True), self.self_time(False))


class Units(Waits):
    def test_long_times_are_in_seconds(self):
        made = Trace(None)
        for n in range(20):
            made.slice("blocking_call", "fsync", 2000 * n * MS, 1000 * MS, tid=101, file="/data/log", fd=3, error=0)
        self.assertIn("20.000 s", self.findings(made, "io.loop")[0]["sentence"])


if __name__ == "__main__":
    unittest.main()
