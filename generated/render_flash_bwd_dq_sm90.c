/* Written by `python -m generator` from templates/attention/flash_bwd_dq_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_dq_sm90(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_dq_sm90(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t hdim_v = in->axis[AP_ATTENTION_HDIM_V];
  const int32_t dtype = in->axis[AP_ATTENTION_DTYPE];
  const int32_t mask = in->axis[AP_ATTENTION_MASK];
  const int32_t softcap = in->axis[AP_ATTENTION_SOFTCAP];
  const int32_t alibi = in->axis[AP_ATTENTION_ALIBI];
  const int32_t bias = in->axis[AP_ATTENTION_BIAS];
  const int32_t dropout = in->axis[AP_ATTENTION_DROPOUT];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t stages = in->field[AP_ATTENTION_TILE_STAGES];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Half of the backward pass: dQ = scale dS K,\n"
       "// where P = softmax(scale Q K^T) is computed anew from the forward pass's lse, dP = dO V^T and\n"
       "// dS = P (dP - delta), delta = rowsum(dO out).\n"
       "//\n"
       "// One thread block owns BLOCK_M query rows of one head and walks over the keys that they see,\n"
       "// BLOCK_N at a time. One thread of warpgroup 0, the producer, keeps the copy engine (TMA) busy; the\n"
       "// others, the consumers, have 64 rows each; one whose rows are all past the last query computes\n"
       "// nothing. dS is A of its product with K, from registers.\n"
       "//\n"
       "// Pressed from templates/attention/flash_bwd_dq_sm90.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass bwd_dq --hdim ");
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
  if (((((mask == AP_ATTENTION_MASK_WINDOW) || softcap) || alibi) || (bias != AP_ATTENTION_BIAS_NONE)) || dropout) {
    TEXT("#include \"attnpress/device/gradient_modify.cuh\"\n");
  }
  if ((mask == AP_ATTENTION_MASK_CAUSAL) && (sequences == AP_ATTENTION_SEQUENCES_DENSE)) {
    TEXT("#include \"attnpress/device/gradient_order.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/gradient_store.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/wgmma/ptx_wgmma_n");
  INTEGER(block_n);
  TEXT(".cuh\"\n");
  if (hdim != block_n) {
    TEXT("#include \"attnpress/device/wgmma/ptx_wgmma_n");
    INTEGER(hdim);
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
  TEXT("; // query rows of a thread block\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys of a step\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT("; // steps of K and V in shared memory\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int PRODUCER_REGISTERS = 24; // of a thread\n"
       "constexpr int CONSUMER_REGISTERS = 240;\n"
       "\n"
       "constexpr int CONSUMERS = BLOCK_M / 64;\n"
       "constexpr int CONSUMER_THREADS = 128 * CONSUMERS;\n"
       "constexpr int NUM_THREADS = 128 + CONSUMER_THREADS;\n"
       "constexpr int S_TILES = BLOCK_N / 8; // of 8 keys\n"
       "constexpr int S_STEPS = ceil_div(HEAD_DIM, 16); // of 16 columns, of Q K^T\n"
       "constexpr int DP_STEPS = ceil_div(HEAD_DIM_V, 16); // of dO V^T\n"
       "constexpr int KEY_STEPS = BLOCK_N / 16; // of 16 keys, of dS K\n"
       "constexpr int Q_TILES = HEAD_DIM / 8; // of 8 columns\n"
       "\n"
       "// Shared memory: Q | dO | ring of K | ring of V | barriers. Matrices are stored as slabs of 64\n"
       "// columns, rows of 128 bytes in the 128-byte swizzle; columns past the head dim are zeros. At the\n"
       "// end dQ, in padded rows, takes the place of all but the barriers.\n"
       "constexpr int K_SLABS = ceil_div(HEAD_DIM, 64);\n"
       "constexpr int V_SLABS = ceil_div(HEAD_DIM_V, 64);\n"
       "constexpr int ROW_SLAB_BYTES = BLOCK_M * 128; // of Q and dO\n"
       "constexpr int KEY_SLAB_BYTES = BLOCK_N * 128; // of K and V\n"
       "constexpr int K_BYTES = K_SLABS * KEY_SLAB_BYTES; // of one step\n"
       "constexpr int V_BYTES = V_SLABS * KEY_SLAB_BYTES;\n"
       "constexpr int DO_OFFSET = K_SLABS * ROW_SLAB_BYTES;\n"
       "constexpr int K_OFFSET = DO_OFFSET + V_SLABS * ROW_SLAB_BYTES;\n"
       "constexpr int V_OFFSET = K_OFFSET + STAGES * K_BYTES;\n"
       "constexpr int BARRIER_OFFSET = V_OFFSET + STAGES * V_BYTES;\n"
       "constexpr int DQ_ROW_BYTES = tile_row_bytes(HEAD_DIM);\n"
       "static_assert(SMEM_BYTES >= BARRIER_OFFSET + 8 * (2 + 3 * STAGES), \"shared memory\");\n"
       "static_assert(BARRIER_OFFSET >= BLOCK_M * DQ_ROW_BYTES, \"dQ\");\n"
       "static_assert(KEY_SLAB_BYTES % 1024 == 0, \"atoms of the swizzle\");\n"
       "\n"
       "// The barriers, by their shared addresses. At a \"full\" one the producer arrives once and names the\n"
       "// bytes, consumers wait, and it hands them what the copy engine has written. At an \"empty\" one each\n"
       "// warp that has read arrives, the producer waits, and it hands the space back.\n"
       "__device__ __forceinline__ uint32_t q_full(uint32_t shared) {\n"
       "  return shared + BARRIER_OFFSET;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t do_full(uint32_t shared) {\n"
       "  return shared + BARRIER_OFFSET + 8;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t k_full(uint32_t shared, int stage) {\n"
       "  return shared + BARRIER_OFFSET + 16 + 8 * stage;\n"
       "}\n"
       "__device__ __forceinline__ uint32_t v_full(uint32_t shared, int stage) {\n"
       "  return k_full(shared, STAGES + stage);\n"
       "}\n"
       "__device__ __forceinline__ uint32_t step_empty(uint32_t shared, int stage) {\n"
       "  return k_full(shared, 2 * STAGES + stage);\n"
       "}\n"
       "\n"
       "// A thread block's rows, how many consumers have some, and the steps of its walk over the keys.\n"
       "struct Work {\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  int batch, head, kv_head, row_begin, consumers, first_step, steps;\n");
  } else {
    TEXT("  int batch, head, kv_head, row_begin, consumers, steps;\n");
  }
  TEXT("};\n"
       "\n");
  if (mask == AP_ATTENTION_MASK_CAUSAL) {
    TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int index) {\n"
         "  const int block = block_in_turn(args, index, gridDim.x);\n");
  } else {
    TEXT("__device__ __forceinline__ Work find_work(const attnpress_bwd_args *args, int block) {\n");
  }
  TEXT("  Work work;\n"
       "  const int row_block = block % args->blocks, head = block / args->blocks;\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  work.row_begin = row_block * BLOCK_M;\n");
  } else {
    TEXT("  // Causal: the last rows see the most keys, and the longest row blocks come first.\n"
         "  work.row_begin = (CAUSAL ? args->blocks - 1 - row_block : row_block) * BLOCK_M;\n");
  }
  TEXT("  work.head = head % args->heads_q;\n"
       "  work.batch = head / args->heads_q;\n"
       "  work.kv_head = work.head / (args->heads_q / args->heads_kv);\n"
       "  work.consumers = min(CONSUMERS, ceil_div(args->seqlen_q - work.row_begin, 64));\n"
       "  // Keys that no row sees are never loaded.\n"
       "  const int last = min(work.row_begin + BLOCK_M, args->seqlen_q) - 1;\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  const int key_end = window_row(last, &args->score, args->seqlen_k).key_end;\n"
         "  work.first_step = window_row(work.row_begin, &args->score, args->seqlen_k).key_begin / BLOCK_N;\n"
         "  work.steps = max(0, ceil_div(key_end, BLOCK_N) - work.first_step);\n");
  } else {
    TEXT("  work.steps =\n"
         "      max(0, ceil_div(row_at(last, CAUSAL, args->seqlen_q, args->seqlen_k).key_end, BLOCK_N));\n");
  }
  TEXT("  return work;\n"
       "}\n"
       "\n"
       "// Loads `slabs` slabs of rows of a head, and counts them at `full`.\n"
       "__device__ __forceinline__ void load_slabs(uint32_t target, const attnpress_tensor_map *map,\n"
       "                                           uint32_t full, int slabs, int slab_bytes, int row,\n"
       "                                           int head, int batch) {\n"
       "  mbarrier_arrive_expect(full, slabs * slab_bytes);\n"
       "#pragma unroll\n"
       "  for (int slab = 0; slab < slabs; ++slab)\n"
       "    tma_load_4d(target + slab * slab_bytes, map, full, slab * 64, row, head, batch);\n"
       "}\n"
       "\n"
       "// The producer's one thread: Q and dO of the block's rows, K and V of each step.\n"
       "__device__ __forceinline__ void produce(const attnpress_bwd_sm90_args *args, uint32_t shared,\n"
       "                                        const Work *work) {\n"
       "  Stage stage = {0, 0};\n"
       "  for (int n = 0; n < work->steps; ++n) {\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("    const int key = (work->first_step + n) * BLOCK_N; // the step's first\n");
  }
  TEXT("    if (n == 0)\n"
       "      load_slabs(shared, &args->q, q_full(shared), K_SLABS, ROW_SLAB_BYTES, work->row_begin,\n"
       "                 work->head, work->batch);\n"
       "    // The consumers' warps arrived; hands over the space of the step that was here a round ago.\n"
       "    wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);\n"
       "    load_slabs(shared + K_OFFSET + stage.index * K_BYTES, &args->k, k_full(shared, stage.index),\n"
       "               K_SLABS, KEY_SLAB_BYTES, ");
  STRING((mask == AP_ATTENTION_MASK_WINDOW) ? "key" : "n * BLOCK_N");
  TEXT(", work->kv_head, work->batch);\n"
       "    if (n == 0)\n"
       "      load_slabs(shared + DO_OFFSET, &args->dout, do_full(shared), V_SLABS, ROW_SLAB_BYTES,\n"
       "                 work->row_begin, work->head, work->batch);\n"
       "    load_slabs(shared + V_OFFSET + stage.index * V_BYTES, &args->v, v_full(shared, stage.index),\n"
       "               V_SLABS, KEY_SLAB_BYTES, ");
  STRING((mask == AP_ATTENTION_MASK_WINDOW) ? "key" : "n * BLOCK_N");
  TEXT(", work->kv_head, work->batch);\n"
       "    stage = next_stage(stage, STAGES);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Starts a product of 64 rows of the block with the keys of a step, over `steps` times 16 columns,\n"
       "// as a group of its own.\n"
       "__device__ __forceinline__ void start_rows(float d[S_TILES * 4], uint32_t rows, uint32_t keys,\n"
       "                                           int steps) {\n"
       "  const uint64_t a = wgmma_descriptor(rows, 1024, 0), b = wgmma_descriptor(keys, 1024, 0);\n"
       "  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(d);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < steps; ++step)\n"
       "    wgmma_m64n");
  INTEGER(block_n);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_ss(d, a + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16,\n"
       "                             b + (step / 4 * KEY_SLAB_BYTES + step % 4 * 32) / 16, step > 0);\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n"
       "// One consumer: 64 rows.\n"
       "__device__ __forceinline__ void consume(const attnpress_bwd_args *args, unsigned char *smem,\n"
       "                                        uint32_t shared, const Work *work, int consumer) {\n"
       "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;\n"
       "  const int first_row = work->row_begin + consumer * 64;\n"
       "  float dq[Q_TILES * 4] = {};\n"
       "  Row rows[2];\n"
       "  float lse_log2[2], delta[2];\n"
       "#pragma unroll\n"
       "  for (int half = 0; half < 2; ++half) {\n"
       "    const int row = first_row + warp * 16 + half * 8 + lane / 4;\n"
       "    const int64_t at =\n"
       "        ((int64_t)work->batch * args->heads_q + work->head) * args->row_tiles * 16 + row;\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("    rows[half] = window_row(row, &args->score, args->seqlen_k);\n");
  } else {
    TEXT("    rows[half] = row_at(row, CAUSAL, args->seqlen_q, args->seqlen_k);\n");
  }
  TEXT("    lse_log2[half] = args->lse_log2[at];\n"
       "    delta[half] = args->delta[at];\n"
       "  }\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("  // The keys that all of the consumer's rows see.\n"
         "  const int key_unmasked = window_row(first_row, &args->score, args->seqlen_k).key_end;\n"
         "  const int unmasked_begin = window_row(first_row + 63, &args->score, args->seqlen_k).key_begin;\n");
  } else {
    TEXT("  const int key_unmasked = row_at(first_row, CAUSAL, args->seqlen_q, args->seqlen_k).key_end;\n");
  }
  if (alibi) {
    TEXT("  const float slope = load_slope(&args->score, work->batch, work->head);\n");
  }
  if (dropout) {
    TEXT("  const DropoutHead of_head =\n"
         "      dropout_head(&args->score, (int64_t)work->batch * args->heads_q + work->head);\n"
         "  const DropoutWords dropout_rows = row_words(&of_head, first_row + warp * 16, lane / 4);\n");
  }
  TEXT("  Stage stage = {0, 0};\n"
       "  const int steps = consumer < work->consumers ? work->steps : 0;\n"
       "  if (steps > 0) // the copy engine hands over Q\n"
       "    wait_for_phase(q_full(shared), 0);\n"
       "  for (int n = 0; n < steps; ++n) {\n"
       "    float score[S_TILES * 4], dp[S_TILES * 4];\n"
       "    uint32_t ds[KEY_STEPS][4];\n"
       "    const int key = ");
  STRING((mask == AP_ATTENTION_MASK_WINDOW) ? "(work->first_step + n)" : "n");
  TEXT(" * BLOCK_N; // the step's first\n"
       "    const uint32_t k = shared + K_OFFSET + stage.index * K_BYTES;\n"
       "    // S = Q K^T; the copy engine hands over K.\n"
       "    wait_for_phase(k_full(shared, stage.index), stage.parity);\n"
       "    start_rows(score, shared + consumer * 64 * 128, k, S_STEPS);\n"
       "    // dP = dO V^T; the copy engine hands over V, and dO with the first.\n"
       "    wait_for_phase(v_full(shared, stage.index), stage.parity);\n"
       "    if (n == 0)\n"
       "      wait_for_phase(do_full(shared), 0);\n"
       "    start_rows(dp, shared + DO_OFFSET + consumer * 64 * 128,\n"
       "               shared + V_OFFSET + stage.index * V_BYTES, DP_STEPS);\n"
       "    wgmma_wait(1);\n"
       "    wgmma_order_n");
  INTEGER(block_n);
  TEXT("(score);\n");
  if (softcap) {
    TEXT("    uint32_t derivative[S_TILES * 2];\n"
         "    cap_and_differentiate(score, derivative, S_TILES, &args->score);\n");
  }
  if (bias != AP_ATTENTION_BIAS_NONE) {
    TEXT("#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half)\n"
         "      add_bias_at(score, BIAS, S_TILES, half, false, args, work->batch, work->head,\n"
         "                  rows[half].position, key + lane % 4 * 2);\n");
  }
  if (alibi) {
    TEXT("#pragma unroll\n"
         "    for (int half = 0; half < 2; ++half)\n"
         "      add_alibi_at(score, S_TILES, half, false, args, slope, rows[half].position,\n"
         "                   key + lane % 4 * 2);\n");
  }
  TEXT("    if (key + BLOCK_N > key_unmasked");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT(" || key < unmasked_begin");
  }
  TEXT(") {\n"
       "#pragma unroll\n"
       "      for (int half = 0; half < 2; ++half)\n"
       "        mask_scores(score, S_TILES, half, rows[half], key + lane % 4 * 2);\n"
       "    }\n"
       "    recompute_probabilities(score, S_TILES, false, lse_log2, args->scale_log2);\n");
  if (dropout) {
    TEXT("    mark_dropped(score, S_TILES, &of_head, &dropout_rows, key, lane,\n"
         "                 args->score.dropout_threshold);\n");
  }
  if (softcap) {
    TEXT("    // P is a factor of dS alone: the derivative of the softcap becomes a part of it.\n"
         "    multiply_derivatives(score, derivative, S_TILES);\n");
  }
  TEXT("    wgmma_wait(0);\n"
       "    wgmma_order_n");
  INTEGER(block_n);
  TEXT("(dp);\n");
  if (dropout) {
    TEXT("    differentiate_kept(dp, score, S_TILES, false, delta, args->score.dropout_scale);\n");
  } else {
    TEXT("    differentiate_scores(dp, score, S_TILES, false, delta);\n");
  }
  TEXT("    round_probabilities(ds[0], dp, S_TILES, DTYPE);\n"
       "\n"
       "    // dQ += dS K.\n"
       "    const uint64_t keys = wgmma_descriptor(k, 1024, KEY_SLAB_BYTES);\n"
       "    wgmma_order_n");
  INTEGER(hdim);
  TEXT("(dq);\n"
       "    wgmma_fence();\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < KEY_STEPS; ++i)\n"
       "      wgmma_m64n");
  INTEGER(hdim);
  TEXT("k16_");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT("_rs_trans(dq, ds[i], keys + i * 16 * 128 / 16, 1);\n"
       "    wgmma_commit();\n"
       "    wgmma_wait(0);\n"
       "    wgmma_order_n");
  INTEGER(hdim);
  TEXT("(dq);\n"
       "    arrive_once(step_empty(shared, stage.index));\n"
       "    stage = next_stage(stage, STAGES);\n"
       "  }\n"
       "\n"
       "  // All consumers arrive and wait: Q, dO and all steps have been read.\n"
       "  named_barrier_sync(1, CONSUMER_THREADS);\n"
       "  const int thread = threadIdx.x - 128;\n"
       "  const int valid = args->seqlen_q - work->row_begin;\n"
       "  uint16_t *const dq_rows = (uint16_t *)args->dq + work->batch * args->dq_batch_stride +\n"
       "                            work->head * args->dq_head_stride +\n"
       "                            work->row_begin * args->dq_row_stride;\n"
       "  if (args->accumulate) {\n"
       "    load_gradient(smem, dq_rows, args->dq_row_stride, BLOCK_M, HEAD_DIM, valid, thread,\n"
       "                  CONSUMER_THREADS);\n"
       "    // All consumers arrive and wait: hands over what dQ is added to.\n"
       "    named_barrier_sync(1, CONSUMER_THREADS);\n"
       "  }\n"
       "  round_gradient(smem + (consumer * 64 + warp * 16) * DQ_ROW_BYTES, DQ_ROW_BYTES, dq, 1, 0, Q_TILES,\n"
       "                 DTYPE, args->scale, args->accumulate, lane);\n"
       "  // All consumers arrive and wait: hands over the tile of dQ.\n"
       "  named_barrier_sync(1, CONSUMER_THREADS);\n"
       "  store_gradient(dq_rows, args->dq_row_stride, smem, BLOCK_M, HEAD_DIM, valid, thread,\n"
       "                 CONSUMER_THREADS);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_bwd_sm90_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  const Work work = find_work(&args.bwd, blockIdx.x);\n"
       "  if (threadIdx.x == 0) {\n"
       "    prefetch_tensor_map(&args.q);\n"
       "    prefetch_tensor_map(&args.dout);\n"
       "    prefetch_tensor_map(&args.k);\n"
       "    prefetch_tensor_map(&args.v);\n"
       "    mbarrier_init(q_full(shared), 1);\n"
       "    mbarrier_init(do_full(shared), 1);\n"
       "    for (int stage = 0; stage < STAGES; ++stage) {\n"
       "      mbarrier_init(k_full(shared, stage), 1);\n"
       "      mbarrier_init(v_full(shared, stage), 1);\n"
       "      mbarrier_init(step_empty(shared, stage), 4 * work.consumers);\n"
       "    }\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the barriers.\n"
       "  __syncthreads();\n"
       "\n"
       "  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
       "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n"
       "  // bwd_delta may still run: all but what brings Q, K, V and dO wait for its end. What comes next\n"
       "  // may begin then, no earlier: bwd_dkv reads what bwd_delta wrote.\n"
       "  if (warp >= 4) {\n"
       "    griddepcontrol_wait();\n"
       "    griddepcontrol_launch_dependents();\n"
       "  }\n"
       "  if (warp < 4) {\n"
       "    decrease_registers(PRODUCER_REGISTERS);\n"
       "    if (threadIdx.x == 0)\n"
       "      produce(&args, shared, &work);\n"
       "  } else {\n"
       "    increase_registers(CONSUMER_REGISTERS);\n"
       "    consume(&args.bwd, smem, shared, &work, warp / 4 - 1);\n"
       "  }\n"
       "}\n");
}
