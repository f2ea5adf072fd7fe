"""What a stranger, or a machine at its worst, does to programs that can be asked for traces: other users, full
disks, floods, signals, no descriptors, garbage in the environment, terminals of any size. The program goes on,
nothing grows, and whatever did not work is said with its place."""

import fcntl
import os
import pty
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

import dynolog

COMMAND = os.environ.get("CKINETO", "")
TARGET = os.environ.get("CKINETO_TARGET", "")
SANITIZED = os.environ.get("CKINETO_SANITIZED", "0") == "1"
NOBODY = 65534
HANGS_S = 120  # only against hanging

if not (COMMAND and TARGET):
    print("run by ctest, which says where the programs are: skipped")
    sys.exit(77)


class Strangers(unittest.TestCase):
    def setUp(self):
        self.directory = dynolog.short_directory()
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.traces = self.path("traces")
        os.mkdir(self.traces)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("CKINETO", "KINETO")) or k == "CKINETO_CPU"}
        self.environment.update(XDG_RUNTIME_DIR=self.directory, KINETO_CONFIG=self.path("none"),
                                KINETO_IPC_SOCKET_DIR=self.directory, KINETO_ONDEMAND_TRACE_DIR=self.traces)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def target(self, *arguments, **options):
        """A program that listens; what it says goes to a file."""
        log = self.path("log")
        options.setdefault("env", {**self.environment, "CKINETO_CONTROL": "socket", "KINETO_LOG_LEVEL": "2"})
        with open(log, "wb") as out:
            process = subprocess.Popen([TARGET, "--step-ms", "1", *(arguments or ["--seconds", "100"])],
                                       stdout=out, stderr=out, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.socket = self.path("ckineto", f"{process.pid}.sock")
        self.assertTrue(dynolog.until(lambda: os.path.exists(process.socket) or process.poll() is not None))
        return process

    def said(self):
        with open(self.path("log"), encoding="utf-8", errors="replace") as log:
            return log.read()

    def trigger(self, process, *arguments, **options):
        done = subprocess.run([COMMAND, "trigger", "--pid", str(process.pid), "-d", "5", "--wait", *arguments],
                              capture_output=True, text=True, timeout=HANGS_S, cwd=self.directory,
                              **{"env": self.environment, **options})
        return done.returncode, done.stdout, done.stderr

    def assert_goes_on(self, process):
        """It is there, and is traced as if nothing had been."""
        self.assertIsNone(process.poll())
        status, out, err = self.trigger(process)
        self.assertEqual(status, 0, err + self.said())
        os.unlink(out.split("\t")[0])

    # ---- other users -----------------------------------------------------------------------------------

    @unittest.skipIf(os.geteuid(), "only root can act as another user")
    def test_other_users_reach_nothing(self):
        process = self.target()
        os.chmod(self.directory, 0o755)
        ask = ("import socket, sys\n"
               "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
               "try: s.connect(sys.argv[1])\n"
               "except PermissionError: sys.exit(7)\n")
        asked = subprocess.run([sys.executable, "-S", "-c", ask, process.socket], user=NOBODY, check=False)
        self.assertEqual(asked.returncode, 7)
        os.chmod(self.path("ckineto"), 0o755)  # even if the directory were open
        os.chmod(process.socket, 0o777)
        ask += ("s.settimeout(60)\n"
                "try: s.send(b'status\\n'); sys.exit(8 if s.recv(1000) else 7)\n"
                "except (BrokenPipeError, ConnectionResetError): sys.exit(7)\n")
        asked = subprocess.run([sys.executable, "-S", "-c", ask, process.socket], user=NOBODY, check=False)
        self.assertEqual(asked.returncode, 7)
        os.chmod(self.path("ckineto"), 0o700)
        self.assert_goes_on(process)

    @unittest.skipIf(os.geteuid(), "only root can act as another user")
    def test_a_place_that_another_process_took_is_reported(self):
        os.mkdir(self.path("ckineto"))
        os.chown(self.path("ckineto"), NOBODY, NOBODY)
        process = self.target("--steps", "20")
        self.assertEqual(process.wait(HANGS_S), 0)
        self.assertIn(f"belongs to user {NOBODY}", self.said())
        self.assertIn("done 20", self.said())

    # ---- disks -----------------------------------------------------------------------------------------

    def test_a_full_disk_costs_the_trace_and_is_reported(self):
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", self.traces], check=False,
                              capture_output=True)
        if made.returncode:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.traces], check=False)
        process = self.target("--seconds", "100", "--busy", "1")
        for out in ("traces/t.json", "t.json"):
            status, _, err = self.trigger(process, "-d", "300", "-o", out)
            self.assertEqual(status, 1)
            self.assertIn("No space left", err)
            self.assertIn(self.traces, err)
        self.assertEqual(os.listdir(self.traces), [])

    def test_a_directory_that_went_away_is_reported(self):
        process = self.target()
        os.rmdir(self.traces)
        status, _, err = self.trigger(process)
        self.assertEqual(status, 1)
        self.assertIn(self.traces, err)
        os.mkdir(self.traces)
        self.assert_goes_on(process)

    # ---- too much, and too little ------------------------------------------------------------------------

    @staticmethod
    def memory_kb(process):
        with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    @staticmethod
    def descriptors(process):
        return len(os.listdir(f"/proc/{process.pid}/fd"))

    def flood(self, process, rounds):
        packets = (b"status\n", b"trace\n\nACTIVITIES_DURATION_MSECS=1\nACTIVITIES_WARMUP_PERIOD_SECS=0\n",
                   b"dump\n\n", b"cancel\n", b"x" * 1000, b"\0" * 65536)
        kept = []
        for _ in range(rounds):
            one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            one.setblocking(False)
            kept.append(one)
            try:
                one.connect(process.socket)
            except OSError:
                pass
            for each in kept[-8:]:
                for packet in packets:
                    try:
                        each.send(packet)
                    except OSError:
                        pass
            while len(kept) > 100:
                kept.pop(0).close()
        for each in kept:
            each.close()

    def test_a_flood_of_requests_grows_nothing(self):
        process = self.target(env={**self.environment, "CKINETO_CONTROL": "socket", "KINETO_LOG_LEVEL": "5"})
        self.assert_goes_on(process)
        before = self.descriptors(process)
        self.flood(process, 1000)
        self.assertTrue(dynolog.until(lambda: self.descriptors(process) <= before))
        warm_kb = self.memory_kb(process)
        self.flood(process, 3000)
        self.assertTrue(dynolog.until(lambda: self.descriptors(process) <= before))
        if not SANITIZED:
            self.assertLess(self.memory_kb(process), warm_kb + 16384)  # 3000 rounds of a leak are more
        self.assertTrue(dynolog.until(lambda: self.trigger(process)[0] == 0))

    def test_without_descriptors_the_program_runs(self):
        for limit in range(4 if not SANITIZED else 12, 16):
            def few(most=limit):
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            done = subprocess.run([TARGET, "--step-ms", "1", "--steps", "5"], capture_output=True, text=True,
                                  preexec_fn=few, timeout=HANGS_S, check=False,
                                  env={**self.environment, "CKINETO_CONTROL": "socket,daemon", "CKINETO_RING": "1"})
            self.assertEqual((limit, done.returncode), (limit, 0), done.stderr)
            self.assertIn("done 5", done.stdout)

    # ---- stopped, interrupted ------------------------------------------------------------------------------

    def test_a_client_that_is_stopped_blocks_no_other(self):
        process = self.target()
        client = subprocess.Popen([COMMAND, "trigger", "--pid", str(process.pid), "-d", "20", "--wait", "-o", "a.json"],
                                  env=self.environment, cwd=self.directory, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.assertEqual(client.stderr.readline().split()[0], str(process.pid).encode())
        client.send_signal(signal.SIGSTOP)
        self.assertTrue(dynolog.until(lambda: self.trigger(process)[0] == 0))
        client.send_signal(signal.SIGCONT)
        out, err = client.communicate(timeout=HANGS_S)
        self.assertEqual(client.returncode, 0, err)
        self.assertTrue(os.path.getsize(out.split(b"\t")[0]))

    def test_a_storm_of_signals_changes_nothing(self):
        process = self.target()
        # LeakSanitizer stops the process by signals when it ends, and gets no turn in a storm of others.
        environment = {**self.environment, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
        client = subprocess.Popen([COMMAND, "trigger", "--pid", str(process.pid), "-d", "300", "--wait"],
                                  env=environment, cwd=self.directory, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)

        def storm():
            while client.returncode is None:
                for pid in (process.pid, client.pid):
                    for number in (signal.SIGWINCH, signal.SIGCHLD, signal.SIGCONT):
                        try:
                            os.kill(pid, number)
                        except OSError:
                            return
                time.sleep(0.0002)
        thread = threading.Thread(target=storm)
        thread.start()
        out, _ = client.communicate(timeout=HANGS_S)
        thread.join()
        self.assertEqual(client.returncode, 0)
        self.assertTrue(os.path.getsize(out.split(b"\t")[0]))
        self.assert_goes_on(process)

    # ---- garbage -------------------------------------------------------------------------------------------

    SETTINGS = ("CKINETO_SESSION CKINETO_PLUGIN_DIR CKINETO_PLUGINS CKINETO_MEMORY_SAMPLING CKINETO_STACK_BY "
                "KINETO_PLUGIN_LIB_DIR_PATH KINETO_LOG_LEVEL KINETO_LOG_FILE XDG_RUNTIME_DIR TMPDIR "
                "KINETO_USE_DAEMON CKINETO_CONTROL CKINETO_RING KINETO_IPC_SOCKET_DIR SLURM_JOB_ID KINETO_CONFIG "
                "KINETO_ONDEMAND_TRACE_DIR CKINETO_EXEC_TIMEOUT").split()
    GARBAGE = (b"", b"-1", b"99999999999999999999", b"nan", b"5parsecs", b"\xff\xfe", b"x" * 5000, b"/dev/zero")

    def test_garbage_in_settings_changes_no_program(self):
        started = []
        for value in self.GARBAGE[::3] if SANITIZED else self.GARBAGE:
            env = {os.fsencode(k): os.fsencode(v) for k, v in self.environment.items()}
            env[b"CKINETO_CONTROL"] = b"socket"
            for name in self.SETTINGS:  # one at a time, and all at once
                started.append((name, value, {**env, name.encode(): value}))
            started.append(("all", value, {**env, **{name.encode(): value for name in self.SETTINGS}}))
        for name, value, env in started:
            done = subprocess.run([TARGET, "--step-ms", "0", "--steps", "3"], env=env, capture_output=True,
                                  timeout=HANGS_S, check=False, stdin=subprocess.DEVNULL)
            self.assertEqual((name, value, done.returncode), (name, value, 0), done.stderr)
            self.assertIn(b"done 3", done.stdout)

    # ---- terminals -----------------------------------------------------------------------------------------

    def on_a_terminal(self, rows, columns, closes, *words):
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.directory)
            os.execve(COMMAND, [COMMAND, *words], self.environment)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        while not closes and select.select([master], [], [], HANGS_S)[0]:
            try:
                if not os.read(master, 65536):
                    break
            except OSError:
                break
        os.close(master)
        self.assertTrue(dynolog.until(lambda: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_terminals_of_any_size_and_none(self):
        process = self.target()
        for rows, columns in ((0, 0), (1, 1), (2, 3), (65535, 65535)):
            self.assertEqual(self.on_a_terminal(rows, columns, False, "trigger", "--pid", str(process.pid), "-d",
                                                "150", "--wait"), 0)
            self.assertEqual(self.on_a_terminal(rows, columns, False, "record", "-o", "r.json", "--", "true"), 0)
        self.on_a_terminal(24, 80, True, "trigger", "--pid", str(process.pid), "-d", "150", "--wait")
        self.assertTrue(dynolog.until(lambda: self.trigger(process)[0] == 0))


if __name__ == "__main__":
    unittest.main()
