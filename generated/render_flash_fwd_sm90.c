/* Written by `python -m generator` from templates/attention/flash_fwd_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_sm90(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_sm90(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t split = in->axis[AP_ATTENTION_SPLIT];
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t hdim_v = in->axis[AP_ATTENTION_HDIM_V];
  const int32_t mask = in->axis[AP_ATTENTION_MASK];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (split) {
    TEXT("// One split of the forward pass: partial outputs in fp32 over a range of the keys, which\n"
         "// flash_fwd_combine adds up.\n");
  } else {
    TEXT("// The forward pass: out = softmax(scale * Q K^T) V.\n");
  }
  TEXT("// Q, K, V and out are ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT(", sums are fp32. docs/hopper.md explains the pipeline with a picture.\n"
       "//\n"
       "// Warpgroup 0 is the producer: one thread of it keeps the copy engine (TMA) busy. Each of the other\n"
       "// warpgroups, the consumers, computes 64 query rows, of one head or of heads that share their keys;\n"
       "// they walk over the same key blocks of BLOCK_N keys from right to left (online softmax: Milakov\n"
       "// and Gimelshein 2018, Dao et al. 2022). A consumer's softmax of one key block runs under its own\n"
       "// product P V of the block before, and under the products of the other consumers, with which it\n"
       "// takes turns (Shah et al. 2024). A thread block works through many units of work, and their key\n"
       "// blocks are one stream: where a consumer's rows see a unit's first block, its product runs with\n"
       "// the last one of the unit before.\n"
       "//\n"
       "// Pressed from templates/attention/flash_fwd_sm90.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --hdim ");
  INTEGER(hdim);
  if (hdim_v != hdim) {
    TEXT(" --hdim-v ");
    INTEGER(hdim_v);
  }
  TEXT(" --dtype ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  if (mask == AP_ATTENTION_MASK_CAUSAL) {
    TEXT(" --causal");
  }
  if (split) {
    TEXT(" --split");
  }
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/attention.h\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cvt.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/wgmma/ptx_wgmma_n");
  INTEGER(block_n);
  TEXT(".cuh\"\n");
  if (hdim_v != block_n) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(hdim_v);
    TEXT(".cuh\"\n");
  }
  TEXT("#include \"attnpress/device/softmax.cuh\"\n"
       "#include \"attnpress/device/tile.cuh\"\n"
       "\n"
       "constexpr int HEAD_DIM = ");
  INTEGER(hdim);
  TEXT(";\n"
       "constexpr int HEAD_DIM_V = ");
  INTEGER(hdim_v);
  TEXT(";\n"
       "constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT("; // query rows of a thread block\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys of a key block\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT("; // key blocks of K, and of V, in shared memory\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int PRODUCER_REGISTERS = ");
  INTEGER((block_m == 192) ? 32 : 24);
  TEXT("; // of a thread\n"
       "constexpr int CONSUMER_REGISTERS = ");
  INTEGER((block_m == 192) ? 160 : 240);
  TEXT(";\n"
       "\n"
       "constexpr int CONSUMERS = BLOCK_M / 64;\n"
       "constexpr int NUM_THREADS = 128 * (1 + CONSUMERS);\n"
       "constexpr int K_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of Q K^T\n"
       "constexpr int V_STEPS = BLOCK_N / 16; // of 16 keys, of P V\n"
       "constexpr int S_TILES = BLOCK_N / 8; // of 8 keys\n"
       "constexpr int O_TILES = HEAD_DIM_V / 8; // of 8 columns\n"
       "\n"
       "// Shared memory: Q of each consumer | ring of K | ring of V | barriers. Matrices are stored as\n"
       "// slabs of 64 columns, rows of 128 bytes in the 128-byte swizzle; columns past the head dim are\n"
       "// zeros.\n"
       "constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);\n"
       "constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);\n"
       "constexpr int Q_SLAB_BYTES = 64 * 128;\n"
       "constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V\n"
       "constexpr int Q_BYTES = K_SLABS * Q_SLAB_BYTES; // of one consumer\n"
       "constexpr int K_BYTES = K_SLABS * KEY_SLAB_BYTES; // of one key block\n"
       "constexpr int V_BYTES = V_SLABS * KEY_SLAB_BYTES; // of one key block\n"
       "constexpr int K_OFFSET = CONSUMERS * Q_BYTES;\n"
       "constexpr int V_OFFSET = K_OFFSET + STAGES * K_BYTES;\n"
       "constexpr int BARRIER_OFFSET = V_OFFSET + STAGES * V_BYTES;\n"
       "static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (2 * CONSUMERS + 4 * STAGES), \"shared memory\");\n"
       "static_assert(BLOCK_M % 64 == 0 && BLOCK_N % 16 == 0 && BLOCK_N <= 256, \"tile\");\n"
       "static_assert(KEY_SLAB_BYTES % 1024 == 0, \"atoms of the swizzle\");\n"
       "\n"
       "constexpr float LN_2 = 0.693147180559945309f;\n"
       "\n"
       "// The barriers, by their shared addresses. At a \"full\" one the producer arrives once and names the\n"
       "// bytes, consumers wait, and it hands them what the copy engine has written. At an \"empty\" one each\n"
       "// warp that has read arrives, the producer waits, and it hands the space back.\n"
       "__device__ __forceinline__ uint32_t q_full(uint32_t shared, int consumer) {\n"
       "  return shared + BARRIER_OFFSET + 8 * consumer;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t q_empty(uint32_t shared, int consumer) {\n"
       "  return q_full(shared, CONSUMERS + consumer);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t k_full(uint32_t shared, int stage) {\n"
       "  return q_full(shared, 2 * CONSUMERS + stage);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t k_empty(uint32_t shared, int stage) {\n"
       "  return k_full(shared, STAGES + stage);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t v_full(uint32_t shared, int stage) {\n"
       "  return k_full(shared, 2 * STAGES + stage);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t v_empty(uint32_t shared, int stage) {\n"
       "  return k_full(shared, 3 * STAGES + stage);\n"
       "}\n"
       "\n"
       "// A unit of work: a row block of one head and one split of its keys.\n"
       "struct Work {\n"
       "  int position_begin; // first query position\n"
       "  int split;          // 0 where the keys are not split\n"
       "  int tile_head;      // of heads_q / heads_per_tile\n"
       "  int batch;\n"
       "  int block_begin; // key blocks block_begin to block_end - 1\n"
       "  int block_end;\n"
       "};\n"
       "\n"
       "// Finds this thread block's unit of work of round `round`; false where there is none. Causal units\n"
       "// differ in length, which the change of direction from round to round evens out; each group begins\n"
       "// with a new pair of rounds.\n"
       "__device__ __forceinline__ bool find_work(Work *work, const attnpress_fwd_sm90_args *args,\n"
       "                                          int round) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  const int blocks = gridDim.x;\n"
       "  const int group = divide(round, &args->group_rounds);\n"
       "  const int group_round = round - group * args->group_rounds.value;\n"
       "  const int place = group_round % 2 == 0 ? blockIdx.x : blocks - 1 - blockIdx.x;\n"
       "  const int group_unit = group_round * blocks + place;\n"
       "  const int unit = group * args->group_units + group_unit;\n"
       "  const int section = divide(unit, &args->section_units);\n"
       "  const int section_unit = unit - section * args->section_units.value;\n"
       "  const int row_block = divide(section_unit, &args->section_heads);\n"
       "  int head = section_unit + (section - row_block) * args->section_heads.value;\n"
       "  if (group_unit >= args->group_units || head >= args->heads)\n"
       "    return false;\n"
       "\n");
  if (split) {
    TEXT("  const int split_head = divide(head, &args->num_splits);\n"
         "  work->split = head - split_head * args->num_splits.value;\n"
         "  head = split_head;\n");
  } else {
    TEXT("  work->split = 0;\n");
  }
  TEXT("  work->batch = divide(head, &args->tile_heads);\n"
       "  work->tile_head = head - work->batch * args->tile_heads.value;\n"
       "  const int positions = CONSUMERS * args->warpgroup_positions;\n");
  if (mask == AP_ATTENTION_MASK_CAUSAL) {
    TEXT("  // Later rows see more keys: the longest units come first. Keys past the diagonal of the last row\n"
         "  // are never loaded.\n"
         "  work->position_begin = (fwd->row_blocks - 1 - row_block) * positions;\n"
         "  const int position_end = min(work->position_begin + positions, fwd->seqlen_q);\n"
         "  const int key_end = min(fwd->seqlen_k, max(0, position_end + fwd->seqlen_k - fwd->seqlen_q));\n");
  } else {
    TEXT("  work->position_begin = row_block * positions;\n"
         "  const int key_end = fwd->seqlen_k;\n");
  }
  if (split) {
    TEXT("  work->block_begin = work->split * fwd->key_blocks_per_split;\n"
         "  work->block_end =\n"
         "      min(ceil_div(key_end, BLOCK_N), work->block_begin + fwd->key_blocks_per_split);\n");
  } else {
    TEXT("  work->block_begin = 0;\n"
         "  work->block_end = ceil_div(key_end, BLOCK_N);\n");
  }
  TEXT("  return true;\n"
       "}\n"
       "\n"
       "// ---- The producer ----\n"
       "\n"
       "// Loads key block `n` of K or V, `slabs` slabs, into `target`, once `empty` is in `parity`.\n"
       "__device__ __forceinline__ void load_keys(uint32_t target, const attnpress_tensor_map *map,\n"
       "                                          uint32_t full, uint32_t empty, int parity, int slabs,\n"
       "                                          int n, int kv_head, int batch) {\n"
       "  // The consumers' warps arrived; hands over the space of the key block that was here a round ago.\n"
       "  wait_for_phase(empty, parity);\n"
       "  mbarrier_arrive_expect(full, slabs * KEY_SLAB_BYTES);\n"
       "#pragma unroll\n"
       "  for (int slab = 0; slab < slabs; ++slab)\n"
       "    tma_load_4d(target + slab * KEY_SLAB_BYTES, map, full, slab * 64, n * BLOCK_N, kv_head, batch);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ void load_k(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
       "                                       Stage *stage, int n, int kv_head, int batch) {\n"
       "  load_keys(shared + K_OFFSET + stage->index * K_BYTES, &args->k, k_full(shared, stage->index),\n"
       "            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS, n, kv_head, batch);\n"
       "  *stage = next_stage(*stage, STAGES);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ void load_v(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
       "                                       Stage *stage, int n, int kv_head, int batch) {\n"
       "  load_keys(shared + V_OFFSET + stage->index * V_BYTES, &args->v, v_full(shared, stage->index),\n"
       "            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS, n, kv_head, batch);\n"
       "  *stage = next_stage(*stage, STAGES);\n"
       "}\n"
       "\n"
       "// Loads the consumers' rows of Q, each once its consumer has no more use for those of the unit\n"
       "// before. Rows that no position fills keep what was there: they make rows of S that are not stored.\n"
       "__device__ __forceinline__ void load_q(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
       "                                       int parity, const Work *work) {\n"
       "  const int positions = args->warpgroup_positions;\n"
       "  for (int consumer = 0; consumer < CONSUMERS; ++consumer) {\n"
       "    // The consumer's warps arrived after their last product with the Q that was here.\n"
       "    wait_for_phase(q_empty(shared, consumer), parity ^ 1);\n"
       "    const uint32_t full = q_full(shared, consumer);\n"
       "    mbarrier_arrive_expect(full, K_SLABS * 128 * positions * args->fwd.heads_per_tile);\n"
       "#pragma unroll\n"
       "    for (int slab = 0; slab < K_SLABS; ++slab)\n"
       "      tma_load_5d(shared + consumer * Q_BYTES + slab * Q_SLAB_BYTES, &args->q, full, slab * 64, 0,\n"
       "                  work->position_begin + consumer * positions, work->tile_head, work->batch);\n"
       "  }\n"
       "}\n"
       "\n"
       "// The producer's one thread: loads each unit's Q, and K and V of its key blocks in the order of\n"
       "// their use, K of one block before V of the block before.\n"
       "__device__ __forceinline__ void produce(const attnpress_fwd_sm90_args *args, uint32_t shared) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  const int group = fwd->heads_q / fwd->heads_kv / fwd->heads_per_tile; // tile heads of a key head\n"
       "  Stage k_stage = {0, 0}, v_stage = {0, 0};\n"
       "  int q_parity = 0;\n"
       "  for (int round = 0; round < args->rounds; ++round) {\n"
       "    Work work;\n"
       "    if (!find_work(&work, args, round) || work.block_end <= work.block_begin)\n"
       "      continue;\n"
       "    const int kv_head = work.tile_head / group;\n"
       "    load_k(args, shared, &k_stage, work.block_end - 1, kv_head, work.batch);\n"
       "    load_q(args, shared, q_parity, &work);\n"
       "    q_parity ^= 1;\n"
       "    for (int n = work.block_end - 1; n >= work.block_begin; --n) {\n"
       "      if (n > work.block_begin)\n"
       "        load_k(args, shared, &k_stage, n - 1, kv_head, work.batch);\n"
       "      load_v(args, shared, &v_stage, n, kv_head, work.batch);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- The consumers ----\n"
       "\n"
       "// A consumer's walk over the key blocks of its units.\n"
       "struct Walk {\n"
       "  Work work;\n"
       "  int round;\n"
       "  int n;            // the key block\n"
       "  int block_end;    // this consumer's rows see no key from this key block on\n"
       "  int key_end[2];   // this thread's two rows see the keys below\n");
  TEXT("  int key_unmasked; // all rows of the consumer see the keys below\n"
       "};\n"
       "\n"
       "// Moves on to the next unit; false after the last.\n"
       "__device__ __forceinline__ bool next_unit(Walk *walk, const attnpress_fwd_sm90_args *args,\n"
       "                                          int consumer) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  do {\n"
       "    if (++walk->round >= args->rounds)\n"
       "      return false;\n"
       "  } while (!find_work(&walk->work, args, walk->round));\n"
       "  walk->n = walk->work.block_end - 1;\n"
       "  const int positions = args->warpgroup_positions;\n"
       "  const int position_begin = walk->work.position_begin + consumer * positions;\n");
  if (mask == AP_ATTENTION_MASK_CAUSAL) {
    TEXT("  const int diagonal = fwd->seqlen_k - fwd->seqlen_q;\n"
         "  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;\n"
         "#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half) {\n"
         "    const int position = position_begin + divide(row + half * 8, &args->heads_per_tile);\n"
         "    walk->key_end[half] = min(fwd->seqlen_k, position + 1 + diagonal);\n"
         "  }\n"
         "  walk->key_unmasked = min(fwd->seqlen_k, position_begin + 1 + diagonal);\n"
         "  const int position_end = min(position_begin + positions, fwd->seqlen_q);\n"
         "  const int key_end = max(0, min(fwd->seqlen_k, position_end + diagonal));\n");
  } else {
    TEXT("  walk->key_end[0] = walk->key_end[1] = walk->key_unmasked = fwd->seqlen_k;\n"
         "  const int key_end = fwd->seqlen_k;\n");
  }
  TEXT("  walk->block_end = min(walk->work.block_end, ceil_div(key_end, BLOCK_N));\n"
       "  if (position_begin >= fwd->seqlen_q || walk->block_end < walk->work.block_begin)\n"
       "    walk->block_end = walk->work.block_begin;\n"
       "  return true;\n"
       "}\n"
       "\n"
       "// Whether this consumer's rows see the unit's last key block, with which the unit begins.\n"
       "__device__ __forceinline__ bool sees_first_block(const Walk *walk) {\n"
       "  return walk->block_end == walk->work.block_end && walk->block_end > walk->work.block_begin;\n"
       "}\n"
       "\n");
  if (block_m > 64) {
    TEXT("// Turns at the tensor cores, one a key block. At named barrier 1 + i consumer i waits, and the one\n"
         "// before it, with which its last turn ends, arrives; they hand over no memory.\n"
         "__device__ __forceinline__ void begin_turn(int consumer) {\n"
         "  named_barrier_sync(1 + consumer, 256);\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void end_turn(int consumer) {\n"
         "  named_barrier_arrive(1 + (consumer + 1) % CONSUMERS, 256);\n"
         "}\n"
         "\n");
  }
  TEXT("// Lets a key block pass that no row of this consumer sees.\n"
       "__device__ __forceinline__ void skip_block(uint32_t shared, int consumer, Stage stage) {\n"
       "  // The wait keeps this warp's arrivals within one phase of the barriers.\n"
       "  wait_for_phase(k_full(shared, stage.index), stage.parity);\n"
       "  arrive_once(k_empty(shared, stage.index));\n");
  if (block_m > 64) {
    TEXT("  begin_turn(consumer);\n"
         "  end_turn(consumer);\n");
  }
  TEXT("  wait_for_phase(v_full(shared, stage.index), stage.parity);\n"
       "  arrive_once(v_empty(shared, stage.index));\n"
       "}\n"
       "\n"
       "// Starts S = Q K^T, (64, BLOCK_N), as a group of its own.\n"
       "__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,\n"
       "                                             int consumer, int stage) {\n"
       "  const uint64_t q = wgmma_descriptor(shared + consumer * Q_BYTES, 1024, 0);\n"
       "  const uint64_t k = wgmma_descriptor(shared + K_OFFSET, 1024, 0) + stage * (K_BYTES / 16);\n"
       "  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(score);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < K_STEPS; ++step) {\n"
       "    const uint64_t q_step = q + (step / 4 * Q_SLAB_BYTES + step % 4 * 32) / 16;\n"
       "    const uint64_t k_step = k + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16;\n"
       "    wgmma_m64n");
  INTEGER(block_n);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_ss(score, q_step, k_step, step > 0);\n"
       "  }\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Starts O += P V, (64, HEAD_DIM_V), as a group of its own.\n"
       "__device__ __forceinline__ void start_output(float out[O_TILES * 4], uint32_t p[V_STEPS][4],\n"
       "                                             uint32_t shared, int stage) {\n"
       "  const uint64_t v =\n"
       "      wgmma_descriptor(shared + V_OFFSET, 1024, KEY_SLAB_BYTES) + stage * (V_BYTES / 16);\n"
       "  wgmma_order_n");
  INTEGER(hdim_v);
  TEXT("(out);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < V_STEPS; ++step)\n"
       "    wgmma_m64n");
  INTEGER(hdim_v);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_rs_trans(out, p[step], v + step * 16 * 128 / 16, 1);\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Waits for S of the key block in `stage`, and hands its K back, and Q after the unit's last block.\n"
       "__device__ __forceinline__ void finish_scores(float score[S_TILES * 4], int pending,\n"
       "                                              uint32_t shared, int consumer, int stage,\n"
       "                                              bool last_block) {\n"
       "  wgmma_wait(pending);\n"
       "  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(score);\n"
       "  arrive_once(k_empty(shared, stage));\n"
       "  if (last_block)\n"
       "    arrive_once(q_empty(shared, consumer));\n"
       "}\n"
       "\n"
       "// Waits for O += P V.\n"
       "__device__ __forceinline__ void finish_output(float out[O_TILES * 4]) {\n"
       "  wgmma_wait(0);\n"
       "  wgmma_order_n");
  INTEGER(hdim_v);
  TEXT("(out);\n"
       "}\n"
       "\n"
       "// Starts S = Q K^T of the key block in `stage` and O += P V of the block before, in `last`, and\n"
       "// waits for S.\n"
       "__device__ __forceinline__ void exchange_blocks(float score[S_TILES * 4], float out[O_TILES * 4],\n"
       "                                                uint32_t p[V_STEPS][4], uint32_t shared,\n"
       "                                                int consumer, Stage stage, Stage last,\n"
       "                                                bool last_block) {\n"
       "  // The copy engine hands over K.\n"
       "  wait_for_phase(k_full(shared, stage.index), stage.parity);\n");
  if (block_m > 64) {
    TEXT("  begin_turn(consumer);\n");
  }
  TEXT("  start_scores(score, shared, consumer, stage.index);\n"
       "  start_output(out, p, shared, last.index);\n");
  if (block_m > 64) {
    TEXT("  end_turn(consumer);\n");
  }
  TEXT("  finish_scores(score, 1, shared, consumer, stage.index, last_block);\n"
       "}\n"
       "\n"
       "// Masks the scores of the walk's key block where some row does not see all its keys, and makes P of\n"
       "// them.\n"
       "__device__ __forceinline__ void take_scores(float score[S_TILES * 4], float reference[2],\n"
       "                                            float row_sum[2], float rescale[2], const Walk *walk,\n"
       "                                            float scale_log2) {\n"
       "  if ((walk->n + 1) * BLOCK_N > walk->key_unmasked)\n"
       "    mask_scores(score, S_TILES, walk->key_end, walk->n * BLOCK_N + threadIdx.x % 4 * 2);\n"
       "  online_softmax(score, S_TILES, reference, row_sum, rescale, scale_log2);\n"
       "}\n"
       "\n"
       "// Rounds P to A fragments: two accumulator tiles of S are one fragment of 16 keys.\n"
       "__device__ __forceinline__ void round_probabilities(uint32_t p[V_STEPS][4],\n"
       "                                                    const float score[S_TILES * 4]) {\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < V_STEPS; ++step) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < 4; ++i)\n"
       "      p[step][i] = pack_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("(score[step * 8 + i * 2], score[step * 8 + i * 2 + 1]);\n"
       "  }\n"
       "}\n"
       "\n");
  if (!split) {
    TEXT("// Of two lanes that hold a piece of each of two tiles, the even one gets both pieces of the first\n"
         "// tile, the other both of the second.\n"
         "__device__ __forceinline__ uint2 exchange_pieces(uint32_t first, uint32_t second) {\n"
         "  const bool odd = threadIdx.x % 2;\n"
         "  const uint32_t received = __shfl_xor_sync(0xffffffff, odd ? first : second, 1);\n"
         "  return odd ? uint2{received, second} : uint2{first, received};\n"
         "}\n"
         "\n");
  }
  TEXT("// out = O / row sum, lse = scale * reference + log(row sum). Rows without keys: 0 and -inf.\n"
       "__device__ __forceinline__ void store_output(const float out[O_TILES * 4], const float reference[2],\n"
       "                                             const float row_sum[2],\n"
       "                                             const attnpress_fwd_sm90_args *args, const Work *work,\n"
       "                                             int consumer) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int half = 0; half < 2; ++half) {\n"
       "    const float sum = quad_sum(row_sum[half]);\n"
       "    const float normalize = sum == 0.0f ? 0.0f : reciprocal_approx(sum);\n"
       "    const float lse = (reference[half] * fwd->scale_log2 + log2_approx(sum)) * LN_2;\n"
       "    const int row = threadIdx.x / 32 % 4 * 16 + half * 8 + lane / 4; // of the warpgroup\n"
       "    const int row_position = divide(row, &args->heads_per_tile);\n"
       "    const int position = work->position_begin + consumer * args->warpgroup_positions + row_position;\n"
       "    const int head = (work->tile_head - row_position) * fwd->heads_per_tile + row;\n"
       "    const bool valid = row_position < args->warpgroup_positions && position < fwd->seqlen_q;\n");
  if (split) {
    TEXT("    const int64_t partial = // row of (split, batch, head, position)\n"
         "        ((work->split * (int64_t)fwd->batch + work->batch) * fwd->heads_q + head) * fwd->seqlen_q +\n"
         "        position;\n"
         "    if (valid && lane % 4 == 0)\n"
         "      fwd->lse_partial[partial] = lse;\n"
         "    float *out_row = fwd->out_partial + partial * HEAD_DIM_V + lane % 4 * 2;\n"
         "#pragma unroll\n"
         "    for (int tile = 0; tile < O_TILES; ++tile) {\n"
         "      const float2 pair = {out[tile * 4 + half * 2] * normalize,\n"
         "                           out[tile * 4 + half * 2 + 1] * normalize};\n"
         "      if (valid)\n"
         "        *(float2 *)(out_row + tile * 8) = pair;\n"
         "    }\n");
  } else {
    TEXT("    if (fwd->lse && valid && lane % 4 == 0)\n"
         "      fwd->lse[work->batch * fwd->lse_batch_stride + head * fwd->lse_head_stride + position] = lse;\n"
         "    // A quad holds a tile's 8 columns of a row in pieces of two. Two lanes exchange pieces, so that\n"
         "    // each stores 8 bytes of one tile, and a store fills whole sectors of 32 bytes.\n"
         "    uint16_t *out_row = (uint16_t *)fwd->out + work->batch * fwd->out_batch_stride +\n"
         "                        position * fwd->out_row_stride + head * fwd->out_head_stride +\n"
         "                        lane % 2 * 8 + lane / 2 % 2 * 4;\n"
         "#pragma unroll\n"
         "    for (int tile = 0; tile < O_TILES; tile += 2) {\n"
         "      const float *first = out + tile * 4 + half * 2;\n"
         "      const float *second = out + min_int(tile + 1, O_TILES - 1) * 4 + half * 2;\n"
         "      const uint2 pieces =\n"
         "          exchange_pieces(pack_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(first[0] * normalize, first[1] * normalize),\n"
         "                          pack_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(second[0] * normalize, second[1] * normalize));\n"
         "      if (valid && (tile + 1 < O_TILES || lane % 2 == 0))\n"
         "        *(uint2 *)(out_row + tile * 8) = pieces;\n"
         "    }\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n"
       "// One consumer: 64 rows of each unit.\n"
       "__device__ __forceinline__ void consume(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
       "                                        int consumer) {\n"
       "  const float scale_log2 = args->fwd.scale_log2;\n");
  if (block_m > 64) {
    TEXT("  if (consumer == CONSUMERS - 1)\n"
         "    end_turn(consumer); // the first turn is the first consumer's\n");
  }
  TEXT("  Walk walk;\n"
       "  walk.round = -1;\n"
       "  bool more = next_unit(&walk, args, consumer);\n"
       "  Stage stage = {0, 0}; // of the key block in `score`\n"
       "  int q_parity = 0;\n"
       "\n"
       "  // Each pass is a stream of key blocks, as far as this consumer's rows see them all.\n"
       "  while (more) {\n"
       "    float out[O_TILES * 4] = {};\n"
       "    float reference[2] = {-INF, -INF}, row_sum[2] = {0.0f, 0.0f}, rescale[2];\n"
       "    const bool has_keys = walk.work.block_begin < walk.work.block_end;\n"
       "    if (has_keys) // the copy engine hands over Q\n"
       "      wait_for_phase(q_full(shared, consumer), q_parity);\n"
       "    for (; walk.n >= walk.block_end && has_keys; --walk.n) {\n"
       "      skip_block(shared, consumer, stage);\n"
       "      stage = next_stage(stage, STAGES);\n"
       "    }\n"
       "    if (walk.n < walk.work.block_begin) { // no row of this consumer sees a key\n"
       "      store_output(out, reference, row_sum, args, &walk.work, consumer);\n"
       "      if (has_keys)\n"
       "        arrive_once(q_empty(shared, consumer));\n"
       "      q_parity ^= has_keys;\n"
       "      more = next_unit(&walk, args, consumer);\n"
       "      continue;\n"
       "    }\n"
       "\n"
       "    // S = Q K^T of the stream's first block; the copy engine hands over K.\n"
       "    float score[S_TILES * 4];\n"
       "    uint32_t p[V_STEPS][4];\n"
       "    wait_for_phase(k_full(shared, stage.index), stage.parity);\n");
  if (block_m > 64) {
    TEXT("    begin_turn(consumer);\n");
  }
  TEXT("    start_scores(score, shared, consumer, stage.index);\n");
  if (block_m > 64) {
    TEXT("    end_turn(consumer);\n");
  }
  TEXT("    finish_scores(score, 0, shared, consumer, stage.index, walk.n == walk.work.block_begin);\n"
       "    take_scores(score, reference, row_sum, rescale, &walk, scale_log2);\n"
       "\n"
       "    Work last_work; // the unit before, and what it leaves to be stored\n"
       "    float last_reference[2], last_sum[2];\n"
       "    Stage last = {-1, 0}; // of the P V in flight\n"
       "    for (;;) {\n"
       "      // The unit's first P is in `score`, the last P V of the unit before is in flight. The copy\n"
       "      // engine hands over V; this wait also keeps the compiler from moving exponentials behind the\n"
       "      // next one.\n"
       "      wait_for_phase(v_full(shared, stage.index), stage.parity);\n"
       "      finish_output(out);\n"
       "      if (last.index >= 0) {\n"
       "        arrive_once(v_empty(shared, last.index));\n"
       "        store_output(out, last_reference, last_sum, args, &last_work, consumer);\n"
       "      }\n"
       "      for (int i = 0; i < O_TILES * 4; ++i)\n"
       "        out[i] = 0.0f;\n"
       "      round_probabilities(p, score);\n"
       "\n"
       "      for (--walk.n; walk.n >= walk.work.block_begin; --walk.n) {\n"
       "        last = stage;\n"
       "        stage = next_stage(stage, STAGES);\n"
       "        exchange_blocks(score, out, p, shared, consumer, stage, last,\n"
       "                        walk.n == walk.work.block_begin);\n"
       "        take_scores(score, reference, row_sum, rescale, &walk, scale_log2);\n"
       "        // As above.\n"
       "        wait_for_phase(v_full(shared, stage.index), stage.parity);\n"
       "        finish_output(out);\n"
       "        arrive_once(v_empty(shared, last.index));\n"
       "        rescale_rows(out, O_TILES, rescale);\n"
       "        round_probabilities(p, score);\n"
       "      }\n"
       "\n"
       "      last_work = walk.work;\n"
       "      q_parity ^= 1;\n"
       "      more = next_unit(&walk, args, consumer);\n"
       "      if (!more || !sees_first_block(&walk))\n"
       "        break;\n"
       "      last = stage;\n"
       "      stage = next_stage(stage, STAGES);\n"
       "      wait_for_phase(q_full(shared, consumer), q_parity); // the copy engine hands over Q\n"
       "      exchange_blocks(score, out, p, shared, consumer, stage, last,\n"
       "                      walk.n == walk.work.block_begin);\n"
       "      for (int half = 0; half < 2; ++half) {\n"
       "        last_reference[half] = reference[half];\n"
       "        last_sum[half] = row_sum[half];\n"
       "        reference[half] = -INF;\n"
       "        row_sum[half] = 0.0f;\n"
       "      }\n"
       "      take_scores(score, reference, row_sum, rescale, &walk, scale_log2);\n"
       "    }\n"
       "\n"
       "    // O += P V of the stream's last block.\n"
       "    start_output(out, p, shared, stage.index);\n"
       "    finish_output(out);\n"
       "    arrive_once(v_empty(shared, stage.index));\n"
       "    stage = next_stage(stage, STAGES);\n"
       "    store_output(out, reference, row_sum, args, &last_work, consumer);\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_fwd_sm90_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  if (threadIdx.x == 0) {\n"
       "    prefetch_tensor_map(&args.q);\n"
       "    prefetch_tensor_map(&args.k);\n"
       "    prefetch_tensor_map(&args.v);\n"
       "    for (int consumer = 0; consumer < CONSUMERS; ++consumer) {\n"
       "      mbarrier_init(q_full(shared, consumer), 1);\n"
       "      mbarrier_init(q_empty(shared, consumer), 4);\n"
       "    }\n"
       "    for (int stage = 0; stage < STAGES; ++stage) {\n"
       "      mbarrier_init(k_full(shared, stage), 1);\n"
       "      mbarrier_init(k_empty(shared, stage), 4 * CONSUMERS);\n"
       "      mbarrier_init(v_full(shared, stage), 1);\n"
       "      mbarrier_init(v_empty(shared, stage), 4 * CONSUMERS);\n"
       "    }\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the barriers.\n"
       "  __syncthreads();\n"
       "\n"
       "  if (threadIdx.x < 128) {\n"
       "    decrease_registers(PRODUCER_REGISTERS);\n"
       "    if (threadIdx.x == 0)\n"
       "      produce(&args, shared);\n"
       "  } else {\n"
       "    increase_registers(CONSUMER_REGISTERS);\n"
       "    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
       "    consume(&args, shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);\n"
       "  }\n"
       "}\n");
}
