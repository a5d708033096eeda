// The derivative of a caller's text by what it reads, where gradients of its buffers are wanted. The text
// is run over again for each of its reads: the number that read `wanted` gives is then the variable of
// the dual numbers (dual.cuh), all others are constants. So two reads of one element each have their
// part, and branches and loops mean what they say.
#pragma once

#include "attnpress/args/score_mod.h"
#include "attnpress/device/dual.cuh"
#include "attnpress/device/snippet.cuh"

struct SnippetTrace {
  const attnpress_mod_gradients *gradients;
  int wanted;   // the read that is the variable
  int count;    // reads so far
  float *place; // where the gradient of its element lies; nullptr until it was read
};

// Floats from the start of a buffer's gradient to an index of dimension `dim`, clamped as it is where
// the buffer is read.
__device__ __forceinline__ int64_t snippet_gradient_step(const attnpress_mod_args *mod,
                                                         const SnippetTrace *trace, int buffer,
                                                         int dim, int index) {
  return clampi(index, 0, mod->buffer[buffer].extent[dim] - 1) *
         trace->gradients->buffer[buffer].stride[dim];
}

// A number that was read from a buffer; the gradient of its element lies at `at`.
__device__ __forceinline__ SnippetDual snippet_read(SnippetTrace *trace, int buffer, int64_t at,
                                                    float value) {
  const bool is_variable = trace->count++ == trace->wanted;
  if (is_variable)
    trace->place = trace->gradients->buffer[buffer].data + at;
  return {value, is_variable ? 1.0f : 0.0f};
}
