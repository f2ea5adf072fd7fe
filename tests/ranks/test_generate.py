"""The generator of traces of many ranks writes what its truth says, and the judge gives the scores that it documents."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("skipped: numpy is missing; install python3-numpy")
    sys.exit(77)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import generate  # noqa: E402
import judge  # noqa: E402
import suite  # noqa: E402
from model import STREAM_GAP  # noqa: E402
from simulate import Draws, run_model  # noqa: E402

SMALL = {"ddp": {"ranks": 8, "ranks_per_host": 4}, "fsdp": {"ranks": 8, "ranks_per_host": 4}, "hsdp": {"ranks": 8, "ranks_per_host": 4},
         "ep": {"ranks": 8, "ranks_per_host": 4}, "tpep": {"ranks": 16}, "tpd": {"tp": 2, "pp": 2, "dp": 2, "ranks_per_host": 4},
         "pp1f1b": {"pp": 4, "dp": 2, "ranks_per_host": 4}, "decode": {"ranks": 8, "ranks_per_host": 4, "decodes": 3}}
INTERLEAVED = {"program": "pp1f1b", "options": {"pp": 4, "dp": 1, "chunks": 2, "steps": 2, "ranks_per_host": 2}}
SPECS = [{"program": name, "options": {**options, "steps": 2}} for name, options in SMALL.items()] + [INTERLEAVED]
FOLDER = tempfile.TemporaryDirectory()


def path_of(name):
    return os.path.join(FOLDER.name, name)


def read_rank(folder, rank):
    with open(os.path.join(folder, f"rank{rank}.json"), encoding="utf-8") as file:
        return json.load(file)


def make(name, spec):
    """The truth of a set, and its ranks as Python's json reads them."""
    truth = generate.generate(path_of(name), spec)
    return truth, {rank: read_rank(path_of(name), rank) for rank in range(truth["ranks"])
                   if os.path.exists(os.path.join(path_of(name), f"rank{rank}.json"))}


def nanoseconds(event):
    """Start and end in the file's time."""
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def in_shared_time(truth, rank, time, of_device=True):
    """A time of a file, on the clock that all ranks share."""
    host = next(host for host in truth["hosts"] if rank in host["ranks"])
    time -= 4419125453000000 + host["offset_at_start_ns"] + (truth["device_residual_ns"][rank] if of_device else 0)
    return time / (1 + host["drift"])


def kernels(trace):
    return [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]


def test_files_have_the_form():
    for number, spec in enumerate(SPECS):
        for form in generate.FORMS:
            truth, ranks = make(f"form-{number}-{form}", {**spec, "form": form})
            assert len(ranks) == truth["ranks"]
            for rank, trace in ranks.items():
                info = trace["distributedInfo"]
                assert info["rank"] == rank and info["world_size"] == truth["ranks"], info
                assert ("pg_config" in info) == (form != "old") and ("host_name" in trace) == (form != "old")
                for event in trace["traceEvents"]:
                    assert event["ph"] in "XMsfi" and "ts" in event and "pid" in event and "name" in event, event
                    assert event["ph"] != "X" or event["dur"] >= 0, event
                    assert form != "old" or event["ts"] == int(event["ts"]), event
                check_steps(trace, truth, form)


def check_steps(trace, truth, form):
    names = [event["name"] for event in trace["traceEvents"] if event.get("cat") == "user_annotation"]
    assert sum(name.startswith("ProfilerStep#") for name in names) == len(truth["steps"])
    assert bool(kernels(trace)) == (form != "gloo") and any(name.startswith(("nccl:", "gloo:")) for name in names), names


def test_kernels_begin_after_their_launches_and_in_order():
    for number, spec in enumerate(SPECS):
        truth, ranks = make(f"order-{number}", spec)
        for rank, trace in ranks.items():
            launches = {e["args"]["correlation"]: e for e in trace["traceEvents"] if "Launch" in e["name"] and "dur" in e}
            ends = {}
            for event in kernels(trace):
                start, end = nanoseconds(event)
                launch = nanoseconds(launches[event["args"]["correlation"]])[0]
                assert in_shared_time(truth, rank, start) >= in_shared_time(truth, rank, launch, False) - 10, event
                assert start >= ends.get(event["tid"], 0), event
                ends[event["tid"]] = end


def collectives(truth, ranks):
    """(start, end) of each member, by group and number; messages between two ranks are left out."""
    found = {}
    for rank, trace in ranks.items():
        for event in kernels(trace):
            args = event["args"]
            if "Seq" in args and "Dst Rank" not in args and "Src Rank" not in args:
                start, end = (in_shared_time(truth, rank, time) for time in nanoseconds(event))
                found.setdefault((args["Process Group Name"], args["Seq"]), {})[rank] = (start, end)
    return found


def test_ends_coincide_and_causes_precede_effects():
    for number, spec in enumerate(SPECS):
        truth, ranks = make(f"ends-{number}", {**spec, "plants": [{"kind": "device", "rank": 1, "factor": 1.3}]})
        members = {group["name"]: group["members"] for group in truth["groups"]}
        found = collectives(truth, ranks)
        assert len(found) >= 2
        for (group, seq), times in found.items():
            assert sorted(times) == members[group], (group, seq)
            ends = [end for _, end in times.values()]
            assert max(ends) - min(ends) <= 1500 + 20, (group, seq, times)
            assert min(ends) > max(start for start, _ in times.values()), (group, seq, times)
        job, _ = generate.build(spec)
        for instance in job.model.instances:
            starts = [job.run.start[op] for op in instance["ops"]]
            assert min(job.run.end[op] for op in instance["ops"]) > max(starts)


def test_messages_pair_by_peer_direction_and_order():
    for seqs in ("shared", "absent", "different"):
        _, ranks = make("pairs-" + seqs, {"program": "pp1f1b", "options": {**SMALL["pp1f1b"], "steps": 1, "p2p_seq": seqs}})
        counts = {}
        for rank, trace in ranks.items():
            for event in trace["traceEvents"]:
                args = event.get("args", {})
                if event["name"] != "record_param_comms" or args["Collective name"] not in ("send", "recv"):
                    continue
                assert ("Seq" in args) == (seqs != "absent")
                pair = (rank, args["Dst Rank"]) if args["Collective name"] == "send" else (args["Src Rank"], rank)
                both = counts.setdefault(pair, {"send": [], "recv": []})
                both[args["Collective name"]].append(args.get("Seq"))
        assert counts and all(len(both["send"]) == len(both["recv"]) for both in counts.values()), counts
        assert all(both["send"] == both["recv"] for both in counts.values()) == (seqs != "different")


def test_replayed_collectives_have_no_arguments():
    _, ranks = make("graph", {"program": "decode", "options": {**SMALL["decode"], "steps": 1}})
    for trace in ranks.values():
        replayed = [e["args"] for e in kernels(trace) if "AllReduce" in e["name"] and e["args"]["graph id"]]
        assert replayed and not any("Seq" in args or "External id" in args for args in replayed)
        assert all(args["graph node id"] >> 32 == args["graph id"] for args in replayed)


def test_expert_sizes_differ_by_rank_and_agree_in_sum():
    truth, ranks = make("experts", {"program": "ep", "options": {**SMALL["ep"], "steps": 1}})
    sums, sizes = {}, set()
    for trace in ranks.values():
        for event in kernels(trace):
            args = event["args"]
            if args.get("Collective name") == "all_to_allv":
                sent, received = json.loads(args["In split size"]), json.loads(args["Out split size"])
                assert sum(sent) == args["In msg nelems"] and sum(received) == args["Out msg nelems"]
                both = sums.setdefault((args["Process Group Name"], args["Seq"]), [0, 0])
                both[0], both[1] = both[0] + sum(sent), both[1] + sum(received)
                sizes.add(args["Out msg nelems"])
    assert truth["program"] == "ep" and len(sizes) > 8 and all(a == b for a, b in sums.values())


def test_gains_are_differences_of_runs():
    for number, spec in enumerate(SPECS):
        truth = generate.build(spec)[1]
        assert truth["plants"] == [] and truth["gain_of_all_ns"] == 0
        nothing = generate.build({**spec, "plants": [{"kind": "device", "rank": 1, "factor": 1.0}]})[1]
        assert nothing["plants"][0]["gain_ns"] == 0 and nothing["makespan_ns"] == truth["makespan_ns"]
        slow = generate.build({**spec, "plants": [{"kind": "device", "rank": 1, "factor": 1.5}, {"kind": "step", "rank": 2, "step": 1}]})[1]
        assert all(plant["gain_ns"] >= 0 for plant in slow["plants"]), (number, slow["plants"])
        assert slow["makespan_ns"] - truth["makespan_ns"] == slow["gain_of_all_ns"] or \
            abs(slow["makespan_ns"] - truth["makespan_ns"] - slow["gain_of_all_ns"]) <= 1
        assert slow["gain_of_all_ns"] > 0


def test_every_time_is_the_latest_of_its_causes():
    """The pass over the nodes has computed each time after those that it depends on."""
    for spec in SPECS:
        job, truth = generate.build(spec)
        model, run = job.model, job.run
        draws = Draws(model, truth["seed"], {})
        for op, ready in enumerate(run.start):
            before = [run.end[op] for op in model.op_waits[op] + (model.op_previous[op],) if op >= 0]
            launched = run.launch[model.op_item[op]] + draws.latency[op]
            assert ready == max([launched] + [end + STREAM_GAP for end in before]), op
            if op not in model.op_call:
                assert run.end[op] == ready + model.op_duration[op] * draws.kernel[op]
        transfer = model.transfer * draws.transfer
        for op, calls in model.op_call.items():
            ends = [max(run.start[o] for o in model.instances[call[0]]["ops"]) + transfer[call[0]] for call in calls]
            assert run.end[op] == max(ends) + draws.end[op]
        for rank, first, _, waits in model.blocks:
            assert all(run.item_start[first] >= run.end[op] - 0.01 for op in waits), rank


def test_runs_repeat():
    job, truth = generate.build(SPECS[5])
    again = run_model(job.model, Draws(job.model, truth["seed"], {}), [])
    assert numpy.array_equal(again.end, job.run.end) and numpy.array_equal(again.start, job.run.start)

    def read_all(name, seed):
        generate.generate(path_of(name), {**SPECS[5], "seed": seed})
        parts = []
        for rank in range(truth["ranks"]):
            with open(os.path.join(path_of(name), f"rank{rank}.json"), "rb") as file:
                parts.append(file.read())
        return parts
    assert read_all("same-1", 4) == read_all("same-2", 4) != read_all("same-3", 5)


def seqs_of(trace, group):
    return [e["args"]["Seq"] for e in kernels(trace) if e["args"].get("Process Group Name") == group and "Seq" in e["args"]]


def test_damage_is_in_the_files():
    spec = {"program": "ddp", "options": SMALL["ddp"]}
    _, healthy = make("healthy", spec)
    whole = seqs_of(healthy[0], "0")
    kinds = ("missing", "truncated", "corrupt", "empty", "ring_cut", "hole", "duplicate", "seq_shift")
    truth = generate.generate(path_of("damaged"), {**spec, "damage": [{"kind": k, "rank": n} for n, k in enumerate(kinds)]})
    assert [d["kind"] for d in truth["damage"]] == list(kinds)
    assert not os.path.exists(os.path.join(path_of("damaged"), "rank0.json"))
    for rank in (1, 2, 3):
        try:
            read_rank(path_of("damaged"), rank)
            raise AssertionError(f"rank {rank} is valid JSON")
        except json.JSONDecodeError:
            pass
    cut, hole, twice, shifted = (seqs_of(read_rank(path_of("damaged"), rank), "0") for rank in (4, 5, 6, 7))
    first = truth["damage"][5]["first_seq"]
    assert cut == whole[-len(cut):] and 0 < len(cut) < len(whole)
    assert hole == [seq for seq in whole if seq != first]
    assert sorted(twice) == sorted(whole + [truth["damage"][6]["first_seq"]])
    assert shifted == [seq + (seq >= truth["damage"][7]["first_seq"]) for seq in whole]
    truth = generate.generate(path_of("wrong"), {**spec, "damage": [
        {"kind": "wrong_op", "rank": 2}, {"kind": "wrong_size", "rank": 5}, {"kind": "other_run", "rank": 6}]})
    at = truth["damage"][0]["first_seq"]
    calls = {rank: {e["args"]["Seq"]: e["args"] for e in kernels(read_rank(path_of("wrong"), rank)) if "Seq" in e["args"]}
             for rank in (1, 2, 5, 6)}
    assert calls[2][at]["Collective name"] == "_allgather_base" and calls[1][at]["Collective name"] == "allreduce"
    assert calls[5][at]["In msg nelems"] == 2 * calls[1][at]["In msg nelems"]
    assert not set(calls[6]) & set(calls[1])


def answer_exactly(truth):
    """The answer that deserves every point."""
    culprits = [{"kind": plant["kind"], "saving_ns": plant["gain_ns"], "ranks": [plant["rank"]] if "rank" in plant else [],
                 "step": plant.get("step"), "hosts": plant.get("hosts"), "host": plant.get("host"), "group": plant.get("group")}
                for plant in truth["plants"]]
    damage = [{"kind": d["kind"], "rank": d.get("rank"), "group": d.get("group"), "seq": d.get("first_seq")}
              for d in truth["damage"] if d["kind"] != "clock_step"]
    clocks = [{"host": h["host"], "offset_ns": h["offset_ns"], "drift": h["drift"], "bar_ns": 500} for h in truth["hosts"]]
    return {"culprits": culprits, "damage": damage, "clocks": clocks, "refused": ", ".join(truth["refuse_times"])}


def test_judge_gives_full_marks_to_the_truth():
    results = []
    for kind in ("plants", "healthy", "damage", "refuse"):
        for seed in range(1, 9):
            truth = generate.build(suite.draw_spec(seed, kind, 16))[1]
            results.append(judge.judge(truth, answer_exactly(truth)))
    total = judge.summarise(results)
    assert total["plants"] > 8 and total["right"] == total["plants"] == total["savings_right"], total
    assert total["false_alarms"] == total["invented"] == total["refusals_missing"] == total["refusals_unneeded"] == 0, total
    assert total["damaged"] > 8 and total["located"] == total["damaged"], total
    assert total["clocks_inside"] == total["clocks"] > 8 and total["clock_error_max_ns"] < 1, total


def test_judge_sees_what_is_wrong():
    spec = {"program": "ddp", "options": SMALL["ddp"]}
    truth = generate.build({**spec, "plants": [{"kind": "device", "rank": 3, "factor": 1.5}]})[1]
    gain, right = truth["plants"][0]["gain_ns"], {"kind": "device", "ranks": [3]}

    def verdict(*culprits, **more):
        result = judge.judge(truth, {"culprits": list(culprits), **more})
        return result["plants"][0]["verdict"], result["plants"][0]["saving"], len(result["false_alarms"])
    assert verdict() == ("silent", None, 0)
    assert verdict({**right, "saving_ns": gain * 1.09}) == ("right", True, 0)
    assert verdict({**right, "saving_ns": gain * 1.2}) == ("right", False, 0)
    assert verdict({**right, "kind": "host"}) == ("kind", None, 0)
    assert verdict({**right, "ranks": [4]}) == ("wrong", None, 1)
    assert verdict({**right, "ranks": [4], "level": "note"}) == ("silent", None, 0)
    healthy = generate.build(spec)[1]
    assert len(judge.judge(healthy, {"culprits": [right]})["false_alarms"]) == 1
    clocks = [{"host": 0, "offset_ns": 0, "bar_ns": 0},
              {"host": 1, "offset_ns": healthy["hosts"][1]["offset_ns"] + 900, "drift": healthy["hosts"][1]["drift"], "bar_ns": 800}]
    assert judge.judge(healthy, {"clocks": clocks})["clocks"]["inside"] == 1
    assert judge.judge(healthy, {"damage": [{"kind": "hole", "rank": 1}]})["damage"]["invented"] == 1
    assert judge.judge(healthy, {"refused": "no"})["refusal"] == "unneeded"


def test_judge_knows_what_cannot_be_decided():
    """All transfers of a job with one group are slow: nothing tells that from a slow network, unless it begins later."""
    spec, link = {"program": "ddp", "options": SMALL["ddp"]}, {"kind": "link", "hosts": [0, 1], "factor": 3}
    truth = generate.build({**spec, "plants": [link]})[1]
    assert judge.judge(truth, {})["plants"][0]["verdict"] == "undecidable"
    truth = generate.build({**spec, "plants": [{**link, "from_step": 2}]})[1]
    assert judge.judge(truth, {})["plants"][0]["verdict"] == "silent"
    for culprit in ({"kind": "link", "hosts": [1, 0]}, {"kind": "link", "group": "0"}, {"kind": "step", "step": 2, "group": "0"},
                    {"kind": "step", "step": 12, "hosts": [0, 1]}):
        assert judge.judge(truth, {"culprits": [culprit]})["plants"][0]["verdict"] == "right", culprit
    assert judge.judge(truth, {"culprits": [{"kind": "device", "ranks": [3]}]})["plants"][0]["verdict"] == "wrong"


def test_wrong_specs_are_refused():
    for spec in ({"program": "none"}, {"options": {"size": 3}}, {"plants": [{"kind": "device", "rank": 99}]}, {"form": "older"},
                 {"plants": [{"kind": "host", "rank": 1}]}, {"plants": [{"kind": "link", "hosts": [0, 77]}]},
                 {"damage": [{"kind": "lost", "rank": 1}]}, {"clocks": {"offset": 1}}):
        try:
            generate.build(spec)
            raise AssertionError(f"accepted: {spec}")
        except generate.SpecError:
            pass


def test_ckineto_finds_the_files_sound():
    command = os.environ.get("CKINETO")
    if not command:
        return
    for number, spec in enumerate(SPECS):
        form = generate.FORMS[number % 3]
        generate.generate(path_of(f"sound-{number}"), {**spec, "form": form})
        done = subprocess.run([command, "verify", path_of(f"sound-{number}")], capture_output=True, text=True, check=False)
        ranks = done.stdout.split("\n")[0].split(" ")[0]
        assert f"{ranks} of {ranks} traces are sound" in done.stdout, done.stdout + done.stderr
        assert done.returncode == 0, done.stdout + done.stderr


def main():
    with FOLDER:
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test()
                print("ok", name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
