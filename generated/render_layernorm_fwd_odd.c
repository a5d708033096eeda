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
       "#include \"attnpress/device/row_element.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_piece.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = 2; // bytes of an element\n"
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
       "constexpr int GROUPS = THREADS / ROW_THREADS;  // rows of a block at a time\n"
       "constexpr int COUNT = COLUMNS / ROW_THREADS; // elements of a thread in a row, ROW_THREADS apart\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "constexpr int PIECE_BYTES = GROUPS * COLUMNS * SIZE + 16; // that begins anywhere in a vector\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == 4 * PIECE_BYTES, \"the generator has another formula\");\n"
       "static_assert(COUNT % 4 == 0 && COUNT * ROW_THREADS == COLUMNS, \"threads share a row evenly\");\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "// Row number `row` of a matrix.\n"
       "__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {\n"
       "  return (unsigned char *)matrix + row * stride * SIZE;\n"
       "}\n"
       "\n"
       "// The columns of rows that exist.\n"
       "__device__ __forceinline__ int columns_of(const Args *args, int64_t row) {\n"
       "  return row < args->rows ? args->columns : 0;\n"
       "}\n"
       "\n"
       "// Whether a block's rows are a piece: there is one of them, or they lie one after the other.\n"
       "__device__ __forceinline__ bool is_piece(const Args *args, int64_t stride) {\n"
       "  return GROUPS == 1 || stride == args->columns;\n"
       "}\n"
       "\n"
       "// The piece that begins with row number `first`, at `rows`; it has nothing where there is no such\n"
       "// row.\n"
       "__device__ __forceinline__ RowCut cut_piece(const Args *args, int64_t first,\n"
       "                                            const void *rows) {\n"
       "  const int count = (int)max(min(args->rows - first, (int64_t)GROUPS), (int64_t)0);\n"
       "  return cut_row(rows, SIZE, count * args->columns);\n"
       "}\n"
       "\n"
       "// Sends the rows from number `first` on to `place`, if they are a piece; gives the thread's edge.\n"
       "__device__ __forceinline__ uint32_t send_rows(const Args *args,\n"
       "                                              const void *matrix, int64_t stride, int64_t first,\n"
       "                                              unsigned char *place) {\n"
       "  const unsigned char *rows = row_of(matrix, first, stride);\n"
       "  if (!is_piece(args, stride))\n"
       "    return 0;\n"
       "  return send_piece(rows, cut_piece(args, first, rows), threadIdx.x, THREADS,\n"
       "                    piece_at(place, rows));\n"
       "}\n"
       "\n"
       "// The end of it, once its copies have been waited for.\n"
       "__device__ __forceinline__ void end_rows(const Args *args,\n"
       "                                         const void *matrix, int64_t stride, int64_t first,\n"
       "                                         uint32_t edge, unsigned char *place) {\n"
       "  const unsigned char *rows = row_of(matrix, first, stride);\n"
       "  if (is_piece(args, stride))\n"
       "    put_edge(cut_piece(args, first, rows), threadIdx.x, edge, piece_at(place, rows));\n"
       "}\n"
       "\n"
       "// The elements of this thread of its row, which is number `group` of the block's: from `place`, or\n"
       "// from where it lies. element: (COUNT)\n"
       "__device__ __forceinline__ void take_row(const Args *args,\n"
       "                                         const void *matrix, int64_t stride, int64_t first,\n"
       "                                         int group, int thread, unsigned char *place,\n"
       "                                         uint32_t *element) {\n"
       "  const unsigned char *rows = row_of(matrix, first, stride);\n"
       "  const int columns = columns_of(args, first + group);\n"
       "  if (is_piece(args, stride))\n"
       "    load_elements(piece_at(place, rows) + group * args->columns * SIZE, columns, args->columns,\n"
       "                  thread, ROW_THREADS, COUNT, element);\n"
       "  else\n"
       "    load_elements(row_of(rows, group, stride), columns, args->columns, thread, ROW_THREADS, COUNT,\n"
       "                  element);\n"
       "}\n"
       "\n"
       "// The other way round; store_rows() takes a piece from `place` to where it belongs.\n"
       "__device__ __forceinline__ void put_row(const Args *args, void *matrix,\n"
       "                                        int64_t stride, int64_t first, int group, int thread,\n"
       "                                        const uint32_t *element, unsigned char *place) {\n"
       "  unsigned char *rows = row_of(matrix, first, stride);\n"
       "  const int columns = columns_of(args, first + group);\n"
       "  if (is_piece(args, stride))\n"
       "    store_elements(piece_at(place, rows) + group * args->columns * SIZE, columns, args->columns,\n"
       "                   thread, ROW_THREADS, COUNT, element);\n"
       "  else\n"
       "    store_elements(row_of(rows, group, stride), columns, args->columns, thread, ROW_THREADS, COUNT,\n"
       "                   element);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ void store_rows(const Args *args, void *matrix,\n");
  TEXT("                                           int64_t stride, int64_t first, unsigned char *place) {\n"
       "  unsigned char *rows = row_of(matrix, first, stride);\n"
       "  if (is_piece(args, stride))\n"
       "    store_piece(rows, SIZE, cut_piece(args, first, rows), threadIdx.x, THREADS,\n"
       "                piece_at(place, rows));\n"
       "}\n"
       "\n"
       "// What a thread has of weight or bias; of one that is not there, `absent`. value: (COUNT)\n"
       "__device__ __forceinline__ void load_parameters(const void *parameter, int columns, int thread,\n"
       "                                                float absent, float *value) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < COUNT; ++i) {\n"
       "    value[i] = absent;\n"
       "    if (parameter && i * ROW_THREADS + thread < columns)\n"
       "      value[i] =\n"
       "          widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(load_element(parameter, PARAMETER_SIZE, i * ROW_THREADS + thread));\n"
       "  }\n"
       "}\n"
       "\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// The sum of a thread's part of a row. value: (COUNT)\n"
         "__device__ __forceinline__ float sum_values(const float *value, int columns) {\n"
         "  float sum = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < COUNT; i += 4) {\n"
         "    if (i * ROW_THREADS >= columns)\n"
         "      break;\n"
         "#pragma unroll\n"
         "    for (int j = i; j < i + 4; ++j)\n"
         "      sum += value[j];\n"
         "  }\n"
         "  return sum;\n"
         "}\n"
         "\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// The sum of squared differences to `mean` of a thread's part of a row. value: (COUNT)\n");
  } else {
    TEXT("// The sum of squares of a thread's part of a row. value: (COUNT)\n");
  }
  TEXT("__device__ __forceinline__ float sum_squares(const float *value, int columns, int thread,\n"
       "                                             float mean) {\n"
       "  float sum = 0.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < COUNT; i += 4) {\n"
       "    if (i * ROW_THREADS >= columns)\n"
       "      break;\n"
       "#pragma unroll\n"
       "    for (int j = i; j < i + 4; ++j) {\n"
       "      const bool counts = !CENTERED || j * ROW_THREADS + thread < columns;\n"
       "      const float difference = counts ? value[j] - mean : 0.0f;\n"
       "      sum += difference * difference;\n"
       "    }\n"
       "  }\n"
       "  return sum;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
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
    TEXT("  float weight[COUNT], bias[COUNT];\n"
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
           "      (float)count_columns(args.columns, 1, thread / 32 * 32, 32, ROW_THREADS, COUNT);\n");
    } else {
      TEXT("  __shared__ float warp_squares[THREADS / 32];\n");
    }
  }
  TEXT("  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  const int64_t begin = (int64_t)blockIdx.x * GROUPS;\n"
       "  uint32_t x_edge = send_rows(&args, args.x, args.x_row_stride, begin, x_place), residual_edge = 0;\n"
       "  if (args.residual)\n"
       "    residual_edge =\n"
       "        send_rows(&args, args.residual, args.residual_row_stride, begin, residual_place);\n"
       "  // As often as the block's first group has a row; others then may have none.\n"
       "  for (int64_t first = begin; first < args.rows; first += step) {\n"
       "    cp_async_wait(0);\n"
       "    end_rows(&args, args.x, args.x_row_stride, first, x_edge, x_place);\n"
       "    if (args.residual)\n"
       "      end_rows(&args, args.residual, args.residual_row_stride, first, residual_edge,\n"
       "               residual_place);\n"
       "    // All threads arrive and wait: hands over the rows of x and the residual, and the places of y\n"
       "    // and the sum, from which the rows before have been stored.\n"
       "    __syncthreads();\n"
       "    uint32_t element[COUNT];\n"
       "    float value[COUNT];\n"
       "    take_row(&args, args.x, args.x_row_stride, first, group, thread, x_place, element);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; ++i)\n"
       "      value[i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(element[i]);\n"
       "    if (args.residual) {\n"
       "      take_row(&args, args.residual, args.residual_row_stride, first, group, thread, residual_place,\n"
       "               element);\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < COUNT; ++i) {\n"
       "        element[i] = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value[i] + widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(element[i]));\n"
       "        value[i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(element[i]);\n"
       "      }\n"
       "      put_row(&args, args.sum, args.sum_row_stride, first, group, thread, element, sum_place);\n"
       "    }\n"
       "\n"
       "    // Mean and sum of squares: over the warp's part of the row, then over its warps.\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    if (row_threads > 32) {
      TEXT("    const float own_mean = sum_lanes(sum_values(value, args.columns), LANES) / fmaxf(count, 1.0f);\n"
           "    const float own_squares =\n"
           "        sum_lanes(sum_squares(value, args.columns, thread, own_mean), LANES);\n"
           "    if (threadIdx.x % 32 == 0) {\n"
           "      const Moments own = {count, own_mean, own_squares};\n"
           "      warp_part[threadIdx.x / 32] = own;\n"
           "    }\n");
    } else {
      TEXT("    const float mean = sum_lanes(sum_values(value, args.columns), LANES) * args.per_column;\n"
           "    const float squares = sum_lanes(sum_squares(value, args.columns, thread, mean), LANES);\n");
    }
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "    float squares = sum_lanes(sum_squares(value, args.columns, thread, mean), LANES);\n");
    if (row_threads > 32) {
      TEXT("    if (threadIdx.x % 32 == 0)\n"
           "      warp_squares[threadIdx.x / 32] = squares;\n");
    }
  }
  TEXT("    // All threads arrive and wait: hands over what the warps have of their rows, and the places of x\n"
       "    // and the residual, which are in registers now.\n"
       "    __syncthreads();\n"
       "    x_edge = send_rows(&args, args.x, args.x_row_stride, first + step, x_place);\n"
       "    if (args.residual)\n"
       "      residual_edge =\n"
       "          send_rows(&args, args.residual, args.residual_row_stride, first + step, residual_place);\n");
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
    TEXT("    float weight[COUNT], bias[COUNT];\n"
         "    load_parameters(args.weight, args.columns, thread, 1.0f, weight);\n"
         "    load_parameters(args.bias, args.columns, thread, 0.0f, bias);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int i = 0; i < COUNT; i += 4) {\n"
       "      if (i * ROW_THREADS >= args.columns)\n"
       "        break;\n"
       "#pragma unroll\n"
       "      for (int j = i; j < i + 4; ++j)\n"
       "        element[j] = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("((value[j] - mean) * rstd * weight[j] + bias[j]);\n"
       "    }\n"
       "    put_row(&args, args.y, args.y_row_stride, first, group, thread, element, y_place);\n"
       "    const int64_t row = first + group;\n"
       "    if (thread == 0 && row < args.rows) {\n"
       "      if (CENTERED && args.mean)\n"
       "        args.mean[row] = mean;\n"
       "      if (args.rstd)\n"
       "        args.rstd[row] = rstd;\n"
       "    }\n"
       "    // All threads arrive and wait: hands over the rows of y and the sum.\n"
       "    __syncthreads();\n"
       "    store_rows(&args, args.y, args.y_row_stride, first, y_place);\n"
       "    if (args.residual)\n"
       "      store_rows(&args, args.sum, args.sum_row_stride, first, sum_place);\n"
       "  }\n"
       "}\n");
}
