/* The parts of the convolutions' family, in the order of a call: validate -> plan -> kernel
 * arguments, or the CPU backend. operation.c puts them together. */
#pragma once
#include "attnpress/args/conv2d.h"
#include "attnpress/conv2d.h"
#include "call.h"
#include "cpu/element.h"
#include "../generated/families.h"

/** A call of either pass, checked. In a range batch, height and width are maxima, and 0 stands for
 * any. */
typedef struct ap_conv2d_problem {
  int32_t backward;
  attnpress_conv2d_shape shape;  /* defaults filled in */
  int64_t out_height, out_width; /* P and Q; a range: 0 */
  const void *x, *weight, *bias, *dout;
  void *out; /* backward: only read, with relu */
  void *dx, *dweight, *dbias;
  int64_t x_stride[3], out_stride[3], dout_stride[3], dx_stride[3];
  attnpress_conv2d_choice choice;
} ap_conv2d_problem;

_Static_assert((int)AP_FP64 == (int)ATTNPRESS_CONV2D_FP64, "as cpu/element.h has it");

static inline int64_t ap_conv2d_bytes(const ap_conv2d_problem *p) {
  return ap_element_bytes(p->shape.dtype);
}

/** "fp16" */
const char *ap_conv2d_dtype_name(int32_t dtype);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** Checks a problem that holds what the caller gave, and fills in its defaults. */
attnpress_status ap_conv2d_validate(ap_conv2d_problem *problem, ap_check how);

/* ---- plan.c ---------------------------------------------------------------------------------- */

typedef struct ap_conv2d_plan {
  /* Of the first launch of each pass. */
  int32_t row_blocks[AP_CONV2D_PASS_REDUCE + 1], column_blocks[AP_CONV2D_PASS_REDUCE + 1];
  int32_t splits, split_pixels;     /* of wgrad */
  int32_t block_pixels;             /* of dout */
  int32_t reduces[AP_LAUNCHES_MAX]; /* of launch i: 1: dbias, 0: dweight */
  int32_t group_shift[2];           /* of dweight's and of dbias's reduce */
  /* Offsets in the workspace, in bytes. */
  size_t masked, weight_parts, bias_parts;
  ap_launches base;
} ap_conv2d_plan;

/** fprop; or those of dout, dgrad, wgrad and reduce that the call needs. */
attnpress_status ap_conv2d_plan_call(const ap_conv2d_problem *problem, const ap_device *device,
                                     int32_t range, ap_conv2d_plan *plan);

/* ---- im2col.c -------------------------------------------------------------------------------- */

/** `dout` as dgrad and wgrad read it: (batch, P, Q, filters). */
typedef struct ap_conv2d_gradient {
  const void *data;
  int64_t stride[3];
} ap_conv2d_gradient;

/** Whether the copy engine serves a pass of the problem. */
int ap_conv2d_im2col_fits(const ap_conv2d_problem *problem, int32_t pass);

enum { AP_CONV2D_NARROW_MAX = 224 };

/** Channels, or filters, of a panel of wgrad's. Lines of half as many take as long to copy, so that
 * they are worth it only where all of them are full, or only one is needed, and where they save a
 * good part of the product. */
static inline int32_t ap_conv2d_panel(int64_t channels) {
  const int32_t half = AP_CONV2D_SLAB / 2;
  const int is_narrow =
      channels <= half || (channels <= AP_CONV2D_NARROW_MAX && channels % AP_CONV2D_SLAB == half);
  return is_narrow ? half : AP_CONV2D_SLAB;
}

/** The argument blocks of its kernels; dout: not read by fprop. */
attnpress_status ap_conv2d_fill_im2col(ap_maps *maps, const ap_conv2d_problem *problem,
                                       const ap_conv2d_gradient *dout, const ap_conv2d_plan *plan,
                                       const ap_launch *launch, attnpress_conv2d_im2col_args *args);
/** parts: (splits, filters, filter_height, filter_width, channels) or NULL */
attnpress_status ap_conv2d_fill_im2col_wgrad(ap_maps *maps, const ap_conv2d_problem *problem,
                                             const ap_conv2d_gradient *dout, float *parts,
                                             const ap_conv2d_plan *plan,
                                             attnpress_conv2d_im2col_wgrad_args *args);

/* ---- arguments.c ----------------------------------------------------------------------------- */

typedef union ap_conv2d_block {
  attnpress_conv2d_gather_args gather;
  attnpress_conv2d_wgrad_args wgrad;
  attnpress_conv2d_im2col_args im2col;
  attnpress_conv2d_im2col_wgrad_args im2col_wgrad;
  attnpress_conv2d_dout_args dout;
  attnpress_conv2d_reduce_args reduce;
} ap_conv2d_block;

/** Fills the argument block of launch `index`. */
attnpress_status ap_conv2d_fill(ap_maps *maps, const ap_conv2d_problem *problem, void *workspace,
                                const ap_conv2d_plan *plan, int index, ap_conv2d_block *block);

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/** num_threads: 0 is all cores. */
attnpress_status ap_conv2d_cpu(const ap_conv2d_problem *problem, int32_t num_threads);
