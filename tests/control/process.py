"""A program that is linked with the library is asked for traces of itself: by its own request, by what its
environment says, across forks and at its end. What the inside promises is in test_process.c."""

import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

COMMAND = os.environ.get("CKINETO", "")
THREADS_CHECKED = os.environ.get("CKINETO_THREADS_CHECKED", "0") == "1"
TARGET = os.environ.get("CKINETO_TARGET", "")

if not (COMMAND and TARGET):
    print("run by ctest, which says where the programs are: skipped")
    sys.exit(77)

HANGS_S = 60  # only against hanging: a machine may be slow
NOW = "ACTIVITIES_WARMUP_PERIOD_SECS=0; "


def until(condition):
    end = time.monotonic() + HANGS_S
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


def control_threads(pid):
    """How many of its threads listen."""
    names = []
    for path in glob.glob(f"/proc/{pid}/task/*/comm"):
        try:
            with open(path, encoding="utf-8") as file:
                names.append(file.read().strip())
        except OSError:
            pass
    return names.count("ckineto-control")


class Target:
    """The program, controlled line by line."""

    def __init__(self, here, *options, prefix=(), **environment):
        self.here = here
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CKINETO", "KINETO")) or k == "CKINETO_CPU"}
        env.update(XDG_RUNTIME_DIR=here, KINETO_IPC_SOCKET_DIR=here, KINETO_CONFIG=f"{here}/none",
                   KINETO_ONDEMAND_TRACE_DIR=here, KINETO_LOG_LEVEL="2")
        env.update(environment)
        self.errors = open(f"{here}/errors", "w+", encoding="utf-8")
        self.process = subprocess.Popen([*prefix, TARGET, "--stdin", *options], env=env, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.lines = []
        self.pid = int(self.hear("ready")[1])

    def tell(self, line):
        self.process.stdin.write(line + "\n")

    def hear(self, *begin):
        """The words of the next line that begins so; those before it are kept."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"it ended before it said {begin}: {self.lines}, {self.said()}")
            words = line.split()
            self.lines.append(line.strip())
            if words[0] in begin:
                return words

    def wait_steps(self, count):
        """Until it has begun N."""
        end = time.monotonic() + HANGS_S
        self.tell("steps")
        while int(self.hear("steps")[1]) < count and time.monotonic() < end:
            time.sleep(0.005)
            self.tell("steps")

    def hear_stage(self, *names):
        while True:
            words = self.hear("stage")
            if words[3] in names:
                return words
            if words[3] in ("written", "failed", "cancelled", "refused"):
                raise AssertionError(f"{words} instead of {names}: {self.lines}, {self.said()}")

    def request(self, text):
        self.tell("request " + text)

    def trace(self):
        """What was written, and its window."""
        with open(self.hear_stage("written")[6], encoding="utf-8") as file:
            trace = json.load(file)
        return trace, trace["ckineto"]["window"]

    def said(self):
        self.errors.flush()
        with open(self.errors.name, encoding="utf-8") as file:
            return file.read()

    def end(self):
        """Its status, when its input has ended."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.lines += rest.splitlines()
        status = self.process.wait(HANGS_S)
        self.process.stdout.close()
        self.errors.close()
        return status


def named(trace, begin):
    return [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["name"].startswith(begin)]


# ---- each of these is a test; they run side by side, since most of their time they wait ------------------

def a_file_for_n_milliseconds(t, here):
    p = Target(here, "--threads", "1")
    asked = time.time_ns()
    p.request(f"{NOW}ACTIVITIES_DURATION_MSECS=100; ACTIVITIES_LOG_FILE={here}/by time=.json")
    begin = int(p.hear_stage("collect")[4])
    path = p.hear_stage("written")
    t.assertEqual(" ".join(path[6:8]), f"{here}/by time=_{p.pid}.json")
    with open(f"{here}/by time=_{p.pid}.json", encoding="utf-8") as file:
        trace = json.load(file)
    window = trace["ckineto"]["window"]
    events = [float(e["ts"]) * 1000 + trace["baseTimeNanoseconds"] for e in named(trace, "")]
    if events:
        print(f"first event {(min(events) - asked) / 1e6:.3f} ms after the request was said")
    t.assertGreaterEqual(window[0], begin)
    if window[0] < begin + 100_000_000:
        t.assertEqual(window[1], begin + 100_000_000)
    checked = subprocess.run([COMMAND, "verify", f"{here}/by time=_{p.pid}.json"], capture_output=True, check=False)
    if events:
        t.assertEqual(checked.returncode, 0, checked.stdout)
    t.assertEqual(p.end(), 0)


def a_snapshot_of_memory_needs_no_client(t, here):
    p = Target(here, KINETO_LOG_LEVEL="4")
    p.request(f"PROFILE_MEMORY=1; PROFILE_MEMORY_DURATION_MSECS=20; ACTIVITIES_LOG_FILE={here}/memory.json")
    p.hear_stage("written")
    t.assertEqual(p.end(), 0)
    t.assertTrue(os.path.getsize(f"{here}/memory_{p.pid}.json"))
    with open(f"{here}/errors", encoding="utf-8") as file:
        t.assertEqual(file.read(), "")


def several_begin_at_the_same_time(t, here):
    targets = [Target(here, "--spin", "1") for _ in range(4)]
    at_ms = int(time.time() * 1000) + 2000  # a loaded machine takes its time to ask
    for p in targets:
        p.request(f"{NOW}PROFILE_START_TIME={at_ms}; ACTIVITIES_DURATION_MSECS=50; ACTIVITIES_LOG_FILE={here}/t.json")
    windows = [p.trace()[1] for p in targets]
    late = [(w[0] - at_ms * 1_000_000) / 1e6 for w in windows]
    print(f"windows began after the requested time, in ms: {late}")
    for window in windows:
        t.assertGreaterEqual(window[0], at_ms * 1_000_000)
        if window[0] == at_ms * 1_000_000:
            t.assertEqual(window[1], (at_ms + 50) * 1_000_000)
    for p in targets:
        t.assertEqual(p.end(), 0)


def whole_iterations(t, here):
    p = Target(here)
    p.wait_steps(2)
    p.request(f"ACTIVITIES_ITERATIONS=4; ACTIVITIES_WARMUP_ITERATIONS=2; ACTIVITIES_LOG_FILE={here}/i.json")
    trace, _ = p.trace()
    steps = named(trace, "ProfilerStep#")
    numbers = [int(s["name"].partition("#")[2]) for s in steps]
    t.assertEqual(numbers, list(range(numbers[0], numbers[0] + 4)))
    for step in steps:
        t.assertNotIn("started", step.get("args", {}))
        t.assertNotIn("finished", step.get("args", {}))
    inside = named(trace, "iteration")
    t.assertEqual([e["name"] for e in inside], [f"iteration {n}" for n in numbers])
    t.assertEqual(p.end(), 0)


def shapes_and_stacks_if_asked(t, here):
    p = Target(here)
    p.wait_steps(2)
    p.request(f"ACTIVITIES_ITERATIONS=2; PROFILE_REPORT_INPUT_SHAPES=true; PROFILE_WITH_STACK=true; "
              f"ACTIVITIES_LOG_FILE={here}/s.json")
    trace, _ = p.trace()
    ops = named(trace, "aten::mm")
    t.assertEqual(ops[0]["args"]["Input Dims"], [[8, 8], [8, 8]])
    t.assertEqual(trace.get("record_shapes"), 1)
    t.assertEqual(trace.get("with_stack"), 1)
    t.assertEqual(p.end(), 0)


def busy_and_bad_requests_are_refused(t, here):
    p = Target(here)
    p.request(f"{NOW}ACTIVITIES_DURATION_SECS=600; ACTIVITIES_LOG_FILE={here}/a.json")
    p.hear_stage("collect")
    t.assertEqual(p.hear("request")[1], "0")
    p.request(NOW)
    answer = p.hear("request")
    t.assertNotEqual(answer[1], "0")
    t.assertEqual(answer[3], "busy:")
    p.request("ACTIVITIES_ENABLED=true; ACTIVITIES_DURATION_MSECS=soon")
    answer = p.hear("request")
    t.assertIn("line 2", " ".join(answer))
    p.tell("cancel")
    _, window = p.trace()
    t.assertTrue(0 < window[1] - window[0] < 600 * 10**9)
    t.assertEqual(p.end(), 0)


def the_programs_own_profile_comes_first(t, here):
    p = Target(here)
    p.request(f"{NOW}ACTIVITIES_DURATION_SECS=600; ACTIVITIES_LOG_FILE={here}/a.json")
    p.hear_stage("collect")
    p.tell("profile 50")
    p.hear_stage("cancelled")
    words = p.hear("profiled")
    t.assertEqual(words[1], "0")
    t.assertGreater(int(words[2]), 0)
    p.request(f"{NOW}ACTIVITIES_DURATION_MSECS=20; ACTIVITIES_LOG_FILE={here}/b.json")
    p.trace()
    t.assertEqual(glob.glob(f"{here}/a*"), [])
    t.assertEqual(p.end(), 0)


def what_was_collected_at_the_end_is_written(t, here):
    p = Target(here)
    p.request(f"{NOW}ACTIVITIES_DURATION_SECS=600; ACTIVITIES_LOG_FILE={here}/a.json")
    p.hear_stage("collect")
    p.tell("exit 7")
    _, window = p.trace()
    t.assertTrue(0 < window[1] - window[0] < 600 * 10**9)
    t.assertEqual(p.end(), 7)


def what_was_collected_is_lost_by__exit(t, here):
    p = Target(here)
    p.request(f"{NOW}ACTIVITIES_DURATION_SECS=600; ACTIVITIES_LOG_FILE={here}/a.json")
    p.hear_stage("collect")
    p.tell("_exit 3")
    t.assertEqual(p.end(), 3)
    t.assertEqual(glob.glob(f"{here}/a*"), [])


def it_listens_where_the_environment_says_so(t, here):
    p = Target(here, CKINETO_CONTROL="socket, file=%s/touch" % here)
    t.assertTrue(os.path.exists(f"{here}/ckineto/{p.pid}.sock"))
    t.assertTrue(until(lambda: control_threads(p.pid) == 1))
    p.tell("running")
    t.assertEqual(p.hear("running")[1], "1")
    p.tell("start socket")
    t.assertNotEqual(p.hear("start")[1], "0")
    p.tell("stop")
    p.hear("stopped")
    t.assertFalse(os.path.exists(f"{here}/ckineto/{p.pid}.sock"))
    t.assertEqual(control_threads(p.pid), 0)
    p.tell("start socket")
    t.assertEqual(p.hear("start")[1], "0")
    t.assertEqual(p.end(), 0)
    t.assertEqual(os.listdir(f"{here}/ckineto"), [])


def it_ends_with_its_last_thread_though_the_main_one_left(t, here):
    if THREADS_CHECKED:  # the thread sanitizer has a thread of its own, which does not end
        return
    p = Target(here, "--leave", CKINETO_CONTROL="socket", CKINETO_RING="mb=1")
    t.assertTrue(until(lambda: control_threads(p.pid) == 1))
    p.wait_steps(2)
    t.assertEqual(p.end(), 0)
    t.assertEqual(os.listdir(f"{here}/ckineto"), [])


def bad_words_are_said_and_the_rest_holds(t, here):
    p = Target(here, CKINETO_CONTROL="shout,socket,signal=NONE,file=")
    t.assertTrue(os.path.exists(f"{here}/ckineto/{p.pid}.sock"))
    said = p.said()
    for word in ("'shout'", "'signal=NONE'", "'file='"):
        t.assertIn(word, said)
    t.assertIn("use socket, daemon, signal", said)
    t.assertEqual(p.end(), 0)


def a_daemon_is_polled_if_requested(t, here):
    def listens(expected, **environment):
        p = Target(here, "--no-step", **environment)
        p.tell("running")
        t.assertEqual(p.hear("running")[1], str(expected))
        t.assertTrue(until(lambda: control_threads(p.pid) == expected))
        p.end()

    for name, value in (("on", "true"), ("off", "false")):
        with open(f"{here}/{name}.conf", "w", encoding="utf-8") as file:
            file.write(f"ENABLE_IPC_FABRIC={value}\n")
    listens(0)
    listens(1, KINETO_USE_DAEMON="")
    listens(1, KINETO_CONFIG=f"{here}/on.conf")
    listens(0, KINETO_CONFIG=f"{here}/off.conf", KINETO_USE_DAEMON="1")


def children_of_a_fork_listen_when_they_go_on(t, here):
    if THREADS_CHECKED:  # the thread sanitizer does not allow for threads of a fork's child
        return
    p = Target(here, CKINETO_CONTROL="socket")
    p.tell("fork")
    child = int(p.hear("forked")[1])
    t.assertTrue(until(lambda: os.path.exists(f"{here}/ckineto/{child}.sock")))
    t.assertTrue(os.path.exists(f"{here}/ckineto/{p.pid}.sock"))
    os.kill(child, 15)
    t.assertTrue(until(lambda: not os.path.exists(f"{here}/ckineto/{child}.sock")))
    t.assertEqual(p.end(), 0)


def children_of_children_listen_too(t, here):
    if THREADS_CHECKED:
        return
    p = Target(here, CKINETO_CONTROL="socket")
    p.tell("fork twice")
    child = int(p.hear("forked")[1])
    t.assertTrue(until(lambda: os.path.exists(f"{here}/ckineto/{child}.sock")))
    os.kill(child, 15)
    t.assertEqual(p.end(), 0)


def one_that_takes_our_descriptors_keeps_its_files_and_is_heard(t, here):
    p = Target(here, CKINETO_CONTROL=f"socket,signal,file={here}/touch", CKINETO_RING="mb=1,slow-step=3,hang=60",
               KINETO_USE_DAEMON="1")
    p.wait_steps(10)
    p.tell(f"swap {here}/its own")
    p.hear("swapped")
    p.request(f"{NOW}ACTIVITIES_DURATION_MSECS=20; ACTIVITIES_LOG_FILE={here}/after.json")
    p.trace()
    t.assertTrue(until(lambda: os.path.exists(f"{here}/ckineto/{p.pid}.sock")))
    asked = subprocess.run([COMMAND, "trigger", "--pid", str(p.pid), "-d", "20", "-o", f"{here}/asked.json", "--wait"],
                           env=dict(os.environ, XDG_RUNTIME_DIR=here), capture_output=True, text=True, check=False)
    t.assertEqual(asked.returncode, 0, asked.stderr)
    t.assertEqual(p.end(), 0)
    t.assertEqual(os.path.getsize(f"{here}/its own"), 0)


def the_command_itself_never_listens(t, here):
    env = dict(os.environ, CKINETO_CONTROL="socket,daemon", KINETO_USE_DAEMON="1", XDG_RUNTIME_DIR=here,
               KINETO_IPC_SOCKET_DIR=here)
    p = subprocess.Popen([COMMAND, "record", "-o", f"{here}/r.json", "--", "sleep", "0.3"], env=env,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.2)
    t.assertIsNone(p.poll())
    t.assertEqual(control_threads(p.pid), 0)
    t.assertEqual(glob.glob(f"{here}/ckineto/*"), [])
    t.assertEqual(p.wait(HANGS_S), 0)


def a_recorded_program_is_asked_as_well(t, here):
    p = Target(here, "--threads", "1", prefix=(COMMAND, "record", "-o", f"{here}/all.json", "--"))
    p.wait_steps(2)
    p.request(f"ACTIVITIES_ITERATIONS=3; ACTIVITIES_LOG_FILE={here}/part.json")
    trace, _ = p.trace()
    t.assertEqual(len(named(trace, "ProfilerStep#")), 3)
    t.assertEqual(p.end(), 0)
    with open(f"{here}/all.json", encoding="utf-8") as file:
        whole = json.load(file)
    t.assertGreater(len(named(whole, "ProfilerStep#")), 3)


TESTS = [several_begin_at_the_same_time, a_file_for_n_milliseconds, whole_iterations,
         shapes_and_stacks_if_asked, a_snapshot_of_memory_needs_no_client,
         busy_and_bad_requests_are_refused, the_programs_own_profile_comes_first,
         what_was_collected_at_the_end_is_written, what_was_collected_is_lost_by__exit,
         it_listens_where_the_environment_says_so,
         it_ends_with_its_last_thread_though_the_main_one_left, bad_words_are_said_and_the_rest_holds,
         a_daemon_is_polled_if_requested, children_of_a_fork_listen_when_they_go_on,
         children_of_children_listen_too, one_that_takes_our_descriptors_keeps_its_files_and_is_heard,
         the_command_itself_never_listens, a_recorded_program_is_asked_as_well]


class ProcessTest(unittest.TestCase):
    def test_all(self):
        def run(test):
            with tempfile.TemporaryDirectory(prefix="ckineto-process-") as here:
                test(self, here)

        with ThreadPoolExecutor(4) as pool:
            jobs = [(test.__name__, pool.submit(run, test)) for test in TESTS]
        for name, job in jobs:
            with self.subTest(name):
                job.result()


if __name__ == "__main__":
    unittest.main()
