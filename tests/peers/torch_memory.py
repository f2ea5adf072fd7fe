"""Trains small models under torch.profiler; writes into FOLDER each Kineto trace, without what is not needed here,
and PyTorch's own list of memory over time with categories: python torch_memory.py FOLDER
"""
import gzip
import json
import os
import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function


def layers():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 10))
    return model, torch.optim.Adam(model.parameters()), lambda: torch.randn(16, 32)


def images():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lambda: torch.randn(4, 3, 16, 16)


def train(model, optimizer, data):
    for _ in range(2):
        with record_function("data"):
            x = data()
            y = torch.randint(0, 10, (len(x),))
        with record_function("forward"):
            loss = nn.functional.cross_entropy(model(x), y)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    os.chdir(sys.argv[1])
    for make in (layers, images):
        parts = make()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True) as p:
            train(*parts)
        p.export_memory_timeline("list.raw.json.gz", device="cpu")
        p.export_chrome_trace("whole.json")
        with open("whole.json", encoding="utf-8") as file:
            whole = json.load(file)
        needed = {"schemaVersion": whole["schemaVersion"], "baseTimeNanoseconds": whole["baseTimeNanoseconds"],
                  "traceEvents": [e for e in whole["traceEvents"] if e.get("name") == "[memory]"
                                  or e.get("cat") in ("cpu_op", "user_annotation")]}
        for event in needed["traceEvents"]:
            for key in ("Input Dims", "Input Strides", "Input type", "Concrete Inputs", "Ev Idx", "Call stack"):
                event["args"].pop(key, None)
        with gzip.GzipFile(make.__name__ + ".json.gz", "wb", mtime=0) as file:
            file.write(json.dumps(needed, separators=(",", ":")).encode())
        with gzip.open("list.raw.json.gz") as old, \
                gzip.GzipFile(make.__name__ + ".answer.json.gz", "wb", mtime=0) as file:
            file.write(json.dumps(json.load(old), separators=(",", ":")).encode())
        os.unlink("whole.json")
        os.unlink("list.raw.json.gz")


main()
