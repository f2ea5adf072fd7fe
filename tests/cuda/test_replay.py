"""Real traces of programs with CUDA, recorded again: their records are replayed by the stand-in, and
come through the plug-in, the recorder and the writer as they were."""
import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin"))
import from_trace  # noqa: E402
from support import check, client, environment, finish, run, temporary, write  # noqa: E402

CKINETO, PLUGIN = os.environ["CKINETO"], os.environ["PLUGIN"]
REAL = os.path.join(os.environ["CKINETO_SHARED"], "traces")
SPAN_US = 1500000
OURS = 4000000000  # correlation ids of the client's own calls begin here

# Calls that the source leaves out because they say nothing.
LEFT_OUT = ("cudaPeekAtLastError", "cudaGetLastError", "cudaGetDevice", "cudaSetDevice",
            "cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy")

SAME = {
    "kernel": ("device", "context", "stream", "correlation", "registers per thread", "shared memory",
               "grid", "block", "graph id", "graph node id", "channel", "channel_type"),
    "gpu_memcpy": ("device", "context", "stream", "correlation", "bytes", "fromDevice", "inDevice",
                   "toDevice", "fromContext", "inContext", "toContext"),
    "gpu_memset": ("device", "context", "stream", "correlation", "bytes"),
    "cuda_runtime": ("cbid", "correlation"),
    "cuda_driver": ("cbid", "correlation"),
    "cuda_sync": ("correlation", "context", "stream", "cuda_sync_kind", "wait_on_stream",
                  "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id"),
    "overhead": (),
}
NEAR = {"kernel": ("blocks per SM", "warps per SM")}


def record(words, trace, version, which, folder):
    """The trace that comes back, and the events that were replayed."""
    script, events = from_trace.script_of(trace, version, SPAN_US)
    span_ms = max((e["end"] for e in events), default=0) // 1000000 + 50
    out = os.path.join(folder, "out.json")
    result = run([CKINETO, "record", "-q", "--no-summary", "-a", "all", "-o", out, "--plugin", PLUGIN,
                  "--", client(which), "replay", str(span_ms)],
                 environment(which, write(folder, "script", script)))
    check(result.returncode == 0, f"{words}: status {result.returncode}: {result.stderr[-400:]}")
    if not check(os.path.exists(out), f"{words}: no trace: {result.stderr[-400:]}"):
        return None, events
    with open(out, encoding="utf-8") as file:
        return json.load(file), events


def key(event):
    return event["cat"], event["args"].get("correlation", 0), event["name"]


def grouped(events):
    groups = collections.defaultdict(list)
    for e in sorted(events, key=lambda e: e["start"]):
        groups[key(e)].append(e)
    return groups


def same(before, after):
    return before == after or (before == 0xffffffff and after == -1)  # no stream, in old traces


def compare_args(words, old, new):
    faults = [f"{k}: {old['args'][k]} is {new['args'].get(k)}" for k in SAME[old["cat"]]
              if k in old["args"] and not same(old["args"][k], new["args"].get(k))]
    for k in NEAR.get(old["cat"], ()):
        before, after = old["args"].get(k), new["args"].get(k)
        # Old releases divided by other numbers of multiprocessors when launches were tiny.
        if before and (after is None or abs(before - after) > 1e-4 * abs(before) + 1e-4):
            faults.append(f"{k}: {before} is {after}")
    return [f"{words}: {old['cat']} {old['name'][:40]} {old['args'].get('correlation')}: {f}"
            for f in faults]


def compare(words, events, trace):
    back = [e for e in from_trace.device_events(trace)
            if e["args"].get("correlation", 0) < OURS]
    events = [e for e in events if e["name"] not in LEFT_OUT]
    old, new = grouped(events), grouped(back)
    missing = [k for k in old if len(old[k]) > len(new.get(k, ()))]
    extra = [k for k in new if len(new[k]) > len(old.get(k, ()))]
    check(not missing, f"{words}: {len(missing)} of {len(old)} are missing: {missing[:3]}")
    check(not extra, f"{words}: {len(extra)} were not there: {extra[:3]}")
    pairs = [(a, b) for k in old for a, b in zip(old[k], new.get(k, ()))]
    shifts = sorted(b["start"] - a["start"] for a, b in pairs)
    shift = shifts[len(shifts) // 2] if shifts else 0
    # The recording's clock is fitted: parts in a million, and what the writer rounds.
    late = [(a, b) for a, b in pairs if abs(b["start"] - a["start"] - shift) > 20000
            or abs(b["end"] - b["start"] - a["end"] + a["start"]) > 1000 + a["end"] // 10**5]
    check(not late, f"{words}: {len(late)} have other times: {late[:1]}")
    faults = [f for a, b in pairs for f in compare_args(words, a, b)]
    check(not faults, f"{words}: {len(faults)} args differ: {faults[:4]}")
    print(f"{words}: {len(pairs)} of {len(events)} came back", flush=True)


def check_trace(path, version, which, name=None):
    words = f"{name or os.path.basename(path)} CUPTI {version}"
    with temporary() as folder:
        trace, events = record(words, from_trace.load(path), version, which, folder)
        if trace:
            compare(words, events, trace)


def check_own(way):
    """A trace of our own of what the stand-in did live; then that trace again."""
    with temporary() as folder:
        out = os.path.join(folder, "own.json")
        result = run([CKINETO, "record", "-q", "--no-summary", "-a", "all", "-o", out,
                      "--plugin", PLUGIN, "--", client("own12"), way, "6"],
                     environment("own12", write(folder, "script", "device h100\ndevice t4\n")))
        if check(result.returncode == 0 and os.path.exists(out), f"{way}: {result.stderr[-400:]}"):
            check_trace(out, 22, "own12", way)


REAL_TRACES = ("cuda_event_sync_multi_stream", "triton_example", "critical_path_simple_add",
               "execution_trace_simple_add", "nccl_data", "negative_queue_a100",
               "trace_diff_control", "resnet50_num_workers_0")

chosen = sys.argv[1:]
if os.path.isdir(REAL):
    for name in chosen or REAL_TRACES:
        check_trace(os.path.join(REAL, name + ".json.gz"), 22, "own12")
    for version in (13, 15, 17, 26, 130202, 130500) if not chosen else ():
        which = "own13" if version > 1000 else "own12"
        check_trace(os.path.join(REAL, "cuda_event_sync_multi_stream.json.gz"), version, which)
else:
    print("skipped the real traces: there is no shared/traces beside the project")
for way in () if chosen else ("streams", "graph", "devices", "driver", "threads"):
    check_own(way)
finish("replay")
