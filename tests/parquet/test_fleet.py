"""The statements of docs/how-to/fleet-sql.md over a data set of three runs: DuckDB and ClickHouse (chdb) give the same
rows, and these are what was planted. Also that `ckineto export` writes what the traces hold."""
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "how-to", "fleet-sql.md")
GENERATOR = os.path.join(HERE, "..", "ranks", "generate.py")
COMMAND = os.environ.get("CKINETO", "")
SLOW_RANK, MISSING_RANK = 5, 3

try:
    import duckdb
    import numpy  # noqa: F401
except ImportError:
    duckdb = None
if not COMMAND or not duckdb:
    print("duckdb or numpy is not installed: skipped")
    sys.exit(77)
try:
    import chdb.session
except ImportError:
    chdb = None


def export(*arguments):
    return subprocess.run([COMMAND, "export", *arguments], capture_output=True, text=True)


def add_memory(folder):
    """Samples of memory: rank N has its peak at N + 1 MiB."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with open(path) as file:
            trace = json.load(file)
        events = trace["traceEvents"]
        step = next(e for e in events if e.get("name", "").startswith("ProfilerStep#"))
        peak = (int(re.search(r"\d+", name)[0]) + 1) << 20
        for i, (size, total) in enumerate(((peak, peak), (-peak, 0))):
            events.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": step["pid"], "tid": step["tid"],
                           "ts": step["ts"] + 1 + i, "args": {"Total Allocated": total, "Total Reserved": 1 << 24, "Device Id": 0,
                                                             "Device Type": 1, "Addr": 4096, "Bytes": size}})
        with open(path, "w") as file:
            json.dump(trace, file)


def statements():
    """Name and text of each statement of the page."""
    with open(PAGE, encoding="utf-8") as file:
        return dict(re.findall(r"```sql\n-- ([^\n]+)\n(.*?)```", file.read(), flags=re.S))


class Fleet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ckineto-fleet-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.fleet = os.path.join(cls.folder.name, "fleet")
        runs = {"before": ("--damage", f"missing:rank={MISSING_RANK}"),
                "after": ("--plant", f"device:rank={SLOW_RANK},factor=1.3")}
        for run, how in runs.items():
            out = os.path.join(cls.folder.name, run)
            subprocess.run([sys.executable, "-B", GENERATOR, out, "--program", "tpd", "--set", "tp=2", "--set", "dp=4", "--set", "pp=1",
                            "--set", "ranks_per_host=2", *how], check=True, capture_output=True)
            add_memory(out)
            done = export("--parquet", cls.fleet, out)
            assert done.returncode == (3 if run == "before" else 0), done.stderr
            assert (f"missing: {MISSING_RANK}." in done.stderr) == (run == "before"), done.stderr
        cls.statements = statements()
        cls.questions = {n: s for n, s in cls.statements.items() if n not in ("duckdb", "clickhouse")}
        cls.rows = {name: cls.ask_duckdb(text) for name, text in cls.questions.items()}

    @classmethod
    def views(cls, engine):
        text = cls.statements[engine].replace("'fleet/", f"'{cls.fleet}/")
        return [text.replace("TABLE", t).replace("VIEW", "VIEW IF NOT EXISTS") for t in sorted(os.listdir(cls.fleet))]

    @classmethod
    def ask_duckdb(cls, statement):
        with duckdb.connect() as connection:
            for view in cls.views("duckdb"):
                connection.execute(view)
            return connection.execute(statement).fetchall()

    def test_there_are_eleven(self):
        self.assertEqual(len(self.questions), 11)

    def test_planted_rank_is_found(self):
        self.assertEqual(self.rows["kernels slower than peers"][0][:2], ("after", SLOW_RANK))
        self.assertGreater(self.rows["kernels slower than peers"][0][2], 1.2)
        self.assertEqual(len(self.rows["kernels slower than peers"]), 1)
        self.assertEqual(self.rows["who waits for whom"][0][:2], ("after", SLOW_RANK))
        self.assertEqual(self.rows["what makes runs longer"][0][:3], ("after", "device", SLOW_RANK))

    def test_missing_rank_is_found(self):
        self.assertEqual(self.rows["ranks missing"], [("before", MISSING_RANK)])

    def test_other_answers(self):
        for name, rows in self.rows.items():
            self.assertTrue(rows, name)
        self.assertEqual(self.rows["memory peak by rank"][0][3], 8 << 20)
        self.assertEqual(len(self.rows["memory peak by rank"]), 15)
        self.assertEqual(len(self.rows["drift per host"]), 8)
        self.assertIn("aten::mm", [row[0] for row in self.rows["operators that grew"]])
        for row in self.rows["time between steps"]:
            self.assertGreaterEqual(row[2], 3)
        for row in self.rows["communication not overlapped"]:
            self.assertTrue(0 < row[3] < 100)

    @unittest.skipUnless(chdb, "needs chdb")
    def test_clickhouse_gives_the_same(self):
        session = chdb.session.Session(os.path.join(self.folder.name, "clickhouse"))
        self.addCleanup(session.close)
        session.query("CREATE DATABASE IF NOT EXISTS fleet ENGINE = Atomic")
        session.query("USE fleet")
        for view in self.views("clickhouse"):
            session.query(view)
        for name, text in self.questions.items():
            lines = str(session.query(text, "JSONCompactEachRow")).splitlines()
            found = [json.loads(line) for line in lines]
            self.assertEqual(len(found), len(self.rows[name]), name)
            for one, other in zip(self.rows[name], found):
                for a, b in zip(one, other):
                    if isinstance(a, str) or a is None:
                        self.assertEqual(a, b, name)
                    else:
                        self.assertTrue(math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-6), (name, one, other))

    def test_activities_are_those_of_the_traces(self):
        for run in ("before", "after"):
            for file in os.listdir(os.path.join(self.folder.name, run)):
                path = os.path.join(self.folder.name, run, file)
                rank = int(re.search(r"\d+", file)[0])
                said = subprocess.run([COMMAND, "query", "--json", path, "SELECT row, name, category, kind, form, start_ns, dur_ns, "
                                       "nullif(correlation_id, 0), nullif(external_id, 0) FROM activities ORDER BY row"],
                                      capture_output=True, text=True, check=True).stdout
                rows = json.loads(said)["rows"]
                rows = [tuple(r.values()) if isinstance(r, dict) else tuple(r) for r in rows]
                part = f"{self.fleet}/activities/run={run}/rank={rank}/part.parquet"
                found = duckdb.sql(f"SELECT row, name, category, kind, form, start_ns, dur_ns, correlation, external_id FROM '{part}' ORDER BY row").fetchall()
                self.assertEqual(rows, found, part)
                if rank == 0:
                    steps = duckdb.sql(f"SELECT step, count(*) FROM '{part}' WHERE kind = 'kernel' GROUP BY step ORDER BY step").fetchall()
                    self.assertEqual(len(steps), 4)

    def test_tables_are_those_of_analyze(self):
        folder = os.path.join(self.folder.name, "after")
        said = subprocess.run([COMMAND, "analyze", "--json", "--all", "--series", "--top", "0", folder], capture_output=True, text=True, check=True)
        tables = json.loads(said.stdout)["tables"]
        for name, table in tables.items():
            path = f"{self.fleet}/{name}"
            columns = [c if isinstance(c, str) else c["name"] for c in table["columns"]]
            if name in ("execution_trace", "memory_timeline"):
                continue # of files that options of analyze name
            with self.subTest(table=name):
                view = f"read_parquet('{path}/run=after/**/*.parquet', hive_partitioning = true)"
                found = duckdb.sql(f"SELECT count(*) FROM {view}").fetchall()[0][0]
                self.assertEqual(found, len(table["rows"]))
                for c in (c for c in columns if c.endswith("_us") or c in ("count", "calls", "bytes")):
                    if c not in duckdb.sql(f"SELECT * FROM {view} LIMIT 0").columns:
                        continue # a moment, whose name has no unit
                    at = columns.index(c)
                    expected = sum(r[at] for r in table["rows"] if isinstance(r[at], (int, float)))
                    total = duckdb.sql(f'SELECT coalesce(sum("{c}"), 0) FROM {view}').fetchall()[0][0]
                    self.assertTrue(math.isclose(float(total), expected, rel_tol=1e-9, abs_tol=1e-3), (c, total, expected))

    def test_again_and_damaged(self):
        again = os.path.join(self.folder.name, "again")
        source = os.path.join(self.folder.name, "after")
        broken = os.path.join(self.folder.name, "broken.json")
        with open(broken, "w") as file:
            file.write("broken")
        files = sorted(os.path.join(source, f) for f in os.listdir(source))[:2]
        for _ in range(2):
            done = export("--parquet", again, "--run", "a", *files, broken)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("broken.json", done.stderr)
            parts = sorted(os.listdir(os.path.join(again, "activities", "run=a")))
            self.assertEqual(parts, ["rank=0", "rank=1"])
            self.assertEqual(os.listdir(os.path.join(again, "activities", "run=a", "rank=0")), ["part.parquet"])
        copy = os.path.join(self.folder.name, "copy.json")
        shutil.copy(files[0], copy)
        done = export("--parquet", again, "--run", "a", files[0], copy)
        self.assertEqual(done.returncode, 3)
        self.assertIn("rank 0 was exported from another file already", done.stderr)
        done = export("--parquet", again, "--run", "b", broken)
        self.assertEqual(done.returncode, 2)

    def test_mistakes(self):
        source = os.path.join(self.folder.name, "after")
        for arguments, said in ((("--parquet", "x", "--run", "a/b", source), "cannot be the name of a run"),
                                (("--parquet", "x", "--tables", "nothing", source), "unknown table 'nothing'"),
                                (("--parquet", "x"), "no trace given"), ((source,), "no data set given")):
            done = export(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        done = export("--parquet", "/proc/nothing", source)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("/proc/nothing"), 1, done.stderr) # once, not for each rank

    def test_only_some_tables(self):
        some = os.path.join(self.folder.name, "some")
        export("--parquet", some, "--tables", "activities,steps,operators", os.path.join(self.folder.name, "after"))
        self.assertEqual(sorted(os.listdir(some)), ["activities", "operators", "steps"])


if __name__ == "__main__":
    unittest.main()
