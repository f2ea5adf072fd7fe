"""A training program of several processes (PyTorch with gloo), traced on each rank by torch.profiler.

usage: train_gloo.py OUT [--program ddp|tp|pipeline] [--ranks N] [--steps N] [--seed N] PLANT…

Writes OUT/NUMBER-PLANT/rankR.json for each plant of the command line, and OUT/NUMBER-PLANT.truth.json:
  none         nothing is wrong
  sleep=MS     a rank sleeps in each step, after the forward pass
  loader=MS    a rank's data comes late in each step
  compute=F    a rank computes F times as much, by its processor time
  step=MS      a rank sleeps in one step
The rank and the step are drawn. Exit status 77: PyTorch or its profiler is missing.
"""
import gc
import json
import os
import random
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile
    if not torch.profiler.kineto_available() or not dist.is_gloo_available():
        raise ImportError
except (ImportError, OSError, ValueError, AttributeError):
    print("train_gloo.py: PyTorch with its profiler and gloo is missing")
    sys.exit(77)

WIDTH, LAYERS, BATCH = 160, 4, 32
WARM_STEPS = 3


def sleep_ms(ms):
    """A sleep of no time gives away the processor, too."""
    if ms > 0:
        time.sleep(ms / 1e3)


class Plan:
    """What is wrong in a run."""

    def __init__(self, text, random_numbers, ranks, steps):
        self.kind, _, value = text.partition("=")
        self.value = float(value or 0)
        self.rank = random_numbers.randrange(ranks)
        self.step = random_numbers.randrange(1, steps - 1)

    def of(self, kind, rank, step):
        """What is planted of this kind, 0 if nothing."""
        if self.kind != kind or step < 0 or rank != self.rank or (kind == "step" and step != self.step):
            return 0
        return self.value


def make_layers():
    return torch.nn.Sequential(*[layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())])


class Computation:
    """Measures the processor time of a step, and computes more."""

    def __init__(self):
        self.step_s, self.begun = 0.0, 0.0
        self.data = torch.randn(WIDTH, WIDTH)

    def begin(self):
        self.begun = time.thread_time()

    def end(self):
        self.step_s = time.thread_time() - self.begun

    def compute_more(self, factor):
        if factor <= 1:
            return
        until = time.thread_time() + (factor - 1) * self.step_s
        while time.thread_time() < until:
            torch.mm(self.data, self.data)


class Loader:
    """Data of a rank, late if that is planted."""

    def __init__(self, rank, plan):
        self.rank, self.plan, self.step = rank, plan, -1

    def __iter__(self):
        return self

    def __next__(self):
        self.step += 1
        with torch.profiler.record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            sleep_ms(self.plan.of("loader", self.rank, self.step))
            return torch.randn(BATCH, WIDTH)


class DataParallel:
    """Data parallel, and with groups of two the output of each layer is added up in its group."""

    def __init__(self, rank, ranks, by_tensor):
        self.rank, self.group = rank, None
        self.layers, self.computation = make_layers(), Computation()
        self.model = torch.nn.parallel.DistributedDataParallel(self.layers, bucket_cap_mb=0.2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        for first in range(0, ranks if by_tensor else 0, ranks // 2):
            members = list(range(first, first + ranks // 2))
            group = dist.new_group(members, group_desc="tp") if "group_desc" in dist.new_group.__code__.co_varnames \
                else dist.new_group(members)
            self.group = group if rank in members else self.group

    def run_step(self, plan, step, data):
        output = self.model(data)
        for _ in range(LAYERS if self.group else 0):
            part = output.detach().clone()
            dist.all_reduce(part, group=self.group)
            output = output + 0.1 * torch.mm(part, self.layers[0].weight)
        sleep_ms(plan.of("sleep", self.rank, step) + plan.of("step", self.rank, step))
        self.computation.compute_more(plan.of("compute", self.rank, step))
        output.square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Pipeline:
    """Stages, one after the other: activations forward, gradients backward, micro-batches."""

    MICRO_BATCHES = 4

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks
        self.layers, self.computation = make_layers(), Computation()
        self.optimizer = torch.optim.SGD(self.layers.parameters(), lr=1e-3)

    def run_step(self, plan, step, data):
        sleep_ms(plan.of("sleep", self.rank, step) + plan.of("step", self.rank, step))
        self.computation.compute_more(plan.of("compute", self.rank, step))
        kept = []
        for _ in range(self.MICRO_BATCHES):
            given = data.clone()
            if self.rank > 0:
                dist.recv(given, self.rank - 1)
            given.requires_grad_()
            output = self.layers(given)
            if self.rank + 1 < self.ranks:
                dist.send(output.detach(), self.rank + 1)
            kept.append((given, output))
        for given, output in kept:
            gradient = torch.ones_like(output) / output.numel()
            if self.rank + 1 < self.ranks:
                dist.recv(gradient, self.rank + 1)
            output.backward(gradient)
            if self.rank > 0:
                dist.send(given.grad, self.rank - 1)
        self.optimizer.step()
        self.optimizer.zero_grad()


def run_plan(job, plan, rank, steps, path):
    """Steps before the window are not traced, the last of them with the profiler warming up."""
    loader = iter(Loader(rank, plan))
    schedule = torch.profiler.schedule(wait=WARM_STEPS - 1, warmup=1, active=steps)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=schedule) as profiler:
        for step in range(-WARM_STEPS, steps):
            loader.step = step - 1
            if step < 0:
                job.computation.begin()
            job.run_step(plan, step if step >= 0 else -1, next(loader))
            if step < 0:
                job.computation.end()
            if step + 1 < steps:
                profiler.step()
    profiler.export_chrome_trace(path)
    gc.collect()
    dist.barrier()


def run_rank(rank, options, out, plants):
    gc.disable()  # a collection is a long step of its rank
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{out}/meet", rank=rank, world_size=options["ranks"])
    job = Pipeline(rank, options["ranks"]) if options["program"] == "pipeline" else \
        DataParallel(rank, options["ranks"], options["program"] == "tp")
    numbers = random.Random(options["seed"])
    for number, text in enumerate(plants):
        plan = Plan(text, numbers, options["ranks"], options["steps"])
        place = os.path.join(out, f"{number}-{plan.kind}")
        os.makedirs(place, exist_ok=True)
        run_plan(job, plan, rank, options["steps"], os.path.join(place, f"rank{rank}.json"))
        if not rank:
            with open(place + ".truth.json", "w", encoding="utf-8") as file:
                json.dump({"plant": plan.kind, "value": plan.value, "rank": plan.rank if plan.value else None,
                           "step": plan.step + WARM_STEPS if plan.kind == "step" else None, **options}, file)
    dist.destroy_process_group()


def start_rank(rank, options, out, plants):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        run_rank(rank, options, out, plants)
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def main(arguments):
    options, rest, words = {"program": "ddp", "ranks": 4, "steps": 20, "seed": 1}, list(arguments), []
    while rest:
        word = rest.pop(0)
        if word[:2] == "--" and word[2:] in options and rest:
            options[word[2:]] = type(options[word[2:]])(rest.pop(0))
        else:
            words.append(word)
    if len(words) < 2 or words[0].startswith("--"):
        print(__doc__)
        return 2
    out = os.path.abspath(words[0])
    os.makedirs(out, exist_ok=True)
    if os.path.exists(os.path.join(out, "meet")):  # of a run before
        os.remove(os.path.join(out, "meet"))
    ranks = [start_rank(rank, options, out, words[1:]) for rank in range(options["ranks"])]
    failed = [child for child in ranks if os.waitpid(child, 0)[1]]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
