"""Perfetto's trace_processor reads our traces: the same counter samples, slices and flows, no error.

test_perfetto.py PEER_TRACE FOLDER [TRACES]: PEER_TRACE makes a trace; so are those in the folder
TRACES compared, if it is there, after PEER_TRACE has read and written them. trace_processor is $TRACE_PROCESSOR (a program, or a folder with its WebAssembly module), or
in the PATH, or the module in FOLDER (see fetch.sh); else this is skipped."""

import collections
import csv
import glob
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

COUNTERS = """select p.pid as pid, t.name as name, count(*) as n, min(c.value) as low,
    max(c.value) as high from counter c join process_counter_track t on c.track_id = t.id
    join process p using (upid) group by 1, 2"""
ALL_COUNTERS = "select count(*) as n from counter"
SLICES = "select name, count(*) as n, sum(max(dur, 0)) as dur from slice group by 1"
ERRORS = """select name, value from stats where severity in ('error', 'data_loss')
    and value > 0"""
FLOWS = "select count(*) as n from flow"
QUERIES = [COUNTERS, ALL_COUNTERS, SLICES, FLOWS, ERRORS]


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
    def ask(trace):
        answers = []
        for query in QUERIES:
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
    def ask(trace):
        out = subprocess.run(["node", os.path.join(HERE, "trace_processor.mjs"), folder, trace]
                             + QUERIES, check=True, text=True, stdout=subprocess.PIPE).stdout
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
    asynchronous, arrows = set(), 0
    for e in events_of(path):
        if e["ph"] == "C":
            for series, value in e.get("args", {}).items():
                if isinstance(value, (int, float)):
                    key = (e["pid"], (e["name"] + " " + series).strip())
                    counters.setdefault(key, []).append(value)
        elif e["ph"] == "f":
            arrows += 1
        elif e["ph"] in "XbiI":
            slices[e["name"]][0] += 1
            slices[e["name"]][1] += nanoseconds(e.get("dur", 0))
            if e["ph"] == "b":
                asynchronous.add(e["name"])  # its length is in another event
    return counters, slices, asynchronous, arrows


# ---- comparing


def compare(path, ask):
    problems = []
    counters, slices, asynchronous, arrows = expected(path)
    theirs, all_samples, their_slices, flows, errors = ask(path)
    seen = {(row["pid"], row["name"].strip()): row for row in theirs}
    for key, values in counters.items():
        row = seen.get(key, {"n": 0})
        if row["n"] != len(values):
            problems.append("counter %s: %d samples, they count %d" % (key, len(values), row["n"]))
        elif abs(row["low"] - min(values)) > 1e-6 or abs(row["high"] - max(values)) > 1e-6:
            problems.append("counter %s: other values" % (key,))
    total = sum(len(values) for values in counters.values())
    if all_samples[0]["n"] != total:
        problems.append("%d samples, they count %d" % (total, all_samples[0]["n"]))
    counted = {row["name"]: row for row in their_slices}
    for name, (count, length) in slices.items():
        row = counted.get(name, {"n": 0, "dur": 0})
        if row["n"] != count:
            problems.append("slices %s: %d, they count %d" % (name, count, row["n"]))
        elif name not in asynchronous and abs(row["dur"] - length) > count:
            problems.append("slices %s: %d ns long, they say %d" % (name, length, row["dur"]))
    if flows[0]["n"] != arrows:
        problems.append("%d flows, they count %d" % (arrows, flows[0]["n"]))
    for row in errors:
        problems.append("they complain of %s: %s" % (row["name"], row["value"]))
    print("%s: %d counters, %d samples; %d names of slices, %d slices; %d flows: %s"
          % (os.path.basename(path), len(counters), total, len(slices),
             sum(count for count, _ in slices.values()), arrows,
             "DIFFERENT" if problems else "same"))
    for problem in problems[:20]:
        print("  " + problem)
    return not problems


def main():
    program, folder = sys.argv[1:3]
    others = sorted(glob.glob(os.path.join(sys.argv[3], "*.json.gz"))) if len(sys.argv) > 3 else []
    ask = find_peer(folder)
    if not ask:
        print("skipped: Perfetto's trace_processor is not here (make test-peers fetches it)")
        return 77
    with tempfile.TemporaryDirectory() as work:
        trace = os.path.join(work, "peer.json")
        subprocess.run([program, trace], check=True)
        same = compare(trace, ask)
        for other in others:
            trace = os.path.join(work, os.path.basename(other)[:-3])
            if subprocess.run([program, "again", other, trace], stderr=subprocess.DEVNULL).returncode:
                print("%s: no trace of events" % os.path.basename(other))
                continue
            same = compare(trace, ask) and same
            os.unlink(trace)
    if not others:
        print("no traces of others here")
    return 0 if same else 1


sys.exit(main())
