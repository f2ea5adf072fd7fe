"""The first answer: `ckineto TRACE` and `ckineto analyze TRACE` on terminals of all widths."""

import glob
import json
import os
import re
import unicodedata

from command import CommandTest, main, on_terminal

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = sorted(glob.glob(os.path.join(HERE, "../data/**/*.json*"), recursive=True))


def columns(line):
    """Columns of a line on a terminal, without sequences for colours."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def event(cat, name, start, duration, pid=5, tid=7, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": args}


def training(slow_from=1 << 30):
    """Steps with a kernel of half their length, after a data loader's wait."""
    events = []
    for step in range(4):
        at = 1000 * step
        wait = 300 if step < slow_from else 600
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, 1000),
            event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", at, wait),
            event("cuda_runtime", "cudaLaunchKernel", at + wait, 10, correlation=step + 1),
            event("kernel", "ampere_sgemm", at + wait + 20, 500, pid=0, tid=7, device=0, stream=7, correlation=step + 1)]
    return events


class Overview(CommandTest):
    def trace(self, events, name="trace.json", **header):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, **header}, file)
        return path

    def text(self, *arguments, status=0):
        done = self.run_command(*arguments)
        if status is not None:
            self.assertEqual(done.returncode, status, done.err)
        return done.out.decode()

    def headline(self, *arguments, status=0):
        return " ".join(self.text("analyze", *arguments, status=status).split("\n\n")[0].split())

    def test_a_trace_alone_is_answered(self):
        path = self.trace(training())
        self.assertEqual(self.text(path), self.text("analyze", path))
        self.assertEqual(self.text(self.directory), self.text("analyze", self.directory))

    def test_a_program_is_not_taken_for_a_trace(self):
        path = self.path("program")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        os.chmod(path, 0o755)
        done = self.run_command(path)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"ckineto record -- ", done.err)

    def test_headline_of_steps_and_a_device(self):
        line = self.headline(self.trace(training()))
        self.assertRegex(line, r"^4 steps of 1\.000 ms\. The GPU is busy for 5\d %; \d+ % of the idle time between first "
                               r"and last work is spent waiting for the data loader\.$")

    def test_overlapping_savings_are_said_not_to_add_up(self):
        """Once, where two of the shown findings save some of the same time, and never where none does."""
        for path in CORPUS + [self.trace(training())]:
            done = self.run_command("analyze", path)
            found = self.run_command("analyze", "--findings", "--json", "-", path)
            if done.returncode or found.returncode:
                continue
            shown = json.loads(found.out)["findings"][:3]
            overlapping = sum(f.get("additive") is False for f in shown)
            self.assertEqual(done.out.decode().count("savings overlap; they do not add up"), int(overlapping > 1), path)

    def test_headline_of_ranges(self):
        ranges = [event("user_annotation", "load", 0, 100), event("user_annotation", "solve", 100, 900)]
        line = self.headline(self.trace(ranges))
        self.assertRegex(line, r"1\.000 ms recorded\. The range solve takes 900\.0 us in 1 call\.")

    def test_headline_of_nothing(self):
        self.assertEqual(self.headline(self.trace([])), "The trace has no activities.")

    def test_headline_names_missing_and_cut_ranks(self):
        for rank in (0, 1, 3):
            self.trace(training(), f"run/rank{rank}.json", distributedInfo={"rank": rank, "world_size": 4})
        with open(self.path("run/rank3.json"), "rb+") as file:
            file.truncate(os.path.getsize(self.path("run/rank3.json")) * 2 // 3)
        line = self.headline(self.path("run"), status=3)
        self.assertRegex(line, r"^3 of 4 ranks; missing: 2; 3 is cut off after \d+ % of the time \(\d+ % of the activities\)\. ")

    def test_a_cut_rank_is_judged_by_its_activities_and_is_no_data(self):
        """Ranges of steps are written first, so that a cut file has all of them; half of its work is missing."""
        for rank in range(3):
            events = sorted(training(), key=lambda e: not e["name"].startswith("ProfilerStep"))
            self.trace(events, f"run/rank{rank}.json", distributedInfo={"rank": rank, "world_size": 4})
        path = self.path("run/rank2.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        third = [m.start() for m in re.finditer("ampere_sgemm", text)][2]
        with open(path, "w", encoding="utf-8") as file:
            file.write(text[:third])
        line = self.headline(self.path("run"), status=3)
        self.assertRegex(line, r"; 2 is cut off after 4\d % of the time \(\d\d % of the activities\)\. ")
        self.assertNotIn("(rank 2)", line)
        self.assertIn("The 2 GPUs", line)
        text = self.text(self.path("run"), status=3)
        self.assertRegex(text, r"\n +2  cut off ")
        self.assertIn("an unknown number lost; 'ckineto verify' has 0 errors and 2 warnings", text)
        self.assertIn("rank2.json (an unknown number lost)", " ".join(self.text("info", self.path("run"), status=None).split()))

    def test_traces_without_common_time_are_no_ranks(self):
        self.trace(training(), "two/a.json")
        self.trace([{**e, "ts": e["ts"] + 10**9} for e in training()], "two/b.json")
        self.assertIn("may not be ranks of one job", self.headline(self.path("two")))

    def test_times_are_relative(self):
        shifted = [{**e, "ts": e["ts"] + 1_600_000_000_000_000} for e in training(slow_from=2)]
        text = self.text("analyze", self.trace(shifted))
        self.assertIn("+2.000 ms", text)
        self.assertNotRegex(text, r"\d{12}")
        self.assertEqual(text, self.text("analyze", self.trace(training(slow_from=2))))

    def test_lines_and_widths_over_the_corpus(self):
        self.assertTrue(CORPUS)
        for path in CORPUS:
            for width in (40, 72, 100, 160):
                status, text = on_terminal(width, "analyze", path)
                with self.subTest(trace=os.path.basename(path), width=width):
                    if status == 2: # it is no trace
                        break
                    lines = text.splitlines()
                    self.assertLessEqual(max(map(columns, lines)), width)
                    if width >= 100:
                        self.assertLessEqual(len(lines), 40)

    def test_only_one_number_is_called_busy(self):
        """Of kernels in the steps; other parts of the time say what they count, and of which time."""
        copy = event("gpu_memcpy", "Memcpy HtoD", 3980, 500, pid=0, tid=7, device=0, stream=7, correlation=99)
        profiler = event("Trace", "PyTorch Profiler (0)", -6000, 12000, pid="Spans", tid="PyTorch Profiler")
        for events, busy in ((training(), r"The GPU is busy for (5\d) %"),
                             ([e for e in training() if "ProfilerStep" not in e["name"]],
                              r"The GPU is busy for (4\d) % of the \d\.\d+ ms between the first and the last event")):
            path = self.trace([*events, copy, profiler])
            headline = " ".join(self.text("analyze", path).split("\n\n")[0].split())
            self.assertRegex(headline, busy)
            percent = re.search(busy, headline)[1]
            for words in (["info"], ["analyze", "--all"], ["report", "--text"], ["verify", "-v"], ["table"]):
                for found in re.findall(r"(?i)(?:busy|utili[sz]ation)\D{0,20}(\d+)[.\d]* %", self.run_command(*words, path).out.decode()):
                    self.assertEqual(found, percent, words)
            self.assertRegex(self.text("info", path),
                             r"device 0: 5 kernels, copies and memsets cover 2\.500 ms, 2\d\.\d % of the recorded 1\d\.\d+ ms")
    def test_the_brief_form_is_whole_items_in_4096_bytes(self):
        for path in CORPUS:
            done = self.run_command("analyze", "--brief", path)
            if done.returncode == 2: # it is no trace
                continue
            with self.subTest(trace=os.path.basename(path)):
                self.assertLessEqual(len(done.out), 4096)
                brief = json.loads(done.out)
                found = json.loads(self.run_command("analyze", "--findings", "--json", path).out)["findings"]
                self.assertEqual([(f["sentence"], f["advice"]) for f in brief["findings"]],
                                 [(f["sentence"], f["advice"]) for f in found[:len(brief["findings"])]])
                self.assertEqual(len(brief["findings"]) + brief.get("more_findings", 0), len(found))
                self.assertTrue(all(command.startswith("ckineto analyze ") for command in brief["next"]))
                self.assertNotRegex(done.out.decode(), r"[\[,:]-?\d+\.\d{4}")
        path = self.trace(training())
        for command in json.loads(self.run_command("analyze", "--brief", path).out)["next"]:
            json.loads(self.run_command(*command.split()[1:]).out)

    def test_functions_of_python_come_before_those_of_the_interpreter(self):
        split = "<built-in method split of re.Pattern object at 0x7f%d>"
        events = [event("python_function", "job.py(1): main", 0, 100)]
        events += [event("python_function", split % n, 10 * n, 5) for n in range(8)]
        events += [event("cpu_sample", "_PyEval_EvalFrameDefault", 10 * n, 1, tid=8, samples=1, cpu_ns=1000,
                         module="libpython3.11.so.1.0") for n in range(8)]
        text = self.text("analyze", self.trace(events))
        self.assertRegex(text, r"Python functions, by their own time .*\n  job.py\(1\): main +1 +60.00 us .* 60.0 %\n"
                               r"  <built-in method split of re.Pattern object> +8 +40.00 us")
        self.assertNotIn("_PyEval", text)
        tables = json.loads(self.text("analyze", "--json", "--only", "python_functions", self.path("trace.json")))["tables"]
        self.assertEqual(tables["python_functions"]["rows"],
                         [[0, "job.py(1): main", 1, 60.0, 60.0, 100.0],
                          [0, "<built-in method split of re.Pattern object>", 8, 40.0, 40.0, 40.0]])

    def test_time_with_callees_counts_a_recursive_function_once(self):
        events = [event("python_function", "job.py(1): walk", 10 * n, 100 - 20 * n) for n in range(4)]
        events += [event("python_function", "job.py(9): leaf", 40, 10)]
        events += [event("python_function", "job.py(1): walk", 200, 5), event("python_function", "job.py(1): walk", 0, 7, tid=8)]
        path = self.trace(events)
        rows = json.loads(self.text("analyze", "--json", "--only", "python_functions", path))["tables"]["python_functions"]["rows"]
        self.assertEqual([r[1:4] + r[5:] for r in rows],
                         [["job.py(1): walk", 6, 102.0, 112.0], ["job.py(9): leaf", 1, 10.0, 10.0]])
        self.assertRegex(self.text("analyze", path), r"calls +self +with callees .*\n  job.py\(1\): walk +6 +102.0 us +112.0 us")

    def test_times_of_findings_are_relative_and_absolute(self):
        shifted = [{**e, "ts": e["ts"] + 1_600_000_000_000_000} for e in training(slow_from=2)]
        found = json.loads(self.run_command("analyze", "--findings", "--json", self.trace(shifted)).out)["findings"]
        places = [e for f in found for e in f["evidence"] if "start_us" in e]
        self.assertTrue(places)
        for e in places:
            self.assertAlmostEqual(e["start_us"] - e["at_us"], 1_600_000_000_000_000, delta=1)

    def test_names_of_rules_choose_findings(self):
        path = self.trace(training())
        text = self.text("analyze", "--only", "input.data_loader", path)
        self.assertEqual(text, self.text("analyze", "--findings", "--only", "input.data_loader", path))
        for words in (["--only", "steps,input.data_loader"], ["--only", "io"], ["--findings", "--only", "steps"]):
            self.assertIn(b"name either tables, or rules", self.run_command("analyze", *words, path).err)
        for words, command in ((["--findings"], "--findings --json"), (["--all"], "--json TRACE"), (["--only", "steps"], "--only")):
            error = json.loads(self.run_command("analyze", "--brief", *words, path).err)
            self.assertIn(command, error["message"])

    def test_colours(self):
        path = self.trace(training())
        self.assertIn("\x1b[1m", on_terminal(100, "analyze", path, NO_COLOR="")[1])
        self.assertNotIn("\x1b", on_terminal(100, "analyze", path, NO_COLOR="1")[1])
        self.assertNotIn("\x1b", on_terminal(100, "analyze", "--color", "never", path)[1])
        self.assertIn("\x1b[1m", self.text("analyze", "--color", "always", path))
        self.assertEqual(self.run_command("analyze", "--color", "blue", path).returncode, 2)

    def test_names_from_traces_cannot_drive_the_terminal(self):
        ranges = [event("user_annotation", "evil\x1b[2J\u202ename" + "x" * 300, 0, 100)]
        text = self.text("analyze", self.trace(ranges))
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\u202e", text)

    def test_skipped_rules_are_listed_on_request(self):
        path = self.trace([event("user_annotation", "load", 0, 100)])
        self.assertNotIn("skipped", self.text("analyze", path))
        self.assertIn("Skipped:", self.text("analyze", "-v", path))


if __name__ == "__main__":
    main()
