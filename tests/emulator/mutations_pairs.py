"""Faults that a kernel of one head dim cannot show: one of the two taken for the other. And the
kernels to see them, pairs that have their tile of a stand-in."""

from __future__ import annotations

from mutations import BLOCK, DECODE, RING, ROWS, Mutation

CONSTANTS = "templates/attention/parts/tile_constants.cu.j2"
BWD = "templates/attention/flash_bwd_sm80.cu.j2"

KERNELS = [
    ("flash_fwd_hdim72v40_bf16_causal_sm80", ""),
    ("flash_fwd_split_hdim40v72_fp16_causal_decode_sm80", ""),
    ("flash_fwd_hdim264v40_bf16_decode_sm86", ""),
    ("flash_bwd_hdim72v40_bf16_causal_sm80", ""),
    ("flash_bwd_dq_hdim40v72_fp16_sm80", ""),
]

MUTATIONS = [
    Mutation(
        "pairs: V has as many columns as K",
        RING,
        "pipe->v_row_stride, V_SLAB,\n              HEAD_DIM_V, keys - key);",
        "pipe->v_row_stride, V_SLAB,\n              HEAD_DIM, keys - key);",
    ),
    Mutation(
        "pairs: swizzled rows of V as long as those of Q",
        CONSTANTS,
        "constexpr int V_ROW_BYTES = HEAD_DIM_V * 2;",
        "constexpr int V_ROW_BYTES = HEAD_DIM * 2;",
    ),
    Mutation(
        "pairs: parts of O as wide as Q",
        CONSTANTS,
        "PART_ROW_BYTES = HEAD_DIM_V * 4 + 32",
        "PART_ROW_BYTES = HEAD_DIM * 4 + 32",
    ),
    Mutation(
        "pairs: as many chunks of the output as of Q",
        ROWS,
        "const int chunks = HEAD_DIM_V / 8;",
        "const int chunks = HEAD_DIM / 8;",
    ),
    Mutation(
        "pairs: partial outputs as wide as Q",
        DECODE,
        "args->out_partial + partial * HEAD_DIM_V + column",
        "args->out_partial + partial * HEAD_DIM + column",
    ),
    Mutation(
        "pairs: warps' columns of O by those of Q",
        BLOCK,
        "HEAD_DIM_V - O_TILES * 8);",
        "HEAD_DIM - O_TILES * 8);",
    ),
    Mutation(
        "pairs: dP over as many columns as S",
        BWD,
        "ROW_BYTES_V,\n                  HEAD_DIM_V, lane);",
        "ROW_BYTES_V,\n                  HEAD_DIM, lane);",
    ),
    Mutation(
        "pairs: as many columns of dV as of dK",
        BWD,
        "store_gradient(dv_rows, args.dv_row_stride, smem + OWN_V_OFFSET, OWN_ROWS, HEAD_DIM_V,",
        "store_gradient(dv_rows, args.dv_row_stride, smem + OWN_V_OFFSET, OWN_ROWS, HEAD_DIM,",
    ),
]
