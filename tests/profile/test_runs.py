"""Traces of whole runs hold exactly the steps that the schedule says, each with its operator inside; what an
incomplete cycle recorded is discarded and counted. The rules are stated here a second time.

usage: test_runs.py PROGRAM MOST-STEPS (of those whose actions come in any order)
"""
import itertools
import subprocess
import sys

NONE, WARMUP, RECORD, SAVE = range(4)


def action(step, skip_first, wait, warmup, active, repeat, skip_first_wait):
    if step < skip_first:
        return NONE
    step -= skip_first
    if skip_first_wait:
        step += wait
    cycle, place = divmod(step, wait + warmup + active)
    if repeat and cycle >= repeat or place < wait:
        return NONE
    if place < wait + warmup:
        return WARMUP
    return SAVE if place == wait + warmup + active - 1 else RECORD


def run(actions):
    """Which steps each trace has, and how many events are discarded: a step is recorded from where recording
    starts to where it stops, and recording goes on for as long as actions are RECORD or SAVE, but ends
    after each SAVE."""
    words, recorded, discarded = [], [], 0
    for step, now in enumerate(actions):
        last = step + 1 == len(actions)
        following = None if last else actions[step + 1]
        if now in (RECORD, SAVE):
            recorded.append(step)
        if now == SAVE or now == RECORD and last:
            words += ["ready"] + [f"{k}+" for k in recorded]
            recorded = []
        elif now == RECORD and following in (NONE, WARMUP):
            discarded += 2 * len(recorded)  # the annotation and the operator
            recorded = []
        elif now == WARMUP and last:
            pass  # started and stopped, not handed over
    return " ".join(words + ["discarded", str(discarded)])


def main():
    cases = []
    for numbers in itertools.product(range(2), range(3), range(3), range(1, 4), range(3), range(2)):
        actions = [action(step, *numbers) for step in range(11)]
        cases.append((f"schedule {' '.join(map(str, numbers))} 11", run(actions)))
    for steps in range(1, 12):  # ended wherever it may be
        actions = [action(step, 1, 1, 1, 2, 0, 0) for step in range(steps)]
        cases.append((f"schedule 1 1 1 2 0 0 {steps}", run(actions)))
    for length in range(1, int(sys.argv[2]) + 1):
        for actions in itertools.product(range(4), repeat=length):
            cases.append((f"actions {''.join(map(str, actions))}", run(actions)))
    text = "".join(f"{case}\n" for case, _ in cases)
    answer = subprocess.run([sys.argv[1]], input=text, capture_output=True, text=True, timeout=500,
                            env={"KINETO_LOG_LEVEL": "4"})
    lines = answer.stdout.splitlines()
    if answer.returncode or len(lines) != len(cases):
        print(f"exit status {answer.returncode}, {len(lines)} of {len(cases)} lines\n{answer.stderr[-2000:]}")
        return 1
    faults = 0
    for (case, expected), line in zip(cases, lines):
        if line.split() != expected.split():
            faults += 1
            if faults < 20:
                print(f"{case}:\n  {line}\n  expected {expected}")
    print(f"{len(cases)} runs, {faults} faults")
    return 1 if faults else 0


sys.exit(main())
