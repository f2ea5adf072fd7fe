"""Programs with one fault each, and the same without it: kernels, memory, programs, steps, traces.

As in cases_1: CASES[id] = (makes a trace where it is found, makes one where it is not), WORTH in us of a
step, MORE = (what it shows, id, makes it, judgement)."""

from builder import BASE, Program, Trace

SGEMM = "ampere_sgemm_128x64_nn"
TENSOR_32 = "cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4"
TENSOR_16 = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn"
V100_SGEMM = "volta_sgemm_128x64_nn"
V100_TENSOR = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
CONV_32 = ("void cudnn::detail::implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, true>"
           "(int, int, int)")
MFMA = "Cijk_Ailk_Bljk_SB_MT64x64x16_MI32x32x1_SN"
NO_MFMA = "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
MB = 1 << 20
GB = 1 << 30
V100 = {"name": "Tesla V100-SXM2-16GB", "capability": (7, 0), "memory": 16 * GB, "sms": 80}
GTX1080 = {"name": "NVIDIA GeForce GTX 1080", "capability": (6, 1), "memory": 8 * GB, "sms": 20}
H100 = {"name": "NVIDIA H100 80GB HBM3", "capability": (9, 0), "memory": 80 * GB, "sms": 132}


def program(vendor="cuda", **more):
    return Program(Trace(vendor, **more))


def products(kernels, vendor="cuda", op="aten::mm", dims=((512, 512), (512, 512)), kind="float", steps=4, **device):
    """Steps that do these kernels (name, us) and wait for them."""
    p = program(vendor, **device)
    for _ in p.steps(steps):
        for name, length in kernels:
            with p.op(op, dims=[list(d) for d in dims], types=[kind] * len(dims)):
                p.kernel(name, length)
        p.wait()
    return p.trace


# ---- kernels ----

def convolution(channels, out, kernel=CONV_32):
    return products([(kernel, 2000)], op="aten::cudnn_convolution",
                    dims=((32, channels, 56, 56), (out, channels, 3, 3)))


def addmm(columns):
    return products([(TENSOR_16, 2000)], op="aten::addmm", kind="c10::Half",
                    dims=((columns,), (512, 1024), (1024, columns)))


def grid(blocks, block=256, registers=32, length=2000, **given):
    p = program()
    for _ in p.steps(4):
        with p.op("aten::sum"):
            p.kernel("my_kernel(float*)", length, grid=(blocks, 1, 1), block=(block, 1, 1), registers=registers,
                     **given)
        p.wait()
    return p.trace


def kernels_without(*keys, blocks=1):
    """As of a source that does not report these arguments."""
    made = grid(blocks)
    for event in made.events:
        for key in keys:
            event.get("args", {}).pop(key, None)
    return made


def kernels_that_say_nothing():
    return kernels_without("grid", "block", "blocks per SM")


def devices_without(*keys, blocks=900):
    """As of a source that does not report these properties."""
    made = grid(blocks)
    for device in made.top["deviceProperties"]:
        for key in keys:
            del device[key]
    return made


# Of a source that does not report what a rule needs: the rule, the trace, and a word of the reason.
NOT_REPORTED = [
    ("kernel.low_occupancy", kernels_that_say_nothing, "grid of kernels"),
    ("kernel.low_occupancy", lambda: kernels_without("est. achieved occupancy %", blocks=10240), "occupancy % of kernels"),
    ("kernel.low_occupancy", lambda: devices_without("numSms", blocks=20), "numSms of the device"),
    ("kernel.tail_wave", kernels_that_say_nothing, "grid and block of kernels"),
    ("kernel.tail_wave", lambda: kernels_without("block", blocks=900), "grid and block of kernels"),
    ("kernel.tail_wave", lambda: devices_without("maxThreadsPerMultiprocessor"), "maxThreadsPerMultiprocessor of the device"),
]


# ---- memory ----

def memory(levels, reserved=None, device=None, **how):
    """Each step allocates up to its first number of bytes and ends with the second."""
    p = program(**(device or {}))
    now = 0
    for number in p.steps(len(levels)):
        peak, end = levels[number]
        for level in (peak, end):
            p.spend(50)
            p.trace.memory(p.now, level - now, allocated=level, reserved=reserved, address=0x1000 + p.now, **how)
            now = level
        with p.op("aten::mm"):
            p.kernel(SGEMM, 200)
        p.wait()
    return p.trace


def fragmented(grows=(), retry=False):
    """20 of 40 GB are unused; in some steps 5 GB are asked for, and the allocator takes as much more."""
    p = program()
    reserved = 40 * GB
    for number in p.steps(5):
        p.trace.memory(p.now, 20 * GB, allocated=20 * GB, reserved=reserved, address=1)
        with p.op("aten::empty"):
            if number in grows:
                reserved += 5 * GB
            if retry and number == 3:
                p.trace.call("cudaFree", p.now, 100, external=p.external)
                p.spend(100)
            p.trace.memory(p.now + 5, 5 * GB, allocated=25 * GB, reserved=reserved, address=2)
            p.spend(10)
        for address, size in ((2, 5), (1, 20)):
            p.trace.memory(p.now, -size * GB, allocated=(20 if address == 2 else 0) * GB, reserved=reserved,
                           address=address)
            p.spend(5)
        with p.op("aten::mm"):
            p.kernel(SGEMM, 200)
        p.wait()
    return p.trace


def growing(by, steps=8, **how):
    return memory([(GB + (n + 1) * by, GB + n * by) for n in range(steps)], **how)


def churn(steps_with, calls=("cudaFree", "cudaMalloc"), steps=6, marked=True):
    p = program()
    for number in p.steps(steps) if marked else range(steps):
        with p.op("aten::empty"):
            for name in calls if number in steps_with else ():
                p.trace.call(name, p.now, 250, external=p.external)
                p.spend(250)
        with p.op("aten::mm"):
            p.kernel(SGEMM, 500)
        p.wait()
    return p.trace


# ---- programs ----

def loop(passes, python=False, vendor="cuda"):
    p = program(vendor)
    for _ in p.steps(3):
        for _ in range(passes):
            if python:
                with p.python("<built-in method __getitem__ of Tensor object>"):
                    with p.op("aten::select"):
                        p.spend(3)
            else:
                with p.op("aten::select"):
                    p.spend(3)
            with p.op("aten::mul"):
                if vendor:
                    p.kernel(ADD, 2)
        with p.op("aten::mm"):
            if vendor:
                p.kernel(SGEMM, 300)
            else:
                p.spend(300)
        if vendor:
            p.wait()
    return p.trace


def optimizer(kernels, length, python=None, mark="Optimizer.step#Adam.step", name=ADD, waits=True):
    p = program()
    for _ in p.steps(4):
        with p.op("aten::mm"):
            p.kernel(SGEMM, 500)
        began = p.now

        def update():
            for _ in range(kernels):
                with p.op("aten::add_"):
                    p.kernel(name, length)
        if python:
            with p.python(python):
                update()
        else:
            update()
        if mark:
            p.trace.annotation(mark, began, p.now - began)
        p.wait()
    return p.trace


def zero_grad(to_none, parent=None):
    p = program()
    for _ in p.steps(4):
        with p.op("aten::mm"):
            p.kernel(SGEMM, 500)
        began = p.now
        for _ in range(0 if to_none else 60):
            if parent:
                with p.op(parent), p.op("aten::zero_"):
                    p.kernel(FILL, 3)
            else:
                with p.op("aten::zero_"):
                    p.kernel(FILL, 3)
        p.spend(5)
        p.trace.annotation("Optimizer.zero_grad#SGD.zero_grad", began, p.now - began)
        p.wait()
    return p.trace


def conv_norm(bias, after="nn.Module: BatchNorm2d_0"):
    p = program()
    sizes = [[32, 64, 56, 56], [64, 64, 3, 3], [64] if bias else []]
    for _ in p.steps(4):
        with p.python("nn.Module: Sequential_0", module=0):
            with p.python("nn.Module: Conv2d_0", module=1):
                with p.op("aten::conv2d", dims=sizes, types=["float", "float", "float" if bias else ""]):
                    with p.op("aten::cudnn_convolution"):
                        p.kernel(TENSOR_32, 500)
                    if bias:
                        with p.op("aten::add_"):
                            p.kernel(ADD, 100)
            with p.python(after, module=2):
                with p.op("aten::batch_norm"):
                    p.kernel("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)", 100)
        p.wait()
    return p.trace


# ---- steps and the trace ----

def steps(lengths, vendor="cuda"):
    p = program(vendor)
    for number in p.steps(len(lengths)):
        with p.op("aten::mm"):
            if vendor:
                p.kernel(SGEMM, 300)
        if vendor:
            p.wait()
        with p.op("aten::save"):
            p.spend(lengths[number])
    return p.trace


def loading(at_step, call="cuModuleLoadData", length=900):
    p = program()
    for number in p.steps(6):
        with p.op("aten::mm"):
            if number == at_step:
                p.trace.call(call, p.now, length, external=p.external)
                p.spend(length)
            p.kernel(SGEMM, 1000)
        p.wait()
    return p.trace


def overhead(length, name="CUPTI Buffer Flush", category="overhead"):
    made = products([(SGEMM, 500)])
    made.slice(category, name, 300, length, pid=-1, tid=0)
    return made


def launches(late):
    """late: kernels begin before the calls that launch them."""
    t = Trace()
    for n in range(4):
        t.step(n, 1000 * n, 1000)
        for k in range(10):
            at = 1000 * n + 90 * k
            t.kernel(SGEMM, at + (10 if not late else -60), 50, at=at)
    return t


class Cut:
    """A trace whose file ends in the middle."""

    def __init__(self, trace):
        self.trace = trace

    def save(self, path):
        self.trace.save(path)
        with open(path, "r+b") as f:
            f.truncate(f.seek(0, 2) * 6 // 10)


def doing_nothing_special():
    return products([(TENSOR_32, 500)])


# ---- parallel regions of OpenMP ----

def regions(lengths, runs=10, waits=True, tasks=0):
    """Regions of 1000 us whose threads work that long and wait then, as the runtimes of LLVM and Intel record them;
    GCC's has no waits of workers. The first `tasks` us of each wait are a task."""
    made = Trace(vendor=None)
    for run in range(runs):
        start, common = 2000 * run, {"region": run + 1, "code": 4096}
        made.slice("openmp", "omp parallel main (work.c:7)", start, 1000, threads=len(lengths), **common)
        for thread, length in enumerate(lengths):
            tid, ready = 100 + thread, start + length
            made.slice("openmp", "omp implicit task main (work.c:7)", start, 1000 if waits else length, tid=tid,
                       thread=thread, threads=len(lengths), **common)
            if waits:
                made.slice("openmp", "omp implicit barrier main (work.c:7)", ready, 1000 - length, tid=tid, **common)
            if tasks and length < 1000:
                made.slice("openmp", "omp task main (work.c:9)", ready, tasks, tid=tid, task=run + 1, **common)
    return made


def requests(slow_every, slow=40_000, usual=2_000, count=100):
    """Calls of a range one after the other, of which some are slow; their thread is blocked meanwhile."""
    made, at = Trace(vendor=None), 0
    for n in range(count):
        length = slow if slow_every and n % slow_every == slow_every - 1 else usual
        made.annotation("handle_request", at, length)
        made.state(100, "running", at, 200)
        made.state(100, "blocked", at + 200, length - 200, function="fsync")
        at += length + usual  # pauses: ranges that cover all of the time would be steps
    return made


CASES = {
    "precision.tensor_cores": (lambda: products([(V100_SGEMM, 2000)], **V100),
                               lambda: products([(V100_TENSOR, 2000)], **V100)),
    "precision.fp32_matmul": (lambda: products([(SGEMM, 3000)]), lambda: products([(TENSOR_32, 3000)])),
    "precision.fp32_partly": (lambda: products([(TENSOR_16, 2000), (CONV_32, 2000)]),
                              lambda: products([(TENSOR_16, 4000)])),
    "precision.unaligned_matmul": (lambda: addmm(1003), lambda: addmm(1008)),
    "kernel.unaligned_shapes": (lambda: convolution(30, 62), lambda: convolution(32, 64)),
    "kernel.low_occupancy": (lambda: grid(20), lambda: grid(10240)),
    "kernel.tail_wave": (lambda: grid(900), lambda: grid(4 * 864)),
    "memory.near_limit": (lambda: memory([(76 * GB, 70 * GB)] * 3), lambda: memory([(40 * GB, 30 * GB)] * 3)),
    "memory.allocator_churn": (lambda: churn(range(6)), lambda: churn([0])),
    "memory.growth": (lambda: growing(100 * MB), lambda: growing(0)),
    "memory.fragmentation": (lambda: fragmented(grows=(2, 3)), lambda: fragmented()),
    "host.loop_indexing": (lambda: loop(40), lambda: loop(6)),
    "optimizer.single_tensor": (
        lambda: optimizer(100, 3, "torch/optim/adam.py(334): _single_tensor_adam"),
        lambda: optimizer(6, 40, "torch/optim/adam.py(520): _multi_tensor_adam",
                          name="void at::native::(anonymous namespace)::multi_tensor_apply_kernel<int>")),
    "optimizer.not_fused": (lambda: optimizer(100, 3), lambda: optimizer(6, 40)),
    "optimizer.zero_grad": (lambda: zero_grad(False), lambda: zero_grad(True)),
    "model.conv_bias": (lambda: conv_norm(True), lambda: conv_norm(False)),
    "openmp.imbalance": (lambda: regions([1000, 400]), lambda: regions([1000, 990])),
    "range.outliers": (lambda: requests(20), lambda: requests(0)),
    "step.outliers": (lambda: steps([400] * 5 + [3000] + [400] * 4), lambda: steps([400] * 10)),
    "trace.lazy_start": (lambda: loading(0), lambda: loading(None)),
    "trace.profiler_overhead": (lambda: overhead(400), lambda: overhead(4)),
    "trace.unfit": (lambda: launches(True), lambda: launches(False)),
}

# By the recorded graph: what the program would take without it.
WORTH = {
    "precision.fp32_matmul": (1950, 2010),  # 3000 us, three times as fast
    "precision.tensor_cores": (1280, 1340),  # 2000 us, three times as fast
    "kernel.tail_wave": (440, 520),  # 1.04 waves instead of 2, half of that counts
    "kernel.low_occupancy": (1450, 1510),  # 20 blocks of 108: at most four times as fast
    "memory.allocator_churn": (410, 420),  # 500 us in five of six steps
    "model.conv_bias": (95, 110),  # its kernel
    "openmp.imbalance": (2999, 3001),  # ten regions: the mean of waits of 0 and 600 us
    "step.outliers": (259, 261),  # 2600 us in one of ten steps
}

MORE = [
    ("Hopper with 32-bit products", "precision.fp32_matmul", lambda: products([(SGEMM, 3000)], **H100), "found"),
    ("a device from before tensor cores", "precision.tensor_cores",
     lambda: products([("maxwell_sgemm_128x64_nn", 2000)], **GTX1080), "quiet"),
    ("a device from before tensor cores", "precision.fp32_matmul",
     lambda: products([("maxwell_sgemm_128x64_nn", 2000)], **GTX1080), "quiet"),
    ("32-bit products on matrix cores of AMD", "precision.tensor_cores",
     lambda: products([(MFMA, 2000)], vendor="hip"), "quiet"),
    ("32-bit products without matrix cores of AMD", "precision.tensor_cores",
     lambda: products([(NO_MFMA, 2000)], vendor="hip"), "found"),
    ("TF32 is NVIDIA's", "precision.fp32_matmul", lambda: products([(NO_MFMA, 2000)], vendor="hip"), "quiet"),
    ("an AMD device from before matrix cores", "precision.tensor_cores",
     lambda: products([(NO_MFMA, 2000)], vendor="hip", name="AMD Radeon VII", sms=60), "quiet"),
    ("products with vectors", "precision.tensor_cores",
     lambda: products([("void gemv2T_kernel_val<int, float>(int)", 2000)], **V100), "quiet"),
    ("products in 64 bits", "precision.tensor_cores", lambda: products([("volta_dgemm_128x64_nn", 2000)], **V100),
     "quiet"),
    ("products that are a small part", "precision.tensor_cores",
     lambda: products([(V100_SGEMM, 10), (ADD, 3000)], **V100), "quiet"),
    ("a device without kernels", "precision.tensor_cores", lambda: steps([400] * 4, vendor=None), "not judged"),
    ("pictures have three channels", "kernel.unaligned_shapes", lambda: convolution(3, 64), "quiet"),
    ("kernels that say nothing of blocks", "kernel.low_occupancy", kernels_that_say_nothing, "not judged"),
    ("too few blocks, and no occupancy", "kernel.low_occupancy",
     lambda: kernels_without("est. achieved occupancy %", blocks=20), "found"),
    ("a wave of kernels without occupancy", "kernel.tail_wave",
     lambda: kernels_without("est. achieved occupancy %", blocks=900), "found"),
    ("short kernels", "kernel.low_occupancy", lambda: grid(20, length=6), "quiet"),
    ("many waves", "kernel.tail_wave", lambda: grid(20 * 864 + 10), "quiet"),
    ("calls of a pool", "memory.allocator_churn",
     lambda: churn(range(6), calls=("cudaFreeAsync", "cudaMallocAsync")), "quiet"),
    ("first allocations late in a trace without steps", "memory.allocator_churn",
     lambda: churn(range(4, 6), calls=("cudaMalloc", "cudaMalloc"), marked=False), "quiet"),
    ("allocations and releases in a trace without steps", "memory.allocator_churn",
     lambda: churn(range(6), marked=False), "found"),
    ("memory of HIP", "memory.near_limit",
     lambda: memory([(60 * GB, 50 * GB)] * 3, device={"vendor": "hip"}), "found"),
    ("memory that only comes and goes", "memory.growth",
     lambda: memory([(GB + n % 3 * 200 * MB, GB) for n in range(9)]), "quiet"),
    ("a peak that rises", "memory.growth", lambda: memory([(GB + n * 100 * MB, GB) for n in range(9)]), "found"),
    ("one step that took more", "memory.growth",
     lambda: memory([(3 * GB if n == 4 else GB, GB) for n in range(9)]), "quiet"),
    ("three steps", "memory.growth", lambda: growing(100 * MB, steps=3), "not judged"),
    ("memory of the host", "memory.growth", lambda: growing(100 * MB, kind=0), "found"),
    ("a retry within an operator", "memory.fragmentation", lambda: fragmented(grows=(0,), retry=True), "found"),
    ("memory that is unused and never asked for", "memory.fragmentation",
     lambda: memory([(20 * GB, 10 * GB)] * 3, reserved=40 * GB), "quiet"),
    ("memory that is taken in the first step", "memory.fragmentation", lambda: fragmented(grows=(0,)), "quiet"),
    ("memory events that say nothing of what is reserved", "memory.fragmentation",
     lambda: memory([(20 * GB, 10 * GB)] * 3), "not judged"),
    ("calls of Python between operators", "host.loop_indexing", lambda: loop(40, python=True), "found"),
    ("a loop on a host without a device", "host.loop_indexing", lambda: loop(40, vendor=None), "found"),
    ("no loop on a host without a device", "host.loop_indexing", lambda: loop(6, vendor=None), "quiet"),
    ("tensors that are made of zeros", "optimizer.zero_grad", lambda: zero_grad(False, parent="aten::zeros"), "quiet"),
    ("zeros after another operator", "optimizer.zero_grad", lambda: zero_grad(False, parent="aten::add"), "found"),
    ("a convolution in front of something else", "model.conv_bias",
     lambda: conv_norm(True, after="nn.Module: ReLU_0"), "quiet"),
    ("what stacks say once", "optimizer.not_fused",
     lambda: optimizer(100, 3, "torch/optim/sgd.py(334): _single_tensor_sgd"), "quiet"),
    ("steps of a program without a device", "step.outliers",
     lambda: steps([400] * 5 + [3000] + [400] * 4, vendor=None), "found"),
    ("a runtime that reports no waits", "openmp.imbalance", lambda: regions([1000, 400], waits=False), "found"),
    ("threads that execute tasks while they wait", "openmp.imbalance", lambda: regions([1000, 400], tasks=580),
     "quiet"),
    ("one thread", "openmp.imbalance", lambda: regions([900]), "quiet"),
    ("three steps", "step.outliers", lambda: steps([400, 3000, 400]), "not judged"),
    ("a first step that is long", "trace.lazy_start", lambda: steps([4000] + [400] * 6), "found"),
    ("code that is loaded later", "trace.lazy_start", lambda: loading(4), "found"),
    ("Kineto's mark of all it recorded", "trace.profiler_overhead",
     lambda: overhead(1500, "PyTorch Profiler (0)", "Trace"), "quiet"),
    ("a file with nothing in it", "trace.unfit", lambda: Trace(), "found"),
    ("a program without a device", "trace.unfit", lambda: steps([400] * 4, vendor=None), "quiet"),
    ("a file that ends in the middle", "trace.unfit", lambda: Cut(products([(SGEMM, 500)], steps=40)), "found"),
    ("nothing special", "kernel.low_occupancy", doing_nothing_special, "quiet"),
]
