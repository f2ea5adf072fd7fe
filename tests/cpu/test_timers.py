"""record --cpu-timers: sampled stacks where perf_event_open is refused, by timers of the program's threads."""

import collections
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from test_cpu import COMMAND, NOPERF, STATIC, TARGET, Trace

TIMERS = os.environ["CPU_TIMERS"]
RUNG = r"cpu: states from counters \[ms\], samples by timers of the program's threads: 50"


class Timers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "trace.json")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CKINETO_CPU")}

    def tearDown(self):
        self.folder.cleanup()

    def run_command(self, *command):
        r = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        if r.returncode == 77:
            self.skipTest("no seccomp here")
        return r

    def record(self, *program, options=("--cpu-timers",), before=(NOPERF,)):
        r = self.run_command(*before, COMMAND, "record", "-v", "-o", self.path, *options, "--", *program)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.ledger, self.output = r.stderr, r.stdout
        verdict = self.run_command(COMMAND, "verify", self.path).stdout
        self.assertRegex(verdict, "sound|lost by the kernel|buffer full")  # where the recorder gets no CPU for long
        return Trace(self.path)

    def sampled(self, trace):
        """Sampled seconds by function, with what each called."""
        time = collections.Counter()
        for samples in trace.samples.values():
            for e in samples:
                time[e["name"]] += e["args"]["cpu_ns"] / 1e9
        return time

    def count(self, word):
        found = re.search(rf"cpu: {word}[^:]*: ([\d,]+)", self.ledger)
        return int(found[1].replace(",", "")) if found else 0

    def assert_sampled(self, function, seconds, delta, trace):
        requested, delivered = self.count("requested"), self.count("delivered")
        self.assertEqual(requested, delivered + self.count("buffer full"))
        self.assertAlmostEqual(self.sampled(trace)[function] / seconds / (delivered / requested), 1, delta=delta)

    # ---- what is sampled ----

    def test_time_is_divided_between_functions_as_it_was_used(self):
        t = self.record(TIMERS, "split", "1200", options=("--cpu-timers", "--cpu", "999"))
        time = self.sampled(t)
        self.assertRegex(self.ledger, RUNG + " .*seccomp")
        self.assertAlmostEqual(time["heavy"] / (time["heavy"] + time["light"]), 0.7, delta=0.1)
        self.assert_sampled("main", 1.2, 0.1, t)
        self.assertGreater(sum(sum(t.seconds(thread).values()) for thread in t.states), 0.5)

    def test_both_kinds_of_samples_agree(self):
        shares = []
        for options in (("--cpu-timers=always",), ()):
            time = self.sampled(self.record(TIMERS, "split", "1200", options=("--cpu", "499", *options), before=()))
            if not options and "no samples" in self.ledger:
                self.skipTest("perf_event_open is not allowed here")
            self.assertEqual(bool(re.search(RUNG, self.ledger)), bool(options))
            if not self.count("lost by the kernel"):
                self.assertAlmostEqual(time["main"], 1.2, delta=0.15)
            shares.append(time["heavy"] / time["main"])
        self.assertAlmostEqual(shares[0], shares[1], delta=0.12)

    def test_timers_are_not_used_where_the_kernel_gives_samples(self):
        self.record(TIMERS, "split", "50", before=())
        if "no samples" not in self.ledger and not re.search(RUNG, self.ledger):
            self.assertIn("cpu: delivered", self.ledger)

    def test_every_frame_of_a_stack(self):
        t = self.record(TARGET, "deep", "40", "300")
        (samples,) = t.samples.values()
        spins = [e for e in samples if e["name"] == "spin"]
        self.assertGreater(len(spins), 0)
        for s in spins:
            inside = [e for e in samples if e["name"] == "descend" and e["ts"] <= s["ts"] + 0.001
                      and e["ts"] + e["dur"] >= s["ts"] + s["dur"] - 0.001]
            self.assertEqual(len(inside), 40)
        self.assertFalse([e for e in samples if "libckineto" in e["args"].get("module", "")])

    def test_threads_that_are_shorter_than_a_period(self):
        t = self.record(TIMERS, "brief", "100", "5")
        self.assert_sampled("heavy", int(self.output) / 1e9, 0.7, t)  # about 50 samples, fewer on a busy machine
        sampled = self.sampled(t)  # a sample or two may be of start_thread itself
        self.assertLessEqual(sampled["spin_heavy"], sampled["start_thread"])
        self.assertAlmostEqual(sampled["spin_heavy"], sampled["start_thread"], delta=0.1 * sampled["start_thread"])

    def test_stacks_of_all_kinds(self):
        for program, function in (("foreign", "spin_there"), ("deep", "heavy"), ("fork", "spin_heavy")):
            with self.subTest(program):
                t = self.record(TIMERS, program, "250")
                self.assert_sampled(function, 0.25, 0.25, t)

    def test_libraries_that_are_loaded_later(self):
        t = self.record("python3", "-c", "import zlib, os\nfor i in range(12): zlib.compress(os.urandom(1 << 20), 9)")
        inside = sum(e["args"]["cpu_ns"] for list_ in t.samples.values() for e in list_ if "libz" in e["args"].get("module", ""))
        if not inside and not any("libz" in line for line in open("/proc/self/maps")):
            self.skipTest("zlib is part of Python here")
        self.assertGreater(inside / 1e9, 0.05)

    # ---- the program's own signals ----

    def test_timers_and_signals_of_the_program(self):
        t = self.record(TIMERS, "own")
        self.assertIn("own ok", self.output)
        self.assertNotIn("has a handler", self.output)
        self.assert_sampled("heavy", 0.3, 0.25, t)

    def test_a_program_that_uses_every_signal_gets_them(self):
        self.record(TIMERS, "takes")
        self.assertEqual(self.output, "takes ok\n")
        self.assertEqual(self.count("programs that use the signal of samples themselves"), 1)

    def test_threads_that_block_signals(self):
        t = self.record(TIMERS, "blocks", "250")
        samples = t.samples[t.thread("blocks-all")]
        self.assertAlmostEqual(sum(e["args"]["cpu_ns"] for e in samples if e["name"] == "heavy") / 1e9, 0.25, delta=0.06)
        self.assertEqual(self.count("programs that use the signal of samples themselves"), 1)

    def test_a_program_that_resets_all_signals(self):
        self.assert_sampled("heavy", 0.25, 0.25, self.record(TIMERS, "reset", "250"))

    def test_calls_that_look_at_no_eintr_go_on(self):
        self.record(TIMERS, "restart", "100", options=("--cpu-timers", "--cpu", "9999"))
        self.assertRegex(self.output, r"^read 0 of \d+")  # others: where the kernel sends the signal inside a call

    # ---- what cannot be sampled ----

    def test_a_static_program_is_reported(self):
        if not os.path.exists(STATIC):
            self.skipTest("no static C library")
        t = self.record(STATIC, "deep", "10", "200")
        self.assertEqual(len(t.samples), 0)
        self.assertRegex(self.ledger, "cpu: processes without samples: 1 .*statically linked")

    def test_without_the_option_the_ledger_names_it(self):
        self.record(TIMERS, "split", "50", options=())
        self.assertRegex(self.ledger, "no samples: 50 .*; --cpu-timers samples")

    def test_options(self):
        self.environment["CKINETO_CPU_TIMERS"] = "on"
        self.record(TIMERS, "split", "100", options=())
        self.assertRegex(self.ledger, RUNG)
        self.record(TIMERS, "split", "50", options=("--cpu", "0"))
        self.assertNotRegex(self.ledger, RUNG)
        self.environment["CKINETO_CPU_TIMERS"] = "maybe"
        for options, word in (((), "CKINETO_CPU_TIMERS is on or always, not 'maybe'"),
                              (("--cpu-timers=no",), "--cpu-timers is on or always, not 'no'")):
            r = self.run_command(COMMAND, "record", "-o", self.path, *options, "--", "true")
            self.assertEqual(r.returncode, 125)
            self.assertIn(word, r.stderr)
        del self.environment["CKINETO_CPU_TIMERS"]
        r = self.run_command(COMMAND, "record", "--cpu-timers", "--pid", str(os.getpid()))
        self.assertIn("nothing can be loaded into a program that runs", r.stderr)

    def test_the_budget_lowers_the_rate(self):
        self.record(TIMERS, "split", "500", options=("--cpu-timers", "--cpu", "9999", "--budget", "0.1%"))
        self.assertIn("samples a second, lowered for --budget", self.ledger)

    # ---- a recorder that does not read ----

    def start(self, *program):
        p = subprocess.Popen([NOPERF, COMMAND, "record", "-v", "-o", self.path, "--cpu-timers", "--", *program],
                             env=self.environment, stderr=subprocess.PIPE, text=True)
        time.sleep(0.5)
        if p.poll() == 77:
            self.skipTest("no seccomp here")
        return p

    def test_samples_without_room_are_counted(self):
        p = self.start(TIMERS, "split", "2000")
        p.send_signal(signal.SIGSTOP)
        time.sleep(2)
        p.send_signal(signal.SIGCONT)
        self.ledger = p.communicate()[1]
        self.assertEqual(p.returncode, 0, self.ledger)
        self.assertGreater(self.count("delivered"), 0)
        self.assertEqual(self.count("requested"), self.count("delivered") + self.count("buffer full"))

    def test_the_program_survives_the_recorder(self):
        result = os.path.join(self.folder.name, "result")
        p = self.start("sh", "-c", f"{TIMERS} split 1500; echo $? > {result}.part; mv {result}.part {result}")
        p.kill()
        p.communicate()
        for _ in range(600):
            if os.path.exists(result):
                break
            time.sleep(0.1)
        with open(result) as f:
            self.assertEqual(f.read(), "0\n")
        raw = re.search(rf"/\S+-{p.pid}-\w+\.pool", self.run_command(COMMAND, "recover").stdout)
        if raw:
            r = self.run_command(COMMAND, "recover", "--remove", "-o", self.path, raw.group(0))
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)


if __name__ == "__main__":
    unittest.main()
