"""Read a trace with an independent parser and compare what it says with lines of expectations.

check_chrome.py TRACE EXPECTED: no object may repeat a key; the slices' names and arguments, in the
order of the file, must be those of EXPECTED: per slice a line "name" and per argument a line
"  key = string", all as hexadecimal bytes before invalid UTF-8 was replaced.
"""
import gzip
import json
import sys


def unique(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("repeated key in %r" % [k for k, _ in pairs])
    return result


def shown(hexadecimal):
    return bytes.fromhex(hexadecimal).decode("utf-8", "replace")


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data.decode("utf-8"), object_pairs_hook=unique)


def expectations(path):
    slices = []
    with open(path) as file:
        for line in file.read().splitlines():
            if line.startswith("  "):
                key, value = line[2:].split(" = ")
                slices[-1][1].append((shown(key), shown(value)))
            else:
                slices.append((shown(line), []))
    return slices


def main():
    trace = load(sys.argv[1])
    events = trace["traceEvents"]
    if len(sys.argv) > 2:
        slices = [(e["name"], list(e.get("args", {}).items())) for e in events if e["ph"] == "X"]
        wanted = expectations(sys.argv[2])
        assert len(slices) == len(wanted), (len(slices), len(wanted))
        for got, want in zip(slices, wanted):
            assert got == want, (got, want)
    last = events[-1]
    assert (last["ph"], last["name"]) == ("i", "Record Window End"), last
    assert all(e["ts"] >= 0 for e in events), "a time before the base"
    assert list(trace)[0] == "schemaVersion" and list(trace)[-1] == "traceName", list(trace)
    print(len(events))


main()
