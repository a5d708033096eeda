/* Written by `python -m generator` from templates/layernorm/layernorm_bwd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t ahead = in->field[AP_LAYERNORM_TILE_AHEAD];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  const int32_t weight_held = in->field[AP_LAYERNORM_TILE_WEIGHT_HELD];
  const int32_t sums_in_shared = in->field[AP_LAYERNORM_TILE_SUMS_IN_SHARED];
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
  TEXT(", fp32 inside. ROW_THREADS threads share a row of x and dy and hold it: both\n"
       "// are read once, dx may be either. A thread block walks over rows, gridDim.x * GROUPS apart, and\n"
       "// adds up its columns of dweight and dbias, which another kernel then adds up over the blocks.\n");
  if (rows == AP_LAYERNORM_ROWS_ODD) {
    TEXT("// Rows begin at any element: threads have words, and a warp's are beside each other.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_bwd.cu.j2 with tile ");
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
  STRING((rows == AP_LAYERNORM_ROWS_ODD) ? " --rows odd" : "");
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n");
  if (slots > 0) {
    TEXT("#include \"attnpress/device/ptx_cp_async.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n");
  if (rows == AP_LAYERNORM_ROWS_ODD) {
    TEXT("#include \"attnpress/device/row_words.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n");
  int32_t few = (((norm == AP_LAYERNORM_NORM_RMS) && (dtype != AP_LAYERNORM_DTYPE_FP32)) && (((cols == 6144) || (cols == 12288)) || ((params == AP_LAYERNORM_PARAMS_FP32) && (cols <= 128)))) ? 1 : 0;
  int32_t dsum_late = (ahead || few) ? 1 : 0;
  int32_t one_loop = (cols == 16384) ? 1 : 0;
  int32_t of_gaps = (((rows == AP_LAYERNORM_ROWS_ODD) && ((cols == 256) || (cols == 384))) || ((dtype != AP_LAYERNORM_DTYPE_FP32) && (cols == 64))) ? 1 : 0;
  TEXT("constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT(";  // bytes of an element\n"
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
       "constexpr int GROUPS = THREADS / ROW_THREADS;\n");
  if (row_threads > 32) {
    TEXT("constexpr int WARPS = THREADS / 32, ROW_WARPS = ROW_THREADS / 32;\n");
  }
  TEXT("constexpr int ELEMENTS = 16 / SIZE; // of a vector");
  STRING((rows == AP_LAYERNORM_ROWS_ODD) ? ", LANES columns apart" : "");
  TEXT("\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's weights\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows in shared memory\n"
       "constexpr int SUMS_IN_SHARED = ");
  INTEGER(sums_in_shared);
  TEXT(";\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == SLOTS * 2 * GROUPS * COLUMNS * SIZE + SUMS_IN_SHARED * 2 * COLUMNS * 4,\n"
       "              \"the generator has another formula\");\n"
       "static_assert(!SUMS_IN_SHARED || GROUPS == 1, \"a thread has its sums for itself\");\n");
  if (slots > 0) {
    TEXT("constexpr int APART = THREADS; // between the vectors of a thread's part of a row\n");
  } else {
    TEXT("constexpr int APART = 1; // between the vectors of a thread's part of a row\n");
  }
  TEXT("// What the forward pass wrote of a row.\n"
       "struct RowMoments {\n"
       "  float mean, rstd;\n"
       "};\n"
       "\n"
       "// Row number `row` of a matrix.\n"
       "__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {\n"
       "  return (unsigned char *)matrix + row * stride * SIZE;\n"
       "}\n"
       "\n"
       "// The columns of rows that exist.\n"
       "__device__ __forceinline__ int columns_of(const attnpress_layernorm_bwd_args *args, int64_t row) {\n"
       "  return row < args->rows ? args->columns : 0;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ RowMoments load_moments(const attnpress_layernorm_bwd_args *args,\n"
       "                                                   int64_t row) {\n"
       "  RowMoments moments = {0.0f, 0.0f};\n"
       "  if (row < args->rows) {\n"
       "    if (CENTERED)\n"
       "      moments.mean = args->mean[row];\n"
       "    moments.rstd = args->rstd[row];\n"
       "  }\n"
       "  return moments;\n"
       "}\n"
       "\n");
  if (of_gaps) {
    TEXT("// Whether rows of dx lie less than a line of the cache apart: sectors that they have a part of are\n"
         "// brought to the L2 cache (prefetch_ends()).\n"
         "__device__ __forceinline__ bool lies_apart(const attnpress_layernorm_bwd_args *args) {\n"
         "  const uint32_t gap = (uint32_t)args->dx_row_stride - (uint32_t)args->columns;\n"
         "  return gap - 1 < 128 / SIZE - 1;\n"
         "}\n"
         "\n"
         "// Those sectors of a row, long before it is written.\n"
         "__device__ __forceinline__ void prefetch_dx(const attnpress_layernorm_bwd_args *args, int64_t row,\n"
         "                                            int thread) {\n"
         "  if (lies_apart(args) && row < args->rows)\n"
         "    prefetch_ends_by_two(row_of(args->dx, row, args->dx_row_stride), SIZE, args->columns, thread);\n"
         "}\n"
         "\n");
  }
  if (rows == AP_LAYERNORM_ROWS_ODD) {
    TEXT("// The first column of a thread: a warp has its columns one after the other, so that addresses\n"
         "// differ by constants.\n"
         "__device__ __forceinline__ int first_column(int thread) {\n"
         "  return thread / LANES * (LANES * VECTORS * ELEMENTS) + thread % LANES;\n"
         "}\n"
         "\n");
  }
  if (slots > 0) {
    if (rows == AP_LAYERNORM_ROWS_ODD) {
      TEXT("// A thread's part of a row of x, then of dy, on its way to shared memory. slot: (2, VECTORS,\n"
           "// ELEMENTS), APART\n");
    } else {
      TEXT("// A thread's part of a row of x, then of dy, on its way to shared memory. slot: (2, VECTORS), APART\n");
    }
    TEXT("__device__ __forceinline__ void copy_row(const attnpress_layernorm_bwd_args *args, int64_t row,\n"
         "                                         int thread, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "uint32_t" : "uint4");
    TEXT(" *slot) {\n");
    if (rows == AP_LAYERNORM_ROWS_ODD) {
      TEXT("  copy_words(row_of(args->x, row, args->x_row_stride), columns_of(args, row),\n"
           "             first_column(thread), LANES, VECTORS, slot, APART);\n"
           "  copy_words(row_of(args->dy, row, args->dy_row_stride), columns_of(args, row),\n"
           "             first_column(thread), LANES, VECTORS, slot + VECTORS * ELEMENTS * APART, APART);\n");
    } else {
      TEXT("  copy_columns(row_of(args->x, row, args->x_row_stride), SIZE, columns_of(args, row), thread,\n"
           "               ROW_THREADS, VECTORS, slot, APART);\n"
           "  copy_columns(row_of(args->dy, row, args->dy_row_stride), SIZE, columns_of(args, row), thread,\n"
           "               ROW_THREADS, VECTORS, slot + VECTORS * APART, APART);\n");
    }
    TEXT("  cp_async_commit();\n");
    if (of_gaps) {
      TEXT("  prefetch_dx(args, row, thread);\n");
    }
    TEXT("}\n");
  } else {
    TEXT("// A thread's part of a row of x, then of dy. part: (2, VECTORS)\n"
         "__device__ __forceinline__ void load_row(const attnpress_layernorm_bwd_args *args, int64_t row,\n"
         "                                         int thread, uint4 *part) {\n");
    if (rows == AP_LAYERNORM_ROWS_ODD) {
      TEXT("  load_words(row_of(args->x, row, args->x_row_stride), columns_of(args, row),\n"
           "             first_column(thread), LANES, 0, VECTORS, part);\n"
           "  load_words(row_of(args->dy, row, args->dy_row_stride), columns_of(args, row),\n"
           "             first_column(thread), LANES, 0, VECTORS, part + VECTORS);\n");
    } else {
      TEXT("  load_columns(row_of(args->x, row, args->x_row_stride), SIZE, columns_of(args, row), thread,\n"
           "               ROW_THREADS, VECTORS, part);\n"
           "  load_columns(row_of(args->dy, row, args->dy_row_stride), SIZE, columns_of(args, row), thread,\n"
           "               ROW_THREADS, VECTORS, part + VECTORS);\n");
    }
    if (of_gaps) {
      TEXT("  prefetch_dx(args, row, thread);\n");
    }
    TEXT("}\n");
  }
  TEXT("// A row of dsum comes to the L2 cache while others are added up.\n"
       "__device__ __forceinline__ void prefetch_dsum(const attnpress_layernorm_bwd_args *args, int64_t row,\n"
       "                                              int thread) {\n"
       "  prefetch_row(row_of(args->dsum, row, args->dsum_row_stride), SIZE, columns_of(args, row), thread,\n"
       "               ROW_THREADS);\n"
       "}\n"
       "\n"
       "// Vector number `index` of a thread's part of a row of dsum.\n"
       "__device__ __forceinline__ uint4 load_dsum(const attnpress_layernorm_bwd_args *args, int64_t row,\n"
       "                                           int thread, int index) {\n"
       "  uint4 vector;\n");
  if (rows == AP_LAYERNORM_ROWS_ODD) {
    TEXT("  load_words(row_of(args->dsum, row, args->dsum_row_stride), columns_of(args, row),\n"
         "             first_column(thread), LANES, index, 1, &vector);\n");
  } else {
    TEXT("  load_columns(row_of(args->dsum, row, args->dsum_row_stride), SIZE, columns_of(args, row),\n"
         "               index * ROW_THREADS + thread, 0, 1, &vector);\n");
  }
  TEXT("  return vector;\n"
       "}\n"
       "\n");
  if (rows == AP_LAYERNORM_ROWS_ODD) {
    TEXT("// The words of the weight of `count` vectors of a thread from number `index` on; 0 beyond the row.\n"
         "// word: (count, WORDS)\n"
         "__device__ __forceinline__ void load_weight(const attnpress_layernorm_bwd_args *args, int thread,\n"
         "                                            int index, int count, uint32_t *word) {\n"
         "  load_parameter_apart(args->weight, PARAMETER_SIZE, args->columns, first_column(thread), LANES,\n"
         "                       index, count, word);\n"
         "}\n"
         "\n");
  } else {
    TEXT("// The words of the weight of a thread's vectors `index`, `index` + ROW_THREADS ..., `count` of them; 0\n"
         "// beyond the row. word: (count, WORDS)\n"
         "__device__ __forceinline__ void load_weight(const attnpress_layernorm_bwd_args *args, int index,\n"
         "                                            int count, uint32_t *word) {\n"
         "  load_parameter_vectors(args->weight, PARAMETER_SIZE, args->columns, ELEMENTS, index, ROW_THREADS,\n"
         "                         count, word);\n"
         "}\n"
         "\n");
  }
  TEXT("// Vector number `index` of x^, of dy and of g = dy weight. `part`: x, then dy; `weight`: the words\n"
       "// of the weight, where there is one.\n"
       "__device__ __forceinline__ void widen_row(const ");
  STRING(((rows == AP_LAYERNORM_ROWS_ODD) && (slots > 0)) ? "uint32_t" : "uint4");
  TEXT(" *part, int index, RowMoments moments,\n"
       "                                          bool has_weight, const uint32_t *weight, float *x,\n"
       "                                          float *dy, float *g) {\n");
  if ((rows == AP_LAYERNORM_ROWS_ODD) && (slots > 0)) {
    TEXT("  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(take_words(part, index, APART), x);\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(take_words(part, VECTORS + index, APART), dy);\n");
  } else {
    TEXT("  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(part[index * APART], x);\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(part[(VECTORS + index) * APART], dy);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j) {\n"
       "    x[j] = (x[j] - moments.mean) * moments.rstd;\n"
       "    g[j] = dy[j];\n"
       "  }\n"
       "  if (has_weight) {\n"
       "    float factor[ELEMENTS];\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(weight, ELEMENTS, factor);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      g[j] *= factor[j];\n"
       "  }\n"
       "}\n"
       "\n");
  if (sums_in_shared) {
    TEXT("// A thread's sums of dweight and of dbias: vectors of four, THREADS apart.\n"
         "__device__ __forceinline__ void add_to_sums(float4 *sums, const float *value) {\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS / 4; ++j) {\n"
         "    float4 sum = sums[j * THREADS];\n"
         "    sum.x += value[4 * j];\n"
         "    sum.y += value[4 * j + 1];\n"
         "    sum.z += value[4 * j + 2];\n"
         "    sum.w += value[4 * j + 3];\n"
         "    sums[j * THREADS] = sum;\n"
         "  }\n"
         "}\n"
         "\n");
  }
  if (rows == AP_LAYERNORM_ROWS_ODD) {
    TEXT("// Writes the sums of a thread's vector number `index`, as far as there are columns.\n"
         "__device__ __forceinline__ void store_sums(float *parts, int thread, int index, int columns,\n"
         "                                           const float *sum) {\n"
         "  store_words(parts + (int64_t)blockIdx.x * columns, columns, first_column(thread), LANES, index,\n"
         "              narrow_vector_fp32(sum));\n"
         "}\n"
         "\n");
  } else {
    TEXT("// Writes the sums of ELEMENTS columns from `column` on, as far as there are so many.\n"
         "__device__ __forceinline__ void store_sums(float *parts, int column, int columns,\n"
         "                                           const float *sum) {\n"
         "  float *to = parts + (int64_t)blockIdx.x * columns + column;\n"
         "  if (columns % ELEMENTS == 0) {\n"
         "    if (column < columns) {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; j += 4) {\n"
         "        const float4 four = {sum[j], sum[j + 1], sum[j + 2], sum[j + 3]};\n"
         "        *(float4 *)(to + j) = four;\n"
         "      }\n"
         "    }\n"
         "    return;\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    if (column + j < columns)\n"
         "      to[j] = sum[j];\n"
         "}\n"
         "\n");
  }
  TEXT("// Walks over the rows of the block's groups, and adds up dweight and dbias. has_dsum, has_weight:\n"
       "// mostly constants, so that calls without dsum have a loop of their own, which no branch cuts.\n"
       "__device__ __forceinline__ void walk(\n"
       "    const attnpress_layernorm_bwd_args *args, bool has_dsum, bool has_weight, int thread,\n");
  if (slots > 0) {
    TEXT("    ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "uint32_t" : "uint4");
    TEXT(" *slots, // each thread's own places: nobody else reads them\n");
  }
  if (weight_held) {
    TEXT("    const uint32_t (*held)[WORDS],\n");
  }
  if (row_threads > 32) {
    TEXT("    float2 *warp_sums, // (2, WARPS): in turn, so that one barrier a row is enough\n");
  }
  if (sums_in_shared) {
    TEXT("    float4 *weight_sums, float4 *bias_sums) {\n");
  } else {
    TEXT("    float (*weight_sum)[ELEMENTS], float (*bias_sum)[ELEMENTS]) {\n");
  }
  if (row_threads > 32) {
    TEXT("  int turn = 0;\n");
  }
  TEXT("  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  int64_t row = (int64_t)blockIdx.x * GROUPS + threadIdx.x / ROW_THREADS;\n");
  if (slots > 0) {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < SLOTS; ++i)\n"
         "    copy_row(args, row + i * step, thread, slots + i * 2 * VECTORS * ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "ELEMENTS * " : "");
    TEXT("APART);\n"
         "  if (has_dsum)\n"
         "    prefetch_dsum(args, row, thread);\n"
         "  int slot = 0;\n");
  } else if (ahead) {
    TEXT("  uint4 next[2 * VECTORS];\n"
         "  load_row(args, row, thread, next);\n"
         "  if (has_dsum)\n"
         "    prefetch_dsum(args, row, thread);\n");
  }
  if ((slots > 0) || ahead) {
    TEXT("  RowMoments next_moments = load_moments(args, row);\n");
  }
  TEXT("  // As often as the block's first group has a row; others then may have none.\n"
       "  for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < args->rows; first += step) {\n");
  if (slots > 0) {
    TEXT("    cp_async_wait(SLOTS - 1);\n"
         "    ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "uint32_t" : "uint4");
    TEXT(" *const part = slots + slot * 2 * VECTORS * ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "ELEMENTS * " : "");
    TEXT("APART;\n"
         "    slot = slot + 1 == SLOTS ? 0 : slot + 1;\n");
  } else {
    TEXT("    uint4 part[2 * VECTORS];\n");
    if (ahead) {
      TEXT("#pragma unroll\n"
           "    for (int i = 0; i < 2 * VECTORS; ++i)\n"
           "      part[i] = next[i];\n"
           "    load_row(args, row + step, thread, next);\n");
    } else {
      TEXT("    load_row(args, row, thread, part);\n");
    }
  }
  TEXT("    if (has_dsum)\n"
       "      prefetch_dsum(args, row + step, thread);\n");
  if ((slots > 0) || ahead) {
    TEXT("    const RowMoments moments = next_moments;\n"
         "    next_moments = load_moments(args, row + step);\n");
  } else {
    TEXT("    const RowMoments moments = load_moments(args, row);\n");
  }
  TEXT("    // The sums of g and of g x^.\n"
       "    float sum = 0.0f, dot = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "      uint32_t weight[WORDS];\n");
  if (weight_held) {
    TEXT("      renew_words(held[i], WORDS, weight);\n");
  } else {
    TEXT("      if (has_weight)\n"
         "        load_weight(args, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "thread, i" : "i * ROW_THREADS + thread");
    TEXT(", 1, weight);\n");
  }
  TEXT("      widen_row(part, i, moments, has_weight, weight, x, dy, g);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j) {\n"
       "        sum += g[j];\n"
       "        dot += g[j] * x[j];\n"
       "      }\n"
       "    }\n");
  if (!dsum_late) {
    TEXT("    // One vector ahead.\n"
         "    uint4 next_added = {0, 0, 0, 0};\n"
         "    if (has_dsum)\n"
         "      next_added = load_dsum(args, row, thread, 0);\n");
  }
  TEXT("    sum = CENTERED ? sum_lanes(sum, LANES) : 0.0f;\n"
       "    dot = sum_lanes(dot, LANES);\n");
  if (row_threads > 32) {
    TEXT("    if (threadIdx.x % 32 == 0) {\n"
         "      const float2 own = {sum, dot};\n"
         "      warp_sums[turn * WARPS + threadIdx.x / 32] = own;\n"
         "    }\n"
         "    // All threads arrive and wait: hands over the sums of the warps.\n"
         "    __syncthreads();\n"
         "    const float2 other =\n"
         "        warp_sums[turn * WARPS + threadIdx.x / ROW_THREADS * ROW_WARPS +\n"
         "                  threadIdx.x % ROW_WARPS];\n"
         "    sum = CENTERED ? sum_lanes(other.x, ROW_WARPS) : 0.0f;\n"
         "    dot = sum_lanes(other.y, ROW_WARPS);\n"
         "    turn ^= 1;\n");
  }
  if (slots == 0) {
    TEXT("    renew_vectors(part, 2 * VECTORS);\n");
  }
  TEXT("    sum *= args->per_column;\n"
       "    dot *= args->per_column;\n"
       "\n"
       "    const int columns = columns_of(args, row);\n"
       "    unsigned char *dx = row_of(args->dx, row, args->dx_row_stride);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "      uint32_t weight[WORDS];\n");
  if (weight_held) {
    TEXT("      renew_words(held[i], WORDS, weight);\n");
  } else {
    TEXT("      if (has_weight)\n"
         "        load_weight(args, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "thread, i" : "i * ROW_THREADS + thread");
    TEXT(", 1, weight);\n");
  }
  TEXT("      widen_row(part, i, moments, has_weight, weight, x, dy, g);\n");
  if (sums_in_shared) {
    TEXT("      float product[ELEMENTS];\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j)\n"
         "        product[j] = dy[j] * x[j];\n"
         "      add_to_sums(weight_sums + i * (ELEMENTS / 4) * THREADS, product);\n"
         "      add_to_sums(bias_sums + i * (ELEMENTS / 4) * THREADS, dy);\n");
  } else {
    TEXT("#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j) {\n"
         "        weight_sum[i][j] += dy[j] * x[j];\n"
         "        bias_sum[i][j] += dy[j];\n"
         "      }\n");
  }
  TEXT("#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        g[j] = moments.rstd * (g[j] - sum - x[j] * dot);\n"
       "      if (has_dsum) {\n");
  if (dsum_late) {
    TEXT("        const uint4 added = load_dsum(args, row, thread, i);\n");
  } else {
    TEXT("        const uint4 added = next_added;\n"
         "        if (i + 1 < VECTORS)\n"
         "          next_added = load_dsum(args, row, thread, i + 1);\n");
  }
  TEXT("        float more[ELEMENTS];\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(added, more);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          g[j] += more[j];\n"
       "      }\n");
  if (rows == AP_LAYERNORM_ROWS_ODD) {
    TEXT("      store_words(dx, columns, first_column(thread), LANES, i, narrow_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(g));\n");
  } else {
    TEXT("      store_columns(dx, SIZE, columns, i * ROW_THREADS + thread, narrow_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(g));\n");
  }
  TEXT("    }\n");
  if (slots > 0) {
    TEXT("    // The row that comes SLOTS later takes this one's place.\n"
         "    copy_row(args, row + SLOTS * step, thread, part);\n");
  }
  TEXT("    row += step;\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  const int thread = threadIdx.x % ROW_THREADS;\n");
  if (weight_held && !one_loop) {
    TEXT("  const bool has_weight = true; // ones where there is none\n");
  } else {
    TEXT("  const bool has_weight = args.weight != nullptr;\n");
  }
  if (sums_in_shared || (slots > 0)) {
    TEXT("  extern __shared__ __align__(1024) unsigned char smem[];\n");
  }
  if (sums_in_shared) {
    TEXT("  // Each thread has its own places.\n"
         "  float4 *weight_sums = (float4 *)(smem + SMEM_BYTES - 2 * COLUMNS * 4) + threadIdx.x;\n"
         "  float4 *bias_sums = weight_sums + COLUMNS / 4;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS * ELEMENTS / 4; ++i) {\n"
         "    const float4 zero = {0.0f, 0.0f, 0.0f, 0.0f};\n"
         "    weight_sums[i * THREADS] = zero;\n"
         "    bias_sums[i * THREADS] = zero;\n"
         "  }\n");
  } else {
    TEXT("  float weight_sum[VECTORS][ELEMENTS], bias_sum[VECTORS][ELEMENTS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      weight_sum[i][j] = bias_sum[i][j] = 0.0f;\n"
         "  }\n");
  }
  if (weight_held) {
    TEXT("  uint32_t held[VECTORS][WORDS];\n"
         "  if (args.weight) {\n"
         "    load_weight(&args, thread, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "0, " : "");
    TEXT("VECTORS, held[0]);\n"
         "  } else {\n"
         "    const float ones[ELEMENTS] = {1.0f, 1.0f, 1.0f, 1.0f");
    STRING((dtype != AP_LAYERNORM_DTYPE_FP32) ? ", 1.0f, 1.0f, 1.0f, 1.0f" : "");
    TEXT("};\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < VECTORS; ++i)\n"
         "      narrow_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(ones, ELEMENTS, held[i]);\n"
         "  }\n");
  }
  if (row_threads > 32) {
    TEXT("  __shared__ float2 warp_sums[2 * WARPS];\n");
  }
  if (slots > 0) {
    TEXT("  ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "uint32_t" : "uint4");
    TEXT(" *const slots = (");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "uint32_t" : "uint4");
    TEXT(" *)smem + threadIdx.x;\n");
  }
  for (int32_t dsum = 0; dsum < (one_loop ? 1 : 2); ++dsum) {
    if (!one_loop) {
      TEXT("  ");
      STRING((dsum == 1) ? "else" : "if (!args.dsum)");
      TEXT("\n");
    }
    TEXT("    walk(&args, ");
    STRING(one_loop ? "args.dsum != nullptr" : ((dsum == 1) ? "true" : "false"));
    TEXT(", has_weight, thread,\n");
    if (slots > 0) {
      TEXT("         slots,\n");
    }
    if (weight_held) {
      TEXT("         held,\n");
    }
    if (row_threads > 32) {
      TEXT("         warp_sums,\n");
    }
    if (sums_in_shared) {
      TEXT("         weight_sums, bias_sums);\n");
    } else {
      TEXT("         weight_sum, bias_sum);\n");
    }
  }
  TEXT("  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (!args.weight_parts && !args.bias_parts)\n"
       "    return;\n"
       "\n");
  if (row_threads < threads) {
    TEXT("  // Over the rows of a warp, then over its warps, in their order.\n"
         "  __shared__ float shared_sum[THREADS][2 * ELEMENTS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "#pragma unroll\n"
         "      for (int distance = LANES; distance < 32; distance *= 2) {\n"
         "        weight_sum[i][j] += __shfl_xor_sync(0xffffffff, weight_sum[i][j], distance);\n"
         "        bias_sum[i][j] += __shfl_xor_sync(0xffffffff, bias_sum[i][j], distance);\n"
         "      }\n"
         "      shared_sum[threadIdx.x][j] = weight_sum[i][j];\n"
         "      shared_sum[threadIdx.x][ELEMENTS + j] = bias_sum[i][j];\n"
         "    }\n"
         "    // All threads arrive and wait: hands over the sums of the groups.\n"
         "    __syncthreads();\n"
         "    constexpr int STEP = ROW_THREADS < 32 ? 32 : ROW_THREADS;\n"
         "    if (threadIdx.x < ROW_THREADS) {\n"
         "      for (int from = threadIdx.x + STEP; from < THREADS; from += STEP) {\n"
         "#pragma unroll\n"
         "        for (int j = 0; j < ELEMENTS; ++j) {\n"
         "          weight_sum[i][j] += shared_sum[from][j];\n"
         "          bias_sum[i][j] += shared_sum[from][ELEMENTS + j];\n"
         "        }\n"
         "      }\n"
         "    }\n"
         "    // All threads arrive and wait: the next vector's sums may be written.\n"
         "    __syncthreads();\n"
         "  }\n"
         "  if (threadIdx.x >= ROW_THREADS)\n"
         "    return;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n");
  if (rows != AP_LAYERNORM_ROWS_ODD) {
    TEXT("    const int column = (i * ROW_THREADS + thread) * ELEMENTS;\n");
  }
  if (sums_in_shared) {
    TEXT("    float weight_sum[ELEMENTS], bias_sum[ELEMENTS];\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS / 4; ++j) {\n"
         "      const float4 w = weight_sums[(i * (ELEMENTS / 4) + j) * THREADS];\n"
         "      const float4 b = bias_sums[(i * (ELEMENTS / 4) + j) * THREADS];\n"
         "      weight_sum[4 * j] = w.x;\n"
         "      weight_sum[4 * j + 1] = w.y;\n"
         "      weight_sum[4 * j + 2] = w.z;\n"
         "      weight_sum[4 * j + 3] = w.w;\n"
         "      bias_sum[4 * j] = b.x;\n"
         "      bias_sum[4 * j + 1] = b.y;\n"
         "      bias_sum[4 * j + 2] = b.z;\n"
         "      bias_sum[4 * j + 3] = b.w;\n"
         "    }\n"
         "    if (args.weight_parts)\n"
         "      store_sums(args.weight_parts, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "thread, i" : "column");
    TEXT(", args.columns, weight_sum);\n"
         "    if (args.bias_parts)\n"
         "      store_sums(args.bias_parts, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "thread, i" : "column");
    TEXT(", args.columns, bias_sum);\n");
  } else {
    TEXT("    if (args.weight_parts)\n"
         "      store_sums(args.weight_parts, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "thread, i" : "column");
    TEXT(", args.columns, weight_sum[i]);\n"
         "    if (args.bias_parts)\n"
         "      store_sums(args.bias_parts, ");
    STRING((rows == AP_LAYERNORM_ROWS_ODD) ? "thread, i" : "column");
    TEXT(", args.columns, bias_sum[i]);\n");
  }
  TEXT("  }\n"
       "}\n");
}
