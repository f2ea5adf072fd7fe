"""What the tests of --waits share."""

import collections
import os
import subprocess

from command import COMMAND, TARGET, CommandTest, main  # noqa: F401 (main is for those who import this)

PROGRAMS = os.environ["WAITS_PROGRAMS"]
HOOK = os.environ["WAITS_HOOK"]


def program(name):
    return os.path.join(PROGRAMS, name)


class WaitsTest(CommandTest):
    def record(self, *command, waits="=0", options=(), name="t.json", **more):
        """Record a program that must succeed, and lose nothing; its lines "name count" as a dictionary."""
        done = self.run_command("record", "-q", "-o", name, f"--waits{waits}", "--cpu=off", *options, "--", *command,
                                env={**os.environ, **more})
        self.assertEqual(done.returncode, 0, done.err)
        self.assertEqual(self.lost(name), 0)
        lines = [line.rsplit(" ", 1) for line in done.out.decode().splitlines()]
        return {key: value for key, value in (line for line in lines if len(line) == 2)}

    def calls(self, name="t.json"):
        return [e for e in self.load(name)["traceEvents"] if e.get("cat") == "blocking_call"]

    def counts(self, name="t.json"):
        return collections.Counter(e["name"] for e in self.calls(name))

    def short_calls(self, name="t.json"):
        """The last counts of calls below the threshold: {function: (calls, us, bytes)}, summed over processes."""
        last = {}
        for e in self.load(name)["traceEvents"]:
            if e.get("ph") == "C" and e["name"].endswith(" below the threshold"):
                last[e["pid"], e["name"].split()[0]] = e["args"]
        sums = {}
        for (_, function), args in last.items():
            old = sums.get(function, (0, 0, 0))
            sums[function] = tuple(a + args[k] for a, k in zip(old, ("calls", "time [us]", "moved [bytes]")))
        return sums

    def assert_counts(self, printed, functions=None, name="t.json"):
        """Recorded calls of these functions are as many as the program printed."""
        have = self.counts(name)
        for function, count in printed.items():
            if count.isdigit() and not function.startswith("bytes ") and (functions is None or function in functions):
                self.assertEqual(have[function], int(count), function)


def run_plain(*command, **more):
    return subprocess.run(command, env={**os.environ, **more}, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=100)
