"""idle_named of the command equals what this slow program finds in the JSON, in nanoseconds: for each
stream, how long each reason held; for each device, how long it was idle.

    exact_idle.py CKINETO TRACES...

TRACES are files, or directories of them. Exits with 77 if there are none."""
import bisect
import collections
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
from decimal import Decimal

from sample import choose_traces

LATENCY, FULL = 30000, 1022
WORK = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set", "memcpy": "copy", "memset": "set",
        "mtia_ccp_events": "kernel"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "mtia_runtime"}
OPERATORS = {"cpu_op", "operator"}
HOST = CALLS | OPERATORS | {"user_annotation", "python_function", "overhead"}
OF_HOST = ["synchronizing", "data_loader", "between_operators", "in_operator", "in_runtime", "launching",
           "full_queue", "profiler_overhead"]


def load(path):
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") if path.endswith(".gz") else open(
            path, encoding="utf-8", errors="replace") as f:
        data = json.load(f, parse_float=Decimal, strict=False)
    return data["traceEvents"] if isinstance(data, dict) else data


class Event:
    __slots__ = ("start", "end", "name", "cat", "args", "thread", "index", "call", "works", "stream",
                 "place", "run", "graph")

    def __init__(self, e, index):
        self.start = int(Decimal(e["ts"]) * 1000)
        self.end = self.start + int(Decimal(e["dur"]) * 1000)
        self.name, self.cat, self.index = e["name"], e["cat"].lower(), index
        self.args = e.get("args") or {}
        self.thread = (e["pid"], e["tid"])
        self.works, self.call = [], None

    def key(self):
        return (self.start, -self.end, self.index)


def communicates(w):
    return w.cat == "kernel" and ("nccl" in w.name.lower() or "collective" in w.name.lower())


def correlation(e):
    c = e.args.get("correlation", 0)
    return c if isinstance(c, int) else 0


class Trace:
    def __init__(self, path):
        events = [Event(e, i) for i, e in enumerate(load(path))
                  if e.get("ph") == "X" and "dur" in e and isinstance(e.get("cat"), str)]
        self.works = sorted((e for e in events if e.cat in WORK), key=Event.key)
        self.streams = collections.defaultdict(list)
        for w in self.works:
            w.stream = w.thread
            self.streams[w.stream].append(w)
        self.threads = collections.defaultdict(list)
        for e in events:
            if e.cat in HOST:
                self.threads[e.thread].append(e)
        self.link(events)
        for stream in self.streams.values():
            self.find_graphs(stream)

    def link(self, events):
        calls = {}
        for e in events:
            if e.cat in CALLS and correlation(e):
                calls.setdefault(correlation(e), e)
        for w in self.works:
            w.call = calls.get(correlation(w)) if correlation(w) else None
            if w.call:
                w.call.works.append(w)

    @staticmethod
    def find_graphs(stream):
        for i, w in enumerate(stream):
            may = w.call is None or "GraphLaunch" in w.call.name
            same = i > 0 and correlation(w) != 0 and correlation(w) == correlation(stream[i - 1]) and may
            w.place = stream[i - 1].place + 1 if same else 0
            w.graph = same or (w.call is not None and may)
            if same:
                stream[i - 1].graph = True
        at = 0
        while at < len(stream):
            end = at + 1
            while end < len(stream) and stream[end].place:
                end += 1
            for w in stream[at:end]:
                w.run = end - at
            at = end


def gaps(works):
    last = works[0]
    for w in works[1:]:
        if w.start > last.end:
            yield last, w
        if w.end >= last.end:
            last = w


def never_waits(call):
    """Async copies within devices, and from and to pinned memory."""
    name = call.works[0].name
    return "Async" in call.name and "Pageable" not in name and any(
        w in name for w in ("DtoD", "DeviceToDevice", "D2D", "PtoP", "Pinned"))


def blocks(call):
    return (len(call.works) == 1 and not never_waits(call) and WORK[call.works[0].cat] == "copy" and
            call.start <= call.works[0].start and call.works[0].end <= call.end)


def queued(stream):
    """By when each piece of work had been launched."""
    bound, out = None, {}
    for w in reversed(stream):
        if w.call:
            at = min(w.call.end, w.call.start + LATENCY) if blocks(w.call) else w.call.end
            bound = at if bound is None else min(bound, at)
        out[w.index] = bound
    return out


def overlap(spans, start, end):
    return sum(max(0, min(b, end) - max(a, start)) for a, b in spans)


def unite(spans):
    out = []
    for a, b in sorted(spans):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


class Busy:
    """Spans that can be asked how much of an interval they cover."""

    def __init__(self, spans):
        self.spans = unite(spans)
        self.starts = [a for a, _ in self.spans]

    def within(self, start, end):
        at = max(0, bisect.bisect_right(self.starts, start) - 1)
        stop = bisect.bisect_left(self.starts, end)
        return overlap(self.spans[at:stop], start, end)


# ---- the host ----------------------------------------------------------------------------------------------


class Host:
    def __init__(self, trace):
        self.trace, self.pieces, self.nests = trace, {}, True
        self.launches = {}
        firsts = {}
        for w in trace.works:
            if w.call:
                firsts.setdefault(id(w.call), w)
        for key, stream in trace.streams.items():
            mine = [w for w in stream if w.call and firsts[id(w.call)] is w]
            self.launches[key] = (sorted(w.call.start for w in mine), sorted(w.start for w in mine))
        self.main = {}
        for (pid, tid), events in trace.threads.items():
            steps = [e.start for e in events if e.name.startswith("ProfilerStep")]
            rank = (0, min(steps)) if steps else (1, -len(events))
            if pid not in self.main or rank < self.main[pid][0]:
                self.main[pid] = (rank, (pid, tid))
        self.overhead = unite([[e.start, e.end] for events in trace.threads.values() for e in events
                               if e.cat == "overhead" and self.of_overhead(e) == "profiler_overhead"])

    @staticmethod
    def of_overhead(e):
        if "Command Buffer Full" in e.name:
            return "full_queue"
        return "in_runtime" if any(w in e.name for w in ("Loading", "Compiler", "UVM")) \
            else "profiler_overhead"

    def waiting(self, stream, ns):
        launched, started = self.launches[stream]
        return bisect.bisect_right(launched, ns) - bisect.bisect_right(started, ns)

    def of_call(self, e):
        waits = "Synchronize" in e.name or any(e.name.startswith(p) for p in (
            "cuCtxSync", "cuStreamSync", "cuEventSync"))
        copies = "Memcpy" in e.name or "Memset" in e.name
        launches = "Launch" in e.name or "runFunction" in e.name or (copies and "Async" in e.name)
        if waits or (copies and not launches) or blocks(e):
            return "synchronizing"
        if not launches and not e.works:
            return "in_runtime"
        first = min(e.works, key=Event.key) if e.works else None
        return "full_queue" if first and self.waiting(first.stream, e.start) >= FULL else "launching"

    def reason(self, e, around):
        if e.cat == "overhead":
            return self.of_overhead(e)
        if around in ("data_loader", "synchronizing"):
            return around
        if e.cat in CALLS:
            return self.of_call(e)
        if (e.name.startswith("enumerate(DataLoader)#") and e.name.endswith(".__next__")) or \
                e.name.startswith("enumerate(DataPipe)#"):
            return "data_loader"
        if e.name in ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero"):
            return "synchronizing"
        return "in_operator" if e.cat in OPERATORS else around

    def of(self, thread):
        """(start, end, reason or None) of a thread, without gaps."""
        if thread in self.pieces:
            return self.pieces[thread]
        out, stack, at = [], [], -(1 << 70)

        def until(ns):
            nonlocal at
            if ns > at:
                out.append((at, ns, stack[-1][1] if stack else None))
                at = ns

        for e in sorted(self.trace.threads[thread], key=Event.key):
            while stack and stack[-1][0].end <= e.start and (stack[-1][0].end < e.end or
                                                             stack[-1][0].end < e.start):
                until(stack[-1][0].end)
                stack.pop()
            if stack and e.end > stack[-1][0].end:
                self.nests = False
            until(e.start)
            stack.append((e, self.reason(e, stack[-1][1] if stack else "between_operators")))
        while stack:
            until(stack[-1][0].end)
            stack.pop()
        until(1 << 70)
        self.pieces[thread] = out
        return out

    def add(self, thread, start, end, sums, asked=True):
        pieces = self.of(thread)
        at = bisect.bisect_right(pieces, (start, 1 << 80)) - 1
        while at < len(pieces) and pieces[at][0] < end:
            a, b, reason = max(pieces[at][0], start), min(pieces[at][1], end), pieces[at][2]
            main = self.main[thread[0]][1]
            if reason is None and asked and main != thread:
                self.add(main, a, b, sums, False)
            else:
                reason = reason or "between_operators"
                covered = 0
                if reason not in ("synchronizing", "data_loader"):
                    covered = overlap(self.overhead, a, b)
                sums["profiler_overhead"] += covered
                sums[reason] += b - a - covered
            at += 1


# ---- streams ----------------------------------------------------------------------------------------------------


class Devices:
    def __init__(self, trace):
        self.trace = trace
        self.works = collections.defaultdict(list)
        for w in trace.works:
            self.works[w.stream[0]].append(w)
        self.busy = {d: Busy([[w.start, w.end] for w in ws]) for d, ws in self.works.items()}
        self.comm = {d: Busy([[w.start, w.end] for w in ws if communicates(w)])
                     for d, ws in self.works.items()}
        self.ends = {d: sorted((w.end, self.rank(w), w.stream, communicates(w), w.start) for w in ws)
                     for d, ws in self.works.items()}
        self.end_times = {d: [e[0] for e in ends] for d, ends in self.ends.items()}
        self.queued = {key: queued(stream) for key, stream in trace.streams.items()}
        self.lengths = collections.defaultdict(list)
        for key, stream in trace.streams.items():
            for before, after in gaps(stream):
                start = self.start(key, before, after)
                if (before.graph or after.graph) and after.start - start > LATENCY:
                    self.lengths[self.place(key, before, after)].append(after.start - start)
        self.unrecorded = self.find_unrecorded()

    @staticmethod
    def rank(w):
        return (w.stream, w.start, -w.end, w.index)

    @staticmethod
    def place(key, before, after):
        return key, before.name, after.name, after.place, before.run, after.run

    def start(self, key, before, after):
        at = self.queued[key][after.index]
        at = after.start if at is None else at
        return min(max(at, before.end), after.start)

    def steady(self, key, before, after):
        of = self.lengths.get(self.place(key, before, after), [])
        return len(of) >= 3 and max(of) - min(of) <= max(of) // 4

    def crowded_out(self, key, before, after):
        at = bisect.bisect_right(self.end_times[key[0]], after.start + LATENCY)
        latest = before.end + (after.start - before.end) // 10
        return any(e[0] >= after.start - LATENCY and e[2] != key and e[4] <= latest
                   for e in self.ends[key[0]][max(0, at - 16):at])

    def split(self, key, before, after, start, final=True):
        """What the queued part of a gap consists of."""
        sums, end, d = collections.Counter(), after.start, key[0]
        if end <= start:
            return sums
        alone = after.call is None or len(after.call.works) == after.run
        if after.graph and after.place and alone and end - start > LATENCY and \
                not self.crowded_out(key, before, after):
            sums["unrecorded_work"] = end - start
            return sums
        busy, comm = self.busy[d].within(start, end), self.comm[d].within(start, end)
        if comm:
            at = bisect.bisect_right(self.end_times[d], end)
            near = [e for e in self.ends[d][max(0, at - 16):at] if e[0] >= end - LATENCY and e[2] != key]
            if near and not near[-1][3]:
                comm = 0
        sums["other_rank"] += comm
        sums["other_stream"] += busy - comm
        rest = end - start - busy
        if rest > LATENCY and (before.graph or after.graph) and self.steady(key, before, after):
            sums["unrecorded_work"] += rest
            return sums
        elsewhere = min(rest, self.unrecorded[d].within(start, end)) if final else 0
        sums["other_stream"] += elsewhere
        rest -= elsewhere
        sums["device_latency" if rest <= LATENCY else "other_rank" if communicates(after)
             else "unknown"] += rest
        return sums

    def find_unrecorded(self):
        spans = collections.defaultdict(list)
        for key, stream in self.trace.streams.items():
            for before, after in gaps(stream):
                if before.graph or after.graph:
                    start = self.start(key, before, after)
                    if self.split(key, before, after, start, False)["unrecorded_work"]:
                        spans[key[0]].append([start, after.start])
        out = {}
        for d in self.works:
            left = []
            for a, b in unite(spans[d]):
                for c, e in self.busy[d].spans:
                    if e > a and c < b:
                        if c > a:
                            left.append([a, c])
                        a = max(a, e)
                if a < b:
                    left.append([a, b])
            out[d] = Busy(left)
        return out


def slow(path):
    trace = Trace(path)
    if not trace.works:
        return None, None, True
    host, devices, of_streams = Host(trace), Devices(trace), {}
    for key, stream in trace.streams.items():
        sums = of_streams[key] = collections.Counter()
        for before, after in gaps(stream):
            start = devices.start(key, before, after)
            if after.call is None:
                sums["unknown"] += start - before.end
            else:
                launch = min(max(after.call.start, before.end), start)
                host.add(after.call.thread, before.end, launch, sums)
                sums["full_queue" if launch < start and host.of_call(after.call) == "full_queue"
                     else "launching"] += start - launch
            sums.update(devices.split(key, before, after, start))
    of_devices = {d: sum(b.start - a.end for a, b in gaps(sorted(ws, key=Event.key)))
                  for d, ws in devices.works.items()}
    return of_streams, of_devices, host.nests


def read_reported(ckineto, path):
    with tempfile.TemporaryDirectory() as where:
        subprocess.run([ckineto, "analyze", path, "--only", "idle_named", "--csv", where], check=True,
                       stdout=subprocess.DEVNULL)
        out = collections.defaultdict(collections.Counter)
        with open(os.path.join(where, "idle_named.csv"), newline="", encoding="utf-8") as f:
            for row in csv.DictReader(f):
                ns = int(Decimal(row["idle_us"]) * 1000)
                out[int(row["device"]), int(row["stream"])][row["reason"]] += ns
        return out


def joined(sums, nests):
    """Ranges that cross each other lie in lanes, which this program does not know."""
    if nests:
        return {k: v for k, v in sums.items() if v}
    out = {k: v for k, v in sums.items() if v and k not in OF_HOST}
    out["host"] = sum(sums[k] for k in OF_HOST)
    return {k: v for k, v in out.items() if v}


def check(ckineto, path):
    try:
        of_streams, of_devices, nests = slow(path)
    except (ValueError, OSError, EOFError) as why:
        print(f"{os.path.basename(path)}: no JSON, left out ({why})")
        return []
    got, wrong = read_reported(ckineto, path), []
    if of_streams is None:
        return ["rows without device work"] if got else []
    for (device, stream), sums in of_streams.items():
        stream = int(str(stream).split()[-1])  # "stream 7"
        want, have = joined(sums, nests), joined(got.get((device, stream), collections.Counter()), nests)
        if want != have:
            wrong.append(f"device {device} stream {stream}: {have}, not {want}")
    for device, ns in of_devices.items():
        have = sum(got.get((device, -1), {}).values())
        if have != ns:
            wrong.append(f"device {device} idle for {have} ns, not {ns}")
    print(f"{os.path.basename(path)}: {len(of_streams)} streams, "
          f"{'all reasons' if nests else 'reasons of the host together'}{', WRONG' if wrong else ''}")
    return wrong


def main():
    files = []
    for path in sys.argv[2:]:
        if os.path.isdir(path):
            for folder, _, names in sorted(os.walk(path)):
                files += [os.path.join(folder, n) for n in sorted(names)
                          if n.endswith((".json", ".json.gz")) and ".et." not in n]
        elif os.path.exists(path):
            files.append(path)
    if not files:
        print("no traces here")
        return 77
    wrong = [f"{path}: {w}" for path in choose_traces(files, __file__) for w in check(sys.argv[1], path)]
    for w in wrong:
        print(w)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
