"""`ckineto bench`: a command many times, two in turn, their times, gates, and commands that fail."""

import glob
import json
import os
import re
import unittest

from command import CommandTest, main

SPIN = "i=0; while [ $i -lt %d ]; do i=$((i+1)); done"


class Bench(CommandTest):
    def bench(self, *arguments, status=0):
        done = self.run_command("bench", *arguments, cwd=self.directory)
        self.assertEqual(done.returncode, status, (done.out, done.err))
        return done

    def traces(self, directory="ckineto-bench"):
        return sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.directory, directory, "*.json.gz")))

    def test_one_command(self):
        out = self.bench("-n", "3", "-w", "1", "-o", "d", "--", "sh", "-c", "echo x >> ran").out.decode()
        self.assertRegex(out, r"(?m)^mean \S+ \S+ ± \S+ \S+, min \S+ \S+, max \S+ \S+, 3 runs: echo x >> ran$")
        self.assertIn("overhead of recording: ", out)
        self.assertEqual(self.traces("d"), ["run-01.json.gz", "run-02.json.gz", "run-03.json.gz"])
        with open(self.path("ran"), encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 4, "three runs and the warm-up")

    def test_two_commands_take_turns(self):
        self.bench("-n", "3", "-w", "0", "--ab", "echo A >> ran", "echo B >> ran")
        with open(self.path("ran"), encoding="utf-8") as file:
            self.assertEqual(file.read().split(), list("ABBAAB"))
        self.assertEqual(len(self.traces()), 6)
        self.bench("-n", "2", "-w", "0", "--", "true")
        self.assertEqual(self.traces(), ["run-01.json.gz", "run-02.json.gz"], "an earlier benchmark is replaced")

    def test_a_much_slower_command_fails_its_gate(self):
        done = self.bench("-n", "5", "-w", "0", "--ab", SPIN % 10, "sleep 0.5", "--gate", "step>20%",
                          "--gate", "step<1%", status=1)
        out = done.out.decode()
        found = re.search(r"(?m)^B is ([0-9.]+) ± [0-9.]+ times slower than A$", out)
        self.assertTrue(found and float(found[1]) > 1.5, out)
        self.assertIn("failed      step>20%", out)
        self.assertIn("passed      step<1%", out)
        self.assertIn("Changes, largest effect first", out)

    def test_outputs_for_programs(self):
        self.bench("-n", "2", "-w", "0", "--ab", "true", "true", "--json=out.json")
        with open(self.path("out.json"), encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual(len(found["before"]["runs"]), 2)
        comment = self.bench("-n", "2", "-w", "0", "--ab", "true", "true", "--markdown", "-").out.decode()
        self.assertIn("<details>", comment)

    def test_commands_that_fail_are_named_with_their_status(self):
        for command, text in (("exit 3", "status 3"), ("kill -9 $$", "137")):
            done = self.bench("-n", "2", "-w", "0", "--", "sh", "-c", "echo seen; " + command, status=2)
            self.assertIn(text, done.err.decode())
            self.assertIn("run 1 ", done.err.decode())
            with open(self.path("ckineto-bench/output.txt"), encoding="utf-8") as file:
                self.assertIn("seen", file.read())
        done = self.bench("-n", "2", "--ab", "true", "exit 4", status=2)
        self.assertIn("warm-up run 1 of B ended with status 4", done.err.decode())
        self.bench("-n", "2", "-w", "0", "-i", "--", "sh", "-c", "exit 3")
        self.bench("-n", "2", "-w", "0", "--", "/nonexistent", status=2)
        self.bench("-n", "2", "-w", "0", "-i", "--record=--nonsense", "--", "true", status=2)

    def test_mistakes_on_the_command_line(self):
        for arguments in ([], ["--ab", "one"], ["-n", "1", "--", "true"], ["-n", "33", "--", "true"],
                          ["--gate", "step>1%", "--", "true"]):
            self.assertIn(b"--help", self.bench(*arguments, status=2).err)
        self.bench("-n", "2", "-w", "0", "--gate", "nonsense", "--ab", "true", "true", status=2)


if __name__ == "__main__":
    main()
