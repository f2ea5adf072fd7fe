"""ckineto top and record --live, in a terminal and as text."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

COMMAND, TARGET, NOPERF = (os.environ[n] for n in ("CKINETO", "CPU_TARGET", "CPU_NOPERF"))


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, environment, *command, rows=30, columns=100):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(command, env=environment, stdin=slave, stdout=slave, stderr=slave,
                                        preexec_fn=take_terminal)
        self.before = termios.tcgetattr(self.master)
        os.close(slave)
        self.shown = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, key):
        os.write(self.master, key.encode())

    def read_until(self, pattern, timeout=60):
        """What has been shown since the last call, up to a match of the pattern; None: up to the end."""
        os.set_blocking(self.master, False)
        end = time.monotonic() + timeout
        start = len(self.shown)
        while time.monotonic() < end:
            try:
                data = os.read(self.master, 65536)
                if not data:
                    break
                self.shown += data
            except BlockingIOError:
                if pattern and re.search(pattern, self.shown[start:].decode(errors="replace"), re.S):
                    break
                time.sleep(0.02)
            except OSError:  # everybody has closed it
                break
        return self.shown[start:].decode(errors="replace")

    def screens(self, text):
        return [re.sub(r"\033\[[0-9?;]*[A-Za-z]", "", s).replace("\r", "") for s in text.split("\033[H")[1:]]


class Top(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.environment = {k: v for k, v in os.environ.items() if k != "CKINETO_CPU"}

    def tearDown(self):
        self.folder.cleanup()

    def run_command(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL, start_new_session=True)

    def skip_without_events(self, text):
        if "functions, sampled" not in text:
            self.skipTest("perf_event_open is not allowed here")

    # ---- as text ----

    def test_text_of_a_program(self):
        r = self.run_command(COMMAND, "top", "-B", "-n", "3", "-i", "0.5", "--", TARGET, "threads", "5000")
        self.skip_without_events(r.stdout)
        self.assertEqual(r.returncode, 128 + signal.SIGTERM, r.stderr)  # it was ended with the view
        views = re.split(r"(?m)^(?=[0-9.]+ [a-zµ]+  .*threads)", r.stdout)[1:]
        self.assertEqual(len(views), 3)
        for view in views[1:]:
            shares = {m[1]: [float(x) for x in m.groups()[1:]] for m in re.finditer(
                r"thread \d+ \((\w+)\) +(\d+\.\d) +(\d+\.\d) +(\d+\.\d)", view)}
            for name, share in shares.items():  # nothing of the interval is missing
                self.assertAlmostEqual(sum(share), 100, delta=15, msg=name)
            self.assertGreater(shares["computes"][0] + shares["computes"][1], 80)
            self.assertGreater(shares["sleeps"][2], 80)
            spin = float(re.search(r"\nspin +(\d+\.\d)", view)[1])
            self.assertLess(spin, shares["computes"][0] + 15)  # of this interval only
            self.assertRegex(view, r"\ncompute +0\.0 +\d+\.\d")

    def test_text_of_a_program_that_runs_already(self):
        p = subprocess.Popen([TARGET, "threads", "4000"], env=self.environment)
        time.sleep(0.3)
        r = self.run_command(COMMAND, "top", "-B", "-n", "2", "-i", "0.5", "--sort", "name", "--pid", str(p.pid))
        self.assertIsNone(p.poll(), "the program goes on")
        p.kill()
        p.wait()
        self.assertEqual(r.returncode, 0, r.stderr)
        self.skip_without_events(r.stdout)
        last = r.stdout[r.stdout.rindex("threads  "):]
        self.assertEqual(re.findall(r"\((computes|sleeps|waits)\)", last), ["computes", "sleeps", "waits"])

    def test_without_events_states_are_shown(self):
        r = self.run_command(NOPERF, COMMAND, "top", "-B", "-n", "2", "-i", "0.5", "--", TARGET, "threads", "3000")
        if r.returncode == 77:
            self.skipTest("no seccomp here")
        self.assertRegex(r.stdout, r"\(sleeps\) +\d+\.\d +\d+\.\d +\d+\.\d")

    def test_mistakes(self):
        for options, word in ((("--",), "no program given"), (("--sort", "cpu", "true"), "--sort is running"),
                              (("-i", "0", "true"), "--interval"), (("--pid", "4194301"), "no process"),
                              (("true",), "needs a terminal")):
            r = self.run_command(COMMAND, "top", *options)
            self.assertEqual(r.returncode, 125, (options, r.stderr))
            self.assertIn(word, r.stderr)
        r = self.run_command(COMMAND, "record", "--live", "--ring", "5", "--", "true")
        self.assertIn("--live cannot be used", r.stderr)
        self.assertIn("Examples:", self.run_command(COMMAND, "top", "--help").stdout)

    # ---- at a terminal ----

    def test_keys_and_sizes(self):
        t = Terminal(self.environment, COMMAND, "top", "-i", "0.5", "--", TARGET, "threads", "20000")
        text = t.read_until(r"threads by: running.*\n.*\(sleeps\)")
        self.assertIn("\033[?1049h", text)
        t.press("s")
        self.assertIn("threads by: waiting", t.read_until("threads by: waiting"))
        t.press(" ")
        self.assertIn("PAUSED", t.read_until("PAUSED"))
        t.resize(8, 40)
        small = t.screens(t.read_until(r"\033\[H.*\033\[J"))[-1]
        self.assertLessEqual(len(small.split("\n")), 8)
        self.assertLessEqual(max(map(len, small.split("\n"))), 40)
        t.press(" ")
        t.press("q")
        end = t.read_until(None)
        self.assertIn("\033[?1049l", end)
        self.assertEqual(t.process.wait(), 128 + signal.SIGTERM)
        after = termios.tcgetattr(t.master)
        self.assertEqual(after[3] & termios.ICANON, t.before[3] & termios.ICANON)
        os.close(t.master)

    def test_output_of_the_program_comes_at_the_end(self):
        t = Terminal(self.environment, COMMAND, "top", "-i", "0.3", "--", "sh", "-c", "echo said early; sleep 1; exit 3")
        whole = t.read_until(None)
        self.assertEqual(t.process.wait(), 3)
        self.assertGreater(whole.index("said early"), whole.index("\033[?1049l"))
        os.close(t.master)

    def test_live_view_and_trace(self):
        path = os.path.join(self.folder.name, "trace.json")
        t = Terminal(self.environment, COMMAND, "record", "--live", "-o", path, "--", TARGET, "threads", "4000")
        shares = []
        while t.process.poll() is None and not any(abs(sum(map(float, s)) - 100) < 15 for s in shares):
            screen = "".join(t.screens(t.read_until(r"\033\[J")))
            shares += re.findall(r"\(sleeps\) +(\d+\.\d) +(\d+\.\d) +(\d+\.\d)", screen)
        self.assertIsNone(t.process.poll(), f"an interval that is whole: {shares}")
        t.press("q")  # the recording goes on
        whole = t.read_until(None)
        self.assertEqual(t.process.wait(), 0, whole)
        os.close(t.master)
        self.assertIn("sound", self.run_command(COMMAND, "verify", path).stdout)
        with open(path) as f:
            events = json.load(f)["traceEvents"]
        states = [e for e in events if e.get("cat") == "thread_state"]
        sleeps = {(e["pid"], e["tid"]) for e in states if e["name"] == "blocked" and e["dur"] > 2e6}
        self.assertEqual(len(sleeps), 3)  # one activity each, although it was looked at in between


if __name__ == "__main__":
    unittest.main()
