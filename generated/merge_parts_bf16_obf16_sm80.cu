// merge_parts_bf16_obf16_sm80
//
// out = sum over parts of exp(lse_i - lse) out_i with lse = log(sum of exp(lse_i)): parts of bf16 to
// bf16, fp32 inside. 2^lane_shift lanes of a warp share a row (one query of one head), a vector of
// 16 bytes of each part at a time. A part whose lse is infinite had no keys, and counts for nothing.
//
// Pressed from templates/merge/merge_parts.cu.j2 with tile w8p4 by
//   python -m generator --family merge --dtype bf16 --result bf16

#include "attnpress/args/merge.h"
#include "attnpress/device/merge.cuh"
#include "attnpress/device/row_span.cuh"

constexpr int SIZE = 2; // bytes of an element of a part
constexpr int OUT_SIZE = 2; // of the result
constexpr int THREADS = 256;
constexpr int STEP = 4; // parts that are loaded at once
constexpr int PARTS_MAX = ATTNPRESS_MERGE_PARTS_ARGS_MAX;
constexpr int ELEMENTS = 16 / SIZE; // of a vector

extern "C" __global__ void __launch_bounds__(THREADS)
    merge_parts_bf16_obf16_sm80(const __grid_constant__ attnpress_merge_parts_args args) {
  const int lanes = 1 << args.lane_shift;
  const int lane = threadIdx.x & (lanes - 1);
  const int64_t index =
      (int64_t)blockIdx.x * (THREADS >> args.lane_shift) + (threadIdx.x >> args.lane_shift);
  const bool has_row = index < args.rows;
  const MergeRow at = merge_row(has_row ? (int)index : 0, &args);

  // The largest lse of parts that have keys, and what all weigh against it.
  float lse[PARTS_MAX];
  float maximum = -MERGE_INF, sum = 0.0f;
#pragma unroll
  for (int i = 0; i < PARTS_MAX; ++i) {
    lse[i] = -MERGE_INF;
    if (has_row && i < args.parts)
      lse[i] = args.part[i].lse[merge_lse_offset(&args.part[i], at)];
    maximum = has_no_keys(lse[i]) ? maximum : fmaxf(maximum, lse[i]);
  }
#pragma unroll
  for (int i = 0; i < PARTS_MAX; ++i)
    sum += part_weight(lse[i], maximum, args.log2_of_lse);
  const float share = sum == 0.0f ? 0.0f : reciprocal_approx(sum);

  // out, STEP parts at a time. One lane reads and writes an element: out may lie over a part.
  for (int column = lane * ELEMENTS; has_row && column < args.head_dim;
       column += lanes * ELEMENTS) {
    float total[ELEMENTS];
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      total[j] = 0.0f;
#pragma unroll 1
    for (int first = 0; first < args.parts; first += STEP) {
      uint32_t word[STEP][4];
      float weight[STEP];
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        const int part = min(first + i, args.parts - 1);
        const attnpress_merge_rows *rows = &args.part[part];
        load_span((const unsigned char *)rows->out + merge_offset(rows, at) * SIZE, SIZE, column,
                  args.head_dim, ELEMENTS, word[i]);
        weight[i] = 0.0f;
        if (first + i < args.parts)
          weight[i] = share * part_weight(rows->lse[merge_lse_offset(rows, at)], maximum,
                                          args.log2_of_lse);
      }
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        float value[ELEMENTS];
        widen_words_bf16(word[i], ELEMENTS, value);
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j)
          total[j] += weight[i] == 0.0f ? 0.0f : weight[i] * value[j];
      }
    }
    uint32_t merged[ELEMENTS * OUT_SIZE / 4];
    narrow_words_bf16(total, ELEMENTS, merged);
    store_span((unsigned char *)args.result.out + merge_offset(&args.result, at) * OUT_SIZE,
               OUT_SIZE, column, args.head_dim, ELEMENTS, merged);
  }

  // The result's lse may lie over a part's, which every lane of the row has read by now.
  __syncwarp();
  if (has_row && lane == 0 && args.result.lse != nullptr)
    ((float *)args.result.lse)[merge_lse_offset(&args.result, at)] =
        maximum + log2_approx(sum) * args.lse_of_log2; // without keys -inf, twice
}
