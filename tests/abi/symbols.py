"""Exported symbols of a shared library == its symbol map == the declarations in its headers.

usage: symbols.py LIBRARY MAP HEADER...
"""
import re
import subprocess
import sys


def exported(library):
    """name -> version node of every defined dynamic symbol."""
    text = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library],
                          check=True, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        _, kind, symbol = line.split(None, 2)
        name, _, version = symbol.partition("@")
        if kind != "A":  # the version nodes themselves
            found[name] = version.lstrip("@")
    return found


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*(\\\n[^\n]*)*", " ", text, flags=re.S | re.M)


def mapped(path):
    """name -> version node of every global in a linker version script."""
    text = without_comments(open(path).read())
    found = {}
    for node, body in re.findall(r"(\w[\w.]*)\s*\{(.*?)\}", text, flags=re.S):
        for scope, names in re.findall(r"(global|local)\s*:(.*?)(?=global\s*:|local\s*:|\Z)", body,
                                       flags=re.S):
            for name in re.findall(r"[^\s;]+", names):
                if scope == "global":
                    found[name] = node
    return found


def declared(paths):
    """Names that headers declare as exported."""
    mark = r'(?:KINETO_API|__attribute__\(\(visibility\("default"\)\)\))'
    found = set()
    for path in paths:
        for declaration in re.findall(mark + r"([^;{]*);", without_comments(open(path).read())):
            head = declaration.split("(")[0]
            found.add(re.findall(r"\w+", head)[-1])
    return found


def main():
    library, map_path, headers = sys.argv[1], sys.argv[2], sys.argv[3:]
    symbols, nodes, names = exported(library), mapped(map_path), declared(headers)
    faults = [f"{map_path}: {n}: list every name, no wildcards" for n in nodes if "*" in n]
    faults += [f"{n}: exported by {library} but not in {map_path}" for n in symbols.keys() - nodes.keys()]
    faults += [f"{n}: in {map_path} but not exported by {library}" for n in nodes.keys() - symbols.keys()]
    faults += [f"{n}: in {map_path} but declared in none of the headers" for n in nodes.keys() - names]
    faults += [f"{n}: declared in a header but not in {map_path}" for n in names - nodes.keys()]
    faults += [f"{n}: exported as {symbols[n]}, map says {nodes[n]}"
               for n in symbols.keys() & nodes.keys() if symbols[n] != nodes[n]]
    for fault in sorted(faults):
        print(fault)
    print(f"{len(symbols)} symbols exported, {len(nodes)} in the map, {len(names)} declared")
    return 1 if faults or not symbols else 0


sys.exit(main())
