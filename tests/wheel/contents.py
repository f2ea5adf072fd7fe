"""What is in a wheel: names, modes, RECORD, metadata, the versions of symbols and the libraries that are needed.

usage: contents.py WHEEL SOURCE-DIRECTORY
"""
import base64
import configparser
import csv
import hashlib
import io
import os
import re
import stat
import subprocess
import sys
import tempfile
import zipfile
from typing import List, Set

GLIBC = (2, 28)
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
OURS = {"libckineto-rt.so.0", "libckineto.so.0"}
# PyTorch's process has these, and a C++ runtime that is as new as PyTorch needs.
OF_TORCH = {"libtorch_cpu.so", "libc10.so", "libstdc++.so.6", "libgcc_s.so.1"}
NATIVE = "ckineto/_native/"
FILES = (
    "ckineto/__init__.py",
    "ckineto/py.typed",
    "ckineto/_autoload.py",
    NATIVE + "bin/ckineto",
    NATIVE + "lib/libckineto.so.0",
    NATIVE + "lib/libckineto-rt.so.0",
    NATIVE + "lib/ckineto/ckineto-sim.so",
    NATIVE + "lib/ckineto/ckineto-opencl.so",
    NATIVE + "lib/ckineto/ckineto-vulkan.so",
    NATIVE + "lib/ckineto/ckineto-vulkan.json",
    NATIVE + "lib/ckineto/ckineto-cuda.so",
    NATIVE + "lib/ckineto/ckineto-rocm.so",
    NATIVE + "lib/ckineto/ckineto-xpu.so",
    NATIVE + "lib/ckineto/ckineto-nvtx.so",
    NATIVE + "lib/ckineto/ckineto-itt.so",
    NATIVE + "lib/ckineto/ckineto-openmp.so", NATIVE + "lib/ckineto/libckineto-gomp.so",
    NATIVE + "lib/ckineto/libckineto-memory.so",
    NATIVE + "lib/ckineto/libckineto-roctx.so",
    NATIVE + "lib/ckineto/libckineto-mpi.so",
    NATIVE + "lib/ckineto/libckineto-waits.so",
    NATIVE + "lib/ckineto/libckineto-timers.so",
    NATIVE + "lib/ckineto/python/ckineto_attach/autoload.py",
    NATIVE + "lib/ckineto/python/ckineto_attach/bridge_source/bridge.cc",
    NATIVE + "lib/ckineto/python/ckineto_attach/native/stacks-profile.so",
    NATIVE + "lib/ckineto/python/ckineto_attach/native/stacks-monitoring.abi3.so",
    NATIVE + "lib/pkgconfig/ckineto.pc",
    NATIVE + "lib/cmake/ckineto/ckinetoConfig.cmake",
    NATIVE + "include/ckineto/plugin.h",
    NATIVE + "licenses/zlib.txt",
)

faults: List[str] = []


def check(condition: object, text: str) -> None:
    if not condition:
        faults.append(text)


def output_of(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def check_names(archive: zipfile.ZipFile, version: str) -> None:
    names = archive.namelist()
    for name in FILES:
        check(name in names, "%s is missing" % name)
    metadata = NATIVE + "lib/ckineto/python/ckineto_attach-%s.egg-info/entry_points.txt" % version
    check(metadata in names, "%s is missing" % metadata)
    top = {name.split("/")[0] for name in names}
    check(top == {"ckineto", "ckineto-%s.dist-info" % version, "ckineto-%s.data" % version},
          "top level: %s" % ", ".join(sorted(top)))
    check(len(set(names)) == len(names), "a name is there twice")
    for name in names:
        check(not re.search(r"__pycache__|\.pyc$|\.a$|~$", name), "%s should not be there" % name)
    check(not any(name.endswith(".so.0.1.0") for name in names), "libraries are there twice")


def check_modes(archive: zipfile.ZipFile) -> None:
    times = set()
    for info in archive.infolist():
        mode = info.external_attr >> 16
        check(stat.S_ISREG(mode), "%s is not a regular file" % info.filename)
        library = ".so" in os.path.basename(info.filename)  # for these, distributions disagree
        wanted = 0o755 if info.filename == NATIVE + "bin/ckineto" else 0o644
        check(stat.S_IMODE(mode) == wanted or (library and stat.S_IMODE(mode) == 0o755),
              "%s has mode %o" % (info.filename, stat.S_IMODE(mode)))
        times.add(info.date_time)
    check(len(times) == 1, "files have %d different times: it cannot be made again" % len(times))


def check_record(archive: zipfile.ZipFile, version: str) -> None:
    name = "ckineto-%s.dist-info/RECORD" % version
    rows = {row[0]: row for row in csv.reader(io.StringIO(archive.read(name).decode()))}
    check(set(rows) == set(archive.namelist()), "RECORD lists other files than there are")
    for path, digest, size in rows.values():
        if path == name:
            continue
        data = archive.read(path)
        wanted = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        check(digest == wanted and int(size) == len(data), "RECORD is wrong about %s" % path)


def check_metadata(archive: zipfile.ZipFile, version: str, tag: str) -> None:
    folder = "ckineto-%s.dist-info/" % version
    wheel = archive.read(folder + "WHEEL").decode()
    check("Tag: py3-none-" + tag in wheel.splitlines(), "WHEEL has another tag")
    metadata = archive.read(folder + "METADATA").decode()
    for line in ("Name: ckineto", "Version: " + version, "Requires-Python: >=3.9", "License-Expression: BSD-3-Clause"):
        check(line in metadata.splitlines(), "METADATA lacks '%s'" % line)
    check("Requires-Dist" not in metadata, "METADATA asks for other packages")
    check(not re.search(r"\]\((?!https?:)", metadata), "the description has links that are relative")
    points = configparser.ConfigParser()
    points.read_string(archive.read(folder + "entry_points.txt").decode())
    check(points.get("console_scripts", "ckineto", fallback="") == "ckineto._command:main", "no console script")
    check(points.get("torch.backends", "ckineto", fallback="") == "ckineto._autoload:attach", "no entry for PyTorch")
    module = archive.read("ckineto/__init__.py").decode()
    check('__version__ = "%s"' % version in module or "__version__" not in module, "the module has another version")


def needed_libraries(dynamic: str) -> Set[str]:
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))


def check_binary(path: str, name: str) -> None:
    of_torch = "/bridges/" in name
    dynamic = output_of("readelf", "-dW", path)
    needed = needed_libraries(dynamic)
    others = needed - SYSTEM - OURS - (OF_TORCH if of_torch else set())
    check(not others, "%s needs %s" % (name, ", ".join(sorted(others))))
    for found in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic):
        check(all(part.startswith("$ORIGIN") for part in found.split(":")), "%s has the run path %s" % (name, found))
    for library, version in re.findall(r"Name: (GLIBC|GLIBCXX)_([0-9.]+)", output_of("readelf", "-VW", path)):
        most = GLIBC if library == "GLIBC" else (3, 4, 24)
        check(tuple(map(int, version.split("."))) <= most, "%s needs %s %s" % (name, library, version))
    symbols = output_of("nm", "-D", "--defined-only", path)
    bundled = re.findall(r" [TWBDR] ((?:ZSTD_|sqlite3_|isal_|deflate|inflate|crc32|adler32)\w*)", symbols)
    check(not bundled, "%s exports symbols of a library that is linked statically: %s" % (name, bundled[:3]))
    check(".debug_info" not in output_of("readelf", "-SW", path), "%s is not stripped" % name)


def check_files(folder: str, source: str) -> None:
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                data = file.read()
            shown = os.path.relpath(path, folder)
            check(os.fsencode(source) + b"/" not in data, "%s names the folder that it was built in" % shown)
            check(b"/tmp/" not in data or not shown.endswith((".pc", ".cmake")), "%s names a temporary folder" % shown)
            if data[:4] == b"\x7fELF":
                check_binary(path, shown)


def main() -> int:
    wheel, source = sys.argv[1], os.path.realpath(sys.argv[2])
    with open(os.path.join(source, "include", "ckineto", "base.h")) as file:
        version = re.search(r'define KINETO_VERSION "(.*)"', file.read())[1]
    tag = os.path.basename(wheel)[:-len(".whl")].split("-")[-1]
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        check_names(archive, version)
        check_modes(archive)
        check_record(archive, version)
        check_metadata(archive, version, tag)
        archive.extractall(folder)
        check_files(folder, source)
    for fault in faults:
        print("%s: %s" % (os.path.basename(wheel), fault))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
