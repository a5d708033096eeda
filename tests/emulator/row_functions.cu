// What a thread does with its rows of scores (score.cuh), in kernels that the tests know the
// answers of. Input and output lie as those of leaf_functions.cu.

#include "attnpress/args/common.h"
#include "attnpress/device/score.cuh"

constexpr int LANE_WORDS = 16;
constexpr int TILES = 24; // 48 keys of a row are a thread's

struct leaf_args {
  const uint32_t *in;
  uint32_t *out;
};

// One bit a key: those whose scores are not -inf.
__device__ __forceinline__ void store_seen(uint32_t *out, const float *score, int half) {
  out[0] = out[1] = 0;
  for (int i = 0; i < TILES * 2; ++i) {
    if (score[i / 2 * 4 + half * 2 + i % 2] != -INF)
      out[i / 32] |= 1u << i % 32;
  }
}

// Words 0 and 1 of the input are the keys that row 0 sees, 2 and 3 those of row 1, word 4 is the
// first key of the key block. Gives the keys that mask_scores leaves, two words a row, and then
// those of mask_window_by_bits, or of mask_scores_by_bits where a row begins at key 0.
extern "C" __global__ void __launch_bounds__(32) row_masks(const __grid_constant__ leaf_args args) {
  const int offset = (blockIdx.x * 32 + threadIdx.x) * LANE_WORDS;
  const uint32_t *in = args.in + offset;
  const int key = (int)in[4] + threadIdx.x % 4 * 2;
  float by_compares[TILES * 4] = {}, by_bits[TILES * 4] = {};
  for (int half = 0; half < 2; ++half) {
    const Row row = {0, (int)in[half * 2], (int)in[half * 2 + 1]};
    mask_scores(by_compares, TILES, half, row, key);
    if (row.key_begin > 0)
      mask_window_by_bits(by_bits, TILES, half, row, key, true, true);
    else
      mask_scores_by_bits(by_bits, TILES, half, row, key);
  }
  for (int half = 0; half < 2; ++half) {
    store_seen(args.out + offset + half * 2, by_compares, half);
    store_seen(args.out + offset + 4 + half * 2, by_bits, half);
  }
}

// Two key blocks of capped scores, floats: words 0 and 1 of the input are those of row 0 in either
// block, 2 and 3 those of row 1, word 4 is the scale. Gives, for each row, the reference, log2 of this
// thread's sum with the reference, and the largest P of either block.
extern "C" __global__ void __launch_bounds__(32)
    capped_rows(const __grid_constant__ leaf_args args) {
  const int offset = (blockIdx.x * 32 + threadIdx.x) * LANE_WORDS;
  const float *in = (const float *)(args.in + offset);
  float *out = (float *)(args.out + offset);
  float reference[2] = {-INF, -INF}, row_sum[2] = {0.0f, 0.0f}, rescale[2];
  for (int block = 0; block < 2; ++block) {
    float score[TILES * 4];
    for (int i = 0; i < TILES * 4; ++i)
      score[i] = in[i / 2 % 2 * 2 + block];
    take_capped_rows(score, TILES, reference, row_sum, rescale, in[4]);
    for (int half = 0; half < 2; ++half)
      out[half * 4 + 2 + block] = score[half * 2];
  }
  for (int half = 0; half < 2; ++half) {
    out[half * 4] = reference[half];
    out[half * 4 + 1] = reference[half] * in[4] + log2_approx(row_sum[half]);
  }
}
