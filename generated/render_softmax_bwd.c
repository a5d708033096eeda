/* Written by `python -m generator` from templates/softmax/softmax_bwd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_softmax_bwd(ap_text *out, const ap_render_input *in);

void ap_render_softmax_bwd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t cols = in->axis[AP_SOFTMAX_COLS];
  const int32_t dtype = in->axis[AP_SOFTMAX_DTYPE];
  const int32_t row_threads = in->field[AP_SOFTMAX_TILE_ROW_THREADS];
  const int32_t rows = in->field[AP_SOFTMAX_TILE_ROWS];
  const int32_t in_shared = in->field[AP_SOFTMAX_TILE_IN_SHARED];
  const int32_t ahead = in->field[AP_SOFTMAX_TILE_AHEAD];
  const int32_t blocks = in->field[AP_SOFTMAX_TILE_BLOCKS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// dx = scale y (dy - sum(dy y)) over the rows of matrices of at most COLUMNS columns, ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT(",\n"
       "// fp32 inside. ROW_THREADS threads share a row of y and dy and hold it: both are read once, dx may\n"
       "// be either.\n");
  if (in_shared == 2) {
    TEXT("// They wait in shared memory, so that an SM has several blocks, and are added up as they arrive.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/softmax/softmax_bwd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family softmax --pass bwd --cols ");
  INTEGER(cols);
  TEXT(" --dtype ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/softmax.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n");
  if (in_shared > 0) {
    TEXT("#include \"attnpress/device/ptx_address.cuh\"\n"
         "#include \"attnpress/device/ptx_cp_async.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_softmax.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_SOFTMAX_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(" + ELEMENTS - 1; // at most: a vector less one of them are edges\n"
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
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int EDGES = (2 * ELEMENTS + ROW_THREADS - 1) / ROW_THREADS;\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n");
  if (in_shared > 0) {
    TEXT("constexpr int SMEM_BYTES = ");
    INTEGER(smem_bytes);
    TEXT(";\n"
         "static_assert(SMEM_BYTES == ");
    INTEGER(in_shared);
    TEXT(" * VECTORS * THREADS * 16,\n"
         "              \"the generator has another formula\");\n"
         "static_assert(BLOCK_ROWS == 1, \"a thread block has one row\");\n");
  }
  TEXT("constexpr int Y_STRIDE = ");
  STRING((in_shared > 0) ? "THREADS" : "1");
  TEXT(";  // between a thread's vectors of y\n"
       "constexpr int DY_STRIDE = ");
  STRING((in_shared == 2) ? "THREADS" : "1");
  TEXT("; // and of dy\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS + ELEMENTS - 1 == COLUMNS,\n"
       "              \"threads share a row evenly\");\n"
       "\n");
  if (in_shared > 0) {
    TEXT("// A vector of the row on its way to shared memory, to a place of this thread's own: nobody else\n"
         "// reads it. What the row does not have becomes zeros.\n"
         "__device__ __forceinline__ void copy_vector(const unsigned char *row, RowCut cut, int index,\n"
         "                                            uint4 *shared) {\n"
         "  const bool has = index < cut.vectors;\n"
         "  const int column = vector_column(cut, SIZE, has ? index : 0);\n"
         "  cp_async_16(shared_address(shared), row + (int64_t)column * SIZE, has ? 16 : 0);\n"
         "}\n"
         "\n");
    if (in_shared == 2) {
      TEXT("// The vectors of both rows, a group of copies for each pair.\n");
    } else {
      TEXT("// The vectors of y's row, a group of copies.\n");
    }
    TEXT("__device__ __forceinline__ void copy_vectors(const unsigned char *y, const unsigned char *dy,\n"
         "                                             RowCut cut, uint4 *y_shared, uint4 *dy_shared) {\n"
         "  const bool alike = is_cut_alike(y, SIZE, cut);\n"
         "  if (!alike) {\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < VECTORS; ++i)\n"
         "      load_vectors(y, SIZE, cut, i * THREADS + threadIdx.x, 0, 1, 0, y_shared + i * THREADS);\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const int index = i * THREADS + threadIdx.x;\n"
         "    if (alike)\n"
         "      copy_vector(y, cut, index, y_shared + i * THREADS);\n");
    if (in_shared == 2) {
      TEXT("    copy_vector(dy, cut, index, dy_shared + i * THREADS);\n"
           "    cp_async_commit();\n");
    }
    TEXT("  }\n");
    if (in_shared == 1) {
      TEXT("  cp_async_commit();\n");
    }
    TEXT("}\n"
         "\n");
  }
  TEXT("// The sum of y dy over a thread's part of a row. y: (VECTORS), Y_STRIDE apart; dy: (VECTORS),\n"
       "// DY_STRIDE apart; edges: (EDGES)\n"
       "__device__ __forceinline__ float product_sum(const uint4 *y, const uint4 *dy,\n"
       "                                             const uint32_t *y_edge, const uint32_t *dy_edge) {\n"
       "  float sum = 0.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < EDGES; ++i)\n"
       "    sum += widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(y_edge[i]) * widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(dy_edge[i]);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float a[ELEMENTS], b[ELEMENTS];\n");
  if (in_shared == 2) {
    TEXT("    cp_async_wait(VECTORS - 1 - i);\n");
  }
  TEXT("    widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(y[i * Y_STRIDE], a);\n"
       "    widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(dy[i * DY_STRIDE], b);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      sum += a[j] * b[j];\n"
       "  }\n"
       "  return sum;\n"
       "}\n"
       "\n"
       "// dx = scale y (dy - sum), of the same.\n"
       "__device__ __forceinline__ void store_gradients(void *row, RowCut cut, int thread, const uint4 *y,\n"
       "                                                const uint4 *dy, const uint32_t *y_edge,\n"
       "                                                const uint32_t *dy_edge, float sum, float scale) {\n"
       "  uint4 gradient[VECTORS];\n"
       "  uint32_t edge[EDGES];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float a[ELEMENTS], b[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(y[i * Y_STRIDE], a);\n"
       "    widen_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(dy[i * DY_STRIDE], b);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      b[j] = scale * a[j] * (b[j] - sum);\n"
       "    gradient[i] = narrow_vector_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(b);\n");
  if (in_shared > 0) {
    TEXT("    store_vectors(row, SIZE, cut, i * ROW_THREADS + thread, 0, 1, gradient + i);\n");
  }
  TEXT("  }\n");
  if (in_shared == 0) {
    TEXT("  store_vectors(row, SIZE, cut, thread, ROW_THREADS, VECTORS, gradient);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < EDGES; ++i) {\n"
       "    const float a = widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(y_edge[i]);\n"
       "    const float b = widen_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(dy_edge[i]);\n"
       "    edge[i] = narrow_element_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(scale * a * (b - sum));\n"
       "  }\n"
       "  store_edges(row, SIZE, cut, thread, ROW_THREADS, EDGES, edge);\n"
       "}\n"
       "\n");
  if (blocks > 0) {
    TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, ");
    INTEGER(blocks);
    TEXT(")\n");
  } else {
    TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS)\n");
  }
  TEXT("    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_softmax_bwd_args args) {\n"
       "  const int thread = threadIdx.x % ROW_THREADS;\n"
       "  const int64_t first_row = (int64_t)blockIdx.x * BLOCK_ROWS + threadIdx.x / ROW_THREADS;\n");
  if (in_shared > 0) {
    TEXT("  extern __shared__ __align__(1024) unsigned char smem[];\n"
         "  uint4 *y[ROWS] = {(uint4 *)smem + threadIdx.x};\n");
  } else {
    TEXT("  uint4 y[ROWS][VECTORS];\n");
  }
  if (in_shared == 2) {
    TEXT("  uint4 *dy[ROWS] = {y[0] + VECTORS * THREADS};\n");
  } else {
    TEXT("  uint4 dy[ROWS][VECTORS];\n");
  }
  TEXT("  uint32_t y_edge[ROWS][EDGES], dy_edge[ROWS][EDGES];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int64_t row = first_row + r * GROUPS;\n"
       "    const unsigned char *y_row = (const unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
       "    const unsigned char *dy_row = (const unsigned char *)args.dy + row * args.dy_row_stride * SIZE;\n"
       "    // All three rows are dealt to the threads as dy is cut.\n"
       "    const RowCut cut = cut_row(dy_row, SIZE, row < args.rows ? args.columns : 0);\n");
  if (in_shared == 0) {
    TEXT("    load_vectors(y_row, SIZE, cut, thread, ROW_THREADS, VECTORS, 0, y[r]);\n");
  }
  TEXT("    load_edges(y_row, SIZE, cut, thread, ROW_THREADS, EDGES, 0, y_edge[r]);\n"
       "    load_edges(dy_row, SIZE, cut, thread, ROW_THREADS, EDGES, 0, dy_edge[r]);\n");
  if (in_shared > 0) {
    TEXT("    copy_vectors(y_row, dy_row, cut, y[r], dy[r]);\n");
  }
  if (in_shared < 2) {
    TEXT("    load_own_vectors(dy_row, SIZE, cut, thread, ROW_THREADS, VECTORS, 0, dy[r]);\n");
  }
  if (row_threads <= 32) {
    TEXT("    if (thread == 0 && row < args.rows && args.dx_row_stride != args.columns)\n"
         "      prefetch_ends((unsigned char *)args.dx + row * args.dx_row_stride * SIZE, SIZE,\n"
         "                    args.columns);\n");
  }
  TEXT("  }\n");
  if (ahead) {
    TEXT("  // Blocks begin in the order of their rows: what one will load next, here, is on its way by then.\n"
         "  const int64_t later = first_row + args.rows_ahead;\n"
         "  if (later < args.rows) {\n"
         "    prefetch_row((const unsigned char *)args.y + later * args.y_row_stride * SIZE, SIZE,\n"
         "                 args.columns, thread, ROW_THREADS);\n"
         "    prefetch_row((const unsigned char *)args.dy + later * args.dy_row_stride * SIZE, SIZE,\n"
         "                 args.columns, thread, ROW_THREADS);\n"
         "  }\n");
  }
  if (in_shared == 1) {
    TEXT("  cp_async_wait(0);\n");
  }
  TEXT("  float sum[ROWS];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r)\n"
       "    sum[r] = sum_lanes(product_sum(y[r], dy[r], y_edge[r], dy_edge[r]), LANES);\n");
  if (row_threads > 32) {
    TEXT("  // Over the warps of the row.\n"
         "  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  __shared__ float warp_sum[THREADS / 32];\n"
         "  if (threadIdx.x % 32 == 0)\n"
         "    warp_sum[threadIdx.x / 32] = sum[0];\n"
         "  // All threads arrive and wait: hands over the sums of the warps.\n"
         "  __syncthreads();\n"
         "  sum[0] = sum_lanes(\n"
         "      warp_sum[threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS], ROW_WARPS);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int64_t row = first_row + r * GROUPS;\n"
       "    const unsigned char *dy_row = (const unsigned char *)args.dy + row * args.dy_row_stride * SIZE;\n"
       "    store_gradients((unsigned char *)args.dx + row * args.dx_row_stride * SIZE,\n"
       "                    cut_row(dy_row, SIZE, row < args.rows ? args.columns : 0), thread, y[r],\n"
       "                    dy[r], y_edge[r], dy_edge[r], sum[r], args.scale);\n"
       "  }\n"
       "}\n");
}
