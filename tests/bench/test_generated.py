"""Made-up traces are what they claim to be, for Python's json and for the command alike.

gen_trace feeds the benchmarks of reading; a trace of it must have the events that were asked for,
nest, launch before it runs, and be the same on every run."""

import collections
import decimal
import json
import os
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ.get("CKINETO", "")
GENERATOR = os.environ.get("GEN_TRACE", "")
BENCH_READ = os.environ.get("BENCH_READ", "")
LAYOUTS = ("torch1.8", "torch1.13", "torch2")
EVENTS = 20000

# How the eras spell what `ckineto info` calls …
KINDS = {"Operator": "cpu_op", "Runtime": "runtime", "cuda_runtime": "runtime", "Kernel": "kernel",
         "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
ARROWS = {"async": "ac2g"}
COUNTED = ("cpu_op", "runtime", "kernel", "gpu_memcpy", "gpu_memset", "memory", "python_function",
           "user_annotation", "gpu_user_annotation", "cuda_sync")
CALLS = ("Runtime", "cuda_runtime")
WORK = ("Kernel", "kernel", "Memcpy", "gpu_memcpy", "Memset", "gpu_memset")

if not (COMMAND and GENERATOR and BENCH_READ):
    print("run by ctest, which says where the programs are: skipped")
    sys.exit(77)


def generate(path, layout, events=EVENTS, seed=1):
    subprocess.run([GENERATOR, "--events", str(events), "--layout", layout, "--seed", str(seed), "--out", path],
                   check=True, stderr=subprocess.DEVNULL)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_float=decimal.Decimal)["traceEvents"]


def kind(event):
    if event["name"] == "[memory]":
        return "memory"
    category = event.get("cat", "")
    return KINDS.get(category, category)


def arrows(events):
    """Per type: arrows, and those with one end only."""
    ends = collections.defaultdict(lambda: (set(), set()))
    for event in events:
        if event["ph"] in "sf":
            ends[ARROWS.get(event["cat"], event["cat"])][event["ph"] == "f"].add(event["id"])
    return ({name: len(start | end) for name, (start, end) in ends.items()},
            sum(len(start ^ end) for start, end in ends.values()))


def partial_overlaps(events):
    """Slices that neither nest nor are disjoint, per row."""
    rows, found = collections.defaultdict(list), 0
    for event in events:
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
    for slices in rows.values():
        open_ends = []
        for start, duration in sorted(slices):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            found += bool(open_ends) and start - duration > open_ends[-1]
            open_ends.append(start - duration)
    return found


class GeneratedTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="ckineto-generated-")
        cls.traces = {}
        for layout in LAYOUTS:
            path = os.path.join(cls.directory.name, layout + ".json")
            generate(path, layout)
            cls.traces[layout] = (path, load(path))

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def test_has_exactly_the_events_asked_for(self):
        for layout, (_, events) in self.traces.items():
            self.assertEqual(len(events), EVENTS, layout)

    def test_slices_nest_on_every_row(self):
        for layout, (_, events) in self.traces.items():
            self.assertEqual(partial_overlaps(events), 0, layout)

    def test_work_starts_after_the_call_with_its_correlation(self):
        for layout, (_, events) in self.traces.items():
            calls = {e["args"]["correlation"]: e for e in events if e.get("cat") in CALLS}
            work = [e for e in events if e.get("cat") in WORK]
            self.assertGreater(len(work), EVENTS // 20, layout)
            for event in work:
                self.assertLessEqual(calls[event["args"]["correlation"]]["ts"], event["ts"], layout)

    def test_same_options_same_bytes_and_another_seed_others(self):
        paths = [os.path.join(self.directory.name, name) for name in ("a", "b", "c")]
        for path, seed in zip(paths, (7, 7, 8)):
            generate(path, "torch2", 1000, seed)
        a, b, c = map(read, paths)
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)

    def test_command_counts_what_python_counts(self):
        for layout, (path, events) in self.traces.items():
            info = json.loads(subprocess.run([COMMAND, "info", "--json", path], check=True,
                                             stdout=subprocess.PIPE).stdout)
            # The end of the window is not an activity.
            activities = [e for e in events if e["ph"] in "Xi" and e["name"] != "Record Window End"]
            counts = collections.Counter(kind(e) for e in activities)
            flows, dangling = arrows(events)
            steps = {e["name"] for e in events if e["name"].startswith("ProfilerStep#")}
            expected = {"activities": len(activities), "flows": flows, "dangling_flows": dangling,
                        "steps": len(steps), "lost": 0, "kinds": {name: counts[name] for name in COUNTED}}
            found = {key: info[key] for key in expected}
            found["kinds"] = {name: info["kinds"].get(name, 0) for name in COUNTED}
            self.assertEqual(found, expected, layout)

    def test_benchmark_reports_our_reader(self):
        path, _ = self.traces["torch1.13"]
        out = subprocess.run([BENCH_READ, "--json", "--runs", "1", "--cpus", "1", path], check=True,
                             stdout=subprocess.PIPE).stdout
        lines = {line["name"]: line for line in map(json.loads, out.splitlines())}
        for name in ("open", "derived"):
            line = lines[f"read_{name}_torch1.13.json_1cpu"]
            self.assertEqual(line["events"], EVENTS)
            self.assertEqual(line["text_bytes"], os.path.getsize(path))
            self.assertGreater(line["value"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
