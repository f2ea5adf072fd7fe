"""Runs of a model: random numbers, planted faults, and the pass that gives every start and end."""
import numpy

from model import LAUNCH_SHARE, PHASES, STREAM_GAP

NOISE = {"kernel": 0.02, "transfer": 0.03, "host": 0.10, "latency_us": 4.0, "latency_jitter_us": 1.0, "end_us": 1.5}


class Draws:
    """The random numbers of a run, which runs with and without faults share."""

    def __init__(self, model, seed, noise):
        noise = {**NOISE, **noise}
        random = numpy.random.default_rng([seed, 7])
        ops, items, instances = len(model.op_rank), len(model.item_rank), len(model.instances)
        self.kernel = random.lognormal(0, noise["kernel"], ops)
        self.transfer = random.lognormal(0, noise["transfer"], instances)
        self.host = random.lognormal(0, noise["host"], items)
        self.latency = (noise["latency_us"] + random.exponential(noise["latency_jitter_us"] or 1e-9, ops)) * 1e3
        self.end = random.uniform(0, noise["end_us"] * 1e3, ops)


class Run:
    """What happened: of each operation its start and end, of each item of host work when it launches."""

    def __init__(self, start, end, launch, item_start, item_end):
        self.start, self.end, self.launch = numpy.array(start), numpy.array(end), numpy.array(launch)
        self.item_start, self.item_end = numpy.array(item_start), numpy.array(item_end)
        self.makespan = max(float(self.end.max(initial=0)), float(self.item_end.max(initial=0)))


def affected_instances(model, plant):
    """Mask of the rendezvous that a slow link or network card makes slower."""
    def is_affected(instance):
        group = instance["group"]
        if group.number == plant.get("spared") or instance["step"] < plant["from_step"]:
            return False
        if "group" in plant:
            return group.number == plant["group"]
        if instance["operation"] == "p2p":
            pair = frozenset(model.host_of(rank) for rank in instance["key"][1])
            hosts, links = pair, {pair}
        else:
            hosts, links = group.hosts, group.ring
        if plant["kind"] == "nic":
            return len(hosts) > 1 and plant["host"] in hosts
        return frozenset(plant["hosts"]) in links
    return numpy.array([is_affected(instance) for instance in model.instances], bool)


class Faults:
    """Durations with plants applied. Plants are those of generate.py, with all defaults filled in."""

    def __init__(self, model, draws, plants):
        self.duration = numpy.array(model.op_duration) * draws.kernel
        self.work = numpy.array(model.item_work) * draws.host
        self.cost = numpy.array(model.item_cost) * draws.host
        self.transfer = model.transfer * draws.transfer
        self.model = model
        for plant in plants:
            getattr(self, "plant_" + plant["kind"])(plant)

    def plant_device(self, plant):
        model = self.model
        mask = (numpy.array(model.op_rank) == plant["rank"]) & (numpy.array(model.op_step) >= plant["from_step"])
        if plant["phase"] != "all":
            mask &= numpy.array(model.op_phase) == PHASES[plant["phase"]]
        self.duration[mask] *= plant["factor"]

    def plant_host(self, plant):
        model = self.model
        mask = (numpy.array(model.item_rank) == plant["rank"]) & numpy.isin(model.item_step, plant["steps"])
        if "factor" in plant:
            self.cost[mask] *= plant["factor"]
        else:
            self.work[mask & (numpy.array(model.item_tag) == "loader")] += plant["ns"]

    def plant_link(self, plant):
        self.transfer[affected_instances(self.model, plant)] *= plant["factor"]

    plant_nic = plant_link

    def plant_step(self, plant):
        if plant["cause"] == "throttle":
            return self.plant_device({**plant, "phase": "all", "from_step": plant["step"]})
        model = self.model
        mask = (numpy.array(model.item_rank) == plant["rank"]) & (numpy.array(model.item_step) == plant["step"])
        tags = numpy.array(model.item_tag)
        if plant["cause"] == "loader":
            places = numpy.flatnonzero(mask & (tags == "loader"))[:1]
        else:
            places = numpy.flatnonzero(mask & numpy.isin(tags, ["launch", "communication", "graph"]))
            places = places[len(places) // 3:][:1]
        self.work[places] += plant["ns"]
        return None


def run_model(model, draws, plants):
    """One pass over the nodes in an order in which all that a node waits for comes before it."""
    faults = Faults(model, draws, plants)
    total = faults.work + faults.cost
    prefix = numpy.cumsum(total)
    blocks, ops = len(model.blocks), len(model.op_rank)
    duration, latency, jitter = faults.duration.tolist(), draws.latency.tolist(), draws.end.tolist()
    transfer = faults.transfer.tolist()
    start, end, launch = [0.0] * ops, [0.0] * ops, [0.0] * len(total)
    item_end = numpy.zeros(len(total))
    members = [instance["ops"] for instance in model.instances]
    previous, waits, items, calls = model.op_previous, model.op_waits, model.op_item, model.op_call
    host, host_rank = 0.0, [0.0] * model.ranks
    for node in model.order:
        if node < blocks:
            rank, first, last, waited = model.blocks[node]
            host = max([host_rank[rank]] + [end[op] for op in waited])
            if last > first:
                times = prefix[first:last] - (prefix[first] - total[first]) + host
                item_end[first:last] = times
                launch[first:last] = (times - (1 - LAUNCH_SHARE) * faults.cost[first:last]).tolist()
                host_rank[rank] = float(times[-1])
            else:
                host_rank[rank] = host
        elif node < blocks + ops:
            op = node - blocks
            ready = launch[items[op]] + latency[op]
            before = previous[op]
            if before >= 0 and end[before] + STREAM_GAP > ready:
                ready = end[before] + STREAM_GAP
            for before in waits[op]:
                if end[before] + STREAM_GAP > ready:
                    ready = end[before] + STREAM_GAP
            start[op] = ready
            if op not in calls:
                end[op] = ready + duration[op]
        else:
            number = node - blocks - ops
            done = max([start[op] for op in members[number]]) + transfer[number]
            for op in members[number]:
                if done + jitter[op] > end[op]:
                    end[op] = done + jitter[op]
    return Run(start, end, launch, item_end - total, item_end)
