"""What the command says: help, versions, mistakes, and what is in a trace."""

import json
import os
import re
import subprocess
import unittest

from command import TARGET, CommandTest, main

VERBS = ("record", "info", "verify", "plugin", "doctor", "recover", "repair",
         "slice", "scrub", "convert", "export")


class Help(CommandTest):
    def test_every_verb_explains_itself(self):
        for verb in VERBS:
            done = self.run_command(verb, "--help")
            self.assertEqual((done.returncode, done.err), (0, b""))
            self.assertIn(b"Usage: ckineto " + verb.encode(), done.out)
            self.assertEqual(self.run_command("help", verb).out, done.out)
            self.assertTrue(all(len(l) <= 100 for l in done.out.decode().splitlines()))

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
            for option in re.findall(r"--[a-z-]+(?= |$)", self.options_of(verb), re.M):
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
        self.check(["xyzzy"], 2, "'xyzzy'")
        self.check(["--nonsense"], 2, "--nonsense")

    def test_every_mistake_of_record_is_125_and_names_the_option(self):
        for arguments in (["--nonsense"], ["-z"], ["--buffer-mb"], ["--buffer-mb", "x"],
                          ["--buffer-mb", "-1"], ["--buffer-mb=0"], ["--buffer-mb", "1e3"],
                          ["--policy", "newest"], ["--keep-mb", "99999999999999999999"],
                          ["--quiet=yes"], ["--log-level", "9"], ["--output="],
                          ["--activities", "cpu_op,nonsense"]):
            self.check(["record", *arguments, "--", "true"], 125, arguments[0].split("=")[0])
        self.check(["record", "-p", "stream", "-k", "5", "--", "true"], 125, "--keep-mb")
        self.check(["record"], 125, "name the program")
        self.check(["record", "--"], 125, "name the program")

    def test_operands_are_counted(self):
        self.check(["info"], 2, "name the trace")
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

    def test_a_file_without_anything_is_called_empty(self):
        with open(self.path("t.json"), "w"):
            pass
        done = self.run_command("info", "t.json")
        self.assertEqual((done.returncode, done.out), (1, b""))
        self.assertIn(b"t.json: the file is empty", done.err)

    def test_compressed_traces_are_the_same(self):
        self.run_command("record", "-q", "-o", "t.json.gz", "--", TARGET, "ranges", "5")
        facts = json.loads(self.run_command("info", "-j", "t.json.gz").out)
        self.assertEqual(facts["activities"], 10)
        self.assertEqual(subprocess.run(["gzip", "-t", self.path("t.json.gz")]).returncode, 0)


class Record(CommandTest):
    def test_shows_a_table_the_ledger_and_the_next_step(self):
        err = self.record(TARGET, "ranges", "1234").err.decode()
        for word in ("outer", "1,234", "ledger", "nothing was lost", "t.json", "ckineto info t.json",
                     "ui.perfetto.dev"):
            self.assertIn(word, err)

    def test_only_chosen_kinds_are_recorded(self):
        self.record(TARGET, "ranges", "5", options=["-a", "cpu_op"])
        self.assertEqual({e["cat"] for e in self.slices()}, {"cpu_op"})

    def test_nothing_recorded_is_explained(self):
        self.assertIn(b"ckineto doctor", self.record("true").err)

    def test_messages_can_go_to_a_file(self):
        done = self.record(TARGET, "ranges", "1",
                           options=["-q", "--log", "messages", "--log-level", "1"])
        self.assertEqual(done.err, b"")
        with open(self.path("messages")) as f:
            self.assertIn("recording into", f.read())

    def test_preload_enters_a_program_that_knows_nothing(self):
        done = self.record("sh", "-c", 'echo "$LD_PRELOAD"', options=["--preload", "-q"])
        if done.returncode == 125 and b"libckineto-rt.so" in done.err:
            self.skipTest("no shared library beside the command")
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

    def test_a_missing_plug_in_is_named(self):
        done = self.run_command("doctor", "--json", env={"CKINETO_PLUGIN_DIR": "/nonexistent"})
        probes = {p["name"]: p for p in json.loads(done.out)["probes"]}
        self.assertEqual(probes["opencl plug-in"]["verdict"], "broken")
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    main()
