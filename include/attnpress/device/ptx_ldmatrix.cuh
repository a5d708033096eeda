// Leaf header: matrix fragments from shared memory. One PTX instruction a function.
//
// A matrix is 8 rows of 16 bytes (8 elements of 16 bits). Lanes 0-7 give the row addresses of the
// first matrix, lanes 8-15 those of the second, and so on; each address is 16-byte aligned.
// Afterwards lane l holds, of each matrix, the elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4;
// with _trans, of column l / 4 instead. The lower-numbered element is in the lower half of the
// register.
#pragma once

#include "attnpress/args/common.h"

// ldmatrix.sync.aligned.m8n8.x1.shared.b16: 1 matrix.
__device__ __forceinline__ void ldmatrix_x1(uint32_t *fragment, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(fragment[0])
               : "r"(shared)
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16: 1 matrix, transposed.
__device__ __forceinline__ void ldmatrix_x1_trans(uint32_t *fragment, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(fragment[0])
               : "r"(shared)
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x2.shared.b16: 2 matrices.
__device__ __forceinline__ void ldmatrix_x2(uint32_t *fragment, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(fragment[0]), "=r"(fragment[1])
               : "r"(shared)
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16: 2 matrices, transposed.
__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t *fragment, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(fragment[0]), "=r"(fragment[1])
               : "r"(shared)
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x4.shared.b16: 4 matrices.
__device__ __forceinline__ void ldmatrix_x4(uint32_t *fragment, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16: 4 matrices, transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t *fragment, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}
