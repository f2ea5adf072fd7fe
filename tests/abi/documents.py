"""What the documents say is so: the README's program is the example, links lead somewhere, targets
of `make` exist, every setting is documented, the version is the same everywhere.

usage: documents.py SOURCE-DIRECTORY
"""
import os
import re
import sys


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def documents(root):
    """Markdown files of the project."""
    for folder in ("", "docs", "tests"):
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if name.endswith(".md"):
                yield os.path.join(folder, name)


def listings(root, faults):
    blocks = re.findall(r"```c\n(.*?)```", read(root, "README.md"), flags=re.S)
    if read(root, "examples", "self_record.c") not in blocks:
        faults.append("README.md: no code block equals examples/self_record.c")


def links(root, faults):
    for document in documents(root):
        text = re.sub(r"```.*?```", "", read(root, document), flags=re.S)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if re.match(r"[a-z]+:", target):
                continue
            if not os.path.exists(os.path.join(root, os.path.dirname(document), target)):
                faults.append(f"{document}: {target} does not exist")


def targets(root, faults):
    known = set(re.findall(r"^([a-z0-9-]+):", read(root, "Makefile"), flags=re.M))
    for document in documents(root):
        for target in re.findall(r"`make ([a-z0-9-]+)", read(root, document)):
            if target not in known:
                faults.append(f"{document}: `make {target}` is no target")


def settings_table(root):
    """The table of environment variables, from the one place that knows them."""
    rows = re.findall(r'^X\((\w+), "(.*?)", "(.*?)",\s*((?:"[^"]*"\s*)+)\)', read(root, "src/base/settings.def"),
                      flags=re.M)
    lines = ["| variable | value | default | |", "|---|---|---|---|"]
    for name, values, initial, text in rows:
        lines.append(f"| `{name}` | {values} | {initial} | {''.join(re.findall(chr(34) + '(.*?)' + chr(34), text))} |")
    return "\n".join(lines) + "\n"


def settings(root, faults):
    if settings_table(root) not in read(root, "docs/settings.md"):
        faults.append("docs/settings.md: must contain this table:\n" + settings_table(root))


def versions(root, faults):
    version = re.search(r'KINETO_VERSION "([^"]+)"', read(root, "include/ckineto/base.h"))[1]
    if f"VERSION {version} " not in read(root, "CMakeLists.txt"):
        faults.append(f"CMakeLists.txt: version differs from <ckineto/base.h>, {version}")
    if f"## {version}" not in read(root, "CHANGELOG.md"):
        faults.append(f"CHANGELOG.md: no section for {version}")


def main():
    faults = []
    for check in (listings, links, targets, settings, versions):
        check(sys.argv[1], faults)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
