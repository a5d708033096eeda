"""Faults in sm80's decode kernels of splits, which begin by a guessed length, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

DECODE = "templates/attention/flash_fwd_decode_sm80.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim64_bf16_causal_ragged_decode_sm80", ""),
    ("flash_fwd_split_hdim40_fp16_paged_decode_sm80", ""),
]
"""Keys in a row and in pages."""

MUTATIONS = [
    Mutation(
        "guess: the length is what it was guessed to be",
        DECODE,
        "again = guess && count_now != count;",
        "again = false;",
    ),
    Mutation(
        "guess: pages are what they were guessed to be",
        DECODE,
        "again || page != guessed_page",
        "again",
    ),
    Mutation(
        "guess: copies of a wrong one are not waited for",
        DECODE,
        "if (again || !some)",
        "if (!some)",
    ),
    Mutation(
        "guess: each lane has one of its own",
        DECODE,
        "count = __shfl_sync(0xffffffff, count, 0);",
        "count += 0;",
    ),
    Mutation(
        "guess: a wrong one is kept",
        DECODE,
        "    count = count_now;\n",
        "",
    ),
    Mutation(
        "guess: the first page was guessed, and is another one after all",
        DECODE,
        "(!first || !guesses || place.page != guessed)",
        "(!guesses || place.page != guessed)",
    ),
    Mutation(
        "splits: both rows of a lane lie in one place",
        DECODE,
        "= partials[half];",
        "= partials[0];",
    ),
    Mutation(
        "splits: copies of Q are in flight where there are no keys",
        DECODE,
        "if (again || !some)",
        "if (again)",
        harmless="nothing is read that they write",
    ),
]
