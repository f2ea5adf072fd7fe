"""Programs that misled a rule once: what hides, what steps leave out, what many places share.

As in cases_1; these rules have their first cases there and in cases_2."""

from builder import Program, Trace

GEMM = "ampere_sgemm_128x64_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
INDEX = "void at::native::index_elementwise_kernel<128, 4>(int)"


def busy(steps):
    """A device that never waits."""
    p = Program()
    for _ in p.steps(steps):
        for _ in range(10):
            with p.op("aten::mm"):
                p.kernel(GEMM, 500)
    return p.trace


def busy_rank(rank, length=600, pause=400):
    """A device that is busy for most of the time; its process is another one for each rank."""
    p = Program(Trace(rank=rank, world=2))
    for _ in p.steps(10):
        with p.op("aten::mm"):
            p.kernel(ADD, length)
        p.wait()
        p.spend(pause)
    for event in p.trace.events:
        event["pid"] += rank if event["pid"] else 0
    return p.trace


def passes(*names, count=50):
    p = Program()
    for _ in p.steps(4):
        for _ in range(count):
            for name in names:
                with p.op(name, 10):
                    if name in ("aten::mul", "aten::copy_"):
                        p.kernel(ADD, 3)
    return p.trace


def tiny(stream):
    """Tiny kernels in a queue; in another stream a long kernel hides them."""
    p = Program()
    for _ in p.steps(4):
        with p.op("aten::mm"):
            p.kernel(GEMM, 20000 if stream != 7 else 3000)
        for _ in range(1000):
            with p.op("aten::add", 1):
                p.kernel(ADD, 6, stream=stream, cost=2)
    return p.trace


def products(kernel, *sizes, kind):
    p = Program()
    for _ in p.steps(4):
        with p.op("aten::mm", dims=[list(size) for size in sizes], types=[kind] * len(sizes)):
            p.kernel(kernel, 5000)
    return p.trace


def halves():
    return products("ampere_hgemm_128x64_nn", (1024, 1024), (1024, 1024), kind="c10::Half")


def few_threads():
    p = Program()
    for _ in p.steps(4):
        with p.op("aten::index"):
            p.kernel(INDEX, 3000, grid=(4096, 1, 1), block=(32, 1, 1), **{"est. achieved occupancy %": 5})
    return p.trace


def waits(steps, each):
    """The same line waits N times in each step."""
    p = Program()
    for _ in p.steps(steps, waits=False):
        with p.python("train.py(10): step"):
            for _ in range(each):
                with p.op("aten::mm", 30):
                    p.kernel(ADD, 100)
                with p.op("aten::item"):
                    p.wait("cudaStreamSynchronize")
                p.spend(50)
    return p.trace


def places(count):
    """Each of N operators waits, and then the device waits for the next one."""
    p = Program()
    for _ in p.steps(4):
        for i in range(count):
            with p.op("aten::mm", 30):
                p.kernel(ADD, 100)
            with p.op(f"my::op{i}"):
                p.wait("cudaStreamSynchronize")
    return p.trace


def on_host(*operators, steps=4, pause=0):
    """Operators of a program without a device: (name, length, count, sizes of inputs)."""
    p = Program(Trace(None))
    for _ in p.steps(steps, waits=False):
        for name, length, count, *sizes in operators:
            for _ in range(count):
                with p.op(name, length, **({"dims": [list(size) for size in sizes[0]]} if sizes else {})):
                    pass
                p.spend(pause)
    return p.trace


SQUARE = [(512, 512), (512, 512)]  # 0.27 GFLOP
LARGE = [(1024, 1024), (1024, 1024)]  # 4 MiB each


def buffers(broadcast):
    """DistributedDataParallel, which sends buffers first, or does not."""
    p = Program(Trace(rank=0, world=2))
    for _ in p.steps(4):
        with p.op("DistributedDataParallel.forward"):
            if broadcast:
                with p.op("c10d::broadcast_"):
                    p.kernel("ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 200)
            with p.op("aten::mm"):
                p.kernel(GEMM, 500)
    return p.trace


def graph(unrecorded):
    """Graphs of two recorded kernels, with so much time between them in which nothing was recorded."""
    t = Trace()
    for n in range(4):
        t.step(n, 2000 * n, 2000)
        correlation = t.call("cudaGraphLaunch", 2000 * n + 10, 20)
        for start in (50, 150 + unrecorded):
            t.slice("kernel", GEMM, 2000 * n + start, 100, pid=0, tid=7, device=0, context=1, stream=7,
                    correlation=correlation)
    return t


def locked(each, holder=102):
    """Two threads that take turns in 1 s; one of them waits 10 times for the other's lock."""
    t = Trace(None)
    t.slice("user_annotation", "work", 0, 1000000, tid=102)
    for n in range(10):
        t.slice("blocking_call", "pthread_mutex_lock", 100000 * n, each, tid=101, address=4096, holder=holder, error=0)
    return t


def waiting(*holders, finished=False, process_of=lambda n: 100):
    """Thread 101 + n waits from n ms to the end of 1 s for a lock that holders[n] holds."""
    t = Trace(None)
    t.slice("user_annotation", "work", 0, 1000000, tid=200)
    for n, holder in enumerate(holders):
        t.slice("blocking_call", "pthread_mutex_lock", 1000 * n, 1000000 - 1000 * n, pid=process_of(n), tid=101 + n,
                address=4096 * (n + 1), holder=holder, **({} if finished else {"finished": False}))
    return t


def synced(count, file="/data/log"):
    """fsync of 10 ms each, in 1 s."""
    t = Trace(None)
    t.slice("user_annotation", "work", 0, 1000000, tid=102)
    for n in range(count):
        t.slice("blocking_call", "fsync", 20000 * n, 10000, tid=101, file=file, fd=3, error=0)
    return t


def short_writes(calls, size):
    t = synced(0)
    t.slice("blocking_call", "usleep", 0, 100, tid=101, error=0)
    for n in (1, 2):  # cumulative: the last one counts
        t.events.append({"ph": "C", "name": "write below the threshold", "pid": 100, "ts": t.events[0]["ts"] + n * 1000,
                         "args": {"calls": calls * n // 2, "time [us]": 2.0 * calls * n // 2,
                                  "moved [bytes]": size * calls * n // 2}})
    return t


CASES = {
    "lock.contention": (lambda: locked(40000), lambda: locked(100)),
    "lock.deadlock": (lambda: waiting(102, 101), lambda: waiting(102, 101, finished=True)),
    "io.loop": (lambda: synced(20), lambda: synced(9)),
    "communication.buffer_broadcast": (lambda: buffers(True), lambda: buffers(False)),
    "cpu.threads": (lambda: on_host(("aten::mm", 8000, 4, SQUARE)), lambda: on_host(("aten::mm", 800, 40, SQUARE))),
    "cpu.float32_products": (lambda: on_host(("aten::mm", 800, 40, SQUARE)),
                             lambda: on_host(("aten::mm", 800, 2, SQUARE), ("aten::sort", 20000, 1))),
    "cpu.memory_bound": (lambda: on_host(("aten::mul", 900, 10, LARGE)),
                         lambda: on_host(("aten::mul", 900, 10, [(64, 64), (64, 64)]))),
    "cpu.copies": (lambda: on_host(("aten::copy_", 500, 4), ("aten::mm", 1000, 4, SQUARE)),
                   lambda: on_host(("aten::copy_", 10, 4), ("aten::mm", 1000, 4, SQUARE))),
    "cpu.tiny_operators": (lambda: on_host(("aten::add", 4, 400), ("aten::mm", 1000, 4, SQUARE)),
                           lambda: on_host(("aten::add", 4, 40), ("aten::mm", 1000, 4, SQUARE))),
    "cpu.between_operators": (lambda: on_host(("aten::add", 100, 20), pause=100),
                              lambda: on_host(("aten::add", 100, 20), pause=2)),
}

# Of the whole, as there are no steps.
WORTH = {"lock.contention": (400000, 400000), "lock.deadlock": (999000, 999000), "io.loop": (200000, 200000)}

MORE = [
    ("a lock whose holder is not known", "lock.contention", lambda: locked(40000, holder=0), "found"),
    ("a program without recorded waits", "lock.contention", lambda: on_host(("aten::mm", 800, 4, SQUARE)), "not judged"),
    ("a program without recorded calls", "io.loop", lambda: on_host(("aten::mm", 800, 4, SQUARE)), "not judged"),
    ("waits, and none for a lock", "lock.contention", lambda: synced(20), "quiet"),
    ("a circle of five, and others that wait for it", "lock.deadlock",
     lambda: waiting(102, 103, 104, 105, 101, 103, 106), "found"),
    ("a thread that waits for itself", "lock.deadlock", lambda: waiting(101), "found"),
    ("a chain of waits", "lock.deadlock", lambda: waiting(102, 103, 200), "quiet"),
    ("holders that are not known", "lock.deadlock", lambda: waiting(0, 0), "quiet"),
    ("threads of two processes", "lock.deadlock", lambda: waiting(102, 101, process_of=lambda n: 100 + n), "quiet"),
    ("a program without recorded calls", "lock.deadlock", lambda: on_host(("aten::mm", 800, 4, SQUARE)), "not judged"),
    ("many calls for a socket", "io.loop", lambda: synced(20, "tcp 10.0.0.1:80"), "quiet"),
    ("short writes of a byte", "io.loop", lambda: short_writes(100000, 1), "found"),
    ("short writes of a page", "io.loop", lambda: short_writes(100000, 8192), "quiet"),
    ("few short writes", "io.loop", lambda: short_writes(999, 1), "quiet"),
    ("threads that wait for one another", "cpu.threads", lambda: on_host(("aten::mm", 80000, 2, SQUARE)), "found"),
    ("graphs that were not recorded", "trace.unfit", lambda: graph(1500), "found"),
    ("graphs that were recorded", "trace.unfit", lambda: graph(20), "quiet"),
    ("tiny operators next to a device", "cpu.tiny_operators", lambda: passes("aten::add", count=400), "quiet"),
    ("a pass that selects twice", "host.loop_indexing",
     lambda: passes("aten::select", "aten::mul", "aten::select", "aten::copy_"), "found"),
    ("y[i] = x[i] * w[idx[i]]", "host.loop_indexing",
     lambda: passes("aten::select", "aten::select", "aten::item", "aten::select", "aten::mul", "aten::select",
                    "aten::copy_"), "found"),
    ("a pass that selects many times over", "host.loop_indexing",
     lambda: passes(*["aten::select"] * 12, "aten::mul", count=9), "found"),
    ("few passes that select twice", "host.loop_indexing",
     lambda: passes("aten::select", "aten::mul", "aten::select", "aten::copy_", count=9), "quiet"),
    ("tiny kernels next to a long one", "launch.tiny_kernels", lambda: tiny(20), "quiet"),
    ("tiny kernels after a long one", "launch.tiny_kernels", lambda: tiny(7), "found"),
    ("products in 32 bits", "kernel.unaligned_shapes",
     lambda: products(GEMM, (1023, 1023), (1023, 1023), kind="float"), "found"),
    ("products in 64 bits", "kernel.unaligned_shapes",
     lambda: products("volta_dgemm_128x64_nn", (1023, 1023), (1023, 1023), kind="double"), "quiet"),
    ("products in 8 bits", "kernel.unaligned_shapes",
     lambda: products("sm90_xmma_gemm_e4m3", (1023, 1022), (1022, 1021), kind="c10::Float8_e4m3fn"), "quiet"),
]
