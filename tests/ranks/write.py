"""Files of the generated ranks, in the forms that PyTorch writes: with CUDA from 2.5 on, before 2.2, and with gloo."""
import json
import os

import numpy

from model import LAUNCH_SHARE

BASE_NS = 1790857026000000000  # of timestamps in files, as libkineto rounds it
FIRST_NS = 4419125453000000  # of the window, after BASE_NS
DEVICE = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85045870592, "computeMajor": 9, "computeMinor": 0,
          "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
          "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536,
          "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472}
KERNELS = {"allreduce": "AllReduce_Sum_{}_RING_LL", "_allgather_base": "AllGather_RING_LL", "broadcast": "Broadcast_RING_LL",
           "_reduce_scatter_base": "ReduceScatter_Sum_{}_RING_LL", "all_to_allv": "SendRecv", "send": "SendRecv",
           "recv": "SendRecv"}
OLD_KERNELS = {"allreduce": "AllReduce_RING_LL_Sum_{}", "_allgather_base": "AllGather_RING_LL_Sum_int8_t",
               "broadcast": "Broadcast_RING_LL_Sum_int8_t", "_reduce_scatter_base": "ReduceScatter_RING_LL_Sum_{}"}
SHORT = {"Float": ("f32", "float"), "BFloat16": ("bf16", "__nv_bfloat16"), "Long": ("i64", "int64_t")}
ANNOTATIONS = {"allreduce": "all_reduce", "_allgather_base": "_all_gather_base", "_reduce_scatter_base": "_reduce_scatter_base",
               "all_to_allv": "all_to_all", "broadcast": "broadcast", "send": "send", "recv": "recv"}
OTHER_OPERATION = {"allreduce": "_allgather_base", "_allgather_base": "_reduce_scatter_base"}
OPERATORS = (("flash_fwd", "aten::_flash_attention_forward"), ("flash_bwd", "aten::_flash_attention_backward"),
             ("GeluBackward", "aten::gelu_backward"), ("Gelu", "aten::gelu"), ("ArgMax", "aten::argmax"),
             ("layer_norm_grad", "aten::native_layer_norm_backward"), ("layer_norm", "aten::native_layer_norm"),
             ("Adam", "aten::_fused_adam_"), ("Grouped", "aten::_grouped_mm"))
TIME = "%d.%03d"


def kernel_name(operation, dtype, old):
    if old:
        return "ncclKernel_" + OLD_KERNELS.get(operation, "SendRecv_RING_SIMPLE_Sum_int8_t").format(SHORT[dtype][1]) + \
            "(ncclDevComm*, unsigned long, ncclWork*)"
    return "ncclDevKernel_" + KERNELS[operation].format(SHORT[dtype][0]) + "(ncclDevKernelArgsStorage<4096ul>)"


def list_ranks(members):
    """As PyTorch writes lists in arguments: thirty elements at most."""
    if len(members) <= 30:
        return "[" + ", ".join(map(str, members)) + "]"
    return "[" + ", ".join(map(str, members[:29])) + f", ..., {members[-1]}]"


def operator_of(kernel):
    """The operator that launches a kernel of this name."""
    for part, name in OPERATORS:
        if part in kernel:
            return name
    return "aten::mm"


class Clocks:
    """Clocks of hosts, and what remains of the clocks of devices, relative to host 0."""

    def __init__(self, ranks, hosts, seed, options):
        random = numpy.random.default_rng([seed, 3])
        self.offset = random.uniform(-1, 1, hosts) * options["offset_ms"] * 1e6
        self.drift = random.uniform(-1, 1, hosts) * options["drift_ppm"] * 1e-6
        self.offset[0] = self.drift[0] = 0
        self.device = random.uniform(-1, 1, ranks) * options["device_us"] * 1e3
        self.steps = {}  # host: (time, nanoseconds that its clock jumps by)

    def read(self, host, times):
        found = times * (1 + self.drift[host]) + self.offset[host]
        if host in self.steps:
            when, jump = self.steps[host]
            found = numpy.where(times > when, found + jump, found)
        return found


class RankWriter:
    """The file of one rank."""

    def __init__(self, job, rank):
        self.job, self.model, self.run, self.rank = job, job.model, job.run, rank
        self.host = self.model.host_of(rank)
        self.pid, self.device = 10000 + rank, rank % self.model.ranks_per_host
        self.damage = {d["kind"]: d for d in job.damage if d.get("rank") == rank}
        self.foreign = "other_run" in self.damage
        self.old, self.gloo = job.form == "old", job.form == "gloo"
        self.host_events, self.device_events = [], []
        self.first = FIRST_NS + (3600 * 10**9 if self.foreign else 0) + (BASE_NS if self.old else 0)

    # Times

    def on_clock(self, times, of_device=False):
        read = self.job.clocks.read(self.host, times) + (self.job.clocks.device[self.rank] if of_device else 0)
        # Rounded before the large start is added, which has no room for fractions.
        found = numpy.rint(read).astype(numpy.int64) + self.first
        return found // 1000 * 1000 if self.old else found

    def load_times(self):
        first, last = self.model.rank_ops[self.rank]
        run, items = self.run, numpy.array(self.model.op_item[first:last], int)
        launch, ends = run.launch[items], run.item_end[items]
        begin = launch - (ends - launch) * LAUNCH_SHARE / (1 - LAUNCH_SHARE)
        self.op_begin, self.op_launch, self.op_end = (self.on_clock(t) for t in (begin, launch, ends - 150))
        self.start, self.end = (self.on_clock(t[first:last], True) for t in (run.start, run.end))
        self.keep_host = numpy.ones(last - first, bool)
        self.keep_device = self.keep_host
        cut = self.damage.get("ring_cut")
        self.cut = self.on_clock(numpy.array([cut["fraction"] * run.makespan]))[0] if cut else 0
        if cut:
            self.keep_host, self.keep_device = self.op_begin >= self.cut, self.start >= self.cut

    # Events

    def complete(self, category, name, begin, end, args, tid=None, pid=None):
        if self.old:
            begin, end = begin // 1000 * 1000, end // 1000 * 1000
        return ('{"ph": "X", "cat": "%s", "name": "%s", "pid": %s, "tid": %s, "ts": %d.%03d, "dur": %d.%03d, "args": {%s}}' % (
            category, name, self.pid if pid is None else pid, self.pid if tid is None else tid, begin // 1000, begin % 1000,
            (end - begin) // 1000, (end - begin) % 1000, args))

    def kernel_templates(self, kernel):
        """Formats of the host's events and of the device's, with places for times and numbers."""
        thread = f'"pid": {self.pid}, "tid": {self.pid}, "ts": {TIME}'
        name = kernel.replace("%", "%%")
        host = (f'{{"ph": "X", "cat": "cpu_op", "name": "{operator_of(kernel)}", {thread}, "dur": {TIME}, '
                '"args": {"External id": %d, "Ev Idx": %d}},\n'
                f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", {thread}, "dur": {"2" if self.old else "2.017"}, '
                '"args": {"External id": %d, "cbid": 211, "correlation": %d}},\n'
                f'{{"ph": "s", "id": %d, {thread}, "cat": "ac2g", "name": "ac2g"}}')
        row = f'"pid": {self.device}, "tid": %d, "ts": {TIME}'
        device = (f'{{"ph": "X", "cat": "kernel", "name": "{name}", {row}, "dur": {TIME}, "args": {{%s"queued": 0, '
                  f'"device": {self.device}, "context": 1, "stream": %d, "correlation": %d, "registers per thread": 168, '
                  '"shared memory": 213248, "blocks per SM": 1.939394, "warps per SM": 15.515152, "grid": [16, 16, 1], '
                  '"block": [256, 1, 1], "est. achieved occupancy %%": 24%s}},\n'
                  f'{{"ph": "f", "id": %d, {row}, "cat": "ac2g", "name": "ac2g", "bp": "e"}}')
        return host, device

    def call_args(self, call, number):
        """Arguments of a call, as record_param_comms has them."""
        instance, operation, count_in, count_out, dtype, peer, seq, splits = call
        group = self.model.instances[instance]["group"]
        change = self.job.changes.get(number, {})
        operation, scale = change.get("operation", operation), change.get("scale", 2 if self.foreign else 1)
        seq += change.get("shift", 0) + (100000 if self.foreign else 0)
        out_split, in_split = splits or ([], [])
        text = (f'"Collective name": "{operation}", "In msg nelems": {count_in * scale}, "Out msg nelems": {count_out * scale}, '
                f'"Group size": {len(group.members)}, "dtype": "{dtype}", "In split size": "{list_ranks(out_split)}", '
                f'"Out split size": "{list_ranks(in_split)}", "Process Group Name": "{group.name}", '
                f'"Process Group Description": "{group.description}", "Process Group Ranks": "{self.job.listed(group)}"')
        if peer >= 0:
            text += f', "{"Dst" if operation == "send" else "Src"} Rank": {peer}'
        if peer < 0 or self.job.options["p2p_seq"] != "absent":
            text += f', "Seq": {seq}'
        return operation, dtype, text

    def add_communication(self, number, local):
        """The calls on the host, the launch, and the kernel."""
        calls, change = self.model.op_call[number], self.job.changes.get(number, {})
        if change.get("drop"):
            return
        begin, launch, end = (int(t[local]) for t in (self.op_begin, self.op_launch, self.op_end))
        op, batched = local + 1, calls[0][5] >= 0 and self.job.options["p2p_batched"]
        events, replayed = [], number in self.model.op_graph
        for index, call in enumerate(calls):
            operation, dtype, text = self.call_args(call, number)
            if replayed:
                break
            # Calls of one kernel come one after the other; the kernel belongs to the last one.
            low = begin + (launch - begin) * index // len(calls)
            high = end if index + 1 == len(calls) else begin + (launch - begin) * (index + 1) // len(calls)
            ident = op if index + 1 == len(calls) else 10000000 + op
            args = f'"External id": {ident}, "Record function id": 0, "Ev Idx": {ident}, '
            args += '"Input Dims": [[], [], [], [], [], [], []]' if self.old else text
            events.append(self.complete("cpu_op", "record_param_comms", low + 300, high - 300, args))
            title = "coalesced" if batched else ANNOTATIONS[operation]
            if not batched or not index:
                events.append(self.complete("user_annotation", "nccl:" + title, low + 500, (end if batched else high) - 500,
                                            f'"External id": {20000000 + op}, "Record function id": 0'))
        if not replayed:
            args = f'"External id": {op}, "cbid": 430, "correlation": {op}'
            events.append(self.complete("cuda_runtime", "cudaLaunchKernelExC", launch, launch + 4000, args))
            events.append('{"ph": "s", "id": %d, "pid": %d, "tid": %d, "ts": %d.%03d, "cat": "ac2g", "name": "ac2g"}' % (
                op, self.pid, self.pid, launch // 1000, launch % 1000))
        on_kernel = "" if self.old or replayed or (batched and self.job.options["p2p_args"] == "host") else ", " + text
        kernel = self.device_kernel(number, local, kernel_name(operation, dtype, self.old), on_kernel)
        for _ in range(1 + change.get("repeat", 0)):
            if self.keep_host[local]:
                self.host_events.extend(events)
            if self.keep_device[local]:
                self.device_events.append(kernel)

    def device_kernel(self, number, local, name, more):
        stream, start = self.model.op_stream[number], int(self.start[local])
        length = max(int(self.end[local]) - start, 0)
        ident, correlation, graph = self.identify(number, local)
        _, template = self.templates(name)
        return template % (stream, start // 1000, start % 1000, length // 1000, length % 1000, ident, stream, correlation,
                           graph + more, correlation, stream, start // 1000, start % 1000)

    def identify(self, number, local):
        """External id, correlation and graph of a kernel; a replayed one has those of its launch."""
        node = self.model.op_graph.get(number)
        if node is None:
            return f'"External id": {local + 1}, ', local + 1, ', "graph id": 0, "graph node id": 0'
        launch = 30000000 + self.model.op_item[number] - self.model.rank_items[self.rank][0]
        return "", launch, f', "graph id": {node[0]}, "graph node id": {(node[0] << 32) + node[1]}'

    def templates(self, name):
        if name not in self.cache:
            self.cache[name] = self.kernel_templates(name)
        return self.cache[name]

    def add_operations(self):
        first, last = self.model.rank_ops[self.rank]
        self.cache = {}
        begin, launch, end, start, stop = (t.tolist() for t in (self.op_begin, self.op_launch, self.op_end, self.start, self.end))
        names, kernels, calls, graphs = self.model.kernel_names, self.model.op_kernel, self.model.op_call, self.model.op_graph
        keep_host, keep_device, streams = self.keep_host.tolist(), self.keep_device.tolist(), self.model.op_stream
        add_host, add_device = self.host_events.append, self.device_events.append
        for local, number in enumerate(range(first, last)):
            if number in calls:
                self.add_communication(number, local)
                continue
            name, stream, op = names[kernels[number]], streams[number], local + 1
            host, device = self.cache.get(name) or self.templates(name)
            if keep_host[local] and number not in graphs:
                b, l, d = begin[local], launch[local], end[local] - begin[local]
                add_host(host % (b // 1000, b % 1000, d // 1000, d % 1000, op, op, l // 1000, l % 1000, op, op, op, l // 1000, l % 1000))
            if keep_device[local]:
                s, d = start[local], stop[local] - start[local]
                ident, correlation, graph = self.identify(number, local)
                add_device(device % (stream, s // 1000, s % 1000, d // 1000, d % 1000, ident, stream, correlation, graph,
                                     correlation, stream, s // 1000, s % 1000))

    def add_host_work(self):
        """Steps, the data loader, launches of graphs, synchronisations."""
        first, last = self.model.rank_items[self.rank]
        begins, ends = (self.on_clock(t[first:last]).tolist() for t in (self.run.item_start, self.run.item_end))
        launches = self.on_clock(self.run.launch[first:last]).tolist()
        tags, steps, step_begin = self.model.item_tag, self.model.item_step, 0
        for local in range(last - first):
            tag, begin, end = tags[first + local], begins[local], ends[local]
            number, added = 30000000 + local, []
            if tag == "begin":
                step_begin = begin
            elif tag == "end":
                added.append(self.complete("user_annotation", f"ProfilerStep#{10 + steps[first + local]}", step_begin, end,
                                           f'"External id": {number}, "Record function id": 0'))
            elif tag == "loader":
                added.append(self.complete("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                                           begin, end, f'"External id": {number}, "Record function id": 0'))
            elif tag == "sync" and not self.gloo:
                begin = ends[local - 1]
                added.append(self.complete("cuda_runtime", "cudaDeviceSynchronize", begin, end,
                                           f'"External id": {number}, "cbid": 165, "correlation": {number}'))
            elif tag == "graph":
                begin = launches[local]
                added.append(self.complete("cuda_runtime", "cudaGraphLaunch", begin, end - 300,
                                           f'"cbid": 311, "correlation": {number}'))
                added.append('{"ph": "s", "id": %d, "pid": %d, "tid": %d, "ts": %d.%03d, "cat": "ac2g", "name": "ac2g"}' % (
                    number, self.pid, self.pid, begin // 1000, begin % 1000))
            if begin >= self.cut:
                self.host_events.extend(added)

    def add_gloo_operations(self):
        """Without a device: computation is operators of the main thread, communication of a worker thread."""
        first, last = self.model.rank_ops[self.rank]
        names, kernels = self.model.kernel_names, self.model.op_kernel
        for local, number in enumerate(range(first, last)):
            begin, end, op = int(self.start[local]), int(self.end[local]), local + 1
            if not self.keep_device[local]:
                continue
            if number not in self.model.op_call:
                args = f'"External id": {op}, "Record function id": 0, "Ev Idx": {op}'
                self.host_events.append(self.complete("cpu_op", operator_of(names[kernels[number]]), begin, end, args))
                continue
            change = self.job.changes.get(number, {})
            for index, call in enumerate(self.model.op_call[number]):
                operation = change.get("operation", call[1])
                args = (f'"External id": {20000000 + op}, "Record function id": 0, "Concrete Inputs": [""], "Input type": '
                        f'["float"], "Input Strides": [[1]], "Input Dims": [[{call[2] * change.get("scale", 1)}]], "Ev Idx": {op}')
                event = self.complete("user_annotation", "gloo:" + ANNOTATIONS[operation].strip("_"), begin, end, args,
                                      tid=self.pid + 100000 + index + self.model.op_stream[number])
                self.host_events.extend([event] * (0 if change.get("drop") else 1 + change.get("repeat", 0)))

    # The file

    def header(self):
        job, model, rank = self.job, self.model, self.rank
        if self.old:
            info = f'{{"backend": "nccl", "rank": {rank}, "world_size": {model.ranks}}}'
            return f'{{\n"schemaVersion": 1,\n"deviceProperties": [{json.dumps({"id": self.device, **DEVICE})}],\n' \
                   f'"distributedInfo": {info},\n"record_shapes": 1,\n"traceEvents": [\n'
        backend = "cpu:gloo,cuda:gloo" if self.gloo else "cuda:nccl"
        groups = [group for group in model.groups if rank in job.members[group.number]]
        configs = ", ".join(f'{{"pg_name": "{g.name}", "pg_desc": "{g.description}", "backend_config": "{backend}", '
                            f'"pg_size": {len(g.members)}, "ranks": {job.all_members(g)}}}' for g in groups)
        info = (f'{{"backend": "{"gloo" if self.gloo else "nccl"}", "rank": {rank}, "world_size": {model.ranks}, '
                f'"pg_count": {len(groups)}, "pg_config": [{configs}]{"" if self.gloo else NCCL_VERSION}}}')
        device = "" if self.gloo else json.dumps({"id": self.device, **DEVICE})
        run = job.seed + (1000003 if self.foreign else 0)
        return (f'{{\n"schemaVersion": 1,\n"deviceProperties": [{device}],\n"trace_id": "{run:032X}",\n'
                f'"distributedInfo": {info},\n"host_name": "node{self.host:03d}",\n"displayTimeUnit": "ms",\n'
                f'"baseTimeNanoseconds": {BASE_NS},\n"traceEvents": [\n')

    def metadata(self):
        ts = TIME % divmod(self.first, 1000)
        rows = [(self.pid, 0, "process_name", {"name": "python3"}), (self.pid, 0, "process_labels", {"labels": "CPU"}),
                (self.pid, self.pid, "thread_name", {"name": f"thread {self.pid} (python3)"})]
        first, last = self.model.rank_ops[self.rank]
        streams = sorted(set(self.model.op_stream[first:last]))
        if self.gloo:
            rows += [(self.pid, self.pid + 100000 + s, "thread_name", {"name": f"thread {self.pid + 100000 + s} (pt_gloo_runloop)"})
                     for s in streams[1:]]
        else:
            rows += [(self.device, 0, "process_name", {"name": "python3"}),
                     (self.device, 0, "process_labels", {"labels": f"GPU {self.device}"})]
            rows += [(self.device, s, "thread_name", {"name": f"stream {s} "}) for s in streams]
        return [f'{{"ph": "M", "name": "{name}", "ts": {ts}, "pid": {pid}, "tid": {tid}, "args": {json.dumps(args)}}}'
                for pid, tid, name, args in rows]

    def compose(self):
        self.load_times()
        self.add_host_work()
        if self.gloo:
            self.add_gloo_operations()
        else:
            self.add_operations()
        end = self.on_clock(numpy.array([self.run.makespan + 1e6]))[0]
        window = self.cut or self.on_clock(numpy.array([-1e6]))[0]
        tail = [self.complete("Trace", "PyTorch Profiler (0)", window, end, '"Op count": 0', '"PyTorch Profiler"', '"Spans"'),
                '{"ph": "i", "s": "g", "name": "Iteration Start: PyTorch Profiler", "pid": "Traces", '
                '"tid": "Trace PyTorch Profiler", "ts": %d.%03d}' % divmod(window, 1000),
                '{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": %d.%03d}' % divmod(end, 1000)]
        events = self.metadata() + self.host_events + self.device_events + tail
        text = self.header() + ",\n".join(events) + f'\n],\n"traceName": "rank{self.rank}.json"\n}}\n'
        if self.old:
            text = text.replace(".000,", ",").replace(".000}", "}")
        return text

    def write(self, path):
        if "missing" in self.damage:
            return
        if "empty" in self.damage:
            text = ""
        elif "corrupt" in self.damage:
            text = "\x01\x02 not a trace {" * 400
        else:
            text = self.compose()
        if "truncated" in self.damage:
            text = text[:int(len(text) * self.damage["truncated"]["fraction"])]
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


NCCL_VERSION = ', "nccl_version": "2.21.5"'


class Job:
    """All that the files of one job share."""

    def __init__(self, model, run, clocks, damage, changes, options, form, seed):
        self.model, self.run, self.clocks, self.damage, self.changes = model, run, clocks, damage, changes
        self.options, self.form, self.seed = options, form, seed
        self.members = [frozenset(group.members) for group in model.groups]
        self.texts = {}

    def listed(self, group):
        return self.text(("short", group.number), lambda: list_ranks(group.members))

    def all_members(self, group):
        return self.text(("all", group.number), lambda: "[" + ", ".join(map(str, group.members)) + "]")

    def text(self, key, make):
        if key not in self.texts:
            self.texts[key] = make()
        return self.texts[key]

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        for rank in range(self.model.ranks):
            RankWriter(self, rank).write(os.path.join(folder, f"rank{rank}.json"))
