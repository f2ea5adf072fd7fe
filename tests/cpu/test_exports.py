"""CPU profiles in other formats: each has the samples and the CPU time of the recording, and Perfetto's
the scheduler's events that the states of threads come of. Of random programs all is known."""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
import cpu_traces  # noqa: E402
import formats  # noqa: E402

COMMAND, TARGET = os.environ["CKINETO"], os.environ["CPU_TARGET"]
PROGRAMS = 12


def summed(pairs):
    sums = collections.Counter()
    for key, value in pairs:
        sums[key] += value
    return {key: value for key, value in sums.items() if value}


class Exports(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.trace = self.at("trace.json")

    def tearDown(self):
        self.folder.cleanup()

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def run_command(self, *command):
        r = subprocess.run([COMMAND, *command], capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        return r

    def convert(self, name, *options):
        path = self.at(name)
        self.said = self.run_command("convert", self.trace, "-o", path, *options).stderr
        return path

    def programs(self, count=PROGRAMS, **options):
        for seed in range(count):
            program = cpu_traces.Program(seed, threads=1 + seed % 4, cpus=1 + seed % 3, **options)
            program.write(self.trace)
            self.seed = f"seed {seed}"
            yield program

    # ---- stacks and weights ----

    def folded(self, *options):
        pairs = formats.read_folded(self.convert("t.folded", "--by", "none", *options))
        return summed((tuple(f.decode() for f in stack), weight) for stack, weight in pairs)

    def test_every_format_has_the_samples_and_the_cpu_time_of_each_stack(self):
        for program in self.programs():
            totals = program.totals()
            samples = {stack: both[0] for stack, both in totals.items()}
            cpu_ns = {stack: both[1] for stack, both in totals.items()}
            self.assertEqual(self.folded("--weight", "samples"), samples)
            self.assertEqual(self.folded("--weight", "cpu"), cpu_ns)
            self.assertEqual(self.folded(), cpu_ns)
            self.assertEqual(self.pprof("samples"), samples)
            self.assertEqual(self.pprof("cpu"), cpu_ns)
            profiles = formats.read_sampled(self.convert("t.speedscope.json"))
            self.assertEqual(summed(pair for _, pairs in profiles for pair in pairs), cpu_ns)
            cpu = formats.PerfettoCpu(self.convert("t.pftrace"))
            self.assertEqual(summed((stack, 1) for _, _, _, stack, _ in cpu.samples), samples)
            self.assert_counts_of_cpus(cpu, sum(cpu_ns.values()))

    def test_calls_and_samples_are_not_added_up(self):
        """Ranges of threads that were sampled are in stacks of their own weight only."""
        for program in self.programs(4):
            with open(self.trace, encoding="utf-8") as file:
                whole = json.load(file)
            calls = [{"ph": "X", "cat": "blocking_call", "name": "read", "pid": cpu_traces.PID, "tid": 900000 + t.tid,
                      "ts": (s[1] - t.states[0][1]) / 1000, "dur": (s[2] - s[1]) / 1000}
                     for t in program.threads for s in t.states if s[0] == cpu_traces.BLOCKED]
            whole["traceEvents"] += calls
            with open(self.trace, "w", encoding="utf-8") as file:
                json.dump(whole, file)
            self.assertEqual(self.folded(), {stack: both[1] for stack, both in program.totals().items()})
            wall = self.folded("--weight", "wall")
            self.assertEqual(wall, {("read",): program.blocked_ns()} if calls else {})

    def test_inlined_functions_share_the_location_of_the_code(self):
        for program in self.programs():
            path = self.convert("t.pb.gz", "--by", "none")
            locations = formats.pprof_locations(formats.fields(formats.content(path))).values()
            for names in locations:
                self.assertLessEqual(set(names[:-1]), cpu_traces.INLINED, self.seed)
            is_inlined = any(set(stack[1:]) & cpu_traces.INLINED for stack in program.totals())
            self.assertEqual(any(len(names) > 1 for names in locations), is_inlined, self.seed)

    def pprof(self, wanted):
        types, samples = formats.read_pprof(self.convert("t.pb.gz", "--by", "none"))
        at = [name for name, _ in types].index(wanted)
        return summed((s.stack, s.values[at]) for s in samples)

    def assert_counts_of_cpus(self, cpu, total):
        """The counter of each CPU grows; at the end it has the time of all samples there."""
        last = collections.Counter()
        for _, _, number, _, count in cpu.samples:
            self.assertGreaterEqual(count, last[number or 0])
            last[number or 0] = count
        self.assertEqual(sum(last.values()), total)
        self.assertEqual([s[0] for s in cpu.samples], sorted(s[0] for s in cpu.samples))

    def test_threads_are_the_roots_and_modules_are_mappings(self):
        program = cpu_traces.Program(3)
        program.write(self.trace)
        roots = {stack[:2] for stack, _ in formats.read_folded(self.convert("t.folded"))}
        self.assertEqual(roots, {(b"work (4000)", b"thread %d (t%d)" % (t.tid, t.tid))
                                 for t in program.threads if t.samples})
        types, samples = formats.read_pprof(self.convert("t.pb.gz"))
        self.assertEqual(types, [("samples", "count"), ("cpu", "nanoseconds"), ("offcpu", "nanoseconds")])
        self.assertEqual({s.labels["thread"] for s in samples}, {f"thread {t.tid} (t{t.tid})" for t in program.threads})
        profile = formats.fields(formats.content(self.convert("t.pb.gz")))
        texts = [t.decode() for t in profile[6]]
        files = {texts[formats.fields(m)[5][0]] for m in profile[3]}
        self.assertLessEqual({"work", "libwork.so.1"}, files)
        self.assertEqual(formats.PerfettoCpu(self.convert("t.pftrace")).mappings, {"work", "libwork.so.1", "kernel"})

    def test_a_flame_graph_has_the_weight_that_was_chosen(self):
        program = cpu_traces.Program(5)
        program.write(self.trace)
        totals = program.totals()
        with open(self.convert("t.svg", "--weight", "samples"), encoding="utf-8") as file:
            self.assertIn(": %d samples in stacks" % sum(s for s, _ in totals.values()), file.read())
        self.assertIn("not selected by the weight", self.run_command(
            "convert", self.trace, "-o", self.at("o.svg"), "--weight", "off-cpu").stderr)
        r = subprocess.run([COMMAND, "convert", self.trace, "-o", self.at("x.svg"), "--weight", "heavy"],
                           capture_output=True, text=True)
        self.assertIn("--weight is time, cpu, samples, off-cpu or wall, not 'heavy'", r.stderr)

    def test_sql_finds_the_same_functions_and_states(self):
        program = cpu_traces.Program(11)
        program.write(self.trace)
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "reference", "query.md")
        with open(page, encoding="utf-8") as file:
            questions = re.findall(r"^```sql\n(.*?)^```", file.read(), flags=re.S | re.M)
        functions, = (q for q in questions if "kind = 'cpu_sample'" in q)
        states, = (q for q in questions if "running_ms" in q)
        wanted = collections.defaultdict(lambda: [0, 0.0])
        for stack, (samples, cpu_ns) in program.totals().items():
            wanted[stack[-1]][0] += samples
            wanted[stack[-1]][1] += cpu_ns / 1e6
        for name, samples, self_ms in self.query(functions):
            self.assertEqual(samples, wanted[name][0])
            self.assertAlmostEqual(self_ms, wanted[name][1], places=5)
        times = program.state_times()
        for thread, *found in self.query(states):
            tid = int(re.search(r"thread (\d+)", thread)[1])
            for name, ms in zip((cpu_traces.RUNNING, cpu_traces.WAITING, cpu_traces.BLOCKED), found):
                self.assertAlmostEqual(ms or 0, times.get((tid, name), 0) / 1e6, places=5)

    def query(self, question):
        lines = self.run_command("query", self.trace, question, "--format", "json").stdout
        rows = [list(row.values()) if isinstance(row, dict) else row for row in formats.parse_json(lines)]
        self.assertTrue(rows)
        return rows

    # ---- blocked time ----

    def test_blocked_time_is_below_the_stacks_of_blocked_threads(self):
        for program in self.programs(10):
            wanted = collections.Counter()
            for thread in program.threads:
                for name, start, end, _, stack in thread.states:
                    if name == cpu_traces.BLOCKED:
                        functions = [f.split(": ")[-1].split("!")[-1] for f in (stack or "").split(";") if f]
                        wanted[tuple(functions[::-1]) or ("(stack not recorded)",)] += end - start
            self.assertEqual(self.folded("--weight", "off-cpu"), dict(wanted))
            if any(s[4] for t in program.threads for s in t.states):
                self.assertEqual(self.pprof("offcpu"), dict(wanted))

    def test_without_stacks_of_blocked_threads_pprof_has_no_time_of_them(self):
        cpu_traces.Program(1, stacks=False).write(self.trace)
        types, _ = formats.read_pprof(self.convert("t.pb.gz"))
        self.assertEqual([name for name, _ in types], ["samples", "cpu"])

    # ---- the scheduler ----

    def test_states_are_events_of_the_scheduler(self):
        for program in self.programs():
            cpu = formats.PerfettoCpu(self.convert("t.pftrace"))
            found = {key: ns for key, ns in cpu.state_times().items() if ns and key[1] != "ended"}
            wanted = program.state_times()
            for thread in program.threads:
                if thread.states and thread.states[0][0] == cpu_traces.WAITING:
                    wanted[(thread.tid, cpu_traces.WAITING)] -= thread.states[0][2] - thread.states[0][1]
            self.assertEqual(found, {key: ns for key, ns in wanted.items() if ns}, self.seed)

    def test_samples_are_on_the_cpu_on_which_the_thread_ran(self):
        program = cpu_traces.Program(7, threads=3, cpus=2)
        program.write(self.trace)
        for ns, tid, cpu, _, _ in formats.PerfettoCpu(self.convert("t.pftrace")).samples:
            thread = next(t for t in program.threads if t.tid == tid)
            at = ns - cpu_traces.BASE_NS
            ran = {s[3] for s in thread.states if s[0] == cpu_traces.RUNNING and s[1] <= at <= s[2]}
            self.assertIn(cpu, ran or {None})

    def test_without_cpu_numbers_states_stay_slices(self):
        program = cpu_traces.Program(2)
        program.write(self.trace)
        with open(self.trace, encoding="utf-8") as file:
            text = file.read()
        with open(self.trace, "w", encoding="utf-8") as file:
            file.write(text.replace('{"cpu": 0}', "{}"))
        cpu = formats.PerfettoCpu(self.convert("t.pftrace"))
        self.assertNotIn("before they ran", self.said)
        self.assertFalse([s for s in cpu.switches if s[0] == 0])

    # ---- a real program ----

    def test_a_recording_has_the_same_cpu_time_in_all_formats(self):
        r = self.run_command("record", "-o", self.trace, "--cpu", "499", "--", TARGET, "deep", "5", "300")
        if "not available here" in r.stdout + r.stderr:
            self.skipTest("perf_event_open is not allowed here")
        events = formats.parse_json(formats.content(self.trace).decode())["traceEvents"]
        ranges = [e for e in events if e.get("cat") == "cpu_sample"]
        whole = sum(e["args"]["cpu_ns"] for e in ranges
                    if not any(o is not e and o["tid"] == e["tid"] and o["ts"] <= e["ts"] + 0.0005
                               and o["ts"] + o["dur"] >= e["ts"] + e["dur"] - 0.0005
                               and (o["dur"] > e["dur"] + 0.0005 or ranges.index(o) < ranges.index(e))
                               for o in ranges))
        running = sum(e["dur"] for e in events if e.get("cat") == "thread_state" and e["name"] == "running")
        folded = self.folded()
        self.assertEqual(sum(folded.values()), whole)
        self.assertEqual(sum(self.pprof("cpu").values()), whole)
        profiles = formats.read_sampled(self.convert("t.speedscope.json"))
        self.assertEqual(sum(w for _, pairs in profiles for _, w in pairs), whole)
        cpu = formats.PerfettoCpu(self.convert("t.pftrace"))
        self.assertEqual(len(cpu.samples), sum(self.folded("--weight", "samples").values()))
        self.assertAlmostEqual(whole / 1e3 / running, 1, delta=0.1)


if __name__ == "__main__":
    unittest.main()
