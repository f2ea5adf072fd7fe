"""`ckineto record` preloads the source where there is an Intel GPU; what programs do is in the trace,
whatever the version of PTI."""
import os
import subprocess

from support import CKINETO, MACHINE, PLUGIN, VERSIONS, Machine, Recording, check, environment, finish


def count(events):
    counts = {}
    for e in events:
        counts[e["name"]] = counts.get(e["name"], 0) + 1
    return counts


def check_add():
    for version in VERSIONS:
        r = Recording("add", "30", script=f"version={version}")
        r.check_kernels(30)
        kernels, copies, fills = r.events("kernel"), r.events("gpu_memcpy"), r.events("gpu_memset")
        check(count(kernels) == {"Run(sycl::_V1::queue, float*)": 10, "gemm_kernel": 10, "Scale<float>": 10},
              f"{r.words}: {count(kernels)}")
        one = next((k for k in kernels if k["args"]["kernel_id"] == 2), kernels[0])["args"]
        check(one["device"] == 0 and one["sycl queue"] == 2 and one["l0 queue"] == "0x0000000000001020" and
              one["context"].startswith("0x0000") and one["kernel_id"] == 2 and one["sycl_invocation_id"] == 1 and
              one["source_file_name"] == "kernels.cpp" and one["source_line_number"] == 42, f"{r.words}: {one}")
        check({k["tid"] for k in kernels} == {1, 2} and {k["pid"] for k in kernels} == {0}, f"{r.words}: streams")
        check([c["name"] for c in copies] == ["Memcpy M2D (MEMORY(Unknown) -> DEVICE)"] and
              copies[0]["args"]["bytes"] == 4096 and copies[0]["args"]["l0 call"] == "zeCommandListAppendMemoryCopy" and
              abs(copies[0]["args"]["memory bandwidth (GB/s)"] - 4.096) < 0.01, f"{r.words}: {copies}")
        # Some versions do not set the queue of a fill: it is that of other work on the driver's queue.
        check([(f["name"], f["tid"]) for f in fills] == [("Memset (7 -> DEVICE)", 0)], f"{r.words}: {fills}")
        calls = r.events("xpu_runtime")
        expected = {"urEnqueueKernelLaunch": 30, "urEnqueueUSMMemcpy": 1, "urEnqueueUSMFill": 1}
        check(count(calls) == expected, f"{r.words}: {count(calls)}")
        launches = {c["args"]["correlation"]: c for c in calls}
        for k in kernels + copies + fills:
            call = launches.get(k["args"]["correlation"])
            check(call is not None and call["ts"] <= k["ts"] + 50, f"{r.words}: {k} and its launch {call}")
        flows = [e for e in r.trace["traceEvents"] if e.get("cat") == "ac2g"]
        check(len(flows) >= 64, f"{r.words}: {len(flows)} flows")
        devices = [d for d in r.trace["deviceProperties"] if d["id"] >= 0]
        check([d["name"] for d in devices] == ["Intel(R) Data Center GPU Max 1550"] * 2 and
              devices[0]["maxComputeUnits"] == 512 and devices[0]["maxClockFrequency"] == 1550, f"{r.words}: {devices}")
        check(not [l for l in r.said() if l.get("loss")], f"{r.words}: {r.said()}")


def check_all():
    for version in VERSIONS:
        r = Recording("all", "6", script=f"version={version}", options=("-a", "default,collective_comm", "--plugin-config", "xpu.driver=on xpu.times=on"))
        r.check_kernels(6)
        check({k["pid"] for k in r.events("kernel")} == {1}, f"{r.words}: devices")
        args = r.events("kernel")[0]["args"]
        check(args["submitted_rel_to_start"] < 0 and args["appended_rel_to_start"] < 0, f"{r.words}: {args}")
        p2p = [c for c in r.events("gpu_memcpy") if c["name"].startswith("Memcpy D2D")]
        check(len(p2p) == 6 and p2p[0]["args"]["fromDevice"] == 0 and p2p[0]["args"]["toDevice"] == 1, f"{r.words}: {p2p[:1]}")
        driver = count(r.events("xpu_driver"))
        check(driver.get("zeCommandQueueSynchronize", 0) == (6 if version >= 11 else 0), f"{r.words}: {driver}")
        syncs = r.events("xpu_sync")
        check(len(syncs) == (6 if version >= 12 else 0), f"{r.words}: {len(syncs)} waits")
        if syncs:
            check(syncs[0]["name"] == "zeCommandQueueSynchronize" and
                  syncs[0]["args"]["Type"] == "HOST_COMMAND_QUEUE", f"{r.words}: {syncs[0]}")
        comms = r.events("collective_comm")
        check(count(comms) == ({"xccl::allreduce": 6} if version >= 17 else {}), f"{r.words}: {count(comms)}")
        if comms:
            check(comms[0]["args"]["Communicator_id"] == 7 and comms[0]["args"]["send_size"] == 8192, f"{comms[0]}")
        check(bool(r.events("overhead")), f"{r.words}: no overhead")


def check_counts():
    for version in (10, 1002):
        Recording("threads", "2000", script=f"version={version}").check_kernels(16000)
    Recording("fork", "5").check_kernels(10)
    r = Recording("kill", "3000", status=137, expected="")
    check(len(r.events("kernel")) > 2000, f"{r.words}: {len(r.events('kernel'))} of 3000 kernels")


def check_clocks_and_streams():
    r = Recording("add", "20", script="utc=1")
    calls = {c["args"]["correlation"]: c for c in r.events("xpu_runtime")}
    for k in r.events("kernel"):
        check(-1000 < k["ts"] - calls[k["args"]["correlation"]]["ts"] < 1e6, f"{r.words}: {k}")
    r = Recording("add", "20", script="plain=1", options=("--plugin-config", "xpu.driver=on"))
    r.check_kernels(20)
    check({k["tid"] for k in r.events("kernel")} == {1, 2} and not r.events("xpu_runtime"), f"{r.words}: streams")
    calls = {c["args"].get("correlation") for c in r.events("xpu_driver")}
    check(all(k["args"]["correlation"] in calls for k in r.events("kernel")), f"{r.words}: launches by the driver")


def check_kineto():
    r = Recording("kineto", "10")
    r.check_kernels(10)
    r.check_says("another user of PTI came")


def check_entry():
    # No Intel GPU: the source is not loaded.
    other = Machine(vendor="0x10de")
    r = Recording("add", "3", env={"CKINETO_XPU_ROOT": other.root})
    r.check_kernels(0)
    r = Recording("add", "3", env={"CKINETO_XPU_ROOT": other.root}, options=("--plugin", PLUGIN))
    r.check_kernels(3)


def check_doctor():
    def line(script="", **env):
        out = subprocess.run([CKINETO, "doctor"], env=environment(script, **env), stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=120).stdout.decode()
        return [l for l in out.splitlines() if " xpu " in f" {l} "][:1] or [out]
    found = line()[0]
    check("PTI 1.2.0" in found and "untested on hardware" in found, f"doctor: {found}")
    check("no Intel GPU" in line(CKINETO_XPU_ROOT="/nowhere")[0], "doctor without a GPU")
    absent = line(LD_LIBRARY_PATH="/nowhere", VIRTUAL_ENV="", CONDA_PREFIX="")[0]
    check("PTI was not found" in absent, f"doctor without PTI: {absent}")
    check("finds no GPU" in line("gpus=0")[0], "doctor without the driver of Level Zero")
    bare = Machine(node=False)
    check("is missing" in line(CKINETO_XPU_ROOT=bare.root)[0], "doctor in a container without devices")
    if os.geteuid() != 0:
        os.chmod(MACHINE.node, 0)
        check("no permission" in line()[0], "doctor without permission")
        os.chmod(MACHINE.node, 0o600)


def check_plugin():
    out = subprocess.run([CKINETO, "plugin", "check", PLUGIN], env=environment("gpus=1"), timeout=240,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(out.returncode == 0, f"plugin check: {out.returncode} {out.stdout.decode()[-3000:]}")


if __name__ == "__main__":
    check_add()
    check_all()
    check_counts()
    check_clocks_and_streams()
    check_kineto()
    check_entry()
    check_plugin()
    check_doctor()
    finish("xpu.record")
