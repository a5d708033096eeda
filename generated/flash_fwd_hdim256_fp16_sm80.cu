// flash_fwd_hdim256_fp16_sm80
//
// The forward pass: out = softmax(scale * Q K^T) V.
// Q, K, V and out are fp16, sums are fp32. One thread block computes BLOCK_M query rows of one
// head and walks over key blocks of BLOCK_N keys from right to left; the scores never leave the
// chip (online softmax: Milakov and Gimelshein 2018, Dao et al. 2022).
//
// Pressed from templates/attention/flash_fwd_sm80.cu.j2 with tile m64n64w2x2s2k256v64b2c by
//   python -m generator --hdim 256 --dtype fp16 --arch sm80

#include "attnpress/args/attention.h"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_cvt.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/ptx_mma.cuh"
#include "attnpress/device/ptx_sreg.cuh"
#include "attnpress/device/tile.cuh"

constexpr int HEAD_DIM = 256;
constexpr int HEAD_DIM_V = 256;
constexpr int BLOCK_M = 64; // query rows of a thread block
constexpr int BLOCK_N = 64; // keys of a key block
constexpr int WARPS_M = 2; // warps that share the rows
constexpr int WARPS_N = 2; // warps that share the keys of S and the columns of O
constexpr int WARPS_K = 1; // warps that have keys of a key block, and a ring, of their own
constexpr int STAGES = 2; // slots of the ring that K and V pass through
constexpr int K_SLAB = 256; // columns of K that one slot takes
constexpr int V_SLAB = 64; // keys of V that one slot takes
constexpr int MIN_BLOCKS = 2; // thread blocks that an SM is to hold
constexpr int SMEM_BYTES = 111104;

constexpr int NUM_THREADS = 32 * WARPS_M * WARPS_N * WARPS_K;
constexpr int RING_THREADS = NUM_THREADS / WARPS_K; // that fill a ring and read it
constexpr int RING_KEYS = BLOCK_N / WARPS_K; // of a key block, that pass through a ring
constexpr int M_TILES = BLOCK_M / (16 * WARPS_M); // of 16 rows, of a warp
constexpr int S_TILES = RING_KEYS / (8 * WARPS_N); // of 8 keys, of a warp
constexpr int O_TILES = ceil_div(HEAD_DIM_V, 8 * WARPS_N); // of 8 columns, of a warp
constexpr int K_SLABS = ceil_div(HEAD_DIM, K_SLAB); // slabs of K in a key block
constexpr int V_SLABS = RING_KEYS / V_SLAB; // slabs of V in a key block
constexpr int SLABS = K_SLABS + V_SLABS; // slabs of a key block

// Bytes of a row in shared memory.
constexpr int O_ROW_BYTES = tile_row_bytes(HEAD_DIM_V);
constexpr int Q_ROW_BYTES = tile_row_bytes(HEAD_DIM);
constexpr int K_ROW_BYTES = tile_row_bytes(K_SLAB);
constexpr int V_ROW_BYTES = tile_row_bytes(HEAD_DIM_V);
// Shared memory: Q | ring of K and V slabs | P | one float a row and warp.
// At the end, O takes all of it.
constexpr int SLOT_BYTES = max_int(RING_KEYS * K_ROW_BYTES, V_SLAB * V_ROW_BYTES);
constexpr int RING_OFFSET = BLOCK_M * Q_ROW_BYTES;
constexpr int P_ROW_BYTES = tile_row_bytes(BLOCK_N);
constexpr int P_OFFSET = RING_OFFSET + STAGES * SLOT_BYTES;
constexpr int EXCHANGE_OFFSET = P_OFFSET + BLOCK_M * P_ROW_BYTES;
static_assert(SMEM_BYTES >= EXCHANGE_OFFSET + BLOCK_M * WARPS_N * 4, "shared memory");
static_assert(SMEM_BYTES >= BLOCK_M * O_ROW_BYTES, "shared memory for the output");
static_assert(BLOCK_M % (16 * WARPS_M) == 0 && BLOCK_N % (16 * WARPS_N * WARPS_K) == 0, "tile");
static_assert(RING_KEYS % V_SLAB == 0 && V_SLAB % 16 == 0, "slabs of V");
static_assert(K_SLAB % 16 == 0 || K_SLABS == 1, "slabs of K");

constexpr float LN_2 = 0.693147180559945309f;
constexpr float INF = __builtin_bit_cast(float, 0x7f800000);

// The keys and values of one head on their way through the ring.
//
// A key block passes as SLABS slabs, first the column slabs of K, then the row slabs of V. The load
// of a slab starts STAGES - 1 slabs ahead of its use.
struct KeyPipeline {
  // This thread's first chunk of the next key block to load. The pointers walk along, because
  // addresses computed from the key block's number would take twice as many registers.
  const uint16_t *k; // of this head's (seqlen_k, HEAD_DIM)
  const uint16_t *v; // of this head's (seqlen_k, HEAD_DIM_V)
  int64_t k_row_stride, v_row_stride;
  int seqlen_k;
  int block_begin; // the last key block that is walked over
  uint32_t ring;   // shared address of slot 0
  int slot;        // of the slab in use, where a key block is not a whole number of rounds
};

// This thread among those that fill the ring. A macro, because the compiler finds fewer registers
// for a function of the same text.
#define RING_THREAD threadIdx.x
// Waits for the threads that fill the ring and read it.
__device__ __forceinline__ void ring_barrier() {
  __syncthreads();
}

// Starts the copy of `rows` keys of `columns` columns, of which `keys` are there, into a slot whose
// rows have `slab_columns`.
__device__ __forceinline__ void load_rows(uint32_t slot, int slab_columns, const uint16_t *global,
                                          int64_t row_stride, int rows, int columns, int keys) {
  copy_rows_async(slot, tile_row_bytes(slab_columns), global, row_stride, rows, columns, keys, 0,
                  copy_passes(rows, columns, RING_THREADS), RING_THREAD, RING_THREADS);
}

// Starts the load of slab `slab` of key block `n` into `slot`; slabs are loaded in the order of
// their use. Keys past the end, which only a `masked` key block can have, become zeros.
__device__ __forceinline__ void load_slab(KeyPipeline *pipe, int n, int slab, uint32_t slot,
                                          bool masked) {
  const int keys = masked ? pipe->seqlen_k - n * BLOCK_N : BLOCK_N; // from the first to the end
  if (slab < K_SLABS - 1 || (slab < K_SLABS && HEAD_DIM % K_SLAB == 0)) {
    load_rows(slot, K_SLAB, pipe->k + slab * K_SLAB, pipe->k_row_stride, RING_KEYS, K_SLAB, keys);
  } else {
    const int key = (slab - K_SLABS) * V_SLAB;
    load_rows(slot, HEAD_DIM_V, pipe->v + key * pipe->v_row_stride, pipe->v_row_stride, V_SLAB,
              HEAD_DIM_V, keys - key);
  }
  if (slab == K_SLABS - 1)
    pipe->k -= BLOCK_N * pipe->k_row_stride;
  if (slab == SLABS - 1)
    pipe->v -= BLOCK_N * pipe->v_row_stride;
}

// Shared address of the slot `ahead` slabs after the one in use, the first slab being slab `slab`.
__device__ __forceinline__ uint32_t ring_slot(const KeyPipeline *pipe, int slab, int ahead) {
  if (SLABS % STAGES == 0)
    return pipe->ring + (slab + ahead) % STAGES * SLOT_BYTES;
  const int slot = pipe->slot + ahead;
  return pipe->ring + (slot >= STAGES ? slot - STAGES : slot) * SLOT_BYTES;
}

// Starts the loads of the first STAGES - 1 slabs of the walk, which begins at key block `n`. Each
// is a group of its own; the first one also holds this thread's copies of Q.
__device__ __forceinline__ void fill_ring(KeyPipeline *pipe, int n) {
#pragma unroll
  for (int slab = 0; slab < STAGES - 1; ++slab) {
    if (n - slab / SLABS >= pipe->block_begin)
      load_slab(pipe, n - slab / SLABS, slab % SLABS, pipe->ring + slab * SLOT_BYTES,
                true);
    cp_async_commit();
  }
}

// Returns the shared address of slab `slab` of key block `n`, once it has arrived.
__device__ __forceinline__ uint32_t next_slab(KeyPipeline *pipe, int n, int slab, bool masked) {
  // All threads of the ring arrive and wait. Hands over the slab that everyone's copies brought,
  // and frees the slot of the previous slab, which everyone has read.
  cp_async_wait(STAGES - 2);
  ring_barrier();
  return ring_slot(pipe, slab, 0);
}

// Starts part `step` of `steps` of the load of K or V.
__device__ __forceinline__ const uint16_t *load_part(uint32_t slot, int row_bytes,
                                                     const uint16_t *global, int64_t row_stride,
                                                     int columns, int keys, int step, int steps) {
  const int passes = copy_passes(BLOCK_N, columns, NUM_THREADS);
  const int part = max_int(2, ceil_div(passes, steps));
  const int first = min_int(passes, step * part), end = min_int(passes, first + part);
  global = copy_rows_async(slot, row_bytes, global, row_stride, BLOCK_N, columns, keys, first, end,
                           threadIdx.x, NUM_THREADS);
  if (first < end && end == passes) // on to the next key block
    global -= (passes * (NUM_THREADS / (columns / 8)) + BLOCK_N) * row_stride;
  return global;
}

// Starts part `step` of `steps` of the load that runs STAGES - 1 slabs ahead of slab `slab` of key
// block `n`. Copies that start all at once hold up the ldmatrix behind them, so these are spread
// over the steps of the product.
__device__ __forceinline__ void load_ahead(KeyPipeline *pipe, int n, int slab, bool masked,
                                           int step, int steps) {
  const int ahead = slab + STAGES - 1;
  const int block = n - ahead / SLABS;
  if (block < pipe->block_begin)
    return;
  const uint32_t slot = ring_slot(pipe, slab, STAGES - 1);
  const int keys = masked ? pipe->seqlen_k - block * BLOCK_N : BLOCK_N;
  if (ahead % SLABS == 0)
    pipe->k =
        load_part(slot, K_ROW_BYTES, pipe->k, pipe->k_row_stride, HEAD_DIM, keys, step, steps);
  else
    pipe->v =
        load_part(slot, V_ROW_BYTES, pipe->v, pipe->v_row_stride, HEAD_DIM_V, keys, step, steps);
}

// Closes the group of the loads that started during a slab's use, and moves on.
__device__ __forceinline__ void end_slab(KeyPipeline *pipe) {
  cp_async_commit();
  if (SLABS % STAGES != 0)
    pipe->slot = pipe->slot + 1 == STAGES ? 0 : pipe->slot + 1;
}

// Position in the sequence and head, within the tile's heads, of a row that counts heads first.
__device__ __forceinline__ void split_row(int row, int heads, int *position, int *head) {
  *position = heads == 1 ? row : (uint32_t)row / heads;
  *head = heads == 1 ? 0 : row - *position * heads;
}

// S = Q K^T of key block `n`: (16 M_TILES rows, 8 S_TILES keys) of this warp, fp32.
__device__ __forceinline__ void compute_scores(float score[M_TILES][S_TILES][4], KeyPipeline *pipe,
                                               uint32_t q_tile, int n,
                                               int key_begin, bool masked) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
#pragma unroll
    for (int s = 0; s < S_TILES; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        score[m][s][i] = 0.0f;

#pragma unroll
  for (int slab = 0; slab < K_SLABS; ++slab) {
    const uint32_t slot = next_slab(pipe, n, slab, masked) + key_begin * K_ROW_BYTES;
    const uint32_t k_tile = slot + ldmatrix_columns_first(lane, K_ROW_BYTES);
    const int k_swizzle = 0;
    const int columns = HEAD_DIM - slab * K_SLAB < K_SLAB ? HEAD_DIM - slab * K_SLAB : K_SLAB;
    // Fragments are fetched one pair of key tiles ahead of their use.
    constexpr int PAIRS = S_TILES / 2;
    uint32_t a[2][M_TILES][4];
    uint32_t b[2][4];
#pragma unroll
    for (int pair = -1; pair < K_SLAB / 16 * PAIRS; ++pair) {
      const int next = pair + 1, next_step = next / PAIRS;
      if (next_step * 16 + 16 <= columns) {
        if (next % PAIRS == 0) {
#pragma unroll
          for (int m = 0; m < M_TILES; ++m)
            ldmatrix_x4(a[next_step % 2][m],
                        q_tile + m * 16 * Q_ROW_BYTES + (slab * K_SLAB + next_step * 16) * 2);
        }
        ldmatrix_x4(b[next % 2], k_tile + next % PAIRS * 16 * K_ROW_BYTES +
                                     (next_step * 32 ^ k_swizzle));
      }
      const int step = pair < 0 ? 0 : pair / PAIRS;
      if (pair < 0 || step * 16 + 16 > columns)
        continue;
      if (pair % PAIRS == 0)
        load_ahead(pipe, n, slab, masked, step, K_SLAB / 16);
      const int s = pair % PAIRS * 2;
#pragma unroll
      for (int m = 0; m < M_TILES; ++m) {
        const uint32_t *a_frag = a[step % 2][m];
        mma_m16n8k16_fp16(score[m][s], a_frag, b[pair % 2]);
        mma_m16n8k16_fp16(score[m][s + 1], a_frag, b[pair % 2] + 2);
      }
    }
    end_slab(pipe);
  }
}

// Sets the scores of keys that a row does not see to -inf. `first_key` is this warp's first key and
// `first_row` its first row, counted over the tile's heads.
__device__ __forceinline__ void mask_scores(float score[M_TILES][S_TILES][4],
                                            const attnpress_fwd_args *args, int first_row,
                                            int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key_end = args->seqlen_k;
#pragma unroll
      for (int s = 0; s < S_TILES; ++s) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (first_key + s * 8 + lane % 4 * 2 + i >= key_end)
            score[m][s][half * 2 + i] = -INF;
      }
    }
  }
}

// First column of O that the warps `warp_n` compute. Where the columns do not divide, warps
// overlap; the first one to compute a column stores it.
__device__ __forceinline__ int first_column(int warp_n) {
  return min(warp_n * O_TILES * 8, HEAD_DIM_V - O_TILES * 8);
}

// Maximum, and sum, over the four lanes that hold a row of a fragment.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}

// Maximum of `x` and a row of a warp's scores: rows lane / 4 (half 0) or lane / 4 + 8 of an m-tile.
__device__ __forceinline__ float tile_row_max(const float score[S_TILES][4], int half, float x) {
#pragma unroll
  for (int s = 0; s < S_TILES; ++s)
    x = fmaxf(x, fmaxf(score[s][half * 2], score[s][half * 2 + 1]));
  return quad_max(x);
}

// Shares a value of each row, held by all lanes of a quad, among the warps of a row, and waits for
// all. `exchange` is (BLOCK_M, WARPS_N) and `row` this lane's row of m-tile 0.
__device__ __forceinline__ void share_rows(float *exchange, float value[M_TILES][2], int row,
                                           int warp_n) {
  if (threadIdx.x % 4 == 0) {
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
      exchange[(row + m * 16) * WARPS_N + warp_n] = value[m][0];
      exchange[(row + m * 16 + 8) * WARPS_N + warp_n] = value[m][1];
    }
  }
  // All threads arrive and wait: hands over `exchange`.
  __syncthreads();
}

// P = exp(scale * (S - row maximum)), in place of S. Brings the row maxima up to date, and scales O
// and the row sums to them. Rows that have seen no key yet have maximum -inf, and their P is 0;
// they occur only where `masked`. Row sums are this lane's part.
__device__ __forceinline__ void online_softmax(float score[M_TILES][S_TILES][4],
                                               float out[M_TILES][O_TILES][4],
                                               float row_max[M_TILES][2], float row_sum[M_TILES][2],
                                               float *exchange, int row, int warp_n,
                                               float scale_log2, bool masked) {
  float maximum[M_TILES][2];
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    maximum[m][0] = tile_row_max(score[m], 0, row_max[m][0]);
    maximum[m][1] = tile_row_max(score[m], 1, row_max[m][1]);
  }
  share_rows(exchange, maximum, row, warp_n);
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float x = maximum[m][half];
#pragma unroll
      for (int i = 0; i < WARPS_N; ++i)
        x = fmaxf(x, exchange[(row + m * 16 + half * 8) * WARPS_N + i]);
      const float base = masked && x == -INF ? 0.0f : x;
      const float shift = base * scale_log2;
      // Of the difference: exactly 1 while the maximum stays, over however many key blocks.
      const float rescale = exp2_approx((row_max[m][half] - base) * scale_log2);
      row_max[m][half] = x;
      float sum = 0.0f; // of this block alone: a long row's small terms would vanish in the whole
#pragma unroll
      for (int s = 0; s < S_TILES; ++s) {
#pragma unroll
        for (int i = half * 2; i < half * 2 + 2; ++i) {
          score[m][s][i] = exp2_approx(score[m][s][i] * scale_log2 - shift);
          sum += score[m][s][i];
        }
      }
      row_sum[m][half] = row_sum[m][half] * rescale + sum;
#pragma unroll
      for (int o = 0; o < O_TILES; ++o) {
        out[m][o][half * 2] *= rescale;
        out[m][o][half * 2 + 1] *= rescale;
      }
    }
  }
}

// Rounds P and puts it into shared memory, for all warps of these rows. The barrier of the next
// slab hands it over; the barrier of the next key block's first slab frees it.
__device__ __forceinline__ void store_probabilities(unsigned char *p_tile,
                                                    const float score[M_TILES][S_TILES][4],
                                                    int row, int key_begin) {
  unsigned char *p_row = p_tile + row * P_ROW_BYTES + (key_begin + threadIdx.x % 4 * 2) * 2;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int s = 0; s < S_TILES; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *(uint32_t *)(p_row + (m * 16 + half * 8) * P_ROW_BYTES + s * 16) =
            pack_fp16(score[m][s][half * 2], score[m][s][half * 2 + 1]);
    }
  }
}

// O += P V of key block `n`: (16 M_TILES rows, 8 O_TILES columns) of this warp, fp32.
__device__ __forceinline__ void accumulate_output(float out[M_TILES][O_TILES][4], KeyPipeline *pipe,
                                                  uint32_t p_tile, int column_begin,
                                                  int n, bool masked) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int slab = 0; slab < V_SLABS; ++slab) {
    const uint32_t slot = next_slab(pipe, n, K_SLABS + slab, masked) + column_begin * 2;
    const uint32_t v_tile = slot + ldmatrix_rows_first(lane, V_ROW_BYTES);
    const int v_swizzle = 0;
#pragma unroll
    for (int key = 0; key < V_SLAB; key += 16) {
      load_ahead(pipe, n, K_SLABS + slab, masked, key / 16, V_SLAB / 16);
      uint32_t a[M_TILES][4];
#pragma unroll
      for (int m = 0; m < M_TILES; ++m)
        ldmatrix_x4(a[m], p_tile + m * 16 * P_ROW_BYTES + (slab * V_SLAB + key) * 2);
#pragma unroll
      for (int o = 0; o + 1 < O_TILES; o += 2) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, v_tile + key * V_ROW_BYTES + (o * 16 ^ v_swizzle));
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
          mma_m16n8k16_fp16(out[m][o], a[m], b);
          mma_m16n8k16_fp16(out[m][o + 1], a[m], b + 2);
        }
      }
      if (O_TILES % 2 != 0) {
        uint32_t b[2];
        ldmatrix_x2_trans(b, v_tile + key * V_ROW_BYTES + ((O_TILES - 1) * 16 ^ v_swizzle));
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
          mma_m16n8k16_fp16(out[m][O_TILES - 1], a[m], b);
      }
    }
    end_slab(pipe);
  }
}

// Starts the copy of a tile of Q. Its rows count heads first: row r is position r / heads of head
// r % heads. Rows past the end become zeros.
__device__ __forceinline__ void load_queries(uint32_t shared, const uint16_t *q,
                                             const attnpress_fwd_args *args, int row_begin,
                                             int rows) {
  if (args->heads_per_tile == 1) {
    const int row = row_begin + copy_row(HEAD_DIM, threadIdx.x);
    copy_rows_async(shared, Q_ROW_BYTES,
                    q + row * args->q_row_stride + copy_column(HEAD_DIM, threadIdx.x),
                    args->q_row_stride, BLOCK_M, HEAD_DIM, rows - row_begin, 0,
                    copy_passes(BLOCK_M, HEAD_DIM, NUM_THREADS), threadIdx.x, NUM_THREADS);
    return;
  }
  const int chunks = HEAD_DIM / 8;
#pragma unroll 1
  for (int first = 0; first < BLOCK_M * chunks; first += NUM_THREADS) {
    const int index = first + threadIdx.x;
    const int row = index / chunks, chunk = index % chunks;
    int position, head;
    split_row(row_begin + row, args->heads_per_tile, &position, &head);
    if (first + NUM_THREADS <= BLOCK_M * chunks || index < BLOCK_M * chunks)
      cp_async_16(shared + row * Q_ROW_BYTES + chunk * 16,
                  q + position * args->q_row_stride + head * args->q_head_stride + chunk * 8,
                  row_begin + row < rows ? 16 : 0);
  }
}

// What a thread block computes.
struct Work {
  int row_begin;  // first row of the tile, counted over its heads
  int split;      // 0 where the keys are not split
  int first_head; // of the tile's heads_per_tile query heads
  int64_t batch;
};

// The grid, fastest first: tile head, row block, batch. Heads that lie side by side in memory are
// read at the same time.
__device__ __forceinline__ Work find_work(const attnpress_fwd_args *args, int block) {
  Work work;
  const int heads = args->heads_per_tile;
  const int tile_heads = heads == 1 ? args->heads_q : args->heads_q / heads;
  const int tiles = (uint32_t)block / tile_heads;
  const int batch = (uint32_t)tiles / args->row_blocks;
  const int row_block = tiles - batch * args->row_blocks;
  work.row_begin = row_block * BLOCK_M;
  work.split = 0;
  work.first_head = (block - tiles * tile_heads) * heads;
  work.batch = batch;
  return work;
}

// out = O / row sum, lse = scale * row maximum + log(row sum). Rows without keys: 0 and -inf.
__device__ __forceinline__ void store_output(const float out[M_TILES][O_TILES][4],
                                             const float row_max[M_TILES][2],
                                             const float row_sum[M_TILES][2],
                                             const attnpress_fwd_args *args, unsigned char *smem) {
  // Found anew rather than kept in registers over the loops.
  const Work work = find_work(args, read_block_index());
  const int thread = read_thread_index();
  const int heads = args->heads_per_tile;
  const int rows = args->seqlen_q * heads;
  const int lane = thread % 32;
  const int warp_row = thread / 32 % WARPS_M * M_TILES * 16;
  const int warp_n = thread / 32 / WARPS_M;
  const int warp_columns = first_column(warp_n);
  const int first_o_tile = 0;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = row_sum[m][half];
      const float normalize = sum == 0.0f ? 0.0f : reciprocal_approx(sum);
      const float lse = (row_max[m][half] * args->scale_log2 + log2_approx(sum)) * LN_2;
      const int row = warp_row + m * 16 + half * 8 + lane / 4; // in the tile
      int position, head;
      split_row(work.row_begin + row, heads, &position, &head);
      head += work.first_head;
      const bool valid = work.row_begin + row < rows;
      const bool writes_lse = valid && lane % 4 == 0 && warp_n == 0;
      if (args->lse && writes_lse)
        args->lse[work.batch * args->lse_batch_stride + head * args->lse_head_stride + position] =
            lse;
      unsigned char *out_row = smem + row * O_ROW_BYTES + (warp_columns + lane % 4 * 2) * 2;
#pragma unroll
      for (int o = 0; o < O_TILES; ++o) {
        if (o >= first_o_tile)
          *(uint32_t *)(out_row + o * 16) = pack_fp16(out[m][o][half * 2] * normalize,
                                                      out[m][o][half * 2 + 1] * normalize);
      }
    }
  }
  // All threads arrive and wait: hands over the tile of O, which leaves in chunks of 16 bytes.
  __syncthreads();
  uint16_t *out_global = (uint16_t *)args->out + work.batch * args->out_batch_stride +
                         work.first_head * args->out_head_stride;
  if (heads == 1) {
    const int row = copy_row(HEAD_DIM_V, thread), column = copy_column(HEAD_DIM_V, thread);
    const int pass_rows = NUM_THREADS / (HEAD_DIM_V / 8);
    const unsigned char *source = smem + row * O_ROW_BYTES + column * 2;
    uint16_t *target = out_global + (work.row_begin + row) * args->out_row_stride + column;
    const int end = row < pass_rows ? min(BLOCK_M, rows - work.row_begin) : 0;
#pragma unroll 4
    for (int pass = 0; pass < copy_passes(BLOCK_M, HEAD_DIM_V, NUM_THREADS); ++pass) {
      if (pass * pass_rows + row < end)
        *(uint4 *)target = *(const uint4 *)(source + pass * pass_rows * O_ROW_BYTES);
      target += pass_rows * args->out_row_stride;
    }
    return;
  }
  const int chunks = HEAD_DIM_V / 8;
#pragma unroll 1
  for (int first = 0; first < BLOCK_M * chunks; first += NUM_THREADS) {
    const int index = first + thread;
    const int row = index / chunks, chunk = index % chunks;
    int position, head;
    split_row(work.row_begin + row, heads, &position, &head);
    if ((first + NUM_THREADS <= BLOCK_M * chunks || row < BLOCK_M) && work.row_begin + row < rows)
      *(uint4 *)(out_global + position * args->out_row_stride + head * args->out_head_stride +
                 chunk * 8) = *(const uint4 *)(smem + row * O_ROW_BYTES + chunk * 16);
  }
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)
    flash_fwd_hdim256_fp16_sm80(
        const __grid_constant__ attnpress_fwd_args args) {
  extern __shared__ __align__(128) unsigned char smem[];
  const int lane = threadIdx.x % 32;
  const int warp_m = threadIdx.x / 32 % WARPS_M;
  const int warp_n = threadIdx.x / 32 / WARPS_M;
  const int warp_keys = warp_n * S_TILES * 8; // this warp's first key of a key block
  const int warp_columns = first_column(warp_n);
  const Work work = find_work(&args, blockIdx.x);
  const int row_begin = work.row_begin;
  const int heads = args.heads_per_tile;
  const int rows = args.seqlen_q * heads; // of this head, or these packed heads
  const int kv_head = args.heads_q == args.heads_kv
                          ? work.first_head
                          : work.first_head / (args.heads_q / args.heads_kv);

  const int key_end = args.seqlen_k;
  const int key_unmasked = args.seqlen_k;
  const int block_begin = 0;
  const int block_end = ceil_div(key_end, BLOCK_N);
  int n = block_end - 1; // the key block in work

  const uint32_t shared = shared_address(smem);
  const uint16_t *q = (const uint16_t *)args.q + work.batch * args.q_batch_stride +
                      work.first_head * args.q_head_stride;
  load_queries(shared, q, &args, row_begin, rows);

  const int64_t first_key = (int64_t)n * BLOCK_N;
  const int64_t k_row = first_key + copy_row(K_SLAB, RING_THREAD);
  const int64_t v_row = first_key + copy_row(HEAD_DIM_V, RING_THREAD);
  KeyPipeline pipe;
  pipe.k = (const uint16_t *)args.k + work.batch * args.k_batch_stride +
           kv_head * args.k_head_stride + k_row * args.k_row_stride +
           copy_column(K_SLAB, RING_THREAD);
  pipe.v = (const uint16_t *)args.v + work.batch * args.v_batch_stride +
           kv_head * args.v_head_stride + v_row * args.v_row_stride +
           copy_column(HEAD_DIM_V, RING_THREAD);
  pipe.k_row_stride = args.k_row_stride;
  pipe.v_row_stride = args.v_row_stride;
  pipe.seqlen_k = args.seqlen_k;
  pipe.block_begin = block_begin;
  pipe.ring = shared + RING_OFFSET;
  pipe.slot = 0;
  fill_ring(&pipe, n);

  const int warp_row = warp_m * M_TILES * 16;
  const uint32_t q_tile = shared + warp_row * Q_ROW_BYTES + ldmatrix_rows_first(lane, Q_ROW_BYTES);
  // This lane's first row in the tile, from a thread index of its own: the compiler would keep its
  // parts as well.
  const int row = read_thread_index() / 32 % WARPS_M * M_TILES * 16 + lane / 4;
  float *exchange = (float *)(smem + EXCHANGE_OFFSET);
  const uint32_t p_tile =
      shared + P_OFFSET + warp_row * P_ROW_BYTES + ldmatrix_rows_first(lane, P_ROW_BYTES);
  float out[M_TILES][O_TILES][4] = {};
  float row_max[M_TILES][2], row_sum[M_TILES][2];
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    row_max[m][0] = row_max[m][1] = -INF;
    row_sum[m][0] = row_sum[m][1] = 0.0f;
  }

  // A key block that passes the end of the keys: the first one, if any.
  while (n >= block_begin && (n + 1) * BLOCK_N > key_unmasked) {
    float score[M_TILES][S_TILES][4];
    compute_scores(score, &pipe, q_tile, n, warp_keys, true);
    mask_scores(score, &args, row_begin + warp_row, n * BLOCK_N + warp_keys);
    online_softmax(score, out, row_max, row_sum, exchange, row, warp_n, args.scale_log2, true);
    store_probabilities(smem + P_OFFSET, score, row, warp_keys);
    accumulate_output(out, &pipe, p_tile, warp_columns, n, true);
    --n;
    break;
  }

  // Key blocks that every row sees whole.
  for (; n >= block_begin; --n) {
    float score[M_TILES][S_TILES][4];
    compute_scores(score, &pipe, q_tile, n, warp_keys, false);
    online_softmax(score, out, row_max, row_sum, exchange, row, warp_n, args.scale_log2, false);
    store_probabilities(smem + P_OFFSET, score, row, warp_keys);
    accumulate_output(out, &pipe, p_tile, warp_columns, n, false);
  }
  // Row sums over the lanes of a quad, then over the warps of a row.
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    row_sum[m][0] = quad_sum(row_sum[m][0]);
    row_sum[m][1] = quad_sum(row_sum[m][1]);
  }
  share_rows(exchange, row_sum, row, warp_n);
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      row_sum[m][half] = 0.0f;
#pragma unroll
      for (int i = 0; i < WARPS_N; ++i)
        row_sum[m][half] += exchange[(row + m * 16 + half * 8) * WARPS_N + i];
    }
  }
  // All threads arrive and wait: Q and the ring have been read and no copy is in flight, so that O
  // can take their place.
  cp_async_wait(0);
  __syncthreads();
  store_output(out, row_max, row_sum, &args, smem);
}
