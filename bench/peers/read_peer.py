"""Reads a trace in one of several ways, in a process of its own, and sums up its slices (ph "X"): their
number and total time by name.

    read_peer.py WAY FILE

prints {"names", "slices", "total_us"}, which must be the same for all ways. The cost is measured by the
parent process (run.py).
"""
import collections
import json
import os
import sys


def answer(rows):
    """rows: (name, slices, microseconds)"""
    rows = list(rows)
    return {"names": len(rows), "slices": sum(int(row[1]) for row in rows), "total_us": round(sum(float(row[2]) for row in rows))}


def sum_up(events):
    found = collections.defaultdict(lambda: [0, 0.0])
    for event in events:
        if event.get("ph") == "X":
            row = found[event["name"]]
            row[0] += 1
            row[1] += event["dur"]
    return answer((name, *row) for name, row in found.items())


def with_json(path):
    with open(path, encoding="utf-8") as file:
        return sum_up(json.load(file)["traceEvents"])


def with_orjson(path):
    import orjson
    with open(path, "rb") as file:
        return sum_up(orjson.loads(file.read())["traceEvents"])


def with_pandas(path):
    """The way that analysers of PyTorch's traces use."""
    import pandas
    with open(path, encoding="utf-8") as file:
        frame = pandas.DataFrame(json.load(file)["traceEvents"])
    frame = frame[frame["ph"] == "X"]
    groups = frame.groupby("name")["dur"].agg(["count", "sum"])
    return answer(groups.itertuples())


def with_duckdb(path):
    import duckdb
    connection = duckdb.connect()
    connection.execute(f"SET threads = {len(os.sched_getaffinity(0))}")
    size = os.path.getsize(path) + 1
    # Only the members that are needed, or each of the hundreds of arguments would become a column.
    rows = connection.execute(
        "SELECT e.name, count(*), sum(e.dur) FROM (SELECT unnest(traceEvents) AS e FROM read_json(?, format = "
        "'unstructured', maximum_object_size = ?, columns = {traceEvents: 'STRUCT(ph VARCHAR, name VARCHAR, dur DOUBLE)[]'}))"
        " WHERE e.ph = 'X' GROUP BY 1", [path, size]).fetchall()
    return answer(rows)


def with_sqlite(path):
    """SQLite's JSON functions, over the text as one value."""
    import sqlite3
    connection = sqlite3.connect(":memory:")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    rows = connection.execute(
        "SELECT json_extract(value, '$.name'), count(*), sum(json_extract(value, '$.dur')) "
        "FROM json_each(?, '$.traceEvents') WHERE json_extract(value, '$.ph') = 'X' GROUP BY 1", [text])
    return answer(rows.fetchall())


def with_hta(path):
    """Holistic Trace Analysis: the reading that its analyses begin with."""
    from hta.common.trace import Trace
    trace = Trace(trace_files={0: path}, trace_dir="")
    trace.parse_traces(use_multiprocessing=False)
    frame = trace.get_trace(0)
    groups = frame.groupby("name")["dur"].agg(["count", "sum"])
    return answer(groups.itertuples())


if __name__ == "__main__":
    print(json.dumps(globals()["with_" + sys.argv[1]](sys.argv[2])))
