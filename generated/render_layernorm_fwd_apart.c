/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_apart.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_apart(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_apart(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  int32_t shared = (row_threads > 32) ? 1 : 0;
  int32_t of_each_lane = 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS - 7 columns,\n"
         "// rstd = 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight over the rows of a matrix of at most COLUMNS - 7 columns, rstd =\n"
         "// 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. Rows of x, and of y, begin at any element, some at\n"
       "// the same element of a vector, some not; y is not x. The parameters are there, at multiples of 16\n"
       "// bytes.\n"
       "// ROW_THREADS threads read a row in whole vectors, and add it up. y is written in whole vectors,\n"
       "// too, whose elements lie across two of x's and two of each parameter's: these are read from L1,\n"
       "// and shifted by whole words and by half a word.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_apart.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass fwd --norm ");
  STRING(in->word[AP_LAYERNORM_NORM]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" \\\n"
       "//     --dtype ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(" --params ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(" --rows apart --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = 2; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int GROUPS = THREADS / ROW_THREADS; // rows of a block\n"
       "constexpr int ELEMENTS = 8;                   // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int ROW_VECTORS = COLUMNS / ELEMENTS; // that a row has a part of, at the most\n"
       "constexpr int VECTORS = (ROW_VECTORS + ROW_THREADS - 1) / ROW_THREADS; // of a thread in a row\n"
       "static_assert(ROW_THREADS == 32 || GROUPS == 1, \"a warp has a row, or a block\");\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("constexpr float FAR = 16.0f; // of the square of a mean, in variances\n");
  }
  TEXT("// Vectors from a multiple of 16 bytes on that a row of x lies in, two or more, of which its first\n"
       "// element is number `odd` of the first. That and the last are in shared memory, as they may hold\n"
       "// others' elements, in whose place there are zeros.\n"
       "struct Frame {\n"
       "  const uint4 *vectors, *ends;\n"
       "  int odd, count;\n"
       "};\n"
       "\n"
       "// Eight lanes bring each end to shared memory, lane number `lane` of them one element. ends: (2)\n"
       "__device__ __forceinline__ Frame frame_of(const unsigned char *row, int columns, bool has, int lane,\n"
       "                                          uint4 *ends) {\n"
       "  const int odd = (int)((uint64_t)row % 16) / SIZE;\n"
       "  const Frame frame = {(const uint4 *)(row - odd * SIZE), ends, odd,\n"
       "                       (odd + columns + ELEMENTS - 1) / ELEMENTS};\n"
       "  const int vector = lane < ELEMENTS ? 0 : frame.count - 1;\n"
       "  const int column = vector * ELEMENTS + lane % ELEMENTS - odd;\n"
       "  const bool there = has && column >= 0 && column < columns;\n"
       "  if (lane < 2 * ELEMENTS)\n"
       "    store_element(ends, SIZE, lane, load_2_if(there, row + (int64_t)column * SIZE, 0));\n"
       "  return frame;\n"
       "}\n"
       "\n"
       "// And each lane one of what of a parameter is no whole vector.\n"
       "__device__ __forceinline__ void bring_tail(const void *parameter, int columns, int lane,\n"
       "                                           uint4 *tail) {\n"
       "  const int column = columns / ELEMENTS * ELEMENTS + lane;\n"
       "  if (lane < ELEMENTS)\n"
       "    store_element(tail, SIZE, lane,\n"
       "                  load_2_if(column < columns, (const uint16_t *)parameter + column, 0));\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ uint4 load_vector_of(Frame frame, int number) {\n"
       "  const uint4 *from = frame.vectors + number;\n"
       "  if (number == 0)\n"
       "    from = frame.ends;\n"
       "  else if (number == frame.count - 1)\n"
       "    from = frame.ends + 1;\n"
       "  return *from;\n"
       "}\n"
       "\n"
       "// Of two words, one after the other, the one that begins `bits` later than the first.\n"
       "__device__ __forceinline__ uint32_t word_across(uint32_t first, uint32_t second, int bits) {\n"
       "  return (uint32_t)(((uint64_t)second << 32 | first) >> bits);\n"
       "}\n"
       "// Eight elements of two vectors, from number `shift` of the first on.\n"
       "__device__ __forceinline__ uint4 elements_across(uint4 before, uint4 behind, int shift) {\n"
       "  uint32_t word[8] = {before.x, before.y, before.z, before.w,\n"
       "                      behind.x, behind.y, behind.z, behind.w};\n"
       "  if (shift & 4) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < 6; ++i)\n"
       "      word[i] = word[i + 2 < 8 ? i + 2 : 7];\n"
       "  }\n"
       "  if (shift & 2) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < 5; ++i)\n"
       "      word[i] = word[i + 1];\n"
       "  }\n"
       "  const int bits = (shift & 1) * 16;\n"
       "  const uint4 across = {word_across(word[0], word[1], bits), word_across(word[1], word[2], bits),\n"
       "                        word_across(word[2], word[3], bits), word_across(word[3], word[4], bits)};\n"
       "  return across;\n"
       "}\n"
       "\n"
       "// Eight elements of a row from `column` on; those beyond either end are not to be used.\n"
       "__device__ __forceinline__ uint4 load_across(Frame frame, int column) {\n"
       "  const int element = column + frame.odd, number = element >> 3;\n"
       "  const uint4 nothing = {0, 0, 0, 0};\n"
       "  const uint4 before = number >= 0 ? load_vector_of(frame, number) : nothing;\n"
       "  const uint4 behind = number + 1 < frame.count ? load_vector_of(frame, number + 1) : nothing;\n"
       "  return elements_across(before, behind, element & 7);\n"
       "}\n"
       "\n"
       "// And of a parameter. tail: what of it is no whole vector\n"
       "__device__ __forceinline__ uint4 load_parameter_across(const void *parameter, const uint4 *tail,\n"
       "                                                       int columns, int column) {\n"
       "  const int number = column >> 3, whole = columns / ELEMENTS;\n"
       "  const uint4 *const from = (const uint4 *)parameter + number;\n"
       "  const uint4 nothing = {0, 0, 0, 0};\n"
       "  const uint4 before = number >= 0 ? *(number < whole ? from : tail) : nothing;\n"
       "  const uint4 behind = *(number + 1 < whole ? from + 1 : tail);\n"
       "  return elements_across(before, behind, column & 7);\n"
       "}\n"
       "\n");
  if (shared) {
    TEXT("// Of a block, whose warps have `sums` each. told: (WARPS)\n"
         "__device__ __forceinline__ float2 sum_warps(float2 sums, float2 *told) {\n"
         "  if (threadIdx.x % 32 == 0)\n"
         "    told[threadIdx.x / 32] = sums;\n"
         "  // All threads arrive and wait: the warps have told what they have of the row.\n"
         "  __syncthreads();\n"
         "  float2 all = {0.0f, 0.0f};\n");
    if (of_each_lane) {
      TEXT("#pragma unroll\n"
           "  for (int i = 0; i < WARPS; ++i) {\n"
           "    all.x += told[i].x;\n"
           "    all.y += told[i].y;\n"
           "  }\n"
           "  return all;\n");
    } else {
      TEXT("  if (threadIdx.x % 32 < WARPS)\n"
           "    all = told[threadIdx.x % 32];\n"
           "  return sum_lanes_of_two(all, 32);\n");
    }
    TEXT("}\n");
  }
  TEXT("// Sums over a row of differences to `about`, and of their squares. told: (WARPS), x: (VECTORS)\n"
       "__device__ __forceinline__ float2 add_up(Frame frame, int columns, int thread, bool has,\n"
       "                                         float about, const uint4 *x, float2 *told) {\n"
       "  float2 sums = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int at = thread + i * ROW_THREADS;\n"
       "    if (!has || at >= frame.count)\n"
       "      continue;\n"
       "    float value[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x[i], value);\n"
       "    if (at == 0 || at == frame.count - 1) {\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j) {\n"
       "        const int column = at * ELEMENTS + j - frame.odd;\n"
       "        const float difference = column >= 0 && column < columns ? value[j] - about : 0.0f;\n"
       "        sums.x += difference;\n"
       "        sums.y += difference * difference;\n"
       "      }\n"
       "      continue;\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      const float difference = value[j] - about;\n"
       "      sums.x += difference;\n"
       "      sums.y += difference * difference;\n"
       "    }\n"
       "  }\n"
       "  sums = sum_lanes_of_two(sums, 32);\n");
  if (shared) {
    TEXT("  sums = sum_warps(sums, told);\n");
  }
  TEXT("  return sums;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  __shared__ uint4 warp_ends[WARPS][4]; // two of x, and of weight and bias what is no whole vector\n");
  if (shared) {
    TEXT("  __shared__ float2 told[");
    INTEGER((norm == AP_LAYERNORM_NORM_LAYER) ? 2 : 1);
    TEXT("][WARPS]; // of each pass\n");
  } else {
    TEXT("  float2 *const told[2] = {NULL, NULL};\n");
  }
  TEXT("  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = args.columns;\n"
       "  const int group = threadIdx.x / ROW_THREADS, thread = threadIdx.x % ROW_THREADS;\n"
       "  const int64_t row = (int64_t)blockIdx.x * GROUPS + group;\n"
       "  const bool has = row < args.rows;\n"
       "  uint4 *const ends = warp_ends[warp];\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  const Frame frame = frame_of((const unsigned char *)args.x + row * args.x_row_stride * SIZE,\n"
       "                               columns, has, lane, ends);\n"
       "  bring_tail(args.weight, columns, lane, ends + 2);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  bring_tail(args.bias, columns, lane, ends + 3);\n");
  }
  TEXT("  // All lanes arrive and wait: the ends are there.\n"
       "  __syncwarp();\n"
       "  uint4 x[VECTORS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    if (has && thread + i * ROW_THREADS < frame.count)\n"
       "      x[i] = load_vector_of(frame, thread + i * ROW_THREADS);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  float2 sums = add_up(frame, columns, thread, has, 0.0f, x, told[0]);\n"
         "  float mean = sums.x * args.per_column, squares = sums.y - sums.x * mean;\n"
         "  // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "  if (!(sums.x * mean <= FAR * squares)) {\n"
         "    sums = add_up(frame, columns, thread, has, mean, x, told[1]);\n"
         "    const float off = sums.x * args.per_column, left = sums.y - sums.x * off;\n"
         "    mean += off;\n"
         "    squares = left < 0.0f ? 0.0f : left; // NaN stays\n"
         "  }\n");
  } else {
    TEXT("  const float squares = add_up(frame, columns, thread, has, 0.0f, x, told[0]).y;\n"
         "  constexpr float mean = 0.0f;\n");
  }
  TEXT("  const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n"
       "  if (!has)\n"
       "    return;\n"
       "  if (thread == 0) {\n"
       "    if (CENTERED && args.mean)\n"
       "      args.mean[row] = mean;\n"
       "    if (args.rstd)\n"
       "      args.rstd[row] = rstd;\n"
       "  }\n"
       "  unsigned char *const y = (unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
       "  const int odd = (int)((uint64_t)y % 16) / SIZE;\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  const float offset = -mean * rstd;\n");
  }
  TEXT("#pragma unroll 1\n"
       "  for (int column = thread * ELEMENTS - odd; column < columns; column += ROW_THREADS * ELEMENTS) {\n"
       "    float value[ELEMENTS], factor[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(load_across(frame, column), value);\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(load_parameter_across(args.weight, ends + 2, columns, column),\n"
       "                             factor);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    float added[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(load_parameter_across(args.bias, ends + 3, columns, column), added);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("      value[j] = (value[j] * rstd + offset) * factor[j] + added[j];\n");
  } else {
    TEXT("      value[j] = value[j] * rstd * factor[j];\n");
  }
  TEXT("    const uint4 vector = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value);\n"
       "    if (column >= 0 && column + ELEMENTS <= columns) {\n"
       "      *(uint4 *)(y + (int64_t)column * SIZE) = vector;\n"
       "      continue;\n"
       "    }\n"
       "    const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      if (column + j >= 0 && column + j < columns)\n"
       "        store_element(y, SIZE, column + j, word[j / 2] >> j % 2 * 16 & 0xffff);\n"
       "  }\n"
       "}\n");
}
