"""Times an empty parallel region with and without recording, alternately: the fastest batch of each run, medians.

usage: measure_cost.py COMMAND FOLDER [ROUNDS]"""
import os
import statistics
import subprocess
import sys
import tempfile

COMMAND, HERE = sys.argv[1:3]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 7


def run(command, **environment):
    made = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return float(made.stdout.split()[0])


def main():
    with tempfile.TemporaryDirectory() as folder:
        for compiler in ("gcc", "clang"):
            program = os.path.join(folder, compiler)
            if subprocess.run([compiler, "-O2", "-fopenmp", os.path.join(HERE, "region_cost.c"), "-o", program],
                              capture_output=True).returncode:
                continue
            record = [COMMAND, "record", "--quiet", "-o", os.path.join(folder, "trace.json"), "--cpu", "off"]
            openmp = ["--openmp"] if compiler == "gcc" else []
            for threads in ("1", "2"):
                ways = {"plain": [program, threads],
                        "record without openmp": [*record, *openmp, "-a", "user_annotation", "--", program, threads],
                        "record": [*record, *openmp, "--", program, threads]}
                times = {way: [] for way in ways}
                for _ in range(ROUNDS):
                    for way, command in ways.items():
                        times[way].append(run(command, OMP_WAIT_POLICY="active", OMP_DYNAMIC="false"))
                print(f"{compiler}, {threads} threads: " +
                      ", ".join(f"{way} {statistics.median(t):.0f} ns" for way, t in times.items()))


main()
