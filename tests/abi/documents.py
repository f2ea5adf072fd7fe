"""What the documents say is so: the README's program is the example, links lead to pages and headings, every page
is in the index, every picture on a page, tables are whole, names and targets of `make` exist, every setting is documented, the version is the same everywhere.

usage: documents.py SOURCE-DIRECTORY
       documents.py --installed DIRECTORY     only the links and the index, of pages that were installed
"""
import os
import re
import sys


# Folders of pages, each of which is in the index.
PAGES = tuple(f"docs/{kind}" for kind in ("tutorial", "how-to", "reference", "explanation", "project"))


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def documents(root):
    """Markdown files of the project."""
    for folder in ("", "docs", *PAGES, "docs/api", "docs/findings", "examples", "examples/vendor-plugin", "tests", "tests/data"):
        if not os.path.isdir(os.path.join(root, folder)):
            continue  # not installed
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def listings(root, faults):
    blocks = re.findall(r"```c\n(.*?)```", read(root, "README.md"), flags=re.S)
    if read(root, "examples", "self_record.c") not in blocks:
        faults.append("README.md: no code block equals examples/self_record.c")


def prose(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)


def anchors(text):
    """Names that headings have in links, as a page of Markdown is shown."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *$", prose(text), flags=re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("\\", "")
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        numbered = (f"{name}-{n}" for n in range(1, 100))
        found.add(name if name not in found else next(n for n in numbered if n not in found))
    return found


def links(root, faults):
    known = {}
    for document in documents(root):
        for target in re.findall(r"\]\(<?([^)>\s]+)", re.sub(r"`[^`\n]*`", "", prose(read(root, document)))):
            path, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(document), path) if path else document)
            if not os.path.exists(os.path.join(root, path)):
                faults.append(f"{document}: {target} does not exist")
            elif anchor and path.endswith(".md"):
                if path not in known:
                    known[path] = anchors(read(root, path))
                if anchor not in known[path]:
                    faults.append(f"{document}: {target}: no such heading")


def pages(root, faults):
    """Every page is in docs/index.md."""
    index = read(root, "docs", "index.md")
    for folder in ("docs", *PAGES):
        for name in sorted(os.listdir(os.path.join(root, folder))):
            link = os.path.relpath(os.path.join(folder, name), "docs")
            if name.endswith(".md") and name != "index.md" and f"]({link}" not in index:
                faults.append(f"docs/index.md: {link} is not named")


def images(root, faults):
    """Every picture is on a page."""
    shown = "".join(read(root, document) for document in documents(root))
    for name in sorted(os.listdir(os.path.join(root, "docs", "images"))):
        if f"images/{name})" not in shown:
            faults.append(f"docs/images/{name} is on no page")


def cells(line):
    """How many cells a line of a table has."""
    return len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", ""), line)))


def tables(root, faults):
    """Tables are whole: every row ends, and has as many cells as the first."""
    for document in documents(root):
        first = 0
        for line in prose(read(root, document)).splitlines():
            if not line.startswith("|"):
                first = 0
            elif not line.rstrip().endswith("|"):
                faults.append(f"{document}: a row of a table has no end: {line[:60]}…")
            elif first and cells(line) != first:
                faults.append(f"{document}: a row of a table has {cells(line) - 1} cells of {first - 1}: {line[:60]}…")
            else:
                first = cells(line)


SOURCES = (".h", ".hpp", ".c", ".def", ".txt", ".cmake", ".py", ".rs", "Makefile")


def words_of_sources(root):
    """Words of all sources, and names that the headers' tables make: X(OK, …) of KINETO_STATUS_MAP is KINETO_OK."""
    words = {"kineto_noun_verb"}  # the form of names
    words |= set(re.findall(r"CKINETO_\w+", read(root, "Makefile") + read(root, "CMakeLists.txt")))
    for folder in ("include", "src", "plugins", "bridges", "python", "examples", "cmake", "tests"):
        for place, _, files in os.walk(os.path.join(root, folder)):
            for name in files:
                if name.endswith(SOURCES):
                    words |= set(re.findall(r"\w*KINETO_\w+|\w*kineto_\w+|KinetoPlugin_\w+", read(place, name)))
    for name in os.listdir(os.path.join(root, "include/ckineto")):
        words |= {made + "_init" for made in re.findall(r"KINETO_INIT_FUNCTION\((\w+)\)",
                                                        read(root, "include/ckineto", name))}
        for table, body in re.findall(r"#define KINETO_(\w+)_MAP\(X\)(.*?)\n\n", read(root, "include/ckineto", name),
                                      flags=re.S):
            for item in re.findall(r"X\((\w+),", body):
                words |= {f"KINETO_{table}_{item}", f"KINETO_{item}"}
    return words


def names(root, faults):
    """What documents call by a name of ours is somewhere; a beginning of names has … or * or _ after it."""
    words = words_of_sources(root)
    for document in documents(root):
        text = re.sub(r"\]\([^)]*\)", "]", read(root, document))
        for name in sorted(set(re.findall(r"\b(?:C?KINETO|kineto|KinetoPlugin)_\w+(?![\w…*])", text)) - words):
            if not name.endswith("_"):
                faults.append(f"{document}: there is no {name}")


def targets(root, faults):
    known = set(re.findall(r"^([a-z0-9-]+):", read(root, "Makefile"), flags=re.M))
    for document in documents(root):
        for target in re.findall(r"`make ([a-z0-9-]+)", read(root, document)):
            if target not in known:
                faults.append(f"{document}: `make {target}` is an unknown target")


def settings_table(root):
    """The table of environment variables, from the one place that knows them."""
    rows = re.findall(r'^X\((\w+), "(.*?)", "(.*?)",\s*((?:"[^"]*"\s*)+)\)', read(root, "src/base/settings.def"),
                      flags=re.M)
    lines = ["| variable | value | default | description |", "|---|---|---|---|"]
    for name, values, initial, text in rows:
        lines.append(f"| `{name}` | {values} | {initial} | {''.join(re.findall(chr(34) + '(.*?)' + chr(34), text))} |")
    return "\n".join(lines) + "\n"


def settings(root, faults):
    if settings_table(root) not in read(root, "docs/reference/settings.md"):
        faults.append("docs/reference/settings.md: must contain this table:\n" + settings_table(root))


def versions(root, faults):
    version = re.search(r'KINETO_VERSION "([^"]+)"', read(root, "include/ckineto/base.h"))[1]
    if not read(root, "debian/changelog").startswith(f"ckineto ({version})"):
        faults.append(f"debian/changelog: does not begin with <ckineto/base.h>'s version, {version}")
    if f"## {version}" not in read(root, "CHANGELOG.md"):
        faults.append(f"CHANGELOG.md: no section for {version}")
    for name in sorted(os.listdir(os.path.join(root, "docs/man"))):
        first = read(root, "docs/man", name).split("\n")[0]
        if f'"ckineto {version}"' not in first and not first.startswith(".so "): # another name of a page
            faults.append(f"docs/man/{name}: its first line does not name version {version}")
    numbers = dict(re.findall(r"#define KINETO_VERSION_(MAJOR|MINOR|PATCH) (\d+)", read(root, "include/ckineto/base.h")))
    if ".".join(numbers.get(part, "") for part in ("MAJOR", "MINOR", "PATCH")) != version:
        faults.append(f"include/ckineto/base.h: the numbers {numbers} are not {version}")


def main():
    *option, root = sys.argv[1:]
    checks = (links, pages) if option == ["--installed"] else (
        listings, links, pages, images, tables, names, targets, settings, versions)
    faults = []
    for check in checks:
        check(root, faults)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
