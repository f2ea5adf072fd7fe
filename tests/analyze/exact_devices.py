"""The tables of docs/reference/analyze.md, computed slowly from the text of a trace, compared with the command's.

exact_devices.py CKINETO TRACES DATA

Looks at the real traces in TRACES, if there are any, at two of our own in DATA, and at some that are
made here, with what real ones seldom have: ties, no time at all, clocks that disagree, launches of
several activities, missing launches, ranges that cross. What a name is classified as is taken from the
table "kernels": other tests look at that.
"""
import bisect
import collections
import csv
import gzip
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from decimal import Decimal

from sample import choose_traces

csv.field_size_limit(1 << 30)
KERNELS = {"kernel", "concurrent_kernel", "mtia_ccp_events", "glow_runtime_device"}
COPIES = {"gpu_memcpy", "memcpy", "gpu_memset", "memset"}
LAUNCHES = {"runtime", "cuda_runtime", "driver", "cuda_driver", "mtia_runtime", "xpu_runtime", "hip_runtime"}
OPERATORS = {"cpu_op", "operator"}
TABLES = ("temporal_breakdown,kernel_types,overlap,kernels,idle_breakdown,queue_length,"
          "queue_length_series,memory_bandwidth,launch_stats,op_launch,annotations,kernels_annotated")


class Event:
    def __init__(self, row, e, base):
        self.row, self.name, self.args = row, e["name"], e.get("args") or {}
        self.cat = str(e["cat"]).lower()
        self.start = round(Decimal(e["ts"]) * 1000) + base
        self.end = max(self.start + round(Decimal(e["dur"]) * 1000), self.start)
        self.track = (str(e.get("pid")), str(e.get("tid")))
        self.stream = str(e.get("tid")).replace("stream ", "").strip()
        self.correlation = self.args.get("correlation") or 0
        self.call, self.work = None, []

    length = property(lambda self: self.end - self.start)
    order = property(lambda self: (self.start, -self.end, self.row))


class Trace:
    def __init__(self, path):
        with open(path, "rb") as file:
            text = file.read()
        if text[:2] == b"\x1f\x8b":
            text = gzip.decompress(text)
        text = text.decode("utf-8", "replace")
        top = json.loads(text, parse_float=Decimal, strict=False)
        base = int(top.get("baseTimeNanoseconds") or 0) if isinstance(top, dict) else 0
        found = [e for e in (top["traceEvents"] if isinstance(top, dict) else top)
                 if e.get("ph") == "X" and "dur" in e and "cat" in e]
        events = [Event(i, e, base) for i, e in enumerate(found)]
        self.work = sorted((e for e in events if e.cat in KERNELS | COPIES), key=lambda e: e.order)
        self.calls = [e for e in events if e.cat in LAUNCHES]
        self.operators = [e for e in events if e.cat in OPERATORS]
        self.host_ranges = [e for e in events if e.cat == "user_annotation"]
        self.device_ranges = [e for e in events if e.cat == "gpu_user_annotation"]
        self.link()

    def link(self):
        """The launch is the last call with the same correlation that began before; else the first."""
        calls = collections.defaultdict(list)
        for c in sorted(self.calls, key=lambda c: (c.start, c.row)):
            if c.correlation:
                calls[c.correlation].append(c)
        for w in self.work:
            with_id = calls.get(w.correlation) if w.correlation else None
            if with_id:
                at = bisect.bisect_right([c.start for c in with_id], w.start)
                w.call = with_id[max(at - 1, 0)]
                w.call.work.append(w)

    def streams(self):
        out = collections.defaultdict(list)
        for w in self.work:
            out[w.track].append(w)
        return out.values()


def union(spans):
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out


def total(spans):
    return sum(end - start for start, end in spans)


def both(a, b):
    """Time in both of two unions."""
    moments = sorted([(s, 1) for s, _ in a + b] + [(e, -1) for _, e in a + b])
    out, running, before = 0, 0, None
    for at, by in moments:
        out += at - before if running == 2 else 0
        running, before = running + by, at
    return out


def us(ns):
    return ns / 1000


def share(part, whole):
    return 100 * part / whole if whole else 0


def describe(values):
    values = sorted(values)
    quantile = lambda q: (lambda at: values[int(at)] + (values[min(int(at) + 1, len(values) - 1)] -
                                                        values[int(at)]) * (at - int(at)))(q * (len(values) - 1))
    std = statistics.stdev(values) if len(values) > 1 else 0
    return (len(values), sum(values) / len(values), std, values[0], quantile(.25), quantile(.5),
            quantile(.75), values[-1])


def of_durations(events):
    ns = [e.length for e in events]
    return (len(ns), us(sum(ns)), us(max(ns)), us(min(ns)), us(sum(ns)) / len(ns),
            statistics.stdev(us(n) for n in ns) if len(ns) > 1 else 0)


def grouped(items, key):
    out = collections.defaultdict(list)
    for item in items:
        out[key(item)].append(item)
    return out


# ---- one function for each table: rows as tuples, the key first ------------------------------------------

def temporal_breakdown(t, types):
    if not t.work:
        return []
    busy = union((w.start, w.end) for w in t.work)
    whole = busy[-1][1] - busy[0][0]
    idle = whole - total(busy)
    compute = total(union((w.start, w.end) for w in t.work if types[w.name] == "COMPUTATION"))
    parts = (idle, compute, whole - idle - compute)
    return [((), *(us(p) for p in parts), us(whole), *(share(p, whole) for p in parts))]


def kernel_types(t, types):
    names = ("COMPUTATION", "COMMUNICATION", "MEMORY", "OTHER")
    edges = []
    for name in names:
        for start, end in union((w.start, w.end) for w in t.work if types[w.name] == name):
            edges += [(start, name, True), (end, name, False)]
    sums, now, before = collections.Counter(), set(), None
    for at, name, begins in sorted(edges):
        if now:
            sums[" overlapping ".join(n for n in names if n in now)] += at - before
        before = at
        # what is empty begins and ends at once, in any order
        now = now ^ {name}
    return [((kind,), us(ns), share(ns, sum(sums.values()))) for kind, ns in sums.items() if ns]


def overlap(t, types):
    if not t.work:
        return []
    of = {n: union((w.start, w.end) for w in t.work if types[w.name] == n)
          for n in ("COMMUNICATION", "COMPUTATION")}
    if not of["COMMUNICATION"]:
        return [((), "")]
    return [((), share(both(*of.values()), total(of["COMMUNICATION"])))]


def kernels(t, types):
    return [((types[name], name), *of_durations(works))
            for name, works in grouped(t.work, lambda w: w.name).items()]


def idle_breakdown(t, _):
    out = []
    for works in t.streams():
        sums, end = collections.Counter(), works[0].end
        for w in works[1:]:
            if w.start > end:
                late = w.call and w.call.start > end
                sums["host_wait" if late else
                     "kernel_wait" if w.start - end < 30000 else "other"] += w.start - end
            end = max(end, w.end)
        out += [((works[0].stream, why), us(ns), share(ns, sum(sums.values())))
                for why, ns in sums.items()]
    return out


def lengths(works):
    """(moment, how many wait) for each arrival and departure; arrivals first."""
    changes = sorted([(w.call.start, -1) for w in works] +
                     [(max(w.start, w.call.start), 1) for w in works])
    out = []
    for at, by in changes:
        out.append((at, (out[-1][1] if out else 0) - by))
    return out


def queues(t):
    for works in t.streams():
        launched = [w for w in works if w.call]
        if launched:
            yield works[0].stream, lengths(launched)


def queue_length(t, _):
    return [((stream,), *describe([n for _, n in points]),
             us(sum(b[0] - a[0] for a, b in zip(points, points[1:]) if a[1] >= 1024)))
            for stream, points in queues(t)]


def queue_length_series(t, _):
    return [((stream, k), us(at), n) for stream, points in queues(t)
            for k, (at, n) in enumerate(points)]


def bandwidth(w):
    if "memory bandwidth (GB/s)" in w.args:
        return float(w.args["memory bandwidth (GB/s)"])
    return float(w.args.get("bytes") or 0) / w.length if w.length else 0


def memory_bandwidth(t, types):
    out = []
    copies = [w for w in t.work if types[w.name] == "MEMORY" and 0 < bandwidth(w) < 1e12]
    for name, works in grouped(copies, lambda w: w.name.split(" (")[0]).items():
        changes = sorted([(w.start, 1, w.row, bandwidth(w)) for w in works] +
                         [(w.end if w.length else w.end + 1, 0, w.row, -bandwidth(w)) for w in works])
        values, now, running = [], 0, 0
        for _, begins, _, by in changes:
            running += 1 if begins else -1
            now = now + by if running else 0
            values += [now] if now > 0 else []
        out.append(((name,), *describe(values)))
    return out


def launch_stats(t, _):
    return [((str(w.correlation),), us(w.call.length), us(w.length),
             us(max(w.start - w.call.end, 0))) for w in t.work if w.call]


def around(events, moments):
    """For (start, end, what): the last of `events` to begin of those of its thread that hold it."""
    events = sorted(events, key=lambda e: e.order)
    starts = [e.start for e in events]
    for call in moments:
        for i in range(bisect.bisect_right(starts, call.start) - 1, -1, -1):
            if events[i].end >= call.end:
                yield call, events[i]
                break
            if i < bisect.bisect_right(starts, call.start) - 20000:
                break


def op_launch(t, _):
    of = collections.defaultdict(list)
    operators = grouped(t.operators, lambda e: e.track)
    for track, calls in grouped((c for c in t.calls if c.work), lambda c: c.track).items():
        for call, op in around(operators[track], sorted(calls, key=lambda c: c.order)):
            of[op.row, op.name, op.start].append(call)
    sums = collections.defaultdict(list)
    for (_, name, start), calls in of.items():
        calls.sort(key=lambda c: (c.start, c.row))
        works = [w.name for c in calls for w in sorted(c.work, key=lambda w: w.order)]
        first = calls[0]
        device = min(first.work, key=lambda w: w.order).start
        sums[name, " -> ".join(works)].append((first.start - start, max(device - first.end, 0)))
    return [(key, len(v), us(sum(a for a, _ in v)) / len(v), us(sum(b for _, b in v)) / len(v))
            for key, v in sums.items() if len(key[1]) <= 16384]  # longer ones are cut


def of_quantiles(events):
    """The median, and the length that at most one in a hundred exceeds."""
    lengths = sorted(us(e.length) for e in events)
    return statistics.median(lengths), lengths[len(lengths) - 1 - len(lengths) // 100]


def annotations(t, _):
    tracks = {works[0].track: [w.start for w in works] for works in t.streams()}
    kept = [e for e in t.device_ranges if e.track in tracks and any(
        e.start <= s <= e.end for s in tracks[e.track][bisect.bisect_left(tracks[e.track], e.start):][:1])]
    return [((where, name), *of_durations(events), *of_quantiles(events)) for where, ranges in
            (("host", t.host_ranges), ("device", kept))
            for name, events in grouped(ranges, lambda e: e.name).items()]


def kernels_annotated(t, _):
    if not t.host_ranges:
        return []
    ranges = {k: sorted(v, key=lambda e: e.order)
              for k, v in grouped(t.host_ranges, lambda e: e.track).items()}
    out = []
    for w in t.work:
        open_ = [r for r in ranges.get(w.call.track, []) if r.start <= w.call.start < r.end] \
            if w.call else []
        out.append(((w.name, open_[-1].name if open_ else "", us(w.start), us(w.length)),))
    return out


# ---- comparing ------------------------------------------------------------------------------------------------

KEYS = {"temporal_breakdown": 0, "kernel_types": 1, "overlap": 0, "kernels": 2, "idle_breakdown": 2,
        "queue_length": 1, "queue_length_series": 1, "memory_bandwidth": 1, "launch_stats": 1,
        "op_launch": 2, "annotations": 2, "kernels_annotated": 4}


def read(out, table):
    with open(os.path.join(out, table + ".csv"), newline="") as file:
        lines = list(csv.reader(file))
    skip = 0 if lines[0][0] != "rank" else 1
    rows = [line[skip:] for line in lines[1:]]
    if table == "queue_length_series":
        counters = collections.defaultdict(itertools.count)
        return [((r[0], next(counters[r[0]])), *r[1:]) for r in rows]
    if table == "kernels_annotated":
        return [((r[0], r[1], float(r[2]), float(r[3])),) for r in rows]
    rows = [(tuple(r[:KEYS[table]]), *r[KEYS[table]:]) for r in rows]
    return [r for r in rows if table != "op_launch" or not r[0][1].endswith(" -> ...")]


def same(a, b):
    try:
        a, b = float(a), float(b)
    except ValueError:
        return a == b
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1)


def as_text(row):
    return [str(row[0])] + [f"{float(v):.6f}" if v != "" else "" for v in row[1:]]


def compare(name, table, here, there):
    """Both as lists of (key, value…)."""
    here, there = sorted(here, key=as_text), sorted(there, key=as_text)
    if len(here) != len(there):
        keys = collections.Counter(str(r[0]) for r in here)
        keys.subtract(str(r[0]) for r in there)
        print(f"{name}: {table}: {len(here)} rows, should be {len(there)}:",
              [(k[:80], n) for k, n in keys.items() if n][:4])
        return 1
    wrong = [(a, b) for a, b in zip(here, there)
             if a[0] != b[0] or len(a) != len(b) or not all(same(x, y) for x, y in zip(a[1:], b[1:]))]
    for a, b in wrong[:3]:
        print(f"{name}: {table}: {str(a)[:300]}, should be {str(b)[:300]}")
    return len(wrong)


def check(ckineto, name, path):
    trace = Trace(path)
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([ckineto, "analyze", "--only", TABLES, "--csv", out, path], check=True,
                       stdout=subprocess.DEVNULL)
        types = {row[0][1]: row[0][0] for row in read(out, "kernels")}
        wrong = numbers = 0
        for table in TABLES.split(","):
            there = globals()[table](trace, collections.defaultdict(lambda: "?", types))
            here = read(out, table)
            numbers += sum(len(r) for r in there)
            wrong += compare(name, table, here, there)
    print(f"{name}: {numbers} numbers, {wrong} wrong", flush=True)
    return wrong


# ---- traces of our own -------------------------------------------------------------------------------------------

def made(seed):
    """A thread that calls and four streams, with everything odd."""
    r = random.Random(seed)
    events, now, id_ = [], 1000, 0

    def put(name, cat, start, length, pid, tid, **args):
        events.append({"ph": "X", "cat": cat, "name": name, "ts": start / 1000, "dur": length / 1000,
                       "pid": pid, "tid": tid, "args": args})

    busy = [0] * 4
    for _ in range(400):
        id_ += 1
        gap, length = r.choice([0, 1, 500, 40000]), r.choice([1500, 2000, 9000])
        op, call = now + gap, now + gap + r.choice([0, 1, 700])
        stream = r.randrange(4)
        put(r.choice(["aten::mm", "aten::add"]), "cpu_op", op, length + 1000, 1, 1)
        works = r.choice([0, 1, 1, 1, 3])
        put("cudaGraphLaunch" if works == 3 else "cudaLaunchKernel", "cuda_runtime", call, length // 2, 1,
            1, correlation=id_)
        for _ in range(works):
            start = max(call + r.choice([-300, 0, 1, 2000, 90000]), busy[stream] - r.choice([0, 0, 50]))
            lasts = r.choice([0, 1, 700, 20000])
            busy[stream] = start + lasts
            kind = r.choice([("gemm", "kernel", {}), ("ncclDevKernel_AllReduce", "kernel", {}),
                             ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", {"bytes": 4096}),
                             ("Memset (Device)", "gpu_memset", {"memory bandwidth (GB/s)": 12.5})])
            put(kind[0], kind[1], start, lasts, 0, stream, stream=stream, device=0,
                correlation=id_ if r.random() < .95 else 10**6 + id_, **kind[2])
        now = op + length + 1000 + r.choice([0, 1])
    for k in range(0, 400, 40):
        a, b = events[k]["ts"] * 1000, events[min(k + 200, len(events) - 1)]["ts"] * 1000
        put(f"part {k % 3}", "user_annotation", min(a, b), abs(a - b) + 1, 1, 1)
    return {"traceEvents": events}


def main():
    ckineto, traces, data = sys.argv[1:4]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(6):
            path = os.path.join(folder, f"made{seed}.json")
            with open(path, "w") as file:
                json.dump(made(seed), file)
            wrong += check(ckineto, f"made {seed}", path)
    for name in ("torch-2.5.1/training.json.gz", "torch-1.8.1/steps-1.json.gz"):
        wrong += check(ckineto, name, os.path.join(data, name))
    real = [os.path.join(at, f) for at, _, names in os.walk(traces) for f in sorted(names)
            if f.endswith((".json", ".json.gz")) and ".et." not in f]
    if not real:
        print(f"no real traces in {traces}: left out")
    for path in choose_traces(sorted(real), __file__):
        wrong += check(ckineto, os.path.relpath(path, traces), path)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
