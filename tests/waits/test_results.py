"""Results, errno and output of programs are the same with and without the library."""

import sys
import tempfile

from waits_test import HOOK, TARGET, WaitsTest, main, program, run_plain


class Results(WaitsTest):
    def run_three_ways(self, *command):
        with tempfile.TemporaryDirectory() as folder:
            command = [part.replace("FOLDER", folder) for part in command]
            plain = run_plain(*command)
            loaded = run_plain(*command, LD_PRELOAD=HOOK)
            done = self.run_command("record", "-q", "-o", "t.json", "--waits=0", "--", *command)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        for other in (loaded.stdout, done.out):
            self.assertEqual(other.decode().splitlines(), plain.stdout.decode().splitlines())
        self.assertEqual((loaded.returncode, done.returncode), (0, 0), done.err)
        self.assertEqual(self.lost(), 0)
        return plain.stdout.decode()

    def test_of_every_function(self):
        shown = self.run_three_ways(program("waits_results"), "FOLDER")
        self.assertGreater(len(shown.splitlines()), 350)
        recorded = self.counts()
        for name in ("pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock", "mtx_timedlock",
                     "pthread_rwlock_wrlock", "pthread_rwlock_timedrdlock", "pthread_cond_timedwait", "sem_wait",
                     "pthread_barrier_wait", "pthread_join", "nanosleep", "sleep", "open", "openat", "close", "read",
                     "write", "pread", "pwrite", "readv", "writev", "fsync", "fdatasync", "flock", "sendfile", "send",
                     "recv", "sendto", "recvfrom", "sendmsg", "recvmsg", "connect", "accept", "accept4", "poll",
                     "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "wait", "waitpid", "wait4", "waitid"):
            self.assertIn(name, recorded)
        errors = {(e["name"], e["args"]["error"]) for e in self.calls()}
        for pair in (("pthread_mutex_lock", 35), ("pthread_mutex_timedlock", 110), ("open", 2), ("open", 14),
                     ("read", 9), ("read", 11), ("nanosleep", 4), ("connect", 2), ("poll", 14), ("wait", 10)):
            self.assertIn(pair, errors)

    def test_of_every_function_fortified(self):
        self.run_three_ways(program("waits_results_fortified"), "FOLDER")

    def test_of_cancelled_threads(self):
        self.assertEqual(self.run_three_ways(TARGET, "cancel").count("cancelled 1"), 4)

    def test_of_signal_handlers(self):
        printed = self.run_three_ways(TARGET, "signals", "50")
        self.assertIn("interrupted 50", printed)

    def test_of_python(self):
        code = ("import threading, queue, socket, subprocess\n"
                "q = queue.Queue(); t = threading.Thread(target=lambda: [q.put(i) for i in range(100)]); t.start()\n"
                "print([q.get() for _ in range(100)]); t.join(); e = threading.Event(); print(e.wait(0.01))\n"
                "a, b = socket.socketpair(); a.sendall(b'x' * 10); print(b.recv(10))\n"
                "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n")
        self.run_three_ways(sys.executable, "-c", code)
        self.assertIn("read", self.counts())

    def test_of_a_shell_and_its_tools(self):
        self.run_three_ways("sh", "-c", "for i in 1 2 3; do echo $i | sort | cat; done; sleep 0.01; wait")


if __name__ == "__main__":
    main()
