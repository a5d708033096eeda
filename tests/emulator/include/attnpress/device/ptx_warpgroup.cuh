// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// bar.sync (PTX ISA, barrier).
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  emulated_named_barrier_sync(barrier, threads);
}

// bar.arrive
__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
  emulated_named_barrier_arrive(barrier, threads);
}

// bar.red.and
__device__ __forceinline__ bool named_barrier_all(int barrier, int threads, bool predicate) {
  return emulated_named_barrier_all(barrier, threads, predicate) != 0;
}

// setmaxnreg (PTX ISA, setmaxnreg).
#define increase_registers(registers) emulated_set_registers(registers, 1)
#define decrease_registers(registers) emulated_set_registers(registers, 0)
