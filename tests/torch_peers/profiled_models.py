#!/usr/bin/env python3
"""Five small models that run the same operators each time, under torch.profiler.

    profiled_models.py MODEL FOLDER [--stack] [--memory]

writes FOLDER/trace-RANK.json (export_chrome_trace) and FOLDER/averages-RANK.json (key_averages by name and shapes).
MODEL is one of cnn, transformer, ddp (three processes over gloo), compiled (torch.compile, needs a C++ compiler) and
loader (a DataLoader with two workers). The profiled steps are inside of a range named "window"; steps before it
compile, allocate and start what must be there. Used by compare_profiles.py; needs torch and numpy only.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Callable, Iterator, List

import torch
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, record_function

WINDOW = "window"
STEPS = 3
RANKS = 3


class Convolutions(nn.Module):
    """Two convolutions with normalisation and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1))
        self.classify = nn.Linear(16, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(images).flatten(1))


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Forward, backward and optimizer of one batch, with the ranges that programs have."""
    optimizer.zero_grad(set_to_none=True)
    with record_function("forward"):
        loss = nn.functional.cross_entropy(model(inputs), targets)
    with record_function("backward"):
        loss.backward()
    optimizer.step()


def make_cnn() -> Callable[[], None]:
    """A step of the small convolutional network."""
    model = Convolutions()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs, targets = torch.randn(4, 3, 16, 16), torch.arange(4)
    return lambda: train_step(model, optimizer, inputs, targets)


def make_transformer() -> Callable[[], None]:
    """A step of one encoder layer with a classifier, trained with Adam."""
    model = nn.Sequential(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), nn.Flatten(),
                          nn.Linear(32 * 6, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    inputs, targets = torch.randn(2, 6, 32), torch.arange(2)
    return lambda: train_step(model, optimizer, inputs, targets)


def make_ddp() -> Callable[[], None]:
    """A step of one of three processes that share their gradients."""
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = torch.randn(8, 16), torch.arange(8) % 4

    def step() -> None:
        train_step(model, optimizer, inputs, targets)
        total = torch.ones(3)
        torch.distributed.all_reduce(total)
        torch.distributed.barrier()

    return step


def make_compiled() -> Callable[[], None]:
    """A step of a compiled function with its gradient."""
    weights = torch.randn(16, 16, requires_grad=True)
    inputs = torch.randn(8, 16)

    @torch.compile
    def compute(values: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(values @ weights).sin().sum()

    def step() -> None:
        weights.grad = None
        compute(inputs).backward()

    return step


class Squares(torch.utils.data.Dataset):
    """Rows of numbers, made in the workers."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((5,), float(index)).square()


def make_loader() -> Callable[[], None]:
    """A step that reads all batches of two workers, which stay."""
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, persistent_workers=True)
    model = nn.Linear(5, 2)

    def step() -> None:
        with torch.no_grad():
            for batch in loader:
                model(batch)

    return step


MODELS = {"cnn": make_cnn, "transformer": make_transformer, "ddp": make_ddp, "compiled": make_compiled,
          "loader": make_loader}


@contextlib.contextmanager
def process_group(rank: int) -> Iterator[None]:
    """The group of processes, which meet at a file."""
    if rank < 0:
        yield
        return
    torch.distributed.init_process_group("gloo", init_method=f"file://{os.environ['MODELS_MEET']}", rank=rank,
                                         world_size=RANKS)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def run_profiled(step: Callable[[], None], options: argparse.Namespace) -> profile:
    """Two steps without the profiler, then the window."""
    step()
    step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=options.memory,
                 with_stack=options.stack) as profiler:
        with record_function(WINDOW):
            for _ in range(STEPS):
                step()
        left_open = record_function("open at the stop")
        left_open.__enter__()
    left_open.__exit__(None, None, None)
    return profiler


def list_averages(profiler: profile) -> List[List[Any]]:
    """Name, shapes and number of calls of each row of key_averages."""
    rows = profiler.key_averages(group_by_input_shape=True)
    return sorted([[row.key, str(row.input_shapes), row.count] for row in rows])


def run_model(options: argparse.Namespace) -> None:
    """One process: run the model and write both files."""
    rank = int(os.environ.get("RANK", "-1"))
    torch.manual_seed(7)
    torch.set_num_threads(1)
    with process_group(rank):
        profiler = run_profiled(MODELS[options.model](), options)
    suffix = max(rank, 0)
    profiler.export_chrome_trace(os.path.join(options.folder, f"trace-{suffix}.json"))
    with open(os.path.join(options.folder, f"averages-{suffix}.json"), "w", encoding="utf-8") as file:
        json.dump(list_averages(profiler), file)


def start_ranks(arguments: List[str]) -> int:
    """The three processes of ddp. Returns the first exit status that is not 0."""
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(RANKS):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank),
                           "MODELS_MEET": os.path.join(folder, "meet"), "GLOO_SOCKET_IFNAME": "lo"}
            processes.append(subprocess.Popen([sys.executable, __file__, *arguments], env=environment))
        return next((status for status in [process.wait() for process in processes] if status), 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("folder", help="where the files are written")
    parser.add_argument("--stack", action="store_true", help="record Python functions, too")
    parser.add_argument("--memory", action="store_true", help="record allocations, too")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    if options.model == "ddp" and "RANK" not in os.environ:
        return start_ranks(sys.argv[1:])
    run_model(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
