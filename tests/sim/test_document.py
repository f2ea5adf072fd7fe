"""The code that docs/how-to/write-a-plugin.md shows is that of the template, line by line.

usage: test_document.py SOURCE-DIRECTORY
"""
import os
import re
import sys


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return {line.strip() for line in file}


def blocks(text, language):
    """(indentation, text) of each listing."""
    return re.findall(r"^ *```" + language + r"\n(.*?)^ *```", text, flags=re.S | re.M)


def main():
    root = sys.argv[1]
    with open(os.path.join(root, "docs/how-to/write-a-plugin.md"), encoding="utf-8") as file:
        text = file.read()
    sources = {"c": "plugins/sim/sim_plugin.c", "cmake": "examples/vendor-plugin/CMakeLists.txt"}
    faults, seen = [], 0
    for language, source in sources.items():
        known = lines_of(os.path.join(root, source))
        for block in blocks(text, language):
            for line in (line.strip() for line in block.splitlines()):
                seen += 1
                if line not in known and line != "…":
                    faults.append(f"{source} has no line: {line}")
    if seen < 30:
        faults.append(f"only {seen} lines of code were found")
    folder = os.path.join(root, "plugins/sim")
    length = 0
    for name in os.listdir(folder):
        if name.endswith((".c", ".h")):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                length += sum(1 for _ in file)
    if length > 400:
        faults.append(f"{folder} has {length} lines: too long for a template")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
