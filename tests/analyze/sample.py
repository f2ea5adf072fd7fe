"""Which traces a slow program looks at: all small ones, and of the large ones a third, another third in each
program. CKINETO_ALL_TRACES=1 takes them all (ctest -L slow)."""

import hashlib
import os

LARGE_BYTES = 100_000


def is_chosen(path, program):
    words = f"{os.path.basename(program)} {os.path.basename(path)}"
    return hashlib.sha256(words.encode()).digest()[0] % 3 == 0


def choose_traces(paths, program):
    if os.environ.get("CKINETO_ALL_TRACES") == "1":
        return list(paths)
    return [path for path in paths if os.path.getsize(path) < LARGE_BYTES or is_chosen(path, program)]
