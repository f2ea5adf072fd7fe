"""Train the transformer and look at what its profiler wrote, with parsers of our own.

usage: test_transformer.py WHAT PROGRAM CKINETO      WHAT: the name of a test below
"""
import glob
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, VOCABULARY = 2, 4, 64, 32, 16, 28
ROWS, HEAD = BATCH * CONTEXT, WIDTH // HEADS
SMALL = ["--width", "16", "--heads", "2", "--batch", "2", "--context", "8"]
STEPS = ["--steps", "9", "--wait", "4", "--warmup", "1", "--active", "3"]
RECORDED = ["ProfilerStep#5", "ProfilerStep#6", "ProfilerStep#7"]
# Backward function: the forward operator that it belongs to.
FORWARD = {"AddmmBackward0": "aten::addmm", "MmBackward0": "aten::mm", "BmmBackward0": "aten::bmm",
           "TBackward0": "aten::t", "TransposeBackward0": "aten::transpose",
           "ViewBackward0": "aten::view", "PermuteBackward0": "aten::permute",
           "CloneBackward0": "aten::clone", "UnbindBackward0": "aten::unbind",
           "AddBackward0": "aten::add", "MulBackward0": "aten::mul",
           "EmbeddingBackward0": "aten::embedding", "GeluBackward0": "aten::gelu",
           "NativeLayerNormBackward0": "aten::native_layer_norm",
           "MaskedFillBackward0": "aten::masked_fill", "SoftmaxBackward0": "aten::_softmax",
           "LogSoftmaxBackward0": "aten::_log_softmax",
           "NllLossBackward0": "aten::nll_loss_forward"}
faults = []


def expect(condition, text):
    if not condition:
        faults.append(text)


def run(arguments, status=0):
    done = subprocess.run([sys.argv[2], *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=1700)
    if done.returncode != status:
        sys.exit(f"{arguments}: exit {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
    return done.stderr if status else done.stdout


def losses(output):
    return re.findall(r"^step (\d+): loss (\S+)$", output, re.M)


def only(pattern):
    found = glob.glob(pattern)
    if len(found) != 1:
        sys.exit(f"{pattern}: {len(found)} files, expected one")
    return found[0]


class Trace:
    def __init__(self, directory):
        self.path = only(directory + "/*.pt.trace.json.gz")
        with gzip.open(self.path) as file:
            self.header = json.load(file)
        events = self.header["traceEvents"]
        self.events = events
        self.host = [e for e in events if e.get("cat") in ("cpu_op", "user_annotation")]
        self.memory = [e for e in events if e["name"] == "[memory]"]
        self.steps = sorted((e for e in self.host if e["name"].startswith("ProfilerStep#")),
                            key=lambda e: e["ts"])

    def named(self, name):
        return [e for e in self.host if e["name"] == name]

    def flows(self, kind):
        """id: (start, finish)"""
        ends = {}
        for e in self.events:
            if e["ph"] in "sf" and e.get("cat") == kind:
                ends.setdefault(e["id"], {})[e["ph"]] = e
        for id, pair in ends.items():
            expect(len(pair) == 2, f"{kind} {id} has one end only")
        return [(p["s"], p["f"]) for p in ends.values() if len(p) == 2]


def end(e):
    return e["ts"] + e["dur"]


def inside(inner, outer):
    return outer["ts"] <= inner["ts"] and inner["ts"] + inner.get("dur", 0) <= end(outer) + 0.002


# ---- what must hold of every trace -----------------------------------------------------------------


def check_nesting(trace):
    """Operators of a thread nest; each one of the main thread has a step around it."""
    by_thread = {}
    for e in trace.host:
        by_thread.setdefault(e["tid"], []).append(e)
    expect(len(by_thread) == 2, f"{len(by_thread)} threads, expected main and autograd")
    for events in by_thread.values():
        stack = []
        for e in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            while stack and end(stack[-1]) <= e["ts"]:
                stack.pop()
            expect(not stack or inside(e, stack[-1]), f"{e['name']} overlaps {stack and stack[-1]['name']}")
            stack.append(e)
    main = trace.steps[0]["tid"]
    for e in by_thread[main]:
        expect(any(inside(e, s) for s in trace.steps), f"{e['name']} is in no step")


def check_steps(trace):
    expect([s["name"] for s in trace.steps] == RECORDED, f"steps {[s['name'] for s in trace.steps]}")
    names = ["load_batch", "forward", "backward", "Optimizer.step#Adam.step",
             "Optimizer.zero_grad#Adam.zero_grad"]
    for name in names:
        expect(len(trace.named(name)) == len(RECORDED), f"{len(trace.named(name))} of {name}")
    counts = [sum(inside(e, s) for e in trace.host) for s in trace.steps]
    expect(len(set(counts)) == 1 and counts[0] > 500, f"operators of the steps: {counts}")


def check_backward(trace):
    """Every node of the graph is linked to the operator that made it, on the other thread."""
    at = {}
    for e in trace.host:
        at.setdefault((e["tid"], e["ts"]), []).append(e)
    linked = {}
    for start, finish in trace.flows("fwdbwd"):
        for e in at.get((finish["tid"], finish["ts"]), []):
            linked[id(e)] = at.get((start["tid"], start["ts"]), [])
    nodes = [e for e in trace.host if re.match(r"\w+Backward0$", e["name"])]
    expect(len(nodes) > 150, f"{len(nodes)} backward functions")
    expect({e["name"] for e in nodes} == set(FORWARD), "other backward functions than expected: "
           f"{ {e['name'] for e in nodes} ^ set(FORWARD)}")
    for e in nodes:
        forward = [f for f in linked.get(id(e), []) if f["name"] == FORWARD[e["name"]]]
        expect(len(forward) == 1, f"{e['name']} {e['args'].get('Sequence number')} has no forward")
        for f in forward:
            expect(f["tid"] != e["tid"], f"{e['name']} is on the thread of {f['name']}")
            expect(f["args"]["Sequence number"] == e["args"]["Sequence number"],
                   f"{e['name']}: another sequence number than {f['name']}")
    for e in trace.named("torch::autograd::AccumulateGrad"):
        expect("Sequence number" not in e["args"], "AccumulateGrad has a sequence number")


def check_shapes(trace):
    shapes = {json.dumps(e["args"]["Input Dims"]) for e in trace.named("aten::addmm")}
    expected = {json.dumps([[out], [ROWS, into], [into, out], [], []]) for out, into in
                [(3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)]}
    expect(shapes == expected, f"shapes of addmm: {shapes}")
    for e in trace.named("aten::addmm"):
        a = e["args"]
        expect(a["Input type"] == ["float"] * 3 + ["Scalar"] * 2, f"types of addmm: {a['Input type']}")
        expect(a["Concrete Inputs"] == ["", "", "", "1", "1"], f"values of addmm: {a['Concrete Inputs']}")
        expect(a["Input Strides"][2] == [1, a["Input Dims"][2][0]], f"strides of addmm: {a['Input Strides']}")
        expect(re.match(r"Transformer_0\.Block_[01]\.(Attention|MLP)_0\.Linear_[01]\.$",
                        a["Module Hierarchy"]), f"modules of addmm: {a['Module Hierarchy']}")
    scores = {json.dumps(e["args"]["Input Dims"]) for e in trace.named("aten::_softmax")}
    expect(scores == {json.dumps([[BATCH * HEADS, CONTEXT, CONTEXT], [], []])}, f"softmax: {scores}")
    ids = [e["args"]["Record function id"] for e in trace.host]
    expect(len(set(ids)) == len(ids), "ids of operators come up twice")


def check_memory(trace):
    """Totals follow from the events, and every step ends with what the one before it ended with."""
    events = sorted(trace.memory, key=lambda e: e["ts"])
    expect(len(events) > 800, f"{len(events)} memory events")
    for before, e in zip(events, events[1:]):
        total = before["args"]["Total Allocated"] + e["args"]["Bytes"]
        expect(e["args"]["Total Allocated"] == total, f"total {e['args']}, expected {total}")
        expect(e["args"]["Total Reserved"] >= e["args"]["Total Allocated"], "less reserved than used")
    totals = [[e for e in events if e["ts"] <= end(s)][-1]["args"]["Total Allocated"]
              for s in trace.steps]
    expect(len(set(totals)) == 1, f"memory at the ends of steps: {totals}")
    expect(totals[0] < max(e["args"]["Total Allocated"] for e in events), "no peak inside a step")


def flops_by_hand():
    """Of the matrix products of a step: forward, and twice that backward."""
    linear = LAYERS * 12 * WIDTH * WIDTH + VOCABULARY * WIDTH
    attention = LAYERS * BATCH * HEADS * 2 * CONTEXT * CONTEXT * HEAD
    return 3 * 2 * (ROWS * linear + attention)


def check_verify(trace):
    done = subprocess.run([sys.argv[3], "verify", trace.path], capture_output=True, text=True)
    expect(done.returncode == 0, f"ckineto verify: {done.stdout}{done.stderr}")


def check_flops(trace):
    done = subprocess.run([sys.argv[3], "table", trace.path, "--flops", "--json"],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ckineto table: {done.stderr}")
    flops = {row["name"]: row["flops"] for row in json.loads(done.stdout)["rows"]}
    products = sum(flops[name] for name in ("aten::mm", "aten::addmm", "aten::bmm"))
    expect(products == len(RECORDED) * flops_by_hand(),
           f"{products} operations, by hand {len(RECORDED) * flops_by_hand()}")


def check_stacks(trace):
    for e in trace.named("aten::addmm"):
        frames = re.findall(r"\): (\w+);", e["args"]["Call stack"])
        expect(frames[:3] == ["op_addmm", "op_linear", "forward_linear"] and "train_step" in frames,
               f"stack of addmm: {frames}")


def check_nothing_lost(output, trace):
    found = re.search(r"(\d+) operators ran, (\d+) recorded in \d+ cycles?, (\d+) lost", output)
    expect(found and found[1] == found[2] and found[3] == "0", f"lost: {found and found[0]}")
    expect(sum(e["name"].startswith("aten::") for e in trace.host) == int(found[2]),
           "the trace has another number of operators")
    for line in trace.header["ckineto"]["ledger"]:
        expect(not line["loss"], f"ledger: {line}")


# ---- tests -------------------------------------------------------------------------------------------


def profiled(directory, *more):
    output = run(["--profile", directory, *STEPS, *more])
    return output, Trace(directory)


def test_learns(work):
    """The loss falls, and is the same whoever watches and wherever it is computed."""
    output = run(["--steps", "48", "--every", "1"])
    values = [float(loss) for _, loss in losses(output)]
    expect(3.0 < values[0] < 4.5, f"the first loss is {values[0]}, of {VOCABULARY} characters")
    expect(sum(values[-5:]) / 5 < 1.2, f"the last losses are {values[-5:]}")
    expect(re.search(r"at most \d+ KiB of tensors, 0 at the end", output), "tensors are left")
    short = ["--steps", "9", "--every", "1"]
    plain = losses(run(short))
    expect(len(plain) == 9 and plain == losses(output)[:9], "another run gives other losses")
    expect(plain != losses(run(short + ["--seed", "2"])), "the seed makes no difference")
    watched = losses(run(STEPS + ["--every", "1", "--profile", work + "/watched"]))
    expect(plain == watched, f"profiled, the losses are others: {plain} {watched}")
    device = losses(run(short + ["--device", "sim"]))
    expect(plain == device, f"on the device the losses are others: {plain} {device}")


def test_gradients(work):
    """Gradients of all parameters are what moving the parameters does to the loss."""
    for device in ("none", "sim"):
        output = run(["--check", "--device", device])
        expect(len(re.findall(r"^parameter \d+: gradient", output, re.M)) == 5 + 12 * LAYERS, output)


def test_host(work):
    output, trace = profiled(work)
    check_nothing_lost(output, trace)
    check_verify(trace)
    check_nesting(trace)
    check_steps(trace)
    check_backward(trace)
    check_shapes(trace)
    check_memory(trace)
    check_flops(trace)
    check_stacks(trace)
    for key in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"):
        expect(trace.header.get(key) == 1, f"the header does not say {key}")


def test_device(work):
    """What operators launch is linked to them, and everything else is as on the host."""
    output, trace = profiled(work, "--device", "sim")
    check_nothing_lost(output, trace)
    check_verify(trace)
    check_nesting(trace)
    check_steps(trace)
    check_backward(trace)
    check_memory(trace)
    operators = {e["args"]["External id"]: e for e in trace.host}
    kernels = [e for e in trace.events if e.get("cat") == "kernel"]
    copies = [e for e in trace.events if e.get("cat") == "gpu_memcpy"]
    launches = {e["args"]["correlation"]: e for e in trace.events if e.get("cat") == "runtime"}
    expect(len(copies) == 3 * len(RECORDED), f"{len(copies)} copies")
    products = sum("gemm" in e["name"] for e in kernels)
    expect(products == sum(len(trace.named(n)) for n in ("aten::mm", "aten::addmm", "aten::bmm")),
           f"{products} products on the device")
    arrows = {(f["tid"], f["ts"]): s for s, f in trace.flows("ac2g")}
    for e in kernels + copies:
        operator = operators.get(e["args"].get("External id"))
        launch = launches.get(e["args"]["correlation"])
        arrow = arrows.get((e["tid"], e["ts"]))
        expect(operator and operator["name"].startswith("aten::"), f"{e['name']} has no operator")
        expect(launch and operator and launch["tid"] == operator["tid"] and inside(launch, operator),
               f"{e['name']} was not launched by its operator")
        expect(arrow and launch and arrow["ts"] == launch["ts"], f"{e['name']} has no arrow")


def check_timeline(work):
    times, sizes = json.load(open(work + "/memory.json"))
    expect(len(times) == len(sizes) > 500 and times == sorted(times), "times of memory.json")
    with gzip.open(work + "/memory.raw.json.gz") as file:
        raw = json.load(file)
    expect(sum(bytes for _, action, bytes, _ in raw if action == 2) > 0, "memory.raw.json.gz")
    page = open(work + "/memory.html").read()
    expect("<svg" in page or "<canvas" in page, "memory.html has no picture")


def check_folded(work):
    lines = open(work + "/stacks.folded").read().splitlines()
    expect(len(lines) > 50, f"{len(lines)} stacks")
    expect(all(re.match(r".+;.+ \d+$", line) for line in lines), "a line of stacks.folded is none")
    expect(any("_attention;" in line and "aten::bmm" in line for line in lines),
           "no stack leads from attention to bmm")


def check_execution_trace(work, trace):
    graph = json.load(open(work + "/execution_trace.json"))
    ids = {e["args"]["Record function id"]: e["name"] for e in trace.host}
    nodes = {}
    for node in graph["nodes"]:
        rf_id = {a["name"]: a["value"] for a in node["attrs"]}["rf_id"]
        if rf_id:
            nodes[rf_id] = node
    expect({i: n["name"] for i, n in nodes.items()} == ids, "execution trace and trace differ")
    values = [n["inputs"]["values"] for n in nodes.values() if n["name"] == "aten::addmm"]
    expect(values and all(v[1][0] > 0 and v[1][1] > 0 for v in values),
           "tensors of the execution trace have no numbers")


def test_files(work):
    output, trace = profiled(work)
    check_timeline(work)
    check_folded(work)
    check_execution_trace(work, trace)
    for name in ("table-time.txt", "table-memory.txt"):
        table = open(f"{work}/{name}").read()
        expect("aten::addmm" in table and "Total KFLOPs" in table, f"{name} lacks something")
    expect(all(name in output for name in ("Self CPU", "CPU Mem", "memory.html", "stacks.folded")),
           "the output lacks something")


def test_record(work):
    """Somebody else may record the program as well: all steps are in their trace."""
    trace, inner = work + "/recorded.json", work + "/profiled"
    done = subprocess.run([sys.argv[3], "record", "-o", trace, "--", sys.argv[2], *STEPS, "--profile",
                           inner], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"ckineto record: {done.stdout}{done.stderr}")
    check_nothing_lost(done.stdout, Trace(inner))
    each = sum(e["name"].startswith("aten::") for e in Trace(inner).host) / len(RECORDED)
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    operators = sum(e["ph"] == "X" and e["name"].startswith("aten::") for e in events)
    expect(operators == 9 * each, f"{operators} operators recorded, expected {9 * each}")


def test_long(work):
    """A million operators in cycle after cycle: all are recorded, and memory stays where it was."""
    output = run(["--ops", "1000000", "--active", "50", *SMALL])
    found = re.search(r"(\d+) operators ran, (\d+) recorded in (\d+) cycles, (\d+) lost; "
                      r"peak memory (\d+) MiB, (\d+) MiB after three", output)
    ran, recorded, cycles, lost, peak, early = map(int, found.groups())
    expect(ran == recorded >= 1000000 and lost == 0, f"lost: {found[0]}")
    expect(cycles > 20 and peak < early + 64, f"memory: {found[0]}")
    output = run(["--ops", "1000000", "--active", "2000", "--no-stacks", "--buffer", "384", *SMALL])
    expect(re.search(r"(\d{7}) operators ran, \1 recorded in 1 cycle, 0 lost", output),
           f"in one trace: {output[-600:]}")


def test_misuse(work):
    for arguments, text in [(["--steps", "0"], "expected a number"), (["--steps", "x"], "expected a number"),
                            (["--heads", "3"], "multiple"), (["--layers", "17"], "expected a number"),
                            (["--rate", "2"], "expected a rate"), (["more"], "unexpected argument"), (["--what"], "")]:
        expect(text in run(arguments, 2), f"{arguments}: no word of '{text}'")
    expect("unknown device" in run(["--device", "moon"], 1), "a device that there is not")
    expect("before a cycle" in run(["--steps", "2", "--profile", work, *SMALL], 1), "too few steps")
    blocked = work + "/file"
    open(blocked, "w").close()
    expect("file" in run([*STEPS, *SMALL, "--profile", blocked + "/below"], 1), "no directory")
    expect("usage:" in run(["--help"]), "no help")


def main():
    with tempfile.TemporaryDirectory() as work:
        globals()["test_" + sys.argv[1]](work)
    for fault in faults[:20]:
        print(fault)
    if len(faults) > 20:
        print(f"… and {len(faults) - 20} more")
    return 1 if faults else 0


sys.exit(main())
