"""What a library or program asks of the dynamic linker.

usage: elf.py [--libc-only] [--nodelete] FILE-OR-DIRECTORY...
Always: no text relocations, no executable stack, no C++ runtime. With --libc-only: nothing but
libc and the loader is NEEDED. With --nodelete: marked to stay loaded.
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


def faults_of(path, libc_only, nodelete):
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
    if nodelete and not re.search(r"FLAGS_1.*NODELETE", dynamic):
        yield "is not marked nodelete"


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
        for fault in faults_of(path, "--libc-only" in options, "--nodelete" in options):
            print(f"{path}: {fault}")
            failed = True
    return 1 if failed else 0


sys.exit(main())
