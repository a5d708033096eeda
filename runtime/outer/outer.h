/* The parts of the outer product's family, in the order of a call: validate -> plan -> kernel
 * arguments, or the CPU backend. operation.c puts them together. */
#pragma once
#include "attnpress/args/outer.h"
#include "attnpress/outer.h"
#include "call.h"
#include "cpu/element.h"
#include "../generated/families.h"

/** A call of either pass, checked. In a range extents are maxima, and 0 stands for any. */
typedef struct ap_outer_problem {
  int32_t backward, dtype, summed;
  int64_t batch, rows, columns;
  const void *x, *y;
  void *c; /* forward: written; backward: dc, which is only read */
  void *dx, *dy;
  int64_t x_stride, y_stride, c_batch_stride, c_row_stride, dx_stride, dy_stride;
  int32_t has_mod; /* 1: `mod` is a caller's function, whose texts and arrays are the caller's */
  attnpress_outer_mod mod;
  unsigned char mod_key[AP_SNIPPET_KEY_BYTES];
  size_t workspace_bytes; /* forward: the most that there may be */
} ap_outer_problem;

_Static_assert((int)AP_FP64 == (int)ATTNPRESS_OUTER_FP64, "as cpu/element.h has it");

static inline int64_t ap_outer_bytes(const ap_outer_problem *p) {
  return ap_element_bytes(p->dtype);
}

/** Whether nothing is to be written but zeros, or nothing at all. */
static inline int ap_outer_is_empty(const ap_outer_problem *p) {
  if (p->backward)
    return p->batch == 0 || (p->rows == 0 && p->columns == 0);
  return p->rows == 0 || p->columns == 0 || (p->batch == 0 && !p->summed);
}

/** "fp16" */
const char *ap_outer_dtype_name(int32_t dtype);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** Checks a problem that holds what the caller gave, and fills in its defaults. */
attnpress_status ap_outer_validate(ap_outer_problem *problem, ap_check how);

/* ---- mod.c ----------------------------------------------------------------------------------- */

/** Copies and checks a caller's function, if there is one, and fills in has_mod, mod and its key. */
attnpress_status ap_outer_mod_take(const attnpress_outer_mod *mod, ap_check how,
                                   ap_outer_problem *problem);
/** Writes its text: of floats or, backward, of numbers with a derivative. */
attnpress_status ap_outer_mod_write(const attnpress_outer_mod *mod, int backward,
                                    ap_snippet *fresh);
/** Fills what kernels are given of its scalars. */
void ap_outer_mod_fill(const ap_outer_problem *problem,
                       uint32_t scalar[ATTNPRESS_OUTER_SCALARS_MAX]);

/* ---- plan.c ---------------------------------------------------------------------------------- */

/** A sum of products over `depth`, and how it is dealt to thread blocks. */
typedef struct ap_outer_sum {
  int64_t rows, columns, depth; /* of the result, and of what is summed over */
  int64_t split_depth;
  int32_t row_blocks, column_blocks, splits;
  int32_t lane_shift; /* of the kernel that adds up splits */
} ap_outer_sum;

typedef struct ap_outer_plan {
  int32_t column_shift, column_blocks, row_blocks, pitch; /* of fwd, unit, flat or bwd */
  int32_t unit_rows, unit_vectors, width, units, x_bytes; /* of unit or chunk */
  int32_t lane_shift;                                     /* of bwd_reduce, after bwd */
  ap_outer_sum sum[2];                                    /* c; backward: dx and dy */
  ap_launches base;
} ap_outer_plan;

/** fwd, unit, chunk or flat; bwd, and bwd_reduce where dy is of parts; or, summed, sum, or sum_dx
 * and sum_dy, each followed by bwd_reduce where it is split. */
attnpress_status ap_outer_plan_call(const ap_outer_problem *problem, const ap_device *device,
                                    int32_t range, ap_outer_plan *plan);

/** The product by rows, as fwd or unit, without its grid; *fits: 0 where much of it would be empty,
 * or rows are stored by elements. */
attnpress_status ap_outer_plan_rows(const ap_outer_problem *problem, const ap_device *device,
                                    ap_outer_plan *plan, int *fits);

/** The product as one run of vectors, of whatever shape, by chunk or flat; *fits: 0 where c is
 * none, or not for this kernel. */
attnpress_status ap_outer_plan_run(const ap_outer_problem *problem, const ap_device *device,
                                   int32_t pass, ap_outer_plan *plan, int *fits);

/** The gradients of a sum as sum_dx and sum_dy, each followed by bwd_reduce where it is split, as
 * calls of much have them. *plan: as a call of nothing has it, of zeros. */
attnpress_status ap_outer_plan_products(const ap_outer_problem *problem, const ap_device *device,
                                        ap_outer_plan *plan);

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/** num_threads: 0 is all cores. */
attnpress_status ap_outer_cpu(const ap_outer_problem *problem, int32_t num_threads);
