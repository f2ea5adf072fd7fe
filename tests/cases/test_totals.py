"""What is missing from a trace, and its totals: what `info`, `verify`, the findings and the tables say of one trace
agrees, and what was never recorded is not taken for what a recorder lost."""
import json
import re

from harness import expect, finish, given, path_of, query, run, write_trace

BUFFERS, PROCESSES = "larger buffers", "processes not recorded"


def op(name, ts, dur, pid=1, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": 1, "ts": ts, "dur": dur, "args": args}


def on_device(kind, ts, dur, pid=0, **args):
    return {"ph": "X", "cat": kind, "name": kind, "pid": pid, "tid": "stream 7", "ts": ts, "dur": dur,
            "args": {"device": pid, "stream": 7, **args}}


def document(events, ledger=(), **header):
    lines = [{"detail": "", **dict(zip(("source", "reason", "count", "loss"), line))} for line in ledger]
    return {"traceEvents": events, **({"ckineto": {"ledger": lines}} if lines else {}), **header}


def unfit(trace):
    """The finding of a trace as (sentence, advice), or None."""
    report = json.loads(run("analyze", "--findings", "--json", trace))
    found = [f for f in report["findings"] if f["id"] == "trace.unfit"]
    return (found[0]["sentence"], found[0]["advice"]) if found else None


def lost(trace):
    return json.loads(run("info", "--json", trace))["lost"]


def rules(trace):
    report = json.loads(run("verify", "--json", trace, status=None))
    return {f["rule"]: (f["severity"], f["count"]) for f in report["traces"][0]["findings"] if f["rule"][:7] == "ledger."}


TEXT = '{"x": 1, "traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}], "x": 2%s}'


def check_headers():
    """Members of the header are not events: read, repaired while reading, or read again after repair."""
    plain, broken = write_trace("plain.json", TEXT % ""), write_trace("broken.json", TEXT % ', "y": +1')
    run("repair", broken, "-o", path_of("repaired.json"))
    for trace in (plain, broken, path_of("repaired.json")):
        expect(f"{trace}: lost", lost(trace), 0)
        expect(f"{trace}: finding", unfit(trace), None)
        expect(f"{trace}: rule", [v for k, v in rules(trace).items() if v[0] == "note"], [("note", 1)])


def check_ends():
    """An end without a begin is an event of the file that nothing could be made of."""
    half = {"pid": 1, "tid": 1}
    trace = write_trace("ends.json", [op("a", 0, 10), op("b", 10, 10), {"ph": "E", "ts": 5, "name": "stray", **half}])
    expect("ends: lost", lost(trace), 1)
    expect("ends: rules", rules(trace), {"ledger.unread": ("warning", 1)})
    sentence, advice = unfit(trace)
    expect("ends: sentence", sentence.startswith("1 event of the file could not be used, 33.3 % of all"), True)
    expect("ends: advice", BUFFERS in advice, False)
    expect("ends: evidence", "ledger.unread: reader: end without a begin: 1" in run("analyze", "--findings", trace), True)


def check_losses():
    """Of what a recorder lost, larger buffers keep more; processes are not counted as events."""
    events = [op("a", 10 * n, 10) for n in range(8)]
    trace = write_trace("full.json", document(events, [("program", "buffer full", 2, True)]))
    expect("full: lost", lost(trace), 2)
    expect("full: rules", rules(trace), {"ledger.losses": ("warning", 2)})
    sentence, advice = unfit(trace)
    expect("full: sentence", sentence.startswith("2 events could not be recorded, 20.0 % of all"), True)
    expect("full: advice", BUFFERS in advice, True)
    trace = write_trace("processes.json", document(events, [(PROCESSES, "not attached", 2, True)]))
    expect("processes: lost", lost(trace), 0)
    expect("processes: finding", unfit(trace), None)
    expect("processes: rules", rules(trace), {"ledger.losses": ("warning", 2)})
    expect("processes: words", "2: processes whose events are missing" in run("verify", trace, status=1), True)
    expect("processes: info", "events of 2 processes are missing from this trace" in run("info", trace), True)
    run("convert", trace, "-o", path_of("out.csv"))
    expect("processes: convert", "events of 2 processes are missing" in run.stderr, True)


def busy_lines(trace, *options):
    return [line.strip() for line in run("info", *options, trace).splitlines() if re.search("covers? .* recorded ", line)]


def check_devices():
    """Busy is a device with kernels, copies and memsets, for all commands; each line names its device."""
    events = [op("a", 0, 100), on_device("kernel", 10, 20), on_device("cuda_runtime", 30, 50), on_device("gpu_memset", 80, 5)]
    trace = write_trace("busy.json", events)
    expect("busy", busy_lines(trace), ["device 0: 2 kernels, copies and memsets cover 25.000 us, 25.0 % of the recorded 100.000 us"])
    run("analyze", trace, "--only", "temporal_breakdown", "--json=" + path_of("out.json"))
    with open(path_of("out.json"), encoding="utf-8") as file:
        table = json.load(file)["tables"]["temporal_breakdown"]
    row = dict(zip(table["columns"], table["rows"][0]))
    expect("busy, table", row["compute_us"] + row["non_compute_us"], 25)
    only_ranges = write_trace("ranges.json", [op("a", 0, 100), on_device("cuda_profiler_range", 10, 20)])
    expect("nothing is known of its work", busy_lines(only_ranges), [])
    for rank in (0, 1):
        write_trace(f"rank{rank}.json", document([op("a", 0, 100), on_device("kernel", 10, 20)],
                                                 distributedInfo={"rank": rank, "world_size": 2}))
    run("convert", path_of("rank0.json"), path_of("rank1.json"), "-o", path_of("both.json"), "-q")
    lines = busy_lines(path_of("both.json"))
    expect("an equal line", len(set(lines)), 2)
    expect("two ranks", [re.findall(r"rank \d", line) for line in lines], [["rank 0"], ["rank 1"]])


def check_ranks():
    """A rank of a merged trace has the window and the header of its own file."""
    parts = [write_trace(f"part{rank}.json", document(
        [op("a", 100 * rank, 100 + 100 * rank), on_device("kernel", 100 * rank + 10, 50)],
        distributedInfo={"rank": rank, "world_size": 2, "backend": "nccl"}, environment={"A": rank})) for rank in (0, 1)]
    merged = path_of("merged.json")
    run("convert", *parts, "-o", merged, "-q")
    expect("ranks: busy", [re.search(r"covers? .* of .* us", line)[0] for line in busy_lines(merged)],
           ["covers 50.000 us, 50.0 % of the recorded 100.000 us", "covers 50.000 us, 25.0 % of the recorded 200.000 us"])
    for rank, part in enumerate(parts):
        expect(f"rank {rank}: window", ("window of %d.000 us" % (100 + 100 * rank)) in run("info", "--rank", rank, merged), True)
        expect(f"rank {rank}: diff", "different conditions" in run("diff", "--rank", rank, part, merged), False)
        run("slice", merged, "--rank", rank, "-o", path_of("one.json"))
        header = {r["key"]: json.loads(r["value"]) for r in query(path_of("one.json"), "select * from metadata")}
        expect(f"rank {rank}: header", (header["distributedInfo"], header["environment"]),
               ({"rank": rank, "world_size": 2, "backend": "nccl"}, {"A": rank}))


def check_means():
    """Means are rounded, as in the tables."""
    trace = write_trace("means.json", [op("a", 0, 0.001), op("a", 10, 0.002), op("a", 20, 0.002)])
    host = json.loads(run("info", "--json", trace))["host"]
    expect("mean", [(row["total_ns"], row["mean_ns"]) for row in host], [(5, 2)])


def check_memory():
    """Two processes of one name have rows of their own, which say whose they are."""
    def memory(pid):
        return [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "python"}},
                {"ph": "i", "name": "[memory]", "pid": pid, "tid": 1, "ts": 1, "s": "t", "cat": "cpu_instant_event",
                 "args": {"Device Type": 0, "Device Id": -1, "Addr": 16, "Bytes": 64, "Total Allocated": 64}}]
    text = run("info", write_trace("memory.json", memory(5) + memory(6)))
    expect("memory", re.findall(r"(?m)^  (\S+ \S+, CPU) ", text), ["5 python, CPU", "6 python, CPU"])


def check_windows():
    """The window is called one, and no other length is called by its name."""
    end = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 20}
    trace = write_trace("window.json", [op("a", 0, 10), on_device("kernel", 1, 99), end])
    expect("window", "activities in a window of 20.000 us" in run("info", trace), True)
    expect("busy", "covers 99.000 us, 99.0 % of the recorded 100.000 us" in run("info", trace), True)
    text = run("analyze", "--findings", trace)
    expect("savings", "savings are of the recorded time, 100.000 us" in text, True)


def check_given():
    for number, name, count in ((23, "23-header-member-twice.json", 0), (40, "40-end-names-another-begin.json", 1)):
        trace = given("reading", name)
        if trace:
            expect(f"{number}: lost", lost(trace), count)
            expect(f"{number}: advice", BUFFERS in run("analyze", "--findings", trace) + run("verify", trace, status=None),
                   False)


check_headers()
check_ends()
check_losses()
check_devices()
check_ranks()
check_means()
check_memory()
check_windows()
check_given()
finish()
