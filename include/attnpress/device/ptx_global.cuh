// Leaf header: accesses to global memory that only happen under a condition, without a branch. One
// PTX instruction a function, and what sets its predicate. Addresses are multiples of the size.
#pragma once

#include "attnpress/args/common.h"

// ld.global.u16: 2 bytes, or `otherwise`.
__device__ __forceinline__ uint32_t load_2_if(bool condition, const void *address,
                                              uint32_t otherwise) {
  uint16_t bits = (uint16_t)otherwise;
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %2, 0;\n"
               "@condition ld.global.u16 %0, [%1];\n"
               "}"
               : "+h"(bits)
               : "l"(address), "r"((int)condition)
               : "memory");
  return bits;
}

// ld.global.u32: 4 bytes, or `otherwise`.
__device__ __forceinline__ uint32_t load_4_if(bool condition, const void *address,
                                              uint32_t otherwise) {
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %2, 0;\n"
               "@condition ld.global.u32 %0, [%1];\n"
               "}"
               : "+r"(otherwise)
               : "l"(address), "r"((int)condition)
               : "memory");
  return otherwise;
}

// ld.global.v4.u32: 16 bytes, or four times `otherwise`.
__device__ __forceinline__ uint4 load_16_if(bool condition, const void *address,
                                            uint32_t otherwise) {
  uint4 vector = {otherwise, otherwise, otherwise, otherwise};
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %5, 0;\n"
               "@condition ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               "}"
               : "+r"(vector.x), "+r"(vector.y), "+r"(vector.z), "+r"(vector.w)
               : "l"(address), "r"((int)condition)
               : "memory");
  return vector;
}

// st.global.u16: the lower 2 bytes of `bits`.
__device__ __forceinline__ void store_2_if(bool condition, void *address, uint32_t bits) {
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %2, 0;\n"
               "@condition st.global.u16 [%0], %1;\n"
               "}" ::"l"(address),
               "h"((uint16_t)bits), "r"((int)condition)
               : "memory");
}

// st.global.u32
__device__ __forceinline__ void store_4_if(bool condition, void *address, uint32_t bits) {
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %2, 0;\n"
               "@condition st.global.u32 [%0], %1;\n"
               "}" ::"l"(address),
               "r"(bits), "r"((int)condition)
               : "memory");
}

// st.global.v4.u32
__device__ __forceinline__ void store_16_if(bool condition, void *address, uint4 vector) {
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %5, 0;\n"
               "@condition st.global.v4.u32 [%0], {%1, %2, %3, %4};\n"
               "}" ::"l"(address),
               "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w), "r"((int)condition)
               : "memory");
}

// st.global.cs.v4.u32: what nobody reads soon, so that caches give it up first.
__device__ __forceinline__ void stream_16_if(bool condition, void *address, uint4 vector) {
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %5, 0;\n"
               "@condition st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};\n"
               "}" ::"l"(address),
               "r"(vector.x), "r"(vector.y), "r"(vector.z), "r"(vector.w), "r"((int)condition)
               : "memory");
}
