"""ckineto trigger at a terminal: progress is one line that is drawn over and goes away; and a trace that is
brought to another file system is copied, whole."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
from terminal_output import open_terminal, read_terminal  # noqa: E402
from record import COMMAND, RecordTest  # noqa: E402

COLUMNS = 60


class Terminal(RecordTest):
    def trigger(self, process, out, *arguments):
        """Standard output, and what the terminal was sent."""
        master, slave = open_terminal(COLUMNS)
        asking = subprocess.Popen([COMMAND, "trigger", "--pid", str(process.pid), "-o", out, *arguments],
                                  cwd=self.here, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=slave)
        self.running.append(asking)
        shown = read_terminal(master, slave, asking)
        said = asking.communicate(timeout=60)[0]
        self.assertEqual(asking.returncode, 0, shown)
        return said.decode(), shown.decode()

    def ready(self):
        process = self.start("-p", "200", "20000")
        self.asker(process)
        return process

    def test_progress_is_one_line_that_goes_away(self):
        process = self.ready()
        said, shown = self.trigger(process, os.path.join(self.here, "t.json"), "-d", "500", "--wait=60")
        drawn = [line.removesuffix("\033[K") for line in shown.split("\r") if line.startswith("[")]
        self.assertGreater(len(drawn), 1, shown)
        for line in drawn:
            self.assertLess(len(line), COLUMNS)
            self.assertRegex(line, r"^\[=* *\] 1 \w+")
            self.assertNotIn("\n", line)
        self.assertRegex(shown, r"\r\033\[Knext: [^\r]*\r\n$", "the line of progress goes away")
        self.assertEqual(len(said.splitlines()), 1)
        self.assertTrue(os.path.exists(said.split("\t")[0]), said)
        self.interrupt(process)

    def test_json_is_not_mixed_with_it(self):
        process = self.ready()
        said, shown = self.trigger(process, os.path.join(self.here, "t.json"), "-d", "300", "--wait=60", "--json")
        self.assertEqual(json.loads(said)["processes"][0]["state"], "done")
        self.assertIn("[", shown)
        self.interrupt(process)

    def test_a_trace_is_brought_to_another_file_system(self):
        if os.stat("/dev/shm").st_dev == os.stat(self.here).st_dev:
            self.skipTest("/dev/shm is not another file system")
        with tempfile.TemporaryDirectory(prefix="ckineto-terminal-", dir="/dev/shm") as other:
            process = self.ready()
            said, _ = self.trigger(process, os.path.join(other, "t.json"), "-d", "300", "--wait=60")
            path = said.split("\t")[0]
            self.assertEqual(os.path.dirname(path), other)
            self.assertEqual(os.listdir(other), [os.path.basename(path)], "a file was left next to it")
            self.assert_no_holes(self.load(path))
            self.interrupt(process)


if __name__ == "__main__":
    unittest.main(verbosity=2)
