"""Builds a bridge: one shared library for one minor version of PyTorch.

This is the only place that knows the compiler's options: the build of the wheel, CMake (for the
PyTorch of a distribution) and the build at first use (for a version that no bridge was made for) call
it. It needs a C++ compiler, PyTorch's headers and the sources of the bridge; PyTorch's libraries are
stood in for by empty ones with their sonames.

    python3 -m ckineto_attach.build                 for the PyTorch of this Python, into the cache
    python3 -m ckineto_attach.build --include TORCH/include --minor 2.15 -o torch-2.15-cxx11.so
"""
import argparse
import os
import subprocess
import sys
from typing import List, Optional, Tuple

from . import compiling
from .compiling import BuildError
from .names import bridge_name, cache_folder, parse_minor

_STAND_INS = ("torch_cpu", "c10")


def find_sources() -> Optional[str]:
    """Folder of the bridge's sources."""
    return compiling.find_sources("bridge_source", "torch", "bridge.cc")


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
    stand_ins: str,
    compiler: List[str],
    extra: Tuple[str, ...] = (),
) -> List[str]:
    """The command that compiles and links a bridge."""
    major, minor = parse_minor(version)
    number = major * 100 + minor
    command = compiler + [
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
    command += ["-Wl,-z,nodelete", "-Wl,--no-as-needed", "-L" + stand_ins, "-Wl,--build-id=none"]
    # Symbols of PyTorch and ckineto are undefined: the stand-ins are empty.
    command += ["-Wl,--unresolved-symbols=ignore-all"]
    command += ["-l" + name for name in _STAND_INS] + ["-lckineto-rt"]
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
    source, headers = find_sources(), headers or compiling.find_headers()
    if not source or not headers:
        raise BuildError("the sources of the bridge are not installed here")
    if not os.path.exists(os.path.join(include, "ATen", "record_function.h")):
        raise BuildError("%s does not hold PyTorch's headers (ATen/record_function.h)" % include)
    command = compiling.find_compiler(compiler, "CXX", "g++")
    sonames = {name: "lib%s.so" % name for name in _STAND_INS}
    sonames["ckineto-rt"] = "libckineto-rt.so.0"
    with compiling.make_stand_ins(command, sonames) as folder, compiling.replace_whole(output) as made:
        compiling.run(make_command(source, headers, include, version, cxx11_abi, has_kineto, made,
                                   folder, command, extra))


# ---- at first use ---------------------------------------------------------------------------------


def cached_path(torch, name: str) -> str:
    """Path of the bridge `name` that was, or would be, built at first use for exactly this PyTorch."""
    version = "".join(c if c.isalnum() or c in ".-" else "_" for c in str(torch.__version__))
    key = compiling.source_key(find_sources())
    return os.path.join(cache_folder("bridges"), "%s-%s-%s.so" % (name[:-3], version, key))


def include_folder(torch) -> Optional[str]:
    """Folder of PyTorch's headers; None if they are not installed."""
    folder = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "include")
    for candidate in (folder, "/usr/include"):
        if os.path.exists(os.path.join(candidate, "ATen", "record_function.h")):
            return candidate
    return None


def _plan(torch) -> Tuple[str, str, bool, bool]:
    """For the PyTorch of this process: headers, path of the bridge, std::string of C++11, has libkineto.
    Raises BuildError."""
    from . import torch_bridge

    include = include_folder(torch)
    if not include:
        raise BuildError("the headers of PyTorch %s are not installed" % torch.__version__)
    abi = torch_bridge.likely_abi(torch) if include != "/usr/include" else True
    path = cached_path(torch, torch_bridge.candidate_names(torch)[0])
    return include, path, abi, torch_bridge.has_kineto(torch)


def build_now() -> str:
    """Build the bridge for the PyTorch of this Python into the cache. @return its path. Raises BuildError."""
    import torch

    include, path, abi, has_kineto = _plan(torch)
    build_bridge(include, torch.__version__, path, abi, has_kineto)
    return path


def start_build(torch) -> bool:
    """Build the bridge in a process of its own, which does not load PyTorch, for the next run. False: it cannot
    be started."""
    if os.environ.get("CKINETO_TORCH_BUILD") == "0" or not find_sources() or not compiling.find_headers():
        return False
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("CKINETO_", "KINETO_", "LD_PRELOAD", "TORCH_DEVICE_"))}
    environment["PYTHONPATH"] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        include, path, abi, has_kineto = _plan(torch)
        command = [sys.executable, "-m", "ckineto_attach.build", "--include", include,
                   "--minor", str(torch.__version__), "--output", path]
        command += [] if abi else ["--old-abi"]
        command += [] if has_kineto else ["--no-kineto"]
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True, close_fds=True)
        return True
    except (BuildError, OSError):
        return False


# ---- the command line -----------------------------------------------------------------------------


def _parse(arguments: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m ckineto_attach.build",
        description="Build the bridge for one version of PyTorch. Without options: for the PyTorch of this "
                    "Python, where ckineto finds it.")
    parser.add_argument("--include", help="folder with ATen/ and torch/")
    parser.add_argument("--minor", help="version of PyTorch, for example 2.15")
    parser.add_argument("--headers", help="folder with ckineto/record.h")
    parser.add_argument("--old-abi", action="store_true", help="std::string of before C++11")
    parser.add_argument("--no-kineto", action="store_true", help="a PyTorch without libkineto")
    parser.add_argument("--compiler", help="C++ compiler, default $CXX or g++")
    parser.add_argument("-o", "--output", help="the library, or a folder for it")
    parser.add_argument("--flag", action="append", default=[], help="one more flag of the compiler")
    parser.add_argument("--strip", action="store_true", help="without symbols")
    given = parser.parse_args(arguments)
    explicit = (given.include, given.minor, given.output)
    if any(explicit) and not all(explicit):
        parser.error("--include, --minor and --output belong together")
    return given


def _build(given: argparse.Namespace) -> None:
    if not given.include:
        sys.stdout.write("%s\n" % build_now())
        return
    output = given.output
    if os.path.isdir(output):
        output = os.path.join(output, bridge_name(given.minor, not given.old_abi, not given.no_kineto))
    build_bridge(given.include, given.minor, output, not given.old_abi, not given.no_kineto,
                 given.compiler, given.headers, tuple(given.flag) + (("-s",) if given.strip else ()))


def main(arguments: Optional[List[str]] = None) -> int:
    """The command line: see the text at the top."""
    given = _parse(arguments)
    return compiling.report_failure(lambda: _build(given))


if __name__ == "__main__":
    sys.exit(main())
