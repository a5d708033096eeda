/* The kernels of a backward call without gangs: one for dx and the parts of the sums, or one each, and what
 * adds up the parts. */
#include "layernorm/plan.h"

enum {
  SORTED_ROWS = 4096,        /* more than are on their way beyond the last */
  SHORT_FP32_COLS_MAX = 15,  /* of fp32, whose lanes find more words in one bank */
  SHORT_WHOLE_COLS_MAX = 88, /* of whole vectors: of longer rows 64 MB gain what 256 MB lose */
  SHORT_BANKS_COLS = 64, /* of 16 bits are as long as all banks: lanes' rows lie in the same ones */
  SLICE_COLS_MIN = 5,    /* of less a lane of two has no two words */
  SLICE_CLASS_FIRST = 16,
  SHIFTED_COLS_MIN = 72 /* of less a class of the others is fuller, and they are as fast */
};

/** Whether rows without gaps are as short. The columns alone decide, since a workspace's size does not
 * depend on pointers and strides. */
static int has_short_columns(const ap_layernorm_problem *p) {
  int64_t most = SHORT_COLS_MAX;
  if (p->dtype == ATTNPRESS_FP32)
    most = SHORT_FP32_COLS_MAX;
  else if (p->columns % (VECTOR_BYTES / 2) == 0)
    most = SHORT_WHOLE_COLS_MAX;
  return p->columns <= most && p->columns != SHORT_BANKS_COLS;
}

/** The kernel of rows of few columns. *fits: 0 where they have others. */
static attnpress_status find_short_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                          ap_launch *launch, int *fits) {
  *fits = 0;
  if (!has_short_columns(p))
    return ATTNPRESS_OK;
  return ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_SHORT,
                                  first_class(p->columns), launch, fits);
}

/** The kernels of rows of 16 bits that begin elsewhere in x than in the other matrices: of few columns, where
 * these have no gaps, and of more. *fits: 0 where there is none. */
static attnpress_status find_slice_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                          ap_launch *launch, int *fits) {
  *fits = 0;
  if (p->columns < SLICE_COLS_MIN || p->columns > SLICE_COLS_MAX)
    return ATTNPRESS_OK;
  return ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_GATHERED,
                                  first_class(larger(p->columns, SLICE_CLASS_FIRST)), launch, fits);
}

static attnpress_status find_shifted_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                            ap_launch *launch, int *fits) {
  *fits = 0;
  if (p->columns < SHIFTED_COLS_MIN)
    return ATTNPRESS_OK;
  return ap_layernorm_find_odd_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_SHIFTED,
                                      launch, fits);
}

/** Whether these are all, without dsum, and no more rows than a kernel counts. */
static int has_sorted_rows(const ap_layernorm_problem *p) {
  return p->tensor[AP_LAYERNORM_DSUM].data == NULL && p->rows <= INT32_MAX - SORTED_ROWS &&
         has_gradients_cut_alike(p);
}

/** The kernel of such rows of the first class that has one, and room for what lies beside a row as vectors. */
static attnpress_status find_sorted_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_launch *launch, int *fits) {
  *fits = 0;
  for (int32_t class = first_class(p->columns + ODD_EDGES);
       !*fits && p->columns + ODD_EDGES <= classes()->values[class] && class < backward_classes();
       ++class)
    FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_SORTED,
                                        class, launch, fits));
  return ATTNPRESS_OK;
}

static attnpress_status plan_at_once(const ap_layernorm_problem *p, const ap_device *device,
                                     ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  ap_layernorm_set_walking_grid(p, device, launch);
  plan->pitch = pitch_of(p, launch);
  const int64_t walkers = ap_layernorm_walkers_of(p, device, launch);
  plan->parts = (int32_t)parts_of(launch, walkers);
  plan->base.count = 1;
  return ap_layernorm_has_sums(p) ? ap_layernorm_plan_reduce(p, device, plan) : ATTNPRESS_OK;
}

/** Thread blocks of bwd_params beside each other. */
static int64_t column_blocks(const ap_layernorm_problem *p, int64_t columns) {
  return ceil_div(columns, 32 * (VECTOR_BYTES / ap_element_bytes(p->dtype)));
}

/** dx comes last: it may lie over what the sums are made of. */
static attnpress_status plan_in_turn(const ap_layernorm_problem *p, const ap_device *device,
                                     ap_layernorm_plan *plan) {
  ap_launches *base = &plan->base;
  base->count = 0;
  if (ap_layernorm_has_sums(p)) {
    ap_launch *launch = &base->launch[base->count++];
    FORWARD_IF(ap_layernorm_find_long_kernel(p, device, AP_LAYERNORM_PASS_BWD_PARAMS, launch));
    plan->pitch = p->columns;
    const int64_t beside = column_blocks(p, p->columns);
    const int64_t wanted = (int64_t)device->sm_count * PARAMS_BLOCKS_OF_SM / beside;
    const int64_t most = ceil_div(p->rows, (int64_t)launch->tile.threads / 32 *
                                               field(launch, AP_LAYERNORM_TILE_STEP));
    plan->parts = (int32_t)smaller(wanted > 1 ? wanted : 1, most);
    launch->grid = (uint32_t)(plan->parts * beside);
    FORWARD_IF(ap_layernorm_plan_reduce(p, device, plan));
  }
  ap_launch *launch = &base->launch[base->count++];
  FORWARD_IF(ap_layernorm_find_long_kernel(p, device, AP_LAYERNORM_PASS_BWD_DX, launch));
  return ap_layernorm_set_grid(p, launch);
}

/** Rows that clusters of eight share: those of 16 bits that begin at any element are read in turn, since
 * a cluster would by elements. The workspace is enough for both. */
static attnpress_status plan_wide_backward(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_layernorm_plan *plan) {
  const ap_launch at_once = plan->base.launch[0];
  FORWARD_IF(plan_in_turn(p, device, plan));
  const size_t in_turn_bytes = plan->base.workspace_bytes;
  size_t bytes = 0;
  if (ap_layernorm_has_sums(p))
    bytes = ap_layernorm_parts_bytes(p, ap_layernorm_walkers_of(p, device, &at_once) * p->columns);
  if (!has_odd_rows(p)) {
    plan->base.launch[0] = at_once;
    FORWARD_IF(plan_at_once(p, device, plan));
  }
  plan->base.workspace_bytes = bytes > in_turn_bytes ? bytes : in_turn_bytes;
  return ATTNPRESS_OK;
}

/** Rows without gangs. */
static attnpress_status plan_rows_backward(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0], other;
  int fits = 0, other_fits;
  FORWARD_IF(ap_layernorm_find_odd_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_ODD,
                                          &other, &other_fits));
  for (int32_t class = first_class(p->columns);
       p->columns <= AP_LAYERNORM_BWD_COLS_MAX && !fits && class < backward_classes(); ++class)
    FORWARD_IF(ap_layernorm_find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_ALIGNED,
                                        class, launch, &fits));
  if (!other_fits && fits && p->columns > AP_LAYERNORM_HELD_COLS_MAX)
    return plan_wide_backward(p, device, plan);
  if (!other_fits)
    return fits ? plan_at_once(p, device, plan) : plan_in_turn(p, device, plan);
  /* The workspace's size is that of any kernel: it does not depend on pointers and strides. */
  size_t needed = 0;
  ap_launch sorted, few, slice, shifted;
  int sorted_fits = 0, few_fits, slice_fits, shifted_fits;
  FORWARD_IF(find_short_kernel(p, device, &few, &few_fits));
  if (few_fits)
    needed =
        ap_layernorm_parts_bytes(p, ap_layernorm_walkers_of(p, device, &few) * pitch_of(p, &few));
  FORWARD_IF(find_slice_kernel(p, device, &slice, &slice_fits));
  if (slice_fits)
    needed =
        larger_size(needed, ap_layernorm_parts_bytes(p, ap_layernorm_walkers_of(p, device, &slice) *
                                                            pitch_of(p, &slice)));
  FORWARD_IF(find_shifted_kernel(p, device, &shifted, &shifted_fits));
  if (shifted_fits)
    needed = larger_size(needed, ap_layernorm_parts_bytes(
                                     p, ap_layernorm_walkers_of(p, device, &shifted) * p->columns));
  if (p->columns > odd_block_cols(p))
    FORWARD_IF(find_sorted_kernel(p, device, &sorted, &sorted_fits));
  if (sorted_fits)
    needed = larger_size(needed,
                         ap_layernorm_parts_bytes(p, ap_layernorm_parts_most(p, device, &sorted) *
                                                         pitch_of(p, &sorted)));
  if (fits)
    needed = larger_size(needed, ap_layernorm_parts_bytes(
                                     p, ap_layernorm_walkers_of(p, device, launch) * p->columns));
  needed = larger_size(
      needed, ap_layernorm_parts_bytes(p, ap_layernorm_parts_most(p, device, &other) * p->columns));
  if (begins_anywhere(p))
    *launch = sorted_fits && has_sorted_rows(p) ? sorted : other;
  if (shifted_fits && has_shifted_gradients(p))
    *launch = shifted;
  if (slice_fits && has_gathered_gradients(p))
    *launch = slice;
  if (few_fits && has_gradients_in_turn(p, AP_LAYERNORM_X))
    *launch = few;
  FORWARD_IF(fits || begins_anywhere(p) ? plan_at_once(p, device, plan)
                                        : plan_in_turn(p, device, plan));
  if (fits || !begins_anywhere(p))
    plan->base.workspace_bytes = larger_size(plan->base.workspace_bytes, needed);
  return ATTNPRESS_OK;
}

attnpress_status ap_layernorm_plan_backward(const ap_layernorm_problem *p, const ap_device *device,
                                            ap_layernorm_plan *plan) {
  if (p->rows == 0) /* the sums of nothing are 0 */
    return ap_layernorm_plan_reduce(p, device, plan);
  FORWARD_IF(plan_rows_backward(p, device, plan));
  return ap_layernorm_prefer_gang(p, device, plan);
}
