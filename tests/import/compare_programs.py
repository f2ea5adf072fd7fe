"""Five real programs recorded by perf: the functions of the file as ckineto reads it, and as perf report says, of 1 % or
more. Copied stacks, so that the same samples are unwound by both: the share of each function with its callees as well."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

COMMAND = os.environ["CKINETO"]
ALIASES = {"cfree": "free", "__libc_malloc": "malloc", "__libc_free": "free", "__libc_calloc": "calloc"}  # of one address
LEAST_SHARE, MAX_DIFFERENCE = 0.01, 0.02

PYTHON = """
import json
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(25)
d = {str(i): [i, i * 2, "x" * (i % 50)] for i in range(60000)}
json.loads(json.dumps(d))
sorted(str(i * 7919 % 1000003) for i in range(300000))
"""
PERL = "my (%h, @w); for my $i (1 .. 300000) { $h{($i * 7919) % 1000003} += $i; push @w, \"k$i\" if $i % 3 == 0; } @w = sort @w;"


def name_function(name):
    """Without parameters, which perf does not print, and versions."""
    name = name.split("(")[0] if not name.startswith("(") else name
    name = name.split("@")[0]
    return ALIASES.get(name, name)


def run(*command, **options):
    r = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=900, **options)
    assert r.returncode == 0, (command, r.stderr[-2000:])
    return r.stdout


def read_perf(data):
    """Self and total shares by function."""
    result = []
    for children, field in (("--no-children", "overhead"), ("--children", "overhead_children")):
        report = run("perf", "report", "-i", data, "--stdio", children, "-g", "none", "--no-inline", "--fields",
                     field + ",sym", "--sort", "sym", "-t", "|")
        shares = {}
        for line in report.splitlines():
            fields = [f.strip() for f in line.split("|")]
            if line.startswith("#") or len(fields) < 2 or not fields[0].endswith("%"):
                continue
            level, name = fields[-1][:3], fields[-1][4:]
            if name.endswith("@plt"):  # a jump, which has a name in perf only
                continue
            name = "[kernel]" if level == "[k]" else name_function(name)
            shares[name] = shares.get(name, 0) + float(fields[0][:-1]) / 100
        result.append(shares)
    return result


def read_ours(data):
    functions = json.loads(run(COMMAND, "info", "--json", data))["sampled_functions"]
    total = sum(f["self_cpu_ns"] for f in functions)
    shares = [{}, {}]
    for f in functions:
        for of, key in zip(shares, ("self_cpu_ns", "total_cpu_ns")):
            name = name_function(f["name"])
            of[name] = of.get(name, 0) + f[key] / total
    return shares


def compare(name, data):
    perf_self, perf_total = read_perf(data)
    ours_self, ours_total = read_ours(data)
    worst, more, functions = 0.0, 0.0, 0
    for theirs, ours in ((perf_self, ours_self), (perf_total, ours_total)):
        for function, share in theirs.items():
            named = not function.startswith("0x") and function not in ("[kernel]", "[unknown]")
            if share < LEAST_SHARE or not named or theirs is perf_total and function not in ours:
                continue
            functions += 1
            difference = ours.get(function, 0) - share
            if theirs is perf_total and difference > 0:  # perf finds fewer callers where its stacks end early
                more = max(more, difference)
                continue
            worst = max(worst, abs(difference))
            if abs(difference) > MAX_DIFFERENCE:
                print(f"  {function}: {ours.get(function, 0):.2%}, perf {share:.2%}")
    print(f"{name:8} {functions:4} shares of {LEAST_SHARE:.0%} or more, largest difference {worst:.2%}; callers that only ckineto finds {more:.2%}")
    return worst <= MAX_DIFFERENCE


def main():
    if not shutil.which("perf"):
        print("skipped: perf is not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        words = os.path.join(folder, "words")
        with open(words, "w") as f:
            x = 12345
            for _ in range(150000):
                x = (x * 6364136223846793005 + 1442695040888963407) & (2 ** 64 - 1)
                f.write(f"{x >> 40:x} {(x >> 33) % 1000} value={(x >> 20) % 97}\n")
        big = os.path.join(folder, "big.c")
        with open(big, "w") as f:
            f.write("".join(f"int f{i}(int a, int b) {{ for (int i = 0; i < b; i++) a = a * {i} + (a >> 3) % (b + 1); return a; }}\n"
                            for i in range(1500)))
        programs = {"gcc": ("gcc", "-O2", "-c", "-o", "/dev/null", big), "xz": ("xz", "-kc3", words),
                    "perl": ("perl", "-e", PERL), "python3": ("/usr/bin/python3", "-c", PYTHON),
                    "sort": ("sort", "-o", "/dev/null", words)}
        fine = True
        for name, program in programs.items():
            data = os.path.join(folder, name + ".data")
            r = subprocess.run(["perf", "record", "-q", "-F", "499", "-e", "cpu-clock", "--call-graph", "dwarf", "-o", data, "--",
                                *program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if r.returncode:
                print(f"{name}: skipped, cannot be recorded here")
                continue
            fine &= compare(name, data)
        return 0 if fine else 1


sys.exit(main())
