"""Faults in what is done to scores, for mutate.py."""

from __future__ import annotations

from mutations import (
    BLOCK,
    COMBINED_ROW,
    DENSE_PRODUCER,
    EPILOGUE,
    FWD,
    FWD_ALIBI,
    FWD_PRODUCTS,
    FWD_SCORES,
    FWD_SM90,
    FWD_WALK,
    SCORE,
    SOFTMAX,
    WORK,
    Mutation,
)

MODIFY = "include/attnpress/device/modify.cuh"
DROPOUT = "include/attnpress/device/dropout.cuh"
ROUNDED = "include/attnpress/device/dropout_rounded.cuh"

KERNELS = [
    ("flash_fwd_hdim64_bf16_window_sm80", ""),
    ("flash_fwd_hdim72_fp16_window_sm90", "m192n48s3"),
    ("flash_fwd_split_hdim64_fp16_window_decode_sm80", ""),
    ("flash_fwd_hdim40_fp16_softcap_biasfp16_sm80", ""),
    ("flash_fwd_hdim72_bf16_softcap_biasfp32_sm90", "m128n80s2"),
    ("flash_fwd_hdim72_bf16_window_softcap_sm90", "m128n80s2"),
    ("flash_fwd_hdim40_bf16_alibi_biasbf16_sm80", ""),
    ("flash_fwd_hdim40_fp16_alibi_biasbf16_sm90", "m128n64s2"),
    ("flash_fwd_hdim40_bf16_window_alibi_biasbf16_sm90", "m128n64s2"),
    ("flash_fwd_hdim40_bf16_alibi_sm90", "m128n32s2"),
    ("flash_fwd_hdim40_fp16_causal_alibi_sm90", "m128n32s2"),
    ("flash_fwd_hdim40_bf16_causal_biasfp16_sm90", "m192n48s2"),
    ("flash_fwd_hdim96_fp16_causal_biasbf16_sm90", "m128n96s3"),
    ("flash_fwd_hdim72_bf16_softcap_alibi_sm90", "m128n48s2"),
    ("flash_fwd_hdim64_bf16_causal_dropout_sm80", ""),
    ("flash_fwd_hdim64_fp16_dropout_sm90", "m128n80s2"),
    ("flash_fwd_hdim40_bf16_alibi_dropout_sm90", "m128n32s2"),
    ("flash_fwd_split_hdim72_bf16_window_alibi_dropout_decode_sm80", ""),
]
"""Each feature on both architectures; a bias in each dtype; split and not; whole tiles and small
row blocks; one to three consumers."""

CAP_SM80 = """\
//% if softcap
    cap_scores(score[m], S_TILES, &args->score);
//% endif
"""
ADD_SM80 = """\
      add_alibi(score[m], S_TILES, half, row, first_key + lane % 4 * 2);
//% endif
    }
//% endif
"""
CAP_SM90 = """\
//% if softcap
  cap_scores(score, S_TILES, &fwd->score);
//% endif
"""
SUM_SM90 = "  take_rows_lazily(score, S_TILES, reference, row_sum, rescale, scale_log2, DTYPE);\n"

MUTATIONS = [
    # ---- Windows ----
    Mutation(
        "window: a key too many at the left",
        SCORE,
        "max(center, 0) - args->window_left",
        "max(center, 0) - args->window_left - 1",
    ),
    Mutation(
        "window: a key too few at the left",
        SCORE,
        "max(center, 0) - args->window_left",
        "max(center, 0) - args->window_left + 1",
    ),
    Mutation("window: a key too many at the right", SCORE, "center + 1 + min", "center + 2 + min"),
    Mutation("window: a key too few at the right", SCORE, "center + 1 + min", "center + min"),
    Mutation(
        "window: the right end overflows",
        SCORE,
        "center + 1 + min(args->window_right, seqlen_k - 1 - center)",
        "min((int)((uint32_t)center + 1u + (uint32_t)args->window_right), seqlen_k)",
    ),
    Mutation(
        "window: the left end overflows",
        SCORE,
        "max(center, 0) - args->window_left",
        "(int)((uint32_t)center - (uint32_t)args->window_left)",
    ),
    Mutation(
        "window: begins before the first key",
        SCORE,
        "max(max(center, 0) - args->window_left, 0)",
        "max(center, 0) - args->window_left",
    ),
    Mutation(
        "window: aligned at the top left", SCORE, "position + args->window_center", "position"
    ),
    Mutation(
        "chunk: one key late",
        SCORE,
        "center - center % args->window_chunk",
        "center - center % args->window_chunk + 1",
    ),
    Mutation(
        "chunk: a key too many",
        SCORE,
        "args->window_chunk) + chunk",
        "args->window_chunk + 1) + chunk",
    ),
    Mutation(
        "chunk: queries before the first key see one",
        SCORE,
        "center < 0 ? 0 : min(end - chunk",
        "min(end - chunk",
    ),
    Mutation("window: the left end is not masked", SCORE, "other < row.key_begin", "false"),
    Mutation(
        "window: the left end is not masked, by bits",
        SCORE,
        "    if (before)\n      seen &= ~bits_below(keys_before(row.key_begin - key) - first);\n",
        "",
    ),
    Mutation(
        "window: the right end is not masked, by bits",
        SCORE,
        "    if (behind)\n      seen = bits_below(keys_before(row.key_end - key) - first);\n",
        "",
    ),
    Mutation(
        "window: the left end's blocks count as whole, sm80",
        FWD,
        " || n * BLOCK_N < unmasked.begin",
        "",
    ),
    Mutation(
        "window: the left end's blocks count as whole, sm90",
        FWD_SCORES,
        "before = walk->n * BLOCK_N < walk->unmasked.begin",
        "before = false",
    ),
    Mutation(
        "window: the right end's blocks count as whole, sm90",
        FWD_SCORES,
        "behind = (walk->n + 1) * BLOCK_N > walk->unmasked.end",
        "behind = false",
    ),
    # Key blocks from the first key on that a unit sees.
    Mutation(
        "own blocks: rows begin at keys counted from key 0",
        FWD_WALK,
        "    walk->rows[half].key_begin -= key_begin;\n",
        "",
    ),
    Mutation(
        "own blocks: rows end at keys counted from key 0",
        FWD_WALK,
        "    walk->rows[half].key_end -= key_begin;\n",
        "",
    ),
    Mutation(
        "own blocks: unmasked keys begin at one counted from key 0",
        FWD_WALK,
        "{walk->unmasked.begin - key_begin,",
        "{walk->unmasked.begin,",
    ),
    Mutation(
        "own blocks: unmasked keys end at one counted from key 0",
        FWD_WALK,
        "walk->unmasked.end - key_begin}",
        "walk->unmasked.end}",
    ),
    Mutation(
        "own blocks: K from key 0 on",
        DENSE_PRODUCER,
        "K_SLABS, key_begin + n * BLOCK_N",
        "K_SLABS, n * BLOCK_N",
    ),
    Mutation(
        "own blocks: V from key 0 on",
        DENSE_PRODUCER,
        "V_SLABS, key_begin + n * BLOCK_N",
        "V_SLABS, n * BLOCK_N",
    ),
    Mutation(
        "own blocks: begin anywhere",
        FWD_SM90,
        "keys.begin / KEY_ALIGNMENT * KEY_ALIGNMENT",
        "keys.begin",
    ),
    Mutation(
        "own blocks: a consumer's begin one late",
        WORK,
        "{(keys.begin - first) / block_n,",
        "{(keys.begin - first) / block_n + 1,",
    ),
    Mutation(
        "own blocks: the last one is lost",
        WORK,
        "ceil_div(max(keys.end - first, 0), block_n)}",
        "max(keys.end - first, 0) / block_n}",
    ),
    Mutation(
        "own blocks: slopes count from key 0",
        FWD_WALK,
        "    walk->score_rows[half].center -= key_begin;\n",
        "",
    ),
    Mutation(
        "own blocks: the diagonal counts from key 0",
        FWD_WALK,
        '${ " - key_begin" if own_blocks else "" }',
        "",
    ),
    Mutation(
        "own blocks: bias from key 0 on",
        DENSE_PRODUCER,
        "shared, &bias_stage, &unit, block_key(&unit, n - 1));\n      }",
        "shared, &bias_stage, &unit, (n - 1) * BLOCK_N);\n      }",
    ),
    Mutation(
        "window: keys of all begin with the first row's",
        WORK,
        "{last.key_begin, first.key_end}",
        "{first.key_begin, first.key_end}",
    ),
    Mutation(
        "window: keys of some begin with the last row's",
        WORK,
        "{first.key_begin, last.key_end}",
        "{last.key_begin, last.key_end}",
    ),
    Mutation("window: all blocks from the first key on", WORK, "{keys.begin / block_n,", "{0,"),
    Mutation(
        "window: a block cut off at the left",
        WORK,
        "{keys.begin / block_n,",
        "{ceil_div(keys.begin, block_n),",
    ),
    Mutation(
        "window: splits count from the first key",
        WORK,
        "blocks.begin + split * per_split",
        "split * per_split",
    ),
    Mutation(
        "window: ring from the first key, sm80",
        FWD,
        "block_begin = blocks.begin;",
        "block_begin = 0;",
    ),
    Mutation(
        "consumers do not let the left end's blocks pass",
        FWD_SM90,
        "for (; unseen > 0; --unseen)",
        "for (; unseen > 1000000; --unseen)",
    ),
    Mutation(
        "a block at the left end too few passes",
        FWD_SM90,
        "for (; unseen > 0;",
        "for (; unseen > 1;",
    ),
    Mutation(
        "the stream goes on over blocks that were not let pass",
        FWD_SM90,
        "if (unseen > 0 || !more ||",
        "if (!more ||",
    ),
    Mutation(
        "Q is given back a block late",
        FWD_SM90,
        '"walk.n == walk.block_begin" if ends_apart else "walk.n == walk.unit.blocks.begin" }'
        '${ " && walk.unit.ends & LAST_SPLIT" if fixed_splits else "" }${ ", walk.n == second"',
        '"walk.n == walk.unit.blocks.begin" }${ ", walk.n == second"',
    ),
    # ---- Softcap ----
    Mutation("softcap is left out, sm80", BLOCK, CAP_SM80, ""),
    Mutation("softcap is left out, sm90", FWD_SCORES, CAP_SM90, ""),
    Mutation("softcap after the bias, sm80", BLOCK, ADD_SM80, ADD_SM80 + CAP_SM80),
    Mutation(
        "softcap after the bias alone, sm90",
        FWD_SCORES,
        CAP_SM90,
        '//% if bias != "none"\n  for (int half = 0; half < 2; ++half)\n'
        "    add_bias(score, bias[half], BIAS, S_TILES, half, 1.0f / fwd->scale);\n//% endif\n"
        + CAP_SM90
        + '//% if bias != "none"\n  for (int half = 0; half < 2; ++half)\n'
        "    add_bias(score, bias[half], BIAS, S_TILES, half, -fwd->score.units_per_natural);\n"
        "//% endif\n",
    ),
    Mutation("the cap is not divided by", MODIFY, "score[i] * args->softcap_scale", "score[i]"),
    # ---- ALiBi ----
    Mutation(
        "far: P V of the last near block twice",
        FWD_SM90,
        "    if (!far) {\n",
        "    {\n",
    ),
    Mutation(
        "far: P V of a key block that counts is left out",
        FWD_SM90,
        "          if (!nothing) {\n",
        "          if (false) {\n",
    ),
    Mutation(
        "far: one warp of a consumer asks for itself",
        FWD_ALIBI,
        "named_barrier_all(8 + consumer, 128, nothing)",
        "nothing",
    ),
    Mutation(
        "outwards: one side alone",
        FWD_SM90,
        "step % 2 == 0 ? unit->nearest + step / 2 : unit->nearest - (step + 1) / 2",
        "unit->nearest - step",
    ),
    Mutation(
        "outwards: what is left of the longer side begins a block late",
        FWD_SM90,
        "unit->nearest - (step - both) :",
        "unit->nearest - (step - both - 1) :",
    ),
    Mutation(
        "outwards: V of another block than K",
        DENSE_PRODUCER,
        '${ "block_at(&unit, n)" if outward else "n" }',
        "n",
    ),
    Mutation(
        "outwards: a bound is followed like a maximum",
        SOFTMAX,
        "      const float most = row_maximum(score, tiles, half, -INF) + offset[half];\n",
        "      const float most = quad_max(bound_of_lane(score, tiles, half)) + 200.0f;\n",
    ),
    Mutation(
        "sign of the slope", MODIFY, "multiply_add_once(-row.slope", "multiply_add_once(row.slope"
    ),
    Mutation(
        "distance from the wrong row",
        MODIFY,
        "row.center = position + args->seqlen_k - args->seqlen_q",
        "row.center = position",
    ),
    Mutation("distance with its sign", MODIFY, "fabsf(distance", "(distance"),
    Mutation("slope of the first head", MODIFY, "head * score->alibi_head_stride", "0"),
    Mutation("slope of the first batch", MODIFY, "batch * score->alibi_batch_stride", "0"),
    Mutation(
        "slope in natural units", MODIFY, "        score->units_per_natural;", "        1.0f;"
    ),
    Mutation(
        "distance from the tile's first key",
        BLOCK,
        "row, first_key + lane % 4 * 2",
        "row, first_key",
    ),
    Mutation(
        "distance from the wrong block",
        FWD_SCORES,
        "this_key = first_key + threadIdx.x % 4 * 2",
        "this_key = first_key + BLOCK_N + threadIdx.x % 4 * 2",
    ),
    Mutation(
        "distance beside the diagonal, on the other side",
        MODIFY,
        "  if (side > 0) {\n#pragma unroll",
        "  if (side < 0) {\n#pragma unroll",
    ),
    Mutation(
        "distance beside the diagonal, without the row's share",
        MODIFY,
        "return alibi_of_key(row, side > 0 ? key + last : key)",
        "return 0.0f",
    ),
    Mutation(
        "beside the diagonal, distance from key 0",
        MODIFY,
        "fabsf((float)(row.center - key))",
        "fabsf((float)key)",
    ),
    Mutation(
        "beside the diagonal, the farthest key counts as the nearest",
        FWD_SCORES,
        "side > 0 ? first_key + BLOCK_N - 1 : first_key",
        "side > 0 ? first_key : first_key + BLOCK_N - 1",
    ),
    Mutation(
        "numbers of keys before the rows begin with 0",
        FWD_ALIBI,
        "key + 1 - BLOCK_N : -key",
        "key : -key",
    ),
    Mutation(
        "numbers of keys behind the rows end with 0",
        FWD_ALIBI,
        "key + 1 - BLOCK_N : -key",
        "key + 1 - BLOCK_N : BLOCK_N - 1 - key",
    ),
    Mutation(
        "numbers of neighbours are the same",
        FWD_ALIBI,
        "(float)(number + step)",
        "(float)number",
    ),
    Mutation(
        "numbers lie without the swizzle",
        FWD_ALIBI,
        "(word / 4 % 8 ^ row) * 8",
        "word / 4 % 8 * 8",
    ),
    Mutation(
        "slopes for either side of the diagonal",
        FWD_ALIBI,
        "side == walk->slope_side",
        "side != 0",
    ),
    Mutation(
        "slopes at the diagonal, too",
        FWD_ALIBI,
        "side == walk->slope_side",
        "side >= 0",
    ),
    Mutation(
        "wgmma is not shown the numbers of keys",
        FWD_ALIBI,
        "  fence_proxy_async();\n}\n\n// The A fragment of the slopes",
        "}\n\n// The A fragment of the slopes",
    ),
    Mutation(
        "the second part of a slope is lost",
        MODIFY,
        "pack_bf16(slope, rest)",
        "pack_bf16(slope, 0)",
    ),
    Mutation(
        "the third part of a slope is lost",
        MODIFY,
        "pack_bf16(third, 0.0f)",
        "0",
        harmless="a distance of x is off by 2^-17 x, where a key counts e^-x",
    ),
    Mutation(
        "keys of the diagonal count as beside it",
        FWD_ALIBI,
        "first_key + BLOCK_N - 1 <= walk->centers.begin",
        "first_key + BLOCK_N - 1 <= walk->centers.end",
    ),
    Mutation(
        "keys behind the first row count as beside the diagonal",
        FWD_ALIBI,
        "first_key >= walk->centers.end",
        "first_key >= walk->centers.begin",
    ),
    Mutation(
        "scores without their offset",
        SOFTMAX,
        "(base - offset[half]) * scale_log2",
        "base * scale_log2",
    ),
    Mutation(
        "a maximum of lanes that differ in their offsets",
        SOFTMAX,
        "quad_max(fmaxf(reference[half], maximum + offset[half]))",
        "fmaxf(reference[half], quad_max(maximum) + offset[half])",
    ),
    # ---- Bias ----
    Mutation(
        "bias row of the wrong head",
        MODIFY,
        "head * score->bias_head_stride",
        "max(head - 1, 0) * score->bias_head_stride",
    ),
    Mutation("bias of the first batch", MODIFY, "batch * score->bias_batch_stride", "0"),
    Mutation(
        "bias rows in 32 bits",
        MODIFY,
        "position * score->bias_row_stride",
        "(int)(position * score->bias_row_stride)",
    ),
    Mutation(
        "bias keys in 32 bits",
        MODIFY,
        "other * args->bias_key_stride",
        "(int)(other * args->bias_key_stride)",
    ),
    Mutation(
        "bias of rows that are not there", MODIFY, "min(position, args->seqlen_q - 1)", "position"
    ),
    Mutation("bias of keys that are not there", MODIFY, "if (other < seqlen_k)", "if (true)"),
    Mutation("bias in pairs, always", MODIFY, "args->bias_alignment > 0 && whole", "whole"),
    Mutation(
        "bias in pairs past the end",
        MODIFY,
        "args->bias_alignment > 0 && whole",
        "args->bias_alignment > 0",
    ),
    # Of 16 bits, by the copy engine.
    Mutation(
        "the copy engine brings the bias, always",
        FWD_SM90,
        "return fwd->score.bias_alignment == 2;",
        "return true;",
    ),
    Mutation(
        "consumers load the bias that the copy engine brings",
        FWD_SM90,
        "consume(&args, shared, consumer, true);",
        "consume(&args, shared, consumer, false);",
    ),
    Mutation(
        "bias comes over what is still read",
        DENSE_PRODUCER,
        "  wait_for_phase(bias_empty(shared, stage->index), stage->parity ^ 1);\n",
        "",
    ),
    Mutation(
        "no wait for the bias",
        FWD_PRODUCTS,
        "    wait_for_phase(bias_full(shared, walk->bias_stage.index), walk->bias_stage.parity);\n"
        "    const int row",
        "    const int row",
    ),
    Mutation(
        "the bias of slabs of the same keys",
        DENSE_PRODUCER,
        "full, key + slab * 64, unit",
        "full, key, unit",
    ),
    Mutation(
        "the bias of the first rows",
        DENSE_PRODUCER,
        "key + slab * 64, unit->position_begin,",
        "key + slab * 64, 0,",
    ),
    Mutation(
        "the bias of the wrong head and batch",
        DENSE_PRODUCER,
        "unit->tile_head,\n                unit->batch);",
        "unit->batch,\n                unit->tile_head);",
    ),
    Mutation(
        "a key block's bias is not asked for",
        DENSE_PRODUCER,
        "        if (BIAS_PLACES > 1)\n",
        "        if (BIAS_PLACES > 1 && n > unit.blocks.begin + 1)\n",
    ),
    Mutation(
        "bias in one place is asked for too late",
        DENSE_PRODUCER,
        "n > unit.blocks.begin && BIAS_PLACES == 1",
        "n > unit.blocks.begin && BIAS_PLACES == 0",
    ),
    Mutation(
        "the place of a bias that was passed by is not handed back",
        FWD_SM90,
        "    return_bias(walk, shared);\n  }\n//% endif\n  wait_for_phase(v_full",
        "  }\n//% endif\n  wait_for_phase(v_full",
    ),
    Mutation(
        "the place of the bias is not handed back",
        FWD_SCORES,
        "  if (mapped)\n    return_bias(walk, shared);\n",
        "",
    ),
    Mutation(
        "the place of the bias is handed back before it is read",
        FWD_PRODUCTS,
        "    add_bias_slabs(score, shared",
        "    arrive_once(bias_empty(shared, walk->bias_stage.index));\n"
        "    add_bias_slabs(score, shared",
    ),
    Mutation(
        "bias from the same place",
        FWD_PRODUCTS,
        "BIAS_OFFSET + walk->bias_stage.index * BIAS_BYTES",
        "BIAS_OFFSET",
    ),
    Mutation(
        "bias of another consumer",
        FWD_PRODUCTS,
        "int row = consumer * 64 + threadIdx.x / 32 % 4 * 16; // the warp's first",
        "int row = threadIdx.x / 32 % 4 * 16;",
    ),
    Mutation(
        "bias of the first slab",
        MODIFY,
        "(from ^ tile % 8 * 16) + tile / 8 * slab_bytes",
        "from ^ tile % 8 * 16",
    ),
    Mutation("bias without its swizzle", MODIFY, "(lane / 16 ^ lane % 8) * 16", "lane / 16 * 16"),
    Mutation(
        "bias in shared memory of the wrong half",
        MODIFY,
        "score + (tile + i / 2) * 4 + i % 2 * 2",
        "score + (tile + i / 2) * 4 + (1 - i % 2) * 2",
    ),
    Mutation(
        "bias of two keys, exchanged", MODIFY, "pair[0] | pair[1] << 16", "pair[1] | pair[0] << 16"
    ),
    Mutation("bias of 16 bits, both the lower", MODIFY, "widen_high(narrow", "widen_low(narrow"),
    Mutation("bias in natural units", MODIFY, "bias[tile]) * units;", "bias[tile]);", 0),
    Mutation(
        "bias of the wrong half, sm90",
        FWD_PRODUCTS,
        "walk->score_rows[half].bias",
        "walk->score_rows[0].bias",
    ),
    Mutation(
        "bias of the wrong block, sm90",
        FWD_PRODUCTS,
        "const int key = block_key(&walk->unit, walk->n)",
        "const int key = block_key(&walk->unit, 0)",
    ),
    Mutation(
        "a block of -inf in the bias makes NaN",
        BLOCK,
        'if mask == "window" or bias != "none" or mod_score',
        'if mask == "window" or mod_score',
        0,
    ),
    # ---- Sinks ----
    Mutation("sink counted twice", EPILOGUE, "+ exp2_approx(sink", "+ 2.0f * exp2_approx(sink"),
    Mutation("sink counted in each split", EPILOGUE, "!split && args->sinks", "args->sinks"),
    Mutation("sink not counted where split", COMBINED_ROW, "args->sinks == nullptr", "true"),
    Mutation(
        "sinks without their stride",
        EPILOGUE,
        "min(head, heads - 1) * stride",
        "min(head, heads - 1)",
    ),
    Mutation("sink in units of log2", EPILOGUE, "[at] * LOG2_E", "[at]"),
    Mutation("sink of 16 bits in units of log2", EPILOGUE, "<< 16)) * LOG2_E", "<< 16))"),
    Mutation("sink's dtype", EPILOGUE, "dtype == 1 ?", "dtype == 2 ?"),
    Mutation(
        "O is not brought to the sink", EPILOGUE, "normalizer(sum) * factor", "normalizer(sum)"
    ),
    Mutation(
        "lse without the sink's maximum",
        EPILOGUE,
        "natural_lse(maximum, sum)",
        "natural_lse(reference, sum)",
    ),
    Mutation(
        "no keys and no sink make NaN",
        EPILOGUE,
        "base = finite_base(maximum)",
        "base = maximum",
    ),
    # ---- Dropout ----
    Mutation(
        "decisions by tile, not by position",
        DROPOUT,
        "key_words(head, key + tile * 8, lane)",
        "key_words(head, tile * 8, lane)",
    ),
    Mutation(
        "decisions by tile, not by position, sm90",
        DENSE_PRODUCER,
        "key_words(&head, block_key(&unit, n), pair)",
        "key_words(&head, 0, pair)",
    ),
    Mutation(
        "decisions by block, sm80",
        BLOCK,
        "drop_block(score, place, args, n * BLOCK_N + place",
        "drop_block(score, place, args, place",
        0,
    ),
    Mutation("decisions of a row block's first rows", DROPOUT, "row / 16 * 8 + place", "place"),
    Mutation("decisions of the first keys", DROPOUT, "key / 16 * 4 + place", "place"),
    Mutation("decisions of the first head", DROPOUT, "(uint32_t)head, ", "0u, "),
    Mutation(
        "decisions of the first batch, sm80",
        BLOCK,
        "place->batch * args->heads_q + place->first_head",
        "(int64_t)place->first_head",
    ),
    Mutation(
        "decisions of the first batch, sm90",
        FWD_WALK,
        "walk->unit.batch * (int64_t)fwd->heads_q + walk->unit.tile_head",
        "(int64_t)walk->unit.tile_head",
    ),
    Mutation(
        "keys' words of the first batch, sm90",
        DENSE_PRODUCER,
        " unit.batch * (int64_t)fwd->heads_q + unit.tile_head);\n    for (int n",
        " (int64_t)unit.tile_head);\n    for (int n",
    ),
    Mutation(
        "decisions of the next rows, sm90",
        FWD_WALK,
        "row_words(&dropout, walk->rows[0].position,",
        "row_words(&dropout, walk->rows[0].position + 16,",
    ),
    Mutation(
        "keys' words before their place is free",
        DENSE_PRODUCER,
        "wait_for_phase(v_empty(shared, stage.index), stage.parity ^ 1);\n      for (int pair",
        "for (int pair",
    ),
    Mutation(
        "keys' words that are not waited for",
        FWD_SM90,
        "mbarrier_init(v_full(shared, stage), ${ 2 if shares_words else 1 })",
        "mbarrier_init(v_full(shared, stage), 1)",
    ),
    Mutation(
        "keys' words are handed back by one lane",
        FWD_SM90,
        "    // scores stands between.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "keys' words of the block's first 16",
        ROUNDED,
        "keys[tile * 2 + 4 + lane % 4]",
        "keys[lane % 4]",
    ),
    Mutation(
        "keys' words from another place",
        FWD_SCORES,
        "walk->dropout_rows, dropout_keys[stage]",
        "walk->dropout_rows, dropout_keys[0]",
    ),
    Mutation(
        "decisions of the other keys",
        DROPOUT,
        "(tile + i / 2) * 4 + i % 2 * 2",
        "(tile + i % 2) * 4 + i / 2 * 2",
    ),
    Mutation("a head's words with a round too few", DROPOUT, "round < 7", "round < 6"),
    Mutation("rows' words with a round too few", DROPOUT, "round < 4", "round < 3"),
    Mutation("keys' words by one product", DROPOUT, "x *= 0xC2B2AE35u;", ""),
    Mutation("keys' words without the head's next", DROPOUT, " + head->word[(i + 1) % 4]", ""),
    Mutation("bits of the first product", DROPOUT, "(a << 12 | a >> 20)", "a"),
    Mutation("bits without the last words", DROPOUT, " + rows->word[(i + 3) % 4]", ""),
    Mutation("rows' words that are even", DROPOUT, "words.word[i] |= 1;", ""),
    Mutation(
        "a head's words with the same key in each round",
        DROPOUT,
        "key_high += 0xBB67AE85u;",
        "",
    ),
    Mutation(
        "decisions without the offset",
        DROPOUT,
        "(uint32_t)head, (uint32_t)offset",
        "(uint32_t)head, 0u",
    ),
    Mutation(
        "the same decisions in all lanes",
        DROPOUT,
        "row_words(head, row, lane / 4)",
        "row_words(head, row, 0)",
    ),
    Mutation("the first keys' decisions", DROPOUT, "tile % 16 * 2 + lane % 4", "lane % 4"),
    Mutation(
        "decisions without the offset's upper half", DROPOUT, " + (uint32_t)(offset >> 32)", ""
    ),
    Mutation(
        "the seed in memory is not read",
        DROPOUT,
        "args->dropout_seed_and_offset != nullptr",
        "false",
    ),
    Mutation(
        "the key's fragments in another order",
        ROUNDED,
        "p[tile * 2 + i]",
        "p[tile * 2 + (i ^ 1)]",
    ),
    Mutation("rounded: seldom, one off", ROUNDED, "0xFC00FC00u - both", "0xFBFFFBFFu - both"),
    Mutation("rounded: often, one off", ROUNDED, "0xFC01FC01u", "0xFC02FC02u"),
    Mutation("rounded: often is seldom", ROUNDED, "threshold <= 0x7C00", "threshold <= 0xffff"),
    Mutation("rounded: low halves alone", ROUNDED, "threshold << 16 | threshold", "threshold"),
    Mutation(
        "threshold one too high",
        DROPOUT,
        "(word << 16) < threshold << 16",
        "(word << 16) <= threshold << 16",
    ),
    Mutation(
        "threshold of a hundredth more, sm80",
        BLOCK,
        "args->score.dropout_threshold",
        "args->score.dropout_threshold + 655",
    ),
    Mutation(
        "threshold of a hundredth more, sm90",
        FWD_SCORES,
        "fwd->score.dropout_threshold",
        "fwd->score.dropout_threshold + 655",
    ),
    Mutation(
        "what is kept is not scaled",
        EPILOGUE,
        "end.normalize *= args->dropout_scale",
        "end.normalize *= 1.0f",
    ),
    Mutation(
        "dropout before the sum, sm80",
        BLOCK,
        "//% if warps_n > 1\n  online_softmax(",
        "//% if dropout\n  drop_block(score, place, args, n * BLOCK_N + place->first_key);\n"
        "  for (int i = 0; i < M_TILES * S_TILES * 4; ++i)\n"
        "    if (score[i / (S_TILES * 4)][i % (S_TILES * 4)] == 0.0f)\n"
        "      score[i / (S_TILES * 4)][i % (S_TILES * 4)] = -INF;\n//% endif\n"
        "//% if warps_n > 1\n  online_softmax(",
    ),
    Mutation(
        "dropout before the sum, sm90",
        FWD_SCORES,
        SUM_SM90 + "//% endif\n",
        "//% if dropout\n"
        "  const DropoutPlace early =\n"
        "      dropout_place(&walk->dropout, walk->rows[0].position - threadIdx.x % 32 / 4,\n"
        "                    walk->n * BLOCK_N, threadIdx.x % 32);\n"
        "  drop_probabilities(score, S_TILES, early, fwd->score.dropout_threshold);\n"
        "  for (int i = 0; i < S_TILES * 4; ++i)\n"
        "    if (score[i] == 0.0f)\n"
        "      score[i] = -INF;\n//% endif\n" + SUM_SM90 + "//% endif\n",
    ),
    Mutation(
        "decided too early, sm90",
        FWD_SCORES,
        "block_key(&walk->unit, walk->n), threadIdx.x % 32,\n                 fwd",
        "0, threadIdx.x % 32,\n                 fwd",
    ),
]
