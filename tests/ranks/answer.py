"""Asks ckineto about a folder of traces and writes what it finds in the form of judge.py.

usage: answer.py FOLDER ANSWER      with CKINETO in the environment
"""
import json
import os
import re
import subprocess
import sys

TABLES = ("rank_causes", "rank_clocks", "rank_damage")


def rows(table):
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


def culprit(row):
    found = {"kind": row["kind"], "saving_ns": row["saved_us"] * 1000}
    if row.get("rank") is not None:
        found["ranks"] = [row["rank"]]
    if row.get("group"):
        found["group"] = row["group"]
    hosts = [number(host) for host in row["host"].split(", ")] if row.get("host") else []
    if len(hosts) == 1:
        found["host"] = hosts[0]
    elif hosts:
        found["hosts"] = hosts
    if row.get("step") is not None and row["kind"] == "step":
        found["step"] = row["step"]
    return found


def number(host):
    """Names of hosts end in their number."""
    return int(re.search(r"(\d*)$", host)[1] or 0)


def clock(row):
    # what is added to the clock of a host is what it is behind
    # a host that is left out has none
    return {"host": number(row["host"]), "offset_ns": -row["offset_us"] * 1000, "drift": -row["drift_ppm"] * 1e-6,
            "bar_ns": row["bar_us"] * 1000}


def main():
    folder, out = sys.argv[1:]
    done = subprocess.run([os.environ["CKINETO"], "analyze", "--only", ",".join(t for t in TABLES if t not in
                           os.environ.get("WITHOUT", "")), folder, "--json"],
                          capture_output=True, text=True, check=False)
    tables = json.loads(done.stdout)["tables"] if done.stdout else {}
    empty = {"columns": [], "rows": [], "note": ""}
    causes, clocks, damage = (tables.get(name, empty) for name in TABLES)
    answer = {"culprits": [culprit(row) for row in rows(causes)], "clocks": [clock(row) for row in rows(clocks) if row["host"] and row["offset_us"] is not None],
              "damage": [{key: row[key] for key in ("kind", "rank", "group", "seq")} for row in rows(damage)]}
    files = {d["rank"]: os.path.join(folder, f"rank{d['rank']}.json") for d in answer["damage"] if d["kind"] == "missing"}
    for d in answer["damage"]:  # the command names files that it cannot read, too
        if os.path.exists(files.get(d["rank"], "")):
            d["kind"] = "corrupt" if os.path.getsize(files[d["rank"]]) else "empty"
    if clocks["note"] and not clocks["note"].startswith("left out"):
        answer = {**answer, "refused": clocks["note"], "clocks": []}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(answer, file)


main()
