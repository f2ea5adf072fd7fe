"""Calls, sequences, counters, stragglers, execution traces and memory over time as docs/reference/analyze.md
defines them, computed anew and slowly, compared with the results of the command for real traces."""

import collections
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

from sample import choose_traces

COMMAND = os.environ.get("CKINETO_COMMAND", "")
TRACES = os.environ.get("CKINETO_TRACES", "")

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)
if not os.path.isdir(TRACES):
    print("no real traces next to the source: skipped")
    sys.exit(77)

csv.field_size_limit(1 << 30)
HOST = {"cpu_op", "operator", "user_annotation", "cuda_runtime", "runtime", "cuda_driver", "python_function",
        "overhead", "mtia_runtime", "mtia_insight"}
CALLS = {"cuda_runtime", "runtime", "cuda_driver", "mtia_runtime"}
WORK = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "mtia_ccp_events"}
ROWS = {"X", "i", "I", "R", "C", "b", "n", "B"}
Event = collections.namedtuple("Event", "row name cat start end thread args")
# What the tests look at; some have kinds of their own, or ids that several calls share.
NAMES = ["amd_mi250", "cpu_only", "critical_path_simple_add", "cuda_event_sync_multi_stream", "cupti_profiler",
         "execution_trace_simple_add", "mtia_inference", "nccl_data", "negative_queue_a100", "trace_diff_control", "trace_diff_test",
         "resnet50_num_workers_0", "triton_example"]


def path_of(name):
    return os.path.join(TRACES, name + ".json.gz")


def ns(text):
    return int((Decimal(str(text)) * 1000).to_integral_value())


def load(path):
    with gzip.open(path, "rt", errors="replace") as f:
        events = json.load(f, strict=False, parse_float=Decimal)["traceEvents"]
    out, row = [], 0
    for e in events:
        if e.get("ph") not in ROWS:
            continue
        if e["ph"] == "X":
            start = ns(e["ts"])
            end = ns(Decimal(str(e["ts"])) + Decimal(str(e.get("dur", 0))))
            out.append(Event(row, e["name"], str(e.get("cat", "")).lower(), start, end, (e.get("pid"), e.get("tid")),
                             e.get("args", {})))
        row += 1
    return out


def correlation(e):
    try:
        return int(e.args.get("correlation", 0))
    except (TypeError, ValueError):
        return 0


def us(n):
    return Decimal(n) / 1000


class Calls:
    """Nesting by looking at each range's thread, and launches by their ids."""

    def __init__(self, events):
        self.parent, self.crossing = {}, set()
        self.host = {e.row: e for e in events if e.cat in HOST}
        threads = collections.defaultdict(list)
        for e in self.host.values():
            threads[e.thread].append(e)
        for thread, ranges in threads.items():
            self.nest(thread, ranges)
        calls = collections.defaultdict(list)
        for e in self.host.values():
            if e.cat in CALLS and correlation(e):
                calls[correlation(e)].append(e)
        self.work = [e for e in events if e.cat in WORK]
        self.launch = {e.row: calls[correlation(e)][0].row for e in self.work if calls.get(correlation(e))}
        self.shared = {id for id, found in calls.items() if len(found) > 1}
        self.below = collections.defaultdict(list)
        for e in self.work:
            row = self.launch.get(e.row)
            while row is not None:
                self.below[row].append(e)
                row = self.parent[row]

    def nest(self, thread, ranges):
        ranges.sort(key=lambda e: (e.start, -e.end, e.row))
        open_ones = []
        for e in ranges:
            while open_ones and open_ones[-1].end <= e.start:
                open_ones.pop()
            if open_ones and open_ones[-1].end < e.end:
                self.crossing.add(thread)
            self.parent[e.row] = open_ones[-1].row if open_ones else None
            open_ones.append(e)

    def depth(self, row):
        depth = 0
        while self.parent[row] is not None:
            row, depth = self.parent[row], depth + 1
        return depth


class Exact(unittest.TestCase):
    maxDiff = None

    def analyze(self, table, *arguments):
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([COMMAND, "analyze", "--only", table, "--csv", out, *arguments], check=True,
                           capture_output=True)
            with open(os.path.join(out, table + ".csv"), newline="", encoding="utf-8") as f:
                return list(csv.DictReader(f))

    def test_call_graphs_nest_as_threads_do(self):
        for path in choose_traces([path_of(name) for name in NAMES], __file__):
            name = os.path.basename(path)[:-len(".json.gz")]
            with self.subTest(name):
                self.check_graph(name)

    def check_graph(self, name):
        events = load(path_of(name))
        calls = Calls(events)
        heights = collections.defaultdict(int)
        for row in sorted(calls.host, key=calls.depth, reverse=True):
            heights[row] += 1
            if calls.parent[row] is not None:
                parent = calls.parent[row]
                heights[parent] = max(heights[parent], heights[row])
        seen = skipped = 0
        for line in self.analyze("call_graph", path_of(name)):
            row = int(line["index"])
            e = calls.host.get(row)
            if e is None:
                self.assertIn(row, calls.launch, line)
                continue
            seen += 1
            if e.thread in calls.crossing:
                skipped += 1
                continue
            wanted = (-1 if calls.parent[row] is None else calls.parent[row], calls.depth(row), heights[row],
                      len(calls.below[row]), us(sum(w.end - w.start for w in calls.below[row])))
            got = (int(line["parent"]), int(line["depth"]), int(line["height"]), int(line["kernels"]),
                   Decimal(line["kernel_us"]))
            self.assertEqual(got, wanted, (name, e))
        print(f"call_graph {name}: {seen} ranges, {skipped} on threads whose ranges cross")
        self.assertEqual(seen, len(calls.host))
        self.assertLess(skipped, max(1, seen))

    def test_sequences_are_those_of_the_outermost_ranges(self):
        for name, operator in (("critical_path_simple_add", "aten::conv2d"), ("trace_diff_test", "aten::linear"),
                               ("trace_diff_control", None), ("nccl_data", None)):
            if choose_traces([path_of(name)], "sequences"):
                with self.subTest(name):
                    self.check_sequences(name, operator)

    def check_sequences(self, name, operator):
        calls = Calls(load(path_of(name)))

        def asked(e):
            return operator in e.name if operator else e.cat in ("cpu_op", "operator")

        found = collections.defaultdict(lambda: [0, 0, 0])
        for row, e in calls.host.items():
            above = calls.parent[row]
            while above is not None and not asked(calls.host[above]):
                above = calls.parent[above]
            kernels = sorted(calls.below[row], key=lambda w: (w.start, w.row))
            if not asked(e) or above is not None or len(kernels) < 3:
                continue
            entry = found["|".join([e.name] + [w.name for w in kernels])]
            entry[0] += 1
            entry[1] += sum(w.end - w.start for w in kernels)
            entry[2] += e.end - e.start
        wanted = sorted(((us(v[1]), v[0], us(v[2])) for k, v in found.items()), reverse=True)[:20]
        options = ["--operator", operator] if operator else []
        lines = self.analyze("sequences", "--top", "20", *options, path_of(name))
        got = sorted(((Decimal(r["gpu_us"]), int(r["count"]), Decimal(r["cpu_us"])) for r in lines), reverse=True)
        self.assertEqual(got, wanted)
        for line in lines:
            if "… " not in line["pattern"]:
                self.assertIn(line["pattern"], found)

    def test_counters_are_of_the_operator_that_launched(self):
        events = load(path_of("cupti_profiler"))
        calls = Calls(events)
        ranges = sorted((e for e in events if e.cat == "cuda_profiler_range"), key=lambda e: (e.start, e.row))
        launches = sorted((e for e in events if e.name == "cudaLaunchKernel"), key=lambda e: (e.start, e.row))
        self.assertEqual(len(ranges), len(launches))
        wanted = []
        for e, launch in zip(ranges, launches):
            ops, row = [], launch.row
            while row is not None:
                if calls.host[row].cat == "cpu_op":
                    ops.append(calls.host[row].name)
                row = calls.parent[row]
            for key, value in sorted(e.args.items()):
                times = 2 if "fma" in key else 1
                wanted.append((e.name, ops[0], ops[-1], key, float(value), float(value) * times))
        got = [(r["name"], r["op"], r["top_op"], r["counter"], float(r["value"]), float(r["flops"]))
               for r in self.analyze("counters", path_of("cupti_profiler"))]
        self.assertEqual(got, wanted)

    def test_stragglers_are_the_ranks_of_causes(self):
        folder = os.path.join(TRACES, "dlrm_8rank")
        causes = [r["rank"] for r in self.analyze("rank_causes", folder) if r["rank"]]
        self.assertEqual([r["rank"] for r in self.analyze("stragglers", folder)], causes)

    def test_execution_traces_are_joined_by_record_function(self):
        name = "execution_trace_simple_add"
        with gzip.open(os.path.join(TRACES, name + ".et.json.gz"), "rt") as f:
            nodes = {n["rf_id"]: n for n in json.load(f)["nodes"] if n["rf_id"]}
        calls = Calls(load(path_of(name)))
        lines = self.analyze("execution_trace", "--execution-trace", os.path.join(TRACES, name + ".et.json.gz"),
                             path_of(name))
        wanted = sum(e.args.get("External id") in nodes and e.cat in ("cpu_op", "user_annotation")
                     for e in calls.host.values())
        self.assertEqual(len(lines), wanted)
        for line in lines:
            row = int(line["row"])
            node = nodes[calls.host[row].args["External id"]]
            self.assertEqual(line["name"], node["name"])
            self.assertEqual((int(line["node"]), int(line["parent"]), line["op_schema"]),
                             (node["id"], node["parent"], node["op_schema"]))
            for key in ("inputs", "input_shapes", "input_types", "outputs", "output_shapes", "output_types"):
                self.assertEqual(json.loads(line[key]), node[key])
            self.assertEqual(int(line["kernels"]), len(calls.below[row]))

    def test_memory_is_summed_by_category(self):
        path = os.path.join(TRACES, "memory_timeline.raw.gz")
        names = ["parameter", "optimizer_state", "input", "temporary", "activation", "gradient", "autograd_detail",
                 "unknown"]
        with gzip.open(path, "rt") as f:
            changes = json.load(f)
        first = min(c[0] for c in changes if c[0] >= 0)
        now, wanted = collections.Counter(), {}
        for at, _, size, category in sorted(changes, key=lambda c: first if c[0] < 0 else c[0]):
            now[category] += size
            wanted[first if at < 0 else at, names[category]] = now[category]
        got = {(ns(r["ts_us"]), r["category"]): int(r["bytes"])
               for r in self.analyze("memory_timeline", "--memory-timeline", path)}
        self.assertEqual(got, wanted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
