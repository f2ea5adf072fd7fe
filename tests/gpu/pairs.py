#!/usr/bin/env python3
"""Compares the cost of commands side by side: pairs.py ROUNDS NAME=COMMAND…

Prints each result, and tables at the end. Each round runs every command once, in an order that rotates, and the
first command once more: the difference between its two runs shows the noise. Round 0 warms caches and is not
counted. The last line of a command's output that begins with "{" is a JSON object of numbers. For each of its keys
the table has the median, least and most of each command, and those of the differences to the first command within
one round."""

import json
import statistics
import subprocess
import sys


def run(name, command):
    """The numbers that a command prints; None: it failed, which is reported."""
    done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and lines:
        print(name, lines[-1], flush=True)  # a comparison that is cut has what was measured until then
        return json.loads(lines[-1])
    print("%s: ended with %d\n%s" % (name, done.returncode, (done.stdout + done.stderr)[-2000:]), flush=True)
    return None


def run_rounds(rounds, commands):
    """One dict per counted round: name of the command to its numbers."""
    results = []
    for number in range(rounds + 1):
        turn = number % len(commands)
        found = {name: run(name, command) for name, command in commands[turn:] + commands[:turn]}
        if None in found.values():
            return results, False
        if number:
            results.append(found)
    return results, True


def three(values):
    return "%12.1f %12.1f %12.1f" % (statistics.median(values), min(values), max(values))


def print_table(key, names, results):
    print("%-36s %12s %12s %12s | %12s %12s %12s" % (key, "median", "least", "most", "more", "least", "most"))
    base = [r[names[0]].get(key) for r in results]
    for name in names:
        values = [r[name].get(key) for r in results]
        if None in values:
            continue
        more = "" if None in base else "| " + three([b - a for a, b in zip(base, values)])
        print("  %-34s %s %s" % (name, three(values), more))


def main():
    rounds = int(sys.argv[1])
    commands = [tuple(argument.split("=", 1)) for argument in sys.argv[2:]]
    commands.append((commands[0][0] + ", again", commands[0][1]))
    results, fine = run_rounds(rounds, commands)
    names = [name for name, _ in commands]
    keys = {key: None for r in results for numbers in r.values() for key in numbers}
    print("%d rounds" % len(results))
    for key in keys:
        print_table(key, names, results)
    return 0 if fine and results else 1


if __name__ == "__main__":
    sys.exit(main())
