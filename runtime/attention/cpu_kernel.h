/* What cpu.c (blocking, threads) and the kernels (cpu_kernel.inc.h, once per instruction set)
 * share.
 *
 * A task is a row block: up to AP_CPU_ROWS query rows of one batch and one key head. The rows of
 * the query heads that share a key head are numbered together, row = position * group +
 * head_in_group, so that one pass over K and V serves all of them, which is what matters when
 * queries are short. */
#pragma once
#include <stdint.h>

#include "attention/dropout.h"
#include "attention/rows.h"

enum {
  AP_CPU_ROWS = 96,      /* query rows of a row block; a multiple of every kernel's tile */
  AP_CPU_KEYS = 96,      /* keys of a key block; likewise, and of 16, as dropout's decisions are */
  AP_CPU_HDIM_MAX = 512, /* of head_dim and head_dim_v */
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
  int64_t lse_batch_stride, lse_head_stride, lse_row_stride;
  int64_t batch, heads_kv, group, seqlen_q, seqlen_k;
  int64_t row_blocks; /* of one batch and key head */
  int32_t hdim, hdim_v, dtype;
  float q_scale; /* what Q is multiplied by: scale * log2(e), or scale / softcap */
  ap_mask mask;
  /* What is done to scores, in units of log2, and to probabilities; NULL or 0: nothing. */
  float softcap_log2;        /* softcap * log2(e) */
  const void *bias;          /* (batch, heads_kv * group, seqlen_q, seqlen_k) by its strides */
  const float *alibi_slopes; /* (batch, heads_kv * group) by its strides */
  const void *sinks;         /* (heads_kv * group) by its stride */
  int64_t bias_batch_stride, bias_head_stride, bias_row_stride, bias_key_stride;
  int64_t alibi_batch_stride, alibi_head_stride;
  int64_t sinks_stride;
  int32_t bias_dtype, sinks_dtype;
  ap_dropout dropout;
  /* Where K and V lie in pages: key j is row (first_key + j) % page_size of a page that the table
   * names; NULL: row j of the batch. The number of a page is within num_pages, or the last one's. */
  const int32_t *page_table, *page_table_v; /* the sequence's row, for K and for V */
  int64_t first_key, page_size, num_pages;
  int32_t lse_log2, lse_empty_pos_inf; /* as in attnpress_ragged */
  /* 1: nothing that is done to a row depends on the others of its row block. */
  int32_t batch_invariant;
} ap_cpu_problem;

/** Scratch memory of one thread. Panels are as wide as two vectors of the kernel. */
typedef struct ap_cpu_scratch {
  _Alignas(64) float q[AP_CPU_ROWS * (AP_CPU_HDIM_MAX + AP_CPU_NUM_PADDING)];
  _Alignas(64) float k[AP_CPU_KEYS * AP_CPU_K_STRIDE];
  _Alignas(64) float v[AP_CPU_KEYS * (AP_CPU_HDIM_MAX + AP_CPU_NUM_PADDING)];
  _Alignas(64) float o[AP_CPU_ROWS * (AP_CPU_HDIM_MAX + AP_CPU_NUM_PADDING)];
  _Alignas(64) float s[AP_CPU_KEYS * AP_CPU_ROWS]; /* scores, then P: (key, row) */
  _Alignas(64) float row_max[AP_CPU_ROWS];         /* of the scores, in units of log2 */
  _Alignas(64) float row_sum[AP_CPU_ROWS];
  _Alignas(64) float row_scale[AP_CPU_ROWS]; /* what a new maximum multiplies O with */
  ap_keys seen[AP_CPU_ROWS];                 /* the keys that the row sees */
  /* Of the current key block, whose keys are counted from 0: the row sees first to end - 1. Of two
   * rows, neither of the later one comes before that of the other; none are first = end. */
  _Alignas(64) int32_t first[AP_CPU_ROWS];
  _Alignas(64) int32_t end[AP_CPU_ROWS];
  int64_t bias_at[AP_CPU_ROWS]; /* element of the bias of key 0 */
  /* ALiBi: the slope in units of log2; the key that the row's distances count from, and how far it
   * is behind the current key block's first. */
  _Alignas(64) float slope[AP_CPU_ROWS];
  int64_t center[AP_CPU_ROWS];
  _Alignas(64) float distance[AP_CPU_ROWS];
  /* Dropout: the row's words, from the first on that its half of 16 rows takes, which half that is
   * (all bits, or none), and its head's words. */
  _Alignas(64) uint32_t word[4][AP_CPU_ROWS];
  _Alignas(64) uint32_t half[AP_CPU_ROWS];
  _Alignas(64) uint32_t head[4][AP_CPU_ROWS];
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
