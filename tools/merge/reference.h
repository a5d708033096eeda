/* Merged attention in float64 on the host, and what results are held to; calls with random parts.
 * `attnpress run merge`, the emulator and the tests use them. Slow and simple.
 *
 * Each element of out may be off by what rounding it to its dtype costs, and by a few roundings of
 * fp32 in weights and sum; lse by 1e-5 of its size. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/merge.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

enum { MERGE_PACKED, MERGE_HEADS_OUTSIDE, MERGE_ODD, MERGE_LAYOUTS };

typedef struct merge_shape {
  int64_t batch, seqlen, heads, head_dim;
  int32_t num_parts, dtype, out_dtype, lse_log2;
  int32_t layout;   /* MERGE_...; odd: rows begin at any element */
  int32_t far;      /* 1: entries of the batch are more than 2^31 elements apart */
  int32_t in_place; /* 1: out and lse lie over the last part's */
  int32_t no_lse;   /* 1: lse is not written */
} merge_shape;

/* Of all parts, one behind the other; and of the result. */
enum { MERGE_OUTS, MERGE_LSES, MERGE_OUT, MERGE_LSE, MERGE_BUFFERS };

/** A call's arguments, and the bytes of its buffers. */
typedef struct merge_problem {
  attnpress_merge_part part[ATTNPRESS_MERGE_PARTS_MAX];
  attnpress_merge_args args; /* its parts are the array above */
  int64_t bytes[MERGE_BUFFERS];
  int64_t out_bytes, lse_bytes; /* of a part */
} merge_problem;

/** Everything but addresses. */
void merge_lay_out(merge_problem *p, const merge_shape *s);
/** Addresses, in buffers of p->bytes bytes. */
void merge_point(merge_problem *p, const merge_shape *s, void *const buffer[MERGE_BUFFERS]);
/** Random parts, in host memory that `p` points to: some without keys, whose rows are NaN, and rows
 * without keys in any part. */
void merge_fill(merge_problem *p, uint64_t seed);

/* ---- Results --------------------------------------------------------------------------------- */

/** The worst of what was checked so far; zero-fill it first. */
typedef struct merge_error {
  double ratio; /* of |out - ref| to the tolerance: holds where it is at most 1 */
  int64_t elements, batch, row, head, column;
  const char *what;       /* "out" or "lse" */
  double value, expected; /* of the worst element */
} merge_error;

/** Row number `index` of batch * seqlen * heads. args: of host memory; parts: as they were before
 * the call, which differs where it wrote over one. */
void merge_check_row(const attnpress_merge_args *args, const attnpress_merge_part *parts,
                     int64_t index, merge_error *error);
/** Every row. */
void merge_check(const attnpress_merge_args *args, const attnpress_merge_part *parts,
                 merge_error *error);
