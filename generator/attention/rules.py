"""What attention's data cannot say: shared memory, threads and registers of its tiles, which tiles
are legal, and the rule that gives a variant one where tiles.toml has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from generator import GeneratorError
from generator.family import Family, family_of, holds
from generator.targets import Limits, load_targets
from generator.tiles import Tile, sized, tile_of
from generator.tiles import make_tile as make_any_tile
from generator.variant import Variant
from generator.variant import make_variant as make_any_variant

SMEM_RESERVED_BYTES = 1024  # that the driver adds to each block
SM_REGISTERS = 65536
THREAD_REGISTERS = 255
OTHER_REGISTERS = 60  # addresses, loop state, fragments in flight, softmax rows
# What the features take, by tile class: of sm80's kernels, of those with producers over the bias of
# a key block. NARROW_CLASS: from here on the compiler fetches as much bias ahead as it finds
# registers for, and some more, so that sm80's key blocks have few keys.
FEATURE_REGISTERS = (0, 12, 44, 44, 60, 60, 84)
CONSUMER_FEATURE_REGISTERS = (0, 0, 32, 32, 48, 48, 48)
NARROW_CLASS, NARROW_KEYS = 2, 32

# The sm90 template: a warpgroup that copies, the producer, and one for each 64 rows, the consumers.
CONSUMER_REGISTERS = {1: 240, 2: 240, 3: 160, 4: 112}  # of a thread, by the number of consumers
BACKWARD_OTHER_REGISTERS = 40  # as OTHER_REGISTERS, of the backward template, at the least
# Beside softcap's derivative, by tile class.
BACKWARD_FEATURE_REGISTERS = (0, 8, 24, 64, 64, 64, 64)
# For dK, dV and the fragments of K and V of a consumer, where some of these stay in registers:
# without warps of dQ's own, and with these; as the compiler of CUDA 13 takes it without spills.
FRAGMENT_ROOM, FRAGMENT_ROOM_BESIDE_DQ = 120, 100
FRAGMENT_FEATURE_ROOM = 4  # of that, dropout and biases take, and features of ragged sequences
FRAGMENT_SOFTCAP_ROOM = 20  # and a softcap, without such warps
CONSUMER_OTHER_REGISTERS = 32  # all but S, P and O
NUMBER_ATOM_BYTES = 1024  # of the numbers of 64 keys, of sm90's kernels with ALiBi: likewise
DROPOUT_KEY_BYTES = 4  # of a key in a stage, of sm90's kernels with dropout: likewise
RUNS_SEQUENCES = 1024  # ATTNPRESS_RUNS_SEQUENCES_MAX
FOUND_UNIT_BYTES = 1024  # of sm90's kernels that write units down: static shared memory, at most
KEPT_ROW_BYTES = 32  # of what a row of splits that are added up counts, by its four threads
GATHERING_WARPGROUPS = 2  # of sm90's kernels of few rows whose keys are in pages
ENTRY_PLACES = 4  # key blocks whose entries of the page table they ask for ahead
SPREAD_COLUMNS = 16  # of K, at the least, where copies start between the steps of the products
SLAB_COLUMNS = 64  # of Q, K and V in shared memory: rows of 128 bytes
WIDE_COLUMNS = 256  # of O: above, two consumers share them
WIDE_PLACES = 2  # for P between them
WIDE_REGISTERS = 232  # of a thread; the producer has more to do, and keeps 40


def family() -> Family:
    return family_of("attention")


# As many rows as a warpgroup of the sm90 template has, and as many threads as its producer.
CONSUMER_ROWS = family().constants["warpgroup_rows"]
KEPT_COLUMNS = family().constants["kept_columns"]
KEPT_BESIDE = family().constants["kept_beside"]
PRODUCER_THREADS = family().constants["producer_threads"]
DECODE_ROWS = family().constants["decode_rows"]
FEW_ROWS = family().constants["few_rows"]
SHORT_SPLIT_KEYS = family().constants["short_split_keys"]


# Passes of the backward template, and those of them whose thread blocks own keys.
BACKWARD_PASSES = ("bwd", "bwd_dkv", "bwd_dq")
KEY_PASSES = ("bwd", "bwd_dkv")


def make_variant(
    pass_: str,
    hdim: int,
    hdim_v: int,
    dtype: str,
    mask: str = "full",
    split: bool = False,
    decode: bool = False,
    arch: int = 80,
) -> Variant:
    """A variant by position."""
    axes = {"pass": pass_, "hdim": hdim, "hdim_v": hdim_v, "dtype": dtype}
    return make_any_variant(family(), **axes, mask=mask, split=split, decode=decode, arch=arch)


def make_tile(
    block_m: int,
    block_n: int,
    warps_m: int,
    warps_n: int,
    stages: int,
    k_slab: int,
    v_slab: int,
    q_in_regs: int = 0,
    min_blocks: int = 1,
    k_unroll: int = 0,
    **fields: int,
) -> Tile:
    """A tile by position; family.toml says what each field is."""
    return make_any_tile(
        family(),
        block_m=block_m,
        block_n=block_n,
        warps_m=warps_m,
        warps_n=warps_n,
        stages=stages,
        k_slab=k_slab,
        v_slab=v_slab,
        q_in_regs=q_in_regs,
        min_blocks=min_blocks,
        k_unroll=k_unroll,
        **fields,
    )


def _warps(tile: Tile) -> int:
    return tile.warps_m * tile.warps_n * tile.warps_k


def threads(tile: Tile) -> int:
    """Of a thread block."""
    # dQ of sm90 may have warps of its own.
    others = PRODUCER_THREADS + 32 * tile.dq_warps * (tile.dq_warps != DQ_BY_CONSUMERS)
    return 32 * _warps(tile) + others * tile.producer


def consumers(tile: Tile) -> int:
    """Warpgroups that compute, where there is a producer."""
    return max(tile.block_m // CONSUMER_ROWS, 1)


def producer_tile(
    variant: Variant,
    block_m: int,
    block_n: int,
    stages: int,
    dq_warps: int = 0,
    k_in_regs: int = 0,
    v_in_regs: int = 0,
    q_in_regs: int = 0,
) -> Tile:
    """A tile of an sm90 template: what its three numbers leave open follows from them."""
    warps_m = (128 if variant["pass"] in KEY_PASSES else max(block_m, CONSUMER_ROWS)) // 16
    warps_n = 1
    if shares_columns(variant, block_n) and not dq_warps:
        warps_m = COLUMN_CONSUMERS * CONSUMER_ROWS // 16
    if is_wide(variant):
        warps_m, warps_n = CONSUMER_ROWS // 16, 2
    if (
        variant.decode
        and variant.sequences == "paged"
        and not shares_splits(variant)
        and not variant.runs
    ):
        columns = max(variant.hdim, variant.hdim_v)
        warps_n = 1 + (GATHERING_WARPGROUPS if columns <= KEPT_COLUMNS else 1)
    if shares_splits(variant) and variant.hdim == 128:  # so that each has a pair of tiles of 8 keys
        warps_m, warps_n = 3, 2
    tile = make_tile(
        block_m, block_n, warps_m, warps_n, stages, variant.hdim, block_n, producer=1,
        dq_warps=dq_warps, k_in_regs=k_in_regs, v_in_regs=v_in_regs, q_in_regs=q_in_regs,
    )  # fmt: skip
    return sized(variant, tile)


def shares_columns(variant: Variant, block_n: int) -> bool:
    """Whether the consumers of a backward kernel of sm90 have columns of dK and dV, transposed,
    for all keys of a thread block."""
    return variant["pass"] == "bwd" and variant.arch == 90 and block_n in COLUMN_KEYS


def shares_splits(variant: Variant) -> bool:
    """Whether thread blocks of a cluster share a split."""
    return variant.shared != "none"


def split_sharing(variant: Variant) -> int:
    """How many do."""
    return {"four": 4, "two": 2}[str(variant.shared)]


def is_wide(variant: Variant) -> bool:
    """Whether two consumers share the columns of O, which would not fit the registers of one. Then
    a thread block has the rows of one consumer."""
    return variant["pass"] == "fwd" and variant.arch == 90 and variant.hdim_v > WIDE_COLUMNS


def dbias_tile(variant: Variant, block_m: int, block_n: int, warps_m: int, warps_n: int) -> Tile:
    """A tile of the gradient by the bias."""
    return sized(variant, make_tile(block_m, block_n, warps_m, warps_n, 0, 0, 0))


def complete(variant: Variant, fields: dict[str, int]) -> dict[str, int]:
    """What the name of a tile with a producer, or of a backward kernel, leaves open."""
    if not fields.get("producer"):
        return {"k_slab": 0, "v_slab": 0, **fields} if fields.get("acc_warps") else fields
    names = (
        *("block_m", "block_n", "stages", "dq_warps"),
        *("k_in_regs", "v_in_regs", "q_in_regs"),
    )
    tile = producer_tile(variant, **{name: fields[name] for name in names})
    return {field.name: tile[field.name] for field in tile.family.fields}


def fit(variant: Variant, other: Variant, tile: Tile) -> Tile:
    """The tile of another pair of head dims, for this one's; its twin: runtime/attention/tile.c."""
    if not tile.producer and tile.k_slab:
        if tile.k_slab == other.hdim or tile.k_slab > variant.hdim:
            tile = tile.replace(k_slab=variant.hdim)
        if tile.spread and variant.hdim < SPREAD_COLUMNS:
            tile = tile.replace(spread=0)
    elif tile.producer:
        tile = tile.replace(k_slab=variant.hdim)
    return sized(variant, tile)


# ---- Shared memory, registers, legality ---------------------------------------------------------


def row_bytes(columns: int) -> int:
    """Bytes of a row of 16-bit values in shared memory: padded to an odd count of 16-byte chunks,
    so that the eight rows of an ldmatrix lie in different banks."""
    return 16 * ((columns // 8) | 1)


def smem_bytes(variant: Variant, tile: Tile) -> int:
    """Dynamic shared memory of a thread block. The kernel asserts the same formula."""
    if variant["pass"] in ROW_TILES:
        return 0
    if variant["pass"] == "bwd_dbias":  # Q and dO, K and V
        rows = tile.block_m + tile.block_n
        return rows * (row_bytes(variant.hdim) + row_bytes(variant.hdim_v))
    if variant["pass"] in BACKWARD_PASSES and tile.producer:
        return _backward_producer_smem_bytes(variant, tile)
    if variant["pass"] in BACKWARD_PASSES:
        return _backward_smem_bytes(variant, tile)
    if is_wide(variant) and tile.producer:
        return _wide_smem_bytes(variant, tile)
    if shares_splits(variant):
        return _shared_smem_bytes(variant, tile)
    if variant.runs and tile.producer:  # rings of K and V, of 16 rows' warps a key head
        row_bytes_ = 2 * (variant.hdim + variant.hdim_v)
        return tile.block_m // 16 * tile.stages * tile.block_n * row_bytes_
    if tile.producer:
        return _producer_smem_bytes(variant, tile)
    q_bytes = tile.block_m * row_bytes(variant.hdim)
    if tile.warps_k > 1:  # a ring for each warp; at the end its part of O, maxima and sums
        keys = tile.block_n // tile.warps_k
        slot_bytes = 2 * max(keys * tile.k_slab, tile.v_slab * variant.hdim_v)  # swizzled
        part_bytes = tile.block_m * (4 * variant.hdim_v + 32)
        return q_bytes + tile.warps_k * max(tile.stages * slot_bytes, part_bytes)
    slot_bytes = max(tile.block_n * row_bytes(tile.k_slab), tile.v_slab * row_bytes(variant.hdim_v))
    exchange_bytes = 0  # P, and the row maxima, between warps that share rows
    if tile.warps_n > 1:
        exchange_bytes = tile.block_m * (row_bytes(tile.block_n) + 4 * tile.warps_n)
    o_bytes = 0 if variant.split else tile.block_m * row_bytes(variant.hdim_v)
    return max(q_bytes + tile.stages * slot_bytes + exchange_bytes, o_bytes)


def keeps_output(variant: Variant, tile: Tile) -> bool:
    """Whether a thread block that adds up the splits of its rows keeps them in shared memory: where
    the tile, which tiles.toml gives these kernels, leaves the room of a third stage."""
    splits = variant.split and variant.sequences != "dense"
    return splits and variant.hdim == variant.hdim_v == KEPT_COLUMNS and tile.stages == 2


def keeps_beside(variant: Variant) -> bool:
    """The same beside all stages, with what its rows count, but where splits are few rows'. Such
    kernels bring Q of a unit while that of the unit before is still read."""
    splits = variant.split and variant.sequences != "dense" and not variant.decode
    return splits and variant.hdim == variant.hdim_v == KEPT_BESIDE and variant.mask != "window"


def _q_places(variant: Variant, tile: Tile) -> int:
    """Of Q of all consumers. Ragged kernels of four of them, and those of few rows, bring a unit's
    while that of the unit before is still read."""
    count = consumers(tile)
    if keeps_beside(variant):
        return 2 * (4 if count == 3 else count)  # a unit's are a power of two
    ahead = variant.decode or (count == 4 and variant.sequences == "ragged")
    return (2 if ahead else 1) * count


def _producer_smem_bytes(variant: Variant, tile: Tile) -> int:
    """Q of consumers, rings of K and V, and the barriers: two a place of Q and four a stage; and
    of a bias of 16 bits two key blocks, or one where there is no room, with two barriers each; and
    O of all rows in fp32, where splits at fixed places keep it there."""
    k_slabs = _ceil_div(variant.hdim, SLAB_COLUMNS)
    v_slabs = _ceil_div(variant.hdim_v, SLAB_COLUMNS)
    row_bytes_ = 2 * SLAB_COLUMNS  # of a slab; the 128-byte swizzle needs no padding
    places = _q_places(variant, tile)
    q_rows = FEW_ROWS if variant.decode else CONSUMER_ROWS
    q_bytes = places * q_rows * k_slabs * row_bytes_
    ring_bytes = tile.stages * tile.block_n * (k_slabs + v_slabs) * row_bytes_
    bytes_ = q_bytes + ring_bytes + 8 * (2 * places + 4 * tile.stages)
    if keeps_output(variant, tile):
        return bytes_ + tile.block_m * variant.hdim_v * 4
    if keeps_beside(variant) and not variant.few:
        return bytes_ + tile.block_m * (variant.hdim_v * 4 + KEPT_ROW_BYTES)
    if variant.bias not in ("fp16", "bf16"):
        return bytes_
    place_bytes = tile.block_m * _ceil_div(tile.block_n, SLAB_COLUMNS) * row_bytes_ + 16
    two = bytes_ + 2 * place_bytes
    return two if two <= _producer_smem_limit(variant, tile) else two - place_bytes


def _shared_smem_bytes(variant: Variant, tile: Tile) -> int:
    """Q, own key blocks of K, own columns of V of all keys of a split, and own P in fp32, or
    before it where keys in pages lie; all P takes K's place."""
    own_keys = _ceil_div(tile.stages, split_sharing(variant)) * tile.block_n
    split_keys = tile.stages * tile.block_n
    k_bytes = (FEW_ROWS + own_keys) * row_bytes(variant.hdim)
    v_bytes = split_keys * row_bytes(variant.hdim_v // split_sharing(variant))
    p_bytes = own_keys // 8 * 32 * 8
    return k_bytes + v_bytes + max(p_bytes, 16 * split_keys if variant.sequences == "paged" else 0)


def _producer_smem_limit(variant: Variant, tile: Tile) -> int:
    """What static shared memory leaves."""
    limit = limits(variant).block_smem_bytes
    if variant.runs:  # and the lengths, barriers
        return limit - RUNS_SEQUENCES * 4 - 4 * 8 * tile.stages
    if variant.decode:  # and entries of K and V, with two barriers a place
        return limit - FOUND_UNIT_BYTES - ENTRY_PLACES * (2 * 4 * tile.block_n + 2 * 8)
    if variant.sequences != "dense" or variant.mod_mask:
        return limit - FOUND_UNIT_BYTES
    if variant.tile_class:
        # Some have dropout, others ALiBi, whose product is of up to 128 columns of O.
        numbers = NUMBER_ATOM_BYTES * _ceil_div(tile.block_n, SLAB_COLUMNS)
        words = DROPOUT_KEY_BYTES * tile.stages * tile.block_n
        return limit - max(words, numbers if variant.hdim_v <= 128 else 0)
    return limit


def _wide_smem_bytes(variant: Variant, tile: Tile) -> int:
    """Q, the ring of V, P and the factors of its rows, those of a unit's end, the barriers; and two
    key blocks of K, or one where there is no room, with two barriers a slab."""
    k_slabs = _ceil_div(variant.hdim, SLAB_COLUMNS)
    v_slabs = _ceil_div(variant.hdim_v, SLAB_COLUMNS)
    slab_bytes = tile.block_n * 2 * SLAB_COLUMNS
    p_bytes = WIDE_PLACES * (CONSUMER_ROWS * tile.block_n * 2 + CONSUMER_ROWS * 4)
    barriers = 4 + 4 * tile.stages + 2 * WIDE_PLACES
    other_bytes = (
        CONSUMER_ROWS * 2 * SLAB_COLUMNS * k_slabs
        + tile.stages * v_slabs * slab_bytes
        + p_bytes
        + CONSUMER_ROWS * 4
        + 8 * barriers
    )
    k_bytes = k_slabs * (slab_bytes + 16)
    two = other_bytes + 2 * k_bytes
    return two if two <= limits(variant).block_smem_bytes else two - k_bytes


@dataclass(frozen=True)
class Sides:
    """What a thread block of a backward kernel owns, and what it walks over: keys and queries, or
    the other way round."""

    own_rows: int
    own_warps: int  # of S
    walk_rows: int
    walk_warps: int

    @classmethod
    def of(cls, variant: Variant, tile: Tile) -> Sides:
        queries, keys = (tile.block_m, tile.warps_m), (tile.block_n, tile.warps_n)
        if variant["pass"] in KEY_PASSES:
            return cls(*keys, *queries)
        return cls(*queries, *keys)

    def in_registers(self, tile: Tile) -> bool:
        """Whether a warp's P and dS are just what its products of them need."""
        return self.walk_warps == 1 and tile.acc_warps == self.own_warps


def _backward_smem_bytes(variant: Variant, tile: Tile) -> int:
    """K and V, or Q and dO; the ring of what is walked over; P and dS between warps."""
    sides = Sides.of(variant, tile)
    rows_bytes = row_bytes(variant.hdim) + row_bytes(variant.hdim_v)
    slot_bytes = sides.walk_rows * row_bytes(variant.hdim)
    v_slot_bytes = sides.walk_rows * row_bytes(variant.hdim_v)
    v_stages = tile.v_stages or tile.stages
    exchanged = 0 if sides.in_registers(tile) else 1
    if variant["pass"] in KEY_PASSES:
        slot_bytes += sides.walk_rows * 8  # lse and delta
        exchanged *= 2
    if variant["pass"] == "bwd":
        exchanged = max(exchanged, 1)
    exchange_bytes = exchanged * sides.own_rows * row_bytes(sides.walk_rows)
    ring_bytes = tile.stages * slot_bytes + v_stages * v_slot_bytes
    return sides.own_rows * rows_bytes + ring_bytes + exchange_bytes


def _backward_producer_smem_bytes(variant: Variant, tile: Tile) -> int:
    """K and V, rings of Q and dO, dS of two steps, or P and dS, dQ of a step where the copy engine
    adds it, a ring of lse and delta, and the barriers: six, three a stage, and four of dQ's place
    where consumers compute it in turn. Of bwd_dq Q and dO, rings of K and V, and the barriers."""
    slabs = _ceil_div(variant.hdim, SLAB_COLUMNS) + _ceil_div(variant.hdim_v, SLAB_COLUMNS)
    if variant["pass"] == "bwd_dq":
        rows = tile.block_m + tile.stages * tile.block_n
        return 2 * SLAB_COLUMNS * slabs * rows + 8 * (2 + 3 * tile.stages)
    if shares_columns(variant, tile.block_n):
        return _column_smem_bytes(variant, tile)
    rows = tile.block_n + tile.stages * tile.block_m
    ds_bytes = 2 * tile.block_n * row_bytes(tile.block_m) if variant["pass"] == "bwd" else 0
    if tile.dq_warps == DQ_BY_CONSUMERS:
        ds_bytes = 2 * 2 * tile.block_n * tile.block_m + 2 * 4 * tile.block_m * SLAB_COLUMNS
        ds_bytes += 4 * 8
        if variant.runs:  # a second place of K
            ds_bytes += 2 * SLAB_COLUMNS * _ceil_div(variant.hdim, SLAB_COLUMNS) * tile.block_n
    elif exchanges(variant):
        ds_bytes = 4 * tile.block_n * 2 * SLAB_COLUMNS
        if variant["pass"] == "bwd" and variant.hdim > 128 and slabs * (tile.stages + 1) <= 20:
            ds_bytes += 2 * 4 * tile.block_m * SLAB_COLUMNS  # two parts of dQ
    elif variant["pass"] == "bwd" and (tile.dq_warps > 0 or not _changes_scores(variant)):
        ds_bytes += 4 * tile.block_m * variant.hdim
        if (
            tile.dq_warps == 4
            and variant.hdim == variant.hdim_v
            and variant.hdim <= 64
            and not _changes_scores(variant)
        ):  # dO and out of two warps' rows that they prepare, and zeros
            ds_bytes += 2 * 2 * 2 * SLAB_COLUMNS * tile.block_m + 4096
        ds_bytes += 8 * 3 * (not tile.dq_warps)
    ring_bytes = tile.stages * (8 * tile.block_m + 3 * 8)
    return 2 * SLAB_COLUMNS * slabs * rows + ds_bytes + ring_bytes + 6 * 8


def _column_smem_bytes(variant: Variant, tile: Tile) -> int:
    """K and V; rings of Q and lse and, of two stages, of dO and delta; P and dS of two slabs each,
    and the barriers."""
    k_slabs = _ceil_div(variant.hdim, SLAB_COLUMNS)
    v_slabs = _ceil_div(variant.hdim_v, SLAB_COLUMNS)
    do_stages = 1 if tile.dq_warps else COLUMN_DO_STAGES
    places = tile.stages * k_slabs + do_stages * v_slabs + 4
    slab_rows = (k_slabs + v_slabs) * tile.block_n + places * tile.block_m
    stages = tile.stages + do_stages
    kept = 2 * tile.block_m * tile.block_n if tile.dq_warps else 0
    return 2 * SLAB_COLUMNS * slab_rows + kept + stages * (4 * tile.block_m + 2 * 8) + 6 * 8


def _changes_scores(variant: Variant) -> bool:
    return bool(variant.softcap or variant.alibi or variant.bias != "none" or variant.dropout)


def exchanges(variant: Variant) -> bool:
    """Whether P and dS of a thread block of sm90 that owns keys pass through shared memory."""
    if variant["pass"] == "bwd" and variant.few:
        return True
    for template in family().templates:
        if template.name == EXCHANGE_TEMPLATE:
            return holds(template.where, family(), variant.values)
    return False


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _backward_registers(variant: Variant, tile: Tile) -> int:
    """dK and dV, or dQ; above them S and dP, or a step's dQ."""
    sides, warps = Sides.of(variant, tile), _warps(tile)
    columns = _ceil_div(variant.hdim // 8, warps // tile.acc_warps)
    if variant["pass"] in KEY_PASSES:
        columns += _ceil_div(variant.hdim_v // 8, warps // tile.acc_warps)
    kept = sides.own_rows // (16 * tile.acc_warps) * columns * 4
    scores = sides.own_rows // (16 * sides.own_warps) * (sides.walk_rows // (8 * sides.walk_warps))
    dq_columns = _ceil_div(variant.hdim // 8, warps // tile.dq_warps) if tile.dq_warps else 0
    dq = tile.block_m // (16 * tile.dq_warps) * dq_columns * 4 if tile.dq_warps else 0
    tile_class = variant.tile_class
    features = BACKWARD_FEATURE_REGISTERS[tile_class]
    if tile_class:  # the derivative of a softcap may be among them, in 16 bits
        features += 2 * scores
    return kept + max(2 * scores * 4 + features, dq) + BACKWARD_OTHER_REGISTERS


def registers(variant: Variant, tile: Tile) -> int:
    """An estimate of the 32-bit registers of a thread."""
    if variant["pass"] in BACKWARD_PASSES:
        return _backward_registers(variant, tile)
    features = variant.tile_class
    if is_wide(variant) and tile.producer:
        # The left consumer's: S and its columns of O in fp32, P in 16 bits.
        columns = _ceil_div(variant.hdim_v, SLAB_COLUMNS) // 2 * SLAB_COLUMNS
        scores = tile.block_n // 2 + tile.block_n // 4
        return (
            max(columns // 2 + scores, (variant.hdim_v - columns) // 2 + tile.block_n // 4)
            + CONSUMER_OTHER_REGISTERS
        )
    if tile.producer:  # S and O in fp32, P in 16 bits, over the 128 threads of a consumer
        s_registers, p_registers = tile.block_n // 2, tile.block_n // 4
        bias = (0, 0, p_registers, p_registers, s_registers, s_registers, s_registers)[features]
        bias += CONSUMER_FEATURE_REGISTERS[features]
        # O leaves room for some of them.
        square = variant.hdim == variant.hdim_v == 128
        if (features == 2 and variant.hdim_v <= 128) or (features == 3 and square):
            bias -= 16
        q_registers = _ceil_div(variant.hdim, 16) * 4 if tile.q_in_regs else 0
        others = bias + q_registers + CONSUMER_OTHER_REGISTERS
        return s_registers + p_registers + variant.hdim_v // 2 + others
    rows = tile.block_m // tile.warps_m // 16
    o_registers = rows * _ceil_div(variant.hdim_v // 8, tile.warps_n) * 4
    s_registers = rows * (tile.block_n // 8 // (tile.warps_n * tile.warps_k)) * 4
    q_registers = rows * _ceil_div(variant.hdim, 16) * 4 if tile.q_in_regs else 0
    return o_registers + s_registers + q_registers + FEATURE_REGISTERS[features] + OTHER_REGISTERS


def register_budget(tile: Tile) -> int:
    """Registers that a thread may have where min_blocks blocks are to share an SM; of a consumer,
    what the producer leaves."""
    if tile.producer and tile.warps_n > 1:
        return WIDE_REGISTERS
    if tile.producer:
        return CONSUMER_REGISTERS[consumers(tile)]
    share = SM_REGISTERS // (tile.threads * tile.min_blocks)
    return min(THREAD_REGISTERS, share // 8 * 8)


def needed(variant: Variant) -> tuple[Variant, ...]:
    """The kernels that calls launch after this one: what adds up the parts of a split run."""
    if variant["pass"] != "fwd" or not variant.split:
        return ()
    combine = make_variant("fwd_combine", variant.hdim_v, variant.hdim_v, variant.dtype)
    return (combine if variant.sequences == "dense" else combine.replace(sequences="ragged"),)


def limits(variant: Variant, target: str | None = None) -> Limits:
    """Of a target with limits of its own, else of the variant's architecture."""
    targets = load_targets()
    if target in family().tile_targets:
        return targets.targets[target].limits
    return targets.archs[variant.arch]


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, on one target or (None) on each that its
    architecture serves; one sentence each; empty: legal."""
    if (tile.k_in_regs or tile.v_in_regs) and not _may_keep_fragments(variant):
        return ["k_in_regs and v_in_regs are of bwd and bwd_dkv of sm90 up to head dim 128"]
    if variant["pass"] in ROW_TILES:
        plain = ROW_TILES[variant["pass"]]
        legal = tile.block_m > 0 and tile == plain.replace(block_m=tile.block_m)
        name = variant["pass"].removeprefix("fwd_").removeprefix("bwd_")
        return [] if legal else [f"a {name} tile is {plain.name} except for its rows"]
    if variant["pass"] == "bwd_dbias":
        return _dbias_problems(variant, tile)
    if variant["pass"] in BACKWARD_PASSES and variant.arch == 90:
        return _backward_producer_problems(variant, tile)
    if variant["pass"] in BACKWARD_PASSES:
        return _backward_problems(variant, tile, target)
    if tile.acc_warps or tile.dq_warps or tile.v_stages:
        return ["acc_warps, dq_warps and v_stages are of the backward pass"]
    if tile.producer and variant.arch != 90:
        return ["a tile with a producer needs sm90"]
    if variant.arch == 90:
        return _producer_problems(variant, tile)
    positive = (
        "block_m", "block_n", "warps_m", "warps_n", "warps_k", "k_slab", "v_slab", "min_blocks",
    )  # fmt: skip
    for name in positive:
        if getattr(tile, name) < 1:
            return [f"{name} {getattr(tile, name)} is not positive"]
    smem_needed, smem_limit = smem_bytes(variant, tile), limits(variant, target).block_smem_bytes
    needed, budget = registers(variant, tile), register_budget(tile)
    k_slab_whole = tile.k_slab == variant.hdim
    checks = (
        (tile.block_m % (16 * tile.warps_m) == 0, "block_m is not a multiple of 16 * warps_m"),
        (
            tile.block_n % (16 * tile.warps_n * tile.warps_k) == 0,
            "block_n is not a multiple of 16 * warps_n * warps_k",
        ),
        (
            tile.warps_k == 1 or (tile.warps_m == tile.warps_n == 1 and not tile.spread),
            "warps with keys of their own need warps_m 1, warps_n 1 and no spread copies",
        ),
        (
            not (tile.spread and variant.mod_mask),
            "spread copies walk over every key block: they go with no snippet's mask",
        ),
        (tile.warps_k == 1 or variant.decode, "warps with keys of their own need decode"),
        (
            tile.warps_k == 1 or max(variant.hdim, variant.hdim_v) <= 256,
            "warps with keys of their own need head dims up to 256: a warp copies a row at a time",
        ),
        (
            tile.warps_k == 1
            or variant.sequences != "paged"
            or tile.block_n // tile.warps_k <= (64 if variant.runs else 32),
            "block_n / warps_k is over 32, of runs 64: lanes look up the pages of one key, or two",
        ),
        (tile.threads <= 1024, f"{tile.threads} threads are more than 1024"),
        (tile.stages >= 2, "stages is less than 2"),
        (tile.k_unroll >= 0, "k_unroll is negative"),
        (not (tile.q_in_regs and tile.k_unroll), "Q in registers needs k_unroll 0"),
        (
            not tile.spread
            or (
                k_slab_whole
                and tile.k_slab >= SPREAD_COLUMNS
                and tile.v_slab == tile.block_n
                and not tile.k_unroll
            ),
            "spread copies need whole slabs and k_unroll 0",
        ),
        (tile.k_slab <= variant.hdim, f"k_slab is more than the head dim, {variant.hdim}"),
        (k_slab_whole or tile.k_slab % 16 == 0, "k_slab is neither whole nor a multiple of 16"),
        (tile.v_slab % 16 == 0, "v_slab is not a multiple of 16"),
        (
            tile.block_n // tile.warps_k % tile.v_slab == 0,
            "v_slab does not divide block_n / warps_k",
        ),
        (tile.smem_bytes == smem_needed, f"smem_bytes is {tile.smem_bytes}, not {smem_needed}"),
        (smem_needed <= smem_limit, f"{smem_needed} bytes of shared memory are over {smem_limit}"),
        (needed <= budget, f"about {needed} registers a thread are over {budget}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def _has_q_fragments(variant: Variant) -> bool:
    """Whether the sm90 template can keep Q in registers."""
    return variant.sequences == "dense" and variant.tile_class == 0


def _has_four_consumers(variant: Variant) -> bool:
    """Whether the sm90 template can have four consumers, whose registers leave no room for more
    than masks."""
    return not variant.split and variant.tile_class == 0


def _producer_problems(variant: Variant, tile: Tile) -> list[str]:
    """problems() of the sm90 template's tiles."""
    if not tile.producer:
        return ["sm90 needs a tile with a producer, such as m128n176s2"]
    wide = is_wide(variant)
    if wide and tile.block_m != CONSUMER_ROWS:
        return [f"block_m is {tile.block_m}, not 64: two consumers share the rows of one"]
    if variant.runs and (tile.block_m, tile.block_n) != RUNS_SHAPE[:2]:
        return [f"a tile of runs is m{RUNS_SHAPE[0]}n{RUNS_SHAPE[1]} on sm90"]
    if variant.decode and not variant.runs and tile.block_m != FEW_ROWS:
        return [f"block_m is {tile.block_m}, not {FEW_ROWS}: the first rows of a consumer"]
    if not variant.decode and tile.block_m not in (
        CONSUMER_ROWS * count for count in CONSUMER_REGISTERS
    ):
        return [f"block_m {tile.block_m} is none of 64, 128, 192, 256: consumers of 64 rows"]
    plain = producer_tile(
        variant, tile.block_m, tile.block_n, tile.stages, q_in_regs=tile.q_in_regs
    )
    limit = _producer_smem_limit(variant, tile)
    needed, budget = registers(variant, tile), register_budget(tile)
    if variant.runs:
        needed = 0  # far fewer than a consumer's of 64 rows
    checks = (
        (
            tile.block_n in range(16, 257, 16),
            f"block_n {tile.block_n} is not a multiple of 16 from 16 to 256",
        ),
        (wide or tile.stages >= 2, "stages is less than 2"),
        (tile.stages >= 1, "stages is less than 1"),
        (
            not tile.q_in_regs or (_has_q_fragments(variant) and not wide),
            "Q in registers is of dense sequences without features, head dims up to 256",
        ),
        (
            consumers(tile) < 4 or _has_four_consumers(variant),
            "four consumers are of kernels without features and splits",
        ),
        (tile == plain, f"{tile.name} has other fields than {plain}"),
        (plain.smem_bytes <= limit, f"{plain.smem_bytes} bytes of shared memory are over {limit}"),
        (needed <= budget, f"about {needed} registers a thread are over {budget}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def _divides(part: int, whole: int) -> bool:
    return part > 0 and whole > 0 and whole % part == 0


def _backward_problems(variant: Variant, tile: Tile, target: str | None) -> list[str]:
    """problems() of the backward template's tiles."""
    if tile.producer or not tile.acc_warps:
        return ["the backward pass needs a tile such as m64n128w1x8a8d2s2"]
    if min(tile.block_m, tile.block_n, _warps(tile), tile.min_blocks) < 1:
        return ["block_m, block_n, the warps and min_blocks must be positive"]
    sides, warps = Sides.of(variant, tile), _warps(tile)
    fused = variant["pass"] == "bwd"
    shape = (
        (_divides(16 * tile.warps_m, tile.block_m), "block_m is not a multiple of 16 * warps_m"),
        (_divides(16 * tile.warps_n, tile.block_n), "block_n is not a multiple of 16 * warps_n"),
        (_divides(tile.block_m, 128), "block_m does not divide 128"),
        (_divides(16 * tile.acc_warps, sides.own_rows), "16 * acc_warps does not divide the rows"),
        (_divides(tile.acc_warps, warps), "acc_warps does not divide the warps"),
        (bool(tile.dq_warps) == fused, "dq_warps is of the pass bwd, which needs it"),
        (not fused or _divides(16 * tile.dq_warps, tile.block_m), "16 * dq_warps, of block_m"),
        (not fused or _divides(tile.dq_warps, warps), "dq_warps does not divide the warps"),
        (1 <= tile.stages <= 4, "stages is not 1 to 4"),
        (tile.threads <= 1024, f"{tile.threads} threads are more than 1024"),
        (
            max(variant.hdim, variant.hdim_v) // 8 <= tile.threads,
            "a row has more chunks of 8 elements than there are threads",
        ),
    )
    found = [sentence for holds, sentence in shape if not holds]
    if found:
        return found
    rest = (tile.k_slab, tile.v_slab, tile.q_in_regs, tile.k_unroll)
    needed, budget = registers(variant, tile), register_budget(tile)
    smem_needed, smem_limit = smem_bytes(variant, tile), limits(variant, target).block_smem_bytes
    checks = (
        (rest == (0, 0, 0, 0), "the backward pass has no slabs of columns and no Q fragments"),
        (
            not tile.v_stages or (tile.stages == 2 and not sides.in_registers(tile)),
            "fewer slabs of V or dO need two stages, and P and dS in shared memory",
        ),
        (not tile.spread or tile.stages > 1, "spread copies need two stages"),
        (tile.smem_bytes == smem_needed, f"smem_bytes is {tile.smem_bytes}, not {smem_needed}"),
        (smem_needed <= smem_limit, f"{smem_needed} bytes of shared memory are over {smem_limit}"),
        (needed <= budget, f"about {needed} registers a thread are over {budget}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def _may_keep_fragments(variant: Variant) -> bool:
    return variant["pass"] in KEY_PASSES and variant.arch == 90 and not exchanges(variant)


def _fragment_registers(variant: Variant, tile: Tile) -> tuple[int, int]:
    """Of a consumer's thread: dK, dV and what it keeps of K and V, and how much room these have."""
    kept = (variant.hdim + variant.hdim_v) // 2
    kept += 4 * _ceil_div(variant.hdim, 16) * tile.k_in_regs
    kept += 4 * _ceil_div(variant.hdim_v, 16) * tile.v_in_regs
    if tile.dq_warps != 4:
        return kept, FRAGMENT_ROOM - FRAGMENT_SOFTCAP_ROOM * bool(variant.softcap)
    features = variant.tile_class
    taken = (features >= 2) + (features >= 1 and variant.sequences != "dense")
    return kept, FRAGMENT_ROOM_BESIDE_DQ - FRAGMENT_FEATURE_ROOM * taken


def _backward_producer_problems(variant: Variant, tile: Tile) -> list[str]:
    """problems() of the backward template of sm90."""
    if not tile.producer:
        return ["sm90 needs a tile with a producer, such as m64n128s2"]
    plain = producer_tile(
        variant, tile.block_m, tile.block_n, tile.stages, tile.dq_warps, tile.k_in_regs,
        tile.v_in_regs,
    )  # fmt: skip
    kept, room = _fragment_registers(variant, tile)
    limit = limits(variant).block_smem_bytes
    if shares_columns(variant, tile.block_n):
        return _column_problems(variant, tile, plain, limit)
    if variant.sequences == "ragged":
        limit -= FOUND_UNIT_BYTES
    sum_of_dims = variant.hdim + variant.hdim_v
    shapes = [shape[:2] for shape in _backward_producer_shapes(variant)]
    dq_warps = (0,)
    if variant["pass"] == "bwd":
        dq_warps = (0, 4) if sum_of_dims <= 192 else (4,) if variant.hdim > 128 else (0,)
        if 96 < variant.hdim <= 128:  # below, half of the columns are too few
            dq_warps += (DQ_BY_CONSUMERS,)
        if variant.few:
            dq_warps = (0,)
    checks = (
        (tile.dq_warps in dq_warps, f"dq_warps is {tile.dq_warps}, none of {dq_warps}"),
        (
            (tile.block_m, tile.block_n) in shapes,
            f"block_m, block_n {tile.block_m}, {tile.block_n} are none of {shapes}",
        ),
        (2 <= tile.stages <= 8, "stages is not 2 to 8"),
        (
            # With a bias and dropout, or one in fp32, dQ's own warps leave too few.
            not (tile.dq_warps and (tile.k_in_regs or tile.v_in_regs)) or variant.tile_class < 4,
            "with such a bias, K and V in registers need dq_warps 0",
        ),
        (
            # ptxas up to CUDA 13.0 writes P or dS over them there, and they lose.
            tile.dq_warps
            or 64 not in (variant.hdim, variant.hdim_v)
            or not (tile.k_in_regs or tile.v_in_regs),
            "with a head dim of 64, K and V in registers need dq_warps 4",
        ),
        (
            kept <= room or not (tile.k_in_regs or tile.v_in_regs),
            f"dK, dV and fragments of K and V take {kept} registers a thread, over {room}",
        ),
        (tile == plain, f"{tile.name} has other fields than {plain}"),
        (plain.smem_bytes <= limit, f"{plain.smem_bytes} bytes of shared memory are over {limit}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def _column_problems(variant: Variant, tile: Tile, plain: Tile, limit: int) -> list[str]:
    """problems() of tiles whose consumers share the columns of dK and dV."""
    keys = f"a tile of {tile.block_n} keys"
    if variant.hdim > 192:  # two consumers share the columns, and dQ has warps of its own
        shape = (tile.block_m, tile.block_n, tile.stages, tile.dq_warps)
        checks = (
            (variant.hdim_v == variant.hdim, f"{keys} has one head dim above 192"),
            (variant.mask != "window", f"{keys} has no window above head dim 192: not timed"),
            (not variant.tile_class, f"{keys} does nothing to scores above head dim 192"),
            (variant.sequences == "dense", f"{keys} has sequences of one length"),
            (shape == LONG_SHAPE, f"{keys} above head dim 192 is not m64n80s2d4"),
            (tile == plain, f"{tile.name} has other fields than {plain}"),
            (plain.smem_bytes <= limit, f"{plain.smem_bytes} bytes are over {limit}"),
        )
        return [sentence for holds, sentence in checks if not holds]
    checks = (
        (variant["pass"] == "bwd", f"{keys} is of pass bwd"),
        (
            136 <= variant.hdim <= 192 and variant.hdim_v <= 192,
            f"{keys} has head dims 136 to 192, of V up to 192",
        ),
        (
            tile.block_n == 80 or variant.hdim_v <= 128 or not variant.tile_class,
            f"{keys} has head dims of V up to 128 where something is done to scores: registers",
        ),
        (
            tile.block_n == 80
            or not (variant.mask == "window" and variant.alibi and variant.bias != "none"),
            f"{keys} has no bias beside ALiBi under a window: registers",
        ),
        (variant.sequences == "dense", f"{keys} has sequences of one length"),
        (not variant.softcap, f"{keys} has no softcap"),
        (not variant.dropout, f"{keys} has no dropout"),
        (tile.block_m == CONSUMER_ROWS, f"{keys} has {CONSUMER_ROWS} query rows"),
        (tile.dq_warps == 0, f"{keys} has no warps of its own for dQ"),
        (3 <= tile.stages <= 8, f"{keys} has 3 to 8 stages"),
        (tile == plain, f"{tile.name} has other fields than {plain}"),
        (plain.smem_bytes <= limit, f"{plain.smem_bytes} bytes of shared memory are over {limit}"),
    )
    return [sentence for holds, sentence in checks if not holds]


def _dbias_problems(variant: Variant, tile: Tile) -> list[str]:
    """problems() of the gradient by the bias, one source for every device."""
    shapes = [shape[:4] for shape in DBIAS_SHAPES]
    plain = dbias_tile(variant, tile.block_m, tile.block_n, tile.warps_m, tile.warps_n)
    chunks = max(variant.hdim, variant.hdim_v) // 8
    limit = load_targets().archs[86].block_smem_bytes
    checks = (
        (
            (tile.block_m, tile.block_n, tile.warps_m, tile.warps_n) in shapes,
            f"block_m, block_n, warps_m, warps_n are none of {shapes}",
        ),
        (tile == plain, f"{tile.name} has other fields than {plain}"),
        (chunks <= tile.threads, "a row has more chunks of 8 elements than there are threads"),
        (plain.smem_bytes <= limit, f"{plain.smem_bytes} bytes of shared memory are over {limit}"),
    )
    return [sentence for holds, sentence in checks if not holds]


# ---- The rule -----------------------------------------------------------------------------------

# Of passes whose thread blocks take rows of the output: `block_m` rows, by `warps_m` warps.
ROW_TILES = {
    "fwd_combine": make_tile(1, 32, 4, 1, 0, 0, 0),
    "fwd_map": make_tile(1, 16, 8, 1, 0, 0, 0),  # a word of 16 key blocks of one row block
    "fwd_schedule": make_tile(1, 16, 32, 1, 0, 0, 0),  # a thread a sequence of a part
    "bwd_delta": make_tile(64, 16, 8, 1, 0, 0, 0),
    "bwd_convert": make_tile(64, 16, 8, 1, 0, 0, 0),
    "bwd_sinks": make_tile(64, 16, 8, 1, 0, 0, 0),
}


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
# not fit shared memory. bench/notes has the measurements.
PREFILL_SHAPES = (
    PrefillShape(64, 128, 4, 1, (64, 32), 2, 0),
    PrefillShape(104, 128, 4, 1, (64, 32), 2, 0, spread=1),
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


@dataclass(frozen=True)
class ProducerShape:
    """How head dims up to `hdim` are cut on sm90."""

    hdim: int  # the largest of the two head dims
    block_m: int
    block_n: int


# Three consumers where S, P and O of a useful key block fit their 160 registers, two with 240
# above. bench/notes has the measurements.
PRODUCER_SHAPES = (
    ProducerShape(64, 192, 128),
    ProducerShape(80, 192, 112),
    ProducerShape(96, 192, 96),
    ProducerShape(112, 192, 80),
    ProducerShape(128, 128, 128),
    ProducerShape(192, 128, 112),
    ProducerShape(240, 128, 80),
    ProducerShape(256, 128, 64),
)
RUNS_SHAPE = (128, 32, 3)  # of sm90: 16 rows a key head, keys of a copy, stages
PRODUCER_STAGES = (3, 2)  # as many as shared memory holds
FEW_ROWS_STAGES = (6, 5, 4, 3, 2)
FEW_KEYS = 128  # of a consumer's rows; half as many above head dim 128
# (columns of V up to, keys, stages of V) of wide tiles, best first; where K has few columns, V may
# have two stages.
WIDE_SHAPES = ((304, 112, 1), (384, 96, 1), (448, 80, 1), (512, 64, 1))
WIDE_SHAPES_OF_SMALL_K = ((512, 80, 2), (512, 64, 2), *WIDE_SHAPES)
SMALL_K_COLUMNS = 128


@dataclass(frozen=True)
class RingShape:
    """How decode kernels of head dims up to `hdim` are cut where warps have keys of their own."""

    hdim: int  # the largest of the two head dims
    warps_k: int
    warp_keys: int  # keys of a slab


# Decoding waits for memory. Up to 256 columns a warp's registers hold O for keys of its own: then
# no barrier is in its way, and what counts is how much its ring has in flight. Above, warps share
# the columns of O. bench/notes has the measurements.
RING_SHAPES = {
    80: (RingShape(128, 4, 32), RingShape(256, 4, 16)),
    86: (RingShape(160, 4, 16), RingShape(256, 2, 16)),
}
# The first depth that takes so much that an SM holds no more than two blocks, on compute capability
# 9.0 and on 8.6: a third one would draw blocks that are better placed on another SM. Else the
# deepest.
RING_STAGES = (2, 3, 4, 5, 6, 7, 8)
RING_BYTES = {80: (76 * 1024, 113 * 1024), 86: (33 * 1024, 49 * 1024)}  # more than, up to


@dataclass(frozen=True)
class BackwardShape:
    """How the backward pass is cut for head dims up to `hdim`."""

    hdim: int  # the largest of the two head dims
    block_m: int
    block_n: int
    warps_m: int
    warps_n: int
    acc_warps: int
    dq_warps: int = 0
    warps_k: int = 1
    spread: int = 0  # where there are two stages


# Up to 64 columns, a warp has keys of its own (of bwd_dq, up to 128, rows), 32 of them, so that
# each fragment serves two row tiles, and P and dS stay in its registers. Above, dK and dV of so
# many rows would not fit them: warps share columns. bench/notes has the measurements.
BACKWARD_SHAPES = {
    "bwd": (
        BackwardShape(64, 32, 128, 1, 4, 4, 2, spread=1),
        BackwardShape(128, 64, 128, 2, 4, 4, 2, spread=1),
        BackwardShape(256, 64, 64, 2, 4, 2, 2, spread=1),
        BackwardShape(256, 32, 64, 2, 4, 2, 2),
        BackwardShape(256, 32, 32, 2, 2, 1, 2, warps_k=2),
    ),
    "bwd_dkv": (
        BackwardShape(64, 32, 128, 1, 4, 4),
        BackwardShape(128, 64, 128, 2, 4, 4, spread=1),
        BackwardShape(256, 64, 64, 2, 4, 2, spread=1),
        BackwardShape(256, 32, 64, 2, 4, 2),
        BackwardShape(256, 32, 32, 2, 2, 1, warps_k=2),
        BackwardShape(512, 32, 32, 2, 2, 1, warps_k=2),
        BackwardShape(512, 16, 32, 1, 2, 1, warps_k=4),
        BackwardShape(512, 16, 16, 1, 1, 1, warps_k=8),
    ),
    "bwd_dq": (
        BackwardShape(64, 128, 64, 4, 1, 4),
        BackwardShape(128, 128, 32, 4, 1, 4),
        BackwardShape(256, 64, 64, 4, 2, 2, spread=1),
        BackwardShape(256, 64, 32, 4, 2, 2),
        BackwardShape(512, 32, 32, 2, 2, 1),
        BackwardShape(512, 16, 32, 1, 2, 1),
    ),
}
# (stages, v_stages), deepest first.
BACKWARD_RINGS = ((2, 0), (2, 1), (1, 0))
# Of sm90: block_m, block_n, stages, dq_warps. Where bwd and bwd_dkv hand P and dS on through shared
# memory, which is so above head dim 128, their thread blocks own 64 keys.
BACKWARD_PRODUCER_SHAPES = ((64, 128, 2, 8), (64, 128, 2, 4), (64, 128, 2, 0))
EXCHANGE_SHAPES = ((64, 64, 3, 4), (64, 64, 2, 4), (64, 64, 3, 0), (64, 64, 2, 0))
FEW_ROWS_SHAPES = ((64, 64, 2, 0),)  # stages: tiles of rows, one for each consumer
BACKWARD_DQ_PRODUCER_SHAPES = ((128, 64, 2, 0), (128, 32, 2, 0))
# Tiles whose three consumers have 64 columns of dK and dV each; legal, nowhere the rule's.
COLUMN_KEYS = (80, 96)
COLUMN_CONSUMERS = 3
LONG_SHAPE = (64, 80, 2, 4)  # of long walks at wide head dims
DQ_BY_CONSUMERS = 8  # dq_warps: each of two consumers has half of the columns of dQ
COLUMN_DO_STAGES = 2
EXCHANGE_TEMPLATE = "attention/flash_bwd_exchange_sm90.cu.j2"

# Of the gradient by the bias: block_m, block_n, warps_m, warps_n. Several thread blocks an SM hide
# each other's copies.
DBIAS_SHAPES = ((64, 64, 2, 2), (32, 64, 2, 2), (32, 32, 2, 2), (16, 32, 1, 2))

DECODE_SHAPE = (DECODE_ROWS, 1, 4)
DECODE_STAGES = (4, 3, 2)
DECODE_SMEM_BYTES = (48 * 1024, 56 * 1024, 99 * 1024)  # budgets to try; small ones share an SM

# Of sm80's row blocks for few rows: warps wait for their own products, so that an SM is to hold two
# a scheduler, where head dims allow.
FEW_ROWS_RINGS = (3, 2)

# (slabs of K, slabs of V) that a key block is cut into, fewest first: each slab costs a barrier.
CUTS = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 2), (4, 2), (4, 4), (6, 4), (8, 4))


def fill(variant: Variant) -> Tile:
    """The rule's tile: the first candidate that is legal."""
    if variant["pass"] in ROW_TILES:
        return ROW_TILES[variant["pass"]]
    if variant["pass"] == "bwd_dbias":
        tiles = [dbias_tile(variant, *shape) for shape in DBIAS_SHAPES]
        return next(tile for tile in tiles if not problems(variant, tile))
    if variant["pass"] in BACKWARD_PASSES:
        return _backward_fill(variant)
    if variant.arch == 90:
        return _producer_fill(variant)
    if variant.few:
        return _few_rows_fill(variant)
    candidates = _decode_candidates if variant.decode else _prefill_candidates
    for tile in candidates(variant):
        if not problems(variant, tile):
            return _with_min_blocks(variant, tile)
    raise GeneratorError(f"no tile fits {variant.stem}")


def _producer_fill(variant: Variant) -> Tile:
    if is_wide(variant):
        shapes = WIDE_SHAPES_OF_SMALL_K if variant.hdim <= SMALL_K_COLUMNS else WIDE_SHAPES
        tiles = [
            producer_tile(variant, CONSUMER_ROWS, keys, stages)
            for columns, keys, stages in shapes
            if variant.hdim_v <= columns
        ]
        return next(tile for tile in tiles if not problems(variant, tile))
    if variant.runs:
        return producer_tile(variant, *RUNS_SHAPE)
    if shares_splits(variant):  # all key blocks of a split
        keys = tile_of(variant.replace(shared="none")).block_n
        return producer_tile(variant, FEW_ROWS, keys, _ceil_div(SHORT_SPLIT_KEYS, keys))
    if variant.decode:  # the same keys as the kernel of more rows has
        keys = tile_of(variant.replace(decode=False)).block_n
        tiles = [producer_tile(variant, FEW_ROWS, keys, stages) for stages in FEW_ROWS_STAGES]
        return next(tile for tile in tiles if not problems(variant, tile))
    largest = max(variant.hdim, variant.hdim_v)
    if variant.few:  # of sequences
        of_sequences = variant.replace(sequences="ragged")
        keys = FEW_KEYS if largest <= 128 else FEW_KEYS // 2
        tiles = [
            producer_tile(of_sequences, CONSUMER_ROWS, keys, stages) for stages in FEW_ROWS_STAGES
        ]
        stages = next(tile.stages for tile in tiles if not problems(of_sequences, tile))
        return producer_tile(variant, CONSUMER_ROWS, keys, stages)
    shape = next(shape for shape in PRODUCER_SHAPES if largest <= shape.hdim)
    shapes = [(shape.block_m, shape.block_n)]
    if variant.tile_class >= 2:  # no room beside three consumers
        shapes = [(min(shape.block_m, 128), keys) for keys in range(128, 0, -16)]
    tiles = [
        producer_tile(variant, block_m, block_n, stages)
        for block_m, block_n in shapes
        for stages in PRODUCER_STAGES
    ]
    for tile in tiles:
        if not problems(variant, tile):
            return tile
    raise GeneratorError(
        f"no tile fits {variant.stem}: {tiles[-1].name}: {problems(variant, tiles[-1])[0]}"
    )


def _backward_producer_shapes(variant: Variant) -> tuple[tuple[int, int, int, int], ...]:
    """block_m, block_n, stages, dq_warps of sm90, best first."""
    if variant["pass"] == "bwd_dq":
        return BACKWARD_DQ_PRODUCER_SHAPES
    if variant.few:
        return FEW_ROWS_SHAPES
    if variant.long_rows:
        return (LONG_SHAPE,)
    if not exchanges(variant):
        return BACKWARD_PRODUCER_SHAPES
    return EXCHANGE_SHAPES


def _backward_fill(variant: Variant) -> Tile:
    """The first shape that fits, with as deep a ring as shared memory holds."""
    if variant.arch == 90:
        shapes = _backward_producer_shapes(variant)
        tiles = [producer_tile(variant, *shape) for shape in shapes]
        return next(tile for tile in tiles if not problems(variant, tile))
    largest = max(variant.hdim, variant.hdim_v)
    for shape in BACKWARD_SHAPES[variant["pass"]]:
        if largest > shape.hdim:
            continue
        for stages, v_stages in BACKWARD_RINGS:
            tile = make_tile(
                shape.block_m, shape.block_n, shape.warps_m, shape.warps_n, stages, 0, 0,
                acc_warps=shape.acc_warps, dq_warps=shape.dq_warps, warps_k=shape.warps_k,
                v_stages=v_stages, spread=shape.spread if stages > 1 else 0,
            )  # fmt: skip
            tile = sized(variant, tile)
            if problems(variant, tile):
                continue
            # Threads of larger blocks would be left with 128 registers.
            return _with_min_blocks(variant, tile) if tile.threads <= 128 else tile
    raise GeneratorError(f"no tile fits {variant.stem}")


def _few_rows_fill(variant: Variant) -> Tile:
    """The tile of more rows, whose key blocks and warps of columns the bits depend on, with one
    warp's rows."""
    tile = tile_of(variant.replace(few=False))
    tile = tile.replace(block_m=DECODE_ROWS, warps_m=1, k_unroll=0, q_in_regs=0, spread=0)
    tiles = (sized(variant, tile.replace(stages=stages)) for stages in FEW_ROWS_RINGS)
    return next(tile.replace(min_blocks=1) for tile in tiles if not problems(variant, tile))


def _prefill_candidates(variant: Variant) -> Iterator[Tile]:
    """Whole K and V blocks first, then slabs, then fewer keys, then the shapes of larger head
    dims."""
    largest = max(variant.hdim, variant.hdim_v)
    features = variant.tile_class
    for shape in PREFILL_SHAPES:
        if largest > shape.hdim:
            continue
        for block_n in shape.block_n:
            if features >= NARROW_CLASS and shape.warps_n == 1 and block_n > NARROW_KEYS:
                continue
            tile = make_tile(
                shape.block_m, block_n, shape.warps_m, shape.warps_n, shape.stages, 0, 0
            )
            for cuts in CUTS:
                spread = shape.spread if cuts == (1, 1) and not features else 0
                yield from _cut(variant, tile.replace(k_unroll=shape.k_unroll, spread=spread), cuts)


def _decode_candidates(variant: Variant) -> Iterator[Tile]:
    """As many keys in flight as the smallest budget of shared memory allows."""
    largest = max(variant.hdim, variant.hdim_v)
    yield from _ring_candidates(variant, largest)
    block_m, warps_m, warps_n = DECODE_SHAPE
    block_n = 128 if variant.hdim <= 64 else 64
    rings = [make_tile(block_m, block_n, warps_m, warps_n, n, 0, 0) for n in DECODE_STAGES]
    tiles = [tile for cuts in CUTS for ring in rings for tile in _cut(variant, ring, cuts)]
    for budget_bytes in DECODE_SMEM_BYTES:
        yield from (tile for tile in tiles if tile.smem_bytes <= budget_bytes)


def _ring_candidates(variant: Variant, largest: int) -> Iterator[Tile]:
    """Warps with keys of their own; Q in registers where it fits. Nothing for large head dims."""
    shape = next((s for s in RING_SHAPES[variant.arch] if largest <= s.hdim), None)
    if shape is None:
        return
    least, most = RING_BYTES[variant.arch]
    keys, warps = shape.warp_keys, shape.warps_k
    too_little = []
    for stages in RING_STAGES:
        tile = make_tile(DECODE_ROWS, keys * warps, 1, 1, stages, variant.hdim, keys, warps_k=warps)
        tile = sized(variant, tile)
        if tile.smem_bytes <= least:
            too_little.append(tile)
        elif tile.smem_bytes <= most:
            yield from (tile.replace(q_in_regs=1), tile)
    for tile in reversed(too_little):
        yield from (tile.replace(q_in_regs=1), tile)


def _cut(variant: Variant, tile: Tile, cuts: tuple[int, int]) -> Iterator[Tile]:
    """The tile with K cut into columns and V into rows, as even as multiples of 16 allow; nothing
    where that cannot be done."""
    k_cuts, v_cuts = cuts
    k_slab = variant.hdim if k_cuts == 1 else _ceil_div(variant.hdim, 16 * k_cuts) * 16
    if _ceil_div(variant.hdim, k_slab) == k_cuts and tile.block_n % (16 * v_cuts) == 0:
        tile = tile.replace(k_slab=k_slab, v_slab=tile.block_n // v_cuts)
        yield sized(variant, tile)


def _with_min_blocks(variant: Variant, tile: Tile) -> Tile:
    """Two blocks an SM where shared memory and registers hold both."""
    pair_bytes = 2 * (tile.smem_bytes + SMEM_RESERVED_BYTES)
    paired = tile.replace(min_blocks=2)
    if pair_bytes <= limits(variant).sm_smem_bytes and not problems(variant, paired):
        return paired
    return tile
