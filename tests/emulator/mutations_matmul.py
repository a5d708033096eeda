"""Single faults in the in-place matrix product's templates, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

SM80 = "templates/matmul/matmul_sm80.cu.j2"
SHARED = "include/attnpress/device/matmul.cuh"

KERNELS = [
    ("matmul_nn_cols256_bf16_sm80", ""),
    ("matmul_nt_cols256_fp16_sm80", ""),
    ("matmul_nn_cols512_fp16_wfp32_sm86", ""),
    ("matmul_nt_cols256_bf16_wfp32_sm80", ""),
    ("matmul_nn_cols4096_bf16_sm86", ""),
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
        SHARED,
        "uint2{received, second} : uint2{first, received}",
        "uint2{first, received} : uint2{received, second}",
    ),
    Mutation(
        "matmul: a result's row in 32 bits", SHARED, "row * x_stride", "(int)(row * x_stride)"
    ),
]
