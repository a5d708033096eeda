"""Layer norm and RMS norm beside PyTorch and a copy of the same bytes, in one process:
`python bench/layernorm.py`, on a GPU, from the root of the repository.

Each line is a shape: TB/s of a device-to-device copy, of PyTorch and of attnpress, and attnpress
over the other two. Bytes are those that a call has to move, over the median of interleaved rounds:
x and y, with --residual the residual and the sum, too, or x, dy and dx, and the moments of each
row, which forward writes and backward reads, four bytes each: mean and rstd, of RMS norm rstd
alone. Of 65 columns of 16 bits they are 3%. A copy
moves x and y. "rows" is attnpress over the copy without them: forward, the copy's time over ours.
Buffers rotate, so that a tensor of 64 MB does not stay in the L2 cache. PyTorch and attnpress
replay CUDA graphs of some calls: no host is too slow for their kernels. Copies are called."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

from attnpress import layernorm as ln
from bench.timing import device_name, graph_medians

COLUMNS = (64, 100, 128, 256, 768, 1000, 1024, 2048, 4096, 5000, 8192, 12288, 16384, 32768, 65536)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
EPS = 1e-5
MOMENT_BYTES = 4  # of a row's mean, and of its rstd


def theirs_forward(x, weight, bias, rms: bool):
    if rms:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, EPS)
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, EPS)


def theirs_backward(x, dy, weight, bias, rms: bool):
    """A call of PyTorch's own backward function, alone."""
    if rms:
        _, rstd = torch.ops.aten._fused_rms_norm(x, x.shape[-1:], weight, EPS)
        function = torch.ops.aten._fused_rms_norm_backward
        return lambda: function(dy, x, x.shape[-1:], rstd, weight, [True, True])
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, x.shape[-1:], weight, bias, EPS)
    function = torch.ops.aten.native_layer_norm_backward
    return lambda: function(dy, x, x.shape[-1:], mean, rstd, weight, bias, [True] * 3)


@dataclass(frozen=True)
class Kind:
    """What is called: which pass, and of forward how its matrices lie."""

    backward: bool
    rms: bool
    residual: bool = False
    in_place: bool = False
    gap: int = 0  # columns between rows
    x_gap: int = 0  # the same, of x alone: a slice of a wider matrix, and a new y


def matrix(rows: int, columns: int, gap: int, dtype):
    """Random values, with so many columns between rows."""
    return torch.randn(rows, columns + gap, device="cuda", dtype=dtype)[:, :columns]


def contenders_of(rows: int, columns: int, dtype, param_dtype, kind: Kind, sets: int):
    """Calls of each, for each set of buffers."""
    backward, rms = kind.backward, kind.rms
    result: dict[str, list] = {"copy": [], "torch": [], "attnpress": []}
    weight, bias = (torch.randn(columns, device="cuda").to(param_dtype) for _ in range(2))
    own_weight, own_bias = weight.to(dtype), bias.to(dtype)
    bias = None if rms else bias
    needs = (True, True, not rms)
    for _ in range(sets):
        x = matrix(rows, columns, kind.gap or kind.x_gap, dtype)
        dy, out = (matrix(rows, columns, kind.gap, dtype) for _ in range(2))
        # A copy of rows without gaps.
        gaps = kind.gap or kind.x_gap
        whole = [matrix(rows, columns, 0, dtype) for _ in range(2)] if gaps else [x, out]
        result["copy"].append(lambda whole=whole: whole[1].copy_(whole[0]))
        if backward:
            _, _, mean, rstd = ln.forward(x, weight, bias, EPS, rms=rms)
            result["attnpress"].append(
                lambda x=x, dy=dy, mean=mean, rstd=rstd: ln.backward(
                    dy, x, rstd, mean, weight, None, needs, rms
                )
            )
            result["torch"].append(theirs_backward(x, dy, own_weight, own_bias, rms))
        else:
            residual, y = dy if kind.residual else None, x if kind.in_place else out
            result["attnpress"].append(
                lambda x=x, r=residual, y=y: ln.forward(x, weight, bias, EPS, r, y, rms)
            )
            result["torch"].append(
                lambda x=x, r=residual: theirs_forward(
                    x if r is None else x + r, own_weight, own_bias, rms
                )
            )
    return result


def measure(columns: int, dtype, param_dtype, megabytes: int, kind: Kind, rounds: int):
    """TB/s of each, and of attnpress without moments: "rows"."""
    size = torch.tensor([], dtype=dtype).element_size()
    rows = max(1, megabytes * 2**20 // (size * columns))
    small = megabytes < 200
    contenders = contenders_of(rows, columns, dtype, param_dtype, kind, 4 if small else 2)
    times = graph_medians(contenders, 12 if small else 4, rounds, eager=["copy"])
    matrix_bytes = rows * columns * size
    row_bytes = matrix_bytes * (3 if kind.backward else 4 if kind.residual else 2)
    moment_bytes = rows * MOMENT_BYTES * (1 if kind.rms else 2)
    moved = {name: (row_bytes + moment_bytes) / time * 1e-6 for name, time in times.items()}
    moved["copy"] = matrix_bytes * 2 / times["copy"] * 1e-6
    moved["rows"] = row_bytes / times["attnpress"] * 1e-6
    return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--param-dtype", choices=DTYPES, help="of weight and bias (--dtypes)")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[64, 512], help="of a tensor")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--rms", action="store_true")
    parser.add_argument(
        "--residual", action="store_true", help="x + residual, written, too; forward"
    )
    parser.add_argument("--in-place", action="store_true", help="y over x; forward")
    parser.add_argument("--gap", type=int, default=0, help="columns between rows; forward")
    parser.add_argument("--x-gap", type=int, default=0, help="of x alone, a slice; forward")
    parser.add_argument("--rounds", type=int, default=9)
    o = parser.parse_args()
    what = f"{'RMS' if o.rms else 'layer'} norm, {'backward' if o.backward else 'forward'}"
    kind = Kind(o.backward, o.rms, o.residual, o.in_place, o.gap, o.x_gap)
    if o.backward and (o.residual or o.in_place or o.gap or o.x_gap):
        parser.error("--residual, --in-place, --gap and --x-gap are of the forward pass")
    if o.x_gap and (o.gap or o.in_place):
        parser.error("--x-gap is of x alone: without --gap and --in-place")
    print(f"{device_name()}, {what}")
    names = ("copy", "torch", "ours")
    print(
        f"{'dtype':6}{'columns':>8}{'MB':>5}", *(f"{n:>6}" for n in names), "of copy  rows of torch"
    )
    for megabytes in o.megabytes:
        for name in o.dtypes:
            for columns in o.columns:
                dtype, param_dtype = DTYPES[name], DTYPES[o.param_dtype or name]
                r = measure(columns, dtype, param_dtype, megabytes, kind, o.rounds)
                print(
                    f"{name:6}{columns:8}{megabytes:5}{r['copy']:7.2f}{r['torch']:7.2f}"
                    f"{r['attnpress']:7.2f}{r['attnpress'] / r['copy']:9.3f}"
                    f"{r['rows'] / r['copy']:6.3f}"
                    f"{r['attnpress'] / r['torch']:10.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
