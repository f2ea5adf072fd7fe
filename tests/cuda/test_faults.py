"""What goes wrong with CUPTI does no harm: the program ends as it does alone, the trace is written,
its ledger says in a sentence what is missing, and everything else is in it."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin"))
from support import STANDIN, calls_of, check, client, environment, finish, run, temporary, write  # noqa: E402

CKINETO, PLUGIN, SIM = os.environ["CKINETO"], os.environ["PLUGIN"], os.environ["SIM"]
# All are made at once and touched, which takes longer than these programs.
FEW_BUFFERS = ("--plugin-config", "cuda.buffer_bytes=8MiB")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
CODES = (8, 14, 27, 35, 39, 999)
# Without these nothing can be recorded of the GPU; the others cost a part at most.
ESSENTIAL = ("cuptiGetVersion", "cuptiActivityRegisterCallbacks", "cuDriverGetVersion")
CALLS = ESSENTIAL + (
    "cuptiActivityEnable", "cuptiActivityDisable", "cuptiActivityFlushAll", "cuptiGetCallbackName",
    "cuptiActivityGetNumDroppedRecords", "cuptiActivitySetAttribute", "cuptiSetThreadIdType",
    "cuptiActivityRegisterTimestampCallback", "cuptiActivityEnableRuntimeApi",
    "cuptiActivityEnableDriverApi", "cuptiGetResultString",
    "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2", "cuDeviceGetUuid_v2", "cuCtxGetCurrent",
    "cuCtxSynchronize")

alone_results = {}


def alone(which, way):
    """What the program does without a recorder."""
    if (which, way) not in alone_results:
        result = run([client(which), *way], environment(which))
        alone_results[which, way] = (result.returncode, result.stdout)
    return alone_results[which, way]


class Recording:
    def __init__(self, *way, which="own12", script="", plugins=(PLUGIN,), options=(), expected=None,
                 env=None):
        self.words = f"{which} {' '.join(way)} {script.splitlines()[:1]} {env or ''}"
        with temporary() as folder:
            out, log = os.path.join(folder, "t.json"), os.path.join(folder, "log")
            # A small buffer is enough, and ready sooner.
            command = [CKINETO, "record", "-b", "8", "-q", "--no-summary", "-o", out, *options]
            for plugin in plugins:
                command += ["--plugin", plugin]
            result = run([*command, "--", client(which), *way],
                         environment(which, write(folder, "script", script), log, **(env or {})))
            self.error = result.stderr.decode(errors="replace")
            wanted = expected or alone(which, way)
            check((self.status_of(result), result.stdout) == wanted,
                  f"{self.words}: {result.returncode} {result.stdout}, alone {wanted}: "
                  f"{self.error[-6000:]}")
            self.calls = calls_of(log)
            self.trace = None
            if check(os.path.exists(out), f"{self.words}: no trace: {self.error[-500:]}"):
                with open(out, encoding="utf-8") as file:
                    self.trace = json.load(file)

    @staticmethod
    def status_of(result):
        return result.returncode - 256 if result.returncode > 255 else result.returncode

    def events(self, *categories):
        events = self.trace["traceEvents"] if self.trace else []
        return [e for e in events if e.get("ph") == "X" and e.get("cat") in categories]

    def ledger(self):
        return self.trace["ckineto"]["ledger"] if self.trace else []

    def said(self):
        """What the ledger says of our source, besides the numbers of what was delivered."""
        return [l for l in self.ledger() if l["source"].lower().startswith(("cuda", "plug-in"))
                and l["reason"] not in ("delivered", "loaded")]

    def check_sentence(self, *parts):
        text = " ".join(f"{l['reason']} {l['detail']}" for l in self.said())
        check(any(len(l["detail"].split()) >= 5 for l in self.said()),
              f"{self.words}: no sentence in {self.said()}")
        for part in parts:
            check(part.lower() in text.lower(), f"{self.words}: '{part}' is not in: {text}")

    def check_kernels(self, count):
        found = self.events("kernel")
        check(len(found) == count, f"{self.words}: {len(found)} kernels, not {count}: {self.said()}")
        ids = [e["args"]["correlation"] for e in self.events(*DEVICE) if "graph id" not in e["args"]
               or not e["args"]["graph id"]]
        check(len(ids) == len(set(ids)), f"{self.words}: something is there twice")


# ---- every call, every error ---------------------------------------------------------------------

def check_one_failure(function, code, calls):
    r = Recording("add", "3", script=f"fail {function} {calls} {code}", options=FEW_BUFFERS)
    if function in ESSENTIAL:
        r.check_kernels(0)
        r.check_sentence("the CUDA driver does not work" if function == "cuDriverGetVersion" else "")
        # CUPTI may crash with a driver that does not work.
        check(function != "cuDriverGetVersion" or not any(c[0].startswith("cupti") for c in r.calls),
              f"{r.words}: CUPTI was called: {r.calls}")
    elif function == "cuptiActivityEnable" and calls == "*":
        r.check_kernels(0)
        r.check_sentence({14: "another tool", 39: "another tool", 35: "profil"}.get(
            code, "cannot be recorded"))
    elif function.startswith(("cuptiActivityEnable", "cuptiActivityFlush")):
        check(r.trace is not None, f"{r.words}: no trace")
    else:
        r.check_kernels(3)


def check_failures():
    for function in CALLS:
        for code in CODES if function in ESSENTIAL + ("cuptiActivityEnable",) else (999, 27):
            check_one_failure(function, code, "*")
    for n in range(1, 10):
        r = Recording("add", "3", script=f"fail cuptiActivityEnable {n} 27", options=FEW_BUFFERS)
        check(r.said(), f"{r.words}: nothing is said of a kind that cannot be recorded")


# ---- the library ---------------------------------------------------------------------------------

def check_wheels():
    """CUPTI that only a Python package has: in a virtual environment, and of the python3 in PATH. A
    release that is newer than the driver is not taken."""
    for way in ("VIRTUAL_ENV", "PATH"):
        with temporary() as folder:
            for release in ("12", "13", "99"):
                packages = os.path.join(folder, "lib/python3.12/site-packages/nvidia/cu" + release, "lib")
                os.makedirs(packages)
                source = os.path.join(STANDIN, "own13" if release == "13" else "own12",
                                      "libcupti.so." + ("13" if release == "13" else "12"))
                os.symlink(os.path.realpath(source), os.path.join(packages, "libcupti.so." + release))
            os.makedirs(os.path.join(folder, "bin"))
            os.symlink(sys.executable, os.path.join(folder, "bin", "python3"))
            value = folder if way == "VIRTUAL_ENV" else os.path.join(folder, "bin") + ":" + os.environ["PATH"]
            Recording("add", "3", which="own-alone", env={way: value}).check_kernels(3)


def check_pm_at_exit():
    """The program exits while CUPTI sets up PM sampling: it ends as it does alone."""
    for setup_ms in ("30", "300", "800"):
        r = Recording("add", "5", script="kernel_ns 60000000\n", which="own13",
                      env={"FAKE_PM_SETUP_MS": setup_ms}, options=(
            "--plugin-config", "cuda.pm_metrics=sm__cycles_active.avg.pct_of_peak_sustained_elapsed"))
        r.check_kernels(5)


def check_libraries():
    r = Recording("add", "3", which="own-alone")
    r.check_kernels(0)
    r.check_sentence("CUPTI was not found")
    check_wheels()
    check_pm_at_exit()
    r = Recording("add", "3", which="own-old")
    r.check_kernels(0)
    r.check_sentence("too old")
    r = Recording("add", "3", env={"CKINETO_CUPTI_LIBRARY": "/nowhere/libcupti.so"})
    r.check_kernels(0)
    r.check_sentence("CKINETO_CUPTI_LIBRARY")
    Recording("add", "3", which="own13").check_kernels(3)
    check_names()
    # No driver: the program's own calls fail too, and it says so alone as well.
    r = Recording("nothing", "3", script="fail cuInit * 100\nfail cuptiActivityEnable * 999\n")
    r.check_kernels(0)


def check_names():
    """What the driver is too old for is passed over; names of CUDA 11 are known; what the program has
    loaded is found by any name."""
    standin = os.environ["STANDIN"]

    def named(target, name, rest, script="", preload=False):
        with temporary() as folder:
            path = os.path.join(folder, name)
            with open(os.path.join(standin, target, "libcupti.so.12"), "rb") as file:
                library = file.read()
            with open(path, "wb") as file:  # it calls itself otherwise, too
                file.write(library.replace(b"libcupti.so.12\0", b"libcupti.so.99\0"))
            places = {"LD_LIBRARY_PATH": f"{folder}:{os.path.join(standin, rest)}"}
            if preload:
                places["LD_PRELOAD"] = path
            Recording("add", "3", which=rest, script=script, expected=alone("own12", ("add", "3")),
                      plugins=(), env={"CUDA_INJECTION64_PATH": PLUGIN, **places}).check_kernels(3)

    named("own-old", "libcupti.so.13", "own12", script="driver 12040\n")
    named("own12", "libcupti.so.11.4", "own-alone", script="version 15\n")
    named("own12", "libcupti-0a1b2c3d.so.12", "own-alone", preload=True)


def check_without_runtime():
    """A program that uses the driver alone: no runtime is loaded for its version's sake."""
    program = os.path.join(os.environ["STANDIN"], "standin-driver-only")
    with temporary() as folder:
        out = os.path.join(folder, "t.json")
        result = run([CKINETO, "record", "-b", "8", "-q", "-o", out, "--", program],
                     environment("own12", CUDA_INJECTION64_PATH=PLUGIN))
        check(result.returncode == 0, f"the driver alone: {result.stderr[-500:]}")
        with open(out, encoding="utf-8") as file:
            trace = json.load(file)
    versions = [k for k in trace if k.endswith("_version")]
    check("cuda_driver_version" in versions and "cuda_runtime_version" not in versions,
          f"the driver alone: {versions}")


def check_doctor():
    """Why cuInit fails, in words that say what to do."""
    for code, words in ((802, "fabricmanager"), (803, "different versions"), (804, "compatibility"),
                        (999, "nvidia-smi"), (100, "no GPU")):
        with temporary() as folder:
            script = write(folder, "script", f"fail cuInit * {code}\n")
            result = run([CKINETO, "doctor"], environment("own12", script))
        check(words in result.stdout.decode(), f"doctor, {code}: {result.stdout.decode()}")


def check_conforms():
    """The source keeps the rules of the interface that it is an example of."""
    for which in ("own12", "own13"):
        result = run([CKINETO, "plugin", "check", PLUGIN], environment(which))
        failed = [l for l in result.stdout.decode().splitlines() if "FAILED" in l]
        check(result.returncode == 0 and not failed, f"{which}: {failed}")


def check_disabled():
    for value in ("1", "0", ""):
        r = Recording("add", "3", env={"KINETO_DISABLE_CUPTI": value})
        touched = [c for c in r.calls if c[0].startswith("cupti")]
        check(not touched, f"{r.words}: {touched[:3]} were called")
        r.check_kernels(0)
        r.check_sentence("KINETO_DISABLE_CUPTI")
    # Another plug-in has the device to itself, and records.
    r = Recording("other", "6", plugins=(PLUGIN, SIM), expected=(0, b"sum 36\n"),
                  env={"KINETO_DISABLE_CUPTI": "1", "OTHER_DEVICE": SIM})
    check(not [c for c in r.calls if c[0].startswith("cupti")], f"{r.words}: CUPTI was called")
    check([e["name"] for e in r.events("kernel")] == ["nothing"] * 2 and len(r.events("gpu_memcpy")) == 2,
          f"{r.words}: the other plug-in's work is {[e['name'] for e in r.events(*DEVICE)]}")
    r.check_sentence("KINETO_DISABLE_CUPTI")


# ---- delivery ------------------------------------------------------------------------------------

def recording_in_time(*way, **more):
    """Where this machine is so busy that buffers run out, which the ledger tells, once more."""
    for _ in range(5):
        r = Recording(*way, **more)
        if not any(l["reason"] == "records dropped by CUPTI" and l["count"] for l in r.said()):
            break
    return r


def check_delivery():
    for script in ("fill 40", "empty_every 3\nfill 40", "shuffle 5", "complete_slow_us 3000\nfill 40",
                   "slow cuptiActivityFlushAll * 50000", "slow cuptiActivityEnable * 5000",
                   "overhead_every 3", "hand_back_us 100"):
        r = recording_in_time("threads", "10", script=script)
        r.check_kernels(40)
        check(len(r.events("gpu_memcpy")) == 120, f"{r.words}: copies")
    # More buffers than there are at once: what finds no room is counted. A CUPTI that would crash
    # without a buffer gets one.
    for version in (26, 27):
        r = Recording("threads", "10", script=f"version {version}\nfill 1\ncomplete_slow_us 2000",
                      options=FEW_BUFFERS)
        lost = sum(l["count"] for l in r.said() if l["loss"])
        check(len(r.events("kernel")) + lost >= 40 and lost > 0, f"{r.words}: {r.said()}")
    # Where each thread has its buffer if nothing is said, "off" is said.
    for word, wanted in (("on", 1), ("off", 0)):
        r = Recording("add", "3", options=("--plugin-config", f"cuda.per_thread_buffers={word}"))
        said = [c for c in r.calls if c[0] == "cuptiActivitySetAttribute"]
        check(said == [("cuptiActivitySetAttribute", 9 * 1000 + wanted, 0)], f"{r.words}: {said}")
    for way, kernels in (("streams", 20), ("graph", 30), ("driver", 10), ("contexts", 10),
                         ("reset", 10), ("devices", 10)):
        Recording(way, "10", script="device h100\ndevice a100\n").check_kernels(kernels)
    # Each of many threads has a buffer.
    r = Recording("crowd", "2")
    check(not [l for l in r.said() if l["loss"]], f"{r.words}: {r.said()}")
    r.check_kernels(80)
    # Buffers that come back all the time are no reason not to ask for the others.
    r = Recording("threads", "1000", script="fill 20\nkernel_ns 500000")
    asked = r.calls.count(("cuptiActivityFlushAll", 0, 0))
    check(asked > 0, f"{r.words}: CUPTI was never asked for what it has")
    # What another tool takes away is reported.
    r = Recording("taken", "10")
    check([l for l in r.said() if l["loss"] and l["reason"] == "buffers that CUPTI did not give back"],
          f"{r.words}: nothing is said of a tool that took over: {r.said()}")
    r = Recording("replay", "5", script="record Kernel9 start=5 end=9 name=\"k\" correlationId=9\n"
                                        "drop 12\n")
    r.check_kernels(1)
    dropped = [l for l in r.said() if l["loss"] and l["count"] == 12]
    check(len(dropped) == 1, f"{r.words}: 12 dropped records are not reported: {r.said()}")


def check_garbage():
    """Records that cannot be: nothing breaks, and what is whole among them comes through."""
    whole = 'record Kernel9 start=1000 end=9000 name="whole" correlationId=4000000001\n'
    broken = (
        "record Kernel9 start=0 end=0 name=\"none\" correlationId=1",
        "record Kernel9 start=9000 end=1000 name=\"backwards\" correlationId=2",
        "record Kernel9 start=raw:18446744073709551615 end=raw:1 name=\"far\" correlationId=3",
        "record Kernel9 start=1000 end=2000 name=null correlationId=4",
        "record Kernel9 start=1000 end=2000 name=\"_Z\" correlationId=5 deviceId=77 streamId=-1",
        "record Kernel9 start=1000 end=2000 name=\"huge\" blockX=-1 gridX=-1 dynamicSharedMemory=-1",
        "record Memcpy5 start=1000 end=1000 copyKind=255 srcKind=255 dstKind=255 bytes=-1",
        "record MemcpyPtoP4 start=1000 end=3000 copyKind=10 srcDeviceId=99 dstDeviceId=-1",
        "record Memset4 start=1000 end=3000 memoryKind=65535 bytes=-1",
        "record API kind=5 cbid=65535 start=1000 end=2000 correlationId=6 threadId=0",
        "record API kind=4 cbid=-1 start=2000 end=1000 correlationId=7",
        "record Synchronization type=99 start=1000 end=0 streamId=-1 cudaEventId=-1",
        "record Synchronization type=2 start=1000 end=2000 streamId=5 cudaEventId=123",
        "record ExternalCorrelation externalKind=255 externalId=-1 correlationId=-1",
        "record Overhead3 overheadKind=-1 start=1000 end=500",
        "record CudaEvent eventId=-1 streamId=-1 contextId=-1 correlationId=-1",
        "record GraphTrace2 start=1000 end=0 graphId=-1 correlationId=8",
        "bytes ffffffff 00000000 00000000 00000000", "bytes 00000000 00000000", "empty", "buffer",
        "bytes 0a000000 ffffffffffffffff")
    for line in broken:
        r = Recording("replay", "5", script=f"version 22\n{whole}{line}\n",
                      options=("-a", "all", *FEW_BUFFERS))
        found = [e for e in r.events("kernel") if e["name"] == "whole"]
        check(len(found) == 1, f"{r.words} {line}: {len(found)} of 1; {r.said()}")
    r = Recording("replay", "5", script="version 22\n" + whole + "\n".join(broken),
                  options=("-a", "all"))
    check(len([e for e in r.events("kernel") if e["name"] == "whole"]) == 1, f"{r.words}: all at once")


# ---- lives ---------------------------------------------------------------------------------------

def check_ended(r, ended):
    """What a program that does not end in order takes with it is reported."""
    left = [l for l in r.said() if l["reason"] == "sessions that did not end"]
    check([(l["count"], l["loss"]) for l in left] == ([] if ended else [(1, False)])
          and all("_exit" in l["detail"] for l in left), f"{r.words}: ended {ended}, but {left}")


def check_in_time(r):
    """Nothing is called when CUPTI's own exit handlers have run."""
    late = [c for c in r.calls if c[2] == -2]
    check(not late, f"{r.words}: called too late: {late[:5]}")


def check_lives():
    for entered in ({}, {"CUDA_INJECTION64_PATH": PLUGIN}):
        for way, kernels in (("add", 5), ("exit", 5), ("threads", 20)):
            r = Recording(way, "5", plugins=() if entered else (PLUGIN,), env=entered,
                          script="kernel_ns 1000")
            r.check_kernels(kernels)
            check_in_time(r)
    # A kernel that never ends does not keep the program.
    r = Recording("add", "3", script="slow cuCtxSynchronize * 100000000")
    r.check_kernels(3)
    check([l for l in r.said() if l["reason"] == "work that did not end"], f"{r.words}: {r.said()}")
    r = Recording("fork", "5")
    r.check_kernels(10)
    check_ended(r, True)
    # The child of a process that has not used CUDA yet may use it, and is recorded or reported.
    r = Recording("fork_first", "5")
    check(len(r.events("kernel")) == 8 or r.said(), f"{r.words}: {len(r.events('kernel'))} of 8 "
          "kernels, and nothing is said")
    r = Recording("exit", "50", script="kernel_ns 100000")
    check(r.trace is not None, f"{r.words}: no trace")
    check_ended(r, True)
    r = Recording("quick_exit", "50", script="kernel_ns 1000")
    check(r.trace is not None, f"{r.words}: no trace")
    check_ended(r, False)
    r = Recording("killed", "50", script="hand_back_us 50", expected=(128 + 9, b""))
    check(r.trace is not None, f"{r.words}: no trace")
    check_ended(r, False)
    # Work that is complete after all is over.
    r = Recording("exit", "5", script="kernel_ns 200000000\nhand_back_us 1000")
    check(r.trace is not None, f"{r.words}: no trace")


# ---- entered by the driver, at cuInit ----------------------------------------------------------------

def check_devices():
    """A session that begins before CUDA is initialized knows the devices at its end."""
    script = "device h100\ndevice mig\n"
    for entered in ({}, {"CUDA_INJECTION64_PATH": PLUGIN}):
        r = Recording("devices", "4", plugins=() if entered else (PLUGIN,), env=entered, script=script)
        names = [d.get("name") for d in (r.trace or {}).get("deviceProperties", [])]
        check(names == ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"],
              f"{r.words}: devices are {names}")


def check_injected():
    entered = {"CUDA_INJECTION64_PATH": PLUGIN}
    for way, kernels in (("add", 5), ("threads", 20), ("driver", 5), ("contexts", 5), ("fork", 10),
                         ("fork_first", 8), ("graph", 15)):
        Recording(way, "5", plugins=(), env=entered).check_kernels(kernels)
    r = Recording("nothing", "5", plugins=(), env=entered)
    check(not r.calls, f"{r.words}: a program without CUDA is left alone: {r.calls[:3]}")
    r = Recording("killed", "20", plugins=(), env=entered, script="hand_back_us 50",
                  expected=(128 + 9, b""))
    check(r.trace is not None, f"{r.words}: no trace")
    check_ended(r, False)
    check_ended(Recording("add", "5", plugins=(), env=entered), True)
    r = Recording("add", "5", plugins=(), env={**entered, "KINETO_DISABLE_CUPTI": "1"})
    check(not [c for c in r.calls if c[0].startswith("cupti")], f"{r.words}: CUPTI was called")
    r.check_sentence("KINETO_DISABLE_CUPTI")


# ---- sessions of the program itself -------------------------------------------------------------

def sessions(way, script="", calls=None):
    """Kernels in each session's trace, and the traces; `calls` receives those that reached the stand-in."""
    with temporary() as folder:
        log = os.path.join(folder, "log")
        result = run([os.path.join(os.environ["STANDIN"], "standin-sessions"), PLUGIN, folder, way],
                     environment("own12", write(folder, "script", script), log))
        if calls is not None:
            calls += calls_of(log)
        check(result.returncode == 0, f"sessions {way}: {result.returncode} {result.stderr[-1500:]}")
        traces = []
        for name in sorted(n for n in os.listdir(folder) if n.endswith(".json")):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                traces.append(json.load(file))
    kernels = [[e for e in t["traceEvents"] if e.get("cat") == "kernel"] for t in traces]
    return kernels, traces


def check_sessions():
    for way, counts in (("two", [3, 4]), ("overlap", [3, 6]), ("toggle", [3]), ("snapshot", [2, 5]),
                        ("reset", [3, 2]), ("loaded_again", [3, 4]), ("warm_up", [2, 2])):
        kernels, traces = sessions(way)
        found = [len(k) for k in kernels]
        check(found == counts, f"sessions {way}: {found} kernels, not {counts}: "
              f"{[t['ckineto']['ledger'] for t in traces]}")
    # Everything is switched on before the window, and work from before the window is no loss.
    calls = []
    _, traces = sessions("warm_up", calls=calls)
    order = "".join("E" if c[0] == "cuptiActivityEnable" else "L" for c in calls
                    if c[0] in ("cuptiActivityEnable", "cudaLaunchKernel"))
    lost = [line for t in traces for line in t["ckineto"]["ledger"] if line["loss"]]
    check(re.fullmatch("(E+L{5}){2}", order) and not lost, f"sessions warm_up: {order}, {lost}")
    kernels, traces = sessions("late", "kernel_ns 10000000\nhand_back_us 1000")
    check(len(kernels) == 2 and len(kernels[1]) == 2, f"sessions late: {list(map(len, kernels))}")
    # What begins after a window is not in it, and is counted.
    outside = sum(l["count"] for l in traces[0]["ckineto"]["ledger"]
                  if l["reason"] == "outside the window")
    check(len(kernels[0]) + outside >= 3, f"sessions late: {list(map(len, kernels))}, {outside}")
    kernels, _ = sessions("operators")
    ids = [k["args"].get("External id") for k in sorted(kernels[0], key=lambda k: k["ts"])]
    check(ids == [71, 72, 72, 72, 71, None], f"sessions operators: {ids}")
    kernels, _ = sessions("paused_operators")
    ids = [k["args"].get("External id") for k in sorted(kernels[0], key=lambda k: k["ts"])]
    check(ids == [71, 72, 71, None], f"sessions paused_operators: {ids}")
    # A clock that CUPTI was given is still its clock when it is not given again.
    kernels, traces = sessions("two", "fail cuptiActivityRegisterTimestampCallback 2- 7")
    check([len(k) for k in kernels] == [3, 4], f"sessions, one clock: {list(map(len, kernels))}: "
          f"{[t['ckineto']['ledger'] for t in traces]}")
    # One that takes no clock of ours has its own: mostly CLOCK_REALTIME, in Windows' Linux another one.
    for number in (0, 4, 1):
        kernels, traces = sessions("two", "fail cuptiActivityRegisterTimestampCallback * 39\n"
                                          f"own_clock {number}")
        check([len(k) for k in kernels] == [3, 4], f"sessions, clock {number}: {list(map(len, kernels))}")
    # CUPTI was used before the fork, though no session records at the moment: not in the child.
    calls = []
    kernels, traces = sessions("fork_between", calls=calls)
    in_child = [c for c in calls if c[2] == -1]
    check([len(k) for k in kernels] == [2] and not in_child,
          f"sessions fork_between: {list(map(len, kernels))}, in the child {in_child[:3]}")
    for script in ("", "fill 50\nshuffle 3\ncomplete_slow_us 200"):
        kernels, _ = sessions("busy", script)
        check(len(kernels) == 4 and any(kernels), f"sessions busy: {list(map(len, kernels))}")


PARTS = {"libraries": check_libraries, "without_runtime": check_without_runtime, "doctor": check_doctor,
         "conforms": check_conforms, "disabled": check_disabled, "delivery": check_delivery,
         "garbage": check_garbage, "lives": check_lives, "devices": check_devices,
         "injected": check_injected, "sessions": check_sessions, "failures": check_failures}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
finish("faults")
