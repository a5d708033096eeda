"""Faults in dQ without a sum, where a sequence's keys are one block's, for mutate.py."""

from __future__ import annotations

from mutations import BWD_DQ, Mutation

DIRECT = "include/attnpress/device/gradient_direct.cuh"
SM80 = "templates/attention/flash_bwd_sm80.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
EXCHANGE = "templates/attention/flash_bwd_exchange_sm90.cu.j2"
DELTA = "templates/attention/flash_bwd_delta.cu.j2"
CONVERT = "templates/attention/flash_bwd_convert.cu.j2"

KERNELS = [
    ("flash_bwd_delta_hdim40_bf16_ragged_sm80", ""),
    ("flash_bwd_convert_hdim40_fp16_ragged_sm80", ""),
    ("flash_bwd_hdim72_fp16_causal_ragged_sm86", ""),
    ("flash_bwd_hdim24_bf16_window_ragged_sm80", ""),
    ("flash_bwd_hdim72_bf16_causal_ragged_sm90", "m64n128s2d4"),
    ("flash_bwd_hdim104_fp16_window_ragged_sm90", ""),
    ("flash_bwd_hdim136_fp16_ragged_sm90", ""),
    ("flash_bwd_hdim152_fp16_ragged_sm90", "m64n64s2d4"),
]
"""Warps that share columns and rows that nobody sees; of sm90, dQ by warps of its own and by
consumers in turn, and with a place in shared memory and without above head dim 128."""

MUTATIONS = [
    # ---- Around ----
    Mutation("direct dq: its sum is zeroed", DELTA, "direct ? 0 : max(tiles, 0)", "max(tiles, 0)"),
    Mutation(
        "direct dq: the sum of a longer sequence is not zeroed",
        DELTA,
        "at.seqlen_k <= given.direct_keys;",
        "at.seqlen_k <= given.direct_keys + 16;",
    ),
    Mutation(
        "direct dq: conversions end behind sequences without a sum",
        DELTA,
        "threadIdx.x == 0 && at.seqlen_k > given.direct_keys)",
        "threadIdx.x == 0)",
    ),
    Mutation(
        "direct dq: conversions end before the last sum",
        DELTA,
        "red_max(args.taken + 1, blockIdx.x + 1);",
        "red_max(args.taken + 1, blockIdx.x);",
    ),
    Mutation(
        "direct dq: a block's conversions are left out",
        CONVERT,
        "blockIdx.x >= args.taken[1])",
        "blockIdx.x + 1 >= args.taken[1])",
    ),
    Mutation(
        "direct dq: zeros where there are keys",
        DELTA,
        "  if (at.seqlen_k == 0)\n    clear_rows(",
        "  if (at.seqlen_k <= given.direct_keys)\n    clear_rows(",
    ),
    Mutation(
        "direct dq: zeros in place of what is added to",
        DELTA,
        "  if (args.dq_sum_quads == 0 || args.accumulate)\n    return;\n",
        "  if (args.dq_sum_quads == 0)\n    return;\n",
    ),
    Mutation(
        "direct dq: zeros past the end",
        DELTA,
        "min(BLOCK_M, at.seqlen_q - first_row));",
        "BLOCK_M);",
    ),
    Mutation(
        "direct dq: half of a row is zeroed",
        DELTA,
        "args.dq_sum_quads / 32;",
        "args.dq_sum_quads / 64;",
    ),
    Mutation(
        "direct dq: converted all the same",
        CONVERT,
        "if (at.seqlen_k <= given.direct_keys)",
        "if (false)",
    ),
    Mutation(
        "direct dq: a longer one is not converted",
        CONVERT,
        "at.seqlen_k <= given.direct_keys)",
        "at.seqlen_k <= given.direct_keys + 16)",
    ),
    # ---- mma.sync: pairs ----
    Mutation(
        "direct dq: of the first of two key blocks",
        SM80,
        "direct = args.seqlen_k <= BLOCK_N;",
        "direct = args.seqlen_k <= 2 * BLOCK_N;",
    ),
    Mutation(
        "direct dq: a whole key block has a sum",
        SM80,
        "direct = args.seqlen_k <= BLOCK_N;",
        "direct = args.seqlen_k < BLOCK_N;",
    ),
    Mutation(
        "direct dq: added to the sum as well",
        SM80,
        "      if (!direct)\n",
        "",
    ),
    Mutation("direct dq: the first columns", SM80, "first * 8,\n", "0,\n"),
    Mutation(
        "direct dq: columns of another warp",
        DIRECT,
        "tile >= first && tile * 8 < columns",
        "tile * 8 < columns",
    ),
    Mutation(
        "direct dq: pairs without the scale",
        DIRECT,
        "pair[0] * args->scale, pair[1] * args->scale",
        "pair[0], pair[1]",
    ),
    Mutation(
        "direct dq: pairs are not added",
        DIRECT,
        "args->accumulate ? *place : 0, args->accumulate",
        "0, false",
    ),
    Mutation("direct dq: pairs past the end", DIRECT, "lane / 4 + half * 8 < valid", "valid > 0"),
    Mutation("direct dq: the lower half twice", DIRECT, "target += 8 * args", "target += 0 * args"),
    Mutation("direct dq: of the first batch", DIRECT, "batch * args->dq_batch_stride +", ""),
    # ---- Rows that see no key ----
    Mutation("direct dq: unseen rows behind", DIRECT, "row < begin || row >= end", "row < begin"),
    Mutation("direct dq: unseen rows before", DIRECT, "row < begin || row >= end", "row >= end"),
    Mutation(
        "direct dq: unseen rows of one head", DIRECT, "first_head + heads;", "first_head + 1;"
    ),
    Mutation(
        "direct dq: unseen rows that are added to", DIRECT, "args->accumulate || (begin", "(begin"
    ),
    Mutation(
        "direct dq: unseen rows of longer sequences",
        SM80,
        "if (args.seqlen_k <= BLOCK_N)\n    clear",
        "clear",
    ),
    # ---- wgmma: through shared memory ----
    Mutation(
        "direct dq: a tile without the scale",
        DIRECT,
        "tiles, dtype, args->scale, args->accumulate",
        "tiles, dtype, 1.0f, args->accumulate",
    ),
    Mutation(
        "direct dq: a tile is not added",
        DIRECT,
        "tiles, dtype, args->scale, args->accumulate",
        "tiles, dtype, args->scale, false",
    ),
    Mutation("direct dq: a tile past the end", DIRECT, "r < min(end, valid) &&", "r < end &&"),
    Mutation("direct dq: others store the tile", DIRECT, "  __syncwarp(); // the tile\n", ""),
    Mutation(
        "direct dq: the place is overwritten", DIRECT, "  __syncwarp(); // and its place\n", ""
    ),
    Mutation(
        "direct dq: columns past the head dim, through shared memory",
        DIRECT,
        "r < min(end, valid) && column < columns",
        "r < min(end, valid)",
    ),
    Mutation(
        "direct dq: wgmma, of the first of two key blocks",
        BWD_DQ,
        "return args->seqlen_k <= BLOCK_N;",
        "return args->seqlen_k <= 2 * BLOCK_N;",
    ),
    Mutation(
        "direct dq: wgmma, a whole key block has a sum",
        BWD_DQ,
        "return args->seqlen_k <= BLOCK_N;",
        "return args->seqlen_k < BLOCK_N;",
    ),
    Mutation(
        "direct dq: the second slab where the first is",
        BWD_DQ,
        "step.head) + column,",
        "step.head),",
    ),
    Mutation(
        "direct dq: additions of the keys before are not waited for",
        BWD_DQ,
        "  if (is_direct(args)) {\n    wait_for_additions(0);\n",
        "  if (is_direct(args)) {\n",
    ),
    Mutation(
        "direct dq: other lanes do not wait for the additions before",
        BWD_DQ,
        "  if (is_direct(args)) {\n    wait_for_additions(0);\n    __syncwarp();\n",
        "  if (is_direct(args)) {\n    wait_for_additions(0);\n",
    ),
    Mutation(
        "direct dq: wgmma, no unseen rows",
        SM90,
        "work->row_begin, work->row_end, HEAD_DIM,",
        "0, work->row_end, HEAD_DIM,",
    ),
    Mutation(
        "direct dq: exchange, of the first of two key blocks",
        EXCHANGE,
        "return args->seqlen_k <= BLOCK_N;",
        "return args->seqlen_k <= 2 * BLOCK_N;",
    ),
    Mutation(
        "direct dq: exchange, dS is kept",
        EXCHANGE,
        "      arrive_once(ds_empty(shared, turn));\n",
        "",
        place=0,
    ),
    Mutation(
        "direct dq: exchange, part after part to the same columns",
        EXCHANGE,
        "rows + column,",
        "rows,",
        place=0,
    ),
]
