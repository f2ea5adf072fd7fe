"""Colours of all verbs: without its sequences a text with colours is the text without colours, and a pipe gets none."""

import os
import re

from command import CommandTest, main, on_terminal
from test_goldens import COMMANDS, copy_traces

SEQUENCE = re.compile(r"\x1b\[[0-9]*m")
PLUGINS = os.environ.get("CKINETO_TEST_PLUGINS", "")
BARS = "report --text training.json.gz" # its bars are letters where there are no colours
ALWAYS_THE_SAME = [
    *(c for c in COMMANDS.values() if c != BARS), "diff before.json.gz after.json.gz --fail-on step>1% --fail-on step<90%", "diff --all before.json.gz after.json.gz",
    "diff before.json.gz training.json.gz", "analyze -v threads.json.gz", "analyze --findings threads.json.gz",
    "analyze --findings -v before.json.gz", "verify --list", f"plugin list {PLUGINS}/good.so {PLUGINS}/refuse.so {PLUGINS}/none.so",
    "plugin --help", "plugin list --help", "ps"]
# Times differ from run to run.
MEASURED = ["bench -n 2 -w 0 --ab true false -i", "doctor", f"plugin check {PLUGINS}/good.so"]


def plain(text):
    return SEQUENCE.sub("", text)


class Colors(CommandTest):
    def setUp(self):
        super().setUp()
        copy_traces(self.directory)

    def both(self, words):
        """Standard output and error as text."""
        done = self.run_command(*words, env={**os.environ, "COLUMNS": "100"})
        return done.out.decode(), done.err.decode()

    def has_option(self, verb):
        return "--color" in self.run_command(verb, "--help").out.decode()

    def test_a_pipe_gets_none_and_a_terminal_the_same_text(self):
        for command in ALWAYS_THE_SAME:
            words = command.split()
            with self.subTest(command=command):
                out, err = self.both(words)
                self.assertNotIn("\x1b", out + err)
                shown = on_terminal(100, *words, cwd=self.directory, NO_COLOR="")[1]
                self.assertEqual(plain(shown), out)
                self.assertEqual(on_terminal(100, *words, cwd=self.directory, NO_COLOR="1")[1], out)

    def test_the_option_decides(self):
        coloured = 0
        for command in ALWAYS_THE_SAME:
            verb, *words = command.split()
            if verb.startswith("-") or not self.has_option(verb):
                continue
            with self.subTest(command=command):
                never, _ = self.both([verb, "--color=never", *words])
                always, _ = self.both([verb, "--color=always", *words])
                self.assertEqual(plain(always), never)
                coloured += always != never
                self.assertEqual(on_terminal(100, verb, "--color=never", *words, cwd=self.directory)[1], never)
        self.assertGreater(coloured, 25)

    def test_verbs_with_text_for_people_have_the_option(self):
        for words in (["analyze"], ["report"], ["diff"], ["verify"], ["info"], ["doctor"], ["record"], ["bench"], ["table"],
                      ["ps"], ["plugin", "list"], ["plugin", "check"]):
            text = self.run_command(*words, "--color=always", "--help").out.decode()
            self.assertIn("--color auto|always|never", text)
            self.assertRegex(text, r"^\x1b\[1mUsage:\x1b\[0m ckineto")
            self.assertIn("\x1b[1mOptions:\x1b[0m\n", text)
            done = self.run_command(*words, "--color=blue")
            self.assertIn(b"--color is auto, always or never, not 'blue'", done.err)

    def test_a_comparison_has_the_width_of_the_terminal(self):
        for width in (60, 80, 140):
            for words in (["diff"], ["diff", "--all"]):
                text = on_terminal(width, *words, "before.json.gz", "after.json.gz", cwd=self.directory, NO_COLOR="")[1]
                lines = [len(line) for line in plain(text).splitlines() if not line.startswith("next: ")]
                self.assertLessEqual(max(lines), width, words)
                if words[-1] == "--all":
                    self.assertGreater(max(lines), 0.9 * width)
                piped = self.run_command(*words, "before.json.gz", "after.json.gz", env={**os.environ, "COLUMNS": str(width)})
                self.assertEqual(plain(text), piped.out.decode())

    def test_measurements_have_colours(self):
        for command in MEASURED:
            words = command.split()
            shown = on_terminal(100, *words, cwd=self.directory, NO_COLOR="")[1]
            self.assertRegex(shown, SEQUENCE, command)
            self.assertNotIn("\x1b", plain(shown), command)
            self.assertNotIn("\x1b", "".join(self.both(words)), command)

    def test_the_summary_of_a_recording_goes_to_the_standard_error(self):
        program = ["-b", "8", "-o", "t.json", "--", "sh", "-c", "echo hello"]
        done = self.run_command("record", "--color=always", *program)
        self.assertEqual(done.out, b"hello\n")
        err = done.err.decode()
        self.assertTrue(err.startswith("\x1b[1mckineto:\x1b[0m "), err)
        self.assertNotIn("\x1b", plain(err))
        # The standard output is a terminal, the standard error is not.
        self.assertEqual(on_terminal(100, "record", *program, cwd=self.directory, NO_COLOR="")[1], "hello\n")
        self.assertNotIn("\x1b", self.both(["record", *program])[1])

    def test_meaning_of_colours(self):
        def shown(*words):
            return self.run_command(*words, "--color=always").out.decode()
        self.assertIn(": \x1b[32msound\x1b[0m", shown("verify", "training.json.gz"))
        gates = shown("diff", "before.json.gz", "after.json.gz", "--fail-on", "step>90000%", "--no-noise")
        self.assertIn("\x1b[1mGates\x1b[0m\n  \x1b[32mpassed    \x1b[0m", gates)
        self.assertIn("\x1b[1mName", shown("table", "training.json.gz").replace("  ", "").replace("\x1b[1m ", "\x1b[1m"))
        self.assertIn("\x1b[31mFAILED", self.run_command("plugin", "check", "--color=always", f"{PLUGINS}/crash.so").out.decode())


main()
