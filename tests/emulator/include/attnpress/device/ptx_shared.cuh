// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// ld.shared.v4.u32 (PTX ISA, ld).
__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 vector;
  emulated_load_shared(address, &vector, 16);
  return vector;
}

// ld.shared.v4.u32, if the predicate holds.
__device__ __forceinline__ uint4 load_shared_16_if(bool condition, uint32_t address) {
  uint4 vector = {0, 0, 0, 0};
  if (condition)
    emulated_load_shared(address, &vector, 16);
  return vector;
}

// ld.shared.v4.f32
__device__ __forceinline__ float4 load_shared_float4(uint32_t address) {
  float4 four;
  emulated_load_shared(address, &four, 16);
  return four;
}

// st.shared.v2.f32 (PTX ISA, st).
__device__ __forceinline__ void store_shared_8(uint32_t address, float2 pair) {
  emulated_store_shared(address, &pair, 8);
}
