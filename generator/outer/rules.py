"""What the outer product's data cannot say: threads and shared memory of its tiles, which tiles are
legal, and the tile of each pass."""

from __future__ import annotations

from generator.family import Family, family_of
from generator.tiles import Tile, make_tile
from generator.variant import Variant

WARP = 32
TILES = {
    "fwd": {"warps": 8, "rows": 8},
    "unit": {"warps": 8, "rows": 8},
    "chunk": {"warps": 8, "rows": 8},
    "flat": {"warps": 8, "rows": 8},
    "sum": {"warps": 2, "rows": 8},
    "sum_dx": {"warps": 2, "rows": 8},
    "sum_dy": {"warps": 2, "rows": 8},
    "bwd": {"warps": 4, "rows": 4},
    "bwd_reduce": {"warps": 4, "rows": 8},
}
FP32_SUM = {"warps": 8, "rows": 4}
FP32_TILES = {
    "sum": FP32_SUM,
    "sum_dx": FP32_SUM,
    "sum_dy": FP32_SUM,
}
"""Half as many elements are in a vector, and threads multiply what tensor cores do else."""
MOD_TILES = {"fwd": {}, "sum": {"warps": 8, "rows": 4}, "bwd": {"warps": 8, "rows": 4}}
"""Where a snippet takes registers too."""


def family() -> Family:
    return family_of("outer")


def threads(tile: Tile) -> int:
    """Of a thread block."""
    return WARP * tile.warps


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block that every call has: none."""
    return 0


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    found = []
    rows = (4, 8) if variant["mod"] or variant["dtype"] == "fp32" else (8,)
    sums = variant["pass"].startswith("sum")
    if sums and (tile.warps not in (2, 4, 8) or tile.rows not in rows):
        found.append(
            f"sums need 2, 4 or 8 warps, and {' or '.join(map(str, rows))} rows of a thread"
        )
    if tile.rows > 16:
        found.append(f"{tile.rows} rows are more registers than a thread has")
    if tile.smem_bytes:
        found.append(f"smem_bytes is {tile.smem_bytes}, not 0")
    return found


def fill(variant: Variant) -> Tile:
    """The rule's tile."""
    tile = dict(TILES[variant["pass"]])
    if variant["dtype"] == "fp32":
        tile |= FP32_TILES.get(variant["pass"], {})
    if variant["mod"]:
        tile |= MOD_TILES[variant["pass"]]
    return make_tile(family(), **tile)
