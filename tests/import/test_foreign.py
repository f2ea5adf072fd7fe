"""Exports of Nsight Systems, databases and JSON of rocprofv3: the same run as in Kineto's JSON has the same tables,
times to the nanosecond, launches, names and ranges; what is not read is counted; damaged files get an error that names
the place."""

import csv
import glob
import gzip
import io
import json
import os
import random
import sqlite3
import struct
import subprocess
import tempfile
import unittest

import foreign_files as files

COMMAND = os.environ["CKINETO"]
DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
folder = tempfile.TemporaryDirectory()
RUN = files.Run()


def path(name):
    return os.path.join(folder.name, name)


def call(*arguments, status=0, data=None):
    r = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, timeout=240, cwd=folder.name, input=data)
    assert r.returncode == status, (arguments, r.returncode, r.stdout[-1000:], r.stderr[-2000:])
    return (r.stdout if status == 0 else r.stderr).decode(errors="replace")


def tables(name):
    """Every table of the analysis, without what names the file."""
    return json.loads(call("analyze", "--all", "--json", name))["tables"]


def rows(name, statement):
    return list(csv.reader(io.StringIO(call("query", name, statement, "--format", "csv"))))[1:]


def ledger(name):
    call("convert", name, "-o", "ledger.json")
    with open(path("ledger.json"), encoding="utf-8") as f:
        return {f'{line["source"]}: {line["reason"]}': line["count"] for line in json.load(f)["ckineto"]["ledger"]}


files.kineto(RUN, path("run.json"))
NSYS = {v: f"nsys-{v}.sqlite" for v in files.NSYS_VERSIONS}
ROCPD = {v: f"rocpd-{v}.db" for v in files.ROCPD_VERSIONS}
for version, name in NSYS.items():
    files.nsys(RUN, path(name), version).close()
for version, name in ROCPD.items():
    files.rocpd(RUN, path(name), version).db.close()
files.rocprof_json(RUN, path("rocprof.json"))
ROCM = [*ROCPD.values(), "rocprof.json"]
WORK = sorted(RUN.kernels + RUN.copies + RUN.fills, key=lambda e: e["start"])


class Same(unittest.TestCase):
    maxDiff = 2000

    def test_nsight_systems_has_the_tables_of_kineto(self):
        expected = tables("run.json")
        for name in NSYS.values():
            with self.subTest(name):
                found = tables(name)
                self.assertEqual(found.keys(), expected.keys())
                for table in expected:
                    self.assertEqual(found[table], expected[table], table)

    def test_nothing_differs(self):
        for name in NSYS.values():
            with self.subTest(name):
                self.assertIn("No difference beyond noise", call("diff", "run.json", name))

    def test_findings(self):
        def found(name):
            return [(f["id"], f.get("savings_us")) for f in json.loads(call("analyze", "--findings", "--json", name))["findings"]]
        for name in NSYS.values():
            self.assertEqual(found(name), found("run.json"))

    def test_rocm_files_agree(self):
        expected = tables(ROCM[0])
        for name in ROCM[1:]:
            with self.subTest(name):
                self.assertEqual(tables(name), expected)
        kernels = expected["kernels"] if "kernels" in expected else None
        self.assertTrue(kernels)

    def test_times_to_the_nanosecond(self):
        statement = "SELECT start_ns, end_ns FROM activities WHERE kind IN ('kernel','gpu_memcpy','gpu_memset') ORDER BY start_ns"
        expected = [[str(files.EPOCH + e["start"]), str(files.EPOCH + e["end"])] for e in WORK]
        for name in NSYS.values():
            self.assertEqual(rows(name, statement), expected)
        expected = [[str(e["start"]), str(e["end"])] for e in WORK if e not in RUN.fills]
        for name in ROCM:
            self.assertEqual(rows(name, statement), expected)

    def test_launches(self):
        """Each kernel with the call that launched it, by its correlation."""
        statement = ("SELECT k.name, k.start_ns, c.name, c.start_ns FROM activities k JOIN activities c ON c.correlation_id = "
                     "k.correlation_id AND c.kind = 'runtime' WHERE k.kind = 'kernel' ORDER BY k.start_ns")
        starts = {e["correlation"]: e["start"] for e in RUN.calls}
        for name in [*NSYS.values(), *ROCM]:
            base, call_name = (files.EPOCH, "cudaLaunchKernel") if name in NSYS.values() else (0, "hipLaunchKernel")
            self.assertEqual(rows(name, statement),
                             [[k["name"], str(base + k["start"]), call_name, str(base + starts[k["correlation"]])]
                              for k in sorted(RUN.kernels, key=lambda k: k["start"])])

    def test_ranges_and_threads(self):
        statement = "SELECT name, end_ns - start_ns FROM activities WHERE kind = 'user_annotation' ORDER BY start_ns"
        for name in [*NSYS.values(), *ROCM]:
            self.assertEqual(rows(name, statement), [[e["name"], str(e["end"] - e["start"])] for e in RUN.ranges])

    def test_any_to_any(self):
        """Through each format and back: the same activities."""
        statement = "SELECT kind, name, start_ns, end_ns, correlation_id FROM activities ORDER BY start_ns, kind, name"
        for name in (NSYS["2025.1"], ROCPD["4.1"], "rocprof.json"):
            expected = rows(name, statement)
            for out in ("again.json", "again.json.gz", "again.sqlite"):
                call("convert", name, "-o", out)
                self.assertEqual(rows(out, statement), expected)
            for out in ("out.pftrace", "out.csv", "out.folded"):
                call("convert", name, "-o", out)
                self.assertGreater(os.path.getsize(path(out)), 100)

    def test_own_databases(self):
        """What ckineto writes as SQLite, it reads again: traces of PyTorch have the same tables."""
        traces = sorted(glob.glob(os.path.join(DATA, "torch-*", "*.json*")))[:6]
        self.assertTrue(traces)
        for trace in [*traces, path("run.json")]:
            with self.subTest(trace):
                call("convert", trace, "-o", "own.sqlite")
                found, expected = tables("own.sqlite"), tables(trace)
                for table in expected:
                    self.assertEqual(found[table], expected[table], table)
                self.assertEqual([line for line in ledger("own.sqlite") if line.startswith("ckineto database")], [])

    def test_compressed_and_piped(self):
        for name in (NSYS["2023.4"], ROCPD["3.0"], "rocprof.json"):
            with open(path(name), "rb") as f:
                data = f.read()
            with gzip.open(path("packed.gz"), "wb") as f:
                f.write(data)
            expected = call("info", "--json", name).replace(name, "")
            self.assertEqual(call("info", "--json", "packed.gz").replace("packed.gz", ""), expected)
            self.assertIn('"activities"', call("info", "--json", "-", data=data))


class Details(unittest.TestCase):
    """What the run above does not have."""

    def nsys(self, name, add, version="2025.1"):
        db = files.nsys(files.Run(6), path(name), version)
        add(db)
        db.commit()
        db.close()
        return name

    def test_tables_that_are_not_read_are_counted(self):
        def add(db):
            db.execute("CREATE TABLE VULKAN_API (start INTEGER, end INTEGER, globalTid INTEGER)")
            db.executemany("INSERT INTO VULKAN_API VALUES (?, ?, 1)", [(i, i + 1) for i in range(17)])
            db.execute("CREATE TABLE SOME_NAMES (id INTEGER, text TEXT)")
            db.execute("INSERT INTO SOME_NAMES VALUES (1, 'x')")
            db.execute("CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT)")
            db.execute("INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 2, 'CUDA tracing was off')")
        found = ledger(self.nsys("unread.sqlite", add))
        self.assertEqual(found["nsys: rows of the table VULKAN_API: not read"], 17)
        self.assertEqual(found["nsys: rows of the table SOME_NAMES: not read"], 1)
        self.assertEqual(found["nsys: warning of Nsight Systems"], 1)

    def test_wrong_values_are_left_out(self):
        def add(db):
            for start, end in ((None, 1), ("text", 5), (b"\0\1", 5), (1, b"x"), (2**62, 2**63 - 1), (1.5, 2)):
                db.execute("CREATE TABLE IF NOT EXISTS OSRT_API (start, end, globalTid INTEGER, nameId)")
                db.execute("INSERT INTO OSRT_API VALUES (?, ?, 'x', 'y')", (start, end))
        name = self.nsys("wrong.sqlite", add)
        self.assertEqual(ledger(name)["nsys: rows with a value that is missing or of a wrong type: left out"], 6)

    def test_ranges_across_threads_marks_and_open_ones(self):
        def add(db):
            thread = files.PID * files.GLOBAL + 4400
            files.fill(db, "NVTX_EVENTS", start=10, end=20_000_000, eventType=60, rangeId=3, text="request", globalTid=thread)
            files.fill(db, "NVTX_EVENTS", start=15, eventType=34, text="moment", globalTid=thread, doubleValue=2.5)
            files.fill(db, "NVTX_EVENTS", start=1_000, eventType=59, text="open", globalTid=thread, domainId=4)
            files.fill(db, "NVTX_EVENTS", start=0, eventType=75, text="my domain", globalTid=thread, domainId=4)
        name = self.nsys("ranges.sqlite", add)
        found = dict(rows(name, "SELECT name, form FROM activities WHERE name IN ('request', 'moment', 'open')"))
        self.assertEqual(found, {"request": "async", "moment": "instant", "open": "slice"})
        self.assertIn("my domain", rows(name, "SELECT args FROM activities WHERE name = 'open'")[0][0])
        self.assertIn("2.5", rows(name, "SELECT args FROM activities WHERE name = 'moment'")[0][0])

    def test_processes_with_the_same_numbers(self):
        """Two ranks in one file have the same correlations and streams: launches stay apart."""
        def add(db):
            other = (files.PID + 1) * files.GLOBAL
            for table in ("KERNEL", "RUNTIME"):
                columns = [c[1] for c in db.execute(f"PRAGMA table_info(CUPTI_ACTIVITY_KIND_{table})")]
                picked = ", ".join(f"{c} + {files.GLOBAL}" if c in ("globalPid", "globalTid") else
                                   f"{c} + 40000000" if c in ("start", "end") else c for c in columns)
                db.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} SELECT {picked} FROM CUPTI_ACTIVITY_KIND_{table}")
            self.assertTrue(other)
        name = self.nsys("two.sqlite", add)
        launches = rows(name, "SELECT count(*) FROM activities k JOIN activities c ON c.correlation_id = k.correlation_id "
                              "AND c.kind = 'runtime' AND k.kind = 'kernel'")
        kernels = rows(name, "SELECT count(*), count(DISTINCT correlation_id) FROM activities WHERE kind = 'kernel'")
        self.assertEqual(launches[0][0], kernels[0][0])
        self.assertEqual(kernels[0][0], kernels[0][1])

    def test_waits_for_events(self):
        def add(db):
            db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
                       "correlationId INTEGER, globalPid INTEGER, eventId INTEGER)")
            for stream, correlation in ((7, 500), (9, 510), (11, 530)):
                db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, ?, ?, ?, 77)",
                           (stream, correlation, files.PID * files.GLOBAL))
            files.fill(db, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=9_000_000, end=9_000_100, deviceId=0, contextId=1, streamId=8,
                       correlationId=520, globalPid=files.PID * files.GLOBAL, syncType=2, eventId=77)
        found = json.loads(rows(self.nsys("events.sqlite", add), "SELECT args FROM activities WHERE name = 'Stream Wait Event'")[0][0])
        self.assertEqual((found["wait_on_stream"], found["wait_on_cuda_event_record_corr_id"], found["stream"]), (9, 510, 8))

    def test_memory_and_metrics(self):
        def add(db):
            db.execute("CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER, contextId INTEGER, "
                       "address INTEGER, pc INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER)")
            db.executemany("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (?, ?, 0, 1, 4096, 0, 512, 2, ?)",
                           [(1_000, files.PID * files.GLOBAL, 0), (2_000, files.PID * files.GLOBAL, 1)])
            db.execute("CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT)")
            db.execute("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (281474976710656, 1, 'GPU', 3, 'SMs Active [Throughput %]')")
            db.execute("CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER)")
            db.executemany("INSERT INTO GPU_METRICS VALUES (?, 281474976710656, 3, ?)", [(i * 100_000, i) for i in range(50)])
        name = self.nsys("memory.sqlite", add)
        self.assertEqual(rows(name, "SELECT count(*) FROM activities WHERE name = 'SMs Active [Throughput %]'"), [["50"]])
        self.assertEqual(len(rows(name, "SELECT 1 FROM activities WHERE kind = 'memory'")), 2)

    def test_names_that_are_not_text(self):
        def add(db):
            db.execute("UPDATE StringIds SET value = CAST(x'ff00fe41' AS TEXT) WHERE value LIKE 'void%'")
            db.execute("UPDATE StringIds SET value = x'0011' WHERE value LIKE 'cudaLaunch%'")
        name = self.nsys("names.sqlite", add)
        call("convert", name, "-o", "names.json")
        with open(path("names.json"), encoding="utf-8") as f:
            json.load(f)

    def test_rocpd_moments_memory_and_queues(self):
        r = files.rocpd(files.Run(6), path("moments.db"), "4.1")
        r.fill("sample", timestamp=5, track_id=1, name_id=r.text("roctxMarkA"), event_id=r.event("MARKER_CORE_API", 1, extdata='{"message": "here"}'))
        for kind, size in (("ALLOC", 4096), ("FREE", 0), ("FREE", 0)):
            r.fill("memory_allocate", start=1_000, end=1_100, type=kind, level="REAL", address=65536, size=size,
                   **r.place(files.THREADS[0], agent_id=files.FIRST_GPU, queue_id=0, stream_id=0))
        r.fill("pmc_event", event_id=1, pmc_id=1, value=2.0)
        r.db.commit()
        r.db.close()
        self.assertEqual(rows("moments.db", "SELECT form FROM activities WHERE name = 'here'"), [["instant"]])
        self.assertEqual(len(rows("moments.db", "SELECT 1 FROM activities WHERE kind = 'memory'")), 2)
        found = ledger("moments.db")
        self.assertEqual(found[f"rocpd: rows of the table rocpd_pmc_event_{files.GUID}: not read"], 1)
        self.assertEqual(found["rocpd: releases of memory whose allocation is not in the file: not read"], 1)

    def test_several_processes_in_one_json(self):
        one = files.rocprof_json(files.Run(6), path("one.json"))["rocprofiler-sdk-tool"][0]
        other = json.loads(json.dumps(one))
        other["metadata"]["pid"] = 99
        other["buffer_records"]["pc_sample_host_trap"] = [{"size": 1}] * 5
        with open(path("both.json"), "w", encoding="utf-8") as f:
            json.dump({"rocprofiler-sdk-tool": [one, other]}, f)
        single, both = (int(rows(n, "SELECT count(*) FROM activities")[0][0]) for n in ("one.json", "both.json"))
        self.assertEqual(both, 2 * single)
        self.assertEqual(ledger("both.json")["rocprofv3: records of pc_sample_host_trap: not read"], 5)


class Damaged(unittest.TestCase):
    def data(self, name):
        with open(path(name), "rb") as f:
            return bytearray(f.read())

    def put(self, name, data):
        with open(path(name), "wb") as f:
            f.write(data)
        return name

    def test_databases_with_missing_ends(self):
        """What there is is read, and the ledger says that there was more; an error if no event is left."""
        for whole in (NSYS["2025.1"], ROCPD["3.0"]):
            data, read = self.data(whole), 0
            for size in (16, 99, 100, 512, 4096, len(data) // 2, len(data) - 4096):
                name = self.put("short.db", data[:size])
                r = subprocess.run([COMMAND, "info", name], capture_output=True, timeout=120, cwd=folder.name)
                self.assertIn(r.returncode, (0, 2), r.stderr)
                if r.returncode:
                    self.assertRegex(r.stderr.decode(), "short.db: .*(damaged|its end is missing|header|has no column)")
                else:
                    read += 1
                    self.assertTrue([k for k in ledger(name) if "tables that are damaged" in k])
            self.assertGreater(read, 0)

    def test_other_databases(self):
        db = sqlite3.connect(path("other.db"))
        db.execute("CREATE TABLE recipes (name TEXT)")
        db.commit()
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("INSERT INTO recipes VALUES ('soup')")
        db.commit()
        self.assertIn("write-ahead log", call("info", "other.db", status=2))
        db.execute("PRAGMA journal_mode=DELETE")
        self.assertIn("an SQLite database with the tables recipes", call("info", "other.db", status=2))
        db.execute("CREATE TABLE rocpd_api (id INTEGER)")
        db.execute("CREATE TABLE rocpd_op (id INTEGER)")
        db.commit()
        db.close()
        self.assertIn("rpd2tracing.py", call("info", "other.db", status=2))

    def test_columns_that_are_missing(self):
        db = sqlite3.connect(path("columns.db"))
        db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, deviceId INTEGER)")
        db.commit()
        self.assertIn("the table CUPTI_ACTIVITY_KIND_KERNEL has no column end", call("info", "columns.db", status=2))
        db.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN end INTEGER")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 0, 5)")
        db.commit()
        db.close()
        self.assertIn("kernel without a name", call("info", "columns.db"))

    def test_views_and_triggers_of_the_file_do_not_run(self):
        db = files.nsys(files.Run(6), path("views.sqlite"))
        db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET")
        db.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                   "SELECT i AS start, i AS end FROM n")
        db.commit()
        db.close()
        self.assertIn("kernels", call("info", "views.sqlite"))

    def test_json_with_a_missing_end(self):
        data = self.data("rocprof.json")
        whole = int(rows("rocprof.json", "SELECT count(*) FROM activities")[0][0])
        self.assertIn("byte", call("info", self.put("short.json", data[:300]), status=2))
        at = data.index(b'"marker_api"', data.index(b'"buffer_records": {'))
        name = self.put("short.json", data[:at + 700])
        self.assertLess(0, int(rows(name, "SELECT count(*) FROM activities")[0][0]))
        self.assertGreater(whole, int(rows(name, "SELECT count(*) FROM activities")[0][0]))
        self.assertIn("rocprofv3: the text is damaged: what follows was not read", ledger(name))

    def test_random_damage(self):
        """Pages, cells and headers with other bytes: a trace or an error, never a crash."""
        rng = random.Random(7)
        for whole in (NSYS["2025.1"], ROCPD["4.1"], "rocprof.json"):
            original = self.data(whole)
            for _ in range(int(os.environ.get("IMPORT_DAMAGES", "12"))):
                data = bytearray(original)
                for _ in range(rng.choice((1, 3, 30))):
                    at = rng.randrange(100 if rng.randrange(8) else 16, len(data))
                    data[at:at + 4] = rng.choice((bytes([rng.randrange(256)]), struct.pack(">I", rng.randrange(1 << 32)), b"\0\0\0\0"))
                self.put("damaged", data)
                r = subprocess.run([COMMAND, "info", "damaged"], capture_output=True, timeout=120, cwd=folder.name)
                self.assertIn(r.returncode, (0, 2), r.stderr[-3000:])
                self.assertTrue(r.returncode == 0 or b"damaged" in r.stderr, r.stderr)

    def test_pages_that_go_in_circles(self):
        """An interior page whose children are all one leaf repeats its rows."""
        db = sqlite3.connect(path("circle.sqlite"))
        db.execute("PRAGMA page_size=512")
        db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        db.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT)")
        db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, 'abcdefgh')", [(i, i + 1) for i in range(3000)])
        db.commit()
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'NVTX_EVENTS'").fetchone()[0]
        db.close()
        data = self.data("circle.sqlite")
        page = (root - 1) * 512
        self.assertEqual(data[page], 5)
        cells = struct.unpack(">H", data[page + 3:page + 5])[0]
        for i in range(cells): # every child is the page itself
            at = page + struct.unpack(">H", data[page + 12 + 2 * i:page + 14 + 2 * i])[0]
            data[at:at + 4] = struct.pack(">I", root)
        self.assertIn("NVTX_EVENTS", call("info", self.put("circle.sqlite", data), status=2))


if __name__ == "__main__":
    unittest.main()
