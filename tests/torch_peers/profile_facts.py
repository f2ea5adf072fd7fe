"""What can be compared of two traces of the same program: facts without times, addresses and process ids.

Used by compare_profiles.py. A trace is the JSON of export_chrome_trace, by libkineto or by ckineto, or of
`ckineto record -o FILE.json`.
"""

import collections
import json
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

WINDOW = "window"
OPERATOR_KINDS = ("cpu_op", "user_annotation")
SHAPE_ARGUMENTS = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs", "Sequence number")


class Operator(NamedTuple):
    """An operator or range as the two profilers must agree about it."""

    name: str
    parent: str
    dims: str
    sequence: Optional[int]
    kind: str


def load_trace(path: str) -> Dict[str, Any]:
    """A trace; ValueError that names the file if it is not valid JSON with events."""
    with open(path, encoding="utf-8") as file:
        try:
            trace = json.load(file)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(trace, dict) or "traceEvents" not in trace:
        raise ValueError(f"{path}: no traceEvents")
    return trace


def number(value: Any) -> float:
    """Times are numbers, or numbers in quotes."""
    return float(value)


def slices(trace: Dict[str, Any], kinds: Tuple[str, ...]) -> List[Dict[str, Any]]:
    """Events with a duration of some kinds."""
    return [event for event in trace["traceEvents"] if event.get("ph") == "X" and event.get("cat") in kinds]


def by_thread(events: List[Dict[str, Any]]) -> Dict[Tuple[Any, Any], List[Dict[str, Any]]]:
    """Events of each (process, thread) in the order of nesting: outer ones first."""
    threads: Dict[Tuple[Any, Any], List[Dict[str, Any]]] = collections.defaultdict(list)
    for event in events:
        threads[(event["pid"], event["tid"])].append(event)
    for found in threads.values():
        found.sort(key=lambda event: (number(event["ts"]), -number(event["dur"])))
    return threads


def list_operators(events: List[Dict[str, Any]]) -> List[Operator]:
    """Operators of one thread with their parents, by nesting of their times."""
    operators, open_events = [], []
    for event in events:
        start = number(event["ts"])
        while open_events and start >= number(open_events[-1]["ts"]) + number(open_events[-1]["dur"]):
            open_events.pop()
        arguments = event.get("args", {})
        sequence = arguments.get("Sequence number")
        operators.append(Operator(event["name"], open_events[-1]["name"] if open_events else "",
                                  json.dumps(arguments.get("Input Dims")),
                                  sequence if sequence is None else int(sequence), event["cat"]))
        open_events.append(event)
    return operators


def tree_facts(trace: Dict[str, Any]) -> collections.Counter:
    """How many operators there are of each name, parent, shapes and sequence number."""
    counts: collections.Counter = collections.Counter()
    for events in by_thread(slices(trace, OPERATOR_KINDS)).values():
        counts.update(list_operators(events))
    return counts


def shape_facts(trace: Dict[str, Any]) -> collections.Counter:
    """How many operators there are of each name and arguments."""
    return collections.Counter(
        (event["name"], *(json.dumps(event.get("args", {}).get(name)) for name in SHAPE_ARGUMENTS))
        for event in slices(trace, OPERATOR_KINDS))


def kind_facts(trace: Dict[str, Any]) -> collections.Counter:
    """How many events there are of each kind (phase and category), without names of processes and threads."""
    return collections.Counter(
        (event.get("ph"), event.get("cat") if event.get("cat") else event.get("name"))
        for event in trace["traceEvents"] if event.get("ph") != "M" and event.get("name") != "Written by ckineto")


def track_facts(trace: Dict[str, Any]) -> collections.Counter:
    """Names, labels and places of processes and threads. libkineto writes some of them twice."""
    return collections.Counter({
        (event["name"], re.sub(r"\d+", "N", json.dumps(event.get("args", {})))): 1
        for event in trace["traceEvents"] if event.get("ph") == "M"})


def name_facts(trace: Dict[str, Any]) -> collections.Counter:
    """How many events there are of each kind and name. Names of built-in functions end with an address."""
    return collections.Counter((event.get("ph"), event.get("cat"), re.sub("0x[0-9a-f]+", "0x", event.get("name", "")))
                               for event in trace["traceEvents"] if event.get("cat"))


def key_facts(trace: Dict[str, Any]) -> collections.Counter:
    """Which arguments the events of each kind have, with the number of events that have them."""
    return collections.Counter((event.get("cat"), key) for event in trace["traceEvents"] if event.get("cat")
                               for key in event.get("args", {}))


def flow_facts(trace: Dict[str, Any]) -> collections.Counter:
    """From which operator to which one the arrows go."""
    ends: Dict[Tuple[Any, Any], Dict[str, str]] = collections.defaultdict(dict)
    starts = {(event["pid"], event["tid"], number(event["ts"])): event["name"]
              for event in slices(trace, OPERATOR_KINDS)}
    for event in trace["traceEvents"]:
        if event.get("ph") in ("s", "f"):
            name = starts.get((event["pid"], event["tid"], number(event["ts"])), "?")
            ends[(event.get("cat"), event["id"])][event["ph"]] = name
    return collections.Counter((kind, pair.get("s"), pair.get("f")) for (kind, _), pair in ends.items())


def header_facts(trace: Dict[str, Any]) -> collections.Counter:
    """Members of the trace besides its events and what ckineto adds under its own name."""
    return collections.Counter({key: 1 for key in trace if key != "traceEvents" and not key.startswith("ckineto")})


def list_crossing_iterations(trace: Dict[str, Any]) -> List[str]:
    """Iterations counted by optimizer steps that begin or end within an optimizer's step."""
    found = []
    for events in by_thread(slices(trace, ("user_annotation",))).values():
        spans = [(number(event["ts"]), number(event["ts"]) + number(event["dur"]), event["name"]) for event in events]
        steps = [span for span in spans if span[2].startswith("Optimizer.step#")]
        found += [f"{name} begins or ends within {inner}" for begin, end, name in spans
                  if name.startswith("ProfilerStep#") for first, last, inner in steps
                  if first < begin < last or first < end < last]
    return found


def list_facts(trace: Dict[str, Any]) -> Dict[str, collections.Counter]:
    """All facts of a trace, by what they are about."""
    return {
        "events by kind": kind_facts(trace), "events by name": name_facts(trace),
        "shapes and sequence numbers": shape_facts(trace), "operators and parents": tree_facts(trace),
        "processes and threads": track_facts(trace), "arguments": key_facts(trace), "flows": flow_facts(trace),
        "header": header_facts(trace),
    }


def find_window(trace: Dict[str, Any]) -> Dict[str, Any]:
    """The range that the profiled steps are inside of; ValueError if there is not exactly one per process."""
    found = [event for event in slices(trace, OPERATOR_KINDS) if event["name"] == WINDOW]
    if len(found) != 1:
        raise ValueError(f"{len(found)} ranges named {WINDOW} instead of 1")
    return found[0]


def window_operators(trace: Dict[str, Any], process: Optional[int] = None) -> Dict[Any, List[Operator]]:
    """Operators of each thread that lie inside of the window of a process (of the only one, if None). Iterations
    that ckineto counts by optimizer steps have no External id: torch.profiler has none of them."""
    events = [event for event in slices(trace, OPERATOR_KINDS) if process in (None, event["pid"])
              and not (event["name"].startswith("ProfilerStep#") and "External id" not in event.get("args", {}))]
    window = find_window({"traceEvents": events})
    begin, end = number(window["ts"]), number(window["ts"]) + number(window["dur"])
    inside = [event for event in events if event["pid"] == window["pid"] and event is not window
              and begin <= number(event["ts"]) and number(event["ts"]) + number(event["dur"]) <= end]
    return {thread: list_operators(found) for (_, thread), found in by_thread(inside).items()}
