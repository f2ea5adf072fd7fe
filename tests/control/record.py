"""ckineto record --on-demand and --ring: a program that has ranges and nothing else is traced when
on request, with its children and its devices, and goes on."""

import glob
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from paced import Paced

COMMAND = os.environ.get("CKINETO", "")
PROGRAM = os.environ.get("CKINETO_RECORDED", "")
SIM = os.environ.get("CKINETO_SIM", "")

if not (COMMAND and PROGRAM):
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

LONG = "300000"  # ms, of a program that is ended by its test
HANGS_S = 60  # only against hanging: a machine may be slow


def until(condition):
    end = time.monotonic() + HANGS_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return False


def gone(pid):
    """Dead, whether or not it was waited for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


class Asker:
    """The asking end of a control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(HANGS_S)
        self.socket.connect(path)

    def close(self):
        self.socket.close()

    def say(self, verb, text=""):
        self.socket.send(f"{verb}\n\n{text}".encode())

    def hear(self):
        """(verb, values) of the next packet."""
        packet = self.socket.recv(1 << 17)
        if not packet:
            return None, {}
        lines = packet.decode().split("\n")
        return lines[0], dict(l.split("=", 1) for l in lines[1:] if "=" in l)

    def hear_until(self, *verbs):
        while True:
            verb, values = self.hear()
            if verb in verbs or verb is None:
                return verb, values


class RecordTest(Paced):
    def setUp(self):
        self.began = time.time() - 1  # clocks of files are coarse
        self.folder = tempfile.TemporaryDirectory(prefix="ckineto-record-")
        self.here = self.folder.name
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith(("CKINETO", "KINETO")) or k in ("CKINETO_LIBRARY_PATH", "CKINETO_CPU")}
        self.environment.update(XDG_RUNTIME_DIR=self.here, KINETO_ONDEMAND_TRACE_DIR=self.here,
                                KINETO_IPC_SOCKET_DIR=self.here,
                                KINETO_CONFIG=os.path.join(self.here, "none.conf"))
        self.running = []

    def tearDown(self):
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.folder.cleanup()

    def start(self, *program, options=("--on-demand",), wait=True):
        room = () if "--ring" in options else ("-b", "8")
        process = subprocess.Popen(
            [COMMAND, "record", *room, "--no-plugins", *options, "--", PROGRAM, *program],
            cwd=self.here, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)
        self.running.append(process)
        if wait:
            self.assertEqual(process.stdout.readline(), b"ready\n", "the program does not run")
        return process

    def interrupt(self, process):
        """Ctrl-C: the program ends, and the recorder after it."""
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)

    def asker(self, process):
        path = os.path.join(self.here, "ckineto", f"{process.pid}.sock")
        self.assertTrue(until(lambda: os.path.exists(path)), "no control socket")
        asker = Asker(path)
        self.addCleanup(asker.close)
        return asker

    def status(self, asker):
        asker.say("status")
        return asker.hear_until("status")[1]

    def trace(self, asker, text):
        """Ask, wait, read."""
        asker.say("trace", text)
        verb, values = asker.hear()
        self.assertEqual(verb, "accepted", values)
        return self.written(asker)

    def written(self, asker):
        verb, values = asker.hear_until("written", "failed", "cancelled")
        self.assertEqual(verb, "written", values)
        return self.load(values["path"])

    def load(self, path):
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
        lost = [l for l in trace["ckineto"]["ledger"] if l["loss"]]
        # What a device still does when its window ends may be lost.
        self.assertEqual([l for l in lost if l["source"] != "Sim" or l["count"] > 4], [])
        verify = subprocess.run([COMMAND, "verify", path], capture_output=True, cwd=self.here)
        if lost:  # which verify warns of
            self.assertIn(b": 0 errors, 1 warning,", verify.stdout)
        else:
            self.assertEqual(verify.returncode, 0, verify.stdout + verify.stderr)
        return trace

    def end(self, process, status=0):
        out, err = process.communicate(timeout=HANGS_S)
        self.assertEqual(process.returncode, status, err)
        left = glob.glob(os.path.join(self.here, ".*ckspool*"))
        # One that was killed long ago may have had the same number.
        left += [p for p in glob.glob(f"/dev/shm/ckineto-{os.geteuid()}-{process.pid}-*.pool")
                 if os.stat(p).st_ctime > self.began]
        self.assertEqual(left, [])
        return err

    @staticmethod
    def slices(trace, name=None):
        return [e for e in trace["traceEvents"]
                if e["ph"] == "X" and (name is None or e["name"] == name)]

    def numbers(self, trace):
        """The numbers of whole iterations, by process."""
        found = {}
        for e in self.slices(trace, "inner"):
            found.setdefault(e["pid"], []).append(e["args"]["i"])
        return {pid: sorted(numbers) for pid, numbers in found.items()}

    def assert_no_holes(self, trace, processes=1):
        numbers = self.numbers(trace)
        self.assertEqual(len(numbers), processes)
        for found in numbers.values():
            self.assertEqual(found, list(range(found[0], found[0] + len(found))))


NOW = "ACTIVITIES_WARMUP_PERIOD_SECS=0\n"


class OnDemand(RecordTest):
    def test_two_requests_one_after_the_other(self):
        process = self.start("-p", "200", LONG)
        asker = self.asker(process)
        self.assertEqual(self.status(asker)["host"], "recorder")
        first = self.trace(asker, NOW + f"ACTIVITIES_DURATION_MSECS={self.ms(40)}\nREQUEST_TRACE_ID=one\n")
        second = self.trace(asker, NOW + f"ACTIVITIES_DURATION_MSECS={self.ms(40)}\nPROFILE_WITH_STACK=true\n"
                                         f"ACTIVITIES_LOG_FILE={self.here}/two.json\n")
        for trace in first, second:
            self.assert_no_holes(trace)
        last = list(self.numbers(first).values())[0][-1]
        self.assertGreater(list(self.numbers(second).values())[0][0], last)
        pid = list(self.numbers(first))[0]
        self.assertTrue(os.path.exists(f"{self.here}/two_{pid}.json"))
        self.assertEqual(first["trace_id"], "one")
        self.assertIn("left out", [l["reason"] for l in second["ckineto"]["ledger"]])
        self.assertEqual(int(self.status(asker)["traces"]), 2)
        os.kill(pid, signal.SIGTERM)
        self.end(process, 128 + signal.SIGTERM)

    def test_the_window_is_met_exactly_by_the_whole_tree(self):
        process = self.start("-p", "100", "-c", "2", LONG)
        asker = self.asker(process)
        start_ms = int(time.time() * 1000) + self.ms(200)
        trace = self.trace(asker, NOW + f"PROFILE_START_TIME={start_ms}\n"
                                        f"ACTIVITIES_DURATION_MSECS={self.ms(50)}\n")
        self.assert_no_holes(trace, processes=3)
        base_ns = int(trace.get("baseTimeNanoseconds", 0))
        times = [(base_ns / 1000 + e["ts"], e["dur"]) for e in self.slices(trace)
                 if e["name"] in ("outer", "inner")]
        self.assertGreaterEqual(min(ts for ts, _ in times), start_ms * 1000 - 1)
        self.assertLessEqual(max(ts + dur for ts, dur in times), (start_ms + self.ms(50)) * 1000 + 1)
        pids = set(map(int, self.status(asker)["pids"].replace(",", " ").split()))
        self.assertTrue(pids >= set(self.numbers(trace)), pids)
        self.interrupt(process)

    def test_another_request_meanwhile_is_refused(self):
        process = self.start(LONG)
        asker, other = self.asker(process), self.asker(process)
        asker.say("trace", NOW + "ACTIVITIES_DURATION_MSECS=100000\n")
        self.assertEqual(asker.hear()[0], "accepted")
        other.say("trace", NOW + f"ACTIVITIES_DURATION_MSECS={self.ms(10)}\n")
        verb, values = other.hear()
        self.assertEqual(verb, "refused")
        self.assertIn("busy", values["text"])
        time.sleep(self.s(0.02))
        other.say("cancel")
        self.assert_no_holes(self.written(asker))
        self.interrupt(process)

    def test_a_program_that_ends_or_is_killed_in_its_window_gives_its_trace(self):
        for how, status in (([str(self.ms(300))], 0), (["-k", str(self.ms(150)), LONG], 128 + 9)):
            process = self.start(*how)
            asker = self.asker(process)
            asker.say("trace", NOW + "ACTIVITIES_DURATION_MSECS=100000\n")
            self.assertEqual(asker.hear()[0], "accepted")
            verb, values = asker.hear_until("written", "failed")
            self.assertEqual(verb, "written", values)
            self.end(process, status)
            self.assert_no_holes(self.load(values["path"]))

    def test_iterations(self):
        # Long ones: the recorder must have set the limits before the first of them begins.
        process = self.start("-s", "-p", "30000", LONG)
        asker = self.asker(process)
        trace = self.trace(asker, NOW + "ACTIVITIES_ITERATIONS=3\n")
        whole = [e for e in self.slices(trace) if e["name"].startswith("ProfilerStep#")]
        self.assertEqual(len(whole), 3, [e["name"] for e in whole])
        inside = self.slices(trace, "inner")
        self.assertEqual(len(inside), 3)
        first = int(whole[0]["name"].split("#")[1])
        self.assertEqual([e["args"]["i"] for e in inside], [first, first + 1, first + 2])
        self.interrupt(process)

    def test_a_recorder_that_is_killed_does_not_stop_the_program(self):
        process = self.start("-p", "500", str(self.ms(400)))
        asker = self.asker(process)
        asker.say("trace", NOW + "ACTIVITIES_DURATION_MSECS=100000\n")
        self.assertEqual(asker.hear()[0], "accepted")
        program = int(self.status(asker)["pids"].replace(",", " ").split()[-1])
        process.kill()
        process.wait()
        self.assertFalse(gone(program))
        self.assertTrue(until(lambda: gone(program)))
        pools = [p for p in glob.glob(f"/dev/shm/ckineto-{os.geteuid()}-{process.pid}-*.pool")
                 if os.stat(p).st_ctime > self.began]
        self.assertEqual(len(pools), 1)
        recover = subprocess.run([COMMAND, "recover", "-o", "left.json", "--remove", pools[0]],
                                 capture_output=True, cwd=self.here, env=self.environment)
        self.assertEqual(recover.returncode, 0, recover.stderr)
        with open(os.path.join(self.here, "left.json"), encoding="utf-8") as file:
            self.assert_no_holes(json.load(file))

    def test_ctrl_c_reaches_the_program_and_the_window_is_written(self):
        process = self.start(LONG)
        asker = self.asker(process)
        asker.say("trace", NOW + "ACTIVITIES_DURATION_MSECS=100000\n")
        self.assertEqual(asker.hear()[0], "accepted")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(asker.hear_until("written", "failed")[0], "written")
        self.end(process, 128 + signal.SIGINT)

    def test_a_signal_and_a_file_ask_too(self):
        with open(os.path.join(self.here, "some.conf"), "w", encoding="utf-8") as file:
            file.write(NOW + f"ACTIVITIES_DURATION_MSECS={self.ms(30)}\n")
        self.environment["KINETO_CONFIG"] = os.path.join(self.here, "some.conf")
        ask = os.path.join(self.here, "ask")
        process = self.start(LONG, options=(f"--on-demand=signal=USR2,file={ask}",))
        made = lambda pattern: glob.glob(os.path.join(self.here, pattern))
        process.send_signal(signal.SIGUSR2)
        self.assertTrue(until(lambda: made("libkineto_activities_*.json")))
        time.sleep(self.s(0.05))
        with open(ask, "w", encoding="utf-8") as file:
            file.write(NOW + f"ACTIVITIES_DURATION_MSECS={self.ms(30)}\nACTIVITIES_LOG_FILE={self.here}/f.json\n")
        self.assertTrue(until(lambda: made("f_*.json")))
        self.assertFalse(os.path.exists(os.path.join(self.here, "ckineto")))
        self.assert_no_holes(self.load(made("f_*.json")[0]))
        self.interrupt(process)


    def test_dynolog_is_asked_in_the_name_of_the_program(self):
        self.environment.update(KINETO_USE_DAEMON="1")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(os.path.join(self.here, "dynolog"))
            daemon.settimeout(HANGS_S)
            process = self.start(LONG, options=("--on-demand=daemon",))
            packet, client = daemon.recvfrom(4096)
            count = struct.unpack_from("=i", packet, 44)[0]
            pids = struct.unpack_from(f"={count}i", packet, 56)
            self.assertEqual(pids[1], process.pid)
            with open(f"/proc/{pids[0]}/environ", "rb") as file:
                self.assertNotIn(b"KINETO_USE_DAEMON", file.read())
            text = (NOW + f"ACTIVITIES_DURATION_MSECS={self.ms(30)}\n").encode()
            daemon.sendto(struct.pack("=Q32s", len(text), b"req") + text, client)
            path = os.path.join(self.here, f"libkineto_activities_{pids[0]}.json")
            self.assertTrue(until(lambda: os.path.exists(path)))
        self.assert_no_holes(self.load(path))
        self.interrupt(process)


class Devices(RecordTest):
    def setUp(self):
        super().setUp()
        if not os.path.exists(SIM):
            self.skipTest("no software accelerator was built")

    def test_plugins_follow_the_windows(self):
        process = self.start("-d", SIM, LONG, options=("--on-demand", "--plugin", SIM))
        asker = self.asker(process)
        for _ in range(2):
            trace = self.trace(asker, "ACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                                      f"ACTIVITIES_DURATION_MSECS={self.ms(100)}\n")
            kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
            self.assertGreater(len(kernels), 5)
            self.assertEqual({e["name"] for e in kernels}, {"work"})
        self.interrupt(process)


class Follower(Devices):
    """What the thread costs by which plug-ins follow."""

    test_plugins_follow_the_windows = None  # that is tested where it is

    def test_it_looks_every_10_s_whether_the_program_goes_on_and_sleeps_else(self):
        process = self.start("-d", SIM, "100000", options=("--on-demand", "--plugin", SIM))
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
            tasks = f"/proc/{file.read().split()[0]}/task"
        self.assertTrue(until(lambda: self.wakes(tasks) is not None))
        time.sleep(1)  # it has begun
        before = self.wakes(tasks)
        time.sleep(25)
        self.assertIn(self.wakes(tasks) - before, (2, 3))
        self.interrupt(process)

    @staticmethod
    def wakes(tasks):
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/status", encoding="utf-8") as file:
                status = dict(line.split(":", 1) for line in file)
            if status["Name"].strip() == "ckineto":
                return int(status["voluntary_ctxt_switches"])
        return None


class Ring(RecordTest):
    def dumps(self):
        return glob.glob(os.path.join(self.here, "ckineto_ring_*.json"))

    def test_is_written_when_asked_and_goes_on(self):
        process = self.start("-p", "200", LONG, options=("--ring", str(self.s(0.3)), "--ring-mb", "4"))
        asker = self.asker(process)
        time.sleep(self.s(0.4))
        last = -1
        for _ in range(2):
            asker.say("dump")
            self.assertEqual(asker.hear()[0], "accepted")
            trace = self.written(asker)
            self.assert_no_holes(trace)
            found = list(self.numbers(trace).values())[0]
            self.assertGreater(found[-1], last)
            last = found[-1]
            times = [e["ts"] for e in self.slices(trace, "inner")]
            self.assertLess(max(times) - min(times), self.s(301000))
        trace = self.trace(asker, NOW + f"ACTIVITIES_DURATION_MSECS={self.ms(40)}\n")
        self.assert_no_holes(trace)
        self.interrupt(process)

    def test_crash_slow_step_and_hang(self):
        for option, how, reason in ((["--on-crash"], ["-v", "60"], "signal 11"),
                                    (["--on-slow-step", "20x"], ["-l", "30", str(self.ms(200))], "slow step"),
                                    (["--on-hang", str(self.s(0.5))], ["-h", "30"], "no step for")):
            process = self.start("-s", "-p", "2000", *how, LONG, options=["--ring", "5", *option])
            self.assertTrue(until(self.dumps), how)
            trace = self.load(self.dumps()[0])
            self.assertIn(reason, trace["ckineto_dump_reason"])
            if process.poll() is None:
                self.interrupt(process)
            process.wait()
            os.unlink(self.dumps()[0])

    def thread_names(self, trace):
        return {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}

    def test_a_killed_program_keeps_names_of_threads_and_says_why_it_ended(self):
        late = str(int(self.s(2500)))
        for how, reason in ((["-k", late], "killed by signal 9"), (["-v", late], "killed by signal 11")):
            process = self.start("-n", "chief", "-t", "worker", *how, LONG, options=("--ring", "600", "-o", "last.json"))
            process.communicate()
            trace = self.load(os.path.join(self.here, "last.json"))
            self.assertIn(reason, trace["ckineto_dump_reason"])
            names = self.thread_names(trace)
            self.assertTrue(any("chief" in n for n in names) and any("worker" in n for n in names), names)

    def test_a_recording_without_a_ring_says_which_signal_ended_it(self):
        for how, reason in ((["-v", "300"], "killed by signal 11"), ([], None)):
            process = self.start("-n", "chief", *how, LONG if how else "50", options=("-o", "plain.json"))
            process.communicate()
            trace = self.load(os.path.join(self.here, "plain.json"))
            self.assertIn(reason or "None", str(trace.get("ckineto_dump_reason")))
            self.assertTrue(any("chief" in n for n in self.thread_names(trace)))

    def test_the_step_that_did_not_end_is_named(self):
        for ring in ([], ["--ring", "600"]):
            process = self.start("-s", "-v", "300", LONG, options=[*ring, "-o", "last.json"])
            process.communicate()
            trace = self.load(os.path.join(self.here, "last.json"))
            line, = [l for l in trace["ckineto"]["ledger"] if l["source"] == "steps"]
            steps = sorted(int(e["name"].partition("#")[2]) for e in self.slices(trace)
                           if e["name"].startswith("ProfilerStep#"))
            self.assertEqual(steps, list(range(len(steps))))
            self.assertTrue(line["detail"].startswith(f"ProfilerStep#{len(steps)} ("), line)
            done = subprocess.run([COMMAND, "slice", "--steps", str(len(steps)), "-o", "s.json", "last.json"],
                                  capture_output=True, cwd=self.here)
            self.assertIn(b"'ckineto info' lists steps that were open", done.stderr)

    def test_a_dump_lies_next_to_the_output_and_says_why(self):
        process = self.start("-s", "-p", "2000", "-l", "30", str(self.ms(200)), LONG,
                             options=["--ring", "5", "--on-slow-step", "20x", "-o", "last.json"])
        find_dumps = lambda: glob.glob(os.path.join(self.here, "last_*_1.json"))
        self.assertTrue(until(find_dumps))
        self.assertEqual(self.dumps(), [])
        os.killpg(process.pid, signal.SIGINT)
        err = process.communicate(timeout=60)[1].decode()
        self.assertRegex(err, r"slow step \d+: .* usually .*: a trace is in .*" + os.path.basename(find_dumps()[0]))

    def test_an_empty_ring_of_a_program_without_ranges_needs_no_longer_one(self):
        done = subprocess.run([COMMAND, "record", "--no-plugins", "--ring", "5", "-o", "last.json", "--", "true"],
                              cwd=self.here, env=self.environment, capture_output=True, check=True)
        self.assertNotIn(b"longer --ring", done.stderr)
        self.assertIn(b"used nothing that ckineto", done.stderr)

    def test_a_recorder_is_shown_with_its_program(self):
        process = self.start("-p", "2000", LONG, options=("--ring", "5"))
        name = self.status(self.asker(process))["name"]
        self.assertRegex(name, r"^ckineto: control_recorded")
        self.interrupt(process)

    def test_a_refused_dump_takes_its_reason_with_it(self):
        late = os.path.join(self.here, "late")
        self.environment["KINETO_ONDEMAND_TRACE_DIR"] = late
        os.mkdir(late)
        process = self.start("-s", "-p", "2000", "-h", "30", LONG, options=["--ring", "5", "--on-hang", "1"])
        os.rename(late, late + " away")
        for line in process.stderr:
            if b"no dump" in line:
                break
        os.rename(late + " away", late)
        asker = self.asker(process)
        asker.say("dump")
        self.assertEqual(asker.hear()[0], "accepted")
        self.assertNotIn("no step", self.written(asker).get("ckineto_dump_reason", ""))
        self.interrupt(process)

    def test_output_is_written_at_the_end(self):
        process = self.start(str(self.ms(300)), options=("--ring", "5", "-o", "last.json"))
        self.end(process)
        trace = self.load(os.path.join(self.here, "last.json"))
        self.assert_no_holes(trace)
        self.assertEqual(list(self.numbers(trace).values())[0][0], 0)
        self.assertEqual(trace["ckineto_dump_reason"], "the program ended")


class CommandLine(RecordTest):
    def test_mistakes(self):
        for options in (["--on-crash"], ["--on-demand=mail"], ["--ring", "0"], ["--ring", "x"],
                        ["--on-demand", "-o", "t.json"], ["--ring", "1", "--on-slow-step", "0.5"]):
            process = self.start("1", options=options, wait=False)
            self.end(process, 125)


if __name__ == "__main__":
    unittest.main(verbosity=2)
