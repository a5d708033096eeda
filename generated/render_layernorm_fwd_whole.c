/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_whole.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_whole(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_whole(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  int32_t added = (rows == AP_LAYERNORM_ROWS_ADDED) ? 1 : 0;
  int32_t several = (threads > row_threads) ? 1 : 0;
  int32_t wide = ((params == AP_LAYERNORM_PARAMS_FP32) && (dtype != AP_LAYERNORM_DTYPE_FP32)) ? 1 : 0;
  int32_t half = (wide && !added) ? 1 : 0;
  int32_t of_each_lane = (threads <= 256) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. Rows are whole vectors; y may be x. The parameters\n"
       "// are there, at multiples of 16 bytes. A ");
  STRING(several ? "warp" : "block");
  TEXT(" reads a row into registers. Blocks have rows in the\n"
       "// order in which they begin: memory sees neighbouring addresses. Parameters are read where they\n"
       "// are: L1 has them from the rows before.\n");
  if (added) {
    TEXT("// x is x + residual, rounded, which is written, too: y and the sum may be x or the residual.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_whole.cu.j2 with tile ");
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
  TEXT(" --rows ");
  STRING(in->word[AP_LAYERNORM_ROWS]);
  TEXT(" --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n");
  if (half) {
    TEXT("#include \"attnpress/device/row_norm.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_vector.cuh\"\n"
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
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n");
  if (half) {
    TEXT("constexpr int ELEMENTS = 8 / SIZE; // of a vector, whose parameters are 16 bytes\n");
  } else {
    TEXT("constexpr int ELEMENTS = 16 / SIZE; // of a vector\n");
  }
  TEXT("constexpr int WARPS = THREADS / 32;\n"
       "constexpr int ROW_VECTORS = COLUMNS / ELEMENTS;\n"
       "constexpr int VECTORS = (ROW_VECTORS + ROW_THREADS - 1) / ROW_THREADS; // of a thread\n"
       "// Of these, those that every thread has: the class below has four fifths of the columns, or more.\n"
       "constexpr int SURE = ROW_VECTORS * 4 / 5 / ROW_THREADS;\n");
  if (several) {
    TEXT("static_assert(ROW_THREADS == 32 && SURE > 0, \"a warp has a row, and each thread a vector\");\n");
  } else {
    TEXT("static_assert(ROW_THREADS == THREADS && SURE > 0, \"a block has a row, and each thread a vector\");\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("constexpr float FAR = 16.0f; // of the square of a mean, in variances\n");
  }
  if (row_threads > 32) {
    TEXT("// Of a block, whose warps have `sums` each. told: (WARPS)\n"
         "__device__ __forceinline__ float2 sum_warps(float2 sums, float2 *told) {\n"
         "  if (threadIdx.x % 32 == 0)\n"
         "    told[threadIdx.x / 32] = sums;\n"
         "  // All threads arrive and wait: the warps have told what they have of the row.\n"
         "  __syncthreads();\n"
         "  float2 all = {0.0f, 0.0f};\n");
    if (of_each_lane) {
      TEXT("#pragma unroll\n"
           "  for (int i = 0; i < WARPS; ++i) {\n"
           "    all.x += told[i].x;\n"
           "    all.y += told[i].y;\n"
           "  }\n"
           "  return all;\n");
    } else {
      TEXT("  if (threadIdx.x % 32 < WARPS)\n"
           "    all = told[threadIdx.x % 32];\n"
           "  return sum_lanes_of_two(all, 32);\n");
    }
    TEXT("}\n");
  }
  if (half) {
    TEXT("typedef uint2 Vector;\n"
         "\n"
         "__device__ __forceinline__ void widen(Vector vector, float *value) {\n"
         "  const uint32_t word[2] = {vector.x, vector.y};\n"
         "  widen_words_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(word, ELEMENTS, value);\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ Vector narrow(const float *value) {\n"
         "  const Vector vector = {pack_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[0], value[1]), pack_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[2], value[3])};\n"
         "  return vector;\n"
         "}\n"
         "\n");
  }
  TEXT("// Sums over a row of differences to `about`, and of their squares. told: (WARPS), x: (VECTORS)\n"
       "__device__ __forceinline__ float2 add_up(const ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" *x, float about, float2 *told) {\n"
       "  float2 sums = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float value[ELEMENTS];\n");
  if (half) {
    TEXT("    widen(x[i], value);\n");
  } else {
    TEXT("    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i], value);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      const float difference = value[j] - about;\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("      sums.x += difference;\n");
  }
  TEXT("      sums.y += difference * difference;\n"
       "    }\n"
       "  }\n"
       "  sums = sum_lanes_of_two(sums, 32);\n");
  if (row_threads > 32) {
    TEXT("  sums = sum_warps(sums, told);\n");
  }
  TEXT("  return sums;\n"
       "}\n"
       "\n");
  if (wide && added) {
    TEXT("// A vector's elements of a parameter, which are two vectors.\n"
         "__device__ __forceinline__ void load_parameter(const void *parameter, int at, float *value) {\n"
         "  const uint4 *const from = (const uint4 *)parameter + 2 * at;\n"
         "  const uint4 first = from[0], second = from[1];\n"
         "  widen_vector_fp32(first, value);\n"
         "  widen_vector_fp32(second, value + 4);\n"
         "}\n"
         "\n");
  }
  if (added) {
    TEXT("// x + residual, rounded.\n");
    if (half) {
      TEXT("__device__ __forceinline__ Vector add_vectors(Vector x, Vector residual) {\n"
           "  float value[ELEMENTS], other[ELEMENTS];\n"
           "  widen(x, value);\n"
           "  widen(residual, other);\n");
    } else {
      TEXT("__device__ __forceinline__ uint4 add_vectors(uint4 x, uint4 residual) {\n"
           "  float value[ELEMENTS], other[ELEMENTS];\n"
           "  widen_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(x, value);\n"
           "  widen_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(residual, other);\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    value[j] += other[j];\n"
         "  return narrow");
    STRING(half ? "" : "_vector_");
    STRING(half ? "" : in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value);\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n");
  if (several) {
    TEXT("  float2 *const told[2] = {NULL, NULL};\n"
         "  const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;\n"
         "  const int thread = threadIdx.x % 32, columns = args.columns, vectors = columns / ELEMENTS;\n");
  } else {
    TEXT("  __shared__ float2 told[");
    INTEGER((norm == AP_LAYERNORM_NORM_LAYER) ? 2 : 1);
    TEXT("][WARPS]; // of each pass\n"
         "  const int64_t row = blockIdx.x;\n"
         "  const int thread = threadIdx.x, columns = args.columns, vectors = columns / ELEMENTS;\n");
  }
  TEXT("  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n");
  if (several) {
    TEXT("  if (row >= args.rows)\n"
         "    return;\n");
  }
  if (half) {
    TEXT("  const Vector *const from =\n"
         "      (const Vector *)((const unsigned char *)args.x + row * args.x_row_stride * SIZE);\n"
         "  Vector x[VECTORS];\n");
  } else {
    TEXT("  const uint4 *const from =\n"
         "      (const uint4 *)((const unsigned char *)args.x + row * args.x_row_stride * SIZE);\n"
         "  uint4 x[VECTORS];\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n");
  if (half) {
    TEXT("    const Vector zero = {0, 0};\n");
  } else {
    TEXT("    const uint4 zero = {0, 0, 0, 0};\n");
  }
  TEXT("    x[i] = zero;\n"
       "    if (i < SURE || thread + i * ROW_THREADS < vectors)\n"
       "      x[i] = from[thread + i * ROW_THREADS];\n"
       "  }\n");
  if (added) {
    TEXT("  const uint4 *const residual =\n"
         "      (const uint4 *)((const unsigned char *)args.residual + row * args.residual_row_stride * SIZE);\n"
         "  uint4 *const sum = (uint4 *)((unsigned char *)args.sum + row * args.sum_row_stride * SIZE);\n"
         "  constexpr int BATCH = VECTORS < 4 ? VECTORS : 4; // of the residual, that come at once\n"
         "#pragma unroll\n"
         "  for (int first = 0; first < VECTORS; first += BATCH) {\n"
         "    uint4 other[BATCH];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < BATCH; ++i) {\n"
         "      const int at = thread + (first + i) * ROW_THREADS;\n"
         "      const uint4 zero = {0, 0, 0, 0};\n"
         "      other[i] = zero;\n"
         "      if (first + i < SURE || (first + i < VECTORS && at < vectors))\n"
         "        other[i] = residual[at];\n"
         "    }\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < BATCH; ++i) {\n"
         "      const int at = thread + (first + i) * ROW_THREADS;\n"
         "      if (first + i >= VECTORS)\n"
         "        break;\n"
         "      x[first + i] = add_vectors(x[first + i], other[i]);\n"
         "      if (first + i < SURE || at < vectors)\n"
         "        sum[at] = x[first + i];\n"
         "    }\n"
         "  }\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  float2 sums = add_up(x, 0.0f, told[0]);\n"
         "  float mean = sums.x * args.per_column, squares = sums.y - sums.x * mean;\n"
         "  // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "  if (!(sums.x * mean <= FAR * squares)) {\n"
         "    float filler[ELEMENTS];\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      filler[j] = mean;\n");
    if (half) {
      TEXT("    const Vector fill = narrow(filler);\n"
           "    widen(fill, filler);\n");
    } else {
      TEXT("    const uint4 fill = narrow_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(filler);\n"
           "    widen_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(fill, filler);\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int i = SURE; i < VECTORS; ++i)\n"
         "      if (thread + i * ROW_THREADS >= vectors)\n"
         "        x[i] = fill;\n"
         "    sums = add_up(x, filler[0], told[1]);\n"
         "    const float off = sums.x * args.per_column, left = sums.y - sums.x * off;\n"
         "    mean = filler[0] + off;\n"
         "    squares = left < 0.0f ? 0.0f : left; // NaN stays\n"
         "  }\n");
  } else {
    TEXT("  const float squares = add_up(x, 0.0f, told[0]).y;\n"
         "  constexpr float mean = 0.0f;\n");
  }
  TEXT("  const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n"
       "  if (thread == 0) {\n"
       "    if (CENTERED && args.mean)\n"
       "      args.mean[row] = mean;\n"
       "    if (args.rstd)\n"
       "      args.rstd[row] = rstd;\n"
       "  }\n"
       "  // 0, which the compiler does not know: what was made of a row for its sums is not kept, nor are\n"
       "  // addresses made before they are needed.\n"
       "  const uint32_t nothing = (uint32_t)(columns >> 31);\n"
       "  const int renewed = thread ^ (int)nothing;\n");
  if (half) {
    TEXT("  Vector *const to = (Vector *)((unsigned char *)args.y + row * args.y_row_stride * SIZE);\n");
  } else {
    TEXT("  uint4 *const to = (uint4 *)((unsigned char *)args.y + row * args.y_row_stride * SIZE);\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  const float offset = -mean * rstd;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int at = renewed + i * ROW_THREADS;\n"
       "    if (i >= SURE && at >= vectors)\n"
       "      return;\n");
  if (half) {
    TEXT("    const Vector same = {x[i].x ^ nothing, x[i].y ^ nothing};\n"
         "    float value[ELEMENTS], weight[ELEMENTS];\n"
         "    widen(same, value);\n");
  } else {
    TEXT("    const uint4 same = {x[i].x ^ nothing, x[i].y ^ nothing, x[i].z ^ nothing, x[i].w ^ nothing};\n"
         "    float value[ELEMENTS], weight[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(same, value);\n");
  }
  if (wide && added) {
    TEXT("    load_parameter(args.weight, at, weight);\n");
  } else {
    TEXT("    widen_vector_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(((const uint4 *)args.weight)[at], weight);\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    float bias[ELEMENTS];\n");
    if (wide && added) {
      TEXT("    load_parameter(args.bias, at, bias);\n");
    } else {
      TEXT("    widen_vector_");
      STRING(in->word[AP_LAYERNORM_PARAMS]);
      TEXT("(((const uint4 *)args.bias)[at], bias);\n");
    }
  }
  TEXT("#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("      value[j] = (value[j] * rstd + offset) * weight[j] + bias[j];\n");
  } else {
    TEXT("      value[j] = value[j] * rstd * weight[j];\n");
  }
  if (half) {
    TEXT("    to[at] = narrow(value);\n");
  } else {
    TEXT("    to[at] = narrow_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value);\n");
  }
  TEXT("  }\n"
       "}\n");
}
