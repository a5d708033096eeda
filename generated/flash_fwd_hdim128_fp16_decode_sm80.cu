// flash_fwd_hdim128_fp16_decode_sm80
//
// The forward pass: out = softmax(scale * Q K^T) V.
// Q, K, V and out are fp16, sums are fp32. One thread block computes BLOCK_M query rows of one
// head and walks over key blocks of BLOCK_N keys from right to left; the scores never leave the
// chip (online softmax: Milakov and Gimelshein 2018, Dao et al. 2022). Query heads that share their
// keys lie in one tile, and their keys are read once.
//
// Each warp has keys of its own in every key block, a ring of its own that they pass through, and
// its own row maxima, row sums and O over them: the warps wait for each other only at the end, when
// their parts of O are added up.
//
// Pressed from templates/attention/flash_fwd_decode_sm80.cu.j2 with tile
// m16n128w1x1x4s3k128v32qb2 by
//   python -m generator --hdim 128 --dtype fp16 --decode --arch sm80

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/epilogue.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_mma.cuh"
#include "attnpress/device/ptx_sreg.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/softmax.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/work.cuh"

constexpr int HEAD_DIM = 128;
constexpr int HEAD_DIM_V = 128;
constexpr Dtype DTYPE = FP16;
constexpr bool CAUSAL = false;
constexpr bool LAST_FIRST = false; // later rows see more keys, or no fewer
constexpr bool SPLIT = false;
constexpr bool DROPOUT = false;
constexpr int BLOCK_M = 16; // query rows of a thread block
constexpr int BLOCK_N = 128; // keys of a key block
constexpr int WARPS_M = 1; // warps that share the rows
constexpr int WARPS_N = 1; // warps that share the keys of S and the columns of O
constexpr int WARPS_K = 4; // warps that have keys of a key block, and a ring, of their own
constexpr int STAGES = 3; // slots of the ring that K and V pass through
constexpr int K_SLAB = 128; // columns of K that one slot takes
constexpr int V_SLAB = 32; // keys of V that one slot takes
constexpr int MIN_BLOCKS = 2; // thread blocks that an SM is to hold
constexpr int SMEM_BYTES = 102656;

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
constexpr int Q_ROW_BYTES = tile_row_bytes(HEAD_DIM);
constexpr int K_ROW_BYTES = K_SLAB * 2; // swizzled, as V
constexpr int V_ROW_BYTES = HEAD_DIM_V * 2;
// Shared memory: Q | each warp's ring of K and V slabs. At the end, a warp's part of O, its row
// maxima and its row sums take the place of its ring.
constexpr int SLOT_BYTES = max_int(RING_KEYS * K_ROW_BYTES, V_SLAB * V_ROW_BYTES);
constexpr int RING_OFFSET = BLOCK_M * Q_ROW_BYTES;
constexpr int PART_ROW_BYTES = HEAD_DIM_V * 4 + 32; // of O, then the row's maximum and sum
constexpr int RING_BYTES = max_int(STAGES * SLOT_BYTES, BLOCK_M * PART_ROW_BYTES);
static_assert(SMEM_BYTES >= RING_OFFSET + WARPS_K * RING_BYTES, "shared memory");
static_assert(RING_THREADS == 32, "a ring is one warp's");
static_assert(BLOCK_M % (16 * WARPS_M) == 0 && BLOCK_N % (16 * WARPS_N * WARPS_K) == 0, "tile");
static_assert(RING_KEYS % V_SLAB == 0 && V_SLAB % 16 == 0, "slabs of V");
static_assert(K_SLAB % 16 == 0 || K_SLABS == 1, "slabs of K");
// The thread block's work, from its index in the grid.
__device__ __forceinline__ Work find_work(const attnpress_fwd_args *args, int block) {
  return find_split_work(args, block, BLOCK_M, LAST_FIRST, SPLIT);
}

// The keys that the row at a position sees.
__device__ __forceinline__ Row find_row(const attnpress_fwd_args *args, int position) {
  return row_at(position, CAUSAL, args->seqlen_q, args->seqlen_k);
}
// The keys and values of one head on their way through a warp's ring.
//
// A key block passes as SLABS slabs, first the column slabs of K, then the row slabs of V. The load
// of a slab starts STAGES - 1 slabs ahead of its use.
struct KeyPipeline {
  // This thread's first chunk of the next key block to load. The pointers walk along, because
  // addresses computed from the key block's number would take twice as many registers.
  const uint16_t *k; // of this head's (seqlen_k, HEAD_DIM)
  const uint16_t *v; // of this head's (seqlen_k, HEAD_DIM_V)
  int64_t k_row_stride, v_row_stride;
  int seqlen_k;    // less the first key of a key block that passes through this ring
  int block_begin; // the last key block that is walked over
  uint32_t ring;   // shared address of slot 0
  int slot;        // of the slab in use, where a key block is not a whole number of rounds
};

// This thread among those that fill the ring. A macro, because the compiler finds fewer registers
// for a function of the same text.
#define RING_THREAD (threadIdx.x % RING_THREADS)
// Waits for the threads that fill the ring and read it.
__device__ __forceinline__ void ring_barrier() {
  __syncwarp();
}

// Starts the copy of `rows` keys of `columns` columns, of which `keys` are there, into a slot whose
// rows have `slab_columns`.
__device__ __forceinline__ void load_rows(uint32_t slot, int slab_columns, const uint16_t *global,
                                          int64_t row_stride, int rows, int columns, int keys) {
  copy_rows_swizzled_async(slot, slab_columns, global, row_stride, rows, columns, keys,
                           RING_THREAD, RING_THREADS, false);
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

// Starts the load of slab `slab` of the walk, which begins at key block `n`, into its slot.
__device__ __forceinline__ void fill_slot(KeyPipeline *pipe, int n, int slab) {
  if (n - slab / SLABS >= pipe->block_begin)
    load_slab(pipe, n - slab / SLABS, slab % SLABS, pipe->ring + slab * SLOT_BYTES,
              true);
}

// Starts the loads of slabs `first` to STAGES - 2 of the walk. Each is a group of its own; the
// first one also holds this thread's copies of Q.
__device__ __forceinline__ void fill_ring(KeyPipeline *pipe, int n, int first) {
#pragma unroll
  for (int slab = first; slab < STAGES - 1; ++slab) {
    fill_slot(pipe, n, slab);
    cp_async_commit();
  }
}

// Returns the shared address of slab `slab` of key block `n`, once it has arrived.
__device__ __forceinline__ uint32_t next_slab(KeyPipeline *pipe, int n, int slab, bool masked) {
  // All threads of the ring arrive and wait. Hands over the slab that everyone's copies brought,
  // and frees the slot of the previous slab, which everyone has read.
  cp_async_wait(STAGES - 2);
  ring_barrier();
  const int ahead = slab + STAGES - 1;
  if (n - ahead / SLABS >= pipe->block_begin)
    load_slab(pipe, n - ahead / SLABS, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), masked);
  return ring_slot(pipe, slab, 0);
}

// Closes the group of the loads that started during a slab's use, and moves on.
__device__ __forceinline__ void end_slab(KeyPipeline *pipe) {
  cp_async_commit();
  if (SLABS % STAGES != 0)
    pipe->slot = pipe->slot + 1 == STAGES ? 0 : pipe->slot + 1;
}

// A pipeline over the key blocks of a head from `n` down to `block_begin`, whose ring is at the
// shared address `ring`. `key_begin`: the first key of a key block that passes through it.
__device__ __forceinline__ KeyPipeline open_ring(const attnpress_fwd_args *args, int64_t batch,
                                                 int kv_head, int n, int block_begin, uint32_t ring,
                                                 int key_begin) {
  const int64_t first_key = (int64_t)n * BLOCK_N + key_begin;
  const int64_t k_row = first_key + copy_row(K_SLAB, RING_THREAD);
  const int64_t v_row = first_key + copy_row(HEAD_DIM_V, RING_THREAD);
  KeyPipeline pipe;
  pipe.k = (const uint16_t *)args->k + batch * args->k_batch_stride +
           kv_head * args->k_head_stride + k_row * args->k_row_stride +
           copy_column(K_SLAB, RING_THREAD);
  pipe.v = (const uint16_t *)args->v + batch * args->v_batch_stride +
           kv_head * args->v_head_stride + v_row * args->v_row_stride +
           copy_column(HEAD_DIM_V, RING_THREAD);
  pipe.k_row_stride = args->k_row_stride;
  pipe.v_row_stride = args->v_row_stride;
  pipe.seqlen_k = args->seqlen_k - key_begin;
  pipe.block_begin = block_begin;
  pipe.ring = ring;
  pipe.slot = 0;
  return pipe;
}
// Q fragments of a warp's rows, from `q_tile`, which includes this lane's offset.
__device__ __forceinline__ void load_query_fragments(
    uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4], uint32_t q_tile) {
#pragma unroll
  for (int k = 0; k < HEAD_DIM; k += 16) {
#pragma unroll
    for (int m = 0; m < M_TILES; ++m) {
      if (k + 16 <= HEAD_DIM)
        ldmatrix_x4(q_frag[k / 16][m], q_tile + m * 16 * Q_ROW_BYTES + k * 2);
      else
        ldmatrix_x2(q_frag[k / 16][m], q_tile + m * 16 * Q_ROW_BYTES + k * 2);
    }
  }
}

// S = Q K^T of key block `n`: (16 M_TILES rows, 8 S_TILES keys) of this warp, fp32.
__device__ __forceinline__ void compute_scores(float score[M_TILES][S_TILES * 4], KeyPipeline *pipe,
                                               const uint32_t q_frag[][M_TILES][4], int n,
                                               int key_begin, bool masked) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
#pragma unroll
    for (int i = 0; i < S_TILES * 4; ++i)
      score[m][i] = 0.0f;

#pragma unroll
  for (int slab = 0; slab < K_SLABS; ++slab) {
    const uint32_t slot = next_slab(pipe, n, slab, masked) + key_begin * K_ROW_BYTES;
    const int row = lane % 8 + lane / 16 * 8;
    const uint32_t k_tile = slot + row * K_ROW_BYTES;
    const int k_swizzle = lane / 8 % 2 * 16 ^ swizzle_of_row(K_SLAB, row);
    const int columns = HEAD_DIM - slab * K_SLAB < K_SLAB ? HEAD_DIM - slab * K_SLAB : K_SLAB;
    // Fragments are fetched one pair of key tiles ahead of their use.
    constexpr int PAIRS = S_TILES / 2;
    uint32_t b[2][4];
#pragma unroll
    for (int pair = -1; pair < K_SLAB / 16 * PAIRS; ++pair) {
      const int next = pair + 1, next_step = next / PAIRS;
      if (next_step * 16 + 16 <= columns) {
        ldmatrix_x4(b[next % 2], k_tile + next % PAIRS * 16 * K_ROW_BYTES +
                                     (next_step * 32 ^ k_swizzle));
      }
      const int step = pair < 0 ? 0 : pair / PAIRS;
      if (pair < 0 || step * 16 + 16 > columns)
        continue;
      const int s = pair % PAIRS * 2;
#pragma unroll
      for (int m = 0; m < M_TILES; ++m) {
        const uint32_t *a_frag = q_frag[slab * K_SLAB / 16 + step][m];
        mma_m16n8k16_fp16(score[m] + s * 4, a_frag, b[pair % 2]);
        mma_m16n8k16_fp16(score[m] + s * 4 + 4, a_frag, b[pair % 2] + 2);
      }
    }
    end_slab(pipe);
  }
}

// Where a warp stands.
struct Place {
  int first_row; // of this warp, counted over the tile's heads
  int first_key; // of a key block
};

// Masks the scores of a key block. `first_row` is this warp's first row, counted over the tile's
// heads, and `first_key` its first key.
__device__ __forceinline__ void mask_block(float score[M_TILES][S_TILES * 4],
                                           const attnpress_fwd_args *args, int first_row,
                                           int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int position, head;
      split_row(first_row + m * 16 + half * 8 + lane / 4, args->heads_per_tile, &position, &head);
      mask_scores(score[m], S_TILES, half, find_row(args, position), first_key + lane % 4 * 2);
    }
  }
}

// Makes P of the scores, with the row maxima as references, and scales O and the row sums to them.
__device__ __forceinline__ void online_softmax(float score[M_TILES][S_TILES * 4],
                                               float out[M_TILES][O_TILES * 4],
                                               float row_max[M_TILES][2], float row_sum[M_TILES][2],
                                               float scale_log2, bool masked) {
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float x = row_maximum(score[m], S_TILES, half, row_max[m][half]);
      const float rescale = take_row(score[m], S_TILES, half, x, &row_max[m][half],
                                     &row_sum[m][half], scale_log2, masked);
      rescale_row(out[m], O_TILES, half, rescale);
    }
  }
}

// O += P V of key block `n`: (16 M_TILES rows, 8 O_TILES columns) of this warp, fp32.
__device__ __forceinline__ void accumulate_output(float out[M_TILES][O_TILES * 4],
                                                  KeyPipeline *pipe,
                                                  const uint32_t p_frag[M_TILES][S_TILES * 2],
                                                  int n, bool masked) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int slab = 0; slab < V_SLABS; ++slab) {
    const uint32_t slot = next_slab(pipe, n, K_SLABS + slab, masked);
    const uint32_t v_tile = slot + lane % 16 * V_ROW_BYTES;
    const int v_swizzle = lane / 16 * 16 ^ swizzle_of_row(HEAD_DIM_V, lane % 16);
#pragma unroll
    for (int key = 0; key < V_SLAB; key += 16) {
#pragma unroll
      for (int o = 0; o + 1 < O_TILES; o += 2) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, v_tile + key * V_ROW_BYTES + (o * 16 ^ v_swizzle));
#pragma unroll
        for (int m = 0; m < M_TILES; ++m) {
          mma_m16n8k16_fp16(out[m] + o * 4, p_frag[m] + (slab * V_SLAB + key) / 4, b);
          mma_m16n8k16_fp16(out[m] + o * 4 + 4, p_frag[m] + (slab * V_SLAB + key) / 4, b + 2);
        }
      }
      if (O_TILES % 2 != 0) {
        uint32_t b[2];
        ldmatrix_x2_trans(b, v_tile + key * V_ROW_BYTES + ((O_TILES - 1) * 16 ^ v_swizzle));
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
          mma_m16n8k16_fp16(out[m] + (O_TILES - 1) * 4, p_frag[m] + (slab * V_SLAB + key) / 4, b);
      }
    }
    end_slab(pipe);
  }
}

// Takes key block `n` in: S = Q K^T, masked where `masked`, P = softmax, O += P V.
__device__ __forceinline__ void attend(float out[M_TILES][O_TILES * 4], float row_max[M_TILES][2],
                                       float row_sum[M_TILES][2], KeyPipeline *pipe,
                                       const uint32_t q_frag[][M_TILES][4],
                                       const Place *place, const attnpress_fwd_args *args,
                                       unsigned char *smem, int n, bool masked) {
  float score[M_TILES][S_TILES * 4];
  compute_scores(score, pipe, q_frag, n, 0, masked);
  if (masked)
    mask_block(score, args, place->first_row, n * BLOCK_N + place->first_key);
  online_softmax(score, out, row_max, row_sum, args->scale_log2, masked);
  uint32_t p_frag[M_TILES][S_TILES * 2];
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
    round_probabilities(p_frag[m], score[m], S_TILES, DTYPE);
  accumulate_output(out, pipe, p_frag, n, masked);
}

// A warp's rows before their first key block.
__device__ __forceinline__ void start_rows(float out[M_TILES][O_TILES * 4],
                                           float row_max[M_TILES][2], float row_sum[M_TILES][2],
                                           unsigned char *smem) {
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    row_max[m][0] = row_max[m][1] = -INF;
    row_sum[m][0] = row_sum[m][1] = 0.0f;
#pragma unroll
    for (int i = 0; i < O_TILES * 4; ++i)
      out[m][i] = 0.0f;
  }
}

// After the last one: row sums over the lanes of a quad.
__device__ __forceinline__ void finish_rows(float row_sum[M_TILES][2], const Place *place,
                                            const unsigned char *smem) {
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    row_sum[m][0] = quad_sum(row_sum[m][0]);
    row_sum[m][1] = quad_sum(row_sum[m][1]);
  }
}
// Starts the copy of a tile of Q. Its rows count heads first: row r is position r / heads of head
// r % heads. Rows past the end become zeros.
__device__ __forceinline__ void load_queries(uint32_t shared, const uint16_t *q,
                                             const attnpress_fwd_args *args, int row_begin,
                                             int rows) {
  const int chunks = HEAD_DIM / 8;
#pragma unroll 2
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
// Leaves what the warp has of the first `rows` rows to all, from its part of `parts` on.
__device__ __forceinline__ void leave_part(const float out[M_TILES][O_TILES * 4],
                                           const float row_max[M_TILES][2],
                                           const float row_sum[M_TILES][2], int rows,
                                           unsigned char *parts) {
  const int thread = read_thread_index();
  const int lane = thread % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + lane / 4;
      if (row < rows) {
        float *part_row =
            (float *)(parts + thread / RING_THREADS * RING_BYTES + row * PART_ROW_BYTES);
#pragma unroll
        for (int o = 0; o < O_TILES; ++o) {
          const float2 pair = {out[m][o * 4 + half * 2], out[m][o * 4 + half * 2 + 1]};
          *(float2 *)(part_row + o * 8 + lane % 4 * 2) = pair;
        }
        const float2 state = {row_max[m][half], row_sum[m][half]};
        if (lane % 4 == 0)
          *(float2 *)(part_row + HEAD_DIM_V) = state;
      }
    }
  }
}

// A row's maximum and sum, and 4 columns of its output, of all warps' keys.
struct Total {
  float maximum, sum;
  float4 out;
};

// Adds up the warps' parts: out = sum_w 2^(max_w - max) O_w, sum = sum_w 2^(max_w - max) sum_w.
__device__ __forceinline__ Total add_parts(const unsigned char *parts, int row, int column,
                                           float scale_log2) {
  const float *part_row = (const float *)(parts + row * PART_ROW_BYTES);
  float2 state[WARPS_K];
  Total total = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
  for (int w = 0; w < WARPS_K; ++w) {
    state[w] = *(const float2 *)(part_row + w * (RING_BYTES / 4) + HEAD_DIM_V);
    total.maximum = fmaxf(total.maximum, state[w].x);
  }
  const float base = finite_base(total.maximum);
#pragma unroll
  for (int w = 0; w < WARPS_K; ++w) {
    const float4 part =
        *(const float4 *)(part_row + w * (RING_BYTES / 4) + column);
    const float weight = exp2_approx((state[w].x - base) * scale_log2);
    total.sum += weight * state[w].y;
    total.out.x += weight * part.x;
    total.out.y += weight * part.y;
    total.out.z += weight * part.z;
    total.out.w += weight * part.w;
  }
  return total;
}

// Stores 4 columns of a row of the output, and its lse with the first; `total`: not yet normalized.
__device__ __forceinline__ void store_columns(const attnpress_fwd_args *args, int batch, int head,
                                              int position, int column, float4 total, RowEnd end) {
  const uint2 packed = {pack(DTYPE, total.x * end.normalize, total.y * end.normalize),
                        pack(DTYPE, total.z * end.normalize, total.w * end.normalize)};
  *(uint2 *)((uint16_t *)args->out + out_offset(args, batch, head, position) + column) = packed;
  if (args->lse && column == 0)
    args->lse[lse_offset(args, batch, head, position)] = end.lse;
}

// Adds up the warps' parts: out = sum_w 2^(max_w - max) O_w / row sum, where the row sum is
// sum_w 2^(max_w - max) sum_w, lse = scale * max + log(row sum). Rows without keys: 0 and -inf.
__device__ __forceinline__ void store_output(const float out[M_TILES][O_TILES * 4],
                                             const float row_max[M_TILES][2],
                                             const float row_sum[M_TILES][2],
                                             const attnpress_fwd_args *args, Work work,
                                             unsigned char *smem) {
  const int thread = read_thread_index();
  const int heads = args->heads_per_tile;
  const int rows = args->seqlen_q * heads - work.row_begin; // from the tile's first row on
  unsigned char *parts = smem + RING_OFFSET;
  // All threads of the warp arrive and wait: its ring has been read, and its part takes its place.
  ring_barrier();
  leave_part(out, row_max, row_sum, rows, parts);
  // All threads arrive and wait: hands over the parts. Each thread then adds up 4 columns of a row.
  __syncthreads();
  const int chunks = HEAD_DIM_V / 4;
  for (int index = thread; index < min(rows, BLOCK_M) * chunks; index += NUM_THREADS) {
    const int row = index / chunks, column = index % chunks * 4;
    const Total total = add_parts(parts, row, column, args->scale_log2);
    int position, head;
    split_row(work.row_begin + row, heads, &position, &head);
    head += work.first_head;
    const RowEnd end = end_row(total.maximum * args->scale_log2, total.sum, &args->score,
                               args->heads_q, head, DROPOUT, SPLIT);
    store_columns(args, work.batch, head, position, column, total.out, end);
  }
}

// Keys that all rows of a thread block see, and key blocks of which some row sees a key: others are
// never loaded, and those that all see whole need no mask.
struct Keys {
  Range unmasked, blocks;
};

// `rows`: of the head, or of these packed heads.
__device__ __forceinline__ Keys find_keys(const attnpress_fwd_args *args, int row_begin, int rows) {
  int first_position, last_position, head;
  split_row(row_begin, args->heads_per_tile, &first_position, &head);
  split_row(min(row_begin + BLOCK_M, rows) - 1, args->heads_per_tile, &last_position, &head);
  const Row first_row = find_row(args, first_position);
  const Row last_row = find_row(args, last_position);
  return {keys_of_all(first_row, last_row),
          key_blocks(keys_of_some(first_row, last_row), BLOCK_N)};
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)
    flash_fwd_hdim128_fp16_decode_sm80(
        const __grid_constant__ attnpress_fwd_args args) {
  extern __shared__ __align__(128) unsigned char smem[];
  const int lane = threadIdx.x % 32;
  const int warp_row = threadIdx.x / 32 % WARPS_M * M_TILES * 16;
  const int warp_k = threadIdx.x / RING_THREADS;
  const Work work = find_work(&args, blockIdx.x);
  const int rows = args.seqlen_q * args.heads_per_tile; // of this head, or these packed heads

  const Keys keys = find_keys(&args, work.row_begin, rows);
  const Range unmasked = keys.unmasked;
  Range blocks = keys.blocks;
  if (SPLIT)
    blocks = split_blocks(blocks, work.split, key_blocks_of_part(&args, blockIdx.x));
  // A constant where it is one: the compiler does not find out in time.
  const int block_begin = SPLIT ? blocks.begin : 0;
  int n = blocks.end - 1; // the key block in work

  const uint32_t shared = shared_address(smem);
  const uint16_t *q = (const uint16_t *)args.q + work.batch * args.q_batch_stride +
                      work.first_head * args.q_head_stride;
  const int first_key = warp_k * RING_KEYS; // of this warp in a key block
  const uint32_t ring = shared + RING_OFFSET + warp_k * RING_BYTES;
  KeyPipeline pipe = open_ring(&args, work.batch, key_head(&args, work.first_head), n,
                               block_begin, ring, first_key);
  // All memory is touched after what ran before has ended, and where it lies is found before that;
  // what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  // K before Q, whose places take divisions.
  fill_slot(&pipe, n, 0);
  load_queries(shared, q, &args, work.row_begin, rows);
  cp_async_commit();
  fill_ring(&pipe, n, 1);
  Place place;
  place.first_row = work.row_begin + warp_row;
  place.first_key = first_key;
  const uint32_t q_tile = shared + warp_row * Q_ROW_BYTES + ldmatrix_rows_first(lane, Q_ROW_BYTES);
  // All threads arrive and wait: hands over the tile of Q that everyone's copies brought.
  cp_async_wait(STAGES - 2);
  __syncthreads();
  uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4];
  load_query_fragments(q_frag, q_tile);
  float out[M_TILES][O_TILES * 4], row_max[M_TILES][2], row_sum[M_TILES][2];
  start_rows(out, row_max, row_sum, smem);
  // One loop for all key blocks, whether or not they hold a key which some row does not see: it
  // waits for memory anyway.
  for (; n >= block_begin; --n)
    attend(out, row_max, row_sum, &pipe, q_frag, &place, &args, smem, n,
           (n + 1) * BLOCK_N > unmasked.end);
  finish_rows(row_sum, &place, smem);
  store_output(out, row_max, row_sum, &args, work, smem);
}
