"""The training loop on the software accelerator: what its trace holds, read by another JSON parser.

usage: test_training.py itself|command
  itself   the program loads the plug-in and records itself
  command  ckineto record does both from outside; the program's own session goes on at the same time
"""
import json
import os
import subprocess
import sys
import tempfile

TRAINING = os.environ["TRAINING"]
PLUGIN = os.environ["PLUGIN"]
CKINETO = os.environ["CKINETO"]
SCRATCH = os.environ["SCRATCH"]

STEPS = 5
WORK = 5 * STEPS
KERNELS = ("forward", "backward", "optimizer")
QUEUES = {0: "compute 0", 2: "copy", 3: "dma"}  # those that were used
TOLERANCE_US = 1000  # of a device clock, fitted over a few milliseconds

faults = []


def check(good, words):
    if not good:
        faults.append(words)
        print("FAULT", words, flush=True)
    return good


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"duplicate keys in {keys}")
    return dict(pairs)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_pairs_hook=no_duplicates)


def environment():
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("CKINETO", "KINETO")) or k in ("CKINETO_LIBRARY_PATH", "CKINETO_CPU")}


def run(command, folder):
    result = subprocess.run(command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
    if not check(result.returncode == 0, f"{command[0]} exits with {result.returncode}"):
        print(result.stderr.decode(errors="replace"))
        sys.exit(1)
    losses = [float(line.split()[-1]) for line in result.stdout.decode().splitlines()
              if line.startswith("step ")]
    check(len(losses) == STEPS and losses[-1] < losses[0], f"it learns nothing: {losses}")


def of_category(events, *categories):
    return [e for e in events if e["ph"] == "X" and e.get("cat") in categories]


# ---- rows ----------------------------------------------------------------------------------------

def metadata(events, pid):
    """{(what, tid): value} of a process row; tid None: of the process."""
    found = {}
    for e in events:
        if e["ph"] == "M" and e["pid"] == pid:
            key = (e["name"], e["tid"] if e["name"].startswith("thread") else None)
            check(key not in found, f"said twice: {e}")
            found[key] = list(e["args"].values())[0]
    return found


def check_rows(trace):
    rows = metadata(trace["traceEvents"], 0)
    for key, value in ((("process_name", None), "Sim accelerator"), (("process_labels", None), "sim 0"),
                       (("process_sort_index", None), 7000)):
        check(rows.get(key) == value, f"device: {key[0]} is {rows.get(key)}, not {value}")
    for queue, name in QUEUES.items():
        check(rows.get(("thread_name", queue)) == name, f"queue {queue}: {rows}")
        check(rows.get(("thread_sort_index", queue)) == 10 + queue, f"order of queue {queue}: {rows}")
    properties = trace["deviceProperties"]
    check(properties == [{"id": 0, "name": "Sim accelerator", "queues": 4}], f"{properties}")


# ---- activities ----------------------------------------------------------------------------------

def by_correlation(events):
    return {e["args"]["correlation"]: e for e in events}


def flow_ends(events, phase):
    ends = {}
    for e in events:
        if e["ph"] == phase and e["cat"] == "ac2g":
            ends.setdefault(e["id"], []).append((e["pid"], e["tid"], e["ts"]))
    return ends


def place(event):
    return event["pid"], event["tid"], event["ts"]


def check_joined(events):
    calls = by_correlation(of_category(events, "runtime"))
    works = of_category(events, "kernel", "gpu_memcpy", "sim_dma")
    operators = {e["args"]["External id"]: e for e in of_category(events, "cpu_op")}
    starts, finishes = flow_ends(events, "s"), flow_ends(events, "f")
    check(len(starts) == len(works), f"{len(starts)} arrows start for {len(works)} pieces of work")
    for work in works:
        args = work["args"]
        call = calls.get(args["correlation"])
        if not check(call is not None, f"no call launched {work}"):
            continue
        check(place(call) in sum(starts.values(), []), f"no arrow from {call}")
        check(place(work) in sum(finishes.values(), []), f"no arrow to {work}")
        check(args["External id"] == call["args"]["External id"], f"{work} and {call} differ")
        operator = operators[args["External id"]]
        expected = work["name"] if work["cat"] == "kernel" else "load_batch"
        check(operator["name"] == expected, f"{work['name']} belongs to {operator['name']}")
        check(operator["ts"] <= call["ts"] and call["ts"] + call["dur"] <=
              operator["ts"] + operator["dur"], f"{call} is outside of {operator}")
        check(call["ts"] - TOLERANCE_US < work["ts"] < operator["ts"] + operator["dur"] +
              50 * TOLERANCE_US, f"{work} is not where its launch is: {call}")


def check_counts(events):
    for kernel in KERNELS:
        found = [e for e in of_category(events, "kernel") if e["name"] == kernel]
        check(len(found) == STEPS, f"{len(found)} kernels {kernel}")
        check(all(e["tid"] == 0 and e["args"]["grid"] in (32, 64) for e in found), f"{found}")
    for category, name, each in (("gpu_memcpy", "Memcpy", 1), ("sim_dma", "Memcpy", 1),
                                 ("user_annotation", "step", 1), ("cpu_op", "load_batch", 1)):
        found = [e for e in of_category(events, category) if e["name"] == name]
        check(len(found) == each * STEPS, f"{len(found)} of {category} {name}")
    check(len(of_category(events, "runtime")) == WORK, "calls are missing")


def check_counters(events, expected):
    samples = [e for e in events if e["ph"] == "C"]
    check({e["name"] for e in samples} == set(expected), f"counters {[e['name'] for e in samples]}")
    for name, (unit, fits) in expected.items():
        mine = [e for e in samples if e["name"] == name]
        # One for each piece of work, and at the start and the stop of each session.
        check(WORK <= len(mine) <= WORK + 4, f"{len(mine)} samples of {name}")
        for e in mine:
            (key, value), = e["args"].items()
            check(key == f"{name} [{unit}]" and fits(value) and e["pid"] == 0, f"{e}")
        times = [e["ts"] for e in mine]
        check(times == sorted(times), f"samples of {name} are out of order")


def check_ledger(trace):
    ledger = {(e["source"], e["reason"]): e for e in trace["ckineto"]["ledger"]}
    requested, delivered = ledger[("Sim", "requested")], ledger[("Sim", "delivered")]
    check(requested["count"] == delivered["count"], f"{requested} {delivered}")
    check(not any(e["loss"] for e in ledger.values()), f"something was lost: {ledger}")
    check(trace["ckineto"]["kinds"] == {"sim_dma": "gpu_memcpy"}, f"{trace['ckineto']['kinds']}")


POWER = {"power": ("W", lambda watts: 15 <= watts <= 15 + 60 * 4)}


def check_trace(path, counters):
    trace = read(path)
    check_rows(trace)
    check_counts(trace["traceEvents"])
    check_joined(trace["traceEvents"])
    check_counters(trace["traceEvents"], counters)
    check_ledger(trace)


def check_table(path):
    """Its device is not taken for PyTorch's, in a file either."""
    table = subprocess.run([CKINETO, "table", path], env=environment(), capture_output=True, timeout=240)
    last = table.stdout.decode(errors="replace").splitlines()[-1:]
    check("".join(last).startswith("Self DEVICE time total"), f"the table ends with {last}")


# ---- ways ----------------------------------------------------------------------------------------

def itself(folder):
    run([TRAINING, PLUGIN], folder)
    check_trace(os.path.join(folder, "sim_training.json"), POWER)


def command(folder):
    outside = os.path.join(folder, "record.json")
    with_power = [CKINETO, "record", "--plugin", PLUGIN]
    run([*with_power, "-o", outside, "--", TRAINING], folder)
    check_trace(outside, POWER)
    check_table(outside)
    check_trace(os.path.join(folder, "sim_training.json"), POWER)
    run([*with_power, "--plugin-config", "sim.power=0", "-o", outside, "--", TRAINING], folder)
    check_trace(outside, {})
    run([CKINETO, "record", "--plugin", PLUGIN, "--kinds", "sim_dma,cpu_op", "-o", outside,
         "--", TRAINING, PLUGIN], folder)  # which is loaded already
    trace = read(outside)
    found = {e["cat"] for e in trace["traceEvents"] if e["ph"] == "X"}
    check(found == {"sim_dma", "cpu_op"}, f"asked for two kinds, got {found}")


def main():
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        {"itself": itself, "command": command}[sys.argv[1]](folder)
    print(f"{sys.argv[1]}: {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
