"""What softmax's data cannot say: threads and shared memory of its tiles, which tiles are legal,
and the rule that gives a variant one where tiles.toml has none."""

from __future__ import annotations

from generator.family import Family, family_of
from generator.targets import load_targets
from generator.tiles import Tile, make_tile, sized
from generator.variant import Variant

VECTOR_BYTES = 16  # of one access
WARP = 32
BLOCK_THREADS_MAX = 1024
SHORT_BLOCK_THREADS = 128  # of a block whose rows take a warp or less each
# Registers that a thread's part of its rows may take: below 64 with all else, so that 1024 threads
# of a block have them; of shorter blocks, more.
SM_THREADS = 1536  # that every SM has at least
PART_REGISTERS = 36
PART_REGISTERS_MAX = 72
CLUSTER_CAPABILITY = 90  # the least, times ten
CLUSTER_MAX = 8  # thread blocks: as many as every device has beside each other
LONG_TILE = {"warps": 32, "step": 4}


def family() -> Family:
    return family_of("softmax")


def element_bytes(variant: Variant) -> int:
    return 4 if variant.dtype == "fp32" else 2


def row_vectors(variant: Variant) -> int:
    """Vectors of a row of as many columns as the kernel takes."""
    return variant.cols * element_bytes(variant) // VECTOR_BYTES


def is_long(variant: Variant) -> bool:
    """Whether rows are read twice."""
    return variant.cols > family().constants["held_cols_max"]


def threads(tile: Tile) -> int:
    """Of a thread block."""
    return WARP * tile.warps


def cluster(tile: Tile) -> int:
    """Thread blocks that share a row."""
    return max(tile.row_threads // threads(tile), 1)


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block. The kernel asserts the same formula."""
    row = variant.cols * element_bytes(variant)
    if tile.packed:
        edges = VECTOR_BYTES - element_bytes(variant)
        rows = threads(tile) // tile.row_threads * tile.rows * (row + edges)
        return (rows + 2 * VECTOR_BYTES - 1) // VECTOR_BYTES * VECTOR_BYTES
    return tile.in_shared * row // cluster(tile) - tile.held * threads(tile) * VECTOR_BYTES


def part_registers(variant: Variant, tile: Tile) -> int:
    """Registers that hold a thread's part of its rows: as fp32 in the forward pass, as they are in
    the backward pass, of y and dy."""
    words = row_vectors(variant) // tile.row_threads * 4 * tile.rows
    if variant["pass"] == "fwd":
        return 4 * tile.held if tile.in_shared else words * (4 // element_bytes(variant))
    return words * (2 - tile.in_shared)


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    if is_long(variant):
        legal = tile.step > 0 and tile == make_tile(family(), warps=tile.warps, step=tile.step)
        return [] if legal else ["rows that are read twice need a tile such as w32v4"]
    if tile.step or tile.row_threads < 1:
        return ["rows that are read once need a tile such as w4t16r2"]
    vectors, registers = row_vectors(variant), part_registers(variant, tile)
    limit = PART_REGISTERS if threads(tile) == BLOCK_THREADS_MAX else PART_REGISTERS_MAX
    needed = smem_bytes(variant, tile)
    limits = load_targets()
    most = limits.archs[variant.arch].block_smem_bytes
    clusters = target is not None and limits.targets[target].capability >= CLUSTER_CAPABILITY
    checks = (
        (
            tile.row_threads & (tile.row_threads - 1) == 0 and tile.row_threads >= 4,
            f"row_threads {tile.row_threads} is not a power of two from 4 on",
        ),
        (
            cluster(tile) == 1 or (clusters and variant["pass"] == "fwd"),
            "rows of several blocks are of the forward pass, on a target that has clusters",
        ),
        (
            cluster(tile) <= CLUSTER_MAX and tile.row_threads <= BLOCK_THREADS_MAX,
            f"{tile.row_threads} threads of a row are over {CLUSTER_MAX} blocks, or over "
            f"{BLOCK_THREADS_MAX}",
        ),
        (
            tile.row_threads % threads(tile) == 0 or threads(tile) % tile.row_threads == 0,
            "row_threads does not divide the threads",
        ),
        (vectors % tile.row_threads == 0, f"row_threads does not divide {vectors} vectors"),
        (tile.rows == 1 or tile.row_threads <= WARP, "rows of several warps are one a thread"),
        (
            not tile.in_shared or (tile.row_threads >= threads(tile) and tile.row_threads > WARP),
            "rows in shared memory are one a block, of several warps",
        ),
        (
            not tile.held
            or (
                tile.in_shared
                and variant["pass"] == "fwd"
                and tile.held < vectors // tile.row_threads
            ),
            f"held {tile.held} is of the forward pass with x in shared memory, and not all of it",
        ),
        (
            tile.in_shared <= (1 if variant["pass"] == "fwd" else 2),
            f"in_shared {tile.in_shared} is of the backward pass, which has two rows",
        ),
        (
            tile.blocks * threads(tile) <= SM_THREADS,
            f"{tile.blocks} blocks of {threads(tile)} threads are over {SM_THREADS}",
        ),
        (
            not tile.packed or (tile.row_threads <= WARP and variant["pass"] == "fwd"),
            "rows that are brought as one piece are of the forward pass, of a warp or less",
        ),
        (not tile.ahead or tile.row_threads > WARP, "only rows of several warps are fetched ahead"),
        (registers <= limit, f"{registers} registers for a thread's rows are over {limit}"),
        (needed <= most, f"{needed} bytes of shared memory are over {most}"),
        (tile.smem_bytes == needed, f"smem_bytes is {tile.smem_bytes}, not {needed}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def fill(variant: Variant) -> Tile:
    """The rule's tile. Two vectors of a row a thread (three, where a row has three times a power of
    two) while a warp is enough, and two rows if that is one vector; else four, or as many as 1024
    threads leave. The backward pass, which holds two rows, has half of it, until shared memory
    takes one of them. bench/notes/softmax.md has the measurements."""
    if is_long(variant):
        return make_tile(family(), **LONG_TILE)
    vectors = row_vectors(variant)
    each = 3 if vectors % 3 == 0 else 2
    if vectors // each > WARP and vectors % 3:
        each = 4 if variant["pass"] == "fwd" or element_bytes(variant) == 4 else 2
    row_threads = min(max(vectors // each, 4), BLOCK_THREADS_MAX)
    if row_threads > WARP:
        warps = max(row_threads, SHORT_BLOCK_THREADS) // WARP
        rows = 1
    else:
        warps = SHORT_BLOCK_THREADS // WARP
        rows = 2 if vectors // row_threads == 1 else 1
    tile = sized(variant, make_tile(family(), warps=warps, row_threads=row_threads, rows=rows))
    if problems(variant, tile):
        tile = sized(variant, tile.replace(in_shared=1))
    return tile
