"""What the tests of the Intel source share: programs recorded under the stand-ins."""
import json
import os
import subprocess
import sys
import tempfile

STANDIN, CKINETO, PLUGIN = os.environ["STANDIN"], os.environ["CKINETO"], os.environ["PLUGIN"]
LIBRARIES = os.path.join(STANDIN, "lib")
VERSIONS = (10, 12, 17, 1002)
faults = []


def check(good, words):
    if not good:
        faults.append(words)
        print("FAULT", words, flush=True)
    return good


def finish(name):
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)


class Machine:
    """A folder with the files of a machine that has an Intel GPU."""

    def __init__(self, vendor="0x8086", node=True):
        self.folder = tempfile.TemporaryDirectory(prefix="ckineto-xpu-")
        root = self.root = self.folder.name
        os.makedirs(os.path.join(root, "sys/class/drm/renderD128/device"))
        os.makedirs(os.path.join(root, "dev/dri"))
        with open(os.path.join(root, "sys/class/drm/renderD128/device/vendor"), "w", encoding="utf-8") as file:
            file.write(vendor + "\n")
        self.node = os.path.join(root, "dev/dri/renderD128")
        if node:
            with open(self.node, "w", encoding="utf-8"):
                pass


MACHINE = Machine()


def environment(script="", **more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CKINETO", "KINETO")) or k == "CKINETO_CPU"}
    # The recorder is preloaded in front of the sanitizer's library.
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:detect_leaks=0"
    env["LD_LIBRARY_PATH"] = LIBRARIES
    env["CKINETO_XPU_STANDIN"] = script
    env["CKINETO_XPU_ROOT"] = MACHINE.root
    env.update(more)
    return env


class Recording:
    """A program that `ckineto record` ran, and its trace."""

    def __init__(self, *way, script="", options=(), status=0, env=None, expected=None):
        self.words = f"{' '.join(way)} [{script}] {' '.join(options)} {env or ''}"
        with tempfile.TemporaryDirectory(prefix="ckineto-xpu-") as folder:
            out = os.path.join(folder, "t.json")
            command = [CKINETO, "record", "-b", "16", "-q", "--no-summary", "-o", out, *options, "--",
                       os.path.join(STANDIN, "xpu_client"), *way]
            result = subprocess.run(command, env=environment(script, **(env or {})), timeout=240,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
            self.error = result.stderr.decode(errors="replace")
            wanted = f"{way[0]} {way[1]} done\n" if expected is None else expected
            got = result.returncode - 256 if result.returncode > 255 else result.returncode
            check(got == status and result.stdout.decode() == wanted,
                  f"{self.words}: status {got}, {result.stdout}: {self.error[-3000:]}")
            self.trace = {"traceEvents": [], "ckineto": {"ledger": []}}
            if check(os.path.exists(out), f"{self.words}: no trace: {self.error[-500:]}"):
                with open(out, encoding="utf-8") as file:
                    self.trace = json.load(file)

    def events(self, *categories):
        return [e for e in self.trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in categories]

    def said(self):
        return [l for l in self.trace["ckineto"]["ledger"]
                if l["source"].lower().startswith(("xpu", "plug-in")) and l["reason"] not in ("delivered", "loaded", "requested")]

    def text(self):
        return " ".join(f"{l['reason']} {l['detail']}" for l in self.said()).lower()

    def check_kernels(self, count):
        found = self.events("kernel")
        return check(len(found) == count, f"{self.words}: {len(found)} kernels, not {count}: {self.said()}")

    def check_says(self, *parts):
        for part in parts:
            check(part.lower() in self.text(), f"{self.words}: '{part}' is not in: {self.text()}")

    def count_line(self, reason):
        return sum(l["count"] for l in self.trace["ckineto"]["ledger"] if l["reason"] == reason)
