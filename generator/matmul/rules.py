"""What the in-place matrix product's data cannot say: threads and shared memory of its tiles, which
tiles are legal, and the rule that gives a variant one."""

from __future__ import annotations

from generator.family import Family, family_of
from generator.targets import load_targets
from generator.tiles import Tile, make_tile, sized
from generator.variant import Variant

WARP = 32
BLOCK_K = 32  # depth of a tile of W; the template has the same number
# Elements of x that a thread block holds: two thirds of the shared memory of the arch. Blocks of
# fewer rows would read W, which comes from the L2 cache, more often.
HELD = {80: 65536, 86: 32768}
BLOCK_M_MAX = 128
SM90_ROW_BYTES = 128  # of the swizzle, which is the depth of a stage
BARRIERS_BYTES = 16  # of a stage: one that it is full, one that it is empty
SM90_STAGES = {"m128n256": 4, "m64n64": 8, "m128n128": 6, "m192n128": 5}


def family() -> Family:
    return family_of("matmul")


def threads(tile: Tile) -> int:
    """Of a thread block."""
    return WARP * tile.warps


def row_bytes(columns: int) -> int:
    """Of a padded tile: tile_row_bytes() of tile.cuh."""
    return 16 * (columns // 8 | 1)


def sm90_tile(variant: Variant, stages: int) -> Tile:
    """A producer's warpgroup, and one for each 64 rows."""
    rows, columns = map(int, variant.block[1:].split("n"))
    return sized(
        variant,
        make_tile(
            family(),
            block_m=rows,
            block_n=columns,
            warps=4 + rows // 16,
            row_warps=rows // 16,
            stages=stages,
        ),
    )


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block. The kernel asserts the same formula."""
    if variant.arch == 90:
        stage = SM90_ROW_BYTES * (tile.block_m + tile.block_n)
        return tile.stages * (stage + BARRIERS_BYTES)
    if variant["pass"] == "nt":
        stage = tile.block_n * row_bytes(BLOCK_K)
    else:
        stage = BLOCK_K * row_bytes(tile.block_n)
    return tile.block_m * row_bytes(variant.cols) + tile.stages * stage


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    if variant.arch == 90:
        legal = tile == sm90_tile(variant, tile.stages)
        example = sm90_tile(variant, SM90_STAGES[variant.block]).name
        return [] if legal else [f"sm90 needs a tile such as {example}"]
    needed = smem_bytes(variant, tile)
    most = load_targets().archs[variant.arch].block_smem_bytes
    rows = max(tile.block_m, 16)
    checks = (
        (
            tile.block_m == 8 or tile.block_m % 16 == 0,
            f"block_m is {tile.block_m}, and neither 8 nor a multiple of 16",
        ),
        (
            tile.warps % tile.row_warps == 0 and rows % (16 * tile.row_warps) == 0,
            f"row_warps {tile.row_warps} does not divide {tile.warps} warps and {rows} rows",
        ),
        (needed <= most, f"{needed} bytes of shared memory are over {most}"),
        (tile.smem_bytes == needed, f"smem_bytes is {tile.smem_bytes}, not {needed}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def fill(variant: Variant) -> Tile:
    """The rule's tile: as many rows as shared memory holds, at most 128, for W is read once for all
    of them; up to four warps below each other, so that a warp has 32 rows or fewer."""
    if variant.arch == 90:
        return sm90_tile(variant, SM90_STAGES[variant.block])
    block_m = min(HELD[variant.arch] // variant.cols, BLOCK_M_MAX)
    row_warps = {128: 4, 64: 2, 32: 2}.get(block_m, 1)
    return sized(
        variant,
        make_tile(family(), block_m=block_m, block_n=128, warps=8, row_warps=row_warps, stages=3),
    )
