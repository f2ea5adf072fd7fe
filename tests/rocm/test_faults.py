"""What goes wrong with rocprofiler-sdk does no harm: the program ends as it does alone, the trace is
written, its ledger says in a sentence what is missing, and everything else is in it."""
import os

from support import LIBRARIES, PLUGIN, VERSIONS, Recording, check, finish

CODES = (1, 12, 16, 18, 21, 28)
# Without these nothing can be recorded; the others cost a part at most.
ESSENTIAL = ("get_version", "create_context", "create_buffer", "start_context",
             "configure_callback_tracing_service", "query_buffer_tracing_kind_name",
             "query_callback_tracing_kind_name", "service_KERNEL_DISPATCH", "service_HIP_RUNTIME_API",
             "service_MEMORY_COPY", "configure_buffer_tracing_service")
OTHERS = ("get_timestamp", "stop_context", "create_callback_thread", "assign_callback_thread",
          "query_buffer_tracing_kind_operation_name", "query_callback_tracing_kind_operation_name",
          "iterate_buffer_tracing_kind_operations", "query_available_agents", "service_SCRATCH_MEMORY",
          "service_RCCL_API", "configure_external_correlation_id_request_service")


def check_calls():
    for function in ESSENTIAL:
        for code in CODES if function in ("create_context", "start_context") else (1, 16):
            r = Recording("add", "3", script=f"fail={function}:{code}")
            r.check_kernels(0)
            check(any(len(l["detail"].split()) >= 5 for l in r.said()), f"{r.words}: no sentence in {r.said()}")
    for function in OTHERS:
        for code in (1, 21):
            Recording("add", "3", script=f"fail={function}:{code}").check_kernels(3)
    # Nothing is handed over but what fills half a buffer.
    r = Recording("add", "3", script="fail=flush_buffer:1")
    r.check_kernels(0)
    r.check_says("the last records of the session are missing")
    for n in range(1, 8):
        r = Recording("add", "3", script=f"fail=create_context:1:{n}")
        check(r.events("kernel") or r.said(), f"{r.words}: nothing is said")


def check_records():
    for version in VERSIONS:
        r = Recording("add", "30", script=f"version={version} unknown=5")
        r.check_kernels(24)
        check(r.count_line("records of a kind that is not known here") == 6, f"{r.words}: {r.said()}")
        r = Recording("add", "30", script=f"version={version} short=10")
        r.check_kernels(27)
        check(r.count_line("records that are shorter than this version's") == 3, f"{r.words}: {r.said()}")
        r = Recording("add", "30", script=f"version={version} timeless=15")
        r.check_kernels(28)
        check(r.count_line("activities without a time of the device") == 2, f"{r.words}: {r.said()}")
        r = Recording("add", "30", script=f"version={version} nameless=3")
        r.check_kernels(30)
        check([e["name"] for e in r.events("kernel")].count("(unknown kernel)") == 10, f"{r.words}")
        check(r.count_line("kernels whose code object was loaded before recording could see it") == 10,
              f"{r.words}: {r.said()}")


def check_drops():
    r = Recording("add", "200", script="full=50", env={"CKINETO_ROCM": "rocm.full=drop"})
    kernels, dropped = len(r.events("kernel")), r.count_line("records dropped by rocprofiler-sdk")
    calls = len(r.events("cuda_runtime", "gpu_memcpy"))
    check(dropped > 0 and kernels + calls + dropped == 200 + 200 + 2 + 2 + 1,
          f"{r.words}: {kernels} kernels, {calls} others, {dropped} dropped")
    r.check_says("rocm.buffer_bytes")
    r = Recording("add", "200", script="full=50")
    r.check_kernels(200)
    check(r.count_line("records dropped by rocprofiler-sdk") == 0, f"{r.words}: {r.said()}")


def check_versions():
    r = Recording("add", "3", script="version=400")
    r.check_kernels(0)
    r.check_says("too old")
    # A later version with longer records and kinds that are unknown here.
    Recording("add", "3", script="version=10900").check_kernels(3)


def check_other_tools():
    torch = os.path.join(LIBRARIES, "libtorch_standin.so")
    r = Recording("add", "3", env={"ROCP_TOOL_LIBRARIES": torch})
    r.check_kernels(0)
    r.check_says("another tool of rocprofiler-sdk comes first", "libtorch_standin.so", "stood aside")
    r = Recording("add", "3", env={"ROCP_TOOL_LIBRARIES": torch, "CKINETO_ROCM": "rocm.others=on"})
    r.check_kernels(3)
    r.check_says("another tool of rocprofiler-sdk is in this program", "libtorch_standin.so")
    r = Recording("add", "3", env={"LD_PRELOAD": torch})
    r.check_kernels(3)
    r.check_says("another tool of rocprofiler-sdk is in this program")
    # ROCTX is recorded once where our library for it is in the program, too.
    taken = os.path.join(os.path.dirname(PLUGIN), "libckineto-roctx.so")
    r = Recording("roctx", "4", env={"LD_PRELOAD": taken})
    check([e["name"] for e in r.events("user_annotation")].count("inner") == 4, f"{r.words}: {r.events('user_annotation')}")


def check_options():
    r = Recording("add", "3", options=("--plugin-config", "rocm.smi_ms=x"))
    r.check_kernels(0)
    r.check_says("rocm.smi_ms=x: invalid value")
    r = Recording("add", "3", env={"CKINETO_ROCM": "rocm.wrong=1"})
    r.check_kernels(0)
    r.check_says("unknown option rocm.wrong")


if __name__ == "__main__":
    check_calls()
    check_records()
    check_drops()
    check_versions()
    check_other_tools()
    check_options()
    finish("rocm.faults")
