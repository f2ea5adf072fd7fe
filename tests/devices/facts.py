"""What the traces of a source report: kinds of activities, arguments, properties and counters of devices, and what
the names of copies say."""
import re

KINDS = {"kernels": ("kernel",), "copies": ("gpu_memcpy", "gpu_memset"), "waits": ("cuda_sync", "xpu_sync", "cuda_event"),
         "memory": ("gpu_memory",), "communication": ("nccl",),
         "calls": ("cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "runtime", "driver"), "overhead": ("overhead",)}
DEVICE_KINDS = tuple(kind for kinds in KINDS.values() for kind in kinds)
# Of faults, of operators, and of open events: no property of a source.
LEFT_OUT = ("bad timestamps", "External id", "not ended", "arguments lost")
# Kineto's own traces have another type here, and readers of them expect it.
OTHER_TYPE = {("XPU", "context")}
# What depends on the driver, or on how fast it is: it stays on the page although this run has none.
BY_RUN = {("OpenCL", "kernels"), ("Vulkan", "kernels"), ("Vulkan", "timing")}


def events_of(traces, kinds):
    return [e for t in traces for e in t["traceEvents"] if e.get("ph") in "Xi" and e.get("cat") in kinds]


def arguments(traces, group):
    """{argument: value} of a group of kinds."""
    found = {}
    for event in events_of(traces, KINDS[group]):
        for key, value in event.get("args", {}).items():
            if key not in LEFT_OUT:
                found.setdefault(key, value)
    return found


def kinds(traces):
    return {e["cat"] for e in events_of(traces, DEVICE_KINDS)}


def properties(traces):
    """Of devices; a communicator is none."""
    return {key for t in traces for d in t.get("deviceProperties", []) for key in d if key != "id"}


def counters(traces):
    """"GPU power: power [W]". Of a device only; samples of the machine are another source's."""
    return {f"{e['name']}: {series}" for t in traces for e in t["traceEvents"]
            if e.get("ph") == "C" and e["name"].startswith("GPU") for series in e.get("args", {})}


def places(traces):
    """{"Memcpy HtoD": "kinds of memory"}: what stands in brackets after the direction."""
    found = {}
    for event in events_of(traces, KINDS["copies"]):
        whole = re.match(r"([^(]+) \((.*)\)$", event["name"])
        name, inside = whole.groups() if whole else (event["name"], "")
        what = "the call" if re.match(r"(cl|vk)[A-Z]", inside) else "kinds of memory" if inside else "yes"
        found.setdefault(re.sub(r" \d+$", "", name), what)
    return found
