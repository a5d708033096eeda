/* Written by `python -m generator` from templates/attention/flash_fwd_sm80.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_sm80(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_sm80(ap_text *out, const ap_render_input *in) {
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
  int32_t has_map = (mod_mask && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) ? 1 : 0;
  int32_t lanes_look_up = (few && (sequences == AP_ATTENTION_SEQUENCES_PAGED)) ? 1 : 0;
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
  TEXT(", sums are fp32. One thread block computes BLOCK_M query rows of one\n"
       "// head and walks over key blocks of BLOCK_N keys from right to left; the scores never leave the\n"
       "// chip (online softmax: Milakov and Gimelshein 2018, Dao et al. 2022).\n"
       "//\n"
       "// Pressed from templates/attention/flash_fwd_sm80.cu.j2 with tile ");
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
  if (dropout) {
    TEXT("#include \"attnpress/device/dropout.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n");
  if ((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) {
    TEXT("#include \"attnpress/device/modify.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n");
  if (split) {
    TEXT("#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_ldmatrix.cuh\"\n"
       "#include \"attnpress/device/ptx_mma.cuh\"\n"
       "#include \"attnpress/device/ptx_sreg.cuh\"\n"
       "#include \"attnpress/device/score.cuh\"\n");
  if (mod_score || mod_mask) {
    TEXT("#include \"attnpress/device/score_mod.cuh\"\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("#include \"attnpress/device/sequence.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/softmax.cuh\"\n"
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
  if ((split && decode) && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("// A grid that is, fastest first: row block, tile head, split, batch. Heads whose keys lie side by\n"
         "// side in memory are read at the same time.\n"
         "__device__ __forceinline__ Work find_work(const attnpress_fwd_args *args, int block) {\n"
         "  Work work;\n"
         "  const int blocks = block / args->row_blocks;\n"
         "  work.row_begin = row_block_begin(args, block - blocks * args->row_blocks, BLOCK_M, LAST_FIRST);\n"
         "  const int tile_heads = args->heads_q / args->heads_per_tile;\n"
         "  const int splits = blocks / tile_heads;\n"
         "  work.first_head = (blocks - splits * tile_heads) * args->heads_per_tile;\n"
         "  const int batch = splits / args->num_splits;\n"
         "  work.split = splits - batch * args->num_splits;\n"
         "  work.batch = batch;\n"
         "  return work;\n"
         "}\n"
         "\n");
  } else {
    TEXT("// The thread block's work, from its index in the grid.\n"
         "__device__ __forceinline__ Work find_work(const attnpress_fwd_args *args, int block) {\n");
    if ((split && decode) && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) {
      TEXT("  return find_partly_split_work(args, block, BLOCK_M, LAST_FIRST);\n");
    } else if (split || decode) {
      TEXT("  return find_split_work(args, block, BLOCK_M, LAST_FIRST, SPLIT);\n");
    } else {
      TEXT("  return find_whole_work(args, block, BLOCK_M, LAST_FIRST);\n");
    }
    TEXT("}\n"
         "\n");
  }
  TEXT("// The keys that the row at a position sees.\n"
       "__device__ __forceinline__ Row find_row(const attnpress_fwd_args *args, int position) {\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  return window_row(position, &args->score, args->seqlen_k);\n");
  } else {
    TEXT("  return row_at(position, CAUSAL, args->seqlen_q, args->seqlen_k);\n");
  }
  TEXT("}\n");
  if (mod_score || mod_mask) {
    if (mod_score) {
      TEXT("// The snippet's score of query row and key `k`: `score` is the one so far, in natural units.\n"
           "__device__ __forceinline__ float snippet_score(const attnpress_mod_args *mod, float score,\n"
           "                                               SnippetRow row, int k, int q_len, int k_len);\n"
           "\n"
           "// Passes the scores of row `half` through it; `key` is this thread's first key. They come in units\n"
           "// of `scale` or of the cap, and leave in natural units.\n"
           "__device__ __forceinline__ void pass_scores(float *score, int half, const attnpress_mod_args *mod,\n"
           "                                            int q_len, int k_len, SnippetRow row, int key) {\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < S_TILES * 2; ++i) {\n"
           "    float *one = &score[i / 2 * 4 + half * 2 + i % 2];\n"
           "    *one = snippet_score(mod, *one * mod->natural_per_unit, row, key + i / 2 * 8 + i % 2, q_len,\n"
           "                         k_len);\n"
           "  }\n"
           "}\n"
           "\n");
    }
    if (mod_mask) {
      TEXT("// Whether the snippet lets query row see key `k`.\n"
           "__device__ __forceinline__ bool snippet_keeps(const attnpress_mod_args *mod, SnippetRow row, int k,\n"
           "                                              int q_len, int k_len);\n"
           "\n"
           "constexpr int SEEN_WORDS = ceil_div(S_TILES, 16); // of a row of a key block: two bits a tile\n"
           "\n"
           "// Asks it about a thread's scores; `key` is this thread's first key. What it says of a key to both\n"
           "// rows of a thread is asked at once, in a loop that keeps the code small: a bit a score.\n"
           "__device__ __forceinline__ void ask_snippet(uint32_t seen[2 * SEEN_WORDS],\n"
           "                                            const attnpress_mod_args *mod, int q_len, int k_len,\n"
           "                                            const SnippetRow rows[2], int key) {\n"
           "#pragma unroll\n"
           "  for (int word = 0; word < 2 * SEEN_WORDS; ++word)\n"
           "    seen[word] = 0;\n"
           "#pragma unroll\n"
           "  for (int first = 0; first < S_TILES; first += 16) {\n"
           "#pragma unroll 4\n"
           "    for (int tile = 0; tile < min_int(S_TILES - first, 16); ++tile) {\n"
           "#pragma unroll\n"
           "      for (int i = 0; i < 4; ++i) {\n"
           "        const bool keeps =\n"
           "            snippet_keeps(mod, rows[i / 2], key + (first + tile) * 8 + i % 2, q_len, k_len);\n"
           "        seen[i / 2 * SEEN_WORDS + first / 16] |= (uint32_t)keeps << tile * 2 + i % 2;\n"
           "      }\n"
           "    }\n"
           "  }\n"
           "}\n"
           "\n"
           "// Scores that it takes out become -inf.\n"
           "__device__ __forceinline__ void hide_unseen(float *score, const uint32_t seen[2 * SEEN_WORDS]) {\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half) {\n"
           "#pragma unroll\n"
           "    for (int i = 0; i < S_TILES * 2; ++i) {\n"
           "      if (!(seen[half * SEEN_WORDS + i / 32] & 1u << i % 32))\n"
           "        score[i / 2 * 4 + half * 2 + i % 2] = -INF;\n"
           "    }\n"
           "  }\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ void mask_by_snippet(float *score, const attnpress_mod_args *mod,\n"
           "                                                int q_len, int k_len, const SnippetRow rows[2],\n"
           "                                                int key) {\n"
           "  uint32_t seen[2 * SEEN_WORDS];\n"
           "  ask_snippet(seen, mod, q_len, k_len, rows, key);\n"
           "  hide_unseen(score, seen);\n"
           "}\n"
           "\n");
    }
  }
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
  if (split && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("// Computes split `*number` of the thread block's rows, or, where that is negative, the first; false\n"
         "// where there is none. Nothing else is kept in registers from split to split.\n");
    if (mod_score || mod_mask) {
      TEXT("__device__ __forceinline__ bool compute_split(const attnpress_fwd_ragged_mod_args &given,\n"
           "                                              int *number) {\n"
           "  const attnpress_fwd_ragged_args &batch = given.batch;\n");
    } else {
      TEXT("__device__ __forceinline__ bool compute_split(const attnpress_fwd_ragged_args &batch, int *number) {\n");
    }
  } else {
    TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)\n"
         "    ");
    STRING(stem);
    TEXT("(\n");
    if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) && (mod_score || mod_mask)) {
      TEXT("        const __grid_constant__ attnpress_fwd_ragged_mod_args given) {\n"
           "  const attnpress_fwd_ragged_args &batch = given.batch;\n");
    } else if (mod_score || mod_mask) {
      TEXT("        const __grid_constant__ attnpress_fwd_mod_args given) {\n"
           "  const attnpress_fwd_args &args = given.fwd;\n");
    } else if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
      TEXT("        const __grid_constant__ attnpress_fwd_ragged_args batch) {\n");
    } else {
      TEXT("        const __grid_constant__ attnpress_fwd_args args) {\n");
    }
  }
  TEXT("  extern __shared__ __align__(128) unsigned char smem[];\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const int warp_row = threadIdx.x / 32 % WARPS_M * M_TILES * 16;\n");
  if (split && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
         "  griddepcontrol_wait();\n"
         "  griddepcontrol_launch_dependents();\n");
  }
  if (split && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("  const Work work = find_work(&batch.fwd, read_block_index());\n"
         "  const attnpress_fwd_args args = args_of_sequence(&batch, work.batch);\n"
         "  const int rows = args.seqlen_q * args.heads_per_tile; // of this head, or these packed heads\n"
         "  if (work.row_begin >= rows) // the grid is laid out for the longest sequence\n"
         "    return false;\n"
         "\n");
  } else if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("  const Work work = find_work(&batch.fwd, blockIdx.x);\n"
         "  const attnpress_fwd_args args = args_of_sequence(&batch, work.batch);\n"
         "  const int rows = args.seqlen_q * args.heads_per_tile; // of this head, or these packed heads\n"
         "  if (work.row_begin >= rows) // the grid is laid out for the longest sequence\n"
         "    return;\n"
         "\n");
  } else {
    TEXT("  const Work work = find_work(&args, blockIdx.x);\n"
         "  const int rows = args.seqlen_q * args.heads_per_tile; // of this head, or these packed heads\n"
         "\n");
  }
  TEXT("  // Key blocks that no row sees are never loaded; those that all rows see whole need no mask.\n"
       "  int first_position, last_position, head;\n"
       "  split_row(work.row_begin, args.heads_per_tile, &first_position, &head);\n"
       "  split_row(min(work.row_begin + BLOCK_M, rows) - 1, args.heads_per_tile, &last_position, &head);\n"
       "  const Row first_row = find_row(&args, first_position);\n"
       "  const Row last_row = find_row(&args, last_position);\n"
       "  const Range unmasked = keys_of_all(first_row, last_row);\n"
       "  Range blocks = key_blocks(keys_of_some(first_row, last_row), BLOCK_N);\n");
  if (split && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("  const int fixed = batch.ragged.fixed_split_blocks;\n"
         "  const bool adds = fixed > 0 && args.num_splits == 1;\n"
         "  // With one split for each row, those that some row sees.\n"
         "  const int first_split = adds ? blocks.begin / fixed : work.split;\n"
         "  const int split_end = adds ? max(ceil_div(blocks.end, fixed), first_split + 1) : first_split + 1;\n"
         "  const int split = max(*number, first_split);\n"
         "  if (split >= split_end)\n"
         "    return false;\n"
         "  *number = split;\n"
         "  blocks = fixed > 0\n"
         "               ? split_fixed_blocks(blocks, split, fixed)\n"
         "               : split_own_blocks(blocks, split, args.num_splits, args.key_blocks_per_split);\n");
  } else {
    TEXT("  if (SPLIT)\n"
         "    blocks = split_blocks(blocks, work.split, args.key_blocks_per_split);\n");
  }
  if ((mask == AP_ATTENTION_MASK_WINDOW) || has_map) {
    TEXT("  const int block_begin = blocks.begin;\n");
  } else {
    TEXT("  // A constant where it is one: the compiler does not find out in time.\n"
         "  const int block_begin = SPLIT ? blocks.begin : 0;\n");
  }
  if (has_map) {
    TEXT("  // Of the others the snippet's mask leaves nothing: they are not loaded either.\n"
         "  const uint32_t *map = map_row(&given.mod, work.batch, work.first_head / args.heads_per_tile,\n"
         "                                work.row_begin / BLOCK_M);\n"
         "  int n = block_before(map, blocks.end, block_begin); // the key block in work\n"
         "\n");
  } else {
    TEXT("  int n = blocks.end - 1; // the key block in work\n"
         "\n");
  }
  TEXT("  const uint32_t shared = shared_address(smem);\n"
       "  const uint16_t *q = (const uint16_t *)args.q + work.batch * args.q_batch_stride +\n"
       "                      work.first_head * args.q_head_stride;\n"
       "  load_queries(shared, q, &args, work.row_begin, rows);\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  const Pages pages = pages_of_sequence(&batch.ragged, work.batch, args.seqlen_k);\n"
         "  KeyPipeline pipe = open_ring(&batch, &args, pages, key_head(&args, work.first_head),\n"
         "                               block_begin, shared + RING_OFFSET, 0);\n");
    if (lanes_look_up) {
      TEXT("  if (n >= block_begin)\n"
           "    ask_for_pages(&pipe, n, 0);\n");
    }
  } else {
    TEXT("  KeyPipeline pipe = open_ring(&args, work.batch, key_head(&args, work.first_head), n,\n"
         "                               block_begin, shared + RING_OFFSET, 0);\n");
  }
  if (has_map) {
    TEXT("  pipe.map = map;\n");
  }
  TEXT("  fill_ring(&pipe, n, 0);\n"
       "\n"
       "  Place place;\n"
       "  place.first_row = work.row_begin + warp_row;\n");
  if ((((alibi || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) || mod_score) || mod_mask) {
    TEXT("  place.first_head = work.first_head;\n"
         "  place.batch = work.batch;\n");
  }
  if (has_map) {
    TEXT("  place.map = map;\n");
  }
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) && (mod_score || mod_mask)) {
    TEXT("  place.mod = &given.mod;\n");
  }
  if (warps_n > 1) {
    TEXT("  place.warp_n = threadIdx.x / 32 / WARPS_M;\n"
         "  place.first_key = place.warp_n * S_TILES * 8;\n"
         "  // From a thread index of its own: the compiler would keep its parts as well.\n"
         "  place.row = read_thread_index() / 32 % WARPS_M * M_TILES * 16 + lane / 4;\n"
         "  place.p = smem + P_OFFSET;\n"
         "  place.p_shared =\n"
         "      shared + P_OFFSET + warp_row * P_ROW_BYTES + ldmatrix_rows_first(lane, P_ROW_BYTES);\n"
         "  place.exchange = (float *)(smem + EXCHANGE_OFFSET);\n");
  } else {
    TEXT("  place.first_key = 0;\n");
  }
  TEXT("  const uint32_t q_tile = shared + warp_row * Q_ROW_BYTES + ldmatrix_rows_first(lane, Q_ROW_BYTES);\n");
  if (q_in_regs) {
    TEXT("  // All threads arrive and wait: hands over the tile of Q that everyone's copies brought.\n"
         "  cp_async_wait(STAGES - 2);\n"
         "  __syncthreads();\n"
         "  uint32_t q_frag[ceil_div(HEAD_DIM, 16)][M_TILES][4];\n"
         "  load_query_fragments(q_frag, q_tile);\n");
  }
  TEXT("  float out[M_TILES][O_TILES * 4], row_max[M_TILES][2], row_sum[M_TILES][2];\n"
       "  start_rows(out, row_max, row_sum, smem);\n");
  if ((mask == AP_ATTENTION_MASK_WINDOW) || has_map) {
    TEXT("  // One loop for all key blocks, whether or not they hold a key which some row does not see.\n");
    if (has_map) {
      TEXT("  for (; n >= block_begin; n = block_before(map, n, block_begin))\n");
    } else {
      TEXT("  for (; n >= block_begin; --n)\n");
    }
    TEXT("    attend(out, row_max, row_sum, &pipe, ");
    STRING(q_in_regs ? "q_frag" : "q_tile");
    TEXT(", &place, &args, smem, n,\n");
    if (mask == AP_ATTENTION_MASK_WINDOW) {
      TEXT("           (n + 1) * BLOCK_N > unmasked.end || n * BLOCK_N < unmasked.begin);\n");
    } else {
      TEXT("           (n + 1) * BLOCK_N > unmasked.end);\n");
    }
  } else {
    if (mask == AP_ATTENTION_MASK_CAUSAL) {
      TEXT("  // Key blocks that hold a key which some row does not see.\n");
    } else {
      TEXT("  // A key block that passes the end of the keys: the first one, if any.\n");
    }
    TEXT("  while (n >= block_begin && (n + 1) * BLOCK_N > unmasked.end) {\n"
         "    attend(out, row_max, row_sum, &pipe, ");
    STRING(q_in_regs ? "q_frag" : "q_tile");
    TEXT(", &place, &args, smem, n, true);\n"
         "    --n;\n");
    if (mask == AP_ATTENTION_MASK_FULL) {
      TEXT("    break;\n");
    }
    TEXT("  }\n"
         "  // Key blocks that every row sees whole.\n"
         "  for (; n >= block_begin; --n)\n"
         "    attend(out, row_max, row_sum, &pipe, ");
    STRING(q_in_regs ? "q_frag" : "q_tile");
    TEXT(", &place, &args, smem, n, false);\n");
  }
  TEXT("  finish_rows(row_sum, &place, smem);\n");
  if (!split) {
    TEXT("  // All threads arrive and wait: Q and the ring have been read and no copy is in flight, so that O\n"
         "  // can take their place.\n"
         "  cp_async_wait(0);\n"
         "  __syncthreads();\n");
  }
  if (split && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("  store_output(out, row_max, row_sum, &batch, split > first_split, smem);\n"
         "  // All threads arrive and wait: Q, the ring and what warps exchange have been read, and no copy is\n"
         "  // in flight, so that the next split's can take their place.\n"
         "  cp_async_wait(0);\n"
         "  __syncthreads();\n"
         "  return true;\n"
         "}\n"
         "\n"
         "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)\n"
         "    ");
    STRING(stem);
    TEXT("(\n");
    if (mod_score || mod_mask) {
      TEXT("        const __grid_constant__ attnpress_fwd_ragged_mod_args given) {\n");
    } else {
      TEXT("        const __grid_constant__ attnpress_fwd_ragged_args batch) {\n");
    }
    TEXT("  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
         "  griddepcontrol_wait();\n"
         "  griddepcontrol_launch_dependents();\n"
         "  for (int split = -1; compute_split(");
    STRING((mod_score || mod_mask) ? "given" : "batch");
    TEXT(", &split); ++split) {\n"
         "  }\n");
  } else {
    TEXT("  store_output(out, row_max, row_sum, &");
    STRING((sequences == AP_ATTENTION_SEQUENCES_DENSE) ? "args" : "batch");
    TEXT(", smem);\n");
  }
  TEXT("}\n");
}
