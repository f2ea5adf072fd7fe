"""Flame graphs (`ckineto convert -o t.svg`): XML that any reader takes, boxes that lie in those of their callers
and are as wide as their time, and names that stay text."""

import collections
import glob
import gzip
import json
import os
import re
import zlib
import xml.etree.ElementTree as xml

from command import CommandTest, main

SVG = "{http://www.w3.org/2000/svg}"
WIDTH, LINE, LEAST = 1200, 18, 0.3


def row(name, start, duration, tid=1, cat="cpu_op"):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": duration}


def nested(depth, width, start=0, level=0):
    """Two callees in each, of 60 and of 30 percent."""
    events = [row(f"f{level}.{start}", start, width)]
    if depth:
        events += nested(depth - 1, width * 6 // 10, start, level + 1)
        events += nested(depth - 1, width * 3 // 10, start + width * 6 // 10, level + 1)
    return events


class Box:
    def __init__(self, group):
        rect, title, self.label = group
        self.x, self.width = float(group.get("data-x")), float(group.get("data-w"))
        self.drawn = (float(rect.get("x")), float(rect.get("width")))
        self.depth = (int(rect.get("y")) - 30) // LINE
        self.name, _, self.said = title.text.rpartition("\n")


class Flame(CommandTest):
    def picture(self, events, *arguments):
        source, out = self.path("trace.json"), self.path("flame.svg")
        with open(source, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)
        done = self.run_command("convert", source, "-q", "-o", out, *arguments)
        self.assertEqual(done.returncode, 0, done.err)
        self.root = xml.parse(out).getroot()
        self.assertEqual(self.root.tag, SVG + "svg")
        return [Box(group) for group in self.root.iter(SVG + "g")]

    def folded(self):
        """Times of the stacks, with what they call."""
        out = self.path("t.folded")
        self.assertEqual(self.run_command("convert", self.path("trace.json"), "-q", "-o", out).returncode, 0)
        totals = {}
        with open(out, encoding="utf-8") as file:
            for line in file:
                stack, _, weight = line.rstrip("\n").rpartition(" ")
                frames = stack.split(";")
                for n in range(1, len(frames) + 1):
                    key = tuple(frames[:n])
                    totals[key] = totals.get(key, 0) + int(weight)
        return totals

    def stack_of(self, box, boxes):
        names = [box.name]
        for depth in range(box.depth - 1, -1, -1):
            around, = (b for b in boxes if b.depth == depth and b.x <= box.x + 1e-2
                       and b.x + b.width >= box.x + box.width - 1e-2)
            names.insert(0, around.name)
        return tuple(names)

    def test_boxes_are_as_wide_as_the_time_of_their_stacks(self):
        boxes = self.picture(nested(5, 1000000) + [row("alone", 0, 250000, 2), row("again", 300000, 10000, 2),
                                                   row("again", 400000, 20000, 2)])
        totals = self.folded()
        whole = sum(t for stack, t in totals.items() if len(stack) == 1)
        found = collections.Counter()
        for box in boxes:  # a process stands there once for each of its threads
            found[self.stack_of(box, boxes)] += box.width
        for stack, total in totals.items():
            wanted = WIDTH * total / whole
            if wanted >= LEAST:
                self.assertAlmostEqual(found.pop(stack), wanted, places=2)
        self.assertEqual(found, {})

    def test_callees_lie_in_their_callers_and_next_to_one_another(self):
        boxes = self.picture(nested(6, 1000000))
        for depth in range(max(b.depth for b in boxes)):
            callers = [b for b in boxes if b.depth == depth]
            callees = sorted((b for b in boxes if b.depth == depth + 1), key=lambda b: b.x)
            for box in callees:
                self.assertTrue(any(c.x - 1e-2 <= box.x and box.x + box.width <= c.x + c.width + 1e-2 for c in callers))
            for a, b in zip(callees, callees[1:]):
                self.assertLessEqual(a.x + a.width, b.x + 1e-2)
        self.assertLessEqual(max(b.x + b.width for b in boxes), WIDTH + 1e-2)

    def test_the_picture_is_as_high_as_the_deepest_stack(self):
        boxes = self.picture(nested(4, 1000000))
        height = int(self.root.get("viewBox").split()[3])
        self.assertEqual(height, 40 + (max(b.depth for b in boxes) + 1) * LINE)

    def test_what_is_called_often_says_how_often(self):
        boxes = self.picture([row("main", 0, 1000)] + [row("f", 10 * n, 5) for n in range(50)])
        said = {b.name: b.said for b in boxes}
        self.assertIn("250.000 us, 25.00 %, 50 times", said["f"])

    def test_names_are_there_without_a_script_as_far_as_they_fit(self):
        long_name = "é" * 500
        boxes = self.picture([row("main", 0, 1000), row(long_name, 0, 500), row("n" * 60, 500, 450), row("tiny", 950, 5)])
        labels = {b.name: b.label.text or "" for b in boxes}
        self.assertEqual(labels["main"], "main")
        self.assertEqual(labels["tiny"], "")
        self.assertRegex(labels[long_name], "^é{50,90}…$")
        self.assertEqual(labels["n" * 60], "n" * 60)

    def test_names_are_text_whatever_is_in_them(self):
        names = ["</svg><script>alert(1)</script>", "]]>", "<![CDATA[", "&lt;&#0;&evil;", "\"'><g onclick=\"x\">", "a;b c",
                 "nul\x00bell\x07\x1b[31m", "\ufffe\uffff", "\x7f\x85\u2028", "\U0001f600", "<!--", "", "%s%n%1000d"]
        boxes = self.picture([row(n, 100 * i, 100) for i, n in enumerate(names)])
        found = {b.name for b in boxes}
        for name in names:
            clean = re.sub("[\x00-\x1f\x7f]", "?", name).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")
            self.assertIn(clean or "(no name)", found)
        self.assertEqual(len(list(self.root.iter(SVG + "script"))), 1)
        for element in self.root.iter():
            self.assertFalse([a for a in element.attrib if a.startswith("on") or "href" in a], element.attrib)

    def test_bytes_that_are_no_utf8_are_replaced(self):
        source, out = self.path("bad.json"), self.path("bad.svg")
        with open(source, "wb") as file:
            file.write(b'{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a\xff\xc3(\xed\xa0\x80\xf0\x9f","pid":1,"tid":1,'
                       b'"ts":0,"dur":5}]}')
        self.assertEqual(self.run_command("convert", source, "-q", "-o", out).returncode, 0)
        names = [Box(g).name for g in xml.parse(out).getroot().iter(SVG + "g")]
        self.assertTrue(any(n.startswith("a\ufffd") for n in names), names)

    def test_any_trace_at_all_has_a_picture(self):
        for events in ([], [row("a", 0, 0)], [{"ph": "C", "name": "c", "pid": 1, "ts": 1, "args": {"v": 1}}],
                       [row("a", -9.2e15, 1.8e16), row("b", -9.2e15, 1.8e16, 2), row("c", -9.2e15, 1.8e16, 3)],
                       [row("n" * 300000, 0, 5)], [row(f"d{n}", n, 10000 - 2 * n) for n in range(4000)],
                       [row(f"t{n}", 0, 5, n) for n in range(5000)], [row(f"s{n}", n, 1) for n in range(5000)]):
            for box in self.picture(events):
                self.assertGreaterEqual(box.drawn[0], 0)
                self.assertLessEqual(sum(box.drawn), WIDTH + 0.1)
                self.assertLess(box.depth, 400)

    def test_stacks_are_not_longer_than_the_threads_live(self):
        """No time counts twice: of all stacks of a trace at most its length for each thread and queue."""
        data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data")
        traces = sorted(glob.glob(os.path.join(data, "**/*.json.gz"), recursive=True))
        checked = 0
        for path in traces:
            with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
                try:
                    whole = json.load(file)
                except (ValueError, EOFError, OSError, zlib.error):  # cut, or damaged
                    continue
            rows = [e for e in (whole.get("traceEvents", []) if isinstance(whole, dict) else whole)
                    if e.get("ph") == "X" and isinstance(e.get("dur"), (int, float))]
            done = self.run_command("convert", path, "-o", self.path("t.folded"))
            if not rows or done.returncode:
                continue
            with open(self.path("t.folded"), encoding="utf-8", errors="replace") as file:
                total_ns = sum(int(line.rpartition(" ")[2]) for line in file)
            length_us = max(e["ts"] + e["dur"] for e in rows) - min(e["ts"] for e in rows)
            threads = len({(str(e.get("pid")), str(e.get("tid"))) for e in rows})
            self.assertLessEqual(total_ns / 1000, 1.001 * length_us * threads + 1, path)
            checked += 1
        self.assertGreater(checked, 10)


if __name__ == "__main__":
    main()
