"""`ckineto verify`: a sound trace has no findings; each planted defect is found by the rule that is made
for it, and by no other one that it does not touch."""

import copy
import glob
import json
import os
import re

from command import TARGET, CommandTest, main

BASE = 1_700_000_000_000_000  # us since 1970
DOCUMENT = os.path.join(os.environ.get("CKINETO_MAN", ""), "..", "reference", "verify.md")
TRACES = os.environ.get("CKINETO_TRACES", "")
OPS = 60


def event(ph, name, pid, tid, ts, **more):
    return {"ph": ph, "name": name, "pid": pid, "tid": tid, "ts": ts, **more}


def names():
    for pid, name, label in ((100, "train", "CPU"), (0, "train", "GPU 0")):
        yield event("M", "process_name", pid, 0, BASE, args={"name": name})
        yield event("M", "process_labels", pid, 0, BASE, args={"labels": label})
    for pid, tid, name in ((100, 1, "main"), (100, 2, "loader"), (0, 7, "stream 7")):
        yield event("M", "thread_name", pid, tid, BASE, args={"name": name})


def operator(i):
    """An operator, the call in it, and what the device does for it; arrows between them."""
    start, work = BASE + 100 + i * 100, BASE + 140 + i * 100
    copying = i % 10 == 0
    ids = {"External id": i + 1, "correlation": 1000 + i}
    args = {"device": 0, "stream": 7, **ids}
    if copying:
        args |= {"bytes": 80_000, "memory bandwidth (GB/s)": 2.0}
    yield event("X", f"aten::op{i % 5}", 100, 1, start, dur=80, cat="cpu_op",
                args={"External id": i + 1, "Input Dims": [[8, 8]]})
    yield event("X", "cudaMemcpyAsync" if copying else "cudaLaunchKernel", 100, 1, start + 10, dur=5,
                cat="cuda_runtime", args=ids)
    yield event("s", "ac2g", 100, 1, start + 10, cat="ac2g", id=i + 1)
    yield event("X", "Memcpy HtoD" if copying else f"kernel{i % 5}", 0, 7, work, dur=40,
                cat="gpu_memcpy" if copying else "kernel", args=args)
    yield event("f", "ac2g", 0, 7, work, cat="ac2g", id=i + 1, bp="e")


def sound():
    events = list(names())
    for step in range(3):
        events.append(event("X", f"ProfilerStep#{step + 5}", 100, 1, BASE + 95 + step * 2000, dur=1995,
                            cat="user_annotation", args={}))
        for i in range(step * OPS // 3, (step + 1) * OPS // 3):
            events += operator(i)
    for i in range(10):
        at = BASE + 200 + i * 300
        events += [event("X", "forward", 100, 2, at, dur=50, cat="cpu_op", args={"External id": 500 + i}),
                   event("s", "fwdbwd", 100, 2, at, cat="fwdbwd", id=i + 1),
                   event("X", "backward", 100, 2, at + 100, dur=50, cat="cpu_op",
                         args={"External id": 600 + i}),
                   event("f", "fwdbwd", 100, 2, at + 100, cat="fwdbwd", id=i + 1, bp="e"),
                   event("C", "energy_total", 100, 0, at, args={"J": 100 + i})]
    events += [event("X", "note", 100, 2, BASE + 5000, dur=10, cat="user_annotation"),
               event("X", "cudaStreamWaitEvent", 100, 2, BASE + 5100, dur=10, cat="cuda_runtime",
                     args={"correlation": 5000}),
               event("X", "Stream Sync", 0, 7, BASE + 6110, dur=10, cat="cuda_sync",
                     args={"correlation": 5000, "stream": 7}),
               event("i", "Record Window End", "", "", BASE + 7000, s="g")]
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "device", "computeMajor": 8}],
            "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, "traceEvents": events}


class Plant:
    """A sound trace under change."""

    def __init__(self):
        self.trace = sound()

    @property
    def events(self):
        return self.trace["traceEvents"]

    def all(self, cat=None, ph="X", **wanted):
        return [e for e in self.events if e["ph"] == ph and (cat is None or e.get("cat") in cat.split("|"))
                and all(e.get(k) == v for k, v in wanted.items())]

    @property
    def work(self):
        return self.all("kernel|gpu_memcpy")

    @property
    def calls(self):
        return [e for e in self.all("cuda_runtime") if e["args"]["correlation"] < 5000]

    @property
    def ops(self):
        return self.all("cpu_op", tid=1)

    def remove(self, *events):
        gone = {id(e) for e in events}
        self.trace["traceEvents"] = [e for e in self.events if id(e) not in gone]

    def remove_work(self, works):
        """Device work with the ends of its arrows."""
        ids = {w["args"]["External id"] for w in works}
        self.remove(*works, *(f for f in self.all("ac2g", "f") if f["id"] in ids))

    def remove_call(self, call):
        self.remove(call, *(s for s in self.all("ac2g", "s") if s["id"] == call["args"]["External id"]))

    def ledger(self, **line):
        self.trace["ckineto"] = {"ledger": [{"detail": "", "loss": False, **line}]}


DEFECTS = {}


def defect(*rules):
    """What it makes `verify` say: "rule" for an error or a warning, "-rule" for a note."""
    def add(function):
        DEFECTS[function.__name__] = (function, set(rules))
        return function
    return add


@defect("rows.none")
def nothing_was_recorded(p):
    p.trace["traceEvents"] = list(names())


@defect("-rows.open")
def an_operator_did_not_end(p):
    p.ops[-1]["args"]["finished"] = False


@defect("rows.duplicate", "-track.overlap")
def a_kernel_stands_there_twice(p):
    p.events.insert(p.events.index(p.work[5]) + 1, copy.deepcopy(p.work[5]))


@defect("ledger.losses")
def the_buffer_was_full(p):
    p.ledger(source="program", reason="buffer full", count=5, loss=True)


@defect("ledger.losses")
def a_process_was_not_recorded(p):
    p.ledger(source="processes not recorded", reason="ended before it was attached", count=1, loss=True)


@defect("ledger.unread")
def an_end_has_no_begin(p):
    p.events.append(event("E", "stray", 100, 2, BASE + 10))


@defect("-ledger.repaired")
def the_header_names_two_ranks(p):
    p.ledger(source="reader", reason="member repeated in the header, with another value: the first one counts", count=1)


@defect("ledger.repaired")
def half_a_character(p):
    p.ops[3]["name"] = "\ud83d"


@defect("clock.residual")
def clocks_do_not_fit(p):
    p.ledger(source="device clock", reason="residual [ns]", count=250_000)


@defect("-clock.stepped")
def set_wall_clock(p):
    p.ledger(source="clock", reason="wall clock steps", count=1)


@defect("clock.suspicion")
def the_device_clock_is_late(p):
    for e in p.work + p.all("ac2g", "f"):
        e["ts"] -= 50_000


@defect("clock.suspicion")
def the_device_clock_is_ahead(p):
    for e in p.work + p.all("ac2g", "f") + p.all(ph="i") + p.all("cuda_sync"):
        e["ts"] += 20_000_000


@defect("clock.suspicion", "-correlation.dangling")
def host_and_device_are_days_apart(p):
    for e in p.all("ac2g", "s"):
        p.remove(e)
    for e in p.calls:
        e["args"].pop("correlation")
    for e in p.work + p.all("ac2g", "f") + p.all(ph="i") + p.all("cuda_sync"):
        e["ts"] += 2 * 86_400_000_000


@defect("times.implausible")
def one_time_was_not_taken(p):
    p.all("cpu_op", tid=2)[3]["ts"] = 0
    p.remove(*(e for e in p.all("fwdbwd", "s") + p.all("fwdbwd", "f") if e["id"] == 2))


@defect("times.implausible")
def the_base_was_added_to_full_times(p):
    p.trace["baseTimeNanoseconds"] = BASE * 1000


@defect("-times.relative")
def times_count_from_the_start(p):
    for e in p.events:
        e["ts"] -= BASE


@defect("units.mixed", "duration.absurd", "-window.outside")
def device_durations_are_nanoseconds(p):
    for e in p.work:
        e["dur"] *= 1000


@defect("units.mixed", "window.outside", "-order.unsorted")
def device_times_are_nanoseconds(p):
    for e in p.work + p.all("ac2g", "f"):
        e["ts"] = BASE + 140 + (e["ts"] - BASE - 140) * 1000


@defect("units.mixed")
def copies_are_too_short(p):
    for e in p.all("gpu_memcpy"):
        e["dur"] /= 1000


@defect("duration.negative")
def an_end_before_its_start(p):
    p.all("user_annotation", name="note")[0]["dur"] = -5


@defect("-duration.zero")
def durations_were_rounded(p):
    for e in p.all("cpu_op|cuda_runtime|kernel"):
        e["dur"] = 0


@defect("duration.absurd", "-window.outside")
def an_annotation_of_a_day(p):
    p.all("user_annotation", name="note")[0].update(ts=BASE + 6500, dur=86_400_000_000)
    p.events.append(p.events.pop(p.events.index(p.all(name="note")[0])))


@defect("window.outside")
def an_operator_after_the_end(p):
    p.all("user_annotation", name="note")[0]["ts"] = BASE + 9000
    p.events.append(p.events.pop(p.events.index(p.all(name="note")[0])))


@defect("-order.unsorted")
def the_file_is_not_in_order(p):
    a, b = p.events.index(p.work[7]), p.events.index(p.work[9])
    p.events[a], p.events[b] = p.events[b], p.events[a]
    ends = [f for f in p.all("ac2g", "f") if f["id"] in (8, 10)]
    a, b = map(p.events.index, ends)
    p.events[a], p.events[b] = p.events[b], p.events[a]


@defect("launch.order")
def a_kernel_before_its_launch(p):
    p.work[5]["ts"] -= 45
    p.work[5]["dur"] = 5
    next(f for f in p.all("ac2g", "f") if f["id"] == 6)["ts"] -= 45


@defect("correlation.dangling")
def a_launch_is_missing(p):
    p.remove_call(p.calls[30])


@defect("-correlation.dangling")
def the_first_launch_was_before_recording(p):
    p.remove_call(p.calls[0])


@defect("-correlation.absent", "-correlation.no-work", "-flow.dangling")
def a_kernel_has_no_id(p):
    p.work[5]["args"].pop("correlation")
    p.remove(next(f for f in p.all("ac2g", "f") if f["id"] == 6))


@defect("correlation.duplicate")
def two_calls_share_an_id(p):
    for e in (p.calls[7], p.work[7]):
        e["args"]["correlation"] = 1003


@defect("correlation.no-work", "-flow.dangling")
def device_records_between_others_were_lost(p):
    p.remove_work(p.work[20:32])


@defect("device.missing", "-flow.dangling")
def no_device_record_at_all(p):
    p.remove_work(p.work)


@defect("buffer.truncated", "-flow.dangling")
def device_records_end_early(p):
    p.remove_work(p.work[40:])


@defect("flow.dangling")
def an_arrow_lost_its_start(p):
    p.remove(p.all("fwdbwd", "s")[2])


@defect("flow.dangling")
def an_arrow_lost_its_end(p):
    p.remove(p.all("fwdbwd", "f")[2])


@defect("flow.dangling")
def the_arrow_of_a_launch_lost_its_start(p):
    p.remove(p.all("ac2g", "s")[8])


@defect("flow.dangling")
def the_arrow_of_a_launch_lost_its_end(p):
    p.remove(p.all("ac2g", "f")[8])


@defect("flow.duplicate")
def two_arrows_share_an_id(p):
    for e in (p.all("fwdbwd", "s")[4], p.all("fwdbwd", "f")[4]):
        e["id"] = 3


@defect("flow.backwards")
def an_arrow_goes_back_in_time(p):
    p.all("fwdbwd", "s")[4]["ph"] = "end"
    p.all("fwdbwd", "f")[4]["ph"] = "s"
    p.all("fwdbwd", "end")[0]["ph"] = "f"


@defect("track.overlap")
def kernels_of_one_stream_overlap(p):
    p.work[5]["dur"] = 290


@defect("thread.partial-overlap")
def calls_of_one_thread_cross(p):
    p.all("cpu_op", tid=2)[0]["dur"] = 120


@defect("-thread.partial-overlap")
def calls_of_one_thread_cross_by_rounding(p):
    p.all("cpu_op", tid=2)[0]["dur"] = 100.5


@defect("-thread.partial-overlap")
def an_annotation_ends_inside_a_call(p):
    p.all("cpu_op", tid=2)[0].update(dur=120, cat="user_annotation", args={})


@defect("-track.unnamed")
def a_thread_has_no_name(p):
    p.remove(p.all(ph="M", name="thread_name", tid=2)[0])


@defect("-sync.missing")
def waits_without_synchronisation(p):
    p.remove(*p.all("cuda_sync"))


@defect("-steps.none")
def no_step_was_marked(p):
    p.remove(*(e for e in p.all("user_annotation") if e["name"].startswith("ProfilerStep")))


@defect("steps.missing")
def a_step_is_missing(p):
    p.remove(p.all("user_annotation", name="ProfilerStep#6")[0])


@defect("steps.repeated")
def a_step_number_occurs_twice(p):
    p.all("user_annotation", name="ProfilerStep#7")[0]["name"] = "ProfilerStep#6"


@defect("counter.backwards")
def energy_is_given_back(p):
    p.all(ph="C")[6]["args"]["J"] = 3


@defect("ids.reused")
def two_operators_share_an_id(p):
    p.ops[9]["args"]["External id"] = 5


@defect("names.empty")
def an_operator_has_no_name(p):
    p.ops[9]["name"] = ""


@defect("args.lost")
def arguments_were_dropped(p):
    p.ops[9]["args"]["arguments lost"] = True


@defect("args.invalid")
def a_key_says_two_things(p):
    p.ops[9]["args"] = {"Ev Idx": 1, "TWICE": 2}


@defect("process.conflict")
def two_processes_are_one_rank(p):
    p.events.append(event("X", "other", 200, 1, BASE + 500, dur=10, cat="cpu_op", args={"External id": 900}))
    p.events.append(event("M", "thread_name", 200, 1, BASE, args={"name": "main"}))
    p.trace["ckineto"] = {"processes": [
        {"pid": pid, "id": pid, "device": device, "rank": rank}
        for pid, device, rank in ((100, False, 0), (200, False, 0), (0, True, -1))]}


@defect("header.rank")
def the_rank_is_beyond_the_world(p):
    p.trace["distributedInfo"]["rank"] = 2


class Verify(CommandTest):
    def write(self, trace, name="trace.json"):
        text = trace if isinstance(trace, str) else json.dumps(trace).replace('"TWICE"', '"Ev Idx"')
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def verify(self, *arguments):
        done = self.run_command("verify", "--json", *arguments)
        return done.returncode, json.loads(done.out)["traces"]

    def found(self, path):
        status, (report,) = self.verify(path)
        rules = {("-" if f["severity"] == "note" else "") + f["rule"] for f in report["findings"]}
        self.assertEqual(status, 0 if all(r[0] == "-" for r in rules) else 1)
        self.assertEqual(report["sound"], status == 0)
        return rules

    def test_nothing_is_found_in_a_sound_trace(self):
        self.assertEqual(self.found(self.write(sound())), set())

    def test_each_defect_is_found_by_its_rule(self):
        for name, (plant, expected) in DEFECTS.items():
            with self.subTest(name):
                planted = Plant()
                plant(planted)
                self.assertEqual(self.found(self.write(planted.trace)), expected)

    def test_every_rule_has_a_defect(self):
        listed = json.loads(self.run_command("verify", "--list", "--json").out)["rules"]
        planted = {rule.lstrip("-") for _, rules in DEFECTS.values() for rule in rules}
        self.assertEqual({rule["id"] for rule in listed}, planted)

    def test_what_a_rule_says_is_never_worse_than_its_table(self):
        levels = ["note", "warning", "error"]
        listed = json.loads(self.run_command("verify", "--list", "--json").out)["rules"]
        most = {rule["id"]: levels.index(rule["severity"]) for rule in listed}
        for plant, _ in DEFECTS.values():
            planted = Plant()
            plant(planted)
            for finding in self.verify(self.write(planted.trace))[1][0]["findings"]:
                self.assertLessEqual(levels.index(finding["severity"]), most[finding["rule"]])

    def test_places_name_the_rows(self):
        planted = Plant()
        a_kernel_before_its_launch(planted)
        _, (report,) = self.verify(self.write(planted.trace))
        (place,) = report["findings"][0]["places"]
        self.assertEqual(place["name"], "kernel0")
        self.assertEqual(place["start_ns"], (BASE + 140 + 500 - 45) * 1000)
        self.assertEqual(place["where"], "stream 7 of device 0")

    def test_arrows_that_go_on_in_steps_repeat_no_id(self):
        def at(tid, phase):
            event = {"pid": 1, "tid": tid, "ts": tid * 10}
            return [{"ph": "X", "name": "work", "cat": "user_annotation", "dur": 5, **event},
                    {"ph": phase, "name": "x", "cat": "x", "id": 1, **event}]
        for phases in ("stf", "ttf"):
            path = self.write({"traceEvents": [e for tid, phase in enumerate(phases, 1) for e in at(tid, phase)]})
            _, (report,) = self.verify(path, "--rule", "flow.duplicate,flow.backwards")
            self.assertEqual(report["findings"], [], phases)

    def test_the_number_of_places_can_be_chosen(self):
        planted = Plant()
        durations_were_rounded(planted)
        for more, count in ((["--max", "7"], 7), (["--max", "1"], 1), ([], 3)):
            _, (report,) = self.verify(self.write(planted.trace), *more)
            self.assertEqual(len(report["findings"][0]["places"]), count)

    def test_offsets_in_ledger_lines_are_places(self):
        planted = Plant()
        planted.ledger(source="repair", reason="trailing comma", count=2, detail="first at byte 4711")
        _, (report,) = self.verify(self.write(planted.trace))
        self.assertEqual(report["findings"][0]["rule"], "ledger.repaired")
        self.assertEqual(report["findings"][0]["places"][0]["offset"], 4711)

    def test_rules_can_be_chosen_by_id_and_by_group(self):
        planted = Plant()
        the_arrow_of_a_launch_lost_its_start(planted)
        an_arrow_goes_back_in_time(planted)
        two_operators_share_an_id(planted)
        path = self.write(planted.trace)
        rules = lambda *a: {f["rule"] for f in self.verify(path, *a)[1][0]["findings"]}
        self.assertEqual(rules("--rule", "flow"), {"flow.dangling", "flow.backwards"})
        self.assertEqual(rules("--rule", "ids.reused,flow.backwards"), {"ids.reused", "flow.backwards"})
        self.assertEqual(rules("-r", "ids.reused", "-r", "steps"), {"ids.reused"})
        self.assertEqual(self.run_command("verify", "-q", "-r", "steps", path).returncode, 0)

    def test_an_unknown_rule_is_a_mistake(self):
        for rule in ("flo", "nothing", "flow.dangling.", ""):
            done = self.run_command("verify", "--rule", rule or "x", self.write(sound()))
            self.assertEqual((done.returncode, done.out), (2, b""))
            self.assertIn(b"unknown rule", done.err)

    def test_the_worst_of_several_files_is_the_status(self):
        planted = Plant()
        steps = planted.all("user_annotation", name="ProfilerStep#6")
        planted.remove(*steps)
        good, bad = self.write(sound()), self.write(planted.trace, "bad.json")
        broken = self.write("{", "broken.json")
        for paths, status in (((good,), 0), ((good, bad), 1), ((bad, good), 1), ((broken, bad), 1), ((good, self.path("absent.json")), 1),
                              ((broken, self.path("absent.json")), 2)):
            done = self.run_command("verify", *paths)
            self.assertEqual(done.returncode, status, paths)
            self.assertEqual(self.run_command("verify", "-q", *paths).out, b"")
            self.assertEqual(self.verify(*paths)[0], status)
        _, reports = self.verify(broken, bad)
        self.assertEqual([r.get("sound") for r in reports], [None, False])
        self.assertIn("message", reports[0]["error"])

    def test_an_answer_that_cannot_be_written_is_not_a_finding(self):
        with open("/dev/full", "wb") as full:
            for options in (["--help"], ["--list"], ["--list", "--json"], [self.write(sound())],
                            ["--json", self.write(sound())]):
                done = self.run_command("verify", *options, stdout=full)
                self.assertEqual(done.returncode, 2, options)
                self.assertIn(b"No space left", done.err)

    def test_text_says_what_why_and_what_to_do(self):
        planted = Plant()
        an_operator_has_no_name(planted)
        done = self.run_command("verify", self.write(planted.trace))
        self.assertRegex(done.out.decode(), r"trace.json: 0 errors, 1 warning\n  warning names.empty: 1: ")
        self.assertRegex(done.out.decode(), r"why it matters: \S.*\n +what to do: \S")
        self.assertRegex(self.run_command("verify", self.write(sound())).out.decode(), r": sound\n$")

    def test_names_do_not_reach_the_terminal_raw(self):
        planted = Plant()
        planted.ops[4]["name"] = "\x1b[31mred\n"
        planted.ops[5]["args"]["External id"] = planted.ops[4]["args"]["External id"]
        planted.ops[5]["name"] = "\x1b[31mred\n"
        done = self.run_command("verify", self.write(planted.trace))
        self.assertNotIn(b"\x1b", done.out)
        self.assertIn(rb"\x1b[31mred\x0a", done.out)

    def test_what_the_command_records_is_sound(self):
        self.record(TARGET, "ranges", "40", "fork", "2")
        self.assertEqual(self.found(self.path("t.json")) - {"-rows.open", "-steps.none"}, set())

    def test_a_trace_is_needed(self):
        self.assertEqual(self.run_command("verify").returncode, 2)

    def test_the_document_has_the_table_of_rules(self):
        rules = json.loads(self.run_command("verify", "--list", "--json").out)["rules"]
        lines = ["| rule | maximum severity | finding | consequence | remedy |", "|---|---|---|---|---|"]
        lines += [f"| `{r['id']}` | {r['severity']} | {r['meaning']} | {r['why']} | {r['remedy']} |" for r in rules]
        with open(DOCUMENT, encoding="utf-8") as file:
            self.assertIn("\n".join(lines) + "\n", file.read(), "\n".join(lines))

    def test_extreme_times_do_no_harm(self):
        limits = [-(2 ** 63) // 1000 + 1, 2 ** 63 // 1000 - 1, 0, -1]
        events = [event("X", f"{cat}{i}", pid, 1, ts, dur=dur, cat=cat,
                        args={"correlation": i % 3 + 1, "External id": 2 ** 64 - 1})
                  for i, ts in enumerate(limits) for dur in (0, 1, 10 ** 15, -5)
                  for cat, pid in (("kernel", 0), ("cuda_runtime", 1), ("cpu_op", 1))
                  if -(2 ** 63) < (ts + dur) * 1000 < 2 ** 63]
        events += [event(ph, "x", 1, 1, ts, cat=cat, id=2 ** 64 - 1) for ph in "sf" for ts in limits
                   for cat in ("ac2g", "fwdbwd", "own")]
        self.assertEqual(self.verify(self.write({"traceEvents": events}))[0], 1)


DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
# What some of these files are there for; PyTorch 1.13 gave an operator the length -11018647670946430.
DAMAGE = {"ledger.repaired", "ledger.losses", "rows.none", "duration.negative"}


class OwnTraces(CommandTest):
    def test_only_damage_is_found_in_captured_traces(self):
        paths = [p for p in sorted(glob.glob(os.path.join(DATA, "torch-*", "*.json.gz"))) if ".et." not in p]
        if not paths:
            self.skipTest("there are no captured traces")
        done = self.run_command("verify", "--json", *paths)
        self.assertIn(done.returncode, (0, 1), done.err)
        reports = json.loads(done.out)["traces"]
        self.assertEqual(len(reports), len(paths))
        for report in reports:
            found = {f["rule"] for f in report["findings"] if f["severity"] != "note"}
            self.assertLessEqual(found, DAMAGE, report["trace"])


SOUND = ("amd_mi250", "cpu_only", "critical_path_simple_add", "cuda_event_sync_multi_stream", "cupti_profiler",
         "execution_trace_simple_add", "nccl_data", "negative_queue_a100", "resnet50_num_workers_0",
         "resnet50_num_workers_4", "trace_diff_control", "trace_diff_test", "dlrm_8rank/*")
UNSOUND = {"mtia_inference": {"thread.partial-overlap"}, "triton_example": {"duration.absurd"}}


class RealTraces(CommandTest):
    def setUp(self):
        super().setUp()
        if not os.path.isdir(TRACES):
            self.skipTest("the folder of real traces is absent")

    def files(self, name):
        found = glob.glob(os.path.join(TRACES, name + ".json.gz")) or glob.glob(os.path.join(TRACES, name))
        self.assertTrue(found, name)
        return found

    def test_nothing_is_found_in_sound_ones(self):
        for name in SOUND:
            done = self.run_command("verify", *self.files(name))
            self.assertEqual(done.returncode, 0, done.out.decode()[:2000])

    def test_the_document_says_why_others_are_unsound(self):
        with open(DOCUMENT, encoding="utf-8") as file:
            document = file.read()
        for name, expected in UNSOUND.items():
            done = self.run_command("verify", "--json", *self.files(name))
            findings = json.loads(done.out)["traces"][0]["findings"]
            self.assertEqual({f["rule"] for f in findings if f["severity"] != "note"}, expected)
            self.assertTrue(re.search(rf"`{name}`.*{'.*'.join(expected)}", document), name)


main()
