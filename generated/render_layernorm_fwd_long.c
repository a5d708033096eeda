/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_long.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t step = in->field[AP_LAYERNORM_TILE_STEP];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of any number of columns, rstd =\n"
         "// 1 / sqrt(variance + eps), of x + residual where there is one.\n");
  } else {
    TEXT("// y = x rstd weight + bias over the rows of a matrix of any number of columns, rstd =\n"
         "// 1 / sqrt(mean square + eps), of x + residual where there is one.\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. A thread block walks a row twice: first to its\n"
       "// end, for its moments, then back, so that what it read last is read first, from the L2 cache; the\n"
       "// second time it reads the sum that it wrote, where there is a residual. y may be x.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_long.cu.j2 with tile ");
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
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT(";  // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of a parameter's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(step);
  TEXT(";     // vectors that a thread loads at once\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters\n"
       "static_assert(2 * ELEMENTS <= THREADS, \"a thread has one edge element at most\");\n"
       "\n"
       "// The moments, or with mean 0 the sum of squares, with `count` more values.\n"
       "__device__ __forceinline__ Moments add_values(Moments part, const float *value, int count) {\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  return add_moments(part, moments_of(value, count));\n");
  } else {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < count; ++i)\n"
         "    part.squares += value[i] * value[i];\n"
         "  return part;\n");
  }
  TEXT("}\n"
       "\n"
       "// Over all threads of the block.\n"
       "__device__ __forceinline__ Moments add_threads(Moments part) {\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  __shared__ Moments warp_part[WARPS];\n"
         "  part = add_moments_of_lanes(part, 32);\n"
         "  if (threadIdx.x % 32 == 0)\n"
         "    warp_part[threadIdx.x / 32] = part;\n"
         "  // All threads arrive and wait: hands over the moments of the warps.\n"
         "  __syncthreads();\n"
         "  return add_moments_of_lanes(warp_part[threadIdx.x % WARPS], WARPS);\n");
  } else {
    TEXT("  __shared__ float warp_squares[WARPS];\n"
         "  part.squares = sum_lanes(part.squares, 32);\n"
         "  if (threadIdx.x % 32 == 0)\n"
         "    warp_squares[threadIdx.x / 32] = part.squares;\n"
         "  // All threads arrive and wait: hands over the sums of the warps.\n"
         "  __syncthreads();\n"
         "  part.squares = sum_lanes(warp_squares[threadIdx.x % WARPS], WARPS);\n"
         "  return part;\n");
  }
  TEXT("}\n"
       "\n"
       "// x + residual, rounded, of a step; written back. vector: (STEP), of x, then the sum\n"
       "__device__ __forceinline__ void add_residual(const void *residual, void *sum, RowCut cut, int first,\n"
       "                                             uint4 *vector) {\n"
       "  uint4 other[STEP];\n"
       "  load_vectors(residual, SIZE, cut, first, THREADS, STEP, 0, other);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < STEP; ++i) {\n"
       "    float a[ELEMENTS], b[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector[i], a);\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(other[i], b);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      a[j] += b[j];\n"
       "    vector[i] = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(a);\n"
       "    store_vector(sum, SIZE, cut, first + i * THREADS, vector[i]);\n"
       "  }\n"
       "}\n"
       "\n"
       "// The parameters of a vector's columns from `column` on; `absent` where there are none.\n"
       "__device__ __forceinline__ void load_parameters(const void *parameter, int column, int columns,\n"
       "                                                float absent, float *value) {\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    value[j] = absent;\n"
       "  if (parameter) {\n"
       "    uint32_t word[WORDS];\n"
       "    load_parameter_words(\n"
       "        parameter, PARAMETER_SIZE, column, columns, ELEMENTS,\n"
       "        is_parameter_whole(parameter, PARAMETER_SIZE, column, columns, ELEMENTS), word);\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, value);\n"
       "  }\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ float load_parameter(const void *parameter, int column, float absent) {\n"
       "  return parameter\n"
       "             ? widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(load_element(parameter, PARAMETER_SIZE, column))\n"
       "             : absent;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  const int64_t row = blockIdx.x;\n"
       "  const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
       "  const unsigned char *residual =\n"
       "      (const unsigned char *)args.residual + row * args.residual_row_stride * SIZE;\n"
       "  unsigned char *sum = (unsigned char *)args.sum + row * args.sum_row_stride * SIZE;\n"
       "  unsigned char *y = (unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
       "  const RowCut cut = cut_row(x, SIZE, args.columns);\n"
       "  const bool has_edge = (int)threadIdx.x < cut.edges;\n"
       "  uint32_t edge; // this thread's, if it has one\n"
       "  load_edges(x, SIZE, cut, threadIdx.x, THREADS, 1, 0, &edge);\n"
       "  if (args.residual) {\n"
       "    uint32_t other;\n"
       "    load_edges(residual, SIZE, cut, threadIdx.x, THREADS, 1, 0, &other);\n"
       "    edge = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(edge) +\n"
       "                                     widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(other));\n"
       "    store_edge(sum, SIZE, cut, threadIdx.x, edge);\n"
       "  }\n"
       "  const float edge_value = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(edge);\n"
       "\n"
       "  Moments part = {0.0f, 0.0f, 0.0f};\n"
       "  if (has_edge)\n"
       "    part = add_values(part, &edge_value, 1);\n"
       "  const int steps = (cut.vectors + STEP * THREADS - 1) / (STEP * THREADS);\n"
       "  for (int step = 0; step < steps; ++step) {\n"
       "    uint4 vector[STEP];\n"
       "    const int first = step * STEP * THREADS + threadIdx.x;\n"
       "    load_own_vectors(x, SIZE, cut, first, THREADS, STEP, 0, vector);\n"
       "    if (args.residual)\n"
       "      add_residual(residual, sum, cut, first, vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      float value[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector[i], value);\n"
       "      if (first + i * THREADS < cut.vectors)\n"
       "        part = add_values(part, value, ELEMENTS);\n"
       "    }\n"
       "  }\n"
       "  const Moments all = add_threads(part);\n"
       "  const float rstd = reciprocal_sqrt_approx(all.squares * args.per_column + args.eps);\n"
       "\n"
       "  for (int step = steps - 1; step >= 0; --step) {\n"
       "    uint4 vector[STEP];\n"
       "    const int first = step * STEP * THREADS + threadIdx.x;\n"
       "    // A thread reads of the sum what it wrote itself.\n"
       "    if (args.residual)\n"
       "      load_vectors(sum, SIZE, cut, first, THREADS, STEP, 0, vector);\n"
       "    else\n"
       "      load_own_vectors(x, SIZE, cut, first, THREADS, STEP, 0, vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      if (first + i * THREADS < cut.vectors) {\n"
       "        const int column = vector_column(cut, SIZE, first + i * THREADS);\n"
       "        float value[ELEMENTS], weight[ELEMENTS], bias[ELEMENTS];\n"
       "        load_parameters(args.weight, column, args.columns, 1.0f, weight);\n"
       "        load_parameters(args.bias, column, args.columns, 0.0f, bias);\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector[i], value);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          value[j] = (value[j] - all.mean) * rstd * weight[j] + bias[j];\n"
       "        store_vector(y, SIZE, cut, first + i * THREADS, narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value));\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "  if (has_edge) {\n"
       "    const int column = edge_column(cut, threadIdx.x);\n"
       "    const float value =\n"
       "        (edge_value - all.mean) * rstd * load_parameter(args.weight, column, 1.0f) +\n"
       "        load_parameter(args.bias, column, 0.0f);\n"
       "    store_edge(y, SIZE, cut, threadIdx.x, narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value));\n"
       "  }\n"
       "  if (threadIdx.x == 0) {\n"
       "    if (CENTERED && args.mean)\n"
       "      args.mean[row] = all.mean;\n"
       "    if (args.rstd)\n"
       "      args.rstd[row] = rstd;\n"
       "  }\n"
       "}\n");
}
