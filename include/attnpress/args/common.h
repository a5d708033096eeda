/* What the argument structs of all families share: integer types that NVRTC has too, which finds no
 * header of the host's, assertions about a struct's layout, and the values that fill several
 * structs. Host and device compile this same text. NVRTC has no offsetof in constant expressions:
 * the host asserts the offsets, both assert the sizes, and no struct has holes. */
#pragma once

#if defined(__CUDACC_RTC__)
typedef int int32_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stddef.h>
#include <stdint.h>
#endif

#if defined(__cplusplus)
#define ATTNPRESS_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define ATTNPRESS_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif
#if defined(__CUDACC_RTC__)
#define ATTNPRESS_ASSERT_OFFSET(type, field, bytes)
#else
#define ATTNPRESS_ASSERT_OFFSET(type, field, bytes)                                                \
  ATTNPRESS_STATIC_ASSERT(offsetof(type, field) == bytes, #type "." #field);
#endif

#if defined(__CUDACC__)
#define ATTNPRESS_ALIGNED_64 __align__(64)
#else
#define ATTNPRESS_ALIGNED_64 __attribute__((aligned(64)))
#endif

/* What the copy engine knows of a tensor: the driver's CUtensorMap. */
typedef struct attnpress_tensor_map {
  uint64_t words[16];
} ATTNPRESS_ALIGNED_64 attnpress_tensor_map;

/* A positive divisor of integers from 0 to 2^31 - 1: n / value = (n * multiplier) >> shift, in 64
 * bits, where shift = 31 + ceil(log2(value)) and multiplier = ceil(2^shift / value). */
typedef struct attnpress_divisor {
  int32_t value;
  uint32_t multiplier, shift;
} attnpress_divisor;
