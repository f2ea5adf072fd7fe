"""Schedules give the actions that their description says, stated here a second time; every combination
of small numbers, and numbers at the limit.

usage: test_schedule.py PROGRAM
"""
import itertools
import subprocess
import sys

NONE, WARMUP, RECORD, SAVE = range(4)
END = 4
MOST = 2 ** 64 - 1


def action(step, skip_first, wait, warmup, active, repeat, skip_first_wait):
    """Walks from cycle to cycle, where the library divides."""
    if step < skip_first:
        return NONE
    place = step - skip_first + (wait if skip_first_wait else 0)
    cycle = 0
    length = wait + warmup + active
    if place > 1000 * length:
        cycle, place = divmod(place, length)
    while place >= length:
        place -= length
        cycle += 1
    if repeat and cycle >= repeat:
        return NONE
    phases = [NONE] * wait + [WARMUP] * warmup + [RECORD] * (active - 1) + [SAVE] \
        if length < 1000 else None
    if phases:
        return phases[place]
    return NONE if place < wait else WARMUP if place < wait + warmup else \
        SAVE if place == length - 1 else RECORD


def calls(before, after):
    """From the meaning of actions: what is prepared, started, stopped and handed over."""
    if after == END:
        return {NONE: [], WARMUP: ["start", "stop"]}.get(before, ["stop", "ready"])
    if (before, after) in ((WARMUP, NONE), (RECORD, NONE), (RECORD, WARMUP)):  # incomplete
        return ["warn"] + (["start", "stop"] if before == WARMUP else ["stop"])
    made = []
    if before == SAVE:
        made += ["stop", "ready"]
        before = NONE
    if before == NONE and after != NONE:
        made.append("prepare")
    if before in (NONE, WARMUP) and after in (RECORD, SAVE):
        made.append("start")
    return made


def ask(*arguments, text=""):
    return subprocess.run([sys.argv[1], *arguments], input=text, capture_output=True, text=True,
                          check=True, timeout=240).stdout.splitlines()


def compare(cases):
    """Cases are (six numbers, first step, steps). Returns faults."""
    text = "".join(" ".join(map(str, (*numbers, first, steps))) + "\n"
                   for numbers, first, steps in cases)
    answers = ask(text=text)
    assert len(answers) == len(cases)
    faults = []
    for (numbers, first, steps), answer in zip(cases, answers):
        good = numbers[3] > 0 and sum(numbers[1:4]) <= MOST
        expected = "".join(str(action(first + i, *numbers) if good else NONE) for i in range(steps))
        warns = good and numbers[2] == 0
        words = f"{'OK' if good else 'E_ARGUMENT'} {int(warns)} {expected}"
        if words != answer:
            faults.append(f"{numbers} from {first}: {answer}, expected {words}")
    return faults


def main():
    small = [(numbers, 0, 24) for numbers in
             itertools.product(range(4), range(4), range(4), range(5), range(4), range(2))]
    large = [(numbers, first, 8) for numbers in (
        (0, 1, 1, 1, 0, 0), (0, 3, 2, 4, 0, 1), (0, MOST - 2, 1, 1, 0, 1), (MOST, 0, 0, 1, 0, 0),
        (0, MOST - 2, 1, 1, 1, 1), (0, 1, MOST - 2, 1, 0, 0), (5, 0, 0, MOST, 2, 1),
        (0, MOST, 1, 1, 0, 0), (0, 1, 0, MOST, 0, 0), (1, 2, 3, 4, 10 ** 18, 1))
        for first in (0, 10 ** 12, MOST // 2, MOST - 8)]
    faults = compare(small) + compare(large)
    for line in ask("transitions"):
        before, after, *made = line.split()
        if made != calls(int(before), int(after)):
            faults.append(f"{before} then {after}: {made}, expected {calls(int(before), int(after))}")
    for fault in faults[:20]:
        print(fault)
    print(f"{len(small) + len(large)} schedules, {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
