/* What a call of attnpress_append() has to leave in a cache and in q, in float64 on the host; calls
 * with random tokens. `attnpress run append`, the emulator and the tests use them. Slow and simple.
 *
 * What is not rotated, and what is not written, must hold its bits; rotated elements may be off by
 * what rounding them to their dtype costs, and by a few roundings of fp32. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/append.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

enum {
  APPEND_DENSE,
  APPEND_BATCH_IDX,
  APPEND_PAGES,
  APPEND_SLOTS,
  APPEND_PAGES_IDX,  /* rows of the table by kv_batch_idx */
  APPEND_PAGES_FLAT, /* a table of V's own, both by page_indptr */
  APPEND_PLACES
};
enum { APPEND_PACKED, APPEND_HEADS_OUTSIDE, APPEND_ODD, APPEND_LAYOUTS };

typedef struct append_shape {
  int64_t batch, new_tokens;    /* ragged: tokens of a sequence on average */
  int64_t heads_kv, heads_q;    /* 0: k_new and v_new, or q, are not there */
  int64_t head_dim, head_dim_v; /* head_dim_v 0: no v_new */
  int64_t cache_rows;           /* of an entry: keys of a sequence, or of a page */
  int32_t dtype, places;        /* APPEND_DENSE ... */
  int32_t rotary_dim, interleaved;
  int32_t rotary_own;    /* 1: cos and sin are of the tensors' dtype, and side by side */
  int32_t own_positions; /* 1: a position for each token */
  int32_t own_first;     /* 1: a position for the first token of each sequence */
  int32_t q_at_first;    /* 1: queries stand at their sequence's first token */
  int32_t ragged, q_out, layout;
  int32_t far; /* 1: entries of the cache are more than 2^31 elements apart */
  int32_t bad; /* 1: some index arrays hold what is out of range */
} append_shape;

enum {
  APPEND_K_NEW,
  APPEND_V_NEW,
  APPEND_K_CACHE,
  APPEND_V_CACHE,
  APPEND_Q,
  APPEND_Q_OUT,
  APPEND_CU_SEQLENS,
  APPEND_SEQUSED,
  APPEND_KV_BATCH_IDX,
  APPEND_PAGE_TABLE,
  APPEND_SLOT_MAPPING,
  APPEND_POSITIONS,
  APPEND_COS,
  APPEND_SIN,
  APPEND_PAGE_TABLE_V,
  APPEND_PAGE_INDPTR,
  APPEND_FIRST_POSITIONS,
  APPEND_BUFFERS
};

/** A call's arguments, and the bytes of its buffers: 0 where there is none. */
typedef struct append_problem {
  attnpress_append_args args; /* its rotary is the struct below, or NULL */
  attnpress_rotary rotary;
  int64_t bytes[APPEND_BUFFERS];
} append_problem;

/** Everything but addresses. */
void append_lay_out(append_problem *p, const append_shape *s);
/** Addresses, in buffers of p->bytes bytes. */
void append_point(append_problem *p, const append_shape *s, void *const buffer[APPEND_BUFFERS]);
/** Random tokens, tables and caches, in host memory that `p` points to. No two tokens have one
 * place. */
void append_fill(append_problem *p, const append_shape *s, uint64_t seed);

/* ---- Results --------------------------------------------------------------------------------- */

/** The worst of what was checked so far; zero-fill it first. */
typedef struct append_error {
  double ratio;            /* of |value - expected| to the tolerance: holds where it is at most 1 */
  int64_t elements, at[4]; /* at: of the tensor */
  const char *what;        /* "k_cache", "v_cache" or "q" */
  double value, expected;  /* of the worst element */
} append_error;

/** A call that was made. before: the same call in other host memory, where everything is as it was
 * before. */
typedef struct append_check {
  const attnpress_append_args *args, *before;
  int64_t *owner; /* (2, entries * rows of the cache): the token whose K, and whose V, is written
                     there, or -1 */
} append_check;

/** Finds out which token goes where. -1: no memory. */
int append_check_open(append_check *c);
void append_check_close(append_check *c);
/** Rows of the check: first those of the cache, then q's tokens. */
int64_t append_check_rows(const append_check *c);
void append_check_row(const append_check *c, int64_t row, append_error *error);
