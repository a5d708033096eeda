/* Written by `python -m generator` from templates/attention/flash_bwd_delta.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_delta(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_delta(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t hdim_v = in->axis[AP_ATTENTION_HDIM_V];
  const int32_t dtype = in->axis[AP_ATTENTION_DTYPE];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  int32_t passes = ((sequences == AP_ATTENTION_SEQUENCES_DENSE) && (hdim_v < 192)) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Before the backward pass: of each query row delta = rowsum(dO out) - dlse and log2(e) lse, and\n"
       "// the sum of dQ starts at zero. dO and out are ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT(". ROW_THREADS threads share a row. They\n"
       "// copy their chunks of several rows to shared memory: these are on their way without registers.\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("// Of sequences that have no such sum, dq of those without keys becomes zero.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/attention/flash_bwd_delta.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass bwd_delta --hdim ");
  INTEGER(hdim);
  TEXT(" --dtype ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT(" --");
    STRING(in->word[AP_ATTENTION_SEQUENCES]);
  }
  TEXT("\n"
       "#include \"attnpress/args/attention.h\"\n"
       "#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/gradient.cuh\"\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/gradient_sequence.cuh\"\n");
    if (hdim_v <= 64) {
      TEXT("#include \"attnpress/device/gradient_share.cuh\"\n");
    }
  }
  TEXT("#include \"attnpress/device/gradient_store.cuh\"\n");
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("#include \"attnpress/device/gradient_zero.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/ptx_red.cuh\"\n");
  }
  TEXT("constexpr int HEAD_DIM_V = ");
  INTEGER(hdim_v);
  TEXT(";\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_ATTENTION_DTYPE_BF16) ? "BF16" : "FP16");
  TEXT(";\n"
       "constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT("; // rows of a thread block\n"
       "constexpr int NUM_THREADS = ");
  INTEGER(32 * warps_m);
  TEXT(";\n"
       "constexpr int CHUNKS = HEAD_DIM_V / 8; // of 16 bytes, of a row\n"
       "constexpr int ROW_THREADS = CHUNKS > 16 ? 32 : CHUNKS > 8 ? 16 : CHUNKS > 4 ? 8 : 4;\n"
       "constexpr int ROW_CHUNKS = ceil_div(CHUNKS, ROW_THREADS); // of a thread, of a row\n"
       "constexpr int ROUND_ROWS = NUM_THREADS / ROW_THREADS;     // rows of all threads at a time\n"
       "constexpr int ROUNDS = BLOCK_M / ROUND_ROWS;\n"
       "constexpr int DEPTH = ROUNDS < 4 ? ROUNDS : 4 / ROW_CHUNKS; // rounds that are on their way\n"
       "constexpr int TENSOR_BYTES = ROW_CHUNKS * NUM_THREADS * 16; // of a round, of out or dO\n"
       "static_assert(ROUNDS * ROUND_ROWS == BLOCK_M && ROUNDS <= ROW_THREADS, \"a row of a thread's own\");\n"
       "\n"
       "// Sum of the products of eight pairs of elements.\n"
       "__device__ __forceinline__ float multiply_chunks(uint4 x, uint4 y) {\n"
       "  const uint32_t pairs[2][4] = {{x.x, x.y, x.z, x.w}, {y.x, y.y, y.z, y.w}};\n"
       "  float sum = 0.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i) {\n"
       "    sum += widen_low(DTYPE, pairs[0][i]) * widen_low(DTYPE, pairs[1][i]);\n"
       "    sum += widen_high(DTYPE, pairs[0][i]) * widen_high(DTYPE, pairs[1][i]);\n"
       "  }\n"
       "  return sum;\n"
       "}\n"
       "\n"
       "// Starts copies of a thread's chunks of a row of out and of dO, as a group; zeros where it is not\n"
       "// `valid`.\n"
       "__device__ __forceinline__ void copy_row(uint32_t place, const uint16_t *out, const uint16_t *dout,\n"
       "                                         int part, bool valid) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ROW_CHUNKS; ++i) {\n"
       "    const int chunk = i * ROW_THREADS + part;\n"
       "    const int bytes = valid && chunk < CHUNKS ? 16 : 0;\n"
       "    cp_async_16(place + i * NUM_THREADS * 16, out + chunk * 8, bytes);\n"
       "    cp_async_16(place + TENSOR_BYTES + i * NUM_THREADS * 16, dout + chunk * 8, bytes);\n"
       "  }\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("// Rows `first_row` to `first_row` + BLOCK_M - 1 of a query head of a sequence: delta, lse, and\n"
         "// zeros of their sum. All threads.\n"
         "__device__ __forceinline__ void prepare_rows(const attnpress_bwd_ragged_args &given,\n"
         "                                             const SequencePlace &at, int64_t sequence, int head,\n"
         "                                             int first_row) {\n"
         "  const attnpress_bwd_args &args = given.bwd;\n"
         "  const int seqlen_q = at.seqlen_q;\n"
         "  const float *lse = args.lse + head * args.lse_head_stride +\n"
         "                     (given.ragged.lse_packed ? at.q_row * given.ragged.lse_row_stride\n"
         "                                              : sequence * args.lse_batch_stride);\n"
         "  const int64_t dlse_offset =\n"
         "      head * args.dlse_head_stride + (given.dlse_packed ? at.q_row * given.dlse_row_stride\n"
         "                                                        : sequence * args.dlse_batch_stride);\n"
         "  // What makes of lse a logarithm to the base 2, and of its gradient one by the natural logarithm.\n"
         "  const float to_log2 = given.ragged.lse_log2 ? 1.0f : LOG2_E;\n"
         "  const float of_natural = given.ragged.lse_log2 ? LOG2_E : 1.0f;\n"
         "  // Where these rows begin in lse_log2 and delta.\n"
         "  const int64_t values = (int64_t)head * args.row_tiles * 16 + at.values_row;\n"
         "  const uint16_t *out = (const uint16_t *)args.out + at.q_batch * args.out_batch_stride +\n"
         "                        at.q_row * args.out_row_stride + head * args.out_head_stride;\n"
         "  const uint16_t *dout = (const uint16_t *)args.dout + at.q_batch * args.dout_batch_stride +\n"
         "                         at.q_row * args.dout_row_stride + head * args.dout_head_stride;\n"
         "\n"
         "  // The last block of a sequence writes what pads it, a row a thread at most.\n"
         "  static_assert(NUM_THREADS >= PADDED_ROWS - BLOCK_M, \"rows\");\n"
         "  const int pad = first_row + BLOCK_M + threadIdx.x;\n"
         "  if (first_row + BLOCK_M >= seqlen_q && pad < ceil_div(seqlen_q, PADDED_ROWS) * PADDED_ROWS) {\n"
         "    args.lse_log2[values + pad] = INF;\n"
         "    args.delta[values + pad] = 0.0f;\n"
         "  }\n");
  } else {
    TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS)\n"
         "    ");
    STRING(stem);
    TEXT("(\n"
         "        const __grid_constant__ attnpress_bwd_args args) {\n"
         "  griddepcontrol_launch_dependents();\n"
         "  if (args.taken != nullptr && blockIdx.x + threadIdx.x == 0)\n"
         "    *args.taken = 0;\n"
         "  const int rows = args.row_tiles * 16; // of a head, padded\n"
         "  const int row_blocks = rows / BLOCK_M;\n"
         "  const int first_row = blockIdx.x % row_blocks * BLOCK_M;\n"
         "  const int head_index = blockIdx.x / row_blocks; // batch and query head\n"
         "  const int head = head_index % args.heads_q;\n"
         "  const int64_t batch = head_index / args.heads_q;\n"
         "  const uint16_t *out =\n"
         "      (const uint16_t *)args.out + batch * args.out_batch_stride + head * args.out_head_stride;\n"
         "  const uint16_t *dout =\n"
         "      (const uint16_t *)args.dout + batch * args.dout_batch_stride + head * args.dout_head_stride;\n");
  }
  TEXT("  // A place of its own for each thread's chunks, which no other reads.\n"
       "  __shared__ __align__(16) uint4 places[DEPTH][2][ROW_CHUNKS][NUM_THREADS];\n"
       "  const uint32_t place = shared_address(&places[0][0][0][threadIdx.x]);\n"
       "  const int part = threadIdx.x % ROW_THREADS, row = first_row + threadIdx.x / ROW_THREADS;\n"
       "  const int seqlen = ");
  STRING((sequences == AP_ATTENTION_SEQUENCES_RAGGED) ? "seqlen_q" : "args.seqlen_q");
  TEXT(";\n"
       "#pragma unroll\n"
       "  for (int round = 0; round < DEPTH; ++round) {\n"
       "    const int64_t r = row + round * ROUND_ROWS;\n"
       "    copy_row(place + round * 2 * TENSOR_BYTES, out + r * args.out_row_stride,\n"
       "             dout + r * args.dout_row_stride, part, r < seqlen);\n"
       "  }\n"
       "  // Of the rows of all rounds, each is written by one of its threads.\n"
       "  const int own = row + part * ROUND_ROWS;\n"
       "  float delta = 0.0f, lse_log2 = INF;\n"
       "  if (part < ROUNDS && own < seqlen) {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("    lse_log2 = lse_or_inf(lse[own * given.ragged.lse_row_stride] * to_log2);\n");
  } else {
    TEXT("    lse_log2 = lse_or_inf(\n"
         "        args.lse[batch * args.lse_batch_stride + head * args.lse_head_stride + own] * LOG2_E);\n");
  }
  TEXT("  }\n"
       "\n"
       "  // This block's rows of the sum, which lie together.\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  const int tile = first_row / 16; // of as many as the sequence has\n"
         "  const int tiles = min(BLOCK_M / 16, ceil_div(seqlen_q, 16) - tile);\n"
         "  const bool direct = at.seqlen_k <= given.direct_keys; // dq without a sum\n"
         "  const int quads = direct ? 0 : max(tiles, 0) * args.dq_sum_quads;\n"
         "  float4 *dq_sum = (float4 *)args.dq_sum +\n"
         "                ((int64_t)head * args.sum_tiles + at.sum_tile + tile) * args.dq_sum_quads;\n");
  } else {
    if (passes) {
      TEXT("  const bool zeroes =\n"
           "      args.zero_ahead == 0 ||\n"
           "      (args.zero_ahead > 0 && head_index < first_head_of_unit(&args, args.zero_ahead));\n");
    } else {
      TEXT("  const bool zeroes =\n"
           "      args.zero_ahead == 0 || head_index < first_head_of_unit(&args, args.zero_ahead);\n");
    }
    TEXT("  const int tile = first_row / 16;\n"
         "  const int tiles = zeroes ? min(BLOCK_M / 16, args.sum_tiles - tile) : 0;\n"
         "  const int quads = max(tiles, 0) * args.dq_sum_quads;\n"
         "  float4 *dq_sum = (float4 *)args.dq_sum +\n"
         "                ((int64_t)head_index * args.sum_tiles + tile) * args.dq_sum_quads;\n");
  }
  TEXT("  for (int i = threadIdx.x; i < quads; i += NUM_THREADS)\n"
       "    dq_sum[i] = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "\n"
       "#pragma unroll\n"
       "  for (int round = 0; round < ROUNDS; ++round) {\n"
       "    // This thread's copies of the round have ended.\n"
       "    cp_async_wait(ROUNDS - 1 - round < DEPTH - 1 ? ROUNDS - 1 - round : DEPTH - 1);\n"
       "    float sum = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ROW_CHUNKS; ++i)\n"
       "      sum += multiply_chunks(places[round % DEPTH][0][i][threadIdx.x],\n"
       "                             places[round % DEPTH][1][i][threadIdx.x]);\n"
       "    if (round + DEPTH < ROUNDS) {\n"
       "      const int64_t r = row + (round + DEPTH) * ROUND_ROWS;\n"
       "      copy_row(place + round % DEPTH * 2 * TENSOR_BYTES, out + r * args.out_row_stride,\n"
       "               dout + r * args.dout_row_stride, part, r < seqlen);\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int distance = 1; distance < ROW_THREADS; distance *= 2)\n"
       "      sum += __shfl_xor_sync(0xffffffff, sum, distance);\n"
       "    if (part == round)\n"
       "      delta = sum;\n"
       "  }\n"
       "  if (part < ROUNDS) {\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("    if (args.dlse && own < seqlen)\n"
         "      delta -= args.dlse[dlse_offset + own * given.dlse_row_stride] * of_natural;\n"
         "    args.lse_log2[values + own] = lse_log2;\n"
         "    args.delta[values + own] = delta;\n");
  } else {
    TEXT("    if (args.dlse && own < seqlen)\n"
         "      delta -= args.dlse[batch * args.dlse_batch_stride + head * args.dlse_head_stride + own];\n"
         "    args.lse_log2[(int64_t)head_index * rows + own] = lse_log2;\n"
         "    args.delta[(int64_t)head_index * rows + own] = delta;\n");
  }
  TEXT("  }\n"
       "\n");
  if (passes) {
    TEXT("  if (args.zero_ahead < 0) { // a mark of each row tile, which lie like the rows\n"
         "    if (threadIdx.x < BLOCK_M / 16)\n"
         "      args.dq_zeroed[(int64_t)blockIdx.x * (BLOCK_M / 16) + threadIdx.x] = 0;\n"
         "  } else if (args.zero_ahead > 0 && threadIdx.x == 0 &&\n"
         "             blockIdx.x < args.batch * args.heads_kv * args.group_parts) {\n"
         "    args.dq_zeroed[blockIdx.x] = 0;\n"
         "  }\n");
  } else if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("  if (args.zero_ahead != 0 && threadIdx.x == 0 &&\n"
         "      blockIdx.x < args.batch * args.heads_kv * args.group_parts)\n"
         "    args.dq_zeroed[blockIdx.x] = 0;\n");
  }
  TEXT("}\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("// dq of `rows` rows of a query head of a sequence without keys, from `first_row` on: zeros. All\n"
         "// threads.\n"
         "__device__ __forceinline__ void clear_rows(const attnpress_bwd_args &args, const SequencePlace &at,\n"
         "                                           int head, int first_row, int rows) {\n"
         "  if (args.dq_sum_quads == 0 || args.accumulate)\n"
         "    return;\n"
         "  const int chunks = args.dq_sum_quads / 32; // of 16 bytes, of a row of dq\n"
         "  for (int i = threadIdx.x; i < rows * chunks; i += NUM_THREADS) {\n"
         "    uint16_t *const row = (uint16_t *)args.dq + at.q_batch * args.dq_batch_stride +\n"
         "                          (at.q_row + first_row + i / chunks) * args.dq_row_stride +\n"
         "                          head * args.dq_head_stride;\n"
         "    *(uint4 *)(row + i % chunks * 8) = uint4{0, 0, 0, 0};\n"
         "  }\n"
         "}\n"
         "\n");
    if (hdim_v <= 64) {
      TEXT("// Of a grid with a thread block for each query head of a unit: the shares of the first units of\n"
           "// bwd, whose order it is. What warps of bwd do of the others counts from 0.\n"
           "__device__ __forceinline__ void prepare_shares(const attnpress_bwd_ragged_args &given) {\n"
           "  const attnpress_bwd_args &args = given.bwd;\n"
           "  const int warp = threadIdx.x / 32, group = args.heads_q / args.heads_kv;\n"
           "  __shared__ int ends[NUM_THREADS / 32];\n"
           "  __shared__ Share share;\n"
           "  static_assert(SHARE_ROWS % BLOCK_M == 0, \"rows of a share\");\n"
           "  for (int i = blockIdx.x * NUM_THREADS + threadIdx.x; i < args.batch * args.heads_kv;\n"
           "       i += gridDim.x * NUM_THREADS)\n"
           "    args.dq_zeroed[i] = 0;\n"
           "  for (int b = blockIdx.x; b < args.batch; b += gridDim.x) {\n"
           "    const SequencePlace at = place_of_sequence(&given, b);\n"
           "    for (int head = 0; at.seqlen_k == 0 && head < args.heads_q; ++head)\n"
           "      clear_rows(args, at, head, 0, at.seqlen_q);\n"
           "  }\n"
           "  int end = find_end_of_first(&given, threadIdx.x, NUM_THREADS);\n"
           "#pragma unroll\n"
           "  for (int distance = 1; distance < 32; distance *= 2)\n"
           "    end = max(end, __shfl_xor_sync(0xffffffff, end, distance));\n"
           "  if (threadIdx.x % 32 == 0)\n"
           "    ends[warp] = end;\n"
           "  // All threads arrive and wait: hands over what each warp has found.\n"
           "  __syncthreads();\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < NUM_THREADS / 32; ++i)\n"
           "    end = max(end, ends[i]);\n"
           "  if (blockIdx.x + threadIdx.x == 0)\n"
           "    *end_of_first(&given) = end;\n"
           "  for (int unit = blockIdx.x / group; unit < end; unit += gridDim.x / group) {\n"
           "    // All threads arrive and wait, before and behind: the share is another, and its rows are known.\n"
           "    __syncthreads();\n"
           "    if (warp == 0)\n"
           "      find_share(&given, unit, &share);\n"
           "    __syncthreads();\n"
           "    for (int row = share.begin; row < share.end; row += BLOCK_M)\n"
           "      prepare_rows(given, share.at, share.sequence, share.head + blockIdx.x % group, row);\n"
           "  }\n"
           "}\n"
           "\n");
    }
    TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS)\n"
         "    ");
    STRING(stem);
    TEXT("(\n"
         "        const __grid_constant__ attnpress_bwd_ragged_args given) {\n"
         "  const attnpress_bwd_args &args = given.bwd;\n"
         "  griddepcontrol_launch_dependents();\n"
         "  if (args.taken != nullptr && blockIdx.x + threadIdx.x == 0)\n"
         "    *args.taken = 0;\n");
    if (hdim_v <= 64) {
      TEXT("  if (args.zero_ahead > 0) {\n"
           "    prepare_shares(given);\n"
           "    return;\n"
           "  }\n");
    }
    TEXT("  if (!is_unit(&given, blockIdx.x))\n"
         "    return;\n"
         "  const Unit unit = find_unit(&given, blockIdx.x, args.heads_q);\n"
         "  const SequencePlace at = place_of_unit(&given, &unit);\n"
         "  const int first_row = unit.block * BLOCK_M;\n"
         "  if (args.taken != nullptr && threadIdx.x == 0 && at.seqlen_k > given.direct_keys)\n"
         "    red_max(args.taken + 1, blockIdx.x + 1);\n"
         "  prepare_rows(given, at, unit.sequence, unit.head, first_row);\n"
         "  if (at.seqlen_k == 0)\n"
         "    clear_rows(args, at, unit.head, first_row, min(BLOCK_M, at.seqlen_q - first_row));\n"
         "}\n");
  }
}
