"""Exceptions: one class for each status of the C library, with the library's own sentence.

Every class also derives from the built-in exception that Python programmers would catch for the same
reason, so `except FileNotFoundError` and `except ckineto.NotFoundError` both work.
"""
import errno
from typing import Dict, Optional, Type


class Error(Exception):
    """A call into ckineto failed. `str(error)` is a sentence that says what failed and what to do.

    status    name of the C status, "E_NOT_FOUND"
    code      its number
    os_error  errno of the failing system call, 0 if there was none
    offset    byte offset in the input, for malformed files and queries
    """

    status = "E_UNKNOWN"
    code = 0
    os_error = 0
    offset = 0


class ArgumentError(Error, ValueError):
    """An argument is invalid."""

    status, code = "E_ARGUMENT", -1


class OutOfMemoryError(Error, MemoryError):
    """The library could not allocate memory."""

    status, code = "E_MEMORY", -2


class InputOutputError(Error, OSError):
    """Reading or writing failed."""

    status, code = "E_IO", -3


class FormatError(Error, ValueError):
    """A file or text is malformed; `offset` is the place, where that is known."""

    status, code = "E_FORMAT", -4


class StateError(Error, RuntimeError):
    """Calls came out of order: for example, stop without start."""

    status, code = "E_STATE", -5


class BusyError(Error, RuntimeError):
    """The requested thing is in use."""

    status, code = "E_BUSY", -6


class UnsupportedError(Error, NotImplementedError):
    """Not possible here: another format, another platform, another version of the library."""

    status, code = "E_UNSUPPORTED", -7


class NotFoundError(Error, LookupError):
    """The file, step, table or rule does not exist."""

    status, code = "E_NOT_FOUND", -8


class MissingFileError(NotFoundError, FileNotFoundError):
    """A file does not exist."""


class PermissionDeniedError(Error, PermissionError):
    """The system denied access."""

    status, code = "E_PERMISSION", -9


class LimitError(Error, RuntimeError):
    """A limit of the library was reached."""

    status, code = "E_LIMIT", -10


class PluginError(Error, RuntimeError):
    """A plug-in failed, or refused."""

    status, code = "E_PLUGIN", -11


class MissingPackageError(Error, ImportError):
    """An optional Python package is needed for this call; the message says how to install it."""

    status = "E_UNSUPPORTED"


_CLASSES: Dict[int, Type[Error]] = {
    cls.code: cls
    for cls in (ArgumentError, OutOfMemoryError, InputOutputError, FormatError, StateError, BusyError,
                UnsupportedError, NotFoundError, PermissionDeniedError, LimitError, PluginError)
}


def make_error(code: int, message: str, os_error: int = 0, offset: int = 0) -> Error:
    """The exception for a status of the C library."""
    cls = _CLASSES.get(code, Error)
    if cls is NotFoundError and os_error == errno.ENOENT:
        cls = MissingFileError
    error = cls(message)
    error.code, error.os_error, error.offset = code, os_error, offset
    return error


def need_package(name: str, what: str, install: Optional[str] = None) -> MissingPackageError:
    """The exception for a package that is not installed."""
    command = "pip install " + (install or name)
    return MissingPackageError("%s needs the package %s; run '%s'" % (what, name, command))
