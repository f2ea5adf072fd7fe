"""What is slow does not depend on rows that only explain it: functions of Python, threads that only wait, and
ranges that the user named. They are taken out of each trace, and the findings compared.

usage: rows_that_explain.py CKINETO FOLDER... [--all]
Without --all only small traces are read.
"""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

CKINETO = sys.argv[1]
FOLDERS = [a for a in sys.argv[2:] if a != "--all"]
MOST_BYTES = 1 << 40 if "--all" in sys.argv else 100_000
# Rules about these rows themselves.
ABOUT_ROWS = {"input.synchronized_loader", "optimizer.single_tensor", "host.loop_indexing", "model.conv_bias",
              "cpu.between_operators", "trace.unfit", "host.not_running", "thread.oversubscription", "thread.serial",
              "thread.blocked", "cpu.hot_function", "cpu.allocation_churn", "cpu.page_faults"}
# Named ranges that say what the program does: steps, loaders, optimizers, collectives, compiled regions.
KEPT_NAMES = re.compile(r"ProfilerStep|DataLoader|DataPipe|Optimizer|[nrhx]ccl|gloo|Distributed|Compiled|DataParallel|"
                        r"step\[|execute_|Iteration|Lazy|allreduce|all_reduce", re.I)
WORTH_SHARE = 0.1  # of the savings of a finding: times outside of everything change owners
WORTH_PERCENT = 1.0  # of a step: less is noise around the limits of rules
LEAST_SPAN = 0.9  # of the time of the whole trace: savings are a share of that where there are no steps


def open_trace(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="replace") as file:
        return json.load(file)


def without_python(events):
    return [e for e in events if e.get("cat") != "python_function"]


def without_waiting(events):
    """Threads that neither run operators nor make calls nor have steps."""
    busy = {(e.get("pid"), e.get("tid")) for e in events
            if e.get("cat") not in ("python_function", "user_annotation") or KEPT_NAMES.search(str(e.get("name")))}
    return [e for e in events if e.get("ph") == "M" or (e.get("pid"), e.get("tid")) in busy]


def without_watched(events):
    """States of threads and CPU samples."""
    return [e for e in events if e.get("cat") not in ("thread_state", "cpu_sample")]


def without_annotations(events):
    return [e for e in events if e.get("cat") not in ("user_annotation", "gpu_user_annotation")
            or KEPT_NAMES.search(str(e.get("name")))]


def span(events):
    """Time from the first to the last row of a thread or device, in us."""
    rows = [(e["ts"], e["ts"] + e.get("dur", 0)) for e in events
            if e.get("ph") == "X" and e.get("cat") not in ("Trace", "overhead", None) and all(isinstance(e.get(k, 0), (int, float)) for k in ("ts", "dur"))]
    return max(r[1] for r in rows) - min(r[0] for r in rows) if rows else 0


def findings(folder, document, events):
    path, out = os.path.join(folder, "trace.json"), os.path.join(folder, "findings.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**document, "traceEvents": events} if isinstance(document, dict) else events, file)
    subprocess.run([CKINETO, "analyze", path, "--findings", "-j", out], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=300, check=False)
    if not os.path.exists(out):
        return None  # refused
    with open(out, encoding="utf-8") as file:
        found = json.load(file)
    sums = {}
    for f in found["findings"]:
        if f["id"] not in ABOUT_ROWS:
            savings, percent = sums.get(f["id"], (0, 0))
            sums[f["id"]] = (savings + f.get("worth_us", 0), percent + f.get("worth_pct", 100))
    os.remove(out)
    return sums


def differ(before, after):
    out = []
    for rule in sorted({*before, *after}):
        (a, a_percent), (b, b_percent) = before.get(rule, (0, 0)), after.get(rule, (0, 0))
        if max(a_percent, b_percent) > WORTH_PERCENT and abs(a - b) > WORTH_SHARE * max(a, b):
            out.append(f"{rule}: savings {a:.1f} and {b:.1f} us")
        elif (rule in before) != (rule in after) and max(a_percent, b_percent) > WORTH_PERCENT:
            out.append(f"{rule} {'lost' if rule in before else 'new'}")
    return out


def traces():
    for folder in FOLDERS:
        for root, _, files in sorted(os.walk(folder)):
            for name in sorted(files):
                path = os.path.join(root, name)
                if re.search(r"(?<!\.et)\.json(\.gz)?$", name) and os.path.getsize(path) <= MOST_BYTES:
                    yield path


def main():
    failed = checked = 0
    for path in traces():
        try:
            document = open_trace(path)
            events = document["traceEvents"] if isinstance(document, dict) else document
            assert isinstance(events, list) and all(isinstance(e, dict) for e in events)
        except (ValueError, KeyError, AssertionError, EOFError, OSError):
            continue  # damaged on purpose, or no trace
        with tempfile.TemporaryDirectory() as folder:
            whole = findings(folder, document, events)
            for remove in () if whole is None else (without_python, without_waiting, without_annotations,
                                                      without_watched):
                left = remove(events)
                if len(left) == len(events) or span(left) < LEAST_SPAN * span(events):
                    continue
                checked += 1
                for difference in differ(whole, findings(folder, document, left) or {}):
                    failed += 1
                    print(f"{os.path.basename(path)} {remove.__name__}: {difference}")
    print(f"{checked} pairs compared")
    if not checked:
        sys.exit(77)
    sys.exit(failed > 0)


main()
