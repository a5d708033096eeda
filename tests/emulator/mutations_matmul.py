"""Single faults in the in-place matrix product's templates, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

SM80 = "templates/matmul/matmul_sm80.cu.j2"
SM90 = "templates/matmul/matmul_sm90.cu.j2"
SHARED = "include/attnpress/device/matmul.cuh"
QUAD = "include/attnpress/device/quad.cuh"

KERNELS = [
    ("matmul_nn_cols256_bf16_sm80", ""),
    ("matmul_nt_cols256_fp16_sm80", ""),
    ("matmul_nn_cols512_fp16_wfp32_sm86", ""),
    ("matmul_nt_cols256_bf16_wfp32_sm80", ""),
    ("matmul_nn_cols4096_bf16_sm86", ""),
    ("matmul_nt_cols4096_bf16_sm90", ""),
    ("matmul_nn_cols4096_fp16_sm90", ""),
    ("matmul_nt_cols4096_fp16_m64n64_sm90", ""),
    ("matmul_nn_cols4096_bf16_m192n128_sm90", ""),
]

MUTATIONS = [
    Mutation("matmul: rows of another block", SM80, "(int64_t)blockIdx.x * BLOCK_M", "(int64_t)0"),
    Mutation(
        "matmul: rows of x past the end are read", SM80, "row < rows && column < n", "column < n"
    ),
    Mutation(
        "matmul: columns of x past the end are read", SM80, "row < rows && column < n", "row < rows"
    ),
    Mutation(
        "matmul: the depth's tail of x is not there",
        SM80,
        "ceil_div(n, BLOCK_K) * (BLOCK_K / 8)",
        "n / 8",
    ),
    Mutation(
        "matmul: rows of W past the end are read",
        SM80,
        "at.row < n && at.column < n",
        "at.column < n",
    ),
    Mutation(
        "matmul: columns of W past the end are read",
        SM80,
        "at.row < n && at.column < n",
        "at.row < n",
    ),
    Mutation("matmul: W's stride is n", SM80, "at.row * w_stride", "at.row * n"),
    Mutation(
        "matmul: x's row in 32 bits",
        SM80,
        "x + row * x_stride + column :",
        "x + (int)(row * x_stride) + column :",
    ),
    Mutation(
        "matmul: a step too few is waited for",
        SM80,
        "cp_async_wait(STAGES - 2)",
        "cp_async_wait(STAGES - 1)",
    ),
    Mutation("matmul: x is not waited for", SM80, "    cp_async_wait(0);\n", ""),
    Mutation("matmul: no barrier: W of fp32", SM80, "    __syncthreads();\n", "", 1),
    Mutation("matmul: no barrier: W", SM80, "    __syncthreads();\n", "", 2),
    Mutation(
        "matmul: the stage in use is filled", SM80, "free_stage = STAGES - 1", "free_stage = 0"
    ),
    Mutation("matmul: stages do not move on", SM80, "stage + 1 == STAGES ? 0 : stage + 1", "stage"),
    Mutation(
        "matmul: sums of the columns before",
        SM80,
        "sum[m][i / 4][i % 4] = 0.0f",
        "sum[m][i / 4][i % 4] *= 1.0f",
    ),
    Mutation("matmul: x's step is the first one", SM80, "warp_x + place.depth * 2", "warp_x"),
    Mutation(
        "matmul: columns of the first warp",
        SM80,
        "% COLUMN_WARPS * N_TILES * 8",
        "% 1 * N_TILES * 8",
    ),
    Mutation(
        "matmul: the lower rows of eight", SM80, "BLOCK_M == 8 ? lane % 8 : lane % 16", "lane % 16"
    ),
    Mutation("matmul: half a step", SM80, "step < BLOCK_K / 16; ++step", "step < 1; ++step"),
    Mutation(
        "matmul: fp32 W: the second half is the first",
        SM80,
        "load_16_if(valid, from + 4, 0)",
        "load_16_if(valid, from, 0)",
    ),
    Mutation(
        "matmul: W's tile of the next columns",
        SM80,
        "Place{place.column + BLOCK_N, 0}",
        "Place{place.column + BLOCK_N, BLOCK_K}",
    ),
    Mutation(
        "matmul: rows past the end are stored",
        SHARED,
        "row < rows && column < columns",
        "column < columns",
    ),
    Mutation(
        "matmul: columns past the end are stored",
        SHARED,
        "row < rows && column < columns",
        "row < rows",
    ),
    Mutation(
        "matmul: pieces change places",
        QUAD,
        "uint2{received, second} : uint2{first, received}",
        "uint2{first, received} : uint2{received, second}",
    ),
    Mutation(
        "matmul: a result's row in 32 bits", SHARED, "row * x_stride", "(int)(row * x_stride)"
    ),
    Mutation(
        "matmul: half rows of four tiles change places",
        QUAD,
        "upper ? low.x : high.x, 2",
        "upper ? high.x : low.x, 2",
    ),
    Mutation(
        "matmul: rows past the end are stored, four tiles",
        SHARED,
        "row < rows && column < columns",
        "column < columns",
        2,
    ),
    Mutation(
        "matmul: columns past the end are stored, four tiles",
        SHARED,
        "row < rows && column < columns",
        "row < rows",
        2,
    ),
    Mutation(
        "matmul: nobody waits for the cluster",
        SM90,
        "    if (args->column_blocks > 1)\n      cluster_wait();\n    return;",
        "    return;",
    ),
    Mutation(
        "matmul: the cluster's barrier before the last piece of x",
        SM90,
        "        if (meets)\n          cluster_arrive();\n",
        "      }\n      if (depth == work.depth_begin && meets)\n        cluster_arrive();\n"
        "      if (depth + BLOCK_K >= work.depth_end) {\n",
    ),
    Mutation(
        "matmul: the grid's barrier before the last piece of x",
        SM90,
        "        if (args->together && threadIdx.x == 128)\n"
        "          arrived = grid_arrive();\n      }",
        "      }\n      if (depth == work.depth_begin && args->together && threadIdx.x == 128)\n"
        "        arrived = grid_arrive();\n",
    ),
    Mutation(
        "matmul: nobody waits for the grid",
        SM90,
        "    while (!grid_has_come(arrived))\n      ;\n",
        "    ;\n",
    ),
    Mutation(
        "matmul: one thread waits for the grid",
        SM90,
        "  named_barrier_sync(1, CONSUMER_THREADS);\n",
        "",
    ),
    Mutation(
        "matmul: a block without rows does not come to the grid's barrier",
        SM90,
        "      if (args->together && threadIdx.x == 128)\n        grid_arrive();\n      break;",
        "      break;",
    ),
    Mutation(
        "matmul: the producer does not meet the cluster",
        SM90,
        "      cluster_arrive();\n      cluster_wait();\n",
        "      ;\n",
    ),
    Mutation(
        "matmul: the producer does not wait for the cluster",
        SM90,
        "      cluster_arrive();\n      cluster_wait();\n",
        "      cluster_arrive();\n",
    ),
    Mutation("matmul: the first columns", SM90, "tile % args->column_blocks * BLOCK_N", "0"),
    Mutation(
        "matmul: the row blocks of another cluster", SM90, "row * args->share", "tile * args->share"
    ),
    Mutation("matmul: a row block too few", SM90, "{0, 1, args->share,", "{0, 1, args->share - 1,"),
    Mutation("matmul: turns side by side", SM90, "tiles / args->column_blocks;", "1;"),
    Mutation(
        "matmul: a part from the begin of the depth",
        SM90,
        "(steps * work.part >> shift) * BLOCK_K",
        "0",
    ),
    Mutation(
        "matmul: a part to the end of the depth",
        SM90,
        "min((steps * (work.part + 1) >> shift) * BLOCK_K, args->n)",
        "args->n",
    ),
    Mutation(
        "matmul: sums before the ring is free",
        SM90,
        "nobody reads the rings any more.\n  cluster_arrive();\n  cluster_wait();\n",
        "\n",
    ),
    Mutation(
        "matmul: sums are not handed over",
        SM90,
        "hands over the sums.\n  cluster_arrive();\n  cluster_wait();\n",
        "\n",
    ),
    Mutation("matmul: sums of one part", SM90, "from < 1 << args->split_shift", "from < 1"),
    Mutation("matmul: sums go to the other one", SM90, "tile >> shift);", "(tile >> shift) ^ 1);"),
    Mutation(
        "matmul: a part's columns are the first", SM90, "(work.part * own + tile) * 8", "tile * 8"
    ),
    Mutation(
        "matmul: a pair does not wait for the grid",
        SM90,
        "      wait_for_readers(args, arrived);\n#pragma",
        "#pragma",
    ),
    Mutation("matmul: what ran before is not waited for", SM90, "  griddepcontrol_wait();\n", ""),
    Mutation(
        "matmul: the stage is not empty yet",
        SM90,
        "  wait_for_phase(empty(shared, stage.index), stage.parity ^ 1);\n",
        "",
    ),
    Mutation("matmul: bytes of x alone", SM90, "X_BYTES + W_BYTES);", "X_BYTES);"),
    Mutation(
        "matmul: x of the first step", SM90, "barrier, depth, row, 0, 0", "barrier, 0, row, 0, 0"
    ),
    Mutation(
        "matmul: W^T of the first columns",
        SM90,
        "barrier, depth, column, 0, 0",
        "barrier, depth, 0, 0, 0",
    ),
    Mutation("matmul: a slab of W twice", SM90, "column + slab * 64, depth", "column, depth"),
    Mutation(
        "matmul: the copy engine is not waited for",
        SM90,
        "      wait_for_phase(full(shared, stage.index), stage.parity);\n",
        "",
    ),
    Mutation("matmul: the first consumer's rows", SM90, "consumer * (64 * 128)", "0 * (64 * 128)"),
    Mutation("matmul: slabs of W in one place", SM90, "1024, SLAB_BYTES)", "1024, 0)"),
    Mutation(
        "matmul: sums of the row block before",
        SM90,
        "stage.index, depth == work.depth_begin)",
        "stage.index, false)",
    ),
    Mutation("matmul: steps of x in one place", SM90, "x + step * 32 / 16", "x"),
    Mutation(
        "matmul: a stage is given back too early",
        SM90,
        "shared, last, 1)",
        "shared, stage.index, 1)",
    ),
    Mutation("matmul: products are not waited for", SM90, "shared, last, 0)", "shared, last, 1)"),
    Mutation("matmul: no fence before products", SM90, "  wgmma_fence();\n", ""),
    Mutation("matmul: consumers of one warp", SM90, "4 * CONSUMERS)", "1 * CONSUMERS)"),
    Mutation("matmul: rows of the first warp", SM90, "threadIdx.x / 32 % 4 * 16", "0"),
    Mutation("matmul: barriers are not handed over", SM90, "  __syncthreads();\n", ""),
]
