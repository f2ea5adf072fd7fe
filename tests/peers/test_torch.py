"""ckineto computes from a trace that torch.profiler wrote what torch.profiler itself says.

test_torch.py COMMAND ANSWERS [PYTHON]: ANSWERS holds NAME.json(.gz) and NAME.answers.json(.gz), as
torch_facts.py writes them; with PYTHON, one that has PyTorch, they are made anew in a folder of their
own. Compared are events() as a tree, key_averages() in all groupings, the text of tables line by line,
exported stacks and memory. docs/reference/summaries.md
says what differs, and why; `known` and `is_async` are where that is left out here.
"""

import collections
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def read(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return file.read().decode("utf-8")


def rounded_otherwise(a, b):
    """Two texts of numbers that differ by one in the last place."""
    form = re.compile(r"(-?\d+)\.(\d+)([a-zA-Z%]*)")
    left, right = form.fullmatch(a), form.fullmatch(b)
    if not (left and right) or left[3] != right[3] or len(left[2]) != len(right[2]):
        return False
    return abs(int(left[1] + left[2]) - int(right[1] + right[2])) == 1


class Comparison:
    def __init__(self, command, trace, answers):
        self.command, self.trace, self.theirs = command, trace, answers
        self.counts, self.faults = collections.Counter(), []
        # A function that ends on another thread than it began on: Chrome traces do not tell, and
        # PyTorch gives it no callees.
        self.is_async = any(event["is_async"] for event in answers["events"])

    def run(self, *arguments):
        done = subprocess.run([self.command, "table", self.trace, "--as-torch", *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise SystemExit("table %s: %s" % (" ".join(arguments), done.stderr.decode()))
        return done.stdout.decode("utf-8")

    def rows(self, *arguments):
        return json.loads(self.run("--json", "--sort-by", "none", *arguments))["rows"]

    def equal(self, what, ours, theirs):
        self.counts[re.split("[ (:]", what)[0]] += 1
        if ours != theirs:
            self.faults.append("%s\n      torch   %.400r\n      ckineto %.400r" % (what, theirs, ours))

    # ---- events() and key_averages()

    def compare_row(self, what, ours, theirs, shapes=False):
        keys = ["name", "count", "cpu_time_total_ns"]
        if "cpu_memory_usage" in ours:
            keys.append("cpu_memory_usage")
        if not self.is_async:
            keys += ["self_" + key for key in keys[2:]]
        if shapes:
            keys.append("input_shapes")
        if theirs["flops"]:  # of what PyTorch counts at all
            keys.append("flops")
        self.equal(what, {k: ours.get(k) for k in keys}, {k: theirs[k] for k in keys})

    def compare_events(self):
        ours = self.rows("--events", "--group-by-input-shape", "--group-by-stack", "10000")
        theirs = self.theirs["events"]
        self.equal("events number", len(ours), len(theirs))
        threads = {}
        for i, (a, b) in enumerate(zip(ours, theirs)):
            self.compare_row("event %d" % i, a, b, shapes=True)
            self.equal("event %d: times" % i, (a["start_ns"], a["end_ns"]), (b["start_ns"], b["end_ns"]))
            if self.is_async:
                continue
            self.equal("parent of event %d" % i, a["parent"], b["parent"])
            self.equal("stack of event %d" % i, a["stack"], b["stack"])
            self.equal("thread of event %d" % i, threads.setdefault(b["thread"], a["track"]), a["track"])

    def compare_averages(self):
        for name, arguments in [("plain", []), ("shapes", ["--group-by-input-shape"]),
                                ("stack3", ["--group-by-stack", "3"]),
                                ("overloads", ["--group-by-overload"])]:
            theirs = self.theirs["averages"].get(name)
            if theirs is None:
                continue
            ours = self.rows(*arguments)
            self.equal("averages by %s: number" % name, len(ours), len(theirs))
            for i, (a, b) in enumerate(zip(ours, theirs)):
                what = "average %d by %s" % (i, name)
                self.compare_row(what, a, b, shapes=name == "shapes")
                self.equal("%s: stack" % what, a.get("stack", []), b["stack"])
                self.equal("%s: overload" % what, a.get("overload", ""), b["overload"])

    # ---- tables

    def table(self, source, arguments):
        ours = {"shapes": ["--group-by-input-shape"], "stack3": ["--group-by-stack", "3"],
                "overloads": ["--group-by-overload"], "plain": [],
                "events": ["--events", "--group-by-input-shape", "--group-by-overload",
                           "--group-by-stack", "10000"]}[source][:]
        names = {"sort_by": "--sort-by", "max_src_column_width": "--source-width",
                 "max_name_column_width": "--name-width", "max_shapes_column_width": "--shapes-width",
                 "header": "--header", "time_unit": "--time-unit"}
        for key, value in arguments.items():
            if key == "top_level_events_only":
                ours.append("--top-level")
            elif key == "row_limit":
                ours += ["--top", str(max(value, 0))]
            else:
                ours += [names[key], "none" if value is None else value if isinstance(value, str)
                         else str(value)]
        return self.run(*ours)

    @staticmethod
    def same_line(ours, theirs):
        """PyTorch adds up fractions, ckineto whole nanoseconds: halves may be rounded otherwise."""
        words, their_words = (re.split("( +)", line) for line in (ours, theirs))
        return len(words) == len(their_words) and all(
            a == b or rounded_otherwise(a, b) for a, b in zip(words, their_words))

    def equal_line(self, what, ours, theirs):
        if ours != theirs and self.same_line(ours, theirs):
            self.counts["lines rounded otherwise"] += 1
        else:
            self.equal(what, ours, theirs)

    def put_ties_in_order(self, ours, theirs):
        """For the same reason two rows with the same time may change places."""
        for i in range(min(len(ours), len(theirs)) - 1):
            a, b = ours[i:i + 2]
            times = [re.findall(r"[0-9.]+[mu]?s\b", line) for line in (a, b)]
            tie = any(x == y for x, y in zip(*times))
            if tie and not self.same_line(a, theirs[i]) and self.same_line(a, theirs[i + 1]) \
                    and self.same_line(b, theirs[i]):
                self.counts["ties in the other order"] += 1
                ours[i:i + 2] = b, a

    @staticmethod
    def known(line):
        """What is left to compare where FLOPs are counted for more operators."""
        return re.sub(r" {2,}(--|[0-9.]+)  $", "", line)

    def compare_table(self, entry):
        what = "table(%s, %s)" % (entry["of"], entry["arguments"])
        theirs = entry["text"].splitlines()
        ours = self.table(entry["of"], entry["arguments"]).splitlines()
        if any("FLOPs" in line for line in theirs):
            header = [line for line in theirs if "FLOPs" in line]
            ours, theirs = ([self.known(line) for line in lines if "FLOPs" not in line]
                            for lines in (ours, theirs))
            self.equal("tables", len(header), 1)
        self.equal("%s: lines" % what, len(ours), len(theirs))
        self.put_ties_in_order(ours, theirs)
        for i, (a, b) in enumerate(zip(ours, theirs)):
            self.equal_line("line %d of %s" % (i, what), a, b)

    def compare_stacks(self):
        if not self.theirs["stacks"]:
            return
        self.equal("stacks", self.run("--stacks", "self_cpu_time_total").splitlines(),
                   self.theirs["stacks"].splitlines())

    def compare_memory(self):
        if "memory" not in self.theirs:
            return
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "memory.raw.json")
            self.run("--memory", "--device", "cpu", "-o", path)
            ours = [change[:3] for change in json.loads(read(path)) if change[1] in (2, 4)]
        self.equal("memory", sorted(ours), sorted(self.theirs["memory"]))

    def compare(self):
        self.compare_events()
        self.compare_averages()
        for entry in self.theirs["tables"]:
            if entry["text"] is not None and not self.is_async:
                self.compare_table(entry)
        self.compare_stacks()
        self.compare_memory()
        name = os.path.basename(self.trace)
        print("%s, of PyTorch %s: %s: %s" % (
            name, self.theirs["torch"],
            ", ".join("%d %s" % (n, what) for what, n in sorted(self.counts.items())),
            "%d DIFFERENT" % len(self.faults) if self.faults else "all equal"))
        for fault in self.faults[:12]:
            print("    " + fault)
        return not self.faults


def compare_all(command, folder):
    paths = sorted(glob.glob(os.path.join(folder, "*.answers.json*")))
    if not paths:
        print("no answers in %s" % folder)
        return False
    return all([Comparison(command, path.replace(".answers", ""), json.loads(read(path))).compare()
                for path in paths])


def main():
    command, folder = sys.argv[1:3]
    if len(sys.argv) == 3:
        return 0 if compare_all(command, folder) else 1
    if not os.path.exists(sys.argv[3]):
        print("skipped: PyTorch is not here (make test-peers fetches it)")
        return 77
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.argv[3], "-B", "-W", "ignore", os.path.join(HERE, "torch_facts.py"), work],
                       check=True, stderr=subprocess.DEVNULL, timeout=600, env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
        return 0 if compare_all(command, work) else 1


sys.exit(main())
