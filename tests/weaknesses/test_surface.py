"""Nothing public is dead: every exported function is called by a test, an example or the command,
and every setting is read by the library or by what is installed next to it.

usage: test_surface.py SOURCE-DIRECTORY
"""
import os
import re
import sys


def sources(root, *folders):
    """The text of all C, C++ and Python files below the folders."""
    for folder in folders:
        for directory, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith((".c", ".h", ".hpp", ".cc", ".cpp", ".py", ".sh")):
                    with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
                        yield file.read()


WORD = re.compile(r"\b(?:kineto|KINETO|CKINETO|[A-Z][A-Z0-9_]*)\w*")


def words(root, *folders):
    """Those that may be names of ours, or of settings."""
    return set().union(*(WORD.findall(text) for text in sources(root, *folders)))


def exported(root):
    for name in ("ckineto.map", "ckineto-rt.map"):
        with open(os.path.join(root, "src", name), encoding="utf-8") as file:
            part = re.search(r"global:(.*?)local:", file.read(), flags=re.S)[1]
        yield from re.findall(r"(\w+);", part)


def settings(root):
    with open(os.path.join(root, "src/base/settings.def"), encoding="utf-8") as file:
        return re.findall(r"^X\((\w+),", file.read(), flags=re.M)


def main(root):
    called = words(root, "tests", "examples", "src/cli", "plugins")
    headers = [name for text in sources(root, "include/ckineto") for name in WORD.findall(text)]
    faults = []
    # Named twice in the headers: an inline function calls it.
    for name in exported(root):
        if name not in called and headers.count(name) < 2:
            faults.append(f"{name} is exported, and called by no test, example or command")
    readers = words(root, "src", "plugins", "include")
    unread = set() if os.path.isdir(os.path.join(root, "src/ondemand")) else {"KINETO_USE_DAEMON"}
    for name in settings(root):
        if name not in readers | unread:
            faults.append(f"{name} is a setting that nothing reads")
    print("\n".join(faults) or "all is used")
    return 1 if faults else 0


sys.exit(main(sys.argv[1]))
