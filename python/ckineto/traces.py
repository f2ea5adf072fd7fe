"""A trace: opened from files or recorded, immutable, shared with the C library without a copy."""
import ctypes as C
import json
import os
import weakref
from collections.abc import Sequence
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import _functions, errors
from . import _base as B
from . import _structs as S
from ._handles import Handle
from .analysis import Analysis, Diff, Findings, analyze, diff, find, step_range
from .table import ArrowTable, QueryResult, make_capsule, run_query

_FORMS = ("slice", "async", "instant", "counter")
_TRACK_TYPES = ("thread", "stream", "counter", "async", "other")
_LONG_WORK_S = 1.0


# ---- parts of a trace ------------------------------------------------------------------------------------


class Process(NamedTuple):
    """A process, or a device."""

    index: int  # type: ignore[assignment]
    is_device: bool
    pid: int
    ppid: int
    name: str
    label: str
    rank: Optional[int]
    host: str
    properties: Dict[str, Any]


class Track(NamedTuple):
    """A row of the timeline: a thread, a stream of a device, a counter."""

    index: int  # type: ignore[assignment]
    process: int
    type: str
    id: int
    name: str
    count: int  # type: ignore[assignment]
    lanes: int


class Flow(NamedTuple):
    """An arrow between two activities; None where that end was not recorded."""

    type: int
    id: int
    from_row: Optional[int]
    to_row: Optional[int]


class LedgerLine(NamedTuple):
    """The fate of the events of a source: delivered, lost, and why."""

    source: str
    reason: str
    count: int  # type: ignore[assignment]
    is_loss: bool
    detail: str


class Repair(NamedTuple):
    """Something in the text of a trace that was repaired when it was read."""

    kind: str
    text: str
    offset: int
    bytes: int
    is_loss: bool


def arg_value(arg: S.Arg) -> Any:
    """The value of an argument as Python has it."""
    if arg.type == B.ARG_INT:
        return arg.i
    if arg.type == B.ARG_UINT:
        return arg.u
    if arg.type == B.ARG_DOUBLE:
        return arg.d
    if arg.type == B.ARG_BOOL:
        return bool(arg.u)
    text = arg.text.text()
    if arg.type == B.ARG_STRING:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


class Activity:
    """One activity of a trace: its name, time and track. Times are nanoseconds since the Unix epoch."""

    __slots__ = ("_trace", "_view")

    def __init__(self, trace: "Trace", row: int) -> None:
        self._trace = trace
        self._view = S.Activity()
        trace._lib.kineto_trace_get(trace._c, row, C.byref(self._view))

    @property
    def row(self) -> int:
        return self._view.row

    @property
    def name(self) -> str:
        return self._trace._name(self._view)

    @property
    def start_ns(self) -> int:
        return self._view.start_ns

    @property
    def end_ns(self) -> int:
        return self._view.end_ns

    @property
    def duration_ns(self) -> int:
        return self._view.end_ns - self._view.start_ns

    @property
    def self_ns(self) -> int:
        """The duration less that of the activities inside."""
        return self._trace._lib.kineto_trace_self_ns(self._trace._c, self._view.row)

    @property
    def kind(self) -> str:
        return kind_name(self._view.kind)

    @property
    def category(self) -> str:
        return self._trace._string(self._view.category)

    @property
    def form(self) -> str:
        return _FORMS[self._view.form] if self._view.form < len(_FORMS) else "other"

    @property
    def flags(self) -> int:
        return self._view.flags

    @property
    def track(self) -> Track:
        return self._trace.tracks[self._view.track]

    @property
    def correlation_id(self) -> int:
        return self._view.correlation_id

    @property
    def external_id(self) -> int:
        return self._view.external_id

    @property
    def args(self) -> Dict[str, Any]:
        """Arguments by name, read on first use."""
        return self._trace._args(self._view.row)

    @property
    def parent(self) -> Optional["Activity"]:
        """The smallest activity of the same lane around this one."""
        return self._related(self._trace._lib.kineto_trace_parent)

    @property
    def launch(self) -> Optional["Activity"]:
        """The call that launched this work of a device."""
        return self._related(self._trace._lib.kineto_trace_launch)

    @property
    def launched(self) -> Optional["Activity"]:
        """The first work of a device that this call launched."""
        return self._related(self._trace._lib.kineto_trace_launched)

    def _related(self, function: Any) -> Optional["Activity"]:
        row = function(self._trace._c, self._view.row)
        return None if row == S.NO_ROW else Activity(self._trace, row)

    def __repr__(self) -> str:
        return "<Activity %d %r %s %.3f us>" % (self.row, self.name, self.kind, self.duration_ns / 1e3)


_kind_names: Dict[int, str] = {}


def kind_name(kind: int) -> str:
    """ "kernel" """
    if kind not in _kind_names:
        _kind_names[kind] = _functions.rt().kineto_kind_name(kind).decode()
    return _kind_names[kind]


class Activities(Sequence):
    """The activities of a trace in order of arrival. Objects are created on demand; for many of them
    `Trace.to_pandas` and `Trace.query` are faster."""

    def __init__(self, trace: "Trace") -> None:
        self._trace = trace

    def __len__(self) -> int:
        return self._trace._count

    def __getitem__(self, key: Any) -> Any:
        count = self._trace._count
        if isinstance(key, slice):
            return [Activity(self._trace, row) for row in range(*key.indices(count))]
        if not -count <= key < count:
            raise IndexError("activity %d of %d" % (key, count))
        return Activity(self._trace, key % count)

    def __iter__(self) -> Iterator[Activity]:
        trace = self._trace
        return (Activity(trace, row) for row in range(trace._count))


# ---- the trace -------------------------------------------------------------------------------------------


class Trace(Handle):
    """A trace. `len(trace)` is the number of its activities, `for activity in trace` goes through them.

    It is an Arrow stream of the table "events" for anything that takes one: pyarrow.table(trace),
    polars.DataFrame(trace), duckdb.sql("SELECT … FROM trace").
    """

    def __init__(self, handle: int, path: Optional[str] = None, memory_bytes: int = 0) -> None:
        self._lib = _functions.full()
        super().__init__(handle, self._lib.kineto_trace_release)
        self._count = int(self._lib.kineto_trace_count(handle))
        self._path = path
        self._stamp = _file_stamp(path)
        self._memory_bytes = memory_bytes
        self._names: Dict[int, str] = {}
        self._tracks: Optional[List[Track]] = None
        self._copy: Any = None
        self._copy_path = b""

    @property
    def path(self) -> Optional[str]:
        """The file that it was read from."""
        return self._path

    def __len__(self) -> int:
        return self._count if self._c else 0  # raises if it is closed

    def __bool__(self) -> bool:
        return True

    @property
    def events(self) -> Activities:
        return Activities(self)

    def __iter__(self) -> Iterator[Activity]:
        return iter(self.events)

    def __getitem__(self, key: Any) -> Any:
        return self.events[key]

    # ---- contents

    def _name(self, view: S.Activity) -> str:
        name = self._names.get(view.name_id)
        if name is None:
            _ = self._c  # an error once it is closed: the view borrows from the trace
            name = self._names[view.name_id] = view.name.text()
        return name

    def _string(self, string_id: int) -> str:
        return self._lib.kineto_trace_string(self._c, string_id).text()

    def _args(self, row: int) -> Dict[str, Any]:
        iterator, arg, args = S.ArgsIterator(), S.Arg(), {}
        self._lib.kineto_args_begin(self._c, row, C.byref(iterator))
        while self._lib.kineto_args_next(C.byref(iterator), C.byref(arg)):
            args[arg.key.text()] = arg_value(arg)
        return args

    @property
    def processes(self) -> List[Process]:
        """Processes and devices."""
        p, out = S.Process(), []
        for index in range(self._lib.kineto_trace_process_count(self._c)):
            self._lib.kineto_trace_process(self._c, index, C.byref(p))
            out.append(Process(index, p.is_device, p.pid, p.ppid, p.name.text(), p.label.text(),
                               None if p.rank < 0 else p.rank, p.host.text(),
                               _json_object(p.properties_json.text())))
        return out

    @property
    def tracks(self) -> List[Track]:
        """Threads, streams, counters."""
        if self._tracks is None:
            t, out = S.Track(), []
            for index in range(self._lib.kineto_trace_track_count(self._c)):
                self._lib.kineto_trace_track(self._c, index, C.byref(t))
                out.append(Track(index, t.process, _TRACK_TYPES[min(t.type, 4)], t.id, t.name.text(),
                                 t.count, t.lane_count))
            self._tracks = out
        return self._tracks

    @property
    def flows(self) -> List[Flow]:
        """Arrows between activities."""
        f, out = S.Flow(), []
        for index in range(self._lib.kineto_trace_flow_count(self._c)):
            self._lib.kineto_trace_flow(self._c, index, C.byref(f))
            out.append(Flow(f.type, f.id, None if f.from_ == S.NO_ROW else f.from_,
                            None if f.to == S.NO_ROW else f.to))
        return out

    @property
    def ledger(self) -> List[LedgerLine]:
        """Events delivered and lost, by source and reason."""
        line, out = S.LedgerLine(), []
        for index in range(self._lib.kineto_trace_ledger_count(self._c)):
            self._lib.kineto_trace_ledger(self._c, index, C.byref(line))
            out.append(LedgerLine(line.source.text(), line.reason.text(), line.count, line.is_loss,
                                  line.detail.text()))
        return out

    @property
    def lost(self) -> int:
        """How many events are missing, by the ledger."""
        return int(self._lib.kineto_trace_lost(self._c))

    @property
    def metadata(self) -> Dict[str, Any]:
        """The header of the trace."""
        key, value, out = S.String(), S.String(), {}
        for index in range(self._lib.kineto_trace_metadata_count(self._c)):
            self._lib.kineto_trace_metadata(self._c, index, C.byref(key), C.byref(value))
            out[key.text()] = _json_value(value.text())
        return out

    @property
    def repairs(self) -> List[Repair]:
        """Repairs of the text that the trace was read from: the first few thousand."""
        r, out = S.Repair(), []
        for index in range(self._lib.kineto_trace_repair_count(self._c)):
            self._lib.kineto_trace_repair(self._c, index, C.byref(r))
            out.append(Repair(r.kind.text(), r.text.text(), r.offset, r.bytes, r.is_loss))
        return out

    @property
    def window(self) -> Tuple[int, int]:
        """Beginning and end of the recording, nanoseconds since the Unix epoch."""
        start, end = C.c_int64(), C.c_int64()
        self._lib.kineto_trace_window(self._c, C.byref(start), C.byref(end))
        return start.value, end.value

    @property
    def duration_ns(self) -> int:
        start, end = self.window
        return end - start

    # ---- as tables

    def table(self, name: str) -> ArrowTable:
        """A table for Arrow's consumers: activities (with args as JSON), events (the same without),
        counters, tracks, processes, flows, ledger, metadata."""
        return ArrowTable(self, name)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return make_capsule(self._c, "events")

    def to_arrow(self, table: str = "events") -> Any:
        """A pyarrow.Table of one of the tables: see `table`."""
        return self.table(table).to_arrow()

    def to_pandas(self, table: str = "events", **options: Any) -> Any:
        """A pandas.DataFrame of one of the tables: see `table`. Needs pandas and pyarrow."""
        return self.table(table).to_pandas(**options)

    def to_polars(self, table: str = "events") -> Any:
        """A polars.DataFrame of one of the tables: see `table`. Needs polars."""
        return self.table(table).to_polars()

    def query(self, sql: str) -> QueryResult:
        """Query in SQL: see docs/reference/query.md for tables and functions. Rows are dicts; the result converts
        itself to pandas, polars and pyarrow. The bundled command runs the query: of a recorded trace, or one
        whose file has changed, it reads a copy, in which rows may be numbered in another order."""
        return run_query(self._queryable_path(), sql, self._memory_bytes)

    def _queryable_path(self) -> bytes:
        """A file with this trace: the one it was read from, if that has not changed, else a copy."""
        handle = self._c
        if self._path and self._stamp and _file_stamp(self._path) == self._stamp:
            return os.fsencode(os.path.abspath(self._path))
        if self._copy is None:
            import shutil
            import tempfile

            folder = tempfile.mkdtemp(prefix="ckineto-")
            self._copy = weakref.finalize(self, shutil.rmtree, folder, True)
            self._copy_path = os.fsencode(os.path.join(folder, "trace.json"))
            _functions.call(self._lib.kineto_trace_save, handle, self._copy_path)
        return self._copy_path

    def close(self) -> None:
        super().close()
        if self._copy is not None:
            self._copy()

    # ---- analyses

    def analyze(self, *names: str, **options: Any) -> Analysis:
        """Tables of facts by name; without names all but those that list every event. Options: steps
        ("all", "drop_last", 3, (3, 5)), streams, definitions ("exact", "hta"), rules, threads, rank,
        annotation, instance, series, execution_trace, memory_timeline, step_pattern."""
        return analyze(self, names, **options)

    def findings(self, rules: Any = None, evidence: int = 0, **options: Any) -> Findings:
        """Findings: bottlenecks, estimated savings and advice. Options as in `analyze`."""
        return find(self, rules, evidence, **options)[0]

    def diff(self, other: "Trace", **options: Any) -> Diff:
        """The differences from this trace to another one: tables of facts, and gates. Options: shapes,
        medians, findings, draws, seed, devices, short_names, and those of `analyze`."""
        if not isinstance(other, Trace):
            raise errors.make_error(-1, "diff: another trace is needed, not %r: ckineto.open(path) reads one" % (other,))
        return diff(self, other, **options)

    def function_events(self) -> Any:
        """Function events as PyTorch's events() lists them, of any trace: a `summary.EventList`."""
        from .summary import events_of_trace

        return events_of_trace(self)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     **options: Any) -> Any:
        """The cost of each function, as in PyTorch's key_averages(): `.table()` prints it."""
        return self.function_events().key_averages(group_by_input_shape, group_by_stack_n, **options)

    def report(self, path: Any = None, title: Optional[str] = None, before: Optional["Trace"] = None,
               row_limit: int = 0, activity_limit: int = 0) -> Any:
        """Everything as one HTML page that needs nothing else: written to `path`, or shown in a
        notebook. `before` is a trace to compare with."""
        from .report import Report, write_report

        if path is None:
            return Report(self, title, before, row_limit, activity_limit)
        write_report(self, path, title, before, row_limit, activity_limit)
        return path

    # ---- parts and files

    def select(self, **choice: Any) -> "Trace":
        """A trace of the activities that meet all given conditions: time=(start_ns, end_ns),
        clip=True, steps=3 or (3, 5), rank, pid, kinds ("kernel,runtime"), name (a regular expression),
        track, min_duration_ns, top, top_per ("trace", "kind", "track", "name"), under, around, after,
        before (regular expressions), launches=True, parents=True."""
        selection = _make_selection(choice)
        return Trace(_functions.make(self._lib.kineto_trace_select, self._c, C.byref(selection)))

    def save(self, path: Any, format: Optional[str] = None, progress: bool = True) -> Any:
        """Write it; the format follows the ending of the path (".json.gz", ".pftrace", ".csv",
        ".sqlite" …) unless given. The file appears whole or not at all. @return the path."""
        options = S.ExportOptions(format=_functions.text_of(format))
        with _Progress("writing", progress) as bar:
            options.progress = bar.write_callback
            _functions.call(self._lib.kineto_trace_export, self._c, _functions.path_of(path),
                            C.byref(options), None)
        return path

    def __repr__(self) -> str:
        if self.closed:
            return "<ckineto.Trace (closed)>"
        lost = ", %d lost" % self.lost if self.lost else ""
        return "<ckineto.Trace %s%d activities, %.6g s%s>" % (
            repr(self._path) + " " if self._path else "", self._count, self.duration_ns / 1e9, lost)

    def _repr_html_(self) -> str:
        from . import notebook

        return notebook.trace_html(self)


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _json_object(text: str) -> Dict[str, Any]:
    value = _json_value(text) if text else {}
    return value if isinstance(value, dict) else {}


def _file_stamp(path: Optional[str]) -> Optional[Tuple[int, int, int]]:
    """Identifies the content of a file; None if it cannot be read."""
    try:
        status = os.stat(path) if path else None
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if status else None


_SELECT_TEXTS = ("name", "track", "under", "around", "after", "before")
_SELECT_NUMBERS = ("min_duration_ns", "top")


def _make_selection(choice: Dict[str, Any]) -> S.Selection:
    selection, left = S.Selection(), dict(choice)
    for key in _SELECT_TEXTS:
        setattr(selection, key, _functions.text_of(left.pop(key, None)))
    for key in _SELECT_NUMBERS:
        setattr(selection, key, left.pop(key, 0))
    _select_places(selection, left)
    per = left.pop("top_per", "trace")
    if per not in S.TOP_PER:
        raise errors.make_error(-1, "top_per: unknown %r; use trace, kind, track or name" % (per,))
    selection.top_per = S.TOP_PER[per]
    for key, bit in (("clip", S.SELECT_CLIP), ("launches", S.SELECT_LAUNCHES),
                     ("parents", S.SELECT_PARENTS)):
        selection.use |= bit if left.pop(key, False) else 0
    if left:
        raise TypeError("select() got an unexpected keyword argument %r" % next(iter(left)))
    return selection


def _select_places(selection: S.Selection, left: Dict[str, Any]) -> None:
    """Times, steps, ranks, processes and kinds."""
    time, steps = left.pop("time", None), left.pop("steps", None)
    rank, pid, kinds = left.pop("rank", None), left.pop("pid", None), left.pop("kinds", None)
    if time is not None:
        low, high = time
        selection.use |= S.SELECT_TIME
        selection.start_ns = -(1 << 63) if low is None else low
        selection.end_ns = (1 << 63) - 1 if high is None else high
    if steps is not None:
        selection.use |= S.SELECT_STEPS
        selection.first_step, selection.last_step = step_range(steps)
    if rank is not None:
        selection.use |= S.SELECT_RANK
        selection.rank = rank
    if pid is not None:
        selection.use |= S.SELECT_PROCESS
        selection.pid = pid
    if kinds is not None:
        selection.kinds = parse_kinds(kinds)


def parse_kinds(kinds: Any) -> int:
    """A mask of kinds: "kernel,runtime", ["kernel"], "default", "all"."""
    text = kinds if isinstance(kinds, str) else ",".join(kinds)
    mask = C.c_uint64()
    _functions.call(_functions.rt().kineto_kinds_parse, _functions.text_of(text), C.byref(mask))
    return mask.value


# ---- opening ---------------------------------------------------------------------------------------------


class _Progress:
    """A bar of tqdm for work that takes longer than a second; nothing where tqdm is not installed."""

    def __init__(self, what: str, wanted: bool = True) -> None:
        self._what, self._wanted, self._bar = what, wanted, None
        self.write_callback = S.WRITE_PROGRESS(lambda done, total, user: self._show(done, total, ""))
        self.open_callback = S.OPEN_PROGRESS(
            lambda index, count, path, user: self._show(index, count, os.fsdecode(path or b"")))

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def _show(self, done: int, total: int, detail: str) -> None:
        try:
            if self._bar is None and self._wanted:
                from tqdm.auto import tqdm

                self._bar = tqdm(total=total, desc="ckineto: " + self._what, delay=_LONG_WORK_S,
                                 leave=False, unit_scale=True)
            if self._bar is not None:
                self._bar.set_postfix_str(os.path.basename(detail), refresh=False)
                self._bar.update(done - self._bar.n)
        except Exception:
            self._wanted = False  # without a bar, the work goes on


_TS_UNITS_NS = {"ns": 1, "us": 1000, "ms": 1000000, "s": 1000000000}


def open(path: Any, memory_limit: Any = None, threads: Optional[int] = None, strict: bool = False,
         rank: Optional[int] = None, progress: bool = True, ts_unit: str = "us", align: bool = True) -> Trace:
    """Read a trace of ckineto, Kineto or PyTorch, plain or compressed. Several paths, or a directory,
    become one trace with a process for each rank. Facts files, files of runs and directories of them
    (`ckineto facts`, `ckineto reduce`) become `Facts`, which answer what comparing ranks needs.

    memory_limit  bytes, or "2G": beyond it, data that grows with the trace goes to a temporary file
    threads       number of reading threads; the trace is the same with any number
    strict        refuse broken files instead of repairing them as far as that is certain
    rank          read the files of one rank only
    ts_unit       what "ts" and "dur" of the file count: "ns", "us" (as the format has it), "ms" or "s"
    align         put files of several hosts on one clock, by the ends of collectives; `Trace.ledger` says how well
    """
    if ts_unit not in _TS_UNITS_NS:
        raise ValueError(f"ts_unit must be one of {', '.join(_TS_UNITS_NS)}, not {ts_unit!r}")
    limit = _functions.parse_bytes(memory_limit, "memory_limit")
    options = S.OpenOptions(threads=threads or 0, memory_bytes=limit, strict=strict,
                            ts_unit_ns=_TS_UNITS_NS[ts_unit])
    several = not isinstance(path, (str, bytes, os.PathLike))
    from .facts import are_facts, open_facts

    paths = list(path) if several else [path]
    if are_facts(paths):
        if rank is not None:
            raise errors.make_error(-1, "open: rank needs the traces themselves, not their facts")
        return open_facts(paths, limit)
    if several or rank is not None or os.path.isdir(path):
        return _open_many(paths, options, rank, limit, progress, align)
    handle = _functions.make(_functions.full().kineto_trace_open_with, _functions.path_of(path),
                             C.byref(options))
    trace = Trace(handle, os.fsdecode(path), limit)
    if ts_unit != "us":
        trace._stamp = None  # queries go to a copy: the file would be read in microseconds
    return trace


def _open_many(paths: List[Any], options: S.OpenOptions, rank: Optional[int], limit: int,
               progress: bool, align: bool) -> Trace:
    array = (C.c_char_p * max(len(paths), 1))(*[_functions.path_of(path) for path in paths])
    many = S.OpenManyOptions(open=C.pointer(options), only_rank=rank is not None, rank=rank or 0, align=align)
    with _Progress("reading", progress and len(paths) > 0) as bar:
        many.progress = bar.open_callback
        handle = _functions.make(_functions.full().kineto_trace_open_many, array, len(paths),
                                 C.byref(many))
    return Trace(handle, None, limit)
