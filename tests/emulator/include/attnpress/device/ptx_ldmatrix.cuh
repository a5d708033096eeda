// Stands in for the leaf header of the same name.
#pragma once

#include "attnpress/args/common.h"

// ldmatrix.sync.aligned.m8n8.x1.shared.b16 (PTX ISA, Warp Level Matrix Instructions: ldmatrix).
__device__ __forceinline__ void ldmatrix_x1(uint32_t *fragment, uint32_t shared) {
  emulated_ldmatrix(fragment, shared, 1, 0);
}

// ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16
__device__ __forceinline__ void ldmatrix_x1_trans(uint32_t *fragment, uint32_t shared) {
  emulated_ldmatrix(fragment, shared, 1, 1);
}

// ldmatrix.sync.aligned.m8n8.x2.shared.b16
__device__ __forceinline__ void ldmatrix_x2(uint32_t *fragment, uint32_t shared) {
  emulated_ldmatrix(fragment, shared, 2, 0);
}

// ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t *fragment, uint32_t shared) {
  emulated_ldmatrix(fragment, shared, 2, 1);
}

// ldmatrix.sync.aligned.m8n8.x4.shared.b16
__device__ __forceinline__ void ldmatrix_x4(uint32_t *fragment, uint32_t shared) {
  emulated_ldmatrix(fragment, shared, 4, 0);
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t *fragment, uint32_t shared) {
  emulated_ldmatrix(fragment, shared, 4, 1);
}
