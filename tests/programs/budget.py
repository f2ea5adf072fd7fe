"""Does a budget hold, measured from outside? A fixed amount of work, alone and recorded, in turn.

usage: budget.py [--pairs N] [--budget PERCENT] [--mask MASK] [--most PERCENT]

hashcat tries every candidate of a mask and finds nothing, so each run does the same. Of each pair, CPU times by the
kernel: what the program takes alone, and what it takes under `ckineto record --budget` together with the recorder
while that records. Getting the buffer ready and writing the trace come before and after; the table shows the whole
command next to it. Runs take turns, with and without first, so that a machine that gets slower or faster pays both.
It prints the median of the pairs' differences, and a confidence interval of it from the order of the pairs alone,
whatever the distribution is; and the same of pairs of two runs alone, which is what the machine can tell apart.
With --most the exit status is 1 if the whole interval lies above that percentage. The environment says where the
command is (CKINETO).
"""
import argparse
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

CKINETO = os.path.abspath(os.environ["CKINETO"]) if os.environ.get("CKINETO") else ""
SKIPPED = 77
EXHAUSTED = 1  # hashcat's status when no candidate was the right one
NEVER = "ffffffffffffffffffffffffffffffff"
CONFIDENCE = 0.95


def hashcat(mask):
    return ["hashcat", "-m", "0", "-a", "3", "--potfile-disable", "--quiet", "-D", "1", "--session", "budget",
            "-o", "cracked", NEVER, mask]


def cpu_seconds(command, place):
    """Of the command and all below it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CKINETO", "KINETO", "OPENCL_LAYERS", "LD_"))}
    environment.update(HOME=place, XDG_CACHE_HOME=place, POCL_CACHE_DIR=os.path.join(place, "pocl"), LC_ALL="C")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != EXHAUSTED:
        sys.exit(f"{command[0]}: status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone(mask, place):
    return cpu_seconds(hashcat(mask), place)


def recorded(mask, place, budget):
    """(while it was recorded, whole command, what the recording says itself in percent)"""
    trace = os.path.join(place, "trace.json")
    whole = cpu_seconds([CKINETO, "record", "-q", "--budget", budget, "-o", trace, "--", *hashcat(mask)], place)
    with open(trace, encoding="utf-8") as file:
        cost = json.load(file)["ckineto_self_cost"]
    return (cost["program_cpu_ns"] + cost["recorder_cpu_ns"]) / 1e9, whole, cost["percent"]


def median_interval(values):
    """(median, low, high, confidence): the k-th smallest and largest, as the signs of fair coins fall."""
    values, n = sorted(values), len(values)
    best, sure = 0, 0.0
    for k in range(n // 2):
        inside = 1 - 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2 ** n
        if inside >= CONFIDENCE or k == 0:
            best, sure = k, inside
    return statistics.median(values), values[best], values[n - 1 - best], max(sure, 0.0)


def tell(what, values):
    median, low, high, sure = median_interval(values)
    print(f"{what:32} median {median:+.2f} %, {100 * sure:.0f} % sure between {low:+.2f} and {high:+.2f} %", flush=True)
    return low


def measure(options, place):
    alone(options.mask, place)  # compiles, fills caches
    own, outside, whole, noise = [], [], [], []
    for pair in range(options.pairs):
        runs = {}
        for way in ("plain", "record", "plain again")[::1 if pair % 2 == 0 else -1]:
            runs[way] = recorded(options.mask, place, options.budget) if way == "record" else alone(options.mask, place)
        plain = (runs["plain"] + runs["plain again"]) / 2  # before and after: what drifts cancels out
        during, all_of_it, said = runs["record"]
        outside.append(100 * (during / plain - 1))
        whole.append(100 * (all_of_it / plain - 1))
        noise.append(100 * (runs["plain again"] / runs["plain"] - 1))
        own.append(said)
        print(f"pair {pair + 1:2}: alone {runs['plain']:.3f} s and {runs['plain again']:.3f} s, recorded {during:.3f} s "
              f"({outside[-1]:+.2f} %; it says {said:.2f} %), whole command {all_of_it:.3f} s", flush=True)
    low = tell("recorded, against alone", outside)
    tell("with start and writing", whole)
    tell("alone, against alone", noise)
    print(f"{'what the recordings say':32} median {statistics.median(own):.2f} %, at most {max(own):.2f} %")
    return low


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--budget", default="1%")
    parser.add_argument("--mask", default="?l?l?l?l?l?l")
    parser.add_argument("--most", type=float)
    options = parser.parse_args()
    if not CKINETO or not shutil.which("hashcat"):
        print("skipped: the command is not named (CKINETO), or there is no hashcat")
        return SKIPPED
    place = tempfile.mkdtemp(prefix="ckineto-budget-")
    try:
        low = measure(options, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 1 if options.most is not None and low > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
