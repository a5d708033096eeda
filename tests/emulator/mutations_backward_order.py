"""Single faults in the order of backward kernels' causal thread blocks, whose heads take turns."""

from __future__ import annotations

from mutations import Mutation

ORDER = "include/attnpress/device/gradient_order.cuh"

KERNELS = [
    ("flash_bwd_hdim72_fp16_causal_sm90", "m64n128s2v"),
    ("flash_bwd_hdim136_bf16_causal_sm90", "m64n80s3"),
    ("flash_bwd_dq_hdim72_bf16_causal_sm90", ""),
    ("flash_bwd_hdim64_bf16_causal_sm80", ""),
]
"""Blocks of keys, which zero for others; of rows; those of mma.sync."""


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd order: {name}", file, old, new)


MUTATIONS = [
    of(
        "one head less", ORDER, "all - max(0, args->abreast) *", "all - max(0, args->abreast - 1) *"
    ),
    of("one head's turn alone", ORDER, "first + at % args->abreast", "first + at % 1"),
    of("a block for two", ORDER, "at / args->abreast", "at / (args->abreast + 1)"),
    of("all heads take turns", ORDER, "at < 0 ? number", "at < 0 ? first + number"),
    of("the first places", ORDER, ": first + at %", ": at %"),
]
