/* What the parts of the planner share: find.c finds a class's kernel, grid.c deals rows to thread
 * blocks, reduce.c adds up parts of sums; plan_forward.c, plan_backward.c and plan_gang.c choose for a
 * call, plan_range.c lists what calls up to a size may take. */
#pragma once
#include "core/numbers.h"
#include "cuda/device.h"
#include "layernorm/layernorm.h"
#include "layernorm/rows.h"
#include "press/target.h"

enum {
  SUM_VECTOR_COLUMNS = 4,  /* of a thread of bwd_reduce */
  PARAMS_BLOCKS_OF_SM = 4, /* thread blocks of bwd_params that an SM is given */
  WARP = 32,
  SM_PAIR = 2,
  WIDE_PAIR_COLS =
      36864, /* from which on packed rows of 16 bits are those of wide kernels' pairs */
  ODD_EDGES =
      7, /* columns that an odd row may have beyond those of its class: they fill no vector */
  ODD_PERIOD =
      8, /* odd rows so far apart begin at the same element of a vector, whatever their stride */
  ODD_BLOCK_COLS_MAX =
      8192, /* of the longest class of odd rows that are one thread block's, backward */
  ODD_BLOCK_COLS_MOST =
      ODD_BLOCK_COLS_MAX + 1024, /* with those beside its vectors, as the kernel */
  ODD_BLOCK_COLS_MOST_FP32 = ODD_BLOCK_COLS_MAX + 512, /* and with weights of fp32 */
  ODD_CLASSES_WRITTEN =
      ODD_PERIOD - 1,              /* parts of the sums of those whose rows two clusters have */
  SORTED_MORE = ODD_PERIOD - 1,    /* clusters of sorted rows of all classes, beyond those of one */
  SHORT_COLS_MAX = 127,            /* of gradients of rows of few columns */
  SLICE_COLS_MAX = 96,             /* and of those whose x is a slice of a wider matrix */
  GANG_COLS_MIN = 65536,           /* gangs have longer rows */
  GANG_WHOLE_DSUM_COLS_MIN = 8192, /* and with dsum, backward, whole vectors of more columns */
  GANG_BLOCK_COLS = 8192,          /* of a block, at the most; forward twice as many */
  GANG_LONG_BLOCK_COLS = 10240,    /* of rows that begin anywhere, long ones; forward the same */
  GANG_LONGEST_BLOCK_COLS = 12288, /* of these with a residual */
  GANG_LONG_COLS_MIN = 536000,     /* backward, which longer rows may have */
  GANG_BLOCKS_MAX = 160            /* of a gang, as the kernel */
};

/** Columns of the blocks of gangs, by kernels. */
static const int64_t gang_block_cols[] = {GANG_BLOCK_COLS, GANG_LONG_BLOCK_COLS,
                                          GANG_LONGEST_BLOCK_COLS};

static inline const ap_set *classes(void) {
  return &ap_families[AP_FAMILY_LAYERNORM]->axes[AP_LAYERNORM_COLS].domain;
}

/** The place of the first class of columns that has room for `columns`. */
static inline int32_t first_class(int64_t columns) {
  int32_t i = 0;
  while (i < classes()->count - 1 && classes()->values[i] < columns)
    ++i;
  return i;
}

static inline int32_t field(const ap_launch *launch, int32_t which) {
  return launch->tile.field[which];
}

/** Whether rows that begin at any element are a cluster's. */
static inline int has_odd_clusters(const ap_launch *launch) {
  return launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ODD &&
         ap_layernorm_cluster(&launch->tile) > 1;
}

static inline int is_sorted(const ap_launch *launch) {
  return launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SORTED;
}

/** Whether lanes have rows of few columns, of which a warp has pieces; backward. */
static inline int is_short(const ap_launch *launch) {
  const int32_t rows = launch->variant.axis[AP_LAYERNORM_ROWS];
  return launch->variant.axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_BWD &&
         (rows == AP_LAYERNORM_ROWS_SHORT || rows == AP_LAYERNORM_ROWS_GATHERED);
}

static inline int is_split(const ap_launch *launch) {
  const int32_t rows = launch->variant.axis[AP_LAYERNORM_ROWS];
  return rows == AP_LAYERNORM_ROWS_SPLIT || rows == AP_LAYERNORM_ROWS_SPLITSUM;
}

static inline int is_wide(const ap_launch *launch) {
  return launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_WIDE;
}

static inline int is_of_gang(const ap_launch *launch) {
  const int32_t rows = launch->variant.axis[AP_LAYERNORM_ROWS];
  return rows == AP_LAYERNORM_ROWS_GANG || rows == AP_LAYERNORM_ROWS_GANGSUM || is_split(launch);
}

/** Parts of the sums: one of each thread block or cluster that walks, and of clusters of odd rows those
 * of each class of rows that does not end with a cluster's. */
static inline int64_t parts_of(const ap_launch *launch, int64_t walkers) {
  return walkers + (has_odd_clusters(launch) ? ODD_CLASSES_WRITTEN : 0);
}

/** Columns from one part of the sums to the next. */
static inline int64_t pitch_of(const ap_layernorm_problem *p, const ap_launch *launch) {
  return is_sorted(launch) || is_split(launch) || is_short(launch)
             ? ceil_div(p->columns, SUM_VECTOR_COLUMNS) * SUM_VECTOR_COLUMNS
             : p->columns;
}

/** The rows of a gang's kernel. */
static inline int32_t forward_gang_rows(int split, int adds) {
  if (adds)
    return split ? AP_LAYERNORM_ROWS_SPLITSUM : AP_LAYERNORM_ROWS_GANGSUM;
  return split ? AP_LAYERNORM_ROWS_SPLIT : AP_LAYERNORM_ROWS_GANG;
}

/** How many classes have one kernel for dx and the sums. */
static inline int32_t backward_classes(void) {
  return first_class(AP_LAYERNORM_BWD_COLS_MAX) + 1;
}

/** The most columns of rows of 16 bits that begin anywhere and are a thread block's, backward. */
static inline int64_t odd_block_cols(const ap_layernorm_problem *p) {
  return p->param_dtype == ATTNPRESS_FP32 ? ODD_BLOCK_COLS_MOST_FP32 : ODD_BLOCK_COLS_MOST;
}

static inline size_t larger_size(size_t a, size_t b) {
  return a > b ? a : b;
}

/* ---- find.c ---------------------------------------------------------------------------------- */

/** A kernel of a class on a device, for `rows` (AP_LAYERNORM_ROWS_...). *fits: 0 where there is none,
 * or the device has too little shared memory. */
attnpress_status ap_layernorm_find_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                          int32_t pass, int32_t rows, int32_t class,
                                          ap_launch *launch, int *fits);
/** A kernel of rows of any number of columns. */
attnpress_status ap_layernorm_find_long_kernel(const ap_layernorm_problem *p,
                                               const ap_device *device, int32_t pass,
                                               ap_launch *launch);
/** That of rows that begin anywhere with room for the columns, for `rows` (AP_LAYERNORM_ROWS_ODD, or
 * backward AP_LAYERNORM_ROWS_SHIFTED); rows of any number are left to others. *fits: 0 where there is
 * none. */
attnpress_status ap_layernorm_find_odd_kernel(const ap_layernorm_problem *p,
                                              const ap_device *device, int32_t pass, int32_t rows,
                                              ap_launch *launch, int *fits);
/** The kernel of gangs for rows of a kind (AP_LAYERNORM_ROWS_...): some have registers for half of the
 * columns. block_cols: one of gang_block_cols */
attnpress_status ap_layernorm_find_gang_kernel(const ap_layernorm_problem *p,
                                               const ap_device *device, int32_t rows,
                                               int64_t block_cols, ap_launch *launch, int *fits);

/* ---- grid.c ---------------------------------------------------------------------------------- */

/** A thread block for every row. */
attnpress_status ap_layernorm_set_grid(const ap_layernorm_problem *p, ap_launch *launch);
/** As many thread blocks or clusters as walk over the rows. */
void ap_layernorm_set_walking_grid(const ap_layernorm_problem *p, const ap_device *device,
                                   ap_launch *launch);
/** How many clusters surely run at the same time. */
int64_t ap_layernorm_clusters_at_once(const ap_device *device, int32_t cluster);
/** What walks over rows, a thread block or a cluster: as many as the device has room for. */
int64_t ap_layernorm_walkers_at_once(const ap_device *device, const ap_launch *launch);
/** As many of these as a call has. */
int64_t ap_layernorm_walkers_of(const ap_layernorm_problem *p, const ap_device *device,
                                const ap_launch *launch);
/** The most parts of the sums that such a call has, whatever its strides are. */
int64_t ap_layernorm_parts_most(const ap_layernorm_problem *p, const ap_device *device,
                                const ap_launch *launch);

/* ---- reduce.c -------------------------------------------------------------------------------- */

/** bwd_reduce, behind what makes the parts. */
attnpress_status ap_layernorm_plan_reduce(const ap_layernorm_problem *p, const ap_device *device,
                                          ap_layernorm_plan *plan);
/** Bytes of the parts of one or two sums. */
size_t ap_layernorm_parts_bytes(const ap_layernorm_problem *p, int64_t parts_columns);

/* ---- plan_forward.c, plan_backward.c --------------------------------------------------------- */

attnpress_status ap_layernorm_plan_forward(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_layernorm_plan *plan);
attnpress_status ap_layernorm_plan_backward(const ap_layernorm_problem *p, const ap_device *device,
                                            ap_layernorm_plan *plan);

/* ---- plan_gang.c ----------------------------------------------------------------------------- */

/** Forward: takes gangs in place of another kernel, where a row has room in one. */
attnpress_status ap_layernorm_prefer_forward_gang(const ap_layernorm_problem *p,
                                                  const ap_device *device, ap_layernorm_plan *plan);
/** Backward: the same, where they are faster. The workspace is enough for either. */
attnpress_status ap_layernorm_prefer_gang(const ap_layernorm_problem *p, const ap_device *device,
                                          ap_layernorm_plan *plan);
/** Bytes of what blocks tell each other, at the most, which come first in the workspace. */
size_t ap_layernorm_told_bytes(const ap_device *device);

/* ---- plan_range.c ---------------------------------------------------------------------------- */

/** Kernels of calls of up to so many columns. */
attnpress_status ap_layernorm_plan_range(const ap_layernorm_problem *p, const ap_device *device,
                                         ap_launches *plan);
