"""What is in the trace of matrix_hip.cpp: rocm_counts.py TRACE WAY. Ends with 1 if something is missing."""
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

    expect("scale<float>", sum("scale<float>" in e["name"] for e in kernels), 100)
    expect("scale<double> of 3 launches of a graph", sum("scale<double>" in e["name"] for e in kernels), 15)
    spins = [e["dur"] for e in kernels if e["name"].startswith("spin")]
    expect("spin", len(spins), 10)
    print("spin, us:", spins)
    expect("spins of 0.9 to 1.5 ms", sum(900 < d < 1500 for d in spins), 10)
    copies = [e["name"].split(" ")[1] for e in events if e.get("cat") == "gpu_memcpy"]
    expect("copies to the device", copies.count("HtoD"), 1)
    expect("copies to the host", copies.count("DtoH"), 1)
    calls = {e["args"].get("correlation"): e for e in events if e.get("cat") == "cuda_runtime"}
    expect("kernels without a call", sum(k["args"].get("correlation") not in calls for k in kernels), 0)
    if sys.argv[2] != "hsa":
        early = [k for k in kernels if k["args"].get("correlation") in calls
                 and k["ts"] < calls[k["args"]["correlation"]]["ts"]]
        expect("kernels before their launch", len(early), 0)
    if sys.argv[2] == "counters":
        expect("rows of counters", any(e.get("ph") == "C" for e in trace["traceEvents"]), True)
    for line in trace["ckineto"]["ledger"]:
        if line["source"] == "ROCm":
            print("ledger:", line)
    return 1 if faults else 0


sys.exit(main())
