"""Owners of handles of the C library: each handle is released once, by close() or with its owner."""
import weakref
from typing import Any, Callable

from . import errors


class Handle:
    """An owner of one C handle. Usable as a context manager."""

    def __init__(self, handle: int, release: Callable[[int], Any], *keep: Any) -> None:
        self._handle = handle
        self._finalizer = weakref.finalize(self, _release, release, handle, keep)

    @property
    def _c(self) -> int:
        """The handle for a call."""
        if not self._finalizer.alive:
            raise errors.make_error(-5, "this %s is closed" % type(self).__name__)
        return self._handle

    def close(self) -> None:
        """Release the handle. A second call does nothing."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.close()


def _release(release: Callable[[int], Any], handle: int, keep: Any) -> None:
    """`keep` holds objects that C refers to while the handle lives, for example callbacks."""
    release(handle)
