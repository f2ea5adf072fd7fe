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

    def test_names_come_back_as_they_were_meant(self):
        names = ['say "hi"', "C:\\Users\\x", "two\nlines", "ends with \\", "tab\t", "plain"]
        written, report = self.repaired(trace(names))
        self.assertEqual([e["name"] for e in written["traceEvents"]], names)
        self.assertEqual(written["traceName"], "x")
        self.assertEqual(report["repaired_events"], 5)
        self.assertEqual({k["kind"]: k["loss"] for k in report["kinds"]},
                         {"bad_escape": False, "control_char": False, "raw_quote": False})

    def test_each_change_is_told_with_its_place(self):
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

    def test_what_is_no_trace_is_refused(self):
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


main()
