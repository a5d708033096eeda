"""Faults in how lanes find the pages of keys for each other, for mutate.py."""

from __future__ import annotations

from mutations import RING, Mutation

KERNELS = [
    ("flash_fwd_split_hdim40_bf16_paged_decode_sm80", ""),
    ("flash_fwd_split_hdim192_fp16_window_paged_decode_sm86", ""),
    ("flash_fwd_hdim72_fp16_paged_decode_sm80", ""),
    ("flash_fwd_split_hdim40_bf16_causal_paged_few_sm80", ""),
    ("flash_fwd_split_hdim192_fp16_paged_few_sm86", ""),
]
"""Slabs of 32 keys and of 16, split and whole; and of 64, two for a lane, cut into columns too."""

MUTATIONS = [
    Mutation(
        "pages: of the key block in work",
        RING,
        "ask_for_pages(pipe, n - 1, 0);",
        "ask_for_pages(pipe, n, 0);",
    ),
    Mutation(
        "pages: of a key block before the first",
        RING,
        "slab == SLABS - 1 && n > pipe->block_begin",
        "slab == SLABS - 1",
    ),
    Mutation(
        "pages: of the warp's first key for all lanes",
        RING,
        "pipe->key_begin + i * 32 + threadIdx.x % 32)",
        "pipe->key_begin + i * 32)",
    ),
    Mutation(
        "pages: a key block's rows are those of the one before",
        RING,
        "pipe->row_of_page[i] = place.row;",
        "pipe->row_of_page[i] = pipe->row_of_page[i];",
    ),
    Mutation(
        "pages: a number is taken as it is",
        RING,
        "clamped_page(&pipe->batch->ragged, pipe->page[i])",
        "pipe->page[i]",
    ),
    Mutation(
        "pages: of the lanes' first keys for all",
        RING,
        "(first + row) / 32 == i ? found : row_begin",
        "i == 0 ? found : row_begin",
    ),
    Mutation(
        "pages: a lane's keys lie side by side",
        RING,
        "pipe->key_begin + i * 32 + threadIdx.x % 32)",
        "pipe->key_begin + i + threadIdx.x % 32)",
    ),
]
