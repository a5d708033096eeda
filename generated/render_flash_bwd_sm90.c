/* Written by `python -m generator` from templates/attention/flash_bwd_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_sm90(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_sm90(ap_text *out, const ap_render_input *in) {
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
  const int32_t dq_warps = in->field[AP_ATTENTION_TILE_DQ_WARPS];
  const int32_t k_in_regs = in->field[AP_ATTENTION_TILE_K_IN_REGS];
  const int32_t v_in_regs = in->field[AP_ATTENTION_TILE_V_IN_REGS];
  int32_t sums = (pass == AP_ATTENTION_PASS_BWD) ? 1 : 0;
  int32_t own_dq = (dq_warps == 4) ? 1 : 0;
  int32_t halves = (dq_warps == 8) ? 1 : 0;
  int32_t in_turn = (sums && (dq_warps == 0)) ? 1 : 0;
  int32_t plain = ((bias == AP_ATTENTION_BIAS_NONE) && !((softcap || alibi) || dropout)) ? 1 : 0;
  int32_t bulk = (sums && ((dq_warps > 0) || plain)) ? 1 : 0;
  int32_t adders = (bulk && !own_dq) ? 1 : 0;
  int32_t dq_places = halves ? 2 : 1;
  int32_t parts = (sums && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) ? 1 : 0;
  int32_t zeros = ((hdim == 64) || (hdim_v == 64)) ? 1 : 0;
  int32_t takes = (((sums && plain) && (mask != AP_ATTENTION_MASK_WINDOW)) && ((hdim == hdim_v) || (sequences == AP_ATTENTION_SEQUENCES_DENSE))) ? 1 : 0;
  int32_t read_apart = 0;
  int32_t skips = ((mask == AP_ATTENTION_MASK_WINDOW) && own_dq) ? 1 : 0;
  int32_t idles = ((takes && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) && !in_turn) ? 1 : 0;
  int32_t chains = (runs && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) ? 1 : 0;
  int32_t keys_ahead = chains;
  int32_t sequence_parts = ((sums && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) && !chains) ? 1 : 0;
  int32_t prepares = (((takes && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) && own_dq) && (hdim <= 64)) ? 1 : 0;
  int32_t passes = ((skips && parts) && (hdim <= 64)) ? 1 : 0;
  int32_t late_dp = ((softcap && (hdim > 96)) && ((hdim < 128) || (pass == AP_ATTENTION_PASS_BWD_DKV))) ? 1 : 0;
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
       "// thread of it keeps the copy engine (TMA) busy, and a warp brings lse and delta. The others, the\n"
       "// consumers, have 64 keys each. S and dP are computed transposed, so that P^T and dS^T are A of the\n"
       "// products that they go into, from registers.\n");
  if (own_dq) {
    TEXT("// dQ needs the dS of all keys, which passes through shared memory: a warpgroup of its own computes\n"
         "// it, and has the copy engine add it to its sum, while the consumers go on.\n");
  } else if (halves) {
    TEXT("// dQ needs the dS of all keys, which passes through shared memory: each consumer computes half of\n"
         "// its columns, of a step within the next one, when the dS of all is there. Two threads of warpgroup\n"
         "// 0 have the copy engine add it up.\n");
  } else if (sums) {
    TEXT("// dQ needs the dS of all keys, which passes through shared memory: consumers compute dQ in turn, of\n"
         "// a step at the end of the next one, when the dS of all is there.\n");
    if (adders) {
      TEXT("// A thread of warpgroup 0 has the copy engine add it up.\n");
    }
  }
  TEXT("//\n"
       "// Pressed from templates/attention/flash_bwd_sm90.cu.j2 with tile ");
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
  if (prepares) {
    TEXT("#include \"attnpress/device/gradient_ahead.cuh\"\n");
  }
  if (bulk) {
    TEXT("#include \"attnpress/device/gradient_bulk.cuh\"\n");
  }
  if (chains) {
    TEXT("#include \"attnpress/device/gradient_chain.cuh\"\n");
  }
  if (passes || (sums && (sequences == AP_ATTENTION_SEQUENCES_RAGGED))) {
    TEXT("#include \"attnpress/device/gradient_direct.cuh\"\n");
  }
  if (((((mask == AP_ATTENTION_MASK_WINDOW) || softcap) || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) {
    TEXT("#include \"attnpress/device/gradient_modify.cuh\"\n");
  }
  if (parts || ((mask == AP_ATTENTION_MASK_CAUSAL) && (sequences == AP_ATTENTION_SEQUENCES_DENSE))) {
    TEXT("#include \"attnpress/device/gradient_order.cuh\"\n");
  }
  if (passes) {
    TEXT("#include \"attnpress/device/gradient_pass.cuh\"\n");
  }
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/gradient_sequence.cuh\"\n");
  }
  if (takes) {
    TEXT("#include \"attnpress/device/gradient_rows.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/gradient_store.cuh\"\n");
  if (takes) {
    TEXT("#include \"attnpress/device/gradient_take.cuh\"\n");
  }
  if (parts) {
    TEXT("#include \"attnpress/device/gradient_zero.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n");
  if ((sums || k_in_regs) || v_in_regs) {
    TEXT("#include \"attnpress/device/ptx_ldmatrix.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/wgmma/ptx_wgmma_n");
  INTEGER(block_m);
  TEXT(".cuh\"\n");
  if (hdim != block_m) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(hdim);
    TEXT(".cuh\"\n");
  }
  if ((hdim_v != block_m) && (hdim_v != hdim)) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(hdim_v);
    TEXT(".cuh\"\n");
  }
  if ((own_dq && (hdim > 64)) && ((hdim - 64) != hdim_v)) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(hdim - 64);
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
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT("; // steps of Q, dO, lse and delta in shared memory\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int PRODUCER_REGISTERS = ");
  INTEGER(!takes ? 24 : ((own_dq && ((hdim + hdim_v) <= 192)) ? 40 : (own_dq ? 32 : (in_turn ? 40 : 24))));
  TEXT("; // of a thread\n");
  if (own_dq) {
    TEXT("constexpr int DQ_REGISTERS = ");
    INTEGER(((hdim + hdim_v) <= 192) ? 88 : (takes ? 64 : 72));
    TEXT(";\n"
         "constexpr int CONSUMER_REGISTERS = ");
    INTEGER(((hdim + hdim_v) > 192) ? 208 : (takes ? 192 : 200));
    TEXT(";\n");
  } else {
    TEXT("constexpr int CONSUMER_REGISTERS = ");
    INTEGER((takes && in_turn) ? 232 : 240);
    TEXT(";\n");
  }
  TEXT("\n"
       "constexpr int CONSUMERS = BLOCK_N / 64;\n"
       "constexpr int CONSUMER_THREADS = 128 * CONSUMERS;\n"
       "constexpr int NUM_THREADS = 128 + CONSUMER_THREADS");
  STRING(own_dq ? " + 128" : "");
  TEXT(";\n"
       "constexpr int S_TILES = BLOCK_M / 8; // of 8 queries\n"
       "constexpr int S_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of K Q^T\n"
       "constexpr int DP_STEPS = ceil_div(HEAD_DIM_V, 16); // of V dO^T\n"
       "constexpr int ROW_STEPS = BLOCK_M / 16; // of 16 queries, of P^T dO and dS^T Q\n");
  if (sums) {
    TEXT("constexpr int KEY_STEPS = BLOCK_N / 16; // of 16 keys, of dS K\n");
    if (halves) {
      TEXT("constexpr int DQ_TILES = 8; // of 8 columns, of a consumer's half of dQ\n");
    } else if (in_turn) {
      TEXT("// Of those, how many each of the two places for fragments of dS has: as many as find room.\n"
           "constexpr int DQ_STEPS = HEAD_DIM + HEAD_DIM_V / 2 > 168 ? KEY_STEPS / 4 : KEY_STEPS / 2;\n");
    } else {
      TEXT("// Of those, how many have their fragments of dS in registers at once: as many as find room.\n"
           "constexpr int DQ_STEPS = KEY_STEPS / 2;\n");
    }
  }
  TEXT("constexpr int K_TILES = HEAD_DIM / 8; // of 8 columns\n"
       "constexpr int V_TILES = HEAD_DIM_V / 8;\n"
       "\n"
       "// Shared memory: K | V | ring of Q | ring of dO |\n"
       "// ");
  if (sums) {
    TEXT("dS^T of two steps");
    if (!halves) {
      TEXT(", in padded rows");
    }
    TEXT(" | ");
  }
  if (bulk) {
    TEXT("dQ of a step | ");
  }
  if (keys_ahead) {
    TEXT("K again | ");
  }
  TEXT("ring of lse and delta | barriers.\n"
       "// Matrices are stored as slabs of 64 columns, rows of 128 bytes in the 128-byte swizzle; columns\n"
       "// past the head dim are zeros.");
  if (!takes) {
    TEXT(" At the end dK and dV, in padded rows, take the place of all but ");
    if (bulk) {
      TEXT("dQ\n"
           "// and the barriers.\n");
    } else {
      TEXT("the\n"
           "// barriers.\n");
    }
  } else {
    TEXT("\n");
  }
  TEXT("constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);\n"
       "constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);\n"
       "constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V\n"
       "constexpr int ROW_SLAB_BYTES = BLOCK_M * 128; // of Q and dO\n"
       "constexpr int Q_BYTES = K_SLABS * ROW_SLAB_BYTES; // of one step\n"
       "constexpr int DO_BYTES = V_SLABS * ROW_SLAB_BYTES;\n"
       "constexpr int V_OFFSET = K_SLABS * KEY_SLAB_BYTES;\n"
       "constexpr int Q_OFFSET = V_OFFSET + V_SLABS * KEY_SLAB_BYTES;\n"
       "constexpr int DO_OFFSET = Q_OFFSET + STAGES * Q_BYTES;\n");
  if (sums) {
    TEXT("constexpr int DS_OFFSET = DO_OFFSET + STAGES * DO_BYTES;\n");
    if (halves) {
      TEXT("constexpr int DS_ROW_BYTES = BLOCK_M * 2; // in slabs, as A of dQ\n");
    } else {
      TEXT("constexpr int DS_ROW_BYTES = tile_row_bytes(BLOCK_M);\n");
    }
    TEXT("constexpr int DS_BYTES = BLOCK_N * DS_ROW_BYTES; // of one step\n");
    if (bulk) {
      TEXT("// fp32, of each warp a row tile, as it lies in dQ's sum.\n"
           "constexpr int DQ_OFFSET = DS_OFFSET + 2 * DS_BYTES;\n"
           "constexpr int DQ_WARP_BYTES = 16 * ");
      STRING(halves ? "64" : "HEAD_DIM");
      TEXT(" * 4;\n");
      if (prepares) {
        TEXT("// Of a later unit's rows: dO and out, of each warp that prepares them, and zeros.\n"
             "constexpr int AHEAD_OFFSET = DQ_OFFSET + ");
        INTEGER(4 * dq_places);
        TEXT(" * DQ_WARP_BYTES;\n"
             "constexpr int AHEAD_WARPS = 2;\n"
             "constexpr int AHEAD_BYTES = Q_BYTES + DO_BYTES;\n"
             "constexpr int ZERO_BYTES = 4096;\n"
             "constexpr int ZEROS_OFFSET = AHEAD_OFFSET + AHEAD_WARPS * AHEAD_BYTES;\n"
             "constexpr int ROWS_OFFSET = ZEROS_OFFSET + ZERO_BYTES;\n"
             "static_assert(SHARE_ROWS == BLOCK_M && K_SLABS + V_SLABS == 2, \"a box of each tensor map\");\n");
      } else if (keys_ahead) {
        TEXT("constexpr int KEYS_OFFSET = DQ_OFFSET + ");
        INTEGER(4 * dq_places);
        TEXT(" * DQ_WARP_BYTES; // the second place of K\n"
             "constexpr int ROWS_OFFSET = KEYS_OFFSET + K_SLABS * KEY_SLAB_BYTES;\n");
      } else {
        TEXT("constexpr int ROWS_OFFSET = DQ_OFFSET + ");
        INTEGER(4 * dq_places);
        TEXT(" * DQ_WARP_BYTES;\n");
      }
    } else {
      TEXT("constexpr int ROWS_OFFSET = DS_OFFSET + 2 * DS_BYTES;\n");
    }
  } else {
    TEXT("constexpr int ROWS_OFFSET = DO_OFFSET + STAGES * DO_BYTES;\n");
  }
  TEXT("constexpr int ROWS_BYTES = BLOCK_M * 8; // lse, then delta, of one step\n"
       "constexpr int BARRIER_OFFSET = ROWS_OFFSET + STAGES * ROWS_BYTES;\n");
  if (!takes) {
    TEXT("constexpr int DK_ROW_BYTES = tile_row_bytes(HEAD_DIM);\n"
         "constexpr int DV_ROW_BYTES = tile_row_bytes(HEAD_DIM_V);\n");
  }
  TEXT("static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (6 + 3 * STAGES");
  if (adders) {
    TEXT(" + ");
    INTEGER(halves ? 4 : 3);
  }
  TEXT("), \"shared memory\");\n");
  if (!takes) {
    TEXT("static_assert(");
    STRING(bulk ? "DQ" : "BARRIER");
    TEXT("_OFFSET >= BLOCK_N * (DK_ROW_BYTES + DV_ROW_BYTES), \"dK and dV\");\n");
  }
  TEXT("static_assert(BLOCK_M == 64 && BLOCK_N == 128, \"a warpgroup has 64 rows, and dQ two turns\");\n"
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
  if (adders) {
    TEXT(", dQ to the thread that has it added up");
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
       "}\n");
  if (adders) {
    TEXT("// Of a place of dQ.\n"
         "__device__ __forceinline__ uint32_t dq_full(uint32_t shared, int place) {\n"
         "  return q_full(shared, 3 * STAGES + place);\n"
         "}\n");
    if (in_turn) {
      TEXT("// Of every other step: who waits has waited for the phase before, which a consumer that has but\n"
           "// every other step could not know of one barrier.\n"
           "__device__ __forceinline__ uint32_t dq_empty(uint32_t shared, int turn) {\n"
           "  return q_full(shared, 3 * STAGES + 1 + turn);\n"
           "}\n");
    } else {
      TEXT("__device__ __forceinline__ uint32_t dq_empty(uint32_t shared, int place) {\n"
           "  return q_full(shared, 3 * STAGES + ");
      INTEGER(dq_places);
      TEXT(" + place);\n"
           "}\n");
    }
  }
  if (takes) {
    TEXT("constexpr int TAKE_READERS = NUM_THREADS / 32 - 1; // warps that read what the first one takes\n"
         "\n");
  }
  if (keys_ahead) {
    TEXT("// Of both places of K: it is there, or has been read; and V has been read.\n"
         "__shared__ uint64_t key_barriers[5];\n"
         "\n"
         "__device__ __forceinline__ uint32_t keys_there(int place) {\n"
         "  return shared_address(&key_barriers[place]);\n"
         "}\n"
         "__device__ __forceinline__ uint32_t keys_read(int place) {\n"
         "  return shared_address(&key_barriers[2 + place]);\n"
         "}\n"
         "__device__ __forceinline__ uint32_t values_read() {\n"
         "  return shared_address(&key_barriers[4]);\n"
         "}\n"
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
       "\n");
  if (k_in_regs || v_in_regs) {
    TEXT("// Fragments of a warp's 16 keys, as A, whose first row is at `keys`: `steps` times 16 columns.\n"
         "__device__ __forceinline__ void load_fragments(uint32_t fragment[][4], uint32_t keys, int steps) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < steps; ++step)\n"
         "    ldmatrix_x4(fragment[step], keys + step / 4 * KEY_SLAB_BYTES + lane % 16 * 128 +\n"
         "                                    ((step % 4 * 32 + lane / 16 * 16) ^ swizzle_of_row(64, lane)));\n"
         "}\n"
         "\n");
  }
  TEXT("// Starts S^T = K Q^T, (64, BLOCK_M), as a group of its own.\n");
  if (k_in_regs) {
    TEXT("__device__ __forceinline__ void start_scores(float score[S_TILES * 4],\n"
         "                                             const uint32_t k[S_STEPS][4], uint32_t shared,\n"
         "                                             int stage) {\n");
  } else {
    if (keys_ahead) {
      TEXT("__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,\n"
           "                                             uint32_t keys, int consumer, int stage) {\n"
           "  const uint64_t k = wgmma_descriptor(keys + consumer * 64 * 128, 1024, 0);\n");
    } else {
      TEXT("__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,\n"
           "                                             int consumer, int stage) {\n"
           "  const uint64_t k = wgmma_descriptor(shared + consumer * 64 * 128, 1024, 0);\n");
    }
  }
  TEXT("  const uint64_t q = wgmma_descriptor(shared + Q_OFFSET, 1024, 0) + stage * (Q_BYTES / 16);\n"
       "  wgmma_order_n");
  INTEGER(block_m);
  TEXT("(score);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < S_STEPS; ++step)\n");
  if (k_in_regs) {
    TEXT("    wgmma_m64n");
    INTEGER(block_m);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_rs(score, k[step],\n"
         "                             q + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n");
  } else {
    TEXT("    wgmma_m64n");
    INTEGER(block_m);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss(score, k + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16,\n"
         "                             q + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n");
  }
  TEXT("  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Starts dP^T = V dO^T, (64, BLOCK_M), as a group of its own.\n");
  if (v_in_regs) {
    TEXT("__device__ __forceinline__ void start_dp(float dp[S_TILES * 4], const uint32_t v[DP_STEPS][4],\n"
         "                                         uint32_t shared, int stage) {\n");
  } else {
    TEXT("__device__ __forceinline__ void start_dp(float dp[S_TILES * 4], uint32_t shared, int consumer,\n"
         "                                         int stage) {\n"
         "  const uint64_t v = wgmma_descriptor(shared + V_OFFSET + consumer * 64 * 128, 1024, 0);\n");
  }
  TEXT("  const uint64_t dout = wgmma_descriptor(shared + DO_OFFSET, 1024, 0) + stage * (DO_BYTES / 16);\n"
       "  wgmma_order_n");
  INTEGER(block_m);
  TEXT("(dp);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < DP_STEPS; ++step)\n");
  if (v_in_regs) {
    TEXT("    wgmma_m64n");
    INTEGER(block_m);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_rs(dp, v[step],\n"
         "                             dout + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n");
  } else {
    TEXT("    wgmma_m64n");
    INTEGER(block_m);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss(dp, v + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16,\n"
         "                             dout + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n");
  }
  TEXT("  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Starts dV += P^T dO, (64, HEAD_DIM_V), as a group of its own.\n"
       "__device__ __forceinline__ void start_dv(float dv[V_TILES * 4], const uint32_t p[ROW_STEPS][4],\n"
       "                                         uint32_t shared, int stage) {\n"
       "  const uint64_t dout =\n"
       "      wgmma_descriptor(shared + DO_OFFSET, 1024, ROW_SLAB_BYTES) + stage * (DO_BYTES / 16);\n"
       "  wgmma_order_n");
  INTEGER(hdim_v);
  TEXT("(dv);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < ROW_STEPS; ++step)\n"
       "    wgmma_m64n");
  INTEGER(hdim_v);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_rs_trans(dv, p[step], dout + step * 16 * 128 / 16, 1);\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Starts dK += dS^T Q, (64, HEAD_DIM), as a group of its own.\n"
       "__device__ __forceinline__ void start_dk(float dk[K_TILES * 4], const uint32_t ds[ROW_STEPS][4],\n"
       "                                         uint32_t shared, int stage) {\n"
       "  const uint64_t q =\n"
       "      wgmma_descriptor(shared + Q_OFFSET, 1024, ROW_SLAB_BYTES) + stage * (Q_BYTES / 16);\n"
       "  wgmma_order_n");
  INTEGER(hdim);
  TEXT("(dk);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < ROW_STEPS; ++step)\n"
       "    wgmma_m64n");
  INTEGER(hdim);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_rs_trans(dk, ds[step], q + step * 16 * 128 / 16, 1);\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n");
  if (sums && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) {
    if (!chains) {
      TEXT("// The sequence's keys are this block's alone: each step's dQ is complete, and has no sum.\n"
           "__device__ __forceinline__ bool is_direct(const attnpress_bwd_args *args) {\n"
           "  return args->seqlen_k <= BLOCK_N;\n"
           "}\n"
           "\n");
    }
    if (bulk) {
      TEXT("// Stores 8 `tiles` columns of a warp's part of a step to dq, from `column` on, through the warp's\n"
           "// place in shared memory. All parts have the same rows of it, as what lanes keep of others takes\n"
           "// registers.\n"
           "constexpr int DQ_CHUNKS = ");
      INTEGER(((dq_warps > 0) && (hdim > 64)) ? 8 : (hdim / 8));
      TEXT(";\n"
           "__device__ __forceinline__ void store_columns(const attnpress_bwd_args *args, unsigned char *smem,\n"
           "                                              const Work *work, Step step, ");
      STRING(chains ? "float" : "const float");
      TEXT(" *dq,\n"
           "                                              int tiles, int column, int lane) {\n"
           "  const int row = step.row + threadIdx.x / 32 % 4 * 16;\n");
      if (chains) {
        TEXT("  if (work->key_begin > 0) {\n"
             "    add_left(dq, (const float *)(smem + DQ_OFFSET + (threadIdx.x / 32 - 4) * DQ_WARP_BYTES), tiles,\n"
             "             lane);\n"
             "    // The warp's lanes arrive and wait: and the place is free.\n"
             "    __syncwarp();\n"
             "  }\n");
      }
      TEXT("  store_row_tile(args,\n"
           "                 row_of_dq(args, work->at->q_batch, work->at->q_row + row, step.head) + column,\n"
           "                 smem + DQ_OFFSET + ");
      STRING(halves ? "(threadIdx.x / 32 - 4)" : "threadIdx.x / 32 % 4");
      TEXT(" * DQ_WARP_BYTES, DQ_CHUNKS, dq, tiles,\n"
           "                 ");
      STRING(halves ? "min(tiles * 8, HEAD_DIM - column)" : "tiles * 8");
      TEXT(", args->seqlen_q - row, DTYPE, lane);\n"
           "}\n");
    } else {
      TEXT("// Stores a warp's part of a step to dq.\n"
           "__device__ __forceinline__ void store_dq(const attnpress_bwd_args *args, const Work *work,\n"
           "                                         Step step, const float *dq, int lane) {\n"
           "  const int row = step.row + threadIdx.x / 32 % 4 * 16;\n"
           "  store_row_pairs(args, row_of_dq(args, work->at->q_batch, work->at->q_row + row, step.head), dq,\n"
           "                  0, K_TILES, HEAD_DIM, args->seqlen_q - row, DTYPE, lane);\n"
           "}\n");
    }
  }
  if (passes) {
    TEXT("// Stores a warp's part of a step to dq, through the warp's place in shared memory.\n"
         "__device__ __forceinline__ void store_dq(const attnpress_bwd_args *args, unsigned char *smem,\n"
         "                                         const Work *work, Step step, const float *dq, int lane) {\n"
         "  const int warp = threadIdx.x / 32 % 4, row = step.row + warp * 16;\n"
         "  store_row_tile(args, row_of_dq(args, work->batch, row, step.head),\n"
         "                 smem + DQ_OFFSET + warp * DQ_WARP_BYTES, K_TILES, dq, K_TILES, HEAD_DIM,\n"
         "                 args->seqlen_q - row, DTYPE, lane);\n"
         "}\n"
         "\n");
  }
  if (adders) {
    TEXT("// Hands a warp's part of a step's dQ, 8 `tiles` columns, to the thread that has it added up. At\n"
         "// `empty` that thread arrived, when the copy engine had read what was there: hands over the place.\n"
         "__device__ __forceinline__ void hand_over_dq(const attnpress_bwd_args *args, unsigned char *smem,\n"
         "                                             uint32_t shared, int place, uint32_t empty, int parity,\n"
         "                                             const Work *work, Step step, ");
    STRING(chains ? "float" : "const float");
    TEXT(" *dq,\n"
         "                                             int tiles) {\n"
         "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
         "  wait_for_phase(empty, parity);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("  if (");
      STRING(chains ? "step.row < work->whole_end" : "is_direct(args)");
      TEXT(") {\n"
           "    store_columns(args, smem, work, step, dq, tiles, ");
      STRING(halves ? "place * 64" : "0");
      TEXT(", lane);\n"
           "  } else {\n"
           "    store_for_sum((float *)(smem + DQ_OFFSET + (place * 4 + warp) * DQ_WARP_BYTES), dq, tiles,\n"
           "                  lane);\n"
           "  }\n");
    } else {
      TEXT("  store_for_sum((float *)(smem + DQ_OFFSET + (place * 4 + warp) * DQ_WARP_BYTES), dq, tiles, lane);\n");
    }
    TEXT("  // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
         "  __syncwarp();\n"
         "  arrive_once(dq_full(shared, place));\n"
         "}\n"
         "\n"
         "// One thread for each place of dQ: has the copy engine add what comes there to its sum.\n"
         "__device__ __forceinline__ void add_up(const attnpress_bwd_args *args, uint32_t shared,\n"
         "                                       const Work *work, int place) {\n");
    if (halves) {
      TEXT("  const int first = place * DQ_TILES, tiles = place == 0 ? DQ_TILES : K_TILES - DQ_TILES;\n");
    }
    TEXT("  const uint32_t source = shared + DQ_OFFSET + place * 4 * DQ_WARP_BYTES;\n"
         "  const int steps = work->steps, row_begin = work->row_begin, row_end = work->row_end;\n");
    if (takes) {
      TEXT("  const int before = work->before.steps;\n");
    }
    if (chains) {
      TEXT("  // In registers, as they are asked for in each step.\n"
           "  const bool begins = work->begins;\n"
           "  const bool passed = work->key_begin > 0 && work->unit_end > work->key_begin;\n"
           "  const int whole_end = work->whole_end, left_end = passed ? whole_end : 0;\n");
    }
    if (parts) {
      TEXT("  wait_for_zeros(args, unit_of(args, work), 2);\n");
    }
    TEXT("  float *sum =\n"
         "      args->dq_sum +\n"
         "      sum_offset(args, ");
    STRING(chains ? "0, work->sum_head, work->at->sum_tile + work->row_begin / 16" : ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "0, work->first_head, work->at->sum_tile + work->row_begin / 16" : "work->batch, work->first_head, work->walk_begin / 16"));
    TEXT(",\n"
         "                 HEAD_DIM);\n"
         "  for (int n = 0, row = ");
    STRING(parts ? "work->walk_begin" : "row_begin");
    TEXT("; n < steps; ++n) {\n");
    if (chains) {
      TEXT("    if (n == 0 && passed)\n"
           "      bulk_wait_written(); // of the key block before\n"
           "    // Hands over the place, and in it what the key blocks before have left of rows that are\n"
           "    // complete with this one.\n"
           "    if (row < left_end) {\n"
           "      mbarrier_arrive_expect(dq_empty(shared, place),\n"
           "                             min(4, ceil_div(args->seqlen_q - row, 16)) * tiles * 512);\n"
           "#pragma unroll\n"
           "      for (int warp = 0; warp < 4; ++warp)\n"
           "        if (row + warp * 16 < args->seqlen_q)\n"
           "          bulk_load(source + warp * DQ_WARP_BYTES, sum + (warp * K_TILES + first) * 128,\n"
           "                    tiles * 512, dq_empty(shared, place));\n"
           "    } else {\n"
           "      mbarrier_arrive(dq_empty(shared, place));\n"
           "    }\n");
    }
    TEXT("    // The warps arrived: hands over their dQ. The fence is here, as they would wait at it.\n"
         "    wait_for_phase(dq_full(shared, place), ");
    STRING(takes ? "(before + n)" : "n");
    TEXT(" % 2);\n"
         "    fence_proxy_async();\n"
         "#pragma unroll\n"
         "    for (int warp = 0; warp < 4; ++warp)\n"
         "      if (");
    STRING(chains ? "row >= whole_end && " : ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "!is_direct(args) && " : ""));
    TEXT("row + warp * 16 < args->seqlen_q)\n");
    if (chains) {
      TEXT("        add_part(sum + (warp * K_TILES + first) * 128, source + warp * DQ_WARP_BYTES, tiles,\n"
           "                 begins);\n");
    } else if (halves) {
      TEXT("        bulk_add(sum + (warp * K_TILES + first) * 128, source + warp * DQ_WARP_BYTES, tiles * 512);\n");
    } else {
      TEXT("        bulk_add(sum + warp * K_TILES * 128, source + warp * DQ_WARP_BYTES, DQ_WARP_BYTES);\n");
    }
    TEXT("    bulk_commit();\n"
         "    bulk_wait_read(0);\n");
    if (!chains) {
      TEXT("    mbarrier_arrive(dq_empty(shared, ");
      STRING(!in_turn ? "place" : (takes ? "(before + n) % 2" : "n % 2"));
      TEXT("));\n");
    }
    TEXT("    row += BLOCK_M;\n"
         "    sum += BLOCK_M / 16 * K_TILES * 128;\n"
         "    if (row == row_end) { // the next head\n"
         "      row = row_begin;\n"
         "      sum += (args->sum_tiles - (row_end - row_begin) / 16) * (int64_t)K_TILES * 128;\n"
         "    }\n"
         "  }\n"
         "}\n"
         "\n");
  }
  if (sums && !halves) {
    TEXT("// Fragments of dS, as A: DQ_STEPS times 16 keys, from `tile` on.\n"
         "__device__ __forceinline__ void load_ds(uint32_t ds[DQ_STEPS][4], uint32_t tile) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < DQ_STEPS; ++i)\n"
         "    ldmatrix_x4_trans(ds[i], tile + i * 16 * DS_ROW_BYTES);\n"
         "}\n"
         "\n");
  }
  if (own_dq) {
    TEXT("// Begins to add 8 `tiles` columns of dQ to their sum, from `place` in shared memory.\n"
         "__device__ __forceinline__ void add_columns(float *sum, unsigned char *smem, uint32_t shared,\n"
         "                                            int place, const float *dq, int tiles, int lane) {\n"
         "  // The first lane's additions are read, but the latest of other columns: hands over the place.\n"
         "  wait_for_additions(");
    INTEGER((hdim > 64) ? 1 : 0);
    TEXT(");\n"
         "  __syncwarp();\n"
         "  store_for_sum((float *)(smem + place), dq, tiles, lane);\n"
         "  begin_addition(sum, shared + place, tiles);\n"
         "}\n"
         "\n"
         "// dQ = dS K of each step, (BLOCK_M, HEAD_DIM), of all keys of the block, slab by slab of K.\n"
         "__device__ __forceinline__ void sum_dq(const attnpress_bwd_args *args, unsigned char *smem,\n"
         "                                       uint32_t shared, const Work *work");
    STRING(takes ? ", int work_turn" : "");
    TEXT(") {\n"
         "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
         "  const int place = DQ_OFFSET + warp * DQ_WARP_BYTES;\n"
         "  const uint64_t k = wgmma_descriptor(shared, 1024, KEY_SLAB_BYTES);\n"
         "  Step step = {work->first_head, work->");
    STRING(parts ? "walk_begin" : "row_begin");
    TEXT("};\n");
    if (parts && takes) {
      TEXT("  // A warp that has waited for the zeros of the sum arrives.\n"
           "  wait_for_phase(sum_ready(work_turn % 2), work_turn / 2 % 2);\n");
    } else if (parts) {
      TEXT("  // A warp that has waited for the zeros of the sum arrives, the warps of dQ arrive and wait.\n"
           "  named_barrier_sync(3, 128 + 32);\n");
    }
    TEXT("  if (work->steps > 0) // the copy engine hands over K\n"
         "    wait_for_phase(k_full(shared), ");
    STRING(takes ? "work->before.keys % 2" : "0");
    TEXT(");\n");
    if (passes) {
      TEXT("  uint32_t *mark = nullptr; // of the step before, which has passed its rows on\n");
    }
    if (takes) {
      TEXT("  const int before = work->before.steps, end = before + work->steps;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  // Steps that have no sum go through the place of what the keys before may yet add: the first\n"
             "  // lane's additions are read.\n"
             "  if (is_direct(args)) {\n"
             "    wait_for_additions(0);\n"
             "    __syncwarp();\n"
             "  }\n");
      }
    }
    TEXT("  for (int n = ");
    STRING(takes ? "before" : "0");
    TEXT("; n < ");
    STRING(takes ? "end" : "work->steps");
    TEXT("; ++n, step = step_after(step, work)) {\n"
         "    const int turn = n % 2;\n");
    if (passes) {
      TEXT("    const int row_tile = step.row / 16 + warp;\n"
           "    float dq[");
      INTEGER(hdim / 2);
      TEXT("] = {};\n"
           "    if (passes_on(args) && step.row < work->taken_end && row_tile * 16 < args->seqlen_q)\n"
           "      take_over(args, work->batch, step.head, row_tile, dq, K_TILES, lane);\n");
    }
    TEXT("    // All consumers' warps arrived: hands over their dS.\n"
         "    wait_for_phase(ds_full(shared, turn), n / 2 % 2);\n"
         "    const uint32_t tile = shared + DS_OFFSET + turn * DS_BYTES + warp * 32 +\n"
         "                          ldmatrix_columns_first(lane, DS_ROW_BYTES);\n"
         "    float *sum =\n"
         "        args->dq_sum + sum_offset(args, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "0, step.head, work->at->sum_tile + step.row / 16 + warp" : "work->batch, step.head, step.row / 16 + warp");
    TEXT(",\n"
         "                                  HEAD_DIM);\n"
         "    const bool valid = step.row + warp * 16 < args->seqlen_q;\n"
         "    uint32_t ds[DQ_STEPS][4];\n"
         "    {\n");
    if (!passes) {
      TEXT("      float dq[");
      INTEGER(((hdim < 64) ? hdim : 64) / 2);
      TEXT("];\n");
    }
    if (((sequences == AP_ATTENTION_SEQUENCES_RAGGED) && (hdim > 40)) && (hdim <= 80)) {
      TEXT("#pragma unroll 1 // else there are some registers too few\n");
    } else {
      TEXT("#pragma unroll\n");
    }
    TEXT("      for (int first = 0; first < KEY_STEPS; first += DQ_STEPS) {\n"
         "        load_ds(ds, tile + first * 16 * DS_ROW_BYTES);\n"
         "        wgmma_order_n");
    INTEGER((hdim < 64) ? hdim : 64);
    TEXT("(dq);\n"
         "        wgmma_fence();\n"
         "#pragma unroll\n"
         "        for (int i = 0; i < DQ_STEPS; ++i)\n"
         "          wgmma_m64n");
    INTEGER((hdim < 64) ? hdim : 64);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_rs_trans(\n"
         "              dq, ds[i], k + ((first + i) * 16 * 128) / 16, ");
    STRING(passes ? "1" : "first + i > 0");
    TEXT(");\n"
         "        wgmma_commit();\n");
    if (passes) {
      TEXT("        if (first + DQ_STEPS == KEY_STEPS) {\n"
           "          // While products run: of the step before.\n"
           "          make_mark(mark, lane);\n"
           "          mark = nullptr;\n"
           "        }\n");
    }
    if (hdim <= 64) {
      TEXT("        if (first + DQ_STEPS == KEY_STEPS) {\n"
           "          // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
           "          __syncwarp();\n"
           "          arrive_once(ds_empty(shared, turn));\n"
           "        }\n");
    }
    TEXT("        wgmma_wait(0);\n"
         "        wgmma_order_n");
    INTEGER((hdim < 64) ? hdim : 64);
    TEXT("(dq);\n"
         "      }\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("      if (valid && is_direct(args))\n"
           "        store_columns(args, smem, work, step, dq, ");
      INTEGER(((hdim < 64) ? hdim : 64) / 8);
      TEXT(", 0, lane);\n"
           "      else if (valid)\n"
           "        add_columns(sum, smem, shared, place, dq, ");
      INTEGER(((hdim < 64) ? hdim : 64) / 8);
      TEXT(", lane);\n");
    } else if (passes) {
      TEXT("      if (valid && !passes_on(args))\n"
           "        add_columns(sum, smem, shared, place, dq, K_TILES, lane);\n"
           "      else if (valid && step.row >= work->passed_begin)\n"
           "        mark = pass_on(args, work->batch, step.head, row_tile, dq, K_TILES, lane);\n"
           "      else if (valid)\n"
           "        store_dq(args, smem, work, step, dq, lane);\n"
           "      // The mark of a head's last step that is passed on comes behind what is taken over next,\n"
           "      // those of the steps before do not. That of a single one would wait for all thread blocks\n"
           "      // before.\n"
           "      if (work->row_end - work->walk_begin == BLOCK_M) {\n"
           "        make_mark(mark, lane);\n"
           "        mark = nullptr;\n"
           "      }\n");
    } else {
      TEXT("      if (valid)\n"
           "        add_columns(sum, smem, shared, place, dq, ");
      INTEGER(((hdim < 64) ? hdim : 64) / 8);
      TEXT(", lane);\n");
    }
    TEXT("    }\n");
    if (hdim > 64) {
      TEXT("    {\n"
           "      float dq[");
      INTEGER((hdim / 2) - 32);
      TEXT("];\n");
      if (((sequences == AP_ATTENTION_SEQUENCES_RAGGED) && (hdim > 40)) && (hdim <= 80)) {
        TEXT("#pragma unroll 1 // else there are some registers too few\n");
      } else {
        TEXT("#pragma unroll\n");
      }
      TEXT("      for (int first = 0; first < KEY_STEPS; first += DQ_STEPS) {\n"
           "        load_ds(ds, tile + first * 16 * DS_ROW_BYTES);\n"
           "        wgmma_order_n");
      INTEGER(hdim - 64);
      TEXT("(dq);\n"
           "        wgmma_fence();\n"
           "#pragma unroll\n"
           "        for (int i = 0; i < DQ_STEPS; ++i)\n"
           "          wgmma_m64n");
      INTEGER(hdim - 64);
      TEXT("k16_");
      STRING(in->word[AP_ATTENTION_DTYPE]);
      TEXT("_rs_trans(\n"
           "              dq, ds[i], k + (KEY_SLAB_BYTES + (first + i) * 16 * 128) / 16, first + i > 0);\n"
           "        wgmma_commit();\n"
           "        if (first + DQ_STEPS == KEY_STEPS) {\n"
           "          // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
           "          __syncwarp();\n"
           "          arrive_once(ds_empty(shared, turn));\n"
           "        }\n"
           "        wgmma_wait(0);\n"
           "        wgmma_order_n");
      INTEGER(hdim - 64);
      TEXT("(dq);\n"
           "      }\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("      if (valid && is_direct(args))\n"
             "        store_columns(args, smem, work, step, dq, ");
        INTEGER((hdim / 8) - 8);
        TEXT(", 64, lane);\n"
             "      else if (valid)\n"
             "        add_columns(sum + 8 * 128, smem, shared, place + 8 * 512, dq, ");
        INTEGER((hdim / 8) - 8);
        TEXT(", lane);\n");
      } else {
        TEXT("      if (valid)\n"
             "        add_columns(sum + 8 * 128, smem, shared, place + 8 * 512, dq, ");
        INTEGER((hdim / 8) - 8);
        TEXT(", lane);\n");
      }
      TEXT("    }\n");
    }
    TEXT("  }\n");
    if (passes) {
      TEXT("  make_mark(mark, lane);\n");
    }
    if (takes) {
      TEXT("  if (work->steps > 0)\n"
           "    named_barrier_arrive(2, NUM_THREADS - 128); // K has been read\n");
    } else {
      TEXT("  named_barrier_arrive(2, NUM_THREADS - 128); // K has been read\n"
           "  wait_for_additions(0);\n");
    }
    TEXT("}\n");
  } else if (halves) {
    TEXT("// Starts dQ = dS K, (BLOCK_M, 64), of all keys of the block and the consumer's columns, as a group\n"
         "// of its own.\n");
    if (keys_ahead) {
      TEXT("__device__ __forceinline__ void start_dq(float dq[DQ_TILES * 4], uint32_t shared, uint32_t keys,\n"
           "                                         int consumer, int turn) {\n");
    } else {
      TEXT("__device__ __forceinline__ void start_dq(float dq[DQ_TILES * 4], uint32_t shared, int consumer,\n"
           "                                         int turn) {\n");
    }
    TEXT("  const uint64_t ds = wgmma_descriptor(shared + DS_OFFSET, 1024, DS_BYTES) + turn * (DS_BYTES / 16);\n"
         "  const uint64_t k = wgmma_descriptor(");
    STRING(keys_ahead ? "keys" : "shared");
    TEXT(" + consumer * KEY_SLAB_BYTES, 1024, KEY_SLAB_BYTES);\n"
         "  wgmma_order_n64(dq);\n"
         "  wgmma_fence();\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < KEY_STEPS; ++i)\n"
         "    wgmma_m64n64k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss_trans_both(dq, ds + i * 16 * 128 / 16, k + i * 16 * 128 / 16, i > 0);\n"
         "  wgmma_commit();\n"
         "}\n"
         "\n");
  } else if (in_turn) {
    TEXT("// dQ = dS K of a step, (BLOCK_M, HEAD_DIM), of all keys of the block, added to its sum. `turn`: the\n"
         "// dS that it takes, `parity` of its barriers.");
    STRING(bulk ? " The addition has only begun at the end." : "");
    TEXT("\n");
    if (bulk) {
      TEXT("__device__ __forceinline__ void add_dq(const attnpress_bwd_args *args, unsigned char *smem,\n"
           "                                       uint32_t shared, int turn, int parity, const Work *work,\n"
           "                                       Step step) {\n");
    } else {
      TEXT("__device__ __forceinline__ void add_dq(const attnpress_bwd_args *args, uint32_t shared, int turn,\n"
           "                                       int parity, const Work *work, Step step) {\n");
    }
    TEXT("  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
         "  // All consumers' warps arrived: hands over their dS.\n"
         "  wait_for_phase(ds_full(shared, turn), parity);\n"
         "  const uint32_t tile = shared + DS_OFFSET + turn * DS_BYTES + warp * 32 +\n"
         "                        ldmatrix_columns_first(lane, DS_ROW_BYTES);\n"
         "  const uint64_t k = wgmma_descriptor(shared, 1024, KEY_SLAB_BYTES);\n"
         "  float dq[K_TILES * 4];\n"
         "  // Fragments of dS of the next keys come while the products of those before run.\n"
         "  constexpr int PARTS = KEY_STEPS / DQ_STEPS;\n"
         "  uint32_t ds[2][DQ_STEPS][4];\n"
         "  load_ds(ds[0], tile);\n"
         "  wgmma_order_n");
    INTEGER(hdim);
    TEXT("(dq);\n"
         "#pragma unroll\n"
         "  for (int part = 0; part < PARTS; ++part) {\n"
         "    wgmma_fence();\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < DQ_STEPS; ++i)\n"
         "      wgmma_m64n");
    INTEGER(hdim);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_rs_trans(dq, ds[part % 2][i],\n"
         "                                      k + (part * DQ_STEPS + i) * 16 * 128 / 16, part + i > 0);\n"
         "    wgmma_commit();\n"
         "    if (part + 1 < PARTS) {\n"
         "      if (part > 0)\n"
         "        wgmma_wait(1);\n"
         "      load_ds(ds[(part + 1) % 2], tile + (part + 1) * DQ_STEPS * 16 * DS_ROW_BYTES);\n"
         "    }\n"
         "  }\n"
         "  // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
         "  __syncwarp();\n"
         "  arrive_once(ds_empty(shared, turn));\n"
         "  wgmma_wait(0);\n"
         "  wgmma_order_n");
    INTEGER(hdim);
    TEXT("(dq);\n");
    if (adders) {
      TEXT("  hand_over_dq(args, smem, shared, 0, dq_empty(shared, turn ^ 1), parity ^ turn ^ 1, work, step, dq,\n"
           "               K_TILES);\n");
    } else {
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("  if (is_direct(args)) {\n"
             "    store_dq(args, work, step, dq, lane);\n"
             "    return;\n"
             "  }\n");
      }
      TEXT("  if (step.row + warp * 16 < args->seqlen_q) {\n"
           "    float *sum =\n"
           "        args->dq_sum + sum_offset(args, ");
      STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "0, step.head, work->at->sum_tile + step.row / 16 + warp" : "work->batch, step.head, step.row / 16 + warp");
      TEXT(",\n"
           "                                  HEAD_DIM);\n"
           "#pragma unroll\n"
           "    for (int tile_index = 0; tile_index < K_TILES; ++tile_index)\n"
           "      add_to_sum(sum + tile_index * 128, dq + tile_index * 4, lane);\n"
           "  }\n");
    }
    TEXT("}\n"
         "\n");
  }
  if (in_turn || halves) {
    TEXT("__device__ __forceinline__ Step step_before(Step step, const Work *work) {\n"
         "  if (step.row == work->row_begin)\n"
         "    step = {step.head - 1, work->row_end};\n"
         "  step.row -= BLOCK_M;\n"
         "  return step;\n"
         "}\n"
         "\n");
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
       "// One consumer: 64 keys.\n"
       "__device__ __forceinline__ void consume(const attnpress_bwd_args *args, unsigned char *smem,\n"
       "                                        uint32_t shared, const Work *work, int consumer) {\n"
       "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
       "  const int first_key = work->key_begin + consumer * 64;\n"
       "  float dk[K_TILES * 4] = {}, dv[V_TILES * 4] = {};\n");
  if (dropout) {
    TEXT("  keep_nothing(&dropout_kept[consumer * 4 + warp], lane);\n");
  }
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  // The rows that see all of the consumer's keys.\n"
         "  const int unmasked_begin =\n"
         "      queries_in_window(first_key + 63, &args->score, args->seqlen_q, args->seqlen_k).key_begin;\n"
         "  const int unmasked_end =\n"
         "      queries_in_window(first_key, &args->score, args->seqlen_q, args->seqlen_k).key_end;\n");
  }
  if (skips) {
    TEXT("  // Those that see any of them.\n"
         "  const int seen_begin =\n"
         "      queries_in_window(first_key, &args->score, args->seqlen_q, args->seqlen_k).key_begin;\n"
         "  const int seen_end = queries_in_window(min(first_key + 63, args->seqlen_k - 1), &args->score,\n"
         "                                         args->seqlen_q, args->seqlen_k)\n"
         "                           .key_end;\n");
  }
  if (halves) {
    TEXT("  // This thread's first place in dS^T, of whose rows the chunks of 8 queries are swizzled: another\n"
         "  // chunk's differs by ^.\n"
         "  const int ds_place = DS_OFFSET + (consumer * 64 + warp * 16 + lane / 4) * DS_ROW_BYTES +\n"
         "                       lane / 4 * 16 + lane % 4 * 4;\n");
  } else if (sums) {
    TEXT("  unsigned char *const ds_place = smem + DS_OFFSET +\n"
         "                                  (consumer * 64 + warp * 16 + lane / 4) * DS_ROW_BYTES +\n"
         "                                  lane % 4 * 4;\n");
  }
  if ((parts && in_turn) && !adders) {
    TEXT("  if (lane == 0)\n"
         "    wait_for_zeros(args, unit_of(args, work), 2);\n"
         "  __syncwarp();\n");
  }
  TEXT("  Step step = {work->first_head, work->");
  STRING(parts ? "walk_begin" : "row_begin");
  TEXT("};\n");
  if (takes) {
    TEXT("  const int before = work->before.steps;\n"
         "  Stage stage = progress_stage(work->before, STAGES);\n");
  } else {
    TEXT("  Stage stage = {0, 0};\n");
  }
  if (k_in_regs || v_in_regs) {
    if (zeros) {
      TEXT("  // Zeros at first: of fragments that ldmatrix alone writes, ptxas up to CUDA 13.0 gives the\n"
           "  // registers to P or dS as well, within the loop, where their products have as many columns.\n");
    }
    if (k_in_regs) {
      TEXT("  uint32_t k[S_STEPS][4]");
      STRING(zeros ? " = {}" : "");
      TEXT(";\n");
    }
    if (v_in_regs) {
      TEXT("  uint32_t v[DP_STEPS][4]");
      STRING(zeros ? " = {}" : "");
      TEXT(";\n");
    }
    TEXT("  if (work->steps > 0) { // the copy engine hands over K");
    STRING(v_in_regs ? ", and then V" : "");
    TEXT("\n"
         "    wait_for_phase(k_full(shared), ");
    STRING(takes ? "work->before.keys % 2" : "0");
    TEXT(");\n");
    if (k_in_regs) {
      TEXT("    load_fragments(k, shared + (consumer * 64 + warp * 16) * 128, S_STEPS);\n");
    }
    if (v_in_regs) {
      TEXT("    wait_for_phase(v_full(shared), ");
      STRING(takes ? "work->before.keys % 2" : "0");
      TEXT(");\n"
           "    load_fragments(v, shared + V_OFFSET + (consumer * 64 + warp * 16) * 128, DP_STEPS);\n");
    }
    TEXT("  }\n");
  } else if (keys_ahead) {
    TEXT("  const int keys_place = work->before.keys % 2;\n"
         "  const uint32_t keys = shared + keys_place * KEYS_OFFSET;\n"
         "  if (work->steps > 0) // the copy engine hands over K\n"
         "    wait_for_phase(keys_there(keys_place), work->before.keys / 2 % 2);\n");
  } else {
    TEXT("  if (work->steps > 0) // the copy engine hands over K\n"
         "    wait_for_phase(k_full(shared), ");
    STRING(takes ? "work->before.keys % 2" : "0");
    TEXT(");\n");
  }
  TEXT("  for (int n = 0; n < work->steps; ++n) {\n");
  if (takes) {
    TEXT("    const int turn = (before + n) % 2, turn_parity = (before + n) / 2 % 2;\n");
  } else if (sums) {
    TEXT("    const int turn = n % 2, turn_parity = n / 2 % 2;\n");
  }
  if (skips || (idles && own_dq)) {
    TEXT("    // No row of the step sees a key of the consumer's: dS is 0, and dK and dV are as they were. Not\n"
         "    // in the first step, whose products take the fragments of K and V before anything is handed on.\n");
    if (skips) {
      TEXT("    if (n > 0 && (step.row + BLOCK_M <= seen_begin || step.row >= seen_end)) {\n");
    } else {
      TEXT("    if (n > 0 && first_key >= args->seqlen_k) {\n");
    }
    TEXT("      // The step has come: hands its space back. The other consumer may skip it as well.\n"
         "      wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
         "      wait_for_phase(do_full(shared, stage.index), stage.parity);\n"
         "      // dQ's warps arrived: hands over the place of dS of the step before last.\n"
         "      wait_for_phase(ds_empty(shared, turn), turn_parity ^ 1);\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < S_TILES * 2; ++i)\n"
         "        *(uint32_t *)(ds_place + turn * DS_BYTES + i % 2 * 8 * DS_ROW_BYTES + i / 2 * 16) = 0;\n"
         "      // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
         "      __syncwarp();\n"
         "      arrive_once(step_empty(shared, stage.index));\n"
         "      arrive_once(ds_full(shared, turn));\n"
         "      stage = next_stage(stage, STAGES);\n"
         "      step = step_after(step, work);\n"
         "      continue;\n"
         "    }\n");
  }
  if (idles && halves) {
    TEXT("    // All of the consumer's keys are past the end: dS is 0, and dK and dV are as they were.\n"
         "    // Its half of dQ is of the other's dS.\n"
         "    if (first_key >= args->seqlen_k) {\n"
         "      wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
         "      wait_for_phase(do_full(shared, stage.index), stage.parity);\n"
         "      if (n == 0)\n"
         "        wait_for_phase(v_full(shared), ");
    STRING(takes ? "work->before.keys % 2" : "0");
    TEXT(");\n"
         "      wait_for_phase(ds_full(shared, turn ^ 1), turn_parity ^ turn ^ 1);\n"
         "      fence_proxy_async();\n"
         "      wait_for_phase(ds_empty(shared, turn), turn_parity ^ turn ^ 1);\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < S_TILES * 2; ++i)\n"
         "        *(uint32_t *)(smem + (ds_place ^ i / 2 * 16) + turn * DS_BYTES + i % 2 * 8 * DS_ROW_BYTES) =\n"
         "            0;\n"
         "      // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
         "      __syncwarp();\n"
         "      arrive_once(ds_full(shared, turn));\n"
         "      arrive_once(step_empty(shared, stage.index));\n");
    if (keys_ahead) {
      TEXT("      if (n == work->steps - 1)\n"
           "        arrive_once(values_read());\n");
    }
    TEXT("      float dq[DQ_TILES * 4];\n"
         "      start_dq(dq, shared, ");
    STRING(keys_ahead ? "keys, " : "");
    TEXT("consumer, turn ^ 1);\n"
         "      wgmma_wait(0);\n"
         "      wgmma_order_n64(dq);\n"
         "      __syncwarp();\n"
         "      arrive_once(ds_empty(shared, turn ^ 1));\n"
         "      if (n > 0)\n"
         "        hand_over_dq(args, smem, shared, consumer, dq_empty(shared, consumer), turn");
    STRING(chains ? " ^ 1" : "");
    TEXT(", work,\n"
         "                     step_before(step, work), dq, DQ_TILES);\n"
         "      stage = next_stage(stage, STAGES);\n"
         "      step = step_after(step, work);\n"
         "      continue;\n"
         "    }\n");
  }
  TEXT("    float score[S_TILES * 4], dp[S_TILES * 4];\n"
       "    uint32_t p[ROW_STEPS][4], ds[ROW_STEPS][4];\n");
  if (dropout) {
    TEXT("    keep_words(&dropout_kept[consumer * 4 + warp], &args->score,\n"
         "               (int64_t)work->batch * args->heads_q, step.head, first_key + warp * 16, lane);\n");
  }
  TEXT("    // The producer and the copy engine hand over Q, lse and delta.\n"
       "    wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
       "    start_scores(score, ");
  STRING(k_in_regs ? "k, shared" : (keys_ahead ? "shared, keys, consumer" : "shared, consumer"));
  TEXT(", stage.index);\n");
  if (halves) {
    TEXT("    const float *const lse_log2 =\n"
         "        (const float *)(smem + ROWS_OFFSET + stage.index * ROWS_BYTES) + lane % 4 * 2;\n");
    if (!softcap) {
      TEXT("    float2 lse[S_TILES]; // while the products run: shared memory is busy then\n"
           "#pragma unroll\n"
           "    for (int tile = 0; tile < S_TILES; ++tile)\n"
           "      lse[tile] = *(const float2 *)(lse_log2 + tile * 8);\n");
    }
  }
  if (!late_dp) {
    TEXT("    // The copy engine hands over dO");
    if (!v_in_regs) {
      TEXT(", and V with the first");
    }
    TEXT(".\n"
         "    wait_for_phase(do_full(shared, stage.index), stage.parity);\n");
    if (!v_in_regs) {
      TEXT("    if (n == 0)\n"
           "      wait_for_phase(v_full(shared), ");
      STRING(takes ? "work->before.keys % 2" : "0");
      TEXT(");\n");
    }
    TEXT("    start_dp(dp, ");
    STRING(v_in_regs ? "v, shared" : "shared, consumer");
    TEXT(", stage.index);\n");
  }
  if (alibi) {
    TEXT("    const float slope = load_slope(&args->score, work->batch, step.head);\n");
  }
  if (dropout) {
    TEXT("    // While the products run.\n"
         "    const uint32_t dropped = decide_tiles(S_TILES, &dropout_kept[consumer * 4 + warp], step.row,\n"
         "                                          lane, args->score.dropout_threshold);\n");
  }
  TEXT("    wgmma_wait(");
  INTEGER(late_dp ? 0 : 1);
  TEXT(");\n"
       "    wgmma_order_n");
  INTEGER(block_m);
  TEXT("(score);\n"
       "\n");
  if (softcap) {
    TEXT("    cap_scores(score, S_TILES, &args->score);\n");
  }
  if (bias != AP_ATTENTION_BIAS_NONE) {
    TEXT("#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half)\n"
         "      add_bias_at(score, BIAS, S_TILES, half, true, args, work->batch, step.head,\n"
         "                  first_key + warp * 16 + half * 8 + lane / 4, step.row + lane % 4 * 2);\n");
  }
  if (alibi) {
    TEXT("#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half)\n"
         "      add_alibi_at(score, S_TILES, half, true, args, slope,\n"
         "                   first_key + warp * 16 + half * 8 + lane / 4, step.row + lane % 4 * 2);\n");
  }
  TEXT("    const bool masked = first_key + 64 > args->seqlen_k");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT(" || step.row < unmasked_begin ||\n"
         "                        step.row + BLOCK_M > unmasked_end");
  } else if (mask == AP_ATTENTION_MASK_CAUSAL) {
    TEXT(" ||\n"
         "                        step.row - args->seqlen_q + args->seqlen_k < first_key + 63");
  }
  TEXT(";\n"
       "    if (masked)\n"
       "      mask_block(score, args, first_key + warp * 16, step.row);\n");
  if (!halves) {
    TEXT("    const float *const lse_log2 =\n"
         "        (const float *)(smem + ROWS_OFFSET + stage.index * ROWS_BYTES) + lane % 4 * 2;\n");
  }
  if (softcap) {
    TEXT("    recompute_capped(score, p[0], S_TILES, lse_log2, args->scale_log2, DTYPE);\n");
  } else {
    if (halves) {
      TEXT("    recompute_from_pairs(score, S_TILES, lse, args->scale_log2);\n");
    } else {
      TEXT("    recompute_probabilities(score, S_TILES, true, lse_log2, args->scale_log2);\n");
    }
    if (dropout) {
      TEXT("    mark_decided(score, S_TILES, dropped);\n"
           "    round_kept(p[0], score, S_TILES, DTYPE);\n");
    } else {
      TEXT("    round_probabilities(p[0], score, S_TILES, DTYPE);\n");
    }
  }
  if (late_dp) {
    TEXT("    // The copy engine hands over dO");
    if (!v_in_regs) {
      TEXT(", and V with the first");
    }
    TEXT(".\n"
         "    wait_for_phase(do_full(shared, stage.index), stage.parity);\n");
    if (!v_in_regs) {
      TEXT("    if (n == 0)\n"
           "      wait_for_phase(v_full(shared), ");
      STRING(takes ? "work->before.keys % 2" : "0");
      TEXT(");\n");
    }
    TEXT("    start_dp(dp, ");
    STRING(v_in_regs ? "v, shared" : "shared, consumer");
    TEXT(", stage.index);\n");
  }
  if (halves) {
    TEXT("    start_dv(dv, p, shared, stage.index);\n"
         "    // All consumers' warps arrived: hands over their dS of the step before. The fence is here, as\n"
         "    // no stores of this warp's own are under way that it would wait for.\n"
         "    wait_for_phase(ds_full(shared, turn ^ 1), turn_parity ^ turn ^ 1);\n"
         "    fence_proxy_async();\n"
         "    wgmma_wait(1);\n");
  } else {
    TEXT("    wgmma_wait(0);\n");
  }
  TEXT("    wgmma_order_n");
  INTEGER(block_m);
  TEXT("(dp);\n");
  if (dropout) {
    TEXT("    differentiate_kept(dp, score, S_TILES, true, lse_log2 + BLOCK_M, args->score.dropout_scale);\n");
  } else {
    TEXT("    differentiate_scores(dp, score, S_TILES, true, lse_log2 + BLOCK_M);\n");
  }
  TEXT("    round_probabilities(ds[0], dp, S_TILES, DTYPE);\n"
       "\n");
  if (halves) {
    TEXT("    // All consumers arrived: hands over the place of dS of the step before last.\n"
         "    wait_for_phase(ds_empty(shared, turn), turn_parity ^ turn ^ 1);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < S_TILES * 2; ++i)\n"
         "      *(uint32_t *)(smem + (ds_place ^ i / 2 * 16) + turn * DS_BYTES + i % 2 * 8 * DS_ROW_BYTES) =\n"
         "          ds[0][i];\n"
         "    // The warp's lanes arrive and wait, so that one arrival stands for all: here and below.\n"
         "    __syncwarp();\n"
         "    arrive_once(ds_full(shared, turn));\n");
    if (keys_ahead) {
      TEXT("    if (n == work->steps - 1)\n"
           "      arrive_once(values_read());\n");
    }
    TEXT("    // dQ of the step before: nobody waits for the other's dS then. In the first step, of whatever\n"
         "    // lies there, for nothing: ptxas serializes products that a branch may leave out.\n"
         "    float dq[DQ_TILES * 4];\n"
         "    start_dq(dq, shared, ");
    STRING(keys_ahead ? "keys, " : "");
    TEXT("consumer, turn ^ 1);\n"
         "    start_dk(dk, ds, shared, stage.index);\n"
         "    wgmma_wait(1);\n"
         "    wgmma_order_n");
    INTEGER(hdim_v);
    TEXT("(dv);\n"
         "    wgmma_order_n64(dq);\n"
         "    __syncwarp();\n"
         "    arrive_once(ds_empty(shared, turn ^ 1));\n"
         "    if (n > 0)\n"
         "      hand_over_dq(args, smem, shared, consumer, dq_empty(shared, consumer), turn");
    STRING(chains ? " ^ 1" : "");
    TEXT(", work,\n"
         "                   step_before(step, work), dq, DQ_TILES);\n"
         "    wgmma_wait(0);\n"
         "    wgmma_order_n");
    INTEGER(hdim);
    TEXT("(dk);\n"
         "    arrive_once(step_empty(shared, stage.index));\n");
  } else {
    if (sums) {
      TEXT("    // ");
      STRING(own_dq ? "dQ's warps" : "The consumer whose turn it was");
      TEXT(" arrived: hands over the place of dS of the step before last.\n"
           "    wait_for_phase(ds_empty(shared, turn), turn_parity ^ 1);\n"
           "#pragma unroll\n"
           "    for (int i = 0; i < S_TILES * 2; ++i)\n"
           "      *(uint32_t *)(ds_place + turn * DS_BYTES + i % 2 * 8 * DS_ROW_BYTES + i / 2 * 16) =\n"
           "          ds[0][i];\n");
    }
    TEXT("    start_dv(dv, p, shared, stage.index);\n"
         "    start_dk(dk, ds, shared, stage.index);\n"
         "    // The warp's lanes arrive and wait, so that one arrival stands for all: here and below.\n"
         "    __syncwarp();\n");
    if (sums) {
      TEXT("    arrive_once(ds_full(shared, turn));\n");
    }
    TEXT("    wgmma_wait(0);\n"
         "    wgmma_order_n");
    INTEGER(hdim_v);
    TEXT("(dv);\n"
         "    wgmma_order_n");
    INTEGER(hdim);
    TEXT("(dk);\n"
         "    arrive_once(step_empty(shared, stage.index));\n");
    if (in_turn) {
      TEXT("    // Of the step before: nobody waits for the other's dS then.\n"
           "    if (n > 0 && turn != consumer)\n"
           "      add_dq(args, ");
      STRING(bulk ? "smem, " : "");
      TEXT("shared, turn ^ 1, turn_parity ^ turn ^ 1, work,\n"
           "             step_before(step, work));\n");
    }
  }
  TEXT("    stage = next_stage(stage, STAGES);\n"
       "    step = step_after(step, work);\n"
       "  }\n");
  if (halves) {
    TEXT("  if (work->steps > 0) {\n"
         "    const int last = ");
    STRING(takes ? "before + " : "");
    TEXT("work->steps - 1;\n"
         "    const int turn = last % 2;\n"
         "    float dq[DQ_TILES * 4];\n"
         "    wait_for_phase(ds_full(shared, turn), last / 2 % 2);\n"
         "    fence_proxy_async();\n"
         "    start_dq(dq, shared, ");
    STRING(keys_ahead ? "keys, " : "");
    TEXT("consumer, turn);\n"
         "    wgmma_wait(0);\n"
         "    wgmma_order_n64(dq);\n");
    if (keys_ahead) {
      TEXT("    __syncwarp();\n"
           "    arrive_once(keys_read(keys_place));\n");
    }
    TEXT("    hand_over_dq(args, smem, shared, consumer, dq_empty(shared, consumer), turn");
    STRING(chains ? "" : " ^ 1");
    TEXT(", work,\n"
         "                 step_before(step, work), dq, DQ_TILES);\n"
         "  }\n");
  } else if (in_turn) {
    TEXT("  const int last = ");
    STRING(takes ? "before + " : "");
    TEXT("work->steps - 1;\n"
         "  if (work->steps > 0 && last % 2 == consumer)\n"
         "    add_dq(args, ");
    STRING(bulk ? "smem, " : "");
    TEXT("shared, consumer, last / 2 % 2, work,\n"
         "           step_before(step, work));\n");
  }
  if (!keys_ahead) {
    TEXT("  // All consumers arrive and wait");
    if (own_dq) {
      TEXT(", and the warps of dQ arrive");
    }
    TEXT(": K, V and all steps have been read.\n");
    if (takes) {
      TEXT("  if (work->steps > 0) {\n"
           "    named_barrier_sync(2, NUM_THREADS - 128);\n"
           "    if (threadIdx.x == 128) // hands over the place of K and V\n"
           "      mbarrier_arrive(keys_empty());\n"
           "  }\n");
    } else {
      TEXT("  named_barrier_sync(2, NUM_THREADS - 128);\n");
    }
  }
  if (parts) {
    TEXT("  if (is_shared(args, work)) { // other blocks have other parts of the walk\n"
         "    const int tile = (work->key_begin + consumer * 64) / 16 + warp;\n"
         "    store_for_sum(args->dk_sum + key_sum_offset(args, work->part, work->batch, work->kv_head, tile,\n"
         "                                                HEAD_DIM),\n"
         "                  dk, K_TILES, lane);\n"
         "    store_for_sum(args->dv_sum + key_sum_offset(args, work->part, work->batch, work->kv_head, tile,\n"
         "                                                HEAD_DIM_V),\n"
         "                  dv, V_TILES, lane);\n"
         "    return;\n"
         "  }\n");
  } else if (sequence_parts) {
    TEXT("  if (is_direct(args))\n"
         "    clear_unseen_rows(args, work->at->q_batch, work->at->q_row, work->first_head, work->at->group,\n"
         "                      work->row_begin, work->row_end, HEAD_DIM, threadIdx.x - 128,\n"
         "                      CONSUMER_THREADS);\n"
         "  if (work->at->key_sum_tile >= 0) { // other blocks have other heads of the group\n"
         "    const int64_t tile = work->at->key_sum_tile + consumer * 4 + warp;\n"
         "    store_for_sum(args->dk_sum + tile * (HEAD_DIM / 8 * 128), dk, K_TILES, lane);\n"
         "    store_for_sum(args->dv_sum + tile * (HEAD_DIM_V / 8 * 128), dv, V_TILES, lane);\n"
         "    return;\n"
         "  }\n");
  }
  if (takes) {
    TEXT("  const int first_row = consumer * 64 + warp * 16;\n"
         "  const int valid = args->seqlen_k - work->key_begin - first_row;\n");
  } else {
    TEXT("  const int thread = threadIdx.x - 128;\n"
         "  const int valid = args->seqlen_k - work->key_begin;\n"
         "  unsigned char *const dv_tile = smem + BLOCK_N * DK_ROW_BYTES;\n");
  }
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  const int key_batch = work->at->k_batch, key_row = work->at->k_row + work->key_begin");
    STRING(takes ? " + first_row" : "");
    TEXT(";\n");
  } else {
    TEXT("  const int key_batch = work->batch, key_row = work->key_begin");
    STRING(takes ? " + first_row" : "");
    TEXT(";\n");
  }
  TEXT("  uint16_t *const dk_rows = (uint16_t *)args->dk + key_batch * args->dk_batch_stride +\n"
       "                            work->kv_head * args->dk_head_stride + key_row * args->dk_row_stride;\n"
       "  uint16_t *const dv_rows = (uint16_t *)args->dv + key_batch * args->dv_batch_stride +\n"
       "                            work->kv_head * args->dv_head_stride + key_row * args->dv_row_stride;\n");
  if (takes) {
    TEXT("  // From registers: the places of K, V and the steps are those of the next keys by now.\n"
         "  store_rows_of_warp(dk_rows, args->dk_row_stride, dk, K_TILES, K_TILES, valid, DTYPE,\n"
         "                     args->scale, args->accumulate, lane);\n"
         "  store_rows_of_warp(dv_rows, args->dv_row_stride, dv, V_TILES, V_TILES, valid, DTYPE, 1.0f,\n"
         "                     args->accumulate, lane);\n");
  } else {
    TEXT("  if (args->accumulate) {\n"
         "    load_gradient(smem, dk_rows, args->dk_row_stride, BLOCK_N, HEAD_DIM, valid, thread,\n"
         "                  CONSUMER_THREADS);\n"
         "    load_gradient(dv_tile, dv_rows, args->dv_row_stride, BLOCK_N, HEAD_DIM_V, valid, thread,\n"
         "                  CONSUMER_THREADS);\n"
         "    // All consumers arrive and wait: hands over what dK and dV are added to.\n"
         "    named_barrier_sync(1, CONSUMER_THREADS);\n"
         "  }\n"
         "  const int row = consumer * 64 + warp * 16;\n"
         "  round_gradient(smem + row * DK_ROW_BYTES, DK_ROW_BYTES, dk, 1, 0, K_TILES, DTYPE, args->scale,\n"
         "                 args->accumulate, lane);\n");
    if (dropout) {
      TEXT("  round_gradient(dv_tile + row * DV_ROW_BYTES, DV_ROW_BYTES, dv, 1, 0, V_TILES, DTYPE,\n"
           "                 args->score.dropout_scale, args->accumulate, lane);\n");
    } else {
      TEXT("  round_gradient(dv_tile + row * DV_ROW_BYTES, DV_ROW_BYTES, dv, 1, 0, V_TILES, DTYPE, 1.0f,\n"
           "                 args->accumulate, lane);\n");
    }
    TEXT("  // All consumers arrive and wait: hands over the tiles of dK and dV.\n"
         "  named_barrier_sync(1, CONSUMER_THREADS);\n"
         "  store_gradient(dk_rows, args->dk_row_stride, smem, BLOCK_N, HEAD_DIM, valid, thread,\n"
         "                 CONSUMER_THREADS);\n"
         "  store_gradient(dv_rows, args->dv_row_stride, dv_tile, BLOCK_N, HEAD_DIM_V, valid, thread,\n"
         "                 CONSUMER_THREADS);\n");
  }
  if (chains) {
    TEXT("  if (work->begins)\n"
         "    clear_unseen_rows(args, work->at->q_batch, work->at->q_row, work->first_head,\n"
         "                      args->heads_q / args->heads_kv, work->row_begin, work->row_end, HEAD_DIM,\n"
         "                      threadIdx.x - 128, CONSUMER_THREADS);\n");
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
    if (!takes) {
      TEXT("  __shared__ SequencePlace sequence;\n"
           "  __shared__ Work found;\n"
           "  if (threadIdx.x < 32)\n"
           "    write_work(&found, &sequence, &args.batch, blockIdx.x);\n");
    }
    TEXT("  // Tensor maps are where dense kernels have them.\n"
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
         "      mbarrier_init(ds_empty(shared, turn), ");
    STRING(halves ? "4 * CONSUMERS" : "4");
    TEXT(");\n"
         "    }\n");
    if (adders) {
      TEXT("    for (int place = 0; place < ");
      INTEGER(dq_places);
      TEXT("; ++place)\n"
           "      mbarrier_init(dq_full(shared, place), 4);\n"
           "    for (int i = 0; i < 2; ++i)\n"
           "      mbarrier_init(dq_empty(shared, i), 1);\n");
    }
  }
  TEXT("    for (int stage = 0; stage < STAGES; ++stage) {\n"
       "      mbarrier_init(q_full(shared, stage), 2);\n"
       "      mbarrier_init(do_full(shared, stage), 1);\n"
       "      mbarrier_init(step_empty(shared, stage), 4 * CONSUMERS);\n"
       "    }\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("    for (int i = 0; i < ");
    INTEGER(keys_ahead ? 3 : 2);
    TEXT(" + STAGES; ++i)\n"
         "      mbarrier_init(shared_address(&tail_barriers[i]), 1);\n");
  }
  if (prepares) {
    TEXT("    for (int i = 0; i < AHEAD_WARPS; ++i)\n"
         "      mbarrier_init(shared_address(&ahead_barriers[i]), 1);\n");
  }
  if (takes) {
    TEXT("    init_take_barriers(TAKE_READERS);\n");
    if (keys_ahead) {
      TEXT("    for (int place = 0; place < 2; ++place) {\n"
           "      mbarrier_init(keys_there(place), 1);\n"
           "      mbarrier_init(keys_read(place), 4 * CONSUMERS);\n"
           "    }\n"
           "    mbarrier_init(values_read(), 4 * CONSUMERS);\n");
    }
    TEXT("    works[1].before = {0, 0}; // of which the first work is what comes behind\n"
         "    works[1].steps = 0;\n");
  }
  TEXT("    fence_mbarrier_init();\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the barriers");
  if ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) && !takes) {
    TEXT(", and the work");
  }
  TEXT(".\n"
       "  __syncthreads();\n"
       "\n");
  if (takes) {
    TEXT("  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
         "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n"
         "  // bwd_delta may still run: all but what brings Q, K, V and dO wait for its end.\n"
         "  if (warp != 0)\n"
         "    griddepcontrol_wait();\n"
         "  griddepcontrol_launch_dependents();\n"
         "  if (warp == 0) {\n"
         "    if (args.");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "batch.bwd" : "bwd");
    TEXT(".taken != nullptr)\n"
         "      griddepcontrol_wait();\n"
         "    decrease_registers(PRODUCER_REGISTERS);\n"
         "    for (int turn = 0;; ++turn) {\n"
         "      // All other warps arrived: hands over the place of what was taken before last.\n"
         "      wait_for_phase(work_empty(turn % 2), turn / 2 % 2 ^ 1);\n");
    if (chains) {
      TEXT("      if (turn > 0 && goes_on(&works[turn % 2 ^ 1])) {\n"
           "        continue_work(&works[turn % 2], &sequences[turn % 2], &works[turn % 2 ^ 1], &args.batch);\n"
           "      } else {\n");
    }
    TEXT("      const int number =\n"
         "          take_work(&args.");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "batch.bwd" : "bwd");
    TEXT(", turn == 0);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("      write_work(&works[turn % 2], &sequences[turn % 2], &args.batch, number);\n");
      if (chains) {
        TEXT("      }\n");
      }
    } else {
      TEXT("      write_work(&works[turn % 2], &args.bwd, number);\n");
    }
    TEXT("      if (threadIdx.x == 0)\n"
         "        works[turn % 2].before = progress_behind(&works[turn % 2 ^ 1]);\n"
         "      // The warp's lanes arrive and wait, so that one arrival stands for all: here and below.\n"
         "      __syncwarp();\n"
         "      arrive_once(work_full(turn % 2));\n"
         "      if (works[turn % 2].key_begin < 0)\n"
         "        break;\n");
    if ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) || own_dq) {
      TEXT("      const Work *const work = &works[turn % 2];\n");
    } else {
      TEXT("      const Work copy = works[turn % 2], *const work = &copy;\n");
    }
    TEXT("      if (threadIdx.x == 0 && work->steps > 0)\n"
         "        produce(maps, shared, work);\n"
         "      __syncwarp();\n"
         "    }\n"
         "  } else if (warp == 1) {\n"
         "    decrease_registers(PRODUCER_REGISTERS);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("    uint32_t parities = 0;\n");
    }
    TEXT("    for (int turn = 0;; ++turn) {\n"
         "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
         "      if (works[turn % 2].key_begin < 0)\n"
         "        break;\n");
    if ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) || own_dq) {
      TEXT("      const Work *const work = &works[turn % 2];\n");
    } else {
      TEXT("      const Work copy = works[turn % 2], *const work = &copy;\n");
    }
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("      const attnpress_bwd_args bwd =\n"
           "          args_of_lengths(&args.batch, work->at->seqlen_q, work->at->seqlen_k);\n");
    } else {
      TEXT("      const attnpress_bwd_args &bwd = args.bwd;\n");
    }
    TEXT("      produce_rows(&bwd, smem, shared, work");
    STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? ", &parities" : "");
    TEXT(");\n"
         "      __syncwarp();\n"
         "      arrive_once(work_empty(turn % 2));\n"
         "    }\n"
         "  } else if (warp < 4) {\n"
         "    decrease_registers(PRODUCER_REGISTERS);\n");
    if (prepares) {
      TEXT("    uint32_t parity = 0;\n"
           "    for (int i = threadIdx.x - 64; i < ZERO_BYTES / 16; i += 64)\n"
           "      *(uint4 *)(smem + ZEROS_OFFSET + i * 16) = uint4{0, 0, 0, 0};\n"
           "    fence_proxy_async();\n"
           "    // Both warps arrive and wait: hands over the zeros.\n"
           "    named_barrier_sync(1, 64);\n");
    }
    TEXT("    for (int turn = 0;; ++turn) {\n"
         "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
         "      if (works[turn % 2].key_begin < 0)\n"
         "        break;\n");
    if ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) || !in_turn) {
      TEXT("      const Work *const work = &works[turn % 2];\n");
    } else {
      TEXT("      const Work copy = works[turn % 2], *const work = &copy;\n");
    }
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("      const attnpress_bwd_args bwd =\n"
           "          args_of_lengths(&args.batch, work->at->seqlen_q, work->at->seqlen_k);\n");
    } else {
      TEXT("      const attnpress_bwd_args &bwd = args.bwd;\n");
    }
    if (parts) {
      TEXT("      zero_ahead(&bwd, unit_of(&bwd, work), work->key_begin / BLOCK_N, HEAD_DIM, warp - 2, 2);\n");
    }
    if (prepares && own_dq) {
      TEXT("      prepare_ahead(&args, work, shared, warp - 2, &parity);\n");
    }
    if (parts && own_dq) {
      TEXT("      if (threadIdx.x == 64) { // for the warps of dQ, which have no registers for it\n"
           "        wait_for_zeros(&bwd, unit_of(&bwd, work), 2);\n"
           "        mbarrier_arrive(sum_ready(turn % 2));\n"
           "      }\n");
    }
    if (adders) {
      TEXT("      if (threadIdx.x == 64)\n"
           "        add_up(&bwd, shared, work, 0);\n");
      if (halves) {
        TEXT("      if (threadIdx.x == 96)\n"
             "        add_up(&bwd, shared, work, 1);\n");
      }
    }
    TEXT("      __syncwarp();\n"
         "      arrive_once(work_empty(turn % 2));\n"
         "    }\n");
    if (own_dq) {
      TEXT("  } else if (warp >= 4 + 4 * CONSUMERS) {\n"
           "    decrease_registers(DQ_REGISTERS);\n"
           "    for (int turn = 0;; ++turn) {\n"
           "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
           "      const Work *const work = &works[turn % 2];\n"
           "      if (work->key_begin < 0)\n"
           "        break;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
        TEXT("      const attnpress_bwd_args bwd =\n"
             "          args_of_lengths(&args.batch, work->at->seqlen_q, work->at->seqlen_k);\n");
      } else {
        TEXT("      const attnpress_bwd_args &bwd = args.bwd;\n");
      }
      TEXT("      sum_dq(&bwd, smem, shared, work, turn);\n"
           "      __syncwarp();\n"
           "      arrive_once(work_empty(turn % 2));\n"
           "    }\n"
           "    wait_for_additions(0);\n");
    }
    TEXT("  } else {\n"
         "    increase_registers(CONSUMER_REGISTERS);\n"
         "    for (int turn = 0;; ++turn) {\n"
         "      wait_for_phase(work_full(turn % 2), turn / 2 % 2); // the first warp hands over work\n"
         "      if (works[turn % 2].key_begin < 0)\n"
         "        break;\n"
         "      const Work work = works[turn % 2];\n");
    if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
      TEXT("      const attnpress_bwd_args bwd =\n"
           "          args_of_lengths(&args.batch, work.at->seqlen_q, work.at->seqlen_k);\n");
    } else {
      TEXT("      const attnpress_bwd_args &bwd = args.bwd;\n");
    }
    TEXT("      consume(&bwd, smem, shared, &work, warp / 4 - 1);\n"
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
         "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n"
         "  // bwd_delta may still run: all but what brings Q, K, V and dO wait for its end.\n"
         "  if (warp != 0)\n"
         "    griddepcontrol_wait();\n"
         "  griddepcontrol_launch_dependents();\n"
         "  if (warp < 4) {\n"
         "    decrease_registers(PRODUCER_REGISTERS);\n"
         "    if (threadIdx.x == 0 && work.steps > 0)\n"
         "      produce(maps, shared, &work);\n"
         "    if (warp == 1)\n"
         "      produce_rows(&bwd, smem, shared, &work);\n");
    if (parts) {
      TEXT("    if (warp >= 2)\n"
           "      zero_ahead(&bwd, unit_of(&bwd, &work), work.key_begin / BLOCK_N, HEAD_DIM, warp - 2, 2);\n");
    }
    if (parts && own_dq) {
      TEXT("    if (warp == 2) { // for the warps of dQ, which have no registers for it\n"
           "      if (threadIdx.x == 64)\n"
           "        wait_for_zeros(&bwd, unit_of(&bwd, &work), 2);\n"
           "      __syncwarp();\n"
           "      named_barrier_arrive(3, 128 + 32);\n"
           "    }\n");
    }
    if (adders) {
      TEXT("    if (threadIdx.x == 64)\n"
           "      add_up(&bwd, shared, &work, 0);\n");
      if (halves) {
        TEXT("    if (threadIdx.x == 96)\n"
             "      add_up(&bwd, shared, &work, 1);\n");
      }
    }
    if (own_dq) {
      TEXT("  } else if (warp >= 4 + 4 * CONSUMERS) {\n"
           "    decrease_registers(DQ_REGISTERS);\n"
           "    sum_dq(&bwd, smem, shared, &work);\n");
    }
    TEXT("  } else {\n"
         "    increase_registers(CONSUMER_REGISTERS);\n"
         "    consume(&bwd, smem, shared, &work, warp / 4 - 1);\n"
         "  }\n");
  }
  TEXT("}\n");
}
