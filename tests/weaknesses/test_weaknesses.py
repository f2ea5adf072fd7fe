"""What was found wrong with libkineto, asked of ours from outside: numbers are those of
docs/project/kineto-weaknesses.md. Where a unit test says it already, the page names that one.

Run by ctest, which says where the programs are (WEAKNESSES_PROGRAM, CKINETO, SIM_TRAINING, SIM_PLUGIN).
"""
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ.get("WEAKNESSES_PROGRAM")
CKINETO = os.environ.get("CKINETO")
TRAINING = os.environ.get("SIM_TRAINING")
PLUGIN = os.environ.get("SIM_PLUGIN")
SKIPPED = 77


def refuse(word):
    raise ValueError(f"{word} is not JSON")


def once(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key comes twice in {keys}")
    return dict(pairs)


def strict(text):
    """JSON as its standard says, and no key twice."""
    return json.loads(text, parse_constant=refuse, object_pairs_hook=once)


def until(condition, seconds=15):
    """Wait for what must come; the limit is only against hanging."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


class Weaknesses(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ckineto-weaknesses-")
        self.addCleanup(shutil.rmtree, self.directory, True)
        self.path = os.path.join(self.directory, "t.json")

    def run_here(self, *command, status=0, **options):
        done = subprocess.run(command, cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, timeout=100,
                              **options)
        if done.returncode == SKIPPED:
            self.skipTest(f"{command[1]} cannot be tried here")
        self.assertEqual(done.returncode, status, done.stderr.decode(errors="replace"))
        return done

    def text(self, path=None):
        with open(path or self.path, "rb") as file:
            return file.read().decode("utf-8")

    def way(self, name):
        """The trace that the program made of itself, and the numbers that it printed."""
        out = self.run_here(PROGRAM, name, self.path).stdout.split()
        return strict(self.text()), [int(word) for word in out]

    def converted(self, events, **header):
        """What becomes of a trace of another program."""
        source = os.path.join(self.directory, "source.json")
        with open(source, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, **header, "traceEvents": events}, file)
        self.run_here(CKINETO, "convert", source, "-o", self.path)
        return strict(self.text())

    @staticmethod
    def named(trace, name):
        return [e for e in trace["traceEvents"] if e.get("name") == name]

    def training(self):
        """A training on the software accelerator, with all that Kineto's traces have."""
        if not TRAINING:
            self.skipTest("the examples are not built")
        self.run_here(TRAINING, PLUGIN)
        made = [name for name in os.listdir(self.directory) if name.endswith(".json")]
        return strict(self.text(os.path.join(self.directory, made[0])))

    # ---- invalid or destroyed output ----------------------------------------------------------------

    def test_01_quotes_tabs_and_nan_leave_the_trace_valid(self):
        trace, _ = self.way("texts")
        event, = self.named(trace, "modèle::forward")
        self.assertEqual(event["args"]["quoted"], 'a "b" \\" c')
        self.assertEqual(event["args"]["Call stack"], "f(1)\n\tg(2)\x01")
        self.assertEqual(len(self.named(trace, 'say "now"')), 1)
        self.assertEqual(trace['user "key"'], {"said": 'a "quote" and \\ more'})
        self.assertEqual(self.named(trace, "loss")[0]["args"], {"nan": "nan", "inf": "inf", "one": 1.0})

    def test_02_names_of_any_bytes_stay_what_they_are(self):
        trace, _ = self.way("texts")
        self.assertEqual(len(self.named(trace, "modèle::forward")), 1)
        self.assertEqual(len(self.named(trace, "C:\\a\\b.py\nnext")), 1)
        self.assertEqual(self.named(trace, "modèle::forward")[0]["args"]["path"], "D:\\x\\y")
        self.assertEqual(len(self.named(trace, "\ufffd no text")), 1)  # no UTF-8: replaced, and counted
        self.assertIn(("text", "invalid UTF-8 replaced", 1),
                      [(line["source"], line["reason"], line["count"]) for line in trace["ckineto"]["ledger"]])

    def test_03_no_key_comes_twice(self):
        event, = self.named(self.way("ids")[0], "ids")  # strict() refuses two
        self.assertEqual(sorted(event["args"]),
                         ["External id", "External id (2)", "correlation", "correlation (2)"])

    def test_04_old_times_keep_their_order(self):
        times = [0, 1, 1_000_000, 86_400_000_000, 946_684_800_000_000]  # us: 1970 to 2000
        trace = self.converted([{"ph": "X", "cat": "cpu_op", "name": f"at {t}", "pid": 1, "tid": 1, "ts": t, "dur": 1}
                                for t in times])
        got = [self.named(trace, f"at {t}")[0]["ts"] for t in times]
        self.assertEqual([round(ts - got[0]) for ts in got], times)

    def test_05_negative_durations_are_counted_and_not_written(self):
        trace = self.converted([{"ph": "X", "cat": "Trace", "name": "span", "pid": "Spans", "tid": "PyTorch", "ts": 9,
                                 "dur": -5.1}])
        self.assertEqual(self.named(trace, "span")[0]["dur"], 0)
        self.assertIn("end before start: duration set to 0", [line["reason"] for line in trace["ckineto"]["ledger"]])

    def test_06_ids_have_64_bits(self):
        arguments = self.named(self.way("ids")[0], "ids")[0]["args"]
        self.assertEqual((arguments["External id"], arguments["correlation"]), ((1 << 63) + 1, (1 << 64) - 1))

    def test_07_row_minus_one_is_not_row_one(self):
        trace = self.converted([{"ph": "X", "cat": "kernel", "name": f"on {tid}", "pid": 0, "tid": tid, "ts": 5, "dur": 9}
                                for tid in (1, -1)])
        self.assertNotEqual(self.named(trace, "on 1")[0]["tid"], self.named(trace, "on -1")[0]["tid"])

    def test_08_arrows_have_both_ends(self):
        trace = self.training()
        flows = [(e["ph"], e["cat"], e["id"]) for e in trace["traceEvents"] if e["ph"] in "sf"]
        self.assertGreater(len(flows), 0)
        self.assertEqual(len(flows), len(set(flows)), "an id of a flow comes again")
        for phase, category, number in flows:
            self.assertIn(("f" if phase == "s" else "s", category, number), flows)

    def test_09_host_events_are_in_their_process(self):
        trace = self.training()
        named = {e["pid"] for e in trace["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name"}
        devices = {device["id"] for device in trace["deviceProperties"]}
        host = {e["pid"] for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "cpu_op"}
        self.assertEqual(len(host), 1)
        self.assertTrue(host <= named and not host & devices)

    def test_10_rows_are_those_that_are_there(self):
        trace, _ = self.way("nothing")
        self.assertEqual([e["name"] for e in trace["traceEvents"]], ["Record Window End"])
        trace = self.training()
        used = {e["pid"] for e in trace["traceEvents"] if e["ph"] not in "M" and e["pid"] != ""}
        self.assertEqual({e["pid"] for e in trace["traceEvents"] if e["ph"] == "M"}, used)

    def test_11_names_of_threads_are_their_own_and_of_this_trace(self):
        trace, _ = self.way("sessions")
        names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
        self.assertEqual(len([n for n in names if "thread of the second" in n]), 1)
        self.assertEqual(len(names), 2)
        self.assertFalse([n for n in names if "thread of the first" in n])
        self.assertNotIn("of the first", trace)

    def test_13_the_same_trace_is_the_same_bytes(self):
        self.training()
        source, = os.listdir(self.directory)
        written = []
        for turn in ("1", "2"):
            os.mkdir(os.path.join(self.directory, turn))
            path = os.path.join(self.directory, turn, "t.json")
            self.run_here(CKINETO, "convert", source, "-o", path, env={**os.environ, "MALLOC_PERTURB_": turn})
            with open(path, "rb") as file:
                written.append(file.read().replace(path.encode(), b""))
        self.assertEqual(*written)

    def test_14_overhead_and_spans_of_devices_are_saved(self):
        rows = [("overhead", "Command Buffer Full", -1), ("gpu_user_annotation", "forward", 7), ("kernel", "gemm", 7)]
        trace = self.converted([{"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": tid, "ts": 5, "dur": 9}
                                for cat, name, tid in rows])
        for cat, name, _ in rows:
            self.assertEqual([e["cat"] for e in self.named(trace, name)], [cat])

    # ---- failure handling ---------------------------------------------------------------------------

    def test_15_a_disk_that_is_full_is_an_error_and_the_old_file_stays(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("the old one")
        limit = 2048  # of a file: what a full disk does, without one
        self.run_here(PROGRAM, "texts", self.path, status=1,
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(self.text(), "the old one")
        self.assertEqual(os.listdir(self.directory), ["t.json"])

    # ---- IPC: the rest is in tests/control ------------------------------------------------------------

    def test_24_what_a_request_says_is_not_logged(self):
        if not os.path.isdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "control")):
            self.skipTest("a tree that does not listen")
        log, asked = (os.path.join(self.directory, name) for name in ("log", "asked"))
        environment = {**os.environ, "CKINETO_CONTROL": f"file={asked}", "KINETO_LOG_LEVEL": "0", "KINETO_LOG_FILE": log,
                       "KINETO_ONDEMAND_TRACE_DIR": self.directory}
        with subprocess.Popen([PROGRAM, "wait", self.path], env=environment, stdout=subprocess.PIPE) as program:
            program.stdout.readline()
            with open(asked + ".new", "w", encoding="utf-8") as file:
                file.write("ACTIVITIES_DURATION_MSECS=1\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                           f"ACTIVITIES_LOG_FILE={self.directory}/out.json\nCUSTOM_CONFIG=a-secret\nNO_KEY=a-secret\n")
            os.rename(asked + ".new", asked)
            written = until(lambda: os.path.exists(log) and "written" in self.text(log))
            with open(self.path, "w", encoding="utf-8"):
                pass
        self.assertTrue(written)
        self.assertNotIn("a-secret", self.text(log))

    # ---- CPU, memory, locks -------------------------------------------------------------------------

    def test_27_the_buffer_is_all_that_recording_takes(self):
        trace, (grown_kb,) = self.way("bounded")
        self.assertLess(grown_kb, 1024)  # it was all there before
        lines = [line for line in trace["ckineto"]["ledger"] if line["source"] == "program"]
        self.assertEqual(sum(line["count"] for line in lines), 500_000)
        self.assertGreater(sum(line["count"] for line in lines if line["loss"]), 0)

    def test_28_nothing_is_allocated_for_an_event_and_no_blanks_are_written(self):
        _, (events, recording, writing) = self.way("allocate")
        self.assertEqual(recording, 0)
        self.assertLess(writing, events / 1000)
        text = self.text()
        blanks = text.count(" ") + text.count("\n") + text.count("\t")
        self.assertLess(blanks, len(text) / 50)

    def test_30_writing_a_trace_blocks_no_thread(self):
        said = 0
        for _ in range(20):  # on one processor a short write may pass without a turn of the other thread
            said = max(said, int(self.run_here(PROGRAM, "meanwhile", self.path).stdout))
            if said > 10:
                break
        self.assertGreater(said, 10)

    def test_31_recording_never_enters_the_kernel(self):
        _, (events,) = self.way("calm")
        self.assertEqual(events, 20_001)

    def test_36_what_comes_out_of_order_costs_no_more(self):
        def cost(count):
            events = [{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": count - i, "dur": 0.5}
                      for i in range(count)]
            least = None
            for _ in range(3):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                self.converted(events)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                least = used if least is None else min(least, used)
            return least

        times = 8
        self.assertLess(cost(2500 * times), 4 * times * max(cost(2500), 0.005))  # the square would be 64

    def test_37_a_run_without_trouble_logs_nothing(self):
        for way in ("texts", "bounded", "sessions"):
            self.assertEqual(self.run_here(PROGRAM, way, self.path).stderr, b"")

    def test_38_every_switch_does_something(self):
        event, = self.named(self.way("switches")[0], "aten::add")
        self.assertFalse([key for key in event["args"] if "Concrete" in key])
        self.assertIn("41", str(event["args"]))  # the id of the tensor


if __name__ == "__main__":
    if not PROGRAM or not CKINETO:
        print("run by ctest, which says where the programs are: skipped")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
