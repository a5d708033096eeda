/* Written by `python -m generator` from templates/attention/flash_fwd_combine.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in) {
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
       "// Adds up the splits of a forward pass:\n"
       "//   lse = log(sum_i exp(lse_i)), out = sum_i exp(lse_i - lse) out_i,\n"
       "// where a head's sink, if there is one, is one more lse_i, whose out_i is 0.\n"
       "// The output is ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  TEXT(", all else fp32. One thread block computes COLUMNS columns of one row: its\n"
       "// threads form groups of COLUMNS / 4 threads, and each group adds up every GROUPS-th split.\n"
       "// Where rows are many and splits few, it computes GROUPS rows, and each group adds up all splits of\n"
       "// one (args.block_rows).\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// Splits of a batch-invariant call by sm90's kernels a warp adds up, in their order; those of few\n"
         "// rows flash_fwd_combine_few does, of other calls, too.\n");
  }
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// No address depends on what was loaded before: a step costs one trip to memory.\n");
  } else {
    TEXT("// A split past a sequence's keys has lse = -inf and no output.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/attention/flash_fwd_combine.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass fwd_combine --hdim ");
  INTEGER(hdim_v);
  TEXT(" --dtype ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT(" --");
    STRING(in->word[AP_ATTENTION_SEQUENCES]);
  }
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/attention.h\"\n"
       "#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("#include \"attnpress/device/ptx_prefetch.cuh\"\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("#include \"attnpress/device/sequence.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/softmax.cuh\"\n"
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
       "constexpr int GROUP_THREADS = COLUMNS / 4; // of 4 columns\n"
       "constexpr int GROUPS = 32 * WARPS / GROUP_THREADS;\n"
       "constexpr int STEP = 4; // splits that a group loads at once\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("constexpr int FEW_PARTS = 4096; // of all rows\n");
  }
  TEXT("static_assert(32 % GROUP_THREADS == 0, \"a warp is a number of groups\");\n"
       "\n"
       "// A sum over some of the splits: of 2^(lse - max) and of 2^(lse - max) out, in 4 columns; lse and\n"
       "// its maximum in units of log2. No splits, or none with a key: -inf, 0 and 0.\n"
       "struct Sum {\n"
       "  float max, weights;\n"
       "  float4 out;\n"
       "};\n"
       "\n"
       "// 2^(lse - max), where max may be -inf: then lse is, too.\n"
       "__device__ __forceinline__ float weight_of(float lse, float max) {\n"
       "  return exp2_approx(lse - finite_base(max));\n"
       "}\n"
       "\n"
       "// a * x + y\n"
       "__device__ __forceinline__ float4 multiply_add(float a, float4 x, float4 y) {\n"
       "  const float4 sum = {a * x.x + y.x, a * x.y + y.y, a * x.z + y.z, a * x.w + y.w};\n"
       "  return sum;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Sum add(Sum a, Sum b) {\n"
       "  Sum sum;\n"
       "  sum.max = fmaxf(a.max, b.max);\n"
       "  const float a_weight = weight_of(a.max, sum.max), b_weight = weight_of(b.max, sum.max);\n"
       "  const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "  sum.weights = a_weight * a.weights + b_weight * b.weights;\n"
       "  sum.out = multiply_add(a_weight, a.out, multiply_add(b_weight, b.out, zero));\n"
       "  return sum;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ float4 exchange_columns(float4 x, int lanes) {\n"
       "  x.x = __shfl_xor_sync(0xffffffff, x.x, lanes);\n"
       "  x.y = __shfl_xor_sync(0xffffffff, x.y, lanes);\n"
       "  x.z = __shfl_xor_sync(0xffffffff, x.z, lanes);\n"
       "  x.w = __shfl_xor_sync(0xffffffff, x.w, lanes);\n"
       "  return x;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Sum exchange(Sum a, int lanes) {\n"
       "  a.max = __shfl_xor_sync(0xffffffff, a.max, lanes);\n"
       "  a.weights = __shfl_xor_sync(0xffffffff, a.weights, lanes);\n"
       "  a.out = exchange_columns(a.out, lanes);\n"
       "  return a;\n"
       "}\n"
       "\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// Where the parts of a row lie in lse_partial: that of split 0, and the others, `step` behind each\n"
         "// other, that of split 0 being counted.\n"
         "struct PartRows {\n"
         "  int64_t first, base, step;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ int64_t part_row(PartRows rows, int split) {\n"
         "  return split == 0 ? rows.first : rows.base + split * rows.step;\n"
         "}\n"
         "\n"
         "// Adds up splits `first`, `first` + `stride` ... of a row, in the 4 columns from `column` on; where\n"
         "// `all` of them have written their output, it is asked for beside their lse.\n"
         "__device__ __forceinline__ Sum add_splits(const attnpress_fwd_combine_args *args, PartRows rows,\n"
         "                                          int num_splits, bool all, int first, int stride,\n"
         "                                          int column) {\n");
  } else {
    TEXT("// Adds up splits `first`, `first` + `stride` ... of a row, in the 4 columns from `column` on.\n"
         "__device__ __forceinline__ Sum add_splits(const attnpress_fwd_combine_args *args, int row,\n"
         "                                          int num_splits, int first, int stride, int column) {\n");
  }
  TEXT("  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};\n"
       "  for (; first < num_splits; first += STEP * stride) {\n"
       "    float lse[STEP];\n"
       "    float4 out[STEP];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const int split = first + i * stride;\n");
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("      const int64_t partial = split * args->rows + row;\n");
  }
  TEXT("      const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "      lse[i] = -INF;\n"
       "      out[i] = zero;\n");
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("      if (split < num_splits) {\n"
         "        lse[i] = args->lse_partial[partial] * LOG2_E;\n"
         "        out[i] = *(const float4 *)(args->out_partial + partial * HEAD_DIM_V + column);\n"
         "      }\n");
  } else {
    TEXT("      if (split < num_splits)\n"
         "        lse[i] = args->lse_partial[part_row(rows, split)] * LOG2_E;\n"
         "      if (all && split < num_splits)\n"
         "        out[i] =\n"
         "            *(const float4 *)(args->out_partial + part_row(rows, split) * HEAD_DIM_V + column);\n");
  }
  TEXT("    }\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("    // Else splits past a sequence's keys have written none.\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < STEP; ++i)\n"
         "      if (!all && lse[i] > -INF)\n"
         "        out[i] = *(const float4 *)(args->out_partial +\n"
         "                                   part_row(rows, first + i * stride) * HEAD_DIM_V + column);\n");
  }
  TEXT("    float max = sum.max;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i)\n"
       "      max = fmaxf(max, lse[i]);\n"
       "    const float rescale = weight_of(sum.max, max);\n"
       "    const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "    sum.max = max;\n"
       "    sum.weights *= rescale;\n"
       "    sum.out = multiply_add(rescale, sum.out, zero);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const float weight = weight_of(lse[i], max);\n"
       "      sum.weights += weight;\n"
       "      sum.out = multiply_add(weight, out[i], sum.out);\n"
       "    }\n"
       "  }\n"
       "  return sum;\n"
       "}\n"
       "\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// One split of a row, if there is one of that number: its lse, which is natural, and its output. Both\n"
         "// are asked for at once: few parts are better read for nothing than waited for twice.\n"
         "struct Part {\n"
         "  float lse;\n"
         "  float4 out;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Part take_split(const attnpress_fwd_combine_args *args, int row,\n"
         "                                           int split, int column) {\n"
         "  const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};\n"
         "  const int64_t partial = split * args->rows + row;\n"
         "  Part part = {-INF, zero};\n"
         "  if (split < args->num_splits) {\n"
         "    part.lse = args->lse_partial[partial];\n"
         "    part.out = *(const float4 *)(args->out_partial + partial * HEAD_DIM_V + column);\n"
         "  }\n"
         "  return part;\n"
         "}\n"
         "\n"
         "// A part that there is; one without keys has written no output.\n"
         "__device__ __forceinline__ Part known_part(Part part, bool there) {\n"
         "  const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};\n"
         "  if (!there)\n"
         "    part.lse = -INF;\n"
         "  if (part.lse == -INF)\n"
         "    part.out = zero;\n"
         "  return part;\n"
         "}\n"
         "\n"
         "// Splits whose parts are in shared memory at once, as all groups have asked for them.\n"
         "constexpr int ORDERED = 2 * GROUPS;\n"
         "struct OrderedParts {\n"
         "  float4 out[ORDERED][GROUP_THREADS];\n"
         "  float lse[ORDERED];\n"
         "};\n"
         "\n"
         "// The sum of a row's splits so far, by their lse.\n"
         "struct OrderedSum {\n"
         "  float lse;\n"
         "  float4 out;\n"
         "};\n"
         "\n"
         "// Adds `count` parts that are in shared memory, one after the other.\n"
         "__device__ __forceinline__ void add_by_lse(OrderedSum *sum, const OrderedParts *parts, int count) {\n"
         "  const int thread = threadIdx.x % GROUP_THREADS;\n"
         "  float4 out = sum->out;\n"
         "#pragma unroll 4\n"
         "  for (int i = 0; i < count; ++i) {\n"
         "    const float4 next = parts->out[i][thread];\n"
         "    const PartSum factors = add_part(sum->lse, parts->lse[i]);\n"
         "    sum->lse = factors.lse;\n"
         "    out.x = add_part_values(factors, out.x, next.x);\n"
         "    out.y = add_part_values(factors, out.y, next.y);\n"
         "    out.z = add_part_values(factors, out.z, next.z);\n"
         "    out.w = add_part_values(factors, out.w, next.w);\n"
         "  }\n"
         "  sum->out = out;\n"
         "}\n"
         "\n"
         "// Adds up the splits of a row one after the other, whatever their number: as a thread block of\n"
         "// sm80's split kernels does that computes them all. The first group does so, and gets the result;\n"
         "// all threads of the thread block take part.\n"
         "__device__ __forceinline__ Sum add_in_order(const attnpress_fwd_combine_args *args, int row,\n"
         "                                            int column, OrderedParts *parts) {\n"
         "  const int group = threadIdx.x / GROUP_THREADS, thread = threadIdx.x % GROUP_THREADS;\n"
         "  OrderedSum sum = {-INF, {0.0f, 0.0f, 0.0f, 0.0f}};\n"
         "  const int num_splits = args->num_splits;\n"
         "  for (int begin = 0; begin < num_splits; begin += ORDERED) {\n"
         "    Part part[ORDERED / GROUPS];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ORDERED / GROUPS; ++i)\n"
         "      part[i] = take_split(args, row, begin + i * GROUPS + group, column);\n"
         "    // All threads arrive and wait: the parts before have been added up.\n"
         "    __syncthreads();\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ORDERED / GROUPS; ++i) {\n"
         "      const int split = i * GROUPS + group;\n"
         "      part[i] = known_part(part[i], begin + split < num_splits);\n"
         "      parts->out[split][thread] = part[i].out;\n"
         "      if (thread == 0)\n"
         "        parts->lse[split] = part[i].lse;\n"
         "    }\n"
         "    // All threads arrive and wait: hands over the parts.\n"
         "    __syncthreads();\n"
         "    if (group == 0)\n"
         "      add_by_lse(&sum, parts, min(num_splits - begin, ORDERED));\n"
         "  }\n"
         "  float4 out = sum.out;\n"
         "  out = {out.x + 0.0f, out.y + 0.0f, out.z + 0.0f, out.w + 0.0f}; // sums of groups have no -0\n"
         "  return {sum.lse * LOG2_E, sum.lse > -INF ? 1.0f : 0.0f, out};\n"
         "}\n"
         "\n");
  }
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
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// Stores 4 columns of a row, and its lse with the first.\n"
         "__device__ __forceinline__ void store_row(const attnpress_fwd_combine_args *args, RowPlace place,\n"
         "                                          int column, Sum sum) {\n"
         "  const int head = place.head;\n");
  } else {
    TEXT("// Stores 4 columns of such a row, and its lse with the first.\n"
         "__device__ __forceinline__ void store_row(const attnpress_fwd_combine_args *args,\n"
         "                                          const attnpress_ragged_args *ragged, Rows rows,\n"
         "                                          RowPlace place, int column, Sum sum) {\n"
         "  const int head = place.head;\n");
  }
  TEXT("  const RowEnd end = end_of_row(args, head, sum.max, sum.weights);\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("  uint16_t *out = out_of_row(args, ragged, rows, place) + column;\n");
  } else {
    TEXT("  uint16_t *out = (uint16_t *)args->out + place.out + column;\n");
  }
  TEXT("  const uint2 packed = {pack(DTYPE, sum.out.x * end.normalize, sum.out.y * end.normalize),\n"
       "                        pack(DTYPE, sum.out.z * end.normalize, sum.out.w * end.normalize)};\n"
       "  *(uint2 *)out = packed;\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("  if (args->lse && column == 0)\n"
         "    store_row_lse(args, ragged, rows, place, end.lse);\n");
  } else {
    TEXT("  if (args->lse && column == 0)\n"
         "    args->lse[place.lse] = end.lse;\n");
  }
  TEXT("}\n"
       "\n"
       "// What the warps hand over, in shared memory.\n"
       "struct WarpSums {\n"
       "  float4 out[WARPS][GROUP_THREADS];\n"
       "  float2 weights[WARPS][GROUP_THREADS]; // maximum, sum of the weights\n"
       "};\n"
       "\n"
       "// Adds up the sums of all groups. The first group gets the result; all threads of the thread block\n"
       "// take part.\n"
       "__device__ __forceinline__ Sum add_groups(Sum sum, WarpSums *sums) {\n"
       "  const int thread = threadIdx.x % GROUP_THREADS;\n"
       "  // Over the groups of a warp, then over the warps.\n"
       "#pragma unroll\n"
       "  for (int lanes = GROUP_THREADS; lanes < 32; lanes *= 2)\n"
       "    sum = add(sum, exchange(sum, lanes));\n"
       "  if (threadIdx.x % 32 < GROUP_THREADS) {\n"
       "    const float2 weights = {sum.max, sum.weights};\n"
       "    sums->out[threadIdx.x / 32][thread] = sum.out;\n"
       "    sums->weights[threadIdx.x / 32][thread] = weights;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "  if (threadIdx.x >= GROUP_THREADS)\n"
       "    return sum;\n"
       "#pragma unroll\n"
       "  for (int warp = 1; warp < WARPS; ++warp) {\n"
       "    const float2 weights = sums->weights[warp][thread];\n"
       "    const Sum part = {weights.x, weights.y, sums->out[warp][thread]};\n"
       "    sum = add(sum, part);\n"
       "  }\n"
       "  return sum;\n"
       "}\n"
       "\n"
       "// The same as add_splits() and add_groups() of a split a group: a lane asks for the lse of one\n"
       "// split beside the output of its group's, so that all weights are there at once.\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// `splits`: where their number stands, if that is less than the bound; it is asked for beside them.\n"
         "__device__ __forceinline__ Sum add_few_splits(const attnpress_fwd_combine_args *args, int row,\n"
         "                                              int num_splits, const int32_t *splits, int column,\n"
         "                                              WarpSums *sums) {\n");
  } else {
    TEXT("__device__ __forceinline__ Sum add_few_splits(const attnpress_fwd_combine_args *args, int row,\n"
         "                                              int num_splits, int column, WarpSums *sums) {\n");
  }
  TEXT("  const int lane = threadIdx.x % 32, group = threadIdx.x / GROUP_THREADS;\n"
       "  const int64_t rows = args->rows;\n"
       "  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};\n"
       "  float lse = -INF;\n"
       "  if (lane < num_splits)\n"
       "    lse = args->lse_partial[lane * rows + row] * LOG2_E;\n"
       "  float4 out = sum.out;\n"
       "  if (group < num_splits)\n"
       "    out = *(const float4 *)(args->out_partial + (group * rows + row) * HEAD_DIM_V + column);\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("  if (splits != nullptr && num_splits > 0 && lane >= *splits)\n"
         "    lse = -INF;\n"
         "  if (__shfl_sync(0xffffffff, lse, group) == -INF) // a split without keys has written no output\n"
         "    out = sum.out;\n");
  }
  TEXT("  sum.max = lse;\n"
       "#pragma unroll\n"
       "  for (int lanes = 1; lanes < GROUPS; lanes *= 2)\n"
       "    sum.max = fmaxf(sum.max, __shfl_xor_sync(0xffffffff, sum.max, lanes));\n"
       "  sum.max = __shfl_sync(0xffffffff, sum.max, 0);\n"
       "  const float weight = weight_of(lse, sum.max);\n"
       "  sum.out = multiply_add(__shfl_sync(0xffffffff, weight, group), out, sum.out);\n"
       "  sum.weights = weight;\n"
       "#pragma unroll\n"
       "  for (int lanes = 1; lanes < GROUPS; lanes *= 2)\n"
       "    sum.weights += __shfl_xor_sync(0xffffffff, sum.weights, lanes);\n"
       "  // Over the groups of a warp, then over the warps.\n"
       "#pragma unroll\n"
       "  for (int lanes = GROUP_THREADS; lanes < 32; lanes *= 2)\n"
       "    sum.out = multiply_add(1.0f, exchange_columns(sum.out, lanes), sum.out);\n"
       "  if (lane < GROUP_THREADS)\n"
       "    sums->out[threadIdx.x / 32][lane] = sum.out;\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "#pragma unroll\n"
       "  for (int warp = 1; warp < WARPS && threadIdx.x < GROUP_THREADS; ++warp)\n"
       "    sum.out = multiply_add(1.0f, sums->out[warp][threadIdx.x], sum.out);\n"
       "  return sum;\n"
       "}\n"
       "\n");
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("// Adds up all splits of `first_row` of (batch, heads_q, seqlen_q), or, where a thread block has\n"
         "// several rows, of one a group from there on, in COLUMNS columns, and stores the result.\n"
         "__device__ __forceinline__ void combine_rows(const attnpress_fwd_combine_args *args,\n"
         "                                             int64_t first_row, int column_block, WarpSums *sums) {\n"
         "  const int group = threadIdx.x / GROUP_THREADS;\n"
         "  const int column = column_block * COLUMNS + threadIdx.x % GROUP_THREADS * 4;\n"
         "  const bool together = args->block_rows == 1; // all groups have the same row\n"
         "  const int64_t own_row = first_row + (together ? 0 : group);\n"
         "  const bool valid = own_row < args->rows && (HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V);\n"
         "  const int row = own_row < args->rows ? (int)own_row : 0;\n"
         "  const RowPlace place = find_row(args, row);\n"
         "  // What comes next may begin to wait too: for this kernel, and so for all that this one waits for.\n"
         "  // The parts are there when the split kernel has ended. The place, whose divisions take a while,\n"
         "  // is found before: the compiler would wait at once.\n"
         "  griddepcontrol_launch_dependents();\n"
         "  if (place.batch >= 0)\n"
         "    griddepcontrol_wait();\n"
         "\n"
         "  const int num_splits = args->num_splits;\n"
         "  Sum sum;\n"
         "  if (together && num_splits <= GROUPS) {\n"
         "    sum = add_few_splits(args, row, num_splits, valid ? column : 0, sums);\n"
         "  } else {\n"
         "    sum = add_splits(args, row, num_splits, together ? group : 0, together ? GROUPS : 1,\n"
         "                     valid ? column : 0);\n"
         "    if (together)\n"
         "      sum = add_groups(sum, sums);\n"
         "  }\n"
         "  if (valid && (group == 0 || !together))\n"
         "    store_row(args, place, column, sum);\n"
         "}\n"
         "\n");
  } else {
    TEXT("// Adds up all splits of a row, in COLUMNS columns, in the order of their keys, as a thread block of\n"
         "// sm90's kernels does that computes them all, and stores the result. All lanes of a warp take part:\n"
         "// each finds the factors of one part of 32, which depend on the greatest lse up to it, and has a\n"
         "// column. Parts of few rows, by their bound, are asked for beside their number. The code is short:\n"
         "// in small calls most of it comes from memory. `reads`: otherwise it is gone through so that it has\n"
         "// come, and nothing is read or stored.\n"
         "constexpr int ASKED = 16; // parts at once\n"
         "__device__ __forceinline__ void\n"
         "combine_in_order(const attnpress_fwd_combine_ragged_args *batch, Rows rows, int row,\n"
         "                 RowPlace place, int column_block, bool few, bool reads) {\n"
         "  const attnpress_fwd_combine_args *args = &batch->combine;\n"
         "  static_assert(COLUMNS == 32 && 32 % ASKED == 0, \"a column a lane, and a part a lane\");\n"
         "  const int lane = threadIdx.x % 32, column = column_block * COLUMNS + lane;\n"
         "  const bool valid = HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V;\n"
         "  const int32_t *splits = batch->sequence_splits + place.batch;\n"
         "  const int64_t step = args->rows * HEAD_DIM_V;\n"
         "  const float *part = args->out_partial + (int64_t)row * HEAD_DIM_V + (valid ? column : 0);\n"
         "  int num_splits = !reads ? 0 : few ? args->num_splits : *splits;\n"
         "  WeightedParts sum = {-INF, 0.0f};\n"
         "  float2 own = {0.0f, 0.0f}; // factors of the lane's part\n"
         "  float out = 0.0f;\n"
         "  int first = 0;\n"
         "#pragma unroll 1\n"
         "  do {\n"
         "    const int lane_part = first + lane;\n"
         "    float lse = -INF, parts[ASKED];\n"
         "    if (first % 32 == 0 && lane_part < num_splits)\n"
         "      lse = args->lse_partial[lane_part * args->rows + row];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ASKED; ++i, part += step)\n"
         "      parts[i] = first + i < num_splits ? *part : 0.0f;\n"
         "    if (few && reads)\n"
         "      num_splits = *splits;\n"
         "    if (first % 32 == 0) {\n"
         "      if (lane_part >= num_splits)\n"
         "        lse = -INF;\n"
         "      // The greatest up to this lane's part.\n"
         "      float greatest = fmaxf(sum.max, multiply_add_once(lse, LOG2_E, 0.0f));\n"
         "#pragma unroll\n"
         "      for (int lanes = 1; lanes < 32; lanes *= 2)\n"
         "        greatest = fmaxf(greatest, __shfl_sync(0xffffffff, greatest, max(lane - lanes, 0)));\n"
         "      WeightedParts before = {__shfl_sync(0xffffffff, greatest, max(lane - 1, 0)), 0.0f};\n"
         "      if (lane == 0)\n"
         "        before.max = sum.max;\n"
         "      own = weigh_part(&before, lse);\n"
         "      sum.max = __shfl_sync(0xffffffff, greatest, 31);\n"
         "    }\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ASKED; ++i) {\n"
         "      const float2 factors = {__shfl_sync(0xffffffff, own.x, first % 32 + i),\n"
         "                              __shfl_sync(0xffffffff, own.y, first % 32 + i)};\n"
         "      if (first + i < num_splits) { // what lies behind is not there\n"
         "        sum.weights = multiply_add_once(factors.x, sum.weights, factors.y);\n"
         "        out = add_weighted(factors, out, parts[i]);\n"
         "      }\n"
         "    }\n"
         "    first += ASKED;\n"
         "  } while (first < num_splits);\n"
         "  store_column(args, &batch->ragged, rows, place, column, valid, sum, out + 0.0f, reads);\n"
         "}\n"
         "\n"
         "union Shared {\n"
         "  WarpSums sums;\n"
         "  OrderedParts ordered;\n"
         "};\n"
         "\n"
         "// Adds up all splits of a row of (batch, heads_q, seqlen_q), in COLUMNS columns, and stores the\n"
         "// result: all threads of the thread block do so `together`, or each group of threads by itself.\n"
         "// `splits`: where the number of splits stands, if that is less than the bound.\n"
         "__device__ __forceinline__ void combine_row(const attnpress_fwd_combine_args *args,\n"
         "                                            const attnpress_ragged_args *ragged, Rows rows,\n"
         "                                            int row, PartRows parts, bool of_runs,\n"
         "                                            const int32_t *splits, RowPlace place,\n"
         "                                            int column_block, bool together, Shared *shared) {\n"
         "  const int column = column_block * COLUMNS + threadIdx.x % GROUP_THREADS * 4;\n"
         "  const bool valid = HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V;\n"
         "  Sum sum = {-INF, 0.0f, {0.0f, 0.0f, 0.0f, 0.0f}};\n");
    TEXT("  const bool few =\n"
         "      together && args->num_splits <= GROUPS && args->rows * args->num_splits <= FEW_PARTS;\n"
         "  if (ragged->fixed_split_blocks != 0) {\n"
         "    sum = add_in_order(args, row, valid ? column : 0, &shared->ordered);\n"
         "  } else if (few && !of_runs) {\n"
         "    sum = add_few_splits(args, row, args->num_splits, splits, valid ? column : 0, &shared->sums);\n"
         "  } else {\n"
         "    sum = add_splits(args, parts, splits != nullptr ? *splits : args->num_splits,\n"
         "                     splits != nullptr, together ? threadIdx.x / GROUP_THREADS : 0,\n"
         "                     together ? GROUPS : 1, valid ? column : 0);\n"
         "    if (together)\n"
         "      sum = add_groups(sum, &shared->sums);\n"
         "  }\n"
         "  if (valid && (threadIdx.x < GROUP_THREADS || !together))\n"
         "    store_row(args, ragged, rows, place, column, sum);\n"
         "}\n"
         "\n"
         "// Whether all that is known of the rows stands in the arguments, and the splits are a group's each\n"
         "// and few.\n"
         "__device__ __forceinline__ bool\n"
         "adds_few_parts(const attnpress_fwd_combine_ragged_args *batch) {\n"
         "  const attnpress_fwd_combine_args *args = &batch->combine;\n"
         "  return args->block_rows == 1 && args->num_splits <= GROUPS &&\n"
         "         args->rows * args->num_splits <= FEW_PARTS && batch->ragged.fixed_split_blocks == 0 &&\n"
         "         batch->ragged.cu_seqlens_q == nullptr && batch->ragged.seqused_q == nullptr &&\n"
         "         batch->cuts == nullptr;\n"
         "}\n"
         "\n"
         "// combine_row() of such calls. `reads`: otherwise it is gone through so that its code has come, as\n"
         "// combine_in_order().\n"
         "__device__ __forceinline__ void combine_few(const attnpress_fwd_combine_ragged_args *batch,\n"
         "                                            const int32_t *splits, int row, RowPlace place,\n"
         "                                            int column_block, Shared *shared, bool reads) {\n"
         "  const attnpress_fwd_combine_args *args = &batch->combine;\n"
         "  const int column = column_block * COLUMNS + threadIdx.x % GROUP_THREADS * 4;\n"
         "  const bool valid = HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V;\n"
         "  const Rows rows = {0, batch->ragged.rows_q <= args->seqlen_q ? batch->ragged.rows_q : 0};\n"
         "  const Sum sum = add_few_splits(args, row, reads ? args->num_splits : 0, splits,\n"
         "                                 valid ? column : 0, &shared->sums);\n"
         "  if (reads && valid && threadIdx.x < GROUP_THREADS && place.position < rows.count)\n"
         "    store_row(args, &batch->ragged, rows, place, column, sum);\n"
         "}\n"
         "\n"
         "// Has a row's part brought to the L2 cache.\n"
         "__device__ __forceinline__ void fetch_part(const attnpress_fwd_combine_args *args, int64_t row,\n"
         "                                           int column_block) {\n"
         "  if (threadIdx.x % GROUP_THREADS == 0)\n"
         "    prefetch_l2(args->out_partial + row * HEAD_DIM_V + column_block * COLUMNS);\n"
         "  if (threadIdx.x % GROUP_THREADS == 1)\n"
         "    prefetch_l2(args->lse_partial + row);\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(32 * WARPS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n");
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("        const __grid_constant__ attnpress_fwd_combine_ragged_args batch_args) {\n");
  } else {
    TEXT("        const __grid_constant__ attnpress_fwd_combine_args args) {\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("  __shared__ Shared shared;\n");
  } else {
    TEXT("  __shared__ WarpSums sums;\n");
  }
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("  attnpress_fwd_combine_args args = batch_args.combine;\n"
         "  const bool together = args.block_rows == 1; // all groups have the same row\n"
         "  const int64_t first_row = (int64_t)(blockIdx.x / COLUMN_BLOCKS) * args.block_rows;\n"
         "  const bool weighs = batch_args.sequence_splits != nullptr &&\n"
         "                      batch_args.ragged.fixed_split_blocks != 0; // a warp each row\n"
         "  const int64_t own_row =\n"
         "      first_row + (together ? 0 : threadIdx.x / (weighs ? 32 : GROUP_THREADS));\n"
         "  if (own_row >= args.rows)\n"
         "    return;\n"
         "  const int row = (int)own_row; // of (batch, heads_q, seqlen_q)\n"
         "  RowPlace place = find_row(&args, row);\n"
         "  if (weighs) {\n"
         "    // Of few parts: what comes next may begin to wait before this kernel waits itself, and the code\n"
         "    // is gone through before, with nothing to read.\n"
         "    const bool few_weighed = args.rows * args.num_splits <= FEW_PARTS;\n"
         "    if (few_weighed)\n"
         "      griddepcontrol_launch_dependents();\n"
         "#pragma unroll 1\n"
         "    for (int turn = few_weighed ? 0 : 1; turn < 2; ++turn) {\n"
         "      if (turn == 1) { // as below\n"
         "        griddepcontrol_wait();\n"
         "        griddepcontrol_launch_dependents();\n"
         "      }\n"
         "      Rows rows = {0, args.seqlen_q};\n"
         "      if (turn == 1)\n"
         "        rows = query_rows(&batch_args.ragged, place.batch, args.seqlen_q);\n"
         "      if (place.position < rows.count) // else no split has written it\n"
         "        combine_in_order(&batch_args, rows, row, place, blockIdx.x % COLUMN_BLOCKS, few_weighed,\n"
         "                         turn == 1);\n"
         "    }\n"
         "    return;\n"
         "  }\n"
         "  const int32_t *splits = batch_args.sequence_splits;\n"
         "  splits += splits != nullptr ? place.batch : 0;\n"
         "  if (adds_few_parts(&batch_args)) { // most small calls: as above\n"
         "    griddepcontrol_launch_dependents();\n"
         "#pragma unroll 1\n"
         "    for (int turn = 0; turn < 2; ++turn) {\n"
         "      if (turn == 1) {\n"
         "        // All threads arrive and wait: what was handed over for nothing has been read.\n"
         "        __syncthreads();\n"
         "        griddepcontrol_wait();\n"
         "      }\n"
         "      combine_few(&batch_args, splits, row, place, blockIdx.x % COLUMN_BLOCKS, &shared,\n"
         "                  turn == 1);\n"
         "    }\n"
         "    return;\n"
         "  }\n"
         "  // The parts are there when the split kernel has ended; what comes next may begin to wait too. The\n"
         "  // place, whose divisions take a while, is found before: the compiler would wait at once.\n"
         "  if (place.batch >= 0)\n"
         "    griddepcontrol_wait();\n"
         "  griddepcontrol_launch_dependents();\n"
         "\n"
         "  const bool of_runs = batch_args.cuts != nullptr;\n"
         "  PartRows parts = {row, row, args.rows};\n"
         "  if (of_runs) {\n"
         "    parts.step = (int64_t)args.heads_q * args.seqlen_q;\n"
         "    parts.first = row + args.num_splits * parts.step;\n"
         "    // Most have two parts, which are asked for before it is known whether there are any.\n"
         "    fetch_part(&args, parts.first, blockIdx.x % COLUMN_BLOCKS);\n"
         "    fetch_part(&args, row + parts.step, blockIdx.x % COLUMN_BLOCKS);\n"
         "    const int run = place.batch;\n"
         "    const uint2 cut = *(const uint2 *)(batch_args.cuts + run * 2);\n"
         "    const int sequence = (int)cut.x;\n"
         "    if (sequence < 0) // none begins there and goes on in others\n"
         "      return;\n"
         "    args.num_splits = (int)cut.y - run + 1;\n"
         "    place.batch = sequence;\n"
         "  }\n"
         "  const Rows rows = query_rows(&batch_args.ragged, place.batch, args.seqlen_q);\n"
         "  if (place.position >= rows.count) // no split has written it\n"
         "    return;\n"
         "  combine_row(&args, &batch_args.ragged, rows, row, parts, of_runs, splits, place,\n"
         "              blockIdx.x % COLUMN_BLOCKS, together, &shared);\n");
  } else {
    TEXT("  // The first rows have no parts.\n"
         "  const int64_t first_row =\n"
         "      args.whole_rows + (int64_t)(blockIdx.x / COLUMN_BLOCKS) * args.block_rows;\n"
         "  combine_rows(&args, first_row, blockIdx.x % COLUMN_BLOCKS, &sums);\n");
  }
  TEXT("}\n");
}
