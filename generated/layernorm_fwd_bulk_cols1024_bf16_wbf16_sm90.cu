// layernorm_fwd_bulk_cols1024_bf16_wbf16_sm90
//
// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns,
// rstd = 1 / sqrt(variance + eps).
// bf16, parameters bf16, fp32 inside. The copy engine brings rows to shared memory,
// where each warp has a ring for its part of them.
// Rows are whole vectors; y may be x.
// ROW_THREADS lanes share a row, a warp has ROWS at a time. They are replaced by those of y, which the
// copy engine takes back.
//
// Pressed from templates/layernorm/layernorm_fwd_bulk.cu.j2 with tile w16t32c7 by
//   python -m generator --family layernorm --pass fwd --norm layer --cols 1024 \
//     --dtype bf16 --params bf16 --rows bulk --arch 90

#include "attnpress/args/layernorm.h"
#include "attnpress/device/lanes.cuh"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_bulk.cuh"
#include "attnpress/device/ptx_bulk_copy.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/ptx_mbarrier.cuh"
#include "attnpress/device/ptx_tma.cuh"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_span.cuh"
#include "attnpress/device/row_vector.cuh"

typedef attnpress_layernorm_fwd_args Args;

constexpr bool CENTERED = true; // the mean is taken off
constexpr int COLUMNS = 1024;
constexpr int SIZE = 2; // bytes of an element
constexpr int PARAMETER_SIZE = 2; // bytes of a parameter's element
constexpr int THREADS = 512;
constexpr int BLOCKS = 1; // of an SM
constexpr int ROW_THREADS = 32;
constexpr int SLOTS = 7;        // of a warp
constexpr int PREFETCHED = 4;   // of them, to the L2 cache at first
constexpr int ELEMENTS = 16 / SIZE;      // of a vector
constexpr int WARPS = THREADS / 32;
constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row
constexpr int ROWS = 32 / LANES;                           // of a warp at a time
constexpr int ROW_WARPS = ROW_THREADS < 32 ? 1 : ROW_THREADS / 32;
constexpr int CLUSTER = ROW_THREADS > THREADS ? ROW_THREADS / THREADS : 1; // blocks of a row
constexpr int GROUPS = CLUSTER > 1 ? 1 : WARPS / ROW_WARPS;                // rows of a block
constexpr int ROW_VECTORS = COLUMNS / ELEMENTS;                         // that a row has a part of
constexpr int WARP_VECTORS = (ROW_VECTORS + ROW_WARPS - 1) / ROW_WARPS;      // of these, a warp's
constexpr int VECTORS = (WARP_VECTORS + LANES - 1) / LANES;                  // of a thread in a row
constexpr int FULL = VECTORS - 1; // of these, that every thread has: no row has fewer
constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters
constexpr int PLACE_BYTES = ROWS * WARP_VECTORS * 16;
constexpr int RING_BYTES = (SLOTS * PLACE_BYTES + 127) / 128 * 128;
constexpr int SMEM_BYTES = 229376;
static_assert(SMEM_BYTES == WARPS * RING_BYTES, "the generator has another formula");
static_assert(CLUSTER > 1 || WARPS % ROW_WARPS == 0, "a block has whole rows");
static_assert(VECTORS > 1, "the last vector of a row is of its last two of a thread");

// What a warp has of a row, or of each of its rows: vectors from number `begin` on. The row begins
// `odd` elements after its first vector does.
struct Part {
  int odd, begin, vectors;
};

__device__ __forceinline__ Part part_of(int columns, int odd, int row_warp) {
  const int all = (columns + odd + ELEMENTS - 1) / ELEMENTS;
  const int each = all / ROW_WARPS, more = all % ROW_WARPS;
  const Part part = {odd, row_warp * each + min(row_warp, more), each + (row_warp < more)};
  return part;
}

// The columns of it.
__device__ __forceinline__ float count_columns_of(int columns, Part part) {
  const int first = part.begin * ELEMENTS - part.odd, end = first + part.vectors * ELEMENTS;
  return (float)(min(end, columns) - max(first, 0));
}

__device__ __forceinline__ int64_t round_down(int64_t byte) {
  return byte / 16 * 16;
}

// Sends a warp's part of its rows from `row` on, `bytes` of each, which begins at `from`, to shared
// memory. By one lane.
__device__ __forceinline__ void send_part(const Args *args, int64_t row, const unsigned char *from,
                                          int bytes, uint32_t place, uint32_t barrier) {
  const int rows = (int)min(args->rows - row, (int64_t)ROWS);
  mbarrier_arrive_expect(barrier, rows * bytes);
  if (args->x_row_stride == args->columns) {
    bulk_load(place, from, rows * bytes, barrier);
    return;
  }
#pragma unroll 1
  for (int i = 0; i < rows; ++i)
    bulk_load(place + i * bytes, from + i * args->x_row_stride * SIZE, bytes, barrier);
}

// Takes y of a warp's rows from `row` on back, of `bytes` each. By one lane.
__device__ __forceinline__ void take_part(const Args *args, int64_t row, uint32_t place, int bytes) {
  unsigned char *const to = (unsigned char *)args->y + row * args->y_row_stride * SIZE;
  const int rows = (int)min(args->rows - row, (int64_t)ROWS);
  if (args->y_row_stride == args->columns) {
    bulk_store(to, place, rows * bytes);
  } else {
#pragma unroll 1
    for (int i = 0; i < rows; ++i)
      bulk_store(to + i * args->y_row_stride * SIZE, place + i * bytes, bytes);
  }
  bulk_commit();
}
// Of a thread's vectors: whether it has the last; of its first, the elements before the row; which
// one the row ends in, and the elements of it that are the row's.
struct Own {
  bool more;
  int head, last, end;
};

__device__ __forceinline__ Own own_of(int columns, Part part, int lane) {
  Own own = {part.vectors > lane + FULL * LANES, 0, -1, ELEMENTS};
  return own;
}

// A thread's vectors; one that it has not has the words `filler`. x: (VECTORS)
__device__ __forceinline__ void load_own(const unsigned char *from, Own own, uint32_t filler,
                                         uint4 *x) {
#pragma unroll
  for (int i = 0; i < FULL; ++i)
    x[i] = *(const uint4 *)(from + i * LANES * 16);
  const uint4 nothing = {filler, filler, filler, filler};
  x[FULL] = nothing;
  if (own.more)
    x[FULL] = *(const uint4 *)(from + FULL * LANES * 16);
}

// The words of a parameter of a thread's columns, of which the first vector begins with `column`;
// `absent` where there is none. word: (VECTORS, WORDS)
__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int column,
                                               float absent, uint32_t (*word)[WORDS]) {
  if (!parameter) {
    float filler[ELEMENTS];
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      filler[j] = absent;
#pragma unroll
    for (int i = 0; i < VECTORS; ++i)
      narrow_words_bf16(filler, ELEMENTS, word[i]);
    return;
  }
  load_parameter_vectors(parameter, PARAMETER_SIZE, columns, ELEMENTS, column / ELEMENTS, LANES,
                         VECTORS, word[0]);
}

// Mean, or 0, and sum of squared differences to it of what LANES lanes have of a row, a lane's from
// `from` on; `per_value` is 1 / their number. `first` is where the first of them is. x: (VECTORS), the
// lane's, and the first value in place of what is no part of the row.
__device__ __forceinline__ float2 add_up(const unsigned char *from, const unsigned char *first,
                                         Own own, float per_value,
                                         uint4 *x) {
  // In one pass, about the first value: its squared difference to the mean is no more than so many
  // times the variance as there are values.
  const uint32_t bits = load_element(first, SIZE, 0);
  const float about = widen_element_bf16(bits);
  const uint32_t filler = bits | bits << 16;
  load_own(from, own, filler, x);
  float2 sums = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    float value[ELEMENTS];
    widen_vector_bf16(x[i], value);
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j) {
      const float difference = value[j] - about;
      sums.x += difference;
      sums.y += difference * difference;
    }
  }
  sums = sum_lanes_of_two(sums, LANES);
  const float off = sums.x * per_value, left = sums.y - sums.x * off;
  const float2 all = {about + off, left < 0.0f ? 0.0f : left}; // NaN stays
  return all;
}

// y of a vector. weight, bias: (WORDS)
__device__ __forceinline__ uint4 y_of(uint4 x, float mean, float rstd, const uint32_t *weight,
                                      const uint32_t *bias) {
  float value[ELEMENTS], factor[ELEMENTS], added[ELEMENTS];
  widen_vector_bf16(x, value);
  uint32_t word[WORDS];
  renew_words(weight, WORDS, word);
  widen_words_bf16(word, ELEMENTS, factor);
  renew_words(bias, WORDS, word);
  widen_words_bf16(word, ELEMENTS, added);
  // x^ by one instruction, of values that were rounded to 16 bits.
  const float offset = -mean * rstd;
#pragma unroll
  for (int j = 0; j < ELEMENTS; ++j)
    value[j] = (value[j] * rstd + offset) * factor[j] + added[j];
  return narrow_vector_bf16(value);
}

// Writes y of a row's vectors of a thread, from `to` on. x: (VECTORS), weight, bias: (VECTORS, WORDS)
__device__ __forceinline__ void write_own(unsigned char *to,
                                          Own own, const uint4 *x, float mean, float rstd,
                                          const uint32_t (*weight)[WORDS],
                                          const uint32_t (*bias)[WORDS]) {
#pragma unroll
  for (int i = 0; i < VECTORS; ++i) {
    if (i == FULL && !own.more)
      return;
    const uint4 y = y_of(x[i], mean, rstd, weight[i], bias[i]);
    unsigned char *const vector = to + i * LANES * 16;
    *(uint4 *)vector = y;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    layernorm_fwd_bulk_cols1024_bf16_wbf16_sm90(
        const __grid_constant__ attnpress_layernorm_fwd_args args) {
  extern __shared__ __align__(1024) unsigned char smem[];
  __shared__ __align__(8) unsigned char barriers[WARPS * SLOTS * 8];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = args.columns;
  const int group = warp, thread = lane % LANES;
  constexpr int row_warp = 0;
  // The rows of a warp, and how far apart it has others.
  const int64_t step = (int64_t)(gridDim.x / CLUSTER) * GROUPS * ROWS;
  const int64_t first_row = ((int64_t)(blockIdx.x / CLUSTER) * GROUPS + group) * ROWS;
  // How often it has rows.
  const int count = first_row < args.rows ? (int)((args.rows - first_row + step - 1) / step) : 0;
  const Part part = part_of(columns, 0, row_warp);
  unsigned char *const ring = smem + warp * RING_BYTES;
  const uint32_t places = shared_address(ring);
  const uint32_t barrier = shared_address(barriers) + warp * SLOTS * 8;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < SLOTS; ++i)
      mbarrier_init(barrier + i * 8, 1);
    fence_mbarrier_init();
  }
  // What the warp sends next, the bytes of it, and how far apart it has others.
  const int64_t x_step = step * args.x_row_stride * SIZE;
  const unsigned char *from =
      (const unsigned char *)args.x + first_row * args.x_row_stride * SIZE + part.begin * 16;
  const int bytes = part.vectors * 16;
  // Brings the first rows to the L2 cache while what ran before still ends. Whatever that writes of
  // them it writes there: nothing that is read later can be older.
#pragma unroll 1
  for (int i = 0; i < PREFETCHED; ++i) {
    const int64_t left = args.rows - first_row - i * step;
    const int rows = args.x_row_stride == columns && left > ROWS ? ROWS : 1;
    if (left > 0)
      prefetch_row(from + i * x_step, 1, rows * bytes, lane, 32);
  }
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  // All lanes arrive and wait: the warp's barriers are there.
  __syncwarp();
  uint32_t weight[VECTORS][WORDS], bias[VECTORS][WORDS];
  const int first_column = (part.begin + thread) * ELEMENTS - part.odd;
#pragma unroll
  for (int i = 0; i < SLOTS; ++i) {
    if (lane == 0 && i < count)
      send_part(&args, first_row + i * step, from, bytes, places + i * PLACE_BYTES,
                barrier + i * 8);
    from += x_step;
    // The parameters come before the rows that follow the first.
    if (i == 0) {
      load_parameter(args.weight, columns, first_column, 1.0f, weight);
      load_parameter(args.bias, columns, first_column, 0.0f, bias);
    }
  }
  const Own own = own_of(columns, part, thread);
  // In its place, the thread's first vector, and the first value of all lanes that have a row.
  const int row_begin = lane / LANES * columns * SIZE;
  const int own_begin = row_begin + thread * 16;
  const int first = row_begin + (part.begin == 0 ? part.odd * SIZE : 0);
  int slot = 0, phase = 0;
  int64_t row = first_row;
#pragma unroll 1
  for (int round = 0; round < count; ++round, row += step) {
    const int here = slot;
    unsigned char *const place = ring + here * PLACE_BYTES;
    wait_for_phase(barrier + here * 8, phase);
    slot = here + 1 == SLOTS ? 0 : here + 1;
    phase ^= slot == 0;
    // Lanes that have no row any more add up the first.
    const bool has = row + lane / LANES < args.rows;
    Own own_here = own;
    own_here.more = own.more && has;
    uint4 x[VECTORS];
    const float2 all = add_up(place + (has ? own_begin : thread * 16), place + (has ? first : 0),
                              own_here, args.per_column, x);
    renew_vectors(x, VECTORS);
    const float rstd = reciprocal_sqrt_approx(all.y * args.per_column + args.eps);
    // All lanes arrive and wait: they have read the rows.
    __syncwarp();
    if (has)
      write_own(place + own_begin, own_here, x, all.x, rstd, weight, bias);
    if (thread == 0 && has) {
      if (CENTERED && args.mean)
        args.mean[row + lane / LANES] = all.x;
      if (args.rstd)
        args.rstd[row + lane / LANES] = rstd;
    }
    // The copy engine, which lane 0 asks, sees what all have written.
    fence_proxy_async();
    __syncwarp();
    if (lane == 0) {
      take_part(&args, row, places + here * PLACE_BYTES, bytes);
      // What was taken back before has been read: later rows take its place.
      bulk_wait_read(1);
      const int before = here == 0 ? SLOTS - 1 : here - 1;
      if (round > 0 && round + SLOTS - 1 < count) {
        send_part(&args, row + (SLOTS - 1) * step, from, bytes, places + before * PLACE_BYTES,
                  barrier + before * 8);
        from += x_step;
      }
    }
  }
  // Shared memory is there until the last rows have been taken.
  if (lane == 0)
    bulk_wait_read(0);
}
