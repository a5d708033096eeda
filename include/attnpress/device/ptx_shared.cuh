// Leaf header: shared memory by its addresses. One PTX instruction a function.
//
// What is read by a pointer has the address made anew, from a special register, wherever the
// compiler sees fit. An address that it is given is but a register.
#pragma once

#include "attnpress/args/common.h"

// ld.shared.v4.u32. address: a multiple of 16
__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 vector;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
               : "r"(address)
               : "memory");
  return vector;
}

// ld.shared.v4.u32: 16 bytes, or 0. address: a multiple of 16
__device__ __forceinline__ uint4 load_shared_16_if(bool condition, uint32_t address) {
  uint4 vector = {0, 0, 0, 0};
  asm volatile("{\n"
               ".reg .pred condition;\n"
               "setp.ne.s32 condition, %5, 0;\n"
               "@condition ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               "}"
               : "+r"(vector.x), "+r"(vector.y), "+r"(vector.z), "+r"(vector.w)
               : "r"(address), "r"((int)condition)
               : "memory");
  return vector;
}

// ld.shared.v4.f32. address: a multiple of 16
__device__ __forceinline__ float4 load_shared_float4(uint32_t address) {
  float4 four;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
               : "r"(address)
               : "memory");
  return four;
}

// st.shared.v2.f32. address: a multiple of 8
__device__ __forceinline__ void store_shared_8(uint32_t address, float2 pair) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(pair.x), "f"(pair.y)
               : "memory");
}
