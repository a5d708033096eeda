"""Faults in how row blocks for few rows find the pages of their keys, for mutate.py."""

from __future__ import annotations

from mutations import RING, Mutation

KERNELS = [
    ("flash_fwd_split_hdim40_bf16_causal_paged_few_sm80", ""),
    ("flash_fwd_split_hdim192_fp16_paged_few_sm86", ""),
]
"""Slabs of 64 keys, two for a lane, and slabs cut into columns."""

MUTATIONS = [
    Mutation(
        "lanes' pages: of the key block in work",
        RING,
        "ask_for_pages(pipe, n - 1, 0);",
        "ask_for_pages(pipe, n, 0);",
    ),
    Mutation(
        "lanes' pages: of the lanes' first keys for all",
        RING,
        "(first + row) / 32 == i ? found : row_begin",
        "i == 0 ? found : row_begin",
    ),
    Mutation(
        "lanes' pages: a lane's keys lie side by side",
        RING,
        "pipe->key_begin + i * 32 + threadIdx.x % 32;",
        "pipe->key_begin + i + threadIdx.x % 32;",
    ),
    Mutation(
        "lanes' pages: a number is taken as it is",
        RING,
        "clamped_page(&pipe->batch->ragged, pipe->page[i])",
        "pipe->page[i]",
    ),
]
