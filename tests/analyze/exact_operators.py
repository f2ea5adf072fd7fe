"""What ckineto says of steps, operators, devices, memory and ranks equals a slow computation from the
definitions in docs/reference/analyze.md, on real traces and on small ones of the project."""

import csv
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

from sample import choose_traces
from steps import without_rests

CKINETO = os.environ["CKINETO"]
SHARED = Path(os.environ["CKINETO_SHARED"])
DATA = Path(os.environ["CKINETO_DATA"])
TABLES = ("steps,operators,gpu_summary,kernel_use,memory,memory_operators,distributed_overlap,distributed_wait,"
          "distributed_operators")
WORK = {"kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "mtia_ccp_events"}
CALLS = {"runtime", "driver", "cuda_runtime", "cuda_driver", "mtia_runtime", "glow_runtime", "xpu_runtime",
         "xpu_driver", "privateuse1_runtime", "privateuse1_driver", "hpu_op"}
HOST = CALLS | {"cpu_op", "operator", "user_annotation", "python_function", "overhead", "mtia_insight"}
STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)$")


def ns(value):
    """Whole nanoseconds of a number of microseconds as the file has it."""
    return int((Decimal(value) * 1000).to_integral_value(rounding="ROUND_HALF_UP"))


class Event:
    def __init__(self, e, row, base):
        self.row, self.name, self.cat = row, e.get("name", ""), e.get("cat", "").lower()
        self.args = e.get("args") or {}
        self.start = ns(e["ts"]) + base
        self.end = self.start + max(0, ns(e.get("dur", "0")))
        self.tid, self.pid = str(e.get("tid")), e.get("pid")
        self.parent = self.step = self.call = None
        self.work, self.communicates = [], False

    @property
    def ns(self):
        return self.end - self.start

    def is_op(self):
        return self.cat in ("cpu_op", "operator") and not self.is_mark() and not self.is_loader()

    def is_mark(self):
        return bool(STEP.match(self.name)) or self.name.startswith("Optimizer.") or \
            self.name in ("DataParallel.forward", "DistributedDataParallel.forward")

    def is_loader(self):
        return (self.name.startswith("enumerate(DataLoader)#") and self.name.endswith(".__next__")) or \
            self.name.startswith("enumerate(DataPipe)#")

    def id(self):
        return self.args.get("correlation")


def union(spans):
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def cut(spans, start, end):
    return [[max(a, start), min(b, end)] for a, b in spans if max(a, start) < min(b, end)]


def total(spans):
    return sum(b - a for a, b in spans)


def minus(a, b):
    """What is in `a` and not in `b`, both united."""
    out, first = [], 0
    for start, end in a:
        while first < len(b) and b[first][1] <= start:
            first += 1
        at = start
        for x, y in (b[k] for k in range(first, len(b))):
            if x >= end:
                break
            if x > at:
                out.append([at, x])
            at = max(at, y)
        if at < end:
            out.append([at, end])
    return out


# ---- the trace --------------------------------------------------------------------------------

def lanes_of(events):
    """What overlaps without being inside goes to the next lane; parents are found on the way."""
    stacks = []
    for e in sorted(events, key=lambda x: (x.start, -x.end, x.row)):
        for stack in stacks:
            while stack and stack[-1].end <= e.start and not (stack[-1].start == e.start and e.start == e.end
                                                              and stack[-1].end == e.end):
                stack.pop()
            if not stack or e.end <= stack[-1].end:
                e.parent = stack[-1] if stack else None
                stack.append(e)
                break
        else:
            stacks.append([e])


class Trace:
    def __init__(self, path, classes):
        text = path.read_bytes()
        if path.suffix == ".gz":
            text = gzip.decompress(text)
        data = json.loads(text.decode("utf-8", "surrogateescape"), parse_float=str, parse_int=str, strict=False)
        rows = data["traceEvents"] if isinstance(data, dict) else data
        base = int(data.get("baseTimeNanoseconds", 0)) if isinstance(data, dict) else 0
        self.memory = [(ns(e["ts"]) + base, e) for e in rows if e.get("name") == "[memory]" and e.get("ph") == "i"]
        slices = [Event(e, i, base) for i, e in enumerate(rows) if e.get("ph") == "X" and "ts" in e and "dur" in e]
        self.work = sorted((e for e in slices if e.cat in WORK), key=lambda e: (e.start, -e.end, e.row))
        self.host = [e for e in slices if e.cat in HOST]
        for e in self.work:
            e.communicates = classes.get(e.name) == "communication"
        self.link()

    def link(self):
        threads = defaultdict(list)
        for e in self.host:
            threads[(str(e.pid), e.tid)].append(e)
        for events in threads.values():
            lanes_of(events)
        calls = {}
        for e in self.host:
            if e.cat in CALLS and e.id() not in (None, "0", ""):
                calls.setdefault(e.id(), e)
        for w in self.work:
            w.call = calls.get(w.id())
            if w.call:
                w.call.work.append(w)
        self.steps = sorted((e for e in self.host if STEP.match(e.name) and
                             e.cat in ("cpu_op", "operator", "user_annotation")), key=lambda e: e.start)
        once = {}  # a step may be written as an operator and as an annotation, too
        for e in self.steps:
            key = (str(e.pid), e.tid, e.start, e.end, STEP.match(e.name).group(1))
            if key not in once or e.cat == "user_annotation":
                once[key] = e
        self.steps = [e for e in self.steps if any(e is o for o in once.values())]
        self.steps = without_rests(self.steps, self.host, lambda e: str(e.pid))
        self.windows()

    def step_at(self, e):
        """The last step of its process that began before and has not ended."""
        found = None
        for i, s in enumerate(self.steps):
            if s.start <= e.start < s.end and str(s.pid) == str(e.pid):
                found = i
        return found

    def windows(self):
        self.spans = []
        if not self.steps:
            everything = self.host + self.work
            if everything:
                self.spans = [["all", min(e.start for e in everything), max(e.end for e in everything)]]
            for w in self.work:
                w.step = 0
            return
        ends = [s.end for s in self.steps]
        memo = {}
        for w in self.work:
            w.step = None
            if w.call:
                if w.call.row not in memo:
                    memo[w.call.row] = self.step_at(w.call)
                w.step = memo[w.call.row]
            if w.step is not None:
                ends[w.step] = max(ends[w.step], w.end)
        before = {}  # by process
        for s, end in zip(self.steps, ends):
            start = max(before.get(str(s.pid), s.start), s.start)
            before[str(s.pid)] = max(start, end)
            self.spans.append([STEP.match(s.name).group(1), start, before[str(s.pid)]])


# ---- tables ------------------------------------------------------------------------------------

def roles_of(t):
    roles = {k: [] for k in ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu")}
    for w in t.work:
        kind = "memcpy" if "memcpy" in w.cat else "memset" if "memset" in w.cat else "kernel"
        roles["communication" if w.communicates else kind].append((w.start, w.end))
    for e in t.host:
        named = e.cat in ("cpu_op", "operator", "user_annotation")
        if e.cat in CALLS:
            roles["runtime"].append((e.start, e.end))
        elif named and e.is_loader():
            roles["dataloader"].append((e.start, e.end))
        elif named and e.name.startswith("gloo:"):
            roles["communication"].append((e.start, e.end))
        elif e.is_op():
            roles["cpu"].append((e.start, e.end))
    return {k: union(v) for k, v in roles.items()}


def steps(t):
    roles, out = roles_of(t), []
    for name, start, end in t.spans:
        left, row = [[start, end]], {"step": name, "start_us": start, "dur_us": end - start}
        for role in roles:
            inside = cut(roles[role], start, end)
            row[role + "_us"] = total(left) - total(minus(left, inside))
            left = minus(left, inside)
        row["other_us"] = total(left)
        out.append(row)
    return out


def overlap(t):
    roles, out = roles_of(t), []
    if not roles["communication"]:
        return []
    work = roles["kernel"] or roles["cpu"]
    for name, start, end in t.spans:
        a, b = cut(work, start, end), cut(roles["communication"], start, end)
        both = total(a) - total(minus(a, b))
        out.append({"step": name, "computation_us": total(a) - both, "overlap_us": both,
                    "communication_us": total(b) - both, "other_us": end - start - total(a) - total(b) + both})
    return out


def op_around(e, itself=True):
    at = e if itself else e.parent
    while at is not None and not at.is_op():
        at = at.parent
    return at


def taker_of(e):
    """Whose own time ends where a call or operator begins."""
    at = e.parent
    while at is not None and not at.is_op() and at.cat not in CALLS:
        at = at.parent
    return at if at is not None and at.is_op() else None


def text_of_shapes(e):
    dims = e.args.get("Input Dims", e.args.get("Input dims"))
    if dims is None:
        return ""
    def spell(x):
        return "[" + ", ".join(map(spell, x)) + "]" if isinstance(x, list) else x
    return spell(dims)


def operators(t):
    self_ns, device_self = defaultdict(int), defaultdict(int)
    ops = [e for e in t.host if e.is_op()]
    for e in ops:
        self_ns[e.row] += e.ns
    for e in t.host:
        if e.is_op() or e.cat in CALLS:
            taker = taker_of(e)
            if taker:
                self_ns[taker.row] -= e.ns
    device = defaultdict(int)
    for w in t.work:
        at = op_around(w.call) if w.call else None
        if at:
            device_self[at.row] += w.ns
        while at:
            device[at.row] += w.ns
            at = op_around(at, False)
    groups = defaultdict(lambda: defaultdict(int))
    for e in ops:
        key = (e.name, text_of_shapes(e), e.args.get("Call stack", ""))
        g = groups[key]
        g["calls"] += 1
        g["host_self_us"] += self_ns[e.row]
        g["device_self_us"] += device_self[e.row]
        at = op_around(e, False)
        while at and (at.name, text_of_shapes(at), at.args.get("Call stack", "")) != key:
            at = op_around(at, False)
        if not at:
            g["host_total_us"] += e.ns
            g["device_total_us"] += device[e.row]
    return groups


def kernels(t):
    return [w for w in t.work if "mem" not in w.cat]


def gpu_summary(t):
    out = {}
    start, end = t.spans[0][1], t.spans[-1][2]
    for device in {str(w.args.get("device", w.pid)) for w in kernels(t)}:
        mine = [w for w in kernels(t) if str(w.args.get("device", w.pid)) == device]
        spans = union(cut([[w.start, w.end] for w in mine], start, end))
        row = {"utilization_pct": 100 * total(spans) / (end - start) if end > start else 0}
        occupied = [(w, min(w.end, end) - max(w.start, start)) for w in mine
                    if "est. achieved occupancy %" in w.args and min(w.end, end) > max(w.start, start)]
        weight = sum(d for _, d in occupied)
        row["achieved_occupancy_pct"] = sum(float(w.args["est. achieved occupancy %"]) * d
                                            for w, d in occupied) / weight if weight else None
        edges = []
        for w in mine:
            a, b, blocks = max(w.start, start), min(w.end, end), float(w.args.get("blocks per SM", 0))
            if a < b and blocks > 0:
                edges += [(a, blocks, 1), (b, -blocks, -1)]
        now = covered = count = 0
        edges.sort()
        for i, (at, change, one) in enumerate(edges[:-1]):
            count += one
            now = now + change if count else 0
            covered += min(max(now, 0), 1) * (edges[i + 1][0] - at)
        any_blocks = any("blocks per SM" in w.args for w in kernels(t))
        row["sm_efficiency_pct"] = (100 * covered / (end - start) if end > start else 0) if any_blocks else None
        out[device] = row
    return out


def memory(t):
    devices, by_op, calls = defaultdict(list), defaultdict(lambda: [0] * 6), defaultdict(int)
    threads = defaultdict(list)
    for e in t.host:
        if e.is_op():
            calls[e.name] += 1
            threads[(str(e.pid), e.tid)].append(e)
    starts = {k: (sorted(v, key=lambda e: (e.start, -e.end, e.row))) for k, v in threads.items()}
    keys = {k: [e.start for e in v] for k, v in starts.items()}
    for at, m in sorted(t.memory, key=lambda m: m[0]):
        a = m["args"]
        device = "CPU" if a["Device Type"] == "0" else "GPU" + a["Device Id"]
        size = int(a["Bytes"])
        devices[device].append((at, size, int(a["Total Allocated"]) if "Total Allocated" in a else None))
        k = (str(m["pid"]), str(m["tid"]))
        i = bisect_right(keys.get(k, []), at) - 1
        op = starts[k][i] if i >= 0 else None
        while op is not None and op.end < at:
            op = op_around(op, False)
        seen = set()
        first = True
        while op is not None:
            row = by_op[(device, op.name)]
            if op.name not in seen:
                row[0] += size
                row[2] += size > 0
                row[4] += max(size, 0)
            if first:
                row[1] += size
                row[3] += size > 0
                row[5] += max(size, 0)
            seen.add(op.name)
            first = False
            op = op_around(op, False)
    return devices, by_op, calls


# ---- comparison -----------------------------------------------------------------------------------

class Check:
    def __init__(self):
        self.equal, self.wrong = 0, []

    def same(self, what, ours, slow):
        near = isinstance(slow, float) and ours is not None and abs(ours - slow) <= 1e-6 * max(1, abs(slow))
        if ours == slow or near:
            self.equal += 1
        else:
            self.wrong.append(f"{what}: {ours} of the command, {slow} computed slowly")


def read(paths):
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([CKINETO, "analyze", *map(str, paths), "--only", TABLES, "--csv", out], check=True,
                       stdout=subprocess.DEVNULL)
        return {p.stem: list(csv.DictReader(p.open(newline=""))) for p in Path(out).glob("*.csv")}


def us(text):
    return ns(text)


def classes_of(names):
    """Which kernels communicate: the class of each name has tests of its own."""
    talk = re.compile(r"^nccl|^rccl|ncclKernel|ncclDevKernel|^hccl|nccl_dev")
    return {n: "communication" for n in names if talk.search(n)}


def compare_rows(c, label, ours, slow, columns):
    c.same(f"{label} rows", len(ours), len(slow))
    for o, s in zip(ours, slow):
        for k in columns:
            c.same(f"{label} {s.get('step')} {k}", us(o[k]), s[k])


def compare_operators(c, ours, groups):
    mine = {(r["name"], r["shapes"], r["stack"]): r for r in ours}
    c.same("operators", sorted(set(mine) ^ set(groups))[:3], [])
    for key in mine.keys() & groups.keys():
        for k in ("host_total_us", "host_self_us", "device_total_us", "device_self_us"):
            c.same(f"{key[0]} {key[1]} {k}", us(mine[key][k]), groups[key][k])
        c.same(f"{key[0]} calls", int(mine[key]["calls"]), groups[key]["calls"])


def compare_devices(c, ours, t):
    slow = gpu_summary(t) if kernels(t) else {}
    mine = {r["gpu"]: r for r in ours}
    c.same("devices", sorted(mine), sorted(slow))
    for gpu in mine.keys() & slow.keys():
        for k, value in slow[gpu].items():
            c.same(f"{gpu} {k}", float(mine[gpu][k]) if mine[gpu][k] else None, value)


def compare_memory(c, ours, t):
    devices, by_op, calls = memory(t)
    for r in ours["memory"]:
        now = peak = None
        for _, size, given in devices[r["device"]]:
            now = given if given is not None else (now or 0) + size
            peak = now if peak is None else max(peak, now)
        c.same(f"peak of {r['device']}", int(r["peak_allocated_bytes"]), peak)
        c.same(f"end of {r['device']}", int(r["end_allocated_bytes"]), now)
    for r in ours["memory_operators"]:
        slow = by_op[(r["device"], r["operator"])]
        row = [int(r[k]) for k in ("size_increase_bytes", "self_increase_bytes", "allocations", "self_allocations",
                                   "allocation_bytes", "self_allocation_bytes")]
        c.same(f"memory of {r['operator']}", row, slow)
        c.same(f"calls of {r['operator']}", int(r["calls"]), calls[r["operator"]])


def compare_kernels(c, ours, t):
    groups = defaultdict(list)
    for k in kernels(t):
        groups[k.name].append(k.ns)
    mine = {r["name"]: r for r in ours}
    c.same("kernels", sorted(mine), sorted(groups))
    for name in mine.keys() & groups.keys():
        row = [int(mine[name]["count"]), us(mine[name]["sum_us"]), us(mine[name]["max_us"]), us(mine[name]["min_us"])]
        c.same(name, row, [len(groups[name]), sum(groups[name]), max(groups[name]), min(groups[name])])


def load(path):
    t = Trace(path, {})
    for w in t.work:
        w.communicates = bool(classes_of([w.name])) and "mem" not in w.cat
    return t


def collective_of(w):
    at = w.call
    while at is not None and not at.name.startswith("nccl:"):
        at = at.parent
    return at.name if at is not None else w.name


def compare_ranks(paths):
    """Waiting and transfer of several ranks."""
    c, ours, same, marks = Check(), read(paths), defaultdict(list), []
    for rank, path in enumerate(paths):
        t, counts = load(path), defaultdict(int)
        for w in t.work:
            if w.communicates and w.step is not None:
                key = (t.spans[w.step][0], collective_of(w))
                marks.append((rank, *key, counts[key], w))
                same[(*key, counts[key])].append((rank, w.ns))
                counts[key] += 1
    waits, ops = defaultdict(lambda: ([], [])), defaultdict(lambda: [0, 0, 0])
    for rank, step, name, index, w in marks:
        least = min(d for _, d in same[(step, name, index)])
        whole = len({r for r, _ in same[(step, name, index)]}) == len(paths)
        if whole:
            waits[(str(rank), step)][0].append((w.start, w.end))
            waits[(str(rank), step)][1].append((w.end - least, w.end))
        for i, v in enumerate((1, w.ns, least)):
            ops[(str(rank), name)][i] += v
    mine = {(r["rank"], r["step"]): [us(r["synchronizing_us"]), us(r["transfer_us"])]
            for r in ours["distributed_wait"]}
    slow = {k: [total(union(a)) - total(union(b)), total(union(b))] for k, (a, b) in waits.items()}
    c.same("waits", mine, slow)
    mine = {(r["rank"], r["name"]): [int(r["calls"]), us(r["latency_us"]), us(r["transfer_us"])]
            for r in ours["distributed_operators"]}
    c.same("operators of ranks", mine, dict(ops))
    return c


def compare(path):
    t = load(path)
    c, ours = Check(), read([path])
    compare_rows(c, "steps", ours["steps"], steps(t), [k for k in ours["steps"][0] if k.endswith("_us")]
                 if ours["steps"] else [])
    compare_rows(c, "overlap", ours["distributed_overlap"], overlap(t),
                 ("computation_us", "overlap_us", "communication_us", "other_us"))
    if not any("python_function" == e.cat for e in t.host):
        compare_operators(c, ours["operators"], operators(t))
    if t.spans:
        compare_devices(c, ours["gpu_summary"], t)
    compare_memory(c, ours, t)
    compare_kernels(c, ours["kernel_use"], t)
    return c


def main():
    traces = [DATA / name for name in os.environ.get("CKINETO_SMALL", "").split() if (DATA / name).exists()]
    shared = SHARED / "traces"
    if shared.exists():
        traces += choose_traces(sorted(p for p in shared.rglob("*.json*") if ".et." not in p.name and p.suffix != ".md"),
                                __file__)
    else:
        print("no real traces next to the project: only its own are checked")
    failed = 0
    for path in traces:
        if sys.argv[1:] and not any(a in str(path) for a in sys.argv[1:]):
            continue
        c = compare(path)
        print(f"{path.name}: {c.equal} equal, {len(c.wrong)} different")
        for line in c.wrong[:int(os.environ.get("SHOW", "12"))]:
            print("   ", line[:300])
        failed += len(c.wrong)
    ranks = sorted((shared / "dlrm_8rank").glob("*.json*"))
    if ranks and not sys.argv[1:]:
        c = compare_ranks(ranks)
        print(f"{len(ranks)} ranks: {c.equal} equal, {len(c.wrong)} different")
        print("\n".join(c.wrong)[:2000])
        failed += len(c.wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
