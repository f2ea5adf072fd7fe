"""Against PyTorch's own profiler: the same functions and modules below the same ones.

A program that test_stacks.py starts where PyTorch is installed. A small model is trained, once for each
recorder, with the same calls; functions in C, which torch.profiler records always, are left out. It prints
the rows of both as JSON.
"""
import json
import os
import re
import sys
import tempfile

import torch

import stacks_session
from stacks_session import Session, stacks


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        for block in self.blocks:
            x = self.norm(block(x)) + x
        return x


def numbers(count):
    for n in range(count):
        yield n


def train(model, optimizer, x):
    for _ in numbers(2):
        optimizer.zero_grad()
        with torch.autograd.profiler.record_function("forward"):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()


def record_ours(work):
    session = Session()
    stacks.start()
    work()
    stacks.stop()
    session.end()
    return session.rows()


def record_theirs(work):
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True)
    with profile:
        work()
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "trace.json")
    profile.export_chrome_trace(path)
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    os.unlink(path)
    os.rmdir(folder)
    return [e for e in document["traceEvents"] if e.get("cat") == "python_function"]


def lines_of(rows):
    """Rows below train(), each as its name and those above it. torch.profiler writes a generator that goes on
    with the line where it was left, so generators are written without lines."""
    by_id = {row["args"]["Python id"]: row for row in rows}
    lines = []
    for row in rows:
        names = []
        if row["name"].startswith("<built-in"):
            continue
        while row is not None:
            if not row["name"].startswith("<built-in"):
                names.append(re.sub(r"\(\d+\): (<genexpr>|numbers)$", r"(): \1", row["name"]))
            row = by_id.get(row["args"].get("Python parent id"))
        at = [n for n, name in enumerate(names) if name.endswith(": train")]
        if at:
            lines.append(" < ".join(names[:at[-1] + 1]))
    return sorted(lines)


def main():
    stacks_session.prepare()
    if not torch.profiler.kineto_available():
        sys.exit(stacks_session.SKIPPED)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(4, 8)
    train(model, optimizer, x)  # what is done once is done
    work = lambda: train(model, optimizer, x)  # noqa: E731
    ours, theirs = lines_of(record_ours(work)), lines_of(record_theirs(work))
    print(json.dumps({"ours": ours, "theirs": theirs}))


if __name__ == "__main__":
    main()
