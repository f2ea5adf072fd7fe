"""Memory and processor time of a million operators: a session of ckineto, torch.profiler, and the export of a
profile by libkineto and in the seat. One way for each process.

    python bench_profiles.py LOOP_LIBRARY WAY [count]

WAY: ckineto, ckineto-shapes, torch, torch-shapes (with CKINETO_TORCH=1: in the seat). Prints one JSON line.
"""
import ctypes
import json
import os
import resource
import sys
import tempfile
import time

import torch

from bench_operators import _Options
from ckineto_attach import library, torch_bridge


def resident_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_ckineto(loop, count, shapes, path):
    full = library.load_full()
    torch_bridge.attach_recorder()
    session, trace = ctypes.c_void_p(), ctypes.c_void_p()
    options = _Options(ctypes.sizeof(_Options), 1 << 0, (128 if shapes else 64) << 20, 0, 0, None,
                       3 if shapes else 0, 0)
    before = resident_mib()
    full.kineto_session_create(ctypes.byref(options), ctypes.byref(session), None)
    full.kineto_session_start(session, None)
    loop(count)
    recording, begin = resident_mib() - before, time.process_time()
    full.kineto_session_stop(session, ctypes.byref(trace), None)
    full.kineto_session_destroy(session)
    stop, begin = time.process_time() - begin, time.process_time()
    full.kineto_trace_save(trace, path.encode(), None)
    full.kineto_trace_count.restype = full.kineto_trace_lost.restype = ctypes.c_uint64
    return {"recording_mib": recording, "stop_s": stop, "export_s": time.process_time() - begin,
            "activities": full.kineto_trace_count(trace), "lost": full.kineto_trace_lost(trace)}


def run_torch(loop, count, shapes, path):
    before = resident_mib()
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                     record_shapes=shapes)
    profile.start()
    loop(count)
    recording, begin = resident_mib() - before, time.process_time()
    profile.stop()
    stop, begin = time.process_time() - begin, time.process_time()
    profile.export_chrome_trace(path)
    return {"recording_mib": recording, "stop_s": stop, "export_s": time.process_time() - begin}


def main():
    loop = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY).run_operators
    loop.argtypes, loop.restype = [ctypes.c_long], ctypes.c_double
    way, count = sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1000000
    loop(1000)
    if way.startswith("torch") and os.environ.get("CKINETO_TORCH") == "1":
        torch_bridge.attach_seat()
    before = peak_mib()
    run = run_ckineto if way.startswith("ckineto") else run_torch
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        result = run(loop, count, way.endswith("shapes"), path)
        result["file_mb"] = os.path.getsize(path) / 1e6
    result = {key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()}
    print(json.dumps(dict({"bench": "torch profile", "way": way, "seat": os.environ.get("CKINETO_TORCH") == "1",
                           "operators": count, "peak_added_mib": round(peak_mib() - before)}, **result)))


if __name__ == "__main__":
    main()
