"""Measures ckineto and its peers: the same work in the same run, on this machine.

    run.py BIN RESULTS [--peers FOLDER] [--events N] [--repeat N]

BIN is the folder of our programs. FOLDER has the peers that `make test-peers` and `make bench-report`
fetch: readers, hta, trace-processor, torch; missing ones are skipped and named in the results. RESULTS is
written as one JSON object, of which report.py makes a page and a chart.
"""
import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # no disk is measured
LTTNG_START_S = 30

SUMS = ("SELECT count(*) AS names, sum(n) AS slices, CAST(round(sum(ns) / 1000.0) AS INTEGER) AS total_us FROM "
        "(SELECT name, count(*) AS n, sum(dur_ns) AS ns FROM activities WHERE form = 'slice' GROUP BY name)")
PERFETTO_SUMS = ("SELECT count(*) AS names, sum(n) AS slices, sum(ns) / 1000 AS total_us FROM "
                 "(SELECT name, count(*) AS n, sum(dur) AS ns FROM slice GROUP BY name)")

left_out = []


def leave_out(what, why):
    left_out.append(f"{what}: {why}")
    print(f"left out: {left_out[-1]}", file=sys.stderr, flush=True)


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


# ---- recording -------------------------------------------------------------------------------------


class Lttng:
    """A daemon of LTTng whose session overwrites the oldest events, as our ring does; stopped on exit."""

    def __init__(self):
        self.daemon = None
        self.home = tempfile.mkdtemp(prefix="ckineto-lttng-")
        self.environment = {**os.environ, "LTTNG_HOME": self.home, "HOME": self.home}

    def ask(self, *words):
        return subprocess.run(["lttng", "--no-sessiond", *words], env=self.environment, capture_output=True).returncode == 0

    def __enter__(self):
        if not shutil.which("lttng-sessiond"):
            leave_out("LTTng-UST", "lttng-tools is not installed")
            return self
        if self.ask("list"):
            leave_out("LTTng-UST", "another session daemon is running")
            return self
        self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], env=self.environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + LTTNG_START_S
        while not self.ask("list") and time.monotonic() < end:
            time.sleep(0.1)
        if not (self.ask("create", "peers", "--snapshot", f"--output={self.home}/out") and
                self.ask("enable-channel", "--userspace", "--subbuf-size=1M", "--num-subbuf=8", "c") and
                self.ask("enable-event", "--userspace", "--channel=c", "ckineto_peers:*") and self.ask("start")):
            leave_out("LTTng-UST", "its daemon does not record")
        return self

    def __exit__(self, *_):
        if self.daemon:
            self.ask("destroy", "peers")
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait()
        shutil.rmtree(self.home, ignore_errors=True)


def torch_peer(python, work):
    """Compile our loop around RecordFunction with the headers of PyTorch's wheel, and run it."""
    where = subprocess.run([python, "-c", "import torch; print(torch.__path__[0], torch.__version__)"], capture_output=True,
                           text=True)
    if where.returncode:
        leave_out("PyTorch's RecordFunction", "no PyTorch (tests/peers/fetch_torch.sh)")
        return []
    folder, version = where.stdout.split()
    program = os.path.join(work, "peer_torch")
    done = subprocess.run(["g++", "-std=c++20", "-O2", "-w", f"-I{HERE}/..", f"-I{folder}/include",
                           f"-I{folder}/include/torch/csrc/api/include", f"{HERE}/peer_torch.cpp", "-o", program,
                           f"-L{folder}/lib", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{folder}/lib"],
                          capture_output=True, text=True)
    if done.returncode:
        leave_out("PyTorch's RecordFunction", done.stderr.splitlines()[0] if done.stderr else "cannot be compiled")
        return []
    out = subprocess.run([program], capture_output=True, text=True).stdout
    return [{**line, "version": version} for line in lines(out)]


def record(options, work):
    with Lttng():
        done = subprocess.run([os.path.join(options.bin, "bench_peers")], capture_output=True, text=True, check=True)
    return lines(done.stdout) + torch_peer(os.path.join(options.peers, "torch/bin/python"), work)


# ---- reading ---------------------------------------------------------------------------------------


def measured(command, repeat):
    """(answer, processor seconds, peak bytes) of the fastest of some runs; None if the command fails."""
    best = None
    for _ in range(repeat):
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            text = out.read().decode()
        if process.returncode:
            return None
        seconds, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        if best is None or seconds < best[1]:
            best = (text, seconds, peak)
    return best


def answer_of(text):
    """The last JSON object that a reader has printed."""
    return json.loads(text[text.rindex("{"):text.rindex("}") + 1])


def readers(options, trace):
    script = os.path.join(HERE, "read_peer.py")
    python = os.path.join(options.peers, "readers/bin/python")
    yield "ours", [os.path.join(options.bin, "ckineto"), "query", "--format", "json", trace, SUMS]
    yield "simdjson", [os.path.join(options.bin, "peer_names"), trace]
    yield "json", [sys.executable, script, "json", trace]
    for name in ("orjson", "pandas", "duckdb"):
        yield name, [python, script, name, trace]
    yield "sqlite", [sys.executable, script, "sqlite", trace]
    yield "perfetto", ["node", os.path.join(HERE, "../../tests/peers/trace_processor.mjs"),
                       os.path.join(options.peers, "trace-processor"), trace, PERFETTO_SUMS]
    yield "hta", [os.path.join(options.peers, "hta/bin/python"), script, "hta", trace]


def read(options, trace):
    rows = []
    for name, command in readers(options, trace):
        if not shutil.which(command[0]):
            leave_out(name, f"{command[0]} is not installed")
            continue
        best = measured(command, options.repeat)
        if best is None:
            leave_out(name, "it failed")
            continue
        text, seconds, peak = best
        rows.append({"name": name, "seconds": seconds, "peak_bytes": peak, "answer": answer_of(text)})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def write(options, trace, work):
    out = os.path.join(work, "out.json")
    done = subprocess.run([os.path.join(options.bin, "bench_peers"), "--save", trace], capture_output=True, text=True,
                          check=True)
    rows = [{"name": "ours", "seconds": lines(done.stdout)[0]["value"]}]
    for name, python in (("json", sys.executable), ("orjson", os.path.join(options.peers, "readers/bin/python"))):
        if not shutil.which(python):
            continue
        done = subprocess.run([python, os.path.join(HERE, "write_peer.py"), name, trace, out], capture_output=True, text=True)
        if done.returncode == 0:
            rows.append({"name": name, **json.loads(done.stdout)})
    return rows


# ---- all of it -------------------------------------------------------------------------------------


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("results")
    parser.add_argument("--peers", default="build/peers")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    work = tempfile.mkdtemp(prefix="ckineto-peers-", dir=SCRATCH)
    try:
        trace = os.path.join(work, "trace.json")
        subprocess.run([os.path.join(options.bin, "gen_trace"), "--events", str(options.events), "--layout", "torch2",
                        "--out", trace], check=True, stdout=subprocess.DEVNULL)
        results = {"events": options.events, "bytes": os.path.getsize(trace), "processor": processor(),
                   "processors": os.cpu_count(), "record": record(options, tempfile.gettempdir()),
                   "read": read(options, trace), "write": write(options, trace, work), "left_out": left_out}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    with open(options.results, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)


main()
