"""docs/reference/requests.md has every key of src/ondemand/request/request_keys.def, as it is there.

    request_keys.py SOURCE-DIRECTORY            does it?
    request_keys.py SOURCE-DIRECTORY --write    make it so
"""

import difflib
import os
import re
import sys

HEAD = ["| key | value | default | description |", "|---|---|---|---|"]


def strings(text):
    return [part for part in re.findall(r'"((?:[^"\\]|\\.)*)"', text)]


def read_keys(source):
    with open(os.path.join(source, "src/ondemand/request/request_keys.def"), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    rows = re.findall(r'^X\((\w+),\s*"(\w*)",\s*\w+,\s*\w+,\s*\d+,\s*([01]),((?:[^"()]|"(?:[^"\\]|\\.)*")*)\)', text,
                      flags=re.M)
    if len(rows) != len(re.findall(r"^X\(", text, flags=re.M)):
        sys.exit("request_keys.def: there are lines that are not understood")
    for name, alias, file_only, rest in rows:
        values, initial, *words = strings(rest)
        yield name, alias, file_only == "1", values, initial, "".join(words)


def table(source):
    lines = list(HEAD)
    for name, alias, file_only, values, initial, text in read_keys(source):
        text += " Ignored in a request." if file_only else ""
        text += f" Also `{alias}`." if alias else ""
        lines.append(f"| `{name}` | {values} | {initial} | {text} |")
    return "\n".join(lines) + "\n"


def main():
    path = os.path.join(sys.argv[1], "docs/reference/requests.md")
    with open(path, encoding="utf-8") as file:
        page = file.read()
    begin = page.index(HEAD[0])
    end = re.compile(r"^(?!\|)", flags=re.M).search(page, begin).start()
    made = page[:begin] + table(sys.argv[1]) + page[end:]
    if sys.argv[2:] == ["--write"]:
        with open(path, "w", encoding="utf-8") as file:
            file.write(made)
    elif page != made:
        sys.exit("\n".join(["docs/reference/requests.md is not what request_keys.def makes: request_keys.py . --write"] +
                           list(difflib.unified_diff(page.splitlines(), made.splitlines(), lineterm=""))[:20]))


main()
