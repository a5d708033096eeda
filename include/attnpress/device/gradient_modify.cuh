// What is done to scores (modify.cuh, dropout.cuh) in the backward pass, in the layout of
// accumulators. Rows are queries and columns keys or, `by_column`, the other way round, as in
// gradient.cuh; `row` and `column` are a thread's first ones.
//
// The derivative by S of what comes out is 1 except with a softcap. A probability that dropout drops
// has the sign bit set: it still has a part in dS, and none in dV.
#pragma once

#include "attnpress/args/attention.h"
#include "attnpress/device/dropout.cuh"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/gradient.cuh"
#include "attnpress/device/modify.cuh"
#include "attnpress/device/score.cuh"

// The queries that see a key under a window, as queries_at(): those that stand at the keys from
// `key - right` to `key + left` and, with chunks, in the key's own.
__device__ __forceinline__ Row queries_in_window(int key, const attnpress_score_args *args,
                                                 int seqlen_q, int seqlen_k) {
  int64_t begin = (int64_t)key - args->window_right;
  int64_t end = (int64_t)key + args->window_left + 1;
  if (args->window_chunk > 0) {
    const int64_t chunk = key - key % args->window_chunk;
    begin = max(begin, chunk);
    end = min(end, chunk + args->window_chunk);
  }
  begin = max(begin - args->window_center, (int64_t)0);
  end = min(end - args->window_center, (int64_t)seqlen_q);
  if (key >= seqlen_k)
    begin = seqlen_q;
  return {key, (int)min(begin, (int64_t)seqlen_q), (int)max(end, (int64_t)0)};
}

// ---- Scores --------------------------------------------------------------------------------------

// Caps all scores of a thread and keeps the derivatives, 1 - tanh^2, pairs of fp16. A score that is
// masked later has one, too.
__device__ __forceinline__ void cap_and_differentiate(float *score, uint32_t *derivative, int tiles,
                                                      const attnpress_score_args *args) {
  cap_scores(score, tiles, args);
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i)
    derivative[i] =
        pack(FP16, 1.0f - score[i * 2] * score[i * 2], 1.0f - score[i * 2 + 1] * score[i * 2 + 1]);
}

// Multiplies gradients by the derivatives that belong to them.
__device__ __forceinline__ void multiply_derivatives(float *ds, const uint32_t *derivative,
                                                     int tiles) {
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i) {
    ds[i * 2] *= widen_low(FP16, derivative[i]);
    ds[i * 2 + 1] *= widen_high(FP16, derivative[i]);
  }
}

// Of scores that cap_scores() capped, masked since or not, and to which nothing was added: P, rounded,
// and in their place P times the derivative. A score of -inf has a derivative of 0. by_column alone.
__device__ __forceinline__ void recompute_capped(float *score, uint32_t *rounded, int tiles,
                                                 const float *lse_log2, float scale_log2,
                                                 Dtype dtype) {
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i) {
    if (i % 4 == 0)
      __syncwarp();
    const float2 lse = *(const float2 *)(lse_log2 + i / 2 * 8);
    float p[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const float t = score[i * 2 + k];
      p[k] = exp2_approx(t * scale_log2 - (k ? lse.y : lse.x));
      score[i * 2 + k] = p[k] * fmaxf(1.0f - t * t, 0.0f);
    }
    rounded[i] = pack(dtype, p[0], p[1]);
  }
}

// Adds the bias to the scores of row `half`. What is past an end is not read. One address is stepped
// from tile to tile: an address of its own for each element would take more registers than there are.
__device__ __forceinline__ void add_bias_at(float *score, BiasDtype dtype, int tiles, int half,
                                            bool by_column, const attnpress_bwd_args *args,
                                            int64_t batch, int head, int row, int column) {
  const attnpress_score_args *score_args = &args->score;
  const int bytes = dtype == BIAS_FP32 ? 4 : 2;
  const int64_t step =
      (by_column ? score_args->bias_row_stride : score_args->bias_key_stride) * bytes;
  const int64_t across = by_column ? score_args->bias_key_stride : score_args->bias_row_stride;
  const unsigned char *at =
      (const unsigned char *)score_args->bias +
      (batch * score_args->bias_batch_stride + head * score_args->bias_head_stride + row * across) *
          bytes +
      column * step;
  // Columns that are there.
  const int columns = row >= (by_column ? args->seqlen_k : args->seqlen_q)
                          ? 0
                          : (by_column ? args->seqlen_q : args->seqlen_k) - column;
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile, at += 8 * step) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (tile * 8 + i >= columns)
        continue;
      const uint32_t bits = load_bias_element(dtype, at + i * step, 0);
      const float value = dtype == BIAS_FP32 ? __builtin_bit_cast(float, bits)
                                             : widen_low(dtype == BIAS_FP16 ? FP16 : BF16, bits);
      score[tile * 4 + half * 2 + i] += value * score_args->units_per_natural;
    }
  }
}

// A head's slope, in units of the scores.
__device__ __forceinline__ float load_slope(const attnpress_score_args *args, int64_t batch,
                                            int head) {
  return args->alibi_slopes[batch * args->alibi_batch_stride + head * args->alibi_head_stride] *
         args->units_per_natural;
}

// Takes slope * |distance| off the scores of row `half`.
__device__ __forceinline__ void add_alibi_at(float *score, int tiles, int half, bool by_column,
                                             const attnpress_bwd_args *args, float slope, int row,
                                             int column) {
  const int query = by_column ? column : row, key = by_column ? row : column;
  const float distance = (float)(query + args->seqlen_k - args->seqlen_q - key);
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i) {
    const float offset = (float)(i / 2 * 8 + i % 2);
    score[i / 2 * 4 + half * 2 + i % 2] -=
        slope * fabsf(by_column ? distance + offset : distance - offset);
  }
}

// ---- Dropout -------------------------------------------------------------------------------------

// Sets the sign of the probabilities that are dropped, in (tiles) tiles of the queries that have
// `rows`, from the key `key` on, a multiple of 16.
__device__ __forceinline__ void mark_dropped(float *p, int tiles, const DropoutHead *head,
                                             const DropoutWords *rows, int key, int lane,
                                             uint32_t threshold) {
  DropoutWords keys;
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    uint32_t bits[4];
    draw_tiles(bits, head, rows, &keys, key, tile, lane);
#pragma unroll
    for (int i = 0; i < 4; ++i) { // two keys of a tile and of one half
      float *pair = p + (tile + i / 2) * 4 + i % 2 * 2;
      if (lower_drops(bits[i], threshold))
        pair[0] = -pair[0];
      if (upper_drops(bits[i], threshold))
        pair[1] = -pair[1];
    }
  }
}

// The decisions over `tile` and the next one, whose columns are queries, as bits: 1 drops. Those over
// a lane's two queries and two keys, 8 apart each, are halves of those of two draws which it shares
// with the lane of the neighbouring key: each makes one, of its own pair of keys, and of the query of
// its key's parity. A warp has the words of 8 tiles' queries, a lane each. All lanes come here.
__device__ __forceinline__ uint32_t decide_by_column(const DropoutWords *rows,
                                                     const DropoutWords *keys, int tile, int lane,
                                                     uint32_t threshold) {
  const int odd = lane / 4 % 2; // the key
  const DropoutWords these = words_of_lane(rows, tile % 8 * 4 + lane % 4 * 2 + odd);
  uint32_t word[4], dropped = 0; // bit 2 w + k: word w, the keys of parity k
  draw_bits(word, &these, keys);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    dropped |= (uint32_t)lower_drops(word[w], threshold) << 2 * w;
    dropped |= (uint32_t)upper_drops(word[w], threshold) << (2 * w + 1);
  }
  const uint32_t others = __shfl_xor_sync(0xffffffff, dropped, 4);
  const uint32_t of_parity[2] = {(odd ? others : dropped) >> odd, (odd ? dropped : others) >> odd};
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) { // tile, half and query
    const int w = i / 2 % 2 * 2 + i / 4;
    bits |= (of_parity[i % 2] >> 2 * w & 1) << i;
  }
  return bits;
}

// mark_dropped() where columns are queries: (tiles) tiles from the 16 keys `key` and the query
// `query` on.
__device__ __forceinline__ void mark_dropped_by_column(float *p, int tiles, const DropoutHead *head,
                                                       int query, int key, int lane,
                                                       uint32_t threshold) {
  const DropoutWords keys = key_words(head, key, lane / 8);
  DropoutWords rows;
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    if (tile % 8 == 0)
      rows = row_words(head, query + tile * 8, lane);
    const uint32_t dropped = decide_by_column(&rows, &keys, tile, lane, threshold);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (dropped >> i & 1)
        p[tile * 4 + i] = -p[tile * 4 + i];
  }
}

// What a warp draws from as long as it stays with a head and its 16 keys. In shared memory: it would
// take registers.
struct DropoutKept {
  uint4 head, keys[4]; // their words, those of four pairs
  int number;          // of the head that they are of; -1 at first
};

// Before any other call; all lanes come here.
__device__ __forceinline__ void keep_nothing(DropoutKept *kept, int lane) {
  if (lane == 0)
    kept->number = -1;
  // All lanes arrive and wait: hands it over to them.
  __syncwarp();
}

// Brings up to date what is kept, for a head of those from `first_head` on. All lanes come here.
__device__ __forceinline__ void keep_words(DropoutKept *kept, const attnpress_score_args *args,
                                           int64_t first_head, int number, int key, int lane) {
  // By a vote, so that the compiler knows it to be the same in the whole warp.
  if (!__any_sync(0xffffffff, kept->number != number))
    return;
  const DropoutHead head = dropout_head(args, first_head + number);
  const DropoutWords keys = key_words(&head, key, lane / 8);
  // All lanes arrive and wait: they have read what was here.
  __syncwarp();
  if (lane % 8 == 0)
    kept->keys[lane / 8] = {keys.word[0], keys.word[1], keys.word[2], keys.word[3]};
  if (lane == 0) {
    kept->head = {head.word[0], head.word[1], head.word[2], head.word[3]};
    kept->number = number;
  }
  // All lanes arrive and wait: hands the words over to them.
  __syncwarp();
}

// mark_dropped_by_column() in two parts, of up to 8 tiles: the decisions, which need no probability
// and can be made while scores are computed, one bit each, and their signs.
__device__ __forceinline__ uint32_t decide_tiles(int tiles, const DropoutKept *kept, int query,
                                                 int lane, uint32_t threshold) {
  const uint4 head = kept->head;
  const DropoutHead of_head = {{head.x, head.y, head.z, head.w}};
  const DropoutWords rows = row_words(&of_head, query, lane);
  uint32_t dropped = 0;
#pragma unroll
  for (int pair = 0; pair < tiles / 2; ++pair) {
    const uint4 words = kept->keys[opaque(lane / 8)]; // anew: it would take registers
    const DropoutWords keys = {{words.x, words.y, words.z, words.w}};
    dropped |= decide_by_column(&rows, &keys, pair * 2, lane, threshold) << 8 * pair;
  }
  return dropped;
}

__device__ __forceinline__ void mark_decided(float *p, int tiles, uint32_t dropped) {
#pragma unroll
  for (int i = 0; i < tiles * 4; ++i)
    p[i] = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, p[i]) ^
                                         (dropped << (31 - i) & 0x80000000u));
}

// Rounds the probabilities that are kept, as round_probabilities(); the others become 0.
__device__ __forceinline__ void round_kept(uint32_t *rounded, const float *p, int tiles,
                                           Dtype dtype) {
#pragma unroll
  for (int i = 0; i < tiles * 2; ++i)
    rounded[i] = pack(dtype, fmaxf(p[i * 2], 0.0f), fmaxf(p[i * 2 + 1], 0.0f));
}

// differentiate_scores() of probabilities that may be dropped: dP of those that are kept is times
// `scale`, 1 / (1 - probability), that of the others 0.
__device__ __forceinline__ void differentiate_kept(float *dp, const float *p, int tiles,
                                                   bool by_column, const float *delta,
                                                   float scale) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
    const float2 pair = by_column ? *(const float2 *)(delta + tile * 8) : float2{};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float d = by_column ? (i % 2 ? pair.y : pair.x) : delta[i / 2];
      const float probability = p[tile * 4 + i];
      const float kept = probability > 0.0f ? dp[tile * 4 + i] * scale : 0.0f;
      dp[tile * 4 + i] = fabsf(probability) * (kept - d);
    }
  }
}
