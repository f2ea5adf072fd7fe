"""Each source of device work at work: traces of programs that use what it can record, on stand-ins for the
vendors' libraries, and on drivers for processors where the source needs a driver."""
import json
import os
import subprocess
import tempfile

CKINETO = os.environ.get("CKINETO", "")
STRIPPED = ("CKINETO", "KINETO", "CUDA_INJECTION", "NVTX_", "ROCP_", "VK_", "OPENCL_LAYERS", "NCCL_", "RANK",
            "WORLD_SIZE")


class Missing(Exception):
    """What a source needs is not there."""


def environment(**more):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(STRIPPED) or k == "CKINETO_CPU"}
    return {**plain, **more}


def need(name):
    """The path in an environment variable of the tests."""
    path = os.environ.get(name, "")
    if not os.path.exists(path):
        raise Missing(f"{name} is not set, or names nothing")
    return path


def record(command, *options, **env):
    """The trace of a program under `ckineto record`."""
    with tempfile.TemporaryDirectory(prefix="ckineto-devices-") as folder:
        out = os.path.join(folder, "t.json")
        done = subprocess.run([CKINETO, "record", "-b", "16", "-q", "--no-summary", "-a", "all", "-o", out, *options, "--",
                               *command], env=environment(POCL_CACHE_DIR=folder, **env), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
        said = done.stderr.decode(errors="replace")
        if done.returncode == 77:
            raise Missing(f"{os.path.basename(command[0])} finds no device")
        if done.returncode or not os.path.exists(out):
            raise SystemExit(f"{' '.join(command)}: status {done.returncode}: {said[-2000:]}")
        with open(out, encoding="utf-8") as file:
            return json.load(file)


# ---- the sources --------------------------------------------------------------------------------------

CLUSTER = ("version 130202\n"
           "record Kernel11 name=clustered start=1000 end=51000 deviceId=0 contextId=1 streamId=7 correlationId=1 "
           "gridX=4 gridY=1 gridZ=1 blockX=128 blockY=1 blockZ=1 clusterX=2 clusterY=1 clusterZ=1\n")
LIVE = "device h100\ndevice t4\noverhead_every 7\n"
LONG = LIVE + "kernel_ns 20000000\n"  # until counters have been sampled
FIRST_UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"  # of the stand-in's device 0


def record_cuda():
    standin, plugin = need("CUDA_STANDIN"), need("CUDA_PLUGIN")
    client = os.path.join(standin, "standin-client13")
    metric = "cuda.pm_metrics=sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
    options = "cuda.memory=on cuda.nvml_ms=2 cuda.buffer_bytes=8MiB"
    with tempfile.TemporaryDirectory(prefix="ckineto-devices-") as folder:
        script = os.path.join(folder, "script")
        for way, count, text, more in (("streams", "20", LONG, metric), ("graph", "3", LIVE, ""), ("devices", "4", LIVE, ""),
                                       ("driver", "4", LIVE, ""), ("replay", "50", CLUSTER, "")):
            with open(script, "w", encoding="utf-8") as file:
                file.write(text)
            yield record([client, way, count], "--plugin", plugin, "--plugin-config", f"{options} {more}",
                         CKINETO_STANDIN=script, CKINETO_NVML_LIBRARY=need("CUDA_NVML"), FAKE_NVML_FIRST_UUID=FIRST_UUID,
                         LD_LIBRARY_PATH=os.path.join(standin, "own13"))


def record_rocm():
    standin = need("ROCM_STANDIN")
    libraries = os.path.join(standin, "lib")
    for way, script in (("all", "version=10300 kernel_us=2000 peer=1"), ("add", "version=10300 kernel_us=20000")):
        yield record([os.path.join(standin, "rocm_client"), way, "12"], "--plugin-config",
                     "rocm.memory=on rocm.hsa=on rocm.smi_ms=5", CKINETO_ROCM_STANDIN=script, CKINETO_SMI_STANDIN="slowdown=1",
                     CKINETO_ROCM_SMI_LIBRARY=os.path.join(libraries, "librocm_smi64.so.7"), LD_LIBRARY_PATH=libraries)


def record_xpu():
    standin = need("XPU_STANDIN")
    with tempfile.TemporaryDirectory(prefix="ckineto-devices-") as root:
        os.makedirs(os.path.join(root, "sys/class/drm/renderD128/device"))
        os.makedirs(os.path.join(root, "dev/dri"))
        for path, text in (("sys/class/drm/renderD128/device/vendor", "0x8086\n"), ("dev/dri/renderD128", "")):
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        for way in ("add", "all"):
            yield record([os.path.join(standin, "xpu_client"), way, "12"], "--plugin-config", "xpu.driver=on xpu.times=on",
                         CKINETO_XPU_ROOT=root, CKINETO_XPU_STANDIN="version=1002",
                         LD_LIBRARY_PATH=os.path.join(standin, "lib"))


def record_opencl():
    client = need("OPENCL_CLIENT")
    for way in ("all", "extensions"):
        yield record([client, way])


def record_vulkan():
    client = need("VULKAN_CLIENT")
    for way in ("once", "reuse", "timeline", "simultaneous"):
        yield record([client, way])


def record_nccl():
    client = need("NCCL_CLIENT")
    yield record([client, "6", "train"], "--plugin-config", "nccl.proxy=on nccl.steps=on nccl.net=on", SIM=need("SIM"))


SOURCES = {"CUDA": record_cuda, "ROCm": record_rocm, "XPU": record_xpu, "OpenCL": record_opencl, "Vulkan": record_vulkan,
           "NCCL": record_nccl}


def record_all():
    """(traces by source, why a source is left out by source)"""
    traces, missing = {}, {}
    for name, make in SOURCES.items():
        try:
            traces[name] = list(make())
        except Missing as why:
            missing[name] = str(why)
            print(f"{name} is left out: {why}", flush=True)
    return traces, missing
