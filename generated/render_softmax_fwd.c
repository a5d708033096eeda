/* Written by `python -m generator` from templates/softmax/softmax_fwd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_softmax_fwd(ap_text *out, const ap_render_input *in);

void ap_render_softmax_fwd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t cols = in->axis[AP_SOFTMAX_COLS];
  const int32_t dtype = in->axis[AP_SOFTMAX_DTYPE];
  const int32_t row_threads = in->field[AP_SOFTMAX_TILE_ROW_THREADS];
  const int32_t rows = in->field[AP_SOFTMAX_TILE_ROWS];
  const int32_t ahead = in->field[AP_SOFTMAX_TILE_AHEAD];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// y = softmax(scale x) over the rows of a matrix of at most COLUMNS columns, ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT(", fp32\n"
       "// inside. ROW_THREADS threads share a row and hold it in registers: x is read once, y may be x.\n"
       "//\n"
       "// Each warp takes powers relative to its own maximum of a row; where several warps share the row,\n"
       "// they then learn from each other what these amount to, behind one barrier.\n"
       "//\n"
       "// Pressed from templates/softmax/softmax_fwd.cu.j2 with tile ");
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
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_SOFTMAX_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int ROWS = ");
  INTEGER(rows);
  TEXT("; // of a thread\n"
       "constexpr int GROUPS = THREADS / ROW_THREADS;\n"
       "constexpr int BLOCK_ROWS = GROUPS * ROWS;\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int EDGES = (2 * ELEMENTS + ROW_THREADS - 1) / ROW_THREADS;\n"
       "constexpr int VALUES = VECTORS * ELEMENTS + EDGES; // of a thread in a row, the edges last\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_softmax_fwd_args args) {\n"
       "  const int thread = threadIdx.x % ROW_THREADS;\n"
       "  const int64_t first_row = (int64_t)blockIdx.x * BLOCK_ROWS + threadIdx.x / ROW_THREADS;\n"
       "  // What a row does not have counts as -inf after scaling.\n"
       "  const uint32_t filler = filler_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(args.scale);\n"
       "  uint4 vector[ROWS][VECTORS];\n"
       "  uint32_t edge[ROWS][EDGES];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int64_t row = first_row + r * GROUPS;\n"
       "    const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
       "    const RowCut cut = cut_row(x, SIZE, row < args.rows ? args.columns : 0);\n"
       "    load_own_vectors(x, SIZE, cut, thread, ROW_THREADS, VECTORS, filler, vector[r]);\n"
       "    load_edges(x, SIZE, cut, thread, ROW_THREADS, EDGES, filler, edge[r]);\n"
       "  }\n");
  if (ahead) {
    TEXT("  // Blocks begin in the order of their rows: what one will load next, here, is on its way by then.\n"
         "  const int64_t later = first_row + args.rows_ahead;\n"
         "  if (later < args.rows)\n"
         "    prefetch_row((const unsigned char *)args.x + later * args.x_row_stride * SIZE, SIZE,\n"
         "                 args.columns, thread, ROW_THREADS);\n");
  }
  TEXT("  float value[ROWS][VALUES];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i)\n"
       "      widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(vector[r][i], value[r] + i * ELEMENTS);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < EDGES; ++i)\n"
       "      value[r][VECTORS * ELEMENTS + i] = widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(edge[r][i]);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VALUES; ++i)\n"
       "      value[r][i] *= args.scale;\n"
       "  }\n"
       "\n"
       "  // Powers relative to the maximum of the warp's part of the row, and their sum.\n"
       "  RowSum part[ROWS];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    float max = value[r][0];\n"
       "#pragma unroll\n"
       "    for (int i = 1; i < VALUES; ++i)\n"
       "      max = fmaxf(max, value[r][i]);\n"
       "    part[r].max = max_lanes(max, LANES);\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    float sum = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VALUES; ++i) {\n"
       "      value[r][i] = exp_difference(value[r][i], reference_of(part[r].max));\n"
       "      sum += value[r][i];\n"
       "    }\n"
       "    part[r].sum = sum_lanes(sum, LANES);\n"
       "  }\n"
       "\n");
  if (row_threads > 32) {
    TEXT("  // Over the warps of the row.\n"
         "  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  __shared__ float2 warp_part[THREADS / 32];\n"
         "  if (threadIdx.x % 32 == 0) {\n"
         "    const float2 own = {part[0].max, part[0].sum};\n"
         "    warp_part[threadIdx.x / 32] = own;\n"
         "  }\n"
         "  // All threads arrive and wait: hands over the sums of the warps.\n"
         "  __syncthreads();\n"
         "  const float2 other =\n"
         "      warp_part[threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS];\n"
         "  const RowSum warps = {other.x, other.y};\n"
         "  const float factor[ROWS] = {share_factor(part[0].max, add_lanes(warps, ROW_WARPS))};\n");
  } else {
    TEXT("  float factor[ROWS];\n"
         "#pragma unroll\n"
         "  for (int r = 0; r < ROWS; ++r)\n"
         "    factor[r] = reciprocal_approx(part[r].sum);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int64_t row = first_row + r * GROUPS;\n"
       "    const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
       "    unsigned char *y = (unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
       "    const RowCut cut = cut_row(x, SIZE, row < args.rows ? args.columns : 0);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VALUES; ++i)\n"
       "      value[r][i] *= factor[r];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i)\n"
       "      store_vector(y, SIZE, cut, i * ROW_THREADS + thread,\n"
       "                   narrow_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(value[r] + i * ELEMENTS));\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < EDGES; ++i)\n"
       "      store_edge(y, SIZE, cut, i * ROW_THREADS + thread,\n"
       "                 narrow_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(value[r][VECTORS * ELEMENTS + i]));\n"
       "  }\n"
       "}\n");
}
