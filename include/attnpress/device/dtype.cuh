// The 16-bit types of Q, K, V, P and the output.
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/ptx_cvt.cuh"

enum Dtype { FP16, BF16 };

// Rounds two values to nearest even: `low` in bits 0-15, `high` in bits 16-31.
__device__ __forceinline__ uint32_t pack(Dtype dtype, float low, float high) {
  return dtype == FP16 ? pack_fp16(low, high) : pack_bf16(low, high);
}
