"""Measures how long Python takes to write a trace that is in memory: processor time, the least of some.

    write_peer.py json|orjson TRACE OUT      prints {"seconds", "bytes"}
"""
import json
import os
import sys
import time

ROUNDS = 2


def with_json(trace, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(trace, file)


def with_orjson(trace, path):
    import orjson
    with open(path, "wb") as file:
        file.write(orjson.dumps(trace))


def main(way, source, path):
    with open(source, encoding="utf-8") as file:
        trace = json.load(file)
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        globals()["with_" + way](trace, path)
        times.append(time.process_time() - start)
    print(json.dumps({"seconds": min(times), "bytes": os.path.getsize(path)}))
    os.unlink(path)


main(*sys.argv[1:])
