"""Ranges that cross others: what encloses what, whose time it is, and what follows from it, in every output alike."""
import collections
import gzip
import json
import random
import re

from harness import expect, finish, given, path_of, query, run, write_trace


def ranges(*items):
    """(name, start, end, category) on one thread, in us."""
    return [{"ph": "X", "name": n, "cat": c, "pid": 5, "tid": 5, "ts": s, "dur": e - s} for n, s, e, c in items]


# A step begins inside of the function that opens it, and ends inside of the one that closes it; a named
# range inside of it crosses two short functions in the same way.
STEP = ranges(("prof.py(8): step", 0, 20, "python_function"),
              ("opened in step", 12, 14, "cpu_op"),
              ("ProfilerStep#3", 10, 1010, "user_annotation"),
              ("enter", 45, 52, "python_function"),
              ("forward", 50, 350, "user_annotation"),
              ("aten::mm", 60, 160, "cpu_op"),
              ("exit", 345, 360, "python_function"),
              ("closed in exit", 346, 348, "cpu_op"),
              ("aten::relu", 500, 550, "cpu_op"),
              ("prof.py(8): step", 1005, 1030, "python_function"))


def owner(events, us):
    """The event that began last of those that are open."""
    return max((e for e in events if e["ts"] <= us < e["ts"] + e["dur"]),
               key=lambda e: (e["ts"], -e["dur"]), default=None)


def encloses(outer, inner):
    return outer is not inner and outer["ts"] <= inner["ts"] < outer["ts"] + outer["dur"] and \
        inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def check_step():
    path = write_trace("step.json", STEP)
    own = collections.Counter()
    for us in range(0, 1030):
        found = owner(STEP, us)
        if found:
            own[found["name"]] += 1
    rows = query(path, "SELECT a.name, a.self_ns, p.name AS parent FROM activities a LEFT JOIN activities p ON p.row = a.parent")
    got = collections.Counter()
    for row in rows:
        got[row["name"]] += row["self_ns"] // 1000
    expect("own times", dict(got), dict(own))
    parents = {r["name"]: r["parent"] for r in rows if r["name"] != "prof.py(8): step"}
    expect("parents", parents, {
        "opened in step": "ProfilerStep#3", "ProfilerStep#3": None, "enter": "ProfilerStep#3", "forward": "ProfilerStep#3",
        "aten::mm": "forward", "exit": "ProfilerStep#3", "closed in exit": "exit", "aten::relu": "ProfilerStep#3"})
    folded = run("convert", "-t", "folded", path, "-o", "-")
    expect("sum of folded stacks", sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), 1030000)
    table = collections.Counter()
    for row in json.loads(run("table", "--python", "-j", path))["rows"]:
        table[row["name"].replace("Step*", "Step#3")] += row["self_cpu_time_total_ns"] // 1000
    expect("own times of the table", dict(table), dict(own))
    for pattern in ("ProfilerStep", "^forward", "prof.py", "^exit", "^aten::mm"):
        check_slice(path, pattern)


def check_spans():
    """The span of a recorder is not a frame of the program, nor is what it encloses lost."""
    span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 5000}
    path = write_trace("spans.json", STEP + [span])
    for ending in ("folded", "svg", "speedscope.json", "pprof"):
        out = path_of("spans." + ending)
        run("convert", path, "-o", out)
        expect(f"{ending}: accounted for", "1 activity (spans of recorders" in run.stderr, True)
        with (gzip.open if ending == "pprof" else open)(out, "rb") as file:
            text = file.read()
        expect(f"{ending}: frames", (b"(0)" in text, b"aten::relu" in text), (False, True))
    folded = run("convert", "-t", "folded", path, "-o", "-")
    expect("sum of stacks", sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), 1030000)


def window_of(path):
    found = json.loads(run("info", path, "--json"))
    return found["window_end_ns"] - found["window_start_ns"]


def check_windows():
    """--under a step cuts the window as --step does, but keeps one thread only."""
    other = [{**e, "tid": 6} for e in ranges(("aten::add", 200, 300, "cpu_op"))]
    path = write_trace("windows.json", STEP + other + ranges(("ProfilerStep#30", 2000, 2500, "user_annotation")))
    found = {}
    for option, value in (("--steps", "3"), ("--under", "ProfilerStep#3$"), ("--under", "ProfilerStep#3")):
        part = path_of("window.json")
        run("slice", path, option, value, "-o", part)
        found[value] = window_of(part)
        expect(f"{option} {value}: other threads", "aten::add" in names_of(part), option == "--steps")
    expect("windows", found, {"3": 1000000, "ProfilerStep#3$": 1000000, "ProfilerStep#3": 2490000})


def names_of(path):
    return sorted(r["name"] for r in query(path, "SELECT name FROM activities"))


def check_slice(path, pattern):
    chosen = [e for e in STEP if re.search(pattern, e["name"])]
    inside = [e for e in STEP if e in chosen or any(encloses(c, e) for c in chosen)]
    around = [e for e in STEP if e in chosen or any(encloses(e, c) for c in chosen)]
    for option, wanted in (("--under", inside), ("--around", around)):
        part = path_of("part.json")
        run("slice", path, option, pattern, "-o", part)
        expect(f"slice {option} {pattern}", names_of(part), sorted(e["name"] for e in wanted))


def check_random():
    """Many ranges that cross: own times add up to the time in which anything is open, in each output."""
    chance = random.Random(7)
    for number in range(6):
        events = []
        for i in range(60):
            start = chance.randrange(400)
            events += ranges((f"r{i}", start, start + 1 + chance.randrange(120), chance.choice(
                ("cpu_op", "user_annotation", "python_function"))))
        path = write_trace(f"random{number}.json", events)
        busy = 1000 * sum(owner(events, us) is not None for us in range(600))
        expect("own times", query(path, "SELECT sum(self_ns) AS s FROM activities")[0]["s"], busy)
        folded = run("convert", "-t", "folded", path, "-o", "-")
        expect("table", sum(r["self_cpu_time_total_ns"] for r in json.loads(run("table", "--python", "-j", path))["rows"]), busy)
        expect("folded", sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()), busy)
        rows = {r["name"]: r["parent"] for r in query(
            path, "SELECT a.name, p.name AS parent FROM activities a LEFT JOIN activities p ON p.row = a.parent")}
        for e in events:
            over = [o for o in events if encloses(o, e) and (o["ts"], -o["dur"]) < (e["ts"], -e["dur"])]
            last = max(over, key=lambda o: (o["ts"], -o["dur"]), default=None)
            if last and sum((o["ts"], o["dur"]) == (last["ts"], last["dur"]) for o in over) == 1:
                expect(f"parent of {e['name']}", rows[e["name"]], last["name"])


def check_threads():
    """Exported Chrome JSON keeps the ids of threads; lanes get their own only when they are asked for."""
    path = write_trace("tids.json", STEP)
    for option, wanted in (((), {5}), (("--split-lanes",), {5, 100000005})):
        out = path_of("tids.out.json")
        run("convert", path, "-o", out, *option)
        with open(out, encoding="utf-8") as file:
            tids = {e["tid"] for e in json.load(file)["traceEvents"] if e["ph"] == "X" and e["pid"] == 5}
        expect(f"thread ids {option}", tids, wanted)


def what_if(path):
    text = run("analyze", path, "--what-if", "class:host_operator=0.5")
    return float(text.split("(")[1].split(" %")[0])


def findings(path):
    run("analyze", path, "--findings", "-j", path_of("findings.json"), status=None)
    with open(path_of("findings.json"), encoding="utf-8") as file:
        return json.load(file)["findings"]


def check_given():
    case = given("reading", "01-step-crosses-python-frame.json")
    if case:
        part = path_of("part.json")
        run("slice", case, "--under", "ProfilerStep#3", "-o", part)
        expect("01: under the step", len(names_of(part)), 7)
        run("slice", case, "--around", "aten::mm", "-o", part)
        expect("01: around aten::mm", "ProfilerStep#3" in names_of(part), True)
        own = query(case, "SELECT self_ns FROM activities WHERE name = 'ProfilerStep#3'")
        expect("01: own time of the step", own[0]["self_ns"], 650000)
    saved = []
    for name in ("plain", "idle_thread", "step_crosses_frame"):
        case = given("analysis", f"whatif_{name}.json")
        if case:
            expect(f"{name}: operators in half the time", -41 < what_if(case) < -39, True)
            bound = [f["worth_us"] for f in findings(case) if f["id"] == "launch.bound"]
            expect(f"{name}: launch.bound", len(bound), 1)
            saved += bound
    expect("savings of launch.bound", len(set(saved)) <= 1, True)


check_step()
check_random()
check_threads()
check_spans()
check_windows()
check_given()
finish()
