// What is done to scores before the mask: softcap, bias, ALiBi, in this order (their layout:
// score.cuh). Scores are in units of `scale` or, where they are capped, of the cap, so that the
// exponent of 2 is one multiplication away whatever was done:
//
//   s = tanh(s scale / softcap)   s = s + bias units   s = s - slope units |distance|
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/tile.cuh"

// A row's part in it. A row that is not there has the numbers of one that is.
struct ScoreRow {
  const void *bias; // its first key's
  float slope;      // ALiBi, times the units
  int center;       // the key that the distance counts from
};

enum BiasDtype { NO_BIAS, BIAS_FP16, BIAS_BF16, BIAS_FP32 };

// That of ALiBi alone.
__device__ __forceinline__ ScoreRow alibi_row(const attnpress_fwd_args *args, int64_t batch,
                                              int head, int center) {
  const attnpress_score_args *score = &args->score;
  const int64_t offset =
      batch * score->alibi_batch_stride + min(head, args->heads_q - 1) * score->alibi_head_stride;
  return {nullptr, score->alibi_slopes[offset] * score->units_per_natural, center};
}

__device__ __forceinline__ ScoreRow score_row(const attnpress_fwd_args *args, bool alibi,
                                              BiasDtype bias, int64_t batch, int head,
                                              int position) {
  const attnpress_score_args *score = &args->score;
  head = min(head, args->heads_q - 1);
  position = min(position, args->seqlen_q - 1);
  ScoreRow row = {nullptr, 0.0f, 0};
  if (bias != NO_BIAS)
    row.bias = (const unsigned char *)score->bias +
               (batch * score->bias_batch_stride + head * score->bias_head_stride +
                position * score->bias_row_stride) *
                   (bias == BIAS_FP32 ? 4 : 2);
  if (alibi) {
    row.slope =
        score->alibi_slopes[batch * score->alibi_batch_stride + head * score->alibi_head_stride] *
        score->units_per_natural;
    row.center = position + args->seqlen_k - args->seqlen_q;
  }
  return row;
}

// Caps all scores of a thread.
__device__ __forceinline__ void cap_scores(float *score, int tiles,
                                           const attnpress_score_args *args) {
#pragma unroll
  for (int i = 0; i < tiles * 4; ++i)
    score[i] = tanh_approx(score[i] * args->softcap_scale);
}

// The bias of one key as bits, and of two neighbours, of which the second may be past the end.
__device__ __forceinline__ uint32_t load_bias_element(BiasDtype dtype, const void *row,
                                                      int64_t element) {
  return dtype == BIAS_FP32 ? ((const uint32_t *)row)[element] : ((const uint16_t *)row)[element];
}

// Loads the bias of row `half` for the keys of a block, the first of this thread's being `key`:
// (2 tiles) words of fp32, or (tiles) words of two values of 16 bits. Keys from `seqlen_k` on, which
// only a block that is not `whole` has, are not read.
__device__ __forceinline__ void load_bias(uint32_t *bias, BiasDtype dtype, int tiles,
                                          const attnpress_score_args *args, const void *row,
                                          int key, int seqlen_k, bool whole) {
  if (args->bias_alignment > 0 && whole) {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      if (dtype == BIAS_FP32) {
        const uint2 pair = *(const uint2 *)((const float *)row + key + tile * 8);
        bias[tile * 2] = pair.x;
        bias[tile * 2 + 1] = pair.y;
      } else {
        bias[tile] = *(const uint32_t *)((const uint16_t *)row + key + tile * 8);
      }
    }
    return;
  }
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    uint32_t pair[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int other = key + tile * 8 + i;
      if (other < seqlen_k)
        pair[i] = load_bias_element(dtype, row, other * args->bias_key_stride);
    }
    if (dtype == BIAS_FP32) {
      bias[tile * 2] = pair[0];
      bias[tile * 2 + 1] = pair[1];
    } else {
      bias[tile] = pair[0] | pair[1] << 16;
    }
  }
}

// Words of a row's bias in a block.
__device__ constexpr int bias_words(BiasDtype dtype, int tiles) {
  return dtype == BIAS_FP32 ? 2 * tiles : tiles;
}

// Adds what load_bias() loaded.
__device__ __forceinline__ void add_bias(float *score, const uint32_t *bias, BiasDtype dtype,
                                         int tiles, int half, float units) {
  const Dtype narrow = dtype == BIAS_FP16 ? FP16 : BF16;
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    float *pair = score + tile * 4 + half * 2;
    if (dtype == BIAS_FP32) {
      pair[0] += __builtin_bit_cast(float, bias[tile * 2]) * units;
      pair[1] += __builtin_bit_cast(float, bias[tile * 2 + 1]) * units;
    } else {
      pair[0] += widen_low(narrow, bias[tile]) * units;
      pair[1] += widen_high(narrow, bias[tile]) * units;
    }
  }
}

// The same of 16 bits in shared memory, as the copy engine brings it: a warp's 16 rows of 128 bytes
// in the 128-byte swizzle, slabs of 64 keys `slab_bytes` apart; both rows of a thread. An ldmatrix
// gives each lane the keys whose scores it has.
__device__ __forceinline__ void add_bias_slabs(float *score, uint32_t shared, int slab_bytes,
                                               BiasDtype dtype, int tiles, int lane, float units) {
  const Dtype narrow = dtype == BIAS_FP16 ? FP16 : BF16;
  const uint32_t from = shared + lane % 16 * 128 + (lane / 16 ^ lane % 8) * 16;
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t word[4];
    ldmatrix_x4(word, (from ^ tile % 8 * 16) + tile / 8 * slab_bytes);
#pragma unroll
    for (int i = 0; i < 4; ++i) { // a tile and a half
      float *pair = score + (tile + i / 2) * 4 + i % 2 * 2;
      pair[0] += widen_low(narrow, word[i]) * units;
      pair[1] += widen_high(narrow, word[i]) * units;
    }
  }
}

// Takes slope * |distance| off the scores of row `half`; `key` is this thread's first key. Rounded once
// by name: left to the compiler, copies of this text may differ in it, and then a row of a
// batch-invariant call has other bits where its key block is not masked.
__device__ __forceinline__ void add_alibi(float *score, int tiles, int half, ScoreRow row,
                                          int key) {
  const float distance = (float)(row.center - key);
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i) {
    float *at = score + i / 2 * 4 + half * 2 + i % 2;
    *at = multiply_add_once(-row.slope, fabsf(distance - (float)(i / 2 * 8 + i % 2)), *at);
  }
}

// What it takes off the score of one key.
__device__ __forceinline__ float alibi_of_key(ScoreRow row, int key) {
  return -row.slope * fabsf((float)(row.center - key));
}

// A lane's word of the A fragment of a row's slope, which is the sum of three parts in bf16: lanes 0
// and 2 of a quad have the first two, lanes 1 and 3 the third.
__device__ __forceinline__ uint32_t slope_part(float slope, int lane) {
  const float rest = slope - widen_low(BF16, pack_bf16(slope, 0.0f));
  const float third = rest - widen_low(BF16, pack_bf16(rest, 0.0f));
  return lane % 2 == 0 ? pack_bf16(slope, rest) : pack_bf16(third, 0.0f);
}

// add_alibi() where all keys lie on one side of the row's center: `side` is 1 where they come before
// it, else -1. Takes off what lies between the nearest of this thread's keys and each: those that
// count most lose no bits. Returns what is still to be added to each of these scores: every lane has
// its own.
__device__ __forceinline__ float add_alibi_beside(float *score, int tiles, int half, ScoreRow row,
                                                  int key, int side) {
  const int last = tiles * 8 - 7; // from the thread's first key
  if (side > 0) {
#pragma unroll
    for (int i = 0; i < tiles * 2; ++i)
      score[i / 2 * 4 + half * 2 + i % 2] += row.slope * (float)(i / 2 * 8 + i % 2 - last);
  } else {
#pragma unroll
    for (int i = 0; i < tiles * 2; ++i)
      score[i / 2 * 4 + half * 2 + i % 2] -= row.slope * (float)(i / 2 * 8 + i % 2);
  }
  return alibi_of_key(row, side > 0 ? key + last : key);
}
