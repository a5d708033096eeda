"""Softmax beside PyTorch and a copy of the same bytes, in one process: `python bench/softmax.py`,
on a GPU, from the root of the repository.

Each line is a shape: TB/s of a device-to-device copy, of PyTorch and of attnpress (bytes read and
written over the median of interleaved rounds), and attnpress over the other two. Buffers rotate, so
that a tensor of 64 MB does not stay in the L2 cache."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

from attnpress import softmax as s
from bench.timing import device_name, medians

COLUMNS = (64, 100, 128, 257, 1000, 1024, 4096, 5000, 8192, 16384, 32768, 65536, 1 << 20)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def tensors(count: int, rows: int, columns: int, stride: int, dtype) -> list[torch.Tensor]:
    """Random ones, rows `stride` elements apart."""
    whole = [torch.randn(rows * stride, device="cuda").to(dtype) for _ in range(count)]
    return [torch.as_strided(each, (rows, columns), (stride, 1)) for each in whole]


def buffers(columns: int, dtype, megabytes: int, backward: bool, gap: int) -> tuple:
    """Sets of x, y or y, dy, dx; as many pairs without gaps, for copies; PyTorch's calls."""
    size = torch.tensor([], dtype=dtype).element_size()
    rows = max(1, megabytes * 2**20 // (size * columns))
    count = 3 if backward else 2
    sets = [
        tensors(count, rows, columns, columns + gap, dtype)
        for _ in range(4 if megabytes < 200 else 2)
    ]
    flat = [tensors(2, rows, columns, columns, dtype) for _ in sets]
    if backward:
        function = torch.ops.aten._softmax_backward_data
        theirs = [
            (lambda t=t: function.out(t[1], t[0], -1, dtype, grad_input=t[2]))
            if gap == 0
            else (lambda t=t: function(t[1], t[0], -1, dtype))
            for t in sets
        ]
    else:
        theirs = [
            (lambda t=t: torch.softmax(t[0], -1, out=t[1]))
            if gap == 0
            else (lambda t=t: torch.softmax(t[0], -1))
            for t in sets
        ]
    return sets, flat, theirs


def measure(columns: int, dtype, megabytes: int, backward: bool, gap: int, rounds: int) -> dict:
    sets, flat, theirs = buffers(columns, dtype, megabytes, backward, gap)
    if backward:
        ours = [lambda t=t: s.softmax_backward(t[0], t[1], out=t[2]) for t in sets]
    else:
        ours = [lambda t=t: s.softmax(t[0], out=t[1]) for t in sets]
    copies = [lambda f=f: f[1].copy_(f[0]) for f in flat]
    contenders = {"copy": copies, "torch": theirs, "attnpress": ours}
    times = medians(contenders, 12 if megabytes < 200 else 4, rounds)
    each = sets[0][0].numel() * sets[0][0].element_size()
    count = len(sets[0])
    bytes_ = {"copy": 2 * each, "torch": count * each, "attnpress": count * each}
    return {name: bytes_[name] / time * 1e-6 for name, time in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--columns", type=int, nargs="+", default=COLUMNS)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--megabytes", type=int, nargs="+", default=[64, 512], help="of a tensor")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--gap", type=int, default=0, help="elements between rows")
    parser.add_argument("--rounds", type=int, default=9)
    o = parser.parse_args()
    print(f"{device_name()}, {'backward' if o.backward else 'forward'}")
    names = ("copy", "torch", "ours")
    print(f"{'dtype':6}{'columns':>8}{'MB':>5}", *(f"{n:>6}" for n in names), "of copy of torch")
    for megabytes in o.megabytes:
        for name in o.dtypes:
            for columns in o.columns:
                r = measure(columns, DTYPES[name], megabytes, o.backward, o.gap, o.rounds)
                print(
                    f"{name:6}{columns:8}{megabytes:5}{r['copy']:7.2f}{r['torch']:7.2f}"
                    f"{r['attnpress']:7.2f}{r['attnpress'] / r['copy']:9.3f}"
                    f"{r['attnpress'] / r['torch']:10.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
