"""Convolutions beside cuDNN (PyTorch with channels_last and cudnn.benchmark), in one process:
`python bench/conv2d.py`, on a GPU, from the root of the repository.

Each line is a layer of ResNet-50, all but the first: microseconds of PyTorch and of attnpress,
medians of interleaved rounds, TFLOP/s of attnpress, and PyTorch's time over attnpress's. The last
line of a pass is the geometric mean over the layers, each once. fprop: the output; dgrad: dx alone;
wgrad: dweight alone. Two sets of buffers rotate. Both are captured in a CUDA graph of some calls,
since a call takes the GPU hardly longer than Python; with --eager they are not."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

from attnpress import conv2d as cv
from bench.timing import medians

CALLS = 10  # of a graph
LAYERS = (  # channels, lines and columns, filters, filter, stride
    (64, 56, 64, 1, 1),
    (64, 56, 64, 3, 1),
    (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1),
    (256, 56, 128, 1, 1),
    (128, 56, 128, 3, 2),
    (128, 28, 512, 1, 1),
    (256, 56, 512, 1, 2),
    (512, 28, 128, 1, 1),
    (128, 28, 128, 3, 1),
    (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2),
    (256, 14, 1024, 1, 1),
    (512, 28, 1024, 1, 2),
    (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1),
    (1024, 14, 512, 1, 1),
    (512, 14, 512, 3, 2),
    (512, 7, 2048, 1, 1),
    (1024, 14, 2048, 1, 2),
    (2048, 7, 512, 1, 1),
    (512, 7, 512, 3, 1),
)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
PASSES = ("fprop", "dgrad", "wgrad")


def torch_backward(dout, x, weight, stride: int, padding: int, needs: tuple[bool, bool]):
    """cuDNN's own gradients, without autograd around them."""
    return torch.ops.aten.convolution_backward(
        dout,
        x,
        weight,
        None,
        [stride, stride],
        [padding, padding],
        [1, 1],
        False,
        [0, 0],
        1,
        [*needs, False],
    )


def contenders_of(layer: tuple[int, ...], batch: int, dtype, which: str) -> dict:
    """Calls of each, for two sets of buffers."""
    channels, size, filters, filter, stride = layer
    steps = {"stride": stride, "padding": filter // 2}
    needs = (which == "dgrad", which == "wgrad")
    result: dict[str, list] = {"torch": [], "attnpress": []}
    for _ in range(2):
        x, weight = (
            torch.randn(shape, device="cuda", dtype=dtype).contiguous(
                memory_format=torch.channels_last
            )
            for shape in ((batch, channels, size, size), (filters, channels, filter, filter))
        )
        dout = torch.randn_like(torch.nn.functional.conv2d(x, weight, **steps))
        if which == "fprop":
            result["torch"].append(lambda x=x, w=weight: torch.nn.functional.conv2d(x, w, **steps))
            result["attnpress"].append(lambda x=x, w=weight: cv.forward(x, w, **steps))
            continue
        result["torch"].append(
            lambda x=x, w=weight, d=dout: torch_backward(d, x, w, stride, filter // 2, needs)
        )
        result["attnpress"].append(
            lambda x=x, w=weight, d=dout: cv.backward(d, x, w, **steps, needs=(*needs, False))
        )
    return result


def graph_of(calls: list):
    """CALLS calls in turn, to be replayed."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # what is chosen or compiled on first use is so before
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            calls[i % len(calls)]()
    return graph.replay


def times_of(calls: dict, rounds: int, eager: bool) -> dict[str, float]:
    """Microseconds of a call of each."""
    if eager:
        return medians(calls, CALLS, rounds)
    found = medians({name: [graph_of(each)] for name, each in calls.items()}, 1, rounds)
    return {name: time / CALLS for name, time in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--short", action="store_true", help="geometric means alone")
    parser.add_argument("--eager", action="store_true", help="without graphs")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    print(f"{torch.cuda.get_device_name()}, cuDNN {torch.backends.cudnn.version()}")
    for which in options.passes:
        print(f"{which}: C size K filter stride   torch us  ours us TFLOP/s  ratio")
        ratios = []
        for layer in LAYERS:
            channels, size, filters, filter, stride = layer
            calls = contenders_of(layer, options.batch, DTYPES[options.dtype], which)
            t = times_of(calls, options.rounds, options.eager)
            ratios.append(t["torch"] / t["attnpress"])
            output = (size + 2 * (filter // 2) - filter) // stride + 1
            products = options.batch * output**2 * channels * filters * filter**2
            if not options.short:
                print(
                    f"{channels:6}{size:5}{filters:6}{filter:3}{stride:3}{t['torch']:14.1f}"
                    f"{t['attnpress']:9.1f}{2e-6 * products / t['attnpress']:8.0f}"
                    f"{ratios[-1]:7.2f}",
                    flush=True,
                )
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{which}: geometric mean {mean:.3f}, least {min(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
