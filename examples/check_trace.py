"""Run a program and check the Chrome trace that it writes.

usage: check_trace.py PROGRAM FILE EXPECTATION...
  PHASE:NAME=COUNT    events of this phase and name (NAME * is any)
  args:NAME=KEY,KEY   every slice or instant of this name has these arguments
  thread:NAME=COUNT, process:NAME=COUNT   named so
  output:EXPRESSION=COUNT   lines of output that match the regular expression as a whole
"""
import json
import os
import re
import subprocess
import sys


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"duplicate keys in {keys}")
    return dict(pairs)


def count(events, what, name):
    if what in ("thread", "process"):
        shown = (name, f"({name})")  # Kineto shows a thread as "thread ID (NAME)"
        return sum(e["ph"] == "M" and e["name"] == what + "_name" and
                   e["args"]["name"].endswith(shown) for e in events)
    return sum(e["ph"] == what and name in ("*", e["name"]) for e in events)


def faults_of(events, output, expectation):
    left, right = expectation.split("=")
    what, name = left.split(":", 1)
    if what == "output":
        found = sum(re.fullmatch(name, line) is not None for line in output.splitlines())
        if found != int(right):
            yield f"{left}: {found} lines, expected {right}, of:\n{output}"
    elif what == "args":
        for event in events:
            missing = set(right.split(",")) - event.get("args", {}).keys()
            if event["ph"] in "Xi" and event["name"] == name and missing:
                yield f"{name} lacks arguments {missing}: {event}"
    elif count(events, what, name) != int(right):
        yield f"{left}: {count(events, what, name)} events, expected {right}"


def main():
    program, path, expectations = sys.argv[1], sys.argv[2], sys.argv[3:]
    if os.path.exists(path):
        os.unlink(path)
    output = subprocess.run([program], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            text=True).stdout
    with open(path, encoding="utf-8") as file:
        trace = json.load(file, object_pairs_hook=no_duplicates)
    events = trace["traceEvents"]
    faults = [f for e in expectations for f in faults_of(events, output, e)]
    faults += [f"negative duration: {e}" for e in events if e.get("dur", 0) < 0]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
