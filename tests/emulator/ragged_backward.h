/* Backward kernels of ragged batches under the emulator, each by itself: what the kernels before it
 * give comes from the host. */
#pragma once
#include <stdio.h>

#include "forward.h"

/** Runs a kernel over the table of batches, up to the first that fails: 0, or 1, and says so. *shapes
 * counts. */
int run_ragged_backward_shapes(const kernel *k, const score_shape *scores, FILE *out, int *shapes);
