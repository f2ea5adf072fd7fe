"""`ckineto daemon` and `ckineto ps` as their users see them."""

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
import unittest

from daemon import COMMAND, Daemon, stop
from dynolog import Endpoint, frame, rpc, short_directory, until

TARGET = os.environ.get("CKINETO_TARGET", "")
TOKEN = "0123456789abcdef0123456789abcdef"


def text_of(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return ""


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.directory = short_directory()
        self.addCleanup(shutil.rmtree, self.directory, True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w") as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def run_command(self, *arguments, **environment):
        env = {k: v for k, v in os.environ.items() if k not in ("KINETO_IPC_SOCKET_DIR", "CKINETO_CONTROL")}
        env.update(XDG_RUNTIME_DIR=self.directory, **environment)
        return subprocess.run([COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=env)

    def daemon(self, *arguments):
        daemon = Daemon(*arguments)
        self.addCleanup(daemon.end)
        return daemon

    @staticmethod
    def is_locked(path):
        with open(path) as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def fails(self, words, *arguments, status=1):
        done = self.run_command("daemon", *arguments)
        self.assertEqual((done.returncode, done.stdout), (status, b""), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr.decode())
        return done.stderr.decode()


class DaemonCommand(CommandTest):
    def test_it_says_where_it_is_and_ends_by_signals(self):
        for how in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            daemon = Daemon()
            whose = "all users" if os.geteuid() == 0 else "this user"
            self.assertRegex(daemon.first_line, f"ckineto daemon: processes of {whose} at {daemon.directory}/dynolog, "
                                                r"requests at 127\.0\.0\.1:\d+\n\Z")
            mode = os.stat(os.path.join(daemon.directory, "dynolog")).st_mode
            self.assertEqual(stat.S_IMODE(mode), 0o666 if os.geteuid() == 0 else 0o600)
            self.assertEqual(daemon.end(how), (0, "", []))

    def test_what_it_is_made_to_ignore_does_not_end_it(self):
        nohup = subprocess.Popen(["sh", "-c", 'trap "" HUP INT; exec "$0" daemon --no-rpc -d "$1"', COMMAND, self.directory],
                                 stdout=subprocess.PIPE)
        self.assertIn(b"processes of", nohup.stdout.readline())
        nohup.send_signal(signal.SIGHUP)
        nohup.send_signal(signal.SIGINT)
        with Endpoint(self.directory) as e:
            self.assertEqual(e.poll([5]), b"")
            nohup.terminate()
            self.assertEqual(nohup.wait(60), 0)
        nohup.stdout.close()

    def test_a_name_that_is_taken_says_by_whom_and_what_to_do(self):
        daemon = self.daemon()
        said = self.fails([f"process {daemon.process.pid} "], "-d", daemon.directory, "--no-rpc")
        if "(ckineto)" in said:
            self.assertIn("another 'ckineto daemon'", said)
        with Endpoint(self.directory, "dynolog"):
            name = text_of("/proc/self/comm")
            with open("/proc/self/comm", "w") as f:
                f.write("dynolog")
            self.fails([f"process {os.getpid()} (dynolog)", "ckineto trigger"], "-d", self.directory, "--no-rpc")
            with open("/proc/self/comm", "w") as f:
                f.write(name)
        self.fails(["in use", "port"], "-d", self.directory, "-l", f"127.0.0.1:{daemon.port}")
        self.assertEqual(os.listdir(self.directory), [])

    def test_leftovers_of_a_killed_one_are_not_an_obstacle(self):
        pid_file = self.path("pid")
        killed = Daemon("--pid-file", pid_file)
        directory = killed.directory
        killed.process.kill()
        killed.process.wait()
        self.assertEqual(sorted(os.listdir(directory)), ["dynolog"])
        self.assertEqual(os.listdir(self.directory), ["pid"])
        done = subprocess.Popen([COMMAND, "daemon", "-d", directory, "--no-rpc", "--pid-file", pid_file],
                                stdout=subprocess.PIPE)
        self.assertIn(b"processes of", done.stdout.readline())
        self.assertEqual(text_of(pid_file), f"{done.pid}\n")
        self.fails(["still runs"], "-d", self.directory, "--no-rpc", "--pid-file", pid_file)
        done.terminate()
        self.assertEqual(done.wait(60), 0)
        done.stdout.close()
        self.assertEqual(os.listdir(directory) + os.listdir(self.directory), [])
        killed.forget()

    def test_in_the_background_it_goes_on_alone(self):
        pid_file = self.path("pid")
        os.mkdir(self.path("s"))
        done = self.run_command("daemon", "-b", "-d", self.path("s"), "-l", "127.0.0.1:0", "--pid-file", pid_file)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        port = int(done.stdout.decode().rpartition(":")[2])
        self.assertEqual(rpc(port, {"fn": "getStatus"}), {"status": 1})
        pid = int(text_of(pid_file))  # is there when the command returns
        for fd in range(3):
            self.assertEqual(os.readlink(f"/proc/{pid}/fd/{fd}"), "/dev/null")
        session = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()[3]
        self.assertEqual(int(session), pid)  # one of its own
        os.kill(pid, signal.SIGTERM)
        self.assertTrue(until(lambda: not os.path.exists(pid_file)))
        self.assertEqual(os.listdir(self.path("s")), [])

    def test_what_goes_wrong_later_is_the_commands_end(self):
        pid_file = self.write("pid", "4194303\n")

        def nothing_can_be_written():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        done = subprocess.run([COMMAND, "daemon", "-b", "-d", self.directory, "--no-rpc", "--pid-file", pid_file],
                              preexec_fn=nothing_can_be_written, restore_signals=False, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(f"cannot write '{pid_file}'", done.stderr.decode())
        self.assertEqual(os.listdir(self.directory), [])

    def test_the_pid_of_one_that_was_killed_is_gone_at_once(self):
        pid_file = self.write("pid", "4194303\n")
        for _ in range(20):
            done = self.run_command("daemon", "-b", "-d", self.directory, "--no-rpc", "--pid-file", pid_file)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = text_of(pid_file)
            self.assertTrue(until(lambda: text_of(pid_file) not in ("", "4194303\n")))
            pid = int(text_of(pid_file))
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(said, f"{pid}\n")
            self.assertTrue(until(lambda: not self.is_locked(pid_file)))
            self.write("pid", "4194303\n")

    def test_what_others_reach_needs_a_token(self):
        self.fails(["0.0.0.0", "token"], "-d", self.directory, "-l", "0.0.0.0:0", status=2)
        self.fails(["::", "token"], "-d", self.directory, "-l", "[::]:0", status=2)
        self.fails(["not a numeric address"], "-d", self.directory, "-l", "300.1.1.1:1", status=2)
        token = self.write("token", TOKEN + "\n")
        daemon = self.daemon("-l", "0.0.0.0:0", "-t", token)
        self.assertIn("with the token", daemon.first_line)
        self.assertIn("permission denied", daemon.rpc({"fn": "getStatus"})["status"])
        self.assertEqual(daemon.rpc({"fn": "getStatus", "token": TOKEN}), {"status": 1})

    def test_secrets_are_kept(self):
        self.fails(["--token-file", "cannot read the token", "Try"], "-d", self.directory, "-t", self.path("absent"), status=2)
        self.fails(["chmod 600"], "-d", self.directory, "-t", self.write("token", TOKEN, 0o644), status=2)
        self.fails(["openssl rand"], "-d", self.directory, "-t", self.write("token", "short"), status=2)
        self.fails(["not a regular file"], "-d", self.directory, "-t", "/dev/null", status=2)

    def test_mistakes_are_reported(self):
        for port in ("x", "99999", "", "-1"):
            self.fails(["--listen", "HOST:PORT", "Try"], "-l", f"127.0.0.1:{port}", status=2)
        self.fails(["is not a numeric address"], "-d", self.directory, "-l", "localhost.:0", status=2)
        self.fails(["/nowhere/at/all/dynolog"], "-d", "/nowhere/at/all")
        self.fails(["too long"], "-d", "/" + "x" * 107, status=2)
        self.fails(["unexpected operand", "Try"], "now", status=2)
        self.fails(["--log-level"], "--log-level", "6", status=2)
        os.symlink(self.path("elsewhere"), self.path("pid"))
        self.fails(["cannot write"], "-d", self.directory, "--pid-file", self.path("pid"))
        self.fails(["/dev/null"], "-d", self.directory, "--pid-file", "/dev/null", status=2)
        self.assertEqual(os.listdir(self.directory), ["pid"])

    def test_refusals_are_logged_and_fill_no_log(self):
        log = self.path("log")
        daemon = self.daemon("--log", log, "-t", self.write("token", TOKEN))
        with daemon.endpoint() as e:
            for _ in range(200):
                e.send(b"x")
                daemon.rpc({"fn": "getStatus"})
        self.assertTrue(until(lambda: text_of(log).count("\n") >= 2))
        lines = text_of(log).splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertTrue(any("message is shorter than its head" in line for line in lines))
        self.assertTrue(any("requires its token" in line for line in lines))

    def test_slow_connections_that_take_all_descriptors_block_no_other(self):
        daemon = self.daemon()
        most = daemon.descriptors() + 8
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (most, most))
        for _ in range(4):
            slow = [socket.create_connection(("127.0.0.1", daemon.port), 10) for _ in range(40)]
            for connection in slow:
                self.addCleanup(connection.close)
                connection.sendall(b"\x40")
            began = time.monotonic()
            self.assertIsNotNone(daemon.rpc({"fn": "getStatus"}))
            self.assertLess(time.monotonic() - began, 4, "an answer waits for the patience with others to end")

    def test_without_rpc_it_has_no_port(self):
        daemon = Daemon(rpc_too=False)
        self.assertNotIn("requests", daemon.first_line)
        with daemon.endpoint() as e:
            self.assertEqual(e.poll([5]), b"")
        daemon.end()


class Ps(CommandTest):
    def ps(self, daemon, *more):
        done = self.run_command("ps", "-H", f"127.0.0.1:{daemon.port}", *more)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def listed(self, daemon, *more):
        text = self.ps(daemon, "--json", *more)
        self.assertTrue(text.endswith("}\n"))
        return json.loads(text)

    def test_where_nothing_is_reachable_it_says_how_to_become_so(self):
        said = self.ps(self.daemon())
        for word in ("KINETO_USE_DAEMON=1", "ckineto daemon", "CKINETO_CONTROL=socket"):
            self.assertIn(word, said)

    def test_processes_of_the_daemon_are_shown(self):
        daemon = self.daemon()
        with daemon.endpoint() as e:
            e.poll([os.getpid(), os.getppid()], job=17)
            e.poll([2**31 - 1], job=-1)
            one, other = self.listed(daemon)["processes"]
            self.assertLess(one["daemon"].pop("seen_ms_ago"), 60000)
            name = text_of("/proc/self/comm").rstrip("\n")
            self.assertEqual(one, {
                "pid": os.getpid(), "user": os.geteuid(), "name": name, "via": "daemon", "state": "asks",
                "pids": sorted([os.getpid(), os.getppid()]), "socket": None, "daemon": {"job_id": 17, "waits": False}})
            self.assertEqual((other["pid"], other["name"], other["daemon"]["job_id"]), (2**31 - 1, "", -1))
            daemon.rpc({"fn": "setKinetOnDemandRequest", "config": "A", "pids": [], "job_id": 17})
            said = self.ps(daemon)
            self.assertRegex(said, rf"(?m)^ *{os.getpid()} .* daemon +request waits +- +17  -$")
            self.assertRegex(said, r"(?m)^2147483647 .* daemon +asks ")
            self.assertRegex(said, r"The daemon at 127\.0\.0\.1:\d+ is ckineto \d")

    def test_the_token_is_given(self):
        token = self.write("token", TOKEN)
        daemon = self.daemon("-t", token)
        with daemon.endpoint() as e:
            e.poll([5])
            self.assertEqual(self.listed(daemon, "-t", token)["processes"][0]["pid"], 5)
        done = self.run_command("ps", "-H", f"127.0.0.1:{daemon.port}")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"this daemon requires its token", done.stderr)

    def test_a_host_without_daemon_is_reported(self):
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            done = self.run_command("ps", "-H", f"127.0.0.1:{deaf.getsockname()[1]}")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"no daemon listens", done.stderr)
        self.assertEqual(self.run_command("ps", "-H", "a:b").returncode, 2)
        self.assertEqual(self.run_command("ps", "-t", "/not/there").returncode, 2)
        self.assertEqual(self.run_command("ps", "x").returncode, 2)
        self.assertEqual(self.run_command("ps").returncode, 0)

    def serve_as(self, answers):
        """A daemon that answers these functions, and closes for others."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    name = json.loads(connection.recv(65536)[4:])["fn"]
                    if name in answers:
                        connection.sendall(frame(answers[name]))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return type("Served", (), {"port": listener.getsockname()[1]})

    def test_a_daemon_that_does_not_list_is_named(self):
        said = self.ps(self.serve_as({"getVersion": {"version": "0.6.0"}}))
        self.assertRegex(said, r"The daemon at \S+ is 0\.6\.0, which does not list its processes\.")

    def test_what_daemons_say_cannot_drive_the_terminal(self):
        process = {"job_id": 1, "pid": 7, "pids": [7], "seen_ms_ago": 99999, "user": 4000000000, "waits": False}
        for answers in ({"getVersion": {"version": "\x1b[2J\u009b\x7f"}, "listProcesses": {"processes": [process]}},
                        {"getVersion": {"version": "x"}, "listProcesses": {"status": "failed \x1b[2J\u009b\x7f"}}):
            said = self.ps(self.serve_as(answers))
            self.assertIsNone(re.search("[\x00-\x09\x0b-\x1f\x7f\u0080-\u009f]", said), said)
        self.assertNotIn("silent", said)

    @unittest.skipUnless(TARGET, "run by ctest, which says where the program is")
    def test_both_ways_to_a_process_are_one_line(self):
        daemon = self.daemon()
        environment = dict(os.environ, XDG_RUNTIME_DIR=self.directory, CKINETO_CONTROL="socket",
                           KINETO_IPC_SOCKET_DIR=daemon.directory)
        environment.pop("KINETO_USE_DAEMON", None)
        alone = subprocess.Popen([TARGET, "--seconds", "60"], env=environment, stdout=subprocess.PIPE)
        environment["KINETO_USE_DAEMON"] = "1"
        both = subprocess.Popen([TARGET, "--seconds", "60"], env=environment, stdout=subprocess.PIPE)
        try:
            found = lambda: {p["pid"]: p["via"] for p in self.listed(daemon)["processes"]}
            self.assertTrue(until(lambda: found() == {alone.pid: "socket", both.pid: "both"}),
                            (found(), alone.poll(), both.poll()))
            for p in self.listed(daemon)["processes"]:
                self.assertEqual((p["state"], p["user"], p["pids"][0]), ("wait", os.geteuid(), p["pid"]))
                self.assertEqual((p["socket"]["answers"], p["socket"]["host"]), (True, "process"))
            stop(alone)
            self.assertRegex(self.ps(daemon), rf"(?m)^ *{alone.pid} .* socket +no answer ")
        finally:
            for process in (alone, both):
                process.kill()
                process.wait()
                process.stdout.close()


if __name__ == "__main__":
    unittest.main(verbosity=1)
