"""Draws specs of generate.py at random, writes the sets, and judges a command that answers them.

usage: suite.py FOLDER [--kind plants|healthy|damage|refuse] [--count N] [--seed N] [--ranks MAX] [--program NAME] [--form new|old]
                [--command COMMAND] [--keep]

Writes FOLDER/N/ and FOLDER/N.truth.json. With --command, runs it for each set with {traces} and {answer} replaced by the
folder and by the file to write (the form is that of judge.py), judges, and removes the set unless --keep is given.
"""
import json
import os
import shutil
import subprocess
import sys

import generate
import judge
import numpy

ONE_GROUP = ("ddp", "fsdp", "decode")
PIPELINES = [(2, 2, 2), (1, 4, 2), (2, 4, 2), (2, 2, 4), (4, 2, 4), (2, 4, 4), (4, 2, 8), (4, 4, 4)]


def choose(random, values):
    return values[int(random.integers(len(values)))]


def draw_options(random, name, most):
    """Sizes of a job of at most `most` ranks."""
    counts = [ranks for ranks in (8, 16, 32, 64) if ranks <= most]
    options = {"names": choose(random, ["mesh", "megatron", "none"])}
    if name in ("tpd", "pp1f1b"):
        tp, pp, dp = choose(random, [size for size in PIPELINES if numpy.prod(size) <= most])
        options.update(tp=tp, pp=pp, dp=dp)
        if name == "pp1f1b":
            options.update(p2p_seq=choose(random, ["shared", "absent", "different"]), p2p_args=choose(random, ["kernel", "host"]),
                           chunks=choose(random, [1, 2]) if pp > 2 else 1)
    elif name in ("ep", "tpep"):
        options.update(ranks=choose(random, counts), ep=4)
    else:
        options.update(ranks=choose(random, [n for n in counts if n > 8] or counts if name == "hsdp" else counts))
    options["ranks_per_host"] = choose(random, [4, 8])
    return options


def draw_plant(random, model, options):
    """A plant of any kind that this job can have."""
    hosts = model.host_of(model.ranks - 1) + 1
    rank, steps = int(random.integers(model.ranks)), options["steps"]
    rings = sorted({tuple(sorted(pair)) for group in model.groups for pair in group.ring})
    kind = choose(random, ["device", "device", "host", "step"] + (["link", "link", "nic"] if hosts > 1 else ["link"]))
    if kind == "device":
        return {"kind": kind, "rank": rank, "phase": choose(random, ["forward", "backward", "all"]) if options.get("decodes") is None
                else "all", "factor": round(float(random.uniform(1.02, 1.5)), 3)}
    if kind == "host":
        if random.random() < 0.2:
            return {"kind": kind, "rank": rank, "factor": round(float(random.uniform(2, 6)), 2)}
        some = sorted(random.choice(steps, size=max(1, steps // 2), replace=False).tolist())
        return {"kind": kind, "rank": rank, "ns": round(float(random.uniform(0.5e6, 3e6))),
                **({"steps": some} if random.random() < 0.3 else {})}
    if kind == "step":
        cause = choose(random, list(generate.CAUSES))
        return {"kind": kind, "rank": rank, "cause": cause, "step": int(random.integers(1, steps)),
                **({"factor": 1.4} if cause == "throttle" else {"ns": round(float(random.uniform(2e6, 8e6)))})}
    factor = round(float(random.uniform(1.5, 4)), 2)
    if kind == "nic":
        return {"kind": kind, "host": int(random.integers(hosts)), "factor": factor}
    used = sorted({instance["group"].number for instance in model.instances})
    if hosts > 1 and random.random() < 0.5:
        return {"kind": kind, "hosts": list(choose(random, rings)), "factor": factor}
    return {"kind": kind, "group": choose(random, [n for n in used if n] or used), "factor": factor}


def draw_comparable_plant(random, model, options):
    """As draw_plant, but nine of ten times with something in the set that should be as fast as what is slow."""
    undecidable = random.random() < 0.1
    for _ in range(6):
        plant = draw_plant(random, model, options)
        if undecidable or generate.is_comparable(model, generate.complete_plant(model, options, plant)):
            return plant
    return {**plant, "from_step": int(random.integers(1, options["steps"]))}


def draw_damage(random, ranks):
    """One to three kinds of damage, of different ranks."""
    kinds = list(random.permutation(generate.FILE_DAMAGE + generate.CALL_DAMAGE[:-1]))[:int(random.integers(1, 4))]
    places = random.choice(ranks, size=len(kinds), replace=False).tolist()
    return [{"kind": str(kind), "rank": rank} for kind, rank in zip(kinds, places)]


def draw_form(seed, kind, name):
    """One of six sets is in the form of PyTorch before 2.2: no groups, no sizes, no names of hosts. Those of several groups
    are healthy: their collectives cannot be told apart, so that no plant can be found."""
    is_old = kind == "healthy" or (kind == "plants" and name in ONE_GROUP)
    return "old" if is_old and numpy.random.default_rng([seed, 18]).random() < 1 / 6 else "new"


def draw_spec(seed, kind, most=64, program=None, form=None):
    """A spec that can be generated: kinds are plants, healthy, damage, refuse."""
    random = numpy.random.default_rng([seed, 17])
    name = program or list(generate.PROGRAMS)[seed % len(generate.PROGRAMS)]
    spec = {"program": name, "seed": seed, "options": draw_options(random, name, most), "form": form or draw_form(seed, kind, name)}
    job, _ = generate.build({**spec, "form": "new"})
    model, options = job.model, job.options
    if kind == "plants" or (kind == "damage" and random.random() < 0.5):
        spec["plants"] = [draw_comparable_plant(random, model, options) for _ in range(1 + (random.random() < 0.2))]
    if kind == "damage":
        spec["damage"] = draw_damage(random, model.ranks)
    if kind == "refuse":
        host = model.host_of(model.ranks - 1)
        if name == "decode" and host:
            spec["options"].update(islands=True, tp=spec["options"]["ranks_per_host"])
            return spec
        spec["damage"] = [{"kind": "clock_step", "host": host, "ns": 1e6}] if host else \
            [{"kind": "seq_shuffle", "rank": int(random.integers(model.ranks))}]
    return spec


def answer_set(command, folder):
    """The answer of the command for one set, or what it left instead."""
    path = folder + ".answer.json"
    if os.path.exists(path):
        os.remove(path)
    done = subprocess.run(command.replace("{traces}", folder).replace("{answer}", path), shell=True, check=False)
    if not os.path.exists(path):
        print(f"{folder}: the command wrote no answer (exit status {done.returncode})", file=sys.stderr)
        return {}
    return judge.read(path)


def run_suite(folder, options):
    """Generates all sets, and answers and judges them if there is a command."""
    os.makedirs(folder, exist_ok=True)
    results = []
    for number in range(int(options["count"])):
        seed = int(options["seed"]) + number
        place = os.path.join(folder, str(seed))
        spec = draw_spec(seed, options["kind"], int(options["ranks"]), options["program"], options["form"])
        with open(place + ".spec.json", "w", encoding="utf-8") as file:
            json.dump(spec, file)
        truth = generate.generate(place, spec)
        if options["command"]:
            result = judge.judge(truth, answer_set(options["command"], place))
            results.append(result)
            print(judge.show(place, result), flush=True)
            if not options["keep"]:
                shutil.rmtree(place)
        else:
            print(place, json.dumps(spec), [plant["of_step_percent"] for plant in truth["plants"]], flush=True)
    if results:
        print(judge.show_summary(judge.summarise(results)))


def main(arguments):
    options = {"kind": "plants", "count": "10", "seed": "1", "ranks": "64", "command": "", "program": None, "form": None, "keep": False}
    folder, rest = None, list(arguments)
    while rest:
        argument = rest.pop(0)
        name = argument[2:] if argument.startswith("--") else None
        if name == "keep":
            options["keep"] = True
        elif name in options and rest:
            options[name] = rest.pop(0)
        elif name is None:
            folder = argument
        else:
            print(__doc__)
            return 2
    if not folder or options["kind"] not in ("plants", "healthy", "damage", "refuse"):
        print(__doc__)
        return 2
    run_suite(folder, options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
