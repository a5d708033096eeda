/* Backward kernels of ragged batches under the emulator, each by itself: what the kernels before it
 * give comes from the host. */
#pragma once
#include <stdio.h>

#include "ragged.h"

/** Runs a kernel over the table of batches, up to the first that fails: 0, or 1, and says so. *shapes
 * counts. */
int run_ragged_backward_shapes(const kernel *k, const score_shape *scores, FILE *out, int *shapes);
/** Runs a kernel on one batch, whose keys lie one after the other. 0; or -1 with the reason in
 * `report`. */
int run_ragged_backward_batch(const kernel *k, const ragged_run *r, const score_shape *scores,
                              uint64_t seed, char *report);
