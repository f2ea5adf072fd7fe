"""The OpenMP source with real runtimes: what is recorded is what the program counted itself.

usage: test_openmp.py COMMAND FOLDER [RUNTIME...]
RUNTIME: "gcc" (libgomp, --openmp), "clang" (libomp, OMPT), or "clang+PATH": a program of clang with the runtime at PATH
preloaded. Without: gcc and clang, as far as they are installed."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

COMMAND, HERE = sys.argv[1], sys.argv[2]
failures = []


def expect(what, found, wanted):
    if found != wanted:
        failures.append(what)
        print(f"{what}: found {found}, expected {wanted}")


class Runtime:
    def __init__(self, name):
        self.compiler, _, self.preload = name.partition("+")
        self.name = name
        self.environment = dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive")
        if self.preload:
            self.environment["LD_PRELOAD"] = self.preload
        self.options = ["--openmp"] if name == "gcc" else []

    def compile(self, source, folder, *options):
        program = os.path.join(folder, os.path.basename(source)[:-2] + "_" + self.compiler)
        if os.path.exists(program):
            return program
        made = subprocess.run([self.compiler, "-fopenmp", "-g", "-O1", "-pthread", *options, source, "-o", program],
                              capture_output=True, text=True)
        return program if made.returncode == 0 else None

    def record(self, program, folder, *options, arguments=(), **environment):
        trace = os.path.join(folder, "trace.json")
        ran = subprocess.run([COMMAND, "record", "--quiet", *self.options, *options, "-o", trace, "--", program, *arguments],
                             env={**self.environment, **environment}, capture_output=True, text=True, timeout=100)
        expect(f"{self.name}: exit status ({ran.stderr[-400:]})", ran.returncode, 0)
        with open(trace) as file:
            return trace, ran.stdout, json.load(file)


def rows(trace):
    return [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") == "openmp"]


def count_constructs(trace):
    """Rows by construct: their names without the place in the program."""
    names = ("omp parallel", "omp implicit task", "omp implicit barrier", "omp barrier", "omp critical wait",
             "omp critical", "omp taskwait", "omp taskgroup wait", "omp taskgroup", "omp task", "omp single", "omp for",
             "omp taskloop", "omp lock wait", "omp lock", "omp ordered wait", "omp ordered", "omp sections")
    found = collections.Counter()
    for e in rows(trace):
        found[next((n for n in names if e["name"] == n or e["name"].startswith(n + " ")), e["name"])] += 1
    return found


def ledger(trace):
    return [line for line in trace["ckineto"]["ledger"] if line["loss"]]


def test_counts(runtime, folder):
    program = runtime.compile(os.path.join(HERE, "counts.c"), folder)
    plain = subprocess.run([program], env=runtime.environment, capture_output=True, text=True, timeout=100)
    _, out, trace = runtime.record(program, folder)
    wanted = dict((line.split()[0], int(line.split()[1])) for line in out.splitlines())
    found, is_gcc = count_constructs(trace), runtime.compiler == "gcc"
    expect(f"{runtime.name}: output", out, plain.stdout)
    if not is_gcc: # three tasks of each taskloop; its group, and those of the two threads with a reduction over tasks
        wanted["tasks"] += 3 * wanted["taskloops"]
        wanted["taskgroups"] += 3 * wanted["taskloops"]
    for name, key in (("omp parallel", "regions"), ("omp task", "tasks"), ("omp taskwait", "taskwaits"),
                      ("omp taskgroup", "taskgroups"), ("omp critical", "criticals"),
                      ("omp critical wait", "criticals"), ("omp single", "singles"), ("omp lock", "locks"),
                      ("omp lock wait", "locks"), ("omp ordered", "ordered"), ("omp taskloop", "taskloops")):
        expect(f"{runtime.name}: {name}", found[name], wanted[key])
    # Each region's rows: a team's threads; those of combined regions are not counted by the program.
    teams = collections.Counter(e["args"]["region"] for e in rows(trace) if e["name"].startswith("omp implicit task"))
    regions = {e["args"]["region"]: e["args"]["threads"] for e in rows(trace) if e["name"].startswith("omp parallel")}
    expect(f"{runtime.name}: threads of regions", dict(teams), regions)
    expect(f"{runtime.name}: sizes of teams", set(regions.values()), {1, 2})
    created = sum(e["name"] == "omp task created" for e in trace["traceEvents"])
    expect(f"{runtime.name}: created tasks", created, wanted["tasks"])
    if not is_gcc: # libgomp's single ends with a barrier that the program did not write
        expect(f"{runtime.name}: barriers", found["omp barrier"], wanted["barriers"])
    else:
        expect(f"{runtime.name}: barriers", found["omp barrier"],
               wanted["barriers"] + sum(2 for _ in range(wanted["singles"])))
    expect(f"{runtime.name}: losses", ledger(trace), [])
    check_places(runtime, trace)
    check_times(runtime, trace)


def check_places(runtime, trace):
    """Regions are named by function and line."""
    source = open(os.path.join(HERE, "counts.c")).read().splitlines()
    lines = {i + 1 for i, text in enumerate(source) if text.strip().startswith("#pragma omp parallel")}
    named = {e["name"] for e in rows(trace) if e["name"].startswith("omp parallel")}
    expect(f"{runtime.name}: places of regions", len(named), len(lines))
    for name in named:
        place = re.search(r"counts\.c:(\d+)", name) # clang: the innermost region has no function of the program
        if not place or not any(abs(int(place[1]) - line) <= 3 for line in lines):
            expect(f"{runtime.name}: place", name, "a line of a region in counts.c")


def check_times(runtime, trace):
    """What threads do in a region is within it."""
    regions = {e["args"]["region"]: e for e in rows(trace) if e["name"].startswith("omp parallel")}
    outside = []
    for e in rows(trace):
        r = regions.get(e["args"].get("region"))
        if r and (e["ts"] < r["ts"] - 0.01 or e["ts"] + e["dur"] > r["ts"] + r["dur"] + 0.01):
            outside.append((e["name"], e["ts"] - r["ts"], e["dur"], r["dur"]))
    expect(f"{runtime.name}: rows outside of their region", outside[:3], [])


def test_imbalance(runtime, folder):
    program = runtime.compile(os.path.join(HERE, "imbalance.c"), folder)
    trace, out, recorded = runtime.record(program, folder)
    waited = sum(e["dur"] for e in rows(recorded) if e["name"].startswith("omp barrier"))
    if not 0.5 * float(out) <= waited <= float(out) + 1: # the program reads the clock around the recorded wait
        expect(f"{runtime.name}: waiting at barriers", waited, float(out))
    shown = subprocess.run([COMMAND, "analyze", "--only", "openmp_regions", "--json", trace], capture_output=True, text=True)
    tables = json.loads(shown.stdout)
    table = find_table(tables, "openmp_regions")
    expect(f"{runtime.name}: regions in the table", sorted((r["count"], r["threads"]) for r in table), [(20, 2), (20, 2)])
    uneven = max(table, key=lambda r: r["sum_us"])
    # One thread has 4 units of work, the other 1: 1.5 of 4 could be saved. The machine may be busy.
    expect(f"{runtime.name}: savings {uneven}", uneven["savings_us"] > 0.1 * uneven["sum_us"], True)
    expect(f"{runtime.name}: imbalance {uneven}", uneven["imbalance_pct"] > 15, True)
    found = subprocess.run([COMMAND, "analyze", "--findings", trace], capture_output=True, text=True).stdout
    expect(f"{runtime.name}: finding", "openmp.imbalance" in found and "Load imbalance in main (imbalance.c:" in found, True)


def find_table(tables, name):
    """Rows of a table of analyze --json as dictionaries."""
    table = tables["tables"][name]
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


def test_standing_aside(runtime, folder):
    """A tool that comes first, or a user who wants none, leaves no regions, and a line in the ledger."""
    program = runtime.compile(os.path.join(HERE, "imbalance.c"), folder)
    _, _, trace = runtime.record(program, folder, OMP_TOOL="disabled")
    expect("OMP_TOOL=disabled: rows", len(rows(trace)), 0)
    expect("OMP_TOOL=disabled: ledger", "OMP_TOOL=disabled" in json.dumps(trace["ckineto"]["ledger"]), True)
    tool = os.path.join(folder, "tool.so")
    with open(os.path.join(folder, "tool.c"), "w") as file:
        file.write("static int start(void *f, int d, void *t) { return 1; }\nstatic void end(void *t) {}\n"
                   "void *ompt_start_tool(unsigned v, const char *r)\n"
                   "{ static struct { void *a, *b; long c; } x = {start, end}; return &x; }\n")
    subprocess.run(["cc", "-w", "-shared", "-fPIC", file.name, "-o", tool], check=True)
    _, _, trace = runtime.record(program, folder, OMP_TOOL_LIBRARIES=tool)
    expect("another tool: rows", len(rows(trace)), 0)
    expect("another tool: ledger", "another tool comes first" in json.dumps(trace["ckineto"]["ledger"]), True)


def test_odd(runtime, folder):
    """Results stay the same where the runtime reads and writes the data of constructs."""
    program = os.path.join(folder, "odd")
    if subprocess.run(["g++", "-fopenmp", "-O1", os.path.join(HERE, "odd.cc"), "-o", program],
                      capture_output=True).returncode:
        return
    environment = {"OMP_CANCELLATION": "true"}
    plain = subprocess.run([program], env={**runtime.environment, **environment}, capture_output=True, text=True)
    _, out, trace = runtime.record(program, folder, **environment)
    expect(f"{runtime.name}: output of odd.cc", out, plain.stdout)
    expect(f"{runtime.name}: losses of odd.cc", ledger(trace), [])
    expect(f"{runtime.name}: places without lines", any("main" in e["name"] or "run_" in e["name"] for e in rows(trace)),
           True)


def test_late(runtime, folder):
    """A library that brings its runtime after the program's start, in a process and its child."""
    source, library, program = os.path.join(HERE, "late.c"), os.path.join(folder, "work.so"), os.path.join(folder, "late")
    subprocess.run([runtime.compiler, "-DWORK", "-fopenmp", "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    subprocess.run([runtime.compiler, source, "-o", program, "-ldl"], check=True)
    _, out, trace = runtime.record(program, folder, arguments=[library])
    expect(f"{runtime.name}: sum and status of the child", out, "12 0\n")
    regions = collections.Counter(e["pid"] for e in rows(trace) if e["name"].startswith("omp parallel"))
    expect(f"{runtime.name}: regions of two processes", sorted(regions.values()), [6, 6])
    found = count_constructs(trace)
    expect(f"{runtime.name}: constructs that bodies end with", (found["omp barrier"], found["omp taskwait"]), (4, 4))
    expect(f"{runtime.name}: places in the recorder", [e["name"] for e in rows(trace) if "run_" in e["name"]], [])
    expect(f"{runtime.name}: constructs without a name", [e["name"] for e in rows(trace) if "0x" in e["name"]], [])


def test_unrecorded(runtime, folder):
    """Without the kind nothing is recorded."""
    program = runtime.compile(os.path.join(HERE, "imbalance.c"), folder)
    _, _, trace = runtime.record(program, folder, "-a", "user_annotation")
    expect(f"{runtime.name}: rows without the kind", len(rows(trace)), 0)


def is_usable(runtime, folder):
    if runtime.preload and not os.path.exists(runtime.preload):
        print(f"skipped: there is no {runtime.preload}; fetch_openmp.sh gets one")
        return False
    program = shutil.which(runtime.compiler) and runtime.compile(os.path.join(HERE, "imbalance.c"), folder)
    if not program:
        print(f"skipped: {runtime.compiler} -fopenmp does not work here")
    return bool(program)


def main():
    with tempfile.TemporaryDirectory() as folder:
        usable = [r for r in map(Runtime, sys.argv[3:] or ["gcc", "clang"]) if is_usable(r, folder)]
        for runtime in usable:
            test_counts(runtime, folder)
            test_imbalance(runtime, folder)
            test_unrecorded(runtime, folder)
            test_late(runtime, folder)
            if runtime.name == "gcc":
                test_odd(runtime, folder)
            if runtime.name == "clang":
                test_standing_aside(runtime, folder)
    if not usable:
        return 77
    return 1 if failures else 0


sys.exit(main())
