"""Programs with one fault each, and the same without it: input, ranks, launches, waits, copies.

CASES[id] is (makes a trace where it is found, makes one where it is not); a list stands for ranks.
WORTH[id] is the savings of the first one, in us of a step, where the program determines them.
MORE are further traces: (what it shows, id, makes it, judgement)."""

from builder import Program, Trace

GEMM = "ampere_sgemm_128x64_nn"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
RCCL = "rcclGenericKernel_1(ncclDevKernelArgsStorage<4096ul>)"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
MB = 1 << 20


def program(vendor="cuda", **more):
    return Program(Trace(vendor, **more))


# ---- input ----

def loader(length, compute=900, before=0):
    p = program()
    for _ in range(before):
        with p.op(LOADER, length):
            pass
        with p.op("aten::mm"):
            p.kernel(GEMM, compute)
    for _ in p.steps(6, waits=False):
        with p.op(LOADER, length):
            pass
        with p.op("aten::mm"):
            p.kernel(GEMM, compute)
    return p.trace


def loader_in_python(workers):
    p = program()
    for _ in p.steps(2):
        with p.python("torch/utils/data/dataloader.py(430): __iter__"):
            with p.python("torch/utils/data/dataloader.py(381): _get_iterator"):
                if workers:
                    with p.python("torch/utils/data/dataloader.py(520): check_worker_number_rationality"):
                        p.spend(3)
                p.spend(20)
        with p.op("aten::mm"):
            p.kernel(GEMM, 500)
    return p.trace


# ---- ranks ----

def data_parallel(devices, before=0):
    """before: copies between devices in front of the first step."""
    p = program(devices=devices)
    for _ in range(before):
        p.copy("PtoP (Device -> Device)", 1000, MB)
        p.wait()
    for _ in p.steps(4):
        with p.op("DataParallel.forward"):
            for device in range(1, devices):
                p.copy("PtoP (Device -> Device)", 100, MB, device=device)
            for device in range(devices):
                with p.op("aten::mm"):
                    p.kernel(GEMM, 500, device=device)
    return p.trace


def distributed(library, length=300, **more):
    p = Program(Trace(rank=0, world=2, backend=library, **more))
    for _ in p.steps(4):
        with p.op("DistributedDataParallel.forward"):
            with p.op("aten::mm"):
                p.kernel(GEMM, 500)
        if library == "gloo":
            p.wait()
            with p.op("gloo:all_reduce", length):
                pass
        else:
            with p.op("nccl:all_reduce"):
                p.kernel(NCCL, length)
    return p.trace


def collectives(compute, exchange, overlap=False, vendor="cuda", kernel=NCCL):
    """`overlap`: while the computation runs."""
    p = program(vendor)
    for _ in p.steps(5):
        with p.op("aten::mm"):
            p.kernel(GEMM, compute)
        with p.op("nccl:all_reduce"):
            p.kernel(kernel, exchange, stream=20 if overlap else 7)
    return p.trace


def exchange(p, elements, length, device=0):
    with p.op("c10d::allreduce_", 1):
        p.kernel(NCCL, length, device=device,
                 **{"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements,
                    "dtype": "Float", "Group size": 2, "Process Group Name": "0"})


def messages(count, elements, length, devices=1, before=0):
    """count: of a step and device; before: small ones in front of the first step."""
    p = program(devices=devices)
    for _ in range(before):
        exchange(p, 16, 40)
        p.wait()
    for _ in p.steps(4):
        for device in range(devices):
            with p.op("aten::mm"):
                p.kernel(GEMM, 800, device=device)
        for _ in range(count):
            for device in range(devices):
                exchange(p, elements, length, device)
    return p.trace


def ranks(computes):
    """Each takes another time; the exchange of 100 us begins when all are there."""
    traces = []
    latest = max(computes)
    for rank, compute in enumerate(computes):
        p = Program(Trace(rank=rank, world=len(computes)))
        for _ in p.steps(8):
            with p.op("aten::mm"):
                p.kernel(GEMM, compute)
            with p.op("nccl:all_reduce", dims=[[MB]]):
                p.kernel(NCCL, latest - compute + 100)
        traces.append(p.trace)
    return traces


def pairs(transfers):
    """Ranks of one host in groups of two, whose transfers take so long."""
    traces = []
    for rank in range(2 * len(transfers)):
        group = rank // 2
        p = Program(Trace(rank=rank, world=2 * len(transfers)))
        p.trace.top["host_name"] = "node0"
        for step, _ in enumerate(p.steps(8)):
            with p.op("aten::mm"):
                p.kernel(GEMM, 500)
            with p.op("nccl:all_reduce", dims=[[MB]]):
                p.kernel(NCCL, transfers[group], **{
                    "Collective name": "allreduce", "In msg nelems": MB, "Out msg nelems": MB, "dtype": "Float",
                    "Group size": 2, "Process Group Name": str(group), "Process Group Description": "tp",
                    "Process Group Ranks": str([2 * group, 2 * group + 1]), "Seq": step})
        traces.append(p.trace)
    return traces


def mpi_messages(send_at, receive_at, send_length=5, receive_length=5):
    """Two ranks of MPI and four messages, 1000 us apart: a call that sends, a call that receives."""
    traces = [Trace(vendor=None, rank=rank, world=2, backend="mpi") for rank in range(2)]
    for rank, trace in enumerate(traces):
        trace.slice("mpi", "MPI_Barrier", 0, 1)
        trace.slice("mpi", "MPI_Barrier", 4999, 1)
    for n in range(4):
        traces[0].slice("mpi", "MPI_Send", 1000 * n + send_at, send_length, bytes=1 << 20, **{"Message out": 70 + n})
        traces[1].slice("mpi", "MPI_Recv", 1000 * n + receive_at, receive_length, **{"Message in": 70 + n})
    return traces


# ---- launches ----

def kernels(host, device, count=10, vendor="cuda", launch=None):
    p = program(vendor)
    for _ in p.steps(4):
        for _ in range(count):
            with p.op("aten::add", host):
                p.kernel(ELEMENTWISE, device, call=launch)
    return p.trace


def throttled(slow_clock, reason="slow_for_heat"):
    """The second half of the run is slower, as the clock is."""
    p = program()
    for number in p.steps(6):
        slow = number >= 3 and slow_clock < 1980
        clock = slow_clock if slow else 1980
        p.trace.counters("GPU slowdown", p.now, **{"slow_for_power": 0, "slow_for_heat": 0, "slow_for_hardware": 0,
                                                   reason: int(slow)})
        p.trace.counters("GPU clocks", p.now, **{"SM_clock_[MHz]": clock})
        for _ in range(10):
            with p.op("aten::add", 20):
                p.kernel(ELEMENTWISE, 90 * 1980 / clock)
    return p.trace


def ahead(length, count=100):
    """A long kernel, during which the queue is filled with short ones."""
    p = program()
    for _ in p.steps(4):
        with p.op("aten::mm"):
            p.kernel(GEMM, 1000)
        for _ in range(count):
            with p.op("aten::add_", 1):
                p.kernel(ELEMENTWISE, length)
    return p.trace


def many(count, length=25):
    """A stream takes 1024 launches; the next waits until there is room."""
    t = Trace()
    host, done, ends = 100, 0, []
    for i in range(count):
        room = ends[i - 1023] if i >= 1023 else 0
        returns = max(host + 2, room)
        start = max(returns + 2, done)
        t.kernel(GEMM, start, length, at=host, call_length=returns - host)
        done = start + length
        ends.append(done)
        host = returns
    t.op("aten::mm", 99, host - 98)
    return t


def between(pause, device, **more):
    p = program()
    for _ in p.steps(4):
        for _ in range(5):
            p.spend(pause)
            with p.op("aten::add", **more):
                p.kernel(ELEMENTWISE, device)
    return p.trace


def loading(once, device=400):
    """The first launch loads code; all others are fast."""
    p = program()
    for number in p.steps(4):
        for _ in range(5):
            with p.op("aten::mm"):
                p.kernel(GEMM, device, cost=once if number == 1 else p.LAUNCH)
            once = p.LAUNCH
    return p.trace


def host_only():
    t = Trace(None)
    for n in range(4):
        t.step(n, 1000 * n, 990)
        t.op("aten::mm", 1000 * n + 10, 900, dims=[[64, 64], [64, 64]])
    return t


# ---- waits ----

def reads(after_us, every_step=True, waiting="cudaStreamSynchronize", vendor="cuda", copy_waits=False, **more):
    """A value is read in each step; the host prepares for after_us afterwards. Per step 500 + 300.
    copy_waits: the call that copies waits, too, as for pageable memory."""
    p = program(vendor)
    for _ in p.steps(6, waits=False):
        with p.op("aten::mm"):
            p.kernel(GEMM, 500)
        if every_step:
            with p.op("aten::item", stack="train.py(54): step;train.py(9): <module>", **more):
                with p.op("aten::_local_scalar_dense"):
                    p.copy("DtoH (Device -> Pageable)", 2, 4, waits=copy_waits,
                           call="hipMemcpyAsync" if vendor == "hip" else None)
                    p.wait(waiting)
        with p.op("aten::softmax", after_us):
            p.kernel(ELEMENTWISE, 300)
    return p.trace


def two_waits(after_us=120):
    """Neither costs anything while the other one is there."""
    p = program()
    for _ in p.steps(6, waits=False):
        with p.op("aten::mm"):
            p.kernel(GEMM, 500)
        for line in (54, 55):
            with p.op("aten::item", stack=f"train.py({line}): step"):
                p.wait("cudaStreamSynchronize")
        with p.op("aten::softmax", after_us):
            p.kernel(ELEMENTWISE, 300)
    return p.trace


def synchronized(after_us=150):
    """torch.cuda.synchronize() after each step, outside of every operator."""
    p = program()
    for _ in p.steps(6):
        with p.op("aten::mm", after_us):
            p.kernel(GEMM, 500)
    return p.trace


def after_the_host(exchange):
    """The device waits for the host, whatever it does meanwhile."""
    p = program()
    for _ in p.steps(4):
        for _ in range(10):
            with p.op("aten::add", 200):
                p.kernel(ELEMENTWISE, 20)
            with p.op("nccl:all_reduce"):
                p.kernel(NCCL, exchange)
    return p.trace


# ---- copies ----

def synchronous(call, waits):
    p = program()
    for _ in p.steps(5):
        p.kernel(GEMM, 400)
        p.copy("HtoD (Pinned -> Device)", 50, MB, call=call, waits=waits)
        with p.op("aten::softmax", 150):
            p.kernel(ELEMENTWISE, 300)
    return p.trace


def sent(memory, waits, length=2000, size=16 * MB, prepare=300):
    """A batch is sent in each step, and the host then prepares for a while."""
    p = program()
    for _ in p.steps(5):
        with p.op("aten::to"):
            with p.op("aten::copy_"):
                p.copy(f"HtoD ({memory} -> Device)", length, size, waits=waits)
        with p.op("aten::mm", prepare):
            p.kernel(GEMM, 3000)
    return p.trace


def many_sent(count):
    """2 MiB in 350 us each: 6 GB/s."""
    p = program()
    for _ in p.steps(4):
        for _ in range(count // 4):
            with p.op("aten::to"):
                p.copy("HtoD (Pageable -> Device)", 350, 2 * MB, waits=True)
    return p.trace


def batches(overlap, received=0):
    """received: us that a slow download takes, during the computation."""
    p = program()
    for _ in p.steps(5):
        with p.op("aten::to"):
            p.copy("HtoD (Pinned -> Device)", 400, 8 * MB, stream=20 if overlap else 7)
        with p.op("aten::mm"):
            p.kernel(GEMM, 1000)
        if received:
            p.free[0, 20] = p.free[0, 7] - 1000
            p.copy("DtoH (Device -> Pageable)", received, 4 * MB, stream=20)
    return p.trace


def moved(fills="aten::zeros", types=("float", "float", "Bool"), filled=None, on_device=False):
    """filled: sizes of what is filled, where they are given."""
    p = program()
    for _ in p.steps(4):
        with p.op(fills or "aten::empty"):
            if fills:
                with p.op("aten::zero_", 200, dims=filled and [filled]):
                    if on_device:
                        p.kernel(ELEMENTWISE, 20)
        with p.op("aten::to", dims=[[1024, 1024]]):
            with p.op("aten::_to_copy", dims=[[1024, 1024]]):
                with p.op("aten::copy_", dims=[[1024, 1024], [1024, 1024], []], types=list(types)):
                    p.copy("HtoD (Pinned -> Device)", 350, 4 * MB, waits=True)
        with p.op("aten::mm"):
            p.kernel(GEMM, 300)
    return p.trace


def contiguous(length):
    p = program()
    for _ in p.steps(5):
        with p.op("aten::mm"):
            p.kernel(GEMM, 600)
        with p.op("aten::contiguous"):
            with p.op("aten::copy_"):
                p.copy("DtoD (Device -> Device)", length, 8 * MB)
    return p.trace


CASES = {
    "input.data_loader": (lambda: loader(1500), lambda: loader(300)),
    "input.synchronized_loader": (lambda: loader_in_python(False), lambda: loader_in_python(True)),
    "parallel.data_parallel": (lambda: data_parallel(2), lambda: data_parallel(1)),
    "parallel.ddp_backend": (lambda: distributed("gloo"), lambda: distributed("nccl")),
    "communication.share": (lambda: collectives(800, 200), lambda: collectives(900, 50)),
    "communication.exposed": (lambda: collectives(800, 200), lambda: collectives(800, 200, overlap=True)),
    "communication.small_messages": (lambda: messages(20, 256, 15), lambda: messages(2, 1 << 22, 150)),
    "communication.imbalance": (lambda: ranks([900, 500]), lambda: ranks([700, 700])),
    "communication.slow_link": (lambda: pairs([100, 400, 100, 100]), lambda: pairs([100, 100, 100, 100])),
    "mpi.late_sender": (lambda: mpi_messages(500, 100, receive_length=410), lambda: mpi_messages(100, 500)),
    "mpi.late_receiver": (lambda: mpi_messages(100, 500, send_length=410), lambda: mpi_messages(100, 500)),
    "device.low_utilization": (lambda: kernels(90, 20), lambda: kernels(20, 90)),
    "device.throttled": (lambda: throttled(1200), lambda: throttled(1980)),
    "launch.bound": (lambda: kernels(90, 20), lambda: kernels(20, 90)),
    "launch.tiny_kernels": (lambda: ahead(4), lambda: ahead(40)),
    "launch.full_queue": (lambda: many(2500), lambda: many(900)),
    "host.python_gaps": (lambda: between(200, 40), lambda: between(50, 240)),
    "sync.stall": (lambda: reads(120), lambda: reads(120, every_step=False)),
    "copy.synchronous": (lambda: synchronous("cudaMemcpy", True), lambda: synchronous("cudaMemcpyAsync", False)),
    "copy.pageable": (lambda: sent("Pageable", True), lambda: sent("Pinned", False)),
    "copy.not_overlapped": (lambda: batches(False), lambda: batches(True)),
    "copy.extra": (moved, lambda: moved(types=("float", "double", "Bool"))),
    "copy.device_to_device": (lambda: contiguous(150), lambda: contiguous(10)),
}

WORTH = {
    # A step takes 1514 because of the loader, and 901 without; before the first there is no gap.
    "input.data_loader": (480, 620),
    # In three of six steps ten kernels of 148.5 us, which take 90 at the higher clock.
    "device.throttled": (280, 300),
    # What runs alone for 200 us in each step.
    "communication.exposed": (195, 205),
    # 20 of 15 us become one.
    "communication.small_messages": (280, 290),
    # One of two ranks waits 400 us: with the same work for both, 200.
    "communication.imbalance": (390, 410),
    # The run waits for the group whose transfers take 300 us longer.
    "communication.slow_link": (290, 310),
    # One of two ranks waits 4 times 400 us, in a trace without steps.
    "mpi.late_sender": (799, 801),
    "mpi.late_receiver": (799, 801),
    # 9 times 94 us of the host, of which the device is busy for 20; the first waits for the step before.
    "launch.bound": (600, 680),
    # 99 gaps of 1 us, and 99 empty kernels of 2.
    "launch.tiny_kernels": (270, 310),
    # 4 times 200 us, of which the device is busy for 40.
    "host.python_gaps": (570, 660),
    # The gap after the value: the operator that follows, and the way back.
    "sync.stall": (100, 145),
    # 150 us of the operator after the copy.
    "copy.synchronous": (130, 170),
    # 16 MiB take 1398 us at 12 GB/s, not 2000; and 300 us after it the device waits.
    "copy.pageable": (750, 960),
    # 400 us of a step of 1400.
    "copy.not_overlapped": (390, 405),
    # The fill, the copy, and what is around them.
    "copy.extra": (500, 620),
    "copy.device_to_device": (145, 155),
}

MORE = [
    ("a value read on AMD", "sync.stall",
     lambda: reads(120, waiting="hipStreamSynchronize", vendor="hip"), "found"),
    ("collectives of AMD's library", "communication.exposed",
     lambda: collectives(800, 200, vendor="hip", kernel=RCCL), "found"),
    ("an AMD device that waits for launches", "launch.bound", lambda: kernels(90, 20, vendor="hip"), "found"),
    ("an Intel device that waits for launches", "launch.bound", lambda: kernels(90, 20, vendor="xpu"), "found"),
    ("a batch that nothing hides, and a hidden download that is slow", "copy.not_overlapped",
     lambda: batches(False, received=900), "found"),
    ("tensors of another type are converted on the way", "copy.extra",
     lambda: moved(types=("float", "double", "Bool")), "quiet"),
    ("tensors that a device filled", "copy.extra", lambda: moved("aten::zero_", on_device=True), "quiet"),
    ("a tensor of another size", "copy.extra", lambda: moved(filled=[1]), "quiet"),
    ("a tensor of as many elements", "copy.extra", lambda: moved(filled=[1024 * 1024]), "found"),
    ("tensors that were never filled", "copy.extra", lambda: moved(fills=None), "quiet"),
    ("a loader that is hidden by the device", "host.python_gaps", lambda: loader(300), "quiet"),
    ("loading of code, once", "launch.bound", lambda: loading(5000), "quiet"),
    ("exchanges of a device that the host keeps waiting", "communication.exposed",
     lambda: after_the_host(15), "quiet"),
    ("a wait after each step", "sync.stall", synchronized, "found"),
    ("no devices", "launch.bound", host_only, "not judged"),
    ("no devices", "sync.stall", host_only, "not judged"),
    ("no devices", "copy.extra", host_only, "quiet"),
    ("waiting of one rank", "communication.imbalance", lambda: ranks([900]), "not judged"),
    ("messages of one rank", "mpi.late_sender", lambda: mpi_messages(500, 100, receive_length=410)[:1], "not judged"),
    ("messages that arrive before they are sent", "mpi.late_sender", lambda: mpi_messages(500, 100), "not judged"),
    ("a message that the library has kept", "mpi.late_receiver", lambda: mpi_messages(100, 500, send_length=20), "quiet"),
    ("small collectives in front of the steps", "communication.small_messages",
     lambda: messages(0, 0, 0, before=400), "quiet"),
    ("few small collectives on each of many devices", "communication.small_messages",
     lambda: messages(2, 16, 200, devices=8), "quiet"),
    ("many small collectives on each of two devices", "communication.small_messages",
     lambda: messages(20, 256, 15, devices=2), "found"),
    ("one device in DataParallel", "parallel.data_parallel", lambda: data_parallel(1), "quiet"),
]
