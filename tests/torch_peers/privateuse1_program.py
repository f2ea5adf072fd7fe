"""Profilers of backends, registered before or after ckineto takes the place of libkineto, for test_plugins.py.

    privateuse1_program.py OUT LIBRARY before|after        a C profiler, registered when LIBRARY is loaded
    privateuse1_program.py OUT LIBRARY child               a C++ child profiler of libkineto's interface

writes OUT: {"kernels": names of kernels by operator or "", "names": of all activities, "pushed": ids a child got}.
"""
import ctypes
import json
import sys
from typing import Dict, List

import torch
from torch.profiler import ProfilerActivity, profile

from ckineto_attach import library, torch_bridge


def profile_step(activities) -> Dict[str, object]:
    with profile(activities=activities) as prof:
        torch.ones(4) + 1
    events = prof.events()
    kernels: Dict[str, List[str]] = {event.name: [k.name for k in event.kernels] for event in events if event.kernels}
    prof.export_chrome_trace(sys.argv[1] + ".trace")
    with open(sys.argv[1] + ".trace", encoding="utf-8") as file:
        trace = json.load(file)["traceEvents"]
    return {
        "kernels": kernels,
        "names": sorted({event.name for event in events}),
        "trace": sorted({event["name"] for event in trace if event.get("cat") == "kernel"}),
        "devices": sorted(event["args"]["name"] for event in trace if event["name"] == "process_name"),
        "pushed": max([event["args"].get("pushed", 0) for event in trace if event.get("cat") == "kernel"] or [0]),
    }


def rename_backend() -> None:
    """PrivateUse1 as a backend that torch.profiler accepts."""
    torch.utils.rename_privateuse1_backend("acme")
    module = type(sys)("torch.acme")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.synchronize = lambda *_: None
    torch._register_device_module("acme", module)


def run_child(child: ctypes.CDLL) -> Dict[str, object]:
    child.child_register()
    facts = profile_step([ProfilerActivity.CPU])
    if child.child_register_backend():
        rename_backend()
        facts["backend"] = profile_step([ProfilerActivity.CPU, ProfilerActivity.PrivateUse1])
    return facts


def main() -> None:
    out, path, order = sys.argv[1:]
    library.load_rt()
    if order == "before":
        ctypes.CDLL(path)
    torch_bridge.attach_seat()
    if order == "after":
        ctypes.CDLL(path)
    facts = run_child(ctypes.CDLL(path)) if order == "child" else profile_step([ProfilerActivity.CPU])
    with open(out, "w", encoding="utf-8") as file:
        json.dump(facts, file)


if __name__ == "__main__":
    main()
