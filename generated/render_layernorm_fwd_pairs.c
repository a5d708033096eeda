/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_pairs.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_pairs(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_pairs(ap_text *out, const ap_render_input *in) {
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
  int32_t turns = (row_threads == 8) ? 1 : 0;
  int32_t by_lanes = (row_threads == 8) ? 0 : 1;
  int32_t half = 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. Rows of x and of y lie one after the other, from a\n"
       "// multiple of 16 bytes on; y may be x. Eight rows are whole vectors, and so are the PIECE rows of a\n"
       "// warp, which the copy engine brings to shared memory. There they are words: two rows of an odd\n"
       "// number of columns lie side by side, and share the word in the middle of theirs. Each pair has\n"
       "// LANES lanes, which take its words in turn: those of other pairs read the same parameters at the\n"
       "// same time, and words in other banks. Blocks have rows in the order in which they begin: memory\n"
       "// sees neighbouring addresses. None has a second piece: while some wait for theirs, others of an SM\n"
       "// add up, or write. With a residual x is x + residual, rounded, which is written, too; y and the\n"
       "// sum may be x or the residual, whose rows lie likewise.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_pairs.cu.j2 with tile ");
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
  TEXT(" --rows pairs --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n");
  if (!by_lanes) {
    TEXT("#include \"attnpress/device/ptx_bulk.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_bulk_copy.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n");
  if (!by_lanes) {
    TEXT("#include \"attnpress/device/ptx_tma.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
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
       "constexpr int LANES = ROW_THREADS; // of a pair of rows\n"
       "constexpr int PIECE = ");
  INTEGER(piece);
  TEXT(";  // rows of a warp\n"
       "constexpr int TEAM = 32;   // threads that share a piece\n"
       "constexpr int WARPS = THREADS / TEAM;\n"
       "constexpr int PAIRS = PIECE / 2;\n"
       "constexpr int ELEMENTS = 8; // of a vector\n"
       "constexpr int WORDS = 4;    // of each row that are loaded before one is stored\n");
  if (turns) {
    TEXT("constexpr int NEAR = 3; // banks\n");
  }
  TEXT("constexpr int PLACE_BYTES = PIECE * COLUMNS * SIZE;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == WARPS * PLACE_BYTES, \"the generator has another formula\");\n"
       "static_assert(PAIRS * LANES == 32 && PIECE % 8 == 0, \"pieces are whole vectors, of all lanes\");\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("constexpr float FAR = 4.0f; // of the square of a mean, in variances\n");
  }
  TEXT("// What a lane has of a pair of rows.\n"
       "struct Pair {\n"
       "  uint32_t *first, *second; // its first words of each row, others are LANES further each\n"
       "  int words; // of these, of which the row has both elements\n");
  if (turns) {
    TEXT("  int begin; // number of the one that is taken first\n");
  }
  TEXT("  uint32_t *middle; // the last element of the first row, and the first of the second, if `odd`\n"
       "};\n"
       "\n"
       "// Of each row: the sum of its values or of differences to something, and of their squares.\n"
       "struct Sums {\n"
       "  float2 first, second;\n"
       "};\n"
       "\n"
       "// Weight and bias of two columns.\n"
       "struct Parameters {\n"
       "  float2 even, odd;\n"
       "};\n"
       "\n"
       "// Of lane number `lane` of a piece. Of an even number of columns, each row is whole words: rows far\n"
       "// from each other are a pair, so that those of neighbouring lanes are neighbours.\n"
       "__device__ __forceinline__ Pair pair_of(unsigned char *place, int columns, int lane, bool odd) {\n"
       "  const int number = lane / LANES, each = columns / 2;\n"
       "  uint32_t *const words = (uint32_t *)place;\n"
       "  uint32_t *const first = words + number * (odd ? columns : each);\n"
       "  uint32_t *const second = odd ? first + each + 1 : first + PAIRS * each;\n");
  if (turns) {
    TEXT("  // Where pairs lie near the same bank, each begins some words later than the one before.\n"
         "  const int apart = (odd ? columns : each) % 32;\n"
         "  const bool near = apart <= NEAR || apart >= 32 - NEAR;\n");
  }
  TEXT("  const int own = (each - lane % LANES + LANES - 1) / LANES;\n");
  if (turns) {
    TEXT("  const Pair pair = {first + lane % LANES, second + lane % LANES, own, near ? min(number, own) : 0,\n"
         "                     first + each};\n");
  } else {
    TEXT("  const Pair pair = {first + lane % LANES, second + lane % LANES, own, first + each};\n");
  }
  TEXT("  return pair;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ void add_up_value(float value, float about, float2 *sums) {\n"
       "  const float difference = value - about;\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  sums->x += difference;\n");
  }
  TEXT("  sums->y += difference * difference;\n"
       "}\n"
       "\n"
       "// Adds `count` words of each row, from number `at` on.\n"
       "__device__ __forceinline__ void add_up_words(Pair pair, int at, int count, float2 about,\n"
       "                                             Sums *sums) {\n"
       "  uint32_t first[WORDS], second[WORDS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    first[i] = pair.first[(at + i) * LANES];\n"
       "    second[i] = pair.second[(at + i) * LANES];\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    float value[4];\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(first + i, 2, value);\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(second + i, 2, value + 2);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < 2; ++j) {\n"
       "      add_up_value(value[j], about.x, &sums->first);\n"
       "      add_up_value(value[2 + j], about.y, &sums->second);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// Adds up both rows, differences to `about`. middle: its values, if `odd`. All lanes of the pair\n"
         "// get the sums.\n");
  } else {
    TEXT("// Adds up both rows. middle: its values, if `odd`. All lanes of the pair get the sums.\n");
  }
  TEXT("__device__ __forceinline__ Sums add_up(Pair pair, const float *middle, bool odd, bool leads,\n"
       "                                       float2 about) {\n"
       "  Sums sums = {{0.0f, 0.0f}, {0.0f, 0.0f}};\n"
       "  if (odd && leads) {\n"
       "    add_up_value(middle[0], about.x, &sums.first);\n"
       "    add_up_value(middle[1], about.y, &sums.second);\n"
       "  }\n"
       "  int at = ");
  STRING(turns ? "pair.begin" : "0");
  TEXT(";\n"
       "#pragma unroll 1\n"
       "  for (; at + WORDS <= pair.words; at += WORDS)\n"
       "    add_up_words(pair, at, WORDS, about, &sums);\n"
       "#pragma unroll 1\n"
       "  for (; at < pair.words; ++at)\n"
       "    add_up_words(pair, at, 1, about, &sums);\n");
  if (turns) {
    TEXT("#pragma unroll 1\n"
         "  for (at = 0; at < pair.begin; ++at)\n"
         "    add_up_words(pair, at, 1, about, &sums);\n");
  }
  if (row_threads > 1) {
    TEXT("  sums.first = sum_lanes_of_two(sums.first, LANES);\n"
         "  sums.second = sum_lanes_of_two(sums.second, LANES);\n");
  }
  TEXT("  return sums;\n"
       "}\n"
       "\n"
       "// y of a value, whose x^ is value * moments.y + moments.x.\n"
       "__device__ __forceinline__ float normalize(float value, float2 moments, float2 parameters) {\n"
       "  return (value * moments.y + moments.x) * parameters.x + parameters.y;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ uint32_t narrow(float first, float second) {\n"
       "  const float value[2] = {first, second};\n"
       "  uint32_t word;\n"
       "  narrow_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value, 2, &word);\n"
       "  return word;\n"
       "}\n"
       "\n"
       "// Writes y of `count` words of each row, from number `at` on, over them. parameters: those of the\n"
       "// lane's first word and of what follows\n"
       "__device__ __forceinline__ void write_words(Pair pair, int at, int count, bool odd,\n"
       "                                            const Parameters *parameters, float2 first_moments,\n"
       "                                            float2 second_moments) {\n"
       "  uint32_t first[WORDS], second[WORDS];\n"
       "  Parameters own[WORDS];\n"
       "  float2 next[WORDS]; // those of the column behind\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    first[i] = pair.first[(at + i) * LANES];\n"
       "    second[i] = pair.second[(at + i) * LANES];\n"
       "    own[i] = parameters[(at + i) * LANES];\n"
       "    if (odd && (LANES > 1 || i == count - 1))\n"
       "      next[i] = parameters[(at + i) * LANES + 1].even;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    float value[4];\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(first + i, 2, value);\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(second + i, 2, value + 2);\n"
       "    const float2 behind = LANES > 1 || i == count - 1 ? next[i] : own[i + 1].even;\n"
       "    first[i] = narrow(normalize(value[0], first_moments, own[i].even),\n"
       "                      normalize(value[1], first_moments, own[i].odd));\n"
       "    second[i] = narrow(normalize(value[2], second_moments, odd ? own[i].odd : own[i].even),\n"
       "                       normalize(value[3], second_moments, odd ? behind : own[i].odd));\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    pair.first[(at + i) * LANES] = first[i];\n"
       "    pair.second[(at + i) * LANES] = second[i];\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores what each row of a pair has, number `first` and `second` of a piece, if it has them.\n"
       "__device__ __forceinline__ void store_two(float *to, int first, int second, int rows,\n"
       "                                          float2 value) {\n"
       "  if (second == first + 1 && second < rows && (uint64_t)to % 8 == 0) {\n"
       "    *(float2 *)(to + first) = value;\n"
       "    return;\n"
       "  }\n"
       "  if (first < rows)\n"
       "    to[first] = value.x;\n"
       "  if (second < rows)\n"
       "    to[second] = value.y;\n"
       "}\n"
       "\n"
       "// Replaces the rows of a piece, from `first_row` on, in its place by those of y, and stores their\n"
       "// moments. `odd`: of an odd number of columns.\n"
       "__device__ __forceinline__ void normalize_piece(const Args *args, unsigned char *place,\n"
       "                                                int64_t first_row, int rows, bool odd,\n"
       "                                                const Parameters *parameters) {\n"
       "  const int lane = threadIdx.x % 32, columns = args->columns;\n"
       "  const Pair pair = pair_of(place, columns, lane, odd);\n"
       "  const bool leads = lane % LANES == 0;\n"
       "  float middle[2] = {0.0f, 0.0f};\n"
       "  if (odd && leads)\n"
       "    widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(pair.middle, 2, middle);\n"
       "  float2 mean = {0.0f, 0.0f};\n"
       "  Sums sums = add_up(pair, middle, odd, leads, mean);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  mean.x = sums.first.x * args->per_column;\n"
         "  mean.y = sums.second.x * args->per_column;\n"
         "  float2 squares = {sums.first.y - sums.first.x * mean.x, sums.second.y - sums.second.x * mean.y};\n"
         "  // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "  if (__any_sync(0xffffffff, !(sums.first.x * mean.x <= FAR * squares.x) ||\n"
         "                                 !(sums.second.x * mean.y <= FAR * squares.y))) {\n"
         "    sums = add_up(pair, middle, odd, leads, mean);\n"
         "    const float2 off = {sums.first.x * args->per_column, sums.second.x * args->per_column};\n"
         "    const float2 left = {sums.first.y - sums.first.x * off.x,\n"
         "                         sums.second.y - sums.second.x * off.y};\n"
         "    squares.x = left.x < 0.0f ? 0.0f : left.x; // NaN stays\n"
         "    squares.y = left.y < 0.0f ? 0.0f : left.y;\n"
         "    mean.x += off.x;\n"
         "    mean.y += off.y;\n"
         "  }\n");
  } else {
    TEXT("  const float2 squares = {sums.first.y, sums.second.y};\n");
  }
  TEXT("  const float2 rstd = {reciprocal_sqrt_approx(squares.x * args->per_column + args->eps),\n"
       "                       reciprocal_sqrt_approx(squares.y * args->per_column + args->eps)};\n"
       "  const float2 first_moments = {-mean.x * rstd.x, rstd.x};\n"
       "  const float2 second_moments = {-mean.y * rstd.y, rstd.y};\n"
       "  const Parameters *const own = parameters + lane % LANES;\n"
       "  int at = ");
  STRING(turns ? "pair.begin" : "0");
  TEXT(";\n"
       "#pragma unroll 1\n"
       "  for (; at + WORDS <= pair.words; at += WORDS)\n"
       "    write_words(pair, at, WORDS, odd, own, first_moments, second_moments);\n"
       "#pragma unroll 1\n"
       "  for (; at < pair.words; ++at)\n"
       "    write_words(pair, at, 1, odd, own, first_moments, second_moments);\n");
  if (turns) {
    TEXT("#pragma unroll 1\n"
         "  for (at = 0; at < pair.begin; ++at)\n"
         "    write_words(pair, at, 1, odd, own, first_moments, second_moments);\n");
  }
  TEXT("  if (!leads)\n"
       "    return;\n"
       "  if (odd)\n"
       "    *pair.middle = narrow(normalize(middle[0], first_moments, parameters[columns / 2].even),\n"
       "                          normalize(middle[1], second_moments, parameters[0].even));\n"
       "  const int first = odd ? lane / LANES * 2 : lane / LANES;\n"
       "  const int second = odd ? first + 1 : first + PAIRS;\n"
       "  if (CENTERED && args->mean)\n"
       "    store_two(args->mean + first_row, first, second, rows, mean);\n"
       "  if (args->rstd)\n"
       "    store_two(args->rstd + first_row, first, second, rows, rstd);\n"
       "}\n"
       "\n"
       "// A parameter of a column, 0 if it has none; `absent` where there are none.\n"
       "__device__ __forceinline__ float load_parameter(const void *parameter, int column, int columns,\n"
       "                                                float absent) {\n"
       "  if (!parameter || column >= columns)\n"
       "    return absent;\n"
       "  return widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(load_element(parameter, PARAMETER_SIZE, column));\n"
       "}\n"
       "\n"
       "// x + residual, rounded.\n");
  if (half) {
    TEXT("__device__ __forceinline__ Vector add_vectors(Vector x, Vector residual) {\n"
         "  float value[ELEMENTS], other[ELEMENTS];\n"
         "  widen(x, value);\n"
         "  widen(residual, other);\n");
  } else {
    TEXT("__device__ __forceinline__ uint4 add_vectors(uint4 x, uint4 residual) {\n"
         "  float value[ELEMENTS], other[ELEMENTS];\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x, value);\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(residual, other);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    value[j] += other[j];\n"
       "  return narrow");
  STRING(half ? "" : "_vector_");
  STRING(half ? "" : in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value);\n"
       "}\n"
       "\n"
       "// Adds the residual to the elements of a piece, which begins at byte `begin` of the matrix, in its\n"
       "// place, and writes the sum. Called by all threads that share it; vectors: whole ones of these\n"
       "__device__ __forceinline__ void add_to_piece(const Args *args, unsigned char *place, int64_t begin,\n"
       "                                             int thread, int vectors, int elements) {\n"
       "  constexpr int BATCH = 4; // of the residual, that come at once\n"
       "  const unsigned char *const residual = (const unsigned char *)args->residual + begin;\n"
       "  unsigned char *const sum = (unsigned char *)args->sum + begin;\n"
       "#pragma unroll 1\n"
       "  for (int first = thread; first < vectors; first += BATCH * TEAM) {\n"
       "    uint4 other[BATCH];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < BATCH; ++i)\n"
       "      other[i] = load_16_if(first + i * TEAM < vectors, residual + (first + i * TEAM) * 16, 0);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < BATCH; ++i) {\n"
       "      const int at = first + i * TEAM;\n"
       "      if (at >= vectors)\n"
       "        break;\n"
       "      const uint4 both = add_vectors(((const uint4 *)place)[at], other[i]);\n"
       "      ((uint4 *)place)[at] = both;\n"
       "      ((uint4 *)sum)[at] = both;\n"
       "    }\n"
       "  }\n"
       "  const int at = vectors * ELEMENTS + thread; // what is no whole vector, at the matrix's end\n"
       "  if (at < elements) {\n"
       "    const float x = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(load_element(place, SIZE, at));\n"
       "    const float other = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(load_element(residual, SIZE, at));\n"
       "    const uint32_t both = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x + other);\n"
       "    store_element(place, SIZE, at, both);\n"
       "    store_element(sum, SIZE, at, both);\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ __align__(8) unsigned char barriers[WARPS * 8];\n"
       "  __shared__ __align__(16) Parameters parameters[COLUMNS / 2 + 1];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = args.columns;\n"
       "  unsigned char *const place = smem + warp * PLACE_BYTES;\n"
       "  const uint32_t barrier = shared_address(barriers) + warp * 8;\n"
       "  const int64_t first_row = ((int64_t)blockIdx.x * WARPS + warp) * PIECE;\n"
       "  const int rows = (int)max(min(args.rows - first_row, (int64_t)PIECE), (int64_t)0);\n"
       "  const int elements = rows * columns, whole = elements / ELEMENTS; // vectors\n"
       "  const int64_t begin = first_row * columns * SIZE;\n"
       "  const unsigned char *const from = (const unsigned char *)args.x + begin;\n"
       "  unsigned char *const to = (unsigned char *)args.y + begin;\n"
       "  if (lane == 0) {\n"
       "    mbarrier_init(barrier, 1);\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (lane == 0) {\n"
       "    mbarrier_arrive_expect(barrier, whole * 16);\n"
       "    if (whole > 0)\n"
       "      bulk_load(shared_address(place), from, whole * 16, barrier);\n"
       "  }\n"
       "#pragma unroll 1\n"
       "  for (int i = threadIdx.x; i <= columns / 2; i += THREADS) {\n"
       "    const Parameters two = {{load_parameter(args.weight, 2 * i, columns, 1.0f),\n"
       "                             load_parameter(args.bias, 2 * i, columns, 0.0f)},\n"
       "                            {load_parameter(args.weight, 2 * i + 1, columns, 1.0f),\n"
       "                             load_parameter(args.bias, 2 * i + 1, columns, 0.0f)}};\n"
       "    parameters[i] = two;\n"
       "  }\n"
       "  // All threads arrive and wait: the parameters are there, and the barriers.\n"
       "  __syncthreads();\n"
       "  wait_for_phase(barrier, 0);\n"
       "  if (rows < PIECE) {\n"
       "    // What the copy engine leaves at the matrix's end, and zeros behind it.\n"
       "    for (int i = whole * ELEMENTS + lane; i < PIECE * columns; i += 32)\n"
       "      store_element(place, SIZE, i, i < elements ? load_element(from, SIZE, i) : 0);\n"
       "    // All lanes arrive and wait: that is there.\n"
       "    __syncwarp();\n"
       "  }\n"
       "  if (args.residual) {\n"
       "    add_to_piece(&args, place, begin, lane, whole, elements);\n"
       "    // All lanes arrive and wait: the sum is in place of x.\n"
       "    __syncwarp();\n"
       "  }\n"
       "  if (columns % 2 != 0)\n"
       "    normalize_piece(&args, place, first_row, rows, true, parameters);\n"
       "  else\n"
       "    normalize_piece(&args, place, first_row, rows, false, parameters);\n");
  if (by_lanes) {
    TEXT("  // All lanes arrive and wait: y is in place of x.\n"
         "  __syncwarp();\n"
         "#pragma unroll 4\n"
         "  for (int i = lane; i < whole; i += 32)\n"
         "    ((uint4 *)to)[i] = ((const uint4 *)place)[i];\n");
  } else {
    TEXT("  // The copy engine, which lane 0 asks, sees what all have written.\n"
         "  fence_proxy_async();\n"
         "  __syncwarp();\n"
         "  if (lane == 0 && whole > 0)\n"
         "    bulk_store(to, shared_address(place), whole * 16);\n");
  }
  TEXT("  if (rows < PIECE && whole * ELEMENTS + lane < elements)\n"
       "    store_element(to, SIZE, whole * ELEMENTS + lane,\n"
       "                  load_element(place, SIZE, whole * ELEMENTS + lane));\n");
  if (!by_lanes) {
    TEXT("  // Shared memory is there until y has been taken.\n"
         "  if (lane == 0) {\n"
         "    bulk_commit();\n"
         "    bulk_wait_read(0);\n"
         "  }\n");
  }
  TEXT("}\n");
}
