"""Programs with Intel's own static part of ITT under the recorder: PyTorch's emit_itt, and Intel's client for
Python. The same calls are counted by a collector that only writes them down.

usage: test_itt_record.py COMMAND ITT-TOOL PEERS TORCH-PYTHON SCRATCH
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

COMMAND, ITT_TOOL, PEERS, TORCH, SCRATCH = sys.argv[1:]
EMIT = """
import torch
from torch.profiler import itt
assert itt.is_available()
a, b = torch.randn(16, 16), torch.randn(16, 16, requires_grad=True)
with torch.autograd.profiler.emit_itt():
    for i in range(20):
        itt.range_push(f"step {i % 3}")
        (a @ b).relu().sum().backward()
        itt.range_pop()
    itt.mark("done")
"""
CLIENT = """
import ittapi
for i in range(50):
    with ittapi.task(f"task {i % 5}", domain="client"):
        with ittapi.task("inner", domain="client"):
            pass
"""


def written(command, log, environment):
    """The names of the tasks that a collector was told of."""
    subprocess.run(command, check=True, timeout=300, stdin=subprocess.DEVNULL,
                   env={**environment, "EMIT_LOG": log, "EMIT_TOOL": "own", "INTEL_LIBITTNOTIFY64": ITT_TOOL})
    with open(log, encoding="utf-8") as file:
        calls = [line.rstrip("\n").split(" ", 2)[2] for line in file]
    return collections.Counter(call.split(" ", 2)[-1] for call in calls if call.startswith("taskBegin "))


def recorded(command, trace, environment):
    environment = {k: v for k, v in environment.items() if k != "INTEL_LIBITTNOTIFY64"}
    subprocess.run([COMMAND, "record", "-q", "--no-torch", "--cpu", "off", "-o", trace, "--", *command], check=True,
                   timeout=300, stdin=subprocess.DEVNULL, env=environment)
    with open(trace, encoding="utf-8") as file:
        whole = json.load(file)
    lost = [line for line in whole["ckineto"]["ledger"] if line["loss"]]
    return collections.Counter(e["name"] for e in whole["traceEvents"]
                               if e["ph"] == "X" and e.get("cat") == "user_annotation"), lost


def compare(what, command, environment, folder):
    theirs = written(command, os.path.join(folder, "log"), environment)
    ours, lost = recorded(command, os.path.join(folder, "t.json"), environment)
    print(f"{what}: {sum(theirs.values())} tasks of {len(theirs)} names, {sum(ours.values())} recorded")
    if theirs == ours and sum(theirs.values()) >= 100 and not lost:
        return 0
    print(" only written:", theirs - ours, " only recorded:", ours - theirs, " lost:", lost, sep="\n  ")
    return 1


def main():
    cases = []
    package = os.path.join(PEERS, "itt")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    if os.path.exists(TORCH):
        cases.append(("PyTorch", [TORCH, "-c", EMIT], environment))
    with_client = {**environment, "PYTHONPATH": package}
    if subprocess.run([sys.executable, "-c", "import ittapi"], env=with_client, capture_output=True).returncode == 0:
        cases.append(("Intel's client", [sys.executable, "-c", CLIENT], with_client))
    if not cases:
        print("neither PyTorch nor Intel's client is here: make test-peers fetches them")
        return 77
    faults = 0
    for what, command, variables in cases:
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            faults += compare(what, command, variables, folder)
    return 1 if faults else 0


sys.exit(main())
