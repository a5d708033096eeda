/* Written by `python -m generator` from templates/outer/outer_bwd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_outer_bwd(ap_text *out, const ap_render_input *in);

void ap_render_outer_bwd(ap_text *out, const ap_render_input *in) {
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
    TEXT("// dx[n, i] = sum over j of dc[n, i, j] df / dx, and sums over the rows of a thread block of\n"
         "// dc[n, i, j] df / dy, which another kernel adds up to dy; ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside. f(x[n, i], y[n, j]) is\n"
         "// at the end, a function of dual numbers, which is asked about what is there alone. dc is read once:\n"
         "// each warp has ROWS rows, and walks over the columns, a vector of each lane at a time.\n");
  } else {
    TEXT("// dx[n, i] = sum over j of dc[n, i, j] y[n, j], and sums over the rows of a thread block of\n"
         "// dc[n, i, j] x[n, i], which another kernel adds up to dy; ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside. dc is read once: each\n"
         "// warp has ROWS rows, and walks over the columns, a vector of each lane at a time.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/outer/outer_bwd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family outer --pass bwd");
  if (mod) {
    TEXT(" --mod");
  }
  TEXT(" --dtype ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/outer.h\"\n");
  if (mod) {
    TEXT("#include \"attnpress/device/dual.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
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
  TEXT(";     // of a warp\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int COLUMNS = 32 * ELEMENTS; // of a step\n"
       "\n");
  if (mod) {
    TEXT("// The caller's function of an element of x and one of y.\n"
         "__device__ __forceinline__ SnippetDual snippet_dual(const uint32_t *scalars, SnippetDual x,\n"
         "                                                    SnippetDual y);\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_bwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  __shared__ float warp_sum[WARPS][ELEMENTS][32];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const int64_t batch = blockIdx.x / args.row_blocks;\n"
       "  const int first = (blockIdx.x % args.row_blocks * WARPS + warp) * ROWS;\n"
       "  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;\n"
       "  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;\n"
       "  const unsigned char *dc = (const unsigned char *)args.dc + batch * args.dc_batch_stride * SIZE;\n"
       "  float factor[ROWS], dx[ROWS];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    factor[r] = dx[r] = 0.0f;\n"
       "    if (first + r < args.rows)\n"
       "      factor[r] = widen_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_element(x, SIZE, first + r));\n"
       "  }\n"
       "\n"
       "  for (int column = 0; column < args.columns; column += COLUMNS) {\n"
       "    const int index = column / ELEMENTS + lane; // of vectors\n"
       "    uint4 vector[ROWS], y_vector;\n"
       "    float value[ELEMENTS], y_value[ELEMENTS], dy[ELEMENTS];\n"
       "    load_columns(y, SIZE, args.columns, index, 0, 1, &y_vector);\n"
       "#pragma unroll\n"
       "    for (int r = 0; r < ROWS; ++r)\n"
       "      load_columns(dc + (first + r) * args.dc_row_stride * SIZE, SIZE,\n"
       "                   first + r < args.rows ? args.columns : 0, index, 0, 1, &vector[r]);\n"
       "    widen_vector_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(y_vector, y_value);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      dy[j] = 0.0f;\n");
  if (mod) {
    TEXT("    // The function is compiled for one row, the first; the others move up, and it becomes the last.\n"
         "#pragma unroll 1\n"
         "    for (int r = 0; r < ROWS; ++r) {\n"
         "      const float x_value = factor[0];\n"
         "      float dx_sum = dx[0];\n"
         "      widen_vector_");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT("(vector[0], value);\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j) {\n"
         "        if (first + r >= args.rows || index * ELEMENTS + j >= args.columns)\n"
         "          continue;\n"
         "        dx_sum +=\n"
         "            value[j] * snippet_dual(args.scalar, {x_value, 1.0f}, {y_value[j], 0.0f}).derivative;\n"
         "        dy[j] +=\n"
         "            value[j] * snippet_dual(args.scalar, {x_value, 0.0f}, {y_value[j], 1.0f}).derivative;\n"
         "      }\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < ROWS - 1; ++i) {\n"
         "        vector[i] = vector[i + 1];\n"
         "        factor[i] = factor[i + 1];\n"
         "        dx[i] = dx[i + 1];\n"
         "      }\n"
         "      factor[ROWS - 1] = x_value;\n"
         "      dx[ROWS - 1] = dx_sum;\n"
         "    }\n");
  } else {
    TEXT("#pragma unroll\n"
         "    for (int r = 0; r < ROWS; ++r) {\n"
         "      widen_vector_");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT("(vector[r], value);\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j) {\n"
         "        dx[r] += value[j] * y_value[j];\n"
         "        dy[j] += value[j] * factor[r];\n"
         "      }\n"
         "    }\n");
  }
  TEXT("    if (args.dy_parts) {\n"
       "      // All threads arrive and wait: the step before has been added up.\n"
       "      __syncthreads();\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        warp_sum[warp][j][lane] = dy[j];\n"
       "      // All threads arrive and wait: hands over the sums of the warps.\n"
       "      __syncthreads();\n"
       "      // Each thread adds up some columns over the warps.\n"
       "      float *parts = args.dy_parts + (int64_t)blockIdx.x * args.columns + column;\n"
       "      for (int at = threadIdx.x; at < COLUMNS && column + at < args.columns; at += THREADS) {\n"
       "        float sum = 0.0f;\n"
       "#pragma unroll\n"
       "        for (int other = 0; other < WARPS; ++other)\n"
       "          sum += warp_sum[other][at % ELEMENTS][at / ELEMENTS];\n"
       "        parts[at] = sum;\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "  if (!args.dx)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    dx[r] = sum_lanes(dx[r], 32);\n"
       "    if (lane == 0 && first + r < args.rows)\n"
       "      store_element((unsigned char *)args.dx + batch * args.dx_stride * SIZE, SIZE, first + r,\n"
       "                    narrow_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(dx[r]));\n"
       "  }\n"
       "}\n");
}
