#!/usr/bin/env python3
"""What a profiler costs uses of PyTorch: torch_costs.py [--profile] [--rounds N] [WORKLOAD…]

Workloads: launch (tiny kernels from one thread), threads (the same from 8 threads), step (a training step of a
small transformer in bf16), replay (a CUDA graph of 50 kernels). torch.profiler records operators of the thread
that starts it: of "threads" it has the device work alone. With --profile each round measures without
torch.profiler, with the device alone ("cuda"), and with host and device ("all"), in one process. Prints one JSON
object: "WORKLOAD none" and the like in ns per launch, step or replay, medians; "… more" is the median of the
differences to none within a round; "WORKLOAD start ms" and "WORKLOAD stop ms" are the times that the profiler
takes to start and to stop."""

import argparse
import contextlib
import json
import os
import statistics
import threading
import time

import torch
from torch.profiler import ProfilerActivity

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # the latter to try this script
KINDS = {"none": None, "cuda": [ProfilerActivity.CUDA], "all": [ProfilerActivity.CPU, ProfilerActivity.CUDA]}
if DEVICE == "cpu":
    KINDS = {"none": None, "all": [ProfilerActivity.CPU]}


CPUS = os.sched_getaffinity(0)


def stay_on_one_cpu():
    """For this thread, as CPUs differ in speed. Threads that it starts must leave the CPU."""
    os.sched_setaffinity(0, {max(CPUS)})


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def make_launch():
    x = torch.zeros(1, device=DEVICE)

    def batch():
        for _ in range(500):
            x.add_(1)
    return batch, 500, 10


def make_threads():
    def work(stream):
        os.sched_setaffinity(0, CPUS)
        with torch.cuda.stream(stream) if stream else contextlib.nullcontext():
            x = torch.zeros(1, device=DEVICE)
            for _ in range(500):
                x.add_(1)
    streams = [torch.cuda.Stream() if DEVICE == "cuda" else None for _ in range(8)]

    def batch():
        threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return batch, 4000, 2


def make_step():
    width, length = (512, 256) if DEVICE == "cuda" else (64, 16)
    model = torch.nn.Sequential(*(torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0)
                                  for _ in range(4))).to(DEVICE, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    data = torch.randn(8, length, width, device=DEVICE, dtype=torch.bfloat16)

    def step():
        optimizer.zero_grad()
        model(data).float().square().mean().backward()
        optimizer.step()
    return step, 1, 15


def make_replay():
    x = torch.zeros(1 << 16, device=DEVICE)
    if DEVICE == "cpu":
        return lambda: x.add_(1), 1, 10
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x.add_(1)
    wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(50):
            x.add_(1)
    return graph.replay, 1, 50


MAKERS = {"launch": make_launch, "threads": make_threads, "step": make_step, "replay": make_replay}
WITH_WAIT = ("step", "replay")  # their time includes the wait for the device


def time_batches(name, batch, per_batch, times):
    taken = []
    for _ in range(times):
        begin = time.perf_counter_ns()
        batch()
        if name in WITH_WAIT:
            wait()
        taken.append((time.perf_counter_ns() - begin) / per_batch)
        wait()
    return statistics.median(taken)


def time_call(function):
    begin = time.perf_counter_ns()
    function()
    return (time.perf_counter_ns() - begin) / 1e6


def measure(name, kind, work):
    """ns per unit, and the milliseconds that the profiler takes to start and to stop."""
    if KINDS[kind] is None:
        return time_batches(name, *work), 0, 0
    profiler = torch.profiler.profile(activities=KINDS[kind])
    start = time_call(profiler.start)
    ns = time_batches(name, *work)
    return ns, start, time_call(profiler.stop)


def measure_workload(name, kinds, rounds, line):
    work = MAKERS[name]()
    for _ in range(3):
        work[0]()
    wait()
    for kind in kinds:  # threads of profilers are started here
        measure(name, kind, (work[0], work[1], 1))
    stay_on_one_cpu()
    found = {kind: [] for kind in kinds}
    for number in range(rounds + 1):
        for kind in kinds[number % len(kinds):] + kinds[:number % len(kinds)]:
            result = measure(name, kind, work)
            if number:
                found[kind].append(result)
    for kind in kinds:
        line["%s %s" % (name, kind)] = statistics.median(ns for ns, _, _ in found[kind])
        if kind == "none":
            continue
        line["%s %s more" % (name, kind)] = statistics.median(a[0] - b[0] for a, b in zip(found[kind], found["none"]))
        line["%s %s start ms" % (name, kind)] = statistics.median(start for _, start, _ in found[kind])
        line["%s %s stop ms" % (name, kind)] = statistics.median(stop for _, _, stop in found[kind])
    os.sched_setaffinity(0, CPUS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="measure with torch.profiler, too")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="of %s" % ", ".join(MAKERS))
    options = parser.parse_args()
    torch.manual_seed(0)
    line = {}
    for name in options.workloads or MAKERS:
        measure_workload(name, list(KINDS) if options.profile else ["none"], options.rounds, line)
    print(json.dumps({key: round(value, 1) for key, value in line.items()}))


if __name__ == "__main__":
    main()
