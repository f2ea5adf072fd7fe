"""Every weakness has a row on docs/project/kineto-weaknesses.md, and every test that a row names is there.

usage: test_page.py SOURCE-DIRECTORY

A row names files in `quotes`, and after each the tests in it. A folder of tests that this tree lacks
is reported, and the test is skipped if there is nothing worse.
"""
import os
import re
import sys

WEAKNESSES = 38
SKIPPED = 77


def rows(root):
    """(number, what shows it)"""
    with open(os.path.join(root, "docs/project/kineto-weaknesses.md"), encoding="utf-8") as file:
        for line in file:
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
            if len(cells) == 6 and cells[1].isdigit():
                yield int(cells[1]), cells[4]


def named(cell):
    """(file, tests in it)"""
    for part in cell.split(";"):
        words = re.findall(r"`([^`]+)`", part)
        if words:
            yield words[0], words[1:]


def look(root, number, path, tests, faults, absent):
    folder = os.path.dirname(path)
    if not os.path.isdir(os.path.join(root, folder)):
        absent.add(folder)
        return
    if not os.path.isfile(os.path.join(root, path)):
        faults.append(f"{number}: {path} is not there")
        return
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    for test in tests:
        if not re.search(rf"(\bvoid|\bdef|\bint) {re.escape(test)}\(", text):
            faults.append(f"{number}: there is no {test} in {path}")


def main(root):
    faults, absent = [], set()
    seen = list(rows(root))
    if [number for number, _ in seen] != list(range(1, WEAKNESSES + 1)):
        faults.append(f"rows are {[number for number, _ in seen]}")
    count = 0
    for number, cell in seen:
        files = list(named(cell))
        if not files:
            faults.append(f"{number}: nothing shows it")
        for path, tests in files:
            look(root, number, path, tests, faults, absent)
            count += max(1, len(tests))
    print("\n".join(faults + [f"{folder} is not part of this tree" for folder in sorted(absent)]))
    print(f"{count} tests for {len(seen)} weaknesses")
    return 1 if faults else SKIPPED if absent else 0


sys.exit(main(sys.argv[1]))
