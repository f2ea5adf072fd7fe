"""docs/api: a page for each public header, made of its declarations and comments.

    api.py SOURCE-DIRECTORY            are the pages what the headers make, and does every function say enough?
    api.py SOURCE-DIRECTORY --write    make them

A comment belongs to the declarations that follow it without a blank line or another comment between. Every
function must have one, with a thread rule ("threads: any."; the comment of the file may give one for all that
have none), and with what it returns: a status must name the errors, a pointer whose it is.
"""

import difflib
import os
import re
import sys

import api_cpp
from api_headers import PUBLIC, Header, without_trailing

WORDS = {"hot": "hot", "any": "any", "owner": "owner"}
# Names of older versions have no pages.
OLD_NAMES = ("deprecated.h", "profile.h")
CPP, CPP_PAGE = "ckineto.hpp", "ckineto-hpp.md"
HEAD = """# API reference

One page for each header of [include/ckineto](../../include/ckineto), made of its declarations and comments by
`tests/abi/api.py . --write`; a test compares them.

| rule | where a function may be called |
|---|---|
| `hot` | any thread, also in a signal handler; never blocks, locks, allocates |
| `any` | any thread; may lock or allocate |
| `owner` | one thread at a time for each handle |

Everywhere: times are integer nanoseconds since the Unix epoch, unless a name ends in another unit. Functions that
can fail return a [`kineto_status`](base.md) and fill in a `kineto_error`, which may be NULL. Getters return false if
there is no such thing. Structs of a program's own begin with their `size`, which has to be set. *Since* is the version
of the symbol in the library: 0.1 is the first.

Pointers must not be NULL unless it is said. A function that returns a status refuses NULL: `KINETO_E_ARGUMENT`,
"FUNCTION: ARGUMENT must not be NULL". For other functions a handle that is NULL is an empty one: they return false,
NULL or 0, or do nothing. Only functions that record do not check.

## Objects and who frees them

What is *borrowed* is valid as long as the object it was asked of. What a function makes is freed by the `…_destroy` of
its type, or by `…_release` if it has owners that are counted; both ignore NULL.

| object | made by | freed by |
|---|---|---|
"""
# What has no type of its own: what, made by, freed by.
OTHER_OBJECTS = (
    ("text, `char *`", ("kineto_averages_text", "kineto_event_metadata_json"), "`free`"),
    ("`struct ArrowArrayStream`", ("kineto_trace_arrow_stream",), "its member `release`"),
    ("callback, `kineto_callback`", ("kineto_function_add_global", "kineto_function_add_local"),
     "kineto_function_remove"),
)


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def symbol_versions(source):
    """Exported name -> (library, version)."""
    found = {}
    for library, path in (("libckineto", "src/ckineto.map"), ("libckineto-rt", "src/ckineto-rt.map")):
        for version, body in re.findall(r"CKINETO_([\d.]+) \{(.*?)\}", read(source, path), flags=re.S):
            found.update({name: (library, version) for name in re.findall(r"(\w+);", body)})
    return found


class Book:
    """What pages say of each other: where a name is explained, and in which library it is."""

    def __init__(self, source):
        self.versions = symbol_versions(source)
        folder = os.path.join(source, "include/ckineto")
        names = sorted(n for n in os.listdir(folder) if n.endswith(".h") and n not in OLD_NAMES)
        self.cpp = read(folder, CPP)
        self.headers = [Header(n, read(folder, n)) for n in names]
        self.home = {}
        for header in self.headers:
            for group in header.groups:
                for item in group.items:
                    self.home.setdefault(item.name, f"{page_name(header.name)}#{anchor(group)}")

    def words(self, text, page):
        """A comment's text as Markdown: names become code, headers links."""
        parts = re.split(r"(`[^`]*`)", text)
        for i in range(0, len(parts), 2):
            part = re.sub(r"(?<!\w)\*(\w+)\*(?!\w)|([*|])", lambda m: m[0] if m[1] else "\\" + m[2], parts[i])
            part = re.sub(r"<ckineto/(\w+)\.h>", lambda m: f"[\\<ckineto/{m[1]}.h>]({m[1]}.md)", part)
            part = re.sub(r"(?<!\\)<(?=[A-Za-z/!])", r"\\<", part)
            part = re.sub(r"docs/([\w./-]+\.md)", lambda m: f"[{os.path.basename(m[1])}](../{m[1]})", part)
            part = re.sub(r"\b(?:kineto|KINETO|Kineto)[A-Za-z]*_\w+…?", lambda m: self.link(m[0], page), part)
            parts[i] = part
        return "".join(parts)

    def link(self, name, page):
        home = self.home.get(name)
        if home is None or home.split("#")[0] == page:
            return f"`{name}`"
        return f"[`{name}`]({home})"


def page_name(header):
    return header.replace(".h", ".md")


def anchor(group):
    return re.sub(r"[^\w\- ]", "", title(group).lower()).replace(" ", "-")


def title(group):
    """Names of the group's functions or types; of many, the first ones."""
    names = [i.name for i in group.items if i.kind != "macro"] or [i.name for i in group.items]
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")


def bullet(lines):
    """An item of a list, taken from the front of lines: what is further in than its dash goes on with it."""
    first = lines.pop(0)
    depth, words = len(first) - len(first.lstrip()), [first.strip()]
    while lines and not is_bullet(lines[0]) and lines[0].startswith(" " * (depth + 1)):
        words.append(lines.pop(0).strip())
    return " ".join(words)


def is_bullet(line):
    return line.lstrip().startswith("- ")


def is_code(line):
    return line.startswith("    ") and not is_bullet(line)


def taken(lines, wanted):
    """The lines at the front that are wanted."""
    count = next((i for i, line in enumerate(lines) if not wanted(line)), len(lines))
    found, lines[:] = lines[:count], lines[count:]
    return found


def paragraphs(text, book, page):
    """Lines of Markdown of a comment: what is indented is code, or a drawing."""
    out = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.split("\n")
        while lines:
            code = [line[4:] for line in taken(lines, is_code)]
            if code:
                out += ["```c" if re.search(r"[(=]", "".join(code)) else "```", *code, "```", ""]
            prose = " ".join(line.strip() for line in taken(lines, lambda line: not is_code(line) and not is_bullet(line)))
            if prose.strip():
                out += [book.words(prose.strip(), page), ""]
            items = []
            while lines and is_bullet(lines[0]):
                items.append(book.words(bullet(lines), page))
            out += items + [""] if items else []
    return out


def facts(group, header, book, page):
    """Parameters, what is returned, threads, library."""
    out = [f"- `{name}`: {book.words(text, page)}" for name, text in group.parameters]
    if group.returns:
        out.append(f"- returns {book.words(group.returns, page)}")
    functions = [i for i in group.items if i.kind == "function"]
    last = []
    if functions:
        last.append(f"threads: {book.words(group.threads or header.threads, page)}")
        homes = sorted({" ".join(book.versions[i.name]) if i.name in book.versions else "inline"
                        for i in functions})
        last += [("in the header" if h == "inline" else f"`{h.split()[0]}`") for h in homes]
        last.append("since " + min(book.versions.get(i.name, ("", "0.1"))[1] for i in functions))
    if last:
        out.append("- " + " · ".join(last))
    return out + [""] if out else []


def group_lines(group, header, book, page):
    out = [f"### {title(group)}", "", "```c", *[without_trailing(i.text) for i in group.items], "```", ""]
    out += paragraphs(group.text, book, page)
    out += [f"- `{i.name}`: {book.words(i.trailing, page)}" for i in group.items if i.trailing and i.kind == "function"]
    return out + facts(group, header, book, page)


def header_page(header, book):
    page = page_name(header.name)
    out = [f"# \\<ckineto/{header.name}>", "", f"[All headers](README.md) · [the header](../../include/ckineto/"
           f"{header.name})", "", *paragraphs(header.text, book, page)]
    if header.threads:
        out += [f"Unless a function says otherwise, threads: {header.threads}.", ""]
    for group in header.groups:
        if group.section:
            out += [f"## {group.section}", "", *paragraphs(group.note.text, book, page)]
        out += group_lines(group, header, book, page)
    return "\n".join(out).rstrip("\n") + "\n"


def makers(book):
    """Type of an object -> the functions that make one: they have an argument `TYPE **`."""
    made = {}
    for header in book.headers:
        for item in (i for g in header.groups for i in g.items if i.kind == "function"):
            for name in re.findall(r"\b(kineto_\w+) \*\*\w+[,)]", item.text):
                made.setdefault(name, []).append(item.name)
    return made


def freeing_function(book, name):
    """The one function that frees an object of a type; None if there is none, or more than one."""
    found = [name + ending for ending in ("_destroy", "_release") if name + ending in book.home]
    return found[0] if len(found) == 1 else None


def object_rows(book):
    for name, functions in sorted(makers(book).items()):
        links = " ".join(book.link(f, "") for f in functions)
        yield f"| {book.link(name, '')} | {links} | {book.link(freeing_function(book, name) or '?', '')} |"
    for name, functions, freed in OTHER_OBJECTS:
        yield f"| {name} | {' '.join(book.link(f, '') for f in functions)} | {book.words(freed, '')} |"


def index_page(book):
    rows = ["", "## Headers", "", "| header | |", "|---|---|"]
    for header in book.headers:
        first = " ".join(header.text.split("\n\n")[0].split())
        first = re.split(r"(?<=[a-z\])])[.:] (?=[A-Z])|(?<=\.)$", first)[0]
        page = page_name(header.name) if header.groups else f"../../include/ckineto/{header.name}"
        rows.append(f"| [\\<ckineto/{header.name}>]({page}) | {book.words(first, page).replace('|', '')} |")
    rows.append(f"| [\\<ckineto/{CPP}>]({CPP_PAGE}) | the same from C++17, by objects that end themselves |")
    names = {i.name for h in book.headers for g in h.groups for i in g.items if i.kind == "function"}
    by_letter = {}
    for name in sorted(names):
        word = (re.match(r"kineto_([a-z]+)", name) or ["", "plug-ins"])[1]
        by_letter.setdefault(word, []).append(f"[`{name}`]({book.home[name]})")
    functions = ["", "## All functions", "", "| | |", "|---|---|"]
    functions += [f"| {word} | {' '.join(links)} |" for word, links in by_letter.items()]
    return HEAD + "\n".join([*object_rows(book), *rows, *functions]) + "\n"


ERRORS = re.compile(r"KINETO_E_|\b[Tt]he same\b|\bas kineto_\w+|what .*(?:met|says|returns|returned)|first failure")
OWNERSHIP = re.compile(r"borrow|static|owner|releas|destroy|frees?\b|freed|copied|valid|literal|ends it|to be ended", re.I)


def status_is_reported(group):
    return ERRORS.search(f"{group.returns} {group.text} {group.note.text}")


def owner_is_reported(group, item):
    """Who gives back what a function hands out: in its comment, or in that of its section."""
    code = " ".join(re.sub(r"/\*.*?\*/", "", item.text, flags=re.S).split())
    returned, _, arguments = code.partition("(")
    pointer = "*" in returned or re.search(r"\*\*\w", arguments)
    parameters = [text for _, text in group.parameters]
    all_text = " ".join([group.text, group.returns, group.note.text, item.trailing, *parameters])
    return not pointer or OWNERSHIP.search(all_text)


def faults_of(header):
    """What functions do not say, though they must."""
    for group in header.groups:
        for item in group.items:
            if item.kind != "function":
                continue
            where = f"{header.name}:{item.line}: {item.name}"
            if not group.text and not group.returns and not item.trailing:
                yield f"{where} has no comment"
                continue
            rule = (group.threads or header.threads).split()
            if not rule or rule[0].strip(".,;") not in WORDS:
                yield f"{where} has no `threads: hot|any|owner`"
            if item.text.startswith("KINETO_API kineto_status ") and not status_is_reported(group):
                yield f"{where} does not say which errors it returns"
            if not owner_is_reported(group, item):
                yield f"{where} does not say whose the pointer is"


def pages(book):
    yield "README.md", index_page(book)
    yield CPP_PAGE, api_cpp.page(book.cpp)
    for header in book.headers:
        if header.groups:
            yield page_name(header.name), header_page(header, book)


def main():
    source = sys.argv[1]
    folder = os.path.join(source, "docs/api")
    book = Book(source)
    wrong = [fault for header in book.headers for fault in faults_of(header)]
    wrong += [f"{name} has neither {name}_destroy nor {name}_release, or both"
              for name in makers(book) if not freeing_function(book, name)]
    made = dict(pages(book))
    if sys.argv[2:] == ["--write"]:
        for name, text in made.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
    for name in sorted(set(os.listdir(folder)) | set(made)):
        old = read(folder, name) if os.path.exists(os.path.join(folder, name)) else ""
        if old != made.get(name, ""):
            wrong.append(f"docs/api/{name} is not what the headers make: tests/abi/api.py . --write")
            wrong += list(difflib.unified_diff(old.splitlines(), made.get(name, "").splitlines(), lineterm=""))[:8]
    functions = sum(i.kind == "function" for h in book.headers for g in h.groups for i in g.items)
    exported = {i.name for h in book.headers for g in h.groups for i in g.items if i.name in book.versions}
    wrong += [f"{name} is exported and on no page" for name in sorted(set(book.versions) - exported - PUBLIC)]
    print("\n".join(wrong + [f"{len(book.headers)} headers, {functions} functions"]))
    sys.exit(1 if wrong else 0)


main()
