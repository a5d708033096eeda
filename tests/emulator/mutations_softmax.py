"""Single faults in softmax's templates and device headers, and the kernels that are to see them."""

from __future__ import annotations

from mutations import Mutation

FWD = "templates/softmax/softmax_fwd.cu.j2"
FWD_LONG = "templates/softmax/softmax_fwd_long.cu.j2"
BWD = "templates/softmax/softmax_bwd.cu.j2"
BWD_LONG = "templates/softmax/softmax_bwd_long.cu.j2"
ADD = "templates/softmax/parts/add_vectors.cu.j2"
ROW = "include/attnpress/device/row_softmax.cuh"
PIECE = "include/attnpress/device/row_piece.cuh"
LANES = "include/attnpress/device/lanes.cuh"
VECTOR = "include/attnpress/device/row_vector.cuh"

KERNELS = [
    ("softmax_fwd_cols64_fp16_sm80", ""),
    ("softmax_fwd_cols256_fp32_sm80", "w4t16r2"),
    ("softmax_fwd_cols1024_bf16_sm80", "w8t64"),
    ("softmax_fwd_cols1024_fp16_sm80", "w2t64s1"),
    ("softmax_fwd_cols2048_fp32_sm80", "w2t64s1h3a"),
    ("softmax_fwd_cols1024_bf16_sm80", "w2t128"),
    ("softmax_fwd_cols2048_fp32_sm80", "w2t256s1h1a"),
    ("softmax_fwd_cols96_fp16_sm80", "w4t4p"),
    ("softmax_fwd_cols128_fp32_sm80", "w4t16r2p"),
    ("softmax_fwd_cols65536_fp32_sm80", "w4v2"),
    ("softmax_bwd_cols128_bf16_sm80", "w4t8r2"),
    ("softmax_bwd_cols1024_fp32_sm80", "w4t64"),
    ("softmax_bwd_cols2048_fp16_sm80", "w2t64s1a"),
    ("softmax_bwd_cols1024_fp16_sm80", "w2t64s2"),
    ("softmax_bwd_cols65536_bf16_sm80", "w4v2"),
]
"""Rows of a few threads and of several warps, several a thread and a block, rows in shared memory,
all of them or not, rows of a cluster of blocks, rows that are brought as one piece, rows that are
read twice; each dtype."""

MUTATIONS = [
    Mutation("no barrier: warps of a row, fwd", FWD, "  __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, fwd long", FWD_LONG, "  __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, bwd", BWD, "  __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, bwd long", BWD_LONG, "  __syncthreads();\n", ""),
    Mutation("half the lanes of a shuffle", LANES, "0xffffffff, value", "0x0000ffff, value", 0),
    Mutation(
        "the last distance is left out, max",
        LANES,
        "distance < lanes",
        "2 * distance < lanes",
    ),
    Mutation(
        "the last distance is left out, sum",
        LANES,
        "distance < lanes",
        "2 * distance < lanes",
        2,
    ),
    Mutation(
        "the maximum of the lanes is their minimum", LANES, "fmaxf(value,", "-fmaxf(-value, -"
    ),
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
        "reference_of(all.max), power) * rec",
        "reference_of(max), power) * rec",
    ),
    Mutation("log2(e) is forgotten", ROW, "(x - reference) * power", "(x - reference)"),
    Mutation(
        "the wrong row",
        FWD,
        "(int64_t)blockIdx.x * BLOCK_ROWS + threadIdx",
        "(int64_t)blockIdx.x * (BLOCK_ROWS - 1) + threadIdx",
    ),
    Mutation(
        "a row for each block of a cluster", FWD, "blockIdx.x / CLUSTER;\n  cl", "blockIdx.x;\n  cl"
    ),
    Mutation(
        "the blocks of a cluster have the same part",
        FWD,
        "= blockIdx.x % CLUSTER * THREADS + threadIdx.x; // of the row\n  const int64_t first",
        "= threadIdx.x; // of the row\n  const int64_t first",
    ),
    Mutation(
        "the blocks of a cluster have the same part in shared memory",
        FWD,
        "= blockIdx.x % CLUSTER * THREADS + threadIdx.x; // of the row\n  const int64_t row",
        "= threadIdx.x; // of the row\n  const int64_t row",
    ),
    Mutation(
        "a cluster stores before all have begun",
        FWD,
        "  cluster_wait();\n  if (threadIdx",
        "  if (threadIdx",
    ),
    Mutation(
        "a cluster reads what has not come",
        FWD,
        "  cluster_arrive();\n  cluster_wait();\n  const float2 other",
        "  __syncthreads();\n  const float2 other",
    ),
    Mutation(
        "a cluster's first block alone is told",
        FWD,
        "threadIdx.x % 32 < CLUSTER",
        "threadIdx.x % 32 < 1",
    ),
    Mutation(
        "the blocks of a cluster store in one place",
        FWD,
        "blockIdx.x % CLUSTER * (THREADS / 32) + threadIdx.x / 32",
        "threadIdx.x / 32",
    ),
    Mutation("a piece is not waited for", PIECE, "  cp_async_wait(0);\n", ""),
    Mutation(
        "a piece without its edges",
        PIECE,
        "  if (first < cut.edges)\n    store_element(piece",
        "  if (0)\n    store_element(piece",
    ),
    Mutation(
        "a piece's edges are not stored",
        PIECE,
        "  if (first < cut.edges)\n    store_element(row",
        "  if (0)\n    store_element(row",
    ),
    Mutation(
        "a piece of the first block",
        FWD,
        "block_row = (int64_t)blockIdx.x *",
        "block_row = (int64_t)0 *",
    ),
    Mutation(
        "a piece is read before it is there",
        FWD,
        "hands over the block's rows.\n    __syncthreads();\n",
        "\n",
    ),
    Mutation(
        "a piece is stored before it is there",
        FWD,
        "hands over the block's results.\n    __syncthreads();\n",
        "\n",
    ),
    Mutation(
        "a piece longer than x",
        FWD,
        "(int)min(args.rows - block_row, (int64_t)BLOCK_ROWS)",
        "BLOCK_ROWS",
    ),
    Mutation(
        "a piece where rows of y lie apart", FWD, " && args.y_row_stride == args.columns &&", " &&"
    ),
    Mutation(
        "a piece where rows of x lie apart",
        FWD,
        "in_piece = args.x_row_stride == args.columns && ",
        "in_piece = ",
    ),
    Mutation(
        "a piece where y begins elsewhere",
        FWD,
        "((uint64_t)args.x - (uint64_t)args.y) % 16 == 0",
        "true",
    ),
    Mutation(
        "a row of a piece one off",
        FWD,
        "const unsigned char *own = piece + (int)(row - block_row)",
        "const unsigned char *own = piece + (int)(row - block_row + 1)",
    ),
    Mutation(
        "a piece's vector too many",
        PIECE,
        "    if (index < cut.vectors)\n      vector[i]",
        "    if (index <= cut.vectors)\n      vector[i]",
    ),
    Mutation(
        "a piece's edge too few is put",
        PIECE,
        "    if (index < cut.edges)\n      store_element(row",
        "    if (index < cut.edges - 1)\n      store_element(row",
    ),
    Mutation(
        "a piece's vectors are not put back",
        PIECE,
        "    if (index < cut.vectors)\n      *(uint4 *)(row",
        "    if (0)\n      *(uint4 *)(row",
    ),
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
    Mutation("values are not scaled", FWD, "args.scale * LOG2_E", "LOG2_E"),
    Mutation("edges keep their sign", FWD, "negative ? -value : value", "value"),
    Mutation(
        "the reference keeps its sign",
        FWD,
        "negative ? -reference_of(part[r].max)",
        "negative ? reference_of(part[r].max)",
    ),
    Mutation("x is not waited for", FWD, "cp_async_wait(IN_SHARED - STEP - i)", "cp_async_wait(7)"),
    Mutation(
        "x is waited for a group too late",
        FWD,
        "cp_async_wait(IN_SHARED - STEP - i)",
        "cp_async_wait(IN_SHARED - i)",
    ),
    Mutation(
        "threads share their places of x",
        FWD,
        "(uint4 *)smem + threadIdx.x",
        "(uint4 *)smem + threadIdx.x / 2",
    ),
    Mutation(
        "nothing stands where x has no vector",
        FWD,
        "      shared[i * THREADS] = nothing;\n",
        "      ;\n",
    ),
    Mutation(
        "held vectors are not added",
        FWD,
        "  part = add_vectors(part, held, HELD, negative, power);\n",
        "",
    ),
    Mutation(
        "held vectors one off",
        FWD,
        "IN_SHARED * ROW_THREADS + thread, ROW_THREADS, HELD",
        "IN_SHARED * ROW_THREADS + thread + 1, ROW_THREADS, HELD",
    ),
    Mutation(
        "the edge beside shared memory is left out",
        FWD,
        "  part.sum = exp_difference(part.max, reference_of(part.max), fabsf(power));\n",
        "",
    ),
    Mutation(
        "the long row's edge is left out",
        FWD_LONG,
        "  part.sum = exp_difference(part.max, reference_of(part.max), fabsf(power));\n",
        "",
    ),
    Mutation(
        "a sum takes the largest of -x for the largest of x",
        ADD,
        "negative ? -reference_of(max)",
        "negative ? reference_of(max)",
    ),
    Mutation("a step too few", FWD_LONG, "step < steps; ++step", "step < steps - 1; ++step"),
    Mutation(
        "sums are not rescaled",
        ADD,
        "part.sum * exp_difference(part.max, reference_of(max), fabsf(power))",
        "part.sum",
    ),
    Mutation(
        "a pair of vectors is waited for too late",
        BWD,
        "cp_async_wait(VECTORS - 1 - i)",
        "cp_async_wait(VECTORS - i)",
    ),
    Mutation(
        "y and dy in one place",
        BWD,
        "{y[0] + VECTORS * THREADS}",
        "{y[0] + (VECTORS - 1) * THREADS}",
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
        "  store_edges(dx",
        "  if (0)\n    store_edges(dx",
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
        "load_16_if(\n        index < cut.vectors",
        "load_16_if(\n        index <= cut.vectors",
    ),
    Mutation(
        "all rows are cut alike",
        VECTOR,
        "((uint64_t)row + cut.head * size) % 16 == 0",
        "true",
    ),
    Mutation(
        "a vector too few is stored",
        VECTOR,
        "store_16_if(index < cut.vectors",
        "store_16_if(index < cut.vectors - 1",
    ),
    Mutation(
        "an edge too many", VECTOR, "load_2_if(index < cut.edges", "load_2_if(index <= cut.edges"
    ),
    Mutation(
        "the upper half is not compared",
        VECTOR,
        "fmaxf(widen_element_fp16(pair & 0xffff)",
        "fmaxf(-INF",
    ),
    Mutation(
        "the smallest of bf16 keeps its sign",
        VECTOR,
        "return -fminf(widen_element_bf16",
        "return fminf(widen_element_bf16",
    ),
    Mutation("largest for smallest, fp32", VECTOR, "value = fminf(value", "value = fmaxf(value"),
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
