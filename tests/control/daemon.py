"""`ckineto daemon` as a process for tests, and what may not grow in it."""

import os
import shutil
import signal
import subprocess
import sys

from dynolog import Endpoint, rpc, short_directory, until

COMMAND = os.environ.get("CKINETO", "")
if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)


def as_from_a_terminal():
    """Shells make what they run in the background ignore this one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop(process):
    """All of its threads: signals take their time."""
    def state(task):
        with open(f"/proc/{process.pid}/task/{task}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]

    process.send_signal(signal.SIGSTOP)
    until(lambda: all(state(task) == "T" for task in os.listdir(f"/proc/{process.pid}/task")))


class Daemon:
    def __init__(self, *arguments, abstract=False, user=None, rpc_too=True):
        self.directory = None if abstract else short_directory()
        if user is not None:
            os.chmod(self.directory, 0o777)
        where = [] if abstract else ["--socket-dir", self.directory]
        requests = ["--listen", "127.0.0.1:0"] if rpc_too else ["--no-rpc"]
        environment = {k: v for k, v in os.environ.items() if k != "KINETO_IPC_SOCKET_DIR"}
        self.process = subprocess.Popen([COMMAND, "daemon", *where, *requests, *arguments], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, user=user,
                                        group=user, extra_groups=[] if user is not None else None,
                                        preexec_fn=as_from_a_terminal)
        self.first_line = self.process.stdout.readline().decode()
        if not self.first_line:
            error = self.process.stderr.read().decode()
            self.forget()
            raise RuntimeError(error)
        self.port = int(self.first_line.rpartition(":")[2]) if rpc_too else None

    def endpoint(self, name="dynoconfigclient-test"):
        return Endpoint(self.directory, name)

    @property
    def address(self):
        return os.path.join(self.directory, "dynolog") if self.directory else "\0dynolog\0"

    def rpc(self, request):
        return rpc(self.port, request)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))

    def stop(self):
        stop(self.process)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self, how=signal.SIGTERM):
        """The exit status and what it said."""
        self.process.send_signal(how)
        _, said = self.process.communicate(timeout=60)
        left = os.listdir(self.directory) if self.directory else []
        self.forget()
        return self.process.returncode, said.decode(), left

    def abandon(self):
        """After a test that failed; nothing, if it was ended."""
        if self.process.returncode is None:
            self.process.kill()
            self.forget()

    def forget(self):
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)
