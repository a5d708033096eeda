/* Written by `python -m generator` from templates/attention/flash_fwd_combine_few.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_combine_few(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_combine_few(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t hdim_v = in->axis[AP_ATTENTION_HDIM_V];
  const int32_t dtype = in->axis[AP_ATTENTION_DTYPE];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t few = in->axis[AP_ATTENTION_FEW];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t block_n = in->field[AP_ATTENTION_TILE_BLOCK_N];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Adds up the splits at fixed places of sm90's kernels, in their order, with the bits of\n"
       "// flash_fwd_combine, where rows and parts are so few that their time is that of a trip to memory:\n"
       "// a thread block computes COLUMNS columns of one row. All of its threads ask for parts at once,\n"
       "// before it is known how many there are, and the first warp adds them up, a column a lane.\n"
       "// The output is ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT(", all else fp32.\n"
       "//\n"
       "// Pressed from templates/attention/flash_fwd_combine_few.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass fwd_combine --hdim ");
  INTEGER(hdim_v);
  TEXT(" --dtype ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT(" --");
  STRING(in->word[AP_ATTENTION_SEQUENCES]);
  TEXT(" --few --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/attention.h\"\n"
       "#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/sequence.cuh\"\n"
       "#include \"attnpress/device/softmax.cuh\"\n"
       "#include \"attnpress/device/tile.cuh\"\n"
       "\n"
       "constexpr int HEAD_DIM_V = ");
  INTEGER(hdim_v);
  TEXT(";\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_ATTENTION_DTYPE_BF16) ? "BF16" : "FP16");
  TEXT(";\n"
       "constexpr int COLUMNS = ");
  INTEGER(block_n);
  TEXT("; // of a thread block\n"
       "constexpr int WARPS = ");
  INTEGER(warps_m);
  TEXT(";\n"
       "constexpr int COLUMN_BLOCKS = ceil_div(HEAD_DIM_V, COLUMNS);\n"
       "constexpr int GROUP_THREADS = COLUMNS / 4; // that ask for a part\n"
       "constexpr int GROUPS = 32 * WARPS / GROUP_THREADS;\n"
       "constexpr int PARTS = 2 * GROUPS; // at most\n"
       "static_assert(COLUMNS == 32 && PARTS == 32, \"a column a lane, and a part a lane\");\n"
       "\n");
  if ((sequences == AP_ATTENTION_SEQUENCES_DENSE) && !few) {
    TEXT("// Where a row of (batch, heads_q, seqlen_q) lies: offsets of its output and of its lse, its head\n"
         "// and its batch.\n");
  } else {
    TEXT("// A row of (batch, heads_q, seqlen_q): its position, head and batch.\n");
  }
  TEXT("struct RowPlace {\n");
  if ((sequences == AP_ATTENTION_SEQUENCES_DENSE) && !few) {
    TEXT("  int64_t out, lse;\n");
  } else {
    TEXT("  int position;\n");
  }
  TEXT("  int head, batch;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ RowPlace find_row(const attnpress_fwd_combine_args *args, int row) {\n"
       "  const int heads = row / args->seqlen_q, position = row - heads * args->seqlen_q;\n"
       "  RowPlace place;\n"
       "  place.batch = heads / args->heads_q;\n"
       "  place.head = heads - place.batch * args->heads_q;\n");
  if ((sequences == AP_ATTENTION_SEQUENCES_DENSE) && !few) {
    TEXT("  place.out = place.batch * args->out_batch_stride + position * args->out_row_stride +\n"
         "              place.head * args->out_head_stride;\n"
         "  place.lse = place.batch * args->lse_batch_stride + place.head * args->lse_head_stride + position;\n");
  } else {
    TEXT("  place.position = position;\n");
  }
  TEXT("  return place;\n"
       "}\n"
       "\n"
       "// A row's sum ends with its sink, if there is one.\n"
       "__device__ __forceinline__ RowEnd end_of_row(const attnpress_fwd_combine_args *args, int head,\n"
       "                                             float max, float weights) {\n"
       "  if (args->sinks == nullptr)\n"
       "    return {normalizer(weights), natural_lse(max, weights)};\n"
       "  return end_row_with_sink(\n"
       "      max, weights,\n"
       "      load_sink(args->sinks, args->sinks_dtype, args->sinks_stride, head, args->heads_q));\n"
       "}\n"
       "\n");
  if ((sequences != AP_ATTENTION_SEQUENCES_DENSE) || few) {
    TEXT("// Where a row of a sequence whose queries are `rows` lies in the output.\n"
         "__device__ __forceinline__ uint16_t *out_of_row(const attnpress_fwd_combine_args *args,\n"
         "                                                const attnpress_ragged_args *ragged, Rows rows,\n"
         "                                                RowPlace place) {\n"
         "  const int64_t out_batch = ragged->cu_seqlens_q != nullptr ? 0 : place.batch;\n"
         "  return (uint16_t *)args->out + out_batch * args->out_batch_stride +\n"
         "         (rows.begin + place.position) * args->out_row_stride +\n"
         "         place.head * args->out_head_stride;\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void store_row_lse(const attnpress_fwd_combine_args *args,\n"
         "                                              const attnpress_ragged_args *ragged, Rows rows,\n"
         "                                              RowPlace place, float lse) {\n"
         "  args->lse[lse_of_sequence(ragged, rows, place.batch, args->lse_batch_stride) +\n"
         "            place.head * args->lse_head_stride + place.position * ragged->lse_row_stride] =\n"
         "      stored_lse(ragged, lse);\n"
         "}\n"
         "\n"
         "// Stores one column of such a row, a lane each, and its lse with the first.\n"
         "__device__ __forceinline__ void store_column(const attnpress_fwd_combine_args *args,\n"
         "                                             const attnpress_ragged_args *ragged, Rows rows,\n"
         "                                             RowPlace place, int column, bool valid,\n"
         "                                             WeightedParts sum, float out, bool stores) {\n"
         "  RowEnd end = {normalizer(sum.weights), natural_lse(sum.max, sum.weights)};\n"
         "  if (args->sinks != nullptr && stores)\n"
         "    end = end_of_row(args, place.head, sum.max, sum.weights);\n"
         "  const float value = out * end.normalize, other = __shfl_xor_sync(0xffffffff, value, 1);\n"
         "  if (valid && stores && column % 2 == 0)\n"
         "    *(uint32_t *)(out_of_row(args, ragged, rows, place) + column) = pack(DTYPE, value, other);\n"
         "  if (args->lse && stores && column == 0)\n"
         "    store_row_lse(args, ragged, rows, place, end.lse);\n"
         "}\n"
         "\n");
  }
  TEXT("// A row's parts, of which each group of threads has asked for two, and what each of them counts.\n"
       "struct Parts {\n"
       "  float4 out[PARTS][GROUP_THREADS];\n"
       "  float2 factors[PARTS];\n"
       "};\n"
       "\n"
       "// Asks for all parts of a row, and hands them over in shared memory. Those that are not there are 0\n"
       "// and count nothing. Returns the row's maximum, to the first warp.\n"
       "__device__ __forceinline__ float take_parts(const attnpress_fwd_combine_ragged_args *batch,\n"
       "                                            int row, int sequence, int column_block, Parts *shared,\n"
       "                                            int bound, int *num_splits) {\n"
       "  const attnpress_fwd_combine_args *args = &batch->combine;\n"
       "  const int lane = threadIdx.x % 32, group = threadIdx.x / GROUP_THREADS;\n"
       "  const int thread = threadIdx.x % GROUP_THREADS, column = column_block * COLUMNS + thread * 4;\n"
       "  const int64_t step = args->rows * GROUPS * HEAD_DIM_V;\n"
       "  const float *at = args->out_partial + (group * args->rows + row) * HEAD_DIM_V +\n"
       "                    (HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V ? column : 0);\n"
       "  const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "  float4 parts[PARTS / GROUPS];\n"
       "  float lse = -INF;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < PARTS / GROUPS; ++i) {\n"
       "    parts[i] = zero;\n"
       "    if (i * GROUPS + group < bound)\n"
       "      parts[i] = *(const float4 *)(at + i * step);\n"
       "  }\n"
       "  if (threadIdx.x < bound)\n"
       "    lse = args->lse_partial[threadIdx.x * args->rows + row];\n"
       "  if (bound > 0)\n"
       "    *num_splits = batch->sequence_splits[sequence];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < PARTS / GROUPS; ++i)\n"
       "    shared->out[i * GROUPS + group][thread] =\n"
       "        i * GROUPS + group < *num_splits ? parts[i] : zero;\n"
       "  if (threadIdx.x >= 32)\n"
       "    return -INF;\n"
       "  if (lane >= *num_splits)\n"
       "    lse = -INF;\n"
       "  // The greatest up to this lane's part.\n"
       "  float greatest = multiply_add_once(lse, LOG2_E, 0.0f);\n"
       "#pragma unroll\n"
       "  for (int lanes = 1; lanes < 32; lanes *= 2)\n"
       "    greatest = fmaxf(greatest, __shfl_sync(0xffffffff, greatest, max(lane - lanes, 0)));\n"
       "  WeightedParts before = {__shfl_sync(0xffffffff, greatest, max(lane - 1, 0)), 0.0f};\n"
       "  if (lane == 0)\n"
       "    before.max = -INF;\n"
       "  shared->factors[lane] = weigh_part(&before, lse);\n"
       "  return __shfl_sync(0xffffffff, greatest, 31);\n"
       "}\n"
       "\n"
       "// Adds up all splits of a row, in COLUMNS columns, and stores the result. `reads`: otherwise it is\n"
       "// gone through so that its code has come, and nothing is read or stored.\n"
       "constexpr int ADDED = 16; // parts at once: most rows have no more\n"
       "__device__ __forceinline__ void combine_row(const attnpress_fwd_combine_ragged_args *batch,\n"
       "                                            Rows rows, int row, RowPlace place, int column_block,\n"
       "                                            Parts *shared, bool reads) {\n"
       "  int num_splits = 0;\n"
       "  const int bound = reads ? batch->combine.num_splits : 0;\n"
       "  WeightedParts sum = {\n"
       "      take_parts(batch, row, place.batch, column_block, shared, bound, &num_splits), 0.0f};\n"
       "  // All threads arrive and wait: hands over the parts.\n"
       "  __syncthreads();\n"
       "  if (threadIdx.x >= 32)\n"
       "    return;\n"
       "  const int column = column_block * COLUMNS + threadIdx.x;\n"
       "  float out = 0.0f;\n"
       "  int first = 0;\n"
       "#pragma unroll 1\n"
       "  do {\n"
       "    const float *part = (const float *)shared->out[first] + threadIdx.x;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ADDED; ++i) {\n"
       "      const float2 factors = shared->factors[first + i];\n"
       "      sum.weights = multiply_add_once(factors.x, sum.weights, factors.y);\n"
       "      out = add_weighted(factors, out, part[i * COLUMNS]);\n"
       "    }\n"
       "    first += ADDED;\n"
       "  } while (first < num_splits);\n"
       "  store_column(&batch->combine, &batch->ragged, rows, place, column,\n"
       "               HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V, sum, out + 0.0f, reads);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(32 * WARPS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_fwd_combine_ragged_args batch) {\n"
       "  __shared__ Parts shared;\n"
       "  const attnpress_fwd_combine_args *args = &batch.combine;\n"
       "  const int row = blockIdx.x / COLUMN_BLOCKS; // of (batch, heads_q, seqlen_q)\n"
       "  const RowPlace place = find_row(args, row);\n"
       "  // What comes next may begin to wait before this kernel waits itself, and the code is gone through\n"
       "  // before, with nothing to read.\n"
       "  griddepcontrol_launch_dependents();\n"
       "#pragma unroll 1\n"
       "  for (int turn = 0; turn < 2; ++turn) {\n"
       "    if (turn == 1) {\n"
       "      // All threads arrive and wait: what was handed over for nothing has been read.\n"
       "      __syncthreads();\n"
       "      griddepcontrol_wait();\n"
       "    }\n"
       "    Rows rows = {0, args->seqlen_q};\n"
       "    if (turn == 1)\n"
       "      rows = query_rows(&batch.ragged, place.batch, args->seqlen_q);\n"
       "    if (place.position < rows.count) // else no split has written it\n"
       "      combine_row(&batch, rows, row, place, blockIdx.x % COLUMN_BLOCKS, &shared, turn == 1);\n"
       "  }\n"
       "}\n");
}
