"""All that a device did has one call that had it done, in programs that use the runtime and in programs
that use the driver alone; and no call is there twice."""
import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin"))
from support import check, client, environment, finish, run, temporary, write  # noqa: E402

CKINETO, PLUGIN = os.environ["CKINETO"], os.environ["PLUGIN"]
CALLS = ("cuda_runtime", "cuda_driver")
WORK = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "cuda_event")


def record(way, which="own12", script="", types="all"):
    with temporary() as folder:
        out = os.path.join(folder, "t.json")
        result = run([CKINETO, "record", "-q", "--no-summary", "-a", types, "-o", out, "--plugin", PLUGIN,
                      "--", client(which), way, "4"],
                     environment(which, write(folder, "script", "device h100\ndevice a100\n" + script)))
        if not check(os.path.exists(out), f"{way}: no trace: {result.stderr[-500:]}"):
            return []
        with open(out, encoding="utf-8") as file:
            return json.load(file)["traceEvents"]


def check_calls(words, events):
    """(calls, pieces of work) of a recording."""
    calls = [e for e in events if e.get("cat") in CALLS and e["ph"] == "X"]
    work = [e for e in events if e.get("cat") in WORK and e["ph"] in "Xi"]
    count = collections.Counter(c["args"]["correlation"] for c in calls)
    missing = [w["name"] for w in work if count[w["args"]["correlation"]] != 1]
    check(not missing, f"{words}: without one call: {sorted(set(missing))}")
    check(all(n == 1 for n in count.values()), f"{words}: calls are there twice")
    starts = {e["id"] for e in events if e.get("cat") == "ac2g" and e["ph"] == "s"}
    alone = [w["name"] for w in work if w["cat"].startswith(("kernel", "gpu_"))
             and w["args"]["correlation"] not in starts]
    check(not alone, f"{words}: without an arrow: {sorted(set(alone))}")
    return calls, work


for version in ("own12", "own13"):
    for way in ("add", "threads", "streams", "graph", "devices"):
        found, work = check_calls(f"{version} {way}", record(way, version))
        check({c["cat"] for c in found} == {"cuda_runtime"} and work, f"{version} {way}: driver calls of "
              "a program that uses the runtime")
    for way in ("driver", "contexts"):
        found, work = check_calls(f"{version} {way}", record(way, version))
        kinds = collections.Counter(w["cat"] for w in work)
        check({c["cat"] for c in found} == {"cuda_driver"}, f"{version} {way}: {found[:1]}")
        check(kinds["kernel"] == 4 and kinds["gpu_memcpy"] == 12 and kinds["gpu_memset"] == 4
              and kinds["cuda_sync"] >= 4, f"{version} {way}: {kinds}")
# Where single calls cannot be switched on, all are, and those that say nothing are left out.
found, _ = check_calls("all calls", record("driver", script="fail cuptiActivityEnableDriverApi * 27\n"))
names = {c["name"] for c in found}
check("cuMemcpyHtoDAsync_v2" in names and "cuStreamCreate" not in names, f"all calls: {names}")
# Copies alone.
check_calls("copies", [e for e in record("driver", types="gpu_memcpy,cuda_driver")])
finish("calls")
