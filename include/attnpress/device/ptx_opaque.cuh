// Leaf header: no instruction at all. What goes through here is, to the compiler, a new value: it
// neither keeps what it has made of the old one, nor moves the making out of a loop.
#pragma once

#include "attnpress/args/common.h"

// The same bits.
__device__ __forceinline__ uint32_t opaque(uint32_t bits) {
  asm volatile("" : "+r"(bits));
  return bits;
}
