"""Small traces with steps, for tests of integrations."""
import json
import random


def write_trace(path, step_us, seed=0, steps=5):
    """Steps of about this length, with an operator that takes most of them."""
    noise, events, at = random.Random(seed), [], 0.0
    for i in range(steps):
        length = round(step_us * (1 + 0.002 * noise.gauss(0, 1)), 3)
        row = {"ph": "X", "pid": 5, "tid": 7}
        events += [dict(row, cat="user_annotation", name=f"ProfilerStep#{i}", ts=at, dur=length),
                   dict(row, cat="cpu_op", name="aten::add", ts=at + 1, dur=length - 10)]
        at += length
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events}, file)
    return str(path)


def write_runs(directory, name, step_us, count=4):
    """Runs that differ by 1 %."""
    directory.mkdir(exist_ok=True)
    return [write_trace(directory / f"{name}-{i}.json", step_us * (1 + 0.01 * random.Random(f"{name}{i}").gauss(0, 1)), i)
            for i in range(count)]
