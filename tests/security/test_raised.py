"""A program with raised privileges (set-user-ID) records nothing, whatever the environment says:
it opens no pool, writes no log, listens on no socket. The same program without them does."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = os.environ.get("CKINETO", "")
PROGRAM = os.environ.get("SECURITY_PROGRAM", "")
NOBODY = 65534
STATUS = 7  # of the program

if not (COMMAND and PROGRAM):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)


class Raised(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only the superuser can make one here")
        self.folder = tempfile.mkdtemp(prefix="ckineto-raised-", dir="/tmp")
        os.chmod(self.folder, 0o777)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def program(self, mode):
        path = self.path(f"program-{mode:o}")
        shutil.copy(PROGRAM, path)
        os.chmod(path, mode)
        return path

    def record(self, mode):
        """As user nobody; the variables that a recorder sets, and all that a user may."""
        environment = {"PATH": "/usr/bin:/bin", "CKINETO_CPU": "off", "KINETO_LOG_FILE": self.path("log"),
                       "KINETO_LOG_LEVEL": "0", "CKINETO_CONTROL": "socket,daemon",
                       "CKINETO_RING": "1", "KINETO_USE_DAEMON": "1",
                       "CKINETO_RUNTIME_DIR": self.folder, "XDG_RUNTIME_DIR": self.folder}
        try:
            done = subprocess.run(
                [COMMAND, "record", "-q", "-b", "2", "-o", self.path("t.json"), "--log",
                 self.path("recorder.log"), "--", self.program(mode), self.path(f"counts-{mode:o}"), "run",
                 "1", "400", "500"], user=NOBODY, group=NOBODY, extra_groups=[], env=environment,
                stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        except PermissionError:
            self.skipTest("another user cannot run what was built here")
        if done.returncode in (126, 127) or b"shared librar" in done.stderr:
            self.skipTest("another user cannot run what was built here")
        self.assertEqual(done.returncode, STATUS, done.stderr)
        return int(self.ask("SELECT count(*) FROM activities WHERE name LIKE 'chaos%'"))

    def ask(self, query):
        done = subprocess.run([COMMAND, "query", "--format", "csv", self.path("t.json"), query],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split("\n")[1]

    def test_a_program_with_raised_privileges_records_nothing(self):
        self.assertGreater(self.record(0o755), 0)
        before = set(os.listdir(self.folder))
        owner = os.stat("/proc/self").st_uid
        raised = self.record(0o4755)
        counts = os.stat(self.path("counts-4755"))
        if counts.st_uid != owner:
            self.skipTest("privileges cannot be raised here")
        self.assertEqual(raised, 0)
        new = set(os.listdir(self.folder)) - before
        self.assertEqual(new - {"t.json.old"}, {"program-4755", "counts-4755"}, "it made files of its own")
        reasons = self.ask("SELECT group_concat(reason) FROM ledger")
        self.assertRegex(reasons, "raised privileges|belongs to another user")


if __name__ == "__main__":
    unittest.main(verbosity=2)
