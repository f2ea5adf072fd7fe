#!/usr/bin/env python3
"""Holds the trace of tests/gpu/matrix.cu against what the program itself knows.

compare.py TRACE TRUTH: each kernel once, the copies with their bytes, and durations within
2 us or 3 % of what CUDA events measured. compare.py --counters TRACE ROW: there are samples of that row.
compare.py --work TRACE: there are kernels. compare.py --kernels TRACE NAME NUMBER: kernels whose name contains
NAME, each with its call. Prints a table, ends with 1 if something differs."""

import collections
import json
import sys

import chrome

CALLS = ("cuda_runtime", "cuda_driver")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def truth_of(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.startswith("{")]


class Comparison:
    def __init__(self):
        self.faults = 0

    def line(self, what, asked, found, fine):
        self.faults += not fine
        print("%-44s %14s %14s %s" % (what, asked, found, "" if fine else "DIFFERS"))

    def counts(self, truth, rows, what, category):
        wanted = collections.Counter()
        for piece in truth:
            if piece["what"] in what:
                wanted[piece["name"]] += piece["count"]
        found = collections.Counter()
        for row in rows:
            if row["category"] == category:
                name = row["name"].split("(")[0] if category == "kernel" else row["name"]
                found[name] += 1
        if not wanted:
            self.line("%s, number" % category, "some", 0, False)
        for name in sorted(wanted | found):
            self.line("%s, number" % name, wanted[name], found[name], wanted[name] == found[name])

    def sizes(self, truth, rows):
        """Copies and memsets: how often each number of bytes."""
        wanted, found = collections.Counter(), collections.Counter()
        for piece in truth:
            if piece["what"] in ("memcpy", "memset"):
                wanted[piece["name"], piece["bytes"]] += piece["count"]
        for row in rows:
            if row["category"] in ("gpu_memcpy", "gpu_memset"):
                found[row["name"], row["bytes"]] += 1
        for name, size in sorted(wanted):
            self.line("%s, %d bytes" % (name, size), wanted[name, size], found[name, size],
                      wanted[name, size] == found[name, size])

    def durations(self, truth, rows):
        timed = [piece["ns"] for piece in truth if piece["what"] == "timed"]
        if not timed:
            return
        spins = [row for row in rows if row["category"] == "kernel" and row["name"].startswith("spin")]
        spins = sorted(spins, key=lambda row: row["start_ns"])[1:1 + len(timed)]
        worst = 0
        for wanted, row in zip(timed, spins):
            off = abs(wanted - row["dur_ns"])
            if off > max(2000, 0.03 * wanted):
                worst = max(worst, off)
        self.line("timed kernels", len(timed), len(spins), 0 < len(timed) == len(spins))
        self.line("timed kernels, farthest from CUDA events", "2 us or 3 %", "%.0f ns" % worst, worst == 0)

    def launches(self, rows):
        calls = {row["correlation"] for row in rows if row["category"] in CALLS}
        work = [row for row in rows if row["category"] in WORK]
        orphans = sum(row["correlation"] not in calls for row in work)
        self.line("device work without its call", 0, orphans, orphans == 0)
        starts = {row["correlation"]: row["start_ns"] for row in rows if row["category"] in CALLS}
        early = sum(row["start_ns"] < starts.get(row["correlation"], row["start_ns"]) for row in work)
        self.line("device work that begins before its call", 0, early, early == 0)


def counters(path, wanted):
    """How many samples each row has; status."""
    found = collections.Counter(e["name"] for e in chrome.load(path) if e.get("ph") == "C")
    for name in sorted(found):
        print("%-44s %14d" % (name, found[name]))
    fine = any(name.startswith(wanted) for name in found)
    if not fine:
        print("there is no sample of '%s'" % wanted)
    return 0 if fine else 1


def work(path):
    """How much of each kind there is; status: is there a kernel?"""
    found = collections.Counter(e.get("cat") for e in chrome.load(path) if e.get("ph") == "X")
    for category in sorted(found, key=str):
        print("%-44s %14d" % (category, found[category]))
    return 0 if found["kernel"] else 1


def kernels(path, name, wanted):
    """How many kernels have `name` in their name, with their calls; status."""
    rows = chrome.rows(chrome.load(path), *CALLS, "kernel")
    calls = {row["correlation"] for row in rows if row["category"] in CALLS}
    found = [row for row in rows if row["category"] == "kernel" and name in row["name"]]
    with_call = sum(row["correlation"] in calls for row in found)
    print("kernels with '%s' in their names: %d of %s, %d with their call" % (name, len(found), wanted, with_call))
    return 0 if len(found) == with_call == int(wanted) else 1


def main():
    if sys.argv[1] == "--kernels":
        return kernels(*sys.argv[2:])
    if sys.argv[1] == "--counters":
        return counters(*sys.argv[2:])
    if sys.argv[1] == "--work":
        return work(*sys.argv[2:])
    trace, truth_path = sys.argv[1:]
    truth = truth_of(truth_path)
    rows = chrome.rows(chrome.load(trace), *CALLS, *WORK)
    c = Comparison()
    print("%-44s %14s %14s" % ("", "asked", "found"))
    c.counts(truth, rows, ("kernel", "streams", "graph"), "kernel")
    c.counts(truth, rows, ("memcpy",), "gpu_memcpy")
    c.counts(truth, rows, ("memset",), "gpu_memset")
    c.sizes(truth, rows)
    c.durations(truth, rows)
    c.launches(rows)
    return 1 if c.faults else 0


if __name__ == "__main__":
    sys.exit(main())
