"""Write the contents of the traces of a folder into its README.md, below a marker line, and their checksums
into SHA256SUMS.

describe.py FOLDER: for each file its size, what Python's json makes of it, and how many events of each
phase it holds. A file that is not valid JSON is listed with Python's error message.
"""

import collections
import glob
import gzip
import hashlib
import json
import os
import sys

MARK = "<!-- tools/capture/describe.py writes what follows -->\n"


def text_of(path):
    with open(path, "rb") as file:
        data = file.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def events_of(trace):
    return trace if isinstance(trace, list) else trace.get("traceEvents")


def one_line(problem):
    return str(problem).replace("\n", " ").replace("|", "\\|")


def described(data):
    try:
        trace = json.loads(data.decode("utf-8"))
    except ValueError as problem:
        return "**invalid**: %s" % one_line(problem)
    events = events_of(trace)
    if events is None:
        return "no Chrome trace: %s" % ", ".join("`%s`" % key for key in trace)
    phases = collections.Counter(e["ph"] for e in events)
    counts = ", ".join("%d %s" % (n, phase) for phase, n in sorted(phases.items()))
    return counts + (" (bare array)" if isinstance(trace, list) else "")


def main():
    folder = sys.argv[1]
    lines, sums = [], []
    for path in sorted(glob.glob(os.path.join(folder, "*", "*.gz"))):
        name = os.path.relpath(path, folder)
        data = text_of(path)
        lines.append("| `%s` | %d | %d | %s |\n"
                     % (name, os.path.getsize(path), len(data), described(data)))
        with open(path, "rb") as file:
            sums.append("%s  %s\n" % (hashlib.sha256(file.read()).hexdigest(), name))
    with open(os.path.join(folder, "SHA256SUMS"), "w") as file:
        file.writelines(sums)
    readme = os.path.join(folder, "README.md")
    with open(readme, encoding="utf-8") as file:
        head = file.read().split(MARK)[0]
    with open(readme, "w", encoding="utf-8") as file:
        file.write(head + MARK)
        file.write("\n| file | bytes | bytes of JSON | events by phase |\n|---|---:|---:|---|\n")
        file.writelines(lines)


sys.exit(main())
