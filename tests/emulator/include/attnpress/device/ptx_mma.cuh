// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 (PTX ISA, Warp Level Matrix Instructions: mma).
__device__ __forceinline__ void mma_m16n8k16_fp16(float *d, const uint32_t *a, const uint32_t *b) {
  emulated_mma_m16n8(d, a, b, 16, EMULATED_FP16);
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
__device__ __forceinline__ void mma_m16n8k16_bf16(float *d, const uint32_t *a, const uint32_t *b) {
  emulated_mma_m16n8(d, a, b, 16, EMULATED_BF16);
}

// mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32
__device__ __forceinline__ void mma_m16n8k8_fp16(float *d, const uint32_t *a, const uint32_t *b) {
  emulated_mma_m16n8(d, a, b, 8, EMULATED_FP16);
}

// mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
__device__ __forceinline__ void mma_m16n8k8_bf16(float *d, const uint32_t *a, const uint32_t *b) {
  emulated_mma_m16n8(d, a, b, 8, EMULATED_BF16);
}
