/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_pieces.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_pieces(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_pieces(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t packed = in->field[AP_LAYERNORM_TILE_PACKED];
  const int32_t piece = in->field[AP_LAYERNORM_TILE_PIECE];
  int32_t whole = (rows == AP_LAYERNORM_ROWS_PIECES) ? 1 : 0;
  int32_t wide = ((dtype == AP_LAYERNORM_DTYPE_FP32) || (params == AP_LAYERNORM_PARAMS_FP32)) ? 1 : 0;
  int32_t units = whole ? 1 : 4;
  int32_t turns = (whole && (row_threads <= 2)) ? 1 : 0;
  int32_t half = 0;
  int32_t many = (!whole && (row_threads <= 2)) ? 1 : 0;
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
  TEXT(", fp32 inside. Rows of x and of y lie one after the other, from a\n");
  if (whole) {
    TEXT("// multiple of 16 bytes on, and are whole vectors; y may be x. The copy engine brings the PIECE rows\n"
         "// of a ");
    STRING(packed ? "warp" : "block");
    TEXT(" to shared memory, as one piece. There each row has LANES lanes, which take its\n"
         "// vectors in turn. Blocks have rows in the order in which they begin: memory sees neighbouring\n"
         "// addresses. None has a second piece: while some wait for theirs, others of an SM add up, or write.\n");
  } else {
    TEXT("// multiple of 16 bytes on; y may be x. Four rows are whole vectors, and so are the PIECE rows of a\n"
         "// ");
    STRING(packed ? "warp" : "block");
    TEXT(", which the copy engine brings to shared memory, as one piece. There each row has LANES\n"
         "// lanes, which take its words in turn. Blocks have rows in the order in which they begin: memory\n"
         "// sees neighbouring addresses. None has a second piece: while some wait for theirs, others of an SM\n"
         "// add up, or write.\n");
  }
  TEXT("// With a residual x is x + residual, rounded, which is written, too; y and the sum may be x or the\n"
       "// residual, whose rows lie likewise.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_pieces.cu.j2 with tile ");
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
  TEXT(" --rows ");
  STRING(in->word[AP_LAYERNORM_ROWS]);
  TEXT(" --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
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
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
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
  TEXT(";  // rows\n"
       "constexpr int TEAM = ");
  INTEGER(packed ? 32 : threads);
  TEXT(";   // threads that share a piece\n"
       "constexpr int TEAMS = THREADS / TEAM;\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n");
  if (whole) {
    TEXT("constexpr int UNIT_ELEMENTS = ELEMENTS;\n"
         "constexpr int ROW_VECTORS = COLUMNS / ELEMENTS;\n"
         "constexpr int KEPT = ");
    INTEGER(wide ? 4 : 8);
    TEXT(";          // of a vector of parameters, which are ");
    STRING(wide ? "fp32" : in->word[AP_LAYERNORM_PARAMS]);
    TEXT("\n"
         "constexpr int PARTS = ELEMENTS / KEPT; // vectors of these for one of a row\n"
         "constexpr int PARAMETER_WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector of a row\n");
  } else {
    TEXT("constexpr int UNIT_ELEMENTS = 1;\n");
  }
  TEXT("constexpr int UNITS = ");
  INTEGER(units);
  TEXT("; // of a row, that are loaded before one is stored\n");
  if (turns) {
    TEXT("constexpr int APART = 8 / LANES; // rows whose vectors are read at the same time, of 128 bytes\n");
  }
  TEXT("constexpr int PLACE_BYTES = PIECE * COLUMNS * SIZE;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == TEAMS * PLACE_BYTES, \"the generator has another formula\");\n");
  if (whole) {
    TEXT("static_assert(PIECE * LANES == TEAM, \"each row has its lanes\");\n");
  } else {
    TEXT("static_assert(PIECE * LANES == TEAM && PIECE % 4 == 0, \"pieces are whole vectors, of all lanes\");\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("constexpr float FAR = 4.0f; // of the square of a mean, in variances\n");
  }
  if (whole) {
    TEXT("typedef uint4 Unit;\n"
         "typedef uint4 Parameters; // of some columns, weight or bias\n");
  } else {
    TEXT("typedef uint32_t Unit;\n"
         "typedef float2 Parameters; // weight and bias of a column\n");
  }
  TEXT("// What a lane has of a row.\n"
       "struct Row {\n"
       "  Unit *first; // its first unit, others are LANES further each\n"
       "  int units;\n");
  if (turns) {
    TEXT("  int begin; // number of the one that is taken first\n");
  }
  TEXT("};\n"
       "\n"
       "// Of thread number `thread` of a piece.\n"
       "__device__ __forceinline__ Row row_of(unsigned char *place, int columns, int thread) {\n"
       "  const int number = thread / LANES, lane = thread % LANES;\n"
       "  Unit *const first = (Unit *)(place + number * columns * SIZE);\n"
       "  const int own = (columns / UNIT_ELEMENTS - lane + LANES - 1) / LANES;\n");
  if (turns) {
    TEXT("  // Where rows begin at the same banks, the later ones do some vectors later.\n"
         "  const int vectors = columns / ELEMENTS, alike = 8 / max(min(vectors & -vectors, 8), 1);\n"
         "  const int begin = number % APART / alike;\n"
         "  const Row row = {first + lane, own, begin < own ? begin : 0};\n");
  } else {
    TEXT("  const Row row = {first + lane, own};\n");
  }
  TEXT("  return row;\n"
       "}\n"
       "\n"
       "// The values of a unit. value: (UNIT_ELEMENTS)\n"
       "__device__ __forceinline__ void widen_unit(Unit unit, float *value) {\n");
  if (whole) {
    TEXT("  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(unit, value);\n");
  } else {
    TEXT("  value[0] = widen_element_fp32(unit);\n");
  }
  TEXT("}\n"
       "\n"
       "__device__ __forceinline__ Unit narrow_unit(const float *value) {\n");
  if (whole) {
    TEXT("  return narrow_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value);\n");
  } else {
    TEXT("  return narrow_element_fp32(value[0]);\n");
  }
  TEXT("}\n"
       "\n");
  if (many) {
    TEXT("// Adds `count` units, from number `at` on: some first to each other, as a lane has many of them.\n");
  } else {
    TEXT("// Adds `count` units, from number `at` on.\n");
  }
  TEXT("__device__ __forceinline__ void add_up_units(Row row, int at, int count, float about,\n"
       "                                             float2 *");
  STRING(many ? "all" : "sums");
  TEXT(") {\n");
  if (many) {
    TEXT("  float2 own = {0.0f, 0.0f}, *const sums = &own;\n");
  }
  TEXT("  Unit unit[UNITS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i)\n"
       "    unit[i] = row.first[(at + i) * LANES];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    float value[UNIT_ELEMENTS];\n"
       "    widen_unit(unit[i], value);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < UNIT_ELEMENTS; ++j) {\n"
       "      const float difference = value[j] - about;\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("      sums->x += difference;\n");
  }
  TEXT("      sums->y += difference * difference;\n"
       "    }\n"
       "  }\n");
  if (many) {
    TEXT("  all->x += own.x;\n"
         "  all->y += own.y;\n");
  }
  TEXT("}\n"
       "\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// The sum of a row's differences to `about`, and of their squares. All lanes of the row get it.\n");
  } else {
    TEXT("// The sum of a row's squares, second. All lanes of the row get it.\n");
  }
  TEXT("__device__ __forceinline__ float2 add_up(Row row, float about) {\n"
       "  float2 sums = {0.0f, 0.0f};\n");
  if (turns) {
    TEXT("  int at = row.begin;\n"
         "#pragma unroll 1\n"
         "  for (int i = 0; i < row.units; ++i) {\n"
         "    add_up_units(row, at, 1, about, &sums);\n"
         "    at = at + 1 == row.units ? 0 : at + 1;\n"
         "  }\n");
  } else {
    TEXT("  int at = 0;\n");
    if (units > 1) {
      TEXT("#pragma unroll 1\n"
           "  for (; at + UNITS <= row.units; at += UNITS)\n"
           "    add_up_units(row, at, UNITS, about, &sums);\n");
    }
    TEXT("#pragma unroll 1\n"
         "  for (; at < row.units; ++at)\n"
         "    add_up_units(row, at, 1, about, &sums);\n");
  }
  if (row_threads > 1) {
    TEXT("  sums = sum_lanes_of_two(sums, LANES);\n");
  }
  TEXT("  return sums;\n"
       "}\n"
       "\n"
       "// Writes y of `count` units, from number `at` on, over them; x^ of a value is value * moments.y +\n"
       "// moments.x. parameters: those of the lane's first unit and of what follows\n"
       "__device__ __forceinline__ void write_units(Row row, int at, int count,\n"
       "                                            const Parameters *parameters, float2 moments) {\n"
       "  Unit unit[UNITS];\n");
  if (whole) {
    TEXT("  Parameters own[UNITS][2 * PARTS]; // weight, and bias\n");
  } else {
    TEXT("  Parameters own[UNITS];\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    unit[i] = row.first[(at + i) * LANES];\n");
  if (whole) {
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < 2 * PARTS; ++j)\n"
         "      own[i][j] = parameters[j * ROW_VECTORS + (at + i) * LANES];\n");
  } else {
    TEXT("    own[i] = parameters[(at + i) * LANES];\n");
  }
  TEXT("  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; ++i) {\n"
       "    float value[UNIT_ELEMENTS];\n"
       "    widen_unit(unit[i], value);\n");
  if (whole) {
    TEXT("    float weight[UNIT_ELEMENTS], bias[UNIT_ELEMENTS];\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < PARTS; ++j) {\n"
         "      widen_vector_");
    STRING(wide ? "fp32" : in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(own[i][j], weight + j * KEPT);\n"
         "      widen_vector_");
    STRING(wide ? "fp32" : in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(own[i][PARTS + j], bias + j * KEPT);\n"
         "    }\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < UNIT_ELEMENTS; ++j)\n"
         "      value[j] = (value[j] * moments.y + moments.x) * weight[j] + bias[j];\n");
  } else {
    TEXT("    value[0] = (value[0] * moments.y + moments.x) * own[i].x + own[i].y;\n");
  }
  TEXT("    row.first[(at + i) * LANES] = narrow_unit(value);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Replaces the rows of a piece, from `first_row` on, in its place by those of y, and stores their\n"
       "// moments.\n"
       "__device__ __forceinline__ void normalize_piece(const Args *args, unsigned char *place,\n"
       "                                                int64_t first_row, int rows,\n"
       "                                                const Parameters *parameters) {\n"
       "  const int thread = threadIdx.x % TEAM, number = thread / LANES;\n"
       "  const Row row = row_of(place, args->columns, thread);\n"
       "  float2 sums = add_up(row, 0.0f);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  float mean = sums.x * args->per_column, squares = sums.y - sums.x * mean;\n"
         "  // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "  if (__any_sync(0xffffffff, !(sums.x * mean <= FAR * squares))) {\n"
         "    sums = add_up(row, mean);\n"
         "    const float off = sums.x * args->per_column, left = sums.y - sums.x * off;\n"
         "    squares = left < 0.0f ? 0.0f : left; // NaN stays\n"
         "    mean += off;\n"
         "  }\n");
  } else {
    TEXT("  constexpr float mean = 0.0f;\n"
         "  const float squares = sums.y;\n");
  }
  TEXT("  const float rstd = reciprocal_sqrt_approx(squares * args->per_column + args->eps);\n"
       "  const float2 moments = {-mean * rstd, rstd};\n"
       "  const Parameters *const own = parameters + thread % LANES;\n");
  if (turns) {
    TEXT("  int at = row.begin;\n"
         "#pragma unroll 1\n"
         "  for (int i = 0; i < row.units; ++i) {\n"
         "    write_units(row, at, 1, own, moments);\n"
         "    at = at + 1 == row.units ? 0 : at + 1;\n"
         "  }\n");
  } else {
    TEXT("  int at = 0;\n");
    if (units > 1) {
      TEXT("#pragma unroll 1\n"
           "  for (; at + UNITS <= row.units; at += UNITS)\n"
           "    write_units(row, at, UNITS, own, moments);\n");
    }
    TEXT("#pragma unroll 1\n"
         "  for (; at < row.units; ++at)\n"
         "    write_units(row, at, 1, own, moments);\n");
  }
  TEXT("  if (thread % LANES != 0 || number >= rows)\n"
       "    return;\n"
       "  if (CENTERED && args->mean)\n"
       "    args->mean[first_row + number] = mean;\n"
       "  if (args->rstd)\n"
       "    args->rstd[first_row + number] = rstd;\n"
       "}\n"
       "\n");
  if (whole) {
    TEXT("// The words of a parameter of a row's vector; `absent` where there is none. word: (PARAMETER_WORDS)\n"
         "__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int vector,\n"
         "                                               float absent, uint32_t *word) {\n"
         "  if (!parameter) {\n"
         "    float value[ELEMENTS];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < ELEMENTS; ++i)\n"
         "      value[i] = absent;\n"
         "    narrow_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(value, ELEMENTS, word);\n"
         "    return;\n"
         "  }\n"
         "  load_parameter_words(parameter, PARAMETER_SIZE, vector * ELEMENTS, columns, ELEMENTS,\n"
         "                       (uint64_t)parameter % 16 == 0, word);\n"
         "}\n"
         "\n"
         "// Stores it, its parts one after the other. word: (PARAMETER_WORDS), to: (PARTS, ROW_VECTORS)\n"
         "__device__ __forceinline__ void store_parameter(const uint32_t *word, Parameters *to) {\n");
    if (wide && (params != AP_LAYERNORM_PARAMS_FP32)) {
      TEXT("  float value[ELEMENTS];\n"
           "  widen_words_");
      STRING(in->word[AP_LAYERNORM_PARAMS]);
      TEXT("(word, ELEMENTS, value);\n"
           "  *to = narrow_vector_fp32(value);\n");
    } else {
      TEXT("#pragma unroll\n"
           "  for (int i = 0; i < PARTS; ++i) {\n"
           "    const uint4 vector = {word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]};\n"
           "    to[i * ROW_VECTORS] = vector;\n"
           "  }\n");
    }
    TEXT("}\n"
         "\n"
         "// Brings weight and bias, as ");
    STRING(wide ? "fp32" : in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", to shared memory. Called by all threads. parameters:\n"
         "// (2 * PARTS, ROW_VECTORS)\n"
         "__device__ __forceinline__ void bring_parameters(const Args *args, Parameters *parameters) {\n"
         "#pragma unroll 1\n"
         "  for (int i = threadIdx.x; i < args->columns / ELEMENTS; i += THREADS) {\n"
         "    uint32_t weight[PARAMETER_WORDS], bias[PARAMETER_WORDS];\n"
         "    load_parameter(args->weight, args->columns, i, 1.0f, weight);\n"
         "    load_parameter(args->bias, args->columns, i, 0.0f, bias);\n"
         "    store_parameter(weight, parameters + i);\n"
         "    store_parameter(bias, parameters + PARTS * ROW_VECTORS + i);\n"
         "  }\n"
         "}\n");
  } else {
    TEXT("// A parameter of a column, `absent` where there are none.\n"
         "__device__ __forceinline__ float load_parameter(const void *parameter, int column, float absent) {\n"
         "  if (!parameter)\n"
         "    return absent;\n"
         "  return widen_element_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(load_element(parameter, PARAMETER_SIZE, column));\n"
         "}\n"
         "\n"
         "// Brings weight and bias to shared memory. Called by all threads. parameters: (COLUMNS)\n"
         "__device__ __forceinline__ void bring_parameters(const Args *args, Parameters *parameters) {\n"
         "#pragma unroll 1\n"
         "  for (int i = threadIdx.x; i < args->columns; i += THREADS) {\n"
         "    const Parameters two = {load_parameter(args->weight, i, 1.0f),\n"
         "                            load_parameter(args->bias, i, 0.0f)};\n"
         "    parameters[i] = two;\n"
         "  }\n"
         "}\n");
  }
  TEXT("// x + residual, rounded.\n");
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
       "  __shared__ __align__(8) unsigned char barriers[TEAMS * 8];\n");
  if (whole) {
    TEXT("  __shared__ __align__(16) Parameters parameters[2 * PARTS * ROW_VECTORS];\n");
  } else {
    TEXT("  __shared__ __align__(16) Parameters parameters[COLUMNS];\n");
  }
  TEXT("  const int team = threadIdx.x / TEAM, thread = threadIdx.x % TEAM, columns = args.columns;\n"
       "  unsigned char *const place = smem + team * PLACE_BYTES;\n"
       "  const uint32_t barrier = shared_address(barriers) + team * 8;\n"
       "  const int64_t first_row = ((int64_t)blockIdx.x * TEAMS + team) * PIECE;\n"
       "  const int rows = (int)max(min(args.rows - first_row, (int64_t)PIECE), (int64_t)0);\n"
       "  const int elements = rows * columns, vectors = elements / ELEMENTS; // whole ones\n"
       "  const int64_t begin = first_row * columns * SIZE;\n"
       "  const unsigned char *const from = (const unsigned char *)args.x + begin;\n"
       "  unsigned char *const to = (unsigned char *)args.y + begin;\n"
       "  if (thread == 0) {\n"
       "    mbarrier_init(barrier, 1);\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (thread == 0) {\n"
       "    mbarrier_arrive_expect(barrier, vectors * 16);\n"
       "    if (vectors > 0)\n"
       "      bulk_load(shared_address(place), from, vectors * 16, barrier);\n"
       "  }\n"
       "  bring_parameters(&args, parameters);\n"
       "  // All threads arrive and wait: the parameters are there, and the barriers.\n"
       "  __syncthreads();\n"
       "  wait_for_phase(barrier, 0);\n"
       "  if (rows < PIECE) {\n"
       "    // What the copy engine leaves at the matrix's end, and zeros behind it.\n"
       "    for (int i = vectors * ELEMENTS + thread; i < PIECE * columns; i += TEAM)\n"
       "      store_element(place, SIZE, i, i < elements ? load_element(from, SIZE, i) : 0);\n"
       "    // All threads of the piece arrive and wait: that is there.\n"
       "    ");
  STRING(packed ? "__syncwarp" : "__syncthreads");
  TEXT("();\n"
       "  }\n"
       "  if (args.residual) {\n"
       "    add_to_piece(&args, place, begin, thread, vectors, elements);\n"
       "    // All threads of the piece arrive and wait: the sum is in place of x.\n"
       "    ");
  STRING(packed ? "__syncwarp" : "__syncthreads");
  TEXT("();\n"
       "  }\n"
       "  normalize_piece(&args, place, first_row, rows, parameters);\n"
       "  // All threads of the piece arrive and wait: y is in place of x.\n"
       "  ");
  STRING(packed ? "__syncwarp" : "__syncthreads");
  TEXT("();\n"
       "#pragma unroll 4\n"
       "  for (int i = thread; i < vectors; i += TEAM)\n"
       "    ((uint4 *)to)[i] = ((const uint4 *)place)[i];\n");
  if (!whole) {
    TEXT("  if (rows < PIECE && vectors * ELEMENTS + thread < elements)\n"
         "    store_element(to, SIZE, vectors * ELEMENTS + thread,\n"
         "                  load_element(place, SIZE, vectors * ELEMENTS + thread));\n");
  }
  TEXT("}\n");
}
