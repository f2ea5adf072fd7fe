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


if __name__ == "__main__":
    support.main()
