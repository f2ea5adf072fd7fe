"""Graphs of operators: what the schema demands, stated here once more and tried on a file of PyTorch's own; and
those of a program that says which tensors went in and out.

usage: test_graph.py PROGRAM COMMAND DATA-DIRECTORY
"""
import collections
import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

ATTRIBUTES = [("rf_id", "uint64"), ("fw_parent", "uint64"), ("seq_id", "int64"), ("scope", "uint64"),
              ("tid", "uint64"), ("fw_tid", "uint64"), ("op_schema", "string"), ("kernel_backend", "string"),
              ("kernel_file", "string"), ("tensor_range", "string")]
SCALARS = {"Int": int, "Double": (int, float, str), "Bool": bool}


def attribute(node, name):
    return next(a["value"] for a in node["attrs"] if a["name"] == name)


def check_value(kind, given, shape, strides, say):
    if kind.startswith("Tensor("):
        elements = 1
        for size in shape:
            elements *= size
        if not (isinstance(given, list) and len(given) == 6 and all(type(v) is int for v in given[:5])
                and type(given[5]) is str):
            say(f"{given} is not a tensor")
        elif given[3] != elements:
            say(f"{given} has not the {elements} elements of {shape}")
        if strides and len(strides) != len(shape):
            say(f"strides {strides} of {shape}")
    elif kind.startswith("GenericList["):
        inner = kind[len("GenericList["):-1]
        kinds = inner.split(",") if inner else []
        if not isinstance(given, list) or len(given) != len(kinds):
            say(f"{kind} with {given}")
        for one, item in zip(kinds, given if isinstance(given, list) else []):
            if one.startswith("Tensor") and not (isinstance(item, list) and len(item) == 6):
                say(f"{item} is not a tensor")
            elif one in SCALARS and not isinstance(item, SCALARS[one]):
                say(f"{item!r} is not of type {one}")
    elif kind == "None":
        if given != "<None>":
            say(f"None is {given!r}")
    elif kind in SCALARS and not isinstance(given, SCALARS[kind]):
        say(f"{given!r} is not of type {kind}")


def check_node(node, ids, attributes, faults):
    def say(what):
        faults.append(f"node {node.get('id')} {node.get('name')}: {what}")
    if list(node) != ["id", "name", "ctrl_deps", "inputs", "outputs", "attrs"]:
        return say(f"members {list(node)}")
    if node["ctrl_deps"] not in ids:
        say(f"its parent {node['ctrl_deps']} is not a node")
    for side in ("inputs", "outputs"):
        parts = node[side]
        if list(parts) != ["values", "shapes", "types", "strides"]:
            say(f"{side} {list(parts)}")
        elif len({len(part) for part in parts.values()}) != 1:
            say(f"{side} have different lengths")
        else:
            for value, shape, kind, strides in zip(*parts.values()):
                check_value(kind, value, shape, strides, say)
    kinds = [(a["name"], a["type"]) for a in node["attrs"]]
    if kinds[:len(attributes)] != attributes:
        return say(f"attributes {kinds}")
    for a in node["attrs"]:
        right = str if a["type"] == "string" else int
        if a["type"] in ("string", "uint64", "int64") and type(a["value"]) is not right:
            say(f"{a['name']} is {a['value']!r}")
        if a["type"] == "uint64" and right is int and a["value"] < 0:
            say(f"{a['name']} is {a['value']}")
    if attribute(node, "fw_parent") not in ids | {0}:
        say("fw_parent is not a node")


def check_graph(graph, ours):
    """Faults of a graph. What must be so in ours but is not in PyTorch's is left out there."""
    faults = []
    head = [key for key in graph if key != "nodes"]
    if head != ["schema", "pid", "time", "start_ts", "finish_ts"]:
        faults.append(f"members {head}")
    if graph["schema"] != "1.1.1-chakra.0.0.4":
        faults.append(graph["schema"])
    nodes = graph["nodes"]
    count = collections.Counter(node["id"] for node in nodes)
    faults += [f"node {number} is there {n} times" for number, n in count.items() if n > 1]
    roots = [node for node in nodes if node["id"] == 1]
    if len(roots) != 1 or roots[0]["name"] != "[pytorch|profiler|execution_trace|process]":
        faults.append("there is no root")
    for node in nodes:
        # PyTorch 2.5 has all but the last attribute
        check_node(node, set(count), ATTRIBUTES if ours or "tensor_range" in str(node) else ATTRIBUTES[:-1], faults)
        if ours and node["id"] != 1 and not node["ctrl_deps"] < node["id"]:
            faults.append(f"node {node['id']} before its parent {node['ctrl_deps']}")
    functions = collections.Counter(attribute(node, "rf_id") for node in nodes)
    faults += [f"rf_id {number} is there {n} times" for number, n in functions.items() if number and n > 1]
    return faults


def load(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return json.load(file)


def function_ids(trace):
    """By "Record function id" the events of a trace that have one."""
    return {e["args"]["Record function id"]: e for e in trace["traceEvents"]
            if e.get("args", {}).get("Record function id")}


def check_join(graph, trace):
    """Each operator is one node, and each node of an operator is one."""
    events = function_ids(trace)
    nodes = {attribute(node, "rf_id"): node for node in graph["nodes"] if attribute(node, "rf_id")}
    faults = [f"{key} is only in one of the two" for key in set(events) ^ set(nodes)]
    for key in set(events) & set(nodes):
        if events[key]["name"] != nodes[key]["name"]:
            faults.append(f"{key} is {events[key]['name']} and {nodes[key]['name']}")
    if not events:
        faults.append("the trace has no ids of functions")
    return faults


def tensors(side):
    """[tensor, storage, offset] of each, in order."""
    found = []
    for kind, value in zip(side["types"], side["values"]):
        if kind.startswith("Tensor("):
            found.append(value[:3])
        elif kind.startswith("GenericList[Tensor"):
            found += [item[:3] for item in value]
    return found


def check_program(graph):
    """The values are those of graph_program.c."""
    faults = []

    def expect(what, given, wanted):
        if given != wanted:
            faults.append(f"{what}: {given}, not {wanted}")
    by_name = collections.defaultdict(list)
    by_id = {node["id"]: node for node in graph["nodes"]}
    for node in graph["nodes"]:
        by_name[node["name"]].append(node)
    linear, = by_name["aten::linear"]
    forward, inside = by_name["aten::mm"]
    node, = by_name["MmBackward0"]
    expect("inputs of linear", linear["inputs"], {
        "values": [[1, 4096, 1, 32, 4, ""], [2, 8192, 2, 32, 4, ""], "<None>"], "shapes": [[4, 8], [8, 4], []],
        "types": ["Tensor(float)", "Tensor(float)", "None"], "strides": [[8, 1], [1, 8], []]})
    for one in (linear, forward):
        expect("outputs", one["outputs"], {"values": [[3, 12288, 0, 16, 4, ""]], "shapes": [[4, 4]],
                                           "types": ["Tensor(float)"], "strides": [[4, 1]]})
    expect("no outputs", inside["outputs"], {"values": [], "shapes": [], "types": [], "strides": []})
    expect("caller of mm", forward["ctrl_deps"], linear["id"])
    expect("caller of linear", by_id[linear["ctrl_deps"]]["name"], "step")
    expect("caller of the backward mm", inside["ctrl_deps"], node["id"])
    expect("sequence number", attribute(forward, "seq_id"), 7)
    expect("backward sequence number", attribute(node, "seq_id"), 7)
    expect("forward operator", attribute(node, "fw_parent"), forward["id"])
    expect("no forward operator", attribute(forward, "fw_parent"), 0)
    expect("scopes", [attribute(n, "scope") for n in (forward, node, by_name["step"][0])], [0, 1, 7])
    expect("threads", attribute(node, "tid") == attribute(forward, "tid"), False)
    cat, = by_name["aten::cat"]
    expect("a list", cat["inputs"]["types"], ["GenericList[Tensor(),Tensor()]", "Int", "GenericList[Int,Int]",
                                              "Bool", "Double", "Tensor(float)"])
    expect("its tensors", tensors(cat["inputs"]), [[100, 36864, 1], [101, 36865, 2], [102, 36866, 0]])
    expect("numbers", cat["inputs"]["values"][1:5], [-5, [-1, 2], True, 0.5])
    long, undefined, empty = by_name["own::odd"]
    # the trace does not tell how many a long list has, so whose the ids are is not guessed
    expect("next to a long list", tensors(long["inputs"]), [[0, 0, 0]] * 2)
    expect("next to an undefined one", tensors(undefined["inputs"]), [[103, 36867, 1]])
    expect("nothing", empty["inputs"]["values"], [])
    return faults


def main():
    program, command, data = sys.argv[1:4]
    faults = []
    for path in glob.glob(os.path.join(data, "*", "execution-trace.et.json.gz")):
        graph = load(path)
        if graph["schema"] == "1.1.1-chakra.0.0.4":
            faults += [f"{path}: {fault}" for fault in check_graph(graph, False)]
            faults += check_join(graph, load(path.replace(".et.", ".")))
            assert check_graph(dict(graph, nodes=graph["nodes"] + graph["nodes"][:1]), False), "sees no fault"
    with tempfile.TemporaryDirectory() as work:
        trace, graph, again = (os.path.join(work, name) for name in ("trace.json", "graph.json", "again.json.gz"))
        subprocess.run([program, trace, graph], check=True, timeout=100)
        ours = load(graph)
        faults += check_graph(ours, True) + check_join(ours, load(trace)) + check_program(ours)
        # the same from the file, compressed
        subprocess.run([command, "table", trace, "--execution-trace", "-o", again], check=True, timeout=100)
        with open(graph, "rb") as one, gzip.open(again) as other:
            first, second = one.read(), other.read()
        if first != second:
            faults.append("the graph of the file is another one than that of the recording")
            for a, b in zip(first.splitlines(), second.splitlines()):
                if a != b:
                    faults.append(f"{a} {b}")
    for fault in faults[:20]:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
