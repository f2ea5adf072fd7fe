"""What the tests of the OpenCL source share: running a client, and reading its output."""
import json
import os
import subprocess
import sys
import tempfile

CLIENT = os.environ["CLIENT"]
COUNT_LAYER = os.environ["COUNT_LAYER"]
LAYER = os.environ["LAYER"]
FAKE_HOST = os.environ["FAKE_HOST"]
CKINETO = os.environ["CKINETO"]
SCRATCH = os.environ["SCRATCH"]

# A folder of fetch_opencl.sh: the loader and the driver that are used in place of the system's.
FETCHED = sys.argv[1] if len(sys.argv) > 1 else None

# Of <ckineto/plugin.h>.
MEMCPY, MEMSET, KERNEL = 4, 5, 6
MONOTONIC_RAW = 2

faults = []


def check(good, words):
    if not good:
        faults.append(words)
        print("FAULT", words, flush=True)
    return good


def finish(name):
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)


def environment(layers=(), **more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CKINETO", "KINETO", "OPENCL_LAYERS", "FAKE_HOST")) or k == "CKINETO_CPU"}
    # The driver's cache: its own, so that a run does not depend on the user's.
    env["POCL_CACHE_DIR"] = os.path.join(SCRATCH, "pocl-cache")
    os.makedirs(env["POCL_CACHE_DIR"], exist_ok=True)
    if FETCHED:
        env["OCL_ICD_VENDORS"] = os.path.join(FETCHED, "icd")
        libraries = [more.pop("LD_LIBRARY_PATH", None), os.path.join(FETCHED, "lib")]
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    if layers:
        env["OPENCL_LAYERS"] = ":".join(layers)
    env.update(more)
    return env


def run(command, env):
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=240)


def need_device():
    """Skips the test where no device answers; also warms the driver's cache."""
    if FETCHED and not os.path.exists(os.path.join(FETCHED, "icd")):
        print(f"skipped: {FETCHED} was not fetched")
        sys.exit(77)
    result = run([CLIENT, "all"], environment())
    if result.returncode == 77:
        print("skipped: no OpenCL device")
        sys.exit(77)
    if result.returncode != 0:
        print(result.stderr.decode(errors="replace"))
        sys.exit("the client fails on its own")


def temporary():
    return tempfile.TemporaryDirectory(dir=SCRATCH)


def counted(path):
    """The witness's counts: {"kernels": n, …}."""
    with open(path) as file:
        return {k: int(v) for k, v in (line.split() for line in file)}


def run_fake_host(arguments, window="yes"):
    """Run a client under the layer with the scripted host.
    Returns the result, the host's lines, the witness's counts (None if it wrote none)."""
    with temporary() as folder:
        out, counts = os.path.join(folder, "host"), os.path.join(folder, "counts")
        env = environment([LAYER, COUNT_LAYER], FAKE_HOST_OUT=out, COUNT_LAYER_OUT=counts,
                          FAKE_HOST_WINDOW=window, LD_LIBRARY_PATH=FAKE_HOST)
        result = run([CLIENT, *arguments], env)
        with open(out) as file:
            lines = [json.loads(line) for line in file]
        return result, lines, counted(counts) if os.path.exists(counts) else None
