"""Reads a header of ours: comments, and the declarations that each is about.

A comment is about what follows it up to an empty line or the next comment. One that is no `/**` may begin a
list: what has no comment of its own in it is the list's.
"""

import re
import textwrap

# Exported, but declared in no public header: between the libraries of one build.
PUBLIC = set()

LEAVE_OUT = re.compile(r"^(#(include|ifndef|if|ifdef|else|elif|endif|undef|pragma)\b|extern \"C\"|\}$)")


class Item:
    """One declaration: kind is function, type, macro or variable."""

    def __init__(self, kind, name, text, line, trailing):
        self.kind, self.name, self.text, self.line, self.trailing = kind, name, text, line, trailing


class Group:
    """A comment and what it is about."""

    def __init__(self, comment, section, note):
        self.items, self.section, self.note = [], section, note
        text, self.threads = take_threads(comment)
        self.threads = self.threads or note.threads
        self.text, self.parameters, self.returns = take_facts(text)


class Note:
    """What a section says of all that is in it."""

    def __init__(self):
        self.text, self.threads = "", None


class Header:
    def __init__(self, name, text):
        self.name, self.groups, self.text, self.threads = name, [], "", ""
        self.seen, self.note = set(), Note()
        self.parse(text)

    def begin_section(self, text):
        self.note = Note()
        first, _, rest = text.partition("\n")
        if rest.strip():
            self.section_says(rest.strip("\n"))
        first = first.strip("- ")
        return first[:1].upper() + first[1:]

    def section_says(self, text):
        text, threads = take_threads(text)
        self.note.text = (self.note.text + "\n\n" + text).strip("\n")
        self.note.threads = threads or self.note.threads

    def parse(self, source):
        lines, at, comment, section, group, listed = source.split("\n"), 0, "", None, None, None
        while at < len(lines):
            line = lines[at]
            if line.startswith("/*"):
                end = next(i for i in range(at, len(lines)) if "*/" in lines[i])
                text = comment_text("\n".join(lines[at:end + 1]))
                group = None
                if not line.startswith("/**"):
                    listed = None
                in_list, at = line.startswith("/* "), end + 1
                if text.startswith("@file"):
                    self.text, rule = take_threads(text[5:].strip("\n"))
                    self.threads = re.match(r"\w*", rule or "")[0]
                elif re.match(r"-{4}", text):
                    section, comment = self.begin_section(text), ""
                else:
                    comment = text
            elif not line.strip():
                if comment and group is None:
                    self.section_says(comment)
                at, comment, group, listed = at + 1, "", None, None
            elif LEAVE_OUT.match(line):
                at += 1
            else:
                item, at = self.declaration(lines, at)
                if item is None or item.name in self.seen:
                    continue
                self.seen.add(item.name)
                if listed and group is None and item.kind == "macro":
                    group, item.text, comment = listed, comment_above(lines, item) + item.text, ""
                if group is None:
                    group = Group(comment, section, self.note)
                    self.groups.append(group)
                    listed = group if in_list else listed
                    comment, section = "", None
                group.items.append(item)
                group = listed or group

    def declaration(self, lines, at):
        start = at
        if lines[at].startswith("#define"):
            while lines[at].endswith("\\"):
                at += 1
            return macro(lines[start:at + 1], start + 1), at + 1
        depth = 0
        while True:
            code = re.sub(r"/\*.*?\*/|/\*.*$|^ *\*.*$|\"(?:[^\"\\]|\\.)*\"|//.*", "", lines[at])
            depth += 0 if code.startswith("#") else code.count("{") - code.count("}")
            ended = depth == 0 and (code.rstrip().endswith((";", "}")) or code.startswith("KINETO_INIT_FUNCTION("))
            at += 1
            if ended:
                break
        while "/*" in lines[at - 1] and "*/" not in lines[at - 1].rpartition("/*")[2]:
            at += 1
        return declared("\n".join(lines[start:at]), start + 1), at


def comment_above(lines, item):
    """The comment right above an item, as it stands."""
    at = item.line - 2
    while not lines[at].startswith("/*"):
        at -= 1
    return "\n".join(lines[at:item.line - 1]) + "\n"


def comment_text(comment):
    body = re.sub(r"^/\*\*?<?|\*/\s*$", "", comment.strip())
    return "\n".join(re.sub(r"^ ?\*(?:  | )?", "", line).rstrip() if i else line.strip()
                     for i, line in enumerate(body.split("\n")))


def take_threads(text):
    """The text without its thread rule, and that."""
    match = re.search(r"\s*\bthreads?:\s+(hot|any|owner)\b([^.]*?)(?:\.(?=\s|$)|$)", text, flags=re.S | re.I)
    if not match:
        return text, None
    rule = " ".join((match[1] + match[2]).split())
    between = "\n\n" if re.match(r"\s*\n\s*\n", match[0]) and text[match.end():].strip() else ""
    return (text[:match.start()] + between + text[match.end():].lstrip(" " if between else "")).rstrip(), rule


def take_facts(text):
    parts = re.split(r"(?:^|(?<=\s))@(param\s+\w+|return)\s+", text)
    parameters, returns = [], ""
    for word, value in zip(parts[1::2], parts[2::2]):
        value = " ".join(value.split())
        if word.startswith("param"):
            parameters.append((word.split()[1], value))
        else:
            returns = value
    return parts[0].rstrip(), parameters, returns


def trailing_of(text):
    match = re.search(r"[;}]\s*/\*\*<(.*?)\*/\s*$", text, flags=re.S)
    return " ".join(match[1].replace("\n *", " ").split()) if match else ""


def without_trailing(text):
    """What a page shows: of functions no bodies, no macros that the reader need not know."""
    if text.startswith(("static inline", "KINETO_API")):
        text = re.sub(r"\s*/\*\*<.*?\*/\s*$", "", text, flags=re.S)
        text = re.sub(r"\s*\n\{.*|\s*\{.*", ";", text, count=1, flags=re.S)
        text = " ".join(re.sub(r"^(KINETO_API|static inline) ", "", text).split())
        text = textwrap.fill(text, 100, subsequent_indent="    ")
    return text


def macro(lines, number):
    name = re.match(r"#define (\w+)", lines[0])[1]
    if name.endswith(("_H", "_", "_DECLARED")) or name in ("KINETO_X", "KINETO_CONCAT"):
        return None
    return Item("macro", name, "\n".join(re.sub(r"\s+\\$", " \\\\", line) for line in lines), number, "")


def declared(text, number):
    code = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    if code.startswith("KINETO_INIT_FUNCTION("):  # it belongs to the struct before it
        name = re.search(r"\((\w+)\)", code)[1]
        return Item("macro", name + "_init", f"void {name}_init({name} *out);", number, "")
    if re.match(r"(struct|union) \w+;|\w+_ASSERT\(", code):
        return None
    if code.startswith("typedef"):
        pointer = re.search(r"\(\*(\w+)\)\(", code) if "{" not in code else None
        name = pointer[1] if pointer else re.findall(r"\w+", code[:code.rindex(";")])[-1]
        return Item("type", name, text, number, trailing_of(text))
    if re.match(r"struct \w+ \{", code):
        return Item("type", code.split()[1], text, number, "")
    if code.startswith("enum"):
        return Item("type", re.search(r"\{\s*(\w+)", code)[1], text, number, "")
    if " extern " in code:
        return Item("variable", re.findall(r"\w+", code)[-1], text, number, "")
    name = re.search(r"(\w+)\s*\(", code[code.find(" "):])[1]
    if name.startswith("kineto__"):
        return None
    return Item("function", name, text, number, trailing_of(text))
