"""Faults in where sequences lie, for mutate.py."""

from __future__ import annotations

from mutations import COMBINE, Mutation

SEQUENCE = "include/attnpress/device/sequence.cuh"
DECODE = "templates/attention/flash_fwd_decode_sm80.cu.j2"
RING = "templates/attention/parts/key_ring.cu.j2"
ROWS = "templates/attention/parts/tile_rows.cu.j2"

KERNELS = [
    ("flash_fwd_hdim64_bf16_causal_ragged_sm80", ""),
    ("flash_fwd_split_hdim72_fp16_window_paged_decode_sm80", ""),
    ("flash_fwd_hdim40_bf16_alibi_paged_sm86", ""),
    ("flash_fwd_split_hdim168_bf16_ragged_sm80", ""),
    ("flash_fwd_hdim64_fp16_dropout_ragged_decode_sm80", ""),
    ("flash_fwd_hdim40_fp16_window_ragged_sm80", ""),
    ("flash_fwd_hdim264_bf16_paged_decode_sm80", ""),
    ("flash_fwd_combine_hdim40_bf16_ragged_sm80", ""),
]
"""Both places of the keys in both kinds of kernels, split and not; one slab of V and several."""

MUTATIONS = [
    Mutation(
        "ragged: the queries of the row behind",
        SEQUENCE,
        "           queries.begin * args.q_row_stride;",
        "           (queries.begin + 1) * args.q_row_stride;",
    ),
    Mutation(
        "ragged: keys begin at the batch's first row",
        SEQUENCE,
        "from * args.k_batch_stride + keys.begin * args.k_row_stride",
        "from * args.k_batch_stride",
    ),
    Mutation(
        "ragged: values of the neighbour",
        SEQUENCE,
        "keys.begin * args.v_row_stride",
        "(keys.begin + keys.count) * args.v_row_stride",
    ),
    Mutation(
        "ragged: the length of the first sequence",
        SEQUENCE,
        "rows_used(rows, args->seqused_k[b])",
        "rows_used(rows, args->seqused_k[0])",
    ),
    Mutation(
        "ragged: as many queries as keys",
        SEQUENCE,
        "rows_used(rows, args->seqused_q[b])",
        "rows_used(rows, args->seqused_k[b])",
    ),
    Mutation("ragged: an end behind the tensor", SEQUENCE, " || end > rows", ""),
    Mutation("ragged: a length above all", SEQUENCE, " && used <= rows.count ? used", " ? used"),
    Mutation(
        "ragged: an index that is no batch",
        SEQUENCE,
        "batch < args->kv_batches ? batch : -1",
        "batch < args->kv_batches ? batch : 0",
    ),
    Mutation("ragged: the pad is not counted", SEQUENCE, "(fits ? pad : 0)", "0"),
    Mutation("ragged: a pad that does not fit", SEQUENCE, " && pad <= rows.count;", ";"),
    Mutation(
        "ragged: lse of the batch's first row",
        SEQUENCE,
        "? queries.begin * args->lse_row_stride",
        "? 0",
    ),
    Mutation(
        "ragged: lse of the first sequence", SEQUENCE, ": b * batch_stride;", ": 0 * batch_stride;"
    ),
    Mutation(
        "ragged: lse rows are contiguous",
        SEQUENCE,
        "position * batch->ragged.lse_row_stride",
        "position",
    ),
    Mutation("ragged: lse to the base e", SEQUENCE, "args->lse_log2 ? lse * LOG2_E : lse", "lse"),
    Mutation("ragged: -inf for +inf", SEQUENCE, "    return INF;", "    return -INF;"),
    Mutation(
        "ragged: the window of the longest sequence",
        SEQUENCE,
        "? 0 : args.seqlen_k - args.seqlen_q",
        "? 0 : batch->fwd.seqlen_k - batch->fwd.seqlen_q",
    ),
    Mutation("ragged: top left is not asked for", SEQUENCE, "ragged->window_top_left ? 0 : ", ""),
    Mutation(
        "ragged: a split leaves keys out",
        "include/attnpress/device/work.cuh",
        "ceil_div(max(blocks.end - blocks.begin, 0), splits)",
        "max(blocks.end - blocks.begin, 0) / splits",
    ),
    Mutation(
        "ragged: parts lie by the sequence's length",
        ROWS,
        '"&batch->fwd" }',
        '"args" }',
    ),
    Mutation(
        "ragged: rows behind the end are added up",
        COMBINE,
        "if (position >= rows.count)",
        "if (position >= args.seqlen_q)",
    ),
    Mutation(
        "ragged: the sum goes to the first sequence",
        COMBINE,
        "(rows.begin + position) * args.out_row_stride",
        "position * args.out_row_stride",
    ),
    Mutation(
        "ragged: the sum's lse goes to the first sequence",
        COMBINE,
        "lse_of_sequence(&batch_args.ragged, rows, batch, args.lse_batch_stride) +",
        "0 +",
    ),
    Mutation("pages: the next one", SEQUENCE, "pages->table[page]", "pages->table[page + 1]"),
    Mutation(
        "pages: the row in the page is off by one",
        SEQUENCE,
        "(row - page * size->value) * row_stride",
        "(row - page * size->value + 1) * row_stride",
    ),
    Mutation(
        "pages: the table of the first sequence",
        SEQUENCE,
        "max(key_batch(args, b), 0) * args->page_table_stride",
        "0",
    ),
    Mutation("pages: a number above all", SEQUENCE, ", args->num_pages - 1);", ", 0x7fffffff);"),
    Mutation(
        "pages: a number below 0", SEQUENCE, "max(pages->table[page], 0)", "pages->table[page]"
    ),
    Mutation(
        "pages: entries behind the last key's",
        SEQUENCE,
        "min(key, pages->last_key)",
        "key",
    ),
    Mutation(
        "pages: keys behind the end are not zeros",
        RING,
        "rows <= keys || row < keys ? 16 : 0);\n    }\n  }\n}\n\n// Starts passes of",
        "16);\n    }\n  }\n}\n\n// Starts passes of",
        harmless="they are the last key again, with a probability of 0",
    ),
    Mutation(
        "pages: V is that of the first slab",
        RING,
        "              first_key + key, rows, columns",
        "              first_key, rows, columns",
    ),
    Mutation(
        "pages: all warps have the first one's keys",
        RING,
        "n * BLOCK_N + pipe->key_begin",
        "n * BLOCK_N",
    ),
    Mutation(
        "ragged: a split's least number of key blocks is its most",
        "include/attnpress/device/work.cuh",
        "max(equal, least)",
        "min(equal, least)",
    ),
    Mutation(
        "ragged: a split without keys counts",
        DECODE,
        "                                position)] = -INF;",
        "                                position)] = 0.0f;",
    ),
    Mutation(
        "ragged: a split without keys says nothing of its last row",
        DECODE,
        "threadIdx.x >= BLOCK_M || row >= rows)",
        "threadIdx.x >= BLOCK_M || row >= rows - 1)",
    ),
    Mutation(
        "ragged: the output of a split without keys is read",
        COMBINE,
        "if (lse[i] > -INF)",
        "if (first + i * GROUPS < args->num_splits)",
    ),
]
