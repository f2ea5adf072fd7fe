"""Reads ckineto.hpp: classes with their comment and what is public in them, without bodies."""

import re
import textwrap

CLASS = re.compile(r"(?:/\*\*((?:(?!\*/).)*)\*/\n)?(template <[^\n]*> )?class (\w+)([^\n]*)\n\{\n(.*?)^\};", re.S | re.M)
FREE = re.compile(r"(?:/\*\*((?:(?!\*/).)*)\*/\n)?^((?:inline|template <[^\n]*>)\s[^;{]*\w\([^;{]*\) noexcept)\s+\{", re.S | re.M)
OBVIOUS = re.compile(r"= delete|~\w+\(|&&\s?other|const (\w+) &other|operator=")


def comment_of(text):
    return " ".join(re.sub(r"^ ?\*", "", line).strip() for line in (text or "").split("\n")).strip()


def without_bodies(text):
    """Braces with what is in them become a semicolon; initialisers before them go."""
    out, depth = [], 0
    for i, char in enumerate(text):
        if char == "{":
            depth += 1
        if depth == 0:
            out.append(char)
        if char == "}":
            depth -= 1
            if depth == 0 and text[i + 1:i + 2] != ";":
                out.append(";")
    return "".join(out)


def members(body):
    """(comment, declaration) of what is public."""
    public = re.split(r"^  (?:private|protected):$", body.split("  public:\n", 1)[1], flags=re.M)[0]
    public = re.sub(r"(enum class \w+) \{ (.*?) \}", r"\1 <\2>", public)
    public = re.sub(r"\{\}(?=[,)])", "", public)
    for part in re.findall(r"(?:/\*\*(.*?)\*/\s*)?([^;/]+;)", without_bodies(public), flags=re.S):
        declaration = " ".join(part[1].split())
        declaration = re.sub(r"(\)(?: const)? noexcept) : .*", r"\1;", declaration).replace(" ;", ";")
        if declaration != ";" and not OBVIOUS.search(declaration):
            yield comment_of(part[0]), re.sub(r"(enum class \w+) <(.*?)>", r"\1 { \2 }", declaration)


def class_lines(comment, name, template, base, body):
    out = [f"### kineto::{name}", "", "```cpp", f"{template or ''}class {name}{base}"]
    for text, declaration in members(body):
        out += [f"    // {text}"] if text else []
        out.append(textwrap.fill(declaration, 100, initial_indent="    ", subsequent_indent="        "))
    return out + ["```", "", comment_of(comment), ""]


def page(text):
    head = re.search(r"/\*\* @file\n(.*?)\*/", text, flags=re.S)[1]
    head = re.sub(r"^ ?\*(?:  | )?", "", head, flags=re.M)
    prose, code = head.split("\n\n", 1)
    code, rest = code.rsplit("\n\n", 1)
    out = ["# \\<ckineto/ckineto.hpp>", "", "[All headers](README.md) · [the header](../../include/ckineto/"
           "ckineto.hpp) · [with words](../how-to/languages.md#from-c)", "", " ".join(prose.split()), "", "```cpp",
           textwrap.dedent(code), "```", "", " ".join(rest.split()), "",
           "Objects are moved or not copied where that makes sense, and end what they began. Threads: those of the "
           "underlying calls in C.", ""]
    for comment, template, name, base, body in CLASS.findall(text):
        out += class_lines(comment, name, template, base, body)
    out += ["### Functions", "", "```cpp"]
    for comment, declaration in FREE.findall(text):
        out += [f"// {comment_of(comment)}"] if comment else []
        out.append(textwrap.fill(" ".join(declaration.split()) + ";", 100, subsequent_indent="    "))
    return "\n".join(out + ["```"]) + "\n"
