"""Shared by the builds of bridges (build.py) and of recorders of Python functions (build_stacks.py)."""
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Dict, Iterator, List, Optional

_HERE = os.path.dirname(os.path.abspath(__file__))


class BuildError(Exception):
    """A library cannot be built; the text is the reason."""


def find_sources(installed: str, in_tree: str, file: str) -> Optional[str]:
    """Folder with a file of the sources: installed next to this package, or in the source tree."""
    for folder in (os.path.join(_HERE, installed), os.path.join(_HERE, "..", "..", "bridges", in_tree)):
        if os.path.exists(os.path.join(folder, file)):
            return os.path.normpath(folder)
    return None


def find_headers() -> Optional[str]:
    """Folder that holds ckineto/record.h."""
    folders = [os.path.join(_HERE, name, "include") for name in ("stacks_source", "bridge_source")]
    folders += [os.path.join(_HERE, *([".."] * up), "include") for up in (2, 4, 5, 6)]
    for folder in folders:
        if os.path.exists(os.path.join(folder, "ckineto", "record.h")):
            return os.path.normpath(folder)
    return None


def source_key(folder: Optional[str]) -> str:
    """A hash of the sources in a folder: a library in the cache is used only for the same sources."""
    digest = hashlib.sha256()
    for name in sorted(os.listdir(folder)) if folder else ():
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                digest.update(name.encode() + file.read())
    return digest.hexdigest()[:12]


def find_compiler(given: Optional[str], variable: str, default: str) -> List[str]:
    """Command of the compiler: the one that is given, the environment's, or the default. Raises BuildError."""
    command = (given or os.environ.get(variable) or default).split()
    if not shutil.which(command[0]):
        raise BuildError("no compiler: %s was not found; install %s or set %s" %
                         (command[0], default.replace("cc", "gcc"), variable))
    return command


def run(command: List[str]) -> None:
    """Run a compiler; its warnings are shown. Raises BuildError with its text."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL)
    except OSError as error:
        raise BuildError("%s: %s; install a compiler" % (command[0], error.strerror))
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise BuildError("%s failed:\n%s" % (" ".join(command), text[-4000:]))
    if "warning:" in text:
        sys.stderr.write(text)


@contextlib.contextmanager
def make_stand_ins(compiler: List[str], sonames: Dict[str, str]) -> Iterator[str]:
    """A temporary folder with empty libraries: {name: soname}, for example {"c10": "libc10.so"}."""
    with tempfile.TemporaryDirectory(prefix="ckineto-build-") as folder:
        empty = os.path.join(folder, "empty.c")
        open(empty, "w").close()
        for name, soname in sonames.items():
            run(compiler + ["-shared", "-x", "c", empty, "-o",
                            os.path.join(folder, "lib%s.so" % name), "-Wl,-soname," + soname])
        yield folder


@contextlib.contextmanager
def replace_whole(output: str) -> Iterator[str]:
    """A temporary path next to `output`, which takes its place if no error is raised."""
    folder, name = os.path.split(os.path.abspath(output))
    os.makedirs(folder, exist_ok=True)
    made = os.path.join(folder, ".%s.%d" % (name, os.getpid()))
    try:
        yield made
        os.replace(made, output)
    finally:
        if os.path.exists(made):
            os.unlink(made)


def report_failure(build) -> int:
    """The exit status of a command that builds; a failure is reported on stderr."""
    try:
        build()
    except (BuildError, ValueError, OSError) as error:
        sys.stderr.write("ckineto: %s\n" % error)
        return 1
    return 0
