/* Softmax kernels under the emulator: a kernel, a shape, random inputs, and the comparison with
 * float64. */
#pragma once
#include <stdint.h>
#include <stdio.h>

#include "forward.h"
#include "../../tools/softmax/reference.h"

typedef enum softmax_layout {
  SOFTMAX_PACKED,       /* rows without gaps */
  SOFTMAX_ODD,          /* rows begin at any element, all tensors at the same ones */
  SOFTMAX_MIXED,        /* each tensor at others */
  SOFTMAX_FAR,          /* rows more than 2^31 elements apart */
  SOFTMAX_SHIFTED,      /* rows without gaps; each tensor begins at another element */
  SOFTMAX_INPUT_APART,  /* gaps between the inputs' rows alone */
  SOFTMAX_OUTPUT_APART, /* and between the output's */
  SOFTMAX_LAYOUTS
} softmax_layout;

typedef struct softmax_shape {
  int64_t rows, columns;
  softmax_layout layout;
  int in_place; /* the output over the last input */
  int special;  /* some rows hold -inf, nothing but -inf, NaN, inf */
  float scale;
} softmax_shape;

/** Runs a kernel on a shape and compares the result: 0, or -1 with the fault in `report`
 * (EMULATED_REPORT_BYTES). */
int softmax_run(const kernel *k, const softmax_shape *s, uint64_t seed, softmax_error *error,
                char *report);
