"""C and C++ of the documents is compiled.

    fragments.py            CKINETO_SOURCE, CKINETO_BUILD, CC, CXX

Each block of ```c or ```cpp in the README, the pages and the comments of public headers (docs/api) is one of these:
lines of a source of this tree, where they are compiled; a whole program, which is built and run; a fragment, compiled
in the frame of frame.h: functions and macros of its beginning at file scope, all else in a function's body; or it has
`<!-- not compiled: why -->` in front of it.
"""

import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = os.environ.get("CKINETO_SOURCE", ""), os.environ.get("CKINETO_BUILD", "")
CC, CXX = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
PAGES = ("*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md", "plugins/*/*.md", "tests/*.md")
SOURCES = ("plugins/*/*.[ch]", "examples/**/*.[ch]")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-parameter", "-Wno-return-type",
            "-Wno-missing-field-initializers"]
OUTSIDE = re.compile(r"^(?:#|KINETO_OPERATOR\()[^\n]*$|^(?:static )?\w+ \*?\w+\([^;{]*\)\n\{\n.*?^\}", flags=re.S | re.M)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def files(patterns):
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(SOURCE, pattern), recursive=True)):
            yield os.path.relpath(path, SOURCE)


class Block:
    def __init__(self, path, before, language, text):
        self.path, self.language, self.text = path, language, text
        self.line = before.count("\n") + 2
        self.reason = re.search(r"<!-- not compiled: (.*?) -->\s*\Z", before)
        self.declares = path.startswith("docs/api/") and re.search(r"^### .*\s*\Z", before, flags=re.M)
        self.where = f"{path}:{self.line}"


def blocks():
    for path in files(PAGES):
        text = read(path)
        for found in re.finditer(r"^```(c|cpp)\n(.*?)^```", text, flags=re.S | re.M):
            yield Block(path, text[:found.start()], found[1], found[2])


def squeezed(text):
    return " ".join(text.split())


def stands_in(text, sources):
    """Are all pieces of it, between lines of `…`, in one source?"""
    pieces = [squeezed(piece) for piece in re.split(r"^\s*(?:…|\.\.\.)\s*$", text, flags=re.M)]
    return any(all(piece in source for piece in pieces) for source in sources)


def without_ellipses(text):
    text = text.replace("(…)", "(;;)")
    return re.sub(r"…|(?m:^\s*\.\.\.)", "", text)


def framed(block):
    """A fragment as a translation unit; lines keep their numbers."""
    outside = []

    def hoist(found):
        line = block.line + text[:found.start()].count("\n")
        outside.append(f'#line {line} "{block.path}"\n{found[0]}')
        return "\n" * found[0].count("\n")

    text = without_ellipses(block.text)
    inside = OUTSIDE.sub(hoist, text)
    return "\n".join([*outside, "int fragment(void);", "int fragment(void)", "{",
                      f'#line {block.line} "{block.path}"', inside, "}", ""])


def compiled(arguments):
    """None, or what the compiler says."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    return done.stderr.strip()[:2000] or f"{arguments[0]} fails" if done.returncode else None


def compiler(language):
    command = [CC, "-std=gnu11"] if language == "c" else [CXX, "-std=c++17"]
    return [*command, *WARNINGS, f"-I{SOURCE}/include"]


def fragment_fault(block, folder, name):
    path = os.path.join(folder, f"{name}.{block.language}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(framed(block))
    frame = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frame.h")
    return compiled([*compiler(block.language), "-fsyntax-only", "-include", frame, path])


def program_fault(block, folder, name):
    """Builds and runs it, in a directory of its own."""
    there = os.path.join(folder, f"{name}-program")
    os.mkdir(there)
    path = os.path.join(there, f"program.{block.language}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(block.text)
    library = f"{BUILD}/lib"
    fault = compiled([*compiler(block.language), "-o", f"{there}/program", path, f"-L{library}", "-lckineto", "-lckineto-rt",
                      f"-Wl,-rpath,{library}"])
    if fault:
        return fault
    done = subprocess.run([f"{there}/program"], cwd=there, capture_output=True, text=True, timeout=60, check=False)
    return f"ends with {done.returncode}: {done.stderr.strip()}" if done.returncode else None


def kind_of(block, sources):
    if block.reason:
        return "not compiled"
    if block.declares:
        return "declarations of headers"
    if block.language == "cpp" and not shutil.which(CXX):
        return f"in C++, and {CXX} is not here"
    if re.search(r"^int main\(", block.text, flags=re.M):
        return "programs"
    return "lines of sources" if stands_in(block.text, sources) else "fragments"


def main():
    if not (SOURCE and BUILD):
        print("run by ctest: skipped")
        return 77
    sources = [squeezed(read(path)) for path in files(SOURCES)]
    todo = [(block, kind_of(block, sources)) for block in blocks()]
    checks = {"fragments": fragment_fault, "programs": program_fault}
    with tempfile.TemporaryDirectory(prefix="ckineto-docs-") as folder, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda one: checks[one[1][1]](one[1][0], folder, one[0]) if one[1][1] in checks else None,
                                enumerate(todo)))
    faults = [f"{block.where}: {result}" for (block, _), result in zip(todo, results) if result]
    kinds = [kind for _, kind in todo]
    print("\n".join([*faults, *(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))]))
    return 1 if faults or kinds.count("fragments") < 20 or not kinds.count("programs") else 0


sys.exit(main())
