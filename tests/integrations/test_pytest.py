"""integrations/pytest-ckineto with a real pytest: baselines, regressions, and tests that are not marked."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import pytest
except ImportError:
    print("pytest is not installed: skipped")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ["CKINETO_SOURCE"])

TESTS = '''
import time
import pytest

PAUSE = %s
calls = []

@pytest.fixture
def pause():
    return PAUSE

@pytest.mark.parametrize("case", ["a/b", "a b"])
@pytest.mark.ckineto("step>50%%", repeat=5)
def test_marked(case, pause):
    calls.append(case)
    time.sleep(pause)

def test_check(ckineto_check):
    with ckineto_check("step>50%%") as check:
        for _ in range(5):
            with check.step():
                time.sleep(PAUSE)

def test_plain():
    assert len(calls) in (2, 12)
'''


class PluginTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ckineto-pytest-"))
        self.addCleanup(shutil.rmtree, self.directory, True)

    def run_pytest(self, text, *arguments):
        (self.directory / "test_it.py").write_text(text)
        environment = dict(os.environ, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONDONTWRITEBYTECODE="1",
                           PYTHONPATH=f"{SOURCE}/integrations/pytest-ckineto:{SOURCE}/python")
        done = subprocess.run([sys.executable, "-m", "pytest", "-p", "pytest_ckineto", "-p", "no:cacheprovider",
                               *arguments], cwd=self.directory, env=environment, capture_output=True, text=True,
                              timeout=200)
        return done.returncode, done.stdout + done.stderr

    def traces(self, folder):
        return sorted((self.directory / ".ckineto" / folder).glob("*.json.gz"))

    def test_a_baseline_is_written_and_a_slower_test_fails(self):
        status, out = self.run_pytest(TESTS % 0.002)
        self.assertEqual(status, 0, out)
        self.assertIn("ckineto: 3 baseline written: there was none", out)
        self.assertEqual(len(self.traces("baseline")), 3)
        status, out = self.run_pytest(TESTS % 0.15)
        self.assertEqual(status, 1, out)
        self.assertIn("3 failed, 1 passed", out)
        self.assertRegex(out, r"ckineto: slower than the baseline: step>50%\n *Step: .* → .*, ")
        self.assertRegex(out, r"ckineto diff \S+/baseline/\S+ \S+/current/\S+")
        self.assertIn("1 of 1 gate failed", out)

    def test_an_equal_or_faster_test_passes(self):
        self.run_pytest(TESTS % 0.05)
        status, out = self.run_pytest(TESTS % 0.002)
        self.assertEqual(status, 0, out)
        self.assertIn("ckineto: 3 compared", out)

    def test_baselines_are_updated_on_request(self):
        self.run_pytest(TESTS % 0.002)
        before = [p.read_bytes() for p in self.traces("baseline")]
        status, out = self.run_pytest(TESTS % 0.002, "--ckineto=update")
        self.assertEqual(status, 0, out)
        self.assertTrue(all(a != p.read_bytes() for a, p in zip(before, self.traces("baseline"))))

    def test_off_calls_each_test_once_and_records_nothing(self):
        status, out = self.run_pytest(TESTS % 0.001, "--ckineto=off")
        self.assertEqual(status, 0, out)
        self.assertFalse((self.directory / ".ckineto").exists())

    def test_settings_are_those_of_the_ini_file(self):
        (self.directory / "pytest.ini").write_text("[pytest]\nckineto_directory = traces\nckineto_gates =\n  step>1000%\n")
        text = "import time, pytest\n@pytest.mark.ckineto\ndef test_it():\n    time.sleep(%s)\n"
        self.assertEqual(self.run_pytest(text % 0.02)[0], 0)
        status, out = self.run_pytest(text % 0.03)
        self.assertEqual(status, 0, out)
        self.assertEqual(len(list((self.directory / "traces" / "baseline").glob("*"))), 1)

    def test_failures_and_mistakes_stay_what_they_are(self):
        text = "import pytest\n@pytest.mark.ckineto(%s)\ndef test_it():\n    %s\n"
        status, out = self.run_pytest(text % ("", "assert False, 'own reason'"))
        self.assertIn("own reason", out)
        self.assertEqual(self.traces("baseline"), [])
        for arguments, word in (("unknown=1", "unknown"), ("repeat=0", "repeat")):
            status, out = self.run_pytest(text % (arguments, "pass"))
            self.assertNotEqual(status, 0)
            self.assertIn("ckineto: " + word, out)
        self.run_pytest(text % ("'nonsense'", "pass"))
        status, out = self.run_pytest(text % ("'nonsense'", "pass"))
        self.assertEqual(status, 1)
        self.assertIn("a gate is step, memory", re.sub(r"\s+", " ", out))


if __name__ == "__main__":
    print("pytest", pytest.__version__)
    unittest.main(verbosity=2)
