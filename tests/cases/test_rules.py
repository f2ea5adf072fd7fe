"""Classes of kernels, findings, gaps and verify: small inputs that once gave a wrong answer."""
import re
import json

from harness import expect, finish, given, path_of, run, write_trace


def table(trace, name, *options):
    """A table of `analyze` as (rows as dictionaries, note)."""
    run("analyze", trace, "--only", name, "--json=" + path_of("out.json"), *options)
    with open(path_of("out.json"), encoding="utf-8") as file:
        found = json.load(file)["tables"][name]
    return [dict(zip(found["columns"], row)) for row in found["rows"]], found["note"]


def findings(trace):
    return json.loads(run("analyze", "--findings", "--json", trace))["findings"]


def event(name, category, start, length, tid=5, pid=5, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length, "args": args}


def launch(number, start, work=None, tid=5, name="cudaLaunchKernel"):
    """A launch, with the start of its kernel if it has one."""
    events = [event(name, "cuda_runtime", start, 5, tid=tid, correlation=number)]
    if work is not None:
        events.append(event("gemm", "kernel", work, 5, tid=7, pid=0, device=0, context=1, stream=7, correlation=number))
    return events


def captured(thread=5, works_meanwhile=False, begin="cudaStreamBeginCapture", end="cudaStreamEndCapture"):
    """200 launches with work; then 40 without, of a thread, while thread 5 captures."""
    events = [e for n in range(200) for e in launch(1001 + n, 20 * n, 20 * n + 10)]
    events.append(event(begin, "cuda_runtime", 5000, 5, correlation=2000))
    for n in range(40):
        events += launch(2100 + n, 5010 + 20 * n, tid=thread)
    if works_meanwhile:
        events += launch(2200, 5815, 5825, tid=thread)
    events.append(event(end, "cuda_runtime", 7000, 5, correlation=2001))
    return events


def check_capture():
    for begin, end in (("cudaStreamBeginCapture", "cudaStreamEndCapture"),
                       ("cuStreamBeginCapture_v2", "cuStreamEndCapture"),
                       ("hipStreamBeginCapture", "hipStreamEndCapture")):
        text = run("verify", "-v", write_trace("captured.json", captured(begin=begin, end=end)))
        expect(begin, "40: launches were captured" in text, True)
    trace = write_trace("backward.json", captured(thread=6))
    expect("a thread of a backward pass", "40: launches were captured" in run("verify", "-v", trace), True)
    run("verify", write_trace("other.json", captured(thread=6, works_meanwhile=True)), status=1)
    open_end = [e for e in captured() if "EndCapture" not in e["name"]]
    run("verify", write_trace("open.json", open_end))
    no_capture = [e for e in captured() if "Capture" not in e["name"]]
    run("verify", write_trace("really_lost.json", no_capture), status=1)


def check_given():
    trace = given("reading", "03-elementwise-kernel-taken-for-communication.json")
    if trace:
        rows, _ = table(trace, "kernel_types")
        expect("03: kinds", {r["kernel_type"] for r in rows}, {"COMPUTATION"})
    trace = given("reading", "07-launches-into-a-graph-being-captured.json")
    if trace:
        expect("07: note", "60: launches were captured" in run("verify", "-v", trace), True)
        expect("07: findings", [f["id"] for f in findings(trace) if f["id"] == "trace.unfit"], [])
    trace = given("reading", "09-evidence-denies-a-launch-that-is-there.json")
    if trace:
        rows, _ = table(trace, "idle_gaps")
        expect("09: evidence", rows[0]["evidence"], "hipLaunchKernel launched what came next 463.252 ms before it "
               "began; nothing else of the device ran meanwhile")
    trace, graph = (given("reading", "11-execution-trace-of-another-run" + end) for end in (".json", ".et.json"))
    if trace:
        rows, note = table(trace, "execution_trace", "--execution-trace", graph)
        expect("11: rows", rows, [])
        expect("11: note", "2 of 2 operators have another name in the execution trace" in note, True)
    for name, stalls in (("async_dtod", 0), ("async_dtoh_pageable", 1)):
        trace = given("analysis", name + ".json")
        if trace:
            expect(name, len([f for f in findings(trace) if f["id"] == "sync.stall"]), stalls)


def check_execution_trace():
    """External ids are taken only if nearly all of them lead to the same names."""
    nodes = [{"id": n, "name": f"aten::op{n}", "rf_id": n, "parent": 0} for n in range(1, 21)]
    graph = write_trace("graph.json", json.dumps({"schema": "1.0.1", "nodes": nodes}))
    for what, shift, joined in (("same", 0, 20), ("other", 1, 0)):
        operators = [event(f"aten::op{n + shift}", "cpu_op", 10 * n, 5, **{"External id": n}) for n in range(1, 21)]
        rows, note = table(write_trace(f"{what}.json", operators), "execution_trace", "--execution-trace", graph)
        expect(f"external ids of {what} names", len(rows), joined)
        expect(f"note of {what} names", "nothing was joined" in note, not joined)
    operators = [event(f"aten::op{n}.Tensor" if n > 1 else "aten::other", "cpu_op", 10 * n, 5,
                       **{"Record function id": n}) for n in range(1, 21)]
    rows, note = table(write_trace("overloads.json", operators), "execution_trace", "--execution-trace", graph)
    expect("names with overloads", len(rows), 19)
    expect("the one that differs", "1 of 20 operators have another name" in note, True)


def check_evidence():
    """The launch that is there is named; one that is not there is denied."""
    events = launch(1, 0, 10) + launch(2, 20, 500000) + [
        event("late", "kernel", 900000, 5, tid=7, pid=0, device=0, context=1, stream=7, correlation=99)]
    rows, _ = table(write_trace("gaps.json", events), "idle_gaps")
    said = {row["after"]: row["evidence"] for row in rows}
    expect("a launch that is there", said["gemm"].startswith("cudaLaunchKernel launched what came next"), True)
    expect("a launch that is not", said["late"].startswith("the trace does not have the call"), True)


def check_loader():
    """One finding says that the program waits for its loader; a trace without a device lists rules only once."""
    def steps(*inside):
        return [e for n in range(3) for e in [event(f"ProfilerStep#{n}", "user_annotation", 1000 * n, 900)] +
                [event(name, category, 1000 * n + at, length) for name, category, at, length in inside]]
    makes = ("torch/utils/data/dataloader.py(381): _get_iterator", "python_function", 5, 20)
    waits = ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", 30, 500)
    works = ("aten::mm", "cpu_op", 600, 100)
    for what, inside, wanted in (("both", (makes, waits, works), ["input.data_loader"]),
                                 ("no waits", (makes, works), ["input.synchronized_loader"])):
        trace = write_trace("loader.json", steps(*inside))
        expect(f"loader: {what}", [f["id"] for f in findings(trace) if f["id"].startswith("input.")], wanted)
    text = run("analyze", "--findings", trace)
    expect("no device: one line", len(re.findall(r"the trace has no device activity: record kernels: \d+ rules", text)), 1)
    expect("no device: no list", "kernel.tail_wave" in text, False)


check_capture()
check_loader()
check_given()
check_execution_trace()
check_evidence()
finish()
