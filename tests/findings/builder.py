"""Small traces, made by hand: what a finding is to be found in, or not.

Times are in us from the start of the trace; nothing is invented but what a test says. All that is
made has its own correlation and external ids, links and arguments, as PyTorch writes them:

    t = Trace()
    for n in range(4):
        t.step(n, 1000 * n, 1000)
        t.op("aten::mm", 1000 * n + 10, 30, dims=[[64, 64], [64, 64]])
        t.kernel("ampere_sgemm_128x64_nn", 1000 * n + 40, 500, at=1000 * n + 20)
    t.save("t.json")

A Program writes such a trace by running: it has a clock of the host and one of each stream, work
begins when its stream is free and it has been launched, and waits end when work does:

    p = Program()
    for _ in p.steps(4):
        with p.op("aten::mm", 20):
            p.kernel("sgemm", 500)
    p.trace.save("t.json")
"""

import contextlib
import json

BASE = 1_700_000_000_000_000  # us; where the trace begins
PID = 100

# What a runtime calls things.
CALLS = {
    "cuda": {"kernel": "cudaLaunchKernel", "copy": "cudaMemcpyAsync", "fill": "cudaMemsetAsync",
             "runtime": "cuda_runtime"},
    "hip": {"kernel": "hipLaunchKernel", "copy": "hipMemcpyAsync", "fill": "hipMemsetAsync",
            "runtime": "cuda_runtime"},
    "xpu": {"kernel": "urEnqueueKernelLaunch", "copy": "urEnqueueUSMMemcpy", "fill": "urEnqueueUSMFill",
            "runtime": "xpu_runtime"},
}


def device_of(vendor, index, name=None, capability=None, memory=None, sms=None, **more):
    """deviceProperties of one device."""
    usual = {"cuda": ("NVIDIA A100-SXM4-80GB", (8, 0), 80 << 30, 108),
             "hip": ("AMD Instinct MI250X", (9, 0), 64 << 30, 110),
             "xpu": ("Intel(R) Data Center GPU Max 1550", (1, 0), 64 << 30, 448)}[vendor]
    major, minor = capability or usual[1]
    return {"id": index, "name": name or usual[0], "totalGlobalMem": memory or usual[2],
            "computeMajor": major, "computeMinor": minor, "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536,
            "warpSize": 64 if vendor == "hip" else 32, "sharedMemPerBlock": 49152,
            "sharedMemPerMultiprocessor": 167936, "numSms": sms or usual[3], **more}


class Trace:
    """vendor: "cuda", "hip", "xpu", or None for a trace without devices; `device` goes to device_of."""

    def __init__(self, vendor="cuda", devices=1, rank=None, world=1, backend="nccl", **device):
        self.vendor = vendor
        self.calls = CALLS.get(vendor or "cuda")
        self.events = []
        self.next_id = 1
        self.top = {"schemaVersion": 1,
                    "deviceProperties": [device_of(vendor, i, **device) for i in range(devices)]
                    if vendor else []}
        if rank is not None:
            self.top["distributedInfo"] = {"backend": backend, "rank": rank, "world_size": world}

    # ---- the host ----

    def id(self):
        self.next_id += 1
        return self.next_id - 1

    def slice(self, category, name, start, length, pid=PID, tid=PID, **args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                            "ts": BASE + start, "dur": length, "args": args})

    def op(self, name, start, length, tid=PID, dims=None, types=None, stack=None, **args):
        """@return its external id, for what it calls."""
        external = self.id()
        args = {"External id": external, **args}
        if dims is not None:
            args["Input Dims"] = dims
            args["Input type"] = types if types is not None else ["float"] * len(dims)
        if stack:
            args["Call stack"] = stack
        self.slice("cpu_op", name, start, length, tid=tid, **args)
        return external

    def call(self, name, start, length, tid=PID, correlation=None, external=None, category=None, **args):
        """A call of the runtime. @return its correlation id."""
        correlation = correlation or self.id()
        self.slice(category or self.calls["runtime"], name, start, length, tid=tid,
                   **{"External id": external or correlation, "cbid": 1, "correlation": correlation}, **args)
        return correlation

    def annotation(self, name, start, length, tid=PID, **args):
        self.slice("user_annotation", name, start, length, tid=tid, **{"External id": self.id(), **args})

    def step(self, number, start, length, tid=PID):
        self.annotation(f"ProfilerStep#{number}", start, length, tid=tid)

    def python(self, name, start, length, tid=PID, parent=None, module=None, **args):
        """A function of Python, or a module: python("nn.Module: Conv2d_0", …, module=0).
        @return its Python id."""
        number = self.id()
        args = {"Python id": number, "Python parent id": parent, **args}
        if module is not None:
            args["Python module id"] = module
        self.slice("python_function", name, start, length, tid=tid, **args)
        return number

    def memory(self, at, size, allocated=None, reserved=None, address=None, device=0, kind=1, tid=PID):
        """A tensor's memory; size < 0: released. kind 0 is the host, 1 CUDA, 20 HIP."""
        args = {"Device Type": kind, "Device Id": device, "Bytes": size}
        if address is not None:
            args["Addr"] = address
        if allocated is not None:
            args["Total Allocated"] = allocated
        if reserved is not None:
            args["Total Reserved"] = reserved
        self.events.append({"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]",
                            "pid": PID, "tid": tid, "ts": BASE + at, "args": args})

    # ---- threads that are watched from outside ----

    def watched(self, what, category, name, start, length, tid, pid, args):
        key = f"{what} {tid}"
        name_of_row = {"ph": "M", "name": "thread_name", "pid": pid, "tid": key, "ts": BASE,
                       "args": {"name": f"thread {tid}: {what}"}}
        if name_of_row not in self.events:
            self.events.append(name_of_row)
        self.slice(category, name, start, length, pid=pid, tid=key, **args)

    def state(self, tid, name, start, length, pid=PID, function=None, stack=None, cpu=0):
        """name: "running", "waiting for a CPU", "blocked"; function: in which it was blocked."""
        args = {"cpu": cpu} if name == "running" and cpu is not None else {}  # None: as from counters
        if function:
            args.update({"in": function, "Call stack": stack or f"libc.so.6!{function};"})
        self.watched("state", "thread_state", name, start, length, tid, pid, args)

    def samples(self, tid, name, start, length, samples, pid=PID, module="program"):
        self.watched("samples", "cpu_sample", name, start, length, tid, pid,
                     {"samples": samples, "cpu_ns": samples * 10_000_000, "module": module})

    # ---- the device ----

    def counters(self, name, at, device=0, **series):
        """A sample of a device; series with "_" for spaces."""
        self.events.append({"ph": "C", "cat": "gpu_pm_counter", "name": name, "pid": device, "tid": 0, "ts": BASE + at,
                            "args": {key.replace("_", " "): value for key, value in series.items()}})

    def flow(self, number, from_at, to_at, from_tid=PID, to_pid=0, to_tid=7, category="ac2g", from_pid=PID):
        name = {"cat": category, "name": category, "id": number}
        self.events.append({"ph": "s", **name, "pid": from_pid, "tid": from_tid, "ts": BASE + from_at})
        self.events.append({"ph": "f", "bp": "e", **name, "pid": to_pid, "tid": to_tid, "ts": BASE + to_at})

    def work(self, category, name, start, length, stream, device, call, at, call_length, tid, external, args):
        """Work of a device. at: when the call that launches it begins; None: unknown.
        @return the correlation id."""
        correlation = self.id()
        if at is not None:
            self.call(call, at, call_length, tid=tid, correlation=correlation, external=external)
            self.flow(correlation, at, start, from_tid=tid, to_pid=device, to_tid=stream)
        self.slice(category, name, start, length, pid=device, tid=stream,
                   **{"External id": external or correlation, "device": device, "context": 1,
                      "stream": stream, "correlation": correlation, **args})
        return correlation

    def kernel(self, name, start, length, at=None, stream=7, device=0, call=None, call_length=5, tid=PID,
               external=None, grid=(1024, 1, 1), block=(256, 1, 1), registers=32, shared=0, **args):
        more = {"queued": 0, "registers per thread": registers, "shared memory": shared,
                "grid": list(grid), "block": list(block), **args}
        blocks = grid[0] * grid[1] * grid[2]
        sms = self.top["deviceProperties"][0]["numSms"] if self.top["deviceProperties"] else 1
        more.setdefault("blocks per SM", blocks / sms)
        more.setdefault("warps per SM", blocks * (block[0] * block[1] * block[2]) / 32 / sms)
        more.setdefault("est. achieved occupancy %", 50)
        return self.work("kernel", name, start, length, stream, device, call or self.calls["kernel"], at,
                         call_length, tid, external, more)

    def copy(self, kind, start, length, size, at=None, stream=7, device=0, call=None, call_length=5, tid=PID,
             external=None, **args):
        """kind: "HtoD (Pageable -> Device)"."""
        more = {"bytes": size, "memory bandwidth (GB/s)": size / 1000 / max(length, 0.001), **args}
        return self.work("gpu_memcpy", f"Memcpy {kind}", start, length, stream, device,
                         call or self.calls["copy"], at, call_length, tid, external, more)

    def fill(self, start, length, size, at=None, stream=7, device=0, call=None, call_length=5, tid=PID,
             external=None, **args):
        more = {"bytes": size, "memory bandwidth (GB/s)": size / 1000 / max(length, 0.001), **args}
        return self.work("gpu_memset", "Memset (Device)", start, length, stream, device,
                         call or self.calls["fill"], at, call_length, tid, external, more)

    # ---- the file ----

    def save(self, path):
        names = [{"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "ts": BASE,
                  "args": {"name": "python3"}}]
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**self.top, "traceEvents": self.events + names}, f)


class Program:
    """Times in us. Arguments that it does not know go to the trace."""

    LAUNCH = 4  # what a call that launches takes
    BEGIN = 3  # from the end of the call to the work, at least
    NEXT = 1  # from one work of a stream to the next

    def __init__(self, trace=None, now=100):
        self.trace = trace or Trace()
        self.now = now
        self.free = {}  # (device, stream) -> when its work is done
        self.external = None

    def spend(self, length):
        self.now += length

    @contextlib.contextmanager
    def op(self, name, length=5, **more):
        """An operator: `length` of its own in front of what it calls."""
        began, around = self.now, self.external
        self.external = self.trace.op(name, began, 0, **more)
        event = self.trace.events[-1]
        self.now += length
        yield
        event["dur"] = self.now - began
        self.external = around

    @contextlib.contextmanager
    def python(self, name, **more):
        began = self.now
        self.trace.python(name, began, 0, **more)
        event = self.trace.events[-1]
        yield
        event["dur"] = self.now - began

    def steps(self, count, waits=True):
        """waits: each step ends when its work does, as those of a program that prints its loss."""
        for number in range(count):
            began = self.now
            yield number
            if waits:
                self.wait("hipDeviceSynchronize" if self.trace.vendor == "hip" else "cudaDeviceSynchronize")
            self.trace.step(number, began, self.now - began)
            self.now += 1

    def begin(self, length, stream, device, cost):
        """When work begins that is launched now."""
        start = max(self.now + cost + self.BEGIN, self.free.get((device, stream), 0) + self.NEXT)
        self.free[device, stream] = start + length
        return start

    def kernel(self, name, length, stream=7, device=0, cost=LAUNCH, **more):
        start = self.begin(length, stream, device, cost)
        self.trace.kernel(name, start, length, at=self.now, stream=stream, device=device, call_length=cost,
                          external=self.external, **more)
        self.now += cost

    def copy(self, kind, length, size, stream=7, device=0, waits=False, cost=LAUNCH, **more):
        """waits: the call returns when the copy is done."""
        start = self.begin(length, stream, device, cost)
        cost = start + length + 2 - self.now if waits else cost
        self.trace.copy(kind, start, length, size, at=self.now, stream=stream, device=device, call_length=cost,
                        external=self.external, **more)
        self.now += cost

    def wait(self, call="cudaDeviceSynchronize", streams=None):
        """For all that was launched, or for some streams of device 0."""
        ends = [end for key, end in self.free.items() if streams is None or key[1] in streams]
        end = max([self.now, *ends]) + 2
        self.trace.call(call, self.now, end - self.now, external=self.external)
        self.now = end

    def stream_waits(self, stream, other, device=0):
        """What is launched into a stream from now on begins after what is in another."""
        self.trace.call("cudaStreamWaitEvent", self.now, 1, external=self.external)
        self.now += 1
        self.free[device, stream] = max(self.free.get((device, stream), 0), self.free.get((device, other), 0))
