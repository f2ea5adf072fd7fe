"""What readers of Kineto's traces rely on: args in each slice, devices of old headers, the job of the environment, and
times as HolisticTraceAnalysis has them.

usage: test_kineto_forms.py CKINETO FOLDER-OF-GIVEN-CASES
"""
import csv
import json
import math
import os

from harness import expect, failures, finish, given, path_of, run, write_trace


def table_of(trace, name, *args):
    folder = path_of(f"{name}-csv")
    os.makedirs(folder, exist_ok=True)
    run("analyze", "--only", name, "--csv", folder, *args, trace)
    with open(os.path.join(folder, name + ".csv"), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def kernel(ts, dur, number):
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": dur,
            "args": {"device": 0, "stream": 7, "correlation": number}}


def check_slices_have_args():
    path, out = write_trace("bare.json", [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2},
                                          {"ph": "i", "name": "b", "pid": 1, "tid": 1, "ts": 2, "s": "t"}]), path_of("out.json")
    run("convert", "-o", out, path)
    with open(out, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    expect("args of slices", [e.get("args") for e in events if e["ph"] == "X"], [{}])


def check_old_devices():
    """Before PyTorch 1.9 the header called them computeProperties."""
    trace = write_trace("old.json", {
        "computeProperties": [{"id": 0, "name": "Old GPU", "major": 7, "minor": 0}],
        "traceEvents": [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}}, kernel(1, 5, 1)]})
    expect("name of a device", [r["name"] for r in table_of(trace, "gpu_summary")], ["Old GPU"])
    given_trace = given("analysis", "gpu_metrics_input.json")
    if given_trace:
        expect("name of the given device", [r["name"] for r in table_of(given_trace, "gpu_summary")], ["Tesla V100-DGXS-32GB"])


def check_hta_times(base):
    """Starts go up and ends down to whole microseconds, from float64: a quarter of one is lost without a base."""
    first = 1700000000000000 if not base else 4000000000
    text, wanted = [], 0
    for i in range(40):
        ts, dur = f"{first + 100 * i}.{(137 * i + 130) % 1000:03}", f"{2 + i % 3}.{(311 * i + 800) % 1000:03}"
        text.append(f'{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{ts},"dur":{dur},'
                    f'"args":{{"device":0,"stream":7,"correlation":{i + 1}}}}}')
        wanted += math.floor(float(ts) + float(dur)) - math.ceil(float(ts))
    header = f'"baseTimeNanoseconds": {base},' if base else ""
    trace = write_trace(f"hta{base}.json", f'{{{header}"traceEvents":[{",".join(text)}]}}')
    expect(f"HTA's sum with base {base}", [float(r["sum_us"]) for r in table_of(trace, "kernels", "--definitions", "hta")],
           [float(wanted)])


def check_job_of_the_environment():
    out = path_of("job.json")
    run("record", "-q", "-o", out, "--", "/bin/true", status=None,
        env={"PT_PROFILER_JOB_NAME": 'a "job"', "PT_PROFILER_JOB_VERSION": "2", "PT_PROFILER_JOB_ATTEMPT_INDEX": "0"})
    if not os.path.exists(out):
        failures.append(f"nothing was recorded: {run.stderr[:300]}")
        return
    with open(out, encoding="utf-8") as file:
        header = json.load(file)
    expect("job", [header.get(f"PT_PROFILER_JOB_{k}") for k in ("NAME", "VERSION", "ATTEMPT_INDEX")], ['a "job"', "2", "0"])


check_slices_have_args()
check_old_devices()
check_hta_times(0)
check_hta_times(1600000000000000000)
check_job_of_the_environment()
finish()
