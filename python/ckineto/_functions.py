"""Loads libckineto-rt and libckineto, and calls their functions.

A library is loaded at first use, through ckineto_attach.library, so that a process never has two
copies. A function is declared when it is first called: `full().kineto_trace_open`. What is called
while other threads may run releases the GIL (ctypes.CDLL). The functions of the hot path of
libckineto-rt never block, so they keep it (`hot()`, ctypes.PyDLL): that is cheaper, and no other
thread takes the GIL in between.
"""
import ctypes as C
import os
import sys
from typing import Any, Dict, Optional, Tuple

from . import errors
from ._base import ErrorInfo, char_p, int_, u32, u64, void_p

_ERR = void_p  # kineto_error *: a byref, or None
_P = C.POINTER


# name: (type of the result, types of the arguments)
_RT: Dict[str, Tuple[Any, Tuple]] = {
    "kineto_version": (char_p, ()),
    "kineto_status_text": (char_p, (int_,)),
    "kineto_kind_name": (char_p, (u32,)),
    "kineto_kinds_parse": (int_, (char_p, _P(u64), _ERR)),
    "kineto_step_mark": (None, ()),
    "kineto_thread_set_name": (None, (char_p,)),
    "kineto_process_set_name": (None, (char_p,)),
    "kineto_metadata_add": (int_, (char_p, char_p)),
    "kineto_plugin_load": (int_, (char_p, char_p, _ERR)),
}

class _Library:
    """A library whose functions are declared on first use."""

    def __init__(self, library: C.CDLL, declarations: Dict[str, Tuple[Any, Tuple]]) -> None:
        self._library = library
        self._declarations = declarations

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        result, arguments = self._declarations[name]
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise errors.UnsupportedError(
                "%s has no function %s: its version differs from that of this package; install matching "
                "versions" % (self._library._name, name)) from None
        function.restype, function.argtypes = result, arguments
        setattr(self, name, function)
        return function


def _attach_library() -> Any:
    """ckineto_attach.library. The package is on sys.path, next to this one, or in the wheel's tree."""
    try:
        from ckineto_attach import library
    except ImportError:
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_native", "lib", "ckineto",
                              "python")
        if not os.path.isdir(os.path.join(folder, "ckineto_attach")):
            raise
        sys.path.append(folder)
        from ckineto_attach import library
    return library


def library_directory() -> Optional[str]:
    """Folder of libckineto.so.0, or None if the system's search finds it."""
    return _attach_library().directory()


def _load(which: str) -> C.CDLL:
    try:
        return getattr(_attach_library(), which)()
    except (ImportError, OSError) as error:
        raise errors.UnsupportedError(
            "ckineto: the native libraries cannot be loaded (%s); reinstall the package ckineto, or set "
            "CKINETO_LIBDIR to the folder of libckineto-rt.so.0" % error) from error


_rt: Optional[_Library] = None
_hot: Optional[C.PyDLL] = None
_full: Optional[_Library] = None


def rt() -> _Library:
    """libckineto-rt."""
    global _rt
    if _rt is None:
        _rt = _Library(_load("load_rt"), _RT)
    return _rt


def hot() -> C.PyDLL:
    """libckineto-rt for calls that never block: they keep the GIL. Functions are not declared."""
    global _hot
    if _hot is None:
        _hot = C.PyDLL(_load("load_rt")._name)
    return _hot


def full() -> _Library:
    """libckineto."""
    global _full
    if _full is None:
        from ._declarations import FULL

        _full = _Library(_load("load_full"), FULL)
    return _full


def call(function: Any, *arguments: Any) -> None:
    """Call a function that returns a kineto_status and takes a kineto_error last. Raises its error."""
    info = ErrorInfo()
    status = function(*arguments, C.byref(info))
    if status:
        text = info.message.decode("utf-8", "replace") or rt().kineto_status_text(status).decode()
        raise errors.make_error(status, text, info.os_error, info.offset)


def make(function: Any, *arguments: Any) -> int:
    """Call a function whose last argument but the error receives a handle; the handle."""
    handle = void_p()
    call(function, *arguments, C.byref(handle))
    return handle.value or 0


def text_of(value: Optional[str]) -> Optional[bytes]:
    """A text for C; None stays None."""
    if value is None:
        return None
    encoded = str(value).encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        raise errors.make_error(-1, "%r contains a NUL character" % value)
    return encoded


def path_of(path: Any) -> bytes:
    """A path for C: str, bytes or os.PathLike."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise errors.make_error(-1, "the path %r contains a NUL character" % path)
    return encoded


def free(pointer: C.c_void_p) -> None:
    """free() of libc, for memory that the library passes to its caller."""
    libc = C.CDLL(None)
    libc.free.argtypes, libc.free.restype = (void_p,), None
    libc.free(pointer)


def parse_bytes(value: Any, what: str) -> int:
    """A number of bytes: an int, or a text such as "512M", "2GiB"."""
    if value is None:
        return 0
    if isinstance(value, int):
        number = value
    else:
        text = str(value).strip().upper()
        text = text[:-2] if text.endswith("IB") else text[:-1] if text.endswith("B") else text
        shift = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:], 0)
        try:
            number = int(float(text[:-1] if shift else text) * (1 << shift))
        except (ValueError, OverflowError):
            number = -1
    if not 0 <= number < 1 << 63:
        raise errors.make_error(-1, "%s: %r is not a number of bytes; use, for example, 512M or 2G"
                                % (what, value))
    return number
