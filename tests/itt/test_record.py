"""Programs that report to ITT, under the recorder: our own client, whose calls are known, our own state
ITT, and oneDNN, oneTBB and LLVM's OpenMP of Debian."""

import collections
import json
import os
import sys
import unittest

sys.path.insert(0, os.environ["CLI_TESTS"])
from command import CommandTest, main  # noqa: E402

CLIENT = os.environ["ITT_CLIENT"]
CROSSING = os.environ["ITT_CROSSING"]
SOURCE = os.environ["ITT_SOURCE"]
DNNL = os.environ.get("ITT_DNNL")
TBB = os.environ.get("ITT_TBB")
OPENMP = os.environ.get("ITT_OPENMP")
EMITTER = os.environ["EMIT_PROGRAM"]


class Record(CommandTest):
    def run_recorded(self, *command, **environment):
        env = {k: v for k, v in os.environ.items() if k != "INTEL_LIBITTNOTIFY64"}
        done = self.record(*command, env={**env, **environment}, text=True)
        self.trace = self.load()
        self.events = [e for e in self.trace["traceEvents"] if e["ph"] in "XiCbe"]
        return done

    def named(self, name, phase=None):
        return [e for e in self.events if e["name"] == name and phase in (None, e["ph"])]

    def only(self, name, phase=None):
        found = self.named(name, phase)
        self.assertEqual(len(found), 1, f"{name}: {found}")
        return found[0]

    def counted(self, reason):
        return sum(l["count"] for l in self.ledger() if l["source"] == "itt" and l["reason"] == reason)

    def thread_names(self, tid):
        return [e["args"]["name"] for e in self.trace["traceEvents"] if e["name"] == "thread_name" and e["tid"] == tid]

    def series(self, name):
        return [e["args"]["value"] for e in sorted(self.named(name, "C"), key=lambda e: e["ts"])]

    def check_tasks(self):
        outer, inner = self.only("outer"), self.named("inner", "X")
        self.assertEqual((outer["ph"], outer["cat"], outer["args"]), ("X", "user_annotation", {"domain": "library"}))
        self.assertEqual(len(inner), 100)
        self.assertTrue(all(outer["ts"] <= e["ts"] <= outer["ts"] + outer["dur"] for e in inner))
        self.assertEqual([e["args"].get("continued", False) for e in sorted(self.named("crossing"), key=lambda e: e["ts"])],
                         [False, True])
        self.assertEqual(self.only("with ids")["args"],
                         {"domain": "library", "id": 7, "id extra": 8, "parent": 5, "parent extra": 6})
        self.assertEqual(len(self.named("getpid") or self.named("__getpid")), 1)
        self.only("with a time", "X")
        self.assertEqual(self.counted("events with a time of their own"), 1)
        self.assertEqual(self.counted("pops without a push"), 1)
        self.assertEqual(self.only("foreign")["args"], {"domain": "library"})

    def check_spans(self):
        worker = self.named("on a thread", "X")
        self.assertEqual(len(worker), 50)
        self.assertIn("itt worker", self.thread_names(worker[0]["tid"])[0])
        for name in ("overlapped", "region", "user event"):
            self.assertEqual(sorted(e["ph"] for e in self.named(name)), ["b", "e"], name)
        self.assertEqual(self.counted("ends of ranges that are not open"), 1)
        frames = self.named("other", "X")
        self.assertEqual([e["args"] for e in frames], [{"frame": i} for i in range(1, 6)])
        self.assertTrue(all(e["dur"] >= 2000 for e in frames))
        self.assertEqual(sorted(e["ph"] for e in self.named("library")), ["b", "e"])

    def check_moments(self):
        self.assertEqual(self.only("marker")["ph"], "i")
        self.assertEqual(self.only("mark")["args"], {"payload": "parameter"})
        self.assertEqual(self.only("group", "i")["args"], {"domain": "library", "id": 9, "id extra": 9})

    def check_metadata(self):
        self.assertEqual(self.only("with metadata")["args"], {
            "domain": "library", "one": -5, "list": [1, 2, 3], "number": 1.5, "numbers": [0.5, 0.25], "small": 65535,
            "text": "cut", "whole": "whole", "metadata": "shape 3 x 4, f32", "child of": 42})
        self.assertEqual(self.counted("metadata of unknown type"), 1)
        self.assertEqual(self.only("name of a group", "i")["args"],
                         {"domain": "library", "payload": "g", "id": 9, "id extra": 9})

    def check_counters(self):
        self.assertEqual(self.series("library: bytes"), [1, 11, 7])
        self.assertEqual(self.series("library: degrees"), [2.5])
        self.assertEqual(self.series("library: third"), [1000])
        self.assertEqual(self.series("library: named"), [3, 6])
        self.assertEqual(self.counted("histograms"), 3)

    def check_waits(self):
        wait = self.only("wait for a synchronization object")
        self.assertEqual((wait["cat"], wait["args"]["object"], wait["args"]["type"]),
                         ("blocking_call", "the lock", "mutex"))
        self.assertGreaterEqual(wait["dur"], 5000)

    def check_pauses(self):
        self.only("before the pause")
        self.only("after the pause")
        self.assertEqual(self.named("during the pause"), [])
        self.assertEqual(sorted(e["ph"] for e in self.named("ITT paused")), ["b", "e"])

    def check_children(self):
        self.assertNotEqual(self.only("around a fork")["pid"], self.only("in the child")["pid"])

    def test_every_call_is_in_the_trace(self):
        done = self.run_recorded(CLIENT)
        self.assertEqual(done.returncode, 0, done.err)
        for check in (self.check_tasks, self.check_spans, self.check_moments, self.check_metadata, self.check_counters,
                      self.check_waits, self.check_pauses, self.check_children):
            with self.subTest(check.__name__):
                check()
        self.assertEqual(self.lost(), 1)  # the metadata of unknown type

    def test_another_collector_keeps_its_place(self):
        self.run_recorded(CLIENT, INTEL_LIBITTNOTIFY64="/nonexistent.so")
        self.assertEqual(self.events and [e for e in self.events if e["ph"] != "i"], [])
        self.assertEqual([l["count"] for l in self.ledger() if l["source"] == "itt" and l["reason"] == "stood aside"], [1])

    def test_ranges_of_two_interfaces_keep_their_lengths(self):
        """Property: whatever crosses what, trace and table have the lengths of the program's own log."""
        for seed in range(1, 5):
            done = self.run_recorded(CROSSING, str(seed))
            self.assertEqual((done.returncode, self.lost()), (0, 0), done.err)
            pieces = sum(l["count"] for l in self.ledger() if l["reason"] == "ranges continued as another piece")
            self.assertGreater(pieces, 100)
            sums = collections.Counter()
            for e in self.events:
                sums[e["name"]] += e.get("dur", 0) * 1000
            self.run_command("analyze", "--only", "annotations", "--json=a.json", "t.json")
            with open(self.path("a.json")) as f:
                table = json.load(f)["tables"]["annotations"]
            rows = {row["name"]: row for row in (dict(zip(table["columns"], row)) for row in table["rows"])}
            for line in done.out.splitlines():
                name, *bounds = line.split(",")
                count, least_ns, most_ns = map(int, bounds)
                room_ns = 1000 * count + most_ns / 1000  # clocks, and times with three digits of us
                for ns in (sums[name], rows[name]["sum_us"] * 1000):
                    self.assertGreaterEqual(ns, least_ns - room_ns, (seed, name))
                    self.assertLessEqual(ns, most_ns + room_ns, (seed, name))
                self.assertEqual(rows[name]["count"], count, (seed, name))

    def test_a_program_works_without_a_recording(self):
        code = os.spawnve(os.P_WAIT, CLIENT, [CLIENT], {**os.environ, "INTEL_LIBITTNOTIFY64": SOURCE})
        self.assertEqual(code, 0)

    def test_a_collector_is_announced_on_request(self):
        self.assertEqual(self.run_recorded(CLIENT, CKINETO_ITT="announce").returncode, 0)

    def test_our_own_state_itt_is_recorded(self):
        done = self.run_recorded(EMITTER, "itt", "ranges", "3")
        self.assertEqual(done.returncode, 0, done.err)
        outer = [e for e in self.events if e["name"].startswith("outer ") and e["ph"] == "X"]
        inner = [e for e in self.events if e["name"].startswith("inner ") and e["ph"] == "X"]
        self.assertEqual((len(outer), len(inner), len(self.named("between", "i"))), (150, 150, 150))
        self.assertEqual({e["args"]["domain"] for e in outer + inner}, {"ckineto"})
        self.assertEqual(self.lost(), 0)

    @unittest.skipUnless(DNNL, "oneDNN is not installed")
    def test_onednn_reports_its_primitives(self):
        done = self.run_recorded(DNNL, "25", OMP_NUM_THREADS="1")
        if done.returncode == 77:
            self.skipTest(done.err)
        products = self.named("matmul", "X")
        if not products:
            self.skipTest("this oneDNN is built without ITT")
        self.assertEqual(len(products), 25)
        self.assertEqual(int(done.out.splitlines()[0]), 25)
        self.assertTrue(all("dnnl" in e["args"]["domain"] for e in products))

    @unittest.skipUnless(TBB, "oneTBB is not installed")
    def test_onetbb_reports_algorithms_names_and_waits(self):
        done = self.run_recorded(TBB, "12")
        self.assertEqual(int(done.out.splitlines()[0]), 12)
        self.assertEqual(len(self.named("tbb_parallel_for", "i")), 12)  # one group for each call
        bodies = self.named("body", "X")
        self.assertEqual((len(bodies), {e["args"]["domain"] for e in bodies}), (3, {"tbb.flow"}))
        self.assertIn("the node", [e.get("args", {}).get("payload") for e in self.events])
        waits = [e for e in self.named("wait for a synchronization object") if e["args"]["object"] == "the lock"]
        self.assertEqual(len(waits), 1)
        self.assertGreaterEqual(waits[0]["dur"], 40000)
        self.assertEqual(self.lost(), 0)

    def openmp_frames(self, what):
        return [e for e in self.events if e["ph"] == "X" and f"$omp${what}" in e["name"]]

    @unittest.skipUnless(OPENMP, "clang or LLVM's OpenMP is not installed")
    def test_openmp_reports_regions_and_barriers(self):
        done = self.run_recorded(OPENMP, "30", OMP_TOOL="disabled")  # else it reports to our tool for OpenMP
        self.assertEqual((done.returncode, done.out.split()[:1]), (0, ["30"]), done.err)
        if not self.events:
            self.skipTest("this OpenMP is built without ITT")
        self.assertEqual(len(self.openmp_frames("parallel")), 31)
        self.assertEqual(len([e for e in self.events if e["name"] == "omp_metadata_loop"]), 30)
        self.assertEqual(self.lost(), 0)

    @unittest.skipUnless(OPENMP, "clang or LLVM's OpenMP is not installed")
    def test_openmp_is_left_to_a_tool_of_ours(self):
        tool = self.path("ckineto-tool.so")  # there is none: the runtime goes on
        done = self.run_recorded(OPENMP, "30", OMP_TOOL_LIBRARIES=tool)
        self.assertEqual((done.returncode, done.out.split()[:1]), (0, ["30"]), done.err)
        self.assertEqual(self.openmp_frames(""), [])
        self.run_recorded(OPENMP, "30", OMP_TOOL_LIBRARIES=tool, OMP_TOOL="disabled")
        self.assertEqual(len(self.openmp_frames("parallel")), 31)


if __name__ == "__main__":
    main()
