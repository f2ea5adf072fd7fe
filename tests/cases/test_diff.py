"""ckineto diff names what changed: parts of a step are settled by the test that settles gates, they add up to the
step, and runs of different conditions say so in the first line.

usage: test_diff.py CKINETO FOLDER-OF-GIVEN-CASES
"""
import json

from harness import expect, failures, finish, given, run, write_trace


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
    return json.loads(run("diff", "--no-findings", "--json", "-", before, after))["facts"]["tables"]


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
    first = run("diff", "--no-findings", a, b).splitlines()[0]
    for part in ("device A -> B", "world size 2 -> 4", "pytorch_version 2.5 -> 2.6", "batch shape [32, 64] -> [64, 64]"):
        if part not in first:
            failures.append(f"the first line is {first!r}, without {part!r}")
    if "not the same" in run("diff", "--no-findings", a, a):
        failures.append("a trace differs from itself")


def check_given_loaders():
    fast, slow = given("analysis", "loader_fast.json.gz"), given("analysis", "loader_slow.json.gz")
    if fast and slow:
        first = rows(tables(fast, slow)["diff_summary"])[0]
        expect("the given loaders", (first["name"], 45000 < first["delta_us"] < 55000), ("dataloader", True))


check_parts_are_settled_as_gates_are()
check_conditions_come_first()
check_given_loaders()
finish()
