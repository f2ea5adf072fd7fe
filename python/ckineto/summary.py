"""Function events and averages, with the names that PyTorch's profiler gives them.

Everything is computed by the C library; the objects here read it on demand. Times are
microseconds, as in PyTorch; those of events count from the beginning of the recording.
"""
import ctypes as C
import json
from collections.abc import Sequence
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from . import _functions, errors
from . import _structs as S
from ._handles import Handle
from .activities import DeviceType, device_type

_METRICS = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total")
_WHOLE_STACK = 10000
_SIZES = ("cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
          "self_device_memory_usage")


class Kernel(NamedTuple):
    """Work of a device that an operator caused."""

    name: str
    device: int
    duration: float


class Interval(NamedTuple):
    """Beginning and end in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        return self.end - self.start


def time_text(time_us: float) -> str:
    """ "1.500ms" """
    if time_us >= 1e6:
        return "%.3fs" % (time_us / 1e6)
    return "%.3fms" % (time_us / 1e3) if time_us >= 1e3 else "%.3fus" % time_us


class _Numbers:
    """Attributes that functions and groups of them share; `_view` is the C struct."""

    _view: Any
    _owner: Any
    count: Any
    # Microseconds, and the same as text; set below.
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float
    cpu_time_str: str
    device_time_str: str
    cpu_time_total_str: str
    self_cpu_time_total_str: str
    device_time_total_str: str
    self_device_time_total_str: str
    # Bytes, less what was released.
    cpu_memory_usage: int
    self_cpu_memory_usage: int
    device_memory_usage: int
    self_device_memory_usage: int

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def is_async(self) -> bool:
        return bool(self._view.flags & S.FUNCTION_ASYNC)

    @property
    def is_legacy(self) -> bool:
        return bool(self._view.flags & S.FUNCTION_LEGACY)

    @property
    def is_user_annotation(self) -> bool:
        return bool(self._view.flags & S.FUNCTION_ANNOTATION)

    @property
    def is_python_function(self) -> bool:
        return bool(self._view.flags & S.FUNCTION_PYTHON)

    @property
    def device_type(self) -> Any:
        return device_type(self._view.device_type)

    def _text_of(self, member: str) -> str:
        """A text of the view, which borrows from its owner: an error once that is closed."""
        return self._owner._c and getattr(self._view, member).text()

    @property
    def key(self) -> str:
        return self._text_of("name")

    @property
    def overload_name(self) -> str:
        return self._text_of("overload")

    is_remote = False
    node_id = -1


def _add_numbers(cls: Any) -> None:
    def make_time(name: str) -> property:
        return property(lambda self: getattr(self._view, name + "_ns") / 1000)

    def make_text(name: str) -> property:
        return property(lambda self: time_text(getattr(self, name)))

    for name in _METRICS:
        setattr(cls, name, make_time(name))
        setattr(cls, name + "_str", make_text(name))
    for name in ("cpu_time", "device_time"):
        setattr(cls, name + "_str", make_text(name))
    def make_size(name: str) -> property:
        return property(lambda self: getattr(self._view, name))

    def make_alias(name: str) -> property:
        return property(lambda self: getattr(self, name))

    for name in _SIZES:
        setattr(cls, name, make_size(name))
    for name in _METRICS[2:] + _SIZES[2:] + ("device_time",):  # older names of the same
        setattr(cls, name.replace("device", "cuda"), make_alias(name))


_add_numbers(_Numbers)


# ---- events ----------------------------------------------------------------------------------------------


def _json_of(text: S.String) -> Any:
    try:
        return json.loads(text.bytes() or b"null")
    except ValueError:
        return None


class FunctionEvent(_Numbers):
    """One function: PyTorch's FunctionEvent."""

    count = 1

    def __init__(self, owner: "EventList", index: int) -> None:
        self._owner = owner
        self._index = index
        self._view = S.FunctionEvent()
        owner._lib.kineto_function_events_get(owner._c, index, C.byref(self._view))
        self._event: Any = None

    @property
    def id(self) -> int:
        return self._read("correlation_id") if self._is_device else self._read("external_id")

    @property
    def _is_device(self) -> bool:
        return bool(self._view.flags & S.FUNCTION_DEVICE)

    def _read(self, accessor: str) -> Any:
        """A property of the activity: kineto_event_NAME."""
        if self._event is None:
            self._event = S.Event()
            self._owner._lib.kineto_event_of(self._owner._trace._c, self._view.row,
                                             C.byref(self._event))
        return getattr(self._owner._lib, "kineto_event_" + accessor)(C.byref(self._event))

    @property
    def name(self) -> str:
        return self.key

    @property
    def trace_name(self) -> str:
        return self._text_of("trace_name")

    @property
    def time_range(self) -> Interval:
        base = self._owner._base_ns
        return Interval((self._view.start_ns - base) / 1000, (self._view.end_ns - base) / 1000)

    @property
    def thread(self) -> int:
        """PyTorch's number of the thread; the system's for threads that ran no operator."""
        return self._read("start_thread_id") or (
            0 if self._is_device else self._read("device_resource_id"))

    @property
    def fwd_thread(self) -> Optional[int]:
        return self._read("fwd_thread_id") or None

    @property
    def sequence_nr(self) -> int:
        return self._read("sequence_nr")

    @property
    def scope(self) -> int:
        return self._read("scope")

    @property
    def input_shapes(self) -> List[List[int]]:
        return _json_of(self._read("shapes")) or []

    @property
    def concrete_inputs(self) -> List[Any]:
        return _json_of(self._read("concrete_inputs")) or []

    @property
    def input_dtypes(self) -> List[str]:
        return _json_of(self._read("dtypes")) or []

    @property
    def kwinputs(self) -> Dict[str, Any]:
        from .traces import arg_value

        arg, out, number = S.Arg(), {}, 0
        self._read("has_kwinputs")  # fills the view of the activity
        while self._owner._lib.kineto_event_kwinput(C.byref(self._event), number, C.byref(arg)):
            out[arg.key.text()] = arg_value(arg)
            number += 1
        return out

    @property
    def stack(self) -> List[str]:
        """Frames, the innermost first: those that the trace gives, else the functions of Python around."""
        return self._owner._stack_of(self._index)

    @property
    def module_hierarchy(self) -> str:
        return self._read("module_hierarchy").text()

    @property
    def flops(self) -> int:
        return self._read("flops")

    @property
    def external_id(self) -> int:
        return self._read("external_id")

    @property
    def linked_correlation_id(self) -> int:
        return self._read("linked_correlation_id")

    @property
    def device_index(self) -> int:
        return self._view.device_index if self._is_device else self._read("device_index")

    @property
    def device_resource_id(self) -> int:
        return self._read("device_resource_id")

    @property
    def use_device(self) -> Optional[str]:
        return self._owner.use_device

    @property
    def args(self) -> Dict[str, Any]:
        """All arguments of the activity."""
        return self._owner._trace._args(self._view.row)

    @property
    def kernels(self) -> List[Kernel]:
        """Work of the device that this function caused itself."""
        if self._is_device:
            return []
        return [Kernel(e.name, e.device_index, (e._view.end_ns - e._view.start_ns) / 1000)
                for e in self._walk(self._view.kernel, lambda view: view.kernel)]

    @property
    def cpu_parent(self) -> Optional["FunctionEvent"]:
        return None if self._view.parent == S.NO_EVENT else self._owner[self._view.parent]

    @property
    def cpu_children(self) -> List["FunctionEvent"]:
        return list(self._walk(self._view.first_child, lambda view: view.next_sibling))

    def _walk(self, index: int, following: Callable[[Any], int]) -> Iterator["FunctionEvent"]:
        while index != S.NO_EVENT:
            event = self._owner[index]
            yield event
            index = following(event._view)

    def __eq__(self, other: Any) -> bool:
        return (isinstance(other, FunctionEvent) and other._owner is self._owner
                and other._index == self._index)

    def __hash__(self) -> int:
        return hash((id(self._owner), self._index))

    def __repr__(self) -> str:
        return "<FunctionEvent id=%s name=%s device_type=%s start_us=%.3f end_us=%.3f cpu_time=%s " \
               "input_shapes=%s>" % (self.id, self.name, self.device_type, *self.time_range,
                                     self.cpu_time_str, self.input_shapes)


class _Summary(Handle, Sequence):
    """Tables, for lists of events and of groups."""

    def _averages_handle(self) -> int:
        raise NotImplementedError

    def table(self, sort_by: Optional[str] = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80,
              header: Optional[str] = None, top_level_events_only: bool = False,
              time_unit: Optional[str] = None) -> str:
        """The table as text, as PyTorch prints it."""
        return self._text(0, sort_by, row_limit, max_src_column_width, max_name_column_width,
                          max_shapes_column_width, header, top_level_events_only, time_unit)

    def to_csv(self, sort_by: Optional[str] = None, row_limit: int = -1) -> str:
        """All numbers as CSV, times in nanoseconds."""
        return self._text(1, sort_by, row_limit)

    def to_dicts(self, sort_by: Optional[str] = None, row_limit: int = -1) -> List[Dict[str, Any]]:
        """All numbers, a dict for each row, times in nanoseconds."""
        return json.loads(self._text(2, sort_by, row_limit))

    def to_pandas(self, sort_by: Optional[str] = None) -> Any:
        """A pandas.DataFrame of `to_dicts`."""
        from .table import import_pandas

        return import_pandas("to_pandas()").DataFrame(self.to_dicts(sort_by))

    def _text(self, form: int, sort_by: Optional[str], row_limit: int, source_width: int = 75,
              name_width: int = 55, shapes_width: int = 80, header: Optional[str] = None,
              top_level: bool = False, time_unit: Optional[str] = None) -> str:
        unit, out, size = C.c_uint32(), C.c_void_p(), C.c_size_t()
        lib = _functions.full()
        if time_unit is not None and not lib.kineto_time_unit_parse(
                _functions.text_of(time_unit), C.byref(unit)):
            raise errors.make_error(-1, "time_unit: unknown %r; use s, ms or us" % time_unit)
        options = S.TableOptions(
            format=form, time_unit=unit.value, sort_by=_functions.text_of(sort_by),
            header=_functions.text_of(header), row_limit=_limit(row_limit),
            max_name_width=_width(name_width), max_shapes_width=_width(shapes_width),
            max_source_width=_width(source_width), top_level_events_only=top_level)
        _functions.call(lib.kineto_averages_text, self._averages_handle(), C.byref(options),
                        C.byref(out), C.byref(size))
        try:
            return C.string_at(out, size.value).decode("utf-8", "replace")
        finally:
            _functions.free(out)

    def total_average(self) -> "FunctionEventAvg":
        """All functions as one, with the name "Total"."""
        view = S.Average()
        _functions.full().kineto_averages_total(self._averages_handle(), C.byref(view))
        return FunctionEventAvg(self, S.NO_EVENT, view)

    @property
    def self_cpu_time_total(self) -> float:
        return self.total_average().self_cpu_time_total

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from . import notebook

        return notebook.text_html(self.table(sort_by="self_cpu_time_total", row_limit=30))


def _width(width: Optional[int]) -> int:
    """None: unlimited, as in PyTorch."""
    return 0xFFFFFFFF if width is None else max(width, 1)


def _limit(rows: int) -> int:
    """The C library takes 0 for its default."""
    return 1 if rows == 0 else rows


class EventList(_Summary):
    """Function events in the order of their starts: PyTorch's EventList. Objects are created on demand."""

    def __init__(self, handle: int, trace: Any, base_ns: int) -> None:
        self._lib = _functions.full()
        super().__init__(handle, self._lib.kineto_function_events_destroy)
        self._trace = trace
        self._base_ns = base_ns
        self._count = int(self._lib.kineto_function_events_count(handle))
        self._rows: Optional[Averages] = None
        self._stacks: Optional[Averages] = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [FunctionEvent(self, i) for i in range(*key.indices(self._count))]
        if not -self._count <= key < self._count:
            raise IndexError("event %d of %d" % (key, self._count))
        return FunctionEvent(self, key % self._count)

    @property
    def use_device(self) -> Optional[str]:
        """The name of the device in tables: "cuda"."""
        return self._lib.kineto_function_events_device(self._c).decode()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False, include_python_functions: bool = False,
                     with_flops: Optional[bool] = None) -> "Averages":
        """Functions grouped by name, and by shapes or stack if requested, with their sums."""
        options = S.AveragesOptions(
            group_by_shape=bool(group_by_input_shape), group_by_stack=int(group_by_stack_n),
            group_by_overload=bool(group_by_overload_name), python_functions=include_python_functions,
            flops={None: 0, True: 1, False: 2}[with_flops])
        return self._make_averages(options)

    def _make_averages(self, options: S.AveragesOptions) -> "Averages":
        made = _functions.make(self._lib.kineto_averages_create, self._c, C.byref(options))
        return Averages(made, self, options)

    def _averages_handle(self) -> int:
        return self._each_event()._c

    def _each_event(self) -> "Averages":
        """Each event as a group of its own."""
        if self._rows is None:
            self._rows = self._make_averages(S.AveragesOptions(each_event=True, python_functions=True))
        return self._rows

    def _stack_of(self, index: int) -> List[str]:
        if self._stacks is None:
            self._stacks = self._make_averages(S.AveragesOptions(
                each_event=True, python_functions=True, group_by_stack=_WHOLE_STACK))
        return self._stacks[index].stack

    def export_chrome_trace(self, path: Any) -> None:
        """Write the whole trace; the format follows the ending of the path."""
        save_chrome_trace(self._trace, path)

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total", merge: bool = False,
                      functions: bool = False) -> int:
        """Write folded stacks, the input of flame graphs. @return the number of lines."""
        options, lines = S.StacksOptions(metric=_functions.text_of(metric), merge=merge,
                                         functions=functions), C.c_uint64()
        _functions.call(self._lib.kineto_stacks_save, self._c, C.byref(options),
                        _functions.path_of(path), C.byref(lines))
        return lines.value

    def __repr__(self) -> str:
        return "<ckineto.EventList of %d events>" % self._count


class FunctionEventAvg(_Numbers):
    """A group of functions and its sums: PyTorch's FunctionEventAvg."""

    cpu_children = None
    cpu_parent = None

    def __init__(self, owner: Any, index: int, view: S.Average) -> None:
        self._owner = owner
        self._index = index
        self._view = view

    @property
    def count(self) -> int:
        return self._view.count

    @property
    def input_shapes(self) -> Any:
        """Lists of sizes; "" unless grouped by shape."""
        text = self._text_of("input_shapes")
        return json.loads(text) if text else ""

    @property
    def stack(self) -> List[str]:
        """The innermost frame first; empty unless grouped by stack."""
        frame = _functions.full().kineto_averages_frame
        return [frame(self._owner._averages_handle(), self._index, i).text()
                for i in range(self._view.stack_depth)]

    @property
    def flops(self) -> int:
        return self._view.flops

    @property
    def use_device(self) -> Optional[str]:
        return self._owner.use_device

    @property
    def scope(self) -> int:
        first = self._first_event()
        return first.scope if first is not None else 0

    def _first_event(self) -> Optional[FunctionEvent]:
        events = getattr(self._owner, "_events", None)
        return events[self._view.first_event] if events is not None and \
            self._index != S.NO_EVENT else None

    def __repr__(self) -> str:
        device = self.use_device
        return "<FunctionEventAvg key=%s self_cpu_time=%s cpu_time=%s self_%s_time=%s %s_time=%s " \
               "input_shapes=%s cpu_memory_usage=%s %s_memory_usage=%s>" % (
                   self.key, self.self_cpu_time_total_str, self.cpu_time_str, device,
                   self.self_device_time_total_str, device, self.device_time_str, self.input_shapes,
                   self.cpu_memory_usage, device, self.device_memory_usage)


class Averages(_Summary):
    """Groups of functions in the order of their first events: the result of key_averages()."""

    def __init__(self, handle: int, events: EventList, options: S.AveragesOptions) -> None:
        lib = _functions.full()
        super().__init__(handle, lib.kineto_averages_destroy)
        self._events = events
        self._options = options
        self._count = int(lib.kineto_averages_count(handle))

    def _averages_handle(self) -> int:
        return self._c

    def __len__(self) -> int:
        return self._count

    def _get(self, index: int) -> FunctionEventAvg:
        view = S.Average()
        _functions.full().kineto_averages_get(self._c, index, C.byref(view))
        return FunctionEventAvg(self, index, view)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self._get(i) for i in range(*key.indices(self._count))]
        if not -self._count <= key < self._count:
            raise IndexError("group %d of %d" % (key, self._count))
        return self._get(key % self._count)

    @property
    def use_device(self) -> Optional[str]:
        return self._events.use_device

    def value(self, index: int, attribute: str) -> float:
        """A number of a group by PyTorch's name for it, also with "cuda", "xpu" … in place of "device"."""
        value = C.c_double()
        _functions.call(_functions.full().kineto_averages_value, self._c, index,
                        _functions.text_of(attribute), C.byref(value))
        return value.value

    def __repr__(self) -> str:
        return "<ckineto.Averages of %d groups>" % self._count


def events_of_trace(trace: Any) -> EventList:
    """Function events of any trace; times count from its window."""
    handle = _functions.make(_functions.full().kineto_function_events_create, trace._c, None)
    return EventList(handle, trace, trace.window[0])


def save_chrome_trace(trace: Any, path: Any) -> None:
    """Write a trace by the ending of the path; as Chrome JSON if the ending is unknown, like PyTorch."""
    lib, encoded = _functions.full(), _functions.path_of(path)
    try:
        _functions.call(lib.kineto_trace_save, trace._c, encoded)
    except errors.UnsupportedError:
        _functions.call(lib.kineto_trace_export_chrome, trace._c, encoded, None)


__all__ = ["Averages", "DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval",
           "Kernel"]
