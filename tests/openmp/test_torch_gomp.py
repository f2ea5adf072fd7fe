"""PyTorch's wheel brings a libgomp of its own: its regions are those that another library counts.

usage: test_torch_gomp.py COMMAND FOLDER PYTHON     PYTHON: one that has torch"""
import json
import os
import subprocess
import sys
import tempfile

COMMAND, HERE, PYTHON = sys.argv[1:4]
PROGRAM = """
import torch
torch.set_num_threads(2)
x = torch.linspace(0, 1, 1 << 20)
for _ in range(20):
    x = torch.sin(x) + 1
print(f"{x.double().sum().item():.6f}", torch.randn(300, 300).mm(torch.ones(300, 300)).shape)
"""


def main():
    have = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True) if os.path.exists(PYTHON) else None
    if not have or have.returncode:
        print("skipped: no Python with torch; fetch_torch.sh gets one")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        counter, counts, trace = (os.path.join(folder, n) for n in ("count.so", "counts", "trace.json"))
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", os.path.join(HERE, "count_calls.c"), "-o", counter], check=True)
        environment = dict(os.environ, OMP_NUM_THREADS="2")
        plain = subprocess.run([PYTHON, "-c", PROGRAM], env=dict(environment, LD_PRELOAD=counter, COUNT_CALLS=counts),
                               capture_output=True, text=True)
        regions, threads, barriers = map(int, open(counts).read().split())
        ran = subprocess.run([COMMAND, "record", "--quiet", "--openmp", "--no-torch", "-o", trace, "--", PYTHON, "-c",
                              PROGRAM], env=environment, capture_output=True, text=True)
        rows = [e["name"] for e in json.load(open(trace))["traceEvents"] if e.get("cat") == "openmp"]
    found = [sum(n.startswith(name) for n in rows) for name in ("omp parallel", "omp implicit task", "omp barrier")]
    print(f"regions, threads, barriers: recorded {found}, counted {[regions, threads, barriers]}")
    same = ran.returncode == 0 and ran.stdout == plain.stdout and found == [regions, threads, barriers] and regions > 20
    if not same:
        print(ran.stdout, plain.stdout, ran.stderr[-500:])
    return 0 if same else 1


sys.exit(main())
