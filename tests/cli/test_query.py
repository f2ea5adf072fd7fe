"""`ckineto query`: answers against Python's own reading, formats, mistakes, interruption, databases."""

import csv
import gzip
import io
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import time
import unittest

from command import COMMAND, CommandTest, main

TRACES = os.environ.get("CKINETO_TRACES", "")
DOCUMENT = os.path.join(os.environ.get("CKINETO_MAN", ""), "..", "reference", "query.md")

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 5, "tid": 0, "ts": 0, "args": {"name": "train"}},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 5, "tid": 5, "ts": 100, "dur": 50},
    {"ph": "X", "cat": "cpu_op", "name": "aten::add, \"quoted\"", "pid": 5, "tid": 5, "ts": 101, "dur": 20,
     "args": {"External id": 9, "Input Dims": [[1, 2]], "note": "line\nbreak", "big": 18446744073709551615}},
    {"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 5, "tid": 5, "ts": 105, "dur": 2,
     "args": {"correlation": 3, "External id": 9}},
    {"ph": "X", "cat": "kernel", "name": "k\u001b[31m|\u00e9\u4e2d", "pid": 0, "tid": 7, "ts": 110.5, "dur": 4.25,
     "args": {"correlation": 3, "grid": [1, 2, 3]}},
    {"ph": "C", "name": "board", "pid": 5, "ts": 120, "args": {"power [W]": 300}},
    {"ph": "i", "name": "", "pid": 5, "tid": 5, "ts": 130, "s": "t"},
]


class Query(CommandTest):
    def setUp(self):
        super().setUp()
        schema = subprocess.run([COMMAND, "query", "--schema"], capture_output=True, text=True)
        if schema.returncode:
            self.skipTest(schema.stderr.strip())
        self.trace = self.write("t.json", EVENTS)

    def write(self, name, events, **header):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, **header}, file)
        return self.path(name)

    def query(self, sql, *options, trace=None, **more):
        return self.run_command("query", *options, trace or self.trace, sql, **more)

    def rows(self, sql, trace=None):
        done = self.query(sql, "--format", "json", trace=trace)
        self.assertEqual((done.returncode, done.err), (0, b""), sql)
        return json.loads(done.out)

    # ---- formats

    def test_json_is_one_array_with_types(self):
        self.assertEqual(
            self.rows("SELECT row, name, us(dur_ns) AS us, parent FROM activities WHERE kind IN ('cpu_op', 'kernel')"),
            [{"row": 1, "name": "aten::add, \"quoted\"", "us": 20, "parent": 0},
             {"row": 3, "name": "k\x1b[31m|\u00e9\u4e2d", "us": 4.25, "parent": None}])
        self.assertEqual(self.rows("SELECT 1 WHERE 0"), [])
        self.assertEqual(self.rows("SELECT 1 AS a, 2 AS a, 3 AS a"), [{"a": 1, "a (2)": 2, "a (3)": 3}])
        self.assertEqual(self.rows("SELECT x'00ff' AS b, 9e999 AS i"), [{"b": "00ff", "i": "inf"}])

    def test_json_lines(self):
        done = self.query("SELECT 1 AS a; SELECT 2 AS b UNION ALL SELECT 3", "--format", "jsonl")
        self.assertEqual([json.loads(line) for line in done.out.splitlines()], [{"a": 1}, {"b": 2}, {"b": 3}])

    def test_csv_reads_back_and_tells_null_from_empty(self):
        done = self.query("SELECT name, parent, '' AS empty, NULL AS none FROM activities ORDER BY row",
                          "--format", "csv")
        lines = list(csv.reader(io.StringIO(done.out.decode(), newline="")))
        self.assertEqual(lines[0], ["name", "parent", "empty", "none"])
        self.assertEqual([line[0] for line in lines[1:]], [e["name"] for e in EVENTS if e["ph"] != "M"])
        self.assertTrue(done.out.splitlines()[1].endswith(b",\"\","))

    def test_csv_keeps_bytes_that_are_no_utf8(self):
        with open(self.path("raw.json"), "wb") as file:
            file.write(b'{"traceEvents":[{"ph":"X","name":"a\xffb","pid":1,"tid":1,"ts":1,"dur":1}]}')
        done = self.query("SELECT name FROM activities", "--format", "csv", trace=self.path("raw.json"))
        if done.returncode == 2:
            self.skipTest("the reader refuses such files")
        self.assertEqual(done.out, b"name\r\na\xffb\r\n")
        done = self.query("SELECT name FROM activities", "--format", "jsonl", trace=self.path("raw.json"))
        self.assertEqual(json.loads(done.out), {"name": "a\ufffdb"})
        self.assertIn(b"1 part of names", done.err)

    def test_tables_are_aligned_and_safe_for_terminals(self):
        done = self.query("SELECT row, name FROM activities WHERE row IN (0, 3)")
        self.assertEqual(done.out.decode(), "row  name\n---  --------------\n"
                                            "  0  ProfilerStep#2\n  3  k\\x1b[31m|\u00e9\u4e2d\n")
        done = self.query("SELECT printf('%.*c', 100, 'x') AS long, '\u4e2d\u4e2d\u4e2d' AS wide, 1 AS n", "--width", "5")
        self.assertEqual(done.out.decode().splitlines()[2], "xxxx\u2026  \u4e2d\u4e2d\u2026  1")
        done = self.query("SELECT printf('%.*c', 100, 'x') AS long", "--width", "0")
        self.assertIn(b"x" * 100, done.out)

    def test_markdown(self):
        done = self.query("SELECT name, dur_ns FROM activities WHERE kind = 'kernel'", "--format", "markdown")
        lines = done.out.decode().splitlines()
        self.assertEqual(lines[1].replace("-", ""), "|  | : |")
        self.assertIn("\\|", lines[2])

    def test_results_of_many_lines_are_whole(self):
        trace = self.write("many.json", [{"ph": "X", "name": f"n{i}", "pid": 1, "tid": 1, "ts": i, "dur": 1}
                                         for i in range(2500)])
        done = self.query("SELECT name FROM activities ORDER BY row", trace=trace)
        self.assertEqual(done.out.decode().split()[2:], [f"n{i}" for i in range(2500)])

    def test_the_ending_of_the_output_is_the_format(self):
        for ending, first in (("csv", b"one"), ("json", b"["), ("jsonl", b"{"), ("md", b"|"), ("txt", b"one")):
            path = self.path(f"out.{ending}")
            done = self.query("SELECT 1 AS one", "-o", path)
            self.assertEqual((done.returncode, done.out), (0, b""))
            with open(path, "rb") as file:
                self.assertTrue(file.read().startswith(first), ending)

    def test_queries_come_from_files_and_standard_input(self):
        with open(self.path("q.sql"), "w") as file:
            file.write("-- two\nSELECT 1 AS a;\nSELECT 2 AS b;\n\n-- end")
        done = self.run_command("query", "-f", self.path("q.sql"), "--format", "csv", self.trace)
        self.assertEqual(done.out, b"a\r\n1\r\n\nb\r\n2\r\n")
        done = self.query("-", "--format", "csv", data=b"SELECT 3 AS c")
        self.assertEqual(done.out, b"c\r\n3\r\n")

    # ---- mistakes

    def test_mistakes_name_their_place_and_what_there_is(self):
        done = self.query("SELECT name,\n  dur FROM activities")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"line 2:   dur FROM activities\n", done.err)
        self.assertIn(b"no such column: dur", done.err)
        self.assertIn(b"activities has row, start_ns", done.err)
        lines = done.err.decode().splitlines()
        self.assertEqual(lines[2].index("^"), lines[1].index("dur FROM"))
        done = self.query("SELECT 1; SELECT * FROM activitys")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"tables are activities, args", done.err)
        self.assertIn(b"arg(row, key)", self.query("SELECT median(1)").err)

    def test_wrong_uses_are_explained(self):
        for arguments in ([], [self.trace], [self.trace, "SELECT 1", "x"], ["--format", "xml", self.trace, "SELECT 1"],
                          ["none.json", "SELECT 1"], ["-f", "none.sql", self.trace],
                          [self.trace, "DROP TABLE activities"], [self.trace, "ATTACH 'x.db' AS x"]):
            done = self.run_command("query", *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertTrue(done.err.startswith(b"ckineto"), arguments)
        self.assertEqual(os.listdir(self.directory), ["t.json"])

    def test_control_characters_of_a_query_do_not_reach_the_terminal(self):
        self.assertNotIn(b"\x1b[31m", self.query("SELECT \x1b[31m FROM x").err.split(b"\n", 1)[1])

    def test_a_failed_query_leaves_the_old_output(self):
        with open(self.path("out.csv"), "w") as file:
            file.write("old")
        done = self.query("SELECT 1; SELECT nothing", "-o", self.path("out.csv"))
        self.assertEqual(done.returncode, 2)
        with open(self.path("out.csv")) as file:
            self.assertEqual(file.read(), "old")

    def test_an_endless_query_ends_at_an_interrupt(self):
        # The first line comes when the trace is open and signals are caught.
        process = self.start("query", "--format", "csv", self.trace, "SELECT 1 AS ready; " + ENDLESS)
        self.assertIn(b"ready", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn(b"interrupted", err)

    def test_a_terminal_is_notified_of_a_long_query(self):
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest("no terminal to be had here: %s" % error)
        process = subprocess.Popen([COMMAND, "query", "-o", self.path("out.csv"), self.trace, ENDLESS],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        said = b""
        while b"Ctrl-C ends it" not in said:
            said += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=60)[0], b"")
        self.assertEqual(process.returncode, -signal.SIGINT)
        said += os.read(ours, 4096)
        os.close(ours)
        self.assertIn(b"\r\x1b[K", said)
        self.assertIn(b"interrupted", said)
        self.assertFalse(os.path.exists(self.path("out.csv")))

    def test_the_trace_may_come_from_a_pipe(self):
        with open(self.trace, "rb") as file:
            trace = file.read()
        count = "SELECT count(*) AS n FROM activities"
        piped = self.run_command("query", "--format", "csv", "-", count, data=trace)
        self.assertEqual((piped.returncode, piped.err), (0, b""))
        self.assertEqual(piped.out, self.query(count, "--format", "csv").out)
        both = self.run_command("query", "-", "-", data=trace)
        self.assertEqual(both.returncode, 2)
        self.assertIn(b"not both", both.err)

    def test_a_closed_pipe_ends_the_query_quietly(self):
        process = self.start("query", "--format", "csv", self.trace,
                             "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n")
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(60), 1)
        self.assertEqual(err, b"")

    # ---- against other readings

    @staticmethod
    def load_trace(path):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", errors="replace") as file:
            data = json.load(file)
        return data["traceEvents"] if isinstance(data, dict) else data

    def compare(self, path):
        """Names, counts and lengths of all slices; arguments of a kind."""
        wanted = {}
        for e in self.load_trace(path):
            if e.get("ph") == "X":
                n, total = wanted.get(e["name"], (0, 0))
                wanted[e["name"]] = (n + 1, total + round(float(e.get("dur", 0)) * 1000))
        found = {r["name"]: (r["n"], r["total"]) for r in self.rows(
            "SELECT name, count(*) AS n, sum(dur_ns) AS total FROM activities WHERE form = 'slice' GROUP BY name",
            trace=path)}
        self.assertEqual(set(found), set(wanted))
        for name, (n, total) in wanted.items():
            self.assertEqual(found[name][0], n, name)
            self.assertLessEqual(abs(found[name][1] - total), n, name)
        keys = {}
        for e in self.load_trace(path):
            if e.get("ph") == "X":
                for key in e.get("args", {}):
                    keys[key] = keys.get(key, 0) + 1
        found = {r["key"]: r["n"] for r in self.rows(
            "SELECT key, count(DISTINCT row) AS n FROM args JOIN activities USING (row) WHERE form = 'slice' "
            "GROUP BY key", trace=path)}
        for key in ("stream", "Input Dims", "grid", "bytes"):
            self.assertEqual(found.get(key, 0), keys.get(key, 0), key)

    def test_answers_are_what_python_finds(self):
        self.compare(self.trace)

    def test_answers_are_what_python_finds_in_real_traces(self):
        names = ("amd_mi250.json.gz", "cupti_profiler.json.gz", "cuda_event_sync_multi_stream.json.gz")
        paths = [os.path.join(TRACES, n) for n in names]
        if not all(os.path.exists(p) for p in paths):
            self.skipTest("no real traces here")
        for path in paths:
            with self.subTest(path):
                self.compare(path)

    def test_the_examples_of_the_document_run(self):
        with open(DOCUMENT, encoding="utf-8") as file:
            examples = re.findall(r"```sql\n(.*?)```", file.read(), flags=re.S)
        self.assertGreaterEqual(len(examples), 15)
        for sql in examples:
            done = self.query(sql)
            self.assertEqual((done.returncode, done.err), (0, b""), sql)

    def test_the_schema_lists_every_column(self):
        schema = self.run_command("query", "--schema").out.decode()
        for table in re.findall(r"^(\w+): ", schema, flags=re.M):
            part = re.search(rf"^{table}: .*\n((?:  .*\n)+)", schema, flags=re.M)[1]
            columns = [line.split()[0] for line in part.splitlines() if "not in *" not in line]
            header = self.query(f"SELECT * FROM {table} LIMIT 0", "--format", "csv").out.decode().strip()
            self.assertEqual(header.split(","), columns)
        with open(DOCUMENT, encoding="utf-8") as file:
            text = file.read()
        for table in re.findall(r"^(\w+): ", schema, flags=re.M):
            self.assertIn(f"| `{table}` |", text)

    # ---- databases

    def convert(self, trace):
        path = self.path("t.sqlite")
        done = self.run_command("convert", trace, "-o", path)
        self.assertEqual(done.returncode, 0, done.err)
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True)

    def assert_same_in_database(self, trace):
        database = self.convert(trace)
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        self.assertEqual(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        schema = self.run_command("query", "--schema").out.decode()
        for table in re.findall(r"^(\w+): ", schema, flags=re.M):
            order = ", ".join(str(i + 1) for i in range(2))
            cursor = database.execute(f"SELECT * FROM {table} ORDER BY {order} LIMIT 3000")
            names = [d[0] for d in cursor.description]
            self.assertEqual([dict(zip(names, r)) for r in cursor],
                             self.rows(f"SELECT * FROM {table} ORDER BY {order} LIMIT 3000", trace=trace), table)
            self.assertEqual(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0],
                             self.rows(f"SELECT count(*) AS n FROM {table}", trace=trace)[0]["n"])
        database.close()

    def test_a_database_has_the_same_tables(self):
        self.assert_same_in_database(self.trace)

    def test_a_database_of_a_real_trace_has_the_same_tables(self):
        path = os.path.join(TRACES, "cupti_profiler.json.gz")
        if not os.path.exists(path):
            self.skipTest("no real traces here")
        self.assert_same_in_database(path)

    def test_the_first_example_works_in_a_database(self):
        database = self.convert(self.trace)
        plan = database.execute("EXPLAIN QUERY PLAN SELECT * FROM activities WHERE correlation_id = 3").fetchall()
        self.assertIn("activities_by_correlation", str(plan))
        self.assertEqual(database.execute("SELECT value FROM args WHERE row = 1 AND key = 'note'").fetchone(),
                         ("line\nbreak",))
        database.close()


if __name__ == "__main__":
    main()
