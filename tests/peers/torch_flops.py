"""FLOPs as torch.utils.flop_counter has them, and a trace of the same calls by torch.profiler.

torch_flops.py FOLDER: needs PyTorch; makes trace.json.gz and flops.json, {operator: operations of all its
calls}. Calls whose number the two tell differently on purpose are not made: backwards of convolutions with
groups (flop_counter does not divide by them).
"""

import gzip
import json
import os
import sys
import tempfile

import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode


def grown(*sizes):
    return torch.randn(*sizes, requires_grad=True)


def products():
    torch.mm(grown(16, 32), grown(32, 8)).sum().backward()
    torch.addmm(grown(8), grown(16, 32), grown(32, 8), alpha=2).sum().backward()
    torch.bmm(grown(10, 3, 4), grown(10, 4, 5)).sum().backward()
    torch.baddbmm(grown(10, 3, 5), grown(10, 3, 4), grown(10, 4, 5)).sum().backward()
    functional.linear(grown(2, 3, 8), grown(16, 8), grown(16)).sum().backward()
    for left, right in (((7, 5, 9), (9, 4)), ((5, 9), (7, 9, 4)), ((2, 1, 5, 9), (7, 9, 4)),
                        ((3, 5, 9), (3, 9, 4))):
        torch.matmul(grown(*left), grown(*right)).sum().backward()
    torch.einsum("bij,bkj->bik", grown(4, 5, 6), grown(4, 7, 6)).sum().backward()


def convolutions():
    for stride, padding, dilation in ((1, 0, 1), (2, 3, 1), (1, 1, 2), ((2, 1), (0, 2), (1, 3))):
        for bias in (None, grown(6)):
            functional.conv2d(grown(2, 4, 19, 23), grown(6, 4, 3, 5), bias, stride=stride,
                              padding=padding, dilation=dilation).sum().backward()
    functional.conv1d(grown(2, 4, 50), grown(6, 4, 3)).sum().backward()
    functional.conv3d(grown(1, 2, 9, 8, 7), grown(3, 2, 3, 2, 2), stride=2).sum().backward()
    functional.conv2d(torch.randn(2, 4, 9, 9), grown(6, 4, 3, 3), padding="same").sum().backward()
    functional.conv_transpose2d(grown(2, 4, 7, 7), grown(4, 6, 3, 3), stride=2,
                                output_padding=1).sum().backward()
    with torch.no_grad():
        functional.conv2d(torch.randn(2, 8, 9, 9), torch.randn(4, 2, 3, 3), groups=4)


def attention():
    for heads, length, others, width in ((3, 5, 7, 8), (1, 64, 64, 16)):
        query, key, value = (grown(2, heads, n, width) for n in (length, others, others))
        functional.scaled_dot_product_attention(query, key, value).sum().backward()


def calls():
    torch.manual_seed(1)
    products()
    convolutions()
    attention()


def traced():
    """The trace, without what is of the machine."""
    with torch.profiler.profile(record_shapes=True) as profile:
        calls()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profile.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            trace = json.load(file)
    trace.update(host_name="capture", traceName="trace.json")
    return trace


def main(folder):
    torch.set_num_threads(1)
    with FlopCounterMode(display=False) as counter:
        calls()
    counts = counter.get_flop_counts()["Global"]
    answers = {str(op).replace("aten.", "aten::"): n for op, n in sorted(counts.items(), key=str)}
    with gzip.GzipFile(os.path.join(folder, "trace.json.gz"), "wb", mtime=0) as file:
        file.write(json.dumps(traced(), separators=(",", ":")).encode("utf-8"))
    with open(os.path.join(folder, "flops.json"), "w", encoding="utf-8") as file:
        json.dump(answers, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
