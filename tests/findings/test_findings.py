"""Findings: each rule where it must fire and where it must not, gates, ranks, and what all rules say
of the corpus (corpus.tsv; `test_findings.py --write` writes it anew, to be read with one's own eyes).

    CKINETO=build/bin/ckineto CKINETO_SHARED=../shared python3 test_findings.py"""

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
COMMAND = os.environ.get("CKINETO", "")
SHARED = os.environ.get("CKINETO_SHARED", "")
TABLE = os.path.join(HERE, "corpus.tsv")

if not COMMAND:
    print("run by ctest, which says where the command is: skipped")
    sys.exit(77)

import cases_3  # noqa: E402
import rules_table  # noqa: E402
from cases_1 import loader  # noqa: E402


def all_cases():
    """Cases of all rules; a part that is not there has none."""
    cases, worth, more = {}, {}, []
    for name in ("cases_1", "cases_2", "cases_3", "cases_4"):
        if os.path.exists(os.path.join(HERE, name + ".py")):
            part = importlib.import_module(name)
            cases.update(part.CASES)
            worth.update(getattr(part, "WORTH", {}))
            more += getattr(part, "MORE", [])
    return cases, worth, more


CASES, WORTH, MORE = all_cases()


def command(*arguments):
    return subprocess.run([COMMAND, "analyze", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=300)


def findings_of(paths, *options):
    done = command("--findings", "--json", *options, *paths)
    if done.returncode:
        raise AssertionError(f"{paths}: {done.returncode}, {done.stderr.decode(errors='replace')}")
    return json.loads(done.stdout)


def judgements(said):
    return {rule["id"]: rule["judgement"] for rule in said["rules"]}


def of_rule(said, rule):
    return [f for f in said["findings"] if f["id"] == rule]


def times_in(text, *patterns):
    """Times in a text, in us."""
    return [float(number) * {"ns": 0.001, "us": 1, "ms": 1000, "s": 1e6}[unit]
            for pattern in patterns for number, unit in (m.split() for m in re.findall(pattern, text))]


class FindingsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="ckineto-findings-")
        self.addCleanup(self.directory.cleanup)

    def save(self, made):
        """@return the paths of a trace, or of one for each rank."""
        paths = []
        for number, trace in enumerate(made if isinstance(made, list) else [made]):
            paths.append(os.path.join(self.directory.name, f"rank{number}.json"))
            trace.save(paths[-1])
        return paths

    def look(self, make, *options):
        return findings_of(self.save(make()), *options)


class EachRule(FindingsTest):
    def test_every_rule_has_cases(self):
        listed = command("--findings", "--list")
        rules = [line.split()[0] for line in listed.stdout.decode().splitlines()]
        self.assertGreaterEqual(len(rules), 30)
        self.assertEqual(sorted(set(rules) - set(CASES)), [],
                         "rules without a case: add one to CASES of tests/findings/cases_*.py")
        self.assertEqual(sorted(set(CASES) - set(rules)), [], "cases of no rule")

    def test_it_fires_where_the_fault_is(self):
        for rule, (fires, _) in CASES.items():
            with self.subTest(rule=rule):
                said = self.look(fires)
                self.assertEqual(judgements(said)[rule], "found")
                for found in of_rule(said, rule):
                    self.check_finding(found, said)

    def check_finding(self, found, said):
        self.assertTrue(found["sentence"] and found["advice"])
        self.assertNotIn("(null)", found["sentence"] + found["advice"])
        self.assertGreater(len(found["evidence"]), 0, "no evidence")
        self.assertGreaterEqual(found["count"], 1)
        self.assertTrue(0 <= found["confidence"] <= 1)
        if "worth_us" in found:
            whole = found["of_us"]
            self.assertTrue(0 <= found["worth_us"] <= whole * 1.0001)
            self.assertAlmostEqual(found["worth_pct"], 100 * found["worth_us"] / whole, delta=0.1)

    def test_it_is_quiet_without_the_fault(self):
        for rule, (_, quiet) in CASES.items():
            with self.subTest(rule=rule):
                self.assertEqual(judgements(self.look(quiet))[rule], "quiet")

    def test_savings_are_what_the_program_would_save(self):
        for rule, (low, high) in WORTH.items():
            with self.subTest(rule=rule):
                found = of_rule(self.look(CASES[rule][0]), rule)
                self.assertEqual(len(found), 1)
                self.assertTrue(low <= found[0]["worth_us"] <= high,
                                f"{found[0]['worth_us']} us, not {low} … {high}")

    def test_a_rule_says_the_same_alone(self):
        """With --only a finding is that of all rules, but for what depends on the other rules."""
        for rule, (fires, _) in CASES.items():
            if rule in ("communication.imbalance", "communication.slow_link"):
                continue
            with self.subTest(rule):
                paths = self.save(fires())
                of_all = of_rule(findings_of(paths), rule)
                alone = of_rule(findings_of(paths, "--only", rule), rule)
                for one in alone:
                    self.assertNotIn("additive", one)
                for one in of_all:
                    one.pop("additive", None)
                self.assertEqual(alone, of_all)

    def test_other_traces_are_evaluated_as_they_should_be(self):
        for what, rule, make, judgement in MORE:
            with self.subTest(what=what, rule=rule):
                self.assertEqual(judgements(self.look(make))[rule], judgement)

    def test_findings_are_sorted_by_savings(self):
        """After a deadlock, which other waits follow from. Causes across ranks come before what they explain."""
        across = ("communication.imbalance", "communication.slow_link")
        for rule, (fires, _) in CASES.items():
            keys = [(f["id"] == "lock.deadlock", f.get("worth_us", -1)) for f in self.look(fires)["findings"]
                    if f["id"] not in across]
            self.assertEqual(keys, sorted(keys, reverse=True))


class Sites(FindingsTest):
    def test_a_stall_is_found_for_each_place_that_waits(self):
        part = importlib.import_module("cases_1")
        found = of_rule(self.look(part.two_waits), "sync.stall")
        self.assertEqual([f["subject"] for f in found], ["aten::item at train.py(54): step"])
        said = self.look(lambda: part.reads(120))
        self.assertEqual([f["subject"] for f in of_rule(said, "sync.stall")],
                         ["aten::item at train.py(54): step"])
        self.assertIn("train.py(54)", of_rule(said, "sync.stall")[0]["advice"])
        self.assertIn("train.py(54)", of_rule(said, "sync.stall")[0]["evidence"][0]["text"])


    def test_a_wait_outside_of_operators_is_named_by_its_call(self):
        part = importlib.import_module("cases_1")
        found = of_rule(self.look(part.synchronized), "sync.stall")
        self.assertEqual([f["subject"] for f in found], ["cudaDeviceSynchronize"])

    def test_a_place_is_one_however_often_it_waits(self):
        found = of_rule(self.look(lambda: cases_3.waits(20, 20)), "sync.stall")
        self.assertEqual([(f["subject"], f["count"]) for f in found], [("aten::item at train.py(10): step", 400)])

    def test_a_copy_and_what_waits_for_it_in_one_operator_are_one_wait(self):
        part = importlib.import_module("cases_1")
        found = of_rule(self.look(lambda: part.reads(120, copy_waits=True)), "sync.stall")
        self.assertEqual([f["count"] for f in found], [6])
        self.assertIn("waits for the device 6 times", found[0]["sentence"])

    def test_places_after_which_nothing_is_idle_are_left_out(self):
        part = importlib.import_module("cases_1")
        for found in of_rule(self.look(lambda: part.reads(120, copy_waits=True), "--evidence", "100"), "sync.stall"):
            for place in found["evidence"]:
                self.assertNotIn("for 0 ns", place["text"])

    def test_the_sentence_explains_all_of_the_savings(self):
        part = importlib.import_module("cases_1")
        for make in (lambda: part.reads(120), lambda: part.reads(600), part.two_waits, part.synchronized):
            said = self.look(make)
            for found in of_rule(said, "sync.stall"):
                self.assertGreaterEqual(1.001 * sum(times_in(found["sentence"], r"idle for ([0-9.]+ \w+)", r"saves ([0-9.]+ \w+)")),
                                        6 * found["worth_us"], found["sentence"])

    def test_places_that_do_the_same_have_the_same_savings_however_many_there_are(self):
        found = of_rule(self.look(lambda: cases_3.places(14)), "sync.stall")
        worths = [f["worth_us"] for f in found if f["subject"] != "my::op13"]  # after it the step waits
        self.assertEqual(len(worths), 13)
        self.assertLess(max(worths), 1.2 * min(worths))


class Sentences(FindingsTest):
    def sentence(self, make, rule):
        return of_rule(self.look(make), rule)[0]["sentence"]

    def test_products_of_16_bits_become_twice_as_fast_at_most(self):
        self.assertIn("assumed to be 2.0 times as fast", self.sentence(cases_3.halves, "precision.tensor_cores"))

    def test_a_kernel_of_few_threads_does_not_fill_the_device(self):
        said = self.sentence(cases_3.few_threads, "kernel.low_occupancy")
        self.assertIn("has 4096 blocks and an occupancy of 5 %", said)
        self.assertNotIn("fills", said)

    def test_a_loop_is_said_by_its_whole_pass(self):
        for names, count, said in ((("aten::select", "aten::mul", "aten::select", "aten::copy_"), 50,
                                    "200 passes"),
                                   (("aten::select",) * 12 + ("aten::mul",), 40, "160 passes")):
            self.assertIn(said, self.sentence(lambda: cases_3.passes(*names, count=count), "host.loop_indexing"))


class Utilization(FindingsTest):
    def test_steps_that_are_left_out_are_no_idle_time(self):
        paths = self.save(cases_3.busy(20))
        for options in ((), ("--steps", "10..12"), ("--steps", "0..3"), ("--steps", "drop-last")):
            with self.subTest(options=options):
                self.assertEqual(judgements(findings_of(paths, *options))["device.low_utilization"], "quiet")

    def merged(self, *ranks):
        path = os.path.join(self.directory.name, "merged.json")
        subprocess.run([COMMAND, "convert", *self.save(list(ranks)), "-o", path], check=True, timeout=300,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return findings_of([path], "--only", "device.low_utilization")

    def test_each_process_of_a_merged_trace_has_a_first_device(self):
        said = self.merged(cases_3.busy_rank(0), cases_3.busy_rank(1))
        self.assertEqual(judgements(said)["device.low_utilization"], "quiet")
        found = self.merged(cases_3.busy_rank(0), cases_3.busy_rank(1, 200, 800))["findings"]
        self.assertEqual([f["count"] for f in found], [1])
        self.assertRegex(found[0]["sentence"], r"for 2[0-9]\.[0-9] % of the [0-9.]+ ms up to its last work")


class Copies(FindingsTest):
    def test_the_rate_is_that_of_all_copies_however_many(self):
        part = importlib.import_module("cases_1")
        said = [of_rule(self.look(lambda count=count: part.many_sent(count), "--only", "copy.pageable"),
                        "copy.pageable")[0] for count in (400, 4800)]
        for found in said:
            self.assertIn("(6.0 GB/s; pinned memory reaches 12.0)", found["sentence"])
        self.assertAlmostEqual(said[0]["worth_pct"], said[1]["worth_pct"], delta=0.5)

    def test_a_function_that_is_named_exists(self):
        part = importlib.import_module("cases_1")
        for fills, says in (("aten::randn", "torch.randn(…, device=device)"),
                            ("aten::fill_", "torch.empty(…, device=device)"),
                            ("mine::noise", "torch.empty(…, device=device)")):
            found = of_rule(self.look(lambda fills=fills: part.moved(fills), "--only", "copy.extra"), "copy.extra")
            self.assertIn(says, found[0]["advice"])
            self.assertNotIn("torch.fill_", found[0]["advice"])


class Exchanges(FindingsTest):
    def one(self, make, rule):
        return of_rule(self.look(make, "--only", rule), rule)[0]

    def test_what_is_outside_of_steps_changes_nothing(self):
        part = importlib.import_module("cases_1")
        for rule, make in (("communication.exposed", lambda before: part.messages(1, 1 << 28, 1000, before=before)),
                           ("communication.small_messages", lambda before: part.messages(20, 256, 15, before=before)),
                           ("parallel.data_parallel", lambda before: part.data_parallel(2, before=before))):
            with self.subTest(rule=rule):
                alone, after = (self.one(lambda n=n: make(n), rule) for n in (0, 100))
                for member in ("worth_us", "sentence", "count"):
                    self.assertEqual(after[member], alone[member])

    def test_times_of_several_devices_are_those_of_one(self):
        part = importlib.import_module("cases_1")
        sentence = self.one(lambda: part.messages(1, 1 << 28, 1000, devices=4), "communication.exposed")["sentence"]
        self.assertIn("16 collectives take 4.000 ms a device", sentence)
        self.assertIn("is exposed most, for 4.000 ms", sentence)
        small = self.one(lambda: part.messages(20, 256, 15, devices=2), "communication.small_messages")
        self.assertIn("80 collectives a device carry", small["sentence"])
        self.assertEqual(small["count"], 80)


class Segments(FindingsTest):
    def test_a_program_with_growing_segments_is_not_advised_to_set_them(self):
        part = importlib.import_module("cases_2")
        for calls, advised in ((("cudaFree", "cudaMalloc"), True), (("cuMemCreate", "cuMemMap", "cuMemSetAccess"), False)):
            found = of_rule(self.look(lambda calls=calls: part.churn(range(6), calls=calls)), "memory.allocator_churn")
            self.assertEqual("expandable_segments:True" in found[0]["advice"], advised)


class Loaders(FindingsTest):
    def test_what_is_loaded_before_the_steps_is_not_of_them(self):
        part = importlib.import_module("cases_1")
        found = [of_rule(self.look(lambda n=n: part.loader(1500, before=n)), "input.data_loader")[0] for n in (0, 50)]
        self.assertEqual([x["count"] for x in found], [6, 6])
        self.assertLessEqual(found[1]["worth_us"], 1500)
        self.assertFalse(of_rule(self.look(lambda: part.loader(300, before=500)), "input.data_loader"))


    def test_what_devices_wait_for_before_their_first_work_counts(self):
        part = importlib.import_module("cases_1")
        for options in ((), ("--steps", "0..0"), ("--steps", "3..3")):
            found = of_rule(self.look(lambda: part.loader(1500), *options), "input.data_loader")
            self.assertGreater(found[0]["worth_us"], 500, options)

    def test_what_a_device_does_of_a_step_that_is_left_out_is_not_idle(self):
        part = importlib.import_module("cases_1")
        for steps in ("0..0", "3..3"):  # the device still does the work of step 2
            found = of_rule(self.look(lambda: part.loader(500), "--steps", steps), "input.data_loader")
            self.assertEqual(bool(found), steps == "0..0")


class HostGaps(FindingsTest):
    def test_places_show_their_share_of_a_gap(self):
        part = importlib.import_module("cases_1")
        found = of_rule(self.look(lambda: part.between(100, 20, length=60), "--evidence", "100"), "host.python_gaps")[0]
        shares = [times_in(place["text"], r"^([0-9.]+ \w+) of it, before") for place in found["evidence"]]
        whole = times_in(found["sentence"], r"([0-9.]+ \w+) in all")[0]
        self.assertEqual(len(shares), found["count"])
        self.assertAlmostEqual(sum(sum(share) for share in shares), whole, delta=0.001 * whole)


class Needs(FindingsTest):
    def test_call_stacks_of_operators_are_not_functions_of_python(self):
        part = importlib.import_module("cases_1")
        for make, words in ((lambda: part.reads(120), "a newer PyTorch"), (lambda: part.loader(300), "with with_stack")):
            because = {r["id"]: r.get("because", "") for r in self.look(make)["rules"]}
            self.assertIn(words, because["input.synchronized_loader"])


    def test_what_a_source_does_not_report_is_said(self):
        part = importlib.import_module("cases_2")
        for rule, make, words in part.NOT_REPORTED:
            with self.subTest(rule=rule, words=words):
                said = {r["id"]: r for r in self.look(make)["rules"]}[rule]
                self.assertEqual(said["judgement"], "not judged")
                self.assertRegex(said["because"], "^not reported: ")
                self.assertIn(words, said["because"])


class Text(FindingsTest):
    def test_times_are_from_the_start_of_the_trace(self):
        part = importlib.import_module("cases_1")
        text = command("--findings", *self.save(part.reads(120))).stdout.decode()
        at = times_in(text, r" at ([0-9.]+ \w+) for")
        self.assertTrue(at)
        self.assertLess(max(at), 10000)


class Percentages(FindingsTest):
    def test_what_goes_on_after_the_steps_is_not_of_them(self):
        part = importlib.import_module("cases_2")

        def made(category, name):
            trace = part.churn([])
            end = max(e["ts"] + e["dur"] for e in trace.events if e["name"].startswith("ProfilerStep"))
            trace.slice(category, name, end - part.BASE - 100, 5_000_000, tid=999)
            return trace
        for rule, category, name in (("trace.profiler_overhead", "overhead", "Buffer Flush"),
                                     ("trace.lazy_start", "cuda_driver", "cuModuleLoadData")):
            for found in of_rule(self.look(lambda c=category, n=name: made(c, n)), rule):
                self.assertLess(float(found["sentence"].split(" %")[0].split()[-1]), 10)


class Churn(FindingsTest):
    def test_later_steps_are_warm_from_their_beginning(self):
        part = importlib.import_module("cases_2")
        said = self.look(lambda: part.churn(range(6), calls=("cudaMalloc",) * 3), "--steps", "4..4")
        self.assertEqual(len(of_rule(said, "memory.allocator_churn")), 1)
        self.assertEqual(of_rule(said, "trace.lazy_start"), [])

    def test_a_call_of_the_driver_in_one_of_the_runtime_counts_once(self):
        part = importlib.import_module("cases_2")

        def made():
            trace = part.churn(range(6))
            for event in [e for e in trace.events if e["name"] in ("cudaMalloc", "cudaFree")]:
                trace.slice("cuda_driver", "cuMemAlloc_v2" if event["name"] == "cudaMalloc" else "cuMemFree_v2", event["ts"] - part.BASE + 1, 248)
            return trace
        found = of_rule(self.look(made), "memory.allocator_churn")[0]
        self.assertEqual(found["count"], 10)


class Options(FindingsTest):
    def setUp(self):
        super().setUp()
        self.paths = self.save(CASES["launch.bound"][0]())

    def gate(self, *gates):
        options = [word for gate in gates for word in ("--gate", gate)]
        return command(*options, "--only", "launch", *self.paths)

    def test_a_gate_fails_where_something_is_found(self):
        self.assertEqual(self.gate("launch.bound").returncode, 1)
        self.assertIn(b"launch.bound", self.gate("launch.bound").stderr)

    def test_a_gate_with_a_limit_fails_above_it_only(self):
        for gate, status in (("launch.bound=5%", 1), ("launch.bound=99%", 0), ("launch.bound=2us", 1),
                             ("launch.bound=0.2ms", 1), ("launch.bound=2ms", 0), ("launch.bound=1s", 0)):
            with self.subTest(gate=gate):
                self.assertEqual(self.gate(gate).returncode, status)

    def test_one_of_several_gates_is_enough(self):
        self.assertEqual(self.gate("launch.bound=99%", "launch.bound=1%").returncode, 1)

    def test_a_group_and_all_stand_for_many_rules(self):
        self.assertEqual(command("--gate", "launch", *self.paths).returncode, 1)
        self.assertEqual(command("--gate", "all", *self.paths).returncode, 1)
        self.assertEqual(command("--gate", "copy", *self.paths).returncode, 0)

    def test_an_unknown_gate_or_rule_is_a_mistake_of_the_caller(self):
        for gate in ("launch.unbound", "launch.bound=", "launch.bound=x", "launch.bound=5", ""):
            with self.subTest(gate=gate):
                self.assertEqual(self.gate(gate).returncode, 2)
        self.assertEqual(command("--findings", "--only", "nothing", *self.paths).returncode, 2)

    def test_what_could_not_be_evaluated_does_not_pass(self):
        done = command("--gate", "communication.imbalance", *self.paths)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"skipped", done.stderr)

    def test_only_what_is_asked_for_is_evaluated(self):
        said = findings_of(self.paths, "--only", "launch.bound,copy")
        self.assertEqual({rule["id"].split(".")[0] for rule in said["rules"]}, {"launch", "copy"})

    def test_there_is_as_much_evidence_as_is_asked_for(self):
        found = of_rule(findings_of(self.paths, "--evidence", "7"), "launch.bound")[0]
        self.assertEqual(len(found["evidence"]), 7)
        weights = [e["dur_us"] for e in found["evidence"]]
        self.assertEqual(weights, sorted(weights, reverse=True))

    def test_the_same_trace_says_the_same_twice(self):
        self.assertEqual(findings_of(self.paths), findings_of(self.paths, "--threads", "1"))


class Ranks(FindingsTest):
    def test_the_same_on_several_ranks_is_one_finding(self):
        paths = self.save([CASES["sync.stall"][0](), CASES["sync.stall"][0]()])
        found = of_rule(findings_of(paths), "sync.stall")
        self.assertEqual([f["ranks"] for f in found], [2])
        alone = of_rule(findings_of(paths[:1]), "sync.stall")
        self.assertEqual(found[0]["worth_us"], alone[0]["worth_us"])

    def test_a_finding_of_one_rank_names_it(self):
        found = of_rule(self.look(CASES["communication.imbalance"][0]), "communication.imbalance")
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0]["rank"], 0)
        self.assertEqual(found[0]["subject"], "rank 0 computes longer than the ranks of its role")
        self.assertIn("rank 0 (GPU 0) computes 3.200 ms longer", found[0]["sentence"])

    def test_a_slow_link_is_named_by_its_group(self):
        found = of_rule(self.look(CASES["communication.slow_link"][0]), "communication.slow_link")
        self.assertEqual([f["subject"] for f in found], ["group 1 (tp)"])


    def loads(self, waits):
        """Findings of ranks whose program waits so long for its data loader in each step."""
        return findings_of(self.save([loader(wait) for wait in waits]), "--only", "input.data_loader")

    def test_a_percentage_is_of_the_step_of_the_rank_that_is_named(self):
        for waits, worst in (([300, 1500], 1), ([1500, 300], 0), ([300, 1500, 300], 1)):
            said = self.loads(waits)
            alone = [findings_of([path], "--only", "input.data_loader") for path in
                     self.save([loader(wait) for wait in waits])]
            found = of_rule(said, "input.data_loader")[0]
            self.assertEqual(found["rank"], worst)
            self.assertEqual(found["of_us"], alone[worst]["step_us"])
            for member in ("worth_us", "worth_pct", "of_us"):
                self.assertEqual(found[member], alone[worst]["findings"][0][member])
            self.assertEqual(said["steps"], sum(a["steps"] for a in alone))
            self.assertAlmostEqual(said["step_us"], sum(a["step_us"] * a["steps"] for a in alone) / said["steps"],
                                   delta=0.01)

    def test_savings_across_ranks_are_a_part_of_the_run(self):
        made = CASES["communication.imbalance"][0]()
        for order in (made, made[::-1]):
            said = findings_of(self.save(order))
            found = of_rule(said, "communication.imbalance")[0]
            self.assertAlmostEqual(found["of_us"], said["step_us"], delta=0.01 * said["step_us"])
            self.assertEqual({f["of_us"] for f in said["findings"] if "of_us" in f}, {found["of_us"]})
            self.assertAlmostEqual(found["worth_pct"], 100 * found["worth_us"] / found["of_us"], delta=0.01)

    def test_it_is_said_whose_step_a_percentage_is_of_where_steps_differ(self):
        paths = self.save([loader(300), loader(1500)])
        shown = command("--gate", "input.data_loader=1%", "--only", "input.data_loader", *paths)
        text = " ".join(shown.stdout.decode().split())
        self.assertIn("; savings are of rank 1's step, ", text)
        self.assertRegex(shown.stderr.decode(), r"saves [^ ]+ [mu]s \([0-9.]+ % of rank 1's step\)")
        alone = command("--findings", "--only", "input.data_loader", paths[1]).stdout.decode()
        self.assertNotIn("'s step", alone)


# ---- the corpus ----

def corpus():
    """Traces by name; files of one run are one. Ours is always there."""
    names = {"faults": [os.path.join(HERE, "..", "data", "torch-2.15.0", "faults.json.gz")]}
    names["work"] = [os.path.join(HERE, "..", "data", "watched", "work.json.gz")]
    directory = os.path.join(SHARED, "traces")
    if not SHARED or not os.path.isdir(directory):
        return names
    other = ("execution_trace_simple_add.et", "memory_timeline.raw")
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            names[name] = [path]
        elif name.endswith(".json.gz") and not name.startswith(other):
            names[name[:-len(".json.gz")]] = [path]
    return names


def rows_of(name, paths):
    """(trace, rule, judgement, worth in percent of all its findings, or "-")."""
    said = findings_of(paths)
    for rule in said["rules"]:
        worths = [f["worth_pct"] for f in of_rule(said, rule["id"]) if "worth_pct" in f]
        yield name, rule["id"], rule["judgement"], f"{max(worths):.1f}" if worths else "-"


def read_table():
    """@return the rows, and what the reader said of them by (trace, rule)."""
    rows, remarks = [], {}
    if os.path.exists(TABLE):
        with open(TABLE, encoding="utf-8") as f:
            for line in f.read().splitlines()[1:]:
                trace, rule, judgement, worth, *remark = line.split("\t")
                rows.append((trace, rule, judgement, worth))
                remarks[trace, rule] = remark[0] if remark else ""
    return rows, remarks


ANEW = ("read what changed; if it is right, run 'CKINETO=... CKINETO_SHARED=... python3 tests/findings/test_findings.py "
        "--write' and review each new row with \"found\" in its last column")


def differences(trace, before, now):
    """Lines "trace rule: before -> now". A rule that the table does not have yet may be quiet or not evaluated."""
    for rule, (judgement, worth) in now.items():
        old, old_worth = before.get(rule, (judgement if judgement != "found" else "no row", worth))
        moved = "-" in (worth, old_worth) and worth != old_worth or "-" not in (worth, old_worth) and \
            abs(float(worth) - float(old_worth)) > 0.5
        if judgement != old or moved:
            yield f"{trace} {rule}: {old} {old_worth} -> {judgement} {worth}"
    for rule in before.keys() - now.keys():
        yield f"{trace} {rule}: in corpus.tsv, but the command has no such rule"


def write_table():
    _, remarks = read_table()
    with open(TABLE, "w", encoding="utf-8") as f:
        f.write("trace\trule\tjudgement\tworth_pct\treviewed\n")
        for name, paths in corpus().items():
            for row in rows_of(name, paths):
                remark = remarks.get(row[:2], "") if row[2] == "found" else ""
                f.write("\t".join(row) + ("\t" + remark if remark else "") + "\n")


class Corpus(unittest.TestCase):
    def setUp(self):
        self.traces = corpus()

    def test_the_table_says_of_every_trace_what_the_command_does(self):
        kept, _ = read_table()
        wrong = []
        for name, paths in self.traces.items():
            before = {row[1]: row[2:] for row in kept if row[0] == name}
            wrong += differences(name, before, {row[1]: row[2:] for row in rows_of(name, paths)})
        self.assertEqual(wrong, [], "corpus.tsv differs; " + ANEW)

    def test_each_finding_has_a_reason_why_it_is_right(self):
        rows, remarks = read_table()
        self.assertEqual([row[:2] for row in rows if row[2] == "found" and not remarks[row[:2]]], [],
                         "say in the last column of corpus.tsv why these findings are right, or wrong")

    def test_rules_that_no_real_trace_has_shown_say_so(self):
        shown = {row[1] for row in read_table()[0] if row[2] == "found"}
        marked = {name for name, _, _, only_synthetic in rules_table.rules() if only_synthetic}
        self.assertEqual(marked, set(CASES) - shown, "finding_rules.def: KA_SYNTHETIC are the rules that no row of "
                         "corpus.tsv with \"found\" names, KA_REAL the others")

    def test_the_pair_of_resnet50_names_its_data_loader(self):
        if "resnet50_num_workers_0" not in self.traces:
            self.skipTest("the traces are not here")
        said = findings_of(self.traces["resnet50_num_workers_0"])
        loader = of_rule(said, "input.data_loader")
        self.assertEqual(len(loader), 1)
        self.assertEqual(said["findings"][0]["id"], "input.data_loader")
        self.assertEqual(judgements(findings_of(self.traces["resnet50_num_workers_4"]))["input.data_loader"], "quiet")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_table()
    else:
        unittest.main(verbosity=2)
