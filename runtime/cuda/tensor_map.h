/* Tensor maps: what the copy engine (TMA) of compute capability 9.0 is told of a tensor. The limits
 * are those of cuTensorMapEncodeTiled (CUDA Driver API, "Tensor Map Object Management"). Functions
 * that each call comes through several times are inline. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "cuda/driver.h"

enum { AP_VIEW_RANK_MAX = 5, AP_VIEW_ELEMENT_BYTES = 2 };
#define AP_VIEW_STRIDE_MAX_BYTES ((INT64_C(1) << 40) - 1)

/** A tensor of 16-bit elements as the driver wants it: the fastest dimension first, which is
 * contiguous, and the box of it that one copy takes, of which every step-th element. */
typedef struct ap_view {
  void *data;    /* device memory, 16-byte aligned */
  int data_type; /* CU_TENSOR_MAP_DATA_TYPE_... */
  uint32_t rank;
  uint64_t extents[AP_VIEW_RANK_MAX], strides_bytes[AP_VIEW_RANK_MAX - 1];
  uint32_t box[AP_VIEW_RANK_MAX], steps[AP_VIEW_RANK_MAX];
} ap_view;

/** A view of `extent` contiguous elements. */
static inline ap_view ap_view_begin(void *data, int data_type, int64_t extent, int32_t box) {
  ap_view view;
  view.data = data;
  view.data_type = data_type;
  view.rank = 1;
  view.extents[0] = (uint64_t)extent;
  view.box[0] = (uint32_t)box;
  view.steps[0] = 1;
  return view;
}

/** Adds the next slower dimension, of which a copy takes `count` elements that are `step` (1 to 8)
 * apart; stride in elements, ignored where the extent is 1. */
static inline void ap_view_add_steps(ap_view *view, int64_t extent, int64_t stride, int32_t count,
                                     int32_t step) {
  const uint64_t row_bytes = (view->extents[0] * AP_VIEW_ELEMENT_BYTES + 15) / 16 * 16;
  view->strides_bytes[view->rank - 1] =
      extent > 1 ? (uint64_t)stride * AP_VIEW_ELEMENT_BYTES : row_bytes;
  view->extents[view->rank] = (uint64_t)extent;
  view->steps[view->rank] = (uint32_t)step;
  view->box[view->rank++] = (uint32_t)(count * step);
}

/** Adds one of which a copy takes a box without gaps. */
static inline void ap_view_add(ap_view *view, int64_t extent, int64_t stride, int32_t box) {
  ap_view_add_steps(view, extent, stride, box, 1);
}

/** 1 where the driver takes `times` such a stride, in elements, of a dimension of this extent. A
 * stride of 0, which broadcasts, and one that makes rows overlap are fine. */
static inline int ap_view_stride_fits(int64_t extent, int64_t stride, int64_t times) {
  int64_t bytes;
  return extent <= 1 || (stride >= 0 && !__builtin_mul_overflow(stride, times, &bytes) &&
                         bytes <= AP_VIEW_STRIDE_MAX_BYTES / AP_VIEW_ELEMENT_BYTES);
}

/* ---- Maps ------------------------------------------------------------------------------------ */

enum { AP_MAPS_MAX = 8, AP_MAP_WORDS = 16 };

/** A map that was made. */
typedef struct ap_map {
  const void *data; /* the view's */
  void *to;         /* where the call has it */
  uint64_t word[AP_MAP_WORDS];
} ap_map;

/** Makes the maps of one call. */
typedef struct ap_maps {
  const ap_driver *driver;
  int count;           /* that the call has asked for */
  ap_map *made;        /* AP_MAPS_MAX: they are noted there; NULL: nowhere */
  int addresses_alone; /* 1: notes all but their words, which are neither made nor written */
} ap_maps;

/** Writes the map of a view: the swizzle of its box's lines, 128, 64 or 32 bytes, and zeros for
 * what lies outside. `map`: 128 bytes, 64-byte aligned; `name` is for the sentence of a failure. */
attnpress_status ap_view_encode(ap_maps *maps, const ap_view *view, const char *name, void *map);

/* ---- Pixels: the copy engine's im2col mode --------------------------------------------------- */

enum {
  AP_PIXELS_CORNER_MIN = -128, /* of a box of pixels, beside the image */
  AP_PIXELS_CORNER_MAX = 127,
  AP_PIXELS_OFFSET_MAX = 255, /* of a tap */
  AP_PIXELS_STEP_MAX = 8,
};

/** Images (N, H, W, C) of 16-bit elements, of which a copy takes so many pixels, one after the
 * other, and 16, 32 or 64 of their channels. Pairs are of the height and the width: pixels begin,
 * step, ... count of them, each seen through a tap that the copy names. */
typedef struct ap_pixels {
  void *data; /* device memory, 16-byte aligned */
  int data_type;
  int64_t extents[4]; /* N, H, W, C */
  int64_t strides[3]; /* in elements, ignored where the extent is 1 */
  int64_t begin[2], count[2];
  int32_t step[2];
  int32_t pixels, channels;
} ap_pixels;

/** 1 where the driver takes such images. */
int ap_pixels_fit(const ap_pixels *pixels);

/** Writes their map, as ap_view_encode does; always anew. */
attnpress_status ap_pixels_encode(ap_maps *maps, const ap_pixels *pixels, const char *name,
                                  void *map);
