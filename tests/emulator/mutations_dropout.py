"""Faults in the kernel that writes dropout's mask, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

KEEP = "templates/dropout/dropout_keep.cu.j2"

KERNELS = [("dropout_keep_sm80", "")]

MUTATIONS = [
    Mutation("mask: keys past the end", KEEP, " && key < args.seqlen_k", ""),
    Mutation("mask: rows past the end", KEEP, "row < args.seqlen_q && ", ""),
    Mutation(
        "mask: rows in 32 bits", KEEP, "row * args.row_stride", "(int)(row * args.row_stride)"
    ),
    Mutation("mask: keys side by side", KEEP, "key * args.key_stride", "key"),
    Mutation("mask: of the first batch", KEEP, "batch * args.heads_q + head", "head"),
    Mutation("mask: of the first rows", KEEP, "&of_head, row_begin,", "&of_head, 0,"),
    Mutation("mask: of the first keys", KEEP, "row_begin, key_begin, lane", "row_begin, 0, lane"),
    Mutation("mask: halves exchanged", KEEP, "i / 2 % 2 * 8", "(1 - i / 2 % 2) * 8"),
    Mutation("mask: what is dropped", KEEP, "!= 0.0f", "== 0.0f"),
    Mutation("mask: warps have the same rows", KEEP, " + threadIdx.x / 32 * 16", ""),
]
