"""Tables reach pandas, polars, pyarrow and DuckDB as they are; without these, the error says what to do."""
import ctypes
import gc
import importlib.util
import unittest

import support
import ckineto
from ckineto import _structs, table


def need(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, "not installed: %s" % ", ".join(missing))


class Streams(support.TestCase):
    """Arrow's C stream interface, by hand."""

    def setUp(self):
        super().setUp()
        self.trace = ckineto.open(self.generate(1000))

    def test_a_capsule_is_an_arrow_stream_and_is_released(self):
        before = len(table._streams)
        capsule = self.trace.__arrow_c_stream__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        stream = _structs.ArrowStream.from_address(get(id(capsule), b"arrow_array_stream"))

        class Schema(ctypes.Structure):
            _fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p),
                        ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
                        ("n_children", ctypes.c_int64), ("children", ctypes.c_void_p),
                        ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p),
                        ("private_data", ctypes.c_void_p)]

        schema = Schema()
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self.assertEqual(call(stream.get_schema)(ctypes.addressof(stream), ctypes.addressof(schema)), 0)
        self.assertEqual((schema.format, schema.n_children), (b"+s", 13))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(schema.release)(ctypes.addressof(schema))
        self.assertEqual(len(table._streams), before + 1)
        del capsule
        gc.collect()
        self.assertEqual(len(table._streams), before)

    def test_a_stream_that_was_taken_is_not_released_twice(self):
        capsule = self.trace.__arrow_c_stream__()
        stream = _structs.ArrowStream.from_address(
            ctypes.pythonapi.PyCapsule_GetPointer(id(capsule), b"arrow_array_stream"))
        taken = _structs.ArrowStream.from_buffer_copy(stream)
        stream.release = None  # as a consumer does
        del capsule
        gc.collect()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(taken.release)(ctypes.addressof(taken))

    def test_an_unknown_table_is_an_error(self):
        with self.assertRaisesRegex(ckineto.ArgumentError, "counters"):
            self.trace.table("nonsense")

    def test_a_capsule_may_live_until_the_end_of_the_program(self):
        code = "import ckineto, builtins, sys\n" \
               "builtins.kept = ckineto.open(%r).__arrow_c_stream__(); print('end')" % self.trace.path
        self.assertEqual(support.run_python(code), "end\n")


class Absent(support.TestCase):
    def test_messages_say_what_to_install(self):
        code = """
import sys
for name in ("pandas", "polars", "pyarrow"):
    sys.modules[name] = None
import ckineto
trace = ckineto.open(%r)
rows = trace.query("SELECT 1 AS a")
for call in (trace.to_pandas, trace.to_polars, trace.to_arrow, rows.to_pandas, rows.to_polars):
    try:
        call()
    except ImportError as error:
        print(error)
""" % self.generate(300)
        output = support.run_python(code).splitlines()
        self.assertEqual([line.rpartition("run ")[2] for line in output],
                         ["'pip install %s'" % name for name in
                          ("pandas", "polars", "pyarrow", "pandas", "polars")])


class Present(support.TestCase):
    def setUp(self):
        super().setUp()
        self.trace = ckineto.open(self.generate(3000))
        self.expected = [(a.row, a.name, a.start_ns, a.duration_ns) for a in self.trace]

    @need("pyarrow")
    def test_pyarrow(self):
        import pyarrow

        events = self.trace.to_arrow()
        self.assertEqual(events.num_rows, len(self.trace))
        columns = [events[name].to_pylist() for name in ("row", "name", "start_ns", "dur_ns")]
        self.assertEqual(list(zip(*columns)), self.expected)
        self.assertEqual(pyarrow.table(self.trace).num_rows, len(self.trace))
        self.assertIn("args", self.trace.to_arrow("activities").column_names)
        rows = self.trace.query("SELECT row, name FROM activities")
        self.assertEqual(rows.to_arrow()["name"].to_pylist(), [e[1] for e in self.expected])
        name = events["name"]
        self.trace.close()
        del self.trace
        gc.collect()
        self.assertEqual(name.to_pylist(), [e[1] for e in self.expected])  # batches keep the memory

    @need("pandas", "pyarrow")
    def test_pandas(self):
        frame = self.trace.to_pandas()
        self.assertEqual(list(frame["name"]), [e[1] for e in self.expected])
        grouped = frame[frame["kind"] == "kernel"]["dur_ns"].sum()
        self.assertEqual(grouped, sum(a.duration_ns for a in self.trace if a.kind == "kernel"))
        facts = self.trace.analyze("operators")["operators"].to_pandas()
        self.assertGreater(len(facts), 0)
        self.assertEqual(len(self.trace.key_averages().to_pandas()), len(self.trace.key_averages()))
        self.assertEqual(list(self.trace.to_pandas("processes")["pid"]),
                         [p.pid for p in self.trace.processes])

    @need("polars")
    def test_polars(self):
        import polars

        for frame in (self.trace.to_polars(), polars.DataFrame(self.trace)):
            self.assertEqual(frame["name"].to_list(), [e[1] for e in self.expected])
        rows = self.trace.query("SELECT name, correlation_id FROM activities").to_polars()
        self.assertEqual(rows.height, len(self.trace))

    @need("duckdb", "pyarrow")
    def test_duckdb(self):
        import duckdb

        events = self.trace.to_arrow()  # DuckDB finds tables among the variables of its caller
        count = duckdb.sql("SELECT count(*), sum(dur_ns) FROM events").fetchall()[0]
        self.assertEqual(count, (len(events), sum(e[3] for e in self.expected)))


if __name__ == "__main__":
    support.main()
