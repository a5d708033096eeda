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
         "// 2^column_shift lanes of a warp share ROWS rows, and walk over the columns, a vector each at a time.\n");
  } else {
    TEXT("// dx[n, i] = sum over j of dc[n, i, j] y[n, j], and sums over the rows of a thread block of\n"
         "// dc[n, i, j] x[n, i], which another kernel adds up to dy; ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside. dc is read once:\n"
         "// 2^column_shift lanes of a warp share ROWS rows, and walk over the columns, a vector each at a time.\n");
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
       "#include \"attnpress/device/ptx_global.cuh\"\n"
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
  TEXT(";     // of a thread\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int BATCH = ROWS % 4 == 0 ? 4 : 1; // rows that are loaded at once by elements\n"
       "\n"
       "// Vector number `index` of the rows `first`, `first` + apart ... of an entry of dc; 0 where there is\n"
       "// none. vector: (ROWS)\n"
       "__device__ __forceinline__ void load_rows(const attnpress_outer_bwd_args *args,\n"
       "                                          const unsigned char *dc, bool whole, int first, int apart,\n"
       "                                          int index, uint4 *vector) {\n"
       "  const int64_t row_bytes = args->dc_row_stride * SIZE;\n"
       "  // One branch for all: every load of a thread is on its way before the first is waited for.\n"
       "  if (whole) {\n"
       "#pragma unroll\n"
       "    for (int r = 0; r < ROWS; ++r) {\n"
       "      const int row = first + r * apart;\n"
       "      vector[r] = load_16_if(row < args->rows && index * ELEMENTS < args->columns,\n"
       "                             dc + row * row_bytes + (int64_t)index * 16, 0);\n"
       "    }\n"
       "    return;\n"
       "  }\n"
       "  // A loop, so that this takes little code: BATCH rows at once come in at the end, those before move\n"
       "  // up.\n"
       "#pragma unroll 1\n"
       "  for (int r = 0; r < ROWS; r += BATCH) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ROWS - BATCH; ++i)\n"
       "      vector[i] = vector[i + BATCH];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < BATCH; ++i) {\n"
       "      const int row = first + (r + i) * apart;\n"
       "      load_columns(dc + row * row_bytes, SIZE, row < args->rows ? args->columns : 0, index, 0, 1,\n"
       "                   &vector[ROWS - BATCH + i]);\n"
       "    }\n"
       "  }\n"
       "}\n"
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
       "  __shared__ __align__(16) float warp_sum[2][WARPS][32 * ELEMENTS];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const int row_lanes = 1 << args.column_shift, groups = 32 >> args.column_shift; // of a warp\n"
       "  const int step = row_lanes * ELEMENTS;                                          // columns\n"
       "  const int64_t batch = blockIdx.x / args.row_blocks;\n"
       "  // The first row of the thread's group; the next one is that of the next group.\n"
       "  const int first =\n"
       "      (blockIdx.x % args.row_blocks * WARPS + warp) * groups * ROWS + (lane >> args.column_shift);\n"
       "  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;\n"
       "  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;\n"
       "  const unsigned char *dc = (const unsigned char *)args.dc + batch * args.dc_batch_stride * SIZE;\n"
       "  const bool whole =\n"
       "      (uint64_t)dc % 16 == 0 && args.dc_row_stride % ELEMENTS == 0 && args.columns % ELEMENTS == 0;\n"
       "  int index = lane & (row_lanes - 1); // of vectors\n"
       "  uint4 vector[ROWS], y_vector;\n"
       "  load_rows(&args, dc, whole, first, groups, index, vector);\n"
       "  load_columns(y, SIZE, args.columns, index, 0, 1, &y_vector);\n"
       "  float factor[ROWS], dx[ROWS];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int row = first + r * groups;\n"
       "    factor[r] = dx[r] = 0.0f;\n"
       "    if (row < args.rows)\n"
       "      factor[r] = widen_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_element(x, SIZE, row));\n"
       "  }\n"
       "\n"
       "  int turn = 0;\n"
       "  for (int column = 0; column < args.columns; column += step) {\n"
       "    float value[ELEMENTS], y_value[ELEMENTS], dy[ELEMENTS];\n"
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
         "        if (first + r * groups >= args.rows || index * ELEMENTS + j >= args.columns)\n"
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
  TEXT("    // The next step's are on their way while this one's are added up.\n"
       "    index += row_lanes;\n"
       "    load_rows(&args, dc, whole, first, groups, index, vector);\n"
       "    load_columns(y, SIZE, args.columns, index, 0, 1, &y_vector);\n"
       "    if (args.dy_parts) {\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; j += 4) {\n"
       "        const float4 four = {dy[j], dy[j + 1], dy[j + 2], dy[j + 3]};\n"
       "        *(float4 *)&warp_sum[turn][warp][lane * ELEMENTS + j] = four;\n"
       "      }\n"
       "      // All threads arrive and wait: hands over the sums of the warps, and those of the step before\n"
       "      // have been read.\n"
       "      __syncthreads();\n"
       "      // Each thread adds up some columns over the groups of all warps.\n"
       "      float *parts = args.dy_parts + (int64_t)blockIdx.x * args.columns + column;\n"
       "      for (int at = threadIdx.x; at < step && column + at < args.columns; at += THREADS) {\n"
       "        float sum = 0.0f;\n"
       "#pragma unroll\n"
       "        for (int other = 0; other < WARPS; ++other)\n"
       "          for (int group = 0; group < groups; ++group)\n"
       "            sum += warp_sum[turn][other][group * step + at];\n"
       "        parts[at] = sum;\n"
       "      }\n"
       "      turn ^= 1;\n"
       "    }\n"
       "  }\n"
       "  if (!args.dx)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int row = first + r * groups;\n"
       "    dx[r] = sum_lanes(dx[r], row_lanes);\n"
       "    if ((lane & (row_lanes - 1)) == 0 && row < args.rows)\n"
       "      store_element((unsigned char *)args.dx + batch * args.dx_stride * SIZE, SIZE, row,\n"
       "                    narrow_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(dx[r]));\n"
       "  }\n"
       "}\n");
}
