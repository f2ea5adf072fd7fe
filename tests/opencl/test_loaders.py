"""Loaders of several kinds, by a stand-in over a scripted driver: those that start the layer give the same
trace, and one that does not is a line of the ledger and of `doctor`. No device is needed."""
import json
import os
import subprocess

from support import CKINETO, LAYER, check, environment, finish, temporary

CLIENT = os.environ["LOADER_CLIENT"]
FOLDER = os.path.dirname(os.environ["LOADER"])
KERNELS = 40
NEVER = "a layer that was asked for and never started"
IGNORED = "an OpenCL library is loaded, and ckineto's layer is not"


def setting(mode):
    return environment(LD_LIBRARY_PATH=FOLDER, FAKE_LOADER=mode)


def record(mode, *arguments, keep_open=None):
    """(trace, what the command says) of a run of the client under this loader."""
    with temporary() as folder:
        out = os.path.join(folder, "out.json")
        program = subprocess.Popen([CKINETO, "record", "-o", out, "--", CLIENT, str(KERNELS), *arguments],
                                   env=setting(mode), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        if keep_open:
            try:
                program.wait(timeout=keep_open)
            except subprocess.TimeoutExpired:
                pass
        _, words = program.communicate()
        check(program.returncode == 0, f"{mode}: {words}")
        with open(out, encoding="utf-8") as file:
            return json.load(file), words.decode()


def ledger(trace):
    return trace["ckineto"]["ledger"]


for mode in ("", "old"):
    trace, words = record(mode)
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    check(len(kernels) == KERNELS, f"{mode}: {len(kernels)} kernels: {words}")
    check(not any(line["loss"] for line in ledger(trace)), f"{mode}: {ledger(trace)}")

# It opens the layer, finds it wanting, and closes it: the process is recorded, its OpenCL is not.
trace, words = record("next")
lines = [line for line in ledger(trace) if line["reason"] == NEVER]
check(len(lines) == 1 and lines[0]["loss"] and lines[0]["count"] == 1 and
      os.path.join(FOLDER, "libOpenCL.so.1") in lines[0]["detail"], f"next: {ledger(trace)}")
check("nothing was lost" not in words and NEVER in words, f"next: {words}")

# It opens no layer: that is seen from outside, in a process that lives until the recorder has looked.
for seconds in (1, 2, 4, 8, 16, 32):
    trace, words = record("deaf", "60", keep_open=seconds)
    lines = [line for line in ledger(trace) if line["reason"].startswith(IGNORED)]
    if lines:
        break
check(len(lines) == 1 and "loader_client" in lines[0]["detail"], f"deaf: {ledger(trace)}")
check(IGNORED in words, f"deaf: {words}")

for mode, verdict, text in (("", "ok", "it starts ckineto's layer"),
                            ("old", "ok", "it starts ckineto's layer"),
                            ("next", "broken", "it opens ckineto's layer and does not start it"),
                            ("deaf", "broken", "it does not read OPENCL_LAYERS")):
    answer = subprocess.run([CKINETO, "doctor", "--json"], env=setting(mode), stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    found = json.loads(answer.stdout)
    said = next(p for p in found["probes"] if p["name"] == "opencl")
    check(said["verdict"] == verdict and text in said["text"] and FOLDER in said["text"],
          f"doctor, {mode}: {said}")

finish("loaders")
