"""What the command says: help, versions, mistakes, and what is in a trace."""

import json
import math
import os
import re
import shutil
import subprocess
import unittest

from command import COMMAND, TARGET, CommandTest, main

VERBS = ("record", "info", "verify", "plugin", "doctor", "recover", "repair",
         "slice", "scrub", "convert", "analyze", "diff", "daemon", "ps", "trigger", "top", "report", "view", "table", "query")


class Help(CommandTest):
    def test_every_verb_explains_itself(self):
        for verb in VERBS:
            done = self.run_command(verb, "--help")
            self.assertEqual((done.returncode, done.err), (0, b""))
            self.assertIn(b"Usage: ckineto " + verb.encode(), done.out)
            self.assertEqual(self.run_command("help", verb).out, done.out)
            self.assertTrue(all(len(l) <= 100 for l in done.out.decode().splitlines()))
            for line in done.out.decode().splitlines():
                option = re.match(r" {2,6}-.*?\S( {2,})(?=\S)", line)
                self.assertTrue(not option or option.end() == 28, line)

    def test_the_verbs_are_listed(self):
        done = self.run_command("--help")
        self.assertEqual(done.returncode, 0)
        for verb in VERBS:
            self.assertIn(verb.encode(), done.out)
        bare = self.run_command()
        self.assertEqual((bare.returncode, bare.out, bare.err), (2, b"", done.out))

    def test_the_version_is_one_line(self):
        done = self.run_command("--version")
        self.assertRegex(done.out, rb"\Ackineto \d+\.\d+\.\d+\n\Z")

    def test_help_after_the_program_is_the_programs(self):
        done = self.record("echo", "--help", "--version")
        self.assertNotIn(b"Usage: ckineto", done.out)


    @unittest.skipUnless(os.environ.get("CKINETO_MAN"), "the manual pages are not at hand")
    def test_the_manual_has_every_option(self):
        for verb in VERBS:
            with open(os.path.join(os.environ["CKINETO_MAN"], f"ckineto-{verb}.1")) as f:
                manual = f.read().replace("\\-", "-")
            for option in re.findall(r"--[a-z-]+(?=[ =\[]|$)", self.options_of(verb), re.M):
                self.assertIn(option, manual, verb)

    def options_of(self, verb):
        text = self.run_command(verb, "--help").out.decode().partition("Options:")[2]
        return "\n".join(line[:28] for line in text.splitlines())


class Mistakes(CommandTest):
    def check(self, arguments, status, *words):
        done = self.run_command(*arguments)
        self.assertEqual((done.returncode, done.out), (status, b""), arguments)
        for word in words:
            self.assertIn(word.encode(), done.err)
        self.assertIn(b"Try 'ckineto", done.err)

    def test_a_mistyped_verb_or_option_gets_a_suggestion(self):
        self.check(["recrod"], 2, "'recrod'", "did you mean 'record'")
        self.check(["record", "--polcy", "ring", "true"], 125, "--polcy", "did you mean --policy")
        for word, option in (("io", "waits"), ("locks", "waits"), ("omp", "openmp"), ("offcpu", "off-cpu"), ("heap", "memory")):
            self.check(["record", f"--{word}", "true"], 125, f"did you mean --{option}?")
        self.check(["analyze", "--limit", "3", "t.json"], 2, "did you mean --top?")
        self.assertNotIn(b"did you mean", self.run_command("ps", "--io").err)
        self.check(["xyzzy"], 2, "'xyzzy'")
        self.check(["analyse"], 2, "did you mean 'analyze'")
        self.check(["run", "ls"], 2, "did you mean 'record'")
        self.check(["flame", "t.json"], 2, "did you mean 'convert -o FLAME.svg TRACE'")
        self.check(["version"], 2, "did you mean '--version'")
        self.check(["table", "--sort", "x"], 2, "did you mean --sort-by")
        self.check(["record", "--pid", "1", "--memory"], 125, "ckineto trigger --pid")
        self.check(["query", "SELECT 1 + 1", "t.json"], 2, "the trace comes first")
        with open(self.path("t.json"), "w", encoding="utf-8"):
            pass
        done = self.run_command("t.json")  # a trace, not a verb
        self.assertEqual((done.returncode, done.out), (2, b""))
        self.assertIn(b"the file is empty", done.err)
        self.check(["--nonsense"], 2, "--nonsense")

    def test_a_missing_trace_is_a_missing_file(self):
        with open(self.path("train.json"), "w", encoding="utf-8") as file:
            file.write("[]")
        for words in (["trian.json"], ["./trian.json"], ["info", "trian.json"], ["trian.json", "-v"], ["-v", "trian.json"],
                      [self.path("trian.json")], ["query", "trian.json", "SELECT 1"]):
            done = self.run_command(*words)
            self.assertEqual((done.returncode, done.out), (2, b""), words)
            self.assertRegex(done.err.decode(), "trian.json: No such file.*; did you mean '.*train.json'")
        self.assertNotIn(b"did you mean", self.run_command("other.pftrace").err)

    def test_mistakes_before_a_verb_are_json_for_programs(self):
        for words, verb, status in ((["nonexist.json", "--json"], "analyze", "E_NOT_FOUND"),
                                    (["--brief", "nonexist.json"], "analyze", "E_NOT_FOUND"),
                                    (["--json", "nonexist.json"], "analyze", "E_NOT_FOUND"),
                                    (["anlyze", "--json"], "ckineto", "E_ARGUMENT"),
                                    (["--json=x"], "ckineto", "E_ARGUMENT"), (["--brief"], "ckineto", "E_ARGUMENT")):
            done = self.run_command(*words)
            self.assertEqual((done.returncode, done.out), (2, b""), words)
            error = json.loads(done.err)
            self.assertEqual((error["schema"], error["verb"], error["status"]), ("ckineto.error/1", verb, status), words)

    def test_every_mistake_of_record_is_125_and_names_the_option(self):
        for arguments in (["--nonsense"], ["-z"], ["--buffer-mb"], ["--buffer-mb", "x"],
                          ["--buffer-mb", "-1"], ["--buffer-mb=0"], ["--buffer-mb", "1e3"],
                          ["--policy", "newest"], ["--keep-mb", "99999999999999999999"],
                          ["--keep-mb", "0"], ["--keep-mb=0", "-p", "ring"], ["--ring-mb=0"],
                          ["--on-demand=signal=KILL"],
                          ["--on-demand=signal="], ["--on-demand=file="], ["--on-demand=socket,"],
                          ["--on-demand=file=" + 5000 * "a"], ["--ring-mb=0", "--ring", "1"], ["--buffer-mb", "64", "--ring", "1"],
                          ["--quiet=yes"], ["--log-level", "9"], ["--log-level", str(2**64 - 1)], ["--output="],
                          ["--kinds", "cpu_op,nonsense"]):
            self.check(["record", *arguments, "--", "true"], 125, arguments[0].split("=")[0])
        self.check(["record", "-p", "stream", "-k", "5", "--", "true"], 125, "--keep-mb")
        self.check(["record"], 125, "no program given")
        self.check(["record", "--"], 125, "no program given")

    def test_operands_are_counted(self):
        self.check(["info"], 2, "no trace given")
        self.check(["repair", "a", "b"], 2, "one trace")
        self.check(["doctor", "x"], 2, "'x'")
        self.check(["recover", "x", "y"], 2, "'y'")


class Info(CommandTest):
    def test_tells_what_the_trace_holds(self):
        self.record(TARGET, "ranges", "40", "fork", "2")
        facts = json.loads(self.run_command("info", "--json", "t.json").out)
        self.assertEqual(facts["activities"], 84)
        self.assertEqual(facts["kinds"], {"cpu_op": 42, "user_annotation": 42})
        self.assertEqual({t["name"]: t["count"] for t in facts["host"]}, {"outer": 42, "inner": 42})
        self.assertEqual(facts["lost"], 0)
        self.assertEqual(len([p for p in facts["processes"] if not p["device"]]), 2)
        self.assertIn("command", facts["metadata_keys"])
        text = self.run_command("info", "t.json").out.decode()
        for word in ("84 activities", "outer", "inner", "nothing was lost"):
            self.assertIn(word, text)

    def test_names_cannot_drive_the_terminal(self):
        event = {"ph": "X", "cat": "cpu_op", "name": "a\x1b[31mb\u009bc\u0007", "pid": 1, "tid": 1,
                 "ts": 1, "dur": 1}
        with open(self.path("t\x1b[2J.json"), "w") as f:
            json.dump({"traceEvents": [event]}, f)
        done = self.run_command("info", "t\x1b[2J.json")
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIsNone(re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", done.out))
        self.assertIn(rb"a\x1b[31mb", done.out)

    def test_nor_can_names_in_messages(self):
        for words in (["info", "a\x1b[2J.json"], ["\x1b[2J"], ["--\x1b[2J"], ["record", "--", "./\x1b[2J"],
                      ["info", b"\xff\x1b.json"], ["analyze", "t.json", "--steps", "\x1b[2J"]):
            done = self.run_command(*words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(rb"\x1b", done.err)
            self.assertIsNone(re.search(rb"[\x00-\x08\x0b-\x1f\x7f-\xff]", done.err), done.err)

    def test_a_process_that_a_text_stands_for_is_shown_by_it(self):
        with open(self.path("t.json"), "w") as f:
            json.dump({"traceEvents": [
                {"ph": "M", "name": "process_name", "pid": "b", "args": {"name": "named"}}] +
                [{"ph": "X", "cat": "c", "name": "n", "pid": pid, "tid": 1, "ts": 1, "dur": 1} for pid in ("a\x1b", "b", 7)]}, f)
        lines = self.run_command("info", "t.json").out.decode().splitlines()
        self.assertEqual([line.strip() for line in lines if line.startswith("    process")],
                         ["process b named", "process a\\x1b", "process 7"])
        facts = json.loads(self.run_command("info", "--json", "t.json").out)
        self.assertEqual([p["pid"] for p in facts["processes"]], ["b", "a\x1b", 7])

    def test_a_device_that_waits_is_not_busy(self):
        with open(self.path("t.json"), "w") as f:
            json.dump({"traceEvents": [
                {"ph": "X", "cat": kind, "name": kind, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": {"device": 0}}
                for kind, ts, dur in (("kernel", 1, 100), ("cuda_sync", 1, 980), ("gpu_memset", 901, 2))]}, f)
        device = json.loads(self.run_command("info", "--json", "t.json").out)["processes"][0]
        self.assertEqual((device["busy_ns"], device["activities"]), (102000, 2))

    def test_a_device_is_busy_for_a_part_of_all_that_was_recorded(self):
        """Kineto writes where its window ended; work that was launched in it may run on."""
        with open(self.path("t.json"), "w") as f:
            json.dump({"traceEvents": [
                {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 9, "tid": 1, "ts": 0, "dur": 10},
                {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 99, "args": {"device": 0}},
                {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 20}]}, f)
        text = self.run_command("info", "t.json").out.decode()
        self.assertRegex(text, r"window from .*UTC; activities end 80.000 us after it\n")
        self.assertRegex(text, r": 1 kernel or copy covers 99.000 us, 99.0 % of the recorded 100.000 us\n")
        device = json.loads(self.run_command("info", "--json", "t.json").out)["processes"]
        self.assertEqual([p["busy_percent"] for p in device if p["device"]], [99])

    def test_of_an_empty_trace_no_times_are_reported(self):
        with open(self.path("t.json"), "w") as f:
            f.write('{"traceEvents": []}')
        text = self.run_command("info", "t.json").out.decode()
        self.assertIn("0 activities", text)
        self.assertNotRegex(text, "1970|by kind")

    def test_a_file_of_another_kind_is_called_by_it(self):
        for begin, word in ((b"\x89PNG\r\n\x1a\n", b"picture"), (b"SQLite format 3\0", b"SQLite"),
                            (b"\x80\x04\x95", b"pickle"), (b"<html>", b"page"), (b"hello", b"begins with")):
            with open(self.path("t.json"), "wb") as f:
                f.write(begin * 9)
            done = self.run_command("info", "t.json")
            self.assertEqual((done.returncode, done.out), (2, b""))
            self.assertIn(word, done.err)

    def test_a_file_without_anything_is_called_empty(self):
        with open(self.path("t.json"), "w"):
            pass
        done = self.run_command("info", "t.json")
        self.assertEqual((done.returncode, done.out), (2, b""))
        self.assertIn(b"t.json: the file is empty", done.err)

    def memory_of(self, rows, **header):
        with open(self.path("m.json"), "w") as f:
            json.dump({**header, "traceEvents": [
                {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": i,
                 "args": {"Device Type": t, "Device Id": d, "Addr": 16, **args}}
                for i, (t, d, args) in enumerate(rows)]}, f)
        done = self.run_command("info", "--json", "m.json")
        self.assertEqual((done.returncode, self.run_command("info", "m.json").returncode), (0, 0), done.err)
        return json.loads(done.out)["memory"]

    def test_memory_is_reported_for_each_device(self):
        rows = [(0, -1, {"Bytes": 100, "Total Allocated": 100}), (1, 0, {"Bytes": 512, "Total Allocated": 4096}),
                (0, -1, {"Bytes": 50, "Total Allocated": 150}), (1, 1, {"Bytes": 512}),
                (0, -1, {"Bytes": -100, "Total Allocated": 50})]
        cpu, first, second = self.memory_of(rows)
        self.assertEqual((cpu["allocations"], cpu["allocated_bytes"], cpu["releases"], cpu["released_bytes"],
                          cpu["peak_bytes"], cpu["last_total_bytes"], cpu["largest_bytes"]),
                         (2, 150, 1, 100, 150, 50, 100))
        self.assertEqual(cpu["allocations_estimate"], 2)
        self.assertEqual((first["device_type"], first["device"], first["peak_bytes"]), (1, 0, 4096))
        self.assertNotIn("peak_bytes", second)

    def test_sampled_memory_is_scaled(self):
        """A sample of s bytes stands for 1 / (1 - exp(-s / R)) blocks."""
        for size, rate in ((1, 1 << 40), (24, 65536), (65536, 65536), (1 << 30, 512)):
            weight = -1 / math.expm1(-size / rate)
            place = self.memory_of([(0, -1, {"Bytes": size})], ckineto_memory_sampling_bytes=rate)[0]
            self.assertAlmostEqual(place["allocations_estimate"] / weight, 1, places=6)
            self.assertAlmostEqual(place["allocated_bytes_estimate"] / weight / size, 1, places=6)

    def test_odd_memory_events_are_survived(self):
        big = (1 << 63) - 1
        odd = [{}, {"Bytes": "x"}, {"Bytes": 1.5}, {"Bytes": 0}, {"Bytes": -big - 1, "Total Allocated": -5},
               {"Bytes": big, "Total Allocated": big}, {"Bytes": 1 << 64}, {"Bytes": None, "Total Allocated": []}]
        for rate in (0, 1, 2, -1, "x", 1e300, big, {"a": 1}, None):
            self.assertTrue(self.memory_of([(t, d, args) for args in odd for t, d in ((0, -1), (-7, big), ("a", "b"))],
                                           ckineto_memory_sampling_bytes=rate))

    def test_compressed_traces_are_the_same(self):
        self.run_command("record", "-q", "-o", "t.json.gz", "--", TARGET, "ranges", "5")
        facts = json.loads(self.run_command("info", "-j", "t.json.gz").out)
        self.assertEqual(facts["activities"], 10)
        self.assertEqual(subprocess.run(["gzip", "-t", self.path("t.json.gz")]).returncode, 0)


class Record(CommandTest):
    def test_shows_a_table_the_ledger_and_the_next_step(self):
        err = self.record(TARGET, "ranges", "1234").err.decode()
        for word in ("outer", "1,234", "overhead ", "nothing was lost", "next: ckineto t.json"):
            self.assertIn(word, err)

    def test_the_summary_is_short_and_the_ledger_is_there_on_request(self):
        err = self.record(TARGET, "ranges", "40", "threads", "9", "3", "fork", "2").err.decode()
        self.assertLessEqual(len(err.splitlines()), 30)
        self.assertLessEqual(max(map(len, err.splitlines())), 100)
        self.assertNotIn("self-cost", err)
        self.assertIn("self-cost", self.record(TARGET, "ranges", "40", options=["-v"]).err.decode())

    def test_an_earlier_trace_is_kept(self):
        for count in ("5", "6", "7"):
            self.record(TARGET, "ranges", count)
        ranges = [sum(e["cat"] == "user_annotation" for e in self.slices(name)) for name in ("t.json.old", "t.json")]
        self.assertEqual(ranges, [6, 7])
        self.run_command("record", "-q", "-o", "r{rank}.json", "--", TARGET, "ranges", "5", env={**os.environ, "RANK": "0"})
        self.assertFalse([name for name in os.listdir(self.directory) if name.startswith("r") and name.endswith(".old")])

    def test_only_chosen_kinds_are_recorded(self):
        self.record(TARGET, "ranges", "5", options=["-a", "cpu_op"])
        self.assertEqual({e["cat"] for e in self.slices()}, {"cpu_op"})

    def test_nothing_recorded_is_explained(self):
        self.assertIn(b"ckineto doctor", self.record("true").err)

    def test_without_plug_ins_the_reason_is_still_the_program(self):
        env = {"CKINETO_PLUGIN_DIR": "/nonexistent", "CKINETO_CPU": "off"}
        for program in (["sleep", "0.2"], ["false"]):
            err = self.run_command("record", "-o", "t.json", "--", *program, env=env).err
            self.assertIn(b"Nothing was recorded: the program used nothing", err)
            self.assertNotIn(b"PyTorch", err)
        err = self.run_command("record", "--python", "-o", "t.json", "--", "true", env=env).err
        self.assertIn(b"--python needs ckineto's Python package", err)

    def test_what_recording_cost_is_one_short_line(self):
        for line in self.record(TARGET, "ranges", "1").err.decode().splitlines():
            self.assertLess(len(line), 150 if "self-cost" in line else 1000, line)

    def test_messages_can_go_to_a_file(self):
        done = self.record(TARGET, "ranges", "1",
                           options=["-q", "--log", "messages", "--log-level", "1"])
        self.assertEqual(done.err, b"")
        with open(self.path("messages")) as f:
            self.assertIn("recording into", f.read())

    def test_preload_enters_a_program_that_knows_nothing(self):
        done = self.record("sh", "-c", 'echo "$LD_PRELOAD"', options=["--preload", "-q"])
        if done.returncode == 125 and b"libckineto-rt.so" in done.err:
            self.skipTest("no shared library next to the command")
        if b"Sanitizer" in done.err or b"runtime does not come first" in done.err:
            self.skipTest("a sanitizer cannot be preloaded into a plain program")
        self.assertIn(b"libckineto-rt.so", done.out)


class Doctor(CommandTest):
    def test_says_what_works(self):
        done = self.run_command("doctor", "--json")
        facts = json.loads(done.out)
        self.assertEqual(facts["recording_works"], done.returncode == 0)
        probes = {p["name"]: p for p in facts["probes"]}
        for name in ("clock", "buffer", "opencl", "cuda", "rocm", "nvtx"):
            self.assertTrue(probes[name]["text"])
        self.assertIn(b"clock", self.run_command("doctor").out)
        # Counters of operators (docs/reference/stacks.md): tried, not only looked for.
        self.assertRegex(probes["perf events"]["text"], "cycles|task-clock|operators can have")
        self.assertRegex(probes["threads"]["text"], "states of threads")

    def test_a_missing_plug_in_is_named(self):
        done = self.run_command("doctor", "--json", env={"CKINETO_PLUGIN_DIR": "/nonexistent"})
        probes = {p["name"]: p for p in json.loads(done.out)["probes"]}
        without = "built without OpenCL" in probes["opencl plug-in"]["text"]
        self.assertEqual(probes["opencl plug-in"]["verdict"], "absent" if without else "broken")
        self.assertEqual(done.returncode, 0)

    def test_a_command_alone_says_what_installs_the_rest(self):
        os.mkdir(self.path("bin"))
        alone = shutil.copy(os.path.realpath(COMMAND), self.path("bin/ckineto"))
        done = subprocess.run([alone, "doctor"], capture_output=True, cwd=self.directory)
        if b"Recording works" in done.stdout:
            self.skipTest("ckineto is installed on this machine")
        self.assertIn(b"'make install'", done.stdout, done.stderr)


if __name__ == "__main__":
    main()
