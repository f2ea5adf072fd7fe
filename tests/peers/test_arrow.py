"""pyarrow takes a trace's Arrow streams: they are valid, and say what Python's json reads in the file.

test_arrow.py LIBCKINETO FOLDER TRACES: FOLDER is the virtual environment of fetch_arrow.sh; without
it this is skipped."""

import collections
import ctypes
import glob
import gzip
import json
import os
import subprocess
import sys

TABLES = ["activities", "events", "counters", "tracks", "processes", "flows", "ledger", "metadata"]


class Error(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 4096)]


def library(path):
    lib = ctypes.CDLL(path)
    lib.kineto_trace_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p),
                                      ctypes.POINTER(Error)]
    lib.kineto_trace_arrow_stream.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                              ctypes.POINTER(Error)]
    lib.kineto_trace_release.argtypes = [ctypes.c_void_p]
    lib.kineto_trace_release.restype = None
    return lib


def tables_of(lib, path):
    """All tables of a trace, which is released before they are read; None if it is not a trace."""
    import pyarrow
    trace, error, readers = ctypes.c_void_p(), Error(), {}
    if lib.kineto_trace_open(path.encode(), ctypes.byref(trace), ctypes.byref(error)):
        return None
    for name in TABLES:
        stream = ctypes.create_string_buffer(5 * ctypes.sizeof(ctypes.c_void_p))
        if lib.kineto_trace_arrow_stream(trace, name.encode(), stream, ctypes.byref(error)):
            raise ValueError(name)
        readers[name] = pyarrow.RecordBatchReader._import_from_c(ctypes.addressof(stream))
    lib.kineto_trace_release(trace)
    tables = {name: reader.read_all() for name, reader in readers.items()}
    for table in tables.values():
        table.validate(full=True)
    return tables


def events_of(path):
    with gzip.open(path) as file:
        data = json.load(file)
    return data["traceEvents"] if isinstance(data, dict) else data


def expected(events):
    """By name: how many complete events, and how long they are in all."""
    names = collections.defaultdict(lambda: [0, 0])
    for e in events:
        if e.get("ph") == "X":
            names[e["name"]][0] += 1
            names[e["name"]][1] += round(max(e.get("dur", 0), 0) * 1000)
    return names


def found(table):
    names = collections.defaultdict(lambda: [0, 0])
    rows = zip(table["name"].to_pylist(), table["dur_ns"].to_pylist(), table["form"].to_pylist())
    for name, length, form in rows:
        if form == "slice":
            names[name][0] += 1
            names[name][1] += length
    return names


def argument_count(events):
    """Keys of args that are neither columns nor flags."""
    columns = {"correlation", "External id", "external id", "finished", "started"}
    return sum(len(set(e.get("args", {})) - columns) for e in events if e.get("ph") == "X")


def differences(tables, events):
    wanted, seen = expected(events), found(tables["activities"])
    for name in wanted.keys() | seen.keys():
        if wanted[name][0] != seen[name][0] or abs(wanted[name][1] - seen[name][1]) > wanted[name][0]:
            yield "%s: %s, they say %s" % (name, wanted[name], seen[name])
    activities = tables["activities"]
    args = [json.loads(text) for text, form in zip(activities["args"].to_pylist(),
                                                   activities["form"].to_pylist())
            if text and form == "slice"]
    columns = {"correlation", "External id", "external id", "finished", "started"}
    count = sum(len(set(a) - columns) for a in args)
    if count != argument_count(events):
        yield "%d arguments, they see %d" % (argument_count(events), count)
    if tables["events"] != activities.drop_columns(["args"]):
        yield "events are not activities without arguments"
    if sum(tables["tracks"]["count"].to_pylist()) != activities.num_rows:
        yield "tracks count other activities"


def compare(lib, path):
    tables = tables_of(lib, path)
    if tables is None:
        print("%s: no trace of events" % os.path.basename(path))
        return True
    problems = list(differences(tables, events_of(path)))
    print("%s: %s: %s" % (os.path.basename(path),
                          ", ".join("%d %s" % (t.num_rows, n) for n, t in tables.items()),
                          "DIFFERENT" if problems else "same"))
    for problem in problems[:20]:
        print("  " + problem)
    return not problems


def main():
    path, folder, traces = sys.argv[1:4]
    python = os.path.join(folder, "bin", "python")
    others = sorted(glob.glob(os.path.join(traces, "*.json.gz")))
    if os.environ.get("CKINETO_IN_PEER"):
        lib = library(path)
        return 0 if all([compare(lib, other) for other in others]) else 1
    if not os.path.exists(python) or not others:
        print("skipped: pyarrow or traces of others are not here (make test-peers fetches it)")
        return 77
    return subprocess.run([python, "-B", *sys.argv],
                          env={**os.environ, "CKINETO_IN_PEER": "1"}).returncode


sys.exit(main())
