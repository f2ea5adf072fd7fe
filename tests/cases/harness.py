"""What the scripts of this folder share: run the command, write small traces, collect what differs.

usage of each script: test_AREA.py CKINETO FOLDER-OF-GIVEN-CASES
"""
import gzip
import json
import os
os.environ["COLUMNS"] = "10000"  # texts are compared whole
import subprocess
import sys
import tempfile

CKINETO, CASES = sys.argv[1], sys.argv[2]
scratch = tempfile.TemporaryDirectory(prefix="ckineto-cases-")
failures = []


def environment():
    """This process's environment without settings that change what the command does."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("CKINETO", "KINETO")) or k in ("CKINETO_LIBRARY_PATH", "CKINETO_CPU")}


def run(*args, status=0, env=None):
    """Run the command; its standard output. STATUS is the expected exit status, None for any."""
    done = subprocess.run([CKINETO, *map(str, args)], capture_output=True, text=True, timeout=120,
                          env={**environment(), **(env or {})}, check=False)
    if status is not None and done.returncode != status:
        failures.append(f"ckineto {' '.join(map(str, args))}: exit status {done.returncode}, expected {status}: "
                        f"{done.stderr.strip()[:400]}")
    run.stderr, run.status = done.stderr, done.returncode
    return done.stdout


def query(trace, sql):
    """Rows of an SQL query, as dictionaries."""
    text = run("query", trace, sql, "--format", "json")
    return json.loads(text) if text.strip() else []


def path_of(name):
    """A path in a folder that is removed when the script ends."""
    return os.path.join(scratch.name, name)


def write_trace(name, content):
    """Write a trace: a text, bytes, a list of events or a whole document. Its path."""
    if isinstance(content, list):
        content = {"traceEvents": content}
    if isinstance(content, dict):
        content = json.dumps(content)
    if isinstance(content, str):
        content = content.encode()
    path = path_of(name)
    with (gzip.open if name.endswith(".gz") else open)(path, "wb") as file:
        file.write(content)
    return path


def given(*parts):
    """A case that was given with the project, or None where they are absent."""
    path = os.path.join(CASES, *parts)
    return path if os.path.exists(path) else None


def expect(what, got, wanted):
    """Note a difference."""
    if got != wanted:
        failures.append(f"{what}: {got!r}, expected {wanted!r}")


def finish():
    """Print what differs and leave with the status of the whole script."""
    for failure in failures:
        print(failure)
    if not os.path.isdir(CASES):
        print("the given cases are absent: only this script's own inputs were checked")
    sys.exit(1 if failures else 0)
