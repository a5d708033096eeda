/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_odd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t weight_held = in->field[AP_LAYERNORM_TILE_WEIGHT_HELD];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(variance + eps), of x + residual where there is one.\n");
  } else {
    TEXT("// y = x rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(mean square + eps), of x + residual where there is one.\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside; rows may begin at any element. A thread block walks over\n"
       "// rows, GROUPS of them at a time, gridDim.x * GROUPS apart. Those that lie one after the other go\n"
       "// through shared memory as one piece: the next one is on its way there while the present one, which\n"
       "// the threads hold in registers, is normalised. y may be x.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_odd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass fwd --norm ");
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
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_pair.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of a parameter's element\n"
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
       "typedef attnpress_layernorm_fwd_args Args;\n"
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
       "// What a thread has of weight or bias; of one that is not there, `absent`. value: (2 * PAIRS)\n"
       "__device__ __forceinline__ void load_parameters(const void *parameter, int columns, int thread,\n"
       "                                                float absent, float *value) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 2 * PAIRS; ++i) {\n"
       "    value[i] = absent;\n"
       "    if (parameter && column_of(i, thread) < columns)\n"
       "      value[i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(\n"
       "          load_element(parameter, PARAMETER_SIZE, column_of(i, thread)));\n"
       "  }\n"
       "}\n"
       "\n"
       "// x + residual, rounded, of a thread's part of a row; written to `sum`. pair: (PAIRS), of x, then the\n"
       "// sum\n"
       "__device__ __forceinline__ void add_residual(const void *residual, void *sum, int columns,\n"
       "                                             PairsThere there, int thread, uint32_t *pair) {\n"
       "  uint32_t other[PAIRS];\n"
       "  load_pairs(residual, columns, there, thread, ROW_THREADS, PAIRS, other);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < PAIRS; ++i) {\n"
       "    float a[2], b[2];\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(pair + i, 2, a);\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(other + i, 2, b);\n"
       "    pair[i] = pack_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(a[0] + b[0], a[1] + b[1]);\n"
       "  }\n"
       "  store_pairs(sum, columns, there, thread, ROW_THREADS, PAIRS, pair);\n"
       "}\n"
       "\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// The sum of squared differences to `mean` of a thread's part of a row. value: (2 * PAIRS)\n"
         "__device__ __forceinline__ float sum_squares(const float *value, PairsThere there, float mean) {\n"
         "  float sum = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 2 * PAIRS; ++i)\n"
         "    if (is_there(there, i))\n"
         "      sum += (value[i] - mean) * (value[i] - mean);\n"
         "  return sum;\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  unsigned char *const x_place = smem, *const residual_place = smem + PIECE_BYTES;\n"
       "  unsigned char *const y_place = smem + 2 * PIECE_BYTES, *const sum_place = smem + 3 * PIECE_BYTES;\n"
       "  const int thread = threadIdx.x % ROW_THREADS, group = threadIdx.x / ROW_THREADS;\n");
  if (weight_held) {
    TEXT("  float weight[2 * PAIRS], bias[2 * PAIRS];\n"
         "  load_parameters(args.weight, args.columns, thread, 1.0f, weight);\n"
         "  load_parameters(args.bias, args.columns, thread, 0.0f, bias);\n");
  }
  if (row_threads > 32) {
    TEXT("  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  const int other = threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS;\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  __shared__ Moments warp_part[THREADS / 32];\n"
           "  // Of the warp's part of a row.\n"
           "  const float count =\n"
           "      (float)count_columns(args.columns, 2, thread / 32 * 32, 32, ROW_THREADS, PAIRS);\n");
    } else {
      TEXT("  __shared__ float warp_squares[THREADS / 32];\n");
    }
  }
  TEXT("  const PairsThere all_there = pairs_there(args.columns, thread, ROW_THREADS, PAIRS);\n"
       "\n"
       "  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  int64_t first = (int64_t)blockIdx.x * GROUPS; // of the block's rows\n"
       "  int rows = count_rows(&args, first);\n"
       "  const unsigned char *x = row_of(args.x, first, args.x_row_stride);\n"
       "  unsigned char *y = row_of(args.y, first, args.y_row_stride);\n"
       "  PieceEdge x_edge = send_rows(&args, x, args.x_row_stride, rows, x_place);\n"
       "  PieceEdge residual_edge = {0, -1};\n"
       "  if (args.residual)\n"
       "    residual_edge =\n"
       "        send_rows(&args, row_of(args.residual, first, args.residual_row_stride),\n"
       "                  args.residual_row_stride, rows, residual_place);\n"
       "  // As long as the block has a row; its last groups may have none.\n"
       "  while (rows > 0) {\n"
       "    const PairsThere none = {0, 0}, there = group < rows ? all_there : none;\n"
       "    const unsigned char *residual = row_of(args.residual, first, args.residual_row_stride);\n"
       "    unsigned char *sum = row_of(args.sum, first, args.sum_row_stride);\n"
       "    cp_async_wait(0);\n"
       "    put_edge(x_edge, piece_at(x_place, x));\n"
       "    if (args.residual)\n"
       "      put_edge(residual_edge, piece_at(residual_place, residual));\n"
       "    // All threads arrive and wait: hands over the rows of x and the residual, and the places of y\n"
       "    // and the sum, from which the rows before have been returned.\n"
       "    __syncthreads();\n"
       "    uint32_t pair[PAIRS];\n"
       "    load_pairs(row_at(&args, x, args.x_row_stride, group, x_place), args.columns, there, thread,\n"
       "               ROW_THREADS, PAIRS, pair);\n"
       "    if (args.residual)\n"
       "      add_residual(row_at(&args, residual, args.residual_row_stride, group, residual_place),\n"
       "                   row_at(&args, sum, args.sum_row_stride, group, sum_place), args.columns, there,\n"
       "                   thread, pair);\n"
       "    float value[2 * PAIRS];\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(pair, 2 * PAIRS, value);\n"
       "\n"
       "    // Mean and sum of squares: over the warp's part of the row, then over its warps.\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    float own_mean = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 2 * PAIRS; ++i)\n"
         "      own_mean += value[i];\n");
    if (row_threads > 32) {
      TEXT("    own_mean = sum_lanes(own_mean, LANES) / fmaxf(count, 1.0f);\n"
           "    const float own_squares = sum_lanes(sum_squares(value, there, own_mean), LANES);\n"
           "    if (threadIdx.x % 32 == 0) {\n"
           "      const Moments own = {count, own_mean, own_squares};\n"
           "      warp_part[threadIdx.x / 32] = own;\n"
           "    }\n");
    } else {
      TEXT("    const float mean = sum_lanes(own_mean, LANES) * args.per_column;\n"
           "    const float squares = sum_lanes(sum_squares(value, there, mean), LANES);\n");
    }
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "    float squares = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 2 * PAIRS; ++i)\n"
         "      squares += value[i] * value[i];\n"
         "    squares = sum_lanes(squares, LANES);\n");
    if (row_threads > 32) {
      TEXT("    if (threadIdx.x % 32 == 0)\n"
           "      warp_squares[threadIdx.x / 32] = squares;\n");
    }
  }
  TEXT("    // All threads arrive and wait: hands over what the warps have of their rows, and the places of x\n"
       "    // and the residual, which are in registers now.\n"
       "    __syncthreads();\n"
       "    const int next_rows = count_rows(&args, first + step);\n"
       "    x += step * args.x_row_stride * SIZE;\n"
       "    x_edge = send_rows(&args, x, args.x_row_stride, next_rows, x_place);\n"
       "    if (args.residual)\n"
       "      residual_edge = send_rows(&args, row_of(residual, step, args.residual_row_stride),\n"
       "                                args.residual_row_stride, next_rows, residual_place);\n");
  if (row_threads > 32) {
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("    const Moments all = add_moments_of_lanes(warp_part[other], ROW_WARPS);\n"
           "    const float mean = all.mean, squares = all.squares;\n");
    } else {
      TEXT("    squares = sum_lanes(warp_squares[other], ROW_WARPS);\n");
    }
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n"
       "\n");
  if (!weight_held) {
    TEXT("    float weight[2 * PAIRS], bias[2 * PAIRS];\n"
         "    load_parameters(args.weight, args.columns, thread, 1.0f, weight);\n"
         "    load_parameters(args.bias, args.columns, thread, 0.0f, bias);\n");
  }
  TEXT("    // x^ by one instruction, of values that were rounded to 16 bits.\n"
       "    const float offset = -mean * rstd;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < 2 * PAIRS; ++i)\n"
       "      value[i] = (value[i] * rstd + offset) * weight[i] + bias[i];\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value, 2 * PAIRS, pair);\n"
       "    store_pairs(row_at(&args, y, args.y_row_stride, group, y_place), args.columns, there, thread,\n"
       "                ROW_THREADS, PAIRS, pair);\n"
       "    if (thread == 0 && group < rows) {\n"
       "      if (CENTERED && args.mean)\n"
       "        args.mean[first + group] = mean;\n"
       "      if (args.rstd)\n"
       "        args.rstd[first + group] = rstd;\n"
       "    }\n"
       "    // All threads arrive and wait: hands over the rows of y and the sum.\n"
       "    __syncthreads();\n"
       "    return_rows(&args, y, args.y_row_stride, rows, y_place);\n"
       "    if (args.residual)\n"
       "      return_rows(&args, sum, args.sum_row_stride, rows, sum_place);\n"
       "    y += step * args.y_row_stride * SIZE;\n"
       "    first += step;\n"
       "    rows = next_rows;\n"
       "  }\n"
       "}\n");
}
