"""`ckineto analyze`: tables of facts of one rank and of several, as text, CSV and JSON."""

import csv
import json
import os

from command import CommandTest, main


def host(cat, name, start, duration, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 5, "tid": 7, "ts": start, "dur": duration, "args": args}


def kernel(name, start, duration, correlation, stream=7):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration,
            "args": {"device": 0, "stream": stream, "correlation": correlation}}


EVENTS = [
    host("user_annotation", "ProfilerStep#1", 0, 1000),
    host("user_annotation", "ProfilerStep#2", 1000, 1000),
    host("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=1),
    host("cuda_runtime", "cudaLaunchKernel", 20, 5, correlation=2),
    host("cuda_runtime", "cudaLaunchKernel", 1010, 5, correlation=3),
    kernel("ampere_sgemm_128x64_nn", 100, 200, 1),
    kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 250.5, 150, 2, stream=20),
    kernel("ampere_sgemm_128x64_nn", 1100, 100, 3),
]


class Analyze(CommandTest):
    def trace(self, name="trace.json", events=EVENTS, **header):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, **header}, file)
        return path

    def analyze(self, *arguments, status=0):
        done = self.run_command("analyze", *arguments)
        self.assertEqual(done.returncode, status, done.err)
        return done

    def facts(self, *arguments):
        return json.loads(self.analyze("--json", *arguments).out)["tables"]

    def row(self, table, *arguments, number=0):
        found = self.facts("--only", table, *arguments)[table]
        return dict(zip(found["columns"], found["rows"][number]))

    def test_the_summary_begins_with_what_was_lost_and_how_sound_it_is(self):
        lines = self.analyze("--all", self.trace()).out.decode().splitlines()
        self.assertIn("1 trace, 8 activities, none lost", lines[0])
        self.assertIn("Where device time went, from the first to the last work (temporal_breakdown)", lines)

    def test_times_are_exact(self):
        row = self.row("temporal_breakdown", self.trace())
        self.assertEqual(row["compute_us"], 300)
        self.assertEqual(row["non_compute_us"], 100.5)
        self.assertEqual(row["kernel_us"], 1100)
        self.assertEqual(row["idle_us"], 699.5)

    def test_steps_can_be_chosen(self):
        path = self.trace()
        self.assertEqual(self.row("temporal_breakdown", "--steps", "1..1", path)["kernel_us"], 300.5)
        self.assertEqual(self.row("temporal_breakdown", "--steps", "drop-last", path)["kernel_us"], 300.5)
        self.assertEqual(self.row("temporal_breakdown", "--steps", "all", path)["kernel_us"], 1100)

    def test_streams_can_be_chosen(self):
        self.assertEqual(self.row("temporal_breakdown", "--stream", "20", self.trace())["compute_us"], 0)

    def test_csv_has_a_file_for_each_table(self):
        directory = self.path("facts")
        self.analyze("--csv", directory, "--only", "temporal_breakdown,overlap", self.trace())
        self.assertEqual(sorted(os.listdir(directory)), ["overlap.csv", "temporal_breakdown.csv"])
        with open(os.path.join(directory, "temporal_breakdown.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(rows[0]["idle_us"], "699.500")

    def test_files_of_a_directory_are_ranks(self):
        for rank in range(3):
            self.trace(f"ranks/rank-{rank}.json", distributedInfo={"rank": rank, "world_size": 3})
        table = self.facts("--only", "temporal_breakdown,kernel_types", self.path("ranks"))
        self.assertEqual([r[0] for r in table["temporal_breakdown"]["rows"]], [0, 1, 2])
        self.assertEqual(sum(r[1] for r in table["kernel_types"]["rows"]), 3 * 400.5)

    def test_the_first_rows_of_several_ranks_are_the_heaviest_of_all(self):
        for rank in range(3):
            events = [kernel(f"k{n:02}", 1000 * n, 100 * ((7 * n + 5 * rank) % 24 + 1), n + 1) for n in range(24)]
            self.trace(f"ranks/rank-{rank}.json", events, distributedInfo={"rank": rank, "world_size": 3})

        def shown(*options):
            lines = self.analyze("--only", "kernels", *options, self.path("ranks")).out.decode().splitlines()
            rows = [line.split() for line in lines[lines.index("Kernels (kernels)") + 2:] if " k" in line]
            units = {"ns": 0.001, "us": 1, "ms": 1000, "s": 1000000}
            return [(int(rank), name, float(total) * units[unit]) for rank, _, name, _, total, unit, *_ in rows]

        table = self.facts("--only", "kernels", self.path("ranks"))["kernels"]
        all_rows = [(row[0], row[2], row[4]) for row in table["rows"]]
        self.assertEqual([row[0] for row in all_rows], sorted(row[0] for row in all_rows))
        self.assertEqual(shown("--top", "0"), all_rows)
        self.assertEqual(shown("--top", "72"), all_rows)
        heaviest = sorted(all_rows, key=lambda row: -row[2])
        self.assertEqual(shown(), heaviest[:10])
        self.assertEqual(shown("--top", "40"), heaviest[:40])
        self.assertEqual({row[0] for row in shown("--top", "3")}, {0, 1, 2})

    def test_sums_of_several_ranks_are_shown_by_weight(self):
        for rank, first in enumerate((1, 3)):
            self.trace(f"ranks/rank-{rank}.json", [host("cpu_op", f"op{n}", 1000 * n, 100 * n)
                                                   for n in range(first, first + 4)])
        lines = self.analyze("--only", "operators", "--top", "3", self.path("ranks")).out.decode().splitlines()
        rows = lines[lines.index("Operators (operators)") + 2:][:3]
        self.assertEqual([row.split()[0] for row in rows], ["op4", "op3", "op6"])

    def test_a_user_can_teach_names_of_kernels(self):
        rules = self.path("rules")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("# ours\nfamily=collective : ^ampere_sgemm\n")
        self.assertEqual(self.row("temporal_breakdown", "--rules", rules, self.trace())["compute_us"], 0)
        with open(rules, "a", encoding="utf-8") as file:
            file.write("family=nonsense : x\n")
        self.assertIn("rules:3", self.analyze("--rules", rules, self.trace(), status=2).err.decode())
        done = self.analyze("--rules", self.path("nosuch"), self.trace(), status=2)
        self.assertIn("nosuch", done.err.decode())

    def test_traces_without_devices_say_so(self):
        path = self.trace(events=EVENTS[:2])
        self.assertIn("no device activity", self.analyze("-v", path).out.decode())
        self.assertIn("no device activity", self.facts(path)["overlap"]["note"])

    def test_a_step_with_two_lengths_is_explained(self):
        """By the work of devices it ends later than on the host."""
        for length, words in ((50, ""), (500, "until its last work on devices has ended")):
            path = self.trace(events=[host("user_annotation", "ProfilerStep#1", 0, 100),
                                      host("cuda_runtime", "cudaLaunchKernel", 10, 5, correlation=1),
                                      kernel("k", 20, length, 1)])
            note = self.facts("--only", "steps", path)["steps"]["note"]
            self.assertTrue(words in note if words else note == "", note)

    def test_any_trace_at_all_is_answered(self):
        for events in ([], EVENTS[:1], EVENTS[5:6], [{**EVENTS[5], "dur": 0}],
                       [{"ph": "C", "name": "c", "pid": 1, "ts": 1, "args": {"v": 1}}],
                       [{**EVENTS[5], "ts": -1e18}, {**EVENTS[6], "ts": 9e15, "dur": 9e15}]):
            self.analyze("--series", self.trace(events=events))
            self.analyze("--series", "--definitions", "hta", self.trace(events=events))

    def test_steps_have_an_energy_where_power_was_sampled(self):
        def power(ts, **values):
            return {"ph": "C", "name": "GPU power", "pid": 0, "ts": ts, "args": values}
        path = self.trace(events=[*EVENTS, power(0, **{"power [W]": 100.0, "power limit [W]": 400}),
                                  power(1000, **{"power [W]": 200}), power(2000, **{"power [W]": 200})])
        rows = self.facts("--only", "energy", path)["energy"]["rows"]
        self.assertEqual([r[2] for r in rows], ["ProfilerStep#1", "ProfilerStep#2", "all"])
        for row, joules in zip(rows, (0.15, 0.2, 0.35)):
            self.assertAlmostEqual(row[4], joules)
        self.assertEqual(rows[0][5:], [150, 200])
        self.assertIn("nvml_ms", self.facts("--only", "energy", self.trace())["energy"]["note"])

    def test_work_at_once_shares_the_energy(self):
        def power(ts, watts):
            return {"ph": "C", "name": "GPU power", "pid": 0, "ts": ts, "args": {"power [W]": watts}}

        def kernel(name, ts, dur, stream):
            return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur,
                    "args": {"device": 0, "stream": stream}}
        path = self.trace(events=[power(0, 100), power(10000, 100), kernel("a", 1000, 1000, 7), kernel("a", 4000, 2000, 7),
                                  kernel("b", 5000, 2000, 8)])
        table = self.facts("--only", "energy_kernels", path)["energy_kernels"]
        rows = {row[2]: row[3:] for row in table["rows"]}
        for name, expected in (("a", [2, 3000, 0.25, 0.25 / 0.6 * 100, 0.25 / 3e-3]),
                               ("b", [1, 2000, 0.15, 25, 75]), ("(idle)", [0, 2000, 0.2, 0.2 / 0.6 * 100, 100])):
            for value, wanted in zip(rows[name], expected):
                self.assertAlmostEqual(value, wanted, msg=name)
        self.assertEqual(len(rows), 3)
        self.assertIn("nvml_ms", self.facts("--only", "energy_kernels", self.trace())["energy_kernels"]["note"])

    def test_an_energy_counter_that_restarts_is_not_an_energy_given_back(self):
        def energy(ts, joules):
            return {"ph": "C", "name": "GPU energy", "pid": 0, "ts": ts, "args": {"energy [J]": joules}}
        samples = [energy(0, 1000.0), energy(500, 1010.0), energy(600, 5.0), energy(1000, 10.0), energy(2000, 30.0)]
        table = self.facts("--only", "energy", self.trace(events=EVENTS + samples))["energy"]
        for row, joules in zip(table["rows"], (15, 20, 35)):
            self.assertAlmostEqual(row[4], joules)
        self.assertIn("restarted", table["note"])
        steady = self.facts("--only", "energy", self.trace(events=EVENTS + samples[2:]))["energy"]
        self.assertEqual(steady["note"], "")

    def test_mistakes_are_explained(self):
        path = self.trace()
        for arguments, text in ((["--only", "kernel", path], "--list"), (["--steps", "3..1", path], "N..M"),
                                (["--definitions", "x", path], "hta"), ([], "name the trace"),
                                (["--stream", "a", path], "7,20")):
            self.assertIn(text, self.analyze(*arguments, status=2).err.decode())
        self.assertIn("1..2", self.analyze("--steps", "7..8", path, status=2).err.decode())

    def test_the_list_names_what_only_takes(self):
        names = [line.split()[0] for line in self.analyze("--list").out.decode().splitlines()]
        self.assertIn("temporal_breakdown", names)
        self.analyze("--only", ",".join(names), self.trace())

    def test_a_trace_is_not_overwritten(self):
        path = self.trace()
        self.assertIn("overwrite", self.analyze("--json=" + path, path, status=2).err.decode())

    def test_what_if_goes_with_no_tables(self):
        path = self.trace()
        for way in (["--json=o.json"], ["--csv", "o"], ["--series"], ["--all"], ["--only", "kernels"]):
            said = self.analyze(path, "--what-if", "kernel:gemm=0.5", *way, status=2).err.decode()
            self.assertIn("run 'ckineto analyze' again without --what-if", said)
        self.assertFalse(os.path.exists(self.path("o")) or os.path.exists(self.path("o.json")))
        self.analyze(path, "--what-if", "kernel:gemm=0.5", "--overlay", self.path("o.json"), "--only", "sequences")

    def test_findings_refuse_what_is_about_tables(self):
        path = self.trace()
        for way in (["--csv", "o"], ["--series"], ["--all"], ["--top", "3"], ["--definitions", "hta"],
                    ["--annotation", "x"], ["--instance", "1"], ["--top", "2"], ["--what-if", "kernel:gemm=0.5"]):
            said = self.analyze(path, "--findings", *way, status=2).err.decode()
            self.assertIn(f"not with {way[0]}", said)
        self.assertIn("--findings", self.analyze(path, "--evidence", "3", status=2).err.decode())
        self.analyze(path, "--findings", "--evidence", "3", "--stream", "7")

    def test_no_file_that_is_read_is_overwritten(self):
        path = self.trace()
        for option in ("--execution-trace", "--memory-timeline", "--rules"):
            read, linked = self.path("read"), self.path("linked")
            with open(read, "w", encoding="utf-8") as file:
                file.write("[]")
            os.link(read, linked)
            for output in ("--json=", "--overlay="):
                for name in (read, linked):
                    said = self.analyze(path, option, read, output + name, status=2).err.decode()
                    self.assertIn(f"{name} would overwrite", said)
            os.remove(linked)
            with open(read, encoding="utf-8") as file:
                self.assertEqual(file.read(), "[]")

    def test_two_answers_have_two_files(self):
        said = self.analyze(self.trace(), "--json=" + self.path("o"), "--overlay", self.path("o"), status=2).err.decode()
        self.assertIn("written twice", said)
        self.assertFalse(os.path.exists(self.path("o")))


main()
