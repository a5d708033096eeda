"""Faults in exponentials that stand behind the wait for P V, for mutate.py."""

from __future__ import annotations

from mutations import FWD_SM90, SOFTMAX, Mutation

KERNELS = [
    ("flash_fwd_hdim128_bf16_causal_ragged_long_sm90", ""),
    ("flash_fwd_hdim64_bf16_sm90", ""),
]
"""Of ragged and dense calls."""

MUTATIONS = [
    Mutation(
        "P behind the wait is left out",
        FWD_SM90,
        "        add_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);\n",
        "",
    ),
    Mutation(
        "references alone: none is followed",
        SOFTMAX,
        "  if (__any_sync(0xffffffff, follows)) {\n    float maximum[2];\n    row_maxima",
        "  if (__any_sync(0xffffffff, false)) {\n    float maximum[2];\n    row_maxima",
    ),
    Mutation(
        "P and sums: one row alone",
        SOFTMAX,
        "    add_row(score, tiles, half, finite_base(reference[half]) * scale_log2,",
        "    add_row(score, tiles, 0, finite_base(reference[half]) * scale_log2,",
    ),
]
