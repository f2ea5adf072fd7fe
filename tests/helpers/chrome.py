"""A Chrome trace as Python's json reads it, brought into a form in which two files can be compared.

Numbers stay exact (integers, decimals); times become whole nanoseconds since the epoch. Two files say
the same if their facts are equal, whatever the order of events, the base of their times, the way
ranges are written (X, or B and E) and the numbers that stand for a row: a file of ckineto says in
"ckineto" which row a pid and a tid is.
"""

import collections
import decimal
import gzip
import json

Decimal = decimal.Decimal
decimal.getcontext().prec = 60

REBUILT = {"traceName", "baseTimeNanoseconds", "traceEvents", "deviceProperties", "ckineto"}
ROW_NAMES = {"process_name": "name", "process_labels": "labels", "process_sort_index": "sort_index",
             "thread_name": "name", "thread_sort_index": "sort_index"}
FLOW_CLASSES = {"ac2g": "ac2g", "async_cpu_to_gpu": "ac2g", "async": "ac2g", "fwdbwd": "fwdbwd",
                "forward_backward": "fwdbwd"}


class Repeated(dict):
    """An object of which a key stands there twice; the last one counts."""


def pairs(items):
    found = dict(items)
    return found if len(found) == len(items) else Repeated(items)


def parse(data):
    """Bytes of a file, compressed or not, as Python's json sees them."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data.decode("utf-8"), parse_float=Decimal, object_pairs_hook=pairs)


def load(path):
    with open(path, "rb") as file:
        return parse(file.read())


def events_of(trace):
    """The list of events, or None if this is not a Chrome trace."""
    if isinstance(trace, dict):
        trace = trace.get("traceEvents")
    good = isinstance(trace, list) and all(isinstance(e, dict) and "ph" in e for e in trace)
    return trace if good else None


def frozen(value):
    """Equal values have equal texts; 1 and 1.0 are equal numbers."""
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (json.dumps(k), frozen(v)) for k, v in sorted(value.items()))
    if isinstance(value, list):
        return "[%s]" % ",".join(map(frozen, value))
    if isinstance(value, (Decimal, int)) and not isinstance(value, bool):
        return str(Decimal(value).normalize())
    return json.dumps(value)


def ns(us):
    """Microseconds as written → nanoseconds, to the nearest, halves away from 0."""
    return int((Decimal(us) * 1000).to_integral_value(decimal.ROUND_HALF_UP))


def fits(nanoseconds):
    return -(1 << 63) <= nanoseconds < 1 << 63


def number(text):
    """Rows are numbers, or texts of numbers; PyTorch 1.8 wrote "stream 7"."""
    if isinstance(text, str):
        digits = text[7:] if text.startswith("stream ") else text
        try:
            return int(digits) if digits.strip() == digits else text
        except ValueError:
            return text
    return text


def identifier(value):
    """What the model can take for an id: it has 64 bits, and 0 says nothing."""
    return value if isinstance(value, int) and 0 <= value < 1 << 64 else None


def model_row(facts, args, kinds):
    form, name, category, *others = facts
    rest = dict(args)
    ids = {}
    for key in ("external id", "External id", "correlation"):
        value = identifier(rest.get(key))
        if value is not None:
            ids[key.lower()] = value
            del rest[key]
    for key, value in (("finished", False), ("started", False), ("arguments lost", True)):
        if rest.get(key) is value:
            del rest[key]
    category = "" if category in kinds or name == "[memory]" else category
    return (form, name, category, *others, ids.get("correlation", 0), ids.get("external id", 0),
            frozen(rest))


class Facts:
    """What a file says: counters (multisets) of rows, flows and names, and the header."""

    def __init__(self, trace):
        self.header = trace if isinstance(trace, dict) else {}
        self.own = self.header.get("ckineto", {})
        base = self.header.get("baseTimeNanoseconds", 0)
        self.base_ns = int(Decimal(base))
        self.processes = {p["pid"]: p["id"] for p in self.own.get("processes", [])}
        self.tracks = {(t["pid"] if "pid" in t else number(t["text"]), t["tid"]): t
                       for t in self.own.get("tracks", [])}
        self.events, self.flows = [], collections.Counter()
        self.names, self.other = {}, collections.Counter()
        self.by_form = collections.Counter()
        self.unfit = 0  # lengths that are no nanoseconds of 64 bits, and left out
        self.open = collections.defaultdict(list)
        for event in events_of(trace):
            self.add(event)
        self.unclosed = sum(map(len, self.open.values()))

    def place(self, event):
        pid, tid = number(event.get("pid", "")), number(event.get("tid", ""))
        track = self.tracks.get((pid, tid))
        if isinstance(tid, str) and " (lane " in tid and self.own:
            tid = tid[:tid.rindex(" (lane ")]
        return self.processes.get(pid, pid), track["id"] if track else tid

    def time(self, event):
        return self.base_ns + ns(event["ts"])

    def add(self, event):
        phase = {"I": "i", "n": "i"}.get(event["ph"], event["ph"])
        if phase == "M":
            self.add_name(event)
        elif phase in "stf":
            self.add_flow(event, phase)
        elif phase in "BE":
            self.add_half(event, phase, self.place(event))
        elif phase in "be":
            key = (event.get("id"), event.get("cat"), event["name"], self.place(event)[0])
            self.add_half(event, phase.upper(), key)
        elif phase in "XiC":
            self.add_row(event, phase, self.time(event), ns(event.get("dur", 0)))
        else:
            self.other[phase] += 1

    def add_half(self, event, phase, key):
        if phase == "B":
            self.open[key].append(event)
        elif self.open[key]:
            begin = self.open[key].pop()
            form = "b" if begin["ph"] == "b" else "X"
            self.add_row(begin, form, self.time(begin), self.time(event) - self.time(begin))
        else:
            self.other["end without a begin"] += 1

    def add_row(self, event, form, start_ns, length_ns):
        if event["name"] == "Record Window End" and form == "i":
            self.window_end_ns = start_ns
            return
        if not fits(length_ns) or not fits(start_ns + length_ns):
            self.unfit += 1
            length_ns = 0
        self.by_form[form] += 1
        place = self.place(event)
        if form == "C" and "tid" not in event:
            place = place[0], 0
        self.events.append(((form, event["name"], event.get("cat", ""), *place, start_ns,
                             max(length_ns, 0)), event.get("s") == "g", event.get("args") or {}))

    def add_flow(self, event, phase):
        name = FLOW_CLASSES.get(event.get("cat"), FLOW_CLASSES.get(event.get("name"), "user"))
        self.flows[phase, name, frozen(event.get("id", 0)), self.place(event),
                   self.time(event)] += 1

    def add_name(self, event):
        key = ROW_NAMES.get(event["name"])
        if not key:
            self.other["M " + event["name"]] += 1
            return
        place = self.place(event)
        of_thread = event["name"].startswith("thread")
        key_of_row = event["name"], place if of_thread else place[0]
        if self.own and key_of_row in self.names:
            return  # a lane of a row that has its name already
        self.names[key_of_row] = event["args"].get(key)

    @property
    def rows(self):
        """Events, as often as they are there, with all that was said of them."""
        return collections.Counter((*facts, is_global, frozen(args))
                                   for facts, is_global, args in self.events)

    def model_rows(self, kinds):
        """The same as the model has them: ids apart from the other arguments, and a category only
        where that says more than the kind."""
        return collections.Counter(model_row(facts, args, kinds) for facts, _, args in self.events)

    @property
    def metadata(self):
        return {k: frozen(v) for k, v in self.header.items() if k not in REBUILT}

    @property
    def devices(self):
        return {d.get("id"): frozen(d) for d in self.header.get("deviceProperties", [])}
