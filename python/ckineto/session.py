"""Sessions: record this process and get a trace."""
import ctypes as C
from typing import Any, Iterable, Optional

from . import _attach, _functions, errors, ranges
from . import _structs as S
from ._handles import Handle
from .traces import Trace, parse_kinds

_KEEP = {"oldest": 0, "newest": 1}
_THREADS = {"all": 0, "caller": 1}


def _choice(what: str, value: str, known: Any) -> int:
    if value not in known:
        raise errors.make_error(-1, "%s: unknown %r; use %s" % (what, value, " or ".join(known)))
    return known[value]


class Recording(Handle):
    """A recording of this process: `with ckineto.record("trace.json") as recording: …`.

    All threads are recorded, those that begin later too, with the plug-ins that are loaded. The trace
    is `recording.trace` once recording has stopped.
    """

    def __init__(self, path: Any = None, *, kinds: Any = None, buffer: Any = None, keep: str = "oldest",
                 threads: str = "all", record_shapes: bool = False, record_values: bool = False,
                 native_stacks: bool = False, python_functions: bool = False,
                 modules: bool = False, plugins: Optional[Iterable[Any]] = None,
                 plugin_config: Optional[str] = None) -> None:
        self.path = path
        self.trace: Optional[Trace] = None
        for plugin in _attach.device_plugins() if plugins is None else plugins:
            load_plugin(plugin)
        _attach.attach_recorder()
        operators = (S.OPERATORS_INPUTS if record_shapes or record_values else 0) | \
            (S.OPERATORS_VALUES if record_values else 0) | (S.OPERATORS_STACK if native_stacks else 0)
        options = S.SessionOptions(
            kinds=parse_kinds(kinds) if kinds else 0, operators=operators,
            buffer_bytes=_functions.parse_bytes(buffer, "buffer"),
            retention=_choice("keep", keep, _KEEP), threads=_choice("threads", threads, _THREADS),
            custom_config=_functions.text_of(plugin_config))
        self._stacks = _attach.Stacks(python_functions, modules)
        self._lib = _functions.full()
        handle = _functions.make(self._lib.kineto_session_create, C.byref(options))
        super().__init__(handle, self._lib.kineto_session_destroy)

    def start(self) -> "Recording":
        """Record from here on."""
        ranges.is_recording()  # loaded before recording begins, so that its import is not in the trace
        _functions.call(self._lib.kineto_session_start, self._c)
        self._stacks.turn(True)
        return self

    def stop(self) -> Trace:
        """Record until here; the trace, saved if a path was given. It may be started again."""
        self._stacks.turn(False)
        self.trace = Trace(_functions.make(self._lib.kineto_session_stop, self._c))
        if self.path is not None:
            self.trace.save(self.path)
        return self.trace

    def snapshot(self) -> Trace:
        """A trace of the events so far; recording continues."""
        return Trace(_functions.make(self._lib.kineto_session_snapshot, self._c))

    def pause(self) -> None:
        """Record nothing until `resume`."""
        _functions.call(self._lib.kineto_session_pause, self._c, True)

    def resume(self) -> None:
        """Go on."""
        _functions.call(self._lib.kineto_session_pause, self._c, False)

    def __enter__(self) -> "Recording":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            self.stop()
        finally:
            self.close()

    def close(self) -> None:
        """End the recording; without stop() before, its events are dropped. A second call does nothing."""
        self._stacks.turn(False)
        super().close()

    def __repr__(self) -> str:
        return "<ckineto.Recording%s>" % (": %r" % self.trace if self.trace else "")


def record(path: Any = None, **options: Any) -> Recording:
    """A recording of this process, to be used as a context manager or with start() and stop().

    path            where to save the trace; None: it is only `recording.trace`
    kinds           kinds to record: "cpu_op,kernel"; default: all but the expensive ones
    buffer          memory for the recording: bytes, or "256M"; default 64M
    keep            "oldest": stop when the buffer is full; "newest": overwrite the oldest events
    threads         "all" or "caller"
    record_shapes   sizes and types of the inputs of operators
    record_values   also values of scalars and short lists
    native_stacks   native call stacks of operators
    python_functions  functions of Python
    modules         calls of nn.Module, by class and number
    plugins         plug-ins to load first, see load_plugin; default: those of this machine's devices
    plugin_config   settings for plug-ins, see their documents
    """
    return Recording(path, **options)


def load_plugin(path: Any) -> None:
    """Load a plug-in: a path, or the name of one that comes with ckineto ("cuda", "nvtx", "opencl", "sim").
    Nothing if it is loaded already."""
    import os

    folder = _functions.library_directory()
    named = folder and os.path.join(folder, "ckineto", "ckineto-%s.so" % os.fsdecode(path))
    if named and not os.path.exists(path) and os.path.exists(named):
        path = named
    try:
        _functions.call(_functions.rt().kineto_plugin_load, _functions.path_of(path), None)
    except errors.StateError:
        pass
