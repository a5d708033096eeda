"""Faults of decode kernels whose splits are a cluster's thread blocks, which add up themselves."""

from __future__ import annotations

from mutations import ADD_SPLITS, DECODE, WORK, Mutation

KERNELS = [
    ("flash_fwd_split_hdim72_bf16_causal_decode_sm90", ""),
    ("flash_fwd_split_hdim264_fp16_decode_sm90", ""),
    ("flash_fwd_split_hdim40_fp16_ragged_decode_sm90", ""),
]

MUTATIONS = [
    Mutation("joined: no wait at the cluster's barrier", DECODE, "  cluster_wait();\n", ""),
    Mutation(
        "joined: Q's copies are not waited for", DECODE, "  cp_async_wait(0);\n  // All", "  // All"
    ),
    Mutation(
        "joined: every thread block adds up every row",
        DECODE,
        "for (int unit = work->split; unit < units; unit += args->num_splits)",
        "for (int unit = 0; unit < units; ++unit)",
    ),
    Mutation(
        "joined: the last share of the rows is left out",
        DECODE,
        "unit = work->split; unit < units;",
        "unit = work->split; unit < units - 1;",
    ),
    Mutation(
        "joined: no barrier before the warps' sums are written anew",
        DECODE,
        "the warps' sums have been read.\n    __syncthreads();\n",
        "\n",
    ),
    Mutation(
        "joined: rows of the first head",
        DECODE,
        "const int row = partial_row(args, 0, work->batch, work->first_head + head, position);",
        "const int row = partial_row(args, 0, work->batch, head, position);",
    ),
    Mutation(
        "joined: row blocks before splits",
        WORK,
        "  work.split = block % args->num_splits;\n  block /= args->num_splits;\n"
        "  work.row_begin = row_block_begin(args, block % args->row_blocks, block_m, last_first);\n"
        "  block /= args->row_blocks;\n",
        "  work.row_begin = row_block_begin(args, block % args->row_blocks, block_m, last_first);\n"
        "  block /= args->row_blocks;\n"
        "  work.split = block % args->num_splits;\n  block /= args->num_splits;\n",
    ),
    Mutation(
        "joined: a split without keys does not take part",
        DECODE,
        "    add_splits_of_cluster(&batch, &work, rows, smem);\n//% endif\n    return;",
        "//% endif\n    return;",
    ),
    Mutation(
        "joined: one split left out",
        ADD_SPLITS,
        "first < args->num_splits; first +=",
        "first < args->num_splits - 1; first +=",
    ),
]
