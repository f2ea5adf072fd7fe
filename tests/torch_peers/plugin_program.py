"""A program that trains on devices which only plug-ins know, under torch.profiler, for test_plugins.py.

    plugin_program.py OUT SIM.so VENDOR.so MODE

writes traces and facts.json into OUT: what torch.profiler answered. MODE is "seat" or "guest".
"""
import ctypes
import json
import os
import sys
from typing import Any, Dict, List

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from plugin_program_names import BACKWARD, FORWARD, VENDOR

CPU = [ProfilerActivity.CPU]
Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)
nothing = Kernel(lambda arguments, item: None)
names = [name.encode() for name in (FORWARD, BACKWARD, VENDOR)]  # sim keeps pointers
devices: List[ctypes.CDLL] = []


def launch(name: bytes) -> None:
    sim = devices[0]
    sim.sim_launch(0, name, 4, nothing, None)
    sim.sim_synchronize(0)


class OnDevice(torch.autograd.Function):
    """Computes on the CPU and launches kernels of both devices."""

    @staticmethod
    def forward(ctx, x):
        launch(names[0])
        devices[1].vendor_launch(names[2])
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        launch(names[1])
        return gradient * 2


def train_step() -> None:
    with record_function("step 1"):
        weights = torch.ones(8, requires_grad=True)
        OnDevice.apply(weights).sum().backward()


def describe(prof: profile) -> Dict[str, Any]:
    """What torch's own tables say."""
    averages = prof.key_averages()

    def time_of(event) -> float:
        return float(getattr(event, "device_time_total", getattr(event, "cuda_time_total", 0)))

    return {
        "kernels": {event.name: [kernel.name for kernel in event.kernels]
                    for event in prof.events() if event.kernels},
        "device_time": {event.key: time_of(event) for event in averages},
        "events": [event.name for event in prof.events()],
        "table": averages.table(row_limit=30),
        "raw": [[event.name(), str(event.device_type()), event.linked_correlation_id()]
                for event in prof.profiler.kineto_results.events()],
    }


def profile_once(path: str) -> Dict[str, Any]:
    """A profile that is exported; PyTorch lets each be exported once."""
    with profile(activities=CPU, record_shapes=True) as prof:
        train_step()
        prof.add_metadata("purpose", "test")
    facts = describe(prof)
    prof.export_chrome_trace(path)
    return facts


def profile_cycles(out: str) -> List[str]:
    """Two cycles of a schedule, a trace each."""
    written: List[str] = []

    def save(prof: profile) -> None:
        written.append("cycle%d.json" % len(written))
        prof.export_chrome_trace(os.path.join(out, written[-1]))

    with profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
                 on_trace_ready=save) as prof:
        for _ in range(8):
            train_step()
            prof.step()
    return written


def provoke_error() -> str:
    """The text of the error when a trace cannot be saved."""
    with profile(activities=CPU) as prof:
        train_step()
    try:
        prof.export_chrome_trace("/no/such/folder/trace.json")
    except RuntimeError as error:
        return str(error)
    return ""


def profile_cuda() -> int:
    """A profile for CUDA devices, which torch.profiler itself refuses without a device; the number of events."""
    from torch.autograd import _disable_profiler, _enable_profiler, _prepare_profiler

    activities = {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    config = torch.autograd.profiler.profile().config()
    _prepare_profiler(config, activities)
    _enable_profiler(config, activities)
    train_step()
    return len(_disable_profiler().events())


def main() -> None:
    out, sim, vendor, mode = sys.argv[1:]
    devices.extend([ctypes.CDLL(sim), ctypes.CDLL(vendor)])
    facts: Dict[str, Any] = {"version": torch.__version__}
    facts["first"] = profile_once(os.path.join(out, "first.json"))
    facts["second"] = profile_once(os.path.join(out, "second.json.gz"))
    if mode == "seat":
        profile_once(os.path.join(out, "third.json.zst"))
        profile_once(os.path.join(out, "fourth.pftrace"))
    facts["cycles"] = profile_cycles(out)
    if mode == "seat":
        facts["error"] = provoke_error()
        facts["cuda_events"] = profile_cuda()
    with open(os.path.join(out, "facts.json"), "w", encoding="utf-8") as file:
        json.dump(facts, file)


if __name__ == "__main__":
    main()
