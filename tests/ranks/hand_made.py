"""Traces of a few ranks by hand: what a stream does and when it was launched, in microseconds."""
import json
import os

BASE_US = 1000000.0
LAUNCH_US = 2.0


class Rank:
    """Writes one rank. Times are from the begin of the run, on the clock of its host."""

    def __init__(self, rank, world, host="node000", offset_us=0.0):
        self.rank, self.world, self.host, self.offset_us = rank, world, host, offset_us
        self.events, self.correlation = [], 0

    def put(self, category, name, thread, start, end, args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 0 if category == "kernel" else 100, "tid": thread,
                            "ts": round(BASE_US + self.offset_us + start, 3), "dur": round(end - start, 3), "args": args})

    def launch(self, at):
        self.correlation += 1
        self.put("cuda_runtime", "cudaLaunchKernel", 100, at, at + LAUNCH_US, {"correlation": self.correlation})
        return self.correlation

    def compute(self, launched, start, end):
        self.put("kernel", "gemm", 7, start, end, {"device": 0, "stream": 7, "correlation": self.launch(launched)})

    def collect(self, launched, start, end, seq, group="0", members=None, stream=20):
        members = list(range(self.world)) if members is None else members
        self.put("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream, start, end,
                 {"device": 0, "stream": stream, "correlation": self.launch(launched), "Collective name": "allreduce",
                  "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": len(members), "dtype": "BFloat16",
                  "Process Group Name": group, "Process Group Description": "dp", "Process Group Ranks": str(members),
                  "Seq": seq})

    def step(self, number, start, end):
        self.put("user_annotation", f"ProfilerStep#{number}", 100, start, end, {})

    def write(self, folder):
        header = {"backend": "nccl", "rank": self.rank, "world_size": self.world}
        trace = {"schemaVersion": 1, "distributedInfo": header, "host_name": self.host, "traceEvents": self.events}
        with open(os.path.join(folder, f"rank{self.rank}.json"), "w", encoding="utf-8") as file:
            json.dump(trace, file)
