"""What a recording says of its own cost, and what --budget leaves out. No time is asserted: a machine
may be slow, or busy with other things."""

import json
import os
import re
import unittest

from command import CommandTest, main

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
        self.assertRegex(line["detail"], r"estimated: \d+ records .* timed: ")
        self.assertIn(b"self-cost: CPU time of recording", done.err)

    def test_a_busy_program_is_thinned_out_and_told_so(self):
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
        made, names, cost, lines, _ = self.busy("--budget=100", "--activities", "user_annotation")
        self.assertEqual(names.count("phase"), made["phases"])
        self.assertEqual(cost["budget"]["levels"], [])
        self.assertTrue(cost["budget"]["kept"])
        self.assertNotIn(("program", LOST), lines)

    def test_a_budget_is_a_percentage(self):
        for text in ("x", "1%%", "0", "101", "-1", "nan"):
            done = self.run_command("record", "--budget", text, "--", "true")
            self.assertEqual(done.returncode, 125, text)
            self.assertTrue(re.search(rb"--budget is a percentage", done.err), text)


main()
