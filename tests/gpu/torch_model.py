#!/usr/bin/env python3
"""A small model on the GPU, the same each time: torch_model.py [TRACE]. With TRACE PyTorch's own
profiler records it (shapes, stacks) into that file."""

import contextlib
import sys

import torch


def main():
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

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    profiler = contextlib.nullcontext()
    if len(sys.argv) > 1:
        profiler = torch.profiler.profile(record_shapes=True, with_stack=True, profile_memory=True)
    with profiler:
        torch.cuda.nvtx.range_push("window")
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
    if len(sys.argv) > 1:
        profiler.export_chrome_trace(sys.argv[1])


if __name__ == "__main__":
    main()
