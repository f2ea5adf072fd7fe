"""What the tests of the allocator hook share."""

import os
import subprocess

from command import COMMAND, TARGET, CommandTest, main  # noqa: F401 (main is for those who import this)

PROGRAMS = os.environ["MEMORY_PROGRAMS"]
HOOK = os.environ["MEMORY_HOOK"]
MARKER = 67108881


def program(name):
    return os.path.join(PROGRAMS, name)


class MemoryTest(CommandTest):
    def environment(self, *libraries, **more):
        preload = {"LD_PRELOAD": ":".join(program(name) for name in libraries)} if libraries else {}
        return {**os.environ, **preload, **more}

    def watch(self, *command, rate="1", libraries=(), options=(), name="t.json", **more):
        """Record a program; it must end as it does unwatched, and nothing be lost."""
        done = self.run_command("record", "-q", "-o", name, f"--memory={rate}", "--buffer-mb", "128", *options, "--",
                                *command, env=self.environment(*libraries, **more))
        plain = subprocess.run(command, env=self.environment(*libraries, **more), stdin=subprocess.DEVNULL,
                               capture_output=True, cwd=self.directory, timeout=100)
        done.plain = plain
        return done

    def watch_same(self, *command, **options):
        """Its output may not depend on it either."""
        done = self.watch(*command, **options)
        self.assertEqual((done.returncode, done.out, done.err),
                         (done.plain.returncode, done.plain.stdout, done.plain.stderr))
        return done

    def events(self, name="t.json"):
        """[memory] events in the order of time."""
        rows = [e for e in self.load(name)["traceEvents"] if e["name"] == "[memory]"]
        return sorted(rows, key=lambda e: e["ts"])

    def line(self, reason, name="t.json"):
        found = [l for l in self.ledger(name) if l["source"] == "memory" and l["reason"] == reason]
        return sum(l["count"] for l in found) if found else None

    def assert_nothing_inside(self, name="t.json"):
        """Recording never allocated, nor was anything lost."""
        self.assertIsNone(self.line("calls inside of others", name))
        self.assertEqual(self.lost(name), 0)
