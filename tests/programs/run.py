"""Programs of others, recorded: do they notice? Is the trace sound? What does it cost?

usage: run.py [--small] [--pairs N] [--only NAME] [--table FILE]

Each program runs without a recorder, then with it in each way that it can be recorded. Exit status,
both streams and every file that it leaves must be the same; `ckineto verify` must find nothing; the
ledger must name what could not be recorded. With --pairs it runs that often more with and without, in
turn, and a table says what recording costs: medians, of the time in which the program itself ran. The environment says where the command is (CKINETO).
"""
import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import programs

CKINETO = os.environ.get("CKINETO", "")
SKIPPED = 77
NOBODY = 65534
WAYS = {"record": [], "--preload": ["--preload"], "--memory": ["--memory"]}
TRACE = "trace.json"
SHORT_S = 0.1  # below, a ratio says nothing
LIMIT_S = 900  # only against hanging: the first run of hashcat compiles for half a minute on an idle machine

faults = []


def fault(program, way, words):
    faults.append(f"{program.name}, {way}: {words}")
    print("FAULT", faults[-1], flush=True)


class Place:
    """Where a program runs: a folder of its own for each run, and a home that stays, with its caches."""

    def __init__(self, root, program):
        self.root, self.program = root, program
        self.home = os.path.join(root, "home")
        os.makedirs(os.path.join(self.home, "cache"), exist_ok=True)
        self.work = os.path.join(root, "work")
        self.trace = os.path.join(root, TRACE)

    def fresh(self):
        shutil.rmtree(self.work, ignore_errors=True)
        os.mkdir(self.work)
        for name, data in self.program.files.items():
            with open(os.path.join(self.work, name), "wb") as file:
                file.write(data)
        if self.program.as_nobody:
            for folder in (self.root, self.work, self.home):
                os.chmod(folder, 0o777)

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CKINETO", "KINETO", "OPENCL_LAYERS", "LD_"))}
        return {**kept, "HOME": self.home, "LC_ALL": "C", "XDG_CACHE_HOME": os.path.join(self.home, "cache"),
                "POCL_CACHE_DIR": os.path.join(self.home, "pocl"), **self.program.environment}

    def files(self):
        """Name → sum of what is in it."""
        found = {}
        for folder, _, names in os.walk(self.work):
            for name in names:
                path = os.path.join(folder, name)
                short = os.path.relpath(path, self.work)
                if not short.startswith(self.program.ignore or ("\0",)) and os.path.isfile(path):
                    with open(path, "rb") as file:
                        found[short] = hashlib.sha256(file.read()).hexdigest()
        return found


def run(place, prefix=(), status_of_signal=0):
    """(exit status, output, errors, files), and seconds: of the clock, of processors."""
    place.fresh()
    as_who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if place.program.as_nobody else {}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([*prefix, *place.program.command], cwd=place.work, env=place.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, **as_who)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    status = done.returncode
    if status < 0 and status_of_signal:
        status = status_of_signal - status
    seen = (status, place.program.clean(done.stdout), place.program.clean(done.stderr), place.files())
    return seen, (wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def recorded(place, options):
    prefix = [CKINETO, "record", "-q", "-b", "16", "-o", place.trace, *options, "--"]
    return run(place, prefix)


def compare(program, way, plain, seen):
    for what, one, other in zip(("exit status", "output", "errors", "files"), plain, seen):
        if one != other:
            fault(program, way, f"{what} differ: {str(one)[-400:]} became {str(other)[-400:]}")


def sound(place, way):
    """Whether the trace is: a program that uses nothing that is recorded has an empty one."""
    done = subprocess.run([CKINETO, "verify", "--json", place.trace], capture_output=True, timeout=200)
    bad = [f["rule"] for f in json.loads(done.stdout)["traces"][0]["findings"]
           if f["severity"] in ("error", "warning") and not (f["rule"] == "rows.none" and not place.program.kinds)]
    if bad:
        fault(place.program, way, f"verify finds {bad}")


def look(place, way):
    """What the trace must have."""
    program = place.program
    sound(place, way)
    with open(place.trace, encoding="utf-8") as file:
        trace = json.load(file)
    cats = [e.get("cat", "") for e in trace["traceEvents"]]
    for pattern, least in program.kinds.items():
        count = sum(1 for cat in cats if re.fullmatch(pattern, cat))
        if count < least:
            fault(program, way, f"{count} activities of {pattern}, not {least}: {sorted(set(cats))}")
    lines = trace["ckineto"]["ledger"]
    if program.ledger and not [line for line in lines if re.search(program.ledger, line["reason"])]:
        fault(program, way, f"no line of the ledger says '{program.ledger}': {lines}")
    lost = sum(line["count"] for line in lines if line["loss"])
    if lost:
        fault(program, way, f"{lost} events were lost: {lines}")
    return sum(1 for e in trace["traceEvents"] if e["ph"] != "M" and e["name"] != "Record Window End")


def timed(place, options):
    """Seconds in which the program was recorded, seconds of the whole command, and of processors."""
    _, whole = recorded(place, options)
    with open(place.trace, encoding="utf-8") as file:
        start, end = json.load(file)["ckineto"]["window"]
    return (end - start) / 1e9, *whole


def measure(place, pairs):
    """Medians: without; and for the cheapest and the dearest way, what timed() gives."""
    ways = [WAYS["record"]] + ([WAYS["--memory"]] if place.program.loads else [])
    plain, with_it = [], [[] for _ in ways]
    for _ in range(pairs):
        plain.append(run(place)[1])
        for rows, options in zip(with_it, ways):
            rows.append(timed(place, options))

    def medians(rows):
        return [statistics.median(column) for column in zip(*rows)]

    return medians(plain), [medians(rows) for rows in with_it]


def missing(program, root):
    if not shutil.which(program.command[0] or "?"):
        return f"no {program.command[0] or 'such program was built'}"
    if program.command[0] == programs.PYTHON and program.package != "python3":
        module = {"python3-opencv": "cv2", "python3-pyopencl": "pyopencl"}[program.package]
        if subprocess.run([programs.PYTHON, "-c", f"import {module}"], capture_output=True).returncode:
            return f"no {module}"
    if program.as_nobody and os.geteuid() != 0:
        return "only root can run as an unknown user"
    if program.as_nobody:
        os.chmod(root, 0o777)
        try:
            able = subprocess.run([CKINETO, "--version"], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True)
        except OSError:
            return "another user cannot run the command where it lies"
        return None if able.returncode == 0 else "another user cannot run the command"
    return None


def try_program(program, root, pairs):
    """A row of the table, or None."""
    why = missing(program, root)
    if why:
        print(f"skipped: {program.name}: {why}", flush=True)
        return None
    place = Place(root, program)
    if program.warm:
        run(place)
    plain, _ = run(place, status_of_signal=128)
    ways = {}
    for way, options in WAYS.items():
        if way != "record" and not program.loads:
            continue
        seen, _ = recorded(place, options)
        compare(program, way, plain, seen)
        ways[way] = look(place, way)
    words = ", ".join(f"{way}: {count}" for way, count in ways.items())
    print(f"same: {program.name}: status {plain[0]}, {len(plain[3])} files; events: {words}", flush=True)
    return {"program": program, "status": plain[0], "files": len(plain[3]), "events": list(ways.values()),
            "times": measure(place, pairs) if pairs else None}


HEAD = """| program | status | files | events | CPU time alone | `record` | ratio | `--memory` | ratio | wall time alone | `record` | ratio |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def against(part, whole):
    """A time, and its ratio to the one alone."""
    return [f"{part:.2f} s", f"{part / whole:.2f}" if whole >= SHORT_S else "–"]


def line_of(row):
    (plain, plain_cpu), ways = row["times"]
    (inside, _, cpu), *more = ways
    cells = [row["program"].name, row["status"], row["files"], ", ".join(map(str, row["events"])), f"{plain_cpu:.2f} s",
             *against(cpu, plain_cpu), *(against(more[0][2], plain_cpu) if more else ["–", "–"]), f"{plain:.2f} s",
             *against(inside, plain)]
    return "| " + " | ".join(map(str, cells)) + " |\n"


def table(rows):
    return HEAD + "".join(line_of(row) for row in rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--table")
    options = parser.parse_args()
    if not CKINETO:
        print("run by ctest or make test-programs, which say where the command is: skipped")
        return SKIPPED
    rows = []
    for program in programs.PROGRAMS:
        if (options.small and not program.small) or options.only not in program.name:
            continue
        root = tempfile.mkdtemp(prefix="ckineto-programs-")
        try:
            rows.append(try_program(program, root, options.pairs))
        except subprocess.TimeoutExpired as limit:
            fault(program, "any", f"did not end: {limit}")
        finally:
            shutil.rmtree(root, ignore_errors=True)
    rows = [row for row in rows if row]
    if options.table and options.pairs:
        with open(options.table, "w", encoding="utf-8") as file:
            file.write(table(rows))
        print(table(rows))
    print(f"{len(rows)} programs, {len(faults)} faults")
    return 1 if faults else 0 if rows else SKIPPED


sys.exit(main())
