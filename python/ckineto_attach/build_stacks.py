"""Builds the libraries that record Python functions.

This is the only place that knows the compiler's options: the build of the wheel, CMake and the build
at first use call it. It needs a C compiler and the headers of any CPython from 3.9 on, whatever
version the libraries are for: they see the limited API only. One library serves Python 3.9 to 3.11,
the other one 3.12 and later. A Python without the GIL has a library of its own, which only that Python
builds, with its own headers.

    python3 -m ckineto_attach.build_stacks -o FOLDER
"""
import argparse
import os
import sys
import sysconfig
from typing import List, Optional, Tuple

from . import compiling
from .compiling import BuildError
from .names import STACKS_MONITORING, STACKS_PROFILE

_COMMON = ("stacks_core.c", "stacks_lanes.c", "stacks_names.c", "stacks_windows.c")

# Name: the source of its hook, and the version of the limited API.
_LIBRARIES = {
    STACKS_PROFILE: ("stacks_profile.c", "0x03090000"),
    STACKS_MONITORING: ("stacks_monitoring.c", "0x030a0000"),
}


def find_sources() -> Optional[str]:
    """Folder of the sources."""
    return compiling.find_sources("stacks_source", "python", "stacks.h")


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
    stand_ins: str,
    compiler: List[str],
    extra: Tuple[str, ...] = (),
) -> List[str]:
    """The command that compiles and links one library. `stand_ins` has an empty libckineto-rt."""
    hook, limited_api = _LIBRARIES.get(name, ("stacks_monitoring.c", None))
    command = compiler + [
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
        "-I" + headers,
        "-isystem",
        python_headers,
    ]
    if limited_api:
        command.append("-DPy_LIMITED_API=" + limited_api)
    command += [os.path.join(sources, file) for file in _COMMON + (hook,)]
    command += ["-o", output, "-pthread", "-ldl", "-Wl,-z,nodelete", "-Wl,-z,relro", "-Wl,-z,now"]
    # Symbols of ckineto and Python are undefined: the stand-in is empty.
    return command + ["-Wl,--no-as-needed", os.path.join(stand_ins, "libckineto-rt.so")] + list(extra)


def find_compiler(compiler: Optional[str] = None) -> List[str]:
    """Command of the C compiler: the one that is given, $CC, or cc. Raises BuildError."""
    return compiling.find_compiler(compiler, "CC", "cc")


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
    sources, headers = find_sources(), headers or compiling.find_headers()
    python_headers = python_headers or find_python_headers()
    if not sources or not headers:
        raise BuildError("the sources of the recorder of Python functions are not installed here")
    if not python_headers:
        raise BuildError("the headers of Python are not installed (Python.h); install python3-dev")
    command = find_compiler(compiler)
    output = os.path.join(folder, name)
    sonames = {"ckineto-rt": "libckineto-rt.so.0"}
    with compiling.make_stand_ins(command, sonames) as stand_ins, compiling.replace_whole(output) as made:
        compiling.run(make_command(name, made, sources, headers, python_headers, stand_ins, command, extra))
    return output


def main(arguments: Optional[List[str]] = None) -> int:
    """The command line: see the text at the top."""
    parser = argparse.ArgumentParser(prog="python3 -m ckineto_attach.build_stacks",
                                     description="Build the libraries that record Python functions.")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where they go")
    parser.add_argument("--only", choices=("profile", "monitoring"),
                        help="the library for Python 3.9 to 3.11, or the one for later versions")
    parser.add_argument("--compiler", help="C compiler, default $CC or cc")
    parser.add_argument("--headers", help="folder with ckineto/record.h")
    parser.add_argument("--python-headers", help="folder with Python.h, default this Python's")
    parser.add_argument("--flag", action="append", default=[], help="one more option of the compiler")
    parser.add_argument("--strip", action="store_true", help="without symbols")
    given = parser.parse_args(arguments)
    names = {"profile": (STACKS_PROFILE,), "monitoring": (STACKS_MONITORING,)}.get(given.only, tuple(_LIBRARIES))
    extra = tuple(given.flag) + (("-s",) if given.strip else ())

    def build() -> None:
        for name in names:
            build_library(name, given.output, given.compiler, given.headers, given.python_headers, extra)

    return compiling.report_failure(build)


if __name__ == "__main__":
    sys.exit(main())
