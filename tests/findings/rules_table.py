"""The table of rules in docs/reference/findings.md, made of the rules themselves.

    rules_table.py --write    bring docs/reference/findings.md up to date"""

import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "docs", "reference", "findings.md")
BEGIN, END = "<!-- rules: made by tests/findings/rules_table.py -->", "<!-- end of rules -->"


def source(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def rules():
    """(id, title, what a trace must have, only synthetic) of each, in their order."""
    words = dict(re.findall(r'\{(KA_NEEDS_\w+),\s*"([^"]+)"', source("src", "analyze", "findings", "findings.c")))
    entry = re.compile(r'^X\(\w+, "([\w.]+)", ([\w |]+?), ([01]),\s*"((?:[^"\\]|\\.)*)"', re.M)
    for name, needs, synthetic, title in entry.findall(source("src", "analyze", "findings", "finding_rules.def")):
        bits = [bit.strip() for bit in needs.split("|")]
        yield name, title, ", ".join(text for bit, text in words.items() if bit in bits), synthetic == "1"


def table():
    lines = ["| rule | what it says | needs |", "|---|---|---|"]
    for name, title, needs, synthetic in rules():
        lines.append(f"| [{name}](../findings/{name}.md){' *' if synthetic else ''} | {title} | {needs} |")
    return "\n".join(lines)


def with_table(page):
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{behind}"


def read_page():
    with open(PAGE, encoding="utf-8") as f:
        return f.read()


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    made = with_table(read_page())
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(made)
