"""What shells complete: written from the tables that the verbs themselves read."""

import re
import shutil
import subprocess
import unittest

from command import CommandTest, main

PLACES = (("record",), ("info",), ("analyze",), ("diff",), ("convert",), ("table",), ("query",), ("mcp",),
          ("plugin", "list"), ("plugin", "check"))


def has(shell):
    return unittest.skipUnless(shutil.which(shell), f"{shell} is not installed")


class Completion(CommandTest):
    def script(self, shell):
        done = self.run_command("completion", shell)
        self.assertEqual((done.returncode, done.err), (0, b""))
        with open(self.path(f"c.{shell}"), "wb") as f:
            f.write(done.out)
        return done.out.decode()

    def options_of(self, place):
        text = self.run_command(*place, "--help").out.decode().partition("Options:")[2]
        return re.findall(r"^ {2}(?:-\w, | {4})(--[a-z-]+)", text, re.M)

    def bash(self, *words):
        """What bash would offer for the last word."""
        self.script("bash")
        quoted = " ".join("'" + w + "'" for w in words)
        done = subprocess.run(
            ["bash", "--norc", "-c", f"source c.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
             '_ckineto; printf "%s\\n" "${COMPREPLY[@]}"'], cwd=self.path(""), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [w for w in done.stdout.splitlines() if w]

    @has("bash")
    def test_bash_knows_what_to_complete(self):
        self.script("bash")
        done = subprocess.run(["bash", "--norc", "-c", "source c.bash; complete -p ckineto"],
                              cwd=self.path(""), capture_output=True, text=True)
        self.assertEqual(done.stdout, "complete -F _ckineto ckineto\n")

    @has("bash")
    def test_bash_completes_verbs_and_parts(self):
        self.assertEqual(self.bash("ckineto", "rec"), ["record", "recover"])
        self.assertEqual(self.bash("ckineto", "help", "ana"), ["analyze"])
        self.assertEqual(self.bash("ckineto", "plugin", ""), ["list", "check"])
        self.assertNotIn("completion", self.bash("ckineto", ""))

    @has("bash")
    def test_bash_completes_every_option(self):
        for place in PLACES:
            offered = self.bash("ckineto", *place, "--")
            self.assertTrue(offered)
            self.assertEqual(sorted(offered), sorted(self.options_of(place)), place)

    @has("bash")
    def test_bash_completes_values(self):
        with open(self.path("some trace.json"), "w"):
            pass
        self.assertEqual(self.bash("ckineto", "analyze", "t.json", "--definitions", ""), ["exact", "hta"])
        self.assertEqual(self.bash("ckineto", "analyze", "--definitions", "=", "h"), ["hta"])
        self.assertIn("folded", self.bash("ckineto", "convert", "t.json", "-t", "fo"))
        self.assertEqual(self.bash("ckineto", "analyze", "so"), ["some trace.json"])
        self.assertEqual(self.bash("ckineto", "analyze", "--top", "so"), [])
        self.assertIn("bash", self.bash("ckineto", "record", "-q", "--", "bas"))
        self.assertEqual(self.bash("ckineto", "record", "--on-demand", "--qu"), ["--quiet"])

    @has("bash")
    def test_bash_completes_names(self):
        for words, meant in ((("analyze", "--only", "critical_path_op"), "critical_path_operators"),
                             (("analyze", "--only", "kernels,gpu_su"), "kernels,gpu_summary"),
                             (("analyze", "--gate", "input.data"), "input.data_loader"), (("verify", "--rule", "order.un"), "order.unsorted"),
                             (("table", "--sort-by", "self_cpu_t"), "self_cpu_time_total"), (("analyze", "--color", "al"), "always"),
                             (("slice", "--kinds", "cpu_op,gpu_memc"), "cpu_op,gpu_memcpy"), (("record", "--kinds", "user_ann"), "user_annotation"),
                             (("query", "--format", "jsonl"), "jsonl")):
            self.assertEqual(self.bash("ckineto", *words), [meant], words)

    @has("bash")
    def test_old_names_are_not_offered(self):
        self.assertNotIn("--row-limit", self.bash("ckineto", "table", "--"))

    @has("zsh")
    def test_zsh_reads_it(self):
        text = self.script("zsh")
        self.assertEqual(text.splitlines()[0], "#compdef ckineto")
        done = subprocess.run(["zsh", "-f", "-c", "autoload -Uz compinit; compinit -u -D; source ./c.zsh; "
                               "print $_comps[ckineto]; whence -w _ckineto"],
                              cwd=self.path(""), capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("_ckineto\n_ckineto: function\n", ""))
        for place in PLACES:
            for option in self.options_of(place):
                self.assertIn(option, text)

    @has("fish")
    def test_fish_completes(self):
        self.script("fish")
        def fish(line):
            done = subprocess.run(["fish", "--no-config", "-c", f"source c.fish; complete -C '{line}'"],
                                  cwd=self.path(""), capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return [word.split("\t")[0] for word in done.stdout.splitlines()]
        self.assertEqual(fish("ckineto reco"), ["record", "recover"])
        self.assertEqual(fish("ckineto analyze --definitions "), ["exact", "hta"])
        self.assertEqual(fish("ckineto plugin l"), ["list"])
        for place in PLACES:
            self.assertLessEqual(set(self.options_of(place)), set(fish("ckineto " + " ".join(place) + " --")))

    def test_it_explains_itself(self):
        for words in (("completion", "--help"), ("help", "completion")):
            done = self.run_command(*words)
            self.assertEqual((done.returncode, done.err), (0, b""))
            self.assertIn(b"bash|zsh|fish", done.out)

    def test_other_shells_are_not_known(self):
        for arguments in ((), ("tcsh",), ("bash", "zsh")):
            done = self.run_command("completion", *arguments)
            self.assertEqual((done.returncode, done.out), (2, b""))
            self.assertIn(b"bash|zsh|fish", done.err)


if __name__ == "__main__":
    main()
