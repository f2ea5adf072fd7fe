"""Ranges, instants and counters of a Python program.

While nothing records, a range costs one load of the word that kineto_gate points to. While something
records, it is two calls into libckineto-rt. What a range is called and which arguments it has is
described once, as a site, and found again by name and types: see `_Sites`.
"""
import ctypes as C
import functools
import itertools
import os
import struct
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

from . import _base as S
from . import _functions

F = TypeVar("F", bound=Callable[..., Any])

_hot = _functions.hot()
if os.environ.get("CKINETO_CONTROL") or os.environ.get("CKINETO_RING"):
    _functions.full()  # it listens to requests for traces by itself when it is loaded
_begin = _hot.kineto_record_begin
_begin_args = _hot.kineto_record_begin_args
_begin_props = _hot.kineto_record_begin_props
_end = _hot.kineto_record_end
_record_args = _hot.kineto_record_args
_record_async = _hot.kineto_record_async
_record_instant = _hot.kineto_record_instant
_record_counter = _hot.kineto_record_counter
for _each in (_end, _record_args, _record_async, _record_instant, _record_counter):
    _each.restype = None
del _each

# kineto_gate is read through this each time: the pointer itself changes when a recorder attaches.
_gate = C.POINTER(C.c_uint64).in_dll(_hot, "kineto_gate")
_ANNOTATIONS = 1 << S.KIND_USER_ANNOTATION
_INSTANTS = 1 << S.KIND_CPU_INSTANT_EVENT
_COUNTERS = 1 << S.KIND_COUNTER

_INT_LIMIT = 1 << 63
# More names than this share one site each for their types; the name then travels with each record.
_MAX_SITES = 4096


# ---- arguments ---------------------------------------------------------------------------------------


def _describe(value: Any) -> str:
    """The text of an object in a trace. Never reads the contents of tensors: that may wait for a device."""
    try:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is not None and dtype is not None:
            return "%s%s" % (dtype, list(shape))
        return repr(value)[:1000]
    except Exception:
        return "<%s>" % type(value).__name__


def _json_text(value: Any) -> bytes:
    import json

    try:
        return json.dumps(value, default=_describe).encode()
    except Exception:
        return json.dumps(_describe(value)).encode()


def _string_text(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape").replace(b"\0", b"\\0")


def _int_value(value: int) -> int:
    if value.bit_length() > 63:
        raise OverflowError
    return value


def _plan_value(kind: type) -> Tuple[int, Any, Callable[[Any], Any]]:
    """Recording of values of a Python type: type for C, member of a ctypes struct, conversion."""
    if issubclass(kind, bool):
        return S.ARG_BOOL, C.c_uint64, int
    if issubclass(kind, int):
        return S.ARG_INT, C.c_int64, _int_value
    if issubclass(kind, float):
        return S.ARG_DOUBLE, C.c_double, float
    if issubclass(kind, str):
        return S.ARG_STRING, C.c_char_p, _string_text
    if kind.__module__ == "numpy" and hasattr(kind, "item"):
        return _plan_numpy(kind)
    return S.ARG_JSON, C.c_char_p, _json_text


def _plan_numpy(kind: type) -> Tuple[int, Any, Callable[[Any], Any]]:
    """Scalars of NumPy; arrays are described like any object."""
    import numbers

    if kind.__name__.startswith("bool"):
        return S.ARG_BOOL, C.c_uint64, int
    if issubclass(kind, numbers.Integral):
        return S.ARG_INT, C.c_int64, lambda value: _int_value(int(value))
    if issubclass(kind, numbers.Real):
        return S.ARG_DOUBLE, C.c_double, float
    return S.ARG_JSON, C.c_char_p, _json_text


def _number_value(kind: type) -> Tuple[int, Any, Callable[[Any], Any]]:
    """A series of a counter: whole numbers stay whole, all else becomes a double."""
    plan = _plan_value(kind)
    return plan if plan[0] in (S.ARG_INT, S.ARG_DOUBLE) else (S.ARG_DOUBLE, C.c_double, float)


# ---- sites -------------------------------------------------------------------------------------------


class _Plan:
    """A site, and the conversion of its arguments to an array of kineto_value: all members of that union
    have 8 bytes, so numbers are packed at once, and a ctypes struct holds texts."""

    __slots__ = ("site", "pointer", "pack", "_convert", "_values_type")

    def __init__(self, name: bytes, kind: int, keys: Tuple[str, ...], planned: Any) -> None:
        descriptions = (S.ArgDesc * max(len(keys), 1))()
        for i, key in enumerate(keys):
            descriptions[i] = S.ArgDesc(_string_text(key), planned[i][0])
        self.site = S.Site(0, kind, S.SCOPE_USER_SCOPE, len(keys), 0, name, descriptions)
        self.pointer = C.c_void_p(C.addressof(self.site))
        self._convert = [p[2] for p in planned]
        self._values_type = type("Values", (C.Structure,),
                                 {"_fields_": [("v%d" % i, p[1]) for i, p in enumerate(planned)]})
        codes = [_CODES.get(p[0], "") for p in planned]
        self.pack = struct.Struct("@" + "".join(codes)).pack if all(codes) else self._fill
        # The library may read a site as long as the process lives.
        C.pythonapi.Py_IncRef(C.py_object(self.site))

    def _fill(self, *values: Any) -> Any:
        return C.byref(self._values_type(*[
            convert(value) for convert, value in zip(self._convert, values)]))


_CODES = {S.ARG_INT: "q", S.ARG_DOUBLE: "d", S.ARG_BOOL: "Q"}


class _Sites:
    """The plans of one kind of record, by name, names of arguments and their Python types."""

    def __init__(self, kind: int, plan_value: Callable[[type], Any]) -> None:
        self.kind = kind
        self.plan_value = plan_value
        self.plain: Dict[str, C.c_void_p] = {}
        self.plans: Dict[Any, _Plan] = {}
        self.shared: Dict[Any, _Plan] = {}

    def make(self, name: str, arguments: Dict[str, Any]) -> _Plan:
        planned = [self.plan_value(type(value)) for value in arguments.values()]
        return _Plan(_string_text(name), self.kind, tuple(arguments), planned)

    def is_full(self) -> bool:
        return len(self.plain) + len(self.plans) >= _MAX_SITES

    def add_plain(self, name: str) -> Optional[C.c_void_p]:
        """The site of a name without arguments; None: too many sites."""
        if self.is_full():
            return None
        return self.plain.setdefault(name, self.make(name, {}).pointer)

    def find(self, name: str, arguments: Dict[str, Any]) -> Tuple[_Plan, Optional[bytes]]:
        """A plan, and the name if the plan is one that many names share."""
        key = (name, *arguments, *map(type, arguments.values()))
        plan = self.plans.get(key)
        if plan is None and not self.is_full():
            plan = self.plans.setdefault(key, self.make(name, arguments))
        if plan is not None:
            return plan, None
        if key[1:] not in self.shared and len(self.shared) >= _MAX_SITES:
            arguments = {}  # also if there are too many names of arguments: they are dropped
        plan = self.shared.get(key[1:]) if arguments else self.shared.get(())
        if plan is None:
            plan = self.shared.setdefault(key[1:] if arguments else (),
                                          self.make("(many names)", arguments))
        return plan, _string_text(name)

    def prepare(self, name: str, arguments: Dict[str, Any]) -> Tuple[_Plan, Any, Optional[bytes]]:
        """A plan, its values (None: there are none), and the name if the plan is shared."""
        if len(arguments) > S.SITE_MAX_ARGS:
            arguments = dict(itertools.islice(arguments.items(), S.SITE_MAX_ARGS))
        plan, shared_name = self.find(name, arguments)
        if not plan.site.arg_count:
            return plan, None, shared_name
        try:
            return plan, plan.pack(*arguments.values()), shared_name
        except (OverflowError, struct.error):
            return self.prepare(name, {
                key: _wrap_big(value) for key, value in arguments.items()})


class _BigNumber:
    """A whole number that needs more than 64 bits."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value

    def __repr__(self) -> str:
        return str(self.value)

    def __float__(self) -> float:
        try:
            return float(self.value)
        except OverflowError:
            return float("inf") if self.value > 0 else float("-inf")


def _wrap_big(value: Any) -> Any:
    import numbers

    is_big = isinstance(value, numbers.Integral) and int(value).bit_length() > 63
    return _BigNumber(int(value)) if is_big else value


def _props(values: Any, name: Optional[bytes]) -> Any:
    """kineto_props; None without arguments. The caller keeps `values` alive."""
    if values is None and name is None:
        return None
    return C.byref(S.Props(name=name, values=C.cast(values, C.c_void_p) if values else None))


_ranges = _Sites(S.KIND_USER_ANNOTATION, _plan_value)
_instants = _Sites(S.KIND_CPU_INSTANT_EVENT, _plan_value)
_counters = _Sites(S.KIND_COUNTER, _number_value)
_plain = _ranges.plain
_range_plans = _ranges.plans


def _open_range(name: str, arguments: Dict[str, Any]) -> int:
    """Begin a range that was not begun before under this name, or one with arguments."""
    try:
        if arguments:
            plan = _range_plans.get((name, *arguments, *map(type, arguments.values())))
            if plan is not None:
                return _begin_args(plan.pointer, plan.pack(*arguments.values()))
        else:
            site = _plain.get(name) or _ranges.add_plain(name)
            if site is not None:
                return _begin(site)
    except (OverflowError, struct.error):
        pass  # a whole number of more than 64 bits
    except Exception:
        return 0
    try:
        plan, values, shared_name = _ranges.prepare(name, arguments)
        if shared_name is None:
            return _begin_args(plan.pointer, values)
        return _begin_props(plan.pointer, _props(values, shared_name))
    except Exception:
        return 0  # nothing that is recorded may change what the program does


# ---- ranges ------------------------------------------------------------------------------------------

_async_ids = itertools.count(1)


class range:
    """A range of the calling thread, from here to the end of a block or of each call:

        with ckineto.range("load", rows=64):
            ...

        @ckineto.range("load")
        def load(): ...

    Arguments are numbers, texts, booleans, or anything that JSON can hold; other objects are described
    by their repr, tensors by type and shape. They are looked at only while something records.

    Ranges of a thread nest. A block that awaits needs `async with`, which makes a range that may
    overlap others. An object is for one block at a time; as a decorator it serves any number of calls.
    """

    __slots__ = ("_name", "_args", "_open")

    def __init__(self, name: str, /, **args: Any) -> None:
        self._name = name if name.__class__ is str else str(name)
        self._args = args
        self._open = 0

    def __enter__(self) -> "range":
        if _gate[0] & _ANNOTATIONS:
            if self._args or self._name not in _plain:
                self._open = _open_range(self._name, self._args)
            else:
                self._open = _begin(_plain[self._name])
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._open:
            _end(self._open)
            self._open = 0

    def set(self, **args: Any) -> None:
        """Add arguments to the open range: results, for example."""
        if not self._open or not args:
            return
        try:
            plan, values, _ = _ranges.prepare("(arguments)", args)
            _record_args(self._open, plan.pointer, values)
        except Exception:
            pass

    async def __aenter__(self) -> "range":
        if _gate[0] & _ANNOTATIONS:
            self._open = _begin_async(self._name, self._args)
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        _end_async(self._open)
        self._open = 0

    def __call__(self, function: F) -> F:
        return _wrap(function, self._name, self._args)

    def __repr__(self) -> str:
        return "ckineto.range(%r)" % (self._name,)


def _begin_async(name: str, arguments: Dict[str, Any]) -> Any:
    """Begin a range that need not nest; returns a handle for _end_async."""
    try:
        plan, values, shared_name = _ranges.prepare(name, arguments)
        opened = (plan, next(_async_ids), shared_name)
        _record_async(plan.pointer, C.c_uint64(opened[1]), True, _props(values, shared_name))
        return opened
    except Exception:
        return None


def _end_async(opened: Any) -> None:
    if opened:
        _record_async(opened[0].pointer, C.c_uint64(opened[1]), False, None)


def _wrap(function: Any, name: str, arguments: Dict[str, Any]) -> Any:
    """Wrap a function in a range for each call; for coroutines and generators, for their lifetime."""
    if not callable(function):
        raise TypeError("ckineto.trace and ckineto.range decorate functions, not %r; put them below "
                        "@staticmethod and @classmethod" % (function,))
    import inspect

    if inspect.iscoroutinefunction(function):
        return _wrap_coroutine(function, name, arguments)
    if inspect.isasyncgenfunction(function):
        return _wrap_async_generator(function, name, arguments)
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, name, arguments)

    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        if not _gate[0] & _ANNOTATIONS:
            return function(*args, **kwargs)
        if arguments or name not in _plain:
            opened = _open_range(name, arguments)
        else:
            opened = _begin(_plain[name])
        try:
            return function(*args, **kwargs)
        finally:
            if opened:
                _end(opened)

    return traced


def _wrap_coroutine(function: Any, name: str, arguments: Dict[str, Any]) -> Any:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        opened = _begin_async(name, arguments) if _gate[0] & _ANNOTATIONS else None
        try:
            return await function(*args, **kwargs)
        finally:
            _end_async(opened)

    return traced


def _wrap_generator(function: Any, name: str, arguments: Dict[str, Any]) -> Any:
    @functools.wraps(function)
    def traced(*args: Any, **kwargs: Any) -> Any:
        opened = _begin_async(name, arguments) if _gate[0] & _ANNOTATIONS else None
        try:
            return (yield from function(*args, **kwargs))
        finally:
            _end_async(opened)

    return traced


def _wrap_async_generator(function: Any, name: str, arguments: Dict[str, Any]) -> Any:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> Any:
        opened = _begin_async(name, arguments) if _gate[0] & _ANNOTATIONS else None
        generator = function(*args, **kwargs)
        resume, value = generator.asend, None
        try:
            while True:
                try:
                    item = await resume(value)
                except StopAsyncIteration:
                    return
                try:
                    resume, value = generator.asend, (yield item)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    resume, value = generator.athrow, error
        finally:
            await generator.aclose()
            _end_async(opened)

    return traced


def trace(function: Any = None, /, *, name: Optional[str] = None, **args: Any) -> Any:
    """Record each call of a function as a range: `@ckineto.trace`, or `@ckineto.trace(name="load")`.

    The name is the function's qualified name unless given; other keywords are arguments of the range.
    """
    if function is None or isinstance(function, str):
        given = function or name
        return lambda decorated: _wrap(decorated, given or _name_of(decorated), args)
    return _wrap(function, name or _name_of(function), args)


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


class record_function(range):
    """torch.profiler.record_function by name and arguments; records with and without PyTorch."""

    __slots__ = ("run_callbacks_on_exit",)

    def __init__(self, name: str, args: Optional[str] = None) -> None:
        super().__init__(name)
        if args is not None:
            self._args = {"args": args}
        self.run_callbacks_on_exit = True

    @property
    def name(self) -> str:
        return self._name

    @property
    def args(self) -> Optional[str]:
        return self._args.get("args")

    def __enter__(self) -> "record_function":
        super().__enter__()
        return self

    def _call_end_callbacks_on_future(self, future: Any) -> Any:
        """A future that completes when `future` has and its end is recorded."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        opened = _begin_async(self._name, self._args) if _gate[0] & _ANNOTATIONS else None

        def finish(done: Any) -> Any:
            _end_async(opened)
            return done.value()

        return future.then(finish)


# ---- moments, counters, steps ------------------------------------------------------------------------


def instant(name: str, /, **args: Any) -> None:
    """Record a moment of the calling thread."""
    if not _gate[0] & _INSTANTS:
        return
    try:
        if not args and name in _instants.plain:
            _record_instant(_instants.plain[name], None)
            return
        site = None if args else _instants.add_plain(str(name))
        if site is not None:
            _record_instant(site, None)
            return
        plan, values, shared_name = _instants.prepare(str(name), args)
        _record_instant(plan.pointer, _props(values, shared_name))
    except Exception:
        pass


def counter(name: str, value: Optional[float] = None, /, **series: float) -> None:
    """Sample a counter: `counter("loss", 0.3)`, or several series at once: `counter("queue", length=3,
    bytes=4096)`. A unit may stand in the name of a series: `**{"used [bytes]": 4096}`."""
    if not _gate[0] & _COUNTERS:
        return
    try:
        if value is not None:
            plan = _counters.plans.get((name, name, value.__class__)) if not series else None
            if plan is not None and -_INT_LIMIT <= value < _INT_LIMIT:
                _record_counter(plan.pointer, plan.pack(value))
                return
            series = {name: value, **series}
        plan, values, shared_name = _counters.prepare(str(name), series)
        if values is not None and shared_name is None:
            _record_counter(plan.pointer, values)
    except Exception:
        pass


_count_step = _functions.rt().kineto_step_mark


def step() -> None:
    """The program begins another iteration of its main loop: call it at the top of the loop. Recordings
    show iterations as "ProfilerStep#N", and `ckineto trigger --iterations` counts them."""
    _count_step()


def is_recording() -> bool:
    """Whether any session records annotations of this process now."""
    return bool(_gate[0] & _ANNOTATIONS)


def set_thread_name(name: str) -> None:
    """Name the calling thread in traces; its first 63 bytes count."""
    _functions.rt().kineto_thread_set_name(_string_text(str(name)))


def set_process_name(name: str) -> None:
    """Name this process in traces."""
    _functions.rt().kineto_process_set_name(_string_text(str(name)))


def add_metadata(key: str, value: Any) -> None:
    """Put a key and a value that JSON can hold into the header of the traces that are being recorded, or
    of the next one."""
    status = _functions.rt().kineto_metadata_add(_string_text(str(key)), _json_text(value))
    if status:
        from . import errors

        text = _functions.rt().kineto_status_text(status).decode()
        raise errors.make_error(status, "metadata %r: %s" % (key, text))
