"""Benchmark of recording Python functions: CPU time that it adds to a call and its return.

    CKINETO_LIBDIR=build/release/lib python3 bench/python/bench_stacks.py

A loop calls an empty function. Each mode is timed in turn, in one process, many times; the least time of
a mode counts, and the least time without anything is subtracted. `an empty hook` is the floor: a hook in C
that does nothing, so what the interpreter itself takes. `hooks only` is ckineto without a session. Peers are
measured where they are installed: viztracer, and torch.profiler with with_stack=True.
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "python"))

import stacks_session  # noqa: E402
from stacks_session import Session, build_stacks, stacks  # noqa: E402


def empty():
    pass


def call_functions(count):
    for _ in range(count):
        empty()


def generate(count):
    for n in range(count):
        yield n


def resume_generator(count):
    for _ in generate(count):
        pass


def call_c_functions(count):
    values = ()
    for _ in range(count):
        len(values)


class Module:
    """Calls like those of nn.Module: the outer one is the module's."""

    def _wrapped_call_impl(self, *args):
        return self._call_impl(*args)

    def _call_impl(self, *args):
        return self.forward(*args)

    def forward(self, x):
        return x

    __call__ = _wrapped_call_impl


def call_modules(count):
    module = Module()
    for _ in range(count):
        module(1)


class Ours:
    """A mode of ckineto."""

    def __init__(self, name, records=True, **options):
        self.name, self.records, self.options, self.session = name, records, options, None

    def start(self):
        self.session = Session(megabytes=64) if self.records else None
        if not stacks.start(**self.options):
            sys.exit("ckineto: bench_stacks: %s" % stacks.reason())

    def stop(self):
        stacks.stop()
        if self.session:
            self.session.discard()


class Nothing:
    name = "nothing"

    def start(self):
        pass

    def stop(self):
        pass


def load_floor():
    """The module of floor.c, built for this run."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "floor.so")
        subprocess.check_call(build_stacks.find_compiler() +
                              ["-O2", "-fPIC", "-shared",
                              "-DPy_LIMITED_API=0x030a0000", "-o", path,
                              "-isystem", build_stacks.find_python_headers(),
                              os.path.join(HERE, "floor.c")])
        spec = importlib.util.spec_from_file_location("floor", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


class Floor:
    name = "an empty hook"

    def __init__(self, floor):
        self.floor = floor

    def start(self):
        if sys.version_info < (3, 12):
            self.floor.set_profile(True)
            return
        monitoring, events = sys.monitoring, sys.monitoring.events
        monitoring.use_tool_id(5, "floor")
        for event in (events.PY_START, events.PY_RETURN, events.PY_RESUME, events.PY_YIELD):
            monitoring.register_callback(5, event, self.floor.callback)
        monitoring.set_events(5, events.PY_START | events.PY_RETURN | events.PY_RESUME |
                              events.PY_YIELD)

    def stop(self):
        if sys.version_info < (3, 12):
            self.floor.set_profile(False)
            return
        sys.monitoring.set_events(5, 0)
        sys.monitoring.free_tool_id(5)


class VizTracer:
    name = "viztracer"

    def __init__(self):
        import viztracer

        self.tracer = viztracer.VizTracer(verbose=0, ignore_c_function=True, tracer_entries=2000000)

    def start(self):
        self.tracer.start()

    def stop(self):
        self.tracer.stop()
        self.tracer.clear()


class TorchProfiler:
    name = "torch.profiler with_stack"

    def __init__(self):
        import torch.profiler

        self.torch = torch
        self.profile = None

    def start(self):
        activities = [self.torch.profiler.ProfilerActivity.CPU]
        self.profile = self.torch.profiler.profile(activities=activities, with_stack=True)
        self.profile.start()

    def stop(self):
        self.profile.stop()


def peers():
    found = []
    for peer in (VizTracer, TorchProfiler):
        try:
            found.append(peer())
        except ImportError:
            pass
    return found


def measure(work, count, mode):
    mode.start()
    begun = time.thread_time_ns()
    work(count)
    spent = time.thread_time_ns() - begun
    mode.stop()
    return spent / count


def compare(work, modes, count, repeats):
    """Nanoseconds that each mode adds to one turn of the loop."""
    least = {}
    for _ in range(repeats):
        for mode in modes:
            spent = measure(work, count, mode)
            least[mode.name] = min(spent, least.get(mode.name, spent))
    return {name: spent - (least["nothing"] if name != "nothing" else 0)
            for name, spent in least.items()}


def show(title, results):
    for name, added in results.items():
        print("%-8s %-28s %-28s %8.1f" % (sys.version.split()[0], title, name, added), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=100000)
    parser.add_argument("--repeats", type=int, default=11)
    given = parser.parse_args()
    stacks_session.prepare()
    floor = Floor(load_floor())
    functions, idle = Ours("ckineto"), Ours("hooks only", records=False)
    modules = Ours("ckineto, only modules", functions=False)
    c_functions = Ours("ckineto, with c_functions", c_functions=True)
    print("%-8s %-28s %-28s %8s" % ("python", "turn of the loop", "mode", "ns added"))
    amounts = given.calls, given.repeats
    show("a call", compare(call_functions, [Nothing(), floor, idle, functions, c_functions, modules] + peers(),
                           *amounts))
    show("a generator goes on", compare(resume_generator, [Nothing(), floor, idle, functions], *amounts))
    show("a call of C", compare(call_c_functions, [Nothing(), floor, idle, functions, c_functions], *amounts))
    file = types.ModuleType("torch.nn.modules.module")
    file.Module = Module
    if "torch" not in sys.modules:
        sys.modules["torch.nn.modules.module"] = file
        show("a module: three calls",
             compare(call_modules, [Nothing(), floor, idle, modules, functions], *amounts))


if __name__ == "__main__":
    main()
