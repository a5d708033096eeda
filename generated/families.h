/* Written by `python -m generator` from generator/families.toml and each family.toml; do not edit. */
/* clang-format off */
#pragma once

/* The families, in their order: X(name, NAME). */
#define AP_FAMILIES(X) X(attention, ATTENTION)

enum { AP_FAMILY_ATTENTION = 0, AP_FAMILY_COUNT = 1 };

/* ---- attention ---- */

/* flash_<fwd|fwd_combine>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal][_decode]_sm<80|86|90> */
enum { /* axes */
  AP_ATTENTION_PASS = 0,
  AP_ATTENTION_SPLIT = 1,
  AP_ATTENTION_HDIM = 2,
  AP_ATTENTION_HDIM_V = 3,
  AP_ATTENTION_DTYPE = 4,
  AP_ATTENTION_MASK = 5,
  AP_ATTENTION_DECODE = 6,
  AP_ATTENTION_ARCH = 7,
  AP_ATTENTION_AXIS_COUNT = 8,
};
enum { /* pass */
  AP_ATTENTION_PASS_FWD = 0,
  AP_ATTENTION_PASS_FWD_COMBINE = 1,
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
  AP_ATTENTION_TILE_FIELD_COUNT = 13,
};
enum { /* limits */
  AP_ATTENTION_DECODE_ROWS = 16,
  AP_ATTENTION_WARPGROUP_ROWS = 64,
  AP_ATTENTION_PRODUCER_THREADS = 128,
  AP_ATTENTION_COMBINE_ARCH = 80,
  AP_ATTENTION_SM90_HDIM_MAX = 256,
  AP_ATTENTION_SM90_DECODE_MAX = 0,
};
