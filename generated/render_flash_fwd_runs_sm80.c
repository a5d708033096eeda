/* Written by `python -m generator` from templates/attention/flash_fwd_runs_sm80.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_runs_sm80(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_runs_sm80(ap_text *out, const ap_render_input *in) {
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
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  const int32_t warps_n = in->field[AP_ATTENTION_TILE_WARPS_N];
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  const int32_t k_slab = in->field[AP_ATTENTION_TILE_K_SLAB];
  const int32_t v_slab = in->field[AP_ATTENTION_TILE_V_SLAB];
  const int32_t q_in_regs = in->field[AP_ATTENTION_TILE_Q_IN_REGS];
  const int32_t min_blocks = in->field[AP_ATTENTION_TILE_MIN_BLOCKS];
  const int32_t k_unroll = in->field[AP_ATTENTION_TILE_K_UNROLL];
  const int32_t spread = in->field[AP_ATTENTION_TILE_SPREAD];
  const int32_t warps_k = in->field[AP_ATTENTION_TILE_WARPS_K];
  int32_t evicts = 0;
  int32_t has_map = 0;
  int32_t continues = (hdim <= 128) ? 1 : 0;
  int32_t adds = (hdim >= 128) ? 1 : 0;
  int32_t per_head = 0;
  int32_t lanes_look_up = (sequences == AP_ATTENTION_SEQUENCES_PAGED) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// The forward pass of short queries: out = softmax(scale * Q K^T) V, by runs of keys of equal cost.\n"
       "// A run is a range of the key blocks of all sequences, one sequence after the other. A thread block\n"
       "// computes BLOCK_M rows of one head, or of heads that share their keys, over one run: it stores the\n"
       "// output of sequences that lie in its run, and of those that are cut by its ends partial outputs in\n");
  if (adds) {
    TEXT("// fp32, which the last thread block that has one of a sequence adds up, in their order.\n");
  } else {
    TEXT("// fp32, which flash_fwd_combine adds up.\n");
  }
  TEXT("//\n"
       "// Q, K, V and out are ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT(", sums are fp32. Of each sequence key blocks of BLOCK_N keys are walked\n"
       "// over from right to left (online softmax: Milakov and Gimelshein 2018, Dao et al. 2022). Each warp\n"
       "// has keys of its own in every key block, a ring of its own that they pass through, and its own row\n"
       "// maxima, row sums and O over them: the warps wait for each other only at the end of a sequence,\n"
       "// when their parts of O are added up.\n");
  if (continues) {
    TEXT("// The rings go on with the next one meanwhile.\n");
    if (append) {
      TEXT("//\n"
           "// Each sequence has a new key, its last. The warp that has it in its part of the key block writes\n"
           "// it, rotated, and its value to the cache before it asks for them: nobody else reads that head.\n");
    }
  } else {
    TEXT("// What comes next then is on its way to the L2 cache.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/attention/flash_fwd_runs_sm80.cu.j2 with tile\n"
       "// ");
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
       "#include \"attnpress/args/attention.h\"\n");
  if (append) {
    TEXT("#include \"attnpress/device/append_key.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n");
  if (adds) {
    TEXT("#include \"attnpress/device/ptx_atom.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_ldmatrix.cuh\"\n"
       "#include \"attnpress/device/ptx_mma.cuh\"\n"
       "#include \"attnpress/device/ptx_prefetch.cuh\"\n"
       "#include \"attnpress/device/ptx_sreg.cuh\"\n"
       "#include \"attnpress/device/score.cuh\"\n"
       "#include \"attnpress/device/sequence.cuh\"\n"
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
  TEXT(";\n");
  if (mask != AP_ATTENTION_MASK_WINDOW) {
    TEXT("constexpr bool CAUSAL = ");
    STRING((mask == AP_ATTENTION_MASK_CAUSAL) ? "true" : "false");
    TEXT(";\n");
  }
  if (!runs) {
    TEXT("constexpr bool LAST_FIRST = ");
    STRING((mask == AP_ATTENTION_MASK_FULL) ? "false" : "true");
    TEXT("; // later rows see more keys, or no fewer\n"
         "constexpr bool SPLIT = ");
    STRING(split ? "true" : "false");
    TEXT(";\n");
  }
  TEXT("constexpr bool DROPOUT = ");
  STRING(dropout ? "true" : "false");
  TEXT(";\n");
  if (alibi || (bias != AP_ATTENTION_BIAS_NONE)) {
    TEXT("constexpr bool ALIBI = ");
    STRING(alibi ? "true" : "false");
    TEXT(";\n"
         "constexpr BiasDtype BIAS = ");
    STRING((bias == AP_ATTENTION_BIAS_NONE) ? "NO_BIAS" : ((bias == AP_ATTENTION_BIAS_FP16) ? "BIAS_FP16" : ((bias == AP_ATTENTION_BIAS_BF16) ? "BIAS_BF16" : "BIAS_FP32")));
    TEXT(";\n");
  }
  TEXT("constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT("; // query rows of a thread block\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys of a key block\n"
       "constexpr int WARPS_M = ");
  INTEGER(warps_m);
  TEXT("; // warps that share the rows\n"
       "constexpr int WARPS_N = ");
  INTEGER(warps_n);
  TEXT("; // warps that share the keys of S and the columns of O\n"
       "constexpr int WARPS_K = ");
  INTEGER(warps_k);
  TEXT("; // warps that have keys of a key block, and a ring, of their own\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT("; // slots of the ring that K and V pass through\n"
       "constexpr int K_SLAB = ");
  INTEGER(k_slab);
  TEXT("; // columns of K that one slot takes\n"
       "constexpr int V_SLAB = ");
  INTEGER(v_slab);
  TEXT("; // keys of V that one slot takes\n"
       "constexpr int MIN_BLOCKS = ");
  INTEGER(min_blocks);
  TEXT("; // thread blocks that an SM is to hold\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "\n"
       "constexpr int NUM_THREADS = 32 * WARPS_M * WARPS_N * WARPS_K;\n"
       "constexpr int RING_THREADS = NUM_THREADS / WARPS_K; // that fill a ring and read it\n"
       "constexpr int RING_KEYS = BLOCK_N / WARPS_K; // of a key block, that pass through a ring\n"
       "constexpr int M_TILES = BLOCK_M / (16 * WARPS_M); // of 16 rows, of a warp\n"
       "constexpr int S_TILES = RING_KEYS / (8 * WARPS_N); // of 8 keys, of a warp\n"
       "constexpr int O_TILES = ceil_div(HEAD_DIM_V, 8 * WARPS_N); // of 8 columns, of a warp\n"
       "constexpr int K_SLABS = ceil_div(HEAD_DIM, K_SLAB); // slabs of K in a key block\n"
       "constexpr int V_SLABS = RING_KEYS / V_SLAB; // slabs of V in a key block\n"
       "constexpr int SLABS = K_SLABS + V_SLABS; // slabs of a key block\n"
       "\n"
       "// Bytes of a row in shared memory.\n");
  if (!split && (warps_k == 1)) {
    TEXT("constexpr int O_ROW_BYTES = tile_row_bytes(HEAD_DIM_V);\n");
  }
  TEXT("constexpr int Q_ROW_BYTES = tile_row_bytes(HEAD_DIM);\n");
  if (warps_k > 1) {
    TEXT("constexpr int K_ROW_BYTES = K_SLAB * 2; // swizzled, as V\n"
         "constexpr int V_ROW_BYTES = HEAD_DIM_V * 2;\n");
  } else {
    TEXT("constexpr int K_ROW_BYTES = tile_row_bytes(K_SLAB);\n"
         "constexpr int V_ROW_BYTES = tile_row_bytes(HEAD_DIM_V);\n");
  }
  if (warps_k > 1) {
    TEXT("// Shared memory: Q | each warp's ring of K and V slabs. At the end, a warp's part of O, its row\n"
         "// maxima and its row sums take the place of its ring.\n");
  } else {
    TEXT("// Shared memory: Q | ring of K and V slabs");
    if (warps_n > 1) {
      TEXT(" | P | one float a row and warp");
    }
    TEXT(".\n"
         "// At the end, O takes all of it.\n");
  }
  TEXT("constexpr int SLOT_BYTES = max_int(RING_KEYS * K_ROW_BYTES, V_SLAB * V_ROW_BYTES);\n"
       "constexpr int RING_OFFSET = BLOCK_M * Q_ROW_BYTES;\n");
  if (warps_n > 1) {
    TEXT("constexpr int P_ROW_BYTES = tile_row_bytes(BLOCK_N);\n"
         "constexpr int P_OFFSET = RING_OFFSET + STAGES * SLOT_BYTES;\n"
         "constexpr int EXCHANGE_OFFSET = P_OFFSET + BLOCK_M * P_ROW_BYTES;\n"
         "static_assert(SMEM_BYTES >= EXCHANGE_OFFSET + BLOCK_M * WARPS_N * 4, \"shared memory\");\n");
  } else if (warps_k > 1) {
    TEXT("constexpr int PART_ROW_BYTES = HEAD_DIM_V * 4 + 32; // of O, then the row's maximum and sum\n"
         "constexpr int RING_BYTES = max_int(STAGES * SLOT_BYTES, BLOCK_M * PART_ROW_BYTES);\n"
         "static_assert(SMEM_BYTES >= RING_OFFSET + WARPS_K * RING_BYTES, \"shared memory\");\n"
         "static_assert(RING_THREADS == 32, \"a ring is one warp's\");\n");
  } else {
    TEXT("static_assert(SMEM_BYTES >= RING_OFFSET + STAGES * SLOT_BYTES, \"shared memory\");\n");
  }
  if (!split && (warps_k == 1)) {
    TEXT("static_assert(SMEM_BYTES >= BLOCK_M * O_ROW_BYTES, \"shared memory for the output\");\n");
  }
  TEXT("static_assert(BLOCK_M % (16 * WARPS_M) == 0 && BLOCK_N % (16 * WARPS_N * WARPS_K) == 0, \"tile\");\n"
       "static_assert(RING_KEYS % V_SLAB == 0 && V_SLAB % 16 == 0, \"slabs of V\");\n"
       "static_assert(K_SLAB % 16 == 0 || K_SLABS == 1, \"slabs of K\");\n");
  if ((warps_n == 1) && (warps_k == 1)) {
    TEXT("// Where O and S leave no registers for them, row sums wait in shared memory between key blocks.\n"
         "constexpr bool PARKS_SUMS = HEAD_DIM_V + BLOCK_N >= 192 && BLOCK_M == NUM_THREADS && M_TILES == 2 &&\n"
         "                            Q_ROW_BYTES > HEAD_DIM * 2;\n");
  }
  TEXT("// The keys that the row at a position sees.\n"
       "__device__ __forceinline__ Row find_row(const attnpress_fwd_args *args, int position) {\n"
       "  return row_at(position, CAUSAL, args->seqlen_q, args->seqlen_k);\n"
       "}\n"
       "\n"
       "// ---- Runs ----\n"
       "\n"
       "// Keys of each sequence that are walked over.\n"
       "__shared__ int key_counts[ATTNPRESS_RUNS_SEQUENCES_MAX];\n"
       "\n");
  if (adds) {
    TEXT("// Keys that are walked over of a sequence that has `used`, where that is all that is said of it.\n"
         "__device__ __forceinline__ int count_alone(const attnpress_fwd_ragged_args *batch, int used) {\n"
         "  const attnpress_ragged_args *ragged = &batch->ragged;\n"
         "  const bool fits = 0 < ragged->rows_q && ragged->rows_q <= batch->fwd.seqlen_q;\n"
         "  return fits ? keys_by_count(ragged, used).count : 0;\n"
         "}\n"
         "\n"
         "// Fills key_counts with what stands there already, where lengths are numbers alone, while what ran\n"
         "// before may yet write them. All threads do so, and then wait.\n"
         "__device__ __forceinline__ void guess_keys(const attnpress_fwd_ragged_args *batch) {\n"
         "  const uint32_t *used = (const uint32_t *)batch->ragged.seqused_k;\n"
         "  for (int b = threadIdx.x; b < batch->fwd.batch; b += NUM_THREADS)\n"
         "    key_counts[b] = count_alone(batch, (int)load_relaxed(used + b));\n"
         "  // All threads arrive and wait: hands over key_counts.\n"
         "  __syncthreads();\n"
         "}\n"
         "\n"
         "// Whether these are the lengths. Each warp finds that by itself.\n"
         "__device__ __forceinline__ bool guess_holds(const attnpress_fwd_ragged_args *batch) {\n"
         "  bool holds = true;\n"
         "#pragma unroll ");
    INTEGER(per_head ? 8 : 4);
    TEXT("\n"
         "  for (int b = threadIdx.x % 32; b < batch->fwd.batch; b += 32)\n"
         "    holds &= key_counts[b] == count_alone(batch, batch->ragged.seqused_k[b]);\n"
         "  return __ballot_sync(0xffffffff, !holds) == 0;\n"
         "}\n"
         "\n");
  }
  TEXT("// Fills key_counts; all threads of the thread block do so, and then wait.\n"
       "__device__ __forceinline__ void count_keys(const attnpress_fwd_ragged_args *batch,\n"
       "                                           bool key_count_alone) {\n"
       "  for (int b = threadIdx.x; b < batch->fwd.batch; b += NUM_THREADS) {\n"
       "    SequenceRows rows;\n"
       "    if (key_count_alone)\n"
       "      rows = rows_of_key_count(&batch->fwd, &batch->ragged, b, batch->ragged.seqused_k[b]);\n"
       "    else\n"
       "      rows = rows_of_sequence(&batch->fwd, &batch->ragged, b);\n"
       "    key_counts[b] = rows.queries.count > 0 ? rows.keys.count : 0;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over key_counts.\n"
       "  __syncthreads();\n"
       "}\n"
       "\n"
       "// A sequence's cost is that of its key blocks, a unit or two each, and some more. Of more key\n"
       "// blocks than any sequence has room for, unless its pages are named again and again, several count\n"
       "// as one: the sum of all fits.\n"
       "constexpr int BLOCK_COST = max_int(BLOCK_N / ATTNPRESS_RUNS_UNIT_KEYS, 1);\n"
       "\n"
       "__device__ __forceinline__ int unit_shift(int blocks) {\n"
       "  return max(11 + BLOCK_COST - __clz(blocks), 0);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ int cost_of_sequence(const attnpress_fwd_runs_args *args, int blocks) {\n"
       "  const int shift = unit_shift(blocks);\n"
       "  return args->sequence_cost + (blocks + (1 << shift) - 1 >> shift) * BLOCK_COST;\n"
       "}\n"
       "\n"
       "// A run on its way over the sequences.\n"
       "struct Walk {\n"
       "  int sequence;   // the next one\n"
       "  int before;     // cost of those before it\n"
       "  int begin, end; // of the run, in units of cost\n"
       "};\n"
       "\n"
       "// How runs share out all cost evenly: each has so much, and the first ones one unit more.\n"
       "struct Shares {\n"
       "  int each, longer;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ int begin_of_run(Shares shares, int run) {\n"
       "  return run * shares.each + min(run, shares.longer);\n"
       "}\n"
       "\n");
  if (adds) {
    TEXT("// The run that has a unit of all cost.\n"
         "__device__ __forceinline__ int run_of_unit(Shares shares, int unit) {\n"
         "  const int of_longer = shares.longer * (shares.each + 1);\n"
         "  return unit < of_longer ? unit / (shares.each + 1)\n"
         "                          : shares.longer + (unit - of_longer) / shares.each;\n"
         "}\n"
         "\n");
  }
  TEXT("// The walk of a run; end <= begin where there is none of that number. Each warp finds it by itself.\n"
       "__device__ __forceinline__ Walk find_walk(const attnpress_fwd_runs_args *args, int run,\n"
       "                                          Shares *shares) {\n"
       "  const int lane = threadIdx.x % 32, sequences = args->batch.fwd.batch;\n"
       "  const int each = ceil_div(sequences, 32); // of a lane, one after the other\n"
       "  int own = 0;\n"
       "  for (int i = 0; i < each; ++i) {\n"
       "    const int b = lane * each + i;\n"
       "    if (b < sequences)\n"
       "      own += cost_of_sequence(args, ceil_div(key_counts[b], BLOCK_N));\n"
       "  }\n"
       "  int up_to = own; // and with this lane's\n"
       "#pragma unroll\n"
       "  for (int lanes = 1; lanes < 32; lanes *= 2) {\n"
       "    const int other = __shfl_sync(0xffffffff, up_to, max(lane - lanes, 0));\n"
       "    up_to += lane >= lanes ? other : 0;\n"
       "  }\n"
       "  const int cost = __shfl_sync(0xffffffff, up_to, 31);\n"
       "  const int runs = min(args->runs, max(cost / args->least_cost, 1)), own_share = cost / runs;\n"
       "  *shares = {own_share, cost - runs * own_share};\n"
       "  if (run >= runs)\n"
       "    return {0, 0, 0, 0};\n"
       "  const int begin = begin_of_run(*shares, run);\n"
       "  const int passed = __popc(__ballot_sync(0xffffffff, up_to <= begin)); // lanes before the run\n"
       "  const int before = __shfl_sync(0xffffffff, up_to - own, min(passed, 31));\n"
       "  return {passed * each, before, begin, begin_of_run(*shares, run + 1)};\n"
       "}\n"
       "\n"
       "// A part of a sequence: all of it, or what lies in a run of one that is cut.\n"
       "struct Part {\n"
       "  int sequence; // -1: there are no more\n"
       "  int keys;     // of the sequence\n"
       "  Range blocks; // key blocks\n"
       "};\n"
       "\n"
       "// How many of a sequence's key blocks lie before a unit of its cost; none, or all, instead of few.\n"
       "__device__ __forceinline__ int blocks_before(const attnpress_fwd_runs_args *args, int unit,\n"
       "                                             int blocks) {\n"
       "  const int64_t before = (int64_t)(max(unit - args->sequence_cost, 0) / BLOCK_COST)\n"
       "                         << unit_shift(blocks);\n"
       "  const int n = (int)min(before, (int64_t)blocks);\n"
       "  if (n < blocks && n < args->least_blocks)\n"
       "    return 0;\n"
       "  return blocks - n < args->least_blocks ? blocks : n;\n"
       "}\n"
       "\n"
       "// The next part of a run.\n"
       "__device__ __forceinline__ Part next_part(const attnpress_fwd_runs_args *args, Walk *walk) {\n"
       "  while (walk->before < walk->end && walk->sequence < args->batch.fwd.batch) {\n"
       "    const int keys = key_counts[walk->sequence], blocks = ceil_div(keys, BLOCK_N);\n"
       "    const int begin = blocks_before(args, walk->begin - walk->before, blocks);\n"
       "    const int end = blocks_before(args, walk->end - walk->before, blocks);\n"
       "    const bool begins = walk->begin <= walk->before; // the sequence does, in this run\n"
       "    const Part part = {walk->sequence, keys, {begin, end}};\n"
       "    ++walk->sequence;\n"
       "    walk->before += cost_of_sequence(args, blocks);\n"
       "    if (begin < end || (blocks == 0 && begins))\n"
       "      return part;\n"
       "  }\n"
       "  return {-1, 0, {0, 0}};\n"
       "}\n"
       "\n");
  if (adds) {
    TEXT("// A sequence that is cut: its parts are those of so many runs, one a run.\n"
         "struct Cut {\n"
         "  int sequence; // -1: there is none\n"
         "  int first, parts;\n"
         "};\n"
         "\n");
    if (per_head) {
      TEXT("// The cut of a part of run `run`, whose walk has just come behind it.\n"
           "__device__ __forceinline__ Cut find_cut(const attnpress_fwd_runs_args *args, const Walk *walk,\n"
           "                                        Shares shares, int run, const Part *part) {\n"
           "  const int blocks = ceil_div(part->keys, BLOCK_N);\n"
           "  const bool begins = part->blocks.begin == 0, ends = part->blocks.end == blocks;\n"
           "  const int cost = cost_of_sequence(args, blocks), before = walk->before - cost;\n"
           "  int first = run, last = run;\n"
           "  if (!begins) {\n"
           "    first = run_of_unit(shares, before);\n"
           "    while (blocks_before(args, begin_of_run(shares, first + 1) - before, blocks) == 0)\n"
           "      ++first;\n"
           "  }\n"
           "  if (!ends) {\n"
           "    last = run_of_unit(shares, before + cost - 1);\n"
           "    while (blocks_before(args, begin_of_run(shares, last) - before, blocks) == blocks)\n"
           "      --last;\n"
           "  }\n"
           "  return {part->sequence, first, last - first + 1};\n"
           "}\n"
           "\n");
    } else {
      TEXT("// Of the run: the sequence that begins before it, and the one that begins in it and goes on.\n"
           "__shared__ Cut cuts[2];\n"
           "\n"
           "// Notes a part of run `run`, whose walk has just come behind it, where it is not all of its\n"
           "// sequence. One thread.\n"
           "__device__ __forceinline__ void note_cut(const attnpress_fwd_runs_args *args, const Walk *walk,\n"
           "                                         Shares shares, int run, const Part *part) {\n"
           "  const int blocks = ceil_div(part->keys, BLOCK_N);\n"
           "  const bool begins = part->blocks.begin == 0, ends = part->blocks.end == blocks;\n"
           "  if (begins && ends)\n"
           "    return;\n"
           "  const int cost = cost_of_sequence(args, blocks), before = walk->before - cost;\n"
           "  int first = run, last = run;\n"
           "  if (!begins) {\n"
           "    first = run_of_unit(shares, before);\n"
           "    while (blocks_before(args, begin_of_run(shares, first + 1) - before, blocks) == 0)\n"
           "      ++first;\n"
           "  }\n"
           "  if (!ends) {\n"
           "    last = run_of_unit(shares, before + cost - 1);\n"
           "    while (blocks_before(args, begin_of_run(shares, last) - before, blocks) == blocks)\n"
           "      --last;\n"
           "  }\n"
           "  cuts[begins] = {part->sequence, first, last - first + 1};\n"
           "}\n"
           "\n");
    }
    TEXT("// Counts one more of `parts` parts that are there; true: they all are. A count has bits that\n"
         "// nothing else leaves, so that whatever was there before is none, and the last one takes it away.\n");
    if (per_head) {
      TEXT("// `late`: the others are thought to be there, else that none is.\n"
           "__device__ __forceinline__ bool count_part(uint64_t *count, int parts, bool late) {\n"
           "  const uint64_t last = ATTNPRESS_RUNS_COUNT + parts - 1;\n"
           "  for (uint64_t expected = late ? last : 0;;) {\n");
    } else {
      TEXT("__device__ __forceinline__ bool count_part(uint64_t *count, int parts) {\n"
           "  const uint64_t last = ATTNPRESS_RUNS_COUNT + parts - 1;\n"
           "  for (uint64_t expected = last;;) {\n");
    }
    TEXT("    uint64_t next = expected - ATTNPRESS_RUNS_COUNT < (uint64_t)parts ? expected + 1\n"
         "                                                                      : ATTNPRESS_RUNS_COUNT + 1;\n"
         "    if (expected == last)\n"
         "      next = 0;\n"
         "    const uint64_t before = compare_and_swap(count, expected, next);\n"
         "    if (before == expected)\n"
         "      return expected == last;\n"
         "    expected = before;\n"
         "  }\n"
         "}\n"
         "\n");
  } else {
    TEXT("// The run in which sequence `cut` ends, the last one of a walk that is through.\n"
         "__device__ __forceinline__ int last_run(const attnpress_fwd_runs_args *args, const Walk *walk,\n"
         "                                        Shares shares, int run, int cut) {\n"
         "  const int blocks = ceil_div(key_counts[cut], BLOCK_N);\n"
         "  const int before = walk->before - cost_of_sequence(args, blocks);\n"
         "  do\n"
         "    ++run;\n"
         "  while (blocks_before(args, begin_of_run(shares, run + 1) - before, blocks) < blocks);\n"
         "  return run;\n"
         "}\n"
         "\n");
  }
  TEXT("__device__ __forceinline__ SequenceRows rows_of_part(const attnpress_fwd_ragged_args *batch,\n"
       "                                                     const Part *part, bool key_count_alone) {\n"
       "  if (!key_count_alone)\n"
       "    return rows_of_sequence(&batch->fwd, &batch->ragged, part->sequence);\n"
       "  const bool fits = batch->ragged.rows_q <= batch->fwd.seqlen_q;\n"
       "  return {{0, fits ? batch->ragged.rows_q : 0}, {0, part->keys}, part->sequence};\n"
       "}\n"
       "\n");
  if (lanes_look_up) {
    TEXT("constexpr int LANE_KEYS = ceil_div(RING_KEYS, 32); // of those that pass, that a lane looks up\n"
         "\n");
  }
  TEXT("// The keys and values of one head on their way through ");
  if (warps_k > 1) {
    TEXT("a warp's");
  } else {
    TEXT("the");
  }
  TEXT(" ring.\n"
       "//\n"
       "// A key block passes as SLABS slabs, first the column slabs of K, then the row slabs of V. The load\n"
       "// of a slab starts STAGES - 1 slabs ahead of its use.\n"
       "struct KeyPipeline {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  const attnpress_fwd_ragged_args *batch;\n"
         "  const uint16_t *k; // of this head's rows in page 0\n"
         "  const uint16_t *v;\n"
         "  Pages pages;\n"
         "  int key_begin; // the first key of a key block that passes through this ring\n");
    if (lanes_look_up) {
      TEXT("  // Of this lane's keys of the key block whose slabs are loaded next: what the table says of their\n"
           "  // pages, and their rows there.\n"
           "  int page[LANE_KEYS], row_of_page[LANE_KEYS];\n");
    }
  } else {
    TEXT("  // This thread's first chunk of the next key block to load. The pointers walk along, because\n"
         "  // addresses computed from the key block's number would take twice as many registers.\n"
         "  const uint16_t *k; // of this head's (seqlen_k, HEAD_DIM)\n"
         "  const uint16_t *v; // of this head's (seqlen_k, HEAD_DIM_V)\n"
         "  int64_t k_row_stride, v_row_stride;\n");
  }
  TEXT("  int seqlen_k;    // less the first key of a key block that passes through this ring\n"
       "  int block_begin; // the last key block that is walked over\n");
  if (runs && (hdim <= 128)) {
    TEXT("  int n;           // the key block whose slabs are loaded next; below block_begin: none\n"
         "  Walk walk;       // on to what is loaded behind those\n"
         "  const attnpress_fwd_runs_args *given;\n");
    if (append) {
      TEXT("  const attnpress_fwd_runs_append_args *appending;\n"
           "  int sequence;\n"
           "  int new_key; // of the keys of this ring in key block n, until it has been written; -1: none\n");
    }
    if (sequences != AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  int kv_head, key_begin;\n");
    } else if (append) {
      TEXT("  int kv_head;\n");
    }
  }
  TEXT("  uint32_t ring;   // shared address of slot 0\n"
       "  int slot;        // of the slab in use, where a key block is not a whole number of rounds\n");
  if (has_map) {
    TEXT("  const uint32_t *map; // of the row block\n"
         "  int k_block, v_block; // whose K, and whose V, is loaded next\n");
  }
  TEXT("};\n"
       "\n");
  if (runs && (hdim <= 128)) {
    TEXT("// Moves a pipeline on to the next sequence of the run, if there is one.\n"
         "__device__ __forceinline__ void load_next_part(KeyPipeline *pipe);\n"
         "\n");
    if (append) {
      TEXT("// Writes the new key that passes through the ring, its value, or both, to their place in the cache.\n"
           "__device__ __forceinline__ void append_rows(KeyPipeline *pipe, bool k, bool v);\n"
           "\n"
           "// Likewise, before the slab that has one of them is loaded: both before that of K, unless V's page\n"
           "// is another one, which is not known yet.\n"
           "__device__ __forceinline__ void append_to_slab(KeyPipeline *pipe, int slab) {\n"
           "  if ((slab != 0 && slab != K_SLABS) || pipe->new_key < 0)\n"
           "    return;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  const bool together = pipe->batch->ragged.page_table_v == 0;\n");
      } else {
        TEXT("  const bool together = true;\n");
      }
      TEXT("  if (slab == 0)\n"
           "    append_rows(pipe, true, together);\n"
           "  else\n"
           "    append_rows(pipe, false, true);\n"
           "  if (slab == K_SLABS || together)\n"
           "    pipe->new_key = -1;\n"
           "}\n"
           "\n");
    }
  }
  TEXT("// This thread among those that fill the ring. A macro, because the compiler finds fewer registers\n"
       "// for a function of the same text.\n");
  if (warps_k > 1) {
    TEXT("#define RING_THREAD (threadIdx.x % RING_THREADS)\n");
  } else {
    TEXT("#define RING_THREAD threadIdx.x\n");
  }
  TEXT("// Waits for the threads that fill the ring and read it.\n"
       "__device__ __forceinline__ void ring_barrier() {\n");
  if (warps_k > 1) {
    TEXT("  __syncwarp();\n");
  } else {
    TEXT("  __syncthreads();\n");
  }
  TEXT("}\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    if (lanes_look_up) {
      TEXT("// Where this lane's key number `i` of key block `n` lies among the sequence's pages.\n"
           "__device__ __forceinline__ PageRow place_in_block(const KeyPipeline *pipe, int n, int i) {\n"
           "  return place_of_key(&pipe->pages, &pipe->batch->ragged,\n"
           "                      n * BLOCK_N + pipe->key_begin + i * 32 + threadIdx.x % 32);\n"
           "}\n"
           "\n"
           "// Asks for the numbers of the pages in which those keys lie, by the table that lies `table` entries\n"
           "// behind K's. They are waited for where they are used.\n"
           "__device__ __forceinline__ void ask_for_pages(KeyPipeline *pipe, int n, int64_t table) {\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < LANE_KEYS; ++i) {\n"
           "    const PageRow place = place_in_block(pipe, n, i);\n"
           "    pipe->page[i] = pipe->pages.table[table + place.page];\n"
           "    pipe->row_of_page[i] = place.row;\n"
           "  }\n"
           "}\n"
           "\n"
           "// Starts the copy of `rows` keys, of `columns` columns, into a slot whose rows have `slab_columns`;\n"
           "// `global`: their first column in page 0. Keys from `keys` on, counted from the first, become\n"
           "// zeros. They are keys `first` and on of those that pass through the ring; lanes say to the others\n"
           "// of a warp where theirs lie, as one offset.\n"
           "__device__ __forceinline__ void load_rows(uint32_t slot, int slab_columns, const KeyPipeline *pipe,\n"
           "                                          const uint16_t *global, int64_t page_stride,\n"
           "                                          int64_t row_stride, int first, int rows, int columns,\n"
           "                                          int keys) {\n"
           "  const int pass_rows = RING_THREADS / (columns / 8);\n"
           "  const int column = copy_column(columns, RING_THREAD);\n"
           "  const bool copies =\n"
           "      RING_THREADS % (columns / 8) == 0 || copy_row(columns, RING_THREAD) < pass_rows;\n"
           "  int64_t key_begin[LANE_KEYS];\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < LANE_KEYS; ++i)\n"
           "    key_begin[i] = clamped_page(&pipe->batch->ragged, pipe->page[i]) * page_stride +\n"
           "                   pipe->row_of_page[i] * row_stride;\n"
           "#pragma unroll\n"
           "  for (int pass = 0; pass < copy_passes(rows, columns, RING_THREADS); ++pass) {\n"
           "    const int row = pass * pass_rows + copy_row(columns, RING_THREAD);\n"
           "    const int begin = first + pass * pass_rows, end = begin + pass_rows; // keys of the pass\n"
           "    int64_t row_begin = 0;\n"
           "#pragma unroll\n"
           "    for (int i = 0; i < LANE_KEYS; ++i)\n"
           "      if (LANE_KEYS == 1 || (begin < (i + 1) * 32 && end > i * 32)) { // some may be lanes' key i\n"
           "        const int64_t found = __shfl_sync(0xffffffff, key_begin[i], (first + row) % 32);\n"
           "        row_begin = LANE_KEYS == 1 || (first + row) / 32 == i ? found : row_begin;\n"
           "      }\n");
      if (warps_k > 1) {
        TEXT("    const uint32_t target = slot + row * slab_columns * 2 +\n"
             "                            (column * 2 ^ swizzle_of_row(slab_columns, row));\n");
      } else {
        TEXT("    const uint32_t target = slot + row * tile_row_bytes(slab_columns) + column * 2;\n");
      }
      TEXT("    if (copies && (pass * pass_rows + pass_rows <= rows || row < rows))\n");
      if (evicts) {
        TEXT("      cp_async_16_by_policy(target, global + column + row_begin,\n"
             "                            rows <= keys || row < keys ? 16 : 0, evict_first_policy());\n");
      } else {
        TEXT("      cp_async_16(target, global + column + row_begin, rows <= keys || row < keys ? 16 : 0);\n");
      }
      TEXT("  }\n"
           "}\n"
           "\n"
           "// Starts the load of slab `slab` of key block `n` into `slot`; slabs are loaded in the order of\n"
           "// their use. Keys past the end, which only a `masked` key block can have, become zeros.\n"
           "__device__ __forceinline__ void load_slab(KeyPipeline *pipe, int n, int slab, uint32_t slot,\n"
           "                                          bool masked) {\n"
           "  const attnpress_fwd_args *args = &pipe->batch->fwd;\n");
      if (append) {
        TEXT("  append_to_slab(pipe, slab);\n");
      }
      TEXT("  const int keys = masked ? pipe->seqlen_k - n * BLOCK_N : BLOCK_N; // from the first to the end\n"
           "  if (slab < K_SLABS) {\n"
           "    const int columns = slab < K_SLABS - 1 || HEAD_DIM % K_SLAB == 0 ? K_SLAB : HEAD_DIM % K_SLAB;\n"
           "    load_rows(slot, K_SLAB, pipe, pipe->k + slab * K_SLAB, args->k_batch_stride,\n"
           "              args->k_row_stride, 0, RING_KEYS, columns, keys);\n"
           "    // What comes next is loaded a slab's use later: V, whose table may be another one,\n"
           "    if (slab == K_SLABS - 1 && pipe->batch->ragged.page_table_v != 0)\n"
           "      ask_for_pages(pipe, n, pipe->batch->ragged.page_table_v);\n"
           "  } else {\n"
           "    const int key = (slab - K_SLABS) * V_SLAB;\n"
           "    load_rows(slot, HEAD_DIM_V, pipe, pipe->v, args->v_batch_stride, args->v_row_stride, key,\n"
           "              V_SLAB, HEAD_DIM_V, keys - key);\n");
      if (runs && (hdim <= 128)) {
        TEXT("    // and the next key block, or that of the next sequence.\n"
             "    if (slab == SLABS - 1) {\n"
             "      if (--pipe->n < pipe->block_begin)\n"
             "        load_next_part(pipe);\n"
             "      if (pipe->n >= pipe->block_begin)\n"
             "        ask_for_pages(pipe, pipe->n, 0);\n"
             "    }\n");
      } else {
        TEXT("    // and the next key block.\n"
             "    if (slab == SLABS - 1 && n > pipe->block_begin)\n"
             "      ask_for_pages(pipe, n - 1, 0);\n");
      }
      TEXT("  }\n"
           "}\n"
           "\n");
    } else {
      TEXT("// Starts passes `first_pass` to `end_pass` - 1 of the copy of `rows` keys from `first_key` on, of\n"
           "// `columns` columns, into a slot whose rows have `slab_columns`; `global`: their first column in\n"
           "// page 0. Keys from `keys` on, counted from the first, become zeros. The row of each is looked up\n"
           "// in the page table that lies `table` entries behind K's.\n"
           "__device__ __forceinline__ void load_rows(uint32_t slot, int slab_columns, const KeyPipeline *pipe,\n"
           "                                          const uint16_t *global, int64_t table,\n"
           "                                          int64_t page_stride, int64_t row_stride, int first_key,\n"
           "                                          int rows, int columns, int keys, int first_pass,\n"
           "                                          int end_pass) {\n"
           "  const int pass_rows = RING_THREADS / (columns / 8);\n"
           "  const int column = copy_column(columns, RING_THREAD);\n"
           "  if (RING_THREADS % (columns / 8) == 0 || copy_row(columns, RING_THREAD) < pass_rows) {\n"
           "#pragma unroll\n"
           "    for (int pass = first_pass; pass < end_pass; ++pass) {\n"
           "      const int row = pass * pass_rows + copy_row(columns, RING_THREAD);\n"
           "      const uint32_t target = slot + row * tile_row_bytes(slab_columns) + column * 2;\n"
           "      if (pass * pass_rows + pass_rows <= rows || row < rows)\n"
           "        cp_async_16(target,\n"
           "                    global + column + page_row(&pipe->pages, &pipe->batch->ragged, first_key + row,\n"
           "                                               table, page_stride, row_stride),\n"
           "                    rows <= keys || row < keys ? 16 : 0);\n"
           "    }\n"
           "  }\n"
           "}\n"
           "\n"
           "// Starts passes of the load of slab `slab` of key block `n` into `slot`: all of them, or part\n"
           "// `step` of `steps`. Keys past the end, which only a `masked` key block can have, become zeros.\n"
           "__device__ __forceinline__ void load_slab_part(KeyPipeline *pipe, int n, int slab, uint32_t slot,\n"
           "                                               bool masked, int step, int steps) {\n"
           "  const attnpress_fwd_args *args = &pipe->batch->fwd;\n"
           "  const int keys = masked ? pipe->seqlen_k - n * BLOCK_N : BLOCK_N; // from the first to the end\n"
           "  const int first_key = n * BLOCK_N + pipe->key_begin;\n"
           "  const int columns = slab >= K_SLABS ? HEAD_DIM_V\n"
           "                      : slab < K_SLABS - 1 || HEAD_DIM % K_SLAB == 0 ? K_SLAB\n"
           "                                                                     : HEAD_DIM % K_SLAB;\n"
           "  const int rows = slab >= K_SLABS ? V_SLAB : RING_KEYS;\n"
           "  const int passes = copy_passes(rows, columns, RING_THREADS);\n"
           "  const int part = steps == 1 ? passes : max_int(2, ceil_div(passes, steps));\n"
           "  const int first = min_int(passes, step * part), end = min_int(passes, first + part);\n"
           "  if (slab < K_SLABS) {\n"
           "    load_rows(slot, K_SLAB, pipe, pipe->k + slab * K_SLAB, 0, args->k_batch_stride,\n"
           "              args->k_row_stride, first_key, rows, columns, keys, first, end);\n"
           "  } else {\n"
           "    const int key = (slab - K_SLABS) * V_SLAB;\n"
           "    load_rows(slot, HEAD_DIM_V, pipe, pipe->v, pipe->batch->ragged.page_table_v,\n"
           "              args->v_batch_stride, args->v_row_stride, first_key + key, rows, columns,\n"
           "              keys - key, first, end);\n"
           "  }\n"
           "}\n"
           "\n"
           "// The same of a whole slab.\n"
           "__device__ __forceinline__ void load_slab(KeyPipeline *pipe, int n, int slab, uint32_t slot,\n"
           "                                          bool masked) {\n"
           "  load_slab_part(pipe, n, slab, slot, masked, 0, 1);\n"
           "}\n"
           "\n");
    }
  } else {
    TEXT("// Starts the copy of `rows` keys of `columns` columns, of which `keys` are there, into a slot whose\n"
         "// rows have `slab_columns`.\n"
         "__device__ __forceinline__ void load_rows(uint32_t slot, int slab_columns, const uint16_t *global,\n"
         "                                          int64_t row_stride, int rows, int columns, int keys) {\n");
    if (warps_k > 1) {
      if (evicts) {
        TEXT("  // What is read once makes room in the L2 cache before code, lengths and parts do.\n");
      }
      TEXT("  copy_rows_swizzled_async(slot, slab_columns, global, row_stride, rows, columns, keys,\n"
           "                           RING_THREAD, RING_THREADS, ");
      STRING(evicts ? "true" : "false");
      TEXT(");\n");
    } else {
      TEXT("  copy_rows_async(slot, tile_row_bytes(slab_columns), global, row_stride, rows, columns, keys, 0,\n"
           "                  copy_passes(rows, columns, RING_THREADS), RING_THREAD, RING_THREADS);\n");
    }
    TEXT("}\n"
         "\n"
         "// Starts the load of slab `slab` of key block `n` into `slot`; slabs are loaded in the order of\n"
         "// their use. Keys past the end, which only a `masked` key block can have, become zeros.\n"
         "__device__ __forceinline__ void load_slab(KeyPipeline *pipe, int n, int slab, uint32_t slot,\n"
         "                                          bool masked) {\n");
    if (append) {
      TEXT("  append_to_slab(pipe, slab);\n");
    }
    TEXT("  const int keys = masked ? pipe->seqlen_k - n * BLOCK_N : BLOCK_N; // from the first to the end\n"
         "  if (slab < K_SLABS - 1 || (slab < K_SLABS && HEAD_DIM % K_SLAB == 0)) {\n"
         "    load_rows(slot, K_SLAB, pipe->k + slab * K_SLAB, pipe->k_row_stride, RING_KEYS, K_SLAB, keys);\n");
    if ((hdim % k_slab) != 0) {
      TEXT("  } else if (slab < K_SLABS) {\n"
           "    // The last slab is narrower, and its chunks are shared out differently.\n"
           "    const int columns = HEAD_DIM % K_SLAB;\n"
           "    const int64_t rows = copy_row(columns, RING_THREAD) - copy_row(K_SLAB, RING_THREAD);\n"
           "    const int offset = copy_column(columns, RING_THREAD) - copy_column(K_SLAB, RING_THREAD);\n"
           "    load_rows(slot, K_SLAB, pipe->k + rows * pipe->k_row_stride + slab * K_SLAB + offset,\n"
           "              pipe->k_row_stride, RING_KEYS, columns, keys);\n");
    }
    TEXT("  } else {\n"
         "    const int key = (slab - K_SLABS) * V_SLAB;\n"
         "    load_rows(slot, HEAD_DIM_V, pipe->v + key * pipe->v_row_stride, pipe->v_row_stride, V_SLAB,\n"
         "              HEAD_DIM_V, keys - key);\n"
         "  }\n");
    if (!has_map) {
      TEXT("  if (slab == K_SLABS - 1)\n"
           "    pipe->k -= BLOCK_N * pipe->k_row_stride;\n"
           "  if (slab == SLABS - 1)\n"
           "    pipe->v -= BLOCK_N * pipe->v_row_stride;\n");
      if (runs && (hdim <= 128)) {
        TEXT("  if (slab == SLABS - 1 && --pipe->n < pipe->block_begin)\n"
             "    load_next_part(pipe);\n");
      }
    } else {
      TEXT("  // On to the next key block of which the mask leaves something.\n"
           "  const int next = block_before(pipe->map, n, pipe->block_begin);\n"
           "  if (slab == K_SLABS - 1) {\n"
           "    pipe->k -= (n - next) * (BLOCK_N * pipe->k_row_stride);\n"
           "    pipe->k_block = next;\n"
           "  }\n"
           "  if (slab == SLABS - 1) {\n"
           "    pipe->v -= (n - next) * (BLOCK_N * pipe->v_row_stride);\n"
           "    pipe->v_block = next;\n"
           "  }\n");
    }
    TEXT("}\n"
         "\n");
    if (has_map) {
      TEXT("// The key block that slab number `slab` of those to come is loaded of.\n"
           "__device__ __forceinline__ int block_to_load(const KeyPipeline *pipe, int slab) {\n"
           "  return slab % SLABS < K_SLABS ? pipe->k_block : pipe->v_block;\n"
           "}\n"
           "\n");
    }
  }
  TEXT("// Shared address of the slot `ahead` slabs after the one in use, the first slab being slab `slab`.\n"
       "__device__ __forceinline__ uint32_t ring_slot(const KeyPipeline *pipe, int slab, int ahead) {\n"
       "  if (SLABS % STAGES == 0)\n"
       "    return pipe->ring + (slab + ahead) % STAGES * SLOT_BYTES;\n"
       "  const int slot = pipe->slot + ahead;\n"
       "  return pipe->ring + (slot >= STAGES ? slot - STAGES : slot) * SLOT_BYTES;\n"
       "}\n"
       "\n"
       "// Starts the load of slab `slab` of the walk, which begins at key block `n`, into its slot.\n"
       "__device__ __forceinline__ void fill_slot(KeyPipeline *pipe, int n, int slab) {\n");
  if (runs && (hdim <= 128)) {
    TEXT("  if (pipe->n >= pipe->block_begin)\n"
         "    load_slab(pipe, pipe->n, slab % SLABS, pipe->ring + slab * SLOT_BYTES, true);\n");
  } else if (!has_map) {
    TEXT("  if (n - slab / SLABS >= pipe->block_begin)\n"
         "    load_slab(pipe, n - slab / SLABS, slab % SLABS, pipe->ring + slab * SLOT_BYTES,\n"
         "              true);\n");
  } else {
    TEXT("  if (block_to_load(pipe, slab) >= pipe->block_begin)\n"
         "    load_slab(pipe, block_to_load(pipe, slab), slab % SLABS, pipe->ring + slab * SLOT_BYTES,\n"
         "              true);\n");
  }
  TEXT("}\n"
       "\n"
       "// Starts the loads of slabs `first` to STAGES - 2 of the walk. Each is a group of its own; the\n"
       "// first one also holds this thread's copies of Q.\n"
       "__device__ __forceinline__ void fill_ring(KeyPipeline *pipe, int n, int first) {\n"
       "#pragma unroll\n"
       "  for (int slab = first; slab < STAGES - 1; ++slab) {\n"
       "    fill_slot(pipe, n, slab);\n"
       "    cp_async_commit();\n"
       "  }\n"
       "}\n"
       "\n"
       "// Returns the shared address of slab `slab` of key block `n`, once it has arrived.\n"
       "__device__ __forceinline__ uint32_t next_slab(KeyPipeline *pipe, int n, int slab, bool masked) {\n"
       "  // All threads of the ring arrive and wait. Hands over the slab that everyone's copies brought,\n"
       "  // and frees the slot of the previous slab, which everyone has read.\n"
       "  cp_async_wait(STAGES - 2);\n"
       "  ring_barrier();\n");
  if (!spread) {
    TEXT("  const int ahead = slab + STAGES - 1;\n");
    if (runs && (hdim <= 128)) {
      TEXT("  if (pipe->n >= pipe->block_begin) // which may be the next sequence's, and pass its end\n"
           "    load_slab(pipe, pipe->n, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), true);\n");
    } else if (!has_map) {
      TEXT("  if (n - ahead / SLABS >= pipe->block_begin)\n"
           "    load_slab(pipe, n - ahead / SLABS, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), masked);\n");
    } else {
      TEXT("  const int block = block_to_load(pipe, ahead);\n"
           "  if (block >= pipe->block_begin)\n"
           "    load_slab(pipe, block, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), masked);\n");
    }
  }
  TEXT("  return ring_slot(pipe, slab, 0);\n"
       "}\n"
       "\n");
  if (spread) {
    if (sequences != AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("// Starts part `step` of `steps` of the load of K or V.\n"
           "__device__ __forceinline__ const uint16_t *load_part(uint32_t slot, int row_bytes,\n"
           "                                                     const uint16_t *global, int64_t row_stride,\n"
           "                                                     int columns, int keys, int step, int steps) {\n"
           "  const int passes = copy_passes(BLOCK_N, columns, NUM_THREADS);\n"
           "  const int part = max_int(2, ceil_div(passes, steps));\n"
           "  const int first = min_int(passes, step * part), end = min_int(passes, first + part);\n"
           "  global = copy_rows_async(slot, row_bytes, global, row_stride, BLOCK_N, columns, keys, first, end,\n"
           "                           threadIdx.x, NUM_THREADS);\n"
           "  if (first < end && end == passes) // on to the next key block\n"
           "    global -= (passes * (NUM_THREADS / (columns / 8)) + BLOCK_N) * row_stride;\n"
           "  return global;\n"
           "}\n"
           "\n");
    }
    TEXT("// Starts part `step` of `steps` of the load that runs STAGES - 1 slabs ahead of slab `slab` of key\n"
         "// block `n`. Copies that start all at once hold up the ldmatrix behind them, so these are spread\n"
         "// over the steps of the product.\n"
         "__device__ __forceinline__ void load_ahead(KeyPipeline *pipe, int n, int slab, bool masked,\n"
         "                                           int step, int steps) {\n"
         "  const int ahead = slab + STAGES - 1;\n"
         "  const int block = n - ahead / SLABS;\n"
         "  if (block < pipe->block_begin)\n"
         "    return;\n"
         "  const uint32_t slot = ring_slot(pipe, slab, STAGES - 1);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  load_slab_part(pipe, block, ahead % SLABS, slot, masked, step, steps);\n");
    } else {
      TEXT("  const int keys = masked ? pipe->seqlen_k - block * BLOCK_N : BLOCK_N;\n"
           "  if (ahead % SLABS == 0)\n"
           "    pipe->k =\n"
           "        load_part(slot, K_ROW_BYTES, pipe->k, pipe->k_row_stride, HEAD_DIM, keys, step, steps);\n"
           "  else\n"
           "    pipe->v =\n"
           "        load_part(slot, V_ROW_BYTES, pipe->v, pipe->v_row_stride, HEAD_DIM_V, keys, step, steps);\n");
    }
    TEXT("}\n"
         "\n");
  }
  TEXT("// Closes the group of the loads that started during a slab's use, and moves on.\n"
       "__device__ __forceinline__ void end_slab(KeyPipeline *pipe) {\n"
       "  cp_async_commit();\n"
       "  if (SLABS % STAGES != 0)\n"
       "    pipe->slot = pipe->slot + 1 == STAGES ? 0 : pipe->slot + 1;\n"
       "}\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("// A pipeline over the key blocks of a head");
    STRING((warps_k > 1) ? " from `n`" : "");
    TEXT(" down to `block_begin`, whose ring is at the\n"
         "// shared address `ring`. `args` and `pages`: of a sequence; `key_begin`: the first key of a key\n"
         "// block that passes through it.\n"
         "__device__ __forceinline__ KeyPipeline open_ring(const attnpress_fwd_ragged_args *batch,\n"
         "                                                 const attnpress_fwd_args *args, Pages pages,\n"
         "                                                 int kv_head, ");
    STRING((warps_k > 1) ? "int n, " : "");
    TEXT("int block_begin, uint32_t ring,\n"
         "                                                 int key_begin) {\n"
         "  KeyPipeline pipe;\n"
         "  pipe.batch = batch;\n"
         "  pipe.k = (const uint16_t *)args->k + kv_head * args->k_head_stride;\n"
         "  pipe.v = (const uint16_t *)args->v + kv_head * args->v_head_stride;\n"
         "  pipe.pages = pages;\n"
         "  pipe.key_begin = key_begin;\n");
  } else {
    TEXT("// A pipeline over the key blocks of a head from `n` down to `block_begin`, whose ring is at the\n"
         "// shared address `ring`. `key_begin`: the first key of a key block that passes through it.\n"
         "__device__ __forceinline__ KeyPipeline open_ring(const attnpress_fwd_args *args, int64_t batch,\n"
         "                                                 int kv_head, int n, int block_begin, uint32_t ring,\n"
         "                                                 int key_begin) {\n"
         "  const int64_t first_key = (int64_t)n * BLOCK_N + key_begin;\n"
         "  const int64_t k_row = first_key + copy_row(K_SLAB, RING_THREAD);\n"
         "  const int64_t v_row = first_key + copy_row(HEAD_DIM_V, RING_THREAD);\n"
         "  KeyPipeline pipe;\n"
         "  pipe.k = (const uint16_t *)args->k + batch * args->k_batch_stride +\n"
         "           kv_head * args->k_head_stride + k_row * args->k_row_stride +\n"
         "           copy_column(K_SLAB, RING_THREAD);\n"
         "  pipe.v = (const uint16_t *)args->v + batch * args->v_batch_stride +\n"
         "           kv_head * args->v_head_stride + v_row * args->v_row_stride +\n"
         "           copy_column(HEAD_DIM_V, RING_THREAD);\n"
         "  pipe.k_row_stride = args->k_row_stride;\n"
         "  pipe.v_row_stride = args->v_row_stride;\n");
  }
  TEXT("  pipe.seqlen_k = args->seqlen_k - key_begin;\n"
       "  pipe.block_begin = block_begin;\n"
       "  pipe.ring = ring;\n"
       "  pipe.slot = 0;\n");
  if (has_map) {
    TEXT("  pipe.map = nullptr; // the caller's to set\n"
         "  pipe.k_block = pipe.v_block = n;\n");
  }
  TEXT("  return pipe;\n"
       "}\n");
  if (append) {
    TEXT("// ---- The new key ----\n"
         "\n"
         "// A row of K or V that is written on the way.\n"
         "__device__ __forceinline__ const uint16_t *new_row_of(const KeyPipeline *pipe, int which) {\n"
         "  return new_row(&pipe->appending->append, which, pipe->sequence, pipe->kv_head);\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void store_new_row(const KeyPipeline *pipe, int which, int entry,\n"
         "                                              int row, const Rotation *rotation,\n"
         "                                              const RotaryWords *words) {\n"
         "  const attnpress_append_rows *rows = &pipe->appending->append.rows[which];\n"
         "  uint16_t *to = (uint16_t *)rows->to + entry * rows->to_batch + row * rows->to_row +\n"
         "                 pipe->kv_head * rows->to_head + rotary_column(rotation, threadIdx.x % 32);\n"
         "  *(uint32_t *)to = words->word[0];\n"
         "  *(uint32_t *)(to + rotary_apart(rotation, HEAD_DIM)) = words->word[1];\n"
         "}\n"
         "\n"
         "// All threads of a warp; what they copy afterwards is what they wrote. Nothing is written where\n"
         "// there is no place: a page that is not in the cache, or a position without rows of cos and sin.\n"
         "__device__ __forceinline__ void append_rows(KeyPipeline *pipe, bool k, bool v) {\n"
         "  const attnpress_append_write_args *append = &pipe->appending->append;\n"
         "  const int key = pipe->seqlen_k + pipe->key_begin - 1, lane = threadIdx.x % 32;\n"
         "  const Rotation rotation = rotation_at(append, key);\n"
         "  Rotation none = rotation;\n"
         "  none.rotary_dim = 0;\n"
         "  RotaryWords k_words = {{0, 0}, {0, 0}, {0, 0}}, v_words = {{0, 0}, {0, 0}, {0, 0}};\n"
         "  const bool works = lane < HEAD_DIM / 4;\n"
         "  if (works && k)\n"
         "    k_words = load_rotary_words(&rotation, new_row_of(pipe, ATTNPRESS_APPEND_K), HEAD_DIM, lane);\n"
         "  if (works && v)\n"
         "    v_words = load_rotary_words(&none, new_row_of(pipe, ATTNPRESS_APPEND_V), HEAD_DIM, lane);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  // The lane that looked its page up, for the copy, says where it lies.\n"
           "  int entry = pipe->page[0], row = pipe->row_of_page[0];\n"
           "#pragma unroll\n"
           "  for (int i = 1; i < LANE_KEYS; ++i) {\n"
           "    entry = pipe->new_key / 32 == i ? pipe->page[i] : entry;\n"
           "    row = pipe->new_key / 32 == i ? pipe->row_of_page[i] : row;\n"
           "  }\n"
           "  entry = __shfl_sync(0xffffffff, entry, pipe->new_key % 32);\n"
           "  row = __shfl_sync(0xffffffff, row, pipe->new_key % 32);\n");
    } else {
      TEXT("  const int entry = pipe->sequence, row = key;\n");
    }
    TEXT("  if (works && (uint32_t)entry < (uint32_t)append->entries && row < append->entry_rows &&\n"
         "      (append->num_positions == 0 || key < append->num_positions)) {\n"
         "    if (v)\n"
         "      store_new_row(pipe, ATTNPRESS_APPEND_V, entry, row, &none, &v_words);\n"
         "    rotate(DTYPE, &rotation, lane, &k_words);\n"
         "    if (k)\n"
         "      store_new_row(pipe, ATTNPRESS_APPEND_K, entry, row, &rotation, &k_words);\n"
         "  }\n"
         "  // All threads of the warp arrive and wait: hands over the rows.\n"
         "  __syncwarp();\n"
         "}\n"
         "\n");
  }
  if (q_in_regs) {
    TEXT("// Q fragments of a warp's rows, from `q_tile`, which includes this lane's offset.\n"
         "__device__ __forceinline__ void load_query_fragments(\n"
         "    uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4], uint32_t q_tile) {\n"
         "#pragma unroll\n"
         "  for (int k = 0; k < HEAD_DIM; k += 16) {\n"
         "#pragma unroll\n"
         "    for (int m = 0; m < M_TILES; ++m) {\n"
         "      if (k + 16 <= HEAD_DIM)\n"
         "        ldmatrix_x4(q_frag[k / 16][m], q_tile + m * 16 * Q_ROW_BYTES + k * 2);\n"
         "      else\n"
         "        ldmatrix_x2(q_frag[k / 16][m], q_tile + m * 16 * Q_ROW_BYTES + k * 2);\n"
         "    }\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// S = Q K^T of key block `n`: (16 M_TILES rows, 8 S_TILES keys) of this warp, fp32.\n"
       "__device__ __forceinline__ void compute_scores(float score[M_TILES][S_TILES * 4], KeyPipeline *pipe,\n");
  if (q_in_regs) {
    TEXT("                                               const uint32_t q_frag[][M_TILES][4], int n,\n");
  } else {
    TEXT("                                               uint32_t q_tile, int n,\n");
  }
  TEXT("                                               int key_begin, bool masked) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m)\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < S_TILES * 4; ++i)\n"
       "      score[m][i] = 0.0f;\n"
       "\n"
       "#pragma unroll\n"
       "  for (int slab = 0; slab < K_SLABS; ++slab) {\n"
       "    const uint32_t slot = next_slab(pipe, n, slab, masked) + key_begin * K_ROW_BYTES;\n");
  if (warps_k > 1) {
    TEXT("    const int row = lane % 8 + lane / 16 * 8;\n"
         "    const uint32_t k_tile = slot + row * K_ROW_BYTES;\n"
         "    const int k_swizzle = lane / 8 % 2 * 16 ^ swizzle_of_row(K_SLAB, row);\n");
  } else {
    TEXT("    const uint32_t k_tile = slot + ldmatrix_columns_first(lane, K_ROW_BYTES);\n"
         "    const int k_swizzle = 0;\n");
  }
  TEXT("    const int columns = HEAD_DIM - slab * K_SLAB < K_SLAB ? HEAD_DIM - slab * K_SLAB : K_SLAB;\n");
  if (k_unroll) {
    TEXT("    // Unrolled further, the compiler fetches more fragments ahead than registers hold.\n"
         "#pragma unroll ");
    INTEGER(k_unroll);
    TEXT("\n"
         "    for (int column = 0; column + 16 <= columns; column += 16) {\n"
         "      uint32_t a[M_TILES][4];\n"
         "#pragma unroll\n"
         "      for (int m = 0; m < M_TILES; ++m)\n"
         "        ldmatrix_x4(a[m], q_tile + m * 16 * Q_ROW_BYTES + (slab * K_SLAB + column) * 2);\n"
         "#pragma unroll\n"
         "      for (int s = 0; s < S_TILES; s += 2) {\n"
         "        uint32_t b[4];\n"
         "        ldmatrix_x4(b, k_tile + s * 8 * K_ROW_BYTES + (column * 2 ^ k_swizzle));\n"
         "#pragma unroll\n"
         "        for (int m = 0; m < M_TILES; ++m) {\n"
         "          mma_m16n8k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(score[m] + s * 4, a[m], b);\n"
         "          mma_m16n8k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(score[m] + s * 4 + 4, a[m], b + 2);\n"
         "        }\n"
         "      }\n"
         "    }\n");
  } else {
    TEXT("    // Fragments are fetched one pair of key tiles ahead of their use.\n"
         "    constexpr int PAIRS = S_TILES / 2;\n");
    if (!q_in_regs) {
      TEXT("    uint32_t a[2][M_TILES][4];\n");
    }
    TEXT("    uint32_t b[2][4];\n"
         "#pragma unroll\n"
         "    for (int pair = -1; pair < K_SLAB / 16 * PAIRS; ++pair) {\n"
         "      const int next = pair + 1, next_step = next / PAIRS;\n"
         "      if (next_step * 16 + 16 <= columns) {\n");
    if (!q_in_regs) {
      TEXT("        if (next % PAIRS == 0) {\n"
           "#pragma unroll\n"
           "          for (int m = 0; m < M_TILES; ++m)\n"
           "            ldmatrix_x4(a[next_step % 2][m],\n"
           "                        q_tile + m * 16 * Q_ROW_BYTES + (slab * K_SLAB + next_step * 16) * 2);\n"
           "        }\n");
    }
    TEXT("        ldmatrix_x4(b[next % 2], k_tile + next % PAIRS * 16 * K_ROW_BYTES +\n"
         "                                     (next_step * 32 ^ k_swizzle));\n"
         "      }\n"
         "      const int step = pair < 0 ? 0 : pair / PAIRS;\n"
         "      if (pair < 0 || step * 16 + 16 > columns)\n"
         "        continue;\n");
    if (spread) {
      TEXT("      if (pair % PAIRS == 0)\n"
           "        load_ahead(pipe, n, slab, masked, step, K_SLAB / 16);\n");
    }
    TEXT("      const int s = pair % PAIRS * 2;\n"
         "#pragma unroll\n"
         "      for (int m = 0; m < M_TILES; ++m) {\n");
    if (q_in_regs) {
      TEXT("        const uint32_t *a_frag = q_frag[slab * K_SLAB / 16 + step][m];\n");
    } else {
      TEXT("        const uint32_t *a_frag = a[step % 2][m];\n");
    }
    TEXT("        mma_m16n8k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(score[m] + s * 4, a_frag, b[pair % 2]);\n"
         "        mma_m16n8k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(score[m] + s * 4 + 4, a_frag, b[pair % 2] + 2);\n"
         "      }\n"
         "    }\n");
  }
  if ((hdim % 16) != 0) {
    TEXT("    if (slab == K_SLABS - 1) {\n"
         "      // The last 8 columns.\n"
         "      const int k = HEAD_DIM - 8;\n");
    if (warps_k > 1) {
      TEXT("      const uint32_t k_tail = slot + lane % 16 * K_ROW_BYTES +\n"
           "                              ((columns - 8) * 2 ^ swizzle_of_row(K_SLAB, lane % 16));\n");
    } else {
      TEXT("      const uint32_t k_tail = slot + ldmatrix_rows_first(lane, K_ROW_BYTES) + (columns - 8) * 2;\n");
    }
    if (q_in_regs) {
      TEXT("      const uint32_t(*a)[4] = q_frag[k / 16];\n");
    } else {
      TEXT("      uint32_t a[M_TILES][2];\n"
           "#pragma unroll\n"
           "      for (int m = 0; m < M_TILES; ++m)\n"
           "        ldmatrix_x2(a[m], q_tile + m * 16 * Q_ROW_BYTES + k * 2);\n");
    }
    TEXT("#pragma unroll\n"
         "      for (int s = 0; s < S_TILES; s += 2) {\n"
         "        uint32_t b[2];\n"
         "        ldmatrix_x2(b, k_tail + s * 8 * K_ROW_BYTES);\n"
         "#pragma unroll\n"
         "        for (int m = 0; m < M_TILES; ++m) {\n"
         "          mma_m16n8k8_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(score[m] + s * 4, a[m], b);\n"
         "          mma_m16n8k8_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("(score[m] + s * 4 + 4, a[m], b + 1);\n"
         "        }\n"
         "      }\n"
         "    }\n");
  }
  TEXT("    end_slab(pipe);\n"
       "  }\n"
       "}\n"
       "\n");
  if (warps_n > 1) {
    TEXT("// First column of O that the warps `warp_n` compute. Where the columns do not divide, warps\n"
         "// overlap; the first one to compute a column stores it.\n"
         "__device__ __forceinline__ int first_column(int warp_n) {\n"
         "  return min(warp_n * O_TILES * 8, HEAD_DIM_V - O_TILES * 8);\n"
         "}\n"
         "\n");
  }
  TEXT("// Where a warp stands.\n"
       "struct Place {\n"
       "  int first_row; // of this warp, counted over the tile's heads\n"
       "  int first_key; // of a key block\n");
  if ((((alibi || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) || mod_score) || mod_mask) {
    TEXT("  int first_head; // of the tile\n"
         "  int64_t batch;\n");
  }
  if (has_map) {
    TEXT("  const uint32_t *map; // of the row block\n");
  }
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) && (mod_score || mod_mask)) {
    TEXT("  const attnpress_mod_args *mod;\n");
  }
  if (warps_n > 1) {
    TEXT("  int warp_n;\n"
         "  int row;           // this lane's first one in the tile\n"
         "  unsigned char *p;  // P of the tile, (BLOCK_M, BLOCK_N)\n"
         "  uint32_t p_shared; // this warp's rows of it, with this lane's offset\n"
         "  float *exchange;   // (BLOCK_M, WARPS_N)\n");
  }
  TEXT("};\n"
       "\n");
  if (warps_n > 1) {
    TEXT("// Shares a value of each row, held by all lanes of a quad, among the warps of a row, and waits for\n"
         "// all.\n"
         "__device__ __forceinline__ void share_rows(const Place *place, const float value[M_TILES][2]) {\n"
         "  if (threadIdx.x % 4 == 0) {\n"
         "    float *exchange = place->exchange + place->row * WARPS_N + place->warp_n;\n"
         "#pragma unroll\n"
         "    for (int m = 0; m < M_TILES; ++m) {\n"
         "      exchange[m * 16 * WARPS_N] = value[m][0];\n"
         "      exchange[(m * 16 + 8) * WARPS_N] = value[m][1];\n"
         "    }\n"
         "  }\n"
         "  // All threads arrive and wait: hands over `exchange`.\n"
         "  __syncthreads();\n"
         "}\n"
         "\n");
  }
  if ((((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) {
    if (has_map) {
      TEXT("// Modifies the scores of a key block, whose first key for this warp is `first_key`, and takes out\n"
           "// what the snippet's mask takes out; `some`: it is not known to take out nothing. `masked`: the\n"
           "// block may pass the end of the keys.\n");
    } else {
      TEXT("// Modifies the scores of a key block, whose first key for this warp is `first_key`. `masked`: it\n"
           "// may pass the end of the keys.\n");
    }
    TEXT("__device__ __forceinline__ void modify_block(float score[M_TILES][S_TILES * 4], const Place *place,\n"
         "                                             const attnpress_fwd_args *args, int first_key,\n");
    if (has_map) {
      TEXT("                                             bool masked, bool some) {\n");
    } else {
      TEXT("                                             bool masked) {\n");
    }
    if (((alibi || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) {
      TEXT("  const int lane = threadIdx.x % 32;\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int m = 0; m < M_TILES; ++m) {\n");
    if (softcap) {
      TEXT("    cap_scores(score[m], S_TILES, &args->score);\n");
    }
    if (mod_mask) {
      TEXT("    SnippetRow rows[2];\n");
    }
    if (((alibi || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) {
      TEXT("#pragma unroll\n"
           "    for (int half = 0; half < 2; ++half) {\n"
           "      int position, head;\n"
           "      split_row(place->first_row + m * 16 + half * 8 + lane / 4, args->heads_per_tile, &position,\n"
           "                &head);\n");
      if (mod_score || mod_mask) {
        TEXT("      const SnippetRow at =\n"
             "          snippet_row(args, place->batch, place->first_head + head, position);\n");
      } else {
        TEXT("      const ScoreRow row = score_row(args, ALIBI, BIAS, place->batch, place->first_head + head,\n"
             "                                     position);\n");
      }
      if (mod_score) {
        TEXT("      pass_scores(score[m], half, ");
        STRING((sequences == AP_ATTENTION_SEQUENCES_DENSE) ? "snippet_args(args)" : "place->mod");
        TEXT(", args->seqlen_q, args->seqlen_k, at,\n"
             "                  first_key + lane % 4 * 2);\n");
      }
      if (mod_mask) {
        TEXT("      rows[half] = at;\n");
      }
      if (bias != AP_ATTENTION_BIAS_NONE) {
        TEXT("      uint32_t bias[bias_words(BIAS, S_TILES)];\n"
             "      load_bias(bias, BIAS, S_TILES, &args->score, row.bias, first_key + lane % 4 * 2,\n"
             "                args->seqlen_k, !masked);\n"
             "      add_bias(score[m], bias, BIAS, S_TILES, half, args->score.units_per_natural);\n");
      }
      if (alibi) {
        TEXT("      add_alibi(score[m], S_TILES, half, row, first_key + lane % 4 * 2);\n");
      }
      TEXT("    }\n");
    }
    if (has_map) {
      TEXT("    if (some)\n"
           "      mask_by_snippet(score[m], snippet_args(args), args->seqlen_q, args->seqlen_k, rows,\n"
           "                      first_key + lane % 4 * 2);\n");
    } else if (mod_mask) {
      TEXT("    mask_by_snippet(score[m], place->mod, args->seqlen_q, args->seqlen_k, rows,\n"
           "                    first_key + lane % 4 * 2);\n");
    }
    TEXT("  }\n"
         "}\n"
         "\n");
  }
  TEXT("// Masks the scores of a key block. `first_row` is this warp's first row, counted over the tile's\n"
       "// heads, and `first_key` its first key.\n"
       "__device__ __forceinline__ void mask_block(float score[M_TILES][S_TILES * 4],\n"
       "                                           const attnpress_fwd_args *args, int first_row,\n"
       "                                           int first_key) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      int position, head;\n"
       "      split_row(first_row + m * 16 + half * 8 + lane / 4, args->heads_per_tile, &position, &head);\n"
       "      mask_scores(score[m], S_TILES, half, find_row(args, position), first_key + lane % 4 * 2);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n");
  if (dropout) {
    TEXT("// Drops probabilities of a key block, whose first key for this warp is `first_key`.\n"
         "__device__ __forceinline__ void drop_block(float score[M_TILES][S_TILES * 4], const Place *place,\n"
         "                                           const attnpress_fwd_args *args, int first_key) {\n"
         "  const DropoutHead of_head =\n"
         "      dropout_head(&args->score, place->batch * args->heads_q + place->first_head);\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < M_TILES; ++m)\n"
         "    drop_probabilities(score[m], S_TILES, &of_head, place->first_row + m * 16, first_key,\n"
         "                       threadIdx.x % 32, args->score.dropout_threshold);\n"
         "}\n"
         "\n");
  }
  TEXT("// Makes P of the scores, with the row maxima as references, and scales O and the row sums to them.\n"
       "__device__ __forceinline__ void online_softmax(float score[M_TILES][S_TILES * 4],\n"
       "                                               float out[M_TILES][O_TILES * 4],\n"
       "                                               float row_max[M_TILES][2], float row_sum[M_TILES][2],\n");
  if (warps_n > 1) {
    TEXT("                                               const Place *place,\n");
  }
  TEXT("                                               float scale_log2, bool masked) {\n");
  if (warps_n > 1) {
    TEXT("  float maximum[M_TILES][2];\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < M_TILES; ++m) {\n"
         "    maximum[m][0] = row_maximum(score[m], S_TILES, 0, row_max[m][0]);\n"
         "    maximum[m][1] = row_maximum(score[m], S_TILES, 1, row_max[m][1]);\n"
         "  }\n"
         "  share_rows(place, maximum);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n");
  if (warps_n > 1) {
    TEXT("      float x = maximum[m][half];\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < WARPS_N; ++i)\n"
         "        x = fmaxf(x, place->exchange[(place->row + m * 16 + half * 8) * WARPS_N + i]);\n");
  } else {
    TEXT("      const float x = row_maximum(score[m], S_TILES, half, row_max[m][half]);\n");
  }
  TEXT("      const float rescale = take_row(score[m], S_TILES, half, x, &row_max[m][half],\n"
       "                                     &row_sum[m][half], scale_log2, masked);\n"
       "      rescale_row(out[m], O_TILES, half, rescale);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n");
  if (warps_n > 1) {
    TEXT("// Rounds P and puts it into shared memory, for all warps of these rows. The barrier of the next\n"
         "// slab hands it over; the barrier of the next key block's first slab frees it.\n"
         "__device__ __forceinline__ void store_probabilities(const Place *place,\n"
         "                                                    const float score[M_TILES][S_TILES * 4]) {\n"
         "  unsigned char *p_row =\n"
         "      place->p + place->row * P_ROW_BYTES + (place->first_key + threadIdx.x % 4 * 2) * 2;\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < M_TILES; ++m) {\n"
         "#pragma unroll\n"
         "    for (int s = 0; s < S_TILES; ++s) {\n"
         "#pragma unroll\n"
         "      for (int half = 0; half < 2; ++half)\n"
         "        *(uint32_t *)(p_row + (m * 16 + half * 8) * P_ROW_BYTES + s * 16) =\n"
         "            pack(DTYPE, score[m][s * 4 + half * 2], score[m][s * 4 + half * 2 + 1]);\n"
         "    }\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// O += P V of key block `n`: (16 M_TILES rows, 8 O_TILES columns) of this warp, fp32.\n"
       "__device__ __forceinline__ void accumulate_output(float out[M_TILES][O_TILES * 4],\n"
       "                                                  KeyPipeline *pipe,\n");
  if (warps_n > 1) {
    TEXT("                                                  const Place *place,\n");
  } else {
    TEXT("                                                  const uint32_t p_frag[M_TILES][S_TILES * 2],\n");
  }
  TEXT("                                                  int n, bool masked) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int slab = 0; slab < V_SLABS; ++slab) {\n");
  if (warps_n > 1) {
    TEXT("    const uint32_t slot =\n"
         "        next_slab(pipe, n, K_SLABS + slab, masked) + first_column(place->warp_n) * 2;\n");
  } else {
    TEXT("    const uint32_t slot = next_slab(pipe, n, K_SLABS + slab, masked);\n");
  }
  if (warps_k > 1) {
    TEXT("    const uint32_t v_tile = slot + lane % 16 * V_ROW_BYTES;\n"
         "    const int v_swizzle = lane / 16 * 16 ^ swizzle_of_row(HEAD_DIM_V, lane % 16);\n");
  } else {
    TEXT("    const uint32_t v_tile = slot + ldmatrix_rows_first(lane, V_ROW_BYTES);\n"
         "    const int v_swizzle = 0;\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int key = 0; key < V_SLAB; key += 16) {\n");
  if (spread) {
    TEXT("      load_ahead(pipe, n, K_SLABS + slab, masked, key / 16, V_SLAB / 16);\n");
  }
  if (warps_n > 1) {
    TEXT("      uint32_t a[M_TILES][4];\n"
         "#pragma unroll\n"
         "      for (int m = 0; m < M_TILES; ++m)\n"
         "        ldmatrix_x4(a[m], place->p_shared + m * 16 * P_ROW_BYTES + (slab * V_SLAB + key) * 2);\n");
  }
  TEXT("#pragma unroll\n"
       "      for (int o = 0; o + 1 < O_TILES; o += 2) {\n"
       "        uint32_t b[4];\n"
       "        ldmatrix_x4_trans(b, v_tile + key * V_ROW_BYTES + (o * 16 ^ v_swizzle));\n"
       "#pragma unroll\n"
       "        for (int m = 0; m < M_TILES; ++m) {\n"
       "          mma_m16n8k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("(out[m] + o * 4, ");
  STRING((warps_n > 1) ? "a[m]" : "p_frag[m] + (slab * V_SLAB + key) / 4");
  TEXT(", b);\n"
       "          mma_m16n8k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("(out[m] + o * 4 + 4, ");
  STRING((warps_n > 1) ? "a[m]" : "p_frag[m] + (slab * V_SLAB + key) / 4");
  TEXT(", b + 2);\n"
       "        }\n"
       "      }\n"
       "      if (O_TILES % 2 != 0) {\n"
       "        uint32_t b[2];\n"
       "        ldmatrix_x2_trans(b, v_tile + key * V_ROW_BYTES + ((O_TILES - 1) * 16 ^ v_swizzle));\n"
       "#pragma unroll\n"
       "        for (int m = 0; m < M_TILES; ++m)\n"
       "          mma_m16n8k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("(out[m] + (O_TILES - 1) * 4, ");
  STRING((warps_n > 1) ? "a[m]" : "p_frag[m] + (slab * V_SLAB + key) / 4");
  TEXT(", b);\n"
       "      }\n"
       "    }\n"
       "    end_slab(pipe);\n"
       "  }\n"
       "}\n"
       "\n");
  if ((warps_n == 1) && (warps_k == 1)) {
    TEXT("// A thread's row sums to and from their place: thread t's is the padding behind row t of Q.\n"
         "__device__ __forceinline__ void park_row_sums(unsigned char *smem,\n"
         "                                              const float row_sum[M_TILES][2]) {\n"
         "  const int last = M_TILES - 1;\n"
         "  if (PARKS_SUMS)\n"
         "    *(float4 *)(smem + read_thread_index() * Q_ROW_BYTES + HEAD_DIM * 2) = {\n"
         "        row_sum[0][0], row_sum[0][1], row_sum[last][0], row_sum[last][1]};\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void fetch_row_sums(const unsigned char *smem,\n"
         "                                               float row_sum[M_TILES][2]) {\n"
         "  const int last = M_TILES - 1;\n"
         "  if (PARKS_SUMS) {\n"
         "    const float4 sums = *(const float4 *)(smem + read_thread_index() * Q_ROW_BYTES + HEAD_DIM * 2);\n"
         "    row_sum[0][0] = sums.x;\n"
         "    row_sum[0][1] = sums.y;\n"
         "    row_sum[last][0] = sums.z;\n"
         "    row_sum[last][1] = sums.w;\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// Takes key block `n` in: S = Q K^T, masked where `masked`, P = softmax, O += P V.\n"
       "__device__ __forceinline__ void attend(float out[M_TILES][O_TILES * 4], float row_max[M_TILES][2],\n"
       "                                       float row_sum[M_TILES][2], KeyPipeline *pipe,\n");
  if (q_in_regs) {
    TEXT("                                       const uint32_t q_frag[][M_TILES][4],\n");
  } else {
    TEXT("                                       uint32_t q_tile,\n");
  }
  TEXT("                                       const Place *place, const attnpress_fwd_args *args,\n"
       "                                       unsigned char *smem, int n, bool masked) {\n"
       "  float score[M_TILES][S_TILES * 4];\n"
       "  compute_scores(score, pipe, ");
  STRING(q_in_regs ? "q_frag" : "q_tile");
  TEXT(", n, ");
  STRING((warps_n > 1) ? "place->first_key" : "0");
  TEXT(", masked);\n");
  if (has_map) {
    TEXT("  modify_block(score, place, args, n * BLOCK_N + place->first_key, masked,\n"
         "               tile_state(place->map, n) != ALL_SCORES);\n");
  } else if ((((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) {
    TEXT("  modify_block(score, place, args, n * BLOCK_N + place->first_key, masked);\n");
  }
  TEXT("  if (masked)\n"
       "    mask_block(score, args, place->first_row, n * BLOCK_N + place->first_key);\n");
  if (warps_n > 1) {
    TEXT("  online_softmax(score, out, row_max, row_sum, place, args->scale_log2, ");
    STRING(((((mask == AP_ATTENTION_MASK_WINDOW) || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) ? "true" : "masked");
    TEXT(");\n");
    if (dropout) {
      TEXT("  drop_block(score, place, args, n * BLOCK_N + place->first_key);\n");
    }
    TEXT("  store_probabilities(place, score);\n"
         "  accumulate_output(out, pipe, place, n, masked);\n");
  } else {
    if (warps_k == 1) {
      TEXT("  fetch_row_sums(smem, row_sum);\n");
    }
    TEXT("  online_softmax(score, out, row_max, row_sum, args->scale_log2, ");
    STRING(((((mask == AP_ATTENTION_MASK_WINDOW) || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) ? "true" : "masked");
    TEXT(");\n");
    if (warps_k == 1) {
      TEXT("  park_row_sums(smem, row_sum);\n");
    }
    if (dropout) {
      TEXT("  drop_block(score, place, args, n * BLOCK_N + place->first_key);\n");
    }
    TEXT("  uint32_t p_frag[M_TILES][S_TILES * 2];\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < M_TILES; ++m)\n"
         "    round_probabilities(p_frag[m], score[m], S_TILES, DTYPE);\n"
         "  accumulate_output(out, pipe, p_frag, n, masked);\n");
  }
  TEXT("}\n"
       "\n"
       "// A warp's rows before their first key block.\n"
       "__device__ __forceinline__ void start_rows(float out[M_TILES][O_TILES * 4],\n"
       "                                           float row_max[M_TILES][2], float row_sum[M_TILES][2],\n"
       "                                           unsigned char *smem) {\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n"
       "    row_max[m][0] = row_max[m][1] = -INF;\n"
       "    row_sum[m][0] = row_sum[m][1] = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < O_TILES * 4; ++i)\n"
       "      out[m][i] = 0.0f;\n"
       "  }\n");
  if ((warps_n == 1) && (warps_k == 1)) {
    TEXT("  park_row_sums(smem, row_sum);\n");
  }
  TEXT("}\n"
       "\n"
       "// After the last one: row sums over the lanes of a quad");
  if (warps_n > 1) {
    TEXT(", then over the warps of a row");
  }
  TEXT(".\n"
       "__device__ __forceinline__ void finish_rows(float row_sum[M_TILES][2], const Place *place,\n"
       "                                            const unsigned char *smem) {\n");
  if ((warps_n == 1) && (warps_k == 1)) {
    TEXT("  fetch_row_sums(smem, row_sum);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n"
       "    row_sum[m][0] = quad_sum(row_sum[m][0]);\n"
       "    row_sum[m][1] = quad_sum(row_sum[m][1]);\n"
       "  }\n");
  if (warps_n > 1) {
    TEXT("  share_rows(place, row_sum);\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < M_TILES; ++m) {\n"
         "#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half) {\n"
         "      row_sum[m][half] = 0.0f;\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < WARPS_N; ++i)\n"
         "        row_sum[m][half] += place->exchange[(place->row + m * 16 + half * 8) * WARPS_N + i];\n"
         "    }\n"
         "  }\n");
  }
  TEXT("}\n");
  if (decode && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("// Passes of the copy of a tile of Q, and the offset of what this thread copies in each. Its rows\n"
         "// count heads first: row r is position r / heads of head r % heads.\n"
         "constexpr int QUERY_PASSES = ceil_div(BLOCK_M * (HEAD_DIM / 8), NUM_THREADS);\n"
         "\n"
         "__device__ __forceinline__ void find_queries(int64_t offsets[QUERY_PASSES],\n"
         "                                             const attnpress_fwd_args *args, int row_begin) {\n"
         "  const int chunks = HEAD_DIM / 8;\n"
         "#pragma unroll\n"
         "  for (int pass = 0; pass < QUERY_PASSES; ++pass) {\n"
         "    const int index = pass * NUM_THREADS + threadIdx.x;\n"
         "    const int row = index / chunks, chunk = index % chunks;\n"
         "    int position, head;\n"
         "    split_row(row_begin + row, args->heads_per_tile, &position, &head);\n"
         "    offsets[pass] = position * args->q_row_stride + head * args->q_head_stride + chunk * 8;\n"
         "  }\n"
         "}\n"
         "\n"
         "// Starts that copy. Rows past the end become zeros.\n"
         "__device__ __forceinline__ void load_found_queries(uint32_t shared, const uint16_t *q,\n"
         "                                                   const int64_t offsets[QUERY_PASSES],\n"
         "                                                   int row_begin, int rows) {\n"
         "  const int chunks = HEAD_DIM / 8;\n"
         "#pragma unroll\n"
         "  for (int pass = 0; pass < QUERY_PASSES; ++pass) {\n"
         "    const int index = pass * NUM_THREADS + threadIdx.x;\n"
         "    const int row = index / chunks, chunk = index % chunks;\n"
         "    if ((pass + 1) * NUM_THREADS <= BLOCK_M * chunks || index < BLOCK_M * chunks)\n"
         "      cp_async_16(shared + row * Q_ROW_BYTES + chunk * 16, q + offsets[pass],\n"
         "                  row_begin + row < rows ? 16 : 0);\n"
         "  }\n"
         "}\n"
         "\n");
  } else {
    TEXT("// Starts the copy of a tile of Q. Its rows count heads first: row r is position r / heads of head\n"
         "// r % heads. Rows past the end become zeros.\n"
         "__device__ __forceinline__ void load_queries(uint32_t shared, const uint16_t *q,\n"
         "                                             const attnpress_fwd_args *args, int row_begin,\n"
         "                                             int rows) {\n");
    if (!decode && !split) {
      TEXT("  if (args->heads_per_tile == 1) {\n"
           "    const int row = row_begin + copy_row(HEAD_DIM, threadIdx.x);\n"
           "    copy_rows_async(shared, Q_ROW_BYTES,\n"
           "                    q + row * args->q_row_stride + copy_column(HEAD_DIM, threadIdx.x),\n"
           "                    args->q_row_stride, BLOCK_M, HEAD_DIM, rows - row_begin, 0,\n"
           "                    copy_passes(BLOCK_M, HEAD_DIM, NUM_THREADS), threadIdx.x, NUM_THREADS);\n"
           "    return;\n"
           "  }\n");
    }
    TEXT("  const int chunks = HEAD_DIM / 8;\n"
         "#pragma unroll ");
    INTEGER((decode || split) ? 2 : 1);
    TEXT("\n"
         "  for (int first = 0; first < BLOCK_M * chunks; first += NUM_THREADS) {\n"
         "    const int index = first + threadIdx.x;\n"
         "    const int row = index / chunks, chunk = index % chunks;\n"
         "    int position, head;\n"
         "    split_row(row_begin + row, args->heads_per_tile, &position, &head);\n"
         "    if (first + NUM_THREADS <= BLOCK_M * chunks || index < BLOCK_M * chunks)\n"
         "      cp_async_16(shared + row * Q_ROW_BYTES + chunk * 16,\n"
         "                  q + position * args->q_row_stride + head * args->q_head_stride + chunk * 8,\n"
         "                  row_begin + row < rows ? 16 : 0);\n"
         "  }\n"
         "}\n");
  }
  if (warps_k == 1) {
    TEXT("// out = O / row sum, lse = scale * row maximum + log(row sum). Rows without keys: 0 and -inf.\n"
         "__device__ __forceinline__ void store_output(const float out[M_TILES][O_TILES * 4],\n"
         "                                             const float row_max[M_TILES][2],\n"
         "                                             const float row_sum[M_TILES][2],\n");
    if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
      TEXT("                                             const attnpress_fwd_ragged_args *batch,\n");
      if (split && !decode) {
        TEXT("                                             bool adds,\n");
      }
      TEXT("                                             unsigned char *smem) {\n"
           "  // Found anew rather than kept in registers over the loops.\n"
           "  const Work work = find_work(&batch->fwd, read_block_index());\n"
           "  const attnpress_fwd_args sequence =\n"
           "      args_of_sequence(batch, work.batch);\n"
           "  const attnpress_fwd_args *args = &sequence;\n");
    } else {
      TEXT("                                             const attnpress_fwd_args *args, unsigned char *smem) {\n"
           "  // Found anew rather than kept in registers over the loops.\n"
           "  const Work work = find_work(args, read_block_index());\n");
    }
    TEXT("  const int thread = read_thread_index();\n"
         "  const int heads = args->heads_per_tile;\n"
         "  const int rows = args->seqlen_q * heads;\n"
         "  const int lane = thread % 32;\n"
         "  const int warp_row = thread / 32 % WARPS_M * M_TILES * 16;\n");
    if (warps_n > 1) {
      TEXT("  const int warp_n = thread / 32 / WARPS_M;\n"
           "  const int warp_columns = first_column(warp_n);\n");
    } else {
      TEXT("  const int warp_n = 0, warp_columns = 0;\n");
    }
    if ((hdim_v % (8 * warps_n)) != 0) {
      TEXT("  const int first_o_tile = warp_n * O_TILES - warp_columns / 8; // not stored by another warp\n");
    } else {
      TEXT("  const int first_o_tile = 0;\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int m = 0; m < M_TILES; ++m) {\n"
         "#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half) {\n"
         "      const int row = warp_row + m * 16 + half * 8 + lane / 4; // in the tile\n"
         "      int position, head;\n"
         "      split_row(work.row_begin + row, heads, &position, &head);\n"
         "      head += work.first_head;\n"
         "      const RowEnd end = end_row(row_max[m][half] * args->scale_log2, row_sum[m][half],\n"
         "                                 &args->score, args->heads_q, head, DROPOUT, SPLIT);\n"
         "      const bool valid = work.row_begin + row < rows;\n"
         "      const bool writes_lse = valid && lane % 4 == 0 && warp_n == 0;\n");
    if (split) {
      TEXT("      const int64_t partial = partial_row(");
      STRING((sequences == AP_ATTENTION_SEQUENCES_DENSE) ? "args" : "&batch->fwd");
      TEXT(", work.split, work.batch, head, position);\n");
      if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) && !decode) {
        TEXT("      // Behind other splits that this thread block has computed it is added to them. Each warp that\n"
             "      // has some of the row's columns keeps an lse of its own; the first one's is the row's.\n"
             "      const bool keeps_lse = valid && lane % 4 == 0;\n"
             "      float *lse = args->lse_partial + partial + warp_n * partial_rows(&batch->fwd);\n"
             "      float lse_before = -INF;\n"
             "      if (adds && keeps_lse)\n"
             "        lse_before = *lse;\n"
             "      const PartSum sum = add_part(__shfl_sync(0xffffffff, lse_before, lane / 4 * 4), end.lse);\n"
             "      if (batch->ragged.fixed_split_blocks > 0 && args->num_splits == 1 ? keeps_lse : writes_lse)\n"
             "        *lse = sum.lse;\n"
             "      float *out_row = args->out_partial + partial * HEAD_DIM_V + warp_columns + lane % 4 * 2;\n"
             "      if (adds)\n"
             "        add_partial_row(out_row, out[m], first_o_tile, O_TILES, half, end.normalize, sum, valid);\n"
             "      else\n"
             "        store_partial_row(out_row, out[m], first_o_tile, O_TILES, half, end.normalize, valid);\n");
      } else {
        TEXT("      if (writes_lse)\n"
             "        args->lse_partial[partial] = end.lse;\n"
             "      float *out_row = args->out_partial + partial * HEAD_DIM_V + warp_columns + lane % 4 * 2;\n"
             "      store_partial_row(out_row, out[m], first_o_tile, O_TILES, half, end.normalize, valid);\n");
      }
    } else {
      TEXT("      if (args->lse && writes_lse)\n");
      if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
        TEXT("        store_lse(batch, args, head, position, end.lse);\n");
      } else {
        TEXT("        args->lse[lse_offset(args, work.batch, head, position)] = end.lse;\n");
      }
      TEXT("      unsigned char *out_row = smem + row * O_ROW_BYTES + (warp_columns + lane % 4 * 2) * 2;\n"
           "#pragma unroll\n"
           "      for (int o = 0; o < O_TILES; ++o) {\n"
           "        if (o >= first_o_tile)\n"
           "          *(uint32_t *)(out_row + o * 16) = pack(DTYPE, out[m][o * 4 + half * 2] * end.normalize,\n"
           "                                                 out[m][o * 4 + half * 2 + 1] * end.normalize);\n"
           "      }\n");
    }
    TEXT("    }\n"
         "  }\n");
    if (!split) {
      TEXT("  // All threads arrive and wait: hands over the tile of O, which leaves in chunks of 16 bytes.\n"
           "  __syncthreads();\n"
           "  uint16_t *out_global = (uint16_t *)args->out + work.batch * args->out_batch_stride +\n"
           "                         work.first_head * args->out_head_stride;\n");
      if (!decode) {
        TEXT("  if (heads == 1) {\n"
             "    const int row = copy_row(HEAD_DIM_V, thread), column = copy_column(HEAD_DIM_V, thread);\n"
             "    const int pass_rows = NUM_THREADS / (HEAD_DIM_V / 8);\n"
             "    const unsigned char *source = smem + row * O_ROW_BYTES + column * 2;\n"
             "    uint16_t *target = out_global + (work.row_begin + row) * args->out_row_stride + column;\n"
             "    const int end = row < pass_rows ? min(BLOCK_M, rows - work.row_begin) : 0;\n"
             "#pragma unroll 4\n"
             "    for (int pass = 0; pass < copy_passes(BLOCK_M, HEAD_DIM_V, NUM_THREADS); ++pass) {\n"
             "      if (pass * pass_rows + row < end)\n"
             "        *(uint4 *)target = *(const uint4 *)(source + pass * pass_rows * O_ROW_BYTES);\n"
             "      target += pass_rows * args->out_row_stride;\n"
             "    }\n"
             "    return;\n"
             "  }\n");
      }
      TEXT("  const int chunks = HEAD_DIM_V / 8;\n"
           "#pragma unroll ");
      INTEGER(decode ? 2 : 1);
      TEXT("\n"
           "  for (int first = 0; first < BLOCK_M * chunks; first += NUM_THREADS) {\n"
           "    const int index = first + thread;\n"
           "    const int row = index / chunks, chunk = index % chunks;\n"
           "    int position, head;\n"
           "    split_row(work.row_begin + row, heads, &position, &head);\n"
           "    if ((first + NUM_THREADS <= BLOCK_M * chunks || row < BLOCK_M) && work.row_begin + row < rows)\n"
           "      *(uint4 *)(out_global + position * args->out_row_stride + head * args->out_head_stride +\n"
           "                 chunk * 8) = *(const uint4 *)(smem + row * O_ROW_BYTES + chunk * 16);\n"
           "  }\n");
    }
    TEXT("}\n");
  }
  if (continues) {
    TEXT("// ---- What comes next ----\n"
         "\n"
         "__device__ __forceinline__ void load_next_part(KeyPipeline *pipe) {\n"
         "  const attnpress_fwd_ragged_args *batch = &pipe->given->batch;\n"
         "  Part part;\n"
         "  do\n"
         "    part = next_part(pipe->given, &pipe->walk);\n"
         "  while (part.sequence >= 0 && part.blocks.begin >= part.blocks.end); // it has no keys\n"
         "  pipe->n = part.blocks.end - 1;\n"
         "  pipe->block_begin = part.blocks.begin;\n"
         "  if (part.sequence < 0)\n"
         "    return;\n"
         "  const SequenceRows rows = rows_of_part(batch, &part, has_key_count_alone(&batch->ragged));\n"
         "  pipe->seqlen_k = part.keys - pipe->key_begin;\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  pipe->pages = pages_of_rows(&batch->ragged, part.sequence, &rows, part.keys);\n");
    } else {
      TEXT("  const attnpress_fwd_args *fwd = &batch->fwd;\n"
           "  const int64_t first_row = rows.keys.begin + (int64_t)pipe->n * BLOCK_N + pipe->key_begin;\n"
           "  const int64_t from = max(rows.k_batch, 0);\n"
           "  pipe->k = (const uint16_t *)fwd->k + from * fwd->k_batch_stride +\n"
           "            pipe->kv_head * fwd->k_head_stride +\n"
           "            (first_row + copy_row(K_SLAB, RING_THREAD)) * fwd->k_row_stride +\n"
           "            copy_column(K_SLAB, RING_THREAD);\n"
           "  pipe->v = (const uint16_t *)fwd->v + from * fwd->v_batch_stride +\n"
           "            pipe->kv_head * fwd->v_head_stride +\n"
           "            (first_row + copy_row(HEAD_DIM_V, RING_THREAD)) * fwd->v_row_stride +\n"
           "            copy_column(HEAD_DIM_V, RING_THREAD);\n");
    }
    if (append) {
      TEXT("  const int new_key = (part.keys - 1) % BLOCK_N - pipe->key_begin;\n"
           "  const bool ends = part.blocks.end == ceil_div(part.keys, BLOCK_N);\n"
           "  pipe->sequence = part.sequence;\n"
           "  pipe->new_key = ends && 0 <= new_key && new_key < RING_KEYS ? new_key : -1;\n");
    }
    TEXT("}\n"
         "\n"
         "// The keys of a run on their way through a warp's ring, whose loads are as far ahead as it has\n"
         "// slots.\n"
         "__device__ __forceinline__ KeyPipeline open_ring_of_run(const attnpress_fwd_runs_args *given,\n");
    if (append) {
      TEXT("                                                        const attnpress_fwd_runs_append_args *more,\n");
    }
    TEXT("                                                        Walk walk, int kv_head, uint32_t ring,\n"
         "                                                        int key_begin) {\n"
         "  const attnpress_fwd_args *fwd = &given->batch.fwd;\n"
         "  KeyPipeline pipe;\n"
         "  pipe.given = given;\n");
    if (append) {
      TEXT("  pipe.appending = more;\n"
           "  pipe.new_key = -1;\n"
           "  pipe.kv_head = kv_head;\n");
    }
    TEXT("  pipe.walk = walk;\n"
         "  pipe.key_begin = key_begin;\n"
         "  pipe.ring = ring;\n"
         "  pipe.slot = 0;\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  pipe.batch = &given->batch;\n"
           "  pipe.k = (const uint16_t *)fwd->k + kv_head * fwd->k_head_stride;\n"
           "  pipe.v = (const uint16_t *)fwd->v + kv_head * fwd->v_head_stride;\n"
           "  pipe.pages = {nullptr, 0, 0};\n");
    } else {
      if (!append) {
        TEXT("  pipe.kv_head = kv_head;\n");
      }
      TEXT("  pipe.k_row_stride = fwd->k_row_stride;\n"
           "  pipe.v_row_stride = fwd->v_row_stride;\n");
    }
    TEXT("  load_next_part(&pipe);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  if (pipe.n >= pipe.block_begin)\n"
           "    ask_for_pages(&pipe, pipe.n, 0);\n");
    }
    TEXT("  fill_ring(&pipe, 0, 0);\n"
         "  return pipe;\n"
         "}\n"
         "\n");
    if (append) {
      TEXT("// ---- Q, rotated ----\n"
           "\n"
           "// Rows of Q of the part in work; those that it does not have are zeros.\n"
           "__shared__ __align__(16) unsigned char q_rows[BLOCK_M * Q_ROW_BYTES];\n"
           "\n"
           "constexpr int QUERY_WORDS = ceil_div(BLOCK_M * (HEAD_DIM / 4), NUM_THREADS); // pairs, of a thread\n"
           "\n"
           "// This thread's words of a part's Q.\n"
           "__device__ __forceinline__ void load_query_words(RotaryWords words[QUERY_WORDS],\n"
           "                                                 const attnpress_fwd_runs_append_args *given,\n"
           "                                                 const Part *part, int first_head, int rows) {\n"
           "  const attnpress_fwd_args *fwd = &given->runs.batch.fwd;\n"
           "  const Rotation rotation = rotation_at(&given->append, part->keys - 1);\n"
           "  const uint16_t *q = (const uint16_t *)fwd->q + part->sequence * fwd->q_batch_stride +\n"
           "                      first_head * fwd->q_head_stride;\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < QUERY_WORDS; ++i) {\n"
           "    const int index = (int)threadIdx.x + i * NUM_THREADS, row = index / (HEAD_DIM / 4);\n"
           "    if (row < rows)\n"
           "      words[i] = load_rotary_words(&rotation, q + row * fwd->q_head_stride, HEAD_DIM,\n"
           "                                   index % (HEAD_DIM / 4));\n"
           "  }\n"
           "}\n"
           "\n"
           "// Rotates them, and stores them to q_rows, which nobody reads any more.\n"
           "__device__ __forceinline__ void store_query_words(RotaryWords words[QUERY_WORDS],\n"
           "                                                  const attnpress_fwd_runs_append_args *given,\n"
           "                                                  const Part *part, int rows) {\n"
           "  const Rotation rotation = rotation_at(&given->append, part->keys - 1);\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < QUERY_WORDS; ++i) {\n"
           "    const int index = (int)threadIdx.x + i * NUM_THREADS, row = index / (HEAD_DIM / 4);\n"
           "    const int number = index % (HEAD_DIM / 4);\n"
           "    if (row >= rows)\n"
           "      continue;\n"
           "    rotate(DTYPE, &rotation, number, &words[i]);\n"
           "    unsigned char *to = q_rows + row * Q_ROW_BYTES + rotary_column(&rotation, number) * 2;\n"
           "    *(uint32_t *)to = words[i].word[0];\n"
           "    *(uint32_t *)(to + rotary_apart(&rotation, HEAD_DIM) * 2) = words[i].word[1];\n"
           "  }\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ void\n"
           "load_query_tile(uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4]) {\n"
           "  const uint32_t tile = shared_address(q_rows) +\n"
           "                        ldmatrix_rows_first(threadIdx.x % 32, Q_ROW_BYTES);\n"
           "#pragma unroll\n"
           "  for (int m = 0; m < M_TILES; ++m)\n"
           "#pragma unroll\n"
           "    for (int k = 0; k < HEAD_DIM / 16; ++k)\n"
           "      ldmatrix_x4(q_frag[k][m], tile + m * 16 * Q_ROW_BYTES + k * 32);\n"
           "}\n"
           "\n");
    } else {
      TEXT("// Where this lane's rows of Q lie, and their fragments. Rows past the end are zeros.\n"
           "__device__ __forceinline__ void find_query_rows(int64_t offsets[M_TILES][2],\n"
           "                                                const attnpress_fwd_args *args, int row_begin) {\n"
           "  const int lane = threadIdx.x % 32;\n"
           "#pragma unroll\n"
           "  for (int m = 0; m < M_TILES; ++m) {\n"
           "#pragma unroll\n"
           "    for (int half = 0; half < 2; ++half) {\n"
           "      int position, head;\n"
           "      split_row(row_begin + m * 16 + half * 8 + lane / 4, args->heads_per_tile, &position, &head);\n"
           "      offsets[m][half] =\n"
           "          position * args->q_row_stride + head * args->q_head_stride + lane % 4 * 2;\n"
           "    }\n"
           "  }\n"
           "}\n"
           "\n"
           "// Has those rows of another sequence brought to the L2 cache.\n"
           "__device__ __forceinline__ void fetch_query_rows(const uint16_t *q,\n"
           "                                                 const int64_t offsets[M_TILES][2], int rows) {\n"
           "  const int lane = threadIdx.x % 32, line_columns = 64; // 128 bytes\n"
           "#pragma unroll\n"
           "  for (int m = 0; m < M_TILES; ++m)\n"
           "#pragma unroll\n"
           "    for (int half = 0; half < 2; ++half)\n"
           "      if (m * 16 + half * 8 + lane / 4 < rows && lane % 4 * line_columns < HEAD_DIM)\n"
           "        prefetch_l2(q + offsets[m][half] + lane % 4 * line_columns);\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ void\n"
           "load_query_rows(uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4], const uint16_t *q,\n"
           "                const int64_t offsets[M_TILES][2], int rows) {\n"
           "  const int lane = threadIdx.x % 32;\n"
           "#pragma unroll\n"
           "  for (int m = 0; m < M_TILES; ++m) {\n"
           "#pragma unroll\n"
           "    for (int half = 0; half < 2; ++half) {\n"
           "      const bool there = m * 16 + half * 8 + lane / 4 < rows;\n"
           "#pragma unroll\n"
           "      for (int k = 0; k < HEAD_DIM / 16; ++k) {\n"
           "        const uint16_t *from = q + offsets[m][half] + k * 16;\n"
           "        q_frag[k][m][half] = there ? *(const uint32_t *)from : 0;\n"
           "        q_frag[k][m][half + 2] = there ? *(const uint32_t *)(from + 8) : 0;\n"
           "      }\n"
           "    }\n"
           "  }\n"
           "}\n"
           "\n");
    }
  }
  if (adds) {
    TEXT("// ---- What comes next, or first ----\n"
         "\n"
         "constexpr int BLOCKS_AHEAD = ceil_div(STAGES - 1, SLABS); // key blocks that a full ring has ahead\n"
         "\n"
         "constexpr int AHEAD_KEYS = ceil_div(RING_KEYS, 32); // of a key block, that a lane asks for\n"
         "\n"
         "// The first key blocks of a part, on their way to the L2 cache.\n"
         "struct Ahead {\n"
         "  int sequence, keys;\n"
         "  Range blocks;            // none where there is nothing to be asked for\n"
         "  int page[AHEAD_KEYS][2]; // of this lane's keys, of K and V\n"
         "  int row[AHEAD_KEYS];     // those keys, or their rows in the page\n"
         "};\n"
         "\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("// A number of the page table; `guess`: what ran before may yet write it.\n"
           "__device__ __forceinline__ int page_number(const int32_t *entry, bool guess) {\n"
           "  return guess ? (int)load_relaxed((const uint32_t *)entry) : *entry;\n"
           "}\n"
           "\n");
    }
    TEXT("// Asks for the pages of this lane's keys of a key block. Lanes share out the keys of a warp.\n"
         "__device__ __forceinline__ void find_ahead(Ahead *ahead, const attnpress_fwd_ragged_args *batch,\n"
         "                                           int first_key, int block, bool guess) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < AHEAD_KEYS; ++i) {\n"
         "    const int of_warp = i * 32 + (int)threadIdx.x % min_int(RING_KEYS, 32);\n"
         "    const int key = min(block * BLOCK_N + first_key + of_warp, ahead->keys - 1);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("    const attnpress_ragged_args *ragged = &batch->ragged;\n"
           "    const Pages pages = {ragged->page_table + ahead->sequence * ragged->page_table_stride, 0,\n"
           "                         ahead->keys - 1};\n"
           "    const PageRow place = place_of_key(&pages, ragged, key);\n"
           "    const int32_t *entry = pages.table + place.page;\n"
           "    ahead->page[i][0] = page_number(entry, guess);\n"
           "    ahead->page[i][1] = page_number(entry + ragged->page_table_v, guess);\n"
           "    ahead->row[i] = place.row;\n");
    } else {
      TEXT("    ahead->page[i][0] = ahead->page[i][1] = ahead->sequence;\n"
           "    ahead->row[i] = key;\n");
    }
    TEXT("  }\n"
         "}\n"
         "\n"
         "// Asks for those keys.\n"
         "__device__ __forceinline__ void fetch_ahead(const Ahead *ahead,\n"
         "                                            const attnpress_fwd_ragged_args *batch, int kv_head) {\n"
         "  const attnpress_fwd_args *fwd = &batch->fwd;\n"
         "  const int line_columns = 64; // 128 bytes\n"
         "  const int keys = min_int(RING_KEYS, 32), shares = 32 / keys;\n"
         "  const int first = threadIdx.x % 32 / keys * line_columns;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < AHEAD_KEYS; ++i) {\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("    const int64_t k_page = clamped_page(&batch->ragged, ahead->page[i][0]);\n"
           "    const int64_t v_page = clamped_page(&batch->ragged, ahead->page[i][1]);\n");
    } else {
      TEXT("    const int64_t k_page = ahead->page[i][0], v_page = ahead->page[i][1];\n");
    }
    TEXT("    const uint16_t *k = (const uint16_t *)fwd->k + kv_head * fwd->k_head_stride +\n"
         "                        k_page * fwd->k_batch_stride + ahead->row[i] * fwd->k_row_stride + first;\n"
         "    const uint16_t *v = (const uint16_t *)fwd->v + kv_head * fwd->v_head_stride +\n"
         "                        v_page * fwd->v_batch_stride + ahead->row[i] * fwd->v_row_stride + first;\n"
         "#pragma unroll\n"
         "    for (int column = 0; column < HEAD_DIM; column += shares * line_columns)\n"
         "      prefetch_l2(k + column);\n"
         "#pragma unroll\n"
         "    for (int column = 0; column < HEAD_DIM_V; column += shares * line_columns)\n"
         "      prefetch_l2(v + column);\n"
         "  }\n"
         "}\n"
         "\n"
         "// Asks for the keys that a run begins with, as far as is known before what ran before has ended.\n"
         "__device__ __forceinline__ void fetch_first(const attnpress_fwd_runs_args *given, Walk walk,\n"
         "                                            int kv_head, int first_key) {\n"
         "  const Part part = next_part(given, &walk);\n"
         "  Ahead ahead = {part.sequence, part.keys, part.blocks};\n"
         "  if (part.sequence < 0)\n"
         "    return;\n"
         "  for (int i = 1; i <= BLOCKS_AHEAD && ahead.blocks.end - i >= ahead.blocks.begin; ++i) {\n"
         "    find_ahead(&ahead, &given->batch, first_key, ahead.blocks.end - i, true);\n"
         "    fetch_ahead(&ahead, &given->batch, kv_head);\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// ---- The end of a part ----\n"
       "\n");
  if (continues) {
    TEXT("// A row of a warp's part, and where a column lies in it: groups of 4 are in another order in each\n"
         "// of 8 rows, so that these lie in different banks.\n"
         "constexpr int PART_BYTES = HEAD_DIM_V * 4;\n"
         "static_assert(BLOCK_M * PART_BYTES <= SLOT_BYTES, \"a part takes the place of a slab\");\n"
         "static_assert(WARPS_K * BLOCK_M * 8 <= RING_OFFSET, \"row maxima and sums lie before the rings\");\n"
         "\n"
         "__device__ __forceinline__ int part_column(int row, int column) {\n"
         "  return column ^ row % 8 * 4;\n"
         "}\n"
         "\n");
  }
  TEXT("// Leaves what the warp has of the first `rows` rows to all, from its part of `parts` on");
  if (continues) {
    TEXT("; maxima and\n"
         "// sums in `states`");
  }
  TEXT(".\n"
       "__device__ __forceinline__ void leave_part(const float out[M_TILES][O_TILES * 4],\n"
       "                                           const float row_max[M_TILES][2],\n"
       "                                           const float row_sum[M_TILES][2], int rows,\n"
       "                                           unsigned char *parts");
  STRING(continues ? ", float2 *states" : "");
  TEXT(") {\n"
       "  const int thread = read_thread_index();\n"
       "  const int lane = thread % 32;\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      const int row = m * 16 + half * 8 + lane / 4;\n"
       "      if (row < rows) {\n"
       "        float *part_row =\n"
       "            (float *)(parts + thread / RING_THREADS * RING_BYTES + row * ");
  STRING(continues ? "PART_BYTES" : "PART_ROW_BYTES");
  TEXT(");\n"
       "#pragma unroll\n"
       "        for (int o = 0; o < O_TILES; ++o) {\n"
       "          const float2 pair = {out[m][o * 4 + half * 2], out[m][o * 4 + half * 2 + 1]};\n"
       "          *(float2 *)(part_row + ");
  STRING(continues ? "part_column(row, o * 8 + lane % 4 * 2)" : "o * 8 + lane % 4 * 2");
  TEXT(") = pair;\n"
       "        }\n"
       "        const float2 state = {row_max[m][half], row_sum[m][half]};\n"
       "        if (lane % 4 == 0)\n"
       "          ");
  STRING(continues ? "states[thread / RING_THREADS * BLOCK_M + row]" : "*(float2 *)(part_row + HEAD_DIM_V)");
  TEXT(" = state;\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// A row's maximum and sum, and 4 columns of its output, of all warps' keys.\n"
       "struct Total {\n"
       "  float maximum, sum;\n"
       "  float4 out;\n"
       "};\n"
       "\n"
       "// Adds up the warps' parts: out = sum_w 2^(max_w - max) O_w, sum = sum_w 2^(max_w - max) sum_w.\n"
       "__device__ __forceinline__ Total add_parts(const unsigned char *parts,");
  STRING(continues ? " const float2 *states," : " int row, int column,");
  TEXT("\n"
       "                                           ");
  STRING(continues ? "int row, int column, " : "");
  TEXT("float scale_log2) {\n"
       "  const float *part_row = (const float *)(parts + row * ");
  STRING(continues ? "PART_BYTES" : "PART_ROW_BYTES");
  TEXT(");\n"
       "  float2 state[WARPS_K];\n"
       "  Total total = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};\n"
       "#pragma unroll\n"
       "  for (int w = 0; w < WARPS_K; ++w) {\n");
  if (continues) {
    TEXT("    state[w] = states[w * BLOCK_M + row];\n");
  } else {
    TEXT("    state[w] = *(const float2 *)(part_row + w * (RING_BYTES / 4) + HEAD_DIM_V);\n");
  }
  TEXT("    total.maximum = fmaxf(total.maximum, state[w].x);\n"
       "  }\n"
       "  const float base = finite_base(total.maximum);\n"
       "#pragma unroll\n"
       "  for (int w = 0; w < WARPS_K; ++w) {\n"
       "    const float4 part =\n"
       "        *(const float4 *)(part_row + w * (RING_BYTES / 4) + ");
  STRING(continues ? "part_column(row, column)" : "column");
  TEXT(");\n"
       "    const float weight = exp2_approx((state[w].x - base) * scale_log2);\n"
       "    total.sum += weight * state[w].y;\n"
       "    total.out.x += weight * part.x;\n"
       "    total.out.y += weight * part.y;\n"
       "    total.out.z += weight * part.z;\n"
       "    total.out.w += weight * part.w;\n"
       "  }\n"
       "  return total;\n"
       "}\n"
       "\n"
       "// Stores 4 columns of a row of a sequence, and its lse with the first.\n"
       "__device__ __forceinline__ void store_row(const attnpress_fwd_ragged_args *batch,\n"
       "                                          const attnpress_fwd_args *args, int head, int position,\n"
       "                                          int column, float4 out, RowEnd end) {\n"
       "  const uint2 packed = {pack(DTYPE, out.x * end.normalize, out.y * end.normalize),\n"
       "                        pack(DTYPE, out.z * end.normalize, out.w * end.normalize)};\n"
       "  *(uint2 *)((uint16_t *)args->out + out_offset(args, 0, head, position) + column) = packed;\n"
       "  if (args->lse && column == 0)\n"
       "    store_lse(batch, args, head, position, end.lse);\n"
       "}\n"
       "\n"
       "// Adds up the warps' parts: out = sum_w 2^(max_w - max) O_w / row sum, where the row sum is\n"
       "// sum_w 2^(max_w - max) sum_w, lse = scale * max + log(row sum). Rows without keys: 0 and -inf.\n"
       "// `whole`: the output is stored; else it is the part at `partial`. `args`: the sequence's.\n"
       "__device__ __forceinline__ void store_part(const float out[M_TILES][O_TILES * 4],\n"
       "                                           const float row_max[M_TILES][2],\n"
       "                                           const float row_sum[M_TILES][2],\n"
       "                                           const attnpress_fwd_ragged_args *batch,\n"
       "                                           const attnpress_fwd_args *args, int row_begin,\n"
       "                                           int first_head, bool whole, int64_t first_partial,\n");
  if (append) {
    TEXT("                                           unsigned char *smem, int free_slot,\n"
         "                                           const attnpress_fwd_runs_append_args *all,\n"
         "                                           const Part *next) {\n");
  } else if (continues) {
    TEXT("                                           unsigned char *smem, int free_slot) {\n");
  } else {
    TEXT("                                           unsigned char *smem) {\n");
  }
  TEXT("  const int thread = read_thread_index();\n"
       "  const int heads = args->heads_per_tile;\n"
       "  const int rows = args->seqlen_q * heads - row_begin; // from the tile's first row on\n");
  if (continues) {
    TEXT("  // A warp's part takes the place of the slab that was used last; its row maxima and sums lie\n"
         "  // before the rings.\n"
         "  unsigned char *parts = smem + RING_OFFSET + free_slot * SLOT_BYTES;\n"
         "  float2 *states = (float2 *)smem;\n"
         "  // All threads of the warp arrive and wait: that slab has been read.\n");
  } else {
    TEXT("  unsigned char *parts = smem + RING_OFFSET;\n"
         "  // All threads of the warp arrive and wait: its ring has been read, and its part takes its place.\n");
  }
  TEXT("  ring_barrier();\n");
  if (append) {
    TEXT("  RotaryWords words[QUERY_WORDS]; // of the next part, on their way meanwhile\n"
         "  if (next->sequence >= 0)\n"
         "    load_query_words(words, all, next, first_head, heads);\n");
  }
  TEXT("  leave_part(out, row_max, row_sum, rows, parts");
  STRING(continues ? ", states" : "");
  TEXT(");\n"
       "  // All threads arrive and wait: hands over the parts. Each thread then adds up 4 columns of a row.\n"
       "  __syncthreads();\n"
       "  const int chunks = HEAD_DIM_V / 4;\n"
       "  for (int index = thread; index < min(rows, BLOCK_M) * chunks; index += NUM_THREADS) {\n"
       "    const int row = index / chunks, column = index % chunks * 4;\n"
       "    const Total total = add_parts(parts,");
  STRING(continues ? " states," : "");
  TEXT(" row, column, args->scale_log2);\n"
       "    int position, head;\n"
       "    split_row(row_begin + row, heads, &position, &head);\n"
       "    head += first_head;\n"
       "    const RowEnd end = end_row(total.maximum * args->scale_log2, total.sum, &args->score,\n"
       "                               args->heads_q, head, DROPOUT, !whole);\n"
       "    if (whole) {\n"
       "      store_row(batch, args, head, position, column, total.out, end);\n"
       "    } else {\n"
       "      const float4 scaled = {total.out.x * end.normalize, total.out.y * end.normalize,\n"
       "                             total.out.z * end.normalize, total.out.w * end.normalize};\n"
       "      const int64_t partial = first_partial + head * batch->fwd.seqlen_q + position;\n"
       "      *(float4 *)(args->out_partial + partial * HEAD_DIM_V + column) = scaled;\n"
       "      if (column == 0)\n"
       "        args->lse_partial[partial] = end.lse;\n"
       "    }\n"
       "  }\n");
  if (append) {
    TEXT("  if (next->sequence >= 0) // handed over with what follows\n"
         "    store_query_words(words, all, next, heads);\n");
  }
  TEXT("  // All threads arrive and wait: the parts have been read, and the ring may be filled.\n"
       "  __syncthreads();\n"
       "}\n"
       "\n"
       "// Where the parts of the run that a sequence begins in lie, and those of other runs.\n"
       "__device__ __forceinline__ int64_t first_partial(const attnpress_fwd_runs_args *args, int run,\n"
       "                                                 bool begins) {\n"
       "  const attnpress_fwd_args *fwd = &args->batch.fwd;\n"
       "  return ((begins ? args->runs : 0) + run) * ((int64_t)fwd->heads_q * fwd->seqlen_q);\n"
       "}\n"
       "\n");
  if (adds) {
    TEXT("// ---- The sum of a sequence that is cut ----\n"
         "\n"
         "constexpr int STEP = 4; // parts that a thread loads at once\n"
         "\n"
         "// Adds up the parts of a row of such a sequence, `row` of those of a run, in 4 columns: its output,\n"
         "// not normalised, the greatest lse in units of log2, and the sum of 2^(lse - that). All have been\n"
         "// stored; one without keys has -inf and zeros.\n"
         "__device__ __forceinline__ Total add_runs(const attnpress_fwd_runs_args *args, Cut cut, int64_t row,\n"
         "                                          int column) {\n"
         "  const float *out_partial = args->batch.fwd.out_partial;\n"
         "  const float *lse_partial = args->batch.fwd.lse_partial;\n"
         "  Total total = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};\n"
         "  for (int first = 0; first < cut.parts; first += STEP) {\n"
         "    float lse[STEP];\n"
         "    float4 out[STEP];\n"
         "    float maximum = total.maximum;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < STEP; ++i) {\n"
         "      const int part = first + i;\n"
         "      lse[i] = -INF;\n"
         "      out[i] = {0.0f, 0.0f, 0.0f, 0.0f};\n"
         "      if (part < cut.parts) {\n"
         "        const int64_t partial = first_partial(args, cut.first + part, part == 0) + row;\n"
         "        lse[i] = lse_partial[partial] * LOG2_E;\n"
         "        out[i] = *(const float4 *)(out_partial + partial * HEAD_DIM_V + column);\n"
         "      }\n"
         "    }\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < STEP; ++i)\n"
         "      maximum = fmaxf(maximum, lse[i]);\n"
         "    const float base = finite_base(maximum), rescale = exp2_approx(total.maximum - base);\n"
         "    total.maximum = maximum;\n"
         "    total.sum *= rescale;\n"
         "    total.out.x *= rescale;\n"
         "    total.out.y *= rescale;\n"
         "    total.out.z *= rescale;\n"
         "    total.out.w *= rescale;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < STEP; ++i) {\n"
         "      const float weight = exp2_approx(lse[i] - base);\n"
         "      total.sum += weight;\n"
         "      total.out.x += weight * out[i].x;\n"
         "      total.out.y += weight * out[i].y;\n"
         "      total.out.z += weight * out[i].z;\n"
         "      total.out.w += weight * out[i].w;\n"
         "    }\n"
         "  }\n"
         "  return total;\n"
         "}\n"
         "\n"
         "// Adds up such a sequence, and stores its output.\n"
         "__device__ __forceinline__ void add_cut(const attnpress_fwd_runs_args *given, Cut cut,\n"
         "                                        int row_begin, int first_head, bool key_count_alone) {\n"
         "  const attnpress_fwd_ragged_args *batch = &given->batch;\n"
         "  const Part part = {cut.sequence, key_counts[cut.sequence], {0, 0}};\n"
         "  const SequenceRows of_sequence = rows_of_part(batch, &part, key_count_alone);\n"
         "  const attnpress_fwd_args args = args_of_rows(batch, cut.sequence, &of_sequence);\n"
         "  const int rows = args.seqlen_q * args.heads_per_tile - row_begin, chunks = HEAD_DIM_V / 4;\n"
         "  for (int index = threadIdx.x; index < min(rows, BLOCK_M) * chunks; index += NUM_THREADS) {\n"
         "    const int row = index / chunks, column = index % chunks * 4;\n"
         "    int position, head;\n"
         "    split_row(row_begin + row, args.heads_per_tile, &position, &head);\n"
         "    head += first_head;\n"
         "    const Total total = add_runs(given, cut, head * batch->fwd.seqlen_q + position, column);\n"
         "    store_row(batch, &args, head, position, column, total.out,\n"
         "              end_row(total.maximum, total.sum, &args.score, args.heads_q, head, DROPOUT, false));\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n");
  if (append) {
    TEXT("        const __grid_constant__ attnpress_fwd_runs_append_args all) {\n"
         "  const attnpress_fwd_runs_args &given = all.runs;\n");
  } else {
    TEXT("        const __grid_constant__ attnpress_fwd_runs_args given) {\n");
  }
  TEXT("  const attnpress_fwd_ragged_args &batch = given.batch;\n"
       "  extern __shared__ __align__(128) unsigned char smem[];\n"
       "  const int warp_row = threadIdx.x / 32 % WARPS_M * M_TILES * 16;\n"
       "  const int warp_k = threadIdx.x / RING_THREADS;\n"
       "  const int tile_heads = batch.fwd.heads_q / batch.fwd.heads_per_tile;\n"
       "  const int tiles = blockIdx.x / batch.fwd.row_blocks, run = tiles / tile_heads;\n"
       "  const int row_begin = (blockIdx.x - tiles * batch.fwd.row_blocks) * BLOCK_M;\n"
       "  const int first_head = (tiles - run * tile_heads) * batch.fwd.heads_per_tile;\n"
       "  const int kv_head = key_head(&batch.fwd, first_head);\n");
  if (append) {
    TEXT("  for (int i = batch.fwd.heads_per_tile * (Q_ROW_BYTES / 4) + threadIdx.x;\n"
         "       i < BLOCK_M * Q_ROW_BYTES / 4; i += NUM_THREADS) // handed over with Q\n"
         "    ((uint32_t *)q_rows)[i] = 0;\n");
  } else if (continues) {
    TEXT("  int64_t query_offsets[M_TILES][2];\n"
         "  find_query_rows(query_offsets, &batch.fwd, row_begin);\n");
  } else {
    TEXT("  int64_t query_offsets[QUERY_PASSES];\n"
         "  find_queries(query_offsets, &batch.fwd, row_begin);\n");
  }
  if (append) {
    TEXT("  const bool key_count_alone = true;\n");
  } else {
    TEXT("  const bool key_count_alone = has_key_count_alone(&batch.ragged);\n");
  }
  TEXT("  const uint32_t shared = shared_address(smem);\n"
       "  const int first_key = warp_k * RING_KEYS; // of this warp in a key block\n"
       "  const uint32_t ring = shared + RING_OFFSET + warp_k * RING_BYTES;\n");
  if (!continues) {
    TEXT("  const int lane = threadIdx.x % 32;\n"
         "  const uint32_t q_tile = shared + warp_row * Q_ROW_BYTES + ldmatrix_rows_first(lane, Q_ROW_BYTES);\n");
  }
  if (adds) {
    TEXT("  if (threadIdx.x < 2) // handed over with the lengths\n"
         "    cuts[threadIdx.x].sequence = -1;\n"
         "  // What memory says before what ran before has ended is a guess: hints follow it, and it is held\n"
         "  // to what stands there afterwards.\n"
         "  Walk walk = {0, 0, 0, 0};\n"
         "  Shares shares = {0, 0};\n"
         "  if (key_count_alone) {\n"
         "    guess_keys(&batch);\n"
         "    walk = find_walk(&given, run, &shares);\n"
         "    fetch_first(&given, walk, kv_head, first_key);\n");
    if (append) {
      TEXT("    Walk ahead = walk;\n"
           "    const Part first = next_part(&given, &ahead);\n"
           "    if (first.sequence >= 0)\n"
           "      fetch_sequence(&all, HEAD_DIM, first.sequence, first.keys - 1, first_head,\n"
           "                     batch.fwd.heads_per_tile, kv_head, threadIdx.x);\n");
    }
    TEXT("  }\n"
         "  // What comes next may begin to wait too.\n"
         "  griddepcontrol_wait();\n"
         "  griddepcontrol_launch_dependents();\n"
         "  if (!key_count_alone || !guess_holds(&batch)) {\n"
         "    // All threads arrive and wait: the guess has been read.\n"
         "    __syncthreads();\n"
         "    count_keys(&batch, key_count_alone);\n"
         "    walk = find_walk(&given, run, &shares);\n"
         "  }\n");
  } else {
    TEXT("  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
         "  griddepcontrol_wait();\n"
         "  griddepcontrol_launch_dependents();\n"
         "  count_keys(&batch, key_count_alone);\n"
         "  Shares shares;\n"
         "  Walk walk = find_walk(&given, run, &shares);\n");
  }
  if (continues) {
    TEXT("  KeyPipeline pipe = open_ring_of_run(&given, ");
    if (append) {
      TEXT("&all, ");
    }
    TEXT("walk, kv_head, ring, first_key);\n");
  }
  TEXT("  Part part = next_part(&given, &walk);\n"
       "\n");
  if (append) {
    TEXT("  if (part.sequence >= 0) {\n"
         "    RotaryWords words[QUERY_WORDS];\n"
         "    load_query_words(words, &all, &part, first_head, batch.fwd.heads_per_tile);\n"
         "    store_query_words(words, &all, &part, batch.fwd.heads_per_tile);\n"
         "  }\n"
         "  // All threads arrive and wait: hands over Q.\n"
         "  __syncthreads();\n");
  }
  if (!adds) {
    TEXT("  int cut = -1; // the sequence that goes on in other runs\n");
  }
  TEXT("  while (part.sequence >= 0) {\n"
       "    const SequenceRows of_sequence = rows_of_part(&batch, &part, key_count_alone);\n"
       "    const attnpress_fwd_args args = args_of_rows(&batch, part.sequence, &of_sequence);\n"
       "    const int rows = args.seqlen_q * args.heads_per_tile; // of this head, or these packed heads\n"
       "    int first_position, last_position, head;\n"
       "    split_row(row_begin, args.heads_per_tile, &first_position, &head);\n"
       "    split_row(min(row_begin + BLOCK_M, rows) - 1, args.heads_per_tile, &last_position, &head);\n"
       "    const Row first_row = find_row(&args, first_position);\n"
       "    const Row last_row = find_row(&args, last_position);\n"
       "    const Range unmasked = keys_of_all(first_row, last_row);\n"
       "    const int block_begin = part.blocks.begin;\n"
       "    int n = rows > row_begin ? part.blocks.end - 1 : block_begin - 1; // the key block in work\n"
       "\n");
  if (!append) {
    TEXT("    const uint16_t *q = (const uint16_t *)args.q + first_head * args.q_head_stride;\n");
  }
  if (continues) {
    TEXT("    uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4];\n");
    if (append) {
      TEXT("    load_query_tile(q_frag);\n");
    } else {
      TEXT("    load_query_rows(q_frag, q, query_offsets, rows - row_begin);\n");
    }
    if (adds) {
      TEXT("    if (threadIdx.x == 0)\n"
           "      note_cut(&given, &walk, shares, run, &part);\n");
    }
    TEXT("    const Part next = next_part(&given, &walk);\n");
    if (append) {
      TEXT("    const int fetched_at = min(n, block_begin + 1); // soon enough, and not so soon that it is gone\n");
    } else {
      TEXT("    if (key_count_alone && next.sequence >= 0)\n"
           "      fetch_query_rows((const uint16_t *)batch.fwd.q + next.sequence * batch.fwd.q_batch_stride +\n"
           "                           first_head * batch.fwd.q_head_stride,\n"
           "                       query_offsets, rows - row_begin);\n");
    }
  } else {
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("    const Pages pages = pages_of_rows(&batch.ragged, part.sequence, &of_sequence, args.seqlen_k);\n"
           "    KeyPipeline pipe =\n"
           "        open_ring(&batch, &args, pages, kv_head, n, block_begin, ring, first_key);\n"
           "    if (n >= block_begin)\n"
           "      ask_for_pages(&pipe, n, 0);\n");
    } else {
      TEXT("    KeyPipeline pipe = open_ring(&args, 0, kv_head, n, block_begin, ring, first_key);\n");
    }
    TEXT("    load_found_queries(shared, q, query_offsets, row_begin, rows);\n"
         "    fill_slot(&pipe, n, 0);\n"
         "    cp_async_commit();\n"
         "    fill_ring(&pipe, n, 1);\n"
         "\n"
         "    if (threadIdx.x == 0)\n"
         "      note_cut(&given, &walk, shares, run, &part);\n"
         "    const Part next = next_part(&given, &walk);\n"
         "    Ahead ahead = {next.sequence, next.keys, {0, 0}};\n"
         "    if (key_count_alone && next.sequence >= 0)\n"
         "      ahead.blocks = next.blocks;\n"
         "\n");
  }
  TEXT("    Place place;\n"
       "    place.first_row = row_begin + warp_row;\n"
       "    place.first_key = first_key;\n");
  if (!continues) {
    TEXT("    // All threads arrive and wait: hands over the tile of Q that everyone's copies brought.\n"
         "    cp_async_wait(STAGES - 2);\n"
         "    __syncthreads();\n");
    if (q_in_regs) {
      TEXT("    uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4];\n"
           "    load_query_fragments(q_frag, q_tile);\n");
    }
  }
  TEXT("    float out[M_TILES][O_TILES * 4], row_max[M_TILES][2], row_sum[M_TILES][2];\n"
       "    start_rows(out, row_max, row_sum, smem);\n");
  if (append) {
    TEXT("    for (; n >= block_begin; --n) {\n"
         "      if (n == fetched_at && next.sequence >= 0)\n"
         "        fetch_sequence(&all, HEAD_DIM, next.sequence, next.keys - 1, first_head, rows, kv_head,\n"
         "                       threadIdx.x);\n"
         "      attend(out, row_max, row_sum, &pipe, q_frag, &place, &args, smem, n,\n"
         "             (n + 1) * BLOCK_N > unmasked.end);\n"
         "    }\n");
  } else if (continues) {
    TEXT("    for (; n >= block_begin; --n)\n"
         "      attend(out, row_max, row_sum, &pipe, q_frag, &place, &args, smem, n,\n"
         "             (n + 1) * BLOCK_N > unmasked.end);\n");
  } else {
    TEXT("    for (; n >= block_begin; --n) {\n"
         "      // What the ring would be loading next, of the next part.\n"
         "      const int block = ahead.blocks.end - BLOCKS_AHEAD + n - block_begin;\n"
         "      const bool fetches = block < ahead.blocks.end && block >= ahead.blocks.begin;\n"
         "      if (fetches)\n"
         "        find_ahead(&ahead, &batch, first_key, block, false);\n"
         "      attend(out, row_max, row_sum, &pipe, ");
    STRING(q_in_regs ? "q_frag" : "q_tile");
    TEXT(", &place, &args, smem, n,\n"
         "             (n + 1) * BLOCK_N > unmasked.end);\n"
         "      if (fetches)\n"
         "        fetch_ahead(&ahead, &batch, kv_head);\n"
         "    }\n");
  }
  TEXT("    finish_rows(row_sum, &place, smem);\n"
       "\n"
       "    const bool begins = block_begin == 0, ends = part.blocks.end == ceil_div(part.keys, BLOCK_N);\n");
  if (!adds) {
    TEXT("    if (begins && !ends)\n"
         "      cut = part.sequence;\n");
  }
  TEXT("    store_part(out, row_max, row_sum, &batch, &args, row_begin, first_head, begins && ends,\n");
  if (continues) {
    TEXT("               first_partial(&given, run, begins), smem,\n"
         "               SLABS % STAGES == 0 || pipe.slot == 0 ? STAGES - 1 : pipe.slot - 1");
    if (append) {
      TEXT(", &all, &next");
    }
    TEXT(");\n");
  } else {
    TEXT("               first_partial(&given, run, begins), smem);\n");
  }
  TEXT("    part = next;\n"
       "  }\n");
  if (adds) {
    TEXT("  // Here and not behind each part: a thread block waits once, with nothing else to do.\n"
         "  const int run_blocks = tile_heads * batch.fwd.row_blocks;\n"
         "  if (threadIdx.x < 2 && cuts[threadIdx.x].sequence >= 0 &&\n"
         "      !count_part(given.counts + blockIdx.x + (cuts[threadIdx.x].first - run) * run_blocks,\n"
         "                  cuts[threadIdx.x].parts))\n"
         "    cuts[threadIdx.x].sequence = -1;\n"
         "  // All threads arrive and wait: hands over which sequences are all there, and their parts.\n"
         "  __syncthreads();\n"
         "  for (int i = 0; i < 2; ++i)\n"
         "    if (cuts[i].sequence >= 0)\n"
         "      add_cut(&given, cuts[i], row_begin, first_head, key_count_alone);\n");
  } else {
    TEXT("  if (threadIdx.x == 0 && first_head == 0 && row_begin == 0) { // for the combine kernel\n"
         "    given.cuts[run * 2] = cut;\n"
         "    given.cuts[run * 2 + 1] = cut < 0 ? -1 : last_run(&given, &walk, shares, run, cut);\n"
         "  }\n");
  }
  TEXT("}\n");
}
