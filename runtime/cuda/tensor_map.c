/* Tensor maps of any tensor. */
#include "cuda/tensor_map.h"

#include <stdio.h>

attnpress_status ap_view_encode(const ap_driver *driver, const ap_view *view, const char *name,
                                void *map) {
  static const uint32_t ones[AP_VIEW_RANK_MAX] = {1, 1, 1, 1, 1};
  const CUresult result = driver->tensor_map_encode_tiled(
      map, view->data_type, view->rank, view->data, view->extents, view->strides_bytes, view->box,
      ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS)
    return ATTNPRESS_OK;
  char what[64];
  snprintf(what, sizeof what, "cuTensorMapEncodeTiled of %s", name);
  return ap_driver_fail(driver, result, what);
}
