// Leaf header: approximate functions of the special-function unit. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// ex2.approx.ftz.f32: 2^x, relative error 2^-22; 2^-inf = +0, results below 2^-126 are 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// lg2.approx.ftz.f32: log2(x), absolute error 2^-22 around 1; log2(0) = -inf.
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// rsqrt.approx.ftz.f32: 1 / sqrt(x), relative error 2^-22.9; rsqrt(+0) = inf.
__device__ __forceinline__ float reciprocal_sqrt_approx(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// rcp.approx.ftz.f32: 1 / x, relative error 2^-23.
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// tanh.approx.f32: the hyperbolic tangent, relative error 2^-11.
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// fma.rn.f32: a * b + c, rounded once. Written out where kernels are to have the same bits.
__device__ __forceinline__ float multiply_add_once(float a, float b, float c) {
  float y;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
  return y;
}
