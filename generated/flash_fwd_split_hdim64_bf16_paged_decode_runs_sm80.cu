// flash_fwd_split_hdim64_bf16_paged_decode_runs_sm80
//
// The forward pass of short queries: out = softmax(scale * Q K^T) V, by runs of keys of equal cost.
// A run is a range of the key blocks of all sequences, one sequence after the other. A thread block
// computes BLOCK_M rows of one head, or of heads that share their keys, over one run: it stores the
// output of sequences that lie in its run, and of those that are cut by its ends partial outputs in
// fp32, which flash_fwd_combine adds up.
//
// Q, K, V and out are bf16, sums are fp32. Of each sequence key blocks of BLOCK_N keys are walked
// over from right to left (online softmax: Milakov and Gimelshein 2018, Dao et al. 2022). Each warp
// has keys of its own in every key block, a ring of its own that they pass through, and its own row
// maxima, row sums and O over them: the warps wait for each other only at the end of a sequence,
// when their parts of O are added up.
// The rings go on with the next one meanwhile.
//
// Pressed from templates/attention/flash_fwd_runs_sm80.cu.j2 with tile
// m16n128w1x1x4s5k64v32qb2 by
//   python -m generator --hdim 64 --dtype bf16 --paged --split --decode --runs --arch sm80

#include "attnpress/args/attention.h"
#include "attnpress/device/dtype.cuh"
#include "attnpress/device/epilogue.cuh"
#include "attnpress/device/ptx_address.cuh"
#include "attnpress/device/ptx_cp_async.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/ptx_ldmatrix.cuh"
#include "attnpress/device/ptx_mma.cuh"
#include "attnpress/device/ptx_prefetch.cuh"
#include "attnpress/device/ptx_sreg.cuh"
#include "attnpress/device/score.cuh"
#include "attnpress/device/sequence.cuh"
#include "attnpress/device/softmax.cuh"
#include "attnpress/device/tile.cuh"
#include "attnpress/device/work.cuh"

constexpr int HEAD_DIM = 64;
constexpr int HEAD_DIM_V = 64;
constexpr Dtype DTYPE = BF16;
constexpr bool CAUSAL = false;
constexpr bool DROPOUT = false;
constexpr int BLOCK_M = 16; // query rows of a thread block
constexpr int BLOCK_N = 128; // keys of a key block
constexpr int WARPS_M = 1; // warps that share the rows
constexpr int WARPS_N = 1; // warps that share the keys of S and the columns of O
constexpr int WARPS_K = 4; // warps that have keys of a key block, and a ring, of their own
constexpr int STAGES = 5; // slots of the ring that K and V pass through
constexpr int K_SLAB = 64; // columns of K that one slot takes
constexpr int V_SLAB = 32; // keys of V that one slot takes
constexpr int MIN_BLOCKS = 2; // thread blocks that an SM is to hold
constexpr int SMEM_BYTES = 84224;

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
// The keys that the row at a position sees.
__device__ __forceinline__ Row find_row(const attnpress_fwd_args *args, int position) {
  return row_at(position, CAUSAL, args->seqlen_q, args->seqlen_k);
}

// ---- Runs ----

// Keys of each sequence that are walked over.
__shared__ int key_counts[ATTNPRESS_RUNS_SEQUENCES_MAX];

// Fills key_counts; all threads of the thread block do so, and then wait.
__device__ __forceinline__ void count_keys(const attnpress_fwd_ragged_args *batch,
                                           bool key_count_alone) {
  for (int b = threadIdx.x; b < batch->fwd.batch; b += NUM_THREADS) {
    SequenceRows rows;
    if (key_count_alone)
      rows = rows_of_key_count(&batch->fwd, &batch->ragged, b, batch->ragged.seqused_k[b]);
    else
      rows = rows_of_sequence(&batch->fwd, &batch->ragged, b);
    key_counts[b] = rows.queries.count > 0 ? rows.keys.count : 0;
  }
  // All threads arrive and wait: hands over key_counts.
  __syncthreads();
}

// A sequence's cost is that of its key blocks, a unit or two each, and some more. Of more key
// blocks than any sequence has room for, unless its pages are named again and again, several count
// as one: the sum of all fits.
constexpr int BLOCK_COST = max_int(BLOCK_N / ATTNPRESS_RUNS_UNIT_KEYS, 1);

__device__ __forceinline__ int unit_shift(int blocks) {
  return max(11 + BLOCK_COST - __clz(blocks), 0);
}

__device__ __forceinline__ int cost_of_sequence(const attnpress_fwd_runs_args *args, int blocks) {
  const int shift = unit_shift(blocks);
  return args->sequence_cost + (blocks + (1 << shift) - 1 >> shift) * BLOCK_COST;
}

// A run on its way over the sequences.
struct Walk {
  int sequence;   // the next one
  int before;     // cost of those before it
  int begin, end; // of the run, in units of cost
};

// How runs share out all cost evenly: each has so much, and the first ones one unit more.
struct Shares {
  int each, longer;
};

__device__ __forceinline__ int begin_of_run(Shares shares, int run) {
  return run * shares.each + min(run, shares.longer);
}

// The walk of a run; end <= begin where there is none of that number. Each warp finds it by itself.
__device__ __forceinline__ Walk find_walk(const attnpress_fwd_runs_args *args, int run,
                                          Shares *shares) {
  const int lane = threadIdx.x % 32, sequences = args->batch.fwd.batch;
  const int each = ceil_div(sequences, 32); // of a lane, one after the other
  int own = 0;
  for (int i = 0; i < each; ++i) {
    const int b = lane * each + i;
    if (b < sequences)
      own += cost_of_sequence(args, ceil_div(key_counts[b], BLOCK_N));
  }
  int up_to = own; // and with this lane's
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const int other = __shfl_sync(0xffffffff, up_to, max(lane - lanes, 0));
    up_to += lane >= lanes ? other : 0;
  }
  const int cost = __shfl_sync(0xffffffff, up_to, 31);
  const int runs = min(args->runs, max(cost / args->least_cost, 1)), own_share = cost / runs;
  *shares = {own_share, cost - runs * own_share};
  if (run >= runs)
    return {0, 0, 0, 0};
  const int begin = begin_of_run(*shares, run);
  const int passed = __popc(__ballot_sync(0xffffffff, up_to <= begin)); // lanes before the run
  const int before = __shfl_sync(0xffffffff, up_to - own, min(passed, 31));
  return {passed * each, before, begin, begin_of_run(*shares, run + 1)};
}

// A part of a sequence: all of it, or what lies in a run of one that is cut.
struct Part {
  int sequence; // -1: there are no more
  int keys;     // of the sequence
  Range blocks; // key blocks
};

// How many of a sequence's key blocks lie before a unit of its cost; none, or all, instead of few.
__device__ __forceinline__ int blocks_before(const attnpress_fwd_runs_args *args, int unit,
                                             int blocks) {
  const int64_t before = (int64_t)(max(unit - args->sequence_cost, 0) / BLOCK_COST)
                         << unit_shift(blocks);
  const int n = (int)min(before, (int64_t)blocks);
  if (n < blocks && n < args->least_blocks)
    return 0;
  return blocks - n < args->least_blocks ? blocks : n;
}

// The next part of a run.
__device__ __forceinline__ Part next_part(const attnpress_fwd_runs_args *args, Walk *walk) {
  while (walk->before < walk->end && walk->sequence < args->batch.fwd.batch) {
    const int keys = key_counts[walk->sequence], blocks = ceil_div(keys, BLOCK_N);
    const int begin = blocks_before(args, walk->begin - walk->before, blocks);
    const int end = blocks_before(args, walk->end - walk->before, blocks);
    const bool begins = walk->begin <= walk->before; // the sequence does, in this run
    const Part part = {walk->sequence, keys, {begin, end}};
    ++walk->sequence;
    walk->before += cost_of_sequence(args, blocks);
    if (begin < end || (blocks == 0 && begins))
      return part;
  }
  return {-1, 0, {0, 0}};
}

// The run in which sequence `cut` ends, the last one of a walk that is through.
__device__ __forceinline__ int last_run(const attnpress_fwd_runs_args *args, const Walk *walk,
                                        Shares shares, int run, int cut) {
  const int blocks = ceil_div(key_counts[cut], BLOCK_N);
  const int before = walk->before - cost_of_sequence(args, blocks);
  do
    ++run;
  while (blocks_before(args, begin_of_run(shares, run + 1) - before, blocks) < blocks);
  return run;
}

__device__ __forceinline__ SequenceRows rows_of_part(const attnpress_fwd_ragged_args *batch,
                                                     const Part *part, bool key_count_alone) {
  if (!key_count_alone)
    return rows_of_sequence(&batch->fwd, &batch->ragged, part->sequence);
  const bool fits = batch->ragged.rows_q <= batch->fwd.seqlen_q;
  return {{0, fits ? batch->ragged.rows_q : 0}, {0, part->keys}, part->sequence};
}

constexpr int LANE_KEYS = ceil_div(RING_KEYS, 32); // of those that pass, that a lane looks up

// The keys and values of one head on their way through a warp's ring.
//
// A key block passes as SLABS slabs, first the column slabs of K, then the row slabs of V. The load
// of a slab starts STAGES - 1 slabs ahead of its use.
struct KeyPipeline {
  const attnpress_fwd_ragged_args *batch;
  const uint16_t *k; // of this head's rows in page 0
  const uint16_t *v;
  Pages pages;
  int key_begin; // the first key of a key block that passes through this ring
  // Of this lane's keys of the key block whose slabs are loaded next: what the table says of their
  // pages, and their rows there.
  int page[LANE_KEYS], row_of_page[LANE_KEYS];
  int seqlen_k;    // less the first key of a key block that passes through this ring
  int block_begin; // the last key block that is walked over
  int n;           // the key block whose slabs are loaded next; below block_begin: none
  Walk walk;       // on to what is loaded behind those
  const attnpress_fwd_runs_args *given;
  uint32_t ring;   // shared address of slot 0
  int slot;        // of the slab in use, where a key block is not a whole number of rounds
};

// Moves a pipeline on to the next sequence of the run, if there is one.
__device__ __forceinline__ void load_next_part(KeyPipeline *pipe);

// This thread among those that fill the ring. A macro, because the compiler finds fewer registers
// for a function of the same text.
#define RING_THREAD (threadIdx.x % RING_THREADS)
// Waits for the threads that fill the ring and read it.
__device__ __forceinline__ void ring_barrier() {
  __syncwarp();
}

// Where this lane's key number `i` of key block `n` lies among the sequence's pages.
__device__ __forceinline__ PageRow place_in_block(const KeyPipeline *pipe, int n, int i) {
  return place_of_key(&pipe->pages, &pipe->batch->ragged,
                      n * BLOCK_N + pipe->key_begin + i * 32 + threadIdx.x % 32);
}

// Asks for the numbers of the pages in which those keys lie, by the table that lies `table` entries
// behind K's. They are waited for where they are used.
__device__ __forceinline__ void ask_for_pages(KeyPipeline *pipe, int n, int64_t table) {
#pragma unroll
  for (int i = 0; i < LANE_KEYS; ++i) {
    const PageRow place = place_in_block(pipe, n, i);
    pipe->page[i] = pipe->pages.table[table + place.page];
    pipe->row_of_page[i] = place.row;
  }
}

// Starts the copy of `rows` keys, of `columns` columns, into a slot whose rows have `slab_columns`;
// `global`: their first column in page 0. Keys from `keys` on, counted from the first, become
// zeros. They are keys `first` and on of those that pass through the ring; lanes say to the others
// of a warp where theirs lie, as one offset.
__device__ __forceinline__ void load_rows(uint32_t slot, int slab_columns, const KeyPipeline *pipe,
                                          const uint16_t *global, int64_t page_stride,
                                          int64_t row_stride, int first, int rows, int columns,
                                          int keys) {
  const int pass_rows = RING_THREADS / (columns / 8);
  const int column = copy_column(columns, RING_THREAD);
  const bool copies =
      RING_THREADS % (columns / 8) == 0 || copy_row(columns, RING_THREAD) < pass_rows;
  int64_t key_begin[LANE_KEYS];
#pragma unroll
  for (int i = 0; i < LANE_KEYS; ++i)
    key_begin[i] = clamped_page(&pipe->batch->ragged, pipe->page[i]) * page_stride +
                   pipe->row_of_page[i] * row_stride;
#pragma unroll
  for (int pass = 0; pass < copy_passes(rows, columns, RING_THREADS); ++pass) {
    const int row = pass * pass_rows + copy_row(columns, RING_THREAD);
    const int begin = first + pass * pass_rows, end = begin + pass_rows; // keys of the pass
    int64_t row_begin = 0;
#pragma unroll
    for (int i = 0; i < LANE_KEYS; ++i)
      if (LANE_KEYS == 1 || (begin < (i + 1) * 32 && end > i * 32)) { // some may be lanes' key i
        const int64_t found = __shfl_sync(0xffffffff, key_begin[i], (first + row) % 32);
        row_begin = LANE_KEYS == 1 || (first + row) / 32 == i ? found : row_begin;
      }
    const uint32_t target = slot + row * slab_columns * 2 +
                            (column * 2 ^ swizzle_of_row(slab_columns, row));
    if (copies && (pass * pass_rows + pass_rows <= rows || row < rows))
      cp_async_16(target, global + column + row_begin, rows <= keys || row < keys ? 16 : 0);
  }
}

// Starts the load of slab `slab` of key block `n` into `slot`; slabs are loaded in the order of
// their use. Keys past the end, which only a `masked` key block can have, become zeros.
__device__ __forceinline__ void load_slab(KeyPipeline *pipe, int n, int slab, uint32_t slot,
                                          bool masked) {
  const attnpress_fwd_args *args = &pipe->batch->fwd;
  const int keys = masked ? pipe->seqlen_k - n * BLOCK_N : BLOCK_N; // from the first to the end
  if (slab < K_SLABS) {
    const int columns = slab < K_SLABS - 1 || HEAD_DIM % K_SLAB == 0 ? K_SLAB : HEAD_DIM % K_SLAB;
    load_rows(slot, K_SLAB, pipe, pipe->k + slab * K_SLAB, args->k_batch_stride,
              args->k_row_stride, 0, RING_KEYS, columns, keys);
    // What comes next is loaded a slab's use later: V, whose table may be another one,
    if (slab == K_SLABS - 1 && pipe->batch->ragged.page_table_v != 0)
      ask_for_pages(pipe, n, pipe->batch->ragged.page_table_v);
  } else {
    const int key = (slab - K_SLABS) * V_SLAB;
    load_rows(slot, HEAD_DIM_V, pipe, pipe->v, args->v_batch_stride, args->v_row_stride, key,
              V_SLAB, HEAD_DIM_V, keys - key);
    // and the next key block, or that of the next sequence.
    if (slab == SLABS - 1) {
      if (--pipe->n < pipe->block_begin)
        load_next_part(pipe);
      if (pipe->n >= pipe->block_begin)
        ask_for_pages(pipe, pipe->n, 0);
    }
  }
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
  if (pipe->n >= pipe->block_begin)
    load_slab(pipe, pipe->n, slab % SLABS, pipe->ring + slab * SLOT_BYTES, true);
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
  if (pipe->n >= pipe->block_begin) // which may be the next sequence's, and pass its end
    load_slab(pipe, pipe->n, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), true);
  return ring_slot(pipe, slab, 0);
}

// Closes the group of the loads that started during a slab's use, and moves on.
__device__ __forceinline__ void end_slab(KeyPipeline *pipe) {
  cp_async_commit();
  if (SLABS % STAGES != 0)
    pipe->slot = pipe->slot + 1 == STAGES ? 0 : pipe->slot + 1;
}

// A pipeline over the key blocks of a head from `n` down to `block_begin`, whose ring is at the
// shared address `ring`. `args` and `pages`: of a sequence; `key_begin`: the first key of a key
// block that passes through it.
__device__ __forceinline__ KeyPipeline open_ring(const attnpress_fwd_ragged_args *batch,
                                                 const attnpress_fwd_args *args, Pages pages,
                                                 int kv_head, int n, int block_begin, uint32_t ring,
                                                 int key_begin) {
  KeyPipeline pipe;
  pipe.batch = batch;
  pipe.k = (const uint16_t *)args->k + kv_head * args->k_head_stride;
  pipe.v = (const uint16_t *)args->v + kv_head * args->v_head_stride;
  pipe.pages = pages;
  pipe.key_begin = key_begin;
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
        mma_m16n8k16_bf16(score[m] + s * 4, a_frag, b[pair % 2]);
        mma_m16n8k16_bf16(score[m] + s * 4 + 4, a_frag, b[pair % 2] + 2);
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
          mma_m16n8k16_bf16(out[m] + o * 4, p_frag[m] + (slab * V_SLAB + key) / 4, b);
          mma_m16n8k16_bf16(out[m] + o * 4 + 4, p_frag[m] + (slab * V_SLAB + key) / 4, b + 2);
        }
      }
      if (O_TILES % 2 != 0) {
        uint32_t b[2];
        ldmatrix_x2_trans(b, v_tile + key * V_ROW_BYTES + ((O_TILES - 1) * 16 ^ v_swizzle));
#pragma unroll
        for (int m = 0; m < M_TILES; ++m)
          mma_m16n8k16_bf16(out[m] + (O_TILES - 1) * 4, p_frag[m] + (slab * V_SLAB + key) / 4, b);
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
// Passes of the copy of a tile of Q, and the offset of what this thread copies in each. Its rows
// count heads first: row r is position r / heads of head r % heads.
constexpr int QUERY_PASSES = ceil_div(BLOCK_M * (HEAD_DIM / 8), NUM_THREADS);

__device__ __forceinline__ void find_queries(int64_t offsets[QUERY_PASSES],
                                             const attnpress_fwd_args *args, int row_begin) {
  const int chunks = HEAD_DIM / 8;
#pragma unroll
  for (int pass = 0; pass < QUERY_PASSES; ++pass) {
    const int index = pass * NUM_THREADS + threadIdx.x;
    const int row = index / chunks, chunk = index % chunks;
    int position, head;
    split_row(row_begin + row, args->heads_per_tile, &position, &head);
    offsets[pass] = position * args->q_row_stride + head * args->q_head_stride + chunk * 8;
  }
}

// Starts that copy. Rows past the end become zeros.
__device__ __forceinline__ void load_found_queries(uint32_t shared, const uint16_t *q,
                                                   const int64_t offsets[QUERY_PASSES],
                                                   int row_begin, int rows) {
  const int chunks = HEAD_DIM / 8;
#pragma unroll
  for (int pass = 0; pass < QUERY_PASSES; ++pass) {
    const int index = pass * NUM_THREADS + threadIdx.x;
    const int row = index / chunks, chunk = index % chunks;
    if ((pass + 1) * NUM_THREADS <= BLOCK_M * chunks || index < BLOCK_M * chunks)
      cp_async_16(shared + row * Q_ROW_BYTES + chunk * 16, q + offsets[pass],
                  row_begin + row < rows ? 16 : 0);
  }
}

// ---- What comes next ----

__device__ __forceinline__ void load_next_part(KeyPipeline *pipe) {
  const attnpress_fwd_ragged_args *batch = &pipe->given->batch;
  Part part;
  do
    part = next_part(pipe->given, &pipe->walk);
  while (part.sequence >= 0 && part.blocks.begin >= part.blocks.end); // it has no keys
  pipe->n = part.blocks.end - 1;
  pipe->block_begin = part.blocks.begin;
  if (part.sequence < 0)
    return;
  const SequenceRows rows = rows_of_part(batch, &part, has_key_count_alone(&batch->ragged));
  pipe->seqlen_k = part.keys - pipe->key_begin;
  pipe->pages = pages_of_rows(&batch->ragged, part.sequence, &rows, part.keys);
}

// The keys of a run on their way through a warp's ring, whose loads are as far ahead as it has
// slots.
__device__ __forceinline__ KeyPipeline open_ring_of_run(const attnpress_fwd_runs_args *given,
                                                        Walk walk, int kv_head, uint32_t ring,
                                                        int key_begin) {
  const attnpress_fwd_args *fwd = &given->batch.fwd;
  KeyPipeline pipe;
  pipe.given = given;
  pipe.walk = walk;
  pipe.key_begin = key_begin;
  pipe.ring = ring;
  pipe.slot = 0;
  pipe.batch = &given->batch;
  pipe.k = (const uint16_t *)fwd->k + kv_head * fwd->k_head_stride;
  pipe.v = (const uint16_t *)fwd->v + kv_head * fwd->v_head_stride;
  pipe.pages = {nullptr, 0, 0};
  load_next_part(&pipe);
  if (pipe.n >= pipe.block_begin)
    ask_for_pages(&pipe, pipe.n, 0);
  fill_ring(&pipe, 0, 0);
  return pipe;
}

// Where this lane's rows of Q lie, and their fragments. Rows past the end are zeros.
__device__ __forceinline__ void find_query_rows(int64_t offsets[M_TILES][2],
                                                const attnpress_fwd_args *args, int row_begin) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int position, head;
      split_row(row_begin + m * 16 + half * 8 + lane / 4, args->heads_per_tile, &position, &head);
      offsets[m][half] =
          position * args->q_row_stride + head * args->q_head_stride + lane % 4 * 2;
    }
  }
}

// Has those rows of another sequence brought to the L2 cache.
__device__ __forceinline__ void fetch_query_rows(const uint16_t *q,
                                                 const int64_t offsets[M_TILES][2], int rows) {
  const int lane = threadIdx.x % 32, line_columns = 64; // 128 bytes
#pragma unroll
  for (int m = 0; m < M_TILES; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (m * 16 + half * 8 + lane / 4 < rows && lane % 4 * line_columns < HEAD_DIM)
        prefetch_l2(q + offsets[m][half] + lane % 4 * line_columns);
}

__device__ __forceinline__ void
load_query_rows(uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4], const uint16_t *q,
                const int64_t offsets[M_TILES][2], int rows) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool there = m * 16 + half * 8 + lane / 4 < rows;
#pragma unroll
      for (int k = 0; k < HEAD_DIM / 16; ++k) {
        const uint16_t *from = q + offsets[m][half] + k * 16;
        q_frag[k][m][half] = there ? *(const uint32_t *)from : 0;
        q_frag[k][m][half + 2] = there ? *(const uint32_t *)(from + 8) : 0;
      }
    }
  }
}

// ---- The end of a part ----

// A row of a warp's part, and where a column lies in it: groups of 4 are in another order in each
// of 8 rows, so that these lie in different banks.
constexpr int PART_BYTES = HEAD_DIM_V * 4;
static_assert(BLOCK_M * PART_BYTES <= SLOT_BYTES, "a part takes the place of a slab");
static_assert(WARPS_K * BLOCK_M * 8 <= RING_OFFSET, "row maxima and sums lie before the rings");

__device__ __forceinline__ int part_column(int row, int column) {
  return column ^ row % 8 * 4;
}

// Leaves what the warp has of the first `rows` rows to all, from its part of `parts` on; maxima and
// sums in `states`.
__device__ __forceinline__ void leave_part(const float out[M_TILES][O_TILES * 4],
                                           const float row_max[M_TILES][2],
                                           const float row_sum[M_TILES][2], int rows,
                                           unsigned char *parts, float2 *states) {
  const int thread = read_thread_index();
  const int lane = thread % 32;
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + half * 8 + lane / 4;
      if (row < rows) {
        float *part_row =
            (float *)(parts + thread / RING_THREADS * RING_BYTES + row * PART_BYTES);
#pragma unroll
        for (int o = 0; o < O_TILES; ++o) {
          const float2 pair = {out[m][o * 4 + half * 2], out[m][o * 4 + half * 2 + 1]};
          *(float2 *)(part_row + part_column(row, o * 8 + lane % 4 * 2)) = pair;
        }
        const float2 state = {row_max[m][half], row_sum[m][half]};
        if (lane % 4 == 0)
          states[thread / RING_THREADS * BLOCK_M + row] = state;
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
__device__ __forceinline__ Total add_parts(const unsigned char *parts, const float2 *states,
                                           int row, int column, float scale_log2) {
  const float *part_row = (const float *)(parts + row * PART_BYTES);
  float2 state[WARPS_K];
  Total total = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
  for (int w = 0; w < WARPS_K; ++w) {
    state[w] = states[w * BLOCK_M + row];
    total.maximum = fmaxf(total.maximum, state[w].x);
  }
  const float base = finite_base(total.maximum);
#pragma unroll
  for (int w = 0; w < WARPS_K; ++w) {
    const float4 part =
        *(const float4 *)(part_row + w * (RING_BYTES / 4) + part_column(row, column));
    const float weight = exp2_approx((state[w].x - base) * scale_log2);
    total.sum += weight * state[w].y;
    total.out.x += weight * part.x;
    total.out.y += weight * part.y;
    total.out.z += weight * part.z;
    total.out.w += weight * part.w;
  }
  return total;
}

// Stores 4 columns of a row of a sequence, and its lse with the first.
__device__ __forceinline__ void store_row(const attnpress_fwd_ragged_args *batch,
                                          const attnpress_fwd_args *args, int head, int position,
                                          int column, float4 out, RowEnd end) {
  const uint2 packed = {pack(DTYPE, out.x * end.normalize, out.y * end.normalize),
                        pack(DTYPE, out.z * end.normalize, out.w * end.normalize)};
  *(uint2 *)((uint16_t *)args->out + out_offset(args, 0, head, position) + column) = packed;
  if (args->lse && column == 0)
    store_lse(batch, args, head, position, end.lse);
}

// Adds up the warps' parts: out = sum_w 2^(max_w - max) O_w / row sum, where the row sum is
// sum_w 2^(max_w - max) sum_w, lse = scale * max + log(row sum). Rows without keys: 0 and -inf.
// `whole`: the output is stored; else it is the part at `partial`. `args`: the sequence's.
__device__ __forceinline__ void store_part(const float out[M_TILES][O_TILES * 4],
                                           const float row_max[M_TILES][2],
                                           const float row_sum[M_TILES][2],
                                           const attnpress_fwd_ragged_args *batch,
                                           const attnpress_fwd_args *args, int row_begin,
                                           int first_head, bool whole, int64_t first_partial,
                                           unsigned char *smem, int free_slot) {
  const int thread = read_thread_index();
  const int heads = args->heads_per_tile;
  const int rows = args->seqlen_q * heads - row_begin; // from the tile's first row on
  // A warp's part takes the place of the slab that was used last; its row maxima and sums lie
  // before the rings.
  unsigned char *parts = smem + RING_OFFSET + free_slot * SLOT_BYTES;
  float2 *states = (float2 *)smem;
  // All threads of the warp arrive and wait: that slab has been read.
  ring_barrier();
  leave_part(out, row_max, row_sum, rows, parts, states);
  // All threads arrive and wait: hands over the parts. Each thread then adds up 4 columns of a row.
  __syncthreads();
  const int chunks = HEAD_DIM_V / 4;
  for (int index = thread; index < min(rows, BLOCK_M) * chunks; index += NUM_THREADS) {
    const int row = index / chunks, column = index % chunks * 4;
    const Total total = add_parts(parts, states, row, column, args->scale_log2);
    int position, head;
    split_row(row_begin + row, heads, &position, &head);
    head += first_head;
    const RowEnd end = end_row(total.maximum * args->scale_log2, total.sum, &args->score,
                               args->heads_q, head, DROPOUT, !whole);
    if (whole) {
      store_row(batch, args, head, position, column, total.out, end);
    } else {
      const float4 scaled = {total.out.x * end.normalize, total.out.y * end.normalize,
                             total.out.z * end.normalize, total.out.w * end.normalize};
      const int64_t partial = first_partial + head * batch->fwd.seqlen_q + position;
      *(float4 *)(args->out_partial + partial * HEAD_DIM_V + column) = scaled;
      if (column == 0)
        args->lse_partial[partial] = end.lse;
    }
  }
  // All threads arrive and wait: the parts have been read, and the ring may be filled.
  __syncthreads();
}

// Where the parts of the run that a sequence begins in lie, and those of other runs.
__device__ __forceinline__ int64_t first_partial(const attnpress_fwd_runs_args *args, int run,
                                                 bool begins) {
  const attnpress_fwd_args *fwd = &args->batch.fwd;
  return ((begins ? args->runs : 0) + run) * ((int64_t)fwd->heads_q * fwd->seqlen_q);
}

extern "C" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)
    flash_fwd_split_hdim64_bf16_paged_decode_runs_sm80(
        const __grid_constant__ attnpress_fwd_runs_args given) {
  const attnpress_fwd_ragged_args &batch = given.batch;
  extern __shared__ __align__(128) unsigned char smem[];
  const int warp_row = threadIdx.x / 32 % WARPS_M * M_TILES * 16;
  const int warp_k = threadIdx.x / RING_THREADS;
  const int tile_heads = batch.fwd.heads_q / batch.fwd.heads_per_tile;
  const int tiles = blockIdx.x / batch.fwd.row_blocks, run = tiles / tile_heads;
  const int row_begin = (blockIdx.x - tiles * batch.fwd.row_blocks) * BLOCK_M;
  const int first_head = (tiles - run * tile_heads) * batch.fwd.heads_per_tile;
  const int kv_head = key_head(&batch.fwd, first_head);
  int64_t query_offsets[M_TILES][2];
  find_query_rows(query_offsets, &batch.fwd, row_begin);
  const bool key_count_alone = has_key_count_alone(&batch.ragged);
  const uint32_t shared = shared_address(smem);
  const int first_key = warp_k * RING_KEYS; // of this warp in a key block
  const uint32_t ring = shared + RING_OFFSET + warp_k * RING_BYTES;
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  count_keys(&batch, key_count_alone);
  Shares shares;
  Walk walk = find_walk(&given, run, &shares);
  KeyPipeline pipe = open_ring_of_run(&given, walk, kv_head, ring, first_key);
  Part part = next_part(&given, &walk);

  int cut = -1; // the sequence that goes on in other runs
  while (part.sequence >= 0) {
    const SequenceRows of_sequence = rows_of_part(&batch, &part, key_count_alone);
    const attnpress_fwd_args args = args_of_rows(&batch, part.sequence, &of_sequence);
    const int rows = args.seqlen_q * args.heads_per_tile; // of this head, or these packed heads
    int first_position, last_position, head;
    split_row(row_begin, args.heads_per_tile, &first_position, &head);
    split_row(min(row_begin + BLOCK_M, rows) - 1, args.heads_per_tile, &last_position, &head);
    const Row first_row = find_row(&args, first_position);
    const Row last_row = find_row(&args, last_position);
    const Range unmasked = keys_of_all(first_row, last_row);
    const int block_begin = part.blocks.begin;
    int n = rows > row_begin ? part.blocks.end - 1 : block_begin - 1; // the key block in work

    const uint16_t *q = (const uint16_t *)args.q + first_head * args.q_head_stride;
    uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4];
    load_query_rows(q_frag, q, query_offsets, rows - row_begin);
    const Part next = next_part(&given, &walk);
    if (key_count_alone && next.sequence >= 0)
      fetch_query_rows((const uint16_t *)batch.fwd.q + next.sequence * batch.fwd.q_batch_stride +
                           first_head * batch.fwd.q_head_stride,
                       query_offsets, rows - row_begin);
    Place place;
    place.first_row = row_begin + warp_row;
    place.first_key = first_key;
    float out[M_TILES][O_TILES * 4], row_max[M_TILES][2], row_sum[M_TILES][2];
    start_rows(out, row_max, row_sum, smem);
    for (; n >= block_begin; --n)
      attend(out, row_max, row_sum, &pipe, q_frag, &place, &args, smem, n,
             (n + 1) * BLOCK_N > unmasked.end);
    finish_rows(row_sum, &place, smem);

    const bool begins = block_begin == 0, ends = part.blocks.end == ceil_div(part.keys, BLOCK_N);
    if (begins && !ends)
      cut = part.sequence;
    store_part(out, row_max, row_sum, &batch, &args, row_begin, first_head, begins && ends,
               first_partial(&given, run, begins), smem,
               SLABS % STAGES == 0 || pipe.slot == 0 ? STAGES - 1 : pipe.slot - 1);
    part = next;
  }
  if (threadIdx.x == 0 && first_head == 0 && row_begin == 0) { // for the combine kernel
    given.cuts[run * 2] = cut;
    given.cuts[run * 2 + 1] = cut < 0 ? -1 : last_run(&given, &walk, shares, run, cut);
  }
}
