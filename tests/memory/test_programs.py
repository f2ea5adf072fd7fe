"""Programs of others, watched: status and output are as without."""

import os
import shutil
import sys

from memory_test import MemoryTest, main


class Programs(MemoryTest):
    def both_rates(self, *command, least=1):
        if not shutil.which(command[0]):
            self.skipTest(f"no {command[0]} here")
        for rate in ("1", "512K"):
            with self.subTest(rate):
                self.watch_same(*command, rate=rate)
                if rate == "1":
                    self.assertGreaterEqual(len(self.events()), least)
                self.assert_nothing_inside()

    def words(self):
        path = self.path("words")
        with open(path, "w") as f:
            for i in range(50000):
                f.write(f"{i * 7919 % 50021} line\n")
        return path

    def test_python(self):
        self.both_rates(sys.executable, "-c",
                        "import threading, json, sys\n"
                        "def f(): json.loads(json.dumps({str(i): [i] * 50 for i in range(2000)}))\n"
                        "t = [threading.Thread(target=f) for _ in range(4)]\n"
                        "[x.start() for x in t]; [x.join() for x in t]\n"
                        "print(sum(len(str(i)) for i in range(10000))); sys.exit(3)", least=1000)

    def test_python_forks(self):
        self.both_rates(sys.executable, "-c",
                        "import os\n"
                        "for i in range(5):\n"
                        "    pid = os.fork()\n"
                        "    if not pid:\n"
                        "        x = [bytearray(5000) for _ in range(300)]; os._exit(i)\n"
                        "    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))", least=1000)

    def test_sort_with_threads(self):
        self.both_rates("sort", "--parallel=4", "-n", self.words(), least=10)

    def test_gzip(self):
        self.both_rates("gzip", "-c", "-n", self.words(), least=0)  # it needs none

    def test_sqlite(self):
        self.both_rates("sqlite3", ":memory:",
                        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
                        "SELECT count(*), sum(i % 97), group_concat(DISTINCT i % 7) FROM n", least=100)

    def test_perl(self):
        self.both_rates("perl", "-e", "my %h = map { $_ => 'x' x $_ } 1 .. 3000; print join ',', sort keys %h;",
                        least=3000)

    def test_shell_with_children(self):
        self.both_rates("sh", "-c", "ls / | sort | head -3; echo $(seq 1 2000 | wc -l); exit 4", least=10)

    def test_what_libc_allocates_is_seen(self):
        """strdup, getline, fopen and the like call malloc by its name."""
        self.both_rates(sys.executable, "-c", "import ctypes; c = ctypes.CDLL(None); c.strdup.restype = ctypes.c_void_p\n"
                        "c.free.argtypes = [ctypes.c_void_p]; c.free(c.strdup(b'x' * 54321))")
        # the last one was sampled; once more with all
        self.watch_same(sys.executable, "-c", "import ctypes; c = ctypes.CDLL(None); c.strdup.restype = ctypes.c_void_p\n"
                        "c.free.argtypes = [ctypes.c_void_p]; c.free(c.strdup(b'x' * 54321))")
        sizes = [e["args"]["Bytes"] for e in self.events()]
        self.assertTrue([s for s in sizes if 54322 <= s <= 54400])

    def test_a_program_that_is_killed(self):
        done = self.watch("sh", "-c", "kill -9 $$")
        self.assertEqual((done.returncode, done.plain.returncode), (137, -9))
        self.assertGreater(len(self.events()), 0)


if __name__ == "__main__":
    main()
