"""Attaches ckineto to a Python process: PyTorch's operators, Python functions, nn.Modules.

`ckineto record` puts the folder of this package on PYTHONPATH; the wheel `ckineto` carries the same
folder. Nothing happens on import: see `autoload` (the entry point that `import torch` calls),
`torch_bridge` and `stacks`.
"""
