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
       "#include \"attnpress/device/row_element.cuh\"\n"
       "#include \"attnpress/device/row_piece.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = 2; // bytes of an element\n"
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
       "typedef attnpress_layernorm_bwd_args Args;\n"
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
       "  float weight[COUNT], weight_sum[COUNT], bias_sum[COUNT];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < COUNT; ++i) {\n"
       "    weight[i] = 1.0f;\n"
       "    if (args.weight && i * ROW_THREADS + thread < args.columns)\n"
       "      weight[i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(\n"
       "          load_element(args.weight, PARAMETER_SIZE, i * ROW_THREADS + thread));\n"
       "    weight_sum[i] = bias_sum[i] = 0.0f;\n"
       "  }\n");
  if (row_threads > 32) {
    TEXT("  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  __shared__ float2 warp_sums[THREADS / 32];\n");
  }
  TEXT("  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  const int64_t begin = (int64_t)blockIdx.x * GROUPS;\n"
       "  uint32_t x_edge = send_rows(&args, args.x, args.x_row_stride, begin, x_place);\n"
       "  uint32_t dy_edge = send_rows(&args, args.dy, args.dy_row_stride, begin, dy_place), dsum_edge = 0;\n"
       "  if (args.dsum)\n"
       "    dsum_edge = send_rows(&args, args.dsum, args.dsum_row_stride, begin, dsum_place);\n"
       "  float next_mean = CENTERED ? load_moment(&args, args.mean, begin + group) : 0.0f;\n"
       "  float next_rstd = load_moment(&args, args.rstd, begin + group);\n"
       "  // As often as the block's first group has a row; others then may have none.\n"
       "  for (int64_t first = begin; first < args.rows; first += step) {\n"
       "    const float mean = next_mean, rstd = next_rstd;\n"
       "    cp_async_wait(0);\n"
       "    end_rows(&args, args.x, args.x_row_stride, first, x_edge, x_place);\n"
       "    end_rows(&args, args.dy, args.dy_row_stride, first, dy_edge, dy_place);\n"
       "    if (args.dsum)\n"
       "      end_rows(&args, args.dsum, args.dsum_row_stride, first, dsum_edge, dsum_place);\n"
       "    // All threads arrive and wait: hands over the rows of x, dy and dsum, and the place of dx, from\n"
       "    // which the rows before have been stored.\n"
       "    __syncthreads();\n"
       "    uint32_t element[COUNT];\n"
       "    float x[COUNT], dy[COUNT]; // x: x^; dy is 0 beyond the row\n"
       "    take_row(&args, args.x, args.x_row_stride, first, group, thread, x_place, element);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; ++i)\n"
       "      x[i] = (widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(element[i]) - mean) * rstd;\n"
       "    take_row(&args, args.dy, args.dy_row_stride, first, group, thread, dy_place, element);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; ++i)\n"
       "      dy[i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(element[i]);\n"
       "\n"
       "    // The sums of g and of g x^, and what the row adds to those of its columns.\n"
       "    float sum = 0.0f, dot = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; i += 4) {\n"
       "      if (i * ROW_THREADS >= args.columns)\n"
       "        break;\n"
       "#pragma unroll\n"
       "      for (int j = i; j < i + 4; ++j) {\n"
       "        const float g = dy[j] * weight[j];\n"
       "        sum += g;\n"
       "        dot += g * x[j];\n"
       "        weight_sum[j] += dy[j] * x[j];\n"
       "        bias_sum[j] += dy[j];\n"
       "      }\n"
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
       "    x_edge = send_rows(&args, args.x, args.x_row_stride, first + step, x_place);\n"
       "    dy_edge = send_rows(&args, args.dy, args.dy_row_stride, first + step, dy_place);\n"
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
       "    if (args.dsum)\n"
       "      take_row(&args, args.dsum, args.dsum_row_stride, first, group, thread, dsum_place, element);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; i += 4) {\n"
       "      if (i * ROW_THREADS >= args.columns)\n"
       "        break;\n"
       "#pragma unroll\n"
       "      for (int j = i; j < i + 4; ++j) {\n"
       "        float gradient = rstd * (dy[j] * weight[j] - sum - x[j] * dot);\n"
       "        if (args.dsum)\n"
       "          gradient += widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(element[j]);\n"
       "        element[j] = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(gradient);\n"
       "      }\n"
       "    }\n"
       "    put_row(&args, args.dx, args.dx_row_stride, first, group, thread, element, dx_place);\n"
       "    // All threads arrive and wait: hands over the rows of dx, and the place of dsum.\n"
       "    __syncthreads();\n"
       "    store_rows(&args, args.dx, args.dx_row_stride, first, dx_place);\n"
       "    if (args.dsum)\n"
       "      dsum_edge = send_rows(&args, args.dsum, args.dsum_row_stride, first + step, dsum_place);\n"
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
         "  for (int i = 0; i < COUNT; ++i) {\n"
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
       "  for (int i = 0; i < COUNT; ++i) {\n"
       "    const int column = i * ROW_THREADS + thread;\n"
       "    if (args.weight_parts && column < args.columns)\n"
       "      args.weight_parts[(int64_t)blockIdx.x * args.columns + column] = weight_sum[i];\n"
       "    if (args.bias_parts && column < args.columns)\n"
       "      args.bias_parts[(int64_t)blockIdx.x * args.columns + column] = bias_sum[i];\n"
       "  }\n"
       "}\n");
}
