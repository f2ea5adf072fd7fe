"""Builds a bridge: one shared library for one minor version of PyTorch.

This is the only place that knows the compiler's options: the build of the wheel, CMake (for the
PyTorch of a distribution) and the build at first use (for a version that no bridge was made for) call
it. It needs a C++ compiler, PyTorch's headers and the sources of the bridge; PyTorch's libraries are
stood in for by empty ones with their sonames.

    python3 -m ckineto_attach.build --include TORCH/include --minor 2.15 -o torch-2.15-cxx11.so
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import List, Optional, Tuple

_HERE = os.path.dirname(os.path.abspath(__file__))
_STUBS = ("torch_cpu", "c10")


class BuildError(Exception):
    """The bridge cannot be built; the text says why."""


def parse_minor(version: str) -> Tuple[int, int]:
    """(2, 15) of "2.15.0+cu129". Raises BuildError for what is not a version."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if not match:
        raise BuildError("'%s' is not a version of PyTorch; for example 2.15.0" % version)
    return int(match.group(1)), int(match.group(2))


def bridge_name(version: str, cxx11_abi: bool, has_kineto: bool) -> str:
    """File name of the bridge for a version, ABI of std::string and kind of build."""
    major, minor = parse_minor(version)
    return "torch-%d.%d-%s%s.so" % (
        major,
        minor,
        "cxx11" if cxx11_abi else "cxx03",
        "" if has_kineto else "-nokineto",
    )


def find_sources() -> Optional[str]:
    """Folder of the bridge's sources: installed next to this package, or in the source tree."""
    for folder in (
        os.path.join(_HERE, "bridge_source"),
        os.path.join(_HERE, "..", "..", "bridges", "torch"),
        os.path.join(_HERE, "..", "..", "..", "..", "..", "bridges", "torch"),
    ):
        if os.path.exists(os.path.join(folder, "bridge.cc")):
            return os.path.normpath(folder)
    return None


def find_headers(libckineto_dir: Optional[str]) -> Optional[str]:
    """Folder that holds ckineto/record.h."""
    candidates = [os.path.join(_HERE, "bridge_source", "include")]
    candidates.append(os.path.join(_HERE, "..", "..", "include"))
    if libckineto_dir:
        candidates.append(os.path.join(libckineto_dir, "..", "include"))
        candidates.append(os.path.join(libckineto_dir, "..", "..", "include"))
    for folder in candidates:
        if os.path.exists(os.path.join(folder, "ckineto", "record.h")):
            return os.path.normpath(folder)
    return None


def _run(command: List[str]) -> None:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise BuildError("%s: %s; install a C++ compiler" % (command[0], error.strerror))
    if done.returncode:
        text = done.stdout.decode("utf-8", "replace")
        raise BuildError("%s failed:\n%s" % (" ".join(command), text[-4000:]))


def _make_stubs(compiler: str, folder: str) -> None:
    empty = os.path.join(folder, "empty.c")
    open(empty, "w").close()
    for name in _STUBS + ("ckineto-rt",):
        soname = "lib%s.so%s" % (name, ".0" if name == "ckineto-rt" else "")
        _run([compiler, "-shared", "-x", "c", empty, "-o",
              os.path.join(folder, "lib%s.so" % name), "-Wl,-soname," + soname])


def _torch_include_flags(include: str) -> List[str]:
    # The compiler's own folders keep their place in its order.
    flags = [] if os.path.realpath(include) == "/usr/include" else ["-isystem", include]
    for part in ("torch/csrc/api/include", "kineto"):
        if os.path.isdir(os.path.join(include, part)):
            flags += ["-isystem", os.path.join(include, part)]
    return flags


def make_command(
    source: str,
    headers: str,
    include: str,
    version: str,
    cxx11_abi: bool,
    has_kineto: bool,
    output: str,
    stubs: str,
    compiler: str = "g++",
    extra: Tuple[str, ...] = (),
) -> List[str]:
    """The command that compiles and links a bridge."""
    major, minor = parse_minor(version)
    number = major * 100 + minor
    command = [
        compiler,
        "-std=c++20" if number >= 210 else "-std=c++17",
        "-DNDEBUG",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fno-semantic-interposition",
        "-Wall",
        "-Wextra",
        "-DCKINETO_TORCH_MINOR=%d" % number,
        "-DCKINETO_TORCH_HAS_KINETO=%d" % has_kineto,
        "-DKINETO_NAMESPACE=libkineto",
        "-DFMT_HEADER_ONLY",
        "-D_GLIBCXX_USE_CXX11_ABI=%d" % cxx11_abi,
        "-I" + headers,
    ]
    command += _torch_include_flags(include)
    # PyTorch before 2.8 includes fmt/format.h and does not ship it.
    if not os.path.exists(os.path.join(include, "fmt", "format.h")):
        command += ["-isystem", os.path.join(source, "compat")]
    command += [os.path.join(source, "bridge.cc"), "-o", output]
    command += ["-Wl,--version-script=" + os.path.join(source, "bridge.map")]
    command += ["-Wl,-z,nodelete", "-Wl,--no-as-needed", "-L" + stubs, "-Wl,--build-id=none"]
    # What PyTorch and ckineto define is missing in the stand-ins for them.
    command += ["-Wl,--unresolved-symbols=ignore-all"]
    command += ["-l" + name for name in _STUBS] + ["-lckineto-rt"]
    return command + list(extra)


def build_bridge(
    include: str,
    version: str,
    output: str,
    cxx11_abi: bool = True,
    has_kineto: bool = True,
    compiler: Optional[str] = None,
    headers: Optional[str] = None,
    extra: Tuple[str, ...] = (),
) -> None:
    """Build a bridge at `output`, which appears whole or not at all. Raises BuildError."""
    source = find_sources()
    headers = headers or find_headers(os.path.join(_HERE, "..", "..", ".."))
    if not source or not headers:
        raise BuildError("the sources of the bridge are not installed here")
    if not os.path.exists(os.path.join(include, "ATen", "record_function.h")):
        raise BuildError("%s does not hold PyTorch's headers (ATen/record_function.h)" % include)
    compiler = compiler or os.environ.get("CXX") or "g++"
    if not shutil.which(compiler.split()[0]):
        raise BuildError("no C++ compiler: %s was not found; install g++ or set CXX" % compiler)
    folder = os.path.dirname(os.path.abspath(output))
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ckineto-bridge-") as stubs:
        _make_stubs(compiler, stubs)
        made = os.path.join(folder, ".%s.%d" % (os.path.basename(output), os.getpid()))
        try:
            _run(make_command(source, headers, include, version, cxx11_abi, has_kineto, made,
                              stubs, compiler, extra))
            os.replace(made, output)
        finally:
            if os.path.exists(made):
                os.unlink(made)


def main(arguments: Optional[List[str]] = None) -> int:
    """The command line: see the text at the top."""
    parser = argparse.ArgumentParser(prog="python3 -m ckineto_attach.build",
                                     description="Build the bridge for one version of PyTorch.")
    parser.add_argument("--include", required=True, help="folder with ATen/ and torch/")
    parser.add_argument("--minor", required=True, help="version of PyTorch, for example 2.15")
    parser.add_argument("--headers", help="folder with ckineto/record.h")
    parser.add_argument("--old-abi", action="store_true", help="std::string of before C++11")
    parser.add_argument("--no-kineto", action="store_true", help="a PyTorch without libkineto")
    parser.add_argument("--compiler", help="C++ compiler, default $CXX or g++")
    parser.add_argument("-o", "--output", required=True, help="the library, or a folder for it")
    parser.add_argument("--flag", action="append", default=[], help="one more flag of the compiler")
    parser.add_argument("--strip", action="store_true", help="without symbols")
    given = parser.parse_args(arguments)
    output = given.output
    try:
        if os.path.isdir(output):
            output = os.path.join(output, bridge_name(given.minor, not given.old_abi,
                                                      not given.no_kineto))
        build_bridge(given.include, given.minor, output, not given.old_abi, not given.no_kineto,
                     given.compiler, given.headers,
                     tuple(given.flag) + (("-s",) if given.strip else ()))
    except (BuildError, OSError) as error:
        sys.stderr.write("ckineto: %s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
