/* What cpu_backward.c (blocks, threads) and its kernels (cpu_backward_kernel.inc.h, once per
 * instruction set) share. */
#pragma once
#include <stdint.h>

#include "attention/dropout.h"
#include "attention/rows.h"

enum {
  AP_CPU_BACKWARD_ROWS = 64,         /* query rows of a row block */
  AP_CPU_BACKWARD_KEYS = 64,         /* keys of a key block; a multiple of every kernel's panel */
  AP_CPU_BACKWARD_COLUMNS = 512 + 32 /* of a padded head dim, at most */
};

/** A tensor (batch, row, head, column): its strides in elements, 0 for dimensions of 1. */
typedef struct ap_cpu_tensor {
  void *data;
  int64_t batch_stride, row_stride, head_stride;
} ap_cpu_tensor;

/** One call, in the kernels' terms. */
typedef struct ap_cpu_backward_problem ap_cpu_backward_problem;
struct ap_cpu_backward_problem {
  ap_cpu_tensor q, k, v, out, dout, dq, dk, dv;
  const float *lse, *dlse; /* dlse: or NULL */
  int64_t lse_batch_stride, lse_head_stride, lse_row_stride;
  int64_t dlse_batch_stride, dlse_head_stride, dlse_row_stride;
  int32_t lse_log2; /* 1: lse is to the base 2 */
  int64_t batch, heads_q, heads_kv, seqlen_q, seqlen_k;
  int32_t hdim, hdim_v, dtype, accumulate;
  float scale, scale_log2; /* scale_log2: what makes scores exponents of 2 */
  ap_mask mask;
  /* What is done to scores and to probabilities; NULL or 0: nothing. */
  float softcap_scale;       /* scale / softcap; scale_log2 is then log2(e) * softcap */
  const void *bias;          /* (batch, heads_q, seqlen_q, seqlen_k) by its strides */
  const float *alibi_slopes; /* (batch, heads_q) by its strides */
  const void *sinks;         /* (heads_q) by its stride */
  float *dsinks;             /* (heads_q) */
  void *dbias; /* (batch or 1, heads_q or 1, dbias_rows or 1, dbias_keys) by its strides */
  int64_t dbias_rows,
      dbias_keys; /* seqlen_q and seqlen_k, or more where sequences have their own */
  int64_t bias_stride[4], dbias_stride[4];
  int32_t dbias_one[3]; /* 1: it has one batch, head or row, a sum */
  int64_t alibi_batch_stride, alibi_head_stride;
  int64_t sinks_stride;
  int32_t bias_dtype, sinks_dtype, dbias_dtype;
  ap_dropout dropout;
  /* Where sequences have lengths of their own, the problem of sequence b alone; else NULL. Of the
   * gradient by the bias, which may be a sum over them. */
  ap_cpu_backward_problem (*sequence)(const void *job, int64_t b);
  const void *job;
};

/** Scratch memory of one thread. Rows of a head dim's columns are padded to whole panels. */
typedef struct ap_cpu_backward_scratch {
  _Alignas(64) float q[AP_CPU_BACKWARD_ROWS * AP_CPU_BACKWARD_COLUMNS];
  _Alignas(64) float dout[AP_CPU_BACKWARD_ROWS * AP_CPU_BACKWARD_COLUMNS];
  _Alignas(64) float k[AP_CPU_BACKWARD_KEYS * AP_CPU_BACKWARD_COLUMNS];
  _Alignas(64) float k_turned[AP_CPU_BACKWARD_COLUMNS * AP_CPU_BACKWARD_KEYS]; /* (column, key) */
  _Alignas(64) float v_turned[AP_CPU_BACKWARD_COLUMNS * AP_CPU_BACKWARD_KEYS];
  _Alignas(64) float sum[AP_CPU_BACKWARD_ROWS * AP_CPU_BACKWARD_COLUMNS];   /* dK or dQ */
  _Alignas(64) float sum_v[AP_CPU_BACKWARD_KEYS * AP_CPU_BACKWARD_COLUMNS]; /* dV */
  _Alignas(64) float p[AP_CPU_BACKWARD_ROWS * AP_CPU_BACKWARD_KEYS];  /* S, then P: (row, key) */
  _Alignas(64) float ds[AP_CPU_BACKWARD_ROWS * AP_CPU_BACKWARD_KEYS]; /* dP, then dS */
  float lse_log2[AP_CPU_BACKWARD_ROWS], delta[AP_CPU_BACKWARD_ROWS];
  /* Of a row and the keys of a block: bias and ALiBi in units of log2, and what dropout makes of
   * probabilities, 0 or 1 / (1 - probability). */
  _Alignas(64) float added[AP_CPU_BACKWARD_KEYS], kept[AP_CPU_BACKWARD_KEYS];
  /* Dropout's words of the head, and of four pairs for each 16 keys. */
  ap_dropout_words head_words, key_words[AP_CPU_BACKWARD_KEYS / 4];
  double dbias[AP_CPU_BACKWARD_ROWS * AP_CPU_BACKWARD_KEYS]; /* a tile of it */
} ap_cpu_backward_scratch;

/** Writes dK and dV of the key block that begins at `begin`, or dQ of the row block, or the gradient
 * by the sink of a query head, or that by the bias: of 64 rows, or of the one that it has, and all keys;
 * batch and head are then of that gradient. `head` is a key head or a query head. */
typedef void ap_cpu_backward_block(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                                   int64_t batch, int64_t head, int64_t begin);

ap_cpu_backward_block ap_cpu_backward_keys_plain, ap_cpu_backward_rows_plain;
ap_cpu_backward_block ap_cpu_backward_sink_plain, ap_cpu_backward_bias_plain;
#if defined(__x86_64__)
ap_cpu_backward_block ap_cpu_backward_keys_avx2, ap_cpu_backward_rows_avx2;
ap_cpu_backward_block ap_cpu_backward_keys_avx512, ap_cpu_backward_rows_avx512;
ap_cpu_backward_block ap_cpu_backward_sink_avx2, ap_cpu_backward_sink_avx512;
ap_cpu_backward_block ap_cpu_backward_bias_avx2, ap_cpu_backward_bias_avx512;
#endif
