#!/usr/bin/env python3
"""The same model recorded twice: by PyTorch's profiler and by `ckineto record`.

torch_side.py CKINETO TORCH_TRACE CKINETO_TRACE: between the marks of the window there are the same
kernels as often, each with its call, and the sums of their durations differ by less than 5 %."""

import collections
import json
import subprocess
import sys

KERNELS = "SELECT name, start_ns, dur_ns, launch FROM activities WHERE kind = 'kernel' ORDER BY start_ns"


def query(command, trace, sql):
    done = subprocess.run([command, "query", "--format", "json", trace, sql], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def kernels_of(command, trace, window):
    rows = query(command, trace, KERNELS)
    if window:
        ranges = query(command, trace, "SELECT start_ns, end_ns FROM activities WHERE name = 'window'")
        begin, end = ranges[0]["start_ns"], ranges[0]["end_ns"]
        rows = [row for row in rows if begin <= row["start_ns"] < end]
    return rows


def main():
    command, theirs, ours = sys.argv[1:]
    a, b = kernels_of(command, theirs, False), kernels_of(command, ours, True)
    count_a, count_b = (collections.Counter(row["name"] for row in rows) for rows in (a, b))
    total_a, total_b = (sum(row["dur_ns"] for row in rows) for rows in (a, b))
    without = sum(row["launch"] is None for row in b)
    print("%-40s %12s %12s" % ("", "PyTorch", "ckineto"))
    print("%-40s %12d %12d" % ("kernels", len(a), len(b)))
    print("%-40s %12d %12d" % ("different names", len(count_a), len(count_b)))
    print("%-40s %12d %12d" % ("ns in kernels", total_a, total_b))
    print("%-40s %12s %12d" % ("kernels without their call", "", without))
    for name in sorted(set(count_a) | set(count_b)):
        if count_a[name] != count_b[name]:
            print("  %s: %d, %d" % (name[:90], count_a[name], count_b[name]))
    fine = count_a == count_b and not without and abs(total_a - total_b) < 0.05 * total_a
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
