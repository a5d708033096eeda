// Outer products whose c is one run of vectors of 16 bytes, wherever its rows begin: what a vector
// is of, where the row that it begins in may end within it.
#pragma once

#include "attnpress/device/ptx_pairs.cuh"
#include "attnpress/device/row_vector.cuh"

// Word `word` of a vector of `size` bytes an element: the bits of its elements before number `cut`,
// which is 1 at the least.
__device__ __forceinline__ uint32_t mask_before(int size, int cut, int word) {
  return low_bits(max((cut * size - word * 4) * 8, 0));
}

__device__ __forceinline__ uint32_t choose_bits(uint32_t mask, uint32_t a, uint32_t b) {
  return (a & mask) | (b & ~mask);
}

// An element's bits in all of a word.
__device__ __forceinline__ uint32_t fill_word(int size, uint32_t bits) {
  return size == 2 ? bits | bits << 16 : bits;
}

// The products of two words' elements, each of which is rounded once.
__device__ __forceinline__ uint32_t multiply_fp16(uint32_t a, uint32_t b) {
  return multiply_fp16x2(a, b);
}

__device__ __forceinline__ uint32_t multiply_bf16(uint32_t a, uint32_t b) {
  return multiply_bf16x2(a, b);
}

__device__ __forceinline__ uint32_t multiply_fp32(uint32_t a, uint32_t b) {
  return narrow_element_fp32(widen_element_fp32(a) * widen_element_fp32(b));
}
