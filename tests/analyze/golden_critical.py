"""Critical paths with HTA's definitions, compared with those of HTA itself: the edges of the path in
their order, their weights, its classes, and whose time it is.

usage: golden_critical.py CKINETO SHARED EXCEPTIONS.json
  SHARED  the folder with traces/ and golden/; without it the test is skipped
"""
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict

CKINETO, SHARED, EXCEPTIONS = sys.argv[1:4]
FIRST_FILE = {"dlrm_8rank": "dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz"}
TABLES = ("critical_path_summary", "critical_path_edges", "critical_path_operators")
# HTA prints shares with all digits of a double; they are sums of whole microseconds.
TOLERANCE = 1e-6

faults = []


def fault(label, words):
    faults.append(f"{label}: {words}")
    print("FAULT", faults[-1], flush=True)


def rows_of(path):
    """A table as dictionaries, plain or compressed."""
    opened = gzip.open(path + ".gz", "rt", encoding="utf-8", newline="") \
        if not os.path.exists(path) else open(path, encoding="utf-8", newline="")
    with opened as file:
        return list(csv.DictReader(file))


def load_events(path):
    opener = gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open
    with opener(path, "rt", encoding="utf-8", errors="surrogateescape") as file:
        return json.loads(file.read(), strict=False)["traceEvents"]


def analyze(path, meta, folder):
    command = [CKINETO, "analyze", path, "--definitions", "hta", "--only", ",".join(TABLES),
               "--csv", folder]
    if meta["annotation"]:
        command += ["--annotation", meta["annotation"], "--instance", str(meta["instance"])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=240)
    return [rows_of(os.path.join(folder, name + ".csv")) for name in TABLES]


def moment(text, indexes):
    """Place in traceEvents, and whether it is the start."""
    number = int(text)
    return indexes[number // 2], number % 2 == 0


def check_edges(label, folder, meta, edges, indexes):
    if len(edges) != meta["n_edges"]:
        fault(label, f"{len(edges)} edges, HTA has {meta['n_edges']}")
    ours = [(*moment(e["src"], indexes), *moment(e["dst"], indexes), e["type"], float(e["us"]))
            for e in edges if e["on_path"] == "1"]
    theirs = [(int(e["src_ev"]), e["src_is_start"] == "True", int(e["dst_ev"]),
               e["dst_is_start"] == "True", e["type"], float(e["weight"]))
              for e in rows_of(os.path.join(folder, "critical_path_edges.csv"))]
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a != b:
            fault(label, f"edge {i} of the path is {a}, HTA's {b}")
            break
    if len(ours) != len(theirs):
        fault(label, f"the path has {len(ours)} edges, HTA's {len(theirs)}")


def check_summary(label, folder, summary):
    ours = {row["class"]: float(row["pct"]) for row in summary}
    theirs = {row["bound_by"]: float(row["duration"])
              for row in rows_of(os.path.join(folder, "critical_path_summary.csv"))}
    for name in sorted(set(ours) | set(theirs)):
        a, b = ours.get(name), theirs.get(name)
        if a is None or b is None or abs(a - b) > TOLERANCE * max(1, abs(b)):
            fault(label, f"share of '{name}' is {a}, HTA's {b}")


def check_operators(label, folder, operators, events):
    ours, theirs = defaultdict(float), defaultdict(float)
    for row in operators:
        if float(row["on_path_us"]):
            ours[row["name"], row["class"]] += float(row["on_path_us"])
    for row in rows_of(os.path.join(folder, "critical_path_breakdown.csv")):
        if row["event_idx"] and float(row["duration"]):
            theirs[events[int(float(row["event_idx"]))]["name"], row["bound_by"]] += \
                float(row["duration"])
    for key in sorted(set(ours) | set(theirs)):
        if abs(ours[key] - theirs[key]) > TOLERANCE:
            fault(label, f"{key} has {ours[key]} us of the path, HTA's {theirs[key]}")
            break


def check(label, meta):
    folder = os.path.join(SHARED, "golden", label)
    path = os.path.join(SHARED, "traces", FIRST_FILE.get(label, label + ".json.gz"))
    if not os.path.exists(path):
        print("absent:", path)
        return
    before = len(faults)
    events = load_events(path)
    indexes = [i for i, e in enumerate(events) if e.get("ph") not in ("M", "s", "t", "f")]
    with tempfile.TemporaryDirectory() as out:
        summary, edges, operators = analyze(path, meta, out)
    check_edges(label, folder, meta, edges, indexes)
    check_summary(label, folder, summary)
    check_operators(label, folder, operators, events)
    print(label, len(edges), "edges,", "same" if len(faults) == before else "DIFFERS", flush=True)


def check_exception(label):
    """HTA has no answer. There must be a path by both definitions."""
    path = os.path.join(SHARED, "traces", label + ".json.gz")
    for definitions in ("exact", "hta") if os.path.exists(path) else ():
        with tempfile.TemporaryDirectory() as out:
            subprocess.run([CKINETO, "analyze", path, "--definitions", definitions, "--only",
                            TABLES[0], "--csv", out], check=True, stdout=subprocess.DEVNULL,
                           timeout=240)
            if not rows_of(os.path.join(out, TABLES[0] + ".csv")):
                fault(label, f"no path with {definitions} definitions")


def main():
    golden = os.path.join(SHARED, "golden")
    if not os.path.isdir(golden):
        print("skipped: no", golden)
        return 77
    with open(EXCEPTIONS, encoding="utf-8") as file:
        exceptions = {e["trace"]: e["cites"] for e in json.load(file)}
    for label in sorted(os.listdir(golden)):
        meta_path = os.path.join(golden, label, "critical_path_meta.json")
        meta = {}
        if os.path.exists(meta_path):
            with open(meta_path, encoding="utf-8") as file:
                meta = json.load(file)
        if meta.get("ok"):
            check(label, meta)
        elif label in exceptions:
            print(label, "is an exception:", exceptions[label])
            check_exception(label)
        elif not label.startswith("diff_"):
            fault(label, "HTA has no path, and no exception says why")
    return 1 if faults else 0


sys.exit(main())
