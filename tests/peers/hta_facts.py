"""What Holistic Trace Analysis finds in traces, one JSON object per line: hta_facts.py TRACE…

Tables are lists of rows in a fixed order, with numbers rounded to three digits, or the words with
which the analysis failed."""

import json
import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from hta.trace_analysis import TraceAnalysis  # noqa: E402

# Not the lengths of queues nor the bandwidth of copies: there it depends on the order in the file what
# counts of events that begin at the same time.
ANALYSES = {
    "temporal breakdown": lambda a: a.get_temporal_breakdown(visualize=False),
    "kernel breakdown": lambda a: a.get_gpu_kernel_breakdown(
        visualize=False, num_kernels=1000000, duration_ratio=1.0)[1],
    "kinds of kernels": lambda a: a.get_gpu_kernel_breakdown(visualize=False)[0],
    "idle time": lambda a: a.get_idle_time_breakdown(visualize=False)[0],
    "launches": lambda a: a.get_cuda_kernel_launch_stats(visualize=False)[0],
    "overlap": lambda a: a.get_comm_comp_overlap(visualize=False),
}


def plain(value):
    if hasattr(value, "item"):
        value = value.item()
    return round(value, 3) if isinstance(value, float) else str(value)


def table(frame):
    if frame is None:
        return "nothing"
    frame = frame.reset_index(drop=frame.index.names == [None])
    rows = [[plain(value) for value in row] for row in frame.itertuples(index=False)]
    return [list(map(str, frame.columns)), *sorted(rows, key=str)]


def facts(path):
    try:
        analysis = TraceAnalysis(trace_files={0: path})
        frame = analysis.t.get_trace(0)
    except BaseException as problem:
        return {"not read": type(problem).__name__}
    found = {"rows": len(frame), "categories": int(frame["cat"].nunique()),
             "duration": plain(float(frame["dur"].sum()))}
    for name, analyse in ANALYSES.items():
        try:
            found[name] = table(analyse(analysis))
        except BaseException as problem:
            found[name] = "failed: %s" % type(problem).__name__
    return found


for path in sys.argv[1:]:
    answer = sys.stdout
    sys.stdout = open(os.devnull, "w")  # it talks
    result = facts(path)
    sys.stdout = answer
    print(json.dumps(result), flush=True)
