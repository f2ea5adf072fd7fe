"""One finding for all sources: kernels with exactly the arguments and device properties that a source reports, but long
ones, are found or fine where the source reports what the rule needs; else the rule says what is not reported.

Run by ctest, which says where the sources are."""
import json
import os
import subprocess
import sys
import tempfile

import facts
from sources import CKINETO, record_all

RULES = ("kernel.low_occupancy", "kernel.tail_wave")
LENGTH_US = 2000
faults = []


def check(good, words):
    if not good:
        faults.append(words)
        print("FAULT", words, flush=True)
    return good


def longer(traces):
    """A trace of kernels as the source reports them, one after the other, each of which takes long."""
    kernels = facts.events_of(traces, ("kernel",))
    shaped = [e for e in kernels if "timing" not in e["args"] and "kernels" not in e["args"]][:20]
    properties = next((t["deviceProperties"] for t in traces if t.get("deviceProperties")), [])
    events = [{"ph": "X", "cat": "kernel", "name": e["name"], "pid": e["pid"], "tid": e["tid"], "ts": 1000 + i * LENGTH_US,
               "dur": LENGTH_US - 10, "args": {**e["args"], "correlation": i + 1}} for i, e in enumerate(shaped)]
    return {"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}


def judge(trace):
    """{rule: (judgement, why)}"""
    with tempfile.TemporaryDirectory(prefix="ckineto-devices-") as folder:
        path = os.path.join(folder, "t.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)
        done = subprocess.run([CKINETO, "analyze", "--findings", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=120)
    if not check(done.returncode == 0, f"analyze: {done.stderr.decode(errors='replace')}"):
        return {}
    return {r["id"]: (r["judgement"], r.get("because", "")) for r in json.loads(done.stdout)["rules"]}


def needs(trace, rule):
    """Whether the source reports what the rule needs, as the rule's page states it."""
    args = {key for e in trace["traceEvents"] for key in e["args"]}
    device = {key for d in trace["deviceProperties"] for key in d}
    sizes = "grid" in args and "numSms" in device
    if rule == "kernel.tail_wave":
        return sizes and "block" in args and "maxThreadsPerMultiprocessor" in device
    return sizes and "est. achieved occupancy %" in args


traces, missing = record_all()
judged = 0
for source, of in traces.items():
    made = longer(of)
    if not made["traceEvents"]:
        continue
    said = judge(made)
    for rule in RULES:
        judgement, why = said.get(rule, ("missing", ""))
        judged += 1
        print(f"{source}: {rule}: {judgement} {why}", flush=True)
        if needs(made, rule):
            check(judgement in ("found", "quiet"), f"{source}: {rule}: {judgement}: {why}")
        elif judgement != "found":
            check(judgement == "not judged" and why.startswith("not reported: "), f"{source}: {rule}: {judgement}: {why}")
if not judged:
    print("skipped: no source of device work can be tried here")
    sys.exit(77)
print(f"findings of each source: {len(faults)} faults")
sys.exit(1 if faults else 0)
