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
