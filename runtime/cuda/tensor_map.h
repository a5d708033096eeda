/* Tensor maps: what the copy engine (TMA) of compute capability 9.0 is told of a tensor. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "cuda/driver.h"

enum { AP_VIEW_RANK_MAX = 5 };

/** A tensor of 16-bit elements as the driver wants it: the fastest dimension first, which is
 * contiguous, and the box of it that one copy takes. */
typedef struct ap_view {
  void *data;    /* device memory, 16-byte aligned */
  int data_type; /* CU_TENSOR_MAP_DATA_TYPE_... */
  uint32_t rank;
  uint64_t extents[AP_VIEW_RANK_MAX], strides_bytes[AP_VIEW_RANK_MAX - 1];
  uint32_t box[AP_VIEW_RANK_MAX];
} ap_view;

/** A view of `extent` contiguous elements. */
ap_view ap_view_begin(void *data, int data_type, int64_t extent, int32_t box);
/** Adds the next slower dimension; stride in elements, ignored where the extent is 1. */
void ap_view_add(ap_view *view, int64_t extent, int64_t stride, int32_t box);
/** 1 where the driver takes `times` such a stride, in elements, of a dimension of this extent. A
 * stride of 0, which broadcasts, and one that makes rows overlap are fine. */
int ap_view_stride_fits(int64_t extent, int64_t stride, int64_t times);
/** Writes the map of a view: 128-byte swizzle, and zeros for what lies outside. `map`: 128 bytes,
 * 64-byte aligned; `name` is for the sentence of a failure. */
attnpress_status ap_view_encode(const ap_driver *driver, const ap_view *view, const char *name,
                                void *map);
