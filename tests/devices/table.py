"""docs/reference/devices.md: what each source of device work reports, taken from traces that it writes.

    ctest --preset dev -R docs.devices_table                        check that the page is up to date
    DEVICES_TABLE=write ctest --preset dev -R docs.devices_table    write it

ctest says where the sources are. The columns of sources that cannot work here (OpenCL and Vulkan need a
driver) are taken from the page as it is.
"""
import difflib
import os
import re
import sys

import facts
import meanings
from sources import SOURCES, record_all

PAGE = "docs/reference/devices.md"
NO = "–"

HEAD = """# What each source of device work reports

This page is for users who compare traces of different devices, and for authors of sources and analyses. Sources for CUDA, ROCm,
Intel GPUs (XPU), OpenCL, Vulkan and NCCL use one set of kinds, names, arguments and units: those of Kineto for CUDA, so that one table and one
finding suits all. SYCL programs are recorded by the source of the interface that their runtime uses: Level Zero (XPU) or OpenCL.

A dash is a value that the source does not report, because its interface does not have it. Analyses do not guess it: a rule that needs
it is skipped with the words "not reported" (`ckineto analyze --findings`).

The tables are made by the test `docs.devices_table` from traces that the sources write, of CUDA, ROCm, XPU and NCCL on stand-ins for the
vendors' libraries, of OpenCL and Vulkan on drivers for processors: `DEVICES_TABLE=write ctest --preset dev -R docs.devices_table`
writes them. What needs other hardware is not in them: waits of Vulkan's queues for each other (`cuda_sync`) need a second queue.

## What is the same everywhere

* `grid` counts blocks, which OpenCL and Vulkan call work groups; `block` counts the threads of one. Both always have three numbers.
* `stream` is the number of a row of the device: a stream, a queue, or a hardware queue of AMD. Handles have other keys.
* Bandwidth is in GB/s (bytes / ns), times relative to the start of the work are in us, sizes in bytes.
* A copy is `Memcpy HtoD (…)`, `DtoH`, `DtoD` or `HtoH`: the direction comes first, which is what the analyses read. In the
  brackets are the kinds of memory, or the call where the interface does not tell them.
* Work that one call launched, also all of a graph or of a submission, has the `correlation` of that call, and an arrow from it.
  Analyses of launches and graphs use only this; `graph id` and `graph node id` say in addition which node it was.
* Operators (`External id`), annotations and call stacks belong to the launching call, and are therefore the same for all sources.

## What still differs

| source | difference | reason |
|---|---|---|
| CUDA | `queued` is a time in us, 0 for most | Kineto's key; others have times relative to the start |
| ROCm | `cid` instead of `cbid`, `kind` of a copy | Kineto's keys for HIP |
| ROCm | copies are on stream 0; fills are kernels | rocprofiler-sdk reports no queue of copies, HIP fills with kernels |
| ROCm | `numSms` counts compute units, `registers per thread` vector registers | Kineto's keys for HIP; no counterpart |
| XPU | no `grid`, `block`, registers and shared memory | PTI does not report them |
| XPU | `context` is a handle in text; waits are `xpu_sync`, calls `xpu_runtime`, `xpu_driver` | Kineto's keys for XPUs |
| XPU | directions are `M2D`, `D2M`, `D2D`, and S for shared memory | PTI's words, as in Kineto |
| OpenCL | no `grid` and `block` where the driver chose the size of groups: `global size` | OpenCL does not report the choice |
| OpenCL | a command buffer is one kernel, without `graph id` | its commands have no times |
| OpenCL, Vulkan | calls are `runtime`, not `cuda_runtime` | the name is the vendor's |
| OpenCL, Vulkan | `maxComputeUnits`, `maxWorkGroupSize`, `localMemSize` | Kineto's keys for XPUs; a compute unit is not a multiprocessor |
| Vulkan | no `context`; `wait_on_cuda_event_record_corr_id` of a semaphore is the submission that signals it | Vulkan has neither |
| NCCL | rows below the communicator, of the kind `nccl` | they are no work of a device queue |

"""


def as_yes(keys):
    return {key: "yes" for key in keys}


def others(traces):
    """Arguments of copies beyond those of kernels."""
    return {key: "yes" for key in facts.arguments(traces, "copies") if key not in meanings.KERNELS}


def of_group(group):
    return lambda traces: as_yes(facts.arguments(traces, group))


def of_waits(traces):
    return {key: "yes" for key in facts.arguments(traces, "waits") if key not in meanings.KERNELS}


def of_memory(traces):
    return {key: "yes" for key in facts.arguments(traces, "memory") if key not in meanings.KERNELS}


def of_calls(traces):
    return {key: "yes" for key in facts.arguments(traces, "calls") if key not in meanings.KERNELS}


# Heading, text, what a source has, meanings (None: no such column).
SECTIONS = (
    ("Kinds", "", lambda t: as_yes(facts.kinds(t)), meanings.KINDS),
    ("Arguments of kernels", "Arguments of copies and fills are the same as far as they apply to them.", of_group("kernels"),
     meanings.KERNELS),
    ("Further arguments of copies and fills", "", others, meanings.COPIES),
    ("Names of copies and fills", "What the brackets after the name contain: the kinds of memory, or the call.", facts.places, None),
    ("Further arguments of waits and events", "", of_waits, meanings.WAITS),
    ("Further arguments of allocations", "", of_memory, meanings.MEMORY),
    ("Further arguments of calls", "", of_calls, meanings.CALLS),
    ("Properties of devices", "In the header of the trace, `deviceProperties`.", lambda t: as_yes(facts.properties(t)),
     meanings.PROPERTIES),
    ("Counters", "Sampled if an option of the source asks for them; the row, and the series in it. `PM sampling` of CUDA, which "
     "stand-ins do not have, adds a series for each metric.", lambda t: as_yes(facts.counters(t)),
     None),
)


# ---- the page as it is ---------------------------------------------------------------------------------

def read_page(text):
    """{heading: {row: {source: cell}}}"""
    page = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in body.splitlines() if line.startswith("|")]
        rows = page.setdefault(heading, {})
        for line in lines[2:]:
            rows[line[0].strip("`")] = dict(zip(lines[0][1:], line[1:]))
    return page


def is_writing():
    return os.environ.get("DEVICES_TABLE") == "write"


def merge(heading, found, missing, page):
    """{row: {source: cell}}: what was found, and of sources that are left out what the page has. A machine that is busy
    may take no sample of a counter while the program runs."""
    table = {key: {} for cells in found.values() for key in cells}
    for row, cells in page.get(heading, {}).items():
        for source in SOURCES:
            stays = source in missing or (source, row) in facts.BY_RUN or (heading == "Counters" and not is_writing())
            if stays and cells.get(source, NO) != NO:
                table.setdefault(row, {})[source] = cells[source]
    for source, cells in found.items():
        for key, cell in cells.items():
            table[key][source] = cell
    return table


# ---- the page as it is to be -----------------------------------------------------------------------------

def order(table, words):
    listed = [key for key in words or () if key in table]
    return listed + sorted(key for key in table if key not in listed)


def write_section(heading, text, table, words, faults):
    columns = [source for source in SOURCES if any(source in cells for cells in table.values())]
    lines = [f"## {heading}", ""] + ([text, ""] if text else [])
    lines.append("| " + " | ".join(["name", *columns] + ["meaning"] * (words is not None)) + " |")
    lines.append("|---" * (len(columns) + 1 + (words is not None)) + "|")
    for key in order(table, words):
        if words is not None and key not in words:
            faults.append(f"{PAGE}: '{key}' ({heading}, {', '.join(table[key])}) has no meaning: name it in tests/devices/meanings.py")
        cells = [f"`{key}`"] + [table[key].get(source, NO) for source in columns]
        lines.append("| " + " | ".join(cells + ([words.get(key, "")] if words is not None else [])) + " |")
    return "\n".join(lines) + "\n"


def make_page(traces, missing, old, faults):
    page, sections = read_page(old), []
    for heading, text, of, words in SECTIONS:
        table = merge(heading, {source: of(t) for source, t in traces.items()}, missing, page)
        sections.append(write_section(heading, text, table, words, faults))
    return HEAD + "\n".join(sections)


# ---- one meaning for all -----------------------------------------------------------------------------------

def shape_of(value):
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    return f"{len(value)} numbers" if isinstance(value, list) else "text" if isinstance(value, str) else "object"


def check_shapes(traces, faults):
    """An argument has the same type whatever the source."""
    for group in ("kernels", "copies", "waits", "memory"):
        seen = {}
        for source, of in traces.items():
            for key, value in facts.arguments(of, group).items():
                if (source, key) not in facts.OTHER_TYPE:
                    seen.setdefault(key, {})[source] = shape_of(value)
        faults += [f"{group}: '{key}' differs: {shapes}" for key, shapes in seen.items() if len(set(shapes.values())) > 1]


def check_streams(traces, faults):
    """Numbers of streams are small; handles are larger."""
    for source, of in traces.items():
        for event in facts.events_of(of, facts.DEVICE_KINDS + ("user_annotation",)):
            stream = event.get("args", {}).get("stream", 0)
            if not isinstance(stream, int) or not -1 <= stream < 1 << 32:
                faults.append(f"{source}: {event['cat']} {event['name']}: stream {stream} is no number of a row")
                break


def check_sizes(traces, faults):
    """Grids count blocks: a launch that says grid and block has both in three dimensions."""
    for source, of in traces.items():
        for event in facts.events_of(of, ("kernel",)):
            args = event.get("args", {})
            for key in ("grid", "block"):
                if key in args and (len(args[key]) != 3 or min(args[key]) < 1):
                    faults.append(f"{source}: {event['name']}: {key} {args[key]}")
            if "global size" in args and "grid" in args:
                faults.append(f"{source}: {event['name']}: both grid and global size: {args}")


def main():
    path = os.path.join(os.environ.get("CKINETO_SOURCE", "."), PAGE)
    traces, missing = record_all()
    if not traces:
        print("skipped: no source of device work can be tried here")
        sys.exit(77)
    faults, old = [], ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            old = file.read()
    check_shapes(traces, faults)
    check_streams(traces, faults)
    check_sizes(traces, faults)
    new = make_page(traces, missing, old, faults)
    if is_writing() and not faults:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)
    elif old != new:
        faults += [f"{PAGE} is out of date: run 'DEVICES_TABLE=write ctest --preset dev -R docs.devices_table'",
                   *list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[:60]]
    print("\n".join(faults) or f"{PAGE} is what {', '.join(traces)} report")
    sys.exit(1 if faults else 0)


main()
