"""Whole runs: what torch.profiler.profile hands over has the same steps as what kineto_profile_run does, for the same
schedules, ended wherever it may be.

usage: test_torch_profile.py PROGRAM PYTHON
  PROGRAM is profile_runs of tests/profile; PYTHON is one that has PyTorch, without it this is skipped.
"""
import os
import subprocess
import sys

RUNS = """
import itertools, sys, warnings
warnings.simplefilter("ignore")
import torch
from torch.profiler import ProfilerActivity, profile, schedule
torch.set_num_threads(1)
x = torch.ones(2)
def ready(p):
    events = sorted(p.profiler.kineto_results.events(), key=lambda e: e.start_ns())
    names = [e.name() for e in events if e.name().startswith("ProfilerStep#")]
    print(" ready", *[name[13:] for name in names], end="")
cases = [(*c, 7) for c in itertools.product(range(2), range(2), range(2), range(1, 3), range(3), range(2))]
cases += [(1, 1, 1, 2, 0, 0, steps) for steps in range(1, 10)]
for first, wait, warmup, active, repeat, shift, steps in cases:
    print("schedule", first, wait, warmup, active, repeat, shift, steps, end=" |")
    with profile(activities=[ProfilerActivity.CPU], on_trace_ready=ready,
                 schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=first,
                                   skip_first_wait=shift)) as p:
        for step in range(steps):
            x.add_(1)
            if step + 1 < steps:
                p.step()
    print(flush=True)
"""


def main():
    program, python = sys.argv[1:]
    if not os.path.exists(python):
        print("skipped: PyTorch is not here (make test-peers fetches it)")
        return 77
    environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", KINETO_LOG_LEVEL="4")
    theirs = [line.split("|") for line in subprocess.run(
        [python, "-B", "-c", RUNS], check=True, capture_output=True, text=True, timeout=900,
        env=environment).stdout.splitlines()]
    ours = subprocess.run([program], input="".join(case + "\n" for case, _ in theirs), check=True,
                          capture_output=True, text=True, timeout=300, env=environment).stdout.splitlines()
    faults = 0
    for (case, expected), line in zip(theirs, ours):
        found = line.split(" discarded ")[0].replace("+", "")
        if found.split() != expected.split():
            faults += 1
            print(f"{case}\n    PyTorch {expected}\n    ckineto {found}")
    print(f"{len(theirs)} runs, {faults} differ")
    return 1 if faults or len(ours) != len(theirs) or len(ours) < 100 else 0


sys.exit(main())
