// Leaf header: special registers, read anew at each call: what follows from them need not stay in
// registers over a long loop, as it would with the built-in variables. One PTX instruction a
// function.
#pragma once

#include "attnpress/args/common.h"

// mov.u32 %ctaid.x: blockIdx.x.
__device__ __forceinline__ int read_block_index() {
  int index;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(index));
  return index;
}

// mov.u32 %tid.x: threadIdx.x.
__device__ __forceinline__ int read_thread_index() {
  int index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}
