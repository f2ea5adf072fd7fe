"""A SYCL program on an OpenCL device, recorded: its copies, fills, allocations and kernels are as many as the SYCL
runtime traces itself (SYCL_UR_TRACE), in the same run.

    CKINETO=build/dev/bin/ckineto test_sycl.py FOLDER     of fetch_sycl.sh
"""
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = """
import numpy, dpnp
a = dpnp.asarray(numpy.arange(100000, dtype=numpy.float32))
b = dpnp.ones(100000, dtype=dpnp.float32)
for _ in range(5):
    c = (a * b + b).sum()
d = dpnp.copy(a)
d[:10] = dpnp.zeros(10, dtype=dpnp.float32)
e = dpnp.full(1000, 3.0)
print(float(c), dpnp.asnumpy(d).sum(), float(e.sum()))
"""
# Functions of the SYCL runtime's own interface, and what they are in a trace.
MEANS = {"urEnqueueUSMMemcpy": "(clEnqueueMemcpyINTEL)", "urEnqueueUSMFill": "(clEnqueueMemFillINTEL)"}
CALLS = {"urUSMDeviceAlloc": "clDeviceMemAllocINTEL", "urUSMHostAlloc": "clHostMemAllocINTEL",
         "urUSMSharedAlloc": "clSharedMemAllocINTEL"}


def run(folder, scratch):
    trace = os.path.join(scratch, "sycl.json")
    env = dict(os.environ, OCL_ICD_VENDORS=os.path.join(folder, "icd"), SYCL_UR_TRACE="2",
               LD_LIBRARY_PATH=os.path.join(folder, "lib"), ONEAPI_DEVICE_SELECTOR="opencl:cpu")
    done = subprocess.run([os.environ["CKINETO"], "record", "--cpu", "off", "--no-torch", "-q", "-o", trace, "--",
                           os.path.join(folder, "bin", "python"), "-c", PROGRAM],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
                          check=False)
    if done.returncode != 0:
        sys.exit("the program failed: %s" % done.stdout[-2000:])
    with open(trace) as file:
        return done.stdout, json.load(file)["traceEvents"]


def count(names, ending):
    return len([name for name in names if name.endswith(ending)])


def main():
    folder = sys.argv[1]
    if not os.path.exists(os.path.join(folder, "icd", "intel.icd")):
        print("skipped: %s was not fetched" % folder)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        traced, events = run(os.path.abspath(folder), scratch)
    device = [e["name"] for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    host = [e["name"] for e in events if e.get("cat") == "runtime"]
    kernels = [e["name"] for e in events if e.get("cat") == "kernel"]
    expected, found = {}, {}
    for function, ending in list(MEANS.items()) + list(CALLS.items()):
        expected[function] = len(re.findall(r"<--- %s\(" % function, traced))
        found[function] = count(device if function in MEANS else host, ending)
    expected["kernels"] = len(re.findall(r"<--- urEnqueueKernelLaunch\w*\(", traced))
    found["kernels"] = len(kernels)
    print(found)
    faults = [name for name in expected if expected[name] != found[name]]
    faults += [name for name in kernels if name.startswith("_Z") or "typeinfo" in name]
    if faults or not expected["kernels"] or not expected["urEnqueueUSMMemcpy"]:
        sys.exit("differs: %s; expected %s" % (faults, expected))


main()
