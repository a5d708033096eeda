/* What cpu.c (blocking, threads) and the kernels (cpu_kernel.inc.h, once per instruction set)
 * share.
 *
 * A task is a row block: up to AP_CPU_ROWS query rows of one batch and one key head. The rows of
 * the query heads that share a key head are numbered together, row = position * group +
 * head_in_group, so that one pass over K and V serves all of them, which is what matters when
 * queries are short. */
#pragma once
#include <stdint.h>

enum {
  AP_CPU_ROWS = 96,        /* query rows of a row block; a multiple of every kernel's tile */
  AP_CPU_KEYS = 96,        /* keys of a key block; likewise */
  AP_CPU_HDIM_MAX = 512,   /* of head_dim and head_dim_v */
  AP_CPU_NUM_PADDING = 32, /* floats that a padded head dim may exceed the head dim by */
  /* Rows of K lie this many floats apart in scratch memory, whatever the head dim: a constant that
   * addressing modes can hold, and an odd number of cache lines, so that rows spread over the
   * cache's sets. Only the head dim's columns are touched. */
  AP_CPU_K_STRIDE = AP_CPU_HDIM_MAX + 16
};

/** One call, in the kernels' terms. Strides are in elements. */
typedef struct ap_cpu_problem {
  const void *q; /* (batch, seqlen_q, heads_kv * group, hdim) */
  const void *k; /* (batch, seqlen_k, heads_kv, hdim) */
  const void *v; /* (batch, seqlen_k, heads_kv, hdim_v) */
  void *out;     /* (batch, seqlen_q, heads_kv * group, hdim_v) */
  float *lse;    /* (batch, heads_kv * group, seqlen_q), or NULL */
  int64_t q_batch_stride, q_row_stride, q_head_stride;
  int64_t k_batch_stride, k_row_stride, k_head_stride;
  int64_t v_batch_stride, v_row_stride, v_head_stride;
  int64_t out_batch_stride, out_row_stride, out_head_stride;
  int64_t lse_batch_stride, lse_head_stride;
  int64_t batch, heads_kv, group, seqlen_q, seqlen_k;
  int64_t row_blocks; /* of one batch and key head */
  int32_t hdim, hdim_v, dtype, causal;
  float scale_log2; /* scale * log2(e) */
} ap_cpu_problem;

/** Scratch memory of one thread. Panels are as wide as two vectors of the kernel. */
typedef struct ap_cpu_scratch {
  _Alignas(64) float q[AP_CPU_ROWS * (AP_CPU_HDIM_MAX + AP_CPU_NUM_PADDING)];
  _Alignas(64) float k[AP_CPU_KEYS * AP_CPU_K_STRIDE];
  _Alignas(64) float v[AP_CPU_KEYS * (AP_CPU_HDIM_MAX + AP_CPU_NUM_PADDING)];
  _Alignas(64) float o[AP_CPU_ROWS * (AP_CPU_HDIM_MAX + AP_CPU_NUM_PADDING)];
  _Alignas(64) float s[AP_CPU_KEYS * AP_CPU_ROWS]; /* scores, then P: (key, row) */
  _Alignas(64) float row_max[AP_CPU_ROWS];         /* of scale_log2 * score */
  _Alignas(64) float row_sum[AP_CPU_ROWS];
  _Alignas(64) float row_scale[AP_CPU_ROWS]; /* what a new maximum multiplies O with */
  int64_t key_limit[AP_CPU_ROWS];            /* keys below it are visible to the row */
  /* Of the current key block: how many keys, its first ones, the row sees. */
  _Alignas(64) int32_t visible[AP_CPU_ROWS];
} ap_cpu_scratch;

/** Writes the rows [row_begin, row_begin + rows) of a batch and key head, where 1 <= rows <=
 * AP_CPU_ROWS. */
typedef void ap_cpu_row_block(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t batch,
                              int64_t head_kv, int64_t row_begin, int rows);

ap_cpu_row_block ap_cpu_row_block_plain;
#if defined(__x86_64__)
ap_cpu_row_block ap_cpu_row_block_avx2;
ap_cpu_row_block ap_cpu_row_block_avx512;
#endif
