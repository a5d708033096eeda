// What the convolutions' kernels share: places in the dimensions that a product's depth or rows are
// made of, slabs in shared memory and the products of a warp from them, and the end of a tile.
//
// A slab is 64 elements of the depth for all rows, or columns, of a thread block's product. It is
// stored in lines of 128 bytes, whose 16-byte chunks change places: chunk c of line l lies at
// c ^ l % 8, so that eight lines of one chunk column lie in different banks.
//   DEPTH_INSIDE    a line is a row of the product: its elements are the depth
//   DEPTH_ACROSS    a line is one element of the depth, of 64 rows (or columns); 64 lines are a
//                   panel, and panels follow one another
#pragma once

#include "attnpress/args/common.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/product.cuh"
#include "attnpress/device/ptx_global.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"

enum Depth { DEPTH_INSIDE, DEPTH_ACROSS };

constexpr int SLAB = 64;        // elements of the depth
constexpr int LINE_BYTES = 128; // of a slab
constexpr int PANEL_BYTES = 64 * LINE_BYTES;
constexpr int VECTOR = 8; // elements
constexpr int VECTOR_BYTES = 16;
constexpr int NOWHERE = -(1 << 30); // a coordinate that no tap brings back inside

// ---- Places -------------------------------------------------------------------------------------

// A place in three dimensions, of which the inner two have extents: a tap's row, its column and a
// vector of channels; or an image, a line and a pixel.
struct Place {
  int outer, middle, inner;
};

__device__ __forceinline__ Place place_of(int index, int middles, int inners) {
  const int above = index / inners;
  return {above / middles, above % middles, index - above * inners};
}

// The place `by` further on, which is a place, too: each dimension carries once at most.
__device__ __forceinline__ void advance(Place *place, Place by, int middles, int inners) {
  place->inner += by.inner;
  const int carry = place->inner >= inners;
  place->inner -= carry ? inners : 0;
  place->middle += by.middle + carry;
  const int outer_carry = place->middle >= middles;
  place->middle -= outer_carry ? middles : 0;
  place->outer += by.outer + outer_carry;
}

// One dimension of a residue class of the outputs: outputs first, first + step ..., count of them,
// whose first lies at `base` of the input; and the taps that they have: first_tap, and `taps` in
// all.
struct Line {
  int first, count, base, first_tap, taps;
};

// Of all outputs: the forward pass.
__device__ __forceinline__ Line whole_line(int outputs, int filter, int padding) {
  return {0, outputs, -padding, 0, filter};
}

// Of the outputs h, of `extent`, where (h + padding) % stride is `residue`: a tap r brings an h
// from (h + padding - r dilation) / stride, where that is whole. Every tap_step-th tap does, from
// the first that fits on; there may be none.
__device__ __forceinline__ Line residue_line(int residue, int extent, int filter, int stride,
                                             int padding, int dilation, int tap_step) {
  Line line;
  line.first = (residue - padding) % stride;
  line.first += line.first < 0 ? stride : 0;
  line.count = line.first < extent ? (extent - line.first - 1) / stride + 1 : 0;
  line.first_tap = 0;
  while (line.first_tap < tap_step && line.first_tap * dilation % stride != residue)
    ++line.first_tap;
  line.taps = 0;
  if (line.first_tap < min(tap_step, filter))
    line.taps = (filter - line.first_tap - 1) / tap_step + 1;
  line.base = (line.first + padding - line.first_tap * dilation) / stride;
  return line;
}

// ---- Slabs --------------------------------------------------------------------------------------

// This lane's address for the fragments of a warp's rows (or columns), from `first` on: of A, whose
// four matrices go down the rows first, and of B, whose go along the depth first.
__device__ __forceinline__ uint32_t fragment_address(uint32_t slab, Depth depth, bool is_a,
                                                     int first, int lane) {
  const bool across = (depth == DEPTH_ACROSS) == is_a; // the second matrix is the next chunk
  const int line = across ? lane % 8 + lane / 16 * 8 : lane % 16;
  const int chunk = across ? lane / 8 % 2 : lane / 16;
  if (depth == DEPTH_INSIDE)
    return slab + (first + line) * LINE_BYTES + (chunk ^ line % 8) * VECTOR_BYTES;
  return slab + first / 64 * PANEL_BYTES + line * LINE_BYTES +
         ((first % 64 / VECTOR + chunk) ^ line % 8) * VECTOR_BYTES;
}

// Loads the fragments of 16 rows (or columns) number `tile` and of 16 elements of the depth,
// `step`.
__device__ __forceinline__ void load_fragment(uint32_t *fragment, Depth depth, uint32_t address,
                                              int tile, int step) {
  if (depth == DEPTH_INSIDE)
    ldmatrix_x4(fragment, (address ^ step * 32) + tile * 16 * LINE_BYTES);
  else
    ldmatrix_x4_trans(fragment, (address ^ tile * 32) + step * 16 * LINE_BYTES);
}

// d += A B of a slab. d: (m_tiles, n_tiles, 4) in the layout of ptx_mma.cuh; n_tiles is even.
// Fragments of B are fetched one pair of tiles ahead, those of A a step.
__device__ __forceinline__ void multiply_slab(float *d, int m_tiles, int n_tiles, Dtype dtype,
                                              Depth a_depth, uint32_t a, Depth b_depth,
                                              uint32_t b) {
  const int pairs = n_tiles / 2, steps = SLAB / 16;
  uint32_t a_frag[2][4][4], b_frag[2][4];
#pragma unroll
  for (int pair = -1; pair < steps * pairs; ++pair) {
    const int next = pair + 1, next_step = next / pairs;
    if (next < steps * pairs) {
      if (next % pairs == 0) {
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
          load_fragment(a_frag[next_step % 2][m], a_depth, a, m, next_step);
      }
      load_fragment(b_frag[next % 2], b_depth, b, next % pairs, next_step);
    }
    if (pair < 0)
      continue;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
      float *tile = d + (m * n_tiles + pair % pairs * 2) * 4;
      mma_k16(dtype, tile, a_frag[pair / pairs % 2][m], b_frag[pair % 2]);
      mma_k16(dtype, tile + 4, a_frag[pair / pairs % 2][m], b_frag[pair % 2] + 2);
    }
  }
}

// ---- The end of a tile --------------------------------------------------------------------------

__device__ __forceinline__ float rectify(float value, int relu) {
  return relu && value < 0.0f ? 0.0f : value; // NaN stays
}

// Adds bias, and what ReLU makes of it, in place. `column`: of this lane's first pair; `columns`:
// of the product. bias: (columns) or null.
__device__ __forceinline__ void finish_tile(float *d, int m_tiles, int n_tiles, Dtype dtype,
                                            const void *bias, int relu, int column, int columns) {
#pragma unroll
  for (int n = 0; n < n_tiles; ++n) {
    uint32_t pair = 0;
    if (bias)
      pair = load_4_if(column + n * 8 < columns, (const uint16_t *)bias + column + n * 8, 0);
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float *value = d + (m * n_tiles + n) * 4 + i;
        *value = rectify(*value + (i % 2 ? widen_high(dtype, pair) : widen_low(dtype, pair)), relu);
      }
    }
  }
}

// Bytes from a row of a tile of 16-bit results in shared memory to the next.
__device__ constexpr int result_row_bytes(int columns) {
  return columns * 2 + VECTOR_BYTES;
}

// Rounds a warp's product into the block's tile of results, at `row` and `column` of this lane.
__device__ __forceinline__ void stage_tile(unsigned char *results, int row_bytes, const float *d,
                                           int m_tiles, int n_tiles, Dtype dtype, int row,
                                           int column) {
#pragma unroll
  for (int m = 0; m < m_tiles; ++m) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      const float *tile = d + (m * n_tiles + n) * 4;
      unsigned char *at = results + (row + m * 16) * row_bytes + (column + n * 8) * 2;
      *(uint32_t *)at = pack(dtype, tile[0], tile[1]);
      *(uint32_t *)(at + 8 * row_bytes) = pack(dtype, tile[2], tile[3]);
    }
  }
}

// Stores the tile of results, 16 bytes at a time. offset: (rows) of the rows in `out`, in vectors,
// or -1 where there is none; `columns`: that the product has from the tile's first on.
__device__ __forceinline__ void store_tile(void *out, const unsigned char *results, int row_bytes,
                                           const int *offset, int rows, int tile_columns,
                                           int first_vector, int columns, int thread, int threads) {
  const int vectors = tile_columns / VECTOR;
  const int vector = thread % vectors;
#pragma unroll
  for (int first = 0; first < rows; first += threads / vectors) {
    const int row = first + thread / vectors;
    const uint4 result = *(const uint4 *)(results + row * row_bytes + vector * VECTOR_BYTES);
    store_16_if(offset[row] >= 0 && vector * VECTOR < columns,
                (uint4 *)out + offset[row] + first_vector + vector, result);
  }
}
