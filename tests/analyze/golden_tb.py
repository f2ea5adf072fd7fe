"""With --definitions hta, what the TensorBoard plug-in 0.4.3 answered for real traces comes out.

Its answers and the traces are next to the project; without them there is nothing to compare. Times of
traces in whole microseconds must be equal, and what it rounds must round to the same; of traces with
fractions of microseconds it added binary fractions of times of the day, which are wrong from the third
digit after the point on. What may differ is in exceptions_tb.json, with the reason."""

import csv
import fnmatch
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

CKINETO = os.environ["CKINETO"]
SHARED = Path(os.environ["CKINETO_SHARED"])
EXCEPTIONS = json.loads((Path(__file__).parent / "exceptions_tb.json").read_text())
TABLES = ("steps,operators,gpu_summary,kernel_use,kernel_operators,memory_operators,"
          "distributed_overlap,distributed_wait,distributed_operators")
used = set()


def excepted(trace, table, what):
    for i, e in enumerate(EXCEPTIONS):
        if fnmatch.fnmatchcase(trace, e["trace"]) and e["table"] == table and \
                fnmatch.fnmatchcase(str(what), e["rows"]):
            used.add(i)
            return True
    return False


class Comparison:
    def __init__(self, trace, fine):
        self.trace, self.fine = trace, fine
        self.equal, self.excepted, self.different = 0, 0, []

    def same(self, table, what, ours, theirs, near=0.0):
        if ours == theirs or (isinstance(ours, float) and isinstance(theirs, (int, float)) and
                              abs(ours - theirs) <= near):
            self.equal += 1
        elif excepted(self.trace, table, what):
            self.excepted += 1
        else:
            self.different.append(f"{self.trace}: {table}: {what}: {ours} here, {theirs} there")


def load(path):
    for p in (path, Path(str(path) + ".gz")):
        if p.exists():
            data = p.read_bytes()
            return json.loads(gzip.decompress(data) if p.suffix == ".gz" else data)
    return None


def analyze(traces):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([CKINETO, "analyze", *map(str, traces), "--definitions", "hta", "--only", TABLES,
                        "--csv", out], check=True, stdout=subprocess.DEVNULL)
        return {p.stem: list(csv.DictReader(p.open(newline=""))) for p in Path(out).glob("*.csv")}


def number(text):
    return float(text) if text not in ("", None) else None


def rounded(us):
    return round(us)


# ---- one table after the other ------------------------------------------------------------------

ROLES = {"Kernel": "kernel_us", "Memcpy": "memcpy_us", "Memset": "memset_us", "Communication": "communication_us",
         "Runtime": "runtime_us", "DataLoader": "dataloader_us", "CPU Exec": "cpu_us", "Other": "other_us"}


def steps(c, ours, golden):
    names = [col["name"] for col in golden["steps"]["columns"] if "name" in col]
    rows = {r[0]: dict(zip(names[1:], [x for x in r[1:] if not isinstance(x, str)]))
            for r in golden["steps"]["rows"]}
    mine = {r["step"] if r["step"] != "all" else "0": r for r in ours}
    c.same("steps", "names", list(mine), list(rows))
    for step in rows.keys() & mine.keys():
        for role, value in rows[step].items():
            c.same("steps", f"{step} {role}", number(mine[step][ROLES[role]]), value, 0.1 if c.fine else 0)


def operator_rows(ours, by_shape):
    sums = defaultdict(lambda: defaultdict(float))
    for r in ours:
        key = (r["name"], r["shapes"] if by_shape and r["shapes"] != "[]" else "")
        s = sums[key]
        for column in ("calls", "host_total_us", "host_self_us", "device_total_us", "device_self_us"):
            s[column] += float(r[column])
        s["tc_self"] += float(r["tc_self_pct"]) * float(r["device_self_us"]) / 100
        s["tc_total"] += float(r["tc_total_pct"]) * float(r["device_total_us"]) / 100
        s["tc_eligible"] = int(r["tc_eligible"])
    return sums


def shape_of(entry):
    return re.sub(r"\s+", " ", entry["input_shape"] or "").replace("'", '"')


def operators(c, ours, golden, by_shape):
    table = "operators by shape" if by_shape else "operators"
    mine = operator_rows(ours, by_shape)
    theirs = {}
    for e in golden["data"]:
        shape = shape_of(e) if by_shape else ""
        theirs[(e["name"], "" if shape in ("None", "[]") else shape)] = e
    for key in mine.keys() ^ theirs.keys():
        c.same(table, f"{key[0]} {key[1]}", key in mine, key in theirs)
    for key in mine.keys() & theirs.keys():
        m, t = mine[key], theirs[key]
        c.same(table, f"{key[0]} calls", int(m["calls"]), t["calls"])
        for column in ("host_total", "host_self", "device_total", "device_self"):
            place = column.replace("_", "_").split("_")
            c.same(table, f"{key[0]} {column}", rounded(m[column + "_us"]),
                   t.get(f"{place[0]}_{place[1]}_duration", 0))
        c.same(table, f"{key[0]} eligible", "Yes" if m["tc_eligible"] else "No", t.get("tc_eligible", "No"))
        for column in ("tc_self", "tc_total"):
            whole = m["device_self_us" if column == "tc_self" else "device_total_us"]
            c.same(table, f"{key[0]} {column}", round(100 * m[column] / whole, 2) if whole else 0.0,
                   t.get(column + "_ratio", 0.0), 0.0051)


TITLES = {"GPU Utilization": "utilization_pct", "Est. SM Efficiency": "sm_efficiency_pct",
          "Est. Achieved Occupancy": "achieved_occupancy_pct", "Kernel Time using Tensor Cores": "tc_pct"}


def gpu_summary(c, ours, golden):
    gpu = None
    found = {}
    for e in golden or []:
        m = re.match(r"GPU (\d+):", e["title"])
        if m:
            gpu = m.group(1)
            found[gpu] = {}
        else:
            found[gpu][e["title"]] = e["value"]
    mine = {r["gpu"]: r for r in ours}
    c.same("gpu_summary", "devices", sorted(mine), sorted(found))
    for gpu in mine.keys() & found.keys():
        c.same("gpu_summary", f"{gpu} name", mine[gpu]["name"], found[gpu]["Name"])
        for title, column in TITLES.items():
            m, t = number(mine[gpu][column]), found[gpu].get(title)
            c.same("gpu_summary", f"{gpu} {title}", None if m is None else round(m, 2),
                   None if t is None else float(t.split()[0]), 1e-9)


def kernel_columns(golden):
    return [col["name"] for col in golden["data"]["columns"]]


def kernel_use(c, ours, golden):
    columns = kernel_columns(golden)
    theirs = {r[0]: dict(zip(columns, r)) for r in golden["data"]["rows"]}
    mine = {r["name"]: r for r in ours}
    c.same("kernel_use", "names", sorted(mine), sorted(theirs))
    for name in mine.keys() & theirs.keys():
        kernel_times(c, "kernel_use", name, mine[name], theirs[name])


def kernel_times(c, table, key, m, t):
    for theirs, ours, digits in (("Calls", "count", None), ("Total Duration (us)", "sum_us", None),
                                 ("Mean Duration (us)", "mean_us", None), ("Max Duration (us)", "max_us", None),
                                 ("Min Duration (us)", "min_us", None), ("Mean Blocks Per SM", "blocks_per_sm", 2),
                                 ("Mean Est. Achieved Occupancy (%)", "occupancy_pct", 2)):
        if theirs not in t:
            continue
        value, answer = number(m[ours]), t[theirs]
        if c.fine and isinstance(answer, float) and not digits:
            c.same(table, f"{key} {theirs}", value, answer, 0.1)
        elif digits:
            c.same(table, f"{key} {theirs}", value, answer, 0.005 + 1e-9)
        else:
            c.same(table, f"{key} {theirs}", round(value), answer)
    used_by = t.get("Tensor Cores Used", t.get("Kernel Uses Tensor Cores"))
    c.same(table, f"{key} tensor cores", "Yes" if m["tensor_cores"] == "1" else "No", used_by)


def kernel_operators(c, ours, golden):
    columns = kernel_columns(golden)
    key = lambda *x: tuple(re.sub(r"\s", "", str(v)) for v in x)
    theirs = {key(r[0], r[1], r[2], r[3], r[4], r[5]): dict(zip(columns, r)) for r in golden["data"]["rows"]}
    mine = {key(r["name"], r["operator"], r["grid"] or None, r["block"] or None, r["registers"] or 0,
                r["shared_bytes"] or 0): r for r in ours}
    for k in mine.keys() ^ theirs.keys():
        c.same("kernel_operators", " ".join(k), k in mine, k in theirs)
    for k in mine.keys() & theirs.keys():
        kernel_times(c, "kernel_operators", " ".join(k), mine[k], theirs[k])


def tc_pie(c, ours, golden):
    whole = sum(float(r["sum_us"]) for r in ours)
    share = sum(float(r["sum_us"]) for r in ours if r["tensor_cores"] == "1") / whole
    c.same("tc_pie", "share", share, golden["total"]["rows"][0][1], 1e-9 if c.fine else 1e-15)


MEMORY = ("self_increase_bytes", "self_allocation_bytes", "self_allocations", "size_increase_bytes",
          "allocation_bytes", "allocations", "calls")


def memory(c, ours, golden):
    mine = {(r["device"], r["operator"]): [int(r[k]) for k in MEMORY] for r in ours}
    theirs = {(d, op): v for d, ops in golden.items() for op, v in ops.items()}
    for k in mine.keys() ^ theirs.keys():
        c.same("memory_operators", " ".join(k), k in mine, k in theirs)
    for k in mine.keys() & theirs.keys():
        c.same("memory_operators", " ".join(k), mine[k], theirs[k])


def distributed(c, ours, folder):
    for name, table, columns in (
            ("distributed_overlap", "distributed_overlap", ("computation_us", "overlap_us", "communication_us", "other_us")),
            ("distributed_wait", "distributed_wait", ("transfer_us", "synchronizing_us"))):
        golden = load(folder / f"{name}.json")["data"]
        mine = {(r["step"], "worker" + r["rank"]): [float(r[k]) for k in columns] for r in ours[table]}
        theirs = {(s, w): v for s, workers in golden.items() for w, v in workers.items() if s != "all"}
        c.same(table, "rows", sorted(mine), sorted(theirs))
        for k in mine.keys() & theirs.keys():
            c.same(table, " ".join(k), mine[k], theirs[k])
    golden = load(folder / "distributed_comm_ops.json")["data"]
    mine = {("worker" + r["rank"], r["name"]): r for r in ours["distributed_operators"]}
    theirs = {(w, r[0]): r for w, t in golden.items() for r in t["rows"]}
    c.same("distributed_operators", "rows", sorted(mine), sorted(theirs))
    for k in mine.keys() & theirs.keys():
        m = mine[k]
        row = [m["name"], int(m["calls"]), int(m["bytes"]), round(float(m["mean_bytes"])),
               round(float(m["latency_us"])), round(float(m["mean_latency_us"])),
               round(float(m["transfer_us"])), round(float(m["mean_transfer_us"]))]
        c.same("distributed_operators", " ".join(k), row, theirs[k])


# ---- traces ----------------------------------------------------------------------------------------

def compare(c, ours, folder, prefix=""):
    def golden(name):
        return load(folder / f"{prefix}{name}.json")
    steps(c, ours["steps"], golden("overview"))
    operators(c, ours["operators"], golden("operator_by_name"), False)
    operators(c, ours["operators"], golden("operator_by_name_input"), True)
    gpu_summary(c, ours["gpu_summary"], golden("gpu_summary"))
    if golden("kernel"):
        kernel_use(c, ours["kernel_use"], golden("kernel"))
        kernel_operators(c, ours["kernel_operators"], golden("kernel_by_name_op"))
        tc_pie(c, ours["kernel_use"], golden("tc_pie"))
    if golden("memory_stats"):
        memory(c, ours["memory_operators"], golden("memory_stats"))


def main():
    if not (SHARED / "golden_tb").exists():
        print("no answers of the TensorBoard plug-in next to the project: nothing compared")
        return 77
    fine = {"nccl_data", "amd_mi250", "mtia_inference"}
    failed = 0
    for folder in sorted((SHARED / "golden_tb").iterdir()):
        if sys.argv[1:] and folder.name not in sys.argv[1:]:
            continue
        c = Comparison(folder.name, folder.name in fine)
        source = SHARED / "traces" / folder.name
        if source.is_dir():
            files = sorted(source.iterdir())
            distributed(c, analyze(files), folder)
            for i, f in enumerate(files):
                compare(c, analyze([f]), folder, f"worker{i}.")
        else:
            compare(c, analyze([SHARED / "traces" / (folder.name + ".json.gz")]), folder)
        print(f"{folder.name}: {c.equal} equal, {c.excepted} excepted, {len(c.different)} different")
        for line in c.different[:int(os.environ.get("SHOW", "20"))]:
            print("   ", line[:400])
        failed += len(c.different)
    unused = [e for i, e in enumerate(EXCEPTIONS) if i not in used]
    if unused and not sys.argv[1:]:
        print("exceptions that nothing needs:", json.dumps(unused, indent=1))
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
