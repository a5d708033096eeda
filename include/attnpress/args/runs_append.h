/* The arguments of attention kernels that write new keys and values to a cache on the way. */
#pragma once

#include "attnpress/args/append.h"
#include "attnpress/args/ragged.h"

/* Of the kernels that have `runs_append` in their names. Each sequence has one query, which is not
 * rotated yet, and one new key, the last of those that `runs` counts; lengths are numbers alone
 * (has_key_count_alone()). K and V are the cache, which is written to, and a tile head has all heads
 * of a key head. Of `append` rows 1 and 2, what they are rotated by, and the extents of the cache are
 * read: no other array says where new keys go. */
typedef struct attnpress_fwd_runs_append_args {
  attnpress_fwd_runs_args runs;
  attnpress_append_write_args append;
} attnpress_fwd_runs_append_args;

ATTNPRESS_STATIC_ASSERT(sizeof(attnpress_fwd_runs_append_args) == 992,
                        "layout of attnpress_fwd_runs_append_args");
