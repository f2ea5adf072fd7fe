"""`ckineto analyze`: calls, sequences, stragglers, overlays, and the files that it takes next to a trace."""

import csv
import gzip
import json
import os

from command import CommandTest, main


def event(cat, name, start, duration, tid=7, pid=5, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": args}


def launch(id, start):
    return event("cuda_runtime", "cudaLaunchKernel", start, 1, correlation=id)


def work(id, name, start, duration, cat="kernel"):
    return event(cat, name, start, duration, pid=0, device=0, stream=7, correlation=id)


def operator(id, name, start):
    """Launches a, b and c; b is first to begin."""
    ids = [10 * id, 10 * id + 1, 10 * id + 2]
    return ([event("cpu_op", name, start, 20, **{"External id": id}), event("cpu_op", "aten::inner", start + 1, 15)] +
            [launch(i, start + 2 + 3 * k) for k, i in enumerate(ids)] +
            [work(ids[1], "b", start + 30, 5), work(ids[0], "a", start + 40, 5), work(ids[2], "c", start + 50, 5)])


EVENTS = operator(1, "aten::mm", 100) + operator(2, "aten::mm", 200) + operator(3, "aten::add", 300)
NODES = [{"name": "aten::mm", "id": 8, "rf_id": 1, "parent": 2, "op_schema": "mm(\"x\") \u2192 y", "inputs": [1, [2]],
          "input_shapes": [[], []], "input_types": ["Int", "List"], "outputs": [], "output_shapes": [],
          "output_types": []},
         {"name": "aten::add", "id": 9, "ctrl_deps": 3, "inputs": {"values": [7], "shapes": [[]], "types": ["Int"]},
          "outputs": {"values": [], "shapes": [], "types": []},
          "attrs": [{"name": "rf_id", "type": "uint64", "value": 3},
                    {"name": "op_schema", "type": "string", "value": "add()"}]},
         {"name": "elsewhere", "id": 10, "rf_id": 77, "parent": 2}]


class Calls(CommandTest):
    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(value if isinstance(value, str) else json.dumps(value))
        return name

    def trace(self, events=None, name="trace.json", rank=0):
        return self.write(name, {"distributedInfo": {"rank": rank}, "traceEvents": EVENTS if events is None else events})

    def analyze(self, table, *arguments):
        done = self.run_command("analyze", "--only", table, "--csv", "out", *arguments)
        self.assertEqual(done.returncode, 0, done.err)
        with open(self.path(os.path.join("out", table + ".csv")), newline="", encoding="utf-8") as f:
            return list(csv.DictReader(f))

    def refused(self, status, said, *arguments):
        done = self.run_command("analyze", *arguments)
        self.assertEqual(done.returncode, status, done.err)
        self.assertIn(said, done.err.decode())

    def test_a_call_graph_has_ranges_and_what_they_launched(self):
        rows = {int(r["index"]): r for r in self.analyze("call_graph", self.trace())}
        self.assertEqual(len(rows), len(EVENTS))
        outer, inner, call, kernel = rows[0], rows[1], rows[3], rows[5]
        self.assertEqual((outer["parent"], outer["depth"], outer["height"], outer["kernels"], outer["kernel_us"]),
                         ("-1", "0", "3", "3", "15.000"))
        self.assertEqual((inner["parent"], inner["depth"], inner["kernels"]), ("0", "1", "3"))
        self.assertEqual((call["parent"], call["height"], call["kernels"]), ("1", "1", "1"))
        self.assertEqual((kernel["parent"], kernel["depth"], kernel["height"], kernel["tid"]), ("3", "3", "0", "7"))

    def test_sequences_are_counted_by_operator_and_order_of_starts(self):
        rows = self.analyze("sequences", self.trace())
        self.assertEqual([(r["pattern"], r["count"], r["gpu_us"], r["cpu_us"]) for r in rows],
                         [("aten::mm|b|a|c", "2", "30.000", "40.000"), ("aten::add|b|a|c", "1", "15.000", "20.000")])
        self.assertEqual(len(self.analyze("sequences", self.trace(), "--top", "1")), 1)
        self.assertEqual(self.analyze("sequences", self.trace(), "--min-length", "4"), [])
        rows = self.analyze("sequences", self.trace(), "--operator", "inner")
        self.assertEqual([(r["pattern"], r["count"]) for r in rows], [("aten::inner|b|a|c", "3")])

    def test_sequences_of_ranks_are_added_before_the_first_are_taken(self):
        self.trace(operator(1, "aten::mm", 100) + operator(2, "aten::add", 200) + operator(3, "aten::add", 300), "r0.json")
        self.trace(operator(1, "aten::mm", 100) + operator(2, "aten::mm", 200), "r1.json", rank=1)
        rows = self.analyze("sequences", "--top", "1", "r0.json", "r1.json")
        self.assertEqual([(r["pattern"], r["count"]) for r in rows], [("aten::mm|b|a|c", "3")])

    def test_who_came_last_alone_is_no_straggler(self):
        for rank, (clock, durations) in enumerate([(0, (50, 30)), (1000000, (10, 40)), (7, (30, 30))]):
            events = [launch(1, clock + 5), launch(2, clock + 200)]
            events += [work(1, "ncclDevKernel_AllReduce", clock + 60 - durations[0], durations[0]),
                       work(2, "ncclDevKernel_AllReduce", clock + 260 - durations[1], durations[1])]
            self.trace(events, f"r{rank}.json", rank)
        self.assertEqual(self.analyze("stragglers", "r0.json", "r1.json", "r2.json"), [])
        done = self.run_command("analyze", "--only", "stragglers", "r0.json")
        self.assertIn(b"traces of several", done.out)
        done = self.run_command("analyze", "--only", "stragglers", "--definitions", "hta", "r0.json", "r1.json", "r2.json")
        self.assertIn(b"kernels named ncclKernel*", done.out)
        self.assertNotIn(b"no collectives", done.out)

    def test_counters_need_as_many_launches_as_ranges(self):
        counter = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
        events = [event("cpu_op", "aten::mm", 0, 50), event("cpu_op", "aten::inner", 5, 20), launch(1, 10),
                  event("cuda_profiler_range", "k", 60, 5, pid=0, tid=0, **{counter: 21, "other": 3, "text": "x"})]
        rows = self.analyze("counters", self.trace(events))
        self.assertEqual([(r["name"], r["op"], r["top_op"], r["counter"], float(r["value"]), r["flops"]) for r in rows],
                         [("k", "aten::inner", "aten::mm", "other", 3, ""),
                          ("k", "aten::inner", "aten::mm", counter, 21, "42.0")])
        rows = self.analyze("counters", self.trace(events + [launch(2, 30)]))
        self.assertEqual({(r["op"], r["top_op"]) for r in rows}, {("", "")})

    def test_execution_traces_of_both_schemas_are_joined(self):
        self.write("et.json", {"schema": "1.0.1", "nodes": NODES})
        rows = self.analyze("execution_trace", self.trace(), "--execution-trace", "et.json")
        self.assertEqual([(r["row"], r["name"], r["node"], r["parent"], r["op_schema"], r["inputs"], r["kernels"])
                          for r in rows],
                         [("0", "aten::mm", "8", "2", "mm(\"x\") \u2192 y", "[1, [2]]", "3"),
                          ("16", "aten::add", "9", "3", "add()", "[7]", "3")])
        self.assertEqual(rows[1]["input_types"], '["Int"]')

    def test_what_is_not_an_execution_trace_is_refused(self):
        for text, said in (("[1]", "at byte"), ("{}", "no list of nodes"), ('{"nodes": [{"id": 1', "at byte"),
                           ('{"nodes": 5}', "no list of nodes"), ("", "at byte")):
            self.refused(2, said, self.trace(), "--only", "execution_trace", "--execution-trace",
                         self.write("et.json", text))
        # Odd values are no reason to stop.
        self.write("et.json", {"nodes": [{"rf_id": -1}, {"rf_id": "1"}, 5, [], {"rf_id": 1, "name": "aten::mm", "id": 2 ** 64, "inputs": {}}]})
        self.assertEqual(len(self.analyze("execution_trace", self.trace(), "--execution-trace", "et.json")), 1)

    def test_who_names_a_file_gets_its_table_whatever_else_is_shown(self):
        self.write("et.json", {"nodes": NODES})
        self.write("m.json", [[5000, 1, 100, 0]])
        ways = ([], ["-a"], ["--only", "steps"], ["--only", "execution_trace,memory_timeline"], ["--series"])
        for way in ways:
            done = self.run_command("analyze", self.trace(), *way, "--execution-trace", "et.json",
                                    "--memory-timeline", "m.json")
            self.assertEqual(done.returncode, 0, done.err)
            for shown in (b"(execution_trace)", b"(memory_timeline)"):
                self.assertEqual(done.out.count(shown), 1, (way, done.out))
        self.run_command("analyze", "trace.json", "--only", "steps", "--csv", "out", "--execution-trace", "et.json")
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["execution_trace.csv", "steps.csv"])
        for way in ways + (["--json"], ["--csv", "out"]):
            for option in ("--execution-trace", "--memory-timeline"):
                self.refused(2, "absent.json", "trace.json", *way, option, "absent.json")
        for way in (["-f"], ["--gate", "all"], ["--what-if", "kernel:a=0.5"]):
            for option in ("--execution-trace", "--memory-timeline"):
                self.refused(2, "are for tables", "trace.json", *way, option, "et.json")

    def test_an_overlay_that_cannot_be_written_is_said(self):
        for way in ([], ["-a"], ["--json"], ["--only", "sequences"], ["--what-if", "kernel:a=0.5"]):
            self.refused(1, "absent/o.json", self.trace(), *way, "--overlay", "absent/o.json")

    def test_memory_over_time_needs_no_trace(self):
        with gzip.open(self.path("m.raw.json.gz"), "wt") as f:
            json.dump([[-1, 1, 100, 0], [5000, 2, 10, 4], [5000, 2, 7, 4], [6000, 4, -10, 4], [6000, 2, 3, 99],
                       [7000, 2, 2 ** 63 - 1, 0]], f)
        rows = self.analyze("memory_timeline", "--memory-timeline", "m.raw.json.gz")
        self.assertEqual([(r["ts_us"], r["category"], int(r["bytes"])) for r in rows],
                         [("5.000", "parameter", 100), ("5.000", "activation", 17), ("6.000", "activation", 7),
                          ("6.000", "unknown", 3), ("7.000", "parameter", 2 ** 63 - 1)])
        for text in ("{}", "[[1,2,3]]", "[[1,2,3,4,5]]", "[[1,2,3,\"x\"]]", "[[1,2,3,4]", "[] []"):
            self.refused(2, "export_memory_timeline", "--memory-timeline", self.write("m.json", text))

    def test_an_overlay_keeps_the_trace_and_adds_what_was_asked_for(self):
        copy = work(10, "Memcpy HtoD (Pinned -> Device)", 400, 5, cat="gpu_memcpy")
        copy["args"].update(bytes=5000, correlation=99, **{"memory bandwidth (GB/s)": 1.0})
        events = EVENTS + [launch(99, 390), copy]
        done = self.run_command("analyze", self.trace(events), "--overlay", "over.json")
        self.assertEqual(done.returncode, 0, done.err)
        drawn = self.load("over.json")["traceEvents"]
        kept = [(e["name"], e["ts"], e["dur"]) for e in drawn if e["ph"] == "X" and e["cat"] != "sequence"]
        self.assertEqual(sorted(kept), sorted((e["name"], e["ts"], e["dur"]) for e in events))
        self.assertEqual([(e["name"], e["args"]["sequence"], e["args"]["kernels"]) for e in drawn
                          if e.get("cat") == "sequence"],
                         [("aten::mm", 1, 3), ("aten::mm", 1, 3), ("aten::add", 2, 3)])
        lengths = [e["args"]["length"] for e in drawn if e["ph"] == "C" and e["name"] == "Queue length, stream 7"]
        self.assertEqual((max(lengths), lengths[-1]), (3, 0))
        speeds = [e["args"]["GB/s"] for e in drawn if e["ph"] == "C" and e["name"].startswith("Bandwidth, ")]
        self.assertEqual((max(speeds), speeds[-1]), (1, 0))
        done = self.run_command("analyze", "trace.json", "--overlay", "some.json", "--only", "sequences")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertFalse([e for e in self.load("some.json")["traceEvents"] if e["ph"] == "C"])

    def test_streams_of_several_devices_have_counters_of_their_own(self):
        def second(e):
            return {**e, "pid": 1, "args": {**e["args"], "device": 1}}
        events = [launch(1, 0), launch(2, 5), launch(3, 10), work(1, "a", 100, 5), work(2, "b", 200, 5),
                  second(work(3, "c", 300, 5))]
        done = self.run_command("analyze", self.trace(events), "--overlay", "o.json", "--only", "queue_length_series")
        self.assertEqual(done.returncode, 0, done.err)
        drawn = {}
        for e in self.load("o.json")["traceEvents"]:
            if e["ph"] == "C":
                self.assertEqual(e["name"], "Queue length, stream 7")
                drawn.setdefault(e["pid"], []).append((e["ts"], e["args"]["length"]))
        self.assertEqual(drawn, {0: [(0, 1), (5, 2), (100, 1), (200, 0)], 1: [(10, 1), (300, 0)]})

    def test_an_overlay_may_have_the_critical_path(self):
        done = self.run_command("analyze", self.trace(), "--overlay", "o.json", "--only", "critical_path_edges,sequences")
        self.assertEqual(done.returncode, 0, done.err)
        cats = {e.get("cat") for e in self.load("o.json")["traceEvents"]}
        self.assertTrue({"critical_path", "sequence"} <= cats, cats)

    def test_mistakes_are_explained(self):
        self.trace()
        self.trace(name="other.json")
        self.refused(2, "of one trace", "trace.json", "other.json", "--overlay", "o.json")
        self.refused(2, "can be drawn", "trace.json", "--overlay", "o.json", "--only", "steps")
        self.refused(2, "can be drawn", "trace.json", "--overlay", "o.json", "--definitions", "hta")
        self.refused(2, "overwrite", "trace.json", "--overlay", "trace.json")
        self.refused(2, "name the trace", "--overlay", "o.json")
        self.refused(2, "absent.json", "trace.json", "--only", "execution_trace", "--execution-trace", "absent.json")

    def test_traces_without_anything_to_find_say_so(self):
        for table in ("call_graph", "sequences", "counters", "execution_trace", "memory_timeline"):
            done = self.run_command("analyze", self.trace([]), "--only", table)
            self.assertEqual(done.returncode, 0, done.err)
            self.assertRegex(done.out.decode(), r"\bno\b", table)


if __name__ == "__main__":
    main()
