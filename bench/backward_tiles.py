#!/usr/bin/env python3
"""Tiles of the backward kernel of compute capability 9.0 beside each other, in one process.

    python bench/backward_tiles.py --dims 64 96         every legal tile, full and causal
    python bench/backward_tiles.py --dims 64 --tiles m64n128s2d4kv --seqlens 1024 4096
    python bench/backward_tiles.py --dims 64 --list     what compiles; needs no GPU

Tiles that spill, or on which the compiler remarks that products wait for each other, are left out.
Each is run once between the kernels before and after it, and its gradients are held to twice the
error of the plain algorithm against float64. Then the main kernel alone is timed, in turns: its
TFLOP/s, of 2.5 times the forward pass's operations, and the same as a part of the present tile's. A
good tile is written into generator/attention/tiles.toml by hand."""

from __future__ import annotations

import argparse
import ctypes
import functools
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import BenchError
from bench.kernels import (
    LOG2_E,
    Compiled,
    Driver,
    LoadedKernel,
    ScoreArgs,
    TensorMap,
    view_keys,
)
from bench.tune import Press
from generator import GeneratorError
from generator.attention.rules import make_variant, producer_tile
from generator.tiles import Tile, parse_tile, problems, tile_of
from generator.variant import Variant

TARGET, PLAIN_TARGET = "sm_90a", "sm_90"  # of the main kernel, and of those before and after
PADDED_ROWS = 128  # of lse, delta and the sum of dQ
TILE_ROWS = 16
TENSORS = ("q", "k", "v", "out", "dout", "dq", "dk", "dv")
STAGES, KEYS = (2, 3, 4), (64, 80, 96, 128)  # to try
TOKENS, WIDTH = 16384, 2048  # of a batch; heads * head dim


class BackwardArgs(ctypes.Structure):
    """attnpress_bwd_args"""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in (*TENSORS, "lse", "dlse")),
        *((name, ctypes.c_void_p) for name in ("lse_log2", "delta", "dq_sum")),
        *(
            (f"{tensor}_{dim}_stride", ctypes.c_int64)
            for tensor in TENSORS
            for dim in ("batch", "row", "head")
        ),
        *(
            (f"{rows}_{dim}_stride", ctypes.c_int64)
            for rows in ("lse", "dlse")
            for dim in ("batch", "head")
        ),
        *(
            (name, ctypes.c_int32)
            for name in (
                "batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k", "row_tiles", "blocks",
                "accumulate", "dq_sum_quads",
            )
        ),
        *((name, ctypes.c_float) for name in ("scale", "scale_log2")),
        ("sum_tiles", ctypes.c_int32),
        ("dsinks", ctypes.c_void_p),
        ("score", ScoreArgs),
        ("dk_sum", ctypes.c_void_p),
        ("dv_sum", ctypes.c_void_p),
        ("key_tiles", ctypes.c_int32),
        ("group_parts", ctypes.c_int32),
        ("sum_parts", ctypes.c_int32),  # abreast, too
        ("zero_ahead", ctypes.c_int32),
        ("dq_zeroed", ctypes.c_void_p),
        ("taken", ctypes.c_void_p),
    ]  # fmt: skip


class BackwardSm90Args(ctypes.Structure):
    """attnpress_bwd_sm90_args"""

    _fields_ = [
        *((name, TensorMap) for name in ("q", "dout", "k", "v")),
        ("bwd", BackwardArgs),
        ("padding", ctypes.c_uint8 * (-ctypes.sizeof(BackwardArgs) % 64)),  # tensor maps' alignment
    ]


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


# ---- Candidates ----------------------------------------------------------------------------------


def candidates(variant: Variant, names: Sequence[str] = ()) -> list[Tile]:
    """The present tile, then those of these names or, without any, all that are legal."""
    tiles = [tile_of(variant)]
    others = [parse_tile(name, variant) for name in names] or [
        producer_tile(variant, 64, *fields)
        for fields in itertools.product(KEYS, STAGES, (0, 4), (0, 1), (0, 1))
    ]
    for tile in others:
        found = problems(variant, tile)
        if names and found:
            raise BenchError(f"{tile.name} is not legal for {variant.stem}: {found[0]}")
        if not found and tile not in tiles:
            tiles.append(tile)
    return tiles


def clean(press: Press, variant: Variant, names: Sequence[str]) -> dict[Tile, Compiled]:
    """The candidates that compile without a flaw."""
    deadline = time.monotonic() + 3600
    return press.clean(variant, candidates(variant, names), TARGET, deadline)


# ---- A call --------------------------------------------------------------------------------------


@dataclass
class Kernel:
    """A kernel with one tile, on the GPU."""

    tile: Tile
    loaded: LoadedKernel


def load(press: Press, driver: Driver, variant: Variant, tile: Tile, target: str) -> Kernel:
    compiled = press.compile(variant, tile, target)
    if isinstance(compiled, str):
        raise BenchError(compiled)
    return Kernel(tile, driver.load(variant.stem, compiled.cubin, tile.smem_bytes))


class Backward:
    """A call over the tensors of a bench.backward.Shape, by kernels of our own choice."""

    def __init__(self, shape: Any, variant: Variant, before: Kernel, after: Kernel) -> None:
        import torch

        self.shape, self.variant, self.before, self.after = shape, variant, before, after
        q, k, v = shape.q, shape.k, shape.v
        batch, seqlen, heads, hdim = q.shape
        self.row_tiles = _ceil_div(seqlen, PADDED_ROWS) * (PADDED_ROWS // TILE_ROWS)
        rows = batch * heads * self.row_tiles * TILE_ROWS
        device = {"device": q.device, "dtype": torch.float32}
        self.gradients = [torch.empty_like(x) for x in (q, k, v)]
        self.sums = [torch.empty(rows * n, **device) for n in (1, 1, hdim)]
        self.stream = torch.cuda.current_stream().cuda_stream
        self.args = self._arguments()

    def _arguments(self) -> BackwardArgs:
        s = self.shape
        batch, seqlen, heads, hdim = s.q.shape
        args = BackwardArgs()
        tensors = (s.q, s.k, s.v, s.out, s.dout, *self.gradients)
        for name, tensor in zip(TENSORS, tensors):
            setattr(args, name, tensor.data_ptr())
            for dim, index in (("batch", 0), ("row", 1), ("head", 2)):
                setattr(args, f"{name}_{dim}_stride", tensor.stride(index))
        args.lse = s.lse.data_ptr()
        args.lse_batch_stride, args.lse_head_stride = s.lse.stride(0), s.lse.stride(1)
        args.lse_log2, args.delta, args.dq_sum = (x.data_ptr() for x in self.sums)
        args.batch, args.heads_q, args.heads_kv = batch, heads, s.k.shape[2]
        args.seqlen_q, args.seqlen_k = seqlen, s.k.shape[1]
        args.row_tiles = args.sum_tiles = self.row_tiles
        args.dq_sum_quads = self.row_tiles * 4 * hdim
        args.group_parts = args.sum_parts = 1
        args.scale = hdim**-0.5
        args.scale_log2 = args.scale * LOG2_E
        args.score.units_per_natural, args.score.dropout_scale = 1 / args.scale, 1.0
        args.score.window_left = args.score.window_right = 2**31 - 1
        return args

    def _rows_kernel(self, kernel: Kernel) -> None:
        self.args.blocks = _ceil_div(self.row_tiles * TILE_ROWS, kernel.tile.block_m)
        grid = self.args.blocks * self.args.heads_q * self.args.batch
        kernel.loaded.launch(grid, kernel.tile.threads, self.args, self.stream)

    def main(self, kernel: Kernel) -> Any:
        """A launch of the main kernel, to be called often."""
        s, tile, encode = self.shape, kernel.tile, kernel.loaded.driver.encode
        args = BackwardSm90Args(bwd=self.args)
        for name, tensor, rows in (
            ("q", s.q, tile.block_m),
            ("dout", s.dout, tile.block_m),
            ("k", s.k, tile.block_n),
            ("v", s.v, tile.block_n),
        ):
            setattr(args, name, encode(view_keys(tensor, rows), self.variant.dtype))
        args.bwd.blocks = _ceil_div(args.bwd.seqlen_k, tile.block_n)
        grid = args.bwd.blocks * args.bwd.heads_kv * args.bwd.batch
        return lambda: kernel.loaded.launch(grid, tile.threads, args, self.stream)

    def whole(self, kernel: Kernel) -> list[Any]:
        """dQ, dK and dV by the three kernels."""
        for gradient in self.gradients:
            gradient.fill_(float("nan"))
        self._rows_kernel(self.before)
        self.main(kernel)()
        self._rows_kernel(self.after)
        return self.gradients


def measure(
    press: Press, driver: Driver, variant: Variant, o: argparse.Namespace
) -> dict[int, dict[str, float]]:
    """TFLOP/s of each tile, by lengths; prints a line for each."""
    from bench import backward

    found = clean(press, variant, o.tiles)
    delta = make_variant("bwd_delta", variant.hdim_v, variant.hdim_v, variant.dtype)
    convert = make_variant("bwd_convert", variant.hdim, variant.hdim, variant.dtype)
    before, after = (load(press, driver, v, tile_of(v), PLAIN_TARGET) for v in (delta, convert))
    kernels = [load(press, driver, variant, tile, TARGET) for tile in found]
    present = tile_of(variant)
    rates: dict[int, dict[str, float]] = {}
    for seqlen in o.seqlens:
        kv_heads = max(1, WIDTH // variant.hdim // o.group)
        shape = backward.Shape(
            max(1, TOKENS // seqlen), seqlen, kv_heads * o.group, kv_heads,
            (variant.hdim, variant.hdim_v), backward.DTYPES[variant.dtype],
            variant.mask == "causal",
        )  # fmt: skip
        call = Backward(shape, variant, before, after)
        right = []
        for kernel in kernels:
            ratio = 0.0
            if seqlen <= backward.CHECKED_SEQLEN:
                whole = functools.partial(call.whole, kernel)
                ratio = backward.worst_ratio(shape, whole)
            else:
                call.whole(kernel)
            if ratio <= 1.0:
                right.append(kernel)
            else:
                print(f"{variant.stem} {kernel.tile.name}: WRONG, {ratio:.2f} of what is allowed")
        calls = {kernel.tile.name: call.main(kernel) for kernel in right}
        times = backward.medians(calls, o.rounds)
        rates[seqlen] = {name: shape.flops / ms * 1e-9 for name, ms in times.items()}
        now = rates[seqlen].get(present.name)
        for name, rate in sorted(rates[seqlen].items(), key=lambda item: -item[1]):
            part = f"{rate / now:6.3f}" if now else f"{'-':>6}"
            mark = "  (present)" if name == present.name else ""
            print(f"{variant.stem:36} S {seqlen:6} {name:18} {rate:8.1f} {part}{mark}", flush=True)
    for kernel in (*kernels, before, after):
        kernel.loaded.unload()
    return rates


# ---- Command line --------------------------------------------------------------------------------


def _dims(text: str) -> tuple[int, int]:
    first, _, second = text.partition("/")
    return int(first), int(second or first)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--dims", nargs="+", type=_dims, default=[(64, 64)], metavar="D", help="or D/DV")
    p.add_argument("--masks", nargs="+", choices=("full", "causal"), default=["full", "causal"])
    p.add_argument("--dtype", choices=("bf16", "fp16"), default="bf16")
    p.add_argument("--seqlens", nargs="+", type=int, default=[1024, 4096, 16384], metavar="S")
    p.add_argument("--group", type=int, default=1, help="query heads of a key head")
    p.add_argument("--tiles", nargs="+", default=[], help="these alone, and the present one")
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--threads", type=int, help="that compile; default: all cores")
    p.add_argument("--list", action="store_true", help="compile the candidates and show them")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    o = parser().parse_args(argv)
    try:
        variants = [
            make_variant("bwd", *dims, o.dtype, mask, arch=90)
            for dims in o.dims
            for mask in o.masks
        ]
        press = Press(o.threads)
        if o.list:
            for variant in variants:
                tiles = candidates(variant, o.tiles)
                found = press.clean(variant, tiles, TARGET, time.monotonic() + 3600)
                print(f"{variant.stem}: {len(found)} of {len(tiles)} compile without a flaw")
                for tile in found:
                    mark = "  (present)" if tile == tiles[0] else ""
                    print(f"  {tile.name:18} {tile.smem_bytes:6} bytes of shared memory{mark}")
            return 0
        try:
            from bench import backward
            from bench.timing import device_name
        except ImportError as error:
            raise BenchError(f"PyTorch with CUDA is needed to measure: {error}") from None
        name = device_name()
        backward.torch.zeros(1, device="cuda")  # makes the context
        driver = Driver()
        print(f"{name}, the main backward kernel, TFLOP/s")
        for variant in variants:
            measure(press, driver, variant, o)
    except (BenchError, GeneratorError) as error:
        print(f"backward_tiles.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
