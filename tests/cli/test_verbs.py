"""What all verbs have in common: groups and examples of the help, shared options, old names, suggestions."""

import glob
import json
import os
import re
import shlex
import shutil

from command import CommandTest, main

HERE = os.path.dirname(os.path.abspath(__file__))
TRACE = os.path.join(HERE, "../data/torch-2.5.1/training.json.gz")
GROUPS = ("Record", "Look", "Compare", "Serve", "Files")
PARTS = {"plugin": ("list", "check"), "history": ("add", "list", "regress")}


class Verbs(CommandTest):
    def setUp(self):
        super().setUp()
        shutil.copy(TRACE, self.path("trace.json.gz"))
        text = self.run_command("--help").out.decode()
        self.groups = re.findall(r"^(\w+)\n((?:  \S.*\n)+)", text.partition("First steps")[0], re.M)
        self.verbs = [line.split()[0] for _, lines in self.groups for line in lines.splitlines()]

    def helps(self):
        """Each verb, or part of one, and its help."""
        for verb in self.verbs:
            for part in PARTS.get(verb, (None,)):
                place = [verb, part] if part else [verb]
                yield place, self.run_command(*place, "--help").out.decode()

    def run_ok(self, *arguments, status=0):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, status, done.err)
        return done

    def test_verbs_are_in_groups(self):
        self.assertEqual([name for name, _ in self.groups], list(GROUPS))
        self.assertEqual(len(self.verbs), len(set(self.verbs)))

    def test_every_help_ends_with_examples_that_parse(self):
        """An unknown option at the end is the first mistake that is found: all before it was understood."""
        for place, text in self.helps():
            _, _, examples = text.rpartition("\nExample")
            lines = examples.splitlines()[1:]
            self.assertIn(len(lines), (1, 2), place)
            for line in lines:
                words = shlex.split(line)
                self.assertEqual(words[:1 + len(place)], ["ckineto", *place])
                end = words.index("--") if "--" in words else len(words)
                done = self.run_command(*words[1:end], "--no-such-option", *words[end:])
                self.assertIn(b"unknown option '--no-such-option'", done.err, line)

    def test_shared_options_have_one_meaning(self):
        """The same name has the same letter everywhere, and the same help but for its first number."""
        shared = {"--json", "--top", "--rank", "--color", "--absolute", "--mem", "--ts-unit", "--step-pattern"}
        seen = {}
        for place, text in self.helps():
            for letter, name, about in re.findall(r"^ {2}(-\w, | {4})(--[a-z-]+)\S*(?: \S+)?\s+(.+)", text, re.M):
                if name in shared and not (name == "--top" and place == ["slice"]) and not (name == "--json" and "all" in about):
                    about = re.sub(r"\d+", "N", about)
                    if place == ["trigger"]: # whose -j is a job
                        letter = "-j, " if name == "--json" else letter
                    self.assertEqual(seen.setdefault(name, (letter, about)), (letter, about), place)
        self.assertLessEqual({"--json", "--top", "--rank"}, set(seen))

    def test_the_documented_options_are_those_of_the_verbs(self):
        with open(os.path.join(HERE, "../../docs/reference/quick-reference.md"), encoding="utf-8") as file:
            section = file.read().partition("## Options that verbs share")[2].partition("\nOld names")[0]
        rows = re.findall(r"^\| `(?:-\w, )?(--[a-z-]+)[^|]*\|[^|]*\| ([^|]*) \|$", section, re.M)
        self.assertGreater(len(rows), 10)
        helps = list(self.helps())
        for option, verbs in rows:
            have = [place[0] for place, text in helps if re.search(rf"^ {{2}}(-\w, | {{4}}){option}[ =\[\n]", text, re.M)]
            self.assertEqual(sorted(set(have)), sorted(verbs.split(", ")), option)

    def test_json_goes_to_a_file_or_the_standard_output(self):
        ways = [["info"], ["verify"], ["table"], ["repair"], ["analyze", "--only", "kernels"], ["analyze", "--findings"]]
        for way in ways:
            written = json.loads(self.run_command(*way, "trace.json.gz", "--json").out)
            done = self.run_command(*way, "trace.json.gz", "--json=out.json")
            self.assertEqual(done.out, b"", way)
            with open(self.path("out.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file), written, way)
            os.remove(self.path("out.json"))

    def test_the_old_form_of_json_works_with_a_notice(self):
        for way in (["analyze", "--only", "kernels"], ["diff", "trace.json.gz"]):
            quiet = self.run_ok(*way, "--json", "-", "trace.json.gz")
            self.assertEqual(quiet.err, b"")
            for _ in range(2): # a new file, and an earlier result
                done = self.run_ok(*way, "--json", "old.json", "trace.json.gz")
                self.assertIn(b"'--json=old.json'", done.err)
                with open(self.path("old.json"), "rb") as file:
                    self.assertEqual(file.read(), quiet.out)
            os.remove(self.path("old.json"))

    def test_a_trace_after_json_is_read(self):
        for text in ("[]", '{"traceEvents": []}', '{"displayTimeUnit": "ms", "traceEvents": []}', "{}"):
            with open(self.path("t.json"), "w", encoding="utf-8") as file:
                file.write(text)
            for words in (["analyze", "--json", "t.json", "trace.json.gz"], ["diff", "--json", "t.json", "trace.json.gz"]):
                self.run_command(*words)
                with open(self.path("t.json"), encoding="utf-8") as file:
                    self.assertEqual(file.read(), text, words)

    def test_old_names_work_with_a_notice(self):
        for words, old, now in ((["table", "--row-limit", "3"], "--row-limit", "--top"),
                                (["analyze", "--row-limit=3"], "--row-limit", "--top"),
                                (["verify", "--max", "1"], "--max", "--evidence"),
                                (["slice", "--kind", "cpu_op", "-o", "a.json"], "--kind", "--kinds"),
                                (["export", "--csv", "rows.txt", "--jsonl=l.txt", "-q"], "export", "convert")):
            done = self.run_command(*words, "trace.json.gz")
            self.assertIn(done.returncode, (0, 1), done.err)
            self.assertRegex(done.err.decode(), f"'.*{old}.*' is now '.*{now}")
            if old != "export": # which now writes Parquet
                self.assertNotIn(old + " ", self.run_command(words[0], "--help").out.decode())
        self.assertTrue(glob.glob(self.path("rows.txt")) and glob.glob(self.path("l.txt")))

    def test_a_library_in_place_of_a_verb_is_checked(self):
        with open(self.path("acme.so"), "w", encoding="utf-8"):
            pass
        os.chmod(self.path("acme.so"), 0o755)
        for words in ((), ("plugin",)):
            done = self.run_command(*words, "acme.so")
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"ckineto plugin check acme.so\n", done.err)

    def test_unknown_names_get_suggestions(self):
        for words, meant in ((["analyze", "--only", "kernel"], "kernels"), (["analyze", "--only", "critical_path_operatrs"], "critical_path_operators"),
                             (["analyze", "--gate", "input.dataloader"], "input.data_loader"),
                             (["analyze", "--findings", "--only", "dataloader"], "input.data_loader"),
                             (["verify", "--rule", "order.unsrted"], "order.unsorted"),
                             (["table", "--sort-by", "cpu_time_totl"], "cpu_time_total"),
                             (["convert", "--to", "perfeto", "-o", "x"], "perfetto"),
                             (["slice", "--kinds", "kernle", "-o", "x.json"], "kernel"),
                             (["anlyze"], "analyze"), (["query"], "dur_ns")):
            more = ["SELECT dur_n FROM activities"] if words == ["query"] else []
            done = self.run_command(*words, "trace.json.gz", *more)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(f"did you mean '{meant}'", done.err.decode(), words)

    def test_a_report_without_a_name_gets_one(self):
        os.mkdir(self.path("run"))
        shutil.copy(TRACE, self.path("run/rank0.json.gz"))
        for given, page in (("trace.json.gz", "trace.html"), ("run/", "run.html"), ("run/rank0.json.gz", "rank0.html")):
            for _ in range(2): # a page of ckineto is replaced
                self.assertIn(page.encode(), self.run_ok("report", given).err)
                self.assertGreater(os.path.getsize(self.path(page)), 10000)
        for text in ("mine", "<!doctype html>\n<title>my notes about ckineto</title>"):
            with open(self.path("trace.html"), "w", encoding="utf-8") as file:
                file.write(text)
            self.assertIn(b"trace.html exists", self.run_ok("report", "trace.json.gz", status=2).err)


if __name__ == "__main__":
    main()
