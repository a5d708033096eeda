// What the texts of a caller's snippet for scores and masks may use.
#pragma once

#include "attnpress/args/score_mod.h"
#include "attnpress/device/ptx_widen.cuh"
#include "attnpress/device/snippet.cuh"

// `score`: a float that no comparison may be assigned to.
struct SnippetScore {
  float value;
  __device__ __forceinline__ operator float() const {
    return value;
  }
  __device__ __forceinline__ void operator=(float x) {
    value = x;
  }
  __device__ __forceinline__ void operator=(double x) {
    value = (float)x;
  }
  __device__ __forceinline__ void operator=(int x) {
    value = (float)x;
  }
  __device__ __forceinline__ void operator+=(float x) {
    value += x;
  }
  __device__ __forceinline__ void operator-=(float x) {
    value -= x;
  }
  __device__ __forceinline__ void operator*=(float x) {
    value *= x;
  }
  __device__ __forceinline__ void operator/=(float x) {
    value /= x;
  }
  void operator=(bool) = delete;
};

// Elements from the start of a buffer to an index of dimension `dim`, which is clamped.
__device__ __forceinline__ int64_t snippet_step(const attnpress_mod_args *mod, int buffer, int dim,
                                                int index) {
  const attnpress_mod_buffer *from = &mod->buffer[buffer];
  return clampi(index, 0, from->extent[dim] - 1) * from->stride[dim];
}

__device__ __forceinline__ float snippet_fp16(const attnpress_mod_args *mod, int buffer,
                                              int64_t at) {
  return widen_fp16(((const uint16_t *)mod->buffer[buffer].data)[at]);
}

__device__ __forceinline__ float snippet_bf16(const attnpress_mod_args *mod, int buffer,
                                              int64_t at) {
  const uint32_t bits = ((const uint16_t *)mod->buffer[buffer].data)[at];
  return __builtin_bit_cast(float, bits << 16);
}

__device__ __forceinline__ float snippet_fp32(const attnpress_mod_args *mod, int buffer,
                                              int64_t at) {
  return ((const float *)mod->buffer[buffer].data)[at];
}

__device__ __forceinline__ int snippet_int32(const attnpress_mod_args *mod, int buffer,
                                             int64_t at) {
  return ((const int *)mod->buffer[buffer].data)[at];
}

// A row as a text knows it: batch, query head, key head, query. One that is not there has the
// numbers of one that is.
struct SnippetRow {
  int b, h, h_kv, q;
};
