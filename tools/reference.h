/* Attention in float64 on the host, and the criterion that results are held to; `attnpress run` and
 * the tests use it. Slow and simple.
 *
 *     max |out - ref| <= 2 max |low - ref| + 1e-5,    |lse - ref| <= 1e-5 max(1, |ref|)
 *
 * with a softcap, whose tanh may be approximate, 3 instead of 2 and 2^-10 instead of 1e-5.
 *
 * ref is attention in float64; low is the plain algorithm in the tensors' precision: it rounds
 * scores, after each step that changes them, P and output to the dtype and accumulates in fp32. The
 * maxima say something once they are taken over a few thousand elements: REFERENCE_MIN_ELEMENTS. A
 * row reads neither K nor V of keys that it does not see, nor V where the bias is -inf. A score_mod is
 * interpreted (snippet.h). */
#pragma once
#include <stdint.h>

#include "attention/dropout.h"
#include "attnpress/attnpress.h"
#include "snippet.h"

enum { REFERENCE_MIN_ELEMENTS = 4096 };

/** One call's tensors in host memory, with room for the rows' intermediate values. */
typedef struct reference {
  const attnpress_forward_args *args; /* the caller's, kept alive by it, its groups in full */
  ap_dropout dropout;
  int64_t batch, head_kv; /* whose K and V are in k and v; -1: none yet */
  float *k, *v;           /* (seqlen_k, hdim), (seqlen_k, hdim_v) */
  float *q, *low;         /* (hdim), (hdim_v): of the last row */
  double *out;            /* (hdim_v): of the last row */
  double *scores;         /* (seqlen_k), -inf for keys that the row does not see */
  float *low_scores;      /* (seqlen_k), likewise, or numerators of P */
  double lse;             /* of the last row */
  snippet *mod;           /* of a score_mod; NULL: none */
  char why[256];          /* what is wrong, where reference_init() fails */
} reference;

/** 0, or -1 where memory runs out or a score_mod is more than snippet.h knows (nothing to free then).
 * Reads the seed of dropout. */
int reference_init(reference *r, const attnpress_forward_args *args);
void reference_free(reference *r);

/** Computes r->out, r->low and r->lse of one query row; `head` is a query head. */
void reference_row(reference *r, int64_t batch, int64_t row, int64_t head);

/** 1 where query `row` sees key `key`: attnpress.h's words on masks, key by key. The bias has no part
 * in it. */
int reference_sees(const attnpress_forward_args *args, int64_t row, int64_t key);

/** A query row. */
typedef struct reference_query {
  int64_t batch, row, head;
} reference_query;

/** Where a snippet's text stands. */
snippet_place reference_place(const attnpress_forward_args *args, reference_query q, int64_t key);
/** What is added to the score of a key, in natural units; 0 where there is none. */
double reference_bias(const attnpress_forward_args *args, reference_query q, int64_t key);
double reference_alibi(const attnpress_forward_args *args, reference_query q, int64_t key);
/** A head's sink; -inf where there is none. */
double reference_sink(const attnpress_forward_args *args, reference_query q);

/** Largest errors of the rows checked so far; zero-fill it first. NaN counts as infinite. */
typedef struct reference_error {
  double out, low;        /* max |out - ref|, max |low - ref| */
  double lse;             /* max |lse - ref| / max(1, |ref|) */
  int64_t elements;       /* of out */
  int32_t capped;         /* 1: by a softcap */
  int64_t at[4];          /* batch, row, head, column of the worst element of out */
  double value, expected; /* that element */
  int64_t lse_at[3];      /* batch, row, head of the worst lse */
  double lse_value, lse_expected;
} reference_error;

/** Compares a row of args->out and, where it is not NULL, of args->lse. */
void reference_check_row(reference *r, int64_t batch, int64_t row, int64_t head,
                         reference_error *error);
/** Every row. */
void reference_check(reference *r, reference_error *error);

/** What error->out may be at most. */
double reference_bound(const reference_error *error);
/** What error->lse may be at most. */
double reference_lse_bound(const reference_error *error);
/** Whether out and lse are within their bounds. */
int reference_holds(const reference_error *error);

/** An element as a float, and a float as an element, rounded to nearest even. */
float reference_load(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head,
                     int64_t column);
void reference_store(const attnpress_tensor *t, int64_t batch, int64_t row, int64_t head,
                     int64_t column, float value);
/** A float rounded to a dtype. */
float reference_round(float value, int32_t dtype);
/** Bytes of an element. */
int reference_element_bytes(int32_t dtype);
/** Elements from the first to the last of a tensor, both included; 0 where an extent is 0. */
int64_t reference_span(const attnpress_tensor *t);

/** Fills a tensor with (very nearly) normally distributed values, mean 0 and variance 1, a function
 * of seed and logical index alone, so that two layouts of one shape get the same tensor. */
void reference_fill_normal(const attnpress_tensor *t, uint64_t seed);
