"""What must not change findings and tables of watched threads: threads that only wait, the order of threads; and
what watched threads must not change: findings about devices.

    CKINETO=build/bin/ckineto python3 test_threads.py"""

import copy
import json
import os
import random
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

import cases_1  # noqa: E402
import cases_2  # noqa: E402
import cases_4  # noqa: E402

OWN = set(cases_4.CASES)
PROGRAMS = [fires for rule, (fires, _) in cases_4.CASES.items() if rule != "host.not_running"]


class Threads(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "t.json")

    def analyze(self, made, *options):
        made.save(self.path)
        done = subprocess.run([COMMAND, "analyze", "--json", *options, self.path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def findings(self, made):
        """Without what names a thread or depends on the order of rows."""
        return sorted((f["id"], f.get("subject", ""), f.get("worth_us"), f["count"])
                      for f in self.analyze(made, "--findings")["findings"])

    def table(self, made, name):
        facts = self.analyze(made, "--only", name)["tables"]
        return next(t for t in facts if t["name"] == name) if isinstance(facts, list) else facts[name]

    def test_an_idle_thread_changes_no_finding(self):
        for make in PROGRAMS:
            before, made = self.findings(make()), make()
            made.state(7777, "blocked", 0, cases_4.SECOND // 2, function="poll")
            made.state(7777, "running", cases_4.SECOND // 2, 100, cpu=63)
            made.state(7777, "blocked", cases_4.SECOND // 2 + 100, cases_4.SECOND // 2 - 100, function="__GI___libc_read")
            self.assertEqual(self.findings(made), before)

    def test_the_order_of_threads_changes_nothing(self):
        for make in PROGRAMS:
            before, made = self.findings(make()), make()
            numbers = list(range(1000, 1010))
            random.Random(27).shuffle(numbers)
            for event in made.events:
                what, _, tid = str(event["tid"]).partition(" ")
                if tid:
                    event["tid"] = f"{what} {numbers[int(tid) - 1000]}"
                    if event["ph"] == "M":
                        event["args"] = {"name": f"thread {numbers[int(tid) - 1000]}: {what}"}
            random.Random(28).shuffle(made.events)
            self.assertEqual(self.findings(made), before)

    def test_states_add_up_to_the_life_of_a_thread(self):
        for make in PROGRAMS[:3]:
            made, lives = make(), {}
            for event in made.events:
                if event.get("cat") == "thread_state":
                    lives[event["tid"]] = lives.get(event["tid"], 0) + event["dur"]
            rows = self.analyze(made, "--only", "thread_states")
            text = json.dumps(rows)
            for life in lives.values():
                self.assertIn(str(life), text)

    def test_watched_threads_do_not_change_findings_about_devices(self):
        cases = {**cases_1.CASES, **cases_2.CASES}
        watched = cases_4.round_robin(4, 2)
        for rule, (fires, _) in cases.items():
            made = fires()
            if isinstance(made, list) or not made.vendor:
                continue
            before = [f for f in self.findings(copy.deepcopy(made)) if f[0] not in OWN]
            made.events += watched.events
            self.assertEqual([f for f in self.findings(made) if f[0] not in OWN], before, rule)


if __name__ == "__main__":
    unittest.main()
