"""Operators of a trace as Python's json reads them: check_operators.py TRACE EXPECTED.

EXPECTED has a line for each, in the order of their starts. "Ev Idx" is a number that no two share; all
other arguments must be those expected, no more and no less."""
import json
import sys


def unique(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), f"a key twice: {pairs}"
    return dict(pairs)


with open(sys.argv[1], encoding="utf-8") as file:
    events = json.load(file, object_pairs_hook=unique)["traceEvents"]
with open(sys.argv[2], encoding="utf-8") as file:
    expected = [json.loads(line) for line in file]
rows = sorted((e for e in events if e["ph"] == "X" and e["cat"] == "cpu_op"),
              key=lambda e: e["args"]["External id"])
assert len(rows) == len(expected), f"{len(rows)} operators, expected {len(expected)}"
numbers = {row["args"].pop("Ev Idx") for row in rows}
assert len(numbers) == len(rows)
for row, wanted in zip(rows, expected):
    for key in ("name", "args"):
        if row[key] != wanted[key]:
            sys.exit(f"{key}: {row[key]}\n  not {wanted[key]}")
print(f"{len(rows)} operators are as expected")
