"""Read a trace with an independent parser and say, line by line, what a viewer would make of it:
rows of processes and threads, counters, slices, header. show_rows.py TRACE
"""
import collections
import json
import sys


def unique(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("repeated key in %r" % [k for k, _ in pairs])
    return result


def text(value):
    return json.dumps(value, sort_keys=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file, object_pairs_hook=unique)
    rows = collections.defaultdict(dict)
    lines = []
    for e in trace["traceEvents"]:
        if e["ph"] == "M":
            kind, what = e["name"].split("_", 1)
            row = (kind, e["pid"]) if kind == "process" else (kind, e["pid"], e["tid"])
            if what in rows[row]:
                raise ValueError("row %r has its %s twice" % (row, what))
            (rows[row][what],) = e["args"].values()
        elif e["ph"] == "C":
            lines.append("counter pid=%r cat=%s %s %s"
                         % (e["pid"], e.get("cat"), text(e["name"]), text(e["args"])))
        elif e["ph"] == "X":
            lines.append("slice pid=%r tid=%r cat=%s %s %s"
                         % (e["pid"], e["tid"], e["cat"], text(e["name"]), text(e.get("args", {}))))
    for row, facts in rows.items():
        lines.append("%s %s" % (" ".join(map(str, row)), text(facts)))
    for device in trace["deviceProperties"]:
        lines.append("device %s" % text(device))
    known = {"schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds",
             "traceEvents", "ckineto", "traceName"}
    for key, value in trace.items():
        if key not in known:
            lines.append("header %s %s" % (text(key), text(value)))
    print("\n".join(lines))


main()
