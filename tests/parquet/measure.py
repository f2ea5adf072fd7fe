"""How fast activities are written as Parquet, and how large the file is, next to pyarrow with the same table.

usage: measure.py [ACTIVITIES]      with CKINETO; needs pyarrow. Prints a table in Markdown.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
COMMAND = os.environ.get("CKINETO", "ckineto")


def write_trace(path):
    names = [f"void gemm_kernel<{i}, cutlass::bfloat16_t>(Params)" for i in range(200)]
    with open(path, "w") as file:
        file.write('{"traceEvents":[\n')
        for i in range(ROWS // 2):
            at = 10 ** 15 + i * 20 + i % 7 / 10
            launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1 + i % 3, "ts": at, "dur": 3.25,
                      "args": {"External id": i % 5000 + 1, "cbid": 211, "correlation": i + 1}}
            kernel = {"ph": "X", "cat": "kernel", "name": names[i * 7919 % 200], "pid": 0, "tid": 7, "ts": at + 9, "dur": 5 + i * 31 % 997 / 100,
                      "args": {"External id": i % 5000 + 1, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": i + 1,
                               "registers per thread": 168, "shared memory": 213248, "blocks per SM": 1.5 + i % 90 / 10, "grid": [i % 132, 1, 1],
                               "block": [384, 1, 1], "est. achieved occupancy %": i % 100}}
            file.write(json.dumps(launch) + ",\n" + json.dumps(kernel) + (",\n" if i + 1 < ROWS // 2 else "\n"))
        file.write("]}\n")


def measure(*command):
    """Seconds, seconds of CPU, and the peak of memory in MB."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, command
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main():
    import pyarrow
    import pyarrow.parquet as pq
    pyarrow.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="ckineto-parquet-") as folder:
        trace = os.path.join(folder, "rank0.json")
        write_trace(trace)
        fleet = os.path.join(folder, "fleet")
        _, read_cpu, _ = measure(COMMAND, "info", trace)
        _, cpu, peak_mb = measure(COMMAND, "export", "--parquet", fleet, "--tables", "activities", trace)
        _, _, small_mb = measure(COMMAND, "export", "--mem", "100M", "--parquet", fleet, "--tables", "activities", trace)
        path = os.path.join(fleet, "activities", "run=rank0", "rank=0", "part.parquet")
        table = pq.read_table(path, partitioning=None)
        ours = os.path.getsize(path)
        copy = os.path.join(folder, "copy.parquet")
        begin = time.process_time()
        pq.write_table(table, copy, compression="zstd", compression_level=1, row_group_size=131072, write_page_index=True)
        theirs_cpu = time.process_time() - begin
        theirs = os.path.getsize(copy)
        assert pq.read_table(copy).equals(table)
        plain_mb = table.nbytes / 1e6
    write_cpu = cpu - read_cpu
    print("| | ckineto | pyarrow " + pyarrow.__version__ + " |\n|---|---|---|")
    print(f"| CPU time | {write_cpu:.2f} s, of args as JSON text and Parquet (the whole command, with reading, {cpu:.2f} s) | {theirs_cpu:.2f} s, of a table in memory |")
    print(f"| rows a second | {ROWS / write_cpu:,.0f} | {ROWS / theirs_cpu:,.0f} |")
    print(f"| MB of the table in Arrow's layout ({plain_mb:.0f}) a second | {plain_mb / write_cpu:.0f} | {plain_mb / theirs_cpu:.0f} |")
    print(f"| size | {ours / 1e6:.1f} MB | {theirs / 1e6:.1f} MB |")
    print(f"| peak of memory | {peak_mb:.0f} MB with the mapped text of the trace; {small_mb:.0f} MB with --mem 100M | – |")


main()
