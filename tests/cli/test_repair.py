"""`ckineto repair`: what it writes is strict JSON with all that can be kept, what it says is what it did,
and a file is replaced only when that was asked for."""

import gzip
import json
import os
import random

from command import CommandTest, main

EVENT = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":2,"ts":%d,"dur":5,"args":{"External id":%d,"k":"v"}}'


def trace(names):
    events = ",\n".join(EVENT % (name, 10 * i, i) for i, name in enumerate(names))
    return '{\n  "schemaVersion": 1,\n  "traceEvents": [\n%s\n],\n  "traceName": "x" }\n' % events


class Repair(CommandTest):
    def put(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def repaired(self, text, name="in.json"):
        source, out = self.put(name, text), os.path.join(self.directory, "out.json")
        result = self.run_command("repair", source, "-o", out, "--json")
        self.assertEqual(result.returncode, 0, result.err)
        with open(out, encoding="utf-8") as f:
            return json.load(f), json.loads(result.out)

    def test_a_sound_file_stays_what_it_was(self):
        text = trace(["a", "b\\n", "é"])
        written, report = self.repaired(text)
        self.assertEqual(written, json.loads(text))
        self.assertEqual((report["changes_total"], report["events"], report["repaired_events"]), (0, 3, 0))
        self.assertIn("nothing to repair", self.run_command("repair", self.put("in.json", text)).out.decode())

    def test_members_of_a_sound_header_may_be_called_as_those_of_events(self):
        for text in ('{"name": "run", "ph": "X", "traceEvents": [%s]}\n' % EVENT % ("a", 1, 2),
                     '{"traceEvents": [%s], "name": "run", "id": 3}\n' % EVENT % ("a", 1, 2)):
            written, report = self.repaired(text)
            self.assertEqual((written, report["changes_total"]), (json.loads(text), 0))

    def test_events_without_a_list_may_begin_with_any_member(self):
        event = '{"cat":"c","name":"%s","ph":"X","ts":1,"dur":2,"pid":1,"tid":1}\n'
        written, report = self.repaired(event % "a" + event % "b")
        self.assertEqual([e["name"] for e in written["traceEvents"]], ["a", "b"])
        self.assertEqual(report["changes_with_loss"], 0)

    def test_events_outside_of_a_list_do_not_stand_next_to_listed_ones(self):
        for wrong in ("0", "null", '{"a": 1}'):
            text = trace(["a"]).replace('"traceEvents"', '"traceEvents": %s, "traceEvents"' % wrong)
            written, report = self.repaired(text)
            self.assertEqual([e["name"] for e in written["traceEvents"]], ["a"])
            self.assertEqual([(k["kind"], k["count"]) for k in report["kinds"]], [("wrong_type", 1)])
            out = os.path.join(self.directory, "out.json")
            self.assertEqual(self.run_command("info", out).returncode, 0)
            self.assertEqual(self.run_command("repair", out).out.count(b"nothing to repair"), 1)

    def test_names_come_back_as_they_were_meant(self):
        names = ['say "hi"', "C:\\Users\\x", "two\nlines", "ends with \\", "tab\t", "plain"]
        written, report = self.repaired(trace(names))
        self.assertEqual([e["name"] for e in written["traceEvents"]], names)
        self.assertEqual(written["traceName"], "x")
        self.assertEqual(report["repaired_events"], 5)
        self.assertEqual({k["kind"]: k["loss"] for k in report["kinds"]},
                         {"bad_escape": False, "control_char": False, "raw_quote": False})

    def test_each_change_is_reported_with_its_place(self):
        text = trace(["a", "b"]).replace('"dur":5', '"dur":NaN', 1)
        _, report = self.repaired(text)
        self.assertEqual(report["changes"],
                         [{"kind": "nan_inf", "offset": text.index("NaN"), "bytes": 3}])
        shown = self.run_command("repair", self.put("in.json", text)).out.decode()
        self.assertIn("at byte %d" % text.index("NaN"), shown)

    def test_a_cut_file_keeps_what_came_before_the_cut(self):
        text, chance = trace("abcdefghijklmnopqrst"), random.Random(1)
        whole = json.loads(text)["traceEvents"]
        first = text.index("}}") + 2
        for at in sorted(chance.sample(range(first, len(text)), 60)):
            written, report = self.repaired(text[:at])
            kept = written["traceEvents"]
            complete = text[:at].count("}}")
            self.assertEqual(kept[:complete], whole[:complete])
            self.assertLessEqual(len(kept), complete + 1)
            self.assertGreater(report["changes_total"], 0)

    def test_a_cut_compressed_file_keeps_its_text(self):
        data = gzip.compress(trace(str(i) for i in range(5000)).encode())
        written, report = self.repaired(data[:len(data) // 2], "in.json.gz")
        self.assertGreater(len(written["traceEvents"]), 1000)
        self.assertIsNotNone(report["file_problem"])

    def test_what_was_written_twice_is_one_trace(self):
        first, second = trace(["a", "b"]), trace(["c"])
        written, report = self.repaired(first + second)
        self.assertEqual([e["name"] for e in written["traceEvents"]], ["a", "b", "c"])
        self.assertIn("new_document", [k["kind"] for k in report["kinds"]])

    def test_what_is_not_a_trace_is_refused(self):
        out = os.path.join(self.directory, "out.json")
        for text in (b"", b"hello", b"\0" * 5000, b'{"name": "package"}'):
            result = self.run_command("repair", self.put("in.json", text), "-o", out)
            self.assertEqual(result.returncode, 2, text)
            self.assertIn(b"in.json", result.err)
            self.assertFalse(os.path.exists(out))
        self.assertEqual(self.run_command("repair", os.path.join(self.directory, "none")).returncode, 2)

    def test_a_file_is_replaced_only_if_that_was_meant(self):
        text = trace(['a "b"'])
        path = self.put("in.json", text)
        link = os.path.join(self.directory, "link.json")
        os.symlink(path, link)
        for target in (path, link):
            self.assertEqual(self.run_command("repair", path, "-o", target).returncode, 2)
        with open(path) as f:
            self.assertEqual(f.read(), text)
        for words in ((path, "-o", path, "--in-place"), (path, "--in-place")):
            self.put("in.json", text)
            self.assertEqual(self.run_command("repair", *words).returncode, 0)
            with open(path) as f:
                self.assertEqual(json.load(f)["traceEvents"][0]["name"], 'a "b"')
        self.assertIn(b"-o", self.run_command("repair", "-", "--in-place").err)

    def test_what_was_repaired_can_be_read(self):
        out = os.path.join(self.directory, "out.json.gz")
        source = self.put("in.json", trace(['a "b"', "c"])[:-30])
        self.assertEqual(self.run_command("repair", source, "-o", out).returncode, 0)
        read = self.run_command("info", out, "--json")
        self.assertEqual(read.returncode, 0, read.err)
        self.assertEqual(json.loads(read.out)["activities"], 2)

    def reported(self, path):
        """What others say of a file: the ledger, as `info` shows it, and whether `verify` has doubts."""
        info = self.run_command("info", path)
        self.assertEqual(info.returncode, 0, info.err)
        verified = self.run_command("verify", path, "--json")
        rules = {f["rule"] for f in json.loads(verified.out)["traces"][0]["findings"] if f["severity"] != "note"}
        self.assertNotIn("ledger.losses", rules)  # one place for a line that tells of both
        self.assertEqual(verified.returncode, 1 if rules else 0, verified.out)
        return info.out.decode(), "ledger.repaired" in rules

    def test_a_trace_that_was_cut_does_not_look_complete_when_it_is_repaired(self):
        text = trace(str(i) for i in range(500)).encode()
        data, out = gzip.compress(text), os.path.join(self.directory, "out.json.gz")
        between = text.index(b"{", text.index(b"}}") + 2)
        for name, broken in (("in.json.gz", data[:len(data) // 2]), ("in.json", text[:len(text) // 2]),
                             ("in.json", text[:between]), ("in.json", text[:text.index(b"]") + 1]),
                             ("in.json.gz", data[:-6])):
            source = self.put(name, broken)
            self.assertEqual(self.run_command("repair", source, "-o", out).returncode, 0)
            ledger, doubts = self.reported(out)
            self.assertIn("LOST  repair: ", ledger)
            self.assertNotIn("nothing was lost", ledger)
            self.assertTrue(doubts)
            if name.endswith(".gz"):
                self.assertIn("the compressed data is damaged", ledger)
            analysed = self.run_command("analyze", "--all", out)
            self.assertRegex(analysed.out.decode(), r"cut off: its end is missing\.\n.*number lost\.\n.*ledger\.repaired")

    def test_what_a_repair_lost_is_said_once_however_often_it_is_repaired(self):
        path, out = self.put("in.json", trace("abc")[:-60]), os.path.join(self.directory, "out.json")
        self.assertEqual(self.run_command("repair", path, "-o", path, "--in-place").returncode, 0)
        with open(path, "rb") as f:
            first = f.read()
        self.assertTrue(self.reported(path)[1])
        self.assertEqual(self.run_command("repair", path, "-o", out).returncode, 0)
        with open(out, "rb") as f:
            self.assertEqual(f.read(), first)

    def test_a_trace_with_a_ledger_keeps_it_and_gains_lines(self):
        part, out = os.path.join(self.directory, "part.json"), os.path.join(self.directory, "out.json")
        source = self.put("in.json", trace("abc"))
        self.assertEqual(self.run_command("slice", source, "-o", part, "--name", "a|b").returncode, 0)
        with open(part, encoding="utf-8") as f:
            text = f.read()
        ledger = json.loads(text)["ckineto"]["ledger"]
        self.assertEqual([line["source"] for line in ledger], ["selection"])
        self.put("part.json", text.replace('"traceEvents":[', '"traceEvents":["garbage",'))
        self.assertEqual(self.run_command("repair", part, "-o", out).returncode, 0)
        with open(out, encoding="utf-8") as f:
            written = json.load(f)
        self.assertEqual(written["ckineto"]["ledger"][:1], ledger)
        self.assertEqual([(line["source"], line["reason"], line["count"], line["loss"])
                          for line in written["ckineto"]["ledger"][1:]],
                         [("repair", "repaired: bytes that belong to no event: skipped", 1, True)])
        self.assertEqual(written["ckineto"]["window"], json.loads(text)["ckineto"]["window"])

    def test_a_repair_that_lost_nothing_leaves_a_trace_without_doubts(self):
        out = os.path.join(self.directory, "out.json")
        source = self.put("in.json", trace(['a "b"', "C:\\Users", "two\nlines"]))
        self.assertEqual(self.run_command("repair", source, "-o", out).returncode, 0)
        ledger, doubts = self.reported(out)
        self.assertIn("nothing was lost", ledger)
        self.assertFalse(doubts)
        with open(out, encoding="utf-8") as f:
            self.assertNotIn("ckineto", json.load(f))

    def test_a_list_of_events_that_is_left_open_is_whole(self):
        written, report = self.repaired("[" + EVENT % ("a", 0, 0) + ",\n")
        self.assertEqual(report["changes_with_loss"], 0)
        self.assertNotIn("ckineto", written)

    def test_of_a_trace_written_twice_the_header_is_not_a_loss(self):
        written, report = self.repaired(trace(["a", "b"]) + trace(["c"]))
        self.assertEqual(report["changes_with_loss"], 0)
        self.assertEqual(sorted(written), ["schemaVersion", "traceEvents", "traceName"])


main()
