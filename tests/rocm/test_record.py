"""`ckineto record` enters programs by ROCP_TOOL_LIBRARIES; what they do is in the trace, whatever the
version of rocprofiler-sdk."""
import os

from support import CKINETO, LIBRARIES, PLUGIN, VERSIONS, Recording, check, environment, finish
import subprocess


def check_add():
    for version in VERSIONS:
        r = Recording("add", "30", script=f"version={version} kernel_us=20")
        r.check_kernels(30)
        kernels, copies, calls = r.events("kernel"), r.events("gpu_memcpy"), r.events("cuda_runtime")
        names = {e["name"] for e in kernels}
        check(names == {"add(float*, float*)", "plain_kernel", "void scale<float>(float*, float)"},
              f"{r.words}: {names}")
        one = kernels[0]["args"]
        check(one["grid"] == [8, 1, 1] and one["block"] == [128, 1, 1], f"{r.words}: {one}")
        check(one["registers per thread"] == 64 and one["shared memory"] == 512, f"{r.words}: {one}")
        check({e["args"]["stream"] for e in kernels} == {1, 2}, f"{r.words}: streams")
        check([c["name"] for c in copies] == ["Memcpy HtoD (Host -> Device)", "Memcpy DtoH (Device -> Host)"],
              f"{r.words}: {copies}")
        check(copies[0]["args"]["bytes"] == 4096 and "memory bandwidth (GB/s)" in copies[0]["args"],
              f"{r.words}: {copies[0]}")
        counts = {}
        for c in calls:
            counts[c["name"]] = counts.get(c["name"], 0) + 1
        check(counts == {"hipLaunchKernel": 30, "hipMemcpyAsync": 2, "hipDeviceSynchronize": 1},
              f"{r.words}: {counts}")
        launches = {c["args"]["correlation"]: c for c in calls}
        for k in kernels + copies:
            call = launches.get(k["args"]["correlation"])
            if check(call is not None, f"{r.words}: no launch of {k}"):
                check(call["ts"] <= k["ts"] + 50, f"{r.words}: {k} before {call}")
        flows = [e for e in r.trace["traceEvents"] if e.get("cat") == "ac2g"]
        check(len(flows) >= 64, f"{r.words}: {len(flows)} flows")
        devices = r.trace["deviceProperties"]
        check([d["name"] for d in devices] == ["AMD Instinct MI300X"] * 2 and devices[0]["numSms"] == 304 and
              devices[0]["gcnArchName"] == "gfx942", f"{r.words}: {devices}")
        check(r.count_line("records dropped by rocprofiler-sdk") == 0, f"{r.words}: {r.said()}")


def check_all():
    for version in VERSIONS:
        r = Recording("all", "6", script=f"version={version}",
                      options=("--plugin-config", "rocm.memory=on rocm.hsa=on"))
        r.check_kernels(18)
        check({k["pid"] for k in r.events("kernel")} == {0, 1}, f"{r.words}: devices")
        names = [e["name"] for e in r.events("cuda_runtime")]
        check(names.count("ncclAllReduce") == 6 and names.count("hipGraphLaunch") == 6, f"{r.words}: {names}")
        check(len(r.events("cuda_driver")) == 6, f"{r.words}: calls of HSA")
        memory = r.events("gpu_memory") or [e for e in r.trace["traceEvents"] if e.get("cat") == "gpu_memory"]
        if version == 500:
            r.check_says("does not report allocations")
            check(not memory, f"{r.words}: {memory[:2]}")
        else:
            last = sorted(memory, key=lambda e: e["ts"])[-1:]
            check(len(memory) == 48, f"{r.words}: {len(memory)} changes of memory")
            check(all(e["args"]["allocated since start"] >= 0 for e in memory) and last and
                  last[0]["args"]["allocated since start"] == 0, f"{r.words}: {last}")
        scratch = r.events("overhead")
        check(len(scratch) == 6 and (version == 500) == ("bytes" not in scratch[0]["args"]),
              f"{r.words}: {scratch[:1]}")
        graphs = [k["args"].get("graph id") for k in r.events("kernel")]
        check(graphs.count(5) == (12 if version >= 10300 else 0), f"{r.words}: {graphs}")


def check_counts():
    for version in VERSIONS:
        r = Recording("threads", "500", script=f"version={version}")
        r.check_kernels(4000)
        calls = r.events("cuda_runtime")
        check(len({c["tid"] for c in calls}) == 9, f"{r.words}: {len({c['tid'] for c in calls})} threads")
    Recording("flight", "50", script="kernel_us=500").check_kernels(50)
    r = Recording("fork", "5")
    r.check_kernels(10)
    r = Recording("kill", "20", status=137, expected="")
    r.check_kernels(20)


def check_roctx():
    for version in VERSIONS:
        r = Recording("roctx", "4", script=f"version={version}")
        names = [e["name"] for e in r.events("user_annotation")]
        # A mark is an instant; ranges of a process are asynchronous.
        check(names.count("outer") >= 4 and names.count("inner") >= 4, f"{r.words}: {names}")
        marks = [e for e in r.trace["traceEvents"] if e.get("name") == "mark"]
        check(len(marks) == 4, f"{r.words}: {len(marks)} marks")
        check(any(e.get("name") == "process" for e in r.trace["traceEvents"]), f"{r.words}: no range of a process")
    off = Recording("roctx", "4", options=("--plugin-config", "rocm.roctx=off"))
    check(not off.events("user_annotation"), f"{off.words}: ranges nevertheless")


def check_clock():
    r = Recording("add", "20", script="clock=odd kernel_us=100")
    r.check_kernels(20)
    r.check_says("clock of rocprofiler-sdk's own")
    calls = {c["args"]["correlation"]: c for c in r.events("cuda_runtime")}
    for k in r.events("kernel"):
        c = calls[k["args"]["correlation"]]
        check(-1000 < k["ts"] - c["ts"] < 1e6, f"{r.words}: {k['ts'] - c['ts']} us after its launch")


def check_operators_by_pushing():
    Recording("add", "5", script="fail=configure_external_correlation_id_request_service:17").check_kernels(5)


def check_counters():
    smi = os.path.join(LIBRARIES, "librocm_smi64.so.7")
    r = Recording("add", "40", script="kernel_us=4000", options=("--plugin-config", "rocm.smi_ms=20"),
                  env={"CKINETO_ROCM_SMI_LIBRARY": smi})
    r.check_kernels(40)
    counters = [e for e in r.trace["traceEvents"] if e.get("ph") == "C"]
    power = [e for e in counters if e["name"].startswith("GPU power") and e["pid"] == 0]
    # The places on the bus decide: the library's GPU 1 is HIP's 0.
    check(power and any(abs(v - 250.000001) < 1e-9 for e in power for v in e["args"].values()),
          f"{r.words}: {power[:2]}")
    clocks = [e for e in counters if e["name"].startswith("GPU clocks")]
    check(clocks and 2100 in clocks[0]["args"].values() and 1300 in clocks[0]["args"].values(),
          f"{r.words}: {clocks[:1]}")
    r.check_says("does not measure: slow")
    r = Recording("add", "5", options=("--plugin-config", "rocm.smi_ms=20"),
                  env={"CKINETO_ROCM_SMI_LIBRARY": "/nowhere/librocm_smi64.so"})
    r.check_kernels(5)
    r.check_says("power and clocks are not sampled", "CKINETO_ROCM_SMI_LIBRARY")


def check_doctor(folder):
    present = os.path.join(folder, "kfd")
    with open(present, "w", encoding="utf-8"):
        pass
    def line(**env):
        out = subprocess.run([CKINETO, "doctor"], env=environment(**env), stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=120).stdout.decode()
        return [l for l in out.splitlines() if " rocm" in f" {l}"][:1] or [out]
    found = line(CKINETO_KFD_PATH=present)[0]
    check("rocprofiler-sdk 1.0.0" in found and "untested on hardware" in found, f"doctor: {found}")
    check("no AMD GPU" in line(CKINETO_KFD_PATH="/nowhere/kfd")[0], "doctor without a driver")
    absent = line(CKINETO_KFD_PATH=present, LD_LIBRARY_PATH="/nowhere")[0]
    check("rocprofiler-sdk was not found" in absent, f"doctor without the SDK: {absent}")
    if os.geteuid() != 0:
        os.chmod(present, 0)
        check("no permission" in line(CKINETO_KFD_PATH=present)[0], "doctor without permission")


def check_plugin():
    out = subprocess.run([CKINETO, "plugin", "check", PLUGIN], env=environment("gpus=1"), timeout=240,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(out.returncode == 0, f"plugin check: {out.returncode} {out.stdout.decode()[-3000:]}")


if __name__ == "__main__":
    import tempfile
    check_add()
    check_all()
    check_counts()
    check_roctx()
    check_clock()
    check_operators_by_pushing()
    check_counters()
    check_plugin()
    with tempfile.TemporaryDirectory(prefix="ckineto-rocm-") as scratch:
        check_doctor(scratch)
    finish("rocm.record")
