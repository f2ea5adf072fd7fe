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
    "facts": ("Facts",),
    "analysis": ("diff", "table_names"),
    "profiling": ("profile", "tensorboard_trace_handler", "ExperimentalConfig",
                "ExecutionTraceObserver"),
    "schedules": ("schedule",),
    "training": ("TrainingRecorder",),
    "activities": ("ProfilerActivity", "ProfilerAction", "DeviceType"),
    "installing": ("install",),
    "errors": ("Error", "ArgumentError", "OutOfMemoryError", "InputOutputError", "FormatError",
               "StateError", "BusyError", "UnsupportedError", "NotFoundError", "MissingFileError",
               "PermissionDeniedError", "LimitError", "PluginError", "MissingPackageError"),
    "_command": ("main",),
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

if TYPE_CHECKING:  # each name as itself: so it is part of the typed interface
    from ._command import main as main
    from .activities import DeviceType as DeviceType
    from .activities import ProfilerAction as ProfilerAction
    from .activities import ProfilerActivity as ProfilerActivity
    from .analysis import diff as diff
    from .analysis import table_names as table_names
    from .errors import ArgumentError as ArgumentError
    from .errors import BusyError as BusyError
    from .errors import Error as Error
    from .errors import FormatError as FormatError
    from .errors import InputOutputError as InputOutputError
    from .errors import LimitError as LimitError
    from .errors import MissingFileError as MissingFileError
    from .errors import MissingPackageError as MissingPackageError
    from .errors import NotFoundError as NotFoundError
    from .errors import OutOfMemoryError as OutOfMemoryError
    from .errors import PermissionDeniedError as PermissionDeniedError
    from .errors import PluginError as PluginError
    from .errors import StateError as StateError
    from .errors import UnsupportedError as UnsupportedError
    from .facts import Facts as Facts
    from .installing import install as install
    from .profiling import ExecutionTraceObserver as ExecutionTraceObserver
    from .profiling import ExperimentalConfig as ExperimentalConfig
    from .profiling import profile as profile
    from .profiling import tensorboard_trace_handler as tensorboard_trace_handler
    from .ranges import add_metadata as add_metadata
    from .ranges import counter as counter
    from .ranges import instant as instant
    from .ranges import is_recording as is_recording
    from .ranges import range as range
    from .ranges import record_function as record_function
    from .ranges import set_process_name as set_process_name
    from .ranges import set_thread_name as set_thread_name
    from .ranges import step as step
    from .ranges import trace as trace
    from .schedules import schedule as schedule
    from .session import Recording as Recording
    from .session import load_plugin as load_plugin
    from .session import record as record
    from .traces import Trace as Trace
    from .traces import open as open
    from .training import TrainingRecorder as TrainingRecorder
else:
    # Not here: `open` and `range`, which a star import would put in place of the built-in ones.
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
