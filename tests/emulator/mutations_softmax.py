"""Single faults in softmax's templates and device headers, and the kernels that are to see them."""

from __future__ import annotations

from mutations import Mutation

FWD = "templates/softmax/softmax_fwd.cu.j2"
FWD_LONG = "templates/softmax/softmax_fwd_long.cu.j2"
BWD = "templates/softmax/softmax_bwd.cu.j2"
BWD_LONG = "templates/softmax/softmax_bwd_long.cu.j2"
ROW = "include/attnpress/device/row_softmax.cuh"
VECTOR = "include/attnpress/device/row_vector.cuh"

KERNELS = [
    ("softmax_fwd_cols64_fp16_sm80", ""),
    ("softmax_fwd_cols256_fp32_sm80", "w4t16r2"),
    ("softmax_fwd_cols1024_bf16_sm80", "w8t64"),
    ("softmax_fwd_cols65536_fp32_sm80", "w4v2"),
    ("softmax_bwd_cols128_bf16_sm80", "w4t8r2"),
    ("softmax_bwd_cols1024_fp32_sm80", "w4t64"),
    ("softmax_bwd_cols2048_fp16_sm80", "w2t64sa"),
    ("softmax_bwd_cols65536_bf16_sm80", "w4v2"),
]
"""Rows of a few threads and of several warps, several a thread and a block, y in shared memory,
rows that are read twice; each dtype."""

MUTATIONS = [
    Mutation("no barrier: warps of a row, fwd", FWD, "  __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, fwd long", FWD_LONG, "  __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, bwd", BWD, "  __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, bwd long", BWD_LONG, "  __syncthreads();\n", ""),
    Mutation("half the lanes of a shuffle", ROW, "0xffffffff, value", "0x0000ffff, value", 0),
    Mutation(
        "the last distance is left out, max",
        ROW,
        "distance < lanes",
        "2 * distance < lanes",
    ),
    Mutation(
        "the last distance is left out, sum",
        ROW,
        "distance < lanes",
        "2 * distance < lanes",
        2,
    ),
    Mutation("the maximum of the lanes is their minimum", ROW, "fmaxf(value,", "-fmaxf(-value, -"),
    Mutation("an empty part has the reference -inf", ROW, "max == -INF ? 0.0f : max", "max"),
    Mutation(
        "parts are not brought to one maximum",
        ROW,
        "part.sum * exp_difference",
        "part.sum + 0 * exp_difference",
    ),
    Mutation(
        "a share is not relative to the row's maximum",
        ROW,
        "reference_of(all.max)) * rec",
        "reference_of(max)) * rec",
    ),
    Mutation("log2(e) is forgotten", ROW, "(t - reference) * LOG2_E", "(t - reference)"),
    Mutation("the wrong row", FWD, "blockIdx.x * BLOCK_ROWS", "blockIdx.x * (BLOCK_ROWS - 1)"),
    Mutation("rows of a thread side by side", FWD, "first_row + r * GROUPS", "first_row + r", 1),
    Mutation(
        "rows past the end are loaded",
        FWD,
        "row < args.rows ? args.columns : 0",
        "args.columns",
        1,
    ),
    Mutation(
        "rows past the end are stored",
        FWD,
        "row < args.rows ? args.columns : 0",
        "args.columns",
        2,
    ),
    Mutation("the wrong warps' sums", FWD, "threadIdx.x / ROW_THREADS * ROW_WARPS + ", ""),
    Mutation("y with the stride of x", FWD, "row * args.y_row_stride", "row * args.x_row_stride"),
    Mutation(
        "x in 32 bits",
        FWD,
        "row * args.x_row_stride * SIZE",
        "(int)(row * args.x_row_stride * SIZE)",
        1,
    ),
    Mutation(
        "y in 32 bits",
        FWD,
        "row * args.y_row_stride * SIZE",
        "(int)(row * args.y_row_stride * SIZE)",
    ),
    Mutation("values are not scaled", FWD, "value[r][i] *= args.scale", "value[r][i] *= 1.0f"),
    Mutation(
        "the long row's edge is left out",
        FWD_LONG,
        "add_values(nothing, &edge_value, 1)",
        "nothing",
    ),
    Mutation("a step too few", FWD_LONG, "step < steps; ++step", "step < steps - 1; ++step"),
    Mutation(
        "sums are not rescaled",
        FWD_LONG,
        "part.sum * exp_difference(part.max, reference)",
        "part.sum",
    ),
    Mutation("dx without scale", BWD, "scale * a[j] *", "a[j] *"),
    Mutation("an edge's dx without scale", BWD, "scale * a * (b - sum)", "a * (b - sum)"),
    Mutation(
        "the sum without edges",
        BWD,
        "sum += widen_element_${ dtype }(y_edge[i]) *",
        "sum += 0 * widen_element_${ dtype }(y_edge[i]) *",
    ),
    Mutation(
        "dy with the stride of y",
        BWD,
        "row * args.dy_row_stride",
        "row * args.y_row_stride",
        1,
    ),
    Mutation("y is not waited for", BWD, "  cp_async_wait(0);\n", ""),
    Mutation(
        "threads share their places of y",
        BWD,
        "(uint4 *)smem + threadIdx.x",
        "(uint4 *)smem + threadIdx.x / 2",
    ),
    Mutation("the wrong warps' sums, bwd", BWD, "threadIdx.x / ROW_THREADS * ROW_WARPS + ", ""),
    Mutation(
        "back from a step too early",
        BWD_LONG,
        "int step = steps - 1; step",
        "int step = steps - 2; step",
    ),
    Mutation(
        "the long row's edges are not stored",
        BWD_LONG,
        "  store_edge(dx",
        "  if (0)\n    store_edge(dx",
    ),
    Mutation(
        "a row is cut where it begins",
        VECTOR,
        "(int)(-(uint64_t)row % 16) / size",
        "(int)((uint64_t)row % 16) / size",
    ),
    Mutation(
        "edges behind the last vector, one off",
        VECTOR,
        "cut.columns - cut.edges + edge",
        "cut.columns - cut.edges + edge - 1",
    ),
    Mutation(
        "a vector too many",
        VECTOR,
        "first + i * stride < cut.vectors",
        "first + i * stride <= cut.vectors",
        1,
    ),
    Mutation(
        "all rows are cut alike",
        VECTOR,
        "((uint64_t)row + cut.head * size) % 16 == 0",
        "true",
    ),
    Mutation(
        "the halves of a word change places",
        VECTOR,
        "column + 2 * i + 1, word[i] >> 16",
        "column + 2 * i + 1, word[i] & 0xffff",
    ),
    Mutation(
        "-inf of a negative scale",
        VECTOR,
        "scale < 0.0f ? 0x7c007c00 : 0xfc00fc00",
        "0xfc00fc00",
    ),
]
