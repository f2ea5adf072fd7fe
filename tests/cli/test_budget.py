"""What a recording says of its own cost, and what --budget leaves out. No time is asserted: a machine
may be slow, or busy with other things."""

import json
import os
import re
import time
import unittest

from command import STATIC_TARGET, TARGET, CommandTest, main

BUSY = os.environ.get("CKINETO_BUSY", "")
LOST = "left out to stay within the budget"


@unittest.skipUnless(BUSY, "the busy program is not at hand")
class Budget(CommandTest):
    def busy(self, *options, milliseconds="100", work="600"):
        done = self.run_command("record", "-o", "t.json", *options, "--", BUSY, milliseconds,
                                work)
        self.assertEqual(done.returncode, 0, done.err)
        words = done.out.decode().split()
        made = dict(zip(words[0::2], map(int, words[1::2])))
        with open(self.path("t.json"), encoding="utf-8") as file:
            trace = json.load(file)
        names = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"]
        said = json.loads(self.run_command("info", "--json", "t.json").out)
        lines = {(l["source"], l["reason"]): l for l in said["ledger"]}
        return made, names, trace["ckineto_self_cost"], lines, done

    def test_every_recording_states_its_cost(self):
        made, names, cost, lines, done = self.busy()
        self.assertEqual(names.count("brief"), made["brief"])
        self.assertEqual(cost["records"]["ranges"], made["brief"] + made["longer"] + made["phases"])
        self.assertGreaterEqual(cost["bytes"], 24 * cost["records"]["ranges"])
        for key in ("percent", "program_cpu_ns", "in_program_estimated_ns", "in_program_timed_ns",
                    "seconds", "bytes_per_second"):
            self.assertGreater(cost[key], 0, key)
        self.assertGreater(cost["unit_ns"]["range"], 0)
        self.assertEqual(cost["timed"]["attaching"]["calls"], 1)
        self.assertNotIn("budget", cost)
        line = lines["self-cost", "CPU time of recording [us]"]
        self.assertFalse(line["loss"])
        self.assertRegex(done.err, rb"overhead [\d.]+ (% of one core|\w+ of CPU time); ")
        share, own, unit = re.search(r"([0-9.]+) % of the ([0-9.]+) (us|ms|s) that the program took by itself$",
                                     line["detail"]).groups()
        own_ns = float(own) * {"us": 1e3, "ms": 1e6, "s": 1e9}[unit]
        self.assertAlmostEqual(float(share) * own_ns / 100 / 1000, line["count"],
                               delta=2 + own_ns * 1e-7)

    def test_a_busy_program_is_throttled_and_reported(self):
        made, names, cost, lines, _ = self.busy("--budget", "1%", milliseconds="400", work="150")
        self.assertEqual(names.count("phase"), made["phases"], "annotations are never left out")
        budget = cost["budget"]
        self.assertEqual(budget["percent"], 1)
        self.assertTrue(budget["levels"])
        for level in budget["levels"]:
            self.assertLessEqual(level["from_s"], level["until_s"])
        out = budget["ranges_left_out"]
        self.assertLessEqual(names.count("brief") + names.count("longer") + out,
                             made["brief"] + made["longer"])
        self.assertEqual(lines.get(("program", LOST), {"count": 0})["count"], out)
        self.assertTrue(any(s == "budget" and r.startswith("left out, ") for s, r in lines))

    def test_a_large_budget_leaves_nothing_out(self):
        made, names, cost, lines, _ = self.busy("--budget=100", "--kinds", "user_annotation")
        self.assertEqual(names.count("phase"), made["phases"])
        self.assertEqual(cost["budget"]["levels"], [])
        self.assertTrue(cost["budget"]["kept"])
        self.assertNotIn(("program", LOST), lines)

    def test_a_budget_that_is_exceeded_is_a_line_at_the_end(self):
        """With what to change; a program that took too little CPU time has nothing to compare with."""
        for options, arguments in ((("--budget=0.01",), {}), (("--budget=100",), {}), ((), {}),
                                   (("--budget=0.01",), {"milliseconds": "1"})):
            cost, done = (self.busy(*options, **arguments)[n] for n in (2, 4))
            exceeded = "budget" in cost and not cost["budget"]["kept"] and cost["percent"] is not None
            lines = [l for l in done.err.decode().splitlines() if "more than --budget" in l]
            self.assertEqual(len(lines), int(exceeded), (options, cost))
            for line in lines:
                self.assertRegex(line, r"^ckineto: recording took [0-9.]+ % of the program's CPU time, more than --budget 0.01 %; "
                                       r"most of it was .+ \([0-9.]+ (ns|us|ms|s)\): .+")

    def test_a_budget_is_a_percentage(self):
        for text in ("x", "1%%", "0", "101", "-1", "nan"):
            done = self.run_command("record", "--budget", text, "--", "true")
            self.assertEqual(done.returncode, 125, text)
            self.assertTrue(re.search(rb"--budget is a percentage", done.err), text)


class Recorder(CommandTest):
    """What the recorder itself does while there is nothing to do."""

    def waits_per_second(self, pid):
        def waits():
            with open(f"/proc/{pid}/status") as f:
                return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", f.read(), re.M)[1])
        begun, before = time.monotonic(), waits()
        time.sleep(1)
        return (waits() - before) / (time.monotonic() - begun)

    def test_what_ended_threads_left_in_their_chunks_is_counted(self):
        done = self.run_command("record", "-q", "-o", "t.json", "--", TARGET, "threads", "3", "100")
        self.assertEqual(done.returncode, 0, done.err)
        with open(self.path("t.json"), encoding="utf-8") as file:
            trace = json.load(file)
        names = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(len(names), 600)
        self.assertEqual(trace["ckineto_self_cost"]["records"]["ranges"], 600)

    def test_chunks_in_the_hands_of_threads_are_no_reason_to_hurry(self):
        process = self.start("record", "-q", "-b", "1", "-o", "t.json", "--", TARGET, "threads", "40", "20",
                             "print", "ready", "wait", "go")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        time.sleep(0.2)
        rate = self.waits_per_second(process.pid)
        with open(self.path("go"), "w"):
            pass
        process.communicate(timeout=200)
        self.assertEqual(process.returncode, 0)
        self.assertLess(rate, 1200, "some thousands are what it takes to copy as fast as it can")

    @unittest.skipUnless(STATIC_TARGET and os.path.exists(STATIC_TARGET), "no static program was built")
    def test_children_that_end_at_once_leave_a_sign(self):
        line = "CPU time of children that ended before they were examined, at most [us]"

        def said(*program):
            done = self.run_command("record", "-q", "-o", "t.json", "--", *program)
            self.assertEqual(done.returncode, 0, done.err)
            return [l["count"] for l in self.ledger() if l["reason"] == line]
        short = f"i=0; while [ $i -lt 100 ]; do '{STATIC_TARGET}' at once; i=$((i+1)); done"
        count, = said("sh", "-c", short)
        self.assertGreater(count, 1000)
        self.assertEqual(said("true"), [], "it has no children")


main()
