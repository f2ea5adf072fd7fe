"""`python -m ckineto` is the command of the same installation."""
import os
import subprocess
import sys

import support
import ckineto
from ckineto import _command


def run(*arguments, **environment):
    return subprocess.run([sys.executable, "-B", "-m", "ckineto"] + list(arguments),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **environment))


class Command(support.TestCase):
    def test_it_runs_the_bundled_command(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertIn(ckineto.__version__, done.stdout.decode())
        self.assertEqual(run("no-such-verb").returncode, 2)
        self.assertEqual(run("info", self.path("missing.json")).returncode, 2)

    def test_arguments_and_status_are_passed_on(self):
        path = self.generate(300, name="a b ü.json")
        done = run("query", "--format", "csv", path, "SELECT 'x y' AS a")
        self.assertEqual((done.returncode, done.stdout), (0, b"a\r\nx y\r\n"))

    def test_absence_is_a_clear_error(self):
        code = """
import sys
from ckineto import _command
_command._candidates = lambda: iter(["/nowhere/bin/ckineto"])
sys.exit(_command.main(["info"]))
"""
        done = subprocess.run([sys.executable, "-B", "-c", code], stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 127)
        self.assertIn(b"set CKINETO_LIBDIR", done.stderr)

    def test_the_wheel_s_tree_comes_first(self):
        first = next(iter(_command._candidates()))
        self.assertTrue(first.endswith(os.path.join("ckineto", "_native", "bin", "ckineto")))


class Outside(support.TestCase):
    """Recorders outside see the ranges of a program that knows nothing of them."""

    def test_record(self):
        program = "import ckineto\nwith ckineto.range('x', n=1): ckineto.instant('y')"
        path = self.path("t.json")
        done = run("record", "-q", "-o", path, "--", sys.executable, "-B", "-c", program)
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = ckineto.open(path)
        self.assertEqual({a.name: a.args for a in trace}, {"x": {"n": 1}, "y": {}})

    def test_requests_on_demand(self):
        program = """
import sys, time
import ckineto
ckineto.step()
print("ready", flush=True)
while not sys.stdin.readline():
    pass
while not ckineto.is_recording():
    ckineto.step()
while ckineto.is_recording():
    with ckineto.range("on demand"):
        time.sleep(0.001)
"""
        path = self.path("t.json")
        served = subprocess.Popen([sys.executable, "-B", "-c", program], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, cwd=self.folder,
                                  env=dict(os.environ, CKINETO_CONTROL="socket"))
        try:
            self.assertEqual(served.stdout.readline(), b"ready\n")
            served.stdin.write(b"go\n")
            served.stdin.flush()
            asked = run("trigger", "--pid", str(served.pid), "--duration-ms", "1000", "-o", path, "--wait")
            self.assertEqual(asked.returncode, 0, asked.stdout + asked.stderr)
            self.assertEqual(served.wait(60), 0)
        finally:
            served.kill()
            served.wait()
            served.stdin.close()
            served.stdout.close()
        found = [name for name in os.listdir(self.folder) if name.endswith(".json")]
        names = {a.name for a in ckineto.open(self.path(found[0]))}
        self.assertIn("on demand", names)


if __name__ == "__main__":
    support.main()
