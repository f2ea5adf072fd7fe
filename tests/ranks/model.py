"""A discrete model of a job of many ranks: host threads that launch, streams that execute, collectives that rendezvous.

A program is built rank by rank. Which operation waits for which depends only on the program, so that the order of
evaluation is computed once; a run is one pass over it, and a run without a fault uses the same random numbers.
All times are in nanoseconds of a clock that all ranks share; write.py translates them to the clocks of the hosts.
"""
import math

import numpy

COMPUTE = 7  # the stream of computation
STREAMS = {"world": 20, "tp": 24, "dp": 28, "shard": 32, "scatter": 36, "replicate": 40, "ep": 44,
           "pp": 48, "pp.1": 52, "pp.2": 56, "pp.3": 60}
PHASES = {"other": 0, "forward": 1, "backward": 2}
STREAM_GAP = 600.0  # between the end of an operation and the start of the next one on its stream
ROUND_TRIP = 6000.0  # of a synchronisation, until the host goes on
LAUNCH_COST, COMMUNICATION_COST, GRAPH_COST = 6000.0, 14000.0, 11000.0
LAUNCH_SHARE = 0.4  # of the cost of an operator is before its launch

BANDWIDTH_INSIDE, BANDWIDTH_ACROSS = 200.0, 40.0  # bytes per nanosecond, of one rank
LATENCY_INSIDE, LATENCY_ACROSS = 6000.0, 12000.0


class Group:
    """A process group; `kind` is what the generator calls it, `description` what PyTorch writes."""

    def __init__(self, number, kind, description, members, first_seq):
        self.number, self.name, self.kind, self.description = number, str(number), kind, description
        self.members, self.first_seq = tuple(members), first_seq
        self.hosts = self.ring = frozenset()


class Model:
    """Operations, host work and rendezvous of all ranks. Ranks are built one after the other: begin_rank(0), …"""

    def __init__(self, ranks, ranks_per_host):
        self.ranks, self.ranks_per_host = ranks, ranks_per_host
        self.groups, self.group_of = [], {}
        self.kernel_names, self.kernel_number = [], {}
        self.op_rank, self.op_kernel, self.op_duration, self.op_phase, self.op_step = [], [], [], [], []
        self.op_stream, self.op_previous, self.op_waits, self.op_item, self.op_block = [], [], [], [], []
        self.op_call, self.op_graph = {}, {}  # operations that communicate: their calls; replayed ones: (graph, node)
        self.item_rank, self.item_work, self.item_cost, self.item_tag, self.item_step = [], [], [], [], []
        self.blocks = []  # (rank, first item, end item, operations that the block waits for)
        self.instances, self.instance_key = [], {}
        self.rank_ops, self.rank_items, self.roles = [], [], ["rank"] * ranks
        self.order = None

    # Groups

    def host_of(self, rank):
        return rank // self.ranks_per_host

    def add_group(self, kind, description, members, first_seq=None):
        number = len(self.groups)
        group = Group(number, kind, description, members, 40 + 13 * number % 1000 if first_seq is None else first_seq)
        hosts = [self.host_of(rank) for rank in group.members]
        group.hosts = frozenset(hosts)
        group.ring = frozenset(frozenset(pair) for pair in zip(hosts, hosts[1:] + hosts[:1]) if pair[0] != pair[1])
        self.groups.append(group)
        for rank in group.members:
            self.group_of[kind, rank] = group
        return group

    # What a rank does

    def begin_rank(self, rank):
        assert rank == len(self.rank_ops)
        self.rank, self.step, self.phase = rank, 0, 0
        self.last, self.pending, self.calls = {}, {}, {}
        self.first_op, self.first_item = len(self.op_rank), len(self.item_rank)
        self.block_first, self.block_waits, self.work = self.first_item, (), 0.0
        self.graph = None

    def end_rank(self):
        self.close_block(())
        self.rank_ops.append((self.first_op, len(self.op_rank)))
        self.rank_items.append((self.first_item, len(self.item_rank)))

    def close_block(self, waits):
        self.blocks.append((self.rank, self.block_first, len(self.item_rank), self.block_waits))
        self.block_first, self.block_waits = len(self.item_rank), waits

    def add_item(self, work_us, cost, tag):
        self.item_rank.append(self.rank)
        self.item_work.append(work_us * 1e3)
        self.item_cost.append(cost)
        self.item_tag.append(tag)
        self.item_step.append(self.step)

    def begin_step(self, step, loader_us):
        self.step = step
        self.add_item(0, 0.0, "begin")
        self.add_item(loader_us, 500.0, "loader")

    def end_step(self):
        """The host reads the loss: it waits for all streams."""
        self.synchronize()
        self.add_item(15, 0.0, "end")

    def synchronize(self):
        self.close_block(tuple(self.last.values()))
        self.add_item(0, ROUND_TRIP, "sync")

    def work_on_host(self, us):
        self.add_item(us, 0.0, "work")

    def begin_graph(self, number):
        """Operations until end_graph() are nodes of a graph that one call replays."""
        self.add_item(0, GRAPH_COST, "graph")
        self.graph = [number, 0]

    def end_graph(self):
        self.graph = None

    def add_op(self, kernel, us, stream):
        op = len(self.op_rank)
        if kernel not in self.kernel_number:
            self.kernel_number[kernel] = len(self.kernel_names)
            self.kernel_names.append(kernel)
        if self.graph:
            self.op_graph[op] = tuple(self.graph)
            self.graph[1] += 1
        for values, value in ((self.op_rank, self.rank), (self.op_kernel, self.kernel_number[kernel]),
                              (self.op_duration, us * 1e3), (self.op_phase, self.phase), (self.op_step, self.step),
                              (self.op_stream, stream), (self.op_previous, self.last.get(stream, -1)),
                              (self.op_waits, tuple(self.pending.pop(stream, ()))),
                              (self.op_item, len(self.item_rank) - 1), (self.op_block, len(self.blocks))):
            values.append(value)
        self.last[stream] = op
        return op

    def launch_kernel(self, kernel, us, stream=COMPUTE):
        if not self.graph:
            self.add_item(0, LAUNCH_COST, "launch")
        return self.add_op(kernel, us, stream)

    def wait_stream(self, waiter, waited):
        """What `waiter` gets from now on waits for what `waited` has by now."""
        if waiter != waited and waited in self.last:
            self.pending.setdefault(waiter, []).append(self.last[waited])

    def launch_communication(self, calls, stream):
        """One kernel for these calls: (instance, operation, elements in, elements out, type, peer, seq, splits)."""
        if not self.graph:
            self.add_item(0, COMMUNICATION_COST + 4000.0 * (len(calls) - 1), "communication")
        op = self.add_op("", 0, stream)
        self.op_call[op] = calls
        for call in calls:
            self.instances[call[0]]["ops"].append(op)
        return op

    def find_instance(self, key, group, operation, expected):
        if key not in self.instance_key:
            self.instance_key[key] = len(self.instances)
            self.instances.append({"group": group, "operation": operation, "expected": expected, "ops": [], "bytes": 0,
                                   "step": self.step, "key": key})
        return self.instance_key[key]

    def count_call(self, group, what):
        number = self.calls.get((group.number, what), 0)
        self.calls[group.number, what] = number + 1
        return number

    def communicate(self, kind, operation, elements_in, elements_out=None, stream=None, dtype="BFloat16", after=True,
                    splits=None):
        """A collective of the rank's group of this kind, on its stream, after what the computation has by now."""
        group = self.group_of[kind, self.rank]
        stream = STREAMS[kind] if stream is None else stream
        replayed = self.graph is not None
        number = self.count_call(group, "replayed" if replayed else "collective")
        instance = self.find_instance((group.number, replayed, number), group, operation, len(group.members))
        record = self.instances[instance]
        assert record["operation"] == operation, (record, operation)
        elements_out = elements_in if elements_out is None else elements_out
        size = max(elements_in, elements_out) * SIZES[dtype]
        record["bytes"] = max(record["bytes"], size)
        if after:
            self.wait_stream(stream, COMPUTE)
        seq = -1 if replayed else group.first_seq + number
        return self.launch_communication([(instance, operation, elements_in, elements_out, dtype, -1, seq, splits)],
                                         stream)

    def exchange(self, kind, sends, receives, elements, stream, seqs="shared", dtype="BFloat16"):
        """One kernel for messages to `sends` and from `receives`; both ends are paired in order of their calls."""
        group, calls = self.group_of[kind, self.rank], []
        for peer, operation in [(peer, "send") for peer in sends] + [(peer, "recv") for peer in receives]:
            ends = (self.rank, peer) if operation == "send" else (peer, self.rank)
            number = self.count_call(group, ends)
            instance = self.find_instance((group.number, ends, number), group, "p2p", 2)
            self.instances[instance]["bytes"] = elements * SIZES[dtype]
            seq = group.first_seq + (number if seqs == "shared" else self.count_call(group, "p2p"))
            calls.append((instance, operation, elements, elements, dtype, peer, seq, None))
        self.wait_stream(stream, COMPUTE)
        return self.launch_communication(calls, stream)

    # Structure

    def finish(self):
        for instance in self.instances:
            assert len(instance["ops"]) == instance["expected"], f"not all members call {instance['key']}"
        self.order = self.sort_nodes()
        self.transfer = numpy.array([self.transfer_ns(instance) for instance in self.instances])

    def successors(self):
        """Nodes are blocks, then operations, then instances; of each, those that wait for it."""
        blocks, ops = len(self.blocks), len(self.op_rank)
        after = [[] for _ in range(blocks + ops + len(self.instances))]

        def ends(op):
            calls = self.op_call.get(op)
            return [blocks + op] if calls is None else [blocks + ops + call[0] for call in calls]

        previous_rank = -1
        for number, (rank, _, _, waits) in enumerate(self.blocks):
            if rank == previous_rank:
                after[number - 1].append(number)
            previous_rank = rank
            for op in waits:
                for node in ends(op):
                    after[node].append(number)
        for op in range(ops):
            node = blocks + op
            after[self.op_block[op]].append(node)
            if self.op_previous[op] >= 0:
                for before in ends(self.op_previous[op]):
                    after[before].append(node)
            for wait in self.op_waits[op]:
                for before in ends(wait):
                    after[before].append(node)
        for number, instance in enumerate(self.instances):
            for op in instance["ops"]:
                after[blocks + op].append(blocks + ops + number)
        return after

    def sort_nodes(self):
        after = self.successors()
        missing = [0] * len(after)
        for nodes in after:
            for node in nodes:
                missing[node] += 1
        order = [node for node, count in enumerate(missing) if not count]
        for node in order:  # grows
            for next_node in after[node]:
                missing[next_node] -= 1
                if not missing[next_node]:
                    order.append(next_node)
        if len(order) != len(after):
            raise RuntimeError("the program deadlocks: ranks wait for each other in a circle")
        return order

    def transfer_ns(self, instance):
        group, operation, size = instance["group"], instance["operation"], instance["bytes"]
        if operation == "p2p":
            sender, receiver = instance["key"][1]
            across, count, factor = self.host_of(sender) != self.host_of(receiver), 2, 1.0
        else:
            across, count = len(group.hosts) > 1, len(group.members)
            factor = (count - 1) / count * (2 if operation == "allreduce" else 1)
        bandwidth = BANDWIDTH_ACROSS if across else BANDWIDTH_INSIDE
        latency = LATENCY_ACROSS if across else LATENCY_INSIDE
        return latency * (1 + 0.15 * math.log2(count)) + factor * size / bandwidth


SIZES = {"Float": 4, "BFloat16": 2, "Long": 8}
