"""Perfetto's trace_processor reads our traces: the same counter samples, slices and flows, no error.

test_perfetto.py PEER_TRACE FOLDER [TRACES…]: PEER_TRACE makes a trace; so are those compared that lie
in and below the folders TRACES, after PEER_TRACE has read and written them. All in Perfetto's own
format; what PEER_TRACE made and those right in the first folder also as Chrome JSON, but not the one
with overlaps, as Perfetto hides what overlaps in JSON. trace_processor is $TRACE_PROCESSOR (a program, or a folder with its WebAssembly module), or
in the PATH, or the module in FOLDER (see fetch.sh); else this is skipped."""

import collections
import concurrent.futures
import csv
import glob
import gzip
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "helpers"))
import cpu_traces  # noqa: E402

COUNTERS = """select p.pid as pid, t.name as name, count(*) as n, min(c.value) as low,
    max(c.value) as high from counter c join process_counter_track t on c.track_id = t.id
    join process p using (upid) group by 1, 2"""
# CPU time of samples is a counter, too, in Perfetto's own format.
ALL_COUNTERS = "select count(*) as n from counter where track_id not in (select id from perf_counter_track)"
SLICES = "select name, count(*) as n, sum(max(dur, 0)) as dur from slice group by 1"
ERRORS = """select name, value from stats where severity in ('error', 'data_loss')
    and value > 0"""
FLOWS = "select count(*) as n from flow"
QUERIES = [COUNTERS, ALL_COUNTERS, SLICES, FLOWS, ERRORS]
# Of Perfetto's own format: there, devices are tracks and no processes.
NAMED_COUNTERS = """select t.name as name, count(*) as n, min(c.value) as low,
    max(c.value) as high from counter c join counter_track t on c.track_id = t.id group by 1"""
STICKING_OUT = """select count(*) as n from slice a join slice p on a.parent_id = p.id
    where a.ts < p.ts or a.ts + a.dur > p.ts + p.dur or a.track_id != p.track_id"""
NAMELESS = """select count(*) as n from slice s left join track t on s.track_id = t.id
    left join thread_track h on h.id = t.id where t.name is null and h.utid is null"""
IDS = """select count(*) as n, sum(a.int_value) as total from slice s join args a
    using (arg_set_id) where a.key = 'debug.correlation'"""
PROCESSES = "select pid, name from process where pid > 0"
LANES = """select count(*) as n from track t left join track p on t.parent_id = p.id
    where t.name like '% (lane %' and p.id is null and t.type like 'global%'"""
STATES = """select t.tid as tid, state, sum(dur) as ns from thread_state join thread t using (utid)
    join process p using (upid) where dur > 0 and p.pid = %d group by 1, 2""" % cpu_traces.PID
SAMPLES = """select f.name as name, count(*) as n from perf_sample s
    join stack_profile_callsite c on s.callsite_id = c.id
    join stack_profile_frame f on c.frame_id = f.id group by 1"""
DEPTHS = """select c.depth as depth, count(*) as n from perf_sample s
    join stack_profile_callsite c on s.callsite_id = c.id group by 1"""
CPU_TIME = """select sum(m) as ns from (select max(c.value) as m from counter c
    join perf_counter_track t on c.track_id = t.id group by t.id)"""
RUNNING = "select sum(dur) as ns from thread_state where state = 'Running' and dur > 0"
OWN_QUERIES = [NAMED_COUNTERS, ALL_COUNTERS, SLICES, FLOWS, ERRORS, STICKING_OUT, NAMELESS, IDS,
               PROCESSES, LANES, RUNNING]


# ---- the peer


def number(text):
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def ask_program(program):
    def ask(trace, queries):
        answers = []
        for query in queries:
            with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
                file.write(query)
                file.flush()
                out = subprocess.run([program, "-q", file.name, trace], check=True, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            rows = csv.DictReader(io.StringIO(out.strip()))
            answers.append([{k: number(v) for k, v in row.items()} for row in rows])
        return answers
    return ask


def ask_module(folder):
    def ask(trace, queries):
        out = subprocess.run(["node", os.path.join(HERE, "trace_processor.mjs"), folder, trace]
                             + queries, check=True, text=True, stdout=subprocess.PIPE,
                             timeout=600).stdout
        return json.loads(out)
    return ask


def has_module(folder):
    return os.path.exists(os.path.join(folder, "trace_processor.wasm")) and shutil.which("node")


def find_peer(folder):
    named = os.environ.get("TRACE_PROCESSOR", "")
    if os.path.isdir(named):
        return ask_module(named)
    for program in [named, "trace_processor_shell", "trace_processor"]:
        if program and shutil.which(program):
            return ask_program(program)
    return ask_module(folder) if has_module(folder) else None


# ---- what the file says


def events_of(path):
    opened = gzip.open(path) if path.endswith(".gz") else open(path, "rb")
    with opened as file:
        data = json.load(file)
    return data["traceEvents"] if isinstance(data, dict) else data


def nanoseconds(us):
    return round(us * 1000)


def expected(path):
    counters, slices = {}, collections.defaultdict(lambda: [0, 0])
    asynchronous, starts, ends = set(), set(), []
    for e in events_of(path):
        if e["ph"] == "C":
            for series, value in e.get("args", {}).items():
                if isinstance(value, (int, float)):
                    key = (e["pid"], (e["name"] + " " + series).strip())
                    counters.setdefault(key, []).append(value)
        elif e["ph"] == "s":
            starts.add((e["cat"], e["id"]))
        elif e["ph"] == "f":
            ends.append((e["cat"], e["id"]))
        elif e["ph"] in "XbiI":
            slices[e["name"]][0] += 1
            slices[e["name"]][1] += nanoseconds(e.get("dur", 0))
            if e["ph"] == "b":
                asynchronous.add(e["name"])  # its length is in another event
    arrows = sum(end in starts for end in ends)  # of half a one nothing can be drawn
    return counters, slices, asynchronous, arrows


def correlations(path):
    """Of the activities: how many have an id, and their sum."""
    ids = [e["args"]["correlation"] for e in events_of(path)
           if e["ph"] in "XbiI" and isinstance(e.get("args", {}).get("correlation"), int)]
    return len(ids), sum(ids)


def scheduler_states(path):
    """Of states that become events of the scheduler: count and length by name."""
    states = {cpu_traces.RUNNING: [0, 0], cpu_traces.WAITING: [0, 0]}
    for e in events_of(path):
        if e["ph"] == "X" and e.get("cat") == "thread_state" and e["name"] in states:
            states[e["name"]][0] += 1
            states[e["name"]][1] += nanoseconds(e["dur"])
    return states


def process_names(path):
    """By pid, of processes that have threads: Perfetto knows a number of 31 bits as a pid."""
    names, hosts = {}, set()
    for e in events_of(path):
        if e["ph"] == "M" and e["name"] == "process_name":
            names[e["pid"]] = e["args"]["name"]
        elif e["ph"] == "X" and e.get("cat") == "cpu_op":
            hosts.add(e["pid"])
    return {pid: name for pid, name in names.items()
            if pid in hosts and isinstance(pid, int) and 0 < pid < 1 << 31}


# ---- comparing


OVERLAPS = "slice_drop_overlapping_complete_event"  # which they say that they drop


def differ_slices(slices, theirs, asynchronous, errors=()):
    counted = {row["name"]: row for row in theirs}
    dropped = sum(row["value"] for row in errors if row["name"] == OVERLAPS)
    missing = sum(count - counted.get(name, {"n": 0})["n"] for name, (count, _) in slices.items())
    if dropped and missing != dropped:
        yield "%d slices are missing, they say that they dropped %d" % (missing, dropped)
    for name, (count, length) in slices.items():
        row = counted.get(name, {"n": 0, "dur": 0})
        if row["n"] != count:
            if not dropped or row["n"] > count:
                yield "slices %s: %d, they count %d" % (name, count, row["n"])
        elif name not in asynchronous and abs(row["dur"] - length) > count:
            yield "slices %s: %d ns long, they say %d" % (name, length, row["dur"])


def differ_counters(counters, seen, total):
    for key, values in counters.items():
        row = seen.get(key, {"n": 0})
        if row["n"] != len(values):
            yield "counter %s: %d samples, they count %d" % (key, len(values), row["n"])
        elif abs(row["low"] - min(values)) > 1e-6 or abs(row["high"] - max(values)) > 1e-6:
            yield "counter %s: other values" % (key,)
    if total != sum(len(values) for values in counters.values()):
        yield "%d samples in all" % total


def differ_rest(flows, arrows, errors, may_overlap=False):
    if flows != arrows:
        yield "%d flows, they count %d" % (arrows, flows)
    for row in errors:
        if row["name"] == OVERLAPS and may_overlap:
            continue
        yield "they complain of %s: %s" % (row["name"], row["value"])


def say(what, problems, counters, slices, arrows):
    print("%s: %d counters, %d samples; %d names of slices, %d slices; %d flows: %s"
          % (os.path.basename(what), len(counters), sum(len(v) for v in counters.values()),
             len(slices), sum(count for count, _ in slices.values()), arrows,
             "DIFFERENT" if problems else "same"))
    for problem in problems[:20]:
        print("  " + problem)
    return not problems


def compare(path, ask):
    counters, slices, asynchronous, arrows = expected(path)
    theirs, all_samples, their_slices, flows, errors = ask(path, QUERIES)
    seen = {(row["pid"], row["name"].strip()): row for row in theirs}
    problems = [*differ_counters(counters, seen, all_samples[0]["n"]),
                *differ_slices(slices, their_slices, asynchronous, errors),
                *differ_rest(flows[0]["n"], arrows, errors, may_overlap=True)]
    return say(path, problems, counters, slices, arrows)


def compare_own(path, own, ask):
    """Perfetto's format at `own` against the same trace as JSON."""
    counters, slices, asynchronous, arrows = expected(path)
    slices.pop("Record Window End", None)  # what only Chrome JSON needs
    states = scheduler_states(path)
    for name, (number_of, length) in states.items():
        if number_of:
            slices[name] = [slices[name][0] - number_of, slices[name][1] - length]
    by_name = {}
    for (_, name), values in counters.items():
        by_name.setdefault(name, []).extend(values)
    (theirs, all_samples, their_slices, flows, errors, sticking_out, nameless, ids, processes,
     lanes, running) = ask(own, OWN_QUERIES)
    problems = [*differ_counters(by_name, {row["name"]: row for row in theirs},
                                 all_samples[0]["n"]),
                *differ_slices(slices, their_slices, asynchronous),
                *differ_rest(flows[0]["n"], arrows, errors)]
    for rows, what in ((sticking_out, "slices stick out of their parents"),
                       (nameless, "slices are on tracks without a name"),
                       (lanes, "lanes have no parent")):
        if rows[0]["n"]:
            problems.append("%d %s" % (rows[0]["n"], what))
    number_of, length = states[cpu_traces.RUNNING]
    if abs((running[0]["ns"] or 0) - length) > number_of:
        problems.append("running %d ns, they say %s" % (length, running[0]["ns"]))
    count, total = correlations(path)
    if ids[0]["n"] != count or (ids[0]["total"] or 0) != total:
        problems.append("%d correlation ids of sum %d, they see %s" % (count, total, ids[0]))
    for pid, name in process_names(path).items():
        if {"pid": pid, "name": name} not in processes:
            problems.append("process %s %s is unknown" % (pid, name))
    return say(own, problems, by_name, slices, arrows)


def overlapping(path):
    """Slices of a stream and of a thread that overlap in all ways; arrows in both directions."""
    chance, events, start = random.Random(3), [], 1700000000000000
    for pid, label in ((100, "CPU"), (0, "GPU 0")):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "train"}})
        events.append({"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": label}})
    for i in range(1, 401):
        at, length = chance.randrange(100000) / 8, chance.choice([0, chance.randrange(3000) / 8])
        events.append({"ph": "X", "cat": "kernel", "name": "k%d" % (i % 7), "pid": 0, "tid": 7,
                       "ts": start + at, "dur": length,
                       "args": {"stream": 7, "device": 0, "correlation": i, "grid": [1, 2, 3]}})
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 100, "tid": 101,
                       "ts": start + i * 300 - 5000 * (i % 2), "dur": chance.choice([100, 400]),
                       "args": {"correlation": i}})
        events.append({"ph": "s", "id": i, "pid": 100, "tid": 101, "ts": events[-1]["ts"],
                       "cat": "ac2g", "name": "ac2g"})
        events.append({"ph": "f", "bp": "e", "id": i, "pid": 0, "tid": 7, "ts": start + at,
                       "cat": "ac2g", "name": "ac2g"})
        events.append({"ph": "C", "name": "memory", "pid": i % 2 * 100, "tid": 0, "ts": start + i,
                       "args": {"used [MiB]": i * 1.5}})
    for i in range(30):
        for ph, later in (("b", 0), ("e", 95)):
            events.append({"ph": ph, "cat": "io", "name": "request", "id": i + 1, "pid": 100,
                           "tid": 101, "ts": start + 10 * i + later})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "traceEvents": events}, file)


def check(program, source, work, ask, own_only=False):
    """Write a trace in both formats and compare; None if it cannot be read."""
    name = os.path.basename(source).split(".json")[0]
    work = tempfile.mkdtemp(dir=work)
    trace, own = os.path.join(work, name + ".json"), os.path.join(work, name + ".pftrace")
    for out in (trace, own):
        if subprocess.run([program, "again", source, out],
                          stderr=subprocess.DEVNULL).returncode:
            return None
    same = (own_only or compare(trace, ask)) & compare_own(trace, own, ask)
    os.unlink(trace)
    os.unlink(own)
    return same


def check_cpu(program, work, ask, seed):
    """States of threads as events of the scheduler, and samples: of a random program all is known."""
    made = cpu_traces.Program(seed, threads=4, cpus=2)
    trace, own = os.path.join(work, "cpu.json"), os.path.join(work, "cpu.pftrace")
    made.write(trace)
    subprocess.run([program, "again", trace, own], check=True, stderr=subprocess.DEVNULL)
    states, samples, depths, cpu_time, errors = ask(own, [STATES, SAMPLES, DEPTHS, CPU_TIME, ERRORS])
    names = {"Running": cpu_traces.RUNNING, "R+": cpu_traces.WAITING, "S": cpu_traces.BLOCKED}
    found = {(row["tid"], names[row["state"]]): row["ns"] for row in states if row["state"] in names}
    wanted = made.state_times()
    for thread in made.threads:
        if thread.states and thread.states[0][0] == cpu_traces.WAITING:
            wanted[(thread.tid, cpu_traces.WAITING)] -= thread.states[0][2] - thread.states[0][1]
    problems = list(differ_rest(0, 0, errors))
    if found != {key: ns for key, ns in wanted.items() if ns}:
        problems.append("other times in states: %s, %s" % (found, wanted))
    by_name, by_depth, whole = collections.Counter(), collections.Counter(), 0
    for stack, (count, cpu_ns) in made.totals().items():
        by_name[stack[-1]] += count
        by_depth[len(stack) - 1] += count
        whole += cpu_ns
    if {row["name"]: row["n"] for row in samples} != by_name:
        problems.append("other samples: %s, %s" % (samples, by_name))
    if {row["depth"]: row["n"] for row in depths} != by_depth:
        problems.append("stacks of other depths: %s, %s" % (depths, by_depth))
    if cpu_time[0]["ns"] != whole:
        problems.append("CPU time %d, they say %s" % (whole, cpu_time[0]["ns"]))
    return say("a program on CPUs", problems, {}, {}, 0)


def main():
    program, folder = sys.argv[1:3]
    first = sys.argv[3:4]
    others = sorted(path for traces in sys.argv[3:]
                    for path in glob.glob(os.path.join(traces, "**", "*.json.gz"), recursive=True))
    ask = find_peer(folder)
    if not ask:
        print("skipped: Perfetto's trace_processor is not here (make test-peers fetches it)")
        return 77
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as work:
        recorded = os.path.join(folder, "recorded.json")
        overlaps = os.path.join(folder, "overlapping.json")
        subprocess.run([program, recorded], check=True)
        overlapping(overlaps)
        same = bool(check(program, recorded, work, ask))
        same = bool(check(program, overlaps, work, ask, own_only=True)) and same
        for seed in range(3):
            same = check_cpu(program, work, ask, seed) and same
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(
                lambda other: check(program, other, work, ask,
                                    own_only=[os.path.dirname(other)] != first), others))
        for other, result in zip(others, results):
            if result is None:
                print("%s: no trace of events" % other)
            elif not result:
                same = False
                print("%s: different" % other)
    if not others:
        print("no traces of others here")
    return 0 if same else 1


sys.exit(main())
