#!/usr/bin/env python3
"""Requests on demand to processes of PyTorch: over ckineto's control socket and a daemon, the ring and its
dumps, with the recorder attached and in the seat.

    test_ondemand.py [--tree build/release] [--python PYTHON]... [-k PATTERN]

Without --python: build/peers/torch-2.15.0 and torch-2.6.0, as far as they are there. Exit status: 0 passed,
1 failed, 77 no PyTorch to test with.
"""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
LOOP = os.path.join(HERE, "ondemand_loop.py")
VERSIONS = ("2.15.0", "2.6.0")
PATIENCE_S = 180  # for what happens at once on a quiet machine
OWN_MESSAGES = re.compile(r"ckineto", re.IGNORECASE)
PROCESS_MESSAGES = re.compile(r"ckineto\[\d+\]")  # by libraries in the program

settings: Dict[str, Any] = {"tree": os.path.join(SOURCE, "build", "release")}


def wait_until(what: str, check) -> Any:
    """What `check` returns once it is true."""
    end = time.time() + PATIENCE_S
    while time.time() < end:
        found = check()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("%s did not happen within %d s" % (what, PATIENCE_S))


class Trace:
    """What the tests ask a trace for."""

    def __init__(self, path: str):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.data = json.load(file)
        self.events = self.data["traceEvents"]

    def operators(self) -> collections.Counter:
        return collections.Counter(e["name"] for e in self.events if e.get("cat") == "cpu_op")

    def steps(self) -> List[str]:
        return [e["name"] for e in self.events if e.get("name", "").startswith("ProfilerStep#") and e.get("ph") == "X"]

    def ledger(self) -> str:
        return json.dumps(self.data.get("ckineto", {}).get("ledger", []))


class Program:
    """A training loop under test, and what it wrote."""

    def __init__(self, case: "OnDemand", words: List[str], variables: Dict[str, str], prefix: List[str]):
        self.case = case
        self.folder = case.folder
        self.is_recorded = "record" in prefix
        self.output = os.path.join(self.folder, "output")
        command = prefix + ([] if "-m" in prefix else [case.python]) + [LOOP, self.folder] + words
        with open(self.output, "wb") as file:
            self.process = subprocess.Popen(command, env=case.environment(variables), stdout=file,
                                            stderr=subprocess.STDOUT, cwd=self.folder)
        case.addCleanup(self.kill)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        elif self.process.returncode:
            print("the program ended with status %d: %s" % (self.process.returncode, self.text()), file=sys.stderr)

    def _look_for_ready(self, count: int) -> List[int]:
        if self.process.poll() is not None:
            raise AssertionError("the program ended: " + self.text())
        found = glob.glob(os.path.join(self.folder, "ready-*"))
        return [int(f.rsplit("-", 1)[1]) for f in found] if len(found) >= count else []

    def wait_ready(self, count: int = 1) -> List[int]:
        """pids of the processes that iterate."""
        return wait_until("the training loop", lambda: self._look_for_ready(count))

    def text(self) -> str:
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def end(self) -> None:
        """It ends by itself, with success and none of our messages in its output but those that
        `ckineto record` itself writes."""
        open(os.path.join(self.folder, "stop"), "w").close()
        self.case.assertEqual(self.process.wait(PATIENCE_S), 0, self.text())
        self.case.assertIn("done after iteration", self.text())
        own = PROCESS_MESSAGES if self.is_recorded else OWN_MESSAGES
        self.case.assertFalse(own.search(self.text()), self.text())


class Daemon:
    """`ckineto daemon` on a socket and a port of its own."""

    def __init__(self, case: "OnDemand"):
        self.sockets = os.path.join(case.folder, "sockets")
        os.mkdir(self.sockets)
        self.process = subprocess.Popen([case.ckineto, "daemon", "--listen", "127.0.0.1:0", "--socket-dir", self.sockets],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        case.addCleanup(self.stop)
        self.host = re.search(r"127\.0\.0\.1:\d+", self.process.stdout.readline()).group(0)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class OnDemand(unittest.TestCase):
    python = ""

    def setUp(self) -> None:
        self.ckineto = os.path.join(settings["tree"], "bin", "ckineto")
        self.folder = tempfile.mkdtemp(prefix="ckineto-ondemand-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    # ---- what is started -------------------------------------------------------------------------

    def environment(self, variables: Dict[str, str]) -> Dict[str, str]:
        """That of the caller without what it set for ckineto; ckineto_attach of the tree on the path."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("CKINETO_", "KINETO_", "LD_PRELOAD"))}
        bridges = os.environ.get("CKINETO_BRIDGE_DIR") or os.path.join(SOURCE, "build", "bridges")
        clean.update(CUDA_VISIBLE_DEVICES="", PYTHONFAULTHANDLER="1", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1",
                     KINETO_ONDEMAND_TRACE_DIR=self.folder, XDG_RUNTIME_DIR=self.folder,
                     CKINETO_BRIDGE_DIR=bridges,
                     PYTHONPATH=os.path.join(settings["tree"], "lib", "ckineto", "python"))
        clean.update(variables)
        return clean

    def start(self, words: Optional[List[str]] = None, prefix: Optional[List[str]] = None, **variables: str) -> Program:
        return Program(self, words or [], variables, prefix or [])

    def record(self, *options: str) -> List[str]:
        return [self.ckineto, "record", *options, "--"]

    def run_command(self, *arguments: str, status: int = 0) -> subprocess.CompletedProcess:
        done = subprocess.run([self.ckineto, *arguments], env=self.environment({}), capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def trigger(self, *arguments: str) -> Trace:
        """The one trace that a request gave."""
        done = self.run_command("trigger", "--json", "--wait", *arguments)
        processes = json.loads(done.stdout)["processes"]
        self.assertEqual(len(processes), 1, done.stdout)
        self.assertTrue(processes[0]["file"], done.stdout + done.stderr)
        return Trace(processes[0]["file"])

    def out(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def dumps(self) -> List[str]:
        """Dumps that are complete: they get their names when they are."""
        return sorted(glob.glob(self.out("ckineto_ring_*.json")))

    # ---- what is checked -------------------------------------------------------------------------

    def assert_training(self, trace: Trace) -> None:
        names = trace.operators()
        self.assertTrue(any("addmm" in n or "linear" in n for n in names), names)

    def assert_whole_steps(self, trace: Trace, count: int) -> None:
        self.assertEqual(len(trace.steps()), count, trace.steps())
        self.assertEqual(len(set(trace.steps())), count, trace.steps())

    def check_both_requests(self, pid: int, *more: str) -> Trace:
        by_time = self.trigger("--pid", str(pid), "-d", "300", "--warmup", "0", "-o", self.out("time.json"), *more)
        self.assert_training(by_time)
        self.assertGreater(len(by_time.steps()), 2)
        by_step = self.trigger("--pid", str(pid), "-i", "3", "-o", self.out("steps.json"), *more)
        self.assert_training(by_step)
        self.assert_whole_steps(by_step, 3)
        return by_time

    def check_daemon(self, owner: str, **variables: str) -> None:
        """One file for a request, and the client that answered it."""
        daemon = Daemon(self)
        program = self.start(KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=daemon.sockets, **variables)
        pid = program.wait_ready()[0]
        found = lambda: '"pid":%d' % pid in self.run_command("ps", "--json", "--host", daemon.host).stdout  # noqa: E731
        wait_until("a question to the daemon", found)
        config = "PROFILE_START_TIME=0\nACTIVITIES_LOG_FILE=%s\nACTIVITIES_DURATION_MSECS=300\n" % self.out("d.json")
        self.request_by_daemon(daemon, pid, config)
        path = wait_until("a trace", lambda: glob.glob(self.out("d_*.json")))[0]
        wait_until("a complete trace", lambda: self.is_complete(path))
        # libkineto asks every 5 s, warms up for 5 s and begins 2 s later: a second answer would be there.
        time.sleep(13 if owner == "ckineto" else 2)
        self.assertEqual(glob.glob(self.out("d_*.json")), [path])
        trace = Trace(path)
        self.assert_training(trace)
        self.assertEqual("ckineto" in trace.data, owner == "ckineto", list(trace.data))
        if owner == "ckineto":
            self.assertIn("answered by ckineto", trace.ledger())
        program.end()

    def request_by_daemon(self, daemon: Daemon, pid: int, config: str) -> None:
        """As Dynolog's command does: past the process' control socket."""
        import socket
        import struct

        host, port = daemon.host.split(":")
        text = json.dumps({"fn": "setKinetOnDemandRequest", "config": config, "job_id": 0, "pids": [pid],
                           "process_limit": 3}).encode()
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(struct.pack("=i", len(text)) + text)
            size = struct.unpack("=i", connection.recv(4, socket.MSG_WAITALL))[0]
            answer = json.loads(connection.recv(size, socket.MSG_WAITALL))
        self.assertEqual(answer["processesMatched"], [pid], answer)

    @staticmethod
    def is_complete(path: str) -> bool:
        try:
            Trace(path)
            return True
        except ValueError:
            return False

    # ---- the control socket ----------------------------------------------------------------------

    def test_socket_recorder(self) -> None:
        program = self.start(CKINETO_CONTROL="socket")
        self.check_both_requests(program.wait_ready()[0])
        program.end()

    def test_socket_seat(self) -> None:
        program = self.start(CKINETO_CONTROL="socket", CKINETO_TORCH="1")
        self.check_both_requests(program.wait_ready()[0])
        program.end()

    def test_socket_of_record(self) -> None:
        program = self.start(prefix=self.record("--on-demand"))
        self.check_both_requests(program.wait_ready()[0])
        program.end()

    # ---- a daemon --------------------------------------------------------------------------------

    def test_daemon_recorder(self) -> None:
        self.check_daemon("ckineto", CKINETO_CONTROL="socket")

    def test_daemon_seat(self) -> None:
        self.check_daemon("ckineto", CKINETO_TORCH="1")

    def test_daemon_left_to_libkineto(self) -> None:
        """Under plain `ckineto record` nothing changes, and the recording names the client that answers."""
        daemon = Daemon(self)
        recording = self.out("recording.json")
        program = self.start(prefix=self.record("-o", recording), KINETO_USE_DAEMON="1",
                             KINETO_IPC_SOCKET_DIR=daemon.sockets)
        pid = program.wait_ready()[0]
        found = lambda: '"pid":%d' % pid in self.run_command("ps", "--json", "--host", daemon.host).stdout  # noqa: E731
        wait_until("a question to the daemon", found)
        self.request_by_daemon(daemon, pid, "ACTIVITIES_LOG_FILE=%s\nACTIVITIES_DURATION_MSECS=300\n"
                               % self.out("d.json"))
        path = wait_until("a trace", lambda: glob.glob(self.out("d_*.json")))[0]
        wait_until("a complete trace", lambda: self.is_complete(path))
        program.end()
        self.assertNotIn("ckineto", Trace(path).data)
        self.assertIn("answered by PyTorch's libkineto", Trace(recording).ledger())

    # ---- the ring --------------------------------------------------------------------------------

    def check_dump(self, program: Program) -> None:
        pid = program.wait_ready()[0]
        trace = self.trigger("--pid", str(pid), "--dump", "-o", self.out("dump.json"))
        self.assert_training(trace)
        self.assertGreaterEqual(len(trace.steps()), 5)
        self.assertEqual(len(set(trace.steps())), len(trace.steps()))

    def test_ring_in_process(self) -> None:
        program = self.start(CKINETO_RING="seconds=10", CKINETO_CONTROL="socket")
        self.check_dump(program)
        program.end()

    def test_ring_in_seat(self) -> None:
        program = self.start(CKINETO_RING="seconds=10", CKINETO_CONTROL="socket", CKINETO_TORCH="1")
        self.check_dump(program)
        program.end()

    def test_ring_of_record(self) -> None:
        program = self.start(prefix=self.record("--ring", "10"))
        self.check_dump(program)
        program.end()

    def check_reason(self, reason: str, program: Program) -> None:
        program.wait_ready()
        wait_until("a dump", self.dumps)
        program.end()
        traces = [Trace(p) for p in self.dumps()]
        self.assertTrue(any(reason in str(t.data.get("ckineto_dump_reason", "")) for t in traces),
                        [t.data.get("ckineto_dump_reason") for t in traces])
        self.assert_training(traces[-1])

    def test_slow_step(self) -> None:
        self.check_reason("step", self.start(["slow"], self.record("--ring", "10", "--on-slow-step", "2x")))

    def test_hang(self) -> None:
        self.check_reason("step", self.start(["hang"], self.record("--ring", "10", "--on-hang", "2")))

    # ---- torch.profiler at the same time ------------------------------------------------------------

    def check_next_to_profiler(self, **variables: str) -> None:
        program = self.start(["profile"], CKINETO_CONTROL="socket", **variables)
        pid = program.wait_ready()[0]
        wait_until("a profile", lambda: glob.glob(self.out("profile.json")))
        trace = self.trigger("--pid", str(pid), "-i", "3", "-o", self.out("steps.json"))
        self.assert_training(trace)
        self.assert_whole_steps(trace, 3)
        program.end()
        self.assert_training(Trace(self.out("profile.json")))
        self.assert_whole_steps(Trace(self.out("profile.json")), 2)

    def test_next_to_profiler(self) -> None:
        self.check_next_to_profiler()

    def test_next_to_profiler_in_seat(self) -> None:
        self.check_next_to_profiler(CKINETO_TORCH="1")

    # ---- several processes --------------------------------------------------------------------------

    def test_ranks(self) -> None:
        launcher = [self.python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        program = self.start(["ranks"], self.record("--on-demand") + launcher)
        pids = program.wait_ready(2)
        trace = self.trigger("--pid", str(pids[0]), "-d", "500", "--warmup", "0", "-o", self.out("ranks.json"))
        self.assert_training(trace)
        self.assertEqual({e["pid"] for e in trace.events if e.get("cat") == "cpu_op"}, set(pids))
        program.end()


def can_import_torch(python: str) -> bool:
    return os.path.exists(python) and subprocess.run(
        [python, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
        env=dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD="0")).returncode == 0


def make_suite(pythons: List[str], pattern: str) -> unittest.TestSuite:
    suite = unittest.TestSuite()
    for number, python in enumerate(pythons):
        name = re.sub(r"\W+", "_", os.path.basename(os.path.dirname(os.path.dirname(python)))) or str(number)
        made = type("OnDemand_" + name, (OnDemand,), {"python": python})
        for test in unittest.defaultTestLoader.getTestCaseNames(made):
            if pattern in test:
                suite.addTest(made(test))
    return suite


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tree", default=settings["tree"], help="build tree or installation prefix of ckineto")
    parser.add_argument("--python", action="append", help="interpreter with PyTorch")
    parser.add_argument("-k", dest="pattern", default="", help="only tests whose name contains it")
    options = parser.parse_args()
    settings["tree"] = os.path.abspath(options.tree)
    pythons = options.python or [os.path.join(SOURCE, "build", "peers", "torch-" + v, "bin", "python") for v in VERSIONS]
    pythons = [p for p in map(os.path.abspath, pythons) if can_import_torch(p)]
    if not pythons or not os.path.exists(os.path.join(settings["tree"], "bin", "ckineto")):
        print("skipped: no interpreter with PyTorch, or ckineto is not built")
        return 77
    result = unittest.TextTestRunner(verbosity=2).run(make_suite(pythons, options.pattern))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
