/* Written by `python -m generator` from templates/softmax/softmax_bwd_long.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_softmax_bwd_long(ap_text *out, const ap_render_input *in);

void ap_render_softmax_bwd_long(ap_text *out, const ap_render_input *in) {
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
       "// dx = scale y (dy - sum(dy y)) over the rows of matrices of any number of columns, ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT(",\n"
       "// fp32 inside. A thread block walks a row of y and dy twice: first to its end, for the sum, then\n"
       "// back, so that what it read last is read first, from the L2 cache. dx may be y or dy.\n"
       "//\n"
       "// Pressed from templates/softmax/softmax_bwd_long.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family softmax --pass bwd --cols ");
  INTEGER(cols);
  TEXT(" --dtype ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/softmax.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
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
  TEXT(";     // vectors of y and of dy that a thread loads at once\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "static_assert(2 * ELEMENTS <= THREADS, \"a thread has one edge element at most\");\n"
       "\n"
       "// The sum over all threads of the block.\n"
       "__device__ __forceinline__ float sum_threads(float part) {\n"
       "  __shared__ float warp_sum[WARPS];\n"
       "  part = sum_lanes(part, 32);\n"
       "  if (threadIdx.x % 32 == 0)\n"
       "    warp_sum[threadIdx.x / 32] = part;\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "  return sum_lanes(warp_sum[threadIdx.x % WARPS], WARPS);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_softmax_bwd_args args) {\n"
       "  const int64_t row = blockIdx.x;\n"
       "  const unsigned char *y = (const unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
       "  const unsigned char *dy = (const unsigned char *)args.dy + row * args.dy_row_stride * SIZE;\n"
       "  unsigned char *dx = (unsigned char *)args.dx + row * args.dx_row_stride * SIZE;\n"
       "  // All three rows are dealt to the threads as dy is cut.\n"
       "  const RowCut cut = cut_row(dy, SIZE, args.columns);\n"
       "  uint32_t edge[2]; // this thread's of y and dy, if it has one\n"
       "  load_edges(y, SIZE, cut, threadIdx.x, THREADS, 1, 0, &edge[0]);\n"
       "  load_edges(dy, SIZE, cut, threadIdx.x, THREADS, 1, 0, &edge[1]);\n"
       "  const float y_edge = widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(edge[0]);\n"
       "  const float dy_edge = widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(edge[1]);\n"
       "\n"
       "  float part = y_edge * dy_edge;\n"
       "  const int steps = (cut.vectors + STEP * THREADS - 1) / (STEP * THREADS);\n"
       "  for (int step = 0; step < steps; ++step) {\n"
       "    uint4 y_vector[STEP], dy_vector[STEP];\n"
       "    const int first = step * STEP * THREADS + threadIdx.x;\n"
       "    load_vectors(y, SIZE, cut, first, THREADS, STEP, 0, y_vector);\n"
       "    load_own_vectors(dy, SIZE, cut, first, THREADS, STEP, 0, dy_vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      float a[ELEMENTS], b[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(y_vector[i], a);\n"
       "      widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(dy_vector[i], b);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        part += a[j] * b[j];\n"
       "    }\n"
       "  }\n"
       "  const float sum = sum_threads(part);\n"
       "\n"
       "  for (int step = steps - 1; step >= 0; --step) {\n"
       "    uint4 y_vector[STEP], dy_vector[STEP];\n"
       "    const int first = step * STEP * THREADS + threadIdx.x;\n"
       "    load_vectors(y, SIZE, cut, first, THREADS, STEP, 0, y_vector);\n"
       "    load_own_vectors(dy, SIZE, cut, first, THREADS, STEP, 0, dy_vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      float a[ELEMENTS], b[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(y_vector[i], a);\n"
       "      widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(dy_vector[i], b);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        b[j] = args.scale * a[j] * (b[j] - sum);\n"
       "      dy_vector[i] = narrow_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(b);\n"
       "    }\n"
       "    store_vectors(dx, SIZE, cut, first, THREADS, STEP, dy_vector);\n"
       "  }\n"
       "  edge[0] = narrow_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(args.scale * y_edge * (dy_edge - sum));\n"
       "  store_edges(dx, SIZE, cut, threadIdx.x, THREADS, 1, edge);\n"
       "}\n");
}
