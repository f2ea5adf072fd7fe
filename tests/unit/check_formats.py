"""Read what one trace became in each format and compare it with what the trace was said to hold.

check_formats.py DIRECTORY: `expected` there has a line for each activity: row, start, end, form,
kind, track, lane, parent, own time, name in hexadecimal; the other files are the trace.
"""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
import formats  # noqa: E402

Row = collections.namedtuple("Row", "row start end form kind track lane parent self name")
NONE = 2**32 - 1


def expected(path):
    with open(path) as file:
        for line in file:
            parts = line.split(" ")
            numbers = [int(p) if p.lstrip("-").isdigit() else p for p in parts[:9]]
            yield Row(*numbers, bytes.fromhex(parts[9].strip()))


def shown(name):
    return name.decode("utf-8", "replace")


def same(what, found, wanted):
    if found != wanted:
        for f, w in zip(found, wanted):
            if f != w:
                raise SystemExit(f"{what}: {str(f)[:400]}\ninstead of {str(w)[:400]}")
        raise SystemExit(f"{what}: {len(found)} instead of {len(wanted)}")


def check_csv(path, rows):
    lines = formats.read_csv(path)
    number = lambda text: int(text) if text else NONE  # noqa: E731
    same("csv", [Row(int(l["row"]), int(l["start_ns"]), int(l["end_ns"]), l["form"], l["kind"],
                     int(l["track"]), int(l["lane"]), number(l["parent"]), int(l["self_ns"]),
                     l["name"].encode("latin-1")) for l in lines], rows)
    if any(int(l["duration_ns"]) != int(l["end_ns"]) - int(l["start_ns"]) for l in lines):
        raise SystemExit("csv: durations")
    return [formats.parse_json(l["args"].encode("latin-1").decode("utf-8")) if l["args"] else None
            for l in lines]


def check_jsonl(path, rows):
    lines = formats.read_jsonl(path)
    same("jsonl", [(l["row"], l["start_ns"], l["end_ns"], l["form"], l["kind"], l["track"],
                    l["lane"], l.get("parent", NONE), l["self_ns"], l["name"])
                   for l in lines["activity"]],
         [r[:9] + (shown(r.name),) for r in rows])
    base = lines["trace"][0]["base_ns"]
    same("offsets", [l["offset_ns"] for l in lines["activity"]], [r.start - base for r in rows])
    return [l.get("args") for l in lines["activity"]]


def own_times(rows):
    """Name of frames below the track → own time and count."""
    by_row, stacks = {r.row: r for r in rows}, collections.Counter()
    counts = collections.Counter()
    for r in rows:
        if r.form not in ("slice", "async"):
            continue
        stack, at = [r.name], r.parent
        while at != NONE:
            stack.insert(0, by_row[at].name)
            at = by_row[at].parent
        key = (r.track, tuple(stack))
        stacks[key] += r.self
        counts[key] += 1
    return stacks, counts


def merged(stacks, name):
    total = collections.Counter()
    for (_, stack), ns in stacks.items():
        total[tuple(name(f) for f in stack)] += ns
    return total


def check_folded(path, rows):
    total = collections.Counter()
    for stack, weight in formats.read_folded(path):
        total[tuple(stack[2:])] += weight
    wanted = merged(own_times(rows)[0], lambda n: n or b"(no name)")
    same("folded", sorted(total.items()), sorted(wanted.items()))


def check_pprof(path, rows):
    types, samples = formats.read_pprof(path)
    same("sample types", types, [("activities", "count"), ("time", "nanoseconds")])
    times, counts = collections.Counter(), collections.Counter()
    for sample in samples:
        counts[sample.stack[2:]] += sample.values[0]
        times[sample.stack[2:]] += sample.values[1]
        if sample.labels["process"] != sample.stack[0] or sample.labels["kind"] == "unknown":
            raise SystemExit("pprof: labels %r" % sample.labels)
    same("pprof counts", sorted(counts.items()), sorted(merged(own_times(rows)[1], shown).items()))
    limit = 2**63 - 1
    same("pprof times", sorted(times.items()),
         sorted((k, min(v, limit)) for k, v in merged(own_times(rows)[0], shown).items()))


def check_speedscope(path, rows):
    base = min(r.start for r in rows) if rows else 0
    found = [(s[-1], start, end) for _, spans in formats.read_speedscope(path)
             for s, start, end in spans]
    wanted = [(shown(r.name), r.start - base, r.end - base) for r in rows
              if r.form in ("slice", "async")]
    same("speedscope", sorted(found), sorted(wanted))


def main():
    at = lambda name: os.path.join(sys.argv[1], name)  # noqa: E731
    rows = list(expected(at("expected")))
    args = check_csv(at("t.csv"), rows)
    same("arguments", check_jsonl(at("t.jsonl"), rows), args)
    check_folded(at("t.folded"), rows)
    check_pprof(at("t.pprof"), rows)
    check_speedscope(at("t.speedscope.json"), rows)


main()
