"""Names that threads have in the system are those of their rows: short-lived threads, renamed ones, those of
forks, those that exit() ends; what only bears its process' name has none."""
import json
import os
import re
import subprocess
import tempfile
import unittest

COMMAND = os.environ["CKINETO"]
PROGRAM = os.environ["PROGRAM"]


def rows(path):
    """[(name of the range, name in its row's label or "")]"""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    labels = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
              if e.get("ph") == "M" and e["name"] == "thread_name"}
    found = []
    for e in events:
        if e.get("cat") == "user_annotation":
            label = re.fullmatch(r"thread \d+(?: \((.*)\))?", labels[e["pid"], e["tid"]])
            found.append((e["name"], label.group(1) or ""))
    return found


class ThreadNames(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "t.json")

    def record(self, *arguments, status=0):
        done = subprocess.run([COMMAND, "record", "-q", "-o", self.out, "--", PROGRAM, *arguments],
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, status, done.stderr)
        return rows(self.out)

    def check(self, found, expected):
        self.assertEqual(sorted(n for n, _ in found), sorted(expected))
        for name, label in found:
            self.assertEqual(label, "" if name == "nothing" else name, found)

    ALL = ["short", "renamed", "given", "nothing", "first_thread", "nothing", "goes_on"]

    def test_of_a_recorded_program(self):
        self.check(self.record("exit"), [*self.ALL, "child_first", "child_worker", "quick_worker"])

    def test_of_a_program_that_records_itself(self):
        subprocess.run([PROGRAM, "self", self.out], check=True)
        self.check(rows(self.out), self.ALL)

    def test_of_a_killed_program_as_the_recorder_saw_them(self):
        for ms in (200, 800, 3200, 12800):  # until it has looked
            found = self.record("kill", str(ms), status=128 + 9)
            if found == [("goes_on", "goes_on")]:
                return
        self.fail(found)


unittest.main()
