"""The programs that tools/capture records: each one covers one aspect of PyTorch's traces.

workload.py SCENARIO FOLDER writes FOLDER/SCENARIO.json, or what the scenario says; "all" runs all of
them, each in a process of its own. What a version of PyTorch cannot do is skipped with a word (status
77). No accelerator is needed.
"""

import os
import sys

import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile

CPU = [ProfilerActivity.CPU]


class Missing(Exception):
    """This version cannot do it."""


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(), nn.Linear(4, 8), Block())

    def forward(self, x):
        return self.body(x).sum()


def train(model, optimizer, steps=1):
    for _ in range(steps):
        with record_function("forward pass"):
            loss = model(torch.ones(4, 8))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def trainer():
    torch.manual_seed(1)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(model, optimizer)  # what happens once only happens here
    return model, optimizer


def save(profiler, folder, name):
    profiler.export_chrome_trace(os.path.join(folder, name))


# ---- scenarios: kinds of measurement


def training(folder):
    """Shapes, memory, forward and backward with their flows."""
    model, optimizer = trainer()
    with profile(activities=CPU, record_shapes=True, profile_memory=True) as p:
        train(model, optimizer)
    save(p, folder, "training.json")


def stacks(folder):
    """Python stacks and modules."""
    model, optimizer = trainer()
    options = {"with_stack": True, "record_shapes": True}
    try:
        p = profile(activities=CPU, with_modules=True, **options)
    except TypeError:  # before 1.11
        p = profile(activities=CPU, **options)
    with p:
        train(model, optimizer)
    save(p, folder, "stacks.json")


def verbose(folder):
    """The same with all that the experimental settings add."""
    try:
        from torch._C._profiler import _ExperimentalConfig
    except ImportError:
        raise Missing("no experimental settings") from None
    model, optimizer = trainer()
    with profile(activities=CPU, with_stack=True, profile_memory=True, record_shapes=True,
                 with_modules=True, experimental_config=_ExperimentalConfig(verbose=True)) as p:
        with torch.no_grad():
            model(torch.ones(4, 8))
    save(p, folder, "verbose.json")


def flops(folder):
    """Operations count their arithmetic."""
    try:
        p = profile(activities=CPU, record_shapes=True, with_flops=True)
    except TypeError:
        raise Missing("no with_flops") from None
    with p:
        torch.mm(torch.ones(16, 32), torch.ones(32, 8)) + 1
    save(p, folder, "flops.json")


def empty(folder):
    """A window without any work."""
    with profile(activities=CPU) as p:
        pass
    save(p, folder, "empty.json")


def steps(folder):
    """A schedule: two windows with two steps each, written by torch itself as .json.gz."""
    written = []

    def ready(p):
        written.append(p.step_num)
        save(p, folder, "steps-%d.json.gz" % len(written))

    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=CPU, schedule=plan, on_trace_ready=ready) as p:
        for _ in range(8):
            with record_function("work"):
                torch.ones(4, 4).add_(1).sum()
            p.step()


@torch.jit.script
def multiply(x, n: int):
    for _ in range(n):
        x = torch.relu(torch.mm(x, x))
    return x


@torch.jit.script
def multiply_beside(x):
    a = torch.jit.fork(multiply, x, 4)
    b = torch.jit.fork(multiply, x, 5)
    c = torch.jit.fork(multiply, x, 6)
    return torch.jit.wait(a) + torch.jit.wait(b) + torch.jit.wait(c)


def threads(folder):
    """Work on threads of TorchScript and of backward, in addition to the main thread."""
    x = torch.ones(32, 32, requires_grad=True)
    for _ in range(3):  # it is compiled first
        multiply_beside(x)
    with profile(activities=CPU) as p:
        with record_function("main waits"):
            loss = multiply_beside(x).sum()
        with record_function("backward"):
            loss.backward()
    save(p, folder, "threads.json")


def nested(folder):
    """Ranges in ranges, 60 deep, and one that the window's end cuts off."""
    cut = record_function("cut off by the end")

    def descend(depth):
        with record_function("depth %d" % depth):
            if depth < 60:
                descend(depth + 1)
            else:
                torch.ones(2).add_(1)

    p = profile(activities=CPU)
    p.__enter__()
    descend(1)
    cut.__enter__()
    torch.ones(3)
    p.__exit__(None, None, None)
    cut.__exit__(None, None, None)
    save(p, folder, "nested.json")


class Pictures(torch.utils.data.Dataset):
    """Samples are created on demand, as pictures are read and decoded."""

    def __len__(self):
        return 60

    def __getitem__(self, index):
        picture = torch.linspace(0, 1 + index, 30 * 3 * 16 * 16).sin()
        return picture.reshape(30, 3, 16, 16).mean(0), index % 4


def careless_step(model, optimizer, pictures, classes, kept):
    scales = torch.linspace(0.5, 1.5, len(pictures))
    for i in range(len(pictures)):
        pictures[i] *= scales[i]
    loss = nn.functional.cross_entropy(model(pictures), classes)
    loss.backward(retain_graph=True)
    kept.append(loss)
    optimizer.step()
    optimizer.zero_grad()


def faults(folder):
    """The problems that the rules of findings detect: pictures are loaded by the thread that trains, a tensor is
    read element by element, a bias precedes a batch norm, and losses are kept with their graphs."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 14 * 14, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = []
    loader = torch.utils.data.DataLoader(Pictures(), batch_size=12)
    careless_step(model, optimizer, *next(iter(loader)), kept)
    plan = torch.profiler.schedule(wait=0, warmup=1, active=4)
    with profile(activities=CPU, schedule=plan, with_stack=True, record_shapes=True, profile_memory=True,
                 on_trace_ready=lambda p: save(p, folder, "faults.json")) as p:
        for pictures, classes in loader:
            careless_step(model, optimizer, pictures, classes, kept)
            p.step()


# ---- scenarios: contents of names and values


def say(names):
    for name in names:
        with record_function(name):
            torch.ones(2) + 1


def names(folder):
    """Names that need no escapes: other alphabets, nothing, blanks, 5000 bytes."""
    with profile(activities=CPU) as p:
        say(["größer als 日本語 🙂", "a", " blank at both ends ", "x" * 5000, "é" * 2500,
             "template<int, 3>::call(a & b) 'single' `back` {brace} [bracket] %s"])
    save(p, folder, "names.json")


def escapes(folder):
    """Names that JSON must escape: quotes, backslashes, line ends, controls."""
    with profile(activities=CPU) as p:
        say(['say "hello"', "C:\\temp\\new", "two\nlines", "tab\there", "bell\x07", "ends with \\",
             'both \\" at once', "\x7f delete"])
    save(p, folder, "escapes.json")


def inputs(folder):
    """Arguments given to ranges, and values of inputs where this version keeps them."""
    with profile(activities=CPU, record_shapes=True) as p:
        try:
            with record_function("with arguments", 'batch "7"\\end'):
                torch.ones(2)
        except TypeError:
            raise Missing("ranges take no arguments") from None
        torch.ones(2, 3).sum(dim=1, keepdim=True)
        torch.full((2,), float("inf"))
        torch.full((2,), float("nan"))
        torch.cat([torch.ones(1, 2), torch.zeros(3, 2)])
    save(p, folder, "inputs.json")


def add_metadata(p, pairs):
    for key, value in pairs:
        p.add_metadata(key, value)


def metadata(folder):
    """Header metadata: texts and JSON."""
    with profile(activities=CPU) as p:
        torch.ones(2)
        if not hasattr(p, "add_metadata"):
            raise Missing("no add_metadata")
        add_metadata(p, [("experiment", "corpus"), ("größe", "日本語")])
        p.add_metadata_json("settings", '{"batch": 4, "rates": [0.1, 1e-3], "none": null}')
    save(p, folder, "metadata.json")


def metadata_escapes(folder):
    """Header metadata that JSON must escape."""
    with profile(activities=CPU) as p:
        torch.ones(2)
        if not hasattr(p, "add_metadata"):
            raise Missing("no add_metadata")
        add_metadata(p, [("quoted", 'a "word"'), ("path", "C:\\temp")])
    save(p, folder, "metadata-escapes.json")


# ---- scenarios: other recorders


def legacy(folder):
    """The profiler before Kineto: a bare array of events."""
    model, optimizer = trainer()
    try:
        p = torch.autograd.profiler.profile(use_kineto=False)
    except TypeError:
        p = torch.autograd.profiler.profile()
    with p:
        train(model, optimizer)
        say(['legacy "quoted"'])
    p.export_chrome_trace(os.path.join(folder, "legacy.json"))


def execution_trace(folder):
    """A trace and the execution trace (no Chrome trace) of the same step."""
    try:
        from torch.profiler import ExecutionTraceObserver
    except ImportError:
        raise Missing("no ExecutionTraceObserver") from None
    model, optimizer = trainer()
    observer = ExecutionTraceObserver()
    observer.register_callback(os.path.join(folder, "execution-trace.et.json"))
    observer.start()
    with profile(activities=CPU, record_shapes=True) as p:
        train(model, optimizer)
    observer.stop()
    observer.unregister_callback()
    save(p, folder, "execution-trace.json")


def one_rank(rank, folder, port):
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=2)
    data = torch.ones(64)
    dist.all_reduce(data)
    with profile(activities=CPU, record_shapes=True) as p:
        with record_function("exchange"):
            dist.all_reduce(data)
            dist.broadcast(data, 0)
            dist.all_gather([torch.zeros(64), torch.zeros(64)], data)
            if rank == 0:
                dist.send(data, 1)
            else:
                dist.recv(data, 0)
            dist.barrier()
    save(p, folder, "gloo-rank%d.json" % rank)
    dist.destroy_process_group()


def gloo(folder):
    """Two processes exchange tensors: record_param_comms, and distributedInfo where there is one."""
    import socket
    import torch.multiprocessing as mp
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(one_rank, args=(folder, port), nprocs=2)


SCENARIOS = {f.__name__.replace("_", "-"): f
             for f in [training, stacks, verbose, flops, empty, steps, threads, nested, faults,
                       names, escapes, inputs, metadata, metadata_escapes, legacy, execution_trace, gloo]}


def run(scenario, folder):
    try:
        SCENARIOS[scenario](folder)
    except Missing as problem:
        print("%s: %s" % (scenario, problem))
        return 77
    return 0


def run_in_child(scenario, folder):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = run(scenario, folder)
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main():
    torch.set_num_threads(1)
    if len(sys.argv) != 3 or sys.argv[1] not in [*SCENARIOS, "all"]:
        print("\n".join(["%-20s%s" % (name, f.__doc__) for name, f in SCENARIOS.items()]))
        return 0 if len(sys.argv) == 1 else 2
    if sys.argv[1] != "all":
        return run(*sys.argv[1:])
    failed = False
    for name in SCENARIOS:
        status = run_in_child(name, sys.argv[2])
        if status < 0:  # it is PyTorch that fell
            print("%s: died of signal %d; what it had written stays" % (name, -status))
        elif status not in (0, 77):
            print("%s: failed" % name)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
