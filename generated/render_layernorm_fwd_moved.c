/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_moved.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_moved(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_moved(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  int32_t layer = (norm == AP_LAYERNORM_NORM_LAYER) ? 1 : 0;
  int32_t several = (row_threads < 32) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (layer) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS - 14 columns,\n"
         "// rstd = 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight over the rows of a matrix of at most COLUMNS - 14 columns, rstd =\n"
         "// 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. Rows of x, and of y, which is another matrix, begin at any\n"
       "// element of a vector, and rows do not lie over each other. The parameters are there, at multiples of\n"
       "// 16 bytes.\n"
       "// ROW_THREADS lanes read a row in whole vectors, which hold elements of others, too, but where these\n"
       "// would lie beyond the matrix. Where y begins at another element of a vector the row's elements move\n"
       "// to the places of y: each lane gets words of the next one, of which there is a branch for each\n"
       "// number of words. From there on all is as if x and y began alike. Blocks have rows in the order in\n"
       "// which they begin: memory sees neighbouring addresses. A row's parameters lie across the vectors\n"
       "// that they are read in, which L1 has from the rows before: there is a branch for each word of a\n"
       "// vector in which a row of y may begin.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_moved.cu.j2 with tile ");
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
  TEXT(" --rows moved --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING(layer ? "true" : "false");
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
       "constexpr int LANES = ROW_THREADS;            // of a row\n"
       "constexpr int GROUPS = THREADS / ROW_THREADS; // rows of a block\n"
       "constexpr int ELEMENTS = 8;                   // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int ROW_VECTORS = COLUMNS / ELEMENTS; // that a row has a part of\n"
       "constexpr int VECTORS = (ROW_VECTORS + LANES - 1) / LANES; // of a lane in a row\n"
       "// Of these, those that every lane has: the class below has four fifths of the columns, or the first\n"
       "// classes a little less, and a row fourteen columns less than its class.\n"
       "constexpr int SURE = (ROW_VECTORS * 4 / 5 - 2) / LANES;\n"
       "static_assert(SURE > 0 && LANES <= 32, \"a row ends in a vector that a lane may not have\");\n");
  if (several) {
    TEXT("static_assert(WARPS % ELEMENTS == 0, \"rows of a warp begin at the same element of a vector\");\n");
  }
  if (layer) {
    TEXT("constexpr float FAR = 16.0f; // of the square of a mean, in variances\n");
  }
  TEXT("// A row begins `odd` elements after the first of its vectors in y does, and has `end` elements of the\n"
       "// last, all if it is 0.\n"
       "struct Cut {\n"
       "  int odd, vectors, end;\n"
       "};\n"
       "\n"
       "// Of a vector the bits of its first `count` elements.\n"
       "__device__ __forceinline__ uint4 mask_elements(int count) {\n"
       "  uint32_t word[4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i)\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    word[i] = count > i ? 0xffffffff : 0;\n");
  } else {
    TEXT("    word[i] = count > 2 * i + 1 ? 0xffffffff : count > 2 * i ? 0xffff : 0;\n");
  }
  TEXT("  const uint4 mask = {word[0], word[1], word[2], word[3]};\n"
       "  return mask;\n"
       "}\n"
       "\n"
       "// A vector of the bits of `first` where `mask` has any, else of `other`.\n"
       "__device__ __forceinline__ uint4 choose_bits(uint4 mask, uint4 first, uint4 other) {\n"
       "  const uint4 chosen = {\n"
       "      (first.x & mask.x) | (other.x & ~mask.x), (first.y & mask.y) | (other.y & ~mask.y),\n"
       "      (first.z & mask.z) | (other.z & ~mask.z), (first.w & mask.w) | (other.w & ~mask.w)};\n"
       "  return chosen;\n"
       "}\n"
       "\n"
       "// Puts `filler` in place of elements of a lane's vectors that are others'. x: (VECTORS)\n"
       "__device__ __forceinline__ void fill_ends(Cut cut, int thread, uint32_t filler, uint4 *x) {\n"
       "  const uint4 fill = {filler, filler, filler, filler};\n"
       "  if (thread == 0 && cut.odd != 0)\n"
       "    x[0] = choose_bits(mask_elements(cut.odd), fill, x[0]);\n"
       "#pragma unroll\n"
       "  for (int i = SURE; i < VECTORS; ++i) {\n"
       "    const int at = thread + i * LANES;\n"
       "    if (cut.end != 0 && at == cut.vectors - 1)\n"
       "      x[i] = choose_bits(mask_elements(cut.end), x[i], fill);\n"
       "    if (at >= cut.vectors)\n"
       "      x[i] = fill;\n"
       "  }\n"
       "}\n"
       "\n");
  if (layer) {
    TEXT("// Sums over a row of differences to `about`, and of their squares. x: (VECTORS)\n"
         "__device__ __forceinline__ float2 add_up(const uint4 *x, float about) {\n"
         "  float2 sums = {0.0f, 0.0f};\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      const float difference = value[j] - about;\n"
         "      sums.x += difference;\n"
         "      sums.y += difference * difference;\n"
         "    }\n"
         "  }\n"
         "  return sum_lanes_of_two(sums, LANES);\n"
         "}\n");
  } else {
    TEXT("// The sum of a row's squares. x: (VECTORS)\n"
         "__device__ __forceinline__ float add_up(const uint4 *x) {\n"
         "  float squares = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      squares += value[j] * value[j];\n"
         "  }\n"
         "  return sum_lanes(squares, LANES);\n"
         "}\n");
  }
  TEXT("// Of two words, one after the other, the one that begins `bits` later than the first.\n"
       "__device__ __forceinline__ uint32_t word_across(uint32_t first, uint32_t second, int bits) {\n"
       "  return (uint32_t)(((uint64_t)second << 32 | first) >> bits);\n"
       "}\n"
       "// The vector that begins `bits` later than the first of five words.\n"
       "__device__ __forceinline__ uint4 words_across(const uint32_t *from, int bits) {\n"
       "  const uint4 across = {word_across(from[0], from[1], bits), word_across(from[1], from[2], bits),\n"
       "                        word_across(from[2], from[3], bits), word_across(from[3], from[4], bits)};\n"
       "  return across;\n"
       "}\n"
       "// Moves a row from its own vectors to y's, which begin FIRST words later and `bits` bits. All lanes\n"
       "// of a warp call it. x: (VECTORS)\n"
       "template <int FIRST>\n"
       "__device__ __forceinline__ void move_row(uint4 *x, int bits, int thread) {\n"
       "  const int lane = threadIdx.x % 32, next = lane / LANES * LANES + (thread + 1) % LANES;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    // The last lane's next vector is the first lane's next one.\n"
       "    const uint4 behind = i + 1 < VECTORS ? x[i + 1] : x[i];\n"
       "    const uint4 told = {thread == 0 ? behind.x : x[i].x, thread == 0 ? behind.y : x[i].y,\n"
       "                        thread == 0 ? behind.z : x[i].z, thread == 0 ? behind.w : x[i].w};\n"
       "    uint32_t word[9] = {x[i].x, x[i].y, x[i].z, x[i].w, 0, 0, 0, 0, 0};\n"
       "    // All lanes arrive and wait, each time.\n"
       "    word[4] = __shfl_sync(0xffffffff, told.x, next);\n"
       "    if (FIRST >= 1)\n"
       "      word[5] = __shfl_sync(0xffffffff, told.y, next);\n"
       "    if (FIRST >= 2)\n"
       "      word[6] = __shfl_sync(0xffffffff, told.z, next);\n"
       "    if (FIRST >= 3)\n"
       "      word[7] = __shfl_sync(0xffffffff, told.w, next);\n"
       "    x[i] = words_across(word + FIRST, bits);\n"
       "  }\n"
       "}\n"
       "\n"
       "// A vector of x of which the row has some elements, one by one, and 0 for others. column: of the\n"
       "// first\n"
       "__device__ __forceinline__ uint4 load_elements(const unsigned char *from, int column, int columns) {\n"
       "  uint32_t word[4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i) {\n"
       "    const int even = column + 2 * i, odd = even + 1;\n"
       "    word[i] = load_2_if(even >= 0 && even < columns, from + i * 4, 0) |\n"
       "              load_2_if(odd >= 0 && odd < columns, from + i * 4 + 2, 0) << 16;\n"
       "  }\n"
       "  const uint4 vector = {word[0], word[1], word[2], word[3]};\n"
       "  return vector;\n"
       "}\n"
       "\n"
       "// The elements of a parameter that lie where vector number `index` of a row has its own: in that of\n"
       "// the parameter, and before it. The row begins at word `first` of a vector, and at the second\n"
       "// element of that if `bits` is 16, else 32. tail: the parameter's elements from `whole` vectors on,\n"
       "// value: (ELEMENTS)\n"
       "__device__ __forceinline__ void take_parameter(const void *parameter, int index, bool inside,\n"
       "                                               int whole, const uint4 *tail, int first,\n"
       "                                               int bits, float *value) {\n"
       "  const uint4 *const from = (const uint4 *)parameter + index;\n"
       "  uint4 before, vector;\n"
       "  if (inside || (index > 0 && index <= whole))\n"
       "    before = from[-1];\n"
       "  else\n"
       "    before = *tail;\n"
       "  if (inside || index < whole)\n"
       "    vector = *from;\n"
       "  else\n"
       "    vector = *tail;\n"
       "  const uint32_t word[8] = {before.x, before.y, before.z, before.w,\n"
       "                            vector.x, vector.y, vector.z, vector.w};\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(words_across(word + 3 - first, bits), value);\n"
       "}\n"
       "\n"
       "// Writes y of a row that begins at word `first` of a vector, from `to` on, the lane's vectors of it;\n"
       "// those that hold elements of others, too, to `ends`. `nothing` is 0, which the compiler does not\n"
       "// know: what was made of a row for its sums is not kept. tails: (2), of weight and bias, ends: (2),\n"
       "// x: (VECTORS)\n"
       "__device__ __forceinline__ void write_row(const attnpress_layernorm_fwd_args *args, int first,\n"
       "                                          Cut cut, int thread, float mean, float rstd,\n"
       "                                          uint32_t nothing, const uint4 *tails, const uint4 *x,\n"
       "                                          uint4 *ends, unsigned char *to) {\n"
       "  const int whole = args->columns / ELEMENTS;\n"
       "  const int bits = cut.odd % 2 != 0 ? 16 : 32;\n");
  if (layer) {
    TEXT("  const float offset = -mean * rstd;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int at = thread + i * LANES;\n"
       "    if (i >= SURE && at >= cut.vectors)\n"
       "      return;\n"
       "    const uint4 same = {x[i].x ^ nothing, x[i].y ^ nothing, x[i].z ^ nothing, x[i].w ^ nothing};\n"
       "    const bool inside = i > 0 && i < SURE;\n"
       "    float value[ELEMENTS], factor[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(same, value);\n"
       "    take_parameter(args->weight, at, inside, whole, tails, first, bits, factor);\n");
  if (layer) {
    TEXT("    float added[ELEMENTS];\n"
         "    take_parameter(args->bias, at, inside, whole, tails + 1, first, bits, added);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n");
  if (layer) {
    TEXT("      value[j] = (value[j] * rstd + offset) * factor[j] + added[j];\n");
  } else {
    TEXT("      value[j] = value[j] * rstd * factor[j];\n");
  }
  TEXT("    const uint4 y = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value);\n"
       "    if (i == 0 && thread == 0 && cut.odd != 0)\n"
       "      ends[0] = y;\n"
       "    else if (i >= SURE && cut.end != 0 && at == cut.vectors - 1)\n"
       "      ends[1] = y;\n"
       "    else\n"
       "      *(uint4 *)(to + at * 16) = y;\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  __shared__ uint4 row_ends[GROUPS][2];\n"
       "  __shared__ uint4 warp_tails[WARPS][2];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = args.columns;\n"
       "  const int group = lane / LANES * WARPS + warp, thread = lane % LANES;\n"
       "  const int64_t row = (int64_t)blockIdx.x * GROUPS + group;\n"
       "  const bool has = row < args.rows;\n"
       "  uint4 *const ends = row_ends[group];\n"
       "  const int64_t x_begin = row * args.x_row_stride * SIZE, y_begin = row * args.y_row_stride * SIZE;\n"
       "  const int odd = (int)(((uint64_t)args.y + (uint64_t)y_begin) % 16) / SIZE;\n"
       "  const int own = (int)(((uint64_t)args.x + (uint64_t)x_begin) % 16) / SIZE;\n"
       "  const Cut cut = {odd, (odd + columns + ELEMENTS - 1) / ELEMENTS, (odd + columns) % ELEMENTS};\n"
       "  // Where x begins in its own vectors, of which the first may be one that it has nothing of: not\n"
       "  // before y does.\n"
       "  const int x_odd = own < odd ? own + ELEMENTS : own, x_end = x_odd + columns, shift = x_odd - odd;\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // Vectors that are read as a whole: those at the matrix's ends may reach beyond it.\n"
       "  const bool is_first = row == 0, is_last = row == args.rows - 1;\n"
       "  const int least = is_first ? (x_odd + ELEMENTS - 1) / ELEMENTS : x_odd / ELEMENTS;\n"
       "  const int most = !has ? 0 : is_last ? x_end / ELEMENTS : (x_end + ELEMENTS - 1) / ELEMENTS;\n"
       "  const unsigned char *const from = (const unsigned char *)args.x + x_begin - x_odd * SIZE;\n"
       "  uint4 x[VECTORS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int at = thread + i * LANES;\n"
       "    const uint4 zero = {0, 0, 0, 0};\n"
       "    x[i] = zero;\n"
       "    if (i > 0 && i < SURE ? has : at >= least && at < most)\n"
       "      x[i] = *(const uint4 *)(from + at * 16);\n"
       "  }\n"
       "  if (has && (is_first || is_last)) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      const int at = thread + i * LANES;\n"
       "      if ((i == 0 || i >= SURE) && (at < least || at >= most) && at * ELEMENTS < x_end)\n"
       "        x[i] = load_elements(from + at * 16, at * ELEMENTS - x_odd, columns);\n"
       "    }\n"
       "  }\n"
       "  // What of y will be written in part.\n"
       "  if (has && args.y_row_stride != columns)\n"
       "    prefetch_ends_by_two((const unsigned char *)args.y + y_begin, SIZE, columns, thread);\n"
       "  // What of the parameters is no whole vector, for each warp.\n"
       "  uint4 *const tails = warp_tails[warp];\n"
       "  if (lane < ELEMENTS) {\n"
       "    const int at = columns / ELEMENTS * ELEMENTS + lane;\n"
       "    store_element(tails, SIZE, lane, load_2_if(at < columns, (const uint16_t *)args.weight + at, 0));\n");
  if (layer) {
    TEXT("    store_element(tails + 1, SIZE, lane, load_2_if(at < columns, (const uint16_t *)args.bias + at, 0));\n");
  }
  TEXT("  }\n"
       "  // All rows of a warp move by as many elements.\n"
       "  const int bits = shift % 2 * 16;\n"
       "  switch (shift == 0 ? -1 : shift / 2) {\n");
  for (int32_t words = 0; words < 4; ++words) {
    TEXT("  case ");
    INTEGER(words);
    TEXT(":\n"
         "    move_row<");
    INTEGER(words);
    TEXT(">(x, bits, thread);\n"
         "    break;\n");
  }
  TEXT("  }\n"
       "  fill_ends(cut, thread, 0, x);\n"
       "  // All lanes arrive and wait: the ends of the parameters are there.\n"
       "  __syncwarp();\n");
  if (layer) {
    TEXT("  float2 sums = add_up(x, 0.0f);\n"
         "  float mean = sums.x * args.per_column, squares = sums.y - sums.x * mean;\n"
         "  // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "  if (__any_sync(0xffffffff, !(sums.x * mean <= FAR * squares))) {\n"
         "    const uint32_t half = narrow_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(mean) & 0xffff;\n"
         "    const float about = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(half);\n"
         "    fill_ends(cut, thread, half | half << 16, x);\n"
         "    sums = add_up(x, about);\n"
         "    const float off = sums.x * args.per_column, left = sums.y - sums.x * off;\n"
         "    mean = about + off;\n"
         "    squares = left < 0.0f ? 0.0f : left; // NaN stays\n"
         "  }\n");
  } else {
    TEXT("  const float squares = add_up(x);\n"
         "  constexpr float mean = 0.0f;\n");
  }
  TEXT("  const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n"
       "  if (has && thread == 0) {\n"
       "    if (CENTERED && args.mean)\n"
       "      args.mean[row] = mean;\n"
       "    if (args.rstd)\n"
       "      args.rstd[row] = rstd;\n"
       "  }\n"
       "  unsigned char *const to = (unsigned char *)args.y + y_begin - odd * SIZE;\n"
       "  const uint32_t nothing = (uint32_t)(columns >> 31);\n"
       "  const int renewed = thread ^ (int)nothing; // nor are addresses made before they are needed\n"
       "  switch (has ? odd / 2 : -1) {\n");
  for (int32_t place = 0; place < 4; ++place) {
    TEXT("  case ");
    INTEGER(place);
    TEXT(":\n"
         "    write_row(&args, ");
    INTEGER(place);
    TEXT(", cut, renewed, mean, rstd, nothing, tails, x, ends, to);\n"
         "    break;\n");
  }
  TEXT("  }\n"
       "  // All lanes arrive and wait: what is at the row's ends is there.\n"
       "  __syncwarp();\n"
       "#pragma unroll\n"
       "  for (int place = thread; place < 2 * ELEMENTS; place += LANES) {\n"
       "    const bool begins = odd != 0 && place < ELEMENTS && place >= odd;\n"
       "    const bool ended = place >= ELEMENTS && place - ELEMENTS < cut.end;\n"
       "    const int edge = place < ELEMENTS ? place : (cut.vectors - 1) * ELEMENTS + place - ELEMENTS;\n"
       "    if (has && (begins || ended))\n"
       "      store_element(to, SIZE, edge, load_element(ends, SIZE, place));\n"
       "  }\n"
       "}\n");
}
