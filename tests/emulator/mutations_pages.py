"""Faults in how kernels that decode find the pages of their keys, for mutate.py."""

from __future__ import annotations

from mutations import RING, Mutation

KERNELS = [
    ("flash_fwd_split_hdim40_bf16_paged_decode_sm80", ""),
    ("flash_fwd_split_hdim192_fp16_window_paged_decode_sm86", ""),
    ("flash_fwd_hdim72_fp16_paged_decode_sm80", ""),
]
"""Slabs of 32 keys and of 16, split and whole."""

MUTATIONS = [
    Mutation(
        "pages: of the key block in work",
        RING,
        "ask_for_page(pipe, n - 1, 0);",
        "ask_for_page(pipe, n, 0);",
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
        "n * BLOCK_N + pipe->key_begin + RING_THREAD)",
        "n * BLOCK_N + pipe->key_begin)",
    ),
    Mutation(
        "pages: a key block's rows are those of the one before",
        RING,
        "pipe->row_of_page = place.row;",
        "pipe->row_of_page = pipe->row_of_page;",
    ),
    Mutation(
        "pages: a number is taken as it is",
        RING,
        "clamped_page(&pipe->batch->ragged, pipe->page)",
        "pipe->page",
    ),
]
