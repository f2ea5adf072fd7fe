"""Readers of the formats that traces are written in, for tests: each made from the format's own
description, strict, and independent of what writes them. Names are bytes."""

import collections
import csv
import gzip
import io
import json

Sample = collections.namedtuple("Sample", "stack values labels")


def content(path):
    with open(path, "rb") as file:
        data = file.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def unique(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("repeated key in %r" % [k for k, _ in pairs])
    return result


def parse_json(text):
    return json.loads(text, object_pairs_hook=unique)


# ---- rows ---------------------------------------------------------------------------------------

def without_mark(cell):
    """A text of CSV without the apostrophe that keeps spreadsheets from computing it."""
    return cell[1:] if cell[:1] == "'" and cell.lstrip("'")[:1] in tuple("=+-@\t\r") else cell


def read_csv(path):
    """Dictionaries; every byte of a name is one character."""
    data = content(path)
    if not data.endswith(b"\r\n"):
        raise ValueError("the last line does not end")
    csv.field_size_limit(1 << 30)
    lines = list(csv.reader(io.StringIO(data.decode("latin-1"), newline=""), strict=True))
    head, rows = lines[0], lines[1:]
    if any(len(row) != len(head) for row in rows):
        raise ValueError("lines of different lengths")
    return [dict(zip(head, map(without_mark, row))) for row in rows]


def read_jsonl(path):
    """type → list of objects."""
    lines = collections.defaultdict(list)
    text = content(path).decode("utf-8")
    if not text.endswith("\n"):
        raise ValueError("the last line does not end")
    for line in text[:-1].split("\n"):
        entry = parse_json(line)
        lines[entry["type"]].append(entry)
    return lines


# ---- stacks -------------------------------------------------------------------------------------

def unescape(frame):
    out, at = bytearray(), 0
    while at < len(frame):
        if frame[at] != ord("\\"):
            out.append(frame[at])
            at += 1
        elif frame[at + 1:at + 2] == b"\\":
            out.append(ord("\\"))
            at += 2
        elif frame[at + 1:at + 2] == b"x":
            out.append(int(frame[at + 2:at + 4], 16))
            at += 4
        else:
            raise ValueError("bad escape in %r" % frame)
    return bytes(out)


def read_folded(path):
    """(stack, weight), the outermost frame first."""
    found = []
    data = content(path)
    if data and not data.endswith(b"\n"):
        raise ValueError("the last line does not end")
    for line in data.split(b"\n")[:-1]:
        stack, _, weight = line.rpartition(b" ")
        frames = stack.split(b";")
        if not all(frames):
            raise ValueError("empty frame in %r" % line)
        found.append((tuple(unescape(f) for f in frames), int(weight)))
    return found


def read_speedscope(path):
    """[(name, [(stack of frames, start, end)])]; opens and closes must nest and never go back."""
    file = parse_json(content(path).decode("utf-8"))
    if file["$schema"] != "https://www.speedscope.app/file-format-schema.json":
        raise ValueError("no schema")
    frames = file["shared"]["frames"]
    if not 0 <= file["activeProfileIndex"] < len(file["profiles"]):
        raise ValueError("no such profile is active")
    return [(p["name"], speedscope_profile(p, frames)) for p in file["profiles"]]


def speedscope_profile(profile, frames):
    if (profile["type"], profile["unit"]) != ("evented", "nanoseconds"):
        raise ValueError("unexpected profile")
    spans, open_ones, last = [], [], profile["startValue"]
    for event in profile["events"]:
        if event["at"] < last or event["at"] > profile["endValue"]:
            raise ValueError("time goes back in %s" % profile["name"])
        last = event["at"]
        if event["type"] == "O":
            open_ones.append((event["frame"], last))
            continue
        frame, start = open_ones.pop()
        if event["type"] != "C" or frame != event["frame"]:
            raise ValueError("closes what is not the innermost")
        stack = tuple(frames[f]["name"] for f, _ in open_ones) + (frames[frame]["name"],)
        spans.append((stack, start, last))
    if open_ones:
        raise ValueError("left open")
    return spans


# ---- pprof --------------------------------------------------------------------------------------

def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("too long a varint")


def fields(data):
    """field number → values of a protobuf message."""
    found, at = collections.defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            value = data[at:at + size]
            if len(value) != size:
                raise ValueError("message ends too soon")
            at += size
        elif tag & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            raise ValueError("wire type %d" % (tag & 7))
        found[tag >> 3].append(value)
    return found


def packed(values):
    found = []
    for value in values:
        at = 0
        while at < len(value):
            item, at = varint(value, at)
            found.append(item)
    return found


def pprof_locations(profile):
    """Functions of each location by its id: what was inlined first."""
    texts = [t.decode("utf-8") for t in profile[6]]
    functions = {entry[1][0]: texts[entry[2][0]] for entry in map(fields, profile[5])}
    locations = {}
    for entry in map(fields, profile[4]):
        locations[entry[1][0]] = [functions[fields(l)[1][0]] for l in entry[4]]
    if 0 in functions or 0 in locations:
        raise ValueError("0 is not a valid id")
    return locations


def read_pprof(path):
    """(sample types, samples with stacks whose outermost frame is first)."""
    with open(path, "rb") as file:
        if file.read(2) != b"\x1f\x8b":
            raise ValueError("not compressed")
    profile = fields(content(path))
    texts = [t.decode("utf-8") for t in profile[6]]
    if texts[0] != "" or len(set(texts)) != len(texts):
        raise ValueError("bad table of strings")
    types = [tuple(texts[fields(t)[n][0]] for n in (1, 2)) for t in profile[1]]
    locations = pprof_locations(profile)
    samples = []
    for entry in map(fields, profile[2]):
        stack = [f for location in packed(entry[1]) for f in locations[location]]
        labels = {texts[l[1][0]]: texts[l[2][0]] for l in map(fields, entry[3])}
        values = packed(entry[2])
        if len(values) != len(types):
            raise ValueError("values and their types differ")
        samples.append(Sample(tuple(reversed(stack)), tuple(values), labels))
    return types, samples


# ---- CPU profiles -------------------------------------------------------------------------------

def read_sampled(path):
    """[(name, [(stack, weight)])] of the profiles of speedscope that consist of samples."""
    file = parse_json(content(path).decode("utf-8"))
    names = [f["name"] for f in file["shared"]["frames"]]
    found = []
    for p in file["profiles"]:
        if p["type"] != "sampled":
            continue
        if len(p["samples"]) != len(p["weights"]) or p["endValue"] - p["startValue"] != sum(p["weights"]):
            raise ValueError("weights and their sum differ")
        found.append((p["name"], [(tuple(names[i] for i in s), w) for s, w in zip(p["samples"], p["weights"])]))
    return found


def first(message, field, default=0):
    return message[field][0] if field in message else default


class PerfettoCpu:
    """Samples and events of the scheduler in Perfetto's format."""

    def __init__(self, path):
        self.samples = []   # (ns, tid, cpu, stack, count of the timebase)
        self.switches = []  # (cpu, ns, previous tid, its state, next tid)
        self.mappings = set()
        self.clocks = {}
        tables = collections.defaultdict(dict)  # (sequence, field of interned data) → number → message
        times = {}
        for packet in map(fields, fields(content(path))[1]):
            sequence = first(packet, 10)
            for snapshot in map(fields, packet[6]):
                for clock in map(fields, snapshot[1]):
                    if clock[1][0] < 64:
                        self.clocks.setdefault(clock[1][0], clock[2][0])
                    else:
                        times[sequence] = self.clocks[1]
            for interned in map(fields, packet[12]):
                for field, entries in interned.items():
                    for entry in map(fields, entries):
                        tables[(sequence, field)][entry[1][0]] = entry
            if 8 in packet:
                times[sequence] += packet[8][0]
            for sample in map(fields, packet[66]):
                self.add_sample(sample, times[sequence], sequence, tables)
            for bundle in map(fields, packet[1]):
                for event in map(fields, bundle[2]):
                    self.add_switch(first(bundle, 1), event)

    def add_sample(self, sample, ns, sequence, tables):
        stack = []
        for number in tables[(sequence, 7)][sample[4][0]][2]:
            frame = tables[(sequence, 6)][number]
            mapping = tables[(sequence, 19)][frame[3][0]]
            self.mappings.add(tables[(sequence, 17)][mapping[7][0]][2][0].decode())
            stack.append(tables[(sequence, 5)][frame[2][0]][2][0].decode())
        self.samples.append((ns, sample[3][0], first(sample, 1, None), tuple(stack), sample[6][0]))

    def add_switch(self, cpu, event):
        switch = fields(event[4][0])
        ns = event[1][0] + self.clocks[1] - self.clocks[6]
        self.switches.append((cpu, ns, first(switch, 2), first(switch, 4), first(switch, 6)))

    def state_times(self):
        """{(tid, state): ns}, as Perfetto finds them; raises if the events of a CPU do not fit together."""
        sums, at, on = collections.Counter(), {}, {}
        names = {0x1: "blocked", 0x800: "waiting for a CPU", 0x10: "ended"}
        for cpu, ns, left, state, came in sorted(self.switches, key=lambda s: s[1]):
            if on.get(cpu, left) != left:
                raise ValueError("CPU %d: %d leaves, %d was on it" % (cpu, left, on[cpu]))
            on[cpu] = came
            for tid, now in ((left, names.get(state, "?")), (came, "running")):
                if tid and tid in at:
                    since, what = at[tid]
                    sums[(tid, what)] += ns - since
                if tid:
                    at[tid] = (ns, now)
        return dict(sums)
