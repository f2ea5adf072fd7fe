#!/usr/bin/env python3
"""Programs of other frameworks with a known kernel: frameworks.py triton|cupy|numba|jax.

Each launches a kernel whose name has "scale_known" 25 times, jax a compiled function. The last line says how often
and under which name; without the framework the program ends with 77."""

import sys

LAUNCHES = 25


def run_triton():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scale_known(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

    x = torch.ones(4096, device="cuda")
    for _ in range(LAUNCHES):
        scale_known[(4,)](x, 4096, BLOCK=1024)
    torch.cuda.synchronize()


def run_cupy():
    import cupy
    kernel = cupy.RawKernel('extern "C" __global__ void scale_known(float *x) { x[threadIdx.x] *= 2; }', "scale_known")
    x = cupy.ones(256, dtype=cupy.float32)
    for _ in range(LAUNCHES):
        kernel((1,), (256,), (x,))
    cupy.cuda.Device().synchronize()


def run_numba():
    import numpy
    from numba import cuda

    @cuda.jit
    def scale_known(x):
        x[cuda.threadIdx.x] *= 2

    x = cuda.to_device(numpy.ones(256, dtype=numpy.float32))
    for _ in range(LAUNCHES):
        scale_known[1, 256](x)
    cuda.synchronize()


def run_jax():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def scale_known(x):
        return jnp.sin(x) * 2

    x = jnp.ones(4096)
    for _ in range(LAUNCHES):
        x = scale_known(x)
    x.block_until_ready()


if __name__ == "__main__":
    try:
        {"triton": run_triton, "cupy": run_cupy, "numba": run_numba, "jax": run_jax}[sys.argv[1]]()
    except ImportError as error:
        print(error)
        sys.exit(77)
