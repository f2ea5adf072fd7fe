"""`ckineto convert` and `ckineto export`: every format by its ending and by name, pipes, what cannot be
written, and that the account of what was written is true."""

import collections
import decimal
import gzip
import json
import os
import re
import sqlite3
import stat
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "helpers"))
import formats  # noqa: E402
from command import CommandTest, main  # noqa: E402

HOST, DEVICE = 4000, 0
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": HOST, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": HOST, "tid": 1, "args": {"name": "main, \"the\" thread"}},
    {"ph": "M", "name": "process_labels", "pid": DEVICE, "args": {"labels": "GPU 0"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": HOST, "tid": 1, "ts": 100, "dur": 50,
     "args": {"External id": 3, "Input Dims": [[2, 3], []], "note": "a;b,\"c\"\nd\\e"}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": HOST, "tid": 1, "ts": 110,
     "dur": 5.5, "args": {"correlation": 9}},
    {"ph": "X", "cat": "python_function", "name": "train.py(12): step; \u00e9 \U0001f600", "pid": HOST,
     "tid": 1, "ts": 90, "dur": 200, "args": {"Python id": 1}},
    # these two overlap on their stream, so neither may hide the other
    {"ph": "X", "cat": "kernel", "name": "gemm<float, 4>", "pid": DEVICE, "tid": 7, "ts": 120, "dur": 30,
     "args": {"correlation": 9, "device": 0, "stream": 7, "grid": [1, 2, 3]}},
    {"ph": "X", "cat": "kernel", "name": "relu", "pid": DEVICE, "tid": 7, "ts": 140, "dur": 30,
     "args": {"device": 0, "stream": 7}},
    {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "mark", "pid": HOST, "tid": 1, "ts": 130},
    {"ph": "C", "name": "power", "pid": DEVICE, "ts": 125, "args": {"W": 250.5}},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 9, "pid": HOST, "tid": 1, "ts": 110},
    {"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": 9, "pid": DEVICE, "tid": 7, "ts": 120},
]
# What comes first has no name; what has one comes late, or never.
DISORDERLY = [
    {"ph": "C", "name": "sampled", "pid": 12, "ts": 3, "args": {"v": 1}},
    {"ph": "X", "name": "a", "pid": 3, "tid": 0, "ts": 0, "dur": 10},
    {"ph": "X", "name": "b", "pid": 3, "tid": 0, "ts": 5, "dur": 10},
    {"ph": "X", "name": "c", "pid": "of text", "tid": "row", "ts": 0, "dur": 10},
    {"ph": "X", "name": "d", "pid": "of text", "tid": "row", "ts": 5, "dur": 10},
    {"ph": "X", "name": "c", "pid": "of text", "tid": 1, "ts": 0, "dur": 10},
    {"ph": "X", "name": "d", "pid": "of text", "tid": 1, "ts": 5, "dur": 10},
    {"ph": "X", "name": "k", "cat": "kernel", "pid": 0, "tid": 7, "ts": 0, "dur": 10},
    {"ph": "b", "name": "r", "cat": "x", "id": 1, "pid": 20, "tid": 1, "ts": 1},
    {"ph": "e", "name": "r", "cat": "x", "id": 1, "pid": 20, "tid": 1, "ts": 9},
    {"ph": "X", "name": "e", "pid": 1, "tid": -2, "ts": 0, "dur": 1},
    {"ph": "i", "name": "all", "s": "g", "pid": 44, "tid": 0, "ts": 4},
    {"ph": "M", "name": "thread_name", "pid": 9, "tid": 2, "args": {"name": "nothing happens here"}},
    {"ph": "M", "name": "thread_sort_index", "pid": 9, "tid": 3, "args": {"sort_index": 5}},
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "named last"}},
    {"ph": "M", "name": "process_labels", "pid": "of text", "args": {"labels": "label"}},
    {"ph": "s", "cat": "fwdbwd", "name": "f", "id": 3, "pid": 1, "tid": -2, "ts": 0},
    {"ph": "f", "cat": "fwdbwd", "name": "f", "id": 3, "pid": 3, "tid": 0, "ts": 6, "bp": "e"},
]
SLICES = [e for e in EVENTS if e["ph"] == "X"]
ROWS = [e for e in EVENTS if e["ph"] in "XiC"]
ENDINGS = (".json", ".json.gz", ".jsonl", ".ndjson", ".jsonl.gz", ".csv", ".csv.gz", ".folded",
           ".collapsed", ".folded.gz", ".svg", ".speedscope.json", ".speedscope.json.gz", ".pb.gz", ".pprof",
           ".pftrace", ".perfetto-trace", ".pftrace.gz", ".sqlite", ".db")
# formats in which everything has a place
WHOLE = ("chrome", "jsonl", "perfetto", "sqlite")


def spans(events):
    return sorted((e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in events)


class Convert(CommandTest):
    def setUp(self):
        super().setUp()
        self.source = self.path("source.json")
        with open(self.source, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "traceEvents": EVENTS}, file)

    def convert(self, *arguments, status=0, **options):
        done = self.run_command("convert", *arguments, **options)
        self.assertEqual(done.returncode, status, done.err.decode())
        return done

    def has_sqlite(self):
        return b"without SQLite" not in self.run_command("convert", self.source, "-o",
                                                         self.path("probe.db")).err


class Formats(Convert):
    def test_every_ending_is_written_and_every_activity_accounted_for(self):
        for ending in ENDINGS:
            if ending in (".sqlite", ".db") and not self.has_sqlite():
                continue
            out = self.path("out" + ending)
            said = self.convert(self.source, "-o", out).err.decode()
            self.assertGreater(os.path.getsize(out), 20, ending)
            kind = re.search(r": (\w+), ", said)[1]
            omitted = sum(int(n) for n in re.findall(r"not in this file: (\d+) activit\w+ \(", said))
            written = re.search(rf"activities {len(ROWS)} → (.*)", said)[1]
            parts = re.findall(r"(\d+) (?:slice|asynchronous|instant|counter)", written)
            self.assertEqual(sum(map(int, parts)) + omitted, len(ROWS), said)
            self.assertEqual(omitted, 0 if kind in WHOLE + ("csv",) else 2, said)
            self.assertIn("flows 1 → %d" % (kind in WHOLE), said)

    def test_the_same_bytes_twice(self):
        for ending in (e for e in ENDINGS if e not in (".sqlite", ".db")):
            out, before = self.path("out" + ending), None
            for _ in range(2):
                self.convert(self.source, "-q", "-o", out)
                with open(out, "rb") as file:
                    data = file.read()
                self.assertIn(before, (None, data), ending)
                before = data

    def header_of(self, path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_the_header_goes_on_saying_what_it_said_and_no_more(self):
        for said in ({}, {"displayTimeUnit": "ns"}, {"displayTimeUnit": None, "schemaVersion": 2, "x": [1]}):
            with open(self.source, "w", encoding="utf-8") as file:
                json.dump({**said, "traceEvents": EVENTS}, file)
            self.convert(self.source, "-q", "-o", self.path("out.json"))
            header = self.header_of(self.path("out.json"))
            for key in ("deviceProperties", "baseTimeNanoseconds", "traceEvents", "ckineto", "traceName"):
                del header[key]
            self.assertEqual(header, said)

    def test_long_names_of_rows_are_cut_between_characters(self):
        long = "a" + "\u4e2d" * 100
        with open(self.source, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": [
                {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": long}},
                {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": long}},
                {"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}, file)
        for ending in (".folded", ".svg", ".speedscope.json", ".pprof", ".pftrace"):
            said = self.convert(self.source, "-o", self.path("out" + ending)).err.decode()
            self.assertNotIn("U+FFFD", said, ending)
        with open(self.path("out.folded"), encoding="utf-8") as file:
            self.assertEqual(len(file.read().split(";")), 3)

    def test_what_concerns_all_tracks_keeps_its_category(self):
        events = [{"ph": "i", "s": "g", "name": "plain", "pid": 1, "tid": 1, "ts": 1},
                  {"ph": "i", "s": "g", "cat": "mine", "name": "named", "pid": 1, "tid": 1, "ts": 2}]
        with open(self.source, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        self.convert(self.source, "-q", "-o", self.path("out.json"))
        written = {e["name"]: e for e in self.header_of(self.path("out.json"))["traceEvents"]}
        self.assertNotIn("cat", written["plain"])
        self.assertEqual((written["named"]["cat"], written["named"]["s"]), ("mine", "g"))

    def test_written_again_it_is_the_same_to_the_byte(self):
        devices = [{"id": 8, "name": "idle"}, {"id": 0, "name": "busy"}]
        for events in (EVENTS, DISORDERLY, DISORDERLY[::-1]):
            with open(self.source, "w", encoding="utf-8") as file:
                json.dump({"deviceProperties": devices, "traceEvents": events}, file)
            once, twice = self.path("once.json"), self.path("twice.json")
            self.convert(self.source, "-q", "-o", once)
            self.convert(once, "-q", "-o", twice)
            with open(once, "rb") as first, open(twice, "rb") as second:
                self.assertEqual(first.read().replace(b"once.json", b"twice.json"), second.read())

    def test_bytes_that_are_no_text_become_valid_and_are_counted(self):
        broken = b'"args":{"k\xff":"v\xfe ","m":[1, "\xfd"]}'
        with open(self.source, "wb") as file:
            file.write(b'{"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,' + broken +
                       b'}],"deviceProperties":[{"id":0,"name":"\xff"}],"other":{"o":"\xff"}}')
        said = self.convert(self.source, "-o", self.path("out.json")).err.decode()
        self.assertIn("became U+FFFD 4 times", said)
        header = self.header_of(self.path("out.json"))
        self.assertEqual(header["traceEvents"][0]["args"], {"k\ufffd": "v\ufffd ", "m": [1, "\ufffd"]})
        self.assertEqual(header["other"], {"o": "\ufffd"})
        self.assertEqual(header["deviceProperties"], [{"id": 0, "name": "\ufffd"}])
        self.assertEqual(header["ckineto"]["ledger"][-1]["count"], 4)

    def test_csv_has_a_line_for_each_activity(self):
        self.convert(self.source, "-o", self.path("out.csv"))
        lines = formats.read_csv(self.path("out.csv"))
        self.assertEqual(len(lines), len(ROWS))
        slices = [l for l in lines if l["form"] == "slice"]
        self.assertEqual(sorted((l["name"].encode("latin-1").decode(), int(l["start_ns"]),
                                 int(l["duration_ns"])) for l in slices), spans(SLICES))
        mm = next(l for l in slices if l["name"] == "aten::mm")
        self.assertEqual((mm["external_id"], mm["correlation_id"], mm["process_name"]), ("3", "", "python"))
        self.assertEqual(json.loads(mm["args"]), {k: v for k, v in SLICES[0]["args"].items()
                                                  if k != "External id"})
        self.assertEqual(mm["self_ns"], str(50000 - 5500))
        self.assertEqual(mm["track_name"], "main, \"the\" thread")
        gemm = next(l for l in slices if l["name"].startswith("gemm"))
        launch = next(l for l in slices if l["name"] == "cudaLaunchKernel")
        self.assertEqual(gemm["launch"], launch["row"])

    def test_jsonl_has_everything(self):
        self.convert(self.source, "-o", self.path("out.jsonl"))
        lines = formats.read_jsonl(self.path("out.jsonl"))
        self.assertEqual(len(lines["activity"]), len(ROWS))
        slices = [l for l in lines["activity"] if l["form"] == "slice"]
        self.assertEqual(sorted((l["name"], l["start_ns"], l["duration_ns"]) for l in slices), spans(SLICES))
        rows = {l["row"]: l for l in lines["activity"]}
        flow = lines["flow"][0]
        self.assertEqual((flow["flow_type"], rows[flow["from"]]["name"], rows[flow["to"]]["name"]),
                         ("ac2g", "cudaLaunchKernel", "gemm<float, 4>"))
        counter = next(l for l in lines["activity"] if l["form"] == "counter")
        self.assertEqual((counter["name"], counter["args"]), ("power", {"W": 250.5}))
        self.assertEqual(sorted({l["lane"] for l in slices if l["device"]}), [0, 1])
        self.assertEqual({l["key"]: l["value"] for l in lines["metadata"]}, {"schemaVersion": 1})
        self.assertEqual(len(lines["trace"]), 1)

    def test_thread_ids_are_those_recorded_unless_lanes_are_split(self):
        recorded = {l["track_id"] for l in self.slices_of(self.source)}
        for options, added in ([], False), (["--split-lanes"], True):
            self.convert(self.source, "-o", self.path("lanes.json"), *options)
            with open(self.path("lanes.json"), encoding="utf-8") as file:
                tids = {e["tid"] for e in json.load(file)["traceEvents"] if e["ph"] == "X"}
            self.assertEqual(bool(tids - recorded), added, tids)
            self.assertEqual({l["track_id"] for l in self.slices_of(self.path("lanes.json"))}, recorded)

    def slices_of(self, path):
        self.convert(path, "-o", self.path("slices.jsonl"))
        return [l for l in formats.read_jsonl(self.path("slices.jsonl"))["activity"] if l["form"] == "slice"]

    def test_folded_stacks_sum_up_to_the_time_of_their_rows(self):
        self.convert(self.source, "-o", self.path("out.folded"))
        stacks = dict(formats.read_folded(self.path("out.folded")))
        host = {s[2:]: w for s, w in stacks.items() if s[0] == b"python (4000)"}
        step = "train.py(12): step; \u00e9 \U0001f600".encode()
        self.assertEqual(host, {(step,): 150000, (step, b"aten::mm"): 44500,
                                (step, b"aten::mm", b"cudaLaunchKernel"): 5500})
        device = {s[2:]: w for s, w in stacks.items() if s[0] == b"GPU 0"}
        self.assertEqual(device, {(b"gemm<float, 4>",): 30000, (b"relu",): 30000})

    def test_folded_by_kind_and_in_other_units(self):
        self.convert(self.source, "-o", self.path("out.folded"), "--by", "kind", "--unit", "us")
        stacks = dict(formats.read_folded(self.path("out.folded")))
        self.assertEqual(stacks[b"kernel", b"relu"], 30)
        self.assertEqual({s[0] for s in stacks}, {b"kernel", b"python_function"})
        self.convert(self.source, "-o", self.path("out.folded"), "--by=none")
        self.assertEqual(dict(formats.read_folded(self.path("out.folded")))[b"relu",], 30000)

    def test_speedscope_has_a_profile_for_each_lane(self):
        self.convert(self.source, "-o", self.path("out.speedscope.json"))
        profiles = dict(formats.read_speedscope(self.path("out.speedscope.json")))
        self.assertEqual(sorted(len(p) for p in profiles.values()), [1, 1, 3])
        self.assertEqual(sorted((s[-1], start + 90000, end - start) for p in profiles.values()
                                for s, start, end in p), spans(SLICES))
        deepest = max((s for p in profiles.values() for s, _, _ in p), key=len)
        self.assertEqual(deepest[1:], ("aten::mm", "cudaLaunchKernel"))

    def test_pprof_has_times_counts_and_labels(self):
        self.convert(self.source, "-o", self.path("out.pb.gz"))
        types, samples = formats.read_pprof(self.path("out.pb.gz"))
        self.assertEqual([t[0] for t in types], ["activities", "time"])
        self.assertEqual(sum(s.values[0] for s in samples), len(SLICES))
        self.assertEqual(sum(s.values[1] for s in samples), 200000 + 60000)
        relu = next(s for s in samples if s.stack[-1] == "relu")
        self.assertEqual((relu.labels["kind"], relu.labels["process"]), ("kernel", "GPU 0"))
        self.assertIn("stream", relu.labels)

    def test_chrome_reads_back_the_same(self):
        self.convert(self.source, "-o", self.path("out.json.gz"))
        self.convert(self.path("out.json.gz"), "-o", self.path("again.jsonl"))
        self.convert(self.source, "-o", self.path("once.jsonl"))
        once, again = (formats.read_jsonl(self.path(n + ".jsonl")) for n in ("once", "again"))
        key = lambda l: (l["start_ns"], l["end_ns"], l["name"])  # noqa: E731
        for lines in (once, again):
            for l in lines["activity"]:
                for number in ("row", "parent", "launch", "track", "process", "track_name"):
                    l.pop(number, None)
        self.assertEqual(sorted(once["activity"], key=key), sorted(again["activity"], key=key))

    def test_sqlite_has_the_rows(self):
        if not self.has_sqlite():
            self.skipTest("built without SQLite")
        out = self.path("out.db")
        done = self.run_command("convert", self.source, "-o", out, "-o", "csv:" + self.path("out.csv"))
        self.assertEqual(done.returncode, 0, done.err)
        with sqlite3.connect(out) as database:
            self.assertEqual(database.execute("SELECT count(*) FROM activities").fetchone()[0], len(ROWS))
        self.assertEqual(len(formats.read_csv(self.path("out.csv"))), len(ROWS))


class RealTraces(Convert):
    """Against Python's reading of traces of PyTorch, where they are at hand."""

    NAMES = ("cpu_only.json.gz", "amd_mi250.json.gz", "cuda_event_sync_multi_stream.json.gz",
             "nccl_data.json.gz", "triton_example.json.gz")

    def ground_truth(self, path):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            trace = json.load(file, parse_float=decimal.Decimal)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        return collections.Counter((e["name"], int(decimal.Decimal(e["dur"]) * 1000))
                                   for e in events if e["ph"] == "X")

    def check(self, source):
        truth = self.ground_truth(source)
        outputs = {"csv": "o.csv", "jsonl": "o.jsonl", "folded": "o.folded", "pprof": "o.pb", "speedscope": "o.ss"}
        self.run_command("convert", source, "-q", *(f"-o{name}:{self.path(file)}" for name, file in outputs.items()))
        found = [l for l in formats.read_csv(self.path("o.csv")) if l["form"] == "slice"]
        self.assertEqual(collections.Counter((l["name"].encode("latin-1").decode(), int(l["duration_ns"]))
                                             for l in found), truth)
        lines = formats.read_jsonl(self.path("o.jsonl"))
        self.assertEqual(collections.Counter((l["name"], l["duration_ns"]) for l in lines["activity"]
                                             if l["form"] == "slice"), truth)
        lengths = [l for l in lines["activity"] if l["form"] in ("slice", "async")
                   and l.get("category") != "Trace"]  # spans of recorders are no frames
        self.assertEqual(collections.Counter((s[-1], end - start)
                                             for _, p in formats.read_speedscope(self.path("o.ss"))
                                             for s, start, end in p),
                         collections.Counter((l["name"], l["duration_ns"]) for l in lengths))
        own = sum(l["self_ns"] for l in lengths)
        self.assertEqual(sum(w for _, w in formats.read_folded(self.path("o.folded"))), own)
        samples = formats.read_pprof(self.path("o.pb"))[1]
        self.assertEqual([sum(s.values[0] for s in samples), sum(s.values[1] for s in samples)],
                         [len(lengths), own])

    def test_nothing_is_lost_and_nothing_invented(self):
        paths = [os.path.join(os.environ.get("CKINETO_TRACES", "/none"), n) for n in self.NAMES]
        there = [p for p in paths if os.path.exists(p)]
        if not there:
            self.skipTest("the traces are not at hand")
        for path in there:
            with self.subTest(os.path.basename(path)):
                self.check(path)


class Places(Convert):
    def test_to_decides_over_the_ending(self):
        self.convert(self.source, "-o", self.path("out.json"), "--to", "csv")
        self.assertEqual(len(formats.read_csv(self.path("out.json"))), len(ROWS))
        self.convert(self.source, "-o", self.path("out"), "--to", "jsonl.gz")
        with open(self.path("out"), "rb") as file:
            self.assertEqual(file.read(2), b"\x1f\x8b")
        self.assertEqual(len(formats.read_jsonl(self.path("out"))["activity"]), len(ROWS))

    def test_standard_output_is_a_place(self):
        done = self.convert(self.source, "-o", "-", "--to", "jsonl")
        self.assertEqual(sum(b'"type":"activity"' in l for l in done.out.split(b"\n")), len(ROWS))
        self.assertIn(b"standard output: jsonl", done.err)
        quiet = self.convert(self.source, "-q", "-o", "/dev/stdout", "--to", "jsonl")
        self.assertEqual((quiet.out.replace(b"/dev/stdout", b"trace"), quiet.err), (done.out, b""))

    def test_standard_input_is_a_place(self):
        with open(self.source, "rb") as file:
            done = self.convert("-", "-o", "-", "-t", "csv", data=file.read())
        with open(self.path("in.csv"), "wb") as file:
            file.write(done.out)
        self.assertEqual(len(formats.read_csv(self.path("in.csv"))), len(ROWS))

    def test_a_closed_pipe_is_a_failure_not_a_death(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = self.run_command("convert", self.source, "-o", "-", "--to", "csv", stdout=write_end)
        os.close(write_end)
        self.assertEqual((done.returncode, done.err), (1, b""))

    def test_a_full_disk_is_reported(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("no /dev/full")
        for name in ("chrome", "csv", "jsonl", "folded", "speedscope", "pprof", "perfetto"):
            done = self.convert(self.source, "-o", "/dev/full", "--to", name, status=1)
            self.assertIn(b"/dev/full", done.err)

    def test_what_cannot_be_written_leaves_what_was_there(self):
        out = self.path("no/out.csv")
        self.assertIn(b"out.csv", self.convert(self.source, "-o", out, status=1).err)
        os.mkdir(self.path("locked"))
        out = self.path("locked/out.csv")
        with open(out, "w") as file:
            file.write("old")
        os.chmod(self.path("locked"), stat.S_IRUSR | stat.S_IXUSR)
        if os.geteuid() != 0:
            self.convert(self.source, "-o", out, status=1)
            with open(out) as file:
                self.assertEqual(file.read(), "old")
        os.chmod(self.path("locked"), stat.S_IRWXU)

    def test_a_database_needs_a_file(self):
        done = self.convert(self.source, "-o", "-", "--to", "sqlite", status=2)
        self.assertIn(b"needs a regular file", done.err)


class Mistakes(Convert):
    def test_no_file_is_written_twice(self):
        os.symlink("t.out", self.path("link"))
        with open(self.path("t.out"), "w"):
            pass
        for one, other in (("t.out", "t.out"), ("-", "-"), ("t.out", "link")):
            done = self.run_command("convert", self.source, "-o", f"csv:{one}", "-o", f"jsonl:{other}")
            self.assertEqual((done.returncode, done.out), (2, b""))
            self.assertIn(b"twice", done.err)

    def check(self, arguments, *words):
        done = self.run_command(*arguments)
        self.assertEqual((done.returncode, done.out), (2, b""), arguments)
        for word in words:
            self.assertIn(word.encode(), done.err)

    def test_for_unknown_formats_and_endings_the_known_ones_are_listed(self):
        self.check(["convert", self.source, "-o", "x.xml"], "x.xml", ".json.gz", "convert --list")
        self.check(["convert", self.source, "-o", "x", "--to", "xml"], "unknown format 'xml'", "chrome", "csv")
        self.check(["convert", self.source, "-o", "x", "--to", "pprof.zst"], "drop .zst")
        for ending in ("sqlite.gz", "db.zst", "pprof.zst"):
            self.check(["convert", self.source, "-o", f"x.{ending}"], "does not support this compression")
        self.check(["convert", self.source, "-o", "-"], "--to")

    def test_mistakes_are_explained(self):
        self.check(["convert"], "no trace given")
        self.check(["convert", self.source], "-o")
        self.check(["convert", self.source, "-o", self.source], "overwrite")
        self.check(["convert", self.source, "-o", "x.folded", "--by", "name"], "--by is track, kind or none")
        self.check(["convert", self.source, "-o", "x.folded", "--unit", "s"], "--unit is")
        self.check(["convert", self.path("none.json"), "-o", "x.csv"], "none.json")
        self.check(["convert", self.source, "-o", "x", "--to", "crome"], "did you mean 'chrome'")
        self.check(["convert", self.source, "-o", "csv:x.csv", "-o", "y"], "unknown format of y")
        self.check(["export", self.source], "ckineto convert")
        self.check(["export", "--csv", self.path("x.csv")], "no trace given")
        self.check(["export", self.source, "--csv", self.source], "overwrite")
        self.check(["export", self.source, "--cvs", "x"], "unknown option '--cvs'")

    def test_the_formats_are_listed(self):
        done = self.convert("--list")
        for name in ("chrome", "perfetto", "sqlite", "jsonl", "csv", "folded", "speedscope", "pprof"):
            self.assertIn(name.encode(), done.out)


if __name__ == "__main__":
    unittest.TestCase.maxDiff = 4000
    main()
