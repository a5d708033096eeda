// merge_parts_bf16_obf16_sm80
//
// out = sum of exp(lse_i - lse) out_i with lse = log(sum of exp(lse_i)) over parts i: bf16 to
// bf16, fp32 inside. 2^lane_shift lanes of a warp share a row (one query of one head), a vector
// of 16 bytes of each part at a time. A part whose lse is infinite had no keys: it does not count.
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
  float maximum = -MERGE_INF, sum = 0.0f;
#pragma unroll 4
  for (int i = 0; has_row && i < args.parts; ++i) {
    const float lse = args.part[i].lse[merge_lse_offset(&args.part[i], at)];
    maximum = has_no_keys(lse) ? maximum : fmaxf(maximum, lse);
  }
#pragma unroll 4
  for (int i = 0; has_row && i < args.parts; ++i)
    sum += part_weight(args.part[i].lse[merge_lse_offset(&args.part[i], at)], maximum,
                       args.log2_of_lse);
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
      // All of them are on their way before the first is waited for.
      uint32_t word[STEP][4];
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        if (first + i >= args.parts)
          break;
        const attnpress_merge_rows *rows = &args.part[first + i];
        load_span((const unsigned char *)rows->out + merge_offset(rows, at) * SIZE, SIZE, column,
                  args.head_dim, ELEMENTS, word[i]);
      }
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        if (first + i >= args.parts)
          break;
        const attnpress_merge_rows *rows = &args.part[first + i];
        const float weight = share * part_weight(rows->lse[merge_lse_offset(rows, at)], maximum,
                                                 args.log2_of_lse);
        float value[ELEMENTS];
        widen_words_bf16(word[i], ELEMENTS, value);
#pragma unroll
        for (int j = 0; j < ELEMENTS; ++j)
          total[j] += weight == 0.0f ? 0.0f : weight * value[j];
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
