"""Reports of torch.profiler about small programs, next to the traces it writes of them.

torch_facts.py FOLDER, under a Python with PyTorch: for each scenario FOLDER/NAME.json, the Chrome trace,
and FOLDER/NAME.answers.json: events() as a tree, key_averages() in several groupings with all their
numbers, what table() prints, what export_stacks() and export_memory_timeline() write. Times are whole
nanoseconds.
"""

import gzip
import json
import os
import sys
import tempfile
import time

import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile, schedule

CPU = [ProfilerActivity.CPU]
NUMBERS = ["count", "cpu_memory_usage", "self_cpu_memory_usage", "flops"]
TIMES = ["cpu_time_total", "self_cpu_time_total"]
SORTS = [None, "cpu_time_total", "self_cpu_time_total", "cpu_time", "cpu_memory_usage",
         "self_cpu_memory_usage", "count", "self_cuda_time_total"]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.first = nn.Linear(8 * 4 * 4, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.convolution(x)).flatten(1)
        return self.second(torch.relu(self.first(x)))


class Trainer:
    def __init__(self):
        torch.manual_seed(1)
        self.model = Network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.step()  # what happens once only happens here

    def step(self):
        with record_function("forward pass"):
            loss = self.model(torch.ones(2, 3, 8, 8)).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


@torch.jit.script
def allocate(x, n: int):
    for _ in range(n):
        x = torch.mm(x, x) + 1.0
    return x


def finished(**options):
    """A profiler and a list that holds what was ready when it is done."""
    return profile(activities=CPU, **options)


def training():
    """Two steps of a schedule: shapes, memory, FLOPs, forward and backward."""
    trainer = Trainer()
    p = finished(record_shapes=True, profile_memory=True, with_flops=True,
                 schedule=schedule(wait=0, warmup=1, active=2, repeat=1))
    with p:
        for _ in range(3):
            trainer.step()
            p.step()
    return p


@torch.jit.script
def allocate_concurrently(x):
    a = torch.jit.fork(allocate, x, 6)
    b = torch.jit.fork(allocate, x, 7)
    return torch.jit.wait(a) + torch.jit.wait(b)


def threads():
    """Work on several threads that use memory at the same time, and a function that ends on another
    thread than it began on."""
    x = torch.ones(16, 16)
    for _ in range(3):  # it is compiled first
        allocate_concurrently(x)
    with finished(record_shapes=True, profile_memory=True) as p:
        with record_function("main waits"):
            y = allocate_concurrently(x)
        z = y @ y
        del y, z
        time.sleep(0.2)  # a function that has not ended has an end of its own in the trace
    return p


def stacks():
    """Python stacks on every operator: what the experimental setting 'verbose' adds."""
    from torch._C._profiler import _ExperimentalConfig
    trainer = Trainer()
    with finished(record_shapes=True, with_stack=True,
                  experimental_config=_ExperimentalConfig(verbose=True)) as p:
        trainer.step()
    return p


def lists():
    """Lists of tensors, scalars, nested operators of one name, names that are cut, overloads."""
    from torch._C._profiler import _ExperimentalConfig
    try:
        config = _ExperimentalConfig(capture_overload_names=True)
    except TypeError:
        config = None
    with finished(record_shapes=True, experimental_config=config) as p:
        with record_function("a name that is much longer than any column of the table may be, sadly"):
            torch.cat([torch.ones(1, 2), torch.zeros(3, 2)])
        with record_function("same"), record_function("same"), record_function("same"):
            torch.ones(3) + 1
        with record_function("reduce"):
            torch.zeros(2, 2).sum(dim=1, keepdim=True)
        torch.broadcast_tensors(torch.ones(5, 1, 7), torch.ones(1, 6, 7), torch.ones(7))
    return p


def memory():
    """Memory over time: what came and what went."""
    trainer = Trainer()
    with finished(record_shapes=True, profile_memory=True, with_stack=True) as p:
        trainer.step()
        trainer.step()
    return p


def to_ns(us):
    return round(us * 1000)


def row(e, group_stack):
    found = {key: getattr(e, key) for key in NUMBERS}
    found.update({key + "_ns": to_ns(getattr(e, key)) for key in TIMES})
    found.update(name=e.key, overload=getattr(e, "overload_name", "") or "", is_user_annotation=bool(e.is_user_annotation),
                 input_shapes=str(e.input_shapes), stack=list(e.stack or []) if group_stack else [],
                 is_async=bool(e.is_async))
    found["flops"] = found["flops"] or 0
    return found


def tree(p):
    result = p.profiler.kineto_results
    # before 2.4 it was microseconds
    start = result.trace_start_ns() if hasattr(result, "trace_start_ns") else result.trace_start_us() * 1000
    events = p.events()
    number = {id(e): i for i, e in enumerate(events)}
    rows = []
    for e in events:
        found = row(e, True)
        found.update(start_ns=start + to_ns(e.time_range.start), end_ns=start + to_ns(e.time_range.end),
                     thread=e.thread, parent=number[id(e.cpu_parent)] if e.cpu_parent else -1,
                     is_python=bool(getattr(e, "is_python_function", False)))
        rows.append(found)
    return rows


def tables(lists_of):
    found = []

    def add(source, **arguments):
        try:
            text = lists_of[source].table(**arguments)
        except (AssertionError, RuntimeError, TypeError) as problem:
            text = None
            print("table(%s, %s): %s" % (source, arguments, problem))
        found.append({"of": source, "arguments": arguments, "text": text})

    for sort in SORTS:
        add("plain", sort_by=sort, row_limit=-1)
    for source in lists_of:
        add(source, sort_by="cpu_time_total", row_limit=12)
    add("shapes", sort_by="count", row_limit=-1, max_shapes_column_width=24, max_name_column_width=20)
    add("plain", sort_by="self_cpu_time_total", row_limit=5, header="A heading", time_unit="ms")
    add("plain", sort_by="self_cpu_time_total", row_limit=5, time_unit="us", top_level_events_only=True)
    add("plain", sort_by="self_cpu_time_total", row_limit=3, time_unit="s")
    add("events", sort_by="cpu_time_total", row_limit=10, top_level_events_only=True)
    add("stack3", sort_by="count", row_limit=20, max_src_column_width=30)
    return found


def exported_stacks(p):
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as file:
        try:
            p.export_stacks(file.name, "self_cpu_time_total")
        except AssertionError:
            return None
        return file.read()


def memory_changes(p):
    """[time_ns, action, bytes] of what came (2) and went (4)."""
    path = "changes.raw.json.gz"
    try:
        p.export_memory_timeline(path, device="cpu")
        with gzip.open(path) as file:
            return [change[:3] for change in json.load(file) if change[1] in (2, 4)]
    finally:
        if os.path.exists(path):
            os.unlink(path)


def answers(p):
    groups = {
        "plain": p.key_averages(),
        "shapes": p.key_averages(group_by_input_shape=True),
        "stack3": p.key_averages(group_by_stack_n=3),
        "events": p.events(),
    }
    try:
        groups["overloads"] = p.key_averages(group_by_overload_name=True)
    except TypeError:
        pass
    return {
        "torch": torch.__version__.split("+")[0],
        "events": tree(p),
        "averages": {name: [row(e, name == "stack3") for e in group]
                     for name, group in groups.items() if name != "events"},
        "total": row(groups["plain"].total_average(), False),
        "tables": tables(groups),
        "stacks": exported_stacks(p),
    }


SCENARIOS = [training, threads, stacks, lists, memory]


def main():
    torch.set_num_threads(1)
    os.chdir(sys.argv[1])  # traces hold the path that they were written to
    for scenario in SCENARIOS:
        path = "summary-" + scenario.__name__
        p = scenario()
        found = answers(p)
        if scenario is memory:
            found["memory"] = memory_changes(p)
        p.export_chrome_trace(path + ".json")
        with open(path + ".answers.json", "w", encoding="utf-8") as file:
            json.dump(found, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
