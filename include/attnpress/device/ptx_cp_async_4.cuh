// Leaf header: asynchronous copies of single words from global to shared memory. One PTX instruction a
// function; groups and waits are those of ptx_cp_async.cuh.
#pragma once

#include "attnpress/args/common.h"

// cp.async.ca.shared.global 4 bytes. Copies `bytes` (0 or 4) bytes from `global`, or zeros; with 0 bytes,
// `global` is not read. Both addresses are 4-byte aligned.
__device__ __forceinline__ void cp_async_4(uint32_t shared, const void *global, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}
