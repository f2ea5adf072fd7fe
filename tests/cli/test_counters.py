"""What `ckineto info` says of counters and of kinds that plug-ins announced."""

import json
import os

from command import CommandTest, main

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "ts": 0, "args": {"name": "train"}},
    {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
    {"ph": "X", "cat": "sim_dma", "name": "gather", "pid": 0, "tid": 7, "ts": 1, "dur": 2},
    # written out of order: the last sample is the latest
    {"ph": "C", "name": "board", "pid": 0, "ts": 3, "args": {"power [W]": 300, "fan [%]": 20.5}},
    {"ph": "C", "name": "board", "pid": 0, "ts": 2, "args": {"power [W]": 100}},
    {"ph": "C", "name": "memory", "pid": 5, "ts": 1, "args": {"used [MiB]": 7, "note": "text"}},
    {"ph": "C", "name": "sm__busy", "pid": "GPU 0 Counters", "ts": 1, "args": {"": 0.5}},
    {"ph": "C", "name": "odd", "pid": 5, "ts": 1,
     "args": {"nan": "nan", "[]": 1, "x []": 2, "a]": 3}},
]


class Counters(CommandTest):
    def trace(self, events):
        path = os.path.join(self.directory, "trace.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "ckineto": {"kinds": {"sim_dma": "gpu_memcpy"}}}, file)
        return path

    def test_every_series_is_listed_with_its_numbers(self):
        done = self.run_command("info", "--json", self.trace(EVENTS))
        self.assertEqual(done.returncode, 0)
        counters = {(c["name"], c["series"]): c for c in json.loads(done.out)["counters"]}
        power = counters["board", "power"]
        self.assertEqual((power["device"], power["pid"], power["unit"]), (True, 0, "W"))
        self.assertEqual([power[k] for k in ("samples", "min", "mean", "max", "last")],
                         [2, 100, 200, 300, 300])
        self.assertEqual(counters["board", "fan"]["samples"], 1)
        memory = counters["memory", "used"]
        self.assertEqual((memory["process"], memory["device"], memory["last"]), ("train", False, 7))
        self.assertNotIn(("memory", "note"), counters)
        self.assertEqual(counters["sm__busy", ""]["process"], "GPU 0 Counters")
        self.assertEqual(counters["odd", "nan"]["last"], "nan")
        self.assertNotIn("min", counters["odd", "nan"])
        for series in ("[]", "x []", "a]"):
            self.assertEqual(counters["odd", series]["unit"], "")

    def test_the_table_shows_units_and_owners(self):
        done = self.run_command("info", self.trace(EVENTS))
        text = done.out.decode()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(text, r"counters of process 5 train\n")
        self.assertRegex(text, r"board +power +W +2 +100 +200 +300 +300\n")
        self.assertRegex(text, r"board +fan +% +1 +20.5 +20.5 +20.5 +20.5\n")

    def test_a_trace_without_counters_says_nothing_of_them(self):
        path = self.trace([e for e in EVENTS if e["ph"] != "C"])
        self.assertNotIn(b"counters", self.run_command("info", path).out)
        self.assertEqual(json.loads(self.run_command("info", "--json", path).out)["counters"], [])

    def test_kinds_of_plugins_have_their_meaning_and_their_name(self):
        path = self.trace(EVENTS)
        self.assertIn(b"other categories: sim_dma 1;", self.run_command("info", path).out)
        said = json.loads(self.run_command("info", "--json", path).out)
        self.assertEqual(said["other_categories"], [{"name": "sim_dma", "count": 1}])
        self.assertEqual(said["kinds"]["gpu_memcpy"], 1)


main()
