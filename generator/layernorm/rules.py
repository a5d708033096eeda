"""What layernorm's data cannot say: threads and shared memory of its tiles, which tiles are legal,
and the rule that gives a variant one where tiles.toml has none."""

from __future__ import annotations

from collections.abc import Iterator

from generator.family import Family, family_of
from generator.targets import load_targets
from generator.tiles import Tile, make_tile, sized
from generator.variant import Variant

VECTOR_BYTES = 16  # of one access
WARP = 32
BLOCK_THREADS_MAX = 1024
SM_REGISTERS = 65536
SM_THREADS_MAX = 2048
# Groups that share a block add up their sums in shared memory, 64 bytes a thread of them.
GROUPED_THREADS_MAX = 512
# Registers that kernels take beside what they hold of rows, weights and sums, at the least.
OTHER_REGISTERS = {"fwd": 26, "bwd": 28}
PIECE_COLS_MAX = 96  # of rows that begin at any element and go through shared memory as one piece
PACKED_EDGES = 7  # columns of rows without gaps, of 16 bits, beyond those of their class
# Gradients of rows of 16 bits that begin anywhere: the longest class of a thread block's rows, and
# how many columns more these have, and with weights of fp32.
ODD_BLOCK_COLS_MAX, ODD_BLOCK_MORE_COLS, ODD_BLOCK_MORE_FP32_COLS = 8192, 1024, 512
EDGE_BYTES = 32  # of a row of sorted ones: masks of its ends
PLACE_BYTES = 128  # of which a piece's place is a multiple
BLOCK_SMEM_BYTES = 1024  # of an SM's shared memory that a block takes beside its own
BULK_WARPS = 16  # of a block, whose threads have half of an SM's registers then
BULK_VECTORS, BULK_SHORT_VECTORS = 8, 6  # of a thread in a row, and in rows of less than
BULK_SHORT_ROW_VECTORS = 384  # so many
# Of a thread at the most, where its parameters are kept as fp32; in rows of a warp or less.
BULK_WIDE_VECTORS, BULK_SHORT_WIDE_VECTORS = 4, 3
BULK_LONG_ROW_VECTORS = 1280  # rows of more have two places
BULK_SLOTS = 8  # places of a ring, at the most
# With a residual: threads of a row, and places of x, and whether the residual has but one less.
SUMMED_ROW_THREADS, SUMMED_PLACES = (512, 1024, 2048), ((3, 1), (2, 0))
# Of rows that begin anywhere: vectors of a thread, where more threads are faster.
RINGED_VECTORS = 7
# Rows that are read straight into registers: threads of an SM, warps of its blocks where a warp or
# less has a row, and the most that share one.
DIRECT_SM_THREADS, DIRECT_WARPS, DIRECT_ROW_WARPS = 1024, 8, 16
# Wide rows: vectors of a lane whose parameters are in registers, if there are no more (of seven
# six), and else of layer norm and of RMS norm; which come at once then; vectors that a lane's rings
# have room for; the most blocks of a cluster.
WIDE_KEPT, WIDE_LONG_KEPT, WIDE_LONG_RMS_KEPT = 8, 4, 14
WIDE_LONG_BATCH, WIDE_PLACES, WIDE_CLUSTER_MAX = 4, 27, 16
# Of layer norm with parameters of twice the size: those in registers, others are in shared memory;
# and places of the ring beside these, by vectors of a lane.
WIDE_DOUBLE_KEPT, WIDE_DOUBLE_SLOTS = 4, {4: 6, 5: 4, 6: 3}
# Gangs: warps of a block that have columns, and that have none, or a warpgroup of these, whose
# registers others get; the most rows of a ring. Forward, where others than those that write add
# up: how many, and where eight gain nothing; and how many make moments of parameters of fp32 beside
# 16 bits, whose rows have the most blocks.
GANG_WARPS, GANG_OTHER_WARPS, GANG_GROUP_WARPS, GANG_SLOTS = 8, 2, 4, 8
GANG_ADDERS, GANG_FEW_ADDERS, GANG_WIDE_MAKERS = 8, 4, 2
# Pairs of rows: lanes of one, and the most columns for so many; columns of the rows that blocks of
# two warps have; threads of an SM.
PAIR_LANES, PAIRS_SHORT_COLS_MAX, PAIRS_SM_THREADS = ((1, 96), (2, 192), (8, 448)), 128, 1024
# Rows of a wider matrix: columns at the most, lanes of a row, rows of a warp; warps of a block.
GATHERED_LANES = ((64, 2, 32), (128, 4, 16), (384, 8, 8))
GATHERED_WARPS, GATHERED_GAP = 4, 31  # and elements between rows, that come with these
# Rows that come as pieces, of words of fp32, and of vectors, of 16 bits and of fp32: bytes of a row
# at the most, lanes of it, warps of a block, and whether each of these has a piece of its own.
PIECE_WORD_LANES = (
    (256, 1, 2, 1), (640, 2, 4, 1), (768, 16, 4, 0),
    (1536, 16, 8, 0), (2048, 32, 8, 0), (3072, 32, 16, 0),
)  # fmt: skip
PIECE_LANES = (
    (192, 1, 4, 1), (256, 2, 4, 1), (512, 4, 2, 0),
    (1280, 8, 4, 0), (2048, 16, 4, 0), (2560, 16, 8, 1),
)  # fmt: skip
PIECE_FP32_LANES = (
    (128, 1, 4, 1), (256, 2, 4, 1), (384, 4, 4, 1),
    (512, 4, 2, 1), (1024, 8, 4, 1), (2048, 16, 4, 0),
)  # fmt: skip
# Rows of whole vectors that are read straight into registers: vectors of a thread of 16 bits and of
# fp32, warps of a row at the most, and threads of an SM; of rows of so many vectors, rounds of
# blocks at the least.
WHOLE_LONG_VECTORS, WHOLE_ROUNDS = 1024, 10
WHOLE_VECTORS, WHOLE_FP32_VECTORS, WHOLE_WARPS, WHOLE_SM_THREADS = 4, 2, 16, 1280
# With a residual: vectors of the longest row that a warp has, warps of a block of such rows,
# vectors of a thread in others, and of those whose threads have more.
ADDED_WARP_VECTORS, ADDED_WARPS, ADDED_VECTORS, ADDED_LONG_VECTORS = 80, 4, 2, 2048
# Rows of fp32 that begin anywhere: warps of one up to so many vectors.
DIRECT_FP32_WARPS, DIRECT_FP32_VECTORS = 12, 2048
# Rows with gaps, in place or with a residual that begin anywhere: threads of an SM, and the most
# warps of a row whose threads have four vectors; rows of more vectors have a block of an SM, and of
# 16 bits rows of as many half a warp.
EDGED_SM_THREADS, EDGED_WARPS, EDGED_LONG_VECTORS = 1152, 9, 4096
EDGED_HALF_WARP_VECTORS = 96  # with parameters of fp32 16 less
# Rows that move to where they lie in y: lanes of those of so many columns, and vectors of a lane
# beyond which blocks are less.
MOVED_LANES, MOVED_VECTORS = ((128, 4), (384, 8), (1024, 16)), 6
# Rows of few columns: warps of a block, lanes of a row, and blocks of an SM, of classes up to each.
SHORT_TILES = ((16, (4, 1, 3)), (32, (4, 1, 2)), (64, (8, 4, 2)), (96, (4, 4, 3)), (128, (4, 8, 3)))
# The same of those whose x is a slice of a wider matrix, which comes row by row.
SLICE_TILES = ((32, (4, 2, 4)), (64, (8, 4, 2)), (96, (4, 8, 4)))
CLUSTER_ARCH = 90
SMEM_ALIGNMENT = 1024  # of dynamic shared memory
CLUSTER_WARPS, CLUSTER_VECTORS = 16, 4  # of the rule's blocks, and of a thread in a row of a pair
CLUSTER_SPARE = 28  # registers that the rule leaves
# Rows that begin at any element: vectors of the longest that a pair has, rows in shared memory, and
# threads of an SM, which have 128 registers each.
ODD_PAIR_VECTORS, ODD_CLUSTER_SLOTS, ODD_CLUSTER_SM_THREADS = 4096, 4, 512
CLUSTER_SLOTS_MIN = 2  # rows of a cluster: one is written while the next is added up
PIECE_ROW_THREADS = 4  # of these: a warp has eight rows, which are whole vectors together
SPARE_REGISTERS = 14  # that the rule leaves beyond those
ODD_SPARE_REGISTERS = {"fwd": 15, "bwd": 22}  # of rows that begin at any element
ODD_WIDE_SPARE_REGISTERS = 34  # of their backward pass, with parameters of twice the size
LONG_TILES = {
    "fwd": {"warps": 32, "step": 1},
    "bwd_dx": {"warps": 32, "step": 1},
    "bwd_params": {"warps": 8, "step": 2},
    "bwd_reduce": {"warps": 8, "step": 8},
}


def family() -> Family:
    return family_of("layernorm")


def element_bytes(variant: Variant) -> int:
    return 4 if variant.dtype == "fp32" else 2


def row_vectors(variant: Variant) -> int:
    """Vectors of a row of as many columns as the kernel takes."""
    return variant.cols * element_bytes(variant) // VECTOR_BYTES


def is_held(variant: Variant) -> bool:
    """Whether the kernel reads a row once."""
    if variant["pass"] == "fwd":
        return variant.cols <= family().constants["held_cols_max"]
    return variant["pass"] == "bwd"


def is_shared(variant: Variant) -> bool:
    """Whether the thread blocks of a cluster share a row."""
    return variant.arch == CLUSTER_ARCH and variant.rows in ("aligned", "odd", "sorted")


def threads(tile: Tile) -> int:
    """Of a thread block."""
    return WARP * tile.warps


def cluster(tile: Tile) -> int:
    """Thread blocks that share a row."""
    return max(tile.row_threads * tile.groups // threads(tile), 1)


def is_odd(variant: Variant) -> bool:
    """Whether rows of 16 bits begin at any element, and one block has one."""
    if variant.rows == "shifted":
        return variant["pass"] == "bwd"
    return variant.rows == "odd" and not is_shared(variant) and variant.dtype != "fp32"


def is_sorted(variant: Variant) -> bool:
    """Whether rows begin anywhere, and all of a cluster's at one element of a vector."""
    return variant.rows == "sorted"


def is_short(variant: Variant) -> bool:
    """Whether rows of few columns come to a warp as pieces, in the backward pass."""
    return variant.rows == "short" or is_slice(variant)


def is_slice(variant: Variant) -> bool:
    """Whether x of such rows is one of a wider matrix."""
    return variant.rows == "gathered" and variant["pass"] == "bwd"


def is_packed(variant: Variant) -> bool:
    """Whether the copy engine moves rows without gaps."""
    return variant.rows == "packed"


def is_bulk(variant: Variant) -> bool:
    """Whether the copy engine brings rows to a ring of each warp."""
    return variant.rows in ("bulk", "cut", "summed", "ringed")


def is_summed(variant: Variant) -> bool:
    """Whether such rows have a residual, or may have, which comes to a ring of its own."""
    return variant.rows in ("summed", "ringed")


def is_direct(variant: Variant) -> bool:
    """Whether rows that begin anywhere are read straight into registers."""
    return variant.rows == "direct"


def is_whole(variant: Variant) -> bool:
    """Whether rows of whole vectors are read straight into registers."""
    return variant.rows == "whole"


def is_straight(variant: Variant) -> bool:
    """Whether rows are read straight into registers."""
    straight = ("direct", "edged", "whole", "added", "apart", "shifted", "moved")
    return variant.rows in straight and not is_odd(variant)


def is_edged(variant: Variant) -> bool:
    """Whether such rows begin anywhere: with gaps, in place, with a residual, or elsewhere in y."""
    return variant.rows in ("edged", "shifted") and not is_odd(variant)


def is_moved(variant: Variant) -> bool:
    """Whether rows begin anywhere, and are moved in registers to where they lie in y."""
    return variant.rows == "moved"


def is_added(variant: Variant) -> bool:
    """Whether such rows are whole vectors, with a residual."""
    return variant.rows == "added"


def is_apart(variant: Variant) -> bool:
    """Whether rows begin elsewhere in x than in y, and are read straight into registers."""
    return variant.rows == "apart"


def is_wide(variant: Variant) -> bool:
    """Whether the thread blocks of a cluster share a row, as many as it needs."""
    return variant.rows == "wide"


def is_gang(variant: Variant) -> bool:
    """Whether thread blocks share a row that are no cluster, but all run at the same time."""
    return variant.rows in ("gang", "split", "gangsum", "splitsum")


def _is_split(variant: Variant) -> bool:
    """Those whose rows begin anywhere."""
    return variant.rows in ("split", "splitsum")


def _gang_smem_bytes(variant: Variant, tile: Tile) -> int:
    """All that there is, in rings of whole vectors."""
    most = load_targets().archs[variant.arch].block_smem_bytes - _gang_told_bytes(variant, tile)
    rings = tile.row_threads // WARP * PLACE_BYTES
    return most // rings * rings


def _gang_told_bytes(variant: Variant, tile: Tile) -> int:
    """Shared memory beside rings: what warps tell, with barriers, of eight rows, forward of
    sixteen; barriers of each warp's ring, and backward of rows that begin anywhere a pair of its
    vectors and weights that come to them; and forward whose turn it is."""
    warps, forward = tile.row_threads // WARP, variant["pass"] == "fwd"
    if forward:
        return 16 * ((warps + 1) * 8 + 16) + warps * tile.slots * 8 + 16
    told = 8 * (warps * 8 + 32) + warps * (tile.slots * 8 + 32)
    return told + (warps * 32 if variant.rows == "split" else 0)


def wide_vectors(variant: Variant, tile: Tile) -> int:
    """Vectors of a row that a thread has."""
    return row_vectors(variant) // threads(tile)


def _wide_batch(variant: Variant, tile: Tile) -> int:
    """Those that come at once: a piece."""
    vectors = wide_vectors(variant, tile)
    return vectors if vectors <= WIDE_KEPT else WIDE_LONG_BATCH


def _wide_kept(variant: Variant, tile: Tile) -> int:
    """Those whose parameters are in registers."""
    vectors = wide_vectors(variant, tile)
    if _wide_parameters(variant):
        return vectors if variant.norm == "rms" else min(vectors, WIDE_DOUBLE_KEPT)
    long = WIDE_LONG_RMS_KEPT if variant.norm == "rms" else WIDE_LONG_KEPT
    return vectors - (vectors == 7) if vectors <= WIDE_KEPT else min(vectors, long)


def _wide_told_bytes(tile: Tile) -> int:
    """Shared memory beside rings and parameters: what warps tell of two rows and of one that is
    added up again, with barriers, for each warp its barriers, two pairs of vectors, its share and
    a phase, and for a block a pair."""
    return 3 * (WIDE_CLUSTER_MAX * tile.warps * 8 + 8) + tile.warps * (tile.slots * 8 + 80) + 32


def _wide_smem_bytes(variant: Variant, tile: Tile) -> int:
    """The rings, and parameters as far as there is room, of what registers do not keep."""
    most = load_targets().archs[variant.arch].block_smem_bytes - _wide_told_bytes(tile)
    place = threads(tile) * VECTOR_BYTES
    parameters = 2 if variant.norm == "layer" else 1
    left = wide_vectors(variant, tile) - _wide_kept(variant, tile)
    ring = tile.slots * _wide_batch(variant, tile) * place
    parameter = place * (2 if _wide_parameters(variant) else 1)  # of a vector of each thread
    parked = min(max(most - ring, 0) // (parameters * parameter), left)
    return ring + parameters * parked * parameter


def is_pairs(variant: Variant) -> bool:
    """Whether lanes of a warp have pairs of rows, which came as one piece."""
    return variant.rows == "pairs"


def is_pieces(variant: Variant) -> bool:
    """Whether lanes have rows, which came as one piece to a warp or a block."""
    return variant.rows == "pieces" or (is_pairs(variant) and variant.dtype == "fp32")


def is_gathered(variant: Variant) -> bool:
    """Whether lanes have rows of a wider matrix, which a warp's copies bring, without gaps in y."""
    return variant.rows == "gathered" and variant["pass"] == "fwd"


def _gathered_smem_bytes(variant: Variant, tile: Tile) -> int:
    """Of rows of the fewest columns without gaps: x, what lies beside it, and y. Of others the
    launch has more."""
    return tile.warps * (2 * tile.piece * _gathered_least(variant) * 2 + 3 * VECTOR_BYTES)


def _gathered_most_bytes(variant: Variant, tile: Tile) -> int:
    """Of rows of the most columns that come with what lies between them, up to GATHERED_GAP."""
    x_bytes = tile.piece * (variant.cols + GATHERED_GAP) * 2 + 3 * VECTOR_BYTES
    return tile.warps * (x_bytes + tile.piece * variant.cols * 2)


def _gathered_least(variant: Variant) -> int:
    """The fewest columns of a row."""
    below = [cols for cols in family().axis("cols").domain if cols < variant.cols]
    return below[-1] + 1 if variant.cols > 32 else 8


def _gathered_words(variant: Variant, tile: Tile) -> int:
    """Of a lane, at the most."""
    return -(-variant.cols // (2 * tile.row_threads))


def _gathered_told_bytes(variant: Variant, tile: Tile) -> int:
    """Barriers, and parameters."""
    words = _gathered_words(variant, tile) * tile.row_threads + 1
    return tile.warps * 8 + words * 16


def bulk_warps(tile: Tile) -> int:
    """Warps that share a row which comes to their rings."""
    return max(tile.row_threads // WARP, 1)


def bulk_vectors(variant: Variant, tile: Tile) -> int:
    """Vectors of a row that a warp has, or as many lanes as share it."""
    return -(-row_vectors(variant) // bulk_warps(tile))


def is_bulk_wide(variant: Variant, tile: Tile) -> bool:
    """Whether threads with few vectors of 16 bits keep their parameters as fp32, as the kernel."""
    most = BULK_SHORT_WIDE_VECTORS if tile.row_threads <= WARP else BULK_WIDE_VECTORS
    return variant.dtype != "fp32" and row_vectors(variant) <= most * tile.row_threads


def _residual_places(variant: Variant, tile: Tile) -> int:
    """Of a ring, for the residual, each of which is free when that has been added."""
    if not is_summed(variant):
        return 0
    return max(tile.slots - (1 if tile.ahead else 2), 1)


def _bulk_smem_bytes(variant: Variant, tile: Tile) -> int:
    rows = WARP // min(tile.row_threads, WARP)  # of a warp at a time
    places = tile.slots + _residual_places(variant, tile)
    ring = places * rows * bulk_vectors(variant, tile) * VECTOR_BYTES
    return tile.warps * (-(-ring // PLACE_BYTES) * PLACE_BYTES)


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block. The kernel asserts the same formula."""
    if not tile.row_threads or is_straight(variant):
        return 0
    if is_short(variant):
        return _short_smem_bytes(variant, tile)
    if is_wide(variant):
        return _wide_smem_bytes(variant, tile)
    if is_gang(variant):
        return _gang_smem_bytes(variant, tile)
    if is_bulk(variant):
        return _bulk_smem_bytes(variant, tile)
    if is_pairs(variant) or is_pieces(variant):
        return teams(tile) * tile.piece * variant.cols * element_bytes(variant)
    if is_gathered(variant):
        return _gathered_smem_bytes(variant, tile)
    if is_packed(variant):
        return teams(tile) * tile.slots * _place_bytes(variant, tile)
    if is_odd(variant):
        return _odd_smem_bytes(variant, tile)
    groups, matrices = threads(tile) // tile.row_threads, 2 if variant["pass"] == "bwd" else 1
    row_bytes = variant.cols * element_bytes(variant)
    if is_shared(variant):
        weight = tile.weight_in_shared * variant.cols * (4 if variant.params == "fp32" else 2)
        return (tile.slots * matrices * row_bytes + weight) * tile.groups // cluster(tile)
    return tile.slots * matrices * groups * row_bytes + tile.sums_in_shared * 2 * variant.cols * 4


def _short_smem_bytes(variant: Variant, tile: Tile) -> int:
    """What the blocks of an SM have of it, in rings of the warps of one."""
    most = load_targets().archs[variant.arch].block_smem_bytes + BLOCK_SMEM_BYTES
    ring = (most // tile.blocks - BLOCK_SMEM_BYTES) // tile.warps
    return tile.warps * (ring // PLACE_BYTES * PLACE_BYTES)


def teams(tile: Tile) -> int:
    """Of a block: threads that share pieces of rows without gaps."""
    return tile.warps if tile.packed else 1


def packed_columns(variant: Variant) -> int:
    """The most that rows without gaps have."""
    return variant.cols + (0 if variant.dtype == "fp32" else PACKED_EDGES)


def _place_bytes(variant: Variant, tile: Tile) -> int:
    size = element_bytes(variant)
    whole = tile.piece * size % VECTOR_BYTES == 0
    needed = tile.piece * packed_columns(variant) * size + (0 if whole else VECTOR_BYTES)
    return -(-needed // PLACE_BYTES) * PLACE_BYTES


def packed_words(variant: Variant, tile: Tile) -> int:
    """Words that a thread has of a row without gaps."""
    elements = 4 // element_bytes(variant)
    words = packed_columns(variant) // elements + elements - 1
    return -(-words // tile.row_threads)


def has_more_edges(variant: Variant) -> bool:
    """Whether rows that begin at any element have more columns than its threads' vectors."""
    return variant["pass"] == "bwd" and variant.cols == ODD_BLOCK_COLS_MAX


def odd_edges(variant: Variant, tile: Tile) -> int:
    """Elements of a thread beside the vectors of a row which begins at any element."""
    more = ODD_BLOCK_MORE_FP32_COLS if variant.params == "fp32" else ODD_BLOCK_MORE_COLS
    return -(-(more if has_more_edges(variant) else 14) // tile.row_threads)


def _odd_smem_bytes(variant: Variant, tile: Tile) -> int:
    groups = threads(tile) // tile.row_threads
    row_bytes = variant.cols * element_bytes(variant)
    # Of shifted rows each warp has what follows its vectors.
    long = variant.rows == "shifted" and tile.row_threads > WARP
    place = groups * (row_bytes + (row_bytes // WARP if long else VECTOR_BYTES))
    if variant["pass"] == "fwd":
        return tile.slots * place
    values = variant.cols // tile.row_threads + odd_edges(variant, tile)
    stride = tile.row_threads + (0 if tile.row_threads == PIECE_ROW_THREADS else 4)
    return max(2 * tile.slots * place, groups * (values * stride + 4) * 8)


def held_registers(variant: Variant, tile: Tile) -> int:
    """Registers that hold a thread's part of its rows, and what is kept from row to row."""
    if is_bulk(variant):
        elements = VECTOR_BYTES // element_bytes(variant)
        wide = variant.params == "fp32" or is_bulk_wide(variant, tile)
        words = elements * (4 if wide else 2) // 4
        each = -(-bulk_vectors(variant, tile) // min(tile.row_threads, WARP))
        return each * (4 + 2 * words)
    if is_straight(variant):
        return 4 * -(-row_vectors(variant) // tile.row_threads)
    if is_wide(variant):
        parameters = 2 if variant.norm == "layer" else 1
        words = 8 if _wide_parameters(variant) else 4
        return words * parameters * _wide_kept(variant, tile)
    if is_gang(variant):
        vectors = row_vectors(variant) // tile.row_threads
        if variant["pass"] == "fwd":
            words = 8 if _wide_parameters(variant) else 4
            return words * vectors * (2 if variant.norm == "layer" else 1)
        elements = VECTOR_BYTES // element_bytes(variant)
        return vectors * (2 * elements + elements * (4 if variant.params == "fp32" else 2) // 4)
    if is_pairs(variant) or is_pieces(variant):
        return 4 * (2 + 4)  # words of two rows, and their parameters
    if is_gathered(variant):
        return _gathered_words(variant, tile)
    if is_short(variant):
        return 3 * variant.cols // tile.row_threads  # two sums, and the weight
    if is_packed(variant):
        elements = 4 // element_bytes(variant)
        parameter = max(elements * (4 if variant.params == "fp32" else 2) // 4, 1)
        return packed_words(variant, tile) * (1 + 2 * parameter)
    if is_odd(variant):
        return _odd_registers(variant, tile)
    vectors = row_vectors(variant) // tile.row_threads
    elements = VECTOR_BYTES // element_bytes(variant)
    if is_shared(variant):
        words = elements * (4 if variant.params == "fp32" else 2) // 4
        kept = words * (1 - tile.weight_in_shared)
        return vectors * (2 * words if variant["pass"] == "fwd" else 2 * elements + kept)
    words = tile.weight_held * elements * (4 if variant.params == "fp32" else 2) // 4
    if variant["pass"] == "fwd":
        return vectors * (4 * (1 + tile.ahead - tile.in_shared) + 2 * words)
    rows = 0 if tile.slots else 8 * (1 + tile.ahead)
    return vectors * (rows + (0 if tile.sums_in_shared else 2 * elements) + words)


def _odd_registers(variant: Variant, tile: Tile) -> int:
    vectors, edges = variant.cols // (8 * tile.row_threads), odd_edges(variant, tile)
    words = 8 if variant.params == "fp32" else 4
    if variant["pass"] == "fwd":
        return vectors * (8 + 2 * words) + edges * 6
    return vectors * (16 + words) + edges * 10


def registers_left(variant: Variant, tile: Tile) -> int:
    """Of those that a thread may have, at the most; negative: they cannot be enough."""
    limit = min(SM_REGISTERS // (threads(tile) * tile.blocks), 255)
    return limit - held_registers(variant, tile) - OTHER_REGISTERS[variant["pass"]]


def _room_checks(variant: Variant, tile: Tile, told: int = 0) -> list[tuple[bool, str]]:
    """Registers, and shared memory, of which a block has `told` bytes beside the dynamic ones."""
    needed = smem_bytes(variant, tile)
    most = load_targets().archs[variant.arch].block_smem_bytes
    beside = f" and {told}" if told else ""
    return [
        (registers_left(variant, tile) >= 0, "a thread has too few registers"),
        (needed + told <= most, f"{needed}{beside} bytes of shared memory are over {most}"),
        (tile.smem_bytes == needed, f"smem_bytes is {tile.smem_bytes}, not {needed}"),
    ]


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, one sentence each; empty: legal."""
    if not is_held(variant):
        legal = tile.step > 0 and tile == make_tile(family(), warps=tile.warps, step=tile.step)
        return [] if legal else ["this pass needs a tile such as w32v4"]
    if tile.step or tile.row_threads < 1:
        return ["rows that are read once need a tile such as w4t16b8ah"]
    if tile.rounds and variant["pass"] != "fwd":
        return ["each thread block of the backward pass has parts of the sums: no more than fit"]
    if is_packed(variant):
        return _packed_problems(variant, tile)
    if is_bulk(variant):
        return _bulk_problems(variant, tile)
    if is_moved(variant):
        return _moved_problems(variant, tile)
    if is_straight(variant):
        return _direct_problems(variant, tile)
    if is_wide(variant):
        return _wide_problems(variant, tile)
    if is_pieces(variant):
        return _pieces_problems(variant, tile)
    if is_pairs(variant):
        return _pairs_problems(variant, tile)
    if is_gathered(variant):
        return _gathered_problems(variant, tile)
    if is_gang(variant):
        return _gang_problems(variant, tile)
    if tile.piece:
        return ["pieces of rows without gaps are the copy engine's"]
    if is_short(variant):
        return _short_problems(variant, tile)
    if is_odd(variant):
        return _odd_problems(variant, tile)
    if is_shared(variant):
        return _cluster_problems(variant, tile)
    backward = variant["pass"] == "bwd"
    vectors, groups = row_vectors(variant), threads(tile) // tile.row_threads
    checks = (
        (
            tile.row_threads & (tile.row_threads - 1) == 0 and tile.row_threads >= 4,
            f"row_threads {tile.row_threads} is not a power of two from 4 on",
        ),
        (threads(tile) % tile.row_threads == 0, "row_threads does not divide the threads"),
        (vectors % tile.row_threads == 0, f"row_threads does not divide {vectors} vectors"),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (not tile.packed, "pieces are of rows that begin at any element"),
        (not tile.weight_in_shared, "a cluster has its weight in shared memory"),
        (backward or not tile.sums_in_shared, "sums are of the backward pass"),
        (not tile.slots or not tile.ahead, "rows are loaded ahead to one place"),
        (
            not tile.in_shared or (tile.slots > 0 and not backward),
            "rows stay in shared memory where they come there, in the forward pass",
        ),
        (not tile.sums_in_shared or groups == 1, "sums in shared memory are of one row a block"),
        (
            not backward or groups == 1 or threads(tile) <= GROUPED_THREADS_MAX,
            f"a block of several rows has at most {GROUPED_THREADS_MAX} threads",
        ),
        *_room_checks(variant, tile),
    )
    return [sentence for holds, sentence in checks if not holds]


def _has_fields_of_aligned_rows(tile: Tile) -> bool:
    return bool(
        tile.ahead
        or tile.weight_held
        or tile.sums_in_shared
        or tile.in_shared
        or tile.weight_in_shared
    )


def _odd_problems(variant: Variant, tile: Tile) -> list[str]:
    vectors, groups = row_vectors(variant), threads(tile) // tile.row_threads
    checks = (
        (
            tile.row_threads & (tile.row_threads - 1) == 0 and tile.row_threads >= 4,
            f"row_threads {tile.row_threads} is not a power of two from 4 on",
        ),
        (threads(tile) % tile.row_threads == 0, "row_threads does not divide the threads"),
        (vectors % tile.row_threads == 0, f"row_threads does not divide {vectors} vectors"),
        (groups & (groups - 1) == 0, f"{groups} rows a block: walks are of whole periods of eight"),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (tile.slots > 0, "rows that begin at any element wait in shared memory"),
        (
            not _has_fields_of_aligned_rows(tile),
            "rows that begin at any element keep their parameters and sums in any case",
        ),
        (
            not tile.packed or (variant["pass"] == "fwd" and tile.row_threads == PIECE_ROW_THREADS),
            f"rows as one piece are of the forward pass, {PIECE_ROW_THREADS} threads each",
        ),
        *_room_checks(variant, tile),
    )
    return [sentence for holds, sentence in checks if not holds]


def _packed_problems(variant: Variant, tile: Tile) -> list[str]:
    team = WARP if tile.packed else threads(tile)
    groups = team // tile.row_threads
    told = 2 * tile.warps * 12 + 8 * teams(tile) * tile.slots  # of warps, and barriers
    checks = (
        (
            tile.row_threads & (tile.row_threads - 1) == 0 and tile.row_threads >= 4,
            f"row_threads {tile.row_threads} is not a power of two from 4 on",
        ),
        (groups > 0 and team % tile.row_threads == 0, "row_threads does not divide a team"),
        (
            tile.packed or tile.row_threads > WARP,
            "rows of a warp or less are of warps that have pieces of their own",
        ),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (tile.slots > 1 and tile.piece > 0, "a piece is taken back while another is written"),
        (groups == 0 or tile.piece % groups == 0, f"{groups} rows at a time are no whole piece"),
        (
            variant.dtype == "fp32" or tile.piece == 1,
            "rows of 16 bits are moved one by one",
        ),
        (
            not _has_fields_of_aligned_rows(tile),
            "rows without gaps keep their parameters in any case",
        ),
        *_room_checks(variant, tile, told),
    )
    return [sentence for holds, sentence in checks if not holds]


def _bulk_problems(variant: Variant, tile: Tile) -> list[str]:
    warps, blocks = bulk_warps(tile), cluster(tile)
    told = (
        tile.warps * (tile.slots + _residual_places(variant, tile)) * 8
        + 2 * warps * 8
        + 32 * tile.warps
    )  # barriers, and what warps tell
    lanes = min(tile.row_threads, WARP)
    each = -(-bulk_vectors(variant, tile) // lanes)
    below = max(cols for cols in (0, *family().axis("cols").domain) if cols < variant.cols)
    full = (each - 1) * lanes * warps * VECTOR_BYTES // element_bytes(variant)
    checks = (
        (
            tile.row_threads % WARP == 0 or tile.row_threads in (4, 8, 16),
            f"row_threads {tile.row_threads} are neither warps nor a part of one",
        ),
        (
            (warps <= tile.warps and tile.warps % warps == 0)
            or tile.row_threads in (2 * threads(tile), 4 * threads(tile)),
            "a block has whole rows, or a cluster of 2 or 4 has one",
        ),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (blocks == 1 or tile.blocks == 1, "each block of a cluster has an SM to itself"),
        (tile.slots > 1, "a row is written while the next is added up"),
        (each > 1, "a row ends in the last two vectors of a thread"),
        (full <= below, f"rows of {below + 1} columns leave a thread without {each - 1} vectors"),
        (not tile.packed and not tile.piece, "each warp has its own part in any case"),
        (
            not _has_fields_of_aligned_rows(tile.replace(ahead=0) if is_summed(variant) else tile),
            "rows that come to a ring keep their parameters in any case",
        ),
        (
            not is_summed(variant) or tile.row_threads > WARP,
            "rows with a residual are of more than a warp",
        ),
        *_room_checks(variant, tile, told),
    )
    return [sentence for holds, sentence in checks if not holds]


def _has_half_warps(variant: Variant, tile: Tile) -> bool:
    """Whether some rows are a warp's, whose lanes are enough for what lies beside whole vectors."""
    if is_edged(variant):
        elements = 4 if "fp32" in (variant.dtype, variant.params) else 8
        return tile.row_threads in (8, 16) and tile.row_threads >= 2 * elements
    return is_direct(variant) and tile.row_threads in (8, 16)


def _moved_problems(variant: Variant, tile: Tile) -> list[str]:
    checks = (
        (
            tile.row_threads in (4, 8, 16, 32) and tile.warps % 8 == 0,
            "the warps of a block have rows of eight places, 4, 8, 16 or 32 lanes each",
        ),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (
            row_vectors(variant) * 4 // 5 - 2 >= tile.row_threads,
            "a row leaves a lane without a vector",
        ),
        (not tile.slots, "a row is read into registers"),
        (not tile.packed and not tile.piece, "each row is read by itself"),
        (not _has_fields_of_aligned_rows(tile), "a block keeps nothing from row to row"),
        (registers_left(variant, tile) >= 0, "a thread has too few registers"),
        (tile.smem_bytes == 0, f"smem_bytes is {tile.smem_bytes}, not 0"),
    )
    return [sentence for holds, sentence in checks if not holds]


def _direct_problems(variant: Variant, tile: Tile) -> list[str]:
    checks = (
        (
            tile.row_threads == threads(tile)
            or (tile.row_threads == WARP and not is_whole(variant))
            or (_has_half_warps(variant, tile) and tile.warps % 8 == 0),
            "a block has a row, a warp has one, or the warps of a block have rows of eight places",
        ),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (
            row_vectors(variant) * 4 // 5 >= tile.row_threads or is_apart(variant),
            "a row leaves a thread without a vector",
        ),
        (not tile.slots, "a row is read into registers"),
        (not tile.packed and not tile.piece, "each row is read by itself"),
        (not _has_fields_of_aligned_rows(tile), "a block keeps nothing from row to row"),
        (registers_left(variant, tile) >= 0, "a thread has too few registers"),
        (tile.smem_bytes == 0, f"smem_bytes is {tile.smem_bytes}, not 0"),
    )
    return [sentence for holds, sentence in checks if not holds]


def _short_problems(variant: Variant, tile: Tile) -> list[str]:
    ring = tile.smem_bytes // tile.warps
    group = (16 if variant.cols == 8 else 4) // element_bytes(variant)
    row = 3 * (variant.cols - 1) * element_bytes(variant) + 8
    if is_slice(variant):  # a row of x in whole vectors
        row = (2 * (variant.cols - 1) + variant.cols) * element_bytes(variant) + 48
    needed = WARP // tile.row_threads * group * row
    checks = (
        (
            tile.row_threads in ((1 + is_slice(variant),) if variant.cols <= 32 else (4, 8)),
            "a lane has a row, of a slice two, or of more than 32 columns four or eight",
        ),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (ring >= needed, f"{ring} bytes are no ring of a piece, which is {needed}"),
        (not tile.slots and not tile.packed, "a ring has as many pieces as it has room for"),
        (not _has_fields_of_aligned_rows(tile), "a lane keeps its weights and sums in any case"),
        *_room_checks(variant, tile),
    )
    return [sentence for holds, sentence in checks if not holds]


def _wide_problems(variant: Variant, tile: Tile) -> list[str]:
    vectors = wide_vectors(variant, tile)
    checks = (
        (tile.row_threads == threads(tile), "row_threads are those of a block, of any cluster"),
        (
            vectors > 2 and vectors % max(_wide_batch(variant, tile), 1) == 0,
            f"{vectors} vectors of a thread are no whole pieces",
        ),
        (tile.blocks == 1, "each block of a cluster has an SM to itself"),
        (
            tile.slots * _wide_batch(variant, tile) > vectors,
            f"{tile.slots} places have no room for {vectors} vectors and some of the next row",
        ),
        (not tile.packed and not tile.piece, "each row is brought by itself"),
        (
            not _has_fields_of_aligned_rows(tile),
            "a cluster keeps what it has room for in any case",
        ),
        *_room_checks(variant, tile, _wide_told_bytes(tile)),
    )
    return [sentence for holds, sentence in checks if not holds]


def _gang_problems(variant: Variant, tile: Tile) -> list[str]:
    vectors = row_vectors(variant)
    checks = (
        (
            tile.warps in _gang_warps(variant, tile.row_threads // WARP),
            "two warps of a block have no columns, or a warpgroup; forward two and those that add "
            "up, and one that has rows' ends, and three where parameters are fp32 beside 16 bits "
            "or rows begin anywhere",
        ),
        (vectors % max(tile.row_threads, 1) == 0, f"row_threads does not divide {vectors} vectors"),
        (tile.blocks == 1, "each block of a gang has an SM to itself"),
        (tile.slots > 1, "a row is added up before another is written"),
        (not tile.packed and not tile.piece, "each row is brought by itself"),
        (not _has_fields_of_aligned_rows(tile), "a gang keeps weight and sums in any case"),
        *_room_checks(variant, tile, _gang_told_bytes(variant, tile)),
    )
    return [sentence for holds, sentence in checks if not holds]


def _pairs_problems(variant: Variant, tile: Tile) -> list[str]:
    told = tile.warps * 8 + (variant.cols // 2 + 1) * 16  # barriers, and parameters
    checks = (
        (
            tile.row_threads in (1, 2, 4, 8) and tile.piece * tile.row_threads == 2 * WARP,
            "a warp has a pair of rows for each lane, or for 2, 4 or 8 of them",
        ),
        (tile.packed == 1, "each warp has a piece of its own"),
        (tile.slots == 1, "a warp has one piece"),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (not _has_fields_of_aligned_rows(tile), "parameters are in shared memory in any case"),
        *_room_checks(variant, tile, told),
    )
    return [sentence for holds, sentence in checks if not holds]


def _gathered_problems(variant: Variant, tile: Tile) -> list[str]:
    told = _gathered_told_bytes(variant, tile)
    most = load_targets().archs[variant.arch].block_smem_bytes
    checks = (
        (
            tile.row_threads in (2, 4, 8, 16, 32)
            and tile.piece in (8, 16, 24, 32)
            and tile.piece * tile.row_threads % (2 * WARP) == 0,
            "a warp has 8, 16, 24 or 32 rows, in pairs, 2, 4 ... 32 lanes each",
        ),
        (tile.packed == 1, "each warp has a piece of its own"),
        (tile.slots == 1, "a warp has one piece"),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (
            not _has_fields_of_aligned_rows(tile.replace(packed=0)),
            "parameters are in shared memory in any case",
        ),
        (
            _gathered_most_bytes(variant, tile) + told <= most,
            "a block has no room for the longest rows",
        ),
        *_room_checks(variant, tile, told),
    )
    return [sentence for holds, sentence in checks if not holds]


def _pieces_problems(variant: Variant, tile: Tile) -> list[str]:
    kept = 4 if "fp32" in (variant.dtype, variant.params) else 2  # bytes of a parameter
    told = teams(tile) * 8 + 2 * variant.cols * kept
    team = threads(tile) // teams(tile)
    checks = (
        (
            tile.row_threads in (1, 2, 4, 8, 16, 32) and tile.piece * tile.row_threads == team,
            "a piece has a row for each lane, or for 2, 4 ... 32 of them",
        ),
        (
            variant.rows == "pieces" or tile.piece % 4 == 0,
            "a piece is whole vectors: four rows of fp32 are",
        ),
        (tile.slots == 1, "a warp has one piece"),
        (threads(tile) * tile.blocks <= SM_THREADS_MAX, "an SM has no room for so many blocks"),
        (
            not _has_fields_of_aligned_rows(tile.replace(packed=0)),
            "parameters are in shared memory in any case",
        ),
        *_room_checks(variant, tile, told),
    )
    return [sentence for holds, sentence in checks if not holds]


def _cluster_problems(variant: Variant, tile: Tile) -> list[str]:
    most = load_targets().archs[variant.arch].block_smem_bytes
    told = 2 * tile.row_threads // WARP * 8  # bytes of what warps tell each other, of two rows
    grouped = is_sorted(variant)
    if grouped:
        told = tile.groups * (told + 16) + tile.warps * tile.slots * 8  # and barriers
        told += tile.groups * EDGE_BYTES
        told = -(-told // SMEM_ALIGNMENT) * SMEM_ALIGNMENT  # rows come behind them
    vectors = row_vectors(variant)
    blocks = (1, 2, 4, 8) if grouped else (2, 4, 8)
    checks = (
        (
            tile.row_threads * tile.groups in [count * threads(tile) for count in blocks],
            f"row_threads {tile.row_threads} is not those of {blocks[0]} to {blocks[-1]} blocks",
        ),
        (
            tile.groups == 1 or (grouped and tile.warps % tile.groups == 0),
            "a block has groups of as many warps where its rows begin alike",
        ),
        (vectors % max(tile.row_threads, 1) == 0, f"row_threads does not divide {vectors} vectors"),
        (
            variant.rows != "aligned"
            or tile.row_threads <= WARP * WARP
            or tile.row_threads % (WARP * WARP) == 0,
            "the warps of a row are no multiple of a warp's lanes",
        ),
        (
            tile.blocks == 1 or variant.rows != "aligned",
            "each block of a cluster has an SM to itself",
        ),
        (
            (tile.smem_bytes + told * grouped + BLOCK_SMEM_BYTES) * tile.blocks
            <= most + BLOCK_SMEM_BYTES,
            "an SM has no room for so many blocks",
        ),
        (tile.slots >= CLUSTER_SLOTS_MIN, "a cluster adds up a row while it writes another"),
        (
            not (
                tile.ahead
                or tile.weight_held
                or tile.sums_in_shared
                or tile.in_shared
                or tile.packed
            ),
            "a cluster has rows in shared memory, and sums in registers, in any case",
        ),
        (
            not tile.weight_in_shared
            or (
                variant["pass"] == "bwd"
                and not (variant.dtype == "fp32" and variant.params != "fp32")
            ),
            "the weight in shared memory is of the backward pass, 16 bytes of it a vector",
        ),
        *_room_checks(variant, tile, told),
    )
    return [sentence for holds, sentence in checks if not holds]


def _cluster_tile(variant: Variant) -> Tile:
    """A pair of blocks of 512 threads, one an SM, where that is four vectors a thread at most and
    leaves room for a row on its way; else four blocks; else four that have the weight in shared
    memory; else a pair, of more vectors a thread; else eight blocks."""
    vectors = row_vectors(variant)
    for slots, cluster, shared, most in (
        (3, 2, 0, CLUSTER_VECTORS),
        (3, 4, 0, vectors),
        (2, 2, 0, CLUSTER_VECTORS),
        (2, 4, 0, vectors),
        (3, 4, 1, vectors),
        (2, 4, 1, vectors),
        (3, 2, 0, vectors),
        (2, 2, 0, vectors),
        (3, 8, 0, CLUSTER_VECTORS),
        (3, 8, 1, CLUSTER_VECTORS),
        (2, 8, 1, CLUSTER_VECTORS),
    ):
        tile = make_tile(
            family(),
            warps=CLUSTER_WARPS,
            row_threads=cluster * CLUSTER_WARPS * WARP,
            slots=slots,
            weight_in_shared=shared,
        )
        tile = sized(variant, tile)
        few = vectors // tile.row_threads <= most
        if few and registers_left(variant, tile) >= CLUSTER_SPARE and not problems(variant, tile):
            return tile
    return tile


def _odd_cluster_tile(variant: Variant) -> Tile:
    """A pair of blocks, or four of long rows, of four vectors a thread, whose weights are in shared
    memory, since registers are few; as many blocks an SM as registers are enough for, where they
    leave room for a row on its way."""
    vectors = row_vectors(variant)
    cluster = 2 if vectors <= ODD_PAIR_VECTORS else 4
    warps = vectors // (cluster * CLUSTER_VECTORS * WARP)
    most = max(ODD_CLUSTER_SM_THREADS // (warps * WARP), 1)
    for least in (CLUSTER_SLOTS_MIN + 1, CLUSTER_SLOTS_MIN):
        for blocks in range(most, 0, -1):
            for slots in range(ODD_CLUSTER_SLOTS, least - 1, -1):
                tile = make_tile(
                    family(),
                    warps=warps,
                    row_threads=cluster * warps * WARP,
                    blocks=blocks,
                    slots=slots,
                    weight_in_shared=1,
                )
                tile = sized(variant, tile)
                if not problems(variant, tile):
                    return tile
    return tile


def _sorted_tile(variant: Variant) -> Tile:
    """Rows that begin at one element of a vector: four vectors a thread, of a pair of blocks, or of
    four where rows are long; as many rows at a time as make 16 warps of a block, an SM's only one;
    three rows of each in shared memory, and the weight, where there is room."""
    vectors = row_vectors(variant)
    cluster = 2 if vectors <= ODD_PAIR_VECTORS else 4
    warps = vectors // (cluster * CLUSTER_VECTORS * WARP)
    for slots in (CLUSTER_SLOTS_MIN + 1, CLUSTER_SLOTS_MIN):
        for shared in (1, 0):
            for groups in range(max(CLUSTER_WARPS // warps, 1), 0, -1):
                tile = make_tile(
                    family(),
                    warps=groups * warps,
                    groups=groups,
                    row_threads=cluster * warps * WARP,
                    slots=slots,
                    weight_in_shared=shared,
                )
                tile = sized(variant, tile)
                if not problems(variant, tile):
                    return tile
    return tile


def _odd_tile(variant: Variant) -> Tile:
    """Forward: the shortest rows as pieces; of others four vectors a thread, or two, where
    parameters take twice the registers. Backward: two, in blocks of 256 threads, since each has
    parts of the sums. Three, five or seven, where a row has so many times a power of two. As many
    blocks as registers are enough for."""
    vectors, forward = row_vectors(variant), variant["pass"] == "fwd"
    wide = _wide_parameters(variant)
    each = next((odd for odd in (3, 5, 7) if vectors % odd == 0), 4 if forward and not wide else 2)
    if not forward and vectors == 8:
        each = 1  # four threads a row would have too many edges each for their registers
    packed = forward and variant.cols <= PIECE_COLS_MAX
    row_threads = PIECE_ROW_THREADS if packed else max(vectors // each, 4)
    many = variant.cols == 64 or (
        wide and (each == 3 or variant.cols == 128)
    )  # registers, backward
    short = 128 if forward or many else 256
    warps = max(row_threads, short) // WARP
    blocks = 1024 // (warps * WARP)
    fields = {"warps": warps, "row_threads": row_threads, "slots": 2, "packed": int(packed)}
    tile = sized(variant, make_tile(family(), blocks=blocks, **fields))
    spare = ODD_SPARE_REGISTERS[variant["pass"]]
    if wide and not forward:
        spare = ODD_WIDE_SPARE_REGISTERS
    while registers_left(variant, tile) < spare and tile.blocks > 1:
        tile = tile.replace(blocks=tile.blocks - 1)
    return tile


def _packed_tile(variant: Variant) -> Tile:
    """As few threads a row as registers are enough for, since what a row takes beside its words
    counts, and blocks and slots that fill an SM."""
    most = load_targets().archs[variant.arch].block_smem_bytes
    candidates = [
        ({"warps": row_threads // WARP, "row_threads": row_threads, "piece": 1}, blocks)
        for row_threads in (128, 256, 512, 1024)
        for blocks in (4, 3, 2, 1)
    ]
    for fields, blocks in candidates:
        for slots in (5, 4, 3, 2):
            tile = sized(variant, make_tile(family(), blocks=blocks, slots=slots, **fields))
            fits = (tile.smem_bytes + BLOCK_SMEM_BYTES) * blocks <= most + BLOCK_SMEM_BYTES
            spare = registers_left(variant, tile) >= SPARE_REGISTERS
            if fits and spare and not problems(variant, tile):
                return tile
    return tile


def _bulk_tile(variant: Variant) -> Tile:
    """As few threads a row as registers are enough for, since what a row takes beside its vectors
    counts; sixteen warps an SM, and as many rows as their rings have room for, or two of long ones:
    of these more on their way cost more than they bring."""
    vectors = row_vectors(variant)
    short = variant.dtype != "fp32" and vectors < BULK_SHORT_ROW_VECTORS
    row_threads = 4
    while vectors > row_threads * (BULK_SHORT_VECTORS if short else BULK_VECTORS):
        row_threads *= 2
    for slots in range(2 if vectors > BULK_LONG_ROW_VECTORS else BULK_SLOTS, 1, -1):
        tile = sized(
            variant,
            make_tile(family(), warps=BULK_WARPS, row_threads=row_threads, slots=slots),
        )
        if not problems(variant, tile):
            break
    return tile


def _summed_tile(variant: Variant) -> Tile:
    """As few threads a row as registers are enough for, and as many places as there is room for; of
    rows that begin anywhere more of either lose, where a place is long."""
    ringed = variant.rows == "ringed"
    threads_most = 1024 if ringed and "fp32" not in (variant.dtype, variant.params) else 2048
    for row_threads in SUMMED_ROW_THREADS:
        vectors = -(-row_vectors(variant) // row_threads)
        if ringed and vectors > RINGED_VECTORS and row_threads < threads_most:
            continue
        for slots, ahead in SUMMED_PLACES:
            fields = {"warps": BULK_WARPS, "row_threads": row_threads, "slots": slots}
            tile = sized(variant, make_tile(family(), ahead=ahead, **fields))
            if not problems(variant, tile):
                return tile
    return tile


def _wide_tile(variant: Variant) -> Tile:
    """As many places as there is room for; one less, where parameters have room then."""
    fields = {"warps": CLUSTER_WARPS, "row_threads": CLUSTER_WARPS * WARP}
    vectors = row_vectors(variant) // (CLUSTER_WARPS * WARP)
    batch = vectors if vectors <= WIDE_KEPT else WIDE_LONG_BATCH
    slots = WIDE_PLACES // batch - (vectors == 12)
    if _wide_parameters(variant) and variant.norm == "layer":
        slots = WIDE_DOUBLE_SLOTS[vectors]
    return sized(variant, make_tile(family(), slots=slots, **fields))


def _short_tile(variant: Variant) -> Tile:
    """A lane a row, or as many as leave each at most 16 columns. Mostly fewer warps of an SM than
    registers are enough for, since their pieces are longer then."""
    tiles = SLICE_TILES if is_slice(variant) else SHORT_TILES
    warps, lanes, blocks = next(tile for most, tile in tiles if variant.cols <= most)
    return sized(variant, make_tile(family(), warps=warps, row_threads=lanes, blocks=blocks))


def _gang_tile(variant: Variant) -> Tile:
    """Ten warps, which have 200 registers a thread, or twelve, of which those that write get 224;
    forward fourteen or fifteen, which have 128, sixteen, of which those that write get up to 168,
    or eighteen and nineteen, of which those that write get 128 and those that add up 64."""
    warps = _gang_warps(variant, GANG_WARPS)[0]
    tile = make_tile(family(), warps=warps, row_threads=GANG_WARPS * WARP, slots=GANG_SLOTS)
    return sized(variant, tile)


def _gang_warps(variant: Variant, row_warps: int) -> tuple[int, ...]:
    """How many warps a block may have, of which so many write a row; the best first."""
    if variant["pass"] == "fwd":
        of_fp32 = variant.rows in ("gang", "split") and variant.params == "fp32"
        adders = GANG_ADDERS if of_fp32 and not _is_split(variant) else GANG_FEW_ADDERS
        makers = GANG_WIDE_MAKERS if of_fp32 and variant.dtype != "fp32" else 1
        # Registers are traded between whole warpgroups: of rows that begin anywhere one warp may
        # have nothing to do.
        idle = variant.rows == "split" and makers == 1
        return (row_warps + adders + 1 + makers + _is_split(variant) + idle,)
    few, many = row_warps + GANG_OTHER_WARPS, row_warps + GANG_GROUP_WARPS
    return (many, few) if _is_split(variant) and variant.dtype != "fp32" else (few, many)


def _most_row_warps(vectors: int) -> int:
    """Of a row that is read straight into registers: what three or two blocks leave room for."""
    return DIRECT_FP32_WARPS if vectors <= DIRECT_FP32_VECTORS else DIRECT_ROW_WARPS


def _direct_tile(variant: Variant) -> Tile:
    """Eight lanes, sixteen or a warp a row, as many as leave a thread five vectors or seven; or
    warps that leave it four, up to DIRECT_ROW_WARPS. Many blocks hide that each waits for its
    rows."""
    vectors = row_vectors(variant)
    if variant.dtype == "fp32":
        warps = min(-(-vectors // (4 * WARP)), _most_row_warps(vectors))
        rounds = WHOLE_ROUNDS if vectors >= DIRECT_FP32_VECTORS else 0
        return _read_at_once(warps, warps * WARP, WHOLE_SM_THREADS, rounds)
    lanes = 8 if vectors <= 8 * 5 else 16 if vectors <= 16 * 7 else WARP
    warps = 1 if vectors <= WARP * 5 else min(-(-vectors // (4 * WARP)), DIRECT_ROW_WARPS)
    block = DIRECT_WARPS if warps == 1 else warps
    return _read_at_once(block, lanes if warps == 1 else warps * WARP, DIRECT_SM_THREADS)


def _whole_tile(variant: Variant) -> Tile:
    """As many warps as leave a thread few vectors; as many blocks as registers are enough for."""
    vectors = row_vectors(variant)
    each = WHOLE_FP32_VECTORS if variant.dtype == "fp32" else WHOLE_VECTORS
    warps = min(-(-vectors // (each * WARP)), WHOLE_WARPS)
    rings = not _wide_parameters(variant)  # that few rounds are left to
    rounds = WHOLE_ROUNDS if rings and vectors >= WHOLE_LONG_VECTORS else 0
    return _read_at_once(warps, warps * WARP, WHOLE_SM_THREADS, rounds)


def _added_tile(variant: Variant) -> Tile:
    """A warp where that leaves a thread few vectors of x and of the residual; else warps that leave
    it two, as many as half of an SM's threads leave, or of the longest rows four."""
    vectors = row_vectors(variant)
    warps = min(-(-vectors // (ADDED_VECTORS * WARP)), WHOLE_WARPS)
    if vectors <= ADDED_WARP_VECTORS:
        warps = 1
    if vectors > ADDED_LONG_VECTORS:
        warps = min(-(-vectors // (WHOLE_VECTORS * WARP)), BLOCK_THREADS_MAX // WARP)
    return _read_at_once(ADDED_WARPS if warps == 1 else warps, warps * WARP, DIRECT_SM_THREADS)


def _edged_tile(variant: Variant) -> Tile:
    """Sixteen lanes or a warp where these leave a thread six vectors or five, else warps that
    leave it four, or as many as three, two or, of the longest rows, one block leave room for; fewer
    blocks where registers would not be enough."""
    vectors = row_vectors(variant)
    wide = _wide_parameters(variant)
    if vectors <= EDGED_HALF_WARP_VECTORS - 16 * wide and variant.dtype != "fp32":
        return _read_at_once(DIRECT_WARPS, 16, DIRECT_SM_THREADS)
    if vectors <= WARP * 5:
        few = vectors > WARP * 3
        sm_threads = EDGED_SM_THREADS - WARP * ADDED_WARPS * (few + wide)
        return _read_at_once(ADDED_WARPS, WARP, sm_threads)
    warps = -(-vectors // (4 * WARP))
    if warps > EDGED_WARPS:
        warps = _most_row_warps(vectors)
    if vectors > EDGED_LONG_VECTORS:
        warps = BLOCK_THREADS_MAX // WARP
    sm_threads = DIRECT_SM_THREADS if wide and warps <= EDGED_WARPS else EDGED_SM_THREADS
    return _read_at_once(warps, warps * WARP, sm_threads)


def _moved_tile(variant: Variant) -> Tile:
    """Four lanes a row, eight, sixteen or a warp, as many as leave each six vectors or eight; of
    more than six an SM has less blocks."""
    lanes = next((lanes for most, lanes in MOVED_LANES if variant.cols <= most), WARP)
    many = row_vectors(variant) > MOVED_VECTORS * lanes
    return _read_at_once(DIRECT_WARPS, lanes, DIRECT_SM_THREADS - WARP * DIRECT_WARPS * many)


def _read_at_once(warps: int, row_threads: int, sm_threads: int, rounds: int = 0) -> Tile:
    """Of rows that are read straight into registers: blocks that make `sm_threads` threads."""
    blocks = min(max(sm_threads // (warps * WARP), 1), 32)
    return make_tile(family(), warps=warps, row_threads=row_threads, blocks=blocks, rounds=rounds)


def _apart_tile(variant: Variant) -> Tile:
    """Four vectors a thread, or as many as half of an SM's threads leave."""
    warps = min(-(-row_vectors(variant) // (WHOLE_VECTORS * WARP)), WHOLE_WARPS)
    return _read_at_once(4 if warps == 1 else warps, warps * WARP, WHOLE_SM_THREADS)


def _pairs_tile(variant: Variant) -> Tile:
    """A lane for each pair of the shortest rows, two, or eight of the longest, whose words are in
    different banks then. Blocks are small: those that wait leave room for others."""
    lanes = next(lanes for lanes, most in PAIR_LANES if variant.cols <= most)
    warps = 2 if variant.cols <= PAIRS_SHORT_COLS_MAX else 4
    tile = make_tile(
        family(),
        warps=warps,
        row_threads=lanes,
        blocks=PAIRS_SM_THREADS // (warps * WARP),
        slots=1,
        packed=1,
        piece=2 * WARP // lanes,
    )
    return sized(variant, tile)


def _gathered_tile(variant: Variant) -> Tile:
    """As few lanes a row as registers are enough for, and rows of some 3 KB; as many blocks as
    shared memory has room for of the shortest rows, or half of an SM's threads."""
    lanes, rows = next(tile[1:] for tile in GATHERED_LANES if variant.cols <= tile[0])
    fields = {"row_threads": lanes, "slots": 1, "packed": 1, "piece": rows}
    tile = sized(variant, make_tile(family(), warps=GATHERED_WARPS, **fields))
    told = _gathered_told_bytes(variant, tile) + BLOCK_SMEM_BYTES
    room = load_targets().archs[variant.arch].sm_smem_bytes // (tile.smem_bytes + told)
    return tile.replace(blocks=min(room, PAIRS_SM_THREADS // threads(tile)))


def _pieces_tile(variant: Variant) -> Tile:
    """Of words and of vectors, as many lanes a row as leave each enough of it."""
    lanes = PIECE_FP32_LANES if variant.dtype == "fp32" else PIECE_LANES
    if variant.rows == "pairs":
        lanes = PIECE_WORD_LANES
    row_bytes = variant.cols * element_bytes(variant)
    row_threads, warps, packed = next(tile[1:] for tile in lanes if row_bytes <= tile[0])
    rows = (WARP if packed else warps * WARP) // row_threads
    tile = make_tile(
        family(),
        warps=warps,
        row_threads=row_threads,
        blocks=PAIRS_SM_THREADS // (warps * WARP),
        slots=1,
        packed=packed,
        piece=rows,
    )
    return sized(variant, tile)


def fill(variant: Variant) -> Tile:
    """The rule's tile. bench/notes/layernorm.md has the measurements."""
    if not is_held(variant):
        return make_tile(family(), **LONG_TILES[variant["pass"]])
    if is_short(variant):
        return _short_tile(variant)
    if is_packed(variant):
        return _packed_tile(variant)
    if is_summed(variant):
        return _summed_tile(variant)
    if is_bulk(variant):
        return _bulk_tile(variant)
    if is_apart(variant):
        return _apart_tile(variant)
    if is_whole(variant):
        return _whole_tile(variant)
    if is_added(variant):
        return _added_tile(variant)
    if is_direct(variant):
        return _direct_tile(variant)
    if is_edged(variant):
        return _edged_tile(variant)
    if is_moved(variant):
        return _moved_tile(variant)
    if is_wide(variant):
        return _wide_tile(variant)
    if is_pieces(variant):
        return _pieces_tile(variant)
    if is_pairs(variant):
        return _pairs_tile(variant)
    if is_gathered(variant):
        return _gathered_tile(variant)
    if is_gang(variant):
        return _gang_tile(variant)
    if is_odd(variant):
        return _odd_tile(variant)
    if is_shared(variant):
        if is_sorted(variant):
            return _sorted_tile(variant)
        return _odd_cluster_tile(variant) if variant.rows == "odd" else _cluster_tile(variant)
    candidates = _forward_tiles(variant) if variant["pass"] == "fwd" else _backward_tiles(variant)
    for candidate in candidates:
        tile = sized(variant, candidate)
        while registers_left(variant, tile) < SPARE_REGISTERS and tile.blocks > 1:
            tile = tile.replace(blocks=tile.blocks - 1)
        if registers_left(variant, tile) >= SPARE_REGISTERS and not problems(variant, tile):
            break
    return tile


def _walking(variant: Variant, each: int, sm_threads: int, short: int, **fields: int) -> Tile:
    """A tile of `each` vectors a thread, or as many as 1024 threads leave, in blocks of at least
    `short` threads, and as many blocks as make `sm_threads` threads of an SM."""
    row_threads = min(max(row_vectors(variant) // each, 4), BLOCK_THREADS_MAX)
    warps = max(row_threads, short) // WARP
    blocks = max(sm_threads // (warps * WARP), 1)
    return make_tile(family(), warps=warps, row_threads=row_threads, blocks=blocks, **fields)


def _wide_parameters(variant: Variant) -> bool:
    return variant.params == "fp32" and variant.dtype != "fp32"


def _forward_tiles(variant: Variant) -> Iterator[Tile]:
    """Two vectors of a row a thread while a quarter of a warp is enough, else four (three, five or
    seven, where a row has so many times a power of two); the next row is loaded ahead, and weight
    and bias are kept, where registers are enough for it."""
    vectors = row_vectors(variant)
    each = next((odd for odd in (3, 5, 7) if vectors % odd == 0), 2 if vectors < 4 * WARP else 4)
    sm_threads = 768 if each in (2, 3) else 512
    if not _wide_parameters(variant):
        yield _walking(variant, each, sm_threads, 128, ahead=1, weight_held=1)
    yield _walking(variant, each, sm_threads, 128, ahead=1)
    yield _walking(variant, each, sm_threads, 128, slots=1)


def _backward_tiles(variant: Variant) -> Iterator[Tile]:
    """Two vectors of a row a thread, and the next row is loaded ahead; or three, where a row has
    three times a power of two, and rows wait in shared memory, as longer ones do."""
    each = 3 if row_vectors(variant) % 3 == 0 else 2
    if each == 2 and row_vectors(variant) <= 1024 and not _wide_parameters(variant):
        yield _walking(variant, each, 512, 256, ahead=1, weight_held=1)
    sm_threads, short = (384, 128) if each == 3 else (512, 256)
    for slots in (2, 1):
        for more in (each, 2 * each):
            for held in (1, 0):
                yield _walking(variant, more, sm_threads, short, slots=slots, weight_held=held)
