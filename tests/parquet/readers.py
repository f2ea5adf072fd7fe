"""Programs that read Parquet, as far as they are installed: each as a function from a path to columns as lists. Times
are integers of nanoseconds since the epoch, texts are str."""
import importlib
import math


def find(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


pyarrow, duckdb, polars, fastparquet, chdb = (find(n) for n in ("pyarrow", "duckdb", "polars", "fastparquet", "chdb"))


def by_pyarrow(path, times):
    import pyarrow.parquet
    table = pyarrow.parquet.ParquetFile(path).read()
    columns = {}
    for name in table.column_names:
        column = table[name]
        if name in times:
            column = column.cast(pyarrow.int64())
        columns[name] = column.to_pylist()
    return columns


def by_duckdb(path, times):
    with duckdb.connect() as connection:
        names = [r[0] for r in connection.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
        # of a timestamp in UTC with nanoseconds; older versions read microseconds
        parts = ", ".join(f'epoch_ns("{n}") AS "{n}"' if n in times else f'"{n}"' for n in names)
        rows = connection.execute(f"SELECT {parts} FROM read_parquet('{path}', file_row_number = true) ORDER BY file_row_number").fetchall()
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def by_polars(path, times):
    frame = polars.read_parquet(path)
    return {name: (frame[name].cast(polars.Int64) if name in times else frame[name]).to_list() for name in frame.columns}


def by_fastparquet(path, times):
    with open(path, "rb") as file:
        frame = fastparquet.ParquetFile(file).to_pandas()
    columns = {}
    for name in frame.columns:
        values = frame[name]
        if name in times:
            values = [None if v != v else v.value for v in values]
        columns[name] = [None if v is None or v is not v and v != v else v for v in values]
    return columns


READERS = {name: function for name, module, function in (
    ("pyarrow", pyarrow, by_pyarrow), ("duckdb", duckdb, by_duckdb), ("polars", polars, by_polars),
    ("fastparquet", fastparquet, by_fastparquet)) if module}


def is_same(one, other):
    """Equal, where NaN equals NaN, and the sign of a zero counts."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isnan(one) and math.isnan(other) or one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other and isinstance(one, bool) == isinstance(other, bool)
