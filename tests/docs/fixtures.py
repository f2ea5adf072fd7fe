"""The files that the commands of the documents speak of: trace.json, run/, before.json, ./program …"""

import gzip
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "findings"))
from builder import PID, Program, Trace  # noqa: E402

FRAMES = "train.py(12): forward;train.py(40): main;"


def training(rank=None, world=1, steps=12):
    """A training with steps, kernels, collectives, memory, shapes and stacks."""
    p = Program(Trace(rank=rank, world=world) if rank is not None else Trace())
    held = 1 << 20
    for _ in p.steps(steps):
        with p.op("aten::linear", 10, dims=[[64, 64], [64, 64]], stack=FRAMES):
            with p.op("aten::mm", 20, dims=[[64, 64], [64, 64]], stack=FRAMES):
                p.trace.memory(p.now, 4096, allocated=held + 4096, reserved=8 << 20, address=0x1000)
                p.kernel("ampere_sgemm_128x64_nn", 400)
        with p.op("nccl:all_reduce", 20, dims=[[64, 64]]):
            p.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 80, stream=20,
                     **{"Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096,
                        "Group size": world, "dtype": "Float"})
        p.trace.memory(p.now, -4096, allocated=held, reserved=8 << 20, address=0x1000)
    return p.trace


def compress(path, to):
    with open(path, "rb") as source, gzip.GzipFile(to, "wb", mtime=0) as target:
        shutil.copyfileobj(source, target)


def copies(folder):
    """One trace under all names that the documents use."""
    training().save(f"{folder}/trace.json")
    for name in ("before", "after", "main", "branch", "part", "t"):
        shutil.copy(f"{folder}/trace.json", f"{folder}/{name}.json")
        compress(f"{folder}/trace.json", f"{folder}/{name}.json.gz")
    for name in ("A", "B"):
        shutil.copy(f"{folder}/trace.json", f"{folder}/{name}")
    compress(f"{folder}/trace.json", f"{folder}/trace.json.gz")
    with open(f"{folder}/trace.json", "rb") as whole, open(f"{folder}/broken.json", "wb") as broken:
        text = whole.read()
        broken.write(text[:len(text) * 2 // 3])
    compress(f"{folder}/broken.json", f"{folder}/broken.json.gz")


def ranks(folder):
    for directory in ("run", "traces", "shared", "out", "facts"):
        os.mkdir(f"{folder}/{directory}")
    for rank in range(4):
        training(rank, 4).save(f"{folder}/rank{rank}.json")
        compress(f"{folder}/rank{rank}.json", f"{folder}/rank{rank}.json.gz")
        for directory in ("run", "traces"):
            shutil.copy(f"{folder}/rank{rank}.json.gz", f"{folder}/{directory}")


def executable(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def programs(folder, build, plugin):
    """build: where programs and libraries are; plugin: a vendor's."""
    for name in ("program", "serve"):
        os.symlink(f"{build}/bin/example_self_record", f"{folder}/{name}")
    os.symlink(f"{build}/bin/example_sim_training", f"{folder}/example_sim_training")
    os.symlink(f"{build}/lib", f"{folder}/lib")
    os.mkdir(f"{folder}/bin")
    os.mkdir(f"{folder}/build")
    for name in ("ckineto", "transformer"):
        os.symlink(f"{build}/bin/{name}", f"{folder}/bin/{name}")
    executable(f"{folder}/bin/flamegraph.pl", "#!/bin/sh\nexec cat\n")
    for name in ("libvendor.so", "libmy-device.so", "build/libvendor.so", "build/libmy-device.so", "build/acme-kineto.so"):
        shutil.copy(plugin, f"{folder}/{name}")
    with open(f"{folder}/train.py", "w", encoding="utf-8") as file:
        file.write("print(sum(range(1000)))\n")


def make(folder, build, plugin):
    copies(folder)
    ranks(folder)
    programs(folder, build, plugin)
    with open(f"{folder}/salt", "wb") as file:
        file.write(bytes(range(16)))
    with open(f"{folder}/questions.sql", "w", encoding="utf-8") as file:
        file.write("SELECT count(*) FROM activities;\n")
    assert PID  # the process of all these traces
