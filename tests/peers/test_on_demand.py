"""PyTorch as it is on PyPI, started with KINETO_USE_DAEMON=1, is traced by `ckineto trigger` with nothing else
installed: four training processes, and one linked with this library next to them, by duration and by iteration.

usage: test_on_demand.py COMMAND TARGET PYTHON
  TARGET is control_target of tests/control; PYTHON is one that has PyTorch, without it this is skipped.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

PROCESSES = 4
DURATION_MS = 400
ITERATIONS = 3
TRAIN = """
import os, sys, time
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
step = 0
while os.getppid() == int(sys.argv[1]):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    step += 1
    if step == 3:
        print("ready", flush=True)
    time.sleep(0.01)
"""
OPTIMIZER = "Optimizer.step#SGD.step"


def start(folder, target, python):
    """All processes, each past its first steps."""
    environment = dict(os.environ, KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=folder, CUDA_VISIBLE_DEVICES="",
                       KINETO_LOG_LEVEL="5", XDG_RUNTIME_DIR=folder)
    commands = [[python, "-c", TRAIN, str(os.getpid())]] * PROCESSES + [[target, "--step-ms", "10"]]
    made = [subprocess.Popen(c, env=environment, stdout=subprocess.PIPE, text=True) for c in commands]
    for process in made:
        line = process.stdout.readline()
        assert line.startswith("ready"), f"{process.args[0]} does not begin: {line!r}"
    return made


def trigger(command, folder, processes, name, *options):
    """The files that were made, by pid."""
    pids = [word for p in processes for word in ("--pid", str(p.pid))]
    out = os.path.join(folder, name + ".json")
    run = subprocess.run([command, "trigger", *pids, *options, "--socket-dir", folder, "--wait=120", "--output", out],
                         capture_output=True, text=True, timeout=200,
                         env=dict(os.environ, XDG_RUNTIME_DIR=folder))
    assert run.returncode == 0, f"trigger ended with {run.returncode}:\n{run.stdout}{run.stderr}"
    files = {p.pid: os.path.join(folder, f"{name}_{p.pid}.json") for p in processes}
    listed = [line.split("\t")[0] for line in run.stdout.splitlines()]
    assert sorted(listed) == sorted(files.values()), f"listed {listed}"
    assert sorted(glob.glob(os.path.join(folder, name + "*"))) == sorted(files.values()), "other files"
    return files


def spans(path, prefix):
    """Whole events of this name, as (start, end) in us."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return sorted((e["ts"], e["ts"] + e["dur"]) for e in events
                  if e.get("ph") == "X" and e.get("name", "").startswith(prefix))


def check_sound(command, path):
    run = subprocess.run([command, "verify", path], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, f"{path} is not sound:\n{run.stdout}{run.stderr}"


def check_duration(files, own):
    """Steps follow each other through all of the window: none is missing inside."""
    for pid, path in files.items():
        steps = spans(path, "ProfilerStep#" if pid == own else OPTIMIZER)
        assert len(steps) >= 5, f"{path}: {len(steps)} steps in {DURATION_MS} ms"
        length_ms = (steps[-1][1] - steps[0][0]) / 1000
        assert DURATION_MS * 0.5 <= length_ms <= DURATION_MS * 1.5, f"{path}: {length_ms} ms"
        print(f"  {os.path.basename(path)}: {len(steps)} steps in {length_ms:.0f} ms")


def check_iterations(files, own):
    for pid, path in files.items():
        count = len(spans(path, "ProfilerStep#" if pid == own else OPTIMIZER))
        assert count == ITERATIONS, f"{path}: {count} steps, {ITERATIONS} were asked for"
    print(f"  each of {len(files)} traces has {ITERATIONS} steps")


def main():
    command, target, python = sys.argv[1:]
    if not os.path.exists(python):
        print("skipped: PyTorch is not here (make test-peers fetches it)")
        return 77
    with tempfile.TemporaryDirectory(prefix="ckineto-", dir="/tmp") as folder:
        processes = start(folder, target, python)
        own = processes[-1].pid
        try:
            files = trigger(command, folder, processes, "time", "--duration-ms", str(DURATION_MS))
            for path in files.values():
                check_sound(command, path)
            check_duration(files, own)
            files = trigger(command, folder, processes, "steps", "--iterations", str(ITERATIONS))
            for path in files.values():
                check_sound(command, path)
            check_iterations(files, own)
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return 0


sys.exit(main())
