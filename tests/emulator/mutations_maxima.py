"""Single faults in the maxima of rows that are found by the bits of scores, and the kernels to see
them."""

from __future__ import annotations

from mutations import Mutation

SOFTMAX = "include/attnpress/device/softmax.cuh"

KERNELS = [
    ("flash_fwd_hdim64_bf16_sm90", "m128n64s2"),
    ("flash_fwd_hdim72_fp16_sm90", "m192n48s3q"),
]
"""Least numbers far from 1, and near it."""

MUTATIONS = [
    Mutation(
        "maxima: by their bits where all scores are negative",
        SOFTMAX,
        "  if (!__any_sync(0xffffffff, (bits[0] | bits[1]) < 0))\n    return;\n",
        "  return;\n",
    ),
    Mutation(
        "maxima: of negative scores in a warp's other rows",
        SOFTMAX,
        "    if (bits[half] < 0)\n",
        "",
    ),
    Mutation(
        "maxima: zero, however far below",
        SOFTMAX,
        "    if (bits[half] < 0 && maximum[half] * scale_log2 > least_raised(dtype))\n",
        "    if (bits[half] < 0)\n",
    ),
    Mutation(
        "maxima: raised to zero, and P of the maximum is rounded",
        SOFTMAX,
        "  const float units = ceilf(-maximum * scale_log2);\n",
        "  const float units = -maximum * scale_log2;\n",
    ),
    Mutation(
        "maxima: fp16 has bf16's exponents",
        SOFTMAX,
        "  return dtype == BF16 ? -64.0f : -4.0f;",
        "  return -64.0f;",
    ),
    Mutation(
        "maxima: the vote is of the second rows alone",
        SOFTMAX,
        "    follows |= bits < 0 ||",
        "    follows = bits < 0 ||",
    ),
    Mutation(
        "maxima: no vote, each thread by itself",
        SOFTMAX,
        "  if (__any_sync(0xffffffff, follows)) {\n    float maximum[2];",
        "  if (follows) {\n    float maximum[2];",
    ),
    Mutation(
        "maxima: sums keep their reference where it moves",
        SOFTMAX,
        "(*reference - base) * scale_log2",
        "(base - base) * scale_log2",
    ),
]
