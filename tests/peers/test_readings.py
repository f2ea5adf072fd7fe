"""What ckineto reads in a trace is what Python's json reads in it, event by event.

test_readings.py COMMAND [--every N] FOLDER…: every trace in the folders, or every Nth, is compared three
times: with what `info` counts, with the activities, flows and header that the model holds (`convert` to JSON lines), and with
the Chrome JSON that `convert` writes: events with names, times, arguments, flows, names of rows and
header must be the same, as often as they are there. Names of rows may be added, none may be lost.
What Python refuses must be refused cleanly or read with a word about what was repaired; then what
`repair` makes of it is what it is compared with.
"""

import collections
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
import chrome  # noqa: E402

FORMS = {"slice": "X", "async": "b", "instant": "i", "counter": "C"}
MOST_SHOWN = 3


class Comparison:
    def __init__(self, command, path, work):
        self.command, self.path, self.work = command, path, work
        self.problems = []

    def run(self, *arguments):
        return subprocess.run([self.command, *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)

    def demand(self, what, ours, theirs):
        if ours != theirs:
            self.problems.append("%s: we say %.300s, Python %.300s" % (what, ours, theirs))

    def demand_all(self, what, ours, theirs):
        """Two multisets."""
        for word, more in (("lost", theirs - ours), ("invented", ours - theirs)):
            if more:
                shown = "".join("\n      %.400r" % (item,) for item in list(more)[:MOST_SHOWN])
                self.problems.append("%s: %d %s%s" % (what, sum(more.values()), word, shown))

    # ---- info

    def info(self, facts):
        result = self.run("info", "--json", self.path)
        if result.returncode:
            self.problems.append("info: %s" % result.stderr.decode("utf-8", "replace").strip())
            return False
        reported = json.loads(result.stdout)
        self.demand("activities", reported["activities"], len(facts.events))
        self.demand("lost", reported["lost"], min(reported["lost"], facts.unfit))
        self.demand("metadata", sorted(reported["metadata_keys"]), sorted(facts.metadata))
        lengths = collections.defaultdict(list)
        for event, _, _ in facts.events:
            if event[0] == "X":
                lengths[event[1]].append(event[-1])
        for table in ("host", "kernels", "other_device"):
            for row in reported[table]:
                found = lengths[row["name"]]
                if len(found) != row["count"]:
                    continue  # host and device use the same name
                self.demand("total of %s" % row["name"], row["total_ns"], sum(found))
                self.demand("longest of %s" % row["name"], row["max_ns"], max(found))
        return True

    # ---- the model

    def model(self, facts):
        out = os.path.join(self.work, "trace.jsonl")
        result = self.run("convert", self.path, "-q", "-o", out)
        if result.returncode:
            self.problems.append("convert: %s" % result.stderr.decode("utf-8", "replace").strip())
            return
        lines = collections.defaultdict(list)
        with open(out, encoding="utf-8") as file:
            for line in file:
                item = json.loads(line, parse_float=chrome.Decimal)
                lines[item["type"]].append(item)
        kinds = {item["kind"] for item in lines["activity"]}
        rows = collections.Counter(self.row_of(item) for item in lines["activity"])
        self.demand_all("activities of the model", rows, facts.model_rows(kinds))
        header = {item["key"]: chrome.frozen(item["value"]) for item in lines["metadata"]}
        self.demand("header", header, facts.metadata)
        starts = sum(n for key, n in facts.flows.items() if key[0] == "s")
        self.demand("starts of flows", len({(f["flow_type"], f["id"], f["from"]) for f in
                                            lines["flow"] if f.get("from") is not None}),
                    starts) if not self.repeats(facts) else None

    @staticmethod
    def repeats(facts):
        return any(n > 1 for n in facts.flows.values())

    @staticmethod
    def row_of(item):
        category = "" if item["category"] == item["kind"] else item["category"]
        return (FORMS[item["form"]], item["name"], category, chrome.number(item["pid"]),
                chrome.number(item["track_id"]), item["start_ns"],
                item["end_ns"] - item["start_ns"], item.get("correlation_id", 0),
                item.get("external_id", 0), chrome.frozen(item.get("args", {})))

    # ---- read and written

    def round_trip(self, facts):
        out = os.path.join(self.work, "again.json")
        result = self.run("convert", self.path, "-q", "-o", out)
        if result.returncode:
            self.problems.append("convert: %s" % result.stderr.decode("utf-8", "replace").strip())
            return
        again = chrome.Facts(chrome.load(out))
        self.demand_all("events", again.rows, facts.rows)
        self.demand_all("flows", again.flows, facts.flows)
        self.demand("header", again.metadata, facts.metadata)
        self.demand("devices", again.devices, facts.devices)
        for key, value in facts.names.items():
            if value not in ("", 0):
                self.demand("%s of %s" % key, again.names.get(key), value)
        self.added = sum(1 for key, value in again.names.items()
                         if key not in facts.names and value not in ("", 0))
        if os.path.getsize(self.path) < 1 << 20:
            self.second_round(out)

    def second_round(self, once):
        twice = os.path.join(self.work, "folder", "again.json")
        os.makedirs(os.path.dirname(twice), exist_ok=True)
        self.run("convert", once, "-q", "-o", twice)
        self.demand("written again, the same bytes", self.but_for_name(twice) ==
                    self.but_for_name(once), True)

    @staticmethod
    def but_for_name(path):
        with open(path, "rb") as file:
            return [line for line in file if not line.startswith(b'"traceName"')]

    # ---- all

    def refused(self, problem):
        """Python does not read it."""
        result = self.run("info", "--json", self.path)
        if result.returncode not in (0, 1, 2):
            self.problems.append("info ended with %d" % result.returncode)
        elif result.returncode == 0 and not json.loads(result.stdout)["ledger"]:
            self.problems.append("read without a word; Python says: %s" % problem)
        elif result.returncode and b"byte" not in result.stderr:
            self.problems.append("refused without a place: %r" % result.stderr)
        if result.returncode:
            return "no JSON for Python: refused"
        self.repaired()
        return "no JSON for Python: repaired, and what was repaired read again"

    def repaired(self):
        """`repair` makes a file that Python reads: it says what the model holds."""
        sound = os.path.join(self.work, "sound.json")
        result = self.run("repair", self.path, "-o", sound)
        try:
            facts = chrome.Facts(chrome.load(sound))
        except (OSError, ValueError) as problem:
            self.problems.append("repair ended with %d, and %s" % (result.returncode, problem))
            return
        self.model(facts)
        self.round_trip(facts)

    def no_trace(self):
        result = self.run("info", "--json", self.path)
        reported = json.loads(result.stdout) if result.returncode == 0 else {}
        if result.returncode not in (0, 1, 2) or reported.get("activities"):
            self.problems.append("no Chrome trace, but info ended with %d" % result.returncode)
        elif reported and not reported["ledger"]:
            self.problems.append("no Chrome trace, and read without a word")
        return "no Chrome trace: %s" % ("read as nothing" if reported else "refused")

    def compare(self):
        try:
            trace = chrome.load(self.path)
        except ValueError as problem:
            return self.refused(problem)
        if chrome.events_of(trace) is None:
            return self.no_trace()
        facts = chrome.Facts(trace)
        if self.info(facts):
            self.model(facts)
            self.round_trip(facts)
        return "%d events, %d ends of flows, %d names of rows (%d added)" % (
            len(facts.events), sum(facts.flows.values()), len(facts.names),
            getattr(self, "added", 0))


def traces_in(folders):
    found = []
    for folder in folders:
        found += glob.glob(os.path.join(folder, "**", "*.gz"), recursive=True)
    return sorted(found)


def main():
    command, folders, every = sys.argv[1], sys.argv[2:], 1
    if folders[0] == "--every":
        every, folders = int(folders[1]), folders[2:]
    paths = traces_in(folders)[::every]
    if not paths:
        print("skipped: no traces in %s" % ", ".join(folders))
        return 77
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        for path in paths:
            comparison = Comparison(command, path, work)
            words = comparison.compare()
            print("%s: %s" % (os.path.relpath(path, folders[0]), words))
            for problem in comparison.problems:
                print("    " + problem)
            bad += bool(comparison.problems)
    print("%d traces, %d different" % (len(paths), bad))
    return 1 if bad else 0


sys.exit(main())
