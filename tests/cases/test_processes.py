"""Summaries have one line for processes that only led to the program: shells, env, shims.

usage: test_processes.py CKINETO FOLDER-OF-GIVEN-CASES
"""
import json
import re

from harness import expect, failures, finish, run, write_trace


def trace_of(processes):
    """Processes as (name, ms of CPU time, kinds of further rows), with the numbers 100, 101 …"""
    events = []
    for i, (name, ms, kinds) in enumerate(processes):
        pid = 100 + i
        events += [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}},
                   {"ph": "M", "pid": pid, "tid": 1, "name": "thread_name", "args": {"name": f"thread {pid} ({name}): state"}},
                   {"ph": "X", "pid": pid, "tid": 1, "cat": "thread_state", "name": "running", "ts": 1000 * i, "dur": 1000 * ms},
                   {"ph": "X", "pid": pid, "tid": 1, "cat": "thread_state", "name": "blocked", "ts": 1000 * (i + ms),
                    "dur": 5000000}]
        events += [{"ph": "X", "pid": pid, "tid": 2, "cat": kind, "name": "f", "ts": 1000, "dur": 10} for kind in kinds]
    return write_trace("processes.json", events)


def summary(processes):
    """Names with a line of their own in the lists of processes and threads, and the folded ones with their time."""
    path = trace_of(processes)
    text = run("info", path)
    listed = sorted(re.findall(r"^    process \d+ (\w+)$", text, re.M))
    threads = sorted(re.findall(r"^  thread \d+ \((\w+)\)", text, re.M))
    folded = set(re.findall(r"^ +(\d+ more processes .*)$", text, re.M))
    expect("all processes in JSON", len(json.loads(run("info", "--json", path))["threads"]), len(processes))
    return listed, threads, folded


program = ("python3", 2000, [])
launchers = [("bash", 3, []), ("env", 1, []), ("bash", 2, ["blocking_call"]), ("uname", 1, [])]
expect("launchers", summary([*launchers, program]),
       (["python3"], ["python3"], {"4 more processes (bash, env, uname) took 7.000 ms of CPU time"}))
expect("the order of processes", summary([program, *launchers])[2], summary([*launchers, program])[2])
expect("one launcher has a line", summary([launchers[0], program]), (["bash", "python3"], ["bash", "python3"], set()))
expect("a process with a range has a line", summary([*launchers, ("worker", 1, ["user_annotation"]), program])[0],
       ["python3", "worker"])
expect("a process that computes has a line", summary([*launchers, ("worker", 30, []), program])[0], ["python3", "worker"])
expect("many names", summary([(f"tool{i}", 1, []) for i in range(9)] + [program])[2],
       {"9 more processes (tool0, tool1, tool2, …) took 9.000 ms of CPU time"})
expect("equal processes", summary([("a", 10, []), ("b", 10, []), ("c", 10, [])])[2], set())
if failures:
    print("see src/cli/summary/processes.c")
finish()
