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
  int32_t ahead = ((dtype == AP_OUTER_DTYPE_FP32) && !mod) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (mod) {
    TEXT("// dx[n, i] = sum over j of dc[n, i, j] df / dx, and sums over the rows of a thread block of\n"
         "// dc[n, i, j] df / dy: dy where a block has all rows, else another kernel adds them up;\n"
         "// ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside.\n"
         "// f(x[n, i], y[n, j]) is at the end, a function of dual numbers, which is asked about what is there\n"
         "// alone. dc is read once: 2^column_shift threads share ROWS rows, and walk over the columns,\n"
         "// 16 bytes each at a time: a vector, or, where a row may begin anywhere, elements that lie as far\n"
         "// apart as threads share a row.\n");
  } else {
    TEXT("// dx[n, i] = sum over j of dc[n, i, j] y[n, j], and sums over the rows of a thread block of\n"
         "// dc[n, i, j] x[n, i]: dy where a block has all rows, else another kernel adds them up; ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(",\n"
         "// fp32 inside. dc is read once: 2^column_shift threads share ROWS rows, and walk over the columns,\n"
         "// 16 bytes each at a time: a vector, or, where a row may begin anywhere, elements that lie as far\n"
         "// apart as threads share a row.\n");
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
       "constexpr int SM_THREADS = 1024; // by registers\n"
       "\n"
       "// Vector `column` / ELEMENTS of a row, or 16 bytes of elements from `column` on that lie `apart`; 0\n"
       "// where there are none.\n"
       "__device__ __forceinline__ uint4 load_step(const unsigned char *row, int columns, int column,\n"
       "                                           int apart, bool whole) {\n"
       "  if (whole)\n"
       "    return load_16_if(column < columns, row + (int64_t)column * SIZE, 0);\n"
       "  uint32_t word[4];\n"
       "  row += (int64_t)column * SIZE;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i) {\n");
  if (dtype == AP_OUTER_DTYPE_FP32) {
    TEXT("    word[i] = load_4_if(column + i * apart < columns, row + (int64_t)i * apart * 4, 0);\n");
  } else {
    TEXT("    const int j = 2 * i * apart, k = j + apart;\n"
         "    word[i] = load_2_if(column + j < columns, row + (int64_t)j * 2, 0) |\n"
         "              load_2_if(column + k < columns, row + (int64_t)k * 2, 0) << 16;\n");
  }
  TEXT("  }\n"
       "  const uint4 vector = {word[0], word[1], word[2], word[3]};\n"
       "  return vector;\n"
       "}\n"
       "\n"
       "// The same of the rows `first`, `first` + groups ... of an entry of dc. vector: (ROWS)\n"
       "__device__ __forceinline__ void load_rows(const attnpress_outer_bwd_args *args,\n"
       "                                          const unsigned char *dc, int first, int groups,\n"
       "                                          int column, int apart, bool whole, uint4 *vector) {\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int row = first + r * groups;\n"
       "    vector[r] = load_step(dc + row * args->dc_row_stride * SIZE,\n"
       "                          row < args->rows ? args->columns : 0, column, apart, whole);\n"
       "  }\n"
       "}\n"
       "\n");
  if (mod) {
    TEXT("// The caller's function of an element of x and one of y.\n"
         "__device__ __forceinline__ SnippetDual snippet_dual(const uint32_t *scalars, SnippetDual x,\n"
         "                                                    SnippetDual y);\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, (SM_THREADS + THREADS - 1) / THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_bwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  __shared__ __align__(16) float sums[2][THREADS * ELEMENTS];\n"
       "  const int row_threads = 1 << args.column_shift, groups = THREADS >> args.column_shift;\n"
       "  const int step = row_threads * ELEMENTS; // columns\n"
       "  const int group = threadIdx.x >> args.column_shift, thread = threadIdx.x & (row_threads - 1);\n"
       "  const int64_t batch = blockIdx.x / args.row_blocks;\n"
       "  // The first row of the thread's group; the next one is that of the next group.\n"
       "  const int first = blockIdx.x % args.row_blocks * groups * ROWS + group;\n"
       "  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;\n"
       "  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;\n"
       "  const unsigned char *dc = (const unsigned char *)args.dc + batch * args.dc_batch_stride * SIZE;\n"
       "  // One branch for all: with one of its own y is waited for before x is loaded.\n"
       "  const bool whole =\n"
       "      ((uint64_t)dc | (uint64_t)args.dc_row_stride * SIZE | (uint64_t)y) % 16 == 0 &&\n"
       "      args.columns % ELEMENTS == 0;\n"
       "  // The thread's first column of a step, and between its columns.\n"
       "  const int own = whole ? thread * ELEMENTS : thread, apart = whole ? 1 : row_threads;\n"
       "  uint4 vector[ROWS], y_vector;\n"
       "  if (whole) {\n"
       "    load_rows(&args, dc, first, groups, own, 1, true, vector);\n"
       "    y_vector = load_step(y, args.columns, own, 1, true);\n");
  if (ahead == 1) {
    TEXT("  } else {\n"
         "    load_rows(&args, dc, first, groups, own, apart, false, vector);\n"
         "    y_vector = load_step(y, args.columns, own, apart, false);\n");
  }
  TEXT("  }\n"
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
       "  for (int column = 0; column < args.columns; column += step) {\n");
  if (ahead == 0) {
    TEXT("    if (!whole) {\n"
         "      load_rows(&args, dc, first, groups, column + own, apart, false, vector);\n"
         "      y_vector = load_step(y, args.columns, column + own, apart, false);\n"
         "    }\n");
  }
  TEXT("    float value[ELEMENTS], y_value[ELEMENTS], dy[ELEMENTS];\n"
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
         "        if (first + r * groups >= args.rows || column + own + j * apart >= args.columns)\n"
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
       "    if (whole) {\n"
       "      load_rows(&args, dc, first, groups, column + step + own, 1, true, vector);\n"
       "      y_vector = load_step(y, args.columns, column + step + own, 1, true);\n");
  if (ahead == 1) {
    TEXT("    } else {\n"
         "      load_rows(&args, dc, first, groups, column + step + own, apart, false, vector);\n"
         "      y_vector = load_step(y, args.columns, column + step + own, apart, false);\n");
  }
  TEXT("    }\n"
       "    if (args.dy_parts || args.dy) {\n"
       "      float *const sum = sums[turn] + group * step + own;\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; j += 4) {\n"
       "        const float4 four = {dy[j], dy[j + 1], dy[j + 2], dy[j + 3]};\n"
       "        if (whole)\n"
       "          *(float4 *)&sum[j] = four;\n"
       "      }\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        if (!whole)\n"
       "          sum[j * apart] = dy[j];\n"
       "      // All threads arrive and wait: hands over the sums of the groups, and those of the step\n"
       "      // before have been read.\n"
       "      __syncthreads();\n"
       "      // Each thread adds up some columns over the groups.\n"
       "      float *parts = args.dy_parts + (int64_t)blockIdx.x * args.columns + column;\n"
       "      for (int at = threadIdx.x; at < step && column + at < args.columns; at += THREADS) {\n"
       "        float total = 0.0f;\n"
       "        for (int other = 0; other < groups; ++other)\n"
       "          total += sums[turn][other * step + at];\n"
       "        if (args.dy_parts)\n"
       "          parts[at] = total;\n"
       "        else // the block is the entry's only one\n"
       "          store_element((unsigned char *)args.dy + blockIdx.x * args.dy_stride * SIZE, SIZE,\n"
       "                        column + at, narrow_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(total));\n"
       "      }\n"
       "      turn ^= 1;\n"
       "    }\n"
       "  }\n"
       "  if (!args.dx)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r)\n"
       "    dx[r] = sum_lanes(dx[r], min(row_threads, 32));\n"
       "  if (row_threads > 32) {\n"
       "    __shared__ float warp_dx[WARPS][ROWS];\n"
       "    const int warp = threadIdx.x / 32;\n"
       "#pragma unroll\n"
       "    for (int r = 0; r < ROWS; ++r)\n"
       "      if (threadIdx.x % 32 == 0)\n"
       "        warp_dx[warp][r] = dx[r];\n"
       "    // All threads arrive and wait: hands over the sums of the warps.\n"
       "    __syncthreads();\n"
       "#pragma unroll\n"
       "    for (int r = 0; r < ROWS; ++r)\n"
       "      for (int i = 1; i < row_threads / 32; ++i)\n"
       "        dx[r] += thread == 0 ? warp_dx[warp + i][r] : 0.0f;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int row = first + r * groups;\n"
       "    if (thread == 0 && row < args.rows)\n"
       "      store_element((unsigned char *)args.dx + batch * args.dx_stride * SIZE, SIZE, row,\n"
       "                    narrow_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(dx[r]));\n"
       "  }\n"
       "}\n");
}
