// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// mov.u32 %ctaid.x (PTX ISA, Special Registers: %ctaid).
__device__ __forceinline__ int read_block_index() {
  return emulated_block_index();
}

// mov.u32 %tid.x (PTX ISA, Special Registers: %tid).
__device__ __forceinline__ int read_thread_index() {
  return emulated_thread_index();
}
