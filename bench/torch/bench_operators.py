"""Benchmark of recording operators: ckineto's recorder and torch.profiler, interleaved in one process.

    python bench_operators.py LOOP_LIBRARY [count] [rounds]

Prints one JSON line for each way: ns of thread CPU time added to `add_` on one element (minimum of the
rounds), and the ratio to torch.profiler. Needs CKINETO_LIBDIR and CKINETO_BRIDGE_DIR in a build tree.
"""
import ctypes
import json
import os
import sys

import torch

from ckineto_attach import library, torch_bridge


class _Options(ctypes.Structure):
    """kineto_session_options."""

    _fields_ = [("size", ctypes.c_size_t), ("kinds", ctypes.c_uint64),
                ("buffer_bytes", ctypes.c_size_t), ("retention", ctypes.c_uint32),
                ("threads", ctypes.c_uint32), ("custom_config", ctypes.c_char_p),
                ("operators", ctypes.c_uint32), ("scopes", ctypes.c_uint32)]


class Session:
    """A session of ckineto with operators and, if requested, their inputs."""

    def __init__(self, operators):
        self._full = library.load_full()
        self._operators = operators
        self._handle = ctypes.c_void_p()

    def __enter__(self):
        options = _Options(ctypes.sizeof(_Options), 0, 256 << 20, 0, 0, None, self._operators, 0)
        self._full.kineto_session_create(ctypes.byref(options), ctypes.byref(self._handle), None)
        self._full.kineto_session_start(self._handle, None)
        return self

    def __exit__(self, *_):
        trace = ctypes.c_void_p()
        self._full.kineto_session_stop(self._handle, ctypes.byref(trace), None)
        self._full.kineto_session_destroy(self._handle)
        self._full.kineto_trace_release(trace)


def measure(loop, count, rounds):
    """Minimum ns an operator by way."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    ways = {
        "bare": None,
        "ckineto": lambda: Session(0),
        "ckineto with shapes": lambda: Session(3),
        "torch.profiler": lambda: torch.profiler.profile(activities=activities),
        "torch.profiler with shapes": lambda: torch.profiler.profile(activities=activities,
                                                                     record_shapes=True),
        "ckineto idle": None,
    }
    best = {}
    for _ in range(rounds):
        for name, make in ways.items():
            if make is None:
                loop(count // 10)
                value = loop(count)
            else:
                with make():
                    loop(count // 10)
                    value = loop(count)
            best[name] = min(best.get(name, 1e9), value)
    return best


def main():
    loop = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY).run_operators
    loop.argtypes, loop.restype = [ctypes.c_long], ctypes.c_double
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    library.load_full()
    torch_bridge.attach_recorder()
    best = measure(loop, count, rounds)
    bare = best["bare"]
    for name, value in best.items():
        line = {"bench": "torch operator", "way": name, "ns": round(value, 1),
                "added_ns": round(value - bare, 1)}
        peer = "torch.profiler" + (" with shapes" if "shapes" in name else "")
        if name.startswith("ckineto"):
            line["of_torch"] = round((value - bare) / (best[peer] - bare), 3)
        print(json.dumps(line))


if __name__ == "__main__":
    main()
