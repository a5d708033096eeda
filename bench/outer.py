"""The outer product beside PyTorch and a fill of the same bytes, in one process: `python
bench/outer.py`, on a GPU, from the root of the repository.

Each line is a shape: microseconds of a fill of c (forward: the bound of what is only written), of
torch.einsum and of attnpress, medians of interleaved rounds, and the other two over attnpress. Two
sets of buffers rotate. `--summed` sums over the batch, `--random N` takes N random shapes, and
`--graph` replays CUDA graphs: no host is too slow for short kernels."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

from attnpress import outer as o
from bench.timing import device_name, graph_medians, medians

SHAPES = ((32, 1024, 1024), (256, 1024, 1024), (8192, 128, 128), (64, 1000, 1000))
SUMS = ((1024, 1024, 1024), (6224, 475, 335), (155, 615, 620), (301, 17, 2504), (100000, 64, 64))
"""Where c is summed over the batch."""
MOST = 1 << 26
"""Products of a random shape; sums, which write few of them, have up to 64 times as many."""
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def random_shapes(count: int, seed: int, summed: bool) -> list[tuple[int, int, int]]:
    """Up to 8,192 entries of 4,096 rows and columns, equally often of each power of two."""
    draw = random.Random(seed)
    shapes: list[tuple[int, int, int]] = []
    while len(shapes) < count:
        batch, rows, columns = (int(2 ** draw.uniform(0, most)) for most in (13, 12, 12))
        if (1 << 16) <= batch * rows * columns <= MOST * (64 if summed else 1):
            shapes.append((batch, rows, columns))
    return shapes


def contenders_of(shape: tuple[int, int, int], dtype, summed: bool, backward: bool) -> dict:
    """Calls of each, for two sets of buffers."""
    batch, rows, columns = shape
    of_c = "ij" if summed else "nij"
    result: dict[str, list] = {"fill": [], "torch": [], "attnpress": []}
    for _ in range(2):
        x, y = (torch.randn(batch, n, device="cuda", dtype=dtype) for n in (rows, columns))
        c = torch.randn(*(() if summed else (batch,)), rows, columns, device="cuda", dtype=dtype)
        filled = torch.empty_like(c)
        result["fill"].append(lambda filled=filled: filled.fill_(1.0))
        if backward:
            result["torch"].append(
                lambda x=x, y=y, c=c: (
                    torch.einsum(f"{of_c},nj->ni", c, y),
                    torch.einsum(f"{of_c},ni->nj", c, x),
                )
            )
            result["attnpress"].append(lambda x=x, y=y, c=c: o.backward(c, x, y, summed))
        else:
            result["torch"].append(lambda x=x, y=y: torch.einsum(f"ni,nj->{of_c}", x, y))
            result["attnpress"].append(lambda x=x, y=y: o.forward(x, y, summed))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--shape", type=int, nargs=3, action="append", metavar=("N", "I", "J"))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["bf16", "fp32"])
    parser.add_argument("--summed", action="store_true")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--random", type=int, metavar="N", help="N random shapes, by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--graph", action="store_true", help="calls of CUDA graphs")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    shapes = options.shape or (SUMS if options.summed else SHAPES)
    if options.random:
        shapes = random_shapes(options.random, options.seed, options.summed)
    measured = graph_medians if options.graph else medians
    print(device_name())
    print("dtype  shape                 fill us torch us  ours us of fill of torch")
    for name in options.dtypes:
        for shape in shapes:
            calls = contenders_of(tuple(shape), DTYPES[name], options.summed, options.backward)
            t = measured(calls, 6, options.rounds)
            print(
                f"{name:6} {'x'.join(map(str, shape)):20}{t['fill']:9.1f}{t['torch']:9.1f}"
                f"{t['attnpress']:9.1f}{t['fill'] / t['attnpress']:8.3f}"
                f"{t['torch'] / t['attnpress']:9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
