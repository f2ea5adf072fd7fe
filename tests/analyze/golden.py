"""What `ckineto analyze --definitions hta` finds, compared with HolisticTraceAnalysis.

golden.py CKINETO SHOW_SCOPE SHARED EXCEPTIONS [TRACE...]

SHARED/traces has traces, SHARED/golden/<trace> HTA's answers; both are public data that do not come
with the source, and without them nothing is tested. Times are whole microseconds on both sides, and
where HTA has ratios, we have percentages. Columns that HTA rounds must be equal when rounded like
that, all others to one part in 10^9. EXCEPTIONS lists, with the reason, what may differ.
"""
import collections
import csv
import fnmatch
import gzip
import json
import math
import os
import re
import subprocess
import sys
import tempfile

csv.field_size_limit(1 << 30)
TABLES = ("temporal_breakdown,kernel_types,kernels,idle_breakdown,overlap,queue_length,"
          "queue_length_series,memory_bandwidth,bandwidth_series,launch_stats,op_launch,annotations,"
          "kernels_annotated")


def rows_of(path):
    """Rows of a CSV file, also of path + ".gz"; None if there is none."""
    if os.path.exists(path + ".gz"):
        path += ".gz"
    if not os.path.exists(path):
        return None
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def summary_rows(path, first):
    """pandas' describe() has three lines for a head."""
    if not os.path.exists(path):
        return None
    with open(path, newline="") as file:
        lines = list(csv.reader(file))
    if len(lines[0]) < 10:
        return []
    names = ["rank", first, "count", "mean", "std", "min", "p25", "p50", "p75", "max"]
    return [dict(zip(names, line)) for line in lines[3:]]


def same(ours, golden, digits):
    """Equal, if ours is rounded to this number of digits (None: not at all)."""
    if ours == golden:
        return True
    try:
        ours, golden = float(ours or 0), float(golden or 0)
    except (TypeError, ValueError):
        return False
    if math.isinf(ours):
        return False
    if math.isnan(golden):
        golden = 0
    if digits is None:
        return abs(ours - golden) <= 1e-9 * max(abs(golden), 1)
    return abs(ours - golden) <= 0.5 * 10**-digits + 1e-9 * max(abs(ours), 1) and same(
        round(golden, digits), golden, None)


class Comparison:
    def __init__(self, trace, exceptions):
        self.trace = trace
        self.exceptions = [e for e in exceptions if fnmatch.fnmatch(trace, e["trace"])]
        self.wrong = collections.Counter()
        self.checked = collections.Counter()

    def excepted(self, table, key, column):
        for e in self.exceptions:
            if fnmatch.fnmatch(table, e["table"]) and fnmatch.fnmatch(str(key), e["row"]) and \
                    fnmatch.fnmatch(column, e["column"]):
                e["used"] = True
                return True
        return False

    def differ(self, table, key, column, ours, golden):
        if self.excepted(table, key, column):
            return
        self.wrong[table] += 1
        if self.wrong[table] <= 3:
            print(f"{self.trace}: {table} {str(key)[:150]} {column}: {ours} here, {golden} there")

    def tables(self, table, ours, golden, digits=None):
        """Dicts from a key to lists of dicts: all of `golden`, and nothing else."""
        digits = digits or {}
        for key in sorted(set(ours) | set(golden), key=str):
            a, b = ours.get(key, []), golden.get(key, [])
            if len(a) != len(b):
                self.differ(table, key, "rows", len(a), len(b))
                continue
            for x, y in zip(a, b):
                for column in y:
                    self.checked[table] += 1
                    if not same(x[column], y[column], digits.get(column)):
                        self.differ(table, key, column, x[column], y[column])


def keyed(rows, key, values):
    """rows as a dict; `values` maps columns to functions or to columns."""
    out = collections.defaultdict(list)
    for row in rows or []:
        out[tuple(row[k] if isinstance(k, str) else k(row) for k in key)].append(
            {name: of(row) if callable(of) else row[of] for name, of in values.items()})
    return out


def times(*names):
    return {n: n for n in names}


def percent(column):
    return lambda row: float(row[column]) * 100 if row[column] else ""


def compare_breakdowns(c, ours, golden):
    plain = rows_of(golden("temporal_breakdown.csv"))
    if plain is not None:
        parts = ("idle", "compute", "non_compute")
        ours_values = {p: p + "_us" for p in parts + ("kernel",)}
        ours_values.update({p + "%": p + "_pct" for p in parts})
        there = {p: p + "_time(us)" for p in parts + ("kernel",)}
        there.update({p + "%": p + "_time_pctg" for p in parts})
        c.tables("temporal_breakdown", keyed(ours("temporal_breakdown"), ["rank"], ours_values),
                 keyed(plain, ["rank"], there), {p + "%": 2 for p in parts})
    c.tables("kernel_types",
             keyed(ours("kernel_types"), ["kernel_type"], {"sum": "sum_us", "%": "percentage"}),
             keyed(rows_of(golden("kernel_breakdown_full.0.csv")), ["kernel_type"],
                   {"sum": "sum", "%": "percentage"}), {"%": 1})
    there = {n: n + " (us)" for n in ("sum", "max", "min", "mean")} | {"stddev": "stddev"}
    c.tables("kernels",
             keyed(ours("kernels"), ["rank", "kernel_type", "name"], {n: n + "_us" for n in there}),
             keyed(rows_of(golden("kernel_breakdown_full.1.csv")), ["rank", "kernel_type", "name"],
                   there))
    c.tables("overlap", keyed(ours("overlap"), ["rank"], {"%": "overlap_pct"}),
             keyed((r for r in rows_of(golden("comm_comp_overlap.csv"))
                    if r["comp_comm_overlap_pctg"] or ours("overlap")), ["rank"],
                   {"%": "comp_comm_overlap_pctg"}), {"%": 2})
    plain = rows_of(golden("idle_time_breakdown.0.csv"))
    if plain is not None:
        c.tables("idle_breakdown",
                 keyed(ours("idle_breakdown"), ["rank", "stream", "category"],
                       {"idle": "idle_us", "%": "ratio_pct"}),
                 keyed(plain, ["rank", "stream", "idle_category"],
                       {"idle": "idle_time", "%": percent("idle_time_ratio")}), {"%": 0})


DESCRIBED = ("count", "mean", "std", "min", "p25", "p50", "p75", "max")


def compare_summary(c, table, name, ours, path):
    there = summary_rows(path, name)
    if there is not None:
        c.tables(table, keyed(ours(table), ["rank", name], times(*DESCRIBED)),
                 keyed(there, ["rank", name], times(*DESCRIBED)))
    elif os.path.exists(path.replace(".csv", ".none")):
        c.tables(table, keyed(ours(table), ["rank", name], {}), {})


def time_full(rows, least):
    """Of a stream's series: how long it was at `least` or longer."""
    return sum(float(b["ts_us"]) - float(a["ts_us"]) for a, b in zip(rows, rows[1:])
               if int(a["length"]) >= least)


def compare_queues(c, ours, golden, shift):
    compare_summary(c, "queue_length", "stream", ours, golden("queue_length_summary.csv"))
    series = ours("queue_length_series")
    for rank in sorted({r["rank"] for r in series}):
        there = rows_of(golden(f"queue_length_time_series.rank{rank}.csv"))
        c.tables("queue_length_series",
                 keyed((r for r in series if r["rank"] == rank), ["stream"],
                       {"ts": lambda r: float(r["ts_us"]) + shift[rank], "length": "length"}),
                 keyed(there, ["stream"], {"ts": "ts", "length": "queue_length"}))
    for least, name in ((100, "time_blocked_on_queue_ge_100"), (1024, "time_blocked_on_full_queue")):
        for row in rows_of(golden(name + ".csv")) or []:
            of = [r for r in series if r["rank"] == row["rank"] and r["stream"] == row["stream"]]
            c.tables(name, {"all": [{"us": time_full(of, least)}]},
                     {"all": [{"us": row["duration_at_max_queue_length"]}]})
    full = keyed(ours("queue_length"), ["rank", "stream"], {"full": "full_us"})
    again = {key: [{"full": time_full([r for r in series if (r["rank"], r["stream"]) == key], 1024)}]
             for key in full}
    c.tables("queue_length.full_us", full, again)


def compare_bandwidth(c, ours, golden, shift):
    compare_summary(c, "memory_bandwidth", "name", ours, golden("memory_bw_summary.csv"))
    series = ours("bandwidth_series")
    for rank in sorted({r["rank"] for r in series}):
        c.tables("bandwidth_series",
                 keyed((r for r in series if r["rank"] == rank), ["name"],
                       {"ts": lambda r: float(r["ts_us"]) + shift[rank], "gbps": "gbps"}),
                 keyed(rows_of(golden(f"memory_bw_time_series.rank{rank}.csv")), ["name"],
                       {"ts": "ts", "gbps": "memory_bw_gbps"}))


def compare_launches(c, ours, golden, ranks, first):
    """`first`: tables of the first rank alone, which is the one HTA was asked about."""
    for rank in ranks:
        there = rows_of(golden(f"cuda_kernel_launch_stats.rank{rank}.csv"))
        columns = {"cpu": "cpu_duration", "gpu": "gpu_duration", "delay": "launch_delay"}
        here = {"cpu": "cpu_us", "gpu": "gpu_us", "delay": "launch_delay_us"}
        c.tables("launch_stats",
                 keyed((r for r in ours("launch_stats") if r["rank"] == rank), ["correlation"], here),
                 keyed(there, [lambda r: str(int(float(r["correlation"])))], columns))
    there = rows_of(golden(f"aten_op_kernels_and_delay.rank{ranks[0]}.csv"))
    if there is not None:
        c.tables("op_launch",
                 keyed(first("op_launch"), ["op", "kernels"],
                       {"count": "count", "op_us": "op_launch_delay_us", "us": "runtime_delay_us"}),
                 keyed(there, ["aten_op_name", "kernel_sequence"],
                       {"count": "occurrence_count", "op_us": "avg_aten_op_launch_delay",
                        "us": "avg_runtime_delay"}), {"op_us": 3, "us": 3})


def compare_annotations(c, ours, golden, shift):
    values = {n: n + " (us)" for n in ("sum", "max", "min", "mean")} | {"stddev": "stddev"}
    for where, name in (("host", "cpu"), ("device", "gpu")):
        there = rows_of(golden(f"user_annotation_breakdown_{name}.csv"))
        c.tables("annotations",
                 keyed((r for r in ours("annotations") if r["where"] == where), ["rank", "name"],
                       {n: n + "_us" for n in values}),
                 keyed(there, ["rank", "name"], values))
    there = rows_of(golden("gpu_kernels_with_user_annotations.csv"))
    rank = min(shift)
    c.tables("kernels_annotated",
             keyed(ours("kernels_annotated"), [
                 "kernel", "annotation", lambda r: float(r["ts_us"]) + shift[rank],
                 lambda r: float(r["dur_us"])], {}),
             keyed(there, ["s_name", "s_user_annotation", lambda r: float(r["ts"]),
                           lambda r: float(r["dur"])], {}))


def compare_scope(c, show_scope, path, golden, rank):
    """Every event that HTA kept. @return what is to be added to our times, which begin with the rank."""
    there = sorted(rows_of(golden(f"parsed_filtered_events.rank{rank}.csv")),
                   key=lambda r: int(r["index"]))
    text = subprocess.run([show_scope, path], stdout=subprocess.PIPE, check=True).stdout.decode()
    here = list(csv.DictReader(text.splitlines()))
    shift = min(int(r["ts"]) for r in there) - min(int(r["ts"]) for r in here) if here else 0
    place = {r["index"]: i for i, r in enumerate(there)}
    row_place = {r["row"]: i for i, r in enumerate(here)}

    def call(r):
        on_device = r["stream"] != "-1" and int(r["index_correlation"]) > 0
        return place.get(r["index_correlation"], -1) if on_device else -1

    c.tables("kept",
             keyed(here, [lambda r: row_place[r["row"]]],
                   {"ts": lambda r: int(r["ts"]) + shift, "dur": "dur", "stream": "stream",
                    "iteration": "iteration", "call": lambda r: row_place.get(r["call"], -1),
                    "name": "name"}),
             keyed(there, [lambda r: place[r["index"]]],
                   {"ts": "ts", "dur": "dur", "stream": "stream",
                    "iteration": lambda r: r["iteration"] or -1, "call": call,
                    "name": lambda r: r["name"].encode().hex()}))
    steps = {int(m.group(1)) for r in here
             if (m := re.search(r"ProfilerStep\s*#\s*(\d+)", bytes.fromhex(r["name"]).decode("utf-8",
                                                                                         "replace")))}
    with open(golden("profiler_steps.json")) as file:
        c.tables("profiler_steps", {"all": [{"steps": sorted(steps)}]},
                 {"all": [{"steps": json.load(file)}]})
    return shift


def paths_of(shared, trace):
    path = os.path.join(shared, "traces", trace)
    if os.path.isdir(path):
        return [os.path.join(path, name) for name in sorted(os.listdir(path))]
    return [path + ".json.gz"] if os.path.exists(path + ".json.gz") else []


def run(ckineto, tables, out, paths):
    subprocess.run([ckineto, "analyze", "--definitions", "hta", "--only", tables, "--csv", out] + paths,
                   check=True, stdout=subprocess.DEVNULL)


def compare(ckineto, show_scope, shared, trace, exceptions):
    c = Comparison(trace, exceptions)
    folder = os.path.join(shared, "golden", trace)
    golden = lambda name: os.path.join(folder, name)
    paths = paths_of(shared, trace)
    with open(golden("meta.json")) as file:
        ranks = list(json.load(file)["files"])
    shift = {rank: compare_scope(c, show_scope, path, golden, rank)
             for rank, path in zip(ranks, paths)}
    with tempfile.TemporaryDirectory() as out:
        run(ckineto, TABLES, out, paths)
        run(ckineto, "op_launch", os.path.join(out, "first"), paths[:1])
        ours = lambda name: rows_of(os.path.join(out, name + ".csv")) or []
        first = lambda name: ours(os.path.join("first", name))
        compare_breakdowns(c, ours, golden)
        compare_queues(c, ours, golden, shift)
        compare_bandwidth(c, ours, golden, shift)
        compare_launches(c, ours, golden, ranks, first)
        compare_annotations(c, ours, golden, shift)
    print(f"{trace}: {sum(c.checked.values())} numbers, "
          f"{sum(c.wrong.values())} wrong {dict(c.wrong) or ''}", flush=True)
    return sum(c.wrong.values())


def main():
    ckineto, show_scope, shared, exceptions = sys.argv[1:5]
    folder = os.path.join(shared, "golden")
    if not os.path.isdir(folder):
        print(f"skipped: no answers of HTA in {folder}")
        return 77
    with open(exceptions) as file:
        allowed = json.load(file)["exceptions"]
    traces = sys.argv[5:] or sorted(
        t for t in os.listdir(folder)
        if os.path.exists(os.path.join(folder, t, "meta.json")) and paths_of(shared, t))
    wrong = sum(compare(ckineto, show_scope, shared, t, allowed) for t in traces)
    idle = [e for e in allowed if not e.get("used")]
    for e in idle if not sys.argv[5:] else []:
        print("an exception that nothing needs:", e)
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
