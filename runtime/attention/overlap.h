/* Whether what a call writes lies apart. */
#pragma once
#include <stdint.h>

/** 1 where rows of `row_elements` contiguous elements, laid out by extents and strides (in
 * elements, not negative), do not nest: sorted, each stride must be at least the span of all that
 * lies below it. Two elements may then coincide; rows that interleave without meeting count too.
 * Dimensions of extent 1 may have any stride, and where an extent is 0 nothing overlaps. At most 4
 * dimensions. */
int ap_rows_overlap(int dimensions, const int64_t *extent, const int64_t *stride,
                    int64_t row_elements);
