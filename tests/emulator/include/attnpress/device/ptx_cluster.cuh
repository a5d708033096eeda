// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// barrier.cluster.arrive (PTX ISA, barrier.cluster).
__device__ __forceinline__ void cluster_arrive() {
  emulated_cluster_arrive();
}

// barrier.cluster.wait
__device__ __forceinline__ void cluster_wait() {
  emulated_cluster_wait();
}

// mapa.shared::cluster
__device__ __forceinline__ uint32_t cluster_address(uint32_t shared, int rank) {
  return emulated_cluster_address(shared, rank);
}

// st.shared::cluster (PTX ISA, st)
__device__ __forceinline__ void store_8_cluster(uint32_t address, float2 pair) {
  emulated_store_8_cluster(address, pair.x, pair.y);
}

// st.async (PTX ISA, st.async)
__device__ __forceinline__ void send_8_cluster(uint32_t address, float2 pair, uint32_t barrier) {
  emulated_send_8_cluster(address, pair.x, pair.y, barrier);
}
