"""ckineto for Python: ranges of a program, recordings, traces as data frames, and a profiler with the
interface of torch.profiler.

    import ckineto

    with ckineto.record("trace.json") as recording:
        with ckineto.range("load", rows=64):
            ...
    recording.trace.to_pandas()

Everything is done by the C libraries of ckineto; nothing but the standard library is needed. Modules
are loaded when they are first used, so that `import ckineto` costs next to nothing.
"""
import importlib
import sys

TYPE_CHECKING = False  # typing is not imported for this: checkers take it to be true

__version__ = "0.1.0"

# Where each public name is defined.
_PLACES = {
    "ranges": ("range", "trace", "instant", "counter", "step", "record_function", "is_recording",
               "set_thread_name", "set_process_name", "add_metadata"),
    "session": ("record", "Recording", "load_plugin"),
    "traces": ("open", "Trace"),
    "analysis": ("table_names",),
    "profiling": ("profile", "tensorboard_trace_handler", "ExperimentalConfig",
                "ExecutionTraceObserver"),
    "schedules": ("schedule",),
    "activities": ("ProfilerActivity", "ProfilerAction", "DeviceType"),
    "errors": ("Error", "ArgumentError", "OutOfMemoryError", "InputOutputError", "FormatError",
               "StateError", "BusyError", "UnsupportedError", "NotFoundError", "MissingFileError",
               "PermissionDeniedError", "LimitError", "PluginError", "MissingPackageError"),
    "_command": ("main",),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

if TYPE_CHECKING:
    from ._command import main
    from .activities import DeviceType, ProfilerAction, ProfilerActivity
    from .analysis import table_names
    from .errors import (ArgumentError, BusyError, Error, FormatError, InputOutputError, LimitError,
                         MissingFileError, MissingPackageError, NotFoundError, OutOfMemoryError,
                         PermissionDeniedError, PluginError, StateError, UnsupportedError)
    from .profiling import (ExecutionTraceObserver, ExperimentalConfig, profile,
                          tensorboard_trace_handler)
    from .ranges import (add_metadata, counter, instant, is_recording, range, record_function,
                         set_process_name, set_thread_name, step, trace)
    from .schedules import schedule
    from .session import Recording, load_plugin, record
    from .traces import Trace, open

# Not here: `open` and `range`, which `from ckineto import *` would put in place of the built-in ones.
__all__ = sorted(set(_MODULE_OF) - {"open", "range"} | {"__version__"})


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError("module 'ckineto' has no attribute %r" % name)
    importlib.import_module("." + module, __name__)
    for place, names in _PLACES.items():  # also of the modules that came with it
        loaded = sys.modules.get(__name__ + "." + place)
        globals().update((n, getattr(loaded, n)) for n in names if hasattr(loaded, n))
    return globals()[name]


def __dir__() -> "list[str]":
    return sorted(set(globals()) | set(_MODULE_OF))
