// Leaf header: barriers in shared memory that count arrivals and bytes. One PTX instruction a
// function. A barrier is 8 bytes at a shared address, aligned to 8.
//
// A phase completes once `count` arrivals have come and no bytes are outstanding; the next phase
// then begins with the same count. Phases alternate in parity: the first has parity 0. A wait for a
// parity returns once the phase of that parity has completed, so that on a fresh barrier a wait for
// parity 1 returns at once.
#pragma once

#include "attnpress/args/common.h"

// mbarrier.init.shared::cta.b64
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// fence.mbarrier_init.release.cluster: shows this thread's inits to the copy engine. Other threads
// see them after a barrier.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// mbarrier.arrive.release.cta.shared::cta.b64: one arrival.
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// mbarrier.arrive.expect_tx.release.cta.shared::cta.b64: one arrival, after which this phase also
// awaits `bytes` more bytes.
__device__ __forceinline__ void mbarrier_arrive_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

// mbarrier.try_wait.parity.acquire.cta.shared::cta.b64: whether the phase of `parity` has
// completed; may suspend the thread for a while before it answers no.
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, int parity) {
  int done;
  asm volatile("{\n"
               ".reg .pred done;\n"
               "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\n"
               "selp.s32 %0, 1, 0, done;\n"
               "}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
