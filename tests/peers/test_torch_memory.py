"""Memory over time, compared with PyTorch's: all that comes and goes, at the same times and of the same sizes, so that the
totals are equal at each time; and what it is for.

usage: test_torch_memory.py COMMAND FOLDER [PYTHON]
  FOLDER has what torch_memory.py wrote; PYTHON is one that has PyTorch, to write it anew; without it
  this is skipped.
"""
import collections
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, UNKNOWN = range(8)
# What PyTorch says, and what may be said of the same here. Of what an operator or the optimizer itself needs for a
# while, PyTorch says all kinds of things, as it follows the flow of data; here it is temporary. What an operator
# that needs no gradient gives is unknown.
SAME = {PARAMETER: {TEMPORARY}, OPTIMIZER_STATE: {OPTIMIZER_STATE}, INPUT: {INPUT, TEMPORARY}, TEMPORARY: {TEMPORARY},
        ACTIVATION: {ACTIVATION, TEMPORARY, UNKNOWN}, GRADIENT: {GRADIENT}, AUTOGRAD_DETAIL: {AUTOGRAD_DETAIL},
        UNKNOWN: {UNKNOWN, TEMPORARY}}
RULES = "data=input,optimizer=optimizer_state"


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return json.load(file)


def totals(changes):
    """Bytes at the end of each time, less what was there before."""
    now, found = 0, {}
    for time, action, size, _ in sorted(changes, key=lambda c: c[0]):
        if action in (2, 4):
            now += size
            found[time] = now
    return found


def compare(command, path):
    faults = []
    with tempfile.TemporaryDirectory() as work:
        raw, plain = os.path.join(work, "m.raw.json"), os.path.join(work, "m.json")
        for to in (raw, plain):
            subprocess.run([command, "table", path, "--memory", "--device", "cpu", "--category", RULES, "-o", to],
                           check=True, stdout=subprocess.DEVNULL)
        ours, (times, sizes) = load(raw), load(plain)
    theirs = load(path.replace(".json.gz", ".answer.json.gz"))
    if totals(ours) != totals(theirs):
        faults.append("the totals differ")
    # the other form has the same totals
    before = sum(size for _, action, size, _ in ours if action == 1)
    at_end = {time // 1000: before + size for time, size in totals(ours).items()}
    if at_end != dict(zip(times, map(sum, sizes))):
        faults.append("the sums of the categories are not the totals")
    # what came, by its time and size, with its category
    came = [sorted(c for c in changes if c[1] == 2) for changes in (ours, theirs)]
    if [c[:3] for c in came[0]] != [c[:3] for c in came[1]]:
        faults.append("what came differs")
    pairs = collections.Counter((b[3], a[3]) for a, b in zip(*came))
    faults += [f"{n} times {a} for PyTorch is {b}" for (a, b), n in pairs.items() if b not in SAME[a]]
    for needed in (OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL):
        if not pairs[needed, needed]:
            faults.append(f"nothing is {needed} for both")
    same = sum(n for (a, b), n in pairs.items() if a == b)
    print(f"{os.path.basename(path)}: {len(came[0])} blocks, {same} of the same category, {len(faults)} faults")
    for fault in faults:
        print("    " + fault)
    return not faults


def compare_all(command, folder):
    paths = [p for p in sorted(glob.glob(os.path.join(folder, "*.json.gz"))) if ".answer." not in p]
    return 0 if paths and all([compare(command, path) for path in paths]) else 1


def main():
    command, folder = sys.argv[1:3]
    if len(sys.argv) == 3:
        return compare_all(command, folder)
    if not os.path.exists(sys.argv[3]):
        print("skipped: PyTorch is not here (make test-peers fetches it)")
        return 77
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.argv[3], "-B", "-W", "ignore", os.path.join(HERE, "torch_memory.py"), work], check=True,
                       stderr=subprocess.DEVNULL, timeout=600, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
        return compare_all(command, work)


sys.exit(main())
