"""ckineto counts the FLOPs of PyTorch's operators as torch.utils.flop_counter does.

test_flops.py COMMAND FOLDER [PYTHON]: FOLDER holds what torch_flops.py made; with PYTHON, one that has
PyTorch, it is made anew in a folder of its own.
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def compare(command, folder):
    with open(os.path.join(folder, "flops.json"), encoding="utf-8") as file:
        theirs = json.load(file)
    done = subprocess.run([command, "table", "--flops", "--json", "--sort-by", "none", "--top", "0",
                           os.path.join(folder, "trace.json.gz")], stdout=subprocess.PIPE, check=True)
    ours = {row["name"]: row["flops"] for row in json.loads(done.stdout)["rows"]}
    faults = [f"{op}: flop_counter says {n}, ckineto {ours.get(op)}" for op, n in theirs.items()
              if ours.get(op) != n]
    print("\n".join(faults) or f"{len(theirs)} operators have the same FLOPs")
    return bool(faults) or len(theirs) < 8


def main(command, folder, python=None):
    if python is None:
        return compare(command, folder)
    if not os.path.exists(python):
        print("skipped: PyTorch is not there (make test-peers fetches it)")
        return 77
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([python, "-B", os.path.join(HERE, "torch_flops.py"), made], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
        return compare(command, made)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
