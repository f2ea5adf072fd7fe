"""Critical paths with exact definitions, checked by a slow program that reads the trace itself: what an
edge may be, that moments come when they came, that the path is the longest way, and what-if.

usage: exact_critical.py CKINETO TRACES DATA
  TRACES  folder with real traces, may be absent; DATA  the project's own
"""
import csv
import decimal
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict

from sample import choose_traces

CKINETO, TRACES, DATA = sys.argv[1:4]
NAMES = ("amd_mi250", "cpu_only", "critical_path_simple_add", "cuda_event_sync_multi_stream",
         "nccl_data", "negative_queue_a100", "resnet50_num_workers_0", "trace_diff_test",
         "triton_example", "mtia_inference")
OWN = {name + ".json.gz" for name in ("training", "steps-1", "threads", "nested",
                                      "gloo-rank0")}
WORK = {"kernel", "gpu_memcpy", "gpu_memset"}
COPIES = {"gpu_memcpy", "gpu_memset", "memcpy", "memset"}
WITHIN_NS = 2  # of times that a file gives with more digits

faults = []


def check(good, label, words):
    if not good:
        faults.append(f"{label}: {words}")
        print("FAULT", faults[-1], flush=True)
    return good


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data.decode(errors="surrogateescape"), strict=False,
                      parse_float=decimal.Decimal)["traceEvents"]


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def ns(text):
    return int(decimal.Decimal(text) * 1000)


class Graph:
    """The edges that ckineto says, and the moments that the trace says."""

    def __init__(self, events, edges, summary):
        self.rows = [e for e in events if e.get("ph") not in ("M", "s", "t", "f")]
        self.edges = [(int(e["src"]), int(e["dst"]), ns(e["us"]), e["type"], e["on_path"] == "1")
                      for e in edges]
        self.summary = summary
        # Besides kernels and copies, what accelerators of other vendors did.
        self.work = {e[0] // 2 for e in self.edges if e[3] == "work"}
        self.incoming = defaultdict(list)
        for edge in self.edges:
            self.incoming[edge[1]].append(edge)
        self.order = list(self.incoming)  # edges come by `dst`, sources before them
        times = {m: self.recorded(m) for m in self.order}
        first = min(times.values())
        started = [m for m in self.order if self.incoming[m][0][0] == -1]
        # The window begins with the first moment that is looked at.
        start = min((times[m] - max(e[2] for e in self.incoming[m] if e[0] == -1)
                     for m in started), default=first)
        self.times = {m: t - start for m, t in times.items()}
        self.times[-1] = 0

    def recorded(self, moment):
        event = self.rows[moment // 2]
        at = decimal.Decimal(event["ts"])
        # Some old traces have ranges that end before they begin.
        duration = max(decimal.Decimal(event["dur"]), 0)
        return int((at + duration if moment % 2 else at) * 1000)

    def is_work(self, moment):
        return moment >= 0 and moment // 2 in self.work

    def forward(self, weight):
        """When moments come, with other weights."""
        times = {-1: 0}
        for moment in self.order:
            times[moment] = max(times[e[0]] + weight(e) for e in self.incoming[moment])
        return times


def check_edges(label, g):
    for src, dst, weight, kind, _ in g.edges:
        length = g.times[dst] - g.times[src]
        if not check(-WITHIN_NS <= length and 0 <= weight <= length + WITHIN_NS, label,
                     f"an edge {kind} {src}->{dst} of {weight} ns between moments {length} apart"):
            return
    late = [m for m in g.order
            if max(g.times[e[0]] + e[2] for e in g.incoming[m]) < g.times[m] - WITHIN_NS]
    check(not late, label, f"{len(late)} moments come later than their edges ask, {late[:3]}")


def check_path(label, g):
    path = [e for e in g.edges if e[4]]
    check(path[0][0] == -1 and all(a[1] == b[0] for a, b in zip(path, path[1:])), label,
          "the path is not one chain")
    length = max(g.times.values())
    total = sum(e[2] for e in path)
    check(abs(total - length) <= WITHIN_NS, label, f"the path has {total} ns of {length}")
    longest = max(g.forward(lambda e: e[2]).values())
    check(longest == total, label, f"there is a longer way: {longest} ns, the path has {total}")
    check(sum(ns(row["us"]) for row in g.summary) == total, label, "classes are not the path")


def check_what_is_there(label, g):
    """Each work has its own edge and the one from its launch, each host moment that of its thread."""
    kinds = defaultdict(set)
    for src, dst, _, kind, _ in g.edges:
        kinds[dst].add((kind, src))
    launches = defaultdict(set)
    for moment in g.order:
        event = g.rows[moment // 2]
        correlation = event.get("args", {}).get("correlation")
        if moment % 2 == 0 and not g.is_work(moment) and correlation:
            launches[correlation].add(moment)
    for moment in g.order:
        have = kinds[moment]
        if g.is_work(moment) and moment % 2:
            check(("work", moment - 1) in have, label, f"work {moment // 2} has no time")
        elif g.rows[moment // 2].get("cat") in WORK and not g.is_work(moment):
            check(False, label, f"work {moment // 2} is taken for a range of the host")
        elif g.is_work(moment):
            calls = launches[g.rows[moment // 2]["args"].get("correlation")]
            late = all(g.times[c] > g.times[moment] for c in calls)
            check(late or ("launch", max(calls)) in have or
                  any(("launch", c) in have for c in calls), label,
                  f"work {moment // 2} has no edge from its launch")
        else:
            check(any(kind in ("host", "start") for kind, _ in have), label,
                  f"moment {moment} has no edge from its thread")


def check_what_if(label, g, path):
    def weight(edge):
        src, dst, time, kind, _ = edge
        event = g.rows[src // 2] if src >= 0 else {}
        own = g.is_work(src) and src % 2 == 0 and event["cat"].lower() not in COPIES
        return (time + 1) // 2 if own else time

    text = subprocess.run([CKINETO, "analyze", path, "--what-if", "kernel:=0.5"], check=True,
                          stdout=subprocess.PIPE, encoding="utf-8", timeout=240).stdout
    found = re.search(r": ([0-9.]+) ms -> ([0-9.]+) ms", text)
    said = round(float(found[2]) * 1e6)
    truth = max(g.forward(weight).values())
    check(abs(said - truth) <= 2, label, f"what-if says {said} ns, {truth} is right")


def check_trace(path):
    label = os.path.basename(path)
    before = len(faults)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([CKINETO, "analyze", path, "--only",
                        "critical_path_edges,critical_path_summary", "--csv", folder], check=True,
                       stdout=subprocess.DEVNULL, timeout=240)
        edges = rows_of(os.path.join(folder, "critical_path_edges.csv"))
        summary = rows_of(os.path.join(folder, "critical_path_summary.csv"))
    if not edges:
        print(label, "has no path")
        return
    g = Graph(load(path), edges, summary)
    check_edges(label, g)
    check_path(label, g)
    check_what_is_there(label, g)
    check_what_if(label, g, path)
    print(label, len(edges), "edges", "fine" if len(faults) == before else "", flush=True)


def main():
    paths = [os.path.join(TRACES, name + ".json.gz") for name in NAMES]
    there = [path for path in paths if os.path.exists(path)]
    if not there:
        print("no real traces in", TRACES)
    own = sorted(os.path.join(folder, name) for folder, _, names in os.walk(DATA)
                 for name in names if name in OWN)
    for path in choose_traces(there, __file__) + own:
        check_trace(path)
    return 1 if faults else 0


sys.exit(main())
