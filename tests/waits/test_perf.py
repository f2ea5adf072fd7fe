"""The same calls as `perf trace` sees: as many, and not shorter."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from waits_test import COMMAND, TARGET, WaitsTest, main

# System call: the functions that make it.
CALLS = {"fsync": ["fsync"], "fdatasync": ["fdatasync"], "ppoll": ["ppoll"], "poll": ["poll"],
         "epoll_wait": ["epoll_wait"], "pselect6": ["select", "pselect"],
         "clock_nanosleep": ["usleep", "nanosleep", "clock_nanosleep", "thrd_sleep", "sleep"]}


def perf_works():
    if not shutil.which("perf"):
        return False
    return subprocess.run(["perf", "trace", "-s", "-o", "/dev/null", "--", "true"], capture_output=True).returncode == 0


@unittest.skipUnless(perf_works(), "perf trace does not work here")
class Perf(WaitsTest):
    def sums_of_perf(self):
        """{system call: (calls, ms)} of the threads of the program."""
        with open(self.path("perf.txt"), encoding="utf-8", errors="replace") as f:
            text = f.read()
        sums = {}
        for block in re.split(r"\n (?=\S.* \(\d+\), \d+ events)", text):
            if not block.lstrip().startswith(os.path.basename(TARGET)[:15]):
                continue
            for call, count, ms in re.findall(r"^ +(\w+) +(\d+) +\d+ +([\d.]+) ", block, re.M):
                old = sums.get(call, (0, 0.0))
                sums[call] = old[0] + int(count), old[1] + float(ms)
        return sums

    def test_counts_and_times(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["perf", "trace", "-s", "-o", "perf.txt", "--", COMMAND, "record", "-q", "-o", "t.json",
                                   "--cpu=off", "--waits=0", "--", TARGET, "counts", folder, "20"],
                                  cwd=self.directory, capture_output=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("perf.txt"), "rb") as f:
            if b"LOST" in done.stderr + f.read():
                self.skipTest("perf lost events")
        theirs = self.sums_of_perf()
        for call, functions in CALLS.items():
            mine = [e["dur"] / 1000 for e in self.calls() if e["name"] in functions]
            count, ms = theirs[call]
            print(f"{call}: {len(mine)} calls of {sum(mine):.1f} ms, perf {count} of {ms:.1f} ms", file=sys.stderr)
            self.assertEqual(count, len(mine), call)
            self.assertGreaterEqual(sum(mine) * 1.001 + 0.1, ms, call)


if __name__ == "__main__":
    main()
