#!/usr/bin/env python3
"""Holds the trace of tests/gpu/matrix.cu against what the program itself knows.

compare.py CKINETO TRACE TRUTH: each kernel once, the copies with their bytes, and durations within
2 us or 3 % of what CUDA events measured. Prints a table, ends with 1 if something differs."""

import collections
import json
import subprocess
import sys


def query(command, trace, sql):
    done = subprocess.run([command, "query", "--format", "json", trace, sql], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


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
        for name in sorted(wanted):
            self.line("%s, number" % name, wanted[name], found[name], wanted[name] == found[name])

    def durations(self, truth, rows):
        timed = [piece["ns"] for piece in truth if piece["what"] == "timed"]
        spins = [row for row in rows if row["category"] == "kernel" and row["name"].startswith("spin")]
        spins = sorted(spins, key=lambda row: row["start_ns"])[1:1 + len(timed)]
        worst = 0
        for wanted, row in zip(timed, spins):
            off = abs(wanted - row["dur_ns"])
            if off > max(2000, 0.03 * wanted):
                worst = max(worst, off)
        self.line("timed kernels, farthest from CUDA events", "2 us or 3 %", "%.0f ns" % worst, worst == 0)

    def launches(self, rows):
        calls = {row["correlation"] for row in rows if row["category"] in ("cuda_runtime", "cuda_driver")}
        work = [row for row in rows if row["category"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        orphans = sum(row["correlation"] not in calls for row in work)
        self.line("device work without its call", 0, orphans, orphans == 0)
        starts = {row["correlation"]: row["start_ns"] for row in rows if row["category"] == "cuda_runtime"}
        early = sum(row["start_ns"] < starts.get(row["correlation"], row["start_ns"]) for row in work)
        self.line("device work that begins before its call", 0, early, early == 0)


def main():
    command, trace, truth_path = sys.argv[1:]
    truth = truth_of(truth_path)
    rows = query(command, trace, "SELECT name, category, start_ns, dur_ns, correlation_id AS correlation FROM activities "
                                 "WHERE category IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'cuda_runtime', "
                                 "'cuda_driver')")
    c = Comparison()
    print("%-44s %14s %14s" % ("", "asked", "found"))
    c.counts(truth, rows, ("kernel", "streams", "graph"), "kernel")
    c.counts(truth, rows, ("memcpy",), "gpu_memcpy")
    c.counts(truth, rows, ("memset",), "gpu_memset")
    c.durations(truth, rows)
    c.launches(rows)
    return 1 if c.faults else 0


if __name__ == "__main__":
    sys.exit(main())
