// append_write_bf16_sm80
//
// Writes rows of new K and V, bf16, to their place in a cache, K rotated by its position, and q's
// rows, rotated, over themselves or to another tensor. A thread has a vector of 16 bytes; where
// columns i and i + rotary_dim / 2 are a pair, it has both, so that rows can be rotated in place.
//
// Pressed from templates/append/append_write.cu.j2 with tile w4 by
//   python -m generator --family append --dtype bf16

#include "attnpress/args/append.h"
#include "attnpress/device/append.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/rotary.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 128;
constexpr int ELEMENTS = 16 / SIZE; // of a vector

// `count` values of a row of cos or sin, from `column` on. value: (count)
__device__ __forceinline__ void load_rotary(const void *table, int64_t position, int column,
                                            int columns, int count,
                                            const attnpress_append_write_args *args,
                                            float *value) {
  const int64_t first = position * args->rotary_stride;
  uint32_t word[ELEMENTS];
  if (!args->rotary_fp32) {
    load_span((const uint16_t *)table + first, 2, column, columns, count, word);
    widen_words_bf16(word, count, value);
    return;
  }
  load_span((const float *)table + first, 4, column, columns, count, word);
  widen_words_fp32(word, count, value);
}

// Rotates ELEMENTS columns from `column` on, of the first half of those that are rotated, and their
// partners in the second. word: (2, 4)
__device__ __forceinline__ void rotate_halves(int column, int half, int64_t position,
                                              const attnpress_append_write_args *args,
                                              uint32_t word[2][4]) {
  float value[2][ELEMENTS], cos[ELEMENTS], sin[ELEMENTS];
  load_rotary(args->cos, position, column, half, ELEMENTS, args, cos);
  load_rotary(args->sin, position, column, half, ELEMENTS, args, sin);
  widen_words_bf16(word[0], ELEMENTS, value[0]);
  widen_words_bf16(word[1], ELEMENTS, value[1]);
  rotate_pairs(cos, sin, ELEMENTS, 1, value[0], value[1]);
  narrow_words_bf16(value[0], ELEMENTS, word[0]);
  narrow_words_bf16(value[1], ELEMENTS, word[1]);
}

// The pairs of neighbours among ELEMENTS columns from `column` on that are rotated: those below
// `rotary_dim`; the others keep their bits. word: (4)
__device__ __forceinline__ void rotate_neighbours(int column, int rotary_dim, int64_t position,
                                                  const attnpress_append_write_args *args,
                                                  uint32_t *word) {
  uint32_t rotated[4];
  float value[ELEMENTS], cos[ELEMENTS / 2], sin[ELEMENTS / 2];
  load_rotary(args->cos, position, column / 2, rotary_dim / 2, ELEMENTS / 2, args, cos);
  load_rotary(args->sin, position, column / 2, rotary_dim / 2, ELEMENTS / 2, args, sin);
  widen_words_bf16(word, ELEMENTS, value);
  rotate_pairs(cos, sin, ELEMENTS / 2, 2, value, value + 1);
  narrow_words_bf16(value, ELEMENTS, rotated);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (column + i * (4 / SIZE) < rotary_dim)
      word[i] = rotated[i];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    append_write_bf16_sm80(const __grid_constant__ attnpress_append_write_args args) {
  const int64_t thread = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  const bool working = thread < (int64_t)args.tokens * args.token_threads.value;
  const int number = working ? divide((int)thread, &args.token_threads) : 0;
  int part = working ? (int)thread - number * args.token_threads.value : 0;
  int which = ATTNPRESS_APPEND_Q;
  while (part >= args.rows[which].threads)
    part -= args.rows[which++].threads;
  const attnpress_append_rows *rows = &args.rows[which];
  const int head = divide(part, &rows->head_threads);
  part -= head * rows->head_threads.value;
  const int half = args.interleaved ? 0 : rows->rotary_dim / 2;
  const int pairs = (half + ELEMENTS - 1) / ELEMENTS; // of vectors
  const bool paired = part < pairs;
  const int column = paired ? part * ELEMENTS : 2 * half + (part - pairs) * ELEMENTS;

  // A length that what ran before may yet write says where to look, so that nobody waits for memory
  // twice: by hints alone, given again when all else in the caches may have driven that out.
  AppendHints hints = {nullptr, nullptr};
  if (working && head == 0 && part == 0) {
    hints = guess_hints(number, which, args.rotary_fp32 ? 4 : 2, &args);
    follow_hints(hints);
  }
  // What comes next, attention over the cache, may begin to wait too: for this kernel, and so for
  // all that this one waits for.
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  follow_hints(hints);
  if (!working)
    return;
  const AppendToken token = append_token(number, &args);
  if (!token.exists)
    return;

  // The row is read before it is known where it goes, and cos and sin beside the page's number.
  const unsigned char *from = (const unsigned char *)rows->from +
                              (token.entry * rows->from_batch + token.row * rows->from_row +
                               head * rows->from_head) *
                                  SIZE;
  uint32_t word[2][4];
  load_span(from, SIZE, column, paired ? half : rows->head_dim, ELEMENTS, word[0]);
  if (paired)
    load_span(from + half * SIZE, SIZE, column, half, ELEMENTS, word[1]);
  int64_t position = 0;
  if (args.num_positions > 0)
    position = append_position(token, which, &args);
  // Nowhere, where an index is out of range.
  AppendPlace place = {true, token.entry, token.row};
  if (which != ATTNPRESS_APPEND_Q)
    place = append_place(token, which, &args);
  if (position < 0 || position >= max(args.num_positions, 1))
    return;
  if (paired)
    rotate_halves(column, half, position, &args, word);
  else if (args.interleaved && column < rows->rotary_dim)
    rotate_neighbours(column, rows->rotary_dim, position, &args, word[0]);
  if (!place.exists)
    return;
  unsigned char *to =
      (unsigned char *)rows->to +
      (place.entry * rows->to_batch + place.row * rows->to_row + head * rows->to_head) * SIZE;
  store_span(to, SIZE, column, paired ? half : rows->head_dim, ELEMENTS, word[0]);
  if (paired)
    store_span(to + half * SIZE, SIZE, column, half, ELEMENTS, word[1]);
}
