"""ckineto slice: a part of a trace, by every option, read back by another JSON parser."""

import glob
import gzip
import json
import os
import re
import unittest

from command import CommandTest, main

TRACES = os.environ.get("CKINETO_TRACES", "")
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data")
STEPS = 4


def event(name, cat, pid, tid, ts, dur, **args):
    return {"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def training():
    """Steps of 1000 us on one thread, each with an operator, a launch, and a kernel that ends in the next."""
    events = []
    for n in range(STEPS):
        at = 1000 * n
        events += [event(f"ProfilerStep#{n}", "user_annotation", 100, 1, at, 1000),
                   event("aten::mm", "cpu_op", 100, 1, at + 100, 300, **{"External id": n + 1}),
                   event("cudaLaunchKernel", "cuda_runtime", 100, 1, at + 200, 50, correlation=n + 1),
                   {"ph": "s", "id": n + 1, "pid": 100, "tid": 1, "ts": at + 200, "cat": "ac2g", "name": "ac2g"},
                   event("gemm", "kernel", 0, 7, at + 600, 500, correlation=n + 1, device=0, stream=7),
                   {"ph": "f", "id": n + 1, "pid": 0, "tid": 7, "ts": at + 600, "cat": "ac2g", "name": "ac2g",
                    "bp": "e"}]
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Tesla"}],
            "distributedInfo": {"backend": "nccl", "rank": 5, "world_size": 8},
            "baseTimeNanoseconds": 1700000000000000000, "traceEvents": events}


class Slice(CommandTest):
    def slice(self, *options, data=None, status=0):
        with open(self.path("in.json"), "w", encoding="utf-8") as f:
            json.dump(data or training(), f)
        done = self.run_command("slice", "in.json", "-o", "t.json", *options)
        self.assertEqual(done.returncode, status, done.err)
        self.said = done.err.decode()
        return [e["name"] for e in self.slices()] if not status else []

    def flows(self):
        return [e for e in self.load()["traceEvents"] if e["ph"] in "sf"]

    def test_times_are_relative_absolute_or_percent(self):
        # The window is 4.1 ms: what is there from 1.15 ms up to 1.5 ms.
        wanted = ["ProfilerStep#1", "aten::mm", "cudaLaunchKernel"]
        for text in ("+1.15ms:+1.5ms", "+1150us:+1500000ns", "1700000000001150000:1700000000001500000",
                     "1700000000.00115s:1700000000.0015s", "-2.95ms:-2.6ms", "+0.00115s:+1500us"):
            self.assertEqual(self.slice("--time", text), wanted, text)
        self.assertEqual(len(self.slice("--time", "0%:100%")), 4 * STEPS)
        self.assertEqual(len(self.slice("--time", ":")), 4 * STEPS)
        self.assertEqual(self.slice("--time", "95%:"), ["ProfilerStep#3", "gemm"])
        self.assertEqual(self.slice("--time", ":+50us"), ["ProfilerStep#0"])

    def test_a_launch_inside_of_what_it_launched_is_not_an_endless_path(self):
        data = {"traceEvents": [event("k", "kernel", 1, 1, 0, 100, correlation=5, stream=7, device=0),
                                event("cudaLaunchKernel", "cuda_runtime", 1, 1, 10, 5, correlation=5),
                                event("inner", "kernel", 1, 1, 20, 5, correlation=6, stream=7, device=0)]}
        for option in ("--under", "--around", "--after", "--before"):
            self.slice(option, "zzz", data=data, status=1)
        self.assertIn("cudaLaunchKernel", self.slice("--under", "cudaLaunchKernel", data=data))
        self.assertIn("k", self.slice("--under", "^k$", data=data))

    def test_clipping_cuts_at_the_edges(self):
        self.slice("--time", "+1150us:+1500us", "--clip")
        for e in self.slices():
            self.assertGreaterEqual(e["ts"], 1150 + min(e["ts"] for e in self.slices()) - 1150)
            self.assertLessEqual(e["dur"], 350)
        step = next(e for e in self.slices() if e["name"] == "ProfilerStep#1")
        self.assertEqual((step["dur"], step["args"]["finished"], step["args"]["started"]), (350, False, False))

    def test_steps_have_the_kernels_that_they_launched(self):
        self.assertEqual(sorted(self.slice("--steps", "1..2")),
                         sorted(["ProfilerStep#1", "ProfilerStep#2"] + 2 * ["aten::mm", "cudaLaunchKernel", "gemm"]))
        self.assertEqual(sorted(e["id"] for e in self.flows()), [2, 2, 3, 3])
        self.assertIn("kept 8 of 16 activities, dropped 8; kept 2 of 4 flows", self.said)
        self.slice("--steps", "7", status=1)
        self.assertIn("the trace has no step 7; its steps are 0..3", self.said)
        self.slice("--steps", "7..9", status=1)
        self.assertIn("the trace has no steps 7..9", self.said)

    def test_flows_whose_end_is_gone_go_too(self):
        self.assertEqual(self.slice("--kinds", "kernel"), STEPS * ["gemm"])
        self.assertEqual(self.flows(), [])
        self.assertEqual(len(self.slice("--kinds", "kernel", "--with-launches")), 2 * STEPS)
        self.assertEqual(len(self.flows()), 2 * STEPS)
        reasons = [(l["source"], l["reason"], l["count"], l["loss"]) for l in self.ledger()]
        self.assertIn(("selection", "activities left out by selection", 2 * STEPS, False), reasons)

    def test_names_ranks_tracks_and_lengths(self):
        self.assertEqual(self.slice("--name", "^aten::"), STEPS * ["aten::mm"])
        self.assertEqual(len(self.slice("--rank", "5")), 4 * STEPS)
        self.assertEqual(len(self.slice("--process", "100")), 4 * STEPS)
        self.assertEqual(self.slice("--track", "7"), STEPS * ["gemm"])
        self.assertEqual(self.slice("--track", "stream"), STEPS * ["gemm"])
        self.assertEqual(len(self.slice("--min-duration", "0.5ms")), 2 * STEPS)

    def test_the_longest(self):
        self.assertEqual(len(self.slice("--top", "6")), 6)
        self.assertEqual(len(self.slice("--top", "1", "--per", "kind")), 4)
        self.assertEqual(len(self.slice("--top", "1", "--per", "name")), STEPS + 3)
        self.assertEqual(sorted(self.slice("--kinds", "runtime", "--top", "1", "--with-parents")),
                         ["ProfilerStep#0", "aten::mm", "cudaLaunchKernel"])

    def test_options_are_combined(self):
        self.assertEqual(self.slice("--steps", "1..3", "--kinds", "kernel,cpu_op", "--name", "gemm"), 3 * ["gemm"])

    def test_header_and_rows_stay(self):
        self.slice("--steps", "0", "--kinds", "kernel")
        after = self.load()
        self.assertEqual(after["distributedInfo"]["rank"], 5)
        self.assertEqual(after["deviceProperties"], [{"id": 0, "name": "Tesla"}])
        self.assertNotIn(100, {e["pid"] for e in after["traceEvents"]})

    def test_a_part_of_a_part(self):
        self.slice("--steps", "1..2")
        os.rename(self.path("t.json"), self.path("first.json"))
        done = self.run_command("slice", "first.json", "-o", "t.json", "--kinds", "kernel")
        self.assertEqual(done.returncode, 0)
        self.assertEqual([e["name"] for e in self.slices()], 2 * ["gemm"])
        self.assertEqual(len([l for l in self.ledger() if l["source"] == "selection"]), 4)

    def test_options_that_choose_nothing_are_reported_and_nothing_is_written(self):
        for options in (("--time", "+1s:"), ("--kinds", "gpu_memcpy"), ("--name", "nowhere"), ("--rank", "99"),
                        ("--process", "999999"), ("--track", "zzz"), ("--under", "zzz"), ("--around", "zzz"),
                        ("--after", "zzz"), ("--before", "zzz"), ("--min-duration", "1s"),
                        ("--kinds", "kernel", "--name", "aten", "--top", "5")):
            self.slice(*options, status=1)
            self.assertIn("none of 16 activities matches " + " ".join(options), self.said)
            self.assertFalse(os.path.exists(self.path("t.json")))

    def test_of_a_rank_that_is_not_there_it_says_those_that_are(self):
        self.slice("--rank", "99", status=1)
        self.assertIn("--rank 99: there is rank 5\n", self.said)
        self.slice("--rank", "5", "--name", "nowhere", status=1)
        self.assertNotIn("there is", self.said)
        unranked = training()
        del unranked["distributedInfo"]
        self.slice("--rank", "99", data=unranked, status=1)
        self.assertIn("--rank 99: none states its rank", self.said)

    def test_a_trace_without_activities_is_written_if_nothing_was_chosen_from_it(self):
        self.assertEqual(self.slice(data={"traceEvents": []}), [])
        self.slice("--kinds", "kernel", data={"traceEvents": []}, status=1)

    def test_what_could_not_be_written_is_a_mistake_on_the_command_line(self):
        for output in ("t.bin", "-"):
            done = self.run_command("slice", "nowhere.json", "-o", output)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"unknown format of " + output.encode(), done.err)

    def test_ranges_choose_what_is_in_them_and_around_them(self):
        self.assertEqual(sorted(self.slice("--under", "^aten::mm$")),
                         sorted(STEPS * ["aten::mm", "cudaLaunchKernel", "gemm"]))
        self.assertEqual(self.slice("--around", "^gemm$").count("ProfilerStep#2"), 1)
        self.assertEqual(len(self.slice("--around", "^cudaLaunchKernel$")), 3 * STEPS)
        # The stack of an operator is both.
        self.assertEqual(len(self.slice("--under", "aten", "--with-parents")), 4 * STEPS)
        # All of them have to be met.
        self.assertEqual(self.slice("--under", "ProfilerStep#1", "--kinds", "kernel"), ["gemm"])

    def test_ranges_choose_what_is_before_and_after_them(self):
        # Device work is when it was launched: the kernel of step 1 ends in step 2.
        self.assertEqual(sorted(self.slice("--before", "ProfilerStep#2")),
                         sorted(["ProfilerStep#0", "ProfilerStep#1"] + 2 * ["aten::mm", "cudaLaunchKernel", "gemm"]))
        self.assertEqual(sorted(self.slice("--after", "ProfilerStep#2")),
                         sorted(["ProfilerStep#3", "aten::mm", "cudaLaunchKernel", "gemm"]))
        # Of several the first one counts.
        self.slice("--before", "aten::mm", status=1)
        self.assertEqual(self.slice("--after", "ProfilerStep#0", "--before", "ProfilerStep#2", "--kinds", "cpu_op"),
                         ["aten::mm"])

    def test_it_does_not_replace_its_input(self):
        with open(self.path("t.json"), "w", encoding="utf-8") as f:
            json.dump(training(), f)
        done = self.run_command("slice", "t.json", "-o", "t.json", "--kinds", "kernel")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"would overwrite the trace", done.err)
        self.assertEqual(self.load(), training())

    def test_mistakes_are_explained(self):
        with open(self.path("in.json"), "w", encoding="utf-8") as f:
            json.dump(training(), f)
        for words, said in ((["--time", "5"], "A:B"), (["--time", "2:1"], "ends before"), (["--time", "a:b"], "A:B"),
                            (["--time", "+1parsec:"], "A:B"), (["--time", "101%:"], "A:B"), (["--steps", "3..1"], "N..M"),
                            (["--steps", "x"], "N..M"), (["--kinds", "kernels"], "kernels"), (["--name", "a("], "'a('"),
                            (["--track", "["], "'['"), (["--under", "a("], "'a('"), (["--rank", "-1"], "rank"), (["--top", "0"], "--top needs"), (["--per", "kind"], "--top"),
                            (["--top", "1", "--per", "moon"], "moon"), (["--min-duration", "long"], "long"),
                            (["--clip"], "--time")):
            done = self.run_command("slice", "in.json", "-o", "t.json", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(said, done.err.decode(), words)
            self.assertFalse(os.path.exists(self.path("t.json")))
        self.assertEqual(self.run_command("slice", "in.json").returncode, 2)
        self.assertEqual(self.run_command("slice", "-o", "t.json").returncode, 2)
        self.assertEqual(self.run_command("slice", "absent.json", "-o", "t.json").returncode, 2)


class Steps(CommandTest):
    """A step is the same in a slice of it as in the whole trace."""

    def steps(self, path):
        done = self.run_command("analyze", "--only", "steps", "--json", "-", path)
        self.assertEqual(done.returncode, 0, done.err)
        table = json.loads(done.out)["tables"]["steps"]
        return {row["step"]: row for row in (dict(zip(table["columns"], values)) for values in table["rows"])}

    def check(self, path):
        """Start and length are equal; work of other steps in its time is left out of a slice, so that the times of
        devices and of the host are at most those of the whole."""
        whole = self.steps(path)
        for number, step in whole.items():
            if not number.isdigit():
                continue
            done = self.run_command("slice", path, "--steps", number, "-o", "part.json")
            self.assertEqual(done.returncode, 0, done.err)
            part = self.steps("part.json")[number]
            for key in ("start_us", "dur_us"):
                self.assertEqual(part[key], step[key], (path, number, key))
            parts = [v for k, v in part.items() if k.endswith("_us") and k not in ("start_us", "dur_us")]
            self.assertAlmostEqual(sum(parts), step["dur_us"], delta=0.01)
            self.assertGreaterEqual(part["other_us"], step["other_us"] - 0.01)
        return len(whole)

    def test_a_step_keeps_its_borders(self):
        with open(self.path("in.json"), "w", encoding="utf-8") as f:
            json.dump(training(), f)
        self.assertEqual(self.check("in.json"), STEPS)
        for path in sorted(glob.glob(os.path.join(DATA, "*", "*.json.gz")) +
                           glob.glob(os.path.join(TRACES, "resnet50*.json.gz")) * bool(TRACES)):
            with open(path, "rb") as f:
                data = f.read()
            if b"ProfilerStep#" in (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data):
                self.check(path)


@unittest.skipUnless(os.path.isdir(TRACES), "the collection of real traces is not at hand")
class RealTraces(CommandTest):
    @staticmethod
    def single_ends(events):
        """Flows with one end only; some real traces have them."""
        starts = {(e["cat"], e["id"]) for e in events if e["ph"] == "s"}
        ends = {(e["cat"], e["id"]) for e in events if e["ph"] == "f"}
        return starts ^ ends

    @staticmethod
    def calls(events):
        return {e["args"]["correlation"] for e in events
                if e.get("cat", "").lower() in ("cuda_runtime", "cuda_driver", "runtime") and
                "correlation" in e.get("args", {})}

    def test_every_flow_of_a_step_has_both_ends_and_every_kernel_its_launch(self):
        for name, step in (("nccl_data", 5), ("negative_queue_a100", None), ("amd_mi250", 1),
                           ("resnet50_num_workers_0", 7)):
            path = os.path.join(TRACES, name + ".json.gz")
            if not os.path.exists(path):
                continue
            if step is None:
                with gzip.open(path, "rt") as f:
                    step = int(re.search(r"ProfilerStep#(\d+)", f.read())[1])
            done = self.run_command("slice", path, "-o", "t.json", "--steps", str(step))
            self.assertEqual(done.returncode, 0, done.err)
            events = self.load()["traceEvents"]
            self.assertEqual(self.run_command("slice", path, "-o", "all.json").returncode, 0)
            single = self.single_ends(self.load("all.json")["traceEvents"])
            self.assertLessEqual(self.single_ends(events), single, name)
            steps = {e["name"] for e in events if e["name"].startswith("ProfilerStep")}
            self.assertEqual(steps, {f"ProfilerStep#{step}"}, name)
            # Launches may have been before the recording; those that are in it have to be in the part.
            calls = self.calls(events)
            missing = self.calls(self.load("all.json")["traceEvents"]) - calls
            kernels = [e for e in events if e.get("cat", "").lower() == "kernel"]
            self.assertTrue(kernels, name)
            self.assertEqual([e for e in kernels if e["args"]["correlation"] in missing], [], name)

    def test_the_steps_of_a_trace_share_nothing(self):
        path = os.path.join(TRACES, "nccl_data.json.gz")
        kernels = []
        for step in (4, 5, 6):
            self.assertEqual(self.run_command("slice", path, "-o", "t.json", "--steps", str(step)).returncode, 0)
            kernels += [(e["ts"], e["tid"], e["pid"]) for e in self.slices() if e["cat"] == "kernel"]
        self.assertEqual(len(kernels), len(set(kernels)))


if __name__ == "__main__":
    main()
