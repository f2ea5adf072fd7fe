"""Scores answers of a cross-rank analyser against the truth of generate.py.

usage: judge.py TRUTH ANSWER [TRUTH ANSWER]… [--json] [--least PERCENT]

An answer is JSON:
  {"culprits": [{"kind": "device|host|link|nic|step", "ranks": [3], "group": "5", "hosts": [0, 1], "host": 1, "step": 2,
                 "saving_ns": 1000, "level": "finding|note"}],
   "clocks": [{"host": 1, "offset_ns": 10.0, "drift": 1e-6, "bar_ns": 900}],
   "damage": [{"kind": "wrong_op", "rank": 10, "group": "5", "seq": 48}],
   "refused": "reason, if times of different hosts are not compared"}
Only culprits of level "finding" (the default) count. A device or a host is named by its rank alone; a link by its group,
by both ends (ranks), or by hosts; a network card by its host, by one of its groups or by a link to another host; a step by its number (of the truth
or of the profiler) and its rank. offset_ns is the clock of the host minus that of the first host in the list, in the
middle of the window. Kinds of damage are those of generate.py.

Each plant that costs at least --least percent of the window (0.5 by default) is
  right    named with rank (or group, host, step) and kind
  kind     named, as another kind
  wrong    not named, but something else that is not planted
  silent   not named, and nothing is named wrongly
  undecidable  as silent, and nothing in the set should be as fast as what is slow, or the rank has no trace
"""
import json
import sys

LEAST_PERCENT = 0.5
VERDICTS = ("right", "kind", "wrong", "silent", "undecidable")
CALL_DAMAGE = ("wrong_op", "wrong_size", "hole", "duplicate", "seq_shift", "seq_shuffle")


def is_place_of(plant, culprit, truth):
    """Whether the culprit is where the plant is, whatever its kind."""
    ranks = sorted(culprit.get("ranks") or [])
    if plant["kind"] in ("link", "nic"):
        hosts = culprit.get("hosts") or ([culprit["host"]] if culprit.get("host") is not None else [])
        if plant["kind"] == "nic" and plant["host"] in hosts:
            return True
        if "hosts" in plant and sorted(hosts) == sorted(plant["hosts"]):
            return True
        members = {group["name"]: group["members"] for group in truth["groups"]}
        named = culprit.get("group") is not None and str(culprit["group"]) in plant["groups"]
        return named or ranks in [list(pair) for pair in plant["pairs"]] or any(ranks == members[g] for g in plant["groups"])
    return ranks == [plant["rank"]]


def is_step_of(plant, culprit, truth):
    steps = [step for step in truth["steps"] if step["step"] == plant.get("step", plant.get("from_step"))]
    return culprit.get("step") in [step[key] for step in steps for key in ("step", "profiler_step")]


def is_kind_of(plant, culprit, truth):
    kinds = {"device": ("device",), "host": ("host",), "link": ("link",), "nic": ("nic", "link"), "step": ("step",)}
    if plant["kind"] == "step":
        if plant["cause"] == "throttle" and culprit["kind"] == "device":
            return True  # it lasts to the end of the window
        return culprit["kind"] == "step" and is_step_of(plant, culprit, truth)
    if plant.get("from_step", 0) > 0 and culprit["kind"] == "step":
        return is_step_of(plant, culprit, truth)  # it begins with this step
    return culprit["kind"] in kinds[plant["kind"]]


def is_saving_right(plant, culprit, truth):
    saving, window = culprit.get("saving_ns"), truth["makespan_ns"]
    gains = [plant["gain_ns"]]
    gains += [gain for group, gain in plant.get("gain_by_group_ns", {}).items() if group == str(culprit.get("group"))]
    return saving is not None and any(abs(saving - gain) <= max(0.1 * gain, 0.001 * window) for gain in gains)


def judge_culprits(truth, answer, least):
    """A row for each plant, and the findings that name no plant."""
    findings = [c for c in answer.get("culprits", []) if c.get("level", "finding") == "finding"]
    rows, used = [], set()
    places = [{n for n, culprit in enumerate(findings) if is_place_of(plant, culprit, truth)} for plant in truth["plants"]]
    extra = set(range(len(findings))) - set().union(*places)
    for plant in truth["plants"]:
        here = [n for n, culprit in enumerate(findings) if is_place_of(plant, culprit, truth)]
        right = [n for n in here if is_kind_of(plant, findings[n], truth)]
        used.update(here)
        if plant["of_step_percent"] < least:
            continue
        row = {"kind": plant["kind"], "gain_ns": plant["gain_ns"], "of_step_percent": plant["of_step_percent"], "saving": None}
        if right:
            row["verdict"] = "right"
            row["saving"] = any(is_saving_right(plant, findings[n], truth) for n in right)
            row["saving_ns"] = findings[right[0]].get("saving_ns")
        else:
            row["verdict"] = "kind" if here else "wrong" if extra else "silent" if plant["comparable"] else "undecidable"
        rows.append(row)
    return rows, [culprit for n, culprit in enumerate(findings) if n not in used]


def judge_clocks(truth, answer):
    """Errors against the first host of the answer; None if the answer has no clocks."""
    given, hosts = answer.get("clocks") or [], {host["host"]: host for host in truth["hosts"]}
    if not given:
        return None
    first, result = given[0], {"hosts": len(hosts), "given": 0, "inside": 0, "max_error_ns": 0.0, "max_error_in_window_ns": 0.0}
    for clock in given:
        if clock["host"] not in hosts:
            continue
        here, reference = hosts[clock["host"]], hosts[first["host"]]
        error = abs(clock["offset_ns"] - first["offset_ns"] - here["offset_ns"] + reference["offset_ns"])
        drift = abs(clock.get("drift", 0) - first.get("drift", 0) - here["drift"] + reference["drift"])
        result["given"] += 1
        result["inside"] += error <= clock.get("bar_ns", 0) or clock is first
        result["max_error_ns"] = max(result["max_error_ns"], error)
        result["max_error_in_window_ns"] = max(result["max_error_in_window_ns"], error + drift * truth["makespan_ns"] / 2)
    return result


def judge_damage(truth, answer):
    """How many are named, how many of them with group and sequence number, how many are invented."""
    given = answer.get("damage") or []
    wanted = [damage for damage in truth["damage"] if damage["kind"] != "clock_step"]
    named = located = 0
    used = set()
    for damage in wanted:
        same = [n for n, d in enumerate(given) if d.get("kind") == damage["kind"] and d.get("rank") == damage["rank"]]
        used.update(same)
        named += bool(same)
        located += any(damage["kind"] not in CALL_DAMAGE or (str(given[n].get("group")) == damage["group"]
                                                             and given[n].get("seq") == damage["first_seq"]) for n in same)
    return {"damaged": len(wanted), "named": named, "located": located, "invented": len(given) - len(used)}


def judge(truth, answer, least=LEAST_PERCENT):
    rows, extra = judge_culprits(truth, answer, least)
    refuse, refused = bool(truth["refuse_times"]), bool(answer.get("refused"))
    if truth.get("form") == "old":
        refuse = refused  # which group a collective is of may not be known
    return {"program": truth["program"], "ranks": truth["ranks"], "plants": rows, "false_alarms": extra,
            "clocks": None if refuse else judge_clocks(truth, answer), "damage": judge_damage(truth, answer),
            "refusal": "right" if refused == refuse else "missing" if refuse else "unneeded"}


def summarise(results):
    """Counts over many runs."""
    rows = [row for result in results for row in result["plants"]]
    kinds = {}
    for row in rows:
        kinds.setdefault(row["kind"], dict.fromkeys(VERDICTS, 0))[row["verdict"]] += 1
    right = [row for row in rows if row["verdict"] == "right"]
    healthy = [result for result in results if not result["plants"]]
    clocks = [result["clocks"] for result in results if result["clocks"]]
    damage = [result["damage"] for result in results]
    return {"runs": len(results), "plants": len(rows), "by_kind": kinds,
            **{verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS},
            "savings_right": sum(bool(row["saving"]) for row in right),
            "healthy": len(healthy), "healthy_with_alarm": sum(bool(r["false_alarms"]) for r in healthy),
            "false_alarms": sum(len(r["false_alarms"]) for r in results),
            "clocks": sum(c["hosts"] for c in clocks), "clocks_given": sum(c["given"] for c in clocks),
            "clocks_inside": sum(c["inside"] for c in clocks),
            "clock_error_max_ns": max((c["max_error_in_window_ns"] for c in clocks), default=0.0),
            **{key: sum(d[key] for d in damage) for key in ("damaged", "named", "located", "invented")},
            **{"refusals_" + key: sum(r["refusal"] == key for r in results) for key in ("right", "missing", "unneeded")}}


def show(name, result):
    """One line for each run."""
    parts = [f"{row['kind']} {row['of_step_percent']:.2f} %: {row['verdict']}"
             + ("" if row["saving"] is None else ", saving right" if row["saving"] else
                f", saving {(row['saving_ns'] or 0) / 1e6:.3f} of {row['gain_ns'] / 1e6:.3f} ms") for row in result["plants"]]
    parts += [f"{len(result['false_alarms'])} false alarms"] if result["false_alarms"] else []
    clocks, damage = result["clocks"], result["damage"]
    if clocks:
        parts.append(f"clocks {clocks['inside']} of {clocks['hosts']} inside, error {clocks['max_error_in_window_ns']:.0f} ns")
    if damage["damaged"] or damage["invented"]:
        parts.append("damage {named} of {damaged} named, {located} located, {invented} invented".format(**damage))
    if result["refusal"] != "right":
        parts.append(f"refusal {result['refusal']}")
    return f"{name}: {result['program']}, {result['ranks']} ranks: " + ("; ".join(parts) or "nothing to find, nothing found")


def show_summary(total):
    lines = ["{runs} runs, {plants} plants: {right} right, {kind} as another kind, {wrong} wrong, {silent} silent, "
             "{undecidable} undecidable; savings right {savings_right} of {right}".format(**total)]
    lines += [f"  {kind}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
              for kind, counts in sorted(total["by_kind"].items())]
    lines.append(f"false alarms {total['false_alarms']}; on healthy sets {total['healthy_with_alarm']} of {total['healthy']}")
    lines.append(f"clocks inside their bars {total['clocks_inside']} of {total['clocks_given']}, given {total['clocks_given']} of "
                 f"{total['clocks']}, error at most {total['clock_error_max_ns']:.0f} ns")
    lines.append(f"damage named {total['named']} of {total['damaged']}, located {total['located']}, invented {total['invented']}; "
                 f"refusals missing {total['refusals_missing']}, unneeded {total['refusals_unneeded']}")
    return "\n".join(lines)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main(arguments):
    least, as_json, files = LEAST_PERCENT, False, []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--json":
            as_json = True
        elif argument == "--least" and rest:
            least = float(rest.pop(0))
        else:
            files.append(argument)
    if not files or len(files) % 2 or files[0].startswith("--"):
        print(__doc__)
        return 0 if files == ["--help"] else 2
    results = {truth: judge(read(truth), read(answer), least) for truth, answer in zip(files[::2], files[1::2])}
    total = summarise(list(results.values()))
    if as_json:
        print(json.dumps({"runs": results, "summary": total}, indent=1))
    else:
        print("\n".join([show(name, result) for name, result in results.items()] + [show_summary(total)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
