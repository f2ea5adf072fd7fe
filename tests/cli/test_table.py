"""`ckineto table`: what functions cost, as text, CSV, JSON and folded stacks."""

import csv
import gzip
import io
import json
import os

from command import CommandTest, main


def op(name, start, duration, tid=7, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 5, "tid": tid, "ts": start,
            "dur": duration, "args": args}


def memory(start, size, tid=7):
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 5, "tid": tid,
            "ts": start, "args": {"Device Type": 0, "Device Id": -1, "Bytes": size, "Addr": 1}}


EVENTS = [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 5, "tid": 7, "ts": 0, "dur": 1000},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 5, "tid": 7, "ts": 1000, "dur": 500},
    op("aten::mm", 10, 100, **{"External id": 11, "Input Dims": [[64, 32], [32, 16]], "Call stack": "a.py(1): f;b.py(2): main;"}),
    op("aten::mm", 200, 300, **{"External id": 12, "Input Dims": [[8, 32], [32, 16]], "Call stack": "a.py(1): f;b.py(2): main;"}),
    op("aten::empty", 210, 50, **{"External id": 13, "Input Dims": [[]]}),
    op("other thread", 0, 700, tid=8),
    memory(220, 4096), memory(300, -96), memory(5000, 7),
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 7, "ts": 20,
     "dur": 5, "args": {"External id": 11, "correlation": 1}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 9, "ts": 50, "dur": 80,
     "args": {"External id": 11, "correlation": 1, "device": 0, "stream": 9}},
]


class Table(CommandTest):
    def trace(self, events=None, **header):
        path = self.path("trace.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": EVENTS if events is None else events, **header}, file)
        return path

    def table(self, *arguments, status=0, **options):
        done = self.run_command("table", self.trace(**options), *arguments)
        self.assertEqual(done.returncode, status, done.err)
        return done.out.decode("utf-8")

    def rows(self, *arguments, **options):
        return json.loads(self.table("--json", *arguments, **options))["rows"]

    def row(self, name, *arguments, **options):
        found = [r for r in self.rows(*arguments, **options) if r["name"] == name]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def test_the_table_is_that_of_pytorch(self):
        lines = self.table().splitlines()
        self.assertEqual(lines[1].split("  ")[-2].strip(), "# of Calls")
        self.assertIn("Self CUDA %", lines[1])
        self.assertIn("CPU Mem", lines[1])
        mm = next(line for line in lines if "aten::mm" in line).split()
        self.assertEqual(mm[:6], ["aten::mm", "15.68%", "345.000us", "18.18%", "400.000us", "200.000us"])
        self.assertEqual(mm[6:10], ["80.000us", "100.00%", "80.000us", "40.000us"])
        self.assertEqual(mm[10:], ["3.91", "KB", "-96", "B", "2"])
        self.assertEqual(lines[-2:], ["Self CPU time total: 2.200ms", "Self CUDA time total: 80.000us"])
        step = next(line for line in lines if "ProfilerStep*" in line)
        self.assertEqual(step.split()[-1], "2")

    def test_numbers_are_exact_in_json(self):
        mm = self.row("aten::mm")
        self.assertEqual((mm["count"], mm["cpu_time_total_ns"], mm["self_cpu_time_total_ns"]),
                         (2, 400000, 345000))
        self.assertEqual((mm["device_time_total_ns"], mm["self_device_time_total_ns"]), (80000, 80000))
        self.assertEqual((mm["cpu_memory_usage"], mm["self_cpu_memory_usage"]), (4000, -96))
        self.assertEqual(self.row("other thread")["cpu_memory_usage"], 0)
        self.assertEqual(self.row("other thread", "--as-torch")["cpu_memory_usage"], 4000)
        self.assertEqual(self.row("[memory]")["type"], "memory")
        self.assertEqual(self.row("gemm")["device"], "cuda")

    def test_csv_holds_the_same_as_json(self):
        options = ["--group-by-input-shape", "--group-by-stack", "2"]
        table = list(csv.DictReader(io.StringIO(self.table("--csv", *options))))
        rows = self.rows(*options)
        self.assertEqual(len(table), len(rows))
        for line, row in zip(table, rows):
            row["stack"] = ";".join(row["stack"])
            self.assertEqual(line, {key: str(value) for key, value in row.items()})

    def test_groups_are_by_shape_and_stack(self):
        shapes = [r["input_shapes"] for r in self.rows("--group-by-input-shape") if r["name"] == "aten::mm"]
        self.assertEqual(sorted(shapes), ["[[64, 32], [32, 16]]", "[[8, 32], [32, 16]]"])
        mm = self.row("aten::mm", "--group-by-stack", "5")
        self.assertEqual(mm["stack"], ["a.py(1): f", "b.py(2): main"])
        self.assertIn("a.py(1): f ", self.table("--group-by-stack", "1"))

    def test_events_are_a_tree(self):
        rows = self.rows("--events", "--sort-by", "none")
        names = [r["name"] for r in rows]
        self.assertEqual(names[rows[names.index("aten::empty")]["parent"]], "aten::mm")
        self.assertEqual(rows[0]["parent"], -1)
        self.assertEqual([r["start_ns"] for r in rows], sorted(r["start_ns"] for r in rows))
        top = self.rows("--events", "--top-level")
        self.assertEqual({r["name"] for r in top},
                         {"ProfilerStep*", "other thread", "gemm", "[memory]"})

    def test_rows_are_sorted_and_limited(self):
        for key in ("count", "cpu_time", "self_cuda_time_total", "cpu_memory_usage", "flops"):
            self.table("--sort-by", key)
        values = [r["cpu_time_total_ns"] for r in self.rows("--sort-by", "cpu_time_total")]
        self.assertEqual(values, sorted(values, reverse=True))
        self.assertEqual(len(self.rows("--top", "2")), 2)
        self.assertEqual(len(self.table("--top", "1").splitlines()), 7)
        many = [op("f%d" % i, i * 10, 5) for i in range(150)]
        self.assertEqual(len(self.table(events=many).splitlines()), 105)
        self.assertEqual(len(self.table("--top", "0", events=many).splitlines()), 155)
        self.assertEqual(len(self.rows(events=many)), 150)
        self.assertEqual(len(self.rows("--top", "100", events=many)), 100)

    def test_units_and_widths_are_as_asked(self):
        self.assertIn("400.000us", self.table("--time-unit", "us"))
        self.assertIn(" 0.400ms", self.table("--time-unit", "ms"))
        self.assertIn("aten...", self.table("--name-width", "7"))
        self.assertEqual(self.table("--header", "What it cost").splitlines()[1], "What it cost")

    def test_flops_are_counted_where_they_were_asked_for(self):
        self.assertNotIn("FLOPs", self.table())
        self.assertIn("Total KFLOPs", self.table("--flops"))
        self.assertIn("Total KFLOPs", self.table(with_flops=1))
        self.assertEqual(self.row("aten::mm", "--flops")["flops"], 2 * 64 * 32 * 16 + 2 * 8 * 32 * 16)

    def test_stacks_are_folded(self):
        text = self.table("--stacks", "self_cpu_time_total")
        self.assertEqual(text, "b.py(2):_main;a.py(1):_f 95\nb.py(2):_main;a.py(1):_f 250\n")
        self.assertEqual(self.table("--stacks", "self_cpu_time_total", "--merge"),
                         "b.py(2):_main;a.py(1):_f 345\n")
        self.assertIn("b.py(2):_main;a.py(1):_f;aten::mm 80\n",
                      self.table("--stacks", "self_cuda_time_total", "--functions"))
        done = self.run_command("table", self.trace([op("f", 0, 5)]), "--stacks", "self_cpu_time_total")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"stack", done.err)

    def test_memory_over_time_has_three_forms(self):
        for name in ("m.html", "m.json", "m.raw.json.gz"):
            said = self.table("--memory", "-o", self.path(name))
            self.assertRegex(said, r"^cpu: at most 4.1 kB at once, .* at the end; 2 allocations\n$")
        with open(self.path("m.html"), encoding="utf-8") as file:
            self.assertIn("<svg", file.read())
        with gzip.open(self.path("m.raw.json.gz")) as file:
            self.assertEqual([c[1] for c in json.load(file)], [2, 4, 2])
        with open(self.path("m.json"), encoding="utf-8") as file:
            times, sizes = json.load(file)
        self.assertEqual((len(times), len(sizes[0])), (len(sizes), 9))
        self.table("--memory", "-o", self.path("m.txt"), status=2)
        self.table("--memory", status=2)
        self.table("--device", "cpu", status=2)
        self.table("--by-category", status=2)
        self.table("--category", "a=input", status=2)
        for bad in ("", "input", "=input", "a=", "a=b", "a=input,", "a=input,,b=input"):
            self.table("--memory", "--category", bad, "-o", self.path("m.html"), status=2)
        self.table("--memory", "--by-category", "--category", "x=y=input,aten::mm=Parameter", "-o", self.path("m.html"))
        with open(self.path("m.html"), encoding="utf-8") as file:
            self.assertNotIn("allocated in", file.read())
        self.table("--memory", "--device", "cuda:0", "-o", self.path("m.html"), status=1)

    def test_an_execution_trace_is_a_graph(self):
        path = self.path("et.json")
        self.table("--execution-trace", "-o", path)
        with open(path, encoding="utf-8") as file:
            graph = json.load(file)
        self.assertEqual(graph["pid"], 5)
        nodes = {n["id"]: n for n in graph["nodes"]}
        self.assertEqual(len(nodes), len(graph["nodes"]))
        self.assertEqual(sorted(nodes), list(range(1, len(nodes) + 1)))
        by_id = {a["value"]: n for n in graph["nodes"] for a in n["attrs"] if a["name"] == "rf_id"}
        self.assertEqual(nodes[by_id[13]["ctrl_deps"]]["name"], "aten::mm")
        self.assertEqual(by_id[11]["inputs"]["shapes"], [])  # without types there are no inputs
        several = EVENTS + [dict(op("other", 0, 5), pid=6)]
        self.table("--execution-trace", "-o", path, events=several, status=1)
        self.table("--execution-trace", "-o", path, events=[], status=1)
        odd = op("a", 0, 5, **{"Input type": ["float", "Scalar", "ScalarList", "TensorList", "", "Scalar"],
                               "Input Dims": "[[2,", "Concrete Inputs": ["", "x\"y", "[1, True,", "", "", "1e9"]})
        self.table("--execution-trace", "-o", path, events=[odd])
        with open(path, encoding="utf-8") as file:
            node = json.load(file)["nodes"][-1]
        self.assertEqual(len(node["inputs"]["types"]), 6)

    def test_a_file_appears_whole(self):
        out = self.path("table.csv.gz")
        self.assertEqual(self.table("--csv", "-o", out), "")
        with open(out, "rb") as file:
            self.assertEqual(file.read(2), b"\x1f\x8b")
        self.table("-o", os.path.join(self.directory, "no", "table"), status=1)

    def test_a_trace_without_functions_is_not_a_failure(self):
        done = self.run_command("table", self.trace([]))
        self.assertEqual((done.returncode, done.out), (0, b""))
        self.assertIn(b"no functions", done.err)
        self.assertEqual(self.rows(events=[]), [])

    def test_mistakes_are_explained(self):
        for arguments, word in [(["--sort-by", "speed"], b"cpu_time_total"), (["--time-unit", "h"], b"ms"),
                                (["--csv", "--json"], b"--csv cannot be used with --json"), (["--merge"], b"--stacks"),
                                (["--stacks", "count"], b"self_cpu_time_total"),
                                (["--stacks", "self_cpu_time_total", "--csv"], b"--csv"),
                                (["--group-by-stack", "x"], b"whole number"),
                                (["--memory", "--stacks", "self_cpu_time_total", "-o", "m.html"], b"--memory"),
                                (["--stacks", "self_cpu_time_total", "--sort-by", "count"], b"--sort-by cannot be used"),
                                (["--stacks", "self_cpu_time_total", "--top", "100"], b"--top"),
                                (["--csv", "--name-width", "55"], b"--name-width cannot be used with --csv"),
                                (["--json", "--header", "x"], b"--header"), (["--json", "--time-unit", "auto"], b"--time"),
                                (["--memory", "--top-level", "-o", "m.html"], b"--top-level"),
                                (["--execution-trace", "--as-torch", "-o", "e.json"], b"--as-torch"),
                                (["--merge", "--csv"], b"--merge"), (["--by-category"], b"needs --memory"),
                                (["-o", self.path("trace.json")], b"overwrite")]:
            done = self.run_command("table", self.trace(), *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(word, done.err)
        self.assertEqual(self.run_command("table").returncode, 2)
        self.assertEqual(self.run_command("table", self.path("nothing.json")).returncode, 2)

    def test_broken_arguments_do_no_harm(self):
        odd = [op("a", 0, 5, **{"Input Dims": 7, "Call stack": 3, "Sequence number": "x", "Fwd thread id": -1}),
               op("b", 10, 5, **{"Input Dims": "[[[[", "Call stack": ";;;;"}),
               op("c", 20, 5, **{"Input Dims": {"a": [1]}, "Call stack": ["x"], "Sequence number": 1e300}),
               dict(memory(1, 5), args={"Bytes": "many", "Device Type": None}),
               dict(memory(2, 5), args={"Bytes": 2 ** 70})]
        for options in (["--group-by-input-shape"], ["--group-by-stack", "3"], ["--events", "--flops"]):
            self.assertGreaterEqual(len(self.rows(*options, events=odd)), 3)


main()
