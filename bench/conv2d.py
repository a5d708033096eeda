"""Convolutions beside cuDNN (PyTorch with channels_last and cudnn.benchmark), in one process:
`python bench/conv2d.py`, on a GPU, from the root of the repository.

Each line is a layer of ResNet-50, all but the first: microseconds of PyTorch and of attnpress,
medians of interleaved rounds, TFLOP/s of attnpress, and PyTorch's time over attnpress's. The last
line of a pass is the geometric mean over the layers, each once. fprop: the output; dgrad: dx alone;
wgrad: dweight alone. Two sets of buffers rotate. Both are captured in a CUDA graph of some calls,
since a call takes the GPU hardly longer than Python; with --eager they are not.

--choices times kernels of attnpress instead of its choice alone: each kind of copies and, of those
of the copy engine, each block and, of wgrad, some counts of splits. A line then has the fastest
ones, the ratio is the best one's, and the last line of a pass also has the geometric mean of what
each kind of copies chooses by itself: what the constants of runtime/conv2d/plan.c are to come
from."""

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
from bench.timing import device_name, graph_medians, medians

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
BLOCKS = (
    *((256, 128), (128, 256), (192, 128), (128, 192), (256, 64), (64, 256)),
    *((128, 128), (128, 64), (64, 128), (64, 64)),
)
SLAB = 64  # pixels that are added up at once
BEST = 5  # of a line
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


def choices_of(layer: tuple[int, ...], batch: int, which: str) -> dict[str, cv.Choice]:
    """Kernels that are worth a try, by a name."""
    channels, size, filters, filter, stride = layer
    output = (size + 2 * (filter // 2) - filter) // stride + 1
    columns = channels * (filter**2 if which == "wgrad" else 1) if which != "fprop" else filters
    found = {"gather": cv.Choice("gather"), "im2col": cv.Choice("im2col")}
    for block in BLOCKS:
        if block[1] > max(64, columns) or (which == "wgrad" and block[0] > max(64, filters)):
            continue
        splits = [0]
        if which == "wgrad":
            tiles = math.ceil(filters / block[0]) * math.ceil(columns / block[1])
            slabs = math.ceil(batch * output**2 / SLAB)
            wave = max(1, torch.cuda.get_device_properties(0).multi_processor_count // tiles)
            splits = sorted({max(1, min(n * wave, slabs // 4)) for n in (1, 2, 3, 4, 6)})
        for n in splits:
            name = f"{block[0]}x{block[1]}" + (f"/{n}" if n else "")
            found[name] = cv.Choice("im2col", block, n)
    return found


def contenders_of(
    layer: tuple[int, ...], batch: int, dtype, which: str, choices: dict[str, cv.Choice]
) -> dict:
    """Calls of each, for two sets of buffers."""
    channels, size, filters, filter, stride = layer
    steps = {"stride": stride, "padding": filter // 2}
    needs = (which == "dgrad", which == "wgrad")
    result: dict[str, list] = {"torch": [], **{name: [] for name in choices}}
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
            for name, choice in choices.items():
                result[name].append(
                    lambda x=x, w=weight, c=choice: cv.forward(x, w, **steps, choice=c)
                )
            continue
        result["torch"].append(
            lambda x=x, w=weight, d=dout: torch_backward(d, x, w, stride, filter // 2, needs)
        )
        for name, choice in choices.items():
            result[name].append(
                lambda x=x, w=weight, d=dout, c=choice: cv.backward(
                    d, x, w, **steps, needs=(*needs, False), choice=c
                )
            )
    return result


def times_of(calls: dict, rounds: int, eager: bool) -> dict[str, float]:
    """Microseconds of a call of each."""
    if eager:
        return medians(calls, CALLS, rounds)
    return graph_medians(calls, CALLS, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--passes", nargs="+", choices=PASSES, default=PASSES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--short", action="store_true", help="geometric means alone")
    parser.add_argument("--eager", action="store_true", help="without graphs")
    parser.add_argument("--choices", action="store_true", help="each kernel that may be chosen")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    print(f"{device_name()}, cuDNN {torch.backends.cudnn.version()}")
    for which in options.passes:
        print(f"{which}: C size K filter stride   torch us  ours us TFLOP/s  ratio")
        ratios: dict[str, list[float]] = {}
        for layer in LAYERS:
            channels, size, filters, filter, stride = layer
            choices = {"attnpress": cv.Choice()}
            if options.choices:
                choices = choices_of(layer, options.batch, which)
            dtype = DTYPES[options.dtype]
            calls = contenders_of(layer, options.batch, dtype, which, choices)
            t = times_of(calls, options.rounds, options.eager)
            order = sorted(choices, key=t.__getitem__)
            best = t[order[0]]
            for name in ("best", *(n for n in ("gather", "im2col") if n in t)):
                ratios.setdefault(name, []).append(t["torch"] / t.get(name, best))
            output = (size + 2 * (filter // 2) - filter) // stride + 1
            products = options.batch * output**2 * channels * filters * filter**2
            if not options.short:
                more = "".join(f"  {name} {t[name]:.1f}" for name in order[:BEST])
                print(
                    f"{channels:6}{size:5}{filters:6}{filter:3}{stride:3}{t['torch']:14.1f}"
                    f"{best:9.1f}{2e-6 * products / best:8.0f}"
                    f"{t['torch'] / best:7.2f}{more if options.choices else ''}",
                    flush=True,
                )
        for name, values in ratios.items():
            mean = math.exp(sum(map(math.log, values)) / len(values))
            what = f", {name}" if options.choices else ""
            print(f"{which}{what}: geometric mean {mean:.3f}, least {min(values):.2f}", flush=True)


if __name__ == "__main__":
    main()
