"""Holistic Trace Analysis finds the same in a trace that ckineto read and wrote as in the original.

test_hta.py COMMAND FOLDER TRACES: FOLDER is the virtual environment that fetch_hta.sh makes. Traces in
which HTA finds nothing, for its own reasons, must stay so.
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def facts(python, paths):
    done = subprocess.run([python, "-B", os.path.join(HERE, "hta_facts.py"), *paths], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=900, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_again(command, paths, work):
    """Those that can be read, and what they became."""
    originals, copies = [], []
    for path in paths:
        copy = os.path.join(work, os.path.basename(path))
        done = subprocess.run([command, "convert", path, "-q", "-o", copy], stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            originals.append(path)
            copies.append(copy)
    return originals, copies


def compare(name, theirs, ours):
    different = [key for key in {**theirs, **ours}
                 if json.dumps(theirs.get(key)) != json.dumps(ours.get(key))]
    tables = sum(isinstance(value, list) for value in theirs.values())
    print("%s: %s rows, %d tables: %s" % (name, theirs.get("rows", "no"), tables,
                                          "DIFFERENT" if different else "same"))
    for key in different:
        print("    %s\n      original %.300s\n      written  %.300s"
              % (key, theirs.get(key), ours.get(key)))
    return not different


def main():
    command, folder, traces = sys.argv[1:4]
    python = os.path.join(folder, "bin", "python")
    paths = sorted(glob.glob(os.path.join(traces, "*.json.gz")))
    if not os.path.exists(python):
        print("skipped: Holistic Trace Analysis is not here (make test-peers fetches it)")
        return 77
    if not paths:
        print("skipped: no traces in %s" % traces)
        return 77
    same = True
    with tempfile.TemporaryDirectory() as work:
        originals, copies = write_again(command, paths, work)
        for path, theirs, ours in zip(originals, facts(python, originals), facts(python, copies)):
            same = compare(os.path.basename(path), theirs, ours) and same
    return 0 if same else 1


sys.exit(main())
