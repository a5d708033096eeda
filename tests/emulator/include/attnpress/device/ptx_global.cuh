// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// ld.global, predicated (PTX ISA, ld).
__device__ __forceinline__ uint32_t load_2_if(bool condition, const void *address,
                                              uint32_t otherwise) {
  return condition ? *(const uint16_t *)address : otherwise & 0xffff;
}

__device__ __forceinline__ uint32_t load_4_if(bool condition, const void *address,
                                              uint32_t otherwise) {
  return condition ? *(const uint32_t *)address : otherwise;
}

__device__ __forceinline__ uint4 load_16_if(bool condition, const void *address,
                                            uint32_t otherwise) {
  uint4 vector = {otherwise, otherwise, otherwise, otherwise};
  if (condition)
    vector = *(const uint4 *)address;
  return vector;
}

// st.global, predicated (PTX ISA, st).
__device__ __forceinline__ void store_2_if(bool condition, void *address, uint32_t bits) {
  if (condition)
    *(uint16_t *)address = (uint16_t)bits;
}

__device__ __forceinline__ void store_4_if(bool condition, void *address, uint32_t bits) {
  if (condition)
    *(uint32_t *)address = bits;
}

__device__ __forceinline__ void store_16_if(bool condition, void *address, uint4 vector) {
  if (condition)
    *(uint4 *)address = vector;
}

__device__ __forceinline__ void stream_16_if(bool condition, void *address, uint4 vector) {
  store_16_if(condition, address, vector);
}
