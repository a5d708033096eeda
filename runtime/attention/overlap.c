/* Strides against the spans below them, from the narrowest dimension to the widest. */
#include "attention/overlap.h"

/** Whether rows nest as most do, each dimension around those behind it. */
static inline int nest_in_order(int dimensions, const int64_t *extent, const int64_t *stride,
                                int64_t span) {
  for (int i = dimensions - 1; i >= 0; --i) {
    int64_t reach;
    if (extent[i] == 1)
      continue;
    if (stride[i] < span || __builtin_mul_overflow(extent[i] - 1, stride[i], &reach) ||
        __builtin_add_overflow(reach, span, &span))
      return 0;
  }
  return 1;
}

int ap_rows_overlap(int dimensions, const int64_t *extent, const int64_t *stride,
                    int64_t row_elements) {
  if (nest_in_order(dimensions, extent, stride, row_elements))
    return 0;
  int done[4] = {0};
  int64_t span = row_elements; /* of the dimensions that are done */
  for (int i = 0; i < dimensions; ++i) {
    if (extent[i] == 0 || row_elements == 0)
      return 0;
    done[i] = extent[i] == 1;
  }
  for (;;) {
    int next = -1;
    for (int i = 0; i < dimensions; ++i)
      if (!done[i] && (next < 0 || stride[i] < stride[next]))
        next = i;
    if (next < 0)
      return 0;
    int64_t reach;
    if (stride[next] < span || __builtin_mul_overflow(extent[next] - 1, stride[next], &reach) ||
        __builtin_add_overflow(reach, span, &span))
      return 1;
    done[next] = 1;
  }
}
