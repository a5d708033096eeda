/* Written by `python -m generator` from templates/layernorm/layernorm_fwd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t ahead = in->field[AP_LAYERNORM_TILE_AHEAD];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  const int32_t weight_held = in->field[AP_LAYERNORM_TILE_WEIGHT_HELD];
  const int32_t in_shared = in->field[AP_LAYERNORM_TILE_IN_SHARED];
  int32_t one_step = ((threads == 1024) && (dtype != AP_LAYERNORM_DTYPE_FP32)) ? 1 : 0;
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
  if (in_shared) {
    TEXT("// ");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT(", parameters ");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", fp32 inside. ROW_THREADS threads share a row and have it in shared memory:\n"
         "// x is read once, y may be x. A thread block walks over rows, gridDim.x * GROUPS apart.\n");
  } else {
    TEXT("// ");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT(", parameters ");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", fp32 inside. ROW_THREADS threads share a row and hold it in registers, as\n"
         "// it was: x is read once, y may be x. A thread block walks over rows, gridDim.x * GROUPS apart.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_fwd.cu.j2 with tile ");
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
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n");
  if (slots > 0) {
    TEXT("#include \"attnpress/device/ptx_cp_async.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
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
       "constexpr int GROUPS = THREADS / ROW_THREADS;\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n");
  if (in_shared) {
    TEXT("constexpr int APART = THREADS; // between the vectors of a thread's part of a row\n");
  } else {
    TEXT("constexpr int APART = 1; // between the vectors of a thread's part of a row\n");
  }
  if (slots > 0) {
    TEXT("constexpr int SLOTS = ");
    INTEGER(slots);
    TEXT("; // rows that wait in shared memory\n"
         "constexpr int SMEM_BYTES = ");
    INTEGER(smem_bytes);
    TEXT(";\n"
         "static_assert(SMEM_BYTES == SLOTS * GROUPS * COLUMNS * SIZE, \"the generator has another formula\");\n");
  }
  TEXT("// Row number `row` of a matrix.\n"
       "__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {\n"
       "  return (unsigned char *)matrix + row * stride * SIZE;\n"
       "}\n"
       "\n"
       "// The columns of rows that exist.\n"
       "__device__ __forceinline__ int columns_of(const attnpress_layernorm_fwd_args *args, int64_t row) {\n"
       "  return row < args->rows ? args->columns : 0;\n"
       "}\n"
       "\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("// Whether a row of any matrix may begin or end elsewhere than at a multiple of 16 bytes. Then all are\n"
         "// dealt to the threads by elements.\n"
         "__device__ __forceinline__ bool has_odd_rows(const attnpress_layernorm_fwd_args *args) {\n"
         "  const uint64_t begins = (uint64_t)args->x | (uint64_t)args->y | (uint64_t)args->residual |\n"
         "                          (uint64_t)args->sum;\n"
         "  const int64_t apart = args->columns | args->x_row_stride | args->y_row_stride |\n"
         "                        (args->residual ? args->residual_row_stride | args->sum_row_stride : 0);\n"
         "  return begins % 16 != 0 || apart % ELEMENTS != 0;\n"
         "}\n"
         "\n");
  }
  TEXT("// A thread's part of a row. vector: (VECTORS)\n"
       "__device__ __forceinline__ void load_row(const void *row, int columns, int thread, bool odd,\n"
       "                                         uint4 *vector) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  if (odd) {\n"
         "    load_scattered(row, columns, thread, ROW_THREADS, VECTORS, vector);\n"
         "    return;\n"
         "  }\n");
  }
  TEXT("  load_columns(row, SIZE, columns, thread, ROW_THREADS, VECTORS, vector);\n"
       "}\n"
       "\n"
       "// Stores its vector number `index`.\n"
       "__device__ __forceinline__ void store_row(void *row, int columns, int thread, bool odd, int index,\n"
       "                                          uint4 vector) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  if (odd) {\n"
         "    store_scattered(row, columns, thread, ROW_THREADS, index, vector);\n"
         "    return;\n"
         "  }\n");
  }
  TEXT("  store_columns(row, SIZE, columns, index * ROW_THREADS + thread, vector);\n"
       "}\n"
       "\n");
  if (slots > 0) {
    TEXT("// Sends it to shared memory. slot: (VECTORS), THREADS apart\n"
         "__device__ __forceinline__ void send_row(const void *row, int columns, int thread, bool odd,\n"
         "                                         uint4 *slot) {\n");
    if (dtype == AP_LAYERNORM_DTYPE_FP32) {
      TEXT("  if (odd) {\n"
           "    uint4 vector[VECTORS];\n"
           "    load_scattered(row, columns, thread, ROW_THREADS, VECTORS, vector);\n"
           "#pragma unroll\n"
           "    for (int i = 0; i < VECTORS; ++i)\n"
           "      slot[i * THREADS] = vector[i];\n"
           "    return;\n"
           "  }\n");
    }
    TEXT("  copy_columns(row, SIZE, columns, thread, ROW_THREADS, VECTORS, slot, THREADS);\n"
         "}\n"
         "\n");
  }
  TEXT("// x + residual, rounded, of a thread's part of a row; written back. x: (VECTORS), APART, then the sum\n"
       "__device__ __forceinline__ void add_residual(const void *residual, void *sum, int columns,\n"
       "                                             int thread, bool odd, uint4 *x) {\n"
       "  uint4 other[VECTORS];\n"
       "  load_row(residual, columns, thread, odd, other);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float a[ELEMENTS], b[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x[i * APART], a);\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(other[i], b);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      a[j] += b[j];\n"
       "    x[i * APART] = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(a);\n"
       "    store_row(sum, columns, thread, odd, i, x[i * APART]);\n"
       "  }\n"
       "}\n"
       "\n"
       "// `count` vectors of a parameter from a thread's number `index` on. word: (count, WORDS)\n"
       "__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int thread,\n"
       "                                               bool odd, int index, int count, uint32_t *word) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  if (odd) {\n"
         "    load_scattered_parameter(parameter, PARAMETER_SIZE, columns,\n"
         "                             index * ELEMENTS * ROW_THREADS + thread, ELEMENTS * ROW_THREADS,\n"
         "                             ROW_THREADS, count, word);\n"
         "    return;\n"
         "  }\n");
  }
  TEXT("  load_parameter_vectors(parameter, PARAMETER_SIZE, columns, ELEMENTS,\n"
       "                         index * ROW_THREADS + thread, ROW_THREADS, count, word);\n"
       "}\n"
       "\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// The sum of a thread's part of a row.\n"
         "__device__ __forceinline__ float sum_values(const uint4 *x) {\n"
         "  float sum = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i * APART], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      sum += value[j];\n"
         "  }\n"
         "  return sum;\n"
         "}\n"
         "\n"
         "// The sum of squared differences to `mean` of a thread's part of a row.\n"
         "__device__ __forceinline__ float sum_squares(const uint4 *x, int columns, int thread, bool odd,\n"
         "                                             float mean) {\n"
         "  const int apart = odd ? ROW_THREADS : 1, first = odd ? thread : thread * ELEMENTS;\n"
         "  float sum = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    // Columns from the vector's first element on, of which the others are `apart`.\n"
         "    const int left = columns - i * ROW_THREADS * ELEMENTS - first;\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i * APART], value);\n"
         "    if (left > (ELEMENTS - 1) * apart) {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j)\n"
         "        sum += (value[j] - mean) * (value[j] - mean);\n"
         "    } else {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j)\n"
         "        if (j * apart < left)\n"
         "          sum += (value[j] - mean) * (value[j] - mean);\n"
         "    }\n"
         "  }\n"
         "  return sum;\n"
         "}\n");
  } else {
    TEXT("// The sum of squares of a thread's part of a row.\n"
         "__device__ __forceinline__ float sum_squares(const uint4 *x) {\n"
         "  float sum = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i * APART], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      sum += value[j] * value[j];\n"
         "  }\n"
         "  return sum;\n"
         "}\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  const int thread = threadIdx.x % ROW_THREADS;\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  const bool odd = has_odd_rows(&args);\n");
  } else {
    TEXT("  constexpr bool odd = false; // each row is looked at by itself\n");
  }
  if (weight_held) {
    TEXT("  uint32_t weight_word[VECTORS][WORDS], bias_word[VECTORS][WORDS];\n"
         "  if (args.weight)\n"
         "    load_parameter(args.weight, args.columns, thread, odd, 0, VECTORS, weight_word[0]);\n"
         "  if (args.bias)\n"
         "    load_parameter(args.bias, args.columns, thread, odd, 0, VECTORS, bias_word[0]);\n");
  }
  if (row_threads > 32) {
    TEXT("  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  const int other = threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS;\n"
         "  int turn = 0; // in turn: one barrier a row is enough\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  __shared__ Moments warp_part[2][THREADS / 32];\n"
           "  // Of the warp's part of a row.\n");
      if (dtype == AP_LAYERNORM_DTYPE_FP32) {
        TEXT("  const float count =\n"
             "      (float)(odd ? count_columns(args.columns, 1, thread / 32 * 32, 32, ROW_THREADS,\n"
             "                                  VECTORS * ELEMENTS)\n"
             "                  : count_columns(args.columns, ELEMENTS, thread / 32 * 32, 32, ROW_THREADS,\n"
             "                                  VECTORS));\n");
      } else {
        TEXT("  const float count = (float)count_columns(args.columns, ELEMENTS, thread / 32 * 32, 32,\n"
             "                                           ROW_THREADS, VECTORS);\n");
      }
    } else {
      TEXT("  __shared__ float warp_squares[2][THREADS / 32];\n");
    }
  }
  TEXT("  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  int64_t row = (int64_t)blockIdx.x * GROUPS + threadIdx.x / ROW_THREADS;\n");
  if (slots > 0) {
    TEXT("  extern __shared__ __align__(1024) unsigned char smem[];\n"
         "  // Each thread has its own places: nobody else reads them.\n"
         "  uint4 *const slots = (uint4 *)smem + threadIdx.x;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < SLOTS; ++i) {\n"
         "    send_row(row_of(args.x, row + i * step, args.x_row_stride), columns_of(&args, row + i * step),\n"
         "             thread, odd, slots + i * VECTORS * THREADS);\n"
         "    cp_async_commit();\n"
         "  }\n"
         "  int slot = 0;\n");
  } else if (ahead) {
    TEXT("  uint4 next[VECTORS];\n"
         "  load_row(row_of(args.x, row, args.x_row_stride), columns_of(&args, row), thread, odd, next);\n");
  }
  TEXT("  // As often as the block's first group has a row; others then may have none.\n"
       "  for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < args.rows; first += step) {\n"
       "    const int columns = columns_of(&args, row);\n");
  if (in_shared) {
    TEXT("    cp_async_wait(SLOTS - 1);\n"
         "    uint4 *const x = slots + slot * VECTORS * THREADS;\n"
         "    slot = slot + 1 == SLOTS ? 0 : slot + 1;\n");
  } else {
    TEXT("    uint4 x[VECTORS];\n");
    if (slots > 0) {
      TEXT("    cp_async_wait(SLOTS - 1);\n"
           "#pragma unroll\n"
           "    for (int i = 0; i < VECTORS; ++i)\n"
           "      x[i] = slots[(slot * VECTORS + i) * THREADS];\n"
           "    // The row that comes SLOTS later takes its place.\n"
           "    send_row(row_of(args.x, row + SLOTS * step, args.x_row_stride),\n"
           "             columns_of(&args, row + SLOTS * step), thread, odd, slots + slot * VECTORS * THREADS);\n"
           "    cp_async_commit();\n"
           "    slot = slot + 1 == SLOTS ? 0 : slot + 1;\n");
    } else if (ahead) {
      TEXT("#pragma unroll\n"
           "    for (int i = 0; i < VECTORS; ++i)\n"
           "      x[i] = next[i];\n"
           "    load_row(row_of(args.x, row + step, args.x_row_stride), columns_of(&args, row + step), thread,\n"
           "             odd, next);\n");
    } else {
      TEXT("    load_row(row_of(args.x, row, args.x_row_stride), columns, thread, odd, x);\n");
    }
  }
  TEXT("    if (args.residual)\n"
       "      add_residual(row_of(args.residual, row, args.residual_row_stride),\n"
       "                   row_of(args.sum, row, args.sum_row_stride), columns, thread, odd, x);\n"
       "\n"
       "    // Mean and sum of squares: over the warp's part of the row, then over its warps.\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    if (row_threads > 32) {
      TEXT("    const float own_mean = sum_lanes(sum_values(x), LANES) / fmaxf(count, 1.0f);\n");
      if (!in_shared) {
        TEXT("    renew_vectors(x, VECTORS);\n");
      }
      TEXT("    const float own_squares = sum_lanes(sum_squares(x, columns, thread, odd, own_mean), LANES);\n"
           "    if (threadIdx.x % 32 == 0) {\n"
           "      const Moments own = {count, own_mean, own_squares};\n"
           "      warp_part[turn][threadIdx.x / 32] = own;\n"
           "    }\n"
           "    // All threads arrive and wait: hands over the moments of the warps.\n"
           "    __syncthreads();\n"
           "    const Moments all = add_moments_of_lanes(warp_part[turn][other], ROW_WARPS);\n"
           "    const float mean = all.mean, squares = all.squares;\n"
           "    turn ^= 1;\n");
    } else {
      TEXT("    const float mean = sum_lanes(sum_values(x), LANES) * args.per_column;\n");
      if (!in_shared) {
        TEXT("    renew_vectors(x, VECTORS);\n");
      }
      TEXT("    const float squares = sum_lanes(sum_squares(x, columns, thread, odd, mean), LANES);\n");
    }
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "    float squares = sum_lanes(sum_squares(x), LANES);\n");
    if (row_threads > 32) {
      TEXT("    if (threadIdx.x % 32 == 0)\n"
           "      warp_squares[turn][threadIdx.x / 32] = squares;\n"
           "    // All threads arrive and wait: hands over the sums of the warps.\n"
           "    __syncthreads();\n"
           "    squares = sum_lanes(warp_squares[turn][other], ROW_WARPS);\n"
           "    turn ^= 1;\n");
    }
  }
  if (!in_shared) {
    TEXT("    renew_vectors(x, VECTORS);\n");
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n"
       "\n");
  if (one_step) {
    TEXT("    // x^ by one instruction, of values that were rounded to 16 bits.\n"
         "    const float offset = -mean * rstd;\n");
  }
  TEXT("    unsigned char *y = row_of(args.y, row, args.y_row_stride);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      float value[ELEMENTS], parameter[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x[i * APART], value);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n");
  if (one_step) {
    TEXT("        value[j] = value[j] * rstd + offset;\n");
  } else {
    TEXT("        value[j] = (value[j] - mean) * rstd;\n");
  }
  TEXT("      if (args.weight) {\n"
       "        uint32_t word[WORDS];\n");
  if (weight_held) {
    TEXT("        renew_words(weight_word[i], WORDS, word);\n");
  } else {
    TEXT("        load_parameter(args.weight, args.columns, thread, odd, i, 1, word);\n");
  }
  TEXT("        widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, parameter);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          value[j] *= parameter[j];\n"
       "      }\n"
       "      if (args.bias) {\n"
       "        uint32_t word[WORDS];\n");
  if (weight_held) {
    TEXT("        renew_words(bias_word[i], WORDS, word);\n");
  } else {
    TEXT("        load_parameter(args.bias, args.columns, thread, odd, i, 1, word);\n");
  }
  TEXT("        widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, parameter);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          value[j] += parameter[j];\n"
       "      }\n"
       "      store_row(y, columns, thread, odd, i, narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value));\n"
       "    }\n"
       "    if (thread == 0 && row < args.rows) {\n"
       "      if (CENTERED && args.mean)\n"
       "        args.mean[row] = mean;\n"
       "      if (args.rstd)\n"
       "        args.rstd[row] = rstd;\n"
       "    }\n");
  if (in_shared) {
    TEXT("    // The row that comes SLOTS later takes this one's place.\n"
         "    send_row(row_of(args.x, row + SLOTS * step, args.x_row_stride),\n"
         "             columns_of(&args, row + SLOTS * step), thread, odd, x);\n"
         "    cp_async_commit();\n");
  }
  TEXT("    row += step;\n"
       "  }\n"
       "}\n");
}
