"""Page faults (record --page-faults): their functions and numbers against those that the program reads of itself."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "findings"))
import builder  # noqa: E402
import cases_4  # noqa: E402

COMMAND, PROGRAM = os.environ["CKINETO"], os.environ["CPU_FAULTS"]
PAGES, ONE_OF = 6400, 64


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.path.dirname(PROGRAM))  # not in memory, as /tmp may be
        os.chmod(self.folder.name, 0o777)
        self.path = os.path.join(self.folder.name, "trace.json")

    def tearDown(self):
        self.folder.cleanup()

    def record(self, *arguments, options=("--page-faults",), before=()):
        environment = {k: v for k, v in os.environ.items() if k != "CKINETO_CPU"}
        r = subprocess.run([*before, COMMAND, "record", "-v", "-o", self.path, *options, "--", PROGRAM, *arguments],
                           env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        if re.search("cpu: (not available here|states from counters)", r.stdout + r.stderr):
            self.skipTest("perf_event_open is not allowed here")
        with open(self.path) as file:
            self.events = json.load(file)["traceEvents"]
        self.counted = {m[0]: (int(m[1]), int(m[2])) for m in re.findall(r"^(\w+) (\d+) (\d+)$", r.stdout, re.M)}
        sums = collections.Counter()
        for e in self.events:
            if e["name"] in ("page fault", "major page fault"):
                self.assertEqual((e["ph"], e.get("cat")), ("i", "cpu_instant_event"))
                sums[e["args"].get("in"), e["name"]] += e["args"]["faults"]
        return sums

    def assert_new_pages_are_counted(self, sums, is_room_certain=os.geteuid() == 0):
        minor, _ = self.counted["touch_new_pages"]
        allowed = ONE_OF * os.cpu_count()  # each CPU counts for itself
        self.assertGreaterEqual(minor, PAGES)
        found = sums["touch_new_pages", "page fault"]
        self.assertLessEqual(found, minor + allowed)
        # An ordinary user's buffers are small: full if the recorder gets no CPU for long.
        self.assertGreaterEqual(found, minor - allowed if is_room_certain else 1)
        self.assertLessEqual(sums["touch_old_pages", "page fault"], allowed + self.counted["touch_old_pages"][0])

    def test_functions_have_the_faults_that_the_program_counts(self):
        self.assert_new_pages_are_counted(self.record(str(PAGES)))
        fault = next(e for e in self.events if e.get("args", {}).get("in") == "touch_new_pages")
        self.assertRegex(fault["args"]["Call stack"], r"touch_new_pages;.*main;")
        self.assertEqual(fault["args"]["module"], os.path.basename(PROGRAM))

    def test_they_need_no_rights(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("not root: the other test is the same")
        self.assert_new_pages_are_counted(self.record(str(PAGES), before=("setpriv", "--reuid=65534", "--clear-groups")),
                                          is_room_certain=False)

    def test_each_major_fault_is_recorded(self):
        file = os.path.join(self.folder.name, "data")
        with open(file, "wb") as f:
            f.write(os.urandom(400 * 4096))
            f.flush()
            os.fsync(f.fileno())
        sums = self.record("64", file)
        _, major = self.counted["read_file_pages"]
        if not major:
            self.skipTest("the file stays in memory here")
        found = sums["read_file_pages", "major page fault"]
        self.assertLessEqual(found, major)
        self.assertGreaterEqual(found, major if os.geteuid() == 0 else 1)

    def test_the_table_adds_them_up(self):
        sums = self.record(str(PAGES))
        table = os.path.join(self.folder.name, "table.json")
        subprocess.run([COMMAND, "analyze", "--json=" + table, "--only", "page_faults", self.path], check=True,
                       capture_output=True)
        with open(table) as file:
            found = json.load(file)["tables"]
        found = found["page_faults"] if isinstance(found, dict) else found[0]
        columns = [c["name"] if isinstance(c, dict) else c for c in found["columns"]]
        rows = [dict(zip(columns, row)) for row in found["rows"]]
        self.assertEqual(rows[0]["function"], "touch_new_pages")
        by_function = collections.Counter()
        for (function, _), faults in sums.items():
            by_function[function] += faults
        self.assertEqual({r["function"]: r["faults"] for r in rows}, dict(by_function))
        self.assertTrue(all(r["major"] + r["minor"] == r["faults"] for r in rows))
        self.assertAlmostEqual(sum(r["faults_pct"] for r in rows), 100, delta=0.1)

    def test_the_finding_shows_the_functions(self):
        made = cases_4.faults()
        for name, function, faults in (("page fault", "fill", 192), ("major page fault", "load", 64)):
            made.events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": name, "pid": builder.PID,
                                "tid": "page faults 1000", "ts": builder.BASE + 700_000,
                                "args": {"faults": faults, "in": function, "module": "program"}})
        findings = os.path.join(self.folder.name, "findings.json")
        made.save(self.path)
        subprocess.run([COMMAND, "analyze", "--findings", "--only", "cpu.page_faults", "--json=" + findings, self.path],
                       check=True, capture_output=True)
        with open(findings, encoding="utf-8") as file:
            evidence = [e["text"] for e in json.load(file)["findings"][0]["evidence"]]
        self.assertIn("fill: 192 page faults (75.0 %), of which 0 read something", evidence)
        self.assertIn("load: 64 page faults (25.0 %), of which 64 read something", evidence)

    def test_without_the_option_there_are_none(self):
        self.assertFalse(self.record(str(PAGES), options=()))

    def test_the_trace_is_sound_with_and_without_samples(self):
        for options in (("--page-faults", "--cpu", "0"), ("--page-faults", "--off-cpu")):
            sums = self.record(str(PAGES), options=options)
            self.assert_new_pages_are_counted(sums)
            verdict = subprocess.run([COMMAND, "verify", self.path], capture_output=True, text=True).stdout
            self.assertRegex(verdict, "sound|lost by the kernel, whose buffer was full")


if __name__ == "__main__":
    unittest.main()
