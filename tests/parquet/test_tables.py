"""Tables that are written by src/export/parquet.c, read back by pyarrow, DuckDB, polars and fastparquet: each cell is
the same, whatever the values, encodings, pages and row groups. Random tables find what was not thought of."""
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

import readers

PROGRAM = os.environ.get("CKINETO_WRITE_TABLE", "")
TABLES = int(os.environ.get("CKINETO_TABLES", "60"))
if not PROGRAM or not readers.READERS:
    print("pyarrow, duckdb, polars and fastparquet are not installed: skipped")
    sys.exit(77)

INT32, INT64 = 1 << 31, 1 << 63


def write(path, columns, rows, group_rows=0, page_rows=0, program=PROGRAM):
    """@param columns  (name, type, is optional) @param rows  tuples. @return what the program says, None if all is well."""
    out = [f"{group_rows} {page_rows} {len(columns)} {len(rows)}\n".encode()]
    out += [f"{name} {kind} {int(optional)}\n".encode() for name, kind, optional in columns]
    for row in rows:
        for (_, kind, _), value in zip(columns, row):
            if value is None:
                out.append(b"\0")
            elif kind in ("text", "json"):
                data = value if isinstance(value, bytes) else value.encode()
                out.append(b"\1" + struct.pack("<I", len(data)) + data)
            else:
                out.append(b"\1" + struct.pack("<d" if kind == "double" else "<q", value))
    run = subprocess.run([program, path], input=b"".join(out), capture_output=True)
    return None if run.returncode == 0 else run.stderr.decode() or f"exit status {run.returncode}"


class Tables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "table.parquet")
        self.addCleanup(self.folder.cleanup)

    def check(self, columns, rows, only=None, **sizes):
        self.assertIsNone(write(self.path, columns, rows, **sizes))
        times = {name for name, kind, _ in columns if kind == "time"}
        for reader in only or readers.READERS:
            if reader not in readers.READERS:
                continue
            found = readers.READERS[reader](self.path, times)
            self.assertEqual([c[0] for c in columns], list(found), reader)
            for i, (name, kind, optional) in enumerate(columns):
                values = [row[i] for row in rows]
                if kind == "bool":
                    values = [v if v is None else bool(v) for v in values]
                self.assertEqual(len(values), len(found[name]), (reader, name))
                for at, (one, other) in enumerate(zip(values, found[name])):
                    if reader == "fastparquet" and optional and (one is None or one != one):
                        continue # pandas has one word for both
                    self.assertTrue(readers.is_same(one, other if kind != "bool" or other is None else bool(other)),
                                    f"{reader}: {name}[{at}]: {one!r}, read {other!r}")

    def test_no_rows(self):
        self.check([("a", "int64", True), ("b", "text", False), ("t", "time", True)], [])

    def test_only_nulls(self):
        kinds = ("bool", "int32", "int64", "time", "double", "text")
        self.check([(f"c_{k}", k, True) for k in kinds], [(None,) * len(kinds)] * 1000, group_rows=300, page_rows=77)

    def test_one_row(self):
        self.check([("a", "int64", False), ("b", "text", True), ("c", "double", True), ("d", "bool", False)],
                   [(-1, "", 0.5, 1)])

    def test_texts(self):
        texts = ["", "\0", "a\0b", "\u00e9\u4e2d\U0001f600", "\u202e", "x" * 63 + "\u00e9", "y" * 64, "z" * 65, "\x7f" * 80,
                 "\U0010ffff" * 40, "\U0010ffff" * 40 + "a", '"quoted", \\ and\nlines', None]
        self.check([("t", "text", True), ("i", "int32", False)], [(t, i) for i, t in enumerate(texts * 40)], page_rows=50)
        self.check([("t", "text", False)], [(f"{t}{i}",) for i, t in enumerate(t for t in texts * 40 if t is not None)],
                   page_rows=50)

    def test_invalid_texts_are_replaced(self):
        self.assertIsNone(write(self.path, [("t", "text", False)], [(b"a\xff\xfe",), (b"\xe4\xb8",), (b"ok",)]))
        for reader, read in readers.READERS.items():
            self.assertEqual(read(self.path, ())["t"], ["a\ufffd\ufffd", "\ufffd", "ok"], reader)

    def test_long_texts_fill_pages(self):
        texts = [("%08d" % i) * (1 << 14) for i in range(40)] + ["s"]
        self.check([("t", "text", False), ("n", "int64", False)], [(t, i) for i, t in enumerate(texts)])

    def test_extreme_numbers(self):
        ints = [0, 1, -1, INT32, INT32 - 1, -INT32, -INT32 - 1, 5 * INT32, INT64 - 1, -INT64, INT64 - 1, -INT64 + 1]
        doubles = [0.0, -0.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), math.pi]
        self.check([("i", "int64", False), ("n", "int32", False), ("d", "double", False), ("t", "time", False)],
                   [(ints[i % 12], ints[i % 3 + 1] if i % 3 < 2 else -INT32 + i, doubles[i % 9], (17 << 56) + i * INT32)
                    if ints[i % 3 + 1] < INT32 else (ints[i % 12], INT32 - 1 - i, doubles[i % 9], i)
                    for i in range(700)], page_rows=100)

    def test_integers_jump_over_the_whole_range(self):
        jumps = [(-1) ** i * (INT32 - 1 - i) for i in range(5000)]
        wide = [(-1) ** i * (INT64 - 1 - i) for i in range(5000)]
        self.check([("n", "int32", False), ("w", "int64", False)], list(zip(jumps, wide)))

    def test_more_than_2_to_31_in_all_columns(self):
        rows = [(3 * INT32 + 1000 * i, (1 << 60) + 7 * i * i) for i in range(20000)]
        self.check([("bytes", "int64", False), ("t", "time", False)], rows, group_rows=4096, page_rows=1000)

    def test_row_groups(self):
        rows = [(i, f"name {i % 7}", i / 3 if i % 5 else None, i % 2) for i in range(10000)]
        self.check([("i", "int64", False), ("s", "text", False), ("d", "double", True), ("b", "bool", False)], rows,
                   group_rows=999, page_rows=100)
        if readers.pyarrow:
            import pyarrow.parquet as pq
            self.assertEqual(pq.ParquetFile(self.path).num_row_groups, 11)

    def test_int32_that_does_not_fit(self):
        said = write(self.path, [("n", "int32", False)], [(INT32,)])
        self.assertIn(f"column n: {INT32} does not fit into 32 bits", said)
        self.assertFalse(os.path.exists(self.path))

    def test_disk_full(self):
        said = write("/dev/full", [("n", "int64", False)], [(i * i * 7919 % 1000003,) for i in range(100000)])
        self.assertIn("/dev/full", said)
        self.assertIn("No space left", said)

    @unittest.skipUnless(readers.pyarrow, "needs pyarrow")
    def test_statistics_and_metadata(self):
        import pyarrow.parquet as pq
        rows = [(i - 50, None if i % 3 else "n%03d" % i, float("nan") if i == 9 else i / 4) for i in range(1000)]
        self.check([("i", "int64", False), ("s", "text", True), ("d", "double", False)], rows, group_rows=400, page_rows=64)
        file = pq.ParquetFile(self.path)
        self.assertEqual(file.metadata.metadata[b"made_by"], b"write_table")
        self.assertTrue(file.metadata.created_by.startswith("ckineto version "))
        for group in range(file.metadata.num_row_groups):
            part = rows[400 * group:400 * (group + 1)]
            for at, column in enumerate(zip(*part)):
                chunk = file.metadata.row_group(group).column(at)
                values = [v for v in column if v is not None and v == v]
                self.assertEqual((chunk.statistics.min, chunk.statistics.max), (min(values), max(values)))
                self.assertEqual(chunk.statistics.null_count, sum(v is None for v in column))
                self.assertTrue(chunk.has_column_index and chunk.has_offset_index)
        if readers.polars: # uses what the pages say
            frame = readers.polars.scan_parquet(self.path).filter(readers.polars.col("i") > 900).collect()
            self.assertEqual(len(frame), 49)

    @unittest.skipUnless(readers.duckdb, "needs duckdb")
    def test_queries_that_skip_row_groups(self):
        rows = [(i, "k%05d" % i + "x" * 70) for i in range(20000)]
        self.assertIsNone(write(self.path, [("i", "int64", False), ("s", "text", False)], rows, group_rows=1000, page_rows=100))
        with readers.duckdb.connect() as c:
            for i in (0, 999, 1000, 12345, 19999):
                self.assertEqual(c.execute(f"SELECT i FROM '{self.path}' WHERE s = ?", [rows[i][1]]).fetchall(), [(i,)])
                self.assertEqual(c.execute(f"SELECT s FROM '{self.path}' WHERE i = {i}").fetchall(), [(rows[i][1],)])

    def test_random(self):
        for seed in range(TABLES):
            rng = random.Random(seed)
            rows = rng.choice((0, 1, 7, 8, 9, 127, 128, 129, 130, 1000, 3000))
            columns, values = [], []
            for i in range(rng.randrange(1, 8)):
                kind = rng.choice(("bool", "int32", "int64", "time", "double", "text", "json"))
                optional = rng.random() < 0.6 and kind != "json"
                nulls = rng.choice((0, 0.01, 0.5, 0.99, 1)) if optional else 0
                columns.append((f"c{i}", kind, optional))
                values.append([None if rng.random() < nulls else v for v in random_values(rng, kind, rows)])
            with self.subTest(seed=seed):
                # pandas cannot hold nulls of integers exactly: fastparquet reads what is not optional
                only = None if not any(o for _, _, o in columns) else [r for r in readers.READERS if r != "fastparquet"]
                self.check(columns, list(zip(*values)), only=only, group_rows=rng.choice((0, 50, 128, 1000)),
                           page_rows=rng.choice((0, 1, 8, 100)))


def random_values(rng, kind, rows):
    """Values of one column: constant, of few kinds, sorted, smooth, or anything."""
    limit = INT32 if kind == "int32" else INT64
    style = rng.choice(("constant", "few", "sorted", "smooth", "any", "runs"))
    if kind == "bool":
        return [int(rng.random() < 0.3) for _ in range(rows)]
    if kind in ("text", "json"):
        letters = "ab\u00e9\u4e2d\0\U0001f600 \"'" if kind == "text" else "abc"
        make = lambda: "".join(rng.choice(letters) for _ in range(rng.choice((0, 1, 5, 30, 100))))
        pool = [make() for _ in range(rng.choice((1, 3, 50)))]
        texts = [rng.choice(pool) if style != "any" else make() for _ in range(rows)]
        return [json.dumps({"a": t}) for t in texts] if kind == "json" else texts
    if kind == "double":
        pool = [rng.choice((0.0, -0.0, float("inf"), rng.random(), rng.gauss(0, 1e9))) for _ in range(8)]
        return [rng.choice(pool) if style in ("few", "constant", "runs") else rng.gauss(0, 1) for _ in range(rows)]
    pool = [rng.randrange(-limit, limit) for _ in range(1 if style == "constant" else rng.choice((2, 9, 300)))]
    if style in ("constant", "few"):
        return [rng.choice(pool) for _ in range(rows)]
    if style == "runs":
        return [pool[(i // rng.choice((1, 7, 8, 9, 100))) % len(pool)] for i in range(rows)]
    if style == "any":
        return [rng.randrange(-limit, limit) for _ in range(rows)]
    if style == "sorted":
        return sorted(rng.randrange(limit // 2) for _ in range(rows))
    value, values = 0, []
    for _ in range(rows):
        value += rng.randrange(-1000, 5000)
        values.append(value)
    return values


if __name__ == "__main__":
    unittest.main()
