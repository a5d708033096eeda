/* Written by `python -m generator` from templates/attention/flash_bwd_dbias.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_dbias(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_dbias(ap_text *out, const ap_render_input *in) {
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
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  const int32_t warps_n = in->field[AP_ATTENTION_TILE_WARPS_N];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Part of the backward pass: the gradient by the bias, which is dS = P (dP - delta) before the\n"
       "// softcap's derivative and the scale, where P = softmax(scale Q K^T + bias) is computed anew from\n"
       "// the forward pass's lse, dP = dO V^T and delta = rowsum(dO out).\n"
       "//\n"
       "// One thread block owns BLOCK_M rows and BLOCK_N keys of the gradient and walks over all that share\n"
       "// them: batches, heads and blocks of rows, in one order: every bit is the same in every run.\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("//\n"
         "// Sequences have lengths of their own, the gradient rows and keys for the longest: what none of them\n"
         "// has is zero.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/attention/flash_bwd_dbias.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass bwd_dbias --hdim ");
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
  TEXT("\n"
       "#include \"attnpress/args/attention.h\"\n");
  if (dropout) {
    TEXT("#include \"attnpress/device/dropout.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/gradient.cuh\"\n"
       "#include \"attnpress/device/gradient_modify.cuh\"\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/gradient_sequence.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/gradient_store.cuh\"\n"
       "#include \"attnpress/device/product.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
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
  TEXT("; // query rows\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys\n"
       "constexpr int WARPS_M = ");
  INTEGER(warps_m);
  TEXT("; // warps that share the rows\n"
       "constexpr int WARPS_N = ");
  INTEGER(warps_n);
  TEXT("; // warps that share the keys\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "\n"
       "constexpr int NUM_THREADS = 32 * WARPS_M * WARPS_N;\n"
       "constexpr int COPY_ROWS = ");
  INTEGER((hdim > 256) ? 8 : 64);
  TEXT("; // rows whose copies are unrolled, at most\n"
       "constexpr int S_ROWS = BLOCK_M / (16 * WARPS_M); // tiles of 16 rows, of a warp\n"
       "constexpr int S_COLUMNS = BLOCK_N / (8 * WARPS_N); // tiles of 8 keys\n"
       "\n"
       "// Shared memory: Q | dO | K | V, in padded rows; at the end sums of columns.\n"
       "constexpr int ROW_BYTES = tile_row_bytes(HEAD_DIM); // of Q and K\n"
       "constexpr int ROW_BYTES_V = tile_row_bytes(HEAD_DIM_V); // of V and dO\n"
       "constexpr int DO_OFFSET = BLOCK_M * ROW_BYTES;\n"
       "constexpr int K_OFFSET = DO_OFFSET + BLOCK_M * ROW_BYTES_V;\n"
       "constexpr int V_OFFSET = K_OFFSET + BLOCK_N * ROW_BYTES;\n"
       "static_assert(SMEM_BYTES >= V_OFFSET + BLOCK_N * ROW_BYTES_V, \"shared memory\");\n"
       "static_assert(SMEM_BYTES >= WARPS_M * BLOCK_N * 4, \"sums of columns\");\n"
       "static_assert(128 % BLOCK_M == 0, \"lse and delta are padded to a multiple of 128 rows\");\n"
       "\n"
       "// Starts the copy of `rows` rows of a tensor from `offset` on; rows from `valid` on become zeros.\n"
       "__device__ __forceinline__ void load_rows(uint32_t shared, const void *global, int64_t offset,\n"
       "                                          int64_t row_stride, int rows, int columns, int valid) {\n"
       "  const int thread = threadIdx.x, row_bytes = tile_row_bytes(columns);\n"
       "  const int part = min_int(rows, COPY_ROWS);\n"
       "  const uint16_t *from = (const uint16_t *)global + offset +\n"
       "                         copy_row(columns, thread) * row_stride + copy_column(columns, thread);\n"
       "#pragma unroll 1\n"
       "  for (int first = 0; first < rows; first += part, from += part * row_stride)\n"
       "    copy_rows_async(shared + first * row_bytes, row_bytes, from, row_stride, part, columns,\n"
       "                    valid - first, 0, copy_passes(part, columns, NUM_THREADS), thread,\n"
       "                    NUM_THREADS);\n"
       "}\n"
       "\n"
       "// Writes an element of the gradient, or adds to it.\n"
       "__device__ __forceinline__ void store_element(const attnpress_bwd_dbias_args *args, int64_t at,\n"
       "                                              float value) {\n"
       "  if (args->dbias_dtype == 3) {\n"
       "    float *place = (float *)args->dbias + at;\n"
       "    *place = args->bwd.accumulate ? *place + value : value;\n"
       "  } else {\n"
       "    uint16_t *place = (uint16_t *)args->dbias + at;\n"
       "    const Dtype dtype = args->dbias_dtype == 1 ? FP16 : BF16;\n"
       "    if (args->bwd.accumulate)\n"
       "      value += widen(dtype, *place);\n"
       "    *place = (uint16_t)pack(dtype, value, 0.0f);\n"
       "  }\n"
       "}\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("// A sequence: the arguments with its lengths, and where it lies.\n"
         "struct Sequence {\n"
         "  attnpress_bwd_args args;\n"
         "  int q_batch, q_row, k_batch, k_row;\n"
         "  int values_row; // of lse_log2 and delta\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Sequence find_sequence(const attnpress_bwd_dbias_ragged_args *given,\n"
         "                                                  int b) {\n"
         "  const attnpress_ragged_args *ragged = &given->ragged;\n"
         "  const Rows queries = query_rows(ragged, b, given->dbias.bwd.seqlen_q);\n"
         "  const Rows keys = key_rows(ragged, b);\n"
         "  Sequence of = {given->dbias.bwd};\n"
         "  of.args.seqlen_q = queries.count;\n"
         "  of.args.seqlen_k = keys.count;\n"
         "  of.args.score.window_center = ragged->window_top_left ? 0 : keys.count - queries.count;\n"
         "  of.q_batch = ragged->cu_seqlens_q != nullptr ? 0 : b;\n"
         "  of.q_row = queries.begin;\n"
         "  of.k_batch = ragged->cu_seqlens_k != nullptr ? 0 : b;\n"
         "  of.k_row = keys.begin;\n"
         "  of.values_row = padded_begin(of.q_batch * ragged->rows_q + of.q_row, b, PADDED_ROWS);\n"
         "  return of;\n"
         "}\n"
         "\n"
         "// dS of a step, added to the gradient. `row`, `key`: this warp's first; `values_row`: where the\n"
         "// sequence's rows begin in a head of lse_log2 and delta.\n");
  } else {
    TEXT("// dS of a step, added to the gradient. `row`, `key`: this warp's first.\n");
  }
  TEXT("__device__ __forceinline__ void add_step(float sum[S_ROWS][S_COLUMNS * 4],\n"
       "                                         const attnpress_bwd_args *args, uint32_t q, uint32_t dout,\n"
       "                                         uint32_t k, uint32_t v, int64_t batch, int head, int row,\n"
       "                                         int key");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT(", int values_row");
  }
  TEXT(") {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  float score[S_ROWS][S_COLUMNS * 4], grad[S_ROWS][S_COLUMNS * 4];\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < S_ROWS; ++m) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < S_COLUMNS * 4; ++i)\n"
       "      score[m][i] = grad[m][i] = 0.0f;\n"
       "  }\n"
       "  // S = Q K^T, then P.\n"
       "  multiply_rows(score[0], S_ROWS, S_COLUMNS, DTYPE, q, ROW_BYTES, k, ROW_BYTES, HEAD_DIM, lane);\n");
  if (alibi) {
    TEXT("  const float slope = load_slope(&args->score, batch, head);\n");
  }
  if (dropout) {
    TEXT("  const DropoutHead of_head = dropout_head(&args->score, batch * args->heads_q + head);\n");
  }
  TEXT("  float delta[S_ROWS][2];\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < S_ROWS; ++m) {\n"
       "    float lse_log2[2];\n");
  if (softcap) {
    TEXT("    cap_scores(score[m], S_COLUMNS, &args->score);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      const int position = row + m * 16 + half * 8 + lane / 4, column = key + lane % 4 * 2;\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("      const int64_t at = (int64_t)head * args->row_tiles * 16 + values_row + position;\n");
  } else {
    TEXT("      const int64_t at = (batch * args->heads_q + head) * args->row_tiles * 16 + position;\n");
  }
  TEXT("      lse_log2[half] = args->lse_log2[at];\n"
       "      delta[m][half] = args->delta[at];\n");
  if (bias != AP_ATTENTION_BIAS_NONE) {
    TEXT("      add_bias_at(score[m], BIAS, S_COLUMNS, half, false, args, batch, head, position, column);\n");
  }
  if (alibi) {
    TEXT("      add_alibi_at(score[m], S_COLUMNS, half, false, args, slope, position, column);\n");
  }
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("      mask_scores(score[m], S_COLUMNS, half, window_row(position, &args->score, args->seqlen_k),\n"
         "                  column);\n");
  } else {
    TEXT("      mask_scores(score[m], S_COLUMNS, half,\n"
         "                  row_at(position, CAUSAL, args->seqlen_q, args->seqlen_k), column);\n");
  }
  TEXT("    }\n"
       "    recompute_probabilities(score[m], S_COLUMNS, false, lse_log2, args->scale_log2);\n");
  if (dropout) {
    TEXT("    const DropoutWords rows = row_words(&of_head, row + m * 16, lane / 4);\n"
         "    mark_dropped(score[m], S_COLUMNS, &of_head, &rows, key, lane, args->score.dropout_threshold);\n");
  }
  TEXT("  }\n"
       "  // dP = dO V^T, then dS.\n"
       "  multiply_rows(grad[0], S_ROWS, S_COLUMNS, DTYPE, dout, ROW_BYTES_V, v, ROW_BYTES_V, HEAD_DIM_V,\n"
       "                lane);\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < S_ROWS; ++m) {\n");
  if (dropout) {
    TEXT("    differentiate_kept(grad[m], score[m], S_COLUMNS, false, delta[m], args->score.dropout_scale);\n");
  } else {
    TEXT("    differentiate_scores(grad[m], score[m], S_COLUMNS, false, delta[m]);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int i = 0; i < S_COLUMNS * 4; ++i)\n"
       "      sum[m][i] += grad[m][i];\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("        const __grid_constant__ attnpress_bwd_dbias_ragged_args given) {\n"
         "  const attnpress_bwd_dbias_args &args = given.dbias;\n");
  } else {
    TEXT("        const __grid_constant__ attnpress_bwd_dbias_args args) {\n");
  }
  TEXT("  extern __shared__ __align__(128) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  const attnpress_bwd_args *bwd = &args.bwd;\n"
       "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
       "  const int own_row = warp / WARPS_N * S_ROWS * 16; // this warp's part\n"
       "  const int own_key = warp % WARPS_N * S_COLUMNS * 8;\n"
       "\n"
       "  // The gradient's tile; what is summed over begins at 0.\n"
       "  const int key_begin = blockIdx.x % bwd->blocks * BLOCK_N;\n"
       "  const int row_block = blockIdx.x / bwd->blocks % args.row_blocks;\n"
       "  const int of_head = blockIdx.x / bwd->blocks / args.row_blocks;\n"
       "  const int head_begin = of_head % args.heads, batch_begin = of_head / args.heads;\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  const int rows = given.rows, keys = given.keys; // of the gradient\n"
         "  const int tile_key_end = min(key_begin + BLOCK_N, keys);\n");
  } else {
    TEXT("  const int key_end = min(key_begin + BLOCK_N, bwd->seqlen_k);\n");
  }
  TEXT("\n"
       "  float sum[S_ROWS][S_COLUMNS * 4];\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < S_ROWS; ++m)\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < S_COLUMNS * 4; ++i)\n"
       "      sum[m][i] = 0.0f;\n"
       "\n"
       "  int64_t loaded = -1; // whose K and V are there\n"
       "  for (int batch = batch_begin; batch < batch_begin + args.walk_batches; ++batch) {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("    const Sequence of = find_sequence(&given, batch);\n"
         "    const attnpress_bwd_args *bwd = &of.args;\n"
         "    const int key_end = min(key_begin + BLOCK_N, bwd->seqlen_k);\n"
         "    if (key_begin >= key_end)\n"
         "      continue;\n");
  }
  TEXT("    for (int head = head_begin; head < head_begin + args.walk_heads; ++head) {\n"
       "      const int kv_head = head / (bwd->heads_q / bwd->heads_kv);\n"
       "      for (int n = row_block; n < row_block + args.walk_row_blocks; ++n) {\n"
       "        const int row_begin = n * BLOCK_M, last_row = min(row_begin + BLOCK_M, bwd->seqlen_q) - 1;\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("        if (row_begin >= bwd->seqlen_q)\n"
         "          break;\n");
  }
  TEXT("        // Rows that see none of the keys are skipped.\n");
  if (mask == AP_ATTENTION_MASK_WINDOW) {
    TEXT("        if (window_row(row_begin, &bwd->score, bwd->seqlen_k).key_begin >= key_end ||\n"
         "            window_row(last_row, &bwd->score, bwd->seqlen_k).key_end <= key_begin)\n"
         "          continue;\n");
  } else {
    TEXT("        if (row_at(last_row, CAUSAL, bwd->seqlen_q, bwd->seqlen_k).key_end <= key_begin)\n"
         "          continue;\n");
  }
  TEXT("        // All threads arrive and wait: everyone has read the step before.\n"
       "        __syncthreads();\n"
       "        const int64_t wanted = (int64_t)batch * bwd->heads_kv + kv_head;\n"
       "        if (wanted != loaded) {\n"
       "          load_rows(shared + K_OFFSET, bwd->k,\n"
       "                    ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "of.k_batch" : "batch");
  TEXT(" * bwd->k_batch_stride + kv_head * bwd->k_head_stride +\n"
       "                        ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(of.k_row + key_begin)" : "key_begin");
  TEXT(" * bwd->k_row_stride,\n"
       "                    bwd->k_row_stride, BLOCK_N, HEAD_DIM, bwd->seqlen_k - key_begin);\n"
       "          load_rows(shared + V_OFFSET, bwd->v,\n"
       "                    ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "of.k_batch" : "batch");
  TEXT(" * bwd->v_batch_stride + kv_head * bwd->v_head_stride +\n"
       "                        ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(of.k_row + key_begin)" : "key_begin");
  TEXT(" * bwd->v_row_stride,\n"
       "                    bwd->v_row_stride, BLOCK_N, HEAD_DIM_V, bwd->seqlen_k - key_begin);\n"
       "          loaded = wanted;\n"
       "        }\n"
       "        load_rows(shared, bwd->q,\n"
       "                  ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "of.q_batch" : "batch");
  TEXT(" * bwd->q_batch_stride + head * bwd->q_head_stride +\n"
       "                      ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(of.q_row + row_begin)" : "row_begin");
  TEXT(" * bwd->q_row_stride,\n"
       "                  bwd->q_row_stride, BLOCK_M, HEAD_DIM, bwd->seqlen_q - row_begin);\n"
       "        load_rows(shared + DO_OFFSET, bwd->dout,\n"
       "                  ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "of.q_batch" : "batch");
  TEXT(" * bwd->dout_batch_stride + head * bwd->dout_head_stride +\n"
       "                      ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "(of.q_row + row_begin)" : "row_begin");
  TEXT(" * bwd->dout_row_stride,\n"
       "                  bwd->dout_row_stride, BLOCK_M, HEAD_DIM_V, bwd->seqlen_q - row_begin);\n"
       "        cp_async_commit();\n"
       "        cp_async_wait(0);\n"
       "        // All threads arrive and wait: hands over what everyone's copies brought.\n"
       "        __syncthreads();\n"
       "        add_step(sum, bwd, shared + own_row * ROW_BYTES,\n"
       "                 shared + DO_OFFSET + own_row * ROW_BYTES_V,\n"
       "                 shared + K_OFFSET + own_key * ROW_BYTES,\n"
       "                 shared + V_OFFSET + own_key * ROW_BYTES_V, batch, head, row_begin + own_row,\n"
       "                 key_begin + own_key");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT(", of.values_row");
  }
  TEXT(");\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "\n"
       "  const int64_t of_batch = batch_begin * args.dbias_batch_stride +\n"
       "                           head_begin * args.dbias_head_stride;\n"
       "  if (!args.sums_rows) {\n"
       "#pragma unroll\n"
       "    for (int m = 0; m < S_ROWS; ++m) {\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < S_COLUMNS * 4; ++i) {\n"
       "        const int row = row_block * BLOCK_M + own_row + m * 16 + i / 2 % 2 * 8 + lane / 4;\n"
       "        const int key = key_begin + own_key + i / 4 * 8 + lane % 4 * 2 + i % 2;\n"
       "        if (row < ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "rows" : "bwd->seqlen_q");
  TEXT(" && key < ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "keys" : "bwd->seqlen_k");
  TEXT(")\n"
       "          store_element(&args, of_batch + row * args.dbias_row_stride + key * args.dbias_key_stride,\n"
       "                        sum[m][i]);\n"
       "      }\n"
       "    }\n"
       "    return;\n"
       "  }\n"
       "\n"
       "  // One row: of each column, the sum over the lanes and the warps that share it.\n"
       "  float *const columns = (float *)smem;\n"
       "  // All threads arrive and wait: everyone has read the last step, whose place the sums take.\n"
       "  __syncthreads();\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < S_COLUMNS * 2; ++i) {\n"
       "    float column = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int m = 0; m < S_ROWS; ++m)\n"
       "      column += sum[m][i / 2 * 4 + i % 2] + sum[m][i / 2 * 4 + 2 + i % 2];\n"
       "#pragma unroll\n"
       "    for (int distance = 4; distance < 32; distance *= 2)\n"
       "      column += __shfl_xor_sync(0xffffffff, column, distance);\n"
       "    if (lane < 4)\n"
       "      columns[warp / WARPS_N * BLOCK_N + own_key + i / 2 * 8 + lane * 2 + i % 2] = column;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of each warp.\n"
       "  __syncthreads();\n"
       "  for (int i = threadIdx.x; i < ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "tile_key_end" : "key_end");
  TEXT(" - key_begin; i += NUM_THREADS) {\n"
       "    float column = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int part = 0; part < WARPS_M; ++part)\n"
       "      column += columns[part * BLOCK_N + i];\n"
       "    store_element(&args, of_batch + (key_begin + i) * args.dbias_key_stride, column);\n"
       "  }\n"
       "}\n");
}
