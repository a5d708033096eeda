/* The arguments of kernels that end with a caller's snippet, behind those that they have without
 * it. Host and device compile this same text. */
#pragma once

#include "attnpress/args/ragged.h"

/* What a snippet may use (attnpress_score_mod). A kernel whose name has one is given this behind
 * its own arguments. */
enum { ATTNPRESS_MOD_SCALARS_MAX = 16, ATTNPRESS_MOD_BUFFERS_MAX = 8, ATTNPRESS_MOD_MAP_BEGIN = 4 };

/* Key blocks of which a word of the map has bits, the last ones that are asked for; and the words, at
 * most, of a row block that has bits at all. */
enum { ATTNPRESS_MOD_BITS_BLOCKS = 2, ATTNPRESS_MOD_BITS_WORDS = 16 };

typedef struct attnpress_mod_buffer {
  const void *data;
  int64_t stride[4]; /* in elements */
  int32_t extent[4]; /* positive; indices are clamped to it */
} attnpress_mod_buffer;

typedef struct attnpress_mod_args {
  /* Two bits a key block of each row block of the forward kernel, 16 to a word, key block n in bits
   * 2 * (n % 16): 0 the mask leaves none of its scores, 1 some, 2 all of them, 3 some, and
   * `bits` says which. (batch or 1, tile heads or 1, row_blocks, map_words); written by the map
   * kernel, where there is a mask. It begins ATTNPRESS_MOD_MAP_BEGIN words behind the ticket. */
  uint32_t *map;
  int64_t map_batch_stride, map_head_stride;  /* in words; 0: one serves all */
  int32_t map_words;                          /* of a row block: ceil(key blocks / 16) */
  float natural_per_unit;                     /* what a score is multiplied by before the snippet */
  uint32_t scalar[ATTNPRESS_MOD_SCALARS_MAX]; /* the bits of a float or an int */
  attnpress_mod_buffer buffer[ATTNPRESS_MOD_BUFFERS_MAX];
  uint32_t
      *ticket; /* units of work that sm90's thread blocks took beyond their first; the map kernel
                       sets it to 0 */
  /* A bit a score of the key blocks that the map has as 3, for kernels of sm90; NULL: of none. (batch
   * or 1, row_blocks, map_words, ATTNPRESS_MOD_BITS_BLOCKS from the last one on, threads of the
   * consumers, rows of a thread, words of 16 tiles of 8 keys): two bits a tile, the lower first. */
  uint32_t *bits;
} attnpress_mod_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_mod_args, scalar, 32)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_mod_args) == 560, "layout of attnpress_mod_args");

typedef struct attnpress_fwd_mod_args {
  attnpress_fwd_args fwd; /* scores leave a snippet's score in natural units: scale_log2 is then
                             log2(e) */
  attnpress_mod_args mod;
} attnpress_fwd_mod_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_mod_args, mod, 368)

/* Of sequences of their own lengths: the snippet's mask is asked about every pair, and there is no
 * map. */
typedef struct attnpress_fwd_ragged_mod_args {
  attnpress_fwd_ragged_args batch; /* as in attnpress_fwd_mod_args */
  attnpress_mod_args mod;
} attnpress_fwd_ragged_mod_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_ragged_mod_args, mod, 528)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_ragged_mod_args) == 1088,
                        "layout of attnpress_fwd_ragged_mod_args");

/* Of bwd, bwd_dkv and bwd_dq of sm80: they ask the mask about every pair, and read no map. */
typedef struct attnpress_bwd_mod_args {
  attnpress_bwd_args bwd; /* as in attnpress_fwd_mod_args */
  attnpress_mod_args mod;
} attnpress_bwd_mod_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_mod_args, mod, 584)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_mod_args) == 1144, "layout of attnpress_bwd_mod_args");

typedef struct attnpress_bwd_ragged_mod_args {
  attnpress_bwd_ragged_args batch; /* as in attnpress_fwd_mod_args */
  attnpress_mod_args mod;
} attnpress_bwd_ragged_mod_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_ragged_mod_args, mod, 776)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_ragged_mod_args) == 1336,
                        "layout of attnpress_bwd_ragged_mod_args");

/* Where the gradient of a snippet's buffer is added up, by the buffer's indices. */
typedef struct attnpress_mod_gradient {
  float *data; /* not read where it is not wanted */
  int64_t stride[4];
} attnpress_mod_gradient;

typedef struct attnpress_mod_gradients {
  attnpress_mod_gradient buffer[ATTNPRESS_MOD_BUFFERS_MAX];
} attnpress_mod_gradients;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_mod_gradients) == 320,
                        "layout of attnpress_mod_gradients");

/* Of bwd and bwd_dkv where gradients of buffers are wanted; it begins with what they have without. */
typedef struct attnpress_bwd_mod_grad_args {
  attnpress_bwd_args bwd;
  attnpress_mod_args mod;
  attnpress_mod_gradients gradients;
} attnpress_bwd_mod_grad_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_mod_grad_args, gradients, sizeof(attnpress_bwd_mod_args))
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_mod_grad_args) == 1464,
                        "layout of attnpress_bwd_mod_grad_args");

typedef struct attnpress_bwd_ragged_mod_grad_args {
  attnpress_bwd_ragged_args batch;
  attnpress_mod_args mod;
  attnpress_mod_gradients gradients;
} attnpress_bwd_ragged_mod_grad_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_bwd_ragged_mod_grad_args, gradients,
                        sizeof(attnpress_bwd_ragged_mod_args))
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_bwd_ragged_mod_grad_args) == 1656,
                        "layout of attnpress_bwd_ragged_mod_grad_args");

typedef struct attnpress_fwd_sm90_mod_args {
  attnpress_fwd_sm90_args sm90;
  attnpress_mod_args mod;
  int64_t reserved[2];
} attnpress_fwd_sm90_mod_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_sm90_mod_args, mod, 896)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_sm90_mod_args) == 1472,
                        "layout of attnpress_fwd_sm90_mod_args");

typedef struct attnpress_fwd_sm90_ragged_mod_args {
  attnpress_fwd_sm90_ragged_args batch;
  attnpress_mod_args mod;
  int64_t reserved[2];
} attnpress_fwd_sm90_ragged_mod_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_sm90_ragged_mod_args, mod, 1152)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_sm90_ragged_mod_args) == 1728,
                        "layout of attnpress_fwd_sm90_ragged_mod_args");

/* The arguments of the kernel that writes the map. Its grid is one-dimensional: word of a row block
 * (fastest), row block, tile head or 1, batch or 1. */
typedef struct attnpress_fwd_map_args {
  attnpress_fwd_mod_args call; /* the forward kernel's; of `fwd` only numbers are read */
  int32_t block_n;             /* keys of a key block */
  int32_t row_block_rows;      /* rows of a row block, counted over the heads of a tile */
  int32_t heads;               /* of a tile that differ: heads_per_tile, or 1 where none does */
  int32_t mask;                /* the forward kernel's: 0 full, 1 causal, 2 window */
  int32_t map_heads;           /* tile heads, or 1 */
  int32_t reserved;
} attnpress_fwd_map_args;

ATTNPRESS_ASSERT_OFFSET(attnpress_fwd_map_args, block_n, 928)
ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_map_args) == 952, "layout of attnpress_fwd_map_args");
