// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// ex2.approx.ftz.f32 (PTX ISA, Floating Point Instructions: ex2).
__device__ __forceinline__ float exp2_approx(float x) {
  return emulated_exp2(x);
}

// lg2.approx.ftz.f32 (PTX ISA, lg2).
__device__ __forceinline__ float log2_approx(float x) {
  return emulated_log2(x);
}

// rsqrt.approx.ftz.f32 (PTX ISA, rsqrt).
__device__ __forceinline__ float reciprocal_sqrt_approx(float x) {
  return emulated_reciprocal_sqrt(x);
}

// rcp.approx.ftz.f32 (PTX ISA, rcp).
__device__ __forceinline__ float reciprocal_approx(float x) {
  return emulated_reciprocal(x);
}

__device__ __forceinline__ float tanh_approx(float x) {
  return emulated_tanh(x);
}

// fma.rn.f32 (PTX ISA, fma).
__device__ __forceinline__ float multiply_add_once(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
