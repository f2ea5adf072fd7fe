"""What each verb prints by default, at 100 columns, for small traces: compared with the files in goldens/.

    CKINETO=… CKINETO_TARGET=… python3 test_goldens.py --write    writes them anew; look at the difference

Verbs whose output depends on the machine, or that run until they are ended, are here with their help."""

import os
import re
import shutil
import sys

from command import CommandTest, main

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "../data")
GOLDENS = os.path.join(HERE, "goldens")
WRITE = "--write" in sys.argv
WIDTH = 100
AS_TORCH = ("table",)  # whose table is PyTorch's, however wide

TRACES = {"training.json.gz": "torch-2.5.1/training.json.gz", "before.json.gz": "torch-2.5.1/steps-1.json.gz",
          "after.json.gz": "torch-2.5.1/steps-2.json.gz", "threads.json.gz": "watched/work.json.gz",
          "odd.json.gz": "torch-2.5.1/escapes.json.gz", "run/rank0.json.gz": "torch-2.5.1/gloo-rank0.json.gz",
          "run/rank1.json.gz": "torch-2.5.1/gloo-rank1.json.gz", "cut/rank0.json.gz": "torch-2.5.1/gloo-rank0.json.gz"}
COMMANDS = {
    "help": "--help", "analyze": "analyze training.json.gz", "analyze_threads": "analyze threads.json.gz",
    "analyze_ranks": "analyze run", "analyze_unreadable": "analyze cut", "analyze_findings": "analyze --findings training.json.gz",
    "analyze_all": "analyze --all before.json.gz", "analyze_gate": "analyze --gate all training.json.gz",
    "analyze_what_if": "analyze --what-if op:*=0.5 training.json.gz", "info": "info training.json.gz", "info_ranks": "info run",
    "info_threads": "info threads.json.gz", "verify": "verify training.json.gz", "verify_notes": "verify -v odd.json.gz",
    "verify_ranks": "verify run", "verify_unreadable": "verify cut", "report": "report training.json.gz",
    "report_text": "report --text training.json.gz", "diff": "diff before.json.gz after.json.gz",
    "table": "table training.json.gz --top 5", "convert": "convert training.json.gz -o a.pftrace -o csv:rows.txt",
    "slice": "slice training.json.gz --kinds cpu_op -o part.json", "scrub": "scrub training.json.gz --salt x -o shared.json",
    "repair": "repair odd.json.gz", "facts": "facts --force run -o run.facts", "reduce_nothing": "reduce run", "plugin_list": "plugin list --dir empty",
    "mistake_verb": "anlyze training.json.gz", "mistake_option": "analyze --findigs training.json.gz",
    "mistake_table": "analyze --only kernal training.json.gz", "old_name": "table --row-limit 1 training.json.gz",
    **{f"help_{verb}": f"{verb} --help" for verb in (
        "record", "top", "doctor", "recover", "view", "query", "trigger", "ps", "daemon", "bench", "mcp", "facts", "reduce",
        "export", "history")}}


def without_noise(text):
    """Versions and bytes of compressed files differ between builds."""
    text = re.sub(r"ckineto \d+\.\d+\.\d+\S*", "ckineto VERSION", text)
    return re.sub(r"\d+(\.\d+)? (kB|MB|bytes)", "N bytes", text)


def copy_traces(directory):
    """TRACES, a file that is no trace, and an empty directory."""
    for name, source in TRACES.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.join(DATA, source), path)
    os.mkdir(os.path.join(directory, "empty"))
    with open(os.path.join(directory, "cut/rank1.json"), "w", encoding="utf-8") as file:
        file.write("no trace")


class Goldens(CommandTest):
    def setUp(self):
        super().setUp()
        copy_traces(self.directory)

    def run_golden(self, command):
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        return self.run_command(*command.split(), env={**environment, "TZ": "UTC", "LC_ALL": "C.UTF-8"})

    def answer(self, command):
        done = self.run_golden(command)
        parts = [f"$ ckineto {command}\n", done.out.decode(), done.err.decode(), f"exit status {done.returncode}\n"]
        return without_noise("".join(parts))

    def test_every_verb_prints_what_it_printed(self):
        for name, command in COMMANDS.items():
            path, text = os.path.join(GOLDENS, f"{name}.txt"), self.answer(command)
            if WRITE:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                continue
            with self.subTest(command=command), open(path, encoding="utf-8") as file:
                self.assertEqual(text, file.read(), "if the change is wanted: test_goldens.py --write")

    def test_lines_fit_the_page(self):
        """Messages on the standard error are one line each, for grep."""
        for name, command in COMMANDS.items():
            if command.split()[0] in AS_TORCH or name == "old_name":
                continue
            for line in self.run_golden(command).out.decode().splitlines():
                self.assertLessEqual(len(line), WIDTH, command)

    def test_every_verb_has_one(self):
        known = re.findall(r"^  ([a-z]+)  ", self.run_command("--help").out.decode(), re.M)
        self.assertLessEqual(set(known) - {"help"}, {name.removeprefix("help_").split("_")[0] for name in COMMANDS})

    def test_no_golden_is_left_over(self):
        self.assertEqual(sorted(os.listdir(GOLDENS)), sorted(f"{name}.txt" for name in COMMANDS))


if __name__ == "__main__":
    if WRITE:
        os.makedirs(GOLDENS, exist_ok=True)
        for old in os.listdir(GOLDENS):
            os.remove(os.path.join(GOLDENS, old))
        sys.argv.remove("--write")
    main()
