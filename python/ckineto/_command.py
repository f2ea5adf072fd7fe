"""Finds and runs the command `ckineto` that belongs to this package: for `python -m ckineto` and the
console script of the wheel."""
import os
import sys
from typing import Iterator, List, Optional

from . import errors


def _candidates() -> Iterator[str]:
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, "_native", "bin", "ckineto")
    # An installed prefix: LIBDIR/ckineto/python/ckineto/, or the folder of the libraries.
    from . import _functions

    folders = [os.path.normpath(os.path.join(here, "..", "..", ".."))]
    try:
        folders.insert(0, _functions.library_directory() or "")
    except ImportError:
        pass
    for folder in filter(None, folders):
        for up in ("..", os.path.join("..", "..")):  # lib may be lib/x86_64-linux-gnu
            yield os.path.normpath(os.path.join(folder, up, "bin", "ckineto"))


def find_command() -> bytes:
    """Path of the command. Raises NotFoundError."""
    for path in _candidates():
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return os.fsencode(path)
    raise errors.make_error(-8, "the command 'ckineto' is not installed with this package; reinstall the "
                            "package ckineto, or set CKINETO_LIBDIR to the lib folder of an installation")


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command in place of this process; its exit status is the process's."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        path = find_command()
    except errors.Error as error:
        sys.stderr.write("ckineto: %s\n" % error)
        return 127
    try:
        os.execv(path, [b"ckineto"] + [os.fsencode(word) for word in words])
    except OSError as error:
        sys.stderr.write("ckineto: %s: %s\n" % (os.fsdecode(path), error.strerror))
    return 126
