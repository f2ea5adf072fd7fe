"""ckineto trigger on one host: by control sockets, by daemons, and as the daemon itself, towards processes
that behave as upstream's do, and towards ours.

With CKINETO_SLOW=1 also with upstream's times, and abstract sockets."""

import concurrent.futures
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import dynolog

COMMAND = os.environ.get("CKINETO", "")
TARGET = os.environ.get("CKINETO_TARGET", "")
RECORDED = os.environ.get("CKINETO_RECORDED", "")
SLOW = os.environ.get("CKINETO_SLOW", "") == "1"
HERE = os.path.dirname(os.path.abspath(__file__))

if not (COMMAND and TARGET):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

HANGS_S = 60  # only against hanging: a machine may be slow
FAST = {"interval": 0.1, "slack": 0.1, "warmup": 0.1}


class Dynologd:
    """Dynolog's daemon as far as it matters here: both ends, one datagram at a time, and no list."""

    def __init__(self, directory):
        self.fabric = dynolog.Endpoint(directory, "dynolog")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.processes = {}  # (job, set of pids): [leaf, text that waits]
        self.over = False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while not self.over:
            ready, _, _ = select.select([self.fabric.socket, self.listener], [], [], 0.02)
            if self.fabric.socket in ready:
                self.datagram()
            if self.listener in ready:
                connection, _ = self.listener.accept()
                with connection:
                    self.request(connection)

    def datagram(self):
        data, sender = self.fabric.receive()
        wants, count, job = struct.unpack_from("=iiq", data, 40)
        pids = struct.unpack_from(f"={count}i", data, 56)
        process = self.processes.setdefault((job, frozenset(pids)), [pids[0], None])
        text = ""
        if wants & 2 and process[1] is not None:
            text, process[1] = process[1], None
        try:
            self.fabric.answer(dynolog.message(text.encode()), sender)
        except OSError:
            pass  # it has ended

    def request(self, connection):
        size = struct.unpack("=i", connection.recv(4, socket.MSG_WAITALL))[0]
        call = json.loads(connection.recv(size, socket.MSG_WAITALL))
        if call.get("fn") == "setKinetOnDemandRequest":
            data = json.dumps(self.trigger(call)).encode()
            connection.sendall(struct.pack("=i", len(data)))
            connection.sendall(data)

    def trigger(self, call):
        wanted, matched, triggered, busy = set(call["pids"]), [], [], 0
        for (job, pids), process in self.processes.items():
            if job != call.get("job_id", 0) or not (wanted <= {0} or wanted & pids):
                continue
            matched.append(process[0])
            if 0 <= call.get("process_limit", 1000) <= len(triggered):
                continue
            if process[1] is not None:
                busy += 1
                continue
            process[1] = f"\n    {call['config']}\n    REQUEST_TRACE_ID=1\n"
            triggered.append(process[0])
        return {"activityProfilersBusy": busy, "activityProfilersTriggered": triggered,
                "eventProfilersBusy": 0, "eventProfilersTriggered": [], "processesMatched": matched}

    def knows(self, pid):
        return any(process[0] == pid for process in self.processes.values())

    def close(self):
        self.over = True
        self.thread.join()
        self.fabric.close()
        self.listener.close()


class Client:
    """A process that asks, and what it has said."""

    def __init__(self, test, options=None, **environment):
        number = len(test.clients)
        self.log = test.path(f"client{number}.log")
        arguments = [sys.executable, "-BS", os.path.join(HERE, "stock_client.py"),
                     json.dumps({**FAST, **(options or {})})]
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(arguments, stdout=log, env={
                **test.environment, "KINETO_USE_DAEMON": "1", **environment})
        self.pid = self.process.pid
        test.clients.append(self)

    def said(self, key):
        with open(self.log, encoding="utf-8") as log:
            lines = [json.loads(line) for line in log if line.endswith("\n")]
        return [line for line in lines if key in line]

    def ready(self):
        assert dynolog.until(lambda: self.said("ready"))
        return self

    def config(self):
        assert dynolog.until(lambda: self.said("config"))
        return self.said("config")[0]

    def end(self):
        self.process.kill()
        self.process.wait()


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = dynolog.short_directory()
        os.mkdir(self.path("traces"))
        self.environment = {**os.environ, "KINETO_IPC_SOCKET_DIR": self.directory,
                            "XDG_RUNTIME_DIR": self.directory,
                            "KINETO_ONDEMAND_TRACE_DIR": self.path("traces"), "KINETO_LOG_LEVEL": "4"}
        for name in ("SLURM_JOB_ID", "KINETO_USE_DAEMON", "CKINETO_CONTROL", "KINETO_CONFIG"):
            self.environment.pop(name, None)
        self.clients = []
        self.targets = []

    def tearDown(self):
        for one in self.clients:
            one.end()
        for process in self.targets:
            process.terminate()  # a recorder passes it on
            process.communicate()
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def clients_ready(self, *options, **environment):
        made = [Client(self, o, **environment) for o in options]
        return [c.ready() for c in made]

    def target(self, *arguments, control="socket"):
        """One of ours."""
        process = subprocess.Popen([TARGET, "--step-ms", "2", *arguments], stdout=subprocess.PIPE, text=True,
                                   env={**self.environment, "CKINETO_CONTROL": control})
        self.targets.append(process)
        self.assertEqual(process.stdout.readline().split()[0], "ready")
        if control == "socket":
            path = self.path("ckineto", f"{process.pid}.sock")
            self.assertTrue(dynolog.until(lambda: os.path.exists(path)))
        return process

    def start(self, *arguments):
        words = [str(a) for a in arguments]
        if any(w.startswith("--wait") for w in words) and "--retry" not in words:
            words += ["--retry", "100"]  # on a busy machine a short window may be empty
        return subprocess.Popen([COMMAND, "trigger", *words], env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                cwd=self.directory)

    def end(self, process, status=0):
        out, err = process.communicate(timeout=HANGS_S)
        self.assertEqual(process.returncode, status, out + err)
        return out, err

    def trigger(self, *arguments, status=0):
        return self.end(self.start(*arguments), status)

    def load(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)


class Together(unittest.TestSuite):
    """Tests of this kind wait most of their time: a few of them at once."""

    def run(self, result, debug=False):
        tests = [t for t in self if isinstance(t, unittest.TestCase)]
        for suite in self:
            if suite not in tests:
                suite.run(result, debug)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda test: test.run(result), tests))
        return result


def main():
    loader = unittest.TestLoader()
    loader.suiteClass = Together
    unittest.main("__main__", testLoader=loader)


class CommandLine(Case):
    def mistake(self, word, *arguments):
        out, err = self.trigger(*arguments, status=2)
        self.assertEqual(out, "")
        self.assertIn(word, err)
        self.assertIn("Try 'ckineto trigger --help'", err)

    def test_mistakes_are_reported_before_any_request(self):
        self.mistake("--pid needs pids", "--pid", "12,x")
        self.mistake("one of --pid, --job and --all", "--pid", 1, "--all")
        self.mistake("--roundup need --iterations", "--pid", 1, "--roundup", 10)
        self.mistake("one of --iterations", "--pid", 1, "--iterations", 3, "--dump")
        self.mistake("--start-time is", "--pid", 1, "--start-time", "tomorrow")
        self.mistake("--set needs KEY=VALUE", "--pid", 1, "--set", "shapes")
        self.mistake("ACTIVITY_TYPES", "--pid", 1, "--kinds", "nonsense")
        self.mistake("--duration-ms", "--pid", 1, "--duration-ms", 0)
        self.mistake("--wait needs", "--pid", 1, "--wait=soon")
        self.mistake("--output", "--pid", 1, "--output", self.path("nowhere", "t.json"))
        self.mistake("--dump and --cancel reach", "--all", "--hosts", "a", "--cancel")
        self.mistake("invalid daemon address '127.0.0.1:99999'", "--all", "--host", "127.0.0.1:99999")
        self.mistake("'abc' is not the number of a Slurm job", "--slurm", "abc")

    def test_without_a_process_the_traceable_ones_are_listed(self):
        _, err = self.trigger(status=2)
        self.assertIn("no process given", err)
        one, = self.clients_ready({})
        _, err = self.trigger(status=2)
        self.assertIn(f"  {one.pid} python3: polls Dynolog's socket", err)

    def test_a_process_that_is_not_there_is_reported_at_once(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        began = time.monotonic()
        out, err = self.trigger("--pid", gone.pid, status=1)
        self.assertLess(time.monotonic() - began, 10)  # and not the 12 s in which it might ask
        self.assertEqual(out, "")
        self.assertIn(f"{gone.pid}: no such process", err)

    def test_a_process_that_cannot_ask_is_reported_at_once(self):
        other = subprocess.Popen(["sleep", "60"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        time.sleep(3.1)  # so long it might still be a shell that is about to start something else
        began = time.monotonic()
        _, err = self.trigger("--pid", other.pid, status=1)
        self.assertLess(time.monotonic() - began, 10)  # and not the 12 s in which it might ask
        self.assertIn("neither KINETO_USE_DAEMON", err)

    @unittest.skipIf(os.geteuid(), "only root can act as another user")
    def test_the_owner_of_a_process_is_reported(self):
        other = subprocess.Popen(["sleep", "60"], user=65534)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        _, err = self.trigger("--pid", other.pid, "--discover", 0, status=1)
        self.assertIn(f"{other.pid} sleep: it belongs to user ", err)

    def test_for_a_process_that_does_not_ask_the_reason_is_reported(self):
        _, err = self.trigger("--pid", os.getpid(), "--discover", 0, status=1)
        self.assertIn("neither KINETO_USE_DAEMON nor CKINETO_CONTROL", err)


class AsTheDaemon(Case):
    """No daemon is there."""

    def test_stock_processes_are_traced_with_nothing_else(self):
        launcher = Client(self, {"interval": 60})  # asks once; its socket shows that it is there
        one, two = self.clients_ready({}, {})
        launcher.ready()
        os.mkdir(self.path("results"))
        out, err = self.trigger("--pid", one.pid, two.pid, "--separately", "--warmup", 0, "-d", 20, "--wait",
                                "-o", "results/run lr=0.1#.json", "--json")
        processes = json.loads(out)["processes"]
        self.assertEqual({p["pid"] for p in processes}, {one.pid, two.pid}, err)
        for p in processes:
            self.assertEqual((p["via"], p["state"], p["error"]), ("dynolog socket", "done", ""))
            self.assertEqual(p["file"], self.path("results", f"run lr=0.1#_{p['pid']}.json"))
            self.assertEqual(p["bytes"], os.path.getsize(p["file"]))
            self.assertEqual(self.load(p["file"])["traceEvents"][0]["pid"], p["pid"])
        self.assertEqual(os.listdir(self.path("traces")), [])  # brought, not copied
        self.assertNotIn(launcher.pid, {p["pid"] for p in processes})

    def test_a_process_that_answers_with_nothing_is_asked_again(self):
        once, often, other = self.clients_ready({"empty": 1}, {"empty": 9}, {})
        out, err = self.trigger("--pid", once.pid, often.pid, other.pid, "--warmup", 0, "-d", 20, "--wait",
                                "--retry", 1, "-o", "t.json", status=1)
        self.assertEqual({line.split("\t")[0] for line in out.splitlines()},
                         {self.path(f"t_{one.pid}.json") for one in (once, other)})
        self.assertEqual({line.split("\t")[2] for line in out.splitlines()}, {"1 activity"})
        self.assertEqual(err.count("its trace has no activities"), 2, err)
        self.assertIn("trying again (1 of 1, --retry)", err)
        self.assertIn(f"ckineto trigger: {often.pid} python3: its trace '{self.path(f't_{often.pid}.json')}' "
                      "has no activities: ", err)
        self.assertEqual([len(c.said("config")) for c in (once, often, other)], [2, 2, 1])
        self.assertEqual(self.load(self.path(f"t_{once.pid}.json"))["traceEvents"][0]["name"], "work")

    def test_what_it_says_is_what_dyno_says(self):
        one, = self.clients_ready({})
        out, _ = self.trigger(one.pid, "-i", 3, "--start-iteration", 40, "--roundup", 10, "-d", 700,
                              "--warmup", 1200, "--warmup-iterations", 2, "-a", "cpu_op,kernel", "--shapes",
                              "--memory", "--stack", "--flops", "--modules", "--set", "X_Y=z", "-o",
                              self.path("traces", "t.json"))
        self.assertEqual(out, self.path("traces", f"t_{one.pid}.json\n"))
        config = one.config()["config"]
        self.assertTrue(config.pop("REQUEST_TRACE_ID").isdigit())
        self.assertTrue(config.pop("REQUEST_GROUP_TRACE_ID"))
        self.assertEqual(config, {
            "ACTIVITIES_LOG_FILE": self.path("traces", "t.json"), "PROFILE_START_ITERATION": "40",
            "PROFILE_START_ITERATION_ROUNDUP": "10", "ACTIVITIES_ITERATIONS": "3",
            "ACTIVITIES_DURATION_MSECS": "700", "ACTIVITIES_WARMUP_PERIOD_SECS": "2",
            "ACTIVITIES_WARMUP_ITERATIONS": "2", "ACTIVITY_TYPES": "cpu_op,kernel",
            "PROFILE_REPORT_INPUT_SHAPES": "true", "PROFILE_PROFILE_MEMORY": "true",
            "PROFILE_WITH_STACK": "true", "PROFILE_WITH_FLOPS": "true", "PROFILE_WITH_MODULES": "true",
            "X_Y": "z"})

    def test_several_begin_together_and_the_late_one_is_reported(self):
        one, two, late = self.clients_ready({}, {}, {"interval": 60})
        out, err = self.trigger("--all", "--warmup", 0, "--start-time", "+2.5", "-d", 10, "--wait",
                                "--discover", 0.5, "-o", self.path("traces", "t.json"), status=1)
        starts = {self.load(path)["start"] for path in (line.split("\t")[0] for line in out.splitlines())}
        self.assertEqual(len(out.splitlines()), 2)
        self.assertEqual(len(starts), 1)
        self.assertIn(f"{late.pid} python3: it did not poll", err)
        self.assertEqual(one.config()["config"]["PROFILE_START_TIME"],
                         two.config()["config"]["PROFILE_START_TIME"])

    def test_a_start_that_is_too_near_is_not_handed_over(self):
        one, = self.clients_ready({})
        _, err = self.trigger("--pid", one.pid, "--start-time", "+1", "--wait", status=1)
        self.assertIn("missed the start", err)
        self.assertEqual(one.said("config"), [])

    def test_jobs_launchers_and_limits(self):
        other, = self.clients_ready({}, SLURM_JOB_ID="7")
        mine = [Client(self, {}, SLURM_JOB_ID="8") for _ in range(2)]
        for c in mine:
            c.ready()
        out, _ = self.trigger("--job", 8, "-o", "/dev/../" + self.path("traces", "t.json"))
        self.assertEqual({line.rpartition("_")[2] for line in out.split()}, {f"{c.pid}.json" for c in mine})
        self.assertEqual(other.said("config"), [])
        out, err = self.trigger("--pid", os.getpid(), "--limit", 1, "-o", self.path("traces", "u.json"))
        self.assertEqual(len(out.split()), 1)
        self.assertIn("more than 1 processes match", err)

    def test_what_stock_processes_cannot_read_is_not_sent(self):
        one, = self.clients_ready({})
        _, err = self.trigger("--pid", one.pid, "-o", self.path("traces", "lr=1.json"), status=1)
        self.assertIn("'=' or '#'", err)
        _, err = self.trigger("--pid", one.pid, "-o", self.path("t.json"), status=1)
        self.assertIn("it writes traces only below", err)
        self.assertEqual(one.said("config"), [])

    def test_the_directory_of_a_process_may_be_a_link(self):
        os.symlink(self.path("traces"), self.path("link"))
        one, = self.clients_ready({}, KINETO_ONDEMAND_TRACE_DIR=self.path("link") + "/")
        for number, name in enumerate(("link", "traces")):
            out, _ = self.trigger("--pid", one.pid, "--warmup", 0, "-d", 5, "-o", self.path(name, "t.json"))
            self.assertEqual(out, self.path("link", f"t_{one.pid}.json\n"))
            self.assertTrue(dynolog.until(lambda n=number: len(one.said("written")) > n))

    def test_a_directory_that_a_process_has_not_is_reported_before_it_is_asked(self):
        one, = self.clients_ready({}, KINETO_ONDEMAND_TRACE_DIR=self.path("nowhere"))
        for wait in ((), ("--wait",)):
            out, err = self.trigger("--pid", one.pid, *wait, status=1)
            self.assertEqual(out, "")
            self.assertIn(f"the directory '{self.path('nowhere')}' does not exist", err)
        self.assertEqual(one.said("config"), [])

    def test_every_failure_has_its_reason(self):
        clients = self.clients_ready({"die": True}, {"nothing": True}, {"busy": 60}, {"elsewhere": True})
        out, err = self.trigger("--pid", os.getpid(), "--separately", "--warmup", 0, "-d", 10, "--wait=2", status=1)
        for c, reason in zip(clients, ("ended before its trace", "no trace after", "was busy")):
            self.assertIn(f"ckineto trigger: {c.pid} python3: ", err)
            line, = [l for l in err.splitlines() if f": {c.pid} python3: " in l]
            self.assertIn(reason, line)
        self.assertEqual(out.split("\t")[0], self.path(f"trace_{clients[3].pid}.json"))

    def test_an_interruption_says_what_goes_on(self):
        one, = self.clients_ready({})
        process = self.start("--pid", one.pid, "-d", 60000, "--wait", "-o", self.path("traces", "t.json"))
        one.config()
        process.send_signal(signal.SIGINT)
        out, err = self.end(process, 128 + signal.SIGINT)
        self.assertEqual(out, "")
        self.assertIn("it has the request and continues; " + self.path("traces", f"t_{one.pid}.json"), err)

    def test_a_name_that_is_taken_is_reported_and_tried_again(self):
        one, = self.clients_ready({})
        with dynolog.Endpoint(self.directory, "dynolog"):
            _, err = self.trigger("--pid", one.pid, "--discover", 0.3, status=1)
            self.assertIn(f"is in use by process {os.getpid()}", err)
            process = self.start("--pid", one.pid, "-o", self.path("traces", "t.json"))
            time.sleep(0.1)
        self.end(process)


class ByADaemon(Case):
    def test_dynolog(self):
        daemon = Dynologd(self.directory)
        self.addCleanup(daemon.close)
        one, two = self.clients_ready({}, {})
        busy, = self.clients_ready({"busy": 60}, SLURM_JOB_ID="5")
        for c in (one, two, busy):
            self.assertTrue(dynolog.until(lambda c=c: daemon.knows(c.pid)))
        host = f"127.0.0.1:{daemon.port}"
        out, err = self.trigger("--host", host, "--pid", one.pid, two.pid, "--separately", "--warmup", 0, "-d", 10,
                                "--wait", "-o", self.path("t.json"))
        self.assertEqual({line.split("\t")[0] for line in out.splitlines()},
                         {self.path(f"t_{c.pid}.json") for c in (one, two)}, err)
        self.assertEqual((len(one.said("config")), len(two.said("config"))), (1, 1))
        self.trigger("--host", host, "--job", 5)
        _, err = self.trigger("--host", host, "--pid", busy.pid, status=1)
        self.assertIn("busy: it has not fetched an earlier request", err)
        _, err = self.trigger("--host", "127.0.0.1:1", "--pid", one.pid, "--discover", 0, status=1)
        self.assertIn("it was not reached", err)

    def test_a_daemon_that_was_named_and_is_not_there_is_not_awaited(self):
        one, = self.clients_ready({})
        for whom in (["--all"], ["--pid", one.pid]):
            began = time.monotonic()
            _, err = self.trigger("--host", "127.0.0.1:1", *whom, status=1)
            self.assertLess(time.monotonic() - began, 10)  # and not the 12 s in which a request might come
            self.assertIn("no daemon listens at 127.0.0.1, port 1", err)
        self.assertEqual(one.said("config"), [])

    def free_port(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            return free.getsockname()[1]

    def test_a_daemon_that_was_named_and_comes_later_is_tried_again(self):
        one, = self.clients_ready({})
        port = self.free_port()
        process = self.start("--host", f":{port}", "--all", "--separately", "--warmup", 0, "-d", 10,
                             f"--wait={HANGS_S}", "-o", self.path("t.json"))
        first = process.stderr.readline()
        self.assertIn(f"port {port}", first)
        self.assertIn(f"trying again for {HANGS_S} s", process.stderr.readline())
        self.ours(port)
        out, err = self.end(process)
        self.assertEqual(out.split("\t")[0], self.path(f"t_{one.pid}.json"), err)
        self.assertNotIn("no daemon listens", err)

    def test_without_retry_or_when_the_time_is_over_it_is_not(self):
        one, = self.clients_ready({})
        _, err = self.trigger("--host", "127.0.0.1:1", "--all", "--wait", "--retry", 0, status=1)
        self.assertNotIn("trying again", err)
        _, err = self.trigger("--host", "127.0.0.1:1", "--pid", one.pid, "--wait=0.6", status=1)
        self.assertIn("trying again", err)
        self.assertEqual(err.count("no daemon listens at"), 1, err)
        self.assertIn("it was not reached", err)

    def ours(self, port=0):
        """The port of a daemon of ours."""
        daemon = subprocess.Popen([COMMAND, "daemon", "--listen", f"127.0.0.1:{port}"], env=self.environment,
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(daemon.stdout.close)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        return daemon.stdout.readline().split(":")[-1].strip()

    def test_ours_tells_who_has_it(self):
        port = self.ours()
        clients = self.clients_ready({}, {}, SLURM_JOB_ID="3") + self.clients_ready({})
        out, err = self.trigger("--host", f":{port}", "--all", "--separately", "--warmup", 0, "-d", 10, "--wait",
                                "-o", self.path("traces", "t.json"))
        self.assertEqual({line.split("\t")[0] for line in out.splitlines()},
                         {self.path("traces", f"t_{c.pid}.json") for c in clients}, err)


    def test_children_that_are_asked_too_count_to_the_limit(self):
        port = self.ours()
        endpoint = dynolog.Endpoint(self.directory, "dynoconfigclient-family")
        self.addCleanup(endpoint.close)
        for _ in range(3):
            child = subprocess.Popen(["sleep", "60"])
            self.addCleanup(child.wait)
            self.addCleanup(child.kill)
            for pids in ([os.getpid()], [child.pid, os.getpid()]):
                endpoint.send(dynolog.ask(pids, wants=0))
                endpoint.receive()
        self.trigger("--host", f":{port}", "--all", "--limit", 1, "--separately", "-o", self.path("traces", "t.json"))
        known = dynolog.rpc(int(port), {"fn": "listProcesses"})["processes"]
        self.assertEqual((len(known), sum(p["waits"] for p in known)), (4, 1))

    def test_a_process_that_answers_with_nothing_is_asked_again_by_it(self):
        daemon = Dynologd(self.directory)
        self.addCleanup(daemon.close)
        one, = self.clients_ready({"empty": 1})
        self.assertTrue(dynolog.until(lambda: daemon.knows(one.pid)))
        out, err = self.trigger("--pid", one.pid, "--host", f"127.0.0.1:{daemon.port}", "-d", 20, "--warmup",
                                0, "--wait", "-o", "t.json")
        self.assertTrue(out.endswith("\t1 activity\n"), out + err)
        self.assertIn("trying again (1 of 100, --retry)", err)


@unittest.skipUnless(RECORDED, "run by ctest, which says where the program is")
class LinkedWithTheRecordingHalf(Case):
    """A program whose linker left libckineto out, since it calls nothing of it."""

    def check(self, arguments, **environment):
        with open(self.path("log"), "wb") as log:
            one = subprocess.Popen([RECORDED, "60000"], env={**self.environment, **environment},
                                   stdout=log, stderr=log)
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        out, err = self.trigger("--pid", one.pid, "-d", 50, "--wait", "-o", "t.json", *arguments)
        self.assertIn(self.path(f"t_{one.pid}.json"), out, err)
        self.assertTrue(any(e.get("cat") in ("user_annotation", "cpu_op")
                            for e in self.load(self.path(f"t_{one.pid}.json"))["traceEvents"]), out + err)

    def test_its_control_socket_answers(self):
        self.check([], CKINETO_CONTROL="socket")

    def test_it_asks_a_daemon(self):
        self.check(["--warmup", 0], KINETO_USE_DAEMON="1")

    def test_nothing_is_opened_where_nothing_is_asked_for(self):
        done = subprocess.run([RECORDED, "1"], env={**self.environment, "CKINETO_CONTROL": "0",
                                                     "LD_DEBUG": "files"},
                              stderr=subprocess.PIPE, check=False)
        self.assertNotIn(b"libckineto.so", done.stderr)


class BySocket(Case):
    def test_a_process_that_comes_later_is_found(self):
        process = self.start("--all", "-d", 20, f"--wait={HANGS_S}", "-o", "t.json", "--warmup", 0)
        time.sleep(0.5)
        one = self.target()
        out, err = self.end(process)
        self.assertIn(self.path(f"t_{one.pid}.json"), out, err)

    def test_a_control_socket_that_opens_late_is_waited_for(self):
        one = subprocess.Popen(["sh", "-c", 'read go; exec "$0" --step-ms 2', TARGET], stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, env={**self.environment, "CKINETO_CONTROL": "socket"})
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        time.sleep(3.2)  # it counts as young until then
        _, err = self.trigger("--pid", one.pid, "-d", 20, "--wait", "--retry", 0, "-o", "t.json", status=1)
        self.assertIn("CKINETO_CONTROL is set in its environment", err)
        process = self.start("--pid", one.pid, "-d", 20, "--wait", "-o", "t.json")
        time.sleep(1)
        one.stdin.write(b"\n")
        one.stdin.close()
        out, err = self.end(process)
        self.assertIn(self.path(f"t_{one.pid}.json"), out, err)

    def test_a_trace_of_nothing_is_a_failure(self):
        one = self.target()
        out, err = self.trigger("--pid", one.pid, "-a", "kernel", "-d", 20, "--wait", "--retry", 1, status=1)
        self.assertEqual(out, "")
        self.assertIn("trying again (1 of 1, --retry)", err)
        self.assertIn("json' has no activities: ", err)
        out, _ = self.trigger("--pid", one.pid, "-a", "kernel", "-d", 20, "--wait", "--retry", 0, "--json", status=1)
        answer = json.loads(out)["processes"][0]
        self.assertEqual((answer["state"], answer["activities"]), ("failed", 0))

    def test_ours_are_traced_at_once_and_tell_how_it_goes_on(self):
        one = self.target()
        asked_ns = time.time_ns()
        out, err = self.trigger("--pid", one.pid, "-d", 400, "--wait", "-o", self.path("lr=0.1 #1.json"))
        path = self.path(f"lr=0.1 #1_{one.pid}.json")
        self.assertEqual(out.split("\t")[0], path)
        for state in ("collect", "done"):
            self.assertIn(f"{one.pid} control_target {state}\n", err)
        first = min(e["ts"] for e in self.load(path)["traceEvents"] if e.get("ph") == "X")
        base = self.load(path).get("baseTimeNanoseconds", 0)
        self.assertLess(base + first * 1000 - asked_ns, 5e9)  # no default has 5 s of warm-up

    def test_a_program_that_has_just_been_started_is_awaited(self):
        started = subprocess.Popen([TARGET, "--seconds", "60"], stdout=subprocess.DEVNULL,
                                   env={**self.environment, "CKINETO_CONTROL": "socket"})
        self.targets.append(started)
        out, err = self.trigger("--pid", started.pid, "-d", 5, "--wait", "-o", self.path("t.json"))
        self.assertEqual(out.split("\t")[0], self.path(f"t_{started.pid}.json"), err)

    def test_without_waiting_the_end_is_not_reported(self):
        one = self.target()
        _, err = self.trigger("--pid", one.pid, "-d", 300, "-o", self.path("traces", "t.json"))
        self.assertIn(f"{one.pid} control_target has the request\n", err)
        self.assertNotIn("done", err)
        other = self.target()
        out, _ = self.trigger("--pid", other.pid, "-d", 5, "--json", "-o", self.path("traces", "t.json"))
        self.assertEqual([p["state"] for p in json.loads(out)["processes"]], ["has the request"])

    def test_several_begin_together(self):
        pids = [self.target().pid for _ in range(2)]
        out, _ = self.trigger("--all", "-d", 50, "--wait", "--json", "-o", self.path("t.json"))
        answer = json.loads(out)
        self.assertEqual({p["pid"] for p in answer["processes"]}, set(pids))
        self.assertEqual({p["via"] for p in answer["processes"]}, {"control socket"})
        self.assertGreater(answer["start_time_ns"], 0)

    @unittest.skipUnless(RECORDED, "no program to be recorded")
    def test_a_recorder_answers_for_its_programs(self):
        recorder = subprocess.Popen([COMMAND, "record", "--on-demand", "--", RECORDED, "20000"], text=True,
                                    env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.targets.append(recorder)
        self.assertEqual(recorder.stdout.readline(), "ready\n")
        with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="utf-8") as file:
            program = int(file.read().split()[0])
        out, err = self.trigger("--pid", program, "-d", 200, "--wait", "--json", "-o", self.path("t.json"))
        answer, = json.loads(out)["processes"]
        self.assertEqual((answer["pid"], answer["via"]), (recorder.pid, "control socket"), err)
        self.assertGreater(len(self.load(answer["file"])["traceEvents"]), 3)

    def test_iterations_cancel_and_refusals(self):
        one = self.target()
        out, _ = self.trigger("--pid", one.pid, "-i", 3, "--wait", "-o", self.path("t.json"))
        steps = [e for e in self.load(out.split("\t")[0])["traceEvents"]
                 if e.get("name", "").startswith("ProfilerStep#") and e.get("ph") == "X"]
        self.assertGreaterEqual(len(steps), 3)
        long = self.start("--pid", one.pid, "-d", 60000, "--wait", "-o", self.path("u.json"))
        self.assertTrue(dynolog.until(lambda: self.state(one.pid) == "collect"))
        _, err = self.trigger("--pid", one.pid, status=1)
        self.assertIn(f"{one.pid} control_target: refused: ", err)
        _, err = self.trigger("--pid", one.pid, "--dump", status=1)
        self.assertIn("ring", err)
        self.trigger("--pid", one.pid, "--cancel")
        out, _ = self.end(long)
        self.assertEqual(out.split("\t")[0], self.path(f"u_{one.pid}.json"))
        out, err = self.trigger("--pid", os.getpid(), "--cancel")  # a launcher

    def state(self, pid):
        out = subprocess.run([COMMAND, "ps", "--json", "--host", "127.0.0.1:1"], env=self.environment,
                             capture_output=True, text=True, check=False).stdout
        return {p["pid"]: p["state"] for p in json.loads(out)["processes"]}.get(pid)


@unittest.skipUnless(SLOW, "slow")
class AsUpstream(Case):
    """Five seconds between questions, five of warm-up, and ten until a daemon is found."""

    def trace_all(self):
        for name in ("KINETO_IPC_SOCKET_DIR", "KINETO_ONDEMAND_TRACE_DIR"):
            self.environment.pop(name, None)
        usual = {"interval": 5, "slack": 2, "warmup": 5}
        clients = self.clients_ready(usual, usual, usual)
        time.sleep(3)  # they wait longer and longer for a daemon
        out, err = self.trigger("--all", "--wait", "-d", 100, "-o", "t.json", "--json")
        answer = json.loads(out)
        self.assertEqual({p["file"] for p in answer["processes"]},
                         {self.path(f"t_{c.pid}.json") for c in clients}, err)
        self.assertEqual({round(self.load(p["file"])["start"] * 1e3) for p in answer["processes"]},
                         {answer["start_time_ns"] // 1000000})

    def test_in_a_network_of_its_own(self):
        if os.environ.get("CKINETO_ALONE") == "1":
            self.trace_all()
            return
        unshare = ["unshare", "--net", "true"]
        if os.geteuid() or not shutil.which("unshare") or subprocess.run(unshare, check=False).returncode:
            self.skipTest("no network of its own")
        done = subprocess.run([*unshare[:2], sys.executable, "-B", __file__, "AsUpstream"], check=False,
                              env={**os.environ, "CKINETO_ALONE": "1"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    main()
