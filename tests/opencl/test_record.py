"""The whole way: `ckineto record` on a client, its trace against the witness's count."""
import json
import os
import shutil

from support import CKINETO, CLIENT, COUNT_LAYER, FETCHED, check, counted, environment, finish, \
    need_device, run, temporary


def lost(trace):
    """(sum of losses, words) of the ledger in the trace."""
    lines = [l for l in trace.get("ckineto", {}).get("ledger", []) if l["loss"]]
    return sum(l["count"] for l in lines), lines


def check_trace(words, trace, kernels):
    events = trace["traceEvents"]
    launches = {e["args"]["correlation"]: e for e in events
                if e.get("cat") == "runtime" and e.get("args", {}).get("correlation")}
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    found = [e for e in device if e["cat"] == "kernel"]
    missing, ledger = lost(trace)
    check(len(found) + missing == kernels,
          f"{words}: {len(found)} in the trace, {missing} lost, {kernels} enqueued: {ledger}")
    ids = [e["args"]["correlation"] for e in device]
    check(len(ids) == len(set(ids)), f"{words}: a command is there twice")
    for e in device:
        launch = launches.get(e["args"]["correlation"])
        check(e["dur"] >= 0, f"{words}: negative duration: {e}")
        if check(launch is not None, f"{words}: no launch of {e}"):
            check(e["ts"] >= launch["ts"], f"{words}: before its launch: {e} {launch}")
    return device


def record(words, command, status=0):
    with temporary() as folder:
        out, counts = os.path.join(folder, "out.json"), os.path.join(folder, "counts")
        result = run([CKINETO, "record", "-o", out, "--", *command],
                     environment([COUNT_LAYER], COUNT_LAYER_OUT=counts))
        check(result.returncode == status, f"{words}: status {result.returncode}: {result.stderr}")
        if not check(os.path.exists(out), f"{words}: no trace: {result.stderr}"):
            return None, None, result
        with open(out, encoding="utf-8") as file:
            trace = json.load(file)
        return trace, counted(counts) if os.path.exists(counts) else None, result


def check_way(way, *arguments, status=0):
    trace, counts, _ = record(way, [CLIENT, way, *arguments], status)
    return check_trace(way, trace, counts["kernels"]) if trace else []


need_device()
for way in ("props0", "with_properties", "threads", "fork", "many_queues"):
    if way == "fork" and FETCHED:
        continue  # in a child that exits, Intel's driver may wait forever for threads of the parent, also alone
    check_way(way)
check_way("threads", "3000")
check_way("exit_running", status=5)

every = check_way("all")
check({e["cat"] for e in every} == {"kernel", "gpu_memcpy", "gpu_memset"}, "all: kinds")
one = next(e for e in every if e["cat"] == "kernel" and e["args"].get("grid") == [4, 4, 2])
check(one["args"]["block"] == [8, 1, 1], f"all: {one}")
chosen = [e for e in every if e["args"].get("global offset") == [16, 0, 0]]
check(chosen and all(e["args"]["global size"] == [32, 1, 1] and "grid" not in e["args"] for e in chosen),
      f"all: the driver chose the groups: {chosen}")
check(all(e["args"]["queued_rel_to_start"] <= e["args"]["submitted_rel_to_start"] <= 0 for e in every),
      "all: times before the start")
check(all(e["args"].get("bytes") == 4096 for e in every if "WriteBuffer)" in e["name"]),
      "all: bytes")

def check_extensions():
    """Functions that the client requests by name: what it says the driver took."""
    trace, _, result = record("extensions", [CLIENT, "extensions"])
    said = result.stdout.decode()
    if not trace:
        return
    events = trace["traceEvents"]
    names = [e["name"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    calls = [e["name"] for e in events if e.get("cat") == "runtime"]
    check(lost(trace)[0] == 0, f"extensions: {lost(trace)}")
    if "USM copies 4 fills 1 allocations 2" in said:
        copies = [n for n in names if n.endswith("(clEnqueueMemcpyINTEL)")]
        check(sorted(copies) == ["Memcpy DtoH (clEnqueueMemcpyINTEL)"] * 3 +
              ["Memcpy HtoD (clEnqueueMemcpyINTEL)"], f"extensions: {names}")
        check(names.count("Memset (clEnqueueMemFillINTEL)") == 1, f"extensions: {names}")
        check([calls.count(f"cl{n}INTEL") for n in ("DeviceMemAlloc", "HostMemAlloc", "MemFree")] == [1, 1, 2],
              f"extensions: {calls}")
    if "command buffers 5 of 3" in said:
        buffers = [e for e in events if e["name"].startswith("Command buffer (")]
        check([b["args"].get("kernels") for b in buffers] == [3] * 5, f"extensions: {buffers}")
    print("extensions:", ", ".join(said.split("\n")[:-2]))


check_extensions()

# Ends without any cleanup: what was complete is there, what was not is counted.
for way, status in (("quick_exit", 6), ("killed", 128 + 9)):
    trace, _, _ = record(way, [CLIENT, way], status)
    if not trace:
        continue
    scales = [e for e in trace["traceEvents"] if e.get("cat") == "kernel" and e["name"] != "spin"]
    check(len(scales) >= 150, f"{way}: {len(scales)} of 200")
    check(len(scales) + lost(trace)[0] >= 200, f"{way}: {len(scales)} and {lost(trace)}")

clpeak = shutil.which("clpeak")
if clpeak:  # a program from elsewhere
    peak, counts, _ = record("clpeak", [clpeak, "--kernel-latency"])
    if peak:
        check_trace("clpeak", peak, counts["kernels"])
        check(peak["deviceProperties"][0]["maxComputeUnits"] > 0, "clpeak: device properties")
else:
    print("clpeak is not installed: left out")
finish("record")
