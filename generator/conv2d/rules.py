"""What the convolutions' data cannot say: threads and shared memory of their tiles, which tiles are
legal, and the tile of each variant."""

from __future__ import annotations

import re

from generator.family import Family, family_of
from generator.targets import load_targets
from generator.tiles import Tile, make_tile, sized
from generator.variant import Variant

WARP = 32
ROW_BYTES = 16  # of the table of rows, each
# A ring of 96 KB fits in 8.6's shared memory; two blocks of 128 x 128 then share an SM of 9.0.
STAGES = {"m128n128": 3, "m128n64": 3, "m64n128": 3, "m64n64": 4}
MIN_BLOCKS = {"m128n128": 2, "m128n64": 3, "m64n128": 3, "m64n64": 3}
# Of kernels that the copy engine serves: (stages, blocks that an SM has room for).
IM2COL = {
    "m256n128": (4, 1),
    "m128n256": (4, 1),
    "m192n128": (5, 1),
    "m128n192": (5, 1),
    "m256n64": (5, 1),
    "m64n256": (5, 1),
    "m128n128": (3, 2),
    "m128n64": (3, 3),
    "m64n128": (3, 3),
    "m64n64": (4, 3),
}
ROWS_MAX = 192  # of a block with a warpgroup for each 64; of larger ones each has 128
BARRIERS_BYTES = 16  # of a stage: one that it is full, one that it is empty


def family() -> Family:
    return family_of("conv2d")


def block_of(variant: Variant) -> tuple[int, int]:
    """Rows and columns of a thread block's product; 0, 0: it has none."""
    found = re.fullmatch(r"m(\d+)n(\d+)", variant.block)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def threads(tile: Tile) -> int:
    """Of a thread block."""
    return WARP * tile.warps_m * tile.warps_n


def im2col_warps(block_m: int) -> int:
    """Of a thread block that the copy engine serves: those that multiply, and one that copies."""
    return (block_m if block_m <= ROWS_MAX else block_m // 2) // 16 + 1


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block: the ring, and the table of rows."""
    slab = family().constants["slab"]
    ring = tile.stages * (tile.block_m + tile.block_n) * slab * 2
    if variant.copies == "im2col":
        return ring + tile.stages * BARRIERS_BYTES
    return ring + tile.block_m * ROW_BYTES


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    needed = smem_bytes(variant, tile)
    if (tile.block_m, tile.block_n) != block_of(variant):
        return [f"the tile is of {tile.block_m} x {tile.block_n}, not of {variant.block}"]
    if variant.block == "none":
        legal = not tile.stages and (tile.warps_m, tile.warps_n) == (8, 1)
        return [] if legal else ["kernels without a product have 8 warps"]
    most = load_targets().archs[variant.arch].block_smem_bytes
    rows, columns = tile.block_m // tile.warps_m, tile.block_n // tile.warps_n
    if variant.copies == "im2col":
        shape_holds = (tile.warps_m, tile.warps_n) == (im2col_warps(tile.block_m), 1)
        shape = "a warpgroup's product has 64 rows or 128, and a warp copies"
    elif variant.arch == 90:
        shape_holds = (rows, tile.warps_n) == (16, 1)
        shape = "a warpgroup's product has 64 rows and all columns"
    else:
        shape_holds = rows in (16, 32, 64) and columns in (16, 32, 64) and threads(tile) == 128
        shape = f"4 warps with products of {rows} x {columns} are not of 16, 32 or 64"
    checks = (
        (shape_holds, shape),
        (2 <= tile.stages, f"a ring of {tile.stages} stages has no room for a copy"),
        (needed <= most, f"{needed} bytes of shared memory are over {most}"),
        (tile.smem_bytes == needed, f"smem_bytes is {tile.smem_bytes}, not {needed}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def fill(variant: Variant) -> Tile:
    """The rule's tile."""
    if variant.block == "none":
        return make_tile(family(), warps_m=8, warps_n=1)
    block_m, block_n = block_of(variant)
    if variant.copies == "im2col":
        stages, min_blocks = IM2COL[variant.block]
        tile = make_tile(
            family(),
            stages=stages,
            min_blocks=min_blocks,
            block_m=block_m,
            block_n=block_n,
            warps_m=im2col_warps(block_m),
            warps_n=1,
        )
        return sized(variant, tile)
    fields = {"stages": STAGES[variant.block], "min_blocks": MIN_BLOCKS[variant.block]}
    if variant["pass"] == "wgrad" and variant.arch == 90 and block_m == 128:
        fields["min_blocks"] = 2  # three would leave 80 registers, and spills
    warps_m, warps_n = (block_m // 16, 1) if variant.arch == 90 else (2, 2)
    fields |= {"block_m": block_m, "block_n": block_n, "warps_m": warps_m, "warps_n": warps_n}
    tile = make_tile(family(), **fields)
    return sized(variant, tile)
