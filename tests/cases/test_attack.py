"""Files and programs that are made to hurt: readers end with an error that names the file, in time and memory that
the file's size allows."""

import gzip
import json
import os
import resource
import subprocess
import time

from harness import CKINETO, environment, expect, failures, finish, given, path_of, query, run, write_trace

MIB = 1 << 20
EVENT = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2}'


def cpu_and_memory(*args):
    """Processor seconds and peak KiB of a run; its status and messages."""
    process = subprocess.Popen([CKINETO, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env=environment())
    message = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, process.returncode, message


# A launch inside of the kernel that it launched: each is above the other.
cycle = given("robustness", "slice_cycle.json")
if cycle:
    run("slice", cycle, "-o", path_of("s.json"), "--under", "zzz", status=1)

# Many documents, and many lists, in one file.
for kind, text in (("documents", lambda n: ('{"traceEvents":[' + EVENT + ']}\n') * n),
                   ("lists", lambda n: '{' + ','.join(['"traceEvents":[' + EVENT + ']'] * n) + '}')):
    for verb in (["info"], ["repair", "-o", path_of("r.json")]):
        took = []
        for count in (5000, 40000):
            file = write_trace("many.json", text(count))
            took.append(cpu_and_memory(verb[0], file, *verb[1:])[0])
        if took[1] > 2 and took[1] > 20 * took[0]:
            failures.append(f"{verb[0]} of 8 times as many {kind}: {took[1]:.1f} s in place of {took[0]:.1f} s")
documents = given("robustness", "docs40000.json.gz")
if documents:
    expect("documents of the given file", query(documents, "select count(*) as n from activities")[0]["n"], 40000)

# One item that is larger than the limit of memory.
LARGE = 96
for what, front, fill, after in (
        ("name", '{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"', "a", '","pid":1,"tid":1,"ts":1,"dur":2}]}'),
        ("blanks", '{"traceEvents":[' + EVENT + ',', " ", EVENT + "]}"),
        ("argument", '{"traceEvents":[' + EVENT[:-1] + ',"args":{"x":"', "a", '"}}]}'),
        ("header", '{"foo":"', "a", '","traceEvents":[' + EVENT + "]}"),
        ("rest", '{"traceEvents":[' + EVENT + "]}", "a", ""),
        ("plain", '{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"', "a", '","pid":1,"tid":1,"ts":1,"dur":2}]}')):
    path = path_of(f"large-{what}.json" + ("" if what == "plain" else ".gz"))
    with (open(path, "wb") if what == "plain" else gzip.open(path, "wb", 1)) as out:
        out.write(front.encode())
        for _ in range(LARGE):
            out.write(fill.encode() * MIB)
        out.write(after.encode())
    _, memory, status, message = cpu_and_memory("info", "--mem", "64M", path)
    expect(f"status of a large {what}", status, 2)
    if "longer than" not in message or os.path.basename(path) not in message:
        failures.append(f"a large {what}: {message[:200]!r}")
    if memory > 150 * 1024:
        failures.append(f"a large {what}: {memory} KiB")
    os.unlink(path)

# Many documents after each other are no large item.
many = path_of("many.json.gz")
with gzip.open(many, "wb", 1) as out:
    one = ('{"traceEvents":[' + ",".join([EVENT] * 15000) + "]}\n").encode()
    for _ in range(50):
        out.write(one)
run("info", "--mem", "64M", many)

# A plain file that becomes shorter while it is read.
shrinks = path_of("shrinks.json")
text = '{"traceEvents":[' + ",".join([EVENT[:-1] + ',"args":{"x":1}}'] * 300000) + "]}"
text += " " * (1 - len(text) % 4096 + 4096)  # of the last page one byte: the reader looks further
wrong = 0
for verb in (["info"], ["verify"], ["repair"], ["convert", "-o", path_of("c.json")]):
    for delay, length in ((0.003, 5000), (0.02, 0), (0.06, len(text) // 2), (0.15, 4096)):
        with open(shrinks, "w", encoding="utf-8") as out:
            out.write(text)
        process = subprocess.Popen([CKINETO, verb[0], shrinks, *verb[1:]], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, env=environment())
        time.sleep(delay)
        os.truncate(shrinks, length)
        message = process.communicate()[1]
        if process.returncode < 0:
            failures.append(f"{verb[0]} of a file that became shorter: signal {-process.returncode}")
        elif "shorter" in message or "has changed" in message:
            wrong += 1
            if "shrinks.json" not in message:
                failures.append(f"{verb[0]}: {message!r} does not name the file")
if not wrong:
    print("no file became shorter in time")

# zstd data after frames that are to be stepped over, as pzstd writes it.
pzstd = given("robustness", "pzstd_not_recognised.json.zst")
if pzstd and "does not know" not in run("info", pzstd, status=None) + run.stderr:
    expect("status of a pzstd file", run.status, 0)

# Deep stacks do not multiply.
deep = write_trace("deep.json", [{"ph": "X", "cat": "cpu_op", "name": f"f{i % 7}", "pid": 1, "tid": 1, "ts": i,
                                  "dur": 40000 - 2 * i} for i in range(20000)])
run("convert", deep, "-o", path_of("deep.folded"))
expect("a word of what is left out", "deeper than" in run.stderr, True)
with open(path_of("deep.folded"), encoding="utf-8") as lines:
    rows = [line.rsplit(" ", 1) for line in lines]
expect("levels of a folded stack", max(r[0].count(";") for r in rows) <= 1030, True)
expect("time of all stacks", sum(int(r[1]) for r in rows), 40000 * 1000)
run("convert", deep, "-o", path_of("deep.pb.gz"))
if os.path.getsize(path_of("deep.folded")) > 16 * MIB:
    failures.append("a deep stack makes a large folded file")

# Cells of CSV that a spreadsheet would compute.
EVIL = ["=cmd|'/c calc'!A1", "+1+1", "@SUM(A1)", "-2+3", "\tx", "-5", "plain"]
cells = write_trace("cells.json", [{"ph": "X", "cat": "cpu_op", "name": n, "pid": 1, "tid": 1, "ts": i, "dur": 1}
                                   for i, n in enumerate(EVIL)])
run("convert", cells, "-o", path_of("cells.csv"))
with open(path_of("cells.csv"), encoding="utf-8") as file:
    csv_text = file.read()
csv_text += run("query", cells, "select name from activities", "--format", "csv")
for name in EVIL[:4]:
    expect(f"{name!r} as a cell of its own", any(c.strip('"').startswith(name) for line in csv_text.split("\n")
                                               for c in line.split(",")), False)

# Names that turn the direction of a line.
turned = write_trace("turned.json", json.dumps({"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "a\u202eb\u2066c\u200fd\u2028e", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}))
for verb in ("info", "verify", "analyze", "query"):
    said = run(verb, turned, *(["select name from activities"] if verb == "query" else []), status=None) + run.stderr
    expect(f"format characters of {verb}", [c for c in "\u202e\u2066\u200f\u2028" if c in said], [])


# Names of files that drive a terminal.
evil = "x\x1b[31m\u202ey"
for verb in (["slice", "--top", "1", "-o", path_of(evil + ".json")], ["scrub", "-o", path_of(evil + "2.json")],
             ["convert", "-o", path_of(evil + ".csv")]):
    said = run(verb[0], turned, *verb[1:]) + run.stderr
    expect(f"escapes of {verb[0]}", "\x1b" in said or "\u202e" in said, False)
    expect(f"the name as {verb[0]} says it", "x\\x1b[31m" in said, True)

finish()
