#!/usr/bin/env python3
"""A small model on the GPU, the same each time: torch_model.py [--graph] [--sync] [TRACE].

With TRACE, torch.profiler records it (shapes, stacks) into that file, and the rows of key_averages() go to
TRACE.averages: a JSON object of name: [count, microseconds on the device]. --graph: the steps are replays of
a CUDA graph. --sync: waits of the device are recorded, too."""

import argparse
import contextlib
import json

import torch

STEPS = 10


def make_step():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(False)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(16 * 30 * 30, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, answers = torch.randn(32, 3, 32, 32, device="cuda"), torch.randint(0, 10, (32,), device="cuda")

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), answers).backward()
        optimizer.step()

    return step


def warm_up(step):
    """On a stream of its own, as capturing a graph asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def make_replay(step):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    torch.cuda.synchronize()
    return graph.replay


def make_config(sync):
    return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True) if sync else None


def write_averages(profiler, path):
    rows = {row.key: [row.count, getattr(row, "device_time_total", 0)] for row in profiler.key_averages()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", action="store_true", help="replay a CUDA graph")
    parser.add_argument("--sync", action="store_true", help="record waits of the device, too")
    parser.add_argument("trace", nargs="?", help="profile, and write the trace here")
    options = parser.parse_args()
    step = make_step()
    warm_up(step)
    step = make_replay(step) if options.graph else step
    profiler = contextlib.nullcontext()
    if options.trace:
        profiler = torch.profiler.profile(record_shapes=True, with_stack=True, profile_memory=True,
                                          experimental_config=make_config(options.sync))
    with profiler:
        torch.cuda.nvtx.range_push("window")
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    if options.trace:
        profiler.export_chrome_trace(options.trace)
        write_averages(profiler, options.trace + ".averages")


if __name__ == "__main__":
    main()
