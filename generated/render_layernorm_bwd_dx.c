/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_dx.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in) {
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
       "//\n"
       "// With x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
  TEXT(" and g = dy weight, over rows of any number of columns:\n"
       "//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)) + dsum.\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", weight ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. A thread block walks a row of x and dy twice: first to\n"
       "// its end, for the sums, then back, so that what it read last is read first, from the L2 cache. dx\n"
       "// may be x, dy or dsum.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_dx.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass bwd_dx --norm ");
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
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT(";  // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of the weight's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(step);
  TEXT(";     // vectors of x and of dy that a thread loads at once\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's weights\n"
       "static_assert(2 * ELEMENTS <= THREADS, \"a thread has one edge element at most\");\n"
       "\n"
       "// The sums of g and of g x^ over all threads of the block.\n"
       "__device__ __forceinline__ float2 sum_threads(float2 part) {\n"
       "  __shared__ float2 warp_sums[WARPS];\n"
       "  part.x = sum_lanes(part.x, 32);\n"
       "  part.y = sum_lanes(part.y, 32);\n"
       "  if (threadIdx.x % 32 == 0)\n"
       "    warp_sums[threadIdx.x / 32] = part;\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "  const float2 other = warp_sums[threadIdx.x % WARPS];\n"
       "  part.x = sum_lanes(other.x, WARPS);\n"
       "  part.y = sum_lanes(other.y, WARPS);\n"
       "  return part;\n"
       "}\n"
       "\n"
       "// The weight of a vector's columns from `column` on.\n"
       "__device__ __forceinline__ void load_weights(const void *weight, int column, int columns,\n"
       "                                             float *value) {\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    value[j] = 1.0f;\n"
       "  if (weight) {\n"
       "    uint32_t word[WORDS];\n"
       "    load_parameter_words(\n"
       "        weight, PARAMETER_SIZE, column, columns, ELEMENTS,\n"
       "        is_parameter_whole(weight, PARAMETER_SIZE, column, columns, ELEMENTS), word);\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, value);\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  const int64_t row = blockIdx.x;\n"
       "  const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
       "  const unsigned char *dy = (const unsigned char *)args.dy + row * args.dy_row_stride * SIZE;\n"
       "  const unsigned char *dsum = (const unsigned char *)args.dsum + row * args.dsum_row_stride * SIZE;\n"
       "  unsigned char *dx = (unsigned char *)args.dx + row * args.dx_row_stride * SIZE;\n"
       "  const float mean = CENTERED ? args.mean[row] : 0.0f, rstd = args.rstd[row];\n"
       "  // All rows are dealt to the threads as dy is cut.\n"
       "  const RowCut cut = cut_row(dy, SIZE, args.columns);\n"
       "  const bool has_edge = (int)threadIdx.x < cut.edges;\n"
       "  float x_edge = 0.0f, g_edge = 0.0f; // x^ and g of this thread's edge element, if it has one\n"
       "  if (has_edge) {\n"
       "    const int column = edge_column(cut, threadIdx.x);\n"
       "    x_edge = (widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(load_element(x, SIZE, column)) - mean) * rstd;\n"
       "    g_edge = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(load_element(dy, SIZE, column));\n"
       "    if (args.weight)\n"
       "      g_edge *= widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(load_element(args.weight, PARAMETER_SIZE, column));\n"
       "  }\n"
       "\n"
       "  float2 part = {g_edge, g_edge * x_edge};\n"
       "  const int steps = (cut.vectors + STEP * THREADS - 1) / (STEP * THREADS);\n"
       "  for (int step = 0; step < steps; ++step) {\n"
       "    uint4 x_vector[STEP], dy_vector[STEP];\n"
       "    const int first = step * STEP * THREADS + threadIdx.x;\n"
       "    load_vectors(x, SIZE, cut, first, THREADS, STEP, 0, x_vector);\n"
       "    load_own_vectors(dy, SIZE, cut, first, THREADS, STEP, 0, dy_vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      if (first + i * THREADS < cut.vectors) {\n"
       "        float a[ELEMENTS], b[ELEMENTS], weight[ELEMENTS];\n"
       "        load_weights(args.weight, vector_column(cut, SIZE, first + i * THREADS), args.columns,\n"
       "                     weight);\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x_vector[i], a);\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(dy_vector[i], b);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j) {\n"
       "          part.x += b[j] * weight[j];\n"
       "          part.y += b[j] * weight[j] * ((a[j] - mean) * rstd);\n"
       "        }\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "  const float2 all = sum_threads(part);\n"
       "  const float sum = CENTERED ? all.x * args.per_column : 0.0f;\n"
       "  const float dot = all.y * args.per_column;\n"
       "\n"
       "  for (int step = steps - 1; step >= 0; --step) {\n"
       "    uint4 x_vector[STEP], dy_vector[STEP];\n"
       "    const int first = step * STEP * THREADS + threadIdx.x;\n"
       "    load_vectors(x, SIZE, cut, first, THREADS, STEP, 0, x_vector);\n"
       "    load_own_vectors(dy, SIZE, cut, first, THREADS, STEP, 0, dy_vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      if (first + i * THREADS < cut.vectors) {\n"
       "        float a[ELEMENTS], b[ELEMENTS], weight[ELEMENTS];\n"
       "        load_weights(args.weight, vector_column(cut, SIZE, first + i * THREADS), args.columns,\n"
       "                     weight);\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x_vector[i], a);\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(dy_vector[i], b);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          b[j] = rstd * (b[j] * weight[j] - sum - (a[j] - mean) * rstd * dot);\n"
       "        if (args.dsum) {\n"
       "          uint4 added;\n"
       "          load_vectors(dsum, SIZE, cut, first + i * THREADS, 0, 1, 0, &added);\n"
       "          widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(added, a);\n"
       "#pragma unroll\n"
       "          for (int j = 0; j < ELEMENTS; ++j)\n"
       "            b[j] += a[j];\n"
       "        }\n"
       "        store_vector(dx, SIZE, cut, first + i * THREADS, narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(b));\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "  if (has_edge) {\n"
       "    const int column = edge_column(cut, threadIdx.x);\n"
       "    float gradient = rstd * (g_edge - sum - x_edge * dot);\n"
       "    if (args.dsum)\n"
       "      gradient += widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(load_element(dsum, SIZE, column));\n"
       "    store_edge(dx, SIZE, cut, threadIdx.x, narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(gradient));\n"
       "  }\n"
       "}\n");
}
