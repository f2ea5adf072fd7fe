"""A training loop for test_ondemand.py: ondemand_loop.py FOLDER [slow|hang|profile|ranks]

It touches FOLDER/ready-PID after some iterations, and ends when FOLDER/stop exists. In words:
    slow     iteration 40 takes 400 ms
    hang     no iteration begins for 4 s after iteration 40
    profile  torch.profiler with a schedule runs all the time; FOLDER/profile.json is its first trace
    ranks    gradients are averaged over processes (gloo)
"""
import os
import sys
import time

import torch

ITERATION_S = 0.01
SPECIAL = 40
MOST_S = 240  # a test that died leaves no process


def make_profile(folder):
    path = os.path.join(folder, "profile.json")

    def export_first(profile):
        if not os.path.exists(path):
            profile.export_chrome_trace(path)

    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
        on_trace_ready=export_first)


def pause(words, step):
    if step == SPECIAL and "slow" in words:
        time.sleep(0.4)
    if step == SPECIAL and "hang" in words:
        time.sleep(4)
    time.sleep(ITERATION_S)


def train(folder, words):
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    if "ranks" in words:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(8, 16)
    profile = make_profile(folder) if "profile" in words else None
    if profile:
        profile.start()
    end = time.time() + MOST_S
    step = 0
    go_on = torch.ones(1)
    while go_on:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()
        if profile:
            profile.step()
        pause(words, step)
        step += 1
        if step == 10:
            open(os.path.join(folder, "ready-%d" % os.getpid()), "w").close()
        if time.time() > end or os.path.exists(os.path.join(folder, "stop")):
            go_on.zero_()
        if "ranks" in words:
            torch.distributed.all_reduce(go_on, torch.distributed.ReduceOp.MIN)
    if profile:
        profile.stop()
    print("done after iteration", step)


train(sys.argv[1], sys.argv[2:])
