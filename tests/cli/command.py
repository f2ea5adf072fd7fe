"""What the tests of the command share."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
from terminal_output import open_terminal, read_terminal  # noqa: E402

COMMAND = os.environ.get("CKINETO", "")
TARGET = os.environ.get("CKINETO_TARGET", "")
STATIC_TARGET = os.environ.get("CKINETO_STATIC_TARGET", "")
SHARED_MEMORY = "/dev/shm"

if not (COMMAND and TARGET):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)


def until(condition, seconds=60):
    """Wait for something that must come; a machine may be slow, so the limit is only against hanging."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


def on_terminal(width, *arguments, cwd=None, **environment):
    """Exit status, and what the command writes to a terminal of this width."""
    ours, theirs = open_terminal(width)
    process = subprocess.Popen([COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=theirs,
                               stderr=subprocess.DEVNULL, env={**os.environ, **environment}, cwd=cwd)
    text = read_terminal(ours, theirs, process)
    return process.wait(), text.decode(errors="replace").replace("\r\n", "\n")


def gone(pid):
    """Dead, whether or not it was waited for."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class CommandTest(unittest.TestCase):
    """A directory of its own, and nothing left over in shared memory."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ckineto-cli-")
        self.recorders = []
        self.strangers = []
        self.strangers = self.pools("*")
        self.may_leave_pool = False

    def tearDown(self):
        left = [p for pid in self.recorders for p in self.pools(pid)]
        for path in left:
            os.unlink(path)
        hidden = [n for n in os.listdir(self.directory) if "ckspool" in n or n.endswith(".tmp")]
        shutil.rmtree(self.directory, ignore_errors=True)
        if not self.may_leave_pool:
            self.assertEqual(left, [], "pools were left over")
            self.assertEqual(hidden, [], "temporary files were left over")

    def path(self, name):
        return os.path.join(self.directory, name)

    def pools(self, pid):
        """Those made since the test began: numbers of processes come round again, and a pool of a
        recorder that was killed long ago may bear one of ours."""
        paths = glob.glob(f"{SHARED_MEMORY}/ckineto-{os.geteuid()}-{pid}-*.pool")
        return [path for path in paths if path not in self.strangers]

    def start(self, *arguments, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("cwd", self.directory)
        process = subprocess.Popen([COMMAND, *arguments], **options)
        self.recorders.append(process.pid)
        return process

    def run_command(self, *arguments, data=None, **options):
        if data is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        process.out, process.err = process.communicate(data, timeout=200)
        return process

    def record(self, *program, options=(), **more):
        # The usual buffer is large, and getting it ready is most of what a short recording takes.
        return self.run_command("record", "-b", "8", "-o", "t.json", *options, "--", *program, **more)

    def load(self, name="t.json"):
        with open(self.path(name), encoding="utf-8") as f:
            return json.load(f)

    def slices(self, name="t.json"):
        return [e for e in self.load(name)["traceEvents"] if e["ph"] == "X"]

    def numbers(self, name="t.json"):
        return [e["args"]["i"] for e in self.slices(name) if e["name"] == "inner"]

    def ledger(self, name="t.json"):
        return self.load(name)["ckineto"]["ledger"]

    def lost(self, name="t.json"):
        return sum(l["count"] for l in self.ledger(name) if l["loss"])

    def assert_recorded(self, pairs, name="t.json"):
        self.assertEqual(sorted(self.numbers(name)), list(range(pairs)))
        self.assertEqual(self.lost(name), 0)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main(verbosity=2)
