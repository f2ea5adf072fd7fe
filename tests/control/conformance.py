"""Both ends of Dynolog's wire before scripts that play the other one: every message, and every fault that
stops a dynologd or a stock libkineto. After each the next good message is served, soon, and nothing has
grown. How long that took is printed; it is asserted only against hanging."""

import array
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
import unittest

from daemon import Daemon
from paced import waited_s
from dynolog import Endpoint, ask, connect, context, frame, head, hear, message, rpc, short_directory, trigger, until

CLIENT = os.environ.get("CKINETO_DYNO_CLIENT", "")
SANITIZED = os.environ.get("CKINETO_SANITIZED") == "1"  # what is freed stays for a while
ABSTRACT = os.environ.get("CKINETO_TEST_ABSTRACT") == "1"
SECOND = 1.0  # an idle machine takes less than 50 ms
OTHER = 4711  # a user
good = ask([6, 5])


def with_field(at, form, value):
    data = bytearray(good)
    struct.pack_into(form, data, at, value)
    return bytes(data)


# What a daemon must not choke on, and what it may answer to it: nothing.
DATAGRAMS = {
    "nothing": b"",
    "one byte": b"x",
    "half a head": good[:20],
    "a head only": head(0),
    "a head that promises": head(24),
    "size 2^62": with_field(0, "=Q", 1 << 62),
    "size 2^64 - 1": with_field(0, "=Q", (1 << 64) - 1),
    "size below the payload": with_field(0, "=Q", 16),
    "size above the payload": with_field(0, "=Q", 28),
    "size 0 with a payload": with_field(0, "=Q", 0),
    "no pids": message(struct.pack("=iiq", 2, 0, 0)),
    "n = -1": with_field(44, "=i", -1),
    "n = 65": with_field(44, "=i", 65),
    "n = 65, all there": ask(range(1, 66)),
    "n = 1000 with two": with_field(44, "=i", 1000),
    "n = 2^31 - 1": with_field(44, "=i", 2**31 - 1),
    "n = -2^31": with_field(44, "=i", -(2**31)),
    "n below what is there": with_field(44, "=i", 1),
    "an unknown type": message(good[40:], b"kick"),
    "a type that begins as one": message(good[40:], b"request-xyz"),
    "a type without its end": message(good[40:], b"r" * 32),
    "a context that is short": message(b"\0" * 12, b"ctxt"),
    "a context that is long": message(b"\0" * 20, b"ctxt"),
    "64 KiB": good + b"\xff" * 65536,
}


class Times:
    """The longest wait for a good answer after each fault, less what either end waited for a processor."""

    def __init__(self, what, daemon):
        self.what, self.longest = what, {}
        self.ends = ("self", daemon.process.pid)

    def now(self):
        return time.monotonic() - sum(waited_s(end) for end in self.ends)

    def measure(self, name, action):
        before = self.now()
        result = action()
        took = self.now() - before
        self.longest[name] = max(took, self.longest.get(name, 0))
        return result

    def check(self, test):
        name, took = max(self.longest.items(), key=lambda i: i[1])
        print(f"{self.what}: {len(self.longest)} faults; the next good answer came within {took * 1000:.2f} ms "
              f"('{name}')", flush=True)
        test.assertLess(took, SECOND, name)


class DaemonTest(unittest.TestCase):
    options = {}

    def setUp(self):
        self.daemon = Daemon(abstract=ABSTRACT, rpc_too=not ABSTRACT, **self.options)

    def tearDown(self):
        status, said, left = self.daemon.end()
        self.assertEqual((status, left), (0, []), said)
        self.assertNotIn("runtime error", said)
        self.assertNotIn("Sanitizer", said)

    def assert_served(self):
        with self.daemon.endpoint("dynoconfigclient-good") as good_one:
            self.assertEqual(good_one.poll([4711]), b"")
        if self.daemon.port:
            self.assertEqual(self.daemon.rpc({"fn": "getStatus"}), {"status": 1})

    def repeat(self, times, rounds, play):
        """The first rounds may grow what the later ones may not."""
        for i in range(rounds):
            if i == 2:
                self.assert_served()
                before = self.daemon.descriptors(), self.daemon.memory_kib()
            play()
        self.assert_served()
        times.check(self)
        self.assertTrue(until(lambda: self.daemon.descriptors() <= before[0]), "descriptors leak")
        if not SANITIZED:
            self.assertLess(self.daemon.memory_kib() - before[1], 2048, "memory leaks")


class DaemonDatagrams(DaemonTest):
    def test_what_lies_is_ignored_and_the_next_one_served(self):
        times = Times("daemon, datagrams", self.daemon)

        def play():
            for name, data in DATAGRAMS.items():
                bad.send(data)
                times.measure(name, lambda: self.assertEqual(good_one.poll([4711]), b""))
                self.assertTrue(bad.silent(), name)

        with self.daemon.endpoint("bad") as bad, self.daemon.endpoint("good") as good_one:
            self.repeat(times, 20, play)

    def unbound(self, data):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(data, self.daemon.address)

    def bound_elsewhere(self, data):
        """By a path, where names are abstract, and the other way round."""
        directory = None if self.daemon.directory else short_directory()
        with Endpoint(directory, f"elsewhere-{os.getpid()}") as e:
            e.socket.sendto(data, self.daemon.address)
            time.sleep(0.001)
            self.assertTrue(e.silent())
        if directory:
            os.rmdir(directory)

    def without_an_end(self, data):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(f"\0no-end-{os.getpid()}")
            s.sendto(data, self.daemon.address)

    def vanished(self, data):
        self.daemon.stop()
        with self.daemon.endpoint("vanished") as e:
            e.send(data)
        self.daemon.go_on()

    def with_descriptors(self, data):
        with self.daemon.endpoint("gives") as e:
            rights = array.array("i", [0, 1, 2])
            e.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], 0, e.address("dynolog"))
            self.assertEqual(e.text(), b"")

    def test_senders_that_cannot_be_answered_block_no_other(self):
        times = Times("daemon, senders", self.daemon)
        senders = [self.unbound, self.bound_elsewhere, self.without_an_end, self.vanished, self.with_descriptors]

        def play():
            for sender in senders:
                sender(good)
                times.measure(sender.__name__, lambda: self.assertEqual(good_one.poll([4711]), b""))

        with self.daemon.endpoint("good") as good_one:
            self.repeat(times, 10, play)

    def test_queues_that_are_full_on_either_side_lose_nothing(self):
        times = Times("daemon, full queues", self.daemon)
        with self.daemon.endpoint("deaf") as deaf, self.daemon.endpoint("good") as good_one:
            deaf.socket.setblocking(False)
            for _ in range(100):  # answers that are not taken
                until(lambda: self.send_or_full(deaf, ask([7])))
            times.measure("a client that takes no answer", lambda: self.assertEqual(good_one.poll([4711]), b""))
            self.daemon.stop()
            while self.send_or_full(deaf, ask([8])):
                pass
            self.daemon.go_on()
            times.measure("a full queue of ours", lambda: self.wait_served(good_one))
        times.check(self)

    def send_or_full(self, endpoint, data):
        try:
            endpoint.send(data)
            return True
        except BlockingIOError:
            return False

    def wait_served(self, endpoint):
        self.assertTrue(until(lambda: self.send_or_full(endpoint, ask([4711]))))
        self.assertEqual(endpoint.text(), b"")

    def test_contexts_are_counted_and_types_are_heard(self):
        with self.daemon.endpoint() as e:
            for pid, count in ((111, 1), (112, 2), (112, 2)):
                e.send(context(pid))
                self.assertEqual(e.receive()[0], message(struct.pack("=i", count), b"ctxt"))
            for wants in (0, 1, 2, 3, -1):
                self.assertEqual(e.poll([9, 8], wants), b"")
            self.assertEqual(e.poll(range(1, 65)), b"")


@unittest.skipIf(ABSTRACT, "of directories")
class Deliveries(DaemonTest):
    def test_a_text_comes_once_as_dynolog_words_it(self):
        with self.daemon.endpoint() as e:
            e.poll([9, 8])
            answer = trigger(self.daemon.port, "A=1\nB=2", [8])
            self.assertEqual(answer, {"activityProfilersBusy": 0, "activityProfilersTriggered": [9],
                                      "eventProfilersBusy": 0, "eventProfilersTriggered": [], "processesMatched": [9]})
            self.assertEqual(trigger(self.daemon.port, "C", [9])["activityProfilersBusy"], 1)
            self.assertEqual([e.poll([8, 9], wants) for wants in (0, 1)], [b"", b""])
            self.assertRegex(e.poll([9, 8]), rb"\A\n    A=1\nB=2\n    REQUEST_TRACE_ID=\d+\n\Z")
            self.assertEqual(e.poll([9, 8], 3), b"")

    def test_one_that_left_before_its_answer_gets_it_when_it_comes_back(self):
        with self.daemon.endpoint() as e:
            e.poll([9])
            trigger(self.daemon.port, "A")
            self.daemon.stop()
            e.send(ask([9]))
        self.daemon.go_on()
        self.assertTrue(until(lambda: self.daemon.rpc({"fn": "listProcesses"})["processes"][0]["waits"]))
        with self.daemon.endpoint("again") as e:
            self.assertIn(b"\n    A\n", e.poll([9]))

    def test_texts_up_to_200000_bytes_are_taken(self):
        with self.daemon.endpoint() as e:
            e.poll([9])
            self.assertIn("200000", trigger(self.daemon.port, "x" * 300000)["status"])
            self.assertEqual(trigger(self.daemon.port, "x" * 200000)["activityProfilersTriggered"], [9])
            self.assertRegex(e.poll([9]), rb"\A\n    x{200000}\n    REQUEST_TRACE_ID=\d+\n\Z")


class Opened:
    """A connection that stays."""

    def __init__(self, port, data=b"", reset=False):
        self.socket = connect(port)
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if data:
            self.socket.sendall(data)

    def close(self):
        self.socket.close()


STATUS = frame({"fn": "getStatus"})
# What is left open, or closed at once; and frames that are answered by closing.
UNFINISHED = {
    "connects and sends nothing": b"",
    "two bytes of the length": STATUS[:2],
    "a length, and nothing": STATUS[:4],
    "half a request": STATUS[:12],
    "a length of 1 MiB, and one byte": struct.pack("=i", 1 << 20) + b"{",
}
CLOSED = {
    "length 0": struct.pack("=i", 0),
    "length -1": struct.pack("=i", -1) + b"{}",
    "length -2^31": struct.pack("=i", -(2**31)),
    "length 2^31 - 1": struct.pack("=i", 2**31 - 1) + b"{",
    "length 1 MiB + 1": struct.pack("=i", (1 << 20) + 1) + b"{",
    "no length": b'{"fn":"getStatus"}',
    "bad JSON": frame(b'{"fn":"getStatus"'),
    "JSON and more": frame(b'{"fn":"getStatus"} {}'),
    "a NUL after it": frame(b'{"fn":"getStatus"}\0'),
    "an array": frame([1]),
    "a string": frame("getStatus"),
    "no fn": frame({}),
    "fn is a number": frame({"fn": 1}),
    "fn is unknown": frame({"fn": "getStatu"}),
    "deep": frame(b"[" * 100000),
    "no UTF-8": frame(b'{"fn":"getStatus","x":"\xff"}'),
}
FAILED = {
    "nothing given": {},
    "no config": {"pids": []},
    "no pids": {"config": ""},
    "config is a number": {"config": 1, "pids": []},
    "config is null": {"config": None, "pids": []},
    "pids is a number": {"config": "", "pids": 1},
    "pids holds texts": {"config": "", "pids": ["1"]},
    "pids holds -1": {"config": "", "pids": [-1]},
    "a pid beyond int": {"config": "", "pids": [2**31]},
    "job_id is a text": {"config": "", "pids": [], "job_id": "1"},
    "process_limit is a list": {"config": "", "pids": [], "process_limit": []},
    "a NUL in the config": {"config": "A\0B", "pids": []},
}


@unittest.skipIf(ABSTRACT, "the RPC is the same")
class DaemonRequests(DaemonTest):
    def setUp(self):
        super().setUp()
        self.times = Times("daemon, RPC", self.daemon)

    def measure(self, name):
        self.times.measure(name, lambda: self.assertEqual(self.daemon.rpc({"fn": "getStatus"}), {"status": 1}))
        self.times.measure(name + " (a process)", lambda: self.assertEqual(self.poller.poll([4711]), b""))

    def play(self):
        port = self.daemon.port
        for name, data in UNFINISHED.items():
            opened = [Opened(port, data, reset=i == 1) for i in range(2)]
            self.measure(name)
            for o in opened:
                o.close()
        for name, data in CLOSED.items():
            with connect(port) as c:
                c.sendall(data)
                self.assertIsNone(hear(c), name)
            self.measure(name)
        for name, given in FAILED.items():
            answer = rpc(port, {"fn": "setKinetOnDemandRequest", **given})
            self.assertTrue(answer["status"].startswith("failed"), name)
        for reset in (False, True):
            for _ in range(5):  # gone before the answer
                Opened(port, STATUS, reset).close()
            self.measure("leaves before its answer")

    def test_requests_that_are_none_block_no_other(self):
        with self.daemon.endpoint("good") as self.poller:
            self.repeat(self.times, 6, self.play)

    def test_many_silent_connections_make_room(self):
        with self.daemon.endpoint("good") as self.poller:
            silent = [Opened(self.daemon.port) for _ in range(300)]
            self.measure("300 connections that are silent")
            slow = Opened(self.daemon.port)
            for byte in STATUS:
                slow.socket.sendall(bytes([byte]))
            self.assertEqual(hear(slow.socket), {"status": 1})
            for o in [slow, *silent]:
                o.close()
            self.assertTrue(until(lambda: self.daemon.descriptors() < 20))
            self.times.check(self)

    def test_numbers_beyond_int_are_no_other_numbers(self):
        """Dynolog takes 2^32 + 1 for job 1."""
        with self.daemon.endpoint() as e:
            e.poll([9], job=1)
            for job in (2**32 + 1, 2**63, -(2**63) - 1, 1e30, 0):
                self.assertEqual(trigger(self.daemon.port, "A", job=job)["processesMatched"], [], job)
            for limit in (-1, 2**40, True):
                self.assertEqual(trigger(self.daemon.port, "A", job=1.0, limit=limit)["processesMatched"], [9])

    def test_functions_of_dyno_and_ours(self):
        d = self.daemon
        self.assertRegex(d.rpc({"fn": "getVersion"})["version"], r"\Ackineto \d")
        self.assertEqual(d.rpc({"fn": "dcgmProfPause", "duration_s": 3}), {"status": False})
        self.assertEqual(d.rpc({"fn": "dcgmProfPause"}), {"status": "failed"})
        self.assertEqual(d.rpc({"fn": "dcgmProfResume"}), {"status": False})
        with d.endpoint() as e:
            e.poll([9, 8, 1], job=-3)
            only = d.rpc({"fn": "listProcesses"})["processes"][0]
            self.assertLess(only.pop("seen_ms_ago"), 60000)
            self.assertEqual(only, {"job_id": -3, "pid": 9, "pids": [1, 8, 9], "user": os.geteuid(), "waits": False})


@unittest.skipIf(ABSTRACT, "of users")
class Users(unittest.TestCase):
    """Who may trace whom. Only root can play several users."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be several users")

    def start(self, *arguments, user=None):
        try:
            daemon = Daemon(*arguments, user=user)
        except (PermissionError, RuntimeError) as problem:
            if user is None:
                raise
            self.skipTest(f"other users cannot run the command where it is: {problem}")
        os.chmod(daemon.directory, 0o777)
        self.addCleanup(daemon.end)
        return daemon

    def as_user(self, user, action):
        """Its result, from a process of that user."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
                os.write(write, json.dumps(action()).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as f:
            text = f.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else "died"

    def poll_of(self, daemon, pids):
        def poll():
            with daemon.endpoint(f"dynoconfigclient-{os.getpid()}") as e:
                e.send(ask(pids))
                try:
                    return e.text(0.3).decode()
                except TimeoutError:
                    return None
        return poll

    def test_a_daemon_of_root_keeps_users_apart(self):
        daemon = self.start()
        self.poll_of(daemon, [9])()
        self.assertEqual(self.as_user(OTHER, self.poll_of(daemon, [9])), "")
        listed = lambda: daemon.rpc({"fn": "listProcesses"})["processes"]
        self.assertEqual([p["user"] for p in listed()], [0, OTHER])
        self.assertEqual([p["user"] for p in self.as_user(OTHER, listed)], [OTHER])
        self.assertEqual(self.as_user(OTHER + 1, listed), [])
        theirs = self.as_user(OTHER, lambda: trigger(daemon.port, "theirs"))
        self.assertEqual(theirs["processesMatched"], [9])
        self.assertEqual(self.poll_of(daemon, [9])(), "")
        self.assertIn("theirs", self.as_user(OTHER, self.poll_of(daemon, [9])))
        self.assertEqual(trigger(daemon.port, "all")["processesMatched"], [9, 9])

    def test_a_daemon_of_a_user_serves_that_user(self):
        daemon = self.start(user=OTHER)
        self.assertIsNone(self.poll_of(daemon, [9])())
        os.chmod(os.path.join(daemon.directory, "dynolog"), 0o666)  # as if permissions did not help
        self.assertIsNone(self.as_user(OTHER + 1, self.poll_of(daemon, [9])))
        self.assertEqual(self.as_user(OTHER, self.poll_of(daemon, [9])), "")
        refused = self.as_user(OTHER + 1, lambda: trigger(daemon.port, "A"))
        self.assertEqual(refused, {"status": "failed: permission denied: this daemon belongs to another user"})
        self.assertEqual(trigger(daemon.port, "A")["processesMatched"], [9])

    def test_whom_a_sender_says_it_is_root_alone_may_say(self):
        daemon = self.start()
        def forge(user):
            def send():
                with daemon.endpoint(f"dynoconfigclient-{os.getpid()}") as e:
                    who = struct.pack("=iII", os.getpid(), user, user)
                    try:
                        e.socket.sendmsg([ask([9])], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, who)], 0,
                                         e.address("dynolog"))
                        return e.text() == b""
                    except PermissionError:
                        return "refused"
            return send
        self.assertEqual(self.as_user(OTHER, forge(0)), "refused")
        self.assertEqual(forge(OTHER)(), True)
        self.assertEqual([p["user"] for p in daemon.rpc({"fn": "listProcesses"})["processes"]], [OTHER])

    def test_a_token_counts_more_than_the_user(self):
        directory = short_directory()
        self.addCleanup(shutil.rmtree, directory)
        path = os.path.join(directory, "token")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write("0123456789abcdef\n")
        daemon = self.start("--token-file", path)
        self.poll_of(daemon, [9])()
        self.assertIn("requires its token", trigger(daemon.port, "A")["status"])
        given = lambda: trigger(daemon.port, "A", token="0123456789abcdef")
        self.assertEqual(self.as_user(OTHER, given)["processesMatched"], [9])


ANSWERS = {
    "nothing": b"",
    "a head only, of 4 bytes": head(4),
    "half a head": head(0)[:39],
    "size 2^62": head(1 << 62) + b"bad",
    "size below the payload": head(2) + b"bad",
    "size above the payload": head(4) + b"bad",
    "an unknown type": message(b"bad", b"kick"),
    "a type that begins as one": message(b"bad", b"reqx"),
    "an unrequested count": message(struct.pack("=i", 1), b"ctxt"),
    "more than 1 MiB": None,
}


class Client(unittest.TestCase):
    """Ours, before a daemon that follows a script."""

    def setUp(self):
        if not CLIENT:
            self.skipTest("run by ctest, which says where the client is")
        self.directory = None if ABSTRACT else short_directory()
        self.daemon = Endpoint(self.directory, "dynolog")
        self.process = None

    def tearDown(self):
        if self.process:
            self.end_client()
        self.daemon.close()
        if self.directory:
            self.assertEqual(os.listdir(self.directory), [])
            os.rmdir(self.directory)

    def start(self, *arguments):
        environment = dict(os.environ, SLURM_JOB_ID="12")
        environment.pop("KINETO_IPC_SOCKET_DIR", None)
        if self.directory:
            environment["KINETO_IPC_SOCKET_DIR"] = self.directory
        self.process = subprocess.Popen([CLIENT, "--interval-ms", "20", *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                                        bufsize=0)  # what was read ahead, `communicate` would not see
        self.lines = []

    def end_client(self):
        out, said = self.process.communicate(timeout=60)
        status, self.process = self.process.returncode, None
        lines = self.lines + out.decode().splitlines()
        self.assertEqual(status, 0, said)
        self.assertNotIn("runtime error", said.decode())
        end = lines.pop().split()
        print(f"client: its longest call took {int(end[2]) / 1000:.2f} ms, stopping {int(end[3]) / 1000:.2f} ms",
              flush=True)
        self.assertLess(max(int(end[2]), int(end[3])), 1000000)
        return [line.split(" ", 3) for line in lines], int(end[4])

    def wait_for_texts(self, count):
        """Until the client has reported N requests."""
        while sum(line.startswith("text ") for line in self.lines) < count:
            line = self.process.stdout.readline().decode()
            self.assertTrue(line, "it has ended")
            self.lines.append(line.rstrip("\n"))

    def question(self):
        """The next one, and whose."""
        data, whose = self.daemon.receive()
        self.assertEqual(data[:40], head(len(data) - 40))
        wants, count, job, *pids = struct.unpack(f"=iiq{len(data) // 4 - 14}i", data[40:])
        self.assertEqual((job, count, pids[0]), (12, len(pids), self.process.pid))
        self.assertEqual(pids[1], os.getpid())
        return wants, whose

    def test_it_asks_as_kineto_does_and_takes_a_text(self):
        self.start()
        wants, whose = self.question()
        self.assertEqual(wants, 2)
        name = whose if isinstance(whose, str) else whose.decode()
        self.assertRegex(name, r"dynoconfigclient[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\0?\Z")
        self.assertEqual(ABSTRACT, name.endswith("\0"))
        self.daemon.answer(message(b"A=1"), whose)
        for _ in range(3):
            self.daemon.answer(message(b""), self.question()[1])
        self.wait_for_texts(1)
        texts, _ = self.end_client()
        self.assertEqual([t[2:] for t in texts], [["3", "A=1"]])

    def test_one_that_is_busy_stays_known_and_asks_for_nothing(self):
        self.start("--busy")
        for _ in range(3):
            wants, whose = self.question()
            self.assertEqual(wants, 0)
            self.daemon.answer(message(b""), whose)

    def strangers(self, whose):
        """Senders that are not the daemon."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unbound:
            unbound.sendto(message(b"bad"), whose)
        with Endpoint(self.directory, "dynolog2") as other:
            other.answer(message(b"bad"), whose)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as no_end:
            no_end.bind(f"\0dynolog-{os.getpid()}" if self.directory else "\0dynolog")
            no_end.sendto(message(b"bad"), whose)

    def test_answers_that_are_none_are_dropped_and_the_next_one_taken(self):
        self.start()
        expected = []
        for _ in range(3):
            for name, data in ANSWERS.items():
                _, whose = self.question()
                if data is None:
                    try:
                        self.daemon.answer(message(b"x" * ((1 << 20) + 1)), whose)
                    except OSError:
                        pass  # sockets here do not hold so much
                else:
                    self.daemon.answer(data, whose)
                self.strangers(whose)
                self.daemon.answer(message(name.encode()), whose)
                expected.append(name)
        self.wait_for_texts(len(expected))
        texts, descriptors = self.end_client()
        self.assertEqual([t[3] for t in texts], expected)
        self.assertLess(descriptors, 12)

    def test_a_late_answer_counts_and_no_later_one_lags(self):
        self.start()
        _, whose = self.question()
        self.question()  # has asked again meanwhile
        self.daemon.answer(message(b"first"), whose)
        self.daemon.answer(message(b""), whose)
        for text in (b"", b"second", b""):
            self.daemon.answer(message(text), self.question()[1])
        self.wait_for_texts(2)
        texts, _ = self.end_client()
        self.assertEqual([t[3] for t in texts], ["first", "second"])

    def test_300_kilobytes_arrive_whole(self):
        self.start()
        _, whose = self.question()
        try:
            self.daemon.answer(message(b"x" * 300000), whose)
        except OSError:
            self.skipTest("sockets here do not hold so much")
        self.wait_for_texts(1)
        texts, _ = self.end_client()
        self.assertEqual(texts[0][2], "300000")

    def test_a_daemon_that_goes_and_comes_back_is_found(self):
        self.start()
        self.question()
        self.daemon.close()
        time.sleep(0.1)
        self.daemon = Endpoint(self.directory, "dynolog")
        _, whose = self.question()
        self.daemon.answer(message(b"again"), whose)
        self.wait_for_texts(1)
        texts, _ = self.end_client()
        self.assertEqual([t[3] for t in texts], ["again"])

    def test_a_daemon_that_takes_nothing_blocks_no_other(self):
        self.start()
        time.sleep(0.3)  # its queue is full by now
        for _ in range(40):
            if self.daemon.silent():
                break
        self.question()
        self.end_client()

    def test_without_a_daemon_it_ends_at_once(self):
        self.daemon.close()
        self.start()
        time.sleep(0.1)
        self.end_client()
        self.daemon = Endpoint(self.directory, "dynolog")


class Abstract(unittest.TestCase):
    """The same by abstract names, in a network of its own: this machine may have a daemon."""

    @unittest.skipIf(ABSTRACT, "that is this run")
    def test_abstract_names(self):
        unshare = shutil.which("unshare")
        command = [unshare or "", "--user", "--map-root-user", "--net", "--"]
        if not unshare or subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no network of one's own here")
        environment = dict(os.environ, CKINETO_TEST_ABSTRACT="1")
        some = ["DaemonDatagrams", "Client.test_it_asks_as_kineto_does_and_takes_a_text",
                "Client.test_answers_that_are_none_are_dropped_and_the_next_one_taken"]
        done = subprocess.run([*command, sys.executable, "-B", __file__, *some], env=environment, timeout=200,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print("".join(f"abstract: {line}\n" for line in done.stdout.decode().splitlines()
                      if line.startswith(("daemon", "client"))), end="")
        self.assertEqual(done.returncode, 0, done.stdout.decode())


if __name__ == "__main__":
    unittest.main(verbosity=1)
