"""A trace's file as the tests with a GPU look at it: by Python's json alone, whatever the command was built with."""

import decimal
import json


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file, parse_float=decimal.Decimal)["traceEvents"]


def ns(microseconds):
    return int(decimal.Decimal(microseconds) * 1000)


def rows(events, *categories):
    """(name, category, start_ns, dur_ns, correlation, external, bytes) of activities, as dicts."""
    return [{"name": e["name"], "category": e["cat"], "start_ns": ns(e["ts"]), "dur_ns": ns(e.get("dur", 0)),
             "correlation": e.get("args", {}).get("correlation"), "bytes": e.get("args", {}).get("bytes"),
             "external": e.get("args", {}).get("External id")}
            for e in events if e.get("ph") == "X" and e.get("cat") in categories]
