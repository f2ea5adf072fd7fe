"""`ckineto diff`: what changed between two traces, gates, and what other programs read of it."""

import csv
import gzip
import json
import os
import pathlib
import random
import statistics
import unittest
import xml.etree.ElementTree as ElementTree

from command import CommandTest, main

TRACES = os.environ.get("CKINETO_TRACES", "")
SCHEMA = pathlib.Path(__file__).parents[2] / "docs" / "diff.schema.json"
SANITIZED = os.environ.get("CKINETO_SANITIZED", "0") == "1"
GOLDEN = os.path.join(TRACES, "..", "golden")
NASTY = "<script>alert(1)</script>|`x` \"q\" & [a](http://b) @all\n\x01\u202e"


def host(cat, name, start, duration, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 5, "tid": 7, "ts": start, "dur": duration, "args": args}


def steps(count, kernel="void k<4>(int)", us=300, step=1000, noise=0.01, seed=1, memory=1000000, op="aten::add",
          power=200, lengths=()):
    """Steps with an operator that launches a kernel, memory and power, all of them a little noisy; some as long as
    that."""
    noisy = random.Random(seed)
    events, at = [], 0
    for i in range(count):
        long = lengths[i] if lengths else round(step * (1 + noise * noisy.gauss(0, 1)), 3)
        device = {"device": 0, "stream": 7, "correlation": i + 1}
        events += [
            host("user_annotation", f"ProfilerStep#{i}", at, long),
            host("cpu_op", op, at + 10, 100),
            host("cuda_runtime", "cudaLaunchKernel", at + 20, 10, correlation=i + 1),
            {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": at + 50,
             "dur": round(us * (1 + noise * noisy.gauss(0, 1)), 3), "args": device},
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 5, "tid": 7, "ts": at + 30,
             "args": {"Total Allocated": memory, "Total Reserved": memory * 2, "Bytes": 10, "Device Id": 0,
                      "Device Type": 1, "Addr": 99}},
            {"ph": "C", "name": "power", "cat": "counter", "pid": 5, "ts": at + 40, "args": {"power [W]": power}},
        ]
        at += long
    return events


class DiffTest(CommandTest):
    def trace(self, name, *arguments, **named):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": steps(*arguments, **named)}, file)
        return path

    def diff(self, *arguments, status=0, **options):
        done = self.run_command("diff", *arguments, **options)
        self.assertEqual(done.returncode, status, (done.out, done.err))
        return done

    def tables(self, *arguments):
        return json.loads(self.diff("--json", *arguments).out)["facts"]["tables"]

    def rows(self, table, *arguments):
        found = self.tables(*arguments)[table]
        return [dict(zip(found["columns"], row)) for row in found["rows"]]


class Gates(DiffTest):
    def test_the_same_program_passes(self):
        a, b = self.trace("a.json", 6, seed=1), self.trace("b.json", 6, seed=2)
        text = self.diff(a, b, "--fail-on", "step>3%", "--fail-on", "memory>1MB").out.decode()
        self.assertRegex(" ".join(text.split()), r"^No difference beyond noise: \d+ steps a side show changes of the "
                                                 r"(mean|median) step above [\d.]+ % only\. before")
        self.assertIn("passed      step>3%", text)

    def test_a_slower_one_fails(self):
        a, b = self.trace("a.json", 6, seed=1), self.trace("b.json", 6, seed=2, step=1050)
        self.assertIn(b"no noise", self.diff(a, b, "--fail-on", "step>3%", status=1).out)
        self.diff(a, b, "--fail-on", "step>10%")
        self.diff(a, b, "--fail-on", "step>20us", status=1)
        self.diff(a, b, "--fail-on", "step>1ms")
        self.diff(b, a, "--fail-on", "step<3%", status=1)

    def test_noise_is_not_a_regression(self):
        a, b = self.trace("a.json", 6, noise=0.3, seed=5), self.trace("b.json", 6, noise=0.3, step=1200, seed=8)
        text = " ".join(self.diff(a, b, "--fail-on", "step>3%", status=2).out.decode().split())
        self.assertIn("inconclusive step>3%", text)
        self.assertRegex(text, r"within the noise: 6 steps a side show changes above [\d.]+ % only; use more steps")

    BEFORE = [75500, 76900, 76200, 76700, 78500, 81100]

    def uneven(self, *after):
        return (self.trace("a.json", len(self.BEFORE), lengths=self.BEFORE),
                self.trace("b.json", len(after), lengths=after))

    def test_steps_that_are_all_slower_fail_by_their_ranks(self):
        pair = self.uneven(100000, 101000, 150000, 100500, 100700, 102000)
        out = self.diff(*pair, "--fail-on", "step>3%", "--fail-on", "step>20ms", "--json", status=1).out
        for gate in json.loads(out)["gates"]:
            self.assertEqual(gate["judgement"], "failed")
            self.assertIn("more than noise by a rank test (+", gate["sentence"])
        self.diff(*pair, "--fail-on", "step>40%")
        self.diff(*reversed(pair), "--fail-on", "step<3%", status=1)

    def gates(self, a, b, *gates, status=0, options=()):
        asked = [x for gate in gates for x in ("--fail-on", gate)]
        return json.loads(self.diff(a, b, *asked, "--json", *options, status=status).out)["gates"]

    def test_json_says_what_decided(self):
        a, slower = self.trace("a.json", 6), self.trace("b.json", 6, seed=2, step=1050)
        found = self.gates(a, slower, "step>3%", "step>50%", "kernel:nobody>3%", "kernel:k<4>3%", status=1)
        self.assertEqual([g["decided_by"] for g in found], ["interval", "limit", "nothing", "limit"])
        self.assertEqual([g.get("subject") for g in found], ["step", "step", None, "void k<4>(int)"])
        first = found[0]
        self.assertTrue(3 < first["low_pct"] < first["value"] < first["high_pct"])
        self.assertAlmostEqual(first["value"], 100 * (first["after"] / first["before"] - 1))
        self.assertNotIn("shift", first)
        self.assertEqual(set(found[2]), {"gate", "judgement", "decided_by", "limit", "sentence"})
        noisy = (self.trace("c.json", 6, noise=0.3, seed=5), self.trace("d.json", 6, noise=0.3, step=1200, seed=8))
        noise = self.gates(*noisy, "step>3%", status=2)[0]
        self.assertEqual((noise["decided_by"], noise["judgement"]), ("interval", "inconclusive"))
        short = (self.trace("c.json", 1), self.trace("d.json", 1, step=1500))
        self.assertEqual(self.gates(*short, "step>3%", status=2)[0]["decided_by"], "nothing")
        alone = self.gates(*short, "step>3%", status=1, options=["--no-noise"])[0]
        self.assertEqual(alone["decided_by"], "difference")
        self.assertNotIn("low_pct", alone)

    def test_json_says_what_ranks_decided(self):
        slower = self.gates(*self.uneven(100000, 101000, 150000, 100500, 100700, 102000), "step>3%", status=1)[0]
        few = self.gates(*self.uneven(81600, 160000, 81700, 81500, 81600, 81800), "step>10%")[0]
        self.assertEqual([g["decided_by"] for g in (slower, few)], ["ranks", "ranks"])
        self.assertTrue(slower["low_pct"] < 0 < 3 < slower["shift"])
        self.assertTrue(few["shift"] < 10 < few["value"])

    def test_one_slow_step_is_not_a_regression(self):
        pair = self.uneven(76100, 160000, 77300, 75200, 80900, 76500)
        self.assertIn(b"within the noise", self.diff(*pair, "--fail-on", "step>3%", status=2).out)

    def test_one_slow_step_among_others_a_little_slower_is_not_beyond_the_limit(self):
        pair = self.uneven(81600, 160000, 81700, 81500, 81600, 81800)
        self.assertIn(b"by a few steps only: a rank test does not prove it (+6.",
                      self.diff(*pair, "--fail-on", "step>10%").out)
        self.diff(*pair, "--fail-on", "step>3%", status=1)

    def test_one_step_cannot_be_evaluated(self):
        a, b = self.trace("a.json", 1), self.trace("b.json", 1, step=1500)
        self.assertIn(b"too few steps", self.diff(a, b, "--fail-on", "step>3%", status=2).out)
        self.diff(a, b, "--fail-on", "step>3%", "--no-noise", status=1)

    def test_a_failed_gate_says_more_than_one_that_cannot_be_evaluated(self):
        a, b = self.trace("a.json", 6), self.trace("b.json", 6, step=1500)
        self.diff(a, b, "--fail-on", "kernel:nobody>3%", status=2)
        self.diff(a, b, "--fail-on", "kernel:nobody>3%", "--fail-on", "step>3%", status=1)

    def test_memory_and_counters_have_gates(self):
        a, b = self.trace("a.json", 6), self.trace("b.json", 6, memory=1200000, power=100)
        self.diff(a, b, "--fail-on", "memory>10%", status=1)
        self.diff(a, b, "--fail-on", "memory:GPU0>100KB", status=1)
        self.diff(a, b, "--fail-on", "memory>1MB")
        self.diff(a, b, "--fail-on", "counter:power<10%", status=1)
        self.diff(a, b, "--fail-on", "counter:power<150")

    def test_a_counter_that_falls_below_zero_is_beyond_every_percentage(self):
        zero, below = self.trace("a.json", 6, power=0), self.trace("b.json", 6, power=-10)
        self.diff(zero, below, "--fail-on", "counter:power<5%", status=1)
        self.diff(zero, below, "--fail-on", "counter:power>5%")
        self.diff(below, zero, "--fail-on", "counter:power>5%", status=1)

    def test_what_one_side_does_not_have_is_reported_in_words(self):
        events = [e for e in steps(6) if e["name"] != "[memory]"]
        with open(self.path("a.json"), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        pair = self.path("a.json"), self.trace("b.json", 6)
        for asked, words in ((pair, b"GPU0: none -> 1.00 MB (new): it is on one side only"),
                             (pair[::-1], b"GPU0: 1.00 MB -> none (gone): it is on one side only")):
            self.assertIn(words, self.diff(*asked, "--fail-on", "memory>1MB", status=2).out)
        self.assertIn(b"communication: 0 ns -> 0 ns (+0.00 %): within the limit",
                      self.diff(pair[1], pair[1], "--fail-on", "category:communication>3%").out)

    def test_mistakes_are_reported(self):
        a = self.trace("a.json", 3)
        for arguments in ([a], [a, a, a], [a, a, "--fail-on", "steps>3%"], [a, a, "--fail-on", "step>3"],
                          [a, a, "--fail-on", "step>1e308s"], [a, a, "--fail-on", "step>1e999"],
                          [a, a, "--definitions", "other"], [a, a, "--definitions", "hta", "--fail-on", "step>3%"],
                          [a, self.path("none.json")], [a, a, "--json=" + a], [a, a, "--device", "gpu"]):
            self.assertTrue(self.diff(*arguments, status=2).err)

    def test_options_of_the_other_definitions_are_mistakes(self):
        a, hta = self.trace("a.json", 3), ["--definitions", "hta"]
        for option in (["--device", "host"], ["--short-names"]):
            self.diff(a, a, *option, *hta)
            self.assertIn(b"needs --definitions hta", self.diff(a, a, *option, status=2).err)
        for option in (["--no-noise"], ["--medians"], ["--shapes"], ["--no-findings"], ["--draws", "200"],
                       ["--seed", "1"]):
            self.diff(a, a, *option)
            self.assertIn(b"needs --definitions exact", self.diff(a, a, *option, *hta, status=2).err)

    def test_an_output_that_cannot_be_written_is_not_a_failed_gate(self):
        a, b = self.trace("a.json", 6), self.trace("b.json", 6, step=1500)
        with open("/dev/full", "wb") as full:
            for options in (["--help"], [a, a], [a, a, "--json"], [a, b, "--fail-on", "step>3%"]):
                self.assertIn(b"No space left", self.diff(*options, status=2, stdout=full).err)


class Tables(DiffTest):
    def test_a_renamed_kernel_is_the_same(self):
        a = self.trace("a.json", 6)
        row = self.rows("diff_kernels", a, self.trace("b.json", 6, kernel="void k<8>(int)", us=400))[0]
        self.assertEqual((row["matched_by"], row["name_before"], row["name"], row["change"]),
                         ("template arguments", "void k<4>(int)", "void k<8>(int)", "changed"))

    def test_what_is_new_and_what_is_gone_is_reported(self):
        a, b = self.trace("a.json", 6, op="aten::a", kernel="x"), self.trace("b.json", 6, op="aten::b", kernel="y")
        changes = {r["name"]: r["change"] for r in self.rows("diff_operators", a, b)}
        self.assertEqual((changes["aten::a"], changes["aten::b"]), ("removed", "added"))
        self.assertEqual({r["change"] for r in self.rows("diff_kernels", a, b)}, {"added", "removed"})

    def test_threads_and_repetition_change_nothing(self):
        a, b = self.trace("a.json", 9), self.trace("b.json", 9, us=320, seed=9)
        first = self.diff("--json", a, b).out
        self.assertEqual(first, self.diff("--json", "--threads", "1", a, b).out)

    def with_memory(self, name, count):
        """Every other step takes half as much: of many steps, too, which become blocks of several."""
        events = steps(count)
        for i, event in enumerate(e for e in events if e["name"] == "[memory]"):
            event["args"]["Total Allocated"] //= 2 - i % 2
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        return self.path(name)

    def test_peaks_of_memory_are_of_steps_however_many_there_are(self):
        pair = self.with_memory("a.json", 64), self.with_memory("b.json", 32)
        row = self.rows("diff_memory", *pair)[0]
        self.assertEqual([row[f"{side}_{what}"] for side in ("before", "after") for what in ("bytes", "peak_bytes")],
                         [750000, 1000000] * 2)
        self.diff(*pair, "--fail-on", "memory<5%")

    def one_slow_step(self):
        events = steps(7)
        events[36]["dur"] *= 5
        with open(self.path("b.json"), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        return self.trace("a.json", 7), self.path("b.json")

    def test_medians_leave_out_one_slow_step(self):
        pair = self.one_slow_step()
        means, medians = (self.rows("diff_steps", *pair, *o)[0] for o in ([], ["--medians"]))
        self.assertGreater(means["delta_pct"], 40)
        self.assertLess(abs(medians["delta_pct"]), 3)

    def test_medians_are_those_of_all_steps(self):
        lengths = [1000 + 900 * (i % 3 == 0) + i for i in range(96)]
        a = self.trace("a.json", 96, lengths=lengths)
        b = self.trace("b.json", 96, lengths=[length + 100 for length in lengths])
        for pair, runs in (((a, b), []), ((a, a, a, "--", b, b, b), ["--runs"])):
            for option, row in (([], -1), (["--medians"], 0)):
                found = self.rows("diff_steps", *runs, *option, *pair)[row]
                steps_of_run = found["before_steps"] // (3 if runs else 1)
                self.assertGreaterEqual(steps_of_run, 90)
                expected = statistics.median(lengths[-steps_of_run:])
                self.assertAlmostEqual(found["before_us"], expected, delta=0.01)
                self.assertAlmostEqual(found["delta_us"], 100, delta=0.01)

    def test_what_was_measured_is_the_same_with_medians(self):
        pair = self.one_slow_step()
        for option in ([], ["--medians"]):
            found = self.rows("diff_findings", *pair, *option)[0]
            self.assertLess(found["measured_us"], -400)
            self.assertLess(abs(found["measured_median_us"]), 30)
            self.assertRegex(self.diff(*pair, *option).out, rb"the mean step is [4-9]\d\d\.")

    def test_ranks_take_a_step_together(self):
        events = steps(6)
        others = [{**e, "pid": 6} for e in steps(6, seed=3) if e.get("cat") != "kernel"]
        with open(self.path("a.json"), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events + others}, file)
        step = self.rows("diff_steps", self.path("a.json"), self.trace("b.json", 6))[0]
        self.assertEqual((step["before_steps"], step["after_steps"]), (6, 6))
        self.assertLess(abs(step["delta_pct"]), 3)

    def test_a_trace_with_nothing_in_it_can_be_compared(self):
        for events in ([], steps(1)[:1]):
            with open(self.path("a.json"), "w", encoding="utf-8") as file:
                json.dump({"traceEvents": events}, file)
            self.diff(self.path("a.json"), self.trace("b.json", 6))
            self.diff(self.trace("b.json", 6), self.path("a.json"))
            self.diff(self.path("a.json"), self.path("a.json"))

    def test_an_empty_trace_passes_no_gate(self):
        full, empty = self.trace("a.json", 6), self.trace("b.json", 0)
        for pair in ((full, empty), (empty, full), (empty, empty)):
            for gate in ("step>3%", "step<3%", "step>2ms", "step:median step>3%", "memory>3%", "category:gemm>3%",
                         "category:part.other>3%", "op:aten::add>3%"):
                out = self.diff(*pair, "--fail-on", gate, status=2).out
                self.assertIn(b"skipped", out)
                self.assertNotIn(b"nan", out)
        out = self.diff(full, empty).out.decode()
        self.assertRegex(out, r"(?m)^after .*: 0 activities, none lost, 0 steps compared$")
        self.assertRegex(out, r"(?m)^mean step +[0-9.]+ [mu]s -> none$")
        self.assertIn("nothing in the trace after takes time", out)
        self.diff(full, empty, "--markdown", self.path("out.md"))
        with open(self.path("out.md"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"^\*\*Step: [0-9.]+ [mu]s → -, gone\*\*")


class Runs(DiffTest):
    """Several runs of each side."""

    def runs(self, name, change=0.0, count=5):
        return [self.trace(f"{name}{i}.json", 4, seed=i, step=1000 * (1 + change + random.Random(name + str(i)).gauss(0, 0.02)))
                for i in range(count)]

    def test_noise_between_runs_is_no_regression_but_a_change_is(self):
        a, b, slow = self.runs("a"), self.runs("b"), self.runs("c", 0.15)
        self.diff("--runs", "--fail-on", "step>3%", *a, "--", *b)
        self.diff("--runs", "--fail-on", "step>3%", *a, "--", *slow, status=1)
        self.diff("--runs", "--fail-on", "step<3%", *slow, "--", *a, status=1)
        single = [json.loads(self.diff("--json", "-", x, y).out) for x, y in zip(a, b)]
        sure = [s["facts"]["tables"]["diff_steps"]["rows"][0][-1] for s in single]
        self.assertIn("yes", sure, "steps of single runs would be mistaken")

    def stepping(self, name, load, seed, delayed=0.3):
        """A run of 40 ranges `step` of a load and a computation; a share of the calls is delayed by other programs."""
        drawn, events, at = random.Random(seed), [], 0.0
        for _ in range(40):
            begin, parts = at, []
            for part, us in (("load_batch", load), ("compute", 4000)):
                length = us * (1 + abs(drawn.gauss(0, 0.02)))
                length *= 1 + 4 * drawn.random() if drawn.random() < delayed else 1
                parts.append(host("user_annotation", part, round(at, 3), round(length, 3)))
                at += length + 1
            events += [host("user_annotation", "step", round(begin, 3), round(at - begin, 3)), *parts]
            at += 2
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        return path

    def test_a_change_of_every_call_is_named_although_other_programs_delay_some(self):
        old = [self.stepping(f"old{i}.json", 2000, i, 0.1 + 0.15 * i) for i in range(3)]
        new = [self.stepping(f"new{i}.json", 3000, 10 + i, 0.4 - 0.15 * i) for i in range(3)]
        gates = ["--fail-on", "step>3%", "--fail-on", "function:load_batch>5%"]
        for options in ([], ["--medians"], ["--step-pattern", "step"]):
            text = " ".join(self.diff("--runs", *options, *gates, *old, "--", *new, status=1).out.decode().split())
            self.assertIn("120 steps compared", text)
            self.assertIn("failed step>3%", text)
            self.assertIn("failed function:load_batch>5%", text)
            self.assertRegex(text, r"Changes, largest effect first \(in % of the step before\) load_batch: typical call "
                                   r"\(fast quarter of calls\) 2\.0\d+ ms -> 3\.0\d+ ms .* in all 3 runs; 1 call a step: ")
            self.assertIn("could be chance: 1 in 20", text)
            self.assertRegex(text, r"^Slower: a typical step \(fast quarter of steps\) takes [\d.]+ ms instead of [\d.]+ ms "
                                   r"\(\+[\d.]+ %\) in all 3 runs; load_batch \+[\d.]+ \w+ explains (\d+ %|all) of it\. before")
        table = json.loads(self.diff("--runs", "--json", "-", *old, "--", *new).out)["facts"]["tables"]["diff_calls"]
        self.assertEqual({row[1] for row in table["rows"]}, {"step", "load_batch"})
        self.assertIn("the ranges named 'step'", " ".join(self.diff("--runs", *old, "--", *new).out.decode().split()))

    def test_lists_with_commas_are_explained(self):
        a = self.runs("a", count=2)
        done = self.diff(",".join(a), ",".join(a), status=2)
        self.assertIn(b"several runs of each side: ckineto diff --runs A1 A2 ... -- B1 B2 ...", done.err)

    def test_two_groups_of_files_get_the_whole_command(self):
        old, new = self.runs("old", count=2), self.runs("new", count=3)
        done = self.diff(*old, *new, status=2)
        self.assertIn(f"ckineto diff --runs {' '.join(old)} -- {' '.join(new)}\n".encode(), done.err)
        for files in ([*old, *self.runs("x", count=1), *new], self.runs("one", count=3)):
            self.assertIn(b"ckineto diff --runs A1 A2 ... -- B1 B2 ...", self.diff(*files, status=2).err)

    def test_the_gate_of_a_comparison_can_be_copied(self):
        old, new = self.runs("old", count=3), self.runs("new", 0.5, count=3)
        self.assertIn(f"next: ckineto diff --fail-on 'step>5%' --runs {' '.join(old)} -- {' '.join(new)}\n".encode(),
                      self.diff("--runs", *old, "--", *new).out)
        self.assertNotIn(b"next:", self.diff("--fail-on", "step>900%", "--runs", *old, "--", *new).out)

    def test_json_has_all_runs(self):
        a, b = self.runs("a", count=3), self.runs("b", count=4)
        found = json.loads(self.diff("--runs", "--json", "-", *a, "--", *b).out)
        self.assertEqual((found["before"]["runs"], found["after"]["runs"]), (a, b))
        table = found["facts"]["tables"]["diff_runs"]
        self.assertEqual([row[:3] for row in table["rows"]],
                         [["before", i + 1, 4] for i in range(3)] + [["after", i + 1, 4] for i in range(4)])
        step = dict(zip(found["facts"]["tables"]["diff_steps"]["columns"],
                        found["facts"]["tables"]["diff_steps"]["rows"][0]))
        self.assertAlmostEqual(step["before_us"], sum(row[3] for row in table["rows"][:3]) / 3)

    def test_mistakes_are_explained(self):
        a = self.runs("a", count=2)
        for arguments in (["--runs", *a], ["--runs", *a, "--"], ["--runs", "--", *a], [*a, a[0]],
                          ["--runs", "--definitions", "hta", *a, "--", *a],
                          ["--runs", *a * 17, "--", *a]):
            done = self.diff(*arguments, status=2)
            self.assertIn(b"runs", done.err, arguments)


class Outputs(DiffTest):
    def outputs(self, *gates):
        a, b = self.trace("a.json", 6), self.trace("b.json", 6, kernel=NASTY, us=900, seed=2)
        paths = {o: self.path("out." + o) for o in ("json", "junit", "sarif", "markdown")}
        arguments = [x for o, path in paths.items() for x in ("--" + o, path)]
        arguments += [x for gate in gates for x in ("--fail-on", gate)]
        done = self.diff(a, b, *arguments, status=1)
        return done, {o: pathlib.Path(path).read_text(encoding="utf-8") for o, path in paths.items()}

    def test_names_are_escaped_everywhere(self):
        gate = "kernel:<script>alert(1)</script>>1%"
        done, out = self.outputs(gate)
        self.assertNotIn(b"\x01", done.out)
        self.assertNotIn("<script", out["junit"] + out["markdown"])
        self.assertNotIn("](http", out["markdown"])
        case = ElementTree.fromstring(out["junit"]).find("testsuite/testcase")
        self.assertEqual(case.get("name"), gate)
        self.assertEqual(json.loads(out["json"])["gates"][0]["gate"], gate)
        self.assertTrue(json.loads(out["sarif"])["runs"][0]["results"][0]["message"]["text"].startswith(gate))

    def test_every_gate_is_a_test_case(self):
        _, out = self.outputs("step>3%", "category:part.kernel>3%", "kernel:nobody>3%")
        suite = ElementTree.fromstring(out["junit"]).find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("errors")), ("3", "1", "1"))
        self.assertEqual([c.find("failure") is not None for c in suite.findall("testcase")], [False, True, False])

    def test_sarif_has_what_its_schema_requires(self):
        _, out = self.outputs("step>3%", "category:part.kernel>3%", "kernel:nobody>3%")
        sarif = json.loads(out["sarif"])
        self.assertEqual(sarif["version"], "2.1.0")
        run = sarif["runs"][0]
        rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
        self.assertEqual([(r["kind"], r["level"]) for r in run["results"][:3]],
                         [("pass", "none"), ("fail", "error"), ("open", "none")])
        for result in run["results"]:
            self.assertIn(result["ruleId"], rules)
            self.assertTrue(result["message"]["text"])
            self.assertTrue(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])

    def test_markdown_is_three_lines_and_a_fold(self):
        _, out = self.outputs("category:part.kernel>3%")
        top, fold = out["markdown"].split("<details>")
        self.assertEqual(len(top.strip().splitlines()), 3)
        self.assertIn("❌ 1 of 1 gate failed", top)
        self.assertIn("Largest change: ", top)
        self.assertNotIn(self.directory, out["markdown"], "paths are relative")
        self.assertEqual(fold.count("</details>"), 1)
        for line in fold.splitlines():
            if line.startswith("| ") and "---" not in line:
                self.assertTrue(line.endswith("|"), line)

    def test_markdown_is_short_whatever_the_traces_have(self):
        def trace(name, us):
            events, at = [], 0
            for i in range(6):
                events.append(host("user_annotation", f"ProfilerStep#{i}", at, 100000))
                events += [host("cpu_op", f"<{NASTY}>{op}" * 3, at + 400 * op, us + i % 2) for op in range(200)]
                at += 100000
            path = self.path(name)
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": events}, file)
            return path
        a, b = trace("a.json", 1), trace("b.json", 399)
        gates = [x for i in range(60) for x in ("--fail-on", f"op:{NASTY}>{i}>1%")]
        self.diff("--markdown", self.path("out.md"), *gates, a, b, status=1)
        text = pathlib.Path(self.path("out.md")).read_bytes()
        self.assertLessEqual(len(text), 4096)
        self.assertGreater(len(text), 3000)
        self.assertRegex(text.decode(), r"… and \d+ more rows")
        self.assertTrue(text.endswith(b"</details>\n"))

    def test_large_changes_are_multiples(self):
        a, b = self.trace("a.json", 6, us=1, step=100000), self.trace("b.json", 6, us=5000, step=100000)
        out = self.diff("--markdown", "-", a, b).out.decode()
        self.assertRegex(out, r"\| \d{3,}(\.\d)?(e\+03)? x \|")
        self.assertNotRegex(out, r"\+\d{4,}\.\d %")

    def test_json_says_which_schema_it_follows(self):
        _, out = self.outputs("category:part.kernel>3%")
        found = json.loads(out["json"])
        self.assertEqual(found["schema"], "ckineto.diff/1")
        self.assertEqual(set(found), {"schema", "before", "after", "gates", "facts"})
        schema = json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]["gates"]["items"]
        for gate in found["gates"]:
            self.assertLessEqual(set(gate), set(schema["properties"]))
            self.assertLessEqual(set(schema["required"]), set(gate))
            self.assertIn(gate["decided_by"], schema["properties"]["decided_by"]["enum"])


@unittest.skipUnless(os.path.exists(os.path.join(TRACES, "resnet50_num_workers_4.json.gz")),
                     "the public traces are not at hand")
class RealTraces(DiffTest):
    PAIRS = {"diff_control_vs_test": ("trace_diff_control", "trace_diff_test"),
             "diff_resnet50_nw0_vs_nw4": ("resnet50_num_workers_0", "resnet50_num_workers_4")}

    def pair(self, name):
        return [os.path.join(TRACES, x + ".json.gz") for x in self.PAIRS[name]]

    def test_the_data_loader_is_the_change_and_its_savings_were_predicted(self):
        pair = self.pair("diff_resnet50_nw0_vs_nw4")
        tables = self.tables(*pair)
        first = {t: dict(zip(tables[t]["columns"], tables[t]["rows"][0])) for t in ("diff_summary", "diff_findings")}
        self.assertEqual((first["diff_summary"]["name"], first["diff_summary"]["sure"]), ("dataloader", "yes"))
        found = [dict(zip(tables["diff_findings"]["columns"], r)) for r in tables["diff_findings"]["rows"]]
        loader = next(f for f in found if f["id"] == "input.data_loader")
        self.assertEqual(loader["change"], "removed")
        self.assertLess(abs(loader["predicted_us"] / loader["measured_median_us"] - 1), 0.15)

    def golden(self, pair, part):
        path = os.path.join(GOLDEN, pair, part)
        path = path if os.path.exists(path) else path + ".gz"
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", newline="") as file:
            return json.load(file) if ".json" in part else list(csv.DictReader(file))

    ROWS = {}  # of each comparison, which takes seconds, and a minute under sanitizers

    def hta(self, pair, *arguments):
        if (pair, arguments) not in self.ROWS:
            self.ROWS[pair, arguments] = self.rows("diff_hta", "--definitions", "hta", *arguments, *self.pair(pair))
        return self.ROWS[pair, arguments]

    def test_steps_that_are_all_slower_fail_though_some_are_far_off(self):
        out = self.diff("--no-findings", *self.pair("diff_control_vs_test"), "--fail-on", "step>3%", status=1).out
        self.assertIn(b"beyond the limit, and no noise", out)

    def test_hta_counted_the_same(self):
        parts = {"ALL": [], "CPU": ["--device", "host"], "GPU": ["--device", "device"],
                 "shortname": ["--short-names"]}
        for pair, part, arguments in ((a, b, c) for a in self.PAIRS for b, c in parts.items()):
            if not SANITIZED or part == "ALL" or pair == "diff_control_vs_test":
                golden = self.golden(pair, f"compare_traces_{part}.csv")
                name = next(iter(golden[0]))
                wanted = {r[name]: [float(r[c]) for c in (
                    "Control_counts", "Control_total_duration", "Test_counts", "Test_total_duration", "diff_counts",
                    "diff_duration")] + [r["counts_change_categories"]] for r in golden}
                ours = {r["name"]: [r[c] for c in ("before_count", "before_us", "after_count", "after_us",
                                                   "delta_count", "delta_us", "sign")]
                        for r in self.hta(pair, *arguments)}
                self.assertEqual(ours, wanted, (pair, part))

    def test_hta_has_the_same_lists(self):
        for pair in self.PAIRS:
            for change, names in self.golden(pair, "ops_diff_ALL.json").items():
                ours = [r["name"] for r in self.hta(pair) if r["change"] == change]
                self.assertEqual(sorted(ours), sorted(names), (pair, change))


main()
