/* The parts of the in-place matrix product's family, in the order of a call: validate -> plan ->
 * kernel arguments, or the CPU backend. operation.c puts them together. */
#pragma once
#include "attnpress/args/matmul.h"
#include "attnpress/matmul.h"
#include "call.h"
#include "../generated/families.h"

enum { AP_MATMUL_SM90 = 90 /* the arch of the kernels with wgmma */ };

/** A call, checked. In a range rows and n are maxima, and 0 stands for any. */
typedef struct ap_matmul_problem {
  void *x;
  const void *w;
  int64_t rows, n, x_stride, w_stride;
  int32_t dtype, w_dtype, transposed;
} ap_matmul_problem;

static inline int ap_matmul_is_empty(const ap_matmul_problem *p) {
  return p->rows == 0 || p->n == 0;
}

/** "fp16" */
const char *ap_matmul_dtype_name(int32_t dtype);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** Checks a problem that holds what the caller gave, and fills in its defaults. */
attnpress_status ap_matmul_validate(ap_matmul_problem *problem, ap_check how);

/* ---- plan.c ---------------------------------------------------------------------------------- */

typedef struct ap_matmul_plan {
  /* sm90: row blocks of a thread block, one after the other; those that share rows; 2^split_shift
   * share the depth of a tile. */
  int32_t share, column_blocks, split_shift;
  ap_launches base;
} ap_matmul_plan;

/** The one launch of a call, or in a range each kernel that one of its calls may take. */
attnpress_status ap_matmul_plan_call(const ap_matmul_problem *problem, const ap_device *device,
                                     int32_t range, ap_matmul_plan *plan);

/* ---- tensor_maps.c --------------------------------------------------------------------------- */

/** 1 where x and W of a call can have tensor maps. */
int ap_matmul_maps_fit(const ap_matmul_problem *problem);
/** Writes those of a call. */
attnpress_status ap_matmul_maps_encode(ap_maps *maps, const ap_matmul_problem *problem,
                                       const ap_tile *tile, attnpress_matmul_args_sm90 *block);

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/** num_threads: 0 is all cores. */
attnpress_status ap_matmul_cpu(const ap_matmul_problem *problem, int32_t num_threads);
