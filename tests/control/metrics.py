"""`ckineto daemon --metrics`: numbers of rings for Prometheus, in a file and over HTTP."""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

COMMAND = os.environ.get("CKINETO", "")
PROGRAM = os.environ.get("CKINETO_TARGET", "")

if not (COMMAND and PROGRAM):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

HANGS_S = 60  # only against hanging: a machine may be slow
LINE = re.compile(r'(# (HELP|TYPE) \w+ .*|\w+\{pid="\d+",process="[^"]*"(,\w+="[^"]*")*\} [-+.e0-9]+)')


class Metrics(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("CKINETO_", "KINETO_")) or k == "CKINETO_CPU"}
        self.environment.update(XDG_RUNTIME_DIR=self.directory, KINETO_ONDEMAND_TRACE_DIR=self.directory)

    def start(self, *arguments, **more):
        process = subprocess.Popen(arguments, env=dict(self.environment, **more), text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(process.communicate)
        self.addCleanup(process.terminate)
        return process

    def program(self):
        process = self.start(PROGRAM, "--step-ms", "5", CKINETO_CONTROL="socket", CKINETO_RING="seconds=5,mb=4")
        process.stdout.readline()
        return process

    def daemon(self, target):
        return self.start(COMMAND, "daemon", "--no-rpc", "-d", self.directory, "--metrics", target,
                          "--metrics-seconds", "1")

    def values(self, text, process):
        for line in text.splitlines():
            self.assertTrue(LINE.fullmatch(line), line)
        found = re.findall(r'^(\w+)\{pid="%d",[^}]*\} (\S+)$' % process.pid, text, re.M)
        return {name: float(value) for name, value in found}

    def wait_for_steps(self, read, process):
        """Until a ring with steps was read."""
        end, text = time.monotonic() + HANGS_S, ""
        while time.monotonic() < end:
            text = read() or text
            if self.values(text, process).get("ckineto_steps", 0) >= 20:  # the first and the last are cut
                return self.values(text, process)
            time.sleep(0.05)
        self.fail(text)

    def check(self, values):
        self.assertEqual(values["ckineto_up"], 1)
        self.assertLess(0.005, values["ckineto_step_seconds"])
        self.assertLessEqual(values["ckineto_step_seconds"], values["ckineto_step_max_seconds"])
        self.assertLessEqual(values["ckineto_step_seconds"] * values["ckineto_steps"], values["ckineto_window_seconds"] * 1.1)
        self.assertIn("ckineto_lost_events", values)

    def test_a_file(self):
        process, path = self.program(), os.path.join(self.directory, "ckineto.prom")

        def read():
            if not os.path.exists(path):
                return ""
            with open(path, encoding="utf-8") as file:
                return file.read()
        self.daemon(path)
        self.check(self.wait_for_steps(read, process))

    def test_a_port_and_nothing_is_left_at_the_end(self):
        process, daemon = self.program(), self.daemon("0")
        url = re.search(r"http://\S+/metrics", daemon.stdout.readline())[0]

        def read():
            try:
                with urllib.request.urlopen(url, timeout=HANGS_S) as answer:
                    self.assertIn("version=0.0.4", answer.headers["Content-Type"])
                    return answer.read().decode()
            except urllib.error.HTTPError:  # nothing was collected yet
                return ""
        self.check(self.wait_for_steps(read, process))
        process.kill()
        daemon.terminate()
        self.assertEqual(daemon.wait(HANGS_S), 0)
        with self.assertRaises(OSError):
            urllib.request.urlopen(url, timeout=HANGS_S)

    def test_mistakes(self):
        for arguments in (["--metrics-seconds", "0"], ["--metrics", "1"]):
            if arguments[1] == "1" and os.geteuid() == 0:
                continue
            done = subprocess.run([COMMAND, "daemon", "--no-rpc", "-d", self.directory, *arguments], env=self.environment,
                                  capture_output=True, timeout=HANGS_S)
            self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
