/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_gathered.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_gathered(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_gathered(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t piece = in->field[AP_LAYERNORM_TILE_PIECE];
  int32_t layer = (norm == AP_LAYERNORM_NORM_LAYER) ? 1 : 0;
  int32_t below = (cols <= 32) ? 7 : ((cols <= 64) ? 32 : ((cols <= 96) ? 64 : ((cols <= 128) ? 96 : ((cols <= 160) ? 128 : ((cols <= 192) ? 160 : ((cols <= 224) ? 192 : ((cols <= 256) ? 224 : ((cols <= 320) ? 256 : 320))))))));
  int32_t least = (cols <= 32) ? 8 : (below + 1);
  int32_t fewest = (below / (2 * row_threads)) + 1;
  int32_t most = ((cols + (2 * row_threads)) - 1) / (2 * row_threads);
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (layer) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of ");
    INTEGER(below + 1);
    TEXT(" to COLUMNS columns, rstd =\n"
         "// 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight + bias over the rows of a matrix of ");
    INTEGER(below + 1);
    TEXT(" to COLUMNS columns, rstd =\n"
         "// 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. Rows of x begin anywhere, at any distance; those of y,\n"
       "// which is another matrix, lie one after the other, from a multiple of 16 bytes on. Eight rows of y\n"
       "// are whole vectors, and so are the PIECE rows of a warp. Those of x come to shared memory with what\n"
       "// lies between them, where that is little, as one copy, else each by a copy of its own, both in whole\n"
       "// vectors: of these, elements that are no row's are left out. LANES lanes have a row, whose words of\n"
       "// y they keep in registers: where y's begin in the middle of one of x, two of these are shifted.\n"
       "// Rows of an odd number of columns begin in the middle of a word every second time: a warp takes\n"
       "// rows of one kind and then those of the other, so that all of its lanes do the same. y is put\n"
       "// together without gaps, and leaves as one copy: memory gets whole lines. Blocks have rows in the order\n"
       "// in which they begin, and none has a second piece.\n"
       "//\n"
       "// Generated with tile ");
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
  TEXT(" --rows gathered --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = 2; // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT(";\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int LANES = ROW_THREADS; // of a row\n"
       "constexpr int PIECE = ");
  INTEGER(piece);
  TEXT("; // rows of a warp\n"
       "constexpr int TEAM = 32; // threads that share a piece\n"
       "constexpr int WARPS = THREADS / TEAM;\n"
       "constexpr int AT_ONCE = 32 / LANES; // rows of a warp\n"
       "constexpr int TURNS = PIECE / (2 * AT_ONCE);\n"
       "constexpr int ELEMENTS = 8; // of a vector\n"
       "constexpr int WORDS = ");
  INTEGER(most);
  TEXT("; // of a lane, at the most\n"
       "constexpr int LEAST = ");
  INTEGER(least);
  TEXT("; // columns of a row, at the least\n"
       "constexpr int SPAN_GAP = 32; // elements between rows, less than which come with these\n"
       "constexpr int X_EDGES = 48;  // bytes: a vector of zeros before, and what lies behind the last row\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == WARPS * (2 * PIECE * LEAST * SIZE + X_EDGES),\n"
       "              \"the generator has another formula\");\n"
       "static_assert(PIECE % 8 == 0 && PIECE <= 32 && TURNS * 2 * AT_ONCE == PIECE,\n"
       "              \"pieces are whole vectors, of all lanes\");\n");
  if (layer) {
    TEXT("constexpr float FAR = 4.0f; // of the square of a mean, in variances\n");
  }
  TEXT("// Weight and bias of columns, from one before the first on.\n"
       "constexpr int PARAMETERS = 2 * (WORDS * LANES + 1);\n"
       "\n"
       "// Where the rows of a warp lie in shared memory.\n"
       "struct Piece {\n"
       "  const uint32_t *x; // of a vector of zeros, then the first row's vectors\n"
       "  uint32_t *y;\n"
       "  uint32_t begin; // the element of memory that the first row begins at, of a vector's at least\n"
       "  bool span;      // rows lie as in memory\n"
       "  int pitch;      // bytes from one to the next, of those that came one by one\n"
       "  int64_t first_row;\n"
       "  int rows;\n"
       "};\n"
       "\n"
       "// A row's elements that a lane has in its word number i of y, of `count`: masks.\n"
       "struct Masks {\n"
       "  uint32_t first, last;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ uint32_t mask_of(Masks masks, int i, int count) {\n"
       "  return (i == 0 ? masks.first : 0xffffffff) & (i == count - 1 ? masks.last : 0xffffffff);\n"
       "}\n"
       "\n"
       "// Bytes of rows that come one by one: their vectors, between two of zeros; no multiple of a bank's\n"
       "// period.\n"
       "__device__ __forceinline__ int pitch_of(int columns) {\n"
       "  const int least = (columns * SIZE + 29) / 16 * 16 + 32;\n"
       "  return least + (least % 32 == 0 ? 16 : 0);\n"
       "}\n"
       "\n"
       "// The element of the place for x at which a row begins, of which vectors of zeros are none.\n"
       "__device__ __forceinline__ int begin_of_row(const Args *args, Piece piece, int number) {\n"
       "  if (piece.span)\n"
       "    return (int)(piece.begin % ELEMENTS) + number * (int)args->x_row_stride;\n"
       "  const uint32_t begin = piece.begin + (uint32_t)number * (uint32_t)args->x_row_stride;\n"
       "  return number * (piece.pitch / SIZE) + (int)(begin % ELEMENTS);\n"
       "}\n"
       "\n"
       "// Writes a word of y, or that element of it which is the row's.\n"
       "__device__ __forceinline__ void store_word(uint32_t *to, uint32_t mask, uint32_t word) {\n"
       "  if (mask == 0xffffffff)\n"
       "    *to = word;\n"
       "  else if (mask == 0xffff)\n"
       "    *(uint16_t *)to = (uint16_t)word;\n"
       "  else if (mask != 0)\n"
       "    *((uint16_t *)to + 1) = (uint16_t)(word >> 16);\n"
       "}\n"
       "\n"
       "// Makes y of the rows of one parity. count: words of a lane, at the most, a constant\n"
       "__device__ __forceinline__ void normalize_rows(const Args *args, Piece piece, int parity,\n"
       "                                               const float2 *parameters, int count) {\n"
       "  const int lane = threadIdx.x % 32, thread = lane % LANES, columns = args->columns;\n"
       "  // Columns before the row's first one, in the first word of y.\n"
       "  const int before = columns * parity % 2, words = (before + columns + 1) / 2;\n"
       "  const int last = (count - 1) * LANES + thread;\n"
       "  const Masks masks = {before != 0 && thread == 0 ? 0xffff0000 : 0xffffffff,\n"
       "                       last >= words                                       ? 0\n"
       "                       : last == words - 1 && (before + columns) % 2 != 0 ? 0xffff\n"
       "                                                                           : 0xffffffff};\n"
       "  const float2 *const own = parameters + 2 * thread + 1 - before;\n"
       "#pragma unroll 1\n"
       "  for (int turn = 0; turn < TURNS; ++turn) {\n"
       "    const int number = 2 * (turn * AT_ONCE + lane / LANES) + parity;\n"
       "    // Lanes without a row do what others do, with the last one.\n"
       "    const int begin = begin_of_row(args, piece, min(number, piece.rows - 1)) - before + ELEMENTS;\n"
       "    const uint32_t *const from = piece.x + (begin >> 1);\n"
       "    uint32_t word[WORDS];\n"
       "    if (begin % 2 != 0) {\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < count; ++i) {\n"
       "        const uint32_t *const at = from + (i < count - 1 ? thread + i * LANES : min(last, words - 1));\n"
       "        word[i] = (uint32_t)(((uint64_t)at[1] << 32 | at[0]) >> 16);\n"
       "      }\n"
       "    } else {\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < count; ++i)\n"
       "        word[i] = from[i < count - 1 ? thread + i * LANES : min(last, words - 1)];\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < count; ++i)\n"
       "      word[i] &= mask_of(masks, i, count);\n");
  if (layer) {
    TEXT("    float2 sums = {0.0f, 0.0f};\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < count; ++i) {\n"
         "      float value[2];\n"
         "      widen_words_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(word + i, 2, value);\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < 2; ++j) {\n"
         "        sums.x += value[j];\n"
         "        sums.y += value[j] * value[j];\n"
         "      }\n"
         "    }\n"
         "    sums = sum_lanes_of_two(sums, LANES);\n"
         "    float mean = sums.x * args->per_column, squares = sums.y - sums.x * mean;\n"
         "    // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "    if (__any_sync(0xffffffff, !(sums.x * mean <= FAR * squares))) {\n"
         "      sums.x = sums.y = 0.0f;\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < count; ++i) {\n"
         "        const uint32_t mask = mask_of(masks, i, count);\n"
         "        float value[2];\n"
         "        widen_words_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(word + i, 2, value);\n"
         "        value[0] -= (mask & 0xffff) != 0 ? mean : 0.0f;\n"
         "        value[1] -= mask >> 16 != 0 ? mean : 0.0f;\n"
         "#pragma unroll\n"
         "        for (int j = 0; j < 2; ++j) {\n"
         "          sums.x += value[j];\n"
         "          sums.y += value[j] * value[j];\n"
         "        }\n"
         "      }\n"
         "      sums = sum_lanes_of_two(sums, LANES);\n"
         "      const float off = sums.x * args->per_column, left = sums.y - sums.x * off;\n"
         "      mean += off;\n"
         "      squares = left < 0.0f ? 0.0f : left; // NaN stays\n"
         "    }\n");
  } else {
    TEXT("    float squares = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < count; ++i) {\n"
         "      float value[2];\n"
         "      widen_words_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(word + i, 2, value);\n"
         "      squares += value[0] * value[0];\n"
         "      squares += value[1] * value[1];\n"
         "    }\n"
         "    squares = sum_lanes(squares, LANES);\n");
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(squares * args->per_column + args->eps);\n");
  if (layer) {
    TEXT("    const float offset = -mean * rstd;\n");
  }
  TEXT("    uint32_t *const to = piece.y + (number * columns - before) / 2 + thread;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < count; ++i) {\n"
       "      const float2 even = own[2 * i * LANES], odd = own[2 * i * LANES + 1];\n"
       "      float value[2];\n"
       "      widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(word + i, 2, value);\n");
  if (layer) {
    TEXT("      value[0] = (value[0] * rstd + offset) * even.x + even.y;\n"
         "      value[1] = (value[1] * rstd + offset) * odd.x + odd.y;\n");
  } else {
    TEXT("      value[0] = value[0] * rstd * even.x + even.y;\n"
         "      value[1] = value[1] * rstd * odd.x + odd.y;\n");
  }
  TEXT("      narrow_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value, 2, word + i);\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < count; ++i)\n"
       "      store_word(to + i * LANES, mask_of(masks, i, count), word[i]);\n"
       "    if (thread != 0 || number >= piece.rows)\n"
       "      continue;\n");
  if (layer) {
    TEXT("    if (args->mean)\n"
         "      args->mean[piece.first_row + number] = mean;\n");
  }
  TEXT("    if (args->rstd)\n"
       "      args->rstd[piece.first_row + number] = rstd;\n"
       "  }\n"
       "}\n"
       "\n"
       "// A parameter of a column, 0 if the row has it not; `absent` where there are none.\n"
       "__device__ __forceinline__ float load_parameter(const void *parameter, int column, int columns,\n"
       "                                                float absent) {\n"
       "  if (column < 0 || column >= columns)\n"
       "    return 0.0f;\n"
       "  return parameter ? widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(load_element(parameter, PARAMETER_SIZE, column)) : absent;\n"
       "}\n"
       "\n"
       "// Asks for a warp's rows: one copy, and zeros behind.\n"
       "__device__ __forceinline__ void bring_span(const unsigned char *x, uint64_t end, bool is_first,\n"
       "                                           bool is_last, unsigned char *place, uint32_t barrier) {\n"
       "  // The matrix's ends are brought by elements, if they are no whole vectors.\n"
       "  const uint64_t base = (uint64_t)x / 16 * 16;\n"
       "  const uint64_t from = is_first ? ((uint64_t)x + 15) / 16 * 16 : base;\n"
       "  const uint64_t until = (end + (is_last ? 0 : 15)) / 16 * 16;\n"
       "  const int bytes = until > from ? (int)(until - from) : 0;\n"
       "  mbarrier_arrive_expect(barrier, bytes);\n"
       "  if (bytes > 0)\n"
       "    bulk_load(shared_address(place) + 16 + (int)(from - base), (const void *)from, bytes, barrier);\n"
       "  const uint4 nothing = {0, 0, 0, 0};\n"
       "  *(uint4 *)(place + 16 + (int)(until - base)) = nothing;\n"
       "}\n"
       "\n"
       "// The same, a row for each lane. Called by all of a warp\n"
       "__device__ __forceinline__ void bring_row(const unsigned char *x, bool has, int columns,\n"
       "                                          bool is_first, bool is_last, unsigned char *place,\n"
       "                                          int pitch, uint32_t barrier) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const uint64_t end = (uint64_t)x + columns * SIZE, base = (uint64_t)x / 16 * 16;\n"
       "  const uint64_t from = is_first ? ((uint64_t)x + 15) / 16 * 16 : base;\n"
       "  const uint64_t until = (end + (is_last ? 0 : 15)) / 16 * 16;\n"
       "  const int bytes = has && until > from ? (int)(until - from) : 0;\n"
       "  const int all = (int)__reduce_add_sync(0xffffffff, (unsigned)bytes);\n"
       "  if (lane == 0)\n"
       "    mbarrier_arrive_expect(barrier, all);\n"
       "  // All lanes arrive and wait: the barrier knows what it waits for.\n"
       "  __syncwarp();\n"
       "  if (!has)\n"
       "    return;\n"
       "  unsigned char *const own = place + lane * pitch;\n"
       "  if (bytes > 0)\n"
       "    bulk_load(shared_address(own) + 16 + (int)(from - base), (const void *)from, bytes, barrier);\n"
       "  const uint4 nothing = {0, 0, 0, 0};\n"
       "  *(uint4 *)own = nothing;\n"
       "  *(uint4 *)(own + 16 + (int)(until - base)) = nothing;\n"
       "}\n"
       "\n"
       "// Loads a vector at an end of the matrix by elements: number `vector` from that on which a span of\n"
       "// `length` elements begins in.\n"
       "__device__ __forceinline__ void load_vector(const unsigned char *x, int columns, int stride,\n"
       "                                            int length, int vector, unsigned char *place,\n"
       "                                            int lane) {\n"
       "  const int at = vector * ELEMENTS + lane - (int)((uint64_t)x % 16) / SIZE;\n"
       "  if (lane < ELEMENTS)\n"
       "    store_element(place + 16, SIZE, vector * ELEMENTS + lane,\n"
       "                  load_2_if(at >= 0 && at < length && at % stride < columns, x + at * SIZE, 0));\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ __align__(8) unsigned char barriers[WARPS * 8];\n"
       "  __shared__ __align__(16) float2 parameters[PARAMETERS];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = args.columns;\n"
       "  const uint32_t barrier = shared_address(barriers) + warp * 8;\n"
       "  const int64_t first_row = ((int64_t)blockIdx.x * WARPS + warp) * PIECE;\n"
       "  const int rows = (int)max(min(args.rows - first_row, (int64_t)PIECE), (int64_t)0);\n"
       "  const int64_t step = args.x_row_stride * SIZE, gap = args.x_row_stride - columns;\n"
       "  const bool span = gap >= 0 && gap < SPAN_GAP;\n"
       "  // A warp's shared memory, of which the host has the formula, too: rows of x, and those of y.\n"
       "  const int pitch = pitch_of(columns), x_bytes = PIECE * (span ? (int)step : pitch) + X_EDGES;\n"
       "  unsigned char *const place = smem + warp * (x_bytes + PIECE * columns * SIZE);\n"
       "  const unsigned char *const x = (const unsigned char *)args.x + first_row * step;\n"
       "  unsigned char *const to = (unsigned char *)args.y + first_row * columns * SIZE;\n"
       "  const int elements = rows * columns, whole = elements / ELEMENTS; // vectors of y\n"
       "  const int head = (int)((uint64_t)x % 16) / SIZE;\n"
       "  const bool is_first = first_row == 0, is_last = rows > 0 && first_row + rows == args.rows;\n"
       "  if (lane == 0) {\n"
       "    mbarrier_init(barrier, 1);\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // What the first row's first word reaches to.\n"
       "  if (lane < 4)\n"
       "    ((uint32_t *)place)[lane] = 0;\n"
       "  if (span) {\n"
       "    if (lane == 0 && rows > 0)\n"
       "      bring_span(x, (uint64_t)x + (rows - 1) * step + columns * SIZE, is_first, is_last, place,\n"
       "                 barrier);\n"
       "  } else {\n"
       "    bring_row(x + lane * step, lane < rows, columns, is_first && lane == 0,\n"
       "              is_last && lane == rows - 1, place, pitch, barrier);\n"
       "  }\n"
       "#pragma unroll 1\n"
       "  for (int i = threadIdx.x; i < PARAMETERS; i += THREADS) {\n"
       "    const float2 both = {load_parameter(args.weight, i - 1, columns, 1.0f),\n"
       "                         load_parameter(args.bias, i - 1, columns, 0.0f)};\n"
       "    parameters[i] = both;\n"
       "  }\n"
       "  // All threads arrive and wait: the parameters are there, and the barriers.\n"
       "  __syncthreads();\n"
       "  if (rows == 0)\n"
       "    return;\n"
       "  wait_for_phase(barrier, 0);\n"
       "  if (is_first || is_last) {\n"
       "    // A span is as one row here.\n"
       "    const int64_t begin = span ? 0 : (rows - 1) * step; // of the last one\n"
       "    const int stride = span ? (int)args.x_row_stride : COLUMNS;\n"
       "    const int length = span ? (rows - 1) * stride + columns : columns;\n"
       "    const int end = ((int)((uint64_t)(x + begin) % 16) / SIZE + length) / ELEMENTS;\n"
       "    const bool same = is_first && head != 0 && begin == 0 && end == 0; // vector\n"
       "    if (is_first && head != 0)\n"
       "      load_vector(x, columns, stride, length, 0, place, lane);\n"
       "    if (is_last && !same)\n"
       "      load_vector(x + begin, columns, stride, length, end, place + (span ? 0 : (rows - 1) * pitch), lane);\n"
       "    // All lanes arrive and wait: that is there.\n"
       "    __syncwarp();\n"
       "  }\n"
       "  const Piece piece = {(const uint32_t *)place,\n"
       "                       (uint32_t *)(place + x_bytes),\n"
       "                       (uint32_t)((uint64_t)x / SIZE),\n"
       "                       span,\n"
       "                       pitch,\n"
       "                       first_row,\n"
       "                       rows};\n"
       "#pragma unroll 1\n"
       "  for (int parity = 0; parity < 2; ++parity)\n"
       "    switch (((columns + 1) / 2 + LANES - 1) / LANES) {\n");
  for (int32_t count = fewest; count < (most + 1); ++count) {
    TEXT("    case ");
    INTEGER(count);
    TEXT(":\n"
         "      normalize_rows(&args, piece, parity, parameters, ");
    INTEGER(count);
    TEXT(");\n"
         "      break;\n");
  }
  TEXT("    }\n"
       "  // The copy engine, which lane 0 asks, sees what all have written.\n"
       "  fence_proxy_async();\n"
       "  __syncwarp();\n"
       "  if (lane == 0 && whole > 0)\n"
       "    bulk_store(to, shared_address(piece.y), whole * 16);\n"
       "  if (rows < PIECE && whole * ELEMENTS + lane < elements)\n"
       "    store_element(to, SIZE, whole * ELEMENTS + lane,\n"
       "                  load_element(piece.y, SIZE, whole * ELEMENTS + lane));\n"
       "  // Shared memory is there until y has been taken.\n"
       "  if (lane == 0) {\n"
       "    bulk_commit();\n"
       "    bulk_wait_read(0);\n"
       "  }\n"
       "}\n");
}
