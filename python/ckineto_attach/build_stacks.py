"""Builds the libraries that record Python functions.

This is the only place that knows the compiler's options: the build of the wheel, CMake and the build
at first use call it. It needs a C compiler and the headers of any CPython from 3.9 on, whatever
version the libraries are for: they see the limited API only. One library serves Python 3.9 to 3.11,
the other one 3.12 and later.

    python3 build_stacks.py -o FOLDER
"""
import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import List, Optional, Tuple

_HERE = os.path.dirname(os.path.abspath(__file__))
_COMMON = ("stacks_core.c", "stacks_lanes.c", "stacks_names.c", "stacks_windows.c")

PROFILE = "stacks-profile.so"
MONITORING = "stacks-monitoring.abi3.so"
# Name: the source of its hook, and the version of the limited API.
_LIBRARIES = {
    PROFILE: ("stacks_profile.c", "0x03090000"),
    MONITORING: ("stacks_monitoring.c", "0x030a0000"),
}


class BuildError(Exception):
    """A library cannot be built; the text says why."""


def library_name(version: Tuple[int, int]) -> Optional[str]:
    """File name of the library for a version of Python; None if there is none."""
    if version < (3, 9):
        return None
    return PROFILE if version < (3, 12) else MONITORING


def find_sources() -> Optional[str]:
    """Folder of the sources: installed next to this package, or in the source tree."""
    for folder in (
        os.path.join(_HERE, "stacks_source"),
        os.path.join(_HERE, "..", "..", "bridges", "python"),
    ):
        if os.path.exists(os.path.join(folder, "stacks.h")):
            return os.path.normpath(folder)
    return None


def find_headers() -> Optional[str]:
    """Folder that holds ckineto/record.h."""
    for folder in (
        os.path.join(_HERE, "stacks_source", "include"),
        os.path.join(_HERE, "bridge_source", "include"),
        os.path.join(_HERE, "..", "..", "include"),
        os.path.join(_HERE, "..", "..", "..", "..", "include"),
        os.path.join(_HERE, "..", "..", "..", "..", "..", "include"),
    ):
        if os.path.exists(os.path.join(folder, "ckineto", "record.h")):
            return os.path.normpath(folder)
    return None


def find_python_headers() -> Optional[str]:
    """Folder that holds the Python.h of this Python."""
    folder = sysconfig.get_path("include")
    return folder if folder and os.path.exists(os.path.join(folder, "Python.h")) else None


def make_command(
    name: str,
    output: str,
    sources: str,
    headers: str,
    python_headers: str,
    stub: str,
    compiler: str = "cc",
    extra: Tuple[str, ...] = (),
) -> List[str]:
    """The command that compiles and links one library. `stub` stands in for libckineto-rt."""
    hook, limited_api = _LIBRARIES[name]
    command = compiler.split() + [
        "-std=c11",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Wshadow",
        "-Wstrict-prototypes",
        "-Wmissing-prototypes",
        "-D_GNU_SOURCE",
        "-DNDEBUG",
        "-DPy_LIMITED_API=" + limited_api,
        "-I" + headers,
        "-isystem",
        python_headers,
    ]
    command += [os.path.join(sources, file) for file in _COMMON + (hook,)]
    command += ["-o", output, "-pthread", "-ldl", "-Wl,-z,nodelete", "-Wl,-z,relro", "-Wl,-z,now"]
    # Weak symbols of newer libraries may be missing, and so is all of Python.
    return command + ["-Wl,--no-as-needed", stub] + list(extra)


def _run(command: List[str]) -> None:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL)
    except OSError as error:
        raise BuildError("%s: %s; install a C compiler" % (command[0], error.strerror))
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise BuildError("%s failed:\n%s" % (" ".join(command), text[-4000:]))
    if "warning:" in text:
        sys.stderr.write(text)


def _make_stub(compiler: str, folder: str) -> str:
    """An empty library with the soname of libckineto-rt."""
    empty, stub = os.path.join(folder, "empty.c"), os.path.join(folder, "libckineto-rt.so")
    open(empty, "w").close()
    _run(compiler.split() + ["-shared", empty, "-o", stub, "-Wl,-soname,libckineto-rt.so.0"])
    return stub


def find_compiler(compiler: Optional[str] = None) -> str:
    """The C compiler: the one that is given, $CC, or cc. Raises BuildError."""
    compiler = compiler or os.environ.get("CC") or "cc"
    if not shutil.which(compiler.split()[0]):
        raise BuildError("no C compiler: %s was not found; install gcc or set CC" % compiler)
    return compiler


def build_library(
    name: str,
    folder: str,
    compiler: Optional[str] = None,
    headers: Optional[str] = None,
    python_headers: Optional[str] = None,
    extra: Tuple[str, ...] = (),
) -> str:
    """Build one library into a folder; it appears whole or not at all. @return its path. Raises
    BuildError."""
    sources, headers = find_sources(), headers or find_headers()
    python_headers = python_headers or find_python_headers()
    if not sources or not headers:
        raise BuildError("the sources of the recorder of Python functions are not installed here")
    if not python_headers:
        raise BuildError("the headers of Python are not installed (Python.h); install python3-dev")
    compiler = find_compiler(compiler)
    os.makedirs(folder, exist_ok=True)
    output = os.path.join(folder, name)
    made = os.path.join(folder, ".%s.%d" % (name, os.getpid()))
    with tempfile.TemporaryDirectory(prefix="ckineto-stacks-") as work:
        stub = _make_stub(compiler, work)
        try:
            _run(make_command(name, made, sources, headers, python_headers, stub, compiler, extra))
            os.replace(made, output)
        finally:
            if os.path.exists(made):
                os.unlink(made)
    return output


def main(arguments: Optional[List[str]] = None) -> int:
    """The command line: see the text at the top."""
    parser = argparse.ArgumentParser(description="Build the libraries that record Python functions.")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where they go")
    parser.add_argument("--only", choices=("profile", "monitoring"),
                        help="the library for Python 3.9 to 3.11, or the one for later versions")
    parser.add_argument("--compiler", help="C compiler, default $CC or cc")
    parser.add_argument("--headers", help="folder with ckineto/record.h")
    parser.add_argument("--python-headers", help="folder with Python.h, default this Python's")
    parser.add_argument("--flag", action="append", default=[], help="one more option of the compiler")
    parser.add_argument("--strip", action="store_true", help="without symbols")
    given = parser.parse_args(arguments)
    names = {"profile": (PROFILE,), "monitoring": (MONITORING,)}.get(given.only, tuple(_LIBRARIES))
    extra = tuple(given.flag) + (("-s",) if given.strip else ())
    try:
        for name in names:
            build_library(name, given.output, given.compiler, given.headers, given.python_headers,
                          extra)
    except (BuildError, OSError) as error:
        sys.stderr.write("ckineto: %s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
