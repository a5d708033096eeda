/* Written by `python -m generator` from templates/attention/flash_bwd_exchange_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_exchange_sm90(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_exchange_sm90(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t pass = in->axis[AP_ATTENTION_PASS];
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t hdim_v = in->axis[AP_ATTENTION_HDIM_V];
  const int32_t dtype = in->axis[AP_ATTENTION_DTYPE];
  const int32_t mask = in->axis[AP_ATTENTION_MASK];
  const int32_t softcap = in->axis[AP_ATTENTION_SOFTCAP];
  const int32_t alibi = in->axis[AP_ATTENTION_ALIBI];
  const int32_t bias = in->axis[AP_ATTENTION_BIAS];
  const int32_t dropout = in->axis[AP_ATTENTION_DROPOUT];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t runs = in->axis[AP_ATTENTION_RUNS];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  int32_t sums = (pass == AP_ATTENTION_PASS_BWD) ? 1 : 0;
  int32_t passes = 0;
  int32_t takes = runs ? 1 : 0;
  int32_t read_apart = takes;
  int32_t chains = 0;
  int32_t keys_ahead = 0;
  int32_t prepares = 0;
  int32_t k_columns = (hdim <= 192) ? 192 : 256;
  int32_t v_columns = (hdim_v == 128) ? 128 : ((hdim_v <= 192) ? 192 : 256);
  int32_t k_width = (k_columns == 192) ? 64 : (k_columns / 2);
  int32_t v_width = (v_columns == 192) ? 64 : (v_columns / 2);
  int32_t dq_width = 64;
  int32_t slabs = ((hdim + 63) / 64) + ((hdim_v + 63) / 64);
  int32_t bulk = (sums && ((slabs * (stages + 1)) <= 20)) ? 1 : 0;
  int32_t through = (bulk && (hdim == hdim_v)) ? 1 : 0;
  int32_t parts = (sums && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) ? 1 : 0;
  int32_t sequence_parts = (sums && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) ? 1 : 0;
  int32_t k_half = (k_columns == 192) ? 1 : 0;
  int32_t v_half = (v_columns == 192) ? 1 : 0;
  if ((block_n == 80) || (block_n == 96)) {
    {
      int32_t apart = (hdim > 192) ? 1 : 0;
      int32_t s_keys = block_n / 2;
      int32_t has_v = ((hdim_v > 128) && !apart) ? 1 : 0;
      int32_t serial = (apart || (has_v && (block_n == 96))) ? 1 : 0;
      TEXT("// ");
      STRING(stem);
      TEXT("\n"
           "//\n"
           "// The backward pass: dV = P^T dO, dK = scale dS^T Q, and dQ / scale = dS K, added up in fp32, where\n"
           "// P = softmax(scale Q K^T) is computed anew from the forward pass's lse, dP = dO V^T and\n"
           "// dS = P (dP - delta), delta = rowsum(dO out).\n"
           "//\n"
           "// One thread block owns BLOCK_N keys of one head and walks over the query rows that see them, of\n"
           "// all query heads that share the key head, BLOCK_M at a time. Warpgroup 0 is the producer: one\n"
           "// thread of it keeps the copy engine (TMA) busy, and a warp brings lse and delta. Of the three\n");
      if (apart) {
        TEXT("// consumers the first two have half of the columns of dK and of dV, transposed, for all keys, and\n"
             "// compute S, dP and from them P and dS for half of the keys each; these pass through shared memory,\n"
             "// where all products read them. The third computes dQ, and adds it to its sum.\n");
      } else {
        TEXT("// consumers each has 64 columns of dK and of dV, transposed, for all keys. The first two compute S,\n"
             "// dP and from them P and dS for half of the keys each; these pass through shared memory, where all\n"
             "// products read them. The third computes dQ, and adds it to its sum. S and dP of a step are started\n"
             "// with dV and dK of the one before, under which the first two compute P and dS.\n");
      }
      TEXT("//\n"
           "// Pressed from templates/attention/flash_bwd_exchange_sm90.cu.j2 with tile ");
      STRING(tile_name);
      TEXT(" by\n"
           "//   python -m generator --pass ");
      STRING(in->word[AP_ATTENTION_PASS]);
      TEXT(" --hdim ");
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
      if (alibi) {
        TEXT(" --alibi");
      }
      if (bias != AP_ATTENTION_BIAS_NONE) {
        TEXT(" --bias ");
        STRING(in->word[AP_ATTENTION_BIAS]);
      }
      TEXT(" --arch sm");
      INTEGER(arch);
      TEXT(" --tile ");
      STRING(tile_name);
      TEXT("\n"
           "\n"
           "#include \"attnpress/args/attention.h\"\n"
           "#include \"attnpress/device/dtype.cuh\"\n"
           "#include \"attnpress/device/gradient.cuh\"\n");
      if (((mask == AP_ATTENTION_MASK_WINDOW) || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) {
        TEXT("#include \"attnpress/device/gradient_modify.cuh\"\n");
      }
      if (parts || ((mask == AP_ATTENTION_MASK_CAUSAL) && (sequences == AP_ATTENTION_SEQUENCES_DENSE))) {
        TEXT("#include \"attnpress/device/gradient_order.cuh\"\n");
      }
      TEXT("#include \"attnpress/device/gradient_store.cuh\"\n"
           "#include \"attnpress/device/gradient_zero.cuh\"\n"
           "#include \"attnpress/device/pipeline.cuh\"\n"
           "#include \"attnpress/device/ptx_address.cuh\"\n"
           "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
           "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
           "#include \"attnpress/device/ptx_opaque.cuh\"\n"
           "#include \"attnpress/device/ptx_tma.cuh\"\n"
           "#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
           "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
           "#include \"attnpress/device/wgmma/ptx_wgmma_n");
      INTEGER(s_keys);
      TEXT(".cuh\"\n"
           "#include \"attnpress/device/wgmma/ptx_wgmma_n64.cuh\"\n"
           "#include \"attnpress/device/wgmma/ptx_wgmma_n");
      INTEGER(block_n);
      TEXT(".cuh\"\n"
           "#include \"attnpress/device/score.cuh\"\n"
           "#include \"attnpress/device/tile.cuh\"\n"
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
      if (bias == AP_ATTENTION_BIAS_FP16) {
        TEXT("constexpr BiasDtype BIAS = BIAS_FP16;\n");
      } else if (bias == AP_ATTENTION_BIAS_BF16) {
        TEXT("constexpr BiasDtype BIAS = BIAS_BF16;\n");
      } else if (bias == AP_ATTENTION_BIAS_FP32) {
        TEXT("constexpr BiasDtype BIAS = BIAS_FP32;\n");
      }
      TEXT("constexpr int BLOCK_M = ");
      INTEGER(block_m);
      TEXT("; // query rows of a step\n"
           "constexpr int BLOCK_N = ");
      INTEGER(block_n);
      TEXT("; // keys of a thread block\n"
           "constexpr int S_KEYS = BLOCK_N / 2; // of a consumer's S\n"
           "constexpr int STAGES = ");
      INTEGER(stages);
      TEXT("; // steps of Q and lse in shared memory\n"
           "constexpr int DO_STAGES = ");
      INTEGER(apart ? 1 : 2);
      TEXT("; // of dO and delta\n"
           "constexpr int SMEM_BYTES = ");
      INTEGER(smem_bytes);
      TEXT(";\n"
           "// Registers of a thread. ptxas has multiples of 16 of them, and 24 below the accumulators.\n"
           "constexpr int PRODUCER_REGISTERS = 24;\n"
           "constexpr int SCORE_REGISTERS = ");
      INTEGER(apart ? 208 : ((has_v || (block_n == 80)) ? 160 : 176));
      TEXT("; // of consumers that compute S and dP\n"
           "constexpr int SUM_REGISTERS = ");
      INTEGER(apart ? 72 : ((has_v || (block_n == 80)) ? 160 : 136));
      TEXT("; // of the one that computes dQ\n"
           "\n"
           "constexpr int CONSUMERS = 3;\n"
           "constexpr int CONSUMER_THREADS = 128 * CONSUMERS;\n"
           "constexpr int GRADIENT_THREADS = ");
      STRING(apart ? "128 * 2" : "CONSUMER_THREADS");
      TEXT("; // of consumers that have columns of dK and dV\n"
           "constexpr int NUM_THREADS = 128 + CONSUMER_THREADS;\n"
           "constexpr int S_TILES = S_KEYS / 8; // of 8 keys\n"
           "constexpr int S_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of Q K^T\n"
           "constexpr int DP_STEPS = ceil_div(HEAD_DIM_V, 16); // of dO V^T\n"
           "constexpr int ROW_STEPS = BLOCK_M / 16; // of 16 queries, of dO^T P and Q^T dS\n"
           "constexpr int KEY_STEPS = BLOCK_N / 16; // of 16 keys, of dS K\n"
           "\n");
      if (apart) {
        TEXT("// Shared memory: K | V | ring of Q | dO | P | dS | 16 bits of P | ring of lse | delta | barriers.\n");
      } else {
        TEXT("// Shared memory: K | V | ring of Q | ring of dO | P | dS | ring of lse | ring of delta | barriers.\n");
      }
      TEXT("// Matrices are stored as slabs of 64 columns, rows of 128 bytes in the 128-byte swizzle; columns\n"
           "// past the head dim are zeros. P and dS have 64 keys in their first slab, and the others in a part\n"
           "// of the second. At the end dK and dV, in padded rows, take the place of all but the barriers.\n"
           "constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);\n"
           "constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);\n"
           "constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V\n"
           "constexpr int ROW_SLAB_BYTES = BLOCK_M * 128; // of Q, dO, P and dS\n"
           "constexpr int Q_BYTES = K_SLABS * ROW_SLAB_BYTES; // of one step\n"
           "constexpr int DO_BYTES = V_SLABS * ROW_SLAB_BYTES;\n"
           "constexpr int P_BYTES = 2 * ROW_SLAB_BYTES; // as dS\n"
           "constexpr int V_OFFSET = K_SLABS * KEY_SLAB_BYTES;\n"
           "constexpr int Q_OFFSET = V_OFFSET + V_SLABS * KEY_SLAB_BYTES;\n"
           "constexpr int DO_OFFSET = Q_OFFSET + STAGES * Q_BYTES;\n"
           "constexpr int P_OFFSET = DO_OFFSET + DO_STAGES * DO_BYTES;\n"
           "constexpr int DS_OFFSET = P_OFFSET + P_BYTES;\n");
      if (apart) {
        TEXT("constexpr int KEPT_OFFSET = DS_OFFSET + P_BYTES; // a word of each thread, and so on\n"
             "constexpr int LSE_OFFSET = KEPT_OFFSET + BLOCK_M * BLOCK_N * 2;\n");
      } else {
        TEXT("constexpr int LSE_OFFSET = DS_OFFSET + P_BYTES;\n");
      }
      TEXT("constexpr int DELTA_OFFSET = LSE_OFFSET + STAGES * BLOCK_M * 4;\n"
           "constexpr int BARRIER_OFFSET = DELTA_OFFSET + DO_STAGES * BLOCK_M * 4;\n"
           "constexpr int DK_ROW_BYTES = tile_row_bytes(HEAD_DIM);\n"
           "constexpr int DV_ROW_BYTES = tile_row_bytes(HEAD_DIM_V);\n"
           "static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (6 + 2 * STAGES + 2 * DO_STAGES), \"shared memory\");\n"
           "static_assert(BARRIER_OFFSET >= BLOCK_N * (DK_ROW_BYTES + DV_ROW_BYTES), \"dK and dV\");\n"
           "static_assert(BLOCK_M == 64 && BLOCK_N > 64 && BLOCK_N <= 128, \"P and dS have two slabs\");\n");
      if (apart) {
        TEXT("static_assert(K_SLABS == 4 && V_SLABS == 4, \"two slabs for each of two consumers\");\n");
      } else {
        TEXT("static_assert(K_SLABS == CONSUMERS && V_SLABS <= K_SLABS, \"a slab for each consumer\");\n"
             "static_assert(STAGES >= 3, \"S of a step would wait for the dK before it that comes after it\");\n"
             "\n");
      }
      TEXT("// The barriers, by their shared addresses. At a \"full\" one those that have written, or the bytes of\n"
           "// the copy engine, hand over what they brought. At an \"empty\" one each warp that has read arrives,\n"
           "// and hands the space back.\n"
           "__device__ __forceinline__ uint32_t k_full(uint32_t shared) {\n"
           "  return shared + BARRIER_OFFSET;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t v_full(uint32_t shared) {\n"
           "  return shared + BARRIER_OFFSET + 8;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t p_full(uint32_t shared) {\n"
           "  return shared + BARRIER_OFFSET + 16;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t p_empty(uint32_t shared) {\n"
           "  return shared + BARRIER_OFFSET + 24;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t ds_full(uint32_t shared) {\n"
           "  return shared + BARRIER_OFFSET + 32;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t ds_empty(uint32_t shared) {\n"
           "  return shared + BARRIER_OFFSET + 40;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t q_full(uint32_t shared, int stage) {\n"
           "  return shared + BARRIER_OFFSET + 48 + 8 * stage;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t q_empty(uint32_t shared, int stage) {\n"
           "  return q_full(shared, STAGES + stage);\n"
           "}\n"
           "__device__ __forceinline__ uint32_t do_full(uint32_t shared, int stage) {\n"
           "  return q_full(shared, 2 * STAGES + stage);\n"
           "}\n"
           "__device__ __forceinline__ uint32_t do_empty(uint32_t shared, int stage) {\n"
           "  return q_full(shared, 2 * STAGES + DO_STAGES + stage);\n"
           "}\n"
           "\n"
           "// A thread block's keys, and the steps of its walk: `steps` of them, rows `row_begin` to\n"
           "// `row_end` - 1 of each of the query heads from `first_head` on.\n"
           "struct Work {\n"
           "  int batch, kv_head, key_begin, first_head;\n"
           "  int row_begin, row_end, steps;\n");
      if (parts) {
        TEXT("  int part; // of the group's walk; -1: it is whole, where other key blocks have parts\n"
             "  int walk_begin; // where the walk begins in the first head; in others, at row_begin\n");
      }
      if (passes) {
        TEXT("  // Each head's walk begins at walk_begin, and goes on at row_begin. Rows before `taken_end` are\n"
             "  // left by the block of the keys before, those from `passed_begin` on are for that of the keys\n"
             "  // behind.\n"
             "  int taken_end, passed_begin;\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        if (chains) {
          TEXT("  int group;    // query heads\n"
               "  int unit_end; // of the keys that the thread block takes one after the other\n"
               "  int sum_head; // where the first query head is in dq_sum\n"
               "  // Where a unit has all keys of its sequence: nothing of dQ comes before this key block, and rows\n"
               "  // before `whole_end` are complete with it.\n"
               "  int begins;\n"
               "  int whole_end;\n");
        }
        TEXT("  const SequencePlace *at; // in shared memory\n");
        if (prepares) {
          TEXT("  int number; // of the unit\n"
               "  int shares; // of what comes before, that warps of earlier units have\n");
        }
      }
      if (takes) {
        TEXT("  Progress before; // of the thread block\n");
      }
      TEXT("};\n"
           "\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        if (sequence_parts) {
          TEXT("// `first`, `group`: query heads of the key head, those of its part.\n"
               "__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, const Unit *unit,\n"
               "                                          int first, int group) {\n");
        } else {
          TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, const Unit *unit) {\n");
        }
        TEXT("  Work work;\n"
             "  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.\n"
             "  work.key_begin = unit->block * BLOCK_N;\n"
             "  work.kv_head = unit->head;\n"
             "  work.batch = unit->sequence;\n");
      } else {
        if (parts) {
          TEXT("// Which of a head's key blocks a thread block has, of which key head of all batches, and which part\n"
               "// of its walk.\n"
               "struct KeyPart {\n"
               "  int key_block, head, part, parts;\n"
               "};\n"
               "\n"
               "__device__ __forceinline__ KeyPart find_part(const attnpress_bwd_args *args, int block) {\n"
               "  if (!shares_by_steps(args)) {\n"
               "    const int number = block / args->blocks;\n"
               "    return {block % args->blocks, number / args->group_parts, number % args->group_parts,\n"
               "            args->group_parts};\n"
               "  }\n"
               "  const int heads = args->batch * args->heads_kv, whole = whole_blocks_of(args);\n"
               "  const bool is_whole = block < whole * heads;\n");
          if (mask == AP_ATTENTION_MASK_CAUSAL) {
            TEXT("  // The longest walks come first.\n"
                 "  if (is_whole)\n"
                 "    return {block / heads, block % heads, 0, 1};\n"
                 "  block -= whole * heads;\n"
                 "  const int number = block / args->group_parts;\n"
                 "  return {whole + number / heads, number % heads, block % args->group_parts, args->group_parts};\n");
          } else {
            TEXT("  // Those that walk over the same rows are side by side.\n"
                 "  if (is_whole)\n"
                 "    return {block % whole, block / whole, 0, 1};\n"
                 "  block -= whole * heads;\n"
                 "  const int number = block / (args->blocks - whole);\n"
                 "  return {whole + block % (args->blocks - whole), number / args->group_parts,\n"
                 "          number % args->group_parts, args->group_parts};\n");
          }
          TEXT("}\n"
               "\n"
               "// Whether thread blocks share the walk of a key block, whose dK and dV are added up later.\n"
               "__device__ __forceinline__ bool is_shared(const attnpress_bwd_args *args, const Work *work) {\n"
               "  return args->dk_sum != nullptr && work->part >= 0;\n"
               "}\n"
               "\n"
               "// The thread blocks that have the same query heads as this one are unit_of() of all.\n"
               "__device__ __forceinline__ int unit_of(const attnpress_bwd_args *args, const Work *work) {\n"
               "  return (work->batch * args->heads_kv + work->kv_head) * args->group_parts + work->part;\n"
               "}\n"
               "\n");
        }
        if (mask == AP_ATTENTION_MASK_CAUSAL) {
          TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int index) {\n");
          if (takes) {
            TEXT("  const int block = block_in_turn(args, index, blocks_of_call(args));\n");
          } else {
            TEXT("  const int block = block_in_turn(args, index, gridDim.x);\n");
          }
        } else {
          TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int block) {\n");
        }
        TEXT("  Work work;\n"
             "  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.\n");
        if (parts) {
          TEXT("  const KeyPart at = find_part(args, block);\n"
               "  const int head = at.head;\n"
               "  work.key_begin = at.key_block * BLOCK_N;\n");
        } else {
          TEXT("  const int head = block / args->blocks;\n"
               "  work.key_begin = block % args->blocks * BLOCK_N;\n");
        }
        TEXT("  work.kv_head = head % args->heads_kv;\n"
             "  work.batch = head / args->heads_kv;\n");
      }
      if (parts) {
        TEXT("  // Its part of the query heads that share the key head.\n"
             "  const int all = args->heads_q / args->heads_kv;\n"
             "  const bool by_steps = shares_by_steps(args);\n"
             "  work.part = by_steps && at.parts == 1 ? -1 : at.part;\n"
             "  const int first = by_steps ? 0 : at.part * all / at.parts;\n"
             "  const int group = by_steps ? all : (at.part + 1) * all / at.parts - first;\n"
             "  work.first_head = work.kv_head * all + first;\n");
      } else if (sequence_parts) {
        TEXT("  work.first_head = work.kv_head * (args->heads_q / args->heads_kv) + first;\n");
      } else {
        TEXT("  const int group = args->heads_q / args->heads_kv;\n"
             "  work.first_head = work.kv_head * group;\n");
        if (chains) {
          TEXT("  work.group = group;\n");
        }
      }
      if (mask == AP_ATTENTION_MASK_WINDOW) {
        TEXT("  // Rows that see none of the keys are skipped.\n"
             "  const int last_key = min(work.key_begin + BLOCK_N, args->seqlen_k) - 1;\n"
             "  const int row_end =\n"
             "      queries_in_window(last_key, &args->score, args->seqlen_q, args->seqlen_k).key_end;\n"
             "  const int first_block =\n"
             "      queries_in_window(work.key_begin, &args->score, args->seqlen_q, args->seqlen_k).key_begin /\n"
             "      BLOCK_M;\n"
             "  const int blocks = max(0, ceil_div(row_end, BLOCK_M) - first_block);\n");
      } else {
        TEXT("  // Rows before the first that sees one of the keys are skipped.\n"
             "  const int first_block =\n"
             "      CAUSAL ? max(0, work.key_begin - args->seqlen_k + args->seqlen_q) / BLOCK_M : 0;\n"
             "  const int blocks = max(0, ceil_div(args->seqlen_q, BLOCK_M) - first_block);\n");
      }
      TEXT("  work.row_begin = first_block * BLOCK_M;\n"
           "  work.row_end = work.row_begin + blocks * BLOCK_M;\n"
           "  work.steps = blocks * group;\n");
      if (parts) {
        TEXT("  work.walk_begin = work.row_begin;\n"
             "  if (by_steps && work.steps > 0) {\n"
             "    const int begin = at.part * work.steps / at.parts;\n"
             "    work.steps = (at.part + 1) * work.steps / at.parts - begin;\n"
             "    work.first_head += begin / blocks;\n"
             "    work.walk_begin += begin % blocks * BLOCK_M;\n"
             "  }\n");
      }
      if (passes) {
        TEXT("  work.taken_end = 0;\n"
             "  work.passed_begin = work.row_end;\n"
             "  if (passes_on(args)) {\n"
             "    if (work.key_begin > 0)\n"
             "      work.taken_end = queries_in_window(work.key_begin - 1, &args->score, args->seqlen_q,\n"
             "                                         args->seqlen_k)\n"
             "                           .key_end;\n"
             "    if (work.key_begin + BLOCK_N < args->seqlen_k)\n"
             "      work.passed_begin = queries_in_window(work.key_begin + BLOCK_N, &args->score,\n"
             "                                            args->seqlen_q, args->seqlen_k)\n"
             "                              .key_begin /\n"
             "                          BLOCK_M * BLOCK_M;\n"
             "  }\n"
             "  // Rows that are passed on come first.\n"
             "  work.walk_begin = work.passed_begin < work.row_end ? max(work.passed_begin, work.row_begin)\n"
             "                                                     : work.row_begin;\n");
      }
      TEXT("  return work;\n"
           "}\n"
           "\n");
      if (takes) {
        TEXT("// What a thread block takes, in two places by turns.\n"
             "__shared__ Work works[2];\n");
        if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
          TEXT("__shared__ SequencePlace sequences[2];\n");
        }
        TEXT("// Of the thread block behind that work.\n"
             "__device__ __forceinline__ Progress progress_behind(const Work *work) {\n"
             "  return {work->before.steps + work->steps, work->before.keys + (work->steps > 0)};\n"
             "}\n"
             "\n");
      }
      if (takes && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) {
        TEXT("// Key block `number`, for all warps to read: it begins at -1 where there are not so many. One warp.\n"
             "__device__ __forceinline__ void write_work(Work *work, const attnpress_bwd_args *args,\n"
             "                                           int number) {\n"
             "  Work found = {};\n"
             "  found.key_begin = -1;\n"
             "  if (number < blocks_of_call(args))\n"
             "    found = find_work(args, number);\n"
             "  if (threadIdx.x % 32 == 0)\n"
             "    *work = found;\n"
             "}\n"
             "\n");
      }
      if (chains) {
        TEXT("// Where the walk over the rows that see keys from `key` on begins.\n"
             "__device__ __forceinline__ int first_row_of(int key, int seqlen_q, int seqlen_k) {\n"
             "  return CAUSAL ? max(0, key - seqlen_k + seqlen_q) / BLOCK_M * BLOCK_M : 0;\n"
             "}\n"
             "\n"
             "// Of a key block, whose unit has all keys of a sequence with no more than `direct_keys`.\n"
             "__device__ __forceinline__ void find_whole_rows(Work *work, int direct_keys) {\n"
             "  const int seqlen_q = work->at->seqlen_q, seqlen_k = work->at->seqlen_k;\n"
             "  const int next = work->key_begin + BLOCK_N;\n"
             "  work->begins = seqlen_k <= direct_keys && work->key_begin == 0;\n"
             "  work->whole_end = seqlen_k > direct_keys ? 0\n"
             "                    : next >= seqlen_k\n"
             "                        ? seqlen_q // else where the walk of the keys behind begins\n"
             "                        : first_row_of(next, seqlen_q, seqlen_k);\n"
             "}\n"
             "\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        if (prepares) {
          TEXT("__shared__ Share shares[AHEAD_WARPS];\n"
               "\n"
               "__shared__ uint64_t ahead_barriers[AHEAD_WARPS];\n"
               "\n"
               "// One of the warps: its part of a later unit's share. `parity`: of the barrier's next phase.\n"
               "__device__ __forceinline__ void prepare_ahead(const attnpress_bwd_sm90_ragged_args *args,\n"
               "                                              const Work *work, uint32_t shared, int warp,\n"
               "                                              uint32_t *parity) {\n"
               "  const attnpress_bwd_ragged_args *const batch = &args->batch;\n"
               "  const int number = work->number + batch->bwd.zero_ahead;\n"
               "  Share *const share = &shares[warp];\n"
               "  if (batch->bwd.zero_ahead == 0 || number < (int)*end_of_first(batch) ||\n"
               "      !find_share(batch, number, share))\n"
               "    return;\n"
               "  do_share(args, share, HEAD_DIM, DTYPE, warp, AHEAD_WARPS,\n"
               "           shared + AHEAD_OFFSET + warp * AHEAD_BYTES, shared + ZEROS_OFFSET, ZERO_BYTES,\n"
               "           shared_address(&ahead_barriers[warp]), parity);\n"
               "}\n"
               "\n");
        }
        TEXT("// What thread block `number` of the grid computes, for all threads to read behind the next barrier:\n"
             "// one warp. Its keys begin at -1 where the grid has more than there are units.\n"
             "__device__ __forceinline__ void write_work(Work *work, SequencePlace *at,\n"
             "                                           const attnpress_bwd_ragged_args *batch, int number) {\n"
             "  Unit unit = {0, 0, 0, -1};\n"
             "  if (is_unit(batch, number))\n"
             "    unit = find_unit(batch, number, batch->bwd.heads_kv");
        STRING(sequence_parts ? " * batch->bwd.group_parts" : "");
        TEXT(");\n"
             "  const bool first = threadIdx.x % 32 == 0;\n"
             "  if (first && unit.block >= 0)\n"
             "    *at = place_of_unit(batch, &unit);\n");
        if (chains) {
          TEXT("  __syncwarp(); // else some of what follows has no registers\n");
        }
        TEXT("  if (!first)\n"
             "    return;\n"
             "  if (unit.block < 0) {\n"
             "    work->key_begin = -1;\n"
             "    return;\n"
             "  }\n"
             "  const attnpress_bwd_args bwd = args_of_lengths(batch, at->seqlen_q, at->seqlen_k);\n");
        if (sequence_parts) {
          TEXT("  // Its part of the query heads that share the key head.\n"
               "  const int parts = bwd.group_parts, part = unit.head % parts, all = bwd.heads_q / bwd.heads_kv;\n"
               "  const int begin = part * all / parts, group = (part + 1) * all / parts - begin;\n"
               "  unit.head /= parts;\n"
               "  at->group = group;\n"
               "  at->key_sum_tile = -1;\n"
               "  if (parts > 1) {\n"
               "    const int before = batch->first_unit[unit.order] / (bwd.heads_kv * parts); // key blocks\n"
               "    at->key_sum_tile = (part * bwd.heads_kv + unit.head) * bwd.key_tiles +\n"
               "                       (before + unit.block) * (BLOCK_N / 16);\n"
               "  }\n"
               "  *work = find_work(&bwd, &unit, begin, group);\n");
        } else {
          TEXT("  *work = find_work(&bwd, &unit);\n");
        }
        TEXT("  work->at = at;\n");
        if (prepares) {
          TEXT("  work->number = number;\n"
               "  work->shares = batch->bwd.zero_ahead > 0 && number >= *end_of_first(batch)\n"
               "                     ? batch->sequences[unit.order].blocks * AHEAD_WARPS\n"
               "                     : 0;\n");
        }
        if (chains) {
          TEXT("  work->unit_end = at->seqlen_k <= batch->direct_keys ? at->seqlen_k : work->key_begin;\n"
               "  work->sum_head = work->first_head;\n"
               "  if (batch->bwd.own_sums) { // of this thread block\n"
               "    at->sum_tile = 0;\n"
               "    work->sum_head = blockIdx.x * work->group;\n"
               "  }\n"
               "  find_whole_rows(work, batch->direct_keys);\n");
        }
        TEXT("}\n"
             "\n");
        if (chains) {
          TEXT("// Whether the unit has key blocks behind that of `last`.\n"
               "__device__ __forceinline__ bool goes_on(const Work *last) {\n"
               "  return last->key_begin + BLOCK_N < last->unit_end;\n"
               "}\n"
               "\n"
               "// The next of them. One warp.\n"
               "__device__ __forceinline__ void continue_work(Work *work, SequencePlace *at, const Work *last,\n"
               "                                              const attnpress_bwd_ragged_args *batch) {\n"
               "  // A word a lane: the warp's first has few registers.\n"
               "  const int lane = threadIdx.x % 32;\n"
               "  static_assert(sizeof(Work) <= 128 && sizeof(SequencePlace) <= 128, \"a lane a word\");\n"
               "  if (lane < sizeof(Work) / 4)\n"
               "    ((int *)work)[lane] = ((const int *)last)[lane];\n"
               "  if (lane < sizeof(SequencePlace) / 4)\n"
               "    ((int *)at)[lane] = ((const int *)last->at)[lane];\n"
               "  __syncwarp(); // the first lane knows of what the others have copied\n"
               "  if (lane != 0)\n"
               "    return;\n"
               "  work->at = at;\n"
               "  work->key_begin += BLOCK_N;\n"
               "  work->row_begin = first_row_of(work->key_begin, at->seqlen_q, at->seqlen_k);\n"
               "  work->steps = (work->row_end - work->row_begin) / BLOCK_M * work->group;\n"
               "  find_whole_rows(work, batch->direct_keys);\n"
               "}\n"
               "\n");
        }
      }
      TEXT("// A step of the walk.\n"
           "struct Step {\n"
           "  int head, row;\n"
           "};\n"
           "\n"
           "__device__ __forceinline__ Step step_after(Step step, const Work *work) {\n"
           "  step.row += BLOCK_M;\n");
      if (passes) {
        TEXT("  if (step.row == work->row_end)\n"
             "    step.row = work->row_begin;\n"
             "  return step.row == work->walk_begin ? Step{step.head + 1, step.row} : step;\n");
      } else {
        TEXT("  return step.row == work->row_end ? Step{step.head + 1, work->row_begin} : step;\n");
      }
      TEXT("}\n"
           "\n"
           "// ---- The producer ----\n"
           "\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("// Behind a sequence's last row others follow. What products add up over, 0 times what they hold may\n"
             "// be NaN: where a tile of K and V, or of Q and dO, is not whole, the copy engine arrives at a\n"
             "// barrier of its own, and the warp that brings lse and delta makes zeros of the rest and hands it\n"
             "// over.\n"
             "__shared__ uint64_t tail_barriers[");
        INTEGER(keys_ahead ? 3 : 2);
        TEXT(" + STAGES];\n"
             "\n");
        if (keys_ahead) {
          TEXT("__device__ __forceinline__ uint32_t k_loaded(int place) {\n"
               "  return shared_address(&tail_barriers[place ? 2 + STAGES : 0]);\n"
               "}\n");
        } else {
          TEXT("__device__ __forceinline__ uint32_t k_loaded() {\n"
               "  return shared_address(&tail_barriers[0]);\n"
               "}\n");
        }
        TEXT("__device__ __forceinline__ uint32_t v_loaded() {\n"
             "  return shared_address(&tail_barriers[1]);\n"
             "}\n"
             "__device__ __forceinline__ uint32_t step_loaded(int stage) {\n"
             "  return shared_address(&tail_barriers[2 + stage]);\n"
             "}\n"
             "\n"
             "__device__ __forceinline__ bool is_tail(const Work *work, Step step) {\n"
             "  return step.row + BLOCK_M > work->at->seqlen_q;\n"
             "}\n"
             "\n"
             "__device__ __forceinline__ bool has_key_tail(const Work *work) {\n"
             "  return work->key_begin + BLOCK_N > work->at->seqlen_k;\n"
             "}\n"
             "\n"
             "// One warp: rows `valid` to `rows` - 1 of each slab become zeros, for products to see.\n"
             "__device__ __forceinline__ void clear_rows(unsigned char *tile, int slabs, int rows, int valid) {\n"
             "  for (int slab = 0; slab < slabs; ++slab)\n"
             "    for (int chunk = valid * 8 + threadIdx.x % 32; chunk < rows * 8; chunk += 32)\n"
             "      *(uint4 *)(tile + slab * rows * 128 + chunk * 16) = uint4{0, 0, 0, 0};\n"
             "  fence_proxy_async();\n"
             "}\n"
             "\n");
        if (keys_ahead) {
          TEXT("// One warp: K of a block that the sequence's keys do not fill, and below V. `parities`: the bits\n"
               "// behind the stages' are of such K in both places, and of such V.\n"
               "__device__ __forceinline__ void clear_keys(unsigned char *smem, const Work *work,\n"
               "                                           uint32_t *parities) {\n"
               "  const int valid = work->at->seqlen_k - work->key_begin, place = work->before.keys % 2;\n"
               "  if (work->steps == 0 || valid >= BLOCK_N)\n"
               "    return;\n"
               "  // The copy engine hands over K. All lanes have cleared it when the first arrives.\n"
               "  wait_for_phase(k_loaded(place), *parities >> (STAGES + place) & 1);\n"
               "  *parities ^= 1u << (STAGES + place);\n"
               "  clear_rows(smem + place * KEYS_OFFSET, K_SLABS, BLOCK_N, valid);\n"
               "  __syncwarp();\n"
               "  arrive_once(keys_there(place));\n"
               "}\n"
               "\n"
               "__device__ __forceinline__ void clear_values(unsigned char *smem, uint32_t shared,\n"
               "                                             const Work *work, uint32_t *parities) {\n"
               "  const int valid = work->at->seqlen_k - work->key_begin;\n"
               "  if (valid >= BLOCK_N)\n"
               "    return;\n"
               "  wait_for_phase(v_loaded(), *parities >> (STAGES + 2) & 1);\n"
               "  *parities ^= 1u << (STAGES + 2);\n"
               "  clear_rows(smem + V_OFFSET, V_SLABS, BLOCK_N, valid);\n"
               "  __syncwarp();\n"
               "  arrive_once(v_full(shared));\n"
               "}\n"
               "\n");
        } else {
          TEXT("// One warp: K and V of a block that the sequence's keys do not fill.\n");
          if (takes) {
            TEXT("// `parities`: the bit behind the stages' is of such key blocks.\n"
                 "__device__ __forceinline__ void clear_keys(unsigned char *smem, uint32_t shared, const Work *work,\n"
                 "                                           uint32_t *parities) {\n");
          } else {
            TEXT("__device__ __forceinline__ void clear_keys(unsigned char *smem, uint32_t shared,\n"
                 "                                           const Work *work) {\n");
          }
          TEXT("  const int valid = work->at->seqlen_k - work->key_begin;\n"
               "  if (work->steps == 0 || valid >= BLOCK_N)\n"
               "    return;\n");
          if (takes) {
            TEXT("  const int parity = *parities >> STAGES & 1;\n"
                 "  *parities ^= 1u << STAGES;\n");
          }
          TEXT("  // The copy engine hands over K, and V below. All lanes have cleared them when the first arrives.\n"
               "  wait_for_phase(k_loaded(), ");
          STRING(takes ? "parity" : "0");
          TEXT(");\n"
               "  clear_rows(smem, K_SLABS, BLOCK_N, valid);\n"
               "  __syncwarp();\n"
               "  arrive_once(k_full(shared));\n"
               "  wait_for_phase(v_loaded(), ");
          STRING(takes ? "parity" : "0");
          TEXT(");\n"
               "  clear_rows(smem + V_OFFSET, V_SLABS, BLOCK_N, valid);\n"
               "  __syncwarp();\n"
               "  arrive_once(v_full(shared));\n"
               "}\n"
               "\n");
        }
      }
      TEXT("// One thread: K of the block's keys.\n"
           "__device__ __forceinline__ void load_keys(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
           "                                          const Work *work) {\n");
      if (keys_ahead) {
        TEXT("  const int place = work->before.keys % 2;\n"
             "  const uint32_t keys = shared + place * KEYS_OFFSET;\n"
             "  const uint32_t full = has_key_tail(work) ? k_loaded(place) : keys_there(place);\n"
             "  const int row = work->at->k_row + work->key_begin, batch = work->at->k_batch;\n"
             "  // The consumers' warps arrived: hands over the place of the K before last.\n"
             "  wait_for_phase(keys_read(place), work->before.keys / 2 % 2 ^ 1);\n");
      } else if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  const uint32_t full = has_key_tail(work) ? k_loaded() : k_full(shared);\n"
             "  const int row = work->at->k_row + work->key_begin, batch = work->at->k_batch;\n");
      } else {
        TEXT("  const uint32_t full = k_full(shared);\n"
             "  const int row = work->key_begin, batch = work->batch;\n");
      }
      TEXT("  mbarrier_arrive_expect(full, K_SLABS * KEY_SLAB_BYTES);\n"
           "#pragma unroll\n"
           "  for (int slab = 0; slab < K_SLABS; ++slab)\n"
           "    tma_load_4d(");
      STRING(keys_ahead ? "keys" : "shared");
      TEXT(" + slab * KEY_SLAB_BYTES, &args->k, full, slab * 64, row, work->kv_head,\n"
           "                batch);\n"
           "}\n"
           "\n");
      if ((block_n != 80) && (block_n != 96)) {
        TEXT("// One thread: Q and dO of step `n`, and ");
        if (read_apart) {
          TEXT("V with the first, K behind it");
        } else if (takes) {
          TEXT("K and V behind the first");
        } else {
          TEXT("V with the first");
        }
        TEXT(".\n"
             "__device__ __forceinline__ void load_step(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
             "                                          const Work *work, int n, Step step, Stage stage) {\n");
        if (keys_ahead) {
          TEXT("  if (n == 0)\n"
               "    load_keys(args, shared, work);\n");
        }
        TEXT("  // The consumers' warps arrived; hands over the space of the step that was here a round ago.\n"
             "  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);\n");
        if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
          TEXT("  const bool tail = is_tail(work, step);\n"
               "  const uint32_t q = tail ? step_loaded(stage.index) : q_full(shared, stage.index);\n"
               "  const uint32_t dout = tail ? q : do_full(shared, stage.index);\n"
               "  const uint32_t v = has_key_tail(work) ? v_loaded() : v_full(shared);\n"
               "  const int row = work->at->q_row + step.row, batch = work->at->q_batch;\n"
               "  const int key = work->at->k_row + work->key_begin, key_batch = work->at->k_batch;\n"
               "  mbarrier_arrive_expect(q, tail ? Q_BYTES + DO_BYTES : Q_BYTES);\n"
               "  if (tail)\n"
               "    mbarrier_arrive(q_full(shared, stage.index));\n");
        } else {
          TEXT("  const uint32_t q = q_full(shared, stage.index), dout = do_full(shared, stage.index);\n"
               "  const uint32_t v = v_full(shared);\n"
               "  const int row = step.row, batch = work->batch;\n"
               "  const int key = work->key_begin, key_batch = work->batch;\n"
               "  mbarrier_arrive_expect(q, Q_BYTES);\n");
        }
        TEXT("#pragma unroll\n"
             "  for (int slab = 0; slab < K_SLABS; ++slab)\n"
             "    tma_load_4d(shared + Q_OFFSET + stage.index * Q_BYTES + slab * ROW_SLAB_BYTES, &args->q, q,\n"
             "                slab * 64, row, step.head, batch);\n");
        if (!takes || read_apart) {
          TEXT("  if (n == 0) {\n");
          if (read_apart) {
            TEXT("    // The consumers arrived: hands over the place of the V before.\n"
                 "    wait_for_phase(v_empty(), work->before.keys % 2 ^ 1);\n");
          }
          TEXT("    mbarrier_arrive_expect(v, V_SLABS * KEY_SLAB_BYTES);\n"
               "#pragma unroll\n"
               "    for (int slab = 0; slab < V_SLABS; ++slab)\n"
               "      tma_load_4d(shared + V_OFFSET + slab * KEY_SLAB_BYTES, &args->v, v, slab * 64, key,\n"
               "                  work->kv_head, key_batch);\n"
               "  }\n");
        }
        if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
          TEXT("  if (!tail)\n"
               "    mbarrier_arrive_expect(dout, DO_BYTES);\n");
        } else {
          TEXT("  mbarrier_arrive_expect(dout, DO_BYTES);\n");
        }
        TEXT("#pragma unroll\n"
             "  for (int slab = 0; slab < V_SLABS; ++slab)\n"
             "    tma_load_4d(shared + DO_OFFSET + stage.index * DO_BYTES + slab * ROW_SLAB_BYTES, &args->dout,\n"
             "                dout, slab * 64, row, step.head, batch);\n");
        if (takes) {
          TEXT("  if (n == 0) {\n");
          if (read_apart) {
            TEXT("    // dQ's warps arrived: hands over the place of the K before.\n"
                 "    wait_for_phase(k_empty(), work->before.keys % 2 ^ 1);\n"
                 "    load_keys(args, shared, work);\n"
                 "  }\n");
          } else {
            if (keys_ahead) {
              TEXT("    // The consumers' warps arrived: hands over the place of the V before.\n"
                   "    wait_for_phase(values_read(), work->before.keys % 2 ^ 1);\n");
            } else {
              TEXT("    // The consumers arrived: hands over the place of the K and V before.\n"
                   "    wait_for_phase(keys_empty(), work->before.keys % 2 ^ 1);\n"
                   "    load_keys(args, shared, work);\n");
            }
            TEXT("    mbarrier_arrive_expect(v, V_SLABS * KEY_SLAB_BYTES);\n"
                 "#pragma unroll\n"
                 "    for (int slab = 0; slab < V_SLABS; ++slab)\n"
                 "      tma_load_4d(shared + V_OFFSET + slab * KEY_SLAB_BYTES, &args->v, v, slab * 64, key,\n"
                 "                  work->kv_head, key_batch);\n"
                 "  }\n");
          }
        }
        TEXT("}\n"
             "\n");
      }
      TEXT("// Four of a step's rows of lse, or, from lane 16 on, of delta.\n"
           "__device__ __forceinline__ float4 fetch_rows(const attnpress_bwd_args *args, const Work *work,\n"
           "                                             Step step) {\n"
           "  const int lane = threadIdx.x % 32;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  const int64_t from =\n"
             "      (int64_t)step.head * args->row_tiles * 16 + work->at->values_row + step.row;\n");
      } else {
        TEXT("  const int64_t from =\n"
             "      ((int64_t)work->batch * args->heads_q + step.head) * args->row_tiles * 16 + step.row;\n");
      }
      TEXT("  return *(const float4 *)((lane < 16 ? args->lse_log2 : args->delta) + from + lane % 16 * 4);\n"
           "}\n"
           "\n");
      if ((block_n != 80) && (block_n != 96)) {
        TEXT("// One warp: these rows, to where they belong.\n");
        if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
          TEXT("// `parities`: of the stages' next phase of step_loaded(), a bit each.\n"
               "__device__ __forceinline__ void store_rows(unsigned char *smem, uint32_t shared, const Work *work,\n"
               "                                           float4 four, Step step, Stage stage,\n"
               "                                           uint32_t *parities) {\n");
        } else {
          TEXT("__device__ __forceinline__ void store_rows(unsigned char *smem, uint32_t shared, float4 four,\n"
               "                                           Stage stage) {\n");
        }
        TEXT("  // The consumers' warps arrived; hands over the space of the step that was here a round ago.\n"
             "  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);\n"
             "  *(float4 *)(smem + ROWS_OFFSET + stage.index * ROWS_BYTES + threadIdx.x % 32 * 16) = four;\n");
        if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
          TEXT("  if (is_tail(work, step)) {\n"
               "    const int valid = work->at->seqlen_q - step.row;\n"
               "    // The copy engine hands over Q and dO.\n"
               "    wait_for_phase(step_loaded(stage.index), *parities >> stage.index & 1);\n"
               "    *parities ^= 1u << stage.index;\n"
               "    clear_rows(smem + Q_OFFSET + stage.index * Q_BYTES, K_SLABS, BLOCK_M, valid);\n"
               "    clear_rows(smem + DO_OFFSET + stage.index * DO_BYTES, V_SLABS, BLOCK_M, valid);\n"
               "    __syncwarp();\n"
               "    arrive_once(do_full(shared, stage.index));\n"
               "  }\n");
        }
        TEXT("  // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
             "  __syncwarp();\n"
             "  arrive_once(q_full(shared, stage.index));\n"
             "}\n"
             "\n"
             "// One thread: K and V of the block's keys, ");
        if (takes) {
          TEXT("and");
        } else {
          TEXT("then");
        }
        TEXT(" Q and dO of each step.\n"
             "__device__ __forceinline__ void produce(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
             "                                        const Work *work) {\n");
        if (!takes) {
          TEXT("  load_keys(args, shared, work);\n");
        }
        TEXT("  Step step = {work->first_head, work->");
        STRING(parts ? "walk_begin" : "row_begin");
        TEXT("};\n"
             "  Stage stage = ");
        STRING(takes ? "progress_stage(work->before, STAGES)" : "{0, 0}");
        TEXT(";\n"
             "  for (int n = 0; n < work->steps; ++n) {\n"
             "    load_step(args, shared, work, n, step, stage);\n"
             "    stage = next_stage(stage, STAGES);\n"
             "    step = step_after(step, work);\n"
             "  }\n"
             "}\n"
             "\n"
             "// One warp: lse and delta of each step, four rows a lane.\n"
             "__device__ __forceinline__ void produce_rows(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                             uint32_t shared, const Work *work");
        STRING((takes && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) ? ",\n                                             uint32_t *parities" : "");
        TEXT(") {\n"
             "  Step step = {work->first_head, work->");
        STRING(parts ? "walk_begin" : "row_begin");
        TEXT("};\n"
             "  Stage stage = ");
        STRING(takes ? "progress_stage(work->before, STAGES)" : "{0, 0}");
        TEXT(";\n");
        if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
          if (keys_ahead) {
            TEXT("  clear_keys(smem, work, parities);\n");
          } else if (takes) {
            TEXT("  clear_keys(smem, shared, work, parities);\n");
          } else {
            TEXT("  uint32_t parities = 0;\n"
                 "  clear_keys(smem, shared, work);\n");
          }
        }
        if (prepares) {
          TEXT("  if (work->shares > 0) {\n"
               "    // Warps of earlier units arrived: hands over lse and delta, and what dQ is added to.\n"
               "    if (threadIdx.x % 32 == 0)\n"
               "      while (load_acquire(args->dq_zeroed + work->batch * args->heads_kv + work->kv_head) <\n"
               "             work->shares) {\n"
               "      }\n"
               "    __syncwarp();\n"
               "  }\n");
        }
        TEXT("  for (int n = 0; n < work->steps; ++n) {\n");
        if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
          TEXT("    store_rows(smem, shared, work, fetch_rows(args, work, step), step, stage, ");
          STRING(takes ? "parities" : "&parities");
          TEXT(");\n");
          if (keys_ahead) {
            TEXT("    if (n == 0)\n"
                 "      clear_values(smem, shared, work, parities);\n");
          }
        } else {
          TEXT("    store_rows(smem, shared, fetch_rows(args, work, step), stage);\n");
        }
        TEXT("    stage = next_stage(stage, STAGES);\n"
             "    step = step_after(step, work);\n"
             "  }\n"
             "}\n");
      }
      TEXT("// One thread: K and V of the block's keys, then Q and dO of each step.\n"
           "__device__ __forceinline__ void produce(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
           "                                        const Work *work) {\n"
           "  load_keys(args, shared, work);\n"
           "  Step step = {work->first_head, work->walk_begin};\n"
           "  Stage stage = {0, 0}, dout = {0, 0};\n"
           "  for (int n = 0; n < work->steps; ++n) {\n"
           "    const uint32_t q_place = shared + Q_OFFSET + stage.index * Q_BYTES;\n"
           "    const uint32_t dout_place = shared + DO_OFFSET + dout.index * DO_BYTES;\n"
           "    // All consumers' warps arrived; hands over the space of the step that was here a round ago.\n"
           "    wait_for_phase(q_empty(shared, stage.index), stage.parity ^ 1);\n"
           "    mbarrier_arrive_expect(q_full(shared, stage.index), Q_BYTES);\n"
           "#pragma unroll\n"
           "    for (int slab = 0; slab < K_SLABS; ++slab)\n"
           "      tma_load_4d(q_place + slab * ROW_SLAB_BYTES, &args->q, q_full(shared, stage.index), slab * 64,\n"
           "                  step.row, step.head, work->batch);\n"
           "    if (n == 0) {\n"
           "      mbarrier_arrive_expect(v_full(shared), V_SLABS * KEY_SLAB_BYTES);\n"
           "#pragma unroll\n"
           "      for (int slab = 0; slab < V_SLABS; ++slab)\n"
           "        tma_load_4d(shared + V_OFFSET + slab * KEY_SLAB_BYTES, &args->v, v_full(shared), slab * 64,\n"
           "                    work->key_begin, work->kv_head, work->batch);\n"
           "    }\n"
           "    // The same of dO.\n"
           "    wait_for_phase(do_empty(shared, dout.index), dout.parity ^ 1);\n"
           "    mbarrier_arrive_expect(do_full(shared, dout.index), DO_BYTES);\n"
           "#pragma unroll\n"
           "    for (int slab = 0; slab < V_SLABS; ++slab)\n"
           "      tma_load_4d(dout_place + slab * ROW_SLAB_BYTES, &args->dout, do_full(shared, dout.index),\n"
           "                  slab * 64, step.row, step.head, work->batch);\n"
           "    stage = next_stage(stage, STAGES);\n"
           "    dout = next_stage(dout, DO_STAGES);\n"
           "    step = step_after(step, work);\n"
           "  }\n"
           "}\n"
           "\n"
           "// One warp: lse of each step, four rows a lane, beside Q, and delta beside dO.\n"
           "__device__ __forceinline__ void produce_rows(const attnpress_bwd_args *args, unsigned char *smem,\n"
           "                                             uint32_t shared, const Work *work) {\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  Step step = {work->first_head, work->walk_begin};\n"
           "  Stage stage = {0, 0}, dout = {0, 0};\n"
           "  for (int n = 0; n < work->steps; ++n) {\n"
           "    const float4 four = fetch_rows(args, work, step);\n"
           "    // All consumers' warps arrived; hands over the space of the step that was here a round ago.\n"
           "    wait_for_phase(q_empty(shared, stage.index), stage.parity ^ 1);\n"
           "    if (lane < 16)\n"
           "      *(float4 *)(smem + LSE_OFFSET + stage.index * BLOCK_M * 4 + lane * 16) = four;\n"
           "    // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
           "    __syncwarp();\n"
           "    arrive_once(q_full(shared, stage.index));\n"
           "    // The same of delta.\n"
           "    wait_for_phase(do_empty(shared, dout.index), dout.parity ^ 1);\n"
           "    if (lane >= 16)\n"
           "      *(float4 *)(smem + DELTA_OFFSET + dout.index * BLOCK_M * 4 + lane % 16 * 16) = four;\n"
           "    __syncwarp();\n"
           "    arrive_once(do_full(shared, dout.index));\n"
           "    stage = next_stage(stage, STAGES);\n"
           "    dout = next_stage(dout, DO_STAGES);\n"
           "    step = step_after(step, work);\n"
           "  }\n"
           "}\n"
           "\n"
           "// ---- Products ----\n"
           "\n"
           "// Starts S = Q K^T, (BLOCK_M, S_KEYS), as a group of its own.\n"
           "__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,\n"
           "                                             int consumer, int stage) {\n"
           "  const uint64_t q = wgmma_descriptor(shared + Q_OFFSET, 1024, 0) + stage * (Q_BYTES / 16);\n"
           "  const uint64_t k = wgmma_descriptor(shared + consumer * S_KEYS * 128, 1024, 0);\n"
           "  wgmma_order_n");
      INTEGER(s_keys);
      TEXT("(score);\n"
           "  wgmma_fence();\n"
           "#pragma unroll\n"
           "  for (int step = 0; step < S_STEPS; ++step)\n"
           "    wgmma_m64n");
      INTEGER(s_keys);
      TEXT("k16_");
      STRING(in->word[AP_ATTENTION_DTYPE]);
      TEXT("_ss(score, q + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16,\n"
           "                            k + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n"
           "  wgmma_commit();\n"
           "}\n"
           "\n"
           "// Starts dP = dO V^T, (BLOCK_M, S_KEYS), as a group of its own.\n"
           "__device__ __forceinline__ void start_dp(float dp[S_TILES * 4], uint32_t shared, int consumer,\n"
           "                                         int stage) {\n"
           "  const uint64_t dout = wgmma_descriptor(shared + DO_OFFSET, 1024, 0) + stage * (DO_BYTES / 16);\n"
           "  const uint64_t v = wgmma_descriptor(shared + V_OFFSET + consumer * S_KEYS * 128, 1024, 0);\n"
           "  wgmma_order_n");
      INTEGER(s_keys);
      TEXT("(dp);\n"
           "  wgmma_fence();\n"
           "#pragma unroll\n"
           "  for (int step = 0; step < DP_STEPS; ++step)\n"
           "    wgmma_m64n");
      INTEGER(s_keys);
      TEXT("k16_");
      STRING(in->word[AP_ATTENTION_DTYPE]);
      TEXT("_ss(dp, dout + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16,\n"
           "                            v + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n"
           "  wgmma_commit();\n"
           "}\n"
           "\n");
      if (apart) {
        TEXT("// A consumer's slabs of a gradient have been written, or waited for.\n"
             "__device__ __forceinline__ void wgmma_order_n");
        INTEGER(block_n);
        TEXT("(float d[2][BLOCK_N / 2]) {\n"
             "  wgmma_order_n");
        INTEGER(block_n);
        TEXT("(d[0]);\n"
             "  wgmma_order_n");
        INTEGER(block_n);
        TEXT("(d[1]);\n"
             "}\n"
             "\n"
             "// Starts d += rows^T scores, (64, BLOCK_N), of two slabs, as a group of its own. `rows`: the offset\n"
             "// of the first one of Q or dO; `scores`: that of dS or P.\n"
             "__device__ __forceinline__ void start_columns(float d[2][BLOCK_N / 2], uint32_t shared, int rows,\n"
             "                                              int scores) {\n"
             "  const uint64_t a = wgmma_descriptor(shared + rows, 1024, 0);\n"
             "  const uint64_t b = wgmma_descriptor(shared + scores, 1024, ROW_SLAB_BYTES);\n"
             "  wgmma_order_n");
        INTEGER(block_n);
        TEXT("(d);\n"
             "  wgmma_fence();\n"
             "#pragma unroll\n"
             "  for (int slab = 0; slab < 2; ++slab)\n"
             "#pragma unroll\n"
             "    for (int step = 0; step < ROW_STEPS; ++step)\n"
             "      wgmma_m64n");
        INTEGER(block_n);
        TEXT("k16_");
        STRING(in->word[AP_ATTENTION_DTYPE]);
        TEXT("_ss_trans_both(\n"
             "          d[slab], a + (slab * ROW_SLAB_BYTES + step * 16 * 128) / 16, b + step * 16 * 128 / 16, 1);\n"
             "  wgmma_commit();\n"
             "}\n"
             "\n");
      } else {
        TEXT("// Starts d += rows^T scores, (64, BLOCK_N), as a group of its own. `rows`: the offset of a slab of\n"
             "// Q or dO; `scores`: that of dS or P.\n"
             "__device__ __forceinline__ void start_columns(float d[BLOCK_N / 2], uint32_t shared, int rows,\n"
             "                                              int scores) {\n"
             "  const uint64_t a = wgmma_descriptor(shared + rows, 1024, 0);\n"
             "  const uint64_t b = wgmma_descriptor(shared + scores, 1024, ROW_SLAB_BYTES);\n"
             "  wgmma_order_n");
        INTEGER(block_n);
        TEXT("(d);\n"
             "  wgmma_fence();\n"
             "#pragma unroll\n"
             "  for (int step = 0; step < ROW_STEPS; ++step)\n"
             "    wgmma_m64n");
        INTEGER(block_n);
        TEXT("k16_");
        STRING(in->word[AP_ATTENTION_DTYPE]);
        TEXT("_ss_trans_both(d, a + step * 16 * 128 / 16, b + step * 16 * 128 / 16, 1);\n"
             "  wgmma_commit();\n"
             "}\n"
             "\n");
      }
      TEXT("// Starts dV^T += dO^T P and dK^T += Q^T dS.\n"
           "__device__ __forceinline__ void start_dv(float dv");
      STRING(apart ? "[2]" : "");
      TEXT("[BLOCK_N / 2], uint32_t shared, int consumer,\n"
           "                                         int stage) {\n"
           "  start_columns(dv, shared, DO_OFFSET + stage * DO_BYTES + consumer * ");
      STRING(apart ? "2 * " : "");
      TEXT("ROW_SLAB_BYTES, P_OFFSET);\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ void start_dk(float dk");
      STRING(apart ? "[2]" : "");
      TEXT("[BLOCK_N / 2], uint32_t shared, int consumer,\n"
           "                                         int stage) {\n"
           "  start_columns(dk, shared, Q_OFFSET + stage * Q_BYTES + consumer * ");
      STRING(apart ? "2 * " : "");
      TEXT("ROW_SLAB_BYTES, DS_OFFSET);\n"
           "}\n"
           "\n"
           "// Starts dQ = dS K, (BLOCK_M, 64), as a group of its own.\n"
           "__device__ __forceinline__ void start_dq(float dq[32], uint32_t shared, int part) {\n"
           "  const uint64_t ds = wgmma_descriptor(shared + DS_OFFSET, 1024, 0);\n"
           "  const uint64_t k =\n"
           "      wgmma_descriptor(shared, 1024, KEY_SLAB_BYTES) + part * (KEY_SLAB_BYTES / 16);\n"
           "  wgmma_order_n64(dq);\n"
           "  wgmma_fence();\n"
           "#pragma unroll\n"
           "  for (int step = 0; step < KEY_STEPS; ++step)\n"
           "    wgmma_m64n64k16_");
      STRING(in->word[AP_ATTENTION_DTYPE]);
      TEXT("_ss_trans(dq, ds + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16,\n"
           "                                  k + step * 16 * 128 / 16, step > 0);\n"
           "  wgmma_commit();\n"
           "}\n"
           "\n"
           "// ---- Consumers 0 and 1 ----\n"
           "\n"
           "// Scores that do not count become -inf.\n"
           "__device__ __forceinline__ void mask_block(float score[S_TILES * 4],\n"
           "                                           const attnpress_bwd_args *args, int row, int key) {\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half)\n");
      if (mask == AP_ATTENTION_MASK_WINDOW) {
        TEXT("    mask_scores(score, S_TILES, half, window_row(row + half * 8, &args->score, args->seqlen_k),\n"
             "                key);\n");
      } else {
        TEXT("    mask_scores(score, S_TILES, half,\n"
             "                row_at(row + half * 8, CAUSAL, args->seqlen_q, args->seqlen_k), key);\n");
      }
      TEXT("}\n"
           "\n"
           "// S of a step becomes P.\n"
           "__device__ __forceinline__ void make_probabilities(float score[S_TILES * 4],\n"
           "                                                   const attnpress_bwd_args *args,\n"
           "                                                   const Work *work, int consumer, Step step,\n"
           "                                                   const float lse_log2[2]) {\n"
           "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
           "  const int first_key = work->key_begin + consumer * S_KEYS;\n"
           "  const int row = step.row + warp * 16 + lane / 4, key = first_key + lane % 4 * 2;\n");
      if (bias != AP_ATTENTION_BIAS_NONE) {
        TEXT("#pragma unroll\n"
             "  for (int half = 0; half < 2; ++half)\n"
             "    add_bias_at(score, BIAS, S_TILES, half, false, args, work->batch, step.head, row + half * 8,\n"
             "                key);\n");
      }
      if (alibi) {
        TEXT("  const float slope = load_slope(&args->score, work->batch, step.head);\n"
             "#pragma unroll\n"
             "  for (int half = 0; half < 2; ++half)\n"
             "    add_alibi_at(score, S_TILES, half, false, args, slope, row + half * 8, key);\n");
      }
      if (mask == AP_ATTENTION_MASK_WINDOW) {
        TEXT("  // The rows that see all of the consumer's keys.\n"
             "  const int unmasked_begin =\n"
             "      queries_in_window(first_key + S_KEYS - 1, &args->score, args->seqlen_q, args->seqlen_k)\n"
             "          .key_begin;\n"
             "  const int unmasked_end =\n"
             "      queries_in_window(first_key, &args->score, args->seqlen_q, args->seqlen_k).key_end;\n");
      }
      TEXT("  const bool masked = first_key + S_KEYS > args->seqlen_k");
      if (mask == AP_ATTENTION_MASK_WINDOW) {
        TEXT(" || step.row < unmasked_begin ||\n"
             "                      step.row + BLOCK_M > unmasked_end");
      } else if (mask == AP_ATTENTION_MASK_CAUSAL) {
        TEXT(" ||\n"
             "                      step.row - args->seqlen_q + args->seqlen_k < first_key + S_KEYS - 1");
      }
      TEXT(";\n"
           "  if (masked)\n"
           "    mask_block(score, args, row, key);\n"
           "  recompute_probabilities(score, S_TILES, false, lse_log2, args->scale_log2);\n"
           "}\n"
           "\n"
           "// Rounds a thread's part of P or dS into its place at `offset`, for products to read.\n"
           "__device__ __forceinline__ void store_scores(unsigned char *smem, int offset,\n"
           "                                             const float score[S_TILES * 4], int consumer) {\n"
           "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
           "  // In the first chunk of 8 keys, from which another's place differs by ^. Places are made anew:\n"
           "  // they would be kept in registers.\n"
           "  const int place = opaque(offset + (warp * 16 + lane / 4) * 128 + lane / 4 * 16 + lane % 4 * 4);\n"
           "  uint32_t rounded[S_TILES * 2];\n"
           "  round_probabilities(rounded, score, S_TILES, DTYPE);\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < S_TILES * 2; ++i) {\n"
           "    const int chunk = consumer * S_TILES + i / 2;\n"
           "    *(uint32_t *)(smem + (place ^ chunk % 8 * 16) + chunk / 8 * ROW_SLAB_BYTES +\n"
           "                  i % 2 * 8 * 128) = rounded[i];\n"
           "  }\n"
           "  // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
           "  __syncwarp();\n"
           "}\n"
           "\n");
      if (serial) {
        TEXT("// What is kept of P while dP takes the place of S: P 2^KEPT_BITS in fp16, which has 11 bits of each\n"
             "// down to 2^-28, whatever DTYPE is, so that dS is hardly less exact than of P in fp32.\n"
             "constexpr int KEPT_BITS = 14;\n"
             "constexpr float KEPT_SCALE = 1.0f / (1 << KEPT_BITS);\n"
             "\n"
             "// The same of P.\n"
             "__device__ __forceinline__ void store_kept(unsigned char *smem, const uint32_t p[S_TILES * 2],\n"
             "                                           int consumer) {\n"
             "  float score[S_TILES * 4];\n"
             "#pragma unroll\n"
             "  for (int i = 0; i < S_TILES * 2; ++i) {\n"
             "    score[i * 2] = widen_low(FP16, p[i]) * KEPT_SCALE;\n"
             "    score[i * 2 + 1] = widen_high(FP16, p[i]) * KEPT_SCALE;\n"
             "  }\n"
             "  store_scores(smem, P_OFFSET, score, consumer);\n"
             "}\n"
             "\n");
        if (apart) {
          TEXT("// In shared memory, as the registers are those of dK and dV: a thread's own words.\n"
               "__device__ __forceinline__ void write_kept(unsigned char *smem, const uint32_t p[S_TILES * 2]) {\n"
               "  uint32_t *const place = (uint32_t *)(smem + KEPT_OFFSET) + opaque(threadIdx.x - 128);\n"
               "#pragma unroll\n"
               "  for (int i = 0; i < S_TILES * 2; ++i)\n"
               "    place[i * GRADIENT_THREADS] = p[i];\n"
               "}\n"
               "\n"
               "__device__ __forceinline__ void read_kept(uint32_t p[S_TILES * 2], const unsigned char *smem) {\n"
               "  const uint32_t *const place =\n"
               "      (const uint32_t *)(smem + KEPT_OFFSET) + opaque(threadIdx.x - 128);\n"
               "#pragma unroll\n"
               "  for (int i = 0; i < S_TILES * 2; ++i)\n"
               "    p[i] = place[i * GRADIENT_THREADS];\n"
               "}\n"
               "\n");
        }
        TEXT("// dP becomes dS = P (dP - delta).\n"
             "__device__ __forceinline__ void differentiate_kept_p(float dp[S_TILES * 4],\n"
             "                                                     const uint32_t p[S_TILES * 2],\n"
             "                                                     const float delta[2]) {\n"
             "#pragma unroll\n"
             "  for (int i = 0; i < S_TILES * 2; ++i) {\n"
             "    const float d = delta[i % 2] * KEPT_SCALE;\n"
             "    dp[i * 2] = widen_low(FP16, p[i]) * (dp[i * 2] * KEPT_SCALE - d);\n"
             "    dp[i * 2 + 1] = widen_high(FP16, p[i]) * (dp[i * 2 + 1] * KEPT_SCALE - d);\n"
             "  }\n"
             "}\n"
             "\n");
      }
      TEXT("// Waits for P or dS. The fence is here, as those who store would wait at it for what they stored.\n"
           "__device__ __forceinline__ void wait_for_scores(uint32_t barrier, int parity) {\n"
           "  wait_for_phase(barrier, parity);\n"
           "  fence_proxy_async();\n"
           "}\n"
           "\n"
           "// Two rows of lse or delta.\n"
           "__device__ __forceinline__ void load_rows(float two[2], const unsigned char *smem, int offset) {\n"
           "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
           "  const float *const rows = (const float *)(smem + offset) + warp * 16 + lane / 4;\n"
           "  two[0] = rows[0];\n"
           "  two[1] = rows[8];\n"
           "}\n"
           "\n"
           "// ---- The gradients ----\n"
           "\n"
           "// Rounds 64 columns of a gradient, from `column` on, into a tile whose rows are keys. A lane has\n"
           "// two keys of a column, and gives one of them to the lane of the column beside it for the other's.\n"
           "__device__ __forceinline__ void round_columns(unsigned char *tile, int row_bytes,\n"
           "                                              const float d[BLOCK_N / 2], int thread, int column,\n"
           "                                              int columns, float scale, bool accumulate) {\n"
           "  const int lane = thread % 32, warp = thread / 32 % 4;\n"
           "  const bool odd = lane / 4 % 2;\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half) {\n"
           "    const int first = column + warp * 16 + half * 8;\n"
           "    if (first >= columns)\n"
           "      continue;\n"
           "    unsigned char *const place =\n"
           "        tile + (lane % 4 * 2 + odd) * row_bytes + (first + lane / 8 * 2) * 2;\n"
           "#pragma unroll\n"
           "    for (int keys = 0; keys < BLOCK_N / 8; ++keys) {\n"
           "      const float *const pair = d + keys * 4 + half * 2;\n"
           "      const float other = __shfl_xor_sync(0xffffffff, odd ? pair[0] : pair[1], 4);\n"
           "      uint32_t *const target = (uint32_t *)(place + keys * 8 * row_bytes);\n"
           "      *target = round_pair(DTYPE, (odd ? other : pair[0]) * scale, (odd ? pair[1] : other) * scale,\n"
           "                           accumulate ? *target : 0, accumulate);\n"
           "    }\n"
           "  }\n"
           "}\n"
           "\n"
           "// Stores a consumer's 64 columns of a gradient, from `column` on, in tiles of the block's keys.\n"
           "__device__ __forceinline__ void store_columns(float *sum, const float d[BLOCK_N / 2], int column,\n"
           "                                              int columns, int keys) {\n"
           "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
           "  const int c = lane / 4, row = lane % 4 * 2; // the first of a tile of 8 columns and 8 keys\n"
           "  const int first = column + warp * 16;\n"
           "  sum += first / 8 * 128 + sum_place(row * 4 + c / 2, c % 2);\n"
           "#pragma unroll\n"
           "  for (int tile = 0; tile < BLOCK_N / 8; ++tile)\n"
           "#pragma unroll\n"
           "    for (int i = 0; i < 4; ++i)\n"
           "      if (first + i / 2 * 8 < columns && tile * 8 + row + i % 2 < keys)\n"
           "        sum[(tile / 2 * (columns / 8) + i / 2) * 128 + sum_place(i % 2 * 4, tile % 2 * 2)] =\n"
           "            d[tile * 4 + i];\n"
           "}\n"
           "\n");
      if (apart) {
        TEXT("// A consumer's columns of dK and dV; both store them.\n"
             "__device__ __forceinline__ void store_gradients(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                                const Work *work, int consumer,\n"
             "                                                const float dk[2][BLOCK_N / 2],\n"
             "                                                const float dv[2][BLOCK_N / 2]) {\n"
             "  if (is_shared(args, work)) { // other blocks have other parts of the walk\n"
             "    const int tile = work->key_begin / 16, keys = args->seqlen_k - work->key_begin;\n"
             "    const int64_t at =\n"
             "        key_sum_offset(args, work->part, work->batch, work->kv_head, tile, HEAD_DIM);\n"
             "#pragma unroll\n"
             "    for (int i = 0; i < 2; ++i) {\n"
             "      store_columns(args->dk_sum + at, dk[i], consumer * 128 + i * 64, HEAD_DIM, keys);\n"
             "      store_columns(args->dv_sum + at, dv[i], consumer * 128 + i * 64, HEAD_DIM, keys);\n"
             "    }\n"
             "    return;\n"
             "  }\n"
             "  // All consumers arrive, and these wait: K, V and all steps have been read.\n"
             "  named_barrier_sync(1, CONSUMER_THREADS);\n");
      } else {
        TEXT("// A consumer's columns of dK and, where it has any, of dV; all consumers store them.\n"
             "__device__ __forceinline__ void store_gradients(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                                const Work *work, int consumer,\n"
             "                                                const float dk[BLOCK_N / 2],\n"
             "                                                const float dv[BLOCK_N / 2]) {\n"
             "  if (is_shared(args, work)) { // other blocks have other parts of the walk\n"
             "    const int tile = work->key_begin / 16, keys = args->seqlen_k - work->key_begin;\n"
             "    store_columns(args->dk_sum + key_sum_offset(args, work->part, work->batch, work->kv_head, tile,\n"
             "                                                HEAD_DIM),\n"
             "                  dk, consumer * 64, HEAD_DIM, keys);\n"
             "    store_columns(args->dv_sum + key_sum_offset(args, work->part, work->batch, work->kv_head, tile,\n"
             "                                                HEAD_DIM_V),\n"
             "                  dv, consumer * 64, HEAD_DIM_V, keys);\n"
             "    return;\n"
             "  }\n"
             "  // All consumers arrive and wait: K, V and all steps have been read.\n"
             "  named_barrier_sync(1, CONSUMER_THREADS);\n");
      }
      TEXT("  const int thread = threadIdx.x - 128;\n"
           "  const int valid = args->seqlen_k - work->key_begin;\n"
           "  unsigned char *const dv_tile = smem + BLOCK_N * DK_ROW_BYTES;\n"
           "  uint16_t *const dk_rows = (uint16_t *)args->dk + work->batch * args->dk_batch_stride +\n"
           "                            work->kv_head * args->dk_head_stride +\n"
           "                            work->key_begin * args->dk_row_stride;\n"
           "  uint16_t *const dv_rows = (uint16_t *)args->dv + work->batch * args->dv_batch_stride +\n"
           "                            work->kv_head * args->dv_head_stride +\n"
           "                            work->key_begin * args->dv_row_stride;\n"
           "  if (args->accumulate) {\n"
           "    load_gradient(smem, dk_rows, args->dk_row_stride, BLOCK_N, HEAD_DIM, valid, thread,\n"
           "                  GRADIENT_THREADS);\n"
           "    load_gradient(dv_tile, dv_rows, args->dv_row_stride, BLOCK_N, HEAD_DIM_V, valid, thread,\n"
           "                  GRADIENT_THREADS);\n"
           "    // Those that store them arrive and wait: hands over what dK and dV are added to.\n"
           "    named_barrier_sync(");
      INTEGER(apart ? 2 : 1);
      TEXT(", GRADIENT_THREADS);\n"
           "  }\n");
      if (apart) {
        TEXT("#pragma unroll\n"
             "  for (int i = 0; i < 2; ++i) {\n"
             "    round_columns(smem, DK_ROW_BYTES, dk[i], thread, consumer * 128 + i * 64, HEAD_DIM,\n"
             "                  args->scale, args->accumulate);\n"
             "    round_columns(dv_tile, DV_ROW_BYTES, dv[i], thread, consumer * 128 + i * 64, HEAD_DIM, 1.0f,\n"
             "                  args->accumulate);\n"
             "  }\n");
      } else {
        TEXT("  round_columns(smem, DK_ROW_BYTES, dk, thread, consumer * 64, HEAD_DIM, args->scale,\n"
             "                args->accumulate);\n"
             "  if (consumer < V_SLABS)\n"
             "    round_columns(dv_tile, DV_ROW_BYTES, dv, thread, consumer * 64, HEAD_DIM_V, 1.0f,\n"
             "                  args->accumulate);\n");
      }
      TEXT("  // Those that store them arrive and wait: hands over the tiles of dK and dV.\n"
           "  named_barrier_sync(");
      INTEGER(apart ? 2 : 1);
      TEXT(", GRADIENT_THREADS);\n"
           "  store_gradient(dk_rows, args->dk_row_stride, smem, BLOCK_N, HEAD_DIM, valid, thread,\n"
           "                 GRADIENT_THREADS);\n"
           "  store_gradient(dv_rows, args->dv_row_stride, dv_tile, BLOCK_N, HEAD_DIM_V, valid, thread,\n"
           "                 GRADIENT_THREADS);\n"
           "}\n"
           "\n"
           "// ---- The consumers ----\n"
           "\n");
      if (!serial) {
        TEXT("// One of the two that compute S and dP, each of half of the keys.\n"
             "__device__ __forceinline__ void consume_scores(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                               uint32_t shared, const Work *work, int consumer) {\n"
             "  float dk[BLOCK_N / 2] = {}, dv[BLOCK_N / 2] = {};\n"
             "  Step step = {work->first_head, work->walk_begin};\n"
             "  Stage stage = {0, 0}; // of Q\n"
             "  if (work->steps > 0) {\n"
             "    float score[S_TILES * 4], dp[S_TILES * 4], lse_log2[2], delta[2];\n"
             "    // The copy engine, and the producer, hand over K, V, Q, dO, lse and delta.\n"
             "    wait_for_phase(k_full(shared), 0);\n"
             "    wait_for_phase(q_full(shared, 0), 0);\n"
             "    start_scores(score, shared, consumer, 0);\n"
             "    wait_for_phase(v_full(shared), 0);\n"
             "    wait_for_phase(do_full(shared, 0), 0);\n"
             "    start_dp(dp, shared, consumer, 0);\n"
             "    load_rows(lse_log2, smem, LSE_OFFSET);\n"
             "    load_rows(delta, smem, DELTA_OFFSET);\n"
             "    wgmma_wait(1);\n"
             "    wgmma_order_n");
        INTEGER(s_keys);
        TEXT("(score);\n"
             "    make_probabilities(score, args, work, consumer, step, lse_log2);\n"
             "    store_scores(smem, P_OFFSET, score, consumer);\n"
             "    arrive_once(p_full(shared));\n"
             "    wgmma_wait(0);\n"
             "    wgmma_order_n");
        INTEGER(s_keys);
        TEXT("(dp);\n"
             "    differentiate_scores(dp, score, S_TILES, false, delta);\n"
             "    store_scores(smem, DS_OFFSET, dp, consumer);\n"
             "    arrive_once(ds_full(shared));\n"
             "  }\n"
             "  for (int n = 1; n < work->steps; ++n) {\n"
             "    shared = opaque(shared); // else the descriptors of all products are kept in registers\n"
             "    float score[S_TILES * 4], dp[S_TILES * 4], lse_log2[2], delta[2];\n"
             "    step = step_after(step, work);\n"
             "    const int dout = n % 2, parity = n / 2 % 2; // the place of this step's dO\n"
             "    const Stage before = stage;\n"
             "    stage = next_stage(stage, STAGES);\n"
             "    // The copy engine and the producer hand over Q and lse, and below dO and delta.\n"
             "    wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
             "    start_scores(score, shared, consumer, stage.index);\n"
             "    // All warps that compute them arrived: hands over P, and below dS, of the step before.\n"
             "    wait_for_scores(p_full(shared), (n - 1) % 2);\n"
             "    start_dv(dv, shared, consumer, dout ^ 1);\n"
             "    wait_for_phase(do_full(shared, dout), parity);\n"
             "    start_dp(dp, shared, consumer, dout);\n"
             "    wait_for_scores(ds_full(shared), (n - 1) % 2);\n"
             "    start_dk(dk, shared, consumer, before.index);\n"
             "    load_rows(lse_log2, smem, LSE_OFFSET + stage.index * BLOCK_M * 4);\n"
             "    wgmma_wait(3);\n"
             "    wgmma_order_n");
        INTEGER(s_keys);
        TEXT("(score);\n"
             "    make_probabilities(score, args, work, consumer, step, lse_log2);\n"
             "    load_rows(delta, smem, DELTA_OFFSET + dout * BLOCK_M * 4);\n"
             "    wgmma_wait(2);\n"
             "    wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dv);\n"
             "    arrive_once(do_empty(shared, dout ^ 1));\n"
             "    arrive_once(p_empty(shared));\n"
             "    // All consumers' warps arrived: hands over the place of P, and below that of dS.\n"
             "    wait_for_phase(p_empty(shared), (n - 1) % 2);\n"
             "    store_scores(smem, P_OFFSET, score, consumer);\n"
             "    arrive_once(p_full(shared));\n"
             "    wgmma_wait(1);\n"
             "    wgmma_order_n");
        INTEGER(s_keys);
        TEXT("(dp);\n"
             "    differentiate_scores(dp, score, S_TILES, false, delta);\n"
             "    wgmma_wait(0);\n"
             "    wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dk);\n"
             "    arrive_once(q_empty(shared, before.index));\n"
             "    arrive_once(ds_empty(shared));\n"
             "    wait_for_phase(ds_empty(shared), (n - 1) % 2);\n"
             "    store_scores(smem, DS_OFFSET, dp, consumer);\n"
             "    arrive_once(ds_full(shared));\n"
             "  }\n"
             "  if (work->steps > 0) {\n"
             "    const int last = work->steps - 1;\n"
             "    wait_for_scores(p_full(shared), last % 2);\n"
             "    start_dv(dv, shared, consumer, last % 2);\n"
             "    wait_for_scores(ds_full(shared), last % 2);\n"
             "    start_dk(dk, shared, consumer, stage.index);\n"
             "    wgmma_wait(0);\n"
             "    wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dv);\n"
             "    wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dk);\n"
             "  }\n"
             "  store_gradients(args, smem, work, consumer, dk, dv);\n"
             "}\n");
      } else {
        TEXT("// Where Q of the step before lies.\n"
             "__device__ __forceinline__ int stage_before(Stage stage) {\n"
             "  return stage.index == 0 ? STAGES - 1 : stage.index - 1;\n"
             "}\n"
             "\n"
             "// One of the two that compute S and dP, each of half of the keys: dP where S was, and P was made.\n"
             "// dV of a step follows its own dP, under which dS is made, and dK follows the next S, under which P\n"
             "// is; so the first step has the dK of a dS of zeros before it.\n"
             "__device__ __forceinline__ void consume_scores(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                               uint32_t shared, const Work *work, const Work *found,\n"
             "                                               int consumer) {\n");
        if (apart) {
          TEXT("  float dk[2][BLOCK_N / 2] = {}, dv[2][BLOCK_N / 2] = {};\n");
        } else {
          TEXT("  float dk[BLOCK_N / 2] = {}, dv[BLOCK_N / 2] = {};\n");
        }
        TEXT("  if (work->steps > 0) {\n"
             "    Step step = {work->first_head, work->walk_begin};\n"
             "    Stage stage = {0, 0}; // of Q\n"
             "    {\n"
             "      const float none[S_TILES * 4] = {};\n"
             "      store_scores(smem, DS_OFFSET, none, consumer);\n"
             "      arrive_once(ds_full(shared));\n"
             "    }\n"
             "    // The copy engine hands over K and V.\n"
             "    wait_for_phase(k_full(shared), 0);\n"
             "    wait_for_phase(v_full(shared), 0);\n"
             "#pragma unroll 1\n"
             "    for (int n = 0; n < work->steps; ++n) {\n"
             "      shared = opaque(shared); // else the descriptors of all products are kept in registers\n"
             "      float score[S_TILES * 4], lse_log2[2], delta[2];\n"
             "      uint32_t p[S_TILES * 2]; // what is kept of P\n"
             "      const int dout = ");
        STRING(apart ? "0" : "n % 2");
        TEXT("; // the place of this step's dO\n"
             "      // The copy engine and the producer hand over Q and lse, and below dO and delta.\n"
             "      wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
             "      start_scores(score, shared, consumer, stage.index);\n"
             "      // All warps that compute it arrived: hands over dS of the step before.\n"
             "      wait_for_scores(ds_full(shared), n % 2);\n"
             "      start_dk(dk, shared, consumer, n == 0 ? 0 : stage_before(stage));\n"
             "      load_rows(lse_log2, smem, LSE_OFFSET + stage.index * BLOCK_M * 4);\n"
             "      lse_log2[0] -= KEPT_BITS, lse_log2[1] -= KEPT_BITS;\n"
             "      wgmma_wait(1);\n"
             "      wgmma_order_n");
        INTEGER(s_keys);
        TEXT("(score);\n"
             "      make_probabilities(score, args, work, consumer, step, lse_log2);\n"
             "      round_probabilities(p, score, S_TILES, FP16);\n");
        if (apart) {
          TEXT("      write_kept(smem, p);\n");
        }
        TEXT("      wait_for_phase(do_full(shared, dout), ");
        STRING(apart ? "n % 2" : "n / 2 % 2");
        TEXT(");\n"
             "      start_dp(score, shared, consumer, dout);\n"
             "      // All consumers' warps arrived: hands over the place of P, and below that of dS.\n"
             "      wait_for_phase(p_empty(shared), n % 2 ^ 1);\n");
        if (apart) {
          TEXT("      read_kept(p, smem);\n");
        }
        TEXT("      store_kept(smem, p, consumer);\n"
             "      arrive_once(p_full(shared));\n"
             "      wgmma_wait(1);\n"
             "      wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dk);\n"
             "      if (n > 0)\n"
             "        arrive_once(q_empty(shared, stage_before(stage)));\n"
             "      arrive_once(ds_empty(shared));\n"
             "      // The same of P.\n"
             "      wait_for_scores(p_full(shared), n % 2);\n"
             "      start_dv(dv, shared, consumer, dout);\n"
             "      load_rows(delta, smem, DELTA_OFFSET + dout * BLOCK_M * 4);\n"
             "      wgmma_wait(1);\n"
             "      wgmma_order_n");
        INTEGER(s_keys);
        TEXT("(score);\n");
        if (apart) {
          TEXT("      read_kept(p, smem);\n");
        }
        TEXT("      differentiate_kept_p(score, p, delta);\n"
             "      wait_for_phase(ds_empty(shared), n % 2);\n"
             "      store_scores(smem, DS_OFFSET, score, consumer);\n"
             "      arrive_once(ds_full(shared));\n"
             "      wgmma_wait(0);\n"
             "      wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dv);\n"
             "      arrive_once(do_empty(shared, dout));\n"
             "      arrive_once(p_empty(shared));\n"
             "      stage = next_stage(stage, STAGES);\n"
             "      step = step_after(step, work);\n"
             "    }\n"
             "    wait_for_scores(ds_full(shared), work->steps % 2);\n"
             "    start_dk(dk, shared, consumer, stage_before(stage));\n"
             "    wgmma_wait(0);\n"
             "    wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dk);\n"
             "  }\n"
             "  store_gradients(args, smem, found, consumer, dk, dv);\n"
             "}\n");
      }
      TEXT("// Adds 64 columns of a step's dQ to the sum.\n"
           "__device__ __forceinline__ void add_part(float *sum, const float dq[32], int part) {\n"
           "  const int lane = threadIdx.x % 32;\n"
           "#pragma unroll\n"
           "  for (int tile = 0; tile < 8; ++tile)\n"
           "    if (HEAD_DIM % 64 == 0 || part * 8 + tile < HEAD_DIM / 8)\n"
           "      add_to_sum(sum + (part * 8 + tile) * 128, dq + tile * 4, lane);\n"
           "}\n"
           "\n");
      if (apart) {
        TEXT("// The last one, which computes dQ.\n"
             "__device__ __forceinline__ void consume_sums(const attnpress_bwd_args *args, uint32_t shared,\n"
             "                                             const Work *work) {\n"
             "  const int warp = threadIdx.x / 32 % 4;\n"
             "  Step step = {work->first_head, work->walk_begin};\n"
             "  if (threadIdx.x % 32 == 0)\n"
             "    wait_for_zeros(args, unit_of(args, work), 2);\n"
             "  __syncwarp();\n"
             "  if (work->steps > 0) {\n"
             "    wait_for_phase(k_full(shared), 0); // the copy engine hands over K\n"
             "    // The zeros before the first step are not read: hands back their place.\n"
             "    wait_for_phase(ds_full(shared), 0);\n"
             "    __syncwarp();\n"
             "    arrive_once(ds_empty(shared));\n"
             "  }\n"
             "  for (int n = 0; n < work->steps; ++n, step = step_after(step, work)) {\n"
             "    float *const sum =\n"
             "        args->dq_sum + sum_offset(args, work->batch, step.head, step.row / 16 + warp, HEAD_DIM);\n"
             "    const bool valid = step.row + warp * 16 < args->seqlen_q;\n"
             "    float dq[32];\n"
             "    // All warps that compute it arrived: hands over dS.\n"
             "    wait_for_scores(ds_full(shared), n % 2 ^ 1);\n"
             "#pragma unroll 1 // else the descriptors of all parts are kept in registers\n"
             "    for (int part = 0; part < K_SLABS; ++part) {\n"
             "      start_dq(dq, shared, part);\n"
             "      wgmma_wait(0);\n"
             "      wgmma_order_n64(dq);\n"
             "      if (part + 1 == K_SLABS) {\n"
             "        // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
             "        __syncwarp();\n"
             "        arrive_once(ds_empty(shared));\n"
             "      }\n"
             "      if (valid)\n"
             "        add_part(sum, dq, part);\n"
             "    }\n"
             "  }\n"
             "  if (!is_shared(args, work))\n"
             "    named_barrier_arrive(1, CONSUMER_THREADS); // hands over the place of K\n"
             "}\n");
      } else {
        TEXT("// The last one, which computes dQ.\n"
             "__device__ __forceinline__ void consume_sums(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                             uint32_t shared, const Work *work) {\n"
             "  const int warp = threadIdx.x / 32 % 4;\n"
             "  float dk[BLOCK_N / 2] = {};\n");
        if (has_v) {
          TEXT("  float dv[BLOCK_N / 2] = {};\n");
        }
        TEXT("  Step step = {work->first_head, work->walk_begin};\n"
             "  Stage stage = {0, 0};\n"
             "  if (threadIdx.x % 32 == 0)\n"
             "    wait_for_zeros(args, unit_of(args, work), 2);\n"
             "  __syncwarp();\n"
             "  if (work->steps > 0) // the copy engine hands over K\n"
             "    wait_for_phase(k_full(shared), 0);\n");
        if (serial) {
          TEXT("  __syncwarp();\n"
               "  arrive_once(ds_empty(shared)); // of zeros before the first step\n");
        }
        TEXT("#pragma unroll 1\n"
             "  for (int n = 0; n < work->steps; ++n) {\n"
             "    shared = opaque(shared); // else the descriptors of all products are kept in registers\n"
             "    float dq[32];\n"
             "    float *const sum =\n"
             "        args->dq_sum + sum_offset(args, work->batch, step.head, step.row / 16 + warp, HEAD_DIM);\n"
             "    const bool valid = step.row + warp * 16 < args->seqlen_q;\n");
        if (has_v) {
          TEXT("    // The copy engine hands over dO, and all warps that compute it P.\n"
               "    wait_for_phase(do_full(shared, n % 2), n / 2 % 2);\n"
               "    wait_for_scores(p_full(shared), n % 2);\n"
               "    start_dv(dv, shared, CONSUMERS - 1, n % 2);\n");
        }
        TEXT("    // The same of Q and dS.\n"
             "    wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
             "    wait_for_scores(ds_full(shared), ");
        STRING(serial ? "n % 2 ^ 1" : "n % 2");
        TEXT(");\n"
             "    start_dq(dq, shared, 0);\n"
             "    start_dk(dk, shared, CONSUMERS - 1, stage.index);\n");
        if (has_v) {
          TEXT("    wgmma_wait(2);\n"
               "    wgmma_order_n");
          INTEGER(block_n);
          TEXT("(dv);\n"
               "    arrive_once(do_empty(shared, n % 2));\n"
               "    arrive_once(p_empty(shared));\n");
        }
        TEXT("    wgmma_wait(1);\n"
             "    wgmma_order_n64(dq);\n"
             "    if (valid)\n"
             "      add_part(sum, dq, 0);\n"
             "    start_dq(dq, shared, 1);\n"
             "    wgmma_wait(1);\n"
             "    wgmma_order_n");
        INTEGER(block_n);
        TEXT("(dk);\n"
             "    arrive_once(q_empty(shared, stage.index));\n"
             "    wgmma_wait(0);\n"
             "    wgmma_order_n64(dq);\n"
             "    if (valid)\n"
             "      add_part(sum, dq, 1);\n"
             "    start_dq(dq, shared, 2);\n"
             "    wgmma_wait(0);\n"
             "    wgmma_order_n64(dq);\n"
             "    // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
             "    __syncwarp();\n"
             "    arrive_once(ds_empty(shared));\n"
             "    if (valid)\n"
             "      add_part(sum, dq, 2);\n"
             "    stage = next_stage(stage, STAGES);\n"
             "    step = step_after(step, work);\n"
             "  }\n"
             "  store_gradients(args, smem, work, CONSUMERS - 1, dk, ");
        STRING(has_v ? "dv" : "dk");
        TEXT(");\n"
             "}\n"
             "\n");
      }
      TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, 1)\n"
           "    ");
      STRING(stem);
      TEXT("(\n"
           "        const __grid_constant__ attnpress_bwd_sm90_args args) {\n"
           "  extern __shared__ __align__(1024) unsigned char smem[];\n"
           "  const uint32_t shared = shared_address(smem);\n"
           "  if (threadIdx.x == 0) {\n"
           "    prefetch_tensor_map(&args.q);\n"
           "    prefetch_tensor_map(&args.dout);\n"
           "    prefetch_tensor_map(&args.k);\n"
           "    prefetch_tensor_map(&args.v);\n"
           "    mbarrier_init(k_full(shared), 1);\n"
           "    mbarrier_init(v_full(shared), 1);\n"
           "    mbarrier_init(p_full(shared), 8);\n"
           "    mbarrier_init(p_empty(shared), ");
      STRING(apart ? "4 * 2" : "4 * V_SLABS");
      TEXT(");\n"
           "    mbarrier_init(ds_full(shared), 8);\n"
           "    mbarrier_init(ds_empty(shared), 4 * CONSUMERS);\n"
           "    for (int stage = 0; stage < STAGES; ++stage) {\n"
           "      mbarrier_init(q_full(shared, stage), 2);\n"
           "      mbarrier_init(q_empty(shared, stage), ");
      STRING(apart ? "4 * 2" : "4 * CONSUMERS");
      TEXT(");\n"
           "    }\n"
           "    for (int stage = 0; stage < DO_STAGES; ++stage) {\n"
           "      mbarrier_init(do_full(shared, stage), 2);\n"
           "      mbarrier_init(do_empty(shared, stage), ");
      STRING(apart ? "4 * 2" : "4 * V_SLABS");
      TEXT(");\n"
           "    }\n"
           "    fence_mbarrier_init();\n"
           "  }\n"
           "  __shared__ Work found; // some read it again: registers\n"
           "  if (threadIdx.x == 32)\n"
           "    found = find_work(&args.bwd, blockIdx.x);\n"
           "  // All threads arrive and wait: hands over the barriers, and the work.\n"
           "  __syncthreads();\n"
           "\n"
           "  const Work work = found;\n"
           "  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
           "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n"
           "  // bwd_delta may still run: all but what brings Q, K, V and dO wait for its end.\n"
           "  if (warp != 0)\n"
           "    griddepcontrol_wait();\n"
           "  griddepcontrol_launch_dependents();\n"
           "  if (warp < 4) {\n"
           "    decrease_registers(PRODUCER_REGISTERS);\n"
           "    if (threadIdx.x == 0 && work.steps > 0)\n"
           "      produce(&args, shared, &found);\n"
           "    if (warp == 1)\n"
           "      produce_rows(&args.bwd, smem, shared, &found);\n"
           "    if (warp >= 2)\n"
           "      zero_ahead(&args.bwd, unit_of(&args.bwd, &work), work.key_begin / BLOCK_N, HEAD_DIM,\n"
           "                 warp - 2, 2);\n"
           "  } else if (warp < 12) {\n"
           "    increase_registers(SCORE_REGISTERS);\n"
           "    consume_scores(&args.bwd, smem, shared, &work, ");
      STRING(serial ? "&found, " : "");
      TEXT("warp / 4 - 1);\n"
           "  } else {\n");
      if (apart) {
        TEXT("    decrease_registers(SUM_REGISTERS);\n"
             "    consume_sums(&args.bwd, shared, &found);\n");
      } else {
        TEXT("    increase_registers(SUM_REGISTERS);\n"
             "    consume_sums(&args.bwd, smem, shared, &work);\n");
      }
      TEXT("  }\n"
           "}\n");
    }
  } else {
    TEXT("// ");
    STRING(stem);
    TEXT("\n"
         "//\n");
    if (sums) {
      TEXT("// The backward pass: dV = P^T dO, dK = scale dS^T Q, and dQ / scale = dS K, added up in fp32,\n");
    } else {
      TEXT("// Half of the backward pass: dV = P^T dO and dK = scale dS^T Q,\n");
    }
    TEXT("// where P = softmax(scale Q K^T) is computed anew from the forward pass's lse, dP = dO V^T and\n"
         "// dS = P (dP - delta), delta = rowsum(dO out).\n"
         "//\n"
         "// One thread block owns BLOCK_N keys of one head and walks over the query rows that see them, of\n"
         "// all query heads that share the key head, BLOCK_M at a time");
    if (takes) {
      TEXT("; then, where there are fewer thread\n"
           "// blocks than of these, it takes others");
    }
    TEXT(". Warpgroup 0 is the producer: one\n"
         "// thread of it keeps the copy engine (TMA) busy, and a warp brings lse and delta. S and dP are\n"
         "// computed transposed, and P and dS pass through shared memory, where all products read them");
    if (stages > 2) {
      TEXT(", so\n"
           "// that S and dP of the next step can be computed before dV and dK of this one");
    }
    TEXT(".\n"
         "// The two consumers have half of a step's rows each for S and dP, and half of the columns of dK and\n"
         "// dV.\n");
    if (sums) {
      TEXT("// A warpgroup of its own computes dQ, and adds it to its sum, while the consumers go on");
      if (bulk) {
        TEXT(";\n"
             "// the copy engine does the adding");
      }
      TEXT(".\n");
    }
    TEXT("//\n"
         "// Pressed from templates/attention/flash_bwd_exchange_sm90.cu.j2 with tile ");
    STRING(tile_name);
    TEXT(" by\n"
         "//   python -m generator --pass ");
    STRING(in->word[AP_ATTENTION_PASS]);
    TEXT(" --hdim ");
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
    if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
      TEXT(" --");
      STRING(in->word[AP_ATTENTION_SEQUENCES]);
    }
    if (runs) {
      TEXT(" --runs");
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
         "#include \"attnpress/device/gradient.cuh\"\n");
    if (bulk) {
      TEXT("#include \"attnpress/device/gradient_bulk.cuh\"\n");
    }
    if (sums && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) {
      TEXT("#include \"attnpress/device/gradient_direct.cuh\"\n");
    }
    if (((((mask == AP_ATTENTION_MASK_WINDOW) || softcap) || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) {
      TEXT("#include \"attnpress/device/gradient_modify.cuh\"\n");
    }
    if (parts || ((mask == AP_ATTENTION_MASK_CAUSAL) && (sequences == AP_ATTENTION_SEQUENCES_DENSE))) {
      TEXT("#include \"attnpress/device/gradient_order.cuh\"\n");
    }
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("#include \"attnpress/device/gradient_sequence.cuh\"\n");
    }
    TEXT("#include \"attnpress/device/gradient_rows.cuh\"\n"
         "#include \"attnpress/device/gradient_store.cuh\"\n");
    if (takes) {
      TEXT("#include \"attnpress/device/gradient_take.cuh\"\n");
    }
    if (parts) {
      TEXT("#include \"attnpress/device/gradient_zero.cuh\"\n");
    }
    TEXT("#include \"attnpress/device/pipeline.cuh\"\n"
         "#include \"attnpress/device/ptx_address.cuh\"\n"
         "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
         "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
         "#include \"attnpress/device/ptx_tma.cuh\"\n"
         "#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
         "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
         "#include \"attnpress/device/wgmma/ptx_wgmma_n32.cuh\"\n"
         "#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(k_width);
    TEXT(".cuh\"\n");
    if (v_width != k_width) {
      TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
      INTEGER(v_width);
      TEXT(".cuh\"\n");
    }
    if ((sums && (k_width != dq_width)) && (v_width != dq_width)) {
      TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
      INTEGER(dq_width);
      TEXT(".cuh\"\n");
    }
    TEXT("#include \"attnpress/device/score.cuh\"\n"
         "#include \"attnpress/device/tile.cuh\"\n"
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
    if (bias == AP_ATTENTION_BIAS_FP16) {
      TEXT("constexpr BiasDtype BIAS = BIAS_FP16;\n");
    } else if (bias == AP_ATTENTION_BIAS_BF16) {
      TEXT("constexpr BiasDtype BIAS = BIAS_BF16;\n");
    } else if (bias == AP_ATTENTION_BIAS_FP32) {
      TEXT("constexpr BiasDtype BIAS = BIAS_FP32;\n");
    }
    TEXT("constexpr int BLOCK_M = ");
    INTEGER(block_m);
    TEXT("; // query rows of a step\n"
         "constexpr int BLOCK_N = ");
    INTEGER(block_n);
    TEXT("; // keys of a thread block\n"
         "constexpr int S_ROWS = 32; // query rows of a consumer's S\n"
         "constexpr int STAGES = ");
    INTEGER(stages);
    TEXT("; // steps of Q, dO, lse and delta in shared memory\n"
         "constexpr int SMEM_BYTES = ");
    INTEGER(smem_bytes);
    TEXT(";\n"
         "constexpr int PRODUCER_REGISTERS = 24; // of a thread\n");
    if (sums) {
      TEXT("constexpr int DQ_REGISTERS = 72;\n"
           "constexpr int CONSUMER_REGISTERS = 208;\n");
    } else {
      TEXT("constexpr int CONSUMER_REGISTERS = 240;\n");
    }
    TEXT("\n"
         "constexpr int CONSUMERS = 2;\n"
         "constexpr int CONSUMER_THREADS = 128 * CONSUMERS;\n"
         "constexpr int NUM_THREADS = 128 + CONSUMER_THREADS");
    STRING(sums ? " + 128" : "");
    TEXT(";\n"
         "constexpr int S_TILES = S_ROWS / 8; // of 8 queries\n"
         "constexpr int S_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of K Q^T\n"
         "constexpr int DP_STEPS = ceil_div(HEAD_DIM_V, 16); // of V dO^T\n"
         "constexpr int ROW_STEPS = BLOCK_M / 16; // of 16 queries, of P^T dO and dS^T Q\n");
    if (sums) {
      TEXT("constexpr int KEY_STEPS = BLOCK_N / 16; // of 16 keys, of dS K\n"
           "constexpr int DQ_COLUMNS = ");
      INTEGER(dq_width);
      TEXT("; // of dQ in registers at a time\n"
           "constexpr int DQ_PARTS = ceil_div(HEAD_DIM, DQ_COLUMNS);\n");
    }
    TEXT("// A consumer's columns: a slab, or two");
    if (k_half || v_half) {
      TEXT("; of three slabs, one and half of the second");
    }
    TEXT(".\n"
         "constexpr int K_COLUMNS = ");
    INTEGER(k_columns / 2);
    TEXT("; // of a consumer, of dK\n"
         "constexpr int V_COLUMNS = ");
    INTEGER(v_columns / 2);
    TEXT(";\n"
         "\n");
    if (bulk) {
      TEXT("// Shared memory: K | V | ring of Q | ring of dO | P^T of two steps | dS^T of two steps | dQ, two\n"
           "// parts | ring of lse and delta | barriers. Matrices are stored as slabs of 64 columns, rows of 128\n"
           "// bytes in the 128-byte swizzle; columns past the head dim are zeros.\n");
    } else {
      TEXT("// Shared memory: K | V | ring of Q | ring of dO | P^T of two steps | dS^T of two steps | ring of\n"
           "// lse and delta | barriers. Matrices are stored as slabs of 64 columns, rows of 128 bytes in the\n"
           "// 128-byte swizzle; columns past the head dim are zeros.\n");
    }
    TEXT("constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);\n"
         "constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);\n"
         "constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V\n"
         "constexpr int ROW_SLAB_BYTES = BLOCK_M * 128; // of Q and dO\n"
         "constexpr int Q_BYTES = K_SLABS * ROW_SLAB_BYTES; // of one step\n"
         "constexpr int DO_BYTES = V_SLABS * ROW_SLAB_BYTES;\n"
         "constexpr int P_BYTES = BLOCK_N * 128; // of one step, as dS\n"
         "constexpr int V_OFFSET = K_SLABS * KEY_SLAB_BYTES;\n"
         "constexpr int Q_OFFSET = V_OFFSET + V_SLABS * KEY_SLAB_BYTES;\n"
         "constexpr int DO_OFFSET = Q_OFFSET + STAGES * Q_BYTES;\n"
         "constexpr int P_OFFSET = DO_OFFSET + STAGES * DO_BYTES;\n"
         "constexpr int DS_OFFSET = P_OFFSET + 2 * P_BYTES;\n");
    if (bulk) {
      TEXT("// fp32, of each warp a row tile's DQ_COLUMNS, as they lie in dQ's sum; twice.\n"
           "constexpr int DQ_OFFSET = DS_OFFSET + 2 * P_BYTES;\n"
           "constexpr int DQ_WARP_BYTES = 16 * DQ_COLUMNS * 4;\n"
           "constexpr int ROWS_OFFSET = DQ_OFFSET + 8 * DQ_WARP_BYTES;\n");
    } else {
      TEXT("constexpr int ROWS_OFFSET = DS_OFFSET + 2 * P_BYTES;\n");
    }
    TEXT("constexpr int ROWS_BYTES = BLOCK_M * 8; // lse, then delta, of one step\n"
         "constexpr int BARRIER_OFFSET = ROWS_OFFSET + STAGES * ROWS_BYTES;\n"
         "static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (6 + 3 * STAGES), \"shared memory\");\n"
         "static_assert(BLOCK_M == 64 && BLOCK_N == 64, \"P and dS are slabs\");\n"
         "\n");
    if (dropout) {
      TEXT("__shared__ DropoutKept dropout_kept[4 * CONSUMERS]; // of each consumer warp\n"
           "static_assert(SMEM_BYTES + sizeof dropout_kept <= 227 * 1024, \"shared memory\");\n"
           "\n");
    }
    TEXT("// The barriers, by their shared addresses. At a \"full\" one the producer's arrivals, and the bytes\n"
         "// of the copy engine, hand what they brought to the consumers, which wait. At an \"empty\" one each\n"
         "// warp that has read arrives, the producer waits, and it hands the space back");
    if (sums) {
      TEXT("; dS goes from all\n"
           "// consumers to the warps that compute dQ");
    }
    TEXT(".\n"
         "__device__ __forceinline__ uint32_t k_full(uint32_t shared) {\n"
         "  return shared + BARRIER_OFFSET;\n"
         "}\n"
         "__device__ __forceinline__ uint32_t v_full(uint32_t shared) {\n"
         "  return shared + BARRIER_OFFSET + 8;\n"
         "}\n");
    if (sums) {
      TEXT("__device__ __forceinline__ uint32_t ds_full(uint32_t shared, int turn) {\n"
           "  return shared + BARRIER_OFFSET + 16 + 8 * turn;\n"
           "}\n"
           "__device__ __forceinline__ uint32_t ds_empty(uint32_t shared, int turn) {\n"
           "  return shared + BARRIER_OFFSET + 32 + 8 * turn;\n"
           "}\n");
    }
    TEXT("__device__ __forceinline__ uint32_t q_full(uint32_t shared, int stage) {\n"
         "  return shared + BARRIER_OFFSET + 48 + 8 * stage;\n"
         "}\n"
         "__device__ __forceinline__ uint32_t do_full(uint32_t shared, int stage) {\n"
         "  return q_full(shared, STAGES + stage);\n"
         "}\n"
         "__device__ __forceinline__ uint32_t step_empty(uint32_t shared, int stage) {\n"
         "  return q_full(shared, 2 * STAGES + stage);\n"
         "}\n"
         "\n");
    if (takes) {
      TEXT("// K has been read by the warps of dQ, which come to it last, and V by the consumers.\n"
           "__shared__ uint64_t read_barriers[2];\n"
           "\n"
           "__device__ __forceinline__ uint32_t k_empty() {\n"
           "  return shared_address(&read_barriers[0]);\n"
           "}\n"
           "__device__ __forceinline__ uint32_t v_empty() {\n"
           "  return shared_address(&read_barriers[1]);\n"
           "}\n"
           "\n"
           "constexpr int TAKE_READERS = NUM_THREADS / 32 - 1; // warps that read what the first one takes\n"
           "\n");
    }
    TEXT("// A thread block's keys, and the steps of its walk: `steps` of them, rows `row_begin` to\n"
         "// `row_end` - 1 of each of the query heads from `first_head` on.\n"
         "struct Work {\n"
         "  int batch, kv_head, key_begin, first_head;\n"
         "  int row_begin, row_end, steps;\n");
    if (parts) {
      TEXT("  int part; // of the group's walk; -1: it is whole, where other key blocks have parts\n"
           "  int walk_begin; // where the walk begins in the first head; in others, at row_begin\n");
    }
    if (passes) {
      TEXT("  // Each head's walk begins at walk_begin, and goes on at row_begin. Rows before `taken_end` are\n"
           "  // left by the block of the keys before, those from `passed_begin` on are for that of the keys\n"
           "  // behind.\n"
           "  int taken_end, passed_begin;\n");
    }
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      if (chains) {
        TEXT("  int group;    // query heads\n"
             "  int unit_end; // of the keys that the thread block takes one after the other\n"
             "  int sum_head; // where the first query head is in dq_sum\n"
             "  // Where a unit has all keys of its sequence: nothing of dQ comes before this key block, and rows\n"
             "  // before `whole_end` are complete with it.\n"
             "  int begins;\n"
             "  int whole_end;\n");
      }
      TEXT("  const SequencePlace *at; // in shared memory\n");
      if (prepares) {
        TEXT("  int number; // of the unit\n"
             "  int shares; // of what comes before, that warps of earlier units have\n");
      }
    }
    if (takes) {
      TEXT("  Progress before; // of the thread block\n");
    }
    TEXT("};\n"
         "\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      if (sequence_parts) {
        TEXT("// `first`, `group`: query heads of the key head, those of its part.\n"
             "__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, const Unit *unit,\n"
             "                                          int first, int group) {\n");
      } else {
        TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, const Unit *unit) {\n");
      }
      TEXT("  Work work;\n"
           "  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.\n"
           "  work.key_begin = unit->block * BLOCK_N;\n"
           "  work.kv_head = unit->head;\n"
           "  work.batch = unit->sequence;\n");
    } else {
      if (parts) {
        TEXT("// Which of a head's key blocks a thread block has, of which key head of all batches, and which part\n"
             "// of its walk.\n"
             "struct KeyPart {\n"
             "  int key_block, head, part, parts;\n"
             "};\n"
             "\n"
             "__device__ __forceinline__ KeyPart find_part(const attnpress_bwd_args *args, int block) {\n"
             "  if (!shares_by_steps(args)) {\n"
             "    const int number = block / args->blocks;\n"
             "    return {block % args->blocks, number / args->group_parts, number % args->group_parts,\n"
             "            args->group_parts};\n"
             "  }\n"
             "  const int heads = args->batch * args->heads_kv, whole = whole_blocks_of(args);\n"
             "  const bool is_whole = block < whole * heads;\n");
        if (mask == AP_ATTENTION_MASK_CAUSAL) {
          TEXT("  // The longest walks come first.\n"
               "  if (is_whole)\n"
               "    return {block / heads, block % heads, 0, 1};\n"
               "  block -= whole * heads;\n"
               "  const int number = block / args->group_parts;\n"
               "  return {whole + number / heads, number % heads, block % args->group_parts, args->group_parts};\n");
        } else {
          TEXT("  // Those that walk over the same rows are side by side.\n"
               "  if (is_whole)\n"
               "    return {block % whole, block / whole, 0, 1};\n"
               "  block -= whole * heads;\n"
               "  const int number = block / (args->blocks - whole);\n"
               "  return {whole + block % (args->blocks - whole), number / args->group_parts,\n"
               "          number % args->group_parts, args->group_parts};\n");
        }
        TEXT("}\n"
             "\n"
             "// Whether thread blocks share the walk of a key block, whose dK and dV are added up later.\n"
             "__device__ __forceinline__ bool is_shared(const attnpress_bwd_args *args, const Work *work) {\n"
             "  return args->dk_sum != nullptr && work->part >= 0;\n"
             "}\n"
             "\n"
             "// The thread blocks that have the same query heads as this one are unit_of() of all.\n"
             "__device__ __forceinline__ int unit_of(const attnpress_bwd_args *args, const Work *work) {\n"
             "  return (work->batch * args->heads_kv + work->kv_head) * args->group_parts + work->part;\n"
             "}\n"
             "\n");
      }
      if (mask == AP_ATTENTION_MASK_CAUSAL) {
        TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int index) {\n");
        if (takes) {
          TEXT("  const int block = block_in_turn(args, index, blocks_of_call(args));\n");
        } else {
          TEXT("  const int block = block_in_turn(args, index, gridDim.x);\n");
        }
      } else {
        TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int block) {\n");
      }
      TEXT("  Work work;\n"
           "  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.\n");
      if (parts) {
        TEXT("  const KeyPart at = find_part(args, block);\n"
             "  const int head = at.head;\n"
             "  work.key_begin = at.key_block * BLOCK_N;\n");
      } else {
        TEXT("  const int head = block / args->blocks;\n"
             "  work.key_begin = block % args->blocks * BLOCK_N;\n");
      }
      TEXT("  work.kv_head = head % args->heads_kv;\n"
           "  work.batch = head / args->heads_kv;\n");
    }
    if (parts) {
      TEXT("  // Its part of the query heads that share the key head.\n"
           "  const int all = args->heads_q / args->heads_kv;\n"
           "  const bool by_steps = shares_by_steps(args);\n"
           "  work.part = by_steps && at.parts == 1 ? -1 : at.part;\n"
           "  const int first = by_steps ? 0 : at.part * all / at.parts;\n"
           "  const int group = by_steps ? all : (at.part + 1) * all / at.parts - first;\n"
           "  work.first_head = work.kv_head * all + first;\n");
    } else if (sequence_parts) {
      TEXT("  work.first_head = work.kv_head * (args->heads_q / args->heads_kv) + first;\n");
    } else {
      TEXT("  const int group = args->heads_q / args->heads_kv;\n"
           "  work.first_head = work.kv_head * group;\n");
      if (chains) {
        TEXT("  work.group = group;\n");
      }
    }
    if (mask == AP_ATTENTION_MASK_WINDOW) {
      TEXT("  // Rows that see none of the keys are skipped.\n"
           "  const int last_key = min(work.key_begin + BLOCK_N, args->seqlen_k) - 1;\n"
           "  const int row_end =\n"
           "      queries_in_window(last_key, &args->score, args->seqlen_q, args->seqlen_k).key_end;\n"
           "  const int first_block =\n"
           "      queries_in_window(work.key_begin, &args->score, args->seqlen_q, args->seqlen_k).key_begin /\n"
           "      BLOCK_M;\n"
           "  const int blocks = max(0, ceil_div(row_end, BLOCK_M) - first_block);\n");
    } else {
      TEXT("  // Rows before the first that sees one of the keys are skipped.\n"
           "  const int first_block =\n"
           "      CAUSAL ? max(0, work.key_begin - args->seqlen_k + args->seqlen_q) / BLOCK_M : 0;\n"
           "  const int blocks = max(0, ceil_div(args->seqlen_q, BLOCK_M) - first_block);\n");
    }
    TEXT("  work.row_begin = first_block * BLOCK_M;\n"
         "  work.row_end = work.row_begin + blocks * BLOCK_M;\n"
         "  work.steps = blocks * group;\n");
    if (parts) {
      TEXT("  work.walk_begin = work.row_begin;\n"
           "  if (by_steps && work.steps > 0) {\n"
           "    const int begin = at.part * work.steps / at.parts;\n"
           "    work.steps = (at.part + 1) * work.steps / at.parts - begin;\n"
           "    work.first_head += begin / blocks;\n"
           "    work.walk_begin += begin % blocks * BLOCK_M;\n"
           "  }\n");
    }
    if (passes) {
      TEXT("  work.taken_end = 0;\n"
           "  work.passed_begin = work.row_end;\n"
           "  if (passes_on(args)) {\n"
           "    if (work.key_begin > 0)\n"
           "      work.taken_end = queries_in_window(work.key_begin - 1, &args->score, args->seqlen_q,\n"
           "                                         args->seqlen_k)\n"
           "                           .key_end;\n"
           "    if (work.key_begin + BLOCK_N < args->seqlen_k)\n"
           "      work.passed_begin = queries_in_window(work.key_begin + BLOCK_N, &args->score,\n"
           "                                            args->seqlen_q, args->seqlen_k)\n"
           "                              .key_begin /\n"
           "                          BLOCK_M * BLOCK_M;\n"
           "  }\n"
           "  // Rows that are passed on come first.\n"
           "  work.walk_begin = work.passed_begin < work.row_end ? max(work.passed_begin, work.row_begin)\n"
           "                                                     : work.row_begin;\n");
    }
    TEXT("  return work;\n"
         "}\n"
         "\n");
    if (takes) {
      TEXT("// What a thread block takes, in two places by turns.\n"
           "__shared__ Work works[2];\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("__shared__ SequencePlace sequences[2];\n");
      }
      TEXT("// Of the thread block behind that work.\n"
           "__device__ __forceinline__ Progress progress_behind(const Work *work) {\n"
           "  return {work->before.steps + work->steps, work->before.keys + (work->steps > 0)};\n"
           "}\n"
           "\n");
    }
    if (takes && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) {
      TEXT("// Key block `number`, for all warps to read: it begins at -1 where there are not so many. One warp.\n"
           "__device__ __forceinline__ void write_work(Work *work, const attnpress_bwd_args *args,\n"
           "                                           int number) {\n"
           "  Work found = {};\n"
           "  found.key_begin = -1;\n"
           "  if (number < blocks_of_call(args))\n"
           "    found = find_work(args, number);\n"
           "  if (threadIdx.x % 32 == 0)\n"
           "    *work = found;\n"
           "}\n"
           "\n");
    }
    if (chains) {
      TEXT("// Where the walk over the rows that see keys from `key` on begins.\n"
           "__device__ __forceinline__ int first_row_of(int key, int seqlen_q, int seqlen_k) {\n"
           "  return CAUSAL ? max(0, key - seqlen_k + seqlen_q) / BLOCK_M * BLOCK_M : 0;\n"
           "}\n"
           "\n"
           "// Of a key block, whose unit has all keys of a sequence with no more than `direct_keys`.\n"
           "__device__ __forceinline__ void find_whole_rows(Work *work, int direct_keys) {\n"
           "  const int seqlen_q = work->at->seqlen_q, seqlen_k = work->at->seqlen_k;\n"
           "  const int next = work->key_begin + BLOCK_N;\n"
           "  work->begins = seqlen_k <= direct_keys && work->key_begin == 0;\n"
           "  work->whole_end = seqlen_k > direct_keys ? 0\n"
           "                    : next >= seqlen_k\n"
           "                        ? seqlen_q // else where the walk of the keys behind begins\n"
           "                        : first_row_of(next, seqlen_q, seqlen_k);\n"
           "}\n"
           "\n");
    }
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      if (prepares) {
        TEXT("__shared__ Share shares[AHEAD_WARPS];\n"
             "\n"
             "__shared__ uint64_t ahead_barriers[AHEAD_WARPS];\n"
             "\n"
             "// One of the warps: its part of a later unit's share. `parity`: of the barrier's next phase.\n"
             "__device__ __forceinline__ void prepare_ahead(const attnpress_bwd_sm90_ragged_args *args,\n"
             "                                              const Work *work, uint32_t shared, int warp,\n"
             "                                              uint32_t *parity) {\n"
             "  const attnpress_bwd_ragged_args *const batch = &args->batch;\n"
             "  const int number = work->number + batch->bwd.zero_ahead;\n"
             "  Share *const share = &shares[warp];\n"
             "  if (batch->bwd.zero_ahead == 0 || number < (int)*end_of_first(batch) ||\n"
             "      !find_share(batch, number, share))\n"
             "    return;\n"
             "  do_share(args, share, HEAD_DIM, DTYPE, warp, AHEAD_WARPS,\n"
             "           shared + AHEAD_OFFSET + warp * AHEAD_BYTES, shared + ZEROS_OFFSET, ZERO_BYTES,\n"
             "           shared_address(&ahead_barriers[warp]), parity);\n"
             "}\n"
             "\n");
      }
      TEXT("// What thread block `number` of the grid computes, for all threads to read behind the next barrier:\n"
           "// one warp. Its keys begin at -1 where the grid has more than there are units.\n"
           "__device__ __forceinline__ void write_work(Work *work, SequencePlace *at,\n"
           "                                           const attnpress_bwd_ragged_args *batch, int number) {\n"
           "  Unit unit = {0, 0, 0, -1};\n"
           "  if (is_unit(batch, number))\n"
           "    unit = find_unit(batch, number, batch->bwd.heads_kv");
      STRING(sequence_parts ? " * batch->bwd.group_parts" : "");
      TEXT(");\n"
           "  const bool first = threadIdx.x % 32 == 0;\n"
           "  if (first && unit.block >= 0)\n"
           "    *at = place_of_unit(batch, &unit);\n");
      if (chains) {
        TEXT("  __syncwarp(); // else some of what follows has no registers\n");
      }
      TEXT("  if (!first)\n"
           "    return;\n"
           "  if (unit.block < 0) {\n"
           "    work->key_begin = -1;\n"
           "    return;\n"
           "  }\n"
           "  const attnpress_bwd_args bwd = args_of_lengths(batch, at->seqlen_q, at->seqlen_k);\n");
      if (sequence_parts) {
        TEXT("  // Its part of the query heads that share the key head.\n"
             "  const int parts = bwd.group_parts, part = unit.head % parts, all = bwd.heads_q / bwd.heads_kv;\n"
             "  const int begin = part * all / parts, group = (part + 1) * all / parts - begin;\n"
             "  unit.head /= parts;\n"
             "  at->group = group;\n"
             "  at->key_sum_tile = -1;\n"
             "  if (parts > 1) {\n"
             "    const int before = batch->first_unit[unit.order] / (bwd.heads_kv * parts); // key blocks\n"
             "    at->key_sum_tile = (part * bwd.heads_kv + unit.head) * bwd.key_tiles +\n"
             "                       (before + unit.block) * (BLOCK_N / 16);\n"
             "  }\n"
             "  *work = find_work(&bwd, &unit, begin, group);\n");
      } else {
        TEXT("  *work = find_work(&bwd, &unit);\n");
      }
      TEXT("  work->at = at;\n");
      if (prepares) {
        TEXT("  work->number = number;\n"
             "  work->shares = batch->bwd.zero_ahead > 0 && number >= *end_of_first(batch)\n"
             "                     ? batch->sequences[unit.order].blocks * AHEAD_WARPS\n"
             "                     : 0;\n");
      }
      if (chains) {
        TEXT("  work->unit_end = at->seqlen_k <= batch->direct_keys ? at->seqlen_k : work->key_begin;\n"
             "  work->sum_head = work->first_head;\n"
             "  if (batch->bwd.own_sums) { // of this thread block\n"
             "    at->sum_tile = 0;\n"
             "    work->sum_head = blockIdx.x * work->group;\n"
             "  }\n"
             "  find_whole_rows(work, batch->direct_keys);\n");
      }
      TEXT("}\n"
           "\n");
      if (chains) {
        TEXT("// Whether the unit has key blocks behind that of `last`.\n"
             "__device__ __forceinline__ bool goes_on(const Work *last) {\n"
             "  return last->key_begin + BLOCK_N < last->unit_end;\n"
             "}\n"
             "\n"
             "// The next of them. One warp.\n"
             "__device__ __forceinline__ void continue_work(Work *work, SequencePlace *at, const Work *last,\n"
             "                                              const attnpress_bwd_ragged_args *batch) {\n"
             "  // A word a lane: the warp's first has few registers.\n"
             "  const int lane = threadIdx.x % 32;\n"
             "  static_assert(sizeof(Work) <= 128 && sizeof(SequencePlace) <= 128, \"a lane a word\");\n"
             "  if (lane < sizeof(Work) / 4)\n"
             "    ((int *)work)[lane] = ((const int *)last)[lane];\n"
             "  if (lane < sizeof(SequencePlace) / 4)\n"
             "    ((int *)at)[lane] = ((const int *)last->at)[lane];\n"
             "  __syncwarp(); // the first lane knows of what the others have copied\n"
             "  if (lane != 0)\n"
             "    return;\n"
             "  work->at = at;\n"
             "  work->key_begin += BLOCK_N;\n"
             "  work->row_begin = first_row_of(work->key_begin, at->seqlen_q, at->seqlen_k);\n"
             "  work->steps = (work->row_end - work->row_begin) / BLOCK_M * work->group;\n"
             "  find_whole_rows(work, batch->direct_keys);\n"
             "}\n"
             "\n");
      }
    }
    TEXT("// A step of the walk.\n"
         "struct Step {\n"
         "  int head, row;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Step step_after(Step step, const Work *work) {\n"
         "  step.row += BLOCK_M;\n");
    if (passes) {
      TEXT("  if (step.row == work->row_end)\n"
           "    step.row = work->row_begin;\n"
           "  return step.row == work->walk_begin ? Step{step.head + 1, step.row} : step;\n");
    } else {
      TEXT("  return step.row == work->row_end ? Step{step.head + 1, work->row_begin} : step;\n");
    }
    TEXT("}\n"
         "\n"
         "// ---- The producer ----\n"
         "\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("// Behind a sequence's last row others follow. What products add up over, 0 times what they hold may\n"
           "// be NaN: where a tile of K and V, or of Q and dO, is not whole, the copy engine arrives at a\n"
           "// barrier of its own, and the warp that brings lse and delta makes zeros of the rest and hands it\n"
           "// over.\n"
           "__shared__ uint64_t tail_barriers[");
      INTEGER(keys_ahead ? 3 : 2);
      TEXT(" + STAGES];\n"
           "\n");
      if (keys_ahead) {
        TEXT("__device__ __forceinline__ uint32_t k_loaded(int place) {\n"
             "  return shared_address(&tail_barriers[place ? 2 + STAGES : 0]);\n"
             "}\n");
      } else {
        TEXT("__device__ __forceinline__ uint32_t k_loaded() {\n"
             "  return shared_address(&tail_barriers[0]);\n"
             "}\n");
      }
      TEXT("__device__ __forceinline__ uint32_t v_loaded() {\n"
           "  return shared_address(&tail_barriers[1]);\n"
           "}\n"
           "__device__ __forceinline__ uint32_t step_loaded(int stage) {\n"
           "  return shared_address(&tail_barriers[2 + stage]);\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ bool is_tail(const Work *work, Step step) {\n"
           "  return step.row + BLOCK_M > work->at->seqlen_q;\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ bool has_key_tail(const Work *work) {\n"
           "  return work->key_begin + BLOCK_N > work->at->seqlen_k;\n"
           "}\n"
           "\n"
           "// One warp: rows `valid` to `rows` - 1 of each slab become zeros, for products to see.\n"
           "__device__ __forceinline__ void clear_rows(unsigned char *tile, int slabs, int rows, int valid) {\n"
           "  for (int slab = 0; slab < slabs; ++slab)\n"
           "    for (int chunk = valid * 8 + threadIdx.x % 32; chunk < rows * 8; chunk += 32)\n"
           "      *(uint4 *)(tile + slab * rows * 128 + chunk * 16) = uint4{0, 0, 0, 0};\n"
           "  fence_proxy_async();\n"
           "}\n"
           "\n");
      if (keys_ahead) {
        TEXT("// One warp: K of a block that the sequence's keys do not fill, and below V. `parities`: the bits\n"
             "// behind the stages' are of such K in both places, and of such V.\n"
             "__device__ __forceinline__ void clear_keys(unsigned char *smem, const Work *work,\n"
             "                                           uint32_t *parities) {\n"
             "  const int valid = work->at->seqlen_k - work->key_begin, place = work->before.keys % 2;\n"
             "  if (work->steps == 0 || valid >= BLOCK_N)\n"
             "    return;\n"
             "  // The copy engine hands over K. All lanes have cleared it when the first arrives.\n"
             "  wait_for_phase(k_loaded(place), *parities >> (STAGES + place) & 1);\n"
             "  *parities ^= 1u << (STAGES + place);\n"
             "  clear_rows(smem + place * KEYS_OFFSET, K_SLABS, BLOCK_N, valid);\n"
             "  __syncwarp();\n"
             "  arrive_once(keys_there(place));\n"
             "}\n"
             "\n"
             "__device__ __forceinline__ void clear_values(unsigned char *smem, uint32_t shared,\n"
             "                                             const Work *work, uint32_t *parities) {\n"
             "  const int valid = work->at->seqlen_k - work->key_begin;\n"
             "  if (valid >= BLOCK_N)\n"
             "    return;\n"
             "  wait_for_phase(v_loaded(), *parities >> (STAGES + 2) & 1);\n"
             "  *parities ^= 1u << (STAGES + 2);\n"
             "  clear_rows(smem + V_OFFSET, V_SLABS, BLOCK_N, valid);\n"
             "  __syncwarp();\n"
             "  arrive_once(v_full(shared));\n"
             "}\n"
             "\n");
      } else {
        TEXT("// One warp: K and V of a block that the sequence's keys do not fill.\n");
        if (takes) {
          TEXT("// `parities`: the bit behind the stages' is of such key blocks.\n"
               "__device__ __forceinline__ void clear_keys(unsigned char *smem, uint32_t shared, const Work *work,\n"
               "                                           uint32_t *parities) {\n");
        } else {
          TEXT("__device__ __forceinline__ void clear_keys(unsigned char *smem, uint32_t shared,\n"
               "                                           const Work *work) {\n");
        }
        TEXT("  const int valid = work->at->seqlen_k - work->key_begin;\n"
             "  if (work->steps == 0 || valid >= BLOCK_N)\n"
             "    return;\n");
        if (takes) {
          TEXT("  const int parity = *parities >> STAGES & 1;\n"
               "  *parities ^= 1u << STAGES;\n");
        }
        TEXT("  // The copy engine hands over K, and V below. All lanes have cleared them when the first arrives.\n"
             "  wait_for_phase(k_loaded(), ");
        STRING(takes ? "parity" : "0");
        TEXT(");\n"
             "  clear_rows(smem, K_SLABS, BLOCK_N, valid);\n"
             "  __syncwarp();\n"
             "  arrive_once(k_full(shared));\n"
             "  wait_for_phase(v_loaded(), ");
        STRING(takes ? "parity" : "0");
        TEXT(");\n"
             "  clear_rows(smem + V_OFFSET, V_SLABS, BLOCK_N, valid);\n"
             "  __syncwarp();\n"
             "  arrive_once(v_full(shared));\n"
             "}\n"
             "\n");
      }
    }
    TEXT("// One thread: K of the block's keys.\n"
         "__device__ __forceinline__ void load_keys(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
         "                                          const Work *work) {\n");
    if (keys_ahead) {
      TEXT("  const int place = work->before.keys % 2;\n"
           "  const uint32_t keys = shared + place * KEYS_OFFSET;\n"
           "  const uint32_t full = has_key_tail(work) ? k_loaded(place) : keys_there(place);\n"
           "  const int row = work->at->k_row + work->key_begin, batch = work->at->k_batch;\n"
           "  // The consumers' warps arrived: hands over the place of the K before last.\n"
           "  wait_for_phase(keys_read(place), work->before.keys / 2 % 2 ^ 1);\n");
    } else if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("  const uint32_t full = has_key_tail(work) ? k_loaded() : k_full(shared);\n"
           "  const int row = work->at->k_row + work->key_begin, batch = work->at->k_batch;\n");
    } else {
      TEXT("  const uint32_t full = k_full(shared);\n"
           "  const int row = work->key_begin, batch = work->batch;\n");
    }
    TEXT("  mbarrier_arrive_expect(full, K_SLABS * KEY_SLAB_BYTES);\n"
         "#pragma unroll\n"
         "  for (int slab = 0; slab < K_SLABS; ++slab)\n"
         "    tma_load_4d(");
    STRING(keys_ahead ? "keys" : "shared");
    TEXT(" + slab * KEY_SLAB_BYTES, &args->k, full, slab * 64, row, work->kv_head,\n"
         "                batch);\n"
         "}\n"
         "\n");
    if ((block_n != 80) && (block_n != 96)) {
      TEXT("// One thread: Q and dO of step `n`, and ");
      if (read_apart) {
        TEXT("V with the first, K behind it");
      } else if (takes) {
        TEXT("K and V behind the first");
      } else {
        TEXT("V with the first");
      }
      TEXT(".\n"
           "__device__ __forceinline__ void load_step(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
           "                                          const Work *work, int n, Step step, Stage stage) {\n");
      if (keys_ahead) {
        TEXT("  if (n == 0)\n"
             "    load_keys(args, shared, work);\n");
      }
      TEXT("  // The consumers' warps arrived; hands over the space of the step that was here a round ago.\n"
           "  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  const bool tail = is_tail(work, step);\n"
             "  const uint32_t q = tail ? step_loaded(stage.index) : q_full(shared, stage.index);\n"
             "  const uint32_t dout = tail ? q : do_full(shared, stage.index);\n"
             "  const uint32_t v = has_key_tail(work) ? v_loaded() : v_full(shared);\n"
             "  const int row = work->at->q_row + step.row, batch = work->at->q_batch;\n"
             "  const int key = work->at->k_row + work->key_begin, key_batch = work->at->k_batch;\n"
             "  mbarrier_arrive_expect(q, tail ? Q_BYTES + DO_BYTES : Q_BYTES);\n"
             "  if (tail)\n"
             "    mbarrier_arrive(q_full(shared, stage.index));\n");
      } else {
        TEXT("  const uint32_t q = q_full(shared, stage.index), dout = do_full(shared, stage.index);\n"
             "  const uint32_t v = v_full(shared);\n"
             "  const int row = step.row, batch = work->batch;\n"
             "  const int key = work->key_begin, key_batch = work->batch;\n"
             "  mbarrier_arrive_expect(q, Q_BYTES);\n");
      }
      TEXT("#pragma unroll\n"
           "  for (int slab = 0; slab < K_SLABS; ++slab)\n"
           "    tma_load_4d(shared + Q_OFFSET + stage.index * Q_BYTES + slab * ROW_SLAB_BYTES, &args->q, q,\n"
           "                slab * 64, row, step.head, batch);\n");
      if (!takes || read_apart) {
        TEXT("  if (n == 0) {\n");
        if (read_apart) {
          TEXT("    // The consumers arrived: hands over the place of the V before.\n"
               "    wait_for_phase(v_empty(), work->before.keys % 2 ^ 1);\n");
        }
        TEXT("    mbarrier_arrive_expect(v, V_SLABS * KEY_SLAB_BYTES);\n"
             "#pragma unroll\n"
             "    for (int slab = 0; slab < V_SLABS; ++slab)\n"
             "      tma_load_4d(shared + V_OFFSET + slab * KEY_SLAB_BYTES, &args->v, v, slab * 64, key,\n"
             "                  work->kv_head, key_batch);\n"
             "  }\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  if (!tail)\n"
             "    mbarrier_arrive_expect(dout, DO_BYTES);\n");
      } else {
        TEXT("  mbarrier_arrive_expect(dout, DO_BYTES);\n");
      }
      TEXT("#pragma unroll\n"
           "  for (int slab = 0; slab < V_SLABS; ++slab)\n"
           "    tma_load_4d(shared + DO_OFFSET + stage.index * DO_BYTES + slab * ROW_SLAB_BYTES, &args->dout,\n"
           "                dout, slab * 64, row, step.head, batch);\n");
      if (takes) {
        TEXT("  if (n == 0) {\n");
        if (read_apart) {
          TEXT("    // dQ's warps arrived: hands over the place of the K before.\n"
               "    wait_for_phase(k_empty(), work->before.keys % 2 ^ 1);\n"
               "    load_keys(args, shared, work);\n"
               "  }\n");
        } else {
          if (keys_ahead) {
            TEXT("    // The consumers' warps arrived: hands over the place of the V before.\n"
                 "    wait_for_phase(values_read(), work->before.keys % 2 ^ 1);\n");
          } else {
            TEXT("    // The consumers arrived: hands over the place of the K and V before.\n"
                 "    wait_for_phase(keys_empty(), work->before.keys % 2 ^ 1);\n"
                 "    load_keys(args, shared, work);\n");
          }
          TEXT("    mbarrier_arrive_expect(v, V_SLABS * KEY_SLAB_BYTES);\n"
               "#pragma unroll\n"
               "    for (int slab = 0; slab < V_SLABS; ++slab)\n"
               "      tma_load_4d(shared + V_OFFSET + slab * KEY_SLAB_BYTES, &args->v, v, slab * 64, key,\n"
               "                  work->kv_head, key_batch);\n"
               "  }\n");
        }
      }
      TEXT("}\n"
           "\n");
    }
    TEXT("// Four of a step's rows of lse, or, from lane 16 on, of delta.\n"
         "__device__ __forceinline__ float4 fetch_rows(const attnpress_bwd_args *args, const Work *work,\n"
         "                                             Step step) {\n"
         "  const int lane = threadIdx.x % 32;\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("  const int64_t from =\n"
           "      (int64_t)step.head * args->row_tiles * 16 + work->at->values_row + step.row;\n");
    } else {
      TEXT("  const int64_t from =\n"
           "      ((int64_t)work->batch * args->heads_q + step.head) * args->row_tiles * 16 + step.row;\n");
    }
    TEXT("  return *(const float4 *)((lane < 16 ? args->lse_log2 : args->delta) + from + lane % 16 * 4);\n"
         "}\n"
         "\n");
    if ((block_n != 80) && (block_n != 96)) {
      TEXT("// One warp: these rows, to where they belong.\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("// `parities`: of the stages' next phase of step_loaded(), a bit each.\n"
             "__device__ __forceinline__ void store_rows(unsigned char *smem, uint32_t shared, const Work *work,\n"
             "                                           float4 four, Step step, Stage stage,\n"
             "                                           uint32_t *parities) {\n");
      } else {
        TEXT("__device__ __forceinline__ void store_rows(unsigned char *smem, uint32_t shared, float4 four,\n"
             "                                           Stage stage) {\n");
      }
      TEXT("  // The consumers' warps arrived; hands over the space of the step that was here a round ago.\n"
           "  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);\n"
           "  *(float4 *)(smem + ROWS_OFFSET + stage.index * ROWS_BYTES + threadIdx.x % 32 * 16) = four;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  if (is_tail(work, step)) {\n"
             "    const int valid = work->at->seqlen_q - step.row;\n"
             "    // The copy engine hands over Q and dO.\n"
             "    wait_for_phase(step_loaded(stage.index), *parities >> stage.index & 1);\n"
             "    *parities ^= 1u << stage.index;\n"
             "    clear_rows(smem + Q_OFFSET + stage.index * Q_BYTES, K_SLABS, BLOCK_M, valid);\n"
             "    clear_rows(smem + DO_OFFSET + stage.index * DO_BYTES, V_SLABS, BLOCK_M, valid);\n"
             "    __syncwarp();\n"
             "    arrive_once(do_full(shared, stage.index));\n"
             "  }\n");
      }
      TEXT("  // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
           "  __syncwarp();\n"
           "  arrive_once(q_full(shared, stage.index));\n"
           "}\n"
           "\n"
           "// One thread: K and V of the block's keys, ");
      if (takes) {
        TEXT("and");
      } else {
        TEXT("then");
      }
      TEXT(" Q and dO of each step.\n"
           "__device__ __forceinline__ void produce(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
           "                                        const Work *work) {\n");
      if (!takes) {
        TEXT("  load_keys(args, shared, work);\n");
      }
      TEXT("  Step step = {work->first_head, work->");
      STRING(parts ? "walk_begin" : "row_begin");
      TEXT("};\n"
           "  Stage stage = ");
      STRING(takes ? "progress_stage(work->before, STAGES)" : "{0, 0}");
      TEXT(";\n"
           "  for (int n = 0; n < work->steps; ++n) {\n"
           "    load_step(args, shared, work, n, step, stage);\n"
           "    stage = next_stage(stage, STAGES);\n"
           "    step = step_after(step, work);\n"
           "  }\n"
           "}\n"
           "\n"
           "// One warp: lse and delta of each step, four rows a lane.\n"
           "__device__ __forceinline__ void produce_rows(const attnpress_bwd_args *args, unsigned char *smem,\n"
           "                                             uint32_t shared, const Work *work");
      STRING((takes && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) ? ",\n                                             uint32_t *parities" : "");
      TEXT(") {\n"
           "  Step step = {work->first_head, work->");
      STRING(parts ? "walk_begin" : "row_begin");
      TEXT("};\n"
           "  Stage stage = ");
      STRING(takes ? "progress_stage(work->before, STAGES)" : "{0, 0}");
      TEXT(";\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        if (keys_ahead) {
          TEXT("  clear_keys(smem, work, parities);\n");
        } else if (takes) {
          TEXT("  clear_keys(smem, shared, work, parities);\n");
        } else {
          TEXT("  uint32_t parities = 0;\n"
               "  clear_keys(smem, shared, work);\n");
        }
      }
      if (prepares) {
        TEXT("  if (work->shares > 0) {\n"
             "    // Warps of earlier units arrived: hands over lse and delta, and what dQ is added to.\n"
             "    if (threadIdx.x % 32 == 0)\n"
             "      while (load_acquire(args->dq_zeroed + work->batch * args->heads_kv + work->kv_head) <\n"
             "             work->shares) {\n"
             "      }\n"
             "    __syncwarp();\n"
             "  }\n");
      }
      TEXT("  for (int n = 0; n < work->steps; ++n) {\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("    store_rows(smem, shared, work, fetch_rows(args, work, step), step, stage, ");
        STRING(takes ? "parities" : "&parities");
        TEXT(");\n");
        if (keys_ahead) {
          TEXT("    if (n == 0)\n"
               "      clear_values(smem, shared, work, parities);\n");
        }
      } else {
        TEXT("    store_rows(smem, shared, fetch_rows(args, work, step), stage);\n");
      }
      TEXT("    stage = next_stage(stage, STAGES);\n"
           "    step = step_after(step, work);\n"
           "  }\n"
           "}\n");
    }
    TEXT("// ---- The consumers ----\n"
         "\n"
         "// Starts S^T = K Q^T, (64, S_ROWS), as a group of its own.\n"
         "__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,\n"
         "                                             int consumer, int stage) {\n"
         "  const uint64_t k = wgmma_descriptor(shared, 1024, 0);\n"
         "  const uint64_t q = wgmma_descriptor(shared + Q_OFFSET + consumer * S_ROWS * 128, 1024, 0) +\n"
         "                     stage * (Q_BYTES / 16);\n"
         "  wgmma_order_n32(score);\n"
         "  wgmma_fence();\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < S_STEPS; ++step)\n"
         "    wgmma_m64n32k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss(score, k + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16,\n"
         "                             q + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n"
         "  wgmma_commit();\n"
         "}\n"
         "\n"
         "// Starts dP^T = V dO^T, (64, S_ROWS), as a group of its own.\n"
         "__device__ __forceinline__ void start_dp(float dp[S_TILES * 4], uint32_t shared, int consumer,\n"
         "                                         int stage) {\n"
         "  const uint64_t v = wgmma_descriptor(shared + V_OFFSET, 1024, 0);\n"
         "  const uint64_t dout = wgmma_descriptor(shared + DO_OFFSET + consumer * S_ROWS * 128, 1024, 0) +\n"
         "                        stage * (DO_BYTES / 16);\n"
         "  wgmma_order_n32(dp);\n"
         "  wgmma_fence();\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < DP_STEPS; ++step)\n"
         "    wgmma_m64n32k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss(dp, v + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16,\n"
         "                             dout + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n"
         "  wgmma_commit();\n"
         "}\n"
         "\n"
         "// Starts dV += P^T dO, (64, V_COLUMNS), as a group of its own. `turn`: which P of two.\n"
         "__device__ __forceinline__ void start_dv(float dv[V_COLUMNS / 2], uint32_t shared, int consumer,\n"
         "                                         int turn, int stage) {\n"
         "  const uint64_t p = wgmma_descriptor(shared + P_OFFSET, 1024, 0) + turn * (P_BYTES / 16);\n"
         "  const uint64_t dout = wgmma_descriptor(shared + DO_OFFSET + consumer * ");
    INTEGER((v_half || (v_width == 128)) ? 2 : 1);
    TEXT(" * ROW_SLAB_BYTES,\n"
         "                                         1024, ROW_SLAB_BYTES) + stage * (DO_BYTES / 16);\n");
    if (v_half) {
      TEXT("  const uint64_t dout_half =\n"
           "      wgmma_descriptor(shared + DO_OFFSET + ROW_SLAB_BYTES + consumer * 64, 1024, ROW_SLAB_BYTES) +\n"
           "      stage * (DO_BYTES / 16);\n");
    }
    TEXT("  wgmma_order_n");
    INTEGER(v_width);
    TEXT("(dv);\n");
    if (v_half) {
      TEXT("  wgmma_order_n32(dv + 32);\n");
    }
    TEXT("  wgmma_fence();\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < ROW_STEPS; ++step) {\n"
         "    wgmma_m64n");
    INTEGER(v_width);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss_trans(dv, p + step * 2, dout + step * 16 * 128 / 16, 1);\n");
    if (v_half) {
      TEXT("    wgmma_m64n32k16_");
      STRING(in->word[AP_ATTENTION_DTYPE]);
      TEXT("_ss_trans(dv + 32, p + step * 2, dout_half + step * 16 * 128 / 16, 1);\n");
    }
    TEXT("  }\n"
         "  wgmma_commit();\n"
         "}\n"
         "\n"
         "// Starts dK += dS^T Q, (64, K_COLUMNS), as a group of its own. `turn`: which dS of two.\n"
         "__device__ __forceinline__ void start_dk(float dk[K_COLUMNS / 2], uint32_t shared, int consumer,\n"
         "                                         int turn, int stage) {\n"
         "  const uint64_t ds = wgmma_descriptor(shared + DS_OFFSET, 1024, 0) + turn * (P_BYTES / 16);\n"
         "  const uint64_t q = wgmma_descriptor(shared + Q_OFFSET + consumer * ");
    INTEGER((k_half || (k_width == 128)) ? 2 : 1);
    TEXT(" * ROW_SLAB_BYTES,\n"
         "                                         1024, ROW_SLAB_BYTES) + stage * (Q_BYTES / 16);\n");
    if (k_half) {
      TEXT("  const uint64_t q_half =\n"
           "      wgmma_descriptor(shared + Q_OFFSET + ROW_SLAB_BYTES + consumer * 64, 1024, ROW_SLAB_BYTES) +\n"
           "      stage * (Q_BYTES / 16);\n");
    }
    TEXT("  wgmma_order_n");
    INTEGER(k_width);
    TEXT("(dk);\n");
    if (k_half) {
      TEXT("  wgmma_order_n32(dk + 32);\n");
    }
    TEXT("  wgmma_fence();\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < ROW_STEPS; ++step) {\n"
         "    wgmma_m64n");
    INTEGER(k_width);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss_trans(dk, ds + step * 2, q + step * 16 * 128 / 16, 1);\n");
    if (k_half) {
      TEXT("    wgmma_m64n32k16_");
      STRING(in->word[AP_ATTENTION_DTYPE]);
      TEXT("_ss_trans(dk + 32, ds + step * 2, q_half + step * 16 * 128 / 16, 1);\n");
    }
    TEXT("  }\n"
         "  wgmma_commit();\n"
         "}\n"
         "\n");
    if (sums) {
      TEXT("// Starts dQ = dS K, (BLOCK_M, DQ_COLUMNS), as a group of its own.\n"
           "__device__ __forceinline__ void start_dq(float dq[DQ_COLUMNS / 2], uint32_t shared, int turn,\n"
           "                                         int part) {\n"
           "  const uint64_t ds = wgmma_descriptor(shared + DS_OFFSET, 1024, P_BYTES) + turn * (P_BYTES / 16);\n"
           "  const uint64_t k = wgmma_descriptor(shared, 1024, KEY_SLAB_BYTES) +\n"
           "                     (part * DQ_COLUMNS / 64 * KEY_SLAB_BYTES + part * DQ_COLUMNS % 64 * 2) / 16;\n"
           "  wgmma_order_n");
      INTEGER(dq_width);
      TEXT("(dq);\n"
           "  wgmma_fence();\n"
           "#pragma unroll\n"
           "  for (int step = 0; step < KEY_STEPS; ++step)\n"
           "    wgmma_m64n");
      INTEGER(dq_width);
      TEXT("k16_");
      STRING(in->word[AP_ATTENTION_DTYPE]);
      TEXT("_ss_trans_both(dq, ds + step * 16 * 128 / 16, k + step * 16 * 128 / 16,\n"
           "                                       step > 0);\n"
           "  wgmma_commit();\n"
           "}\n"
           "\n");
      if (bulk) {
        TEXT("// Begins to add them to the sum of dQ, from `place` in shared memory.\n"
             "__device__ __forceinline__ void add_part(float *sum, unsigned char *smem, uint32_t shared,\n"
             "                                         int place, const float dq[DQ_COLUMNS / 2], int part,\n"
             "                                         int lane) {\n"
             "  // The first lane's additions are read, but the latest, from the other place: hands over this one.\n"
             "  wait_for_additions(1);\n"
             "  __syncwarp();\n"
             "  store_for_sum((float *)(smem + place), dq, DQ_COLUMNS / 8, lane);\n"
             "  // Behind the last columns are products of zeros, which have no place in the sum.\n"
             "  begin_addition(sum + part * (DQ_COLUMNS / 8) * 128, shared + place,\n"
             "                 min(DQ_COLUMNS / 8, HEAD_DIM / 8 - part * (DQ_COLUMNS / 8)));\n"
             "}\n");
      } else {
        TEXT("// Adds them to the sum of dQ.\n"
             "__device__ __forceinline__ void add_part(float *sum, const float dq[DQ_COLUMNS / 2], int part,\n"
             "                                         int lane) {\n"
             "#pragma unroll\n"
             "  for (int tile = 0; tile < DQ_COLUMNS / 8; ++tile)\n"
             "    if (HEAD_DIM % DQ_COLUMNS == 0 || part * (DQ_COLUMNS / 8) + tile < HEAD_DIM / 8)\n"
             "      add_to_sum(sum + (part * (DQ_COLUMNS / 8) + tile) * 128, dq + tile * 4, lane);\n"
             "}\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("// The sequence's keys are this block's alone: each step's dQ is complete, and has no sum.\n"
             "__device__ __forceinline__ bool is_direct(const attnpress_bwd_args *args) {\n"
             "  return args->seqlen_k <= BLOCK_N;\n"
             "}\n"
             "\n"
             "// dQ of a step to dq, DQ_COLUMNS at a time. A loop of its own, as registers are few.\n");
        if (through) {
          TEXT("__device__ __forceinline__ void store_dq(const attnpress_bwd_args *args, unsigned char *smem,\n"
               "                                         uint32_t shared, const Work *work, int turn, Step step) {\n");
        } else {
          TEXT("__device__ __forceinline__ void store_dq(const attnpress_bwd_args *args, uint32_t shared,\n"
               "                                         const Work *work, int turn, Step step) {\n");
        }
        TEXT("  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
             "  const int row = step.row + warp * 16;\n"
             "  uint16_t *const rows = row_of_dq(args, work->at->q_batch, work->at->q_row + row, step.head);\n"
             "  float dq[DQ_COLUMNS / 2];\n"
             "#pragma unroll 1 // as in add_dq()\n"
             "  for (int part = 0; part < DQ_PARTS; ++part) {\n"
             "    const int column = part * DQ_COLUMNS;\n"
             "    start_dq(dq, shared, turn, part);\n"
             "    wgmma_wait(0);\n"
             "    wgmma_order_n");
        INTEGER(dq_width);
        TEXT("(dq);\n"
             "    if (part + 1 == DQ_PARTS) {\n"
             "      // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
             "      __syncwarp();\n"
             "      arrive_once(ds_empty(shared, turn));\n"
             "    }\n");
        if (through) {
          TEXT("    store_row_tile(args, rows + column, smem + DQ_OFFSET + warp * 2 * DQ_WARP_BYTES,\n"
               "                   DQ_COLUMNS / 8, dq, DQ_COLUMNS / 8, HEAD_DIM - column, args->seqlen_q - row,\n"
               "                   DTYPE, lane);\n");
        } else {
          TEXT("    store_row_pairs(args, rows + column, dq, 0, DQ_COLUMNS / 8, HEAD_DIM - column,\n"
               "                    args->seqlen_q - row, DTYPE, lane);\n");
        }
        TEXT("  }\n"
             "}\n"
             "\n");
      }
      if (bulk) {
        TEXT("// dQ of a step, of all keys of the block, DQ_COLUMNS at a time. `n`: the step's number; `place`:\n"
             "// where the warp's next part goes.\n"
             "__device__ __forceinline__ void add_dq(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                       uint32_t shared, const Work *work, int n, Step step,\n"
             "                                       int *place) {\n");
      } else {
        TEXT("// dQ of a step, of all keys of the block, DQ_COLUMNS at a time. `n`: the step's number.\n"
             "__device__ __forceinline__ void add_dq(const attnpress_bwd_args *args, uint32_t shared,\n"
             "                                       const Work *work, int n, Step step) {\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  if (is_direct(args)) {\n");
        if (through) {
          TEXT("    store_dq(args, smem, shared, work, n % 2, step);\n");
        } else {
          TEXT("    store_dq(args, shared, work, n % 2, step);\n");
        }
        TEXT("    return;\n"
             "  }\n");
      }
      TEXT("  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
           "  const int turn = n % 2;\n"
           "  float *sum =\n"
           "      args->dq_sum + sum_offset(args, ");
      STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "0, step.head, work->at->sum_tile + step.row / 16 + warp" : "work->batch, step.head, step.row / 16 + warp");
      TEXT(",\n"
           "                                HEAD_DIM);\n"
           "  const bool valid = step.row + warp * 16 < args->seqlen_q;\n"
           "  float dq[DQ_COLUMNS / 2];\n"
           "#pragma unroll 1 // else the descriptors of all parts are kept in registers\n"
           "  for (int part = 0; part < DQ_PARTS; ++part) {\n"
           "    start_dq(dq, shared, turn, part);\n"
           "    wgmma_wait(0);\n"
           "    wgmma_order_n");
      INTEGER(dq_width);
      TEXT("(dq);\n"
           "    if (part + 1 == DQ_PARTS) {\n"
           "      // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
           "      __syncwarp();\n"
           "      arrive_once(ds_empty(shared, turn));\n"
           "    }\n");
      if (bulk) {
        TEXT("    if (valid) {\n"
             "      add_part(sum, smem, shared, *place, dq, part, lane);\n"
             "      *place ^= DQ_WARP_BYTES;\n"
             "    }\n");
      } else {
        TEXT("    if (valid)\n"
             "      add_part(sum, dq, part, lane);\n");
      }
      TEXT("  }\n"
           "}\n"
           "\n"
           "// dQ of each step.\n");
      if (bulk) {
        TEXT("__device__ __forceinline__ void sum_dq(const attnpress_bwd_args *args, unsigned char *smem,\n"
             "                                       uint32_t shared, const Work *work) {\n"
             "  static_assert(DQ_OFFSET % (2 * DQ_WARP_BYTES) == 0, \"the two places differ in a bit\");\n"
             "  int place = DQ_OFFSET + threadIdx.x / 32 % 4 * 2 * DQ_WARP_BYTES;\n");
      } else {
        TEXT("__device__ __forceinline__ void sum_dq(const attnpress_bwd_args *args, uint32_t shared,\n"
             "                                       const Work *work) {\n");
      }
      if (parts) {
        TEXT("  if (threadIdx.x % 32 == 0)\n"
             "    wait_for_zeros(args, unit_of(args, work), 2);\n"
             "  __syncwarp();\n");
      }
      TEXT("  Step step = {work->first_head, work->");
      STRING(parts ? "walk_begin" : "row_begin");
      TEXT("};\n");
      if (takes) {
        TEXT("  // Read from lane 0, so that the compiler knows them to be the same in the whole warp.\n"
             "  const int first = __shfl_sync(0xffffffff, work->before.steps, 0);\n"
             "  const int end = first + __shfl_sync(0xffffffff, work->steps, 0);\n");
      }
      TEXT("  if (");
      STRING(takes ? "end > first" : "work->steps > 0");
      TEXT(") // the copy engine hands over K\n"
           "    wait_for_phase(k_full(shared), ");
      STRING(takes ? "work->before.keys % 2" : "0");
      TEXT(");\n"
           "  for (int n = ");
      STRING(takes ? "first" : "0");
      TEXT("; n < ");
      STRING(takes ? "end" : "work->steps");
      TEXT("; ++n, step = step_after(step, work)) {\n"
           "    // All consumers' warps arrived: hands over their dS.\n"
           "    wait_for_phase(ds_full(shared, n % 2), n / 2 % 2);\n");
      if (bulk) {
        TEXT("    add_dq(args, smem, shared, work, n, step, &place);\n");
      } else {
        TEXT("    add_dq(args, shared, work, n, step);\n");
      }
      TEXT("  }\n");
      if (takes) {
        TEXT("  if (end > first) // hands over the place of K, which the consumers have read before\n"
             "    arrive_once(k_empty());\n");
      }
      if (bulk) {
        TEXT("  wait_for_additions(0);\n");
      }
      TEXT("}\n");
    }
    TEXT("// Scores that do not count become -inf.\n"
         "__device__ __forceinline__ void mask_block(float score[S_TILES * 4],\n"
         "                                           const attnpress_bwd_args *args, int key, int row) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half)\n");
    if (mask == AP_ATTENTION_MASK_WINDOW) {
      TEXT("    mask_scores(score, S_TILES, half,\n"
           "                queries_in_window(key + half * 8 + lane / 4, &args->score, args->seqlen_q,\n"
           "                                  args->seqlen_k),\n"
           "                row + lane % 4 * 2);\n");
    } else {
      TEXT("    mask_scores(score, S_TILES, half,\n"
           "                queries_at(key + half * 8 + lane / 4, CAUSAL, args->seqlen_q, args->seqlen_k),\n"
           "                row + lane % 4 * 2);\n");
    }
    TEXT("}\n"
         "\n"
         "// P and dS of a step, whose S and dP are in flight: rounded, into their places of turn `n % 2`.\n"
         "// `wait_s`, `wait_dp`: products that were started after S and dP.\n");
    if (dropout) {
      TEXT("__device__ __forceinline__ void exchange_scores(float score[S_TILES * 4], float dp[S_TILES * 4],\n"
           "                                                const attnpress_bwd_args *args,\n"
           "                                                unsigned char *smem, uint32_t shared,\n"
           "                                                const Work *work, int consumer, Step step,\n"
           "                                                int stage, int n, int after,\n"
           "                                                uint32_t dropped) {\n");
    } else {
      TEXT("__device__ __forceinline__ void exchange_scores(float score[S_TILES * 4], float dp[S_TILES * 4],\n"
           "                                                const attnpress_bwd_args *args,\n"
           "                                                unsigned char *smem, uint32_t shared,\n"
           "                                                const Work *work, int consumer, Step step,\n"
           "                                                int stage, int n, int after) {\n");
    }
    TEXT("  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
         "  const int turn = n % 2;\n"
         "  const int first_key = work->key_begin, row = step.row + consumer * S_ROWS;\n"
         "  // This thread's first place in P^T, of whose rows the chunks of 8 queries are swizzled: another\n"
         "  // chunk's differs by ^. dS^T has the same behind P^T.\n"
         "  const int place = P_OFFSET + turn * P_BYTES +\n"
         "                    (warp * 16 + lane / 4) * 128 +\n"
         "                    (lane / 4 * 16 ^ consumer * S_TILES * 16) + lane % 4 * 4;\n"
         "  wgmma_wait(after + 1);\n"
         "  wgmma_order_n32(score);\n");
    if (softcap) {
      TEXT("  cap_scores(score, S_TILES, &args->score);\n");
    }
    if (bias != AP_ATTENTION_BIAS_NONE) {
      TEXT("#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half)\n"
           "    add_bias_at(score, BIAS, S_TILES, half, true, args, work->batch, step.head,\n"
           "                first_key + warp * 16 + half * 8 + lane / 4, row + lane % 4 * 2);\n");
    }
    if (alibi) {
      TEXT("  const float slope = load_slope(&args->score, work->batch, step.head);\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half)\n"
           "    add_alibi_at(score, S_TILES, half, true, args, slope,\n"
           "                 first_key + warp * 16 + half * 8 + lane / 4, row + lane % 4 * 2);\n");
    }
    if (mask == AP_ATTENTION_MASK_WINDOW) {
      TEXT("  // The rows that see all of the consumer's keys.\n"
           "  const int unmasked_begin =\n"
           "      queries_in_window(first_key + 63, &args->score, args->seqlen_q, args->seqlen_k).key_begin;\n"
           "  const int unmasked_end =\n"
           "      queries_in_window(first_key, &args->score, args->seqlen_q, args->seqlen_k).key_end;\n");
    }
    TEXT("  const bool masked = first_key + 64 > args->seqlen_k");
    if (mask == AP_ATTENTION_MASK_WINDOW) {
      TEXT(" || row < unmasked_begin ||\n"
           "                      row + S_ROWS > unmasked_end");
    } else if (mask == AP_ATTENTION_MASK_CAUSAL) {
      TEXT(" ||\n"
           "                      row - args->seqlen_q + args->seqlen_k < first_key + 63");
    }
    TEXT(";\n"
         "  if (masked)\n"
         "    mask_block(score, args, first_key + warp * 16, row);\n"
         "  const float *const lse_log2 =\n"
         "      (const float *)(smem + ROWS_OFFSET + stage * ROWS_BYTES) + consumer * S_ROWS + lane % 4 * 2;\n"
         "  uint32_t rounded[S_TILES * 2];\n");
    if (softcap) {
      TEXT("  recompute_capped(score, rounded, S_TILES, lse_log2, args->scale_log2, DTYPE);\n");
    } else {
      TEXT("  recompute_probabilities(score, S_TILES, true, lse_log2, args->scale_log2);\n");
      if (dropout) {
        TEXT("  mark_decided(score, S_TILES, dropped);\n"
             "  round_kept(rounded, score, S_TILES, DTYPE);\n");
      } else {
        TEXT("  round_probabilities(rounded, score, S_TILES, DTYPE);\n");
      }
    }
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < S_TILES * 2; ++i)\n"
         "    *(uint32_t *)(smem + (place ^ i / 2 * 16) + i % 2 * 8 * 128) = rounded[i];\n"
         "  wgmma_wait(after);\n"
         "  wgmma_order_n32(dp);\n");
    if (dropout) {
      TEXT("  differentiate_kept(dp, score, S_TILES, true, lse_log2 + BLOCK_M, args->score.dropout_scale);\n");
    } else {
      TEXT("  differentiate_scores(dp, score, S_TILES, true, lse_log2 + BLOCK_M);\n");
    }
    TEXT("  round_probabilities(rounded, dp, S_TILES, DTYPE);\n");
    if (sums) {
      TEXT("  // dQ's warps arrived: hands over the place of dS of the step before last.\n"
           "  wait_for_phase(ds_empty(shared, turn), n / 2 % 2 ^ 1);\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < S_TILES * 2; ++i)\n"
         "    *(uint32_t *)(smem + (place ^ i / 2 * 16) + 2 * P_BYTES + i % 2 * 8 * 128) = rounded[i];\n"
         "}\n"
         "\n"
         "// What products read after ordinary stores: hands over P and dS of a step.\n"
         "__device__ __forceinline__ void hand_over(uint32_t shared, int consumer, int n) {\n"
         "  // Both consumers arrive and wait: hands over P and dS to each other's products.\n"
         "  named_barrier_sync(3, CONSUMER_THREADS);\n"
         "  fence_proxy_async(); // behind the wait, as it waits for stores itself\n");
    if (sums) {
      TEXT("  __syncwarp(); // so that one arrival stands for the warp\n"
           "  arrive_once(ds_full(shared, n % 2));\n");
    }
    TEXT("}\n"
         "\n"
         "// Stores a warp's columns of a gradient from `column` on, 8 `tiles`, in the rows from `rows` on, of\n"
         "// which `valid` are there.\n"
         "__device__ __forceinline__ void store_gradient_columns(uint16_t *rows, int64_t row_stride,\n"
         "                                                       const float *d, int tiles, int column,\n"
         "                                                       int columns, int valid, float scale,\n"
         "                                                       bool accumulate, int lane) {\n"
         "  store_rows_of_warp(rows + column, row_stride, d, tiles, (columns - column) / 8, valid, DTYPE,\n"
         "                     scale, accumulate, lane);\n"
         "}\n"
         "\n");
    if (parts || sequence_parts) {
      TEXT("// Stores the columns of a gradient from `column` on, 8 `tiles`, in a row of tiles.\n"
           "__device__ __forceinline__ void store_columns(float *row, const float *d, int tiles, int column,\n"
           "                                              int columns, int lane) {\n"
           "#pragma unroll\n"
           "  for (int tile = 0; tile < tiles; ++tile)\n"
           "    if (column + tile * 8 < columns)\n"
           "      store_for_sum(row + (column / 8 + tile) * 128, d + tile * 4, 1, lane);\n"
           "}\n"
           "\n");
    }
    TEXT("// The products of a gradient have been waited for.\n"
         "__device__ __forceinline__ void order_dv(float dv[V_COLUMNS / 2]) {\n"
         "  wgmma_order_n");
    INTEGER(v_width);
    TEXT("(dv);\n");
    if (v_half) {
      TEXT("  wgmma_order_n32(dv + 32);\n");
    }
    TEXT("}\n"
         "\n"
         "__device__ __forceinline__ void order_dk(float dk[K_COLUMNS / 2]) {\n"
         "  wgmma_order_n");
    INTEGER(k_width);
    TEXT("(dk);\n");
    if (k_half) {
      TEXT("  wgmma_order_n32(dk + 32);\n");
    }
    TEXT("}\n"
         "\n");
    if (dropout) {
      TEXT("// Which probabilities of a consumer's part of a step are dropped, while its products run.\n"
           "__device__ __forceinline__ uint32_t decide(const attnpress_bwd_args *args, int consumer,\n"
           "                                           Step step) {\n"
           "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
           "  return decide_tiles(S_TILES, &dropout_kept[consumer * 4 + warp],\n"
           "                      step.row + consumer * S_ROWS, lane,\n"
           "                      args->score.dropout_threshold);\n"
           "}\n"
           "\n"
           "// Before a step's products: what its warps draw from.\n"
           "__device__ __forceinline__ void keep_step(const attnpress_bwd_args *args, const Work *work,\n"
           "                                          int consumer, Step step) {\n"
           "  const int warp = threadIdx.x / 32 % 4;\n"
           "  keep_words(&dropout_kept[consumer * 4 + warp], &args->score,\n"
           "             (int64_t)work->batch * args->heads_q, step.head,\n"
           "             work->key_begin + warp * 16,\n"
           "             threadIdx.x % 32);\n"
           "}\n"
           "\n");
    }
    TEXT("// One consumer.\n"
         "__device__ __forceinline__ void consume(const attnpress_bwd_args *args, unsigned char *smem,\n"
         "                                        uint32_t shared, const Work *work, int consumer) {\n"
         "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
         "  float dk[K_COLUMNS / 2] = {}, dv[V_COLUMNS / 2] = {};\n"
         "  float score[S_TILES * 4], dp[S_TILES * 4];\n");
    if (dropout) {
      TEXT("  keep_nothing(&dropout_kept[consumer * 4 + warp], lane);\n");
    }
    TEXT("  Step step = {work->first_head, work->");
    STRING(parts ? "walk_begin" : "row_begin");
    TEXT("};\n");
    if (takes) {
      TEXT("  const int first = work->before.steps, end = first + work->steps;\n"
           "  Stage stage = progress_stage(work->before, STAGES);\n");
    } else {
      TEXT("  Stage stage = {0, 0};\n");
    }
    TEXT("  if (work->steps > 0) {\n"
         "    // The copy engine, and the producer, hand over K, V, Q, dO, lse and delta.\n"
         "    wait_for_phase(k_full(shared), ");
    STRING(takes ? "work->before.keys % 2" : "0");
    TEXT(");\n"
         "    wait_for_phase(q_full(shared, ");
    STRING(takes ? "stage.index" : "0");
    TEXT("), ");
    STRING(takes ? "stage.parity" : "0");
    TEXT(");\n");
    if (dropout) {
      TEXT("    keep_step(args, work, consumer, step);\n");
    }
    TEXT("    start_scores(score, shared, consumer, ");
    STRING(takes ? "stage.index" : "0");
    TEXT(");\n"
         "    wait_for_phase(v_full(shared), ");
    STRING(takes ? "work->before.keys % 2" : "0");
    TEXT(");\n"
         "    wait_for_phase(do_full(shared, ");
    STRING(takes ? "stage.index" : "0");
    TEXT("), ");
    STRING(takes ? "stage.parity" : "0");
    TEXT(");\n"
         "    start_dp(dp, shared, consumer, ");
    STRING(takes ? "stage.index" : "0");
    TEXT(");\n");
    if (dropout) {
      TEXT("    const uint32_t dropped = decide(args, consumer, step);\n"
           "    exchange_scores(score, dp, args, smem, shared, work, consumer, step, 0, 0, 0, dropped);\n");
    } else {
      TEXT("    exchange_scores(score, dp, args, smem, shared, work, consumer, step, ");
      STRING(takes ? "stage.index" : "0");
      TEXT(", ");
      STRING(takes ? "first" : "0");
      TEXT(", 0);\n");
    }
    TEXT("    hand_over(shared, consumer, ");
    STRING(takes ? "first" : "0");
    TEXT(");\n"
         "  }\n"
         "  for (int n = ");
    STRING(takes ? "first" : "0");
    TEXT("; n + 1 < ");
    STRING(takes ? "end" : "work->steps");
    TEXT("; ++n) {\n"
         "    const Stage next = next_stage(stage, STAGES);\n"
         "    step = step_after(step, work);\n");
    if (dropout) {
      TEXT("    keep_step(args, work, consumer, step);\n");
    }
    if (stages == 2) {
      TEXT("    start_dv(dv, shared, consumer, n % 2, stage.index);\n"
           "    start_dk(dk, shared, consumer, n % 2, stage.index);\n");
    }
    TEXT("    // The producer and the copy engine hand over Q, lse and delta of the next step, and dO.\n"
         "    wait_for_phase(q_full(shared, next.index), next.parity);\n"
         "    start_scores(score, shared, consumer, next.index);\n"
         "    wait_for_phase(do_full(shared, next.index), next.parity);\n"
         "    start_dp(dp, shared, consumer, next.index);\n");
    if (stages == 2) {
      TEXT("    wgmma_wait(2);\n"
           "    order_dv(dv);\n"
           "    order_dk(dk);\n"
           "    arrive_once(step_empty(shared, stage.index));\n");
    } else {
      TEXT("    start_dv(dv, shared, consumer, n % 2, stage.index);\n"
           "    start_dk(dk, shared, consumer, n % 2, stage.index);\n");
    }
    if (dropout) {
      TEXT("    const uint32_t dropped = decide(args, consumer, step);\n"
           "    exchange_scores(score, dp, args, smem, shared, work, consumer, step, next.index, n + 1,\n"
           "                    ");
      INTEGER((stages == 2) ? 0 : 2);
      TEXT(", dropped);\n");
    } else {
      TEXT("    exchange_scores(score, dp, args, smem, shared, work, consumer, step, next.index, n + 1,\n"
           "                    ");
      INTEGER((stages == 2) ? 0 : 2);
      TEXT(");\n");
    }
    if (stages > 2) {
      TEXT("    wgmma_wait(0);\n"
           "    order_dv(dv);\n"
           "    order_dk(dk);\n"
           "    arrive_once(step_empty(shared, stage.index));\n");
    }
    TEXT("    hand_over(shared, consumer, n + 1);\n"
         "    stage = next;\n"
         "  }\n"
         "  if (work->steps > 0) {\n");
    if (takes) {
      TEXT("    arrive_once(v_empty()); // the last dP has been waited for\n");
    }
    TEXT("    start_dv(dv, shared, consumer, (");
    STRING(takes ? "end" : "work->steps");
    TEXT(" - 1) % 2, stage.index);\n"
         "    start_dk(dk, shared, consumer, (");
    STRING(takes ? "end" : "work->steps");
    TEXT(" - 1) % 2, stage.index);\n"
         "    wgmma_wait(0);\n"
         "    order_dv(dv);\n"
         "    order_dk(dk);\n");
    if (takes) {
      TEXT("    arrive_once(step_empty(shared, stage.index));\n");
    }
    TEXT("  }\n"
         "\n");
    if (sequence_parts) {
      TEXT("  if (is_direct(args))\n"
           "    clear_unseen_rows(args, work->at->q_batch, work->at->q_row, work->first_head, work->at->group,\n"
           "                      work->row_begin, work->row_end, HEAD_DIM, threadIdx.x - 128,\n"
           "                      CONSUMER_THREADS);\n");
    }
    if (parts || sequence_parts) {
      if (parts) {
        TEXT("  if (is_shared(args, work)) { // other blocks have other parts of the walk\n"
             "    const int tile = (work->key_begin) / 16 + warp;\n"
             "    float *const dk_sum =\n"
             "        args->dk_sum +\n"
             "        key_sum_offset(args, work->part, work->batch, work->kv_head, tile, HEAD_DIM);\n"
             "    float *const dv_sum =\n"
             "        args->dv_sum +\n"
             "        key_sum_offset(args, work->part, work->batch, work->kv_head, tile, HEAD_DIM_V);\n");
      } else {
        TEXT("  if (work->at->key_sum_tile >= 0) { // other blocks have other heads of the group\n"
             "    const int64_t tile = work->at->key_sum_tile + warp;\n"
             "    float *const dk_sum = args->dk_sum + tile * (HEAD_DIM / 8 * 128);\n"
             "    float *const dv_sum = args->dv_sum + tile * (HEAD_DIM_V / 8 * 128);\n");
      }
      if (k_half) {
        TEXT("    store_columns(dk_sum, dk, 8, consumer * 128, HEAD_DIM, lane);\n"
             "    store_columns(dk_sum, dk + 32, 4, 64 + consumer * 32, HEAD_DIM, lane);\n");
      } else {
        TEXT("    store_columns(dk_sum, dk, ");
        INTEGER(k_width / 8);
        TEXT(", consumer * K_COLUMNS, HEAD_DIM, lane);\n");
      }
      if (v_half) {
        TEXT("    store_columns(dv_sum, dv, 8, consumer * 128, HEAD_DIM_V, lane);\n"
             "    store_columns(dv_sum, dv + 32, 4, 64 + consumer * 32, HEAD_DIM_V, lane);\n");
      } else {
        TEXT("    store_columns(dv_sum, dv, ");
        INTEGER(v_width / 8);
        TEXT(", consumer * V_COLUMNS, HEAD_DIM_V, lane);\n");
      }
      TEXT("    return;\n"
           "  }\n");
    }
    TEXT("  // From registers: the warps of dQ may still read K.\n"
         "  const int row = warp * 16;\n"
         "  const int valid = args->seqlen_k - work->key_begin - row;\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("  const int key_batch = work->at->k_batch, key_row = work->at->k_row + work->key_begin + row;\n");
    } else {
      TEXT("  const int key_batch = work->batch, key_row = work->key_begin + row;\n");
    }
    TEXT("  uint16_t *const dk_rows = (uint16_t *)args->dk + key_batch * args->dk_batch_stride +\n"
         "                            work->kv_head * args->dk_head_stride + key_row * args->dk_row_stride;\n"
         "  uint16_t *const dv_rows = (uint16_t *)args->dv + key_batch * args->dv_batch_stride +\n"
         "                            work->kv_head * args->dv_head_stride + key_row * args->dv_row_stride;\n");
    if (dropout) {
      TEXT("  const float dv_scale = args->score.dropout_scale;\n");
    } else {
      TEXT("  const float dv_scale = 1.0f;\n");
    }
    if (k_half) {
      TEXT("  store_gradient_columns(dk_rows, args->dk_row_stride, dk, 8, consumer * 128, HEAD_DIM, valid,\n"
           "                         args->scale, args->accumulate, lane);\n"
           "  store_gradient_columns(dk_rows, args->dk_row_stride, dk + 32, 4, 64 + consumer * 32, HEAD_DIM,\n"
           "                         valid, args->scale, args->accumulate, lane);\n");
    } else {
      TEXT("  store_gradient_columns(dk_rows, args->dk_row_stride, dk, ");
      INTEGER(k_width / 8);
      TEXT(",\n"
           "                         consumer * K_COLUMNS, HEAD_DIM, valid, args->scale,\n"
           "                         args->accumulate, lane);\n");
    }
    if (v_half) {
      TEXT("  store_gradient_columns(dv_rows, args->dv_row_stride, dv, 8, consumer * 128, HEAD_DIM_V, valid,\n"
           "                         dv_scale, args->accumulate, lane);\n"
           "  store_gradient_columns(dv_rows, args->dv_row_stride, dv + 32, 4, 64 + consumer * 32, HEAD_DIM_V,\n"
           "                         valid, dv_scale, args->accumulate, lane);\n");
    } else {
      TEXT("  store_gradient_columns(dv_rows, args->dv_row_stride, dv, ");
      INTEGER(v_width / 8);
      TEXT(",\n"
           "                         consumer * V_COLUMNS, HEAD_DIM_V, valid, dv_scale,\n"
           "                         args->accumulate, lane);\n");
    }
    TEXT("}\n"
         "\n"
         "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, 1)\n"
         "    ");
    STRING(stem);
    TEXT("(\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("        const __grid_constant__ attnpress_bwd_sm90_ragged_args args) {\n");
    } else {
      TEXT("        const __grid_constant__ attnpress_bwd_sm90_args args) {\n");
    }
    TEXT("  extern __shared__ __align__(1024) unsigned char smem[];\n"
         "  const uint32_t shared = shared_address(smem);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("  __shared__ SequencePlace sequence;\n"
           "  __shared__ Work found;\n"
           "  if (threadIdx.x < 32)\n"
           "    write_work(&found, &sequence, &args.batch, blockIdx.x);\n"
           "  // Tensor maps are where dense kernels have them.\n"
           "  const attnpress_bwd_sm90_args *const maps = (const attnpress_bwd_sm90_args *)&args;\n");
    } else {
      TEXT("  const attnpress_bwd_sm90_args *const maps = &args;\n");
    }
    TEXT("  if (threadIdx.x == 0) {\n"
         "    prefetch_tensor_map(&maps->q);\n"
         "    prefetch_tensor_map(&maps->dout);\n"
         "    prefetch_tensor_map(&maps->k);\n"
         "    prefetch_tensor_map(&maps->v);\n"
         "    mbarrier_init(k_full(shared), 1);\n"
         "    mbarrier_init(v_full(shared), 1);\n");
    if (sums) {
      TEXT("    for (int turn = 0; turn < 2; ++turn) {\n"
           "      mbarrier_init(ds_full(shared, turn), 4 * CONSUMERS);\n"
           "      mbarrier_init(ds_empty(shared, turn), 4);\n"
           "    }\n");
    }
    TEXT("    for (int stage = 0; stage < STAGES; ++stage) {\n"
         "      mbarrier_init(q_full(shared, stage), 2);\n"
         "      mbarrier_init(do_full(shared, stage), 1);\n"
         "      mbarrier_init(step_empty(shared, stage), 4 * CONSUMERS);\n"
         "    }\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("    for (int i = 0; i < 2 + STAGES; ++i)\n"
           "      mbarrier_init(shared_address(&tail_barriers[i]), 1);\n");
    }
    if (takes) {
      TEXT("    mbarrier_init(k_empty(), 4);\n"
           "    mbarrier_init(v_empty(), 4 * CONSUMERS);\n"
           "    init_take_barriers(TAKE_READERS);\n"
           "    works[1].before = {0, 0}; // of which the first work is what comes behind\n"
           "    works[1].steps = 0;\n");
    }
    TEXT("    fence_mbarrier_init();\n"
         "  }\n"
         "  // All threads arrive and wait: hands over the barriers");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT(", and the work");
    }
    TEXT(".\n"
         "  __syncthreads();\n"
         "\n");
    if (takes) {
      TEXT("  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
           "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n"
           "  const attnpress_bwd_args &bwd = args.bwd;\n"
           "  // bwd_delta may still run: all but what brings Q, K, V and dO wait for its end.\n"
           "  if (warp != 0 || bwd.taken != nullptr)\n"
           "    griddepcontrol_wait();\n"
           "  griddepcontrol_launch_dependents();\n"
           "  if (warp == 0) {\n"
           "    decrease_registers(PRODUCER_REGISTERS);\n"
           "    for (int turn = 0;; ++turn) {\n"
           "      // All other warps arrived: hands over the place of what was taken before last.\n"
           "      wait_for_phase(work_empty(turn % 2), turn / 2 % 2 ^ 1);\n"
           "      const int number = take_work(&bwd, turn == 0);\n"
           "      write_work(&works[turn % 2], &bwd, number);\n"
           "      if (threadIdx.x == 0)\n"
           "        works[turn % 2].before = progress_behind(&works[turn % 2 ^ 1]);\n"
           "      // The warp's lanes arrive and wait, so that one arrival stands for all: here and below.\n"
           "      __syncwarp();\n"
           "      arrive_once(work_full(turn % 2));\n"
           "      if (works[turn % 2].key_begin < 0)\n"
           "        break;\n"
           "      if (threadIdx.x == 0 && works[turn % 2].steps > 0)\n"
           "        produce(maps, shared, &works[turn % 2]);\n"
           "      __syncwarp();\n"
           "    }\n"
           "  } else if (warp == 1) {\n"
           "    decrease_registers(PRODUCER_REGISTERS);\n"
           "    for (int turn = 0;; ++turn) {\n"
           "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
           "      const Work *const work = &works[turn % 2];\n"
           "      if (work->key_begin < 0)\n"
           "        break;\n"
           "      produce_rows(&bwd, smem, shared, work);\n"
           "      __syncwarp();\n"
           "      arrive_once(work_empty(turn % 2));\n"
           "    }\n"
           "  } else if (warp < 4) {\n"
           "    decrease_registers(PRODUCER_REGISTERS);\n"
           "    for (int turn = 0;; ++turn) {\n"
           "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
           "      const Work *const work = &works[turn % 2];\n"
           "      if (work->key_begin < 0)\n"
           "        break;\n"
           "      zero_ahead(&bwd, unit_of(&bwd, work), work->key_begin / BLOCK_N, HEAD_DIM, warp - 2, 2);\n"
           "      __syncwarp();\n"
           "      arrive_once(work_empty(turn % 2));\n"
           "    }\n"
           "  } else if (warp >= 4 + 4 * CONSUMERS) {\n"
           "    decrease_registers(DQ_REGISTERS);\n"
           "    for (int turn = 0;; ++turn) {\n"
           "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
           "      const Work *const work = &works[turn % 2];\n"
           "      if (work->key_begin < 0)\n"
           "        break;\n"
           "      sum_dq(&bwd, shared, work);\n"
           "      __syncwarp();\n"
           "      arrive_once(work_empty(turn % 2));\n"
           "    }\n"
           "  } else {\n"
           "    increase_registers(CONSUMER_REGISTERS);\n"
           "    for (int turn = 0;; ++turn) {\n"
           "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
           "      if (works[turn % 2].key_begin < 0)\n"
           "        break;\n"
           "      const Work work = works[turn % 2];\n"
           "      consume(&bwd, smem, shared, &work, warp / 4 - 1);\n"
           "      __syncwarp();\n"
           "      arrive_once(work_empty(turn % 2));\n"
           "    }\n"
           "  }\n");
    } else {
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  if (found.key_begin < 0)\n"
             "    return;\n"
             "  const Work work = found;\n"
             "  const attnpress_bwd_args bwd =\n"
             "      args_of_lengths(&args.batch, sequence.seqlen_q, sequence.seqlen_k);\n");
      } else {
        TEXT("  const attnpress_bwd_args &bwd = args.bwd;\n"
             "  const Work work = find_work(&bwd, blockIdx.x);\n");
      }
      TEXT("  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
           "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n");
      if (sums) {
        TEXT("  // bwd_delta may still run: all but what brings Q, K, V and dO wait for its end.\n"
             "  if (warp != 0)\n"
             "    griddepcontrol_wait();\n");
      }
      if (sums) {
        TEXT("  griddepcontrol_launch_dependents();\n");
      }
      TEXT("  if (warp < 4) {\n"
           "    decrease_registers(PRODUCER_REGISTERS);\n");
      if (parts) {
        TEXT("    if (warp >= 2)\n"
             "      zero_ahead(&bwd, unit_of(&bwd, &work), work.key_begin / BLOCK_N, HEAD_DIM, warp - 2, 2);\n");
      }
      TEXT("    if (threadIdx.x == 0 && work.steps > 0)\n"
           "      produce(maps, shared, &work);\n"
           "    if (warp == 1)\n"
           "      produce_rows(&bwd, smem, shared, &work);\n");
      if (sums) {
        TEXT("  } else if (warp >= 4 + 4 * CONSUMERS) {\n"
             "    decrease_registers(DQ_REGISTERS);\n"
             "    sum_dq(&bwd, ");
        STRING(bulk ? "smem, " : "");
        TEXT("shared, &work);\n");
      }
      TEXT("  } else {\n"
           "    increase_registers(CONSUMER_REGISTERS);\n"
           "    consume(&bwd, smem, shared, &work, warp / 4 - 1);\n"
           "  }\n");
      if (!sums) {
        TEXT("  // bwd_dq, which may still run, began when bwd_delta had ended. Who comes next waits for both.\n"
             "  griddepcontrol_wait();\n");
      }
    }
    TEXT("}\n");
  }
}
