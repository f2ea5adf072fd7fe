"""What `record` and `analyze` say of programs that are slow for known reasons: no CPU, locks, sleep, a hot function.

The program's threads are pinned to one CPU, so that they wait for it however busy the machine is."""

import json
import os
import subprocess
import tempfile
import unittest

COMMAND, TARGET = (os.environ[n] for n in ("CKINETO", "CPU_TARGET"))
ONE_CPU = ("taskset", "-c", str(min(os.sched_getaffinity(0))))


class Slow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.said = {}
        environment = {k: v for k, v in os.environ.items() if k != "CKINETO_CPU"}
        for name, options, program in (("plain", (), (*ONE_CPU, TARGET, "states", "800")),
                                       ("off-cpu", ("--off-cpu",), (*ONE_CPU, TARGET, "states", "800")),
                                       ("hot", (), (TARGET, "deep", "5", "800")), ("short", (), ("true",)), ("idle", (), ("sleep", "0.5"))):
            done = subprocess.run([COMMAND, "record", "-v", "-o", cls.path(name), *options, "--", *program],
                                  capture_output=True, text=True, timeout=120, check=True, env=environment)
            cls.said[name] = done.stderr
        if "cpu: not available here" in cls.said["plain"]:
            raise unittest.SkipTest("perf_event_open is not allowed here")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name + ".json")

    def analyze(self, name, *options):
        done = subprocess.run([COMMAND, "analyze", "-j", "-", *options, self.path(name)], capture_output=True,
                              text=True, timeout=120, check=True)
        return json.loads(done.stdout)

    def rows(self, name, table):
        """Rows of a table as dictionaries."""
        found = self.analyze(name, "--only", table)["tables"]
        one = found[table] if isinstance(found, dict) else next(t for t in found if t["name"] == table)
        columns = [c["name"] if isinstance(c, dict) else c for c in one["columns"]]
        return [dict(zip(columns, row)) for row in one["rows"]]

    def findings(self, name):
        return {(f["id"], f.get("subject", "")): f for f in self.analyze(name, "--findings")["findings"]}

    def events(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)["traceEvents"]

    # ---- tables ----

    def test_states_add_up_and_are_those_of_the_trace(self):
        sums = {}
        for e in self.events("plain"):
            if e.get("cat") == "thread_state":
                sums[e["tid"]] = sums.get(e["tid"], 0) + e["dur"]
        rows = self.rows("plain", "thread_states")
        self.assertEqual(len(rows), len(sums))
        for row in rows:
            parts = row["running_us"] + row["waiting_us"] + row["blocked_us"]
            self.assertAlmostEqual(parts, row["lifetime_us"], delta=0.01)
            life = sums["state " + row["thread"].split()[1]]
            self.assertAlmostEqual(row["lifetime_us"], life, delta=1 + life * 1e-6)

    def test_functions_have_the_time_of_all_samples(self):
        outermost = sum(e["args"]["cpu_ns"] for e in self.events("plain")
                        if e.get("cat") == "cpu_sample" and e["name"] in ("__clone3", "clone3", "start_thread", "act"))
        rows = self.rows("plain", "cpu_functions")
        self.assertGreater(outermost, 0)
        spin = next(r for r in rows if r["function"] == "spin")
        self.assertGreater(spin["self_us"], 0.8 * sum(r["self_us"] for r in rows))
        by_thread = self.rows("plain", "thread_functions")
        self.assertAlmostEqual(sum(r["self_us"] for r in by_thread), sum(r["self_us"] for r in rows), delta=1)
        self.assertEqual(sum(r["samples"] for r in by_thread if r["function"] == "spin"), spin["samples"])

    def test_the_path_ends_with_the_program_and_is_as_long(self):
        rows = self.rows("off-cpu", "thread_path")
        events = [e for e in self.events("off-cpu") if e.get("cat") == "thread_state"]
        whole = max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)
        self.assertAlmostEqual(sum(r["us"] for r in rows), whole, delta=0.05 * whole)

    # ---- findings ----

    def test_threads_without_a_cpu_are_found_with_default_options(self):
        found = [f for (rule, _), f in self.findings("plain").items() if rule == "thread.oversubscription"]
        self.assertGreater(sum(f["worth_pct"] for f in found), 40)
        self.assertIn("findings, by the time", self.said["plain"])
        self.assertRegex(self.said["plain"], r"waited for a\s+CPU")

    def test_without_functions_the_option_is_named_that_records_them(self):
        self.assertIn(("thread.blocked", ""), self.findings("plain"))
        self.assertIn("--off-cpu", self.said["plain"])
        self.assertIn("--waits", self.said["plain"])

    def test_no_option_is_advised_that_a_running_program_cannot_have(self):
        """Of a program that ran already (--pid, of which the header has a key)."""
        with open(self.path("plain"), encoding="utf-8") as file:
            trace = json.load(file)
        with open(self.path("attached"), "w", encoding="utf-8") as file:
            json.dump({**trace, "ckineto_attached_pid": 1}, file)
        advice = self.findings("attached")["thread.blocked", ""]["advice"]
        self.assertIn("record with --off-cpu", advice)
        self.assertIn("Start the program under ckineto, 'ckineto record --waits -- PROGRAM'", advice)
        self.assertNotIn("Record once with --waits", advice)

    def test_with_functions_locks_and_sleep_are_apart(self):
        if "no stacks of blocked threads" in self.said["off-cpu"]:
            self.skipTest("needs CAP_PERFMON")
        found = self.findings("off-cpu")
        for subject in ("locks", "sleep"):
            self.assertIn(("thread.blocked", subject), found)
        self.assertRegex(self.said["off-cpu"], r"waiting\s+for\s+locks")
        self.assertRegex(self.said["off-cpu"], "sleeping")

    def test_the_hot_function_is_found(self):
        self.assertIn(("cpu.hot_function", "spin"), self.findings("hot"))

    def test_short_and_idle_programs_have_none(self):
        for name in ("short", "idle"):
            self.assertNotIn("findings, by the time", self.said[name])
            self.assertFalse([f for f in self.findings(name) if f[0].startswith(("thread.", "cpu."))])


if __name__ == "__main__":
    unittest.main()
