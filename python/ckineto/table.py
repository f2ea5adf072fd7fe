"""Tables: results of queries and analyses, and a trace as Arrow streams.

A table converts itself to pandas, polars and pyarrow where these are installed, and needs none of them.
"""
import ctypes as C
from collections.abc import Sequence
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import _functions, errors
from . import _structs as S


def import_pandas(what: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise errors.need_package("pandas", what) from error
    return pandas


def import_polars(what: str) -> Any:
    try:
        import polars
    except ImportError as error:
        raise errors.need_package("polars", what) from error
    return polars


def import_pyarrow(what: str, install: str = "pyarrow") -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise errors.need_package("pyarrow", what, install) from error
    return pyarrow


# ---- rows ----------------------------------------------------------------------------------------------


class Table(Sequence):
    """Rows with named columns. `table[0]` is a row as dict, `table["name"]` a column as list."""

    _SHOWN = 20

    def __init__(self, columns: List[str], rows: List[Tuple], title: str = "", note: str = "") -> None:
        self._columns = columns
        self._rows = rows
        self.title = title
        self.note = note

    @property
    def columns(self) -> List[str]:
        return self._columns

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> Tuple:
        """A row as a tuple, in the order of the columns."""
        return self._rows[index]

    def rows(self) -> List[Tuple]:
        """All rows as tuples."""
        return [self.row(i) for i in range(len(self))]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self.columns:
                raise KeyError("no column %r; there are %s" % (key, ", ".join(self.columns)))
            column = self.columns.index(key)
            return [row[column] for row in self.rows()]
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        if not -len(self) <= key < len(self):
            raise IndexError("row %d of %d" % (key, len(self)))
        return dict(zip(self.columns, self.row(key % len(self))))

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        columns = self.columns
        return (dict(zip(columns, self.row(i))) for i in range(len(self)))

    def to_dicts(self) -> List[Dict[str, Any]]:
        return list(self)

    def _columns_of_rows(self) -> Dict[str, List[Any]]:
        rows = self.rows()
        return {name: [row[i] for row in rows] for i, name in enumerate(self.columns)}

    def to_pandas(self) -> Any:
        """A pandas.DataFrame."""
        return import_pandas("to_pandas()").DataFrame(self._columns_of_rows(), columns=self.columns)

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        polars = import_polars("to_polars()")
        return polars.DataFrame(self._columns_of_rows(), strict=False, infer_schema_length=None)

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        return import_pyarrow("to_arrow()").table(self._columns_of_rows())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return "\n".join([self.title] * bool(self.title) + self._text_lines() + [self._footer()])

    def _text_lines(self) -> List[str]:
        shown = [[_cell_text(v) for v in self.row(i)] for i in range(min(len(self), self._SHOWN))]
        widths = [max([len(name)] + [len(row[i]) for row in shown])
                  for i, name in enumerate(self.columns)]
        lines = ["  ".join(name.ljust(w) for name, w in zip(self.columns, widths)).rstrip()]
        return lines + ["  ".join(t.ljust(w) for t, w in zip(row, widths)).rstrip() for row in shown]

    def _footer(self) -> str:
        return "(%d row%s%s)" % (len(self), "" if len(self) == 1 else "s",
                                 "; " + self.note if self.note else "")

    def _repr_html_(self) -> str:
        from . import notebook

        return notebook.table_html(self)


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    text = "%.6g" % value if isinstance(value, float) else str(value)
    text = text.replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."


class FactTable(Table):
    """A table of an analysis; its rows are read from the C library on demand."""

    def __init__(self, owner: Any, index: int) -> None:
        table, column = S.FactTable(), S.FactColumn()
        self._lib = _functions.full()
        self._owner, self._index = owner, index
        self._lib.kineto_analysis_table(owner._c, index, C.byref(table))
        columns = []
        for i in range(table.column_count):
            self._lib.kineto_analysis_column(owner._c, index, i, C.byref(column))
            columns.append(column.name.text())
        super().__init__(columns, [], table.title.decode(), table.note.text())
        self.name = table.name.decode()
        self._count = table.row_count

    def __len__(self) -> int:
        return self._count

    def row(self, index: int) -> Tuple:
        if not 0 <= index < self._count:
            raise IndexError("row %d of %d" % (index, self._count))
        fact, read, handle = S.Fact(), self._lib.kineto_analysis_fact, self._owner._c
        values = []
        for column in range(len(self._columns)):
            read(handle, self._index, index, column, C.byref(fact))
            values.append(_fact_value(fact))
        return tuple(values)


def _fact_value(fact: S.Fact) -> Any:
    """Times are in microseconds, as the names of their columns say."""
    if fact.is_none:
        return None
    if fact.type == 0:
        return fact.text.text()
    if fact.type == 1:
        return fact.i
    return fact.i / 1000 if fact.type == 2 else fact.d


# ---- Arrow ---------------------------------------------------------------------------------------------

_streams: Dict[int, S.ArrowStream] = {}  # streams that capsules own, by address


def _make_destructor() -> Any:
    """The destructor of a capsule. It uses nothing of the module, which may be gone by then."""
    get_pointer = C.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = C.c_void_p, (C.c_void_p, C.c_char_p)
    release_type = C.CFUNCTYPE(None, C.c_void_p)

    def destroy(capsule: int, streams: Any = _streams, get: Any = get_pointer,
                release_type: Any = release_type) -> None:
        stream = streams.pop(get(capsule, b"arrow_array_stream"), None)
        if stream is not None and stream.release:
            release_type(stream.release)(get(capsule, b"arrow_array_stream"))

    made = C.PYFUNCTYPE(None, C.c_void_p)(destroy)
    C.pythonapi.Py_IncRef(C.py_object(made))  # capsules may outlive this module
    return made


_destructor = _make_destructor()
_new_capsule = C.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = C.py_object, (C.c_void_p, C.c_char_p, C.c_void_p)


def make_stream(trace: int, name: str) -> S.ArrowStream:
    """A table of a trace as an Arrow stream, to be released by its consumer."""
    stream = S.ArrowStream()
    _functions.call(_functions.full().kineto_trace_arrow_stream, trace, _functions.text_of(name),
                    C.byref(stream))
    return stream


def make_capsule(trace: int, name: str) -> Any:
    """The stream as a PyCapsule of the Arrow PyCapsule interface."""
    stream = make_stream(trace, name)
    address = C.addressof(stream)
    _streams[address] = stream
    return _new_capsule(address, b"arrow_array_stream", C.cast(_destructor, C.c_void_p))


class ArrowTable:
    """A table of a trace that Arrow's consumers (pyarrow, polars, DuckDB, pandas) read without a copy.

    Names: activities, events, counters, tracks, processes, flows, ledger, metadata.
    """

    def __init__(self, trace: Any, name: str) -> None:
        self._trace = trace
        self.name = name
        make_capsule(trace._c, name)  # an unknown name is an error now, not later

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return make_capsule(self._trace._c, self.name)

    def to_arrow(self) -> Any:
        """A pyarrow.Table; its columns are the trace's own memory where the layout is the same."""
        pyarrow = import_pyarrow("to_arrow()")
        if hasattr(pyarrow.RecordBatchReader, "from_stream"):
            return pyarrow.RecordBatchReader.from_stream(self).read_all()
        stream = make_stream(self._trace._c, self.name)
        return pyarrow.RecordBatchReader._import_from_c(C.addressof(stream)).read_all()

    def to_pandas(self, **options: Any) -> Any:
        """A pandas.DataFrame, made by pyarrow; `options` go to pyarrow.Table.to_pandas."""
        import_pandas("to_pandas()")
        pyarrow = import_pyarrow("to_pandas() of a trace", "pandas pyarrow")
        try:
            return self.to_arrow().to_pandas(**options)
        except pyarrow.lib.ArrowTypeError:  # old versions know no unsigned dictionary indices
            return _encode_anew(pyarrow, self.to_arrow()).to_pandas(**options)

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        polars = import_polars("to_polars()")
        try:
            return polars.DataFrame(self)
        except TypeError:  # before polars 1.0 there is only the way through pyarrow
            import_pyarrow("to_polars() with this version of polars", "pyarrow")
            return polars.from_arrow(self.to_arrow())

    def __repr__(self) -> str:
        return "<ckineto.ArrowTable %r of %r>" % (self.name, self._trace)


def _encode_anew(pyarrow: Any, table: Any) -> Any:
    """The table with signed indices in dictionary columns."""
    for index, field in enumerate(table.schema):
        if pyarrow.types.is_dictionary(field.type):
            chunks = [chunk.dictionary_decode().dictionary_encode() for chunk in table[index].chunks]
            table = table.set_column(index, field.name, pyarrow.chunked_array(
                chunks, pyarrow.dictionary(pyarrow.int32(), field.type.value_type)))
    return table


# ---- queries ---------------------------------------------------------------------------------------------


class QueryResult(Table):
    """The result of `ckineto query`."""

    def __init__(self, rows: List[Dict[str, Any]], read_columns: Callable[[], List[str]]) -> None:
        names = list(rows[0]) if rows else None
        super().__init__(names or [], [tuple(row.values()) for row in rows])
        self._read_columns: Optional[Callable[[], List[str]]] = None if names else read_columns

    @property
    def columns(self) -> List[str]:
        if self._read_columns is not None:
            self._columns, self._read_columns = self._read_columns(), None
        return self._columns


def run_query(path: bytes, sql: str, memory_bytes: int = 0) -> QueryResult:
    """Run the bundled command: the SQL engine is not part of the C interface."""
    import json

    text = _ask(path, sql, "jsonl", memory_bytes)
    rows = [json.loads(line) for line in text.split("\n") if line]
    return QueryResult(rows, lambda: _columns_of(path, sql, memory_bytes))


def _columns_of(path: bytes, sql: str, memory_bytes: int) -> List[str]:
    import csv
    import io

    text = _ask(path, sql, "csv", memory_bytes)
    return next(csv.reader(io.StringIO(text, newline="")), [])


def _ask(path: bytes, sql: str, form: str, memory_bytes: int) -> str:
    import os
    import subprocess

    from . import _command

    command = [_command.find_command(), b"query", b"--format", form.encode()]
    if memory_bytes:
        command += [b"--mem", str(memory_bytes).encode()]
    # A recorder or controller of this process is not for the command.
    hidden = ("CKINETO_SESSION", "CKINETO_CONTROL", "CKINETO_RING", "KINETO_USE_DAEMON", "LD_PRELOAD")
    environment = {k: v for k, v in os.environ.items() if k not in hidden}
    done = subprocess.run(command + [b"-f", b"-", b"--", path], input=sql.encode(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        prefix = "ckineto: query: "
        message = message[len(prefix):] if message.startswith(prefix) else message
        raise errors.make_error(-1, message or "ckineto query failed with status %d"
                                % done.returncode)
    return done.stdout.decode("utf-8", "replace")
