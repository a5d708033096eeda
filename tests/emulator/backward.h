/* Backward kernels under the emulator, each by itself: what the kernels before it give comes from the
 * host. */
#pragma once
#include <stdio.h>

#include "forward.h"

/** Whether a kernel is of a backward pass. */
int is_backward(const kernel *k);
/** Whether it may begin before bwd_delta has ended, or what comes between; bwd_delta itself begins when
 * all that was launched earlier has ended. */
int backward_overlaps(const kernel *k);
/** Runs a kernel over a table of shapes, up to the first that fails: 0, or 1, and says so. *shapes
 * counts. */
int run_backward_shapes(const kernel *k, FILE *out, int *shapes);
/** Runs a kernel of dense calls on one shape, with random inputs; what a plan would choose beside the
 * kernels takes turns. 0; or -1 with the reason in `report`. */
int run_backward_shape(const kernel *k, const shape *s, uint64_t seed, char *report);
