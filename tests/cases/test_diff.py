"""ckineto diff names what changed: parts of a step are settled by the test that settles gates, they add up to the
step, and runs of different conditions say so in the first line.

usage: test_diff.py CKINETO FOLDER-OF-GIVEN-CASES
"""
import json

from harness import expect, failures, finish, given, path_of, run, write_trace


def steps_of(loader_us, batch=32, device="A", world=2, version="2.5"):
    """Five steps of 100 ms and what the data loader takes more; one step's loader is far off."""
    events, at = [], 1000000
    for i, wait in enumerate(loader_us):
        common = {"ph": "X", "pid": 1, "tid": 1}
        events.append({**common, "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": at, "dur": 10000 + wait})
        events.append({**common, "cat": "user_annotation", "ts": at, "dur": wait,
                       "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"})
        events.append({**common, "cat": "cpu_op", "name": "aten::linear", "ts": at + wait, "dur": 9000,
                       "args": {"Input Dims": [[batch, 64], [64, 64]], "External id": i + 1}})
        at += 10000 + wait
    return {"deviceProperties": [{"id": 0, "name": device}], "pytorch_version": version,
            "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": world}, "traceEvents": events}


def tables(before, after):
    return json.loads(run("diff", "--no-findings", "--json", before, after))["facts"]["tables"]


def rows(table):
    return [dict(zip(table["columns"], r)) for r in table["rows"]]


def check_parts_are_settled_as_gates_are():
    fast = write_trace("fast.json", steps_of([100, 110, 90, 105, 14000]))
    slow = write_trace("slow.json", steps_of([50000, 80000, 40000, 45000, 200000]))
    found = tables(fast, slow)
    first = rows(found["diff_summary"])[0]
    expect("the first row names the data loader", first["name"], "dataloader")
    parts = rows(found["diff_waterfall"])
    expect("first part", parts[0]["part"], "dataloader")
    expect("last rows", [p["part"] for p in parts[-2:]], ["unexplained", "step with its work"])
    total = sum(p["delta_us"] for p in parts[:-1])
    if abs(total - parts[-1]["delta_us"]) > 0.01:
        failures.append(f"parts add up to {total}, the step is {parts[-1]['delta_us']} us longer")
    run("diff", "--no-findings", "--fail-on", "category:part.dataloader>5%", fast, slow, status=1)


def check_conditions_come_first():
    a = write_trace("a.json", steps_of([100] * 5))
    b = write_trace("b.json", steps_of([100] * 5, batch=64, device="B", world=4, version="2.6"))
    first = " ".join(" ".join(run("diff", "--no-findings", a, b).split("\n\n")[:2]).split())
    for part in ("device A -> B", "world size 2 -> 4", "pytorch_version 2.5 -> 2.6", "batch shape [32, 64] -> [64, 64]"):
        if part not in first:
            failures.append(f"the first line is {first!r}, without {part!r}")
    if "different conditions" in run("diff", "--no-findings", a, a):
        failures.append("a trace differs from itself")


def check_one_program_on_two_profilers_has_one_condition():
    """libkineto labels devices that it has not recorded, CUPTI's overhead has a row, threads have any numbers."""
    def profile(backward_thread, *rows):
        made = steps_of([100] * 5)
        made["deviceProperties"] += [p for row, p in rows if p]
        made["traceEvents"] += [row for row, _ in rows] + [
            {"ph": "X", "pid": 1, "tid": backward_thread, "cat": "cpu_op", "name": "aten::mm", "ts": s["ts"] + 2000,
             "dur": 100, "args": {"Input Dims": [[32, 10], [10, 64]], "External id": 100}}
            for s in made["traceEvents"] if s["name"].startswith("ProfilerStep")]
        return made
    def label(pid, name, text):
        return {"ph": "M", "pid": pid, "tid": 0, "ts": 1, "name": name, "args": {name.split("_")[1]: text}}
    labels = [(label(n, "process_labels", f"GPU {n}"), None) for n in range(2, 16)]
    overhead = {"ph": "X", "pid": -1, "tid": 0, "cat": "overhead", "name": "Buffer Flush", "ts": 1000100, "dur": 9}
    one = write_trace("one.json", profile(2, *labels, (overhead, None)))
    other = write_trace("other.json", profile(0, (overhead, {"id": -1, "name": "CUPTI Overhead"}),
                                              (label(-1, "process_name", "CUPTI Overhead"), None)))
    for pair in ((one, other), (other, one)):
        expect("conditions", rows(tables(*pair)["diff_conditions"]), [])
    text = run("info", one)
    expect("rows that are mere labels", ("14 more devices are labelled" in text, "GPU 9" in text), (True, False))
    expect("the row of overheads", "device -1" in run("info", other), False)


def check_given_loaders():
    fast, slow = given("analysis", "loader_fast.json.gz"), given("analysis", "loader_slow.json.gz")
    if not fast or not slow:
        return
    there, back = (rows(tables(*pair)["diff_summary"]) for pair in ((fast, slow), (slow, fast)))
    expect("the given loaders", (there[0]["name"], 45000 < there[0]["delta_us"] < 55000), ("dataloader", True))
    expect("the other way round", sorted((r["name"], r["delta_us"], r["sure"]) for r in there),
           sorted((r["name"], -r["delta_us"], r["sure"]) for r in back))
    expect("what a finding that is gone should save",
           "no longer found (cpu.between_operators): would have saved up to 26" in run("diff", "--all", fast, slow), True)


def launches_of(durations, tail, start=1000000, rank=0, step=True):
    """Steps whose last kernel ends after them by TAIL us; the first one is warm-up."""
    events, at = [], start
    for i, dur in enumerate(durations):
        host = {"ph": "X", "pid": 1, "tid": 1}
        if step:
            events.append({**host, "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": at, "dur": dur})
        events.append({**host, "cat": "cpu_op", "name": "aten::mm", "ts": at + 5, "dur": dur // 2})
        events.append({**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + dur - 20, "dur": 5,
                       "args": {"correlation": i + 1}})
        events.append({"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "gemm", "ts": at + dur - 10,
                       "dur": tail + 10, "args": {"correlation": i + 1, "device": 0, "stream": 7}})
        at += dur + tail + 10
    return {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}


def check_steps_and_parts_have_one_measure():
    before = write_trace("before.json", launches_of([9000, 1000, 1010, 990, 1005, 1000, 1002, 1600], 70))
    after = write_trace("after.json", launches_of([7000, 750, 755, 748, 752, 753, 749, 1300], 20))
    found = tables(before, after)
    whole, parts = rows(found["diff_steps"])[1], rows(found["diff_waterfall"])
    expect("the step with its work", (round(whole["delta_pct"], 6), whole["before_us"], whole["before_steps"]),
           (round(parts[-1]["worth_pct"], 6), parts[-1]["before_us"], 7))
    expect("the sum of its parts", round(sum(p["worth_pct"] for p in parts[:-1]), 6), round(whole["delta_pct"], 6))
    expect("the steps left out", "1 of 8 before, 1 of 8 after" in found["diff_steps"]["note"], True)
    text = run("analyze", "--findings", before)
    expect("the steps a finding counts", "1 of 7 steps after the warm-up is longer" in " ".join(text.split()), True)
    text = run("diff", "--all", before, write_trace("even.json", launches_of([9000] + [1000] * 7, 70)))
    expect("findings without the warm-up", "saved up to 85.428 us of a step" in text and "1 of 7 steps is longer" in text, True)


def check_ranks_are_means():
    durations = [9000, 1000, 1010, 990, 1005, 1000, 1002, 1600]
    for step in (True, False):
        one = [write_trace(f"rank{r}.json", launches_of(durations, 70 + 20 * r, 1000000 + 10000 * r, r, step))
               for r in range(2)]
        path = write_trace("both.json", "")
        run("convert", *one, "-o", path)
        both, each = tables(path, path), [tables(p, p) for p in one]
        expect("ranks", "means of ranks: 2 before, 2 after" in both["diff_steps"]["note"], True)
        for table in ("diff_steps", "diff_categories", "diff_kernels", "diff_operators"):
            for k, row in enumerate(rows(both[table])):
                same = [rows(e[table])[k] for e in each]
                for column in ("before_us", "before_count"):
                    mean = sum(s.get(column) or 0 for s in same) / 2
                    if row.get(column) is not None and abs(row[column] - mean) > 0.01:
                        failures.append(f"{table} {row.get('name')} {column}: {row[column]}, the mean of ranks is {mean}")


def check_given_ranks():
    path = given("reading", "30-two-ranks-merged-by-pid-text.json")
    if not path:
        return
    expect("one rank of the given two", rows(tables(path, path)["diff_steps"])[0]["before_us"], 380)
    expect("rows of a rank", run("query", "--rank", "1", "--format", "csv", path,
                                 "SELECT count(*) FROM activities").split()[-1], "6")
    run("query", "--rank", "7", path, "SELECT 1", status=2)
    expect("an unknown rank", "no trace has rank 7: there are ranks 0 to 1" in run.stderr, True)


def optimizer_steps(length, waiting=0):
    """Steps whose optimizer launches many small kernels and keeps the host for LENGTH us."""
    events, at, number = [], 1000000, 0
    for i in range(5):
        host = {"ph": "X", "pid": 1, "tid": 1}
        whole = length + waiting + i % 3
        events.append({**host, "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": at, "dur": whole})
        events.append({**host, "cat": "cpu_op", "name": "Optimizer.step#SGD.step", "ts": at + waiting, "dur": length})
        for k in range(100):
            start = at + waiting + 1 + k * (length // 101)
            number += 1
            events.append({**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": start, "dur": 5,
                           "args": {"correlation": number}})
            events.append({"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": "add", "ts": start + 5, "dur": 2,
                           "args": {"correlation": number, "device": 0, "stream": 7}})
        at += whole + 10
    return {"traceEvents": events}


def check_findings_of_both_sides():
    a, b = write_trace("short.json", optimizer_steps(8000)), write_trace("long.json", optimizer_steps(12000))
    text = run("diff", a, b)
    changed = " ".join(text.split("changed (optimizer.not_fused)")[1].split()).partition(" after: ")
    for line, side, kept in zip((changed[0], "".join(changed[1:])), ("before", "after"), ("8.000 ms", "12.000 ms")):
        expect(f"the finding {side}", (f"{side}: would save " in line, f"keeps the host busy for {kept} a call" in line),
               (True, True))
    comment = path_of("comment.md")
    run("diff", "--markdown", comment, a, b)
    with open(comment, encoding="utf-8") as file:
        found = next(line for line in file if "optimizer.not" in line and "changed" in line)
    expect("the comment has both", ("before: " in found, "; after: " in found), (True, True))


def check_no_difference():
    for count in (2, 5):
        path = write_trace("same.json", steps_of([100, 110, 90, 105, 120][:count]))
        text = run("diff", path, path)
        expect(f"{count} steps and themselves", (text.count(", no difference\n"), "noise" in text.split("Changes, largest")[0]),
               (2, True))


def check_a_rest_is_not_a_step():
    """A profiler that is stopped leaves the beginning of one more step: empty, it does not count."""
    def content(last, inside=()):
        trace = steps_of([100, 110, 90])
        at = trace["traceEvents"][-1]["ts"] + 10000
        trace["traceEvents"].append({"ph": "X", "pid": 1, "tid": 1, "cat": "user_annotation", "name": "ProfilerStep#3",
                                     "ts": at, "dur": last})
        trace["traceEvents"] += [{"ph": "X", "pid": 1, "tid": 1, "cat": kind, "name": "f", "ts": at + 1, "dur": 5}
                                 for kind in inside]
        return trace
    for what, trace, count in (("a rest", content(40), 3), ("with Python", content(40, ["python_function"]), 3),
                               ("with work", content(40, ["cpu_op"]), 4), ("half a step", content(5000), 4)):
        path = write_trace("rest.json", trace)
        expect(what, rows(tables(path, path)["diff_steps"])[0]["before_steps"], count)
        expect(f"{what}: info", f"steps: {count}\n" in run("info", path), True)


check_parts_are_settled_as_gates_are()
check_conditions_come_first()
check_one_program_on_two_profilers_has_one_condition()
check_steps_and_parts_have_one_measure()
check_ranks_are_means()
check_given_loaders()
check_given_ranks()
check_findings_of_both_sides()
check_no_difference()
check_a_rest_is_not_a_step()
finish()
