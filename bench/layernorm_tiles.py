#!/usr/bin/env python3
"""Tiles of layer norm's kernels beside each other and a copy, in one process.

    python bench/layernorm_tiles.py --columns 100 1001 --tiles 128:w4t8b6c2 1024:w4t64b6c2
    python bench/layernorm_tiles.py --passes bwd --columns 1001 --tiles 1024:w4t64b4c2
    python bench/layernorm_tiles.py --columns 1024 --tiles 1024:w4t128b8ah
    python bench/layernorm_tiles.py --rings --columns 2001 --tiles 2048:w16t64c4
    python bench/layernorm_tiles.py --pairs --columns 101 --tiles 128:w4t2b8c1pn32
    python bench/layernorm_tiles.py --columns 32768 --tiles 32768:w8t2048b4c4

A tile stands behind the most columns of its kernel; one with more threads of a row than a block has
is a cluster's. A row of a number of columns takes the kernels with room for it, of odd rows or of
aligned ones, as the library would, and of a cluster; each is timed with the present tile and with
those that are named. Tiles that spill are skipped, and those that are wrong are said to be. Kernels
overlap as the library's do, the backward pass without what adds up dweight and dbias. A good tile
is written into generator/layernorm/tiles.toml by hand."""

from __future__ import annotations

import argparse
import ctypes
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import BenchError
from bench.kernels import Device, LoadedKernel
from bench.tune import Press
from generator import GeneratorError
from generator.family import family_of
from generator.layernorm import rules
from generator.tiles import Tile, parse_tile, problems, tile_of
from generator.variant import Variant, VariantError, make_variant

FAMILY = family_of("layernorm")
RING_ARCH = 90
SHORT_COLS_MIN = 32  # of the first class of short rows, forward
ODD_EDGES = 7  # columns that an odd row may have beyond those of its kernel
MULTIPLE_MAX = 4  # of as many thread blocks as there is room for
PITCH = 4  # columns that parts of the sums of sorted rows are multiples of
ODD_PERIOD = 8  # rows so far apart begin at the same element of a vector
SM_GROUPS_MAX, GROUP_SMS_MIN, SM_PAIR = 8, 8, 2  # clusters lie within groups of SMs
EPS = 1e-5
CHECKED_ELEMENTS = 2**24


class ForwardArgs(ctypes.Structure):
    """attnpress_layernorm_fwd_args"""

    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("x", "residual", "weight", "bias", "y", "sum", "mean", "rstd")
        ),
        ("rows", ctypes.c_int64),
        *((f"{name}_row_stride", ctypes.c_int64) for name in ("x", "residual", "y", "sum")),
        ("columns", ctypes.c_int32),
        ("eps", ctypes.c_float),
        ("per_column", ctypes.c_float),
        ("cluster", ctypes.c_int32),
        ("told", ctypes.c_void_p),
    ]


class BackwardArgs(ctypes.Structure):
    """attnpress_layernorm_bwd_args"""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("x", "dy", "weight", "dsum", "mean", "rstd", "dx")),
        *((name, ctypes.c_void_p) for name in ("weight_parts", "bias_parts")),
        ("rows", ctypes.c_int64),
        *((f"{name}_row_stride", ctypes.c_int64) for name in ("x", "dy", "dsum", "dx")),
        ("columns", ctypes.c_int32),
        ("per_column", ctypes.c_float),
        ("parts", ctypes.c_int32),
        ("gang", ctypes.c_int32),
        ("told", ctypes.c_void_p),
        ("whole", ctypes.c_int32),
        ("pitch", ctypes.c_int32),
    ]


@dataclass
class Call:
    """Rows of x and dy, and what a kernel makes of them: y or dx, and the parts of the sums."""

    x: object
    dy: object
    out: object
    weight: object
    bias: object
    mean: object
    rstd: object
    parts: object  # (2, blocks times a part's columns)


def walkers(variant: Variant, tile: Tile, rows: int, columns: int, sms: int) -> int:
    """Thread blocks, or clusters, as runtime/layernorm/plan.c."""
    cluster = rules.cluster(tile)
    groups = max(cluster * rules.threads(tile) // tile.row_threads, 1)
    blocks = sms * tile.blocks
    if cluster > 1:
        sm_groups = min(SM_GROUPS_MAX, sms // GROUP_SMS_MIN)
        blocks = max((sms - sm_groups * (cluster - SM_PAIR)) // cluster, 1) * tile.blocks
    if rules.is_odd(variant) or variant.rows == "cut":
        multiple = -(-ODD_PERIOD // groups)
        blocks = max(blocks // multiple, 1) * multiple
    if rules.is_sorted(variant):  # as many of each class of rows, which lie one after the other
        classes = ODD_PERIOD // math.gcd(columns, ODD_PERIOD)
        steps = -(-rows // (classes * groups))
        return classes * max(min(steps, blocks // classes), 1)
    steps, multiple = -(-rows // groups), 1
    if rules.is_pairs(variant) or rules.is_pieces(variant):
        return -(-rows // (rules.teams(tile) * tile.piece))
    if rules.is_straight(variant):
        return steps
    if tile.rounds:
        multiple = max(min(steps // (blocks * tile.rounds), MULTIPLE_MAX), 1)
    if cluster > 1 and variant.dtype == "fp32" and columns % 4 != 0 and blocks >= 4:
        blocks = blocks // 4 * 4
    return min(steps, blocks * multiple)


def parts_of(variant: Variant, tile: Tile, walkers: int) -> int:
    """Parts of the sums."""
    shared = variant.rows == "odd" and rules.is_shared(variant)
    return walkers + (ODD_PERIOD - 1 if shared else 0)


def pitch_of(variant: Variant, columns: int) -> int:
    """Columns from one part of the sums to the next."""
    return -(-columns // PITCH) * PITCH if rules.is_sorted(variant) else columns


def launch(variant: Variant, tile: Tile, loaded: LoadedKernel, c: Call, sms: int, stream: int):
    """A launch, to be called often."""
    rows, columns = c.x.shape
    stride, count = c.x.stride(0), walkers(variant, tile, rows, columns, sms)
    tensors = (c.x, c.weight, c.bias, c.out, c.mean, c.rstd, c.dy)
    x, weight, bias, out, mean, rstd, dy = (t.data_ptr() for t in tensors)
    if variant["pass"] == "fwd":
        strides = (stride, 0, stride, 0)
        args = ForwardArgs(
            x, None, weight, bias, out, None, mean, rstd, rows, *strides, columns, EPS,
            1.0 / columns, 0,
        )  # fmt: skip
    else:
        parts = [part.data_ptr() for part in c.parts]
        strides = (stride, stride, 0, stride)
        args = BackwardArgs(
            x, dy, weight, None, mean, rstd, out, *parts, rows, *strides, columns, 1.0 / columns,
            parts_of(variant, tile, count), pitch_of(variant, columns),
        )  # fmt: skip
    cluster = rules.cluster(tile)
    blocks = count * cluster
    threads = rules.threads(tile)
    return lambda: loaded.launch(blocks, threads, args, stream, cluster, overlaps=True)


class Bench(Device):
    """Checks and times kernels."""

    def __init__(self, rounds: int) -> None:
        from bench.timing import medians

        super().__init__()
        self.medians, self.rounds = medians, rounds
        torch = self.torch
        self.dtypes = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}

    def call(self, rows: int, columns: int, dtype: str) -> Call:
        torch = self.torch
        x, dy = (
            torch.randn(rows, columns, device="cuda", dtype=self.dtypes[dtype]) for _ in range(2)
        )
        weight, bias = (torch.randn(columns, device="cuda").to(x.dtype) for _ in range(2))
        mean = x.float().mean(-1)
        rstd = (x.float().var(-1, correction=0) + EPS).rsqrt()
        walkers_most = self.sms * (32 if columns <= 8192 else 4)
        parts = torch.zeros(2, walkers_most * (columns + PITCH), device="cuda")
        return Call(x, dy, torch.full_like(x, float("nan")), weight, bias, mean, rstd, parts)

    def wrong(self, variant: Variant, tile: Tile, loaded: LoadedKernel, columns: int) -> bool:
        """Whether y, or dx and the sums, are no layer norm's."""
        torch = self.torch
        c = self.call(min(5000, CHECKED_ELEMENTS // columns), columns, variant.dtype)
        launch(variant, tile, loaded, c, self.sms, self.stream)()
        x, dy, weight, bias = (t.double() for t in (c.x, c.dy, c.weight, c.bias))
        hat = (x - x.mean(-1, keepdim=True)) * (x.var(-1, correction=0, keepdim=True) + EPS).rsqrt()
        pairs = [(c.out, hat * weight + bias)]
        if variant["pass"] == "bwd":
            g = dy * weight
            dx = g - g.mean(-1, keepdim=True) - hat * (g * hat).mean(-1, keepdim=True)
            pitch = pitch_of(variant, columns)
            rows = c.parts.shape[1] // pitch
            sums = c.parts[:, : rows * pitch].view(2, rows, pitch)[:, :, :columns].double().sum(1)
            pairs = [
                (c.out, dx * c.rstd.double()[:, None]),
                (sums[0], (dy * hat).sum(0)),
                (sums[1], dy.sum(0)),
            ]
        if variant["norm"] == "rms" and variant["pass"] == "fwd":
            scale = (x.square().mean(-1, keepdim=True) + EPS).rsqrt()
            pairs = [(c.out, x * scale * weight + bias)]
        return any(
            not torch.allclose(ours.double(), exact, rtol=2e-2, atol=2e-2 * exact.std().item())
            for ours, exact in pairs
        )

    def rates(
        self, pass_: str, dtype: str, kernels: dict, columns: int, megabytes: int
    ) -> dict[str, float]:
        """Terabytes a second of a copy and of each tile."""
        size = self.torch.tensor([], dtype=self.dtypes[dtype]).element_size()
        rows = max(1, megabytes * 2**20 // (size * columns))
        small = megabytes < 200
        calls = [self.call(rows, columns, dtype) for _ in range(4 if small else 2)]
        contenders = {"copy": [lambda c=c: c.out.copy_(c.x) for c in calls]}
        for name, (variant, tile, loaded) in kernels.items():
            contenders[name] = [
                launch(variant, tile, loaded, c, self.sms, self.stream) for c in calls
            ]
        times = self.medians(contenders, 12 if small else 4, self.rounds)
        each = rows * columns * size * 1e-6
        moved = {name: 2 if name == "copy" or pass_ == "fwd" else 3 for name in times}
        return {name: moved[name] * each / time for name, time in times.items()}


def variants_of(
    pass_: str,
    norm: str,
    dtype: str,
    columns: int,
    rings: bool,
    direct: bool = False,
    pairs: bool = False,
) -> list[Variant]:
    """The kernel that the library takes for rows one after the other, and the one of a cluster; or
    the one whose warps have rings, that which reads rows straight into registers, or that of short
    rows which come as pieces."""
    found = []
    if rings or direct or pairs:
        axes = {"pass": pass_, "norm": norm, "dtype": dtype, "params": dtype, "arch": RING_ARCH}
        elements = 4 if dtype == "fp32" else 8
        rows, edges = ("cut", elements - 1) if columns % elements else ("bulk", 0)
        if direct:
            rows, edges = ("direct", elements - 1) if columns % elements else ("whole", 0)
        if pairs:
            rows, edges = "pairs" if columns % elements else "pieces", 0
        for cols in FAMILY.axis("cols").domain[:-1]:
            if cols >= columns + edges and not found:
                try:
                    found.append(make_variant(FAMILY, rows=rows, cols=cols, **axes))
                except VariantError:
                    # Takes no rows of the class below; there is none of fewer columns.
                    if (direct or pairs) and cols >= SHORT_COLS_MIN:
                        break
                    continue
        if not found:
            kernel = "direct kernel holds" if direct else "rings hold"
            kernel = "kernel of pairs holds" if pairs else kernel
            raise BenchError(f"no {kernel} rows of {columns} columns")
        return found
    for arch in FAMILY.axis("arch").domain:
        axes = {"pass": pass_, "norm": norm, "dtype": dtype, "params": dtype, "arch": arch}
        odd = columns % 8 != 0 if dtype != "fp32" else columns % 4 != 0 and pass_ == "bwd"
        for rows in ("odd", "sorted") if odd else ("aligned",):
            variant = first_variant(columns, rows, axes)
            found += [] if variant is None or variant in found else [variant]
    if not found:
        raise BenchError(f"no kernel holds rows of {columns} columns")
    return found


def first_variant(columns: int, rows: str, axes: dict) -> Variant | None:
    """That with the least columns; of odd rows an aligned one, if there is no other."""
    odd_edges = 0 if axes["dtype"] == "fp32" else ODD_EDGES
    kinds = {"odd": (("odd", odd_edges), ("aligned", 0)), "sorted": (("sorted", -ODD_EDGES),)}
    for kind, edges in kinds.get(rows, (("aligned", 0),)):
        for cols in FAMILY.axis("cols").domain[:-1]:
            if cols + edges < columns:
                continue
            try:
                variant = make_variant(FAMILY, rows=kind, cols=cols, **axes)
            except VariantError:
                continue
            # A cluster's threads have what lies beside the vectors as vectors.
            if kind != "odd" or not rules.is_shared(variant) or columns + edges <= cols:
                return variant
    return None


def tiles_of(variant: Variant, names: Sequence[str], target: str) -> list[Tile]:
    """The present tile, and those of `names` that are for the kernel."""
    tiles = [tile_of(variant, target=target)]
    for name in names:
        cols, text = name.split(":")
        tile = parse_tile(text, variant)
        of_cluster = rules.cluster(tile) > 1
        fits = of_cluster == rules.is_shared(variant)
        fits = fits or rules.is_bulk(variant) or rules.is_sorted(variant)
        if int(cols) == variant.cols and fits:
            tiles.append(tile)
    return tiles


def load_tiles(bench: Bench, press: Press, variant: Variant, names: Sequence[str]) -> dict:
    """The tiles of a kernel, by their names: each with its variant and the loaded kernel."""
    tiles, loaded = [], {}
    for tile in tiles_of(variant, names, bench.target):
        flaws = problems(variant, tile, bench.target)
        if flaws:
            print(f"{variant.stem} {tile.name}: {flaws[0]}")
        elif tile not in tiles:
            tiles.append(tile)
    clean = press.clean(variant, tiles, bench.target, time.monotonic() + 3600)
    for tile in tiles:
        if tile in clean:
            kernel = bench.driver.load(variant.stem, clean[tile].cubin, tile.smem_bytes)
            loaded[tile.name] = (variant, tile, kernel)
        else:
            flaw = press.compile(variant, tile, bench.target)
            print(f"{variant.stem} {tile.name}: {flaw if isinstance(flaw, str) else flaw.flaw}")
    return loaded


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--columns", type=int, nargs="+", required=True, help="that are timed")
    p.add_argument("--tiles", nargs="+", default=[], metavar="COLS:TILE", help="beside the present")
    p.add_argument("--passes", nargs="+", choices=("fwd", "bwd"), default=["fwd"])
    p.add_argument("--dtypes", nargs="+", choices=("fp16", "bf16", "fp32"), default=["bf16"])
    p.add_argument("--norm", choices=("layer", "rms"), default="layer")
    p.add_argument("--rings", action="store_true", help="kernels whose warps have rings")
    p.add_argument("--direct", action="store_true", help="kernels that read rows into registers")
    p.add_argument("--pairs", action="store_true", help="kernels of short rows that come as pieces")
    p.add_argument("--megabytes", type=int, nargs="+", default=[64, 512], help="of a tensor")
    p.add_argument("--rounds", type=int, default=5)
    o = p.parse_args(argv)
    try:
        press, bench = Press(), Bench(o.rounds)
        print(f"{bench.name}, {bench.sms} SMs; parts of a copy's rate")
        for pass_, dtype, columns in (
            (p, d, c) for p in o.passes for d in o.dtypes for c in o.columns
        ):
            kernels = {}
            for variant in variants_of(pass_, o.norm, dtype, columns, o.rings, o.direct, o.pairs):
                kernels |= load_tiles(bench, press, variant, o.tiles)
            for name in [n for n, k in kernels.items() if bench.wrong(*k, columns)]:
                print(f"{pass_} {dtype} {name}: wrong at {columns} columns")
                del kernels[name]
            for megabytes in o.megabytes:
                rates = bench.rates(pass_, dtype, kernels, columns, megabytes)
                parts = (f"{n} {r / rates['copy']:.3f}" for n, r in rates.items() if n != "copy")
                print(
                    f"{pass_} {dtype} {columns:6} {megabytes:4} MB copy {rates['copy']:.2f} |",
                    *parts,
                    flush=True,
                )
            for _, _, kernel in kernels.values():
                kernel.unload()
    except (BenchError, GeneratorError) as error:
        print(f"layernorm_tiles.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
