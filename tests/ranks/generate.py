"""Writes traces of a job of many ranks with exactly known truth: OUT/rankN.json and OUT.truth.json.

usage: generate.py OUT [--program NAME] [--set KEY=VALUE]… [--plant KIND:KEY=VALUE,…]… [--damage KIND:KEY=VALUE,…]…
                   [--old | --gloo] [--clock KEY=VALUE]… [--noise KEY=VALUE]… [--seed N] [--spec FILE]
       generate.py --list

OUT is a folder. --spec reads the same from JSON: {"program", "options", "plants", "damage", "form", "clocks", "noise",
"seed"}. Lists in values are written with +, for example hosts=0+1. README.md explains each key.
"""
import json
import os
import sys

try:
    import numpy
except ImportError:
    print("generate.py: numpy is missing; install python3-numpy")
    sys.exit(77)

from programs import PROGRAMS
from simulate import NOISE, Draws, affected_instances, run_model
from write import OTHER_OPERATION, Clocks, Job

CLOCKS = {"offset_ms": 5.0, "drift_ppm": 50.0, "device_us": 0.5}
FORMS = ("new", "old", "gloo")
MESSAGES = {"p2p_seq": "shared", "p2p_args": "kernel", "p2p_batched": False}
PLANTS = {"device": {"rank": None, "phase": "all", "factor": 1.2, "from_step": 0},
          "host": {"rank": None, "steps": None, "ns": None, "factor": None},
          "link": {"hosts": None, "group": None, "factor": 3.0, "from_step": 0},
          "nic": {"host": None, "factor": 3.0, "from_step": 0},
          "step": {"rank": None, "step": None, "cause": "gc", "ns": 5e6, "factor": 1.3}}
FILE_DAMAGE = ("missing", "truncated", "corrupt", "empty", "other_run", "ring_cut")
CALL_DAMAGE = ("wrong_op", "wrong_size", "hole", "duplicate", "seq_shift", "seq_shuffle")
MAX_SHARED_GROUPS = 16  # of which the gain of each is computed
CAUSES = ("gc", "loader", "throttle")


class SpecError(ValueError):
    """A spec that cannot be generated; the message says what to change."""


def check_keys(what, given, known):
    for key in given:
        if key not in known:
            raise SpecError(f"{what}: unknown key {key}; known are {', '.join(known)}")


def check_rank(what, rank, ranks):
    if not isinstance(rank, int) or not 0 <= rank < ranks:
        raise SpecError(f"{what}: rank={rank} is not one of 0 to {ranks - 1}")


def complete_options(spec):
    name = spec.get("program", "tpd")
    if name not in PROGRAMS:
        raise SpecError(f"unknown program {name}; known are {', '.join(PROGRAMS)}")
    build, defaults = PROGRAMS[name]
    messages = {**MESSAGES, **({"p2p_batched": True} if name == "pp1f1b" else {})}
    known = {**messages, **defaults}
    given = spec.get("options", {})
    check_keys(name, given, known)
    return name, build, {**known, **given, "seed": spec.get("seed", 1)}


def find_group(model, wanted):
    """A group by its number, or by kind and index: dp:1 is the second group of data parallel ranks."""
    if isinstance(wanted, int) and 0 <= wanted < len(model.groups):
        return model.groups[wanted]
    kind, _, index = str(wanted).partition(":")
    found = [group for group in model.groups if group.kind == kind]
    if not found or not (index or "0").isdigit() or int(index or 0) >= len(found):
        raise SpecError(f"unknown group {wanted}; kinds are {', '.join(sorted({g.kind for g in model.groups}))}")
    return found[int(index or 0)]


def complete_plant(model, options, plant):
    kind = plant.get("kind")
    if kind not in PLANTS:
        raise SpecError(f"unknown plant {kind}; known are {', '.join(PLANTS)}")
    check_keys(kind, plant, ("kind", *PLANTS[kind]))
    full = {"kind": kind, **{key: value for key, value in {**PLANTS[kind], **plant}.items() if value is not None}}
    if "rank" in PLANTS[kind]:
        check_rank(kind, full.get("rank"), model.ranks)
    if kind == "device" and full["phase"] not in ("forward", "backward", "all"):
        raise SpecError("device: phase is forward, backward or all")
    if kind == "host":
        steps = full.get("steps", list(range(options["steps"])))
        full["steps"] = steps if isinstance(steps, list) else [steps]
        if ("ns" in full) == ("factor" in full):
            raise SpecError("host: give either ns, for a late data loader, or factor, for slow launches")
    if kind == "step":
        full.setdefault("step", options["steps"] // 2)
        if full["cause"] not in CAUSES:
            raise SpecError(f"step: cause is one of {', '.join(CAUSES)}")
        full.pop("ns" if full["cause"] == "throttle" else "factor")
    if kind in ("link", "nic"):
        if (kind == "link") and ("hosts" in full) == ("group" in full):
            raise SpecError("link: give either hosts, as A+B, or group")
        if "group" in full:
            full["group"] = find_group(model, full["group"]).number
        if not affected_instances(model, full).any():
            raise SpecError(f"{kind}: no transfer uses it")
    return full


def share_gains(model, draws, plants, makespan):
    """What each group alone would gain, of a link or a network card that several groups use."""
    for number, plant in enumerate(plants):
        if plant["kind"] not in ("link", "nic") or "group" in plant:
            continue
        slow = affected_instances(model, plant)
        groups = sorted({i["group"].number for i, hit in zip(model.instances, slow) if hit})
        if len(groups) <= MAX_SHARED_GROUPS:
            plant["gain_by_group_ns"] = {
                model.groups[g].name: round(makespan - run_model(model, draws, [
                    {**p, "spared": g} if n == number else p for n, p in enumerate(plants)]).makespan) for g in groups}


def is_comparable(model, plant):
    """Whether the set has anything that should be as fast as what the plant makes slower."""
    if plant["kind"] == "step" or plant.get("from_step", 0) > 0:
        return True  # the steps before
    if "rank" in plant:
        return model.roles.count(model.roles[plant["rank"]]) > 1
    slow = affected_instances(model, plant)

    def likeness(instance):
        group, operation = instance["group"], instance["operation"]
        hosts = {model.host_of(r) for r in (instance["key"][1] if operation == "p2p" else group.members)}
        size = 0 if operation == "all_to_allv" else instance["bytes"]
        return group.kind, operation, size, instance["expected"], len(hosts) > 1
    others = {likeness(instance) for instance, hit in zip(model.instances, slow) if not hit}
    alike = [likeness(instance) in others for instance, hit in zip(model.instances, slow) if hit]
    return 2 * sum(alike) >= len(alike)


def describe_plant(model, plant, gain, makespan, damage, form):
    untold = [d["rank"] for d in damage if d["kind"] in ("missing", "corrupt", "empty", "other_run")]
    truth = {**plant, "gain_ns": round(gain), "of_step_percent": round(100 * gain / makespan, 4),
             "comparable": is_comparable(model, plant) and plant.get("rank") not in untold}
    if form == "old" and plant["kind"] in ("link", "nic") and not plant.get("from_step"):
        truth["comparable"] = False  # neither groups nor sizes are written
    if plant["kind"] in ("link", "nic"):
        slow = [instance for instance, hit in zip(model.instances, affected_instances(model, plant)) if hit]
        truth["groups"] = sorted({instance["group"].name for instance in slow}, key=int)
        truth["pairs"] = sorted({tuple(sorted(instance["key"][1])) for instance in slow if instance["operation"] == "p2p"})
    if "group" in plant:
        truth["group"] = model.groups[plant["group"]].name
    return truth


# Damage

def calls_of(model, rank, group):
    """Operations of a rank that are eager collectives of a group, in order."""
    first, last = model.rank_ops[rank]
    return [op for op in range(first, last) if op in model.op_call
            for call in model.op_call[op][:1] if call[5] < 0 and call[6] >= 0
            and model.instances[call[0]]["group"] is group]


def busiest_group(model, rank):
    """The group with most collectives of this rank."""
    groups = [group for group in model.groups if rank in group.members and len(group.members) > 1]
    return max(groups, key=lambda group: len(calls_of(model, rank, group)))


def damage_calls(model, damage, changes):
    """Marks the changed calls; returns what the truth says about them."""
    kind, rank = damage["kind"], damage["rank"]
    group = find_group(model, damage["group"]) if "group" in damage else busiest_group(model, rank)
    calls = calls_of(model, rank, group)
    if len(calls) < 4:
        raise SpecError(f"{kind}: rank {rank} has {len(calls)} collectives in group {group.name}; give another group")
    at = damage.get("at", len(calls) // 2)
    call = model.op_call[calls[at]][0]
    operation = call[1]
    if kind == "seq_shift":
        for op in calls[at:]:
            changes.setdefault(op, {})["shift"] = damage.get("by", 1)
    elif kind == "seq_shuffle":
        order = numpy.random.default_rng([rank, 5]).permutation(len(calls))
        for index, op in enumerate(calls):
            changes.setdefault(op, {})["shift"] = int(order[index]) - index
    else:
        changes.setdefault(calls[at], {}).update({
            "wrong_op": {"operation": OTHER_OPERATION.get(operation, "allreduce")}, "wrong_size": {"scale": 2},
            "hole": {"drop": True}, "duplicate": {"repeat": 1}}[kind])
    first = call[6] - at if kind == "seq_shuffle" else call[6]
    return {"kind": kind, "rank": rank, "group": group.name, "description": group.description, "first_seq": first,
            "operation": operation}


def complete_damage(model, given, clocks, makespan):
    """(damage for the writer, changed calls, what the truth says)."""
    full, changes, truth = [], {}, []
    for damage in given:
        kind = damage.get("kind")
        check_keys(str(kind), damage, ("kind", "rank", "host", "group", "at", "by", "fraction", "ns"))
        if kind == "clock_step":
            host = damage["host"]
            clocks.steps[host] = (damage.get("fraction", 0.5) * makespan, damage.get("ns", 1e6))
            truth.append({"kind": kind, "host": host, "jump_ns": damage.get("ns", 1e6)})
            continue
        check_rank(str(kind), damage.get("rank"), model.ranks)
        if kind in CALL_DAMAGE:
            truth.append(damage_calls(model, damage, changes))
        elif kind in FILE_DAMAGE:
            full.append({"fraction": 0.6 if kind == "truncated" else 0.4, **damage})
            truth.append({"kind": kind, "rank": damage["rank"], "group": None, "first_seq": None})
        else:
            raise SpecError(f"unknown damage {kind}; known are {', '.join(FILE_DAMAGE + CALL_DAMAGE)}, clock_step")
    return full, changes, truth


# Truth

def describe_steps(model, run):
    steps = {}
    for tag, step, start, end in zip(model.item_tag, model.item_step, run.item_start.tolist(), run.item_end.tolist()):
        if tag in ("begin", "end"):
            found = steps.setdefault(step, [start, end])
            found[:] = min(found[0], start), max(found[1], end)
    return [{"step": step, "profiler_step": 10 + step, "start_ns": round(a), "end_ns": round(b)}
            for step, (a, b) in sorted(steps.items())]


def describe_hosts(model, clocks, makespan):
    middle, hosts = makespan / 2, model.host_of(model.ranks - 1) + 1
    return [{"host": host, "name": f"node{host:03d}",
             "ranks": [r for r in range(host * model.ranks_per_host, min(model.ranks, (host + 1) * model.ranks_per_host))],
             "offset_ns": round(float(clocks.offset[host] + clocks.drift[host] * middle), 1),
             "offset_at_start_ns": round(float(clocks.offset[host]), 1), "drift": float(clocks.drift[host])}
            for host in range(hosts)]


def refusals(model, damage):
    """Why times of different hosts must not be compared, if so."""
    reasons = [d["kind"] for d in damage if d["kind"] in ("clock_step", "seq_shuffle")]
    host_sets = [set(group.hosts) for group in model.groups
                 if any(instance["group"] is group for instance in model.instances)]
    joined = {0}
    for _ in host_sets:
        for hosts in host_sets:
            joined |= hosts if hosts & joined else set()
    return reasons + (["unconnected"] if len(joined) <= model.host_of(model.ranks - 1) else [])


def describe(spec, name, options, model, run, clocks, plants, damage, gains):
    return {"program": name, "form": spec.get("form", "new"), "seed": options["seed"], "ranks": model.ranks,
            "options": options, "makespan_ns": round(run.makespan), "steps": describe_steps(model, run),
            "hosts": describe_hosts(model, clocks, run.makespan),
            "device_residual_ns": [round(float(x), 1) for x in clocks.device],
            "groups": [{"name": g.name, "kind": g.kind, "description": g.description, "members": list(g.members)}
                       for g in model.groups],
            "roles": model.roles, "plants": [describe_plant(model, p, g, run.makespan, damage, spec.get("form", "new")) for p, g in zip(plants, gains[:-1])],
            "gain_of_all_ns": round(gains[-1]) if plants else 0, "damage": damage, "refuse_times": refusals(model, damage)}


def build(spec):
    """The job and its truth; nothing is written."""
    check_keys("spec", spec, ("program", "options", "plants", "damage", "form", "clocks", "noise", "seed"))
    name, build_model, options = complete_options(spec)
    check_keys("clocks", spec.get("clocks", {}), CLOCKS)
    check_keys("noise", spec.get("noise", {}), NOISE)
    form = spec.get("form", "new")
    if form not in FORMS:
        raise SpecError(f"unknown form {form}; known are {', '.join(FORMS)}")
    model = build_model(options)
    model.finish()
    plants = [complete_plant(model, options, plant) for plant in spec.get("plants", [])]
    draws = Draws(model, options["seed"], spec.get("noise", {}))
    run = run_model(model, draws, plants)
    gains = [run.makespan - run_model(model, draws, plants[:i] + plants[i + 1:]).makespan for i in range(len(plants))]
    share_gains(model, draws, plants, run.makespan)
    gains.append(run.makespan - run_model(model, draws, []).makespan if len(plants) != 1 else gains[0])
    clocks = Clocks(model.ranks, model.host_of(model.ranks - 1) + 1, options["seed"], {**CLOCKS, **spec.get("clocks", {})})
    damage, changes, damage_truth = complete_damage(model, spec.get("damage", []), clocks, run.makespan)
    truth = describe(spec, name, options, model, run, clocks, plants, damage_truth, gains)
    return Job(model, run, clocks, damage, changes, options, form, options["seed"]), truth


def generate(folder, spec):
    """Writes the files and the truth, and returns the truth."""
    folder = folder.rstrip("/")
    job, truth = build(spec)
    job.write(folder)
    with open(folder + ".truth.json", "w", encoding="utf-8") as file:
        json.dump(truth, file, indent=1)
        file.write("\n")
    return truth


# Command line

def parse_value(text):
    if "+" in text and not text.startswith("+"):
        return [parse_value(part) for part in text.split("+")]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


def parse_pair(text):
    key, equals, value = text.partition("=")
    if not equals:
        raise SpecError(f"{text}: expected KEY=VALUE")
    return key, parse_value(value)


def parse_thing(text):
    """KIND:KEY=VALUE,… as a dictionary."""
    kind, _, rest = text.partition(":")
    return {"kind": kind, **dict(parse_pair(part) for part in rest.split(",") if part)}


def parse_arguments(arguments):
    spec, folder, rest = {}, None, list(arguments)
    while rest:
        option = rest.pop(0)
        if option in ("--old", "--gloo"):
            spec["form"] = option[2:]
        elif not option.startswith("--"):
            folder = option
        elif not rest:
            raise SpecError(f"{option} needs a value")
        elif option in ("--set", "--clock", "--noise"):
            key, value = parse_pair(rest.pop(0))
            spec.setdefault({"--set": "options", "--clock": "clocks", "--noise": "noise"}[option], {})[key] = value
        elif option in ("--plant", "--damage"):
            spec.setdefault({"--plant": "plants", "--damage": "damage"}[option], []).append(parse_thing(rest.pop(0)))
        elif option == "--spec":
            with open(rest.pop(0), encoding="utf-8") as file:
                spec.update(json.load(file))
        elif option in ("--program", "--seed"):
            spec[option[2:]] = parse_value(rest.pop(0))
        else:
            raise SpecError(f"unknown option {option}")
    if not folder:
        raise SpecError("no folder given to write to")
    return folder, spec


def main(arguments):
    if arguments in ([], ["--help"]):
        print(__doc__)
        return 0
    if arguments == ["--list"]:
        for name, (_, defaults) in PROGRAMS.items():
            print(name, json.dumps(defaults))
        return 0
    try:
        folder, spec = parse_arguments(arguments)
        truth = generate(folder, spec)
    except (SpecError, ValueError) as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 2
    size = sum(entry.stat().st_size for entry in os.scandir(folder))
    print(f"{folder}: {truth['program']}, {truth['ranks']} ranks, {len(truth['hosts'])} hosts, "
          f"{truth['makespan_ns'] / 1e6:.2f} ms, {size / 1e6:.1f} MB")
    for plant in truth["plants"]:
        shown = " ".join(f"{key}={value}" for key, value in plant.items() if key not in ("groups", "pairs", "gain_ns"))
        print(f"  plant {shown} gain_ms={plant['gain_ns'] / 1e6:.3f}")
    for damage in truth["damage"]:
        print("  damage", " ".join(f"{key}={value}" for key, value in damage.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
