#!/usr/bin/env python3
"""Stand-ins for the CUDA libraries that a PyTorch wheel needs, for a computer without a GPU.

A wheel for CUDA cannot be imported without libcudart, libcudnn and a dozen others, several GB. This module
reads from the wheel's own libraries which shared objects are missing and which of their functions are needed, and
compiles one small library for each: every function returns the error code with which that library reports that
there is no device. With these, PyTorch behaves as on a computer without a GPU.

    stub_libraries.py SITE_PACKAGES/torch/lib      # writes the stand-ins into that folder

It relies on `readelf` and a C compiler. The libraries are found there because each library of a wheel has $ORIGIN in
its search path. A library that exists (in nvidia/*/lib or in the system) is left alone.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Dict, Iterable, List, NamedTuple, Set

# What a function of a library returns, by the longest prefix of its name that is listed.
ERROR_CODES = {
    "cu": 100,  # CUDA_ERROR_NO_DEVICE
    "cuda": 100,  # cudaErrorNoDevice
    "__cuda": 0,  # registration of device code: a handle that only stand-ins receive
    "cupti": 15,  # CUPTI_ERROR_NOT_INITIALIZED
    "nvml": 1,  # NVML_ERROR_UNINITIALIZED
    "nvrtc": 1,  # NVRTC_ERROR_OUT_OF_MEMORY, the first error
    "nvJitLink": 6,  # NVJITLINK_ERROR_INTERNAL
    "__nvJitLink": 6,
    "cublas": 1,  # CUBLAS_STATUS_NOT_INITIALIZED
    "cudnn": 1001,  # CUDNN_STATUS_NOT_INITIALIZED
    "cufft": 5,  # CUFFT_INTERNAL_ERROR
    "curand": 101,  # CURAND_STATUS_NOT_INITIALIZED
    "cusolver": 1,  # CUSOLVER_STATUS_NOT_INITIALIZED
    "cusparse": 1,  # CUSPARSE_STATUS_NOT_INITIALIZED
    "nccl": 1,  # ncclUnhandledCudaError
    "pncc": 1,
    "cuFile": 5001,  # CU_FILE_DRIVER_NOT_INITIALIZED
}
# Functions that return text; a number would be used as an address.
RETURNS_TEXT = re.compile(r"(ErrorString|ErrorName|ErrorEnum|StatusString|StatusName|LastError|_string)$")
# The loader, and the driver of GPUs: no package has it, and PyTorch opens it only if there is a GPU.
NEVER_MADE = ("ld-linux", "libcuda.so")
# These return numbers of versions, sizes or nothing: 0.
RETURNS_NUMBER = re.compile(r"(Version|VersionNumber|getCudartVersion)$")


class Needs(NamedTuple):
    """What the libraries of a folder need from libraries that do not exist."""

    libraries: List[str]
    versions: Dict[str, List[str]]  # library -> names of its symbol versions
    symbols: Dict[str, Dict[str, List[str]]]  # library -> version or "" -> symbols


def read_elf(path: str, option: str) -> List[str]:
    """Output lines of readelf."""
    done = subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def list_needed(path: str) -> List[str]:
    """Sonames that a library asks for."""
    return [match.group(1) for line in read_elf(path, "-d") for match in [re.search(r"\(NEEDED\).*\[(.*)\]", line)]
            if match]


def list_versions(path: str) -> Dict[str, Set[str]]:
    """Symbol versions that a library asks of each of the others."""
    versions: Dict[str, Set[str]] = collections.defaultdict(set)
    current = None
    for line in read_elf(path, "-V"):
        file = re.search(r"File: (\S+)", line)
        name = re.search(r"Name: (\S+)\s+Flags", line)
        if file:
            current = file.group(1)
        elif name and current and "Rev:" not in line:
            versions[current].add(name.group(1))
    return versions


def list_symbols(path: str) -> Iterable[tuple]:
    """(name, version or "", defined) of each strong dynamic symbol."""
    for line in read_elf(path, "--dyn-syms"):
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
            continue
        binding, index, name = fields[4], fields[6], fields[7]
        defined = index != "UND"
        if binding == "WEAK" and not defined:
            continue
        base, _, version = name.partition("@")
        yield base, version.lstrip("@"), defined


def exists(soname: str, folder: str, system: str) -> bool:
    """Whether the loader can find a library: in the folder, in a package nvidia-*, or in the system."""
    if os.path.exists(os.path.join(folder, soname)) or f"{soname} (" in system:
        return True
    packages = os.path.join(folder, "..", "..", "nvidia")
    for parent, _, files in os.walk(packages):
        if soname in files and os.path.basename(parent) == "lib":
            return True
    return False


def find_needs(folder: str) -> Needs:
    """Missing libraries of the libraries in FOLDER, and the symbols that these must have."""
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))
             if re.search(r"\.so(\.|$)", name) and not os.path.islink(os.path.join(folder, name))]
    system = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    missing = sorted({soname for path in paths for soname in list_needed(path)
                      if not soname.startswith(NEVER_MADE) and not exists(soname, folder, system)})
    versions: Dict[str, Set[str]] = collections.defaultdict(set)
    undefined, defined = set(), set()
    for path in paths:
        for soname, names in list_versions(path).items():
            versions[soname] |= names
        for name, version, here in list_symbols(path):
            (defined if here else undefined).add((name, version))
    wanted = {soname: sorted(versions.get(soname, ())) for soname in missing}
    return Needs(missing, wanted, assign_symbols(missing, wanted, undefined, {name for name, _ in defined}))


def assign_symbols(missing: List[str], versions: Dict[str, List[str]], undefined: Set[tuple],
                   defined: Set[str]) -> Dict[str, Dict[str, List[str]]]:
    """Which library gets which symbol. A symbol with a version belongs to the library that names the version; the
    others do not say where they come from: each library without versions gets all of them."""
    owner = {version: soname for soname, names in versions.items() for version in names}
    plain = [soname for soname in missing if not versions[soname]]
    symbols: Dict[str, Dict[str, List[str]]] = {soname: collections.defaultdict(list) for soname in missing}
    for name, version in sorted(undefined):
        if version in owner:
            symbols[owner[version]][version].append(name)
        elif not version and name not in defined and is_of_vendor(name):
            for soname in plain:
                symbols[soname][""].append(name)
    return symbols


def is_of_vendor(name: str) -> bool:
    """Whether the name of a function without a version is one of a library for CUDA, and not, say, of Python."""
    return re.match(r"_{0,2}p?(cu|nccl|nvrtc|nvtx|nvshmem|nvJit|nvml)", name) is not None


def error_code(name: str) -> int:
    """What the stand-in for a function returns."""
    if RETURNS_NUMBER.search(name):
        return 0
    prefixes = [prefix for prefix in ERROR_CODES if name.startswith(prefix)]
    return ERROR_CODES[max(prefixes, key=len)] if prefixes else 0


def write_source(symbols: Dict[str, List[str]]) -> str:
    """C source of one library: one body for each return value, and the functions as its aliases."""
    lines = ['static const char *text(void) { return "no CUDA device (stand-in library)"; }']
    codes = set()
    for name in sorted({name for names in symbols.values() for name in names}):
        if RETURNS_TEXT.search(name):
            lines.append(f'extern const char *{name}(void) __attribute__((alias("text")));')
            continue
        code = error_code(name)
        if code not in codes:
            codes.add(code)
            lines.append(f"static long fail_{code}(void) {{ return {code}; }}")
        lines.append(f'extern long {name}(void) __attribute__((alias("fail_{code}")));')
    return "\n".join(lines) + "\n"


def write_version_script(versions: List[str], symbols: Dict[str, List[str]]) -> str:
    """Version script of one library; a version without symbols gets a name that matches none."""
    parts = []
    for number, version in enumerate(versions):
        names = symbols.get(version) or [f"ckineto_no_symbol_{number}"]
        parts.append("%s { global: %s; };\n" % (version, "; ".join(names)))
    return "".join(parts)


def compile_stub(soname: str, versions: List[str], symbols: Dict[str, List[str]], folder: str) -> None:
    """Build one library into FOLDER."""
    with tempfile.TemporaryDirectory() as work:
        source, script = os.path.join(work, "stub.c"), os.path.join(work, "stub.map")
        with open(source, "w", encoding="ascii") as file:
            file.write(write_source(symbols))
        command = [find_compiler(), "-shared", "-fPIC", "-w", "-fno-builtin", "-nostdlib", f"-Wl,-soname,{soname}",
                   "-o", os.path.join(folder, soname), source]
        if versions:
            with open(script, "w", encoding="ascii") as file:
                file.write(write_version_script(versions, symbols))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def find_compiler() -> str:
    """Path of a C compiler; an error that says what is needed if there is none."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise RuntimeError("no C compiler found; install gcc")


def make_stubs(folder: str) -> Dict[str, int]:
    """Write all missing libraries into FOLDER. Returns the number of functions of each."""
    needs = find_needs(folder)
    made = {}
    for soname in needs.libraries:
        symbols = needs.symbols[soname]
        compile_stub(soname, needs.versions[soname], symbols, folder)
        made[soname] = sum(len(names) for names in symbols.values())
    return made


def main() -> int:
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("usage: stub_libraries.py SITE_PACKAGES/torch/lib", file=sys.stderr)
        return 2
    for soname, count in make_stubs(sys.argv[1]).items():
        print(f"{soname}: {count} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
