"""Text forms of one trace are read as that trace, and what is not kept is in the ledger by its reason."""
import gzip
import json
import re

from harness import expect, finish, given, path_of, query, run, write_trace

ROWS = ("select a.name, a.kind, a.category, a.form, a.start_ns, a.dur_ns, a.args, a.correlation_id, t.type, "
        "t.id as tid, p.pid from activities a join tracks t using (track) join processes p using (process) "
        "order by a.start_ns, a.name, a.dur_ns desc")
REPEATED = "member repeated in the header, with another value: the first one counts"
FLOWS = ("select f.type, a.name as begin, b.name as finish from flows f left join activities a on a.row = f.from_row "
         "left join activities b on b.row = f.to_row order by 1, 2, 3")


def slice_of(name, tid, ts, dur, **more):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, **more}


SOUND = [
    slice_of("main", 1, 100, 900.5, args={"in": 1}),
    slice_of("inner", 1, 150.25, 20),
    {"ph": "s", "id": 5, "pid": 7, "tid": 1, "ts": 150.25, "cat": "mine", "name": "link"},
    slice_of("other", 2, 400, 50.125, args={"correlation": 9, "k": "v"}),
    {"ph": "f", "bp": "e", "id": 5, "pid": 7, "tid": 2, "ts": 400, "cat": "mine", "name": "link"},
    slice_of("negative", -3, 500, 5),
    {"ph": "C", "name": "load", "pid": 7, "ts": 600, "args": {"value": 5}},
]
HEADER = {"schemaVersion": 1, "deviceProperties": []}


def document(events, **more):
    return json.dumps({**HEADER, "traceEvents": events, **more})


def changed(change, *keys):
    """The events with a change of some members, where they are."""
    return [{k: change(v) if k in keys else v for k, v in e.items()} for e in SOUND]


def escaped(text):
    """Each key with its second letter as an escape."""
    return re.sub(r'"(\w)(\w)(\w*)":', lambda m: '"%s\\u%04x%s":' % (m[1], ord(m[2]), m[3]), text)


def as_ends(args_of_end):
    """Slices as begins and ends in the order of their times; arguments with the begin or the end."""
    halves = []
    for e in SOUND:
        if e["ph"] != "X":
            halves.append((e["ts"], 1, e))
            continue
        begin = {k: v for k, v in e.items() if k != "dur"}
        end = {k: e[k] for k in ("name", "cat", "pid", "tid")}
        args = begin.pop("args", None)
        if args:
            (end if args_of_end else begin)["args"] = args
        halves.append((e["ts"], 0, {**begin, "ph": "B"}))
        halves.append((e["ts"] + e["dur"], 0, {**end, "ph": "E", "ts": e["ts"] + e["dur"]}))
    return [e for _, _, e in sorted(halves, key=lambda h: h[:2])]


def bound():
    """The arrow as members of the slices at its ends."""
    events = [dict(e) for e in SOUND if e["ph"] not in "sf"]
    events[1].update(bind_id="0x5", flow_out=True)
    events[2].update(bind_id=5.0, flow_in="true")
    return events


def lines(events):
    return "\n".join(json.dumps(e) for e in events) + "\n"


UNITS = {"ns": 1000, "ms": 0.001}
FORMS = {
    "a list": json.dumps(SOUND),
    "a byte order mark": "\ufeff" + document(SOUND),
    "white space": json.dumps({**HEADER, "traceEvents": SOUND}, indent=3),
    "quoted dur": document(changed(str, "dur")),
    "quoted ts": document(changed(str, "ts")),
    "quoted tid": document(changed(str, "tid")),
    "quoted pid": document(changed(str, "pid")),
    "quoted id": document(changed(str, "id")),
    "tid with a fraction": document(changed(float, "tid")),
    "tid with a fraction, quoted": document(changed(lambda v: f"{v}.0", "tid")),
    "id with a fraction": document(changed(float, "id")),
    "hexadecimal id": document(changed(hex, "id")),
    "hexadecimal id in capitals": document(changed(lambda v: hex(v).upper(), "id")),
    "one id in two spellings": document([{**e, "id": "0X5"} if e["ph"] == "s" else e for e in SOUND]),
    "quoted counter values": document(changed(lambda v: v, "args")).replace('"value": 5', '"value": "5"'),
    "escaped keys": escaped(document(SOUND)),
    "escaped keys, no header": escaped(json.dumps(SOUND)),
    "one event a line": lines(SOUND),
    "one event a line, escaped keys": escaped(lines(SOUND)),
    "an empty object at the end": document([*SOUND, {}]),
    "no bracket at the end": json.dumps(SOUND)[:-1],
    "commas missing": json.dumps(SOUND).replace("}, {\"ph", "} {\"ph"),
    "the list one level down": json.dumps({"traceEvents": {"traceEvents": SOUND, "x": 1}, "y": 2}),
    "the list one level down, first member": json.dumps({"traceEvents": {"x": [1], "traceEvents": SOUND}}),
    "no list before the list": '{"traceEvents": null, ' + document(SOUND)[1:],
    "keys with their last quote": document(SOUND).replace('"tid":', 'tid":'),
    "keys with their first quote": document(SOUND).replace('"dur":', '"dur:'),
    "the key of the list with one quote": document(SOUND).replace('"traceEvents"', 'traceEvents"'),
    "keys without quotes": re.sub(r'"(\w+)":', r"\1:", document(SOUND)),
    "single quotes": document(SOUND).replace('"', "'"),
    "begins and ends": document(as_ends(False)),
    "begins and ends, arguments of ends": document(as_ends(True)),
    "arrows by bind_id": document(bound()),
    "a member twice in the header": document(SOUND)[:-1] + ', "schemaVersion": 2}',
}


def facts(path, *options):
    rows = json.loads(run("query", path, ROWS, "--format", "json", *options) or "[]")
    for row in rows:
        row["args"] = json.loads(row["args"] or "{}")
        if row["form"] == "counter":
            row["args"] = {k: float(v) for k, v in row["args"].items()}
    return rows, json.loads(run("query", path, FLOWS, "--format", "json", *options) or "[]")


def check_forms():
    wanted = facts(write_trace("sound.json", document(SOUND)))
    expect("rows and flows of the sound trace", (len(wanted[0]), len(wanted[1])), (5, 1))
    for name, text in FORMS.items():
        path = write_trace("form.json", text)
        expect(name, facts(path), wanted)
        repaired = path_of("repaired.json")
        run("repair", path, "-o", repaired)
        expect(f"{name}, repaired", facts(repaired), wanted)
        for again in ("written.json", "again.json"):
            run("convert", path, "-o", path_of(again), "-q")
            path = path_of(again)
        expect(f"{name}, written twice", facts(path), wanted)
    for unit, factor in UNITS.items():
        text = document(changed(lambda v, f=factor: round(v * f, 9), "ts", "dur"))
        expect(f"times in {unit}", facts(write_trace("unit.json", text), "--ts-unit", unit), wanted)


def ledger(path):
    return {line["reason"]: (line["count"], line["is_loss"]) for line in query(path, "select * from ledger")}


def one(**event):
    return {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2, **event}


# A member of the wrong type costs at most itself, and is counted.
WRONG = "repaired: a member of the wrong type: left out"
NUMBER = "repaired: a malformed number: corrected, or kept as a string"
ODD_MEMBERS = [
    ({"dur": "abc"}, WRONG), ({"dur": [2]}, WRONG), ({"dur": None}, WRONG), ({"tid": [1]}, WRONG),
    ({"pid": {}}, WRONG), ({"id": [1], "ph": "i"}, WRONG), ({"name": ["x"]}, WRONG), ({"cat": True}, WRONG),
    ({"name": 7}, NUMBER), ({"cat": 7}, NUMBER), ({"args": 7}, WRONG), ({"id2": 7}, WRONG),
    ({"dur": "nan"}, 'member of an event that is not read: "dur" with "ph": "X"'),
    ({"tts": 1}, 'member of an event that is not read: "tts"'),
    ({"sf": 1}, 'member of an event that is not read: "sf"'),
    ({"id": 4}, 'member of an event that is not read: "id" with "ph": "X"'),
    ({"bind_id": 4}, 'member of an event that is not read: "bind_id" with "ph": "X"'),
    ({"ph": "i", "s": "p"}, 'member of an event that is not read: "s" with "ph": "i"'),
    ({"ph": "T", "id": 4}, 'member of an event that is not read: "dur" with "ph": "T"'),
]


def check_ledger():
    for members, reason in ODD_MEMBERS:
        path = write_trace("odd.json", [one(**members)])
        expect(f"rows of {members}", len(query(path, "select row from activities")), 1)
        expect(f"ledger of {members}", ledger(path).get(reason, (0,))[0], 1)
    path = write_trace("odd.json", [one(ts="x"), one()])
    lost = 'repaired: an event that has no "ph" or no "ts" left'
    expect("an event without a time", ledger(path).get(lost), (1, 1))
    path = write_trace("odd.json", [one(ts=1.7e18), one()])
    large = [r for r in ledger(path) if "--ts-unit ns" in r]
    expect("a time that is too large", [ledger(path)[r] for r in large], [(1, 1)])


def check_damage():
    """A file that ends early lost an unknown number of events; what follows a whole trace is none."""
    text = document(SOUND)
    for name, content in (("cut.json", text[:len(text) // 2]), ("cut.json.gz", gzip.compress(text.encode())[:-60])):
        path = path_of(name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        expect(f"{name}: headline", "ledger: the file ends early: the number of missing events is unknown"
               in run("info", path), True)
        expect(f"{name}: verify", "the file ends early: what followed is missing" in run("verify", path, status=1), True)
        expect(f"{name}: analyze", "an unknown number lost" in run("analyze", path), True)
        expect(f"{name}: finding", "the file ends early, how many events are missing is not known"
               in " ".join(run("analyze", "--findings", path).split()), True)
    path = write_trace("cut.json", text[:len(text) // 2])
    run("repair", path, "-o", path_of("repaired.json"))
    expect("a repaired trace says so too", "the file ends early" in run("info", path_of("repaired.json")), True)
    expect("where it ends", f"it ends at byte {len(text) // 2}" in " ".join(run("info", path).split()), True)
    whole = facts(write_trace("sound.json", text))
    path = write_trace("trailing.json", text + "\nxx {done: 1} xx")
    expect("trailing bytes", (facts(path), "nothing was lost" in run("info", path)), (whole, True))
    path = write_trace("trailing.json", text + "\nxx " + json.dumps(one(ph="?")) + " xx")
    expect("trailing bytes with an event", "nothing was lost" in run("info", path), False)


def spans(path):
    return {r["name"]: (r["start_ns"], r["dur_ns"])
            for r in query(path, "select name, start_ns, dur_ns from activities")}


def half(ph, ts, name=None, **more):
    return {"ph": ph, "ts": ts, "pid": 1, "tid": 1, **({"name": name} if name else {}), **more}


def check_ends():
    stray = "end without a begin"
    doubtful = "range with a doubtful end, as ends near it match no begin: flagged"
    path = write_trace("ends.json", [half("B", 0, "main"), half("E", 10, "stray"), half("B", 20, "work"),
                                     half("E", 30, "work"), half("E", 100, "main")])
    expect("a stray end", spans(path), {"main": (0, 100000), "work": (20000, 10000)})
    expect("its count", (ledger(path).get(stray), ledger(path).get(doubtful)), ((1, 1), None))
    path = write_trace("ends.json", [half("B", 0, "main"), half("E", 10, "stray"), half("E", 100)])
    expect("a doubtful end", (spans(path), ledger(path).get(doubtful)), ({"main": (0, 100000)}, (1, 0)))
    expect("its mark", query(path, "select open_end from activities"), [{"open_end": 1}])
    missing = "begin whose end is missing: ends with the range around it"
    path = write_trace("ends.json", [half("B", 0, "main"), half("B", 10, "work"), half("B", 20, "inner"), half("E", 100, "main"),
                                     half("B", 200, "late"), half("E", 900, "late"), half("B", 950, "open")])
    expect("an end that is missing", spans(path), {"main": (0, 100000), "work": (10000, 90000), "inner": (20000, 80000),
                                                   "late": (200000, 700000), "open": (950000, 0)})
    expect("its count", ledger(path).get(missing), (2, 1))
    run("verify", path, status=1)
    path = write_trace("ends.json", [half("B", 0, "a"), half("B", 5, "b"), half("E", 10, "a"), half("E", 20, "b")])
    expect("ranges that cross", (spans(path), ledger(path).get(missing)), ({"a": (0, 10000), "b": (5000, 15000)}, None))
    path = write_trace("ends.json", [half("B", 0, "a", cat="x"), half("B", 5, "a", cat="y"),
                                     half("E", 10, "a", cat="x"), half("E", 20, "a", cat="y")])
    expect("ends by category", sorted(r["dur_ns"] for r in query(path, "select dur_ns from activities")),
           [10000, 15000])
    path = write_trace("ends.json", [
        half("B", 0, "a", args={"k": 1, "both": 1}), half("E", 5, args={"both": 2, "end": [3]}),
        half("b", 0, "r", id=1, cat="n", args={"u": 1}), half("e", 5, id="1", cat="n", args={"code": 200})])
    expect("joined arguments", [json.loads(r["args"]) for r in query(path, "select args from activities")],
           [{"k": 1, "both": 2, "end": [3]}, {"u": 1, "code": 200}])


def check_flows():
    def arrow(ph, ts, tid, **more):
        return {"ph": ph, "ts": ts, "pid": 1, "tid": tid, "id": 1, "cat": "c", "name": "n", **more}
    # The second start has no row: its finish is not that of the first.
    path = write_trace("flows.json", [
        one(name="a", tid=1, ts=10), arrow("s", 10, 1), one(name="b", tid=2, ts=20), arrow("f", 20, 2, bp="e"),
        arrow("s", 30, 9), one(name="d", tid=2, ts=40), arrow("f", 40, 2, bp="e")])
    expect("an id that is used again", query(path, FLOWS), [{"type": "user", "begin": None, "finish": "d"},
                                                            {"type": "user", "begin": "a", "finish": "b"}])
    path = write_trace("flows.json", [one(), arrow("s", 1, 1, args={"k": 1}), one(tid=2, ts=5),
                                      arrow("f", 5, 2, bp="e", args={"k": 2})])
    run("convert", path, "-o", path_of("out.json"), "-q")
    with open(path_of("out.json"), encoding="utf-8") as file:
        written = [e for e in json.load(file)["traceEvents"] if e["ph"] in "sf"]
    expect("what an arrow is called", [(e["cat"], e["name"], e["args"]) for e in written],
           [("c", "n", {"k": 1}), ("c", "n", {"k": 2})])


def check_refused():
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        path = write_trace("wide.json", json.dumps([one()]).encode(encoding))
        for verb in ("info", "repair"):
            run(verb, path, status=2)
            expect(f"{verb} of {encoding}", "iconv" in run.stderr, True)
    for value in ("null", "7", "{}", '"x"', '{"traceEvents": 7}'):
        path = write_trace("none.json", '{"traceEvents": %s}' % value)
        for verb in ("info", "repair"):
            run(verb, path, status=2)
            expect(f"{verb} of {value}", "traceEvents" in run.stderr, True)
    path = write_trace("large.json", [one(ts=1700000000000000000), one(ts=1700000000000002000)])
    for verb in ("info", "repair"):
        run(verb, path, status=2)
        expect(f"{verb} of nanoseconds", "2 events" in run.stderr and "--ts-unit ns" in run.stderr, True)
    run("info", "--ts-unit", "hours", path, status=2)


def check_metadata():
    path = write_trace("names.json", [one(), {"ph": "M", "name": "process_sort_index", "pid": 1, "tid": 0,
                                              "args": {"sort_index": "-3"}}])
    expect("a place that is a text", query(path, "select sort_index from processes")[0]["sort_index"], -3)
    devices = [{"id": i, "name": f"X{i}"} for i in (3, 0, 2, 1)]
    path = write_trace("devices.json", {"deviceProperties": devices, "traceEvents": [
        one(cat="kernel", pid=2), one(cat="kernel", pid=1)]})
    run("convert", path, "-o", path_of("out.json"), "-q")
    with open(path_of("out.json"), encoding="utf-8") as file:
        expect("the order of devices", json.load(file)["deviceProperties"], devices)


def check_given():
    def case(number):
        names = {"05": "05-quoted-dur-beside-plain-ts", "12": "12-nanoseconds-in-ts", "14": "14-kernels-at-time-zero",
                 "15": "15-arguments-of-ends", "17": "17-empty-object-at-the-end", "19": "19-arrows-by-bind-id",
                 "22": "22-list-within-a-list-holder", "23": "23-header-member-twice",
                 "31": "31-quote-missing-before-a-key", "32": "32-list-of-devices-keeps-its-order",
                 "40": "40-end-names-another-begin"}
        return given("reading", names[number] + ".json")
    if not case("05"):
        return
    expect("05", [r["dur_ns"] for r in query(case("05"), "select dur_ns from activities")], [7500] * 3)
    expect("05, ledger", ledger(case("05")).get(NUMBER), (3, 0))
    run("info", case("12"), status=2)
    expect("12", "2 events have times too large" in run.stderr, True)
    text = run("query", case("12"), "select dur_ns from activities", "--format", "json", "--ts-unit", "ns")
    expect("12, as nanoseconds", [r["dur_ns"] for r in json.loads(text)], [1000, 1000])
    report = json.loads(run("verify", "--json", case("14"), status=None))
    found = {f["rule"]: f["count"] for f in report["traces"][0]["findings"] if f["severity"] != "note"}
    expect("14", found, {"times.implausible": 5})
    args = {r["name"]: json.loads(r["args"]) for r in query(case("15"), "select name, args from activities where dur_ns > 0")}
    expect("15", args, {"A": {"in": 1, "out": 2, "status": "ok"}, "r": {"url": "u", "code": 200}})
    run("verify", case("17"), status=0)
    expect("19", [(f["begin"], f["finish"]) for f in query(case("19"), FLOWS)], [("A", "B"), ("B", "C")])
    expect("22", len(query(case("22"), "select row from activities")), 1)
    header = {r["key"]: json.loads(r["value"]) for r in query(case("23"), "select * from metadata")}
    expect("23", (header["distributedInfo"], header["x"]), ({"rank": 1}, 1))
    expect("23, ledger", ledger(case("23")), {REPEATED: (2, 0)})
    expect("31", [(f["begin"], f["finish"]) for f in query(case("31"), FLOWS)], [("mul", "mul")])
    expect("31, rows", sorted(r["id"] for r in query(case("31"), "select id from tracks")), [0, 1])
    run("convert", case("32"), "-o", path_of("out.json"), "-q")
    with open(path_of("out.json"), encoding="utf-8") as file:
        expect("32", [d["name"] for d in json.load(file)["deviceProperties"]], ["X0", "X1", "X2"])
    expect("40", spans(case("40")), {"main": (0, 100000), "work": (20000, 10000)})
    path = given("robustness", "escname.json")
    if path:
        expect("escaped keys", [(r["category"], r["dur_ns"]) for r in query(path, "select * from activities")],
               [("cpu_op", 2000)])


check_forms()
check_ledger()
check_damage()
check_ends()
check_flows()
check_refused()
check_metadata()
check_given()
finish()
