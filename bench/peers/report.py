"""Writes the results of run.py as tables in docs/project/peers.md and as docs/images/peers.svg.

    report.py RESULTS SOURCE-DIRECTORY              write them
    report.py RESULTS SOURCE-DIRECTORY --check      fail if they are not up to date
"""
import json
import os
import sys
from xml.etree import ElementTree
from xml.sax.saxutils import escape

BEGIN, END = "<!-- results: written by make bench-report -->", "<!-- end of results -->"

RECORDERS = {
    "ours": "ckineto: `kineto_range`", "ours_number": "ckineto: the same with a number",
    "ours_function": "ckineto: `KINETO_FUNCTION`, an operator", "lttng_number": "LTTng-UST: two events, one with a number",
    "torch_kineto": "PyTorch: `RECORD_FUNCTION`, its Kineto profiler on", "json_under_a_lock":
    "a line of JSON each, `fprintf` under a mutex", "ours_off": "ckineto, no session records",
    "torch_off": "PyTorch: `RECORD_FUNCTION`, no profiler active"}
BARS = {"ours": "ckineto", "lttng_number": "LTTng-UST", "torch_kineto": "PyTorch's profiler (Kineto)",
        "json_under_a_lock": "JSON printed under a lock"}
READERS = {
    "ours": "ckineto query", "simdjson": "simdjson, written for this (C++)", "orjson": "orjson (Python)",
    "json": "json (Python)", "pandas": "json and pandas (Python)", "duckdb": "DuckDB, `read_json`",
    "sqlite": "SQLite's functions for JSON", "perfetto": "Perfetto's trace processor (WebAssembly)",
    "hta": "Holistic Trace Analysis, reading only"}
WRITERS = {"ours": "ckineto: `kineto_trace_save`", "json": "json.dump (Python)", "orjson": "orjson.dumps (Python)"}


def plain(text):
    return text.replace("`", "")


def pick(rows, names):
    """The rows with one of these names, in the order of the results."""
    return [row for row in rows if row["name"] in names]


def recording_table(results):
    lines = ["| begin and end of a range | ns | floor in the same process | ratio | times ckineto |", "|---|---|---|---|---|"]
    ours = {row["name"]: row["value"] for row in results["record"]}
    for row in sorted(pick(results["record"], RECORDERS), key=lambda row: row["value"]):
        own_value = ours["ours_off" if row["name"].endswith("_off") else
                      "ours_function" if row["name"] == "torch_kineto" else "ours"]
        lines.append(f"| {RECORDERS[row['name']]} | {row['value']:.1f} | {row['floor']:.1f} | {row['ratio']:.2f} | "
                     f"{row['value'] / own_value:.1f} |")
    return lines


def reading_table(results):
    lines = [f"| {results['events'] / 1e6:g} M events, {results['bytes'] / 1e6:.0f} MB of JSON | CPU time | times ckineto | "
             "peak memory | times ckineto | slices, names |", "|---|---|---|---|---|---|"]
    ours = next(row for row in results["read"] if row["name"] == "ours")
    for row in sorted(results["read"], key=lambda row: row["seconds"]):
        answer = row["answer"]
        lines.append(f"| {READERS[row['name']]} | {row['seconds']:.2f} s | {row['seconds'] / ours['seconds']:.1f} | "
                     f"{row['peak_bytes'] / 1e6:.0f} MB | {row['peak_bytes'] / ours['peak_bytes']:.1f} | "
                     f"{answer['slices']}, {answer['names']} |")
    return lines


def writing_table(results):
    lines = ["| the same trace, written to memory's file system | CPU time | times ckineto |", "|---|---|---|"]
    ours = next(row for row in results["write"] if row["name"] == "ours")
    for row in sorted(results["write"], key=lambda row: row["seconds"]):
        lines.append(f"| {WRITERS[row['name']]} | {row['seconds']:.2f} s | {row['seconds'] / ours['seconds']:.1f} |")
    return lines


def tables(results):
    version = next((row["version"] for row in results["record"] if "version" in row), None)
    place = f"{results['processor']}, {results['processors']} virtual processors." + \
        (f" PyTorch {version}." if version else "")
    missing = [f"Left out in this run: {'; '.join(results['left_out'])}.", ""] if results["left_out"] else []
    return "\n".join([place, "", *missing, *recording_table(results), "", *reading_table(results), "",
                      *writing_table(results), ""])


# ---- the picture -----------------------------------------------------------------------------------

WIDTH, ROW, BAR, LEFT, RIGHT, TOP, GAP = 860, 24, 15, 290, 90, 40, 30
# Viewers without media queries show the light style; it has a background of its own.
STYLE = """
.ground { fill: #ffffff; }
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 14px; }
.note { fill: #57606a; font-size: 12px; }
.ours { fill: #1f7a4d; }
.other { fill: #8a94a0; }
.floor { stroke: #b3541e; stroke-width: 1.5; stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117; }
  text { fill: #e6edf3; }
  .note { fill: #9aa4af; }
  .ours { fill: #3fb97c; }
  .other { fill: #6e7883; }
  .floor { stroke: #f0883e; }
}
"""


def chart(top, title, note, rows, unit, floor=None):
    """rows: (words, value, is ours). Returns the SVG elements and the y coordinate below them."""
    largest = max(value for _, value, _ in rows)
    scale = (WIDTH - LEFT - RIGHT) / largest
    parts = [f'<text class="title" x="12" y="{top}">{escape(title)}</text>',
             f'<text class="note" x="12" y="{top + 17}">{escape(note)}</text>']
    at = first = top + TOP - 8
    for words, value, own in rows:
        parts.append(f'<text x="{LEFT - 10}" y="{at + 13}" text-anchor="end">{escape(words)}</text>')
        parts.append(f'<rect class="{"ours" if own else "other"}" x="{LEFT}" y="{at}" width="{max(value * scale, 1):.1f}" '
                     f'height="{BAR}" rx="2"/>')
        parts.append(f'<text x="{LEFT + value * scale + 6:.1f}" y="{at + 13}">{unit(value)}</text>')
        at += ROW
    if floor:
        x = LEFT + floor * scale
        parts.append(f'<line class="floor" x1="{x:.1f}" y1="{first - 4}" x2="{x:.1f}" y2="{at - 6}"/>')
    return parts, at + GAP


def picture(results):
    record = {row["name"]: row for row in results["record"]}
    shown = [name for name in BARS if name in record]
    floor = min(record[name]["floor"] for name in shown)
    recording = [(BARS[name], record[name]["value"], name == "ours") for name in shown]
    reading = sorted(((plain(READERS[row["name"]]).split(",")[0], row["seconds"], row["name"] == "ours", row["peak_bytes"])
                      for row in results["read"]), key=lambda row: row[1])
    body, at = [], 28
    for part in (
            ("Begin and end of a range, recorded", f"the dashed line is the floor: two reads of the clock and a store, "
             f"{floor:.0f} ns", recording, lambda v: f"{v:.0f} ns", floor),
            (f"{results['events'] / 1e6:g} M events read, times summed by name: CPU time",
             f"{results['bytes'] / 1e6:.0f} MB of JSON; all give the same result, with the exceptions in docs/project/peers.md",
             [row[:3] for row in reading], lambda v: f"{v:.1f} s"),
            ("The same task: peak memory", "resident, with the mapped part of the file", [(w, p / 1e6, o) for w, _, o, p in reading], lambda v: f"{v:.0f} MB")):
        parts, at = chart(at, *part)
        body += parts
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {at - GAP + 4}" width="{WIDTH}" '
            f'height="{at - GAP + 4}" role="img" aria-label="ckineto and its peers">\n<style>{STYLE}</style>\n'
            f'<rect class="ground" width="100%" height="100%" rx="8"/>\n' + "\n".join(body) + "\n</svg>\n")


def page_with(page, results):
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    return page[:begin] + "\n\n" + tables(results) + "\n" + page[end:]


def main(results_path, root, check=""):
    with open(results_path, encoding="utf-8") as file:
        results = json.load(file)
    stale = []
    for name, make in (("docs/project/peers.md", lambda old: page_with(old, results)),
                       ("docs/images/peers.svg", lambda _: picture(results))):
        path, old = os.path.join(root, name), ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                old = file.read()
        new = make(old)
        if new != old:
            stale.append(name)
        if not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
    ElementTree.fromstring(picture(results))  # raises if it is not well-formed XML
    if check and stale:
        print(f"out of date with {results_path}: {', '.join(stale)}; run make bench-report")
        return 1
    return 0


sys.exit(main(*sys.argv[1:]))
