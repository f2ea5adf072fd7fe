"""Every test that SECURITY.md names is there, and what runs in other people's programs reads no variable when they
have raised privileges.

usage: test_page.py SOURCE-DIRECTORY

In its table a file is named in `quotes`, and after it the tests in it."""

import os
import re
import sys


def named(line):
    """(file, tests in it)"""
    file, tests = None, []
    for word in re.findall(r"`([^`\s]+)`", line.split("|")[-2]):
        if re.match(r"[\w/]+\.(py|c|sh)$", word):
            if file:
                yield file, tests
            file, tests = word, []
        elif file and re.match(r"\w+$", word):
            tests.append(word)
    if file:
        yield file, tests


def plain_reads(root):
    """Calls of getenv itself where a program with raised privileges may be: not in the command."""
    for folder in ("src", "plugins"):
        for at, _, names in os.walk(os.path.join(root, folder)):
            for name in names if "src/cli" not in at else []:
                with open(os.path.join(at, name), encoding="utf-8", errors="replace") as f:
                    for line in f:  # one that asks both wants to know what is refused
                        if re.search(r"(?<!\w)getenv\(", line) and "kb_os_getenv" not in line:
                            yield f"{at}/{name} calls getenv: kb_setting, kb_os_getenv and secure_getenv heed privileges"


def main(root):
    faults, count = list(plain_reads(root)), 0
    with open(os.path.join(root, "SECURITY.md"), encoding="utf-8") as f:
        rows = [line for line in f if line.startswith("|") and line.count("|") >= 5][2:]
    for row in rows:
        files = list(named(row))
        if not files:
            faults.append(f"nothing shows it: {row[:60]}")
        for path, tests in files:
            full = os.path.join(root, "tests", path)
            if not os.path.isfile(full):
                faults.append(f"tests/{path} is not there")
                continue
            with open(full, encoding="utf-8") as f:
                text = f.read()
            for test in tests:
                count += 1
                if not re.search(rf"(\bvoid|\bdef|\bint) {re.escape(test)}\(", text):
                    faults.append(f"there is no {test} in tests/{path}")
    print("\n".join(faults))
    if faults and not os.path.isdir(os.path.join(root, "src/ondemand")):
        print("this tree lacks src/ondemand, which some of them are about: skipped")
        return 77
    print(f"{len(rows)} rows, {count} tests")
    return bool(faults) or not rows


sys.exit(main(sys.argv[1]))
