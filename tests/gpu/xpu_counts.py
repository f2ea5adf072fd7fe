"""What is in the trace of matrix_sycl.cpp: xpu_counts.py TRACE. Ends with 1 if something is missing."""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    faults = []

    def expect(what, found, wanted):
        print(f"{what}: {found}, wanted {wanted}")
        if found != wanted:
            faults.append(what)

    expect("kernels scale", sum("scale" in e["name"] for e in kernels), 100)
    expect("kernels spin", sum("spin" in e["name"] for e in kernels), 10)
    copies = [e for e in events if e.get("cat") == "gpu_memcpy"]
    print("copies:", [(e["name"], e["args"].get("bytes")) for e in copies])
    expect("copies", len(copies), 2)
    expect("fills", sum(e.get("cat") == "gpu_memset" for e in events), 1)
    calls = {e["args"].get("correlation"): e for e in events if e.get("cat") == "xpu_runtime"}
    expect("calls of SYCL", bool(calls), True)
    expect("kernels without a call", sum(k["args"].get("correlation") not in calls for k in kernels), 0)
    early = [k for k in kernels if k["args"].get("correlation") in calls
             and k["ts"] < calls[k["args"]["correlation"]]["ts"]]
    expect("kernels before their launch", len(early), 0)
    last = {}
    overlaps = 0
    for k in sorted(kernels, key=lambda e: e["ts"]):
        overlaps += k["ts"] < last.get(k["tid"], 0) - 1
        last[k["tid"]] = k["ts"] + k["dur"]
    expect("overlaps in a queue that is in order", overlaps, 0)
    expect("named devices", all(d.get("name") != "Intel GPU" for d in trace["deviceProperties"]), True)
    for line in trace["ckineto"]["ledger"]:
        if line["source"] == "XPU":
            print("ledger:", line)
    return 1 if faults else 0


sys.exit(main())
