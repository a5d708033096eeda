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
       "// The scaled values of a step, from vectors THREADS apart from `first` on; -inf where the row has\n"
       "// none.\n"
       "__device__ __forceinline__ void load_values(const void *row, RowCut cut, int first, float scale,\n"
       "                                            float *value) {\n"
       "  uint4 vector[STEP];\n"
       "  load_own_vectors(row, SIZE, cut, first, THREADS, STEP, filler_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(scale), vector);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < STEP; ++i)\n"
       "    widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(vector[i], value + i * ELEMENTS);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < STEP * ELEMENTS; ++i)\n"
       "    value[i] *= scale;\n"
       "}\n"
       "\n"
       "// The sum with `count` more values.\n"
       "__device__ __forceinline__ RowSum add_values(RowSum part, const float *value, int count) {\n"
       "  float max = part.max;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i)\n"
       "    max = fmaxf(max, value[i]);\n"
       "  const float reference = reference_of(max);\n"
       "  RowSum all = {max, part.sum * exp_difference(part.max, reference)};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i)\n"
       "    all.sum += exp_difference(value[i], reference);\n"
       "  return all;\n"
       "}\n"
       "\n"
       "// The sum over all threads of the block.\n"
       "__device__ __forceinline__ RowSum add_threads(RowSum part) {\n"
       "  __shared__ float2 warp_part[WARPS];\n"
       "  part = add_lanes(part, 32);\n"
       "  if (threadIdx.x % 32 == 0) {\n"
       "    const float2 own = {part.max, part.sum};\n"
       "    warp_part[threadIdx.x / 32] = own;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "  const float2 other = warp_part[threadIdx.x % WARPS];\n"
       "  const RowSum warps = {other.x, other.y};\n"
       "  return add_lanes(warps, WARPS);\n"
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
       "  uint32_t edge; // this thread's, if it has one\n"
       "  load_edges(x, SIZE, cut, threadIdx.x, THREADS, 1, filler_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(args.scale), &edge);\n"
       "  const float edge_value = widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(edge) * args.scale;\n"
       "\n"
       "  const RowSum nothing = {-INF, 0.0f};\n"
       "  RowSum part = add_values(nothing, &edge_value, 1);\n"
       "  const int steps = (cut.vectors + STEP * THREADS - 1) / (STEP * THREADS);\n"
       "  for (int step = 0; step < steps; ++step) {\n"
       "    float value[STEP * ELEMENTS];\n"
       "    load_values(x, cut, step * STEP * THREADS + threadIdx.x, args.scale, value);\n"
       "    part = add_values(part, value, STEP * ELEMENTS);\n"
       "  }\n"
       "  const RowSum all = add_threads(part);\n"
       "\n"
       "  const float factor = share_factor(all.max, all);\n"
       "  for (int step = steps - 1; step >= 0; --step) {\n"
       "    float value[STEP * ELEMENTS];\n"
       "    load_values(x, cut, step * STEP * THREADS + threadIdx.x, args.scale, value);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP * ELEMENTS; ++i)\n"
       "      value[i] = exp_difference(value[i], all.max) * factor;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i)\n"
       "      store_vector(y, SIZE, cut, (step * STEP + i) * THREADS + threadIdx.x,\n"
       "                   narrow_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(value + i * ELEMENTS));\n"
       "  }\n"
       "  store_edge(y, SIZE, cut, threadIdx.x,\n"
       "             narrow_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(exp_difference(edge_value, all.max) * factor));\n"
       "}\n");
}
