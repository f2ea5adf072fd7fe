"""Devices of writers other than Kineto, several ranks in one file, and steps that have other names."""
import json
import os
import sys

from harness import CKINETO, expect, failures, finish, given, path_of, query, run, write_trace


def meta(pid, name, labels=None, threads=()):
    """Names of a process and its threads."""
    rows = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}]
    if labels:
        rows.append({"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": labels}})
    return rows + [{"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": text}}
                   for tid, text in threads]


def span(pid, tid, name, ts, dur, cat=None, **args):
    """A range."""
    event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return {**event, "cat": cat} if cat else event


def tables(trace, names, *options):
    """Tables of analyze: name → list of rows as dictionaries."""
    text = run("analyze", trace, "--only", names, "--json", *options)
    if not text.strip():
        return {}
    found = {}
    for name, table in json.loads(text)["tables"].items():
        found[name] = [dict(zip(table["columns"], row)) for row in table["rows"]]
    return found


def kinds(trace):
    """Kind → how many activities."""
    return {r["kind"]: r["n"] for r in query(trace, "select kind, count(*) n from activities group by kind")}


def self_cpu_us(trace, *options):
    """The sum of own host times that the table prints."""
    rows = json.loads(run("table", trace, "--json", *options))["rows"]
    return sum(r["self_cpu_time_total_ns"] for r in rows) / 1000


def check_no_internal_number(what, trace):
    """The mark of a process or thread whose number is a text is printed nowhere."""
    folder = path_of(what.replace(" ", "_"))
    os.makedirs(folder, exist_ok=True)
    text = run("analyze", trace, "--all", "--series") + run("analyze", trace, "--findings", status=None)
    text += run("analyze", trace, "--json") + run("info", trace) + run("info", trace, "--json")
    text += run("table", trace) + run("table", trace, "--json") + run("report", trace, "--text", status=None)
    for table in ("processes", "tracks", "activities", "devices"):
        text += run("query", trace, f"select * from {table}")
    for ending in ("json", "csv", "jsonl", "folded"):
        path = os.path.join(folder, "out." + ending)
        run("convert", trace, "-o", path)
        text += open(path, encoding="utf-8").read()
    if "-92233720368547" in text:
        at = text.index("-92233720368547")
        failures.append(f"{what}: prints an internal number: {text[max(0, at - 200):at + 40]}")


# ---- torch_npu and msprof: process rows "Ascend Hardware", labels "NPU" --------------------------------------
def check_npu():
    # pid = process << 10 | place << 5 | device
    host, hard, hccl, overlap = 77 << 10 | 1 << 5 | 31, 77 << 10 | 13 << 5 | 2, 77 << 10 | 14 << 5 | 2, 77 << 10 | 15 << 5 | 2
    events = meta(host, "Python", "CPU") + meta(hard, "Ascend Hardware", "NPU", [(2, "Stream 2"), (70001, "Step Trace(Model ID:1)")])
    events += meta(hccl, "Communication", "NPU", [(5, "Group 0 Communication"), (6, "Plane 0")]) + meta(overlap, "Overlap Analysis", "NPU")
    for pid, place in ((host, 1), (hard, 13), (hccl, 14), (overlap, 15)):
        events.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": place}})
    events += [span(host, 9, "aten::mm", 100, 50, "cpu_op"), span(hard, 2, "MatMul", 200, 10),
               span(hard, 2, "MEMCPY_ASYNC", 220, 5), span(hard, 2, "EVENT_WAIT", 230, 7),
               span(hard, 70001, "Iteration 1", 200, 40), span(hccl, 5, "hcom_allReduce__1", 205, 20),
               span(hccl, 6, "Notify_Wait", 205, 3), span(hccl, 6, "Memcpy", 208, 17),
               span(overlap, 0, "Computing", 200, 10)]
    trace = write_trace("npu.json", events)
    expect("npu: kinds", kinds(trace), {"cpu_op": 1, "kernel": 2, "gpu_memcpy": 1, "cuda_sync": 1,
                                        "gpu_user_annotation": 4})
    expect("npu: self CPU", self_cpu_us(trace), 50.0)
    expect("npu: device", [r["gpu"] for r in tables(trace, "gpu_summary").get("gpu_summary", [])], [2])
    busy = tables(trace, "temporal_breakdown")["temporal_breakdown"][0]
    expect("npu: busy", (busy["compute_us"], busy["kernel_us"]), (10.0, 25.0))
    check_npu_communication(trace)
    expect("npu: written and read again", kinds(run_convert(trace, "npu2.json")), kinds(trace))
    case = given("reading", "24-npu-rows.json")
    if case:
        expect("case 24: kernels", kinds(case).get("kernel"), 11)
        expect("case 24: self CPU", self_cpu_us(case), 400.0)
        expect("case 24: devices", len(tables(case, "gpu_summary")["gpu_summary"]), 1)
        expect("case 24: overlap", tables(case, "overlap")["overlap"][0]["overlap_pct"], 100.0)
        expect("case 24: exposed", tables(case, "collective_groups")["collective_groups"][0]["exposed_us"], 0.0)
        check_percent("case 24", case)


def check_percent(what, trace):
    """Own times of device rows are 100 % of what the device did; the heading calls it by its name."""
    text = run("table", trace)
    expect(what + ": heading", "Self NPU %" in text and "CUDA" not in text, True)
    rows = [r for r in json.loads(run("table", trace, "--json"))["rows"] if r["device"] != "cpu"]
    total = sum(r["self_device_time_total_ns"] for r in rows)
    expect(what + ": what is listed", sorted({r["name"] for r in rows} & {"Computing", "Notify_Wait", "Iteration 1"}), [])
    expect(what + ": total", total, query(trace, "select sum(dur_ns) ns from activities where kind in "
                                          "('kernel', 'gpu_memcpy', 'cuda_sync')")[0]["ns"])


def check_npu_communication(trace):
    """Collectives count as communication, their tasks and the overview as nothing."""
    expect("npu: collectives", [(r["name"], r["count"], r["sum_us"], r["exposed_us"]) for r in
                                tables(trace, "collective_groups")["collective_groups"]], [("allreduce", 1, 20.0, 15.0)])
    expect("npu: overlap", tables(trace, "overlap")["overlap"][0]["overlap_pct"], 25.0)
    kernels = {r["name"]: r["kernel_type"] for r in tables(trace, "kernels")["kernels"]}
    expect("npu: kernels", kernels, {"MatMul": "COMPUTATION", "hcom_allReduce__1": "COMMUNICATION", "MEMCPY_ASYNC": "MEMORY"})
    check_percent("npu", trace)
    for ending in ("folded", "speedscope.json"):
        expect("npu: frames of " + ending, "Computing" in open(run_convert(trace, "npu3." + ending), encoding="utf-8").read(), False)


def run_convert(trace, name):
    """The same trace, written by ckineto."""
    path = path_of(name)
    run("convert", trace, "-o", path)
    return path


# ---- XLA (JAX, TensorFlow): "/device:GPU:0", streams are threads ---------------------------------------------
def check_xla():
    gpu = meta(1, "/device:GPU:0", None, [(13, "Stream #13(Compute)"), (14, "Stream #14(MemcpyH2D)"), (20, "XLA Ops"), (21, "Steps")])
    events = meta(701, "/host:CPU", None, [(1, "python")]) + gpu + [
        span(701, 1, "PjitFunction(f)", 10, 30), span(1, 13, "gemm_fusion_dot", 50, 20), span(1, 14, "MemcpyH2D", 45, 4),
        span(1, 20, "fusion.1", 50, 20), span(1, 21, "0", 40, 40)]
    trace = write_trace("xla.json", events)
    expect("xla gpu: kinds", kinds(trace), {"user_annotation": 1, "kernel": 1, "gpu_memcpy": 1, "gpu_user_annotation": 2})
    expect("xla gpu: device", [r["gpu"] for r in tables(trace, "gpu_summary")["gpu_summary"]], [0])
    expect("xla gpu: self CPU", self_cpu_us(trace), 30.0)
    tpu = meta(701, "/host:CPU") + meta(4, "/device:TPU:1", None, [(2, "XLA Modules"), (3, "XLA Ops"), (1, "Steps")]) + [
        span(4, 2, "jit_f(42)", 0, 100), span(4, 3, "fusion.1", 0, 60), span(4, 3, "copy.2", 60, 30), span(4, 1, "7", 0, 100)]
    trace = write_trace("tpu.json", tpu)
    expect("xla tpu: kinds", kinds(trace), {"kernel": 2, "gpu_user_annotation": 2})
    expect("xla tpu: heading", "Self TPU %" in run("table", trace), True)
    expect("xla tpu: device", [r["gpu"] for r in tables(trace, "gpu_summary")["gpu_summary"]], [1])


# ---- rocprof, RPD and converters -----------------------------------------------------------------------------
def check_others():
    rocm = meta("6", "GPU0") + meta("2", "CPU HIP API") + meta("1", "COPY") + [
        span("2", 11, "hipLaunchKernel", 0, 5), span("6", 0, "Cijk_gemm", 10, 20), span("6", 0, "CopyHostToDevice", 40, 5)]
    trace = write_trace("rocm.json", rocm)
    expect("rocprof: kinds", kinds(trace), {"user_annotation": 1, "kernel": 1, "gpu_memcpy": 1})
    expect("rocprof: device", [r["gpu"] for r in tables(trace, "gpu_summary")["gpu_summary"]], [0])
    nsys = [span("Device 1", "Stream 7", "gemm", 0, 20, "cuda"), span("Host", "main", "train", 0, 50, "nvtx")]
    trace = write_trace("nsys.json", nsys)
    expect("converter: kinds", kinds(trace), {"user_annotation": 1, "kernel": 1})
    expect("converter: category stays", query(trace, "select category from activities where kind='kernel'"), [{"category": "cuda"}])
    expect("converter: device", [r["gpu"] for r in tables(trace, "gpu_summary")["gpu_summary"]], [1])
    expect("converter: written and read again", kinds(run_convert(trace, "nsys2.json")), kinds(trace))
    check_no_internal_number("converter", trace)
    host = meta(5, "GPU trainer") + [span(5, 1, "step", 0, 10)]
    expect("a program's name is not a device", kinds(write_trace("name.json", host)), {"user_annotation": 1})


# ---- several ranks in one file -------------------------------------------------------------------------------
def rank_events(label, shift, device=0):
    """Three launches and kernels of a rank; both ranks run at the same time, with the same ids."""
    cpu, gpu = f"{label} 251", f"{label} {device}"
    events = meta(cpu, "python", "CPU") + meta(gpu, "python", f"GPU {device}")
    for i in range(3):
        events += [span(cpu, 5, "cudaLaunchKernel", 1000 + 20 * i + shift, 5, "cuda_runtime", correlation=i + 1),
                   span(gpu, 7, "gemm", 1100 + 100 * i + shift, 80, "kernel", device=device, stream=7, correlation=i + 1)]
        events += [{"ph": "s", "id": i + 1, "cat": "ac2g", "name": "ac2g", "pid": cpu, "tid": 5, "ts": 1000 + 20 * i + shift},
                   {"ph": "f", "bp": "e", "id": i + 1, "cat": "ac2g", "name": "ac2g", "pid": gpu, "tid": 7, "ts": 1100 + 100 * i + shift}]
    return events


def check_merged(what, trace, ranks, device=0):
    found = tables(trace, "temporal_breakdown,gpu_summary,idle_named")
    rows = [(r["rank"], r["compute_us"], r["idle_us"], r["kernel_us"]) for r in found["temporal_breakdown"]]
    expect(what + ": by rank", rows, [(r, 240.0, 40.0, 280.0) for r in ranks])
    expect(what + ": devices", [(r["rank"], r["gpu"]) for r in found["gpu_summary"]], [(r, device) for r in ranks])
    if "one rank cannot be compared" in run("analyze", trace, "--findings", status=None):
        failures.append(f"{what}: findings ask for the traces of all ranks")
    check_no_internal_number(what, trace)


def check_ranks():
    header = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2},
              "deviceProperties": [{"id": 0, "name": "X"}, {"id": 0, "name": "X"}]}
    events = rank_events("[TP00]", 0) + rank_events("[TP01]", 1)
    trace = write_trace("merged.json", {**header, "traceEvents": events})
    check_merged("merged", trace, [0, 1])
    # Launches are those of the same process, though the other rank's came between with the same id.
    joined = ("select count(*) n from activities k join activities l on l.correlation_id = k.correlation_id and l.kind='runtime' "
              "join tracks a on a.track = k.track join tracks b on b.track = l.track "
              "join processes p on p.process = a.process join processes q on q.process = b.process "
              "where k.kind='kernel' and p.rank = q.rank")
    expect("merged: launches within their rank", query(trace, joined), [{"n": 6}])
    expect("merged: devices", [r["n"] for r in query(trace, "select count(*) n from processes where is_device")], [2])
    check_merged("merged, written by ckineto", run_convert(trace, "merged2.json"), [0, 1])
    several = rank_events("[TP00-DP00]", 0) + rank_events("[TP00-DP01]", 1)
    check_merged("merged by two dimensions", write_trace("dims.json", several), [0, 1])
    words = rank_events("rank 3:", 0, 3) + rank_events("rank 1:", 1, 3)
    check_merged("merged by words", write_trace("words.json", words), [1, 3], 3)
    case = given("reading", "30-two-ranks-merged-by-pid-text.json")
    if case:
        check_merged("case 30", case, [0, 1])


def check_memory():
    def record(pid, ts, size, address, total):
        return {"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "pid": pid, "tid": pid, "ts": ts,
                "args": {"Bytes": size, "Addr": address, "Device Type": 0, "Device Id": -1, "Total Allocated": total}}
    events = meta(1, "a", "CPU") + meta(2, "b", "CPU")
    events += [record(1, 10, 100, 64, 100), record(2, 11, 30, 64, 30), record(2, 12, -30, 64, 0), span(1, 1, "aten::x", 5, 20, "cpu_op"),
               span(2, 2, "aten::x", 5, 20, "cpu_op")]
    found = tables(write_trace("memory.json", events), "memory,memory_leaks,memory_operators")
    expect("memory: by process", sorted((r["device"], r["peak_allocated_bytes"], r["end_allocated_bytes"]) for r in found["memory"]),
           [("CPU, process 1", 100, 100), ("CPU, process 2", 30, 0)])
    expect("memory: what was not released", [(r["device"], r["bytes"]) for r in found["memory_leaks"]], [("CPU, process 1", 100)])
    expect("memory: operators", sorted((r["device"], r["calls"]) for r in found["memory_operators"]),
           [("CPU, process 1", 1), ("CPU, process 2", 1)])


PROGRAM = """
import sys
import ckineto
rank = int(sys.argv[1])
ckineto.add_metadata("ckineto_rank", {"rank": rank, "world_size": 2})
with ckineto.range("work %d" % rank):
    pass
"""


def check_recorded():
    """Two processes of a job in one recording."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    libraries = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(CKINETO))), "lib")
    program, trace = path_of("program.py"), path_of("recorded.json")
    with open(program, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    one = f"'{sys.executable}' '{program}'"
    run("record", "-o", trace, "--", "sh", "-c", f"{one} 0 & {one} 1 & wait",
        env={"CKINETO_LIBDIR": libraries, "PYTHONPATH": os.path.join(root, "python")})
    expect("recorded: by rank", sorted((r["rank"], r["name"]) for r in tables(trace, "annotations")["annotations"]),
           [(0, "work 0"), (1, "work 1")])
    expect("recorded: header", json.load(open(trace, encoding="utf-8")).get("distributedInfo"), {"world_size": 2})
    if "one rank cannot be compared" in run("analyze", trace, "--findings", status=None):
        failures.append("recorded: findings ask for the traces of all ranks")


# ---- steps ---------------------------------------------------------------------------------------------------
def with_steps(names):
    events = meta(1, "python", "CPU")
    for i, name in enumerate(names):
        events += [span(1, 1, name, 1000 * i, 900, "user_annotation"), span(1, 1, "aten::mm", 1000 * i + 100, 50, "cpu_op")]
    return events


def steps_of(trace, *options):
    """(number, duration) of the table of steps."""
    return [(r["step"], r["dur_us"]) for r in tables(trace, "steps", *options)["steps"]]


def check_steps():
    numbered = [("0", 900.0), ("1", 900.0), ("2", 900.0)]
    servers = {"sglang": ["step[EXTEND bs=2 toks=800]", "step[DECODE bs=32]", "step[DECODE bs=32]"],
               "vllm": ["execute_context_3(128)_generation_0(0)", "execute_context_0(0)_generation_3(3)",
                        "execute_context_0(0)_generation_2(2)"],
               "vllm_detailed": [f"execute_{i}_context_3(sq1sk2)_generation_2(sq1sk3)" for i in range(3)],
               "vllm_old": ["execute_new_2_cached_0", "execute_new_0_cached_2", "execute_new_0_cached_2"]}
    for what, names in servers.items():
        trace = write_trace(what + ".json", with_steps(names))
        expect(what + ": steps", steps_of(trace), numbered)
        expect(what + ": query", query(trace, "select count(*) n from steps"), [{"n": 3}])
        expect(what + ": a range", steps_of(trace, "--steps", "1..2"), numbered[1:])
    trace = write_trace("own.json", with_steps(["train 4", "train 5", "evaluate", "train 6"]))
    expect("own names: none by default", steps_of(trace)[0][0], "all")
    expect("own names: their numbers", [s[0] for s in steps_of(trace, "--step-pattern", "train ")], ["4", "5", "6"])
    expect("own names: alternatives", [s[0] for s in steps_of(trace, "--step-pattern", "tr*n|evaluate")], ["0", "1", "2", "3"])
    part = path_of("part.json")
    run("slice", trace, "--steps", "5", "--step-pattern", "train ", "-o", part)
    expect("own names: slice", sorted(r["name"] for r in query(part, "select name from activities")), ["aten::mm", "train 5"])
    rows = json.loads(run("table", trace, "--json", "--step-pattern", "train *"))["rows"]
    expect("own names: table", [r["count"] for r in rows if r["name"].startswith("train")], [3])
    run("diff", trace, trace, "--step-pattern", "train ")
    run("report", trace, "--text", "--step-pattern", "train ")
    run("slice", trace, "--step-pattern", "train ", "-o", part, status=2)
    both = write_trace("both.json", with_steps(["ProfilerStep#7", "step[DECODE bs=1]"]))
    expect("ProfilerStep comes first", [s[0] for s in steps_of(both)], ["7"])


check_npu()
check_xla()
check_others()
check_ranks()
check_memory()
check_recorded()
check_steps()
finish()
