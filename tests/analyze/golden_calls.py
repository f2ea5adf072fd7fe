"""The call graph, sequences, counters and stragglers as HTA counts them, compared with HTA."""

import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ.get("CKINETO_COMMAND", "")
TRACES = os.environ.get("CKINETO_TRACES", "")
GOLDEN = os.environ.get("CKINETO_GOLDEN", "")

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
if not os.path.isdir(TRACES) or not os.path.isdir(GOLDEN):
    print("no real traces next to the source: skipped")
    sys.exit(77)

csv.field_size_limit(1 << 30)
# HTA was asked for one operator of each trace; its answers begin with the name.
OPERATORS = {"critical_path_simple_add": "aten::conv2d"}
OPERATOR = "aten::linear"
ROWS = {"X", "i", "I", "R", "C", "b", "n", "B"}


def trace_of(label):
    if label == "dlrm_8rank":
        folder = os.path.join(TRACES, label)
        return os.path.join(folder, sorted(os.listdir(folder))[0])
    return os.path.join(TRACES, label + ".json.gz")


def read(path):
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def golden(label, name):
    for ending in (".csv", ".csv.gz"):
        path = os.path.join(GOLDEN, label, name + ending)
        if os.path.exists(path):
            return read(path)
    return None


def row_numbers(path):
    """Position in the list of events to number of the activity."""
    with gzip.open(path, "rt", errors="replace") as f:
        events = json.load(f, strict=False)["traceEvents"]
    numbers, count = {}, 0
    for i, event in enumerate(events):
        if event.get("ph") in ROWS:
            numbers[i] = count
            count += 1
    return numbers


def as_8_bits(n):
    """HTA keeps parents in a column of 8 bits."""
    return (n + 128) % 256 - 128


class Golden(unittest.TestCase):
    maxDiff = None

    def analyze(self, table, *arguments):
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([COMMAND, "analyze", "--definitions", "hta", "--only", table, "--csv", out, *arguments],
                           check=True, capture_output=True)
            return read(os.path.join(out, table + ".csv"))

    def labels(self, name):
        found = [label for label in sorted(os.listdir(GOLDEN)) if golden(label, name) is not None]
        self.assertTrue(found, f"no golden {name}")
        return found

    def differing(self, label):
        path = trace_of(label)
        numbers = row_numbers(path)
        positions = {number: i for i, number in numbers.items()}
        positions[-1] = 0
        ours = {int(row["index"]): row for row in self.analyze("call_graph", path)}
        seen, wrong = 0, []
        for row in golden(label, "call_graph"):
            mine = ours.get(numbers[int(row["index"])])
            if row["depth"] == "-1":  # not in HTA's graph
                self.assertIsNone(mine, row)
                continue
            self.assertIsNotNone(mine, row)
            seen += 1
            wanted = [int(row["depth"]), int(row["height"]), int(row["num_kernels"]), float(row["kernel_dur_sum"])]
            got = [int(mine["depth"]), int(mine["height"]), int(mine["kernels"]), float(mine["kernel_us"])]
            if row["depth"] != "0":  # the outermost ones have the number of the thread there
                wanted.append(int(row["parent"]))
                got.append(as_8_bits(positions[int(mine["parent"])]))
            if wanted != got:
                wrong.append((row["index"], row["name"], wanted, got))
        self.assertEqual(seen, len(ours))
        return wrong

    def test_call_graphs_are_those_of_hta(self):
        for label in self.labels("call_graph"):
            with self.subTest(label):
                wrong = self.differing(label)
                self.assertEqual(len(wrong), 0, wrong[:5])

    def test_sequences_are_those_of_hta(self):
        for label in self.labels("frequent_cuda_kernel_sequences"):
            operator = OPERATORS.get(label, OPERATOR)
            with self.subTest(label):
                wanted = [(row["pattern"], int(row["count"]), float(row["GPU kernel duration (us)"]),
                           float(row["CPU op duration (us)"]))
                          for row in golden(label, "frequent_cuda_kernel_sequences")]
                got = [(row["pattern"], int(row["count"]), float(row["gpu_us"]), float(row["cpu_us"]))
                       for row in self.analyze("sequences", trace_of(label), "--operator", operator)]
                self.assertEqual(got, wanted)

    def test_counters_are_those_of_hta(self):
        label = "cupti_profiler"
        ours = {}
        for row in self.analyze("counters", trace_of(label)):
            key = (row["name"], row["top_op"], row["op"], row["counter"])
            ours.setdefault(key, []).append(float(row["value"]))
        theirs = {}
        for row in golden(label, "cupti_counters_with_operators.0"):
            for counter, value in row.items():
                if counter.startswith("smsp__"):
                    key = (row["name"], row["top_level_op"], row["bottom_level_op"], counter)
                    theirs.setdefault(key, []).append(float(value))
        self.assertEqual(ours, theirs)

    def test_stragglers_are_those_of_hta(self):
        with open(os.path.join(GOLDEN, "dlrm_8rank", "potential_stragglers.json"), encoding="utf-8") as f:
            wanted = json.load(f)
        got = self.analyze("stragglers", os.path.join(TRACES, "dlrm_8rank"))
        self.assertEqual(sorted(int(row["rank"]) for row in got), sorted(wanted))


if __name__ == "__main__":
    unittest.main(verbosity=2)
