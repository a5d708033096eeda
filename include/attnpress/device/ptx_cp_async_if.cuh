// Leaf header: asynchronous copies of 16 bytes from global to shared memory, predicated. One PTX
// instruction a function; groups and waits are those of ptx_cp_async.cuh.
#pragma once

#include "attnpress/args/common.h"

// cp.async.cg.shared.global 16 bytes, past L1, where the condition holds. Both addresses are 16-byte
// aligned.
__device__ __forceinline__ void cp_async_16_if(bool condition, uint32_t shared,
                                               const void *global) {
  asm volatile("{\n"
               ".reg .pred some;\n"
               "setp.ne.s32 some, %2, 0;\n"
               "@some cp.async.cg.shared.global [%0], [%1], 16;\n"
               "}" ::"r"(shared),
               "l"(global), "r"((int)condition)
               : "memory");
}
