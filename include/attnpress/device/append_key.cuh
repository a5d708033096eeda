// For attention that writes new keys to a cache itself: rotary embeddings of words, which are two
// neighbouring columns, and where new rows lie.
#pragma once

#include "attnpress/args/runs_append.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/ptx_prefetch.cuh"
#include "attnpress/device/rotary.cuh"

// What rows at one position are rotated by: the position's rows of cos and sin.
struct Rotation {
  const unsigned char *cos, *sin;
  int rotary_dim; // of the columns, the first that are rotated; 0: none
  bool interleaved, fp32;
};

__device__ __forceinline__ Rotation rotation_at(const attnpress_append_write_args *args,
                                                int position) {
  const int64_t offset = position * args->rotary_stride * (args->rotary_fp32 ? 4 : 2);
  const bool there = 0 <= position && position < args->num_positions;
  return {(const unsigned char *)args->cos + offset, (const unsigned char *)args->sin + offset,
          there ? args->rows[ATTNPRESS_APPEND_K].rotary_dim : 0, args->interleaved != 0,
          args->rotary_fp32 != 0};
}

// Two words of a row, four of its columns, that are rotated together: columns `column` and the next, and
// those `apart` behind them, which are their partners, or other pairs of neighbours. As they are in
// memory, with cos and sin of both pairs, so that nobody waits for them where they are asked for.
struct RotaryWords {
  uint32_t word[2], cos[2], sin[2];
};

__device__ __forceinline__ int rotary_column(const Rotation *rotation, int number) {
  return rotation->interleaved ? number * 4 : number * 2;
}

__device__ __forceinline__ int rotary_apart(const Rotation *rotation, int head_dim) {
  return rotation->interleaved ? 2 : head_dim / 2;
}

// Words number `number` of the head_dim / 4 of a row.
__device__ __forceinline__ RotaryWords load_rotary_words(const Rotation *rotation,
                                                         const uint16_t *row, int head_dim,
                                                         int number) {
  RotaryWords words;
  const uint16_t *from = row + rotary_column(rotation, number);
  words.word[0] = *(const uint32_t *)from;
  words.word[1] = *(const uint32_t *)(from + rotary_apart(rotation, head_dim));
  words.cos[0] = words.cos[1] = words.sin[0] = words.sin[1] = 0;
  if (number * 4 >= rotation->rotary_dim)
    return words;
  if (!rotation->fp32) {
    words.cos[0] = *(const uint32_t *)(rotation->cos + number * 4);
    words.sin[0] = *(const uint32_t *)(rotation->sin + number * 4);
    return words;
  }
  const uint2 cos = *(const uint2 *)(rotation->cos + number * 8);
  const uint2 sin = *(const uint2 *)(rotation->sin + number * 8);
  words.cos[0] = cos.x;
  words.cos[1] = cos.y;
  words.sin[0] = sin.x;
  words.sin[1] = sin.y;
  return words;
}

__device__ __forceinline__ void rotate(Dtype dtype, const Rotation *rotation, int number,
                                       RotaryWords *words) {
  if (number * 4 >= rotation->rotary_dim)
    return;
  const bool fp32 = rotation->fp32;
  const float cos[2] = {
      fp32 ? __builtin_bit_cast(float, words->cos[0]) : widen_low(dtype, words->cos[0]),
      fp32 ? __builtin_bit_cast(float, words->cos[1]) : widen_high(dtype, words->cos[0])};
  const float sin[2] = {
      fp32 ? __builtin_bit_cast(float, words->sin[0]) : widen_low(dtype, words->sin[0]),
      fp32 ? __builtin_bit_cast(float, words->sin[1]) : widen_high(dtype, words->sin[0])};
  float first[2] = {widen_low(dtype, words->word[0]), widen_high(dtype, words->word[0])};
  float second[2] = {widen_low(dtype, words->word[1]), widen_high(dtype, words->word[1])};
  if (rotation->interleaved) {
    rotate_pairs(cos, sin, 1, 1, first, first + 1);
    rotate_pairs(cos + 1, sin + 1, 1, 1, second, second + 1);
  } else {
    rotate_pairs(cos, sin, 2, 1, first, second);
  }
  words->word[0] = pack(dtype, first[0], first[1]);
  words->word[1] = pack(dtype, second[0], second[1]);
}

// The row of a key head of a sequence's new key, or value.
__device__ __forceinline__ const uint16_t *new_row(const attnpress_append_write_args *args,
                                                   int which, int sequence, int kv_head) {
  const attnpress_append_rows *rows = &args->rows[which];
  return (const uint16_t *)rows->from + sequence * rows->from_batch + kv_head * rows->from_head;
}

// Has what a sequence's new key, and its query, are made of brought to the L2 cache: `heads` rows of Q
// from the tile's first on, of `head_dim` columns as those of K and V. `thread`: one of 128.
__device__ __forceinline__ void fetch_sequence(const attnpress_fwd_runs_append_args *args,
                                               int head_dim, int sequence, int position,
                                               int first_head, int heads, int kv_head, int thread) {
  const attnpress_append_write_args *append = &args->append;
  const attnpress_fwd_args *fwd = &args->runs.batch.fwd;
  const int line_columns = 64, row_lines = (head_dim + line_columns - 1) / line_columns;
  const int part = thread / 8, column = thread % 8 * line_columns;
  if (part < 2 && column < head_dim)
    prefetch_l2(
        new_row(append, part == 0 ? ATTNPRESS_APPEND_K : ATTNPRESS_APPEND_V, sequence, kv_head) +
        column);
  const Rotation rotation = rotation_at(append, position);
  if ((part == 2 || part == 3) && column < rotation.rotary_dim / 2 * (rotation.fp32 ? 2 : 1))
    prefetch_l2((const uint16_t *)(part == 2 ? rotation.cos : rotation.sin) + column);
  const int line = thread - 32;
  if (0 <= line && line < heads * row_lines)
    prefetch_l2((const uint16_t *)fwd->q + sequence * fwd->q_batch_stride +
                (first_head + line / row_lines) * fwd->q_head_stride +
                line % row_lines * line_columns);
}
