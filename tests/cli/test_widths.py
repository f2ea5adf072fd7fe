"""Lines of all verbs, and of their errors, fit the width that COLUMNS states. Not here: tables in the form of PyTorch's
profiler, help, and words that are longer than a line, such as paths."""

import os

from command import CommandTest, main
from test_goldens import AS_TORCH, COMMANDS, DATA, TRACES

import shutil

WIDTHS = (60, 80, 100, 140)
MISTAKES = (
    "nope", "nope.json", "--nope", "analyze", "analyze training.json.gz --only nope", "analyze --what-if op:*=0.5 --all training.json.gz",
    "analyze --execution-trace x --findings training.json.gz",
    "scrub training.json.gz -o x.html", "scrub training.json.gz", "slice training.json.gz -o x.foo",
    "slice training.json.gz --steps 99 -o x.json", "slice training.json.gz --kinds nope -o x.json",
    "convert training.json.gz -o x.foo", "convert training.json.gz --to nope -o x", "report --text -o x training.json.gz",
    "query training.json.gz nope", "query training.json.gz", "diff training.json.gz", "verify nope.json", "info nope.json",
    "repair nope.json", "recover nope", "view nope.json", "table nope.json", "trigger --pid 1 --wait --duration-ms 5",
    "trigger --pid 999999999 --wait --duration-ms 5", "trigger", "record", "record --nope true", "record --pid 1 --memory",
    "record --policy nope -- true", "record --kinds nope -- true", "plugin nope", "plugin check nope.so", "plugin list nope.so",
    "ps --nope", "daemon --nope", "bench", "mcp --nope", "top", "doctor nope")


class Widths(CommandTest):
    def setUp(self):
        super().setUp()
        for name, source in TRACES.items():
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            shutil.copy(os.path.join(DATA, source), self.path(name))
        os.mkdir(self.path("empty"))
        with open(self.path("cut/rank1.json"), "w", encoding="utf-8") as file:
            file.write("no trace")

    def check(self, command, width):
        done = self.run_command(*command.split(), env={**os.environ, "COLUMNS": str(width), "LC_ALL": "C.UTF-8"})
        lines = (done.out + b"\n" + done.err).decode().splitlines()
        # what is wrong with a file is one line, for grep
        lines = [line for line in lines if not line.startswith("ckineto: cut/")]
        # commands to copy stay on one line
        wide = [line for line in lines if len(line) > width and not line.startswith("next: ") and len(max(line.split(), key=len)) < width - 10]
        with self.subTest(command=command, width=width):
            self.assertEqual(wide, [])

    def test_what_verbs_print(self):
        for name, command in COMMANDS.items():
            if command.split()[0] in AS_TORCH or name == "old_name" or "help" in name:
                continue
            for width in WIDTHS:
                self.check(command, width)

    def test_mistakes(self):
        for command in MISTAKES:
            for width in WIDTHS:
                self.check(command, width)


if __name__ == "__main__":
    main()
