/* Written by `python -m generator` from templates/outer/outer_sum.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_outer_sum(ap_text *out, const ap_render_input *in);

void ap_render_outer_sum(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_OUTER_DTYPE];
  const int32_t mod = in->axis[AP_OUTER_MOD];
  const int32_t rows = in->field[AP_OUTER_TILE_ROWS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (mod) {
    TEXT("// c[i, j] = sum over n of f(x[n, i], y[n, j]), ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside: always in the order of n; f is at\n"
         "// the end, and is asked about entries that are there alone: it may be what it wants of zeros. A thread\n");
  } else {
    TEXT("// c[i, j] = sum over n of x[n, i] y[n, j], ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside: always in the order of n. A thread\n");
  }
  TEXT("// block has TILE rows and as many columns of c, a thread ROWS of each; STEP entries of the batch\n"
       "// wait in shared memory at a time.\n"
       "//\n"
       "// Pressed from templates/outer/outer_sum.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family outer --pass sum");
  if (mod) {
    TEXT(" --mod");
  }
  TEXT(" --dtype ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/outer.h\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n");
  if (mod) {
    TEXT("#include \"attnpress/device/snippet.cuh\"\n");
  }
  TEXT("\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_OUTER_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROWS = ");
  INTEGER(rows);
  TEXT("; // of a thread, and columns\n"
       "constexpr int SIDE = ");
  INTEGER((threads >= 256) ? 16 : 8);
  TEXT("; // threads below and beside each other\n"
       "constexpr int TILE = SIDE * ROWS;\n"
       "constexpr int STEP = 16; // entries of the batch in shared memory\n"
       "static_assert(SIDE * SIDE == THREADS, \"threads are a square\");\n"
       "\n");
  if (mod) {
    TEXT("// The caller's function of an element of x and one of y.\n"
         "__device__ __forceinline__ float snippet_value(const uint32_t *scalars, float x, float y);\n"
         "\n");
  }
  TEXT("// STEP entries of TILE elements each of a matrix, from `batch` and from `first` on; 0 beyond it.\n"
       "__device__ __forceinline__ void load_tile(const void *matrix, int64_t stride, int64_t batch,\n"
       "                                          int64_t batches, int first, int count,\n"
       "                                          float tile[STEP][TILE]) {\n"
       "#pragma unroll\n"
       "  for (int at = 0; at < STEP * TILE; at += THREADS) {\n"
       "    const int n = (at + threadIdx.x) / TILE, i = (at + threadIdx.x) % TILE;\n"
       "    const unsigned char *from = (const unsigned char *)matrix + (batch + n) * stride * SIZE;\n"
       "    float value = 0.0f;\n"
       "    if (batch + n < batches && first + i < count)\n"
       "      value = widen_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_element(from, SIZE, first + i));\n"
       "    tile[n][i] = value;\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_fwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  __shared__ float x[STEP][TILE], y[STEP][TILE];\n"
       "  const int first_row = blockIdx.x / args.column_blocks * TILE;\n"
       "  const int first_column = blockIdx.x % args.column_blocks * TILE;\n"
       "  const int below = threadIdx.x / SIDE, beside = threadIdx.x % SIDE;\n"
       "  float sum[ROWS][ROWS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ROWS; ++i) {\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ROWS; ++j)\n"
       "      sum[i][j] = 0.0f;\n"
       "  }\n"
       "  for (int64_t batch = 0; batch < args.batch; batch += STEP) {\n"
       "    // All threads arrive and wait: what was here before has been read.\n"
       "    __syncthreads();\n"
       "    load_tile(args.x, args.x_stride, batch, args.batch, first_row, args.rows, x);\n"
       "    load_tile(args.y, args.y_stride, batch, args.batch, first_column, args.columns, y);\n"
       "    // All threads arrive and wait: hands over the entries.\n"
       "    __syncthreads();\n");
  if (mod) {
    TEXT("    const int entries = (int)min(args.batch - batch, (int64_t)STEP);\n"
         "    for (int n = 0; n < entries; ++n) {\n");
  } else {
    TEXT("#pragma unroll\n"
         "    for (int n = 0; n < STEP; ++n) {\n");
  }
  TEXT("#pragma unroll\n"
       "      for (int i = 0; i < ROWS; ++i) {\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ROWS; ++j)\n");
  if (mod) {
    TEXT("          sum[i][j] += snippet_value(args.scalar, x[n][i * SIDE + below], y[n][j * SIDE + beside]);\n");
  } else {
    TEXT("          sum[i][j] += x[n][i * SIDE + below] * y[n][j * SIDE + beside];\n");
  }
  TEXT("      }\n"
       "    }\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ROWS; ++i) {\n"
       "    const int row = first_row + i * SIDE + below;\n"
       "    unsigned char *c = (unsigned char *)args.c + row * args.c_row_stride * SIZE;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ROWS; ++j) {\n"
       "      const int column = first_column + j * SIDE + beside;\n"
       "      if (row < args.rows && column < args.columns)\n"
       "        store_element(c, SIZE, column, narrow_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(sum[i][j]));\n"
       "    }\n"
       "  }\n"
       "}\n");
}
