"""ckineto trigger towards many hosts, all of them this one: each daemon has sockets, and processes, of its own.

With CKINETO_SLOW=1 also a job of a real Slurm with one node, where its daemons are installed."""

import json
import os
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
from trigger import COMMAND, Case, Client, main

SLOW = os.environ.get("CKINETO_SLOW", "") == "1"
HANGS_S = 60


def process(pid, *ancestors, job=0, user=0, waits=True):
    return {"pid": pid, "user": user, "job_id": job, "pids": [pid, *ancestors], "seen_ms_ago": 5, "waits": waits}


class FakeHost:
    """A daemon as it is scripted: it knows these processes, one of which never asks if nothing else is said; its
    clock is wrong by so much, or tells just that. The late ones come when it has been asked who is there. For
    some jobs it has only a refusal, or no answer if that is None."""

    def __init__(self, ahead_s=0, silent=False, processes=None, late=(), time_ns=None, refusals=None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.name = f"127.0.0.1:{self.port}"
        self.ahead_s = ahead_s
        self.time_ns = time_ns
        self.processes = processes or [process(42)]
        self.late = late
        self.refusals = refusals or {}
        self.calls = []
        if not silent:
            threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                size = struct.unpack("=i", connection.recv(4, socket.MSG_WAITALL))[0]
                call = json.loads(connection.recv(size, socket.MSG_WAITALL))
                self.calls.append(call)
                answer = self.answer(call)
                if answer is not None:
                    connection.sendall(dynolog.frame(answer))

    def answer(self, call):
        if call["fn"] == "getTime":
            ahead_ns = int(self.ahead_s * 1e9)
            return {"time_ns": time.time_ns() + ahead_ns if self.time_ns is None else self.time_ns}
        if call["fn"] == "listProcesses":
            known, self.processes, self.late = self.processes, [*self.processes, *self.late], ()
            return {"processes": known}
        return self.trigger(call)

    def trigger(self, call):
        """As our daemon does it, without busy processes."""
        if call["job_id"] in self.refusals:
            return self.refusals[call["job_id"]]
        matched = [p["pid"] for p in self.processes
                   if p["job_id"] == call["job_id"] and (not call["pids"] or set(p["pids"]) & set(call["pids"]))]
        limit = call["process_limit"]
        return {"activityProfilersBusy": 0, "activityProfilersTriggered": matched[:None if limit < 0 else limit],
                "eventProfilersBusy": 0, "eventProfilersTriggered": [], "processesMatched": matched}

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Fleet(Case):
    def setUp(self):
        super().setUp()
        self.daemons = []

    def tearDown(self):
        for process in self.daemons:
            process.kill()
            process.communicate()
        super().tearDown()

    def host(self, *arguments, listen="127.0.0.1:0"):
        """(HOST:PORT, directory of sockets) of a daemon of ours."""
        directory = self.path(f"h{len(self.daemons)}")
        os.mkdir(directory)
        process = subprocess.Popen([COMMAND, "daemon", "--listen", listen, "--socket-dir", directory, *arguments],
                                   env=self.environment, stdout=subprocess.PIPE, text=True)
        self.daemons.append(process)
        port = process.stdout.readline().split(":")[-1].strip()
        return f"127.0.0.1:{port}", directory

    def known(self, host, count, *token):
        """The daemon knows N processes."""
        def look():
            out = subprocess.run([COMMAND, "ps", "--json", "--host", host, *token], env=self.environment,
                                 capture_output=True, text=True, check=False).stdout
            return len(json.loads(out)["processes"]) == count
        self.assertTrue(dynolog.until(look))

    def fake(self, **options):
        host = FakeHost(**options)
        self.addCleanup(host.close)
        return host


class Hosts(Fleet):
    def test_all_begin_at_once_and_what_is_wrong_is_said(self):
        hosts = [self.host() for _ in range(3)]
        clients = [Client(self, {}, KINETO_IPC_SOCKET_DIR=hosts[i][1]) for i in (0, 0, 1)]
        for c in clients:
            c.ready()
        self.known(hosts[0][0], 2)
        self.known(hosts[1][0], 1)
        late = self.fake(ahead_s=7)
        names = ",".join([h[0] for h in hosts] + ["127.0.0.1:1", late.name])
        out, err = self.trigger("--all", "--hosts", names, "--start-time", "+1.5", "--warmup", 0, "-d", 20,
                                "--wait=5", "-o", self.path("traces", "t.json"), status=1)
        self.assertIn("processes that poll every 5 s need 8.5 s", err)
        self.assertIn("start in ", err)
        self.assertIn("127.0.0.1:1 was not reached: ", err)
        self.assertIn(f"{hosts[2][0]}: no process matches", err)
        self.assertRegex(err, rf"{late.name}: its clock is [67]\.\d+ s ahead of ours")
        self.assertIn(f"{late.name}, process 42: missed the start", err)
        starts = set()
        for host, client in zip((hosts[0], hosts[0], hosts[1]), clients):
            path = self.path("traces", f"t_{host[0].replace(':', '-')}_{client.pid}.json")
            self.assertIn(f"{host[0]}:{path}\t", out)
            starts.add(self.load(path)["start"])
        self.assertEqual(len(starts), 1)

    def test_json_tells_the_same(self):
        one, other = self.fake(), self.fake(ahead_s=-1)
        with open(self.path("hosts"), "w", encoding="utf-8") as file:
            file.write(f"# all\n{one.name}  # the first\n\n{other.name}\n{one.name}\n")
        out, _ = self.trigger("--all", "--hosts", "@hosts", "--start-time", "+0.7", "--json", status=1)
        answer = json.loads(out)
        self.assertEqual([h["host"] for h in answer["hosts"]], [one.name, other.name])
        self.assertAlmostEqual(answer["hosts"][1]["clock_ahead_ns"], -1e9, delta=5e8)
        self.assertIn("missed the start", answer["hosts"][0]["processes"][0]["error"])
        config, = [c["config"] for c in one.calls if "config" in c]
        self.assertIn(f"PROFILE_START_TIME={answer['start_time_ns'] // 1000000}\n", config)

    def test_clocks_at_their_ends_are_compared(self):
        first, last = self.fake(time_ns=-2**63), self.fake(time_ns=2**63 - 1)
        for host in (first, last):
            host.processes = [process(42, waits=False)]
        names = f"{first.name},{last.name}"
        out, err = self.trigger("--all", "--hosts", names, "--separately", "--json")
        self.assertIn(f"{last.name}: its clock is ", err)
        hosts = json.loads(out)["hosts"]
        self.assertNotIn("clock_ahead_ns", hosts[0])  # that is not a time
        self.assertGreater(hosts[1]["clock_ahead_ns"], 7 * 10**18)

    def asked_at(self, host, *arguments, status=0):
        """([pid, state of each], how many the daemon was asked to trace at most, what was said)."""
        out, err = self.trigger(*arguments, "--hosts", host.name, "--separately", "--json", status=status)
        there, = json.loads(out)["hosts"]
        limits = [c["process_limit"] for c in host.calls if "config" in c]
        return [(p["pid"], p["state"]) for p in there["processes"]], limits, err

    def test_processes_with_the_same_pid_are_distinguished(self):
        """As containers have them: by their users and jobs."""
        taken = "has the request"
        users = self.fake(processes=[process(7, user=u, waits=False) for u in (1001, 1002)])
        processes, (limit,), _ = self.asked_at(users, "--all", "--limit", 2)
        self.assertEqual((processes, limit), ([(7, taken), (7, taken)], 2))
        jobs = self.fake(processes=[process(7, job=j, waits=False) for j in (1, 2)])
        processes, limits, _ = self.asked_at(jobs, "--all", "--limit", 2)
        self.assertEqual((processes, limits), ([(7, taken), (7, taken)], [1, 1]))

    def test_what_is_refused_for_one_job_is_not_for_others(self):
        processes = [process(pid, job=pid, waits=False) for pid in (1, 2, 3)]
        full = self.fake(processes=processes, refusals={2: {"status": "failed with exception = full"}})
        _, err = self.trigger("--all", "--hosts", full.name, "--separately", "-o", self.path("t.json"), status=1)
        self.assertIn(f"{full.name}, process 2: the daemon says: failed with exception = full", err)
        states = [(1, "has the request"), (2, "failed"), (3, "has the request")]
        self.assertEqual(self.asked_at(full, "--all", status=1)[0], states)
        gone = self.fake(processes=processes, refusals={2: None})  # it costs its limit of time, if at all, once
        states, limits, _ = self.asked_at(gone, "--all", status=1)
        self.assertEqual([s for _, s in states], ["has the request", "failed", "failed"])
        self.assertEqual(len(limits), 2)

    def test_who_comes_late_is_asked_as_far_as_the_limit_goes(self):
        def late():
            return self.fake(processes=[process(7, waits=False)], late=[process(8, 7, waits=False)])
        processes, _, err = self.asked_at(late(), "--pid", 7)
        self.assertEqual([p[0] for p in processes], [7, 8], err)
        processes, limits, _ = self.asked_at(late(), "--pid", 7, "--limit", 1)
        self.assertEqual(([p[0] for p in processes], limits), ([7], [1]))
        many = self.fake(processes=[process(p, waits=False) for p in range(5, 8)])
        processes, limits, err = self.asked_at(many, "--all", "--limit", 2)
        self.assertEqual(([p[0] for p in processes], limits), ([5, 6], [2]))
        self.assertIn("more than 2 processes match", err)

    def test_another_host_is_asked_for_traces_only(self):
        """By --host, as by --hosts: its daemon knows neither of these, and would start a trace."""
        other = self.fake(processes=[process(42, waits=False)])
        for option in ("--cancel", "--dump"):
            out, err = self.trigger("--all", "--host", f"0.0.0.0:{other.port}", option, status=2)
            self.assertEqual((out, other.calls), ("", []))
            self.assertIn("reach only processes of this host", err)

    def test_a_directory_of_another_host_need_not_be_here(self):
        other = self.fake(processes=[process(42, waits=False)])
        out, _ = self.trigger("--all", "--host", f"0.0.0.0:{other.port}", "--separately", "-o", "/not/here/t.json")
        self.assertEqual(out, "/not/here/t_42.json\n")

    def test_a_token_is_needed_where_it_is_wanted(self):
        for name, token in (("right", "0123456789abcdef"), ("wrong", "fedcba9876543210")):
            with open(self.path(name), "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                file.write(token + "\n")
        name, directory = self.host("--token-file", self.path("right"))
        client = Client(self, {}, KINETO_IPC_SOCKET_DIR=directory).ready()
        self.known(name, 1, "--token-file", self.path("right"))
        for token in ([], ["--token-file", self.path("wrong")]):
            _, err = self.trigger("--all", "--hosts", name, *token, status=1)
            self.assertIn("was not reached: ", err)
            self.assertIn("token", err)
        self.assertEqual(client.said("config"), [])
        out, _ = self.trigger("--all", "--hosts", name, "--token-file", self.path("right"), "--separately", "-o",
                              self.path("traces", "t.json"))
        self.assertEqual(out, self.path("traces", f"t_{client.pid}.json\n"))

    def test_slurm_that_is_not_there_is_reported(self):
        self.environment["PATH"] = self.directory
        _, err = self.trigger("--slurm", 12, status=1)
        self.assertIn("'squeue' was not found", err)
        _, err = self.trigger("--slurm", "12;reboot", status=2)
        self.assertIn("not the number of a Slurm job", err)

    def test_hosts_of_a_job_are_those_that_slurm_tells(self):
        """By commands that say what Slurm's say."""
        self.write_command("squeue", 'echo "$@" >>"$0.log"; echo "815 node[1-2]"')
        one, two = self.fake(), self.fake()
        self.write_command("scontrol", f'echo "$@" >>"$0.log"; printf "%s\\n" {one.name} {two.name}')
        self.environment["PATH"] = f"{self.directory}:{os.environ['PATH']}"
        out, _ = self.trigger("--slurm", "800_3", "--start-time", "+0.5", "--json", status=1)
        self.assertEqual([h["host"] for h in json.loads(out)["hosts"]], [one.name, two.name])
        with open(self.path("squeue.log"), encoding="utf-8") as log:
            self.assertIn("--jobs 800_3", log.read())
        with open(self.path("scontrol.log"), encoding="utf-8") as log:
            self.assertEqual(log.read(), "show hostnames node[1-2]\n")
        self.write_command("squeue", "printf '1 a\\n2 b\\n'")
        self.assertIn("several jobs", self.trigger("--slurm", "800", status=2)[1])
        self.write_command("squeue", "exit 0")
        self.assertIn("has no hosts", self.trigger("--slurm", "800", status=1)[1])
        self.write_command("squeue", "echo Invalid job id >&2; exit 1")
        self.assertIn("Invalid job id", self.trigger("--slurm", "800", status=1)[1])

    def test_a_job_has_as_many_nodes_as_slurm_tells(self):
        one = self.fake(processes=[process(42, job=815, waits=False)])
        nodes = ",".join(f"node{i}" for i in range(2000))  # no ranges: 15 KB
        self.write_command("squeue", f'echo "815 {nodes}"')
        self.write_command("scontrol", f'echo "$3" >"$0.log"; echo {one.name}')
        self.environment["PATH"] = f"{self.directory}:{os.environ['PATH']}"
        self.trigger("--slurm", 815, "--separately", "-o", self.path("traces", "t.json"))
        with open(self.path("scontrol.log"), encoding="utf-8") as log:
            self.assertEqual(log.read(), nodes + "\n")

    def test_an_address_that_is_none_is_a_mistake_on_the_command_line(self):
        _, err = self.trigger("--all", "--hosts", "a:99999", status=2)
        self.assertIn("invalid daemon address 'a:99999'", err)
        self.assertIn("Try 'ckineto trigger --help'", err)

    def test_the_end_of_an_ipv6_address_is_not_a_port(self):
        _, err = self.trigger("--all", "--hosts", "::1778", "--port", 2000, status=1)
        self.assertIn("port 2000", err)

    def test_signals_that_are_ignored_stay_so(self):
        for ignored in (True, False):
            action = signal.SIG_IGN if ignored else signal.SIG_DFL
            process = subprocess.Popen([COMMAND, "trigger", "--all", "--hosts", self.fake().name, "--start-time", "+2"],
                                       env=self.environment, cwd=self.directory, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True,
                                       preexec_fn=lambda to=action: signal.signal(signal.SIGINT, to))
            while "start in" not in process.stderr.readline():
                pass
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=HANGS_S)
            self.assertEqual(process.returncode, 1 if ignored else 128 + signal.SIGINT, err)
            self.assertIn("missed the start" if ignored else "interrupted", err)

    def write_command(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(self.path(name), 0o755)

    def test_daemons_that_are_not_there_yet_are_tried_again(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = self.start("--all", "--hosts", f"127.0.0.1:1,127.0.0.1:{port}", "--separately",
                             f"--wait={HANGS_S}", "-o", self.path("traces", "t.json"))
        self.assertIn(f"trying again for {HANGS_S} s", process.stderr.readline())
        self.host(listen=f"127.0.0.1:{port}")
        _, err = self.end(process, status=1)
        self.assertIn("127.0.0.1:1 was not reached: ", err)
        self.assertIn(f"127.0.0.1:{port}: no process matches", err)

    @unittest.skipUnless(SLOW, "slow")
    def test_a_host_that_says_nothing_blocks_no_other(self):
        name, directory = self.host()
        client = Client(self, {}, KINETO_IPC_SOCKET_DIR=directory).ready()
        self.known(name, 1)
        silent = [self.fake(silent=True) for _ in range(5)]
        began = time.monotonic()
        out, err = self.trigger("--all", "--hosts", ",".join([name] + [s.name for s in silent]), "--separately",
                                "-o", self.path("traces", "t.json"), status=1)
        self.assertLess(time.monotonic() - began, 12)  # 3 s for all of them together
        self.assertEqual(err.count("was not reached"), 5)
        self.assertIn(f"_{client.pid}.json", out)


SLURM_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={at}/munge.sock
SlurmctldPort={control_port}
SlurmdPort={node_port}
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
SLURM_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")


def find(program):
    return shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@unittest.skipUnless(SLOW, "slow")
@unittest.skipUnless(os.geteuid() == 0, "the daemons of Slurm need root")
@unittest.skipUnless(all(map(find, SLURM_PROGRAMS)), "Slurm is not installed")
class Slurm(Fleet):
    """One node, on the loopback, with daemons of its own."""

    def setUp(self):
        super().setUp()
        self.at = self.path("slurm")
        for name in ("", "state", "spool", "munge"):
            os.mkdir(os.path.join(self.at, name), 0o755)
        with open(f"{self.at}/key", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(os.urandom(1024))
        with open(f"{self.at}/slurm.conf", "w", encoding="utf-8") as file:
            file.write(SLURM_CONF.format(host=socket.gethostname(), at=self.at, control_port=free_port(),
                                         node_port=free_port()))
        self.environment["SLURM_CONF"] = f"{self.at}/slurm.conf"
        os.chmod(self.directory, 0o755)  # munged looks at all of the way to its socket
        self.service("munged", "--force", f"--key-file={self.at}/key", f"--socket={self.at}/munge.sock",
                     f"--pid-file={self.at}/munged.pid", f"--log-file={self.at}/munged.log",
                     f"--seed-file={self.at}/seed")
        self.service("slurmctld", "-f", f"{self.at}/slurm.conf")
        self.service("slurmd", "-f", f"{self.at}/slurm.conf", "-N", "localhost")

    def service(self, name, *arguments):
        self.addCleanup(self.end_service, name)
        subprocess.run([find(name), *arguments], env=self.environment, check=True, timeout=HANGS_S,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end_service(self, name):
        try:
            with open(f"{self.at}/{name}.pid", encoding="utf-8") as file:
                pid = int(file.read())
            os.kill(pid, signal.SIGTERM)
        except (OSError, ValueError):
            return
        dynolog.until(lambda: not os.path.exists(f"/proc/{pid}"))

    def tearDown(self):
        self.doCleanups()  # the daemons of Slurm first: they have files here
        super().tearDown()

    def slurm(self, name, *arguments):
        done = subprocess.run([find(name), *map(str, arguments)], env=self.environment, capture_output=True,
                              text=True, check=False, timeout=HANGS_S, cwd=self.directory)
        return done.stdout.strip() if done.returncode == 0 else ""

    def test_the_processes_of_a_job_are_traced(self):
        with open(self.path("token"), "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("0123456789abcdef0123\n")
        token = ["--token-file", self.path("token")]
        name, directory = self.host(*token, listen="0.0.0.0:0")
        client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stock_client.py")
        run = f"{sys.executable} -B {client} '{json.dumps({'interval': 0.2})}' >/dev/null"
        with open(self.path("job.sh"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexport KINETO_USE_DAEMON=1 KINETO_IPC_SOCKET_DIR={directory}\n"
                       f"{run} &\n{run} &\nwait\n")
        self.assertTrue(dynolog.until(lambda: "idle" in self.slurm("scontrol", "show", "node", "localhost").lower()))
        job = self.slurm("sbatch", "--parsable", self.path("job.sh"))
        self.addCleanup(self.slurm, "scancel", "--full", "--signal=KILL", job)
        self.known(name, 2, *token)
        out, err = self.trigger("--slurm", job, "--port", name.split(":")[1], *token, "--warmup", 0, "-d", 50,
                                "--wait", "-o", self.path("traces", "t.json"))
        self.assertIn("start in 8.5 s", err)
        paths = [line.split("\t")[0] for line in out.splitlines()]
        self.assertEqual(len(paths), 2)
        self.assertEqual(len({self.load(path)["start"] for path in paths}), 1)


if __name__ == "__main__":
    main()
