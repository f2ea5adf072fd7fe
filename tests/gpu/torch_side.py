#!/usr/bin/env python3
"""The same model recorded twice: by PyTorch's profiler and by `ckineto record`.

torch_side.py [--operators] TORCH_TRACE CKINETO_TRACE: between the marks of the window there are the same
kernels as often, each with its call, and the sums of their durations differ by less than 5 %. With --operators
there are the same operators as often, too."""

import collections
import sys

import chrome


def in_window(events, found):
    """What begins in the range that is called "window"."""
    ranges = [e for e in events if e.get("ph") == "X" and e["name"] == "window" and "dur" in e]
    if not ranges:
        sys.exit("the trace has no range that is called 'window': were NVTX ranges recorded?")
    begin = chrome.ns(ranges[0]["ts"])
    end = begin + chrome.ns(ranges[0]["dur"])
    return [row for row in found if begin <= row["start_ns"] < end]


def operators_of(path, window):
    """Operators, by name."""
    events = chrome.load(path)
    found = chrome.rows(events, "cpu_op")
    return collections.Counter(row["name"] for row in (in_window(events, found) if window else found))


def compare_operators(theirs, ours):
    a, b = operators_of(theirs, False), operators_of(ours, True)
    print("%-40s %12d %12d" % ("operators", sum(a.values()), sum(b.values())))
    for name in sorted(set(a) | set(b)):
        if a[name] != b[name]:
            print("  %s: %d, %d" % (name[:90], a[name], b[name]))
    return a == b


def kernels_of(path, window):
    """Kernels, each with whether its call is there; with `window` those in the range of that name."""
    events = chrome.load(path)
    calls = {row["correlation"] for row in chrome.rows(events, "cuda_runtime", "cuda_driver")}
    found = chrome.rows(events, "kernel")
    for row in found:
        row["launch"] = row["correlation"] if row["correlation"] in calls else None
    return in_window(events, found) if window else found


def main():
    theirs, ours = sys.argv[-2:]
    a, b = kernels_of(theirs, False), kernels_of(ours, True)
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
    if "--operators" in sys.argv:
        fine = compare_operators(theirs, ours) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
