"""A tool cannot tell our ranges from those of NVIDIA's NVTX header and of Intel's ITT client.

usage: test_emission_peers.py PROGRAM NVTX-TOOL ITT-TOOL PEERS SOURCE SCRATCH
  PEERS is what fetch_emission.sh filled. A folder with ittnotify.h, named by ITT_INCLUDE, is compared
  with our declarations as well.
"""
import os
import subprocess
import sys
import tempfile

PROGRAM, NVTX_TOOL, ITT_TOOL, PEERS, SOURCE, SCRATCH = sys.argv[1:]
NVTX_INCLUDE = os.path.join(PEERS, "nvtx", "nvidia", "nvtx", "include")
ITT_PACKAGE = os.path.join(PEERS, "itt")
ITT_INCLUDE = os.environ.get("ITT_INCLUDE", "")
ITT_CLIENT = """
from ittapi import native
domain, name = native.Domain("ckineto"), native.StringHandle("after")
native.task_begin(domain, name)
native.task_end(domain)
"""


def calls(command, variable, library, tool, folder, more=None):
    """The calls that the tool received, without their source."""
    log = os.path.join(folder, "log")
    if os.path.exists(log):
        os.remove(log)
    environment = dict(os.environ, EMIT_LOG=log, EMIT_TOOL=tool, **{variable: library}, **(more or {}))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr}")
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8") as file:
        return [line.rstrip("\n").split(" ", 2)[2] for line in file]


def compiled(source, include, folder):
    program = os.path.join(folder, "peer")
    done = subprocess.run(["cc", "-std=gnu11", "-I", include, "-I", os.path.join(SOURCE, "src"),
                           os.path.join(SOURCE, "tests", "peers", source), "-o", program, "-ldl",
                           "-pthread"], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        print(done.stderr)
    return program if done.returncode == 0 else None


def nvtx(folder):
    faults = 0
    client = compiled("nvtx_client.c", NVTX_INCLUDE, folder)
    if not client:
        return 1
    for tool in ("", "attributes", "domain"):
        theirs = calls([client, tool], "NVTX_INJECTION64_PATH", NVTX_TOOL, tool, folder)
        ours = calls([PROGRAM, "nvtx", "open"], "NVTX_INJECTION64_PATH", NVTX_TOOL, tool, folder)
        print(f"NVTX {tool or 'text'}: {len(theirs)} calls")
        if theirs != ours or len(theirs) < 5:
            print(" NVIDIA's:", *theirs, " ours:", *ours, sep="\n  ")
            faults += 1
    return faults


def itt(folder):
    theirs = calls([sys.executable, "-c", ITT_CLIENT], "INTEL_LIBITTNOTIFY64", ITT_TOOL, "", folder,
                   {"PYTHONPATH": ITT_PACKAGE})
    ours = calls([PROGRAM, "itt", "open"], "INTEL_LIBITTNOTIFY64", ITT_TOOL, "", folder)
    version = [words.split()[:2] for words in (theirs[:1] + ours[:1])]
    print(f"ITT: {len(theirs)} calls, {' '.join(theirs[:1])}")
    # The number of the build is Intel's own; a moment is ours.
    if len(theirs) != 3 or theirs[1:] != ours[1:3] or version[0] != version[1]:
        print(" Intel's:", *theirs, " ours:", *ours, sep="\n  ")
        return 1
    return 0


def can_import():
    return subprocess.run([sys.executable, "-c", "import ittapi"], capture_output=True, timeout=60,
                          env=dict(os.environ, PYTHONPATH=ITT_PACKAGE)).returncode == 0


def main():
    ran, faults = 0, 0
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        if os.path.isdir(NVTX_INCLUDE):
            faults += nvtx(folder)
            ran += 1
        else:
            print("NVIDIA's header is not here: make test-peers fetches it")
        if can_import():
            faults += itt(folder)
            ran += 1
        else:
            print("Intel's client is not here, or not for this Python: make test-peers fetches it")
        if ITT_INCLUDE:
            faults += compiled("itt_layout.c", ITT_INCLUDE, folder) is None
            ran += 1
        else:
            print("ITT_INCLUDE names no folder with ittnotify.h: declarations are not compared")
    return 77 if not ran else 1 if faults else 0


sys.exit(main())
