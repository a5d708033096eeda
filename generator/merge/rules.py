"""What merge's data cannot say: threads and shared memory of its tiles, which tiles are legal, and
the rule's tile."""

from __future__ import annotations

from generator.family import family_of
from generator.tiles import Tile, make_tile
from generator.variant import Variant

WARP = 32


def threads(tile: Tile) -> int:
    """Of a thread block."""
    return WARP * tile.warps


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block: none."""
    return 0


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    checks = (
        (tile.step <= 8, f"{tile.step} parts at once are more registers than a thread has"),
        (tile.smem_bytes == 0, f"smem_bytes is {tile.smem_bytes}, not 0"),
    )
    return [sentence for holds, sentence in checks if not holds]


def fill(variant: Variant) -> Tile:
    """The one tile: a thread has four vectors of 16 bytes on their way."""
    return make_tile(family_of("merge"), warps=8, step=4)
