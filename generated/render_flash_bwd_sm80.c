/* Written by `python -m generator` from templates/attention/flash_bwd_sm80.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_sm80(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_sm80(ap_text *out, const ap_render_input *in) {
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
  const int32_t mod_score = in->axis[AP_ATTENTION_MOD_SCORE];
  const int32_t mod_mask = in->axis[AP_ATTENTION_MOD_MASK];
  const int32_t mod_grad = in->axis[AP_ATTENTION_MOD_GRAD];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  const int32_t warps_n = in->field[AP_ATTENTION_TILE_WARPS_N];
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  const int32_t min_blocks = in->field[AP_ATTENTION_TILE_MIN_BLOCKS];
  const int32_t spread = in->field[AP_ATTENTION_TILE_SPREAD];
  const int32_t warps_k = in->field[AP_ATTENTION_TILE_WARPS_K];
  const int32_t acc_warps = in->field[AP_ATTENTION_TILE_ACC_WARPS];
  const int32_t dq_warps = in->field[AP_ATTENTION_TILE_DQ_WARPS];
  const int32_t v_stages = in->field[AP_ATTENTION_TILE_V_STAGES];
  int32_t owns_keys = (pass == AP_ATTENTION_PASS_BWD_DQ) ? 0 : 1;
  int32_t own_warps = owns_keys ? warps_n : warps_m;
  int32_t walk_warps = owns_keys ? warps_m : warps_n;
  int32_t v_slots = (v_stages > 0) ? v_stages : stages;
  int32_t in_registers = ((walk_warps == 1) && (acc_warps == own_warps)) ? 1 : 0;
  int32_t shares_place = (((hdim <= 256) && (hdim_v <= 256)) && ((arch == 80) || (smem_bytes <= 101328))) ? 1 : 0;
  int32_t snippet = (mod_score || mod_mask) ? 1 : 0;
  int32_t modifies = (!mod_score && ((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE))) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (pass == AP_ATTENTION_PASS_BWD) {
    TEXT("// The backward pass: dV = P^T dO, dK = scale dS^T Q, and dQ / scale = dS K, added up in fp32,\n");
  } else if (pass == AP_ATTENTION_PASS_BWD_DKV) {
    TEXT("// Half of the backward pass: dV = P^T dO and dK = scale dS^T Q,\n");
  } else {
    TEXT("// Half of the backward pass: dQ = scale dS K,\n");
  }
  TEXT("// where P = softmax(scale Q K^T) is computed anew from the forward pass's lse, dP = dO V^T and\n"
       "// dS = P (dP - delta), delta = rowsum(dO out).\n");
  if (owns_keys) {
    TEXT("// One thread block owns BLOCK_N keys of one head and walks over the query rows that see them, of\n"
         "// all query heads that share the key head, BLOCK_M at a time. S and dP are computed transposed:\n"
         "// keys are rows, so that P^T and dS^T are A of the products that they go into.\n");
  } else {
    TEXT("// One thread block owns BLOCK_M query rows of one head and walks over the keys that they see,\n"
         "// BLOCK_N at a time.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/attention/flash_bwd_sm80.cu.j2 with tile ");
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
  if (mod_score) {
    TEXT(" --mod-score");
  }
  if (mod_mask) {
    TEXT(" --mod-mask");
  }
  if (mod_grad) {
    TEXT(" --mod-grad");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT(" --");
    STRING(in->word[AP_ATTENTION_SEQUENCES]);
  }
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/attention.h\"\n");
  if (dropout) {
    TEXT("#include \"attnpress/device/dropout.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/dtype.cuh\"\n");
  if (mod_score) {
    TEXT("#include \"attnpress/device/dual.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/gradient.cuh\"\n");
  if ((pass == AP_ATTENTION_PASS_BWD) && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) {
    TEXT("#include \"attnpress/device/gradient_direct.cuh\"\n");
  }
  if (((modifies || softcap) || dropout) || (mask == AP_ATTENTION_MASK_WINDOW)) {
    TEXT("#include \"attnpress/device/gradient_modify.cuh\"\n");
  }
  if ((mask == AP_ATTENTION_MASK_CAUSAL) && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("#include \"attnpress/device/gradient_order.cuh\"\n");
  }
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/gradient_sequence.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/gradient_store.cuh\"\n"
       "#include \"attnpress/device/product.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n");
  if (mod_grad) {
    TEXT("#include \"attnpress/device/ptx_red.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/score.cuh\"\n");
  if (snippet) {
    TEXT("#include \"attnpress/device/score_text.cuh\"\n");
  }
  if (mod_grad) {
    TEXT("#include \"attnpress/device/score_trace.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/tile.cuh\"\n"
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
  TEXT("; // query rows of a block or a step\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys of a step or a block\n"
       "constexpr int WARPS_M = ");
  INTEGER(warps_m);
  TEXT("; // warps that share the queries of S\n"
       "constexpr int WARPS_N = ");
  INTEGER(warps_n);
  TEXT("; // warps that share the keys of S\n"
       "constexpr int WARPS_K = ");
  INTEGER(warps_k);
  TEXT("; // warps that compute the same part of S\n");
  if (owns_keys) {
    TEXT("constexpr int ACC_WARPS = ");
    INTEGER(acc_warps);
    TEXT("; // warps that share the keys of dK and dV; the others their columns\n");
  } else {
    TEXT("constexpr int ACC_WARPS = ");
    INTEGER(acc_warps);
    TEXT("; // warps that share the rows of dQ; the others its columns\n");
  }
  if (pass == AP_ATTENTION_PASS_BWD) {
    TEXT("constexpr int DQ_WARPS = ");
    INTEGER(dq_warps);
    TEXT("; // warps that share the rows of dQ; the others its columns\n");
  }
  TEXT("constexpr int STAGES = ");
  INTEGER(stages);
  TEXT("; // slots of the ring that a step's ");
  STRING(owns_keys ? "Q" : "K");
  TEXT(" passes through\n"
       "constexpr int V_STAGES = ");
  INTEGER(v_slots);
  TEXT("; // the same of ");
  STRING(owns_keys ? "dO" : "V");
  TEXT("\n"
       "constexpr int MIN_BLOCKS = ");
  INTEGER(min_blocks);
  TEXT("; // thread blocks that an SM is to hold\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "\n"
       "constexpr int NUM_WARPS = WARPS_M * WARPS_N * WARPS_K;\n"
       "constexpr int NUM_THREADS = 32 * NUM_WARPS;\n");
  if (owns_keys) {
    TEXT("constexpr int OWN_ROWS = BLOCK_N, OWN_WARPS = WARPS_N; // of K and V\n"
         "constexpr int WALK_ROWS = BLOCK_M, WALK_WARPS = WARPS_M; // of Q and dO\n");
  } else {
    TEXT("constexpr int OWN_ROWS = BLOCK_M, OWN_WARPS = WARPS_M; // of Q and dO\n"
         "constexpr int WALK_ROWS = BLOCK_N, WALK_WARPS = WARPS_N; // of K and V\n");
  }
  TEXT("constexpr int S_ROWS = OWN_ROWS / (16 * OWN_WARPS); // tiles of 16 rows of S, of a warp\n"
       "constexpr int S_COLUMNS = WALK_ROWS / (8 * WALK_WARPS); // tiles of 8 columns\n"
       "constexpr int ACC_ROWS = OWN_ROWS / (16 * ACC_WARPS); // the same of the gradients\n"
       "constexpr int ACC_COLUMN_WARPS = NUM_WARPS / ACC_WARPS;\n"
       "constexpr int ACC_COLUMNS = column_share(HEAD_DIM / 8, ACC_COLUMN_WARPS);\n");
  if (owns_keys) {
    TEXT("constexpr int ACC_COLUMNS_V = column_share(HEAD_DIM_V / 8, ACC_COLUMN_WARPS);\n");
  }
  if (pass == AP_ATTENTION_PASS_BWD) {
    TEXT("constexpr int DQ_ROWS = BLOCK_M / (16 * DQ_WARPS);\n"
         "constexpr int DQ_COLUMN_WARPS = NUM_WARPS / DQ_WARPS;\n"
         "constexpr int DQ_COLUMNS = column_share(HEAD_DIM / 8, DQ_COLUMN_WARPS);\n");
  }
  TEXT("\n"
       "// Bytes of a row in shared memory.\n"
       "constexpr int ROW_BYTES = tile_row_bytes(HEAD_DIM); // of Q and K\n"
       "constexpr int ROW_BYTES_V = tile_row_bytes(HEAD_DIM_V); // of V and dO\n");
  if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    TEXT("constexpr int S_ROW_BYTES = tile_row_bytes(WALK_ROWS); // of P and dS\n");
  }
  TEXT("\n"
       "// Shared memory: ");
  STRING(owns_keys ? "K | V" : "Q | dO");
  TEXT(" | ring of ");
  STRING(owns_keys ? "Q, lse and delta | ring of dO" : "K | ring of V");
  if (!in_registers && owns_keys) {
    TEXT(" | P");
  }
  if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    TEXT(" | dS");
  }
  TEXT(".\n"
       "constexpr int OWN_V_OFFSET = OWN_ROWS * ROW_BYTES;\n"
       "constexpr int RING_OFFSET = OWN_V_OFFSET + OWN_ROWS * ROW_BYTES_V;\n");
  if (owns_keys) {
    TEXT("constexpr int LSE_OFFSET = WALK_ROWS * ROW_BYTES; // in a slot\n"
         "constexpr int DELTA_OFFSET = LSE_OFFSET + WALK_ROWS * 4;\n"
         "constexpr int SLOT_BYTES = DELTA_OFFSET + WALK_ROWS * 4;\n");
  } else {
    TEXT("constexpr int SLOT_BYTES = WALK_ROWS * ROW_BYTES;\n");
  }
  TEXT("constexpr int RING_V_OFFSET = RING_OFFSET + STAGES * SLOT_BYTES;\n"
       "constexpr int SLOT_BYTES_V = WALK_ROWS * ROW_BYTES_V;\n"
       "constexpr int S_OFFSET = RING_V_OFFSET + V_STAGES * SLOT_BYTES_V;\n");
  if (!in_registers && owns_keys) {
    TEXT("constexpr int DS_OFFSET = S_OFFSET + OWN_ROWS * S_ROW_BYTES;\n");
  } else if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    TEXT("constexpr int DS_OFFSET = S_OFFSET;\n");
  }
  if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    TEXT("static_assert(SMEM_BYTES >= DS_OFFSET + OWN_ROWS * S_ROW_BYTES, \"shared memory\");\n");
  } else {
    TEXT("static_assert(SMEM_BYTES >= S_OFFSET, \"shared memory\");\n");
  }
  TEXT("static_assert(OWN_ROWS % (16 * OWN_WARPS) == 0 && OWN_ROWS % (16 * ACC_WARPS) == 0, \"tile\");\n"
       "static_assert(WALK_ROWS % (16 * WALK_WARPS) == 0 && NUM_WARPS % ACC_WARPS == 0, \"tile\");\n"
       "static_assert(128 % BLOCK_M == 0, \"lse and delta are padded to a multiple of 128 rows\");\n"
       "\n"
       "// What a thread block computes, and what it walks over.\n"
       "struct Work {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  int64_t batch; // the sequence\n");
    if (shares_place) {
      TEXT("  const volatile SequencePlace *at; // in shared memory\n");
    } else {
      TEXT("  const SequencePlace *at; // shared memory may be full\n");
    }
  } else {
    TEXT("  int64_t batch;\n");
  }
  if (owns_keys) {
    TEXT("  int kv_head;\n"
         "  int begin; // first key\n");
  } else {
    TEXT("  int head;\n"
         "  int begin; // first row\n");
  }
  TEXT("};\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_ragged_args *args,\n"
         "                                          const Unit *unit) {\n"
         "  Work work;\n"
         "  work.batch = unit->sequence;\n");
    if (owns_keys) {
      TEXT("  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.\n"
           "  work.begin = unit->block * BLOCK_N;\n"
           "  work.kv_head = unit->head;\n");
    } else if (mask == AP_ATTENTION_MASK_CAUSAL) {
      TEXT("  // The last rows see the most keys, and the longest row blocks come first.\n"
           "  work.begin = (args->sequences[unit->order].blocks - 1 - unit->block) * BLOCK_M;\n"
           "  work.head = unit->head;\n");
    } else {
      TEXT("  work.begin = unit->block * BLOCK_M;\n"
           "  work.head = unit->head;\n");
    }
    TEXT("  return work;\n"
         "}\n");
  } else {
    if (mask == AP_ATTENTION_MASK_CAUSAL) {
      TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int index) {\n"
           "  const int block = block_in_turn(args, index, gridDim.x);\n");
    } else {
      TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int block) {\n");
    }
    TEXT("  Work work;\n");
    if (owns_keys) {
      TEXT("  // Causal: the first keys are seen by the most rows, and the longest key blocks come first.\n"
           "  work.begin = block % args->blocks * BLOCK_N;\n"
           "  const int head = block / args->blocks;\n"
           "  work.kv_head = head % args->heads_kv;\n"
           "  work.batch = head / args->heads_kv;\n");
    } else if (mask == AP_ATTENTION_MASK_CAUSAL) {
      TEXT("  // The last rows see the most keys, and the longest row blocks come first.\n"
           "  work.begin = (args->blocks - 1 - block % args->blocks) * BLOCK_M;\n"
           "  const int head = block / args->blocks;\n"
           "  work.head = head % args->heads_q;\n"
           "  work.batch = head / args->heads_q;\n");
    } else {
      TEXT("  work.begin = block % args->blocks * BLOCK_M;\n"
           "  const int head = block / args->blocks;\n"
           "  work.head = head % args->heads_q;\n"
           "  work.batch = head / args->heads_q;\n");
    }
    TEXT("  return work;\n"
         "}\n");
  }
  TEXT("\n"
       "// Where the rows of a query head begin in lse_log2 and delta.\n"
       "__device__ __forceinline__ int64_t values_of_head(const attnpress_bwd_args *args, Work work,\n"
       "                                                  int head) {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  return (int64_t)head * args->row_tiles * 16 + work.at->values_row;\n");
  } else {
    TEXT("  return (work.batch * args->heads_q + head) * args->row_tiles * 16;\n");
  }
  TEXT("}\n"
       "\n"
       "// Starts part `part` of `parts` of the copy of `rows` rows of a tensor whose first row is at\n"
       "// `offset`; rows from `valid` on become zeros.\n"
       "__device__ __forceinline__ void load_rows(uint32_t shared, const void *global, int64_t offset,\n"
       "                                          int64_t row_stride, int rows, int columns, int valid,\n"
       "                                          int part, int parts) {\n"
       "  const int thread = threadIdx.x, passes = copy_passes(rows, columns, NUM_THREADS);\n"
       "  const int each = ceil_div(passes, parts), first = part * each;\n"
       "  const int row = first * (NUM_THREADS / (columns / 8)) + copy_row(columns, thread);\n"
       "  copy_rows_async(shared, tile_row_bytes(columns),\n"
       "                  (const uint16_t *)global + offset + row * row_stride +\n"
       "                      copy_column(columns, thread),\n"
       "                  row_stride, rows, columns, valid, first, min_int(first + each, passes), thread,\n"
       "                  NUM_THREADS);\n"
       "}\n"
       "\n");
  if (owns_keys) {
    TEXT("// Starts the load of K and V of the block's keys.\n"
         "__device__ __forceinline__ void load_own(uint32_t shared, const attnpress_bwd_args *args,\n"
         "                                         Work work) {\n"
         "  const int valid = args->seqlen_k - work.begin;\n"
         "  load_rows(shared, args->k,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->k_batch" : "work.batch");
    TEXT(" * args->k_batch_stride + work.kv_head * args->k_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->k_row + work.begin)" : "work.begin");
    TEXT(" * args->k_row_stride,\n"
         "            args->k_row_stride, OWN_ROWS, HEAD_DIM, valid, 0, 1);\n"
         "  load_rows(shared + OWN_V_OFFSET, args->v,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->k_batch" : "work.batch");
    TEXT(" * args->v_batch_stride + work.kv_head * args->v_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->k_row + work.begin)" : "work.begin");
    TEXT(" * args->v_row_stride,\n"
         "            args->v_row_stride, OWN_ROWS, HEAD_DIM_V, valid, 0, 1);\n"
         "}\n"
         "\n"
         "// A step: BLOCK_M rows of a query head.\n"
         "struct Step {\n"
         "  int head, row;\n"
         "};\n"
         "\n"
         "// Starts a part of the load of Q of a step, and with the first part that of lse and delta.\n"
         "__device__ __forceinline__ void load_step(uint32_t slot, const attnpress_bwd_args *args, Work work,\n"
         "                                          Step step, int part, int parts) {\n"
         "  load_rows(slot, args->q,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->q_batch" : "work.batch");
    TEXT(" * args->q_batch_stride + step.head * args->q_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->q_row + step.row)" : "step.row");
    TEXT(" * args->q_row_stride,\n"
         "            args->q_row_stride, WALK_ROWS, HEAD_DIM, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->seqlen_q" : "args->seqlen_q");
    TEXT(" - step.row,\n"
         "            part, parts);\n"
         "  const int chunk = threadIdx.x; // of 4 rows\n"
         "  if (part == 0 && chunk < WALK_ROWS / 4) {\n"
         "    const int64_t from = values_of_head(args, work, step.head) + step.row + chunk * 4;\n"
         "    cp_async_16(slot + LSE_OFFSET + chunk * 16, args->lse_log2 + from, 16);\n"
         "    cp_async_16(slot + DELTA_OFFSET + chunk * 16, args->delta + from, 16);\n"
         "  }\n"
         "}\n"
         "\n"
         "// The same of dO.\n"
         "__device__ __forceinline__ void load_step_v(uint32_t slot, const attnpress_bwd_args *args,\n"
         "                                            Work work, Step step, int part, int parts) {\n"
         "  load_rows(slot, args->dout,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->q_batch" : "work.batch");
    TEXT(" * args->dout_batch_stride + step.head * args->dout_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->q_row + step.row)" : "step.row");
    TEXT(" * args->dout_row_stride,\n"
         "            args->dout_row_stride, WALK_ROWS, HEAD_DIM_V, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->seqlen_q" : "args->seqlen_q");
    TEXT(" - step.row,\n"
         "            part, parts);\n"
         "}\n");
  } else {
    TEXT("// Starts the load of Q and dO of the block's rows.\n"
         "__device__ __forceinline__ void load_own(uint32_t shared, const attnpress_bwd_args *args,\n"
         "                                         Work work) {\n"
         "  const int valid = args->seqlen_q - work.begin;\n"
         "  load_rows(shared, args->q,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->q_batch" : "work.batch");
    TEXT(" * args->q_batch_stride + work.head * args->q_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->q_row + work.begin)" : "work.begin");
    TEXT(" * args->q_row_stride,\n"
         "            args->q_row_stride, OWN_ROWS, HEAD_DIM, valid, 0, 1);\n"
         "  load_rows(shared + OWN_V_OFFSET, args->dout,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->q_batch" : "work.batch");
    TEXT(" * args->dout_batch_stride + work.head * args->dout_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->q_row + work.begin)" : "work.begin");
    TEXT(" * args->dout_row_stride,\n"
         "            args->dout_row_stride, OWN_ROWS, HEAD_DIM_V, valid, 0, 1);\n"
         "}\n"
         "\n"
         "// A step: BLOCK_N keys of the key head.\n"
         "struct Step {\n"
         "  int head, row;\n"
         "};\n"
         "\n"
         "// Starts a part of the load of K of a step.\n"
         "__device__ __forceinline__ void load_step(uint32_t slot, const attnpress_bwd_args *args, Work work,\n"
         "                                          Step step, int part, int parts) {\n"
         "  load_rows(slot, args->k,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->k_batch" : "work.batch");
    TEXT(" * args->k_batch_stride + step.head * args->k_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->k_row + step.row)" : "step.row");
    TEXT(" * args->k_row_stride,\n"
         "            args->k_row_stride, WALK_ROWS, HEAD_DIM, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->seqlen_k" : "args->seqlen_k");
    TEXT(" - step.row,\n"
         "            part, parts);\n"
         "}\n"
         "\n"
         "// The same of V.\n"
         "__device__ __forceinline__ void load_step_v(uint32_t slot, const attnpress_bwd_args *args,\n"
         "                                            Work work, Step step, int part, int parts) {\n"
         "  load_rows(slot, args->v,\n"
         "            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->k_batch" : "work.batch");
    TEXT(" * args->v_batch_stride + step.head * args->v_head_stride +\n"
         "                ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->k_row + step.row)" : "step.row");
    TEXT(" * args->v_row_stride,\n"
         "            args->v_row_stride, WALK_ROWS, HEAD_DIM_V, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->seqlen_k" : "args->seqlen_k");
    TEXT(" - step.row,\n"
         "            part, parts);\n"
         "}\n");
  }
  TEXT("\n"
       "// The step after one: heads have rows `begin` to `end` - 1.\n"
       "__device__ __forceinline__ Step step_after(Step step, int begin, int end) {\n"
       "  step.row += WALK_ROWS;\n"
       "  return step.row == end ? Step{step.head + 1, begin} : step;\n"
       "}\n"
       "\n"
       "// Scores that do not count become -inf. `own`, `walk`: this warp's first row and column.\n"
       "__device__ __forceinline__ void mask_block(float score[S_ROWS][S_COLUMNS * 4],\n"
       "                                           const attnpress_bwd_args *args, int own, int walk) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < S_ROWS; ++m) {\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      const int row = own + m * 16 + half * 8 + lane / 4;\n");
  if (owns_keys && (mask == AP_ATTENTION_MASK_WINDOW)) {
    TEXT("      mask_scores(score[m], S_COLUMNS, half,\n"
         "                  queries_in_window(row, &args->score, args->seqlen_q, args->seqlen_k),\n"
         "                  walk + lane % 4 * 2);\n");
  } else if (owns_keys) {
    TEXT("      mask_scores(score[m], S_COLUMNS, half,\n"
         "                  queries_at(row, CAUSAL, args->seqlen_q, args->seqlen_k), walk + lane % 4 * 2);\n");
  } else if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("      mask_scores(score[m], S_COLUMNS, half, window_row(row, &args->score, args->seqlen_k),\n"
         "                  walk + lane % 4 * 2);\n");
  } else {
    TEXT("      mask_scores(score[m], S_COLUMNS, half, row_at(row, CAUSAL, args->seqlen_q, args->seqlen_k),\n"
         "                  walk + lane % 4 * 2);\n");
  }
  TEXT("    }\n"
       "  }\n"
       "}\n"
       "\n");
  if (modifies) {
    TEXT("// Modifies the scores of a step of a query head. `own`, `walk`: this warp's first row and column.\n"
         "__device__ __forceinline__ void modify_block(float score[S_ROWS][S_COLUMNS * 4],\n");
    if (softcap) {
      TEXT("                                             uint32_t derivative[S_ROWS][S_COLUMNS * 2],\n");
    }
    TEXT("                                             const attnpress_bwd_args *args, int64_t batch,\n"
         "                                             int head, int own, int walk) {\n");
    if (alibi || (bias != AP_ATTENTION_BIAS_NONE)) {
      TEXT("  const int lane = threadIdx.x % 32;\n");
    }
    if (alibi) {
      TEXT("  const float slope = load_slope(&args->score, batch, head);\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int m = 0; m < S_ROWS; ++m) {\n");
    if (softcap) {
      TEXT("    cap_and_differentiate(score[m], derivative[m], S_COLUMNS, &args->score);\n");
    }
    if (alibi || (bias != AP_ATTENTION_BIAS_NONE)) {
      TEXT("#pragma unroll\n"
           "    for (int half = 0; half < 2; ++half) {\n"
           "      const int row = own + m * 16 + half * 8 + lane / 4, column = walk + lane % 4 * 2;\n");
      if (bias != AP_ATTENTION_BIAS_NONE) {
        TEXT("      add_bias_at(score[m], BIAS, S_COLUMNS, half, ");
        STRING(owns_keys ? "true" : "false");
        TEXT(", args, batch, head, row, column);\n");
      }
      if (alibi) {
        TEXT("      add_alibi_at(score[m], S_COLUMNS, half, ");
        STRING(owns_keys ? "true" : "false");
        TEXT(", args, slope, row, column);\n");
      }
      TEXT("    }\n");
    }
    TEXT("  }\n"
         "}\n"
         "\n");
  }
  if (snippet) {
    if (mod_score) {
      TEXT("// The snippet's score of query row and key `k`, with its derivative: `score` is the one so far, in\n"
           "// natural units, with its own.\n"
           "__device__ __forceinline__ SnippetDual snippet_dual_score(const attnpress_mod_args *mod,\n"
           "                                                          SnippetDual score, SnippetRow row, int k,\n"
           "                                                          int q_len, int k_len);\n"
           "\n");
    }
    if (mod_grad) {
      TEXT("// The same with its derivative by one of the numbers that it reads from buffers (score_trace.cuh).\n"
           "__device__ __forceinline__ SnippetDual snippet_traced_score(const attnpress_mod_args *mod,\n"
           "                                                            SnippetTrace *trace, float score,\n"
           "                                                            SnippetRow row, int k, int q_len,\n"
           "                                                            int k_len);\n"
           "\n");
    }
    if (mod_mask) {
      TEXT("// Whether the snippet lets query row see key `k`.\n"
           "__device__ __forceinline__ bool snippet_keeps(const attnpress_mod_args *mod, SnippetRow row, int k,\n"
           "                                              int q_len, int k_len);\n"
           "\n");
    }
    if (mod_score) {
      TEXT("// Passes the scores of a step through it. They come in units of `scale`, and leave in natural\n"
           "// units, with their derivatives by what came; those of pairs that are not there as -inf and 0.\n"
           "// `own`, `walk`: this warp's first row and column.\n");
      if (mod_grad) {
        TEXT("// `before`: what came.\n");
      }
    } else {
      TEXT("// Scores of a step that it takes out become -inf. `own`, `walk`: this warp's first row and column.\n");
    }
    TEXT("__device__ __forceinline__ void snippet_block(float score[S_ROWS][S_COLUMNS * 4],\n");
    if (mod_score) {
      TEXT("                                              float slope[S_ROWS][S_COLUMNS * 4],\n");
    }
    if (mod_grad) {
      TEXT("                                              float before[S_ROWS][S_COLUMNS * 4],\n");
    }
    TEXT("                                              const attnpress_mod_args *mod,\n"
         "                                              const attnpress_bwd_args *args, int64_t batch,\n"
         "                                              int head, int own, int walk) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  const int kv_head = head / (args->heads_q / args->heads_kv);\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < S_ROWS; ++m) {\n");
    if (mod_score && softcap) {
      TEXT("    cap_scores(score[m], S_COLUMNS, &args->score);\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int i = 0; i < S_COLUMNS * 4; ++i) {\n"
         "      const int row = own + m * 16 + i % 4 / 2 * 8 + lane / 4;\n"
         "      const int column = walk + i / 4 * 8 + lane % 4 * 2 + i % 2;\n"
         "      const int q = ");
    STRING((pass != AP_ATTENTION_PASS_BWD_DQ) ? "column" : "row");
    TEXT(", k = ");
    STRING((pass != AP_ATTENTION_PASS_BWD_DQ) ? "row" : "column");
    TEXT(";\n"
         "      const float given = score[m][i];\n");
    if (mod_grad) {
      TEXT("      before[m][i] = given;\n");
    }
    TEXT("      score[m][i] = -INF;\n");
    if (mod_score) {
      TEXT("      slope[m][i] = 0.0f;\n");
    }
    TEXT("      if (q >= args->seqlen_q || k >= args->seqlen_k)\n"
         "        continue;\n"
         "      const SnippetRow at = {(int)batch, head, kv_head, q};\n");
    if (mod_mask) {
      TEXT("      if (!snippet_keeps(mod, at, k, args->seqlen_q, args->seqlen_k))\n"
           "        continue;\n");
    }
    if (mod_score) {
      TEXT("      const SnippetDual passed =\n"
           "          snippet_dual_score(mod, {given * mod->natural_per_unit, ");
      STRING(softcap ? "1.0f - given * given" : "1.0f");
      TEXT("},\n"
           "                             at, k, args->seqlen_q, args->seqlen_k);\n"
           "      score[m][i] = passed.value;\n"
           "      slope[m][i] = passed.derivative;\n");
    } else {
      TEXT("      score[m][i] = given;\n");
    }
    TEXT("    }\n"
         "  }\n"
         "}\n"
         "\n");
    if (mod_score) {
      TEXT("// Multiplies gradients by the derivatives that belong to them. Where there is none, as where P is\n"
           "// 0, the derivative may be anything.\n"
           "__device__ __forceinline__ void multiply_slopes(float *ds, const float *slope) {\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < S_COLUMNS * 4; ++i)\n"
           "    ds[i] = snippet_chain(ds[i], slope[i]);\n"
           "}\n"
           "\n");
    }
    if (mod_grad) {
      TEXT("// Adds to the gradients of the snippet's buffers what the pairs of a step have a part in. `ds`: the\n"
           "// gradients by what the snippet made of `before`. The text is run once a read, and what goes to one\n"
           "// place again and again is added up first. Pairs without a gradient are left out: there the\n"
           "// derivative may be anything.\n"
           "__device__ __forceinline__ void add_buffer_gradients(const float ds[S_ROWS][S_COLUMNS * 4],\n"
           "                                                     const float before[S_ROWS][S_COLUMNS * 4],\n"
           "                                                     const attnpress_mod_args *mod,\n"
           "                                                     const attnpress_mod_gradients *gradients,\n"
           "                                                     const attnpress_bwd_args *args, int64_t batch,\n"
           "                                                     int head, int own, int walk) {\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  const int kv_head = head / (args->heads_q / args->heads_kv);\n"
           "#pragma unroll 1\n"
           "  for (int read = 0, reads = 1; read < reads; ++read) {\n"
           "    float *place = nullptr;\n"
           "    float sum = 0.0f;\n"
           "#pragma unroll\n"
           "    for (int m = 0; m < S_ROWS; ++m) {\n"
           "#pragma unroll\n"
           "      for (int i = 0; i < S_COLUMNS * 4; ++i) {\n"
           "        if (ds[m][i] == 0.0f)\n"
           "          continue;\n"
           "        const int key = own + m * 16 + i % 4 / 2 * 8 + lane / 4;\n"
           "        const int query = walk + i / 4 * 8 + lane % 4 * 2 + i % 2;\n"
           "        const SnippetRow at = {(int)batch, head, kv_head, query};\n"
           "        SnippetTrace trace = {gradients, read, 0, nullptr};\n"
           "        const SnippetDual passed =\n"
           "            snippet_traced_score(mod, &trace, before[m][i] * mod->natural_per_unit, at, key,\n"
           "                                 args->seqlen_q, args->seqlen_k);\n"
           "        reads = max(reads, trace.count);\n"
           "        if (trace.place != place) {\n"
           "          if (place != nullptr)\n"
           "            red_add(place, sum);\n"
           "          place = trace.place;\n"
           "          sum = 0.0f;\n"
           "        }\n"
           "        sum += snippet_chain(passed.derivative, ds[m][i]);\n"
           "      }\n"
           "    }\n"
           "    if (place != nullptr)\n"
           "      red_add(place, sum);\n"
           "  }\n"
           "}\n"
           "\n");
    }
  }
  if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    TEXT("// Rounds scores into a tile of shared memory; `place`: this thread's first element of it.\n"
         "__device__ __forceinline__ void store_scores(unsigned char *place,\n"
         "                                             const uint32_t rounded[S_ROWS][S_COLUMNS * 2]) {\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < S_ROWS; ++m) {\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < S_COLUMNS * 2; ++i)\n"
         "      *(uint32_t *)(place + (m * 16 + i % 2 * 8) * S_ROW_BYTES + i / 2 * 16) = rounded[m][i];\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, MIN_BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n");
  if ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) && snippet) {
    TEXT("        const __grid_constant__ ");
    STRING(mod_grad ? "attnpress_bwd_ragged_mod_grad_args" : "attnpress_bwd_ragged_mod_args");
    TEXT(" given) {\n"
         "  const attnpress_bwd_ragged_args &batch = given.batch;\n");
  } else if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("        const __grid_constant__ attnpress_bwd_ragged_args batch) {\n");
  } else if (snippet) {
    TEXT("        const __grid_constant__ ");
    STRING(mod_grad ? "attnpress_bwd_mod_grad_args" : "attnpress_bwd_mod_args");
    TEXT(" given) {\n"
         "  const attnpress_bwd_args &args = given.bwd;\n");
  } else {
    TEXT("        const __grid_constant__ attnpress_bwd_args args) {\n");
  }
  TEXT("  extern __shared__ __align__(128) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
       "  const int own_row = warp / (WALK_WARPS * WARPS_K) * S_ROWS * 16; // this warp's part of S\n"
       "  const int walk_row = warp / WARPS_K % WALK_WARPS * S_COLUMNS * 8;\n"
       "  const int acc_row = warp / ACC_COLUMN_WARPS * ACC_ROWS * 16; // and of the gradients\n"
       "  const int acc_warp = warp % ACC_COLUMN_WARPS;\n"
       "  const int acc_column = first_column_tile(HEAD_DIM / 8, ACC_COLUMN_WARPS, acc_warp) * 8;\n");
  if (owns_keys) {
    TEXT("  const int acc_column_v = first_column_tile(HEAD_DIM_V / 8, ACC_COLUMN_WARPS, acc_warp) * 8;\n");
  }
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  if (!is_unit(&batch, blockIdx.x))\n"
         "    return;\n");
    if (shares_place) {
      TEXT("  __shared__ SequencePlace sequence;\n"
           "  __shared__ Unit unit;\n"
           "  if (threadIdx.x < 32) {\n"
           "    const Unit found = find_unit(&batch, blockIdx.x, batch.bwd.");
      STRING(owns_keys ? "heads_kv" : "heads_q");
      TEXT(");\n"
           "    if (threadIdx.x == 0) {\n"
           "      unit = found;\n"
           "      sequence = place_of_unit(&batch, &found);\n"
           "    }\n"
           "  }\n"
           "  // All threads arrive and wait: hands over the unit, and where the sequence lies.\n"
           "  __syncthreads();\n"
           "  Work work = find_work(&batch, &unit);\n"
           "  work.at = &sequence;\n");
    } else {
      TEXT("  const Unit unit = find_unit(&batch, blockIdx.x, batch.bwd.");
      STRING(owns_keys ? "heads_kv" : "heads_q");
      TEXT(");\n"
           "  Work work = find_work(&batch, &unit);\n"
           "  const SequencePlace sequence = place_of_unit(&batch, &unit);\n"
           "  work.at = &sequence;\n");
    }
    TEXT("  const attnpress_bwd_args args =\n"
         "      args_of_lengths(&batch, work.at->seqlen_q, work.at->seqlen_k);\n");
  } else {
    TEXT("  const Work work = find_work(&args, blockIdx.x);\n");
  }
  TEXT("\n");
  if (owns_keys && (mask == AP_ATTENTION_MASK_WINDOW)) {
    TEXT("  // Rows that see none of the keys are skipped; group heads come one after the other.\n"
         "  const int group = args.heads_q / args.heads_kv;\n"
         "  const Row first_own = queries_in_window(work.begin, &args.score, args.seqlen_q, args.seqlen_k);\n"
         "  const Row last_own = queries_in_window(min(work.begin + BLOCK_N, args.seqlen_k) - 1, &args.score,\n"
         "                                         args.seqlen_q, args.seqlen_k);\n"
         "  const int first_step = first_own.key_begin / WALK_ROWS;\n"
         "  const int head_steps = max(0, ceil_div(last_own.key_end, WALK_ROWS) - first_step);\n"
         "  const int steps = head_steps * group;\n"
         "  const int first_head = work.kv_head * group;\n");
  } else if (owns_keys) {
    TEXT("  // Rows before the first that sees one of the keys are skipped; group heads come one after the\n"
         "  // other.\n"
         "  const int group = args.heads_q / args.heads_kv;\n"
         "  const int first_step =\n"
         "      CAUSAL ? max(0, work.begin - args.seqlen_k + args.seqlen_q) / WALK_ROWS : 0;\n"
         "  const int head_steps = max(0, ceil_div(args.seqlen_q, WALK_ROWS) - first_step);\n"
         "  const int steps = head_steps * group;\n"
         "  const int first_head = work.kv_head * group;\n");
  } else if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  // Keys that no row sees are never loaded.\n"
         "  const Row first_own = window_row(work.begin, &args.score, args.seqlen_k);\n"
         "  const Row last_own = window_row(min(work.begin + BLOCK_M, args.seqlen_q) - 1, &args.score,\n"
         "                                  args.seqlen_k);\n"
         "  const int first_step = first_own.key_begin / WALK_ROWS;\n"
         "  const int head_steps = max(0, ceil_div(last_own.key_end, WALK_ROWS) - first_step);\n"
         "  const int steps = head_steps;\n"
         "  const int first_head = work.head / (args.heads_q / args.heads_kv);\n");
  } else {
    TEXT("  // Keys that no row sees are never loaded.\n"
         "  const int last_position = min(work.begin + BLOCK_M, args.seqlen_q) - 1;\n"
         "  const int key_end = row_at(last_position, CAUSAL, args.seqlen_q, args.seqlen_k).key_end;\n"
         "  const int first_step = 0;\n"
         "  const int head_steps = max(0, ceil_div(key_end, WALK_ROWS));\n"
         "  const int steps = head_steps;\n"
         "  const int first_head = work.head / (args.heads_q / args.heads_kv);\n");
  }
  TEXT("\n"
       "  load_own(shared, &args, work);\n");
  if (stages == 1) {
    TEXT("  cp_async_commit();\n");
  }
  TEXT("  // What is loaded next.\n"
       "  Step next = {first_head, first_step * WALK_ROWS};\n"
       "  const int end_row = (first_step + head_steps) * WALK_ROWS;\n"
       "#pragma unroll\n"
       "  for (int stage = 0; stage < STAGES - 1; ++stage) {\n"
       "    if (stage < steps) {\n"
       "      load_step(shared + RING_OFFSET + stage * SLOT_BYTES, &args, work, next, 0, 1);\n");
  if (v_stages > 0) {
    TEXT("      if (stage < V_STAGES)\n"
         "        load_step_v(shared + RING_V_OFFSET, &args, work, next, 0, 1);\n");
  } else {
    TEXT("      load_step_v(shared + RING_V_OFFSET + stage * SLOT_BYTES_V, &args, work, next, 0, 1);\n");
  }
  TEXT("    }\n"
       "    next = step_after(next, first_step * WALK_ROWS, end_row);\n"
       "    cp_async_commit();\n"
       "  }\n"
       "\n");
  if (owns_keys) {
    TEXT("  float dk[ACC_ROWS][ACC_COLUMNS * 4], dv[ACC_ROWS][ACC_COLUMNS_V * 4];\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < ACC_ROWS; ++m) {\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ACC_COLUMNS_V * 4; ++i)\n"
         "      dv[m][i] = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ACC_COLUMNS * 4; ++i)\n"
         "      dk[m][i] = 0.0f;\n"
         "  }\n");
  } else {
    TEXT("  float dq[ACC_ROWS][ACC_COLUMNS * 4];\n"
         "  float lse_log2[S_ROWS][2], delta[S_ROWS][2];\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < ACC_ROWS; ++m)\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ACC_COLUMNS * 4; ++i)\n"
         "      dq[m][i] = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int m = 0; m < S_ROWS; ++m) {\n"
         "#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half) {\n"
         "      const int64_t row = values_of_head(&args, work, work.head) + work.begin + own_row + m * 16 +\n"
         "                          half * 8 + lane / 4;\n"
         "      lse_log2[m][half] = args.lse_log2[row];\n"
         "      delta[m][half] = args.delta[row];\n"
         "    }\n"
         "  }\n");
  }
  if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    TEXT("  unsigned char *const place =\n"
         "      smem + S_OFFSET + (own_row + lane / 4) * S_ROW_BYTES + (walk_row + lane % 4 * 2) * 2;\n");
  }
  TEXT("\n");
  if ((dropout && !owns_keys) && (hdim <= 256)) {
    TEXT("  const DropoutHead of_head =\n"
         "      dropout_head(&args.score, work.batch * (int64_t)args.heads_q + work.head);\n");
  }
  TEXT("  Step now = {first_head, first_step * WALK_ROWS};\n"
       "  int slot_index = 0;\n"
       "  for (int step = 0; step < steps; ++step, now = step_after(now, first_step * WALK_ROWS, end_row)) {\n"
       "    const uint32_t slot = shared + RING_OFFSET + slot_index * SLOT_BYTES;\n");
  if (v_stages > 0) {
    TEXT("    const uint32_t slot_v = shared + RING_V_OFFSET;\n");
  } else {
    TEXT("    const uint32_t slot_v = shared + RING_V_OFFSET + slot_index * SLOT_BYTES_V;\n");
  }
  if (stages == 1) {
    TEXT("    // All threads arrive and wait: everyone has read the step before.\n"
         "    __syncthreads();\n"
         "    load_step(slot, &args, work, now, 0, 1);\n"
         "    load_step_v(slot_v, &args, work, now, 0, 1);\n"
         "    cp_async_commit();\n"
         "    cp_async_wait(0);\n"
         "    // All threads arrive and wait: hands over what everyone's copies brought.\n"
         "    __syncthreads();\n");
  } else {
    TEXT("    // All threads arrive and wait. Hands over the step that everyone's copies brought, and frees\n"
         "    // the slot of the step before, which everyone has read.\n"
         "    cp_async_wait(STAGES - 2);\n"
         "    __syncthreads();\n"
         "    const bool loads = step + STAGES - 1 < steps;\n"
         "    const int load_index = (slot_index + STAGES - 1) % STAGES;\n"
         "    const uint32_t load_slot = shared + RING_OFFSET + load_index * SLOT_BYTES;\n");
    if (v_stages == 0) {
      TEXT("    const uint32_t load_slot_v = shared + RING_V_OFFSET + load_index * SLOT_BYTES_V;\n");
    }
    TEXT("    if (loads) {\n"
         "      load_step(load_slot, &args, work, next, 0, ");
    INTEGER(spread ? 2 : 1);
    TEXT(");\n");
    if ((v_stages == 0) && !spread) {
      TEXT("      load_step_v(load_slot_v, &args, work, next, 0, 1);\n");
    }
    TEXT("    }\n");
  }
  TEXT("\n"
       "    // S");
  if (owns_keys) {
    TEXT("^T = K Q^T");
  } else {
    TEXT(" = Q K^T");
  }
  TEXT(", then P.\n"
       "    float score[S_ROWS][S_COLUMNS * 4];\n"
       "#pragma unroll\n"
       "    for (int m = 0; m < S_ROWS; ++m)\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < S_COLUMNS * 4; ++i)\n"
       "        score[m][i] = 0.0f;\n"
       "    multiply_rows(score[0], S_ROWS, S_COLUMNS, DTYPE, shared + own_row * ROW_BYTES, ROW_BYTES,\n"
       "                  slot + walk_row * ROW_BYTES, ROW_BYTES, HEAD_DIM, lane);\n");
  if (modifies) {
    if (softcap) {
      TEXT("    uint32_t derivative[S_ROWS][S_COLUMNS * 2];\n");
    }
    TEXT("    modify_block(score, ");
    if (softcap) {
      TEXT("derivative, ");
    }
    TEXT("&args, work.batch, ");
    STRING(owns_keys ? "now.head" : "work.head");
    TEXT(", work.begin + own_row,\n"
         "                 now.row + walk_row);\n");
  }
  if (mod_score) {
    TEXT("    float slope[S_ROWS][S_COLUMNS * 4];\n");
  }
  if (mod_grad) {
    TEXT("    float before[S_ROWS][S_COLUMNS * 4];\n");
  }
  if (snippet) {
    TEXT("    snippet_block(score, ");
    if (mod_score) {
      TEXT("slope, ");
    }
    if (mod_grad) {
      TEXT("before, ");
    }
    TEXT("&given.mod, &args, work.batch,\n"
         "                  ");
    STRING(owns_keys ? "now.head" : "work.head");
    TEXT(", work.begin + own_row,\n"
         "                  now.row + walk_row);\n");
  }
  TEXT("    // Steps that hold a pair of query and key which does not count.\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("    const bool masked = ");
    if (owns_keys) {
      TEXT("work.begin + BLOCK_N > args.seqlen_k || ");
    }
    TEXT("now.row < last_own.key_begin ||\n"
         "                        now.row + WALK_ROWS > first_own.key_end;\n");
  } else if (owns_keys) {
    TEXT("    const bool masked = work.begin + BLOCK_N > args.seqlen_k");
    if (mask == AP_ATTENTION_MASK_CAUSAL) {
      TEXT(" ||\n"
           "                        now.row - args.seqlen_q + args.seqlen_k < work.begin + BLOCK_N - 1");
    }
    TEXT(";\n");
  } else {
    TEXT("    const bool masked = now.row + BLOCK_N >\n"
         "                        row_at(work.begin, CAUSAL, args.seqlen_q, args.seqlen_k).key_end;\n");
  }
  TEXT("    if (masked)\n"
       "      mask_block(score, &args, work.begin + own_row, now.row + walk_row);\n");
  if (owns_keys) {
    TEXT("    const float *const lse_log2 = (const float *)(smem + RING_OFFSET + slot_index * SLOT_BYTES +\n"
         "                                                  LSE_OFFSET) +\n"
         "                                  walk_row + lane % 4 * 2;\n"
         "    const float *const delta = lse_log2 + WALK_ROWS;\n");
  }
  if (owns_keys) {
    TEXT("    uint32_t p[S_ROWS][S_COLUMNS * 2];\n");
  }
  TEXT("    uint32_t ds[S_ROWS][S_COLUMNS * 2];\n");
  if (dropout && owns_keys) {
    TEXT("    const DropoutHead of_head =\n"
         "        dropout_head(&args.score, work.batch * (int64_t)args.heads_q + now.head);\n");
  } else if (dropout && (hdim > 256)) {
    TEXT("    // Found anew: it would take registers over the products.\n"
         "    const DropoutHead of_head =\n"
         "        dropout_head(&args.score, work.batch * (int64_t)args.heads_q + work.head);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int m = 0; m < S_ROWS; ++m) {\n"
       "      recompute_probabilities(score[m], S_COLUMNS, ");
  STRING(owns_keys ? "true, lse_log2" : "false, lse_log2[m]");
  TEXT(",\n"
       "                              args.scale_log2);\n");
  if (dropout && owns_keys) {
    TEXT("      mark_dropped_by_column(score[m], S_COLUMNS, &of_head, now.row + walk_row,\n"
         "                             work.begin + own_row + m * 16, lane, args.score.dropout_threshold);\n"
         "      round_kept(p[m], score[m], S_COLUMNS, DTYPE);\n");
  } else if (dropout) {
    TEXT("      const DropoutWords rows = row_words(&of_head, work.begin + own_row + m * 16, lane / 4);\n"
         "      mark_dropped(score[m], S_COLUMNS, &of_head, &rows, now.row + walk_row, lane,\n"
         "                   args.score.dropout_threshold);\n");
  } else if (owns_keys) {
    TEXT("      round_probabilities(p[m], score[m], S_COLUMNS, DTYPE);\n");
  }
  TEXT("    }\n"
       "\n");
  if (spread) {
    TEXT("    if (loads)\n"
         "      load_step(load_slot, &args, work, next, 1, 2);\n");
  }
  TEXT("    // dP");
  if (owns_keys) {
    TEXT("^T = V dO^T");
  } else {
    TEXT(" = dO V^T");
  }
  TEXT(", then dS.\n"
       "    float grad[S_ROWS][S_COLUMNS * 4];\n"
       "#pragma unroll\n"
       "    for (int m = 0; m < S_ROWS; ++m)\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < S_COLUMNS * 4; ++i)\n"
       "        grad[m][i] = 0.0f;\n"
       "    multiply_rows(grad[0], S_ROWS, S_COLUMNS, DTYPE, shared + OWN_V_OFFSET + own_row * ROW_BYTES_V,\n"
       "                  ROW_BYTES_V, slot_v + walk_row * ROW_BYTES_V, ROW_BYTES_V,\n"
       "                  HEAD_DIM_V, lane);\n"
       "#pragma unroll\n"
       "    for (int m = 0; m < S_ROWS; ++m) {\n");
  if (dropout) {
    TEXT("      differentiate_kept(grad[m], score[m], S_COLUMNS, ");
    STRING(owns_keys ? "true, delta" : "false, delta[m]");
    TEXT(",\n"
         "                         args.score.dropout_scale);\n");
  } else {
    TEXT("      differentiate_scores(grad[m], score[m], S_COLUMNS, ");
    STRING(owns_keys ? "true, delta" : "false, delta[m]");
    TEXT(");\n");
  }
  if (mod_grad) {
    TEXT("    }\n");
    if (warps_k > 1) {
      TEXT("    if (warp % WARPS_K == 0)\n");
    }
    TEXT("    add_buffer_gradients(grad, before, &given.mod, &given.gradients, &args, work.batch, now.head,\n"
         "                         work.begin + own_row, now.row + walk_row);\n"
         "#pragma unroll\n"
         "    for (int m = 0; m < S_ROWS; ++m) {\n");
  }
  if (mod_score) {
    TEXT("      multiply_slopes(grad[m], slope[m]);\n");
  } else if (softcap) {
    TEXT("      multiply_derivatives(grad[m], derivative[m], S_COLUMNS);\n");
  }
  TEXT("      round_probabilities(ds[m], grad[m], S_COLUMNS, DTYPE);\n"
       "    }\n");
  if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    if (warps_k > 1) {
      TEXT("    if (warp % WARPS_K == 0) {\n");
    } else {
      TEXT("    {\n");
    }
    if (!in_registers && owns_keys) {
      TEXT("      store_scores(place, p);\n"
           "      store_scores(place + (DS_OFFSET - S_OFFSET), ds);\n");
    } else {
      TEXT("      store_scores(place, ds);\n");
    }
    TEXT("    }\n");
  }
  if (in_registers && owns_keys) {
    TEXT("\n"
         "    // dV += P^T dO, dK += dS^T Q.\n");
    if (spread) {
      TEXT("    if (loads)\n"
           "      load_step_v(load_slot_v, &args, work, next, 0, 2);\n");
    }
    TEXT("    multiply_columns(dv[0], ACC_ROWS, ACC_COLUMNS_V, DTYPE, LEFT_FRAGMENTS, p[0], 0, 0,\n"
         "                     slot_v + acc_column_v * 2, ROW_BYTES_V, WALK_ROWS, lane);\n");
    if (spread) {
      TEXT("    if (loads)\n"
           "      load_step_v(load_slot_v, &args, work, next, 1, 2);\n");
    }
    TEXT("    multiply_columns(dk[0], ACC_ROWS, ACC_COLUMNS, DTYPE, LEFT_FRAGMENTS, ds[0], 0, 0,\n"
         "                     slot + acc_column * 2, ROW_BYTES, WALK_ROWS, lane);\n");
  } else if (in_registers) {
    TEXT("\n"
         "    // dQ += dS K.\n");
    if (spread) {
      TEXT("    if (loads)\n"
           "      load_step_v(load_slot_v, &args, work, next, 0, 1);\n");
    }
    TEXT("    multiply_columns(dq[0], ACC_ROWS, ACC_COLUMNS, DTYPE, LEFT_FRAGMENTS, ds[0], 0, 0,\n"
         "                     slot + acc_column * 2, ROW_BYTES, WALK_ROWS, lane);\n");
  }
  if (!in_registers || (pass == AP_ATTENTION_PASS_BWD)) {
    TEXT("    // All threads arrive and wait: hands over");
    if (!in_registers && owns_keys) {
      TEXT(" P and");
    }
    TEXT(" dS.\n"
         "    __syncthreads();\n");
  }
  if (!in_registers && owns_keys) {
    TEXT("\n"
         "    // dV += P^T dO, dK += dS^T Q.\n");
    if (spread && (v_stages == 0)) {
      TEXT("    if (loads)\n"
           "      load_step_v(load_slot_v, &args, work, next, 0, 2);\n");
    }
    TEXT("    multiply_columns(dv[0], ACC_ROWS, ACC_COLUMNS_V, DTYPE, LEFT_ROWS, 0,\n"
         "                     shared + S_OFFSET + acc_row * S_ROW_BYTES, S_ROW_BYTES,\n"
         "                     slot_v + acc_column_v * 2, ROW_BYTES_V, WALK_ROWS, lane);\n");
    if (v_stages > 0) {
      TEXT("    // All threads arrive and wait: everyone has read dO, whose slot the next one takes.\n"
           "    __syncthreads();\n"
           "    if (loads)\n"
           "      load_step_v(slot_v, &args, work, next, 0, 1);\n");
    } else if (spread) {
      TEXT("    if (loads)\n"
           "      load_step_v(load_slot_v, &args, work, next, 1, 2);\n");
    }
    TEXT("    multiply_columns(dk[0], ACC_ROWS, ACC_COLUMNS, DTYPE, LEFT_ROWS, 0,\n"
         "                     shared + DS_OFFSET + acc_row * S_ROW_BYTES, S_ROW_BYTES,\n"
         "                     slot + acc_column * 2, ROW_BYTES, WALK_ROWS, lane);\n");
  } else if (!in_registers) {
    TEXT("\n"
         "    // dQ += dS K.\n");
    if (v_stages > 0) {
      TEXT("    if (loads) // everyone has read V\n"
           "      load_step_v(slot_v, &args, work, next, 0, 1);\n");
    } else if (spread) {
      TEXT("    if (loads)\n"
           "      load_step_v(load_slot_v, &args, work, next, 0, 1);\n");
    }
    TEXT("    multiply_columns(dq[0], ACC_ROWS, ACC_COLUMNS, DTYPE, LEFT_ROWS, 0,\n"
         "                     shared + DS_OFFSET + acc_row * S_ROW_BYTES, S_ROW_BYTES,\n"
         "                     slot + acc_column * 2, ROW_BYTES, WALK_ROWS, lane);\n");
  }
  if (pass == AP_ATTENTION_PASS_BWD) {
    TEXT("\n"
         "    // dQ += dS K, of this block's keys.\n"
         "    {\n"
         "      const int dq_row = warp / DQ_COLUMN_WARPS * DQ_ROWS, dq_warp = warp % DQ_COLUMN_WARPS;\n"
         "      const int first = first_column_tile(HEAD_DIM / 8, DQ_COLUMN_WARPS, dq_warp);\n"
         "      float dq[DQ_ROWS][DQ_COLUMNS * 4];\n"
         "#pragma unroll\n"
         "      for (int m = 0; m < DQ_ROWS; ++m)\n"
         "#pragma unroll\n"
         "        for (int i = 0; i < DQ_COLUMNS * 4; ++i)\n"
         "          dq[m][i] = 0.0f;\n"
         "      multiply_columns(dq[0], DQ_ROWS, DQ_COLUMNS, DTYPE, LEFT_COLUMNS, 0,\n"
         "                       shared + DS_OFFSET + dq_row * 32, S_ROW_BYTES, shared + first * 16,\n"
         "                       ROW_BYTES, BLOCK_N, lane);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("      // The sequence's keys are this block's alone: dQ is complete, and has no sum.\n"
           "      const bool direct = args.seqlen_k <= BLOCK_N;\n"
           "#pragma unroll\n"
           "      for (int m = 0; m < DQ_ROWS && direct; ++m) {\n"
           "        const int row = now.row + (dq_row + m) * 16;\n"
           "        store_row_pairs(&args,\n"
           "                        row_of_dq(&args, work.at->q_batch, work.at->q_row + row, now.head) +\n"
           "                            first * 8,\n"
           "                        dq[m], tiles_of_others(HEAD_DIM / 8, DQ_COLUMN_WARPS, dq_warp), DQ_COLUMNS,\n"
           "                        HEAD_DIM, work.at->seqlen_q - row, DTYPE, lane);\n"
           "      }\n");
    }
    TEXT("      float *sum = args.dq_sum +\n"
         "                   sum_offset(&args, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "0, now.head, work.at->sum_tile + now.row / 16 + dq_row" : "work.batch, now.head, now.row / 16 + dq_row");
    TEXT(",\n"
         "                              HEAD_DIM) +\n"
         "                   first * 128;\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("      if (!direct)\n");
    }
    TEXT("#pragma unroll\n"
         "      for (int m = 0; m < DQ_ROWS; ++m) {\n"
         "        if (now.row + (dq_row + m) * 16 < ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->seqlen_q" : "args.seqlen_q");
    TEXT(") {\n"
         "#pragma unroll\n"
         "          for (int i = 0; i < DQ_COLUMNS; ++i)\n"
         "            if (i >= tiles_of_others(HEAD_DIM / 8, DQ_COLUMN_WARPS, dq_warp))\n"
         "              add_to_sum(sum + (m * (HEAD_DIM / 8) + i) * 128, dq[m] + i * 4, lane);\n"
         "        }\n"
         "      }\n"
         "    }\n");
  }
  if (stages > 1) {
    TEXT("    cp_async_commit();\n"
         "    next = step_after(next, first_step * WALK_ROWS, end_row);\n");
  }
  TEXT("    slot_index = slot_index + 1 == STAGES ? 0 : slot_index + 1;\n"
       "  }\n"
       "\n"
       "  // All threads arrive and wait: all that was loaded has been read and no copy is in flight, so\n"
       "  // that the gradients can take the place of the block's own rows.\n"
       "  cp_async_wait(0);\n"
       "  __syncthreads();\n");
  if (owns_keys) {
    TEXT("  const int valid = args.seqlen_k - work.begin;\n"
         "  uint16_t *const dk_rows = (uint16_t *)args.dk + ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->k_batch" : "work.batch");
    TEXT(" * args.dk_batch_stride +\n"
         "                            work.kv_head * args.dk_head_stride +\n"
         "                            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->k_row + work.begin)" : "work.begin");
    TEXT(" * args.dk_row_stride;\n"
         "  uint16_t *const dv_rows = (uint16_t *)args.dv + ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->k_batch" : "work.batch");
    TEXT(" * args.dv_batch_stride +\n"
         "                            work.kv_head * args.dv_head_stride +\n"
         "                            ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->k_row + work.begin)" : "work.begin");
    TEXT(" * args.dv_row_stride;\n"
         "  if (args.accumulate) {\n"
         "    load_gradient(smem, dk_rows, args.dk_row_stride, OWN_ROWS, HEAD_DIM, valid, threadIdx.x,\n"
         "                  NUM_THREADS);\n"
         "    load_gradient(smem + OWN_V_OFFSET, dv_rows, args.dv_row_stride, OWN_ROWS, HEAD_DIM_V, valid,\n"
         "                  threadIdx.x, NUM_THREADS);\n"
         "    // All threads arrive and wait: hands over what dK and dV are added to.\n"
         "    __syncthreads();\n"
         "  }\n"
         "  round_gradient(smem + acc_row * ROW_BYTES + acc_column * 2, ROW_BYTES, dk[0], ACC_ROWS,\n"
         "                 tiles_of_others(HEAD_DIM / 8, ACC_COLUMN_WARPS, acc_warp), ACC_COLUMNS, DTYPE,\n"
         "                 args.scale, args.accumulate, lane);\n"
         "  round_gradient(smem + OWN_V_OFFSET + acc_row * ROW_BYTES_V + acc_column_v * 2, ROW_BYTES_V, dv[0],\n"
         "                 ACC_ROWS, tiles_of_others(HEAD_DIM_V / 8, ACC_COLUMN_WARPS, acc_warp),\n"
         "                 ACC_COLUMNS_V, DTYPE, ");
    STRING(dropout ? "args.score.dropout_scale" : "1.0f");
    TEXT(", args.accumulate, lane);\n"
         "  // All threads arrive and wait: hands over the tiles of dK and dV.\n"
         "  __syncthreads();\n"
         "  store_gradient(dk_rows, args.dk_row_stride, smem, OWN_ROWS, HEAD_DIM, valid, threadIdx.x,\n"
         "                 NUM_THREADS);\n"
         "  store_gradient(dv_rows, args.dv_row_stride, smem + OWN_V_OFFSET, OWN_ROWS, HEAD_DIM_V, valid,\n"
         "                 threadIdx.x, NUM_THREADS);\n");
    if ((pass == AP_ATTENTION_PASS_BWD) && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) {
      TEXT("  if (args.seqlen_k <= BLOCK_N)\n"
           "    clear_unseen_rows(&args, work.at->q_batch, work.at->q_row, first_head, group,\n"
           "                      first_step * WALK_ROWS, end_row, HEAD_DIM, threadIdx.x, NUM_THREADS);\n");
    }
  } else {
    TEXT("  const int valid = args.seqlen_q - work.begin;\n"
         "  uint16_t *const dq_rows = (uint16_t *)args.dq + ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "work.at->q_batch" : "work.batch");
    TEXT(" * args.dq_batch_stride +\n"
         "                            work.head * args.dq_head_stride + ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(work.at->q_row + work.begin)" : "work.begin");
    TEXT(" * args.dq_row_stride;\n"
         "  if (args.accumulate) {\n"
         "    load_gradient(smem, dq_rows, args.dq_row_stride, OWN_ROWS, HEAD_DIM, valid, threadIdx.x,\n"
         "                  NUM_THREADS);\n"
         "    // All threads arrive and wait: hands over what dQ is added to.\n"
         "    __syncthreads();\n"
         "  }\n"
         "  round_gradient(smem + acc_row * ROW_BYTES + acc_column * 2, ROW_BYTES, dq[0], ACC_ROWS,\n"
         "                 tiles_of_others(HEAD_DIM / 8, ACC_COLUMN_WARPS, acc_warp), ACC_COLUMNS, DTYPE,\n"
         "                 args.scale, args.accumulate, lane);\n"
         "  // All threads arrive and wait: hands over the tile of dQ.\n"
         "  __syncthreads();\n"
         "  store_gradient(dq_rows, args.dq_row_stride, smem, OWN_ROWS, HEAD_DIM, valid, threadIdx.x,\n"
         "                 NUM_THREADS);\n");
  }
  TEXT("}\n");
}
