"""The source "cpu": states and sampled stacks of programs that know nothing of it."""

import collections
import glob
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND, TARGET, STATIC, NOPERF = (os.environ[n] for n in ("CKINETO", "CPU_TARGET", "CPU_STATIC", "CPU_NOPERF"))
STATES = ("running", "waiting for a CPU", "blocked")


class Trace:
    def __init__(self, path):
        with open(path) as f:
            self.json = json.load(f)
        events = self.json["traceEvents"]
        self.names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.states, self.samples = collections.defaultdict(list), collections.defaultdict(list)
        for e in events:
            if e.get("cat") == "thread_state":
                self.states[(e["pid"], int(e["tid"].split()[1]))].append(e)
            elif e.get("cat") == "cpu_sample":
                self.samples[(e["pid"], int(e["tid"].split()[1]))].append(e)

    def thread(self, word):
        """(pid, tid) of the thread whose name contains the word."""
        found = {(pid, int(tid.split()[1])) for (pid, tid), name in self.names.items()
                 if isinstance(tid, str) and f"({word})" in name}
        assert len(found) == 1, (word, self.names)
        return found.pop()

    def seconds(self, thread):
        sums = dict.fromkeys(STATES, 0.0)
        for e in self.states[thread]:
            sums[e["name"]] += e["dur"] / 1e6
        return sums


class Cpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "trace.json")
        self.environment = {k: v for k, v in os.environ.items() if k != "CKINETO_CPU"}

    def tearDown(self):
        self.folder.cleanup()

    def run_command(self, *command, **options):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, **options)

    def record(self, *program, options=(), before=()):
        r = self.run_command(*before, COMMAND, "record", "-v", "-o", self.path, *options, "--", *program)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.said = r.stdout + r.stderr
        verdict = self.run_command(COMMAND, "verify", self.path).stdout
        self.assertRegex(verdict, "sound|the trace is empty|lost by the kernel, whose buffer was full")
        trace = Trace(self.path)
        if re.search("cpu: (not available here|states from counters)", self.said):
            self.skipTest("perf_event_open is not allowed here")
        return trace

    # ---- states ----

    def test_states_add_up_to_the_life_of_each_thread(self):
        t = self.record(TARGET, "threads", "400")
        for thread in t.states:
            events = sorted(t.states[thread], key=lambda e: e["ts"])
            life = events[-1]["ts"] + events[-1]["dur"] - events[0]["ts"]
            self.assertAlmostEqual(sum(e["dur"] for e in events) / life, 1, delta=0.01, msg=str(thread))
            for a, b in zip(events, events[1:]):
                self.assertLessEqual(a["ts"] + a["dur"], b["ts"] + 0.001)
        self.assertEqual(len(t.states), 4)

    def test_threads_do_what_they_are_known_to_do(self):
        t = self.record(TARGET, "threads", "400")
        computes, sleeps, waits = (t.seconds(t.thread(w)) for w in ("computes", "sleeps", "waits"))
        self.assertGreater(computes["running"], 0.39)
        self.assertLess(computes["blocked"], 0.1)
        for idle in (sleeps, waits):
            self.assertGreater(idle["blocked"], 0.35)
            self.assertLess(idle["running"], 0.05)

    def test_nothing_is_attributed_to_a_thread_that_was_blocked(self):
        t = self.record(TARGET, "threads", "400")
        for thread, samples in t.samples.items():
            blocked = [e for e in t.states[thread] if e["name"] == "blocked"]
            for s in samples:
                for b in blocked:
                    overlap = min(s["ts"] + s["dur"], b["ts"] + b["dur"]) - max(s["ts"], b["ts"])
                    self.assertLess(overlap, 1, (s, b))

    def test_where_threads_get_blocked(self):
        t = self.record(TARGET, "threads", "400", options=("--off-cpu",))
        if "no stacks of blocked threads" in self.said:
            self.skipTest("needs CAP_PERFMON")
        for thread, function in (("sleeps", "sleep_long"), ("waits", "wait_for_lock")):
            longest = max((e for e in t.states[t.thread(thread)] if e["name"] == "blocked"), key=lambda e: e["dur"])
            self.assertIn(function, longest["args"]["Call stack"])
            self.assertGreater(longest["dur"], 300e3)
        self.assertRegex(longest["args"]["in"], "lock|futex")
        self.assertRegex(self.said, "threads blocked in +count")

    def test_who_woke_a_thread(self):
        t = self.record(TARGET, "states", "500", options=("--off-cpu",))
        if "no stacks of blocked threads" in self.said or "who wakes threads" in self.said:
            self.skipTest("needs CAP_PERFMON and tracefs")
        reads, writes = t.thread("reads"), t.thread("writes")
        waits = [e for e in t.states[reads] if e["name"] == "waiting for a CPU" and "woken by" in e.get("args", {})]
        self.assertGreater(len(waits), 3)
        by = collections.Counter(e["args"]["woken by"] for e in waits)
        self.assertGreater(by[f"thread {writes[1]} (writes)"], 0.8 * len(waits))
        sleeps = [e["args"]["woken by"] for e in t.states[t.thread("sleeps")] if "woken by" in e.get("args", {})]
        self.assertGreater(sleeps.count("an interrupt"), 0.8 * len(sleeps))  # its timer

    def test_without_off_cpu_nothing_is_said_of_blocked_time(self):
        t = self.record(TARGET, "threads", "100")
        self.assertFalse(any(e.get("args") for list_ in t.states.values() for e in list_ if e["name"] == "blocked"))

    # ---- samples ----

    def assert_depth(self, t, pid, depth):
        """Nearly all CPU time is below so many calls of `descend`."""
        samples = [e for (p, tid), list_ in t.samples.items() if p == pid for e in list_]
        spins = [e for e in samples if e["name"] == "spin"]
        whole = sum(e["args"]["cpu_ns"] for e in samples if e["name"] == "main")
        self.assertGreater(sum(e["args"]["cpu_ns"] for e in spins), 0.9 * whole)
        for s in spins:
            inside = [e for e in samples if e["name"] == "descend" and e["ts"] <= s["ts"] + 0.001
                      and e["ts"] + e["dur"] >= s["ts"] + s["dur"] - 0.001]
            self.assertEqual(len(inside), depth)

    def test_every_frame_of_a_deep_stack(self):
        t = self.record(TARGET, "deep", "40", "300")
        (pid, _), = t.samples
        self.assert_depth(t, pid, 40)

    def test_samples_stand_for_the_cpu_time(self):
        t = self.record(TARGET, "deep", "3", "500", options=("--cpu", "499"))
        (thread, samples), = t.samples.items()
        total = sum(e["args"]["cpu_ns"] for e in samples if e["name"] == "main")
        running = t.seconds(thread)["running"]
        self.assertAlmostEqual(total / 1e9 / running, 1, delta=0.1)
        self.assertIn("cpu: delivered", self.said)

    def test_a_static_program(self):
        if not os.path.exists(STATIC):
            self.skipTest("no static C library")
        t = self.record(STATIC, "deep", "10", "300")
        (pid, _), = t.samples
        self.assert_depth(t, pid, 10)

    def test_functions_of_cpp_have_readable_names(self):
        if not shutil.which("g++"):
            self.skipTest("no C++ compiler")
        program = os.path.join(self.folder.name, "names")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "names.cc")
        r = self.run_command("g++", "-O1", "-g1", "-fno-optimize-sibling-calls", "-o", program, source)
        self.assertEqual(r.returncode, 0, r.stderr)
        t = self.record(program, options=("--cpu", "499"))
        (_, samples), = t.samples.items()
        time = collections.Counter()
        for e in samples:
            time[e["name"]] += e["args"]["cpu_ns"]
        whole = time["main"]
        for name in ("work::Spinner<int>::spin(int)", "work::(anonymous namespace)::run_for(int)",
                     "work::Spinner<double>::spin(int)", "work::Base::call(int)"):
            found = [n for n in time if n.split(" [clone")[0].removeprefix("void ") == name]
            self.assertEqual(len(found), 1, (name, sorted(time)))
            self.assertGreater(time[found[0]], 0.3 * whole)
        self.assertEqual([n for n in time if n.startswith("_Z") or "@" in n], [])

    def test_functions_of_stripped_programs_count_as_one(self):
        """Without its name a function is called by where it begins, whatever address was sampled in it."""
        program, stripped = (os.path.join(self.folder.name, name) for name in ("whole", "stripped"))
        source = program + ".c"
        with open(source, "w") as f:
            f.write("__attribute__((noinline)) static int spin(int n) { volatile int x = n;\n"
                    "for (long i = 0; i < 150000000; i++) x += i % 7 ? x * 3 : x / 5 + 1;\n"
                    "return x; }\nint main(int c, char **v) { (void)v; return spin(c) - spin(c); }\n")
        if not (shutil.which("cc") and shutil.which("nm")):
            self.skipTest("no compiler, or no nm")
        self.assertEqual(self.run_command("cc", "-O1", "-no-pie", "-o", program, source).returncode, 0)
        self.assertEqual(self.run_command("cc", "-O1", "-no-pie", "-s", "-o", stripped, source).returncode, 0)
        symbols = {name: int(address, 16) for address, _, name in
                   (line.split()[-3:] for line in self.run_command("nm", "--defined-only", program).stdout.splitlines())}
        (_, samples), = self.record(stripped, options=("--cpu", "499")).samples.items()
        names = {e["name"] for e in samples if e["name"].startswith("stripped+0x")}
        offsets = {int(name.split("+")[1], 16) for name in names}
        base = 0x400000 # where the linker puts programs on x86-64, and on AArch64
        self.assertLessEqual({symbols["spin"] - base, symbols["main"] - base}, offsets)
        self.assertLess(len(offsets), 5, names)

    def test_functions_of_the_kernel_have_names(self):
        if os.getuid() != 0:
            self.skipTest("needs root")
        with open("/proc/kallsyms") as f:
            if int(f.readline().split()[0], 16) == 0:
                self.skipTest("addresses of the kernel are hidden")
        t = self.record("sh", "-c", "head -c 300000000 /dev/zero > /dev/null", options=("--cpu", "999"))
        samples = [e for list_ in t.samples.values() for e in list_]
        inside = [e for e in samples if e.get("args", {}).get("module") == "[kernel]"]
        whole = sum(e["args"]["cpu_ns"] for e in samples if e["name"] == "[kernel]")
        below = sum(e["args"]["cpu_ns"] for e in inside if e["name"] in ("do_syscall_64", "el0_svc"))
        self.assertGreater(len({e["name"] for e in inside}), 5)
        self.assertGreater(below, 0.3 * whole)

    def test_children_and_what_they_execute(self):
        t = self.record(TARGET, "children", "200")
        self.assertEqual(len({pid for pid, _ in t.states}), 3)
        executed = [pid for pid, _ in t.samples if any(e["name"] == "descend" for e in t.samples[(pid, pid)])]
        self.assertEqual(len(executed), 1)
        self.assert_depth(t, executed[0], 5)

    EXECUTED_BY_A_THREAD = ("import os, sys, threading, time\n"
                            "def execute(): time.sleep(0.05); os.execv(sys.argv[1], sys.argv[1:])\n"
                            "threading.Thread(target=execute).start()\ntime.sleep(60)\n")

    def assert_one_state_at_a_time(self, trace):
        """Of one tid, whatever programs it executed."""
        of_tid = collections.defaultdict(list)
        for (_, tid), events in trace.states.items():
            of_tid[tid] += events
        for tid, events in of_tid.items():
            events.sort(key=lambda e: e["ts"])
            for a, b in zip(events, events[1:]):
                self.assertLessEqual(a["ts"] + a["dur"], b["ts"] + 0.002, (tid, a, b))
        return of_tid

    def test_a_thread_is_never_in_two_states(self):
        commands = {"fork and exec": (TARGET, "children", "50"),
                    "exec": ("/bin/sh", "-c", 'sleep 0.1; "$0" deep 3 50; exec "$0" threads 100', TARGET),
                    "exec by a thread": (sys.executable, "-c", self.EXECUTED_BY_A_THREAD, TARGET, "deep", "3", "100")}
        for name, command in commands.items():
            with self.subTest(name):
                self.assertTrue(self.assert_one_state_at_a_time(self.record(*command)))
                r = self.run_command(NOPERF, COMMAND, "record", "-o", self.path, "--", *command)
                if r.returncode != 77:  # polled every 50 ms: on a busy machine a short program may have no states
                    self.assert_one_state_at_a_time(Trace(self.path))

    def test_a_thread_is_never_in_two_states_in_stored_traces(self):
        paths = glob.glob(os.path.join(os.path.dirname(__file__), "..", "data", "watched", "*.json.gz"))
        self.assertTrue(paths)
        for path in paths:
            with self.subTest(path), gzip.open(path) as stored, open(self.path, "wb") as plain:
                plain.write(stored.read())
                plain.flush()
                self.assertTrue(self.assert_one_state_at_a_time(Trace(self.path)))

    def test_a_thread_whose_process_executes_a_program_has_ended(self):
        t = self.record(sys.executable, "-c", self.EXECUTED_BY_A_THREAD, TARGET, "deep", "3", "300")
        of_tid = self.assert_one_state_at_a_time(t)
        begins, ends = ({tid: f(e) for tid, e in of_tid.items()} for f in (
            lambda events: events[0]["ts"], lambda events: events[-1]["ts"] + events[-1]["dur"]))
        self.assertEqual(len(of_tid), 2)
        first = min(begins, key=begins.get)
        other, = set(of_tid) - {first}
        self.assertGreater(ends[first] - ends[other], 200e3)

    def test_the_summary_names_states_and_functions(self):
        self.record(TARGET, "threads", "300")
        self.assertRegex(self.said, r"threads +running +waiting for a CPU +blocked")
        self.assertRegex(self.said, r"\(sleeps\) +\S+ \S+ +\S+ \S+ +[23]\d\d\.\d+ ms")
        self.assertRegex(self.said, r"\n  spin +(\d+\.\d %|\d+\.\d+ ms)")  # without a share of too few samples
        j = json.loads(self.run_command(COMMAND, "info", "--json", self.path).stdout)
        self.assertEqual(len(j["threads"]), 4)
        functions = {f["name"]: f for f in j["sampled_functions"]}
        self.assertGreater(functions["compute"]["total_cpu_ns"], 0.8 * functions["spin"]["total_cpu_ns"])
        self.assertEqual(functions["compute"]["self_cpu_ns"], 0)

    def test_states_are_in_no_stack(self):
        self.record(TARGET, "threads", "200")
        folded = os.path.join(self.folder.name, "t.folded")
        self.assertEqual(self.run_command(COMMAND, "convert", self.path, "-o", folded).returncode, 0)
        with open(folded) as f:
            text = f.read()
        self.assertIn(";compute;spin", text)
        self.assertNotIn("blocked", text)

    # ---- options ----

    def test_off_and_states_only(self):
        t = self.record(TARGET, "deep", "3", "50", options=("--cpu", "off"))
        self.assertEqual(len(t.states) + len(t.samples), 0)
        t = self.record(TARGET, "deep", "3", "50", options=("--cpu=0",))
        self.assertEqual((len(t.states), len(t.samples)), (1, 0))
        t = self.record(TARGET, "deep", "3", "50", options=("-a", "cpu_sample"))
        self.assertEqual((len(t.states), len(t.samples)), (0, 1))
        self.environment["CKINETO_CPU"] = "off"
        t = self.record(TARGET, "deep", "3", "50")
        self.assertEqual(len(t.states) + len(t.samples), 0)

    def test_a_wrong_value_is_named(self):
        for value in ("fast", "", "-1", "10001", "99x"):
            r = self.run_command(COMMAND, "record", "--cpu", value, "-o", self.path, "--", "true")
            if value:
                self.assertEqual(r.returncode, 125, value)
                self.assertIn(f"--cpu '{value}'", r.stderr)
        self.environment["CKINETO_CPU"] = "fast"
        r = self.run_command(COMMAND, "record", "-o", self.path, "--", "true")
        self.assertIn("CKINETO_CPU 'fast'", r.stderr)

    # ---- rights ----

    def test_an_ordinary_user(self):
        if os.getuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("needs root and setpriv")
        os.chmod(self.folder.name, 0o777)
        r = self.run_command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", COMMAND, "--version")
        if r.returncode:
            self.skipTest("another user cannot run the command here")
        t = self.record(TARGET, "deep", "10", "300", options=("--off-cpu",),
                        before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))
        (pid, _), = t.samples
        self.assert_depth(t, pid, 10)
        self.assertIn("--off-cpu needs CAP_PERFMON", self.said)

    def test_without_perf_events_states_come_from_counters(self):
        r = self.run_command(NOPERF, COMMAND, "record", "-v", "-o", self.path, "--", TARGET, "states", "1500")
        if r.returncode == 77:
            self.skipTest("no seccomp here")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertRegex(r.stderr, r"cpu: states from counters \[ms\], no samples: 50 .*seccomp")
        self.assertIn("sound", self.run_command(COMMAND, "verify", self.path).stdout)
        t = Trace(self.path)
        self.assertEqual(len(t.samples), 0)
        for line in r.stdout.splitlines():
            tid, name, ran, waited = line.split()
            seconds = t.seconds(t.thread(name))
            # A thread's first and last interval are not seen.
            self.assertLess(seconds["running"], int(ran) / 1e9 + 0.05, line)
            if int(ran) / 1e9 > 0.3:
                self.assertGreater(seconds["running"], 0.5 * int(ran) / 1e9, line)
            self.assertLess(seconds["waiting for a CPU"], int(waited) / 1e9 + 0.05, line)

    def test_without_perf_events_what_is_refused_is_not_advised(self):
        r = self.run_command(NOPERF, COMMAND, "record", "-v", "-o", self.path, "--off-cpu", "--page-faults", "--", TARGET,
                             "states", "300")
        if r.returncode == 77:
            self.skipTest("no seccomp here")
        said = " ".join(r.stderr.split())
        self.assertIn("--off-cpu dropped", said)
        self.assertIn("--page-faults dropped", said)
        advice = said[said.rindex("self-cost: "):]
        self.assertNotIn("CPU samples were recorded", advice)
        self.assertIn("--cpu-timers samples", advice)
        self.assertNotIn("--off-cpu", advice)

    # ---- jobs of several ranks ----

    def test_ranks_of_a_job_are_analysed_together(self):
        for rank in (0, 1):
            r = subprocess.run([COMMAND, "record", "-o", self.path, "--", "true"], capture_output=True, text=True,
                               env={**self.environment, "RANK": str(rank), "WORLD_SIZE": "2"}, timeout=120, check=False)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertNotIn("ckineto info", r.stderr)
            self.assertEqual(f"for all ranks: ckineto {os.path.dirname(self.path)}/" in r.stderr, rank == 0, r.stderr)

    # ---- programs that run already ----

    def watch(self, *options, program=("threads", "1500"), wait=0.4):
        p = subprocess.Popen([TARGET, *program], env=self.environment)
        time.sleep(wait)
        r = self.run_command(COMMAND, "record", "-o", self.path, "--pid", str(p.pid), *options)
        p.wait()
        self.said = r.stdout + r.stderr
        self.assertEqual(r.returncode, 0, self.said)
        self.assertRegex(self.run_command(COMMAND, "verify", self.path).stdout, "sound")
        return Trace(self.path), p.pid

    def test_a_running_program(self):
        t, pid = self.watch()
        self.assertEqual({p for p, _ in t.states}, {pid})
        with open(self.path, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["ckineto_attached_pid"], pid)
        computes = t.seconds(t.thread("computes"))
        self.assertGreater(computes["running"], 2 * computes["blocked"])
        for name in ("sleeps", "waits"): # as long as they are watched, which may begin late
            seconds = t.seconds(t.thread(name))
            self.assertGreater(seconds["blocked"], 0.8 * sum(seconds.values()))
        spins = [e for e in t.samples[t.thread("computes")] if e["name"] == "spin"]
        sampled = sum(e["args"]["cpu_ns"] for e in spins) / 1e9
        self.assertAlmostEqual(sampled, computes["running"], delta=0.25 * computes["running"] + 0.05)
        life = [e for e in t.states[t.thread("sleeps")]]
        self.assertLess(sum(e["dur"] for e in life) / 1e6, 1.3)  # it began before

    def test_what_a_running_program_starts_is_watched_too(self):
        p = subprocess.Popen(["sh", "-c", f"sleep 0.5; {TARGET} deep 5 300"], env=self.environment)
        r = self.run_command(COMMAND, "record", "-o", self.path, "--pid", str(p.pid))
        p.wait()
        self.assertEqual(r.returncode, 0, r.stderr)
        t = Trace(self.path)
        found = [pid for pid, _ in t.samples if pid != p.pid]
        self.assertEqual(len(found), 1)
        self.assert_depth(t, found[0], 5)

    def test_a_running_program_for_a_time_and_until_ctrl_c(self):
        t, _ = self.watch("--seconds", "0.3")
        self.assertLess(max(e["ts"] + e["dur"] for l in t.states.values() for e in l), 1.2e6 + min(
            e["ts"] for l in t.states.values() for e in l))
        target = subprocess.Popen([TARGET, "threads", "3000"], env=self.environment)
        p = subprocess.Popen([COMMAND, "record", "-o", self.path, "--pid", str(target.pid)], env=self.environment,
                             stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        p.send_signal(signal.SIGINT)
        said = p.communicate()[1]
        self.assertIsNone(target.poll(), "the program goes on")
        target.kill()
        target.wait()
        self.assertEqual(p.returncode, 0, said)
        self.assertGreater(len(Trace(self.path).states), 2)

    def test_mistakes_with_pid(self):
        for options, word in ((("--pid", "0"), "number of a process"), (("--pid", "1", "--", "true"), "in place of"),
                              (("--pid", "1", "--memory"), "trigger --pid"), (("--seconds", "1", "--", "true"), "--pid"),
                              (("--pid", "4194301"), "no process 4194301"),
                              (("--pid", str(os.getpid()), "--cpu", "off"), "--cpu off"),
                              (("--pid", "1", "--seconds", "x"), "--seconds")):
            r = self.run_command(COMMAND, "record", "-o", self.path, *options)
            self.assertEqual(r.returncode, 125, options)
            self.assertIn(word, r.stderr)

    # ---- the rate ----

    def test_what_samples_do_not_cover_is_said(self):
        """A process that ends before its first sample is due has none; one long one is all covered."""
        short = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done"
        self.record("sh", "-c", f"{TARGET} deep 3 200; {short}", options=("--cpu", "50"))
        found = re.search(r"samples stand for ([\d.]+) ms of ([\d.]+ m?s) of running", self.said)
        self.assertTrue(found, self.said)
        self.record(TARGET, "deep", "3", "500")
        self.assertNotIn("samples stand for", self.said)

    def test_measuring_the_cost_of_samples_takes_no_room(self):
        """All of these samples fit into the ring of an ordinary user, even if nothing is read before the end."""
        t = self.record(TARGET, "deep", "3", "450")
        (_, samples), = t.samples.items()
        self.assertGreater(sum(e["args"]["samples"] for e in samples if e["name"] == "main"), 32, "when the cost is measured")
        self.assertNotIn("lost by the kernel", self.said)

    def test_the_budget_lowers_the_rate(self):
        t = self.record(TARGET, "deep", "3", "1500", options=("--cpu", "4999", "--budget", "0.5%"))
        rate = re.search(r"samples a second, lowered for --budget: ([\d,]+) \(from 4,?999", self.said)
        self.assertTrue(rate, self.said)
        self.assertLess(int(rate[1].replace(",", "")), 3000)
        (thread, samples), = t.samples.items()
        total = sum(e["args"]["cpu_ns"] for e in samples if e["name"] == "main")
        self.assertAlmostEqual(total / 1e9 / t.seconds(thread)["running"], 1, delta=0.15)

    def test_threads_of_all_ages_are_sampled_at_the_lower_rate(self):
        t = self.record(TARGET, "states", "1500", options=("--cpu", "4999", "--budget", "0.5%"))
        self.assertIn("lowered for --budget", self.said)
        for name in ("computes-a", "computes-b", "computes-c"):
            thread = t.thread(name)
            spun = sum(e["args"]["cpu_ns"] for e in t.samples[thread] if e["name"] == "spin") / 1e9
            self.assertAlmostEqual(spun, t.seconds(thread)["running"], delta=0.3 * spun + 0.05, msg=name)

    # ---- what would record more ----

    def test_advice_follows_from_what_the_program_had_in_memory(self):
        self.record(sys.executable, "-c", "sum(range(3000000))")  # not by a script that finds it
        self.assertRegex(self.said, r"used nothing else that [^\.]*option\.\n  - it runs Python: --python records")
        self.assertRegex(self.said, r"\n  record more: ckineto record --python --waits -- ")
        self.record(TARGET, "deep", "3", "50")
        self.assertIn("--waits records what", self.said)
        self.assertNotIn("it runs Python", self.said)
        self.assertIn(f"record more: ckineto record --waits -- ", self.said)

    # ---- the recorder dies ----

    def test_what_a_killed_recorder_had_is_recovered(self):
        p = subprocess.Popen([COMMAND, "record", "-q", "-o", self.path.replace("trace", "killed"), "--", TARGET, "deep", "3", "1500"],
                             env=self.environment, cwd=self.folder.name)
        time.sleep(1)
        p.send_signal(signal.SIGKILL)
        p.wait()
        time.sleep(0.2)
        raw = re.search(rf"/\S+-{p.pid}-\w+\.pool", self.run_command(COMMAND, "recover", cwd=self.folder.name).stdout)
        self.assertTrue(raw)
        r = self.run_command(COMMAND, "recover", "--remove", "-o", self.path, raw.group(0), cwd=self.folder.name)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        t = Trace(self.path)
        self.assertTrue(any(e["name"] == "spin" for list_ in t.samples.values() for e in list_))


if __name__ == "__main__":
    unittest.main()
