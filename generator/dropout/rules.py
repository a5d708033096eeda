"""What the data of dropout's mask cannot say: threads of its tiles, which tiles are legal, and the
rule's tile."""

from __future__ import annotations

from generator.family import family_of
from generator.tiles import Tile, make_tile
from generator.variant import Variant

WARP = 32
DRAWN_KEYS = 16  # over which, and over as many rows, a warp decides at once


def threads(tile: Tile) -> int:
    """Of a thread block."""
    return WARP * tile.warps


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block: none."""
    return 0


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    checks = (
        (tile.block_n % DRAWN_KEYS == 0, f"block_n {tile.block_n} is not a multiple of 16"),
        (tile.smem_bytes == 0, f"smem_bytes is {tile.smem_bytes}, not 0"),
    )
    return [sentence for holds, sentence in checks if not holds]


def fill(variant: Variant) -> Tile:
    """The one tile: a thread decides over 32 probabilities."""
    return make_tile(family_of("dropout"), warps=4, block_n=64)
