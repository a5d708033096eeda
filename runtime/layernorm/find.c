/* The kernel of a class of columns, on a device. */
#include "layernorm/plan.h"

enum { OVERLAP_CAPABILITY_MIN = 90 /* where kernels can wait for those before them */ };

attnpress_status ap_layernorm_find_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                          int32_t pass, int32_t rows, int32_t class,
                                          ap_launch *launch, int *fits) {
  const int sums = pass == AP_LAYERNORM_PASS_BWD_REDUCE;
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_LAYERNORM, .num_splits = 1};
  v->axis[AP_LAYERNORM_PASS] = pass;
  v->axis[AP_LAYERNORM_NORM] = p->rms && !sums ? AP_LAYERNORM_NORM_RMS : AP_LAYERNORM_NORM_LAYER;
  v->axis[AP_LAYERNORM_ROWS] = rows;
  v->axis[AP_LAYERNORM_COLS] = classes()->values[class];
  v->axis[AP_LAYERNORM_DTYPE] = sums ? ATTNPRESS_FP32 : p->dtype;
  v->axis[AP_LAYERNORM_PARAMS] =
      pass == AP_LAYERNORM_PASS_BWD_PARAMS ? ATTNPRESS_FP32 : p->param_dtype;
  /* Every kernel of the family waits by itself for what ran before. */
  launch->overlaps = device->capability >= OVERLAP_CAPABILITY_MIN;
  ap_choose_arch(device, launch);
  *fits = ap_variant_is_legal(v);
  if (!*fits)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_find_launch_tile(launch));
  *fits = launch->tile.smem_bytes <= ap_find_target(launch->target)->smem_per_block_bytes;
  return ATTNPRESS_OK;
}

attnpress_status ap_layernorm_find_long_kernel(const ap_layernorm_problem *p,
                                               const ap_device *device, int32_t pass,
                                               ap_launch *launch) {
  int fits;
  return ap_layernorm_find_kernel(p, device, pass, AP_LAYERNORM_ROWS_ALIGNED, classes()->count - 1,
                                  launch, &fits);
}

attnpress_status ap_layernorm_find_odd_kernel(const ap_layernorm_problem *p,
                                              const ap_device *device, int32_t pass, int32_t rows,
                                              ap_launch *launch, int *fits) {
  const int64_t edges = ap_element_bytes(p->dtype) == 2 ? ODD_EDGES : 0;
  int64_t columns = p->columns - edges; /* of vectors, at the least */
  if (p->backward && edges > 0 && p->columns <= odd_block_cols(p))
    columns = smaller(columns, ODD_BLOCK_COLS_MAX);
  *fits = 0;
  for (int32_t class = first_class(columns); !*fits && class < classes()->count - 1; ++class) {
    FORWARD_IF(ap_layernorm_find_kernel(p, device, pass, rows, class, launch, fits));
    /* A cluster's threads have what lies beside the vectors as vectors. */
    if (*fits && has_odd_clusters(launch))
      *fits =
          p->columns + ODD_EDGES <= classes()->values[class] && p->rows <= INT32_MAX - ODD_PERIOD;
  }
  return ATTNPRESS_OK;
}

attnpress_status ap_layernorm_find_gang_kernel(const ap_layernorm_problem *p,
                                               const ap_device *device, int32_t rows,
                                               int64_t block_cols, ap_launch *launch, int *fits) {
  const int32_t pass = p->backward ? AP_LAYERNORM_PASS_BWD : AP_LAYERNORM_PASS_FWD;
  const int64_t columns = p->backward ? block_cols : 2 * block_cols;
  FORWARD_IF(ap_layernorm_find_kernel(p, device, pass, rows, first_class(columns), launch, fits));
  if (*fits)
    return ATTNPRESS_OK;
  return ap_layernorm_find_kernel(p, device, pass, rows, first_class(columns / 2), launch, fits);
}
