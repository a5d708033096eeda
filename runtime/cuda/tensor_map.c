/* Tensor maps of any tensor. The limits are those of cuTensorMapEncodeTiled (CUDA Driver API,
 * "Tensor Map Object Management"). */
#include "cuda/tensor_map.h"

#include <stdio.h>

enum { ELEMENT_BYTES = 2 };
#define STRIDE_MAX_BYTES ((INT64_C(1) << 40) - 1)

ap_view ap_view_begin(void *data, int data_type, int64_t extent, int32_t box) {
  return (ap_view){.data = data,
                   .data_type = data_type,
                   .rank = 1,
                   .extents = {(uint64_t)extent},
                   .box = {(uint32_t)box}};
}

void ap_view_add(ap_view *view, int64_t extent, int64_t stride, int32_t box) {
  const uint64_t row_bytes = view->extents[0] * ELEMENT_BYTES;
  view->strides_bytes[view->rank - 1] = extent > 1 ? (uint64_t)stride * ELEMENT_BYTES : row_bytes;
  view->extents[view->rank] = (uint64_t)extent;
  view->box[view->rank++] = (uint32_t)box;
}

int ap_view_stride_fits(int64_t extent, int64_t stride, int64_t times) {
  int64_t bytes;
  return extent <= 1 || (stride >= 0 && !__builtin_mul_overflow(stride, times, &bytes) &&
                         bytes <= STRIDE_MAX_BYTES / ELEMENT_BYTES);
}

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
