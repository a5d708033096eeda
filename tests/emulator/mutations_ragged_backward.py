"""Faults in where sequences lie in the backward pass, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

PLACE = "include/attnpress/device/gradient_sequence.cuh"
SEQUENCE = "include/attnpress/device/sequence.cuh"
BWD = "templates/attention/flash_bwd_sm80.cu.j2"
DELTA = "templates/attention/flash_bwd_delta.cu.j2"
CONVERT = "templates/attention/flash_bwd_convert.cu.j2"
SINKS = "templates/attention/flash_bwd_sinks.cu.j2"
DBIAS = "templates/attention/flash_bwd_dbias.cu.j2"

KERNELS = [
    ("flash_bwd_hdim40_bf16_causal_ragged_sm80", "m32n64w1x2a2d2s2c"),
    ("flash_bwd_dkv_hdim24_fp16_ragged_sm86", "m32n32w1x2x2a2s1"),
    ("flash_bwd_dq_hdim40_fp16_window_alibi_ragged_sm80", "m32n32w2x1a2s2c"),
    ("flash_bwd_dq_hdim40_bf16_dropout_ragged_sm80", "m32n32w2x1a2s2c"),
    ("flash_bwd_dq_hdim24_bf16_causal_ragged_sm80", "m32n32w2x1a2s2c"),
    ("flash_bwd_delta_hdim72_bf16_ragged_sm80", ""),
    ("flash_bwd_convert_hdim40_fp16_ragged_sm80", ""),
    ("flash_bwd_sinks_hdim8_fp16_ragged_sm80", ""),
    ("flash_bwd_dkv_hdim24_bf16_causal_biasbf16_ragged_sm80", "m32n32w1x2a2s2"),
    ("flash_bwd_dbias_hdim40_bf16_causal_biasfp16_ragged_sm80", "m32n32w2x2s0k0v0"),
    ("flash_bwd_dbias_hdim24_fp16_window_biasfp32_ragged_sm80", "m32n32w2x2s0k0v0"),
]
"""Each pass; what goes by the sequence's number; steps of one stage and of two."""

MUTATIONS = [
    # ---- Where a sequence lies ----
    Mutation("ragged bwd: lse_log2 from the row before", PLACE, "b * rows) / rows", "b) / rows"),
    Mutation(
        "ragged bwd: a batch's rows are not counted",
        PLACE,
        "at.q_batch * batch->ragged.rows_q +",
        "",
    ),
    Mutation(
        "ragged bwd: a bound of the keys",
        SEQUENCE,
        "  return at_most(rows, args->most_keys);\n",
        "  return {rows.begin, args->most_keys};\n",
    ),
    Mutation(
        "ragged bwd: the queries of the first batch",
        PLACE,
        "{of->q_batch, of->q_row",
        "{0, of->q_row",
    ),
    Mutation(
        "ragged bwd: the keys of the first batch", PLACE, "of->k_batch, of->k_row", "0, of->k_row"
    ),
    Mutation("ragged bwd: tiles of the sum, padded", PLACE, "b, 16) / 16", "b, 32) / 16"),
    Mutation("ragged bwd: the bound is the length", PLACE, "args.seqlen_q = seqlen_q;", ""),
    Mutation("ragged bwd: the bound of the keys", PLACE, "args.seqlen_k = seqlen_k;", ""),
    Mutation(
        "ragged bwd: the window's center is the batch's",
        PLACE,
        "? 0 : seqlen_k - seqlen_q;",
        "? 0 : seqlen_k;",
    ),
    # ---- The main kernels ----
    Mutation(
        "ragged bwd: no barrier behind where the sequence lies",
        BWD,
        "hands over the unit, and where the sequence lies.\n  __syncthreads();",
        "hands over the unit, and where the sequence lies.",
    ),
    Mutation(
        "ragged bwd: steps of the batch's first rows",
        BWD,
        '${ "(work.at->q_row + step.row)" if sequences == "ragged" else "step.row" } * '
        "args->dout_row_stride",
        "step.row * args->dout_row_stride",
    ),
    Mutation(
        "ragged bwd: dK of the batch's first keys",
        BWD,
        '${ "(work.at->k_row + work.begin)" if sequences == "ragged" else "work.begin" } * '
        "args.dk_row_stride",
        "work.begin * args.dk_row_stride",
    ),
    Mutation(
        "ragged bwd: lse of the first sequence",
        BWD,
        "row_tiles * 16 + work.at->values_row",
        "row_tiles * 16",
    ),
    Mutation(
        "ragged bwd: dQ is added to the first sequence's",
        BWD,
        "work.at->sum_tile + now.row",
        "now.row",
    ),
    Mutation(
        "ragged bwd: thread blocks without a unit",
        BWD,
        "if (!is_unit(&batch, blockIdx.x))",
        "if (false)",
    ),
    Mutation(
        "ragged bwd: the last unit is dropped",
        PLACE,
        "return number < batch->first_unit[batch->bwd.batch];",
        "return number + 1 < batch->first_unit[batch->bwd.batch];",
    ),
    Mutation(
        "ragged bwd: the unit before, a second time",
        PLACE,
        "number - batch->first_unit[order], heads",
        "max(number - batch->first_unit[order] - 1, 0), heads",
    ),
    Mutation(
        "ragged bwd: the sequence behind",
        PLACE,
        "first_unit[from + mine] <= number",
        "first_unit[from + mine] <= number + 1",
    ),
    Mutation(
        "ragged bwd: the sequence before",
        PLACE,
        "first_unit[from + mine] <= number",
        "first_unit[from + mine] < number",
    ),
    Mutation(
        "ragged bwd: sequences past those that a warp looks at",
        PLACE,
        "ceil_div(count, 32)",
        "1",
    ),
    Mutation("ragged bwd: a part of one sequence", PLACE, "min(part, count - passed)", "1"),
    Mutation(
        "ragged bwd: the first sequence of the batch, not of the order",
        PLACE,
        "&batch->sequences[unit->order]",
        "&batch->sequences[unit->sequence]",
    ),
    Mutation(
        "ragged bwd: its place in the order is its number",
        PLACE,
        "{order, of->sequence, at.head, at.block}",
        "{order, order, at.head, at.block}",
    ),
    Mutation(
        "ragged bwd: key blocks in another head",
        BWD,
        "work.kv_head = unit->head;",
        "work.kv_head = 0;",
    ),
    Mutation(
        "ragged bwd: row blocks from behind the end",
        BWD,
        "blocks - 1 - unit->block) * BLOCK_M",
        "blocks - unit->block) * BLOCK_M",
    ),
    Mutation(
        "ragged bwd: rows of the next sequence are loaded",
        BWD,
        '${ "work.at->seqlen_q" if sequences == "ragged" else "args->seqlen_q" } - step.row,\n'
        "            part, parts);\n  const int chunk",
        "WALK_ROWS,\n            part, parts);\n  const int chunk",
    ),
    # ---- Before and after ----
    Mutation(
        "ragged bwd: lse to the base e",
        DELTA,
        "lse_log2 ? 1.0f : LOG2_E",
        "lse_log2 ? LOG2_E : LOG2_E",
    ),
    Mutation(
        "ragged bwd: dlse to the base e",
        DELTA,
        "lse_log2 ? LOG2_E : 1.0f",
        "lse_log2 ? 1.0f : 1.0f",
    ),
    Mutation("ragged bwd: lse is packed", DELTA, "given.ragged.lse_packed ?", "true ?"),
    Mutation("ragged bwd: dlse is packed", DELTA, "given.dlse_packed ?", "true ?"),
    Mutation(
        "ragged bwd: rows of lse are contiguous", DELTA, "own * given.ragged.lse_row_stride", "own"
    ),
    Mutation(
        "ragged bwd: rows of dlse are contiguous", DELTA, "own * given.dlse_row_stride]", "own]"
    ),
    Mutation(
        "ragged bwd: the padding is not written",
        DELTA,
        "ceil_div(seqlen_q, PADDED_ROWS) * PADDED_ROWS",
        "ceil_div(seqlen_q, BLOCK_M) * BLOCK_M",
    ),
    Mutation(
        "ragged bwd: a block pads what the next one computes",
        DELTA,
        "first_row + BLOCK_M >= seqlen_q && pad",
        "pad",
    ),
    Mutation(
        "ragged bwd: the sum of the next sequence is zeroed",
        DELTA,
        "min(BLOCK_M / 16, ceil_div(seqlen_q, 16) - tile)",
        "BLOCK_M / 16",
    ),
    Mutation(
        "ragged bwd: a row tile is not zeroed",
        DELTA,
        "ceil_div(seqlen_q, 16) - tile",
        "seqlen_q / 16 - tile",
    ),
    Mutation(
        "ragged bwd: dQ of the batch's first rows",
        CONVERT,
        "(of_keys ? at.k_row : at.q_row)",
        "(of_keys ? at.k_row : 0)",
    ),
    Mutation(
        "ragged bwd: another sequence's sum is read",
        CONVERT,
        "min(BLOCK_M / 16, ceil_div(rows, 16))",
        "BLOCK_M / 16",
    ),
    Mutation(
        "ragged bwd: sinks of half the sequences", SINKS, "b += NUM_WARPS", "b += 2 * NUM_WARPS"
    ),
    Mutation(
        "ragged bwd: rows past the end of a sequence count for sinks",
        SINKS,
        "row < at.seqlen_q",
        "row < 128",
    ),
    Mutation("ragged bwd: delta of the first sequence for sinks", SINKS, "+ at.values_row", "+ 0"),
    # ---- The gradient by a bias ----
    Mutation("ragged dbias: queries of the bound", DBIAS, "of.args.seqlen_q = queries.count;", ""),
    Mutation("ragged dbias: keys of the bound", DBIAS, "of.args.seqlen_k = keys.count;", ""),
    Mutation("ragged dbias: the batch's window", DBIAS, "keys.count - queries.count;", "0;"),
    Mutation(
        "ragged dbias: queries of the first batch",
        DBIAS,
        "of.q_batch = ragged->cu_seqlens_q != nullptr ? 0 : b;",
        "of.q_batch = 0;",
    ),
    Mutation("ragged dbias: queries from the first row", DBIAS, "of.q_row = queries.begin;", ""),
    Mutation(
        "ragged dbias: keys of the first batch",
        DBIAS,
        "of.k_batch = ragged->cu_seqlens_k != nullptr ? 0 : b;",
        "of.k_batch = 0;",
    ),
    Mutation("ragged dbias: keys from the first row", DBIAS, "of.k_row = keys.begin;", ""),
    Mutation(
        "ragged dbias: lse_log2 of the first sequence",
        DBIAS,
        "16 + values_row + position",
        "16 + position",
    ),
    Mutation(
        "ragged dbias: blocks behind a sequence's last row",
        DBIAS,
        "if (row_begin >= bwd->seqlen_q)\n          break;",
        "",
    ),
    Mutation(
        "ragged dbias: rows that no sequence has are left as they are",
        DBIAS,
        'if (row < ${ "rows" if sequences == "ragged" else "bwd->seqlen_q" }',
        "if (row < bwd->seqlen_q",
    ),
    Mutation(
        "ragged dbias: keys that no sequence has are left as they are",
        DBIAS,
        'key < ${ "keys" if sequences == "ragged" else "bwd->seqlen_k" })',
        "key < bwd->seqlen_k)",
    ),
    Mutation(
        "ragged dbias: sums of keys that no sequence has",
        DBIAS,
        "min(key_begin + BLOCK_N, keys);",
        "min(key_begin + BLOCK_N, bwd->seqlen_k);",
    ),
    Mutation(
        "ragged bwd: the bias of the first sequence",
        BWD,
        "args, batch, head, row, column",
        "args, 0, head, row, column",
    ),
]
