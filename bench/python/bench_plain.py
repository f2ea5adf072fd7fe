"""Benchmark of `ckineto record --python`: CPU time that it adds to a call and its return in a whole program.

    CKINETO=build/release/bin/ckineto python3 bench/python/bench_plain.py [PYTHON...]

The program calls a recursive function 832,040 times and measures its own CPU time. Each mode runs in turn, many
times; the least time of each counts. `filtered` is --python-only with a package that the program does not have.
"""
import argparse
import os
import subprocess
import sys
import tempfile

CALLS = 832040
PROGRAM = """
import time
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(20)
begun = time.process_time()
fib(27)
print(time.process_time() - begun)
"""


def run(command, python):
    out = subprocess.run(command + [python, "-c", PROGRAM], stdout=subprocess.PIPE, check=True).stdout
    return float(out) / CALLS * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("pythons", nargs="*", default=[sys.executable])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = [os.environ.get("CKINETO", "ckineto"), "record", "-q", "--cpu", "off", "-o",
                  os.path.join(folder, "trace.json")]
        modes = {"nothing": [], "--python": record + ["--python", "--"],
                 "filtered": record + ["--python-only", "no_such_package", "--"]}
        print("%-50s %10s %14s %14s" % ("ns of a call and return", "nothing", "--python adds", "filtered adds"))
        for python in given.pythons:
            least = {}
            for _ in range(given.repeats):
                for name, command in modes.items():
                    least[name] = min(least.get(name, 1e9), run(command, python))
            print("%-50s %10.1f %14.1f %14.1f" % (python, least["nothing"], least["--python"] - least["nothing"],
                                                  least["filtered"] - least["nothing"]), flush=True)


if __name__ == "__main__":
    main()
