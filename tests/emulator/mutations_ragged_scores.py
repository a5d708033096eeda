"""Faults in a bias and in a caller's snippet where sequences have lengths of their own, for
mutate.py."""

from __future__ import annotations

from mutations import FWD_SCORES, FWD_WALK, Mutation

SEQUENCE = "include/attnpress/device/sequence.cuh"
MODIFY = "include/attnpress/device/modify.cuh"
SM80 = "templates/attention/flash_fwd_sm80.cu.j2"
DECODE = "templates/attention/flash_fwd_decode_sm80.cu.j2"
SM90 = "templates/attention/flash_fwd_sm90.cu.j2"
BLOCK = "templates/attention/parts/key_block.cu.j2"
BWD = "templates/attention/flash_bwd_sm80.cu.j2"

KERNELS = [
    ("flash_fwd_hdim64_fp16_causal_biasfp16_ragged_sm80", ""),
    ("flash_fwd_split_hdim40_bf16_biasfp32_paged_decode_sm80", ""),
    ("flash_fwd_hdim64_bf16_modscore_modmask_ragged_sm80", ""),
    ("flash_fwd_split_hdim40_fp16_causal_modscore_modmask_paged_sm80", ""),
    ("flash_fwd_split_hdim64_fp16_modscore_modmask_ragged_decode_sm80", ""),
    ("flash_fwd_hdim64_bf16_modscore_modmask_ragged_sm90", "m128n80s2"),
    ("flash_fwd_hdim40_fp16_window_modscore_modmask_paged_sm90", "m64n48s3"),
    ("flash_fwd_hdim40_bf16_causal_alibi_ragged_sm90", "m64n48s3"),
    ("flash_fwd_hdim128_fp16_alibi_paged_sm90", ""),
    ("flash_fwd_hdim136_bf16_causal_softcap_paged_sm90", "m64n48s2"),
    ("flash_bwd_hdim40_bf16_causal_modscore_modmask_ragged_sm80", ""),
]
"""Both places of the keys, split and not; a bias of sm80's kernels, snippets on both; gradients."""

MUTATIONS = [
    Mutation(
        "ragged bias: keys past its bound",
        SEQUENCE,
        "  return at_most(rows, args->most_keys);\n",
        "  return rows;\n",
    ),
    Mutation(
        "ragged bias: that of the first sequence",
        MODIFY,
        "(batch * score->bias_batch_stride +",
        "(0 * score->bias_batch_stride +",
    ),
    Mutation(
        "ragged snippet: the numbers of a dense kernel",
        BLOCK,
        '${ "snippet_args(args)" if sequences == "dense" else "place->mod" }',
        "snippet_args(args)",
    ),
    Mutation(
        "ragged snippet: no mask",
        BLOCK,
        "    mask_by_snippet(score[m], place->mod, args->seqlen_q, args->seqlen_k, rows,\n"
        "                    first_key + lane % 4 * 2);\n",
        "",
    ),
    Mutation(
        "ragged snippet: the length of the keys for that of the queries",
        BLOCK,
        "place->mod, args->seqlen_q, args->seqlen_k, rows,",
        "place->mod, args->seqlen_k, args->seqlen_k, rows,",
    ),
    Mutation(
        "ragged snippet, split: the numbers of another",
        SM80,
        "place.mod = &given.mod;",
        "place.mod = &given.mod + 1;",
    ),
    Mutation(
        "ragged snippet, decode: the numbers of another",
        DECODE,
        "place.mod = &given.mod;",
        "place.mod = &given.mod + 1;",
    ),
    Mutation(
        "ragged snippet, sm90: the first sequence",
        FWD_WALK,
        "snippet_row(fwd, walk->unit.sequence, head,",
        "snippet_row(fwd, 0, head,",
    ),
    Mutation(
        "ragged snippet, sm90: a query past its sequence",
        FWD_WALK,
        "min(position_begin + row_position, walk->unit.seqlen_q - 1));",
        "position_begin + row_position);",
        harmless="such a row is not stored, indices are clamped",
    ),
    Mutation(
        "ragged snippet, sm90: bounds for the lengths",
        FWD_SCORES,
        "mask_by_snippet(score, mod, walk->unit.seqlen_q, walk->unit.seqlen_k,",
        "mask_by_snippet(score, mod, fwd->seqlen_q, fwd->seqlen_k,",
    ),
    Mutation(
        "ragged snippet, sm90: bounds for the lengths of its score",
        FWD_SCORES,
        'pass_scores(score, half, mod, ${ "fwd->" if sequences == "dense" else "walk->unit." }',
        'pass_scores(score, half, mod, ${ "fwd->" if 1 else "walk->unit." }',
    ),
    Mutation(
        "ragged snippet, sm90: its numbers lie where a dense kernel's do",
        SM90,
        '"attnpress_fwd_sm90_mod_args" if sequences == "dense" else'
        ' "attnpress_fwd_sm90_ragged_mod_args"',
        '"attnpress_fwd_sm90_mod_args"',
    ),
    Mutation(
        "ragged softcap, sm90: not capped",
        FWD_SCORES,
        "  cap_scores(score, S_TILES, &fwd->score);\n",
        "",
    ),
    Mutation(
        "ragged ALiBi, sm90: the slopes of the first sequence",
        FWD_WALK,
        "alibi_row(fwd, walk->unit.sequence, head,",
        "alibi_row(fwd, 0, head,",
    ),
    Mutation(
        "ragged ALiBi, sm90: distances by the bounds",
        FWD_WALK,
        "walk->unit.seqlen_k - walk->unit.seqlen_q;",
        "fwd->seqlen_k - fwd->seqlen_q;",
    ),
    Mutation(
        "ragged ALiBi, sm90: a block at the diagonal counts as one before it",
        FWD_WALK,
        'min(position_begin + positions, ${ "walk->unit.seqlen_q"',
        'min(position_begin + 1, ${ "walk->unit.seqlen_q"',
    ),
    Mutation(
        "ragged ALiBi, sm90: distances from the block's first key",
        MODIFY,
        "side > 0 ? key + last : key",
        "key",
    ),
    Mutation(
        "ragged snippet, backward: the first sequence",
        BWD,
        "&given.mod, &args, work.batch,",
        "&given.mod, &args, 0,",
    ),
    Mutation(
        "ragged snippet, backward: the lengths of the bounds",
        BWD,
        "&given.mod, &args, work.batch,",
        "&given.mod, &batch.bwd, work.batch,",
    ),
]
