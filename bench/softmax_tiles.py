#!/usr/bin/env python3
"""Tiles of softmax's kernels beside each other, a copy and PyTorch, in one process.

    python bench/softmax_tiles.py --cols 1024 --dtypes fp16           every legal tile, forward
    python bench/softmax_tiles.py --cols 24576 32768 --passes bwd --tiles w16t512s2 w32t1024s1a
    python bench/softmax_tiles.py --cols 128 --list                   what compiles; needs no GPU

A kernel takes several numbers of columns: the most, some in the middle that is odd, and the least
are timed, unless --columns names them. Tiles that spill are skipped, and those that are wrong
are said to be. Each case gives the rate of a copy and, as parts of it, PyTorch's and the best
tiles'; in the end come the tiles of each kernel by the geometric mean over its cases. A good one is
written into generator/softmax/tiles.toml by hand."""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import BenchError
from bench.kernels import Device, LoadedKernel
from bench.tune import Press
from generator import GeneratorError
from generator.family import family_of
from generator.softmax import rules
from generator.tiles import Tile, make_tile, parse_tile, problems, sized, tile_of
from generator.variant import Variant, make_variant

FAMILY = family_of("softmax")
COLS = list(FAMILY.axis("cols").domain[:-1])  # rows that are read twice have no choice
SHOWN = 6  # best tiles of a case


class ForwardArgs(ctypes.Structure):
    """attnpress_softmax_fwd_args"""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("x", "y")),
        *((name, ctypes.c_int64) for name in ("rows", "x_row_stride", "y_row_stride")),
        ("columns", ctypes.c_int32),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("rows_ahead", "reserved")),
    ]


class BackwardArgs(ctypes.Structure):
    """attnpress_softmax_bwd_args"""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("y", "dy", "dx")),
        *(
            (name, ctypes.c_int64)
            for name in ("rows", "y_row_stride", "dy_row_stride", "dx_row_stride")
        ),
        ("columns", ctypes.c_int32),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("rows_ahead", "reserved")),
    ]


@dataclass
class Kernel:
    """A kernel with one tile, on the GPU."""

    tile: Tile
    registers: int
    loaded: LoadedKernel
    backward: bool

    def call(self, tensors: Sequence, sms: int, stream: int):
        """A launch over x, y or y, dy, dx, to be called often."""
        rows, columns = tensors[0].shape
        kind = BackwardArgs if self.backward else ForwardArgs
        args = kind(
            *(t.data_ptr() for t in tensors),
            rows,
            *(t.stride(0) for t in tensors),
            columns,
            1.0,
            sms,
            0,
        )
        cluster = rules.cluster(self.tile)
        block_rows = max(self.tile.threads // self.tile.row_threads, 1) * self.tile.rows
        blocks = -(-rows // block_rows) * cluster
        return lambda: self.loaded.launch(blocks, self.tile.threads, args, stream, cluster)


# ---- Candidates ----------------------------------------------------------------------------------


def all_tiles(variant: Variant, target: str | None = None) -> Iterator[Tile]:
    """Every legal one, except for equal occupancies said in several ways."""
    backward = variant["pass"] == "bwd"
    for warps, threads, rows, in_shared, held, ahead, packed, blocks in itertools.product(
        (4, 8, 16, 32),
        (4, 8, 16, 32, 64, 128, 256, 512, 1024),
        (1, 2, 4),
        range(3 if backward else 2),
        (0, 2, 4, 6, 8),
        (0, 1),
        (0, 1),
        (0, 2, 3, 4, 6),
    ):
        tile = make_tile(
            FAMILY,
            warps=warps,
            row_threads=threads,
            rows=rows,
            in_shared=in_shared,
            held=held,
            ahead=ahead,
            packed=packed,
            blocks=blocks,
        )
        if threads > 32 and warps != max(threads // 32, 4) and (threads < 512 or backward):
            continue  # rows of several warps are one a block, but the shortest, and a cluster's
        if warps > max(threads // 32, 8):
            continue
        if threads <= 32 and (warps > 8 or blocks):
            continue
        if ahead and threads < 256:
            continue
        tile = sized(variant, tile)
        if not problems(variant, tile, target):
            yield tile


def candidates(variant: Variant, names: Sequence[str], target: str | None = None) -> list[Tile]:
    """The present tile first."""
    tiles = [tile_of(variant, target=target)]
    named = [parse_tile(name, variant) for name in names]
    for tile in named or all_tiles(variant, target):
        if not problems(variant, tile, target) and tile not in tiles:
            tiles.append(tile)
    return tiles


def columns_of(variant: Variant) -> list[int]:
    """The most columns except at the edges, an odd number in the middle, the least."""
    place = COLS.index(variant.cols)
    vector = 4 if variant.dtype == "fp32" else 8
    least = COLS[place - 1] + vector if place else 1
    return [variant.cols, (least + variant.cols) // 2 | 1, least]


# ---- Checking and timing -------------------------------------------------------------------------


class Bench(Device):
    """Checks and times kernels."""

    def __init__(self, rounds: int) -> None:
        from bench import softmax

        super().__init__()
        self.softmax, self.rounds = softmax, rounds

    def wrong(self, kernel: Kernel, variant: Variant, columns: int) -> bool:
        """Whether it differs from float64 by more than twice what rounding alone does."""
        torch = self.torch
        dtype = self.softmax.DTYPES[variant.dtype]
        tensors = self.softmax.tensors(3 if kernel.backward else 2, 37, columns, columns + 1, dtype)
        if kernel.backward:
            tensors[0].copy_(torch.softmax(tensors[0].float(), -1))
        tensors[-1].fill_(math.nan)
        kernel.call(tensors, self.sms, self.stream)()

        def reference(kind):
            if not kernel.backward:
                return torch.softmax(tensors[0].to(kind), -1)
            y, dy = tensors[0].to(kind), tensors[1].to(kind)
            return y * (dy - (y * dy).sum(-1, keepdim=True))

        exact = reference(torch.float64)
        low = (reference(torch.float32).to(dtype).double() - exact).abs().max().item()
        error = (tensors[-1].double() - exact).abs().max().item()
        return not error <= 2 * low + 1e-5

    def case(
        self, kernels: dict[str, Kernel], variant: Variant, columns: int, megabytes: int, gap: int
    ) -> dict[str, float]:
        """Terabytes a second of a copy, of PyTorch and of each tile."""
        backward = variant["pass"] == "bwd"
        sets, flat, theirs = self.softmax.buffers(
            columns, self.softmax.DTYPES[variant.dtype], megabytes, backward, gap
        )
        contenders = {"copy": [lambda f=f: f[1].copy_(f[0]) for f in flat], "torch": theirs}
        for name, kernel in kernels.items():
            contenders[name] = [kernel.call(each, self.sms, self.stream) for each in sets]
        times = self.softmax.medians(contenders, 12 if megabytes < 200 else 4, self.rounds)
        each = sets[0][0].numel() * sets[0][0].element_size() * 1e-6
        moved = {name: (2 if name == "copy" or not backward else 3) * each for name in times}
        return {name: moved[name] / time for name, time in times.items()}


def show(label: str, rates: dict[str, float]) -> None:
    parts = {name: rate / rates["copy"] for name, rate in rates.items() if name != "copy"}
    torch = parts.pop("torch")
    best = sorted(parts, key=parts.get, reverse=True)[:SHOWN]
    print(
        f"{label} copy {rates['copy']:.2f} torch {torch:.3f} |",
        *(f"{name} {parts[name]:.3f}" for name in best),
        flush=True,
    )


def ranking(cases: list[dict[str, float]]) -> list[tuple[float, str]]:
    """Tiles by the geometric mean of their parts of the copy's rate."""
    tiles = [name for name in cases[0] if name not in ("copy", "torch")]
    means = {
        name: math.exp(sum(math.log(case[name] / case["copy"]) for case in cases) / len(cases))
        for name in tiles
    }
    return sorted(((mean, name) for name, mean in means.items()), reverse=True)


# ---- Command line --------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--cols", type=int, nargs="+", choices=COLS, default=COLS, help="kernels")
    p.add_argument("--passes", nargs="+", choices=("fwd", "bwd"), default=["fwd"])
    dtypes = ("fp16", "bf16", "fp32")
    p.add_argument("--dtypes", nargs="+", choices=dtypes, default=["fp16", "fp32"])
    p.add_argument("--tiles", nargs="+", default=[], help="these alone, and the present one")
    p.add_argument("--columns", type=int, nargs="+", help="that are timed")
    p.add_argument("--megabytes", type=int, nargs="+", default=[64, 512], help="of a tensor")
    p.add_argument("--gap", type=int, default=0, help="elements between rows")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--list", action="store_true", help="compile for sm_90, and print registers")
    p.add_argument("--json", type=Path, help="writes the rates there")
    return p


def press_tiles(press: Press, variant: Variant, names: Sequence[str], target: str) -> dict:
    tiles = candidates(variant, names, target)
    return press.clean(variant, tiles, target, time.monotonic() + 3600)


def measure(bench: Bench, press: Press, variant: Variant, o: argparse.Namespace) -> dict:
    kernels = {}
    for tile, compiled in press_tiles(press, variant, o.tiles, bench.target).items():
        loaded = bench.driver.load(variant.stem, compiled.cubin, tile.smem_bytes)
        backward = variant["pass"] == "bwd"
        kernel = Kernel(tile, compiled.registers, loaded, backward)
        if any(bench.wrong(kernel, variant, n) for n in columns_of(variant)):
            print(f"{variant.stem} {tile.name}: wrong")
            loaded.unload()
            continue
        kernels[tile.name] = kernel
    cases = {}
    for megabytes in o.megabytes:
        for columns in o.columns or columns_of(variant):
            rates = bench.case(kernels, variant, columns, megabytes, o.gap)
            show(f"{variant['pass']} {variant.dtype} {columns:6} {megabytes:4} MB", rates)
            cases[f"{columns}, {megabytes} MB"] = rates
    print(f"{variant.stem} (now {tile_of(variant, target=bench.target).name}):")
    for mean, name in ranking(list(cases.values()))[:SHOWN]:
        print(f"  {mean:.3f} {name}, {kernels[name].registers} registers", flush=True)
    for kernel in kernels.values():
        kernel.loaded.unload()
    return cases


def main(argv: Sequence[str] | None = None) -> int:
    o = parser().parse_args(argv)
    axes = itertools.product(o.passes, o.dtypes, o.cols)
    variants = [make_variant(FAMILY, **{"pass": p}, dtype=d, cols=c, arch=80) for p, d, c in axes]
    try:
        press = Press()
        if o.list:
            for variant in variants:
                for tile, compiled in press_tiles(press, variant, o.tiles, "sm_90").items():
                    print(f"{variant.stem} {tile.name}: {compiled.registers} registers")
            return 0
        bench = Bench(o.rounds)
        print(f"{bench.name}, {bench.sms} SMs")
        found = {variant.stem: measure(bench, press, variant, o) for variant in variants}
    except (BenchError, GeneratorError) as error:
        print(f"softmax_tiles.py: {error}", file=sys.stderr)
        return 2
    if o.json:
        o.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
