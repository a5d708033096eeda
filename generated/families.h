/* Written by `python -m generator` from generator/families.toml and each family.toml; do not edit. */
/* clang-format off */
#pragma once

/* The families, in their order: X(name, NAME). */
#define AP_FAMILIES(X) X(attention, ATTENTION) X(softmax, SOFTMAX) X(layernorm, LAYERNORM) X(dropout, DROPOUT) X(outer, OUTER) X(append, APPEND) X(merge, MERGE) X(matmul, MATMUL) X(conv2d, CONV2D)

enum { AP_FAMILY_ATTENTION = 0, AP_FAMILY_SOFTMAX = 1, AP_FAMILY_LAYERNORM = 2, AP_FAMILY_DROPOUT = 3, AP_FAMILY_OUTER = 4, AP_FAMILY_APPEND = 5, AP_FAMILY_MERGE = 6, AP_FAMILY_MATMUL = 7, AP_FAMILY_CONV2D = 8, AP_FAMILY_COUNT = 9 };

/* ---- attention ---- */

/* flash_<fwd|fwd_combine|bwd|bwd_dkv|bwd_dq|bwd_delta|bwd_convert|bwd_sinks|fwd_map|fwd_schedule|bwd_dbias>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal|_window][_softcap][_alibi][_biasfp16|_biasbf16|_biasfp32][_dropout][_modscore][_modmask][_ragged|_paged][_ready][_decode]_sm<80|86|90> */
enum { /* axes */
  AP_ATTENTION_PASS = 0,
  AP_ATTENTION_SPLIT = 1,
  AP_ATTENTION_HDIM = 2,
  AP_ATTENTION_HDIM_V = 3,
  AP_ATTENTION_DTYPE = 4,
  AP_ATTENTION_MASK = 5,
  AP_ATTENTION_SOFTCAP = 6,
  AP_ATTENTION_ALIBI = 7,
  AP_ATTENTION_BIAS = 8,
  AP_ATTENTION_DROPOUT = 9,
  AP_ATTENTION_MOD_SCORE = 10,
  AP_ATTENTION_MOD_MASK = 11,
  AP_ATTENTION_SEQUENCES = 12,
  AP_ATTENTION_READY = 13,
  AP_ATTENTION_DECODE = 14,
  AP_ATTENTION_ARCH = 15,
  AP_ATTENTION_AXIS_COUNT = 16,
};
enum { /* pass */
  AP_ATTENTION_PASS_FWD = 0,
  AP_ATTENTION_PASS_FWD_COMBINE = 1,
  AP_ATTENTION_PASS_BWD = 2,
  AP_ATTENTION_PASS_BWD_DKV = 3,
  AP_ATTENTION_PASS_BWD_DQ = 4,
  AP_ATTENTION_PASS_BWD_DELTA = 5,
  AP_ATTENTION_PASS_BWD_CONVERT = 6,
  AP_ATTENTION_PASS_BWD_SINKS = 7,
  AP_ATTENTION_PASS_FWD_MAP = 8,
  AP_ATTENTION_PASS_FWD_SCHEDULE = 9,
  AP_ATTENTION_PASS_BWD_DBIAS = 10,
};
enum { /* hdim */
  AP_ATTENTION_HDIM_MIN = 8,
  AP_ATTENTION_HDIM_MAX = 512,
  AP_ATTENTION_HDIM_STEP = 8,
};
enum { /* hdim_v */
  AP_ATTENTION_HDIM_V_MIN = 8,
  AP_ATTENTION_HDIM_V_MAX = 512,
  AP_ATTENTION_HDIM_V_STEP = 8,
};
enum { /* dtype */
  AP_ATTENTION_DTYPE_FP16 = 1,
  AP_ATTENTION_DTYPE_BF16 = 2,
};
enum { /* mask */
  AP_ATTENTION_MASK_FULL = 0,
  AP_ATTENTION_MASK_CAUSAL = 1,
  AP_ATTENTION_MASK_WINDOW = 2,
};
enum { /* bias */
  AP_ATTENTION_BIAS_NONE = 0,
  AP_ATTENTION_BIAS_FP16 = 1,
  AP_ATTENTION_BIAS_BF16 = 2,
  AP_ATTENTION_BIAS_FP32 = 3,
};
enum { /* sequences */
  AP_ATTENTION_SEQUENCES_DENSE = 0,
  AP_ATTENTION_SEQUENCES_RAGGED = 1,
  AP_ATTENTION_SEQUENCES_PAGED = 2,
};
enum { /* arch */
  AP_ATTENTION_ARCH_MIN = 80,
  AP_ATTENTION_ARCH_MAX = 90,
};
enum { /* fields of a tile */
  AP_ATTENTION_TILE_BLOCK_M = 0,
  AP_ATTENTION_TILE_BLOCK_N = 1,
  AP_ATTENTION_TILE_WARPS_M = 2,
  AP_ATTENTION_TILE_WARPS_N = 3,
  AP_ATTENTION_TILE_STAGES = 4,
  AP_ATTENTION_TILE_K_SLAB = 5,
  AP_ATTENTION_TILE_V_SLAB = 6,
  AP_ATTENTION_TILE_Q_IN_REGS = 7,
  AP_ATTENTION_TILE_MIN_BLOCKS = 8,
  AP_ATTENTION_TILE_K_UNROLL = 9,
  AP_ATTENTION_TILE_SPREAD = 10,
  AP_ATTENTION_TILE_PRODUCER = 11,
  AP_ATTENTION_TILE_WARPS_K = 12,
  AP_ATTENTION_TILE_ACC_WARPS = 13,
  AP_ATTENTION_TILE_DQ_WARPS = 14,
  AP_ATTENTION_TILE_V_STAGES = 15,
  AP_ATTENTION_TILE_FIELD_COUNT = 16,
};
enum { /* limits */
  AP_ATTENTION_DECODE_ROWS = 16,
  AP_ATTENTION_WARPGROUP_ROWS = 64,
  AP_ATTENTION_PRODUCER_THREADS = 128,
  AP_ATTENTION_COMBINE_ARCH = 80,
  AP_ATTENTION_BWD_HDIM_MAX = 256,
  AP_ATTENTION_SM90_HDIM_MAX = 256,
  AP_ATTENTION_SM90_WIDE_HDIM_MAX = 512,
};

/* ---- softmax ---- */

/* softmax_<fwd|bwd>_cols<32|64|96|128|192|256|384|512|768|1024|1536|2048|3072|4096|6144|8192|12288|16384|24576|32768|65536>_<fp16|bf16|fp32>_sm<80> */
enum { /* axes */
  AP_SOFTMAX_PASS = 0,
  AP_SOFTMAX_COLS = 1,
  AP_SOFTMAX_DTYPE = 2,
  AP_SOFTMAX_ARCH = 3,
  AP_SOFTMAX_AXIS_COUNT = 4,
};
enum { /* pass */
  AP_SOFTMAX_PASS_FWD = 0,
  AP_SOFTMAX_PASS_BWD = 1,
};
enum { /* cols */
  AP_SOFTMAX_COLS_MIN = 32,
  AP_SOFTMAX_COLS_MAX = 65536,
};
enum { /* dtype */
  AP_SOFTMAX_DTYPE_FP16 = 1,
  AP_SOFTMAX_DTYPE_BF16 = 2,
  AP_SOFTMAX_DTYPE_FP32 = 3,
};
enum { /* arch */
  AP_SOFTMAX_ARCH_MIN = 80,
  AP_SOFTMAX_ARCH_MAX = 80,
};
enum { /* fields of a tile */
  AP_SOFTMAX_TILE_WARPS = 0,
  AP_SOFTMAX_TILE_ROW_THREADS = 1,
  AP_SOFTMAX_TILE_ROWS = 2,
  AP_SOFTMAX_TILE_IN_SHARED = 3,
  AP_SOFTMAX_TILE_HELD = 4,
  AP_SOFTMAX_TILE_AHEAD = 5,
  AP_SOFTMAX_TILE_PACKED = 6,
  AP_SOFTMAX_TILE_BLOCKS = 7,
  AP_SOFTMAX_TILE_STEP = 8,
  AP_SOFTMAX_TILE_FIELD_COUNT = 9,
};
enum { /* limits */
  AP_SOFTMAX_HELD_COLS_MAX = 32768,
};

/* ---- layernorm ---- */

/* layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd]_cols<32|64|96|128|192|256|384|512|768|1024|1536|2048|3072|4096|6144|8192|12288|16384|24576|32768|65536>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80> */
enum { /* axes */
  AP_LAYERNORM_PASS = 0,
  AP_LAYERNORM_NORM = 1,
  AP_LAYERNORM_ROWS = 2,
  AP_LAYERNORM_COLS = 3,
  AP_LAYERNORM_DTYPE = 4,
  AP_LAYERNORM_PARAMS = 5,
  AP_LAYERNORM_ARCH = 6,
  AP_LAYERNORM_AXIS_COUNT = 7,
};
enum { /* pass */
  AP_LAYERNORM_PASS_FWD = 0,
  AP_LAYERNORM_PASS_BWD = 1,
  AP_LAYERNORM_PASS_BWD_DX = 2,
  AP_LAYERNORM_PASS_BWD_PARAMS = 3,
  AP_LAYERNORM_PASS_BWD_REDUCE = 4,
};
enum { /* norm */
  AP_LAYERNORM_NORM_LAYER = 0,
  AP_LAYERNORM_NORM_RMS = 1,
};
enum { /* rows */
  AP_LAYERNORM_ROWS_ALIGNED = 0,
  AP_LAYERNORM_ROWS_ODD = 1,
};
enum { /* cols */
  AP_LAYERNORM_COLS_MIN = 32,
  AP_LAYERNORM_COLS_MAX = 65536,
};
enum { /* dtype */
  AP_LAYERNORM_DTYPE_FP16 = 1,
  AP_LAYERNORM_DTYPE_BF16 = 2,
  AP_LAYERNORM_DTYPE_FP32 = 3,
};
enum { /* params */
  AP_LAYERNORM_PARAMS_FP16 = 1,
  AP_LAYERNORM_PARAMS_BF16 = 2,
  AP_LAYERNORM_PARAMS_FP32 = 3,
};
enum { /* arch */
  AP_LAYERNORM_ARCH_MIN = 80,
  AP_LAYERNORM_ARCH_MAX = 80,
};
enum { /* fields of a tile */
  AP_LAYERNORM_TILE_WARPS = 0,
  AP_LAYERNORM_TILE_ROW_THREADS = 1,
  AP_LAYERNORM_TILE_BLOCKS = 2,
  AP_LAYERNORM_TILE_AHEAD = 3,
  AP_LAYERNORM_TILE_SLOTS = 4,
  AP_LAYERNORM_TILE_WEIGHT_HELD = 5,
  AP_LAYERNORM_TILE_SUMS_IN_SHARED = 6,
  AP_LAYERNORM_TILE_IN_SHARED = 7,
  AP_LAYERNORM_TILE_STEP = 8,
  AP_LAYERNORM_TILE_FIELD_COUNT = 9,
};
enum { /* limits */
  AP_LAYERNORM_HELD_COLS_MAX = 32768,
  AP_LAYERNORM_BWD_COLS_MAX = 16384,
};

/* ---- dropout ---- */

/* dropout_<keep>_sm<80> */
enum { /* axes */
  AP_DROPOUT_PASS = 0,
  AP_DROPOUT_ARCH = 1,
  AP_DROPOUT_AXIS_COUNT = 2,
};
enum { /* pass */
  AP_DROPOUT_PASS_KEEP = 0,
};
enum { /* arch */
  AP_DROPOUT_ARCH_MIN = 80,
  AP_DROPOUT_ARCH_MAX = 80,
};
enum { /* fields of a tile */
  AP_DROPOUT_TILE_WARPS = 0,
  AP_DROPOUT_TILE_BLOCK_N = 1,
  AP_DROPOUT_TILE_FIELD_COUNT = 2,
};

/* ---- outer ---- */

/* outer_<fwd|sum|bwd|bwd_reduce>_<fp16|bf16|fp32>[_mod]_sm<80> */
enum { /* axes */
  AP_OUTER_PASS = 0,
  AP_OUTER_DTYPE = 1,
  AP_OUTER_MOD = 2,
  AP_OUTER_ARCH = 3,
  AP_OUTER_AXIS_COUNT = 4,
};
enum { /* pass */
  AP_OUTER_PASS_FWD = 0,
  AP_OUTER_PASS_SUM = 1,
  AP_OUTER_PASS_BWD = 2,
  AP_OUTER_PASS_BWD_REDUCE = 3,
};
enum { /* dtype */
  AP_OUTER_DTYPE_FP16 = 1,
  AP_OUTER_DTYPE_BF16 = 2,
  AP_OUTER_DTYPE_FP32 = 3,
};
enum { /* arch */
  AP_OUTER_ARCH_MIN = 80,
  AP_OUTER_ARCH_MAX = 80,
};
enum { /* fields of a tile */
  AP_OUTER_TILE_WARPS = 0,
  AP_OUTER_TILE_ROWS = 1,
  AP_OUTER_TILE_FIELD_COUNT = 2,
};

/* ---- append ---- */

/* append_<write>_<fp16|bf16|fp32>_sm<80> */
enum { /* axes */
  AP_APPEND_PASS = 0,
  AP_APPEND_DTYPE = 1,
  AP_APPEND_ARCH = 2,
  AP_APPEND_AXIS_COUNT = 3,
};
enum { /* pass */
  AP_APPEND_PASS_WRITE = 0,
};
enum { /* dtype */
  AP_APPEND_DTYPE_FP16 = 1,
  AP_APPEND_DTYPE_BF16 = 2,
  AP_APPEND_DTYPE_FP32 = 3,
};
enum { /* arch */
  AP_APPEND_ARCH_MIN = 80,
  AP_APPEND_ARCH_MAX = 80,
};
enum { /* fields of a tile */
  AP_APPEND_TILE_WARPS = 0,
  AP_APPEND_TILE_FIELD_COUNT = 1,
};

/* ---- merge ---- */

/* merge_<parts>_<fp16|bf16|fp32>_<ofp16|obf16|ofp32>_sm<80> */
enum { /* axes */
  AP_MERGE_PASS = 0,
  AP_MERGE_DTYPE = 1,
  AP_MERGE_RESULT = 2,
  AP_MERGE_ARCH = 3,
  AP_MERGE_AXIS_COUNT = 4,
};
enum { /* pass */
  AP_MERGE_PASS_PARTS = 0,
};
enum { /* dtype */
  AP_MERGE_DTYPE_FP16 = 1,
  AP_MERGE_DTYPE_BF16 = 2,
  AP_MERGE_DTYPE_FP32 = 3,
};
enum { /* result */
  AP_MERGE_RESULT_FP16 = 1,
  AP_MERGE_RESULT_BF16 = 2,
  AP_MERGE_RESULT_FP32 = 3,
};
enum { /* arch */
  AP_MERGE_ARCH_MIN = 80,
  AP_MERGE_ARCH_MAX = 80,
};
enum { /* fields of a tile */
  AP_MERGE_TILE_WARPS = 0,
  AP_MERGE_TILE_STEP = 1,
  AP_MERGE_TILE_FIELD_COUNT = 2,
};

/* ---- matmul ---- */

/* matmul_<nn|nt>_cols<256|512|1024|2048|4096>_<fp16|bf16>[_wfp32]_sm<80|86|90> */
enum { /* axes */
  AP_MATMUL_PASS = 0,
  AP_MATMUL_COLS = 1,
  AP_MATMUL_DTYPE = 2,
  AP_MATMUL_WEIGHT = 3,
  AP_MATMUL_ARCH = 4,
  AP_MATMUL_AXIS_COUNT = 5,
};
enum { /* pass */
  AP_MATMUL_PASS_NN = 0,
  AP_MATMUL_PASS_NT = 1,
};
enum { /* cols */
  AP_MATMUL_COLS_MIN = 256,
  AP_MATMUL_COLS_MAX = 4096,
};
enum { /* dtype */
  AP_MATMUL_DTYPE_FP16 = 1,
  AP_MATMUL_DTYPE_BF16 = 2,
};
enum { /* weight */
  AP_MATMUL_WEIGHT_SAME = 0,
  AP_MATMUL_WEIGHT_FP32 = 1,
};
enum { /* arch */
  AP_MATMUL_ARCH_MIN = 80,
  AP_MATMUL_ARCH_MAX = 90,
};
enum { /* fields of a tile */
  AP_MATMUL_TILE_BLOCK_M = 0,
  AP_MATMUL_TILE_BLOCK_N = 1,
  AP_MATMUL_TILE_WARPS = 2,
  AP_MATMUL_TILE_ROW_WARPS = 3,
  AP_MATMUL_TILE_STAGES = 4,
  AP_MATMUL_TILE_FIELD_COUNT = 5,
};
enum { /* limits */
  AP_MATMUL_SM90_BLOCK_K = 64,
};

/* ---- conv2d ---- */

/* conv2d_<fprop|dgrad|wgrad|dout|reduce>[_im2col][_m128n128|_m128n64|_m64n128|_m64n64|_m256n128|_m256n64|_m128n256|_m64n256]_<fp16|bf16>_sm<80|90> */
enum { /* axes */
  AP_CONV2D_PASS = 0,
  AP_CONV2D_COPIES = 1,
  AP_CONV2D_BLOCK = 2,
  AP_CONV2D_DTYPE = 3,
  AP_CONV2D_ARCH = 4,
  AP_CONV2D_AXIS_COUNT = 5,
};
enum { /* pass */
  AP_CONV2D_PASS_FPROP = 0,
  AP_CONV2D_PASS_DGRAD = 1,
  AP_CONV2D_PASS_WGRAD = 2,
  AP_CONV2D_PASS_DOUT = 3,
  AP_CONV2D_PASS_REDUCE = 4,
};
enum { /* copies */
  AP_CONV2D_COPIES_GATHER = 0,
  AP_CONV2D_COPIES_IM2COL = 1,
};
enum { /* block */
  AP_CONV2D_BLOCK_NONE = 0,
  AP_CONV2D_BLOCK_M128N128 = 1,
  AP_CONV2D_BLOCK_M128N64 = 2,
  AP_CONV2D_BLOCK_M64N128 = 3,
  AP_CONV2D_BLOCK_M64N64 = 4,
  AP_CONV2D_BLOCK_M256N128 = 5,
  AP_CONV2D_BLOCK_M256N64 = 6,
  AP_CONV2D_BLOCK_M128N256 = 7,
  AP_CONV2D_BLOCK_M64N256 = 8,
};
enum { /* dtype */
  AP_CONV2D_DTYPE_FP16 = 1,
  AP_CONV2D_DTYPE_BF16 = 2,
};
enum { /* arch */
  AP_CONV2D_ARCH_MIN = 80,
  AP_CONV2D_ARCH_MAX = 90,
};
enum { /* fields of a tile */
  AP_CONV2D_TILE_WARPS_M = 0,
  AP_CONV2D_TILE_WARPS_N = 1,
  AP_CONV2D_TILE_STAGES = 2,
  AP_CONV2D_TILE_MIN_BLOCKS = 3,
  AP_CONV2D_TILE_BLOCK_M = 4,
  AP_CONV2D_TILE_BLOCK_N = 5,
  AP_CONV2D_TILE_FIELD_COUNT = 6,
};
enum { /* limits */
  AP_CONV2D_SLAB = 64,
};
