"""Single faults in what the backward pass does to scores, and the kernels that are to see them."""

from __future__ import annotations

from mutations import SCORE, Mutation

BWD = "templates/attention/flash_bwd_sm80.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
WALK = "templates/attention/parts/key_walk_sm90.cu.j2"
DQ_SM90 = "templates/attention/flash_bwd_dq_sm90.cu.j2"
SINKS = "templates/attention/flash_bwd_sinks.cu.j2"
DBIAS = "templates/attention/flash_bwd_dbias.cu.j2"
MODIFY = "include/attnpress/device/gradient_modify.cuh"

KERNELS = [
    ("flash_bwd_sinks_hdim8_fp16_sm80", ""),
    ("flash_bwd_hdim40_fp16_window_sm80", "m32n32w1x2a2d2s2c"),
    ("flash_bwd_dq_hdim40_bf16_window_sm80", "m32n32w2x1a2s2c"),
    ("flash_bwd_dkv_hdim24_bf16_window_softcap_sm80", "m32n32w1x2x2a2s1"),
    ("flash_bwd_dq_hdim24_fp16_softcap_sm86", "m32n32w2x1a2s2"),
    ("flash_bwd_dkv_hdim40_fp16_alibi_biasfp16_sm80", "m32n32w1x2a2s2"),
    ("flash_bwd_dq_hdim40_bf16_causal_alibi_biasfp32_sm80", "m32n32w2x1a2s2"),
    ("flash_bwd_dkv_hdim24_bf16_biasbf16_sm80", "m32n32w1x2a2s2"),
    ("flash_bwd_hdim40_bf16_causal_dropout_sm80", "m32n64w1x2a2d2s2c"),
    ("flash_bwd_hdim40_fp16_dropout_sm80", "m32n32w2x2a1d1s2c"),
    ("flash_bwd_dq_hdim40_fp16_dropout_sm80", "m32n32w2x1a2s2"),
    ("flash_bwd_dkv_hdim40_bf16_window_sm90", ""),
    ("flash_bwd_dq_hdim40_fp16_window_sm90", ""),
    ("flash_bwd_hdim40_bf16_window_sm90", ""),
    ("flash_bwd_hdim24_bf16_window_sm90", ""),
    ("flash_bwd_hdim40_bf16_causal_softcap_sm90", ""),
    ("flash_bwd_hdim112_bf16_window_softcap_sm90", ""),
    ("flash_bwd_hdim72_fp16_alibi_biasbf16_dropout_sm90", ""),
    ("flash_bwd_dq_hdim40_bf16_causal_softcap_sm90", ""),
    ("flash_bwd_dbias_hdim40_fp16_causal_biasfp16_sm80", "m32n32w2x2s0k0v0"),
    ("flash_bwd_dbias_hdim24_fp16_window_softcap_alibi_biasfp32_dropout_sm80", "m32n32w2x2s0k0v0"),
    ("flash_bwd_dq_hdim40_bf16_alibi_biasfp32_dropout_sm90", ""),
]
"""Each feature with keys and with queries as rows; a bias in each dtype; each architecture."""

MUTATIONS = [
    # ---- Windows ----
    Mutation(
        "bwd window: a query too few", MODIFY, "+ args->window_left + 1;", "+ args->window_left;"
    ),
    Mutation(
        "bwd window: a query too many",
        MODIFY,
        "key - args->window_right;",
        "key - args->window_right - 1;",
    ),
    Mutation(
        "bwd window: left and right", MODIFY, "key - args->window_right", "key - args->window_left"
    ),
    Mutation("bwd window: no chunks", MODIFY, "if (args->window_chunk > 0)", "if (false)"),
    Mutation(
        "bwd window: chunks begin at any key", MODIFY, "key - key % args->window_chunk", "key"
    ),
    Mutation(
        "bwd window: a chunk goes on", MODIFY, "end = min(end, chunk + args->window_chunk);", ""
    ),
    Mutation(
        "bwd window: always from the last key",
        MODIFY,
        "begin - args->window_center",
        "begin - (seqlen_k - seqlen_q)",
    ),
    Mutation(
        "bwd window: keys past the end",
        MODIFY,
        "if (key >= seqlen_k)",
        "if (false)",
        1,
        "K is zero there and nothing of it is stored, so that only a dS that overflows would show",
    ),
    Mutation(
        "bwd window: the first steps are left out",
        BWD,
        "first_step = first_own.key_begin / WALK_ROWS;",
        "first_step = first_own.key_begin / WALK_ROWS + 1;",
        0,
    ),
    Mutation(
        "bwd window: steps of the first key alone",
        BWD,
        "ceil_div(last_own.key_end, WALK_ROWS)",
        "ceil_div(first_own.key_end, WALK_ROWS)",
        0,
    ),
    Mutation(
        "bwd window: steps of the last key alone",
        BWD,
        "first_step = first_own.key_begin",
        "first_step = last_own.key_begin",
        0,
    ),
    Mutation(
        "bwd window: steps that nothing sees are computed",
        BWD,
        "first_step = first_own.key_begin / WALK_ROWS;",
        "first_step = 0;",
        0,
        "they cost time only: what they hold is masked",
    ),
    Mutation(
        "bwd window: no mask at the begin",
        BWD,
        "now.row < last_own.key_begin ||",
        "now.row < first_own.key_begin - WALK_ROWS ||",
    ),
    Mutation(
        "bwd window: no mask at the end",
        BWD,
        "now.row + WALK_ROWS > first_own.key_end;",
        "now.row > last_own.key_end;",
    ),
    Mutation(
        "bwd window: no mask at the end of the keys",
        BWD,
        "work.begin + BLOCK_N > args.seqlen_k || <% endif %>now",
        "<% endif %>now",
        1,
        "keys past the end see no query, so that the last one's begin asks for the mask",
    ),
    Mutation(
        "bwd window: rows see a key too many",
        SCORE,
        "center + 1 + min(args->window_right",
        "center + 2 + min(args->window_right",
    ),
    Mutation(
        "bwd window sm90: a step too few",
        WALK,
        "ceil_div(row_end, BLOCK_M) - first_block",
        "ceil_div(row_end, BLOCK_M) - first_block - 1",
    ),
    Mutation(
        "bwd window sm90: rows of the last key alone",
        WALK,
        "queries_in_window(work.key_begin, &args->score",
        "queries_in_window(last_key, &args->score",
    ),
    Mutation(
        "bwd window sm90: no mask at the begin", SM90, "|| step.row < unmasked_begin ||", "||"
    ),
    Mutation(
        "bwd window sm90: no mask at the end",
        SM90,
        "step.row + BLOCK_M > unmasked_end<",
        "step.row > unmasked_end<",
    ),
    Mutation(
        "bwd window sm90: the second consumer's mask is the first's",
        SM90,
        "queries_in_window(first_key + 63, &args",
        "queries_in_window(work->key_begin, &args",
    ),
    Mutation(
        "bwd window sm90: a consumer skips a step that its last rows see",
        SM90,
        "step.row + BLOCK_M <= seen_begin",
        "step.row < seen_begin",
    ),
    Mutation(
        "bwd window sm90: a consumer skips a step that its first rows see",
        SM90,
        "step.row >= seen_end",
        "step.row + BLOCK_M > seen_end",
    ),
    Mutation(
        "bwd window sm90: a step that is skipped leaves dS of an earlier one",
        SM90,
        "DS_ROW_BYTES + i / 2 * 16) = 0;",
        "DS_ROW_BYTES + i / 2 * 16) |= 0;",
    ),
    Mutation(
        "bwd window sm90: a step that is skipped is not handed back",
        SM90,
        "      arrive_once(step_empty(shared, stage.index));\n      arrive_once(ds_full",
        "      arrive_once(ds_full",
    ),
    Mutation(
        "bwd window sm90: zeros over dS that is read",
        SM90,
        "      wait_for_phase(ds_empty(shared, turn), turn_parity ^ 1);\n#pragma unroll\n"
        "      for (int i = 0; i < S_TILES * 2; ++i)\n        *(uint32_t *)(ds",
        "#pragma unroll\n      for (int i = 0; i < S_TILES * 2; ++i)\n        *(uint32_t *)(ds",
    ),
    Mutation(
        "bwd window sm90: a step is skipped before it has come",
        SM90,
        "      wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
        "      wait_for_phase(do_full(shared, stage.index), stage.parity);\n"
        "      // dQ",
        "      // dQ",
    ),
    Mutation(
        "bwd_dq window sm90: loads begin at the first key",
        DQ_SM90,
        'KEY_SLAB_BYTES, ${ "key" if mask',
        'KEY_SLAB_BYTES, ${ "n * BLOCK_N" if mask',
    ),
    Mutation(
        "bwd_dq window sm90: the mask counts from the first step",
        DQ_SM90,
        "rows[half], key + lane",
        "rows[half], n * BLOCK_N + lane",
    ),
    Mutation(
        "bwd_dq window sm90: no mask at the begin",
        DQ_SM90,
        "key < unmasked_begin",
        "key < 0",
    ),
    Mutation(
        "bwd_dq window sm90: a step too few",
        DQ_SM90,
        "ceil_div(key_end, BLOCK_N) - work.first_step",
        "ceil_div(key_end, BLOCK_N) - work.first_step - 1",
    ),
    # ---- Scores ----
    Mutation(
        "bwd softcap: the derivative after the mask is 1",
        MODIFY,
        "1.0f - score[i * 2] * score[i * 2],",
        "1.0f,",
    ),
    Mutation(
        "bwd softcap: neighbours' derivatives",
        MODIFY,
        "ds[i * 2 + 1] *= widen_high(",
        "ds[i * 2 + 1] *= widen_low(",
    ),
    Mutation(
        "bwd softcap: no derivative", MODIFY, "ds[i * 2] *= widen_low(FP16, derivative[i]);", ""
    ),
    Mutation(
        "bwd softcap: scores are not capped", MODIFY, "  cap_scores(score, tiles, args);\n", ""
    ),
    Mutation("bwd bias: of the first batch", MODIFY, "batch * score_args->bias_batch_stride +", ""),
    Mutation("bwd bias: of the first head", MODIFY, "head * score_args->bias_head_stride", "0"),
    Mutation(
        "bwd bias: a key head's", BWD, '"now.head" if owns_keys', '"work.kv_head" if owns_keys'
    ),
    Mutation(
        "bwd bias: transposed",
        MODIFY,
        "by_column ? score_args->bias_row_stride",
        "!by_column ? score_args->bias_row_stride",
    ),
    Mutation(
        "bwd bias: rows past the end",
        MODIFY,
        "row >= (by_column ? args->seqlen_k : args->seqlen_q)",
        "false",
    ),
    Mutation(
        "bwd bias: columns past the end",
        MODIFY,
        "if (tile * 8 + i >= columns)",
        "if (columns == 0)",
    ),
    Mutation("bwd bias: one of two neighbours", MODIFY, "at + i * step, 0", "at, 0"),
    Mutation("bwd bias: the first tile's", MODIFY, "++tile, at += 8 * step)", "++tile)"),
    Mutation(
        "bwd bias: in natural units", MODIFY, "value * score_args->units_per_natural", "value"
    ),
    Mutation(
        "bwd bias: rows in 32 bits",
        MODIFY,
        "column * step;",
        "(int)(column * step);",
    ),
    Mutation(
        "bwd ALiBi: slopes of the first batch", MODIFY, "batch * args->alibi_batch_stride +", ""
    ),
    Mutation("bwd ALiBi: slopes side by side", MODIFY, "head * args->alibi_head_stride", "head"),
    Mutation(
        "bwd ALiBi: in natural units",
        MODIFY,
        "args->alibi_head_stride] *\n         args->units_per_natural;",
        "args->alibi_head_stride];",
    ),
    Mutation(
        "bwd ALiBi: the distance grows with keys",
        MODIFY,
        "by_column ? distance + offset",
        "by_column ? distance - offset",
    ),
    Mutation(
        "bwd ALiBi: from the first key",
        MODIFY,
        "(float)(query + args->seqlen_k - args->seqlen_q - key)",
        "(float)(query - key)",
    ),
    Mutation("bwd ALiBi: signed", MODIFY, "slope * fabsf(", "slope * ("),
    # ---- Dropout ----
    Mutation(
        "bwd dropout: of the first batch",
        BWD,
        "work.batch * (int64_t)args.heads_q + now.head",
        "now.head",
    ),
    Mutation(
        "bwd dropout: of the key head",
        BWD,
        "work.batch * (int64_t)args.heads_q + work.head);\n<% endif %>\n  Step",
        "work.batch * (int64_t)args.heads_q + first_head);\n<% endif %>\n  Step",
    ),
    Mutation(
        "bwd dropout: of the warp's first keys",
        BWD,
        "work.begin + own_row + m * 16, lane, args",
        "work.begin + own_row, lane, args",
    ),
    Mutation(
        "bwd dropout: of the step's first queries",
        BWD,
        "&of_head, now.row + walk_row,",
        "&of_head, now.row,",
    ),
    Mutation(
        "bwd dropout: rows' decisions by columns",
        MODIFY,
        "tile % 8 * 4 + lane % 4 * 2 + odd",
        "tile % 8 * 4 + lane / 4",
    ),
    Mutation(
        "bwd dropout: the first pair of keys",
        MODIFY,
        "key_words(head, key, lane / 8)",
        "key_words(head, key, 0)",
    ),
    Mutation(
        "bwd dropout: the neighbour's decisions",
        MODIFY,
        "(odd ? others : dropped) >> odd,",
        "(odd ? dropped : others) >> odd,",
    ),
    Mutation(
        "bwd dropout: the other key's half",
        MODIFY,
        "dropped : others) >> odd}",
        "dropped : others)}",
    ),
    Mutation(
        "bwd dropout: halves and tiles exchanged",
        MODIFY,
        "i / 2 % 2 * 2 + i / 4",
        "i / 4 * 2 + i / 2 % 2",
    ),
    Mutation(
        "bwd dropout: the next queries have the same",
        MODIFY,
        "tile % 8 * 4 + lane % 4 * 2 + odd",
        "lane % 4 * 2 + odd",
    ),
    Mutation(
        "bwd dropout: the next keys have the same",
        MODIFY,
        "draw_tiles(bits, head, rows, &keys, key, tile, lane)",
        "draw_tiles(bits, head, rows, &keys, key, 0, lane)",
    ),
    Mutation(
        "bwd dropout: dV of what was dropped",
        MODIFY,
        "pack(dtype, fmaxf(p[i * 2], 0.0f)",
        "pack(dtype, fabsf(p[i * 2])",
    ),
    Mutation(
        "bwd dropout: dP of what was dropped",
        MODIFY,
        "probability > 0.0f ? dp[tile * 4 + i] * scale : 0.0f",
        "dp[tile * 4 + i] * scale",
    ),
    Mutation(
        "bwd dropout: what was dropped has no part in dS",
        MODIFY,
        "fabsf(probability) * (kept - d)",
        "fmaxf(probability, 0.0f) * (kept - d)",
    ),
    Mutation(
        "bwd dropout: dV is not scaled",
        BWD,
        '"args.score.dropout_scale" if dropout',
        '"1.0f" if dropout',
    ),
    # ---- sm90 ----
    Mutation(
        "bwd softcap sm90: no derivative",
        MODIFY,
        "p[k] * fmaxf(1.0f - t * t, 0.0f)",
        "p[k]",
    ),
    Mutation(
        "bwd softcap sm90: a derivative of -inf",
        MODIFY,
        "p[k] * fmaxf(1.0f - t * t, 0.0f)",
        "p[k] * (1.0f - t * t)",
    ),
    Mutation(
        "bwd softcap sm90: dV with the derivative",
        MODIFY,
        "pack(dtype, p[0], p[1]);",
        "pack(dtype, score[i * 2], score[i * 2 + 1]);",
        1,
    ),
    Mutation("bwd softcap sm90: the other lse", MODIFY, "(k ? lse.y : lse.x)", "lse.x"),
    Mutation(
        "bwd softcap sm90: not capped", SM90, "    cap_scores(score, S_TILES, &args->score);\n", ""
    ),
    Mutation(
        "bwd softcap sm90: dO is not waited for",
        SM90,
        "//% if late_dp\n    // The copy engine hands over dO<% if not v_in_regs %>, and V with "
        "the first<% endif %>.\n"
        "    wait_for_phase(do_full(shared, stage.index), stage.parity);\n",
        "//% if late_dp\n",
    ),
    Mutation(
        "bwd ALiBi sm90: of the first head",
        SM90,
        "load_slope(&args->score, work->batch, step.head);",
        "load_slope(&args->score, work->batch, work->first_head);",
    ),
    Mutation(
        "bwd bias sm90: of the first head",
        SM90,
        "true, args, work->batch, step.head,",
        "true, args, work->batch, work->first_head,",
    ),
    Mutation(
        "bwd bias sm90: of the consumer's first keys",
        SM90,
        "step.head,\n                  first_key + warp * 16 + half * 8",
        "step.head,\n                  first_key + half * 8",
    ),
    Mutation(
        "bwd_dq bias sm90: of the key head",
        DQ_SM90,
        "false, args, work->batch, work->head,",
        "false, args, work->batch, work->kv_head,",
    ),
    Mutation(
        "bwd ALiBi sm90: of the consumer's first keys",
        SM90,
        "slope,\n                   first_key + warp * 16 + half * 8",
        "slope,\n                   first_key + half * 8",
    ),
    Mutation(
        "bwd dropout sm90: of the first head",
        SM90,
        "work->batch * args->heads_q, step.head, first_key + warp * 16",
        "work->batch * args->heads_q, work->first_head, first_key + warp * 16",
    ),
    Mutation(
        "bwd dropout sm90: words of the head before",
        MODIFY,
        "kept->number != number",
        "kept->number < 0",
    ),
    Mutation(
        "bwd dropout sm90: words that others still read",
        MODIFY,
        "  // All lanes arrive and wait: they have read what was here.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "bwd dropout sm90: words that are not handed over",
        MODIFY,
        "  // All lanes arrive and wait: hands the words over to them.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "bwd dropout sm90: the first warp's words",
        SM90,
        "decide_tiles(S_TILES, &dropout_kept[consumer * 4 + warp]",
        "decide_tiles(S_TILES, &dropout_kept[consumer * 4]",
    ),
    Mutation(
        "bwd dropout sm90: of the consumer's first keys",
        SM90,
        "step.head, first_key + warp * 16, lane);",
        "step.head, first_key, lane);",
    ),
    Mutation("bwd dropout sm90: of the first rows", SM90, "+ warp], step.row,", "+ warp], 0,"),
    Mutation(
        "bwd dropout sm90: the first pair's bits", MODIFY, "threshold) << 8 * pair", "threshold)"
    ),
    Mutation(
        "bwd dropout sm90: another bit's sign", MODIFY, "dropped << (31 - i)", "dropped << (30 - i)"
    ),
    Mutation(
        "bwd dropout sm90: dV is not scaled",
        SM90,
        "                 args->score.dropout_scale, args->accumulate",
        "                 1.0f, args->accumulate",
    ),
    Mutation(
        "bwd_dq softcap sm90: no derivative",
        DQ_SM90,
        "    multiply_derivatives(score, derivative, S_TILES);\n",
        "",
    ),
    Mutation(
        "bwd_dq ALiBi sm90: of the first row",
        DQ_SM90,
        "slope, rows[half].position",
        "slope, first_row",
    ),
    Mutation(
        "bwd_dq dropout sm90: of the consumer's first rows",
        DQ_SM90,
        "row_words(&of_head, first_row + warp * 16,",
        "row_words(&of_head, first_row,",
    ),
    Mutation(
        "bwd_dq dropout sm90: of the first keys",
        DQ_SM90,
        "&dropout_rows, key, lane",
        "&dropout_rows, 0, lane",
    ),
    # ---- The gradient by a bias ----
    Mutation(
        "bwd dbias: the first batch alone",
        DBIAS,
        "batch < batch_begin + args.walk_batches",
        "batch < batch_begin + 1",
    ),
    Mutation(
        "bwd dbias: the first head alone",
        DBIAS,
        "head < head_begin + args.walk_heads",
        "head < head_begin + 1",
    ),
    Mutation(
        "bwd dbias: the first rows alone",
        DBIAS,
        "n < row_block + args.walk_row_blocks",
        "n < row_block + 1",
    ),
    Mutation(
        "bwd dbias: K and V of the head before",
        DBIAS,
        "if (wanted != loaded) {",
        "if (loaded < 0) {",
    ),
    Mutation("bwd dbias: no wait for a step", DBIAS, "        cp_async_wait(0);\n", ""),
    Mutation(
        "bwd dbias: no barrier before a step is loaded",
        DBIAS,
        "has read the step before.\n        __syncthreads();",
        "has read the step before.",
    ),
    Mutation(
        "bwd dbias: no barrier behind the copies",
        DBIAS,
        "what everyone's copies brought.\n        __syncthreads();",
        "what everyone's copies brought.",
    ),
    Mutation(
        "bwd dbias: no barrier before the sums of columns",
        DBIAS,
        "whose place the sums take.\n  __syncthreads();",
        "whose place the sums take.",
    ),
    Mutation(
        "bwd dbias: no barrier behind the sums of columns",
        DBIAS,
        "hands over the sums of each warp.\n  __syncthreads();",
        "hands over the sums of each warp.",
    ),
    Mutation(
        "bwd dbias: rows that see few keys are left out",
        DBIAS,
        "bwd->seqlen_k).key_end <= key_begin)\n          continue;\n<% endif %>\n        // All",
        "bwd->seqlen_k).key_end <= 9)\n          continue;\n<% endif %>\n        // All",
    ),
    Mutation(
        "bwd dbias: the softcap is left out",
        DBIAS,
        "    cap_scores(score[m], S_COLUMNS, &args->score);\n",
        "",
    ),
    Mutation(
        "bwd dbias: the bias is left out",
        DBIAS,
        "add_bias_at(score[m], BIAS, S_COLUMNS, half, false, args, batch, head, position, column);",
        ";",
    ),
    Mutation("bwd dbias: half of a column", DBIAS, " + sum[m][i / 2 * 4 + 2 + i % 2]", ""),
    Mutation(
        "bwd dbias: half of the rows of a column",
        DBIAS,
        "distance < 32; distance",
        "distance < 16; distance",
    ),
    Mutation("bwd dbias: one warp's columns", DBIAS, "part < WARPS_M; ++part", "part < 1; ++part"),
    Mutation(
        "bwd dbias: rows past the end",
        DBIAS,
        'if (row < ${ "rows" if sequences == "ragged" else "bwd->seqlen_q" } && key',
        "if (key",
    ),
    Mutation("bwd dbias: keys side by side", DBIAS, "key * args.dbias_key_stride", "key"),
    Mutation("bwd dbias: of the first head", DBIAS, "head_begin * args.dbias_head_stride", "0"),
    Mutation("bwd dbias: of the first batch", DBIAS, "batch_begin * args.dbias_batch_stride", "0"),
    Mutation(
        "bwd dbias: not added to what was there", DBIAS, "value += widen(dtype, *place);", ";"
    ),
    Mutation("bwd dbias: bf16 as fp16", DBIAS, "args->dbias_dtype == 1 ? FP16 : BF16", "FP16"),
    # ---- Sinks ----
    Mutation(
        "bwd sinks: of the next head",
        SINKS,
        "sinks_stride, head, args",
        "sinks_stride, head + 1, args",
    ),
    Mutation("bwd sinks: the first batch alone", SINKS, "batch < args.batch;", "batch < 1;"),
    Mutation("bwd sinks: the sign", SINKS, "sum -= exp2", "sum += exp2"),
    Mutation(
        "bwd sinks: delta of another head", SINKS, "args.delta[first + row]", "args.delta[row]"
    ),
    Mutation("bwd sinks: the last rows", SINKS, "row < rows; row", "row < rows - 100; row"),
    Mutation(
        "bwd sinks: no barrier between the parts and their sum", SINKS, "  __syncthreads();\n", ""
    ),
    Mutation("bwd sinks: the first warp alone", SINKS, "i < NUM_WARPS; ++i", "i < 1; ++i"),
    Mutation("bwd sinks: half of the lanes", SINKS, "distance = 16", "distance = 8"),
    Mutation(
        "bwd sinks: not added to what was there",
        SINKS,
        "args.accumulate ? args.dsinks[head] : 0.0f",
        "0.0f",
    ),
]
