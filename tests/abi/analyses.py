"""docs/reference/analyses.md: every table of `ckineto analyze` and `ckineto diff`, with its columns and what they are.

    analyses.py SOURCE-DIRECTORY            is the page what src/analyze/tables/tables.def and the texts below make?
    analyses.py SOURCE-DIRECTORY --write    make it
"""

import difflib
import os
import re
import sys
import textwrap

# A definition of each table, and the page that has all of it.
TABLES = {
    "temporal_breakdown": (
        "`kernel_us` from the first start to the last end of device work; `idle_us` = that − union of all work; "
        "`compute_us` = union of computation; `non_compute_us` = the rest. Shares are of `kernel_us`.",
        "analyze.md#time-of-the-device"),
    "kernel_types": (
        "For each set of types of work that ran at the same time, how long; each moment counts once. `percentage` = "
        "`sum_us` / union of all work.", "analyze.md#time-of-the-device"),
    "kernels": (
        "For each name of device work: how often, sum, longest, shortest, mean and deviation (n − 1) of its durations.",
        "analyze.md#time-of-the-device"),
    "idle_breakdown": (
        "Gaps of a stream by whether the work behind them had been launched when they began. `ratio_pct` = of the "
        "stream's idle time.", "analyze.md#why-a-stream-was-idle"),
    "overlap": (
        "`overlap_pct` = time in both the union of communication and that of computation / union of communication.",
        "analyze.md#time-of-the-device"),
    "queue_length": (
        "Work that was launched and has not begun, at each launch and each beginning; statistics of these points, not "
        "weighted with time. `full_us`: 1024 or more.", "analyze.md#work-that-waits"),
    "queue_length_series": ("The points of `queue_length`.", "analyze.md#work-that-waits"),
    "memory_bandwidth": (
        "For each kind of copy, the sum of the bandwidths of what runs at once (the argument, else bytes / duration), "
        "at each change.", "analyze.md#copies"),
    "bandwidth_series": ("The points of `memory_bandwidth`.", "analyze.md#copies"),
    "launch_stats": (
        "For each piece of work whose call is known: durations of call and work; `launch_delay_us` = max(0, start of the "
        "work − end of the call).", "analyze.md#launches"),
    "op_launch": (
        "For each operator and what one call of it launches: from its start to its first launching call, and from that "
        "call's end to the work; means.", "analyze.md#launches"),
    "sequences": (
        "Operators that launched the same work in the same order: how often, sums of the work's and of the operators' "
        "durations.", "analyze.md#sequences"),
    "annotations": (
        "For each name, ranges of the user on the host, and what was drawn of them on devices.",
        "analyze.md#ranges-of-the-user"),
    "kernels_annotated": (
        "For each piece of work, the innermost range of the user around the beginning of its call.",
        "analyze.md#ranges-of-the-user"),
    "call_graph": (
        "Each range of the host and each piece of work: what encloses it, how deep, and the work that it and all in it "
        "launched.", "analyze.md#call_graph"),
    "steps": (
        "Windows of steps; each moment counts once, for the first that is true of kernel, copy, memset, communication, "
        "call, data loader, operator, nothing: the parts add up to `dur_us`.", "analyze.md#steps"),
    "operators": (
        "By name, shapes and stack. `host_self_us` = total − operators and calls right inside; `device_total_us` = work "
        "launched by it and its callees, `device_self_us` by itself.", "analyze.md#operators"),
    "gpu_summary": (
        "In the span of all windows: share in which a kernel ran; mean of min(1, Σ blocks per SM); mean occupancy, weighted "
        "with time; share of kernel time on tensor cores.", "analyze.md#gpu_summary"),
    "kernel_use": (
        "For each name of a kernel its time, and its mean blocks per SM and occupancy, weighted with time.",
        "analyze.md#gpu_summary"),
    "kernel_operators": (
        "The same, apart by operator, grid, block, registers and shared memory.", "analyze.md#gpu_summary"),
    "memory": (
        "The highest totals of allocated and reserved memory of each device, when, and what was left in the end.",
        "analyze.md#memory-memory_operators-memory_leaks"),
    "memory_operators": (
        "Sums of the sizes of events inside of an operator, all and those above 0; `self_…` without its callees.",
        "analyze.md#memory-memory_operators-memory_leaks"),
    "memory_leaks": (
        "By the operator that allocated it, what was not released until the trace ends.",
        "analyze.md#memory-memory_operators-memory_leaks"),
    "modules": (
        "Modules of PyTorch by call path: their operators, host time with and without inner modules, work launched in "
        "their calls.", "analyze.md#modules"),
    "counters": ("Numbers that the profiler of kernels measured, with the operator around the launch.",
                 "analyze.md#counters"),
    "execution_trace": ("Ranges of the trace and their nodes in PyTorch's execution trace of the same run.",
                        "analyze.md#execution_trace"),
    "memory_timeline": ("Bytes of each category of memory from each moment on.", "analyze.md#memory_timeline"),
    "stragglers": ("`score` = waiting of the others for this rank / all waiting, with waiting = Σ (duration of a "
                   "collective − its shortest on any rank).", "analyze.md#stragglers"),
    "collectives": (
        "Each collective: `algbw` = bytes / duration, `busbw` = that × the factor of its kind; `exposed_us` = time of it "
        "with no computation beside it.", "analyze.md#collectives"),
    "collective_groups": ("The same by process group and kind, and those below 64 KiB.", "analyze.md#collectives"),
    "idle_named": (
        "Idle time of streams, and of whole devices (stream −1), cut at the launch of the next work and by what the "
        "launching thread did: all reasons add up to the idle time.", "analyze.md#why-a-device-was-idle"),
    "idle_gaps": ("The 20 longest gaps of devices and of streams, the reason with most of each, and what stood around "
                  "them.", "analyze.md#why-a-device-was-idle"),
    "idle_operators": ("Gaps of devices by the operator that the launching thread was in.",
                       "analyze.md#why-a-device-was-idle"),
    "step_statistics": (
        "Median, MAD (median distance from it), least and most of the steps behind the warm-up; outliers are longer than "
        "median + 3.5 · 1.4826 MAD and by more than 5 %.", "analyze.md#steps-as-a-whole"),
    "step_outliers": ("For each outlier the three things that took the most longer than their median over the steps.",
                      "analyze.md#steps-as-a-whole"),
    "roofline": (
        "FLOPs and bytes of operators per device time, as shares of the device's peaks; `bound` is the larger share.",
        "analyze.md#what-the-device-could-do"),
    "mfu": ("`mfu_pct` = FLOPs of a step / (its length × peak of its precision × devices).",
            "analyze.md#what-the-device-could-do"),
    "energy": ("Joules of a device in a step: from its energy counter, else the area below its power.",
               "analyze.md#the-numbers"),
    "critical_path_summary": ("Time on the critical path by what it was spent on; `pct` of the path.", "critical-path.md"),
    "critical_path_edges": ("Every edge of the graph, its kind and time, and whether it is on the path.",
                            "critical-path.md"),
    "critical_path_operators": (
        "For each name its time on the path and in all, and the least slack: by how much it may take longer and nothing "
        "ends later.", "critical-path.md"),
    "distributed_overlap": ("Windows of steps, cut into computation alone, both, communication alone, neither.",
                            "analyze.md#distributed_"),
    "distributed_wait": (
        "Of the communication of a step, the transfer (the shortest that any rank saw of each collective), and what is "
        "longer: waiting.", "analyze.md#distributed_"),
    "distributed_operators": ("Collectives by name: calls, bytes, whole durations, transfers.",
                              "analyze.md#distributed_"),
}
DIFFS = "diff.md#what-is-compared"
HEAD = """# All tables

What `ckineto analyze` and `ckineto diff` compute: each table with its columns and, in short, what it is. The page
behind the link has the whole definition; [analyze.md](analyze.md) says what all have in common: steps, launches,
several ranks, what `hta` does otherwise. [Findings](findings.md) are made of these facts and of nothing else.

Columns are in groups by their unit. Times are us with three digits, percentages go from 0 to 100. *Of each rank*:
several traces have the rows of each. *Added*: rows about the same are one. *A row for each event*: written with
`--series`, `--csv` or `--json` only.

This page is made by tests/abi/analyses.py of `src/analyze/tables/tables.def`.
"""
UNITS = (("_pct", "%"), ("percentage", "%"), ("_us", "us"), ("gbps", "GB/s"), ("tflops", "TFLOP/s"), ("flops", "FLOP"), ("bytes", "bytes"),
         ("joules", "J"), ("watts", "W"))


def read_tables(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    for name, title, flags, columns in re.findall(r'X\((\w+),\s*"([^"]*)",\s*([\w |]+),\s*((?:"[^"]*"\s*)+)\)', text):
        columns = "".join(re.findall(r'"([^"]*)"', columns)).split()
        yield name, title, set(flags.split(" | ")), [c.split(":") for c in columns]


def unit_of(table, name, kind):
    if table == "memory_bandwidth" and kind[0] == "n":
        return "GB/s"
    if kind[0] == "t":
        return "text"
    if kind[0] == "u":
        return "us"
    return next((unit for end, unit in UNITS if name.endswith(end)), "number")


def columns_of(table, columns):
    groups = {}
    for name, kind in columns:
        groups.setdefault(unit_of(table, name, kind), []).append(f"`{name}`")
    return "; ".join(f"{unit}: {' '.join(names)}" for unit, names in groups.items())


def rows_of(flags, columns):
    words = ["a row for each event"] if "KA_SERIES" in flags else []
    if "KA_SUMMED" in flags:
        words.append("added")
    elif columns[0][0] == "rank":
        words.append("of each rank")
    return ", ".join(words).capitalize() + "." if words else ""


def page(source):
    lines, diff, seen = [HEAD], [], set()
    for name, title, flags, columns in read_tables(os.path.join(source, "src/analyze/tables/tables.def")):
        if "KA_HIDDEN" in flags:
            continue
        seen.add(name)
        is_diff = "KA_DIFF" in flags
        if not is_diff and name not in TABLES:
            sys.exit(f"{name} has no definition in {__file__}")
        text, link = ("", DIFFS) if is_diff else TABLES[name]
        block = [f"### {name}", "", f"**{title}.** {text} [More]({link})".replace("  ", " "), "",
                 f"{columns_of(name, columns)}. {rows_of(flags, columns)}".strip(), ""]
        block = [textwrap.fill(part, 110, break_long_words=False, break_on_hyphens=False) for part in block]
        (diff if is_diff else lines).extend(block)
    unknown = set(TABLES) - seen
    if unknown:
        sys.exit(f"{__file__} defines what is no table: {', '.join(sorted(unknown))}")
    lines[1:1] = ["## Of traces", ""]
    return "\n".join(lines + ["## Of two traces", ""] + diff).rstrip("\n") + "\n"


def missing_links(source):
    """Headings that links name, as a page of Markdown calls them."""
    for name, (_, link) in list(TABLES.items()) + [("diff_…", ("", DIFFS))]:
        path, _, anchor = link.partition("#")
        with open(os.path.join(source, "docs/reference", path), encoding="utf-8") as file:
            headings = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
                        for h in re.findall(r"^#+ (.*)$", file.read(), flags=re.M)}
        if anchor and anchor not in headings:
            yield f"{name}: {path} has no heading #{anchor}"


def main():
    source, path = sys.argv[1], os.path.join(sys.argv[1], "docs/reference/analyses.md")
    text = page(source)
    if sys.argv[2:] == ["--write"]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    with open(path, encoding="utf-8") as file:
        old = file.read()
    wrong = list(missing_links(source))
    if old != text:
        wrong += ["docs/reference/analyses.md is not what tables.def makes: analyses.py . --write", *list(
            difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm=""))[:20]]
    sys.exit("\n".join(wrong) or 0)


main()
