"""The source "cpu" next to perf: both see the same functions in real programs, and the same states of threads."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND, TARGET, SOURCE = (os.environ[n] for n in ("CKINETO", "CPU_TARGET", "CKINETO_SOURCE"))
HZ = 499
LEAST_SHARE, MAX_DIFFERENCE = 0.03, 0.02
MIN_ROUNDS, MAX_ROUNDS = 2, 16
STATES = ("running", "waiting for a CPU", "blocked")

PYTHON = """
import json, re, sys
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
for _ in range(3):
    fib(25)
    d = {str(i): [i, i * 2, "x" * (i % 50)] for i in range(60000)}
    json.loads(json.dumps(d))
    words = [str(i * 7919 % 1000003) for i in range(400000)]
    words.sort()
    re.findall(r"[0-9]+7\\b", " ".join(words))
"""

PERL = r"""
my (%h, @w);
for my $r (1 .. 3) {
    for my $i (1 .. 300000) { my $k = ($i * 7919) % 1000003; $h{$k} += $i; push @w, "k$k" if $i % 3 == 0; }
    @w = sort @w;
    my $t = join ' ', @w;
    my $n = 0;
    while ($t =~ /k(\d+)7\b/g) { $n += $1; }
}
"""


def need(reason, condition):
    if not condition:
        print(f"skipped: {reason}")
        sys.exit(77)


def run_tool(*command, **options):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=600,
                       env={k: v for k, v in os.environ.items() if k != "CKINETO_CPU"}, **options)
    assert r.returncode == 0, (command, r.returncode, r.stdout[-1000:], r.stderr[-2000:])
    return r.stdout


def write_words(path, lines):
    """Text that neither compresses to nothing nor is in order, the same each time."""
    x = 12345
    with open(path, "w") as f:
        for _ in range(lines):
            x = (x * 6364136223846793005 + 1442695040888963407) & (2 ** 64 - 1)
            f.write(f"{x >> 40:x} {(x >> 33) % 1000} value={(x >> 20) % 97}\n")


def name_module(module):
    """Code without names: stripped, or a table for jumps into libraries, whose entries only perf names."""
    return f"{module}: no name"


class Sampled:
    """What one tool says about all runs of a program: samples by function, and the CPU time it had."""

    def __init__(self):
        self.functions, self.samples, self.cpu_ns = {}, 0, 0

    def add(self, name, count):
        self.functions[name] = self.functions.get(name, 0) + count
        self.samples += count

    def share(self, name):
        return self.functions.get(name, 0) / self.samples


class ComparePerf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.words = cls.path("words")
        write_words(cls.words, 1800000)
        for name, text in (("p.py", PYTHON), ("p.pl", PERL)):
            with open(cls.path(name), "w") as f:
                f.write(text)
        with open(cls.words) as f, open(cls.path("few"), "w") as to:
            to.write(f.read(2 << 20))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    # ---- samples ----

    def sample_with_ckineto(self, program, sums):
        trace, cpu = self.path("trace.json"), self.path("cpu")
        run_tool(COMMAND, "record", "-q", "--no-torch", "--cpu", HZ, "-o", trace, "--", TARGET, "times", cpu, *program,
                 cwd=self.folder.name)
        per_sample = 1e9 / HZ
        for f in json.loads(run_tool(COMMAND, "info", "--json", trace))["sampled_functions"]:
            name, _, offset = f["name"].partition("+0x")
            self.assertNotIn("@", name)
            if f["self_cpu_ns"]:
                sums.add(name_module(name) if offset else name, round(f["self_cpu_ns"] / per_sample))
        with open(cpu) as f:
            sums.cpu_ns += int(f.read())

    def sample_with_perf(self, program, sums):
        data, cpu = self.path("perf.data"), self.path("cpu")
        run_tool("perf", "record", "-q", "-F", HZ, "--call-graph", "dwarf", "-e", "cpu-clock", "-o", data, "--",
                 TARGET, "times", cpu, *program, cwd=self.folder.name)
        report = run_tool("perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none", "--no-inline",
                          "--fields", "sample,dso,sym", "--sort", "dso,sym", "-t", "|")
        for line in report.splitlines():
            fields = [f.strip() for f in line.split("|")]
            if line.startswith("#") or len(fields) != 3:
                continue
            level, name = fields[2][:3], fields[2][4:]
            if level == "[k]" and name.startswith("0x"):
                name = "[kernel]"
            elif name.startswith("0x") or name.endswith("@plt"):
                name = name_module(fields[1])
            sums.add(name.split("@")[0], int(fields[0]))
        with open(cpu) as f:
            sums.cpu_ns += int(f.read())

    @staticmethod
    def enough(ours, perfs):
        """Three standard errors of the difference of the largest shares are less than the difference allowed."""
        share = max(max(t.functions.values()) / t.samples for t in (ours, perfs))
        n = min(ours.samples, perfs.samples)
        return 3 * (2 * share * (1 - share) / n) ** 0.5 < MAX_DIFFERENCE

    def compare(self, label, program):
        if not shutil.which(program[0]):
            self.skipTest(f"{program[0]} is not installed")
        ours, perfs = Sampled(), Sampled()
        for round_ in range(MAX_ROUNDS):
            tools = ((self.sample_with_ckineto, ours), (self.sample_with_perf, perfs))
            for sample, sums in tools[::-1] if round_ % 2 else tools:
                sample(program, sums)
            if round_ + 1 >= MIN_ROUNDS and self.enough(ours, perfs):
                break
        self.show(label, round_ + 1, ours, perfs)
        for tool, sums in (("ckineto", ours), ("perf", perfs)):
            due = sums.cpu_ns / 1e9 * HZ
            self.assertAlmostEqual(sums.samples / due, 1, delta=0.1, msg=f"{label}: samples of {tool}")
        for name in self.top(ours, perfs):
            a, b = ours.share(name), perfs.share(name)
            if max(a, b) >= LEAST_SHARE:
                self.assertAlmostEqual(a, b, delta=MAX_DIFFERENCE, msg=f"{label}: {name}")

    @staticmethod
    def top(ours, perfs):
        names = set()
        for sums in (ours, perfs):
            names |= set(sorted(sums.functions, key=lambda n: -sums.functions[n])[:10])
        return sorted(names, key=lambda n: -max(ours.share(n), perfs.share(n)))

    def show(self, label, rounds, ours, perfs):
        print(f"\n{label}: {rounds} runs with each")
        for tool, sums in (("ckineto", ours), ("perf", perfs)):
            due = sums.cpu_ns / 1e9 * HZ
            print(f"  {tool:8} CPU time {sums.cpu_ns / 1e9:7.2f} s, {sums.samples:6} samples, "
                  f"{sums.samples / due:6.1%} of {due:.0f}")
        for name in self.top(ours, perfs):
            a, b = ours.share(name), perfs.share(name)
            if max(a, b) >= LEAST_SHARE:
                print(f"  {name[:48]:48} {a:6.1%} {b:6.1%} {100 * (a - b):+5.1f}")
        sys.stdout.flush()

    def test_python(self):
        self.compare("python3", (sys.executable, self.path("p.py")))

    def test_perl(self):
        self.compare("perl", ("perl", self.path("p.pl")))

    def test_a_compressor(self):
        tool = "xz" if shutil.which("xz") else "gzip"
        self.compare(tool, (tool, "-k", "-f", "-6" if tool == "xz" else "-9", self.path("few")))

    def test_sort(self):
        self.compare("sort", ("sort", "--parallel=2", "-o", self.path("sorted"), self.words))

    def test_a_compiler(self):
        files = sorted(glob.glob(os.path.join(SOURCE, "src/cpu/*.c")) +
                       glob.glob(os.path.join(SOURCE, "src/trace/from_recording/build*.c")))
        self.compare("gcc", ("gcc", "-std=c11", "-D_GNU_SOURCE", "-O2", "-g1", "-c", f"-I{SOURCE}/src",
                             f"-I{SOURCE}/include", *files))

    # ---- states ----

    def states_by_ckineto(self, trace):
        with open(trace) as f:
            events = json.load(f)["traceEvents"]
        states = {}
        for e in events:
            if e.get("cat") == "thread_state":
                of = states.setdefault(int(e["tid"].split()[1]), dict.fromkeys(STATES, 0.0))
                of[e["name"]] += e["dur"] / 1e6
        return states

    def states_by_tracepoints(self, data):
        """Threads' states from what the scheduler reports: one that loses its CPU in state R waits for another."""
        states, last = {}, {}
        text = run_tool("perf", "script", "-i", data, "--ns", "-F", "time,event,trace")
        for line in text.splitlines():
            time, event, rest = (line.split(maxsplit=2) + ["", ""])[:3]
            if "sched_wakeup_new" in event:
                last[int(rest.split("pid=")[1].split()[0])] = (float(time.rstrip(":")), "waiting for a CPU")
            if "sched_switch" not in event:
                continue
            now = float(time.rstrip(":"))
            before, after = int(rest.split("prev_pid=")[1].split()[0]), int(rest.split("next_pid=")[1].split()[0])
            left = rest.split("prev_state=")[1].split()[0]
            for tid, next_state in ((before, "waiting for a CPU" if left[0] == "R" else "blocked"), (after, "running")):
                if tid in last:
                    since, state = last[tid]
                    states.setdefault(tid, dict.fromkeys(STATES, 0.0))[state] += now - since
                last[tid] = (now, next_state)
        return states

    def assert_near(self, a, b, whole, what):
        """Within 2 % of the number; of those that are next to nothing, within 2 permille of the thread's life."""
        self.assertAlmostEqual(a, b, delta=max(0.02 * b, 0.002 * whole), msg=what)

    def test_states_of_threads(self):
        trace, data = self.path("states.json"), self.path("sched.data")
        record = (COMMAND, "record", "-q", "--cpu", HZ, "-o", trace, "--", TARGET, "states", 3000)
        traced = True
        try:
            printed = run_tool("perf", "sched", "record", "-q", "-o", data, "--", *record)
        except AssertionError:
            traced = False
            printed = run_tool(*record)
        ours = self.states_by_ckineto(trace)
        perfs = self.states_by_tracepoints(data) if traced else {}
        print(f"\nstates [ms]{'' if traced else ' (tracepoints are not available)'}")
        print(f"  {'':12}" + "".join(f"{s:>30}" for s in STATES) + f"{'CPU clock':>12}{'schedstat wait':>16}")
        lines = [f.split() for f in printed.splitlines() if len(f.split()) == 4 and f.split()[0].isdigit()]
        self.assertEqual(len(lines), 8)
        for tid, name, run_ns, wait_ns in lines:
            a, b = ours[int(tid)], perfs.get(int(tid))
            print(f"  {name:12}" + "".join(
                f"{1e3 * a[s]:15.2f}{1e3 * b[s] if b else 0:15.2f}" for s in STATES)
                + f"{int(run_ns) / 1e6:12.2f}{int(wait_ns) / 1e6:16.2f}")
        for tid, name, run_ns, wait_ns in lines:
            a, b = ours[int(tid)], perfs.get(int(tid))
            whole = sum(a.values())
            self.assert_near(a["running"], int(run_ns) / 1e9, whole, f"{name}: running, and its own CPU clock")
            for state in STATES if b else ():
                self.assert_near(a[state], b[state], whole, f"{name}: {state}, and the scheduler's tracepoints")
            if name.startswith("computes"):  # it is never woken, so that all of its waiting is known
                self.assert_near(a["waiting for a CPU"], int(wait_ns) / 1e9, whole, f"{name}: waiting, and schedstat")


if __name__ == "__main__":
    need("perf is not installed", shutil.which("perf"))
    need("perf may not be used here", subprocess.run(
        ["perf", "record", "-q", "-e", "cpu-clock", "-o", os.devnull, "--", "true"], capture_output=True).returncode == 0)
    unittest.main(verbosity=2)
