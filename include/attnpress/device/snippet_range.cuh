// What a mask says of a whole tile: its text over again, where each int is a range of numbers, and
// what is true or false may be both. A range holds all that the number may be, and perhaps more:
// only what it leaves open has to be asked pair by pair.
#pragma once

#include "attnpress/device/score_text.cuh"
#include "attnpress/device/work.cuh"

// Whether something may be true, and whether it may be false, of the pairs of a tile.
struct SnippetRange;
struct SnippetTruth {
  bool may, may_not;
  __device__ __forceinline__ SnippetTruth(bool may_be, bool may_not_be)
      : may(may_be), may_not(may_not_be) {}
  __device__ __forceinline__ SnippetTruth(bool known) : may(known), may_not(!known) {}
  __device__ __forceinline__ SnippetTruth(SnippetRange number);
};

// All numbers from low to high.
struct SnippetRange {
  int low, high;
  __device__ __forceinline__ SnippetRange(int from, int to) : low(from), high(to) {}
  __device__ __forceinline__ SnippetRange(int known) : low(known), high(known) {}
  __device__ __forceinline__ SnippetRange(SnippetTruth truth)
      : low(truth.may_not ? 0 : 1), high(truth.may ? 1 : 0) {}
};

__device__ __forceinline__ SnippetTruth::SnippetTruth(SnippetRange number)
    : may(number.low != 0 || number.high != 0), may_not(number.low <= 0 && number.high >= 0) {}

__device__ __forceinline__ SnippetRange any_number() {
  return SnippetRange(-0x7fffffff - 1, 0x7fffffff);
}

// What is out of an int's range wraps around, and may be any number.
__device__ __forceinline__ SnippetRange range_within(int64_t low, int64_t high) {
  return low < -0x7fffffff - 1 || high > 0x7fffffff ? any_number()
                                                    : SnippetRange((int)low, (int)high);
}

__device__ __forceinline__ SnippetRange operator+(SnippetRange a, SnippetRange b) {
  return range_within((int64_t)a.low + b.low, (int64_t)a.high + b.high);
}
__device__ __forceinline__ SnippetRange operator-(SnippetRange a, SnippetRange b) {
  return range_within((int64_t)a.low - b.high, (int64_t)a.high - b.low);
}
__device__ __forceinline__ SnippetRange operator-(SnippetRange a) {
  return SnippetRange(0) - a;
}
__device__ __forceinline__ SnippetRange operator+(SnippetRange a) {
  return a;
}
__device__ __forceinline__ SnippetRange operator*(SnippetRange a, SnippetRange b) {
  const int64_t w = (int64_t)a.low * b.low, x = (int64_t)a.low * b.high;
  const int64_t y = (int64_t)a.high * b.low, z = (int64_t)a.high * b.high;
  return range_within(min(min(w, x), min(y, z)), max(max(w, x), max(y, z)));
}
// By one positive number; else any.
__device__ __forceinline__ SnippetRange operator/(SnippetRange a, SnippetRange b) {
  return b.low == b.high && b.low > 0 ? SnippetRange(a.low / b.low, a.high / b.low) : any_number();
}
__device__ __forceinline__ SnippetRange operator%(SnippetRange a, SnippetRange b) {
  if (b.low != b.high || b.low <= 0)
    return any_number();
  if (a.low >= 0 && a.low / b.low == a.high / b.low)
    return SnippetRange(a.low % b.low, a.high % b.low);
  return SnippetRange(a.low >= 0 ? 0 : 1 - b.low, a.high <= 0 ? 0 : b.low - 1);
}
__device__ __forceinline__ SnippetRange min(SnippetRange a, SnippetRange b) {
  return SnippetRange(min(a.low, b.low), min(a.high, b.high));
}
__device__ __forceinline__ SnippetRange max(SnippetRange a, SnippetRange b) {
  return SnippetRange(max(a.low, b.low), max(a.high, b.high));
}
__device__ __forceinline__ SnippetRange abs(SnippetRange a) {
  return a.low >= 0 ? a : a.high <= 0 ? -a : max(SnippetRange(0), max(a, -a));
}
__device__ __forceinline__ SnippetRange clampi(SnippetRange x, SnippetRange low,
                                               SnippetRange high) {
  return min(max(x, low), high);
}

__device__ __forceinline__ SnippetTruth operator<(SnippetRange a, SnippetRange b) {
  return SnippetTruth(a.low < b.high, a.high >= b.low);
}
__device__ __forceinline__ SnippetTruth operator!(SnippetTruth a) {
  return SnippetTruth(a.may_not, a.may);
}
__device__ __forceinline__ SnippetTruth operator>(SnippetRange a, SnippetRange b) {
  return b < a;
}
__device__ __forceinline__ SnippetTruth operator<=(SnippetRange a, SnippetRange b) {
  return !(b < a);
}
__device__ __forceinline__ SnippetTruth operator>=(SnippetRange a, SnippetRange b) {
  return !(a < b);
}
__device__ __forceinline__ SnippetTruth operator==(SnippetRange a, SnippetRange b) {
  return SnippetTruth(a.low <= b.high && b.low <= a.high,
                      a.low != a.high || b.low != b.high || a.low != b.low);
}
__device__ __forceinline__ SnippetTruth operator!=(SnippetRange a, SnippetRange b) {
  return !(a == b);
}
__device__ __forceinline__ SnippetTruth operator&&(SnippetTruth a, SnippetTruth b) {
  return SnippetTruth(a.may && b.may, a.may_not || b.may_not);
}
__device__ __forceinline__ SnippetTruth operator||(SnippetTruth a, SnippetTruth b) {
  return SnippetTruth(a.may || b.may, a.may_not && b.may_not);
}

// The rows of a tile as a text knows them.
struct SnippetTile {
  SnippetRange b, h, h_kv, q;
};

constexpr int RANGE_ELEMENTS = 512; // of a buffer that are read for a tile, at most

// What a buffer of int32 holds at indices in `at`, of (rank) dimensions. All lanes arrive and get
// the same answer.
__device__ __forceinline__ SnippetRange snippet_int32_range(const attnpress_mod_args *mod,
                                                            int buffer, int rank,
                                                            const SnippetRange *at) {
  const attnpress_mod_buffer *from = &mod->buffer[buffer];
  int low[4], count[4];
  int64_t all = 1;
#pragma unroll
  for (int d = 0; d < rank; ++d) {
    low[d] = clampi(at[d].low, 0, from->extent[d] - 1);
    count[d] = clampi(at[d].high, 0, from->extent[d] - 1) - low[d] + 1;
    all = min(all * count[d], (int64_t)RANGE_ELEMENTS + 1);
  }
  if (all > RANGE_ELEMENTS)
    return any_number();
  SnippetRange found = SnippetRange(0x7fffffff, -0x7fffffff - 1);
  for (int element = threadIdx.x % 32; element < (int)all; element += 32) {
    int64_t place = 0;
    int rest = element;
#pragma unroll
    for (int d = rank - 1; d >= 0; --d) {
      place += (low[d] + rest % count[d]) * from->stride[d];
      rest /= count[d];
    }
    const int number = ((const int *)from->data)[place];
    found = SnippetRange(min(found.low, number), max(found.high, number));
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    found.low = min(found.low, __shfl_xor_sync(0xffffffff, found.low, step));
    found.high = max(found.high, __shfl_xor_sync(0xffffffff, found.high, step));
  }
  return found;
}
