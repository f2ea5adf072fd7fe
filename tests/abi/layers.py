"""Includes go one way only. A room includes itself, rooms to its left, and public headers;
a plug-in only public headers; examples and public headers only public headers.

usage: layers.py SOURCE-DIRECTORY
"""
import os
import re
import sys

ROOMS = ["base", "format", "record", "trace", "session", "cpu", "analyze", "export", "profiler", "ondemand", "plugincheck", "cli"]
# Large rooms have modules, for which the same holds; a header of the room itself (trace.h) is for all.
MODULES = {
    "trace": ["bytes", "repair", "model", "from_recording", "unwind", "import", "read", "files", "transform"],
    "ondemand": ["request", "support", "output", "dynolog", "controller", "wire", "listen", "capture", "process"],
    "analyze": ["verify", "summary", "classes", "tables", "dataset", "ranks", "facts", "critical", "findings", "overview", "saved", "diff", "compat"],
    "cli": ["facts", "summary", "live", "launch", "ondemand", "query", "mcp", "diff", "bench", "report", "history"],
}
# Public headers that exist when only the recording library is there.
RECORDING = {"base.h", "record.h", "function.h", "plugin.h", "host.h"}


def includes(path):
    """(line number, '<' or '"', name) of every include of a file."""
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found[1], found[2]


def sources(top):
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".def")):
                yield os.path.join(folder, name)


def find_module(path):
    """Its room and its place among the room's modules; None: it is in none."""
    parts = path.split("/")
    return (parts[0], MODULES[parts[0]].index(parts[1])) if parts[0] in MODULES and len(parts) > 2 else None


def check_module(path, number, inside, name, faults):
    here, there = find_module(inside), find_module(name)
    if here and there and here[0] == there[0] and there[1] > here[1]:
        faults.append(f'{path}:{number}: {MODULES[here[0]][here[1]]} must not include "{name}"')


def check_room(root, room, counts, faults):
    allowed = ROOMS[:ROOMS.index(room) + 1]
    for path in sources(os.path.join(root, "src", room)):
        for number, quote, name in includes(path):
            if quote == "<":
                if name.startswith("ckineto/") and ROOMS.index(room) < ROOMS.index("trace"):
                    if name.split("/")[1] not in RECORDING:
                        faults.append(f"{path}:{number}: <{name}> does not belong to the recording library")
                continue
            target = name.split("/")[0] if "/" in name else room
            if target not in ROOMS:
                faults.append(f'{path}:{number}: "{name}" is in no room')
                continue
            counts[room, target] = counts.get((room, target), 0) + 1
            check_module(path, number, os.path.relpath(path, os.path.join(root, "src")), name, faults)
            if target not in allowed:
                faults.append(f'{path}:{number}: {room} must not include "{name}": {target} is to its right')


def check_outside(root, folder, faults):
    for path in sources(os.path.join(root, folder)):
        for number, quote, name in includes(path):
            if quote == '"' and not os.path.exists(os.path.join(os.path.dirname(path), name)):
                faults.append(f'{path}:{number}: "{name}": {folder} may use public headers only')


def table(counts):
    """Rows include columns; the lower left triangle is the one direction."""
    print("includes of".ljust(12) + "".join(r.rjust(9) for r in ROOMS))
    for row in ROOMS:
        cells = (str(counts.get((row, column), "") or ".") for column in ROOMS)
        print(row.ljust(12) + "".join(c.rjust(9) for c in cells))


def main():
    root = sys.argv[1]
    counts, faults = {}, []
    unknown = [d for d in os.listdir(os.path.join(root, "src"))
               if os.path.isdir(os.path.join(root, "src", d)) and d not in ROOMS]
    faults += [f"src/{d} is an unknown layer" for d in unknown]
    for room in ROOMS:
        check_room(root, room, counts, faults)
    for folder in ("include", "plugins", "examples"):
        check_outside(root, folder, faults)
    table(counts)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
