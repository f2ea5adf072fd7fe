"""What a library or program asks of the dynamic linker.

usage: elf.py [--libc-only] [--any-libc] [--nodelete] [--hardened] [--canary] [--guarded] [--sonames=N]
              FILE-OR-DIRECTORY...
Always: no text relocations, no executable stack, no C++ runtime. With --libc-only: nothing but
libc and the loader is NEEDED. With --nodelete: marked to stay loaded. With --hardened: what the
linker makes of cmake/Harden.cmake; with --canary: what the compiler makes of it, with --guarded: and
libc's checks of sizes. With --any-libc: no function of glibc is needed that musl does not have. With --sonames:
named libNAME.so.N, and nothing of ours is NEEDED by another number.
"""
import os
import re
import subprocess
import sys

LIBC = re.compile(r"(libc\.so\.6|libc\.musl.*|ld-linux.*|ld64\.so.*|ld-musl.*)$")
CXX = re.compile(r"lib(stdc\+\+|c\+\+|c\+\+abi|gcc_s)\.so")


def readelf(option, path):
    return subprocess.run(["readelf", option, "--wide", path], check=True, capture_output=True,
                          text=True).stdout


def protections_of(path, dynamic):
    """What is missing of the linker's protections."""
    segments = readelf("--segments", path)
    if "GNU_RELRO" not in segments:
        yield "has no GNU_RELRO: tables of the dynamic linker stay writable"
    if not re.search(r"\(BIND_NOW\)|FLAGS.*\bNOW\b", dynamic):
        yield "is bound lazily: its table of functions stays writable"
    if not re.search(r"GNU_STACK.*RW ", segments):
        yield "does not say that its stack is not executable"
    if re.search(r"LOAD.* RWE ", segments):
        yield "has a segment that can be written and executed"
    if re.search(r"Type:\s+EXEC", readelf("--file-header", path)):
        yield "is loaded at a fixed address: not a PIE"


def canary_of(path):
    """Did the compiler guard stacks and sizes?"""
    names = readelf("--dyn-syms", path)
    if "__stack_chk_fail" not in names:
        yield "was compiled without -fstack-protector"


def guards_of(path):
    names = readelf("--dyn-syms", path)
    if not re.search(r"__\w+_chk\b", names.replace("__stack_chk_fail", "")):
        yield "was compiled without _FORTIFY_SOURCE"


GLIBC_ONLY = re.compile(r"__\w+_chk|__register_atfork|__sched_cpucount|strerrordesc_np|__libc_\w+|qsort_r|fcntl64")


def glibc_only(path):
    """Functions of glibc that have to be there: weak ones may be absent."""
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] != "UND" or fields[4] == "WEAK":
            continue
        name = fields[7].partition("@")[0]
        if GLIBC_ONLY.fullmatch(name) and name != "__stack_chk_fail":
            yield f"needs {name}, which musl does not have: no program of musl starts with it preloaded"


def names_of(path, dynamic, needed, number):
    soname = re.search(r"\(SONAME\).*\[(.*?)\]", dynamic)
    stem = re.match(r"lib[a-z-]+\.so", os.path.basename(path))
    if stem and (not soname or soname.group(1) != f"{stem.group(0)}.{number}"):
        yield f"has the soname {soname and soname.group(1)}, not {stem.group(0)}.{number}"
    for library in needed:
        if library.startswith("libckineto") and not library.endswith(f".so.{number}"):
            yield f"needs {library}, not its soname"


def faults_of(path, options):
    libc_only, nodelete = "--libc-only" in options, "--nodelete" in options
    dynamic = readelf("--dynamic", path)
    needed = re.findall(r"\(NEEDED\).*\[(.*?)\]", dynamic)
    print(f"{os.path.basename(path)}: needs {', '.join(needed) or 'nothing'}")
    if "TEXTREL" in dynamic:
        yield "has text relocations: something was not compiled as position independent code"
    if re.search(r"GNU_STACK.*RWE", readelf("--segments", path)):
        yield "asks for an executable stack"
    for run_path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*?)\]", dynamic):
        if "" in run_path.split(":"):
            yield "has an empty element in its run path: libraries would be taken from anywhere"
    for library in needed:
        if CXX.match(library):
            yield f"needs {library}, a C++ runtime"
        elif libc_only and not LIBC.match(library):
            yield f"needs {library}, more than libc"
    loaded = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    for library in re.findall(r"^\s*(\S+) =>", loaded, flags=re.M):
        if CXX.match(library) and library not in needed:
            yield f"loads {library}, a C++ runtime, through a library that it needs"
    if nodelete and not re.search(r"FLAGS_1.*NODELETE", dynamic):
        yield "is not marked nodelete"
    if "--hardened" in options:
        yield from protections_of(path, dynamic)
    if "--canary" in options or "--guarded" in options:
        yield from canary_of(path)
    if "--guarded" in options:
        yield from guards_of(path)
    if "--any-libc" in options:
        yield from glibc_only(path)
    for option in options:
        if option.startswith("--sonames="):
            yield from names_of(path, dynamic, needed, option.partition("=")[2])


def files(arguments):
    for argument in arguments:
        if os.path.isdir(argument):
            yield from sorted(os.path.join(argument, n) for n in os.listdir(argument) if ".so" in n)
        elif os.path.exists(argument) or not argument.endswith("/ckineto"):
            yield argument


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    failed = False
    for path in files(a for a in sys.argv[1:] if not a.startswith("--")):
        for fault in faults_of(path, options):
            print(f"{path}: {fault}")
            failed = True
    return 1 if failed else 0


sys.exit(main())
