/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_short.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_short(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_short(ap_text *out, const ap_render_input *in) {
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
  int32_t apart = (rows == AP_LAYERNORM_ROWS_GATHERED) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// With x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
  TEXT(" and g = dy weight, over rows of at most COLUMNS columns:\n"
       "//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)) + dsum,    dweight = sum(dy x^),    dbias = sum(dy).\n");
  if (apart) {
    TEXT("// ");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT(", weight ");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", fp32 inside. Rows of all matrices but x lie one after the other from a\n"
         "// multiple of 16 bytes on: those of a piece are whole vectors, which a warp copies to a ring of its\n"
         "// own, and rows of x, which begin anywhere, by the vectors of memory that hold them.\n"
         "// There ");
    INTEGER(row_threads);
    TEXT(" lanes share a row, or two rows that are whole words between them, and dx takes the\n"
         "// place of dy, so that it goes back in whole vectors, too. A lane has neighbouring columns, from a word\n"
         "// on where the row begins at one; each number of words has a text of its own, in which all that a lane\n"
         "// has is in registers. Another kernel adds up the sums of the blocks. dx may be dy or dsum.\n");
  } else {
    TEXT("// ");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT(", weight ");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", fp32 inside. Rows of all matrices lie one after the other from a\n"
         "// multiple of 16 bytes on: those of a piece are whole vectors, which a warp copies to a ring of its\n");
    if (row_threads > 1) {
      TEXT("// own. There ");
      INTEGER(row_threads);
      TEXT(" lanes share a row, or two rows that are whole words between them, and dx takes the\n"
           "// place of x, so that it goes back in whole vectors, too. A lane has neighbouring columns, from a word\n"
           "// on where the row begins at one; each number of words has a text of its own, in which all that a lane\n"
           "// has is in registers. Another kernel adds up the sums of the blocks. dx may be x, dy or dsum.\n");
    } else {
      TEXT("// own. There a lane has as many rows as are whole ");
      STRING((cols == 8) ? "vectors" : "words");
      TEXT(", and dx takes the place of x, so that it\n"
           "// goes back in whole vectors, too. Each number of columns has a text of its own, in which all that\n"
           "// a lane has is in registers. Another kernel adds up the sums of the blocks. dx may be x, dy or\n"
           "// dsum.\n");
    }
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_short.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass bwd --norm ");
  STRING(in->word[AP_LAYERNORM_NORM]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" \\\n"
       "//     --dtype ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(" --params ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(" --arch ");
  INTEGER(arch);
  TEXT(" --rows ");
  STRING(in->word[AP_LAYERNORM_ROWS]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async_4.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_bwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of the weight's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int LANES = ROW_THREADS;     // that share a row\n"
       "constexpr int OWN = COLUMNS / LANES;   // columns of a lane, at the most\n"
       "constexpr int TAKEN = 32 / LANES;      // rows that a warp takes at once, or pairs of rows\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int RING_BYTES = SMEM_BYTES / WARPS; // of a warp\n"
       "constexpr int SLOTS_MAX = 4;                   // pieces in a ring\n"
       "constexpr int ROWS_MAX = 16;                   // of a piece, times 32\n"
       "constexpr int GROUP_MAX = ");
  INTEGER((cols == 8) ? 16 : 4);
  TEXT(" / SIZE; // rows that a lane has, at the most\n");
  if (cols == 8) {
    TEXT("constexpr int WORDS_MAX = 7 * 4; // of rows that it takes at once: seven vectors\n");
  } else if (row_threads > 1) {
    TEXT("constexpr int WORDS_MAX = OWN * SIZE / 4 + 1; // of a row, some of them in part\n");
  } else {
    TEXT("constexpr int WORDS_MAX = COLUMNS * SIZE / 4; // of a row\n");
  }
  TEXT("constexpr int SUMS_STRIDE = 33; // of a warp's lanes' sums of a column, which so are in all banks\n");
  if (apart) {
    TEXT("static_assert(TAKEN * GROUP_MAX * (2 * (COLUMNS - 1) * SIZE + COLUMNS * SIZE + 48) <= RING_BYTES,\n"
         "              \"a ring has a piece\");\n");
  } else {
    TEXT("static_assert(TAKEN * GROUP_MAX * (3 * (COLUMNS - 1) * SIZE + 8) <= RING_BYTES,\n"
         "              \"a ring has a piece\");\n");
  }
  TEXT("static_assert((2 * OWN * SUMS_STRIDE + 2 * COLUMNS) * 4 <= RING_BYTES,\n"
       "              \"sums have room where rows were\");\n"
       "\n"
       "// x^ is taken by these: of fp32 from the difference to the mean, which is exact where x is near it.\n"
       "__device__ __forceinline__ float base_of_row(float mean, float rstd) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  return mean;\n");
  } else {
    TEXT("  return -mean * rstd;\n");
  }
  TEXT("}\n"
       "\n"
       "__device__ __forceinline__ float normalized(float x, float rstd, float base) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  return (x - base) * rstd;\n");
  } else {
    TEXT("  return x * rstd + base;\n");
  }
  TEXT("}\n"
       "\n"
       "// Rows that a lane has: as many as are whole ");
  STRING((cols == 8) ? "vectors" : "words");
  TEXT(". columns: mostly a constant\n"
       "__device__ __forceinline__ int group_of(int columns) {\n"
       "  return max(GROUP_MAX / (columns & -columns), 1);\n"
       "}\n"
       "\n"
       "// How rows are dealt: a lane has `group` of them one after the other. Pieces have `rows` rows, and\n"
       "// a ring `slots` pieces of `bytes` bytes, of which each of the matrices has `matrix`.\n");
  if (apart) {
    TEXT("// Rows of x are `pitch` bytes apart there, behind the other matrices.\n"
         "struct Deal {\n"
         "  int group, rows, slots, bytes, matrices, matrix, pitch;\n"
         "};\n");
  } else {
    TEXT("struct Deal {\n"
         "  int group, rows, slots, bytes, matrices, matrix;\n"
         "};\n");
  }
  if (apart) {
    TEXT("// Vectors of memory that hold a row of x, at the most.\n"
         "__device__ __forceinline__ int vectors_of_row(int columns) {\n"
         "  return (columns * SIZE + 14 + 15) / 16;\n"
         "}\n"
         "\n");
  }
  TEXT("__device__ __forceinline__ Deal deal_rows(const Args *args) {\n"
       "  Deal deal;\n"
       "  const int columns = args->columns;\n"
       "  deal.group = group_of(columns);\n"
       "  deal.matrices = args->dsum ? 3 : 2;\n");
  if (apart) {
    TEXT("  // An odd number of vectors, so that rows are in different banks.\n"
         "  deal.pitch = (vectors_of_row(columns) | 1) * 16;\n"
         "  const int step = TAKEN * deal.group;\n"
         "  const int row = deal.pitch + (deal.matrices - 1) * columns * SIZE + 8; // with its moments\n");
  } else {
    TEXT("  const int step = TAKEN * deal.group, row = deal.matrices * columns * SIZE + 8; // with its moments\n");
  }
  TEXT("  const int room = min(RING_BYTES / (2 * step * row), ROWS_MAX * LANES / deal.group);\n"
       "  // Of few rows each warp has some.\n"
       "  const int64_t all = (args->rows + step - 1) / step, warps = gridDim.x * WARPS;\n"
       "  int steps = (int)min((all + warps - 1) / warps, (int64_t)max(room, 1));\n");
  if (row_threads > 4) {
    TEXT("  // Two steps are whole sectors of memory, of which else two pieces have half.\n"
         "  if (steps > 1)\n"
         "    steps -= steps % 2;\n");
  }
  TEXT("  deal.rows = step * steps;\n"
       "  deal.matrix = deal.rows * columns * SIZE;\n"
       "  deal.bytes = deal.rows * row;\n"
       "  deal.slots = min(RING_BYTES / deal.bytes, SLOTS_MAX);\n"
       "  return deal;\n"
       "}\n"
       "\n"
       "// Rows of a piece that exist.\n"
       "__device__ __forceinline__ int rows_of(const Args *args, Deal deal, int64_t piece) {\n"
       "  const int64_t left = args->rows - piece * deal.rows;\n"
       "  return (int)min(max(left, (int64_t)0), (int64_t)deal.rows);\n"
       "}\n"
       "\n"
       "// A piece of a matrix on its way, `count` elements. What is no whole vector is the matrix's end.\n"
       "__device__ __forceinline__ void send_matrix(const void *matrix, int64_t begin, int count,\n"
       "                                            unsigned char *place) {\n"
       "  const int lane = threadIdx.x % 32, vectors = count * SIZE / 16;\n"
       "  const unsigned char *const from = (const unsigned char *)matrix + begin * SIZE;\n"
       "#pragma unroll 1\n"
       "  for (int i = lane; i < vectors; i += 32)\n"
       "    cp_async_16(shared_address(place + i * 16), from + i * 16, 16);\n"
       "  const int element = vectors * (16 / SIZE) + lane;\n"
       "  if (element < count)\n"
       "    store_element(place, SIZE, element, load_element(from, SIZE, element));\n"
       "}\n"
       "\n");
  if (apart) {
    TEXT("// Rows of x on their way, each by the vectors of memory that hold it. place: of the piece's x\n"
         "__device__ __forceinline__ void send_rows(const Args *args, Deal deal, int64_t first, int rows,\n"
         "                                          unsigned char *place) {\n"
         "  const int row_bytes = args->columns * SIZE, vectors = vectors_of_row(args->columns);\n"
         "  int row = threadIdx.x % 32 / vectors, vector = threadIdx.x % 32 % vectors;\n"
         "  const unsigned char *const from = (const unsigned char *)args->x;\n"
         "#pragma unroll 1\n"
         "  for (; row < rows; row += 32 / vectors) {\n"
         "    const unsigned char *const begin = from + (first + row) * args->x_row_stride * SIZE;\n"
         "    const int bytes = (int)((uint64_t)begin % 16) + row_bytes; // from its first vector on\n"
         "    const unsigned char *const at = begin + row_bytes - bytes + vector * 16;\n"
         "    unsigned char *const to = place + row * deal.pitch + vector * 16;\n"
         "    const int there = bytes - vector * 16;\n"
         "    if (there >= 16 || (there > 0 && first + row < args->rows - 1))\n"
         "      cp_async_16(shared_address(to), at, 16);\n"
         "    else if (there > 0)\n"
         "#pragma unroll 1\n"
         "      for (int i = 0; i < 16 / SIZE; ++i) // behind the matrix nothing is read\n"
         "        store_element(to, SIZE, i, i * SIZE < there ? load_element(at, SIZE, i) : 0);\n"
         "    vector += 32 % vectors;\n"
         "    row += vector >= vectors;\n"
         "    vector -= vector >= vectors ? vectors : 0;\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// What the forward pass wrote of its rows, which may begin at any element, likewise.\n"
       "__device__ __forceinline__ void send_moments(const float *moments, int64_t begin, int count,\n"
       "                                             unsigned char *place) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const int vectors = (uint64_t)moments % 16 == 0 ? count / 4 : 0;\n"
       "#pragma unroll 1\n"
       "  for (int i = lane; i < vectors; i += 32)\n"
       "    cp_async_16(shared_address(place + i * 16), moments + begin + i * 4, 16);\n"
       "#pragma unroll 1\n"
       "  for (int i = vectors * 4 + lane; i < count; i += 32)\n"
       "    cp_async_4(shared_address(place + i * 4), moments + begin + i, 4);\n"
       "}\n"
       "\n"
       "// Puts zeros to a piece's place.\n"
       "__device__ __forceinline__ void clear_piece(Deal deal, unsigned char *place) {\n"
       "#pragma unroll 1\n"
       "  for (int i = threadIdx.x % 32; i < deal.bytes / 4; i += 32)\n"
       "    ((uint32_t *)place)[i] = 0;\n"
       "}\n"
       "\n"
       "// A piece, with what the forward pass wrote of its rows. The last one is filled with zeros.\n"
       "__device__ __forceinline__ void send_piece(const Args *args, Deal deal, int64_t piece,\n"
       "                                           unsigned char *place) {\n"
       "  const int rows = rows_of(args, deal, piece);\n"
       "  const int64_t first = piece * deal.rows, begin = first * args->columns;\n"
       "  const int count = rows * args->columns;\n"
       "  if (rows > 0 && rows < deal.rows) {\n"
       "    clear_piece(deal, place);\n"
       "    // All lanes arrive and wait: what there is comes behind the zeros.\n"
       "    __syncwarp();\n"
       "  }\n"
       "  if (rows > 0) {\n");
  if (apart) {
    TEXT("    send_rows(args, deal, first, rows, place + (deal.matrices - 1) * deal.matrix);\n"
         "    send_matrix(args->dy, begin, count, place);\n"
         "    if (args->dsum)\n"
         "      send_matrix(args->dsum, begin, count, place + deal.matrix);\n");
  } else {
    TEXT("    send_matrix(args->x, begin, count, place);\n"
         "    send_matrix(args->dy, begin, count, place + deal.matrix);\n"
         "    if (args->dsum)\n"
         "      send_matrix(args->dsum, begin, count, place + 2 * deal.matrix);\n");
  }
  TEXT("    unsigned char *const rstd = place + deal.bytes - 4 * deal.rows;\n"
       "    send_moments(args->rstd, first, rows, rstd);\n"
       "    if (CENTERED)\n"
       "      send_moments(args->mean, first, rows, rstd - 4 * deal.rows);\n"
       "  }\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n"
       "// Stores a piece of dx. place: (count)\n"
       "__device__ __forceinline__ void store_piece(const Args *args, Deal deal, int64_t piece,\n"
       "                                            const unsigned char *place) {\n"
       "  const int lane = threadIdx.x % 32, count = rows_of(args, deal, piece) * args->columns;\n"
       "  unsigned char *const to =\n"
       "      (unsigned char *)args->dx + piece * deal.rows * args->columns * SIZE;\n"
       "  const int vectors = count * SIZE / 16;\n"
       "  for (int i = lane; i < vectors; i += 32)\n"
       "    *(uint4 *)(to + i * 16) = *(const uint4 *)(place + i * 16);\n"
       "  const int element = vectors * (16 / SIZE) + lane;\n"
       "  if (element < count)\n"
       "    store_element(to, SIZE, element, load_element(place, SIZE, element));\n"
       "}\n"
       "\n"
       "// Reads `count` words, `unit` bytes at once. count, unit: constants\n"
       "__device__ __forceinline__ void take_words(const void *own, int count, int unit, uint32_t *word) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; i += unit / 4) {\n"
       "    if (unit == 16) {\n"
       "      const uint4 four = ((const uint4 *)own)[i / 4];\n"
       "      word[i] = four.x;\n"
       "      word[i + 1] = four.y;\n"
       "      word[i + 2] = four.z;\n"
       "      word[i + 3] = four.w;\n"
       "    } else if (unit == 8) {\n"
       "      const uint2 two = ((const uint2 *)own)[i / 2];\n"
       "      word[i] = two.x;\n"
       "      word[i + 1] = two.y;\n"
       "    } else {\n"
       "      word[i] = ((const uint32_t *)own)[i];\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ void put_words(void *own, int count, int unit, const uint32_t *word) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < count; i += unit / 4) {\n"
       "    if (unit == 16) {\n"
       "      const uint4 four = {word[i], word[i + 1], word[i + 2], word[i + 3]};\n"
       "      ((uint4 *)own)[i / 4] = four;\n"
       "    } else if (unit == 8) {\n"
       "      const uint2 two = {word[i], word[i + 1]};\n"
       "      ((uint2 *)own)[i / 2] = two;\n"
       "    } else {\n"
       "      ((uint32_t *)own)[i] = word[i];\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// The largest power of two that divides `bytes`, up to 16.\n"
       "__device__ __forceinline__ int unit_of(int bytes) {\n"
       "  return min(bytes & -bytes, 16);\n"
       "}\n"
       "\n"
       "// An element of words; number: a constant\n"
       "__device__ __forceinline__ float element_of(const uint32_t *word, int number) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  return widen_element_fp32(word[number]);\n");
  } else {
    TEXT("  return widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(number % 2 == 0 ? word[number / 2] & 0xffff\n"
         "                                                  : word[number / 2] >> 16);\n");
  }
  TEXT("}\n"
       "\n"
       "// What is the same in all rows of a lane.\n"
       "struct Sums {\n"
       "  float weight[OWN], weight_sum[OWN], bias_sum[OWN];\n"
       "};\n"
       "\n");
  if (row_threads > 1) {
    TEXT("// The columns that a lane has of a row, from an even one on; all but the last of the row's lanes have\n"
         "// an even number of them.\n"
         "struct Part {\n"
         "  int first, count;\n"
         "};\n"
         "\n"
         "// Of lane number `lane` of a row.\n"
         "__device__ __forceinline__ Part part_of(int columns, int lane) {\n"
         "  const int words = (columns + 1) / 2, first = words * lane / LANES * 2;\n"
         "  const Part part = {first, min(words * (lane + 1) / LANES * 2, columns) - first};\n"
         "  return part;\n"
         "}\n"
         "\n"
         "// Reads a lane's part of a row: `words` words, of which the last is there in part, or not; if `ahead`,\n"
         "// one element is in a word before them. What is not there is 0. own: the first word; words, ahead:\n"
         "// constants\n"
         "__device__ __forceinline__ void take_part(const unsigned char *own, int words, int ahead, int count,\n"
         "                                          uint32_t *word) {\n"
         "  const uint32_t *const from = (const uint32_t *)own;\n"
         "  const uint16_t *const halves = (const uint16_t *)own;\n"
         "#pragma unroll\n"
         "  for (int i = ahead; i < words - 1; ++i)\n"
         "    word[i] = from[i];\n"
         "  word[words - 1] = 0;\n"
         "  if (count >= 2 * words - ahead)\n"
         "    word[words - 1] = from[words - 1];\n"
         "  else if (ahead || count == 2 * words - 1)\n"
         "    word[words - 1] = halves[2 * words - 2];\n"
         "  if (ahead) {\n"
         "    word[0] = (uint32_t)halves[1] << 16;\n"
         "    word[words] = 0;\n"
         "    if (count == 2 * words)\n"
         "      word[words] = halves[2 * words];\n"
         "  }\n"
         "}\n"
         "\n");
    if (apart) {
      TEXT("// Of two words, one after the other, the one that begins `bits` later than the first.\n"
           "__device__ __forceinline__ uint32_t word_across(uint32_t first, uint32_t second, int bits) {\n"
           "  return (uint32_t)(((uint64_t)second << 32 | first) >> bits);\n"
           "}\n"
           "// Reads a lane's part of a row of x, which begins anywhere: `words` words, likewise. own: its first\n"
           "// element\n"
           "__device__ __forceinline__ void take_part_across(const unsigned char *own, int words, int count,\n"
           "                                                 uint32_t *word) {\n"
           "  const bool across = (uint64_t)own & 2;\n"
           "  const uint32_t *const from = (const uint32_t *)(own - ((uint64_t)own & 2));\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < words - 1; ++i)\n"
           "    word[i] = from[i];\n"
           "  word[words - 1] = word[words] = 0;\n"
           "  if (across || count >= 2 * words - 1)\n"
           "    word[words - 1] = from[words - 1];\n"
           "  if (across && count >= 2 * words)\n"
           "    word[words] = from[words];\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < words; ++i)\n"
           "    word[i] = word_across(word[i], word[i + 1], across ? 16 : 0);\n"
           "  // Another row's, or what lies between them.\n"
           "  if (count < 2 * words)\n"
           "    word[words - 1] = count < 2 * words - 1 ? 0 : word[words - 1] & 0xffff;\n"
           "}\n"
           "\n");
    }
    TEXT("// Puts a lane's part of dx there, likewise.\n"
         "__device__ __forceinline__ void put_part(const float *value, int words, int ahead, int count,\n"
         "                                         unsigned char *own) {\n"
         "  uint32_t *const to = (uint32_t *)own;\n"
         "  uint16_t *const halves = (uint16_t *)own;\n"
         "#pragma unroll\n"
         "  for (int i = ahead; i < words - 1; ++i)\n"
         "    to[i] = pack_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[2 * i - ahead], value[2 * i + 1 - ahead]);\n"
         "  const int last = 2 * words - 2 - ahead;\n"
         "  if (count >= 2 * words - ahead)\n"
         "    to[words - 1] = pack_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[last], value[last + 1]);\n"
         "  else if (ahead || count == 2 * words - 1)\n"
         "    halves[2 * words - 2] = (uint16_t)narrow_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[last]);\n"
         "  if (ahead) {\n"
         "    halves[1] = (uint16_t)narrow_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[0]);\n"
         "    if (count == 2 * words)\n"
         "      halves[2 * words] = (uint16_t)narrow_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[2 * words - 1]);\n"
         "  }\n"
         "}\n"
         "\n"
         "// Makes dx of a lane's part of a row, in the place of x, and adds up dweight and dbias.\n"
         "__device__ __forceinline__ void take_row(const Args *args, const Deal *deal, int words, int ahead,\n"
         "                                         int count, unsigned char *own,\n"
         "                                         const float *moment, Sums *sums");
    STRING(apart ? ", const unsigned char *x_own" : "");
    TEXT(") {\n"
         "  uint32_t x[WORDS_MAX], dy[WORDS_MAX];\n");
    if (apart) {
      TEXT("  take_part_across(x_own, words, count, x);\n"
           "  take_part(own, words, ahead, count, dy);\n");
    } else {
      TEXT("  take_part(own, words, ahead, count, x);\n"
           "  take_part(own + deal->matrix, words, ahead, count, dy);\n");
    }
    TEXT("  const float rstd = moment[0];\n"
         "  const float base = CENTERED ? base_of_row(moment[-deal->rows], rstd) : 0.0f;\n"
         "  float hat[OWN], g[OWN];\n"
         "  float2 both = {0.0f, 0.0f}; // the sums of g and of g x^\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < 2 * words; ++j) {\n"
         "    const float change = element_of(dy, ahead + j);\n"
         "    hat[j] = normalized(element_of(x, ");
    STRING(apart ? "j" : "ahead + j");
    TEXT("), rstd, base);\n"
         "    g[j] = change * sums->weight[j];\n"
         "    sums->weight_sum[j] += change * hat[j];\n"
         "    sums->bias_sum[j] += change;\n"
         "    both.x += g[j];\n"
         "    both.y += g[j] * hat[j];\n"
         "  }\n"
         "  both = sum_lanes_of_two(both, LANES);\n"
         "  // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
         "  const float scale = args->per_column * rstd;\n"
         "  const float sum = CENTERED ? both.x * scale : 0.0f, dot = both.y * scale;\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < 2 * words; ++j)\n"
         "    g[j] = g[j] * rstd - (sum + hat[j] * dot);\n"
         "  if (deal->matrices > 2) {\n"
         "    take_part(own + ");
    STRING(apart ? "" : "2 * ");
    TEXT("deal->matrix, words, ahead, count, x);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < 2 * words; ++j)\n"
         "      g[j] += element_of(x, ahead + j);\n"
         "  }\n"
         "  put_part(g, words, ahead, count, own);\n"
         "}\n"
         "\n");
    if (apart) {
      TEXT("// Puts dx to the places of dy, of all rows of a piece. x: of the first row; rstds: of the piece; words: a\n"
           "// constant\n"
           "__device__ __forceinline__ void take_piece(const Args *args, const Deal *deal, int words, int rows,\n"
           "                                           int64_t first, unsigned char *place,\n"
           "                                           const float *rstds, Part part, Sums *sums) {\n"
           "  const int group = deal->group, begin = threadIdx.x % 32 / LANES * group;\n"
           "  const unsigned char *const rows_of_x =\n"
           "      place + (deal->matrices - 1) * deal->matrix + part.first * SIZE;\n"
           "  // Where in a vector rows of x begin.\n"
           "  const uint32_t stride = (uint32_t)args->x_row_stride * SIZE;\n"
           "  const uint32_t byte = (uint32_t)(uint64_t)args->x + (uint32_t)first * stride;\n"
           "  // As often as the warp's first lanes have a row, since lanes tell each other: others' may be zeros.\n"
           "#pragma unroll 1\n"
           "  for (int row = begin; row - begin < rows; row += group * TAKEN) {\n"
           "    unsigned char *const own = place + (row * args->columns + part.first) * SIZE;\n"
           "    take_row(args, deal, words, 0, part.count, own, rstds + row, sums,\n"
           "             rows_of_x + row * deal->pitch + (byte + row * stride) % 16);\n"
           "    // Of two rows the second one begins in the middle of a word.\n"
           "    if (group == 2)\n"
           "      take_row(args, deal, words, 1, part.count, own + (args->columns - 1) * SIZE, rstds + row + 1,\n"
           "               sums, rows_of_x + (row + 1) * deal->pitch + (byte + (row + 1) * stride) % 16);\n"
           "  }\n"
           "}\n"
           "\n");
    } else {
      TEXT("// Puts dx to the places of x, of all rows of a piece. rstds: of the piece; words: a constant\n"
           "__device__ __forceinline__ void take_piece(const Args *args, const Deal *deal, int words, int rows,\n"
           "                                           unsigned char *place, const float *rstds, Part part,\n"
           "                                           Sums *sums) {\n"
           "  const int group = deal->group, begin = threadIdx.x % 32 / LANES * group;\n"
           "  // As often as the warp's first lanes have a row, since lanes tell each other: others' may be zeros.\n"
           "#pragma unroll 1\n"
           "  for (int row = begin; row - begin < rows; row += group * TAKEN) {\n"
           "    unsigned char *const own = place + (row * args->columns + part.first) * SIZE;\n"
           "    take_row(args, deal, words, 0, part.count, own, rstds + row, sums);\n"
           "    // Of two rows the second one begins in the middle of a word.\n"
           "    if (group == 2)\n"
           "      take_row(args, deal, words, 1, part.count, own + (args->columns - 1) * SIZE, rstds + row + 1,\n"
           "               sums);\n"
           "  }\n"
           "}\n"
           "\n");
    }
  } else {
    TEXT("// Makes dx of `count` rows, and adds up dweight and dbias. `ahead` elements come before the first\n"
         "// row. own: where these are, of x; moments: rstd of the rows, a piece's rows behind the means;\n"
         "// value: (ahead + count * columns) of dx; columns, count, ahead, unit: constants\n"
         "__device__ __forceinline__ void take_rows(const Args *args, const Deal *deal, int columns,\n"
         "                                          int count, int ahead, int unit,\n"
         "                                          const unsigned char *own, const float *moments,\n"
         "                                          Sums *sums, float *value) {\n"
         "  const int elements = ahead + count * columns, words = (elements * SIZE + 3) / 4;\n"
         "  uint32_t x[WORDS_MAX], dy[WORDS_MAX], rstds[GROUP_MAX], means[GROUP_MAX];\n"
         "  take_words(own, words, unit, x);\n"
         "  take_words(own + deal->matrix, words, unit, dy);\n"
         "  take_words(moments, count, unit_of(4 * count), rstds);\n"
         "  if (CENTERED)\n"
         "    take_words(moments - deal->rows, count, unit_of(4 * count), means);\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < count; ++i) {\n"
         "    const int first = ahead + i * columns;\n"
         "    const float rstd = widen_element_fp32(rstds[i]);\n"
         "    const float base = CENTERED ? base_of_row(widen_element_fp32(means[i]), rstd) : 0.0f;\n"
         "    float hat[COLUMNS], g[COLUMNS], sum = 0.0f, dot = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < columns; ++j) {\n"
         "      const float change = element_of(dy, first + j);\n"
         "      hat[j] = normalized(element_of(x, first + j), rstd, base);\n"
         "      g[j] = change * sums->weight[j];\n"
         "      sums->weight_sum[j] += change * hat[j];\n"
         "      sums->bias_sum[j] += change;\n"
         "      sum += g[j];\n"
         "      dot += g[j] * hat[j];\n"
         "    }\n"
         "    // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
         "    const float scale = args->per_column * rstd;\n"
         "    sum = CENTERED ? sum * scale : 0.0f;\n"
         "    dot *= scale;\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < columns; ++j)\n"
         "      value[first + j] = g[j] * rstd - (sum + hat[j] * dot);\n"
         "  }\n"
         "  if (deal->matrices > 2) {\n"
         "    take_words(own + 2 * deal->matrix, words, unit, x);\n"
         "#pragma unroll\n"
         "    for (int j = ahead; j < elements; ++j)\n"
         "      value[j] += element_of(x, j);\n"
         "  }\n"
         "}\n"
         "\n"
         "// Puts values of dx there. count: of words, a constant\n"
         "__device__ __forceinline__ void put_values(const float *value, int count, int unit,\n"
         "                                           unsigned char *own) {\n"
         "  uint32_t word[WORDS_MAX];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < count; ++i) {\n");
    if (dtype == AP_LAYERNORM_DTYPE_FP32) {
      TEXT("    word[i] = __builtin_bit_cast(uint32_t, value[i]);\n");
    } else {
      TEXT("    word[i] = pack_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(value[2 * i], value[2 * i + 1]);\n");
    }
    TEXT("  }\n"
         "  put_words(own, count, unit, word);\n"
         "}\n"
         "\n"
         "// Puts dx to the places of x, of all rows of a piece. rstds: of the piece; columns: a constant\n"
         "__device__ __forceinline__ void take_piece(const Args *args, const Deal *deal, int columns,\n"
         "                                           int rows, unsigned char *place, const float *rstds,\n"
         "                                           Sums *sums) {\n"
         "  const int group = group_of(columns);\n"
         "#pragma unroll 1\n"
         "  for (int row = threadIdx.x % 32 * group; row < rows; row += 32 * group) {\n"
         "    unsigned char *const own = place + row * columns * SIZE;\n"
         "    float value[");
    STRING((cols == 8) ? "WORDS_MAX * 4 / SIZE" : "COLUMNS + 1");
    TEXT("];\n");
    if (cols == 8) {
      TEXT("    const int words = group * columns * SIZE / 4;\n"
           "    take_rows(args, deal, columns, group, 0, 16, own, rstds + row, sums, value);\n"
           "    put_values(value, words, 16, own);\n");
    } else {
      TEXT("    const int words = columns * SIZE / 4, unit = unit_of(group * columns * SIZE);\n"
           "    take_rows(args, deal, columns, 1, 0, unit, own, rstds + row, sums, value);\n"
           "    put_values(value, words, unit, own);\n"
           "    if (group == 2) {\n"
           "      // Two rows share a word: the first one's last element goes there with the second one's first.\n"
           "      value[0] = value[columns - 1];\n"
           "      take_rows(args, deal, columns, 1, 1, 4, own + 4 * words, rstds + row + 1, sums, value);\n"
           "      put_values(value, words + 1, 4, own + 4 * words);\n"
           "    }\n");
    }
    TEXT("  }\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n");
  if (row_threads > 1) {
    TEXT("  // By a shuffle: the compiler knows that all lanes have the same.\n"
         "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n");
  } else {
    TEXT("  const int warp = threadIdx.x / 32;\n");
  }
  TEXT("  const int lane = threadIdx.x % 32, columns = args.columns;\n"
       "  const Deal deal = deal_rows(&args);\n"
       "  unsigned char *const ring = smem + warp * RING_BYTES;\n"
       "  const int64_t pieces = (args.rows + deal.rows - 1) / deal.rows;\n"
       "  const int64_t stride = (int64_t)gridDim.x * WARPS;\n"
       "  int64_t piece = (int64_t)blockIdx.x * WARPS + warp;\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < deal.slots; ++i)\n"
       "    send_piece(&args, deal, piece + i * stride, ring + i * deal.bytes);\n"
       "  Sums sums;\n");
  if (row_threads > 1) {
    TEXT("  const Part part = part_of(columns, lane % LANES);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < OWN; ++j) {\n"
       "    sums.weight[j] = 1.0f;\n");
  if (row_threads > 1) {
    TEXT("    if (args.weight && j < part.count)\n"
         "      sums.weight[j] = widen_element_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(\n"
         "          load_element(args.weight, PARAMETER_SIZE, part.first + j));\n");
  } else {
    TEXT("    if (args.weight && j < columns)\n"
         "      sums.weight[j] = widen_element_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(load_element(args.weight, PARAMETER_SIZE, j));\n");
  }
  TEXT("    sums.weight_sum[j] = sums.bias_sum[j] = 0.0f;\n"
       "  }\n"
       "  int slot = 0;\n"
       "  for (; piece < pieces; piece += stride) {\n"
       "    unsigned char *const place = ring + slot * deal.bytes;\n"
       "    const float *const rstds = (const float *)(place + deal.bytes) - deal.rows;\n"
       "    const int rows = rows_of(&args, deal, piece);\n"
       "    cp_async_wait(deal.slots - 1);\n"
       "    // All lanes arrive and wait: the piece is there.\n"
       "    __syncwarp();\n");
  if (row_threads > 1) {
    TEXT("    switch ((columns + 2 * LANES - 1) / (2 * LANES)) {\n");
    for (int32_t number = 1; number < 17; ++number) {
      if (((((number * row_threads) * 2) <= cols) && (((number * row_threads) * 2) > (cols - ((cols == 32) ? 16 : 32)))) && ((number > 1) || !apart)) {
        TEXT("    case ");
        INTEGER(number);
        TEXT(":\n"
             "      take_piece(&args, &deal, ");
        INTEGER(number);
        TEXT(", rows, ");
        STRING(apart ? "piece * deal.rows, " : "");
        TEXT("place, rstds, part, &sums);\n"
             "      break;\n");
      }
    }
    TEXT("    }\n");
  } else {
    TEXT("    switch (columns) {\n");
    for (int32_t more = 0; more < ((cols < 32) ? 8 : 16); ++more) {
      int32_t number = (((cols == 8) ? 0 : (cols / 2)) + 1) + more;
      TEXT("    case ");
      INTEGER(number);
      TEXT(":\n"
           "      take_piece(&args, &deal, ");
      INTEGER(number);
      TEXT(", rows, place, rstds, &sums);\n"
           "      break;\n");
    }
    TEXT("    }\n");
  }
  TEXT("    // All lanes arrive and wait: hands over dx.\n"
       "    __syncwarp();\n"
       "    store_piece(&args, deal, piece, place);\n"
       "    // All lanes arrive and wait: another piece may take this one's place.\n"
       "    __syncwarp();\n"
       "    send_piece(&args, deal, piece + deal.slots * stride, place);\n"
       "    slot = slot + 1 == deal.slots ? 0 : slot + 1;\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (!args.weight_parts && !args.bias_parts)\n"
       "    return;\n"
       "\n"
       "  // No copy is on its way, and no lane needs a piece.\n"
       "  float *const all = (float *)ring;\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < OWN; ++j) {\n"
       "    all[j * SUMS_STRIDE + lane] = sums.weight_sum[j];\n"
       "    all[(OWN + j) * SUMS_STRIDE + lane] = sums.bias_sum[j];\n"
       "  }\n"
       "  // All lanes arrive and wait: hands over their sums.\n"
       "  __syncwarp();\n"
       "  float *const total = all + 2 * OWN * SUMS_STRIDE; // of the warp's lanes: (2, columns)\n"
       "#pragma unroll 1\n"
       "  for (int i = lane; i < 2 * columns; i += 32) {\n"
       "    int column = i < columns ? i : i - columns, owner = 0;\n");
  if (row_threads > 1) {
    TEXT("#pragma unroll\n"
         "    for (int j = 1; j < LANES; ++j)\n"
         "      owner += column >= part_of(columns, j).first;\n"
         "    column -= part_of(columns, owner).first;\n");
  }
  TEXT("    const float *const own = all + (column + (i < columns ? 0 : OWN)) * SUMS_STRIDE + owner;\n"
       "    float sum = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < 32; j += LANES)\n"
       "      sum += own[j];\n"
       "    total[i] = sum;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of all warps.\n"
       "  __syncthreads();\n"
       "#pragma unroll 1\n"
       "  for (int i = threadIdx.x; i < 2 * columns; i += THREADS) {\n"
       "    float *const parts = i < columns ? args.weight_parts : args.bias_parts;\n"
       "    const float *const first = (const float *)smem + 2 * OWN * SUMS_STRIDE + i;\n"
       "    float sum = 0.0f;\n"
       "    if (!parts)\n"
       "      continue;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < WARPS; ++j)\n"
       "      sum += first[j * (RING_BYTES / 4)];\n"
       "    parts[(int64_t)blockIdx.x * args.pitch + (i < columns ? i : i - columns)] = sum;\n"
       "  }\n"
       "}\n");
}
