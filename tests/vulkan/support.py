"""What the tests of the Vulkan source share: running a client, and reading its output."""
import json
import os
import subprocess
import sys
import tempfile

CLIENT = os.environ.get("CLIENT", "")
COUNT_LAYER = os.environ["COUNT_LAYER"]
LAYER = os.environ["LAYER"]
CKINETO = os.environ["CKINETO"]
SCRATCH = os.environ["SCRATCH"]

COUNT_NAME = "VK_LAYER_TEST_count"

faults = []


def check(good, words):
    if not good:
        faults.append(words)
        print("FAULT", words, flush=True)
    return good


def finish(name):
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)


def write_manifest(folder):
    """Writes the manifest of the counting layer."""
    manifest = {"file_format_version": "1.2.0",
                "layer": {"name": COUNT_NAME, "type": "GLOBAL", "library_path": COUNT_LAYER,
                          "api_version": "1.3.239", "implementation_version": "1", "description": "counts"}}
    with open(os.path.join(folder, "count.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file)


def environment(folder=None, counts=None, fault=None):
    """A clean environment; with a folder the counting layer is in it, which writes to `counts`."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CKINETO", "KINETO", "VK_", "COUNT_LAYER")) or k == "CKINETO_CPU"}
    if folder:
        write_manifest(folder)
        # The witness sees the program's calls, or, to break the driver, also ours.
        # Loaders order layers by their folders, or by their names in the list.
        above = [(os.path.dirname(LAYER), "VK_LAYER_CKINETO_record")] if fault else []
        folders, layers = zip(*above, (folder, COUNT_NAME))
        env.update(VK_ADD_LAYER_PATH=":".join(folders), VK_INSTANCE_LAYERS=":".join(layers))
    if counts:
        env["COUNT_LAYER_OUT"] = counts
    if fault:
        env["COUNT_LAYER_FAULT"] = fault
    return env


def run(command, env):
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=280)


def need_device():
    """Skips the test where no device answers."""
    result = run([CLIENT, "once", "1"], environment())
    if result.returncode == 77:
        print("skipped: no Vulkan device")
        sys.exit(77)
    if result.returncode != 0:
        print(result.stderr.decode(errors="replace"))
        sys.exit("the client fails on its own")


def temporary():
    return tempfile.TemporaryDirectory(dir=SCRATCH)


def counted(path):
    """The witness's counts: {"kernels": n, …}; None: it wrote none."""
    if not os.path.exists(path):
        return None
    with open(path, encoding="ascii") as file:
        return {k: int(v) for k, v in (line.split() for line in file)}


def record(command, fault=None, options=()):
    """(result, trace, counts) of a recorded command, with the counting layer."""
    with temporary() as folder:
        out, counts = os.path.join(folder, "out.json"), os.path.join(folder, "counts")
        result = run([CKINETO, "record", "-q", "-o", out, *options, "--", *command],
                     environment(folder, counts, fault))
        with open(out, encoding="utf-8") as file:
            return result, json.load(file), counted(counts)


def events(trace, category):
    return [e for e in trace["traceEvents"] if e.get("cat") == category]


def kernels(trace):
    """Dispatches: those of one activity without timestamps are in its args."""
    return sum(e["args"].get("kernels", 1) for e in events(trace, "kernel"))


def losses(trace):
    return [line for line in trace["ckineto"]["ledger"] if line["loss"]]
