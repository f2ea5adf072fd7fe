"""What the tests of the AMD source share: programs recorded under the stand-ins."""
import json
import os
import subprocess
import sys
import tempfile

STANDIN, CKINETO, PLUGIN = os.environ["STANDIN"], os.environ["CKINETO"], os.environ["PLUGIN"]
LIBRARIES = os.path.join(STANDIN, "lib")
VERSIONS = (500, 10000, 10300)
faults = []


def check(good, words):
    if not good:
        faults.append(words)
        print("FAULT", words, flush=True)
    return good


def finish(name):
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)


def environment(script="", **more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("CKINETO", "KINETO", "ROCP_")) or k == "CKINETO_CPU"}
    # The recorder is preloaded in front of the sanitizer's library.
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:detect_leaks=0"
    env["LD_LIBRARY_PATH"] = LIBRARIES
    env["CKINETO_ROCM_STANDIN"] = script
    env.update(more)
    return env


class Recording:
    """A program that `ckineto record` ran, and its trace."""

    def __init__(self, *way, script="", options=(), status=0, env=None, expected=None):
        self.words = f"{' '.join(way)} [{script}] {' '.join(options)} {env or ''}"
        with tempfile.TemporaryDirectory(prefix="ckineto-rocm-") as folder:
            out = os.path.join(folder, "t.json")
            command = [CKINETO, "record", "-b", "16", "-q", "--no-summary", "-o", out, *options, "--",
                       os.path.join(STANDIN, "rocm_client"), *way]
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
                if l["source"].lower().startswith(("rocm", "plug-in")) and l["reason"] not in ("delivered", "loaded")]

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
