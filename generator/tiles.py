"""Tile shapes: how a variant's work is cut.

tiles.toml holds the shapes that were tuned; the rule in this file gives every other variant one
that fits its architecture's shared memory and registers. `tile_of()` is what a variant gets,
`table()` the whole table that the runtime links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from generator import ROOT, GeneratorError, load_toml
from generator.variant import (
    ARCHS,
    AXES,
    COMBINE_ARCH,
    DTYPES,
    MASKS,
    PASSES,
    Variant,
    axes_match,
    axis_values,
    check_keys,
    dims,
)

TILES_TOML = ROOT / "generator" / "tiles.toml"


@dataclass(frozen=True)
class ArchLimits:
    """What one architecture has, in bytes."""

    block_smem_bytes: int  # that a thread block may ask for
    sm_smem_bytes: int  # of an SM, for as many blocks as fit


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". arch 80 also runs
# on 9.0, whose SM holds 228 KB; what a block may ask for is 8.0's.
ARCH_LIMITS = {
    80: ArchLimits(block_smem_bytes=163 * 1024, sm_smem_bytes=228 * 1024),
    86: ArchLimits(block_smem_bytes=99 * 1024, sm_smem_bytes=100 * 1024),
}
SMEM_RESERVED_BYTES = 1024  # that the driver adds to each block
SM_REGISTERS = 65536
THREAD_REGISTERS = 255
OTHER_REGISTERS = 60  # addresses, loop state, fragments in flight, softmax rows


@dataclass(frozen=True, order=True)
class Tile:
    """Each field is a template variable of the same name, and one of ap_tile in
    runtime/registry.h."""

    block_m: int  # query rows of a thread block; of the combine pass: rows of the output
    block_n: int  # keys of one key block; 0 for the combine pass
    warps_m: int  # warps that share the rows
    warps_n: int  # warps that share the keys of S and the columns of O
    stages: int  # slabs of K and V in shared memory
    k_slab: int  # columns of K in a slab
    v_slab: int  # keys of V in a slab
    q_in_regs: int = 0  # 1: Q fragments stay in registers
    min_blocks: int = 1  # thread blocks that an SM is to hold
    k_unroll: int = 0  # steps of 16 columns of Q K^T that are unrolled; 0: all of a slab
    spread: int = 0  # 1: copies start between the steps of the products, not all at once
    smem_bytes: int = 0  # dynamic shared memory, from smem_bytes()

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n

    @property
    def name(self) -> str:
        """Such as m128n64w4x1s2k128v64; with "q" for q_in_regs, "b<n>" for min_blocks != 1,
        "u<n>" for k_unroll != 0, "c" for spread."""
        return (
            f"m{self.block_m}n{self.block_n}w{self.warps_m}x{self.warps_n}"
            f"s{self.stages}k{self.k_slab}v{self.v_slab}"
            + ("q" if self.q_in_regs else "")
            + (f"b{self.min_blocks}" if self.min_blocks != 1 else "")
            + (f"u{self.k_unroll}" if self.k_unroll else "")
            + ("c" if self.spread else "")
        )


_TILE_NAME = re.compile(
    r"m(\d+)n(\d+)w(\d+)x(\d+)s(\d+)k(\d+)v(\d+)(q?)(?:b(\d+))?(?:u(\d+))?(c?)", re.ASCII
)


def parse_tile(name: str, variant: Variant) -> Tile:
    """The tile of a name for this variant, which decides its shared memory. Legality is not
    checked here; see problems()."""
    match = _TILE_NAME.fullmatch(name)
    if match is None:
        raise GeneratorError(
            f'"{name}" is not the name of a tile: names look like m128n64w4x1s2k128v64, with q '
            "where Q stays in registers, b2 for two blocks an SM, u2 for two unrolled steps and "
            "c for spread copies"
        )
    *numbers, q_in_regs, min_blocks, k_unroll, spread = match.groups()
    tile = Tile(
        *map(int, numbers),
        q_in_regs=int(q_in_regs == "q"),
        min_blocks=int(min_blocks or 1),
        k_unroll=int(k_unroll or 0),
        spread=int(spread == "c"),
    )
    if tile.name != name:
        raise GeneratorError(f'"{name}" is not how a tile is written: that is {tile.name}')
    return replace(tile, smem_bytes=smem_bytes(variant, tile))


# ---- Shared memory, registers, legality ---------------------------------------------------------


def row_bytes(columns: int) -> int:
    """Bytes of a row of 16-bit values in shared memory: padded to an odd count of 16-byte chunks,
    so that the eight rows of an ldmatrix lie in different banks."""
    return 16 * ((columns // 8) | 1)


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block. The kernel asserts the same formula."""
    if variant.pass_ == "fwd_combine":
        return 0
    q_bytes = tile.block_m * row_bytes(variant.hdim)
    slot_bytes = max(tile.block_n * row_bytes(tile.k_slab), tile.v_slab * row_bytes(variant.hdim_v))
    exchange_bytes = 0  # P, and the row maxima, between warps that share rows
    if tile.warps_n > 1:
        exchange_bytes = tile.block_m * (row_bytes(tile.block_n) + 4 * tile.warps_n)
    o_bytes = 0 if variant.split else tile.block_m * row_bytes(variant.hdim_v)
    return max(q_bytes + tile.stages * slot_bytes + exchange_bytes, o_bytes)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def registers(variant: Variant, tile: Tile) -> int:
    """An estimate of the 32-bit registers of a thread of the forward pass."""
    rows = tile.block_m // tile.warps_m // 16
    o_registers = rows * _ceil_div(variant.hdim_v // 8, tile.warps_n) * 4
    s_registers = rows * (tile.block_n // 8 // tile.warps_n) * 4
    q_registers = rows * _ceil_div(variant.hdim, 16) * 4 if tile.q_in_regs else 0
    return o_registers + s_registers + q_registers + OTHER_REGISTERS


def register_budget(tile: Tile) -> int:
    """Registers that a thread may have where min_blocks blocks are to share an SM."""
    share = SM_REGISTERS // (tile.threads * tile.min_blocks)
    return min(THREAD_REGISTERS, share // 8 * 8)


def problems(variant: Variant, tile: Tile) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    if variant.pass_ == "fwd_combine":
        legal = tile.block_m > 0 and tile == replace(COMBINE_TILE, block_m=tile.block_m)
        return [] if legal else [f"a combine tile is {COMBINE_TILE.name} but for its rows"]
    for name in ("block_m", "block_n", "warps_m", "warps_n", "k_slab", "v_slab", "min_blocks"):
        if getattr(tile, name) < 1:
            return [f"{name} {getattr(tile, name)} is not positive"]
    smem_needed, smem_limit = smem_bytes(variant, tile), ARCH_LIMITS[variant.arch].block_smem_bytes
    needed, budget = registers(variant, tile), register_budget(tile)
    k_slab_whole = tile.k_slab == variant.hdim
    checks = (
        (tile.block_m % (16 * tile.warps_m) == 0, "block_m is not a multiple of 16 * warps_m"),
        (tile.block_n % (16 * tile.warps_n) == 0, "block_n is not a multiple of 16 * warps_n"),
        (tile.threads <= 1024, f"{tile.threads} threads are more than 1024"),
        (tile.stages >= 2, "stages is less than 2"),
        (tile.k_unroll >= 0, "k_unroll is negative"),
        (not (tile.q_in_regs and tile.k_unroll), "Q in registers needs k_unroll 0"),
        (
            not tile.spread
            or (
                k_slab_whole
                and tile.k_slab >= 16
                and tile.v_slab == tile.block_n
                and not tile.k_unroll
            ),
            "spread copies need whole slabs and k_unroll 0",
        ),
        (tile.k_slab <= variant.hdim, f"k_slab is more than the head dim, {variant.hdim}"),
        (k_slab_whole or tile.k_slab % 16 == 0, "k_slab is neither whole nor a multiple of 16"),
        (tile.v_slab % 16 == 0, "v_slab is not a multiple of 16"),
        (tile.block_n % tile.v_slab == 0, "v_slab does not divide block_n"),
        (tile.smem_bytes == smem_needed, f"smem_bytes is {tile.smem_bytes}, not {smem_needed}"),
        (smem_needed <= smem_limit, f"{smem_needed} bytes of shared memory are over {smem_limit}"),
        (needed <= budget, f"about {needed} registers a thread are over {budget}"),
    )
    return [sentence for holds, sentence in checks if not holds]


# ---- The rule -----------------------------------------------------------------------------------

COMBINE_TILE = Tile(1, 0, 4, 1, 0, 0, 0)


@dataclass(frozen=True)
class PrefillShape:
    """How head dims up to `hdim` are cut: candidates for the rule, best first."""

    hdim: int  # the largest of the two head dims
    block_m: int
    warps_m: int
    warps_n: int
    block_n: tuple[int, ...]  # to try
    stages: int
    k_unroll: int
    spread: int = 0  # where the slabs are whole


# Up to 160 columns, a warp has 32 rows and all columns of O, and each fragment of K and V serves
# two row tiles. Above, warps share the columns of O, so that a fragment still serves two row tiles,
# or that O fits the registers at all. k_unroll: where O and S fill the registers, unrolling all of
# Q K^T makes the compiler fetch more fragments ahead than it has room for, and spill. spread:
# copies that start all at once hold up the ldmatrix behind them. The last rows are for what does
# not fit shared memory. bench/NOTES.md has the measurements.
PREFILL_SHAPES = (
    PrefillShape(88, 128, 4, 1, (64, 32), 2, 0),
    PrefillShape(104, 128, 4, 1, (64, 32), 2, 4),
    PrefillShape(120, 128, 4, 1, (64, 32), 2, 1),
    PrefillShape(128, 128, 4, 1, (64, 32), 3, 1),
    PrefillShape(160, 128, 4, 1, (32,), 2, 2),
    PrefillShape(192, 128, 4, 2, (96, 64), 2, 0, spread=1),
    PrefillShape(208, 128, 4, 2, (96, 64), 2, 0),
    PrefillShape(256, 64, 2, 2, (64, 32), 2, 0, spread=1),
    PrefillShape(320, 64, 2, 4, (64,), 2, 0),
    PrefillShape(512, 64, 4, 2, (64, 32), 2, 0),
    PrefillShape(512, 32, 2, 4, (64,), 2, 0),
)

DECODE_SHAPE = (16, 1, 4)
DECODE_STAGES = (4, 3, 2)
DECODE_SMEM_BYTES = (48 * 1024, 56 * 1024, 99 * 1024)  # budgets to try; small ones share an SM

# (slabs of K, slabs of V) that a key block is cut into, fewest first: each slab costs a barrier.
CUTS = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (4, 2), (4, 4), (6, 4), (8, 4))


def fill(variant: Variant) -> Tile:
    """The rule's tile: the first candidate that is legal."""
    if variant.pass_ == "fwd_combine":
        return COMBINE_TILE
    candidates = _decode_candidates if variant.decode else _prefill_candidates
    for tile in candidates(variant):
        if not problems(variant, tile):
            return _with_min_blocks(variant, tile)
    raise GeneratorError(f"no tile fits {variant.stem}")


def _prefill_candidates(variant: Variant) -> Iterator[Tile]:
    """Whole K and V blocks first, then slabs, then fewer keys, then the shapes of larger head
    dims."""
    largest = max(variant.hdim, variant.hdim_v)
    for shape in PREFILL_SHAPES:
        if largest > shape.hdim:
            continue
        for block_n in shape.block_n:
            tile = Tile(shape.block_m, block_n, shape.warps_m, shape.warps_n, shape.stages, 0, 0)
            for cuts in CUTS:
                spread = shape.spread if cuts == (1, 1) else 0
                yield from _cut(
                    variant, replace(tile, k_unroll=shape.k_unroll, spread=spread), cuts
                )


def _decode_candidates(variant: Variant) -> Iterator[Tile]:
    """As many keys in flight as the smallest budget of shared memory allows."""
    block_m, warps_m, warps_n = DECODE_SHAPE
    block_n = 128 if variant.hdim <= 64 else 64
    for budget_bytes in DECODE_SMEM_BYTES:
        for cuts in CUTS:
            for stages in DECODE_STAGES:
                tile = Tile(block_m, block_n, warps_m, warps_n, stages, 0, 0)
                for candidate in _cut(variant, tile, cuts):
                    if candidate.smem_bytes <= budget_bytes:
                        yield candidate


def _cut(variant: Variant, tile: Tile, cuts: tuple[int, int]) -> Iterator[Tile]:
    """The tile with K cut into columns and V into rows, as even as multiples of 16 allow; nothing
    where that cannot be done."""
    k_cuts, v_cuts = cuts
    k_slab = variant.hdim if k_cuts == 1 else _ceil_div(variant.hdim, 16 * k_cuts) * 16
    if _ceil_div(variant.hdim, k_slab) == k_cuts and tile.block_n % (16 * v_cuts) == 0:
        tile = replace(tile, k_slab=k_slab, v_slab=tile.block_n // v_cuts)
        yield replace(tile, smem_bytes=smem_bytes(variant, tile))


def _with_min_blocks(variant: Variant, tile: Tile) -> Tile:
    """Two blocks an SM where shared memory and registers hold both."""
    pair_bytes = 2 * (tile.smem_bytes + SMEM_RESERVED_BYTES)
    paired = replace(tile, min_blocks=2)
    if pair_bytes <= ARCH_LIMITS[variant.arch].sm_smem_bytes and not problems(variant, paired):
        return paired
    return tile


# ---- Tuned tiles --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TunedTile:
    """One [[tile]] of tiles.toml: the tile of every variant whose fields are among `where`'s."""

    where: tuple[tuple[str, tuple], ...]
    tile: str


@cache
def load_tuned(path: Path = TILES_TOML) -> tuple[TunedTile, ...]:
    """The rows of tiles.toml. `hdim_v` that is absent means: the same as hdim."""
    content = load_toml(path)
    check_keys(path.name, content, required=set(), optional={"tile"})
    rows = []
    for number, row in enumerate(content.get("tile", ()), start=1):
        label = f"{path.name}: [[tile]] number {number}"
        check_keys(label, row, {"pass", "arch", "hdim", "tile"}, {*AXES, "note"})
        where = tuple((axis, axis_values(label, row, axis)) for axis in AXES if axis in row)
        rows.append(TunedTile(where, row["tile"]))
    return tuple(rows)


def tile_of(variant: Variant, tuned: tuple[TunedTile, ...] | None = None) -> Tile:
    """The variant's tile: the tuned one that says most about it, else the rule's."""
    rows = [
        row
        for row in (load_tuned() if tuned is None else tuned)
        if axes_match(row.where, variant)
        and ("hdim_v" in dict(row.where) or variant.hdim_v == variant.hdim)
    ]
    if not rows:
        return fill(variant)
    most = max(len(row.where) for row in rows)
    best = [row for row in rows if len(row.where) == most]
    if len(best) > 1:
        raise GeneratorError(
            f"tiles.toml: {best[0].tile} and {best[1].tile} both claim {variant.stem}"
        )
    tile = parse_tile(best[0].tile, variant)
    if found := problems(variant, tile):
        raise GeneratorError(f"tiles.toml: {tile.name} is not legal for {variant.stem}: {found[0]}")
    return tile


# ---- The whole table ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TileRow:
    """A row of ap_tiles. `split` None: both; `dtype` None: both. No two rows match one variant."""

    variant: Variant  # its split and dtype count only where the row's own are not None
    split: bool | None
    dtype: str | None
    tile: Tile


def table(tuned: tuple[TunedTile, ...] | None = None) -> list[TileRow]:
    """A row for every (pass, head dims, mask, decode, arch); several where the tile depends on
    split or dtype as well."""
    rows = []
    for pass_ in PASSES:
        combine = pass_ == "fwd_combine"
        for hdim, hdim_v in dims(pass_):
            for mask in MASKS[:1] if combine else MASKS:
                for decode in (False,) if combine else (False, True):
                    for arch in (COMBINE_ARCH,) if combine else ARCHS:
                        base = Variant(pass_, hdim, hdim_v, DTYPES[0], mask, False, decode, arch)
                        rows += _merged_rows(base, tuned)
    return rows


def _merged_rows(base: Variant, tuned: tuple[TunedTile, ...] | None) -> list[TileRow]:
    splits = (False,) if base.pass_ == "fwd_combine" else (False, True)
    tiles = {
        (split, dtype): tile_of(replace(base, split=split, dtype=dtype), tuned)
        for split in splits
        for dtype in DTYPES
    }
    by_split = len({tile for (_, dtype), tile in tiles.items() if dtype == DTYPES[0]}) > 1 or (
        len({tile for (_, dtype), tile in tiles.items() if dtype == DTYPES[1]}) > 1
    )
    by_dtype = any(tiles[split, DTYPES[0]] != tiles[split, DTYPES[1]] for split in splits)
    rows = []
    for split in splits if by_split else splits[:1]:
        for dtype in DTYPES if by_dtype else DTYPES[:1]:
            rows.append(
                TileRow(
                    variant=replace(base, split=split, dtype=dtype),
                    # The combine pass has no split: its rows say 0, not "both".
                    split=split if by_split or len(splits) == 1 else None,
                    dtype=dtype if by_dtype else None,
                    tile=tiles[split, dtype],
                )
            )
    return rows
