"""The table of rules in docs/reference/findings.md, generated from the rules of the built command.

    CKINETO=build/dev/bin/ckineto python3 tests/findings/rules_table.py --write"""

import json
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "docs", "reference", "findings.md")
BEGIN, END = "<!-- rules: made by tests/findings/rules_table.py -->", "<!-- end of rules -->"


def rules():
    """(id, title, what a trace must have, only synthetic) of each, in their order: as the command lists
    what finding_rules.def declares."""
    listed = subprocess.run([os.environ["CKINETO"], "analyze", "--findings", "--list", "--json"],
                            stdout=subprocess.PIPE, check=True, timeout=60)
    for rule in json.loads(listed.stdout)["rules"]:
        yield rule["id"], rule["title"], rule["needs"], rule["only_synthetic"]


def table():
    lines = ["| rule | finding | needs |", "|---|---|---|"]
    for name, title, needs, synthetic in rules():
        lines.append(f"| [{name}](../findings/{name}.md){' *' if synthetic else ''} | {title} | {needs} |")
    return "\n".join(lines)


def with_table(page):
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def read_page():
    with open(PAGE, encoding="utf-8") as f:
        return f.read()


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    made = with_table(read_page())
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(made)
