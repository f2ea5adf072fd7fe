"""PyTorch shows an NVTX tool the same texts for its operators as we do for ours, and its schedules give
the same actions and calls.

usage: test_torch_emission.py PROGRAM NVTX-TOOL SCHEDULE-TABLE PYTHON SCRATCH
  PYTHON is one that has PyTorch; without it this is skipped.
"""
import os
import subprocess
import sys
import tempfile

PROGRAM, TOOL, TABLE, PYTHON, SCRATCH = sys.argv[1:]

RANGES = """
import sys, torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler, _enable_profiler
a, b = torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)
_enable_profiler(ProfilerConfig(ProfilerState.NVTX, sys.argv[1] == "1", False, False, False, False,
                                _ExperimentalConfig()), set())
y = torch.mm(a, b)
torch.cat([y, y])
_disable_profiler()
"""

SCHEDULES = """
import itertools, warnings
warnings.simplefilter("ignore")
from torch.profiler import ProfilerAction, profile, schedule
for first, wait, warmup, active, repeat, shift in itertools.product(
        range(4), range(4), range(4), range(1, 5), range(4), range(2)):
    f = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=first,
                 skip_first_wait=shift)
    print(first, wait, warmup, active, repeat, shift, 0, 24,
          "".join(str(f(step).value) for step in range(24)))
names = {"prepare_trace": "prepare", "start_trace": "start", "stop_trace": "stop",
         "_trace_ready": "ready", "warn": "warn"}
ours = ("NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE")
for (before, after), calls in profile().action_map.items():
    if before.name in ours and (after is None or after.name in ours):
        functions = [getattr(call, "func", call).__name__ for call in calls]
        print("transition", before.value, 4 if after is None else after.value,
              *(names[f] for f in functions))
"""


def heard(command, log):
    """The calls that the tool received."""
    if os.path.exists(log):
        os.remove(log)
    environment = dict(os.environ, EMIT_LOG=log, EMIT_TOOL="", NVTX_INJECTION64_PATH=TOOL)
    subprocess.run(command, env=environment, check=True, timeout=300, stdin=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as file:
        return [line.rstrip("\n").split(" ", 2)[2] for line in file]


def ranges(folder):
    faults = 0
    log = os.path.join(folder, "log")
    for shapes in "01":
        theirs = heard([PYTHON, "-c", RANGES, shapes], log)
        ours = heard([PROGRAM, "nvtx", "pytorch", shapes], log)
        rest = iter(theirs)
        missing = [text for text in ours if text.startswith("pushA") and text not in rest]
        print(f"ranges, shapes {shapes}: {len(ours)} of ours, {len(theirs)} of PyTorch's")
        for text in missing:
            print("  not PyTorch's:", text)
            faults += 1
    return faults


def schedules():
    answers = subprocess.run([PYTHON, "-c", SCHEDULES], check=True, timeout=300, text=True,
                             capture_output=True).stdout.splitlines()
    cases = [line.rsplit(" ", 1) for line in answers if not line.startswith("transition")]
    made = subprocess.run([TABLE], input="".join(case + "\n" for case, _ in cases), check=True,
                          timeout=300, text=True, capture_output=True).stdout.splitlines()
    faults = [f"{case}: {ours}, PyTorch {theirs}" for (case, theirs), ours in zip(cases, made)
              if ours.split()[-1] != theirs]
    known = {tuple(line.split()[1:3]): line.split()[3:] for line in answers
             if line.startswith("transition")}
    table = subprocess.run([TABLE, "transitions"], check=True, timeout=60, text=True,
                           capture_output=True).stdout.splitlines()
    for line in table:
        before, after, *calls = line.split()
        if known.get((before, after), []) != calls:
            faults.append(f"{before} then {after}: {calls}, PyTorch {known.get((before, after))}")
    print(f"schedules: {len(cases)}, transitions: {len(known)}")
    for fault in faults[:20]:
        print(" ", fault)
    return len(faults) + (len(made) != len(cases)) + (not cases)


def main():
    try:
        subprocess.run([PYTHON, "-c", "import torch"], check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError):
        print("PyTorch is not here: make test-peers fetches it")
        return 77
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        return 1 if ranges(folder) + schedules() else 0


sys.exit(main())
