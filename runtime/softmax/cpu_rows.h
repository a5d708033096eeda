/* One row of a softmax on the CPU, built once for each instruction set. */
#pragma once
#include <stdint.h>

/** A row: pointers to its first element, aligned to an element. */
typedef struct ap_softmax_row {
  const void *input[2]; /* fwd: x; bwd: y, dy; (columns) */
  void *output;         /* (columns); may be an input */
  int64_t columns;
  int32_t dtype;
  float scale;
} ap_softmax_row;

typedef void ap_softmax_row_function(const ap_softmax_row *row);
ap_softmax_row_function ap_softmax_row_forward_plain, ap_softmax_row_backward_plain;
#if defined(__x86_64__)
ap_softmax_row_function ap_softmax_row_forward_avx2, ap_softmax_row_backward_avx2;
ap_softmax_row_function ap_softmax_row_forward_avx512, ap_softmax_row_backward_avx512;
#endif
