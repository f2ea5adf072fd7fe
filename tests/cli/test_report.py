"""`ckineto report`: the page holds every activity and every number, runs nothing but its own script, and is
the same each time; the text keeps to its width and has colours on terminals only."""

import base64
import decimal
import glob
import gzip
import hashlib
import html.parser
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import unittest
import unittest.mock

from command import COMMAND, CommandTest, main
from terminal_output import open_terminal, read_terminal

TRACES = os.environ.get("CKINETO_TRACES", "")
EVIL = "</script><script>alert(1)</script>"
STEP = "ProfilerStep#{}"


# ---- traces ----

def activity(cat, name, start, duration, pid=5, tid=7, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration, "args": args}


def kernel(name, start, duration, correlation, stream=7):
    return activity("kernel", name, start, duration, 0, stream, correlation=correlation, device=0, stream=stream)


def launch(start, correlation, tid=7):
    return activity("cuda_runtime", "cudaLaunchKernel", start, 5, tid=tid, correlation=correlation)


def sample(name, at, pid=5, **values):
    return {"ph": "C", "name": name, "pid": pid, "ts": at, "args": values}


def usual_events(steps=3):
    events = [{"ph": "M", "name": "process_name", "pid": 5, "args": {"name": "python"}}]
    for n in range(steps):
        at = 1000 * n
        events += [activity("user_annotation", STEP.format(n), at, 1000),
                   activity("cpu_op", "aten::mm", at + 10, 50, **{"External id": n, "Input Dims": [[8, 8], [8, 8]]}),
                   launch(at + 20, n + 1), kernel("ampere_sgemm_128x64_nn", at + 100.5, 400.25, n + 1),
                   activity("user_annotation", "enumerate(DataLoader)#_Loader.__next__", at + 600, 300),
                   sample("power", at, watts=200 + n)]
    return events


# ---- the page ----

class Page(html.parser.HTMLParser):
    """What a browser makes of the file: elements, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.inside = [], None
        self.scripts, self.styles, self.title, self.policy = [], [], "", ""
        self.feed(text)
        self.close()
        self.data = {a["id"]: t for a, t in self.scripts if a.get("type") == "text/plain"}
        self.code = [t for a, t in self.scripts if a.get("type") != "text/plain"]

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag == "script":
            self.scripts.append((attributes, ""))
        elif tag == "style":
            self.styles.append("")
        elif tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        if self.inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + text)
        elif self.inside == "style":
            self.styles[-1] += text
        elif self.inside == "title":
            self.title += text

    def element(self, name):
        return gzip.decompress(base64.b64decode(self.data[name], validate=True))

    def summary(self):
        return json.loads(self.element("summary"))


def leb128(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def numbers(data):
    found, at = [], 0
    while at < len(data):
        value, at = leb128(data, at)
        found.append(value)
    return found


def unzigzag(n):
    return n >> 1 if n % 2 == 0 else -(n + 1 >> 1)


class Timeline:
    """docs/reference/report.md in Python."""

    def __init__(self, page):
        data = page.element("timeline")
        size, = struct.unpack_from("<I", data)
        self.header = header = json.loads(data[4:4 + size])
        at = 4 + size
        columns = {}
        for column in header["columns"]:
            columns[column["name"]] = numbers(data[at:at + column["bytes"]])
            at += column["bytes"]
        self.origin = int(header["origin_ns"])
        self.counters = []
        for counter in header["counters"]:
            times = numbers(data[at:at + counter["time_bytes"]])
            at += counter["time_bytes"]
            values = struct.unpack_from(f"<{counter['count']}d", data, at)
            assert counter["value_bytes"] == 8 * counter["count"] == 8 * len(times)
            at += counter["value_bytes"]
            self.counters.append((counter, times, values))
        assert at == len(data)
        self.args = []
        for part in range(-(-header["rows"] // header["args_rows"])):
            self.args += json.loads(page.element(f"args-{part}"), parse_float=decimal.Decimal)
        self.rows = self.activities(columns)

    def activities(self, columns):
        rows, number, ids = [], 0, {"external": 0, "correlation": 0}
        header = self.header
        for track_index, track in enumerate(header["tracks"]):
            start = self.origin
            for place in range(track["first"], track["first"] + track["count"]):
                start += columns["start"][place]
                number += unzigzag(columns["row"][place])
                link = columns["link"][place]
                args = self.args[place] or {}
                for column, key in (("external", "External id"), ("correlation", "correlation")):
                    if columns[column][place]:
                        ids[column] += unzigzag(columns[column][place] - 1)
                        args[key] = ids[column]
                rows.append({"name": header["strings"][columns["name"][place]],
                             "kind": header["kinds"][columns["kind"][place]], "start": start,
                             "dur": columns["dur"][place], "depth": columns["depth"][place], "row": number,
                             "track": track_index, "call": place + unzigzag(link - 1) if link else None,
                             "args": args})
        assert len(rows) == header["rows"] == len(self.args)
        return rows


# ---- what is in a trace, computed by a slow program ----

def ns(us):
    return int((decimal.Decimal(str(us)) * 1000).to_integral_value(decimal.ROUND_HALF_UP))


def known_args(event):
    """Ids have one spelling, and 0 is none."""
    args = dict(event.get("args") or {})
    for key in ("external id", "External ID", "External id"):
        if key in args:
            args["External id"] = args.pop(key)
    return {k: v for k, v in args.items() if k not in ("External id", "correlation") or v != 0}


def depths(track):
    """Of rows (start, end) by start, longer first: how many lie around each."""
    open_ends, found = [], []
    for start, end in track:
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        found.append(len(open_ends))
        open_ends.append(end)
    return found


class Report(CommandTest):
    def trace(self, events, name="trace.json", **header):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, **header, "traceEvents": events}, file)
        return path

    def run_ok(self, *arguments, status=0, **options):
        done = self.run_command(*arguments, **options)
        self.assertEqual(done.returncode, status, done.err.decode(errors="replace"))
        return done

    def report(self, *arguments):
        out = self.path("report.html")
        self.run_ok("report", *arguments, "-o", out)
        with open(out, encoding="utf-8", newline="") as file:
            return Page(file.read())

    def text(self, *arguments, **options):
        return self.run_ok("report", "--text", *arguments, **options).out.decode()


class Data(Report):
    def expect_activities(self, events, timeline):
        """Each activity of the source is on the page, once."""
        wanted = sorted((e["name"], e["cat"].removeprefix("cuda_"), ns(e["dur"]), json.dumps(known_args(e), sort_keys=True))
                        for e in events if e["ph"] == "X")
        found = sorted((r["name"], r["kind"], r["dur"], json.dumps(r["args"], sort_keys=True)) for r in timeline.rows)
        self.assertEqual(found, wanted)

    def test_every_activity_comes_back_with_its_times_kind_and_arguments(self):
        events = usual_events()
        timeline = Timeline(self.report(self.trace(events)))
        self.expect_activities(events, timeline)
        source = [e for e in events if e["ph"] != "M"]
        for row in timeline.rows:
            event = source[row["row"]]
            self.assertEqual((row["name"], row["start"], row["dur"]), (event["name"], ns(event["ts"]), ns(event["dur"])))
            self.assertEqual(row["args"], known_args(event))

    def test_depth_is_how_many_lie_around_it(self):
        events = [activity("cpu_op", "a", 0, 100), activity("cpu_op", "b", 0, 50), activity("cpu_op", "c", 10, 10),
                  activity("cpu_op", "d", 50, 50), activity("cpu_op", "e", 99, 1), activity("cpu_op", "f", 100, 5)]
        timeline = Timeline(self.report(self.trace(events)))
        self.assertEqual([r["depth"] for r in timeline.rows], [0, 1, 2, 1, 2, 0])
        self.assertEqual(timeline.header["tracks"][0]["depths"], 3)

    def test_what_overlaps_and_lies_not_within_stands_in_another_line(self):
        events = [activity("cpu_op", str(n), 10 * n, 25) for n in range(6)]
        timeline = Timeline(self.report(self.trace(events)))
        until = {}
        for row in timeline.rows:
            self.assertLessEqual(until.get(row["depth"], 0), row["start"])
            until[row["depth"]] = row["start"] + row["dur"]
        self.assertEqual(timeline.header["tracks"][0]["depths"], len(until))

    def test_work_is_linked_to_the_call_that_launched_it(self):
        timeline = Timeline(self.report(self.trace(usual_events())))
        kernels = [r for r in timeline.rows if r["kind"] == "kernel"]
        self.assertEqual(len(kernels), 3)
        for row in kernels:
            call = timeline.rows[row["call"]]
            self.assertEqual(call["name"], "cudaLaunchKernel")
            self.assertEqual(call["args"]["correlation"], row["args"]["correlation"])
        self.assertTrue(all(r["call"] is None for r in timeline.rows if r["kind"] != "kernel"))

    def test_steps_and_counters_are_there(self):
        timeline = Timeline(self.report(self.trace(usual_events())))
        self.assertEqual([(s["name"], s["start"], s["dur"]) for s in timeline.header["steps"]],
                         [(STEP.format(n), 1000000 * n, 1000000) for n in range(3)])
        (counter, times, values), = timeline.counters
        self.assertEqual((counter["name"], times, values), ("power: watts", [0, 1000000, 1000000], (200, 201, 202)))

    def test_samples_that_are_no_numbers_are_left_out(self):
        events = [activity("cpu_op", "a", 0, 10), sample("c", 1, v=float("nan"), w=1), sample("c", 2, v=float("inf")),
                  sample("c", 3, v=3.5, s="x", t="12", z=None)]
        found = {c["name"]: list(values) for c, _, values in Timeline(self.report(self.trace(events))).counters}
        self.assertEqual(found["c: w"], [1])
        self.assertEqual(found["c: v"], [3.5])
        self.assertNotIn("c: s", found)

    def test_what_was_found_and_the_facts_are_those_of_analyze(self):
        path = self.trace(usual_events())
        summary = self.report(path).summary()
        facts = json.loads(self.run_ok("analyze", "--json", "--all", path).out)["tables"]
        found = json.loads(self.run_ok("analyze", "--findings", "--json", path).out)
        self.assertEqual(summary["findings"], found)
        self.assertTrue(summary["findings"]["findings"])
        for name, table in summary["facts"]["tables"].items():
            self.assertEqual(table["rows"], facts[name]["rows"], name)
            self.assertEqual(table["columns"], facts[name]["columns"], name)
        self.assertIn("kernels", summary["facts"]["tables"])
        self.assertEqual(summary["timeline"], 15)

    def test_long_tables_are_cut_and_say_so(self):
        events = [kernel(f"k{n}", 10 * n, 5, n) for n in range(50)]
        table = self.report("--top", "7", self.trace(events)).summary()["facts"]["tables"]["kernels"]
        self.assertEqual((len(table["rows"]), table["more"]), (7, 43))

    def test_more_activities_than_the_limit_leave_the_timeline_out(self):
        path = self.trace(usual_events())
        done = self.run_ok("report", path, "--activity-limit", "10", "-o", self.path("report.html"))
        self.assertIn(b"no timeline", done.err)
        with open(self.path("report.html"), encoding="utf-8") as file:
            page = Page(file.read())
        self.assertEqual(list(page.data), ["summary", "stacks"])
        self.assertEqual(page.summary()["timeline"], 0)

    def test_several_files_are_ranks_side_by_side(self):
        for rank in range(3):
            self.trace(usual_events(), f"ranks/rank{rank}.json", distributedInfo={"rank": rank, "world_size": 3})
        page = self.report(self.path("ranks"))
        timeline = Timeline(page)
        self.assertEqual(sorted({p["rank"] for p in timeline.header["processes"]}), [0, 1, 2])
        self.assertEqual(len(timeline.rows), 45)
        summary = page.summary()
        self.assertEqual(sorted({r[0] for r in summary["facts"]["tables"]["steps"]["rows"]}), [0, 1, 2])
        self.assertEqual(summary["overview"]["world_size"], 3)
        self.assertEqual([(r["rank"], r["is_cut"]) for r in summary["overview"]["ranks"]], [(n, False) for n in range(3)])
        self.assertEqual({r["start_us"] for r in summary["overview"]["ranks"]}, {0})
        done = self.run_ok("report", self.path("ranks"), "--activity-limit", "20", "-o", self.path("report.html"))
        self.assertIn(b"the timeline of the first rank only", done.err)

    def test_the_same_trace_makes_the_same_bytes(self):
        path, before = self.trace(usual_events(200)), None
        for threads in ("1", "1", "2", "2"):
            out = self.path("report.html")
            self.run_ok("report", path, "--threads", threads, "-o", out)
            with open(out, "rb") as file:
                data = file.read()
            self.assertIn(before, (None, data))
            before = data


class Hostile(Report):
    def assert_safe(self, page):
        """One script, which is ours, and nothing that a name of a trace made."""
        policy = page.policy
        self.assertEqual(len(page.code), 1)
        self.assertEqual(len(page.styles), 1)
        for text, directive in ((page.code[0], "script-src"), (page.styles[0], "style-src")):
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            self.assertIn(f"{directive} 'sha256-{digest}'", policy)
        self.assertTrue(policy.startswith("default-src 'none'; "))
        self.assertNotIn("unsafe", policy)
        for tag, attributes in page.elements:
            self.assertFalse([a for a in attributes if a.startswith("on") or a == "style"], (tag, attributes))
            for name in ("src", "href"):
                self.assertRegex(attributes.get(name, "#"), "^(#|data:,)")

    def test_the_policy_lets_only_our_script_and_style_run(self):
        self.assert_safe(self.report(self.trace(usual_events())))

    def test_markup_in_names_stays_text(self):
        names = [EVIL, "<img src=x onerror=alert(1)>", "%%DATA%%", "<!--", "]]>", "&amp;\"'", "\x00\x1b[31m"]
        events = [kernel(n, 100 * i, 50, i) for i, n in enumerate(names)]
        events += [activity("cpu_op", n, 100 * i, 50, **{n: n}) for i, n in enumerate(names)]
        events += [sample(n, 5, **{n: 1}) for n in names]
        events += [{"ph": "M", "name": w, "pid": 5, "tid": 7, "args": {"name": EVIL}}
                   for w in ("process_name", "thread_name")]
        title = "<b onclick=alert(1)>\"&' </title>" + EVIL
        page = self.report(self.trace(events, deviceProperties=[{"id": 0, "name": EVIL}]), "--title", title)
        self.assert_safe(page)
        self.assertEqual(page.title, title)
        self.assertEqual(page.summary()["title"], title)
        found = {r["name"] for r in Timeline(page).rows}
        self.assertEqual(found, set(names))

    def test_a_file_whose_name_is_markup_is_a_title(self):
        page = self.report(self.trace(usual_events(), "<img src=x onerror=alert(1)>.json"))
        self.assert_safe(page)
        self.assertEqual(page.title, "<img src=x onerror=alert(1)>.json")

    def test_names_that_are_no_utf8_are_written_as_utf8(self):
        path = self.path("bad.json")
        with open(path, "wb") as file:
            file.write(b'{"traceEvents":[{"ph":"X","cat":"kernel","name":"a\xff\xc3(b","pid":0,"tid":7,"ts":1,"dur":5,'
                       b'"args":{"stream":7,"k\xff":"v\xfe"}},'
                       b'{"ph":"X","cat":"cpu_op","name":"\xf0\x9f","pid":1,"tid":1,"ts":0,"dur":5}]}')
        self.assertEqual(len(Timeline(self.report(path)).rows), 2)
        self.text(path)

    def test_any_trace_at_all_has_a_page_and_a_text(self):
        long_name = "n" * 300000
        mid = 4e15
        traces = {
            "empty": [], "one of no length": [activity("cpu_op", "a", 0, 0)],
            "counters only": [sample("c", 1, v=1)], "metadata only": usual_events(0),
            "ends of time": [activity("user_annotation", STEP.format(1), -9.2e15, 1.8e16),
                             activity("cpu_op", "aten::mm", -9.223372036854775e15, 9e15),
                             kernel("gemm", 9.2e15, 9.2e15, 1), kernel("gemm", -9.2e15, 9.2e15, 2),
                             activity("user_annotation", "enumerate(DataLoader)#_Loader.__next__", -mid, 2 * mid)],
            "negative": [activity("user_annotation", STEP.format(n), -5000 + 100 * n, 100) for n in range(3)]
            + [kernel("k", -4990, 50, 1), activity("cpu_op", "back", -4990, -10)],
            "huge name": [kernel(long_name, 0, 10, 1), activity("cpu_op", long_name, 0, 10, **{"Call stack": long_name})],
            "many tracks": [activity("cpu_op", f"t{n}", n, 5, n % 50, n) for n in range(3000)],
            "many lanes": [activity("cpu_op", f"o{n}", n, 100000) for n in range(3000)],
            "deep": [activity("cpu_op", f"d{n}", n, 100000 - 2 * n) for n in range(6000)],
            "many counters": [sample(f"c{n}", n, v=n) for n in range(2000)] + [activity("cpu_op", "a", 0, 1)],
        }
        for name, events in traces.items():
            with self.subTest(name):
                path = self.trace(events)
                page = self.report(path)
                self.assert_safe(page)
                rows = sum(e["ph"] == "X" for e in events)
                if name != "ends of time": # there some do not fit
                    self.assertEqual(page.summary()["timeline"], rows)
                if rows:
                    timeline = Timeline(page)
                    lines = [t["depths"] for t in timeline.header["tracks"]]
                    self.assertTrue(all(r["depth"] < lines[r["track"]] <= 4000 for r in timeline.rows))
                self.text(path)
                self.run_ok("analyze", "--findings", path)


class Output(Report):
    def test_a_full_disk_is_an_error_and_leaves_nothing(self):
        path = self.trace(usual_events())
        done = self.run_ok("report", path, "-o", "/dev/full", status=1)
        self.assertIn(b"No space left", done.err)
        with open("/dev/full", "wb") as full:
            self.assertIn(b"No space left", self.run_ok("report", path, "-o", "-", status=1, stdout=full).err)
            self.run_ok("report", path, "--text", status=1, stdout=full)
        self.assertEqual(os.listdir(self.directory), ["trace.json"])

    def test_a_disk_that_fills_up_is_an_error_and_leaves_nothing(self):
        path = self.trace(usual_events(2000))
        out = self.path("report.html")
        with open(out, "w", encoding="utf-8") as file:
            file.write("old")
        done = self.run_ok("report", path, "-o", out, status=1,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
        self.assertIn(b"report.html", done.err)
        self.assertEqual(sorted(os.listdir(self.directory)), ["report.html", "trace.json"])
        self.assertEqual(os.path.getsize(out), 3, "the old page stays")

    def test_a_directory_that_cannot_be_written_is_an_error(self):
        done = self.run_ok("report", self.trace(usual_events()), "-o", self.path("no/such/report.html"), status=1)
        self.assertIn(b"no/such/report.html", done.err)

    def test_a_closed_standard_output_is_not_a_success(self):
        path = self.trace(usual_events(100))
        for arguments in (("-o", "-"), ("--text",)):
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([COMMAND, "report", path, *arguments], stdout=writer, stderr=subprocess.PIPE,
                                  timeout=100)
            os.close(writer)
            self.assertNotEqual(done.returncode, 0)

    def test_the_standard_output_gets_the_same_page(self):
        path = self.trace(usual_events())
        self.report(path)
        with open(self.path("report.html"), "rb") as file:
            self.assertEqual(self.run_ok("report", path, "-o", "-").out, file.read())

    def test_the_trace_is_not_overwritten(self):
        path = self.trace(usual_events())
        self.assertIn(b"would overwrite", self.run_ok("report", path, "-o", path, status=2).err)

    def test_what_is_wrong_is_said(self):
        path = self.trace(usual_events())
        self.run_ok("report", status=2)
        self.run_ok("report", path, "--text", "-o", self.path("r.html"), status=2)
        self.run_ok("report", self.path("nothing.json"), "--text", status=2)
        os.mkdir(self.path("empty"))
        self.assertNotEqual(self.run_command("report", self.path("empty"), "--text").returncode, 0)


class Text(Report):
    def on_terminal(self, *arguments, verb=("report", "--text"), errors=False, columns=80, environment=None):
        """The output for a terminal of N columns."""
        try:
            ours, theirs = open_terminal(columns)
        except OSError:
            self.skipTest("no terminals here")
        process = subprocess.Popen([COMMAND, *verb, *arguments], stdout=theirs,
                                   stderr=theirs if errors else subprocess.DEVNULL,
                                   stdin=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "", **(environment or {})})
        text = read_terminal(ours, theirs, process)
        self.assertEqual(process.wait(100), 0)
        return text.decode().replace("\r\n", "\n")

    def test_lines_keep_to_the_width(self):
        path = self.trace(usual_events(20))
        for width in (60, 80, 100, 250):
            lines = self.text("--width", str(width), path).splitlines()
            self.assertLessEqual(max(map(len, lines)), width)
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("COLUMNS", None)
            self.assertLessEqual(max(map(len, self.text(path).splitlines())), 100)

    def test_a_width_out_of_range_is_a_mistake(self):
        for width in ("1", "59", "401", "99999999999"):
            done = self.run_command("report", "--text", "--width", width, self.trace(usual_events()))
            self.assertEqual((done.returncode, done.out), (2, b""))
            self.assertIn(b"--width is from 60 to 400, not " + width.encode(), done.err)

    def test_a_page_and_text_exclude_each_other(self):
        done = self.run_command("report", "--text", "-o", self.path("x.html"), self.trace(usual_events()))
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"cannot be used with", done.err)
        self.assertFalse(os.path.exists(self.path("x.html")))

    def test_a_terminal_says_how_wide_it_is(self):
        path = self.trace(usual_events(20))
        lines = re.sub("\033\\[[0-9;]*m", "", self.on_terminal(path, columns=72)).splitlines()
        self.assertLessEqual(max(map(len, lines)), 72)
        self.assertGreater(max(map(len, lines)), 66)

    def test_findings_and_the_tables_of_info_fit_a_terminal(self):
        path = self.trace(usual_events(20))
        lines = self.on_terminal(path, verb=["analyze", "--findings"], columns=72, environment={"NO_COLOR": "1"}).splitlines()
        self.assertLessEqual(max(map(len, lines)), 72)
        for line in self.on_terminal(path, verb=["info"], environment={"NO_COLOR": "1"}).splitlines():
            if re.search(r"[0-9] [mnu]?s$|total +mean$", line):
                self.assertLessEqual(len(line), 80)

    def test_the_path_of_what_is_read_fits_one_line_and_cannot_drive_the_terminal(self):
        path = self.path("x" * 200 + "\x1b[2J.json")
        shutil.copy(self.trace(usual_events()), path)
        text = self.on_terminal(path, "-o", self.path("out.csv"), verb=["convert"], errors=True)
        shown = re.search("ckineto: reading (….*) …\r\033\\[K", text)
        self.assertLess(len(shown[0]) - 4, 80 + 3)
        self.assertTrue(shown[1].endswith("x\\x1b[2J.json"), shown[1])

    def test_colours_are_for_terminals_and_those_who_want_them(self):
        path = self.trace(usual_events())
        self.assertNotIn("\033", self.text(path))
        self.assertIn("\033[", self.on_terminal(path))
        self.assertNotIn("\033", self.on_terminal(path, environment={"NO_COLOR": "1"}))

    def test_control_characters_of_names_do_not_reach_the_terminal(self):
        events = usual_events() + [kernel("evil\033]0;title\007\x9b2J", 5000, 400, 9)]
        text = self.on_terminal(self.trace(events), environment={"NO_COLOR": "1"})
        self.assertNotIn("\033", text)
        self.assertNotIn("\007", text)
        self.assertNotIn("\x9b", text)
        self.assertIn("evil", text)

    def test_bars_are_as_long_as_what_they_stand_for(self):
        events = [kernel("whole", 0, 800, 1), kernel("half", 1000, 400, 2), kernel("eighth", 2000, 100, 3)]
        lines = self.text("--width", "100", self.trace(events)).splitlines()
        lines = lines[lines.index("Kernels") + 1:][:3]
        shares = dict(zip("▏▎▍▌▋▊▉█", range(1, 9)))
        bars = [sum(shares.get(c, 0) for c in line) for line in lines]
        self.assertEqual([line.split()[0] for line in lines], ["whole", "half", "eighth"])
        self.assertAlmostEqual(bars[1] / bars[0], 0.5, places=1)
        self.assertAlmostEqual(bars[2] / bars[0], 0.125, places=1)
        self.assertIn("61.5 %", lines[0])

    def part(self, title, *arguments):
        lines = self.text("--width", "100", *arguments).splitlines()
        lines = lines[lines.index(title) + 1:] + [""]
        return [line.split() for line in lines[:lines.index("")]]

    def test_bars_of_several_ranks_are_the_heaviest_of_all_and_say_whose_they_are(self):
        events = [[kernel(f"k{n}", 1000 * n, 10 * n + 5 * rank + 10, n) for n in range(1, 10)] for rank in range(2)]
        for rank in range(2):
            self.trace(events[rank], f"ranks/rank{rank}.json", distributedInfo={"rank": rank, "world_size": 2})
        rows = self.part("Kernels", self.path("ranks"))
        wanted = [["rank", str(rank), f"k{n}", f"{10 * n + 5 * rank + 10}.000"] for n in range(9, 4, -1) for rank in (1, 0)]
        self.assertEqual([row[:4] for row in rows], wanted)
        alone = self.part("Kernels", self.path("ranks/rank0.json"))
        self.assertEqual([row[0] for row in alone], [f"k{n}" for n in range(9, 0, -1)])

    def test_steps_of_several_ranks_are_the_longest_of_all(self):
        for rank in range(3):
            steps = [activity("user_annotation", STEP.format(n), 1000 * n, 100 * n + 10 * rank) for n in range(1, 8)]
            self.trace(steps, f"ranks/rank{rank}.json", distributedInfo={"rank": rank, "world_size": 3})
        rows = self.part("Steps", self.path("ranks"))[:12]
        self.assertEqual([row[:3] for row in rows],
                         [["rank", str(rank), str(n)] for n in range(7, 3, -1) for rank in (2, 1, 0)])
        alone = self.part("Steps", self.path("ranks/rank0.json"))
        self.assertEqual([row[2] for row in alone[:7]], [str(n) for n in range(1, 8)])

    def test_each_step_is_a_bar_of_its_parts(self):
        lines = self.text("--width", "100", self.trace(usual_events())).splitlines()
        lines = lines[lines.index("Steps") + 1:]
        bars = [line.split()[-1] for line in lines[:3]]
        self.assertEqual(len({len(b) for b in bars}), 1)
        for letter, least in (("K", 0.35), ("D", 0.25)):
            self.assertGreater(bars[0].count(letter) / len(bars[0]), least)
        self.assertIn("K kernels", " ".join(lines[3:5]))

    def test_what_was_found_comes_before_the_numbers(self):
        text = self.text(self.trace(usual_events()))
        self.assertLess(text.index("1 trace, "), text.index("savings are of a step"))
        self.assertLess(text.index("savings are of a step"), text.index("\nSteps\n"))


@unittest.skipUnless(os.path.isdir(TRACES), "the corpus is not here: skipped")
class Corpus(Report):
    def traces(self):
        return [p for p in sorted(glob.glob(os.path.join(TRACES, "*.json.gz"))) if ".et." not in p]

    def test_a_page_is_not_larger_than_its_trace_and_215_kb(self):
        for path in self.traces():
            with self.subTest(os.path.basename(path)):
                self.report(path)
                self.assertLessEqual(os.path.getsize(self.path("report.html")), os.path.getsize(path) + 215000)

    def test_every_activity_of_a_real_trace_comes_back(self):
        for name in ("resnet50_num_workers_0", "nccl_data", "amd_mi250", "triton_example"):
            path = os.path.join(TRACES, name + ".json.gz")
            with self.subTest(name), gzip.open(path, "rt", encoding="utf-8") as file:
                source = json.load(file, parse_float=decimal.Decimal)
                timeline = Timeline(self.report(path))
                self.expect_source(source, timeline)
                self.assert_depths(timeline)

    def expect_source(self, source, timeline):
        base = int(source.get("baseTimeNanoseconds", 0))
        wanted = {}
        for e in source["traceEvents"]:
            if e["ph"] == "X":
                wanted.setdefault((e["name"], ns(e["ts"]) + base, ns(e["dur"])), []).append(known_args(e))
        for row in timeline.rows:
            those = wanted.get((row["name"], row["start"], row["dur"]))
            if those and row["args"] in those:
                those.remove(row["args"])
        left = [(key, args) for key, those in wanted.items() for args in those]
        self.assertEqual(left[:3], [])

    def assert_depths(self, timeline):
        for index, track in enumerate(timeline.header["tracks"]):
            rows = timeline.rows[track["first"]:track["first"] + track["count"]]
            wanted = depths([(r["start"], r["start"] + r["dur"]) for r in rows])
            nested = all(r["depth"] == d for r, d in zip(rows, wanted))
            lines = {}
            for row in rows if not nested else ():  # lanes: no two of a line at the same time
                self.assertLessEqual(lines.get(row["depth"], -2**63), row["start"], (index, row))
                lines[row["depth"]] = row["start"] + row["dur"]


if __name__ == "__main__":
    main()
