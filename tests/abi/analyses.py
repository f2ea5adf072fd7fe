"""docs/reference/analyses.md: every table of `ckineto analyze` and `ckineto diff`, with its columns.

    analyses.py SOURCE-DIRECTORY COMMAND            check that the page is up to date
    analyses.py SOURCE-DIRECTORY COMMAND --write    write it

COMMAND is the built `ckineto`, which prints the descriptors of src/analyze/tables/tables.def
(`ckineto analyze --list --json -`).
"""

import difflib
import json
import os
import re
import subprocess
import sys
import textwrap

HEAD = """# All tables of analyses

This page lists the tables of `ckineto analyze` and `ckineto diff`, for users and for programs that read them: each with
a short definition and its columns. The link of a table leads to the complete definition; [analyze.md](analyze.md)
explains the common terms: steps, launches, several ranks, the definitions `hta`. [Findings](findings.md) are made of
these facts only.

Columns are grouped by their unit. Times are in us with three decimal places, percentages go from 0 to 100. *Of each
rank*: for several traces, the table has the rows of each rank. *Added*: rows with the same key are added up. *A row for
each event*: written with `--series`, `--csv` or `--json` only.

This page is generated from `src/analyze/tables/tables.def`: `python3 tests/abi/analyses.py . COMMAND --write`.
"""


def read_tables(command):
    listed = subprocess.run([command, "analyze", "--list", "--json"], stdout=subprocess.PIPE, check=True,
                            timeout=60)
    return json.loads(listed.stdout)["tables"]


def columns_of(table):
    groups = {}
    for column in table["columns"]:
        groups.setdefault(column["unit"], []).append(f"`{column['name']}`")
    return "; ".join(f"{unit}: {' '.join(names)}" for unit, names in groups.items())


def rows_of(table):
    words = ["a row for each event"] if table["per_event"] else []
    if table["merged"]:
        words.append("added")
    elif table["columns"][0]["name"] == "rank":
        words.append("of each rank")
    return ", ".join(words).capitalize() + "." if words else ""


def block_of(table):
    parts = [f"### {table['name']}", "",
             f"**{table['title']}.** {table['definition']} [More]({table['page']})".replace("  ", " "), "",
             f"{columns_of(table)}. {rows_of(table)}".strip(), ""]
    return [textwrap.fill(part, 110, break_long_words=False, break_on_hyphens=False) for part in parts]


def page(tables):
    lines = [HEAD, "## Of traces", ""]
    for table in tables:
        lines += [] if table["diff"] else block_of(table)
    lines += ["## Of two traces", ""]
    for table in tables:
        lines += block_of(table) if table["diff"] else []
    return "\n".join(lines).rstrip("\n") + "\n"


def problems(source, tables):
    """Tables without a definition, and links to headings that do not exist."""
    for table in tables:
        if not table["definition"] and not table["diff"]:
            yield f"tables.def: {table['name']} has no definition"
        path, _, anchor = table["page"].partition("#")
        if not path:
            yield f"tables.def: {table['name']} names no page"
            continue
        with open(os.path.join(source, "docs/reference", path), encoding="utf-8") as file:
            headings = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
                        for h in re.findall(r"^#+ (.*)$", file.read(), flags=re.M)}
        if anchor and anchor not in headings:
            yield f"tables.def: {table['name']}: docs/reference/{path} has no heading #{anchor}"


def main():
    source, command = sys.argv[1:3]
    path = os.path.join(source, "docs/reference/analyses.md")
    tables = read_tables(command)
    text = page(tables)
    if sys.argv[3:] == ["--write"]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    with open(path, encoding="utf-8") as file:
        old = file.read()
    wrong = list(problems(source, tables))
    if old != text:
        wrong += ["docs/reference/analyses.md is out of date; run 'python3 tests/abi/analyses.py . COMMAND --write'", *list(
            difflib.unified_diff(old.splitlines(), text.splitlines(), lineterm=""))[:20]]
    sys.exit("\n".join(wrong) or 0)


main()
