"""Finds and loads libckineto-rt (recording) and libckineto (sessions, traces, analysis).

Both are loaded once, by absolute path and before anything that needs them, so that every later
library of the process which names them by soname gets the same copy.
"""
import ctypes
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
    if soname not in _loaded:
        if soname != "libckineto-rt.so.0":
            load("libckineto-rt.so.0")
        _loaded[soname] = ctypes.CDLL(find(soname))
    return _loaded[soname]


def load_rt():
    """libckineto-rt: ranges, operators, the host of plug-ins."""
    return load("libckineto-rt.so.0")


def load_full():
    """libckineto: sessions, profiles, traces, analysis, reports."""
    return load("libckineto.so.0")
