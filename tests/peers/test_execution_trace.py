"""The execution trace that ckineto makes of a Kineto trace is the one that PyTorch's observer wrote of the
same step, as far as a Kineto trace tells it.

test_execution_trace.py COMMAND DATA: DATA/*/execution-trace.json.gz and execution-trace.et.json.gz.
Nodes are joined by "rf_id". Not compared is what a Kineto trace does not tell: tensors' numbers,
devices, outputs, schemas; and "fw_parent", which PyTorch looks up where backward runs.
"""

import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile


def attribute(node, name):
    return next(a["value"] for a in node["attrs"] if a["name"] == name)


def nodes_of(graph):
    by_id = {node["id"]: node for node in graph["nodes"]}
    found = {}
    for node in graph["nodes"]:
        key = attribute(node, "rf_id")
        if key:
            parent = by_id[node["ctrl_deps"]]
            found[key] = dict(node, parent=attribute(parent, "rf_id") or parent["name"])
    return found


def value(kind, given):
    """Tensors have numbers that the trace does not contain; a missing value is None."""
    if kind.startswith("Tensor("):
        return given[3:5]
    if kind.startswith("GenericList[Tensor"):
        return [v[3] for v in given]
    if kind == "None":
        return "<None>"
    return given


def facts(node, with_strides):
    inputs = node["inputs"]
    kinds = ["None" if kind in ("Device", "Storage", "Generator") else kind for kind in inputs["types"]]
    shown = ["GenericList[Tensor]" if kind.startswith("GenericList[Tensor") else kind for kind in kinds]
    found = {"name": node["name"], "parent": node["parent"], "types": shown, "shapes": inputs["shapes"],
             "values": [value(*pair) for pair in zip(kinds, inputs["values"])]}
    if with_strides:
        found["strides"] = inputs["strides"]
    for name in ("seq_id", "scope"):
        found[name] = attribute(node, name)
    return found


def compare(command, path):
    with gzip.open(path.replace(".json.gz", ".et.json.gz")) as file:
        graph = json.load(file)
    if not graph["schema"].startswith("1.1"):
        print("%s: schema %s: an older one, not compared" % (path, graph["schema"]))
        return True
    theirs = nodes_of(graph)
    with tempfile.TemporaryDirectory() as work:
        written = os.path.join(work, "graph.json")
        subprocess.run([command, "table", path, "--execution-trace", "-o", written], check=True)
        with open(written, encoding="utf-8") as file:
            graph = json.load(file)
    ours = nodes_of(graph)
    different = sorted(set(ours) ^ set(theirs))
    with_strides = all("strides" in node["inputs"] for node in theirs.values()) and any(
        any(node["inputs"]["strides"]) for node in ours.values())
    faults = ["operators that only one has: %s" % different[:10]] if different else []
    for key in sorted(set(ours) & set(theirs)):
        a, b = facts(ours[key], with_strides), facts(theirs[key], with_strides)
        for name in a:
            if a[name] != b[name]:
                faults.append("%d %s: %s: PyTorch %.200r, ckineto %.200r" % (key, b["name"], name, b[name], a[name]))
    print("%s: %d operators: %s" % (path, len(ours), "%d DIFFERENT" % len(faults) if faults else "all equal"))
    for fault in faults[:20]:
        print("    " + fault)
    return not faults and len(ours) > 0


def main():
    command, data = sys.argv[1:3]
    paths = sorted(p for p in glob.glob(os.path.join(data, "*", "execution-trace.json.gz")))
    return 0 if paths and all([compare(command, path) for path in paths]) else 1


sys.exit(main())
