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
  const int32_t pass = in->axis[AP_OUTER_PASS];
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
    TEXT(", fp32 inside; f is at the end, and is asked\n"
         "// about entries that are there alone: f(0, 0) may be anything. Here n is the depth.\n");
  } else if (pass == AP_OUTER_PASS_SUM) {
    TEXT("// c[i, j] = sum over n of x[n, i] y[n, j], ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside. Here n is the depth, a is x, b is y.\n");
  } else if (pass == AP_OUTER_PASS_SUM_DX) {
    TEXT("// dx[n, i] = sum over j of y[n, j] dc[i, j], ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside. Here j is the depth, a is y,\n"
         "// b is dc, and c is dx, whose rows are n and whose columns are i.\n");
  } else {
    TEXT("// dy[n, j] = sum over i of x[n, i] dc[i, j], ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside. Here i is the depth, a is x,\n"
         "// b is dc, and c is dy, whose rows are n and whose columns are j.\n");
  }
  TEXT("//\n"
       "// A thread block has TILE_ROWS x TILE_COLUMNS of c, or the part of them of a split of the depth,\n"
       "// which another kernel adds up. STEP of the depth wait in shared memory at a time, and STAGES - 1\n"
       "// such steps are on their way.\n"
       "//\n"
       "// Pressed from templates/outer/outer_sum.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family outer --pass ");
  STRING(in->word[AP_OUTER_PASS]);
  if (mod) {
    TEXT(" --mod");
  }
  TEXT(" --dtype ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/outer.h\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async_4.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n");
  if ((dtype != AP_OUTER_DTYPE_FP32) && !mod) {
    TEXT("#include \"attnpress/device/ptx_ldmatrix.cuh\"\n"
         "#include \"attnpress/device/ptx_mma.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_vector.cuh\"\n");
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
  TEXT(";                       // of a thread, and columns\n"
       "constexpr int SIDE = THREADS >= 256 ? 16 : 8; // threads beside each other\n"
       "constexpr int TILE_ROWS = THREADS / SIDE * ROWS;\n"
       "constexpr int TILE_COLUMNS = SIDE * ROWS;\n"
       "constexpr int STAGES = THREADS > 128 ? 2 : 3;\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n");
  if ((dtype != AP_OUTER_DTYPE_FP32) && !mod) {
    TEXT("constexpr int STEP = 32;\n");
  } else {
    TEXT("constexpr int STEP = 16;\n");
  }
  TEXT("// Elements between neighbours in shared memory, by depth and by row or column of c.\n");
  int32_t turned = (dtype == AP_OUTER_DTYPE_FP32) ? 1 : 0;
  if ((pass == AP_OUTER_PASS_SUM) || (turned == 1)) {
    TEXT("constexpr int A_DEPTH = TILE_ROWS + ELEMENTS, A_ROW = 1, A_SIZE = STEP * A_DEPTH;\n");
  } else {
    TEXT("constexpr int A_DEPTH = 1, A_ROW = STEP + ELEMENTS, A_SIZE = TILE_ROWS * A_ROW;\n");
  }
  if ((pass != AP_OUTER_PASS_SUM_DX) || (turned == 1)) {
    TEXT("constexpr int B_DEPTH = TILE_COLUMNS + ELEMENTS, B_COLUMN = 1, B_SIZE = STEP * B_DEPTH;\n");
  } else {
    TEXT("constexpr int B_DEPTH = 1, B_COLUMN = STEP + ELEMENTS, B_SIZE = TILE_COLUMNS * B_COLUMN;\n");
  }
  TEXT("\n");
  if (mod) {
    TEXT("// The caller's function of an element of x and one of y.\n"
         "__device__ __forceinline__ float snippet_value(const uint32_t *scalars, float x, float y);\n"
         "\n");
  }
  TEXT("// Elements from row `row` and column `column` on of a matrix of rows x columns, `count` rows of\n"
       "// `width` elements, on their way to shared memory, where they are `row_apart` and `apart` from each\n"
       "// other; 0 beyond the matrix. Odd rows of 16-bit elements are there when this returns.\n"
       "__device__ __forceinline__ void copy_tile(const void *matrix, int64_t stride, int64_t row,\n"
       "                                          int64_t rows, int64_t column, int64_t columns, int count,\n"
       "                                          int width, int row_apart, int apart,\n"
       "                                          unsigned char *shared) {\n"
       "  const int bytes_left = (int)min(columns - column, (int64_t)width) * SIZE;\n"
       "  const int rows_left = (int)min(rows - row, (int64_t)count);\n"
       "  const unsigned char *const there = (const unsigned char *)matrix;\n"
       "  const unsigned char *const from = there + (row * stride + column) * SIZE;\n"
       "  const uint64_t together = (uint64_t)matrix | (uint64_t)stride * SIZE;\n"
       "  if (apart == 1 && together % 16 == 0) {\n"
       "    const int vectors = width / ELEMENTS, each = THREADS / vectors;\n"
       "    const int first = threadIdx.x / vectors, at = threadIdx.x % vectors * 16;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < count; i += each) {\n"
       "      const int bytes = first + i < rows_left ? min(max(bytes_left - at, 0), 16) : 0;\n"
       "      if (each <= count || first < count)\n"
       "        cp_async_16(shared_address(shared + (first + i) * row_apart * SIZE + at),\n"
       "                    bytes > 0 ? from + (first + i) * stride * SIZE + at : there, bytes);\n"
       "    }\n"
       "    return;\n"
       "  }\n"
       "  if (SIZE == 4 || together % 4 == 0) {\n"
       "    const int words = width * SIZE / 4, each = THREADS / words;\n"
       "    const int first = threadIdx.x / words, at = threadIdx.x % words * 4;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < count; i += each) {\n"
       "      const int bytes = first + i < rows_left ? min(max(bytes_left - at, 0), 4) : 0;\n"
       "      if (each <= count || first < count)\n"
       "        cp_async_4(shared_address(shared + (first + i) * row_apart * SIZE + at * apart),\n"
       "                   bytes > 0 ? from + (first + i) * stride * SIZE + at : there, bytes);\n"
       "    }\n"
       "    return;\n"
       "  }\n"
       "  // Copies have no less than 4 bytes.\n"
       "  const int each = THREADS / width, first = threadIdx.x / width, at = threadIdx.x % width;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; i += 8 * each) {\n"
       "    uint32_t element[8];\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < 8; ++j) {\n"
       "      const int below = first + i + j * each;\n"
       "      element[j] = load_2_if(below < rows_left && at * 2 < bytes_left,\n"
       "                             from + (below * stride + at) * 2, 0);\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < 8; ++j)\n"
       "      if (i + j * each < count)\n"
       "        store_element(shared, 2, (first + i + j * each) * row_apart + at * apart, element[j]);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Step number `step` of the tiles of a and b.\n"
       "__device__ __forceinline__ void copy_step(const attnpress_outer_sum_args *args, int64_t row,\n"
       "                                          int column, int64_t depth, int64_t end,\n"
       "                                          unsigned char *a, unsigned char *b) {\n");
  if (pass == AP_OUTER_PASS_SUM) {
    TEXT("  copy_tile(args->a, args->a_stride, depth, end, row, args->rows, STEP, TILE_ROWS, A_DEPTH, A_ROW,\n"
         "            a);\n");
  } else {
    TEXT("  copy_tile(args->a, args->a_stride, row, args->rows, depth, end, TILE_ROWS, STEP, A_ROW, A_DEPTH,\n"
         "            a);\n");
  }
  if (pass == AP_OUTER_PASS_SUM_DX) {
    TEXT("  copy_tile(args->b, args->b_stride, column, args->columns, depth, end, TILE_COLUMNS, STEP,\n"
         "            B_COLUMN, B_DEPTH, b);\n");
  } else {
    TEXT("  copy_tile(args->b, args->b_stride, depth, end, column, args->columns, STEP, TILE_COLUMNS,\n"
         "            B_DEPTH, B_COLUMN, b);\n");
  }
  TEXT("}\n"
       "\n");
  if ((dtype != AP_OUTER_DTYPE_FP32) && !mod) {
    TEXT("constexpr int WARP_ROWS = 64, WARP_COLUMNS = 32; // of c, of a warp\n"
         "constexpr int BESIDE = TILE_COLUMNS / WARP_COLUMNS; // warps\n"
         "\n"
         "// Adds a step's products: 16 of the depth at a time on tensor cores. a, b: where the warp's tiles begin\n"
         "// in shared memory.\n"
         "__device__ __forceinline__ void add_step(uint32_t a, uint32_t b, float sum[4][4][4]) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "#pragma unroll\n"
         "  for (int k = 0; k < STEP; k += 16) {\n"
         "    uint32_t a_fragment[4][4], b_fragment[2][4];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 4; ++i) {\n");
    if (pass == AP_OUTER_PASS_SUM) {
      TEXT("      const int depth = k + lane % 8 + lane / 16 * 8, row = i * 16 + lane / 8 % 2 * 8;\n"
           "      ldmatrix_x4_trans(a_fragment[i], a + (depth * A_DEPTH + row) * 2);\n");
    } else {
      TEXT("      const int depth = k + lane / 16 * 8, row = i * 16 + lane % 16;\n"
           "      ldmatrix_x4(a_fragment[i], a + (depth + row * A_ROW) * 2);\n");
    }
    TEXT("    }\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < 2; ++j) {\n");
    if (pass == AP_OUTER_PASS_SUM_DX) {
      TEXT("      const int depth = k + lane / 8 % 2 * 8, column = j * 16 + lane % 8 + lane / 16 * 8;\n"
           "      ldmatrix_x4(b_fragment[j], b + (depth + column * B_COLUMN) * 2);\n");
    } else {
      TEXT("      const int depth = k + lane % 16, column = j * 16 + lane / 16 * 8;\n"
           "      ldmatrix_x4_trans(b_fragment[j], b + (depth * B_DEPTH + column) * 2);\n");
    }
    TEXT("    }\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 4; ++i) {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < 4; ++j)\n"
         "        mma_m16n8k16_");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT("(sum[i][j], a_fragment[i], &b_fragment[j / 2][j % 2 * 2]);\n"
         "    }\n"
         "  }\n"
         "}\n");
  } else {
    TEXT("// Four neighbouring elements in shared memory.\n"
         "__device__ __forceinline__ void load_four(const unsigned char *shared, float *value) {\n");
    if (dtype == AP_OUTER_DTYPE_FP32) {
      TEXT("  const float4 four = *(const float4 *)shared;\n"
           "  value[0] = four.x;\n"
           "  value[1] = four.y;\n"
           "  value[2] = four.z;\n"
           "  value[3] = four.w;\n");
    } else {
      TEXT("  const uint2 four = *(const uint2 *)shared;\n"
           "  value[0] = widen_element_");
      STRING(in->word[AP_OUTER_DTYPE]);
      TEXT("(four.x & 0xffff);\n"
           "  value[1] = widen_element_");
      STRING(in->word[AP_OUTER_DTYPE]);
      TEXT("(four.x >> 16);\n"
           "  value[2] = widen_element_");
      STRING(in->word[AP_OUTER_DTYPE]);
      TEXT("(four.y & 0xffff);\n"
           "  value[3] = widen_element_");
      STRING(in->word[AP_OUTER_DTYPE]);
      TEXT("(four.y >> 16);\n");
    }
    TEXT("}\n"
         "\n"
         "// Adds the terms of `entries` of the depth: a thread has groups of four rows and of four columns.\n"
         "__device__ __forceinline__ void add_step(const attnpress_outer_sum_args *args,\n"
         "                                         const unsigned char *a, const unsigned char *b,\n"
         "                                         int entries, float sum[ROWS][ROWS]) {\n");
    if (mod) {
      TEXT("  for (int n = 0; n < entries; ++n) {\n");
    } else {
      TEXT("#pragma unroll 4\n"
           "  for (int n = 0; n < STEP; ++n) { // zeros where there are fewer entries\n");
    }
    TEXT("    float a_value[ROWS], b_value[ROWS];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ROWS; i += 4) {\n"
         "      load_four(a + (n * A_DEPTH + i * (THREADS / SIDE)) * SIZE, &a_value[i]);\n"
         "      load_four(b + (n * B_DEPTH + i * SIDE) * SIZE, &b_value[i]);\n"
         "    }\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ROWS; ++i) {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ROWS; ++j)\n");
    if (mod) {
      TEXT("        sum[i][j] += snippet_value(args->scalar, a_value[i], b_value[j]);\n");
    } else {
      TEXT("        sum[i][j] += a_value[i] * b_value[j];\n");
    }
    TEXT("    }\n"
         "  }\n"
         "}\n");
  }
  TEXT("// Stores an element of c, or its part.\n"
       "__device__ __forceinline__ void store_sum(const attnpress_outer_sum_args *args, int split,\n"
       "                                          int64_t row, int column, float value) {\n"
       "  if (row >= args->rows || column >= args->columns)\n"
       "    return;\n"
       "  if (args->parts)\n"
       "    args->parts[(row * args->splits + split) * args->columns + column] = value;\n"
       "  else\n"
       "    store_element((unsigned char *)args->c + row * args->c_stride * SIZE, SIZE, column,\n"
       "                  narrow_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(value));\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, THREADS > 128 ? 1 : 384 / THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_sum_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  __shared__ __align__(16) unsigned char a[STAGES][A_SIZE * SIZE], b[STAGES][B_SIZE * SIZE];\n"
       "  const int column = blockIdx.x % args.column_blocks * TILE_COLUMNS;\n"
       "  const int64_t row = (int64_t)(blockIdx.x / args.column_blocks % args.row_blocks) * TILE_ROWS;\n"
       "  const int split = blockIdx.x / args.column_blocks / args.row_blocks;\n"
       "  const int64_t begin = split * args.split_depth, end = min(args.depth, begin + args.split_depth);\n"
       "  const int steps = (int)((end - begin + STEP - 1) / STEP);\n");
  if ((dtype != AP_OUTER_DTYPE_FP32) && !mod) {
    TEXT("  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
         "  const int below = warp / BESIDE * WARP_ROWS, beside = warp % BESIDE * WARP_COLUMNS;\n"
         "  float sum[4][4][4];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 4 * 4 * 4; ++i)\n"
         "    sum[i / 16][i / 4 % 4][i % 4] = 0.0f;\n");
  } else {
    TEXT("  const int below = threadIdx.x / SIDE * 4, beside = threadIdx.x % SIDE * 4;\n"
         "  float sum[ROWS][ROWS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < ROWS * ROWS; ++i)\n"
         "    sum[i / ROWS][i % ROWS] = 0.0f;\n");
  }
  TEXT("  for (int step = 1 - STAGES; step < steps; ++step) {\n"
       "    cp_async_wait(STAGES - 2);\n"
       "    // All threads arrive and wait: hands over this step, and the one before has been read.\n"
       "    __syncthreads();\n"
       "    const int next = step + STAGES - 1;\n"
       "    if (next < steps)\n"
       "      copy_step(&args, row, column, begin + (int64_t)next * STEP, end, a[next % STAGES],\n"
       "                b[next % STAGES]);\n"
       "    cp_async_commit();\n"
       "    if (step < 0)\n"
       "      continue;\n"
       "    const int stage = step % STAGES;\n");
  if ((dtype != AP_OUTER_DTYPE_FP32) && !mod) {
    TEXT("    add_step(shared_address(a[stage]) + below * A_ROW * 2,\n"
         "             shared_address(b[stage]) + beside * B_COLUMN * 2, sum);\n");
  } else {
    TEXT("    add_step(&args, a[stage] + below * SIZE, b[stage] + beside * SIZE,\n"
         "             (int)min(end - begin - (int64_t)step * STEP, (int64_t)STEP), sum);\n");
  }
  TEXT("  }\n"
       "\n");
  if ((dtype != AP_OUTER_DTYPE_FP32) && !mod) {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < 4; ++i) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < 4; ++j) {\n"
         "#pragma unroll\n"
         "      for (int k = 0; k < 4; ++k)\n"
         "        store_sum(&args, split, row + below + i * 16 + lane / 4 + k / 2 * 8,\n"
         "                  column + beside + j * 8 + lane % 4 * 2 + k % 2, sum[i][j][k]);\n"
         "    }\n"
         "  }\n");
  } else {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < ROWS; ++i) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ROWS; ++j)\n"
         "      store_sum(&args, split, row + below + i / 4 * 4 * (THREADS / SIDE) + i % 4,\n"
         "                column + beside + j / 4 * 4 * SIDE + j % 4, sum[i][j]);\n"
         "  }\n");
  }
  TEXT("}\n");
}
