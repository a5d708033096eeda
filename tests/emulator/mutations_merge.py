"""Single faults in merge's template and device header, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

PARTS = "templates/merge/merge_parts.cu.j2"
MERGE = "include/attnpress/device/merge.cuh"
SPAN = "include/attnpress/device/row_span.cuh"

KERNELS = [
    ("merge_parts_bf16_obf16_sm80", ""),
    ("merge_parts_fp32_ofp16_sm80", ""),
    ("merge_parts_fp16_ofp32_sm80", ""),
]

MUTATIONS = [
    Mutation(
        "merge: the row of another block",
        PARTS,
        "(int64_t)blockIdx.x * (THREADS >> args.lane_shift) +",
        "0 *",
    ),
    Mutation("merge: rows past the end are merged", PARTS, "index < args.rows", "true"),
    Mutation("merge: a part too few", PARTS, "i < args.parts;", "i + 1 < args.parts;", 2),
    Mutation(
        "merge: the largest of all but one", PARTS, "i < args.parts;", "i + 1 < args.parts;", 1
    ),
    Mutation(
        "merge: the largest lse is that of a part without keys",
        PARTS,
        "has_no_keys(lse) ? maximum : fmaxf(maximum, lse)",
        "fmaxf(maximum, lse)",
    ),
    Mutation("merge: weights are not shares", PARTS, "share * part_weight", "part_weight"),
    Mutation("merge: no keys at all is a division by 0", PARTS, "sum == 0.0f ? 0.0f :", ""),
    Mutation(
        "merge: columns of the first lane",
        PARTS,
        "int column = lane * ELEMENTS",
        "int column = 0 * lane",
    ),
    Mutation(
        "merge: a long row's later vectors",
        PARTS,
        "column += lanes * ELEMENTS",
        "column += 2 * lanes * ELEMENTS",
    ),
    Mutation(
        "merge: later parts are the first ones",
        PARTS,
        "&args.part[first + i];",
        "&args.part[i];",
    ),
    Mutation(
        "merge: later weights are the first ones",
        PARTS,
        "&args.part[first + i];",
        "&args.part[i];",
        2,
    ),
    Mutation(
        "merge: a part too few in the last step",
        PARTS,
        "if (first + i >= args.parts)",
        "if (first + i + 1 >= args.parts)",
        2,
    ),
    Mutation(
        "merge: NaN of a part without keys",
        PARTS,
        "weight == 0.0f ? 0.0f : weight * value[j]",
        "weight * value[j]",
    ),
    Mutation("merge: out of the previous step", PARTS, "total[j] = 0.0f;", "total[j] = 1.0f;"),
    Mutation(
        "merge: a vector past the row",
        PARTS,
        "args.head_dim, ELEMENTS, merged",
        "args.head_dim + 1, ELEMENTS, merged",
    ),
    Mutation("merge: no barrier: lse has been read", PARTS, "  __syncwarp();\n", ""),
    Mutation("merge: every lane writes lse", PARTS, "has_row && lane == 0 &&", "has_row &&"),
    Mutation("merge: lse that nobody wants", PARTS, " && args.result.lse != nullptr", ""),
    Mutation(
        "merge: lse to the other base",
        PARTS,
        "log2_approx(sum) * args.lse_of_log2",
        "log2_approx(sum)",
    ),
    Mutation(
        "merge: weights to the other base",
        MERGE,
        "(lse - maximum) * log2_of_lse",
        "(lse - maximum)",
    ),
    Mutation("merge: weights against nothing", MERGE, "((lse - maximum)", "((lse)"),
    Mutation(
        "merge: only -inf is without keys", MERGE, "fabsf(lse) == MERGE_INF", "lse == -MERGE_INF"
    ),
    Mutation(
        "merge: only +inf is without keys", MERGE, "fabsf(lse) == MERGE_INF", "lse == MERGE_INF"
    ),
    Mutation(
        "merge: heads are the slowest",
        MERGE,
        "divide(index, &args->heads)",
        "divide(index, &args->seqlen)",
    ),
    Mutation("merge: the batch of the row", MERGE, "token - batch * args->seqlen.value", "token"),
    Mutation(
        "merge: entries in 32 bits",
        MERGE,
        "at.batch * rows->batch_stride",
        "(int)(at.batch * rows->batch_stride)",
    ),
    Mutation(
        "merge: lse by the strides of out",
        MERGE,
        "at.row * rows->lse_row_stride",
        "at.row * rows->row_stride",
    ),
    Mutation("merge: lse without heads", MERGE, "at.head * rows->lse_head_stride", "0"),
    Mutation(
        "merge: odd elements of a word", SPAN, "word[i / 2] >> i % 2 * 16", "word[i / 2] >> 16"
    ),
    Mutation("merge: a span past the row", SPAN, "    if (column + i < columns)\n", ""),
    Mutation(
        "merge: words the other way round",
        SPAN,
        "pack_bf16(value[2 * i], value[2 * i + 1])",
        "pack_bf16(value[2 * i + 1], value[2 * i])",
    ),
]
