"""What goes wrong with PTI does no harm: the program ends as it does alone, the trace is written, its
ledger says in a sentence what is missing, and everything else is in it."""
import os

from support import VERSIONS, Recording, check, finish

CODES = (1, 2, 3, 50, 51, 200)
# Without these nothing can be recorded; the others cost a part at most.
ESSENTIAL = ("ptiViewSetCallbacks", "ptiViewEnable_1")
OTHERS = ("ptiViewEnable_3", "ptiViewEnable_5", "ptiViewEnable_6", "ptiViewEnable_7", "ptiViewEnable_8",
          "ptiViewEnable_9", "ptiViewEnable_10", "ptiViewEnable_11", "ptiViewEnable_12", "ptiViewDisable",
          "ptiViewGPULocalAvailable", "ptiViewPushExternalCorrelationId", "ptiViewSetTimestampCallback",
          "ptiViewGetApiIdName", "ptiViewEnableRuntimeApiClass")


def check_calls():
    for function in ESSENTIAL:
        for code in CODES:
            r = Recording("add", "3", script=f"fail={function}:{code}")
            r.check_kernels(0)
            check(any(len(l["detail"].split()) >= 5 for l in r.said()), f"{r.words}: no sentence in {r.said()}")
    for function in OTHERS:
        for code in (2, 200):
            Recording("add", "3", script=f"fail={function}:{code}").check_kernels(3)
    r = Recording("add", "3", script="fail=ptiViewEnable_8:200")
    r.check_says("copies cannot be recorded: PTI says PTI_ERROR_INTERNAL")
    r = Recording("add", "3", script="gpus=0")
    r.check_kernels(0)
    r.check_says("it finds no GPU with Level Zero")
    r = Recording("add", "3", script="fail=ptiFlushAllViews:200")
    r.check_kernels(0)
    r.check_says("the last records of the session are missing", "buffers that PTI did not give back")
    r = Recording("add", "3", script="keep=1")
    r.check_kernels(0)
    check(r.count_line("buffers that PTI did not give back") == 1, f"{r.words}: {r.said()}")
    r = Recording("add", "3", script="fail=ptiViewGetNextRecord:3")
    r.check_kernels(0)


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
        check(r.count_line("kernels and calls without a name") == 10, f"{r.words}: {r.said()}")


def check_buffers():
    r = Recording("threads", "500", options=("--plugin-config", "xpu.buffer_bytes=8KiB xpu.max_bytes=16KiB"))
    dropped = r.count_line("records that had no buffer")
    kernels = len(r.events("kernel"))
    check(0 < dropped and kernels < 4000, f"{r.words}: {kernels} kernels, {dropped} dropped")
    r.check_says("xpu.max_bytes")


def check_versions():
    r = Recording("add", "3", script="version=9")
    r.check_kernels(0)
    r = Recording("add", "3", script="version=9", options=("--plugin", os.environ["PLUGIN"]),
                  env={"CKINETO_XPU_ROOT": "/nowhere"})
    r.check_says("is not supported")
    Recording("add", "3", script="version=2005").check_kernels(3)


def check_options():
    r = Recording("add", "3", options=("--plugin-config", "xpu.buffer_bytes=x"))
    r.check_kernels(0)
    r.check_says("xpu.buffer_bytes=x: invalid value")
    r = Recording("add", "3", env={"CKINETO_XPU": "xpu.wrong=1"})
    r.check_kernels(0)
    r.check_says("unknown option xpu.wrong")
    r = Recording("add", "3", env={"CKINETO_PTI_LIBRARY": "/nowhere/libpti_view.so"},
                  options=("--plugin", os.environ["PLUGIN"]))
    r.check_kernels(0)
    r.check_says("cannot open the library that CKINETO_PTI_LIBRARY names")


def check_real_library():
    """Intel's own library, which finds no GPU on this machine, or records nothing of the stand-ins."""
    real = os.environ.get("REAL_PTI")
    if not real:
        print("no libpti_view of Intel's: set CKINETO_PTI_TEST_LIBRARY")
        return
    r = Recording("add", "3", env={"CKINETO_PTI_LIBRARY": real, "LD_LIBRARY_PATH": os.path.dirname(real)},
                  options=("--plugin", os.environ["PLUGIN"]))
    r.check_kernels(0)
    check(bool(r.said()), f"{r.words}: nothing is said")


if __name__ == "__main__":
    check_calls()
    check_records()
    check_buffers()
    check_versions()
    check_options()
    check_real_library()
    finish("xpu.faults")
