#!/usr/bin/env python3
"""What PyTorch's own profiler adds to a launch: the same batches as launches.cu, through PyTorch.
Prints nanoseconds per launch without and with the profiler; `--plain` leaves the profiler out."""

import json
import statistics
import sys
import time

import torch

BATCHES, EACH = 100, 500


def batches(x):
    times = []
    for _ in range(BATCHES):
        begin = time.perf_counter_ns()
        for _ in range(EACH):
            x.zero_()
        times.append((time.perf_counter_ns() - begin) / EACH)
        torch.cuda.synchronize()
    return statistics.median(times)


def main():
    x = torch.empty(1, device="cuda")
    batches(x)
    line = {"plain_ns": batches(x)}
    if "--plain" not in sys.argv:
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities):
            line["kineto_ns"] = batches(x)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
