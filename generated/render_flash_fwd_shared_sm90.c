/* Written by `python -m generator` from templates/attention/flash_fwd_shared_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_shared_sm90(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_shared_sm90(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t split = in->axis[AP_ATTENTION_SPLIT];
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t hdim_v = in->axis[AP_ATTENTION_HDIM_V];
  const int32_t dtype = in->axis[AP_ATTENTION_DTYPE];
  const int32_t mask = in->axis[AP_ATTENTION_MASK];
  const int32_t softcap = in->axis[AP_ATTENTION_SOFTCAP];
  const int32_t alibi = in->axis[AP_ATTENTION_ALIBI];
  const int32_t bias = in->axis[AP_ATTENTION_BIAS];
  const int32_t dropout = in->axis[AP_ATTENTION_DROPOUT];
  const int32_t mod_score = in->axis[AP_ATTENTION_MOD_SCORE];
  const int32_t mod_mask = in->axis[AP_ATTENTION_MOD_MASK];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t ready = in->axis[AP_ATTENTION_READY];
  const int32_t decode = in->axis[AP_ATTENTION_DECODE];
  const int32_t runs = in->axis[AP_ATTENTION_RUNS];
  const int32_t append = in->axis[AP_ATTENTION_APPEND];
  const int32_t long_rows = in->axis[AP_ATTENTION_LONG_ROWS];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// The forward pass of few rows in few splits at fixed places, of as many keys each. Q, K, V and out are\n"
       "// ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT(", sums are fp32. A cluster has the rows of a key head, with the bits of the kernels whose\n"
       "// thread blocks have a split each, which walk over its key blocks from right to left (docs/hopper.md).\n"
       "//\n"
       "// SHARING thread blocks share a split. Each computes the scores of some of its key blocks, and sends\n"
       "// them to all. Each makes P of all scores, a key block a warp: from the greatest of each key block\n"
       "// follow all references. Then it has some of the columns of O, over all keys of the split, one after\n"
       "// the other. Those of the first split add up the others' O, and store the output.\n"
       "//\n"
       "// Pressed from templates/attention/flash_fwd_shared_sm90.cu.j2 with tile ");
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
  if (mask != AP_ATTENTION_MASK_FULL) {
    TEXT(" --");
    STRING(in->word[AP_ATTENTION_MASK]);
  }
  if (softcap) {
    TEXT(" --softcap");
  }
  if (alibi) {
    TEXT(" --alibi");
  }
  if (bias != AP_ATTENTION_BIAS_NONE) {
    TEXT(" --bias ");
    STRING(in->word[AP_ATTENTION_BIAS]);
  }
  if (dropout) {
    TEXT(" --dropout");
  }
  if (mod_score) {
    TEXT(" --mod-score");
  }
  if (mod_mask) {
    TEXT(" --mod-mask");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT(" --");
    STRING(in->word[AP_ATTENTION_SEQUENCES]);
  }
  if (ready) {
    TEXT(" --ready");
  }
  if (split) {
    TEXT(" --split");
  }
  if (decode) {
    TEXT(" --decode");
  }
  if (runs) {
    TEXT(" --runs");
  }
  if (append) {
    TEXT(" --append");
  }
  if (long_rows) {
    TEXT(" --long-rows");
  }
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/ragged.h\"\n"
       "#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/product.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/ptx_atom.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_cluster.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_ldmatrix.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_prefetch.cuh\"\n"
       "#include \"attnpress/device/score.cuh\"\n"
       "#include \"attnpress/device/sequence.cuh\"\n"
       "#include \"attnpress/device/softmax.cuh\"\n"
       "#include \"attnpress/device/softmax_row.cuh\"\n"
       "#include \"attnpress/device/tile.cuh\"\n"
       "#include \"attnpress/device/units.cuh\"\n"
       "#include \"attnpress/device/work.cuh\"\n"
       "\n"
       "constexpr int HEAD_DIM = ");
  INTEGER(hdim);
  TEXT("; // of K and V\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_ATTENTION_DTYPE_BF16) ? "BF16" : "FP16");
  TEXT(";\n"
       "constexpr bool CAUSAL = ");
  STRING((mask == AP_ATTENTION_MASK_CAUSAL) ? "true" : "false");
  TEXT(";\n"
       "constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT("; // of a key head\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys of a key block\n"
       "constexpr int BLOCKS = ");
  INTEGER(stages);
  TEXT("; // key blocks of a split, at most\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int SHARING = 4; // thread blocks that share a split\n"
       "constexpr int SPLITS = 4; // at most\n"
       "constexpr int WARPS = 8;\n"
       "constexpr int NUM_THREADS = 32 * WARPS;\n"
       "\n"
       "constexpr int K_STEPS = HEAD_DIM / 16; // of 16 columns, of Q K^T\n"
       "constexpr int V_STEPS = BLOCK_N / 16;  // of 16 keys, of P V\n"
       "constexpr int S_TILES = BLOCK_N / 8;   // of 8 keys\n"
       "constexpr int OWN_BLOCKS = ceil_div(BLOCKS, SHARING); // of K, a thread block's\n"
       "constexpr int OWN_KEYS = OWN_BLOCKS * BLOCK_N;\n"
       "constexpr int SPLIT_KEYS = BLOCKS * BLOCK_N;\n"
       "constexpr int COLUMNS = HEAD_DIM / SHARING; // of V and O, a thread block's\n"
       "static_assert(BLOCK_M == 8 && BLOCKS <= WARPS && COLUMNS / 8 <= WARPS, \"tile\");\n"
       "static_assert(COLUMNS % 8 == 0 && K_STEPS % 2 == 0 && BLOCK_N % 16 == 0, \"tile\");\n"
       "\n"
       "// Copies are of 16 bytes, of a number of rows a pass.\n"
       "constexpr int K_CHUNKS = HEAD_DIM / 8, K_ROWS = NUM_THREADS / K_CHUNKS;\n"
       "constexpr int V_CHUNKS = COLUMNS / 8, V_ROWS = NUM_THREADS / V_CHUNKS;\n"
       "constexpr int K_PASSES = ceil_div(OWN_KEYS, K_ROWS), V_PASSES = ceil_div(SPLIT_KEYS, V_ROWS);\n"
       "\n"
       "// Shared memory: Q | own key blocks of K, then P | own columns of V, of all key blocks | scores.\n"
       "// Rows of the matrices are padded. Scores and P are 8 and 4 bytes of each lane a tile of 8 keys, as\n"
       "// accumulators and fragments have them: rows of the first half alone.\n"
       "constexpr int ROW_BYTES = tile_row_bytes(HEAD_DIM); // of Q and K\n"
       "constexpr int V_ROW_BYTES = tile_row_bytes(COLUMNS);\n"
       "constexpr int K_OFFSET = BLOCK_M * ROW_BYTES;\n"
       "constexpr int V_OFFSET = K_OFFSET + OWN_KEYS * ROW_BYTES;\n"
       "constexpr int S_OFFSET = V_OFFSET + SPLIT_KEYS * V_ROW_BYTES;\n"
       "constexpr int P_OFFSET = K_OFFSET;\n"
       "static_assert(SMEM_BYTES >= S_OFFSET + SPLIT_KEYS / 8 * 256, \"shared memory\");\n"
       "static_assert(SPLIT_KEYS / 8 * 128 <= V_OFFSET - K_OFFSET, \"P takes K's place\");\n"
       "\n"
       "// The outermost of a row's scores by their bits, as outermost_bits() finds them.\n"
       "struct Outermost {\n"
       "  int greatest, least;\n"
       "};\n"
       "\n"
       "// Of each key block, the last one first: its outermost scores, the factors of what was summed\n"
       "// before, and sums of lanes.\n"
       "__shared__ Outermost outermost[BLOCKS][BLOCK_M];\n"
       "__shared__ float rescales[BLOCKS][BLOCK_M];\n"
       "__shared__ float sums[BLOCKS][32];\n"
       "__shared__ float references[BLOCK_M]; // of all key blocks\n"
       "__shared__ uint64_t scores_barrier; // the scores are there: those that come from each block\n"
       "\n"
       "// O of the other splits, normalised, by (split, warp, lane), and lse of its rows.\n"
       "__shared__ float2 parts[SPLITS - 1][COLUMNS / 8][32];\n"
       "__shared__ float2 part_lse[SPLITS - 1][BLOCK_M];\n"
       "__shared__ uint64_t parts_barrier; // they are there\n"
       "constexpr int PART_BYTES = sizeof parts[0] + sizeof part_lse[0];\n"
       "\n"
       "// What a thread block has, by its number alone: a row block of one head of a sequence, and one of the\n"
       "// splits, which are the cluster's.\n"
       "struct Place {\n"
       "  int sequence, split, tile_head;\n"
       "  int position_begin; // first query position\n"
       "  int rank;           // among those that share the split\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Place find_place(const attnpress_fwd_sm90_args *args) {\n"
       "  const int splits = blockIdx.x / SHARING, row_blocks = args->fwd.row_blocks;\n"
       "  const int number = divide(splits, &args->num_splits); // of the cluster\n"
       "  const int blocks = divide(number, &args->tile_heads);\n"
       "  const int sequence = row_blocks == 1 ? blocks : blocks / row_blocks;\n"
       "  Place place;\n"
       "  place.sequence = sequence;\n"
       "  place.split = splits - number * args->num_splits.value;\n"
       "  place.tile_head = number - blocks * args->tile_heads.value;\n"
       "  place.position_begin = (blocks - sequence * row_blocks) * args->warpgroup_positions;\n"
       "  place.rank = blockIdx.x - splits * SHARING;\n"
       "  return place;\n"
       "}\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("// Where this thread's keys lie, of K or V: keys `first`, first + step ... of the split's, whose\n"
         "// columns it copies.\n"
         "__device__ __forceinline__ void find_places(PageRow *places, int passes,\n"
         "                                            const attnpress_ragged_args *ragged,\n"
         "                                            const Pages *pages, const int *keys) {\n"
         "#pragma unroll\n"
         "  for (int pass = 0; pass < passes; ++pass)\n"
         "    places[pass] = place_of_key(pages, ragged, keys[pass]);\n"
         "}\n"
         "\n");
  }
  TEXT("// Asks for what is read first to come to the L2 cache. Nothing is read, so that it need not wait for\n"
       "// what may yet write there.\n"
       "__device__ __forceinline__ void fetch_lengths(const attnpress_fwd_sm90_args *args,\n"
       "                                              const attnpress_ragged_args *ragged, Place place) {\n"
       "  const int b = place.sequence;\n"
       "  if (threadIdx.x == 0) {\n"
       "    if (ragged->cu_seqlens_q != nullptr)\n"
       "      prefetch_l2(ragged->cu_seqlens_q + b);\n"
       "    if (ragged->cu_seqlens_k != nullptr)\n"
       "      prefetch_l2(ragged->cu_seqlens_k + b);\n"
       "    if (ragged->seqused_k != nullptr)\n"
       "      prefetch_l2(ragged->seqused_k + b);\n"
       "  }\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  if (ragged->page_indptr != nullptr || ragged->kv_batch_idx != nullptr)\n"
         "    return;\n"
         "  const int first = place.split * SPLIT_KEYS;\n"
         "  const Pages pages = {ragged->page_table + b * ragged->page_table_stride, 0,\n"
         "                       max(args->fwd.seqlen_k - 1, 0)};\n"
         "  const int entry = place_of_key(&pages, ragged, first).page + threadIdx.x * 32;\n"
         "  if (entry <= place_of_key(&pages, ragged, first + SPLIT_KEYS - 1).page) {\n"
         "    prefetch_l2(pages.table + entry);\n"
         "    if (ragged->page_table_v != 0)\n"
         "      prefetch_l2(pages.table + entry + ragged->page_table_v);\n"
         "  }\n");
  }
  TEXT("}\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("// Asks for this thread's keys to come to the L2 cache, one thread for each 128 bytes, as far as the\n"
         "// length says which they are before what ran before has ended, which may yet write all of them.\n"
         "// Returns how many keys that length says.\n"
         "__device__ __forceinline__ int fetch_keys(const attnpress_fwd_args *fwd,\n"
         "                                          const attnpress_ragged_args *ragged, int sequence,\n"
         "                                          const uint16_t *k, const uint16_t *v,\n"
         "                                          const int *k_keys, const int *v_keys) {\n"
         "  const int used = (int)load_relaxed((const uint32_t *)ragged->seqused_k + sequence);\n"
         "  const int count = keys_by_count(ragged, used).count;\n"
         "#pragma unroll\n"
         "  for (int pass = 0; pass < K_PASSES; ++pass)\n"
         "    if (threadIdx.x % K_CHUNKS % 8 == 0 && k_keys[pass] < count)\n"
         "      prefetch_l2(k + sequence * fwd->k_batch_stride + k_keys[pass] * fwd->k_row_stride);\n"
         "#pragma unroll\n"
         "  for (int pass = 0; pass < V_PASSES; ++pass)\n"
         "    if (threadIdx.x % V_CHUNKS == 0 && v_keys[pass] < count)\n"
         "      prefetch_l2(v + sequence * fwd->v_batch_stride + v_keys[pass] * fwd->v_row_stride);\n"
         "  return count;\n"
         "}\n"
         "\n");
  }
  TEXT("// Begins this thread's copies of own key blocks of K and of Q, a group, and of V, another, of a\n"
       "// sequence whose rows are `of`. What is past its ends becomes zeros.\n"
       "__device__ __forceinline__ void copy_rows(const attnpress_fwd_sm90_args *args,\n"
       "                                          const attnpress_ragged_args *ragged, Place place,\n"
       "                                          const SequenceRows *of, const uint16_t *k,\n"
       "                                          const uint16_t *v, const int *k_keys, const int *v_keys,\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("                                          const PageRow *k_places, const PageRow *v_places,\n");
  }
  TEXT("                                          uint32_t shared) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  const int seqlen_q = of->queries.count, seqlen_k = of->keys.count;\n"
       "#pragma unroll\n"
       "  for (int pass = 0; pass < K_PASSES; ++pass) {\n"
       "    const int own = pass * K_ROWS + threadIdx.x / K_CHUNKS, key = k_keys[pass];\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("    const uint16_t *from = k + clamped_page(ragged, k_places[pass].page) * fwd->k_batch_stride +\n"
         "                           k_places[pass].row * fwd->k_row_stride;\n");
  } else {
    TEXT("    const uint16_t *from = k + max(min(key, seqlen_k - 1), 0) * fwd->k_row_stride;\n");
  }
  TEXT("    if (OWN_KEYS % K_ROWS == 0 || own < OWN_KEYS)\n"
       "      cp_async_16(shared + K_OFFSET + own * ROW_BYTES + threadIdx.x % K_CHUNKS * 16, from,\n"
       "                  key < seqlen_k ? 16 : 0);\n"
       "  }\n"
       "  if (threadIdx.x < BLOCK_M * K_CHUNKS) {\n"
       "    const int row = threadIdx.x / K_CHUNKS, of_block = divide(row, &args->heads_per_tile);\n"
       "    const int of_head = (place.tile_head - of_block) * fwd->heads_per_tile + row;\n"
       "    const int at = place.position_begin + of_block;\n"
       "    const int q_batch = ragged->cu_seqlens_q != nullptr ? 0 : place.sequence;\n"
       "    const bool there = of_block < args->warpgroup_positions && at < seqlen_q;\n"
       "    const uint16_t *from = (const uint16_t *)fwd->q + q_batch * fwd->q_batch_stride;\n"
       "    if (there)\n"
       "      from += (of->queries.begin + at) * fwd->q_row_stride + of_head * fwd->q_head_stride +\n"
       "              threadIdx.x % K_CHUNKS * 8;\n"
       "    cp_async_16(shared + row * ROW_BYTES + threadIdx.x % K_CHUNKS * 16, from, there ? 16 : 0);\n"
       "  }\n"
       "  cp_async_commit();\n"
       "#pragma unroll\n"
       "  for (int pass = 0; pass < V_PASSES; ++pass) {\n"
       "    const int own = pass * V_ROWS + threadIdx.x / V_CHUNKS, key = v_keys[pass];\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("    const uint16_t *from = v + clamped_page(ragged, v_places[pass].page) * fwd->v_batch_stride +\n"
         "                           v_places[pass].row * fwd->v_row_stride;\n");
  } else {
    TEXT("    const uint16_t *from = v + max(min(key, seqlen_k - 1), 0) * fwd->v_row_stride;\n");
  }
  TEXT("    if (SPLIT_KEYS % V_ROWS == 0 || own < SPLIT_KEYS)\n"
       "      cp_async_16(shared + V_OFFSET + own * V_ROW_BYTES + threadIdx.x % V_CHUNKS * 16, from,\n"
       "                  key < seqlen_k ? 16 : 0);\n"
       "  }\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n"
       "// The reference behind one key block more, and the factor of what was summed before: as\n"
       "// take_row_lazily() moves it.\n"
       "__device__ __forceinline__ float move_behind(Outermost block, float *reference, float scale_log2) {\n"
       "  const int bits = max(block.greatest, __builtin_bit_cast(int, *reference));\n"
       "  float maximum = __builtin_bit_cast(float, bits);\n"
       "  if (bits < 0) {\n"
       "    maximum = __builtin_bit_cast(float, min(block.least, __builtin_bit_cast(int, *reference)));\n"
       "    if (maximum * scale_log2 > least_raised(DTYPE))\n"
       "      maximum = raised(maximum, scale_log2);\n"
       "  }\n"
       "  if ((maximum - *reference) * scale_log2 <= 8.0f)\n"
       "    maximum = *reference;\n"
       "  return move_reference(maximum, finite_base(maximum), reference, scale_log2);\n"
       "}\n"
       "\n"
       "// Fragments of one key block: P of 16 keys a step, and V.\n"
       "struct BlockFragments {\n"
       "  uint32_t p[V_STEPS][2], v[V_STEPS][2];\n"
       "};\n"
       "\n"
       "// `block`: of the unit, the last one first. `v`: this warp's columns of V of that block.\n"
       "__device__ __forceinline__ void load_fragments(BlockFragments *block, const uint32_t *p,\n"
       "                                               uint32_t v) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < V_STEPS; ++step) {\n"
       "    block->p[step][0] = p[step * 64 + lane];\n"
       "    block->p[step][1] = p[step * 64 + 32 + lane];\n"
       "    ldmatrix_x2_trans(block->v[step], v + (step * 16 + lane % 16) * V_ROW_BYTES);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores this thread's two columns of a row whose splits have been added up, and its lse: as\n"
       "// flash_fwd_combine does.\n"
       "__device__ __forceinline__ void store_row(const attnpress_fwd_sm90_args *args,\n"
       "                                          const attnpress_ragged_args *ragged, uint16_t *out_row,\n"
       "                                          float *lse, WeightedParts sum, float2 total, int head,\n"
       "                                          bool valid, bool stores_lse) {\n"
       "  const RowEnd end = end_row(sum.max, sum.weights, &args->fwd.score, args->fwd.heads_q, head, false,\n"
       "                             false);\n"
       "  if (!valid)\n"
       "    return;\n"
       "  *(uint32_t *)out_row =\n"
       "      pack(DTYPE, (total.x + 0.0f) * end.normalize, (total.y + 0.0f) * end.normalize);\n"
       "  if (lse != nullptr && stores_lse && threadIdx.x % 4 == 0)\n"
       "    *lse = stored_lse(ragged, end.lse);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, 2)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_fwd_sm90_ragged_args given) {\n"
       "  const attnpress_fwd_sm90_args *args = &given.sm90;\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  const attnpress_ragged_args *ragged = &given.ragged;\n"
       "  extern __shared__ __align__(128) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  const uint32_t barrier = shared_address(&scores_barrier);\n"
       "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
       "  const Place place = find_place(args);\n"
       "  const int rank = place.rank, first_rank = place.split * SHARING; // in the cluster\n"
       "  const uint32_t all_parts = shared_address(&parts_barrier);\n"
       "  if (threadIdx.x == 0) {\n"
       "    mbarrier_init(barrier, 1);\n"
       "    mbarrier_init(all_parts, 1);\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All threads of the cluster arrive; who sends scores to another block has waited.\n"
       "  cluster_arrive();\n"
       "  fetch_lengths(args, ragged, place);\n"
       "\n"
       "  // The keys that this thread copies 16 bytes of, in each pass: own ones of K, all of V. A thread\n"
       "  // block's key blocks are every SHARING-th of the split.\n"
       "  const int fixed = ragged->fixed_split_blocks;\n"
       "  const int first_block = place.split * fixed, first_key = first_block * BLOCK_N;\n"
       "  int k_keys[K_PASSES], v_keys[V_PASSES];\n"
       "#pragma unroll\n"
       "  for (int pass = 0; pass < K_PASSES; ++pass) {\n"
       "    const int own = pass * K_ROWS + threadIdx.x / K_CHUNKS, block = own / BLOCK_N;\n"
       "    k_keys[pass] = first_key + (block * SHARING + rank) * BLOCK_N + own - block * BLOCK_N;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int pass = 0; pass < V_PASSES; ++pass)\n"
       "    v_keys[pass] = first_key + pass * V_ROWS + threadIdx.x / V_CHUNKS;\n"
       "  const int kv_head = place.tile_head / (fwd->heads_q / fwd->heads_kv / fwd->heads_per_tile);\n"
       "  const uint16_t *k = (const uint16_t *)fwd->k + kv_head * fwd->k_head_stride +\n"
       "                      threadIdx.x % K_CHUNKS * 8;\n"
       "  const uint16_t *v = (const uint16_t *)fwd->v + kv_head * fwd->v_head_stride + rank * COLUMNS +\n"
       "                      threadIdx.x % V_CHUNKS * 8;\n"
       "  const bool alone = has_key_count_alone(ragged);\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  // Entries of the table are those of the bound of the lengths, which stand in the table, if the\n"
         "  // length is all that is read: they need not wait for it. What is past the last key is not read.\n"
         "  Pages pages = {ragged->page_table + place.sequence * ragged->page_table_stride, 0,\n"
         "                 max(fwd->seqlen_k - 1, 0)};\n"
         "  PageRow k_places[K_PASSES], v_places[V_PASSES];\n"
         "  if (alone) {\n"
         "    find_places(k_places, K_PASSES, ragged, &pages, k_keys);\n"
         "    find_places(v_places, V_PASSES, ragged, &pages, v_keys);\n"
         "  }\n");
  }
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  int guessed = 0; // keys\n"
         "  if (alone)\n"
         "    guessed = fetch_keys(fwd, ragged, place.sequence, k, v, k_keys, v_keys);\n");
  }
  TEXT("  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  SequenceRows of;\n"
         "  if (!alone) {\n"
         "    of = rows_of_sequence(fwd, ragged, place.sequence);\n"
         "    pages = {ragged->page_table + first_page(ragged, place.sequence, max(of.k_batch, 0)),\n"
         "             of.keys.begin, max(of.keys.count - 1, 0)};\n"
         "    find_places(k_places, K_PASSES, ragged, &pages, k_keys);\n"
         "    find_places(v_places, V_PASSES, ragged, &pages, v_keys);\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (int pass = 0; pass < K_PASSES; ++pass)\n"
         "    k_places[pass].page = pages.table[k_places[pass].page];\n"
         "#pragma unroll\n"
         "  for (int pass = 0; pass < V_PASSES; ++pass)\n"
         "    v_places[pass].page = pages.table[ragged->page_table_v + v_places[pass].page];\n"
         "  if (alone)\n"
         "    of = rows_of_key_count(fwd, ragged, place.sequence, ragged->seqused_k[place.sequence]);\n");
  } else {
    TEXT("  // In most calls the length is all that is read. Copies begin by the guess, and once more if it is\n"
         "  // another one after all.\n"
         "  const int *const length = ragged->seqused_k;\n"
         "  SequenceRows of = {{0, ragged->rows_q <= fwd->seqlen_q ? ragged->rows_q : 0},\n"
         "                     {0, guessed},\n"
         "                     place.sequence};\n"
         "  int used = 0;\n"
         "  if (alone)\n"
         "    used = length[place.sequence];\n"
         "  else\n"
         "    of = rows_of_sequence(fwd, ragged, place.sequence);\n"
         "  const int k_batch = max(of.k_batch, 0); // without keys, none is read\n"
         "  k += k_batch * fwd->k_batch_stride + of.keys.begin * fwd->k_row_stride;\n"
         "  v += k_batch * fwd->v_batch_stride + of.keys.begin * fwd->v_row_stride;\n"
         "  for (;;) {\n"
         "    const int copied = of.keys.count;\n"
         "    copy_rows(args, ragged, place, &of, k, v, k_keys, v_keys, shared);\n"
         "    if (alone)\n"
         "      of.keys = keys_by_count(ragged, used);\n"
         "    if (of.keys.count == copied)\n"
         "      break;\n"
         "    cp_async_wait(0);\n"
         "  }\n");
  }
  TEXT("  const int q_batch = ragged->cu_seqlens_q != nullptr ? 0 : place.sequence;\n"
       "  const int seqlen_q = of.queries.count, seqlen_k = of.keys.count;\n"
       "  const Row first_row = row_at(place.position_begin, CAUSAL, seqlen_q, seqlen_k);\n"
       "  const Row last_row =\n"
       "      row_at(min(place.position_begin + args->warpgroup_positions, seqlen_q) - 1, CAUSAL, seqlen_q,\n"
       "             seqlen_k);\n"
       "  const Range all_blocks = key_blocks(keys_of_some(first_row, last_row), BLOCK_N);\n"
       "  const Range blocks = split_fixed_blocks(all_blocks, place.split, fixed);\n"
       "  const int other_splits = max(ceil_div(all_blocks.end, fixed) - 1, 0); // that rows see\n"
       "  const int count = blocks.end - blocks.begin; // the same in the whole cluster\n"
       "  const int row_position = divide(lane / 4, &args->heads_per_tile);\n"
       "  const int position = place.position_begin + row_position;\n"
       "  const int head = (place.tile_head - row_position) * fwd->heads_per_tile + lane / 4;\n"
       "  const bool valid = row_position < args->warpgroup_positions && position < seqlen_q;\n"
       "  const int column = rank * COLUMNS + warp * 8 + lane % 4 * 2; // of O\n"
       "  uint16_t *out_row = (uint16_t *)fwd->out;\n"
       "  float *lse = fwd->lse;\n"
       "  if (valid) {\n"
       "    out_row += out_offset(fwd, q_batch, head, of.queries.begin + position) + column;\n"
       "    if (lse != nullptr)\n"
       "      lse += lse_of_sequence(ragged, of.queries, place.sequence, fwd->lse_batch_stride) +\n"
       "             head * fwd->lse_head_stride + position * ragged->lse_row_stride;\n"
       "  }\n"
       "  if (count <= 0 || place.position_begin >= seqlen_q) {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("    cp_async_wait(0);\n");
  }
  TEXT("    cluster_wait(); // as below\n"
       "    if (place.split > 0 || warp >= COLUMNS / 8)\n"
       "      return;\n"
       "    // Rows without keys.\n"
       "    WeightedParts none = {-INF, 0.0f};\n"
       "    const float2 zero = {0.0f, 0.0f};\n"
       "    store_row(args, ragged, out_row, lse, none, zero, head, valid, warp == 0 && rank == 0);\n"
       "    return;\n"
       "  }\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  copy_rows(args, ragged, place, &of, k, v, k_keys, v_keys, k_places, v_places, shared);\n");
  }
  TEXT("  if (threadIdx.x == 0) {\n"
       "    mbarrier_arrive_expect(barrier, count * BLOCK_N * BLOCK_M * 4);\n"
       "    if (place.split == 0)\n"
       "      mbarrier_arrive_expect(all_parts, other_splits * PART_BYTES);\n"
       "  }\n"
       "\n"
       "  // S = Q K^T of own key blocks, a tile of 8 keys at a time; scores go to all thread blocks.\n"
       "  cp_async_wait(1);\n"
       "  // All threads arrive and wait: hands over Q and K.\n"
       "  __syncthreads();\n"
       "  // All threads of the cluster have arrived: every block has its barrier.\n"
       "  cluster_wait();\n"
       "  uint32_t q[K_STEPS][2];\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < K_STEPS; step += 2)\n"
       "    ldmatrix_x4(q[step], shared + lane % 8 * ROW_BYTES + (step * 2 + lane / 8) * 16);\n"
       "#pragma unroll\n"
       "  for (int first = 0; first < OWN_BLOCKS * S_TILES; first += WARPS) {\n"
       "    const int tile = first + warp, own = tile / S_TILES;\n"
       "    const int n = first_block + own * SHARING + rank;\n"
       "    if (tile >= OWN_BLOCKS * S_TILES || n >= blocks.end)\n"
       "      continue;\n"
       "    float score[4] = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "    for (int step = 0; step < K_STEPS; step += 2) {\n"
       "      uint32_t keys[4];\n"
       "      ldmatrix_x4(keys, shared + K_OFFSET + (tile * 8 + lane % 8) * ROW_BYTES +\n"
       "                            (step * 2 + lane / 8) * 16);\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < 2; ++i) {\n"
       "        const uint32_t rows[4] = {q[step + i][0], 0, q[step + i][1], 0};\n"
       "        mma_k16(DTYPE, score, rows, keys + i * 2);\n"
       "      }\n"
       "    }\n"
       "    const float2 pair = {score[0], score[1]};\n"
       "    const int at = (blocks.end - 1 - n) * S_TILES + tile - own * S_TILES;\n"
       "    const uint32_t target = shared + S_OFFSET + (at * 32 + lane) * 8;\n"
       "#pragma unroll\n"
       "    for (int to = 0; to < SHARING; ++to)\n"
       "      send_8_cluster(cluster_address(target, first_rank + to), pair,\n"
       "                     cluster_address(barrier, first_rank + to));\n"
       "  }\n"
       "\n"
       "  // P of all scores, a key block a warp, and what references need to know of it.\n"
       "  const float scale_log2 = fwd->scale_log2;\n"
       "  float score[S_TILES * 4];\n"
       "  if (warp < count) {\n"
       "    const int n = blocks.end - 1 - warp;\n"
       "    // All thread blocks of the cluster hand over their scores.\n"
       "    wait_for_phase(barrier, 0);\n"
       "    const float2 *from = (const float2 *)(smem + S_OFFSET) + warp * S_TILES * 32 + lane;\n"
       "#pragma unroll\n"
       "    for (int tile = 0; tile < S_TILES; ++tile) {\n"
       "      const float2 pair = from[tile * 32];\n"
       "      score[tile * 4] = pair.x;\n"
       "      score[tile * 4 + 1] = pair.y;\n"
       "    }\n"
       "    if ((n + 1) * BLOCK_N > keys_of_all(first_row, last_row).end)\n"
       "      mask_scores_by_bits(score, S_TILES, 0, row_at(position, CAUSAL, seqlen_q, seqlen_k),\n"
       "                          n * BLOCK_N + lane % 4 * 2);\n"
       "    const Outermost bits = {outermost_bits(score, S_TILES, 0, -INF, false),\n"
       "                            outermost_bits(score, S_TILES, 0, -INF, true)};\n"
       "    if (lane % 4 == 0)\n"
       "      outermost[warp][lane / 4] = bits;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the outermost scores, and K has been read.\n"
       "  __syncthreads();\n"
       "  if (warp < count) {\n"
       "    float reference = -INF, rescale = 1.0f;\n"
       "    for (int block = 0; block <= warp; ++block)\n"
       "      rescale = move_behind(outermost[block][lane / 4], &reference, scale_log2);\n"
       "    sums[warp][lane] =\n"
       "        exponentials(score, S_TILES, 0, scale_log2, finite_base(reference) * scale_log2);\n"
       "    uint32_t *p = (uint32_t *)(smem + P_OFFSET) + warp * S_TILES * 32 + lane;\n"
       "#pragma unroll\n"
       "    for (int tile = 0; tile < S_TILES; ++tile)\n"
       "      p[tile * 32] = pack(DTYPE, score[tile * 4], score[tile * 4 + 1]);\n"
       "    if (lane % 4 == 0) {\n"
       "      rescales[warp][lane / 4] = rescale;\n"
       "      if (warp == count - 1)\n"
       "        references[lane / 4] = reference;\n"
       "    }\n"
       "  }\n"
       "  cp_async_wait(0);\n"
       "  // All threads arrive and wait: hands over P, its sums and V.\n"
       "  __syncthreads();\n"
       "  if (warp >= COLUMNS / 8)\n"
       "    return;\n"
       "\n"
       "  // O = P V, of 8 columns a warp, one key block after the other.\n"
       "  const uint32_t *p = (const uint32_t *)(smem + P_OFFSET);\n"
       "  uint32_t columns = shared + V_OFFSET + warp * 16 +\n"
       "                     (blocks.end - 1 - first_block) * BLOCK_N * V_ROW_BYTES;\n"
       "  BlockFragments block;\n");
  TEXT("  load_fragments(&block, p, columns);\n"
       "  float out[4] = {0.0f, 0.0f, 0.0f, 0.0f}, row_sum = 0.0f;\n"
       "  for (int n = 0; n < count; ++n) {\n"
       "    const float rescale = rescales[n][lane / 4];\n"
       "    row_sum = row_sum * rescale + sums[n][lane];\n"
       "    out[0] *= n > 0 ? rescale : 0.0f;\n"
       "    out[1] *= n > 0 ? rescale : 0.0f;\n"
       "    BlockFragments next = block;\n"
       "    if (n + 1 < count)\n"
       "      load_fragments(&next, p + (n + 1) * S_TILES * 32, columns - (n + 1) * BLOCK_N * V_ROW_BYTES);\n"
       "#pragma unroll\n"
       "    for (int step = 0; step < V_STEPS; ++step) {\n"
       "      const uint32_t rows[4] = {block.p[step][0], 0, block.p[step][1], 0};\n"
       "      mma_k16(DTYPE, out, rows, block.v[step]);\n"
       "    }\n"
       "    block = next;\n"
       "  }\n"
       "  const RowEnd end = end_row(references[lane / 4] * scale_log2, quad_sum(row_sum), &fwd->score,\n"
       "                             fwd->heads_q, 0, false, true);\n"
       "  const float2 part = {out[0] * end.normalize, out[1] * end.normalize};\n"
       "  if (place.split > 0) {\n"
       "    const uint32_t barrier_there = cluster_address(all_parts, rank);\n"
       "    const int at = place.split - 1;\n"
       "    send_8_cluster(cluster_address(shared_address(&parts[at][warp][lane]), rank), part,\n"
       "                   barrier_there);\n"
       "    const float2 row_lse = {end.lse, 0.0f};\n"
       "    if (warp == 0 && lane % 4 == 0)\n"
       "      send_8_cluster(cluster_address(shared_address(&part_lse[at][lane / 4]), rank), row_lse,\n"
       "                     barrier_there);\n"
       "    return;\n"
       "  }\n"
       "\n"
       "  // The sum of all splits, in the order of their keys, as flash_fwd_combine adds them up.\n"
       "  WeightedParts sum = {-INF, 0.0f};\n"
       "  float2 factors = weigh_part(&sum, end.lse);\n"
       "  float2 total = {add_weighted(factors, 0.0f, part.x), add_weighted(factors, 0.0f, part.y)};\n"
       "  // The other splits hand over their parts.\n"
       "  if (other_splits > 0)\n"
       "    wait_for_phase(all_parts, 0);\n"
       "  for (int i = 0; i < other_splits; ++i) {\n"
       "    const float2 next = parts[i][warp][lane];\n"
       "    factors = weigh_part(&sum, part_lse[i][lane / 4].x);\n"
       "    total.x = add_weighted(factors, total.x, next.x);\n"
       "    total.y = add_weighted(factors, total.y, next.y);\n"
       "  }\n"
       "  store_row(args, ragged, out_row, lse, sum, total, head, valid, warp == 0 && rank == 0);\n"
       "}\n");
}
