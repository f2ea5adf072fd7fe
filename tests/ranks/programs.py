"""The programs of the generated jobs: what each rank launches, in which order, on which stream.

Each program is a function of the model and its options, and has an entry in PROGRAMS with its default sizes.
"""
import numpy

from model import COMPUTE, PHASES, STREAMS, Model

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_{}_n_tilesize{}_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
FORWARD = [GEMM.format("tn", "128x128x64"),
           "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>>(Flash_fwd_params)",
           GEMM.format("tn", "256x128x64"),
           "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl, at::detail::Array<char*, 2>>(int)",
           "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)"]
BACKWARD = [GEMM.format("nt", "128x128x64"),
            "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8>>(Flash_bwd_params)",
            GEMM.format("nn", "256x128x64"),
            "void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl, at::detail::Array<char*, 3>>(int)",
            "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<c10::BFloat16, float>(int)"]
EXPERT = ["void cutlass::device_kernel<GroupedGemmUniversal<128, 256, 64>>(Params)", GEMM.format("tn", "64x256x64")]
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>(TensorListMetadata)"
SAMPLE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(ReduceOp)"
PARTS = (1.0, 1.4, 1.2, 0.5, 0.4)  # duration of the kernels of a layer, relative to the option `us`

DESCRIPTIONS = {
    "mesh": {"tp": "mesh_tp", "dp": "mesh_dp", "pp": "mesh_pp", "ep": "mesh_ep", "shard": "mesh_dp_shard",
             "replicate": "mesh_dp_replicate"},
    "megatron": {"tp": "TENSOR_MODEL_PARALLEL_GROUP", "dp": "DATA_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
                 "ep": "EXPERT_MODEL_PARALLEL_GROUP", "shard": "INTRA_PARTIAL_DATA_PARALLEL_GROUP",
                 "replicate": "INTER_PARTIAL_DATA_PARALLEL_GROUP"},
    "none": {}}


def add_groups(model, kind, options, key):
    """A group for each value of key(rank), of its ranks in order."""
    members = {}
    for rank in range(model.ranks):
        members.setdefault(key(rank), []).append(rank)
    for value in sorted(members):
        if len(members[value]) > 1 or kind == "world":
            model.add_group(kind, DESCRIPTIONS[options["names"]].get(kind, "undefined"), members[value])


def add_world(model):
    model.add_group("world", "default_pg", range(model.ranks))


def compute(model, phase, options, scale=1.0):
    """The kernels of one layer."""
    model.phase = PHASES[phase]
    names = FORWARD if phase == "forward" else BACKWARD
    factor = options["us"] * scale * (2.0 if phase == "backward" else 1.0)
    for number in range(options["kernels"]):
        model.launch_kernel(names[number % len(names)], factor * PARTS[number % len(PARTS)])
    model.phase = 0


def finish_step(model, options, streams):
    """The computation waits for gradients; the norm of all; the optimiser; the host reads the loss."""
    for stream in streams:
        model.wait_stream(COMPUTE, STREAMS[stream])
    model.communicate("world", "allreduce", 2, dtype="Float")
    model.wait_stream(COMPUTE, STREAMS["world"])
    for _ in range(3):
        model.launch_kernel(ADAM, 60)
    model.end_step()


def in_group(model, kind):
    return (kind, model.rank) in model.group_of


def reduce_over_tp(model, options):
    if in_group(model, "tp"):
        model.communicate("tp", "allreduce", options["tp_elements"])
        model.wait_stream(COMPUTE, STREAMS["tp"])


# Data parallel

def build_ddp(options):
    model = Model(options["ranks"], options["ranks_per_host"])
    add_world(model)
    layers, bucket = options["layers"], options["layers_per_bucket"]
    for rank in range(model.ranks):
        model.begin_rank(rank)
        for step in range(options["steps"]):
            model.begin_step(step, options["loader_us"])
            for _ in range(layers):
                compute(model, "forward", options)
            for layer in reversed(range(layers)):
                compute(model, "backward", options)
                if layer % bucket == 0:
                    model.communicate("world", "allreduce", options["bucket_elements"], stream=STREAMS["dp"],
                                      dtype="Float")
            finish_step(model, options, ["dp"])
        model.end_rank()
    return model


def gather_layer(model, options, after):
    size = len(model.group_of["shard", model.rank].members)
    elements = options["layer_elements"] // size
    model.communicate("shard", "_allgather_base", elements, elements * size, after=after)


def scatter_layer(model, options):
    size = len(model.group_of["shard", model.rank].members)
    elements = options["layer_elements"] // size
    model.communicate("shard", "_reduce_scatter_base", elements * size, elements, stream=STREAMS["scatter"])
    if in_group(model, "replicate"):
        model.wait_stream(STREAMS["replicate"], STREAMS["scatter"])
        model.communicate("replicate", "allreduce", elements, after=False)


def run_sharded_step(model, options):
    """Each layer's parameters are gathered while the layer before it computes; gradients are scattered."""
    layers = options["layers"]
    order = [("forward", layer) for layer in range(layers)] + [("backward", layer) for layer in reversed(range(layers))]
    gather_layer(model, options, after=False)
    for number, (phase, _) in enumerate(order):
        model.wait_stream(COMPUTE, STREAMS["shard"])
        if number + 1 < len(order):
            # The computation waits for the gather of its own layer only, so the next one is launched after this wait.
            waits = model.pending.pop(COMPUTE, [])
            gather_layer(model, options, after=True)
            model.pending[COMPUTE] = waits
        compute(model, phase, options)
        if phase == "backward":
            scatter_layer(model, options)


def build_fsdp(options):
    model = Model(options["ranks"], options["ranks_per_host"])
    add_world(model)
    per_shard = options["shard"] or model.ranks
    add_groups(model, "shard", options, lambda rank: rank // per_shard)
    if per_shard < model.ranks:
        add_groups(model, "replicate", options, lambda rank: rank % per_shard)
    for rank in range(model.ranks):
        model.begin_rank(rank)
        for step in range(options["steps"]):
            model.begin_step(step, options["loader_us"])
            run_sharded_step(model, options)
            finish_step(model, options, ["scatter", "replicate"])
        model.end_rank()
    return model


def build_hsdp(options):
    return build_fsdp({**options, "shard": options["shard"] or options["ranks_per_host"]})


# Expert parallel

def draw_tokens(options, groups):
    """tokens[step, layer, group][source][expert's rank]: uneven over experts, and from layer to layer."""
    random = numpy.random.default_rng([options["seed"], 11])
    ep, tokens = options["ep"], options["tokens"]
    found = {}
    for layer in range(options["layers"]):
        popular = random.dirichlet([options["evenness"]] * ep)  # the same for all steps
        for step in range(options["steps"]):
            for group in range(groups):
                share = 0.7 * popular + 0.3 * random.dirichlet([options["evenness"]] * ep)
                found[step, layer, group] = random.multinomial(tokens, share / share.sum(), size=ep)
    return found


def run_experts(model, options, tokens, phase):
    """Tokens go to the ranks of their experts, are computed there, and come back."""
    rank = model.rank // options["tp"] % options["ep"]
    sent, received, hidden = tokens[rank], tokens[:, rank], options["hidden"]
    sizes_out, sizes_in = [int(n) * hidden for n in sent], [int(n) * hidden for n in received]
    model.communicate("ep", "all_to_allv", sum(sizes_out), sum(sizes_in), splits=(sizes_out, sizes_in))
    model.wait_stream(COMPUTE, STREAMS["ep"])
    model.phase = PHASES[phase]
    factor = options["us"] * (2.0 if phase == "backward" else 1.0) * int(received.sum()) / options["tokens"]
    for number in range(4):
        model.launch_kernel(EXPERT[number % 2], factor * PARTS[number % 3])
    model.phase = 0
    model.communicate("ep", "all_to_allv", sum(sizes_in), sum(sizes_out), splits=(sizes_in, sizes_out))
    model.wait_stream(COMPUTE, STREAMS["ep"])


def build_ep(options):
    """Experts over ep ranks, optionally with tp ranks for each; gradients are reduced over the rest."""
    model = Model(options["ranks"], options["ranks_per_host"])
    tp, ep = options["tp"], options["ep"]
    add_world(model)
    add_groups(model, "tp", options, lambda rank: rank // tp)
    add_groups(model, "ep", options, lambda rank: (rank // (tp * ep), rank % tp))
    add_groups(model, "dp", options, lambda rank: rank % (tp * ep))
    # All tp ranks of an expert have the same tokens.
    tokens = draw_tokens(options, model.ranks // (tp * ep))
    for rank in range(model.ranks):
        model.begin_rank(rank)
        group = rank // (tp * ep)
        for step in range(options["steps"]):
            model.begin_step(step, options["loader_us"])
            for layer in range(options["layers"]):
                compute(model, "forward", options)
                reduce_over_tp(model, options)
                run_experts(model, options, tokens[step, layer, group], "forward")
            for layer in reversed(range(options["layers"])):
                run_experts(model, options, tokens[step, layer, group], "backward")
                compute(model, "backward", options)
                reduce_over_tp(model, options)
                if in_group(model, "dp"):
                    model.communicate("dp", "allreduce", options["bucket_elements"], dtype="Float")
            finish_step(model, options, ["dp"])
        model.end_rank()
    return model


# Pipelines

class Stage:
    """A rank's place in its pipeline, and how it talks with its neighbours."""

    def __init__(self, model, options, rank):
        self.model, self.options, self.rank = model, options, rank
        self.width = options["tp"] * options["dp"]
        self.stages, self.chunks = options["pp"], options["chunks"]
        self.stage = rank // self.width

    def peer(self, stage):
        return stage % self.stages * self.width + self.rank % self.width

    def neighbour(self, chunk, forward, outgoing):
        """The rank that this chunk's activations (or gradients) go to or come from, or None."""
        step = 1 if forward == outgoing else -1
        stage = self.stage + step
        if 0 <= stage < self.stages:
            return self.peer(stage)
        return self.peer(stage) if 0 <= chunk + step < self.chunks else None

    def exchange(self, sends, receives, stream="pp"):
        sends, receives = [s for s in sends if s is not None], [r for r in receives if r is not None]
        if sends or receives:
            self.model.exchange("pp", sends, receives, self.options["pp_elements"], STREAMS[stream],
                                self.options["p2p_seq"])
            if receives:
                self.model.wait_stream(COMPUTE, STREAMS[stream])

    def compute(self, forward, last_microbatch):
        model, options = self.model, self.options
        for _ in range(options["layers"]):
            compute(model, "forward" if forward else "backward", options)
            reduce_over_tp(model, options)
            if not forward and last_microbatch and in_group(model, "dp"):
                model.communicate("dp", "allreduce", options["bucket_elements"], dtype="Float")


def run_gpipe(stage, options):
    """All microbatches forward, then all backward, messages on a stream for each direction."""
    for forward in (True, False):
        streams = ("pp", "pp.1") if forward else ("pp.2", "pp.3")
        for number in range(options["microbatches"]):
            stage.exchange([], [stage.neighbour(0, forward, False)], streams[0])
            stage.compute(forward, number == options["microbatches"] - 1)
            stage.exchange([stage.neighbour(0, forward, True)], [], streams[1])


def run_1f1b(stage, options):
    """One forward, one backward; a send and a receive with the same neighbour are one kernel."""
    count = options["microbatches"]
    warm = min(stage.stages - stage.stage - 1, count)
    before, after = stage.neighbour(0, True, False), stage.neighbour(0, True, True)
    for _ in range(warm):
        stage.exchange([], [before])
        stage.compute(True, False)
        stage.exchange([after], [])
    if count > warm:
        stage.exchange([], [before])
    for number in range(count - warm):
        stage.compute(True, False)
        stage.exchange([after], [after])
        stage.compute(False, number == count - 1)
        stage.exchange([before], [before] if number < count - warm - 1 else [])
    for number in range(warm):
        stage.exchange([], [after])
        stage.compute(False, number == warm - 1)
        stage.exchange([before], [])


def run_interleaved(stage, options):
    """1F1B over virtual stages: each rank has several chunks of layers, the pipeline is a ring."""
    stages, chunks = stage.stages, stage.chunks
    total = options["microbatches"] * chunks
    warm = min(total, (stages - stage.stage - 1) * 2 + (chunks - 1) * stages)

    def run_one(number, forward):
        chunk = number % (stages * chunks) // stages
        chunk = chunk if forward else chunks - 1 - chunk
        streams = ("pp", "pp.1") if forward else ("pp.2", "pp.3")
        stage.exchange([], [stage.neighbour(chunk, forward, False)], streams[0])
        stage.compute(forward, number >= total - chunks * stages and number % stages == stages - 1)
        stage.exchange([stage.neighbour(chunk, forward, True)], [], streams[1])

    for number in range(warm):
        run_one(number, True)
    for number in range(total - warm):
        run_one(warm + number, True)
        run_one(number, False)
    for number in range(total - warm, total):
        run_one(number, False)


def build_pipeline(options):
    tp, pp, dp = options["tp"], options["pp"], options["dp"]
    if options["chunks"] > 1 and (pp < 3 or options["microbatches"] % pp):
        raise ValueError("interleaving needs pp of 3 or more, and microbatches that pp divides")
    model = Model(tp * pp * dp, options["ranks_per_host"])
    add_world(model)
    add_groups(model, "tp", options, lambda rank: rank // tp)
    add_groups(model, "dp", options, lambda rank: (rank // (tp * dp), rank % tp))
    add_groups(model, "pp", options, lambda rank: rank % (tp * dp))
    schedule = {"gpipe": run_gpipe, "1f1b": run_1f1b}[options["schedule"]]
    schedule = run_interleaved if options["chunks"] > 1 else schedule
    for rank in range(model.ranks):
        model.begin_rank(rank)
        stage = Stage(model, options, rank)
        model.roles[rank] = f"stage {stage.stage}"
        for step in range(options["steps"]):
            model.begin_step(step, options["loader_us"])
            schedule(stage, options)
            finish_step(model, options, ["dp"])
        model.end_rank()
    return model


# Inference

def replay_token(model, options, graph):
    """One call launches all layers; the collectives inside have no arguments."""
    model.begin_graph(graph)
    scale = 0.8 + 0.2 * graph
    for _ in range(options["layers"]):
        for half in range(2):
            for number in range(options["kernels"]):
                model.launch_kernel(FORWARD[(number + 2 * half) % len(FORWARD)],
                                    options["us"] * scale * PARTS[number % len(PARTS)])
            model.communicate("tp", "allreduce", options["tp_elements"] * graph, stream=COMPUTE)
    model.end_graph()


def build_decode(options):
    model = Model(options["ranks"], options["ranks_per_host"])
    tp = options["tp"] or model.ranks
    add_world(model)
    add_groups(model, "tp", options, lambda rank: rank // tp)
    if tp < model.ranks and not options["islands"]:
        add_groups(model, "dp", options, lambda rank: rank % tp)
    random = numpy.random.default_rng([options["seed"], 13])
    graphs = random.integers(1, 4, size=(options["steps"], options["decodes"]))
    for rank in range(model.ranks):
        model.begin_rank(rank)
        for step in range(options["steps"]):
            model.begin_step(step, options["loader_us"])
            for decode in range(options["decodes"]):
                model.work_on_host(options["scheduler_us"])
                if in_group(model, "dp"):
                    model.communicate("dp", "allreduce", 16, dtype="Long")
                    model.wait_stream(COMPUTE, STREAMS["dp"])
                model.phase = PHASES["forward"]
                replay_token(model, options, int(graphs[step, decode]))
                if options["eager_logits"]:
                    model.launch_kernel(GEMM.format("tn", "64x64x64"), options["us"] * 2)
                    model.communicate("tp", "_allgather_base", 4000, 4000 * tp)
                    model.wait_stream(COMPUTE, STREAMS["tp"])
                model.launch_kernel(SAMPLE, 12)
                model.phase = 0
                model.synchronize()
            model.end_step()
        model.end_rank()
    return model


COMMON = {"steps": 4, "layers": 4, "kernels": 5, "us": 80.0, "loader_us": 300.0, "ranks_per_host": 8, "names": "mesh",
          "bucket_elements": 4 << 20, "tp_elements": 2 << 20}
PIPELINE = {**COMMON, "tp": 2, "pp": 4, "dp": 2, "chunks": 1, "microbatches": 4, "layers": 2, "pp_elements": 1 << 20}
PROGRAMS = {
    "ddp": (build_ddp, {**COMMON, "ranks": 16, "layers_per_bucket": 1}),
    "fsdp": (build_fsdp, {**COMMON, "ranks": 16, "shard": 0, "layers": 6, "layer_elements": 16 << 20}),
    "hsdp": (build_hsdp, {**COMMON, "ranks": 16, "shard": 0, "layers": 6, "layer_elements": 32 << 20}),
    "ep": (build_ep, {**COMMON, "ranks": 16, "tp": 1, "ep": 4, "tokens": 2048, "hidden": 2048, "evenness": 6.0,
                      "names": "megatron"}),
    "tpep": (build_ep, {**COMMON, "ranks": 16, "tp": 2, "ep": 4, "tokens": 2048, "hidden": 2048, "evenness": 6.0,
                        "names": "megatron"}),
    "tpd": (build_pipeline, {**PIPELINE, "schedule": "gpipe", "p2p_seq": "shared"}),
    "pp1f1b": (build_pipeline, {**PIPELINE, "tp": 1, "dp": 4, "schedule": "1f1b", "p2p_seq": "different",
                                "microbatches": 8, "names": "megatron"}),
    "decode": (build_decode, {**COMMON, "ranks": 8, "tp": 0, "layers": 8, "kernels": 3, "us": 12.0, "decodes": 6,
                              "islands": False, "scheduler_us": 250.0, "loader_us": 50.0, "eager_logits": True, "tp_elements": 1 << 15,
                              "names": "none"}),
}
