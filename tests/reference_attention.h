/* What tests/reference_attention.cu and the tests that launch it share. */
#pragma once

enum {
  REFERENCE_THREADS = 512, /* of every kernel's block */
  /* slots of reference_args.worst: the largest value in the upper 32 bits, as a float, and where it
     is */
  REFERENCE_WORST_OUT = 0, /* |out - ref|; sample * hdim_v + column */
  REFERENCE_WORST_LOW = 1, /* |low - ref| */
  REFERENCE_WORST_LSE = 2, /* |lse - ref| / max(1, |ref|); sample */
  REFERENCE_WORSTS = 3
};

typedef long long reference_int64;
typedef unsigned long long reference_uint64;

/* What is done to scores and probabilities, in natural units; a pointer that is null, or a softcap or
 * threshold of 0: not done. Strides are in elements. */
typedef struct reference_scores_args {
  const void *bias; /* (batch, heads, seqlen_q, seqlen_k) */
  const float *slopes;
  const void *sinks;
  reference_int64 bias_stride[4], slopes_stride[2], sinks_stride;
  double softcap;
  float dropout_scale;
  int window, left, right, chunk, center; /* 1: a window; keys before and behind; as ap_mask */
  unsigned dropout_key[2], dropout_offset, dropout_threshold; /* as ap_dropout */
  int bias_dtype, sinks_dtype;
} reference_scores_args;

/* Strides are in elements; dtype 1 is fp16, 2 is bf16, 3 fp32. */
typedef struct reference_args {
  const unsigned short *q;   /* (batch, seqlen_q, heads, hdim) */
  const unsigned short *k;   /* (batch, seqlen_k, heads / group, hdim) */
  const unsigned short *v;   /* (batch, seqlen_k, heads / group, hdim_v) */
  const unsigned short *out; /* (batch, seqlen_q, heads, hdim_v) */
  const float *lse;          /* (batch, heads, seqlen_q), or null */
  reference_int64 q_stride[3], k_stride[3], v_stride[3], out_stride[3]; /* batch, row, head */
  reference_int64 lse_stride[2];                                        /* batch, head */
  double *scores;          /* (samples, seqlen_k): scores, then exp(score - max) */
  float *low_scores;       /* (samples, seqlen_k) */
  double *ref;             /* (samples, hdim_v) */
  float *low;              /* (samples, hdim_v) */
  double *ref_lse;         /* (samples) */
  reference_uint64 *worst; /* (REFERENCE_WORSTS), zeroed before */
  double scale;
  reference_uint64 seed;
  reference_int64 samples, rows; /* rows = batch * heads * seqlen_q; samples <= rows */
  int heads, group, seqlen_q, seqlen_k, hdim, hdim_v, dtype, causal;
  reference_scores_args modify;
} reference_args;

/* splitmix64: 64 uniform bits of a counter */
#if defined(__CUDACC__)
__device__
#endif
    static inline reference_uint64
    reference_mix(reference_uint64 x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/* The row, ((batch * heads) + head) * seqlen_q + position, that is sample number `sample`: every
 * row where there are as many samples; else the first, the last, and rows between at random. */
#if defined(__CUDACC__)
__device__
#endif
    static inline reference_int64
    reference_sampled_row(reference_int64 sample, reference_int64 samples, reference_int64 rows,
                          reference_uint64 seed) {
  if (samples == rows || sample == 0)
    return sample;
  if (sample == samples - 1)
    return rows - 1;
  return (reference_int64)(reference_mix(seed + (reference_uint64)sample) % (reference_uint64)rows);
}
