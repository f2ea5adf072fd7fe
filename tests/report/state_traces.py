"""The traces that the states of the page are of (states.py): files of tests/data, and small ones that are written here.

FIXTURES[name] is a function of a folder; it gives the arguments of `ckineto report`."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "helpers"))
import cpu_traces

DATA = os.path.join(HERE, "..", "data", "torch-2.15.0")


def event(cat, name, pid, tid, ts, dur, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def step(number, rank, slow):
    """Operators in a step, each with a launch and a kernel; SLOW makes the second one longer."""
    start = 1e6 + 1000 * number
    events = [event("user_annotation", f"ProfilerStep#{number}", 100 + rank, 1, start, 850 + slow)]
    for i, kernel in enumerate(("gemm", "relu", "softmax")):
        at, correlation = start + 10 + 200 * i, 100 * number + i + 1
        length = 60 + (slow if i == 1 else 0)
        events += [event("cpu_op", f"aten::op{i}", 100 + rank, 1, at, length, **{"External id": correlation}),
                   event("cuda_runtime", "cudaLaunchKernel", 100 + rank, 1, at + 10, 20, correlation=correlation),
                   event("kernel", kernel, rank, 7, at + 40, 50 + slow / 2, device=rank, stream=7,
                         correlation=correlation)]
    return events


def rank_text(rank, ranks, slow=0, steps=5):
    events = [e for n in range(1, steps + 1) for e in step(n, rank, slow)]
    events += [{"ph": "C", "name": "GPU memory", "pid": rank, "tid": 0, "ts": 1e6 + 100 * i,
                "args": {"bytes": 1e6 * (i % 7)}} for i in range(20)]
    return json.dumps({"deviceProperties": [{"id": rank, "name": "Test device", "numSms": 80}],
                       "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
                       "traceEvents": events})


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def ranks(folder, count=24, missing=7, cut=9, slow=3):
    """A job in which one rank is missing, the file of one is cut off, and one is slow."""
    paths = []
    for rank in range(count):
        text = rank_text(rank, count, 140 if rank == slow else 0)
        if rank != missing:
            paths.append(write(folder, f"job-{rank}.json", text[:len(text) * 6 // 10] if rank == cut else text))
    return paths


def comparison(folder):
    before = write(folder, "before.json", rank_text(0, 1))
    return [write(folder, "after.json", rank_text(0, 1, 100)), "--before", before]


def c_program(folder):
    """States and samples of threads, as `ckineto record` writes them of a program without a device."""
    events = list(cpu_traces.Program(4, threads=3).events())
    return [write(folder, "program.json", json.dumps({"traceEvents": events}))]


def cores(folder):
    """Many threads and long names."""
    events = [event("cpu_op", f"op_{i % 30}_" + "long_name_" * (i % 12), 1, i % 40, 1000 + i // 40 * 20, 15)
              for i in range(1200)]
    return [write(folder, "threads.json", json.dumps({"traceEvents": events}))]


def of_data(name):
    return lambda folder: [os.path.join(DATA, f"{name}.json.gz")]


FIXTURES = {"training": of_data("training"), "stacks": of_data("stacks"), "empty": of_data("empty"), "ranks": ranks,
            "comparison": comparison, "C program": c_program, "threads": cores}
