/* Tensor maps of any tensor. */
#include "cuda/tensor_map.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"

static attnpress_status check(const ap_driver *driver, CUresult result, const char *function,
                              const char *name) {
  if (result == CUDA_SUCCESS)
    return ATTNPRESS_OK;
  char what[64];
  snprintf(what, sizeof what, "%s of %s", function, name);
  return ap_driver_fail(driver, result, what);
}

/** The swizzle of lines of so many elements: of 64, of 32, or of fewer. */
static int swizzle_of(int32_t elements) {
  if (elements > 32)
    return CU_TENSOR_MAP_SWIZZLE_128B;
  return elements > 16 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_32B;
}

attnpress_status ap_view_encode(ap_maps *maps, const ap_view *view, const char *name, void *map) {
  const ap_driver *driver = maps->driver;
  const int index = maps->count++;
  ap_map *const made = maps->made != NULL && index < AP_MAPS_MAX ? &maps->made[index] : NULL;
  if (!maps->addresses_alone) {
    const CUresult result = driver->tensor_map_encode_tiled(
        map, view->data_type, view->rank, view->data, view->extents, view->strides_bytes, view->box,
        view->steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of((int32_t)view->box[0]),
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    FORWARD_IF(check(driver, result, "cuTensorMapEncodeTiled", name));
  }
  if (made == NULL)
    return ATTNPRESS_OK;
  made->data = view->data;
  made->to = map;
  if (!maps->addresses_alone)
    memcpy(made->word, map, sizeof made->word);
  return ATTNPRESS_OK;
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

enum { PIXELS_RANK = 4 };

/** What lies behind the last pixel, counted from the image's end. */
static int64_t upper_corner(const ap_pixels *p, int dimension) {
  return p->begin[dimension] + (p->count[dimension] - 1) * p->step[dimension] + 1 -
         p->extents[1 + dimension];
}

int ap_pixels_fit(const ap_pixels *p) {
  for (int i = 0; i < 2; ++i) {
    const int64_t upper = upper_corner(p, i);
    if (p->begin[i] < AP_PIXELS_CORNER_MIN || p->begin[i] > AP_PIXELS_CORNER_MAX ||
        upper < AP_PIXELS_CORNER_MIN || upper > AP_PIXELS_CORNER_MAX || p->count[i] < 1 ||
        p->step[i] > AP_PIXELS_STEP_MAX)
      return 0;
  }
  for (int i = 0; i < 3; ++i)
    if (!ap_view_stride_fits(p->extents[i], p->strides[i], 1))
      return 0;
  return 1;
}

attnpress_status ap_pixels_encode(ap_maps *maps, const ap_pixels *p, const char *name, void *map) {
  uint64_t extents[PIXELS_RANK], strides_bytes[PIXELS_RANK - 1];
  for (int i = 0; i < PIXELS_RANK; ++i)
    extents[i] = (uint64_t)p->extents[PIXELS_RANK - 1 - i];
  for (int i = 0; i < PIXELS_RANK - 1; ++i) {
    const int from = PIXELS_RANK - 2 - i;
    strides_bytes[i] =
        (p->extents[from] > 1 ? (uint64_t)p->strides[from] : extents[0]) * AP_VIEW_ELEMENT_BYTES;
  }
  const int lower[2] = {(int)p->begin[1], (int)p->begin[0]};
  const int upper[2] = {(int)upper_corner(p, 1), (int)upper_corner(p, 0)};
  const uint32_t steps[PIXELS_RANK] = {1, (uint32_t)p->step[1], (uint32_t)p->step[0], 1};
  const CUresult result = maps->driver->tensor_map_encode_im2col(
      map, p->data_type, PIXELS_RANK, p->data, extents, strides_bytes, lower, upper,
      (uint32_t)p->channels, (uint32_t)p->pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzle_of(p->channels), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return check(maps->driver, result, "cuTensorMapEncodeIm2col", name);
}
