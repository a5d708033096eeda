// What CUDA C has and C++ has not, for kernels that clang compiles for the host. Included before
// the kernel's first line; the kernel's text stays as it is.
#pragma once

#include "emulated_ops.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

// Shared memory is the thread-local segment of the kernel's module: its variables need no other
// storage class, with `extern` or without. `smem` is the one that has its size from the launch.
#define __shared__ thread_local
extern "C" {
thread_local __align__(1024) unsigned char smem[EMULATED_SHARED_BYTES_MAX];
unsigned char *emulated_dynamic_shared() {
  return smem;
}
}

// As vectors of clang, they are loaded and stored by one access, whose alignment can be seen.
typedef float float2 __attribute__((ext_vector_type(2)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef uint32_t uint2 __attribute__((ext_vector_type(2)));
typedef uint32_t uint4 __attribute__((ext_vector_type(4)));

struct emulated_index {
  unsigned x;
};
#define threadIdx       (emulated_index{emulated_thread_index()})
#define blockIdx        (emulated_index{emulated_block_index()})
#define gridDim         (emulated_index{emulated_grid_size()})
#define __syncthreads() emulated_barrier()

static inline void __syncwarp() {
  emulated_warp_barrier();
}
static inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
static inline uint32_t __ballot_sync(uint32_t lanes, int predicate) {
  return emulated_ballot(lanes, predicate);
}
static inline int __reduce_add_sync(uint32_t lanes, int value) {
  return (int)emulated_reduce_add(lanes, (uint32_t)value);
}
static inline int __any_sync(uint32_t lanes, int predicate) {
  return emulated_any(lanes, predicate);
}

#define EMULATED_SHUFFLES(type)                                                                    \
  static inline type __shfl_xor_sync(uint32_t lanes, type value, int mask) {                       \
    return __builtin_bit_cast(                                                                     \
        type, emulated_shuffle_xor(lanes, __builtin_bit_cast(uint32_t, value), mask));             \
  }                                                                                                \
  static inline type __shfl_sync(uint32_t lanes, type value, int from) {                           \
    return __builtin_bit_cast(                                                                     \
        type, emulated_shuffle_index(lanes, __builtin_bit_cast(uint32_t, value), from));           \
  }
EMULATED_SHUFFLES(int)
EMULATED_SHUFFLES(uint32_t)
EMULATED_SHUFFLES(float)
#undef EMULATED_SHUFFLES

/* As the compiler makes it: two shuffles, of the lower word and of the upper one. */
static inline int64_t __shfl_sync(uint32_t lanes, int64_t value, int from) {
  const uint32_t lower = __shfl_sync(lanes, (uint32_t)value, from);
  const uint32_t upper = __shfl_sync(lanes, (uint32_t)((uint64_t)value >> 32), from);
  return (int64_t)((uint64_t)upper << 32 | lower);
}

#define EMULATED_MIN_MAX(type)                                                                     \
  static inline type min(type a, type b) {                                                         \
    return b < a ? b : a;                                                                          \
  }                                                                                                \
  static inline type max(type a, type b) {                                                         \
    return a < b ? b : a;                                                                          \
  }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(float)
#undef EMULATED_MIN_MAX

// What the compiler makes of copies of structs and initial values of arrays.
extern "C" {
__attribute__((used, visibility("hidden"), no_sanitize("thread"))) void *
memcpy(void *to, const void *from, __SIZE_TYPE__ bytes) {
  return emulated_memcpy(to, from, bytes, __builtin_return_address(0));
}
__attribute__((used, visibility("hidden"), no_sanitize("thread"))) void *
memset(void *to, int value, __SIZE_TYPE__ bytes) {
  return emulated_memset(to, value, bytes, __builtin_return_address(0));
}
}

// C's, for snippets: those of the host's library.
extern "C" {
#define EMULATED_MATH(name) float name(float) noexcept;
EMULATED_MATH(tanhf)
EMULATED_MATH(expf)
EMULATED_MATH(exp2f)
EMULATED_MATH(logf)
EMULATED_MATH(log2f)
EMULATED_MATH(log1pf)
EMULATED_MATH(sqrtf)
EMULATED_MATH(floorf)
EMULATED_MATH(ceilf)
EMULATED_MATH(sinf)
EMULATED_MATH(cosf)
EMULATED_MATH(erff)
#undef EMULATED_MATH
float powf(float, float) noexcept;
int abs(int) noexcept;
}

// max.f32 (PTX ISA, Floating Point Instructions): the operand that is a number, where
// one is NaN; the canonical NaN, where both are; -0 is less than +0.
static inline float fmaxf(float a, float b) {
  if (a != a && b != b)
    return __builtin_bit_cast(float, 0x7fffffff);
  if (a != a || b != b)
    return a != a ? b : a;
  return a > b || (a == b && !__builtin_signbit(a)) ? a : b;
}

static inline float fminf(float a, float b) {
  return a != a && b != b ? fmaxf(a, b) : -fmaxf(-a, -b);
}

// abs.f32: the sign bit goes.
static inline float fabsf(float x) {
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x) & 0x7fffffff);
}
