/* Written by `python -m generator` from templates/softmax/softmax_fwd_long.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_softmax_fwd_long(ap_text *out, const ap_render_input *in);

void ap_render_softmax_fwd_long(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t cols = in->axis[AP_SOFTMAX_COLS];
  const int32_t dtype = in->axis[AP_SOFTMAX_DTYPE];
  const int32_t step = in->field[AP_SOFTMAX_TILE_STEP];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// y = softmax(scale x) over the rows of a matrix of any number of columns, ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT(", fp32\n"
       "// inside. A thread block walks a row twice: first to its end, for the maximum and the sum of\n"
       "// powers, then back, so that what it read last is read first, from the L2 cache. y may be x.\n"
       "//\n"
       "// Pressed from templates/softmax/softmax_fwd_long.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family softmax --pass fwd --cols ");
  INTEGER(cols);
  TEXT(" --dtype ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/softmax.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_softmax.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_SOFTMAX_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(step);
  TEXT(";     // vectors that a thread loads at once\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "static_assert(2 * ELEMENTS <= THREADS, \"a thread has one edge element at most\");\n"
       "\n"
       "// The sum with `count` more vectors, of maxima of -x if `negative`.\n"
       "__device__ __forceinline__ RowSum add_vectors(RowSum part, const uint4 *vector, int count,\n"
       "                                              bool negative, float power) {\n"
       "  const float max = fmaxf(part.max, max_vectors_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(vector, count, negative));\n"
       "  const float reference = negative ? -reference_of(max) : reference_of(max);\n"
       "  RowSum all = {max, part.sum * exp_difference(part.max, reference_of(max), fabsf(power))};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    float value[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(vector[i], value);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      all.sum += exp_difference(value[j], reference, power);\n"
       "  }\n"
       "  return all;\n"
       "}\n"
       "\n"
       "// The sum over all threads of the block.\n"
       "__device__ __forceinline__ RowSum add_threads(RowSum part, float growth) {\n"
       "  __shared__ float2 warp_part[WARPS];\n"
       "  part = add_lanes(part, 32, growth);\n"
       "  if (threadIdx.x % 32 == 0) {\n"
       "    const float2 own = {part.max, part.sum};\n"
       "    warp_part[threadIdx.x / 32] = own;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "  const float2 other = warp_part[threadIdx.x % WARPS];\n"
       "  const RowSum warps = {other.x, other.y};\n"
       "  return add_lanes(warps, WARPS, growth);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_softmax_fwd_args args) {\n"
       "  const int64_t row = blockIdx.x;\n"
       "  const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
       "  unsigned char *y = (unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
       "  const RowCut cut = cut_row(x, SIZE, args.columns);\n"
       "  const uint32_t filler = filler_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(args.scale);\n"
       "  uint32_t edge; // this thread's, if it has one\n"
       "  load_edges(x, SIZE, cut, threadIdx.x, THREADS, 1, filler, &edge);\n"
       "  const float edge_value = widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(edge);\n"
       "\n"
       "  // Where scale is negative, maxima are those of -x.\n"
       "  const bool negative = args.scale < 0.0f;\n"
       "  const float power = args.scale * LOG2_E; // of 2, for each 1 that x grows\n"
       "  RowSum part = {negative ? -edge_value : edge_value, 0.0f};\n"
       "  part.sum = exp_difference(part.max, reference_of(part.max), fabsf(power));\n"
       "  const int steps = (cut.vectors + STEP * THREADS - 1) / (STEP * THREADS);\n"
       "  for (int step = 0; step < steps; ++step) {\n"
       "    uint4 vector[STEP];\n"
       "    load_own_vectors(x, SIZE, cut, step * STEP * THREADS + threadIdx.x, THREADS, STEP, filler,\n"
       "                     vector);\n"
       "    part = add_vectors(part, vector, STEP, negative, power);\n"
       "  }\n"
       "  const RowSum all = add_threads(part, fabsf(power));\n"
       "\n"
       "  const float factor = share_factor(all.max, all, fabsf(power));\n"
       "  const float reference = negative ? -all.max : all.max;\n"
       "  for (int step = steps - 1; step >= 0; --step) {\n"
       "    uint4 vector[STEP];\n"
       "    load_own_vectors(x, SIZE, cut, step * STEP * THREADS + threadIdx.x, THREADS, STEP, filler,\n"
       "                     vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      float value[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(vector[i], value);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        value[j] = exp_difference(value[j], reference, power) * factor;\n"
       "      vector[i] = narrow_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(value);\n"
       "    }\n"
       "    store_vectors(y, SIZE, cut, step * STEP * THREADS + threadIdx.x, THREADS, STEP, vector);\n"
       "  }\n"
       "  edge = narrow_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(exp_difference(edge_value, reference, power) * factor);\n"
       "  store_edges(y, SIZE, cut, threadIdx.x, THREADS, 1, &edge);\n"
       "}\n");
}
