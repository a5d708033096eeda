"""What append's data cannot say: threads and shared memory of its tiles, which tiles are legal, and
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
    return [] if tile.smem_bytes == 0 else [f"smem_bytes is {tile.smem_bytes}, not 0"]


def fill(variant: Variant) -> Tile:
    """The one tile: small blocks, as one token of decoding is only a few hundred threads."""
    return make_tile(family_of("append"), warps=4)
