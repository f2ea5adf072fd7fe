#!/usr/bin/env python3
"""Two profiles of torch_model.py by torch.profiler, on libkineto and on ckineto: torch_seat.py THEIRS OURS.

Equal: kernels, copies and memsets by name and number; each linked to an operator where libkineto's is; rows of
key_averages() by name and count. The time of all rows on the device differs by less than 5 %. Starting the profile
takes at most 5 ms more of its own window: what is slow has to precede the window."""

import collections
import json
import sys

import chrome

MAX_START_NS = 5_000_000
DEVICE_KINDS = ("kernel", "gpu_memcpy", "gpu_memset")


def device_work(path):
    """(kind, name, has an operator) and how often."""
    rows = [row for kind in DEVICE_KINDS for row in chrome.rows(chrome.load(path), kind)]
    return collections.Counter((row["category"], row["name"], bool(row["external"])) for row in rows)


def read_averages(path):
    with open(path + ".averages", encoding="utf-8") as file:
        return json.load(file)


def start_ns(path):
    """The part of the window in which PyTorch starts the profile: to the end of its own function, which with_stack
    shows. 0: there is no such function."""
    rows = chrome.rows(chrome.load(path), "python_function")
    return max((row["dur_ns"] for row in rows if row["name"].endswith(": _start_trace")), default=0)


def print_differences(what, theirs, ours):
    keys = [key for key in sorted(set(theirs) | set(ours), key=str) if theirs.get(key, 0) != ours.get(key, 0)]
    print("%s: %d by libkineto, %d by ckineto, %d differ" %
          (what, sum(theirs.values()), sum(ours.values()), len(keys)))
    for key in keys[:20]:
        print("  %s: %d, %d" % (key, theirs.get(key, 0), ours.get(key, 0)))
    return len(keys)


def main():
    theirs, ours = sys.argv[1:]
    work = device_work(theirs)
    if not work:
        sys.exit("libkineto recorded no work of the device: there is nothing to compare with")
    differences = print_differences("device work", work, device_work(ours))
    a, b = read_averages(theirs), read_averages(ours)
    differences += print_differences("key_averages()", {k: v[0] for k, v in a.items()},
                                     {k: v[0] for k, v in b.items()})
    total_a, total_b = (sum(row[1] for row in rows.values()) for rows in (a, b))
    print("microseconds on the device, all rows: %.0f by libkineto, %.0f by ckineto" % (total_a, total_b))
    start_a, start_b = start_ns(theirs), start_ns(ours)
    print("milliseconds to start in the window: %.3f by libkineto, %.3f by ckineto" % (start_a / 1e6, start_b / 1e6))
    fine = abs(total_a - total_b) <= 0.05 * total_a and start_b - start_a <= MAX_START_NS
    return 0 if not differences and fine else 1


if __name__ == "__main__":
    sys.exit(main())
