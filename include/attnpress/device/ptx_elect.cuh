// Leaf header: one lane of a warp. One PTX instruction a function.
#pragma once

#include "attnpress/args/common.h"

// elect.sync: true in one lane of a whole warp, always the same. Called by all lanes. What is done by
// that lane alone the compiler knows to be done once for the warp, which `lane == 0` does not tell it.
__device__ __forceinline__ bool elect_lane() {
  uint32_t elected;
  asm volatile("{\n"
               ".reg .pred p;\n"
               "elect.sync _|p, 0xffffffff;\n"
               "selp.b32 %0, 1, 0, p;\n"
               "}"
               : "=r"(elected));
  return elected != 0;
}
