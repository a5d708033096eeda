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
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  const int32_t q_in_regs = in->field[AP_ATTENTION_TILE_Q_IN_REGS];
  int32_t has_map = (mod_mask && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) ? 1 : 0;
  int32_t fixed_splits = (split && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) ? 1 : 0;
  int32_t ring_slabs = ((hdim + 63) / 64) + ((hdim_v + 63) / 64);
  int32_t ring_bytes = (((block_m * ((hdim + 63) / 64)) * 128) + (stages * (((block_n * ring_slabs) * 128) + 32))) + ((block_m / 64) * 16);
  int32_t short_rows = ((((fixed_splits && !decode) && (hdim == 64)) && (hdim_v == 64)) && (mask != AP_ATTENTION_MASK_WINDOW)) ? 1 : 0;
  int32_t keeps_here = (((fixed_splits && !decode) && !short_rows) && (smem_bytes > ring_bytes)) ? 1 : 0;
  int32_t adds_up = (fixed_splits && !few) ? 1 : 0;
  int32_t keeps_split = (adds_up && ((keeps_here || short_rows) || (decode && (hdim_v <= 128)))) ? 1 : 0;
  int32_t one_sequence = (decode && ready) ? 1 : 0;
  int32_t unit_streams = (fixed_splits && ((hdim_v > 128) || (mask == AP_ATTENTION_MASK_WINDOW))) ? 1 : 0;
  int32_t number_bytes = ((block_n + 63) / 64) * 1024;
  int32_t number_room = ((sequences == AP_ATTENTION_SEQUENCES_DENSE) || (((smem_bytes + number_bytes) + 1024) <= 232448)) ? 1 : 0;
  int32_t alibi_product = (((alibi && !softcap) && (hdim_v <= 128)) && number_room) ? 1 : 0;
  int32_t far_blocks = (((((((alibi_product && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) && !split) && (mask != AP_ATTENTION_MASK_WINDOW)) && (bias == AP_ATTENTION_BIAS_NONE)) && !dropout) && !mod_mask) && !q_in_regs) ? 1 : 0;
  int32_t outward = (far_blocks && (mask == AP_ATTENTION_MASK_FULL)) ? 1 : 0;
  int32_t shares_words = (((dropout && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) && !has_map) && !alibi) ? 1 : 0;
  int32_t bias_map = ((bias == AP_ATTENTION_BIAS_FP16) || (bias == AP_ATTENTION_BIAS_BF16)) ? 1 : 0;
  int32_t plain = ((!((((((softcap || alibi) || dropout) || mod_score) || mod_mask) || split) || q_in_regs) && (bias == AP_ATTENTION_BIAS_NONE)) && (mask != AP_ATTENTION_MASK_WINDOW)) ? 1 : 0;
  int32_t rows_once = (keeps_here || short_rows) ? 1 : 0;
  int32_t overwrites = ((keeps_here || short_rows) || (((plain && (hdim_v <= 128)) && (sequences != AP_ATTENTION_SEQUENCES_PAGED)) && !(long_rows && (hdim == 64)))) ? 1 : 0;
  int32_t behind_by_columns = (((hdim >= 64) && (hdim <= 96)) && (block_m >= 192)) ? 1 : 0;
  int32_t behind_of_ragged = ((((hdim == 128) && (hdim_v == 128)) && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) && !(long_rows && (mask == AP_ATTENTION_MASK_FULL))) ? 1 : 0;
  int32_t behind = (((plain && (behind_by_columns || behind_of_ragged)) || keeps_here) || short_rows) ? 1 : 0;
  int32_t skips_rows = (((sequences == AP_ATTENTION_SEQUENCES_RAGGED) && !split) && ((long_rows && (hdim == 128)) || (block_m == 256))) ? 1 : 0;
  int32_t offsets_ahead = (skips_rows && (block_m == 256)) ? 1 : 0;
  int32_t limits = (((((plain && (hdim == 64)) && (hdim_v == 64)) && ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) || ((sequences == AP_ATTENTION_SEQUENCES_DENSE) && (mask == AP_ATTENTION_MASK_CAUSAL)))) || short_rows) || keeps_here) ? 1 : 0;
  int32_t by_second = ((limits && overwrites) && !split) ? 1 : 0;
  int32_t q_ahead = ((offsets_ahead || (decode && (sequences != AP_ATTENTION_SEQUENCES_DENSE))) || short_rows) ? 1 : 0;
  int32_t values_apart = (((sequences == AP_ATTENTION_SEQUENCES_PAGED) || ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) && split)) || skips_rows) ? 1 : 0;
  int32_t gather_parts = ((sequences != AP_ATTENTION_SEQUENCES_PAGED) || !decode) ? 1 : (((hdim > 128) || (hdim_v > 128)) ? 2 : 4);
  int32_t ends_of_dense = (((sequences == AP_ATTENTION_SEQUENCES_DENSE) && !((((split || alibi) || dropout) || mod_score) || mod_mask)) && (bias == AP_ATTENTION_BIAS_NONE)) ? 1 : 0;
  int32_t last_is_full = (((mask == AP_ATTENTION_MASK_CAUSAL) && (((block_m % block_n) != 0) || (block_m == 192))) && (ends_of_dense || ((sequences != AP_ATTENTION_SEQUENCES_DENSE) && !split))) ? 1 : 0;
  int32_t forwards = ((skips_rows && (mask == AP_ATTENTION_MASK_CAUSAL)) && !(mod_score || mod_mask)) ? 1 : 0;
  int32_t balances = (forwards && last_is_full) ? 1 : 0;
  int32_t turns = ((block_m > 64) && !(forwards && (block_m == 192))) ? 1 : 0;
  int32_t ends_apart = (((mask == AP_ATTENTION_MASK_WINDOW) && !has_map) || forwards) ? 1 : 0;
  int32_t rows_ahead = (((mask == AP_ATTENTION_MASK_CAUSAL) && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) && !((((split || alibi) || (softcap && (hdim_v > 128))) || mod_score) || mod_mask)) ? 1 : 0;
  int32_t skips_warps = ((((sequences == AP_ATTENTION_SEQUENCES_RAGGED) && (hdim == 128)) && (hdim_v == 128)) && !((split || mod_score) || mod_mask)) ? 1 : 0;
  int32_t beside = (decode && ((block_n + hdim_v) <= 224)) ? 1 : 0;
  int32_t cut_last = ((ready && split) && (mask != AP_ATTENTION_MASK_WINDOW)) ? 1 : 0;
  int32_t stores_once = ((fixed_splits && decode) && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) ? 1 : 0;
  int32_t own_blocks = ((((mask == AP_ATTENTION_MASK_WINDOW) && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) && !split) && !has_map) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (few) {
    TEXT("// The forward pass in splits at fixed places, of as many keys each: partial outputs in fp32, which\n"
         "// flash_fwd_combine adds up.\n");
  } else if (fixed_splits) {
    TEXT("// The forward pass in splits at fixed places, of as many keys each, so that a row has the same bits\n"
         "// whatever else is in the call: partial outputs in fp32, which flash_fwd_combine adds up, or, where\n"
         "// there is enough to do without, a thread block itself, by the same steps.\n");
  } else if (split) {
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
       "// they walk over the same key blocks of BLOCK_N keys from ");
  STRING(forwards ? "left to right" : "right to left");
  TEXT(" (online softmax: Milakov\n"
       "// and Gimelshein 2018, Dao et al. 2022). A consumer's softmax of one key block runs under its own\n");
  if (turns || (block_m <= 64)) {
    TEXT("// product P V of the block before, and under the products of the other consumers, with which it\n"
         "// takes turns (Shah et al. 2024). A thread block works through many units of work, and their key\n"
         "// blocks are one stream: where a consumer's rows see a unit's first block, its product runs with\n"
         "// the last one of the unit before.\n");
  } else {
    TEXT("// product P V of the block before, and under the products of the other consumers (Shah et al.\n"
         "// 2024), with which it takes no turns: their rows see differently many key blocks, and who has none\n"
         "// would wait for the others. A thread block works through many units of work, and their key blocks\n"
         "// are one stream: where a consumer's rows see a unit's first block, its product runs with the last\n"
         "// one of the unit before.\n");
  }
  if (q_in_regs) {
    TEXT("// A consumer has Q of its unit in registers: products read K alone from shared memory, and the\n"
         "// place of Q is free for the next unit at once.\n");
  }
  TEXT("//\n"
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
       "\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("#include \"attnpress/args/ragged.h\"\n");
  } else {
    TEXT("#include \"attnpress/args/attention.h\"\n");
  }
  if (dropout) {
    TEXT("#include \"attnpress/device/dropout_rounded.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n");
  if ((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) {
    TEXT("#include \"attnpress/device/modify.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n");
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
    TEXT("#include \"attnpress/device/ptx_atom.cuh\"\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("#include \"attnpress/device/ptx_cp_async.cuh\"\n");
      if (decode) {
        TEXT("#include \"attnpress/device/ptx_cp_async_4.cuh\"\n");
      }
      TEXT("#include \"attnpress/device/ptx_cp_async_arrive.cuh\"\n");
    }
    if (decode) {
      TEXT("#include \"attnpress/device/ptx_cp_async_policy.cuh\"\n");
    }
    if (fixed_splits) {
      TEXT("#include \"attnpress/device/ptx_global.cuh\"\n");
    }
    TEXT("#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n");
  }
  if (q_in_regs) {
    TEXT("#include \"attnpress/device/ptx_ldmatrix.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_mbarrier.cuh\"\n");
  if (alibi_product) {
    TEXT("#include \"attnpress/device/ptx_opaque.cuh\"\n");
  }
  if (fixed_splits) {
    TEXT("#include \"attnpress/device/ptx_prefetch.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_tma.cuh\"\n");
  if (decode && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("#include \"attnpress/device/ptx_tma_policy.cuh\"\n");
  }
  if (one_sequence) {
    TEXT("#include \"attnpress/device/ptx_tma_prefetch.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/wgmma/ptx_wgmma_n");
  INTEGER(block_n);
  TEXT(".cuh\"\n");
  if (hdim_v != block_n) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(hdim_v);
    TEXT(".cuh\"\n");
  }
  TEXT("#include \"attnpress/device/score.cuh\"\n");
  if (mod_score || mod_mask) {
    TEXT("#include \"attnpress/device/score_mod.cuh\"\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("#include \"attnpress/device/sequence.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/softmax.cuh\"\n");
  if (limits) {
    TEXT("#include \"attnpress/device/softmax_limits.cuh\"\n");
  } else if (plain) {
    TEXT("#include \"attnpress/device/softmax_first.cuh\"\n");
  }
  if (decode) {
    TEXT("#include \"attnpress/device/softmax_row.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/tile.cuh\"\n");
  if (ready) {
    TEXT("#include \"attnpress/device/units.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/work.cuh\"\n"
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
  TEXT("constexpr bool SPLIT = ");
  STRING(split ? "true" : "false");
  TEXT(";\n"
       "constexpr bool DROPOUT = ");
  STRING(dropout ? "true" : "false");
  TEXT(";\n");
  if ((bias != AP_ATTENTION_BIAS_NONE) || (alibi && (sequences == AP_ATTENTION_SEQUENCES_DENSE))) {
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
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT("; // key blocks of K, and of V, in shared memory\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int PRODUCER_REGISTERS = ");
  INTEGER((beside && (sequences == AP_ATTENTION_SEQUENCES_PAGED)) ? 64 : ((decode && (sequences == AP_ATTENTION_SEQUENCES_PAGED)) ? 88 : (decode ? 56 : (few ? 120 : ((block_m >= 192) ? 32 : ((((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) || dropout) ? 40 : 24))))));
  TEXT("; // of a thread\n"
       "constexpr int CONSUMER_REGISTERS = ");
  INTEGER((beside && (sequences == AP_ATTENTION_SEQUENCES_PAGED)) ? 192 : (beside ? 200 : (decode ? 240 : ((block_m == 256) ? 112 : ((block_m == 192) ? 160 : ((((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) || dropout) ? 232 : 240))))));
  TEXT(";\n"
       "\n");
  if (decode) {
    TEXT("// The first rows of the one consumer: with the first of the two rows that each thread has of a\n"
         "// warp's 16, and the same bits as in the kernel of more rows.\n"
         "constexpr int CONSUMERS = 1;\n");
    if (fixed_splits) {
      TEXT("constexpr int HALVES = 1;\n");
    }
  } else {
    TEXT("constexpr int CONSUMERS = BLOCK_M / 64;\n");
  }
  if (alibi || !beside) {
    if (gather_parts > 1) {
      TEXT("constexpr int NUM_THREADS = 128 * (");
      INTEGER(1 + (gather_parts / 2));
      TEXT(" + CONSUMERS); // the last warpgroups gather, too\n");
    } else {
      TEXT("constexpr int NUM_THREADS = 128 * (1 + CONSUMERS);\n");
    }
  }
  TEXT("constexpr int K_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of Q K^T\n"
       "constexpr int V_STEPS = BLOCK_N / 16; // of 16 keys, of P V\n"
       "constexpr int S_TILES = BLOCK_N / 8; // of 8 keys\n");
  if (own_blocks) {
    TEXT("constexpr int KEY_ALIGNMENT = 16; // of the key that a unit's key blocks are counted from\n");
  }
  TEXT("constexpr int O_TILES = HEAD_DIM_V / 8; // of 8 columns\n");
  if (far_blocks) {
    TEXT("// Keys that ALiBi takes so many powers of two from are far: except at great scores their P are\n"
         "// zeros.\n"
         "constexpr float FAR = 140.0f;\n"
         "constexpr float LEAST_POWER = -127.0f; // of a P that is no zero\n");
  }
  if (bias_map) {
    TEXT("// Shared memory: Q of each consumer | ring of K | ring of V | ring of the bias | barriers. Matrices\n"
         "// are stored as slabs of 64 columns, rows of 128 bytes in the 128-byte swizzle; columns past the\n"
         "// head dim are zeros. The columns of the bias are keys.\n");
  } else {
    TEXT("// Shared memory: Q of each consumer | ring of K | ring of V | barriers. Matrices are stored as\n"
         "// slabs of 64 columns, rows of 128 bytes in the 128-byte swizzle; columns past the head dim are\n"
         "// zeros.");
    if (keeps_here || (short_rows && adds_up)) {
      TEXT(" Behind the barriers lies O of the splits that have been added up.");
    }
    TEXT("\n");
  }
  TEXT("constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);\n"
       "constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);\n"
       "constexpr int Q_SLAB_BYTES = ");
  INTEGER(decode ? 8 : 64);
  TEXT(" * 128;");
  STRING(decode ? " // of the first 8 rows, which a product reads eight times" : "");
  TEXT("\n"
       "constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V\n"
       "constexpr int Q_BYTES = K_SLABS * Q_SLAB_BYTES; // of one consumer\n");
  if (q_ahead) {
    TEXT("// Of Q of consumers, in the order of units, so that a unit's Q comes while the one before is read.\n");
    if (short_rows) {
      TEXT("// A unit has as many of them as a power of two, so that no place is found by a division.\n"
           "constexpr int Q_STEP = CONSUMERS == 3 ? 4 : CONSUMERS;\n"
           "constexpr int Q_PLACES = 2 * Q_STEP;\n");
    } else {
      TEXT("constexpr int Q_PLACES = 2 * CONSUMERS;\n");
    }
  }
  TEXT("constexpr int K_BYTES = K_SLABS * KEY_SLAB_BYTES; // of one key block\n"
       "constexpr int V_BYTES = V_SLABS * KEY_SLAB_BYTES; // of one key block\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("// K and V in pages: where slabs are whole, the slabs of 8 keys lie one after the other, and a copy\n"
         "// brings all slabs of a page's keys; else it brings one.\n"
         "constexpr int K_BOX_SLABS = HEAD_DIM % 64 == 0 ? K_SLABS : 1;\n"
         "constexpr int V_BOX_SLABS = HEAD_DIM_V % 64 == 0 ? V_SLABS : 1;\n"
         "constexpr int K_GROUP_BYTES = K_BOX_SLABS * 1024; // from 8 keys to the next\n"
         "constexpr int V_GROUP_BYTES = V_BOX_SLABS * 1024;\n"
         "constexpr int K_SLAB_STEP = K_BOX_SLABS > 1 ? 1024 : KEY_SLAB_BYTES; // from a slab to the next\n"
         "constexpr int V_SLAB_STEP = V_BOX_SLABS > 1 ? 1024 : KEY_SLAB_BYTES;\n");
  }
  TEXT("constexpr int K_OFFSET = ");
  STRING(q_ahead ? "Q_PLACES" : "CONSUMERS");
  TEXT(" * Q_BYTES;\n"
       "constexpr int V_OFFSET = K_OFFSET + STAGES * K_BYTES;\n");
  if (bias_map) {
    TEXT("constexpr int BIAS_SLABS = ceil_div(BLOCK_N, 64);\n"
         "constexpr int BIAS_SLAB_BYTES = BLOCK_M * 128;\n"
         "constexpr int BIAS_BYTES = BIAS_SLABS * BIAS_SLAB_BYTES; // of one key block\n"
         "constexpr int BIAS_OFFSET = V_OFFSET + STAGES * V_BYTES;\n"
         "constexpr int OTHER_BYTES = BIAS_OFFSET + 8 * (2 * CONSUMERS + 4 * STAGES);\n"
         "constexpr int BIAS_PLACES = (SMEM_BYTES - OTHER_BYTES) / (BIAS_BYTES + 16); // key blocks\n"
         "constexpr int BARRIER_OFFSET = BIAS_OFFSET + BIAS_PLACES * BIAS_BYTES;\n"
         "static_assert(SMEM_BYTES == OTHER_BYTES + BIAS_PLACES * (BIAS_BYTES + 16), \"shared memory\");\n"
         "static_assert(BIAS_PLACES > 0 && BLOCK_M <= 256, \"a key block of the bias is slabs of one copy\");\n");
  } else {
    TEXT("constexpr int BARRIER_OFFSET = V_OFFSET + STAGES * V_BYTES;\n"
         "static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (2 * ");
    STRING(q_ahead ? "Q_PLACES" : "CONSUMERS");
    TEXT(" + 4 * STAGES), \"shared memory\");\n");
    if (keeps_here) {
      TEXT("constexpr int KEPT_OFFSET = BARRIER_OFFSET + 8 * (2 * CONSUMERS + 4 * STAGES);\n"
           "static_assert(SMEM_BYTES >= KEPT_OFFSET + BLOCK_M * HEAD_DIM_V * 4, \"shared memory\");\n");
    } else if (short_rows && adds_up) {
      TEXT("constexpr int KEPT_OFFSET = BARRIER_OFFSET + 8 * (2 * Q_PLACES + 4 * STAGES);\n"
           "static_assert(SMEM_BYTES >= KEPT_OFFSET + BLOCK_M * (HEAD_DIM_V * 4 + 32), \"shared memory\");\n");
    }
  }
  TEXT("static_assert(");
  STRING(decode ? "BLOCK_M == 8" : "BLOCK_M % 64 == 0");
  TEXT(" && BLOCK_N % 16 == 0 && BLOCK_N <= 256, \"tile\");\n"
       "static_assert(KEY_SLAB_BYTES % 1024 == 0, \"atoms of the swizzle\");\n"
       "\n");
  if (alibi_product) {
    TEXT("// ALiBi of a key block beside the diagonal is one more step of Q K^T, in bf16 whatever Q and K are:\n"
         "// slopes, each the sum of three, times numbers of keys, which wgmma reads from here as it reads V.\n"
         "// Keys before all rows are numbered up to the last one of the block, 1 - BLOCK_N to 0 (rows 0 to 2\n"
         "// of 8), keys behind all rows from the first one on, 0 to 1 - BLOCK_N (rows 4 to 6): the nearest\n"
         "// keys, which count most, have the smallest products. The step's other 8 rows are these again,\n"
         "// times zeros.\n"
         "constexpr int NUMBER_BYTES = ceil_div(BLOCK_N, 64) * 1024;\n"
         "__shared__ __align__(1024) unsigned char key_numbers[NUMBER_BYTES];\n"
         "\n");
  }
  if (shares_words) {
    TEXT("// The words of dropout that a key block's keys have, of four pairs for each 16 keys. They come and\n"
         "// go with the key block's V.\n"
         "__shared__ uint4 dropout_keys[STAGES][BLOCK_N / 4];\n"
         "\n");
  }
  if (bias_map) {
    TEXT("// The tensor map of the bias stands behind the kernel's other arguments.\n"
         "__device__ __forceinline__ const attnpress_tensor_map *\n"
         "bias_map(const attnpress_fwd_sm90_args *args) {\n"
         "  return &((const attnpress_fwd_sm90_bias_args *)args)->bias;\n"
         "}\n"
         "\n"
         "// Whether there is one; else consumers load the bias.\n"
         "__device__ __forceinline__ bool has_bias_map(const attnpress_fwd_args *fwd) {\n"
         "  return fwd->score.bias_alignment == 2;\n"
         "}\n"
         "\n");
  }
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
    if (has_map) {
      TEXT("constexpr int BITS_WORDS = CONSUMERS * 128 * 2 * SEEN_WORDS; // of a known key block\n"
           "\n");
    }
    TEXT("// What it is given stands behind the kernel's own arguments.\n"
         "__device__ __forceinline__ const attnpress_mod_args *\n"
         "snippet_args_sm90(const attnpress_fwd_sm90_args *args) {\n"
         "  return &((const ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_DENSE) ? "attnpress_fwd_sm90_mod_args" : "attnpress_fwd_sm90_ragged_mod_args");
    TEXT(" *)args)->mod;\n"
         "}\n"
         "\n");
  }
  TEXT("// The barriers, by their shared addresses. At a \"full\" one the producer arrives once and names the\n"
       "// bytes, consumers wait, and it hands them what the copy engine has written. At an \"empty\" one each\n"
       "// warp that has read arrives, the producer waits, and it hands the space back.\n"
       "__device__ __forceinline__ uint32_t q_full(uint32_t shared, int ");
  STRING(q_ahead ? "place" : "consumer");
  TEXT(") {\n"
       "  return shared + BARRIER_OFFSET + 8 * ");
  STRING(q_ahead ? "place" : "consumer");
  TEXT(";\n"
       "}\n"
       "__device__ __forceinline__ uint32_t q_empty(uint32_t shared, int ");
  STRING(q_ahead ? "place" : "consumer");
  TEXT(") {\n"
       "  return q_full(shared, ");
  STRING(q_ahead ? "Q_PLACES + place" : "CONSUMERS + consumer");
  TEXT(");\n"
       "}\n"
       "__device__ __forceinline__ uint32_t k_full(uint32_t shared, int stage) {\n"
       "  return q_full(shared, 2 * ");
  STRING(q_ahead ? "Q_PLACES" : "CONSUMERS");
  TEXT(" + stage);\n"
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
       "\n");
  if (bias_map) {
    TEXT("__device__ __forceinline__ uint32_t bias_full(uint32_t shared, int place) {\n"
         "  return k_full(shared, 4 * STAGES + place);\n"
         "}\n"
         "__device__ __forceinline__ uint32_t bias_empty(uint32_t shared, int place) {\n"
         "  return bias_full(shared, BIAS_PLACES + place);\n"
         "}\n"
         "\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    if (split) {
      TEXT("enum { FIRST_SPLIT = 1, LAST_SPLIT = 2");
      STRING((one_sequence && (sequences == AP_ATTENTION_SEQUENCES_PAGED)) ? ", WITH_ENTRIES = 4" : "");
      STRING(one_sequence ? ", BEHIND_NONE = 8" : "");
      TEXT(" };\n"
           "\n"
           "// A unit of work: a row block of one head of a sequence, and one split of its keys.\n");
    } else {
      TEXT("// A unit of work: a row block of one head of a sequence.\n");
    }
    TEXT("struct Unit {\n"
         "  int position_begin; // first query position; -1: there are no more units\n"
         "  int tile_head;      // of heads_q / heads_per_tile\n"
         "  Range blocks;       // key blocks\n"
         "  int seqlen_q, seqlen_k;\n");
    if (last_is_full) {
      TEXT("  int position_end;   // behind the last query position\n");
    } else {
      TEXT("  int center;         // the key at which a window's query at position 0 stands\n");
    }
    TEXT("  int q_batch, q_row; // of position 0\n"
         "  int sequence;\n");
    if (split) {
      TEXT("  int split;    // among those of the sequence; -1: the thread block adds up all of the rows'\n"
           "  int ends;     // FIRST_SPLIT, LAST_SPLIT: of the splits of these rows that it computes\n");
    }
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  Pages pages;\n");
    } else {
      TEXT("  int k_batch, k_row; // of key 0\n");
    }
    if (offsets_ahead) {
      TEXT("  int64_t out, lse; // where those of its first row lie\n");
    }
    if (rows_ahead) {
      TEXT("  int key_end;              // of the first row: it sees the keys before\n"
           "  int block_end[CONSUMERS]; // rows of each consumer see no key from this key block on\n");
    }
    TEXT("};\n"
         "\n");
    if (forwards) {
      TEXT("// The key block at place `n` of a unit's walk; places are counted down. The last keys come last, so\n"
           "// that what masks them runs beside other consumers' products, and a unit begins without.\n"
           "__device__ __forceinline__ int block_at(const Unit *unit, int n) {\n"
           "  return unit->blocks.end - 1 - n;\n"
           "}\n"
           "\n");
    }
    TEXT("// Places of units that are known and not yet stored, each with two barriers: at its \"full\" one the\n"
         "// producer's third warp arrives, at its \"empty\" one each warp that has read the unit for the last\n"
         "// time. Behind them one where the producer's first warp arrives when it has asked for the unit's\n"
         "// last K; and a barrier a stage: V is there, before what follows a sequence's last key was made\n"
         "// zeros");
    STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? ", and, where keys are gathered, before products can see it; and likewise of K" : "");
    TEXT(".\n"
         "constexpr int UNITS = 4;\n"
         "__shared__ Unit units[UNITS];\n"
         "__shared__ uint64_t unit_barriers[3 * UNITS + ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "2 * " : "");
    TEXT("STAGES];\n");
    if (offsets_ahead) {
      TEXT("// Where the output of a warpgroup's rows lies, from that of its first one on.\n"
           "__shared__ int64_t row_offsets[64];\n"
           "static_assert(sizeof units + sizeof unit_barriers + sizeof row_offsets <= 1024, \"shared memory\");\n");
    } else {
      TEXT("static_assert(sizeof units + sizeof unit_barriers <= 1024, \"shared memory\");\n");
    }
    TEXT("__device__ __forceinline__ uint32_t unit_full(int place) {\n"
         "  return shared_address(&unit_barriers[place]);\n"
         "}\n"
         "__device__ __forceinline__ uint32_t unit_empty(int place) {\n"
         "  return shared_address(&unit_barriers[UNITS + place]);\n"
         "}\n"
         "__device__ __forceinline__ uint32_t unit_asked(int place) {\n"
         "  return shared_address(&unit_barriers[2 * UNITS + place]);\n"
         "}\n"
         "__device__ __forceinline__ uint32_t v_loaded(int stage) {\n"
         "  return shared_address(&unit_barriers[3 * UNITS + stage]);\n"
         "}\n"
         "\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("__device__ __forceinline__ uint32_t k_loaded(int stage) {\n"
           "  return v_loaded(STAGES + stage);\n"
           "}\n"
           "\n");
    }
    TEXT("// What stands behind the arguments of dense kernels.\n"
         "__device__ __forceinline__ const attnpress_fwd_sm90_ragged_args *\n"
         "ragged_args(const attnpress_fwd_sm90_args *args) {\n"
         "  return (const attnpress_fwd_sm90_ragged_args *)args;\n"
         "}\n"
         "\n"
         "// The first and the last of the rows from a position on, or up to one, past which rows are not\n"
         "// there.\n"
         "__device__ __forceinline__ Row row_at_begin(const attnpress_fwd_args *fwd, const Unit *unit,\n"
         "                                            int position) {\n");
    if (mask == AP_ATTENTION_MASK_WINDOW) {
      TEXT("  Row row = window_row(position + unit->center - fwd->score.window_center, &fwd->score,\n"
           "                       unit->seqlen_k);\n"
           "  row.position = position;\n"
           "  return row;\n");
    } else {
      TEXT("  return row_at(position, CAUSAL, unit->seqlen_q, unit->seqlen_k);\n");
    }
    TEXT("}\n"
         "\n"
         "__device__ __forceinline__ Row row_at_end(const attnpress_fwd_args *fwd, const Unit *unit,\n"
         "                                          int position_end) {\n"
         "  return row_at_begin(fwd, unit, min(position_end, unit->");
    STRING(last_is_full ? "position_end" : "seqlen_q");
    TEXT(") - 1);\n"
         "}\n"
         "\n"
         "// Offset of a row's lse.\n"
         "__device__ __forceinline__ int64_t lse_of_unit(const attnpress_fwd_sm90_args *args,\n"
         "                                               const Unit *unit, int head, int position) {\n"
         "  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;\n"
         "  return lse_of_sequence(ragged, {unit->q_row, 0}, unit->sequence, args->fwd.lse_batch_stride) +\n"
         "         head * args->fwd.lse_head_stride + position * ragged->lse_row_stride;\n"
         "}\n"
         "\n");
    if (!ready) {
      TEXT("// The place in the schedule's order of the sequence that unit `number` is of, if it is that of `at`\n"
           "// or one behind it. All lanes arrive; each looks at one sequence.\n"
           "__device__ __forceinline__ int find_sequence(const int32_t *first_unit, int batch, int number,\n"
           "                                             int at) {\n"
           "  for (;;) {\n"
           "    const int next = at + 1 + threadIdx.x % 32;\n"
           "    const bool passed = next < batch && first_unit[next] <= number;\n"
           "    const int count = __popc(__ballot_sync(0xffffffff, passed));\n"
           "    at += count;\n"
           "    if (count < 32)\n"
           "      return at;\n"
           "  }\n"
           "}\n"
           "\n");
    }
    if (ready) {
      TEXT("// Writes down unit `in_order` of a sequence");
      STRING(split ? ", with the key blocks of all splits" : "");
      TEXT(".\n");
    } else if (split) {
      TEXT("// Writes down unit `number`, of the sequence at place `at` of the order, with the key blocks of all\n"
           "// splits.\n");
    } else {
      TEXT("// Writes down unit `number`, of the sequence at place `at` of the order.\n");
    }
    TEXT("__device__ __forceinline__ void write_unit(Unit *unit, const attnpress_fwd_sm90_args *args,\n");
    if (ready) {
      TEXT("                                           const attnpress_sequence_units *of, int in_order) {\n");
    } else {
      TEXT("                                           int number, int at) {\n"
           "  const attnpress_sequence_units *of = &ragged_args(args)->sequences[at];\n"
           "  const int in_order = number - ragged_args(args)->first_unit[at];\n");
    }
    if (split) {
      TEXT("  const int of_split = of->blocks * args->tile_heads.value;\n"
           "  const int split = in_order / of_split;\n"
           "  unit->split = args->fwd.num_splits > 1 ? split : -1;\n"
           "  const HeadBlock found = find_head_block(of, in_order - split * of_split, args->tile_heads.value);\n");
    } else {
      TEXT("  const HeadBlock found = find_head_block(of, in_order, args->tile_heads.value);\n");
    }
    TEXT("  const int positions = CONSUMERS * args->warpgroup_positions;\n"
         "  unit->tile_head = found.head;\n");
    if (balances) {
      TEXT("  // Later rows see more keys, or no fewer, and the longest units come first. The row block that is\n"
           "  // not full is the first rows', which see fewest keys. Where heads share tiles, and row blocks are\n"
           "  // short, each has rows of all consumers or of all but one; those of fewer are the first.\n"
           "  if (args->fwd.heads_per_tile > 1) {\n"
           "    const int own = args->warpgroup_positions, all = ceil_div(of->seqlen_q, own);\n"
           "    const int whole = max(all - of->blocks * (CONSUMERS - 1), 0); // row blocks of all consumers\n"
           "    const int behind = found.block * CONSUMERS - max(found.block - whole, 0);\n"
           "    const int end = all - behind;\n"
           "    unit->position_begin =\n"
           "        max(end - (found.block < whole ? CONSUMERS : CONSUMERS - 1), 0) * own;\n"
           "    unit->position_end = min(end * own, of->seqlen_q);\n"
           "  } else {\n"
           "    const int behind = found.block * positions;\n"
           "    unit->position_begin = max(of->seqlen_q - behind - positions, 0);\n"
           "    unit->position_end = of->seqlen_q - behind;\n"
           "  }\n");
    } else if (mask == AP_ATTENTION_MASK_FULL) {
      TEXT("  unit->position_begin = found.block * positions;\n");
    } else if (last_is_full) {
      TEXT("  // Later rows see more keys, or no fewer, and the longest units come first. The row block that is\n"
           "  // not full is the first rows', which see fewest keys; where heads share tiles, and row blocks are\n"
           "  // short, it is the last one.\n"
           "  const bool shares = args->fwd.heads_per_tile > 1;\n"
           "  const int behind = found.block * positions;\n"
           "  unit->position_begin = shares ? (of->blocks - 1) * positions - behind\n"
           "                                : max(of->seqlen_q - behind - positions, 0);\n"
           "  unit->position_end = shares ? min(unit->position_begin + positions, of->seqlen_q)\n"
           "                              : of->seqlen_q - behind;\n");
    } else {
      TEXT("  // Later rows see more keys, or no fewer, and the longest units come first.\n"
           "  unit->position_begin = (of->blocks - 1 - found.block) * positions;\n");
    }
    TEXT("  unit->sequence = of->sequence;\n"
         "  unit->q_batch = of->q_batch;\n"
         "  unit->q_row = of->q_row;\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("  unit->pages = {ragged_args(args)->ragged.page_table + of->first_page, of->k_row,\n"
           "                 max(of->seqlen_k - 1, 0)};\n");
    } else {
      TEXT("  unit->k_batch = of->k_batch;\n"
           "  unit->k_row = of->k_row;\n");
    }
    TEXT("  unit->seqlen_q = of->seqlen_q;\n"
         "  unit->seqlen_k = of->seqlen_k;\n");
    if (!last_is_full) {
      TEXT("  unit->center = ragged_args(args)->ragged.window_top_left ? 0 : of->seqlen_k - of->seqlen_q;\n");
    }
    TEXT("  // Key blocks that no row sees are never loaded.\n"
         "  unit->blocks =\n"
         "      key_blocks(keys_of_some(row_at_begin(&args->fwd, unit, unit->position_begin),\n"
         "                              row_at_end(&args->fwd, unit, unit->position_begin + positions)),\n"
         "                 BLOCK_N);\n");
    if (rows_ahead) {
      TEXT("  unit->key_end = row_at_begin(&args->fwd, unit, unit->position_begin).key_end;\n"
           "#pragma unroll 1 // registers are few\n"
           "  for (int consumer = 0; consumer < CONSUMERS; ++consumer) {\n"
           "    const int begin = unit->position_begin + consumer * args->warpgroup_positions;\n"
           "    const Row first = row_at_begin(&args->fwd, unit, begin);\n"
           "    const Row last = row_at_end(&args->fwd, unit, begin + args->warpgroup_positions);\n"
           "    const int end = min(unit->blocks.end, key_blocks(keys_of_some(first, last), BLOCK_N).end);\n"
           "    const bool there = begin < unit->");
      STRING(last_is_full ? "position_end" : "seqlen_q");
      TEXT(";\n"
           "    unit->block_end[consumer] = there && end > 0 ? end : 0;\n"
           "  }\n");
    }
    if (offsets_ahead) {
      TEXT("  const int head = found.head * args->fwd.heads_per_tile;\n"
           "  unit->out = out_offset(&args->fwd, of->q_batch, head, of->q_row + unit->position_begin);\n"
           "  unit->lse = lse_of_unit(args, unit, head, unit->position_begin);\n");
    }
    TEXT("}\n");
    if (split) {
      TEXT("// Writes down the same, or, where a thread block adds up all splits of its rows, that of split\n"
           "// `split` of them, -1: the first. Returns the next split, or -1 after the last.\n"
           "__device__ __forceinline__ int write_split(Unit *unit, const attnpress_fwd_sm90_args *args,\n");
      if (ready) {
        TEXT("                                           const attnpress_sequence_units *of, int in_order,\n"
             "                                           int split) {\n"
             "  const int fixed = ragged_args(args)->ragged.fixed_split_blocks;\n"
             "  write_unit(unit, args, of, in_order);\n");
      } else {
        TEXT("                                           int number, int at, int split) {\n"
             "  const int fixed = ragged_args(args)->ragged.fixed_split_blocks;\n"
             "  write_unit(unit, args, number, at);\n");
      }
      TEXT("  const Range blocks = unit->blocks;\n"
           "  const bool one = unit->split >= 0;\n"
           "  unit->ends = split < 0 ? FIRST_SPLIT : 0;\n"
           "  if (split < 0)\n");
      if (ready) {
        TEXT("    split = one ? of->first_split + unit->split : blocks.begin / fixed;\n");
      } else {
        TEXT("    split = one ? ragged_args(args)->sequences[at].first_split + unit->split : blocks.begin / fixed;\n");
      }
      TEXT("  unit->blocks = split_fixed_blocks(blocks, split, fixed);\n"
           "  if (!one && (split + 1) * fixed < blocks.end)\n"
           "    return split + 1;\n"
           "  unit->ends |= LAST_SPLIT;\n"
           "  return -1;\n"
           "}\n");
    }
    if (ready) {
      if (split) {
        TEXT("// The splits of a sequence that are units of their own.\n"
             "__device__ __forceinline__ Splits splits_of(const attnpress_fwd_sm90_args *args, int seqlen_q,\n"
             "                                            int seqlen_k) {\n"
             "  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;\n"
             "  if (args->fwd.num_splits == 1)\n"
             "    return {0, 1};\n"
             "  return seen_splits(ragged, &args->fwd.score, ");
        STRING((mask == AP_ATTENTION_MASK_WINDOW) ? "true" : "false");
        TEXT(", seqlen_q, seqlen_k,\n"
             "                     ragged->fixed_split_blocks * BLOCK_N);\n"
             "}\n"
             "\n");
      }
      TEXT("// A sequence as the schedule kernel would hand it on.\n"
           "__device__ __forceinline__ attnpress_sequence_units\n"
           "describe_sequence(const attnpress_fwd_sm90_args *args, int sequence) {\n"
           "  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;\n"
           "  const Rows queries = query_rows(ragged, sequence, args->fwd.seqlen_q);\n"
           "  const int k_batch = key_batch(ragged, sequence);\n"
           "  const Rows keys = k_batch < 0 ? Rows{0, 0} : key_rows(ragged, sequence);\n"
           "  attnpress_sequence_units of;\n"
           "  of.sequence = sequence;\n"
           "  of.seqlen_q = queries.count;\n"
           "  of.seqlen_k = keys.count;\n"
           "  of.q_batch = ragged->cu_seqlens_q != nullptr ? 0 : sequence;\n"
           "  of.q_row = queries.begin;\n"
           "  of.k_batch = max(k_batch, 0);\n"
           "  of.k_row = keys.begin;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  of.first_page = first_page(ragged, sequence, of.k_batch);\n");
      }
      TEXT("  of.blocks = ceil_div(queries.count, CONSUMERS * args->warpgroup_positions);\n"
           "  of.section_heads = heads_of_section(keys.count, ragged_args(args)->walk_bytes,\n"
           "                                      ragged_args(args)->sharing, args->tile_heads.value);\n");
      if (split) {
        TEXT("  of.first_split = splits_of(args, queries.count, keys.count).first;\n");
      }
      TEXT("  return of;\n"
           "}\n"
           "\n");
      if (split) {
        TEXT("// The splits of a sequence, and those of them that are whole; keys of the one behind them.\n"
             "struct SplitCounts {\n"
             "  int all, whole, rest;\n"
             "};\n"
             "\n"
             "// Units of a sequence, and the splits among them.\n");
      } else {
        TEXT("// Units of a sequence.\n");
      }
      TEXT("__device__ __forceinline__ int count_units(const attnpress_fwd_sm90_args *args,\n"
           "                                           int sequence");
      STRING(split ? ", SplitCounts *splits" : "");
      TEXT(") {\n"
           "  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;\n"
           "  const int seqlen_q = query_rows(ragged, sequence, args->fwd.seqlen_q).count;\n"
           "  const int blocks = ceil_div(seqlen_q, CONSUMERS * args->warpgroup_positions);\n");
      if (split) {
        TEXT("  const int k_batch = key_batch(ragged, sequence);\n"
             "  const int seqlen_k = k_batch < 0 ? 0 : key_rows(ragged, sequence).count;\n"
             "  const int split_keys = ragged->fixed_split_blocks * BLOCK_N;\n"
             "  splits->all = splits_of(args, seqlen_q, seqlen_k).count;\n"
             "  splits->whole = seqlen_k / split_keys;\n"
             "  splits->rest = seqlen_k - splits->whole * split_keys;\n"
             "  return blocks * args->tile_heads.value * splits->all;\n");
      } else {
        TEXT("  return blocks * args->tile_heads.value;\n");
      }
      TEXT("}\n");
    }
  } else {
    TEXT("// A unit of work: a row block of one head and one split of its keys.\n"
         "struct Unit {\n"
         "  int position_begin; // first query position\n"
         "  int split;          // 0 where the keys are not split\n"
         "  int tile_head;      // of ceil(heads_q / heads_per_tile)\n"
         "  int batch;\n"
         "  Range blocks; // key blocks\n");
    if (outward) {
      TEXT("  int nearest; // the one that the last row's own key is in, or the nearest to it\n");
    }
    if (own_blocks) {
      TEXT("  int key_begin; // of key block 0\n");
    }
    if (has_map) {
      TEXT("  const uint32_t *map; // of the row block: what the snippet's mask leaves of them\n");
    }
    TEXT("};\n"
         "\n");
    if (has_map) {
      TEXT("// Places of units that are known and not yet stored, each with two barriers: at its \"full\" one the\n"
           "// producer's third warp arrives, at its \"empty\" one each warp that has read the unit for the last\n"
           "// time.\n"
           "constexpr int UNITS = 4;\n"
           "__shared__ Unit units[UNITS];\n"
           "__shared__ uint64_t unit_barriers[2 * UNITS];\n"
           "static_assert(sizeof units + sizeof unit_barriers <= 1024, \"shared memory\");\n"
           "\n"
           "__device__ __forceinline__ uint32_t unit_full(int place) {\n"
           "  return shared_address(&unit_barriers[place]);\n"
           "}\n"
           "__device__ __forceinline__ uint32_t unit_empty(int place) {\n"
           "  return shared_address(&unit_barriers[UNITS + place]);\n"
           "}\n"
           "\n");
    }
    TEXT("// The first and the last of the rows from a position on, or up to one, past which rows are not\n"
         "// there.\n"
         "__device__ __forceinline__ Row row_at_begin(const attnpress_fwd_args *fwd, int position) {\n");
    if (mask == AP_ATTENTION_MASK_WINDOW) {
      TEXT("  return window_row(position, &fwd->score, fwd->seqlen_k);\n");
    } else {
      TEXT("  return row_at(position, CAUSAL, fwd->seqlen_q, fwd->seqlen_k);\n");
    }
    TEXT("}\n"
         "\n"
         "__device__ __forceinline__ Row row_at_end(const attnpress_fwd_args *fwd, int position_end) {\n"
         "  return row_at_begin(fwd, min(position_end, fwd->seqlen_q) - 1);\n"
         "}\n"
         "\n");
    if (last_is_full) {
      TEXT("// Behind the last position of a unit. The last row block ends with the sequence, and the one that\n"
           "// is not full is the first, whose rows see fewest keys.\n"
           "__device__ __forceinline__ int position_end(const attnpress_fwd_sm90_args *args,\n"
           "                                            const Unit *unit) {\n"
           "  const int positions = CONSUMERS * args->warpgroup_positions;\n"
           "  return unit->position_begin > 0 ? unit->position_begin + positions\n"
           "                                  : args->fwd.seqlen_q - (args->fwd.row_blocks - 1) * positions;\n"
           "}\n"
           "\n");
    }
    if (has_map) {
      TEXT("// The unit of work of a number; false where there is none.\n"
           "__device__ __forceinline__ bool find_unit(Unit *unit, const attnpress_fwd_sm90_args *args,\n"
           "                                          int number) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n");
    } else {
      TEXT("// Finds this thread block's unit of work of round `round`; false where there is none. Causal units\n"
           "// differ in length, which the change of direction from round to round evens out; each group begins\n"
           "// with a new pair of rounds.\n"
           "__device__ __forceinline__ bool find_unit(Unit *unit, const attnpress_fwd_sm90_args *args,\n"
           "                                          int round) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int blocks = gridDim.x;\n"
           "  const int group = divide(round, &args->group_rounds);\n"
           "  const int group_round = round - group * args->group_rounds.value;\n"
           "  const int place = group_round % 2 == 0 ? blockIdx.x : blocks - 1 - blockIdx.x;\n"
           "  const int group_unit = group_round * blocks + place;\n"
           "  const int number = group * args->group_units + group_unit;\n");
    }
    TEXT("  const int section = divide(number, &args->section_units);\n"
         "  const int section_unit = number - section * args->section_units.value;\n"
         "  const int row_block = divide(section_unit, &args->section_heads);\n"
         "  int head = section_unit + (section - row_block) * args->section_heads.value;\n");
    if (has_map) {
      TEXT("  if (head >= args->heads)\n"
           "    return false;\n"
           "\n");
    } else {
      TEXT("  if (group_unit >= args->group_units || head >= args->heads)\n"
           "    return false;\n"
           "\n");
    }
    if (split) {
      TEXT("  const int split_head = divide(head, &args->num_splits);\n"
           "  unit->split = head - split_head * args->num_splits.value;\n"
           "  head = split_head;\n");
    } else {
      TEXT("  unit->split = 0;\n");
    }
    TEXT("  unit->batch = divide(head, &args->tile_heads);\n"
         "  unit->tile_head = head - unit->batch * args->tile_heads.value;\n"
         "  const int positions = CONSUMERS * args->warpgroup_positions;\n");
    if (mask == AP_ATTENTION_MASK_FULL) {
      TEXT("  unit->position_begin = row_block * positions;\n");
    } else if (last_is_full) {
      TEXT("  // Later rows see more keys, or no fewer, and the longest units come first.\n"
           "  unit->position_begin = max(fwd->seqlen_q - (row_block + 1) * positions, 0);\n");
    } else {
      TEXT("  // Later rows see more keys, or no fewer, and the longest units come first.\n"
           "  unit->position_begin = (fwd->row_blocks - 1 - row_block) * positions;\n");
    }
    if (own_blocks) {
      TEXT("  // Key blocks are counted from the first key that some row sees, or one shortly before it, so that\n"
           "  // they are as few as these keys fill.\n"
           "  const Range keys = keys_of_some(row_at_begin(fwd, unit->position_begin),\n"
           "                                  row_at_end(fwd, unit->position_begin + positions));\n"
           "  unit->key_begin = keys.begin / KEY_ALIGNMENT * KEY_ALIGNMENT;\n"
           "  unit->blocks = blocks_from(keys, unit->key_begin, BLOCK_N);\n");
    } else {
      TEXT("  // Key blocks that no row sees are never loaded.\n"
           "  unit->blocks = key_blocks(keys_of_some(row_at_begin(fwd, unit->position_begin),\n"
           "                                         row_at_end(fwd, ");
      STRING(last_is_full ? "position_end(args, unit)" : "unit->position_begin + positions");
      TEXT(")),\n"
           "                            BLOCK_N);\n");
    }
    if (outward) {
      TEXT("  const int last_key = unit->position_begin + positions - 1 + fwd->seqlen_k - fwd->seqlen_q;\n"
           "  unit->nearest = min(max(last_key, 0) / BLOCK_N, unit->blocks.end - 1);\n");
    }
    if (split) {
      TEXT("  unit->blocks = split_blocks(unit->blocks, unit->split, fwd->key_blocks_per_split);\n");
    }
    if (has_map) {
      TEXT("  // From the first to the last of which the snippet's mask leaves something.\n"
           "  unit->map = map_row(snippet_args_sm90(args), unit->batch, unit->tile_head,\n"
           "                      unit->position_begin / positions);\n"
           "  unit->blocks.end = block_before(unit->map, unit->blocks.end, unit->blocks.begin) + 1;\n"
           "  unit->blocks.begin = block_from(unit->map, unit->blocks.begin, unit->blocks.end);\n");
    }
    TEXT("  return true;\n"
         "}\n"
         "\n");
  }
  if (outward) {
    TEXT("// Key blocks are taken from the row block's last row outwards, one on either side in turn while\n"
         "// there are both: the nearest keys, which ALiBi leaves the greatest scores, come first, and those\n"
         "// whose P are zeros last. The key block at place `n`; places are counted down.\n"
         "__device__ __forceinline__ int block_at(const Unit *unit, int n) {\n"
         "  const int step = unit->blocks.end - 1 - n;\n"
         "  const int before = unit->nearest - unit->blocks.begin;\n"
         "  const int behind = unit->blocks.end - 1 - unit->nearest;\n"
         "  const int both = min(before, behind);\n"
         "  if (step > 2 * both)\n"
         "    return before > behind ? unit->nearest - (step - both) : unit->nearest + (step - both);\n"
         "  return step % 2 == 0 ? unit->nearest + step / 2 : unit->nearest - (step + 1) / 2;\n"
         "}\n"
         "\n"
         "// The place of a key block.\n"
         "__device__ __forceinline__ int place_of(const Unit *unit, int block) {\n"
         "  const int before = unit->nearest - unit->blocks.begin;\n"
         "  const int behind = unit->blocks.end - 1 - unit->nearest;\n"
         "  const int distance = block - unit->nearest;\n"
         "  const int step =\n"
         "      min(2 * abs(distance) - (distance < 0 ? 1 : 0), min(before, behind) + abs(distance));\n"
         "  return unit->blocks.end - 1 - step;\n"
         "}\n"
         "\n");
  }
  if (((own_blocks || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) || mod_score) {
    TEXT("// The first key of key block `n` of a unit.\n"
         "__device__ __forceinline__ int block_key(const Unit *unit, int n) {\n"
         "  return ");
    STRING(own_blocks ? "unit->key_begin + " : "");
    TEXT("n * BLOCK_N;\n"
         "}\n"
         "\n");
  }
  if (has_map) {
    TEXT("// The key block that a unit goes on with after key block `n`; before its first one after the last.\n"
         "__device__ __forceinline__ int block_after(const Unit *unit, int n) {\n"
         "  return block_before(unit->map, n, unit->blocks.begin);\n"
         "}\n"
         "\n");
  }
  TEXT("// ---- The producer ----\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("// Loads a key block of K or V, `slabs` slabs, into `target`, once `empty` is in `parity`: each lane\n"
         "// its boxes, of `box_slabs` slabs of `box_rows` rows of one page. `head`: where the map has the key\n"
         "// head. All lanes arrive.\n"
         "__device__ __forceinline__ void load_keys(uint32_t target, const attnpress_tensor_map *map,\n"
         "                                          uint32_t full, uint32_t empty, int parity, int slabs,\n"
         "                                          int box_slabs, int box_rows, PageRow box, int head) {\n"
         "  const int first = threadIdx.x % 32 * box_rows;\n"
         "  // The consumers' warps arrived; hands over the space of the key block that was here a round ago.\n"
         "  wait_for_phase(empty, parity);\n"
         "  if (threadIdx.x % 32 == 0)\n"
         "    mbarrier_arrive_expect(full, slabs * KEY_SLAB_BYTES);\n"
         "  // All lanes arrive and wait: the barrier knows of the bytes before any of them lands.\n"
         "  __syncwarp();\n");
    if (one_sequence) {
      TEXT("  griddepcontrol_wait(); // the unit may be a guess\n");
    }
    TEXT("  if (first >= BLOCK_N)\n"
         "    return;\n"
         "#pragma unroll 1\n"
         "  for (int slab = 0; slab < slabs; slab += box_slabs)\n");
    if (!decode) {
      TEXT("    tma_load_5d(target + slab * KEY_SLAB_BYTES + first * box_slabs * 128, map, full, slab * 64, 0,\n"
           "                head, box.row / 8, box.page);\n");
    } else {
      TEXT("    // Nobody reads it again, where parts are to stay in the L2 cache.\n"
           "    tma_load_5d_by_policy(target + slab * KEY_SLAB_BYTES + first * box_slabs * 128, map, full,\n"
           "                          slab * 64, 0, head, box.row / 8, box.page, evict_first_policy());\n");
    }
    TEXT("}\n"
         "\n"
         "// Keys in pages that have no boxes, of other sizes or behind padding: warps gather them, 16 bytes a\n"
         "// lane, four keys at a time. The GATHER_PARTS warps of K, and those of V, take groups of 8 keys in\n"
         "// turn. A lane finds every 32nd of its warp's keys.\n"
         "constexpr int GATHER_PARTS = ");
    INTEGER(gather_parts);
    TEXT(";\n"
         "constexpr int PART_GROUPS = ceil_div(BLOCK_N / 8, GATHER_PARTS); // of a warp, at the most\n"
         "constexpr int LOOKUPS = ceil_div(PART_GROUPS, 4);\n"
         "\n"
         "// Where a key lies, by its entry, in 16 bytes, of which a tensor has no more than 32 bits count.\n"
         "__device__ __forceinline__ uint32_t row_offset(const attnpress_ragged_args *ragged,\n"
         "                                               const Pages *pages, int key, int entry,\n"
         "                                               int64_t page_stride, int64_t row_stride) {\n"
         "  return (uint32_t)((clamped_page(ragged, entry) * page_stride +\n"
         "                     place_of_key(pages, ragged, key).row * row_stride) >>\n"
         "                    3);\n"
         "}\n"
         "\n");
    if (decode) {
      TEXT("// A warp of its own asks for entries of the table, of K and V, as many key blocks ahead as there\n"
           "// are places. At a place's \"full\" barrier its lanes arrive by their copies, and the warps that\n"
           "// gather wait; at its \"empty\" one these arrive.\n"
           "constexpr int ENTRY_PLACES = 4;\n");
      if (one_sequence) {
        TEXT("constexpr int LANE_ENTRIES = ceil_div(BLOCK_N, 32); // of a key block\n");
      }
      TEXT("__shared__ int entries[ENTRY_PLACES][2][BLOCK_N];\n"
           "__shared__ uint64_t entry_barriers[2 * ENTRY_PLACES];\n"
           "\n"
           "__device__ __forceinline__ uint32_t entries_full(int place) {\n"
           "  return shared_address(&entry_barriers[place]);\n"
           "}\n"
           "__device__ __forceinline__ uint32_t entries_empty(int place) {\n"
           "  return shared_address(&entry_barriers[ENTRY_PLACES + place]);\n"
           "}\n"
           "\n");
    }
    TEXT("// Where a warp that gathers is.\n"
         "struct Gathering {\n"
         "  int part; // of the warp\n");
    if (decode) {
      TEXT("  Stage place; // of the entries\n");
    } else {
      TEXT("  int entries[LOOKUPS]; // of the next key block\n");
    }
    TEXT("};\n"
         "\n"
         "// The lane's key of lookup `i`, in a key block.\n"
         "__device__ __forceinline__ int looked_up_key(const Gathering *gathering, int i) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  return ((i * 4 + lane / 8) * GATHER_PARTS + gathering->part) * 8 + lane % 8;\n"
         "}\n"
         "\n");
    if (!decode) {
      TEXT("// The lane's entry for a key, as it is in the table, so that nothing waits for it here.\n"
           "__device__ __forceinline__ int look_up(const attnpress_ragged_args *ragged, const Pages *pages,\n"
           "                                       int key, int64_t table) {\n"
           "  return pages->table[table + place_of_key(pages, ragged, key).page];\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ void look_up_block(Gathering *gathering,\n"
           "                                              const attnpress_ragged_args *ragged,\n"
           "                                              const Pages *pages, int n, int64_t table) {\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < LOOKUPS; ++i)\n"
           "    gathering->entries[i] =\n"
           "        look_up(ragged, pages, n * BLOCK_N + looked_up_key(gathering, i), table);\n"
           "}\n"
           "\n");
    }
    TEXT("// Gathers key block `n` of K or V (`of_values`), `slabs` slabs, into `target`, once `empty` is in\n"
         "// `parity`; each lane's copies arrive at `loaded`. Their first column in all rows is `from`.\n"
         "// Columns past the head dim become zeros; keys past the last one are that one. All lanes arrive.\n"
         "__device__ __forceinline__ void gather_keys(Gathering *gathering,\n"
         "                                            const attnpress_ragged_args *ragged,\n"
         "                                            const Unit *unit, int n, bool of_values,\n"
         "                                            uint32_t target, const uint16_t *from,\n"
         "                                            int64_t page_stride, int64_t row_stride, int slabs,\n"
         "                                            int group_bytes, int slab_step, int columns,\n"
         "                                            uint32_t loaded, uint32_t empty, int parity) {\n"
         "  const int lane = threadIdx.x % 32, chunk = lane % 8, row = lane / 8;\n");
    if (decode) {
      TEXT("  // The lanes that look up arrive by their copies; hands over entries.\n"
           "  wait_for_phase(entries_full(gathering->place.index), gathering->place.parity);\n"
           "  uint32_t offsets[LOOKUPS];\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < LOOKUPS; ++i) {\n"
           "    const int key = looked_up_key(gathering, i);\n"
           "    const int entry = entries[gathering->place.index][of_values][min_int(key, BLOCK_N - 1)];\n"
           "    offsets[i] =\n"
           "        row_offset(ragged, &unit->pages, n * BLOCK_N + key, entry, page_stride, row_stride);\n"
           "  }\n"
           "  // All lanes arrive and wait: they have read their entries.\n"
           "  __syncwarp();\n"
           "  arrive_once(entries_empty(gathering->place.index));\n"
           "  gathering->place = next_stage(gathering->place, ENTRY_PLACES);\n");
    }
    TEXT("  // The consumers' warps arrived; hands over the space of the key block that was here a round ago.\n"
         "  wait_for_phase(empty, parity);\n");
    if (one_sequence) {
      TEXT("  griddepcontrol_wait(); // the unit may be a guess\n");
    }
    TEXT("  target += row * 128 + (chunk ^ row) * 16;\n"
         "  from += chunk * 8;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < LOOKUPS; ++i) {\n");
    if (decode) {
      TEXT("    const uint32_t offset = offsets[i];\n");
    } else {
      TEXT("    const int key = n * BLOCK_N + looked_up_key(gathering, i);\n"
           "    const uint32_t offset =\n"
           "        row_offset(ragged, &unit->pages, key, gathering->entries[i], page_stride, row_stride);\n"
           "    gathering->entries[i] = look_up(ragged, &unit->pages, max(key - BLOCK_N, 0),\n"
           "                                    of_values ? ragged->page_table_v : 0);\n");
    }
    TEXT("#pragma unroll ");
    INTEGER(decode ? 4 : 1);
    TEXT(" // registers are few\n"
         "    for (int group = 0; group < min(PART_GROUPS - i * 4, 4); ++group) {\n"
         "      const int place = (i * 4 + group) * GATHER_PARTS + gathering->part;\n"
         "      if (place >= BLOCK_N / 8)\n"
         "        break;\n"
         "      const uint32_t to = target + place * group_bytes;\n"
         "#pragma unroll\n"
         "      for (int half = 0; half < 2; ++half) {\n"
         "        const uint16_t *at =\n"
         "            from + (uint64_t)__shfl_sync(0xffffffff, offset, group * 8 + half * 4 + row) * 8;\n"
         "#pragma unroll\n"
         "        for (int slab = 0; slab < slabs; ++slab)\n");
    if (!decode) {
      TEXT("          cp_async_16((to ^ half * 64) + half * 512 + slab * slab_step, at + slab * 64,\n"
           "                      slab * 64 + 64 <= columns || slab * 64 + chunk * 8 < columns ? 16 : 0);\n");
    } else {
      TEXT("          // Nobody reads it again, where parts are to stay in the L2 cache.\n"
           "          cp_async_16_by_policy(\n"
           "              (to ^ half * 64) + half * 512 + slab * slab_step, at + slab * 64,\n"
           "              slab * 64 + 64 <= columns || slab * 64 + chunk * 8 < columns ? 16 : 0,\n"
           "              evict_first_policy());\n");
    }
    TEXT("      }\n"
         "    }\n"
         "  }\n"
         "  cp_async_arrive(loaded);\n"
         "}\n"
         "\n");
  } else {
    TEXT("// Loads the key block of K or V that begins at `row`, `slabs` slabs, into `target`, once `empty` is\n"
         "// in `parity`.\n"
         "__device__ __forceinline__ void load_keys(uint32_t target, const attnpress_tensor_map *map,\n"
         "                                          uint32_t full, uint32_t empty, int parity, int slabs,\n"
         "                                          int row, int kv_head, int batch) {\n"
         "  // The consumers' warps arrived; hands over the space of the key block that was here a round ago.\n"
         "  wait_for_phase(empty, parity);\n"
         "  mbarrier_arrive_expect(full, slabs * KEY_SLAB_BYTES);\n");
    if (one_sequence) {
      TEXT("  griddepcontrol_wait(); // the unit may be a guess\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int slab = 0; slab < slabs; ++slab)\n");
    if (!decode || (sequences == AP_ATTENTION_SEQUENCES_DENSE)) {
      TEXT("    tma_load_4d(target + slab * KEY_SLAB_BYTES, map, full, slab * 64, row, kv_head, batch);\n");
    } else {
      TEXT("    // Nobody reads it again, where parts are to stay in the L2 cache.\n"
           "    tma_load_4d_by_policy(target + slab * KEY_SLAB_BYTES, map, full, slab * 64, row, kv_head,\n"
           "                          batch, evict_first_policy());\n");
    }
    TEXT("}\n"
         "\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// The keys that the last key block of a unit holds, if they are not all of the block: behind them\n"
         "// other rows follow, whose V is made zeros, as 0 times what they hold may be NaN.\n"
         "__device__ __forceinline__ int tail_keys(const Unit *unit) {\n"
         "  return unit->seqlen_k - (unit->blocks.end - 1) * BLOCK_N;\n"
         "}\n"
         "\n");
    if (decode) {
      TEXT("// Key blocks of K, and of V, that are on their way at once. With more, thread blocks that ask first\n"
           "// have all of theirs before others have any, and what else is read, code among it, waits behind\n"
           "// them.\n"
           "constexpr int KEY_BLOCKS_ASKED = ");
      INTEGER((((sequences == AP_ATTENTION_SEQUENCES_PAGED) && !ready) && (stages > 2)) ? 3 : 2);
      TEXT(";\n"
           "static_assert(KEY_BLOCKS_ASKED <= STAGES,\n"
           "              \"else a stage's phase after the next may pass for its next\");\n"
           "\n"
           "// How far what was asked for has come.\n"
           "struct Arrivals {\n"
           "  Stage stage; // of the key block that comes next\n"
           "  int asked;   // key blocks on their way\n"
           "};\n"
           "\n"
           "// Waits until fewer are on their way, and counts one more; `full`: the first stage's barrier.\n"
           "__device__ __forceinline__ void ask_for_one(Arrivals *arrivals, uint32_t full) {\n"
           "  if (arrivals->asked < KEY_BLOCKS_ASKED) {\n"
           "    ++arrivals->asked;\n"
           "    return;\n"
           "  }\n"
           "  // The copy engine hands over a key block, or who hands on what was gathered.\n"
           "  wait_for_phase(full + 8 * arrivals->stage.index, arrivals->stage.parity);\n"
           "  arrivals->stage = next_stage(arrivals->stage, STAGES);\n"
           "}\n"
           "\n");
    }
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("// Where the lane's box of key block `n` begins, by the table that lies `table` entries behind K's.\n"
           "// Boxes past the last key begin at that one, or before it: they are masked, and made zeros.\n"
           "__device__ __forceinline__ PageRow find_box(const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
           "                                            int n, int64_t table) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n");
      if (one_sequence) {
        TEXT("  const int place = unit->blocks.end - 1 - n, key = threadIdx.x % 32 * ragged->box_rows;\n"
             "  if (unit->ends & WITH_ENTRIES && place < ENTRY_PLACES) { // which are in their places\n"
             "    const int entry = entries[place][0][min(key, BLOCK_N - 1)];\n"
             "    return {clamped_page(&ragged->ragged, entry),\n"
             "            place_of_key(&unit->pages, &ragged->ragged, n * BLOCK_N + key).row};\n"
             "  }\n");
      }
      TEXT("  return page_of_key(&unit->pages, &ragged->ragged,\n"
           "                     n * BLOCK_N + threadIdx.x % 32 * ragged->box_rows, table);\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ bool has_boxes(const attnpress_fwd_sm90_args *args) {\n"
           "  return ragged_args(args)->box_rows > 0;\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ void load_k(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
           "                                       bool boxes, Gathering *gathering,\n"
           "                                       Stage *stage, const Unit *unit, int n, int kv_head) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  if (!boxes) {\n"
           "    gather_keys(gathering, &ragged->ragged, unit, n, false,\n"
           "                shared + K_OFFSET + stage->index * K_BYTES,\n"
           "                (const uint16_t *)args->fwd.k + kv_head * args->fwd.k_head_stride,\n"
           "                args->fwd.k_batch_stride, args->fwd.k_row_stride, K_SLABS, K_GROUP_BYTES,\n"
           "                K_SLAB_STEP, HEAD_DIM, k_loaded(stage->index), k_empty(shared, stage->index),\n"
           "                stage->parity ^ 1);\n"
           "    *stage = next_stage(*stage, STAGES);\n"
           "    return;\n"
           "  }\n"
           "  load_keys(shared + K_OFFSET + stage->index * K_BYTES, &args->k, k_full(shared, stage->index),\n"
           "            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS, K_BOX_SLABS,\n"
           "            ragged->box_rows, find_box(args, unit, n, 0), kv_head * ragged->k_head_step);\n"
           "  *stage = next_stage(*stage, STAGES);\n"
           "}\n"
           "\n"
           "// V of a block that is not whole comes by way of clear_tails().\n"
           "__device__ __forceinline__ void load_v(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
           "                                       bool boxes, Gathering *gathering,\n"
           "                                       Stage *stage, const Unit *unit, int n, int kv_head) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  const bool whole = n < unit->blocks.end - 1 || tail_keys(unit) >= BLOCK_N;\n"
           "  const uint32_t full = whole ? v_full(shared, stage->index) : v_loaded(stage->index);\n"
           "  if (!boxes) {\n"
           "    gather_keys(gathering, &ragged->ragged, unit, n, true,\n"
           "                shared + V_OFFSET + stage->index * V_BYTES,\n"
           "                (const uint16_t *)args->fwd.v + kv_head * args->fwd.v_head_stride,\n"
           "                args->fwd.v_batch_stride, args->fwd.v_row_stride, V_SLABS, V_GROUP_BYTES,\n"
           "                V_SLAB_STEP, HEAD_DIM_V, v_loaded(stage->index), v_empty(shared, stage->index),\n"
           "                stage->parity ^ 1);\n"
           "    *stage = next_stage(*stage, STAGES);\n"
           "    return;\n"
           "  }\n"
           "  load_keys(shared + V_OFFSET + stage->index * V_BYTES, &args->v, full,\n"
           "            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS, V_BOX_SLABS,\n"
           "            ragged->box_rows, find_box(args, unit, n, ragged->ragged.page_table_v),\n"
           "            kv_head * ragged->v_head_step);\n"
           "  *stage = next_stage(*stage, STAGES);\n"
           "}\n"
           "\n");
    } else {
      TEXT("__device__ __forceinline__ void load_k(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
           "                                       Stage *stage, const Unit *unit, int n, int kv_head) {\n"
           "  load_keys(shared + K_OFFSET + stage->index * K_BYTES, &args->k, k_full(shared, stage->index),\n");
      if (forwards) {
        TEXT("            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS,\n"
             "            unit->k_row + block_at(unit, n) * BLOCK_N, kv_head, unit->k_batch);\n");
      } else {
        TEXT("            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS, unit->k_row + n * BLOCK_N,\n"
             "            kv_head, unit->k_batch);\n");
      }
      TEXT("  *stage = next_stage(*stage, STAGES);\n"
           "}\n"
           "\n"
           "// V of a block that is not whole comes by way of clear_tails().\n"
           "__device__ __forceinline__ void load_v(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
           "                                       Stage *stage, const Unit *unit, int n, int kv_head) {\n"
           "  const bool whole = ");
      STRING(forwards ? "n > 0" : "n < unit->blocks.end - 1");
      TEXT(" || tail_keys(unit) >= BLOCK_N;\n"
           "  load_keys(shared + V_OFFSET + stage->index * V_BYTES, &args->v,\n"
           "            whole ? v_full(shared, stage->index) : v_loaded(stage->index),\n");
      if (forwards) {
        TEXT("            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS,\n"
             "            unit->k_row + block_at(unit, n) * BLOCK_N, kv_head, unit->k_batch);\n");
      } else {
        TEXT("            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS, unit->k_row + n * BLOCK_N,\n"
             "            kv_head, unit->k_batch);\n");
      }
      TEXT("  *stage = next_stage(*stage, STAGES);\n"
           "}\n"
           "\n");
    }
    TEXT("// Loads the consumers' rows of Q, each once its consumer has no more use for those of the unit\n"
         "// before. Rows past the sequence's end are others' or zeros, rows that no position fills keep what\n"
         "// was there: they make rows of S that are not stored.\n"
         "__device__ __forceinline__ void load_q(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
         "                                       ");
    STRING(q_ahead ? "uint32_t turn" : "int parity");
    TEXT(", const Unit *unit) {\n"
         "  const int positions = args->warpgroup_positions;\n");
    if (skips_rows) {
      TEXT("#pragma unroll 1 // registers are few\n");
    }
    if (q_ahead) {
      TEXT("  for (int consumer = 0; consumer < CONSUMERS; ++consumer, ++turn) {\n"
           "    const int place = turn % Q_PLACES;\n"
           "    // The warps of a consumer arrived after their last product with the Q that was here.\n"
           "    wait_for_phase(q_empty(shared, place), turn / Q_PLACES % 2 ^ 1);\n"
           "    const uint32_t full = q_full(shared, place);\n");
    } else {
      TEXT("  for (int consumer = 0; consumer < CONSUMERS; ++consumer) {\n"
           "    // The consumer's warps arrived after their last product with the Q that was here.\n"
           "    wait_for_phase(q_empty(shared, consumer), parity ^ 1);\n"
           "    const uint32_t full = q_full(shared, consumer);\n");
    }
    if (skips_rows) {
      TEXT("    if (unit->position_begin + consumer * positions >= unit->");
      STRING(last_is_full ? "position_end" : "seqlen_q");
      TEXT(") {\n"
           "      mbarrier_arrive(full); // the consumer has no rows, and asks for no products\n"
           "      continue;\n"
           "    }\n");
    }
    TEXT("    mbarrier_arrive_expect(full, K_SLABS * 128 * positions * args->fwd.heads_per_tile);\n"
         "#pragma unroll\n"
         "    for (int slab = 0; slab < K_SLABS; ++slab)\n"
         "      tma_load_4d(shared + ");
    STRING(q_ahead ? "place" : "consumer");
    TEXT(" * Q_BYTES + slab * Q_SLAB_BYTES, &args->q, full, slab * 64,\n"
         "                  unit->tile_head * args->fwd.heads_per_tile,\n"
         "                  unit->q_row + unit->position_begin + consumer * positions, unit->q_batch);\n"
         "  }\n"
         "}\n"
         "\n");
    if (split) {
      TEXT("// Asks for what is read first to come to the L2 cache: the lengths of the first sequences and, as\n"
           "// far as a line a lane of all thread blocks goes, the page table. Nothing is read, so that it need\n"
           "// not wait for what may yet write there. All lanes of a warp arrive.\n"
           "__device__ __forceinline__ void fetch_lengths(const attnpress_fwd_sm90_args *args) {\n"
           "  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  if (lane * 32 < args->fwd.batch) {\n"
           "    if (ragged->cu_seqlens_q != nullptr)\n"
           "      prefetch_l2(ragged->cu_seqlens_q + lane * 32);\n"
           "    if (ragged->cu_seqlens_k != nullptr)\n"
           "      prefetch_l2(ragged->cu_seqlens_k + lane * 32);\n"
           "    if (ragged->seqused_k != nullptr)\n"
           "      prefetch_l2(ragged->seqused_k + lane * 32);\n"
           "  }\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  const int64_t entries = ragged->page_indptr != nullptr\n"
             "                              ? ragged->table_pages\n"
             "                              : (ragged->kv_batches - 1) * ragged->page_table_stride +\n"
             "                                    ragged->table_pages;\n"
             "  const int64_t entry = ((int64_t)blockIdx.x * 32 + lane) * 32;\n"
             "  if (entry < entries) {\n"
             "    prefetch_l2(ragged->page_table + entry);\n"
             "    if (ragged->page_table_v != 0)\n"
             "      prefetch_l2(ragged->page_table + ragged->page_table_v + entry);\n"
             "  }\n");
      }
      TEXT("}\n"
           "\n");
    }
    if (!split) {
      TEXT("static_assert(STAGES > 1, \"the second key block of a unit is loaded before its Q\");\n"
           "\n");
    }
    if (one_sequence && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) {
      TEXT("// Has the copy engine bring a unit's first key block to the L2 cache, of K or V, while what ran\n"
           "// before may yet write it: the unit may be a guess. More would keep others from theirs.\n"
           "__device__ __forceinline__ void fetch_key_block(const attnpress_tensor_map *map, int slabs,\n"
           "                                                const Unit *unit, int kv_head) {\n"
           "  if (unit->blocks.begin >= unit->blocks.end)\n"
           "    return;\n"
           "#pragma unroll\n"
           "  for (int slab = 0; slab < slabs; ++slab)\n"
           "    tma_prefetch_4d(map, slab * 64, unit->k_row + (unit->blocks.end - 1) * BLOCK_N, kv_head,\n"
           "                    unit->k_batch);\n"
           "}\n"
           "\n");
    } else if (one_sequence) {
      TEXT("// Has a unit's first key block of K or V brought to the L2 cache, while what ran before may yet\n"
           "// write it, where its entries of the table are in their places: by a guess. All lanes of a warp\n"
           "// arrive, each with its boxes, or with its keys where they are gathered.\n"
           "__device__ __forceinline__ void fetch_key_block(const attnpress_fwd_sm90_args *args,\n"
           "                                                const Unit *unit, bool boxes,\n"
           "                                                const Gathering *gathering, bool of_values,\n"
           "                                                int kv_head) {\n"
           "  if (!(unit->ends & WITH_ENTRIES))\n"
           "    return;\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  const int n = unit->blocks.end - 1;\n"
           "  if (boxes) {\n"
           "    const PageRow box = find_box(args, unit, n, 0);\n"
           "    if (threadIdx.x % 32 * ragged->box_rows >= BLOCK_N)\n"
           "      return;\n"
           "    if (of_values)\n"
           "#pragma unroll\n"
           "      for (int slab = 0; slab < V_SLABS; slab += V_BOX_SLABS)\n"
           "        tma_prefetch_5d(&args->v, slab * 64, 0, kv_head * ragged->v_head_step, box.row / 8,\n"
           "                        box.page);\n"
           "    else\n"
           "#pragma unroll\n"
           "      for (int slab = 0; slab < K_SLABS; slab += K_BOX_SLABS)\n"
           "        tma_prefetch_5d(&args->k, slab * 64, 0, kv_head * ragged->k_head_step, box.row / 8,\n"
           "                        box.page);\n"
           "    return;\n"
           "  }\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < LOOKUPS; ++i) {\n"
           "    const int key = looked_up_key(gathering, i);\n"
           "    if (key >= BLOCK_N)\n"
           "      break;\n"
           "    const uint32_t offset = row_offset(\n"
           "        &ragged->ragged, &unit->pages, n * BLOCK_N + key, entries[0][of_values][key],\n"
           "        of_values ? args->fwd.v_batch_stride : args->fwd.k_batch_stride,\n"
           "        of_values ? args->fwd.v_row_stride : args->fwd.k_row_stride);\n"
           "    const uint16_t *row =\n"
           "        of_values ? (const uint16_t *)args->fwd.v + kv_head * args->fwd.v_head_stride\n"
           "                  : (const uint16_t *)args->fwd.k + kv_head * args->fwd.k_head_stride;\n"
           "    row += (uint64_t)offset * 8;\n"
           "#pragma unroll\n"
           "    for (int slab = 0; slab < (of_values ? V_SLABS : K_SLABS); ++slab)\n"
           "      prefetch_l2(row + slab * 64);\n"
           "  }\n"
           "}\n"
           "\n");
    }
    if (values_apart) {
      TEXT("// The producer's first ");
      STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "warp" : "thread");
      TEXT(": loads ");
      STRING(decode ? "K of each unit's key blocks" : "each unit's Q, and K of its key blocks");
      TEXT(".\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("// `boxes`: keys come in boxes of the tensor maps, else they are gathered, by several warps of which\n"
             "// this one is number `part`; known to the compiler.\n");
      }
      TEXT("__device__ __forceinline__ void produce(const attnpress_fwd_sm90_args *args, uint32_t shared");
      STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? ",\n                                        bool boxes, int part" : (one_sequence ? ",\n                                        bool hints" : ""));
      TEXT(") {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int group = fwd->heads_q / fwd->heads_kv / fwd->heads_per_tile; // tile heads of a key head\n"
           "  Stage k_stage = {0, 0}, place = {0, 0};\n");
      if (decode) {
        TEXT("  Arrivals arrivals = {{0, 0}, 0};\n");
      } else if (q_ahead) {
        TEXT("  uint32_t q_turn = 0; // of the first consumer\n");
      } else {
        TEXT("  int q_parity = 0;\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  Gathering gathering;\n"
             "  gathering.part = part;\n");
        if (decode) {
          TEXT("  gathering.place = {0, 0};\n");
        }
      }
      TEXT("  for (;; place = next_stage(place, UNITS)) {\n"
           "    // Hands over the unit.\n"
           "    wait_for_phase(unit_full(place.index), place.parity);\n"
           "    const Unit *unit = &units[place.index];\n"
           "    if (unit->position_begin < 0)\n"
           "      return;\n"
           "    if (unit->blocks.end > unit->blocks.begin) {\n"
           "      const int kv_head = unit->tile_head / group;\n"
           "      int n = unit->blocks.end");
      STRING(decode ? "" : " - 1");
      TEXT(";\n");
      if (one_sequence && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) {
        TEXT("      if (hints)\n"
             "        fetch_key_block(&args->k, K_SLABS, unit, kv_head);\n"
             "      hints = false;\n");
      }
      if (one_sequence && (sequences == AP_ATTENTION_SEQUENCES_PAGED)) {
        TEXT("      fetch_key_block(args, unit, boxes, &gathering, false, kv_head);\n"
             "      if (boxes && !(unit->ends & WITH_ENTRIES))\n"
             "        griddepcontrol_wait(); // the unit may be a guess\n");
      }
      if ((sequences == AP_ATTENTION_SEQUENCES_PAGED) && !decode) {
        TEXT("      if (!boxes)\n"
             "        look_up_block(&gathering, &ragged_args(args)->ragged, &unit->pages, n, 0);\n");
      }
      if (!decode) {
        TEXT("      load_k(args, shared, ");
        STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "boxes, &gathering, " : "");
        TEXT("&k_stage, unit, n, kv_head);\n");
      }
      if (split) {
        if (!decode) {
          TEXT("      if (");
          STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "threadIdx.x % 32 == 0 && " : "");
          TEXT("unit->ends & FIRST_SPLIT)\n"
               "        load_q(args, shared, ");
          STRING(q_ahead ? "q_turn" : "q_parity");
          TEXT(", unit);\n");
          if (q_ahead) {
            TEXT("      q_turn += unit->ends & FIRST_SPLIT ? Q_STEP : 0;\n");
          } else {
            TEXT("      q_parity ^= unit->ends & FIRST_SPLIT;\n");
          }
        }
      } else {
        if (!q_ahead) {
          TEXT("      // The place of Q is free later than that of the second key block.\n"
               "      if (--n >= unit->blocks.begin)\n"
               "        load_k(args, shared, ");
          STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "boxes, &gathering, " : "");
          TEXT("&k_stage, unit, n, kv_head);\n");
        }
        if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
          TEXT("      if (threadIdx.x % 32 == 0)\n"
               "        load_q(args, shared, q_parity, unit);\n");
        } else {
          TEXT("      load_q(args, shared, ");
          STRING(q_ahead ? "q_turn" : "q_parity");
          TEXT(", unit);\n");
        }
        if (q_ahead) {
          TEXT("      q_turn += CONSUMERS;\n");
        } else {
          TEXT("      q_parity ^= 1;\n");
        }
      }
      if (decode) {
        TEXT("      while (--n >= unit->blocks.begin) {\n"
             "        ask_for_one(&arrivals, k_full(shared, 0));\n"
             "        load_k(args, shared, ");
        STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "boxes, &gathering, " : "");
        TEXT("&k_stage, unit, n, kv_head);\n"
             "      }\n");
      } else {
        TEXT("      while (--n >= unit->blocks.begin)\n"
             "        load_k(args, shared, ");
        STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "boxes, &gathering, " : "");
        TEXT("&k_stage, unit, n, kv_head);\n");
      }
      TEXT("    }\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("    // All lanes arrive and wait: they have read the unit.\n"
             "    __syncwarp();\n"
             "    arrive_once(unit_empty(place.index));\n");
        if ((sequences == AP_ATTENTION_SEQUENCES_PAGED) && decode) {
          TEXT("    if (boxes)\n"
               "      arrive_once(unit_asked(place.index));\n");
        } else {
          TEXT("    arrive_once(unit_asked(place.index));\n");
        }
      } else {
        TEXT("    mbarrier_arrive(unit_empty(place.index));\n"
             "    mbarrier_arrive(unit_asked(place.index));\n");
      }
      TEXT("  }\n"
           "}\n"
           "\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("// The fourth one: V of the key blocks of each unit. It looks up pages of its own, and waits for\n"
             "// neither K nor Q.\n");
      } else {
        TEXT("// A thread of the fourth warp: V of the key blocks of each unit. It waits for neither K nor Q.\n");
      }
      TEXT("__device__ __forceinline__ void produce_values(const attnpress_fwd_sm90_args *args,\n"
           "                                               uint32_t shared");
      STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? ", bool boxes, int part" : (one_sequence ? ", bool hints" : ""));
      TEXT(") {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int group = fwd->heads_q / fwd->heads_kv / fwd->heads_per_tile; // tile heads of a key head\n"
           "  Stage v_stage = {0, 0}, place = {0, 0};\n");
      if (decode) {
        TEXT("  Arrivals arrivals = {{0, 0}, 0};\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  Gathering gathering;\n"
             "  gathering.part = part;\n");
        if (decode) {
          TEXT("  gathering.place = {0, 0};\n");
        }
      }
      TEXT("  for (;; place = next_stage(place, UNITS)) {\n"
           "    // Hands over the unit.\n"
           "    wait_for_phase(unit_full(place.index), place.parity);\n"
           "    const Unit *unit = &units[place.index];\n"
           "    if (unit->position_begin < 0)\n"
           "      return;\n"
           "    const int kv_head = unit->tile_head / group;\n");
      if (one_sequence && (sequences == AP_ATTENTION_SEQUENCES_PAGED)) {
        TEXT("    fetch_key_block(args, unit, boxes, &gathering, true, kv_head);\n"
             "    if (boxes && !(unit->ends & WITH_ENTRIES))\n"
             "      griddepcontrol_wait(); // the unit may be a guess\n");
      }
      if ((sequences == AP_ATTENTION_SEQUENCES_PAGED) && !decode) {
        TEXT("    if (!boxes && unit->blocks.end > unit->blocks.begin)\n"
             "      look_up_block(&gathering, &ragged_args(args)->ragged, &unit->pages, unit->blocks.end - 1,\n"
             "                    ragged_args(args)->ragged.page_table_v);\n");
      }
      if (one_sequence && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) {
        TEXT("    if (hints)\n"
             "      fetch_key_block(&args->v, V_SLABS, unit, kv_head);\n"
             "    hints = false;\n");
      }
      if (decode) {
        TEXT("    for (int n = unit->blocks.end - 1; n >= unit->blocks.begin; --n) {\n"
             "      ask_for_one(&arrivals, v_full(shared, 0));\n"
             "      load_v(args, shared, ");
        STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "boxes, &gathering, " : "");
        TEXT("&v_stage, unit, n, kv_head);\n"
             "    }\n");
      } else {
        TEXT("    for (int n = unit->blocks.end - 1; n >= unit->blocks.begin; --n)\n"
             "      load_v(args, shared, ");
        STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "boxes, &gathering, " : "");
        TEXT("&v_stage, unit, n, kv_head);\n");
      }
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("    // As above.\n"
             "    __syncwarp();\n"
             "    arrive_once(unit_empty(place.index));\n");
      } else {
        TEXT("    mbarrier_arrive(unit_empty(place.index));\n");
      }
      TEXT("  }\n"
           "}\n"
           "\n");
    } else {
      TEXT("// The producer's first thread: loads each unit's Q, and K and V of its key blocks in the order of\n"
           "// their use, K of one block before V of the block before.\n"
           "__device__ __forceinline__ void produce(const attnpress_fwd_sm90_args *args, uint32_t shared) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int group = fwd->heads_q / fwd->heads_kv / fwd->heads_per_tile; // tile heads of a key head\n"
           "  Stage k_stage = {0, 0}, v_stage = {0, 0}, place = {0, 0};\n"
           "  int q_parity = 0;\n"
           "  for (;; place = next_stage(place, UNITS)) {\n"
           "    // Hands over the unit.\n"
           "    wait_for_phase(unit_full(place.index), place.parity);\n"
           "    const Unit *unit = &units[place.index];\n"
           "    if (unit->position_begin < 0)\n"
           "      return;\n"
           "    if (unit->blocks.end > unit->blocks.begin) {\n"
           "      const int kv_head = unit->tile_head / group;\n"
           "      int n = unit->blocks.end - 1;\n"
           "      load_k(args, shared, &k_stage, unit, n, kv_head);\n"
           "      for (; n >= unit->blocks.begin; --n) {\n"
           "        if (n > unit->blocks.begin)\n"
           "          load_k(args, shared, &k_stage, unit, n - 1, kv_head);\n"
           "        // The place of Q is free later than that of the second key block.\n"
           "        if (n == unit->blocks.end - 1)\n"
           "          load_q(args, shared, q_parity, unit);\n"
           "        if (n == unit->blocks.begin)\n"
           "          mbarrier_arrive(unit_asked(place.index));\n"
           "        load_v(args, shared, &v_stage, unit, n, kv_head);\n"
           "      }\n"
           "      q_parity ^= 1;\n"
           "    } else {\n"
           "      mbarrier_arrive(unit_asked(place.index));\n"
           "    }\n"
           "    mbarrier_arrive(unit_empty(place.index));\n"
           "  }\n"
           "}\n"
           "\n");
    }
    if (one_sequence) {
      TEXT("// A unit of a batch of one sequence whose rows are one block, from its number: all that is known of\n"
           "// it before the sequence's length is.\n"
           "struct UnitOfOne {\n"
           "  int split, tile_head;\n"
           "};\n"
           "\n"
           "// Whether units are splits of sequences all of whose rows are one block, and of which the lengths\n"
           "// alone are on the device, so that they can be guessed. Of one sequence a thread block's next units\n"
           "// are a grid further on; of up to 32 a lane has one.\n"
           "__device__ __forceinline__ bool has_lengths_alone(const attnpress_fwd_sm90_args *args) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  return args->fwd.batch <= 32 && args->fwd.num_splits > 1 && ragged->ready == nullptr &&\n"
           "         ragged->ticket == nullptr && has_key_count_alone(&ragged->ragged) &&\n"
           "         ragged->ragged.rows_q <= CONSUMERS * args->warpgroup_positions;\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ UnitOfOne unit_of_one(const attnpress_fwd_sm90_args *args, int number) {\n"
           "  const int split = number / args->tile_heads.value;\n"
           "  return {split, number - split * args->tile_heads.value};\n"
           "}\n"
           "\n"
           "// Writes down such a unit of a sequence of so many keys; false where there is none, as its split\n"
           "// has no keys.\n"
           "__device__ __forceinline__ bool write_unit_of_one(Unit *unit, const attnpress_fwd_sm90_args *args,\n"
           "                                                  UnitOfOne of, int seqlen_q, int seqlen_k) {\n"
           "  const attnpress_ragged_args *batch = &ragged_args(args)->ragged;\n"
           "  const int fixed = batch->fixed_split_blocks;\n"
           "  if (of.split > 0 && of.split * fixed * BLOCK_N >= seqlen_k)\n"
           "    return false;\n"
           "  unit->position_begin = 0;\n"
           "  unit->tile_head = of.tile_head;\n"
           "  unit->seqlen_q = seqlen_q;\n"
           "  unit->seqlen_k = seqlen_k;\n"
           "  unit->center = batch->window_top_left ? 0 : seqlen_k - seqlen_q;\n"
           "  unit->q_batch = unit->q_row = unit->sequence = 0;\n"
           "  unit->split = of.split;\n"
           "  unit->ends = FIRST_SPLIT | LAST_SPLIT;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  unit->pages = {batch->page_table, 0, max(seqlen_k - 1, 0)};\n");
      } else {
        TEXT("  unit->k_batch = unit->k_row = 0;\n");
      }
      TEXT("  unit->blocks =\n"
           "      split_fixed_blocks(key_blocks(keys_of_some(row_at_begin(&args->fwd, unit, 0),\n"
           "                                                 row_at_end(&args->fwd, unit, seqlen_q)),\n"
           "                                    BLOCK_N),\n"
           "                         of.split, fixed);\n"
           "  return true;\n"
           "}\n"
           "\n"
           "// What was read before what ran before has ended, which may yet write it.\n"
           "struct Guess {\n"
           "  int seqlen_k; // by which the first unit has been handed over; -1: it has not\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  bool with_entries;                       // of the table, in their places\n"
             "  int entries[ENTRY_PLACES][LANE_ENTRIES]; // the lane's\n");
      }
      TEXT("};\n"
           "\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("// Whether entries of the table that were guessed are handed over with the first unit, if it is a\n"
             "// whole split: those of its last key blocks, of as many as there are places. Those up to the bound\n"
             "// of the lengths stand in the table.\n"
             "__device__ __forceinline__ bool guesses_entries(const attnpress_fwd_sm90_args *args) {\n"
             "  return ragged_args(args)->ragged.page_table_v == 0;\n"
             "}\n"
             "\n"
             "// Where the lane's entry of such a key stands.\n"
             "__device__ __forceinline__ const int32_t *entry_of_whole(const attnpress_fwd_sm90_args *args,\n"
             "                                                         UnitOfOne first, int place, int i) {\n"
             "  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;\n"
             "  const int n = (first.split + 1) * ragged->fixed_split_blocks - 1 - place;\n"
             "  const Pages pages = {ragged->page_table, 0, max(args->fwd.seqlen_k - 1, 0)};\n"
             "  const int key = min_int(i * 32 + threadIdx.x % 32, BLOCK_N - 1);\n"
             "  return pages.table + place_of_key(&pages, ragged, max(n, 0) * BLOCK_N + key).page;\n"
             "}\n"
             "\n");
      }
      TEXT("// Writes down the first unit by the length that stands there before what ran before has ended, and\n"
           "// hands it over, so that no read stands between that end and its keys. One without keys is none: no\n"
           "// keys would be waited for, and it might be stored before that end. All lanes of a warp arrive.\n"
           "__device__ __forceinline__ Guess guess_unit_of_one(const attnpress_fwd_sm90_args *args,\n"
           "                                                   UnitOfOne first) {\n"
           "  const attnpress_ragged_args *batch = &ragged_args(args)->ragged;\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  const int used = (int)load_relaxed((const uint32_t *)batch->seqused_k);\n"
           "  Guess guess;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  const bool entries_too = guesses_entries(args);\n"
             "  if (entries_too)\n"
             "#pragma unroll\n"
             "    for (int place = 0; place < ENTRY_PLACES; ++place)\n"
             "#pragma unroll\n"
             "      for (int i = 0; i < LANE_ENTRIES; ++i)\n"
             "        guess.entries[place][i] =\n"
             "            (int)load_relaxed((const uint32_t *)entry_of_whole(args, first, place, i));\n");
      }
      TEXT("  const int seqlen_k = keys_by_count(batch, used).count;\n"
           "  const int seqlen_q = batch->rows_q <= args->fwd.seqlen_q ? batch->rows_q : 0;\n"
           "  bool there = false;\n"
           "  if (lane == 0 && seqlen_q > 0 && seqlen_k > 0)\n"
           "    there = write_unit_of_one(&units[0], args, first, seqlen_q, seqlen_k);\n"
           "  guess.seqlen_k = __shfl_sync(0xffffffff, there ? seqlen_k : -1, 0);\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  const int fixed = batch->fixed_split_blocks;\n"
             "  guess.with_entries = entries_too && guess.seqlen_k >= (first.split + 1) * fixed * BLOCK_N;\n"
             "  if (guess.with_entries) {\n"
             "#pragma unroll\n"
             "    for (int place = 0; place < ENTRY_PLACES; ++place) {\n"
             "      if (place >= fixed)\n"
             "        break;\n"
             "#pragma unroll\n"
             "      for (int i = 0; i < LANE_ENTRIES; ++i)\n"
             "        if (i * 32 + lane < BLOCK_N)\n"
             "          entries[place][0][i * 32 + lane] = entries[place][1][i * 32 + lane] =\n"
             "              guess.entries[place][i];\n"
             "      mbarrier_arrive(entries_full(place));\n"
             "    }\n"
             "    if (lane == 0)\n"
             "      units[0].ends |= WITH_ENTRIES;\n"
             "  }\n"
             "  // All lanes arrive and wait: boxes' warps, which wait for the unit alone, find entries there.\n"
             "  __syncwarp();\n");
      }
      TEXT("  if (lane == 0 && there)\n"
           "    mbarrier_arrive(unit_full(0));\n"
           "  return guess;\n"
           "}\n"
           "\n"
           "// Whether what was guessed is so. All lanes of a warp arrive.\n"
           "__device__ __forceinline__ bool guess_holds(const attnpress_fwd_sm90_args *args, UnitOfOne first,\n"
           "                                            const Guess *guess, int seqlen_k) {\n"
           "  bool holds = guess->seqlen_k == seqlen_k;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  if (guess->with_entries) {\n"
             "#pragma unroll\n"
             "    for (int place = 0; place < ENTRY_PLACES; ++place)\n"
             "#pragma unroll\n"
             "      for (int i = 0; i < LANE_ENTRIES; ++i)\n"
             "        holds &= guess->entries[place][i] == *entry_of_whole(args, first, place, i);\n"
             "  }\n");
      }
      TEXT("  return __ballot_sync(0xffffffff, !holds) == 0;\n"
           "}\n"
           "\n"
           "// find_units() of such a batch. The first unit, if it was guessed, has been handed\n"
           "// over. If the guess does not hold, it is computed once more, and stored by the same threads to the\n"
           "// same place. All lanes of a warp arrive.\n"
           "__device__ __forceinline__ void find_units_of_one(const attnpress_fwd_sm90_args *args,\n"
           "                                                  UnitOfOne next, const Guess *guess) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  const SequenceRows rows =\n"
           "      rows_of_key_count(&args->fwd, &ragged->ragged, 0, ragged->ragged.seqused_k[0]);\n"
           "  const int seqlen_q = rows.queries.count, seqlen_k = rows.keys.count;\n"
           "  const int split_keys = ragged->ragged.fixed_split_blocks * BLOCK_N;\n"
           "  Stage place = {guess->seqlen_k >= 0 ? 1 : 0, 0};\n"
           "  int number = blockIdx.x;\n"
           "  if (guess->seqlen_k >= 0 && guess_holds(args, next, guess, seqlen_k)) {\n"
           "    number += gridDim.x;\n"
           "    next = unit_of_one(args, number);\n"
           "  }\n"
           "  if (threadIdx.x % 32 != 0)\n"
           "    return;\n"
           "  for (; seqlen_q > 0; number += gridDim.x) {\n"
           "    // All who read the unit that was here arrived; hands over the place.\n"
           "    wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n"
           "    if (!write_unit_of_one(&units[place.index], args, next, seqlen_q, seqlen_k))\n"
           "      break;\n"
           "    mbarrier_arrive(unit_full(place.index));\n"
           "    place = next_stage(place, UNITS);\n"
           "    next = unit_of_one(args, number + gridDim.x);\n"
           "  }\n"
           "  // Splits that are units of their own: for the combine kernel.\n"
           "  if (blockIdx.x == 0 && ragged->sequence_splits != nullptr)\n"
           "    ragged->sequence_splits[0] = max(ceil_div(seqlen_k, split_keys), 1);\n"
           "  wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n"
           "  units[place.index].position_begin = -1;\n"
           "  units[place.index].ends = 0;\n"
           "  mbarrier_arrive(unit_full(place.index));\n"
           "}\n"
           "\n"
           "// The lane's sequence: its keys, and the numbers of its units, of whole splits and of one that is\n"
           "// cut short or has no keys.\n"
           "struct FewSequences {\n"
           "  int seqlen_k;\n"
           "  int whole_begin, whole_end, cut_begin, cut_end;\n"
           "};\n"
           "\n"
           "// Whole splits come first, a sequence after the other, then those that are cut short, the longest\n"
           "// first. `used`: keys of the lane's sequence. All lanes arrive.\n"
           "__device__ __forceinline__ FewSequences order_few(const attnpress_fwd_sm90_args *args, int used) {\n"
           "  const attnpress_ragged_args *batch = &ragged_args(args)->ragged;\n"
           "  const int lane = threadIdx.x % 32, count = args->fwd.batch, heads = args->tile_heads.value;\n"
           "  const int split_keys = batch->fixed_split_blocks * BLOCK_N;\n"
           "  FewSequences few;\n"
           "  few.seqlen_k = lane < count ? keys_by_count(batch, used).count : 0;\n"
           "  const int whole = few.seqlen_k / split_keys;\n"
           "  const int rest = few.seqlen_k - whole * split_keys;\n"
           "  const int own = whole * heads, sum = sum_up_lanes(own);\n"
           "  const bool cut = lane < count && (rest > 0 || whole == 0);\n"
           "  few.whole_begin = sum - own;\n"
           "  few.whole_end = sum;\n"
           "  const int whole_units = __shfl_sync(0xffffffff, sum, 31); // of all sequences\n"
           "  int before = 0;\n"
           "#pragma unroll 1\n"
           "  for (int i = 0; i < count; ++i) {\n"
           "    const int other = __shfl_sync(0xffffffff, cut ? rest : -1, i);\n"
           "    before += other > rest || (other == rest && i < lane);\n"
           "  }\n"
           "  few.cut_begin = whole_units + before * heads;\n"
           "  few.cut_end = few.cut_begin + (cut ? heads : 0);\n"
           "  return few;\n"
           "}\n"
           "\n"
           "// Of this thread block's unit in a round: rounds go there and back.\n"
           "__device__ __forceinline__ int number_of_round(int round) {\n"
           "  return round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);\n"
           "}\n"
           "\n"
           "// Writes down unit `number`, if its sequence has `least` keys: the lane that has it does, and\n"
           "// returns true.\n"
           "__device__ __forceinline__ bool write_few(Unit *unit, const attnpress_fwd_sm90_args *args,\n"
           "                                          const FewSequences *few, int number, int seqlen_q,\n"
           "                                          int least) {\n"
           "  const attnpress_ragged_args *batch = &ragged_args(args)->ragged;\n");
      TEXT("  const bool whole = few->whole_begin <= number && number < few->whole_end;\n"
           "  const bool cut = few->cut_begin <= number && number < few->cut_end;\n"
           "  if (!(whole || cut) || few->seqlen_k < least)\n"
           "    return false;\n"
           "  const int lane = threadIdx.x % 32, fixed = batch->fixed_split_blocks;\n"
           "  const int in_order = number - (whole ? few->whole_begin : few->cut_begin);\n"
           "  const int before = in_order / args->tile_heads.value;\n"
           "  const int split = whole ? before : few->seqlen_k / (fixed * BLOCK_N);\n"
           "  unit->position_begin = 0;\n"
           "  unit->tile_head = in_order - before * args->tile_heads.value;\n"
           "  unit->seqlen_q = seqlen_q;\n"
           "  unit->seqlen_k = few->seqlen_k;\n"
           "  unit->center = batch->window_top_left ? 0 : few->seqlen_k - seqlen_q;\n"
           "  unit->q_batch = unit->sequence = lane;\n"
           "  unit->q_row = 0;\n"
           "  unit->split = split;\n"
           "  unit->ends = FIRST_SPLIT | LAST_SPLIT;\n");
      if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
        TEXT("  unit->pages = {batch->page_table + lane * batch->page_table_stride, 0, max(few->seqlen_k - 1, 0)};\n");
      } else {
        TEXT("  unit->k_batch = lane;\n"
             "  unit->k_row = 0;\n");
      }
      TEXT("  unit->blocks =\n"
           "      split_fixed_blocks(key_blocks(keys_of_some(row_at_begin(&args->fwd, unit, 0),\n"
           "                                                 row_at_end(&args->fwd, unit, seqlen_q)),\n"
           "                                    BLOCK_N),\n"
           "                         split, fixed);\n"
           "  return true;\n"
           "}\n"
           "\n"
           "// find_units() of two to 32 sequences. Units are ordered by the lengths that stand there before\n"
           "// what ran before has ended, and the first one is handed over, if it has keys, so that no read\n"
           "// stands between that end and these. If a length is another one after all, all are found once\n"
           "// more, and the first one is not stored: the unit behind it says so, or what stands for the end.\n"
           "// All lanes of a warp arrive.\n"
           "__device__ __forceinline__ void find_units_of_few(const attnpress_fwd_sm90_args *args) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  const attnpress_ragged_args *batch = &ragged->ragged;\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  const int32_t *length = batch->seqused_k + min(lane, args->fwd.batch - 1);\n"
           "  const int seqlen_q = batch->rows_q <= args->fwd.seqlen_q ? batch->rows_q : 0;\n"
           "  FewSequences few = {};\n"
           "  Stage place = {0, 0};\n"
           "  int used = 0, round = 0;\n"
           "  int behind_none = 0; // BEHIND_NONE behind a first unit that was guessed and is none\n"
           "#pragma unroll 1\n"
           "  for (bool guesses = true;; guesses = false) {\n"
           "    const int now = guesses ? (int)load_relaxed((const uint32_t *)length) : *length;\n"
           "    if (guesses || __any_sync(0xffffffff, now != used)) {\n"
           "      few = order_few(args, now);\n"
           "      behind_none = guesses ? 0 : BEHIND_NONE;\n"
           "      used = now;\n"
           "      round = 0;\n"
           "    }\n"
           "    // Splits that are units of their own: for the combine kernel.\n"
           "    if (!guesses && blockIdx.x == 0 && lane < args->fwd.batch && ragged->sequence_splits != nullptr)\n"
           "      ragged->sequence_splits[lane] =\n"
           "          max(ceil_div(few.seqlen_k, batch->fixed_split_blocks * BLOCK_N), 1);\n"
           "    for (bool more = true; more; more = !guesses && more) {\n"
           "      const int number = number_of_round(round);\n"
           "      // All who read the unit that was here arrived; hands over the place.\n"
           "      wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n"
           "      const bool wrote = seqlen_q > 0 && write_few(&units[place.index], args, &few, number,\n"
           "                                                   seqlen_q, guesses ? 1 : 0);\n"
           "      if (wrote) {\n"
           "        units[place.index].ends |= behind_none;\n"
           "        mbarrier_arrive(unit_full(place.index));\n"
           "      }\n"
           "      more = __any_sync(0xffffffff, wrote);\n"
           "      if (more) {\n"
           "        ++round;\n"
           "        behind_none = 0;\n"
           "        place = next_stage(place, UNITS);\n"
           "      }\n"
           "    }\n"
           "    if (!guesses)\n"
           "      break;\n"
           "    griddepcontrol_wait();\n"
           "  }\n"
           "  if (lane == 0) {\n"
           "    units[place.index].position_begin = -1;\n"
           "    units[place.index].ends = behind_none;\n"
           "    mbarrier_arrive(unit_full(place.index));\n"
           "  }\n"
           "}\n"
           "\n");
    }
    TEXT("// Hands over the unit at a place and, before a ticket is asked for, waits until the next unit is\n"
         "// nearly due: until the producer has asked for all K of this one or, where that is little or little\n"
         "// of it is on the way then, of one of the two before. A ticket that is taken earlier keeps its unit\n"
         "// from thread blocks that are free.\n"
         "constexpr int BLOCKS_AHEAD = 4;\n"
         "__device__ __forceinline__ void hand_over(Stage place, bool asks) {\n"
         "  const int count = units[place.index].blocks.end - units[place.index].blocks.begin;\n"
         "  const int before = count > BLOCKS_AHEAD && STAGES > 2 ? 0 : count > BLOCKS_AHEAD / 2 ? 1 : 2;\n"
         "  const int index = place.index - before;\n"
         "  mbarrier_arrive(unit_full(place.index));\n"
         "  // The producer's first warp arrived. Before the first unit there is nothing to wait for: its\n"
         "  // phase counts as over.\n"
         "  if (asks)\n"
         "    wait_for_phase(unit_asked((index + UNITS) % UNITS), place.parity ^ (index < 0));\n"
         "}\n"
         "\n");
    if (ready) {
      if (cut_last) {
        TEXT("// The lane whose place is this lane's, where of the first `count` those with the greatest numbers\n"
             "// come first. All lanes arrive.\n"
             "__device__ __forceinline__ int lane_by_number(int number, int count) {\n"
             "  const int lane = threadIdx.x % 32;\n"
             "  int before = 0, found = lane;\n"
             "#pragma unroll 1\n"
             "  for (int i = 0; i < count; ++i) {\n"
             "    const int other = __shfl_sync(0xffffffff, number, i);\n"
             "    before += other > number || (other == number && i < lane);\n"
             "  }\n"
             "#pragma unroll 1\n"
             "  for (int i = 0; i < count; ++i)\n"
             "    found = __shfl_sync(0xffffffff, before, i) == lane ? i : found;\n"
             "  return found;\n"
             "}\n"
             "\n");
      }
      TEXT("// The producer's third warp: finds the units and writes them down for all others, as far ahead as\n"
           "// there are places. It walks through the sequences in the order that is ready, 32 at a time, with\n"
           "// the lengths that they have now. What the order names next is asked for 32 sequences ahead, and a\n"
           "// sequence's lengths are read beside its place, before it is known whether it comes here: so 32\n"
           "// sequences take one read of the memory's. A ticket is asked for when a unit is nearly loaded.\n");
      if (cut_last) {
        TEXT("// Without a schedule and tickets a thread block's units are every grid-th, and back in every second\n"
             "// round. Splits that are cut short come behind all others then, the longest first, so that thread\n"
             "// blocks end together.\n");
      }
      TEXT("__device__ __forceinline__ void find_units(const attnpress_fwd_sm90_args *args) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  const int lane = threadIdx.x % 32, batch = args->fwd.batch;\n"
           "  Stage place = {0, 0};\n"
           "  int number = blockIdx.x;\n"
           "  int step = lane - 32, found = 0; // of the walk, and the sequences up to the last lane's\n"
           "  int sequence = 0, count = 0;     // the lane's, and its units\n"
           "  int end = 0;                     // units up to the last lane's\n"
           "  int named = named_sequence(ragged->ready, batch, lane); // a step ahead\n");
      if (split) {
        TEXT("  int split = -1; // the lane's; -1: the unit's first\n");
      }
      if (cut_last) {
        TEXT("  const bool sorts =\n"
             "      ragged->ready == nullptr && ragged->ticket == nullptr && args->fwd.num_splits > 1;\n"
             "  bool cut = false; // whether units are of splits that are cut short\n"
             "  int passed = 0; // units of the lane's sequence that came before\n"
             "  int round = 0;\n");
      }
      TEXT("  for (;; place = next_stage(place, UNITS)) {\n"
           "    // All who read the unit that was here arrived; hands over the place.\n"
           "    wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n"
           "    int next = number;\n");
      if (cut_last) {
        TEXT("    while (end <= number) {\n"
             "      if (found >= batch || step - lane >= 2 * batch - 32) {\n"
             "        if (cut || !sorts)\n"
             "          break;\n"
             "        cut = true; // through all sequences again\n"
             "        found = 0;\n"
             "        step = lane - 32;\n"
             "        named = named_sequence(ragged->ready, batch, lane);\n"
             "      }\n");
      } else {
        TEXT("    while (end <= number && found < batch && step - lane < 2 * batch - 32) {\n");
      }
      TEXT("      step += 32;\n"
           "      const bool there = 0 <= named && named < batch;\n"
           "      sequence = there ? named : 0;\n"
           "      named = named_sequence(ragged->ready, batch, step + 32);\n"
           "      const int at_place = place_of(ragged->ready, batch, sequence);\n"
           "      // All lanes arrive and wait: the two reads are under way, which the compiler moves down else.\n"
           "      __syncwarp();\n");
      if (split) {
        TEXT("      SplitCounts splits;\n"
             "      const int units_there = count_units(args, sequence, &splits);\n");
      } else {
        TEXT("      const int units_there = count_units(args, sequence);\n");
      }
      TEXT("      const bool comes = there & comes_at(ragged->ready, batch, step, sequence, at_place);\n"
           "      count = comes ? units_there : 0;\n");
      if (split) {
        TEXT("      // Splits that are units of their own: for the combine kernel.\n"
             "      if (comes && blockIdx.x == 0 && ragged->sequence_splits != nullptr)\n"
             "        ragged->sequence_splits[sequence] = splits.all;\n");
      }
      if (cut_last) {
        TEXT("      if (sorts) {\n"
             "        const int whole = units_there / splits.all * splits.whole;\n"
             "        passed = cut ? whole : 0;\n"
             "        count = !comes ? 0 : cut ? units_there - whole : whole;\n"
             "      }\n"
             "      if (cut) {\n"
             "        const int from = lane_by_number(count > 0 ? splits.rest : -1, min(batch, 32));\n"
             "        sequence = __shfl_sync(0xffffffff, sequence, from);\n"
             "        passed = __shfl_sync(0xffffffff, passed, from);\n"
             "        count = __shfl_sync(0xffffffff, count, from);\n"
             "      }\n");
      }
      TEXT("      end += __reduce_add_sync(0xffffffff, count);\n"
           "      found += __popc(__ballot_sync(0xffffffff, comes));\n"
           "    }\n"
           "    if (end <= number)\n"
           "      break;\n"
           "    // Units before the lane's sequence.\n"
           "    const int sum = sum_up_lanes(count);\n"
           "    const int first = end - __shfl_sync(0xffffffff, sum, 31) + sum - count;\n"
           "    const int at = __popc(__ballot_sync(0xffffffff, first + count <= number));\n"
           "    if (lane == at) {\n"
           "      const attnpress_sequence_units of = describe_sequence(args, sequence);\n");
      if (split) {
        TEXT("      split = write_split(&units[place.index], args, &of, number - first");
        STRING(cut_last ? " + passed" : "");
        TEXT(", split);\n"
             "      const bool asks = split < 0 && ragged->ticket != nullptr;\n"
             "      hand_over(place, asks);\n"
             "      if (asks)\n"
             "        next = (int)atomic_increment(ragged->ticket);\n");
        if (cut_last) {
          TEXT("      if (sorts && split < 0) {\n"
               "        ++round;\n"
               "        next = round * gridDim.x + (round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);\n"
               "      } else\n");
        }
        TEXT("      next += split < 0 ? (int)gridDim.x : 0;\n");
      } else {
        TEXT("      write_unit(&units[place.index], args, &of, number - first);\n"
             "      const bool asks = ragged->ticket != nullptr;\n"
             "      hand_over(place, asks);\n"
             "      if (asks)\n"
             "        next = (int)atomic_increment(ragged->ticket);\n"
             "      next += (int)gridDim.x;\n");
      }
      TEXT("    }\n"
           "    // From the lane that asked for it.\n"
           "    number = __shfl_sync(0xffffffff, next, at);\n");
      if (cut_last) {
        TEXT("    round = __shfl_sync(0xffffffff, round, at);\n");
      }
      TEXT("  }\n"
           "  if (lane == 0) {\n"
           "    units[place.index].position_begin = -1;\n");
      if (one_sequence) {
        TEXT("    units[place.index].ends = 0;\n");
      }
      TEXT("    mbarrier_arrive(unit_full(place.index));\n"
           "  }\n"
           "}\n"
           "\n");
    } else {
      TEXT("// The producer's third warp: finds the units and writes them down for all others, as far ahead as\n"
           "// there are places. A ticket is asked for when a unit is nearly loaded.\n"
           "__device__ __forceinline__ void find_units(const attnpress_fwd_sm90_args *args) {\n"
           "  const attnpress_fwd_sm90_ragged_args *ragged = ragged_args(args);\n"
           "  const int lane = threadIdx.x % 32, batch = args->fwd.batch;\n");
      if (!split) {
        TEXT("  const int count = ragged->first_unit[batch];\n");
      }
      TEXT("  Stage place = {0, 0};\n"
           "  int at = 0, number = blockIdx.x;\n");
      if (split) {
        TEXT("  int split = -1; // the first lane's; -1: the unit's first\n");
      }
      TEXT("  for (;; place = next_stage(place, UNITS)) {\n"
           "    // All who read the unit that was here arrived; hands over the place.\n"
           "    wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n");
      if (split) {
        TEXT("    if (number >= ragged->first_unit[batch]) // again each time: registers are few\n"
             "      break;\n");
      } else {
        TEXT("    if (number >= count)\n"
             "      break;\n");
      }
      if (split) {
        TEXT("    int next = number;\n"
             "    at = find_sequence(ragged->first_unit, batch, number, at);\n"
             "    if (lane == 0) {\n"
             "      split = write_split(&units[place.index], args, number, at, split);\n"
             "      hand_over(place, split < 0);\n"
             "      if (split < 0)\n"
             "        next = (int)gridDim.x + (int)atomic_increment(ragged->ticket);\n"
             "    }\n");
      } else {
        TEXT("    int next = 0;\n"
             "    at = find_sequence(ragged->first_unit, batch, number, at);\n"
             "    if (lane == 0) {\n"
             "      write_unit(&units[place.index], args, number, at);\n"
             "      hand_over(place, true);\n"
             "      next = (int)gridDim.x + (int)atomic_increment(ragged->ticket);\n"
             "    }\n");
      }
      TEXT("    // From the lane that asked for it.\n"
           "    number = __shfl_sync(0xffffffff, next, 0);\n"
           "  }\n"
           "  if (lane == 0) {\n"
           "    units[place.index].position_begin = -1;\n"
           "    mbarrier_arrive(unit_full(place.index));\n"
           "  }\n"
           "}\n"
           "\n");
    }
    TEXT("// Makes zeros of what a unit's last key block of V holds past the sequence's end, behind `keys`.\n"
         "__device__ __forceinline__ void clear_tail(unsigned char *smem, int stage, int keys) {\n"
         "  unsigned char *v = smem + V_OFFSET + stage * V_BYTES;\n"
         "  for (int slab = 0; slab < V_SLABS; ++slab)\n"
         "    for (int chunk = keys * 8 + threadIdx.x % 32; chunk < BLOCK_N * 8; chunk += 32)\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("      *(uint4 *)(v + slab * V_SLAB_STEP + chunk / 64 * V_GROUP_BYTES + chunk % 64 * 16) =\n"
           "          uint4{0, 0, 0, 0};\n");
    } else {
      TEXT("      *(uint4 *)(v + slab * KEY_SLAB_BYTES + chunk * 16) = uint4{0, 0, 0, 0};\n");
    }
    TEXT("}\n"
         "\n"
         "// The producer's second warp: clears the tail of a unit's V, once it is there, and hands it over in\n"
         "// the copy engine's place.");
    STRING(decode ? " It loads Q first, so that no keys wait for its place." : "");
    TEXT("\n"
         "__device__ __forceinline__ void clear_tails(");
    STRING(decode ? "const attnpress_fwd_sm90_args *args,\n                                            " : "");
    TEXT("uint32_t shared, unsigned char *smem) {\n"
         "  Stage v_stage = {0, 0}, place = {0, 0};\n"
         "  uint32_t parities = 0; // of the stages' next phase of v_loaded, a bit each\n");
    if (decode) {
      TEXT("  uint32_t q_turn = 0;\n");
    }
    TEXT("  for (;; place = next_stage(place, UNITS)) {\n"
         "    // Hands over the unit.\n"
         "    wait_for_phase(unit_full(place.index), place.parity);\n"
         "    const Unit *unit = &units[place.index];\n"
         "    if (unit->position_begin < 0)\n"
         "      return;\n"
         "    const int blocks = unit->blocks.end - unit->blocks.begin, keys = tail_keys(unit);\n");
    if (decode) {
      TEXT("    if (blocks > 0 && unit->ends & FIRST_SPLIT) {\n");
      if (one_sequence) {
        TEXT("      griddepcontrol_wait(); // the unit may be a guess\n");
      }
      TEXT("      if (threadIdx.x % 32 == 0)\n"
           "        load_q(args, shared, q_turn, unit);\n"
           "      ++q_turn;\n"
           "    }\n");
    }
    TEXT("    // All lanes arrive and wait: they have read the unit.\n"
         "    __syncwarp();\n"
         "    arrive_once(unit_empty(place.index));\n"
         "    if (blocks <= 0)\n"
         "      continue;\n"
         "    if (keys < BLOCK_N) {\n");
    if (forwards) {
      TEXT("      const int stage = (v_stage.index + blocks - 1) % STAGES;\n"
           "      // The copy engine hands over V.\n"
           "      wait_for_phase(v_loaded(stage), parities >> stage & 1);\n"
           "      parities ^= 1u << stage;\n"
           "      clear_tail(smem, stage, keys);\n"
           "      // Products see the zeros once all lanes have come through here, and the first has arrived.\n"
           "      fence_proxy_async();\n"
           "      __syncwarp();\n"
           "      arrive_once(v_full(shared, stage));\n");
    } else {
      TEXT("      // The copy engine hands over V.\n"
           "      wait_for_phase(v_loaded(v_stage.index), parities >> v_stage.index & 1);\n"
           "      parities ^= 1u << v_stage.index;\n"
           "      clear_tail(smem, v_stage.index, keys);\n"
           "      // Products see the zeros once all lanes have come through here, and the first has arrived.\n"
           "      fence_proxy_async();\n"
           "      __syncwarp();\n"
           "      arrive_once(v_full(shared, v_stage.index));\n");
    }
    TEXT("    }\n"
         "    v_stage.index += blocks;\n"
         "    v_stage.parity ^= v_stage.index / STAGES % 2;\n"
         "    v_stage.index %= STAGES;\n"
         "  }\n"
         "}\n"
         "\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("// The same warp where keys are gathered: hands over all key blocks, as products see what other\n"
           "// threads have copied once one that knows of it has come through the fence. What follows a\n"
           "// sequence's last key is that key again, so that there is nothing to clear.\n");
      if (decode) {
        TEXT("// Another warp hands over V (`of_values`), so that no K waits for the V before it.\n"
             "__device__ __forceinline__ void pass_on(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
             "                                        bool of_values) {\n");
      } else {
        TEXT("__device__ __forceinline__ void pass_on(uint32_t shared) {\n");
      }
      TEXT("  Stage stage = {0, 0}, place = {0, 0};\n");
      if (decode) {
        TEXT("  uint32_t q_turn = 0;\n");
      }
      TEXT("  for (;; place = next_stage(place, UNITS)) {\n"
           "    // Hands over the unit.\n"
           "    wait_for_phase(unit_full(place.index), place.parity);\n"
           "    const Unit *unit = &units[place.index];\n"
           "    if (unit->position_begin < 0)\n"
           "      return;\n"
           "    const int blocks = unit->blocks.end - unit->blocks.begin;\n");
      if (decode) {
        TEXT("    if (!of_values && blocks > 0 && unit->ends & FIRST_SPLIT) {\n");
        if (one_sequence) {
          TEXT("      griddepcontrol_wait(); // the unit may be a guess\n");
        }
        TEXT("      if (threadIdx.x % 32 == 0)\n"
             "        load_q(args, shared, q_turn, unit);\n"
             "      ++q_turn;\n"
             "    }\n");
      }
      TEXT("    // All lanes arrive and wait: they have read the unit.\n"
           "    __syncwarp();\n"
           "    arrive_once(unit_empty(place.index));\n"
           "    for (int block = 0; block < blocks; ++block, stage = next_stage(stage, STAGES)) {\n"
           "      // The lanes that gather arrive by their copies, at one barrier for K and one for V.\n");
      if (decode) {
        TEXT("      if (of_values) {\n"
             "        wait_for_phase(v_loaded(stage.index), stage.parity);\n"
             "        fence_proxy_async();\n"
             "        arrive_once(v_full(shared, stage.index));\n"
             "        continue;\n"
             "      }\n");
      }
      TEXT("      wait_for_phase(k_loaded(stage.index), stage.parity);\n"
           "      fence_proxy_async();\n"
           "      arrive_once(k_full(shared, stage.index));\n");
      if (!decode) {
        TEXT("      wait_for_phase(v_loaded(stage.index), stage.parity);\n"
             "      fence_proxy_async();\n"
             "      arrive_once(v_full(shared, stage.index));\n");
      }
      TEXT("    }\n"
           "  }\n"
           "}\n"
           "\n");
      if (decode) {
        TEXT("// Asks for the entries of key block `n`, of K and V, to come to a place.\n"
             "__device__ __forceinline__ void ask_entries(const attnpress_ragged_args *ragged,\n"
             "                                            const Pages *pages, int n, int place) {\n"
             "  for (int key = threadIdx.x % 32; key < BLOCK_N; key += 32) {\n"
             "    const int32_t *at = pages->table + place_of_key(pages, ragged, n * BLOCK_N + key).page;\n"
             "    cp_async_4(shared_address(&entries[place][0][key]), at, 4);\n"
             "    cp_async_4(shared_address(&entries[place][1][key]), at + ragged->page_table_v, 4);\n"
             "  }\n"
             "}\n"
             "\n"
             "// A warp that asks for the entries of each unit's key blocks.\n"
             "__device__ __forceinline__ void look_up(const attnpress_fwd_sm90_args *args) {\n"
             "  const attnpress_ragged_args *ragged = &ragged_args(args)->ragged;\n"
             "  Stage entry = {0, 0}, place = {0, 0};\n"
             "  for (;; place = next_stage(place, UNITS)) {\n"
             "    // Hands over the unit.\n"
             "    wait_for_phase(unit_full(place.index), place.parity);\n"
             "    const Unit *unit = &units[place.index];\n"
             "    if (unit->position_begin < 0)\n"
             "      break;\n"
             "    int n = unit->blocks.end - 1;\n");
        if (one_sequence) {
          TEXT("    if (unit->ends & WITH_ENTRIES) { // which are in their places\n"
               "      const int count = min(unit->blocks.end - unit->blocks.begin, ENTRY_PLACES);\n"
               "      n -= count;\n"
               "      entry = {count % ENTRY_PLACES, count / ENTRY_PLACES};\n"
               "    }\n"
               "    griddepcontrol_wait(); // the unit may be a guess\n");
        }
        TEXT("    for (; n >= unit->blocks.begin; --n) {\n"
             "      // The warps that gather arrived; hands over the place.\n"
             "      wait_for_phase(entries_empty(entry.index), entry.parity ^ 1);\n"
             "      ask_entries(ragged, &unit->pages, n, entry.index);\n"
             "      cp_async_arrive(entries_full(entry.index));\n"
             "      entry = next_stage(entry, ENTRY_PLACES);\n"
             "    }\n"
             "    // All lanes arrive and wait: they have read the unit.\n"
             "    __syncwarp();\n"
             "    arrive_once(unit_empty(place.index));\n"
             "    arrive_once(unit_asked(place.index));\n"
             "  }\n"
             "}\n"
             "\n");
      }
    }
  } else {
    TEXT("__device__ __forceinline__ void load_k(const attnpress_fwd_sm90_args *args, uint32_t shared,\n");
    if (own_blocks) {
      TEXT("                                       Stage *stage, int key_begin, int n, int kv_head,\n"
           "                                       int batch) {\n"
           "  load_keys(shared + K_OFFSET + stage->index * K_BYTES, &args->k, k_full(shared, stage->index),\n"
           "            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS, key_begin + n * BLOCK_N,\n"
           "            kv_head, batch);\n");
    } else {
      TEXT("                                       Stage *stage, int n, int kv_head, int batch) {\n"
           "  load_keys(shared + K_OFFSET + stage->index * K_BYTES, &args->k, k_full(shared, stage->index),\n"
           "            k_empty(shared, stage->index), stage->parity ^ 1, K_SLABS, n * BLOCK_N, kv_head,\n"
           "            batch);\n");
    }
    TEXT("  *stage = next_stage(*stage, STAGES);\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void load_v(const attnpress_fwd_sm90_args *args, uint32_t shared,\n");
    if (own_blocks) {
      TEXT("                                       Stage *stage, int key_begin, int n, int kv_head,\n"
           "                                       int batch) {\n"
           "  load_keys(shared + V_OFFSET + stage->index * V_BYTES, &args->v, v_full(shared, stage->index),\n"
           "            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS, key_begin + n * BLOCK_N,\n"
           "            kv_head, batch);\n");
    } else {
      TEXT("                                       Stage *stage, int n, int kv_head, int batch) {\n"
           "  load_keys(shared + V_OFFSET + stage->index * V_BYTES, &args->v, v_full(shared, stage->index),\n"
           "            v_empty(shared, stage->index), stage->parity ^ 1, V_SLABS, n * BLOCK_N, kv_head,\n"
           "            batch);\n");
    }
    TEXT("  *stage = next_stage(*stage, STAGES);\n"
         "}\n"
         "\n"
         "// Loads the consumers' rows of Q, each once its consumer has no more use for those of the unit\n"
         "// before. Rows that no position fills keep what was there: they make rows of S that are not stored.\n"
         "__device__ __forceinline__ void load_q(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
         "                                       int parity, const Unit *unit) {\n"
         "  const int positions = args->warpgroup_positions;\n"
         "  for (int consumer = 0; consumer < CONSUMERS; ++consumer) {\n"
         "    // The consumer's warps arrived after their last product with the Q that was here.\n"
         "    wait_for_phase(q_empty(shared, consumer), parity ^ 1);\n"
         "    const uint32_t full = q_full(shared, consumer);\n"
         "    mbarrier_arrive_expect(full, K_SLABS * 128 * positions * args->fwd.heads_per_tile);\n"
         "#pragma unroll\n"
         "    for (int slab = 0; slab < K_SLABS; ++slab)\n"
         "      tma_load_4d(shared + consumer * Q_BYTES + slab * Q_SLAB_BYTES, &args->q, full, slab * 64,\n"
         "                  unit->tile_head * args->fwd.heads_per_tile,\n"
         "                  unit->position_begin + consumer * positions, unit->batch);\n"
         "  }\n"
         "}\n"
         "\n");
    if (bias_map) {
      TEXT("// Loads the bias of the key block that begins at `key`, for all rows of the unit, once its place is\n"
           "// free; nothing where consumers load it. Heads do not share tiles here: rows are positions.\n"
           "__device__ __forceinline__ void load_block_bias(const attnpress_fwd_sm90_args *args,\n"
           "                                                uint32_t shared, Stage *stage, const Unit *unit,\n"
           "                                                int key) {\n"
           "  if (!has_bias_map(&args->fwd))\n"
           "    return;\n"
           "  // The consumers' warps arrived; hands over the space of the bias that was here a round ago.\n"
           "  wait_for_phase(bias_empty(shared, stage->index), stage->parity ^ 1);\n"
           "  const uint32_t full = bias_full(shared, stage->index);\n"
           "  mbarrier_arrive_expect(full, BIAS_BYTES);\n"
           "#pragma unroll\n"
           "  for (int slab = 0; slab < BIAS_SLABS; ++slab)\n"
           "    tma_load_4d(shared + BIAS_OFFSET + stage->index * BIAS_BYTES + slab * BIAS_SLAB_BYTES,\n"
           "                bias_map(args), full, key + slab * 64, unit->position_begin, unit->tile_head,\n"
           "                unit->batch);\n"
           "  *stage = next_stage(*stage, BIAS_PLACES);\n"
           "}\n"
           "\n");
    }
    if (has_map) {
      TEXT("// The producer's first thread: loads each unit's Q, and K and V of its key blocks in the order of\n"
           "// their use, K of one block before V of the block before.\n"
           "__device__ __forceinline__ void produce(const attnpress_fwd_sm90_args *args, uint32_t shared) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int group = args->tile_heads.value / fwd->heads_kv; // tile heads of a key head\n"
           "  Stage k_stage = {0, 0}, v_stage = {0, 0}, place = {0, 0};\n"
           "  int q_parity = 0;\n"
           "  for (;; place = next_stage(place, UNITS)) {\n"
           "    // Hands over the unit.\n"
           "    wait_for_phase(unit_full(place.index), place.parity);\n"
           "    if (units[place.index].position_begin < 0)\n"
           "      return;\n"
           "    const Unit unit = units[place.index];\n"
           "    if (unit.blocks.end > unit.blocks.begin) {\n"
           "      const int kv_head = unit.tile_head / group;\n"
           "      load_k(args, shared, &k_stage, unit.blocks.end - 1, kv_head, unit.batch);\n"
           "      load_q(args, shared, q_parity, &unit);\n"
           "      q_parity ^= 1;\n"
           "      for (int n = unit.blocks.end - 1; n >= unit.blocks.begin;) {\n"
           "        const int next = block_after(&unit, n);\n"
           "        if (next >= unit.blocks.begin)\n"
           "          load_k(args, shared, &k_stage, next, kv_head, unit.batch);\n"
           "        load_v(args, shared, &v_stage, n, kv_head, unit.batch);\n"
           "        n = next;\n"
           "      }\n"
           "    }\n"
           "    mbarrier_arrive(unit_empty(place.index));\n"
           "  }\n"
           "}\n"
           "\n"
           "// One thread of the producer's third warp: finds the units, whose lengths follow from the map, and\n"
           "// writes them down for all others, as far ahead as there are places. Who is free takes the next: a\n"
           "// ticket counts them, and is asked for one unit ahead.\n"
           "__device__ __forceinline__ void find_units(const attnpress_fwd_sm90_args *args) {\n"
           "  const int count = divide(args->rounds, &args->group_rounds) * args->group_units;\n"
           "  Stage place = {0, 0};\n"
           "  int number = blockIdx.x;\n"
           "  Unit unit;\n"
           "  while (number < count) {\n"
           "    const int next = (int)atomic_increment(snippet_args_sm90(args)->ticket);\n"
           "    if (find_unit(&unit, args, number)) {\n"
           "      // All who read the unit that was here arrived; hands over the place.\n"
           "      wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n"
           "      units[place.index] = unit;\n"
           "      mbarrier_arrive(unit_full(place.index));\n"
           "      place = next_stage(place, UNITS);\n"
           "    }\n"
           "    number = (int)gridDim.x + next;\n"
           "  }\n"
           "  // As above.\n"
           "  wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n"
           "  units[place.index].position_begin = -1;\n"
           "  mbarrier_arrive(unit_full(place.index));\n"
           "}\n"
           "\n");
    } else {
      if (bias_map) {
        TEXT("// The producer's one thread: loads each unit's Q, and K, bias and V of its key blocks in the order\n"
             "// of their use, K of one block before V of the block before.\n");
      } else {
        TEXT("// The producer's one thread: loads each unit's Q, and K and V of its key blocks in the order of\n"
             "// their use, K of one block before V of the block before.\n");
      }
      TEXT("__device__ __forceinline__ void produce(const attnpress_fwd_sm90_args *args, uint32_t shared) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int group = args->tile_heads.value / fwd->heads_kv; // tile heads of a key head\n"
           "  Stage k_stage = {0, 0}, v_stage = {0, 0}");
      STRING(bias_map ? ", bias_stage = {0, 0}" : "");
      TEXT(";\n"
           "  int q_parity = 0;\n"
           "  for (int round = 0; round < args->rounds; ++round) {\n"
           "    Unit unit;\n"
           "    if (!find_unit(&unit, args, round) || unit.blocks.end <= unit.blocks.begin)\n"
           "      continue;\n"
           "    const int kv_head = unit.tile_head / group;\n"
           "    load_k(args, shared, &k_stage, ");
      STRING(own_blocks ? "unit.key_begin, " : "");
      STRING(outward ? "unit.nearest" : "unit.blocks.end - 1");
      TEXT(", kv_head, unit.batch);\n"
           "    load_q(args, shared, q_parity, &unit);\n"
           "    q_parity ^= 1;\n");
      if (bias_map) {
        TEXT("    load_block_bias(args, shared, &bias_stage, &unit, block_key(&unit, unit.blocks.end - 1));\n"
             "    for (int n = unit.blocks.end - 1; n >= unit.blocks.begin; --n) {\n"
             "      // In one place there is room for the next bias later than for V.\n"
             "      if (n > unit.blocks.begin) {\n"
             "        load_k(args, shared, &k_stage, ");
        STRING(own_blocks ? "unit.key_begin, " : "");
        TEXT("n - 1, kv_head, unit.batch);\n"
             "        if (BIAS_PLACES > 1)\n"
             "          load_block_bias(args, shared, &bias_stage, &unit, block_key(&unit, n - 1));\n"
             "      }\n"
             "      load_v(args, shared, &v_stage, ");
        STRING(own_blocks ? "unit.key_begin, " : "");
        TEXT("n, kv_head, unit.batch);\n"
             "      if (n > unit.blocks.begin && BIAS_PLACES == 1)\n"
             "        load_block_bias(args, shared, &bias_stage, &unit, block_key(&unit, n - 1));\n"
             "    }\n");
      } else {
        TEXT("    for (int n = unit.blocks.end - 1; n >= unit.blocks.begin; --n) {\n"
             "      if (n > unit.blocks.begin)\n"
             "        load_k(args, shared, &k_stage, ");
        STRING(own_blocks ? "unit.key_begin, " : "");
        STRING(outward ? "block_at(&unit, n - 1)" : "n - 1");
        TEXT(", kv_head, unit.batch);\n"
             "      load_v(args, shared, &v_stage, ");
        STRING(own_blocks ? "unit.key_begin, " : "");
        STRING(outward ? "block_at(&unit, n)" : "n");
        TEXT(", kv_head, unit.batch);\n"
             "    }\n");
      }
      TEXT("  }\n"
           "}\n"
           "\n");
      if (shares_words) {
        TEXT("// The producer's second warp: makes the words of each key block's keys, in the order of their use.\n"
             "// They come with V: both arrive before it is there, and its place is theirs.\n"
             "__device__ __forceinline__ void produce_words(const attnpress_fwd_sm90_args *args,\n"
             "                                              uint32_t shared) {\n"
             "  const attnpress_fwd_args *fwd = &args->fwd;\n"
             "  const int lane = threadIdx.x % 32;\n"
             "  Stage stage = {0, 0};\n"
             "  for (int round = 0; round < args->rounds; ++round) {\n"
             "    Unit unit;\n"
             "    if (!find_unit(&unit, args, round))\n"
             "      continue;\n"
             "    const DropoutHead head =\n"
             "        dropout_head(&fwd->score, unit.batch * (int64_t)fwd->heads_q + unit.tile_head);\n"
             "    for (int n = unit.blocks.end - 1; n >= unit.blocks.begin; --n) {\n"
             "      // The consumers' warps arrived; hands over the space of the words that were here a round ago.\n"
             "      wait_for_phase(v_empty(shared, stage.index), stage.parity ^ 1);\n"
             "      for (int pair = lane; pair < BLOCK_N / 4; pair += 32) {\n"
             "        const DropoutWords words = key_words(&head, block_key(&unit, n), pair);\n"
             "        dropout_keys[stage.index][pair] =\n"
             "            uint4{words.word[0], words.word[1], words.word[2], words.word[3]};\n"
             "      }\n"
             "      // All lanes arrive and wait, so that one arrival stands for the warp.\n"
             "      __syncwarp();\n"
             "      arrive_once(v_full(shared, stage.index));\n"
             "      stage = next_stage(stage, STAGES);\n"
             "    }\n"
             "  }\n"
             "}\n"
             "\n");
      }
    }
  }
  TEXT("// ---- The consumers ----\n"
       "\n"
       "// A consumer's walk over the key blocks of its units.\n"
       "struct Walk {\n"
       "  Unit unit;\n");
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
    TEXT("  Stage place; // of the unit\n");
  } else {
    TEXT("  int round;\n");
  }
  if (outward) {
    TEXT("  int n;            // the place of the key block\n"
         "  int block;        // the key block\n");
  } else {
    TEXT("  int n;            // the key block");
    STRING(forwards ? ", or its place" : "");
    TEXT("\n");
  }
  if (!forwards) {
    TEXT("  int block_end;    // this consumer's rows see no key from this key block on\n");
  }
  if (rows_once) {
    TEXT("  int seen_end;     // of all splits\n");
  }
  if (ends_apart) {
    TEXT("  int block_begin; // ");
    STRING(forwards ? "this consumer's rows see no key of the key blocks at places below" : "and none before this one");
    TEXT("\n");
  }
  if (own_blocks) {
    TEXT("  Row rows[2]; // this thread's; keys are counted from those of the unit's key block 0 here\n");
  } else {
    TEXT("  Row rows[2];      // this thread's\n");
  }
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  Range unmasked; // all rows of the consumer see these keys");
    STRING(own_blocks ? ", counted likewise" : "");
    TEXT("\n");
  } else if (forwards) {
    TEXT("  int masked;       // not all rows of the consumer see all keys at the places below\n");
  } else {
    TEXT("  int key_unmasked; // all rows of the consumer see the keys below\n");
  }
  if (alibi || (bias != AP_ATTENTION_BIAS_NONE)) {
    TEXT("  ScoreRow score_rows[2]; // this thread's");
    STRING((own_blocks && alibi) ? ", centers counted likewise" : "");
    TEXT("\n");
  }
  if (mod_score || mod_mask) {
    TEXT("  SnippetRow snippet_rows[2]; // this thread's\n");
  }
  if (bias_map) {
    TEXT("  Stage bias_stage; // of the bias of the key block\n");
  }
  if (alibi) {
    TEXT("  Range centers; // where the consumer's first and last row stand");
    STRING(own_blocks ? ", likewise" : "");
    TEXT("\n");
  }
  if (alibi_product) {
    TEXT("  uint32_t slope_parts[2]; // this thread's, of its rows\n"
         "  int slope_side;          // the side of the diagonal that they are for\n"
         "  uint64_t key_numbers;    // their descriptor\n");
  }
  if (far_blocks) {
    TEXT("  int near_begin; // key blocks ");
    STRING(outward ? "at places " : "");
    TEXT("before this one are far from the consumer's rows\n");
  }
  if (dropout) {
    TEXT("  DropoutWords dropout_rows; // this thread's: heads do not share tiles here, rows are positions\n");
    if (!shares_words) {
      TEXT("  DropoutHead dropout; // of the unit's head\n");
    }
  }
  TEXT("};\n"
       "\n");
  if (one_sequence) {
    TEXT("// Whether the unit before the walk's, or before the end, is one: else it was a guess.\n"
         "__device__ __forceinline__ bool last_is_there(const Walk *walk) {\n"
         "  return !(units[walk->place.index].ends & BEHIND_NONE);\n"
         "}\n"
         "\n");
  }
  if (rows_once) {
    TEXT("// Finds this thread's rows, and what they see, of the walk's unit.\n"
         "__device__ __forceinline__ void find_rows(Walk *walk, const attnpress_fwd_sm90_args *args,\n"
         "                                          int consumer) {\n"
         "  const attnpress_fwd_args *fwd = &args->fwd;\n"
         "  const int positions = args->warpgroup_positions;\n"
         "  const int position_begin = walk->unit.position_begin + consumer * positions;\n"
         "  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;\n"
         "#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half)\n"
         "    walk->rows[half] = row_at_begin(fwd, &walk->unit,\n"
         "                                    position_begin + divide(row + half * 8, &args->heads_per_tile));\n"
         "  const Row first = row_at_begin(fwd, &walk->unit, position_begin);\n"
         "  const Row last = row_at_end(fwd, &walk->unit, position_begin + positions);\n"
         "  walk->key_unmasked = keys_of_all(first, last).end;\n"
         "  walk->seen_end = position_begin < walk->unit.seqlen_q\n"
         "                       ? key_blocks(keys_of_some(first, last), BLOCK_N).end\n"
         "                       : 0;\n"
         "}\n"
         "\n");
  }
  TEXT("// Moves on to the next unit; false after the last.\n"
       "__device__ __forceinline__ bool next_unit(Walk *walk, const attnpress_fwd_sm90_args *args,\n"
       "                                          int consumer) {\n");
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
    TEXT("  walk->place = next_stage(walk->place, UNITS);\n"
         "  // The producer's third warp hands over the unit.\n"
         "  wait_for_phase(unit_full(walk->place.index), walk->place.parity);\n"
         "  if (units[walk->place.index].position_begin < 0)\n"
         "    return false;\n");
    if (!rows_ahead) {
      TEXT("  walk->unit = units[walk->place.index];\n");
    }
  } else {
    TEXT("  do {\n"
         "    if (++walk->round >= args->rounds)\n"
         "      return false;\n"
         "  } while (!find_unit(&walk->unit, args, walk->round));\n");
  }
  if (rows_ahead) {
    TEXT("  // What the consumer's rows see, which the warp that found the unit has worked out.\n"
         "  const Unit *unit = &units[walk->place.index];\n"
         "  const int positions = consumer * args->warpgroup_positions; // of the consumers before\n"
         "  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;\n"
         "  walk->unit.blocks = {0, unit->blocks.end};\n"
         "  walk->n = unit->blocks.end - 1;\n");
    if (forwards) {
      TEXT("  walk->block_begin = unit->blocks.end - unit->block_end[consumer];\n"
           "  walk->masked = unit->blocks.end - min(unit->seqlen_k, unit->key_end + positions) / BLOCK_N;\n");
    } else {
      TEXT("  walk->block_end = unit->block_end[consumer];\n"
           "  walk->key_unmasked = min(unit->seqlen_k, unit->key_end + positions);\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half) {\n"
         "    const int position = positions + divide(row + half * 8, &args->heads_per_tile);\n"
         "    walk->rows[half] = {position, 0, min(unit->seqlen_k, unit->key_end + position)};\n"
         "  }\n"
         "  return true;\n"
         "}\n"
         "\n");
  } else {
    TEXT("  walk->n = walk->unit.blocks.end - 1;\n");
    if (outward) {
      TEXT("  walk->block = walk->unit.nearest;\n");
    }
    if (rows_once) {
      TEXT("  // All else is the same for the other splits of the rows.\n"
           "  if (walk->unit.ends & FIRST_SPLIT)\n"
           "    find_rows(walk, args, consumer);\n"
           "  walk->block_end = max(min(walk->unit.blocks.end, walk->seen_end), walk->unit.blocks.begin);\n"
           "  return true;\n"
           "}\n"
           "\n");
    } else {
      TEXT("  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int positions = args->warpgroup_positions;\n"
           "  const int position_begin = walk->unit.position_begin + consumer * positions;\n"
           "  const int row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half)\n");
      if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
        TEXT("    walk->rows[half] = row_at_begin(fwd, &walk->unit,\n"
             "                                    position_begin + divide(row + half * 8, &args->heads_per_tile));\n");
      } else {
        TEXT("    walk->rows[half] =\n"
             "        row_at_begin(fwd, position_begin + divide(row + half * 8, &args->heads_per_tile));\n");
      }
      TEXT("  const Row first = row_at_begin(fwd, ");
      STRING((sequences != AP_ATTENTION_SEQUENCES_DENSE) ? "&walk->unit, " : "");
      TEXT("position_begin);\n"
           "  const Row last = row_at_end(fwd, ");
      STRING((sequences != AP_ATTENTION_SEQUENCES_DENSE) ? "&walk->unit, " : "");
      TEXT("position_begin + positions);\n");
      if (mask == AP_ATTENTION_MASK_WINDOW) {
        TEXT("  walk->unmasked = keys_of_all(first, last);\n");
        if (own_blocks) {
          TEXT("  const int key_begin = walk->unit.key_begin;\n"
               "  walk->unmasked = {walk->unmasked.begin - key_begin, walk->unmasked.end - key_begin};\n"
               "#pragma unroll\n"
               "  for (int half = 0; half < 2; ++half) {\n"
               "    walk->rows[half].key_begin -= key_begin;\n"
               "    walk->rows[half].key_end -= key_begin;\n"
               "  }\n");
        }
        if (!has_map) {
          if (own_blocks) {
            TEXT("  const Range seen = blocks_from(keys_of_some(first, last), key_begin, BLOCK_N);\n");
          } else {
            TEXT("  const Range seen = key_blocks(keys_of_some(first, last), BLOCK_N);\n");
          }
          TEXT("  walk->block_end = min(walk->unit.blocks.end, seen.end);\n"
               "  walk->block_begin = max(walk->unit.blocks.begin, seen.begin);\n"
               "  if (position_begin >= ");
          STRING((sequences != AP_ATTENTION_SEQUENCES_DENSE) ? "walk->unit.seqlen_q" : "fwd->seqlen_q");
          TEXT(" || walk->block_end <= walk->block_begin)\n"
               "    walk->block_end = walk->block_begin = walk->unit.blocks.begin;\n");
        } else {
          TEXT("  walk->block_end =\n"
               "      min(walk->unit.blocks.end, key_blocks(keys_of_some(first, last), BLOCK_N).end);\n"
               "  if (position_begin >= ");
          STRING((sequences != AP_ATTENTION_SEQUENCES_DENSE) ? "walk->unit.seqlen_q" : "fwd->seqlen_q");
          TEXT(" || walk->block_end < walk->unit.blocks.begin)\n"
               "    walk->block_end = walk->unit.blocks.begin;\n");
        }
      } else {
        TEXT("  walk->key_unmasked = keys_of_all(first, last).end;\n"
             "  walk->block_end =\n"
             "      min(walk->unit.blocks.end, key_blocks(keys_of_some(first, last), BLOCK_N).end);\n");
        if (last_is_full) {
          TEXT("  const int end = ");
          STRING((sequences == AP_ATTENTION_SEQUENCES_DENSE) ? "position_end(args, &walk->unit)" : "walk->unit.position_end");
          TEXT(";\n"
               "  if (position_begin >= end || walk->block_end < walk->unit.blocks.begin)\n"
               "    walk->block_end = walk->unit.blocks.begin;\n");
        } else {
          TEXT("  if (position_begin >= ");
          STRING((sequences != AP_ATTENTION_SEQUENCES_DENSE) ? "walk->unit.seqlen_q" : "fwd->seqlen_q");
          TEXT(" || walk->block_end < walk->unit.blocks.begin)\n"
               "    walk->block_end = walk->unit.blocks.begin;\n");
        }
      }
      if (alibi && (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
        TEXT("  const int shift = walk->unit.seqlen_k - walk->unit.seqlen_q;\n");
      }
      if (((alibi || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) {
        TEXT("#pragma unroll\n"
             "  for (int half = 0; half < 2; ++half) {\n"
             "    const int row_position = divide(row + half * 8, &args->heads_per_tile);\n"
             "    const int head =\n"
             "        (walk->unit.tile_head - row_position) * fwd->heads_per_tile + row + half * 8;\n");
        if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) && (mod_score || mod_mask)) {
          TEXT("    // A row that is not there has the numbers of one that is.\n"
               "    walk->snippet_rows[half] =\n"
               "        snippet_row(fwd, walk->unit.sequence, head,\n"
               "                    min(position_begin + row_position, walk->unit.seqlen_q - 1));\n");
        } else if (mod_score || mod_mask) {
          TEXT("    walk->snippet_rows[half] =\n"
               "        snippet_row(fwd, walk->unit.batch, head, position_begin + row_position);\n");
        } else {
          if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
            TEXT("    walk->score_rows[half] =\n"
                 "        alibi_row(fwd, walk->unit.sequence, head,\n"
                 "                  min(position_begin + row_position, walk->unit.seqlen_q - 1) + shift);\n");
          } else {
            TEXT("    walk->score_rows[half] = score_row(fwd, ALIBI, BIAS, walk->unit.batch, head,\n"
                 "                                       position_begin + row_position);\n");
          }
          if (alibi_product) {
            TEXT("    walk->slope_parts[half] = slope_part(walk->score_rows[half].slope, threadIdx.x % 4);\n");
          }
          if (own_blocks && alibi) {
            TEXT("    walk->score_rows[half].center -= key_begin;\n");
          }
        }
        TEXT("  }\n");
      }
      if (alibi) {
        if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
          TEXT("  const int shift = fwd->seqlen_k - fwd->seqlen_q");
          STRING(own_blocks ? " - key_begin" : "");
          TEXT(";\n");
        }
        TEXT("  walk->centers = {position_begin + shift,\n"
             "                   min(position_begin + positions, ");
        STRING((sequences != AP_ATTENTION_SEQUENCES_DENSE) ? "walk->unit.seqlen_q" : "fwd->seqlen_q");
        TEXT(") - 1 + shift};\n");
        if (far_blocks) {
          TEXT("  int near_begin = walk->unit.blocks.begin;\n"
               "  const float slope = walk->score_rows[0].slope * fwd->scale_log2;\n"
               "  if (fwd->heads_per_tile == 1 && slope > FAR * 1e-9f) { // one slope for all rows\n"
               "    const int far = (int)(FAR / slope);\n"
               "    const int first = max(walk->centers.begin - far, 0) / BLOCK_N; // of the near key blocks\n");
          if (outward) {
            TEXT("    const int last = min((walk->centers.end + far) / BLOCK_N, walk->unit.blocks.end - 1);\n"
                 "    near_begin = min(place_of(&walk->unit, min(first, walk->unit.nearest)),\n"
                 "                     place_of(&walk->unit, max(last, walk->unit.nearest)));\n");
          } else {
            TEXT("    near_begin = max(near_begin, first);\n");
          }
          TEXT("  }\n"
               "  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
               "  walk->near_begin = __shfl_sync(0xffffffff, near_begin, 0);\n");
        }
      }
      if (dropout) {
        TEXT("  const DropoutHead dropout = dropout_head(\n"
             "      &fwd->score, walk->unit.batch * (int64_t)fwd->heads_q + walk->unit.tile_head);\n"
             "  walk->dropout_rows = row_words(&dropout, walk->rows[0].position, threadIdx.x % 32 / 4);\n");
        if (!shares_words) {
          TEXT("  walk->dropout = dropout;\n");
        }
      }
      TEXT("  return true;\n"
           "}\n"
           "\n");
    }
  }
  if (alibi) {
    TEXT("// 1 where all keys of the walk's key block lie before the consumer's rows, -1 where all lie behind\n"
         "// them, 0 at the diagonal.\n"
         "__device__ __forceinline__ int block_side(const Walk *walk) {\n"
         "  const int first_key = ");
    STRING(outward ? "walk->block" : "walk->n");
    TEXT(" * BLOCK_N;\n"
         "  if (first_key + BLOCK_N - 1 <= walk->centers.begin)\n"
         "    return 1;\n"
         "  return first_key >= walk->centers.end ? -1 : 0;\n"
         "}\n"
         "\n");
  }
  if (alibi_product) {
    if (far_blocks) {
      TEXT("// Whether all P of the walk's key block are zeros, for all rows of the consumer.\n"
           "__device__ __forceinline__ bool weighs_nothing(const float score[S_TILES * 4],\n"
           "                                               const float reference[2], const Walk *walk,\n"
           "                                               float scale_log2, int consumer) {\n"
           "  const int first_key = ");
      STRING(outward ? "walk->block" : "walk->n");
      TEXT(" * BLOCK_N;\n"
           "  const int nearest = block_side(walk) > 0 ? first_key + BLOCK_N - 1 : first_key;\n"
           "  bool nothing = true;\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half) {\n"
           "    const float bound =\n"
           "        bound_of_lane(score, S_TILES, half) + alibi_of_key(walk->score_rows[half], nearest);\n"
           "    nothing = nothing && (bound - reference[half]) * scale_log2 < LEAST_POWER;\n"
           "  }\n"
           "  // By a vote, so that the compiler knows the answer to be the same in the whole warp.\n"
           "  return __any_sync(0xffffffff, named_barrier_all(8 + consumer, 128, nothing));\n"
           "}\n"
           "\n");
    }
    TEXT("// Writes down the numbers of keys; all threads do.\n"
         "__device__ __forceinline__ void number_keys() {\n"
         "  for (int word = threadIdx.x; word < NUMBER_BYTES / 4; word += NUM_THREADS) {\n"
         "    const int row = word / 32 % 8;\n"
         "    const int key = word / 256 * 64 + (word / 4 % 8 ^ row) * 8 + word % 4 * 2;\n"
         "    const int number = row < 4 ? key + 1 - BLOCK_N : -key, step = row < 4 ? 1 : -1;\n"
         "    ((uint32_t *)key_numbers)[word] =\n"
         "        row % 4 == 3 ? 0 : pack_bf16((float)number, (float)(number + step));\n"
         "  }\n"
         "  fence_proxy_async();\n"
         "}\n"
         "\n"
         "// The A fragment of the slopes for the walk's key block: parts of slopes at the rows of numbers\n"
         "// that are for its side of the diagonal, zeros elsewhere.\n"
         "__device__ __forceinline__ void take_slopes(uint32_t slopes[4], const Walk *walk) {\n"
         "  const int side = block_side(walk);\n"
         "  const bool taken = side == walk->slope_side;\n"
         "  slopes[0] = taken ? walk->slope_parts[0] : 0;\n"
         "  slopes[1] = taken ? walk->slope_parts[1] : 0;\n"
         "  slopes[2] = slopes[3] = 0;\n"
         "}\n"
         "\n");
  }
  if (has_map) {
    TEXT("// What the snippet's mask leaves of the walk's key block, and, where the map kernel wrote it down,\n"
         "// which of this thread's scores: that arrives while the product runs.\n"
         "__device__ __forceinline__ TileState look_up_block(uint32_t seen[2 * SEEN_WORDS], const Walk *walk,\n"
         "                                                   const attnpress_mod_args *mod) {\n"
         "  const uint32_t *map = walk->unit.map;\n"
         "  const TileState state = tile_state(map, walk->n);\n"
         "  if (state == KNOWN_SCORES) {\n"
         "    const int64_t word = map - mod->map + walk->n / 16; // of the whole map\n"
         "    const int place = known_behind(map, walk->n) ? 1 : 0;\n"
         "    const uint32_t *from = mod->bits + (word * ATTNPRESS_MOD_BITS_BLOCKS + place) * BITS_WORDS +\n"
         "                           (threadIdx.x - 128) * (2 * SEEN_WORDS);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 2 * SEEN_WORDS; i += 2) {\n"
         "      const uint2 pair = *(const uint2 *)(from + i);\n"
         "      seen[i] = pair.x;\n"
         "      seen[i + 1] = pair.y;\n"
         "    }\n"
         "  }\n"
         "  return state;\n"
         "}\n"
         "\n");
  }
  TEXT("// Whether this consumer's rows see the unit's ");
  STRING(forwards ? "first" : "last");
  TEXT(" key block, with which the unit begins.\n"
       "__device__ __forceinline__ bool sees_first_block(const Walk *walk) {\n");
  if (forwards) {
    TEXT("  return walk->block_begin < walk->unit.blocks.end;\n");
  } else {
    TEXT("  return walk->block_end == walk->unit.blocks.end && walk->block_end > ");
    STRING(ends_apart ? "walk->block_begin" : "walk->unit.blocks.begin");
    TEXT(";\n");
  }
  TEXT("}\n"
       "\n");
  if (turns) {
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
  if (bias_map) {
    TEXT("// Hands the bias of the walk's key block back, and moves on to the next.\n"
         "__device__ __forceinline__ void return_bias(Walk *walk, uint32_t shared) {\n"
         "  // All lanes arrive and wait: they have read it.\n"
         "  __syncwarp();\n"
         "  arrive_once(bias_empty(shared, walk->bias_stage.index));\n"
         "  walk->bias_stage = next_stage(walk->bias_stage, BIAS_PLACES);\n"
         "}\n"
         "\n");
  }
  if (!stores_once) {
    TEXT("// Lets a key block pass that no row of this consumer sees.\n");
    if (bias_map) {
      TEXT("__device__ __forceinline__ void skip_block(Walk *walk, bool mapped, uint32_t shared, int consumer,\n"
           "                                           Stage stage) {\n");
    } else {
      TEXT("__device__ __forceinline__ void skip_block(uint32_t shared, int consumer, Stage stage) {\n");
    }
    TEXT("  // The wait keeps this warp's arrivals within one phase of the barriers.\n"
         "  wait_for_phase(k_full(shared, stage.index), stage.parity);\n"
         "  arrive_once(k_empty(shared, stage.index));\n");
    if (turns) {
      TEXT("  begin_turn(consumer);\n"
           "  end_turn(consumer);\n");
    }
    if (bias_map) {
      TEXT("  if (mapped) {\n"
           "    wait_for_phase(bias_full(shared, walk->bias_stage.index), walk->bias_stage.parity);\n"
           "    return_bias(walk, shared);\n"
           "  }\n");
    }
    TEXT("  wait_for_phase(v_full(shared, stage.index), stage.parity);\n"
         "  arrive_once(v_empty(shared, stage.index));\n"
         "}\n"
         "\n");
  }
  if (q_in_regs) {
    TEXT("// Rows that packed heads leave over are never copied to: they are zeros from here on.\n"
         "__device__ __forceinline__ void clear_other_rows(const attnpress_fwd_sm90_args *args,\n"
         "                                                 unsigned char *smem, int consumer) {\n"
         "  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;\n"
         "  if (row >= args->warpgroup_positions * args->fwd.heads_per_tile)\n"
         "    for (int chunk = lane / 16; chunk < K_SLABS * 8; chunk += 2)\n"
         "      *(uint4 *)(smem + consumer * Q_BYTES + chunk / 8 * Q_SLAB_BYTES + row * 128 +\n"
         "                 chunk % 8 * 16) = uint4{0, 0, 0, 0};\n"
         "  // All lanes arrive and wait: the warp's rows are zeros before it reads them.\n"
         "  __syncwarp();\n"
         "}\n"
         "\n"
         "// Q of the consumer's next unit becomes fragments. They are under way until a product takes them,\n"
         "// which alone waits for them: its place is handed back behind that.\n"
         "__device__ __forceinline__ void load_q(uint32_t q[K_STEPS][4], uint32_t shared, int consumer,\n"
         "                                       int parity) {\n"
         "  // The copy engine hands over Q.\n"
         "  wait_for_phase(q_full(shared, consumer), parity);\n"
         "  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;\n"
         "  const uint32_t tile = shared + consumer * Q_BYTES + row * 128;\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < K_STEPS; ++step) // chunks of 8 columns are swizzled\n"
         "    ldmatrix_x4(q[step], tile + step / 4 * Q_SLAB_BYTES +\n"
         "                             ((step % 4 * 2 + lane / 16) ^ row % 8) * 16);\n"
         "}\n"
         "\n"
         "// Starts S = Q K^T, (64, BLOCK_N), as a group of its own.\n"
         "__device__ __forceinline__ void start_scores(float score[S_TILES * 4],\n"
         "                                             const uint32_t q[K_STEPS][4], uint32_t shared,\n");
    if (alibi_product) {
      TEXT("                                             int stage, const uint32_t slopes[4],\n"
           "                                             uint64_t numbers) {\n");
    } else {
      TEXT("                                             int stage) {\n");
    }
  } else {
    TEXT("// Starts S = Q K^T, (64, BLOCK_N), as a group of its own.\n"
         "__device__ __forceinline__ void start_scores(float score[S_TILES * 4], uint32_t shared,\n");
    if (alibi_product) {
      TEXT("                                             int consumer, int stage, const uint32_t slopes[4],\n"
           "                                             uint64_t numbers) {\n");
    } else {
      TEXT("                                             int ");
      STRING(q_ahead ? "q_place" : "consumer");
      TEXT(", int stage) {\n");
    }
    TEXT("  const uint64_t q = wgmma_descriptor(shared + ");
    STRING(q_ahead ? "q_place" : "consumer");
    TEXT(" * Q_BYTES, ");
    INTEGER(decode ? 0 : 1024);
    TEXT(", 0);\n");
  }
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  const uint64_t k =\n"
         "      wgmma_descriptor(shared + K_OFFSET, K_GROUP_BYTES, 0) + stage * (K_BYTES / 16);\n");
  } else {
    TEXT("  const uint64_t k = wgmma_descriptor(shared + K_OFFSET, 1024, 0) + stage * (K_BYTES / 16);\n");
  }
  TEXT("  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(score);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < K_STEPS; ++step) {\n");
  if (!q_in_regs) {
    TEXT("    const uint64_t q_step = q + (step / 4 * Q_SLAB_BYTES + step % 4 * 32) / 16;\n");
  }
  TEXT("    const uint64_t k_step = k + (step / 4 * ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "K_SLAB_STEP" : "KEY_SLAB_BYTES");
  TEXT(" + step % 4 * 32) / 16;\n");
  if (q_in_regs) {
    TEXT("    wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_rs(score, q[step], k_step, step > 0);\n");
  } else {
    TEXT("    wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_ss(score, q_step, k_step, step > 0);\n");
  }
  TEXT("  }\n");
  if (alibi_product) {
    TEXT("  wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_bf16_rs_trans(score, slopes, numbers, 1);\n");
  }
  TEXT("  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Starts O += P V, (64, HEAD_DIM_V), as a group of its own");
  STRING(overwrites ? "; O = P V where `begins`" : "");
  TEXT(".\n"
       "__device__ __forceinline__ void start_output(float out[O_TILES * 4], uint32_t p[V_STEPS][4],\n"
       "                                             uint32_t shared, int stage");
  STRING(overwrites ? ", bool begins" : "");
  TEXT(") {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
    TEXT("  const uint64_t v =\n"
         "      wgmma_descriptor(shared + V_OFFSET, V_GROUP_BYTES, V_SLAB_STEP) + stage * (V_BYTES / 16);\n");
  } else {
    TEXT("  const uint64_t v =\n"
         "      wgmma_descriptor(shared + V_OFFSET, 1024, KEY_SLAB_BYTES) + stage * (V_BYTES / 16);\n");
  }
  TEXT("  wgmma_order_n");
  INTEGER(hdim_v);
  TEXT("(out);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < V_STEPS; ++step)\n");
  if ((sequences == AP_ATTENTION_SEQUENCES_PAGED) && overwrites) {
    TEXT("    wgmma_m64n");
    INTEGER(hdim_v);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_rs_trans(out, p[step], v + step * 2 * V_GROUP_BYTES / 16,\n"
         "                                 ");
    STRING((hdim_v >= 100) ? "   " : "");
    TEXT("step > 0 || !begins);\n");
  } else {
    TEXT("    wgmma_m64n");
    INTEGER(hdim_v);
    TEXT("k16_");
    STRING(in->word[AP_ATTENTION_DTYPE]);
    TEXT("_rs_trans(out, p[step], v + ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "step * 2 * V_GROUP_BYTES" : "step * 16 * 128");
    TEXT(" / 16, ");
    STRING(overwrites ? "step > 0 || !begins" : "1");
    TEXT(");\n");
  }
  TEXT("  wgmma_commit();\n"
       "}\n"
       "\n");
  if (q_in_regs) {
    TEXT("// Waits for S of the key block in `stage`, and hands its K back.\n"
         "__device__ __forceinline__ void finish_scores(float score[S_TILES * 4], int pending,\n"
         "                                              uint32_t shared, int stage) {\n"
         "  wgmma_wait(pending);\n"
         "  wgmma_order_n");
    INTEGER(block_n);
    TEXT("(score);\n"
         "  arrive_once(k_empty(shared, stage));\n"
         "}\n"
         "\n");
  } else {
    TEXT("// Waits for S of the key block in `stage`, and hands its K back, and Q after the unit's last block.\n"
         "__device__ __forceinline__ void finish_scores(float score[S_TILES * 4], int pending,\n"
         "                                              uint32_t shared, int ");
    STRING(q_ahead ? "q_place" : "consumer");
    TEXT(", int stage,\n"
         "                                              bool last_block) {\n"
         "  wgmma_wait(pending);\n"
         "  wgmma_order_n");
    INTEGER(block_n);
    TEXT("(score);\n"
         "  arrive_once(k_empty(shared, stage));\n"
         "  if (last_block)\n"
         "    arrive_once(q_empty(shared, ");
    STRING(q_ahead ? "q_place" : "consumer");
    TEXT("));\n"
         "}\n"
         "\n");
  }
  TEXT("// Waits for O += P V.\n"
       "__device__ __forceinline__ void finish_output(float out[O_TILES * 4]) {\n"
       "  wgmma_wait(0);\n"
       "  wgmma_order_n");
  INTEGER(hdim_v);
  TEXT("(out);\n"
       "}\n"
       "\n");
  if (bias == AP_ATTENTION_BIAS_FP32) {
    TEXT("constexpr int BIAS_WORDS = bias_words(BIAS, S_TILES); // of a row in a key block\n"
         "\n"
         "// Loads the bias of the walk's key block, which arrives while its product runs.\n"
         "__device__ __forceinline__ void load_block_bias(uint32_t bias[2][BIAS_WORDS], const Walk *walk,\n"
         "                                                const attnpress_fwd_args *fwd) {\n"
         "  const int key = block_key(&walk->unit, walk->n);\n"
         "#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half)\n"
         "    load_bias(bias[half], BIAS, S_TILES, &fwd->score, walk->score_rows[half].bias,\n"
         "              key + threadIdx.x % 4 * 2, fwd->seqlen_k, key + BLOCK_N <= fwd->seqlen_k);\n"
         "}\n"
         "\n");
  } else if (bias_map) {
    TEXT("// Adds the bias of the walk's key block to its scores. `mapped`: the copy engine brings it.\n"
         "__device__ __forceinline__ void add_block_bias(float score[S_TILES * 4], const Walk *walk,\n"
         "                                               const attnpress_fwd_args *fwd, uint32_t shared,\n"
         "                                               int consumer, bool mapped) {\n"
         "  const float units = fwd->score.units_per_natural;\n"
         "  if (mapped) {\n"
         "    // The copy engine hands over the bias.\n"
         "    wait_for_phase(bias_full(shared, walk->bias_stage.index), walk->bias_stage.parity);\n"
         "    const int row = consumer * 64 + threadIdx.x / 32 % 4 * 16; // the warp's first\n"
         "    add_bias_slabs(score, shared + BIAS_OFFSET + walk->bias_stage.index * BIAS_BYTES + row * 128,\n"
         "                   BIAS_SLAB_BYTES, BIAS, S_TILES, threadIdx.x % 32, units);\n"
         "    return;\n"
         "  }\n"
         "  const int key = block_key(&walk->unit, walk->n), this_key = key + threadIdx.x % 4 * 2;\n"
         "#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half) {\n"
         "    uint32_t bias[bias_words(BIAS, S_TILES)];\n"
         "    load_bias(bias, BIAS, S_TILES, &fwd->score, walk->score_rows[half].bias, this_key,\n"
         "              fwd->seqlen_k, key + BLOCK_N <= fwd->seqlen_k);\n"
         "    add_bias(score, bias, BIAS, S_TILES, half, units);\n"
         "  }\n"
         "}\n"
         "\n");
  }
  if (keeps_here) {
    TEXT("// Starts S = Q K^T of the key block in `stage` and O += P V of the block before, in `last`; the\n"
         "// latter first where a split ends, whose O is then added up while S is computed. V is waited for\n"
         "// here and not with the scores before: in a ring of two stages that is a turn too early.\n"
         "__device__ __forceinline__ void start_blocks(float score[S_TILES * 4], float out[O_TILES * 4],\n"
         "                                             uint32_t p[V_STEPS][4], uint32_t shared,\n"
         "                                             int consumer, Stage stage, Stage last, bool begins,\n"
         "                                             bool split_ends) {\n"
         "  // The copy engine hands over K and V.\n"
         "  wait_for_phase(k_full(shared, stage.index), stage.parity);\n"
         "  wait_for_phase(v_full(shared, last.index), last.parity);\n");
    if (turns) {
      TEXT("  begin_turn(consumer);\n");
    }
    TEXT("  if (split_ends) // known where this is inlined\n"
         "    start_output(out, p, shared, last.index, begins);\n"
         "  start_scores(score, shared, consumer, stage.index);\n"
         "  if (!split_ends)\n"
         "    start_output(out, p, shared, last.index, begins);\n");
    if (turns) {
      TEXT("  end_turn(consumer);\n");
    }
    TEXT("}\n"
         "\n");
  } else {
    if (q_in_regs) {
      TEXT("// Starts S = Q K^T of the key block in `stage` and O += P V of the block before, in `last`, and\n"
           "// waits for S. `first_block`: of a unit, which hands the place of Q back.\n");
    } else {
      TEXT("// Starts S = Q K^T of the key block in `stage` and O += P V of the block before, in `last`, and\n"
           "// waits for S.\n");
    }
    TEXT("__device__ __forceinline__ void exchange_blocks(float score[S_TILES * 4], float out[O_TILES * 4],\n"
         "                                                uint32_t p[V_STEPS][4], uint32_t shared,\n"
         "                                                int consumer, ");
    STRING(q_ahead ? "int q_place, " : "");
    TEXT("Stage stage, Stage last,\n");
    if (bias == AP_ATTENTION_BIAS_FP32) {
      TEXT("                                                uint32_t bias[2][BIAS_WORDS],\n");
    }
    if (bias == AP_ATTENTION_BIAS_FP32) {
      TEXT("                                                const Walk *walk, const attnpress_fwd_args *fwd,\n");
    }
    if (alibi_product) {
      TEXT("                                                const uint32_t slopes[4], uint64_t numbers,\n");
    }
    if (q_in_regs) {
      TEXT("                                                const uint32_t q[K_STEPS][4], bool first_block) {\n");
    } else {
      TEXT("                                                bool last_block");
      STRING(overwrites ? ", bool begins" : "");
      TEXT(") {\n");
    }
    TEXT("  // The copy engine hands over K.\n"
         "  wait_for_phase(k_full(shared, stage.index), stage.parity);\n");
    if (turns) {
      TEXT("  begin_turn(consumer);\n");
    }
    TEXT("  start_scores(score, ");
    STRING(q_in_regs ? "q, shared" : (q_ahead ? "shared, q_place" : "shared, consumer"));
    TEXT(", stage.index");
    STRING(alibi_product ? ", slopes, numbers" : "");
    TEXT(");\n");
    if (q_in_regs) {
      TEXT("  if (first_block)\n"
           "    arrive_once(q_empty(shared, consumer)); // the product has taken the unit's fragments\n");
    }
    TEXT("  start_output(out, p, shared, last.index");
    STRING(overwrites ? ", begins" : "");
    TEXT(");\n");
    if (turns) {
      TEXT("  end_turn(consumer);\n");
    }
    if (bias == AP_ATTENTION_BIAS_FP32) {
      TEXT("  load_block_bias(bias, walk, fwd);\n");
    }
    TEXT("  finish_scores(score, 1, shared, ");
    STRING(q_in_regs ? "stage.index" : (q_ahead ? "q_place, stage.index, last_block" : "consumer, stage.index, last_block"));
    TEXT(");\n"
         "}\n"
         "\n");
  }
  if ((((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || mod_score) || mod_mask) {
    TEXT("// Modifies the scores of the walk's key block, masks them where some row does not see all its keys,\n"
         "// and makes P of them.\n");
  } else {
    if (behind) {
      TEXT("// Masks the scores of the walk's key block where some row does not see all its keys, and follows\n"
           "// the rows' maxima.\n");
    } else {
      TEXT("// Masks the scores of the walk's key block where some row does not see all its keys, and makes P of\n"
           "// them.\n");
    }
  }
  if (behind) {
    TEXT("__device__ __forceinline__ void follow_scores(float score[S_TILES * 4], float reference[2],\n"
         "                                              ");
    STRING(limits ? "float row_sum[2], " : "");
    TEXT("float rescale[2], const Walk *walk,\n");
  } else {
    TEXT("__device__ __forceinline__ void take_scores(float score[S_TILES * 4], float reference[2],\n"
         "                                            float row_sum[2], float rescale[2], ");
    STRING(bias_map ? "" : "const ");
    TEXT("Walk *walk,\n");
  }
  if (mod_score || mod_mask) {
    TEXT("                                            const attnpress_mod_args *mod,\n");
  }
  if (has_map) {
    TEXT("                                            TileState state, uint32_t seen[2 * SEEN_WORDS],\n");
  }
  if (bias == AP_ATTENTION_BIAS_FP32) {
    TEXT("                                            const uint32_t bias[2][BIAS_WORDS],\n");
  } else if (bias_map) {
    TEXT("                                            uint32_t shared, int consumer, bool mapped,\n");
  }
  if (((((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) || mod_score) || mod_mask) {
    TEXT("                                            const attnpress_fwd_args *fwd) {\n"
         "  const float scale_log2 = fwd->scale_log2;\n");
  } else {
    TEXT("                                            ");
    STRING(behind ? "  " : "");
    TEXT("float scale_log2");
    STRING(limits ? ", RowLimits *limits" : "");
    STRING(((plain || behind) || short_rows) ? ", bool first" : "");
    TEXT(") {\n");
  }
  if (softcap) {
    TEXT("  cap_scores(score, S_TILES, &fwd->score);\n");
  }
  if (mod_score) {
    TEXT("#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half)\n"
         "    pass_scores(score, half, mod, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_DENSE) ? "fwd->" : "walk->unit.");
    TEXT("seqlen_q, ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_DENSE) ? "fwd->" : "walk->unit.");
    TEXT("seqlen_k,\n"
         "                walk->snippet_rows[half], block_key(&walk->unit, walk->n) + threadIdx.x % 4 * 2);\n");
  }
  if (has_map) {
    TEXT("  if (state == SOME_SCORES)\n"
         "    ask_snippet(seen, mod, fwd->seqlen_q, fwd->seqlen_k, walk->snippet_rows,\n"
         "                walk->n * BLOCK_N + threadIdx.x % 4 * 2);\n"
         "  if (state != ALL_SCORES)\n"
         "    hide_unseen(score, seen);\n");
  } else if (mod_mask) {
    TEXT("  mask_by_snippet(score, mod, walk->unit.seqlen_q, walk->unit.seqlen_k, walk->snippet_rows,\n"
         "                  walk->n * BLOCK_N + threadIdx.x % 4 * 2);\n");
  }
  if (bias == AP_ATTENTION_BIAS_FP32) {
    TEXT("  add_bias(score, bias[0], BIAS, S_TILES, 0, fwd->score.units_per_natural);\n"
         "  add_bias(score, bias[1], BIAS, S_TILES, 1, fwd->score.units_per_natural);\n");
  } else if (bias_map) {
    TEXT("  add_block_bias(score, walk, fwd, shared, consumer, mapped);\n");
  }
  if (alibi) {
    TEXT("  // Beside the diagonal the distance is no absolute value, and what all of a row's scores share of\n"
         "  // it is added to what they are compared with.\n"
         "  const int first_key = ");
    STRING(outward ? "walk->block" : "walk->n");
    TEXT(" * BLOCK_N, this_key = first_key + threadIdx.x % 4 * 2;\n"
         "  const int side = block_side(walk);\n"
         "  float offset[2] = {0.0f, 0.0f};\n"
         "  if (side != 0) {\n");
    if (alibi_product) {
      TEXT("    // The product has taken off what lies between the nearest key and each key.\n"
           "    const int nearest = side > 0 ? first_key + BLOCK_N - 1 : first_key;\n"
           "    offset[0] = alibi_of_key(walk->score_rows[0], nearest);\n"
           "    offset[1] = alibi_of_key(walk->score_rows[1], nearest);\n");
    } else {
      TEXT("    offset[0] = add_alibi_beside(score, S_TILES, 0, walk->score_rows[0], this_key, side);\n"
           "    offset[1] = add_alibi_beside(score, S_TILES, 1, walk->score_rows[1], this_key, side);\n");
    }
    TEXT("  } else {\n"
         "    add_alibi(score, S_TILES, 0, walk->score_rows[0], this_key);\n"
         "    add_alibi(score, S_TILES, 1, walk->score_rows[1], this_key);\n"
         "  }\n");
  }
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  const bool behind = (walk->n + 1) * BLOCK_N > walk->unmasked.end;\n"
         "  const bool before = walk->n * BLOCK_N < walk->unmasked.begin;\n"
         "  if (behind || before) {\n"
         "#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half)\n"
         "      mask_window_by_bits(score, S_TILES, half, walk->rows[half],\n"
         "                          walk->n * BLOCK_N + threadIdx.x % 4 * 2, behind, before);\n"
         "  }\n");
  } else {
    if (forwards) {
      TEXT("  if (walk->n < walk->masked) {\n");
    } else if (limits && (mask == AP_ATTENTION_MASK_FULL)) {
      TEXT("  // Of all key blocks the unit's first alone, the last of the sequence.\n"
           "  if (first && (walk->n + 1) * BLOCK_N > walk->key_unmasked) {\n");
    } else {
      TEXT("  if ((");
      STRING(outward ? "walk->block" : "walk->n");
      TEXT(" + 1) * BLOCK_N > walk->key_unmasked) {\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half)\n"
         "      mask_scores_by_bits(score, S_TILES, half, walk->rows[half],\n"
         "                          ");
    STRING(outward ? "walk->block" : (forwards ? "block_at(&walk->unit, walk->n)" : "walk->n"));
    TEXT(" * BLOCK_N + threadIdx.x % 4 * 2);\n"
         "  }\n");
  }
  if (far_blocks) {
    TEXT("  take_rows_with_bound(score, S_TILES, reference, row_sum, rescale, scale_log2, offset);\n");
  } else if (alibi) {
    TEXT("  take_rows_with_offset(score, S_TILES, reference, row_sum, rescale, scale_log2, offset);\n");
  } else if (((softcap && (bias == AP_ATTENTION_BIAS_NONE)) && (dtype == AP_ATTENTION_DTYPE_BF16)) && !mod_score) {
    TEXT("  take_capped_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);\n");
  } else if (decode) {
    TEXT("  rescale[1] = 1.0f;\n"
         "  take_row_lazily(score, S_TILES, reference, row_sum, rescale, scale_log2, DTYPE);\n");
  } else if (short_rows || keeps_here) {
    TEXT("  if (first)\n"
         "    begin_limited_rows_at_maxima(score, S_TILES, reference, limits, rescale, scale_log2, DTYPE);\n"
         "  else\n"
         "    follow_rows_by_limits(score, S_TILES, reference, limits, rescale, scale_log2, DTYPE);\n");
    if (!behind) {
      TEXT("  add_limited_rows(score, S_TILES, limits, row_sum, rescale, scale_log2);\n");
    }
  } else if (limits) {
    TEXT("  if (first)\n"
         "    begin_limited_rows(score, S_TILES, reference, limits, rescale, scale_log2, DTYPE);\n"
         "  else\n"
         "    follow_limited_rows(score, S_TILES, reference, row_sum, limits, rescale, scale_log2, DTYPE);\n");
    if (!behind) {
      TEXT("  add_limited_rows(score, S_TILES, limits, row_sum, scale_log2);\n");
    }
  } else if (plain || behind) {
    TEXT("  if (first)\n"
         "    begin_rows(score, S_TILES, reference, rescale, scale_log2, DTYPE);\n"
         "  else\n"
         "    follow_rows(score, S_TILES, reference, rescale, scale_log2, DTYPE);\n");
    if (!behind) {
      TEXT("  add_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);\n");
    }
  } else {
    TEXT("  take_rows_lazily(score, S_TILES, reference, row_sum, rescale, scale_log2, DTYPE);\n");
  }
  if (bias_map) {
    TEXT("  // What was read has become probabilities.\n"
         "  if (mapped)\n"
         "    return_bias(walk, shared);\n");
  }
  TEXT("}\n"
       "\n");
  if (behind) {
    TEXT("// The same of a unit's first block, and makes P of them.\n"
         "__device__ __forceinline__ void take_scores(float score[S_TILES * 4], float reference[2],\n"
         "                                            float row_sum[2], float rescale[2], const Walk *walk,\n"
         "                                            float scale_log2");
    STRING(limits ? ", RowLimits *limits" : "");
    TEXT(") {\n");
    if (limits) {
      TEXT("  follow_scores(score, reference, row_sum, rescale, walk, scale_log2, limits, true);\n"
           "  add_limited_rows(score, S_TILES, limits, row_sum, ");
      STRING(split ? "rescale, " : "");
      TEXT("scale_log2);\n");
    } else {
      TEXT("  follow_scores(score, reference, rescale, walk, scale_log2, true);\n"
           "  add_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);\n");
    }
    TEXT("}\n"
         "\n");
  }
  if (dropout) {
    TEXT("// Drops probabilities of the walk's key block");
    STRING(shares_words ? ", whose V is in `stage`" : "");
    TEXT(".\n"
         "__device__ __forceinline__ void drop_block(uint32_t *p, const Walk *walk,");
    STRING(shares_words ? " int stage," : "");
    TEXT("\n"
         "                                           const attnpress_fwd_args *fwd) {\n");
    if (shares_words) {
      TEXT("  drop_rounded(p, S_TILES, &walk->dropout_rows, dropout_keys[stage], threadIdx.x % 32,\n"
           "               fwd->score.dropout_threshold);\n");
    } else {
      TEXT("  drop_with_head(p, S_TILES, &walk->dropout_rows, &walk->dropout,\n"
           "                 block_key(&walk->unit, walk->n), threadIdx.x % 32,\n"
           "                 fwd->score.dropout_threshold);\n");
    }
    TEXT("}\n"
         "\n");
  }
  if (!split || (sequences != AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("// Of two lanes that hold a piece of each of two tiles, the even one gets both pieces of the first\n"
         "// tile, the other both of the second.\n"
         "__device__ __forceinline__ uint2 exchange_pieces(uint32_t first, uint32_t second) {\n"
         "  const bool odd = threadIdx.x % 2;\n"
         "  const uint32_t received = __shfl_xor_sync(0xffffffff, odd ? first : second, 1);\n"
         "  return odd ? uint2{received, second} : uint2{first, received};\n"
         "}\n"
         "\n");
  }
  if (fixed_splits) {
    if (decode && keeps_split) {
      TEXT("// What a thread keeps of the splits that it has added up of its row.\n"
           "struct Kept {\n"
           "  float out[O_TILES * 2];\n"
           "  WeightedParts parts;\n"
           "};\n"
           "\n"
           "// Adds O, normalised by `ends`, to what is kept of the splits before, if there are some, as\n"
           "// flash_fwd_combine does, and keeps the sum if more splits follow. Returns the row's maximum and\n"
           "// weights.\n"
           "__device__ __forceinline__ float4 add_split(float out[O_TILES * 4], Kept *kept,\n"
           "                                            const RowEnd ends[2], bool first, bool last) {\n"
           "  if (first)\n"
           "    kept->parts = {-INF, 0.0f};\n"
           "  const float2 factors = weigh_part(&kept->parts, ends[0].lse);\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < O_TILES * 2; ++i) {\n"
           "    float *o = out + i / 2 * 4 + i % 2;\n"
           "    *o = add_weighted(factors, kept->out[i], *o * ends[0].normalize);\n"
           "    kept->out[i] = last ? 0.0f : *o; // 0 before the first: no other row's, which may be NaN\n"
           "  }\n"
           "  return {kept->parts.max, 0.0f, kept->parts.weights, 0.0f};\n"
           "}\n"
           "\n");
    } else if (short_rows && adds_up) {
      TEXT("// What a thread keeps of the splits that it has added up of its two rows, in shared memory, by\n"
           "// thread: 16 bytes of maxima and weights, and behind those of all threads 16 bytes a tile of O, by\n"
           "// (tile, thread). No other thread reads it.\n"
           "struct Kept {\n"
           "  float4 *rows;\n"
           "};\n"
           "constexpr int KEPT_THREADS = 128 * CONSUMERS;\n"
           "\n"
           "// Adds O, normalised by `ends`, to what is kept of the splits before, if there are some, as\n"
           "// flash_fwd_combine does, and keeps the sum if more splits follow. The first counts 1, or is zeros.\n"
           "// Returns maxima of both rows, and their weights.\n"
           "__device__ __forceinline__ float4 add_split(float out[O_TILES * 4], const Kept *kept,\n"
           "                                            const RowEnd ends[2], bool first, bool last) {\n"
           "  float4 rows = {-INF, -INF, 0.0f, 0.0f};\n"
           "  if (!first)\n"
           "    rows = kept->rows[0];\n"
           "  WeightedParts parts[2] = {{rows.x, rows.z}, {rows.y, rows.w}};\n"
           "  const float2 factors[2] = {weigh_part(&parts[0], ends[0].lse),\n"
           "                             weigh_part(&parts[1], ends[1].lse)};\n"
           "  rows = {parts[0].max, parts[1].max, parts[0].weights, parts[1].weights};\n"
           "  if (!last)\n"
           "    kept->rows[0] = rows;\n"
           "  float4 *const tiles = kept->rows + KEPT_THREADS;\n"
           "  if (first) {\n"
           "#pragma unroll\n"
           "    for (int tile = 0; tile < O_TILES; ++tile) {\n"
           "      float *o = out + tile * 4;\n"
           "      o[0] *= ends[0].normalize;\n"
           "      o[1] *= ends[0].normalize;\n"
           "      o[2] *= ends[1].normalize;\n"
           "      o[3] *= ends[1].normalize;\n"
           "      if (!last)\n"
           "        tiles[tile * KEPT_THREADS] = float4{o[0], o[1], o[2], o[3]};\n"
           "    }\n"
           "    return rows;\n"
           "  }\n"
           "#pragma unroll\n"
           "  for (int tile = 0; tile < O_TILES; ++tile) {\n"
           "    const float4 before = tiles[tile * KEPT_THREADS];\n"
           "    float *o = out + tile * 4;\n"
           "    o[0] = add_weighted(factors[0], before.x, o[0] * ends[0].normalize);\n"
           "    o[1] = add_weighted(factors[0], before.y, o[1] * ends[0].normalize);\n"
           "    o[2] = add_weighted(factors[1], before.z, o[2] * ends[1].normalize);\n"
           "    o[3] = add_weighted(factors[1], before.w, o[3] * ends[1].normalize);\n"
           "    if (!last)\n"
           "      tiles[tile * KEPT_THREADS] = float4{o[0], o[1], o[2], o[3]};\n"
           "  }\n"
           "  return rows;\n"
           "}\n"
           "\n");
    } else if (keeps_here) {
      TEXT("// What a thread keeps of the splits that it has added up of its two rows: weights, and in shared\n"
           "// memory 16 bytes a tile of O, by (tile, thread). No other thread reads it.\n"
           "struct Kept {\n"
           "  float4 *tiles;\n"
           "  WeightedParts parts[2];\n"
           "};\n"
           "constexpr int KEPT_THREADS = 128 * CONSUMERS;\n"
           "\n"
           "// The end of a split of both rows: what O is multiplied by and, where the splits are added up here,\n"
           "// what the splits before and this one count.\n"
           "struct SplitEnd {\n"
           "  float normalize[2];\n"
           "  float2 factors[2];\n"
           "};\n"
           "\n"
           "// Adds O to what is kept of the splits before, if there are some, as flash_fwd_combine does, and\n"
           "// keeps the sum if more splits follow. The first counts 1, or is zeros.\n"
           "__device__ __forceinline__ void add_split(float out[O_TILES * 4], Kept *kept, const SplitEnd *end,\n"
           "                                          bool first, bool last) {\n"
           "  if (first) {\n"
           "#pragma unroll\n"
           "    for (int tile = 0; tile < O_TILES; ++tile) {\n"
           "      float *o = out + tile * 4;\n"
           "      o[0] *= end->normalize[0];\n"
           "      o[1] *= end->normalize[0];\n"
           "      o[2] *= end->normalize[1];\n"
           "      o[3] *= end->normalize[1];\n"
           "      const float4 sum = {o[0], o[1], o[2], o[3]};\n"
           "      if (!last)\n"
           "        kept->tiles[tile * KEPT_THREADS] = sum;\n"
           "    }\n"
           "    return;\n"
           "  }\n"
           "#pragma unroll\n"
           "  for (int tile = 0; tile < O_TILES; ++tile) {\n");
      if (block_m == 192) {
        TEXT("    // All lanes arrive and wait: tiles further on are not read before, as registers are few.\n"
             "    if (tile % 4 == 0)\n"
             "      __syncwarp();\n");
      }
      TEXT("    const float4 before = kept->tiles[tile * KEPT_THREADS];\n"
           "    float *o = out + tile * 4;\n"
           "    o[0] = add_weighted(end->factors[0], before.x, o[0] * end->normalize[0]);\n"
           "    o[1] = add_weighted(end->factors[0], before.y, o[1] * end->normalize[0]);\n"
           "    o[2] = add_weighted(end->factors[1], before.z, o[2] * end->normalize[1]);\n"
           "    o[3] = add_weighted(end->factors[1], before.w, o[3] * end->normalize[1]);\n"
           "    const float4 sum = {o[0], o[1], o[2], o[3]};\n"
           "    if (!last)\n"
           "      kept->tiles[tile * KEPT_THREADS] = sum;\n"
           "  }\n"
           "}\n"
           "\n");
    } else if (adds_up) {
      TEXT("// What a thread keeps of the splits that it has added up of its two rows: maxima and weights, and\n"
           "// 16 bytes a tile of O. No other thread reads it. All units' are in the same place, which stays in\n"
           "// the L2 cache: the former by (thread block, thread), O by (group, thread block, tile, thread). A\n"
           "// load that waits for another costs a trip there, so that as many are on their way at once as there\n"
           "// are registers for.\n"
           "constexpr int KEPT_TILES = 8; // of a group\n"
           "constexpr int LOADED_TILES = ");
      INTEGER((hdim_v <= 128) ? 16 : 8);
      TEXT("; // at once\n"
           "constexpr int KEPT_THREADS = 128 * CONSUMERS;\n"
           "\n"
           "// weigh_part() of both rows, whose maxima and weights are `rows`.\n"
           "__device__ __forceinline__ void weigh_rows(float2 factors[2], float4 *rows, const RowEnd ends[2],\n"
           "                                           bool first) {\n"
           "  WeightedParts parts[2] = {{first ? -INF : rows->x, rows->z}, {first ? -INF : rows->y, rows->w}};\n"
           "  factors[0] = weigh_part(&parts[0], ends[0].lse);\n"
           "  factors[1] = weigh_part(&parts[1], ends[1].lse);\n"
           "  *rows = {parts[0].max, parts[1].max, parts[0].weights, parts[1].weights};\n"
           "}\n"
           "\n"
           "// Adds O, normalised by `ends`, to what is kept of the splits before, if there are some, as\n"
           "// flash_fwd_combine does, and keeps the sum if more splits follow. Returns maxima of both rows, and\n"
           "// their weights.\n"
           "__device__ __forceinline__ float4 add_split(float out[O_TILES * 4], float *workspace,\n"
           "                                            const RowEnd ends[2], bool first, bool last) {\n"
           "  const int thread = threadIdx.x - 128;\n"
           "  float4 *kept = (float4 *)workspace + blockIdx.x * KEPT_THREADS + thread;\n"
           "  float4 rows = __builtin_bit_cast(float4, load_16_if(!first, kept, 0));\n");
      if ((block_m == 192) || (hdim_v > 128)) {
        TEXT("  float2 factors[2];\n"
             "  weigh_rows(factors, &rows, ends, first);\n"
             "  store_16_if(!last, kept, __builtin_bit_cast(uint4, rows));\n");
      } else {
        TEXT("  float4 *const kept_rows = kept;\n"
             "  float2 factors[2];\n");
      }
      TEXT("  const int blocks = gridDim.x;\n"
           "  const int group = blocks * KEPT_TILES * KEPT_THREADS; // from one to the next\n"
           "  kept = (float4 *)workspace + (blocks + blockIdx.x * KEPT_TILES) * KEPT_THREADS + thread;\n"
           "#pragma unroll\n"
           "  for (int begin = 0; begin < O_TILES; begin += LOADED_TILES) {\n"
           "    float4 *const also = kept + (LOADED_TILES / KEPT_TILES - 1) * group;\n"
           "    float4 before[LOADED_TILES];\n"
           "#pragma unroll\n"
           "    for (int i = 0; i < min_int(LOADED_TILES, O_TILES - begin); ++i)\n"
           "      before[i] = __builtin_bit_cast(\n"
           "          float4,\n"
           "          load_16_if(!first, (i < KEPT_TILES ? kept : also) + i % KEPT_TILES * KEPT_THREADS, 0));\n");
      if ((block_m < 192) && (hdim_v <= 128)) {
        TEXT("    weigh_rows(factors, &rows, ends, first);\n"
             "    store_16_if(!last, kept_rows, __builtin_bit_cast(uint4, rows));\n");
      }
      TEXT("#pragma unroll\n"
           "    for (int i = 0; i < min_int(LOADED_TILES, O_TILES - begin); ++i) {\n"
           "      float *o = out + (begin + i) * 4;\n"
           "      o[0] = add_weighted(factors[0], before[i].x, o[0] * ends[0].normalize);\n"
           "      o[1] = add_weighted(factors[0], before[i].y, o[1] * ends[0].normalize);\n"
           "      o[2] = add_weighted(factors[1], before[i].z, o[2] * ends[1].normalize);\n"
           "      o[3] = add_weighted(factors[1], before[i].w, o[3] * ends[1].normalize);\n"
           "      const float4 sum = {o[0], o[1], o[2], o[3]};\n"
           "      store_16_if(!last, (i < KEPT_TILES ? kept : also) + i % KEPT_TILES * KEPT_THREADS,\n"
           "                  __builtin_bit_cast(uint4, sum));\n"
           "    }\n"
           "    kept += LOADED_TILES / KEPT_TILES * group;\n"
           "  }\n"
           "  return rows;\n"
           "}\n"
           "\n");
    }
    if (adds_up) {
      TEXT("// The end of a row whose splits have been added up: as flash_fwd_combine ends it.\n"
           "__device__ __forceinline__ RowEnd end_added_row(WeightedParts parts,\n"
           "                                                const attnpress_score_args *args, int heads,\n"
           "                                                int head) {\n"
           "  return end_row(parts.max, parts.weights, args, heads, head, false, false);\n"
           "}\n"
           "\n");
    }
    TEXT("// A row of a unit.\n"
         "struct UnitRow {\n"
         "  int position, head;\n"
         "  bool valid;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ UnitRow unit_row(const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
         "                                            int consumer, int half) {\n"
         "  const int row = threadIdx.x / 32 % 4 * 16 + half * 8 + threadIdx.x % 32 / 4; // of the warpgroup\n"
         "  const int row_position = divide(row, &args->heads_per_tile);\n"
         "  const int position = unit->position_begin + consumer * args->warpgroup_positions + row_position;\n"
         "  const int head = (unit->tile_head - row_position) * args->fwd.heads_per_tile + row;\n"
         "  return {position, head, row_position < args->warpgroup_positions && position < unit->seqlen_q};\n"
         "}\n"
         "\n");
    if (one_sequence) {
      TEXT("// The end of a split that is a part, whose O is still to come.\n"
           "struct PartEnd {\n"
           "  bool is_part, valid;\n"
           "  float normalize;\n"
           "  float *out_row;\n"
           "};\n"
           "\n"
           "// Ends a split whose O is still to come, if it is a part: all that does not depend on O, with its\n"
           "// lse. `is_there`: whether the unit is one.\n"
           "__device__ __forceinline__ PartEnd end_part(const float reference[2], const float row_sum[2],\n"
           "                                            const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
           "                                            int consumer, bool is_there) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  const RowEnd end = end_row(reference[0] * fwd->scale_log2, quad_sum(row_sum[0]), &fwd->score,\n"
           "                             fwd->heads_q, 0, DROPOUT, SPLIT);\n"
           "  const UnitRow row = unit_row(args, unit, consumer, 0);\n"
           "  const int64_t partial =\n"
           "      partial_row(fwd, max(unit->split, 0), unit->sequence, row.head, row.position);\n"
           "  const bool is_part = is_there && unit->split >= 0;\n"
           "  if (is_part && row.valid && lane % 4 == 0)\n"
           "    fwd->lse_partial[partial] = end.lse;\n"
           "  // Taken from one of the row's four lanes, so that the compiler finds it here, while the product\n"
           "  // runs, and not where it is needed.\n"
           "  return {is_part, row.valid, __shfl_sync(0xffffffff, end.normalize, lane & 28),\n"
           "          fwd->out_partial + partial * HEAD_DIM_V + lane % 4 * 2};\n"
           "}\n"
           "\n");
    }
    if (keeps_here) {
      TEXT("// Ends a split whose O is still to come: all of the end that does not depend on O.\n"
           "__device__ __forceinline__ SplitEnd end_split(const float reference[2], const float row_sum[2],\n"
           "                                              const attnpress_fwd_sm90_args *args,\n"
           "                                              const Unit *unit, int consumer, Kept *kept) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  if (unit->ends & FIRST_SPLIT)\n"
           "    kept->parts[0] = kept->parts[1] = {-INF, 0.0f};\n"
           "  SplitEnd split_end;\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < 2; ++half) {\n"
           "    const RowEnd end = end_row(reference[half] * fwd->scale_log2, quad_sum(row_sum[half]),\n"
           "                               &fwd->score, fwd->heads_q, 0, DROPOUT, SPLIT);\n"
           "    // The four lanes of a row have the same. It is taken from one, so that the compiler finds it\n"
           "    // here, while products run, and not where it is needed.\n"
           "    const float2 factors = weigh_part(&kept->parts[half], end.lse);\n"
           "    const int lane = threadIdx.x % 32 & 28;\n"
           "    split_end.normalize[half] = __shfl_sync(0xffffffff, end.normalize, lane);\n"
           "    split_end.factors[half] = {__shfl_sync(0xffffffff, factors.x, lane),\n"
           "                               __shfl_sync(0xffffffff, factors.y, lane)};\n"
           "    const UnitRow row = unit_row(args, unit, consumer, half);\n"
           "    if (unit->split >= 0 && row.valid && threadIdx.x % 4 == 0)\n"
           "      fwd->lse_partial[partial_row(fwd, unit->split, unit->sequence, row.head, row.position)] =\n"
           "          end.lse;\n"
           "  }\n"
           "  return split_end;\n"
           "}\n"
           "\n"
           "// Stores O of a split that has ended as a part, or adds it to the splits before, whose sum becomes\n"
           "// the output after the last. O is changed.\n"
           "__device__ __forceinline__ void store_output(float out[O_TILES * 4], const SplitEnd *split_end,\n"
           "                                             const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
           "                                             int consumer, Kept *kept) {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  if (unit->split >= 0) {\n"
           "#pragma unroll\n"
           "    for (int half = 0; half < 2; ++half) {\n"
           "      const UnitRow row = unit_row(args, unit, consumer, half);\n"
           "      const int64_t partial =\n"
           "          partial_row(fwd, unit->split, unit->sequence, row.head, row.position);\n"
           "      float *out_row = fwd->out_partial + partial * HEAD_DIM_V + lane % 4 * 2;\n"
           "      store_partial_row(out_row, out, 0, O_TILES, half, split_end->normalize[half], row.valid);\n"
           "    }\n"
           "    return;\n"
           "  }\n"
           "  add_split(out, kept, split_end, unit->ends & FIRST_SPLIT, unit->ends & LAST_SPLIT);\n");
    } else {
      if (adds_up) {
        TEXT("// out = O / row sum, lse = scale * reference + log(row sum) of a split; rows without keys: 0 and\n"
             "// -inf. They are stored as a part, or added to the splits before, and become the output after the\n"
             "// last. O is changed.\n");
      } else {
        TEXT("// out = O / row sum, lse = scale * reference + log(row sum) of a split; rows without keys: 0 and\n"
             "// -inf. They are stored as a part.\n");
      }
      TEXT("__device__ __forceinline__ void store_output(float out[O_TILES * 4], const float reference[2],\n"
           "                                             const float row_sum[2],\n"
           "                                             const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
           "                                             int consumer");
      STRING(keeps_split ? ", Kept *kept" : "");
      TEXT(") {\n"
           "  const attnpress_fwd_args *fwd = &args->fwd;\n"
           "  const int lane = threadIdx.x % 32;\n"
           "  RowEnd ends[2];\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < ");
      STRING(decode ? "HALVES" : "2");
      TEXT("; ++half)\n"
           "    ends[half] = end_row(reference[half] * fwd->scale_log2, quad_sum(row_sum[half]), &fwd->score,\n"
           "                         fwd->heads_q, 0, DROPOUT, SPLIT);\n");
      if (decode && !keeps_split) {
        TEXT("  ends[1] = ends[0]; // of no row\n");
      }
      TEXT("  if (unit->split >= 0) {\n"
           "#pragma unroll\n"
           "    for (int half = 0; half < ");
      STRING(decode ? "HALVES" : "2");
      TEXT("; ++half) {\n"
           "      const UnitRow row = unit_row(args, unit, consumer, half);\n"
           "      const int64_t partial =\n"
           "          partial_row(fwd, unit->split, unit->sequence, row.head, row.position);\n"
           "      if (row.valid && lane % 4 == 0)\n"
           "        fwd->lse_partial[partial] = ends[half].lse;\n"
           "      float *out_row = fwd->out_partial + partial * HEAD_DIM_V + lane % 4 * 2;\n"
           "      store_partial_row(out_row, out, 0, O_TILES, half, ends[half].normalize, row.valid);\n"
           "    }\n"
           "    return;\n"
           "  }\n");
      if (adds_up) {
        TEXT("  const float4 rows =\n"
             "      add_split(out, ");
        STRING(keeps_split ? "kept" : "fwd->out_partial");
        TEXT(", ends, unit->ends & FIRST_SPLIT,\n"
             "                unit->ends & LAST_SPLIT);\n");
      }
    }
    if (adds_up) {
      TEXT("  if (!(unit->ends & LAST_SPLIT))\n"
           "    return;\n"
           "#pragma unroll\n"
           "  for (int half = 0; half < ");
      STRING(decode ? "HALVES" : "2");
      TEXT("; ++half) {\n"
           "    const UnitRow row = unit_row(args, unit, consumer, half);\n");
      if (keeps_here) {
        TEXT("    const RowEnd end = end_added_row(kept->parts[half], &fwd->score, fwd->heads_q, row.head);\n");
      } else {
        TEXT("    const RowEnd end =\n"
             "        end_added_row({half == 0 ? rows.x : rows.y, half == 0 ? rows.z : rows.w}, &fwd->score,\n"
             "                      fwd->heads_q, row.head);\n");
      }
      TEXT("    if (fwd->lse && row.valid && lane % 4 == 0)\n"
           "      fwd->lse[lse_of_unit(args, unit, row.head, row.position)] =\n"
           "          stored_lse(&ragged_args(args)->ragged, end.lse);\n"
           "    // Two lanes exchange pieces, so that each stores 8 bytes of one tile, and a store fills whole\n"
           "    // sectors of 32 bytes. The sums of flash_fwd_combine have no -0.\n"
           "    uint16_t *out_row = (uint16_t *)fwd->out +\n"
           "                        out_offset(fwd, unit->q_batch, row.head, unit->q_row + row.position) +\n"
           "                        lane % 2 * 8 + lane / 2 % 2 * 4;\n"
           "#pragma unroll\n"
           "    for (int tile = 0; tile < O_TILES; tile += 2) {\n"
           "      const float *first = out + tile * 4 + half * 2;\n"
           "      const float *second = out + min_int(tile + 1, O_TILES - 1) * 4 + half * 2;\n"
           "      const uint2 pieces = exchange_pieces(\n"
           "          pack(DTYPE, (first[0] + 0.0f) * end.normalize, (first[1] + 0.0f) * end.normalize),\n"
           "          pack(DTYPE, (second[0] + 0.0f) * end.normalize, (second[1] + 0.0f) * end.normalize));\n"
           "      if (row.valid && (tile + 1 < O_TILES || lane % 2 == 0))\n"
           "        *(uint2 *)(out_row + tile * 8) = pieces;\n"
           "    }\n"
           "  }\n");
    }
    TEXT("}\n");
  } else {
    TEXT("// out = O / row sum, lse = scale * reference + log(row sum). Rows without keys: 0 and -inf.\n"
         "__device__ __forceinline__ void store_output(const float out[O_TILES * 4], const float reference[2],\n"
         "                                             const float row_sum[2],\n"
         "                                             const attnpress_fwd_sm90_args *args, const Unit *unit,\n"
         "                                             int consumer) {\n"
         "  const attnpress_fwd_args *fwd = &args->fwd;\n"
         "  const int lane = threadIdx.x % 32;\n");
    if (skips_warps) {
      TEXT("  const int warp_begin = unit->position_begin + consumer * args->warpgroup_positions +\n"
           "                         divide(threadIdx.x / 32 % 4 * 16, &args->heads_per_tile);\n"
           "  const bool past = warp_begin >= unit->");
      STRING(last_is_full ? "position_end" : "seqlen_q");
      TEXT(";\n"
           "  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
           "  if (__shfl_sync(0xffffffff, past, 0))\n"
           "    return; // none of its rows is there\n");
    }
    TEXT("  const float sums[2] = {quad_sum(row_sum[0]), quad_sum(row_sum[1])};\n");
    if (offsets_ahead) {
      TEXT("  const int first = consumer * args->warpgroup_positions; // position of this consumer's rows\n"
           "  const int there = min(args->warpgroup_positions, unit->");
      STRING(last_is_full ? "position_end" : "seqlen_q");
      TEXT(" - unit->position_begin - first);\n"
           "  uint16_t *first_row = (uint16_t *)fwd->out + unit->out + first * fwd->out_row_stride +\n"
           "                        lane % 2 * 8 + lane / 2 % 2 * 4;\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int half = 0; half < 2; ++half) {\n"
         "    const int row = threadIdx.x / 32 % 4 * 16 + half * 8 + lane / 4; // of the warpgroup\n");
    if (offsets_ahead) {
      TEXT("    const int row_position = divide(row, &args->heads_per_tile);\n"
           "    const int head = (unit->tile_head - row_position) * fwd->heads_per_tile + row;\n"
           "    const bool valid = row_position < there;\n");
    } else {
      TEXT("    const int row_position = divide(row, &args->heads_per_tile);\n"
           "    const int position = unit->position_begin + consumer * args->warpgroup_positions + row_position;\n"
           "    const int head = (unit->tile_head - row_position) * fwd->heads_per_tile + row;\n");
      if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
        TEXT("    const bool valid = row_position < args->warpgroup_positions && position < unit->");
        STRING(last_is_full ? "position_end" : "seqlen_q");
        TEXT(";\n");
      } else if (last_is_full) {
        TEXT("    const bool valid = row_position < args->warpgroup_positions &&\n"
             "                       position < position_end(args, unit) && head < fwd->heads_q;\n");
      } else {
        TEXT("    const bool valid = row_position < args->warpgroup_positions && position < fwd->seqlen_q &&\n"
             "                       head < fwd->heads_q;\n");
      }
    }
    TEXT("    const RowEnd end = end_row(reference[half] * fwd->scale_log2, sums[half], &fwd->score,\n"
         "                               fwd->heads_q, head, DROPOUT, SPLIT);\n");
    if (split) {
      TEXT("    const int64_t partial = partial_row(fwd, unit->split, unit->batch, head, position);\n"
           "    if (valid && lane % 4 == 0)\n"
           "      fwd->lse_partial[partial] = end.lse;\n"
           "    float *out_row = fwd->out_partial + partial * HEAD_DIM_V + lane % 4 * 2;\n"
           "    store_partial_row(out_row, out, 0, O_TILES, half, end.normalize, valid);\n");
    } else {
      if (offsets_ahead) {
        TEXT("    if (fwd->lse && valid && lane % 4 == 0)\n"
             "      fwd->lse[unit->lse + (first + row_position) * ragged_args(args)->ragged.lse_row_stride +\n"
             "               (row - row_position * fwd->heads_per_tile) * fwd->lse_head_stride] =\n"
             "          stored_lse(&ragged_args(args)->ragged, end.lse);\n");
      } else if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
        TEXT("    if (fwd->lse && valid && lane % 4 == 0)\n"
             "      fwd->lse[lse_of_unit(args, unit, head, position)] =\n"
             "          stored_lse(&ragged_args(args)->ragged, end.lse);\n");
      } else {
        TEXT("    if (fwd->lse && valid && lane % 4 == 0)\n"
             "      fwd->lse[lse_offset(fwd, unit->batch, head, position)] = end.lse;\n");
      }
      TEXT("    // A quad holds a tile's 8 columns of a row in pieces of two. Two lanes exchange pieces, so that\n"
           "    // each stores 8 bytes of one tile, and a store fills whole sectors of 32 bytes.\n");
      if (offsets_ahead) {
        TEXT("    uint16_t *out_row = first_row + row_offsets[row];\n");
      } else if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
        TEXT("    uint16_t *out_row = (uint16_t *)fwd->out +\n"
             "                        out_offset(fwd, unit->q_batch, head, unit->q_row + position) +\n"
             "                        lane % 2 * 8 + lane / 2 % 2 * 4;\n");
      } else {
        TEXT("    uint16_t *out_row = (uint16_t *)fwd->out + out_offset(fwd, unit->batch, head, position) +\n"
             "                        lane % 2 * 8 + lane / 2 % 2 * 4;\n");
      }
      TEXT("#pragma unroll\n"
           "    for (int tile = 0; tile < O_TILES; tile += 2) {\n"
           "      const float *first = out + tile * 4 + half * 2;\n"
           "      const float *second = out + min_int(tile + 1, O_TILES - 1) * 4 + half * 2;\n"
           "      const uint2 pieces =\n"
           "          exchange_pieces(pack(DTYPE, first[0] * end.normalize, first[1] * end.normalize),\n"
           "                          pack(DTYPE, second[0] * end.normalize, second[1] * end.normalize));\n"
           "      if (valid && (tile + 1 < O_TILES || lane % 2 == 0))\n"
           "        *(uint2 *)(out_row + tile * 8) = pieces;\n"
           "    }\n");
    }
    TEXT("  }\n"
         "}\n"
         "\n");
  }
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
    TEXT("// Stores the output of the unit at place `n` % UNITS, and hands the place back.\n");
    if (keeps_here) {
      TEXT("__device__ __forceinline__ void store_unit(float out[O_TILES * 4], const SplitEnd *split_end,\n"
           "                                           const attnpress_fwd_sm90_args *args, int n,\n"
           "                                           int consumer, Kept *kept) {\n"
           "  store_output(out, split_end, args, &units[n % UNITS], consumer, kept);\n");
    } else {
      TEXT("__device__ __forceinline__ void store_unit(");
      STRING(fixed_splits ? "" : "const ");
      TEXT("float out[O_TILES * 4], const float reference[2],\n"
           "                                           const float row_sum[2],\n"
           "                                           const attnpress_fwd_sm90_args *args, int n,\n"
           "                                           int consumer");
      STRING(keeps_split ? ", Kept *kept" : "");
      STRING(one_sequence ? ",\n                                           bool is_there" : "");
      TEXT(") {\n");
      if (one_sequence) {
        TEXT("  if (is_there)\n"
             "    store_output(out, reference, row_sum, args, &units[n % UNITS], consumer");
        STRING(keeps_split ? ", kept" : "");
        TEXT(");\n");
      } else {
        TEXT("  store_output(out, reference, row_sum, args, &units[n % UNITS], consumer");
        STRING(keeps_split ? ", kept" : "");
        TEXT(");\n");
      }
    }
    TEXT("  // All lanes arrive and wait: they have read the unit.\n"
         "  __syncwarp();\n"
         "  arrive_once(unit_empty(n % UNITS));\n"
         "}\n"
         "\n");
  }
  TEXT("// One consumer: 64 rows of each unit.\n");
  if (q_in_regs) {
    TEXT("__device__ __forceinline__ void consume(const attnpress_fwd_sm90_args *args, unsigned char *smem,\n"
         "                                        uint32_t shared, int consumer) {\n"
         "  clear_other_rows(args, smem, consumer);\n");
  } else if (bias_map) {
    TEXT("__device__ __forceinline__ void consume(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
         "                                        int consumer, bool mapped) {\n");
  } else if (keeps_here || (short_rows && adds_up)) {
    TEXT("__device__ __forceinline__ void consume(const attnpress_fwd_sm90_args *args, unsigned char *smem,\n"
         "                                        uint32_t shared, int consumer) {\n"
         "  Kept kept = {(float4 *)(smem + KEPT_OFFSET) + (threadIdx.x - 128)");
    STRING(keeps_here ? ", {}" : "");
    TEXT("};\n");
  } else {
    TEXT("__device__ __forceinline__ void consume(const attnpress_fwd_sm90_args *args, uint32_t shared,\n"
         "                                        int consumer) {\n");
    if (keeps_split) {
      TEXT("  Kept kept = {};\n");
    }
  }
  if (((((softcap || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) || mod_score) || mod_mask) {
    TEXT("  const attnpress_fwd_args *fwd = &args->fwd;\n");
  } else {
    TEXT("  const float scale_log2 = args->fwd.scale_log2;\n");
  }
  if (turns) {
    TEXT("  if (consumer == CONSUMERS - 1)\n"
         "    end_turn(consumer); // the first turn is the first consumer's\n");
  }
  if (mod_score || mod_mask) {
    TEXT("  const attnpress_mod_args *mod = snippet_args_sm90(args);\n");
  }
  TEXT("  Walk walk;\n");
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
    TEXT("  walk.place = {-1, 0};\n");
  } else {
    TEXT("  walk.round = -1;\n");
  }
  if (bias_map) {
    TEXT("  walk.bias_stage = {0, 0};\n");
  }
  if (alibi_product) {
    TEXT("  walk.slope_side = threadIdx.x % 4 < 2 ? 1 : -1;\n"
         "  walk.key_numbers = wgmma_descriptor(opaque(shared_address(key_numbers)), 0, 1024);\n");
  }
  TEXT("  bool more = next_unit(&walk, args, consumer);\n"
       "  Stage stage = {0, 0}; // of the key block in `score`\n");
  if (q_ahead) {
    TEXT("  uint32_t q_turn = consumer; // whose place of Q is its rest, and whose phase the quotient's parity\n");
  } else {
    TEXT("  int q_parity = 0;\n");
  }
  TEXT("  // Each pass is a stream of key blocks, as far as this consumer's rows see them all.\n"
       "  while (more) {\n"
       "    float out[O_TILES * 4] = {};\n"
       "    float reference[2] = {-INF, -INF}, row_sum[2] = {0.0f, 0.0f}, rescale[2];\n");
  if (limits) {
    TEXT("    RowLimits limits;\n");
  }
  if (keeps_here) {
    TEXT("    SplitEnd split_end; // of the split whose O is to be stored next\n");
  }
  TEXT("    const bool has_keys = walk.unit.blocks.begin < walk.unit.blocks.end;\n");
  if (one_sequence) {
    TEXT("    PartEnd part = {};\n");
  }
  if (!q_in_regs) {
    TEXT("    if (has_keys) // the copy engine hands over Q\n"
         "      wait_for_phase(q_full(shared, ");
    STRING(q_ahead ? "q_turn % Q_PLACES" : "consumer");
    TEXT("), ");
    STRING(q_ahead ? "q_turn / Q_PLACES % 2" : "q_parity");
    TEXT(");\n");
  }
  if (stores_once) {
    TEXT("    if (has_keys) { // as far as the store; rows are one consumer's, and some see each key block\n");
  } else {
    if (has_map) {
      TEXT("    for (; walk.n >= walk.block_end && has_keys; walk.n = block_after(&walk.unit, walk.n)) {\n");
    } else if (forwards) {
      TEXT("    const bool has_rows = walk.block_begin < walk.unit.blocks.end;\n"
           "    for (; walk.n >= 0 && !has_rows; --walk.n) {\n");
    } else {
      TEXT("    for (; walk.n >= walk.block_end && has_keys; --walk.n) {\n");
    }
    TEXT("      skip_block(");
    STRING(bias_map ? "&walk, mapped, " : "");
    TEXT("shared, consumer, stage);\n"
         "      stage = next_stage(stage, STAGES);\n"
         "    }\n"
         "    if (walk.n < ");
    STRING(ends_apart ? "walk.block_begin" : "walk.unit.blocks.begin");
    TEXT(") { // no row of this consumer sees a key\n");
    if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
      if (keeps_here) {
        TEXT("      split_end = end_split(reference, row_sum, args, &units[walk.place.index], consumer, &kept);\n"
             "      store_unit(out, &split_end, args, walk.place.index, consumer, &kept);\n");
      } else {
        TEXT("      store_unit(out, reference, row_sum, args, walk.place.index, consumer");
        STRING(keeps_split ? ", &kept" : "");
        STRING(one_sequence ? ", true" : "");
        TEXT(");\n");
      }
    } else {
      TEXT("      store_output(out, reference, row_sum, args, &walk.unit, consumer);\n");
    }
    if (fixed_splits) {
      TEXT("      if (has_keys && walk.unit.ends & LAST_SPLIT)\n"
           "        arrive_once(q_empty(shared, ");
      STRING(q_ahead ? "q_turn % Q_PLACES" : "consumer");
      TEXT("));\n");
      if (q_ahead) {
        TEXT("      q_turn += has_keys && walk.unit.ends & LAST_SPLIT ? ");
        STRING(short_rows ? "Q_STEP" : "CONSUMERS");
        TEXT(" : 0;\n");
      } else {
        TEXT("      q_parity ^= has_keys && walk.unit.ends & LAST_SPLIT ? 1 : 0;\n");
      }
    } else {
      if (q_in_regs) {
        TEXT("      if (has_keys) {\n"
             "        // The wait keeps this warp's arrivals within one phase of the barriers.\n"
             "        wait_for_phase(q_full(shared, consumer), q_parity);\n"
             "        arrive_once(q_empty(shared, consumer));\n"
             "      }\n");
      } else {
        TEXT("      if (has_keys)\n"
             "        arrive_once(q_empty(shared, ");
        STRING(q_ahead ? "q_turn % Q_PLACES" : "consumer");
        TEXT("));\n");
      }
      if (q_ahead) {
        TEXT("      q_turn += has_keys ? CONSUMERS : 0;\n");
      } else {
        TEXT("      q_parity ^= has_keys;\n");
      }
    }
    TEXT("      more = next_unit(&walk, args, consumer);\n"
         "      continue;\n"
         "    }\n"
         "\n");
  }
  TEXT("    // S = Q K^T of the stream's first block; the copy engine hands over K.\n"
       "    float score[S_TILES * 4];\n"
       "    uint32_t p[V_STEPS][4];\n");
  if (q_in_regs) {
    TEXT("    uint32_t q[K_STEPS][4];\n"
         "    load_q(q, shared, consumer, q_parity);\n");
  }
  if (bias == AP_ATTENTION_BIAS_FP32) {
    TEXT("    uint32_t bias[2][BIAS_WORDS];\n");
  }
  if (alibi_product) {
    TEXT("    uint32_t slopes[4];\n"
         "    take_slopes(slopes, &walk);\n");
  }
  if (has_map) {
    TEXT("    uint32_t seen[2 * SEEN_WORDS];\n"
         "    TileState state = look_up_block(seen, &walk, mod);\n");
  }
  TEXT("    wait_for_phase(k_full(shared, stage.index), stage.parity);\n");
  if (turns) {
    TEXT("    begin_turn(consumer);\n");
  }
  TEXT("    start_scores(score, ");
  STRING(q_in_regs ? "q, shared" : (q_ahead ? "shared, q_turn % Q_PLACES" : "shared, consumer"));
  TEXT(", stage.index");
  STRING(alibi_product ? ", slopes, walk.key_numbers" : "");
  TEXT(");\n");
  if (q_in_regs) {
    TEXT("    arrive_once(q_empty(shared, consumer)); // the product has taken the unit's fragments\n");
  }
  if (turns) {
    TEXT("    end_turn(consumer);\n");
  }
  if (bias == AP_ATTENTION_BIAS_FP32) {
    TEXT("    load_block_bias(bias, &walk, fwd);\n");
  }
  if (fixed_splits) {
    TEXT("    finish_scores(score, 0, shared, ");
    STRING(q_ahead ? "q_turn % Q_PLACES" : "consumer");
    TEXT(", stage.index,\n"
         "                  walk.n == ");
    STRING((mask == AP_ATTENTION_MASK_WINDOW) ? "walk.block_begin" : "walk.unit.blocks.begin");
    TEXT(" && walk.unit.ends & LAST_SPLIT);\n");
  } else if (q_in_regs) {
    TEXT("    finish_scores(score, 0, shared, stage.index);\n");
  } else {
    if (q_ahead) {
      TEXT("    finish_scores(score, 0, shared, q_turn % Q_PLACES, stage.index,\n"
           "                  walk.n == ");
      STRING(ends_apart ? "walk.block_begin" : "walk.unit.blocks.begin");
      TEXT(");\n");
    } else {
      TEXT("    finish_scores(score, 0, shared, consumer, stage.index, walk.n == ");
      STRING(ends_apart ? "walk.block_begin" : "walk.unit.blocks.begin");
      TEXT(");\n");
    }
  }
  TEXT("    take_scores(score, reference, row_sum, rescale, &walk, ");
  STRING((mod_score || mod_mask) ? "mod, " : "");
  STRING(has_map ? "state, seen, " : "");
  STRING((bias == AP_ATTENTION_BIAS_FP32) ? "bias, fwd" : ((bias != AP_ATTENTION_BIAS_NONE) ? "shared, consumer, mapped, fwd" : (((((softcap || alibi) || dropout) || mod_score) || mod_mask) ? "fwd" : "scale_log2")));
  STRING(limits ? ", &limits" : "");
  STRING(((plain || short_rows) && !behind) ? ", true" : "");
  TEXT(");\n"
       "\n");
  if ((sequences == AP_ATTENTION_SEQUENCES_DENSE) && !has_map) {
    TEXT("    Unit last_unit; // the unit before, and what it leaves to be stored\n");
  }
  if (keeps_here) {
    TEXT("    Stage last; // of the P V in flight\n");
  } else {
    TEXT("    float last_reference[2], last_sum[2];\n"
         "    Stage last = {-1, 0}; // of the P V in flight\n");
  }
  if (overwrites) {
    TEXT("    bool begins; // 1: the unit's next P V is its first\n");
  }
  if (far_blocks) {
    TEXT("    bool far; // whether the unit's last key blocks are\n");
  }
  if (ends_apart) {
    TEXT("    int unseen; // key blocks of the last unit that come after those which this consumer's rows see\n");
  }
  TEXT("    for (;;) {\n");
  if (keeps_here) {
    TEXT("      // The unit's first P is in `score`.\n"
         "      round_probabilities(p[0], score, S_TILES, DTYPE);\n"
         "      begins = true;\n"
         "\n");
  } else {
    TEXT("      // The unit's first P is in `score`, the last P V of the unit before is in flight. The copy\n"
         "      // engine hands over V; this wait also keeps the compiler from moving exponentials behind the\n"
         "      // next one.\n"
         "      wait_for_phase(v_full(shared, stage.index), stage.parity);\n"
         "      finish_output(out);\n"
         "      if (last.index >= 0) {\n"
         "        arrive_once(v_empty(shared, last.index));\n");
    if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
      TEXT("        store_unit(out, last_reference, last_sum, args, walk.place.index + UNITS - 1,\n"
           "                   consumer");
      STRING(keeps_split ? ", &kept" : "");
      STRING(one_sequence ? ",\n                   last_is_there(&walk)" : "");
      TEXT(");\n");
    } else {
      TEXT("        store_output(out, last_reference, last_sum, args, &last_unit, consumer);\n");
    }
    TEXT("      }\n");
    if (overwrites) {
      if (by_second) {
        TEXT("      const int second = walk.n - 1; // of the unit's key blocks\n");
      } else {
        TEXT("      begins = true;\n");
      }
    } else {
      TEXT("      for (int i = 0; i < O_TILES * 4; ++i)\n"
           "        out[i] = 0.0f;\n");
    }
    TEXT("      round_probabilities(p[0], score, S_TILES, DTYPE);\n"
         "\n");
  }
  if (dropout) {
    TEXT("      drop_block(p[0], &walk, ");
    STRING(shares_words ? "stage.index, " : "");
    TEXT("fwd);\n"
         "\n");
  }
  if (has_map) {
    TEXT("      for (;;) {\n"
         "        walk.n = block_after(&walk.unit, walk.n);\n"
         "        if (walk.n < walk.unit.blocks.begin)\n"
         "          break;\n");
  } else {
    if (far_blocks) {
      TEXT("      // By a vote, so that the compiler knows it to be the same in the whole warp.\n"
           "      for (--walk.n; !__any_sync(0xffffffff, walk.n < walk.near_begin); --walk.n) {\n");
    } else {
      TEXT("      for (--walk.n; walk.n >= ");
      STRING(ends_apart ? "walk.block_begin" : "walk.unit.blocks.begin");
      TEXT("; --walk.n) {\n");
    }
  }
  TEXT("        last = stage;\n"
       "        stage = next_stage(stage, STAGES);\n");
  if (outward) {
    TEXT("        walk.block = block_at(&walk.unit, walk.n);\n");
  }
  if (alibi_product) {
    TEXT("        take_slopes(slopes, &walk);\n");
  }
  if (has_map) {
    TEXT("        state = look_up_block(seen, &walk, mod);\n");
  }
  if (keeps_here) {
    TEXT("        start_blocks(score, out, p, shared, consumer, stage, last, begins, false);\n"
         "        finish_scores(score, 1, shared, consumer, stage.index,\n"
         "                      walk.n == walk.unit.blocks.begin && walk.unit.ends & LAST_SPLIT);\n");
  } else if (q_in_regs) {
    TEXT("        exchange_blocks(score, out, p, shared, consumer, stage, last,");
    STRING(alibi_product ? " slopes, walk.key_numbers," : "");
    TEXT(" q, false);\n");
  } else {
    TEXT("        exchange_blocks(score, out, p, shared, consumer, ");
    STRING(q_ahead ? "q_turn % Q_PLACES, " : "");
    TEXT("stage, last,");
    STRING((bias == AP_ATTENTION_BIAS_FP32) ? " bias, &walk, fwd," : "");
    TEXT("\n"
         "                        ");
    STRING(alibi_product ? "slopes, walk.key_numbers, " : "");
    STRING(((limits && q_ahead) && !split) ? "false" : (ends_apart ? "walk.n == walk.block_begin" : "walk.n == walk.unit.blocks.begin"));
    STRING(fixed_splits ? " && walk.unit.ends & LAST_SPLIT" : "");
    STRING(by_second ? ", walk.n == second" : (overwrites ? ", begins" : ""));
    TEXT(");\n");
  }
  if (overwrites && !by_second) {
    TEXT("        begins = false;\n");
  }
  if (behind) {
    TEXT("        follow_scores(score, reference, ");
    STRING(limits ? "row_sum, " : "");
    TEXT("rescale, &walk, scale_log2");
    STRING(limits ? ", &limits" : "");
    TEXT(", false);\n");
  } else {
    TEXT("        take_scores(score, reference, row_sum, rescale, &walk, ");
    STRING((mod_score || mod_mask) ? "mod, " : "");
    STRING(has_map ? "state, seen, " : "");
    STRING((bias == AP_ATTENTION_BIAS_FP32) ? "bias, fwd" : ((bias != AP_ATTENTION_BIAS_NONE) ? "shared, consumer, mapped, fwd" : (((((softcap || alibi) || dropout) || mod_score) || mod_mask) ? "fwd" : "scale_log2")));
    STRING(limits ? ", &limits" : "");
    STRING(((plain || short_rows) && !behind) ? ", false" : "");
    TEXT(");\n");
  }
  if (!keeps_here) {
    TEXT("        // As above.\n"
         "        wait_for_phase(v_full(shared, stage.index), stage.parity);\n");
  }
  TEXT("        finish_output(out);\n"
       "        arrive_once(v_empty(shared, last.index));\n");
  if (limits) {
    TEXT("        rescale_followed_rows(out, O_TILES, &limits, rescale);\n");
  } else {
    TEXT("        rescale_rows(out, O_TILES, rescale);\n");
  }
  if (behind) {
    if (limits) {
      TEXT("        // Behind the branch in rescale_followed_rows(), over which the compiler moves no\n"
           "        // exponentials: they run under the other consumers' products, each beside an addition.\n"
           "        add_limited_rows(score, S_TILES, &limits, row_sum, ");
      STRING(split ? "rescale, " : "");
      TEXT("scale_log2);\n");
    } else {
      TEXT("        // Behind the vote in rescale_rows(), over which the compiler moves no exponentials: they\n"
           "        // run under the other consumers' products, each beside an addition of the sum.\n"
           "        add_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);\n");
    }
  }
  TEXT("        round_probabilities(p[0], score, S_TILES, DTYPE);\n");
  if (dropout) {
    TEXT("        drop_block(p[0], &walk, ");
    STRING(shares_words ? "stage.index, " : "");
    TEXT("fwd);\n");
  }
  TEXT("      }\n"
       "\n");
  if (by_second) {
    TEXT("      begins = walk.n == second;\n");
  }
  if ((limits && q_ahead) && !split) {
    TEXT("      if (!begins)\n"
         "        arrive_once(q_empty(shared, q_turn % Q_PLACES));\n");
  }
  if (far_blocks) {
    TEXT("      far = walk.n >= walk.unit.blocks.begin;\n"
         "      if (far) {\n"
         "        // All P of most key blocks that are left are zeros, so that these take S alone. Its\n"
         "        // products do not run with those of P V here.\n"
         "        start_output(out, p, shared, stage.index);\n"
         "        finish_output(out);\n"
         "        arrive_once(v_empty(shared, stage.index));\n"
         "        for (; walk.n >= walk.unit.blocks.begin; --walk.n) {\n"
         "          stage = next_stage(stage, STAGES);\n");
    if (outward) {
      TEXT("          walk.block = block_at(&walk.unit, walk.n);\n");
    }
    TEXT("          take_slopes(slopes, &walk);\n"
         "          wait_for_phase(k_full(shared, stage.index), stage.parity);\n");
    if (turns) {
      TEXT("          begin_turn(consumer);\n");
    }
    TEXT("          start_scores(score, shared, consumer, stage.index, slopes, walk.key_numbers);\n");
    if (turns) {
      TEXT("          end_turn(consumer);\n");
    }
    TEXT("          finish_scores(score, 0, shared, consumer, stage.index,\n"
         "                        walk.n == walk.unit.blocks.begin);\n"
         "          const bool nothing =\n"
         "              weighs_nothing(score, reference, &walk, fwd->scale_log2, consumer);\n"
         "          // As above; the wait also keeps this warp's arrivals within one phase of the barriers.\n"
         "          wait_for_phase(v_full(shared, stage.index), stage.parity);\n"
         "          if (!nothing) {\n"
         "            take_scores(score, reference, row_sum, rescale, &walk, fwd);\n"
         "            rescale_rows(out, O_TILES, rescale);\n"
         "            round_probabilities(p[0], score, S_TILES, DTYPE);\n"
         "            start_output(out, p, shared, stage.index);\n"
         "            finish_output(out);\n"
         "          }\n"
         "          arrive_once(v_empty(shared, stage.index));\n"
         "        }\n"
         "      }\n");
  }
  if ((sequences == AP_ATTENTION_SEQUENCES_DENSE) && !has_map) {
    TEXT("      last_unit = walk.unit;\n");
  }
  if (q_ahead && fixed_splits) {
    TEXT("      q_turn += walk.unit.ends & LAST_SPLIT ? ");
    STRING(short_rows ? "Q_STEP" : "CONSUMERS");
    TEXT(" : 0;\n");
  } else if (q_ahead) {
    TEXT("      q_turn += CONSUMERS;\n");
  } else {
    TEXT("      q_parity ^= ");
    STRING(fixed_splits ? "walk.unit.ends & LAST_SPLIT ? 1 : 0" : "1");
    TEXT(";\n");
  }
  if (ends_apart) {
    TEXT("      unseen = walk.block_begin - walk.unit.blocks.begin;\n"
         "      more = next_unit(&walk, args, consumer);\n");
    if (!unit_streams) {
      TEXT("      if (unseen > 0 || !more || !sees_first_block(&walk))\n"
           "        break;\n");
    }
  } else {
    TEXT("      more = next_unit(&walk, args, consumer);\n");
    if (!unit_streams) {
      TEXT("      if (");
      STRING(far_blocks ? "far || " : "");
      TEXT("!more || !sees_first_block(&walk))\n"
           "        break;\n");
    }
  }
  if (unit_streams) {
    TEXT("      break; // beside the next unit's scores there is no room for what is kept of the splits\n"
         "    }\n"
         "\n");
  } else {
    TEXT("      last = stage;\n"
         "      stage = next_stage(stage, STAGES);\n");
    if (alibi_product) {
      TEXT("      take_slopes(slopes, &walk);\n");
    }
    if (has_map) {
      TEXT("      state = look_up_block(seen, &walk, mod);\n");
    }
    if (q_in_regs) {
      TEXT("      load_q(q, shared, consumer, q_parity);\n"
           "      exchange_blocks(score, out, p, shared, consumer, stage, last,");
      STRING(alibi_product ? " slopes, walk.key_numbers," : "");
      TEXT(" q, true);\n");
    } else if (keeps_here) {
      TEXT("      wait_for_phase(q_full(shared, consumer), q_parity); // the copy engine hands over Q\n"
           "      start_blocks(score, out, p, shared, consumer, stage, last, begins, true);\n"
           "      // While the products run.\n"
           "      split_end = end_split(reference, row_sum, args,\n"
           "                            &units[(walk.place.index + UNITS - 1) % UNITS], consumer, &kept);\n"
           "      wgmma_wait(1); // for O, but not for S\n"
           "      wgmma_order_n");
      INTEGER(hdim_v);
      TEXT("(out);\n"
           "      arrive_once(v_empty(shared, last.index));\n"
           "      store_unit(out, &split_end, args, walk.place.index + UNITS - 1, consumer, &kept);\n"
           "      finish_scores(score, 0, shared, consumer, stage.index,\n"
           "                    walk.n == walk.unit.blocks.begin && walk.unit.ends & LAST_SPLIT);\n");
    } else {
      if (q_ahead) {
        TEXT("      // The copy engine hands over Q.\n"
             "      wait_for_phase(q_full(shared, q_turn % Q_PLACES), q_turn / Q_PLACES % 2);\n");
      } else {
        TEXT("      wait_for_phase(q_full(shared, consumer), q_parity); // the copy engine hands over Q\n");
      }
      TEXT("      exchange_blocks(score, out, p, shared, consumer, ");
      STRING(q_ahead ? "q_turn % Q_PLACES, " : "");
      TEXT("stage, last,");
      STRING((bias == AP_ATTENTION_BIAS_FP32) ? " bias, &walk, fwd," : "");
      TEXT("\n"
           "                      ");
      STRING(alibi_product ? "slopes, walk.key_numbers, " : "");
      TEXT("walk.n == ");
      STRING(ends_apart ? "walk.block_begin" : "walk.unit.blocks.begin");
      STRING(fixed_splits ? " && walk.unit.ends & LAST_SPLIT" : "");
      STRING(overwrites ? ", begins" : "");
      TEXT(");\n");
    }
    TEXT("      for (int half = 0; half < 2; ++half) {\n");
    if (!keeps_here) {
      TEXT("        last_reference[half] = reference[half];\n"
           "        last_sum[half] = row_sum[half];\n");
    }
    TEXT("        reference[half] = -INF;\n"
         "        row_sum[half] = 0.0f;\n"
         "      }\n"
         "      take_scores(score, reference, row_sum, rescale, &walk, ");
    STRING((mod_score || mod_mask) ? "mod, " : "");
    STRING(has_map ? "state, seen, " : "");
    STRING((bias == AP_ATTENTION_BIAS_FP32) ? "bias, fwd" : ((bias != AP_ATTENTION_BIAS_NONE) ? "shared, consumer, mapped, fwd" : (((((softcap || alibi) || dropout) || mod_score) || mod_mask) ? "fwd" : "scale_log2")));
    STRING(limits ? ", &limits" : "");
    STRING(((plain || short_rows) && !behind) ? ", true" : "");
    TEXT(");\n"
         "    }\n"
         "\n");
  }
  TEXT("    // O += P V of the stream's last block.\n");
  if (far_blocks) {
    TEXT("    if (!far) {\n"
         "      start_output(out, p, shared, stage.index);\n"
         "      finish_output(out);\n"
         "      arrive_once(v_empty(shared, stage.index));\n"
         "    }\n");
  } else {
    if (keeps_here) {
      TEXT("    wait_for_phase(v_full(shared, stage.index), stage.parity); // the copy engine hands over V\n");
    }
    TEXT("    start_output(out, p, shared, stage.index");
    STRING(overwrites ? ", begins" : "");
    TEXT(");\n");
    if (one_sequence) {
      TEXT("    part = end_part(reference, row_sum, args, &units[(walk.place.index + UNITS - 1) % UNITS],\n"
           "                    consumer, last_is_there(&walk));\n");
    }
    TEXT("    finish_output(out);\n");
    if (shares_words) {
      TEXT("    // The warp's lanes arrive and wait: they have read the words. Elsewhere the vote on the next\n"
           "    // scores stands between.\n"
           "    __syncwarp();\n");
    }
    TEXT("    arrive_once(v_empty(shared, stage.index));\n");
  }
  TEXT("    stage = next_stage(stage, STAGES);\n");
  if (stores_once) {
    TEXT("    } else {\n"
         "      more = next_unit(&walk, args, consumer);\n"
         "    }\n");
  }
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || has_map) {
    if (keeps_here) {
      TEXT("    split_end = end_split(reference, row_sum, args,\n"
           "                          &units[(walk.place.index + UNITS - 1) % UNITS], consumer, &kept);\n"
           "    store_unit(out, &split_end, args, walk.place.index + UNITS - 1, consumer, &kept);\n");
    } else if (one_sequence) {
      TEXT("    if (part.is_part) {\n"
           "      store_partial_row(part.out_row, out, 0, O_TILES, 0, part.normalize, part.valid);\n"
           "      // All lanes arrive and wait: they have read the unit.\n"
           "      __syncwarp();\n"
           "      arrive_once(unit_empty((walk.place.index + UNITS - 1) % UNITS));\n"
           "    } else {\n"
           "      store_unit(out, reference, row_sum, args, walk.place.index + UNITS - 1, consumer");
      STRING(keeps_split ? ", &kept" : "");
      TEXT(",\n"
           "                 last_is_there(&walk));\n"
           "    }\n");
    } else {
      TEXT("    store_unit(out, reference, row_sum, args, walk.place.index + UNITS - 1, consumer");
      STRING(keeps_split ? ", &kept" : "");
      TEXT(");\n");
    }
  } else {
    TEXT("    store_output(out, reference, row_sum, args, &last_unit, consumer);\n");
  }
  if (ends_apart) {
    TEXT("    for (; unseen > 0; --unseen) {\n"
         "      skip_block(");
    STRING(bias_map ? "&walk, mapped, " : "");
    TEXT("shared, consumer, stage);\n"
         "      stage = next_stage(stage, STAGES);\n"
         "    }\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n");
  if (beside) {
    TEXT("// Of a block that asks for ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "96" : "128");
    TEXT(" registers a thread: the SM then has some for blocks of the\n"
         "// kernels before and behind.\n"
         "constexpr int LAUNCH_THREADS = ");
    STRING((sequences == AP_ATTENTION_SEQUENCES_PAGED) ? "576" : "512");
    TEXT(";\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(");
  STRING(beside ? "LAUNCH_THREADS" : "NUM_THREADS");
  TEXT(", 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n");
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) && (mod_score || mod_mask)) {
    TEXT("        const __grid_constant__ attnpress_fwd_sm90_ragged_mod_args given) {\n"
         "  const attnpress_fwd_sm90_args &args = given.batch.sm90;\n");
  } else if (mod_score || mod_mask) {
    TEXT("        const __grid_constant__ attnpress_fwd_sm90_mod_args given) {\n"
         "  const attnpress_fwd_sm90_args &args = given.sm90;\n");
  } else if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("        const __grid_constant__ attnpress_fwd_sm90_ragged_args given) {\n"
         "  const attnpress_fwd_sm90_args &args = given.sm90;\n");
  } else if (bias_map) {
    TEXT("        const __grid_constant__ attnpress_fwd_sm90_bias_args given) {\n"
         "  const attnpress_fwd_sm90_args &args = given.sm90;\n");
  } else {
    TEXT("        const __grid_constant__ attnpress_fwd_sm90_args args) {\n");
  }
  TEXT("  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  if (threadIdx.x == 0) {\n"
       "    prefetch_tensor_map(&args.q);\n"
       "    prefetch_tensor_map(&args.k);\n"
       "    prefetch_tensor_map(&args.v);\n");
  if (bias_map) {
    TEXT("    if (has_bias_map(&args.fwd))\n"
         "      prefetch_tensor_map(&given.bias);\n");
  }
  if (q_ahead) {
    TEXT("    for (int place = 0; place < Q_PLACES; ++place) {\n"
         "      mbarrier_init(q_full(shared, place), 1);\n"
         "      mbarrier_init(q_empty(shared, place), 4);\n");
  } else {
    TEXT("    for (int consumer = 0; consumer < CONSUMERS; ++consumer) {\n"
         "      mbarrier_init(q_full(shared, consumer), 1);\n"
         "      mbarrier_init(q_empty(shared, consumer), 4);\n");
  }
  TEXT("    }\n"
       "    for (int stage = 0; stage < STAGES; ++stage) {\n"
       "      mbarrier_init(k_full(shared, stage), 1);\n"
       "      mbarrier_init(k_empty(shared, stage), 4 * CONSUMERS);\n"
       "      mbarrier_init(v_full(shared, stage), ");
  INTEGER(shares_words ? 2 : 1);
  TEXT(");\n"
       "      mbarrier_init(v_empty(shared, stage), 4 * CONSUMERS);\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("      mbarrier_init(k_loaded(stage), 32 * GATHER_PARTS);\n"
           "      mbarrier_init(v_loaded(stage), has_boxes(&args) ? 1 : 32 * GATHER_PARTS);\n");
    } else {
      TEXT("      mbarrier_init(v_loaded(stage), 1);\n");
    }
  }
  TEXT("    }\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("    for (int place = 0; place < UNITS; ++place) {\n"
         "      mbarrier_init(unit_full(place), 1);\n");
    if ((sequences == AP_ATTENTION_SEQUENCES_PAGED) && decode) {
      TEXT("      mbarrier_init(unit_empty(place),\n"
           "                    4 * CONSUMERS + (has_boxes(&args) ? 3 : 3 + 2 * GATHER_PARTS));\n");
    } else {
      TEXT("      mbarrier_init(unit_empty(place), 4 * CONSUMERS + ");
      INTEGER(values_apart ? 3 : 2);
      TEXT(");\n");
    }
    TEXT("      mbarrier_init(unit_asked(place), 1);\n"
         "    }\n");
    if ((sequences == AP_ATTENTION_SEQUENCES_PAGED) && decode) {
      TEXT("    for (int place = 0; place < ENTRY_PLACES; ++place) {\n"
           "      mbarrier_init(entries_full(place), 32);\n"
           "      mbarrier_init(entries_empty(place), 2 * GATHER_PARTS);\n"
           "    }\n");
    }
  } else if (has_map) {
    TEXT("    for (int place = 0; place < UNITS; ++place) {\n"
         "      mbarrier_init(unit_full(place), 1);\n"
         "      mbarrier_init(unit_empty(place), 4 * CONSUMERS + 1);\n"
         "    }\n");
  }
  if (bias_map) {
    TEXT("    for (int place = 0; place < BIAS_PLACES; ++place) {\n"
         "      mbarrier_init(bias_full(shared, place), 1);\n"
         "      mbarrier_init(bias_empty(shared, place), 4 * CONSUMERS);\n"
         "    }\n");
  }
  TEXT("    fence_mbarrier_init();\n"
       "  }\n");
  if (alibi_product) {
    TEXT("  number_keys();\n"
         "  // All threads arrive and wait: hands over the barriers, and to wgmma the numbers of keys.\n"
         "  __syncthreads();\n");
  } else {
    if (offsets_ahead) {
      TEXT("  if (threadIdx.x < 64) {\n"
           "    const int row = threadIdx.x, position = divide(row, &args.heads_per_tile);\n"
           "    row_offsets[row] = position * args.fwd.out_row_stride +\n"
           "                       (row - position * args.fwd.heads_per_tile) * args.fwd.out_head_stride;\n"
           "  }\n"
           "  // All threads arrive and wait: hands over the barriers, and where rows lie.\n");
    } else {
      TEXT("  // All threads arrive and wait: hands over the barriers.\n");
    }
    TEXT("  __syncthreads();\n");
  }
  if (fixed_splits) {
    TEXT("  if (threadIdx.x / 32 == 3)\n"
         "    fetch_lengths(&args);\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    if (one_sequence) {
      TEXT("  const bool guesses = has_lengths_alone(&args), one_sequence = args.fwd.batch == 1;\n"
           "  const UnitOfOne first_unit = unit_of_one(&args, blockIdx.x);\n"
           "  Guess guess = {-1};\n");
    }
    if (decode && ((sequences == AP_ATTENTION_SEQUENCES_RAGGED) || one_sequence)) {
      if (one_sequence) {
        TEXT("  // What comes before hands over what it wrote to who finds units. All others wait for units, which\n"
             "  // hand it on, or by themselves, as the first unit may be a guess, and have begun meanwhile. The\n"
             "  // combine kernel may begin to wait, too, before keys are asked for, behind which its launch would\n"
             "  // wait.\n");
      } else {
        TEXT("  // What comes before hands over what it wrote to who finds units. All others wait for units, which\n"
             "  // hand it on, and have begun meanwhile. The combine kernel may begin to wait, too.\n");
      }
      TEXT("  if (threadIdx.x / 32 == 2) {\n"
           "    griddepcontrol_launch_dependents();\n");
      if (one_sequence) {
        TEXT("    if (guesses && one_sequence)\n"
             "      guess = guess_unit_of_one(&args, first_unit);\n"
             "    if (one_sequence || !guesses) // else find_units_of_few() does\n");
      }
      TEXT("    griddepcontrol_wait();\n"
           "  }\n");
    } else {
      TEXT("  // ");
      STRING(ready ? "What comes before hands over the ticket, and whatever else it wrote." : "The schedule kernel hands over the units.");
      TEXT("\n"
           "  griddepcontrol_wait();\n");
      if (decode) {
        TEXT("  // The combine kernel may begin to wait, too.\n"
             "  griddepcontrol_launch_dependents();\n");
      } else if (fixed_splits) {
        TEXT("  // The combine kernel, if there is one, may begin to wait, too.\n"
             "  if (args.fwd.num_splits > 1)\n"
             "    griddepcontrol_launch_dependents();\n");
      }
    }
  } else if (has_map) {
    TEXT("  // The map kernel hands over the map and the ticket.\n"
         "  griddepcontrol_wait();\n"
         "\n");
  }
  TEXT("  if (threadIdx.x < 128");
  STRING((gather_parts > 1) ? " || threadIdx.x >= 256" : "");
  TEXT(") {\n"
       "    decrease_registers(PRODUCER_REGISTERS);\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      TEXT("    const int warp = threadIdx.x / 32;\n");
      if (decode) {
        TEXT("    // Of the last warpgroups, which have nothing to do with boxes: entries of the table, K and V.\n"
             "    if (warp >= 8 && has_boxes(&args))\n"
             "      return;\n"
             "    const bool of_keys = warp == 0 || (warp > 8 && warp < ");
        INTEGER(8 + gather_parts);
        TEXT(");\n"
             "    const int part = warp < 8 ? 0 : of_keys ? warp - 8 : warp - ");
        INTEGER(7 + gather_parts);
        TEXT(";\n");
      } else {
        TEXT("    const int part = 0;\n");
      }
      TEXT("    // Two loops each, as that of boxes is to have no more registers than it takes.\n"
           "    if (warp == 0 && has_boxes(&args))\n"
           "      produce(&args, shared, true, 0);\n"
           "    else if (");
      STRING(decode ? "of_keys" : "warp == 0");
      TEXT(")\n"
           "      produce(&args, shared, false, part);\n"
           "    else if (warp == 1 && has_boxes(&args))\n"
           "      clear_tails(");
      STRING(decode ? "&args, " : "");
      TEXT("shared, smem);\n");
      if (decode) {
        TEXT("    else if (warp == 1 || warp == ");
        INTEGER(7 + (2 * gather_parts));
        TEXT(")\n"
             "      pass_on(&args, shared, warp == ");
        INTEGER(7 + (2 * gather_parts));
        TEXT(");\n");
      } else {
        TEXT("    else if (warp == 1)\n"
             "      pass_on(shared);\n");
      }
    } else {
      TEXT("    if (threadIdx.x == 0)\n"
           "      produce(&args, shared");
      STRING(one_sequence ? ", guesses" : "");
      TEXT(");\n"
           "    else if (threadIdx.x / 32 == 1)\n"
           "      clear_tails(");
      STRING(decode ? "&args, " : "");
      TEXT("shared, smem);\n");
    }
    if (one_sequence) {
      TEXT("    else if (threadIdx.x / 32 == 2 && guesses && one_sequence)\n"
           "      find_units_of_one(&args, first_unit, &guess);\n"
           "    else if (threadIdx.x / 32 == 2 && guesses)\n"
           "      find_units_of_few(&args);\n");
    }
    TEXT("    else if (threadIdx.x / 32 == 2)\n"
         "      find_units(&args);\n");
    if (sequences == AP_ATTENTION_SEQUENCES_PAGED) {
      if (decode) {
        TEXT("    else if (warp == 8)\n"
             "      look_up(&args);\n");
      }
      TEXT("    else if (has_boxes(&args))\n"
           "      produce_values(&args, shared, true, 0);\n"
           "    else\n"
           "      produce_values(&args, shared, false, part);\n");
    } else if (values_apart) {
      TEXT("    else if (threadIdx.x == 96)\n"
           "      produce_values(&args, shared");
      STRING((one_sequence && (sequences == AP_ATTENTION_SEQUENCES_RAGGED)) ? ", guesses" : "");
      TEXT(");\n");
    }
  } else if (has_map) {
    TEXT("    if (threadIdx.x == 0)\n"
         "      produce(&args, shared);\n"
         "    else if (threadIdx.x == 64)\n"
         "      find_units(&args);\n");
  } else {
    TEXT("    if (threadIdx.x == 0)\n"
         "      produce(&args, shared);\n");
    if (shares_words) {
      TEXT("    else if (threadIdx.x / 32 == 1)\n"
           "      produce_words(&args, shared);\n");
    }
  }
  TEXT("  } else {\n"
       "    increase_registers(CONSUMER_REGISTERS);\n"
       "    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n");
  if (bias_map) {
    TEXT("    const int consumer = __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1;\n");
    if (alibi) {
      TEXT("    // In one loop, as the registers of two are not enough.\n"
           "    consume(&args, shared, consumer, has_bias_map(&args.fwd));\n");
    } else {
      TEXT("    // Two loops, as what is not run between the products of one slows it down all the same.\n"
           "    if (has_bias_map(&args.fwd))\n"
           "      consume(&args, shared, consumer, true);\n"
           "    else\n"
           "      consume(&args, shared, consumer, false);\n");
    }
  } else {
    TEXT("    consume(&args, ");
    STRING(((q_in_regs || keeps_here) || (short_rows && adds_up)) ? "smem, " : "");
    TEXT("shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);\n");
  }
  TEXT("  }\n"
       "}\n");
}
