"""With --definitions hta, kernels belong to the collective with their external id, as in the TensorBoard plug-in.

Two ranks with two steps of two collectives each; there are no calls that launch the kernels of NCCL. The values are
what torch-tb-profiler 0.4.3 answered for these two files."""

import csv
import json
import os
import subprocess
import sys
import tempfile

CKINETO = os.environ["CKINETO"]
EXPECTED = {
    "distributed_overlap": [["0", "0", 120, 80, 197, 503], ["0", "1", 120, 80, 197, 503],
                            ["1", "0", 140, 60, 160, 540], ["1", "1", 140, 60, 160, 540]],
    "distributed_wait": [["0", "0", 60, 217], ["0", "1", 60, 217], ["1", "0", 3, 217], ["1", "1", 3, 217]],
    "distributed_operators": [["0", "nccl:all_reduce", 4, 24000, 6000, 554, 138.5, 434, 108.5],
                              ["1", "nccl:all_reduce", 4, 24000, 6000, 440, 110, 434, 108.5]],
}


def row(category, name, start, duration, thread, **args):
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "pid": thread, "tid": thread,
            "args": args}


def kernel(name, start, duration, stream, external, correlation):
    return row("kernel", name, start, duration, 0,
               **{"External id": external, "correlation": correlation, "device": 0, "stream": stream})


def rows_of_step(rank, step):
    begin, thread, first = 1000 + step * 1000, 10 + rank, step * 10 + 1
    yield row("cpu_op", f"ProfilerStep#{step}", begin, 900, thread, **{"External id": 100 + step})
    yield row("cpu_op", "aten::mm", begin + 10, 20, thread, **{"External id": first})
    yield row("cuda_runtime", "cudaLaunchKernel", begin + 12, 5, thread,
              **{"External id": first, "correlation": first})
    yield kernel("gemm", begin + 20, 200, 7, first, first)
    for part in range(2):
        external = first + 1 + part
        yield row("cpu_op", "nccl:all_reduce", begin + 100 + part * 300, 10, thread,
                  **{"External id": external, "Input Dims": [[1000 * (part + 1)]], "Input type": ["float"]})
        yield kernel("ncclKernel_AllReduce", begin + 150 + part * 300 + rank * 20, 100 - rank * 30 + part * 7, 20,
                     external, 50 + external)
        if part:
            yield kernel("ncclKernel_AllReduce", begin + 600, 50 + rank * 3, 20, external, 60 + external)


def write_rank(directory, rank):
    path = os.path.join(directory, f"rank{rank}.json")
    rows = [r for step in range(2) for r in rows_of_step(rank, step)]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2, "backend": "nccl"},
                   "traceEvents": rows}, file)
    return path


def value(text):
    try:
        return float(text)
    except ValueError:
        return text


def main():
    different = 0
    with tempfile.TemporaryDirectory() as directory:
        traces = [write_rank(directory, rank) for rank in range(2)]
        subprocess.run([CKINETO, "analyze", *traces, "--definitions", "hta", "--only", ",".join(EXPECTED),
                        "--csv", directory], stdout=subprocess.DEVNULL, check=True)
        for table, expected in EXPECTED.items():
            with open(os.path.join(directory, f"{table}.csv"), encoding="utf-8", newline="") as file:
                found = [[value(cell) for cell in line] for line in csv.reader(file)][1:]
            wanted = [[value(str(cell)) for cell in line] for line in expected]
            if sorted(map(str, found)) != sorted(map(str, wanted)):
                print(f"{table}: {found}, expected {wanted}")
                different += 1
    return different


if __name__ == "__main__":
    sys.exit(main())
