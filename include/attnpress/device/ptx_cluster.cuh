// Leaf header: thread blocks of a cluster, which run at the same time. One PTX instruction a
// function.
#pragma once

#include "attnpress/args/common.h"

// barrier.cluster.arrive.release: arrives at the cluster's barrier and goes on. Its phase completes
// once all threads of the cluster that have not exited have arrived; a thread waits for a phase
// before it arrives at the next.
__device__ __forceinline__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

// barrier.cluster.wait.acquire: waits for the phase that this thread has arrived at.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

// mapa.shared::cluster.u32: where what lies at a shared address of this thread block lies in the
// cluster's thread block `rank`, for instructions that reach there.
__device__ __forceinline__ uint32_t cluster_address(uint32_t shared, int rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
  return address;
}

// st.shared::cluster.v2.f32: 8 bytes to the shared memory of a block of the cluster, which has begun
// and has not ended. It sees them behind the cluster's barrier.
__device__ __forceinline__ void store_8_cluster(uint32_t address, float2 pair) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(pair.x), "f"(pair.y)
               : "memory");
}

// st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32: the same, and 8 bytes less that the
// phase of `barrier`, in the same block's shared memory, awaits. Who waits for the phase sees them;
// nothing else that this thread has written is waited for.
__device__ __forceinline__ void send_8_cluster(uint32_t address, float2 pair, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
          address),
      "f"(pair.x), "f"(pair.y), "r"(barrier)
      : "memory");
}
