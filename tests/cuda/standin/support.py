"""What the tests with the stand-in share: running programs under it."""
import os
import subprocess
import sys
import tempfile

STANDIN = os.environ["STANDIN"]
SCRATCH = os.environ.get("SCRATCH")

faults = []


def check(good, words):
    if not good:
        faults.append(words)
        print("FAULT", words, flush=True)
    return good


def finish(name):
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)


def major_of(which):
    """12 or 13: which program goes with a stand-in."""
    return "13" if "13" in which else "12"


def client(which="own12"):
    return os.path.join(STANDIN, "standin-client" + major_of(which))


def environment(which="own12", script=None, log=None, **more):
    """Ours, with the stand-in `which` (None: no CUDA at all)."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CKINETO", "KINETO", "CUDA_INJECTION", "NVTX_")) or k == "CKINETO_CPU"}
    # The recorder is preloaded in front of the sanitizer's library.
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    if which:
        env["LD_LIBRARY_PATH"] = os.path.join(STANDIN, which)
    if script:
        env["CKINETO_STANDIN"] = script
    if log:
        env["CKINETO_STANDIN_LOG"] = log
    env.update(more)
    return env


def run(command, env, timeout=120):
    if any(word.startswith("fork") for word in command[1:]):
        # A child that was forked while threads run may wait for ever for the locks of the leak sanitizer.
        env = {**env, "ASAN_OPTIONS": env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=timeout)


def temporary():
    return tempfile.TemporaryDirectory(prefix="ckineto-cuda-", dir=SCRATCH)


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def calls_of(log):
    """(function, detail, code) of each call that reached the stand-in."""
    if not os.path.exists(log):
        return []
    with open(log, encoding="utf-8") as file:
        return [(w[1], int(w[2]), int(w[3])) for w in map(str.split, file)]
