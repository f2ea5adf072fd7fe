"""Programs that test_recorder.py records: python programs.py NAME."""
import ctypes
import os
import sys
import threading


def make_model(torch):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def train_step(torch, model, optimizer):
    optimizer.zero_grad()
    loss = model(torch.ones(3, 8)).sum()
    loss.backward()
    optimizer.step()
    return loss.item()


def run_odd_operators(torch):
    """Inputs of every kind, failures, ranges that end out of order, deep nests, many names."""
    from torch.autograd.profiler import record_function

    torch.cat([torch.ones(2, 3), torch.ones(4, 3)])
    torch.stack([torch.ones(1) for _ in range(30)])
    torch.stack([torch.ones(1) for _ in range(100)])
    torch.add(torch.ones(2), 3.5, alpha=2)
    torch.empty(0, 5).sum()
    torch.ones(2, 3).t() + 1
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError:
        pass
    outer, inner = record_function("outer first out"), record_function("inner last out")
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    ranges = [record_function("nested") for _ in range(300)]
    for one in ranges:
        one.__enter__()
    for one in reversed(ranges):
        one.__exit__(None, None, None)
    for i in range(2000):
        with record_function("name %d" % i):
            pass
    with record_function('quote " back \\ slash \x01 é'):
        torch.ones(1)


def run_thread(torch):
    with torch.autograd.profiler.record_function("in a thread"):
        torch.ones(7, 7).mm(torch.ones(7, 7))


def train():
    import torch

    model, optimizer = make_model(torch)
    losses = [train_step(torch, model, optimizer) for _ in range(3)]
    run_odd_operators(torch)
    thread = threading.Thread(target=run_thread, args=(torch,))
    thread.start()
    thread.join()
    print("losses", losses)
    sys.stderr.write("done\n")
    return 3


class Numbers:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        import torch

        return torch.full((4,), float(index)).mul(2)


def _spawned(index):
    import torch

    torch.ones(index + 2, 2).mm(torch.ones(2, 2))


def workers():
    import torch
    import torch.multiprocessing

    loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, num_workers=2)
    print(sum(batch.sum().item() for batch in loader))
    torch.multiprocessing.spawn(_spawned, nprocs=2)
    return 0


def _rank(rank, path):
    import torch
    import torch.distributed as distributed

    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    distributed.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    tensor = torch.ones(5) * rank
    distributed.all_reduce(tensor)
    assert tensor[0].item() == 1
    distributed.destroy_process_group()


def ranks():
    import tempfile
    import torch.distributed
    import torch.multiprocessing

    if not torch.distributed.is_available():
        return 77
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, args=(os.path.join(folder, "store"),), nprocs=2)
    return 0


def device():
    """Work of the sim device inside of an operator, then SIGKILL."""
    import signal
    import torch

    sim = ctypes.CDLL(os.environ["SIM_LIBRARY"])

    class OnDevice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            launch(sim)
            return gradient

    for _ in range(4):
        OnDevice.apply(torch.ones(3, requires_grad=True)).sum().backward()
    sim.sim_synchronize(0)
    os.kill(os.getpid(), signal.SIGKILL)


KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)(lambda *_: None)


def launch(sim):
    """One kernel on the sim device: see plugins/sim/sim.h."""
    sim.sim_launch(0, b"sim_in_backward", 4, KERNEL, None)


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]]())
