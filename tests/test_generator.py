"""The generator's data, tables and command line."""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from generator_support import (
    ATTENTION,
    EVERY,
    ROOT,
    compile_c,
    compile_grammar_cli,
    featured,
    fresh_files,
    run_lines,
    tabs,
    tile_fields,
    variants_of_pair,
)

from generator import GeneratorError
from generator.__main__ import main
from generator.attention.rules import (
    ROW_TILES,
    consumers,
    fill,
    fit,
    limits,
    make_tile,
    make_variant,
    producer_tile,
    register_budget,
    registers,
    smem_bytes,
)
from generator.family import families, family_of
from generator.registry import (
    HEADERS,
    device_headers,
    device_headers_c,
    headers_digest,
    pressed_headers,
)
from generator.render import environment, source
from generator.sets import VariantSet, load_sets, shown_variants
from generator.tables import tiles_c
from generator.tiles import (
    Tile,
    filled,
    group_rows,
    load_tuned,
    parse_tile,
    problems,
    sized,
    table,
    tile_groups,
    tile_of,
    tuned_row,
)
from generator.variant import VariantError, parse_stem, stand_in
from generator.variant import make_variant as make_any_variant

DTYPES = ("fp16", "bf16")
D128 = make_variant("fwd", 128, 128, "bf16")
HOPPER = D128.replace(arch=90)

# ---- Tiles --------------------------------------------------------------------------------------


def test_every_variant_has_a_legal_tile() -> None:
    for variant in (*EVERY, *featured(500)):
        tile = tile_of(variant)
        assert problems(variant, tile) == [], f"{variant.stem}: {tile.name}"
        if variant["pass"] == "fwd":
            assert 0 < tile.smem_bytes <= limits(variant).block_smem_bytes
            assert registers(variant, tile) <= register_budget(tile) <= 255
            shares_keys = variant.runs and variant.arch == 90  # 16 rows a key head
            one = variant.few and variant.arch == 90  # of a consumer
            assert tile.block_m == 64 or not one
            small = (variant.decode or variant.few) and not (shares_keys or one)
            assert (tile.block_m == (8 if variant.arch == 90 else 16)) == small
            if small and variant.arch == 90:  # the same bits, and so the same key blocks
                more = variant.replace(decode=False, shared="none")
                assert tile.block_n == tile_of(more).block_n
        assert problems(variant, filled(variant)) == [], f"by the rule: {variant.stem}"


def test_every_layernorm_variant_has_a_legal_tile() -> None:
    """Those in no set, too: the library compiles them on first use."""
    family = family_of("layernorm")
    count = 0
    for values in itertools.product(*(axis.domain for axis in family.axes)):
        try:
            axes = dict(zip((axis.name for axis in family.axes), values))
            variant = make_any_variant(family, **axes)
        except VariantError:
            continue
        target = "sm_90a" if variant.arch == 90 else "sm_90"
        tile = tile_of(variant, target=target)
        assert problems(variant, tile, target) == [], f"{variant.stem}: {tile.name}"
        count += 1
    assert count > 4000


def test_the_rule_does_not_look_at_rule_any() -> None:
    """A sample, with the head dims that most rows of tiles name."""
    named = [variant for variant in EVERY if variant.hdim in (64, 128)]
    for variant in (*named, *EVERY[::5], *featured(500)):
        assert fill(variant) == filled(variant), variant.stem


def test_shared_splits_have_the_key_blocks_of_others() -> None:
    """With sequences as they come, which rows of tiles name."""
    for (hdim, sharing), mask, sequences in itertools.product(
        ((64, "four"), (64, "two"), (128, "four")), ("full", "causal"), ("ragged", "paged")
    ):
        variant = make_variant("fwd", hdim, hdim, "bf16", mask, True, True, 90)
        variant = variant.replace(sequences=sequences)
        shared = tile_of(variant.replace(shared=sharing))
        assert shared.block_n == tile_of(variant).block_n
        assert shared.stages * shared.block_n >= 512 > (shared.stages - 1) * shared.block_n


def test_few_rows_have_the_key_blocks_of_more() -> None:
    """On sm80, and the same warps of columns: what the bits depend on."""
    for hdim, dtype, mask, sequences, softcap, arch in itertools.product(
        (*range(8, 200, 8), 256), ("fp16", "bf16"), ("full", "causal", "window"),
        ("dense", "ragged", "paged"), (False, True), (80, 86),
    ):  # fmt: skip
        more = make_variant("fwd", hdim, hdim, dtype, mask, True, False, arch)
        more = more.replace(sequences=sequences, softcap=softcap)
        if arch == 86 and hdim > 192:
            continue
        for target in (None, "sm_90") if arch == 80 else (None,):
            few, tile = (tile_of(x, target=target) for x in (more.replace(few=True), more))
            assert (few.block_m, few.warps_m) == (16, 1)
            assert (few.block_n, few.warps_n) == (tile.block_n, tile.warps_n)


def test_tile_names_are_inverses() -> None:
    for variant in (*EVERY, *featured(500)):
        tile = tile_of(variant)
        assert parse_tile(tile.name, variant) == tile
    for tile, name in (
        (make_tile(64, 32, 4, 2, 3, 128, 16, 1, 2), "m64n32w4x2s3k128v16qb2"),
        (make_tile(64, 32, 4, 2, 3, 128, 16, 0, 1, 4), "m64n32w4x2s3k128v16u4"),
        (make_tile(64, 32, 4, 2, 3, 128, 16, 0, 3, 2), "m64n32w4x2s3k128v16b3u2"),
    ):
        assert tile.name == name
        assert parse_tile(name, D128) == sized(D128, tile)


def test_sm90_tiles_follow_from_three_numbers() -> None:
    tile = parse_tile("m192n112s3", HOPPER)
    assert tile == make_tile(192, 112, 12, 1, 3, 128, 112, producer=1, smem_bytes=tile.smem_bytes)
    assert tile == producer_tile(HOPPER, 192, 112, 3)
    assert (consumers(tile), tile.threads) == (3, 512)


def test_sm90_tiles_may_keep_q_in_registers() -> None:
    tile = parse_tile("m128n128s3q", HOPPER)
    assert tile == producer_tile(HOPPER, 128, 128, 3).replace(q_in_regs=1)
    assert tile.name == "m128n128s3q"
    assert problems(HOPPER, tile) == []
    three = producer_tile(HOPPER, 192, 80, 2).replace(q_in_regs=1)
    assert problems(HOPPER, three) == ["about 188 registers a thread are over 160"]
    for stem in (
        "flash_fwd_hdim128_bf16_ragged_sm90",
        "flash_fwd_hdim128_bf16_softcap_sm90",
        "flash_fwd_hdim512_bf16_sm90",
    ):
        variant = parse_stem(stem)
        found = problems(variant, tile_of(variant).replace(q_in_regs=1))
        assert any("Q in registers is of dense sequences" in sentence for sentence in found)


@pytest.mark.parametrize(
    "name",
    ["", "m64", "m128n64w4x1s2k128v64 ", "m128n64w4x1s2k128v64b1", "m0128n64w4x1s2k128v64", "x"],
)
def test_malformed_tile_names(name: str) -> None:
    with pytest.raises(GeneratorError, match="is not"):
        parse_tile(name, D128)


@pytest.mark.parametrize(
    ("hdim", "hdim_v", "tile", "expected"),
    [
        # Q 128 x 17 chunks, two slots of 64 x 17 chunks, of 16 bytes
        (128, 128, make_tile(128, 64, 4, 1, 2, 128, 64), 16 * 17 * (128 + 2 * 64)),
        # an odd count of chunks needs no padding
        (40, 40, make_tile(128, 64, 4, 1, 2, 40, 64), 16 * 5 * (128 + 2 * 64)),
        # slots as large as the larger of a K slab and a V slab: 64 x 9 chunks, 16 x 33 chunks
        (256, 256, make_tile(64, 64, 4, 1, 3, 64, 16), 16 * (33 * 64 + 3 * 64 * 9)),
        (256, 256, make_tile(64, 64, 4, 1, 3, 64, 32), 16 * (33 * 64 + 3 * 32 * 33)),
        # P, 64 x 5 chunks, and two floats a row, between two warps
        (
            512,
            512,
            make_tile(64, 32, 4, 2, 2, 512, 32),
            16 * 65 * (64 + 2 * 32) + 64 * (16 * 5 + 8),
        ),
        # four rings of three slots of 16 rows without padding
        (
            128,
            128,
            make_tile(16, 64, 1, 1, 3, 128, 16, warps_k=4),
            16 * (16 * 17 + 4 * 3 * 16 * 16),
        ),
        # two rings, smaller than 16 rows of O in fp32 and 32 bytes
        (40, 40, make_tile(16, 32, 1, 1, 2, 40, 16, warps_k=2), 16 * 16 * 5 + 2 * 16 * (160 + 32)),
        # the output is larger than all else
        (64, 128, make_tile(128, 16, 4, 1, 2, 16, 16), 128 * 16 * 17),
    ],
)
def test_shared_memory(hdim: int, hdim_v: int, tile: Tile, expected: int) -> None:
    assert smem_bytes(make_variant("fwd", hdim, hdim_v, "fp16"), tile) == expected


@pytest.mark.parametrize(
    ("hdim", "hdim_v", "tile", "expected"),
    [
        # Q of two consumers, two stages of K and V, two slabs of 64 columns each; 12 barriers
        (128, 128, "m128n176s2", 2 * 16384 + 2 * 176 * 128 * 4 + 8 * 12),
        # slabs are whole; Q of three consumers; 18 barriers
        (8, 8, "m192n128s3", 3 * 8192 + 3 * 128 * 128 * 2 + 8 * 18),
        (192, 128, "m64n64s2", 24576 + 2 * 64 * 128 * (3 + 2) + 8 * 10),
        # two consumers share the rows of Q; one key block of K, or two where they fit; P of two key
        # blocks and its rows' factors, and those of a unit's end; 28 and 36 barriers
        (512, 512, "m128n64s1", 65536 + 64 * 128 * (8 + 8) + 2 * (8192 + 256) + 256 + 8 * 28),
        (320, 320, "m128n64s2", 40960 + 64 * 128 * (10 + 10) + 2 * (8192 + 256) + 256 + 8 * 36),
        (64, 512, "m64n64s2", 8192 + 64 * 128 * (16 + 2) + 2 * (8192 + 256) + 256 + 8 * 20),
    ],
)
def test_shared_memory_of_sm90(hdim: int, hdim_v: int, tile: str, expected: int) -> None:
    for split in (False, True):
        variant = make_variant("fwd", hdim, hdim_v, "fp16", split=split, arch=90)
        assert parse_tile(tile, variant).smem_bytes == expected


def test_split_kernels_have_no_output_in_shared_memory() -> None:
    tile = make_tile(128, 16, 4, 1, 2, 16, 16)
    whole = make_variant("fwd", 64, 128, "fp16")
    assert smem_bytes(whole.replace(split=True), tile) < smem_bytes(whole, tile)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"block_m": 96}, "block_m is not a multiple of 16 * warps_m"),
        ({"block_m": 0}, "block_m 0 is not positive"),
        ({"block_n": 24, "v_slab": 24}, "block_n is not a multiple of 16 * warps_n * warps_k"),
        ({"stages": 1}, "stages is less than 2"),
        ({"q_in_regs": 1, "k_unroll": 2}, "Q in registers needs k_unroll 0"),
        ({"spread": 1, "k_unroll": 2}, "spread copies need whole slabs and k_unroll 0"),
        ({"spread": 1, "v_slab": 32}, "spread copies need whole slabs and k_unroll 0"),
        ({"k_slab": 256}, "k_slab is more than the head dim, 128"),
        ({"k_slab": 40}, "k_slab is neither whole nor a multiple of 16"),
        ({"v_slab": 8}, "v_slab is not a multiple of 16"),
        ({"v_slab": 48}, "v_slab does not divide block_n / warps_k"),
        ({"warps_k": 2}, "warps with keys of their own need warps_m 1, warps_n 1 and no spread"),
        ({"stages": 9}, "bytes of shared memory are over 166912"),
        ({"block_m": 256}, "registers a thread are over 255"),
        ({"min_blocks": 4}, "registers a thread are over 128"),
        ({"warps_m": 64, "block_m": 1024}, "2048 threads are more than 1024"),
    ],
)
def test_illegal_tiles(change: dict, problem: str) -> None:
    tile = sized(D128, make_tile(128, 64, 4, 1, 2, 128, 64).replace(**change))
    assert any(problem in found for found in problems(D128, tile)), problems(D128, tile)


def test_a_warp_looks_up_no_more_pages_than_it_has_lanes() -> None:
    dense = D128.replace(decode=True)
    paged = dense.replace(sequences="paged")
    wide = make_tile(16, 128, 1, 1, 2, 64, 16, warps_k=2)  # 64 keys a warp
    narrow = make_tile(16, 64, 1, 1, 2, 64, 16, warps_k=2)
    assert problems(dense, sized(dense, wide)) == []
    assert problems(paged, sized(paged, narrow)) == []
    assert problems(paged, sized(paged, wide)) == [
        "block_n / warps_k is over 32, of runs 64: lanes look up the pages of one key, or two"
    ]


@pytest.mark.parametrize(
    ("tile", "problem"),
    [
        ("m96n64s2", "block_m 96 is none of 64, 128, 192, 256"),
        ("m320n64s2", "block_m 320 is none of 64, 128, 192, 256"),
        ("m0n64s2", "block_m 0 is none of 64, 128, 192, 256"),
        ("m256n64s2", "about 144 registers a thread are over 112"),
        ("m128n0s2", "block_n 0 is not a multiple of 16 from 16 to 256"),
        ("m128n72s2", "block_n 72 is not a multiple of 16 from 16 to 256"),
        ("m64n272s2", "block_n 272 is not a multiple of 16 from 16 to 256"),
        ("m128n64s1", "stages is less than 2"),
        ("m128n128s4", "bytes of shared memory are over 232448"),
        ("m128n208s2", "about 252 registers a thread are over 240"),
        ("m192n128s2", "about 192 registers a thread are over 160"),
        ("m128n64w4x1s2k128v64", "sm90 needs a tile with a producer, such as m128n176s2"),
    ],
)
def test_illegal_tiles_of_sm90(tile: str, problem: str) -> None:
    found = problems(HOPPER, parse_tile(tile, HOPPER))
    assert any(problem in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("tile", "problem"),
    [
        ("m128n64s1", "block_m is 128, not 64: two consumers share the rows of one"),
        ("m64n72s1", "block_n 72 is not a multiple of 16 from 16 to 256"),
        ("m64n64s0", "stages is less than 1"),
        ("m64n64s2", "bytes of shared memory are over 232448"),
        ("m64n112s1", "about 244 registers a thread are over 232"),
    ],
)
def test_illegal_tiles_of_wide_head_dims(tile: str, problem: str) -> None:
    variant = HOPPER.replace(hdim=512, hdim_v=512)
    found = problems(variant, parse_tile(tile, variant))
    assert any(problem in sentence for sentence in found), found


@pytest.mark.parametrize(
    ("stem", "tile", "problem"),
    [
        ("flash_bwd_hdim192_bf16_sm90", "m64n80s3", ""),
        ("flash_bwd_hdim136_fp16_window_alibi_biasfp32_sm90", "m64n80s3", ""),
        ("flash_bwd_hdim192v128_bf16_causal_sm90", "m64n96s4", ""),
        ("flash_bwd_hdim192_bf16_sm90", "m64n96s3", ""),
        (
            "flash_bwd_hdim192_bf16_alibi_sm90",
            "m64n96s3",
            "96 keys has head dims of V up to 128 where something is done to scores",
        ),
        ("flash_bwd_hdim200_bf16_sm90", "m64n80s3", "80 keys above head dim 192 is not m64n80s2d4"),
        ("flash_bwd_hdim200_bf16_long_sm90", "m64n80s2d4", ""),
        ("flash_bwd_hdim200_bf16_long_sm90", "m64n64s2d4", "block_m, block_n 64, 64 are none of"),
        ("flash_bwd_hdim256_bf16_window_sm90", "m64n80s2d4", "no window above head dim 192"),
        ("flash_bwd_hdim256_bf16_few_sm90", "m64n64s2", ""),
        ("flash_bwd_hdim256_bf16_few_sm90", "m64n64s2d4", "dq_warps is 4, none of (0,)"),
        ("flash_bwd_hdim128_bf16_sm90", "m64n80s3", "80 keys has head dims 136 to 192"),
        ("flash_bwd_hdim192_bf16_ragged_sm90", "m64n80s3", "80 keys has sequences of one length"),
        ("flash_bwd_hdim192_bf16_softcap_sm90", "m64n80s3", "80 keys has no softcap"),
        ("flash_bwd_hdim192_bf16_dropout_sm90", "m64n80s3", "80 keys has no dropout"),
        ("flash_bwd_hdim192_bf16_sm90", "m128n80s3", "80 keys has 64 query rows"),
        ("flash_bwd_hdim192_bf16_sm90", "m64n80s3d4", "no warps of its own for dQ"),
        ("flash_bwd_hdim192_bf16_sm90", "m64n80s2", "80 keys has 3 to 8 stages"),
        ("flash_bwd_hdim192_bf16_sm90", "m64n80s4", "bytes of shared memory are over"),
        ("flash_bwd_dkv_hdim192_bf16_sm90", "m64n80s3", "block_m, block_n 64, 80 are none of"),
        (
            "flash_bwd_hdim192v128_bf16_window_alibi_biasbf16_sm90",
            "m64n96s3",
            "96 keys has no bias beside ALiBi under a window",
        ),
    ],
)
def test_tiles_whose_consumers_share_columns(stem: str, tile: str, problem: str) -> None:
    """Of the backward pass on sm90: legal where they are right, elsewhere refused by name."""
    variant = parse_stem(stem)
    found = problems(variant, parse_tile(tile, variant))
    assert any(problem in one for one in found) if problem else found == [], found


def test_wide_tiles_have_two_consumers() -> None:
    tile = parse_tile("m64n64s1", HOPPER.replace(hdim=512, hdim_v=512))
    assert (tile.warps_m, tile.warps_n, tile.threads) == (4, 2, 384)


def test_tiles_with_a_producer_are_those_of_sm90() -> None:
    tile = parse_tile("m128n176s2", HOPPER)
    assert problems(HOPPER, tile) == []
    assert problems(D128, tile) == ["a tile with a producer needs sm90"]
    for change in ({"stages": 3}, {"k_slab": 64}, {"min_blocks": 2}, {"spread": 1}, {"warps_n": 2}):
        assert problems(HOPPER, tile.replace(**change)) != []


BACKWARD_SM90 = make_variant("bwd", 64, 64, "bf16", arch=90)


def test_fragments_of_keys_stay_in_registers_where_there_is_room() -> None:
    """Of bwd and bwd_dkv of sm90 up to head dim 128."""
    for name in ("m64n128s2v", "m64n128s3k", "m64n128s2kv", "m64n128s2d4v", "m64n128s2d4kv"):
        hdim = 64 if "d4" in name else 72
        variant = BACKWARD_SM90.replace(hdim=hdim, hdim_v=hdim)
        tile = parse_tile(name, variant)
        assert tile.name == name and problems(variant, tile) == []
        plain = parse_tile(name.rstrip("kv"), variant)
        assert tile.smem_bytes == plain.smem_bytes and tile.threads == plain.threads
        others = [
            make_variant("bwd_dq", 64, 64, "bf16", arch=90),
            make_variant("bwd", 64, 64, "bf16", arch=80),
            BACKWARD_SM90.replace(hdim=192, hdim_v=192),
            HOPPER,
        ]
        for other in others:
            assert problems(other, parse_tile(name, other)) == [
                "k_in_regs and v_in_regs are of bwd and bwd_dkv of sm90 up to head dim 128"
            ]


@pytest.mark.parametrize(
    ("name", "hdim", "features", "problem"),
    [
        ("m64n128s2d4v", 80, {}, ""),
        ("m64n128s2d4v", 88, {}, "take 112 registers a thread, over 100"),
        ("m64n128s2d4kv", 72, {}, "take 112 registers a thread, over 100"),
        ("m64n128s2d4v", 80, {"dropout": True}, "take 100 registers a thread, over 96"),
        ("m64n128s2d4kv", 64, {"dropout": True}, ""),
        (
            "m64n128s2d4kv",
            64,
            {"dropout": True, "sequences": "ragged"},
            "take 96 registers a thread, over 92",
        ),
        ("m64n128s2d4v", 64, {"bias": "fp32"}, "need dq_warps 0"),
        ("m64n128s2v", 72, {"bias": "fp32"}, ""),
        ("m64n128s2v", 64, {}, "need dq_warps 4"),
        ("m64n128s3k", 64, {}, "need dq_warps 4"),
        ("m64n128s2k", 64, {"pass": "bwd_dkv"}, "need dq_warps 4"),
        ("m64n128s2v", 96, {}, ""),
        ("m64n128s2v", 96, {"softcap": True}, "take 120 registers a thread, over 100"),
        ("m64n128s2kv", 80, {"dropout": True}, ""),
        ("m64n128s2kv", 88, {}, "take 136 registers a thread, over 120"),
    ],
)
def test_room_for_fragments_of_keys(name: str, hdim: int, features: dict, problem: str) -> None:
    variant = BACKWARD_SM90.replace(hdim=hdim, hdim_v=hdim, **features)
    found = problems(variant, parse_tile(name, variant))
    assert len(found) == bool(problem) and all(problem in sentence for sentence in found), found


def test_illegal_shared_memory_and_combine_tiles() -> None:
    assert problems(D128, make_tile(128, 64, 4, 1, 2, 128, 64)) == ["smem_bytes is 0, not 69632"]
    combine = make_variant("fwd_combine", 128, 128, "bf16")
    assert problems(combine, ROW_TILES["fwd_combine"]) == []
    assert problems(combine, ROW_TILES["fwd_combine"].replace(stages=2)) != []


def test_every_row_of_tiles_is_some_variants() -> None:
    """None says again, or less well, what others say of all that it is for."""
    for family in families():
        tuned = load_tuned(family)
        left = set(tuned)
        for group in tile_groups(family, tuned):
            own = [variant for variant in group.variants if stand_in(variant) is None]
            targets = (None, *family.tile_targets)
            left -= {
                tuned_row(variant, group.tuned, target) for variant in own for target in targets
            }
        assert not left, "\n".join(f"{family.name}: {row}" for row in left)


def test_the_table_gives_each_variant_one_tile() -> None:
    rows = table(ATTENTION)
    open_ = {*ATTENTION.tile_any, *ATTENTION.features}
    kept = [axis.name not in open_ for axis in ATTENTION.axes]
    keys = [tuple(code for code, keep in zip(row.codes, kept, strict=True) if keep) for row in rows]
    assert keys == sorted(keys), "the runtime's search relies on this order"
    by_key: dict[tuple, list] = {}
    for key, row in zip(keys, rows, strict=True):
        by_key.setdefault(key, []).append(row)
    for row in rows:
        named = {
            name for name in ATTENTION.features if row.codes[ATTENTION.index[name]] is not None
        }
        assert named <= {"sequences", "alibi", "softcap"}, "those that rows of tiles.toml name"
    assert {row.tile_class for row in rows} == {None, *range(7)}
    for variant in (*EVERY, *featured(500)):
        key = tuple(code for code, keep in zip(variant.codes, kept, strict=True) if keep)
        found = [row for row in by_key[key] if row.matches(variant)]
        targets = [row.target for row in found]
        assert targets == sorted(targets, key=lambda target: target is None), "of a target first"
        of_all = [row.tile for row in found if row.target is None]
        assert of_all == [tile_of(variant)], variant.stem
        for target in ATTENTION.tile_targets:
            own = [row.tile for row in found if row.target == target] or of_all
            assert own == [tile_of(variant, target=target)], (variant.stem, target)


def test_the_table_has_every_feature_of_a_group_whose_rows_name_one() -> None:
    """A row of tiles.toml with `sequences = "dense"`: snippets of ragged sequences are of a class
    whose first features go with none."""
    rows = table(ATTENTION)
    found = 0
    for hdim in (128, 136, 192):
        for pass_, mask, sequences, feature in itertools.product(
            ("fwd", "bwd"),
            ATTENTION.axis("mask").domain,
            ATTENTION.axis("sequences").domain,
            ("softcap", "alibi", "dropout", "mod_score", "mod_mask"),
        ):
            values = {"pass": pass_, "hdim": hdim, "hdim_v": hdim, "mask": mask, "arch": 90}
            try:
                variant = make_any_variant(
                    ATTENTION, **values, dtype="bf16", sequences=sequences, **{feature: True}
                )
            except VariantError:
                continue
            tiles = {row.tile for row in rows if row.target is None and row.matches(variant)}
            assert tiles == {tile_of(variant)}, variant.stem
            found += 1
    assert found > 60


def test_the_table_keeps_a_class_that_follows_from_a_feature() -> None:
    """A row of tiles.toml for pages alone, which are a class of their own."""
    rows = table(ATTENTION)
    axes = {"pass": "fwd", "hdim": 64, "dtype": "bf16", "split": True, "decode": True, "runs": True}
    tiles = set()
    for sequences in ATTENTION.axis("sequences").domain:
        variant = make_any_variant(ATTENTION, **axes, sequences=sequences, arch=80)
        first = next(row for row in rows if row.target in ("sm_90", None) and row.matches(variant))
        assert first.tile == tile_of(variant, target="sm_90"), variant.stem
        tiles.add(first.tile)
    assert len(tiles) == 2


@pytest.fixture(scope="module")
def grammar_cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_grammar_cli(tmp_path_factory.mktemp("grammar"))


def test_the_runtime_finds_the_same_tiles(grammar_cli: Path) -> None:
    for target in (None, "sm_80", "sm_90"):
        check_tiles(grammar_cli, None, target)


def test_every_pair_of_head_dims_has_a_legal_tile(grammar_cli: Path) -> None:
    """Python's, and in C the same. Those without tiles of their own have their stand-in's, whose
    table does not grow with them."""
    sizes = range(8, 513, 8)
    variants = [
        variant
        for hdim in sizes
        for hdim_v in sizes
        if hdim != hdim_v
        for variant in variants_of_pair(hdim, hdim_v)
    ]
    targets = [(None, "sm_90")[variant.arch == 80 and variant.decode] for variant in variants]
    lines, expected = [], []
    for variant, target in zip(variants, targets, strict=True):
        tile = tile_of(variant, target=target)
        assert problems(variant, tile, target) == [], f"{variant.stem}: {tile.name}"
        assert parse_tile(tile.name, variant) == tile
        lines.append(tabs("tile", variant.stem + (f":{target}" if target else "")))
        expected.append(tabs("ok", tile_fields(tile), tile.name))
    assert run_lines(grammar_cli, lines).decode().splitlines() == expected
    assert len({(variant.hdim, variant.hdim_v) for variant in variants}) == 64 * 63


def test_stand_ins() -> None:
    wide = make_variant("fwd", 72, 40, "bf16")
    assert stand_in(wide) == make_variant("fwd", 72, 72, "bf16")
    assert stand_in(wide.replace(hdim_v=96)) == make_variant("fwd", 96, 96, "bf16")
    assert stand_in(wide.replace(hdim_v=128)) == make_variant("fwd", 64, 128, "bf16")
    for own in ((72, 72), (192, 128), (64, 512)):
        assert stand_in(make_variant("fwd", *own, "bf16")) is None
    # K's slab is as wide as a whole row, or as before; a row of 8 columns has one step, no copies
    # between steps; shared memory is the pair's own.
    whole, few = make_variant("fwd", 72, 88, "bf16"), make_variant("fwd", 8, 88, "bf16")
    tile = make_tile(128, 64, 4, 1, 2, 88, 64, spread=1)
    assert fit(whole, stand_in(whole), tile) == sized(whole, tile.replace(k_slab=72))
    assert fit(few, stand_in(few), tile) == sized(few, tile.replace(k_slab=8, spread=0))
    cut = make_variant("fwd", 264, 512, "bf16")
    tile = make_tile(64, 64, 4, 2, 2, 128, 16)
    assert fit(cut, stand_in(cut), tile) == sized(cut, tile)
    assert fit(cut.replace(hdim=72), stand_in(cut), tile).k_slab == 72


def check_tiles(program: Path, rows: tuple | None, target: str | None) -> None:
    """The runtime's answer for every variant on a target."""
    suffix = f":{target}" if target else ""
    variants = [*EVERY, *featured(500)]
    answers = run_lines(program, [tabs("tile", variant.stem + suffix) for variant in variants])
    tiles = [tile_of(variant, rows, target) for variant in variants]
    expected = [tabs("ok", tile_fields(tile), tile.name) for tile in tiles]
    assert answers.decode().splitlines() == expected


# ---- tiles.toml ---------------------------------------------------------------------------------


def tuned(folder: Path, text: str):
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.toml"
    path.write_text(text, encoding="utf-8")
    return load_tuned(ATTENTION, path)


ROW = '[[tile]]\npass = "fwd"\narch = 80\nhdim = {hdim}\n{more}\ntile = "{tile}"\n'


def test_the_tuned_tile_that_says_most_counts(tmp_path: Path) -> None:
    rows = tuned(
        tmp_path,
        ROW.format(hdim="[64, 128]", more="", tile="m64n64w4x1s2k64v64")
        + ROW.format(hdim=128, more='mask = "causal"', tile="m64n32w4x1s2k64v32")
        + ROW.format(hdim=128, more='mask = "causal"\ndtype = "fp16"', tile="m64n16w4x1s2k64v16")
        + ROW.format(hdim=192, more="hdim_v = 128", tile="m64n32w4x1s2k64v16"),
    )
    causal = D128.replace(mask="causal")
    assert tile_of(D128, rows).name == "m64n64w4x1s2k64v64"
    assert tile_of(causal, rows).name == "m64n32w4x1s2k64v32"
    assert tile_of(causal.replace(dtype="fp16"), rows).name == "m64n16w4x1s2k64v16"
    assert tile_of(make_variant("fwd", 192, 128, "bf16"), rows).name == "m64n32w4x1s2k64v16"
    # not of these rows: another arch, another head dim, a value head dim that is not named
    for other in (
        D128.replace(arch=86),
        make_variant("fwd", 72, 72, "bf16"),
        make_variant("fwd", 64, 128, "bf16"),
        make_variant("fwd", 192, 192, "bf16"),
    ):
        assert tile_of(other, rows) == filled(other)


def test_a_row_of_a_pair_without_tiles_of_its_own_is_refused(tmp_path: Path) -> None:
    row = ROW.format(hdim="[72, 192]", more="hdim_v = 128", tile="m64n32w4x1s2k64v16")
    with pytest.raises(GeneratorError, match="number 1: 72/128 is none of the pairs of hdim_v"):
        tuned(tmp_path, row)


@pytest.mark.parametrize(
    ("more", "splits", "dtypes"),
    [
        ("decode = false", {None}, {None}),
        ("decode = false\nsplit = true", {False, True}, {None}),
        ('decode = false\ndtype = "fp16"', {None}, {1, 2}),
        ('decode = false\nsplit = true\ndtype = "fp16"', {False, True}, {1, 2}),
    ],
)
def test_rows_are_split_only_where_they_differ(
    tmp_path: Path, more: str, splits: set, dtypes: set
) -> None:
    rows = tuned(tmp_path, ROW.format(hdim=128, more=more, tile="m64n16w4x1s2k64v16"))
    split, dtype = ATTENTION.index["split"], ATTENTION.index["dtype"]
    here = [
        row
        for group in tile_groups(ATTENTION, rows)
        if group.variants[0].hdim == 128
        for row in group_rows(group)
        if any(row.matches(D128.replace(split=s, dtype=d)) for s in (False, True) for d in DTYPES)
    ]
    assert {row.codes[split] for row in here} == splits
    assert {row.codes[dtype] for row in here} == dtypes
    assert len(here) == len(splits) * len(dtypes)
    assert "m64n16w4x1s2k64v16" in {row.tile.name for row in here}


def test_the_runtime_finds_tuned_tiles(tmp_path: Path) -> None:
    """Rows that count for one dtype, one side of split, or both."""
    rows = tuned(
        tmp_path,
        ROW.format(hdim=64, more="split = true", tile="m64n32w4x1s2k64v32")
        + ROW.format(hdim=128, more='dtype = "bf16"', tile="m64n64w4x1s2k64v64")
        + ROW.format(hdim=256, more='dtype = "fp16"\nsplit = false', tile="m64n16w4x1s2k64v16")
        + ROW.format(hdim=512, more='decode = false\nmask = "causal"', tile="m64n32w4x2s2k256v16")
        + ROW.format(hdim="[128, 192]", more='target = "sm_90"', tile="m64n16w4x1s3k64v16")
        + ROW.format(
            hdim=256, more='dtype = "fp16"\ntarget = ["sm_90"]', tile="m64n16w4x1s3k64v16"
        ),
    )
    tiles = tiles_c(ATTENTION, table(ATTENTION, rows))
    program = compile_grammar_cli(tmp_path, tiles_attention=tiles)
    for target in (None, "sm_80", "sm_90"):
        check_tiles(program, rows, target)


def test_a_target_has_tiles_and_limits_of_its_own(tmp_path: Path) -> None:
    large = "m128n128w4x2s2k192v128c"  # 185 KB of shared memory
    d192 = make_variant("fwd", 192, 192, "bf16")
    row = ROW.format(hdim=192, more='decode = false\ntarget = "sm_90"', tile=large)
    more_keys = ROW.format(
        hdim=192, more='decode = false\nmask = "full"\nsplit = false', tile="m64n32w4x1s2k192v32"
    )
    rows = tuned(tmp_path, row + more_keys)
    assert tile_of(d192, rows, "sm_90").name == large  # however many keys the other row has
    assert tile_of(d192, rows).name == "m64n32w4x1s2k192v32"
    causal = d192.replace(mask="causal")
    assert tile_of(causal, rows, "sm_80") == filled(causal)
    assert problems(d192, tile_of(d192, rows, "sm_90"), "sm_90") == []
    with pytest.raises(GeneratorError, match="189440 bytes of shared memory are over 166912"):
        tile_of(d192, tuned(tmp_path, row.replace('\ntarget = "sm_90"', "")))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[tiles]\n", "tiles is unknown"),
        (ROW.format(hdim=12, more="", tile="x"), "hdim 12 is not allowed"),
        (ROW.format(hdim="128.0", more="", tile="x"), "hdim 128.0 is not allowed"),
        (ROW.format(hdim=128, more='mask = "sliding"', tile="x"), "mask sliding is not allowed"),
        (ROW.format(hdim=128, more="decode = 1", tile="x"), "decode 1 is not allowed"),
        (ROW.format(hdim=128, more="stages = 3", tile="x"), "stages is unknown"),
        (ROW.format(hdim=128, more='target = "sm_80"', tile="x"), "target sm_80 is not allowed"),
        ('[[tile]]\npass = "fwd"\nhdim = 64\ntile = "x"\n', "arch is missing"),
        (ROW.format(hdim=128, more="", tile="big"), '"big" is not the name of a tile'),
        (
            ROW.format(hdim=128, more="", tile="m128n64w4x1s2k128v48"),
            "m128n64w4x1s2k128v48 is not legal for flash_fwd_hdim128_bf16_sm80: v_slab",
        ),
        (
            ROW.format(hdim=128, more='mask = "full"', tile="m64n64w4x1s2k64v64")
            + ROW.format(hdim=128, more='dtype = "bf16"', tile="m64n64w4x1s2k64v32"),
            "both claim flash_fwd_hdim128_bf16_sm80",
        ),
        ("[[tile\n", "is not valid TOML"),
    ],
)
def test_bad_tiles_toml(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(GeneratorError, match=re.escape(sentence)):
        tile_of(D128, tuned(tmp_path, text))


# ---- variants.toml ------------------------------------------------------------------------------


def test_the_default_set_holds_what_most_models_need() -> None:
    default = load_sets(ATTENTION)["default"]
    stems = {variant.stem for variant in default.variants}
    for hdim in (64, 96, 128, 192, 256):
        for dtype in ("fp16", "bf16"):
            for causal in ("", "_causal"):
                for split in ("", "_split"):
                    for arch in (80, 86, 90):
                        assert f"flash_fwd{split}_hdim{hdim}_{dtype}{causal}_sm{arch}" in stems
            assert f"flash_fwd_combine_hdim{hdim}_{dtype}_sm80" in stems
    assert "flash_fwd_hdim192v128_bf16_causal_sm80" in stems
    assert "flash_fwd_hdim192v128_bf16_causal_sm90" in stems
    targets = {target for stem, target in default.cubins if stem.endswith("_sm90")}
    assert targets == {"sm_90a"}
    assert list(default.cubins) == sorted(set(default.cubins))
    assert {stem for stem, _ in default.cubins} <= stems


def test_the_full_set_includes_the_default_set() -> None:
    sets = load_sets(ATTENTION)
    assert set(sets["default"].variants) < set(sets["full"].variants)
    assert set(sets["default"].cubins) < set(sets["full"].cubins)


CATALOG = """
[[set.default.product]]
pass = "fwd"
hdim = [64, 128]
dtype = "bf16"
mask = ["full", "causal"]
"""
EXCLUDE = '[[set.default.exclude]]\nreason = "{reason}"\n{axes}\n'


def sets_of(folder: Path, text: str) -> dict[str, VariantSet]:
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()}.toml"
    path.write_text(text, encoding="utf-8")
    return load_sets(ATTENTION, path)


def test_products_and_exclusions(tmp_path: Path) -> None:
    whole = sets_of(tmp_path, CATALOG)["default"]
    assert [variant.stem for variant in whole.variants] == [
        "flash_fwd_hdim128_bf16_causal_sm80",
        "flash_fwd_hdim128_bf16_sm80",
        "flash_fwd_hdim64_bf16_causal_sm80",
        "flash_fwd_hdim64_bf16_sm80",
    ]
    assert whole.cubins[:2] == (
        ("flash_fwd_hdim128_bf16_causal_sm80", "sm_80"),
        ("flash_fwd_hdim128_bf16_causal_sm80", "sm_90"),
    )
    assert len(whole.cubins) == 8

    axes = 'hdim = 128\nmask = ["full"]'
    fewer = sets_of(tmp_path, CATALOG + EXCLUDE.format(reason="x", axes=axes))["default"]
    assert set(whole.variants) - set(fewer.variants) == {D128}
    assert {stem for stem, _ in fewer.cubins} == {variant.stem for variant in fewer.variants}

    axes = 'hdim = 128\ntarget = "sm_90"'
    fewer = sets_of(tmp_path, CATALOG + EXCLUDE.format(reason="x", axes=axes))["default"]
    assert fewer.variants == whole.variants
    assert set(whole.cubins) - set(fewer.cubins) == {
        ("flash_fwd_hdim128_bf16_causal_sm80", "sm_90"),
        ("flash_fwd_hdim128_bf16_sm80", "sm_90"),
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CATALOG.replace("[64, 128]", "[64, 12]"), "hdim 12 is not allowed"),
        (CATALOG.replace('"bf16"', '"fp32"'), "dtype fp32 is not allowed"),
        (CATALOG.replace("hdim = [64, 128]\n", ""), "hdim is missing"),
        (CATALOG.replace("mask =", "masks ="), "masks is unknown"),
        (CATALOG.replace("[64, 128]", "[64, 72]\nhdim_v = 100"), "100"),
        (CATALOG + "arch = 89\n", "arch 89 is not allowed"),
        (
            CATALOG + EXCLUDE.format(reason="x", axes='target = "sm90"'),
            "target sm90 is unknown: it must be sm_80",
        ),
        (CATALOG.replace("set.default", "set.other"), "no set named default"),
        (
            CATALOG + EXCLUDE.format(reason="why", axes="hdim = 72"),
            'nothing matches the exclusion "why"',
        ),
        (CATALOG + "[[set.default.exclude]]\nhdim = 64\n", "reason is missing"),
        (
            CATALOG + "split = [false, true]\n",
            "its kernels need others as well: flash_fwd_combine_hdim128_bf16_sm80, "
            "flash_fwd_combine_hdim64_bf16_sm80",
        ),
    ],
)
def test_bad_variants_toml(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(GeneratorError, match=re.escape(sentence)):
        sets_of(tmp_path, text)


# ---- Device headers -----------------------------------------------------------------------------


def test_every_include_is_embedded() -> None:
    headers = device_headers()
    assert {"attnpress/args/attention.h", "attnpress/args/common.h"} <= headers.keys()
    texts = dict(headers)
    for path in (ROOT / "templates").rglob("*.j2"):
        texts[path.name] = path.read_text(encoding="utf-8")
    for name, text in texts.items():
        # The JIT has no host headers: args/common.h includes those for the host alone.
        for included in re.findall(r'^\s*#include "([^"]*)"', text, flags=re.MULTILINE):
            every = [included]
            if "$" in included:  # a width of wgmma
                every = [re.sub(r"\$\{.*?\}", str(n), included) for n in range(8, 257, 8)]
            for one in every:
                assert one in headers, f"{name} includes {one}, which is not in {HEADERS}"


def test_wgmma_headers_are_what_a_person_would_write() -> None:
    headers = pressed_headers(environment())
    assert len(headers) == 32
    for columns in range(8, 257, 8):
        text = headers[f"attnpress/device/wgmma/ptx_wgmma_n{columns}.cuh"]
        assert max(map(len, text.splitlines())) <= 100, columns
        assert text.endswith("}\n") and "\n\n\n" not in text
        assert not re.search(r"[ \t]\n|//%|<%|%>|<#|#>|\$\{|\t", text), columns
        kinds = ("ss", "rs_trans")
        if columns in (32, 64, 80, 96, 128, 192, 256):
            kinds += ("ss_trans", "ss_trans_both")
        if columns % 16 == 0:
            kinds += ("rs",)
        for dtype in DTYPES:
            for kind in kinds:
                name = f"void wgmma_m64n{columns}k16_{dtype}_{kind}("
                first, second = re.search(rf"^(.*{re.escape(name)}).*\n( *)\S", text, re.M).groups()
                assert len(first) == len(second), "arguments stand below each other"
        assert text.count(f'"+f"(d[{columns // 2 - 1}])') == 2 * len(kinds) + 1
        assert f"d[{columns // 2}]" not in text
        assert f"void wgmma_order_n{columns}(float *d)" in text


def test_the_digest_sees_names_texts_and_where_they_end() -> None:
    digests = [
        headers_digest(headers)
        for headers in (
            {"a": "x", "b": "y"},
            {"a": "x", "b": "z"},
            {"a": "x", "c": "y"},
            {"a": "xb", "": "y"},
            {"a": "x1:b", "": "y"},
            {"ax": "by"},
            {"a": "xby"},
            {"a": "x"},
        )
    ]
    assert len(set(digests)) == len(digests)
    assert headers_digest({"a": "x", "b": "y"}) == headers_digest({"b": "y", "a": "x"})


def test_embedded_texts_are_the_headers(tmp_path: Path) -> None:
    """Also one that is longer than C11's limit, and one that is awkward in a literal."""
    headers = device_headers()
    headers["awkward.cuh"] = 'a "b" \\\\ \\n ??/ é7\t%d\r\n\nno newline at the end'
    headers["empty.cuh"] = ""
    headers["long.cuh"] = "0123456789abcdef\n" * 1000
    (tmp_path / "device_headers.c").write_text(device_headers_c(headers), encoding="utf-8")
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\n"
        '#include "../runtime/press/registry.h"\n'
        "int main(void) {\n"
        "  for (size_t i = 0; i < ap_device_headers_count; ++i)\n"
        '    printf("%s%c%s%c", ap_device_headers[i].name, 0, ap_device_headers[i].text, 0);\n'
        '  printf("%s", ap_device_headers_digest);\n'
        "}\n",
        encoding="utf-8",
    )
    program = compile_c(tmp_path / "main", [tmp_path / "main.c", tmp_path / "device_headers.c"])
    *parts, digest = run_lines(program, []).decode().split("\0")
    assert dict(zip(parts[::2], parts[1::2], strict=True)) == headers
    assert digest == headers_digest(headers)


# ---- generated/ ---------------------------------------------------------------------------------


def test_generated_is_up_to_date(capsys: pytest.CaptureFixture, monkeypatch) -> None:
    monkeypatch.setattr("generator.registry.generated_files", fresh_files)
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_generated_sources_are_the_default_set() -> None:
    committed = {path.name for path in (ROOT / "generated").glob("*.cu")}
    assert committed == {f"{variant.stem}.cu" for variant in shown_variants()}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_tables_compile_without_a_warning(tmp_path: Path, compiler: str, monkeypatch) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    monkeypatch.setenv("CC", compiler)
    for name, text in fresh_files().items():
        if name.endswith(".c"):
            (tmp_path / name).write_text(text, encoding="utf-8")
            compile_c(tmp_path / "object.o", [tmp_path / name], "-c")


def copy_generator(folder: Path) -> Path:
    """A checkout with all that the generator reads."""
    for name in ("generator", "templates", "include"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def written_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    folder = copy_generator(tmp_path_factory.mktemp("written") / "checkout")
    run(folder, PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C")
    return folder


@pytest.fixture
def checkout(tmp_path: Path, written_checkout: Path) -> Path:
    return Path(shutil.copytree(written_checkout, tmp_path / "checkout"))


def run(folder: Path, *arguments: str, status: int = 0, **environ: str) -> tuple[str, str]:
    """`python -m generator` in a checkout; what it wrote to stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "generator", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_check_and_write(checkout: Path) -> None:
    """Finds a missing, a differing and an orphaned file, names each, and repairs them; touches
    nothing else. Of the headers that come from a template neither a stale one nor an orphan gets
    into the table of device headers."""
    generated = checkout / "generated"
    before = contents(generated)
    (generated / "flash_fwd_hdim64_bf16_sm80.cu").unlink()
    with (generated / "tiles_attention.c").open("a", encoding="utf-8") as file:
        file.write("\n")
    (generated / "flash_fwd_hdim40_bf16_sm80.cu").write_text("orphan", encoding="utf-8")
    (generated / "notes.txt").write_text("somebody's", encoding="utf-8")
    headers = checkout / "include" / "attnpress" / "device" / "wgmma"
    (headers / "ptx_wgmma_n12.cuh").write_text("orphan", encoding="utf-8")
    (headers / "ptx_wgmma_n64.cuh").write_text("stale", encoding="utf-8")
    (headers / "ptx_wgmma_n256.cuh").unlink()
    stamps = {path.name: path.stat().st_mtime_ns for path in generated.iterdir()}

    out, err = run(checkout, "--check", status=1)
    assert out.splitlines() == [
        "missing: generated/flash_fwd_hdim64_bf16_sm80.cu",
        "differing: generated/tiles_attention.c",
        "missing: include/attnpress/device/wgmma/ptx_wgmma_n256.cuh",
        "differing: include/attnpress/device/wgmma/ptx_wgmma_n64.cuh",
        "orphaned: generated/flash_fwd_hdim40_bf16_sm80.cu",
        "orphaned: generated/notes.txt",
        "orphaned: include/attnpress/device/wgmma/ptx_wgmma_n12.cuh",
    ]
    assert "run python -m generator" in err
    assert {path.name: path.stat().st_mtime_ns for path in generated.iterdir()} == stamps

    out, err = run(checkout)
    assert out.splitlines() == [
        "removed: generated/flash_fwd_hdim40_bf16_sm80.cu",
        "removed: include/attnpress/device/wgmma/ptx_wgmma_n12.cuh",
        f"{len(before) + 32} files, 4 written, {len(before) + 28} unchanged",
    ]
    assert err == "orphaned, not the generator's, left: generated/notes.txt\n"
    after = contents(generated)
    assert after.pop("notes.txt") == b"somebody's"
    assert after == before
    for path in generated.iterdir():
        if path.name not in ("flash_fwd_hdim64_bf16_sm80.cu", "tiles_attention.c"):
            assert path.stat().st_mtime_ns == stamps[path.name], path.name
    assert (headers.parent / "ptx_wgmma.cuh").is_file()

    (generated / "notes.txt").unlink()
    run(checkout, "--check")


@pytest.mark.parametrize(
    ("name", "old", "new", "differing"),
    [
        ("include/attnpress/args/attention.h", "batch", "Batch", ["device_headers.c"]),
        (
            "templates/attention/flash_fwd_combine.cu.j2",
            "Adds up the splits of a forward pass:",
            "Sums the splits of a forward pass:",
            ["flash_fwd_combine_*.cu", "render_flash_fwd_combine.c"],
        ),
        (
            "templates/device/ptx_wgmma.cuh.j2",
            "No instruction.",
            "Not an instruction.",
            ["device_headers.c", "include/attnpress/device/wgmma/ptx_wgmma_n*.cuh"],
        ),
        (
            "generator/attention/family.toml",
            'targets = ["sm_86"]',
            'targets = ["sm_90"]',
            ["default_set.c"],
        ),
    ],
)
def test_check_sees_a_change_of(
    checkout: Path, name: str, old: str, new: str, differing: list[str]
) -> None:
    text = (checkout / name).read_text(encoding="utf-8")
    assert old in text
    (checkout / name).write_text(text.replace(old, new), encoding="utf-8")
    out, _ = run(checkout, "--check", status=1)
    names = [line.removeprefix("differing: ") for line in out.splitlines()]
    names = [name.removeprefix("generated/") for name in names]
    assert names
    for glob in differing:
        assert fnmatch.filter(names, glob), f"{glob} is not said to differ"
    assert all(any(fnmatch.fnmatch(found, glob) for glob in differing) for found in names), names


def test_output_depends_on_neither_place_nor_time_nor_hash_seed(
    tmp_path: Path, written_checkout: Path
) -> None:
    elsewhere = copy_generator(tmp_path / "another place")
    run(elsewhere, PYTHONHASHSEED="77", TZ="Asia/Tokyo")
    assert contents(elsewhere / "generated") == contents(written_checkout / "generated")
    for folder in (elsewhere, written_checkout):
        for name, data in contents(folder / "generated").items():
            assert str(folder).encode() not in data, name


def test_a_template_that_cannot_be_compiled_fails_the_generator(checkout: Path) -> None:
    path = checkout / "templates" / "attention/flash_fwd_sm80.cu.j2"
    text = path.read_text(encoding="utf-8")
    line = text.count("\n") + 1
    path.write_text(text + "// ${ stem | upper }\n", encoding="utf-8")
    before = contents(checkout / "generated")
    out, err = run(checkout, status=2)
    assert out == ""
    assert err == (
        f"python -m generator: attention/flash_fwd_sm80.cu.j2:{line}: "
        "a filter (upper) cannot be compiled to C\n"
    )
    assert contents(checkout / "generated") == before


# ---- The command line ---------------------------------------------------------------------------


def test_list_and_only(capsys: pytest.CaptureFixture) -> None:
    assert main(["--list"]) == 0
    stems = capsys.readouterr().out.split()
    assert stems == sorted(stems)
    assert stems == sorted(
        variant.stem for family in families() for variant in load_sets(family)["default"].variants
    )
    assert main(["--list", "--only", "*_hdim96_*causal*sm86"]) == 0
    some = capsys.readouterr().out.split()
    assert some == [stem for stem in stems if fnmatch.fnmatch(stem, "*_hdim96_*causal*sm86")]
    assert "flash_fwd_split_hdim96_bf16_causal_sm86" in some
    assert main(["--list", "--set", "full", "--only", "flash_fwd_hdim40_bf16_sm80"]) == 0
    assert capsys.readouterr().out == "flash_fwd_hdim40_bf16_sm80\n"


def test_only_writes_and_checks_what_matches(checkout: Path) -> None:
    generated = checkout / "generated"
    before = contents(generated)
    for name in ("flash_fwd_hdim96_fp16_sm80.cu", "flash_fwd_hdim64_fp16_sm80.cu"):
        (generated / name).unlink()
    (generated / "flash_fwd_hdim960_fp16_sm80.cu").write_text("", encoding="utf-8")
    (generated / "flash_fwd_hdim640_fp16_sm80.cu").write_text("", encoding="utf-8")
    out, _ = run(checkout, "--check", "--only", "*hdim96*", status=1)
    assert out.splitlines() == [
        "missing: generated/flash_fwd_hdim96_fp16_sm80.cu",
        "orphaned: generated/flash_fwd_hdim960_fp16_sm80.cu",
    ]
    out, _ = run(checkout, "--only", "*hdim96*")
    assert "removed: generated/flash_fwd_hdim960_fp16_sm80.cu" in out
    run(checkout, "--check", "--only", "*hdim96*")
    after = contents(generated)
    del before["flash_fwd_hdim64_fp16_sm80.cu"]
    assert after.pop("flash_fwd_hdim640_fp16_sm80.cu") == b""
    assert after == before


@pytest.mark.parametrize(
    ("arguments", "stems"),
    [
        (
            "--hdim 40 --dtype bf16 --causal --arch sm80",
            ["flash_fwd_hdim40_bf16_causal_sm80"],
        ),
        (
            "--hdim 40 --dtype bf16 --causal --arch sm80 --split",
            ["flash_fwd_split_hdim40_bf16_causal_sm80"],
        ),
        (
            "--hdim 192 --hdim-v 128 --dtype fp16 --arch sm_86 --decode",
            ["flash_fwd_hdim192v128_fp16_decode_sm86"],
        ),
        ("--hdim 72", ["flash_fwd_hdim72_bf16_sm80"]),
        (
            "--hdim 72 --dtype bf16 --causal --arch sm90",
            ["flash_fwd_hdim72_bf16_causal_sm90"],
        ),
        (
            "--pass fwd_combine --hdim 40 72 --dtype fp16 bf16",
            [
                "flash_fwd_combine_hdim40_fp16_sm80",
                "flash_fwd_combine_hdim40_bf16_sm80",
                "flash_fwd_combine_hdim72_fp16_sm80",
                "flash_fwd_combine_hdim72_bf16_sm80",
            ],
        ),
    ],
)
def test_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture, arguments: str, stems: list[str]
) -> None:
    folder = tmp_path / "new" / "folder"
    assert main([*arguments.split(), "--out", str(folder)]) == 0
    assert capsys.readouterr().out.split() == [str(folder / f"{stem}.cu") for stem in stems]
    assert {path.stem for path in folder.iterdir()} == set(stems)
    env = environment()
    for stem in stems:
        text = (folder / f"{stem}.cu").read_text(encoding="utf-8")
        assert text == source(env, parse_stem(stem))
        assert f" {stem}(" in text


def test_on_demand_goes_to_the_build_folder(checkout: Path) -> None:
    before = contents(checkout / "generated")
    out, _ = run(checkout, "--hdim", "40")
    assert out == "build/pressed/flash_fwd_hdim40_bf16_sm80.cu\n"
    assert (checkout / out.strip()).is_file()
    assert contents(checkout / "generated") == before


def test_on_demand_with_a_tile(tmp_path: Path) -> None:
    name = "m64n32w4x1s3k64v16b2u2"
    assert main(["--hdim", "128", "--tile", name, "--out", str(tmp_path)]) == 0
    text = (tmp_path / "flash_fwd_hdim128_bf16_sm80.cu").read_text(encoding="utf-8")
    assert name in text
    assert "constexpr int STAGES = 3;" in text


def test_a_set_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    glob = "flash_fwd_hdim512_*"
    assert main(["--set", "full", "--only", glob, "--out", str(tmp_path)]) == 0
    printed = [Path(line).name for line in capsys.readouterr().out.split()]
    assert sorted(printed) == sorted(path.name for path in tmp_path.iterdir())
    assert len(printed) == 16


def test_the_command_in_a_source_presses_that_source(tmp_path: Path) -> None:
    """The header of each kind of generated file."""
    kinds = [
        "flash_fwd_hdim96_fp16_causal_sm80",
        "flash_fwd_split_hdim192_bf16_causal_sm80",
        "flash_fwd_split_hdim192v128_bf16_sm86",
        "flash_fwd_hdim64_bf16_causal_decode_sm86",
        "flash_fwd_combine_hdim192_bf16_sm80",
        "flash_fwd_split_hdim192v128_bf16_causal_sm90",
    ]
    for stem in kinds:
        text = (ROOT / "generated" / f"{stem}.cu").read_text(encoding="utf-8")
        command = re.search(r"^// +python -m generator (.*)$", text, flags=re.MULTILINE)
        assert command, stem
        assert main([*shlex.split(command[1]), "--out", str(tmp_path)]) == 0
        assert (tmp_path / f"{stem}.cu").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--hdim 12", "head dim 12 is not supported: it must be a multiple of 8 from 8 to 512"),
        ("--hdim 0", "head dim 0 is not supported: it must be a multiple of 8 from 8 to 512"),
        ("--hdim 520", "head dim 520 is not supported: it must be a multiple of 8 from 8 to 512"),
        ("--hdim -8", "head dim -8 is not supported: it must be a multiple of 8 from 8 to 512"),
        ("--hdim wide", "invalid int value: 'wide'"),
        ("--hdim", "argument --hdim: expected at least one argument"),
        ("--hdim 64 --hdim-v 0", "value head dim 0 is not supported"),
        ("--hdim 64 --hdim-v 576", "value head dim 576 is not supported: it must be a multiple"),
        ("--hdim 264 --hdim-v 64 --arch sm90", "head dim 264 is not supported on sm90"),
        ("--hdim 64 --dtype fp32", "dtype fp32 is unknown: it must be fp16 or bf16"),
        ("--hdim 64 --arch sm75", "arch sm75 is unknown: it must be sm80, sm86 or sm90"),
        ("--hdim 64 --arch hopper", "arch hopper is unknown: it must be sm80, sm86 or sm90"),
        ("--hdim 320 --arch sm90 --window", "mask window is not supported"),
        ("--hdim 64 --arch sm90 --decode", "no split is not supported on sm90 and with decode"),
        ("--hdim 64 --arch sm90 --tile m128n256s9", "bytes of shared memory are over 232448"),
        ("--hdim 64 --tile m128n64s2", "a tile with a producer needs sm90"),
        (
            "--hdim 64 --pass back",
            "pass back is unknown: it must be fwd, fwd_combine, bwd, bwd_dkv, bwd_dq, bwd_delta, "
            "bwd_convert, bwd_sinks, fwd_map, fwd_schedule or bwd_dbias",
        ),
        ("--hdim 64 --pass fwd_combine --split", "split is not supported in the fwd_combine pass"),
        ("--hdim 64 --tile big", '"big" is not the name of a tile'),
        ("--hdim 64 --tile m128n64w4x1s2k128v64", "k_slab is more than the head dim, 64"),
        ("--hdim 64 --tile m128n64w4x1s99k64v64", "bytes of shared memory are over"),
        ("--hdim 64 --out generated", "--out cannot be generated/"),
        ("--hdim 64 --check", "--check does not go with --hdim"),
        ("--hdim 64 --list", "--list does not go with --hdim"),
        ("--hdim 64 --only x", "--only does not go with --hdim"),
        ("--hdim 64 --set full", "--set does not go with --hdim"),
        ("--dtype bf16", "--dtype needs --hdim"),
        ("--causal", "--causal needs --hdim"),
        ("--pass fwd", "--pass needs --hdim"),
        ("--hdim-v 64", "--hdim-v needs --hdim"),
        ("--check --list", "not allowed with argument"),
        ("--set full", "--set needs --list or --out"),
        ("--set huge --list", "set huge is unknown: it must be one of default, full"),
        ("--check --out x", "--out does not go with --list or --check"),
        ("--only nothing*", 'nothing in the default set matches "nothing*"'),
        ("--list --only nothing*", 'nothing in the default set matches "nothing*"'),
        ("--frobnicate", "--frobnicate is not an option; of attention there are --pass, --split"),
        ("extra", "extra is not an option"),
        ("--family matmul", "--family needs --list, --out, --only, or an axis such as --cols"),
        ("--he", "--he is not an option"),
    ],
)
def test_bad_arguments(
    tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture, arguments: str, sentence: str
) -> None:
    """Status 2, one sentence on stderr, nothing on stdout, nothing written."""
    (tmp_path / "generated").symlink_to(ROOT / "generated")
    monkeypatch.chdir(tmp_path)
    before = contents(ROOT / "generated")
    try:
        status = main(arguments.split())
    except SystemExit as end:
        status = end.code
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.startswith("python -m generator: ")
    assert sentence in captured.err
    assert captured.err.count("\n") == 1
    assert contents(ROOT / "generated") == before
    assert [path.name for path in tmp_path.iterdir()] == ["generated"]


def test_an_unwritable_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(["--hdim", "40", "--out", str(tmp_path / "file" / "x")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_missing_inputs_are_named(checkout: Path) -> None:
    (checkout / "templates" / "attention/flash_fwd_combine.cu.j2").unlink()
    _, err = run(checkout, "--check", status=2)
    assert err == "python -m generator: template attention/flash_fwd_combine.cu.j2 is missing\n"
    (checkout / "generator" / "attention" / "variants.toml").unlink()
    _, err = run(checkout, "--list", status=2)
    assert "variants.toml cannot be read: No such file or directory" in err


def test_jinja2_missing(checkout: Path) -> None:
    (checkout / "jinja2.py").write_text(
        "raise ModuleNotFoundError(name='jinja2')", encoding="utf-8"
    )
    _, err = run(checkout, "--list", status=2)
    assert err == "python -m generator: Jinja2 is not installed: pip install jinja2\n"


def test_python_310_reads_toml_with_tomli(checkout: Path) -> None:
    """tomllib exists from Python 3.11: without it tomli is used, and named where it is missing."""
    (checkout / "tomllib.py").write_text("raise ModuleNotFoundError('tomllib')", encoding="utf-8")
    (checkout / "tomli.py").write_text("raise ModuleNotFoundError('tomli')", encoding="utf-8")
    _, err = run(checkout, "--list", status=2)
    assert err == (
        "python -m generator: Python 3.10 has no tomllib: install tomli (pip install tomli)\n"
    )
    library = Path(sys.modules["tomllib"].__file__).parent if "tomllib" in sys.modules else None
    if library is not None:
        (checkout / "tomli.py").unlink()
        shutil.copytree(library, checkout / "tomli")
        out, _ = run(checkout, "--list")
        assert "flash_fwd_hdim96_fp16_causal_sm80" in out.split()


def test_a_reader_that_goes_away() -> None:
    command = f"{sys.executable} -m generator --list | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.count("\n") == 1 and done.stderr == ""


def test_help(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    for option in (
        "--check",
        "--list",
        "--only",
        "--hdim",
        "--dtype",
        "--causal",
        "--arch",
        "--out",
    ):
        assert option in out
