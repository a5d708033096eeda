// Leaf header: what warpgroups of a thread block do with one another. One PTX instruction a
// function.
#pragma once

#include "attnpress/args/common.h"

// bar.sync: arrives at named barrier `barrier` (1 to 15) and waits until `threads` threads have
// arrived, by bar.sync or bar.arrive.
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// bar.arrive: arrives at named barrier `barrier` and goes on.
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// bar.red.and: the same as bar.sync, and whether `predicate` holds in all of the threads.
__device__ __forceinline__ bool named_barrier_all(int barrier, int threads, bool predicate) {
  int result;
  asm volatile("{\n\t"
               ".reg .pred one, all;\n\t"
               "setp.ne.s32 one, %3, 0;\n\t"
               "bar.red.and.pred all, %1, %2, one;\n\t"
               "selp.s32 %0, 1, 0, all;\n\t"
               "}"
               : "=r"(result)
               : "r"(barrier), "r"(threads), "r"((int)predicate)
               : "memory");
  return result != 0;
}

// setmaxnreg.inc.sync.aligned.u32: waits until the block's pool has them, then this warpgroup's
// threads have `registers` registers each. A macro, because the count must be a literal.
#define increase_registers(registers)                                                              \
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers))

// setmaxnreg.dec.sync.aligned.u32: gives the registers beyond `registers` back to the block's pool.
#define decrease_registers(registers)                                                              \
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers))
