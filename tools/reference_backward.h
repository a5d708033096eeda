/* The gradients of attention in float64 on the host, and the criterion that results are held to; see
 * reference.h for that of the forward pass.
 *
 *     max |x - ref| <= 2 max |low - ref| + 1e-5    for x each of dq, dk, dv
 *
 * and 3 instead of 2 with a softcap. low is the plain algorithm in the tensors' precision: it rounds
 * S, P, dP, dS and the gradients to the dtype and accumulates in fp32; under dropout it takes delta
 * from the rounded out. */
#pragma once
#include "reference.h"

/** The largest errors of one gradient; NaN counts as infinite. */
typedef struct reference_gradient {
  const char *name;  /* "dq" */
  double error, low; /* max |x - ref|, max |low - ref| */
  int64_t elements;
  int64_t at[4];          /* batch, row, head, column of the worst element */
  double value, expected; /* that element */
  int32_t capped;         /* 1: by a softcap */
} reference_gradient;

enum { REFERENCE_DQ, REFERENCE_DK, REFERENCE_DV, REFERENCE_GRADIENTS };

/** Writes out and lse, which a backward call reads, as the forward pass would: rounded from float64.
 * 0, or -1 where memory runs out. */
int reference_fill_forward(const attnpress_backward_args *args);
/** The same of one batch. */
int reference_fill_forward_batch(const attnpress_backward_args *args, int64_t batch);

/** Compares dq, dk and dv. `before`: what they held where the call was to accumulate, contiguous
 * floats of each; NULL: nothing. Errors add up: zero-fill them first. 0, or -1 where memory runs out.
 */
int reference_check_backward(const attnpress_backward_args *args,
                             const float *const before[REFERENCE_GRADIENTS],
                             reference_gradient errors[REFERENCE_GRADIENTS]);

/** The same of one key head, and of the query heads that share it. */
int reference_check_backward_head(const attnpress_backward_args *args,
                                  const float *const before[REFERENCE_GRADIENTS], int64_t batch,
                                  int64_t kv_head, reference_gradient errors[REFERENCE_GRADIENTS]);

/** Compares the gradient by the sink of one query head, a sum over batch and rows, with `before` what
 * it held where the call was to accumulate. It is held to what the rounding of out and lse can make
 * of it: `low` is then half of what is allowed. */
int reference_check_dsinks(const attnpress_backward_args *args, int64_t head, float before,
                           reference_gradient *error);

/** What the gradient by the sink of a head is to be, summed up batch by batch: begin with what it held
 * where the call was to accumulate, and its size, else with zeros. */
typedef struct reference_dsink {
  double expected, size;
} reference_dsink;

/** Adds one batch. 0, or -1 where memory runs out. */
int reference_add_dsink(const attnpress_backward_args *args, int64_t batch, int64_t head,
                        reference_dsink *sum);
void reference_compare_dsink(const attnpress_backward_args *args, int64_t head,
                             const reference_dsink *sum, reference_gradient *error);

/** What one batch and head of the gradient by the bias is to be, summed up over what it has one of. */
typedef struct reference_dbias {
  int64_t rows, keys; /* of the gradient */
  double *sum;        /* (rows, keys) */
  float *low;         /* the same of the plain algorithm */
} reference_dbias;

/** Begins with zeros. 0, or -1 where memory runs out. */
int reference_open_dbias(reference_dbias *sum, const attnpress_dbias *dbias);
void reference_close_dbias(reference_dbias *sum);
/** Adds one batch and query head of a call. 0, or -1 where memory runs out. */
int reference_add_dbias(const attnpress_backward_args *args, int64_t batch, int64_t head,
                        reference_dbias *sum);
/** Compares; batch and head are those of the gradient, `before` as below. */
void reference_compare_dbias(const attnpress_backward_args *args, int64_t batch, int64_t head,
                             const float *before, const reference_dbias *sum,
                             reference_gradient *error);

/** Compares one batch and head of the gradient by the bias, as dq is. `before`: what it held where the
 * call was to accumulate, contiguous floats of all of it; NULL: nothing. */
int reference_check_dbias(const attnpress_backward_args *args, int64_t batch, int64_t head,
                          const float *before, reference_gradient *error);

/** What the gradients of a snippet's buffers are to be, summed up batch by batch; of each buffer arrays
 * of its elements without gaps, NULL where its gradient is not wanted. */
typedef struct reference_dbuffers {
  double *sum[8], *size[8]; /* size: of what rounding makes of it */
  float *low[8];            /* of the plain algorithm */
} reference_dbuffers;

/** Begins with zeros. 0, or -1 where memory runs out. */
int reference_open_dbuffers(reference_dbuffers *sum, const attnpress_backward_args *args);
void reference_close_dbuffers(reference_dbuffers *sum);
/** Adds one batch and query head of a call. 0, or -1 where memory runs out. */
int reference_add_dbuffers(const attnpress_backward_args *args, int64_t batch, int64_t head,
                           reference_dbuffers *sum);
/** Compares. They are held to twice the error of the plain algorithm, three times with a softcap, and
 * to what the rounding of out and lse can make of an element. `before`: what each element held. at: of
 * the buffer's number, and of the element without gaps. */
void reference_compare_dbuffers(const attnpress_backward_args *args, float before,
                                const reference_dbuffers *sum, reference_gradient *error);
/** All of these of a dense call. 0, or -1 where memory runs out. */
int reference_check_dbuffers(const attnpress_backward_args *args, float before,
                             reference_gradient *error);

/** What error->error may be at most. */
double reference_gradient_bound(const reference_gradient *error);
/** The first gradient that is off, or NULL. */
const reference_gradient *
reference_worst_gradient(const reference_gradient errors[REFERENCE_GRADIENTS]);
