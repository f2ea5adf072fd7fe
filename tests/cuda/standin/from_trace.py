"""Turns a trace that Kineto made of a program with CUDA into a script that replays its records:
    from_trace.py TRACE.json[.gz] [CUPTI-VERSION [MICROSECONDS]] > script
The tests use `script_of` and `device_events`."""
import gzip
import json
import re
import sys

# The layouts of records that a version of CUPTI delivers.
LAYOUTS = {
    13: ("Kernel5", "Memcpy3", "MemcpyPtoP2", "Memset2", "Synchronization", "CudaEvent", "Overhead"),
    15: ("Kernel6", "Memcpy4", "MemcpyPtoP3", "Memset3", "Synchronization", "CudaEvent", "Overhead"),
    17: ("Kernel7", "Memcpy5", "MemcpyPtoP4", "Memset4", "Synchronization", "CudaEvent", "Overhead"),
    18: ("Kernel8", "Memcpy5", "MemcpyPtoP4", "Memset4", "Synchronization", "CudaEvent", "Overhead"),
    22: ("Kernel9", "Memcpy5", "MemcpyPtoP4", "Memset4", "Synchronization", "CudaEvent", "Overhead3"),
    26: ("Kernel9", "Memcpy6", "MemcpyPtoP4", "Memset4", "Synchronization2", "CudaEvent2",
         "Overhead3"),
    130202: ("Kernel11", "Memcpy6", "MemcpyPtoP4", "Memset4", "Synchronization2", "CudaEvent2",
             "Overhead3"),
    130500: ("Kernel13", "Memcpy7", "MemcpyPtoP4", "Memset5", "Synchronization2", "CudaEvent3",
             "Overhead3"),
}
MEMORY = ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static",
          "Managed Static"]
COPY = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
SYNC = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
OVERHEAD = {"Unknown": 0, "Driver Compiler": 1, "Buffer Flush": 1 << 16, "Instrumentation": 2 << 16,
            "Resource": 3 << 16, "Runtime Triggered Module Loading": 4 << 16,
            "Lazy Function Loading": 5 << 16, "Command Buffer Full": 6 << 16,
            "Activity Buffer Request": 7 << 16}
CATEGORIES = {"kernel": "kernel", "gpu_memcpy": "gpu_memcpy", "memcpy": "gpu_memcpy",
              "gpu_memset": "gpu_memset", "memset": "gpu_memset", "cuda_runtime": "cuda_runtime",
              "runtime": "cuda_runtime", "cuda_driver": "cuda_driver", "cuda_sync": "cuda_sync",
              "overhead": "overhead"}


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def category(event):
    return CATEGORIES.get(str(event.get("cat")).lower()) if event.get("ph") == "X" else None


def device_events(trace, span_us=None):
    """What CUPTI had recorded (in the last microseconds), in order of time; times in ns from the
    first, which is 1."""
    events = [e for e in trace["traceEvents"] if category(e) and e.get("args") is not None
              or category(e) == "overhead"]
    if span_us is not None and events:
        last = max(e["ts"] + e.get("dur", 0) for e in events)
        events = [e for e in events if e["ts"] >= last - span_us]
    if not events:
        return []
    base = min(e["ts"] for e in events)
    result = []
    for e in events:
        start = round((e["ts"] - base) * 1000) + 1
        end = start + round(e.get("dur", 0) * 1000)
        result.append({"cat": category(e), "name": e["name"], "start": start, "end": end,
                       "args": e.get("args", {}), "tid": e["tid"], "pid": e["pid"]})
    return sorted(result, key=lambda e: (e["end"], e["start"]))


def quoted(text):
    return '"' + re.sub(r'([\\"])', r"\\\1", text) + '"'


def line(layout, **fields):
    return f"record {layout} " + " ".join(f"{k}={v}" for k, v in fields.items())


def place(event):
    args = event["args"]
    return {"start": event["start"], "end": event["end"], "deviceId": args.get("device", 0),
            "contextId": args.get("context", 0), "streamId": args.get("stream", 0),
            "correlationId": args.get("correlation", 0)}


def optional(args, **names):
    return {field: args[key] for field, key in names.items() if key in args}


def kernel(layouts, event):
    a = event["args"]
    g, b = a.get("grid", [1, 1, 1]), a.get("block", [1, 1, 1])
    more = {"registersPerThread": a.get("registers per thread", 0),
            "dynamicSharedMemory": a.get("shared memory", 0)}
    if layouts[0] not in ("Kernel5", "Kernel6", "Kernel7"):
        more.update(optional({k.replace(" ", "_"): v for k, v in a.items()}, graphId="graph_id",
                             graphNodeId="graph_node_id", channelID="channel",
                             channelType="channel_type"))
    return line(layouts[0], name=quoted(event["name"]), queued=0, gridX=g[0], gridY=g[1], gridZ=g[2],
                blockX=b[0], blockY=b[1], blockZ=b[2], **place(event), **more)


def copy(layouts, event):
    a, words = event["args"], re.match(r"Memcpy (\w+) \((.*?) -> (.*?)\)", event["name"])
    kinds = {"copyKind": COPY.index(words.group(1)), "srcKind": MEMORY.index(words.group(2)),
             "dstKind": MEMORY.index(words.group(3)), "bytes": a.get("bytes", 0)}
    if "fromDevice" not in a:
        return line(layouts[1], **kinds, **place(event))
    own = dict(place(event), deviceId=a["inDevice"], contextId=a.get("inContext", 0))
    return line(layouts[2], **kinds, **own, srcDeviceId=a["fromDevice"], dstDeviceId=a["toDevice"],
                srcContextId=a.get("fromContext", 0), dstContextId=a.get("toContext", 0))


def memset(layouts, event):
    memory = re.match(r"Memset \((.*)\)", event["name"]).group(1)
    return line(layouts[3], memoryKind=MEMORY.index(memory), bytes=event["args"].get("bytes", 0),
                **place(event))


def call(event, kind):
    return line("API", kind=kind, cbid=event["args"]["cbid"], start=event["start"],
                end=event["end"], threadId=event["tid"], correlationId=event["args"]["correlation"])


def sync(layouts, event):
    a = event["args"]
    lines, own = [], a.get("wait_on_cuda_event_id", -1)
    # Old traces do not say which recording of the event was waited for: one before the wait.
    recorded = a.get("wait_on_cuda_event_record_corr_id", a.get("correlation", 0) - 1)
    if a.get("wait_on_stream", -1) >= 0 and recorded >= 0:
        lines.append(line(layouts[5], correlationId=recorded, contextId=a["context"],
                          streamId=a["wait_on_stream"], eventId=own))
    lines.append(line(layouts[4], type=SYNC.get(event["name"], 0), start=event["start"],
                      end=event["end"], correlationId=a.get("correlation", 0),
                      contextId=a.get("context", 0), streamId=a.get("stream", -1), cudaEventId=own))
    return "\n".join(lines)


def overhead(layouts, event):
    return line(layouts[6], overheadKind=OVERHEAD.get(event["name"], 0), start=event["start"],
                end=event["end"])


def record_of(layouts, event):
    return {"kernel": kernel, "gpu_memcpy": copy, "gpu_memset": memset, "cuda_sync": sync,
            "overhead": overhead, "cuda_runtime": lambda _, e: call(e, 5),
            "cuda_driver": lambda _, e: call(e, 4)}[event["cat"]](layouts, event)


def device_lines(trace):
    keys = {"major": "computeMajor", "minor": "computeMinor", "sm": "numSms",
            "memory": "totalGlobalMem", "threads_per_sm": "maxThreadsPerMultiprocessor",
            "threads_per_block": "maxThreadsPerBlock", "warp": "warpSize",
            "registers_per_block": "regsPerBlock", "registers_per_sm": "regsPerMultiprocessor",
            "shared_per_block": "sharedMemPerBlock", "shared_optin": "sharedMemPerBlockOptin",
            "shared_per_sm": "sharedMemPerMultiprocessor"}
    usual = {9: "h100", 8: "a100", 7: "v100"}
    for device in trace.get("deviceProperties", []):
        if "computeMajor" not in device:
            continue
        values = " ".join(f"{k}={device[v]}" for k, v in keys.items() if v in device)
        yield (f"device {usual.get(device['computeMajor'], 'a100')} name={quoted(device['name'])} "
               f"{values}")


def callback_lines(events):
    """Names of calls; those without an id in the trace get one that no call has."""
    names = {}
    for e in events:
        if e["cat"] in ("cuda_runtime", "cuda_driver"):
            domain = 2 if e["cat"] == "cuda_runtime" else 1
            key = (domain, e["name"])
            e["args"].setdefault("cbid", names.get(key, 1000 + len(names)))
            names[key] = e["args"]["cbid"]
            e["args"].setdefault("correlation", 0)
    return [f"callback {d} {cbid} {quoted(name)}" for (d, name), cbid in names.items()]


def external_of(event):
    args = event["args"]
    id_of = args.get("External id", args.get("external id", 0))
    return id_of if id_of != args.get("correlation") else 0


def external_lines(events):
    ids = {}
    for e in events:
        if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset") and external_of(e):
            ids[e["args"]["correlation"]] = external_of(e)
    return {c: line("ExternalCorrelation", externalKind=3, externalId=i, correlationId=c)
            for c, i in ids.items()}


def script_of(trace, version=22, span_us=None):
    """The script, and the events that it replays."""
    events = device_events(trace, span_us)
    layouts = LAYOUTS[version]
    lines = [f"version {version}", "correlation 4000000000", "replay at cudaDeviceSynchronize 1",
             *device_lines(trace), *callback_lines(events)]
    external = external_lines(events)
    for e in events:
        if e["cat"] not in ("cuda_sync", "overhead") and e["args"].get("correlation") in external:
            lines.append(external.pop(e["args"]["correlation"]))
        lines.append(record_of(layouts, e))
    return "\n".join(lines) + "\n", events


if __name__ == "__main__":
    print(script_of(load(sys.argv[1]), *map(int, sys.argv[2:4]))[0], end="")
