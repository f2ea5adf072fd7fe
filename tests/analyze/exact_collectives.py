"""collectives, collective_groups, step_statistics and the products of roofline equal what this slow
program finds in the JSON.

    exact_collectives.py CKINETO TRACES...

TRACES are files, or directories of them. Exits with 77 if there are none."""
import collections
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from decimal import Decimal

from exact_idle import CALLS, OPERATORS, WORK, Event, communicates, correlation, load, overlap, unite

from sample import choose_traces
from steps import without_rests

SIZES = {"float": 4, "double": 8, "long": 8, "int": 4, "half": 2, "bfloat16": 2, "byte": 1, "char": 1,
         "bool": 1, "signed char": 1, "unsigned char": 1, "short": 2, "long int": 8}
FACTORS = [("allreduce", lambda n: 2 * (n - 1) / n), ("reducescatter", lambda n: (n - 1) / n),
           ("allgather", lambda n: (n - 1) / n), ("alltoall", lambda n: (n - 1) / n),
           ("sendrecv", lambda n: 1), ("broadcast", lambda n: 1), ("barrier", lambda n: 2 * (n - 1) / n),
           ("reduce", lambda n: 1)]
NAMES = {"allreduce": "allreduce", "reducescatter": "reduce_scatter", "allgather": "allgather",
         "alltoall": "all_to_all", "sendrecv": "sendrecv", "broadcast": "broadcast", "reduce": "reduce"}
PRODUCTS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2)}


def size_of(dtype):
    return SIZES.get(dtype.lower().replace("c10::", ""), 0)


def kind_of(name):
    plain = name.lower().replace("_", "")
    return next((part for part, _ in FACTORS if part in plain), None)


class Trace:
    def __init__(self, path):
        events = [Event(e, i) for i, e in enumerate(load(path))
                  if e.get("ph") == "X" and "dur" in e and isinstance(e.get("cat"), str)]
        self.works = sorted((e for e in events if e.cat in WORK), key=Event.key)
        self.steps = sorted((e for e in events if e.name.startswith("ProfilerStep#") and
                             e.cat in OPERATORS | {"user_annotation"}), key=Event.key)
        self.steps = list({(e.thread, e.start, e.end, e.name): e for e in self.steps}.values())
        self.steps = without_rests(self.steps, events, lambda e: e.thread[0])
        threads = collections.defaultdict(list)
        for e in events:
            if e.cat in CALLS | OPERATORS | {"user_annotation"}:
                threads[e.thread].append(e)
        self.around = {}  # of each call: what it is in, innermost first
        calls = {}
        for thread in threads.values():
            stack = []
            for e in sorted(thread, key=Event.key):
                while stack and stack[-1].end <= e.start and (stack[-1].end < e.end or
                                                             stack[-1].end < e.start):
                    stack.pop()
                if e.cat in CALLS:
                    self.around[e.index] = stack[::-1]
                    if correlation(e):
                        calls.setdefault(correlation(e), e)
                stack.append(e)
        for w in self.works:
            w.call = calls.get(correlation(w)) if correlation(w) else None


def message(trace, w):
    """Name, group, seq, bytes, dtype, ranks; None: not given."""
    sources = [w] + [e for e in trace.around.get(w.call.index if w.call else -1, [])
                     if e.name == "record_param_comms" or e.name.startswith("nccl:")]
    for e in sources:
        a = e.args
        if "Collective name" in a or "In msg nelems" in a:
            name = a.get("Collective name", "")
            count = max(a.get("In msg nelems", 0), a.get("Out msg nelems", 0))
            return (name, a.get("Process Group Name", ""), a.get("Seq"),
                    count * size_of(a.get("dtype", "")) or None, a.get("dtype", ""), a.get("Group size"))
    for e in sources[1:]:
        dims, types = e.args.get("Input Dims"), e.args.get("Input type")
        if e.name.startswith("nccl:"):
            name, count = e.name[5:], None
            if dims and dims[0] and "allgather" not in name.replace("_", ""):
                count = 1
                for d in dims[0]:
                    count *= d
            return name, "", None, count and count * size_of(types[0]), types[0] if types else "", None
    kind = kind_of(w.name)
    return NAMES.get(kind, w.name), "", None, None, "", None


def collectives(trace):
    computing = collections.defaultdict(list)
    for w in trace.works:
        if w.cat == "kernel" and not communicates(w):
            computing[w.thread[0]].append([w.start, w.end])
    computing = {d: unite(spans) for d, spans in computing.items()}
    for w in trace.works:
        if not communicates(w):
            continue
        name, group, seq, size, dtype, ranks = message(trace, w)
        ns = w.end - w.start
        exposed = ns - overlap(computing.get(w.thread[0], []), w.start, w.end)
        kind = kind_of(name)
        factor = dict(FACTORS)[kind](ranks) if kind and (ranks or kind in ("sendrecv", "broadcast", "reduce")) \
            else None
        yield name, group, seq, size, dtype, ns, exposed, factor


def products(trace):
    """calls, ns, flops, bytes of matrix products."""
    out, seen = collections.defaultdict(lambda: [0, 0, 0, 0]), set()
    for w in trace.works:
        if w.cat != "kernel" or not w.call:
            continue
        for e in trace.around[w.call.index]:
            if e.name not in PRODUCTS or not e.args.get("Input Dims"):
                continue
            of, dims = out[e.name], e.args["Input Dims"]
            of[1] += w.end - w.start
            if e.index in seen:
                break
            seen.add(e.index)
            a, b = (dims[i] for i in PRODUCTS[e.name])
            flops = 2 * b[-1]
            for d in a:
                flops *= d
            of[0] += 1
            of[2] += flops
            for shape, dtype in zip(dims, e.args["Input type"]):
                count = size_of(dtype) if shape else 0
                for d in shape:
                    count *= d
                of[3] += count
            break
    return out


def table(where, name):
    with open(os.path.join(where, name + ".csv"), newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def ns_of(cell):
    return int(Decimal(cell) * 1000)


def near(cell, value):
    if value is None:
        return cell == ""
    return cell != "" and abs(float(cell) - value) <= 1e-6 * abs(value) + 1e-9


def check_collectives(rows, trace, wrong):
    want = list(collectives(trace))
    if len(rows) != len(want):
        wrong.append(f"{len(rows)} collectives, not {len(want)}")
    for row, (name, group, seq, size, dtype, ns, exposed, factor) in zip(rows, want):
        rate = size / ns if size and ns else None
        good = (row["name"] == name and row["group"] == group and row["dtype"] == dtype and
                row["seq"] == ("" if seq is None else str(seq)) and
                row["bytes"] == ("" if size is None else str(size)) and ns_of(row["dur_us"]) == ns and
                ns_of(row["exposed_us"]) == exposed and near(row["algbw_gbps"], rate) and
                near(row["busbw_gbps"], rate and factor and rate * factor))
        if not good:
            wrong.append(f"collective {row}, not {(name, group, seq, size, dtype, ns, exposed, factor)}")
            return


def check_groups(rows, trace, wrong):
    want = collections.defaultdict(lambda: [0, 0, 0, 0, 0])
    for name, group, _, size, _, ns, exposed, _ in collectives(trace):
        small = size is not None and size < 65536
        for i, v in enumerate([1, ns, exposed, small, ns if small else 0]):
            want[group, name][i] += v
    have = {(r["group"], r["name"]): [int(r["count"]), ns_of(r["sum_us"]), ns_of(r["exposed_us"]),
                                      int(r["small_count"]), ns_of(r["small_us"])] for r in rows}
    if have != dict(want):
        wrong.append(f"groups {have}, not {dict(want)}")


def check_steps(rows, trace, wrong):
    lengths = [(s.end - s.start) / 1000 for s in trace.steps]
    if not lengths:
        return
    median = statistics.median(lengths)
    mad = statistics.median(abs(v - median) for v in lengths)
    warm = 0
    while warm + 1 < len(lengths) and lengths[warm] - median > max(3 * mad, 0.05 * median):
        warm += 1
    rest = lengths[warm:]
    median = statistics.median(rest)
    mad = statistics.median(abs(v - median) for v in rest)
    outliers = sum(v - median > max(3.5 * 1.4826 * mad, 0.05 * median) for v in rest)
    r = rows[0]
    if (int(r["count"]), int(r["warm_up"]), int(r["outliers"])) != (len(lengths), warm, outliers) or \
            not near(r["median_us"], median) or abs(float(r["mad_us"]) - mad) > 1e-3:
        wrong.append(f"steps {r}, not {len(lengths)}, {warm}, {median}, {mad}, {outliers}")


def check_products(rows, trace, wrong):
    have = {r["operator"]: r for r in rows}
    for name, (calls, ns, flops, size) in products(trace).items():
        r = have.get(name)
        if r is None or int(r["calls"]) != calls or ns_of(r["device_us"]) != ns or \
                not near(r["flops"], flops) or not near(r["bytes"], size):
            wrong.append(f"{name}: {r}, not {calls}, {ns}, {flops}, {size}")


def check(ckineto, path):
    try:
        trace = Trace(path)
    except (ValueError, OSError, EOFError) as why:
        print(f"{os.path.basename(path)}: no JSON, left out ({why})")
        return []
    wrong = []
    names = ["collectives", "collective_groups", "step_statistics", "roofline"]
    with tempfile.TemporaryDirectory() as where:
        subprocess.run([ckineto, "analyze", path, "--only", ",".join(names), "--csv", where], check=True,
                       stdout=subprocess.DEVNULL)
        for name, test in zip(names, [check_collectives, check_groups, check_steps, check_products]):
            test(table(where, name), trace, wrong)
    return wrong


def main():
    files = []
    for path in sys.argv[2:]:
        for folder, _, names in sorted(os.walk(path)):
            files += [os.path.join(folder, n) for n in sorted(names)
                      if n.endswith((".json", ".json.gz")) and ".et." not in n]
        if os.path.isfile(path):
            files.append(path)
    if not files:
        print("no traces here")
        return 77
    wrong = [f"{path}: {w}" for path in choose_traces(files, __file__) for w in check(sys.argv[1], path)]
    print(f"{len(files)} traces looked at")
    for w in wrong:
        print(w)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
