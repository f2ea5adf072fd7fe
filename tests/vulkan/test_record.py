"""Programs on a real driver: results as without the layer, and each dispatch, copy and fill once, by the count
of an independent layer."""
from support import (CKINETO, CLIENT, SCRATCH, check, environment, events, finish, kernels, losses, need_device,
                     record, run)

need_device()

TIMED = ["once", "reuse", "idle", "pipelined", "secondary", "dispatches", "threads", "timeline", "devices", "named"]


def check_kernel(way, event, launches):
    args = event["args"]
    check(event["dur"] >= 0 and "device" in args and "stream" in args, f"{way}: {event}")
    check("timing" in args or args["correlation"] in launches, f"{way}: no launch: {event}")
    if way != "dispatches" and "timing" not in args:
        check(args["grid"] == [4, 1, 1] and args["block"] == [64, 1, 1], f"{way}: sizes: {args}")


for way in TIMED + ["simultaneous", "exit"]:
    plain = run([CLIENT, way], environment())
    result, trace, counts = record([CLIENT, way])
    check(result.returncode == plain.returncode and result.stdout == plain.stdout,
          f"{way}: {plain.returncode} {plain.stdout} became {result.returncode} {result.stdout} {result.stderr}")
    check(counts is not None, f"{way}: the witness counted nothing")
    check(kernels(trace) == counts["kernels"], f"{way}: {kernels(trace)} kernels, not {counts}")
    if way != "simultaneous":
        check(len(events(trace, "kernel")) == counts["kernels"], f"{way}: not each dispatch has times")
        check(len(events(trace, "gpu_memcpy")) == counts["copies"], f"{way}: copies: {counts}")
        check(len(events(trace, "gpu_memset")) == counts["fills"], f"{way}: fills: {counts}")
    check(not losses(trace), f"{way}: {losses(trace)}")
    launches = {e["args"].get("correlation") for e in events(trace, "runtime")
                if e["name"].startswith("vkQueueSubmit")}
    for kernel in events(trace, "kernel"):
        check_kernel(way, kernel, launches)
    names = {e["name"] for e in events(trace, "kernel") if "timing" not in e["args"]}
    expected = "a name of the program" if way == "named" else "scale_items"
    check(names <= {expected}, f"{way}: {names}")
    if way == "reuse":
        sizes = {e["args"]["bytes"] for e in events(trace, "gpu_memcpy")}
        check(sizes == {1024}, f"bytes of copies: {sizes}")
        spans = [(e["ts"], e["ts"] + e["dur"]) for e in events(trace, "kernel")]
        waits = [(e["ts"], e["ts"] + e["dur"]) for e in events(trace, "runtime")]
        check(min(s[0] for s in spans) > min(w[0] for w in waits) and
              max(s[1] for s in spans) < max(w[1] for w in waits), "device times are within those of the host")

# Programs that end with work under way: nothing hangs, what had ended is there.
for way in ("exit_running", "killed"):
    result, trace, _ = record([CLIENT, way])
    check(kernels(trace) >= 20, f"{way}: {kernels(trace)}")
    check(result.returncode in (6, 137), f"{way}: {result.returncode} {result.stderr}")

# The user's layers stay.
for name, value, expected in (("VK_INSTANCE_LAYERS", "VK_LAYER_own", "VK_LAYER_own:VK_LAYER_CKINETO_record"),
                              ("VK_LAYER_PATH", "/own", "/own:")):
    env = {**environment(), name: value}
    answer = run([CKINETO, "record", "-q", "-o", f"{SCRATCH}/env.json", "--", "sh", "-c", f'printf %s "${name}"'], env)
    check(answer.stdout.decode().startswith(expected), f"{name}: {answer.stdout}")

finish("record")
