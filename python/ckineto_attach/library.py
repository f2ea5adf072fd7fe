"""Finds and loads libckineto-rt (recording) and libckineto (sessions, traces, analysis).

Both are loaded once, by absolute path and before anything that needs them, so that every later
library of the process which names them by soname gets the same copy.
"""
import os

_HERE = os.path.dirname(os.path.abspath(__file__))
_loaded = {}


def directory():
    """Folder of the libraries: CKINETO_LIBDIR, or the one that this package is installed under
    (LIBDIR/ckineto/python/ckineto_attach); None if neither has them."""
    candidates = (
        os.environ.get("CKINETO_LIBDIR"),
        os.path.normpath(os.path.join(_HERE, "..", "..", "..")),
    )
    for candidate in candidates:
        if candidate and os.path.exists(os.path.join(candidate, "libckineto-rt.so.0")):
            return candidate
    return None


def find(soname):
    """Path of a library; its bare name if the folder is not known, for the system's search."""
    folder = directory()
    return os.path.join(folder, soname) if folder else soname


def load(soname):
    """The library as ctypes.CDLL. Raises OSError that names it if it cannot be loaded."""
    import ctypes  # slow to import, and a Python may be built without it

    if soname not in _loaded:
        if soname != "libckineto-rt.so.0":
            load("libckineto-rt.so.0")
        _loaded[soname] = ctypes.CDLL(find(soname))
    return _loaded[soname]


def load_rt():
    """libckineto-rt: ranges, operators, the host of plug-ins."""
    return load("libckineto-rt.so.0")


def open_rt():
    """Load libckineto-rt for other libraries, without ctypes: Python's importer of extension modules opens a
    library before it looks for the function of a module in it, and never closes it."""
    from importlib.machinery import ExtensionFileLoader, ModuleSpec

    folder = directory()
    if folder is None:
        return  # the system's search finds it
    path = os.path.join(folder, "libckineto-rt.so.0")
    loader = ExtensionFileLoader("ckineto_rt", path)
    try:
        loader.create_module(ModuleSpec("ckineto_rt", loader, origin=path))
    except ImportError:
        pass  # it is no module; if it was not opened, loading the library that needs it fails


def load_full():
    """libckineto: sessions, profiles, traces, analysis, reports."""
    return load("libckineto.so.0")
