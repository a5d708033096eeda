/* Written by `python -m generator` from templates/attention/flash_fwd_wide_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_wide_sm90(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_wide_sm90(ap_text *out, const ap_render_input *in) {
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
  const int32_t few = in->axis[AP_ATTENTION_FEW];
  const int32_t runs = in->axis[AP_ATTENTION_RUNS];
  const int32_t append = in->axis[AP_ATTENTION_APPEND];
  const int32_t long_rows = in->axis[AP_ATTENTION_LONG_ROWS];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  int32_t left = (((hdim_v + 63) / 64) / 2) * 64;
  int32_t right = hdim_v - left;
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
  TEXT(", sums are fp32. docs/hopper.md explains the pipeline.\n"
       "//\n"
       "// 64 rows of O have more columns than a warpgroup has registers: two consumers share them. The left\n"
       "// one computes S, makes P of it, multiplies P with the left columns of V, and hands P over, with\n"
       "// which the right one multiplies the others. Its softmax of one key block runs under both products\n"
       "// P V of the block before.\n"
       "//\n"
       "// Pressed from templates/attention/flash_fwd_wide_sm90.cu.j2 with tile ");
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
  if (few) {
    TEXT(" --few");
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
       "#include \"attnpress/args/attention.h\"\n"
       "#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/wgmma/ptx_wgmma_n");
  INTEGER(block_n);
  TEXT(".cuh\"\n");
  if (left != block_n) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(left);
    TEXT(".cuh\"\n");
  }
  if ((right != block_n) && (right != left)) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(right);
    TEXT(".cuh\"\n");
  }
  TEXT("#include \"attnpress/device/score.cuh\"\n"
       "#include \"attnpress/device/softmax.cuh\"\n"
       "#include \"attnpress/device/tile.cuh\"\n"
       "#include \"attnpress/device/work.cuh\"\n"
       "\n"
       "constexpr int HEAD_DIM = ");
  INTEGER(hdim);
  TEXT(";\n"
       "constexpr int HEAD_DIM_V = ");
  INTEGER(hdim_v);
  TEXT(";\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_ATTENTION_DTYPE_BF16) ? "BF16" : "FP16");
  TEXT(";\n"
       "constexpr bool CAUSAL = ");
  STRING((mask == AP_ATTENTION_MASK_CAUSAL) ? "true" : "false");
  TEXT(";\n"
       "constexpr bool SPLIT = ");
  STRING(split ? "true" : "false");
  TEXT(";\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys of a key block\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT("; // key blocks of V in shared memory\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int PRODUCER_REGISTERS = 40; // of a thread\n"
       "constexpr int CONSUMER_REGISTERS = 232;\n"
       "\n"
       "constexpr int NUM_THREADS = 128 * 3;\n"
       "constexpr int K_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of Q K^T\n"
       "constexpr int V_STEPS = BLOCK_N / 16; // of 16 keys, of P V\n"
       "constexpr int S_TILES = BLOCK_N / 8; // of 8 keys\n"
       "constexpr int LEFT = ");
  INTEGER(left);
  TEXT("; // columns of O of the left consumer\n"
       "constexpr int RIGHT = ");
  INTEGER(right);
  TEXT("; // of the right one\n"
       "constexpr int PLACES = 2; // for P, between the consumers\n"
       "\n"
       "// Shared memory: Q | ring of V | ring of K | P | factors of its rows | factors of a unit's\n"
       "// rows at its end | barriers. Matrices are stored as slabs of 64 columns, rows of 128 bytes in the\n"
       "// 128-byte swizzle; columns past the head dim are zeros. A fragment of P lies as 16 bytes a thread.\n"
       "constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);\n"
       "constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);\n"
       "constexpr int LEFT_SLABS = LEFT / 64;\n"
       "constexpr int Q_SLAB_BYTES = 64 * 128;\n"
       "constexpr int SLAB_BYTES = BLOCK_N * 128; // of K and V\n"
       "constexpr int K_BYTES = K_SLABS * SLAB_BYTES; // of one key block\n"
       "constexpr int V_BYTES = V_SLABS * SLAB_BYTES; // of one key block\n"
       "constexpr int P_BYTES = 64 * BLOCK_N * 2;\n"
       "constexpr int ROWS_BYTES = 64 * 4; // of a factor for each row\n"
       "constexpr int BARRIERS = 4 + 4 * STAGES + 2 * PLACES; // and two for each slab of K\n"
       "constexpr int OTHER_BYTES = K_SLABS * Q_SLAB_BYTES + STAGES * V_BYTES +\n"
       "                            PLACES * (P_BYTES + ROWS_BYTES) + ROWS_BYTES + BARRIERS * 8;\n"
       "constexpr int K_STAGES = (SMEM_BYTES - OTHER_BYTES) / (K_SLABS * (SLAB_BYTES + 16)); // key blocks\n"
       "constexpr int V_OFFSET = K_SLABS * Q_SLAB_BYTES;\n"
       "constexpr int K_OFFSET = V_OFFSET + STAGES * V_BYTES;\n"
       "constexpr int P_OFFSET = K_OFFSET + K_STAGES * K_BYTES;\n"
       "constexpr int FACTORS_OFFSET = P_OFFSET + PLACES * P_BYTES;\n"
       "constexpr int ENDS_OFFSET = FACTORS_OFFSET + PLACES * ROWS_BYTES;\n"
       "constexpr int BARRIER_OFFSET = ENDS_OFFSET + ROWS_BYTES;\n"
       "static_assert(SMEM_BYTES == OTHER_BYTES + K_STAGES * K_SLABS * (SLAB_BYTES + 16), \"shared memory\");\n"
       "static_assert(K_STAGES > 0, \"a key block of K\");\n"
       "static_assert(BLOCK_N % 16 == 0 && BLOCK_N <= 256 && RIGHT <= 256, \"tile\");\n"
       "static_assert(SLAB_BYTES % 1024 == 0, \"atoms of the swizzle\");\n"
       "\n"
       "// The barriers, by their shared addresses. At a \"full\" one the producer arrives once and names the\n"
       "// bytes, consumers wait, and it hands them what the copy engine has written. At an \"empty\" one each\n"
       "// warp that has read arrives; the producer waits, and it hands the space back. Sides: 0 the left\n"
       "// columns, 1 the right ones.\n"
       "__device__ __forceinline__ uint32_t q_full(uint32_t shared) {\n"
       "  return shared + BARRIER_OFFSET;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t q_empty(uint32_t shared) {\n"
       "  return shared + BARRIER_OFFSET + 8;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t end_full(uint32_t shared) {\n"
       "  return shared + BARRIER_OFFSET + 16;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t end_empty(uint32_t shared) {\n"
       "  return shared + BARRIER_OFFSET + 24;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t p_full(uint32_t shared, int place) {\n"
       "  return shared + BARRIER_OFFSET + 32 + 8 * place;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t p_empty(uint32_t shared, int place) {\n"
       "  return p_full(shared, PLACES + place);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t v_full(uint32_t shared, int stage, int side) {\n"
       "  return p_full(shared, 2 * PLACES + stage * 2 + side);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t v_empty(uint32_t shared, int stage, int side) {\n"
       "  return v_full(shared, STAGES + stage, side);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t k_full(uint32_t shared, int stage, int slab) {\n"
       "  return shared + BARRIER_OFFSET + 8 * (BARRIERS + stage * K_SLABS + slab);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t k_empty(uint32_t shared, int stage, int slab) {\n"
       "  return k_full(shared, K_STAGES + stage, slab);\n"
       "}\n"
       "\n"
       "// A unit of work: a row block of one head, and one split of its keys.\n"
       "struct Unit {\n"
       "  int position_begin; // first query position\n"
       "  int split;          // 0 where the keys are not split\n"
       "  int tile_head;      // of heads_q / heads_per_tile\n"
       "  int batch;\n"
       "  Range blocks; // key blocks\n"
       "};\n"
       "\n"
       "// The first and the last of the rows from a position on, or up to one, past which rows are not\n"
       "// there.\n"
       "__device__ __forceinline__ Row row_at_begin(const attnpress_fwd_args *fwd, int position) {\n"
       "  return row_at(position, CAUSAL, fwd->seqlen_q, fwd->seqlen_k);\n"
       "}\n"
       "\n");
  TEXT("__device__ __forceinline__ Row row_at_end(const attnpress_fwd_args *fwd, int position_end) {\n"
       "  return row_at_begin(fwd, min(position_end, fwd->seqlen_q) - 1);\n"
       "}\n"
       "\n"
       "// Finds this thread block's unit of work of round `round`; false where there is none. Causal units\n"
       "// differ in length, which the change of direction from round to round evens out; each group begins\n"
       "// with a new pair of rounds.\n"
       "__device__ __forceinline__ bool find_unit(Unit *unit, const attnpress_fwd_sm90_args *args,\n"
       "                                          int round) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  const int group = divide(round, &args->group_rounds);\n"
       "  const int group_round = round - group * args->group_rounds.value;\n"
       "  const int place = group_round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;\n"
       "  const int group_unit = group_round * gridDim.x + place;\n"
       "  const int number = group * args->group_units + group_unit;\n"
       "  const int section = divide(number, &args->section_units);\n"
       "  const int section_unit = number - section * args->section_units.value;\n"
       "  const int row_block = divide(section_unit, &args->section_heads);\n"
       "  int head = section_unit + (section - row_block) * args->section_heads.value;\n"
       "  if (group_unit >= args->group_units || head >= args->heads)\n"
       "    return false;\n"
       "\n");
  if (split) {
    TEXT("  const int split_head = divide(head, &args->num_splits);\n"
         "  unit->split = head - split_head * args->num_splits.value;\n"
         "  head = split_head;\n");
  } else {
    TEXT("  unit->split = 0;\n");
  }
  TEXT("  unit->batch = divide(head, &args->tile_heads);\n"
       "  unit->tile_head = head - unit->batch * args->tile_heads.value;\n"
       "  const int positions = args->warpgroup_positions;\n");
  if (mask == AP_ATTENTION_MASK_FULL) {
    TEXT("  unit->position_begin = row_block * positions;\n");
  } else {
    TEXT("  // Later rows see more keys, or no fewer, and the longest units come first.\n"
         "  unit->position_begin = (fwd->row_blocks - 1 - row_block) * positions;\n");
  }
  TEXT("  // Key blocks that no row sees are never loaded.\n"
       "  unit->blocks = key_blocks(keys_of_some(row_at_begin(fwd, unit->position_begin),\n"
       "                                         row_at_end(fwd, unit->position_begin + positions)),\n"
       "                            BLOCK_N);\n");
  if (split) {
    TEXT("  unit->blocks = split_blocks(unit->blocks, unit->split, fwd->key_blocks_per_split);\n");
  }
  TEXT("  return true;\n"
       "}\n"
       "\n"
       "// ---- The producer ----\n"
       "\n"
       "// Loads K of key block `n`, each slab once the one that was there a round ago has been read.\n"
       "__device__ __forceinline__ void load_k(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
       "                                       Stage *stage, int n, int kv_head, int batch) {\n"
       "  const uint32_t target = shared + K_OFFSET + stage->index * K_BYTES;\n"
       "  for (int slab = 0; slab < K_SLABS; ++slab) {\n"
       "    // The left consumers' warps arrived; hands over the space.\n"
       "    wait_for_phase(k_empty(shared, stage->index, slab), stage->parity ^ 1);\n"
       "    const uint32_t full = k_full(shared, stage->index, slab);\n"
       "    mbarrier_arrive_expect(full, SLAB_BYTES);\n"
       "    tma_load_4d(target + slab * SLAB_BYTES, &args->k, full, slab * 64, n * BLOCK_N, kv_head, batch);\n"
       "  }\n"
       "  *stage = next_stage(*stage, K_STAGES);\n"
       "}\n"
       "\n"
       "// Loads V of key block `n`, each side once its consumers have read what was there a round ago.\n"
       "__device__ __forceinline__ void load_v(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
       "                                       Stage *stage, int n, int kv_head, int batch) {\n"
       "  const uint32_t target = shared + V_OFFSET + stage->index * V_BYTES;\n"
       "#pragma unroll\n"
       "  for (int side = 0; side < 2; ++side) {\n"
       "    const int begin = side == 0 ? 0 : LEFT_SLABS, end = side == 0 ? LEFT_SLABS : V_SLABS;\n"
       "    // The side's consumers' warps arrived; hands over the space.\n"
       "    wait_for_phase(v_empty(shared, stage->index, side), stage->parity ^ 1);\n"
       "    const uint32_t full = v_full(shared, stage->index, side);\n"
       "    mbarrier_arrive_expect(full, (end - begin) * SLAB_BYTES);\n"
       "    for (int slab = begin; slab < end; ++slab)\n"
       "      tma_load_4d(target + slab * SLAB_BYTES, &args->v, full, slab * 64, n * BLOCK_N, kv_head,\n"
       "                  batch);\n"
       "  }\n"
       "  *stage = next_stage(*stage, STAGES);\n"
       "}\n"
       "\n"
       "// Loads this thread block's rows of Q, once there is no more use for those of the unit before. Rows\n"
       "// that no position fills keep what was there: they make rows of S that are not stored.\n"
       "__device__ __forceinline__ void load_q(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
       "                                       int parity, const Unit *unit) {\n"
       "  const int positions = args->warpgroup_positions;\n"
       "  // The left consumer's warps arrived after their last product with the Q that was here.\n"
       "  wait_for_phase(q_empty(shared), parity ^ 1);\n"
       "  mbarrier_arrive_expect(q_full(shared), K_SLABS * 128 * positions * args->fwd.heads_per_tile);\n"
       "  for (int slab = 0; slab < K_SLABS; ++slab)\n"
       "    tma_load_4d(shared + slab * Q_SLAB_BYTES, &args->q, q_full(shared), slab * 64,\n"
       "                unit->tile_head * args->fwd.heads_per_tile, unit->position_begin, unit->batch);\n"
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
       "    Unit unit;\n"
       "    if (!find_unit(&unit, args, round) || unit.blocks.end <= unit.blocks.begin)\n"
       "      continue;\n"
       "    const int kv_head = unit.tile_head / group;\n"
       "    load_q(args, shared, q_parity, &unit);\n"
       "    q_parity ^= 1;\n"
       "    load_k(args, shared, &k_stage, unit.blocks.end - 1, kv_head, unit.batch);\n"
       "    for (int n = unit.blocks.end - 1; n >= unit.blocks.begin; --n) {\n"
       "      if (n > unit.blocks.begin)\n"
       "        load_k(args, shared, &k_stage, n - 1, kv_head, unit.batch);\n"
       "      load_v(args, shared, &v_stage, n, kv_head, unit.batch);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- Both consumers ----\n"
       "\n"
       "// A consumer's walk over the key blocks of its units.\n"
       "struct Walk {\n"
       "  Unit unit;\n"
       "  int round;\n"
       "  int n;            // the key block\n"
       "  Row rows[2];      // this thread's\n"
       "  int key_unmasked; // all rows see the keys below\n"
       "};\n"
       "\n");
  TEXT("// Moves on to the next unit; false after the last.\n"
       "__device__ __forceinline__ bool next_unit(Walk *walk, const attnpress_fwd_sm90_args *args) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  do {\n"
       "    if (++walk->round >= args->rounds)\n"
       "      return false;\n"
       "  } while (!find_unit(&walk->unit, args, walk->round));\n"
       "  walk->n = walk->unit.blocks.end - 1;\n"
       "  const int positions = args->warpgroup_positions;\n"
       "  const int position_begin = walk->unit.position_begin;\n"
       "  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;\n"
       "#pragma unroll\n"
       "  for (int half = 0; half < 2; ++half)\n"
       "    walk->rows[half] =\n"
       "        row_at_begin(fwd, position_begin + divide(row + half * 8, &args->heads_per_tile));\n"
       "  const Row first = row_at_begin(fwd, position_begin);\n"
       "  const Row last = row_at_end(fwd, position_begin + positions);\n"
       "  walk->key_unmasked = keys_of_all(first, last).end;\n"
       "  return true;\n"
       "}\n"
       "\n"
       "// Whether some of this thread block's rows see a key of the unit; then they see each of its key\n"
       "// blocks.\n"
       "__device__ __forceinline__ bool has_keys(const Walk *walk) {\n"
       "  return walk->unit.blocks.begin < walk->unit.blocks.end;\n"
       "}\n"
       "\n"
       "// Where a row of the output is, by this thread's row `half`.\n"
       "struct OutRow {\n"
       "  int position, head;\n"
       "  bool valid;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ OutRow find_row(const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
       "                                           int half) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  const int row = threadIdx.x / 32 % 4 * 16 + half * 8 + threadIdx.x % 32 / 4; // of the warpgroup\n"
       "  const int row_position = divide(row, &args->heads_per_tile);\n"
       "  const int position = unit->position_begin + row_position;\n"
       "  return {position, (unit->tile_head - row_position) * fwd->heads_per_tile + row,\n"
       "          row_position < args->warpgroup_positions && position < fwd->seqlen_q};\n"
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
  TEXT("// Stores columns `column` to `column` + 8 * tiles - 1 of this thread's row `half`, normalised.\n"
       "__device__ __forceinline__ void store_columns(const float *out, int tiles, int column, int half,\n"
       "                                              float normalize, const attnpress_fwd_args *fwd,\n"
       "                                              const Unit *unit, OutRow row) {\n"
       "  const int lane = threadIdx.x % 32;\n");
  if (split) {
    TEXT("  const int64_t partial = partial_row(fwd, unit->split, unit->batch, row.head, row.position);\n"
         "  float *out_row = fwd->out_partial + partial * HEAD_DIM_V + column + lane % 4 * 2;\n"
         "  store_partial_row(out_row, out, 0, tiles, half, normalize, row.valid);\n");
  } else {
    TEXT("  // A quad holds a tile's 8 columns of a row in pieces of two. Two lanes exchange pieces, so that\n"
         "  // each stores 8 bytes of one tile, and a store fills whole sectors of 32 bytes.\n"
         "  uint16_t *out_row = (uint16_t *)fwd->out + out_offset(fwd, unit->batch, row.head, row.position) +\n"
         "                      column + lane % 2 * 8 + lane / 2 % 2 * 4;\n"
         "#pragma unroll\n"
         "  for (int tile = 0; tile < tiles; tile += 2) {\n"
         "    const float *first = out + tile * 4 + half * 2;\n"
         "    const float *second = out + min_int(tile + 1, tiles - 1) * 4 + half * 2;\n"
         "    const uint2 pieces = exchange_pieces(pack(DTYPE, first[0] * normalize, first[1] * normalize),\n"
         "                                         pack(DTYPE, second[0] * normalize, second[1] * normalize));\n"
         "    if (row.valid && (tile + 1 < tiles || lane % 2 == 0))\n"
         "      *(uint2 *)(out_row + tile * 8) = pieces;\n"
         "  }\n");
  }
  TEXT("}\n"
       "\n"
       "// This thread's two rows of factors in shared memory.\n"
       "__device__ __forceinline__ float *row_factors(unsigned char *smem, int offset) {\n"
       "  return (float *)(smem + offset) + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ uint4 *fragments(unsigned char *smem, int place) {\n"
       "  return (uint4 *)(smem + P_OFFSET + place * P_BYTES) + threadIdx.x % 128;\n"
       "}\n"
       "\n"
       "// ---- The left consumer ----\n"
       "\n"
       "// Hands P of a key block over, whose place is free, and what the rows of O are multiplied with\n"
       "// before it is added.\n"
       "__device__ __forceinline__ void give_probabilities(unsigned char *smem, uint32_t shared,\n"
       "                                                   Stage *place, const uint32_t p[V_STEPS][4],\n"
       "                                                   const float rescale[2]) {\n"
       "  uint4 *target = fragments(smem, place->index);\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < V_STEPS; ++step)\n"
       "    target[step * 128] = uint4{p[step][0], p[step][1], p[step][2], p[step][3]};\n"
       "  if (threadIdx.x % 4 == 0) {\n"
       "    float *factors = row_factors(smem, FACTORS_OFFSET + place->index * ROWS_BYTES);\n"
       "    factors[0] = rescale[0];\n"
       "    factors[8] = rescale[1];\n"
       "  }\n"
       "  // All lanes arrive and wait: they have written.\n"
       "  __syncwarp();\n"
       "  arrive_once(p_full(shared, place->index));\n"
       "  *place = next_stage(*place, PLACES);\n"
       "}\n"
       "\n"
       "// Starts S = Q K^T, (64, BLOCK_N), each slab as a group of its own, once it is there.\n"
       "__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,\n"
       "                                             Stage stage) {\n"
       "  const uint64_t q = wgmma_descriptor(shared, 1024, 0);\n"
       "  const uint64_t k = wgmma_descriptor(shared + K_OFFSET, 1024, 0) + stage.index * (K_BYTES / 16);\n"
       "  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(score);\n"
       "#pragma unroll\n"
       "  for (int slab = 0; slab < K_SLABS; ++slab) {\n"
       "    // The copy engine hands over a slab of K.\n"
       "    wait_for_phase(k_full(shared, stage.index, slab), stage.parity);\n"
       "    wgmma_fence();\n"
       "#pragma unroll\n"
       "    for (int step = slab * 4; step < min_int(slab * 4 + 4, K_STEPS); ++step)\n"
       "      wgmma_m64n");
  INTEGER(block_n);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_ss(score, q + (slab * Q_SLAB_BYTES + step % 4 * 32) / 16,\n"
       "                               k + (slab * SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n"
       "    wgmma_commit();\n"
       "  }\n"
       "}\n"
       "\n"
       "// Waits for S, with `pending` groups behind it, and hands each slab of K back, and Q after the\n"
       "// unit's last block.\n"
       "__device__ __forceinline__ void finish_scores(float score[S_TILES * 4], int pending,\n"
       "                                              uint32_t shared, Stage *stage, bool last_block) {\n"
       "#pragma unroll\n"
       "  for (int slab = 0; slab < K_SLABS; ++slab) {\n"
       "    wgmma_wait(K_SLABS - 1 - slab + pending);\n"
       "    arrive_once(k_empty(shared, stage->index, slab));\n"
       "  }\n"
       "  *stage = next_stage(*stage, K_STAGES);\n"
       "  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(score);\n"
       "  if (last_block)\n"
       "    arrive_once(q_empty(shared));\n"
       "}\n"
       "\n"
       "// Starts the left columns of O += P V, as a group of its own.\n"
       "__device__ __forceinline__ void start_left(float out[LEFT / 2], uint32_t p[V_STEPS][4],\n"
       "                                           uint32_t shared, Stage stage) {\n"
       "  const uint64_t v =\n"
       "      wgmma_descriptor(shared + V_OFFSET, 1024, SLAB_BYTES) + stage.index * (V_BYTES / 16);\n"
       "  // The copy engine hands over V.\n"
       "  wait_for_phase(v_full(shared, stage.index, 0), stage.parity);\n"
       "  wgmma_order_n");
  INTEGER(left);
  TEXT("(out);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < V_STEPS; ++step)\n"
       "    wgmma_m64n");
  INTEGER(left);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_rs_trans(out, p[step], v + step * 16 * 128 / 16, 1);\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Waits for it.\n"
       "__device__ __forceinline__ void finish_left(float out[LEFT / 2]) {\n"
       "  wgmma_wait(0);\n"
       "  wgmma_order_n");
  INTEGER(left);
  TEXT("(out);\n"
       "}\n"
       "\n"
       "// Masks the scores of the walk's key block where some row does not see all its keys, and makes P of\n"
       "// them.\n"
       "__device__ __forceinline__ void take_scores(float score[S_TILES * 4], float reference[2],\n"
       "                                            float row_sum[2], float rescale[2], const Walk *walk,\n"
       "                                            float scale_log2) {\n"
       "  if ((walk->n + 1) * BLOCK_N > walk->key_unmasked) {\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half)\n"
       "      mask_scores_by_bits(score, S_TILES, half, walk->rows[half],\n"
       "                          walk->n * BLOCK_N + threadIdx.x % 4 * 2);\n"
       "  }\n"
       "  take_rows_by_floats(score, S_TILES, reference, row_sum, rescale, scale_log2);\n"
       "}\n"
       "\n"
       "// out = O / row sum, lse = scale * reference + log(row sum), of the left columns; hands the factors\n"
       "// over. Rows without keys: 0 and -inf. `others`: there is an O of the right columns.\n"
       "__device__ __forceinline__ void store_left(const float out[LEFT / 2], const float reference[2],\n"
       "                                           const float row_sum[2],\n"
       "                                           const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
       "                                           unsigned char *smem, uint32_t shared, int *end_parity,\n"
       "                                           bool others) {\n"
       "  const attnpress_fwd_args *fwd = &args->fwd;\n"
       "  float normalize[2];\n"
       "#pragma unroll\n"
       "  for (int half = 0; half < 2; ++half) {\n"
       "    const OutRow row = find_row(args, unit, half);\n"
       "    const RowEnd end = end_row(reference[half] * fwd->scale_log2, quad_sum(row_sum[half]),\n"
       "                               &fwd->score, fwd->heads_q, row.head, false, SPLIT);\n"
       "    normalize[half] = end.normalize;\n");
  if (split) {
    TEXT("    if (row.valid && threadIdx.x % 4 == 0)\n"
         "      fwd->lse_partial[partial_row(fwd, unit->split, unit->batch, row.head, row.position)] =\n"
         "          end.lse;\n");
  } else {
    TEXT("    if (fwd->lse && row.valid && threadIdx.x % 4 == 0)\n"
         "      fwd->lse[lse_offset(fwd, unit->batch, row.head, row.position)] = end.lse;\n");
  }
  TEXT("  }\n"
       "  if (others) {\n"
       "    // The right consumer's warps arrived; hands over the space.\n"
       "    wait_for_phase(end_empty(shared), *end_parity ^ 1);\n"
       "    if (threadIdx.x % 4 == 0) {\n"
       "      float *ends = row_factors(smem, ENDS_OFFSET);\n"
       "      ends[0] = normalize[0];\n"
       "      ends[8] = normalize[1];\n"
       "    }\n"
       "    // All lanes arrive and wait: they have written.\n"
       "    __syncwarp();\n"
       "    arrive_once(end_full(shared));\n"
       "    *end_parity ^= 1;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int half = 0; half < 2; ++half)\n"
       "    store_columns(out, LEFT / 8, 0, half, normalize[half], fwd, unit, find_row(args, unit, half));\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ void consume_left(const attnpress_fwd_sm90_args *args,\n"
       "                                             unsigned char *smem, uint32_t shared) {\n"
       "  const float scale_log2 = args->fwd.scale_log2;\n"
       "  Walk walk;\n"
       "  walk.round = -1;\n"
       "  bool more = next_unit(&walk, args);\n"
       "  // Of the key block in `score`: its V, the K behind its own, and where its P goes.\n"
       "  Stage stage = {0, 0}, k_stage = {0, 0}, p_place = {0, 0};\n"
       "  int q_parity = 0, end_parity = 0;\n"
       "\n"
       "  // Each pass is a stream of key blocks, as far as these rows see them all.\n"
       "  while (more) {\n"
       "    float out[LEFT / 2] = {};\n"
       "    float reference[2] = {-INF, -INF}, row_sum[2] = {0.0f, 0.0f}, rescale[2];\n"
       "    if (!has_keys(&walk)) {\n"
       "      store_left(out, reference, row_sum, args, &walk.unit, smem, shared, &end_parity, false);\n"
       "      more = next_unit(&walk, args);\n"
       "      continue;\n"
       "    }\n"
       "    wait_for_phase(q_full(shared), q_parity); // the copy engine hands over Q\n"
       "\n"
       "    // S = Q K^T of the stream's first block.\n"
       "    float score[S_TILES * 4];\n"
       "    uint32_t p[V_STEPS][4];\n"
       "    start_scores(score, shared, k_stage);\n"
       "    finish_scores(score, 0, shared, &k_stage, walk.n == walk.unit.blocks.begin);\n"
       "    take_scores(score, reference, row_sum, rescale, &walk, scale_log2);\n"
       "\n"
       "    Unit last_unit; // the unit before, and what it leaves to be stored\n"
       "    float last_reference[2], last_sum[2];\n"
       "    Stage last = {-1, 0}; // of the P V in flight\n"
       "    for (;;) {\n"
       "      // The unit's first P is in `score`, the last P V of the unit before is in flight. The right\n"
       "      // consumer's warps arrived, which hands over the place for P; this wait also keeps the\n"
       "      // compiler from moving exponentials behind the next one.\n"
       "      wait_for_phase(p_empty(shared, p_place.index), p_place.parity ^ 1);\n"
       "      finish_left(out);\n"
       "      if (last.index >= 0) {\n"
       "        arrive_once(v_empty(shared, last.index, 0));\n"
       "        store_left(out, last_reference, last_sum, args, &last_unit, smem, shared, &end_parity,\n"
       "                   true);\n"
       "      }\n"
       "      for (int i = 0; i < LEFT / 2; ++i)\n"
       "        out[i] = 0.0f;\n"
       "      round_probabilities(p[0], score, S_TILES, DTYPE);\n"
       "      give_probabilities(smem, shared, &p_place, p, rescale);\n"
       "\n"
       "      for (--walk.n; walk.n >= walk.unit.blocks.begin; --walk.n) {\n"
       "        last = stage;\n"
       "        stage = next_stage(stage, STAGES);\n"
       "        start_scores(score, shared, k_stage);\n"
       "        start_left(out, p, shared, last);\n"
       "        finish_scores(score, 1, shared, &k_stage, walk.n == walk.unit.blocks.begin);\n"
       "        take_scores(score, reference, row_sum, rescale, &walk, scale_log2);\n"
       "        // As above.\n"
       "        wait_for_phase(p_empty(shared, p_place.index), p_place.parity ^ 1);\n"
       "        finish_left(out);\n"
       "        arrive_once(v_empty(shared, last.index, 0));\n"
       "        rescale_rows(out, LEFT / 8, rescale);\n"
       "        round_probabilities(p[0], score, S_TILES, DTYPE);\n"
       "        give_probabilities(smem, shared, &p_place, p, rescale);\n"
       "      }\n"
       "\n"
       "      last_unit = walk.unit;\n"
       "      q_parity ^= 1;\n"
       "      more = next_unit(&walk, args);\n"
       "      if (!more || !has_keys(&walk))\n"
       "        break;\n"
       "      last = stage;\n"
       "      stage = next_stage(stage, STAGES);\n"
       "      wait_for_phase(q_full(shared), q_parity); // the copy engine hands over Q\n"
       "      start_scores(score, shared, k_stage);\n"
       "      start_left(out, p, shared, last);\n"
       "      finish_scores(score, 1, shared, &k_stage, walk.n == walk.unit.blocks.begin);\n"
       "      for (int half = 0; half < 2; ++half) {\n");
  TEXT("        last_reference[half] = reference[half];\n"
       "        last_sum[half] = row_sum[half];\n"
       "        reference[half] = -INF;\n"
       "        row_sum[half] = 0.0f;\n"
       "      }\n"
       "      take_scores(score, reference, row_sum, rescale, &walk, scale_log2);\n"
       "    }\n"
       "\n"
       "    // O += P V of the stream's last block.\n"
       "    start_left(out, p, shared, stage);\n"
       "    finish_left(out);\n"
       "    arrive_once(v_empty(shared, stage.index, 0));\n"
       "    stage = next_stage(stage, STAGES);\n"
       "    store_left(out, reference, row_sum, args, &last_unit, smem, shared, &end_parity, true);\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- The right consumer ----\n"
       "\n"
       "__device__ __forceinline__ void consume_right(const attnpress_fwd_sm90_args *args,\n"
       "                                              unsigned char *smem, uint32_t shared) {\n"
       "  Walk walk;\n"
       "  walk.round = -1;\n"
       "  Stage stage = {0, 0}, p_place = {0, 0};\n"
       "  int end_parity = 0;\n"
       "  while (next_unit(&walk, args)) {\n"
       "    float out[RIGHT / 2] = {};\n"
       "    float normalize[2] = {0.0f, 0.0f};\n"
       "    for (; walk.n >= walk.unit.blocks.begin; --walk.n) {\n"
       "      // The left consumer hands over P.\n"
       "      wait_for_phase(p_full(shared, p_place.index), p_place.parity);\n"
       "      uint32_t p[V_STEPS][4];\n"
       "      const uint4 *source = fragments(smem, p_place.index);\n"
       "#pragma unroll\n"
       "      for (int step = 0; step < V_STEPS; ++step) {\n"
       "        const uint4 fragment = source[step * 128];\n"
       "        p[step][0] = fragment.x;\n"
       "        p[step][1] = fragment.y;\n"
       "        p[step][2] = fragment.z;\n"
       "        p[step][3] = fragment.w;\n"
       "      }\n"
       "      const float *factors = row_factors(smem, FACTORS_OFFSET + p_place.index * ROWS_BYTES);\n"
       "      const float rescale[2] = {factors[0], factors[8]};\n"
       "      // All lanes arrive and wait: they have read.\n"
       "      __syncwarp();\n"
       "      arrive_once(p_empty(shared, p_place.index));\n"
       "      p_place = next_stage(p_place, PLACES);\n"
       "      rescale_rows(out, RIGHT / 8, rescale);\n"
       "\n"
       "      // O += P V; the copy engine hands over V.\n"
       "      wait_for_phase(v_full(shared, stage.index, 1), stage.parity);\n"
       "      const uint64_t v =\n"
       "          wgmma_descriptor(shared + V_OFFSET + LEFT_SLABS * SLAB_BYTES, 1024, SLAB_BYTES) +\n"
       "          stage.index * (V_BYTES / 16);\n"
       "      wgmma_order_n");
  INTEGER(right);
  TEXT("(out);\n"
       "      wgmma_fence();\n"
       "#pragma unroll\n"
       "      for (int step = 0; step < V_STEPS; ++step)\n"
       "        wgmma_m64n");
  INTEGER(right);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_rs_trans(out, p[step], v + step * 16 * 128 / 16, 1);\n"
       "      wgmma_commit();\n"
       "      wgmma_wait(0);\n"
       "      wgmma_order_n");
  INTEGER(right);
  TEXT("(out);\n"
       "      arrive_once(v_empty(shared, stage.index, 1));\n"
       "      stage = next_stage(stage, STAGES);\n"
       "    }\n"
       "    if (has_keys(&walk)) {\n"
       "      // The left consumer hands over the factors.\n"
       "      wait_for_phase(end_full(shared), end_parity);\n"
       "      const float *ends = row_factors(smem, ENDS_OFFSET);\n"
       "      normalize[0] = ends[0];\n"
       "      normalize[1] = ends[8];\n"
       "      // All lanes arrive and wait: they have read.\n"
       "      __syncwarp();\n"
       "      arrive_once(end_empty(shared));\n"
       "      end_parity ^= 1;\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half)\n"
       "      store_columns(out, RIGHT / 8, LEFT, half, normalize[half], &args->fwd, &walk.unit,\n"
       "                    find_row(args, &walk.unit, half));\n"
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
       "    mbarrier_init(q_full(shared), 1);\n"
       "    mbarrier_init(q_empty(shared), 4);\n"
       "    mbarrier_init(end_full(shared), 4);\n"
       "    mbarrier_init(end_empty(shared), 4);\n"
       "    for (int place = 0; place < PLACES; ++place) {\n"
       "      mbarrier_init(p_full(shared, place), 4);\n"
       "      mbarrier_init(p_empty(shared, place), 4);\n"
       "    }\n"
       "    for (int stage = 0; stage < K_STAGES; ++stage)\n"
       "      for (int slab = 0; slab < K_SLABS; ++slab) {\n"
       "        mbarrier_init(k_full(shared, stage, slab), 1);\n"
       "        mbarrier_init(k_empty(shared, stage, slab), 4);\n"
       "      }\n"
       "    for (int stage = 0; stage < STAGES; ++stage)\n"
       "      for (int side = 0; side < 2; ++side) {\n"
       "        mbarrier_init(v_full(shared, stage, side), 1);\n"
       "        mbarrier_init(v_empty(shared, stage, side), 4);\n"
       "      }\n"
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
       "    if (__shfl_sync(0xffffffff, threadIdx.x / 128, 0) == 1)\n"
       "      consume_left(&args, smem, shared);\n"
       "    else\n"
       "      consume_right(&args, smem, shared);\n"
       "  }\n"
       "}\n");
}
