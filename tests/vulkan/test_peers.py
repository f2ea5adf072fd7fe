"""Programs of others that compute with Vulkan: their results are the same with and without the layer, and their
dispatches, copies and fills are in the trace once, by the count of an independent layer.

    test_peers.py FOLDER ncnn|wgpu     FOLDER: of fetch_vulkan.sh
"""
import os
import sys

from support import check, environment, events, finish, kernels, losses, record, run

WGPU = """
import numpy, wgpu
from wgpu.utils.compute import compute_with_buffers
shader = '''
@group(0) @binding(0) var<storage,read> a: array<i32>;
@group(0) @binding(1) var<storage,read_write> b: array<i32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) i: vec3<u32>) { b[i.x] = a[i.x] * 2; }
'''
for k in range(5):
    data = numpy.arange(1024, dtype=numpy.int32) + k
    out = compute_with_buffers({0: data}, {1: data.nbytes}, shader, n=16)
    print(int(numpy.frombuffer(out[1], dtype=numpy.int32).sum()))
"""
NCNN = """
import tempfile
import ncnn, numpy
ncnn.create_gpu_instance()
folder = tempfile.mkdtemp()
with open(folder + '/net.param', 'w') as file:
    file.write('7767517\\n4 4\\nInput in 0 1 a 0=16 1=16 2=8\\nReLU r 1 1 a b 0=0.1\\n'
               'Pooling p 1 1 b c 0=1 1=2 2=2\\nSigmoid s 1 1 c d\\n')
open(folder + '/net.bin', 'wb').close()
net = ncnn.Net()
net.opt.use_vulkan_compute = True
net.load_param(folder + '/net.param')
net.load_model(folder + '/net.bin')
for k in range(5):
    run = net.create_extractor()
    values = (numpy.arange(8 * 16 * 16, dtype=numpy.float32).reshape(8, 16, 16) - 1000 + k) / 500
    run.input('a', ncnn.Mat(values))
    print(float(numpy.array(run.extract('d')[1]).sum()), flush=True)

"""

folder, peer = sys.argv[1:]
python = os.path.join(folder, "bin", "python")
if not os.path.exists(os.path.join(folder, "complete")):
    print(f"skipped: {folder} was not fetched")
    sys.exit(77)

program = WGPU if peer == "wgpu" else NCNN
plain = run([python, "-c", program], environment())
if not plain.stdout:
    print(f"skipped: {peer} finds no device: {plain.stderr.decode()[-300:]}")
    sys.exit(77)
result, trace, counts = record([python, "-c", program], options=["--cpu", "off", "--no-torch"])
lines = [line for line in plain.stdout.splitlines() if not line.startswith(b"[")]
check(lines == [line for line in result.stdout.splitlines() if not line.startswith(b"[")],
      f"{plain.stdout} became {result.stdout} {result.stderr}")
found = {"kernels": kernels(trace), "copies": len(events(trace, "gpu_memcpy")), "fills": len(events(trace, "gpu_memset"))}
print(found, {e["name"] for e in events(trace, "kernel")})
check(found == counts and found["kernels"] >= 5, f"the witness counted {counts}")
check(not losses(trace), f"{losses(trace)}")
finish(peer)
