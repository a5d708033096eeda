/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_odd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// With x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
  TEXT(" and g = dy weight, over rows of at most COLUMNS columns:\n"
       "//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)) + dsum,    dweight = sum(dy x^),    dbias = sum(dy).\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", weight ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside; rows may begin at any element. A thread block walks over rows,\n"
       "// GROUPS of them at a time, gridDim.x * GROUPS apart, and adds up its columns of dweight and dbias,\n"
       "// which another kernel then adds up over the blocks. Rows that lie one after the other go through\n"
       "// shared memory as one piece: the next ones of x and dy are on their way there while the present\n"
       "// ones are in registers. dx may be x, dy or dsum.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_odd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass bwd --norm ");
  STRING(in->word[AP_LAYERNORM_NORM]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" \\\n"
       "//     --dtype ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(" --params ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(" --rows odd\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_pair.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of the weight's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "\n"
       "typedef attnpress_layernorm_bwd_args Args;\n"
       "\n"
       "constexpr int SIZE = 2; // bytes of an element\n"
       "constexpr int GROUPS = THREADS / ROW_THREADS; // rows of a block at a time\n"
       "constexpr int PAIRS = COLUMNS / (2 * ROW_THREADS); // of columns of a thread in a row\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "constexpr int VECTORS = PAIRS / 4; // of a thread in a block's rows\n"
       "constexpr int PIECE_BYTES = GROUPS * COLUMNS * SIZE + 16; // of rows that begin anywhere in a vector\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == 4 * PIECE_BYTES, \"the generator has another formula\");\n"
       "static_assert(VECTORS * 8 * ROW_THREADS == COLUMNS, \"threads share a row evenly\");\n"
       "\n"
       "// Row number `row` of a matrix, or from another one on.\n"
       "__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {\n"
       "  return (unsigned char *)matrix + row * stride * SIZE;\n"
       "}\n"
       "\n"
       "// Whether a block's rows are one piece: there is one of them, or they lie one after the other.\n"
       "__device__ __forceinline__ bool is_piece(const Args *args, int64_t stride) {\n"
       "  return GROUPS == 1 || stride == args->columns;\n"
       "}\n"
       "\n"
       "// How many rows a block has from number `first` on; 0 past the end.\n"
       "__device__ __forceinline__ int count_rows(const Args *args, int64_t first) {\n"
       "  const int64_t left = args->rows - first;\n"
       "  return left >= GROUPS ? GROUPS : (int)max(left, (int64_t)0);\n"
       "}\n"
       "\n"
       "// Sends `count` rows that begin at `rows` to `place`, if they are a piece.\n"
       "__device__ __forceinline__ PieceEdge send_rows(const Args *args, const void *rows, int64_t stride,\n"
       "                                               int count, unsigned char *place) {\n"
       "  const PieceEdge none = {0, -1};\n"
       "  return is_piece(args, stride)\n"
       "             ? send_piece(rows, cut_row(rows, SIZE, count * args->columns), threadIdx.x, THREADS,\n"
       "                          VECTORS, piece_at(place, rows))\n"
       "             : none;\n"
       "}\n"
       "\n"
       "// Where row number `group` of them is for the threads: in `place`, or where it belongs.\n"
       "__device__ __forceinline__ unsigned char *row_at(const Args *args, const void *rows, int64_t stride,\n"
       "                                                 int group, unsigned char *place) {\n"
       "  return is_piece(args, stride) ? piece_at(place, rows) + group * args->columns * SIZE\n"
       "                                : row_of(rows, group, stride);\n"
       "}\n"
       "\n"
       "// Takes rows from `place` to where they belong, if they are a piece.\n"
       "__device__ __forceinline__ void return_rows(const Args *args, void *rows, int64_t stride, int count,\n"
       "                                            unsigned char *place) {\n"
       "  if (is_piece(args, stride))\n"
       "    return_piece(rows, cut_row(rows, SIZE, count * args->columns), threadIdx.x, THREADS, VECTORS,\n"
       "                 piece_at(place, rows));\n"
       "}\n"
       "\n"
       "// The column of value number `i` of a thread, two of a pair.\n"
       "__device__ __forceinline__ int column_of(int i, int thread) {\n"
       "  return 2 * (i / 2 * ROW_THREADS + thread) + i % 2;\n"
       "}\n"
       "\n"
       "// Whether the row has it.\n"
       "__device__ __forceinline__ bool is_there(PairsThere there, int i) {\n"
       "  return (i % 2 == 0 ? there.first : there.second) >> i / 2 & 1;\n"
       "}\n"
       "\n"
       "// A number of the forward pass for a row.\n"
       "__device__ __forceinline__ float load_moment(const Args *args, const float *moment, int64_t row) {\n"
       "  return row < args->rows ? moment[row] : 0.0f;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  unsigned char *const x_place = smem, *const dy_place = smem + PIECE_BYTES;\n"
       "  unsigned char *const dsum_place = smem + 2 * PIECE_BYTES, *const dx_place = smem + 3 * PIECE_BYTES;\n"
       "  const int thread = threadIdx.x % ROW_THREADS, group = threadIdx.x / ROW_THREADS;\n"
       "  float weight[2 * PAIRS], weight_sum[2 * PAIRS], bias_sum[2 * PAIRS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 2 * PAIRS; ++i) {\n"
       "    weight[i] = 1.0f;\n"
       "    if (args.weight && column_of(i, thread) < args.columns)\n"
       "      weight[i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(\n"
       "          load_element(args.weight, PARAMETER_SIZE, column_of(i, thread)));\n"
       "    weight_sum[i] = bias_sum[i] = 0.0f;\n"
       "  }\n");
  if (row_threads > 32) {
    TEXT("  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  __shared__ float2 warp_sums[THREADS / 32];\n");
  }
  TEXT("  const PairsThere all_there = pairs_there(args.columns, thread, ROW_THREADS, PAIRS);\n"
       "\n"
       "  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  int64_t first = (int64_t)blockIdx.x * GROUPS; // of the block's rows\n"
       "  int rows = count_rows(&args, first);\n"
       "  const unsigned char *x = row_of(args.x, first, args.x_row_stride);\n"
       "  const unsigned char *dy = row_of(args.dy, first, args.dy_row_stride);\n"
       "  unsigned char *dx = row_of(args.dx, first, args.dx_row_stride);\n"
       "  PieceEdge x_edge = send_rows(&args, x, args.x_row_stride, rows, x_place);\n"
       "  PieceEdge dy_edge = send_rows(&args, dy, args.dy_row_stride, rows, dy_place);\n"
       "  PieceEdge dsum_edge = {0, -1};\n"
       "  if (args.dsum)\n"
       "    dsum_edge = send_rows(&args, row_of(args.dsum, first, args.dsum_row_stride),\n"
       "                          args.dsum_row_stride, rows, dsum_place);\n"
       "  float next_mean = CENTERED ? load_moment(&args, args.mean, first + group) : 0.0f;\n"
       "  float next_rstd = load_moment(&args, args.rstd, first + group);\n"
       "  // As long as the block has a row; its last groups may have none.\n"
       "  while (rows > 0) {\n"
       "    const PairsThere none = {0, 0}, there = group < rows ? all_there : none;\n"
       "    const unsigned char *dsum = row_of(args.dsum, first, args.dsum_row_stride);\n"
       "    const float mean = next_mean, rstd = next_rstd;\n"
       "    cp_async_wait(0);\n"
       "    put_edge(x_edge, piece_at(x_place, x));\n"
       "    put_edge(dy_edge, piece_at(dy_place, dy));\n"
       "    if (args.dsum)\n"
       "      put_edge(dsum_edge, piece_at(dsum_place, dsum));\n"
       "    // All threads arrive and wait: hands over the rows of x, dy and dsum, and the place of dx, from\n"
       "    // which the rows before have been returned.\n"
       "    __syncthreads();\n"
       "    uint32_t pair[PAIRS];\n"
       "    float x_hat[2 * PAIRS], gradient[2 * PAIRS]; // x^, and dy, then dx; dy is 0 beyond the row\n"
       "    load_pairs(row_at(&args, x, args.x_row_stride, group, x_place), args.columns, there, thread,\n"
       "               ROW_THREADS, PAIRS, pair);\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(pair, 2 * PAIRS, x_hat);\n"
       "    load_pairs(row_at(&args, dy, args.dy_row_stride, group, dy_place), args.columns, there, thread,\n"
       "               ROW_THREADS, PAIRS, pair);\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(pair, 2 * PAIRS, gradient);\n"
       "\n"
       "    // The sums of g and of g x^, and what the row adds to those of its columns.\n"
       "    const float offset = -mean * rstd;\n"
       "    float sum = 0.0f, dot = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < 2 * PAIRS; ++i) {\n"
       "      x_hat[i] = x_hat[i] * rstd + offset;\n"
       "      const float g = gradient[i] * weight[i];\n"
       "      sum += g;\n"
       "      dot += g * x_hat[i];\n"
       "      weight_sum[i] += gradient[i] * x_hat[i];\n"
       "      bias_sum[i] += gradient[i];\n"
       "    }\n"
       "    sum = CENTERED ? sum_lanes(sum, LANES) : 0.0f;\n"
       "    dot = sum_lanes(dot, LANES);\n");
  if (row_threads > 32) {
    TEXT("    if (threadIdx.x % 32 == 0) {\n"
         "      const float2 own = {sum, dot};\n"
         "      warp_sums[threadIdx.x / 32] = own;\n"
         "    }\n");
  }
  TEXT("    // All threads arrive and wait: hands over the sums of the warps, and the places of x and dy, which\n"
       "    // are in registers now.\n"
       "    __syncthreads();\n"
       "    const int next_rows = count_rows(&args, first + step);\n"
       "    x += step * args.x_row_stride * SIZE;\n"
       "    dy += step * args.dy_row_stride * SIZE;\n"
       "    x_edge = send_rows(&args, x, args.x_row_stride, next_rows, x_place);\n"
       "    dy_edge = send_rows(&args, dy, args.dy_row_stride, next_rows, dy_place);\n"
       "    next_mean = CENTERED ? load_moment(&args, args.mean, first + step + group) : 0.0f;\n"
       "    next_rstd = load_moment(&args, args.rstd, first + step + group);\n");
  if (row_threads > 32) {
    TEXT("    const float2 other =\n"
         "        warp_sums[threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS];\n"
         "    sum = CENTERED ? sum_lanes(other.x, ROW_WARPS) : 0.0f;\n"
         "    dot = sum_lanes(other.y, ROW_WARPS);\n");
  }
  TEXT("    sum *= args.per_column;\n"
       "    dot *= args.per_column;\n"
       "\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < 2 * PAIRS; ++i)\n"
       "      gradient[i] = rstd * (gradient[i] * weight[i] - sum - x_hat[i] * dot);\n"
       "    if (args.dsum) {\n"
       "      float more[2 * PAIRS];\n"
       "      load_pairs(row_at(&args, dsum, args.dsum_row_stride, group, dsum_place), args.columns, there,\n"
       "                 thread, ROW_THREADS, PAIRS, pair);\n"
       "      widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(pair, 2 * PAIRS, more);\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < 2 * PAIRS; ++i)\n"
       "        gradient[i] += more[i];\n"
       "    }\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(gradient, 2 * PAIRS, pair);\n"
       "    store_pairs(row_at(&args, dx, args.dx_row_stride, group, dx_place), args.columns, there, thread,\n"
       "                ROW_THREADS, PAIRS, pair);\n"
       "    // All threads arrive and wait: hands over the rows of dx, and the place of dsum.\n"
       "    __syncthreads();\n"
       "    return_rows(&args, dx, args.dx_row_stride, rows, dx_place);\n"
       "    if (args.dsum)\n"
       "      dsum_edge = send_rows(&args, row_of(dsum, step, args.dsum_row_stride), args.dsum_row_stride,\n"
       "                            next_rows, dsum_place);\n"
       "    dx += step * args.dx_row_stride * SIZE;\n"
       "    first += step;\n"
       "    rows = next_rows;\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (!args.weight_parts && !args.bias_parts)\n"
       "    return;\n"
       "\n");
  if (row_threads < threads) {
    TEXT("  // Over the rows of a warp, then over its warps, in their order.\n"
         "  __shared__ float2 shared_sum[THREADS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 2 * PAIRS; ++i) {\n"
         "#pragma unroll\n"
         "    for (int distance = LANES; distance < 32; distance *= 2) {\n"
         "      weight_sum[i] += __shfl_xor_sync(0xffffffff, weight_sum[i], distance);\n"
         "      bias_sum[i] += __shfl_xor_sync(0xffffffff, bias_sum[i], distance);\n"
         "    }\n"
         "    const float2 own = {weight_sum[i], bias_sum[i]};\n"
         "    shared_sum[threadIdx.x] = own;\n"
         "    // All threads arrive and wait: hands over the sums of the groups.\n"
         "    __syncthreads();\n"
         "    constexpr int STEP = ROW_THREADS < 32 ? 32 : ROW_THREADS;\n"
         "    if (threadIdx.x < ROW_THREADS) {\n"
         "      for (int from = threadIdx.x + STEP; from < THREADS; from += STEP) {\n"
         "        weight_sum[i] += shared_sum[from].x;\n"
         "        bias_sum[i] += shared_sum[from].y;\n"
         "      }\n"
         "    }\n"
         "    // All threads arrive and wait: the next element's sums may be written.\n"
         "    __syncthreads();\n"
         "  }\n"
         "  if (threadIdx.x >= ROW_THREADS)\n"
         "    return;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < 2 * PAIRS; ++i) {\n"
       "    const int column = column_of(i, thread);\n"
       "    if (args.weight_parts && column < args.columns)\n"
       "      args.weight_parts[(int64_t)blockIdx.x * args.columns + column] = weight_sum[i];\n"
       "    if (args.bias_parts && column < args.columns)\n"
       "      args.bias_parts[(int64_t)blockIdx.x * args.columns + column] = bias_sum[i];\n"
       "  }\n"
       "}\n");
}
