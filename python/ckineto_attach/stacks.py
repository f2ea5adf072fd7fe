"""Records Python functions, calls of modules of PyTorch, and collections of garbage.

    stacks.start()      # in a session of ckineto, or before one
    ...
    stacks.stop()

While no session records the kind `python_function`, nothing is recorded; hooks stay installed from
start to stop. Starts are counted: the last stop removes the hooks. Both may be called on any thread,
never raise, and print nothing: what cannot be recorded is a line in the ledger of the trace.

The work is done by a library, stacks-profile.so for Python 3.9 to 3.11 or stacks-monitoring.abi3.so
for later versions; builds without the GIL (3.13t) have stacks-monitoring.cp313t.so. It is looked for in $CKINETO_STACKS_DIR and in the folder `native` next to this
file; else it is built once, where a C compiler and Python's headers are installed, and kept in
$XDG_CACHE_HOME/ckineto/stacks (CKINETO_STACKS_BUILD=0 forbids that).

`ckineto record --python` starts it in every Python program (start_requested), so this imports little.
"""
from __future__ import annotations

import atexit
import importlib.machinery
import os
import site
import sys

from . import library
from .names import cache_folder, stacks_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # the module is slow to import
    from typing import Any, Dict, List, Optional

_FUNCTIONS, _MODULES, _C_FUNCTIONS, _COLLECTIONS = 1, 2, 4, 8
_SOURCE = b"Python functions"

_native: Any = None
_failure: Optional[str] = None
_finished = False
_configured: Any = None


class StacksError(Exception):
    """Python functions cannot be recorded; the text is the reason."""


# ---- the library ----------------------------------------------------------------------------------


def _check_python() -> str:
    """Name of the library for this Python. Raises StacksError if there is none."""
    if sys.implementation.name != "cpython":
        raise StacksError("%s is not supported; only CPython is" % sys.implementation.name)
    free_threaded = "t" in getattr(sys, "abiflags", "")
    name = stacks_name(sys.version_info[:2], free_threaded)
    if name is None:
        raise StacksError("Python %d.%d%s is not supported; 3.9 and later versions of Python 3 are, without the "
                          "GIL 3.13 and later" % (sys.version_info[:2] + ("t" if free_threaded else "",)))
    return name


def _find_or_build() -> str:
    name = _check_python()
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.environ.get("CKINETO_STACKS_DIR"), os.path.join(here, "native")):
        if folder and os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    from . import build_stacks, compiling  # what follows is rare and takes longer

    folder = os.path.join(cache_folder("stacks"), compiling.source_key(build_stacks.find_sources()))
    cached = os.path.join(folder, name)
    if os.path.exists(cached):
        return cached
    if os.environ.get("CKINETO_STACKS_BUILD") == "0":
        raise StacksError("%s is not installed" % name)
    try:
        return build_stacks.build_library(name, folder)
    except (compiling.BuildError, OSError) as error:
        raise StacksError("%s is not installed and cannot be built: %s" % (name, error))


def _load() -> Any:
    global _native
    if _native is None:
        path = _find_or_build()
        library.open_rt()
        name = "_ckineto_stacks"
        loader = importlib.machinery.ExtensionFileLoader(name, path)
        module = loader.create_module(importlib.machinery.ModuleSpec(name, loader, origin=path))
        loader.exec_module(module)
        _native = module
        atexit.register(_finish)
    return _native


# ---- configuration of the library -----------------------------------------------------------------


def _prefixes() -> List[bytes]:
    """Folders that are cut off file names, the same as in PyTorch's profiler."""
    paths = list(sys.path)
    for function in ("getsitepackages", "getuserbase", "getusersitepackages"):
        found = getattr(site, function, lambda: [])()
        paths += found if isinstance(found, list) else [found]
    torch = sys.modules.get("torch")
    if getattr(torch, "__file__", None):
        paths.append(os.path.dirname(os.path.dirname(torch.__file__)))
    folders = {os.path.abspath(path) for path in paths if isinstance(path, str)}
    return [os.fsencode(folder.rstrip(os.sep) + os.sep) for folder in sorted(folders, reverse=True)]


def _own_folders() -> List[bytes]:
    """Folders whose functions are ckineto's own, which are not recorded."""
    files = [start.__code__.co_filename, getattr(sys.modules.get("ckineto"), "__file__", None)]
    return [os.fsencode(os.path.dirname(file) + os.sep) for file in files if file]


def _only() -> List[bytes]:
    """Packages and modules whose functions are recorded, from CKINETO_PYTHON_ONLY; none: all are."""
    names = os.environ.get("CKINETO_PYTHON_ONLY", "").split(",")
    return [os.fsencode(name.strip()) for name in names if name.strip()]


def _threads() -> Dict[int, int]:
    """The kernel's numbers of threads by Python's. It takes no lock, since it may be called anywhere,
    and calls no function of Python, which would be recorded."""
    active = getattr(sys.modules.get("threading"), "_active", {})
    threads = {}
    for ident, thread in list(active.items()):
        threads[ident] = getattr(thread, "_native_id", None) or 0
    return threads


def _report(reason: str) -> None:
    global _failure
    _failure = reason
    try:
        library.load_rt().kineto_ledger_add(_SOURCE, b"not recorded", 1, False,
                                            reason.encode("utf-8", "replace"))
    except Exception:
        pass


# ---- collections of garbage -----------------------------------------------------------------------


def _watch_collections(watch: bool) -> None:
    import gc

    hook = _native.on_collection
    if watch and hook not in gc.callbacks:
        gc.callbacks.append(hook)
    elif not watch and hook in gc.callbacks:
        gc.callbacks.remove(hook)


# ---- start and stop -------------------------------------------------------------------------------


def prepare() -> None:
    """Load what start needs, so that the first one takes no longer than others. Raises what start reports."""
    global _configured
    native = _load()
    key = (list(sys.path), "torch" in sys.modules, "ckineto" in sys.modules)
    if key != _configured:  # what this calls would be recorded if it ran within a window
        native.configure(_prefixes(), _own_folders(), _only())
        _configured = key


def start(functions: bool = True, modules: bool = True, c_functions: bool = False,
          collections: bool = False) -> bool:
    """Record from now on whenever a session wants the kind `python_function`.

    functions    functions of Python, on all threads
    modules      calls of nn.Module, by class and number; alone, they cost nothing elsewhere on
                 Python 3.12 and later
    c_functions  functions in C that Python code calls; needs functions
    collections  collections of garbage, as "Python GC"

    Options of several starts add up until the last stop. @return False: nothing is recorded, and
    reason() says why. Each start needs a stop, whatever it returned."""
    global _failure
    options = ((_FUNCTIONS if functions else 0) | (_MODULES if modules else 0) |
               (_C_FUNCTIONS if functions and c_functions else 0) |
               (_COLLECTIONS if collections else 0))
    try:
        prepare()
        _failure = _native.start(options, _threads())
        if _failure is None and collections:
            _watch_collections(True)
        return _failure is None
    except Exception as error:
        _report(str(error))
        return False


def start_requested() -> None:
    """Start what `ckineto record --python` requests, for the whole run of the program. Never raises."""
    if os.environ.get("CKINETO_PYTHON", "") not in ("", "0"):
        start(functions=True, modules=True, c_functions=True)


def stop() -> None:
    """End the recording of the matching start. Functions that are still running end in the trace here.
    More stops than starts do nothing."""
    try:
        if _native is not None and _native.stop(_threads()):
            _watch_collections(False)
    except Exception as error:
        _report(str(error))


def reason() -> Optional[str]:
    """The reason why the last start records nothing; None if it records."""
    return _failure


def mechanism() -> str:
    """What hooks functions in this Python; after prepare."""
    return "sys.monitoring" if _native.status()["hook"] == "monitoring" else "profile functions"


def status() -> Dict[str, Any]:
    """The state of the hooks, for tests and for `ckineto doctor`."""
    return _native.status() if _native is not None else {}


def _finish() -> None:
    """The interpreter ends."""
    for _ in range(_native.status()["users"]):
        stop()
